// Package cmdline reads the Linux kernel command line the way the kernel does,
// and says which of its arguments are in force once the whole line was read.
package cmdline

import (
	"strings"
)

// Arg is one token of a command line.
type Arg struct {
	// Key is what stands before the first '=', or the whole token, without
	// the quotes that the kernel removes.
	Key string
	// Value is what stands after the first '=', without the quotes that the
	// kernel removes.
	Value string
	// HasValue tells KEY= (true, Value "") from the bare flag KEY (false).
	HasValue bool
	// Text is the token exactly as it stands on the line, quotes included.
	Text string
}

// Line is the kernel's own part of a command line, in order.
type Line []Arg

// Parse reads a command line such as the content of /proc/cmdline. Tokens after
// "--" belong to init and are left out; Split returns them.
func Parse(s string) Line {
	kernel, _ := Split(s)
	return kernel
}

// Split reads a command line as next_arg and parse_args do (lib/cmdline.c,
// kernel/params.c): tokens are separated by white space outside double quotes,
// there is no escape for a quote, and the bare token "--" ends what the kernel
// reads. A NUL ends the line, and the byte 0xA0 is white space, as in the
// kernel's ctype table. kernel is what stands before "--", init what follows.
func Split(s string) (kernel, init Line) {
	if nul := strings.IndexByte(s, 0); nul >= 0 {
		s = s[:nul]
	}
	ended := false
	for s = skipSpace(s); s != ""; s = skipSpace(s) {
		var a Arg
		a, s = next(s)
		switch {
		case ended:
			init = append(init, a)
		case a.Key == "--" && !a.HasValue:
			ended = true
		default:
			kernel = append(kernel, a)
		}
	}
	return kernel, init
}

// next takes the first token off s, which does not begin with white space.
func next(s string) (Arg, string) {
	body, quoted := strings.CutPrefix(s, `"`)
	inQuote := quoted
	equals, end := 0, len(body)
	for i := range len(body) {
		c := body[i]
		if isSpace(c) && !inQuote {
			end = i
			break
		}
		if c == '=' && equals == 0 {
			equals = i
		}
		if c == '"' {
			inQuote = !inQuote
		}
	}
	token := body[:end]
	a := Arg{Key: token, Text: s[:len(s)-len(body)+end]}
	if equals > 0 {
		a.HasValue = true
		a.Key, a.Value = token[:equals], token[equals+1:]
		if v, ok := strings.CutPrefix(a.Value, `"`); ok {
			a.Value = strings.TrimSuffix(v, `"`)
		} else if quoted {
			a.Value = strings.TrimSuffix(a.Value, `"`)
		}
	} else if quoted {
		a.Key = strings.TrimSuffix(token, `"`)
	}
	return a, body[end:]
}

// isSpace is the kernel's isspace (lib/ctype.c), which works on Latin-1 bytes.
func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r' || c == 0xa0
}

func skipSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	return s
}

// Quote spells KEY=VALUE as one token, the value in double quotes where it holds
// white space. The kernel knows no escape: a value that holds white space and a
// double quote cannot be spelt.
func Quote(key, value string) string {
	for i := range len(value) {
		if isSpace(value[i]) {
			return key + `="` + value + `"`
		}
	}
	return key + "=" + value
}

// Strings returns the exact text of each token.
func (l Line) Strings() []string {
	texts := make([]string, len(l))
	for i, a := range l {
		texts[i] = a.Text
	}
	return texts
}

// String joins the tokens with single spaces; Parse gives the same Line back.
func (l Line) String() string { return strings.Join(l.Strings(), " ") }

// KeyEqual compares two parameter names the way the kernel does: '-' and '_'
// are the same (kernel/params.c, parameq).
func KeyEqual(a, b string) bool { return canonical(a) == canonical(b) }

func canonical(key string) string { return strings.ReplaceAll(key, "-", "_") }

// Occurrences returns every token with this key, in order.
func Occurrences(line Line, key string) []Arg {
	var found []Arg
	for _, a := range line {
		if KeyEqual(a.Key, key) {
			found = append(found, a)
		}
	}
	return found
}
