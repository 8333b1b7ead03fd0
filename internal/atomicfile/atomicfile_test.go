//go:build linux

package atomicfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// put makes a file, with its directories, whatever the umask.
func put(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, to, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t testing.TB, root, path, text string, opts ...Option) (changed bool) {
	t.Helper()
	changed, err := Write(root, path, []byte(text), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// give skips a test that only one who may give files away can run.
func give(t testing.TB, name string, uid, gid int) {
	t.Helper()
	if err := os.Chown(name, uid, gid); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		t.Skipf("not permitted to give files to other users here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func stat(t testing.TB, name string) *syscall.Stat_t {
	t.Helper()
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t)
}

// tree is what lies under dir: a file's content, "-> target" of a link, "/" of
// a directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.IsDir():
			found[rel] = "/"
		case d.Type() == os.ModeSymlink:
			to, err := os.Readlink(name)
			found[rel] = "-> " + to
			return err
		case d.Type().IsRegular():
			text, err := os.ReadFile(name)
			found[rel] = string(text)
			return err
		default:
			found[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWriteNewAndChanged(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "f.conf")
	for _, step := range []struct {
		text    string
		opts    []Option
		changed bool
		mode    uint32
	}{
		{"", nil, true, 0o644}, // an empty file is not an absent one
		{"", nil, false, 0o644},
		{"one\n", nil, true, 0o644},
		{"one\n", nil, false, 0o644},
		{"two\n", nil, true, 0o644}, // same size
		{"two\n", []Option{Mode(0o600)}, true, 0o600},
		{"two\n", []Option{Mode(0o600)}, false, 0o600},
		{"two\n", nil, false, 0o600},
		{"three\n", nil, true, 0o600}, // kept
		{"three\n", []Option{Owner(os.Getuid(), -1)}, false, 0o600},
		{strings.Repeat("x", 5<<20), []Option{Mode(0o666)}, true, 0o666},
	} {
		if changed := mustWrite(t, root, "/f.conf", step.text, step.opts...); changed != step.changed {
			t.Errorf("%.9q: changed is %t", step.text, changed)
		}
		if got, _ := os.ReadFile(name); string(got) != step.text {
			t.Errorf("%.9q: the file holds %.9q", step.text, got)
		}
		if mode := stat(t, name).Mode & 0o7777; mode != step.mode {
			t.Errorf("%.9q: mode %#o, want %#o", step.text, mode, step.mode)
		}
	}
	if got := tree(t, root); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

func TestRootIsSlash(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out.json")
	if !mustWrite(t, "/", name, "{}") || mustWrite(t, "/", name, "{}") {
		t.Error("want one change")
	}
	if changed, err := Remove("/", name); !changed || err != nil {
		t.Errorf("Remove: %t, %v", changed, err)
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// What holds the wanted content is not touched, and neither is its directory.
func TestEqualContentWritesNothing(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "etc/f"), "same\n", 0o640)
	link(t, "/etc/f", filepath.Join(root, "etc/link"))
	stale := ".busbar-f-0123456789abcdef"
	put(t, filepath.Join(root, "etc", stale), "half", 0o600)
	before := []syscall.Stat_t{*stat(t, filepath.Join(root, "etc")), *stat(t, filepath.Join(root, "etc/f"))}
	for _, path := range []string{"/etc/f", "/etc/link"} {
		var rec recorder
		changed, err := rec.system().write(root, path, []byte("same\n"), Mode(0o640), Owner(os.Getuid(), os.Getgid()), MkdirAll())
		if changed || err != nil {
			t.Fatalf("changed %t, %v", changed, err)
		}
		for _, e := range rec.events {
			switch e.op {
			case "open directory", "stat", "read link", "open", "read":
			default:
				t.Errorf("%s: %s", path, e)
			}
		}
	}
	after := []syscall.Stat_t{*stat(t, filepath.Join(root, "etc")), *stat(t, filepath.Join(root, "etc/f"))}
	for i := range before {
		before[i].Atim, after[i].Atim = syscall.Timespec{}, syscall.Timespec{}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

func TestLinks(t *testing.T) {
	for _, test := range []struct {
		name, path string
		opts       []Option
		make       func(t *testing.T, root string)
		want       map[string]string // what is new or other afterwards
		err        string
		errno      error
	}{
		{name: "relative", path: "/etc/f", make: func(t *testing.T, root string) {
			put(t, root+"/opt/real", "old", 0o644)
			link(t, "../opt/real", root+"/etc/f")
		}, want: map[string]string{"opt/real": "new"}},
		{name: "absolute inside the root", path: "/etc/f", make: func(t *testing.T, root string) {
			put(t, root+"/opt/real", "old", 0o644)
			link(t, "/opt/real", root+"/etc/f")
		}, want: map[string]string{"opt/real": "new"}},
		{name: "above the root", path: "/etc/f", make: func(t *testing.T, root string) {
			put(t, root+"/opt/real", "old", 0o644)
			link(t, "../../../../../../../../opt/real", root+"/etc/f")
		}, want: map[string]string{"opt/real": "new"}},
		{name: "directory above the root", path: "/etc/d/f", make: func(t *testing.T, root string) {
			put(t, root+"/opt/f", "old", 0o644)
			link(t, "../../../../../../opt", root+"/etc/d")
		}, want: map[string]string{"opt/f": "new"}},
		{name: "dot-dot is of the directory, not of the text", path: "/d/../f", make: func(t *testing.T, root string) {
			put(t, root+"/opt/sub/x", "", 0o644)
			put(t, root+"/f", "other", 0o644)
			link(t, "/opt/sub", root+"/d")
		}, want: map[string]string{"opt/f": "new"}},
		{name: "relative through a linked directory", path: "/d/f", make: func(t *testing.T, root string) {
			put(t, root+"/a/b/x", "", 0o644)
			put(t, root+"/a/real", "old", 0o644)
			link(t, "/a/b", root+"/d")
			link(t, "../real", root+"/a/b/f")
		}, want: map[string]string{"a/real": "new"}},
		{name: "chain", path: "/l0", make: func(t *testing.T, root string) {
			put(t, root+"/l40", "old", 0o644)
			for i := range 40 {
				link(t, fmt.Sprintf("l%d", i+1), fmt.Sprintf("%s/l%d", root, i))
			}
		}, want: map[string]string{"l40": "new"}},
		{name: "too long a chain", path: "/l0", make: func(t *testing.T, root string) {
			put(t, root+"/l41", "old", 0o644)
			for i := range 41 {
				link(t, fmt.Sprintf("l%d", i+1), fmt.Sprintf("%s/l%d", root, i))
			}
		}, errno: unix.ELOOP, err: "too many levels of symbolic links; the links form a loop"},
		{name: "loop", path: "/etc/f", make: func(t *testing.T, root string) {
			link(t, "g", root+"/etc/f")
			link(t, "/etc/f", root+"/etc/g")
		}, errno: unix.ELOOP, err: "the links form a loop"},
		{name: "loop of directories", path: "/d/f", make: func(t *testing.T, root string) {
			link(t, "d", root+"/d")
		}, errno: unix.ELOOP, err: "open directory /d/: too many levels"},
		{name: "dangling", path: "/etc/f", make: func(t *testing.T, root string) {
			put(t, root+"/opt/x", "", 0o644)
			link(t, "/opt/real", root+"/etc/f")
		}, want: map[string]string{"opt/real": "new"}},
		{name: "dangling into a missing directory", path: "/etc/f", opts: []Option{MkdirAll()}, make: func(t *testing.T, root string) {
			link(t, "/opt/real", root+"/etc/f")
		}, errno: unix.ENOENT, err: "write /etc/f in root ROOT: open directory /opt/: no such file or directory; a directory of the path, or one that a link leads to"},
		{name: "dangling directory", path: "/etc/d/e/f", opts: []Option{MkdirAll()}, make: func(t *testing.T, root string) {
			link(t, "/opt/d", root+"/etc/d")
		}, errno: unix.ENOENT, err: "open directory /etc/d/: no such file"},
		{name: "a path of the host", path: "/etc/f", make: func(t *testing.T, root string) {
			link(t, root+"/real", root+"/etc/f")
			put(t, root+"/real", "old", 0o644)
		}, errno: unix.ENOENT},
		{name: "to a directory", path: "/f", make: func(t *testing.T, root string) {
			link(t, "etc", root+"/f")
			put(t, root+"/etc/x", "", 0o644)
		}, err: "/etc is a directory, not a regular file"},
		{name: "to the root", path: "/f", make: func(t *testing.T, root string) {
			link(t, "..", root+"/f")
		}, err: "/.. names a directory, not a file"},
		{name: "to a file with a slash", path: "/f", make: func(t *testing.T, root string) {
			link(t, "g/", root+"/f")
			put(t, root+"/g", "old", 0o644)
		}, err: "/g/ names a directory"},
		{name: "FIFO", path: "/f", make: func(t *testing.T, root string) {
			if err := unix.Mkfifo(root+"/f", 0o644); err != nil {
				t.Fatal(err)
			}
		}, err: "/f is a FIFO, not a regular file"},
		{name: "file as directory", path: "/f/g", make: func(t *testing.T, root string) {
			put(t, root+"/f", "old", 0o644)
		}, errno: unix.ENOTDIR, err: "open directory /f/: not a directory"},
		{name: "missing directory", path: "/a/b/f", make: func(*testing.T, string) {},
			errno: unix.ENOENT, err: "open directory /a/b/: no such file"},
		{name: "missing directories made", path: "/a/../a//b/f", opts: []Option{MkdirAll()}, make: func(*testing.T, string) {},
			want: map[string]string{"a": "/", "a/b": "/", "a/b/f": "new"}},
		{name: "not absolute", path: "f", make: func(*testing.T, string) {}, err: "the path is not absolute"},
		{name: "NUL", path: "/a\x00b", make: func(*testing.T, string) {}, errno: unix.EINVAL},
		{name: "name too long", path: "/" + strings.Repeat("n", 250), make: func(*testing.T, string) {}, errno: unix.ENAMETOOLONG},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			test.make(t, root)
			want := tree(t, root)
			for name, text := range test.want {
				want[name] = text
			}
			changed, err := Write(root, test.path, []byte("new"), test.opts...)
			failed := test.err != "" || test.errno != nil
			if changed == failed || (err != nil) != failed {
				t.Fatalf("changed %t, %v", changed, err)
			}
			if failed {
				text := strings.ReplaceAll(err.Error(), root, "ROOT")
				if !strings.Contains(text, test.err) || test.errno != nil && !errors.Is(err, test.errno) {
					t.Errorf("got  %s\nwant %s (%v)", text, test.err, test.errno)
				}
			}
			if diff := cmp.Diff(want, tree(t, root)); diff != "" {
				t.Error(diff)
			}
			if !failed && mustWrite(t, root, test.path, "new", test.opts...) {
				t.Error("the second Write changed something")
			}
		})
	}
}

func TestDevice(t *testing.T) {
	_, err := Write("/", "/dev/null", nil)
	if err == nil || !strings.Contains(err.Error(), "write /dev/null: it leads to /dev/null, and in /dev no file lasts") {
		t.Error(err)
	}
}

// Links into the directories that the kernel fills are refused, whether the tree has a
// file there or not, and nothing of it is changed. /dev/shm is a place for files.
func TestKernelDirectories(t *testing.T) {
	for _, c := range []struct{ link, said string }{
		{"/dev/null", "it leads to /dev/null, and in /dev no file lasts"},
		{"../dev/zero", "it leads to /dev/zero, and in /dev no file lasts"},
		{"/dev/shm/../null", "it leads to /dev/null"},
		{"/chain", "it leads to /dev/null"},
		{"/proc/self/x", "it leads to /proc/self/x, and in /proc no file lasts"},
		{"/sys/x", "it leads to /sys/x, and in /sys no file lasts"},
		{"/dev/shm/x", ""},
		{"/device/x", ""},
	} {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %t", c.link, there), func(t *testing.T) {
				root := t.TempDir()
				for _, dir := range []string{"dev/shm", "proc/self", "sys", "device", "etc"} {
					put(t, filepath.Join(root, dir, "kept"), "", 0o644)
				}
				link(t, "dev/null", root+"/chain")
				link(t, c.link, root+"/etc/f")
				if there {
					for _, file := range []string{"dev/null", "dev/zero", "proc/self/x", "sys/x"} {
						put(t, filepath.Join(root, file), "old", 0o644)
					}
				}
				before := tree(t, root)
				changed, err := Write(root, "/etc/f", []byte("new"))
				if c.said == "" {
					if !changed || err != nil {
						t.Errorf("changed %t, %v", changed, err)
					}
					return
				}
				if changed || err == nil || !strings.Contains(err.Error(), c.said) {
					t.Errorf("Write: changed %t, %v", changed, err)
				}
				if changed, err := Remove(root, "/etc/f"); changed || err == nil || !strings.Contains(err.Error(), c.said) {
					t.Errorf("Remove: changed %t, %v", changed, err)
				}
				if diff := cmp.Diff(before, tree(t, root)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestMissingRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "none")
	for _, f := range []func() (bool, error){
		func() (bool, error) { return Write(root, "/f", nil, MkdirAll()) },
		func() (bool, error) { return Remove(root, "/f") },
	} {
		if changed, err := f(); changed || err == nil || !strings.Contains(err.Error(), "no root directory") {
			t.Errorf("changed %t, %v", changed, err)
		}
	}
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	put(t, root+"/etc/f", "x", 0o644)
	put(t, root+"/etc/.busbar-f-0123456789abcdef", "stale", 0o644)
	put(t, root+"/opt/real", "x", 0o644)
	link(t, "/opt/real", root+"/etc/link")
	link(t, "/none/f", root+"/etc/dangling")
	for _, test := range []struct {
		path    string
		changed bool
		err     string
	}{
		{"/etc/f", true, ""},
		{"/etc/f", false, ""},
		{"/etc/link", true, ""},
		{"/etc/link", false, ""},
		{"/etc/dangling", false, ""},
		{"/none/f", false, ""},
		{"/opt", false, "remove /opt in root " + root + ": /opt is a directory"},
	} {
		changed, err := Remove(root, test.path)
		if changed != test.changed || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: changed %t, %v", test.path, changed, err)
		}
	}
	want := map[string]string{"etc": "/", "etc/link": "-> /opt/real", "etc/dangling": "-> /none/f", "opt": "/"}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
}

// A stale temporary file goes; files of another name or target stay.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	stay := []string{
		".busbar-f-0123456789ABCDEF", ".busbar-f-0123", ".busbar-f-0123456789abcdef0", ".busbar-f-b-0123456789abcdef",
		".busbar-g-0123456789abcdef", "busbar-f-0123456789abcdef", ".busbar-f-0123456789abcdef.conf",
	}
	want := map[string]string{"f": "new"}
	for _, name := range stay {
		put(t, filepath.Join(root, name), "stays", 0o644)
		want[name] = "stays"
	}
	if err := os.Mkdir(root+"/.busbar-f-00000000000000aa", 0o755); err != nil {
		t.Fatal(err)
	}
	want[".busbar-f-00000000000000aa"] = "/"
	put(t, root+"/.busbar-f-0123456789abcdef", "half", 0o600)
	put(t, root+"/.busbar-f-ffffffffffffffff", "half", 0o600)
	mustWrite(t, root, "/f", "new")
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}

	theirs := ".busbar-f-1111111111111111"
	put(t, filepath.Join(root, theirs), "of another user", 0o644)
	give(t, filepath.Join(root, theirs), 4321, 4321)
	mustWrite(t, root, "/f", "newer")
	want["f"], want[theirs] = "newer", "of another user"
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
}

// A reader of a conf.d directory must not take a temporary file for its own.
func TestTempNameIsHidden(t *testing.T) {
	for _, base := range []string{"zz-busbar.conf", "zz-busbar.cfg", "f"} {
		root, seen := t.TempDir(), ""
		sys := system(func(op, name string, call func() error) error {
			if op == "write" {
				seen = name
			}
			return kernel(op, name, call)
		})
		if _, err := sys.write(root, "/"+base, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(seen, ".busbar-"+base+"-") || filepath.Ext(seen) == ".conf" || filepath.Ext(seen) == ".cfg" {
			t.Errorf("temporary file %q", seen)
		}
	}
}

func TestUmask(t *testing.T) {
	root := t.TempDir()
	put(t, root+"/readable", "old", 0o644)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	mustWrite(t, root, "/readable", "new")
	mustWrite(t, root, "/fresh", "new")
	mustWrite(t, root, "/shared", "new", Mode(0o666))
	mustWrite(t, root, "/a/b/c", "new", MkdirAll())
	got := map[string]uint32{}
	for _, name := range []string{"readable", "fresh", "shared", "a", "a/b", "a/b/c"} {
		got[name] = stat(t, filepath.Join(root, name)).Mode & 0o7777
	}
	want := map[string]uint32{"readable": 0o644, "fresh": 0o644, "shared": 0o666, "a": 0o755, "a/b": 0o755, "a/b/c": 0o644}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOwnerAndModeAreKept(t *testing.T) {
	root := t.TempDir()
	name := root + "/f"
	put(t, name, "old", 0o640)
	give(t, name, 1234, 5678)
	if err := unix.Chmod(name, 0o6751); err != nil {
		t.Fatal(err)
	}
	// A killed run had given its temporary file away already.
	stale := root + "/.busbar-f-0123456789abcdef"
	put(t, stale, "half", 0o600)
	give(t, stale, 1234, 5678)
	type attr struct{ Mode, UID, GID uint32 }
	check := func(want attr) {
		t.Helper()
		st := stat(t, name)
		if diff := cmp.Diff(want, attr{st.Mode & 0o7777, st.Uid, st.Gid}); diff != "" {
			t.Error(diff)
		}
	}
	mustWrite(t, root, "/f", "new")
	check(attr{0o6751, 1234, 5678})
	if got := tree(t, root); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
	if !mustWrite(t, root, "/f", "new", Owner(0, -1)) || mustWrite(t, root, "/f", "new", Owner(0, -1)) {
		t.Error("want one change of owner")
	}
	check(attr{0o6751, 0, 5678})
	mustWrite(t, root, "/f", "new", Owner(-1, 7), Mode(0o600))
	check(attr{0o600, 0, 7})
	name = root + "/g"
	mustWrite(t, root, "/g", "new", Owner(1234, 5678))
	check(attr{0o644, 1234, 5678})
}

func getxattr(t *testing.T, name, key string) (value []byte, ok bool) {
	t.Helper()
	buf := make([]byte, xattrMax)
	n, err := unix.Lgetxattr(name, key, buf)
	if errors.Is(err, unix.ENODATA) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n], true
}

func setxattr(t *testing.T, name, key string, value []byte) {
	t.Helper()
	if err := unix.Lsetxattr(name, key, value, 0); errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		t.Skipf("cannot set %s on the file system of %s: %v", key, filepath.Dir(name), err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func TestXattrsAreKept(t *testing.T) {
	for _, attr := range []struct {
		key, value string
		kept       bool
	}{
		{"user.note", "hello\x00world", true},
		{"user.empty", "", true},
		{"user.big", strings.Repeat("x", 3000), true},
		{"security.selinux", "system_u:object_r:passwd_file_t:s0\x00", true},
		{"trusted.busbar", "t", true},
		// VFS_CAP_REVISION_2 with cap_net_raw: the kernel drops it at a write, so do we
		{"security.capability", "\x00\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", false},
	} {
		t.Run(attr.key, func(t *testing.T) {
			root := t.TempDir()
			name := root + "/f"
			put(t, name, "old", 0o644)
			setxattr(t, name, attr.key, []byte(attr.value))
			inode := stat(t, name).Ino
			mustWrite(t, root, "/f", "new")
			if stat(t, name).Ino == inode {
				t.Error("written in place")
			}
			value, ok := getxattr(t, name, attr.key)
			if ok != attr.kept || ok && string(value) != attr.value {
				t.Errorf("%t, %q", ok, value)
			}
		})
	}
}

func aclBytes(entries ...[3]uint32) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, uint32(2))
	for _, e := range entries {
		binary.Write(&b, binary.LittleEndian, struct {
			Tag, Perm uint16
			ID        uint32
		}{uint16(e[0]), uint16(e[1]), e[2]})
	}
	return b.Bytes()
}

func TestACLs(t *testing.T) {
	const none = 0xffffffff
	list := aclBytes([3]uint32{1, 6, none}, [3]uint32{2, 6, uint32(os.Getuid())}, [3]uint32{4, 4, none}, [3]uint32{0x10, 6, none}, [3]uint32{0x20, 0, none})
	t.Run("kept", func(t *testing.T) {
		root := t.TempDir()
		put(t, root+"/f", "old", 0o640)
		setxattr(t, root+"/f", acl, list)
		mustWrite(t, root, "/f", "new")
		if got, _ := getxattr(t, root+"/f", acl); !bytes.Equal(got, list) {
			t.Errorf("% x", got)
		}
		if mode := stat(t, root+"/f").Mode & 0o7777; mode != 0o660 {
			t.Errorf("mode %#o", mode)
		}
	})
	t.Run("not inherited by a replacement", func(t *testing.T) {
		root := t.TempDir()
		put(t, root+"/f", "old", 0o640)
		setxattr(t, root, "system.posix_acl_default", list)
		mustWrite(t, root, "/f", "new")
		if got, ok := getxattr(t, root+"/f", acl); ok {
			t.Errorf("% x", got)
		}
		if mode := stat(t, root+"/f").Mode & 0o7777; mode != 0o640 {
			t.Errorf("mode %#o", mode)
		}
		mustWrite(t, root, "/fresh", "new")
		if _, ok := getxattr(t, root+"/fresh", acl); !ok {
			t.Error("a new file did not inherit the ACL of its directory")
		}
	})
}

// A label that cannot be copied is an error, unless the new file has it already;
// a file system without attributes is none.
func TestLabelErrors(t *testing.T) {
	const label, op = "security.selinux", "set attribute security.selinux of"
	for _, test := range []struct {
		name    string
		errno   error
		right   bool // the policy gives the right label to the temporary file
		changed bool
	}{
		{"denied", unix.EPERM, false, false},
		{"denied but right", unix.EPERM, true, true},
		{"unsupported", unix.ENOTSUP, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root+"/f", "old", 0o644)
			setxattr(t, root+"/f", label, []byte("l"))
			sys := system(func(o, name string, call func() error) error {
				if o == op {
					return kernel(o, name, func() error { return test.errno })
				}
				err := kernel(o, name, call)
				if o == "create" && test.right {
					setxattr(t, filepath.Join(root, name), label, []byte("l"))
				}
				return err
			})
			changed, err := sys.write(root, "/f", []byte("new"))
			if changed != test.changed || (err == nil) != test.changed || err != nil && !errors.Is(err, test.errno) {
				t.Errorf("changed %t, %v", changed, err)
			}
			if err = explain("write", "/", "/f", err); err != nil && !strings.Contains(err.Error(), "write /f: "+op+" .busbar-f-") {
				t.Error(err)
			}
			want := map[string]string{"f": "old"}
			if test.changed {
				want["f"] = "new"
			}
			if diff := cmp.Diff(want, tree(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// fsync(2) allows EINVAL for what cannot be flushed; other errors count.
func TestDirectoryFlush(t *testing.T) {
	for _, test := range []struct {
		errno unix.Errno
		ok    bool
	}{{unix.EINVAL, true}, {unix.EIO, false}} {
		sys := system(func(op, name string, call func() error) error {
			if op == "flush directory" {
				call = func() error { return test.errno }
			}
			return kernel(op, name, call)
		})
		changed, err := sys.write(t.TempDir(), "/f", nil)
		if !changed || (err == nil) != test.ok {
			t.Errorf("%v: changed %t, %v", test.errno, changed, err)
		}
	}
}

func TestInterruptedCallsAreRepeated(t *testing.T) {
	interrupted := map[string]bool{}
	sys := system(func(op, name string, call func() error) error {
		return kernel(op, name, func() error {
			if !interrupted[op] && op != "close" {
				interrupted[op] = true
				return unix.EINTR
			}
			return call()
		})
	})
	root := t.TempDir()
	put(t, root+"/f", "old", 0o644)
	if changed, err := sys.write(root, "/f", []byte("new")); !changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
}

func BenchmarkWriteEqual(b *testing.B) {
	root, data := b.TempDir(), bytes.Repeat([]byte("option=1\n"), 100)
	mustWrite(b, root, "/etc/f.conf", string(data), MkdirAll())
	for b.Loop() {
		if changed, err := Write(root, "/etc/f.conf", data); changed || err != nil {
			b.Fatal(changed, err)
		}
	}
}

func BenchmarkWriteChanged(b *testing.B) {
	root := b.TempDir()
	data := [][]byte{bytes.Repeat([]byte("option=1\n"), 100), bytes.Repeat([]byte("option=2\n"), 100)}
	for i := 0; b.Loop(); i++ {
		if changed, err := Write(root, "/f.conf", data[i%2]); !changed || err != nil {
			b.Fatal(changed, err)
		}
	}
}
