package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
)

// PCIeLink is check "pcie_link": whether links run as fast and as wide as both their ends can.
type PCIeLink struct{}

var _ plan.Validator = PCIeLink{}

// Spec of check "pcie_link".
func (PCIeLink) Spec() plan.Spec {
	one, widest := int64(1), int64(32)
	return plan.Spec{
		Name: "pcie_link", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The PCIe links above devices: as fast and as wide as both ends of each can. A GPU whose link idles at 2.5 GT/s is at rest, which is no fault; one whose model can do more than its slot is a note. Virtual machines show no links of their own and are skipped.",
		Attributes: []plan.Attribute{
			{Name: "devices", Type: cty.List(cty.String), Example: `["0000:19:00.0"]`, Doc: "PCI addresses. Left out, the GPUs and the network adapters that have a link."},
			{Name: "speed", Type: cty.Number, Min: &one, Fraction: true, Example: "32", Doc: "GT/s that each link must run at or be able to: 2.5, 5, 8, 16, 32 or 64. Left out, what both ends can."},
			{Name: "width", Type: cty.Number, Min: &one, Max: &widest, Example: "16", Doc: "Lanes that each link must have. Left out, what both ends can."},
		},
	}
}

type pcieLinkConfig struct {
	Devices []string `cty:"devices"`
	Speed   *float64 `cty:"speed"`
	Width   *int     `cty:"width"`
}

// Validate finds what is no PCI address, and no speed or width of a link.
func (PCIeLink) Validate(b plan.Block) []plan.Problem {
	var c pcieLinkConfig
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	var problems []plan.Problem
	for _, address := range c.Devices {
		if err := plan.CheckPCIAddress(address); err != nil {
			problems = append(problems, plan.Problem{Attribute: "devices", Summary: "not a PCI address", Detail: err.Error()})
		}
	}
	wish := c.wish(pciregs.Link{SpeedGTs: 2.5, Width: 1})
	if err := wish.Check(); err != nil {
		problems = append(problems, plan.Problem{Summary: "not a link", Detail: err.Error()})
	}
	return problems
}

// wish is the link that is wanted where both ends can do best.
func (c pcieLinkConfig) wish(best pciregs.Link) pciregs.Link {
	if c.Speed != nil {
		best.SpeedGTs = *c.Speed
	}
	if c.Width != nil {
		best.Width = *c.Width
	}
	return best
}

// linked are the functions whose links a block judges, sorted; of a device's functions,
// which share its link, the first.
func (c pcieLinkConfig) linked(b plan.Block, inv node.Inventory) node.Value[[]string] {
	if !inv.PCI.IsKnown() {
		return node.UnknownLike[[]string](inv.PCI)
	}
	if v := b.Attributes["devices"]; v != cty.NilVal && !v.IsNull() {
		return node.Known(slices.Compact(slices.Sorted(slices.Values(c.Devices))), node.Source{})
	}
	var all []string
	gpus, _ := inv.GPUs().Get()
	for _, g := range gpus {
		all = append(all, g.Address)
	}
	nics, _ := inv.NICs().Get()
	for _, n := range nics {
		all = append(all, n.Address)
	}
	slices.Sort(all)
	device := func(address string) string { d, _, _ := strings.Cut(address, "."); return d }
	return node.Known(slices.CompactFunc(all, func(a, b string) bool { return device(a) == device(b) }), inv.PCI.Source())
}

// virtualMachine reports that the links are those that a hypervisor shows.
func virtualMachine(inv node.Inventory) bool {
	virtualization, ok := inv.Virtualization.Get()
	return ok && virtualization != "none"
}

// Queries are the links of the devices, and of the ports above, which tell what the other
// ends can do.
func (PCIeLink) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c pcieLinkConfig
	if inv.RootDirectory || virtualMachine(inv) || b.Decode(&c) != nil {
		return nil
	}
	var queries []node.Query
	addresses, _ := c.linked(b, inv).Get()
	for _, address := range addresses {
		queries = append(queries, node.PCILink.Query(address))
		if f, _ := inv.PCIFunction(address); f.Parent != "" {
			queries = append(queries, node.PCILink.Query(f.Parent))
		}
	}
	return queries
}

const linkID = "pcie_link.link"

// Assess compares what each link does with what its ends can do.
func (PCIeLink) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c pcieLinkConfig
	if len(b.Withheld) > 0 || b.Decode(&c) != nil { // each attribute can turn the verdict
		return plan.Assessment{}
	}
	inv := facts.Inventory
	links := func(f plan.Finding) plan.Assessment {
		f.Target = "links"
		return plan.Assessment{Findings: []plan.Finding{f}}
	}
	switch {
	case inv.RootDirectory:
		return links(plan.Finding{ID: linkID, Status: plan.Skipped, Summary: "hardware is not judged (--root)"})
	case virtualMachine(inv):
		return links(plan.Finding{ID: linkID, Status: plan.Skipped, Summary: "a virtual machine shows the links that its hypervisor chose to show"})
	case !inv.Virtualization.IsKnown() && !inv.FromText():
		return links(plan.Unread(linkID, "whether these links are real (those of a virtual machine are not)", inv.Virtualization))
	}
	v := c.linked(b, inv)
	addresses, ok := v.Get()
	if !ok {
		return links(plan.Unread(linkID, "which devices have links", v))
	}
	var a plan.Assessment
	for _, address := range addresses {
		if f, judged := c.judge(address, facts); judged {
			a.Findings = append(a.Findings, f)
		}
	}
	return a
}

// judge is the finding for one device; false for one without a link that nobody named, and for one of whose link text says nothing.
func (c pcieLinkConfig) judge(address string, facts node.Facts) (plan.Finding, bool) {
	inv := facts.Inventory
	function, there := inv.PCIFunction(address)
	if !there {
		return plan.Finding{
			ID: linkID, Target: address, Status: plan.Drift, Want: "a PCI function", Found: "none", Source: inv.PCI.Source(),
			Summary: "there is no PCI function " + address, Fix: "correct the list of devices, or look why this one is gone",
		}, true
	}
	v := node.PCILink.Get(facts, address)
	state, _ := v.Get()
	link := state.Current
	if !v.IsKnown() {
		link = node.UnknownLike[pciregs.Link](v)
	}
	now, ok := link.Get()
	own, bestKnown := state.Max.Get()
	best := own
	switch {
	case state.Fault != "":
		return plan.Finding{
			ID: "pcie_link.down", Target: address, Status: plan.Drift, Want: "a device that answers", Found: state.Fault, Source: v.Source(),
			Summary: fmt.Sprintf("%s cannot be reached: %s", address, state.Fault),
			Why:     "it has fallen off the bus, is not powered or does not train its link: what its driver and nvidia-smi still show of it is of before",
			Fix:     "look for Xid 79, AER and pciehp in the kernel log; power the node off and on, and where it comes back have its seat, riser, power and cooling looked at",
		}, true
	case inv.FromText() && v.IsZero() && c.Devices == nil:
		return plan.Finding{}, false
	case link.IsUnsupported() && c.Devices == nil:
		return plan.Finding{}, false
	case link.IsUnsupported() && c.Speed == nil && c.Width == nil:
		return plan.Finding{ID: linkID, Target: address, Status: plan.Skipped, Source: link.Source(), Summary: fmt.Sprintf("%s has no link to judge: %s", address, link.Reason())}, true
	case !ok:
		return unreadLink(address, "the link of "+address, link), true
	case !bestKnown:
		return unreadLink(address, "what the link of "+address+" can do", state.Max), true
	}
	// Below a root bus there is no port to ask; the function's own best is what is known.
	bothEnds := !inv.FromText()
	if function.Parent != "" {
		above := node.PCILink.Get(facts, function.Parent)
		port, _ := above.Get()
		limit := port.Max
		if !above.IsKnown() {
			limit = node.UnknownLike[pciregs.Link](above)
		}
		other, ok := limit.Get()
		switch {
		case ok:
			best, bothEnds = best.Within(other), true
		case !inv.FromText():
			return unreadLink(address, fmt.Sprintf("what %s, the port above %s, can do", function.Parent, address), limit), true
		}
	}
	f := c.compare(function, state, best, bothEnds)
	if doubtful := !bothEnds || !inv.Virtualization.IsKnown(); doubtful && f.Status == plan.Drift && 2*now.Width >= best.Width {
		f.Severity = cmp.Or(f.Severity, plan.Warning)
	}
	return f, true
}

func unreadLink(address, what string, v node.Value[pciregs.Link]) plan.Finding {
	f := plan.Unread(linkID, what, v)
	f.Target = address
	return f
}

// ends says which ends of a link are known to be able to do something.
func ends(both bool) string {
	if both {
		return "both ends"
	}
	return "the device"
}

// slowest is the speed at which an idle GPU lets its link run.
const slowest = 2.5

// compare judges a link that could run as best, which is what both of its ends can do, or as far as is known the function's own.
func (c pcieLinkConfig) compare(function node.PCIFunction, state node.PCILinkState, best pciregs.Link, bothEnds bool) plan.Finding {
	now, _ := state.Current.Get()
	own, _ := state.Max.Get()
	busy, _ := state.Busy.Get()
	want, source := c.wish(best), state.Current.Source()
	f := plan.Finding{
		ID: linkID, Target: function.Address, Status: plan.OK, Source: source, Want: want.String(), Found: now.String(), Running: now.String(),
		Summary: fmt.Sprintf("the link of %s runs at %s", function.Address, now),
	}
	idle := function.IsNVIDIAGPU() && now.SpeedGTs == slowest && now.SpeedGTs < want.SpeedGTs && !busy
	narrow, slow := now.Width < want.Width, now.SpeedGTs < want.SpeedGTs && !idle
	switch {
	case best.Slower(want):
		f.ID, f.Status = "pcie_link.limit", plan.Drift
		f.Summary += fmt.Sprintf(", %s can do %s, wanted is %s", ends(bothEnds), best, want)
		f.Fix = "use a slot that can do more; look in the BIOS whether its speed or bifurcation is limited"
		if own.Slower(want) {
			f.Fix = fmt.Sprintf("the card itself can do %s: no slot makes it faster; use another model, or want less of this one in the profile", own)
		}
	case narrow, slow:
		f.ID, f.Status = "pcie_link.speed", plan.Drift
		if narrow {
			f.ID = "pcie_link.width"
		}
		f.Summary += fmt.Sprintf(", %s can do %s", ends(bothEnds), best)
		f.Why = "all traffic of the device goes over this link: half the lanes or half the speed is half the bandwidth"
		f.Fix = "power off and reseat the card and its cable, then try another riser or slot; look in the BIOS for a limit of speed or bifurcation, and for correctable errors of the link (AER) in the kernel log"
		if !bothEnds {
			f.Fix = "look what the port above it can do, in lspci -vvv of that port: a slot may be wired for less; where it can do more, " + f.Fix
		}
		if !narrow && !busy && function.IsNVIDIAGPU() {
			f.Severity = plan.Warning
			f.Fix = "look again while the GPU works, since its link may be at rest; if it stays slow, " + f.Fix
		}
	case idle:
		f.Summary += fmt.Sprintf(", as an idle GPU's does; %s can do %s", ends(bothEnds), best)
	}
	if gpu := (node.GPU{Address: function.Address, PCIID: function.ID()}); f.Status == plan.OK && c.Speed == nil && function.IsNVIDIAGPU() && best.SpeedGTs < speedOf(gpu) {
		f.ID, f.Status, f.Severity = "pcie_link.limit", plan.Drift, plan.Info
		f.Summary = fmt.Sprintf("%s can do %gGT/s, and with its slot %s", name(gpu), speedOf(gpu), best)
		f.Fix = "look in the BIOS whether the slot's speed is limited, where the board can do more"
	}
	return f
}

// speedOf is what the link of a GPU of its model can do in GT/s, 0 where that is not known. From the third generation on
// each doubles the rate of the one before (PCI Express Base Specification, 4.2).
func speedOf(g node.GPU) float64 {
	m, _ := g.Model()
	if m.PCIe < 3 {
		return 0
	}
	return float64(uint(8) << (m.PCIe - 3))
}
