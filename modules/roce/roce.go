// Package roce is the block type roce: lossless RoCE on ports of NICs. From one statement of the lossless class follow DCBX,
// trust, the map of DSCPs, PFC, ECN, and how traffic is marked.
package roce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/modules/nicport"
	"busbar/node"
	"busbar/plan"
)

// The words of attributes.
const (
	off       = "off"
	unmanaged = "unmanaged"
)

// The names that optional may list.
const (
	featureDCBX  = "dcbx"
	featurePause = "pause"
	featureStorm = "storm_prevention"
	featureMap   = "dscp_map"
	featurePFC   = "pfc"
	featureECN   = "ecn"
	featureCNP   = "cnp"
	featureClass = "traffic_class"
	featureToS   = "tos"
)

// rdmaCM is the module whose connections have defaults.
const rdmaCM = "rdma_cm"

// Type is the block type roce.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of roce.
func (Type) Spec() plan.Spec {
	class := cty.Object(map[string]cty.Type{"priority": cty.Number, "dscp": cty.Number, "cnp_priority": cty.Number, "cnp_dscp": cty.Number})
	return plan.Spec{
		Name: "roce", Label: plan.LabelRequired, LabelDoc: "a name for the ports",
		Doc: "Lossless RoCE on ports of NICs: who owns DCBX, trust and map of DSCPs, PFC, pause, ECN and congestion notification, and how traffic is marked, " +
			"all from one statement of the lossless class. It lasts until the next boot, and busbar.service sets it again at each. " +
			"optional may list what a driver lacks: dcbx, pause, storm_prevention, dscp_map, pfc, ecn, cnp, traffic_class, tos.",
		Ceiling: plan.LinkBounce, Sinks: nicport.Sinks(),
		Attributes: slices.Concat(nicport.Attributes(), []plan.Attribute{
			{Name: "lossless", Type: class, Required: true, Min: new(int64(0)), Max: new(int64(63)), Example: "{ priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }", Doc: "The lossless class, as the fabric's switches have it: its priority, the DSCP of RoCE, and priority and DSCP of congestion notification packets."},
			nicport.MTUAttribute(),
			{Name: "dcbx", Type: cty.String, Default: cty.StringVal(plan.DCBXHost), Enum: []string{plan.DCBXHost, plan.DCBXFirmware}, Example: `"firmware"`, Doc: "Who owns DCBX. host: busbar sets what the block says, and no agent of DCBX runs. firmware: the switch tells the adapter, and the map and PFC are only judged."},
			{Name: "pause", Type: cty.String, Default: cty.StringVal(off), Enum: []string{off, unmanaged}, Example: `"unmanaged"`, Doc: "Flow control of the whole link, which is at odds with PFC."},
			{Name: "roce_mode", Type: cty.String, Default: cty.StringVal("v2"), Enum: []string{"v2"}, Example: `"v2"`, Doc: "The RoCE of connections that rdma_cm makes. Packets of RoCE v1 have no IP header, hence no DSCP, and nothing of the lossless class holds for them."},
			{Name: "storm_prevention", Type: cty.Number, Min: new(int64(0)), Max: new(int64(ethtool.StormPreventionAuto)), Example: "8000", Doc: "For how many milliseconds a port may hold back its peer without a break; 0 is for ever, 65535 the driver's own. Left out, it is not judged."},
		}),
	}
}

// class is the lossless class; a number is -1 where it is withheld.
type class struct{ priority, dscp, cnpPriority, cnpDSCP int }

func (c class) known() bool {
	return c.priority >= 0 && c.dscp >= 0 && c.cnpPriority >= 0 && c.cnpDSCP >= 0
}

// keys are those of the attribute lossless.
var keys = []string{"priority", "dscp", "cnp_priority", "cnp_dscp"}

func (c class) numbers() []int { return []int{c.priority, c.dscp, c.cnpPriority, c.cnpDSCP} }

func classOf(b plan.Block) class {
	entries, _ := b.Entries("lossless") // an object by its type
	number := func(key string) int {
		n, ok := nicport.Number(entries[key])
		if !ok {
			return -1
		}
		return n
	}
	return class{number(keys[0]), number(keys[1]), number(keys[2]), number(keys[3])}
}

// Validate finds numbers that make no lossless class.
func (Type) Validate(b plan.Block) []plan.Problem {
	problems := nicport.Validate(b)
	c := classOf(b)
	wrong := func(key, summary, detail string) {
		problems = append(problems, plan.Problem{Attribute: "lossless", Key: key, Summary: summary, Detail: detail})
	}
	for i, key := range keys {
		if n := c.numbers()[i]; i%2 == 0 && n > 7 {
			wrong(key, "no priority", fmt.Sprintf("%s is %d; priorities are 0 to 7.", key, n))
		}
	}
	if c.priority >= 0 && c.priority == c.cnpPriority {
		wrong("cnp_priority", "congestion notification is in the lossless class", "It tells senders to slow down when that class is congested, and must not wait there. Give cnp_priority another priority.")
	}
	if c.dscp >= 0 && c.dscp == c.cnpDSCP {
		wrong("cnp_dscp", "congestion notification is in the lossless class", "dscp and cnp_dscp are one DSCP, which has one priority.")
	}
	if mtu, ok := nicport.Number(b.Attributes["mtu"]); ok && mtu < 4192 {
		problems = append(problems, plan.Problem{
			Attribute: "mtu", Warning: true, Summary: "an InfiniBand MTU of 4096 does not fit",
			Detail: fmt.Sprintf("RoCE takes 96 bytes of a packet: %d bytes are enough for an InfiniBand MTU of %d. 4192 and more fit 4096.", mtu, infiniBandMTU(mtu)),
		})
	}
	for _, feature := range b.Optional {
		if !slices.Contains([]string{featureDCBX, featurePause, featureStorm, featureMap, featurePFC, featureECN, featureCNP, featureClass, featureToS}, feature) {
			problems = append(problems, plan.Problem{Summary: "nothing that a driver may lack", Detail: fmt.Sprintf("optional lists %q; it is one of dcbx, pause, storm_prevention, dscp_map, pfc, ecn, cnp, traffic_class, tos.", feature)})
		}
	}
	return problems
}

// infiniBandMTU is the one that fits into a network device's (iboe_get_mtu in include/rdma/ib_addr.h).
func infiniBandMTU(mtu int) int {
	for _, fits := range []int{4096, 2048, 1024, 512} {
		if mtu-96 >= fits {
			return fits
		}
	}
	return 256
}

// agents are services that speak DCBX, and may change what busbar sets: lldpad, and what starts it.
var agents = []string{"lldpad.service", "lldpad.socket"}

// fcoe is Fibre Channel over Ethernet, whose service needs lldpad.
const fcoe = "fcoe.service"

// Queries are all settings of the ports, the agents of DCBX, and module rdma_cm.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	queries := append(nicport.Queries(b, inv), node.Module.Query(rdmaCM), node.Unit.Query(fcoe))
	for _, agent := range agents {
		queries = append(queries, node.Unit.Query(agent))
	}
	for _, key := range nicport.Keys(b) {
		queries = append(queries, node.DCB.Query(key), node.FlowControl.Query(key), node.RoCE.Query(key))
	}
	return queries
}

// assessor judges one block.
type assessor struct {
	*nicport.Assessor
	class
	host bool // DCBX is to be the host's
	// octets are the ports that have the DSCPs of whole octets in the lossless class, as mlx5 maps them, each with those beside the
	// class's own.
	octets []octet
}

// octet is a port with what its map has in the lossless class by default.
type octet struct {
	port   string
	dscps  []int
	source node.Source
}

// Assess judges the ports in the order in which they are set: DCBX, pause, MTU, the map of DSCPs, PFC, and when the links are
// back, ECN and the marks.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	a := &assessor{Assessor: nicport.Assess(b, facts), class: classOf(b), host: text(b, "dcbx") != plan.DCBXFirmware}
	a.contribute()
	if len(a.Ports) > 0 && a.host {
		a.agents()
	}
	for _, p := range a.Ports {
		a.port(p)
	}
	a.defaultMaps()
	return a.Result()
}

// text is a string of a block, or empty.
func text(b plan.Block, attribute string) string {
	v := b.Attributes[attribute]
	if v == cty.NilVal || v.IsNull() {
		return ""
	}
	return v.AsString()
}

// contribute says what no other block may contradict.
func (a *assessor) contribute() {
	for i, n := range a.numbers() {
		if n >= 0 {
			a.fact(plan.LosslessFact(keys[i]), fmt.Sprint(n), a.Block.OriginOf("lossless", keys[i]))
		}
	}
	a.Claim(nicport.StateFact, plan.UpOrDown(true), a.Block.Origin)
	a.Claim(plan.LinkLayerFact, "Ethernet", a.Block.Origin)
	a.fact(plan.RoCEVersionFact, "v2", a.Block.OriginOf("roce_mode", ""))
	if mtu, ok := nicport.Number(a.Block.Attributes["mtu"]); ok {
		a.ClaimMTU(mtu, a.Block.OriginOf("mtu", ""))
	}
	for _, own := range []string{plan.DCBXFact, "pause"} {
		if value := text(a.Block, own); value != "" && value != unmanaged {
			a.Claim(own, value, a.Block.OriginOf(own, ""))
		}
	}
	if ms, ok := nicport.Number(a.Block.Attributes["storm_prevention"]); ok {
		a.Claim("storm_prevention", fmt.Sprint(ms), a.Block.OriginOf("storm_prevention", ""))
	}
	if a.host {
		for _, agent := range agents {
			a.fact(plan.UnitFact(agent, "active"), "false", a.Block.OriginOf("dcbx", ""))
		}
	}
	a.Contributions = append(a.Contributions, plan.RDMAModuleFacts(nicport.Keys(a.Block), a.Facts.Inventory, a.Block.Origin)...)
	a.fact(plan.ModuleFact(rdmaCM), "loaded", a.Block.Origin)
}

func (a *assessor) fact(key, value string, origin plan.Origin) {
	a.Contributions = append(a.Contributions, plan.Contribution{Sink: plan.FactSink, Key: key, Value: value, Origin: origin})
}

// agents judges who else could set DCB on this host. What needs lldpad for the disks is not taken away.
func (a *assessor) agents() {
	v := node.Unit.Get(a.Facts, fcoe)
	u, _ := v.Get()
	storage := u.Active.IsKnown() && plan.ActiveText(u) == "active"
	if storage {
		a.Findings = append(a.Findings, plan.Finding{
			ID: "roce.agent", Target: fcoe, Status: plan.Conflict, Want: "inactive", Found: "active", Source: v.Source(),
			Summary: fcoe + " is active: FCoE has lldpad negotiate DCB of its ports, which can be these",
			Fix:     `stop it if no disk needs it; dcbx = "firmware" leaves DCB to the switch`,
		})
	}
	for _, agent := range agents {
		a.agent(agent, storage)
	}
}

func (a *assessor) agent(unit string, storage bool) {
	v := node.Unit.Get(a.Facts, unit)
	u, ok := v.Get()
	f := plan.Finding{ID: "roce.agent", Target: unit, Status: plan.OK, Want: "inactive", Source: v.Source(), Effect: plan.ServiceRestart}
	switch {
	case !ok:
		f = plan.Unread(f.ID, unit, v)
		f.Target = unit
	case u.Load == "not-found":
		f.Found, f.Summary = "not installed", unit+" is not installed"
	case !u.Active.IsKnown():
		f = plan.Unread(f.ID, "whether "+unit+" runs", u.Active)
		f.Target = unit
	default:
		_, status := plan.RunState("inactive", plan.ActiveText(u), u)
		f.Found = u.File + ", " + plan.ActiveText(u)
		f.Summary = unit + " is " + f.Found
		enabled := !plan.Enabled("disabled", u.File) && u.File != "masked"
		if status != plan.Drift && !enabled {
			break
		}
		f.Status = plan.Drift
		f.Summary += ": it sets DCB of ports as it negotiates with the switch, minutes after they were set"
		if storage {
			f.Fix = fcoe + " needs it"
			break
		}
		f.Fixable, f.Running = true, plan.ActiveText(u)
		set := plan.SetUnit{Unit: unit}
		if status == plan.Drift {
			set.Active = "inactive"
		}
		if enabled {
			set.Enablement = "disabled"
		}
		a.Before = append(a.Before, set.Kind()+":"+unit)
		a.Steps = append(a.Steps, plan.Step{Phase: plan.PhaseLink, Target: unit, Effect: plan.ServiceRestart, Summary: "stop and disable " + unit, Action: set})
	}
	a.Findings = append(a.Findings, f)
}

// port judges one port.
func (a *assessor) port(p nicport.Port) {
	if layer, ok := p.LinkLayer.Get(); ok && layer == "InfiniBand" {
		a.Skip(p, "infiniband", "it is on InfiniBand, whose subnet manager does all this")
		return
	}
	a.Up(p, true)
	a.Carrier(p)
	if p.PhysicalFunction == "" {
		a.physical(p)
	} else {
		a.Skip(p, "virtual_function", "it is a virtual function: DCBX, pause, DSCPs, PFC and ECN are those of its physical function "+p.PhysicalFunction)
		a.mtu(p)
	}
	a.marks(p)
}

func (a *assessor) mtu(p nicport.Port) {
	if mtu, ok := nicport.Number(a.Block.Attributes["mtu"]); ok {
		a.MTU(p, mtu)
	}
}

// physical judges what belongs to the port and not to a function of it.
func (a *assessor) physical(p nicport.Port) {
	v := node.DCB.Get(a.Facts, p.NICPort.NIC)
	dcb, ok := v.Get()
	blocked := ""
	if ok {
		blocked = a.dcbx(p, dcb)
	}
	a.pause(p)
	a.stormPrevention(p)
	a.mtu(p)
	switch {
	case ok:
		a.dscpMap(p, dcb, blocked)
		a.pfc(p, dcb, blocked)
	case v.IsUnsupported() && a.inGuest():
		a.Skip(p, "dcb", "the host of this virtual machine sets DCB: "+v.Reason())
	default:
		nicport.Unread(a.Assessor, p, "dcb", featurePFC, "Data Center Bridging", "use a NIC and a driver that have PFC, or leave the port out", v)
	}
	a.ecn(p)
	a.cnp(p)
}

// inGuest reports whether the node is known to be a virtual machine.
func (a *assessor) inGuest() bool {
	kind, ok := a.Facts.Inventory.Virtualization.Get()
	return ok && kind != "none"
}

// dcbx judges who owns DCBX, and says why the map and PFC cannot be set by the host; empty when they can.
func (a *assessor) dcbx(p nicport.Port, dcb node.DCBState) (blocked string) {
	d, ok := dcb.DCBX.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "dcbx", featureDCBX, "the owner of DCBX", "busbar sets DCB all the same; see that no firmware changes it later", dcb.DCBX)
		if !a.host {
			return "the switch is to set it"
		}
		return ""
	}
	want := plan.DCBXFirmware
	if a.host {
		want = plan.DCBXHost
	}
	f := plan.Finding{ID: "roce.dcbx", Want: want, Found: d.String(), Running: d.String(), Source: dcb.DCBX.Source(), Summary: fmt.Sprintf("DCBX of %s is %s", p.Name, d)}
	var step *nicport.Step
	switch {
	case plan.DCBXOwner(d) == want:
	case a.host && d&dcbnl.DCBXLLDManaged != 0 && dcb.Driver != "mlx5_core":
		f.Status = plan.Conflict
		f.Summary = fmt.Sprintf("the firmware of %s owns DCBX (%s), %s is wanted: it sets PFC and the map of DSCPs as the switch tells it", p.Name, d, want)
		f.Fix = firmwareDCBX(dcb.Driver)
		blocked = "the firmware owns DCBX"
	default:
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("DCBX of %s is %s, wanted is that the %s owns it", p.Name, d, want)
		step = &nicport.Step{Action: plan.SetDCBX{NICPort: p.NICPort, Owner: want}, Phase: plan.PhaseLink, Summary: fmt.Sprintf("give DCBX of NIC %s to the %s", p.NICPort.NIC, want)}
	}
	a.Judge(p, f, step)
	if !a.host {
		return "the switch sets it"
	}
	return blocked
}

// firmwareDCBX is how DCBX is taken from an adapter's firmware where the kernel has no way to.
func firmwareDCBX(driver string) string {
	const firmware = `; dcbx = "firmware" leaves DCB to the switch`
	switch driver {
	case "bnxt_en":
		return "turn DCBX off in the adapter's NVRAM with Broadcom's niccli, and reboot" + firmware
	case "ice":
		return "ethtool --set-priv-flags NETDEV fw-lldp-agent off" + firmware
	case "i40e":
		return "ethtool --set-priv-flags NETDEV disable-fw-lldp on" + firmware
	default:
		return "turn the firmware's LLDP agent off with its vendor's tool" + firmware
	}
}

// blockedFix is the fix of what the host may not set.
func blockedFix(f *plan.Finding, step *nicport.Step, blocked string) *nicport.Step {
	if blocked == "" {
		return step
	}
	if f.Status != "" && f.Status != plan.OK {
		f.Fix = "busbar does not set it: " + blocked
	}
	return nil
}

func (a *assessor) pause(p nicport.Port) {
	if text(a.Block, "pause") != off {
		return
	}
	v := node.FlowControl.Get(a.Facts, p.NICPort.NIC)
	flow, ok := v.Get()
	pause, known := flow.Pause.Get()
	switch {
	case !ok:
		nicport.Unread(a.Assessor, p, "pause", featurePause, "pause", "", v)
		return
	case !known:
		nicport.Unread(a.Assessor, p, "pause", featurePause, "pause", "see that the switch sends and takes no pause frames", flow.Pause)
		return
	}
	f := plan.Finding{ID: "roce.pause", Want: "rx off, tx off", Found: pause.String(), Running: pause.String(), Source: flow.Pause.Source(), Summary: fmt.Sprintf("pause of %s is %s", p.Name, pause)}
	if pause.Rx || pause.Tx {
		f.Status, f.Why = plan.Drift, "pause frames hold back all priorities, where PFC holds back one"
		f.Summary = fmt.Sprintf("pause of %s is %s, wanted is off", p.Name, pause)
	}
	a.Judge(p, f, &nicport.Step{Action: plan.SetPause{NICPort: p.NICPort}, Phase: plan.PhaseLink, Summary: "turn pause of NIC " + p.NICPort.NIC + " off"})
}

func (a *assessor) stormPrevention(p nicport.Port) {
	want, ok := nicport.Number(a.Block.Attributes["storm_prevention"])
	if !ok {
		return
	}
	v := node.FlowControl.Get(a.Facts, p.NICPort.NIC)
	flow, ok := v.Get()
	ms, known := flow.PFCStormPrevention.Get()
	switch {
	case !ok:
		nicport.Unread(a.Assessor, p, "storm_prevention", featureStorm, "PFC storm prevention", "", v)
		return
	case !known:
		nicport.Unread(a.Assessor, p, "storm_prevention", featureStorm, "PFC storm prevention", "use the switch's PFC watchdog", flow.PFCStormPrevention)
		return
	}
	f := plan.Finding{ID: "roce.storm_prevention", Want: fmt.Sprint(want), Found: fmt.Sprint(ms), Running: fmt.Sprint(ms), Source: flow.PFCStormPrevention.Source(), Summary: fmt.Sprintf("PFC storm prevention of %s is %d ms", p.Name, ms)}
	if ms != want {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("PFC storm prevention of %s is %d ms, wanted is %d", p.Name, ms, want)
	}
	a.Judge(p, f, &nicport.Step{
		Action: plan.SetStormPrevention{NICPort: p.NICPort, Milliseconds: want}, Phase: plan.PhaseLink,
		Summary: fmt.Sprintf("set PFC storm prevention of NIC %s to %d ms", p.NICPort.NIC, want),
	})
}

// dscpMap judges trust and map: the lossless DSCP has the lossless priority, that of congestion notification its own, and
// nothing else is lossless but what the driver's default map has there.
func (a *assessor) dscpMap(p nicport.Port, dcb node.DCBState, blocked string) {
	trust, ok := dcb.Trust.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "trust", featureMap, "what is trusted", "", dcb.Trust)
		return
	}
	apps, ok := dcb.Apps.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "dscp_map", featureMap, "the map of DSCPs", "", dcb.Apps)
		return
	}
	if !a.known() {
		return
	}
	set := plan.SetDSCPMap{NICPort: p.NICPort, Map: []plan.DSCPPriority{{DSCP: a.dscp, Priority: a.priority}, {DSCP: a.cnpDSCP, Priority: a.cnpPriority}}}
	strays, usual := a.strays(dcb, apps)
	for _, dscp := range strays {
		set.Map = append(set.Map, plan.DSCPPriority{DSCP: dscp, Priority: a.bestEffort()})
	}
	slices.SortFunc(set.Map, func(x, y plan.DSCPPriority) int { return x.DSCP - y.DSCP })
	step := &nicport.Step{Action: set, Phase: plan.PhaseLink, Summary: fmt.Sprintf("trust DSCPs on NIC %s and map %d to priority %d, %d to %d", p.NICPort.NIC, a.dscp, a.priority, a.cnpDSCP, a.cnpPriority)}
	if len(strays) > 0 {
		step.Summary += fmt.Sprintf(", DSCP %s to %d", plan.ListOr(strays, ""), a.bestEffort())
	}
	judge := func(f plan.Finding) { a.Judge(p, f, blockedFix(&f, step, blocked)) }

	f := plan.Finding{ID: "roce.trust", Want: node.TrustDSCP, Found: trust, Running: trust, Source: dcb.Trust.Source(), Summary: fmt.Sprintf("%s trusts %s", p.Name, trust)}
	if trust != node.TrustDSCP {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("%s trusts %s, wanted is dscp: packets without a VLAN tag have no priority", p.Name, trust)
	}
	judge(f)
	for i, m := range []plan.DSCPPriority{{DSCP: a.dscp, Priority: a.priority}, {DSCP: a.cnpDSCP, Priority: a.cnpPriority}} {
		have := plan.PrioritiesOf(apps, m.DSCP)
		found := plan.ListOr(have, "no entry")
		f := plan.Finding{
			ID: []string{"roce.dscp_map", "roce.cnp_map"}[i], Want: fmt.Sprintf("DSCP %d to priority %d", m.DSCP, m.Priority), Found: found, Running: found, Source: dcb.Apps.Source(),
			Summary: fmt.Sprintf("%s maps DSCP %d to priority %d", p.Name, m.DSCP, m.Priority),
		}
		if !slices.Equal(have, []int{m.Priority}) {
			f.Status, f.Summary = plan.Drift, fmt.Sprintf("%s maps DSCP %d to %s, wanted is priority %d", p.Name, m.DSCP, found, m.Priority)
		}
		judge(f)
	}
	if trust != node.TrustDSCP {
		return
	}
	if len(usual) > 0 {
		a.octets = append(a.octets, octet{p.NICPort.NIC, usual, dcb.Apps.Source()})
	}
	if len(strays) > 0 {
		judge(plan.Finding{
			ID: "roce.dscp_stray", Status: plan.Drift, Severity: plan.Warning, Want: fmt.Sprintf("priority %d for DSCP %d alone", a.priority, a.dscp), Found: "DSCP " + plan.ListOr(strays, ""),
			Source: dcb.Apps.Source(), Summary: fmt.Sprintf("%s has DSCP %s in the lossless class, too", p.Name, plan.ListOr(strays, "")),
		})
	}
}

// defaultMaps notes once that ports have their driver's default map, in which DSCPs that nobody is to use have the lossless
// priority beside the class's own. That is how these adapters come, and no fault.
func (a *assessor) defaultMaps() {
	if len(a.octets) == 0 {
		return
	}
	var names []string
	var dscps []int
	for _, o := range a.octets {
		names, dscps = append(names, o.port), append(dscps, o.dscps...)
	}
	slices.Sort(dscps)
	found := plan.ListOr(slices.Compact(dscps), "")
	a.Findings = append(a.Findings, plan.Finding{
		ID: "roce.dscp_default", Target: "nics", Status: plan.Drift, Severity: plan.Info, Source: a.octets[0].source,
		Want: fmt.Sprintf("priority %d for DSCP %d alone", a.priority, a.dscp), Found: "DSCP " + found,
		Summary: fmt.Sprintf("the default map of the driver has DSCP %s in the lossless class, too, at %s", found, strings.Join(names, ", ")),
		Fix:     "none is needed while nothing else on the fabric is sent with these DSCPs",
	})
}

// bestEffort is a priority that is neither lossless nor that of congestion notification.
func (a *assessor) bestEffort() int {
	p := 0
	for p == a.priority || p == a.cnpPriority {
		p++
	}
	return p
}

// strays are the DSCPs that are in the lossless class and should not be. Those that the default map of mlx5 and of mlnx_qos has
// there, DSCP/8, are usual, and so no strays. mlx5_core does not list what its firmware maps by default unless it trusted
// DSCPs as it began.
func (a *assessor) strays(dcb node.DCBState, apps []dcbnl.App) (strays, usual []int) {
	for dscp := range 64 {
		have := plan.PrioritiesOf(apps, dscp)
		implied := dcb.Driver == "mlx5_core" && len(have) == 0 && dscp/8 == a.priority
		switch {
		case dscp == a.dscp, dscp == a.cnpDSCP, !implied && !slices.Contains(have, a.priority):
		case dscp/8 == a.priority:
			usual = append(usual, dscp)
		default:
			strays = append(strays, dscp)
		}
	}
	return strays, usual
}

func (a *assessor) pfc(p nicport.Port, dcb node.DCBState, blocked string) {
	pfc, ok := dcb.PFC.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "pfc", featurePFC, "PFC", "use a NIC and a driver that have PFC, or leave the port out", dcb.PFC)
		return
	}
	if a.priority < 0 {
		return
	}
	want := dcbnl.Priorities(1 << a.priority)
	found := "off"
	if pfc.Enabled != 0 {
		found = "on for priority " + pfc.Enabled.String()
	}
	f := plan.Finding{
		ID: "roce.pfc", Want: "on for priority " + want.String(), Found: found, Running: found, Source: dcb.PFC.Source(), Effect: plan.LinkBounce,
		Summary: fmt.Sprintf("PFC of %s is %s", p.Name, found),
	}
	switch {
	case pfc.Enabled == want:
	case pfc.Enabled.Has(a.priority):
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("PFC of %s is %s, wanted is %s alone", p.Name, found, want)
		f.Why = "each further lossless class takes a share of the buffers and is another way into a deadlock"
	default:
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("PFC of %s is %s, wanted is priority %s", p.Name, found, want)
		f.Why = "without PFC packets are lost under load, and RoCE sends everything behind a lost packet again"
	}
	a.Judge(p, f, blockedFix(&f, &nicport.Step{
		Action: plan.SetPFC{NICPort: p.NICPort, Enabled: want}, Phase: plan.PhaseLink, Bounces: true,
		Summary: fmt.Sprintf("turn PFC of NIC %s on for priority %s alone; its link goes down and comes back", p.NICPort.NIC, want),
	}, blocked))
}
