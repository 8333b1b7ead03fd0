package checks

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/limits"
	blocklimits "busbar/modules/limits"
	"busbar/node"
	"busbar/plan"
)

// Memlock is check "memlock": how much memory the running processes of services
// may lock.
type Memlock struct{}

var _ plan.Validator = Memlock{}

// Spec of check "memlock".
func (Memlock) Spec() plan.Spec {
	return plan.Spec{
		Name: "memlock", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "How much memory the running processes of services may lock. RDMA locks what it registers, so that a low limit makes ibv_reg_mr fail.",
		Attributes: []plan.Attribute{
			{Name: "min", Type: cty.DynamicPseudoType, Default: cty.StringVal("unlimited"), Example: `"unlimited"`, Doc: `Bytes that must be allowed at least, or "unlimited".`},
			{Name: "services", Type: cty.List(cty.String), Required: true, Example: `["slurmd", "containerd"]`, Doc: "The services; one that is not installed or does not run is skipped."},
		},
	}
}

type memlock struct {
	Services []string `cty:"services"`
}

func decodeMemlock(b plan.Block) (units []string, least limits.Value, err error) {
	var c memlock
	if err := b.Decode(&c); err != nil {
		return nil, 0, err
	}
	for _, s := range c.Services {
		units = append(units, plan.UnitName(s))
	}
	if v := b.Attributes["min"]; v != cty.NilVal && !v.IsNull() {
		least, err = blocklimits.Parse(v)
		return units, least, err
	}
	return units, limits.Unlimited, nil
}

// Validate finds a min that is no limit, and names that no unit has.
func (Memlock) Validate(b plan.Block) []plan.Problem {
	units, _, err := decodeMemlock(b)
	var problems []plan.Problem
	if err != nil {
		problems = append(problems, plan.Problem{Attribute: "min", Summary: "not a limit", Detail: err.Error()})
	}
	for _, unit := range units {
		if err := plan.CheckUnitName(unit); err != nil {
			problems = append(problems, plan.Problem{Attribute: "services", Summary: "not a unit name", Detail: err.Error()})
		}
	}
	return problems
}

// Queries are the services and their processes.
func (Memlock) Queries(b plan.Block, _ node.Inventory) []node.Query {
	units, _, _ := decodeMemlock(b)
	var queries []node.Query
	for _, unit := range units {
		queries = append(queries, node.Unit.Query(unit), node.ProcLimits.Query(unit))
	}
	return queries
}

// Assess judges each service's main process.
func (Memlock) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	units, least, _ := decodeMemlock(b)
	var a plan.Assessment
	for _, unit := range units {
		a.Findings = append(a.Findings, judgeMemlock(unit, least, facts))
	}
	return a
}

// shellUnit stands for a shell that text tells the limits of, and that is of no unit.
const shellUnit = "shell.service"

func judgeMemlock(unit string, least limits.Value, facts node.Facts) plan.Finding {
	const id = "memlock.process"
	skipped := plan.Finding{ID: id, Target: unit, Status: plan.Skipped}
	if u, ok := node.Unit.Get(facts, unit).Get(); ok && u.Load == "not-found" {
		skipped.Summary = unit + " is not installed"
		return skipped
	}
	v := node.ProcLimits.Get(facts, unit)
	p, ok := v.Get()
	switch {
	case facts.Inventory.RootDirectory:
		skipped.Summary = "running processes are not judged (--root)"
		return skipped
	case !ok:
		f := plan.Unread(id, "the limits of "+unit+"'s process", v)
		f.Target = unit
		return f
	case !p.Running:
		skipped.Summary = unit + " has no running process"
		return skipped
	}
	f, err := blocklimits.Judge("memlock", least, unit, p, v.Source())
	if err != nil {
		return plan.Finding{ID: id, Target: unit, Status: plan.Undetermined, Source: v.Source(), Summary: fmt.Sprintf("the limits of %s (process %d) cannot be read: %v", unit, p.PID, err)}
	}
	f.ID = id
	if unit == shellUnit && facts.Inventory.FromText() {
		f.Fix = "logins take it from /etc/security/limits.conf and limits.d (block limits), a shell in a job from the service that started the job"
		return f
	}
	f.Fix = "give " + strings.TrimSuffix(unit, ".service") + " LimitMEMLOCK= and restart it: block limits does both"
	return f
}
