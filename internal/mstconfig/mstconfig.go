// Package mstconfig reads what mstconfig (mstflint) and mlxconfig (NVIDIA's MFT) print of the configuration in a
// NIC's firmware, and compares values in their words.
package mstconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Values are those of one parameter, as the tool prints them: 48, ETH(2), True(1), N/A, and Array[0..7] for an
// array as a whole. What the tool has no column for is empty.
type Values struct {
	// Default is the value that the firmware comes with.
	Default string `json:"default,omitempty"`
	// Running is the value that the firmware works with: the column Current.
	Running string `json:"running,omitempty"`
	// NextBoot is the value that the firmware takes at its next reset.
	NextBoot string `json:"next_boot,omitempty"`
	// ReadOnly: the tool cannot set it.
	ReadOnly bool `json:"read_only,omitempty"`
	// Unclear is why there are no values although the tool prints some; empty where there are.
	Unclear string `json:"unclear,omitempty"`
}

// Table is the answer to a query.
type Table struct {
	// Parameters by name; elements of arrays, which are shown where they were asked for, as NAME[INDEX].
	Parameters map[string]Values
	// Missing is why the NIC may have parameters that are not in Parameters; empty where it has none.
	Missing string
}

// Error is what the tool says instead of an answer.
type Error string

func (e Error) Error() string { return string(e) }

// The columns, in their order.
const (
	defaultColumn  = "Default"
	currentColumn  = "Current"
	nextBootColumn = "Next Boot"
)

var (
	header = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^Configurations:\s+(Default\s+)?(Current\s+)?Next Boot$`)
	})
	parameterName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\[[0-9]{1,6}\])?$`)
	})
	// Old versions put no space behind a value that fills its column: DEVICE_DEFAULT(0)DEVICE_DEFAULT(0).
	value = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^\s()]*\([0-9]+\)|\S+`) })
)

// Parse reads the output of "mstconfig -d DEVICE -e query", of one device (MlxCfg::queryDevCfg and printSingleParam in
// mlxconfig/mlxcfg_ui.cpp of mstflint 4.9 to 4.36: the widths of columns differ, the words do not). An Error is the
// tool's own.
func Parse(text string) (Table, error) {
	t := Table{Parameters: map[string]Values{}}
	var columns, missing []string
	devices, found := 0, false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "-E-") {
			missing = append(missing, oneLine(lines[i:]))
			break
		}
		m := header().FindStringSubmatch(trimmed)
		switch {
		case strings.HasPrefix(line, "Device #"):
			devices++
		case m != nil && found:
			return Table{}, fmt.Errorf("line %d: a second table", i+1)
		case m != nil:
			found, columns = true, columnsOf(m)
		case found && strings.HasPrefix(line, " "), found && strings.HasPrefix(line, "*"):
			if name, v, ok := parseRow(trimmed, columns); ok {
				t.add(name, v)
			} else if trimmed != "" {
				missing = append(missing, fmt.Sprintf("line %d is not understood: %.80q", i+1, trimmed))
			}
		}
	}
	t.Missing = strings.Join(missing, "; ")
	switch {
	case devices > 1:
		return Table{}, fmt.Errorf("the output is about %d devices", devices)
	case len(t.Parameters) > 0:
		return t, nil
	case t.Missing != "":
		return Table{}, Error(t.Missing)
	case oneLine(lines) == "":
		return Table{}, Error("no output")
	default:
		return Table{}, Error("no table of parameters: " + oneLine(lines))
	}
}

// columnsOf are the columns of a header.
func columnsOf(match []string) []string {
	var columns []string
	for i, name := range []string{defaultColumn, currentColumn} {
		if match[i+1] != "" {
			columns = append(columns, name)
		}
	}
	return append(columns, nextBootColumn)
}

// parseRow reads one parameter; false where there is none.
func parseRow(row string, columns []string) (name string, v Values, ok bool) {
	row = strings.TrimSpace(strings.TrimPrefix(row, "*"))
	first, rest, _ := strings.Cut(row, " ")
	if first == "RO" {
		v.ReadOnly = true
		first, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
	}
	fields := value().FindAllString(rest, -1)
	if !parameterName().MatchString(first) || len(fields) == 0 {
		return "", v, false
	}
	if len(fields) != len(columns) {
		v.Unclear = fmt.Sprintf("these are not the values of %d columns: %.80q", len(columns), strings.TrimSpace(rest))
		return first, v, true
	}
	for i, column := range columns {
		switch column {
		case defaultColumn:
			v.Default = fields[i]
		case currentColumn:
			v.Running = fields[i]
		default:
			v.NextBoot = fields[i]
		}
	}
	return first, v, true
}

// add takes a parameter in. One that is listed twice has two homes in the firmware, and which counts is not to be told.
func (t *Table) add(name string, v Values) {
	if was, twice := t.Parameters[name]; twice && was != v {
		v = Values{Unclear: "it is listed twice, with different values"}
	}
	t.Parameters[name] = v
}

// maxWords bounds a message of the tool.
const maxWords = 400

// oneLine joins lines to one sentence, without the tool's mark of errors.
func oneLine(lines []string) string {
	words := strings.Fields(strings.Join(lines, " "))
	words = slices.DeleteFunc(words, func(w string) bool { return w == "-E-" })
	s := strings.ToValidUTF8(strings.Join(words, " "), "�")
	if cut := []rune(s); len(cut) > maxWords {
		s = string(cut[:maxWords]) + "…"
	}
	return s
}
