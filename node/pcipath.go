package node

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IsPCIAddress reports whether s is DDDD:BB:DD.F in hexadecimal; domains can have more digits, a bus has devices 00 to 1f with
// functions 0 to 7 each.
func IsPCIAddress(s string) bool {
	domain, rest, ok := strings.Cut(s, ":")
	if !ok || len(domain) < 4 || len(rest) != len("00:00.0") || rest[2] != ':' || rest[5] != '.' {
		return false
	}
	for _, part := range []struct {
		digits string
		last   uint64
	}{{domain, 1<<32 - 1}, {rest[:2], 0xff}, {rest[3:5], 0x1f}, {rest[6:], 7}} {
		if n, err := strconv.ParseUint(part.digits, 16, 32); err != nil || n > part.last {
			return false
		}
	}
	return true
}

// PCIFunction is the function at an address, and false where the PCI bus shows none or is unknown.
func (inv Inventory) PCIFunction(address string) (PCIFunction, bool) {
	functions, _ := inv.PCI.Get()
	i := slices.IndexFunc(functions, func(f PCIFunction) bool { return f.Address == address })
	if i < 0 {
		return PCIFunction{}, false
	}
	return functions[i], true
}

// BridgesAbove lists the bridges above a PCI function, the nearest first and the root port
// last; none for a function on a root bus. It is unknown when the PCI bus is, or has no such function.
func (inv Inventory) BridgesAbove(address string) Value[[]string] {
	bus, why := inv.pciBus()
	if why != "" {
		return Unknown[[]string](why, inv.PCI.Source())
	}
	bridges, err := bus.bridgesAbove(address)
	if err != nil {
		return Unknown[[]string](err.Error(), inv.PCI.Source())
	}
	return Known(bridges, inv.PCI.Source())
}

// PeerPath is the way of peer-to-peer traffic between two PCI functions.
type PeerPath struct {
	// Ports are those whose ACS functions decide whether traffic takes this way: the bridges from the
	// one end up to where the way turns, that one, and down to the other end. Between functions
	// of one device they are the two functions themselves, which have ACS of their own.
	Ports []string
	// Turn is the bridge at which the way turns down again; empty when that is the root
	// complex, or inside the device.
	Turn string
	// SameDevice: the ends are functions of one device.
	SameDevice bool
}

// CrossesRoot reports whether the way leads through the root complex.
func (p PeerPath) CrossesRoot() bool { return p.Turn == "" && !p.SameDevice }

// PeerPath is the way between functions a and b. It is unknown when the PCI bus is, or has
// no such function.
//
// The bridge at the turn belongs to the ports because the kernel counts it too: its own peer-to-peer DMA
// refuses a way on which any of them redirects (drivers/pci/p2pdma.c,
// calc_map_type_and_dist; PCI Express Base Specification, 6.12).
func (inv Inventory) PeerPath(a, b string) Value[PeerPath] {
	bus, why := inv.pciBus()
	if why != "" {
		return Unknown[PeerPath](why, inv.PCI.Source())
	}
	p, err := bus.peerPath(a, b)
	if err != nil {
		return Unknown[PeerPath](err.Error(), inv.PCI.Source())
	}
	return Known(p, inv.PCI.Source())
}

// PeerPort is a port, or a function with ACS of its own, between the peers of a set.
type PeerPort struct {
	Address string
	// Endpoints are those of the set that are reached through it, sorted.
	Endpoints []string
	// AcrossRoot: all ways through it lead through the root complex. Traffic that goes there
	// anyway is redirected by the root ports alone.
	AcrossRoot bool
}

// PeerPorts lists the ports on the ways between every two of the endpoints, by address. Ports that lead to
// none of them (a management NIC's, say) are not among them. It is unknown when the PCI bus is, or
// lacks one of the endpoints.
func (inv Inventory) PeerPorts(endpoints []string) Value[[]PeerPort] {
	bus, why := inv.pciBus()
	if why != "" {
		return Unknown[[]PeerPort](why, inv.PCI.Source())
	}
	endpoints = slices.Compact(slices.Sorted(slices.Values(endpoints)))
	across := map[string]bool{} // port to: crosses the root complex on every way
	above := make([][]string, len(endpoints))
	for i, a := range endpoints {
		bridges, err := bus.bridgesAbove(a)
		if err != nil {
			return Unknown[[]PeerPort](err.Error(), inv.PCI.Source())
		}
		above[i] = bridges
		for _, b := range endpoints[i+1:] {
			p, err := bus.peerPath(a, b)
			if err != nil {
				return Unknown[[]PeerPort](err.Error(), inv.PCI.Source())
			}
			for _, port := range p.Ports {
				before, seen := across[port]
				across[port] = p.CrossesRoot() && (before || !seen)
			}
		}
	}
	ports := []PeerPort{}
	for address, acrossRoot := range across {
		port := PeerPort{Address: address, AcrossRoot: acrossRoot}
		for i, e := range endpoints {
			if e == address || slices.Contains(above[i], address) {
				port.Endpoints = append(port.Endpoints, e)
			}
		}
		ports = append(ports, port)
	}
	slices.SortFunc(ports, func(a, b PeerPort) int { return cmp.Compare(a.Address, b.Address) })
	return Known(ports, inv.PCI.Source())
}

// pciBus are the PCI functions by address.
type pciBus map[string]PCIFunction

func (inv Inventory) pciBus() (bus pciBus, why string) {
	functions, ok := inv.PCI.Get()
	if !ok {
		return nil, inv.PCI.Reason()
	}
	bus = make(pciBus, len(functions))
	for _, f := range functions {
		bus[f.Address] = f
	}
	return bus, ""
}

func (bus pciBus) function(address string) (PCIFunction, error) {
	f, ok := bus[address]
	if !ok {
		return f, fmt.Errorf("there is no PCI function %s", address)
	}
	return f, nil
}

func (bus pciBus) bridgesAbove(address string) ([]string, error) {
	f, err := bus.function(address)
	if err != nil {
		return nil, err
	}
	bridges := []string{}
	for f.Parent != "" {
		if len(bridges) == len(bus) {
			return nil, fmt.Errorf("the bridges above %s form a loop", address)
		}
		bridges = append(bridges, f.Parent)
		f = bus[f.Parent]
	}
	return bridges, nil
}

func (bus pciBus) peerPath(a, b string) (PeerPath, error) {
	up, err := bus.bridgesAbove(a)
	if err != nil {
		return PeerPath{}, err
	}
	down, err := bus.bridgesAbove(b)
	if err != nil {
		return PeerPath{}, err
	}
	if bus.device(a) == bus.device(b) {
		return PeerPath{Ports: slices.Compact([]string{a, b}), SameDevice: true}, nil
	}
	var p PeerPath
	for i, bridge := range up {
		if j := slices.Index(down, bridge); j >= 0 {
			p.Turn = bridge
			up, down = up[:i+1], down[:j]
			break
		}
	}
	slices.Reverse(down)
	p.Ports = slices.Concat(up, down)
	return p, nil
}

// device is the address of the device that a function belongs to, without a function number. A virtual
// function is part of its physical function's device, wherever its number puts it.
func (bus pciBus) device(address string) string {
	if pf := bus[address].PhysicalFunction; pf != "" {
		address = pf
	}
	device, _, _ := strings.Cut(address, ".")
	return device
}
