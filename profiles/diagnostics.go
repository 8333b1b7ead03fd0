package profiles

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/mitchellh/go-wordwrap"

	"busbar/plan"
)

// The severities of a Diagnostic.
const (
	DiagnosticError   = "error"
	DiagnosticWarning = "warning"
)

// Diagnostic is one mistake in a profile. It is the JSON form, and the form that text
// is rendered from.
type Diagnostic struct {
	// Severity is DiagnosticError or DiagnosticWarning.
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	// Address of the block (nccl, selector.rails, var.lossless), or empty.
	Address string `json:"address,omitempty"`
	// Range is nil where the mistake is at no place in a file.
	Range   *Range   `json:"range,omitempty"`
	Snippet *Snippet `json:"snippet,omitempty"`
	// Others are further places that it is about.
	Others []Excerpt `json:"others,omitempty"`
}

// Excerpt is a place in a file with the source around it, nil where that is not known.
type Excerpt struct {
	Range   *Range   `json:"range"`
	Snippet *Snippet `json:"snippet,omitempty"`
}

// Excerpt is the line of a place of p.
func (p *Profile) Excerpt(at plan.Origin) Excerpt {
	rng := Range{Filename: at.File, Start: Position{Line: at.Line, Column: 1}, End: Position{Line: at.Line, Column: 1}}
	f, ok := p.sources[at.File]
	if !ok || at.Line < 1 {
		return Excerpt{Range: &rng}
	}
	begin := 0
	for range at.Line - 1 {
		n := bytes.IndexByte(f.src[begin:], '\n')
		if n < 0 {
			return Excerpt{Range: &rng}
		}
		begin += n + 1
	}
	line, _, _ := bytes.Cut(f.src[begin:], []byte("\n"))
	indent := len(line) - len(bytes.TrimLeft(line, " \t"))
	text := string(bytes.TrimRight(line[indent:], " \t\r"))
	rng.Start.Column, rng.Start.Byte = indent+1, begin+indent
	rng.End.Column, rng.End.Byte = rng.Start.Column+utf8.RuneCountInString(text), rng.Start.Byte+len(text)
	return Excerpt{&rng, snippet(f.src, rng, f.contextAt(rng.Start.Byte))}
}

// Range is a piece of a file, from Start up to but not including End.
type Range struct {
	Filename string   `json:"filename"`
	Start    Position `json:"start"`
	End      Position `json:"end"`
}

// Position in a file.
type Position struct {
	// Line and Column count from 1; a column is a grapheme cluster.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Byte counts from 0.
	Byte int `json:"byte"`
}

// Snippet is the source around a Range.
type Snippet struct {
	// Context is the header of the block around it (kernel_module "nouveau"), or empty.
	Context string `json:"context,omitempty"`
	// Code is the line in which the range starts, without its line break; long lines are cut.
	Code      string `json:"code"`
	StartLine int    `json:"start_line"`
	// HighlightStartOffset and HighlightEndOffset bound the range in Code, in bytes.
	HighlightStartOffset int `json:"highlight_start_offset"`
	HighlightEndOffset   int `json:"highlight_end_offset"`
}

// Diagnostics are sorted by file, place, severity and summary, each once. There are at
// most a hundred, errors before warnings; one without a Range at the end says how many
// more there were.
type Diagnostics []Diagnostic

// HasErrors reports whether one is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == DiagnosticError })
}

const (
	colorReset  = "\x1b[0m"
	colorBold   = "\x1b[1m"
	colorRed    = "\x1b[1;31m"
	colorYellow = "\x1b[1;33m"
)

// WriteText renders diagnostics for people. Details are wrapped at width columns
// (0: never), color uses ANSI escapes.
func WriteText(w io.Writer, diags Diagnostics, width int, color bool) error {
	paint := func(code, s string) string {
		if !color {
			return s
		}
		return code + s + colorReset
	}
	var b strings.Builder
	for i, d := range diags {
		if i > 0 {
			b.WriteByte('\n')
		}
		label, code := "Error", colorRed
		if d.Severity == DiagnosticWarning {
			label, code = "Warning", colorYellow
		}
		fmt.Fprintf(&b, "%s: %s\n", paint(code, label), paint(colorBold, escaped(d.Summary)))
		for _, e := range append([]Excerpt{{d.Range, d.Snippet}}, d.Others...) {
			e.write(&b, func(s string) string { return paint(code, s) })
		}
		if d.Detail != "" {
			detail := escaped(d.Detail)
			if width > 4 {
				detail = wordwrap.WrapString(detail, uint(width-2))
			}
			for line := range strings.Lines(detail) {
				b.WriteString("  " + line)
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (e Excerpt) write(b *strings.Builder, paint func(string) string) {
	if e.Range == nil {
		return
	}
	fmt.Fprintf(b, "  %s:%d:%d", escaped(e.Range.Filename), e.Range.Start.Line, e.Range.Start.Column)
	if e.Snippet == nil {
		b.WriteByte('\n')
		return
	}
	if e.Snippet.Context != "" {
		b.WriteString(", in " + escaped(e.Snippet.Context))
	}
	s := e.Snippet
	number := fmt.Sprint(s.StartLine)
	margin := strings.Repeat(" ", len(number))
	fmt.Fprintf(b, "\n   %s |\n   %s | %s\n", margin, number, printable(s.Code))
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, s.Code[:s.HighlightStartOffset])
	marked := utf8.RuneCountInString(s.Code[s.HighlightStartOffset:s.HighlightEndOffset])
	fmt.Fprintf(b, "   %s | %s%s\n", margin, indent, paint(strings.Repeat("^", max(marked, 1))))
}

// escaped is s on one line, with what could steer a terminal written as Go writes it.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// printable replaces what could steer a terminal, rune by rune, so that columns stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// maxSnippet is how much of a line a snippet shows on either side of the place, in bytes.
const maxSnippet = 160

func snippet(src []byte, rng Range, context string) *Snippet {
	start := rng.Start.Byte
	if start < 0 || start > len(src) {
		return nil
	}
	from, to := max(0, start-maxSnippet), min(len(src), start+maxSnippet)
	from += bytes.LastIndexByte(src[from:start], '\n') + 1
	if i := bytes.IndexByte(src[start:to], '\n'); i >= 0 {
		to = start + i
	}
	for from < start && !utf8.RuneStart(src[from]) {
		from++
	}
	for to > start && to < len(src) && !utf8.RuneStart(src[to]) {
		to--
	}
	code := strings.TrimPrefix(string(src[from:to]), "\ufeff")
	cut := to - from - len(code)
	code = strings.TrimSuffix(code, "\r")
	begin := min(max(start-from-cut, 0), len(code))
	end := min(max(rng.End.Byte-from-cut, begin), len(code))
	return &Snippet{
		Context: context, Code: code, StartLine: rng.Start.Line,
		HighlightStartOffset: begin, HighlightEndOffset: end,
	}
}

const (
	// maxShown is how many diagnostics a profile gets, that of the rest not counted.
	maxShown = 100
	// maxCollected is how many are kept to choose those from.
	maxCollected = 10_000
	// maxDetail is the length of a text in a diagnostic, in bytes.
	maxDetail = 2000
)

// report collects diagnostics over the files of one profile.
type report struct {
	files map[string]sourceFile
	list  Diagnostics // each once, at most maxCollected
	seen  map[seenDiagnostic]bool
	count int // of all, kept or not
	// blamed are the addresses that diagnostics are about.
	blamed map[string]bool
	// invalid are the arguments in which a reference is wrong: they cannot be evaluated. invalidItems are the wrong items, instead,
	// of objects that merge key by key.
	invalid      map[*argument]bool
	invalidItems map[*argument]map[int]bool
}

type seenDiagnostic struct {
	rng                       hcl.Range
	severity, summary, detail string
}

// sourceFile is what snippets are taken from.
type sourceFile struct {
	src []byte
	// contexts are the headers of the top-level blocks.
	contexts []blockContext
}

type blockContext struct {
	start, end int
	header     string
}

func newReport() *report {
	return &report{
		files: map[string]sourceFile{}, seen: map[seenDiagnostic]bool{}, blamed: map[string]bool{},
		invalid: map[*argument]bool{}, invalidItems: map[*argument]map[int]bool{},
	}
}

// full reports whether a further diagnostic would be counted alone.
func (r *report) full() bool { return len(r.list) >= maxCollected }

func (r *report) errorf(rng hcl.Range, address, summary, detail string, args ...any) {
	if r.full() {
		r.count++
		return
	}
	r.add(DiagnosticError, rng, address, summary, fmt.Sprintf(detail, args...))
}

func (r *report) add(severity string, rng hcl.Range, address, summary, detail string) {
	summary, detail = clip(summary), clip(detail)
	r.blamed[address] = true
	key := seenDiagnostic{rng, severity, summary, detail}
	if r.seen[key] {
		return
	}
	r.count++
	if r.full() {
		return
	}
	r.seen[key] = true
	d := Diagnostic{Severity: severity, Summary: summary, Detail: detail, Address: address}
	if rng.Filename != "" {
		d.Range = &Range{
			Filename: rng.Filename,
			Start:    Position{rng.Start.Line, rng.Start.Column, rng.Start.Byte},
			End:      Position{rng.End.Line, rng.End.Column, rng.End.Byte},
		}
	}
	r.list = append(r.list, d)
}

// clip cuts a text that is too long to read.
func clip(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return strings.ToValidUTF8(s[:maxDetail], "") + "..."
}

func (f sourceFile) contextAt(offset int) string {
	for _, c := range f.contexts {
		if c.start <= offset && offset < c.end {
			return c.header
		}
	}
	return ""
}

func (r *report) hcl(diags hcl.Diagnostics, address string) {
	for _, d := range diags {
		severity := DiagnosticError
		if d.Severity == hcl.DiagWarning {
			severity = DiagnosticWarning
		}
		var rng hcl.Range
		if d.Subject != nil {
			rng = *d.Subject
		}
		r.add(severity, rng, address, d.Summary, strings.ReplaceAll(d.Detail, "\n", " "))
	}
}

// diagnostics are what was collected, sorted, as many as are shown.
func (r *report) diagnostics() Diagnostics {
	if r.count == 0 {
		return nil
	}
	place := func(d Diagnostic) Range {
		if d.Range == nil {
			return Range{}
		}
		return *d.Range
	}
	byPlace := func(a, b Diagnostic) int {
		ra, rb := place(a), place(b)
		return cmp.Or(cmp.Compare(ra.Filename, rb.Filename), cmp.Compare(ra.Start.Byte, rb.Start.Byte),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Summary, b.Summary), cmp.Compare(a.Detail, b.Detail),
			cmp.Compare(a.Address, b.Address), cmp.Compare(ra.End.Byte, rb.End.Byte))
	}
	shown := slices.SortedFunc(slices.Values(r.list), func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), byPlace(a, b))
	})
	more := Diagnostic{Severity: shown[len(shown)-1].Severity}
	if len(shown) > maxShown {
		more.Severity = shown[maxShown].Severity
		shown = slices.Clip(shown[:maxShown])
	}
	slices.SortFunc(shown, byPlace)
	for i, d := range shown {
		if f, ok := r.files[place(d).Filename]; ok && d.Range != nil {
			shown[i].Snippet = snippet(f.src, *d.Range, f.contextAt(d.Range.Start.Byte))
		}
	}
	if n := r.count - len(shown); n > 0 {
		more.Summary = fmt.Sprintf("And %d more", n)
		shown = append(shown, more)
	}
	return shown
}

// suggest is the function of the same name, for the mistakes that are shown.
func (r *report) suggest(given string, known iter.Seq[string]) string {
	if r.count >= maxShown {
		return ""
	}
	return suggest(given, known)
}

// maxListed is how many names a message lists.
const maxListed = 16

// choice is suggest, or a list of what there is when nothing is like it.
func (r *report) choice(given, what string, known []string) string {
	if hint := r.suggest(given, slices.Values(known)); hint != "" || len(known) == 0 || len(known) > maxListed {
		return hint
	}
	return fmt.Sprintf(" %s: %s.", what, strings.Join(known, ", "))
}

// suggest completes a sentence with the name that was probably meant: ` Did you mean
// "x"?`, or nothing. Names of two letters, such as v1 and v2, are near to too many.
func suggest(given string, known iter.Seq[string]) string {
	const most, longest = 2, 64
	best, bestDistance := "", most+1
	for name := range known {
		// A rune has at most four bytes.
		if len(given) > longest || len(name) > len(given)+4*most || len(given) > len(name)+4*most {
			continue
		}
		d := levenshtein.Distance(given, name, nil)
		if d <= most && d < len(name) && len(name) > 2 && (d < bestDistance || d == bestDistance && name < best) {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}
