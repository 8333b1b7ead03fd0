package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"busbar/node"
)

// Topology is what busbar topo shows of one node: GPUs and NICs, how far they are from each
// other, and the PCI bridges above them.
type Topology struct {
	Node Node
	// NUMANodes by number.
	NUMANodes node.Value[[]node.NUMANode]
	// GPUs and NICs, the latter without virtual functions, are unknown where the PCI bus is. Both are
	// sorted by address.
	GPUs node.Value[[]TopologyGPU]
	NICs node.Value[[]TopologyNIC]
	// Bridges are those above GPUs and NICs, by address.
	Bridges []TopologyBridge
	// Pairs are those of GPUs and NIC functions, each once, in the order of Devices; without those of two NICs where there are more
	// than maxNICs.
	Pairs []TopologyPair
	// Rails and GPUPaths are node.rails and node.gpu_paths of profiles.
	Rails    node.Value[[]string]
	GPUPaths node.Value[[]string]

	tree    node.Topology
	nothing bool // is in the inventory
}

// maxNICs is how many NIC functions are set against each other, as nvidia-smi does; of more the pairs with a GPU are what matters.
const maxNICs = 64

// alone reports whether pairs of two NICs are left out.
func (t Topology) alone() bool { return len(t.Devices())-len(t.gpus()) > maxNICs }

// gpus are the GPUs, none where they are unknown.
func (t Topology) gpus() []TopologyGPU {
	gpus, _ := t.GPUs.Get()
	return gpus
}

// TopologyPlace is where a function hangs on the PCI bus.
type TopologyPlace struct {
	// Name is GPU0, NIC0 ..., counted by address.
	Name     string `json:"name"`
	Address  string `json:"address"`
	PCIID    string `json:"pci_id"`
	NUMANode *int   `json:"numa_node"` // nil where firmware does not say
	// Root is the bus of the host bridge, DDDD:BB; Parent the bridge above, empty on the root bus.
	Root   string `json:"root"`
	Parent string `json:"parent,omitempty"`
}

// TopologyGPU is a GPU.
type TopologyGPU struct {
	TopologyPlace
	// CPUs are those of its NUMA node, in the kernel's list format.
	CPUs node.Value[string]
}

// TopologyNIC is a port of a NIC. Ports of one function share a name.
type TopologyNIC struct {
	TopologyPlace
	NIC  node.NIC
	Link TopologyLink
	// Rail: it is among node.rails; unknown where those are.
	Rail node.Value[bool]
}

// TopologyBridge is a root port, a port of a switch, or another PCI bridge.
type TopologyBridge struct {
	Address string `json:"address"`
	PCIID   string `json:"pci_id"`
	Parent  string `json:"parent,omitempty"`
}

// TopologyPair says how far two functions are from each other.
type TopologyPair struct {
	A, B *TopologyPlace
	// Relation is nvidia-smi's by the PCI tree, NCCL the type of NCCL's path.
	Relation, NCCL node.Value[node.Relation]
	// NVLinks is how many NVLinks carry the traffic of two GPUs, nvidia-smi's NV#; 0 where a NIC is one of
	// the two.
	NVLinks node.Value[int]
}

// TopologyQueries are what NewTopology reads besides the inventory.
func TopologyQueries(inv node.Inventory) []node.Query {
	queries := append(linkQueries(inv), node.NUMANodes.Query(""))
	gpus, _ := inv.GPUs().Get()
	if len(gpus) < 2 {
		return queries
	}
	for _, g := range gpus {
		queries = append(queries, node.NVLinks.Query(g.Address))
	}
	return append(queries, node.P2P.Query(""))
}

// NewTopology reads a topology off facts.
func NewTopology(n Node, facts node.Facts) Topology {
	numaNodes := node.NUMANodes.Get(facts, "")
	inv := facts.Inventory.WithNUMANodes(numaNodes)
	tree := inv.Topology()
	t := Topology{tree: tree, nothing: facts.Inventory.IsEmpty(), Node: n, NUMANodes: numaNodes, GPUPaths: inv.GPUPaths(), Rails: names(inv.Rails())}
	bridges := map[string]TopologyBridge{}
	place := func(name, address, id string, numa int) TopologyPlace {
		p := TopologyPlace{Name: name, Address: address, PCIID: id}
		if numa >= 0 {
			p.NUMANode = &numa
		}
		root, above := tree.Root(address)
		p.Root = root
		for _, b := range above {
			bridges[b.Address] = TopologyBridge{b.Address, b.ID(), b.Parent}
			p.Parent = b.Address
		}
		return p
	}
	t.GPUs = each(inv.GPUs(), func(i int, g node.GPU) TopologyGPU {
		p := place("GPU"+strconv.Itoa(i), g.Address, g.PCIID, g.NUMANode)
		return TopologyGPU{p, t.cpus(g.NUMANode)}
	})
	number, last := -1, ""
	t.NICs = each(inv.NICs(), func(_ int, n node.NIC) TopologyNIC {
		if n.Address != last {
			number, last = number+1, n.Address
		}
		p := place("NIC"+strconv.Itoa(number), n.Address, n.PCIID, n.NUMANode)
		return TopologyNIC{p, n, linkOf(n, facts), contains(t.Rails, n.String())}
	})
	for _, b := range bridges {
		t.Bridges = append(t.Bridges, b)
	}
	slices.SortFunc(t.Bridges, func(a, b TopologyBridge) int { return cmp.Compare(a.Address, b.Address) })
	gpus, _ := t.GPUs.Get()
	devices := t.Devices()
	places := make([]node.Place, len(devices))
	for i, d := range devices {
		places[i] = tree.Place(d.Address)
	}
	first := len(devices) // of a pair
	if t.alone() {
		first = len(gpus)
	}
	for i := range first {
		for j := i + 1; j < len(devices); j++ {
			pair := TopologyPair{&devices[i], &devices[j], places[i].Relation(places[j]), places[i].NCCL(places[j]), node.Known(0, node.Source{})}
			if j < len(gpus) {
				pair.NVLinks = facts.NVLinksBetween(devices[i].Address, devices[j].Address)
			}
			t.Pairs = append(t.Pairs, pair)
		}
	}
	return t
}

// each maps a list that may be unknown.
func each[A, B any](v node.Value[[]A], f func(int, A) B) node.Value[[]B] {
	list, ok := v.Get()
	if !ok {
		return node.Unknown[[]B](v.Reason(), v.Source())
	}
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(i, a)
	}
	return node.Known(out, v.Source())
}

func names(v node.Value[[]node.NIC]) node.Value[[]string] {
	return each(v, func(_ int, n node.NIC) string { return n.String() })
}

func contains(v node.Value[[]string], s string) node.Value[bool] {
	list, ok := v.Get()
	if !ok {
		return node.Unknown[bool](v.Reason(), v.Source())
	}
	return node.Known(slices.Contains(list, s), v.Source())
}

// cpus are those of a NUMA node.
func (t Topology) cpus(numa int) node.Value[string] {
	list, ok := t.NUMANodes.Get()
	if !ok {
		return node.Unknown[string](t.NUMANodes.Reason(), t.NUMANodes.Source())
	}
	i := slices.IndexFunc(list, func(n node.NUMANode) bool { return n.ID == numa })
	switch {
	case numa < 0:
		return node.Unknown[string](node.NoNUMANode, t.NUMANodes.Source())
	case i < 0:
		return node.Unknown[string](fmt.Sprintf("the kernel shows no NUMA node %d", numa), t.NUMANodes.Source())
	}
	return node.Known(list[i].CPUs, t.NUMANodes.Source())
}

// Devices are the GPUs, then the NICs, each function once.
func (t Topology) Devices() []TopologyPlace {
	var all []TopologyPlace
	gpus, _ := t.GPUs.Get()
	for _, g := range gpus {
		all = append(all, g.TopologyPlace)
	}
	nics, _ := t.NICs.Get()
	for _, n := range nics {
		all = append(all, n.TopologyPlace)
	}
	return slices.CompactFunc(all, func(a, b TopologyPlace) bool { return a.Address == b.Address })
}

// near are the names of the GPUs that a NIC is nearest to.
func (t Topology) near(n TopologyNIC) []string {
	addresses, _ := n.NIC.GPUs.Get()
	gpus, _ := t.GPUs.Get()
	var list []string
	for _, g := range gpus {
		if slices.Contains(addresses, g.Address) {
			list = append(list, g.Name)
		}
	}
	return list
}

// MarshalJSON writes what is unknown as null, with the reasons by field under "unknown" of the
// object that the field is in.
func (t Topology) MarshalJSON() ([]byte, error) {
	unknown := map[string]string{}
	var out struct {
		FormatVersion string            `json:"format_version"`
		Command       string            `json:"command"`
		Node          Node              `json:"node"`
		NUMANodes     *[]node.NUMANode  `json:"numa_nodes"`
		GPUs          *[]TopologyGPU    `json:"gpus"`
		NICs          *[]TopologyNIC    `json:"nics"`
		Bridges       []TopologyBridge  `json:"bridges"`
		Relations     []TopologyPair    `json:"relations"`
		Rails         *[]string         `json:"rails"`
		GPUPaths      *[]string         `json:"gpu_paths"`
		Unknown       map[string]string `json:"unknown,omitempty"`
		ExitCode      int               `json:"exit_code"`
	}
	out.FormatVersion, out.Command, out.Node = FormatVersion, "topo", t.Node
	out.NUMANodes = orNull(t.NUMANodes, "numa_nodes", unknown)
	out.GPUs, out.NICs = orNull(t.GPUs, "gpus", unknown), orNull(t.NICs, "nics", unknown)
	out.Rails, out.GPUPaths = orNull(t.Rails, "rails", unknown), orNull(t.GPUPaths, "gpu_paths", unknown)
	out.Bridges, out.Relations = append([]TopologyBridge{}, t.Bridges...), append([]TopologyPair{}, t.Pairs...)
	if t.alone() {
		unknown["relations"] = fmt.Sprintf("those of two NICs are left out: there are more than %d NICs", maxNICs)
	}
	out.Unknown = unknown
	return marshal(out)
}

// unknown has the reason for a NUMA node that firmware does not say.
func (d TopologyPlace) unknown() map[string]string {
	reasons := map[string]string{}
	if d.NUMANode == nil {
		reasons["numa_node"] = node.NoNUMANode
	}
	return reasons
}

// MarshalJSON writes a GPU.
func (g TopologyGPU) MarshalJSON() ([]byte, error) {
	unknown := g.unknown()
	return marshal(struct {
		TopologyPlace
		CPUs    *string           `json:"cpus"`
		Unknown map[string]string `json:"unknown,omitempty"`
	}{g.TopologyPlace, orNull(g.CPUs, "cpus", unknown), unknown})
}

// MarshalJSON writes a port.
func (n TopologyNIC) MarshalJSON() ([]byte, error) {
	unknown := n.unknown()
	return marshal(struct {
		TopologyPlace
		Port      int               `json:"port"`
		Netdev    *string           `json:"netdev"`
		RDMA      *string           `json:"rdma"`
		LinkLayer *string           `json:"link_layer"`
		Link      *bool             `json:"link"`
		SpeedMbps *int              `json:"speed_mbps"`
		State     *string           `json:"state"`
		Protected *bool             `json:"protected"`
		GPUs      *[]string         `json:"gpus"`
		Rail      *bool             `json:"rail"`
		Unknown   map[string]string `json:"unknown,omitempty"`
	}{
		n.TopologyPlace, n.NIC.Port, orNull(n.NIC.Netdev, "netdev", unknown), orNull(n.NIC.RDMA, "rdma", unknown),
		orNull(n.NIC.LinkLayer, "link_layer", unknown), orNull(n.Link.Up, "link", unknown), orNull(n.Link.SpeedMbps, "speed_mbps", unknown), orNull(n.Link.State, "state", unknown),
		orNull(n.NIC.Protected, "protected", unknown), orNull(n.NIC.GPUs, "gpus", unknown), orNull(n.Rail, "rail", unknown), unknown,
	})
}

// MarshalJSON writes a pair by the addresses of its functions.
func (p TopologyPair) MarshalJSON() ([]byte, error) {
	unknown := map[string]string{}
	return marshal(struct {
		Between  [2]string         `json:"between"`
		Relation *string           `json:"relation"`
		NCCL     *string           `json:"nccl"`
		NVLinks  *int              `json:"nvlinks"`
		Unknown  map[string]string `json:"unknown,omitempty"`
	}{
		[2]string{p.A.Address, p.B.Address}, orNull(word(p.Relation), "relation", unknown), orNull(word(p.NCCL), "nccl", unknown),
		orNull(p.NVLinks, "nvlinks", unknown), unknown,
	})
}

func word(v node.Value[node.Relation]) node.Value[string] {
	r, ok := v.Get()
	if !ok {
		return node.Unknown[string](v.Reason(), v.Source())
	}
	return node.Known(r.String(), v.Source())
}

// WriteTopologyJSON writes t indented, for a single node.
func WriteTopologyJSON(w io.Writer, t Topology) error { return encode(w, t, "topo", t.Node, "  ") }

// WriteTopologyJSONLine writes t on one line, for one of several nodes.
func WriteTopologyJSONLine(w io.Writer, t Topology) error { return encode(w, t, "topo", t.Node, "") }

// WriteTopology writes t for people: the matrix that nvidia-smi topo -m prints, and the
// devices. What is unknown is ?, with the reasons below. Quiet is the matrix alone; Verbose adds the bridges
// above each device.
func WriteTopology(w io.Writer, t Topology, style Style) error {
	p := page{style: style}
	if style.Quiet {
		p.matrix(t)
		return p.flush(w)
	}
	p.machine(t.Node)
	p.paragraph(nil, "", t.Node.observed())
	if t.nothing {
		p.blank()
		p.paragraph(nil, "", "Nothing was recorded of this node: the inventory is empty, so that neither GPUs nor NICs are known.")
	}
	if len(t.Devices()) > 0 {
		p.blank()
		p.matrix(t)
		p.blank()
		p.legend(t)
		p.blank()
		p.devices(t)
	} else if t.GPUs.IsKnown() {
		p.blank()
		p.paragraph(nil, "", noDevices)
	}
	for i, r := range t.unknown() {
		if i == 0 {
			p.blank()
		}
		p.paragraph([]span{{cyan, "?"}, {plain, "  "}}, "", printable(r.String()))
	}
	return p.flush(w)
}

const noDevices = "no GPU and no NIC on the PCI bus"

// unknown is what is shown as ?.
func (t Topology) unknown() reasons {
	var all reasons
	all.add(t.GPUs.Reason(), "the PCI bus")
	for _, pair := range t.Pairs {
		why := pair.Relation.Reason()
		if links, _ := pair.NVLinks.Get(); links > 0 {
			continue
		}
		if !slices.ContainsFunc(all, func(r reason) bool { return r.why == why }) {
			all.add(why, "distances")
		}
	}
	for _, d := range t.Devices() {
		if d.NUMANode == nil {
			all.add(node.NoNUMANode, "NUMA node of", d.Name)
		}
	}
	gpus, _ := t.GPUs.Get()
	for _, g := range gpus {
		all.add(g.CPUs.Reason(), "CPU affinity of", g.Name)
	}
	nics, _ := t.NICs.Get()
	for _, n := range nics {
		name := n.label()
		all.add(n.NIC.Netdev.Reason(), "netdev of", name)
		all.add(n.NIC.RDMA.Reason(), "RDMA of", name)
		all.add(n.NIC.LinkLayer.Reason(), "link layer of", name)
		all.add(n.Link.speed().Reason(), "speed of", name)
		all.add(n.Link.State.Reason(), "state of", name)
		all.add(n.NIC.GPUs.Reason(), "nearest GPU of", name)
		if gpus, ok := n.NIC.GPUs.Get(); ok && len(gpus) == 0 && t.farCell(n) == "?" {
			all.add(t.tree.Relation(t.gpus()[0].Address, n.Address).Reason(), "nearest GPU of", name)
		}
	}
	if t.GPUs.IsKnown() {
		all.add(t.Rails.Reason(), "rails")
	}
	return all
}

// label is the port's name: NIC0, NIC0/2 for its second port.
func (n TopologyNIC) label() string {
	if n.NIC.Port > 1 {
		return fmt.Sprintf("%s/%d", n.Name, n.NIC.Port)
	}
	return n.Name
}

// reasons are why things are unknown, in the order in which they come up.
type reasons []reason

// reason is why something of devices, or of none, is unknown.
type reason struct {
	why  string
	what []unknownOf
}

type unknownOf struct {
	what    string // the matrix, RDMA of
	devices []string
}

// add notes that what of a device is unknown; an empty why is none.
func (r *reasons) add(why, what string, device ...string) {
	if why == "" {
		return
	}
	i := slices.IndexFunc(*r, func(r reason) bool { return r.why == why })
	if i < 0 {
		i = len(*r)
		*r = append(*r, reason{why: why})
	}
	list := &(*r)[i].what
	at := slices.IndexFunc(*list, func(u unknownOf) bool { return u.what == what })
	if at < 0 {
		at = len(*list)
		*list = append(*list, unknownOf{what: what})
	}
	(*list)[at].devices = append((*list)[at].devices, device...)
}

// String is a sentence.
func (r reason) String() string {
	var what []string
	for _, u := range r.what {
		what = append(what, strings.TrimSpace(u.what+" "+strings.Join(u.devices, ", ")))
	}
	return strings.Join(what, "; ") + ": " + r.why
}

// cell is a word of a table.
type cell struct {
	text  string
	color color
}

// table writes rows, the first of them a heading, in columns two spaces apart.
func (p *page) table(rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for n, row := range rows {
		var line strings.Builder
		gap := 0
		for i, c := range row {
			line.WriteString(strings.Repeat(" ", gap))
			if n == 0 {
				c.color = dim
			}
			line.WriteString(p.style.paint(c.color, c.text))
			gap = widths[i] - utf8.RuneCountInString(c.text) + 2
			if c.text == "" && p.blankFrom(row, i) {
				break
			}
		}
		p.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// blankFrom reports whether nothing stands in a row from column i on.
func (p *page) blankFrom(row []cell, i int) bool {
	return !slices.ContainsFunc(row[i:], func(c cell) bool { return c.text != "" })
}

// matrix writes how far the devices are from each other.
func (p *page) matrix(t Topology) {
	devices := t.Devices()
	columns := len(devices)
	if t.alone() { // each device's distances to the GPUs
		columns = len(t.gpus())
	}
	index := map[string]int{}
	heading := []cell{{}}
	rows := make([][]cell, len(devices)+1)
	for i, d := range devices {
		index[d.Address] = i + 1
		rows[i+1] = make([]cell, columns+1)
		rows[i+1][0] = cell{d.Name, plain}
		if i < columns {
			heading = append(heading, cell{d.Name, plain})
			rows[i+1][i+1] = cell{" X", dim}
		}
	}
	for i := range t.Pairs {
		a, b := index[t.Pairs[i].A.Address], index[t.Pairs[i].B.Address]
		rows[b][a] = t.Pairs[i].cell()
		if b <= columns {
			rows[a][b] = rows[b][a]
		}
	}
	rows[0] = append(heading, cell{"CPU Affinity", plain}, cell{"NUMA Affinity", plain})
	for _, g := range t.gpus() {
		if row := &rows[index[g.Address]]; len(*row) == columns+1 {
			*row = append(*row, p.fact(g.CPUs), numaCell(g.TopologyPlace))
		}
	}
	p.table(rows)
}

// cell is the pair's place in the matrix.
func (p TopologyPair) cell() cell {
	if links, _ := p.NVLinks.Get(); links > 0 {
		return cell{fmt.Sprintf("NV%d", links), green}
	}
	if r, ok := p.Relation.Get(); ok {
		return cell{r.String(), relationColor(r)}
	}
	return cell{"?", cyan}
}

// fact is a fact in a table.
func (p *page) fact(v node.Value[string]) cell {
	if s, ok := v.Get(); ok {
		return cell{printable(s), plain}
	}
	return cell{"?", cyan}
}

func numaCell(d TopologyPlace) cell {
	if d.NUMANode == nil {
		return cell{"?", cyan}
	}
	return cell{strconv.Itoa(*d.NUMANode), plain}
}

// relationColor tells what GPUDirect can use at its best from what it cannot.
func relationColor(r node.Relation) color {
	switch {
	case r <= node.PXB:
		return green
	case r == node.SYS:
		return dim
	default:
		return plain
	}
}

// legend explains the words of the matrix.
func (p *page) legend(t Topology) {
	for _, line := range [][2]string{
		{"X", "the same function"},
		{"PIX", "one PCIe switch at most between them"},
		{"PXB", "several PCIe switches, and no host bridge"},
		{"PHB", "a PCIe host bridge: the root complex of the CPU"},
		{"NODE", "two host bridges of one NUMA node; PHB to NCCL"},
		{"SYS", "the interconnect between NUMA nodes"},
		{"NV#", "that many NVLinks, straight or through NVSwitches"},
	} {
		p.WriteString("  " + pad(line[0], 4) + "  " + line[1] + "\n")
	}
	if why := t.noNVLinks(); why != "" {
		p.paragraph([]span{{plain, "  "}}, "", printable("Whether GPUs have NVLinks between them is unknown: "+why+"."))
	}
	p.paragraph([]span{{plain, "  "}}, "", "NICs are counted by address.")
	for _, line := range t.otherwise() {
		p.paragraph([]span{{plain, "  "}}, "", line)
	}
}

// noNVLinks is why it is unknown how many NVLinks are between two of the GPUs; empty where that is known of all.
func (t Topology) noNVLinks() string {
	for _, pair := range t.Pairs {
		if why := pair.NVLinks.Reason(); why != "" {
			return why
		}
	}
	return ""
}

// otherwise says of which pairs of a GPU and another device NCCL has another word, NODE left out.
func (t Topology) otherwise() []string {
	isGPU := map[string]bool{}
	for _, g := range t.gpus() {
		isGPU[g.Address] = true
	}
	type words struct{ smi, nccl node.Relation }
	pairs := map[words][]string{}
	for _, pair := range t.Pairs {
		if !isGPU[pair.A.Address] {
			continue // NICs do not talk to each other
		}
		if links, _ := pair.NVLinks.Get(); links > 0 {
			continue
		}
		smi, told := pair.Relation.Get()
		nccl, toldToo := pair.NCCL.Get()
		if told && toldToo && smi != nccl && (smi != node.NODE || nccl != node.PHB) {
			pairs[words{smi, nccl}] = append(pairs[words{smi, nccl}], pair.A.Name+"-"+pair.B.Name)
		}
	}
	var lines []string
	for _, w := range slices.SortedFunc(maps.Keys(pairs), func(a, b words) int { return cmp.Or(cmp.Compare(a.smi, b.smi), cmp.Compare(a.nccl, b.nccl)) }) {
		list := pairs[w]
		text := strings.Join(list, ", ")
		if len(list) > 16 {
			text = plural(len(list), "path") + " of GPUs (--json has them)"
		}
		lines = append(lines, fmt.Sprintf("What is %s here is %s to NCCL: %s.", w.smi, w.nccl, text))
	}
	return lines
}

// devices writes what the devices of the matrix are.
func (p *page) devices(t Topology) {
	heading := []string{"", "address", "id", "NUMA", "netdev", "RDMA", "link layer", "speed", "state", "nearest GPU"}
	if p.style.Verbose {
		heading = append(heading, "bridges above, from the root port")
	}
	rows := [][]cell{{}}
	for _, h := range heading {
		rows[0] = append(rows[0], cell{text: h})
	}
	add := func(d TopologyPlace, name, address string, more ...cell) {
		row := append([]cell{{name, plain}, {address, plain}, {d.PCIID, dim}, numaCell(d)}, more...)
		if p.style.Verbose {
			row = append(row, cell{strings.Join(t.above(d), " "), dim})
		}
		rows = append(rows, row)
	}
	gpus, _ := t.GPUs.Get()
	for _, g := range gpus {
		add(g.TopologyPlace, g.Name, g.Address, make([]cell, 6)...)
	}
	nics, _ := t.NICs.Get()
	for _, n := range nics {
		add(n.TopologyPlace, n.label(), n.NIC.String(), p.fact(n.NIC.Netdev), p.fact(n.NIC.RDMA), p.fact(n.NIC.LinkLayer), p.fact(n.Link.speed()), p.state(n.Link), t.nearCell(n))
	}
	p.table(rows)
}

// state is the state of a link.
func (p *page) state(l TopologyLink) cell {
	c := p.fact(l.State)
	if l.isDown() && l.State.IsKnown() {
		c.color = yellow
	}
	return c
}

// nearCell says what a NIC is to GPUs.
func (t Topology) nearCell(n TopologyNIC) cell {
	gpus, ok := n.NIC.GPUs.Get()
	if !ok {
		return cell{"?", cyan}
	}
	protected, _ := n.NIC.Protected.Get()
	if len(gpus) == 0 {
		text, c := t.farCell(n), dim
		switch {
		case text == "?":
			c = cyan
		case protected:
			text, c = text+", protected", yellow
		}
		return cell{text, c}
	}
	text := strings.Join(t.near(n), " ")
	if r, ok := t.tree.Relation(gpus[0], n.Address).Get(); ok {
		text += " " + r.String()
	}
	if protected {
		return cell{text + ", protected", yellow}
	}
	if rail, _ := n.Rail.Get(); rail {
		return cell{text + ", rail", green}
	}
	return cell{text, plain}
}

// farCell is the nearest of the GPUs, all of which are farther from a NIC than PXB, and how far it is; ? where that is known of none.
func (t Topology) farCell(n TopologyNIC) string {
	nearest := node.Relation(0)
	var names []string
	for _, g := range t.gpus() {
		r, ok := t.tree.Relation(g.Address, n.Address).Get()
		switch {
		case !ok:
		case nearest == 0 || r < nearest:
			nearest, names = r, []string{g.Name}
		case r == nearest:
			names = append(names, g.Name)
		}
	}
	switch {
	case len(t.gpus()) == 0:
		return "none"
	case nearest == 0:
		return "?"
	case len(names) == len(t.gpus()) && len(names) > 1:
		return "all " + nearest.String()
	default:
		return strings.Join(names, " ") + " " + nearest.String()
	}
}

// above are the bridges above a device, from the root port down.
func (t Topology) above(d TopologyPlace) []string {
	var list []string
	for at := d.Parent; at != ""; {
		list = append(list, at)
		i, found := slices.BinarySearchFunc(t.Bridges, at, func(b TopologyBridge, address string) int { return cmp.Compare(b.Address, address) })
		if !found {
			break
		}
		at = t.Bridges[i].Parent
	}
	slices.Reverse(list)
	return list
}
