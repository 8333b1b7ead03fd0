package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"busbar/internal/confdir"
)

// Sections of systemd's files that set limits.
const (
	Service = "Service" // of a unit: Limit*=
	Manager = "Manager" // of system.conf: DefaultLimit*=
)

// timed are limits of systemd.exec(5) that are neither sizes nor counts of a
// resource, which this package leaves out.
var timed = []string{"CPU", "NICE", "RTPRIO", "RTTIME"}

// Assignment is one Limit*= or DefaultLimit*= setting.
type Assignment struct {
	Section string `json:"section"` // Service or Manager
	Item    string `json:"item"`    // as in limits.conf: "memlock" for LimitMEMLOCK=
	Soft    Value  `json:"soft"`
	Hard    Value  `json:"hard"`
	Origin
}

// ParseUnit reads the limits in a unit file and its drop-ins, or in system.conf
// and its drop-ins, in the order given: the main file first, drop-ins by name.
// The grammar is that of systemd.syntax(7) (src/shared/conf-parser.c); an
// assignment that systemd ignores, an empty one among them, is a Problem. A file
// that is not known gives a Problem with Unread set.
func ParseUnit(files []confdir.File) ([]Assignment, []Problem) {
	var assignments []Assignment
	var problems []Problem
	for _, f := range files {
		if f.Reason != "" {
			problems = append(problems, unread(f))
			continue
		}
		a, p := parseUnitFile(f)
		assignments, problems = append(assignments, a...), append(problems, p...)
	}
	return assignments, problems
}

const whitespace = " \t\n\r"

func parseUnitFile(f confdir.File) (assignments []Assignment, problems []Problem) {
	var section string
	var logical strings.Builder
	first, n := 0, 0 // the line on which the logical line begins (0: none begun), the current one
	parse := func() error {
		at := Origin{f.Path, first}
		a, err := parseUnitLine(logical.String(), &section)
		switch {
		case err != nil:
			problems = append(problems, Problem{File: at.File, Line: at.Line, Text: err.Error()})
		case a.Item != "":
			a.Origin = at
			assignments = append(assignments, a)
		}
		logical.Reset()
		first = 0
		return err
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(f.Text, "\ufeff"), "\n") {
		n++
		line = strings.TrimSuffix(line, "\r")
		if lead := strings.TrimLeft(line, whitespace); lead != "" && (lead[0] == '#' || lead[0] == ';') {
			continue // also between continued lines
		}
		if first == 0 {
			first = n
		}
		body := strings.TrimRight(line, `\`)
		if (len(line)-len(body))%2 == 1 {
			logical.WriteString(line[:len(line)-1] + " ")
			continue
		}
		logical.WriteString(line)
		if err := parse(); errors.Is(err, errAbandoned) {
			return assignments, problems
		}
	}
	if first > 0 {
		// Nothing follows that could be abandoned.
		_ = parse()
	}
	return assignments, problems
}

// errAbandoned marks a line at which systemd stops to read the file.
var errAbandoned = errors.New("the rest of the file is not read")

// parseUnitLine parses one logical line; an Assignment without Item is none.
func parseUnitLine(line string, section *string) (a Assignment, err error) {
	line = strings.Trim(line, whitespace)
	switch {
	case line == "":
		return a, nil
	case !utf8.ValidString(line) || strings.IndexByte(line, 0) >= 0:
		return a, fmt.Errorf("line is not valid UTF-8, %w: %s", errAbandoned, excerpt(line))
	case line[0] == '[':
		name, closed := strings.CutSuffix(line[1:], "]")
		if !closed {
			return a, fmt.Errorf("invalid section header, %w: %s", errAbandoned, excerpt(line))
		}
		*section = name
		return a, nil
	}
	key, value, assigned := strings.Cut(line, "=")
	key, value = strings.Trim(key, whitespace), strings.Trim(value, whitespace)
	name, manager := strings.CutPrefix(key, "DefaultLimit")
	name, unit := strings.CutPrefix(name, "Limit")
	switch {
	case !assigned:
		return a, fmt.Errorf("missing '=': %s", excerpt(line))
	case !manager && !unit || slices.Contains(timed, name):
		return a, nil
	case *section == "":
		return a, fmt.Errorf("%s= outside of a section is ignored", key)
	}
	want := Service
	if manager {
		want = Manager
	}
	if *section != want {
		// Sockets, mounts and swaps run programs of their own.
		if unit && slices.Contains([]string{"Socket", "Mount", "Swap"}, *section) {
			return a, nil
		}
		return a, fmt.Errorf("%s= in section [%s] is ignored: it belongs in [%s]", key, *section, want)
	}
	r, known := find(strings.ToLower(name))
	if !known || name != strings.ToUpper(name) {
		return a, fmt.Errorf("unknown setting %s=", key)
	}
	soft, hard, both := strings.Cut(value, ":")
	if !both {
		hard = soft
	}
	a = Assignment{Section: want, Item: r.item}
	if a.Soft, err = parseSystemd(soft, r.size); err != nil {
		return Assignment{}, fmt.Errorf("%s=%s is ignored: %w", key, value, err)
	}
	if a.Hard, err = parseSystemd(hard, r.size); err != nil {
		return Assignment{}, fmt.Errorf("%s=%s is ignored: %w", key, value, err)
	}
	if a.Soft > a.Hard {
		return Assignment{}, fmt.Errorf("%s=%s is ignored: the soft limit is above the hard one", key, value)
	}
	return a, nil
}

// parseSystemd reads one value (rlimit_parse_one in src/basic/rlimit-util.c).
func parseSystemd(text string, size bool) (Value, error) {
	if text == "infinity" {
		return Unlimited, nil
	}
	var n uint64
	var err error
	if size {
		n, err = parseSize(text)
	} else if n, err = strconv.ParseUint(text, 0, 64); err != nil || strings.Contains(text, "_") {
		err = fmt.Errorf("%q is neither a number nor \"infinity\"", text)
	}
	if err == nil && Value(n) == Unlimited {
		err = fmt.Errorf("%q is out of range", text)
	}
	return Value(n), err
}

// parseSize reads a number of bytes with suffixes to the base 1024, "8M",
// "1.5G", "1G 512M" (parse_size in src/basic/parse-util.c).
func parseSize(text string) (uint64, error) {
	const suffixes = "EPTGMKB"
	var total uint64
	rest, next := text, 0
	for rest != "" || next == 0 {
		rest = strings.TrimLeft(rest, whitespace)
		after := strings.TrimLeft(rest, "0123456789")
		n, err := strconv.ParseUint(rest[:len(rest)-len(after)], 10, 64)
		if err != nil || next > len(suffixes) {
			return 0, fmt.Errorf("%q is neither a size nor \"infinity\"", text)
		}
		var fraction float64
		if after, found := strings.CutPrefix(after, "."); found {
			digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
			fraction, _ = strconv.ParseFloat("0."+digits+"0", 64)
			rest = after[len(digits):]
		} else {
			rest = after
		}
		rest = strings.TrimLeft(rest, whitespace)
		factor := uint64(1)
		at := len(suffixes)
		if rest != "" && next < len(suffixes) {
			if i := strings.IndexByte(suffixes[next:], rest[0]); i >= 0 {
				at = next + i
				factor = 1 << (10 * (len(suffixes) - 1 - at))
				rest = rest[1:]
			}
		}
		next = at + 1
		whole := n
		if fraction > 0 {
			whole++
		}
		if whole < n || whole > math.MaxUint64/factor {
			return 0, fmt.Errorf("%q is out of range", text)
		}
		part := n*factor + uint64(fraction*float64(factor))
		if part > math.MaxUint64-total {
			return 0, fmt.Errorf("%q is out of range", text)
		}
		total += part
	}
	return total, nil
}

// EffectiveUnit returns the limit of item that a service gets from the
// assignments of its unit and of system.conf: the unit's last one, or else the
// manager's last one. It holds for the next start of the service, after a
// daemon-reload (for the manager's: daemon-reexec).
func EffectiveUnit(assignments []Assignment, item string) (limit Limit, found bool) {
	for _, section := range []string{Service, Manager} {
		for _, a := range slices.Backward(assignments) {
			if a.Section == section && a.Item == item {
				return Limit{
					Soft: Bound{Value: a.Soft, Set: true, Origin: a.Origin},
					Hard: Bound{Value: a.Hard, Set: true, Origin: a.Origin},
				}, true
			}
		}
	}
	return Limit{}, false
}

// Validate says why an assignment cannot be written in such a way that systemd
// takes it.
func (a Assignment) Validate() error {
	_, known := find(a.Item)
	switch {
	case a.Section != Service && a.Section != Manager:
		return fmt.Errorf("limits: unknown section %q", a.Section)
	case !known:
		return fmt.Errorf("limits: unknown item %q", a.Item)
	case a.Soft > a.Hard:
		return fmt.Errorf("limits: %s: soft limit %s above hard limit %s", a.Item, a.Soft, a.Hard)
	}
	return nil
}

// RenderUnit returns the content of a drop-in of busbar's own, sorted by section
// and item; without assignments "", which means no file. The assignments must be
// valid.
func RenderUnit(assignments []Assignment) string {
	if len(assignments) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(header)
	section := ""
	for _, a := range slices.SortedStableFunc(slices.Values(assignments), compareAssignments) {
		if a.Section != section {
			section = a.Section
			fmt.Fprintf(&b, "[%s]\n", section)
		}
		if section == Manager {
			b.WriteString("Default")
		}
		fmt.Fprintf(&b, "Limit%s=%s", strings.ToUpper(a.Item), systemdValue(a.Soft))
		if a.Hard != a.Soft {
			b.WriteString(":" + systemdValue(a.Hard))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func compareAssignments(a, b Assignment) int {
	return slices.Compare([]string{a.Section, a.Item}, []string{b.Section, b.Item})
}

func systemdValue(v Value) string {
	if v == Unlimited {
		return "infinity"
	}
	return v.String()
}
