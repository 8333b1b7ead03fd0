package paste

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/node"
)

// draft collects what texts say of a node. Of two that say something of the same thing the first one holds.
type draft struct {
	inv     node.Inventory
	devices []*device
	index   map[string]*device // by name
	// judged is how many devices were begun as GPUs or NICs. overfull: one was forgotten.
	judged   int
	overfull bool
	answers  map[node.Query]node.Answer
	// values are those of answers: a node.Value each.
	values map[node.Query]any
	files  map[string]*fileList
	given  map[string]bool
	told   []told
	// modules are those that some list has, and whole lists that leave the others out.
	modules moduleList
	// p2p is the access of GPUs to each other.
	p2p  *p2pDraft
	boot bootDraft
	// ncclLogs are by the names of their texts.
	ncclLogs map[string]*jobLog
	// kernelLogs are in the order in which they were given.
	kernelLogs []kernelLog
	// collectives are by their texts, in the order in which those were given.
	collectives []collectives
	// places are where the text of a node's files stands, by their paths on the node.
	places map[string][]place
	// sourced are files that others read in.
	sourced []node.Reference
	// wholeBus: all PCI functions of the node were listed.
	wholeBus bool
	// driver is the NVIDIA driver, as far as somebody said.
	driver       node.NVIDIADriverState
	driverSource node.Source
	// onDisk is the driver's module on disk, open if its license is not NVIDIA's; it may be another one than the loaded.
	onDisk struct {
		version string
		open    bool
	}
}

// told is a relation of two devices by their names.
type told struct{ a, b, relation string }

// fileList are files of one kind.
type fileList struct {
	files  []confdir.File
	answer func([]confdir.File) node.Answer
}

// Devices are named by what text calls them, CLASS:NAME.
const (
	gpuIndex = "gpu:"    // number of nvidia-smi
	gpuUUID  = "uuid:"   // GPU-...
	pciName  = "pci:"    // DDDD:BB:DD.F
	rdmaName = "rdma:"   // mlx5_0
	netName  = "netdev:" // eth1
	nicIndex = "nic:"    // number of nvidia-smi topo -m
)

// device is what is said of a GPU, a NIC or another PCI function. Its names are joined when some text gives two of them.
type device struct {
	names map[string]bool
	// is gpu, nic or empty for another function.
	is       string
	function node.PCIFunction
	product  string

	gpu       node.GPUState
	unlinked  unlinked
	links     node.Value[node.NVLinkState]
	fabric    node.Value[node.GPUFabricState]
	registers node.PCIRegisterState
	pciLink   node.PCILinkState

	netdev node.Netdev
	link   node.LinkState
	// rdmaPort is the first port of the RDMA device, furtherPorts are the others by number.
	rdmaPort     rdmaPort
	furtherPorts map[int]*rdmaPort
	dcb          node.DCBState
	roce         node.RoCEState
	flow         node.FlowControlState
	source       node.Source
}

// rdmaPort is what is said of a port.
type rdmaPort struct{ node.RDMAPortState }

// port is the one with a number, from 1.
func (x *device) port(n int) *rdmaPort {
	if n <= 1 || n > maxPorts {
		return &x.rdmaPort
	}
	if x.furtherPorts == nil {
		x.furtherPorts = map[int]*rdmaPort{}
	}
	if x.furtherPorts[n] == nil {
		x.furtherPorts[n] = &rdmaPort{}
	}
	return x.furtherPorts[n]
}

// maxPorts is how many ports an RDMA device can have (the kernel's port numbers are 8 bits in InfiniBand's management datagrams).
const maxPorts = 254

// device finds the device that has a name, or makes one.
func (d *draft) device(is, name string) *device {
	if x := d.index[name]; x != nil {
		x.is = cmp.Or(x.is, is)
		return x
	}
	x := &device{is: is, names: map[string]bool{name: true}}
	x.function.NUMANode = -1
	if len(d.devices) >= maxDevices || is != "" && d.judged >= maxGPUsAndNICs {
		d.overfull = true
		return x // forgotten
	}
	d.judged += one(is != "")
	if d.index == nil {
		d.index = map[string]*device{}
	}
	d.index[name] = x
	d.devices = append(d.devices, x)
	return x
}

// The bounds of devices are more than any node has, which shows some hundred PCI functions, with virtual ones a few thousand. Profiles go
// over GPUs and NICs, for each pair of them in places.
const (
	maxDevices     = 4096
	maxGPUsAndNICs = 512
)

// same joins two names of one device.
func (d *draft) same(is, a, b string) *device {
	x, y := d.device(is, a), d.device(is, b)
	if x == y {
		return x
	}
	maps.Copy(x.names, y.names)
	if d.index[a] == x {
		for name := range y.names {
			d.index[name] = x
		}
	}
	x.is, x.product = cmp.Or(x.is, y.is), cmp.Or(x.product, y.product)
	if x.function.NUMANode < 0 {
		x.function.NUMANode = y.function.NUMANode
	}
	fill(&x.function, y.function)
	fill(&x.gpu, y.gpu)
	fill(&x.registers, y.registers)
	fill(&x.pciLink, y.pciLink)
	fill(&x.netdev, y.netdev)
	fill(&x.link, y.link)
	fill(&x.rdmaPort.RDMAPortState, y.rdmaPort.RDMAPortState)
	for n, p := range y.furtherPorts {
		fill(&x.port(n).RDMAPortState, p.RDMAPortState)
	}
	fill(&x.dcb, y.dcb)
	fill(&x.roce, y.roce)
	fill(&x.flow, y.flow)
	if x.links.IsZero() {
		x.links = y.links
	}
	x.unlinked = cmp.Or(x.unlinked, y.unlinked)
	if x.fabric.IsZero() {
		x.fabric = y.fabric
	}
	if x.source == (node.Source{}) {
		x.source = y.source
	}
	d.devices = slices.DeleteFunc(d.devices, func(z *device) bool { return z == y })
	return x
}

// fill gives the fields of a struct that say nothing what those of another one say.
func fill[T any](into *T, from T) {
	a, b := reflect.ValueOf(into).Elem(), reflect.ValueOf(from)
	for i := range a.NumField() {
		if a.Field(i).IsZero() {
			a.Field(i).Set(b.Field(i))
		}
	}
}

// name is the part of one of the device's names behind a class; of several the first.
func (x *device) name(class string) string {
	for _, n := range slices.Sorted(maps.Keys(x.names)) {
		if name, ok := strings.CutPrefix(n, class); ok {
			return name
		}
	}
	return ""
}

// key is what facts call the device: its address, else the best of the names that text gave it.
func (x *device) key() string {
	if address := x.name(pciName); address != "" {
		return address
	}
	if n := x.name(gpuIndex); n != "" {
		return "GPU" + n
	}
	if n := x.name(nicIndex); n != "" && x.name(rdmaName) == "" && x.name(netName) == "" {
		return "NIC" + n
	}
	return cmp.Or(x.name(rdmaName), x.name(netName), x.name(gpuUUID))
}

// say answers a query, unless somebody did so before.
func say[T any](d *draft, kind node.Kind[T], key string, v node.Value[T]) {
	if d.answers == nil {
		d.answers, d.values = map[node.Query]node.Answer{}, map[node.Query]any{}
	}
	q := kind.Query(key)
	if _, ok := d.answers[q]; ok {
		return
	}
	d.answers[q], d.values[q] = kind.Answer(key, v), v
	d.give(kind.Name(), key)
}

// give notes that a kind of facts was given, so that profiles can ask for it.
func (d *draft) give(kind, key string) {
	if d.given == nil {
		d.given = map[string]bool{}
	}
	d.given[kind] = true
	if key != "" {
		d.given[kind+":"+key] = true
	}
}

// addFile adds one file to those of a kind, which are one answer. assumed is where it stands on the node if nobody said.
func (d *draft) addFile(kind node.Kind[[]confdir.File], key string, s section, assumed, text string) {
	path := d.stands(s, assumed)
	if d.files == nil {
		d.files = map[string]*fileList{}
	}
	name := kind.Query(key).String()
	list := d.files[name]
	if list == nil {
		list = &fileList{answer: func(files []confdir.File) node.Answer {
			return kind.Answer(key, node.Known(files, node.Source{Path: files[0].Path}))
		}}
		d.files[name] = list
		d.give(kind.Name(), key)
	}
	if !slices.ContainsFunc(list.files, func(f confdir.File) bool { return f.Path == path }) {
		list.files = append(list.files, confdir.File{Path: path, Text: text})
	}
}

// facts are what all texts say together.
func (d *draft) facts() node.Facts {
	inv := d.inv
	var answers []node.Answer
	add := func(a node.Answer) { answers = append(answers, a) }
	for _, q := range slices.SortedFunc(maps.Keys(d.answers), node.CompareQueries) {
		add(d.answers[q])
	}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		add(d.files[name].answer(d.files[name].files))
	}
	for _, a := range d.modules.answers() {
		add(a)
	}
	if len(d.kernelLogs) > 0 {
		add(kernelLogAnswer(d.kernelLogs))
	}
	given := maps.Clone(d.given)
	if given == nil {
		given = map[string]bool{}
	}
	for _, m := range d.modules.given() {
		given[m] = true
	}
	for _, a := range d.jobs() {
		given[a.Query.Kind], given[a.Query.String()] = true, true
		add(a)
	}
	d.inventory(&inv, given)
	if a, ok := d.boot.answer(d.sourced); ok {
		add(a)
		given[node.Boot.Name()] = true
	}
	if d.driver.Loaded {
		if d.onDisk.version != "" && d.onDisk.version == d.driver.Version && !given["driver_flavour"] {
			d.driver.Open, given["driver_flavour"] = d.onDisk.open, true
		}
		add(node.NVIDIADriver.Answer("", node.Known(d.driver, d.driverSource)))
		given[node.NVIDIADriver.Name()] = true
		given["driver_version"] = d.driver.Version != ""
	}
	if d.p2p != nil {
		add(node.P2P.Answer("", node.Known(d.p2p.state(d), node.Source{Call: "nvidia-smi topo -p2p"})))
		given[node.P2P.Name()] = true
	}
	for _, x := range d.devices {
		d.resolve(x)
		for _, a := range x.answers(given) {
			add(a)
		}
	}
	maps.DeleteFunc(given, func(_ string, is bool) bool { return !is })
	inv.Given = node.Known(slices.Sorted(maps.Keys(given)), node.Source{})
	return node.NewFacts(inv, noTime, answers)
}

// inventory makes PCI functions, network devices and RDMA devices of the devices.
func (d *draft) inventory(inv *node.Inventory, given map[string]bool) {
	unknown := func(what string) string { return what + ": " + notGiven }
	if inv.Virtualization.IsZero() {
		inv.Virtualization = node.Unknown[string](notGiven, node.Source{})
	}
	inv.Partial = "text shows what it is about, not the whole node"
	if d.wholeBus {
		inv.Partial = ""
	}
	slices.SortStableFunc(d.devices, func(a, b *device) int { return natural(a.key(), b.key()) })
	var functions []node.PCIFunction
	var netdevs []node.Netdev
	var rdma []node.RDMADevice
	var source node.Source
	for _, x := range d.devices {
		f := x.function
		f.Address = x.key()
		switch x.is {
		case "gpu":
			given["gpus"] = true
			f.Vendor, f.Class = cmp.Or(f.Vendor, "10de"), cmp.Or(f.Class, "030200")
			if f.Device == "" && x.product != "" {
				f.Device = node.GPUDevice(x.product)
			}
		case "nic":
			given["nics"] = true
			f.Class = cmp.Or(f.Class, "020000")
			netdevs, rdma = append(netdevs, x.netdevs(f.Address)...), append(rdma, x.rdmaDevices(f.Address)...)
		}
		if source == (node.Source{}) {
			source = x.source
		}
		functions = append(functions, f)
	}
	if len(functions) > 0 {
		inv.PCI = node.Known(functions, source)
	} else {
		inv.PCI = node.Unknown[[]node.PCIFunction](unknown("what is on the PCI bus"), node.Source{})
	}
	if len(rdma) > 0 {
		inv.RDMA = node.Known(rdma, source)
		given["rdma"] = true
	} else {
		inv.RDMA = node.Unknown[[]node.RDMADevice](unknown("which RDMA devices there are"), node.Source{})
	}
	if virtual, ok := inv.Netdevs.Get(); ok {
		netdevs = append(netdevs, virtual...)
	}
	if len(netdevs) > 0 {
		inv.Netdevs = node.Known(netdevs, source)
		given["netdevs"] = true
	} else {
		inv.Netdevs = node.Unknown[[]node.Netdev](unknown("which network devices there are"), node.Source{})
	}
	for _, t := range d.told {
		a, b := d.find(t.a), d.find(t.b)
		if a != nil && b != nil && a != b {
			given["relations"] = true
			inv.Told = append(inv.Told, node.ToldRelation{Between: [2]string{a.key(), b.key()}, Relation: t.relation})
		}
	}
}

// resolve gives the NVLinks of a GPU the keys of the GPUs at their other ends, which text names by number. Without
// links it takes what a matrix says.
func (d *draft) resolve(x *device) {
	set(&x.links, x.unlinked.links(x))
	state, ok := x.links.Get()
	if !ok {
		return
	}
	links := slices.Clone(state.Links)
	for i, l := range links {
		if name, _ := l.RemoteAddress.Get(); strings.HasPrefix(name, gpuIndex) {
			if other := d.find(name); other != nil {
				links[i].RemoteAddress = node.Known(other.key(), l.RemoteAddress.Source())
			}
		}
	}
	x.links = node.Known(node.NVLinkState{Links: links}, x.links.Source())
}

// find is the device that has a name, or nil.
func (d *draft) find(name string) *device { return d.index[name] }

// netdevs is the network device of a NIC, if text names it.
func (x *device) netdevs(address string) []node.Netdev {
	name := x.name(netName)
	if name == "" {
		return nil
	}
	n := x.netdev
	n.Name, n.PCI, n.Port = name, address, 1
	n.Type = cmp.Or(n.Type, node.ARPHardwareEthernet)
	return []node.Netdev{n}
}

// rdmaDevices is the RDMA device of a NIC, if text names it.
func (x *device) rdmaDevices(address string) []node.RDMADevice {
	name := x.name(rdmaName)
	if name == "" {
		return nil
	}
	ports := []node.RDMADevicePort{{Port: 1, Netdev: x.name(netName)}}
	for _, n := range slices.Sorted(maps.Keys(x.furtherPorts)) {
		ports = append(ports, node.RDMADevicePort{Port: n})
	}
	for i := range ports {
		if layer := x.port(ports[i].Port).LinkLayer; layer != "" {
			ports[i].LinkLayer = node.Known(layer, x.source)
		}
	}
	return []node.RDMADevice{{Name: name, PCI: address, Ports: ports}}
}

// answers are the facts about the device, noted in given.
func (x *device) answers(given map[string]bool) []node.Answer {
	var all []node.Answer
	key := x.key()
	note := func(kind, key string, a node.Answer) {
		given[kind], given[kind+":"+key] = true, true
		all = append(all, a)
	}
	if !reflect.ValueOf(x.gpu).IsZero() || x.product != "" {
		if x.gpu.Product.IsZero() && x.product != "" {
			x.gpu.Product = node.Known(x.product, x.source)
		}
		given["mig"] = given["mig"] || x.gpu.MIG.IsKnown()
		given["gpu_fault"] = given["gpu_fault"] || x.gpu.Fault != "" || x.gpu.RepairFailed.IsKnown() || x.gpu.RepairPending.IsKnown() || x.gpu.Recovery.IsKnown()
		given["ecc"] = given["ecc"] || x.gpu.ECC.IsKnown() && x.gpu.ECCPending.IsKnown()
		note(node.GPUInfo.Name(), key, node.GPUInfo.Answer(key, node.Known(x.gpu, x.source)))
	}
	if !x.links.IsZero() {
		note(node.NVLinks.Name(), key, node.NVLinks.Answer(key, x.links))
	}
	if !x.fabric.IsZero() {
		note(node.GPUFabric.Name(), key, node.GPUFabric.Answer(key, x.fabric))
	}
	if !reflect.ValueOf(x.registers).IsZero() {
		note(node.PCIRegisters.Name(), key, node.PCIRegisters.Answer(key, node.Known(x.registers, x.source)))
		if acs, ok := x.registers.ACS.Get(); ok && acs.Present {
			given["acs"], given["acs:"+key] = true, true
		}
	}
	set(&x.pciLink.Current, linkOf(x.gpu.PCIeGeneration, x.gpu.PCIeWidth))
	set(&x.pciLink.Max, linkOf(x.gpu.PCIeMaxGeneration, x.gpu.PCIeMaxWidth))
	if !x.pciLink.Current.IsZero() || x.pciLink.Fault != "" {
		note(node.PCILink.Name(), key, node.PCILink.Answer(key, node.Known(x.pciLink, x.source)))
	}
	if x.is != "nic" {
		return all
	}
	if !reflect.ValueOf(x.link).IsZero() {
		x.link.Netdev = x.name(netName)
		note(node.Link.Name(), key, node.Link.Answer(key, node.Known(x.link, x.source)))
	}
	mark := func(what string) { given[what], given[what+":"+key] = true, true }
	if x.name(rdmaName) != "" && x.rdmaPort.LinkLayer != "InfiniBand" && (x.rdmaPort.State.IsKnown() || x.link.Carrier.IsKnown()) {
		mark("ports")
	}
	if rdma := x.name(rdmaName); rdma != "" {
		for _, n := range append([]int{1}, slices.Sorted(maps.Keys(x.furtherPorts))...) {
			p := x.port(n).RDMAPortState
			if reflect.ValueOf(p).IsZero() {
				continue
			}
			if p.LinkLayer == "InfiniBand" {
				mark("infiniband")
			}
			if p.LinkLayer == "Ethernet" && x.link.MTU.IsKnown() && n == 1 {
				mark("mtu")
			}
			if p.LinkLayer == "Ethernet" && p.GIDs.IsKnown() {
				mark("gids")
			}
			port := fmt.Sprintf("%s/%d", rdma, n)
			note(node.RDMAPort.Name(), port, node.RDMAPort.Answer(port, node.Known(p, x.source)))
		}
	}
	if !reflect.ValueOf(x.dcb).IsZero() {
		x.dcb.Netdev = x.name(netName)
		note(node.DCB.Name(), key, node.DCB.Answer(key, node.Known(x.dcb, x.source)))
	}
	if !reflect.ValueOf(x.roce).IsZero() {
		x.roce.Netdev = x.name(netName)
		note(node.RoCE.Name(), key, node.RoCE.Answer(key, node.Known(x.roce, x.source)))
	}
	if !reflect.ValueOf(x.flow).IsZero() {
		x.flow.Netdev = x.name(netName)
		note(node.FlowControl.Name(), key, node.FlowControl.Answer(key, node.Known(x.flow, x.source)))
	}
	return all
}

// natural compares names by the numbers in them: GPU2 comes before GPU10. Addresses are hexadecimal, and compared as they are.
func natural(a, b string) int {
	if node.IsPCIAddress(a) && node.IsPCIAddress(b) {
		return cmp.Compare(a, b)
	}
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			x, y := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(da, db)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many decimal digits a text begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// gpuNamed is the name of a GPU by its number.
func gpuNamed(n int) string { return fmt.Sprintf("%s%d", gpuIndex, n) }

// any is one of the device's names.
func (x *device) any() string { return slices.Min(slices.Collect(maps.Keys(x.names))) }
