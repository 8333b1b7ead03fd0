//go:build linux

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
)

// writePCIRegister changes a register of a PCI function through its configuration space in sysfs: it is read
// afresh, and no more than its own two bytes are written. Where the platform forbids an ACS
// function to be set, it is not, whatever was planned.
func (r *runner) writePCIRegister(a plan.PCIAction, now node.Facts) error {
	if !node.IsPCIAddress(a.Function()) {
		return fmt.Errorf("%q is no PCI address", a.Function())
	}
	if a, ok := a.(plan.SetACS); ok {
		why := now.Inventory.ACSPortRefusal(a.Address, node.PCIRegisters.Get(now, a.Address))
		if why == "" && a.Off&pciregs.Redirect != 0 {
			why = now.Inventory.RedirectOffRefusal(a.Address)
		}
		if why != "" {
			return errors.New(why)
		}
	}
	name := filepath.Join(r.Root, "/sys/bus/pci/devices", a.Function(), "config")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(changeRegister(f, a), f.Close())
}

func changeRegister(config *os.File, a plan.PCIAction) error {
	space, err := pciregs.Open(config)
	if err != nil {
		return fmt.Errorf("reading %s: %w", config.Name(), err)
	}
	w, err := a.Write(space)
	if err != nil {
		return fmt.Errorf("reading %s: %w", config.Name(), err)
	}
	_, err = config.WriteAt(w.Bytes(), w.Offset)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (a kernel in lockdown lets nobody write there: see /sys/kernel/security/lockdown)", err)
	}
	return err
}
