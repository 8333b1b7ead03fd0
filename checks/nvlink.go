package checks

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// NVLink is check "nvlink": whether the NVLinks of GPUs are active, and as fast as their model's.
type NVLink struct{}

// Spec of check "nvlink".
func (NVLink) Spec() plan.Spec {
	none, most := int64(0), int64(36)
	return plan.Spec{
		Name: "nvlink", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The NVLinks of each GPU: how many are active, and how fast those are.",
		Attributes: []plan.Attribute{
			{Name: "links", Type: cty.Number, Min: &none, Max: &most, Example: "18", Doc: "How many links of each GPU must be active. Left out, what is normal for its model: on a card that takes a bridge all that the bridge uses, or none."},
		},
	}
}

type nvlinkConfig struct {
	Links *int `cty:"links"`
}

// Queries are the links of each GPU, and the driver's parameters, which can turn them off.
func (NVLink) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	queries := eachGPU(inv, node.NVLinks)
	if len(queries) > 0 {
		queries = append(queries, node.NVIDIADriver.Query(""))
	}
	return queries
}

const (
	linksID     = "nvlink.links"
	linkSpeedID = "nvlink.speed"
)

// Assess counts the active links of each GPU.
func (NVLink) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c nvlinkConfig
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	gpus, a, ok := gpusToJudge(linksID, facts)
	if !ok {
		return a
	}
	if len(gpus) == 1 && c.Links == nil && facts.Inventory.Partial == "" {
		return skippedGPUs(linksID, "there is one GPU, which has no peer: say in links how many NVLinks it must have all the same")
	}
	driver, _ := node.NVIDIADriver.Get(facts, "").Get()
	parameters, _ := driver.Parameters.Get()
	usual := usuallySwitched(gpus, facts)
	for _, g := range gpus {
		v := node.NVLinks.Get(facts, g.Address)
		state, ok := v.Get()
		active := state.Active()
		if !ok && !v.IsUnsupported() {
			active = node.UnknownLike[int](v)
		}
		f := c.count(g, state, active)
		if n, ok := active.Get(); ok && f.Status == plan.Skipped && n < usual {
			f.Status, f.Want = plan.Drift, strconv.Itoa(usual)
			f.Summary = fmt.Sprintf("%s, most others have %d to NVSwitches", links(g, n), usual)
		}
		f.Source = v.Source()
		if f.Status == plan.Undetermined && f.Fix == "" {
			f.Fix = "ask the driver: nvidia-smi nvlink -s -i " + g.Address + "; where it fails too, look for Xid in the kernel log"
		}
		if f.Status == plan.Drift {
			f.Why = "what the GPU sends to others takes the links that are left, or PCIe, and no program fails"
			f.Fix = linksFix(g, parameters, active)
		}
		a.Findings = append(a.Findings, f)
		if f, judged := slowLinks(g, state); judged {
			f.Source = v.Source()
			a.Findings = append(a.Findings, f)
		}
	}
	return a
}

// count judges how many links are active.
func (c nvlinkConfig) count(g node.GPU, state node.NVLinkState, active node.Value[int]) plan.Finding {
	n, ok := active.Get()
	if !ok {
		return unreadGPU(linksID, g.Address, "how many NVLinks are active", active)
	}
	f := plan.Finding{ID: linksID, Target: g.Address, Status: plan.OK, Found: strconv.Itoa(n), Running: strconv.Itoa(n)}
	f.Summary = links(g, n)
	model, known := g.Model()
	switch {
	case c.Links != nil:
		f.Want = strconv.Itoa(*c.Links)
		if n != *c.Links {
			f.Status = plan.Drift
		}
	case !known || !model.KnowsLinks():
		f.Status = plan.Skipped
		model := "a " + g.PCIID
		if _, device, _ := strings.Cut(g.PCIID, ":"); device == "" {
			model = "its model, which nobody said,"
		}
		f.Summary += fmt.Sprintf(", and how many are normal for %s is not known: say so in links", model)
	default:
		f.Want = strconv.Itoa(model.Links)
		if !model.NormalLinks(n) {
			f.Status = plan.Drift
		}
	}
	if f.Status == plan.Drift {
		f.Summary += ", wanted is " + f.Want + inactive(state)
	}
	return f
}

// links says how many NVLinks of a GPU are active.
func links(g node.GPU, n int) string {
	switch n {
	case 0:
		return name(g) + " has no NVLink active"
	case 1:
		return name(g) + " has 1 NVLink active"
	default:
		return fmt.Sprintf("%s has %d NVLinks active", name(g), n)
	}
}

// usuallySwitched is how many active NVLinks to NVSwitches most GPUs have, 0 where most have none: GPUs on one board with
// NVSwitches have equally many, whatever their model.
func usuallySwitched(gpus []node.GPU, facts node.Facts) int {
	count := map[int]int{}
	for _, g := range gpus {
		state, _ := node.NVLinks.Get(facts, g.Address).Get()
		n := 0
		for _, l := range state.Links {
			active, _ := l.State.Get()
			if remote, _ := l.Remote.Get(); active == node.NVLinkActive && remote == node.NVLinkToSwitch {
				n++
			}
		}
		count[n]++
	}
	for n, having := range count {
		if 2*having > len(gpus) {
			return n
		}
	}
	return 0
}

// inactive names the links that are not active.
func inactive(state node.NVLinkState) string {
	var numbers []string
	for _, l := range state.Links {
		if s, ok := l.State.Get(); ok && s != node.NVLinkActive {
			numbers = append(numbers, strconv.Itoa(l.Link))
		}
	}
	switch len(numbers) {
	case 0, len(state.Links):
		return ""
	case 1:
		return ": link " + numbers[0] + " is not"
	default:
		return ": links " + enumerate(numbers) + " are not"
	}
}

// linksFix says what to do about links that are not active.
func linksFix(g node.GPU, parameters map[string]string, active node.Value[int]) string {
	model, _ := g.Model()
	n, _ := active.Get()
	switch {
	case parameters["NvLinkDisable"] == "1":
		return "the driver was loaded with NVreg_NvLinkDisable=1: take it out of /etc/modprobe.d and of the command line, and load the driver anew"
	case n == 0 && model.Peers == node.NVLinkBridge:
		return "put the bridge between the cards, or reseat it; look for Xid 74 in the kernel log"
	case n == 0:
		return "look whether the fabric manager runs and what its log says (/var/log/fabricmanager.log), and for Xid 74 and SXid in the kernel log; then reset the GPUs (nvidia-smi -r)"
	default:
		return "look for Xid 74, Xid 144 to 150 and SXid in the kernel log; reset the GPUs (nvidia-smi -r); links that stay away are the vendor's to repair"
	}
}

// slowLinks judges the slowest of the active links; false where there is none, or what its model can is not known. A link without a
// rate carries nothing, whatever the model.
func slowLinks(g node.GPU, state node.NVLinkState) (plan.Finding, bool) {
	model, _ := g.Model()
	var slowest *node.NVLinkPort
	var unread []plan.Finding
	speedOf := func(l node.NVLinkPort) int { speed, _ := l.SpeedMBps.Get(); return speed }
	for i, l := range state.Links {
		s, ok := l.State.Get()
		switch {
		case !ok && !l.State.IsUnsupported():
			unread = append(unread, unreadGPU(linkSpeedID, g.Address, fmt.Sprintf("the state of NVLink %d", l.Link), l.State))
		case s != node.NVLinkActive:
		case !l.SpeedMBps.IsKnown():
			unread = append(unread, unreadGPU(linkSpeedID, g.Address, fmt.Sprintf("the speed of NVLink %d", l.Link), l.SpeedMBps))
		case slowest == nil || speedOf(l) < speedOf(*slowest):
			slowest = &state.Links[i]
		}
	}
	dead := slowest != nil && speedOf(*slowest) == 0
	switch {
	case model.SpeedMBps == 0 && !dead:
		return plan.Finding{}, false
	case len(unread) > 0 && (slowest == nil || speedOf(*slowest) >= model.SpeedMBps && !dead):
		return unread[0], true
	case slowest == nil:
		return plan.Finding{}, false
	}
	speed := speedOf(*slowest)
	f := plan.Finding{ID: linkSpeedID, Target: g.Address, Status: plan.OK, Want: "at least " + gigabytes(model.SpeedMBps), Found: gigabytes(speed)}
	f.Summary = fmt.Sprintf("the active NVLinks of %s run at %s or more", name(g), f.Found)
	switch {
	case dead:
		f.Status, f.Want = plan.Drift, "a rate"
		f.Summary = fmt.Sprintf("NVLink %d of %s is active with a rate of 0 GB/s: it carries nothing", slowest.Link, name(g))
		f.Fix = "look for Xid 74 and SXid in the kernel log; reset the GPUs (nvidia-smi -r); links that stay so are the vendor's to repair"
	case speed < model.SpeedMBps:
		f.Status = plan.Drift
		f.Summary = fmt.Sprintf("NVLink %d of %s runs at %s, NVLinks of generation %d have %s", slowest.Link, name(g), f.Found, model.Generation, gigabytes(model.SpeedMBps))
		f.Fix = "look for NVreg_RmNvlinkBandwidth in /etc/modprobe.d, which saves power at the cost of speed, and for Xid 74 in the kernel log"
	}
	return f, true
}

// gigabytes writes MB/s as GB/s, as nvidia-smi nvlink -s does.
func gigabytes(mbps int) string { return fmt.Sprintf("%d.%03d GB/s", mbps/1000, mbps%1000) }
