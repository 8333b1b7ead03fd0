package ncclconf

import (
	"fmt"
	"slices"
	"strings"
)

// The lines around busbar's own settings. They have no '=', so that every
// version of NCCL skips them.
const (
	begin = "# BEGIN busbar"
	end   = "# END busbar"
)

// Setting is a key and the value it is to have.
type Setting struct{ Key, Value string }

// Render writes the block that busbar owns: the marker lines and between them
// the settings, sorted by key. It stands at the head of the file, because the
// first line of a key wins.
func Render(settings []Setting) string {
	sorted := slices.Clone(settings)
	slices.SortStableFunc(sorted, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	var b strings.Builder
	b.WriteString(begin + "\n")
	for _, s := range sorted {
		fmt.Fprintf(&b, "%s=%s\n", s.Key, s.Value)
	}
	b.WriteString(end + "\n")
	return b.String()
}

// blockError is a pair of marker lines that is not one.
type blockError struct {
	line int
	text string
}

func (e *blockError) Error() string { return fmt.Sprintf("nccl.conf line %d: %s", e.line, e.text) }

// block is where the owned lines are. Zero: there is none.
type block struct {
	last int // number of the END line
	size int // bytes, END line included
}

// Split takes a file apart into the settings of busbar's block, with their line
// numbers, and the foreign text, byte for byte. Without a block all is foreign.
// Blanks and a carriage return after a marker are forgiven. An error names the
// line where half a pair of markers, a second block, or a block that is not at
// the head of the file is found.
func Split(text string) (owned []Entry, hasBlock bool, foreign string, err error) {
	b, inside, hasBlock, err := split(text)
	if err != nil {
		return nil, false, "", err
	}
	for _, e := range From2303.read(inside) {
		owned = append(owned, Entry{e.Line + 1, e.Key, e.Value, e.Raw})
	}
	return owned, hasBlock, text[b.size:], nil
}

// split finds the block and the text between its markers. err is a *blockError.
func split(text string) (b block, inside string, hasBlock bool, err error) {
	n, at, opened := 0, 0, 0
	for line := range strings.Lines(text) {
		n++
		switch strings.TrimRight(line, blanks) {
		case begin:
			switch {
			case opened > 0 && !hasBlock:
				return block{}, "", false, &blockError{n, fmt.Sprintf("%q again, after line %d without %q between", begin, opened, end)}
			case hasBlock:
				return block{}, "", false, &blockError{n, fmt.Sprintf("a second block begins; the first ends on line %d", b.last)}
			case n > 1:
				return block{}, "", false, &blockError{n, fmt.Sprintf("%q is not the first line of the file", begin)}
			}
			opened, b.size = n, len(line)
		case end:
			if opened == 0 || hasBlock {
				return block{}, "", false, &blockError{n, fmt.Sprintf("%q without %q before it", end, begin)}
			}
			inside = text[b.size:at]
			hasBlock, b = true, block{last: n, size: at + len(line)}
		}
		at += len(line)
	}
	if opened > 0 && !hasBlock {
		return block{}, "", false, &blockError{opened, fmt.Sprintf("%q without %q after it", begin, end)}
	}
	return b, inside, hasBlock, nil
}

// Apply puts the settings into busbar's block at the head of text, in place of
// what the block has now; without settings the block goes. Foreign bytes stay as
// they are, whatever they are. A byte order mark at the head of the file stays
// with the foreign text, now after the block: it spoils the key that it spoilt
// before, and no other. An error says which setting no line can hold, which key
// is given twice, or what is wrong with the block (see Split).
func Apply(text string, settings []Setting) (string, error) {
	b, _, _, err := split(text)
	if err != nil {
		return "", err
	}
	foreign := text[b.size:]
	if len(settings) == 0 {
		return foreign, nil
	}
	keys := map[string]bool{}
	for _, s := range settings {
		if problem := unwritable(s); problem != "" {
			return "", fmt.Errorf("nccl.conf setting %s: %s", Show(s.Key), problem)
		}
		if keys[s.Key] {
			return "", fmt.Errorf("nccl.conf setting %s is given twice", s.Key)
		}
		keys[s.Key] = true
	}
	return Render(settings) + foreign, nil
}

// unwritable says why no line of the file can carry the setting to every version
// of NCCL; empty: one can.
func unwritable(s Setting) string {
	switch {
	case s.Key == "":
		return "the key is empty"
	case !isName(s.Key):
		return "the key has other characters than letters, digits and '_'"
	case len(s.Key) > maxText:
		return fmt.Sprintf("the key is longer than the %d bytes that NCCL keeps", maxText)
	case len(s.Value) > maxText:
		return fmt.Sprintf("the value has %d bytes, NCCL keeps %d", len(s.Value), maxText)
	case strings.ContainsAny(s.Value, "\n\r\x00"):
		return "a value cannot hold a newline, a carriage return or a NUL"
	}
	return ""
}

// isName says whether a key consists of letters, digits and '_'.
func isName(key string) bool {
	return strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Missing gives those of the wanted settings that need a line in busbar's block,
// because the foreign text does not bring them about with NCCL v, or with some
// version if v is not known.
func Missing(foreign string, wanted []Setting, v Version) []Setting {
	effective := Parse(foreign, v).Effective()
	var missing []Setting
	for _, w := range wanted {
		if value, ok := effective[w.Key]; !ok || value != w.Value {
			missing = append(missing, w)
		}
	}
	return missing
}

// Shadowed gives the foreign lines of text that lose against the owned settings:
// they have one of their keys and another value. Lines are numbered as in text,
// with its block if it has one. With an unknown version lines are read as the
// newest NCCL does.
func Shadowed(text string, owned []Setting, v Version) ([]Entry, error) {
	b, _, _, err := split(text)
	if err != nil {
		return nil, err
	}
	value := map[string]string{}
	for _, s := range owned {
		value[s.Key] = s.Value
	}
	bands := v.Bands()
	var shadowed []Entry
	for _, e := range bands[len(bands)-1].read(text[b.size:]) {
		if want, ok := value[e.Key]; ok && want != e.Value {
			e.Line += b.last
			shadowed = append(shadowed, e)
		}
	}
	return shadowed, nil
}

// ValidateSetting judges a setting that a profile asks for, before there is a
// file: what no line can hold, what NCCL v would misread, a key that it does not
// have. Line is 0. Tolerable oddities of other people's files are errors here:
// blanks around a value, junk after a number.
func ValidateSetting(key, value string, v Version) []Remark {
	l := linter{version: v, ours: true, seen: map[string]definition{}}
	if problem := unwritable(Setting{key, value}); problem != "" {
		l.add(0, key, Error, "nccl.unwritable", "", "%s", problem)
		return l.remarks
	}
	l.keyValue(0, key, value, true, true)
	return l.remarks
}
