// Package nicport holds what the block types over ports of NICs share: which ports a block means, which of them may be
// touched, their MTU, and the order of what is done to one port.
package nicport

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Attributes are the arguments that every such block type has.
func Attributes() []plan.Attribute {
	port := cty.ObjectWithOptionalAttrs(map[string]cty.Type{"address": cty.String, "port": cty.Number}, []string{"port"})
	return []plan.Attribute{
		{Name: "nics", Type: cty.List(port), Required: true, Example: "selector.rails", Doc: "The ports: NICs of node, of a selector, or objects with a PCI address (and port, from 1)."},
		{Name: "allow_protected", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Change ports that carry a default route, the way back to an SSH client or the root file system too."},
	}
}

// Sinks are those that Assess contributes to.
func Sinks() []string { return []string{sink.ProtectedName} }

// MTUAttribute is the argument mtu.
func MTUAttribute() plan.Attribute {
	return plan.Attribute{Name: "mtu", Type: cty.Number, Min: new(int64(68)), Max: new(int64(65535)), Example: "9000", Doc: "MTU of the network device in bytes; RoCE needs 4192 for an InfiniBand MTU of 4096. Left out, it is not judged. The driver closes the port for a moment when it changes."}
}

// Keys are the ports that a block lists, as node.NIC.String has them, sorted, each once; none when nics is not known.
func Keys(b plan.Block) []string {
	v := b.Attributes["nics"]
	if v == cty.NilVal || v.IsNull() {
		return nil
	}
	var keys []string
	for _, n := range v.AsValueSlice() {
		nic := node.NIC{Address: n.GetAttr("address").AsString(), Port: 1}
		if port := n.GetAttr("port"); !port.IsNull() {
			number, _ := port.AsBigFloat().Int64()
			nic.Port = int(number)
		}
		keys = append(keys, nic.String())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Validate finds what is no PCI address and no port.
func Validate(b plan.Block) []plan.Problem {
	var problems []plan.Problem
	for _, key := range Keys(b) {
		if address, _, ok := node.ParseNIC(key); !ok || !node.IsPCIAddress(address) {
			problems = append(problems, plan.Problem{Attribute: "nics", Summary: "no NIC", Detail: fmt.Sprintf("%q is no PCI address like 0000:1b:00.0, or its port is not from 1.", key)})
		}
	}
	return problems
}

// Number is a number of a block, and false where it is null.
func Number(v cty.Value) (int, bool) {
	if v == cty.NilVal || v.IsNull() {
		return 0, false
	}
	n, _ := v.AsBigFloat().Int64()
	return int(n), true
}

// Queries are the links of a block's ports, what must come back after they went down, and who else gives them an MTU.
func Queries(b plan.Block, inv node.Inventory) []node.Query {
	var queries []node.Query
	_, mtu := Number(b.Attributes["mtu"])
	for _, key := range Keys(b) {
		queries = append(queries, node.Link.Query(key))
		if mtu {
			queries = append(queries, node.LinkManagement.Query(key))
		}
		if n, ok := inv.PortOf(key); ok {
			if rdma := rdmaPort(n, inv); rdma != "" {
				queries = append(queries, node.RDMAPort.Query(rdma))
			}
		}
	}
	return queries
}

// rdmaPort is the RDMA port of a port as DEVICE/PORT, or empty.
func rdmaPort(n node.NIC, inv node.Inventory) string {
	name, ok := n.RDMA.Get()
	devices, _ := inv.RDMA.Get()
	for _, d := range devices {
		if !ok || d.Name != name || len(d.Ports) == 0 {
			continue
		}
		port := d.Ports[0].Port
		if d.PCI != "" {
			port = n.Port
		}
		return fmt.Sprintf("%s/%d", name, port)
	}
	return ""
}

// Port is a port that a block means.
type Port struct {
	plan.NICPort
	node.NIC
	// PhysicalFunction is the address of a virtual function's PF; empty for others.
	PhysicalFunction string
	// Name says which port it is: its key and network device.
	Name string
	// Refusal says why the port must not be touched; empty when it may be.
	Refusal string
}

// Assessor judges the ports of one block. What it plans for one port comes in the order in which it was asked for.
type Assessor struct {
	plan.Assessment
	Block plan.Block
	Facts node.Facts
	// Ports that are there.
	Ports []Port
	// Before are the ids of steps that come before those of any port.
	Before []string

	prefix  string
	planned map[string][]string // by port: ids of the steps of the link's phase
	bounced []plan.AwaitedPort
}

// Assess looks the ports of a block up. Ids of findings begin with the block's type.
func Assess(b plan.Block, facts node.Facts) *Assessor {
	a := &Assessor{Block: b, Facts: facts, prefix: b.Type, planned: map[string][]string{}}
	a.Contributions = append(a.Contributions, sink.SaveProtected())
	v := b.Attributes["nics"]
	switch {
	case v == cty.NilVal || v.IsNull():
		return a
	case facts.Inventory.RootDirectory:
		a.add(plan.Finding{ID: a.prefix + ".nics", Status: plan.Skipped, Summary: "nothing runs that could be judged (--root): ports are set at each boot"})
		return a
	case len(Keys(b)) == 0:
		origin := b.OriginOf("nics", "")
		a.add(plan.Finding{ID: a.prefix + ".nics", Status: plan.Drift, Summary: "the list of NICs is empty", Source: node.Source{Path: origin.File, Line: origin.Line}})
		return a
	}
	allowed := b.Attributes["allow_protected"] == cty.True
	for _, key := range Keys(b) {
		n, ok := facts.Inventory.PortOf(key)
		if !ok {
			a.missing(key)
			continue
		}
		p := Port{NICPort: plan.NICPort{NIC: key, AllowProtected: allowed}, NIC: n, Name: key}
		functions, _ := facts.Inventory.PCI.Get()
		for _, f := range functions {
			if f.Address == n.Address {
				p.PhysicalFunction = f.PhysicalFunction
			}
		}
		if netdev, ok := n.Netdev.Get(); ok {
			p.Name = key + " (" + netdev + ")"
		}
		if !allowed {
			p.Refusal = facts.Inventory.PortRefusal(key)
		}
		a.Ports = append(a.Ports, p)
	}
	return a
}

func (a *Assessor) missing(key string) {
	f := plan.Finding{
		ID: a.prefix + ".nics", Target: key, Status: plan.Drift, Want: "a NIC", Found: "none", Source: a.Facts.Inventory.PCI.Source(),
		Summary: "there is no NIC " + key,
	}
	if !a.Facts.Inventory.PCI.IsKnown() {
		f = plan.Unread(f.ID, "whether there is a NIC "+key, a.Facts.Inventory.PCI)
		f.Target = key
	}
	a.add(f)
}

func (a *Assessor) add(f plan.Finding) { a.Findings = append(a.Findings, f) }

// ID is the id of a finding of the block.
func (a *Assessor) ID(what string) string { return a.prefix + "." + what }

// The keys of facts that Claim says of ports, beside those that one block type has alone.
const (
	MTUFact   = "MTU"
	StateFact = "state" // plan.UpOrDown
)

// Claim says what no other block may want otherwise of the block's ports, whether or not they are there.
func (a *Assessor) Claim(fact, value string, origin plan.Origin) {
	a.Contributions = append(a.Contributions, plan.DeviceFacts(a.Block, "nics", Keys(a.Block), fact, value, origin)...)
}

// Skip says why something of a port is not judged.
func (a *Assessor) Skip(p Port, what, why string) {
	a.add(plan.Finding{ID: a.ID(what), Target: p.NICPort.NIC, Status: plan.Skipped, Summary: p.Name + ": " + why})
}

// Unread says that something of a port is unknown or unsupported. feature is its name in optional, fix what would bring it.
func Unread[T any](a *Assessor, p Port, what, feature, sentence, fix string, v node.Value[T]) {
	f := plan.Unread(a.ID(what), sentence+" of "+p.Name, v)
	f.Target, f.Feature = p.NICPort.NIC, feature
	if v.IsUnsupported() {
		f.Fix = fix
	}
	a.add(f)
}

// Step is what puts a finding about a port right.
type Step struct {
	Action  plan.Action
	Phase   plan.Phase
	Summary string
	// Requires are ids of steps without which it makes no sense.
	Requires []string
	// Effect is Live where it is left out.
	Effect plan.Effect
	// Bounces: the link goes down and comes back, which is waited for.
	Bounces bool
}

// Judge adds a finding about a port. One that is not OK is put right by the step, if there is one and the port may be touched.
func (a *Assessor) Judge(p Port, f plan.Finding, s *Step) {
	f.Target = p.NICPort.NIC
	if f.Status == "" {
		f.Status = plan.OK
	}
	if f.Effect == plan.NoEffect {
		f.Effect = plan.Live
	}
	switch {
	case f.Status == plan.OK || s == nil:
	case p.Refusal != "":
		f.Fix = fmt.Sprintf("%s is not touched: %s; allow_protected = true in the block allows it", p.NICPort.NIC, p.Refusal)
	default:
		f.Fixable, f.By = true, s.Action.Kind()+":"+p.NICPort.NIC
		f.Effect = a.step(p, *s)
	}
	a.add(f)
}

// linkName is the name that all steps of a port's link provide.
func linkName(key string) string { return "link of " + key }

func (a *Assessor) step(p Port, s Step) plan.Effect {
	key := p.NICPort.NIC
	step := plan.Step{Phase: s.Phase, Target: key, Summary: s.Summary, Action: s.Action, Effect: max(plan.Live, s.Effect), Requires: s.Requires}
	if id := s.Action.Kind() + ":" + key; s.Phase == plan.PhaseLink {
		earlier := slices.DeleteFunc(slices.Clone(a.planned[key]), func(other string) bool { return other == id })
		step.After, step.Provides = slices.Concat(a.Before, earlier), []string{linkName(key)}
		a.planned[key] = append(earlier, id)
	}
	if s.Bounces {
		step.Effect = plan.LinkBounce
		a.bounce(p)
	}
	a.Steps = append(a.Steps, step)
	return step.Effect
}

// bounce notes that a port's link goes down, with what must come back.
func (a *Assessor) bounce(p Port) {
	link, _ := node.Link.Get(a.Facts, p.NICPort.NIC).Get()
	if carrier, _ := link.Carrier.Get(); !carrier {
		return
	}
	waited := plan.AwaitedPort{NIC: p.NICPort.NIC}
	if rdma := rdmaPort(p.NIC, a.Facts.Inventory); rdma != "" {
		state, _ := node.RDMAPort.Get(a.Facts, rdma).Get()
		if name, _ := state.State.Get(); name == node.RDMAActive {
			waited.RDMA, waited.GID = rdma, plan.HasRoCEv2GID(state)
		}
	}
	if !slices.Contains(a.bounced, waited) {
		a.bounced = append(a.bounced, waited)
	}
}

// How long links may take to come back, in seconds, and to go down. Training a link of 400 Gbit/s takes some.
const (
	linkDeadline = 60
	linkHold     = 2
)

// Result is the assessment, with one wait for all links that go down.
func (a *Assessor) Result() plan.Assessment {
	if len(a.bounced) == 0 {
		return a.Assessment
	}
	wait := plan.Step{
		Phase: plan.PhaseLink, Target: "links", Effect: plan.Live, Summary: "wait until the links are back, RDMA ports active and their GIDs there",
		Action: plan.AwaitLinks{Ports: a.bounced, DeadlineS: linkDeadline, HoldS: linkHold},
	}
	for _, p := range a.bounced {
		wait.After = append(wait.After, linkName(p.NIC))
	}
	a.Steps = append(a.Steps, wait)
	return a.Assessment
}
