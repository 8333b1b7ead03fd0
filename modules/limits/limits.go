// Package limits is the block type limits: resource limits of logins, of systemd
// services, and of their running processes.
package limits

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/limits"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type limits.
type Type struct{}

var _ plan.Validator = Type{}

// items are the resources in the order of the attribute table.
var items = []string{"memlock", "nofile", "stack"}

// Spec of limits.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "limits", Label: plan.LabelRequired, LabelDoc: "a name of your own",
		Doc:     "Resource limits of logins (limits.conf), of services (unit drop-ins) and of the services' running processes.",
		Ceiling: plan.ServiceRestart, Sinks: []string{sink.LimitsName, sink.DropInsName},
		Attributes: []plan.Attribute{
			{Name: "memlock", Type: cty.DynamicPseudoType, Example: `"unlimited"`, Doc: `Locked memory in bytes, or "unlimited"; at least this much, soft and hard.`},
			{Name: "nofile", Type: cty.DynamicPseudoType, Example: "1048576", Doc: "Open files; at least this many, soft and hard."},
			{Name: "stack", Type: cty.DynamicPseudoType, Example: "67108864", Doc: `Stack size in bytes, or "unlimited"; exactly this, soft and hard.`},
			{Name: "users", Type: cty.List(cty.String), Default: cty.ListVal([]cty.Value{cty.StringVal("*")}), Example: `["*", "root"]`, Doc: "Users whose logins get the limits; * is every user but root. An empty list leaves logins alone."},
			{Name: "services", Type: cty.List(cty.String), Example: `["slurmd", "containerd"]`, Doc: "systemd services that get the limits; one that is not installed is skipped."},
		},
	}
}

type config struct {
	Users    []string `cty:"users"`
	Services []string `cty:"services"`
}

// decode returns the wanted limits by item; a withheld or absent item is missing.
func decode(b plan.Block) (c config, want map[string]limits.Value, problems []plan.Problem) {
	want = map[string]limits.Value{}
	if err := b.Decode(&c); err != nil {
		problems = append(problems, plan.Problem{Summary: "cannot read the block", Detail: err.Error()})
	}
	for i, s := range c.Services {
		c.Services[i] = plan.UnitName(s)
	}
	for _, item := range items {
		v := b.Attributes[item]
		if v == cty.NilVal || v.IsNull() {
			continue
		}
		value, err := Parse(v)
		if err != nil {
			problems = append(problems, plan.Problem{Attribute: item, Summary: "not a limit", Detail: err.Error()})
			continue
		}
		want[item] = value
	}
	return c, want, problems
}

// Parse reads a limit from an attribute: a number, or "unlimited".
func Parse(v cty.Value) (limits.Value, error) {
	text, err := plan.ScalarText(v)
	if err != nil {
		return 0, err
	}
	return limits.ParseValue(text)
}

// Validate finds values that are no limits or that no file can hold.
func (Type) Validate(b plan.Block) []plan.Problem {
	c, want, problems := decode(b)
	for _, item := range items {
		value, ok := want[item]
		if !ok {
			continue
		}
		for _, user := range c.Users {
			if err := (limits.Entry{Domain: user, Type: "-", Item: item, Value: value}).Validate(); err != nil {
				problems = append(problems, plan.Problem{Attribute: item, Summary: "limits.conf cannot hold this", Detail: err.Error()})
			}
		}
	}
	for _, s := range c.Services {
		if err := plan.CheckUnitName(s); err != nil {
			problems = append(problems, plan.Problem{Attribute: "services", Summary: "not a unit name", Detail: err.Error()})
		} else if !strings.HasSuffix(s, ".service") {
			problems = append(problems, plan.Problem{Attribute: "services", Summary: "not a service", Detail: s + " starts no process of its own that limits could be for."})
		}
	}
	if len(want) == 0 && len(problems) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set memlock, nofile or stack."})
	}
	return problems
}

// contributions are what logins and services get.
func contributions(b plan.Block, c config, want map[string]limits.Value) []plan.Contribution {
	var all []plan.Contribution
	for _, item := range items {
		value, ok := want[item]
		if !ok {
			continue
		}
		for _, user := range c.Users {
			all = append(all, plan.Contribution{Sink: sink.LimitsName, Key: sink.LimitKey(user, item), Value: value.String(), Origin: b.OriginOf(item, "")})
		}
		for _, unit := range c.Services {
			all = append(all, plan.Contribution{Sink: sink.DropInsName, Key: sink.DropInKey(unit, item), Value: value.String(), Origin: b.OriginOf(item, "")})
		}
	}
	return all
}

// Queries are the services, their processes, and what decides the limits with which
// they start.
func (Type) Queries(b plan.Block, _ node.Inventory) []node.Query {
	c, want, _ := decode(b)
	var queries []node.Query
	for _, unit := range c.Services {
		queries = append(queries, node.Unit.Query(unit), node.ProcLimits.Query(unit))
	}
	for _, unit := range c.Services {
		queries = append(queries, sink.DropIns{}.Queries(dropIns(contributions(b, c, want), unit))...)
	}
	return queries
}

// dropIns are the contributions to one unit's drop-in.
func dropIns(all []plan.Contribution, unit string) []plan.Contribution {
	var mine []plan.Contribution
	for _, c := range all {
		if c.Sink == sink.DropInsName && strings.HasPrefix(c.Key, sink.DropInKey(unit, "")) {
			mine = append(mine, c)
		}
	}
	return mine
}

// Assess contributes what logins and services get, and judges running processes.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	c, want, _ := decode(b)
	a := plan.Assessment{Contributions: contributions(b, c, want)}
	for _, unit := range c.Services {
		process(&a, unit, want, facts)
	}
	return a
}

// process judges a service's main process: the file right and the daemon wrong is
// not right.
func process(a *plan.Assessment, unit string, want map[string]limits.Value, facts node.Facts) {
	const id = "limits.process"
	state := node.Unit.Get(facts, unit)
	if u, ok := state.Get(); ok && u.Load == "not-found" {
		a.Findings = append(a.Findings, plan.Finding{ID: id, Target: unit, Status: plan.Skipped, Source: state.Source(), Summary: unit + " is not installed"})
		return
	}
	if facts.Inventory.RootDirectory {
		return
	}
	if u, _ := state.Get(); u.Starting() {
		a.Findings = append(a.Findings, plan.Finding{ID: id, Target: unit, Status: plan.Skipped, Source: state.Source(), Summary: unit + " is about to be started: its " + u.Job + " is queued"})
		return
	}
	v := node.ProcLimits.Get(facts, unit)
	p, ok := v.Get()
	if !ok {
		f := plan.Unread(id, "the limits of "+unit+"'s process", v)
		f.Target = unit
		a.Findings = append(a.Findings, f)
		return
	}
	if !p.Running {
		a.Findings = append(a.Findings, plan.Finding{ID: id, Target: unit, Status: plan.Skipped, Source: v.Source(), Summary: unit + " has no running process"})
		return
	}
	in, err := limits.ParseProc(p.Text)
	if err != nil {
		a.Findings = append(a.Findings, plan.Finding{ID: id, Target: unit, Status: plan.Undetermined, Source: v.Source(), Summary: fmt.Sprintf("the limits of %s (process %d) cannot be read: %v", unit, p.PID, err)})
		return
	}
	// A restart only helps where the unit's files will then say what is wanted.
	blocked, isBlocked := sink.Blocked(sink.DropIns{}.Assess(dropIns(a.Contributions, unit), facts))
	if u, _ := state.Get(); !isBlocked && !u.Active.IsKnown() {
		blocked.Summary, isBlocked = "systemd cannot be reached from here", true
	}
	var short []plan.ProcessLimit
	for _, item := range items {
		value, ok := want[item]
		if !ok {
			continue
		}
		f, holds := judge(sink.Need(item, value), unit, p, in, v.Source())
		if !holds {
			short = append(short, sink.Need(item, value))
			f.Fixable, f.By = !isBlocked, unit
			if isBlocked {
				f.Fix = "restart " + unit + " once this is settled: " + blocked.Summary
			}
		}
		a.Findings = append(a.Findings, f)
	}
	if len(short) == 0 || isBlocked {
		return
	}
	a.Steps = append(a.Steps, plan.Step{
		Phase: plan.PhaseServices, Target: unit, Effect: plan.ServiceRestart, Summary: "restart " + unit + " to get its new limits",
		Requires: []string{sink.DropInProvided(unit), sink.ReloadedUnit(unit)}, Action: plan.RestartUnit{Unit: unit, Limits: short},
	})
}

func judge(need plan.ProcessLimit, unit string, p node.ProcessLimits, in map[string]limits.Pair, source node.Source) (plan.Finding, bool) {
	f := plan.Finding{ID: "limits.process", Target: unit + " " + need.Item, Want: need.Value.String(), Source: source, Effect: plan.ServiceRestart}
	pair, ok := in[need.Item]
	switch {
	case !ok:
		f.Status = plan.Undetermined
		f.Summary = fmt.Sprintf("%s is not among the limits of %s", need.Item, processOf(unit, p.PID))
		return f, true
	case need.Holds(pair):
		f.Status, f.Found = plan.OK, words(pair)
		f.Summary = fmt.Sprintf("%s has %s %s", processOf(unit, p.PID), need.Item, f.Found)
		return f, true
	default:
		f.Status, f.Found = plan.Drift, words(pair)
		f.Running = f.Found
		f.Summary = fmt.Sprintf("%s has %s %s, wanted is %s", processOf(unit, p.PID), need.Item, f.Found, need.Value)
		f.Why = "limits of a file reach a daemon only when it is started again, and jobs inherit the daemon's"
		return f, false
	}
}

func words(p limits.Pair) string {
	if p.Soft == p.Hard {
		return p.Soft.String()
	}
	return fmt.Sprintf("soft %s, hard %s", p.Soft, p.Hard)
}

// Judge judges one resource of a unit's main process; it serves the check memlock.
func Judge(item string, value limits.Value, unit string, p node.ProcessLimits, source node.Source) (plan.Finding, error) {
	in, err := limits.ParseProc(p.Text)
	if err != nil {
		return plan.Finding{}, err
	}
	f, _ := judge(plan.ProcessLimit{Item: item, Value: value}, unit, p, in, source)
	return f, nil
}

// processOf is how findings call a unit's main process; pid is 0 where text tells the limits and no process.
func processOf(unit string, pid int) string {
	if pid == 0 {
		return unit
	}
	return fmt.Sprintf("%s (process %d)", unit, pid)
}
