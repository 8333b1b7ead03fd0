package modprobe

import (
	"fmt"
	"slices"
	"strings"

	"busbar/internal/confdir"
)

// ModulesLoadDirs are the directories of modules-load.d(5), highest priority
// first.
var ModulesLoadDirs = []string{
	"/etc/modules-load.d",
	"/run/modules-load.d",
	"/usr/local/lib/modules-load.d",
	"/usr/lib/modules-load.d",
	"/lib/modules-load.d",
}

// OrderModulesLoad returns the modules-load.d files that systemd-modules-load
// reads, in its order. Only *.conf files count.
func OrderModulesLoad(files []confdir.File) []confdir.File {
	return order(files, ModulesLoadDirs)
}

// LoadEntry is one line of modules-load.d(5): a module, or an alias of one, that
// is loaded at boot.
type LoadEntry struct {
	Module string `json:"module"` // normalised
	Origin
}

// ParseModulesLoad parses the files in the order given, which OrderModulesLoad
// establishes. Entries that stand several times are kept.
func ParseModulesLoad(files []confdir.File) ([]LoadEntry, []Problem) {
	var entries []LoadEntry
	var problems []Problem
	for _, f := range files {
		if f.Reason != "" {
			problems = append(problems, unread(f))
			continue
		}
		n := 0
		for line := range strings.SplitSeq(f.Text, "\n") {
			n++
			line = strings.Trim(line, whitespace)
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			if err := checkLoad(line); err != nil {
				problems = append(problems, Problem{File: f.Path, Line: n, Text: err.Error()})
				continue
			}
			entries = append(entries, LoadEntry{Normalize(line), Origin{f.Path, n}})
		}
	}
	return entries, problems
}

// checkLoad refuses lines that cannot name a module: the loader takes the whole
// line as one name, so that a comment behind a name spoils it.
func checkLoad(line string) error {
	if strings.ContainsAny(line, whitespace) || strings.ContainsFunc(line, isControl) {
		return fmt.Errorf("not one module name: %s", excerpt(line))
	}
	if strings.HasPrefix(line, "\ufeff") {
		return fmt.Errorf("byte order mark before %s: the line is not read as a name or comment", excerpt(line[3:]))
	}
	return nil
}

// Duplicates returns the entries whose module stands in an earlier one. They do
// no harm.
func Duplicates(entries []LoadEntry) []LoadEntry {
	var again []LoadEntry
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.Module] {
			again = append(again, e)
		}
		seen[e.Module] = true
	}
	return again
}

// RenderModulesLoad returns the content of a modules-load.d file of busbar's
// own: each module once, sorted; without modules "", which means no file. The
// names must pass CheckName.
func RenderModulesLoad(modules []string) string {
	if len(modules) == 0 {
		return ""
	}
	lines := make([]string, len(modules))
	for i, m := range modules {
		lines[i] = Normalize(m)
	}
	slices.Sort(lines)
	return header + strings.Join(slices.Compact(lines), "\n") + "\n"
}
