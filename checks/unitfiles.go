package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// UnitFiles is check "unit_files": units that cannot start in the order that they ask for, and that own what busbar writes.
type UnitFiles struct{}

var _ plan.Validator = UnitFiles{}

// Spec of check "unit_files".
func (UnitFiles) Spec() plan.Spec {
	return plan.Spec{
		Name: "unit_files", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Units of systemd: one that is wanted by a target and waits for that target, and one that writes or empties " + sink.NCCLPath + ".",
		Attributes: []plan.Attribute{
			{Name: "units", Type: cty.List(cty.String), Required: true, Example: `["nvidia-mig-manager.service"]`, Doc: "The units, by their full names."},
		},
	}
}

type unitFiles struct {
	Units []string `cty:"units"`
}

// Validate refuses names that no unit has.
func (UnitFiles) Validate(b plan.Block) []plan.Problem {
	var c unitFiles
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	var problems []plan.Problem
	for _, u := range c.Units {
		if err := plan.CheckUnitName(u); err != nil {
			problems = append(problems, plan.Problem{Attribute: "units", Summary: "not a unit name", Detail: err.Error()})
		}
	}
	return problems
}

// Queries are the units' files.
func (UnitFiles) Queries(b plan.Block, _ node.Inventory) []node.Query {
	var c unitFiles
	_ = b.Decode(&c) // tried when the block was validated
	return each(node.UnitFiles, c.Units)
}

// Assess reads each unit's files.
func (UnitFiles) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c unitFiles
	_ = b.Decode(&c)
	var a plan.Assessment
	for _, u := range c.Units {
		v := node.UnitFiles.Get(facts, u)
		files, ok := v.Get()
		if !ok {
			f := plan.Unread("unit_files.order", "the files of "+u, v)
			f.Target = u
			a.Findings = append(a.Findings, f)
			continue
		}
		a.Findings = append(a.Findings, unitOrder(u, files), unitOwner(u, files))
	}
	a.Findings = slices.DeleteFunc(a.Findings, func(f plan.Finding) bool { return f.ID == "" })
	return a
}

// setting is one word of a list in a unit file.
type setting struct {
	key, word string
	source    node.Source
}

// settingsOf are the words of settings, in order.
func settingsOf(files []confdir.File) []setting {
	var all []setting
	for _, f := range files {
		for i, line := range strings.Split(f.Text, "\n") {
			line = strings.TrimSpace(line)
			key, value, ok := strings.Cut(line, "=")
			if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			for _, w := range strings.Fields(value) {
				all = append(all, setting{strings.TrimSpace(key), w, node.Source{Path: f.Path, Line: i + 1}})
			}
		}
	}
	return all
}

// unitOrder finds a unit that waits for the target that wants it: a target comes after what it wants unless that says
// DefaultDependencies=no (systemd.target(5)), so that systemd has to break a cycle.
func unitOrder(unit string, files []confdir.File) plan.Finding {
	f := plan.Finding{ID: "unit_files.order", Target: unit, Status: plan.OK, Summary: unit + " waits for no target that wants it"}
	settings := settingsOf(files)
	for _, wanted := range settings {
		if wanted.key != "WantedBy" && wanted.key != "RequiredBy" || !strings.HasSuffix(wanted.word, ".target") {
			continue
		}
		for _, s := range settings {
			if s.key == "After" && s.word == wanted.word {
				f.Status, f.Source, f.Found = plan.Drift, s.source, "After="+s.word
				f.Summary = fmt.Sprintf("%s is wanted by %s and waits for it (After=)", unit, s.word)
				f.Why = "a target is reached when what it wants has started: the two wait for each other, and systemd drops one of them, or something else on the way"
				f.Fix = "order it after what it really needs; a packaged After= cannot be taken back by a drop-in, so replace the file by a copy in /etc/systemd/system"
				return f
			}
		}
	}
	return f
}

// unitOwner finds a unit that says of itself that it writes NCCL's file: a one-shot service with commands for start and stop that
// names the file.
func unitOwner(unit string, files []confdir.File) plan.Finding {
	has := map[string]bool{}
	var at node.Source
	for _, s := range settingsOf(files) {
		has[s.key] = true
		if strings.Trim(s.word, `"',;:`) == sink.NCCLPath && at == (node.Source{}) {
			at = s.source
		}
	}
	if at == (node.Source{}) || !has["ExecStart"] || !has["ExecStop"] {
		return plan.Finding{}
	}
	return plan.Finding{
		ID: "unit_files.owner", Target: unit, Status: plan.Conflict, Severity: plan.Warning, Source: at, Found: sink.NCCLPath,
		Summary: fmt.Sprintf("%s writes %s when it starts, and takes it back when it stops", unit, sink.NCCLPath),
		Why:     "what anybody else writes into the file is gone after the next start of the unit",
		Fix:     "decide who owns the file: disable the unit, or have it write what is wanted",
	}
}
