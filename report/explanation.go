package report

import (
	"io"
	"slices"

	"busbar/explain"
	"busbar/plan"
)

// ExplanationDocument is what explain says.
type ExplanationDocument struct {
	FormatVersion string `json:"format_version"`
	Command       string `json:"command"`
	// Explanations are sorted by id.
	Explanations []plan.Explanation `json:"explanations"`
	// Recording is the one whose node was looked at, as --node named it; empty for this machine, and where none was.
	Recording string `json:"recording,omitempty"`
	// Findings are those on the node that was looked at; null without one.
	Findings []ExplainedFinding `json:"findings"`
	ExitCode int                `json:"exit_code"`
}

// ExplainedFinding is a finding with the facts that it rests on.
type ExplainedFinding struct {
	plan.Finding
	Evidence []explain.Evidence `json:"evidence"`
}

// WriteExplanations writes d for people: each kind of finding, and those on the node that are not ok with their evidence.
func WriteExplanations(w io.Writer, d ExplanationDocument, style Style) error {
	p := page{style: style}
	for i, e := range d.Explanations {
		if i > 0 {
			p.blank()
		}
		p.paragraph([]span{{bold, printable(e.ID)}, {plain, "  "}}, "", printable(e.Title))
		for _, part := range explain.Parts(e) {
			p.detail(0, part.Label, printable(part.Text))
		}
	}
	if d.Recording == "" {
		p.blank()
		p.paragraph(nil, "", "--node FILE shows such findings on the node of a recording (busbar capture), each with the facts that it rests on")
	}
	fine := func(f ExplainedFinding) bool { return f.Status == plan.OK || f.Status == plan.Skipped }
	shown := slices.DeleteFunc(slices.Clone(d.Findings), func(f ExplainedFinding) bool { return fine(f) && !style.Verbose })
	column := 0
	for _, f := range shown {
		column = max(column, len(statusOf(f.Finding)))
	}
	if n := len(d.Findings) - len(shown); n > 0 {
		p.blank()
		p.paragraph(nil, "", plural(n, "finding")+" ok or skipped on this node (--verbose)")
	}
	for _, f := range shown {
		p.blank()
		p.finding(Document{}, f.Finding, column)
		for i, e := range f.Evidence {
			if i == maxEvidence && !style.Verbose {
				p.detail(column, "", "and"+glue+grouped(len(f.Evidence)-i)+glue+"facts more (--verbose)")
				break
			}
			p.detail(column, "fact", printable(e.Query.String()+" "+p.cut(string(e.Fact))))
		}
	}
	return p.flush(w)
}

// maxEvidence is how many facts are shown of a finding, and maxFact how much of each, without Verbose.
const (
	maxEvidence = 8
	maxFact     = 200
)

func (p *page) cut(text string) string {
	runes := []rune(text)
	if p.style.Verbose || len(runes) <= maxFact {
		return text
	}
	return string(runes[:maxFact]) + " ..."
}

// WriteExplanationsJSON writes d indented.
func WriteExplanationsJSON(w io.Writer, d ExplanationDocument) error {
	return encode(w, d, d.Command, Node{}, "  ")
}

// WriteExplanationList writes one line for each kind of finding.
func WriteExplanationList(w io.Writer, d ExplanationDocument, style Style) error {
	p := page{style: style}
	column := 0
	for _, e := range d.Explanations {
		column = max(column, len(e.ID))
	}
	for _, e := range d.Explanations {
		p.paragraph([]span{{bold, pad(printable(e.ID), column)}, {plain, "  "}}, "", printable(e.Title))
	}
	return p.flush(w)
}
