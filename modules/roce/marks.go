package roce

import (
	"fmt"

	"busbar/internal/dcbnl"
	"busbar/modules/nicport"
	"busbar/node"
	"busbar/plan"
)

// What the kernel's own driver would need instead of the files of MLNX_OFED.
const (
	inboxECN   = "install DOCA-OFED's driver; or set ROCE_CC_PRIO_MASK_P1 to 255 or the bit of the priority with mstconfig, which holds from the next reset of the firmware"
	inboxCNP   = "install DOCA-OFED's driver; or set CNP_DSCP_P1 and CNP_802P_PRIO_P1 with mstconfig, which hold from the next reset of the firmware"
	inboxClass = "install DOCA-OFED's driver; or have each program set its traffic class: NCCL_IB_TC for NCCL, UCX_IB_TRAFFIC_CLASS for UCX"
)

// settings are those of a port's RoCE; what could not be read is told under the id of what.
func (a *assessor) settings(p nicport.Port, what, feature, sentence string) (node.RoCEState, bool) {
	v := node.RoCE.Get(a.Facts, p.NICPort.NIC)
	roce, ok := v.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, what, feature, sentence, "", v)
	}
	return roce, ok
}

// ecn judges for which priorities the port notifies of congestion, and reacts to it.
func (a *assessor) ecn(p nicport.Port) {
	const sentence = "congestion control per priority"
	roce, ok := a.settings(p, "ecn", featureECN, sentence)
	if !ok || a.priority < 0 {
		return
	}
	np, npKnown := roce.NotificationPoint.Get()
	rp, rpKnown := roce.ReactionPoint.Get()
	switch {
	case !npKnown:
		nicport.Unread(a.Assessor, p, "ecn", featureECN, sentence, inboxECN, roce.NotificationPoint)
		return
	case !rpKnown:
		nicport.Unread(a.Assessor, p, "ecn", featureECN, sentence, inboxECN, roce.ReactionPoint)
		return
	}
	want := dcbnl.Priorities(1 << a.priority)
	found := fmt.Sprintf("notification point %s, reaction point %s", np, rp)
	f := plan.Finding{
		ID: "roce.ecn", Want: "priority " + want.String() + " on both points", Found: found, Running: found, Source: roce.NotificationPoint.Source(),
		Summary: fmt.Sprintf("%s notifies of congestion and reacts to it for priority %s", p.Name, want),
	}
	if np&rp&want != want {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("%s has no congestion control for priority %s: %s", p.Name, want, found)
		f.Why = "without it PFC alone holds back senders, and the pauses spread through the fabric"
	}
	a.Judge(p, f, &nicport.Step{
		Action: plan.SetECN{NICPort: p.NICPort, Priorities: want}, Phase: plan.PhaseRDMA,
		Summary: fmt.Sprintf("turn congestion control of NIC %s on for priority %s", p.NICPort.NIC, want),
	})
}

// cnp judges how congestion notification packets are sent.
func (a *assessor) cnp(p nicport.Port) {
	const sentence = "how congestion notification packets are sent"
	roce, ok := a.settings(p, "cnp", featureCNP, sentence)
	if !ok || !a.known() {
		return
	}
	dscpValue, priorityValue := plan.CNP(roce)
	dscp, dscpKnown := dscpValue.Get()
	priority, priorityKnown := priorityValue.Get()
	switch {
	case !dscpKnown:
		nicport.Unread(a.Assessor, p, "cnp", featureCNP, sentence, inboxCNP, dscpValue)
		return
	case !priorityKnown:
		nicport.Unread(a.Assessor, p, "cnp", featureCNP, sentence, inboxCNP, priorityValue)
		return
	}
	set := plan.SetCNP{NICPort: p.NICPort, DSCP: a.cnpDSCP, Priority: a.cnpPriority}
	found, want := plan.CNPText(dscp, priority), plan.CNPText(set.DSCP, set.Priority)
	f := plan.Finding{ID: "roce.cnp", Want: want, Found: found, Running: found, Source: dscpValue.Source(), Summary: fmt.Sprintf("congestion notification of %s has %s", p.Name, found)}
	if dscp != set.DSCP || priority != set.Priority {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("congestion notification of %s has %s, wanted is %s", p.Name, found, want)
	}
	a.Judge(p, f, &nicport.Step{Action: set, Phase: plan.PhaseRDMA, Summary: fmt.Sprintf("send congestion notification of NIC %s with %s", p.NICPort.NIC, want)})
}

// marks judges which DSCP traffic has that no program marks. Each function has its own.
func (a *assessor) marks(p nicport.Port) {
	roce, ok := a.settings(p, "marks", featureToS, "how RoCE is marked")
	if !ok || a.dscp < 0 {
		return
	}
	a.trafficClass(p, roce)
	a.defaults(p, roce)
}

func (a *assessor) trafficClass(p nicport.Port, roce node.RoCEState) {
	tc, ok := roce.TrafficClass.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "traffic_class", featureClass, "the global traffic class", inboxClass, roce.TrafficClass)
		return
	}
	want := a.dscp << 2
	found := plan.TrafficClassText(tc.Global)
	f := plan.Finding{
		ID: "roce.traffic_class", Want: plan.TrafficClassText(want), Found: found, Running: found, Source: roce.TrafficClass.Source(),
		Summary: fmt.Sprintf("the global traffic class of %s is %s", p.Name, found),
	}
	if !plan.SameDSCP(tc.Global, want) {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("the global traffic class of %s is %s, wanted is %s", p.Name, found, f.Want)
		f.Why = "programs that set none send into the lossy class"
	}
	a.Judge(p, f, &nicport.Step{
		Action: plan.SetTrafficClass{NICPort: p.NICPort, Class: want}, Phase: plan.PhaseRDMA,
		Summary: fmt.Sprintf("set the global traffic class of NIC %s to %d", p.NICPort.NIC, want),
	})
}

// defaults judges what connections of rdma_cm get. They can only be read in a directory of configfs, which the step
// makes; module rdma_cm shows it.
func (a *assessor) defaults(p nicport.Port, roce node.RoCEState) {
	want := plan.SetConnectionDefaults{NICPort: p.NICPort, ToS: a.dscp << 2, Mode: node.GIDRoCEv2}
	step := &nicport.Step{
		Action: want, Phase: plan.PhaseRDMA,
		Summary: fmt.Sprintf("let connections of rdma_cm on NIC %s have ToS %d and %s", p.NICPort.NIC, want.ToS, want.Mode),
	}
	wanted := fmt.Sprintf("ToS %s, %s", plan.TrafficClassText(want.ToS), want.Mode)
	if roce.DefaultToS.Needs() == node.CapabilityRDMACM {
		f := plan.Finding{
			ID: "roce.tos", Status: plan.Drift, Want: wanted, Found: "not set", Running: "not set", Source: roce.DefaultToS.Source(),
			Summary: fmt.Sprintf("what connections of rdma_cm get on %s is not set: %s", p.Name, roce.DefaultToS.Reason()),
		}
		if p.Refusal == "" && !a.loadRDMACM(&f, step) {
			step = nil
		}
		a.Judge(p, f, step)
		return
	}
	tos, ok := roce.DefaultToS.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "tos", featureToS, "the default ToS", "", roce.DefaultToS)
		return
	}
	mode, ok := roce.DefaultMode.Get()
	if !ok {
		nicport.Unread(a.Assessor, p, "tos", featureToS, "the default mode", "", roce.DefaultMode)
		return
	}
	found := fmt.Sprintf("ToS %s, %s", plan.TrafficClassText(tos), mode)
	f := plan.Finding{ID: "roce.tos", Want: wanted, Found: found, Running: found, Source: roce.DefaultToS.Source(), Summary: fmt.Sprintf("connections of rdma_cm on %s get %s", p.Name, found)}
	if !plan.SameDSCP(tos, want.ToS) || mode != want.Mode {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("connections of rdma_cm on %s get %s, wanted is %s", p.Name, found, wanted)
	}
	a.Judge(p, f, step)
}

// loadRDMACM has the module loaded before the step, where it is not; false when it cannot be.
func (a *assessor) loadRDMACM(f *plan.Finding, step *nicport.Step) bool {
	v := node.Module.Get(a.Facts, rdmaCM)
	m, ok := v.Get()
	release, _ := a.Facts.Inventory.Kernel.Get()
	disk, installed := m.On(release)
	switch {
	case !ok:
		f.Fix = "whether module rdma_cm is loaded is unknown: " + v.Reason()
		return false
	case m.Loaded, disk.BuiltIn:
		return true
	case installed && disk.Path == "":
		f.Fix = "install module rdma_cm for the running kernel"
		return false
	}
	load := plan.LoadModule{Name: rdmaCM}
	a.Steps = append(a.Steps, plan.Step{Phase: plan.PhaseModules, Target: rdmaCM, Effect: plan.Live, Summary: "load module " + rdmaCM, Action: load})
	step.Requires = append(step.Requires, load.Kind()+":"+rdmaCM)
	return true
}
