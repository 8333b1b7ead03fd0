package ncclconf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity grades a Remark.
type Severity string

// The severities.
const (
	// Error: NCCL does not do what the line says.
	Error Severity = "error"
	// Warn: NCCL does what the line says, and that is probably not wanted.
	Warn Severity = "warn"
	// Info: worth knowing.
	Info Severity = "info"
)

// Remark is what Lint has to say about a line.
type Remark struct {
	// Line counts from 1; 0 where there is no file (ValidateSetting).
	Line int
	// Key as NCCL reads it; empty where the line sets nothing.
	Key string
	// ID names the kind of remark, such as "nccl.duplicate", and is stable.
	ID       string
	Severity Severity
	// Text says what NCCL really does.
	Text string
	// Fix says what to write instead; empty where nothing is to be done.
	Fix string
}

// Env is what is known about the node that a file is for. The zero Env knows
// nothing, and what depends on the node is then not remarked on.
type Env struct {
	// HCAs are the RDMA device names (/sys/class/infiniband); nil: not known.
	HCAs []string
	// Interfaces are the network interface names; nil: not known.
	Interfaces []string
	// FileExists says whether the file is there, and whether that is known;
	// nil: it never is.
	FileExists func(path string) (exists, known bool)
}

// maxRemarks bounds the work on a file that is no nccl.conf at all.
const maxRemarks = 1000

// Lint judges a file for NCCL v on a node, by what each key's kind is. With an
// unknown version a line must be right for every version. Remarks are sorted by
// line; after a thousand the rest of the file is not judged.
func Lint(text string, v Version, env Env) []Remark {
	l := linter{version: v, env: env, seen: map[string]definition{}}
	owned, _, hasBlock, err := split(text)
	if err != nil {
		line := 0
		if broken := (*blockError)(nil); errors.As(err, &broken) {
			line = broken.line
		}
		l.add(line, "", Error, "nccl.block", "restore or delete the marker lines", "%v", err)
	}
	n := 0
	for raw := range strings.Lines(text) {
		n++
		inBlock := hasBlock && n <= owned.last
		if l.line(n, raw, inBlock); len(l.remarks) >= maxRemarks {
			l.add(n, "", Error, "nccl.too_many", "", "more than %d remarks: the lines after this one are not judged", maxRemarks)
			break
		}
	}
	l.carriageReturns()
	slices.SortStableFunc(l.remarks, func(a, b Remark) int { return a.Line - b.Line })
	return l.remarks
}

// definition is the first line of a key.
type definition struct {
	line    int
	value   string
	inBlock bool
}

type linter struct {
	version Version
	env     Env
	// ours is on for ValidateSetting: the value is about to be written, so
	// that what is tolerable in somebody else's file is not in ours.
	ours    bool
	seen    map[string]definition
	remarks []Remark

	comment bool // the comment remark is made
	cr      crlf
}

// crlf gathers the lines that end in a carriage return.
type crlf struct {
	first, lines int
	key          string
	spoilt       string // KEY is VALUE of the first one that is no integer
}

func (l *linter) add(line int, key string, severity Severity, id, fix, format string, args ...any) {
	l.remarks = append(l.remarks, Remark{line, key, id, severity, fmt.Sprintf(format, args...), fix})
}

// possible says whether the NCCL at hand may belong to a band.
func (l *linter) possible(b Band) bool { return slices.Contains(l.version.Bands(), b) }

// Show quotes text from a file for a message, cut to what fits on a line.
func Show(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q...", s[:77])
	}
	if strings.Contains(s, `"`) && strconv.CanBackquote(s) && !strings.Contains(s, "'") {
		return "'" + s + "'"
	}
	return fmt.Sprintf("%q", s)
}

// line judges one line of the file. raw has its newline, if there is one.
func (l *linter) line(n int, raw string, inBlock bool) {
	text, complete := strings.CutSuffix(raw, "\n")
	if len(raw) > maxChunk && l.possible(From2303) && strings.Contains(raw[maxChunk:], "=") {
		l.add(n, "", Error, "nccl.long_line", "shorten the line", "from 2.30.3 on NCCL reads %d bytes at a time: the rest of this line is a line of its own", maxChunk)
	}
	if before, _, found := strings.Cut(text, "\x00"); found {
		l.add(n, "", Error, "nccl.nul", "remove the NUL byte", "NCCL reads the line only up to a NUL byte")
		text = before
	}
	if strings.HasPrefix(text, "#") {
		if !l.comment && l.possible(Before2262) && strings.Contains(text, "=") {
			l.comment = true
			l.add(n, "", Info, "nccl.comment", "", "before 2.26.2 NCCL has no comments and sets a variable whose name begins with '#', which harms nothing")
		}
		return
	}
	text, cr := strings.CutSuffix(text, "\r")
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		l.noEquals(n, text)
		return
	}
	if _, loses := l.seen[key]; cr && !loses && (l.possible(Before2262) || l.possible(From2262)) {
		if l.cr.lines == 0 {
			l.cr.first, l.cr.key = n, key
		}
		l.cr.lines++
		if k, _ := LookupKey(key); k.Kind != Int64 && l.cr.spoilt == "" {
			l.cr.spoilt = fmt.Sprintf("%s is %s", Show(key), Show(value+"\r"))
		}
	}
	if len(key) > maxText {
		l.add(n, Show(key), Error, "nccl.too_long", "", "NCCL cuts the key at %d bytes", maxText)
		return
	}
	l.keyValue(n, key, value, complete, inBlock)
}

// carriageReturns remarks once on all lines that end in one.
func (l *linter) carriageReturns() {
	if l.cr.lines == 0 {
		return
	}
	severity, what := Error, l.cr.spoilt
	if what == "" {
		severity, what = Warn, "an integer survives it"
	}
	many := "this line ends in one"
	if l.cr.lines > 1 {
		many = fmt.Sprintf("%d lines end in one", l.cr.lines)
	}
	l.add(l.cr.first, l.cr.key, severity, "nccl.crlf", "write the file with plain newlines",
		"before 2.30.3 NCCL takes a carriage return for a part of the value, and %s: %s", many, what)
}

// noEquals judges a line that NCCL skips.
func (l *linter) noEquals(n int, text string) {
	words := strings.Trim(text, blanks)
	if words == "" {
		return
	}
	name := words
	for _, word := range []string{"export ", "setenv ", "set "} {
		name = strings.TrimPrefix(name, word)
	}
	if strings.HasPrefix(name, prefix) {
		l.add(n, "", Error, "nccl.no_equals", "write KEY=VALUE without blanks", "NCCL skips a line without '=': %s sets nothing", Show(words))
		return
	}
	l.add(n, "", Info, "nccl.no_equals", "", "NCCL skips a line without '='")
}

// keyValue judges a setting.
func (l *linter) keyValue(n int, key, value string, complete, inBlock bool) {
	if !l.keyText(n, key, value) {
		return
	}
	if first, again := l.seen[key]; again {
		l.duplicate(n, key, value, first, inBlock)
		return
	}
	l.seen[key] = definition{n, value, inBlock}
	k, known := LookupKey(key)
	if !known {
		l.unknown(n, key)
		k = Key{Name: key, Kind: String}
	}
	l.known(n, k, value)
	s := setting{linter: l, line: n, key: k, value: value, complete: complete}
	s.judge()
}

// keyText judges how the key is written. It is false if NCCL sets a variable
// that nobody reads, or none.
func (l *linter) keyText(n int, key, value string) bool {
	const bom = "\ufeff"
	clean, hasBOM := strings.CutPrefix(key, bom)
	trimmed := strings.Trim(clean, blanks)
	name, exported := trimmed, false
	for _, word := range []string{"export", "setenv", "set"} {
		if rest, ok := strings.CutPrefix(trimmed, word); ok && strings.Trim(rest, blanks) != rest {
			name, exported = strings.Trim(rest, blanks), true
			break
		}
	}
	fix := fmt.Sprintf("write %s=%s", name, strings.Trim(value, blanks))
	switch {
	case key == "":
		l.add(n, "", Warn, "nccl.empty_key", "delete the line", "the line has no key, and sets nothing")
	case strings.HasPrefix(trimmed, "#") && name != key:
		l.add(n, key, Info, "nccl.comment", "begin the line with '#'", "a comment is one only when '#' is the first byte of the line; NCCL sets the variable %s, which harms nothing", Show(key))
	case hasBOM:
		l.add(n, key, l.lost(name), "nccl.bom", "write the file without a byte order mark", "the byte order mark becomes part of the key: NCCL sets %s, not %s", Show(key), name)
	case exported:
		l.add(n, key, l.lost(name), "nccl.export", fix, "the file is no shell script: NCCL sets a variable called %s, not %s", Show(key), name)
	case strings.TrimRight(key, blanks) != key:
		l.add(n, key, l.lost(name), "nccl.blank_around_equals", fix, "NCCL trims nothing: it sets a variable called %s, not %s", Show(key), name)
	case trimmed != key:
		l.add(n, key, l.lost(name), "nccl.leading_blank", fix, "NCCL trims nothing: it sets a variable called %s, not %s", Show(key), name)
	case strings.Contains(key, prefix) && !(strings.HasPrefix(key, prefix) && isName(key)):
		l.add(n, key, Error, "nccl.odd_key", "write one KEY=VALUE a line", "NCCL sets a variable called %s", Show(key))
	default:
		return true
	}
	return false
}

// lost grades a setting that is lost because its key is spoilt.
func (l *linter) lost(name string) Severity {
	if strings.HasPrefix(name, prefix) {
		return Error
	}
	return Warn
}

// duplicate judges a line whose key is set before.
func (l *linter) duplicate(n int, key, value string, first definition, inBlock bool) {
	switch {
	case value == first.value:
		l.add(n, key, Info, "nccl.repeated", "delete the line", "line %d sets the same value already", first.line)
	case first.inBlock && !inBlock:
		l.add(n, key, Warn, "nccl.shadowed", "delete the line", "busbar's block sets %s on line %d, and the first line wins: %s is ignored", Show(first.value), first.line, Show(value))
	default:
		l.add(n, key, Error, "nccl.duplicate", fmt.Sprintf("delete this line, or line %d", first.line), "the first line wins: NCCL uses %s of line %d and ignores %s", Show(first.value), first.line, Show(value))
	}
}

// unknown judges a key that NCCL itself does not have.
func (l *linter) unknown(n int, key string) {
	meant := Suggest(key)
	switch {
	case meant != "":
		l.add(n, key, Warn, "nccl.mistyped_key", fmt.Sprintf("write %s, if that is meant", meant), "NCCL has no %s; did you mean %s?", Show(key), meant)
	case strings.HasPrefix(key, prefix):
		l.add(n, key, Info, "nccl.plugin_key", "", "not one of NCCL's own keys; a plugin may read it")
	case strings.HasPrefix(key, "LD_"):
		l.add(n, key, Warn, "nccl.no_effect", "set it for the job", "the dynamic linker has read its variables before NCCL reads this file; only programs started later see it")
	default:
		l.add(n, key, Info, "nccl.foreign_variable", "", "%s is not a key of NCCL; it is set in every process that uses NCCL all the same", key)
	}
}

// known judges whether the key belongs into the file, and what its value leads
// to.
func (l *linter) known(n int, k Key, value string) {
	if k.Inert != "" {
		l.add(n, k.Name, Warn, "nccl.no_effect", "delete the line", "no effect in this file: %s", k.Inert)
		return
	}
	if l.version.Known() && l.version.Compare(k.Since) < 0 {
		l.add(n, k.Name, Warn, "nccl.too_new", "", "NCCL has the key from %s on; %s ignores it", k.Since, l.version)
	}
	if value == "" {
		return
	}
	for _, h := range k.Harm {
		if k.sameValue(h.Value, value) {
			l.add(n, k.Name, Warn, h.ID, "delete the line", "%s", h.Text)
			return
		}
	}
	if k.Name == "NCCL_RAS_ADDR" && !loopback(value) {
		l.add(n, k.Name, Warn, "nccl.ras_exposed", "listen on localhost", "%s", k.Unfit)
		return
	}
	if k.Unfit == "" || slices.ContainsFunc(k.Fit, func(fit string) bool { return k.sameValue(fit, value) }) {
		return
	}
	severity := Info
	if l.ours {
		severity = Warn
	}
	l.add(n, k.Name, severity, "nccl.unfit", "leave it to the job that needs it", "doubtful in a system-wide file: %s", k.Unfit)
}

// sameValue says whether NCCL reads both values as the same.
func (k Key) sameValue(a, b string) bool {
	switch {
	case k.Kind == Int64 && b != "":
		return readInteger(a).n == readInteger(b).n
	case k.ExactCase:
		return a == b
	}
	return strings.EqualFold(a, b)
}

// loopback says whether HOST:PORT is an address that only this node reaches.
func loopback(address string) bool {
	for _, host := range []string{"localhost:", "127.", "[::1]:"} {
		if strings.HasPrefix(address, host) {
			return true
		}
	}
	return false
}
