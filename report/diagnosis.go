package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"busbar/node/paste"
	"busbar/plan"
)

// Verdict is what a diagnosis comes to.
type Verdict string

// The verdicts.
const (
	// Fail: something of severity error is not as it should be.
	Fail Verdict = "fail"
	// Warn: something of severity warn is not.
	Warn Verdict = "warn"
	// Fine: nothing is wrong in what was given, and what it is about was judged.
	Fine Verdict = "ok"
	// Unjudged: nothing is wrong in what could be judged, and that is nothing, or too little to say so of what was given.
	Unjudged Verdict = "unknown"
)

// ExitCode is that of busbar diagnose.
func (v Verdict) ExitCode() int {
	switch v {
	case Fail:
		return plan.ExitDrift
	case Unjudged:
		return plan.ExitUnknown
	default:
		return plan.ExitOK
	}
}

// Diagnosis is the outcome of diagnose: what was given, and what is wrong in it.
type Diagnosis struct {
	FormatVersion string        `json:"format_version"`
	Command       string        `json:"command"`
	Profile       Profile       `json:"profile"`
	Inputs        []paste.Input `json:"inputs"`
	// Findings are sorted by address, then id.
	Findings []plan.Finding `json:"findings"`
	Verdict  Verdict        `json:"verdict"`
	ExitCode int            `json:"exit_code"`
}

// NewDiagnosis is what findings over pasted text come to. files are those that somebody named, as inputs call them: of the files of a tree
// busbar may know few.
func NewDiagnosis(profile Profile, inputs []paste.Input, findings []plan.Finding, files []string) Diagnosis {
	d := Diagnosis{FormatVersion: FormatVersion, Command: "diagnose", Profile: profile, Inputs: append([]paste.Input{}, inputs...), Findings: sorted(findings, compareFindings)}
	d.Verdict = verdictOf(d.Inputs, d.Findings, files)
	d.ExitCode = d.Verdict.ExitCode()
	return d
}

// verdictOf weighs findings. What is unknown makes nothing wrong: text says little. Nothing wrong is not ok yet: that needs something
// judged, at each address too at which text made busbar judge, no input that may hide something, and no text that busbar hardly knows.
func verdictOf(inputs []paste.Input, findings []plan.Finding, files []string) Verdict {
	judged, warned := false, false
	decided := map[string]bool{} // by address; notes decide nothing, and need not be decided
	for _, f := range findings {
		if f.Status != plan.Undetermined || f.Severity != plan.Info {
			decided[f.Address] = decided[f.Address] || f.Status != plan.Undetermined
		}
		switch {
		case f.Status == plan.Undetermined, f.Status == plan.Skipped:
		case f.Status == plan.OK, f.Status == plan.Waived, f.Tolerated, f.Severity == plan.Info:
			judged = true
		case f.Severity == plan.Warning:
			warned = true
		default:
			return Fail
		}
	}
	doubtful := slices.ContainsFunc(inputs, func(in paste.Input) bool { return in.Doubt != "" })
	switch {
	case warned:
		return Warn
	case judged && !doubtful && !slices.Contains(slices.Collect(maps.Values(decided)), false) && !slices.ContainsFunc(files, func(file string) bool { return hardlyKnown(file, inputs) }):
		return Fine
	default:
		return Unjudged
	}
}

// hardlyKnown reports a text of which busbar read nothing, or fewer lines than it did not.
func hardlyKnown(file string, inputs []paste.Input) bool {
	given, read, lines := false, false, 0
	for _, in := range inputs {
		if in.File != file {
			continue
		}
		given = true
		if in.Unread != "" {
			lines -= in.Lines
			continue
		}
		read = true
		lines += in.Lines
	}
	return given && (!read || lines < 0)
}

// WriteDiagnosisJSON writes d indented.
func WriteDiagnosisJSON(w io.Writer, d Diagnosis) error { return encode(w, d, d.Command, Node{}, "  ") }

// WriteDiagnosis writes d for people: what was given, what is wrong with the most important first, what could not be judged.
func WriteDiagnosis(w io.Writer, d Diagnosis, style Style) error {
	p := page{style: style}
	if !style.Quiet {
		p.given(d.Inputs)
		p.wrong(d)
		p.unjudged(d.Findings)
		p.blank()
	}
	p.verdict(d)
	return p.flush(w)
}

// mostInputs is how many pieces are listed of what was given.
const mostInputs = 40

// alike are how many inputs from the first one on are whole small files of one kind, as those of /sys in a tree.
func alike(inputs []paste.Input) int {
	n := 1
	for n < len(inputs) && inputs[n].Kind == inputs[0].Kind && inputs[n].Unread == inputs[0].Unread && inputs[n].Doubt == "" && inputs[0].Doubt == "" &&
		inputs[n].File != inputs[n-1].File && inputs[n].Line <= 1 && inputs[0].Line <= 1 {
		n++
	}
	return n
}

// manyAlike is from how many on inputs share a line.
const manyAlike = 6

// together joins inputs that are alike.
func together(inputs []paste.Input) []paste.Input {
	var rows []paste.Input
	for len(inputs) > 0 {
		n := alike(inputs)
		if n < manyAlike {
			rows = append(rows, inputs[0])
			inputs = inputs[1:]
			continue
		}
		one := inputs[0]
		one.File += fmt.Sprintf(" and %d more files", n-1)
		one.Line, one.Lines = 0, 0
		rows, inputs = append(rows, one), inputs[n:]
	}
	return rows
}

// given lists the pieces: file, kind, lines.
func (p *page) given(inputs []paste.Input) {
	files, kinds := 0, 0
	rows := inputs
	if !p.style.Verbose {
		rows = together(inputs)
	}
	inputs = rows
	if len(rows) > mostInputs && !p.style.Verbose {
		rows = rows[:mostInputs]
	}
	for _, in := range rows {
		files = max(files, utf8.RuneCountInString(printable(in.File)))
		kinds = max(kinds, utf8.RuneCountInString(kindOf(in)))
	}
	last := ""
	for _, in := range rows {
		name := printable(in.File)
		if name == last {
			name = ""
		} else {
			last = name
		}
		lead := []span{{bold, pad(name, files)}, {plain, "  "}, {kindColor(in), pad(kindOf(in), kinds)}, {plain, "  "}}
		p.paragraph(lead, "", joinNonEmpty("; ", linesOf(in), printable(unreadOf(in)), printable(in.Doubt)))
	}
	if len(rows) < len(inputs) {
		p.paragraph(nil, "", fmt.Sprintf("and %s more (--verbose lists all)", plural(len(inputs)-len(rows), "piece")))
	}
}

func unreadOf(in paste.Input) string {
	if in.Kind == "" || in.Unread == "" {
		return in.Unread
	}
	return "not read: " + in.Unread
}

func kindOf(in paste.Input) string { return cmp.Or(printable(in.Kind), "?") }

func kindColor(in paste.Input) color {
	switch {
	case in.Kind == "" || in.Doubt != "":
		return yellow
	case in.Unread != "":
		return dim
	default:
		return plain
	}
}

// linesOf says where in its file a piece stands.
func linesOf(in paste.Input) string {
	switch {
	case in.Lines == 0:
		return ""
	case in.Lines == 1:
		return "line " + strconv.Itoa(in.Line)
	default:
		return fmt.Sprintf("lines %d to %d", in.Line, in.Line+in.Lines-1)
	}
}

// wrong shows what is not ok, errors before warnings before notes, each with why and what to do. What is ok or skipped is shown
// when asked for.
func (p *page) wrong(d Diagnosis) {
	for _, severity := range severities {
		for _, f := range d.Findings {
			if f.Severity == severity && f.Status != plan.Undetermined && f.Status != plan.OK && f.Status != plan.Skipped {
				p.blank()
				p.complaint(f)
			}
		}
	}
	if !p.style.Verbose {
		return
	}
	first := true
	for _, f := range d.Findings {
		if f.Status != plan.OK && f.Status != plan.Skipped {
			continue
		}
		if first {
			p.blank()
			first = false
		}
		p.paragraph([]span{{statusColor(f), pad(string(f.Status), len(plan.Skipped))}, {plain, "  "}}, "", printable(f.Summary))
	}
}

// weight is how people read a finding's weight.
func weight(f plan.Finding) (string, color) {
	switch {
	case f.Status == plan.Waived:
		return "waived", dim
	case f.Severity == plan.Error:
		return "wrong", red
	case f.Severity == plan.Warning:
		return "warning", yellow
	default:
		return "note", dim
	}
}

// variable reports the name of a variable, as programs have them: NCCL_IB_HCA.
func variable(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// labelColumn is the width of the longest label.
const labelColumn = len("warning")

// complaint shows a finding: what is wrong, where it stands, why that matters, what to do.
func (p *page) complaint(f plan.Finding) {
	word, c := weight(f)
	summary := printable(f.Summary)
	if variable(f.Target) && !strings.Contains(f.Summary, f.Target) {
		summary = printable(f.Target) + ": " + summary
	}
	if f.Fix == "" && f.Fixable {
		block := f.Address[:strings.IndexAny(f.Address+".", ".[")]
		f.Fix = fmt.Sprintf("busbar apply puts it right on the node: block %s in its profile", block)
	}
	p.paragraph([]span{{c, pad(word, labelColumn)}, {plain, "  "}}, summary, summary)
	indent := span{plain, strings.Repeat(" ", labelColumn+2)}
	for _, r := range []row{{"where", f.Source.String()}, {"why", f.Why}, {"do", f.Fix}, {"waived", f.Waiver}} {
		if r.text != "" {
			p.paragraph([]span{indent, {dim, pad(r.label, len("waived")+1)}}, "", printable(r.text))
		}
	}
}

// unjudged says in one line what could not be judged; each with its reason when asked for.
func (p *page) unjudged(findings []plan.Finding) {
	var names []string
	for _, f := range findings {
		if f.Status == plan.Undetermined && !slices.Contains(names, f.ID) {
			names = append(names, f.ID)
		}
	}
	if len(names) == 0 {
		return
	}
	p.blank()
	if p.style.Verbose {
		for _, f := range findings {
			if f.Status == plan.Undetermined {
				p.paragraph([]span{{cyan, pad("unknown", labelColumn)}, {plain, "  "}}, "", printable(f.Summary))
			}
		}
		return
	}
	const most = 6
	text := "not judged, since nobody gave what it takes: " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	p.paragraph(nil, "", text+" (--verbose says why)")
}

// verdict is the last line.
func (p *page) verdict(d Diagnosis) {
	wrong, warnings := 0, 0
	for _, f := range d.Findings {
		switch word, _ := weight(f); {
		case f.Status == plan.Undetermined, f.Status == plan.OK, f.Status == plan.Skipped, f.Tolerated:
		case word == "wrong":
			wrong++
		case word == "warning":
			warnings++
		}
	}
	counts := []string{}
	if wrong > 0 {
		counts = append(counts, plural(wrong, "thing")+" wrong")
	}
	if warnings > 0 {
		counts = append(counts, plural(warnings, "warning"))
	}
	var text string
	var c color
	switch d.Verdict {
	case Fail:
		text, c = "fail: "+strings.Join(counts, ", "), red
	case Warn:
		text, c = "warn: "+strings.Join(counts, ", "), yellow
	case Fine:
		text, c = "ok: nothing wrong in what was given", green
		if slices.ContainsFunc(d.Inputs, func(in paste.Input) bool { return in.Unread != "" }) {
			text = "ok: nothing wrong in what busbar knows of it"
		}
	default:
		text, c = "unknown: nothing could be judged", cyan
		switch {
		case !slices.ContainsFunc(d.Findings, func(f plan.Finding) bool { return f.Status == plan.OK }):
		case slices.ContainsFunc(d.Inputs, func(in paste.Input) bool { return in.Doubt != "" }):
			text = "unknown: nothing wrong in what was given, which does not show all"
		default:
			text = "unknown: nothing wrong in what could be judged, which is not what was given"
		}
	}
	word, rest, _ := strings.Cut(text, ":")
	p.paragraph([]span{{c, word + ":"}, {plain, " "}}, "", strings.TrimPrefix(rest, " "))
}
