//go:build linux

package apply

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"busbar/node"
)

const oldImage = "nvme nvidia\nEND\n"

// initramfsRun makes modprobe.d and the image on a machine whose update-initramfs is script.
func initramfsRun(t *testing.T, script string, prepare ...func(*machine)) (*machine, Result) {
	t.Helper()
	m := newMachine(t)
	if script != "" {
		m.program("update-initramfs", script)
	}
	for _, p := range prepare {
		p(m)
	}
	r, err := run(t.Context(), m.options(m.plan(only("modprobe.d", "initrd"))), true)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

// left are the files of /boot but GRUB's.
func (m *machine) left() string {
	entries, err := os.ReadDir(filepath.Join(m.root, "boot"))
	must(err)
	var names []string
	for _, e := range entries {
		if e.Name() != "grub" {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestUpdateInitramfs(t *testing.T) {
	m, r := initramfsRun(t, "")
	if got := m.text(image); got != "nvme nvidia\noptions nvidia NVreg_A=1\nEND\n" {
		t.Errorf("the image is %q", got)
	}
	if got := m.left(); got != "initrd.img-6.8.0" {
		t.Errorf("/boot holds %s", got)
	}
	if r.ExitCode != 0 {
		t.Errorf("exit code %d: %v", r.ExitCode, outcomes(r))
	}
	before := m.snapshot()
	again, err := run(t.Context(), m.options(m.plan(only("modprobe.d", "initrd"))), true)
	if err != nil || len(again.Steps) != 0 {
		t.Errorf("a second run makes %v, %v", outcomes(again), err)
	}
	for name, info := range m.snapshot() {
		if before[name] != info {
			t.Errorf("a second run changes %s", name)
		}
	}
}

// What update-initramfs made is not taken, and the old image stands again.
func TestUpdateInitramfsPutsBack(t *testing.T) {
	const boot = `cd "$root/boot"; `
	for name, test := range map[string]struct{ script, says string }{
		"it fails":             {"echo no space left on device >&2; exit 1", "no space left on device"},
		"it fails half way":    {boot + "rm initrd.img-6.8.0; exit 3", "exit status 3"},
		"the image is cut off": {boot + "echo nvme nvidia > x; mv x initrd.img-6.8.0", "it is cut off"},
		"the image is gone":    {boot + "rm initrd.img-6.8.0", "is not whole"},
		"a module is lost":     {boot + `printf 'nvidia\noptions nvidia NVreg_A=1\nEND\n' > x; mv x initrd.img-6.8.0`, "lacks modules that were there: nvme"},
	} {
		t.Run(name, func(t *testing.T) {
			m, r := initramfsRun(t, test.script)
			step := r.Steps[len(r.Steps)-1]
			if step.Outcome != Failed || !strings.Contains(step.Err.Error(), test.says) || !strings.Contains(step.Err.Error(), "is the old one") {
				t.Errorf("%s: %v", step.Outcome, step.Err)
			}
			if got := m.text(image); got != oldImage {
				t.Errorf("the image is %q", got)
			}
			if got := m.left(); got != "initrd.img-6.8.0" {
				t.Errorf("/boot holds %s", got)
			}
		})
	}
}

// An update-initramfs that does nothing and says so nowhere (update_initramfs=no) is found out.
func TestUpdateInitramfsThatDoesNothing(t *testing.T) {
	m, r := initramfsRun(t, "echo Not updating initramfs.")
	step := r.Steps[len(r.Steps)-1]
	if step.Outcome != Failed || !strings.Contains(step.Err.Error(), "reads back as: NVreg_A not given") {
		t.Errorf("%s: %v", step.Outcome, step.Err)
	}
	if got := m.text(image) + m.left(); got != oldImage+"initrd.img-6.8.0" {
		t.Error(got)
	}
}

// A run that was killed has left the image before last.
func TestUpdateInitramfsAfterKill(t *testing.T) {
	m, _ := initramfsRun(t, "", func(m *machine) { m.write(image+keptSuffix, "older") })
	if got := m.left(); got != "initrd.img-6.8.0" {
		t.Errorf("/boot holds %s", got)
	}
}

// Nothing is touched while packages are installed.
func TestUpdateInitramfsBesidePackages(t *testing.T) {
	m := newMachine(t)
	m.write(dpkgLock, "")
	f, err := os.OpenFile(filepath.Join(m.root, dpkgLock), os.O_RDWR, 0)
	must(err)
	defer f.Close()
	// A lock of the open file, which another descriptor of this process meets as one of another process.
	must(unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	r := &runner{Options: Options{Root: m.root, Reader: m}, running: true}
	if err := r.packagesAtRest(); err == nil || !strings.Contains(err.Error(), "run apply again when that has ended") {
		t.Error(err)
	}
	must(unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
	if err := r.packagesAtRest(); err != nil {
		t.Error(err)
	}
}

// Without room for a second image nothing is begun.
func TestKeepNeedsRoom(t *testing.T) {
	m := newMachine(t)
	dir, err := os.Open(filepath.Join(m.root, "boot"))
	must(err)
	defer dir.Close()
	k := keptImage{dir, "initrd.img-6.8.0"}
	if err := k.room(1 << 60); err == nil || !strings.Contains(err.Error(), "remove kernels") {
		t.Error(err)
	}
	f, err := os.Open(filepath.Join(m.root, image))
	must(err)
	defer f.Close()
	// As on a file system without hard links.
	must(k.copy(f))
	m.write(image, "broken")
	must(k.putBack())
	if got := m.text(image) + m.left(); got != oldImage+"initrd.img-6.8.0" {
		t.Error(got)
	}
}

// The entry that boots next was changed since the plan was made.
func TestUpdateInitramfsOfAnotherKernel(t *testing.T) {
	m := newMachine(t)
	steps := only("initrd")(m.Read(context.Background(), m.Inventory(context.Background()), []node.Query{node.File.Query("/etc/nccl.conf")}))
	action := steps[0].Action
	facts := m.Read(context.Background(), m.Inventory(context.Background()), action.Queries())
	state, _ := node.Initramfs.Get(facts, "nvidia").Get()
	state.Image = "/boot/initrd.img-6.9.0"
	facts = facts.With(node.Initramfs.Answer("nvidia", node.Known(state, node.Source{})))
	if _, _, err := action.Done(facts); err == nil || !strings.Contains(err.Error(), "run apply again") {
		t.Error(err)
	}
}
