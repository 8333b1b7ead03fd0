package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// Planner plans blocks of a closed list of types over a closed list of sinks.
type Planner struct {
	types map[string]Type
	sinks []Sink
	// proving: proofs are run.
	proving bool
}

// NewPlanner makes a planner for types and sinks.
func NewPlanner(types []Type, sinks []Sink) *Planner {
	p := &Planner{types: map[string]Type{}, sinks: sinks}
	for _, t := range types {
		p.types[t.Spec().Key()] = t
	}
	return p
}

// Proving is p with proofs, which are skipped else.
func (p *Planner) Proving() *Planner {
	proving := *p
	proving.proving = true
	return &proving
}

// TypeOf is the block's type.
func (p *Planner) TypeOf(b Block) Type { return p.types[b.typeKey()] }

// skips reports a proof that is not run.
func (p *Planner) skips(b Block) bool { return !p.proving && p.TypeOf(b).Spec().Proof }

// Queries are what planning blocks has to know: the union of all blocks' and
// sinks' queries, sorted.
func (p *Planner) Queries(blocks []Block, inventory node.Inventory) []node.Query {
	union := map[node.Query]bool{}
	add := func(queries []node.Query) {
		for _, q := range queries {
			union[q] = true
		}
	}
	for _, b := range blocks {
		if b.Undecided == "" && !p.skips(b) {
			add(p.TypeOf(b).Queries(b, inventory))
			if p.TypeOf(b).Spec().Ceiling > Live {
				add(inUseQueries(inventory))
			}
		}
	}
	// What a sink has to know can hang on what is contributed, which hangs on facts;
	// contributions over the bare inventory tell it.
	contributions, _ := p.assess(blocks, node.Facts{Inventory: inventory})
	for _, s := range p.sinks {
		add(s.Queries(contributionsOf(contributions.Contributions, s.Name())))
	}
	return slices.SortedFunc(maps.Keys(union), node.CompareQueries)
}

// Plan judges the node that facts show against blocks and says what to do.
// further are findings about the profile itself.
func (p *Planner) Plan(blocks []Block, facts node.Facts, further ...Finding) Plan {
	byAddress := map[string]Block{}
	for _, b := range blocks {
		byAddress[b.Address] = b
	}
	all, steps := p.assess(blocks, facts)
	certain, _ := certainOf(all.Contributions)
	contributions, conflicts := mergeContributions(certain)
	steps = withoutConflicts(steps, all.Findings, conflicts)
	all.Findings = append(append(all.Findings, conflicts...), further...)
	for _, s := range p.sinks {
		mine := contributionsOf(contributions, s.Name())
		a := s.Assess(mine, facts.Restrict(s.Queries(mine)))
		all.Findings = append(all.Findings, a.Findings...)
		steps = append(steps, a.Steps...)
	}
	steps = orderSteps(mergeSteps(steps), byAddress)
	onlyServed(all.Findings, steps)
	for i := range steps {
		steps[i].Expect = Fingerprint(facts, steps[i].Action.Queries())
		steps[i].Disturbs = steps[i].InUse(facts, false)
	}
	return assemble(byAddress, all.Findings, steps, p.ceilings(), facts.ObservedAt)
}

// Conflicts finds blocks of a profile that contradict each other, without a node, each pair of places once. Those that do so on
// some nodes alone are warnings.
func (p *Planner) Conflicts(blocks []Block) []Finding {
	all, _ := p.assess(blocks, node.Facts{})
	certain, elsewhere := certainOf(all.Contributions)
	_, conflicts := mergeContributions(certain)
	for _, c := range elsewhere {
		at := slices.IndexFunc(certain, func(other Contribution) bool {
			return other.slot() == c.slot() && other.Value != c.Value && other.Address != c.Address
		})
		if at >= 0 {
			conflicts = append(conflicts, dispute{certain[at], c, []string{c.Device}}.finding())
		}
	}
	told := map[Places]bool{}
	var once []Finding
	for _, f := range conflicts {
		if !told[f.Between] && !told[f.Between.Swapped()] {
			once = append(once, f)
		}
		told[f.Between] = true
	}
	return once
}

// certainOf takes those apart that hold on some nodes alone.
func certainOf(all []Contribution) (certain, elsewhere []Contribution) {
	for _, c := range all {
		if c.Where == "" {
			certain = append(certain, c)
		} else {
			elsewhere = append(elsewhere, c)
		}
	}
	return certain, elsewhere
}

func (p *Planner) ceilings() map[string]Effect {
	out := map[string]Effect{}
	for name, t := range p.types {
		out[name] = t.Spec().Ceiling
	}
	return out
}

// assess asks every block's type. Steps come back apart, each with its block's address.
func (p *Planner) assess(blocks []Block, facts node.Facts) (Assessment, []Step) {
	var all Assessment
	var steps []Step
	for _, b := range blocks {
		if p.skips(b) {
			all.Findings = append(all.Findings, Finding{ID: b.Type + ".not_run", Address: b.Address, Status: Skipped, Summary: "run by verify --probe"})
			continue
		}
		if b.Undecided != "" {
			all.Findings = append(all.Findings, Finding{
				ID: b.Type + ".undecided", Address: b.Address, Status: Undetermined, Needs: b.Needs,
				Summary: "whether this block applies is unknown: " + b.Undecided,
				Source:  node.Source{Path: b.Origin.File, Line: b.Origin.Line},
			})
			all.Contributions = append(all.Contributions, p.undecided(b)...)
			continue
		}
		t := p.TypeOf(b)
		a := t.Assess(b, facts.Restrict(t.Queries(b, facts.Inventory)))
		if c, ok := t.(Claimer); ok {
			a.Contributions = append(a.Contributions, c.Claims(b, facts.Inventory)...)
		}
		for _, w := range b.Withheld {
			all.Findings = append(all.Findings, withheldFinding(b, w))
		}
		if len(b.Withheld) > 0 {
			all.Contributions = append(all.Contributions, p.undecided(b)...)
		}
		for i := range a.Findings {
			a.Findings[i].Address = b.Address
		}
		for i := range a.Contributions {
			a.Contributions[i].Address = b.Address
			if a.Contributions[i].Origin == (Origin{}) {
				a.Contributions[i].Origin = b.Origin
			}
		}
		for i := range a.Steps {
			a.Steps[i].Addresses = []string{b.Address}
		}
		all.Findings = append(all.Findings, a.Findings...)
		all.Contributions = append(all.Contributions, a.Contributions...)
		steps = append(steps, a.Steps...)
	}
	return all, steps
}

// undecided are what a block contributes of which something is unknown, besides what is known.
func (p *Planner) undecided(b Block) []Contribution {
	var all []Contribution
	for _, name := range p.TypeOf(b).Spec().Sinks {
		all = append(all, Contribution{Sink: name, Address: b.Address, Origin: b.Origin}.undecided())
	}
	return all
}

func withheldFinding(b Block, w Withheld) Finding {
	what := w.Attribute
	if w.Key != "" {
		what += "." + w.Key
	}
	origin := b.OriginOf(w.Attribute, w.Key)
	return Finding{
		ID: b.Type + ".withheld", Address: b.Address, Status: Undetermined, Needs: w.Needs, Target: what,
		Summary: what + " is withheld: " + w.Reason,
		Source:  node.Source{Path: origin.File, Line: origin.Line},
	}
}

func contributionsOf(all []Contribution, sink string) []Contribution {
	var mine []Contribution
	for _, c := range all {
		if c.Sink == sink {
			mine = append(mine, c)
		}
	}
	return mine
}

func (c Contribution) place() Place { return Place{c.Address, c.Origin} }

// dispute is what two places want, of which one can be had.
type dispute struct {
	wanted, against Contribution
	devices         []string
}

// join adds a device about which the places disagree in the same way.
func (d *dispute) join(wanted, against Contribution) {
	if d.wanted.Key == wanted.Key && d.wanted.Value == wanted.Value && d.against.Value == against.Value && !d.wanted.SetOfDevices && !wanted.SetOfDevices {
		d.devices = append(d.devices, wanted.Device)
	}
}

// finding is about the place of what is wanted.
func (d dispute) finding() Finding {
	target, list := d.wanted.Key, ""
	slices.Sort(d.devices)
	switch devices := slices.Compact(d.devices); {
	case len(devices) > 1:
		target += fmt.Sprintf(" of %d devices", len(devices))
		list = ": " + strings.Join(devices, ", ")
	case devices[0] != "":
		target += " of " + devices[0]
	}
	where := ""
	f := Finding{
		ID: "profile.contradiction", Address: d.wanted.Address, Status: Conflict, Target: target,
		Want: d.wanted.Value, Found: d.against.Value,
		Source:  node.Source{Path: d.against.Origin.File, Line: d.against.Origin.Line},
		Fix:     "decide in the profile which of the two is meant; neither is applied",
		Between: Places{d.wanted.place(), d.against.place()},
	}
	if d.against.Where != "" {
		f.Severity, f.Fix = Warning, ""
		where = " on nodes " + d.against.Where
	}
	wanted := target
	if words := d.wanted.words(); words != "it" {
		wanted += " " + words
	}
	f.Summary = fmt.Sprintf("%s is wanted%s (%s), and %s wants %s%s%s (%s)%s", wanted, d.wanted.by(), d.wanted.Origin,
		d.against.Address, d.against.words(), d.against.by(), where, d.against.Origin, list)
	return f
}

// words are the value, "it" where that is the key itself, as of a boot argument.
func (c Contribution) words() string {
	if c.Value == c.Key {
		return "it"
	}
	return strconv.Quote(strings.TrimPrefix(c.Value, c.Key+"="))
}

// by is what a block says in words of its own.
func (c Contribution) by() string {
	if c.By == "" {
		return ""
	}
	return " by " + c.By
}

// slot is what can have one value.
type slot struct{ sink, key, device string }

func (c Contribution) slot() slot { return slot{c.Sink, c.Key, c.Device} }

// mergeContributions takes out what contradicts and reports it on every address
// involved, once for a pair of places that stand against each other in several things;
// equal wishes of several blocks all stay. What a contradicted fact follows from goes
// with the fact. For what is taken out stands one that is Undecided.
func mergeContributions(all []Contribution) ([]Contribution, []Finding) {
	first, other := map[slot]Contribution{}, map[slot]Contribution{} // the first, and the first with another value than that
	for _, c := range all {
		s := c.slot()
		if before, seen := first[s]; !seen {
			first[s] = c
		} else if _, seen := other[s]; !seen && before.Value != c.Value {
			other[s] = c
		}
	}
	var kept []Contribution
	told := map[Places]*dispute{}
	var disputes []*dispute
	contested := map[Place][]Contribution{}
	for _, c := range all {
		against, isContested := other[c.slot()]
		if !isContested {
			kept = append(kept, c)
			continue
		}
		kept = append(kept, c.undecided())
		if c.Sink == FactSink {
			contested[c.place()] = append(contested[c.place()], c)
		}
		if before := first[c.slot()]; before.Value != c.Value {
			against = before
		}
		pair := Places{c.place(), against.place()}
		if d := told[pair]; d != nil {
			d.join(c, against)
			continue
		}
		told[pair] = &dispute{c, against, []string{c.Device}}
		disputes = append(disputes, told[pair])
	}
	for i, c := range kept {
		if slices.ContainsFunc(contested[c.place()], func(fact Contribution) bool { return fact.Of == "" || fact.Of == c.Key }) {
			kept[i] = c.undecided()
		}
	}
	conflicts := make([]Finding, len(disputes))
	for i, d := range disputes {
		conflicts[i] = d.finding()
	}
	slices.SortStableFunc(kept, func(a, b Contribution) int {
		return cmp.Or(cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Address, b.Address))
	})
	return kept, conflicts
}

// withoutConflicts drops the steps of blocks that contradict another one, and takes
// back from their findings that a step puts them right.
func withoutConflicts(steps []Step, findings, conflicts []Finding) []Step {
	contradicts := map[string]bool{}
	for _, f := range conflicts {
		contradicts[f.Address] = true
	}
	for i, f := range findings {
		if f.Fixable && contradicts[f.Address] {
			findings[i].Fixable, findings[i].Effect, findings[i].Fix = false, NoEffect, "nothing of the block is set while it contradicts another one"
		}
	}
	return slices.DeleteFunc(steps, func(s Step) bool {
		return slices.ContainsFunc(s.Addresses, func(address string) bool { return contradicts[address] })
	})
}

// onlyServed takes back that a finding is fixable where no step serves its address: a
// sink found the block's wish contradicted by another one.
func onlyServed(findings []Finding, steps []Step) {
	served := map[string]bool{}
	for _, s := range steps {
		for _, address := range s.Addresses {
			served[address] = true
		}
	}
	for i := range findings {
		f := &findings[i]
		if f.Fixable && !served[f.Address] {
			f.Fixable, f.Fix = false, cmp.Or(f.Fix, "settle first what stands against the block's wish, which another finding says")
		}
	}
}

// mergeSteps joins steps that are the same ensure, wanted by several blocks.
func mergeSteps(steps []Step) []Step {
	index := map[string]int{}
	var merged []Step
	for _, s := range steps {
		s.ID = s.Action.Kind() + ":" + s.Target
		i, seen := index[s.ID]
		if !seen {
			index[s.ID] = len(merged)
			merged = append(merged, s)
			continue
		}
		m := &merged[i]
		m.Action = mergeActions(m.Action, s.Action)
		if link, ok := m.Action.(SetLink); ok {
			m.Summary = link.Summary()
		}
		m.Addresses = union(m.Addresses, s.Addresses)
		m.Requires, m.After = union(m.Requires, s.Requires), union(m.After, s.After)
		m.Provides = union(m.Provides, s.Provides)
		m.Effect = max(m.Effect, s.Effect)
		m.Settle = max(m.Settle, s.Settle)
	}
	return merged
}

// mergeActions joins what two blocks want of one unit or link.
func mergeActions(a, b Action) Action {
	switch a := a.(type) {
	case SetUnit:
		if b, ok := b.(SetUnit); ok {
			a.Enablement, a.Active = cmp.Or(a.Enablement, b.Enablement), cmp.Or(a.Active, b.Active)
			return a
		}
	case RestartUnit:
		if b, ok := b.(RestartUnit); ok {
			for _, l := range b.Limits {
				if !slices.Contains(a.Limits, l) {
					a.Limits = append(slices.Clone(a.Limits), l)
				}
			}
			return a
		}
	case SetLink:
		if b, ok := b.(SetLink); ok {
			a.MTU, a.State = cmp.Or(a.MTU, b.MTU), cmp.Or(a.State, b.State)
			a.AllowProtected = a.AllowProtected || b.AllowProtected
			return a
		}
	case AwaitLinks:
		if b, ok := b.(AwaitLinks); ok {
			return a.merge(b)
		}
	}
	return a
}

func union(a, b []string) []string {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// orderSteps sorts by phase and id, and then moves steps behind what they
// require or come after. Requirements that no step of the plan meets are met already.
func orderSteps(steps []Step, blocks map[string]Block) []Step {
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.ID, b.ID))
	})
	for i := range steps {
		for _, address := range steps[i].Addresses {
			for _, wanted := range blocks[address].DependsOn {
				for _, other := range steps {
					if other.ID != steps[i].ID && slices.Contains(other.Addresses, wanted) && !slices.Contains(other.Addresses, address) {
						steps[i].Requires = union(steps[i].Requires, []string{other.ID})
					}
				}
			}
		}
	}
	providers := map[string][]int{}
	for i, s := range steps {
		providers[s.ID] = append(providers[s.ID], i)
		for _, name := range s.Provides {
			providers[name] = append(providers[name], i)
		}
	}
	ordered := make([]Step, 0, len(steps))
	state := make([]int, len(steps)) // 0 not seen, 1 being placed, 2 placed
	var place func(i int)
	place = func(i int) {
		if state[i] != 0 {
			return
		}
		state[i] = 1
		for _, name := range slices.Concat(steps[i].Requires, steps[i].After) {
			for _, j := range providers[name] {
				place(j)
			}
		}
		state[i] = 2
		ordered = append(ordered, steps[i])
	}
	for i := range steps {
		place(i)
	}
	return ordered
}
