package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"busbar/plan"
)

const validProfile = "sysctl \"net.core.somaxconn\" {\n  value = 1234\n}\n"

// Profiles that are none end with 78 and the place, whichever command reads them.
func TestBadProfiles(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, text string
		code       int
		said       []string
	}{
		{"unparsable", "sysctl \"a.b\" {\n  value =\n}\n", plan.ExitBadProfile, []string{".hcl:2:"}},
		{"unclosed", "sysctl \"a.b\" {\n  value = 1\n", plan.ExitBadProfile, []string{".hcl:1:"}},
		{"unknown block", "\nsysctls \"a.b\" {\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "sysctls", "sysctl"}},
		{"unknown attribute", "sysctl \"a.b\" {\n  valu = 1\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "value"}},
		{"unknown reference", "sysctl \"a.b\" {\n  value = node.rials\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "rials"}},
		{"no parent", "profile {\n  extends = [\"bare-metl\"]\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "bare-metal"}},
		{"parent outside", "profile {\n  extends = [\"../../../etc/passwd\"]\n}\n", plan.ExitBadProfile, []string{".hcl:2:"}},
		{"NUL", "sysctl \"a.b\" {\n  value = \"\x00\"\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "NUL"}},
		{"not UTF-8", "sysctl \"a.b\" {\n  value = \"\xff\"\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "UTF-8"}},
		{"UTF-16", "\xff\xfes\x00", plan.ExitBadProfile, []string{".hcl:1:"}},
		{"nested brackets", "locals {\n  x = " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "\n}\n", plan.ExitBadProfile, []string{".hcl:2:", "Nested"}},
		{"nested calls", "locals {\n  x = " + strings.Repeat("upper(", 100_000) + "\n}\n", plan.ExitBadProfile, []string{".hcl:2:"}},
		{"long chain", "locals {\n  x = 1" + strings.Repeat("+1", 100_000) + "\n}\n", plan.ExitBadProfile, []string{".hcl:2:"}},
		{"growing", "locals {\n  a = [for i in range(1000) : [for j in range(1000) : [for k in range(1000) : k]]]\n}\nsysctl \"a.b\" {\n  value = length(local.a)\n}\n", plan.ExitBadProfile, []string{".hcl:2:"}},
		{"large", "# " + strings.Repeat("x", 9<<20) + "\n", plan.ExitBadProfile, []string{"large"}},
		{"too large", "# " + strings.Repeat("x", 20<<20) + "\n", plan.ExitBadProfile, []string{"10 MiB"}},
		{"contradiction", "nccl {\n  settings = {\n    NCCL_IB_TC = true\n  }\n}\n", plan.ExitBadProfile, []string{".hcl:3:"}},
		{"byte order mark", "\ufeff" + validProfile, plan.ExitOK, nil},
		{"CRLF", strings.ReplaceAll(validProfile, "\n", "\r\n"), plan.ExitOK, nil},
		{"empty", "", plan.ExitBadProfile, []string{"The profile has no block"}},
		{"nothing but comments", "# nothing yet\n", plan.ExitBadProfile, []string{"The profile has no block"}},
		{"nothing but a header", "profile {\n  description = \"cut off\"\n}\n", plan.ExitBadProfile, []string{"The profile has no block"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")+".hcl")
			writeFile(t, file, c.text)
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, root, true)
			for _, args := range [][]string{{"validate", file}, {"plan", file, "--node", "example:hgx-h100"}, {"apply", file, "--yes", "--root", root}, {"capture", "--raw", file}} {
				if c.code == plan.ExitOK && args[0] != "validate" {
					continue // what these say hangs on the machine
				}
				began := time.Now()
				o := execute(t, here(t, args...))
				o.want(t, c.code, c.said...)
				if c.code != plan.ExitOK && !strings.Contains(o.stderr, file) {
					t.Errorf("%s does not say which file: %s", args[0], o)
				}
				if len(o.stderr) > 4000 {
					t.Errorf("%s says %d bytes", args[0], len(o.stderr))
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s took %s", args[0], took)
				}
			}
			wantSame(t, before, snapshot(t, root, true))
		})
	}
}

// Recordings that are none end with 1, the file and, where there is one, the line.
func TestBadRecordings(t *testing.T) {
	dir := t.TempDir()
	valid := execute(t, here(t, "capture", "--raw"))
	valid.want(t, plan.ExitOK)
	for _, c := range []struct {
		name, text string
		code       int
		said       []string
	}{
		{"valid", valid.stdout, plan.ExitOK, nil},
		{"newer major", strings.Replace(valid.stdout, `"1.0"`, `"2.0"`, 1), plan.ExitError, []string{"2.0", "newer busbar"}},
		{"newer minor", strings.Replace(valid.stdout, `"answers": [`, `"answers": [{"kind": "of-the-future", "key": "x", "value": {"a": 1}},`, 1), plan.ExitOK, nil},
		{"cut off", valid.stdout[:len(valid.stdout)/2], plan.ExitError, []string{"line", "cut off"}},
		{"empty", "", plan.ExitError, []string{"cut off"}},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00", plan.ExitError, []string{"line 1", "not a recording"}},
		{"another JSON", "{\"a\": 1}", plan.ExitError, []string{"format_version"}},
		{"a list", "[]", plan.ExitError, []string{"line 1"}},
		{"nested", `{"format_version":"1.0","x":` + strings.Repeat("[", 1<<20), plan.ExitError, []string{"line 1"}},
		{"of another type", `{"format_version":"1.0","inventory":{"pci":{"value":[{"address":7}]}}}`, plan.ExitError, []string{"line 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")+".json")
			writeFile(t, file, c.text)
			o := execute(t, here(t, "plan", "--node", file, "baseline"))
			if c.code == plan.ExitOK {
				if o.code == plan.ExitError || o.code >= 64 || o.stderr != "" {
					t.Error(o)
				}
				return
			}
			o.want(t, c.code, append(c.said, file)...)
		})
	}
	execute(t, here(t, "plan", "--node", dir, "baseline")).want(t, plan.ExitError, filepath.Join(dir, "cut-off.json"), "10 recordings", "8 could not be read")
	execute(t, here(t, "plan", "--node", t.TempDir(), "baseline")).want(t, plan.ExitError, "no recording")
	execute(t, here(t, "plan", "--node", filepath.Join(dir, "absent"), "baseline")).want(t, plan.ExitError, "reading the recording "+filepath.Join(dir, "absent"))
	execute(t, here(t, "plan", "--node", "example:absent", "baseline")).want(t, plan.ExitError, "absent", "hgx-h100")
	// A pipe is a file too.
	cmd := here(t, "plan", "--node", "/dev/stdin", "--json", "baseline")
	cmd.Stdin = strings.NewReader(valid.stdout)
	if o := execute(t, cmd); o.stderr != "" || !strings.Contains(o.stdout, `"command": "plan"`) {
		t.Error(o)
	}
	// One bad recording does not keep the others from being judged.
	o := execute(t, here(t, "plan", "--node", filepath.Join(dir, "binary.json"), "--node", "example:hgx-h100-drifted"))
	o.want(t, plan.ExitError, "not a recording", "gpu-a07")
}

// What apply refuses before it changes anything.
func TestApplyRefuses(t *testing.T) {
	m := newMachine(t, map[string]string{
		"/etc/busbar/broken.hcl":            "sysctl \"net.core.somaxconn\" {\n",
		"/etc/busbar/valid.hcl":             validProfile,
		"/etc/busbar/writable.hcl":          validProfile,
		"/etc/busbar/theirs.hcl":            validProfile,
		"/etc/busbar/child.hcl":             "profile {\n  extends = [\"parent\"]\n}\n",
		"/etc/busbar/profiles.d/parent.hcl": validProfile,
		"/open/valid.hcl":                   validProfile,
		"/open/lib/valid.hcl":               validProfile,
	})
	for p, mode := range map[string]uint32{"/etc/busbar/writable.hcl": 0o666, "/etc/busbar/profiles.d/parent.hcl": 0o664, "/open": 0o777} {
		if err := unix.Chmod(m.path(p), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Chown(m.path("/etc/busbar/theirs.hcl"), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	// The middle one of three links lies where others can replace it.
	for link, target := range map[string]string{"/etc/busbar/link.hcl": "../../open/valid.hcl", "/etc/busbar/links.hcl": "/open/link.hcl", "/open/link.hcl": "/etc/busbar/valid.hcl"} {
		if err := os.Symlink(target, m.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		user int
		args []string
		code int
		said []string
	}{
		{"no profile", 0, []string{"apply", "--yes"}, plan.ExitUsage, []string{profilePath}},
		{"no terminal", 0, []string{"apply", "/etc/busbar/valid.hcl"}, plan.ExitUsage, []string{"--yes"}},
		{"a recording", 0, []string{"apply", "--yes", "--node", "x"}, plan.ExitUsage, []string{"--node"}},
		{"recording and root", 0, []string{"plan", "--root", "/srv", "--node", "x"}, plan.ExitUsage, []string{"node", "root"}},
		{"two profiles", 0, []string{"apply", "--yes", "baseline", "bare-metal"}, plan.ExitUsage, nil},
		{"broken", 0, []string{"apply", "--yes", "/etc/busbar/broken.hcl"}, plan.ExitBadProfile, []string{"/etc/busbar/broken.hcl:1:"}},
		{"absent", 0, []string{"apply", "--yes", "/etc/busbar/absent.hcl"}, plan.ExitBadProfile, []string{"/etc/busbar/absent.hcl"}},
		{"a directory", 0, []string{"apply", "--yes", "/etc/busbar/"}, plan.ExitBadProfile, []string{"/etc/busbar"}},
		{"misnamed", 0, []string{"apply", "--yes", "bare-metl"}, plan.ExitBadProfile, []string{"bare-metal"}},
		{"writable by others", 0, []string{"apply", "--yes", "/etc/busbar/writable.hcl"}, plan.ExitBadProfile, []string{"/etc/busbar/writable.hcl can be changed by others"}},
		{"of another user", 0, []string{"apply", "--yes", "/etc/busbar/theirs.hcl"}, plan.ExitBadProfile, []string{"/etc/busbar/theirs.hcl can be changed by others"}},
		{"parent writable", 0, []string{"apply", "--yes", "/etc/busbar/child.hcl"}, plan.ExitBadProfile, []string{"/etc/busbar/profiles.d/parent.hcl can be changed by others"}},
		{"directory writable", 0, []string{"apply", "--yes", "/open/valid.hcl"}, plan.ExitBadProfile, []string{"/open can be changed by others"}},
		{"link into a directory that is writable", 0, []string{"apply", "--yes", "/etc/busbar/link.hcl"}, plan.ExitBadProfile, []string{"/open can be changed by others"}},
		{"directory above writable", 0, []string{"apply", "--yes", "/open/lib/valid.hcl"}, plan.ExitBadProfile, []string{"/open can be changed by others"}},
		{"link that others can replace", 0, []string{"apply", "--yes", "/etc/busbar/links.hcl"}, plan.ExitBadProfile, []string{"/open can be changed by others"}},
		{"no root", nobody, []string{"apply", "--yes", "/etc/busbar/valid.hcl"}, plan.ExitNeedsRoot, []string{"root"}},
		{"bad variable", 0, []string{"apply", "--yes", "hgx-h100-roce", "--var", "lossless={dscp=99}"}, plan.ExitBadProfile, []string{"0 to 63"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := m.files(true)
			o := execute(t, m.commandAs(c.user, c.args...))
			o.want(t, c.code, c.said...)
			if o.stdout != "" {
				t.Errorf("on standard output it says %q", o.stdout)
			}
			wantSame(t, before, m.files(true))
		})
	}
	t.Run("node.hcl leads nowhere", func(t *testing.T) {
		if err := os.Symlink("/nowhere/node.hcl", m.path(profilePath)); err != nil {
			t.Fatal(err)
		}
		defer m.remove(profilePath)
		for _, args := range [][]string{{"plan"}, {"verify"}, {"apply", "--yes"}} {
			m.busbar(args...).want(t, plan.ExitBadProfile, profilePath)
		}
	})
	t.Run("a FIFO among the profiles", func(t *testing.T) {
		fifo := "/etc/busbar/profiles.d/fifo.hcl"
		if err := unix.Mkfifo(m.path(fifo), 0o644); err != nil {
			t.Fatal(err)
		}
		defer m.remove(fifo)
		m.busbar("apply", "--yes", "fifo").want(t, plan.ExitBadProfile, fifo, "no regular file")
		m.busbar("plan").want(t, plan.ExitBadProfile, fifo)
	})
	t.Run("broken node.hcl", func(t *testing.T) {
		m.write(profilePath, "nccl {\n  settings = \n}\n")
		before := m.files(true)
		for _, command := range []string{"plan", "verify", "apply"} {
			args := []string{command}
			if command == "apply" {
				args = append(args, "--yes")
			}
			m.busbar(args...).want(t, plan.ExitBadProfile, profilePath+":2:")
		}
		// What is not about this profile still works.
		m.busbar("plan", "/etc/busbar/valid.hcl").want(t, plan.ExitDrift)
		m.busbar("profiles").want(t, plan.ExitOK, "hgx-h100-roce")
		wantSame(t, before, m.files(true))
	})
}

// terminal is a pseudo-terminal (pty(7)).
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func TestApplyAsks(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		code         int
	}{
		{"no", "n\n", plan.ExitError},
		{"nothing", "\n", plan.ExitError},
		{"something", "yes please\n", plan.ExitError},
		{"end of file", "\x04", plan.ExitError},
		{"yes", "y\n", plan.ExitOK},
		{"Yes", "Yes\n", plan.ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, map[string]string{profilePath: validProfile})
			master, slave := terminal(t)
			before := m.files(true)
			if _, err := master.WriteString(c.answer); err != nil {
				t.Fatal(err)
			}
			cmd := m.command("apply")
			cmd.Stdin = slave
			o := execute(t, cmd)
			o.want(t, c.code, "write /etc/sysctl.d/zz-busbar.conf", "Do this? [y/N]")
			if c.code == plan.ExitOK {
				return
			}
			wantSame(t, before, m.files(true))
			if m.sysctl("net/core/somaxconn") == "1234" {
				t.Error("the parameter was set")
			}
		})
	}
	t.Run("SIGINT", func(t *testing.T) {
		m := newMachine(t, map[string]string{profilePath: validProfile})
		_, slave := terminal(t)
		before := m.files(true)
		cmd := m.command("apply")
		cmd.Stdin = slave
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said string
		for !strings.Contains(said, "[y/N]") {
			part := make([]byte, 4096)
			n, err := stderr.Read(part)
			if said += string(part[:n]); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(stderr)
		_ = cmd.Wait() // the exit code tells
		if code := cmd.ProcessState.ExitCode(); code != plan.ExitError || !strings.Contains(string(rest), "declined, nothing was changed") {
			t.Errorf("exit code %d, %s", code, rest)
		}
		wantSame(t, before, m.files(true))
	})
	t.Run("nothing to ask", func(t *testing.T) {
		m := newMachine(t, map[string]string{profilePath: nothingWanted})
		_, slave := terminal(t)
		cmd := m.command("apply")
		cmd.Stdin = slave
		o := execute(t, cmd)
		o.want(t, plan.ExitOK)
		if strings.Contains(o.stderr, "Do this?") {
			t.Error(o)
		}
	})
}

// Files of the machine that are not as they should be: none is called right, none crashes
// busbar, and those of others stay as they are.
func TestBadFiles(t *testing.T) {
	lines := func(line string, size int) string { return strings.Repeat(line, size/len(line)) }
	for _, c := range []struct {
		name, profile, file string
		make                func(path string) error
		text                string
		plan                int
		said                []string
		apply               int
	}{
		{name: "loop of links", profile: ncclBlock, file: "/etc/nccl.conf", make: func(p string) error { return os.Symlink("nccl.conf", p) },
			plan: plan.ExitUnknown, said: []string{"/etc/nccl.conf", "loop"}, apply: plan.ExitUnknown},
		{name: "loop in sysctl.d", profile: sysctlBlocks, file: "/etc/sysctl.d/90-loop.conf", make: func(p string) error { return os.Symlink("90-loop.conf", p) },
			plan: plan.ExitDrift, said: []string{"/etc/sysctl.d/90-loop.conf", "loop"}, apply: plan.ExitUnknown},
		{name: "link to nowhere", profile: ncclBlock, file: "/etc/nccl.conf", make: func(p string) error { return os.Symlink("/nowhere/nccl.conf", p) },
			plan: plan.ExitDrift, apply: plan.ExitPartial},
		{name: "a directory", profile: ncclBlock, file: "/etc/nccl.conf", make: func(p string) error { return os.Mkdir(p, 0o755) },
			plan: plan.ExitUnknown, said: []string{"/etc/nccl.conf", "directory"}, apply: plan.ExitUnknown},
		{name: "a FIFO", profile: ncclBlock, file: "/etc/nccl.conf", make: func(p string) error { return unix.Mkfifo(p, 0o644) },
			plan: plan.ExitUnknown, said: []string{"/etc/nccl.conf", "fifo"}, apply: plan.ExitUnknown},
		{name: "a FIFO in sysctl.d", profile: sysctlBlocks, file: "/etc/sysctl.d/90-fifo.conf", make: func(p string) error { return unix.Mkfifo(p, 0o644) },
			plan: plan.ExitDrift, said: []string{"/etc/sysctl.d/90-fifo.conf", "fifo"}, apply: plan.ExitUnknown},
		{name: "10 MB", profile: ncclBlock, file: "/etc/nccl.conf", text: lines("NCCL_DEBUG=WARN\n", 10<<20),
			plan: plan.ExitUnknown, said: []string{"/etc/nccl.conf", "larger than 1 MiB"}, apply: plan.ExitUnknown},
		{name: "1 MB", profile: ncclBlock, file: "/etc/nccl.conf", text: lines("# a remark of others\n", 1<<20-1<<12),
			plan: plan.ExitDrift, apply: plan.ExitOK},
		{name: "not UTF-8", profile: ncclBlock, file: "/etc/nccl.conf", text: "# \xe9\nNCCL_DEBUG=WARN\n",
			plan: plan.ExitUnknown, said: []string{"/etc/nccl.conf", "UTF-8"}, apply: plan.ExitUnknown},
		{name: "not UTF-8 in sysctl.d", profile: sysctlBlocks, file: "/etc/sysctl.d/10-old.conf", text: "# \xe9\nvm.swappiness=1\n",
			plan: plan.ExitDrift, said: []string{"/etc/sysctl.d/10-old.conf", "UTF-8"}, apply: plan.ExitUnknown},
		{name: "NUL", profile: ncclBlock, file: "/etc/nccl.conf", text: "NCCL_SOCKET_IFNAME=\x00\n", plan: plan.ExitDrift, apply: plan.ExitDrift},
		{name: "CRLF", profile: ncclBlock, file: "/etc/nccl.conf", text: "# a\r\nNCCL_SOCKET_IFNAME=eth\r\n", plan: plan.ExitDrift, apply: plan.ExitDrift},
		{name: "CRLF in sysctl.d", profile: sysctlBlocks, file: "/etc/sysctl.d/10-old.conf", text: "kernel.numa_balancing=1\r\nvm.swappiness=1\r\n", plan: plan.ExitDrift, apply: plan.ExitOK},
		{name: "byte order mark", profile: ncclBlock, file: "/etc/nccl.conf", text: "\ufeffNCCL_DEBUG=INFO\n", plan: plan.ExitDrift, apply: plan.ExitDrift},
		{name: "byte order mark in sysctl.d", profile: sysctlBlocks, file: "/etc/sysctl.d/10-old.conf", text: "\ufeffkernel.numa_balancing=1\n", plan: plan.ExitDrift, apply: plan.ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, map[string]string{profilePath: c.profile})
			if c.make != nil {
				if err := c.make(m.path(c.file)); err != nil {
					t.Fatal(err)
				}
			} else {
				m.write(c.file, c.text)
			}
			before := m.files(false)
			o := m.busbar("plan")
			o.want(t, c.plan, c.said...)
			m.busbar("apply", "--yes").want(t, c.apply)
			m.noTemporaries()
			after := m.files(false)
			if len(c.text) > 0 && c.apply != plan.ExitUnknown {
				m.busbar("verify").want(t, c.apply)
				if got := m.read(c.file); !strings.HasSuffix(got, c.text) {
					t.Errorf("the lines of others are not as they were: %.200q", got)
				}
			} else if before[c.file] != after[c.file] {
				t.Errorf("%s was changed", c.file)
			}
			o = m.busbar("apply", "--yes")
			o.want(t, c.apply)
			if c.apply != plan.ExitPartial {
				o.noSteps(t)
			}
		})
	}
}

// A closed or failing standard output is an error, and no crash.
func TestOutputFails(t *testing.T) {
	busbar := program(t, "busbar")
	for _, c := range []struct {
		name, script string
		said         string
	}{
		{"full", busbar + " plan --node example:hgx-h100-drifted >/dev/full", "no space left on device"},
		{"full, JSON", busbar + " plan --json --node example:hgx-h100-drifted >/dev/full", "no space left on device"},
		{"full, --json-into", busbar + " plan --json-into /dev/full --node example:hgx-h100-drifted >/dev/null", "no space left on device"},
		{"recording", busbar + " capture --raw >/dev/full", "no space left on device"},
		{"version", busbar + " version >/dev/full", "no space left on device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			execute(t, exec.Command("sh", "-c", c.script)).want(t, plan.ExitError, c.said)
		})
	}
	t.Run("nobody reads", func(t *testing.T) {
		o := execute(t, exec.Command("sh", "-c", "{ "+busbar+" plan --verbose --node example:hgx-h100-drifted; echo $? >&2; } | head -c 1 >/dev/null"))
		if code := strings.TrimSpace(o.stderr); code == "134" || strings.Contains(code, "goroutine") {
			t.Error(o)
		}
	})
	t.Run("closed", func(t *testing.T) {
		// Go opens /dev/null for what is closed: nothing is written into another file.
		for _, closed := range []string{">&-", "<&- >&- 2>&-"} {
			execute(t, exec.Command("sh", "-c", busbar+" plan --node example:hgx-h100-drifted "+closed)).want(t, plan.ExitDrift)
		}
	})
}
