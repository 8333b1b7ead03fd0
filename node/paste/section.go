package paste

import (
	"fmt"
	"path"
	"strings"
)

// text is one text that was given.
type text struct {
	file, path string
	lines      []string
	count      int
	// open: the last line has no end.
	open bool
}

// piece is text from a line on, and what is known of it.
type piece struct {
	// lines from the first one of the piece to the end of the text, cleaned.
	lines []string
	// path where it stood on the node, and the command that printed it; empty where nobody said.
	path, command string
}

// at is whether the piece stood in a directory on the node.
func (p piece) in(dirs ...string) bool {
	for _, d := range dirs {
		if p.path != "" && path.Dir(p.path) == d {
			return true
		}
	}
	return false
}

// typed reports whether the command that printed the piece has these words, in this order and others between them.
func (p piece) typed(words ...string) bool {
	have := strings.Fields(p.command)
	for _, w := range words {
		i := 0
		for i < len(have) && have[i] != w && path.Base(have[i]) != w {
			i++
		}
		if i == len(have) {
			return false
		}
		have = have[i+1:]
	}
	return true
}

// section is a piece that was recognised.
type section struct {
	piece
	file string
	// first is the number of its first line, from 1.
	first int
	// bytes is the text byte for byte, where the section is all of it; empty else: then its lines came through some other program.
	bytes string
}

// text is the section's text.
func (s section) text() string { return strings.Join(s.lines, "\n") + "\n" }

// raw is the section's text as it stood in the file, carriage returns and a missing end of the last line too, where that can be known.
func (s section) raw() string {
	if s.bytes != "" {
		return s.bytes
	}
	return s.text()
}

// match is how much of a piece is of a kind.
type match struct {
	// lines from the first one on that belong to it; 0 for none.
	lines int
	// signs are those that say so and do not follow from each other: a heading, the form of its rows, a word that nothing
	// else has, where it stood. One sign recognises nothing.
	signs int
}

// enough is how many signs recognise a kind.
const enough = 2

// kind is a kind of text.
type kind struct {
	name string
	// scan looks whether a piece begins with text of the kind. It is asked at every line that belongs to nothing else, and looks at
	// as little as it can.
	scan func(piece) match
	// read takes facts out of a section. What it returns is why what the section does not show may be wrong all the same, or
	// empty. It is nil for a kind that busbar knows and does not read, for the reason unread.
	read   func(*draft, section) (doubt string)
	unread string
}

// split finds what a text is made of.
func (t *text) split(p *Paste) {
	cleaned, without := make([]string, len(t.lines)), make([]string, len(t.lines))
	for i, line := range t.lines {
		cleaned[i] = clean(line)
		without[i] = bare(cleaned[i])
	}
	where, typed := t.path, ""
	unknownFrom := -1
	flush := func(end int) {
		if unknownFrom < 0 {
			return
		}
		last := end
		for last > unknownFrom && cleaned[last-1] == "" {
			last--
		}
		p.inputs = append(p.inputs, Input{File: t.file, Line: unknownFrom + 1, Lines: last - unknownFrom, Unread: "busbar does not know what this is"})
		unknownFrom = -1
	}
	if len(t.lines) == 0 {
		t.lines, cleaned, without = []string{""}, []string{""}, []string{""}
	}
	for i := 0; i < len(t.lines); {
		line := without[i]
		if path := heading(line); path != "" {
			where, typed = path, ""
			i++
			continue
		}
		if c := command(line); c != "" {
			flush(i)
			typed = c
			if where = readsFile(c); where == "" && t.path != "" {
				where = t.path
			}
			i++
			continue
		}
		if fence(line) {
			i++
			continue
		}
		k, m, lines := recognise(cleaned[i:], without[i:], where, typed)
		if k == nil {
			if line != "" && unknownFrom < 0 {
				unknownFrom = i
			}
			i++
			continue
		}
		flush(i)
		s := section{piece: piece{lines: lines[:m.lines], path: where, command: typed}, file: t.file, first: i + 1}
		if i == 0 && rest(cleaned[m.lines:]) && &lines[0] == &cleaned[0] {
			s.bytes = t.bytes()
		}
		in := Input{File: t.file, Kind: k.name, Line: i + 1, Lines: m.lines, Unread: k.unread}
		if t.count == 0 {
			in.Line, in.Lines = 0, 0
		}
		if k.read != nil {
			in.Doubt = k.read(&p.draft, s)
		}
		p.inputs = append(p.inputs, in)
		i += m.lines
	}
	flush(len(t.lines))
}

// rest reports that nothing but blank lines is left.
func rest(lines []string) bool {
	for _, l := range lines {
		if l != "" {
			return false
		}
	}
	return true
}

// bytes is the text as it was read.
func (t *text) bytes() string {
	all := strings.Join(t.lines, "\n")
	if t.open || t.count == 0 {
		return all
	}
	return all + "\n"
}

// recognise finds the kind of which most signs are at the beginning of text, with its prefixes or without them.
func recognise(cleaned, without []string, where, typed string) (best *kind, at match, lines []string) {
	for _, candidate := range [][]string{cleaned, without} {
		if len(candidate) > 0 && &candidate[0] == &without[0] && candidate[0] == cleaned[0] && best == nil && !differ(cleaned, without) {
			continue
		}
		pc := piece{lines: candidate, path: where, command: typed}
		for i := range kinds {
			m := kinds[i].scan(pc)
			if m.lines == 0 || m.signs < enough || m.lines > len(candidate) {
				continue
			}
			if best == nil || m.signs > at.signs || m.signs == at.signs && m.lines > at.lines {
				best, at, lines = &kinds[i], m, candidate
			}
		}
		if best != nil {
			return best, at, lines
		}
	}
	return nil, match{}, nil
}

// near is how many lines decide whether prefixes matter.
const near = 4

// differ reports whether one of the first lines has a prefix.
func differ(cleaned, without []string) bool {
	for i := range min(near, len(cleaned)) {
		if cleaned[i] != without[i] {
			return true
		}
	}
	return false
}

// while counts the lines from the first one on for which is holds. Blank lines between them count, those at the end do not.
func while(lines []string, is func(string) bool) int {
	n := 0
	for i, line := range lines {
		switch {
		case line == "":
		case is(line) && command(line) == "" && !fence(line) && heading(line) == "":
			n = i + 1
		default:
			return n
		}
		if i-n > maxBlank {
			return n
		}
	}
	return n
}

// maxBlank is how many blank lines can be in the middle of a section.
const maxBlank = 2

// one is 1 for true.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// plural is "1 row", "2 rows".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
