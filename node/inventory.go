package node

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// What steps can provide and unknowns can wait for.
const (
	// CapabilityRDMA: RDMA devices appear for NICs (a module such as mlx5_ib was loaded).
	CapabilityRDMA = "rdma-devices"
	// CapabilityRDMACM: the directory of an RDMA device below /sys/kernel/config/rdma_cm, where the
	// defaults of its connections stand. It exists once the module rdma_cm is loaded, configfs
	// is mounted and somebody has made the directory.
	CapabilityRDMACM = "rdma-cm-configfs"
)

// Inventory is what every run reads first: cheap and the same for all profiles.
type Inventory struct {
	Hostname string `json:"hostname,omitempty"`
	// Arch is the machine as uname has it: x86_64, aarch64.
	Arch Value[string] `json:"arch,omitzero"`
	// Kernel is the running kernel's release.
	Kernel Value[string] `json:"kernel,omitzero"`
	OS     Value[OS]     `json:"os,omitzero"`
	DMI    Value[DMI]    `json:"dmi,omitzero"`
	// Virtualization is "none" on bare metal, else systemd's name for the
	// hypervisor (kvm, vmware, microsoft, xen, amazon ...).
	Virtualization Value[string] `json:"virtualization,omitzero"`
	// PCI are all PCI functions, sorted by address.
	PCI Value[[]PCIFunction] `json:"pci,omitzero"`
	// Netdevs are all network devices, sorted by name.
	Netdevs Value[[]Netdev] `json:"netdevs,omitzero"`
	// RDMA are all RDMA devices, sorted by name.
	RDMA Value[[]RDMADevice] `json:"rdma,omitzero"`
	// Routes are the routes that decide which NICs are protected.
	Routes Value[[]Route] `json:"routes,omitzero"`
	// Protected are the network devices that busbar must not touch, sorted by
	// name, and NIC ports without one; unknown when none could be told.
	Protected Value[[]ProtectedNetdev] `json:"protected,omitzero"`
	// SavedProtected is what ProtectedPath holds; a known empty list means that nothing was saved.
	SavedProtected Value[[]string] `json:"saved_protected,omitzero"`
	// BootID is /proc/sys/kernel/random/boot_id.
	BootID Value[string] `json:"boot_id,omitzero"`
	// Uptime since boot.
	Uptime Value[time.Duration] `json:"uptime,omitzero" range:"0:"`
	// Marker is what the last apply left for after a reboot; a known zero Marker means
	// that there is none.
	Marker Value[Marker] `json:"marker,omitzero"`
	// RootDirectory: a directory tree was read, not a running system (--root).
	RootDirectory bool `json:"root_directory,omitempty"`
	// Given are the facts that text about a node gave, KIND and KIND:KEY, and what of the inventory it gave (gpus, nics,
	// rdma, rdma_whole, netdevs, netdevs_whole, pci_tree, ...); sorted. It is unknown of a node that was read itself.
	Given Value[[]string] `json:"given,omitzero"`
	// Partial is why PCI, Netdevs and RDMA may lack what the node has; empty where they are whole.
	Partial string `json:"partial,omitempty"`
	// Told are relations of functions as a tool printed them (nvidia-smi topo -m). They hold where the PCI tree says nothing.
	Told []ToldRelation `json:"told,omitempty"`
}

// FromText reports that the inventory is of a node that nobody read, of which text was given.
func (inv Inventory) FromText() bool { return inv.Given.IsKnown() }

// Whole reports that a list of the inventory, rdma or netdevs, has all that the node has: of a node that was read it has, of text
// when that was a list of all.
func (inv Inventory) Whole(list string) bool {
	given, text := inv.Given.Get()
	return !text || slices.Contains(given, list+"_whole")
}

// ToldRelation is how far two functions are from each other, in both directions.
type ToldRelation struct {
	Between [2]string `json:"between"`
	// Relation is the word of nvidia-smi topo -m: PIX, PXB, PHB, NODE, SYS.
	Relation string `json:"relation"`
}

// IsEmpty reports that nothing is in the inventory, not even a reason for which something is unknown.
func (inv Inventory) IsEmpty() bool { return reflect.ValueOf(inv).IsZero() }

// OS is os-release(5).
type OS struct {
	ID         string   `json:"id"`
	IDLike     []string `json:"id_like,omitempty"`
	VersionID  string   `json:"version_id,omitempty"`
	PrettyName string   `json:"pretty_name,omitempty"`
}

// Is reports whether the distribution is one of ids or derives from one.
func (o OS) Is(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		return o.ID == id || slices.Contains(o.IDLike, id)
	})
}

// DMI is /sys/class/dmi/id; a field that firmware left empty is empty.
type DMI struct {
	SysVendor      string `json:"sys_vendor,omitempty"`
	ProductName    string `json:"product_name,omitempty"`
	ProductVersion string `json:"product_version,omitempty"`
	BoardVendor    string `json:"board_vendor,omitempty"`
	BoardName      string `json:"board_name,omitempty"`
	BIOSVendor     string `json:"bios_vendor,omitempty"`
	BIOSVersion    string `json:"bios_version,omitempty"`
}

// PCIFunction is one function on the PCI bus.
type PCIFunction struct {
	// Address is DDDD:BB:DD.F, lower case.
	Address string `json:"address"`
	// Vendor and Device are four hex digits, lower case.
	Vendor string `json:"vendor"`
	Device string `json:"device"`
	// SubsystemVendor and SubsystemDevice likewise.
	SubsystemVendor string `json:"subsystem_vendor,omitempty"`
	SubsystemDevice string `json:"subsystem_device,omitempty"`
	// Class is six hex digits: class, subclass, programming interface.
	Class string `json:"class"`
	// NUMANode is -1 when firmware did not say.
	NUMANode int `json:"numa_node" range:"-1:1023"`
	// Driver bound to the function, or empty.
	Driver string `json:"driver,omitempty"`
	// Parent is the address of the bridge above; empty below a root bus.
	Parent string `json:"parent,omitempty"`
	// PhysicalFunction is the address of a virtual function's PF.
	PhysicalFunction string `json:"physical_function,omitempty"`
}

// ID is VENDOR:DEVICE.
func (p PCIFunction) ID() string { return p.Vendor + ":" + p.Device }

// IsNVIDIAGPU reports a VGA (0300) or 3D (0302) controller of vendor NVIDIA.
func (p PCIFunction) IsNVIDIAGPU() bool {
	return p.Vendor == "10de" && (strings.HasPrefix(p.Class, "0300") || strings.HasPrefix(p.Class, "0302"))
}

// IsNVSwitch reports an NVSwitch up to the third generation, a bridge of class 0680
// of vendor NVIDIA. Later generations show no PCI function.
func (p PCIFunction) IsNVSwitch() bool {
	return p.Vendor == "10de" && strings.HasPrefix(p.Class, "0680")
}

// IsVFIO reports a function that was handed to a guest or to a user's program: vfio-pci, mlx5_vfio_pci,
// nvgrace-gpu-vfio-pci and other drivers of VFIO.
func (p PCIFunction) IsVFIO() bool { return strings.Contains(p.Driver, "vfio") }

// IsPort reports a PCI-to-PCI bridge (0604), as which the ports of PCIe switches and of processors show.
func (p PCIFunction) IsPort() bool { return strings.HasPrefix(p.Class, "0604") }

// IsNIC reports an Ethernet (0200) or InfiniBand (0207) controller.
func (p PCIFunction) IsNIC() bool {
	return strings.HasPrefix(p.Class, "0200") || strings.HasPrefix(p.Class, "0207")
}

// linkLayer is the link layer of a NIC by its class, which firmware gives the function as it comes up (PCI Code and ID Assignment
// Specification, 1.3).
func (p PCIFunction) linkLayer() Value[string] {
	layer := "Ethernet"
	if strings.HasPrefix(p.Class, "0207") {
		layer = "InfiniBand"
	}
	return Known(layer, Source{Path: "/sys/bus/pci/devices/" + p.Address + "/class"})
}

// Netdev is a network device.
type Netdev struct {
	Name string `json:"name"`
	// Type is the ARP hardware type: 1 Ethernet, 32 InfiniBand, 772 loopback.
	Type int `json:"type" range:"0:65535"`
	// PCI is the address of the function behind it; empty for virtual devices.
	PCI string `json:"pci,omitempty"`
	// Port of the function, from 1 (dev_port + 1).
	Port int `json:"port,omitempty" range:"1:"`
	// Lower are the devices it stands on: ports of a bond or bridge, the parent of a VLAN.
	Lower []string `json:"lower,omitempty"`
	// Up: administratively up.
	Up bool `json:"up,omitempty"`
	// Addresses in CIDR form, sorted.
	Addresses []string `json:"addresses,omitempty"`
}

// ARP hardware types of Netdev.Type (include/uapi/linux/if_arp.h).
const (
	ARPHardwareEthernet   = 1
	ARPHardwareInfiniBand = 32
	ARPHardwareLoopback   = 772
)

// RDMADevice is an entry of /sys/class/infiniband.
type RDMADevice struct {
	Name string `json:"name"`
	// PCI is the address of the function behind it; empty for rxe and siw.
	PCI   string           `json:"pci,omitempty"`
	Ports []RDMADevicePort `json:"ports,omitempty"`
}

// Route is one route of the main table, with what it needs to tell the NIC that leads there.
type Route struct {
	// Destination in CIDR form; "default" for the default route.
	Destination string `json:"destination"`
	// Devices carry it, several for a multipath route.
	Devices []string `json:"devices"`
}

// ProtectedNetdev is a network device that busbar must not touch, or a NIC port that must not be touched although
// it has none.
type ProtectedNetdev struct {
	Name string `json:"name" range:"0:"`
	// NIC is a port without a network device, as NIC.String has it; Name is empty then.
	NIC string `json:"nic,omitempty"`
	// Reason: "carries the default route", ProtectedForSSH, ProtectedAsSaved ... What another device stands on has its
	// reason behind "below DEVICE: ".
	Reason string `json:"reason"`
}

// The reasons for which a NIC is protected in one run, and not saved for later ones.
const (
	ProtectedForSSH  = "route back to the SSH client"
	ProtectedAsSaved = "protected since a run that had a network"
)

// Lasts reports whether the reason holds for later runs too.
func (p ProtectedNetdev) Lasts() bool {
	return !strings.HasSuffix(p.Reason, ProtectedForSSH) && !strings.HasSuffix(p.Reason, ProtectedAsSaved)
}

// ProtectedPath is where apply saves which NICs are protected, for runs before the network is up: a JSON list of what
// LastingProtected has.
const ProtectedPath = "/var/lib/busbar/protected.json"

// Marker is what apply leaves when a reboot is owed, so that the next run can tell
// an argument that was not yet tried from one that did nothing.
type Marker struct {
	FormatVersion string `json:"format_version" range:"0:"`
	// BootID of the boot in which the arguments were set.
	BootID string `json:"boot_id" range:"0:"`
	// Args are the boot arguments that only the next boot would bring.
	Args []string `json:"args"`
}

// MarkerPath is where the marker stands.
const MarkerPath = "/var/lib/busbar/marker.json"

// Expects reports whether the marker was left in an earlier boot than bootID with
// all of args. An unknown (empty) bootID is no later boot.
func (m Marker) Expects(args []string, bootID string) bool {
	if m.BootID == "" || bootID == "" || m.BootID == bootID {
		return false
	}
	for _, a := range args {
		if !slices.Contains(m.Args, a) {
			return false
		}
	}
	return true
}

// GPU is an NVIDIA GPU as the PCI bus shows it.
type GPU struct {
	Address  string
	PCIID    string
	NUMANode int
}

// Called is how sentences call a device of a kind, GPU or NIC: "GPU 0000:1b:00.0". What text names without an address has
// the kind in its name already: GPU3, NIC0.
func Called(kind, device string) string {
	if strings.HasPrefix(device, kind) {
		return device
	}
	return kind + " " + device
}

// GPUs lists the NVIDIA GPUs by address; unknown when the PCI bus is.
func (inv Inventory) GPUs() Value[[]GPU] {
	functions, ok := inv.PCI.Get()
	if !ok {
		return Unknown[[]GPU](inv.PCI.Reason(), inv.PCI.Source())
	}
	gpus := []GPU{}
	for _, p := range functions {
		if p.IsNVIDIAGPU() {
			gpus = append(gpus, GPU{Address: p.Address, PCIID: p.ID(), NUMANode: p.NUMANode})
		}
	}
	return Known(gpus, inv.PCI.Source())
}

// NVSwitches reports NVSwitches that the node has to route itself: functions on its PCI bus or, on bare metal, those of a
// board whose GPUs have the fifth generation of NVLink, which are none (NVIDIA's fabric manager guide, "Systems using fourth
// generation NVSwitches"). A virtual machine does not see the latter.
func (inv Inventory) NVSwitches() Value[bool] {
	functions, ok := inv.PCI.Get()
	if !ok {
		return UnknownLike[bool](inv.PCI)
	}
	if slices.ContainsFunc(functions, PCIFunction.IsNVSwitch) {
		return Known(true, inv.PCI.Source())
	}
	if !inv.hasFifthNVLinks() {
		if inv.Partial != "" {
			return Unknown[bool](inv.Partial, inv.PCI.Source())
		}
		return Known(false, inv.PCI.Source())
	}
	hypervisor, ok := inv.Virtualization.Get()
	if !ok {
		return UnknownLike[bool](inv.Virtualization)
	}
	return Known(hypervisor == "none", inv.PCI.Source())
}

// hasFifthNVLinks reports GPUs whose board has NVSwitches that are no PCI functions.
func (inv Inventory) hasFifthNVLinks() bool {
	gpus, _ := inv.GPUs().Get()
	return slices.ContainsFunc(gpus, func(g GPU) bool {
		m, _ := g.Model()
		return m.Peers == NVLinkFifth
	})
}

// NIC is one port of a network adapter, keyed by PCI address and port.
type NIC struct {
	Address  string
	Port     int
	PCIID    string
	NUMANode int
	// Netdev is the name of its network device.
	Netdev Value[string]
	// RDMA is the name of its RDMA device; the ports of a bond share one (mlx5_bond_0).
	RDMA Value[string]
	// LinkLayer is Ethernet or InfiniBand: what the RDMA device says, else the network device, else the PCI class.
	LinkLayer Value[string]
	// Protected: busbar must not touch it.
	Protected Value[bool]
	// GPUs are the addresses of the GPUs that it is nearest to, of those at PXB or nearer, by
	// address; unknown where the PCI tree tells nothing.
	GPUs Value[[]string]
}

// HasNetdev reports whether the port has a network device in this network namespace.
func (inv Inventory) HasNetdev(n NIC) Value[bool] { return has(n.Netdev, inv.Netdevs) }

// HasRDMA reports whether the port has an RDMA device.
func (inv Inventory) HasRDMA(n NIC) Value[bool] { return has(n.RDMA, inv.RDMA) }

// has reports whether a port has one of the devices of a kind: none of them is known where all are.
func has[T any](name Value[string], all Value[T]) Value[bool] {
	if !all.IsKnown() {
		return UnknownLike[bool](all)
	}
	return Known(name.IsKnown(), name.Source())
}

// String is ADDRESS or ADDRESS/PORT for ports after the first.
func (n NIC) String() string {
	if n.Port <= 1 {
		return n.Address
	}
	return fmt.Sprintf("%s/%d", n.Address, n.Port)
}

// RDMADevicePort is a port of an RDMA device.
type RDMADevicePort struct {
	// Port from 1.
	Port int `json:"port" range:"1:"`
	// Netdev that belongs to the port (its GIDs' netdev), or empty.
	Netdev string `json:"netdev,omitempty"`
	// LinkLayer is InfiniBand or Ethernet.
	LinkLayer Value[string] `json:"link_layer,omitzero"`
}

// Unbound says why a NIC has neither network nor RDMA devices: no driver is bound to the PCI function, or one of VFIO. It is empty for
// others, and where that is unknown.
func (inv Inventory) Unbound(address string) string {
	f, ok := inv.PCIFunction(address)
	netdevs, told := inv.Netdevs.Get()
	devices, both := inv.RDMA.Get()
	switch {
	case !ok, !told, !both,
		slices.ContainsFunc(netdevs, func(d Netdev) bool { return d.PCI == address }),
		slices.ContainsFunc(devices, func(d RDMADevice) bool { return d.PCI == address }):
		return ""
	case f.Driver == "" && inv.FromText():
		return "" // nobody said
	case f.Driver == "":
		return "no driver is bound to it"
	case f.IsVFIO():
		return "it was handed to a guest or a program (driver " + f.Driver + ")"
	default:
		return ""
	}
}

// NICs lists the ports of all network adapters (virtual functions left out) by
// address and port; unknown when the PCI bus is.
func (inv Inventory) NICs() Value[[]NIC] {
	functions, ok := inv.PCI.Get()
	if !ok {
		return Unknown[[]NIC](inv.PCI.Reason(), inv.PCI.Source())
	}
	nics := []NIC{}
	tree, guarded := inv.Topology(), inv.guarded()
	list, _ := inv.GPUs().Get() // known where the PCI bus is
	gpus := make([]Place, len(list))
	for i, g := range list {
		gpus[i] = tree.Place(g.Address)
	}
	for _, p := range functions {
		if !p.IsNIC() || p.PhysicalFunction != "" {
			continue
		}
		near := tree.nearest(p.Address, gpus)
		for _, port := range inv.nicPorts(p.Address) {
			n := inv.nic(p, port, guarded)
			n.GPUs = near
			nics = append(nics, n)
		}
	}
	return Known(nics, inv.PCI.Source())
}

// nicPorts are the ports by which a function is seen, port 1 when nothing shows any.
func (inv Inventory) nicPorts(address string) []int {
	ports := []int{}
	devices, _ := inv.RDMA.Get()
	for _, d := range devices {
		if d.PCI == address {
			for _, p := range d.Ports {
				ports = append(ports, p.Port)
			}
		}
	}
	netdevs, _ := inv.Netdevs.Get()
	for _, d := range netdevs {
		if d.PCI == address && d.Port > 0 {
			ports = append(ports, d.Port)
		}
	}
	if len(ports) == 0 {
		return []int{1}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func (inv Inventory) nic(p PCIFunction, port int, guarded map[string]ProtectedNetdev) NIC {
	n := NIC{Address: p.Address, Port: port, PCIID: p.ID(), NUMANode: p.NUMANode}
	n.Netdev = inv.nicNetdev(p, port)
	n.RDMA, n.LinkLayer = inv.nicRDMA(p, port, n.Netdev)
	n.Protected = inv.nicProtected(n, guarded)
	return n
}

func (inv Inventory) nicNetdev(p PCIFunction, port int) Value[string] {
	netdevs, ok := inv.Netdevs.Get()
	if !ok {
		return Unknown[string](inv.Netdevs.Reason(), inv.Netdevs.Source())
	}
	for _, d := range netdevs {
		if d.PCI == p.Address && d.Port == port {
			return Known(d.Name, Source{Path: "/sys/class/net/" + d.Name})
		}
	}
	if inv.FromText() {
		return Unknown[string]("nobody said which network device the NIC has", Source{})
	}
	reason := "the NIC has no network device: no driver is bound to it"
	if p.Driver != "" {
		reason = "the NIC has no network device although driver " + p.Driver + " is bound to it"
	}
	return Unknown[string](reason, Source{Path: "/sys/bus/pci/devices/" + p.Address})
}

func (inv Inventory) nicRDMA(p PCIFunction, port int, netdev Value[string]) (rdma, linkLayer Value[string]) {
	linkLayer = inv.netdevLinkLayer(netdev)
	devices, ok := inv.RDMA.Get()
	if !ok {
		return Unknown[string](inv.RDMA.Reason(), inv.RDMA.Source()), linkLayer
	}
	name, hasNetdev := netdev.Get()
	for _, belongs := range []func(RDMADevice, RDMADevicePort) bool{
		func(d RDMADevice, dp RDMADevicePort) bool { return d.PCI == p.Address && dp.Port == port },
		func(d RDMADevice, dp RDMADevicePort) bool { return d.PCI == "" && hasNetdev && dp.Netdev == name }, // rxe, siw
		func(d RDMADevice, dp RDMADevicePort) bool {
			return sameDevice(d.PCI, p.Address) && hasNetdev && inv.standsOn(dp.Netdev, name)
		},
	} {
		for _, d := range devices {
			for _, dp := range d.Ports {
				if !belongs(d, dp) {
					continue
				}
				if dp.LinkLayer.IsKnown() || !linkLayer.IsKnown() {
					linkLayer = dp.LinkLayer
				}
				return Known(d.Name, Source{Path: "/sys/class/infiniband/" + d.Name}), linkLayer
			}
		}
	}
	if inv.FromText() {
		return Unknown[string]("nobody said which RDMA device the NIC has", Source{}), linkLayer
	}
	if !hasNetdev && inv.Netdevs.IsKnown() {
		linkLayer = p.linkLayer()
	}
	return Awaiting[string]("the NIC has no RDMA device", CapabilityRDMA, Source{Path: "/sys/bus/pci/devices/" + p.Address}), linkLayer
}

// sameDevice reports whether two PCI functions, DDDD:BB:DD.F, are of one device.
func sameDevice(a, b string) bool {
	deviceA, _, found := strings.Cut(a, ".")
	deviceB, _, _ := strings.Cut(b, ".")
	return found && deviceA == deviceB
}

// standsOn reports whether a network device stands on another one, as a bond on its ports.
func (inv Inventory) standsOn(name, lower string) bool {
	netdevs, _ := inv.Netdevs.Get()
	return slices.ContainsFunc(netdevs, func(d Netdev) bool { return d.Name == name && slices.Contains(d.Lower, lower) })
}

// netdevLinkLayer reads the link layer off the hardware type of a network device.
func (inv Inventory) netdevLinkLayer(netdev Value[string]) Value[string] {
	name, ok := netdev.Get()
	if !ok {
		return Unknown[string](netdev.Reason(), netdev.Source())
	}
	netdevs, _ := inv.Netdevs.Get()
	for _, d := range netdevs {
		if d.Name != name {
			continue
		}
		source := Source{Path: "/sys/class/net/" + name + "/type"}
		switch d.Type {
		case ARPHardwareEthernet:
			return Known("Ethernet", source)
		case ARPHardwareInfiniBand:
			return Known("InfiniBand", source)
		default:
			return Unknown[string](fmt.Sprintf("%s has hardware type %d", name, d.Type), source)
		}
	}
	return Unknown[string](name+" is gone", Source{})
}

// guarded is what protects NIC ports, by NIC.String: the network device of the port, another one on it (an IPoIB
// partition's), or one of its virtual functions', which share the link.
func (inv Inventory) guarded() map[string]ProtectedNetdev {
	protected, _ := inv.Protected.Get()
	netdevs, _ := inv.Netdevs.Get()
	ports := map[string]ProtectedNetdev{}
	add := func(address string, port int, p ProtectedNetdev) {
		key := NIC{Address: address, Port: port}.String()
		if _, there := ports[key]; !there {
			ports[key] = p
		}
	}
	for _, p := range protected {
		if p.NIC != "" {
			ports[p.NIC] = p
			continue
		}
		i := slices.IndexFunc(netdevs, func(d Netdev) bool { return d.Name == p.Name })
		if i < 0 || netdevs[i].PCI == "" {
			continue
		}
		add(netdevs[i].PCI, netdevs[i].Port, p)
		if f, _ := inv.PCIFunction(netdevs[i].PCI); f.PhysicalFunction != "" {
			for _, port := range inv.nicPorts(f.PhysicalFunction) {
				add(f.PhysicalFunction, port, p)
			}
		}
	}
	return ports
}

// LastingProtected are the NIC ports that are protected for a reason that lasts, as NIC.String has them, and by name the
// network devices that are so and have no PCI address; sorted. It is unknown without a default route: what else protects
// NICs may be known then, and is not all.
func (inv Inventory) LastingProtected() Value[[]string] {
	protected, ok := inv.Protected.Get()
	if !ok {
		return UnknownLike[[]string](inv.Protected)
	}
	routes, ok := inv.Routes.Get()
	if !ok {
		return UnknownLike[[]string](inv.Routes)
	}
	if !slices.ContainsFunc(routes, func(r Route) bool { return r.Destination == "default" }) {
		return Unknown[[]string]("there is no default route", inv.Routes.Source())
	}
	lasting := slices.DeleteFunc(slices.Clone(protected), func(p ProtectedNetdev) bool { return !p.Lasts() })
	inv.Protected = Known(lasting, inv.Protected.Source())
	names := slices.Collect(maps.Keys(inv.guarded()))
	netdevs, _ := inv.Netdevs.Get()
	for _, p := range lasting {
		onPCI := slices.ContainsFunc(netdevs, func(d Netdev) bool { return d.Name == p.Name && d.PCI != "" })
		if p.NIC == "" && !onPCI {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return Known(names, inv.Protected.Source())
}

// nicProtected: an InfiniBand port without a network device (without IPoIB) carries no route, and nothing that is
// reached by an IP address, as roots on NFS, iSER and NVMe over RDMA are (rdma_cm resolves it to a network device). Nor does
// a function that no driver of this kernel's network runs. What is left is in guarded. Where such a driver is bound and
// shows no network device, that may be in another network namespace, and carry a route there.
func (inv Inventory) nicProtected(n NIC, guarded map[string]ProtectedNetdev) Value[bool] {
	if !inv.Protected.IsKnown() {
		return Unknown[bool](inv.Protected.Reason(), inv.Protected.Source())
	}
	_, protected := guarded[n.String()]
	layer, _ := n.LinkLayer.Get()
	routeless := inv.Netdevs.IsKnown() && layer == "InfiniBand" && n.RDMA.IsKnown() || inv.Unbound(n.Address) != ""
	if !protected && !n.Netdev.IsKnown() && !routeless {
		return Unknown[bool](n.Netdev.Reason(), n.Netdev.Source())
	}
	return Known(protected, inv.Protected.Source())
}
