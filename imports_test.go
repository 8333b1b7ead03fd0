// Package busbar_test holds the rules that the house is built by: who may import
// what, and who may look at the clock (docs/design.md, section 1).
package busbar_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	var all []listed
	for {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// room is the part of the house that a package belongs to: its path below the module.
func room(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, "busbar"), "/")
}

func inAny(p string, rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(r string) bool { return p == r || strings.HasPrefix(p, r+"/") })
}

// machine are imports with which a package could read or change machine state.
var machine = []string{
	"os/exec", "os/signal", "syscall", "net", "plugin", "golang.org/x/sys",
	"github.com/vishvananda/netlink", "github.com/coreos/go-systemd", "github.com/godbus",
	"github.com/NVIDIA/go-nvml", "github.com/Mellanox/rdmamap", "github.com/ebitengine/purego",
}

func TestImportGraph(t *testing.T) {
	all := packages(t)
	if len(all) < 15 {
		t.Fatalf("go list found %d packages", len(all))
	}
	for _, p := range all {
		from := room(p.ImportPath)
		for _, imported := range p.Imports {
			for _, complaint := range complaints(from, imported) {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, complaint)
			}
		}
	}
}

// complaints are the rules that an import breaks.
func complaints(from, imported string) []string {
	var all []string
	rule := func(broken bool, text string) {
		if broken {
			all = append(all, text)
		}
	}
	to := room(imported)
	own := strings.HasPrefix(imported, "busbar/")
	rule(imported == "os" && !inAny(from, "cmd", "node/live", "apply", "probe", "systemd", "internal/atomicfile"),
		"only cmd, node/live, apply, probe, systemd and internal/atomicfile touch files")
	rule(inAny(imported, machine...) && !inAny(from, "node/live", "apply", "probe", "systemd") &&
		imported != "net/netip" && imported != "net/url" && !(from == "internal/atomicfile" && !strings.HasPrefix(imported, "os/")) &&
		!(inAny(from, "cmd") && inAny(imported, "os/signal", "syscall")),
		"only node/live, apply, probe and systemd touch the machine")
	rule(inAny(imported, "github.com/ebitengine/purego") && !inAny(from, "probe"), "only probe calls into the driver's library")
	rule(own && inAny(to, "cmd"), "nobody imports cmd")
	rule(own && to == "internal/atomicfile" && !inAny(from, "apply", "cmd"), "only apply and cmd write files")
	rule(own && inAny(to, "node/live", "apply", "probe", "report") && !inAny(from, "cmd", "apply", "node/live"), "what judges does not know who reads, changes or shows")
	rule(own && inAny(from, "probe") && inAny(to, "plan", "proofs", "checks", "modules", "profiles", "apply", "report"), "what measures does not judge")
	rule(own && from == "node/live" && inAny(to, "apply", "plan", "modules", "checks", "proofs", "report", "profiles"), "readers know nodes, not plans")
	rule(own && inAny(from, "node") && from != "node/live" && inAny(to, "plan", "modules", "checks", "proofs", "profiles"), "node is the vocabulary below plans")
	rule(own && inAny(from, "plan") && inAny(to, "modules", "checks", "proofs", "profiles"), "plan is the vocabulary of modules and checks")
	rule(own && inAny(from, "internal") && !inAny(to, "internal", "node"), "codecs know text, not plans")
	rule(own && inAny(from, "modules", "checks", "proofs") && inAny(to, "profiles"), "block types do not know the language")
	rule(own && inAny(from, "report") && inAny(to, "profiles", "modules", "checks", "proofs"), "views know results only")
	return all
}

// TestImportGraphCanFail keeps the rules from rotting: each must catch its breach.
func TestImportGraphCanFail(t *testing.T) {
	for _, breach := range [][2]string{
		{"modules/sysctl", "os"}, {"plan", "os/exec"}, {"checks", "github.com/vishvananda/netlink"}, {"node", "net"},
		{"cmd/busbar", "os/exec"}, {"internal/atomicfile", "os/exec"}, {"report", "busbar/cmd/busbar"}, {"profiles", "busbar/internal/atomicfile"},
		{"modules/nccl", "busbar/node/live"}, {"node/live", "busbar/plan"}, {"node", "busbar/plan"}, {"plan", "busbar/modules/sysctl"},
		{"internal/grub", "busbar/plan"}, {"modules/nccl", "busbar/profiles"}, {"report", "busbar/modules"},
		{"node/live", "github.com/ebitengine/purego"}, {"report", "busbar/probe"}, {"proofs", "busbar/probe"}, {"probe", "busbar/proofs"},
	} {
		if len(complaints(breach[0], breach[1])) == 0 {
			t.Errorf("%s may import %s", breach[0], breach[1])
		}
	}
}

// TestNoClock: block types, the planner and views see time only through Facts.
func TestNoClock(t *testing.T) {
	for _, p := range packages(t) {
		if !inAny(room(p.ImportPath), "plan", "modules", "checks", "proofs", "node", "profiles", "report", "internal", "fleet", "explain") ||
			inAny(room(p.ImportPath), "node/live", "internal/atomicfile") {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After"}, sel.Sel.Name) {
					t.Errorf("%s: time.%s", fset.Position(n.Pos()), sel.Sel.Name)
				}
				return true
			})
		}
	}
}
