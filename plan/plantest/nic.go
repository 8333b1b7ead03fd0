package plantest

import (
	"strings"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
)

// The NICs of the model node that PortNode makes, all ConnectX-7.
const (
	Rail       = "0000:1a:00.0" // rail0, mlx5_0
	SecondRail = "0000:3c:00.0" // rail1, mlx5_1
	VF         = "0000:1a:00.2" // rail0v0, mlx5_2, a virtual function of Rail
	Front      = "0000:01:00.0" // eno1, protected
	BondPort   = "0000:5d:00.0" // storage0, a port of bond1
)

// PortNode is a model node with NICs that MLNX_OFED's driver runs, and their answers.
func PortNode(answers ...node.Answer) node.Facts {
	f := Node(answers...)
	inv := f.Inventory
	function := func(address, above string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: "15b3", Device: "1021", Class: "020000", Driver: "mlx5_core", PhysicalFunction: above}
	}
	netdev := func(name, pci string, lower ...string) node.Netdev {
		return node.Netdev{Name: name, Type: node.ARPHardwareEthernet, PCI: pci, Port: min(len(pci), 1), Lower: lower, Up: true}
	}
	rdma := func(name, pci, netdev string) node.RDMADevice {
		return node.RDMADevice{Name: name, PCI: pci, Ports: []node.RDMADevicePort{{Port: 1, Netdev: netdev, LinkLayer: node.Known("Ethernet", node.Source{})}}}
	}
	inv.Virtualization = node.Known("none", node.Source{Path: "/proc/cpuinfo"})
	inv.PCI = node.Known([]node.PCIFunction{function(Front, ""), function(Rail, ""), function(VF, Rail), function(SecondRail, ""), function(BondPort, "")}, node.Source{Path: "/sys/bus/pci/devices"})
	inv.Netdevs = node.Known([]node.Netdev{
		netdev("bond1", "", "storage0", "storage1"), netdev("eno1", Front), netdev("rail0", Rail), netdev("rail0v0", VF), netdev("rail1", SecondRail), netdev("storage0", BondPort),
	}, node.Source{Path: "/sys/class/net"})
	inv.RDMA = node.Known([]node.RDMADevice{rdma("mlx5_0", Rail, "rail0"), rdma("mlx5_1", SecondRail, "rail1"), rdma("mlx5_2", VF, "rail0v0")}, node.Source{Path: "/sys/class/infiniband"})
	inv.Routes = node.Known([]node.Route{{Destination: "default", Devices: []string{"eno1"}}}, node.Source{Call: "rtnetlink"})
	inv.SavedProtected = node.Known([]string{Front}, node.Source{Path: node.ProtectedPath})
	inv.Protected = node.Known([]node.ProtectedNetdev{{Name: "eno1", Reason: "carries the default route"}}, node.Source{Call: "rtnetlink"})
	return f.WithInventory(inv)
}

// PortState is what a port answers.
type PortState struct {
	Key        string
	Link       node.LinkState
	Management node.LinkManagementState
	Flow       node.FlowControlState
	DCB        node.Value[node.DCBState]
	RoCE       node.RoCEState
	RDMA       node.RDMAPortState
}

// Lossless is a port as a lossless class of priority 3, DSCP 26, and congestion notification of priority 6, DSCP 48 has it, with
// MTU 9000 and MLNX_OFED's driver. netplan and networkd give it the MTU.
func Lossless(key, netdev, rdma string) PortState {
	class := node.Source{Path: "/sys/class/net/" + netdev}
	at := func(file string) node.Source { return node.Source{Path: class.Path + "/" + file} }
	infiniband := "/sys/class/infiniband/" + rdma
	cm := "/sys/kernel/config/rdma_cm/" + rdma + "/ports/1/"
	netlink := node.Source{Call: "rtnetlink RTM_GETDCB"}
	ioctl := node.Source{Call: "ioctl SIOCETHTOOL ETHTOOL_GPAUSEPARAM"}
	return PortState{
		Key:        key,
		Link:       node.LinkState{Netdev: netdev, MTU: node.Known(9000, at("mtu")), Up: node.Known(true, at("flags")), Carrier: node.Known(true, at("carrier")), OperState: node.Known("up", at("operstate"))},
		Management: Netplan(netdev, 9000),
		Flow:       node.FlowControlState{Netdev: netdev, Pause: node.Known(ethtool.Pause{}, ioctl), PFCStormPrevention: node.Known(8000, ioctl)},
		DCB: node.Known(node.DCBState{
			Netdev: netdev, Driver: "mlx5_core", DCBX: node.Known(dcbnl.DCBXHost|dcbnl.DCBXIEEE, netlink), PFC: node.Known(dcbnl.PFC{Capacity: 8, Enabled: 1 << 3, Delay: 7}, netlink),
			Apps: node.Known(LosslessMap(), netlink), Trust: node.Known(node.TrustDSCP, at("qos/trust")),
		}, netlink),
		RoCE: node.RoCEState{
			Netdev: netdev, RDMA: rdma + "/1",
			NotificationPoint: node.Known(dcbnl.Priorities(1<<3), at("ecn/roce_np/enable")), ReactionPoint: node.Known(dcbnl.Priorities(1<<3), at("ecn/roce_rp/enable")),
			CNPDSCP: node.Known(48, at("ecn/roce_np/cnp_dscp")), CNPPriority: node.Known(6, at("ecn/roce_np/cnp_802p_prio")),
			CCParams:     node.Unsupported[map[string]uint32]("mlx5_ib shows none: it is not loaded, or the firmware does not let it", node.Source{Path: "/sys/kernel/debug/mlx5/" + key + "/cc_params"}),
			TrafficClass: node.Known(node.TrafficClass{Global: 106}, node.Source{Path: infiniband + "/tc/1/traffic_class"}),
			DefaultToS:   node.Known(104, node.Source{Path: cm + "default_roce_tos"}), DefaultMode: node.Known(node.GIDRoCEv2, node.Source{Path: cm + "default_roce_mode"}),
		},
		RDMA: node.RDMAPortState{
			LinkLayer: "Ethernet", State: node.Known(node.RDMAActive, node.Source{Path: infiniband + "/ports/1/state"}),
			GIDs: node.Known([]node.GID{{Index: 3, GID: "0000:0000:0000:0000:0000:ffff:c612:0011", Type: node.GIDRoCEv2, Netdev: netdev}}, node.Source{Path: infiniband + "/ports/1/gids"}),
		},
	}
}

// Netplan is a network device that networkd sets up as netplan says it, with an MTU; 0 is none.
func Netplan(netdev string, mtu int) node.LinkManagementState {
	yaml := node.Source{Path: "/etc/netplan/50-rails.yaml", Line: 7}
	file := func(manager, suffix string, line int) node.LinkManager {
		m := node.LinkManager{Name: manager, File: "/run/systemd/network/10-netplan-" + netdev + suffix, Netplan: yaml}
		source := node.Source{Path: m.File}
		if mtu > 0 {
			source.Line = line
		}
		m.MTU = node.Known(mtu, source)
		return m
	}
	s := node.LinkManagementState{Netdev: netdev, Managers: []node.LinkManager{file(node.ManagerNetworkd, ".network", 5)}}
	s.Udev = node.LinkManager{Name: node.ManagerUdev, File: "/usr/lib/systemd/network/99-default.link", MTU: node.Known(0, node.Source{Path: "/usr/lib/systemd/network/99-default.link"})}
	if mtu > 0 {
		s.Udev = file(node.ManagerUdev, ".link", 6)
	}
	return s
}

// LosslessMap has priority 3 for DSCP 26 alone, and DSCP/8 for all others.
func LosslessMap() []dcbnl.App {
	var apps []dcbnl.App
	for dscp := range uint16(64) {
		app := dcbnl.App{Selector: dcbnl.DSCP, Protocol: dscp, Priority: uint8(dscp / 8)}
		if app.Priority == 3 && dscp != 26 {
			app.Priority = 0
		}
		apps = append(apps, app)
	}
	return apps
}

// Answers are those of a port, and the services and the module that go with it.
func (s PortState) Answers() []node.Answer {
	source := node.Source{Path: "/sys/class/net/" + s.Link.Netdev}
	rdma, _, _ := strings.Cut(s.RoCE.RDMA, "/")
	answers := []node.Answer{
		node.Link.Answer(s.Key, node.Known(s.Link, source)), node.LinkManagement.Answer(s.Key, node.Known(s.Management, source)), node.FlowControl.Answer(s.Key, node.Known(s.Flow, source)), node.DCB.Answer(s.Key, s.DCB),
		node.RoCE.Answer(s.Key, node.Known(s.RoCE, node.Source{Path: "/sys/bus/pci/devices/" + s.Key})),
		node.RDMAPort.Answer(s.RoCE.RDMA, node.Known(s.RDMA, node.Source{Path: "/sys/class/infiniband/" + rdma + "/ports/1"})),
		node.Module.Answer("rdma_cm", node.Known(node.ModuleState{Loaded: true}, node.Source{Path: "/proc/modules"})),
	}
	for _, unit := range []string{"fcoe.service", "lldpad.service", "lldpad.socket"} {
		answers = append(answers, node.Unit.Answer(unit, node.Known(node.UnitState{Load: "not-found", Active: node.Known("inactive", node.Source{})}, node.Source{Call: "org.freedesktop.systemd1.Unit " + unit})))
	}
	return answers
}

// Change returns a port whose DCB is edited.
func (s PortState) Change(edit func(*node.DCBState)) PortState {
	dcb, _ := s.DCB.Get()
	edit(&dcb)
	s.DCB = node.Known(dcb, s.DCB.Source())
	return s
}
