package live

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"

	"github.com/google/go-cmp/cmp"
)

// TestMain makes the test binary its own child that asks drivers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ChildArgument:
			os.Exit(RunChild(os.Stdin, os.Stdout))
		case brokenChild:
			runBrokenChild(os.Args[2])
		case readEverything:
			runReadEverything(os.Args[2])
		case askLoopback:
			os.Exit(runAskLoopback())
		}
	}
	os.Exit(m.Run())
}

// tree makes a root directory: path to content, "-> TARGET" for a symbolic link, a path that
// ends in a slash for a directory.
func tree(t testing.TB, entries ...map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, m := range entries {
		for p, content := range m {
			host := filepath.Join(root, p)
			must(t, os.MkdirAll(filepath.Dir(host), 0o755))
			target, link := strings.CutPrefix(content, "-> ")
			switch {
			case strings.HasSuffix(p, "/"):
				must(t, os.MkdirAll(host, 0o755))
			case link:
				must(t, os.Symlink(target, host))
			default:
				must(t, os.WriteFile(host, []byte(content), 0o644))
			}
		}
	}
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask reads one query off a captured tree.
func ask[T any](t testing.TB, root string, kind node.Kind[T], key string) node.Value[T] {
	t.Helper()
	return get(t, New(Options{Root: root, Running: true}), kind, key)
}

func get[T any](t testing.TB, r *Reader, kind node.Kind[T], key string) node.Value[T] {
	t.Helper()
	facts := r.Read(context.Background(), node.Inventory{}, []node.Query{kind.Query(key)})
	return kind.Get(facts, key)
}

// known fails unless v is known as want.
func known[T any](t testing.TB, v node.Value[T], want T) {
	t.Helper()
	got, ok := v.Get()
	if !ok {
		t.Fatalf("unknown: %s (%s)", v.Reason(), v.Source())
	}
	if diff := cmp.Diff(want, got, compareValues); diff != "" {
		t.Error(diff)
	}
}

// unknownAs fails unless v is unknown with a reason that contains why.
func unknownAs[T any](t testing.TB, v node.Value[T], why string) {
	t.Helper()
	if got, ok := v.Get(); ok {
		t.Fatalf("known as %+v, wanted unknown: %s", got, why)
	}
	if !strings.Contains(v.Reason(), why) {
		t.Errorf("reason %q, wanted %q", v.Reason(), why)
	}
}

// compareValues compares facts by what they say, not by where they were read.
var compareValues = cmp.Options{
	sameValues[string](), sameValues[bool](), sameValues[int](), sameValues[[]node.GID](), sameValues[map[string]uint32](), sameValues[map[string]int](), sameValues[node.TrafficClass](),
	sameValues[ethtool.Pause](), sameValues[dcbnl.Priorities](), sameValues[dcbnl.DCBX](), sameValues[dcbnl.PFC](), sameValues[dcbnl.ETS](), sameValues[[]dcbnl.App](),
	sameValues[uint64](), sameValues[map[string]string](), sameValues[node.FabricHealth](),
	sameValues[dcbnl.TrustOrder](), sameValues[dcbnl.Buffer](), sameValues[dcbnl.MaxRate](),
}

func sameValues[T any]() cmp.Option {
	return cmp.Comparer(func(a, b node.Value[T]) bool {
		x, okx := a.Get()
		y, oky := b.Get()
		return cmp.Equal(x, y) && okx == oky && a.Reason() == b.Reason() && a.Needs() == b.Needs() && a.IsUnsupported() == b.IsUnsupported()
	})
}

// casesDir is the directory of inputs kept outside the repository.
func casesDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of case inputs")
	}
	return dir
}

// asUser runs the calling test, whose name is name, in a process without root's rights, which would
// spoil it, and reports whether this is that process.
func asUser(t *testing.T, name string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+name+"$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
	return false
}
