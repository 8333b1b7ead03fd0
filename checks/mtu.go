package checks

import (
	"fmt"
	"strconv"
	"strings"

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
			{Name: "min", Type: cty.Number, Default: cty.NumberIntVal(4096), Min: &low, Max: &high, Example: "4096", Doc: "Bytes that it must be at least. 4096 fit into an MTU of 4192 of the network device, 1024 into 1500."},
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
	ports, a := survey(b, facts)
	var sizes []int
	var said []string
	for _, p := range ports {
		v := p.rdma(facts)
		state, ok := v.Get()
		if !ok {
			a.Findings = append(a.Findings, unread(p, id, "the RDMA port", v))
			continue
		}
		if state.LinkLayer != ethernet {
			a.Findings = append(a.Findings, wrongLayer(p, id, ethernet, state.LinkLayer, v.Source()))
			continue
		}
		mtu := partOf(p.link(facts), func(l node.LinkState) node.Value[int] { return l.MTU })
		bytes, ok := mtu.Get()
		if !ok {
			a.Findings = append(a.Findings, unread(p, id, "the MTU", mtu))
			continue
		}
		sizes = append(sizes, infiniBandMTU(bytes))
		said = append(said, fmt.Sprintf("%s %d", p.name(), infiniBandMTU(bytes)))
		f := p.finding(id)
		f.Want, f.Found, f.Source = fmt.Sprintf("%d or more", least), strconv.Itoa(infiniBandMTU(bytes)), mtu.Source()
		f.Summary = fmt.Sprintf("%s has InfiniBand MTU %s, of %d on %s", p.name(), f.Found, bytes, p.netdev())
		if int64(infiniBandMTU(bytes)) < least {
			f.Status = plan.Drift
			f.Summary += ", wanted is " + f.Want
			f.Fix = fmt.Sprintf("give %s an MTU of %d or more where it is configured (netplan, NetworkManager, systemd-networkd), the switch first; the next boot forgets what ip link sets", p.netdev(), least+roceOverhead)
		}
		a.Findings = append(a.Findings, f)
	}
	if len(sizes) > 1 {
		a.Findings = append(a.Findings, equalMTU(sizes, said))
	}
	return a
}

func equalMTU(sizes []int, said []string) plan.Finding {
	f := plan.Finding{ID: "mtu.equal", Target: "nics", Status: plan.OK, Want: "the same on all", Found: strconv.Itoa(sizes[0]), Summary: fmt.Sprintf("all have InfiniBand MTU %d", sizes[0])}
	for _, size := range sizes {
		if size != sizes[0] {
			f.Status, f.Found = plan.Drift, strings.Join(said, ", ")
			f.Summary = "InfiniBand MTUs differ: " + f.Found
			f.Fix = "give the network devices one MTU; NCCL no longer lowers it to that of the peer"
		}
	}
	return f
}

// roceOverhead is what the kernel sets aside of a network device's MTU for RoCE: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28 and ICRC 4
// bytes (iboe_get_mtu in include/rdma/ib_addr.h).
const roceOverhead = 96

// infiniBandMTU is the MTU that a RoCE port has on a network device of an MTU, both in bytes; 0 when
// that is too small for any.
func infiniBandMTU(netdev int) int {
	for size := 4096; size >= 256; size /= 2 {
		if netdev-roceOverhead >= size {
			return size
		}
	}
	return 0
}
