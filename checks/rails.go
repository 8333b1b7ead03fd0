package checks

import (
	"fmt"

	"busbar/node"
	"busbar/plan"
)

// Rails is check "rails": whether each GPU has a NIC of its own near it.
type Rails struct{}

// Spec of check "rails".
func (Rails) Spec() plan.Spec {
	return plan.Spec{
		Name: "rails", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc:        "Each GPU has a NIC below a common PCIe switch (PIX or PXB of nvidia-smi topo -m), where NCCL uses GPUDirect RDMA by default, and each NIC has an RDMA device.",
		Attributes: []plan.Attribute{nicsAttribute()},
	}
}

// Queries is empty: the inventory tells.
func (Rails) Queries(plan.Block, node.Inventory) []node.Query { return nil }

// Assess judges each GPU and each NIC.
func (Rails) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	driven, a := survey(b, facts)
	for _, p := range driven {
		a.Findings = append(a.Findings, rdmaDevice(p, facts.Inventory))
	}
	ports, _, _ := portsOf(b, facts.Inventory)
	if _, withheld := b.IsWithheld("nics", ""); withheld || facts.Inventory.RootDirectory || len(ports) == 0 {
		return a
	}
	gpus, _ := facts.Inventory.GPUs().Get() // known where NICs are
	tree := facts.Inventory.Topology()
	for _, g := range gpus {
		a.Findings = append(a.Findings, nearGPU(g, ports, tree))
	}
	if len(gpus) == 0 {
		a.Findings = append(a.Findings, plan.Finding{ID: "rails.gpu", Target: "gpus", Status: plan.Drift, Want: "1 or more GPUs", Found: "none", Source: facts.Inventory.PCI.Source(), Summary: "no GPU on the PCI bus"})
	}
	return a
}

// rdmaDevice judges whether a NIC has an RDMA device.
func rdmaDevice(p port, inv node.Inventory) plan.Finding {
	const id = "rails.rdma"
	if !inv.RDMA.IsKnown() {
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

// nearGPU judges how near the nearest of the NICs is to a GPU.
func nearGPU(g node.GPU, ports []port, tree node.Topology) plan.Finding {
	f := plan.Finding{ID: "rails.gpu", Target: g.Address, Status: plan.OK, Want: "a NIC at PXB or nearer"}
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
		f.Summary = fmt.Sprintf("GPU %s has NIC %s", g.Address, f.Found)
	case !unknown.IsZero():
		f = plan.Unread(f.ID, "which NIC is near GPU "+g.Address, unknown)
		f.Target = g.Address
	default:
		f.Status = plan.Drift
		f.Summary = fmt.Sprintf("GPU %s has no NIC at PXB or nearer; the nearest is %s", g.Address, f.Found)
		f.Why = "what a GPU sends to a NIC beyond its PCIe switch crosses the CPU, and NCCL copies it through host memory (NCCL_NET_GDR_LEVEL is PXB by default)"
		f.Fix = "look for a rail that fell off the bus, and for cards in other slots than the vendor means"
	}
	return f
}
