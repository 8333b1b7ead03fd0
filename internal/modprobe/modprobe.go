// Package modprobe reads and writes the files that decide which kernel modules
// are loaded and with which parameters: modprobe.d(5), modules-load.d(5), their
// counterparts on the kernel command line, and the list of loaded modules.
//
// The grammar is kmod's own (libkmod/libkmod-config.c, shared/util.c) and that
// of systemd-modules-load (src/modules-load/modules-load.c), oddities included:
// what they ignore is a Problem here, not a statement.
package modprobe

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
)

// ModprobeDirs are the directories of modprobe.d(5), highest priority first.
var ModprobeDirs = []string{
	"/etc/modprobe.d",
	"/run/modprobe.d",
	"/usr/local/lib/modprobe.d",
	"/usr/lib/modprobe.d",
	"/lib/modprobe.d",
}

// OrderModprobe returns the modprobe.d files that kmod reads, in its order.
// Only *.conf files count.
func OrderModprobe(files []confdir.File) []confdir.File {
	return order(files, ModprobeDirs)
}

func order(files []confdir.File, dirs []string) []confdir.File {
	conf := slices.DeleteFunc(slices.Clone(files), func(f confdir.File) bool {
		base := path.Base(f.Path)
		return !strings.HasSuffix(base, ".conf") || strings.HasPrefix(base, ".")
	})
	return confdir.Merge(conf, dirs)
}

// Origin is where a statement stands. Lines count from 1; a statement continued
// over several lines has the number of its first.
type Origin struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Problem is a part of a file that its reader ignores or reads in another way
// than it looks.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: the whole file
	Text string `json:"text"`
	// Unread says that the content of File is unknown: any statement may stand
	// in it.
	Unread bool `json:"unread,omitempty"`
}

// Verb is the first word of a modprobe.d statement.
type Verb string

// The statements of modprobe.d(5).
const (
	Alias     Verb = "alias"
	Blacklist Verb = "blacklist"
	Install   Verb = "install"
	Options   Verb = "options"
	Remove    Verb = "remove"
	Softdep   Verb = "softdep"
	Weakdep   Verb = "weakdep"
)

var verbs = []Verb{Alias, Blacklist, Install, Options, Remove, Softdep, Weakdep}

// Statement is one statement of modprobe.d(5).
type Statement struct {
	Verb Verb `json:"verb"`
	// Module is the normalised name that follows the verb. It may be a shell
	// pattern for install, remove, softdep and weakdep; for alias it is the
	// alias, usually a pattern.
	Module string `json:"module"`
	// Args is the rest of the line, byte for byte, less surrounding blanks and
	// the backslashes that kmod takes as escapes. For alias it is the normalised
	// module that the alias stands for, for blacklist it is empty.
	Args string `json:"args,omitempty"`
	Origin
}

// Config holds the statements of all files, in the order in which kmod reads
// them.
type Config struct {
	Statements []Statement `json:"statements,omitempty"`
}

// Normalize returns the name under which the kernel lists a module: '-' and '_'
// are equal in every module command, and /proc/modules has the underscore.
// Hyphens inside a character range ("[0-9]") stay.
func Normalize(name string) string {
	normal, _ := underscores(name)
	return normal
}

// CheckName says why name cannot be the name of one module: something else than
// letters, digits, '_' and '-', or no letter at all.
func CheckName(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if !strings.ContainsAny(name, letters) || strings.Trim(name, letters+"0123456789_-") != "" {
		return fmt.Errorf("%q is no module name", name)
	}
	return nil
}

// underscores is kmod's function of that name; ok is false where kmod refuses
// the name for an unbalanced bracket.
func underscores(name string) (normal string, ok bool) {
	b := []byte(name)
	ok = true
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '-':
			b[i] = '_'
		case ']':
			ok = false
		case '[':
			end := slices.Index(b[i:], ']')
			if end < 0 {
				return string(b), false
			}
			i += end
		}
	}
	return string(b), ok
}

// ParseModprobe parses the files in the order given, which OrderModprobe
// establishes. A file that is not known gives a Problem with Unread set.
func ParseModprobe(files []confdir.File) (Config, []Problem) {
	var c Config
	var problems []Problem
	for _, f := range files {
		if f.Reason != "" {
			problems = append(problems, unread(f))
			continue
		}
		for text, n := f.Text, 1; text != ""; {
			line, rest, lines := logicalLine(text)
			s, problem := parseStatement(line)
			if lines > 1 && strings.HasPrefix(line, "#") {
				problem = "comment ends in a backslash and swallows the next line"
			}
			switch {
			case problem != "":
				problems = append(problems, Problem{File: f.Path, Line: n, Text: problem})
			case s.Verb != "":
				s.Origin = Origin{f.Path, n}
				c.Statements = append(c.Statements, s)
			}
			text, n = rest, n+lines
		}
	}
	return c, problems
}

func unread(f confdir.File) Problem {
	return Problem{File: f.Path, Text: "content unknown: " + f.Reason, Unread: true}
}

// logicalLine cuts the first statement off text as kmod's freadline_wrapped
// does: a backslash before the line end joins two lines (comments too), before
// any other byte it is dropped. lines is how many lines were used up.
func logicalLine(text string) (line, rest string, lines int) {
	end := strings.IndexByte(text, '\n')
	if end < 0 {
		end = len(text)
	}
	if strings.IndexByte(text[:end], '\\') < 0 {
		return text[:end], text[min(end+1, len(text)):], 1
	}
	var b strings.Builder
	lines = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			return b.String(), text[i+1:], lines
		case '\\':
			i++
			if i == len(text) {
				return b.String(), "", lines
			}
			if text[i] == '\n' {
				lines++
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String(), "", lines
}

const (
	blanks     = " \t"
	whitespace = " \t\n\v\f\r"
)

// parseStatement parses one logical line. A comment or blank line gives neither
// statement nor problem.
func parseStatement(line string) (s Statement, problem string) {
	if trimmed := strings.Trim(line, whitespace); trimmed == "" || trimmed[0] == '#' {
		return s, ""
	}
	if strings.IndexByte(line, 0) >= 0 {
		return s, "line with a NUL byte: " + excerpt(line)
	}
	word, rest := cutField(line)
	verb := Verb(word)
	switch {
	case word == "include" || word == "config":
		return s, word + " is no longer read by kmod: " + excerpt(line)
	case !slices.Contains(verbs, verb):
		return s, "unknown statement " + excerpt(line)
	}
	name, rest := cutField(rest)
	s.Args = strings.Trim(rest, whitespace)
	switch verb {
	case Alias:
		s.Args, _ = cutField(rest)
	case Blacklist:
		s.Args = ""
	}
	if name == "" || (s.Args == "" && verb != Blacklist) {
		return Statement{}, "incomplete statement " + excerpt(line)
	}
	names := []*string{&name}
	if verb == Alias {
		names = append(names, &s.Args)
	}
	for _, n := range names {
		if err := checkName(*n); err != nil {
			return Statement{}, err.Error() + ": " + excerpt(line)
		}
		*n = Normalize(*n)
	}
	s.Verb, s.Module = verb, name
	return s, ""
}

// cutField splits off the first field; rest begins behind the one blank that
// ends it.
func cutField(s string) (field, rest string) {
	s = strings.TrimLeft(s, blanks)
	if i := strings.IndexAny(s, blanks); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

func checkName(name string) error {
	if name == "" {
		return errors.New("empty module name")
	}
	if i := strings.IndexFunc(name, isControl); i >= 0 {
		return fmt.Errorf("module name with control character %q (a carriage return stays part of the name)", name[i])
	}
	if _, ok := underscores(name); !ok {
		return errors.New("module name with unbalanced bracket")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// excerpt quotes the beginning of a line for a message.
func excerpt(line string) string {
	const limit = 80
	if len(line) > limit {
		return fmt.Sprintf("%q...", line[:limit])
	}
	return fmt.Sprintf("%q", line)
}

const header = "# Written by busbar. It owns this file: edits are lost.\n"

// Validate says why a statement cannot stand in a file in such a way that kmod
// reads the same statement back.
func (s Statement) Validate() error {
	if !slices.Contains(verbs, s.Verb) {
		return fmt.Errorf("unknown statement %q", s.Verb)
	}
	if err := checkField(s.Module); err != nil {
		return fmt.Errorf("%s: %w", s.Verb, err)
	}
	switch s.Verb {
	case Blacklist:
		if s.Args != "" {
			return fmt.Errorf("blacklist %s: takes no arguments, has %q", s.Module, s.Args)
		}
		return nil
	case Alias:
		if err := checkField(s.Args); err != nil {
			return fmt.Errorf("alias %s: %w", s.Module, err)
		}
		return nil
	}
	switch {
	case s.Args == "":
		return fmt.Errorf("%s %s: no arguments", s.Verb, s.Module)
	case s.Args != strings.Trim(s.Args, whitespace):
		return fmt.Errorf("%s %s: arguments %q begin or end with a blank", s.Verb, s.Module, s.Args)
	case strings.ContainsFunc(s.Args, isControl):
		return fmt.Errorf("%s %s: arguments %q hold a control character", s.Verb, s.Module, s.Args)
	}
	return nil
}

func checkField(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if strings.ContainsAny(name, blanks) {
		return fmt.Errorf("module name %q with a blank", name)
	}
	return nil
}

// RenderModprobe returns the content of a modprobe.d file of busbar's own, in
// the order given; without statements "", which means no file. The statements
// must be valid; backslashes are written so that kmod reads them back.
func RenderModprobe(statements []Statement) string {
	if len(statements) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(header)
	for _, s := range statements {
		line := string(s.Verb) + " " + Normalize(s.Module)
		switch s.Verb {
		case Blacklist:
		case Alias:
			line += " " + Normalize(s.Args)
		default:
			line += " " + s.Args
		}
		b.WriteString(strings.ReplaceAll(line, `\`, `\\`) + "\n")
	}
	return b.String()
}
