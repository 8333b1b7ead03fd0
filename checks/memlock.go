package checks

import (
	"cmp"
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
			{Name: "processes", Type: cty.List(cty.String), Example: `["process 4711"]`, Doc: "Processes whose limits were pasted, by what the text calls them. A node is not asked for them by name."},
		},
	}
}

type memlock struct {
	Services  []string `cty:"services"`
	Processes []string `cty:"processes"`
}

func decodeMemlock(b plan.Block) (units, processes []string, least limits.Value, err error) {
	var c memlock
	if err := b.Decode(&c); err != nil {
		return nil, nil, 0, err
	}
	for _, s := range c.Services {
		units = append(units, plan.UnitName(s))
	}
	if v := b.Attributes["min"]; v != cty.NilVal && !v.IsNull() {
		least, err = blocklimits.Parse(v)
		return units, c.Processes, least, err
	}
	return units, c.Processes, limits.Unlimited, nil
}

// Validate finds a min that is no limit, and names that no unit has.
func (Memlock) Validate(b plan.Block) []plan.Problem {
	units, _, _, err := decodeMemlock(b)
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

// Queries are the services and their processes, and those that text gave.
func (Memlock) Queries(b plan.Block, _ node.Inventory) []node.Query {
	units, processes, _, _ := decodeMemlock(b)
	var queries []node.Query
	for _, unit := range units {
		queries = append(queries, node.Unit.Query(unit), node.ProcLimits.Query(unit))
	}
	for _, process := range processes {
		queries = append(queries, node.ProcLimits.Query(process))
	}
	return queries
}

// Assess judges each service's main process, and each process of text.
func (Memlock) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	units, processes, least, _ := decodeMemlock(b)
	var a plan.Assessment
	for _, unit := range units {
		f := judgeService(unit, least, facts)
		f.Target = cmp.Or(f.Target, unit)
		a.Findings = append(a.Findings, f)
	}
	for _, process := range processes {
		f := judgeProcess(process, least, facts, "raise what it may lock where it is started, and start it again: LimitMEMLOCK=infinity of a unit, ulimit -l unlimited of a shell")
		f.Target = cmp.Or(f.Target, process)
		a.Findings = append(a.Findings, f)
	}
	return a
}

const memlockID = "memlock.process"

func judgeService(unit string, least limits.Value, facts node.Facts) plan.Finding {
	skipped := plan.Finding{ID: memlockID, Status: plan.Skipped}
	if u, ok := node.Unit.Get(facts, unit).Get(); ok && u.Load == "not-found" {
		skipped.Summary = unit + " is not installed"
		return skipped
	}
	if facts.Inventory.RootDirectory {
		skipped.Summary = "running processes are not judged (--root)"
		return skipped
	}
	return judgeProcess(unit, least, facts, "give "+strings.TrimSuffix(unit, ".service")+" LimitMEMLOCK= and restart it: block limits does both")
}

// judgeProcess judges what the process of a unit may lock, or one that text calls so.
func judgeProcess(name string, least limits.Value, facts node.Facts, fix string) plan.Finding {
	v := node.ProcLimits.Get(facts, name)
	p, ok := v.Get()
	switch {
	case !ok:
		return plan.Unread(memlockID, "the limits of "+name+"'s process", v)
	case !p.Running:
		return plan.Finding{ID: memlockID, Status: plan.Skipped, Summary: name + " has no running process"}
	}
	f, err := blocklimits.Judge("memlock", least, name, p, v.Source())
	if err != nil {
		return plan.Finding{ID: memlockID, Status: plan.Undetermined, Source: v.Source(), Summary: fmt.Sprintf("the limits of %s cannot be read: %v", name, err)}
	}
	f.ID, f.Fix = memlockID, fix
	return f
}
