package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"busbar/profiles"
)

// The table of block types in the README names each type with all its arguments.
func TestReadmeNamesAllBlocks(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range types() {
		spec := typ.Spec()
		head := "| `" + spec.Name
		if keyword := spec.Keyword(); keyword != "" {
			head = fmt.Sprintf("| `%s %q", keyword, spec.Name)
		}
		_, row, found := strings.Cut(string(readme), head+" ")
		if !found {
			_, row, found = strings.Cut(string(readme), head+"`")
		}
		row, _, _ = strings.Cut(row, "\n")
		if !found {
			t.Errorf("%s is not in the table", head)
		}
		for _, a := range spec.Attributes {
			name := a.Name
			if a.Required {
				name = "**" + name + "**"
			}
			if !strings.Contains(row, " "+name+",") && !strings.Contains(row, " "+name+" ") {
				t.Errorf("%s: %s is not in %q", spec.Name, name, row)
			}
			for _, word := range a.Enum {
				if !strings.Contains(row, "`"+word+"`") {
					t.Errorf("%s: %s is not in %q", spec.Name, word, row)
				}
			}
		}
	}
}

// The README has all attributes of a NIC as the language documents them.
func TestReadmeNamesNICAttributes(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := "| of a NIC | is |\n|---|---|\n"
	for _, a := range profiles.NodeAttributes() {
		if name, ok := strings.CutPrefix(a.Path, "nics[*]."); ok {
			table += fmt.Sprintf("| `%s` | %s |\n", name, a.Doc)
		}
	}
	if !strings.Contains(string(readme), table) {
		t.Errorf("the README lacks this table:\n%s", table)
	}
}

// The sample of plan in the README is cut from the golden file: each of its lines stands there, whole or with its end cut
// off, in the same order.
func TestReadmeShowsWhatPlanShows(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/hgx-h100-drifted.golden")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(readme), "some findings left out here):\n\n```\n")
	sample, _, found := strings.Cut(sample, "```")
	if !found || strings.Count(sample, "\n") < 20 {
		t.Fatal("the README has no sample of plan")
	}
	rest := strings.Split(string(golden), "\n")
	for line := range strings.Lines(sample) {
		line = strings.TrimSuffix(line, "\n")
		begin := strings.TrimSuffix(line, "...")
		if begin == "" {
			continue
		}
		at := slices.IndexFunc(rest, func(l string) bool { return l == line || begin != line && strings.HasPrefix(l, begin) })
		if at < 0 {
			t.Fatalf("plan does not show, or not there, what the README shows: %s", line)
		}
		rest = rest[at+1:]
	}
}
