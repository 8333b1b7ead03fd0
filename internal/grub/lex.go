package grub

import (
	"strings"
)

// kind is what a lexeme of a GRUB script is.
type kind int

const (
	wordLexeme  kind = iota
	endLexeme        // newline ; & | < > : no argument follows
	openLexeme       // {
	closeLexeme      // }
	eofLexeme
	badLexeme // a quote that is not closed
)

// lexeme is a word or an operator.
type lexeme struct {
	kind  kind
	raw   string // as written
	text  string // quoting undone, variables left as $NAME or ${NAME}
	start int    // offset of raw
}

// kernel spells a word the way GRUB writes it on the kernel's line
// (grub-core/lib/cmdline.c, grub_create_loader_cmdline): in double quotes if it
// holds a space, with a backslash before ' " and \ unless that begins \xHH.
func (w lexeme) kernel() string {
	var b strings.Builder
	for i := range len(w.text) {
		c := w.text[i]
		switch {
		case c == '\\' && i+3 < len(w.text) && w.text[i+1] == 'x' && isHex(w.text[i+2]) && isHex(w.text[i+3]):
		case c == '\\' || c == '\'' || c == '"':
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	if strings.Contains(w.text, " ") {
		return `"` + b.String() + `"`
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// lexer splits a GRUB script as grub-core/script/yylex.l does.
type lexer struct {
	text string
	pos  int
}

func (l *lexer) next() lexeme {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t':
			l.pos++
		case c == '\\' && strings.HasPrefix(l.text[l.pos:], "\\\n"):
			l.pos += 2
		case c == '#':
			if n := strings.IndexByte(l.text[l.pos:], '\n'); n >= 0 {
				l.pos += n
			} else {
				l.pos = len(l.text)
			}
		default:
			return l.lexeme()
		}
	}
	return lexeme{kind: eofLexeme, start: l.pos}
}

func (l *lexer) lexeme() lexeme {
	start := l.pos
	operator := func(k kind) lexeme {
		l.pos++
		return lexeme{kind: k, raw: l.text[start:l.pos], start: start}
	}
	switch l.text[l.pos] {
	case '\n', ';', '&', '|', '<', '>':
		return operator(endLexeme)
	case '{':
		return operator(openLexeme)
	case '}':
		return operator(closeLexeme)
	}
	var b strings.Builder
	w := lexeme{kind: wordLexeme, start: start}
	for l.pos < len(l.text) && !strings.ContainsRune("\n;&|<>{} \t", rune(l.text[l.pos])) {
		if !l.part(&b) {
			w.kind = badLexeme
			l.pos = len(l.text)
		}
	}
	w.raw, w.text = l.text[start:l.pos], b.String()
	return w
}

// part takes one quoted string, escape, variable or plain byte of a word. It is
// false if a quote is not closed.
func (l *lexer) part(b *strings.Builder) bool {
	rest := l.text[l.pos:]
	switch {
	case rest[0] == '\'':
		n := strings.IndexByte(rest[1:], '\'')
		if n < 0 {
			return false
		}
		b.WriteString(rest[1 : 1+n])
		l.pos += n + 2
	case rest[0] == '"':
		l.pos++
		return l.doubleQuoted(b)
	case strings.HasPrefix(rest, `$"`): // to be translated
		l.pos += 2
		return l.doubleQuoted(b)
	case rest[0] == '\\' && len(rest) > 1:
		if rest[1] != '\n' {
			b.WriteByte(rest[1])
		}
		l.pos += 2
	case strings.HasPrefix(rest, "${"):
		n := strings.IndexByte(rest, '}')
		if n < 0 {
			return false
		}
		b.WriteString(rest[:n+1])
		l.pos += n + 1
	default:
		b.WriteByte(rest[0])
		l.pos++
	}
	return true
}

func (l *lexer) doubleQuoted(b *strings.Builder) bool {
	for ; l.pos < len(l.text); l.pos++ {
		c := l.text[l.pos]
		if c == '"' {
			l.pos++
			return true
		}
		if c == '\\' && l.pos+1 < len(l.text) {
			switch e := l.text[l.pos+1]; e {
			case '$', '\\', '"':
				l.pos++
				c = e
			case '\n':
				l.pos++
				continue
			}
		}
		b.WriteByte(c)
	}
	return false
}

// firstCommand returns the words of text up to the first operator, and the
// text from there on without white space around.
func firstCommand(text string) (words []lexeme, rest string) {
	l := lexer{text: text}
	for {
		switch w := l.next(); w.kind {
		case wordLexeme:
			words = append(words, w)
		case eofLexeme:
			return words, ""
		default:
			return words, strings.TrimSpace(text[w.start:])
		}
	}
}

// KernelLine returns what GRUB hands the kernel for the text that follows the
// kernel's path on a linux line: GRUB's quoting undone, words that hold spaces
// in double quotes, variables as they stand. lost is the text from the first
// unquoted newline or ; & | < > { } on, or from a quote that is not closed on:
// GRUB takes that for something else and the kernel never sees it.
func KernelLine(text string) (line, lost string) {
	words, lost := firstCommand(text)
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = w.kernel()
	}
	return strings.Join(args, " "), lost
}
