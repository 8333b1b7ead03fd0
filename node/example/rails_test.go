package example_test

import (
	"fmt"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
	"busbar/plan/plantest"
)

// adapter is a kind of NIC whose ports are rails.
type adapter struct {
	mbps                         int
	rate, firmware, board, model string
}

// The adapters of rails.
var (
	ndr = adapter{400_000, "400 Gb/sec (4X NDR)", "28.39.1002", "MT_0000000838", "MT4129"}
	hdr = adapter{200_000, "200 Gb/sec (4X HDR)", "20.39.1002", "MT_0000000223", "MT4123"}
)

// rail is the port of a ConnectX-7 beside the GPU of switch i.
func rail(i int) plantest.PortState {
	bus := gpuSwitches[i] + 5
	return losslessRail(bus, fmt.Sprintf("enp%ds0np0", bus), rails[i], i, ndr)
}

// losslessRail is the only port of an adapter on a bus, the i-th of the node's rails, lossless as a fabric with NVIDIA's example
// numbers wants it, with MLNX_OFED's driver.
func losslessRail(bus int, netdev, rdma string, i int, a adapter) plantest.PortState {
	s := plantest.Lossless(fmt.Sprintf("0000:%02x:00.0", bus), netdev, rdma)
	driver := node.Source{Call: "ioctl SIOCETHTOOL ETHTOOL_GDRVINFO"}
	s.Link.MAC = node.Known(fmt.Sprintf("58:a2:e1:0c:%02x:00", bus), at("/sys/class/net/"+netdev+"/address"))
	s.Link.Speed = node.Known(a.mbps, at("/sys/class/net/"+netdev+"/speed"))
	s.Link.Driver, s.Link.Firmware = node.Known("mlx5_core", driver), node.Known(a.firmware+" ("+a.board+")", driver)
	s.Flow.PFCStormPrevention = node.Known(ethtool.StormPreventionOff, node.Source{Call: "ioctl SIOCETHTOOL ETHTOOL_GTUNABLE"})
	port := "/sys/class/infiniband/" + rdma
	s.RDMA.PhysState, s.RDMA.Rate = node.Known("LinkUp", at(port+"/ports/1/phys_state")), node.Known(a.rate, at(port+"/ports/1/rate"))
	s.RDMA.Firmware, s.RDMA.BoardID, s.RDMA.HCAType = node.Known(a.firmware, at(port+"/fw_ver")), node.Known(a.board, at(port+"/board_id")), node.Known(a.model, at(port+"/hca_type"))
	s.RDMA.NodeGUID = node.Known(fmt.Sprintf("58a2:e103:000c:%02x00", bus), at(port+"/node_guid"))
	s.RDMA.LID, s.RDMA.SMLID = node.Known(0, at(port+"/ports/1/lid")), node.Known(0, at(port+"/ports/1/sm_lid"))
	local, address := fmt.Sprintf("fe80:0000:0000:0000:5aa2:e1ff:fe0c:%02x00", bus), fmt.Sprintf("0000:0000:0000:0000:0000:ffff:c612:%02x11", i)
	s.RDMA.GIDs = node.Known([]node.GID{
		{Index: 0, GID: local, Type: node.GIDRoCEv1, Netdev: netdev}, {Index: 1, GID: local, Type: node.GIDRoCEv2, Netdev: netdev},
		{Index: 2, GID: address, Type: node.GIDRoCEv1, Netdev: netdev}, {Index: 3, GID: address, Type: node.GIDRoCEv2, Netdev: netdev},
	}, at(port+"/ports/1/gids"))
	return s
}

// answerRail answers for a port.
func (m *machine) answerRail(s plantest.PortState) {
	for _, a := range s.Answers() {
		switch a.Query.Kind {
		case node.Module.Name(), node.Unit.Name():
		default:
			m.answers[a.Query] = a
		}
	}
}

// losslessRails are all rails.
func (m *machine) losslessRails() {
	for i := range gpuSwitches {
		m.answerRail(rail(i))
	}
}

func (m *machine) noDCBXAgents() {
	for _, name := range []string{"fcoe.service", "lldpad.service", "lldpad.socket"} {
		source := node.Source{Call: "org.freedesktop.systemd1.Unit " + name}
		answer(m, node.Unit, name, node.Known(node.UnitState{Load: "not-found", Active: node.Known("inactive", source)}, source))
	}
}

// driftedRails: one was replaced and never set up, the profile of another's connection was made anew, and on a third somebody
// tried PCP.
func (m *machine) driftedRails() {
	replaced, connection, tried := rail(1), rail(3), rail(6)
	replaced = replaced.Change(func(d *node.DCBState) {
		d.PFC = node.Known(dcbnl.PFC{Capacity: 8, Delay: 7}, d.PFC.Source())
	})
	replaced.Flow.Pause = node.Known(ethtool.Pause{Rx: true, Tx: true}, replaced.Flow.Pause.Source())
	replaced.RoCE.TrafficClass = node.Known(node.TrafficClass{Global: -1}, replaced.RoCE.TrafficClass.Source())
	replaced.RoCE.DefaultToS = node.Known(0, replaced.RoCE.DefaultToS.Source())
	connection.Link.MTU = node.Known(1500, connection.Link.MTU.Source())
	connection.Management = plantest.Netplan(connection.Link.Netdev, 0)
	tried = tried.Change(func(d *node.DCBState) {
		d.Trust, d.Apps = node.Known(node.TrustPCP, d.Trust.Source()), node.Known([]dcbnl.App{}, d.Apps.Source())
	})
	m.answerRail(replaced)
	m.answerRail(connection)
	m.answerRail(tried)
}
