//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/atomicfile"
	"busbar/internal/sysctld"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/install"
	"busbar/systemd"
)

// errNotRunning answers an action that only makes sense in a running system.
var errNotRunning = errors.New("this changes a running system, not a directory tree")

// execute changes the node. now are the answers to the action's own queries, read
// just before.
func (r *runner) execute(ctx context.Context, action plan.Action, now node.Facts) error {
	switch a := action.(type) {
	case plan.WriteFile:
		return r.writeFile(ctx, a, now)
	case plan.RemoveFile:
		return r.removeFile(ctx, a)
	case plan.WriteMarker:
		return r.writeState(node.MarkerPath, plan.MarkerText(a.Marker))
	case plan.SaveProtected:
		return r.writeState(node.ProtectedPath, plan.ProtectedText(a.NICs))
	case plan.UpdateGRUB:
		return r.updateGRUB(now)
	case plan.SetUnit:
		return r.setUnit(ctx, a, now)
	}
	if !r.running {
		return errNotRunning
	}
	switch a := action.(type) {
	case plan.SetSysctl:
		return r.setSysctl(a)
	case plan.LoadModule:
		return r.modprobe(a, now)
	case plan.ReloadUnits:
		return r.reloadUnits(ctx)
	case plan.UpdateInitramfs:
		return r.updateInitramfs(ctx, a, now)
	case plan.RestartUnit:
		return r.restartUnit(ctx, a)
	case plan.SetRDMANetns:
		return r.setRDMANetns(a)
	case plan.PCIAction:
		return r.writePCIRegister(a, now)
	case plan.NICAction:
		return r.setPort(ctx, a, now)
	default:
		return fmt.Errorf("this version does not know how to %s", action.Kind())
	}
}

func (r *runner) writeFile(ctx context.Context, a plan.WriteFile, now node.Facts) error {
	if a.Backup != "" {
		if err := r.backUp(ctx, a, now); err != nil {
			return err
		}
	}
	var options []atomicfile.Option
	if owned(a.Path) || slices.Contains([]string{install.UnitPath, install.ProfilePath, install.ModulesLoadPath}, a.Path) {
		options = append(options, atomicfile.MkdirAll())
	}
	_, err := atomicfile.Write(r.Root, a.Path, []byte(a.Text), options...)
	r.unitFiles = r.unitFiles || isUnitFile(a.Path)
	return err
}

// writeState writes a file of busbar's own for later runs.
func (r *runner) writeState(path, text string) error {
	_, err := atomicfile.Write(r.Root, path, []byte(text), atomicfile.Mode(0o644), atomicfile.MkdirAll())
	return err
}

// removeFile removes a file. A unit's drop-in that is gone stays in force until systemd
// reads the unit again, and no later plan knows which unit that was.
func (r *runner) removeFile(ctx context.Context, a plan.RemoveFile) error {
	if _, err := atomicfile.Remove(r.Root, a.Path); err != nil || !isUnitFile(a.Path) {
		return err
	}
	r.unitFiles = true
	if !r.running {
		return nil
	}
	if err := r.reloadUnits(ctx); err != nil && !errors.Is(err, systemd.ErrNotRunning) {
		return fmt.Errorf("it was removed, but systemd has not read the unit again: %w", err)
	}
	return nil
}

// backUp keeps the old content once: a backup that exists is the older one. It can be
// read by those who could read the file, and by nobody else.
func (r *runner) backUp(ctx context.Context, a plan.WriteFile, now node.Facts) error {
	old, err := a.Content(now)
	if err != nil {
		return fmt.Errorf("reading %s for its backup: %w", a.Path, err)
	}
	facts := r.read(ctx, now.Inventory, []node.Query{node.Path.Query(a.Path), node.Path.Query(a.Backup)})
	backup := node.Path.Get(facts, a.Backup)
	state, ok := backup.Get()
	switch {
	case !ok:
		return fmt.Errorf("whether the backup %s exists is unknown: %s", a.Backup, backup.Reason())
	case state.Exists || !old.Exists:
		return nil
	}
	mode := fs.FileMode(0o600)
	file, _ := node.Path.Get(facts, a.Path).Get()
	if bits, err := strconv.ParseUint(file.Mode, 8, 32); err == nil {
		mode = fs.FileMode(bits).Perm()
	}
	_, err = atomicfile.Write(r.Root, a.Backup, []byte(old.Text), atomicfile.Mode(mode))
	return err
}

// setSysctl writes a parameter's file below /proc/sys. The kernel takes a value in
// one write(2), so the file is no subject of atomicfile.
func (r *runner) setSysctl(a plan.SetSysctl) error {
	name, err := sysctld.Path(a.Name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.Root, "/proc/sys", name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.TrimSuffix(a.Value, "\n") + "\n")
	return errors.Join(err, f.Close())
}
