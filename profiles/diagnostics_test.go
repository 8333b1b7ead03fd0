package profiles_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
	"busbar/profiles"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func text(t *testing.T, diags profiles.Diagnostics, width int, color bool) string {
	t.Helper()
	var b strings.Builder
	if err := profiles.WriteText(&b, diags, width, color); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestInvalid(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, diags := testLoader().LoadText(filepath.Base(file), src)
			if p != nil || !diags.HasErrors() {
				t.Fatal("loaded without an error")
			}
			golden(t, strings.TrimSuffix(file, ".hcl")+".golden", text(t, diags, 100, false))
			for range again { // HCL keeps arguments in maps
				_, others := testLoader().LoadText(filepath.Base(file), src)
				if diff := cmp.Diff(diags, others); diff != "" {
					t.Fatalf("diagnostics differ between runs:\n%s", diff)
				}
			}
		})
	}
}

func TestDiagnosticJSON(t *testing.T) {
	_, diags := load("nccl {\n\tversion = node.arhc\n}\n")
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(diags); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/diagnostic.json", b.String())
	golden(t, "testdata/diagnostic-color.golden", text(t, diags, 40, true))
}

func TestAssignments(t *testing.T) {
	const src = `
variable "n" {
  type = number
}
variable "s" {
  type    = string
  default = "x"
}
sysctl "a" {
  value = var.n
}
`
	for _, test := range []struct {
		name        string
		assignments []string
	}{
		{"unknown", []string{"m=1"}},
		{"type", []string{`n="1"`}},
		{"bare word", []string{"s=hgx"}},
		{"syntax", []string{"n=1 +"}},
		{"no value", []string{"n"}},
		{"reference", []string{"n=node.arch"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, diags := load(src, test.assignments...)
			golden(t, "testdata/var-"+strings.ReplaceAll(test.name, " ", "-")+".golden", text(t, diags, 0, false))
		})
	}
}

// Of many diagnostics the first hundred are shown, errors before warnings, and a count.
func TestManyDiagnostics(t *testing.T) {
	_, diags := load(numbered(3000, "nope%[1]d {}\n"))
	last := diags[len(diags)-1]
	if len(diags) != 101 || diags[99].Range.Start.Line != 100 || last.Summary != "And 2900 more" || last.Severity != profiles.DiagnosticError {
		t.Errorf("%d diagnostics, the last of them %+v", len(diags), last)
	}
	if got := text(t, diags[100:], 80, false); got != "Error: And 2900 more\n" {
		t.Errorf("%q", got)
	}
	types := append(fakeTypes(), fakeType{
		spec: plan.Spec{Name: "warned", Label: plan.LabelRequired},
		validate: func(b plan.Block) []plan.Problem {
			return []plan.Problem{{Summary: "x", Warning: b.Label != "150"}}
		},
	})
	l := profiles.Loader{Types: types}
	_, diags = l.LoadText("x.hcl", []byte(numbered(200, "warned \"%[1]d\" {}\n")))
	last = diags[len(diags)-1]
	if !diags.HasErrors() || diags[99].Range.Start.Line != 150 || last.Summary != "And 100 more" || last.Severity != profiles.DiagnosticWarning {
		t.Errorf("an error among warnings: %s", text(t, diags[98:], 0, false))
	}
}
