package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
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
