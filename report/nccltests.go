package report

import (
	"fmt"
	"io"
	"slices"

	"busbar/internal/nccltests"
	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
)

// NCCLTests is the outcome of judging what programs of nccl-tests printed.
type NCCLTests struct {
	// Name of what was read, a file or -.
	Name string
	nccltests.Result
	// Baseline is what it was compared with; nil for nothing.
	Baseline *nccltests.Result
	Outcome
}

// NewNCCLTests is what the findings make of a result. The exit code is that of the findings.
func NewNCCLTests(name string, r nccltests.Result, baseline *nccltests.Result, findings []plan.Finding) NCCLTests {
	return NCCLTests{Name: name, Result: r, Baseline: baseline, Outcome: outcomeOf(findings)}
}

// MarshalJSON writes the document, which nccltests.Read reads.
func (d NCCLTests) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		nccltests.Result
		Outcome
	}{FormatVersion, nccltests.Command, d.Result, d.Outcome})
}

// WriteNCCLTestsJSON writes d indented.
func WriteNCCLTestsJSON(w io.Writer, d NCCLTests) error {
	return encode(w, d, nccltests.Command, d.node(), "  ")
}

// node stands for whatever nodes the programs ran on, which busbar did not look at.
func (d NCCLTests) node() Node {
	return Node{Hostname: node.Known(d.Name, node.Source{Path: d.Name})}
}

// WriteNCCLTests writes d for people: a table for each run, what is not ok, and one line that sums up. What is unknown is ?.
func WriteNCCLTests(w io.Writer, d NCCLTests, style Style) error {
	p := page{style: style}
	shown := d.document(nccltests.Command, d.node())
	if style.Quiet {
		return p.quiet(w, shown)
	}
	for i, run := range d.Runs {
		if i > 0 {
			p.blank()
		}
		p.paragraph(nil, "", programOf(run))
		if len(run.Rows) > 0 {
			p.blank()
			p.table(d.rows(run))
		}
	}
	p.blank()
	p.paragraph(nil, "", "bus bandwidth in GB/s (10^9 bytes a second): what the links between the ranks carried")
	p.findings(shown)
	p.conclusion(shown)
	return p.flush(w)
}

// programOf says in a line what was run where.
func programOf(run nccltests.Run) string {
	text := printable(run.Name())
	if len(run.Devices) > 0 {
		var hosts, models []string
		for _, device := range run.Devices {
			hosts, models = append(hosts, device.Host), append(models, device.Name)
		}
		slices.Sort(hosts)
		slices.Sort(models)
		hosts, models = slices.Compact(hosts), slices.Compact(models)
		text += fmt.Sprintf(": %d ranks on %s", run.Size(), plural(len(hosts), "host"))
		for _, m := range models {
			text += ", " + printable(m)
		}
	}
	if run.Version != "" {
		text += fmt.Sprintf(" (nccl-tests %s, NCCL %s)", printable(run.Version), printable(run.NCCL))
	}
	return text
}

func (d NCCLTests) rows(run nccltests.Run) [][]cell {
	title := []cell{figure("size", plain), {text: "type"}, {text: "redop"}}
	for _, half := range []string{"out-of-place", "in-place"} {
		title = append(title, wide(half, plain))
		if d.Baseline != nil {
			title = append(title, figure("was", plain))
		}
	}
	rows := [][]cell{append(title, cell{text: "data"})}
	for _, row := range run.Rows {
		before := d.before(run, row)
		cells := []cell{figure(p2p.Bytes(row.Size), plain), {printable(row.Type), plain}, {printable(row.RedOp), plain}}
		for _, half := range [][2]*nccltests.Measure{{row.OutOfPlace, before.OutOfPlace}, {row.InPlace, before.InPlace}} {
			cells = append(cells, busBandwidth(half[0], wide))
			if d.Baseline != nil {
				cells = append(cells, busBandwidth(half[1], figure))
			}
		}
		rows = append(rows, append(cells, rightness(row)))
	}
	return rows
}

// before is the baseline's row that measures the same; empty without one.
func (d NCCLTests) before(run nccltests.Run, row nccltests.Row) nccltests.Row {
	if d.Baseline == nil {
		return nccltests.Row{}
	}
	for _, was := range d.Baseline.Runs {
		if was.Collective != "" && run.Collective != "" && was.Collective != run.Collective {
			continue
		}
		if i := slices.IndexFunc(was.Rows, row.Alike); i >= 0 {
			return was.Rows[i]
		}
	}
	return nccltests.Row{}
}

// wide is a figure below the title out-of-place.
func wide(s string, c color) cell { return cell{fmt.Sprintf("%*s", len("out-of-place"), s), c} }

func busBandwidth(m *nccltests.Measure, column func(string, color) cell) cell {
	if m == nil {
		return column("?", cyan)
	}
	return column(fmt.Sprintf("%.1f", m.BusBW), plain)
}

// rightness says in a word whether the values were right.
func rightness(row nccltests.Row) cell {
	compared := false
	for _, m := range []*nccltests.Measure{row.OutOfPlace, row.InPlace} {
		if m == nil || m.Wrong == nil {
			continue
		}
		if *m.Wrong > 0 {
			return cell{"WRONG", red}
		}
		compared = true
	}
	if !compared {
		return cell{"?", cyan}
	}
	return cell{"right", green}
}
