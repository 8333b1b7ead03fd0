package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Relation says how far two PCI functions are from each other, in the words of
// nvidia-smi topo -m and of NCCL. A smaller one is nearer; the zero Relation is none.
type Relation int

// The relations. NVLink is none of them: the PCI tree does not show it.
const (
	// Self is a function and itself: X to nvidia-smi, LOC to NCCL.
	Self Relation = iota + 1
	// PIX: one PCIe switch at most is between them.
	PIX
	// PXB: several switches, and no host bridge.
	PXB
	// PHB: a host bridge, the CPU's root complex. NCCL calls NODE so too.
	PHB
	// NODE: two host bridges of one NUMA node.
	NODE
	// SYS: the interconnect between NUMA nodes.
	SYS
)

var relations = []string{"", "X", "PIX", "PXB", "PHB", "NODE", "SYS"}

// String is the relation as nvidia-smi prints it.
func (r Relation) String() string { return relations[r] }

// NoNUMANode is why the NUMA node of a function is unknown, and whether it is NODE or SYS away
// from one on another host bridge.
const NoNUMANode = "firmware does not say the NUMA node"

// Topology is the PCI tree of a node as sysfs shows it, with what nvidia-smi and NCCL
// read from it. It is made once for many questions and safe for concurrent use.
type Topology struct {
	functions map[string]*PCIFunction // nil where the PCI bus is unknown
	// why the tree tells nothing; empty when it does. source is where one or the other was read.
	why    string
	source Source
	// told are relations that a tool printed, in both directions.
	told map[[2]string]Relation
}

// ParseRelation reads the word of nvidia-smi topo -m; false for another, NV# too.
func ParseRelation(word string) (Relation, bool) {
	i := slices.Index(relations, word)
	return Relation(i), i > 0
}

// Topology is the node's PCI tree. In a virtual machine all its answers are unknown: the tree
// is what the hypervisor chose to show, and the traffic takes the host's.
func (inv Inventory) Topology() Topology {
	list, ok := inv.PCI.Get()
	if !ok {
		return Topology{why: inv.PCI.Reason(), source: inv.PCI.Source()}
	}
	t := Topology{functions: make(map[string]*PCIFunction, len(list)), source: inv.PCI.Source()}
	for i := range list {
		t.functions[list[i].Address] = &list[i]
	}
	switch hypervisor, ok := inv.Virtualization.Get(); {
	case !ok:
		t.why, t.source = "whether this is a virtual machine, whose PCI tree tells nothing, is unknown: "+inv.Virtualization.Reason(), inv.Virtualization.Source()
		if len(inv.Told) > 0 {
			t.why, t.source = "", inv.PCI.Source()
		}
	case hypervisor != "none":
		t.why, t.source = "a virtual machine ("+hypervisor+") has the PCI tree that its hypervisor chose to show, not the one that the traffic takes", inv.Virtualization.Source()
	}
	for _, told := range inv.Told {
		if r, ok := ParseRelation(told.Relation); ok {
			if t.told == nil {
				t.told = map[[2]string]Relation{}
			}
			t.told[told.Between] = r
			t.told[[2]string{told.Between[1], told.Between[0]}] = r
		}
	}
	return t
}

// WithNUMANodes is inv with the NUMA nodes that firmware does not say and that follow all the
// same: on a node with one of them every function is there.
func (inv Inventory) WithNUMANodes(nodes Value[[]NUMANode]) Inventory {
	all, _ := nodes.Get()
	list, ok := inv.PCI.Get()
	if len(all) != 1 || !ok {
		return inv
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].NUMANode < 0 {
			list[i].NUMANode = all[0].ID
		}
	}
	inv.PCI = Known(list, inv.PCI.Source())
	return inv
}

// way is how a function hangs on its root bus.
type way struct {
	function *PCIFunction
	// bridges from the one above the function up to the root bus.
	bridges []*PCIFunction
	// root is the bus of the host bridge, DDDD:BB.
	root string
}

// way follows the parents of a function. A virtual function is where its physical function is.
func (t Topology) way(address string) (way, error) {
	f, ok := t.functions[address]
	if !ok {
		return way{}, fmt.Errorf("%s is not on the PCI bus", address)
	}
	if f.PhysicalFunction != "" {
		if f, ok = t.functions[f.PhysicalFunction]; !ok {
			return way{}, fmt.Errorf("the physical function of %s is not on the PCI bus", address)
		}
	}
	w := way{function: f}
	top := f
	for top.Parent != "" {
		above, ok := t.functions[top.Parent]
		if !ok || len(w.bridges) == len(t.functions) {
			return way{}, fmt.Errorf("the bridges above %s lead to no root bus", address)
		}
		w.bridges = append(w.bridges, above)
		top = above
	}
	w.root = bus(top.Address)
	return w, nil
}

// bus is DDDD:BB of DDDD:BB:DD.F.
func bus(address string) string { return address[:max(0, strings.LastIndexByte(address, ':'))] }

// shared is how many bridges, counted from the root bus, two lists have in common.
func shared(a, b []*PCIFunction) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n].Address == b[len(b)-1-n].Address {
		n++
	}
	return n
}

// Place is where a function hangs on the PCI tree. It is found once for many questions.
type Place struct {
	way
	address string
	// err is why the tree does not lead from it to a root bus.
	err error
	// flat are the switches above it that NCCL sees, top what of them or itself hangs on the CPU.
	flat []*PCIFunction
	top  *PCIFunction
	// why the tree tells nothing of two functions; noBus: not even of one.
	why    string
	noBus  bool
	source Source
	told   map[[2]string]Relation
}

// Place finds a function.
func (t Topology) Place(address string) Place {
	p := Place{address: address, why: t.why, noBus: t.functions == nil, source: t.source, told: t.told}
	if p.way, p.err = t.way(address); p.err == nil {
		switches := p.switches()
		p.flat, p.top = flatten(switches), highest(p.function, switches)
	}
	return p
}

// unrelated is why nothing can be said of two functions; empty where something can.
func (p Place) unrelated(other Place) string {
	switch {
	case p.why != "" && (p.address != other.address || p.noBus):
		return p.why
	case p.err != nil:
		return p.err.Error()
	case other.err != nil:
		return other.err.Error()
	}
	return ""
}

// Relation is that of two functions: see Place.Relation.
func (t Topology) Relation(a, b string) Value[Relation] { return t.Place(a).Relation(t.Place(b)) }

// NCCL is the type of the path between two functions to NCCL: see Place.NCCL.
func (t Topology) NCCL(a, b string) Value[Relation] { return t.Place(a).NCCL(t.Place(b)) }

// Relation is how nvidia-smi topo -m relates two functions by the PCI tree. It asks hwloc,
// which goes by the buses and by local_cpus, the CPUs of a function's NUMA node: below a common
// bridge they are PIX where each of them has one bridge at most up to it (the ports of a
// switch, the functions of a card), else PXB; on one root bus PHB, also the functions of one
// device; else it is the NUMA node that counts, whatever the PCI segment. Where firmware does
// not say that, hwloc takes the device for one of the whole machine, which makes SYS of NODE;
// here it is unknown.
func (p Place) Relation(other Place) Value[Relation] {
	switch why := p.unrelated(other); {
	case why != "":
		return Unknown[Relation](why, p.source)
	case p.address == other.address:
		return Known(Self, p.source)
	}
	if len(p.told) > 0 {
		if r, ok := p.told[[2]string{p.address, other.address}]; ok {
			return Known(r, p.source)
		}
		return Unknown[Relation]("the matrix says nothing of "+p.address+" and "+other.address, p.source)
	}
	if r, near := p.below(other.way); near {
		return Known(r, p.source)
	}
	for _, f := range []*PCIFunction{p.function, other.function} {
		if f.NUMANode < 0 {
			return Unknown[Relation](NoNUMANode, Source{Path: "/sys/bus/pci/devices/" + f.Address + "/numa_node"})
		}
	}
	if p.function.NUMANode == other.function.NUMANode {
		return Known(NODE, p.source)
	}
	return Known(SYS, p.source)
}

// below is the relation of two functions below one host bridge; false for others.
func (w way) below(other way) (r Relation, one bool) {
	switch common := shared(w.bridges, other.bridges); {
	case common > 0 && max(len(w.bridges), len(other.bridges))-common <= 1:
		return PIX, true
	case common > 0:
		return PXB, true
	default:
		return PHB, w.root == other.root
	}
}

// NCCL is the type of the path between two functions to NCCL, as far as the PCI tree makes it:
// PIX, PXB, PHB, SYS. It differs from Relation in four things (NCCL's src/graph/xml.cc, topo.cc
// and paths.cc). NCCL climbs two bridges at a time, a port and its switch, so that what hangs
// on a root port without a switch meets in the CPU. The two levels that a Broadcom switch shows
// are one switch to it. It knows no NODE: host bridges of one NUMA node are PHB. And devices
// whose NUMA node firmware does not say make up one of their own.
func (p Place) NCCL(other Place) Value[Relation] {
	if why := p.unrelated(other); why != "" {
		return Unknown[Relation](why, p.source)
	}
	switch common := shared(p.flat, other.flat); {
	case p.address == other.address:
		return Known(Self, p.source)
	case common > 0 && common == max(len(p.flat), len(other.flat)):
		return Known(PIX, p.source)
	case common > 0:
		return Known(PXB, p.source)
	case p.top.NUMANode == other.top.NUMANode:
		return Known(PHB, p.source)
	}
	return Known(SYS, p.source)
}

// highest is what NCCL hangs on the CPU: the last of the switches, or the function itself.
func highest(f *PCIFunction, switches []*PCIFunction) *PCIFunction {
	if len(switches) > 0 {
		return switches[len(switches)-1]
	}
	return f
}

// switches are the bridges that NCCL makes PCI nodes of: it skips the port above a device
// and takes what is above that, until the root bus.
func (w way) switches() []*PCIFunction {
	var list []*PCIFunction
	for i := 1; i < len(w.bridges); i += 2 {
		list = append(list, w.bridges[i])
	}
	return list
}

// flatten takes out the lower level of Broadcom switches, from the root bus down.
func flatten(switches []*PCIFunction) []*PCIFunction {
	flat := slices.Clone(switches)
	for i := len(flat) - 1; i > 0; i-- {
		if g := broadcom(flat[i], 0); g != 0 && g == broadcom(flat[i-1], 1) {
			flat = slices.Delete(flat, i-1, i)
			i-- // it merges one level only
		}
	}
	return flat
}

// broadcom is the PCIe generation of a Broadcom switch that NCCL flattens, 0 for another bridge. Level
// 0 is the upper one. (NCCL's getBcmGen: ids 1000:c010 subsystem 1000:aXXX, and 1000:c030
// subsystem 1000:0XXX above 1000:1XXX.)
func broadcom(p *PCIFunction, level int) int {
	if p.SubsystemVendor != "1000" || len(p.SubsystemDevice) != 4 {
		return 0
	}
	switch first := p.SubsystemDevice[0]; {
	case p.ID() == "1000:c010" && first == 'a':
		return 4
	case p.ID() == "1000:c030" && first == "01"[level]:
		return 5
	}
	return 0
}

// Root is the bus of the host bridge above a function, DDDD:BB, and the bridges between, from
// the root port down. Both are empty for a function that is not on the bus.
func (t Topology) Root(address string) (root string, bridges []PCIFunction) {
	w, err := t.way(address)
	if err != nil {
		return "", nil
	}
	for _, bridge := range slices.Backward(w.bridges) {
		bridges = append(bridges, *bridge)
	}
	return w.root, bridges
}

// nearest are the addresses of the GPUs that are nearest to a NIC, of those at PXB or nearer.
func (t Topology) nearest(nic string, gpus []Place) Value[[]string] {
	if t.why != "" {
		return Unknown[[]string](t.why, t.source)
	}
	at := PXB
	list := []string{}
	w, err := t.way(nic)
	for _, g := range gpus {
		if err = cmp.Or(err, g.err); err != nil {
			return Unknown[[]string](err.Error(), t.source)
		}
		r, one := w.below(g.way)
		if len(t.told) > 0 {
			r, one = t.told[[2]string{nic, g.address}]
		}
		if !one || r > at {
			continue
		}
		if r < at {
			list, at = nil, r
		}
		list = append(list, g.address)
	}
	return Known(list, t.source)
}

// Rails are the NICs that serve GPUs: those at PXB or nearer to one, by the order of GPUs and
// then by address and port. Protected NICs are none; one of which alone that is unknown is in the list, and must not be
// touched (PortRefusal). Unknown where the PCI tree tells nothing, and where it is unknown which network
// devices, RDMA devices or protected ones there are.
func (inv Inventory) Rails() Value[[]NIC] {
	tree, all := inv.Topology(), inv.NICs()
	nics, _ := all.Get() // known where the tree tells something
	if tree.why != "" {
		return Unknown[[]NIC](tree.why, tree.source)
	}
	rails := []NIC{}
	first := map[string]string{} // the first of a NIC's GPUs
	for _, n := range nics {
		gpus, ok := n.GPUs.Get()
		protected, told := n.Protected.Get()
		switch {
		case !ok:
			return Unknown[[]NIC](n.GPUs.Reason(), n.GPUs.Source())
		case len(gpus) == 0:
		case !told && !inv.FromText() && !(inv.Protected.IsKnown() && inv.Netdevs.IsKnown() && inv.RDMA.IsKnown()):
			return Unknown[[]NIC](fmt.Sprintf("whether NIC %s is protected is unknown: %s", n, n.Protected.Reason()), n.Protected.Source())
		case !protected:
			rails = append(rails, n)
			first[n.Address] = gpus[0]
		}
	}
	slices.SortStableFunc(rails, func(a, b NIC) int { return cmp.Compare(first[a.Address], first[b.Address]) })
	return Known(rails, all.Source())
}

// GPUPaths are the addresses, sorted, of the root ports and switch ports on the paths between
// GPUs, and between rails and the GPUs that they are nearest to: where ACS decides which way
// peer-to-peer traffic takes. Unknown where Rails are.
func (inv Inventory) GPUPaths() Value[[]string] {
	gpus, _ := inv.GPUs().Get() // known where rails are
	rails := inv.Rails()
	nics, ok := rails.Get()
	if !ok {
		return Unknown[[]string](rails.Reason(), rails.Source())
	}
	tree := inv.Topology()
	for _, g := range gpus {
		if _, err := tree.way(g.Address); err != nil {
			return Unknown[[]string](err.Error(), tree.source)
		}
	}
	bus, _ := inv.pciBus()
	ports := []string{}
	add := func(a, b string) {
		// The bridges above both are known by now.
		if p, _ := bus.peerPath(a, b); !p.SameDevice {
			ports = append(ports, p.Ports...)
		}
	}
	for i, a := range gpus {
		for _, b := range gpus[i+1:] {
			add(a.Address, b.Address)
		}
	}
	for _, n := range nics {
		near, _ := n.GPUs.Get() // known of rails
		for _, g := range near {
			add(g, n.Address)
		}
	}
	slices.Sort(ports)
	return Known(slices.Compact(ports), inv.PCI.Source())
}
