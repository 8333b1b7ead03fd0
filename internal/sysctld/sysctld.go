// Package sysctld reads and writes sysctl.d(5), the kernel parameters that are
// set at boot.
//
// It follows systemd-sysctl(8) (src/sysctl/sysctl.c, src/basic/sysctl-util.c),
// which applies them at boot. `sysctl --system` of procps differs in one thing:
// it also reads /etc/sysctl.conf, last.
package sysctld

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"busbar/internal/confdir"
)

// Dirs are the directories of sysctl.d(5), highest priority first.
var Dirs = []string{
	"/etc/sysctl.d",
	"/run/sysctl.d",
	"/usr/local/lib/sysctl.d",
	"/usr/lib/sysctl.d",
	"/lib/sysctl.d",
}

const sysctlConf = "/etc/sysctl.conf"

// Problem is a part of a file that is ignored or that is read in another way
// than it looks.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: the whole file
	Text string `json:"text"`
	// Unread says that the content of File is unknown: any setting may stand in
	// it.
	Unread bool `json:"unread,omitempty"`
}

// Setting is one line of sysctl.d(5).
type Setting struct {
	// Name is normalised (see Normalize). It may be a glob(7) pattern whose
	// wildcards stay within one component, "net.ipv4.conf.*.rp_filter".
	Name  string `json:"name"`
	Value string `json:"value"`
	// Exclude marks a line "-NAME" without a value: no pattern sets NAME.
	Exclude bool `json:"exclude,omitempty"`
	// IgnoreErrors marks a line "-NAME = VALUE": failing to set it is no error.
	IgnoreErrors bool   `json:"ignore_errors,omitempty"`
	File         string `json:"file"`
	Line         int    `json:"line"` // from 1
}

// Order returns the files that systemd-sysctl reads, in its order; only *.conf
// files count. /etc/sysctl.conf is not among them. Where it is given, holds
// settings, and none of the files is a link to it (same content), a Problem
// says that it has no effect at boot.
func Order(files []confdir.File) ([]confdir.File, []Problem) {
	ordered := confdir.Merge(slices.DeleteFunc(slices.Clone(files), func(f confdir.File) bool {
		base := path.Base(f.Path)
		return !strings.HasSuffix(base, ".conf") || strings.HasPrefix(base, ".")
	}), Dirs)
	var notes []Problem
	for _, f := range files {
		if f.Path != sysctlConf || slices.ContainsFunc(ordered, func(o confdir.File) bool { return o.Text == f.Text }) {
			continue
		}
		if settings, _ := Parse([]confdir.File{f}); len(settings) > 0 {
			notes = append(notes, Problem{File: f.Path, Text: "not read at boot: systemd-sysctl reads only sysctl.d, and no file there is a link to it"})
		}
	}
	return ordered, notes
}

// Path returns the file of a parameter relative to /proc/sys,
// "net/ipv4/conf/enp3s0.200/forwarding". The first separator in name decides
// how it is spelt: where it is a slash, dots are part of components; where it is
// a dot, slashes stand for dots in components. Names with "..", blanks or
// control characters are refused.
func Path(name string) (string, error) {
	if name == "" {
		return "", errors.New("empty sysctl name")
	}
	if i := strings.IndexFunc(name, unfit); i >= 0 {
		return "", fmt.Errorf("sysctl name %q holds a blank, control or unprintable character", name)
	}
	p := name
	if i := strings.IndexAny(name, "/."); i >= 0 && name[i] == '.' {
		p = swap(name)
	}
	if strings.Contains(name, "..") || strings.Contains(p, "..") {
		return "", fmt.Errorf("sysctl name %q holds %q", name, "..")
	}
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if p == "" {
		return "", fmt.Errorf("sysctl name %q has no component", name)
	}
	return p, nil
}

func unfit(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
}

// swap exchanges dots and slashes.
func swap(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, s)
}

// Normalize returns the one spelling of a parameter's name, that of sysctl(8)
// and of rendered files: components are separated by dots, a dot within a
// component is a slash ("net.ipv4.conf.enp3s0/200.forwarding").
func Normalize(name string) (string, error) {
	p, err := Path(name)
	if err != nil {
		return "", err
	}
	if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
		return "/" + p, nil // the dotted spelling would be read as a path
	}
	return swap(p), nil
}

const whitespace = " \t\n\r"

// Parse parses the files in the order given, which Order establishes. A file
// that is not known gives a Problem with Unread set.
func Parse(files []confdir.File) ([]Setting, []Problem) {
	var settings []Setting
	var problems []Problem
	for _, f := range files {
		if f.Reason != "" {
			problems = append(problems, Problem{File: f.Path, Text: "content unknown: " + f.Reason, Unread: true})
			continue
		}
		n := 0
		for line := range strings.SplitSeq(f.Text, "\n") {
			n++
			line = strings.Trim(line, whitespace)
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			s, err := parseLine(line)
			if err != nil {
				problems = append(problems, Problem{File: f.Path, Line: n, Text: err.Error()})
				continue
			}
			s.File, s.Line = f.Path, n
			settings = append(settings, s)
		}
	}
	return settings, problems
}

// parseLine parses a line that is neither blank nor a comment.
func parseLine(line string) (s Setting, err error) {
	if strings.IndexByte(line, 0) >= 0 {
		return s, fmt.Errorf("line with a NUL byte: %s", excerpt(line))
	}
	name, value, assigned := strings.Cut(line, "=")
	name, dash := strings.CutPrefix(name, "-")
	if !assigned && !dash {
		return s, fmt.Errorf("not an assignment: %s", excerpt(line))
	}
	s.Name, err = Normalize(strings.Trim(name, whitespace))
	if err != nil {
		return s, err
	}
	s.Value = strings.Trim(value, whitespace)
	s.Exclude, s.IgnoreErrors = !assigned, assigned && dash
	return s, nil
}

// excerpt quotes the beginning of a line for a message.
func excerpt(line string) string {
	const limit = 80
	if len(line) > limit {
		return fmt.Sprintf("%q...", line[:limit])
	}
	return fmt.Sprintf("%q", line)
}

// Effective returns the setting that gives name its value at boot and the other
// settings that reach name, in file order. A line with the name itself wins over
// every pattern, wherever it stands; among lines with the same name, and among
// the patterns that match, the last wins. found is false where no line sets name
// and where the last line with its name is "-NAME", which keeps patterns away
// and is then returned as winner. An invalid name is never found.
func Effective(settings []Setting, name string) (winner Setting, overridden []Setting, found bool) {
	p, err := Path(name)
	if err != nil {
		return Setting{}, nil, false
	}
	var reach, patterns []int
	win := -1
	for i, s := range settings {
		switch pattern, err := Path(s.Name); {
		case err != nil:
			continue
		case pattern == p:
			win = i
		case isGlob(pattern) && match(pattern, p):
			// A pattern given again takes the last place, unless its value stays.
			if j := slices.IndexFunc(patterns, func(j int) bool { return settings[j].Name == s.Name }); j < 0 {
				patterns = append(patterns, i)
			} else if old := settings[patterns[j]]; old.Value == s.Value && old.Exclude == s.Exclude {
				patterns[j] = i
			} else {
				patterns = append(slices.Delete(patterns, j, j+1), i)
			}
		default:
			continue
		}
		reach = append(reach, i)
	}
	for i := len(patterns) - 1; i >= 0 && win < 0; i-- {
		if !settings[patterns[i]].Exclude {
			win = patterns[i]
		}
	}
	for _, i := range reach {
		if i != win {
			overridden = append(overridden, settings[i])
		}
	}
	if win < 0 {
		return Setting{}, overridden, false
	}
	return settings[win], overridden, !settings[win].Exclude
}

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?[") }

func match(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return ok && err == nil
}

// Number reads a value as the kernel reads integers (proc_dointvec in
// kernel/sysctl.c): decimal, octal after "0" or hexadecimal after "0x".
// kernel.numa_balancing is such a number, a set of bits of which any puts it on.
func Number(value string) (n int64, ok bool) {
	digits, negative := strings.CutPrefix(value, "-")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, base = hex, 16
	} else if len(digits) > 1 && digits[0] == '0' {
		base = 8
	}
	u, err := strconv.ParseUint(digits, base, 63)
	if n = int64(u); negative {
		n = -n
	}
	return n, err == nil
}

// EqualValue reports whether two values of one parameter mean the same: runs of
// white space are equal, and so are numbers spelt differently.
func EqualValue(a, b string) bool {
	return slices.EqualFunc(strings.Fields(a), strings.Fields(b), func(a, b string) bool {
		na, oka := Number(a)
		nb, okb := Number(b)
		return a == b || oka && okb && na == nb
	})
}

// Blanks is a value with its runs of white space made blanks, for people.
func Blanks(value string) string { return strings.Join(strings.Fields(value), " ") }

const header = "# Written by busbar. It owns this file: edits are lost.\n"

// Validate says why a setting cannot stand in a file in such a way that the same
// setting is read back.
func (s Setting) Validate() error {
	name, err := Normalize(s.Name)
	if err != nil {
		return err
	}
	switch {
	case strings.ContainsAny(name, "=") || strings.ContainsAny(name[:1], "-#;"):
		return fmt.Errorf("sysctl name %q cannot be written in a file", s.Name)
	case strings.ContainsAny(s.Value, "\n\x00"):
		return fmt.Errorf("%s: value %q holds a line end or NUL byte", s.Name, s.Value)
	case s.Value != strings.Trim(s.Value, whitespace):
		return fmt.Errorf("%s: value %q begins or ends with a blank", s.Name, s.Value)
	case s.Exclude && (s.Value != "" || s.IgnoreErrors):
		return fmt.Errorf("%s: excluded, yet with a value", s.Name)
	}
	return nil
}

// Render returns the content of a sysctl.d file of busbar's own, sorted by name;
// without settings "", which means no file. The settings must be valid.
func Render(settings []Setting) string {
	if len(settings) == 0 {
		return ""
	}
	sorted := slices.SortedStableFunc(slices.Values(settings), func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString(header)
	for _, s := range sorted {
		if s.Exclude || s.IgnoreErrors {
			b.WriteByte('-')
		}
		b.WriteString(RenderKey(s.Name))
		if !s.Exclude {
			b.WriteString(" = " + s.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// RenderKey returns a parameter's name as rendered files spell it; a name that
// is not valid stays as it is.
func RenderKey(name string) string {
	if normal, err := Normalize(name); err == nil {
		return normal
	}
	return name
}
