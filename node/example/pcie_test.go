package example_test

import (
	"slices"

	"busbar/internal/pciregs"
	"busbar/node"
)

// fastest is the best link of each kind of function, by its id.
var fastest = map[string]pciregs.Link{
	"8086:352a": {SpeedGTs: 32, Width: 16}, // root ports of Sapphire Rapids
	"8086:1bbc": {SpeedGTs: 8, Width: 4},   // and of its chipset
	"1022:14ab": {SpeedGTs: 32, Width: 16}, // root ports of Genoa
	"1000:c030": {SpeedGTs: 32, Width: 16},
	"10de:2330": {SpeedGTs: 32, Width: 16},
	"10de:26b9": {SpeedGTs: 16, Width: 16},
	"15b3:1021": {SpeedGTs: 32, Width: 16},
	"15b3:101d": {SpeedGTs: 16, Width: 16},
	"10de:20b2": {SpeedGTs: 16, Width: 16},
	"10de:2335": {SpeedGTs: 32, Width: 16},
	"10de:2901": {SpeedGTs: 32, Width: 16},
	"10de:2941": {SpeedGTs: 32, Width: 16},
	"10de:2684": {SpeedGTs: 16, Width: 16},
	"10de:22b1": {SpeedGTs: 32, Width: 16}, // root ports of Grace
	"1022:1483": {SpeedGTs: 16, Width: 16}, // of Rome
	"1022:14db": {SpeedGTs: 32, Width: 16}, // and of Raphael
	"1000:c010": {SpeedGTs: 16, Width: 16},
	"15b3:1979": {SpeedGTs: 32, Width: 16},
	"15b3:197b": {SpeedGTs: 32, Width: 16},
	"15b3:101b": {SpeedGTs: 16, Width: 16},
	"15b3:a2dc": {SpeedGTs: 32, Width: 16},
	"8086:125c": {SpeedGTs: 5, Width: 1},
	"14e4:165f": {SpeedGTs: 5, Width: 2},
	"14e4:16d7": {SpeedGTs: 8, Width: 8},
}

// kernelACS is what the kernel turns on where it uses an IOMMU.
const kernelACS = pciregs.SrcValid | pciregs.ReqRedir | pciregs.CmpltRedir | pciregs.UpstreamFwd

// pcie answers for the links of GPUs and NICs and of the ports right above, and for the registers of
// rails and of all ports above GPUs and rails: what stock profiles ask for.
func (m *machine) pcie() {
	inv := node.Inventory{PCI: node.Known(m.bus.functions, node.Source{})}
	types := map[string]string{}
	for _, f := range m.bus.functions {
		if !f.IsNVIDIAGPU() && !f.IsNIC() {
			continue
		}
		types[f.Address] = pciregs.Endpoint
		above, _ := inv.BridgesAbove(f.Address).Get()
		slices.Reverse(above)
		for i, bridge := range above {
			switch {
			case i == 0:
				types[bridge] = pciregs.RootPort
			case i%2 == 1:
				types[bridge] = pciregs.UpstreamPort
			default:
				types[bridge] = pciregs.DownstreamPort
			}
		}
	}
	best := func(address string) pciregs.Link { f, _ := inv.PCIFunction(address); return fastest[f.ID()] }
	running := map[string]pciregs.Link{} // by either end of a link
	for address := range types {
		f, _ := inv.PCIFunction(address)
		if types[address] == pciregs.RootPort || types[address] == pciregs.DownstreamPort {
			continue
		}
		now := best(address).Within(best(f.Parent))
		if m.idle && f.IsNVIDIAGPU() {
			now.SpeedGTs = 2.5
		}
		running[address], running[f.Parent] = now, now
	}
	link := func(address string) {
		dir := "/sys/bus/pci/devices/" + address
		answer(m, node.PCILink, address, node.Known(node.PCILinkState{
			Current: node.Known(running[address], at(dir+"/current_link_speed")), Max: node.Known(best(address), at(dir+"/max_link_speed")),
		}, at(dir)))
	}
	registers := func(address string) {
		answer(m, node.PCIRegisters, address, node.Known(m.registers(address, types[address]), at("/sys/bus/pci/devices/"+address+"/config")))
	}
	for _, f := range m.bus.functions {
		if types[f.Address] != pciregs.Endpoint {
			continue
		}
		link(f.Address)
		link(f.Parent)
		_, rail := m.readRequests[f.Address]
		if rail {
			registers(f.Address)
		}
		if rail || f.IsNVIDIAGPU() {
			above, _ := inv.BridgesAbove(f.Address).Get()
			for _, port := range above {
				registers(port)
			}
		}
	}
}

func (m *machine) registers(address, kind string) node.PCIRegisterState {
	config := at("/sys/bus/pci/devices/" + address + "/config")
	express := pciregs.Express{Present: true, PortType: kind, MaxPayloadSupported: 512, MaxPayload: 256, MaxReadRequest: 512, RelaxedOrdering: true}
	acs := pciregs.ACS{}
	switch kind {
	case pciregs.RootPort, pciregs.DownstreamPort:
		express.MaxReadRequest, express.RelaxedOrdering = 128, kind == pciregs.RootPort
		acs = pciregs.ACS{Present: true, Supported: kernelACS | pciregs.TransBlk, Enabled: m.acs[address]}
		if kind == pciregs.DownstreamPort {
			acs.Supported |= pciregs.EgressCtrl | pciregs.DirectTrans
		}
	case pciregs.UpstreamPort:
		express.MaxReadRequest, express.RelaxedOrdering = 128, false
	default:
		express.MaxReadRequest = m.readRequests[address]
	}
	return node.PCIRegisterState{Express: node.Known(express, config), ACS: node.Known(acs, config)}
}
