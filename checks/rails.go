package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/ncclconf"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Rails is check "rails": whether each GPU has a NIC of its own near it.
type Rails struct{}

// Spec of check "rails".
func (Rails) Spec() plan.Spec {
	return plan.Spec{
		Name: "rails", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Each GPU has a NIC below a common PCIe switch (PIX or PXB of nvidia-smi topo -m), where NCCL uses GPUDirect RDMA by default, each NIC has an RDMA device, " +
			"which has a link, all are of one model and in slots of one kind, and what " + sink.NCCLPath + " gives " + hcaKey + " takes these NICs and no others.",
		Attributes: []plan.Attribute{nicsAttribute()},
	}
}

// Queries are NCCL's file, the ports, and what the NICs' PCIe links can do; the inventory tells the rest.
func (Rails) Queries(b plan.Block, inv node.Inventory) []node.Query {
	queries := append(queries(b, inv, node.RDMAPort, node.Link), node.File.Query(sink.NCCLPath))
	if inv.RootDirectory || virtualMachine(inv) {
		return queries
	}
	ports, _, _ := portsOf(b, inv)
	for _, p := range ports {
		queries = append(queries, node.PCILink.Query(p.Address))
		if f, _ := inv.PCIFunction(p.Address); f.Parent != "" {
			queries = append(queries, node.PCILink.Query(f.Parent))
		}
	}
	return queries
}

// Assess judges each GPU and each NIC, the NICs against each other, and which of them NCCL is told to take.
func (Rails) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	driven, a := survey(b, facts)
	for _, p := range driven {
		f := rdmaDevice(p, facts.Inventory)
		a.Findings = append(a.Findings, f)
		if down := p.down(facts, "rails.port"); f.Status == plan.OK && down.ID != "" {
			a.Findings = append(a.Findings, down)
		}
	}
	ports, _, all := portsOf(b, facts.Inventory)
	if _, withheld := b.IsWithheld("nics", ""); withheld || facts.Inventory.RootDirectory || !all.IsKnown() {
		return a
	}
	if len(ports) > 0 || givenNICs(b) {
		a.Findings = append(a.Findings, nearGPUs(ports, facts.Inventory)...)
	}
	a.Findings = append(a.Findings, models(ports)...)
	if !virtualMachine(facts.Inventory) {
		a.Findings = append(a.Findings, slots(ports, facts)...)
	}
	if len(driven) > 0 && facts.Inventory.RDMA.IsKnown() && facts.Inventory.Whole("rdma") {
		a.Findings = append(a.Findings, hcas(driven, facts)...)
	}
	return a
}

// givenNICs reports whether a block says which NICs it judges.
func givenNICs(b plan.Block) bool {
	v := b.Attributes["nics"]
	return v != cty.NilVal && !v.IsNull()
}

// rdmaDevice judges whether a NIC has an RDMA device.
func rdmaDevice(p port, inv node.Inventory) plan.Finding {
	const id = "rails.rdma"
	if !inv.RDMA.IsKnown() || inv.FromText() && !p.RDMA.IsKnown() {
		return unread(p, id, "the RDMA device", p.RDMA)
	}
	f := p.finding(id)
	f.Want, f.Source, f.Summary = "an RDMA device", p.RDMA.Source(), p.name()+" has an RDMA device"
	name, ok := p.RDMA.Get()
	f.Found = name
	if !ok {
		f.Status, f.Found, f.Summary = plan.Drift, "none", p.name()+" has no RDMA device"
		f.Fix = "load the driver's RDMA module (mlx5_ib, bnxt_re, irdma); where it is loaded, the kernel log says why it made none"
	}
	return f
}

// nearGPUs judges for each GPU how near the nearest of the NICs is.
func nearGPUs(ports []port, inv node.Inventory) []plan.Finding {
	gpus, _ := inv.GPUs().Get() // known where NICs are
	if len(gpus) == 0 {
		return []plan.Finding{{ID: "rails.gpu", Target: "gpus", Status: plan.Drift, Want: "1 or more GPUs", Found: "none", Source: inv.PCI.Source(), Summary: "no GPU on the PCI bus", Fix: noGPUFix}}
	}
	var others []node.NIC
	nics, _ := inv.NICs().Get()
	for _, n := range nics {
		if !slices.ContainsFunc(ports, func(p port) bool { return p.String() == n.String() }) {
			others = append(others, n)
		}
	}
	tree := inv.Topology()
	var findings []plan.Finding
	for _, g := range gpus {
		findings = append(findings, nearGPU(g, ports, others, tree))
	}
	return findings
}

// nearGPU judges how near the nearest of the NICs is to a GPU. others are the NICs that are not judged.
func nearGPU(g node.GPU, ports []port, others []node.NIC, tree node.Topology) plan.Finding {
	f := plan.Finding{ID: "rails.gpu", Target: g.Address, Status: plan.OK, Want: "a NIC at PXB or nearer", Found: "none", Source: tree.Relation(g.Address, g.Address).Source()}
	var nearest node.Relation
	var unknown node.Value[node.Relation]
	for _, p := range ports {
		v := tree.Relation(g.Address, p.Address)
		r, ok := v.Get()
		switch {
		case !ok:
			unknown = v
		case nearest == 0 || r < nearest:
			nearest, f.Source = r, v.Source()
			f.Found = fmt.Sprintf("%s at %s", p, r)
		}
	}
	switch {
	case nearest != 0 && nearest <= node.PXB:
		f.Summary = fmt.Sprintf("%s has %s", node.Called("GPU", g.Address), node.Called("NIC", f.Found))
		return f
	case !unknown.IsZero():
		f = plan.Unread(f.ID, "which NIC is near GPU "+g.Address, unknown)
		f.Target = g.Address
		return f
	}
	f.Status = plan.Drift
	f.Summary = node.Called("GPU", g.Address) + " has no NIC at PXB or nearer"
	if nearest != 0 {
		f.Summary += "; the nearest is " + f.Found
	}
	f.Why = "what a GPU sends to a NIC beyond its PCIe switch crosses the CPU, and NCCL copies it through host memory (NCCL_NET_GDR_LEVEL is PXB by default)"
	f.Fix = "look for a rail that fell off the bus, and for cards in other slots than the vendor means"
	aside(&f, g, others, tree)
	return f
}

// aside adds to the finding about a GPU without a NIC the one that is near it and not judged, or where all are farther the nearest.
func aside(f *plan.Finding, g node.GPU, others []node.NIC, tree node.Topology) {
	var nearest node.Relation
	var nic node.NIC
	for _, n := range others {
		if r, ok := tree.Relation(g.Address, n.Address).Get(); ok && (nearest == 0 || r < nearest) {
			nearest, nic = r, n
		}
	}
	protected, _ := nic.Protected.Get()
	switch at := fmt.Sprintf("%s (%s) is there, at %s", nic, nic.PCIID, nearest); {
	case nearest == 0:
	case nearest > node.PXB:
		if f.Found == "none" {
			f.Summary += fmt.Sprintf("; the nearest of the node is %s at %s", nic, nearest)
		}
	case protected:
		f.Summary = fmt.Sprintf("%s has no NIC of its own: %s, and protected", node.Called("GPU", g.Address), at)
		f.Fix = "move what protects it, the default route or the way back to an SSH client, to another NIC: busbar sets up no NIC that the node is reached by, and jobs would share it"
	default:
		f.Summary = fmt.Sprintf("%s has no NIC of those that are meant: %s, and not among them", node.Called("GPU", g.Address), at)
		f.Fix = "add it to nics if it is a rail; else look for the rail that fell off the bus"
	}
}

// models judges whether NICs are of one model.
func models(ports []port) []plan.Finding {
	ids := make([]node.Value[string], len(ports))
	for i, p := range ports {
		ids[i] = node.Known(p.PCIID, node.Source{Path: "/sys/bus/pci/devices/" + p.Address})
	}
	return odd("rails.model", "the PCI id", "see that the adapter is the one that was ordered; where models are mixed on purpose, say in nics which are rails", ports, ids)
}

// slots judges whether the PCIe links of NICs, each as good as both its ends can do, are alike. How they run is check pcie_link's.
func slots(ports []port, facts node.Facts) []plan.Finding {
	var linked []port
	var best []node.Value[string]
	able := func(address string) node.Value[pciregs.Link] {
		return partOf(node.PCILink.Get(facts, address), func(s node.PCILinkState) node.Value[pciregs.Link] { return s.Max })
	}
	for _, p := range ports {
		own := able(p.Address)
		if own.IsUnsupported() { // no PCI Express
			continue
		}
		linked = append(linked, p)
		best = append(best, partOf(own, func(link pciregs.Link) node.Value[string] {
			f, _ := facts.Inventory.PCIFunction(p.Address)
			if f.Parent == "" {
				return node.Known(link.String(), own.Source())
			}
			above := able(f.Parent)
			return partOf(above, func(other pciregs.Link) node.Value[string] {
				return node.Known(link.Within(other).String(), own.Source())
			})
		}))
	}
	return odd("rails.slot", "the best that the PCIe link can do", "look whether its slot or riser is wired for less, and in the BIOS for a limit of speed or bifurcation", linked, best)
}

// odd judges whether something is the same at all ports, as a warning that names those that differ from what most have.
func odd(id, what, fix string, ports []port, values []node.Value[string]) []plan.Finding {
	if len(ports) < 2 {
		return nil
	}
	count := map[string]int{}
	usual := ""
	for i, v := range values {
		text, ok := v.Get()
		if !ok {
			f := unread(ports[i], id, what, v)
			f.Severity = plan.Warning
			return []plan.Finding{f}
		}
		count[text]++
	}
	for _, v := range values { // of equally many, what the first has
		if text, _ := v.Get(); count[text] > count[usual] {
			usual = text
		}
	}
	f := plan.Finding{ID: id, Target: "nics", Severity: plan.Warning, Status: plan.OK, Want: "the same on all", Found: usual, Source: values[0].Source(), Summary: fmt.Sprintf("%s is %s on all rails", what, usual)}
	var differ []string
	for i, p := range ports {
		if text, _ := values[i].Get(); text != usual {
			differ = append(differ, fmt.Sprintf("%s on %s", text, p.name()))
			f.Source = values[i].Source()
		}
	}
	if len(differ) > 0 {
		f.Status, f.Found, f.Fix = plan.Drift, strings.Join(differ, ", "), fix
		f.Summary = fmt.Sprintf("%s differs: %s, %s on the other rails", what, f.Found, usual)
		f.Why = "a collective runs at the pace of its slowest rail"
	}
	return []plan.Finding{f}
}

// hcaKey selects the RDMA devices that NCCL uses.
const hcaKey = "NCCL_IB_HCA"

// hcas judges which RDMA ports NCCL's file has jobs take: all rails, no others, and none that does not exist.
func hcas(ports []port, facts node.Facts) []plan.Finding {
	const id = "rails.hca"
	setting := ncclSetting(facts, hcaKey)
	text, ok := setting.Get()
	if !ok {
		f := plan.Unread(id, "which NICs "+hcaKey+" takes", setting)
		f.Target = hcaKey
		return []plan.Finding{f}
	}
	about := func(id string) plan.Finding {
		return plan.Finding{ID: id, Target: hcaKey, Status: plan.OK, Source: setting.Source(), Found: text}
	}
	if text == "" {
		f := about(id)
		f.Want, f.Found, f.Summary = "all rails", "none", hcaKey+" is not set: NCCL looks for the NICs near each GPU itself"
		return []plan.Finding{f}
	}
	list := ncclconf.HCAList(text)
	selects := func(key string) bool {
		device, number, _ := strings.Cut(key, "/")
		n, _ := strconv.Atoi(number) // made of a number
		return list.Selects(device, n)
	}
	rails := map[string]bool{}
	var devices, left []string
	for _, p := range ports {
		key, ok := p.key.Get()
		if !ok { // told already
			continue
		}
		rails[key] = true
		device, _, _ := strings.Cut(key, "/")
		devices = append(devices, device)
		if !selects(key) {
			left = append(left, p.name())
		}
	}
	f := about(id)
	f.Want, f.Summary = "all rails", hcaKey+" takes all rails"
	fix := "look why no rail has an RDMA device"
	if len(devices) > 0 {
		fix = fmt.Sprintf("set %s to %q (block nccl)", hcaKey, "="+strings.Join(slices.Compact(devices), ","))
	}
	if len(left) > 0 {
		f.Status, f.Fix = plan.Drift, fix
		f.Summary = fmt.Sprintf("%s leaves out %s", hcaKey, strings.Join(left, ", "))
		f.Why = "jobs never use a rail that is left out, and its GPU's traffic takes another one's"
	}
	findings := []plan.Finding{f}
	if other := strangers(rails, selects, facts.Inventory); len(other) > 0 {
		f := about("rails.hca_other")
		f.Severity, f.Status, f.Want, f.Fix = plan.Warning, plan.Drift, "rails alone", "where these are no rails whose GPU is off the bus: "+fix
		f.Summary = fmt.Sprintf("%s takes what is no rail: %s", hcaKey, strings.Join(other, ", "))
		f.Why = "NCCL may open a connection over each device that it takes, and stripe traffic over it"
		findings = append(findings, f)
	}
	if gone := absentHCAs(list, facts.Inventory); len(gone) > 0 {
		f := about("rails.hca_missing")
		f.Status, f.Want, f.Fix = plan.Drift, "RDMA ports of this node", fix
		f.Summary = fmt.Sprintf("%s names what this node does not have: %s", hcaKey, strings.Join(gone, ", "))
		findings = append(findings, f)
	}
	return findings
}

// strangers are the RDMA ports that are selected and are no rails, in words.
func strangers(rails map[string]bool, selects func(key string) bool, inv node.Inventory) []string {
	var list []string
	owners := map[string]node.NIC{}
	nics, _ := inv.NICs().Get()
	for _, n := range nics {
		if key, ok := inv.RDMAPortOf(n).Get(); ok {
			owners[key] = n
		}
	}
	devices, _ := inv.RDMA.Get()
	for _, d := range devices {
		for _, p := range d.Ports {
			key := fmt.Sprintf("%s/%d", d.Name, p.Port)
			if rails[key] || !selects(key) {
				continue
			}
			why := "not among the rails"
			n, ok := owners[key]
			protected, _ := n.Protected.Get()
			near, told := n.GPUs.Get()
			switch {
			case protected:
				why = "protected"
			case ok && told && len(near) == 0:
				why = "near no GPU on the bus"
			}
			list = append(list, fmt.Sprintf("%s (%s)", key, why))
		}
	}
	return list
}

// absentHCAs are the names in a list that fit no RDMA port of the node. A list of exclusions may have such.
func absentHCAs(list ncclconf.List, inv node.Inventory) []string {
	var gone []string
	devices, _ := inv.RDMA.Get()
	for _, item := range list.Items {
		one := ncclconf.List{Exact: list.Exact, Items: []ncclconf.Item{item}}
		there := slices.ContainsFunc(devices, func(d node.RDMADevice) bool {
			return slices.ContainsFunc(d.Ports, func(p node.RDMADevicePort) bool { return one.Selects(d.Name, p.Port) })
		})
		if !there && !list.Exclude {
			name := item.Name
			if item.Port >= 0 {
				name = fmt.Sprintf("%s:%d", item.Name, item.Port)
			}
			gone = append(gone, name)
		}
	}
	return gone
}
