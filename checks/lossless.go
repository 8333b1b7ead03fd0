package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/dcbnl"
	"busbar/internal/ncclconf"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Lossless is check "lossless": whether everything that classifies RoCE traffic means the same class.
type Lossless struct{}

var _ plan.Validator = Lossless{}

// trafficClassKey is the traffic class of NCCL's queue pairs, four times their DSCP.
const trafficClassKey = "NCCL_IB_TC"

// Spec of check "lossless".
func (Lossless) Spec() plan.Spec {
	low, high := int64(0), int64(63)
	class := cty.ObjectWithOptionalAttrs(map[string]cty.Type{
		"priority": cty.Number, "dscp": cty.Number, "cnp_priority": cty.Number, "cnp_dscp": cty.Number,
	}, []string{"priority", "dscp", "cnp_priority", "cnp_dscp"})
	return plan.Spec{
		Name: "lossless", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "One lossless class for RoCE on all ports: PFC, trust and DSCP map, ECN, congestion notification packets, the default ToS, the traffic class and " + trafficClassKey + " agree, and pause of the whole link is off.",
		Attributes: []plan.Attribute{
			nicsAttribute(),
			{Name: "lossless", Type: class, Min: &low, Max: &high, Example: "{ priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }", Doc: "The class, and that of congestion notification packets. What is left out is what most ports have: then they need only agree."},
		},
	}
}

// Validate finds priorities above 7, and notification packets in the class that they are to relieve.
func (Lossless) Validate(b plan.Block) []plan.Problem {
	var problems []plan.Problem
	for _, key := range []string{"priority", "cnp_priority"} {
		if n := given(b, key); n.known && n.value > 7 {
			problems = append(problems, plan.Problem{Attribute: "lossless", Key: key, Summary: "no priority", Detail: fmt.Sprintf("%s is %d; priorities are from 0 to 7.", key, n.value)})
		}
	}
	if p, cnp := given(b, "priority"), given(b, "cnp_priority"); p.known && p == cnp {
		problems = append(problems, plan.Problem{Attribute: "lossless", Key: "cnp_priority", Summary: "notification packets in the lossless class", Detail: "They would be held back with the traffic that they are to slow down."})
	}
	return problems
}

// number is a part of the class; derived where the profile does not give it, and then partial where some of what could say otherwise,
// or say it at all, could not be read.
type number struct {
	value                   int
	known, derived, partial bool
}

// hold takes back that something agrees with n, where what could not be read may have said otherwise.
func (n number) hold(f plan.Finding) plan.Finding {
	if f.Status == plan.OK && n.partial {
		f.Status = plan.Undetermined
		f.Summary += "; whether that is the class is unknown, since not everything could be read"
	}
	return f
}

// words is the number, and where it comes from when the profile does not give it.
func (n number) words() string {
	if n.derived {
		return fmt.Sprintf("%d, as elsewhere on the node", n.value)
	}
	return strconv.Itoa(n.value)
}

// given is a part of the class that the block gives.
func given(b plan.Block, key string) number {
	v := b.Attributes["lossless"]
	if v == cty.NilVal || v.IsNull() {
		return number{}
	}
	v = v.GetAttr(key)
	if v.IsNull() {
		return number{}
	}
	n, _ := v.AsBigFloat().Int64()
	return number{value: int(n), known: true}
}

// stated are the numbers that the block gives, which no block may set otherwise.
func stated(b plan.Block) []plan.Contribution {
	var facts []plan.Contribution
	for _, key := range []string{"priority", "dscp", "cnp_priority", "cnp_dscp"} {
		if n := given(b, key); n.known {
			facts = append(facts, plan.Contribution{Sink: plan.FactSink, Key: plan.LosslessFact(key), Value: n.words(), Origin: b.OriginOf("lossless", key)})
		}
	}
	return facts
}

// Queries are what classifies traffic at each port, and NCCL's file.
func (Lossless) Queries(b plan.Block, inv node.Inventory) []node.Query {
	return append(queries(b, inv, node.DCB, node.FlowControl, node.RoCE), node.File.Query(sink.NCCLPath))
}

// Assess judges each port, and NCCL's file.
func (Lossless) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	ports, a := survey(b, facts)
	a.Contributions = stated(b)
	if len(ports) == 0 {
		return a
	}
	var classes []classifier
	for _, p := range ports {
		layer, ok := p.LinkLayer.Get()
		switch {
		case !ok:
			a.Findings = append(a.Findings, unread(p, "lossless.pfc", "the link layer", p.LinkLayer))
			continue
		case layer == infiniBand:
			a.Findings = append(a.Findings, wrongLayer(p, "lossless.pfc", ethernet, layer, p.LinkLayer.Source()))
			continue
		}
		classes = append(classes, newClassifier(p, facts))
	}
	nccl := ncclSetting(facts, trafficClassKey)
	want := classOf(b, classes, nccl)
	for _, c := range classes {
		a.Findings = append(a.Findings, c.pfc(want), c.pauseOff(), c.trusts(), c.tos(want), c.trafficClass(want))
		a.Findings = append(a.Findings, c.mapped(want)...)
		a.Findings = append(a.Findings, c.marked("lossless.notification_point", "answers ECN marks", want, func(s node.RoCEState) node.Value[dcbnl.Priorities] { return s.NotificationPoint })...)
		a.Findings = append(a.Findings, c.marked("lossless.reaction_point", "slows down on congestion notification packets", want, func(s node.RoCEState) node.Value[dcbnl.Priorities] { return s.ReactionPoint })...)
		a.Findings = append(a.Findings, c.notifications(want)...)
	}
	a.Findings = append(a.Findings, ncclClass(want, nccl))
	return a
}

// class is the lossless class and that of congestion notification packets (CNP).
type class struct{ priority, dscp, cnpPriority, cnpDSCP number }

// classifier is what classifies the traffic of a port.
type classifier struct {
	port
	dcb                  node.Value[node.DCBState]
	pfcSet               node.Value[dcbnl.PFC]
	pause                node.Value[bool]
	roce                 node.Value[node.RoCEState]
	defaultToS           node.Value[int]
	traffic              node.Value[node.TrafficClass]
	cnpDSCP, cnpPriority node.Value[int]
}

func newClassifier(p port, facts node.Facts) classifier {
	c := classifier{port: p, dcb: node.DCB.Get(facts, p.String()), roce: node.RoCE.Get(facts, p.String())}
	c.pfcSet = partOf(c.dcb, func(s node.DCBState) node.Value[dcbnl.PFC] { return s.PFC })
	c.pause = partOf(node.FlowControl.Get(facts, p.String()), func(s node.FlowControlState) node.Value[bool] {
		pause, ok := s.Pause.Get()
		if !ok {
			return node.UnknownLike[bool](s.Pause)
		}
		return node.Known(pause.Rx || pause.Tx, s.Pause.Source())
	})
	c.defaultToS = partOf(c.roce, func(s node.RoCEState) node.Value[int] { return s.DefaultToS })
	c.traffic = partOf(c.roce, func(s node.RoCEState) node.Value[node.TrafficClass] { return s.TrafficClass })
	c.cnpDSCP = partOf(c.roce, func(s node.RoCEState) node.Value[int] { return cnpSetting(s, s.CNPDSCP, "np_cnp_dscp") })
	c.cnpPriority = partOf(c.roce, func(s node.RoCEState) node.Value[int] { return cnpSetting(s, s.CNPPriority, "np_cnp_prio") })
	return c
}

// cnpSetting is a setting of congestion notification packets as MLNX_OFED has it, or as the kernel's own driver shows it in
// debugfs. There the priority counts in mode 0 alone (drivers/infiniband/hw/mlx5/cong.c).
func cnpSetting(s node.RoCEState, v node.Value[int], parameter string) node.Value[int] {
	if !v.IsUnsupported() {
		return v
	}
	return partOf(s.CCParams, func(parameters map[string]uint32) node.Value[int] {
		n, ok := parameters[parameter]
		if !ok || parameter == "np_cnp_prio" && parameters["np_cnp_prio_mode"] != 0 {
			return node.Unsupported[int](parameter+" does not say it", s.CCParams.Source())
		}
		return node.Known(int(n), s.CCParams.Source())
	})
}

// classOf is the class that everything is held against: what the block gives, else what most have. DSCP 0 is what nobody
// has set. The default ToS, which can seldom be read, says the DSCP where nothing else does.
func classOf(b plan.Block, classes []classifier, nccl node.Value[string]) class {
	var priority, dscp, tos, cnpPriority, cnpDSCP votes
	one := func(n int) []int { return []int{n} }
	mark := func(trafficClass int) []int {
		if trafficClass < 4 {
			return nil
		}
		return one(trafficClass >> 2)
	}
	for _, c := range classes {
		vote(&priority, c.pfcSet, func(p dcbnl.PFC) []int { return p.Enabled.List() })
		vote(&dscp, c.traffic, func(t node.TrafficClass) []int { return mark(t.Global) })
		vote(&tos, c.defaultToS, mark)
		vote(&cnpPriority, c.cnpPriority, one)
		vote(&cnpDSCP, c.cnpDSCP, one)
	}
	vote(&dscp, nccl, func(text string) []int {
		n, _, _ := ncclconf.Int(text)
		return mark(int(min(n, 255)))
	})
	if len(dscp.found) == 0 {
		tos.partial = tos.partial || dscp.partial
		dscp = tos
	}
	part := func(key string, v votes) number {
		if n := given(b, key); n.known {
			return n
		}
		return v.most()
	}
	return class{part("priority", priority), part("dscp", dscp), part("cnp_priority", cnpPriority), part("cnp_dscp", cnpDSCP)}
}

// votes are what is found of one number; partial where some could not be read.
type votes struct {
	found   []int
	partial bool
}

// vote adds the numbers that a fact says.
func vote[T any](v *votes, fact node.Value[T], numbers func(T) []int) {
	if x, ok := fact.Get(); ok {
		v.found = append(v.found, numbers(x)...)
		return
	}
	v.partial = v.partial || !fact.IsUnsupported()
}

// most is the most frequent number, the smallest of several.
func (v votes) most() number {
	counts := map[int]int{}
	for _, n := range v.found {
		counts[n]++
	}
	numbers := sortedKeys(counts)
	if len(numbers) == 0 {
		return number{partial: v.partial}
	}
	return number{value: slices.MaxFunc(numbers, func(a, b int) int { return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(b, a)) }), known: true, derived: true, partial: v.partial}
}

// skipped is the finding about a setting that the driver does not have.
func (c classifier) skipped(id, what string, reason string) plan.Finding {
	f := c.finding(id)
	f.Status, f.Summary = plan.Skipped, fmt.Sprintf("%s of %s is not judged: %s", what, c.name(), reason)
	return f
}

// lacking is the finding about a setting that is not known: a driver may lack it, but not fail to tell it.
func lacking[T any](c classifier, id, what string, v node.Value[T]) plan.Finding {
	if v.IsUnsupported() {
		return c.skipped(id, what, v.Reason())
	}
	return unread(c.port, id, what, v)
}

// pfc judges for which priorities PFC is on.
func (c classifier) pfc(want class) plan.Finding {
	const id = "lossless.pfc"
	set, ok := c.pfcSet.Get()
	if !ok {
		return unread(c.port, id, "PFC", c.pfcSet)
	}
	f := c.finding(id)
	f.Want, f.Found, f.Source = "one priority", set.Enabled.String(), c.pfcSet.Source()
	f.Summary = fmt.Sprintf("%s has PFC on for priority %s", c.name(), f.Found)
	if want.priority.known {
		f.Want = want.priority.words()
	}
	if list := set.Enabled.List(); len(list) == 1 && list[0] == want.priority.value {
		return want.priority.hold(f)
	}
	f.Status = plan.Drift
	f.Summary += ", wanted is " + f.Want
	switch len(set.Enabled.List()) {
	case 0:
		f.Why = "a full queue drops packets, and RoCE sends everything behind a lost one again"
	case 1:
	default:
		f.Why = "each lossless priority takes a part of the buffer, and more of them make deadlocks likelier"
	}
	f.Fix = "set PFC on the port and on the switch alike"
	return f
}

// pauseOff judges that the port does not hold back the whole link.
func (c classifier) pauseOff() plan.Finding {
	const id = "lossless.pause"
	on, ok := c.pause.Get()
	if !ok {
		return lacking(c, id, "pause", c.pause)
	}
	f := c.finding(id)
	f.Want, f.Found, f.Source, f.Summary = "off", "off", c.pause.Source(), "pause of the whole link is off on "+c.name()
	if on {
		f.Status, f.Found = plan.Drift, "on"
		f.Summary = fmt.Sprintf("%s has pause of the whole link on, beside PFC", c.name())
		f.Why = "one of the two holds back what the other lets through, and a switch takes no part in both"
		f.Fix = fmt.Sprintf("ethtool -A %s rx off tx off", c.netdev())
	}
	return f
}

// trusts judges that the DSCP gives the priority.
func (c classifier) trusts() plan.Finding {
	const id = "lossless.trust"
	v := partOf(c.dcb, func(s node.DCBState) node.Value[string] { return s.Trust })
	trust, ok := v.Get()
	if !ok {
		return unread(c.port, id, "trust", v)
	}
	f := c.finding(id)
	f.Want, f.Found, f.Source, f.Summary = node.TrustDSCP, trust, v.Source(), fmt.Sprintf("%s trusts %s", c.name(), trust)
	if trust != node.TrustDSCP {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + node.TrustDSCP
		f.Why = "routed packets have no VLAN tag, and all come in with priority 0"
		f.Fix = fmt.Sprintf("map DSCPs to priorities (block roce, or dcb app add dev %s dscp-prio DSCP:PRIORITY): drivers trust DSCPs from the first on", c.netdev())
	}
	return f
}

// mapped judges to which priorities the DSCPs of the class and of its notification packets are mapped.
func (c classifier) mapped(want class) []plan.Finding {
	const id = "lossless.dscp_map"
	v := partOf(c.dcb, func(s node.DCBState) node.Value[[]dcbnl.App] { return s.Apps })
	apps, ok := v.Get()
	if !ok {
		return []plan.Finding{unread(c.port, id, "the DSCP map", v)}
	}
	state, _ := c.dcb.Get() // known where its map is
	trust, trustKnown := state.Trust.Get()
	judge := func(id string, dscp, priority number) []plan.Finding {
		if !dscp.known || !priority.known {
			return nil
		}
		f := c.finding(id)
		var found []int
		for _, a := range apps {
			if a.Selector == dcbnl.DSCP && int(a.Protocol) == dscp.value {
				found = append(found, int(a.Priority))
			}
		}
		what := fmt.Sprintf("DSCP %d", dscp.value)
		f.Want, f.Source = "priority "+priority.words(), v.Source()
		switch {
		case len(found) == 0 && state.Driver == "mlx5_core":
			f.Status = plan.Undetermined
			f.Summary = fmt.Sprintf("to which priority %s maps %s is unknown: the kernel lists no more than was changed since the driver began", c.name(), what)
			f.Fix = fmt.Sprintf("map it, to what it has already or not: dcb app add dev %s dscp-prio %d:%d", c.netdev(), dscp.value, priority.value)
		case len(found) == 0:
			f.Status, f.Found, f.Summary = plan.Drift, "not mapped", fmt.Sprintf("%s does not map %s, wanted is %s", c.name(), what, f.Want)
			f.Fix = fmt.Sprintf("dcb app add dev %s dscp-prio %d:%d, and the same on the switch", c.netdev(), dscp.value, priority.value)
		case slices.ContainsFunc(found, func(n int) bool { return n != priority.value }):
			f.Status, f.Found = plan.Drift, fmt.Sprint("priority ", found)
			f.Summary = fmt.Sprintf("%s maps %s to priority %v, wanted is %s", c.name(), what, found, f.Want)
			f.Fix = fmt.Sprintf("dcb app replace dev %s dscp-prio %d:%d, and the same on the switch", c.netdev(), dscp.value, priority.value)
		default:
			f.Found = "priority " + strconv.Itoa(priority.value)
			f.Summary = fmt.Sprintf("%s maps %s to %s", c.name(), what, f.Found)
		}
		if f = priority.hold(dscp.hold(f)); f.Status != plan.OK && trustKnown && trust != node.TrustDSCP {
			f = c.skipped(id, "the map of "+what, "the port trusts "+trust)
		}
		return []plan.Finding{f}
	}
	return append(judge(id, want.dscp, want.priority), judge("lossless.cnp_map", want.cnpDSCP, want.cnpPriority)...)
}

// marked judges for which priorities ECN is on.
func (c classifier) marked(id, does string, want class, part func(node.RoCEState) node.Value[dcbnl.Priorities]) []plan.Finding {
	v := partOf(c.roce, part)
	set, ok := v.Get()
	if !ok {
		return []plan.Finding{lacking(c, id, "ECN", v)}
	}
	if !want.priority.known {
		return nil // the finding about PFC says that there is no class
	}
	f := c.finding(id)
	f.Want, f.Found, f.Source = want.priority.words(), set.String(), v.Source()
	f.Summary = fmt.Sprintf("%s %s for priorities %s", c.name(), does, set)
	if !set.Has(want.priority.value) {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		f.Why = "without ECN senders slow down only when PFC stops them, and their neighbours with them"
		f.Fix = setByRoCE
	}
	return []plan.Finding{want.priority.hold(f)}
}

// setByRoCE says who sets what only the vendor's driver has, and the marks of traffic.
const setByRoCE = "have block roce set it (lossless = { ... }), or set it alike on all NICs and on the switches"

// notifications judges with what congestion notification packets are sent.
func (c classifier) notifications(want class) []plan.Finding {
	judge := func(id, what string, v node.Value[int], want number) []plan.Finding {
		have, ok := v.Get()
		if !ok {
			return []plan.Finding{lacking(c, id, what, v)}
		}
		f := c.finding(id) // a number that is known makes one that is wanted
		f.Want, f.Found, f.Source = want.words(), strconv.Itoa(have), v.Source()
		f.Summary = fmt.Sprintf("%s of %s is %d", what, c.name(), have)
		if have != want.value {
			f.Status, f.Fix = plan.Drift, setByRoCE
			f.Summary += ", wanted is " + f.Want
		}
		return []plan.Finding{want.hold(f)}
	}
	findings := judge("lossless.cnp_dscp", "the DSCP of notification packets", c.cnpDSCP, want.cnpDSCP)
	priority := judge("lossless.cnp_priority", "the priority of notification packets", c.cnpPriority, want.cnpPriority)
	if have, ok := c.cnpPriority.Get(); ok && want.priority.known && have == want.priority.value {
		priority[0].Status, priority[0].Fix = plan.Drift, setByRoCE
		priority[0].Summary += ", the lossless one"
		priority[0].Why = "they are held back with the traffic that they are to slow down"
	}
	priority[0] = want.priority.hold(priority[0])
	return append(findings, priority...)
}

// tos judges the default of connections that rdma_cm makes.
func (c classifier) tos(want class) plan.Finding {
	const id = "lossless.tos"
	tos, ok := c.defaultToS.Get()
	if !ok {
		f := lacking(c, id, "the default ToS of rdma_cm", c.defaultToS)
		if f.Status == plan.Undetermined {
			f.Severity = plan.Info // NCCL does not use rdma_cm for its data
		}
		return f
	}
	return c.marks(id, "the default ToS of rdma_cm", tos, want, c.defaultToS.Source())
}

// trafficClass judges the traffic class that overrides what applications choose.
func (c classifier) trafficClass(want class) plan.Finding {
	const id, what = "lossless.traffic_class", "the traffic class"
	traffic, ok := c.traffic.Get()
	switch {
	case !ok:
		return lacking(c, id, what, c.traffic)
	case traffic.Global < 0:
		return c.skipped(id, what, "none is set, applications choose")
	}
	return c.marks(id, what, traffic.Global, want, c.traffic.Source())
}

// marks judges a ToS byte of a port.
func (c classifier) marks(id, what string, tos int, want class, source node.Source) plan.Finding {
	f := marking(fmt.Sprintf("%s on %s", what, c.name()), tos, want)
	f.ID, f.Target, f.Source = id, c.String(), source
	return f
}

// marking judges a ToS byte, of which the DSCP counts: the two bits of ECN are the driver's.
func marking(what string, tos int, want class) plan.Finding {
	f := plan.Finding{Status: plan.OK, Want: "the DSCP of a lossless class", Found: fmt.Sprintf("%d: DSCP %d", tos, tos>>2)}
	f.Summary = fmt.Sprintf("%s is %d, DSCP %d", what, tos, tos>>2)
	if want.dscp.known {
		f.Want = "DSCP " + want.dscp.words()
	}
	if !want.dscp.known || tos>>2 != want.dscp.value {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		f.Why = "traffic with another DSCP goes through a queue that drops"
		f.Fix = setByRoCE
	}
	return want.dscp.hold(f)
}

// ncclClass judges what NCCL marks its traffic with.
func ncclClass(want class, v node.Value[string]) plan.Finding {
	const id = "lossless.nccl"
	text, ok := v.Get()
	if !ok {
		f := plan.Unread(id, "what NCCL marks its traffic with", v)
		f.Target = trafficClassKey
		return f
	}
	n, _, _ := ncclconf.Int(text)
	f := marking(trafficClassKey, int(max(0, min(n, 255))), want)
	f.ID, f.Target, f.Source = id, trafficClassKey, v.Source()
	if text == "" {
		f.Found, f.Summary = "not set: DSCP 0", fmt.Sprintf("%s is not set, and NCCL marks its traffic with DSCP 0", trafficClassKey)
	}
	if f.Status != plan.OK && want.dscp.known {
		f.Fix = fmt.Sprintf("set %s=%d in %s (block nccl); the traffic class of a NIC does not reach queue pairs that GPUs open", trafficClassKey, 4*want.dscp.value, sink.NCCLPath)
	}
	return f
}
