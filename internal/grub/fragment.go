package grub

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
)

const fragmentHeader = "# Written by busbar; changes are lost. It appends to what the files before it set.\n"

// EmptyFragment is a FragmentFile that adds nothing.
const EmptyFragment = fragmentHeader

// Fragment renders the content of FragmentFile: it appends the arguments, each
// one token in the kernel's quoting, to GRUB_CMDLINE_LINUX_DEFAULT. They are
// quoted so that shell and GRUB hand them on unchanged (";" ends a command in
// both); GRUB itself writes a backslash before ' " and \ on the kernel's line,
// which no quoting prevents. Without arguments it is "": no file.
func Fragment(args []string) string {
	if len(args) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(fragmentHeader)
	b.WriteString(LinuxDefault + `="$` + LinuxDefault)
	for _, arg := range args {
		b.WriteString(" " + shellQuoted.Replace(grubWord(arg)))
	}
	b.WriteString("\"\n")
	return b.String()
}

var (
	shellQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`") // inside "..." of sh
	grubQuoted  = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`)             // inside "..." of GRUB
)

// grubWord spells a kernel argument as one word of a linux line.
func grubWord(arg string) string {
	if strings.TrimFunc(arg, plain) == "" && arg != "" {
		return arg
	}
	line, init := cmdline.Split(arg)
	if len(line) != 1 || init != nil || !line[0].HasValue || strings.TrimFunc(line[0].Key, plain) != "" {
		return `"` + grubQuoted.Replace(arg) + `"`
	}
	return line[0].Key + `="` + grubQuoted.Replace(line[0].Value) + `"`
}

// plain runes mean nothing to sh and GRUB.
func plain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.,:=/@%+-", r)
}

// FragmentArgs reads a fragment that Fragment wrote back into the arguments that
// it adds, with quotes only where the kernel needs them.
func FragmentArgs(text string) ([]string, error) {
	d, err := Evaluate([]confdir.File{{Path: FragmentFile, Text: text}}, nil)
	if err != nil {
		return nil, err
	}
	value, known, reason := d.Value(LinuxDefault)
	if !known {
		return nil, fmt.Errorf("reading %s: %s is not known: %s", FragmentFile, LinuxDefault, reason)
	}
	words, lost := firstCommand(value)
	if lost != "" {
		return nil, fmt.Errorf("reading %s: GRUB does not take %q for an argument", FragmentFile, lost)
	}
	var args []string
	for _, w := range words {
		key, value, found := strings.Cut(w.text, "=")
		if found && !strings.Contains(key, " ") {
			w.text = cmdline.Quote(key, value)
		} else if strings.Contains(w.text, " ") {
			w.text = `"` + w.text + `"`
		}
		args = append(args, w.text)
	}
	return args, nil
}

// TakeOver cuts a token, given as Token.Text or Token.Arg, out of the assignments
// that touch one of the lines, with the white space before it, or after it where
// it comes first. Everything else stays byte for byte. Where nothing matches, or
// the shell cannot read the file, text comes back as it is.
func TakeOver(text, token string, lines []int) string {
	f, err := parse(DefaultsFile, text)
	if err != nil {
		return text
	}
	i := newInterp(nil)
	i.src = newSource(DefaultsFile, text)
	var cuts [][2]int
	cut := func(n syntax.Node, parts []syntax.WordPart) {
		from, to := i.src.line(int(n.Pos().Offset())), i.src.line(int(n.End().Offset()))
		if slices.ContainsFunc(lines, func(l int) bool { return from <= l && l <= to }) {
			cuts = append(cuts, i.spelling(parts).cut(token)...)
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			for _, a := range c.Assigns {
				cut(a, assignedParts(a))
			}
			for _, w := range c.Args {
				if _, _, rest, ok := i.assignmentWord(w); ok {
					cut(w, rest)
				}
			}
		}
		_, substitution := n.(*syntax.CmdSubst)
		return !substitution
	})
	slices.SortFunc(cuts, func(a, b [2]int) int { return a[0] - b[0] })
	var b strings.Builder
	at := 0
	for _, c := range slices.Compact(cuts) { // neighbours share the blank between them
		b.WriteString(text[at:c[0]])
		at = c[1]
	}
	return b.String() + text[at:]
}

// spelling is the literal text of a value, byte by byte, with the place in the
// source where each byte is spelt. An expansion is one byte of no width.
type spelling struct {
	text       []byte
	start, end []int
}

const opaque = 0 // stands for an expansion; parse lets no NUL through

func (i *interp) spelling(parts []syntax.WordPart) *spelling {
	s := &spelling{}
	s.add(i, parts, unquoted)
	return s
}

func (s *spelling) add(i *interp, parts []syntax.WordPart, q quoting) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.DblQuoted:
			s.add(i, p.Parts, double)
		case *syntax.Lit, *syntax.SglQuoted:
			v, _ := i.parts([]syntax.WordPart{p}, q)
			for _, piece := range v {
				width := 1
				if piece.escaped {
					width = 2
				}
				for n := range len(piece.text) {
					s.put(piece.text[n], piece.offset+n, piece.offset+n+width)
				}
			}
		default:
			at := int(p.Pos().Offset())
			s.put(opaque, at, at)
		}
	}
}

func (s *spelling) put(c byte, start, end int) {
	s.text = append(s.text, c)
	s.start = append(s.start, start)
	s.end = append(s.end, end)
}

// cut returns the source ranges to remove so that no word is token.
func (s *spelling) cut(token string) [][2]int {
	var cuts [][2]int
	words, _ := firstCommand(string(s.text))
	for _, w := range words {
		if w.raw != token && w.kernel() != token {
			continue
		}
		from, to := w.start, w.start+len(w.raw)
		for from > 0 && s.blank(from-1) && s.end[from-1] == s.start[from] {
			from--
		}
		if from == w.start {
			for to < len(s.text) && s.blank(to) && s.start[to] == s.end[to-1] {
				to++
			}
		}
		for n := from; n < to; n++ {
			cuts = append(cuts, [2]int{s.start[n], s.end[n]})
		}
	}
	return cuts
}

func (s *spelling) blank(n int) bool { return s.text[n] == ' ' || s.text[n] == '\t' }
