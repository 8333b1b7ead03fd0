//go:build linux

package apply

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"busbar/internal/pciregs"
	"busbar/internal/pciregs/pciregstest"
	"busbar/node"
	"busbar/plan"
)

// One register changes, and in it no more than the bits that are meant.
func TestPCIRegistersAreWritten(t *testing.T) {
	m := newMachine(t)
	result := applyOn(t, m.options(m.plan(only(port, nic))))
	want := []string{"set-acs:" + port + " done", "set-max-read-request:" + nic + " done", "set-relaxed-ordering:" + nic + " done"}
	if diff := cmp.Diff(want, outcomes(result)); diff != "" {
		t.Fatalf("steps (-want +got):\n%s%s", diff, errorsOf(result))
	}
	for name, tt := range map[string]struct {
		before []byte
		offset int
		after  []byte
	}{
		portConfig: {redirecting(t), 0xf2a, []byte{0x01, 0x00}},
		nicConfig:  {pciregstest.Config(t, "connectx3-endpoint"), 0x68, []byte{0x30, 0x50}},
	} {
		copy(tt.before[tt.offset:], tt.after)
		if got := []byte(m.text(name)); !bytes.Equal(got, tt.before) {
			t.Errorf("%s: % x at %#x, or others changed", name, got[tt.offset:tt.offset+2], tt.offset)
		}
	}
}

// A plan that should not have been made is not carried out.
func TestPCIRegistersAreNotWritten(t *testing.T) {
	off := plan.SetACS{Address: port, Off: pciregs.Redirect}
	for name, tt := range map[string]struct {
		change func(*machine)
		action plan.Action
		want   string // a part of the error
	}{
		"in a virtual machine": {func(m *machine) { m.virtualization = "kvm" }, off, "this is a virtual machine (kvm)"},
		"turned on in a virtual machine": {func(m *machine) { m.virtualization = "kvm" }, plan.SetACS{Address: port, On: pciregs.DirectTrans},
			"this is a virtual machine (kvm)"},
		"above a guest's device": {func(m *machine) { m.nicDriver = "vfio-pci" }, off, "the ACS of 0000:17:01.0 keeps 0000:19:00.0 apart"},
		"no link to configuration space": {func(m *machine) {
			must(os.Remove(filepath.Join(m.root, nicConfig)))
			must(os.Symlink("nowhere", filepath.Join(m.root, nicConfig)))
		}, plan.SetMaxReadRequest{Address: nic, Bytes: 4096}, "no such file or directory"},
		"no address": {func(*machine) {}, plan.SetMaxReadRequest{Address: "../19:00.0", Bytes: 4096}, `"../19:00.0" is no PCI address`},
		"it goes meanwhile": {func(m *machine) { m.write(nicConfig, strings.Repeat("\xff", 4096)) }, plan.SetMaxReadRequest{Address: nic, Bytes: 4096},
			"it reads as all ones: the device does not answer"},
		"it cannot be located": {func(m *machine) { m.write(nicConfig, string(pciregstest.Config(t, "connectx3-endpoint")[:64])) }, plan.SetMaxReadRequest{Address: nic, Bytes: 4096},
			"are shown to root alone"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			state := m.registers(port)
			facts := node.Facts{}.WithInventory(node.Inventory{}).With(node.PCIRegisters.Answer(port, node.Known(state, node.Source{})))
			tt.change(m)
			facts = facts.WithInventory(m.Inventory(context.Background()))
			before := m.snapshot()
			r := &runner{Options: m.options(nil), running: true}
			if err := r.execute(t.Context(), tt.action, facts); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, wanted %s", err, tt.want)
			}
			if diff := cmp.Diff(before, m.snapshot()); diff != "" {
				t.Errorf("the node was changed:\n%s", diff)
			}
		})
	}
}

// Turning functions on takes nothing from a guest.
func TestACSMayBeTurnedOnAboveAGuest(t *testing.T) {
	m := newMachine(t)
	m.nicDriver = "vfio-pci"
	steps := func(node.Facts) []plan.Step {
		return []plan.Step{{Target: port, Action: plan.SetACS{Address: port, On: pciregs.DirectTrans}}}
	}
	if result := applyOn(t, m.options(m.plan(steps))); result.ExitCode != 0 || len(result.Steps) != 1 || m.text(portConfig)[0xf2a] != 0x5d {
		t.Errorf("exit code %d, %v, %s", result.ExitCode, outcomes(result), errorsOf(result))
	}
}

// A device that takes a write without keeping it has failed.
func TestPCIWriteThatDoesNotHold(t *testing.T) {
	m := newMachine(t)
	m.onRead = func() { m.write(nicConfig, string(pciregstest.Config(t, "connectx3-endpoint"))) } // its firmware knows better
	steps := func(node.Facts) []plan.Step {
		return []plan.Step{{Target: nic, Action: plan.SetMaxReadRequest{Address: nic, Bytes: 4096}}}
	}
	result := applyOn(t, m.options(m.plan(steps)))
	if got := errorsOf(result); result.ExitCode != plan.ExitPartial || !strings.Contains(got, "it was done, yet reads back as: 512 bytes") {
		t.Errorf("exit code %d: %s", result.ExitCode, got)
	}
}

// A kernel in lockdown answers reads, and a write with EPERM; so does a sealed file.
func TestPCIWriteUnderLockdown(t *testing.T) {
	fd, err := unix.MemfdCreate("config", unix.MFD_ALLOW_SEALING)
	must(err)
	config := os.NewFile(uintptr(fd), "config")
	defer config.Close()
	_, err = config.Write(redirecting(t))
	must(err)
	_, err = unix.FcntlInt(config.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	must(err)
	err = changeRegister(config, plan.SetACS{Address: port, Off: pciregs.Redirect})
	if err == nil || !strings.Contains(err.Error(), "operation not permitted (a kernel in lockdown") {
		t.Error(err)
	}
}
