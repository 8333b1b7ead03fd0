package paste

import (
	"path"
	"strings"
)

// piece is text from a line on, and what is known of it.
type piece struct {
	// lines from the first one of the piece to the end of the text, cleaned.
	lines []string
	// path where it stood on the node, and the command that printed it; empty where nobody said.
	path, command string
	// begins: it is the beginning of its text.
	begins bool
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
	// parts: a section may be read in parts, one after the other, as its lines come.
	parts bool
}

// while counts the lines from the first one on for which is holds. Blank lines between them count, those at the end do not.
func while(lines []string, is func(string) bool) int {
	n := 0
	for i, line := range lines {
		switch {
		case line == "":
		case is(line):
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

// block counts the lines from the first one on for which is holds, with comments and blank lines among them, and how many of the lines
// are no comments. A part of a file may begin with comments, but not with many. at: it is a whole file, of which nothing else is.
func block(lines []string, at bool, is func(i int, line string) bool) (n, said int) {
	aside := 0
	for i, line := range lines {
		switch {
		case is(i, line):
			said++
			aside = 0
		case at:
		case line == "" || comment(line):
			if aside++; aside > maxComments {
				return n, said
			}
			continue
		default:
			return n, said
		}
		n = i + 1
	}
	return n, said
}

// maxComments is how many lines of comments can stand together in a part of a file.
const maxComments = 40

// maxBlank is how many blank lines can be in the middle of a section.
const maxBlank = 2

// one is 1 for true.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
