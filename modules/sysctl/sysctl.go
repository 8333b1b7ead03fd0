// Package sysctl is the block type sysctl: a kernel parameter, running and at boot.
package sysctl

import (
	"fmt"

	"github.com/agext/levenshtein"
	"github.com/zclconf/go-cty/cty"

	"busbar/internal/sysctld"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type sysctl.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of sysctl.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "sysctl", Label: plan.LabelRequired, LabelDoc: "the parameter, dotted: kernel.numa_balancing",
		Doc:     "A kernel parameter, in the running kernel and at boot.",
		Ceiling: plan.Live, Sinks: []string{sink.SysctlName},
		Attributes: []plan.Attribute{
			{Name: "value", Type: cty.DynamicPseudoType, Required: true, Example: "0", Doc: "The value, a number or a string; runs of white space are equal."},
			{Name: "apply", Type: cty.String, Default: cty.StringVal("both"), Enum: []string{"both", "boot", "running"}, Example: `"boot"`, Doc: "Whether the value is wanted in the running kernel, at boot (sysctl.d), or in both."},
		},
	}
}

// decode returns the parameter's normal name and the value as text; known is false
// when the value is withheld.
func decode(b plan.Block) (name, value, apply string, known bool, err error) {
	name, err = sysctld.Normalize(b.Label)
	if err != nil {
		return "", "", "", false, err
	}
	if v := b.Attributes["apply"]; v != cty.NilVal && !v.IsNull() {
		apply = v.AsString()
	}
	v := b.Attributes["value"]
	if v == cty.NilVal || v.IsNull() {
		return name, "", apply, false, nil
	}
	if value, err = plan.ScalarText(v); err != nil {
		return name, "", apply, false, err
	}
	err = sysctld.Setting{Name: name, Value: value}.Validate()
	return name, sysctld.Blanks(value), apply, true, err
}

// Validate finds a label that names no parameter, or seems mistyped, and a value that is none.
func (Type) Validate(b plan.Block) []plan.Problem {
	name, _, _, _, err := decode(b)
	if err != nil {
		return []plan.Problem{{Attribute: "value", Summary: "not a kernel parameter", Detail: err.Error()}}
	}
	for _, k := range known {
		if d := levenshtein.Distance(name, k, nil); d > 0 && d <= maxTypos {
			return []plan.Problem{{Warning: true, Summary: "perhaps a mistyped parameter", Detail: fmt.Sprintf("There is %s; %s is set where the kernel has it.", k, name)}}
		}
	}
	return nil
}

// known are parameters that a GPU node's profile is likely to mean (Documentation/admin-guide/sysctl/kernel.rst and vm.rst of Linux).
var known = []string{"kernel.numa_balancing", "vm.zone_reclaim_mode"}

// maxTypos is how many letters may be wrong in what is taken for a mistyped one.
const maxTypos = 2

// Queries is the running value.
func (Type) Queries(b plan.Block, _ node.Inventory) []node.Query {
	name, _, apply, _, err := decode(b)
	if err != nil || apply == "boot" {
		return nil
	}
	return []node.Query{node.Sysctl.Query(name)}
}

// Assess judges the running value, and contributes the one at boot.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	name, want, apply, known, err := decode(b)
	var a plan.Assessment
	if err != nil || !known {
		return a
	}
	if apply != "running" {
		a.Contributions = []plan.Contribution{{Sink: sink.SysctlName, Key: name, Value: want, Origin: b.OriginOf("value", "")}}
	}
	if apply == "boot" || facts.Inventory.RootDirectory {
		return a
	}
	v := node.Sysctl.Get(facts, name)
	got, ok := v.Get()
	if !ok {
		f := plan.Unread("sysctl.running", name, v)
		f.Target = name
		a.Findings = append(a.Findings, f)
		return a
	}
	got = sysctld.Blanks(got)
	f := plan.Finding{
		ID: "sysctl.running", Target: name, Status: plan.OK, Want: want, Found: got, Running: got, Source: v.Source(),
		Effect: plan.Live, Summary: fmt.Sprintf("%s is %s", name, got),
	}
	if !sysctld.EqualValue(got, want) {
		f.Status, f.Fixable = plan.Drift, true
		f.Summary = fmt.Sprintf("%s is %s, wanted is %s", name, got, want)
		a.Steps = []plan.Step{{
			Phase: plan.PhaseServices, Target: name, Effect: plan.Live, Summary: fmt.Sprintf("set %s to %s", name, want),
			Action: plan.SetSysctl{Name: name, Value: want},
		}}
	}
	a.Findings = append(a.Findings, f)
	return a
}
