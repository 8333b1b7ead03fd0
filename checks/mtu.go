package checks

import (
	"fmt"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// MTU is check "mtu": the InfiniBand MTU of RoCE ports.
type MTU struct{}

// Spec of check "mtu".
func (MTU) Spec() plan.Spec {
	low, high := int64(256), int64(4096)
	return plan.Spec{
		Name: "mtu", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The InfiniBand MTU of RoCE ports, which follows from the MTU of their network devices: 256, 512, 1024, 2048 or 4096 bytes, the same on all. Queue pairs between ports that differ fail, or run at half speed.",
		Attributes: []plan.Attribute{
			nicsAttribute(),
			{Name: "min", Type: cty.Number, Default: cty.NumberIntVal(4096), Min: &low, Max: &high, Example: "4096", Doc: "What the InfiniBand MTU must be at least, 256 to 4096 bytes; it is not the MTU of the network device, into which it has to fit: 4096 into 4192 and more, 1024 into 1500."},
		},
	}
}

// Queries are the RDMA ports and their links.
func (MTU) Queries(b plan.Block, inv node.Inventory) []node.Query {
	return queries(b, inv, node.RDMAPort, node.Link)
}

// Assess judges each port, and whether all are equal.
func (MTU) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	const id = "mtu.active"
	var least int64
	if v := b.Attributes["min"]; v != cty.NilVal && !v.IsNull() {
		least, _ = v.AsBigFloat().Int64()
	}
	all, a := survey(b, facts)
	var ports []port
	var sizes []node.Value[int]
	for _, p := range all {
		v := p.rdma(facts)
		state, ok := v.Get()
		if ok && state.LinkLayer != ethernet {
			a.Findings = append(a.Findings, wrongLayer(p, id, ethernet, state.LinkLayer, v.Source()))
			continue
		}
		mtu := partOf(v, func(node.RDMAPortState) node.Value[int] {
			return partOf(p.link(facts), func(l node.LinkState) node.Value[int] { return l.MTU })
		})
		ports = append(ports, p)
		sizes = append(sizes, partOf(mtu, func(bytes int) node.Value[int] { return node.Known(infiniBandMTU(bytes), mtu.Source()) }))
		a.Findings = append(a.Findings, besides(p.down(facts, "mtu.port"), judgeMTU(p, id, mtu, int(least)))...)
	}
	if len(ports) > 1 {
		f := alike("mtu.equal", "InfiniBand MTU", ports, sizes, strconv.Itoa)
		if f.Status == plan.Drift {
			f.Fix = "give the network devices one MTU; NCCL no longer lowers it to that of the peer"
		}
		a.Findings = append(a.Findings, f)
	}
	return a
}

// judgeMTU holds the InfiniBand MTU that follows from a network device's against the least that will do.
func judgeMTU(p port, id string, mtu node.Value[int], least int) plan.Finding {
	bytes, ok := mtu.Get()
	if !ok {
		return unread(p, id, "the MTU", mtu)
	}
	have := infiniBandMTU(bytes)
	f := p.finding(id)
	f.Want, f.Found, f.Source = fmt.Sprintf("%d or more", least), strconv.Itoa(have), mtu.Source()
	f.Summary = fmt.Sprintf("%s has InfiniBand MTU %d, of %d on %s", p.name(), have, bytes, p.netdev())
	if have < least {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		f.Fix = fmt.Sprintf("give %s an MTU of %d or more where it is configured (netplan, NetworkManager, systemd-networkd), the switch first; the next boot forgets what ip link sets", p.netdev(), least+plan.RoCEOverhead)
	}
	return f
}

// infiniBandMTU is the MTU that a RoCE port has on a network device of an MTU, both in bytes; 0 when
// that is too small for any.
func infiniBandMTU(netdev int) int {
	for _, size := range plan.InfiniBandMTUs {
		if netdev-plan.RoCEOverhead >= size {
			return size
		}
	}
	return 0
}
