// Package grub reads what decides a GRUB machine's kernel command line: the
// shell files /etc/default/grub and /etc/default/grub.d/*.cfg, and the grub.cfg
// that update-grub made of them. It runs nothing and opens nothing.
//
// A kernel argument passes two layers of quoting. grub-mkconfig reads the
// defaults as shell; /etc/grub.d/10_linux writes the value verbatim into a
// linux line, which GRUB reads by its own, similar rules
// (grub-core/script/yylex.l) before it hands the words to the kernel.
package grub

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
)

// Paths of the defaults, in the order in which Debian's grub-mkconfig sources
// them; the fragments are those whose names end in .cfg and do not begin with a
// dot, in byte order.
const (
	DefaultsFile = "/etc/default/grub"
	FragmentDir  = "/etc/default/grub.d"
)

// FragmentFile is the fragment that busbar owns; its name sorts last.
const FragmentFile = FragmentDir + "/zz-busbar.cfg"

// The variables that hold kernel arguments (grub-mkconfig(8), 10_linux).
const (
	Linux        = "GRUB_CMDLINE_LINUX"         // every entry
	LinuxDefault = "GRUB_CMDLINE_LINUX_DEFAULT" // every entry but recovery
	linuxRecover = "GRUB_CMDLINE_LINUX_RECOVERY"
)

// Lookup answers for a file that the defaults test or source: its text, and
// whether it is there. The paths are absolute, as on the node; one that ends in
// a slash asks whether a directory stands there.
type Lookup func(path string) (text string, found bool)

// SyntaxError is a file that the shell cannot read; grub-mkconfig stops at it.
type SyntaxError struct {
	File string
	Line int
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Assignment is one assignment that was evaluated.
type Assignment struct {
	File   string
	Line   int
	Name   string
	Value  string // the variable's value after it, "" where Reason is set
	Append bool   // NAME+=VALUE
	Reason string // why the value is not known
}

// Token is one word of a variable's final value.
type Token struct {
	// Text is the word as it stands in the value.
	Text string
	// Arg is what GRUB hands the kernel for it, in the kernel's quoting.
	Arg string
	// File and Line say where the word's first byte was written, however many
	// assignments it was inherited through.
	File string
	Line int
}

// Defaults is what the shell makes of the files.
type Defaults struct {
	// Assignments in the order in which they were evaluated, those in branches
	// that were not taken left out.
	Assignments []Assignment
	// Sourced lists the paths that the files tested or sourced, each once.
	Sourced []string
	// Lints lists what looks like a mistake, in order of evaluation.
	Lints []Lint

	vars  map[string]variable
	unset string // why a name that is not in vars is not known; "" if it is unset
	dead  string // why nothing is known
}

// Evaluate reads DefaultsFile and the fragments of FragmentDir out of files, in
// the order of grub-mkconfig whatever the order given; other paths are passed
// over. It follows assignments, expansions, export, unset, if, case, && and ||,
// test and sourced files as dash does. What only running a command could tell
// leaves the variables concerned unknown, with file, line and reason. A syntax
// error, a carriage return, a NUL or a byte order mark is a *SyntaxError.
func Evaluate(files []confdir.File, lookup Lookup) (*Defaults, error) {
	i := newInterp(lookup)
	for _, f := range inOrder(files) {
		if f.Reason != "" {
			i.poison(f.Path + ": " + f.Reason)
			continue
		}
		if err := i.file(f.Path, f.Text); err != nil {
			return nil, err
		}
	}
	i.finalLints()
	return &i.d, nil
}

func inOrder(files []confdir.File) []confdir.File {
	var first, fragments []confdir.File
	for _, f := range files {
		dir, base := path.Split(f.Path)
		switch {
		case f.Path == DefaultsFile:
			first = append(first, f)
		case path.Clean(dir) == FragmentDir && strings.HasSuffix(base, ".cfg") && base[0] != '.':
			fragments = append(fragments, f)
		}
	}
	slices.SortFunc(fragments, func(a, b confdir.File) int { return strings.Compare(a.Path, b.Path) })
	return append(first, fragments...)
}

// Value returns a variable's final value. An unset variable is known and empty.
// known is false where the value depends on something that is not evaluated;
// reason then says on what, with file and line.
func (d *Defaults) Value(name string) (value string, known bool, reason string) {
	v := d.lookup(name)
	if v.reason != "" {
		return "", false, v.reason
	}
	return v.value.String(), true, ""
}

func (d *Defaults) lookup(name string) variable {
	if d.dead != "" {
		return variable{reason: d.dead}
	}
	v, set := d.vars[name]
	if !set {
		v.reason = d.unset
	}
	return v
}

// Tokens returns the words of a variable's final value as GRUB splits it, with
// their origins; nil where the value is not known. It ends where GRUB takes the
// rest for another command, see KernelLine.
func (d *Defaults) Tokens(name string) []Token {
	v := d.lookup(name)
	if v.reason != "" {
		return nil
	}
	return v.value.tokens()
}

// CommandLine returns what the entries that 10_linux generates add to "root=...
// ro", as the kernel will read it: $GRUB_CMDLINE_LINUX
// $GRUB_CMDLINE_LINUX_DEFAULT, or for recovery entries
// $GRUB_CMDLINE_LINUX_RECOVERY (default "single"; Ubuntu writes "recovery
// nomodeset" instead, whatever the variable) and $GRUB_CMDLINE_LINUX. known and
// reason are as in Value.
func CommandLine(d *Defaults, recovery bool) (line string, known bool, reason string) {
	names := []string{Linux, LinuxDefault}
	if recovery {
		names = []string{linuxRecover, Linux}
	}
	var values []string
	for _, name := range names {
		value, known, reason := d.Value(name)
		if !known {
			return "", false, fmt.Sprintf("%s is not known: %s", name, reason)
		}
		if name == linuxRecover && value == "" {
			value = "single"
		}
		values = append(values, value)
	}
	line, _ = KernelLine(strings.Join(values, " "))
	return line, true, ""
}
