package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"busbar/plan"
)

// The blocks of the profile of a drifted machine. What they set in the running kernel
// is the machine's own: parameters of its network, and a module that is a directory.
const (
	moduleBlocks = `
kernel_module "fake_nic" {
  state   = "loaded"
  options = { depth = "4" }
}
kernel_module "fake-old" {
  boot = "unloaded"
}
`
	sysctlBlocks = `
sysctl "kernel.numa_balancing" {
  value = 0
  apply = "boot"
}
sysctl "net.core.somaxconn" {
  value = 1234
}
`
	limitsBlock = `
limits "rdma" {
  memlock  = "unlimited"
  users    = ["*", "root"]
  services = ["slurmd"]
}
`
	ncclBlock = `
nccl {
  settings = {
    NCCL_IB_TC      = 104
    NCCL_IB_TIMEOUT = 22
    NCCL_DEBUG      = "WARN"
  }
}
`
	bootBlock = `
kernel_args {
  present = { iommu = "pt" }
}
`
)

// nothingWanted is a profile that judges a node and wants no file of it.
const nothingWanted = "check \"device_nodes\" \"null\" {\n  paths = [\"/dev/null\"]\n}\n"

const (
	profilePath  = "/etc/busbar/node.hcl"
	defaultsPath = "/etc/default/grub"
	imagesPath   = "/etc/default/grub.d/50-cloudimg-settings.cfg"
	fragmentPath = "/etc/default/grub.d/zz-busbar.cfg"
	entriesPath  = "/boot/grub/grub.cfg"
)

// foreignNCCL holds lines of others: comments, a key as it is wanted, one with another
// value, and no end of the last line.
const foreignNCCL = "# site defaults\nNCCL_DEBUG=WARN\n\nNCCL_IB_TIMEOUT=18\n  # kept as it is \t\nNCCL_SOCKET_IFNAME=eth"

// drifted are the files of a machine on which nothing is as the blocks want it.
func drifted() map[string]string {
	modules := "/usr/lib/modules/" + kernelRelease()
	return map[string]string{
		profilePath:                             moduleBlocks + sysctlBlocks + limitsBlock + ncclBlock,
		"/etc/nccl.conf":                        foreignNCCL,
		"/root/.nccl.conf":                      "NCCL_BUFFSIZE=4194304\n",
		"/etc/modprobe.d/a-site.conf":           "options fake_nic depth=2 width=8\n# fake_nic: see the ticket\n",
		"/etc/modules-load.d/site.conf":         "loop\n",
		"/etc/sysctl.d/50-site.conf":            "kernel.numa_balancing = 1\nvm.swappiness=10\n",
		"/etc/security/limits.d/20-site.conf":   "*  soft  memlock  65536\n",
		modules + "/modules.dep":                "kernel/drivers/fake_nic.ko:\nkernel/drivers/fake_old.ko:\n",
		modules + "/kernel/drivers/fake_nic.ko": "",
		modules + "/kernel/drivers/fake_old.ko": "",
	}
}

// bootable adds a boot loader that has one kernel, and a cloud image's fragment that
// replaces what stands in the main file.
func bootable(files map[string]string) map[string]string {
	kernel := "/boot/vmlinuz-" + kernelRelease()
	for path, text := range map[string]string{
		kernel:       "",
		defaultsPath: "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
		imagesPath:   "# of the image\nGRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"\n",
		entriesPath: "menuentry 'Debian GNU/Linux' --class gnu-linux {\n\tlinux\t" + kernel +
			" root=UUID=5f0a1c9e-3d52-4c19-8f0e-6f2b9a7d1e04 ro console=tty1 console=ttyS0\n}\n",
	} {
		files[path] = text
	}
	return files
}

// noSteps is what an apply says when there was nothing to do.
func (o outcome) noSteps(t *testing.T) {
	t.Helper()
	if strings.Contains(o.stderr, "[1/") {
		t.Errorf("a step was made: %s", o)
	}
}

func TestApply(t *testing.T) {
	m := newMachine(t, drifted())
	if m.sysctl("net/core/somaxconn") == "1234" {
		t.Fatal("the machine's network is not new")
	}
	before := m.files(false)

	m.busbar("plan").want(t, plan.ExitDrift, "busbar apply would", "/etc/sysctl.d/50-site.conf:1")
	wantSame(t, before, m.files(false))

	cmd := m.command("apply", "--yes")
	cmd.Args = append([]string{"sh", "-c", `umask 077; exec "$@"`, "sh"}, cmd.Args...)
	cmd.Path = needs(t, "sh")
	execute(t, cmd).want(t, plan.ExitOK, "load module fake_nic", "done")
	m.busbar("verify").want(t, plan.ExitOK)
	m.busbar("plan").want(t, plan.ExitOK)

	after := m.files(false)
	owned := map[string]string{
		"/etc/modules-load.d/busbar.conf":       "fake_nic\n",
		"/etc/modprobe.d/zz-busbar.conf":        "blacklist fake_old\noptions fake_nic depth=4\n",
		"/etc/sysctl.d/zz-busbar.conf":          "kernel.numa_balancing = 0\nnet.core.somaxconn = 1234\n",
		"/etc/security/limits.d/zz-busbar.conf": "* - memlock unlimited\nroot - memlock unlimited\n",
	}
	for p, want := range owned {
		if diff := cmp.Diff(want, settings(m.read(p))); diff != "" {
			t.Errorf("%s:\n%s", p, diff)
		}
		if !strings.HasPrefix(after[p], "-rw-r--r-- 0:0") {
			t.Errorf("%s has %q", p, strings.SplitN(after[p], "\n", 2)[0])
		}
	}
	nccl := m.read("/etc/nccl.conf")
	block, foreign, ok := strings.Cut(nccl, "# END busbar\n")
	if !ok || foreign != foreignNCCL {
		t.Errorf("the lines of others are not as they were: %q", nccl)
	}
	if want := "NCCL_IB_TC=104\nNCCL_IB_TIMEOUT=22\n"; settings(block) != want {
		t.Errorf("want %q in the block, got %q", want, block)
	}
	if got := m.sysctl("net/core/somaxconn"); got != "1234" {
		t.Errorf("net.core.somaxconn is %s", got)
	}
	expected := before.foreign()
	expected["/etc/nccl.conf"] = "-rw-r--r-- 0:0\n" + nccl
	expected["/sys/module"] = after["/sys/module"]
	expected["/sys/module/fake_nic"] = after["/sys/module/fake_nic"]
	expected["/sys/module/fake_nic/initstate"] = after["/sys/module/fake_nic/initstate"]
	wantSame(t, expected, after.foreign())

	t.Run("again", func(t *testing.T) {
		m.t = t
		before := m.files(true)
		o, calls := trace(t, append(m.enter(0), "/usr/bin/busbar", "apply", "--yes"), "/usr/bin/busbar")
		o.want(t, plan.ExitOK)
		o.noSteps(t)
		wantSame(t, before, m.files(true))
		for _, c := range changes(calls, func(p string) bool {
			return p == "/dev/null" || p == "/run" || p == "/run/busbar" || strings.HasPrefix(p, "/run/busbar/")
		}) {
			t.Errorf("outside /run/busbar it did %s", c)
		}
		for _, c := range calls {
			if c.name == "execve" && !strings.Contains(c.text, "/usr/bin/busbar") {
				t.Errorf("it ran a program: %s", c.text)
			}
		}
	})
	t.Run("blocks dropped", func(t *testing.T) {
		m.t = t
		m.write(profilePath, moduleBlocks+sysctlBlocks)
		m.busbar("plan").want(t, plan.ExitDrift, "/etc/security/limits.d/zz-busbar.conf holds what no block wants")
		m.busbar("apply", "--yes").want(t, plan.ExitOK)
		if m.exists("/etc/security/limits.d/zz-busbar.conf") {
			t.Error("the limits were left")
		}
		if got := m.read("/etc/nccl.conf"); got != foreignNCCL {
			t.Errorf("nccl.conf is not as it was: %q", got)
		}
		m.write(profilePath, "\nsysctl \"net.core.somaxconn\" {\n  value = 1234\n}\n")
		m.busbar("apply", "--yes").want(t, plan.ExitOK)
		if got := settings(m.read("/etc/sysctl.d/zz-busbar.conf")); got != "net.core.somaxconn = 1234\n" {
			t.Errorf("sysctl.d holds %q", got)
		}
		m.write(profilePath, nothingWanted)
		m.busbar("apply", "--yes").want(t, plan.ExitOK)
		m.remove("/sys/module/fake_nic")
		before[profilePath] = "-rw-r--r-- 0:0\n" + nothingWanted
		left := m.files(false)
		left["/sys/module"] = before["/sys/module"]
		wantSame(t, before, left)
	})
}

// settings are the lines of a file that are no comments.
func settings(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestApplyBootArguments(t *testing.T) {
	m := newMachine(t, bootable(map[string]string{profilePath: bootBlock}))
	m.link("programs", "/usr/sbin/update-grub")
	before := m.files(false)
	m.busbar("plan").want(t, plan.ExitDrift)
	m.busbar("apply", "--yes").want(t, plan.ExitReboot, "run update-grub", "comes with the next boot")
	if got := settings(m.read(fragmentPath)); got != "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt\"\n" {
		t.Errorf("the fragment is %q", got)
	}
	after := m.files(false)
	for _, p := range []string{defaultsPath, imagesPath} {
		if before[p] != after[p] {
			t.Errorf("%s is not as it was", p)
		}
	}
	o := m.busbar("apply", "--yes")
	o.want(t, plan.ExitReboot)
	o.noSteps(t)
	m.busbar("verify").want(t, plan.ExitReboot)

	// The next boot, as far as anybody can see: the command line is that of the entry.
	_, arguments, _ := strings.Cut(m.read(entriesPath), "\tlinux\t")
	arguments, _, _ = strings.Cut(arguments, "\n")
	m.write("/srv/cmdline", "BOOT_IMAGE="+arguments+"\n")
	m.busbar("verify").want(t, plan.ExitOK)
	m.write(profilePath, nothingWanted)
	m.busbar("apply", "--yes").want(t, plan.ExitOK)
	if m.exists(fragmentPath) || strings.Contains(m.read(entriesPath), "iommu=pt") {
		t.Error("the argument was left")
	}
}

// measured is how long an apply of everything takes.
func (m *machine) measured() time.Duration {
	m.t.Helper()
	began := time.Now()
	m.busbar("apply", "--yes").want(m.t, plan.ExitReboot)
	return time.Since(began)
}

// reset brings a machine's files back to what a snapshot of copies holds.
func (m *machine) reset(copied string) {
	m.t.Helper()
	for _, dir := range []string{"etc", "boot", "sys/module", "var/lib/busbar", "run"} {
		if err := emptied(m.path(dir)); err != nil {
			m.t.Fatal(err)
		}
		if from := filepath.Join(copied, dir); exists(from) {
			if out, err := exec.Command("cp", "-a", from+"/.", m.path(dir)).CombinedOutput(); err != nil {
				m.t.Fatalf("cp: %v: %s", err, out)
			}
		}
	}
	m.sysctl("net/core/somaxconn", "4096")
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// emptied removes what is in a directory.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

func TestApplyKilled(t *testing.T) {
	files := bootable(drifted())
	files[profilePath] += bootBlock
	m := newMachine(t, files)
	m.link("programs", "/usr/sbin/update-grub")
	copied := t.TempDir()
	for _, dir := range []string{"etc", "boot", "sys/module"} {
		if err := os.MkdirAll(filepath.Join(copied, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(copied, dir), os.DirFS(m.path(dir))); err != nil {
			t.Fatal(err)
		}
	}
	m.busbar("apply", "--yes").want(t, plan.ExitReboot)
	converged := m.files(false)
	m.reset(copied)
	whole := m.measured()
	converges := func(t *testing.T, when string) {
		t.Helper()
		m.t = t
		o := m.busbar("apply", "--yes")
		if o.code != plan.ExitReboot {
			t.Errorf("killed %s, the next apply ends with %s", when, o)
		}
		m.noTemporaries()
		if diff := cmp.Diff(converged, m.files(false)); diff != "" {
			t.Errorf("killed %s, the next apply leaves other files:\n%s", when, diff)
		}
	}
	t.Run("by time", func(t *testing.T) {
		const times = 20
		ended := 0
		for i := range times {
			m.reset(copied)
			after := whole * time.Duration(i+1) / times
			cmd := m.command("apply", "--yes")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after)
			_ = cmd.Process.Kill() // it may have ended
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
				ended++
			}
			converges(t, "after "+after.String())
		}
		if ended == times {
			t.Error("all runs had ended before they were killed")
		}
	})
	t.Run("by system call", func(t *testing.T) {
		strace := needs(t, "strace")
		for _, name := range []string{"fsync", "renameat", "unlinkat"} {
			for n := 1; ; n++ {
				m.reset(copied)
				line := append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=" + name, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", name, n)},
					append(m.enter(0), "/usr/bin/busbar", "apply", "--yes")...)
				o := execute(t, exec.Command(strace, line...))
				if o.code != 128+int(unix.SIGKILL) {
					if n == 1 {
						t.Errorf("strace did not kill at %s: %s", name, o)
					}
					break
				}
				converges(t, fmt.Sprintf("at %s %d", name, n))
			}
		}
	})
}

// held starts an apply, through a shell's script, that stays in modprobe until it is let go.
func (m *machine) held(script string) (cmd *exec.Cmd, said *bytes.Buffer, release func()) {
	m.t.Helper()
	m.write("/srv/modprobe-wait", "")
	cmd = m.command("apply", "--yes")
	cmd.Args = append([]string{"sh", "-c", script, "sh"}, cmd.Args...)
	cmd.Path = needs(m.t, "sh")
	said = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	release = func() { _ = os.Remove(m.path("/srv/modprobe-wait")) }
	m.t.Cleanup(func() {
		release()
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	for range 1000 {
		if m.exists("/srv/modprobe-started") {
			return cmd, said, release
		}
		time.Sleep(5 * time.Millisecond)
	}
	m.t.Fatalf("modprobe was not started: %s", said)
	return nil, nil, nil
}

func TestTwoApplies(t *testing.T) {
	m := newMachine(t, drifted())
	first, said, release := m.held(`exec "$@"`)
	before := m.files(false)
	o := m.busbar("apply", "--yes")
	o.want(t, plan.ExitLocked, fmt.Sprintf("process %d", first.Process.Pid))
	wantSame(t, before, m.files(false))
	m.busbar("plan").want(t, plan.ExitDrift)
	release()
	if err := first.Wait(); err != nil {
		t.Errorf("the first apply: %v\n%s", err, said)
	}
}

// Signals that ask a run to end do so behind the running step, unless they were ignored
// when it was started.
func TestApplyTerminated(t *testing.T) {
	for _, c := range []struct {
		name   string
		before string
		signal syscall.Signal
		code   int
		last   string
	}{
		{"SIGTERM", "", syscall.SIGTERM, plan.ExitPartial, "interrupted"},
		{"SIGINT", "", syscall.SIGINT, plan.ExitPartial, "interrupted"},
		{"SIGHUP", "", syscall.SIGHUP, plan.ExitPartial, "interrupted"},
		{"SIGHUP below nohup", "trap '' HUP; ", syscall.SIGHUP, plan.ExitOK, "done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, drifted())
			cmd, said, release := m.held(c.before + `exec "$@"`)
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond) // nothing of it may end by the signal
			release()
			_ = cmd.Wait() // the exit code tells
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(said.String(), "load module fake_nic ... done") ||
				!strings.Contains(said.String(), "set net.core.somaxconn to 1234 ... "+c.last) {
				t.Errorf("%s\n%s", cmd.ProcessState, said)
			}
			m.busbar("apply", "--yes").want(t, plan.ExitOK)
		})
	}
}

// A reader of its outputs that goes away does not end a run half-way.
func TestApplyUnheard(t *testing.T) {
	m := newMachine(t, drifted())
	cmd := m.command("apply", "--yes")
	gone, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	out.Close()
	if cmd.ProcessState.ExitCode() != plan.ExitError {
		t.Errorf("the result cannot be written: want exit code 1, got %v", err)
	}
	m.busbar("verify").want(t, plan.ExitOK)
}

// A modprobe that does not come back, even killed ones in the kernel do not, costs its
// deadline of a minute.
func TestModprobeHangs(t *testing.T) {
	if os.Getenv("BUSBAR_TEST_SLOW") == "" {
		t.Skip("BUSBAR_TEST_SLOW is not set: takes a minute")
	}
	m := newMachine(t, drifted())
	began := time.Now()
	cmd, said, _ := m.held(`exec "$@"`)
	_ = cmd.Wait() // the exit code tells
	if cmd.ProcessState.ExitCode() != plan.ExitPartial || !strings.Contains(said.String(), "modprobe fake_nic: gave no answer in 60 s") {
		t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), said)
	}
	if took := time.Since(began); took > 65*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestApplyJSON(t *testing.T) {
	m := newMachine(t, drifted())
	o := m.busbar("apply", "--yes", "--json")
	o.want(t, plan.ExitOK)
	var doc struct {
		Command  string `json:"command"`
		ExitCode int    `json:"exit_code"`
		Run      struct {
			Steps []struct{ ID, Status string } `json:"steps"`
		} `json:"run"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, s := range doc.Run.Steps {
		steps = append(steps, s.ID+" "+s.Status)
	}
	want := []string{
		"write-file:/etc/modprobe.d/zz-busbar.conf done", "write-file:/etc/modules-load.d/busbar.conf done", "write-file:/etc/nccl.conf done",
		"write-file:/etc/security/limits.d/zz-busbar.conf done", "write-file:/etc/sysctl.d/zz-busbar.conf done", "load-module:fake_nic done",
		"set-sysctl:net.core.somaxconn done",
	}
	if diff := cmp.Diff(want, steps); diff != "" || doc.Command != "apply" || doc.ExitCode != plan.ExitOK {
		t.Errorf("%s %d:\n%s", doc.Command, doc.ExitCode, diff)
	}
	if !slices.IsSorted(steps[:5]) {
		t.Error("the files' steps are not in order")
	}
}

// What would disturb whoever uses GPUs is planned with who that is, and made with --disrupt alone.
func TestApplyInUse(t *testing.T) {
	const gpu = "/sys/bus/pci/devices/0000:ea:00.0"
	m := newMachine(t, map[string]string{
		profilePath:     "kernel_module \"nvidia_peermem\" {\n  state = \"unloaded\"\n  boot  = \"unmanaged\"\n}\nsysctl \"net.core.somaxconn\" {\n  value = 1234\n}\n",
		gpu + "/vendor": "0x10de\n", gpu + "/device": "0x2330\n", gpu + "/class": "0x030200\n",
		"/sys/module/nvidia_peermem/initstate": "live\n",
	})
	if err := os.Symlink("../../drivers/vfio-pci", m.path(gpu+"/driver")); err != nil {
		t.Fatal(err)
	}
	const needs = "needs --disrupt: vfio-pci is bound to 0000:ea:00.0"
	m.busbar("plan").want(t, plan.ExitDrift, "unload module nvidia_peermem", "step 2 "+needs)
	m.busbar("plan", "--json").want(t, plan.ExitDrift, `"disturbs": [`, `"vfio-pci is bound to 0000:ea:00.0"`)
	m.busbar("apply", "--yes").want(t, plan.ExitPartial, "unload module nvidia_peermem ... skipped: "+needs)
	if !m.exists("/sys/module/nvidia_peermem") || m.read("/etc/sysctl.d/zz-busbar.conf") == "" {
		t.Error("the module is gone, or the rest was not done")
	}
	m.busbar("apply", "--yes", "--disrupt").want(t, plan.ExitOK)
	if m.exists("/sys/module/nvidia_peermem") {
		t.Error("the module is still there")
	}
}
