package report

import (
	"fmt"
	"io"
	"slices"

	"busbar/internal/p2p"
	"busbar/plan"
)

// P2P is the outcome of moving bytes between the GPUs of one node.
type P2P struct {
	Node Node
	p2p.Result
	// Baseline is what it was compared with; nil for nothing.
	Baseline *p2p.Result
	Outcome
}

// Outcome is what the findings about a measurement come to.
type Outcome struct {
	// Findings are sorted by address, then id, then target.
	Findings []plan.Finding `json:"findings"`
	Summary  plan.Summary   `json:"summary"`
	// ExitCode is that of the findings.
	ExitCode int `json:"exit_code"`
}

func outcomeOf(findings []plan.Finding) Outcome {
	p := plan.Plan{Findings: findings}
	return Outcome{sorted(findings, compareFindings), p.Summary(), p.ExitCode()}
}

// document is what the page of a measurement shares with that of a plan.
func (o Outcome) document(command string, n Node) Document {
	return Document{Command: command, Node: n, Findings: o.Findings, Summary: o.Summary, ExitCode: o.ExitCode}
}

// NewP2P is what the findings make of a result. The exit code is that of the findings.
func NewP2P(n Node, r p2p.Result, baseline *p2p.Result, findings []plan.Finding) P2P {
	return P2P{Node: n, Result: r, Baseline: baseline, Outcome: outcomeOf(findings)}
}

// MarshalJSON writes the document, which p2p.Read reads.
func (d P2P) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		Node          Node   `json:"node"`
		p2p.Result
		Outcome
	}{FormatVersion, p2p.Command, d.Node, d.Result, d.Outcome})
}

// WriteP2PJSON writes d indented.
func WriteP2PJSON(w io.Writer, d P2P) error { return encode(w, d, p2p.Command, d.Node, "  ") }

// WriteP2P writes d for people: the GPUs, a row for each ordered pair, what is not ok, and one line
// that sums up. What is unknown is ?, what is not possible -.
func WriteP2P(w io.Writer, d P2P, style Style) error {
	p := page{style: style}
	shown := d.document(p2p.Command, d.Node)
	if style.Quiet {
		return p.quiet(w, shown)
	}
	p.machine(d.Node)
	p.paragraph(nil, "", d.Node.observed())
	if len(d.GPUs) > 0 {
		p.blank()
		p.table(d.gpuRows())
	}
	if len(d.Pairs) > 0 {
		p.blank()
		p.table(d.pairRows())
		p.blank()
		p.paragraph(nil, "", fmt.Sprintf("GB/s (10^9 bytes a second) of copies of %d MiB, medians, CUDA %s; both ways: their sum; latency: of 16 bytes; off: peer access off, through host memory; took %s",
			d.Size>>20, printable(d.CUDA), fmt.Sprintf("%.1f"+glue+"s", d.Seconds)))
	}
	p.findings(shown)
	p.conclusion(shown)
	return p.flush(w)
}

// figures is the width of columns of numbers, which end alike.
const figures = 9

func figure(s string, c color) cell { return cell{fmt.Sprintf("%*s", figures, s), c} }

func (d P2P) gpuRows() [][]cell {
	rows := [][]cell{{{text: "GPU"}, {text: "name"}, {text: "UUID"}, {text: "memory"}}}
	for _, g := range d.GPUs {
		rows = append(rows, []cell{{printable(g.Address), plain}, {printable(g.Name), plain}, {printable(g.UUID), plain}, {fmt.Sprintf("%.1f GiB", float64(g.Memory)/(1<<30)), plain}})
	}
	return rows
}

func (d P2P) pairRows() [][]cell {
	title := []cell{{text: "from"}, {text: "to"}}
	for _, name := range []string{"one way", "both ways", "off", "latency"} {
		title = append(title, figure(name, plain))
	}
	const was = 3 // beside one way
	if d.Baseline != nil {
		title = slices.Insert(title, was, figure("was", plain))
	}
	rows := [][]cell{append(title, cell{text: "data"})}
	for _, pair := range d.Pairs {
		missing := figure("?", cyan)
		if pair.PeerAccess != nil && !*pair.PeerAccess {
			missing = figure("-", dim)
		}
		row := []cell{
			{printable(pair.From), plain}, {printable(pair.To), plain}, number("%.1f", pair.OneWay, missing), number("%.1f", pair.BothWays, missing),
			number("%.1f", pair.Staged, figure("?", cyan)), number("%.2f us", pair.Latency, missing),
		}
		if d.Baseline != nil {
			before, _ := d.Baseline.Pair(pair.From, pair.To)
			row = slices.Insert(row, was, number("%.1f", before.OneWay, figure("?", cyan)))
		}
		rows = append(rows, append(row, dataOf(pair)))
	}
	return rows
}

func number(format string, v *float64, missing cell) cell {
	if v == nil {
		return missing
	}
	return figure(fmt.Sprintf(format, *v), plain)
}

// dataOf says in a word whether what arrived is what was sent.
func dataOf(p p2p.Pair) cell {
	wrong := slices.ContainsFunc(p.Checks, func(c p2p.Check) bool { return c.Wrong > 0 })
	switch {
	case wrong:
		return cell{"WRONG", red}
	case p.Unknown != "" || len(p.Checks) == 0:
		return cell{"?", cyan}
	default:
		return cell{"right", green}
	}
}
