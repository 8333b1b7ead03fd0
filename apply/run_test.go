//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"busbar/node"
	"busbar/plan"
)

// killAt makes the test binary run everything on the machine in killRoot and kill
// itself at that read or progress report, from 1.
const (
	killRoot = "BUSBAR_APPLY_KILL_ROOT"
	killAt   = "BUSBAR_APPLY_KILL_AT"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(killRoot); root != "" {
		victim(root)
		return
	}
	os.Exit(m.Run())
}

func victim(root string) {
	left, err := strconv.Atoi(os.Getenv(killAt))
	must(err)
	tick := func() {
		if left--; left == 0 {
			must(unix.Kill(os.Getpid(), unix.SIGKILL))
			select {}
		}
	}
	node := &machine{root: root, onRead: tick}
	o := node.options(node.plan(everything))
	o.Observer = observer{started: func(plan.Step) { tick() }, ended: func(plan.Step) { tick() }}
	if result, err := run(context.Background(), o, true); err != nil || result.ExitCode != 0 {
		fmt.Println(result.ExitCode, err)
		os.Exit(1)
	}
}

type observer struct {
	started, ended func(plan.Step)
	waiting        func(string)
	pass           func(int)
}

func (o observer) StepStarted(_, _ int, s plan.Step) {
	if o.started != nil {
		o.started(s)
	}
}

func (o observer) StepEnded(_, _ int, s plan.Step, _ string, _ error, _ time.Duration) {
	if o.ended != nil {
		o.ended(s)
	}
}

func (o observer) Waiting(what string, _ time.Duration) {
	if o.waiting != nil {
		o.waiting(what)
	}
}

func (o observer) PassStarted(pass int, _ string) {
	if o.pass != nil {
		o.pass(pass)
	}
}

// applyOn runs and expects a verdict.
func applyOn(t *testing.T, o Options) Result {
	t.Helper()
	result, err := run(t.Context(), o, true)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// errorsOf are the errors of the steps that have one.
func errorsOf(r Result) string {
	var out []string
	for _, s := range r.Steps {
		if s.Err != nil {
			out = append(out, s.Err.Error())
		}
	}
	return strings.Join(out, "\n")
}

func TestEveryKindOfStep(t *testing.T) {
	m := newMachine(t)
	result := applyOn(t, m.options(m.plan(everything)))
	want := []string{
		"write-file:/etc/sysctl.d/zz-busbar.conf done",
		"write-file:/etc/nccl.conf done",
		"remove-file:/etc/modules-load.d/busbar.conf done",
		"write-file:/etc/default/grub.d/zz-busbar.cfg done",
		"update-grub:/boot/grub/grub.cfg done",
		"write-file:/etc/modprobe.d/zz-busbar.conf done",
		"update-initramfs:/boot/initrd.img-6.8.0 done",
		"write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf done",
		"load-module:nvidia_peermem done",
		"set-acs:0000:17:01.0 done",
		"set-max-read-request:0000:19:00.0 done",
		"set-relaxed-ordering:0000:19:00.0 done",
		"set-rdma-netns:ib_core done",
		"set-sysctl:kernel.numa_balancing done",
		"daemon-reload:slurmd.service done",
		"restart-unit:slurmd.service done",
		"set-unit:nvidia-fabricmanager.service done",
		"save-protected:protected done",
		"write-marker:marker done",
	}
	if diff := cmp.Diff(want, outcomes(result)); diff != "" {
		t.Errorf("steps (-want +got):\n%s\n%s", diff, errorsOf(result))
	}
	if result.ExitCode != 0 || result.Passes != 1 || len(result.Final.Plan.Steps) != 0 {
		t.Errorf("exit code %d, %d passes, %d steps left", result.ExitCode, result.Passes, len(result.Final.Plan.Steps))
	}
	for name, want := range map[string]string{
		"/etc/nccl.conf":                      "# BEGIN busbar\nNCCL_IB_TC=104\n# END busbar\nNCCL_IB_HCA==mlx5_0\n",
		"/etc/nccl.conf.busbar-backup":        "NCCL_IB_HCA==mlx5_0\n",
		"/boot/grub/grub.cfg":                 "menuentry 'Linux' {\n\tlinux /vmlinuz-6.8.0 root=/dev/sda1 ro quiet iommu=pt\n}\n",
		"/proc/sys/kernel/numa_balancing":     "0\n",
		"/units/slurmd.service":               "enabled active unlimited",
		"/units/nvidia-fabricmanager.service": "enabled active 65536",
	} {
		if got := m.text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{node.MarkerPath, node.ProtectedPath} {
		if info, err := os.Stat(m.root + name); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}

	t.Run("again", func(t *testing.T) {
		before := m.snapshot()
		o := m.options(m.plan(everything))
		o.Approve = func(plan.Plan) (bool, error) { t.Error("asked for nothing"); return true, nil }
		result := applyOn(t, o)
		if len(result.Steps) != 0 || result.ExitCode != 0 {
			t.Errorf("%v, exit code %d", outcomes(result), result.ExitCode)
		}
		if diff := cmp.Diff(before, m.snapshot()); diff != "" {
			t.Errorf("the second run changed the node:\n%s", diff)
		}
	})
}

func TestKilledAnywhereConverges(t *testing.T) {
	want := newMachine(t)
	applyOn(t, want.options(want.plan(everything)))
	for at := 1; ; at++ {
		m := newMachine(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killRoot+"="+m.root, fmt.Sprintf("%s=%d", killAt, at))
		output, err := cmd.CombinedOutput()
		if err == nil {
			if at < 40 {
				t.Errorf("the run ended after %d reports", at)
			}
			return // ran to its end
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("at %d: %v: %s", at, err, output)
		}
		if result := applyOn(t, m.options(m.plan(everything))); result.ExitCode != 0 {
			t.Errorf("killed at %d, exit code %d: %s", at, result.ExitCode, errorsOf(result))
		}
		for _, name := range []string{"/etc/nccl.conf", "/etc/nccl.conf.busbar-backup", "/boot/grub/grub.cfg", "/units/slurmd.service", portConfig, nicConfig, node.MarkerPath, node.ProtectedPath} {
			if got, want := m.text(name), want.text(name); got != want {
				t.Errorf("killed at %d, %s is %q, want %q", at, name, got, want)
			}
		}
	}
}

func TestFailedStepStopsWhatRequiresIt(t *testing.T) {
	m := newMachine(t)
	must(os.RemoveAll(m.root + "/etc/default/grub.d"))
	m.write("/etc/default/grub.d", "a file where the directory should be") // the drop-in cannot be written
	result := applyOn(t, m.options(m.plan(only("grub", "marker", "numa"))))
	want := []string{
		"write-file:/etc/default/grub.d/zz-busbar.cfg failed",
		"update-grub:/boot/grub/grub.cfg skipped",
		"set-sysctl:kernel.numa_balancing done",
		"write-marker:marker skipped",
	}
	if diff := cmp.Diff(want, outcomes(result)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if want := "it requires write-file:/etc/default/grub.d/zz-busbar.cfg, which was not done"; !strings.Contains(errorsOf(result), want) {
		t.Errorf("%s\nlacks %q", errorsOf(result), want)
	}
	if result.ExitCode != plan.ExitPartial {
		t.Errorf("exit code %d", result.ExitCode)
	}
}

func TestStepErrors(t *testing.T) {
	tests := []struct {
		name  string
		steps func(node.Facts) []plan.Step
		setUp func(m *machine)
		// betweens happens between planning and the steps.
		between func(m *machine)
		want    string
		keeps   string // a file that stays as between left it
	}{{
		name: "read back", steps: only("peermem"),
		setUp: func(m *machine) { m.program("modprobe", "exit 0") },
		want:  "it was done, yet reads back as: not loaded",
	}, {
		name: "no modprobe", steps: only("peermem"),
		setUp: func(m *machine) { must(os.Remove(m.root + "/bin/modprobe")) },
		want:  "there is no modprobe in ",
	}, {
		name: "peer memory", steps: only("peermem"),
		setUp: func(m *machine) {
			m.program("modprobe", `echo "modprobe: ERROR: could not insert '$1': Invalid argument" >&2; exit 1`)
		},
		want: "without peer-memory symbols",
	}, {
		name: "update-grub", steps: only("grub"),
		setUp: func(m *machine) {
			m.program("update-grub", "echo Sourcing; echo 'grub-probe: error: no device' >&2; exit 3")
		},
		want: "update-grub: exit status 3: Sourcing; grub-probe: error: no device",
	}, {
		name: "update-grub ends half-way", steps: only("grub"), keeps: "/boot/grub/grub.cfg",
		setUp: func(m *machine) {
			m.program("update-grub", `echo menuentry > "$2"; echo 'cat: write error: No space left on device' >&2; exit 1`)
		},
		want: "update-grub: exit status 1: cat: write error: No space left on device",
	}, {
		name: "update-grub finds no kernel", steps: only("grub"), keeps: "/boot/grub/grub.cfg",
		setUp: func(m *machine) { m.program("update-grub", `echo 'set timeout=0' > "$2"`) },
		want:  "what update-grub generated is not put in place: /boot/grub/grub.cfg has no entry that boots Linux",
	}, {
		name: "update-grub without effect", steps: only("grub"),
		setUp: func(m *machine) { m.program("update-grub", "exit 0") },
		want:  "it was done, yet reads back as: iommu=pt is not in force",
	}, {
		name: "no such parameter", steps: only("numa"),
		between: func(m *machine) { must(os.Remove(m.root + "/proc/sys/kernel/numa_balancing")) },
		want:    "whether it is to be done is unknown: the kernel has no such parameter",
	}, {
		name: "foreign file changed", steps: only("nccl"),
		between: func(m *machine) { m.write("/etc/nccl.conf", "NCCL_DEBUG=INFO\n") },
		want:    "/etc/nccl.conf was changed since it was planned", keeps: "/etc/nccl.conf",
	}, {
		name: "foreign file appeared", steps: only("nccl"),
		setUp:   func(m *machine) { must(os.Remove(m.root + "/etc/nccl.conf")) },
		between: func(m *machine) { m.write("/etc/nccl.conf", "NCCL_DEBUG=INFO\n") },
		want:    "/etc/nccl.conf was changed since it was planned", keeps: "/etc/nccl.conf",
	}, {
		name: "foreign file to be removed changed",
		steps: func(node.Facts) []plan.Step {
			return []plan.Step{{Target: "/etc/nccl.conf", Action: plan.RemoveFile{Path: "/etc/nccl.conf"}}}
		},
		between: func(m *machine) { m.write("/etc/nccl.conf", "NCCL_DEBUG=INFO\n") },
		want:    "/etc/nccl.conf was changed since it was planned", keeps: "/etc/nccl.conf",
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			if test.setUp != nil {
				test.setUp(m)
			}
			kept := ""
			o := m.options(m.plan(test.steps))
			o.Approve = func(plan.Plan) (bool, error) {
				if test.between != nil {
					test.between(m)
				}
				kept = m.text(test.keeps)
				return true, nil
			}
			result := applyOn(t, o)
			if got := errorsOf(result); !strings.Contains(got, test.want) {
				t.Errorf("errors %q, want %q", got, test.want)
			}
			if result.ExitCode != plan.ExitPartial {
				t.Errorf("exit code %d", result.ExitCode)
			}
			if got := m.text(test.keeps); test.keeps != "" && got != kept {
				t.Errorf("%s was %q and is %q", test.keeps, kept, got)
			}
		})
	}
}

// An update-grub of the site's own may not know -o. Of one that was killed nothing stays.
func TestUpdateGRUBWritesItself(t *testing.T) {
	m := newMachine(t)
	m.write(lockDir+"/"+generatedPrefix+"4711.new", "menuentry")
	m.program("update-grub", `
printf "menuentry 'Linux' {\n\tlinux /vmlinuz-6.8.0 root=/dev/sda1 ro iommu=pt\n}\n" > "$root/boot/grub/grub.cfg"`)
	if result := applyOn(t, m.options(m.plan(only("grub")))); result.ExitCode != 0 {
		t.Errorf("exit code %d: %s", result.ExitCode, errorsOf(result))
	}
	if left, _ := filepath.Glob(m.root + lockDir + "/" + generatedPrefix + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestChangedSinceButOwned(t *testing.T) {
	m := newMachine(t)
	o := m.options(m.plan(only("zz-busbar.conf", "numa", "peermem")))
	o.Approve = func(plan.Plan) (bool, error) {
		m.write("/etc/sysctl.d/zz-busbar.conf", "torn")
		m.write("/etc/sysctl.d/10-other.conf", "vm.swappiness = 1\n")
		m.write("/proc/sys/kernel/numa_balancing", "2\n")
		m.write("/sys/module/nvidia_peermem/initstate", "live\n")
		return true, nil
	}
	result := applyOn(t, o)
	want := []string{
		"write-file:/etc/sysctl.d/zz-busbar.conf done",
		"write-file:/etc/modprobe.d/zz-busbar.conf done",
		"write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf done",
		"load-module:nvidia_peermem already",
		"set-sysctl:kernel.numa_balancing done",
	}
	if diff := cmp.Diff(want, outcomes(result)); diff != "" || result.ExitCode != 0 {
		t.Errorf("exit code %d, steps (-want +got):\n%s", result.ExitCode, diff)
	}
}

func TestReloadWhateverSystemdSays(t *testing.T) {
	m := newMachine(t)
	m.blind = true
	m.write("/units/slurmd.service", "enabled inactive 65536") // so that nothing restarts it
	result := applyOn(t, m.options(m.plan(only("slurmd"))))
	if got := m.text("/units/loaded-slurmd.service"); got != "unlimited" || result.ExitCode != 0 {
		t.Errorf("systemd knows of limit %s, exit code %d", got, result.ExitCode)
	}
}

func TestBackupIsKeptOnceAndPrivate(t *testing.T) {
	m := newMachine(t)
	must(os.Chmod(m.root+"/etc/nccl.conf", 0o640))
	applyOn(t, m.options(m.plan(only("nccl"))))
	backup := "/etc/nccl.conf.busbar-backup"
	if info, err := os.Stat(m.root + backup); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("backup: %v, %v", info.Mode(), err)
	}
	m.write("/etc/nccl.conf", "NCCL_DEBUG=INFO\n")
	applyOn(t, m.options(m.plan(only("nccl"))))
	if got := m.text(backup); got != "NCCL_IB_HCA==mlx5_0\n" {
		t.Errorf("the backup was replaced by %q", got)
	}
}

func TestNothingChangedWithoutApproval(t *testing.T) {
	broken := errors.New("broken")
	interrupted, cancel := context.WithCancel(t.Context())
	refused, refuse := context.WithCancelCause(t.Context())
	tests := []struct {
		name    string
		ctx     context.Context
		approve func(plan.Plan) (bool, error)
		want    error
		code    int
	}{
		{"declined", t.Context(), func(plan.Plan) (bool, error) { return false, nil }, ErrDeclined, plan.ExitError},
		{"no terminal", t.Context(), func(plan.Plan) (bool, error) { return false, broken }, broken, plan.ExitError},
		{"interrupted", interrupted, func(plan.Plan) (bool, error) { cancel(); select {} }, ErrInterrupted, plan.ExitPartial},
		{"declined by a signal", refused, func(plan.Plan) (bool, error) { refuse(ErrDeclined); select {} }, ErrDeclined, plan.ExitError},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			before := m.snapshot()
			o := m.options(m.plan(everything))
			o.Approve = test.approve
			result, err := run(test.ctx, o, true)
			if !errors.Is(err, test.want) || result.ExitCode != test.code {
				t.Errorf("exit code %d, error %v", result.ExitCode, err)
			}
			// The lock's directory is new in /run.
			after := m.snapshot()
			delete(before, "/run")
			delete(after, "/run")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the node was changed:\n%s", diff)
			}
		})
	}
}

func TestPlanFails(t *testing.T) {
	m := newMachine(t)
	broken := errors.New("broken")
	calls := 0
	o := m.options(func(ctx context.Context) (Planned, error) {
		if calls++; calls > 1 {
			return Planned{}, broken
		}
		return m.plan(only("numa"))(ctx)
	})
	result, err := run(t.Context(), o, true)
	if !errors.Is(err, broken) || result.ExitCode != plan.ExitError || len(result.Steps) != 1 {
		t.Errorf("exit code %d, steps %v, error %v", result.ExitCode, outcomes(result), err)
	}
}

func TestInterruptedAfterStep(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := m.options(m.plan(everything))
	o.Observer = observer{started: func(s plan.Step) {
		if strings.HasPrefix(s.ID, "update-grub") {
			cancel()
		}
	}}
	result, err := run(ctx, o, true)
	if err != nil {
		t.Fatal(err)
	}
	got := outcomes(result)
	if want := "update-grub:/boot/grub/grub.cfg done"; got[4] != want {
		t.Errorf("the running step: %s, want %s", got[4], want)
	}
	for _, s := range got[5:] {
		if !strings.HasSuffix(s, " interrupted") {
			t.Errorf("after it: %s", s)
		}
	}
	if result.ExitCode != plan.ExitPartial || !result.Interrupted {
		t.Errorf("exit code %d, interrupted %t", result.ExitCode, result.Interrupted)
	}
	if result := applyOn(t, m.options(m.plan(everything))); result.ExitCode != 0 || len(result.Steps) != 14 {
		t.Errorf("the next run: exit code %d, %v", result.ExitCode, outcomes(result))
	}
}

func TestHangingProgramIsAbandoned(t *testing.T) {
	m := newMachine(t)
	m.program("modprobe", "echo waiting for the device; exec sleep 30")
	o := m.options(m.plan(only("peermem", "numa")))
	o.Deadline = 200 * time.Millisecond
	began := time.Now()
	result := applyOn(t, o)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
	want := []string{"load-module:nvidia_peermem failed", "set-sysctl:kernel.numa_balancing done"}
	if diff := cmp.Diff(want, outcomes(result)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if want := "modprobe nvidia_peermem: gave no answer in 0.2 s and was abandoned: waiting for the device"; !strings.Contains(errorsOf(result), want) {
		t.Errorf("%s\nlacks %q", errorsOf(result), want)
	}
}

// TestTimeout: what waits when the time of the run is over is given up, the rest is not begun.
func TestTimeout(t *testing.T) {
	m := newMachine(t)
	m.program("modprobe", "exec sleep 30")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, ErrTimeout)
	defer cancel()
	result, err := run(ctx, m.options(m.plan(only("peermem", "numa"))), true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"load-module:nvidia_peermem failed", "set-sysctl:kernel.numa_balancing interrupted"}
	if diff := cmp.Diff(want, outcomes(result)); diff != "" || result.ExitCode != plan.ExitPartial {
		t.Errorf("exit code %d, steps (-want +got):\n%s", result.ExitCode, diff)
	}
	for _, want := range []string{"modprobe nvidia_peermem: gave no answer in 1 s and was abandoned", ErrTimeout.Error()} {
		if !strings.Contains(errorsOf(result), want) {
			t.Errorf("%s\nlacks %q", errorsOf(result), want)
		}
	}
	before, cancel := context.WithTimeoutCause(t.Context(), 0, ErrTimeout)
	defer cancel()
	result, err = run(before, m.options(m.plan(only("numa"))), true)
	if !errors.Is(err, ErrTimeout) || result.ExitCode != plan.ExitPartial || len(result.Steps) > 0 {
		t.Errorf("at once: exit code %d, error %v, steps %v", result.ExitCode, err, outcomes(result))
	}
}

func TestLock(t *testing.T) {
	m := newMachine(t)
	m.write("/run/busbar/lock", "")
	m.write("/run/busbar/lock.json", `{"pid": 4194305, "started": "2024-01-01T00:00:00Z"}`) // of a dead run
	inside := 0
	o := m.options(m.plan(everything))
	o.Approve = func(plan.Plan) (bool, error) {
		inside++
		result, err := run(t.Context(), m.options(m.plan(everything)), true)
		if !errors.Is(err, ErrLocked) || result.ExitCode != plan.ExitLocked {
			t.Errorf("second run: exit code %d, error %v", result.ExitCode, err)
		}
		if want := fmt.Sprintf("another run holds the lock: process %d, since ", os.Getpid()); !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
		return true, nil
	}
	if result := applyOn(t, o); result.ExitCode != 0 || inside != 1 {
		t.Errorf("exit code %d, asked %d times", result.ExitCode, inside)
	}
	if result := applyOn(t, m.options(m.plan(everything))); result.ExitCode != 0 {
		t.Errorf("after the release: exit code %d", result.ExitCode)
	}
}

// A child that a killed run had forked holds the lock until it executes its program.
func TestLockOfTheDead(t *testing.T) {
	m := newMachine(t)
	gone := exec.Command("true")
	must(gone.Run())
	m.write("/run/busbar/lock.json", fmt.Sprintf(`{"pid": %d, "started": "2024-01-01T00:00:00Z"}`, gone.Process.Pid))
	lock, dir, err := openLock(m.root)
	must(err)
	defer dir.Close()
	must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	time.AfterFunc(50*time.Millisecond, func() { lock.Close() })
	if result := applyOn(t, m.options(m.plan(only("numa")))); result.ExitCode != 0 {
		t.Errorf("exit code %d", result.ExitCode)
	}
}

// A run on a tree leaves nothing of its lock, and nothing of others is taken away.
func TestLockInTree(t *testing.T) {
	for _, others := range []bool{false, true} {
		m := newMachine(t)
		if others {
			m.write("/run/busbar/others", "")
		}
		before := m.names("/run")
		o := m.options(m.plan(only("nccl")))
		o.Approve = func(plan.Plan) (bool, error) {
			if _, err := run(t.Context(), m.options(m.plan(only("nccl"))), false); !errors.Is(err, ErrLocked) {
				t.Errorf("second run: %v", err)
			}
			return true, nil
		}
		if result, err := run(t.Context(), o, false); err != nil || result.ExitCode != 0 {
			t.Errorf("exit code %d, error %v", result.ExitCode, err)
		}
		if diff := cmp.Diff(before, m.names("/run")); diff != "" {
			t.Error(diff)
		}
	}
}

// names are the files below a directory of the machine.
func (m *machine) names(dir string) (names []string) {
	must(filepath.WalkDir(m.root+dir, func(name string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(name, m.root))
		return err
	}))
	return names
}

// A lock that another run removed between its opening and its taking is no lock.
func TestRemovedLock(t *testing.T) {
	m := newMachine(t)
	lock, dir, err := openLock(m.root)
	must(err)
	defer lock.Close()
	defer dir.Close()
	if !isAt(lock, dir, lockName) {
		t.Error("a new lock is not where it was made")
	}
	must(os.Remove(m.root + "/run/busbar/lock"))
	m.write("/run/busbar/lock", "")
	if isAt(lock, dir, lockName) {
		t.Error("another file passes for the lock")
	}
}

// What lies in the lock's place is named in full, with what to do.
func TestLockObstructed(t *testing.T) {
	for _, c := range []struct {
		file string
		make func(name string) error
	}{
		{"/run/busbar/lock", func(name string) error { return os.MkdirAll(name, 0o755) }},
		{"/run/busbar", func(name string) error { return os.WriteFile(name, nil, 0o644) }},
		{"/run/busbar/lock", func(name string) error {
			return errors.Join(os.Mkdir(filepath.Dir(name), 0o755), os.Symlink("/etc/fstab", name))
		}},
	} {
		m := newMachine(t)
		must(c.make(m.root + c.file))
		result, err := run(t.Context(), m.options(m.plan(everything)), true)
		if err == nil || result.ExitCode != plan.ExitError || !strings.Contains(err.Error(), m.root+"/run/busbar/lock: ") || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: exit code %d, %v", c.file, result.ExitCode, err)
		}
	}
}

// A program that takes its time is told of once.
func TestSlowProgramIsTold(t *testing.T) {
	m := newMachine(t)
	m.program("modprobe", fmt.Sprintf("sleep %g; mkdir -p \"$root/sys/module/$1\"", (patience+500*time.Millisecond).Seconds()))
	o := m.options(m.plan(only("peermem")))
	var waits []string
	o.Observer = observer{waiting: func(what string) { waits = append(waits, what) }}
	applyOn(t, o)
	if diff := cmp.Diff([]string{"modprobe nvidia_peermem"}, waits); diff != "" {
		t.Error(diff)
	}
}

func TestNeedsRoot(t *testing.T) {
	m := newMachine(t)
	must(os.Chmod(m.root, 0o755))
	// This thread's file accesses become those of nobody; it is not given back.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
			panic(errno)
		}
		result, err := run(t.Context(), m.options(m.plan(everything)), true)
		if os.Getuid() == 0 && (!errors.Is(err, ErrNeedsRoot) || result.ExitCode != plan.ExitNeedsRoot) {
			t.Errorf("exit code %d, error %v", result.ExitCode, err)
		}
	}()
	<-done
}
