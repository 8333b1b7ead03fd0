// Package service is the block type service: whether a systemd unit starts at
// boot, and whether it runs.
package service

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// Type is the block type service.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of service.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "service", Label: plan.LabelRequired, LabelDoc: "the unit; .service may be left out",
		Doc:     "A systemd unit: whether it starts at boot and whether it runs. A unit that is not installed is skipped.",
		Ceiling: plan.ServiceRestart,
		Attributes: []plan.Attribute{
			{Name: "enabled", Type: cty.Bool, Example: "true", Doc: "Whether the unit starts at boot."},
			{Name: "active", Type: cty.Bool, Example: "true", Doc: "Whether the unit runs."},
			{Name: "masked", Type: cty.Bool, Example: "true", Doc: "Whether nothing may start the unit. true goes with neither enabled nor active."},
		},
	}
}

type config struct {
	Enabled *bool `cty:"enabled"`
	Active  *bool `cty:"active"`
	Masked  *bool `cty:"masked"`
}

func (c config) masked() bool { return c.Masked != nil && *c.Masked }

// Validate finds a masked unit that is to run, and a block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	var c config
	if err := b.Decode(&c); err != nil {
		return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	var problems []plan.Problem
	if err := plan.CheckUnitName(plan.UnitName(b.Label)); err != nil {
		problems = append(problems, plan.Problem{Summary: "not a unit name", Detail: err.Error()})
	}
	if c.masked() {
		for name, v := range map[string]*bool{"active": c.Active, "enabled": c.Enabled} {
			if v != nil && *v {
				problems = append(problems, plan.Problem{Attribute: name, Summary: "a masked unit cannot be " + strings.Replace(name, "enabled", "started at boot", 1), Detail: "Decide for one of masked and " + name + "."})
			}
		}
	}
	if c.Enabled == nil && c.Active == nil && c.Masked == nil && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set enabled, active or masked."})
	}
	return problems
}

// Queries is the unit.
func (Type) Queries(b plan.Block, _ node.Inventory) []node.Query {
	return []node.Query{node.Unit.Query(plan.UnitName(b.Label))}
}

// Assess judges the unit at boot and now.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c config
	var a plan.Assessment
	unit := plan.UnitName(b.Label)
	contribute(&a, b, unit)
	if err := b.Decode(&c); err != nil {
		a.Findings = append(a.Findings, plan.Finding{ID: "service.config", Status: plan.Undetermined, Summary: err.Error()})
		return a
	}
	v := node.Unit.Get(facts, unit)
	u, ok := v.Get()
	if !ok {
		f := plan.Unread("service.state", unit, v)
		f.Target = unit
		a.Findings = append(a.Findings, f)
		return a
	}
	if u.Load == "not-found" {
		a.Findings = append(a.Findings, plan.Finding{ID: "service.not_installed", Target: unit, Status: plan.Skipped, Source: v.Source(), Summary: unit + " is not installed"})
		return a
	}
	enablement := boot(&a, c, unit, u, v.Source(), u.Active.IsKnown() || facts.Inventory.RootDirectory, facts.Inventory.FromText())
	active := running(&a, c, unit, u, facts.Inventory.RootDirectory)
	if enablement == "" && active == "" {
		return a
	}
	effect := plan.Live
	if active != "" {
		effect = plan.ServiceRestart
	}
	a.Steps = append(a.Steps, plan.Step{
		Phase: plan.PhaseServices, Target: unit, Effect: effect, Summary: verbs(enablement, active) + " " + unit,
		Action: plan.SetUnit{Unit: unit, Enablement: enablement, Active: active},
	})
	return a
}

// contribute says what two blocks over one unit must not contradict each other in.
func contribute(a *plan.Assessment, b plan.Block, unit string) {
	for _, name := range []string{"enabled", "active", "masked"} {
		if v := b.Attributes[name]; v != cty.NilVal && v.IsKnown() && !v.IsNull() {
			a.Contributions = append(a.Contributions, plan.Contribution{
				Sink: plan.FactSink, Key: plan.UnitFact(unit, name), Value: fmt.Sprint(v.True()), Origin: b.OriginOf(name, ""),
			})
		}
	}
}

// boot judges the unit file and returns the enablement that a step has to set;
// reachable says whether there is somebody who could set it, text that nobody read the node.
func boot(a *plan.Assessment, c config, unit string, u node.UnitState, source node.Source, reachable, text bool) string {
	isMasked := masked(u)
	var want string
	found := u.File
	switch {
	case c.masked():
		want = "masked"
	case c.Enabled != nil && *c.Enabled:
		want = "enabled"
	case c.Enabled != nil:
		want = "disabled"
	case c.Masked != nil && isMasked:
		want = "disabled"
	case c.Masked != nil:
		want = u.File
	default:
		return ""
	}
	f := plan.Finding{
		ID: "service.boot", Target: unit, Want: want, Found: found, Status: plan.OK, Source: source, Effect: plan.Live,
		NextBoot: found, Summary: fmt.Sprintf("%s is %s", unit, found),
	}
	if u.File == "" && !isMasked && text {
		a.Findings = append(a.Findings, plan.Finding{ID: f.ID, Target: unit, Status: plan.Undetermined, Source: source, Summary: "whether " + unit + " starts at boot is unknown: nobody said"})
		return ""
	}
	// A masked unit does not start at boot either, unless the block wants it unmasked.
	equal := plan.Enabled(want, found) || want == "disabled" && isMasked && c.Masked == nil
	if isMasked && want == "enabled" && (c.Masked == nil) {
		f.Status = plan.Conflict
		f.Summary = fmt.Sprintf("%s is masked, enabled is wanted", unit)
		f.Fix = "find out who masked it; masked = false in the block unmasks it"
		a.Findings = append(a.Findings, f)
		return ""
	}
	if equal {
		a.Findings = append(a.Findings, f)
		return ""
	}
	if want == "disabled" && (found == "generated" || found == "transient") {
		f.Status, f.Feature = plan.Unsupported, "enabled"
		f.Summary = fmt.Sprintf("%s is %s and cannot be disabled", unit, found)
		f.Fix = "masked = true keeps it from being started"
		a.Findings = append(a.Findings, f)
		return ""
	}
	f.Status, f.Fixable = plan.Drift, true
	f.Summary = fmt.Sprintf("%s is %s, wanted is %s", unit, found, want)
	if !reachable {
		f.Fixable, f.Fix = false, "systemd cannot be reached from here: "+u.Active.Reason()
		want = ""
	}
	a.Findings = append(a.Findings, f)
	return want
}

// masked: nothing can start the unit, now or at boot.
func masked(u node.UnitState) bool { return strings.HasPrefix(u.File, "masked") || u.Load == "masked" }

// running judges the unit now and returns the state that a step has to set.
func running(a *plan.Assessment, c config, unit string, u node.UnitState, rootDirectory bool) string {
	if rootDirectory || c.Active == nil && !c.masked() {
		return ""
	}
	want := "inactive"
	if c.Active != nil && *c.Active {
		want = "active"
	}
	active, ok := u.Active.Get()
	if !ok {
		f := plan.Unread("service.running", "whether "+unit+" runs", u.Active)
		f.Target = unit
		a.Findings = append(a.Findings, f)
		return ""
	}
	words, status := plan.RunState(want, active, u)
	f := plan.Finding{
		ID: "service.running", Target: unit, Want: want, Found: active, Running: active, Status: status, Source: u.Active.Source(),
		Effect: plan.ServiceRestart, Summary: fmt.Sprintf("%s is %s", unit, words),
	}
	if status != plan.Drift {
		a.Findings = append(a.Findings, f)
		return ""
	}
	if want == "active" && masked(u) && c.Masked == nil {
		f.Status = plan.Conflict
		f.Summary = fmt.Sprintf("%s is masked, active is wanted", unit)
		f.Fix = "find out who masked it; masked = false in the block unmasks it"
		a.Findings = append(a.Findings, f)
		return ""
	}
	f.Fixable = true
	f.Summary = fmt.Sprintf("%s is %s, wanted is %s", unit, active, want)
	a.Findings = append(a.Findings, f)
	return want
}

// verbs says what a step does to a unit.
func verbs(enablement, active string) string {
	words := map[string]string{"enabled": "enable", "disabled": "disable", "masked": "mask", "active": "start", "inactive": "stop"}
	switch {
	case enablement == "":
		return words[active]
	case active == "":
		return words[enablement]
	default:
		return words[enablement] + " and " + words[active]
	}
}
