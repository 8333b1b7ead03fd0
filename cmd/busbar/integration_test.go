package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The integration tests run the whole program as users do: on this machine where it only
// reads, and else on a machine of its own (see machine).

// programs are what the integration tests run: busbar, as a static program, which needs nothing of the machine in
// which it runs, and as the dynamic one that loads libraries; and the programs in its surroundings.
var programs = sync.OnceValues(func() (dir string, err error) {
	// Everybody may enter it, also a user without rights.
	if dir, err = os.MkdirTemp("", "busbar-programs-"); err == nil {
		programsDir = dir
		err = os.Chmod(dir, 0o755)
	}
	for name, args := range map[string][]string{"busbar": {"-tags", "static", "."}, "programs": {"./testdata/programs"}, "dynamic": {"."}} {
		if err != nil {
			break
		}
		cmd := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", filepath.Join(dir, name)}, args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	return dir, err
})

// program is the path of a program that was built for the tests.
func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatalf("building %s: %v", name, err)
	}
	return filepath.Join(dir, name)
}

// programsDir is where programs builds; empty when it did not.
var programsDir string

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func needs(t *testing.T, tool string) string {
	t.Helper()
	file, err := exec.LookPath(tool)
	if err != nil {
		t.Skip("needs " + tool)
	}
	return file
}

// outcome is what a program ended with.
type outcome struct {
	code           int // 128 and the signal's number where a signal ended it
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d\n--- standard output\n%.3000s--- standard error\n%.3000s", o.code, o.stdout, o.stderr)
}

// want is what most tests ask: the exit code, what is said on either output, and no crash.
func (o outcome) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("want exit code %d, got %s", code, o)
	}
	for _, text := range texts {
		if !strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("%q is not said: %s", text, o)
		}
	}
	if strings.Contains(o.stderr, "goroutine ") {
		t.Errorf("a crash: %s", o)
	}
}

// execute runs a command to its end, for a minute at most.
func execute(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	return executeAnd(t, cmd, func(*os.Process) {})
}

// executeAnd runs a command, and does something with its process once that has started.
func executeAnd(t *testing.T, cmd *exec.Cmd, started func(*os.Process)) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started(cmd.Process)
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o := outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		o.code = 128 + int(status.Signal())
	}
	return o
}

// here is busbar on this machine.
func here(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, "busbar"), args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// machine is a machine for busbar: mount, network and host name of its own, with a root
// directory in which nothing is but what a test puts there. It has the running kernel, whose
// parameters outside net are read-only; /sys is a directory.
type machine struct {
	t   *testing.T
	dir string
	pid int
}

// hold is the environment variable with which the test binary holds a machine's namespaces.
const hold = "BUSBAR_TEST_HOLD"

// kernelRelease is the running kernel's.
func kernelRelease() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(release))
}

// newMachine starts a machine with the files given, whose paths are absolute, and a few that every machine has.
func newMachine(t *testing.T, files map[string]string) *machine {
	t.Helper()
	needsRoot(t)
	needs(t, "nsenter")
	m := &machine{t: t, dir: filepath.Join(t.TempDir(), "machine")}
	for _, dir := range []string{
		"dev", "proc", "sys/module", "sys/class/net", "sys/bus/pci/devices", "sys/kernel/security/apparmor", "run", "tmp", "root", "home", "srv",
		"var/lib", "etc/busbar", "etc/modprobe.d", "etc/modules-load.d", "etc/sysctl.d", "etc/security/limits.d", "etc/systemd/system",
		"usr/bin", "usr/sbin", "usr/lib",
	} {
		m.mkdir("/" + dir)
	}
	for path, text := range map[string]string{
		"/etc/os-release":    "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"/etc/passwd":        "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n",
		"/etc/nsswitch.conf": "passwd: files\n",
		"/dev/null":          "",
		"/srv/cmdline":       "BOOT_IMAGE=/boot/vmlinuz-" + kernelRelease() + " root=UUID=5f0a1c9e-3d52-4c19-8f0e-6f2b9a7d1e04 ro quiet\n",
	} {
		m.write(path, text)
	}
	for path, text := range files {
		m.write(path, text)
	}
	m.link("busbar", "/usr/bin/busbar")
	m.link("programs", "/usr/sbin/modprobe")
	m.start()
	return m
}

// start makes the machine's namespaces and a process that holds them.
func (m *machine) start() {
	m.t.Helper()
	cmd := exec.Command(os.Args[0])
	// The race detector's runtime waits a second at the end of a program.
	cmd.Env = append(os.Environ(), hold+"="+m.dir, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) {
		m.t.Skipf("needs namespaces: %v", err)
	} else if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			m.t.Error(err)
		}
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		m.t.Fatalf("the machine did not start: %q, %v", said, err)
	}
	m.pid = cmd.Process.Pid
}

// holdMachine mounts what a machine needs, goes into it and stays until its input ends.
func holdMachine(dir string) error {
	err := unix.Sethostname([]byte("machine"))
	do := func(what string, call func() error) {
		if err == nil {
			if err = call(); err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	mount := func(from, to, kind string, flags uintptr) {
		do("mounting "+to, func() error { return unix.Mount(from, to, kind, flags, "") })
	}
	mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE)
	mount(dir, dir, "", unix.MS_BIND)
	do("entering "+dir, func() error { return os.Chdir(dir) })
	mount("/dev/null", "dev/null", "", unix.MS_BIND)
	mount("proc", "proc", "proc", 0)
	for _, part := range []string{"abi", "debug", "dev", "fs", "kernel", "vm"} {
		if _, absent := os.Stat("proc/sys/" + part); absent == nil {
			mount("proc/sys/"+part, "proc/sys/"+part, "", unix.MS_BIND)
			mount("", "proc/sys/"+part, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY)
		}
	}
	mount("srv/cmdline", "proc/cmdline", "", unix.MS_BIND)
	for _, file := range wedged() {
		do("wedging "+file, func() error { return wedge(filepath.Join(dir, file)) })
	}
	do("changing root", func() error { return unix.PivotRoot(".", ".") })
	do("leaving the old root", func() error { return unix.Unmount(".", unix.MNT_DETACH) })
	if _, absent := os.Stat(readOnlyMark); absent == nil {
		mount("tmpfs", "/run", "tmpfs", 0)
		mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// readOnlyMark is a file that makes all of a machine but /run read-only.
const readOnlyMark = "/srv/read-only"

// wedgedMark is a file that names, one a line, the files of a machine that nobody can open
// without hanging.
const wedgedMark = "/srv/wedged"

// wedged reads the mark below the working directory.
func wedged() []string {
	text, _ := os.ReadFile("." + wedgedMark) // absent: none
	return strings.Fields(string(text))
}

// wedge mounts a file system over a file that never answers: a FUSE whose
// daemon is silent.
func wedge(file string) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Mount("wedged", file, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0", fd, unix.S_IFREG|0o444))
}

// path is where a file of the machine stands on this one.
func (m *machine) path(p string) string { return filepath.Join(m.dir, p) }

func (m *machine) mkdir(p string) {
	m.t.Helper()
	if err := os.MkdirAll(m.path(p), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) write(p, text string) {
	m.t.Helper()
	m.mkdir(filepath.Dir(p))
	if err := os.WriteFile(m.path(p), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(p string) string {
	m.t.Helper()
	text, err := os.ReadFile(m.path(p))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

func (m *machine) remove(p string) {
	m.t.Helper()
	if err := os.RemoveAll(m.path(p)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) exists(p string) bool {
	_, err := os.Lstat(m.path(p))
	return err == nil
}

// link puts a program of the tests into the machine.
func (m *machine) link(name, p string) {
	m.t.Helper()
	m.mkdir(filepath.Dir(p))
	from := program(m.t, name)
	err := os.Link(from, m.path(p))
	if errors.Is(err, unix.EXDEV) {
		var text []byte
		if text, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(m.path(p), text, 0o755)
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// enter is a command line that runs another one in the machine, as root or as nobody.
func (m *machine) enter(user int) []string {
	line := []string{"nsenter", "--target", strconv.Itoa(m.pid), "--mount", "--net", "--uts"}
	if user != 0 {
		line = append(line, "--setuid", strconv.Itoa(user), "--setgid", strconv.Itoa(user))
	}
	return append(line, "--")
}

// nobody is the user id of a user without rights.
const nobody = 65534

// command is busbar in the machine.
func (m *machine) command(args ...string) *exec.Cmd { return m.commandAs(0, args...) }

func (m *machine) commandAs(user int, args ...string) *exec.Cmd {
	line := slices.Concat(m.enter(user), []string{"/usr/bin/busbar"}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// busbar runs busbar in the machine.
func (m *machine) busbar(args ...string) outcome {
	m.t.Helper()
	return execute(m.t, m.command(args...))
}

// sysctl reads or, with a value, sets a kernel parameter of the machine's network.
func (m *machine) sysctl(name string, value ...string) string {
	m.t.Helper()
	// The network of a process that looks below /proc/PID/root counts, not that of the
	// procfs: only a process inside sees the machine's.
	script := "cat /proc/sys/" + name
	if len(value) > 0 {
		script = "echo " + value[0] + " > /proc/sys/" + name
	}
	line := []string{"--target", strconv.Itoa(m.pid), "--net", "--", "sh", "-c", script}
	out, err := exec.Command("nsenter", line...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// tree is every file below a directory, by path: what it is, and what it holds.
type tree map[string]string

// snapshot describes all files below dir except those below the paths left out. With identity
// a file that was replaced by an equal one is another.
func snapshot(t *testing.T, dir string, identity bool, without ...string) tree {
	t.Helper()
	all := tree{}
	err := filepath.WalkDir(dir, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := "/" + strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
		if slices.Contains(without, name) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%s %d:%d", info.Mode(), st.Uid, st.Gid)
		if identity {
			text += fmt.Sprintf(" inode %d, changed %d.%09d", st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " " + target
		case info.Mode().IsRegular() && info.Size() < 1<<20:
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += "\n" + string(content)
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += fmt.Sprintf("\n%x", sha256.Sum256(content))
		}
		all[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// files are the machine's, except what a run may always write: its lock.
func (m *machine) files(identity bool) tree {
	m.t.Helper()
	return snapshot(m.t, m.dir, identity, "/run", "/proc", "/dev")
}

// foreign are the files that no run made: all but busbar's own.
func (a tree) foreign() tree {
	kept := maps.Clone(a)
	maps.DeleteFunc(kept, func(p, _ string) bool {
		return strings.Contains(filepath.Base(p), "busbar") && p != "/etc/busbar" && !strings.HasPrefix(p, "/etc/busbar/")
	})
	return kept
}

func wantSame(t *testing.T, before, after tree) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("files changed:\n%s", diff)
	}
}

// noTemporaries looks for what an atomic write leaves when it is killed.
func (m *machine) noTemporaries() {
	m.t.Helper()
	for p := range m.files(false) {
		if strings.HasPrefix(filepath.Base(p), ".busbar-") {
			m.t.Errorf("%s was left", p)
		}
	}
}

// call is a system call of a traced program.
type call struct {
	name, text string
}

// traced are the system calls that change, or could change, something.
const traced = "%file,%network,fchmod,fchown,ftruncate,fsetxattr,fremovexattr,fallocate,init_module,finit_module,delete_module"

// trace runs a command line under strace and returns the system calls from where it
// executes program on.
func trace(t *testing.T, line []string, program string) (outcome, []call) {
	t.Helper()
	strace := needs(t, "strace")
	log := filepath.Join(t.TempDir(), "trace")
	args := append([]string{"-f", "-qq", "-y", "-s", "300", "-e", "trace=" + traced, "-e", "signal=none", "-o", log}, line...)
	cmd := exec.Command(strace, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	o := execute(t, cmd)
	if strings.Contains(o.stderr, "Operation not permitted") && o.code == 1 {
		t.Skipf("needs strace: %s", o.stderr)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	started := false
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		name, _, ok := strings.Cut(rest, "(")
		started = started || name == "execve" && strings.Contains(rest, program)
		if started && ok && !strings.HasPrefix(rest, "<...") {
			calls = append(calls, call{name, rest})
		}
	}
	if len(calls) < 20 {
		t.Fatalf("strace saw %d system calls of %s: %s", len(calls), program, o)
	}
	return o, calls
}

var (
	opened   = regexp.MustCompile(`^openat2?\((?:AT_FDCWD|\d+)(?:<([^>]*)>)?, "([^"]*)", (.*)`)
	writing  = regexp.MustCompile(`\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b`)
	changing = []string{
		"creat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink", "symlinkat",
		"mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "truncate", "ftruncate", "fallocate",
		"utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
		"mount", "umount2", "pivot_root", "swapon", "swapoff", "acct", "quotactl", "init_module", "finit_module", "delete_module",
	}
	quoted = regexp.MustCompile(`(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"|\d+<([^>]*)>`)
)

// changes are the calls that write outside what may be written. A call that failed counts too.
func changes(calls []call, may func(path string) bool) []string {
	var found []string
	for _, c := range calls {
		switch {
		case slices.Contains([]string{"open", "openat", "openat2"}, c.name):
			m := opened.FindStringSubmatch(c.text)
			if m == nil {
				found = append(found, c.text)
				continue
			}
			if p := within(m[1], m[2]); writing.MatchString(m[3]) && !may(p) {
				found = append(found, c.text)
			}
		case slices.Contains(changing, c.name):
			paths := quoted.FindAllStringSubmatch(c.text, -1)
			if len(paths) == 0 || slices.ContainsFunc(paths, func(m []string) bool { return !may(within(m[1], m[2]+m[3])) }) {
				found = append(found, c.text)
			}
		}
	}
	return found
}

func within(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}

// readsOnly are the rules of section "Reading hurts nobody" of docs/design.md. A datagram socket is what an ioctl of ethtool's
// takes.
func readsOnly(t *testing.T, calls []call) {
	t.Helper()
	for _, c := range changes(calls, func(p string) bool { return p == "/dev/null" || strings.HasPrefix(p, "/dev/nvidia") }) {
		t.Errorf("a plan changes nothing, and did %s", c)
	}
	for _, c := range calls {
		if c.name == "socket" && !slices.ContainsFunc([]string{"AF_UNIX", "NETLINK_ROUTE", "AF_INET, SOCK_DGRAM"}, func(kind string) bool { return strings.Contains(c.text, kind) }) {
			t.Errorf("a plan opens no such socket: %s", c.text)
		}
	}
}

func writeFile(t *testing.T, p, text string) {
	t.Helper()
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// open lets everybody reach a temporary file.
func open(t *testing.T, p string) {
	t.Helper()
	for dir := filepath.Dir(p); dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
