package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// nicsAttribute says which NIC ports a check judges.
func nicsAttribute() plan.Attribute {
	return plan.Attribute{
		Name: "nics", Type: cty.List(cty.ObjectWithOptionalAttrs(map[string]cty.Type{"address": cty.String, "port": cty.Number}, []string{"port"})),
		Example: "selector.rails", Doc: "The ports of NICs to judge, elements of node.nics. Left out, node.rails.",
	}
}

// port is a NIC port that a check judges.
type port struct {
	node.NIC
	// key of its RDMA port in node.RDMAPort, DEVICE/PORT.
	key node.Value[string]
}

// name is how findings call the port: by its RDMA port and its address.
func (p port) name() string {
	if key, ok := p.key.Get(); ok {
		if device, _, _ := strings.Cut(key, "/"); key == p.String() || device == p.String() { // of text that tells no address
			return key
		}
		return fmt.Sprintf("%s (%s)", key, p)
	}
	return node.Called("NIC", p.String())
}

// netdev is the name of the port's network device, or words for it.
func (p port) netdev() string {
	if name, ok := p.Netdev.Get(); ok {
		return name
	}
	return "its network device"
}

// finding begins one about the port.
func (p port) finding(id string) plan.Finding {
	return plan.Finding{ID: id, Target: p.String(), Status: plan.OK}
}

// unread is the finding about something of a port that could not be read.
func unread[T any](p port, id, what string, v node.Value[T]) plan.Finding {
	f := plan.Unread(id, fmt.Sprintf("%s of %s", what, p.name()), v)
	f.Target = p.String()
	return f
}

// rdma is what the driver says of the port's RDMA port.
func (p port) rdma(facts node.Facts) node.Value[node.RDMAPortState] {
	return partOf(p.key, func(key string) node.Value[node.RDMAPortState] { return node.RDMAPort.Get(facts, key) })
}

// link is the link of the port.
func (p port) link(facts node.Facts) node.Value[node.LinkState] {
	return node.Link.Get(facts, p.String())
}

// down is the finding that the port is known to carry nothing; the zero one where it carries something, or nothing tells.
func (p port) down(facts node.Facts, id string) plan.Finding {
	state, _ := p.rdma(facts).Get()
	link, _ := p.link(facts).Get()
	up, upKnown := link.Up.Get()
	carrier, carrierKnown := link.Carrier.Get()
	logical, stateKnown := state.State.Get()
	netdev := state.LinkLayer == ethernet // that of InfiniBand is IPoIB's, which the port can do without
	f := p.finding(id)
	f.Status, f.Want, f.Fix = plan.Drift, "up", noLink
	switch {
	case netdev && upKnown && !up:
		f.Found, f.Source, f.Fix = "down", link.Up.Source(), "bring "+p.netdev()+" up"
	case netdev && carrierKnown && !carrier:
		f.Found, f.Source = "no link", link.Carrier.Source()
	case stateKnown && logical != node.RDMAActive:
		f.Found, f.Source = logical, state.State.Source()
		if physical, _ := state.PhysState.Get(); state.LinkLayer == infiniBand && physical == linkUp {
			f.Fix = noSubnetManager
		}
	default:
		return plan.Finding{}
	}
	f.Summary = fmt.Sprintf("%s carries nothing: %s", p.name(), f.Found)
	return f
}

// besides is what a check says of a port that is down: that, and of the rest what is right, since what is wrong comes with it.
func besides(down plan.Finding, rest ...plan.Finding) []plan.Finding {
	if down.ID == "" {
		return rest
	}
	return append([]plan.Finding{down}, slices.DeleteFunc(rest, func(f plan.Finding) bool { return f.Status != plan.OK })...)
}

// noLink is what to do about a port without a link.
const noLink = "look at the cable, the transceiver and the switch's port"

// linkUp is the physical state of an RDMA port with a link.
const linkUp = "LinkUp"

// partOf is a fact inside another one, unknown where that is.
func partOf[T, U any](v node.Value[T], part func(T) node.Value[U]) node.Value[U] {
	t, ok := v.Get()
	if !ok {
		return node.UnknownLike[U](v)
	}
	return part(t)
}

// queries asks about the ports that a check judges.
func queries(b plan.Block, inv node.Inventory, kinds ...interface{ Query(key string) node.Query }) []node.Query {
	ports, _, _ := portsOf(b, inv)
	var asked []node.Query
	for _, p := range ports {
		for _, kind := range kinds {
			key, ok := p.String(), true
			if kind == node.RDMAPort {
				key, ok = p.key.Get()
			}
			if ok {
				asked = append(asked, kind.Query(key))
			}
		}
	}
	return asked
}

// survey begins the assessment of a check: the ports that it judges; those that are not there or have no driver, and that there
// are none, told already.
func survey(b plan.Block, facts node.Facts) (ports []port, a plan.Assessment) {
	id := b.Type + ".nics"
	if _, withheld := b.IsWithheld("nics", ""); withheld {
		return nil, a
	}
	if facts.Inventory.RootDirectory {
		return nil, plan.Assessment{Findings: []plan.Finding{{ID: id, Target: "nics", Status: plan.Skipped, Summary: "hardware is not judged (--root)"}}}
	}
	ports, missing, all := portsOf(b, facts.Inventory)
	if !all.IsKnown() {
		return nil, plan.Assessment{Findings: []plan.Finding{plan.Unread(id, "which NICs to judge", all)}}
	}
	for _, name := range missing {
		a.Findings = append(a.Findings, plan.Finding{
			ID: id, Target: name, Status: plan.Drift, Want: "on the PCI bus", Found: "absent", Source: all.Source(),
			Summary: "NIC " + name + " is not on the PCI bus", Fix: "look for its slot in the BMC's log, and for the port's number in node.nics",
		})
	}
	none := len(ports) == 0 && len(missing) == 0
	ports = slices.DeleteFunc(ports, func(p port) bool {
		why := facts.Inventory.Unbound(p.Address)
		if why != "" {
			a.Findings = append(a.Findings, plan.UnboundNIC(b.Type, p.NIC, why))
		}
		return why != ""
	})
	if none {
		f := plan.Finding{
			ID: id, Target: "nics", Status: plan.Drift, Want: "1 or more NICs", Found: "none", Source: all.Source(), Summary: "there is no NIC to judge" + elsewhere(facts.Inventory),
			Fix: "say in nics which NICs are meant, where none is at PXB or nearer to a GPU (busbar topo shows how near each is)",
		}
		if facts.Inventory.FromText() {
			_, nearest, _ := strings.Cut(elsewhere(facts.Inventory), "protected ")
			f.Summary = "no NIC is near a GPU (PXB or nearer): " + nearest
			f.Why = "what a GPU sends to a NIC beyond its PCIe switch crosses the CPU, and NCCL copies it through host memory (NCCL_NET_GDR_LEVEL is PXB by default)"
			f.Fix = "in a virtual machine, whose PCI tree is flat, give NCCL the host's topology (NCCL_TOPO_FILE); on bare metal look for cards in other slots than the vendor means"
		}
		a.Findings = append(a.Findings, f)
	}
	return ports, a
}

// elsewhere says where the NICs of a node are that has no rail.
func elsewhere(inv node.Inventory) string {
	nics, _ := inv.NICs().Get()
	gpus, _ := inv.GPUs().Get()
	tree := inv.Topology()
	var nearest node.Relation
	words := ""
	for _, n := range nics {
		if protected, _ := n.Protected.Get(); protected {
			continue
		}
		for _, g := range gpus {
			if r, ok := tree.Relation(g.Address, n.Address).Get(); ok && (nearest == 0 || r < nearest) {
				nearest, words = r, fmt.Sprintf("; of those that are not protected %s is nearest to a GPU, %s from %s", n, r, g.Address)
			}
		}
	}
	return words
}

// portsOf are the ports that a block names, and the names of those that are on no PCI bus. all is
// unknown where it is unknown which they are.
func portsOf(b plan.Block, inv node.Inventory) (ports []port, missing []string, all node.Value[[]node.NIC]) {
	v := b.Attributes["nics"]
	if v == cty.NilVal || v.IsNull() {
		all = inv.Rails()
		nics, _ := all.Get()
		for _, n := range nics {
			ports = append(ports, port{n, inv.RDMAPortOf(n)})
		}
		return ports, nil, all
	}
	all = inv.NICs()
	nics, ok := all.Get()
	if !ok {
		return nil, nil, all
	}
	for _, element := range v.AsValueSlice() {
		nic := node.NIC{Address: element.GetAttr("address").AsString(), Port: 1}
		if v := element.GetAttr("port"); !v.IsNull() {
			number, _ := v.AsBigFloat().Int64()
			nic.Port = int(number)
		}
		wanted := nic.String()
		at := slices.IndexFunc(nics, func(n node.NIC) bool { return n.String() == wanted })
		if at < 0 {
			missing = append(missing, wanted)
			continue
		}
		ports = append(ports, port{nics[at], inv.RDMAPortOf(nics[at])})
	}
	return ports, missing, all
}

// alike judges whether a number is the same at all ports; the largest is what the others should have.
func alike(id, what string, ports []port, values []node.Value[int], show func(int) string) plan.Finding {
	most := 0
	for _, v := range values {
		n, _ := v.Get()
		most = max(most, n)
	}
	f := plan.Finding{ID: id, Target: "nics", Status: plan.OK, Want: "the same on all", Found: show(most), Summary: fmt.Sprintf("%s is %s on all ports", what, show(most))}
	var less []string
	for i, p := range ports {
		n, ok := values[i].Get()
		switch {
		case ok && n < most:
			less = append(less, fmt.Sprintf("%s on %s", show(n), p.name()))
		case !ok && f.Status == plan.OK:
			missing := plan.Unread(id, what+" of "+p.name(), values[i])
			f.Status, f.Found, f.Needs, f.Source = plan.Undetermined, "", missing.Needs, missing.Source
			f.Summary = fmt.Sprintf("whether %s is the same on all ports is unknown: %s", what, missing.Summary)
		}
	}
	if len(less) > 0 {
		f.Status, f.Found, f.Needs, f.Source = plan.Drift, strings.Join(less, ", "), "", node.Source{}
		f.Summary = fmt.Sprintf("%s differs: %s, %s on others", what, f.Found, show(most))
	}
	return f
}

// The link layers.
const (
	ethernet   = "Ethernet"
	infiniBand = "InfiniBand"
)

// wrongLayer is the finding that a port has another link layer than a check is about.
func wrongLayer(p port, id, want, have string, source node.Source) plan.Finding {
	f := p.finding(id)
	f.Status, f.Want, f.Found, f.Source = plan.Drift, want, have, source
	f.Summary = fmt.Sprintf("%s is %s, %s is wanted", p.name(), have, want)
	f.Fix = fmt.Sprintf("set LINK_TYPE_P%d of the adapter's firmware (mlxconfig or mstconfig) and reboot, or name other NICs", p.Port)
	return f
}

// gigabits writes Mbit/s as Gbit/s.
func gigabits(mbps int) string {
	text := fmt.Sprintf("%.3f", float64(mbps)/1000)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " Gbit/s"
}
