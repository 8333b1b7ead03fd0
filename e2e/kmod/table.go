//go:build e2e

// Package kmod makes a recording's PCI tree out of kernel modules: it writes the table
// that the module labfabric reads, and compares what the kernel shows then.
package kmod

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"busbar/node"
)

// DomainShift is what the lab adds to PCI domains: domain 0000 is the virtual machine's own.
const DomainShift = 0x1000

// Fabric is the table of labfabric: root buses and functions, by address. A test can change
// registers before it writes the table.
type Fabric struct {
	Buses     []RootBus
	Functions []*Function
}

// RootBus is a host bridge with the buses below it.
type RootBus struct {
	// Domain as recorded, and the first and last bus number.
	Domain, First, Last uint
	// NUMANode of all functions below it, -1 for none.
	NUMANode int
}

// Function is a PCI function. Registers are as PCI Express Base names them
// (include/uapi/linux/pci_regs.h); a function without the capability has none of them.
type Function struct {
	node.PCIFunction
	// Type of the PCIe capability, empty without one.
	Type PortType
	// Secondary and Subordinate bus of a bridge, 0 for other functions.
	Secondary, Subordinate uint
	// DeviceCapabilities and DeviceControl: MPS, MRRS, ordering.
	DeviceCapabilities uint32
	DeviceControl      uint16
	// LinkCapabilities and LinkStatus: speed and width.
	LinkCapabilities uint32
	LinkStatus       uint16
	// ACS is Access Control Services, nil without the capability.
	ACS *ACS
	// ATSControl of Address Translation Services, nil without the capability.
	ATSControl *uint16
	// Netdevs are its Ethernet ports.
	Netdevs []node.Netdev
}

// ACS are the capability and control registers of Access Control Services.
type ACS struct{ Capabilities, Control uint16 }

// PortType is a PCIe device or port type as the table spells it.
type PortType string

// The port types (PCI_EXP_TYPE_* of pci_regs.h).
const (
	RootPort           PortType = "root"
	UpstreamPort       PortType = "upstream"
	DownstreamPort     PortType = "downstream"
	Endpoint           PortType = "endpoint"
	IntegratedEndpoint PortType = "integrated"
	PCIBridge          PortType = "bridge"
)

// What functions have of which nothing was recorded: MPS up to 512 and a function level
// reset; MPS 256, MRRS 512, relaxed ordering, no snoop, extended tags; 32 GT/s on 16 lanes,
// and the link active; every ACS service but egress control, none of them on.
const (
	defaultDeviceCapabilities = 0x10008022
	defaultDeviceControl      = 0x2930
	defaultLinkCapabilities   = 0x00000105
	defaultLinkStatus         = 0x2105
	defaultACSCapabilities    = 0x005f

	functionLevelReset = 1 << 28
)

// New is the tree of a recording. Virtual functions are refused: they come from their
// physical function's driver.
func New(inv node.Inventory) (*Fabric, error) {
	functions, ok := inv.PCI.Get()
	if !ok {
		return nil, fmt.Errorf("the recording's PCI functions are unknown: %s", inv.PCI.Reason())
	}
	t, err := plant(functions)
	if err != nil {
		return nil, err
	}
	f := &Fabric{}
	if f.Buses, err = t.rootBuses(); err != nil {
		return nil, err
	}
	if err := t.numberBuses(f.Buses); err != nil {
		return nil, err
	}
	for _, p := range t.sorted {
		f.Functions = append(f.Functions, t.function(p, inv))
	}
	return f, nil
}

// At is the function at a recorded address.
func (f *Fabric) At(address string) *Function {
	i := slices.IndexFunc(f.Functions, func(fn *Function) bool { return fn.Address == address })
	if i < 0 {
		return nil
	}
	return f.Functions[i]
}

// String is the table (labfabric/table.c).
func (f *Fabric) String() string {
	var b strings.Builder
	for _, bus := range f.Buses {
		fmt.Fprintf(&b, "bus %04x:%02x-%02x node=%d\n", bus.Domain+DomainShift, bus.First, bus.Last, bus.NUMANode)
	}
	for _, fn := range f.Functions {
		fmt.Fprintln(&b, fn)
	}
	return b.String()
}

// String is a line of the table.
func (f *Function) String() string {
	words := []string{Shifted(f.Address), "id=" + f.ID(), "class=" + f.Class}
	add := func(format string, values ...any) { words = append(words, fmt.Sprintf(format, values...)) }
	if f.SubsystemVendor != "" {
		add("subsystem=%s:%s", f.SubsystemVendor, f.SubsystemDevice)
	}
	if f.Secondary != 0 {
		add("bus=%02x-%02x", f.Secondary, f.Subordinate)
	}
	if f.Type != "" {
		add("type=%s devcap=%x devctl=%x lnkcap=%x lnksta=%x", f.Type, f.DeviceCapabilities, f.DeviceControl, f.LinkCapabilities, f.LinkStatus)
	}
	if f.ACS != nil {
		add("acscap=%x acsctl=%x", f.ACS.Capabilities, f.ACS.Control)
	}
	if f.ATSControl != nil {
		add("atsctl=%x", *f.ATSControl)
	}
	for _, d := range f.Netdevs {
		add("netdev=%s/%d", d.Name, d.Port)
	}
	return strings.Join(words, " ")
}

// Shifted is the address that a recorded function has in the lab.
func Shifted(address string) string {
	a, err := parseAddress(address)
	if err != nil {
		return address
	}
	a.domain += DomainShift
	return a.String()
}

// recorded is the address that a function of the lab was recorded with, and false for
// one of the virtual machine's own.
func recorded(address string) (string, bool) {
	a, err := parseAddress(address)
	if err != nil || a.domain < DomainShift {
		return "", false
	}
	a.domain -= DomainShift
	return a.String(), true
}

// Recorded is what a recording made in the lab has of the fabric: its PCI functions
// and the netdevs on them, with the addresses of the original.
func Recorded(lab node.Inventory) node.Inventory {
	inv := lab
	functions, ok := lab.PCI.Get()
	if ok {
		list := []node.PCIFunction{}
		for _, p := range functions {
			address, ok := recorded(p.Address)
			if !ok {
				continue
			}
			p.Address = address
			p.Parent, _ = recorded(p.Parent)
			list = append(list, p)
		}
		inv.PCI = node.Known(list, lab.PCI.Source())
	}
	netdevs, ok := lab.Netdevs.Get()
	if ok {
		list := []node.Netdev{}
		for _, d := range netdevs {
			if address, ok := recorded(d.PCI); ok {
				d.PCI = address
				list = append(list, d)
			}
		}
		inv.Netdevs = node.Known(list, lab.Netdevs.Source())
	}
	return inv
}

// Differences says in what the PCI tree of the lab is not that of the original. Drivers do not
// count, and a subsystem that was not recorded is 0000:0000.
func Differences(original, lab node.Inventory) []string {
	want, wantKnown := original.PCI.Get()
	have, haveKnown := Recorded(lab).PCI.Get()
	if !wantKnown || !haveKnown {
		return []string{"the PCI functions are unknown: " + original.PCI.Reason() + lab.PCI.Reason()}
	}
	comparable := func(list []node.PCIFunction) map[string]node.PCIFunction {
		m := map[string]node.PCIFunction{}
		for _, p := range list {
			p.Driver = ""
			p.SubsystemVendor = cmp.Or(p.SubsystemVendor, "0000")
			p.SubsystemDevice = cmp.Or(p.SubsystemDevice, "0000")
			m[p.Address] = p
		}
		return m
	}
	wanted, found := comparable(want), comparable(have)
	differences := []string{}
	for address, w := range wanted {
		switch f, ok := found[address]; {
		case !ok:
			differences = append(differences, address+": is missing in the lab")
		case f != w:
			differences = append(differences, fmt.Sprintf("%s: is %+v, wanted %+v", address, f, w))
		}
	}
	for address := range found {
		if _, ok := wanted[address]; !ok {
			differences = append(differences, address+": was not recorded")
		}
	}
	slices.Sort(differences)
	return differences
}

// address is a parsed PCI address.
type address struct{ domain, bus, device, function uint }

func parseAddress(s string) (address, error) {
	var a address
	if _, err := fmt.Sscanf(s, "%x:%x:%x.%x", &a.domain, &a.bus, &a.device, &a.function); err != nil || a.String() != s {
		return a, fmt.Errorf("%q is no PCI address", s)
	}
	return a, nil
}

func (a address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.domain, a.bus, a.device, a.function)
}

// busNumber is a bus of a domain.
type busNumber struct{ domain, bus uint }

// tree is the functions of a recording.
type tree struct {
	sorted   []*branch
	byName   map[string]*branch
	children map[*branch][]*branch
	// above has the bridge above each bus, nil for a root bus.
	above map[busNumber]*branch
}

// branch is a function in its tree.
type branch struct {
	node.PCIFunction
	at                     address
	parent                 *branch
	secondary, subordinate uint
}

func (b *branch) isBridge() bool { return strings.HasPrefix(b.Class, "0604") }

// within reports whether b stands below bridge.
func (b *branch) within(bridge *branch) bool {
	for p := b; p != nil; p = p.parent {
		if p == bridge {
			return true
		}
	}
	return false
}

func plant(functions []node.PCIFunction) (*tree, error) {
	t := &tree{byName: map[string]*branch{}, children: map[*branch][]*branch{}, above: map[busNumber]*branch{}}
	for _, p := range functions {
		if p.PhysicalFunction != "" {
			return nil, fmt.Errorf("%s is a virtual function of %s: the lab has none", p.Address, p.PhysicalFunction)
		}
		at, err := parseAddress(p.Address)
		if err != nil {
			return nil, err
		}
		b := &branch{PCIFunction: p, at: at}
		t.sorted = append(t.sorted, b)
		t.byName[p.Address] = b
	}
	slices.SortFunc(t.sorted, func(a, b *branch) int { return cmp.Compare(a.Address, b.Address) })
	for _, b := range t.sorted {
		if err := t.hang(b); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// hang puts a function below its bridge.
func (t *tree) hang(b *branch) error {
	on := busNumber{b.at.domain, b.at.bus}
	if b.Parent != "" {
		b.parent = t.byName[b.Parent]
		if b.parent == nil {
			return fmt.Errorf("%s: its bridge %s was not recorded", b.Address, b.Parent)
		}
		if b.parent.at.domain != on.domain || b.parent.at.bus >= on.bus || b.parent.secondary != 0 && b.parent.secondary != on.bus {
			return fmt.Errorf("%s cannot be below bridge %s", b.Address, b.Parent)
		}
		b.parent.secondary = on.bus
	}
	if other, taken := t.above[on]; taken && other != b.parent {
		return fmt.Errorf("%s: bus %02x has functions below two bridges", b.Address, on.bus)
	}
	t.above[on] = b.parent
	t.children[b.parent] = append(t.children[b.parent], b)
	for p := b.parent; p != nil; p = p.parent {
		p.subordinate = max(p.subordinate, on.bus)
	}
	return nil
}

// rootBuses gives each root bus the numbers up to the next one.
func (t *tree) rootBuses() ([]RootBus, error) {
	var buses []RootBus
	for _, b := range t.children[nil] {
		if n := len(buses); n == 0 || buses[n-1].Domain != b.at.domain || buses[n-1].First != b.at.bus {
			if n > 0 && buses[n-1].Domain == b.at.domain {
				buses[n-1].Last = b.at.bus - 1
			}
			buses = append(buses, RootBus{Domain: b.at.domain, First: b.at.bus, Last: 0xff, NUMANode: b.NUMANode})
		}
	}
	if len(buses) == 0 {
		return nil, errors.New("the recording has no function on a root bus")
	}
	for _, b := range t.sorted {
		bus := rootBusOf(buses, b)
		top := b
		for top.parent != nil {
			top = top.parent
		}
		switch {
		case bus == nil || rootBusOf(buses, top) != bus:
			return nil, fmt.Errorf("%s: bus %02x lies outside those of its root bus", b.Address, b.at.bus)
		case b.NUMANode != bus.NUMANode:
			return nil, fmt.Errorf("%s is on node %d, its root bus on node %d", b.Address, b.NUMANode, bus.NUMANode)
		}
	}
	return buses, nil
}

func rootBusOf(buses []RootBus, b *branch) *RootBus {
	for i := range buses {
		if bus := &buses[i]; bus.Domain == b.at.domain && bus.First <= b.at.bus && b.at.bus <= bus.Last {
			return bus
		}
	}
	return nil
}

// numberBuses gives a bus number to bridges with nothing below them, one that is free.
func (t *tree) numberBuses(buses []RootBus) error {
	for _, b := range t.sorted {
		if !b.isBridge() || b.secondary != 0 {
			continue
		}
		last := rootBusOf(buses, b).Last
		for n := b.at.bus + 1; n <= last && b.secondary == 0; n++ {
			if t.free(b, n) {
				b.secondary = n
			}
		}
		if b.secondary == 0 {
			return fmt.Errorf("bridge %s: no bus number is left for what would be below it", b.Address)
		}
		t.above[busNumber{b.at.domain, b.secondary}] = b
		for p := b; p != nil; p = p.parent {
			p.subordinate = max(p.subordinate, b.secondary)
		}
	}
	return nil
}

// free reports whether bus n can lie below bridge: it is unused, within no other bridge's
// range, and the bridges above it can widen theirs to it.
func (t *tree) free(bridge *branch, n uint) bool {
	if _, used := t.above[busNumber{bridge.at.domain, n}]; used {
		return false
	}
	for _, other := range t.sorted {
		if other.secondary == 0 || other.at.domain != bridge.at.domain {
			continue
		}
		if !bridge.within(other) {
			if other.secondary <= n && n <= other.subordinate {
				return false
			}
			continue
		}
		for bus := other.secondary; bus <= n; bus++ {
			owner, used := t.above[busNumber{bridge.at.domain, bus}]
			if used && (owner == nil || !owner.within(other)) {
				return false
			}
		}
	}
	return true
}

// portType derives the type from the place in the tree.
func (t *tree) portType(b *branch) PortType {
	above := PortType("")
	if b.parent != nil {
		above = t.portType(b.parent)
	}
	switch {
	case b.parent != nil && (above == PCIBridge || above == ""):
		return "" // behind a bridge to conventional PCI
	case b.isBridge() && b.parent == nil:
		return RootPort
	case b.isBridge() && above == UpstreamPort:
		return DownstreamPort
	case b.isBridge() && slices.ContainsFunc(t.children[b], (*branch).isBridge):
		return UpstreamPort
	case b.isBridge():
		return PCIBridge
	case b.parent != nil:
		return Endpoint
	case b.IsNVIDIAGPU() || b.IsNIC():
		return IntegratedEndpoint
	default:
		return "" // a part of the chipset
	}
}

func (t *tree) function(b *branch, inv node.Inventory) *Function {
	f := &Function{PCIFunction: b.PCIFunction, Type: t.portType(b), Secondary: b.secondary, Subordinate: b.subordinate}
	if f.Type == "" {
		return f
	}
	f.DeviceCapabilities, f.DeviceControl = defaultDeviceCapabilities, defaultDeviceControl
	if f.Type != IntegratedEndpoint {
		f.LinkCapabilities, f.LinkStatus = defaultLinkCapabilities, defaultLinkStatus
	}
	if f.Secondary != 0 {
		f.DeviceCapabilities &^= functionLevelReset
	}
	if f.Type == RootPort || f.Type == DownstreamPort {
		f.ACS = &ACS{Capabilities: defaultACSCapabilities}
	}
	if b.Vendor == mellanox && strings.HasPrefix(b.Class, "0200") {
		netdevs, _ := inv.Netdevs.Get()
		for _, d := range netdevs {
			if d.PCI == b.Address && d.Type == node.ARPHardwareEthernet {
				f.Netdevs = append(f.Netdevs, d)
			}
		}
	}
	return f
}

// mellanox is the vendor whose network adapters labfabric drives.
const mellanox = "15b3"
