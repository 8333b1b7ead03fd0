package paste

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// text is one text that was given, of which a part is held at a time.
type text struct {
	file, path string
	// lines that are held, as they were read and cleaned, and behind before others that were dealt with.
	lines, cleaned []string
	before         int
	// bared are the lines without prefixes, of those that somebody asked for: isBared. Of bareLines those up to bareTo are there.
	bared   []string
	isBared []bool
	bareTo  int
	// held is how many bytes the lines are, and want how many are to be.
	held, want int
	// count is how many lines were read, leftOut how many further ones there are that were not kept.
	count, leftOut int
	// open: the last line has no end. ended: no line follows those that are held.
	open, ended bool
	// broken reports that the reader failed, so that a last line without an end is not all of it. cut: such a line was dropped.
	broken func() bool
	cut    bool
	// where the next piece stood on the node, and the command that printed it.
	where, typed string
	// unknown lines are those from unknownFrom, -1 for none, to before unknownTo.
	unknownFrom, unknownTo int
}

func newText(file, path string, broken func() bool) *text {
	return &text{file: file, path: path, where: path, want: window, unknownFrom: -1, broken: broken}
}

// fill reads lines, until as much is held as is wanted. room is how much may be kept; a window may be held always, unless nothing may be.
func (t *text) fill(r *bufio.Reader, room int) error {
	for t.held < t.want {
		line, ended, err := readLine(r)
		switch {
		case line == nil && errors.Is(err, io.EOF):
			t.ended = true
			return nil
		case line == nil && err != nil:
			return err
		}
		if t.open = !ended; t.open && t.broken() {
			t.ended, t.open, t.cut = true, false, true
			return nil
		}
		if cost := len(line) + lineCost; room <= 0 || t.held+cost > max(room, window) {
			t.ended, t.leftOut = true, 1
			return t.countRest(r)
		}
		t.held += len(line) + lineCost
		t.count++
		raw := string(line)
		t.lines, t.cleaned = append(t.lines, raw), append(t.cleaned, clean(raw))
		t.bared, t.isBared = append(t.bared, ""), append(t.isBared, false)
	}
	return nil
}

// countRest counts the lines that are left out.
func (t *text) countRest(r *bufio.Reader) error {
	for {
		switch line, _, err := readLine(r); {
		case line == nil && errors.Is(err, io.EOF):
			return nil
		case line == nil && err != nil:
			return err
		}
		t.leftOut++
	}
}

// drop forgets the first lines that are held.
func (t *text) drop(n int) {
	for _, line := range t.lines[:n] {
		t.held -= len(line) + lineCost
	}
	t.before += n
	t.lines, t.cleaned = slices.Delete(t.lines, 0, n), slices.Delete(t.cleaned, 0, n)
	t.bared, t.isBared = slices.Delete(t.bared, 0, n), slices.Delete(t.isBared, 0, n)
	t.bareTo = max(0, t.bareTo-n)
	t.want = max(window, t.held+window/2)
	if n == 0 {
		t.want = 2 * t.held
	}
}

// bare is a line without its prefixes.
func (t *text) bare(i int) string {
	if !t.isBared[i] {
		t.bared[i], t.isBared[i] = bare(t.cleaned[i]), true
	}
	return t.bared[i]
}

// bareLines are those of lines i to before j. It is asked with growing i.
func (t *text) bareLines(i, j int) []string {
	for at := max(i, t.bareTo); at < j; at++ {
		t.bare(at)
	}
	t.bareTo = max(t.bareTo, j)
	return t.bared[i:j]
}

// margin is how many lines at the end of those that are held are left to the next round, where others follow: with what comes behind them
// they may be something that they are not without. It is more than maxComments and all that a kind needs to be told by.
const margin = 100

// split finds what the lines that are held are made of.
func (t *text) split(p *Paste) {
	if len(t.lines) == 0 && t.count == 0 && t.ended && t.leftOut == 0 && !t.cut {
		t.lines, t.cleaned, t.bared, t.isBared = []string{""}, []string{""}, []string{""}, []bool{true}
	}
	i, end := 0, len(t.lines)
	if !t.ended {
		end = max(0, end-margin)
	}
	seen, next := seeker{}, t.ends()
	for i < end {
		line := t.bare(i)
		if path := heading(line); path != "" {
			t.where, t.typed = path, ""
			t.aside(i)
			i++
			continue
		}
		if c := command(line); c != "" {
			t.flush(p)
			t.typed = c
			if t.where = readsFile(c); t.where == "" && t.path != "" {
				t.where = t.path
			}
			i++
			continue
		}
		if fence(line) {
			t.aside(i)
			i++
			continue
		}
		if line == "" && t.count > 0 {
			i++
			continue
		}
		k, m, lines := seen.recognise(t, i, next[i])
		if k == nil {
			if line != "" && t.unknownFrom < 0 {
				t.unknownFrom = t.before + i
			}
			t.aside(i)
			i++
			continue
		}
		t.flush(p)
		if goesOn := !t.ended && i+m.lines > end && next[i] == len(t.lines); goesOn {
			if !k.parts {
				break
			}
			m.lines-- // the last one is of the section, and begins the next part
			end = 0
		}
		t.section(p, k, m, lines, i)
		i += m.lines
	}
	t.drop(i)
	if t.ended {
		t.flush(p)
	}
}

// aside counts a line to those that nobody knows, where some are before it.
func (t *text) aside(i int) {
	if t.unknownFrom >= 0 {
		t.unknownTo = t.before + i + 1
	}
}

// flush makes an input of the lines that nobody knows.
func (t *text) flush(p *Paste) {
	if t.unknownFrom >= 0 {
		p.input(Input{File: t.file, Line: t.unknownFrom + 1, Lines: t.unknownTo - t.unknownFrom, Unread: "busbar does not know what this is"})
		t.unknownFrom = -1
	}
}

// section makes an input of a section that begins at line i of those that are held, and reads it.
func (t *text) section(p *Paste, k *kind, m match, lines []string, i int) {
	s := section{piece: piece{lines: lines[:m.lines], path: t.where, command: t.typed}, file: t.file, first: t.before + i + 1}
	if s.first == 1 && t.ended && rest(t.cleaned[m.lines:]) && &lines[0] == &t.cleaned[0] {
		s.bytes = t.bytes()
	}
	in := Input{File: t.file, Kind: k.name, Line: s.first, Lines: m.lines, Unread: k.unread}
	if t.count == 0 {
		in.Line, in.Lines = 0, 0
	}
	if k.read != nil {
		said := ""
		if !k.parts {
			said = p.draft.otherwise(k, s, t.tags(i, s.lines))
		}
		in.Doubt = orFirst(k.read(&p.draft, s), said)
		if p.draft.overfull {
			in.Doubt, p.draft.overfull = fmt.Sprintf("there are more devices than a node has: of GPUs and NICs busbar keeps %d, of all %d", maxGPUsAndNICs, maxDevices), false
		}
	}
	if !k.parts {
		for _, line := range s.lines {
			p.kept += len(line) + lineCost
		}
	} else if n := len(p.inputs); n > 0 {
		if last := &p.inputs[n-1]; last.File == in.File && last.Kind == in.Kind && last.Line+last.Lines == in.Line {
			last.Lines += in.Lines
			return
		}
	}
	p.input(in)
}

// tags are the machines that stand before the lines from i on, where a section is those without them.
func (t *text) tags(i int, lines []string) []string {
	tags := make([]string, len(lines))
	for j, line := range lines {
		if whole := t.cleaned[i+j]; whole != line {
			tags[j] = machineTag.FindString(whole)
		}
	}
	return tags
}

// input adds an input.
func (p *Paste) input(in Input) {
	p.kept += inputCost
	p.inputs = append(p.inputs, in)
}

// ends are, for each line, where a piece that begins there ends at the latest: before the next line on which somebody typed a command,
// that names another file, or that Markdown has around code. A file of a node has none of those.
func (t *text) ends() []int {
	ends := make([]int, len(t.lines))
	end := len(t.lines)
	for i, line := range slices.Backward(t.cleaned) {
		ends[i] = end
		if t.path == "" && mayEnd(line) && (command(t.bare(i)) != "" || heading(t.bare(i)) != "" || fence(t.bare(i))) {
			end = i
		}
	}
	return ends
}

// mayEnd is a cheap test for lines that command, heading or fence know.
func mayEnd(line string) bool {
	return strings.ContainsAny(line, "$#%") || strings.Contains(line, "==> ") || strings.Contains(line, "```") || strings.Contains(line, "~~~")
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

// bytes is the text as it was read, where all of it is held.
func (t *text) bytes() string {
	all := strings.Join(t.lines, "\n")
	if t.open || t.count == 0 {
		return all
	}
	return all + "\n"
}

// seeker remembers, by kind, up to which line there were too few signs, so that a long text of almost some kind is looked at once:
// of its lines with their prefixes, and without.
type seeker [2]map[int]int

// recognise finds the kind of which most signs are at the beginning of the lines from first to before end, with their prefixes or without
// them.
func (seen *seeker) recognise(t *text, first, end int) (best *kind, at match, lines []string) {
	for view := range seen {
		candidate := t.cleaned[first:end]
		if view == 1 {
			if !t.prefixed(first, end) {
				continue
			}
			candidate = t.bareLines(first, end)
		}
		if seen[view] == nil {
			seen[view] = map[int]int{}
		}
		pc := piece{lines: candidate, path: t.where, command: t.typed, begins: t.before+first == 0}
		for i := range kinds {
			if first < seen[view][i] {
				continue
			}
			m := kinds[i].scan(pc)
			if m.lines > 0 && m.signs < enough {
				seen[view][i] = first + m.lines
			}
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

// prefixed reports whether one of the first of the lines has a prefix.
func (t *text) prefixed(first, end int) bool {
	for i := first; i < min(first+near, end); i++ {
		if t.cleaned[i] != t.bare(i) {
			return true
		}
	}
	return false
}
