package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is how text for people looks.
type Style struct {
	// Color: use ANSI colours (ECMA-48 SGR).
	Color bool
	// Width is the terminal's, in columns; 0 for no terminal: nothing is wrapped.
	Width int
	// Verbose adds what is ok or skipped, why things matter, and the content of files to write.
	Verbose bool
	// Quiet leaves one line for each node.
	Quiet bool
}

// color is an SGR parameter.
type color string

const (
	plain  color = ""
	bold   color = "1"
	dim    color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	cyan   color = "36"
)

// paint colours s, which holds no colours yet.
func (s Style) paint(c color, text string) string {
	if !s.Color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// page collects lines, so that one Write gives a whole view.
type page struct {
	bytes.Buffer
	style Style
}

func (p *page) flush(w io.Writer) error {
	_, err := w.Write(p.Bytes())
	return err
}

// blank separates paragraphs.
func (p *page) blank() { p.WriteByte('\n') }

// span is a run of text in one colour at the start of a paragraph.
type span struct {
	color color
	text  string
}

// glue is a space at which lines are not broken. Foreign text never holds it:
// printable escapes it.
const glue = "\u00a0"

// minColumn is the narrowest column into which text is wrapped, whatever the terminal.
const minColumn = 24

// paragraph writes lead, whose width is that of its texts, and then text; what
// does not fit goes to further lines that begin below text. The first bytes of
// text that equal emphasis are bold.
func (p *page) paragraph(lead []span, emphasis, text string) {
	indent := 0
	for _, s := range lead {
		p.WriteString(p.style.paint(s.color, s.text))
		indent += utf8.RuneCountInString(s.text)
	}
	for i, line := range wrap(text, p.column(indent)) {
		if i > 0 {
			p.WriteString(strings.Repeat(" ", indent))
		}
		if rest, ok := strings.CutPrefix(line, emphasis); ok && i == 0 {
			line = p.style.paint(bold, emphasis) + rest
		}
		p.WriteString(line)
		p.WriteByte('\n')
	}
}

// column is the width of what stands right of indent, 0 for no limit.
func (p *page) column(indent int) int {
	if p.style.Width == 0 {
		return 0
	}
	return max(p.style.Width-indent, minColumn)
}

// wrap breaks text at spaces into lines of at most width runes; width 0 breaks
// nothing. Longer words stay whole, so that a path can be copied.
func wrap(text string, width int) []string {
	if width == 0 {
		return []string{strings.ReplaceAll(text, glue, " ")}
	}
	var lines []string
	var line strings.Builder
	length := 0
	for _, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
		case length+1+n > width:
			lines = append(lines, strings.ReplaceAll(line.String(), glue, " "))
			line.Reset()
			length = 0
		default:
			line.WriteByte(' ')
			length++
		}
		line.WriteString(word)
		length += n
	}
	return append(lines, strings.ReplaceAll(line.String(), glue, " "))
}

// pad fills s up to width runes.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func printable(s string) string { return Printable(s, "") }

// Printable escapes, as Go writes it, what a terminal or an eye could be fooled by: control
// characters, escape sequences, line breaks, bidirectional overrides, invalid UTF-8. The characters of
// keep stay.
func Printable(s, keep string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case plain(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// plural is "1 step", "2 steps".
func plural(n int, one string) string {
	if n == 1 {
		return "1" + glue + one
	}
	return strconv.Itoa(n) + glue + one + "s"
}

func joinNonEmpty(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
