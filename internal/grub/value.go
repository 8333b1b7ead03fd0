package grub

import (
	"sort"
	"strings"
)

// source is one file's text with its line starts.
type source struct {
	path   string
	text   string
	starts []int // offset of the first byte of each line but the first
}

func newSource(path, text string) *source {
	s := &source{path: path, text: text}
	for i := range len(text) {
		if text[i] == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// line returns the line of an offset, from 1.
func (s *source) line(offset int) int {
	return 1 + sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > offset })
}

// piece is literal text and where it was written. One byte of text is one byte
// of source, except that an escaped piece is one byte written as two.
type piece struct {
	text    string
	src     *source
	offset  int
	escaped bool
}

// value is the text of a variable with the origin of every byte.
type value []piece

func (v value) String() string {
	var b strings.Builder
	for _, p := range v {
		b.WriteString(p.text)
	}
	return b.String()
}

func (v value) size() int {
	n := 0
	for _, p := range v {
		n += len(p.text)
	}
	return n
}

// tokens splits the value into GRUB's words, up to the end of the command.
func (v value) tokens() []Token {
	var tokens []Token
	at, start := 0, 0 // v[at] begins at byte start of the value
	words, _ := firstCommand(v.String())
	for _, w := range words {
		for w.start >= start+len(v[at].text) {
			start += len(v[at].text)
			at++
		}
		p := v[at]
		tokens = append(tokens, Token{
			Text: w.raw, Arg: w.kernel(),
			File: p.src.path, Line: p.src.line(p.offset + w.start - start),
		})
	}
	return tokens
}

// quoting is the shell context that literal text stands in.
type quoting int

const (
	unquoted quoting = iota
	double
	single
)

// decode undoes the shell's quoting of src.text[from:to]. The range of a literal
// may end between the backslash and the newline of a continued line.
func decode(src *source, from, to int, q quoting) value {
	var v value
	text := src.text
	start := from
	flush := func(end int) {
		if end > start {
			v = append(v, piece{text: text[start:end], src: src, offset: start})
		}
	}
	for i := from; i < to; i++ {
		if text[i] != '\\' || i+1 >= len(text) || i+1 == to && text[to] != '\n' || q == single {
			continue
		}
		c := text[i+1]
		if q == double && !strings.ContainsRune("$`\"\\\n", rune(c)) {
			continue
		}
		flush(i)
		if c != '\n' {
			v = append(v, piece{text: text[i+1 : i+2], src: src, offset: i, escaped: true})
		}
		i++
		start = i + 1
	}
	flush(to)
	return v
}
