//go:build linux

package atomicfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	oldText = "old old old old\n"
	newText = "new new\n"
)

// scenarios are the calls that are failed and killed at every operation.
var scenarios = []struct {
	name string
	make func(t *testing.T, root string)
	path string
	opts []Option
	file string // what path leads to
	text string // what it holds afterwards
}{
	{"new file", func(*testing.T, string) {}, "/f", nil, "f", newText},
	{"replace", func(t *testing.T, root string) { put(t, root+"/f", oldText, 0o640) }, "/f", nil, "f", newText},
	{"replace over a stale temporary file", func(t *testing.T, root string) {
		put(t, root+"/f", oldText, 0o640)
		put(t, root+"/.busbar-f-0123456789abcdef", "half", 0o600)
	}, "/f", []Option{Mode(0o600)}, "f", newText},
	{"attributes", func(t *testing.T, root string) {
		put(t, root+"/f", oldText, 0o640)
		_ = unix.Lsetxattr(root+"/f", "user.note", []byte("x"), 0) // where there are any
		_ = os.Chown(root+"/f", 1234, 5678)                        // where it is permitted
	}, "/f", nil, "f", newText},
	{"through a link", func(t *testing.T, root string) {
		put(t, root+"/opt/real", oldText, 0o644)
		link(t, "/opt/real", root+"/etc/f")
	}, "/etc/f", nil, "opt/real", newText},
	{"new directories", func(*testing.T, string) {}, "/a/b/f", []Option{MkdirAll()}, "a/b/f", newText},
	{"remove", func(t *testing.T, root string) { put(t, root+"/etc/f", oldText, 0o644) }, "/etc/f", nil, "etc/f", ""},
}

func runScenario(sys system, i int, root string) (bool, error) {
	s := scenarios[i]
	if s.text == "" {
		return sys.remove(root, s.path)
	}
	return sys.write(root, s.path, []byte(s.text), s.opts...)
}

// checkScenario wants the old or the new content whole, then converges.
func checkScenario(t *testing.T, i int, root, before string) {
	t.Helper()
	s := scenarios[i]
	if got := tree(t, root)[s.file]; got != before && got != s.text {
		t.Errorf("torn: %q", got)
	}
	if _, err := runScenario(kernel, i, root); err != nil {
		t.Errorf("the next run: %v", err)
	}
	after := tree(t, root)
	if got := after[s.file]; got != s.text {
		t.Errorf("the next run left %q", got)
	}
	if changed, err := runScenario(kernel, i, root); changed || err != nil {
		t.Errorf("the run after that: changed %t, %v", changed, err)
	}
}

func temporaries(t *testing.T, root string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(tree(t, root))) {
		if strings.HasPrefix(filepath.Base(name), ".busbar-") {
			names = append(names, name)
		}
	}
	return names
}

// TestFailAtEveryOperation lets operation n fail, for every n: once; with all
// that follow; or after it took effect, as when a server's answer is lost.
func TestFailAtEveryOperation(t *testing.T) {
	for i, s := range scenarios {
		for _, way := range []string{"once", "from there on", "after the effect"} {
			t.Run(s.name+"/"+way, func(t *testing.T) {
				for n, reached := 1, true; reached; n++ {
					root, ops, failed := t.TempDir(), 0, ""
					s.make(t, root)
					before := tree(t, root)[s.file]
					sys := system(func(op, name string, call func() error) error {
						ops++
						if ops < n || ops > n && way != "from there on" {
							return kernel(op, name, call)
						}
						failed += op + " " + name + ", "
						if way == "after the effect" {
							kernel(op, name, call)
						}
						return kernel(op, name, func() error { return unix.EIO })
					})
					changed, err := runScenario(sys, i, root)
					reached = ops >= n
					got := tree(t, root)[s.file]
					switch {
					case err == nil && got != s.text:
						t.Errorf("%d (%s): no error, but %q", n, failed, got)
					case err != nil && !errors.Is(err, unix.EIO):
						t.Errorf("%d (%s): %v", n, failed, err)
					case way != "after the effect" && changed != (got != before):
						t.Errorf("%d (%s): changed is %t", n, failed, changed)
					}
					if left := temporaries(t, root); way == "once" && s.name != "replace over a stale temporary file" && left != nil {
						t.Errorf("%d (%s): left behind %v", n, failed, left)
					}
					checkScenario(t, i, root, before)
					if left := temporaries(t, root); left != nil && got != s.text {
						t.Errorf("%d (%s): the next run left %v", n, failed, left)
					}
				}
			})
		}
	}
}

// TestKillAtEveryOperation kills a process before operation n, for every n, and
// in the middle of the write.
func TestKillAtEveryOperation(t *testing.T) {
	for i, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for n, killed := 1, true; killed; n++ {
				root := t.TempDir()
				s.make(t, root)
				before := tree(t, root)[s.file]
				err := helper("kill", strconv.Itoa(i), strconv.Itoa(n), root).Run()
				var exit *exec.ExitError
				killed = errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
				if err != nil && !killed {
					t.Fatalf("operation %d: %v", n, err)
				}
				got := tree(t, root)[s.file]
				checkScenario(t, i, root, before)
				if left := temporaries(t, root); left != nil && got != s.text {
					t.Errorf("operation %d: the next run left %v", n, left)
				}
			}
		})
	}
}

// killBefore dies before operation n; a write that it follows was cut in half.
func killBefore(n int, root string) system {
	ops := 0
	return func(op, name string, call func() error) error {
		if ops++; ops == n {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		err := kernel(op, name, call)
		if op == "write" && ops == n-1 {
			found, _ := filepath.Glob(root + "/*/*/" + name)
			more, _ := filepath.Glob(root + "/*/" + name)
			for _, temp := range append(append(found, more...), filepath.Join(root, name)) {
				os.Truncate(temp, int64(len(newText)/2))
			}
		}
		return err
	}
}

// A recorder notes every operation that succeeded.
type recorder struct{ events []event }

type event struct{ op, name string }

func (e event) String() string { return e.op + " " + e.name }

var random = regexp.MustCompile(`-[0-9a-f]{16}$`)

func (r *recorder) system() system {
	return func(op, name string, call func() error) error {
		err := kernel(op, name, call)
		if err == nil {
			r.events = append(r.events, event{op, random.ReplaceAllString(name, "-RANDOM")})
		}
		return err
	}
}

// TestTrace holds the proof that a power cut loses nothing: no rename before the
// flush of the same file, no return before the flush of its directory.
func TestTrace(t *testing.T) {
	for i, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			root := t.TempDir()
			s.make(t, root)
			var rec recorder
			if changed, err := runScenario(rec.system(), i, root); !changed || err != nil {
				t.Fatalf("changed %t, %v", changed, err)
			}
			flushed, pending := map[string]bool{}, map[string]bool{}
			dir := ""
			for _, e := range rec.events {
				switch e.op {
				case "open directory":
					dir = e.name
				case "write", "set owner of", "set mode of":
					if strings.Contains(e.name, ".busbar-") {
						flushed[e.name] = false
					}
				case "make directory":
					pending[filepath.Dir(e.name)] = true
				case "flush":
					flushed[e.name] = true
				case "rename":
					if !flushed[e.name] {
						t.Errorf("%s before its flush", e)
					}
					pending[filepath.Clean(dir)] = true
				case "unlink":
					pending[filepath.Clean(dir)] = true
				case "flush directory":
					delete(pending, filepath.Clean(e.name))
				}
			}
			if len(pending) > 0 {
				t.Errorf("not flushed: %v\n%v", pending, rec.events)
			}
		})
	}

	root := t.TempDir()
	put(t, root+"/etc/f", oldText, 0o644)
	var rec recorder
	if _, err := rec.system().write(root, "/etc/f", []byte(newText)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range rec.events {
		if !strings.Contains(e.op, "attribute") && !strings.Contains(e.op, "ACL") {
			got = append(got, strings.ReplaceAll(e.String(), root, "ROOT"))
		}
	}
	want := []string{
		"open directory /etc/", "read link ROOT", "read link /etc/", "stat f", "open f", "list directory /etc/", "create .busbar-f-RANDOM",
		"write .busbar-f-RANDOM", "set owner of .busbar-f-RANDOM", "set mode of .busbar-f-RANDOM",
		"flush .busbar-f-RANDOM", "close .busbar-f-RANDOM", "rename .busbar-f-RANDOM", "flush directory /etc/",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// helperEnv makes the test binary a helper process: os.Args[1] says which.
const helperEnv = "BUSBAR_ATOMICFILE_HELPER"

func helper(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), helperEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		os.Exit(m.Run())
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "kill":
		i, _ := strconv.Atoi(args[0])
		n, _ := strconv.Atoi(args[1])
		if _, err := runScenario(killBefore(n, args[2]), i, args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "write": // ROOT PATH TEXT
		answer(Write(args[0], args[1], []byte(args[2])))
	case "nobody": // ROOT PATH TEXT
		if os.Geteuid() == 0 {
			must(syscall.Setgroups(nil))
			must(syscall.Setgid(65534))
			must(syscall.Setuid(65534))
		}
		answer(Write(args[0], args[1], []byte(args[2])))
	case "mounted": // KIND DIR
		answer(mounted(args[0], args[1]))
	}
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reply is what a helper process says on its standard output.
type reply struct {
	Changed bool
	Error   string
	Errno   unix.Errno
	Tree    map[string]string
}

func answer(changed bool, err error) {
	r := reply{Changed: changed}
	if err != nil {
		r.Error = err.Error()
		errors.As(err, &r.Errno)
	}
	r.Tree = mountedTree
	must(json.NewEncoder(os.Stdout).Encode(r))
}
