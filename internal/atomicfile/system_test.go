//go:build linux

package atomicfile

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func ask(t *testing.T, cmd *exec.Cmd) (r reply) {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper process: %v", err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("helper process said %q: %v", out, err)
	}
	return r
}

// TestStrace looks at the system calls that really happen.
func TestStrace(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	if err := exec.Command("strace", "-o", os.DevNull, "true").Run(); err != nil {
		t.Skipf("strace may not trace here: %v", err)
	}
	trace := func(root, text string) (calls []string) {
		t.Helper()
		log := filepath.Join(t.TempDir(), "log")
		cmd := helper("write", root, "/etc/f", text)
		cmd.Args = append([]string{"strace", "-f", "-y", "-qq", "-s", "4096", "-o", log,
			"-e", "trace=openat,openat2,open,creat,write,fchown,fchmod,fchmodat,fsetxattr,fsync,fdatasync,ftruncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat", cmd.Path}, cmd.Args[1:]...)
		cmd.Path, _ = exec.LookPath("strace")
		if r := ask(t, cmd); r.Error != "" {
			t.Fatal(r.Error)
		}
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		// PID call(args, the same with the handles' paths) ...: keep the call, and the flags of an open
		call := regexp.MustCompile(`^\d+ +(\w+)\((.*)`)
		for line := range strings.Lines(string(raw)) {
			m := call.FindStringSubmatch(line)
			if m == nil || !strings.Contains(m[2], root+"/etc") {
				continue
			}
			what := "etc"
			switch {
			case strings.Contains(m[2], ".busbar-f-"):
				what = "temp"
			case strings.Contains(m[2], `"f"`), strings.Contains(m[2], "etc/f>"):
				what = "f"
			}
			if strings.HasPrefix(m[1], "openat") {
				if !strings.Contains(m[2], "O_WRONLY") && !strings.Contains(m[2], "O_RDWR") {
					continue
				}
				if !strings.Contains(m[2], "O_WRONLY|O_CREAT|O_EXCL") {
					t.Errorf("opened for writing: %s", line)
				}
			}
			calls = append(calls, m[1]+" "+what)
		}
		return calls
	}
	root := t.TempDir()
	put(t, root+"/etc/f", oldText, 0o644)
	want := []string{"openat temp", "write temp", "fchown temp", "fchmod temp", "fsync temp", "renameat temp", "fsync etc"}
	if diff := cmp.Diff(want, trace(root, newText)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string(nil), trace(root, newText)); diff != "" {
		t.Errorf("equal content: %s", diff)
	}
}

func TestUnprivileged(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	put(t, root+"/locked/f", oldText, 0o644)
	if err := os.Chmod(root+"/locked", 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(root+"/locked", 0o755)
	tests := map[string]struct {
		errno unix.Errno
		err   string
	}{
		"/locked/f": {unix.EACCES, "write /locked/f in root ROOT: create .busbar-f-RANDOM: permission denied; run as root"},
	}
	if os.Geteuid() == 0 {
		for name := dir; name != "/"; name = filepath.Dir(name) {
			if fi, err := os.Stat(name); err != nil || fi.Mode()&0o005 != 0o005 {
				if name != dir && name != filepath.Dir(dir) {
					t.Skipf("other users cannot reach the temporary directory %s", name)
				}
				if err := os.Chmod(name, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(t, root+"/own/theirs", oldText, 0o644)
		put(t, root+"/own/secret", oldText, 0o600)
		give(t, root+"/own", 65534, 65534)
		tests["/own/theirs"] = struct {
			errno unix.Errno
			err   string
		}{unix.EPERM, "write /own/theirs in root ROOT: set owner of .busbar-theirs-RANDOM: operation not permitted; run as root"}
		tests["/own/secret"] = struct {
			errno unix.Errno
			err   string
		}{unix.EACCES, "write /own/secret in root ROOT: open secret: permission denied; run as root"}
	}
	before := tree(t, root)
	for path, test := range tests {
		r := ask(t, helper("nobody", root, path, newText))
		text := regexp.MustCompile(`-[0-9a-f]{16}`).ReplaceAllString(strings.ReplaceAll(r.Error, root, "ROOT"), "-RANDOM")
		if r.Changed || r.Errno != test.errno || !strings.HasPrefix(text, test.err) {
			t.Errorf("%s: changed %t, %s", path, r.Changed, text)
		}
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	if os.Geteuid() == 0 {
		if r := ask(t, helper("nobody", root, "/own/fresh", newText)); !r.Changed || r.Error != "" {
			t.Errorf("a file of one's own: %+v", r)
		}
	}
}

// mountedTree is what the mounted helper saw on its own mount afterwards.
var mountedTree map[string]string

// mounted writes on a file system that this process alone has mounted.
func mounted(kind, dir string) (changed bool, err error) {
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=8"))
	must(os.WriteFile(dir+"/f", []byte(oldText), 0o644))
	data := []byte(newText)
	switch kind {
	case "full":
		data = bytes.Repeat([]byte("0123456789abcdef"), 8192) // 128 KiB: half of it fits
	case "inodes":
		for i := range 8 {
			os.WriteFile(dir+"/x"+string(rune('0'+i)), nil, 0o644)
		}
	case "read-only":
		must(unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	case "bind":
		must(unix.Mount(dir+"/f", dir+"/f", "", unix.MS_BIND, ""))
	case "remove":
		must(unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		changed, err = Remove(dir, "/f")
	}
	if kind != "remove" {
		changed, err = Write(dir, "/f", data)
	}
	mountedTree = map[string]string{}
	entries, readErr := os.ReadDir(dir)
	must(readErr)
	for _, e := range entries {
		text, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		must(readErr)
		if len(text) > 0 {
			mountedTree[e.Name()] = string(text)
		}
	}
	return changed, err
}

// TestMounted meets a full and a read-only file system for real.
func TestMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a tmpfs in a mount namespace of its own")
	}
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := probe.Run(); err != nil {
		t.Skipf("a mount namespace of one's own is not permitted here: %v", err)
	}
	for _, test := range []struct {
		kind  string
		errno unix.Errno
		err   string
	}{
		{"full", unix.ENOSPC, "write /f in root ROOT: write .busbar-f-RANDOM: no space left on device; free blocks and inodes"},
		{"inodes", unix.ENOSPC, "write /f in root ROOT: create .busbar-f-RANDOM: no space left on device; free blocks and inodes"},
		{"read-only", unix.EROFS, "write /f in root ROOT: create .busbar-f-RANDOM: read-only file system; remount it read-write"},
		{"bind", unix.EBUSY, "write /f in root ROOT: rename .busbar-f-RANDOM: device or resource busy; something is mounted on the file"},
		{"remove", unix.EROFS, "remove /f in root ROOT: unlink f: read-only file system; remount it read-write"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			dir := t.TempDir()
			cmd := helper("mounted", test.kind, dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			r := ask(t, cmd)
			text := regexp.MustCompile(`-[0-9a-f]{16}`).ReplaceAllString(strings.ReplaceAll(r.Error, dir, "ROOT"), "-RANDOM")
			if r.Changed || r.Errno != test.errno || !strings.HasPrefix(text, test.err) {
				t.Errorf("changed %t, errno %v\ngot  %s\nwant %s", r.Changed, r.Errno, text, test.err)
			}
			if diff := cmp.Diff(map[string]string{"f": oldText}, r.Tree); diff != "" {
				t.Error(diff)
			}
		})
	}
}
