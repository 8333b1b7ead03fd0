package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"busbar/node/example"
	"busbar/plan"
)

// notFindings are texts in the code that look like ids of findings and are none.
var notFindings = []string{"limits.d", "nccl.conf", "selector.rails", "sysctl.d"}

// idsInCode are the texts in the packages that make findings that are written like an id of a type, a sink or the planner.
func idsInCode(t *testing.T) map[string]string {
	t.Helper()
	prefixes := []string{"boot_args", "file", "install", "p2p", "profile", "protected", "selector", "uninstall", "unit"}
	for _, of := range types() {
		prefixes = append(prefixes, of.Spec().Name)
	}
	ids := map[string]string{}
	written := regexp.MustCompile(`^([a-z0-9_]+)\.[a-z0-9_-]+$`)
	for _, dir := range []string{"checks", "modules", "plan", "profiles", "proofs", "internal/ncclconf"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "explain.go" || strings.Contains(file, "plantest") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value)
					if m := written.FindStringSubmatch(text); m != nil && slices.Contains(prefixes, m[1]) {
						ids[text] = file
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// Each id that stands in the code, and each that a finding on a built-in node has, is explained.
func TestEveryFindingIsExplained(t *testing.T) {
	texts := catalog()
	ids := idsInCode(t)
	if len(ids) < 150 {
		t.Fatalf("only %d ids were found in the code", len(ids))
	}
	for _, name := range example.Names() {
		for _, profile := range [][]string{nil, {"hgx-h100-roce"}, {"hgx-h100-ib"}, {"pcie-gpu"}, {"vm-guest"}} {
			_, stdout, _ := busbar("", append(append([]string{"plan"}, profile...), "--json", "--node", "example:"+name)...)
			var d struct {
				Findings []struct{ ID string }
			}
			if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Findings) == 0 {
				t.Fatalf("%v\n%s", err, stdout)
			}
			for _, f := range d.Findings {
				ids[f.ID] = name
			}
		}
	}
	for id, where := range ids {
		if _, ok := texts.Of(id); !ok && !slices.Contains(notFindings, id) {
			t.Errorf("%s, of %s, has no explanation", id, where)
		}
	}
}

// An explanation says what is wrong and how it is read, in sentences that end.
func TestExplanationsAreWhole(t *testing.T) {
	for _, e := range catalog().All() {
		if e.Title == "" || strings.HasSuffix(e.Title, ".") || e.Read == "" && !strings.HasPrefix(e.ID, "platform.host") {
			t.Errorf("%s: title %q, read %q", e.ID, e.Title, e.Read)
		}
		for _, text := range []string{e.Why, e.Read, e.Fix, e.Risk} {
			if text != "" && !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q does not end", e.ID, text)
			}
		}
	}
}

// docs/findings.md is made of the explanations.
func TestFindingsDocument(t *testing.T) {
	const file = "../../docs/findings.md"
	text := catalog().Markdown()
	if *update {
		writeFile(t, file, text)
	}
	if readFile(t, file) != text {
		t.Error("docs/findings.md is not what the explanations say: go test ./cmd/busbar -run TestFindingsDocument -update")
	}
}

func TestExplain(t *testing.T) {
	const drifted = "example:hgx-h100-drifted"
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
		not  string
	}{
		"list":                    {nil, plan.ExitOK, []string{"pcie_acs.redirect ", "ACS redirects traffic", "nccl.setting"}, "why"},
		"id":                      {[]string{"pcie_acs.redirect"}, plan.ExitOK, []string{"pcie_acs.redirect  ACS redirects traffic", "  why ", "  risk ", "NVIDIA/nccl issues 304", "--node FILE shows such findings"}, "fact    "},
		"id of any type":          {[]string{"roce.withheld"}, plan.ExitOK, []string{"*.withheld", "left out"}, "fact    "},
		"id on a node":            {[]string{"pcie_acs.redirect", "--node", drifted}, plan.ExitOK, []string{"drift  pcie_acs.gpu_paths: 0000:39:01.0 redirects", `fact    pci_registers:0000:39:01.0 {"value"`, "findings ok"}, "0000:15:01.0"},
		"address":                 {[]string{"check.nvlink.all", "--node", drifted}, plan.ExitOK, []string{"nvlink.links  a GPU has fewer", "fact    nvlink:0000:4c:00.0"}, "nvlink:0000:19:00.0"},
		"address, and hints":      {[]string{"check.nvlink.all", "--node", drifted, "--verbose"}, plan.ExitOK, []string{"fact    nvlink:0000:19:00.0"}, "--node FILE"},
		"address without trouble": {[]string{"check.driver.all", "--node", "example:hgx-h100", "--verbose"}, plan.ExitOK, []string{"driver.loaded", "ok  check.driver.all", "nvidia_driver"}, "drift"},
		"another profile":         {[]string{"check.gpus.all", "--node", drifted, "--profile", "baseline"}, plan.ExitOK, []string{"gpus."}, ""},
		"layers":                  {[]string{"layers"}, plan.ExitOK, []string{"Which layer a job needs", "busbar probe p2p"}, ""},
		"mistyped":                {[]string{"nvlnk.links", "--node", drifted}, plan.ExitUsage, []string{"did you mean nvlink.links?"}, ""},
		"nothing like it":         {[]string{"quux", "--node", drifted}, plan.ExitUsage, []string{"busbar explain lists the ids", "--node FILE looks for in its recording"}, ""},
		"no such file":            {[]string{"gpus.count", "--node", "gone.json"}, plan.ExitError, []string{"gone.json"}, ""},
		"two nodes":               {[]string{"gpus.count", "--node", drifted, "--node", drifted}, plan.ExitUsage, []string{"one node"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := busbar("", append([]string{"explain"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d", code)
			}
			for _, text := range c.says {
				if !strings.Contains(stdout+stderr, text) {
					t.Errorf("%q is not said:\n%s%s", text, stdout, stderr)
				}
			}
			if c.not != "" && strings.Contains(stdout, c.not) {
				t.Errorf("%q is said:\n%s", c.not, stdout)
			}
		})
	}
}

func TestExplainJSON(t *testing.T) {
	code, stdout, _ := busbar("", "explain", "gpus.count", "--json", "--node", "example:hgx-h100-drifted")
	var d struct {
		Explanations []plan.Explanation
		Findings     []struct {
			ID       string
			Evidence []struct{ Fact json.RawMessage }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != plan.ExitOK {
		t.Fatalf("%d %v\n%s", code, err, stdout)
	}
	if len(d.Explanations) != 1 || len(d.Findings) != 1 || d.Findings[0].ID != "gpus.count" || len(d.Findings[0].Evidence) == 0 {
		t.Errorf("%s", stdout)
	}
	if _, completions, _ := busbar("", "__complete", "explain", "pcie_acs."); !strings.Contains(completions, "pcie_acs.redirect\tACS") {
		t.Errorf("completion: %s", completions)
	}
}
