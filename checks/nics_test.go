package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"busbar/checks"
	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/plantest"
)

// rail is a NIC beside a GPU, as readers answer it.
type rail struct {
	pci    []node.PCIFunction
	netdev node.Netdev
	device node.RDMADevice
	port   node.RDMAPortState
	link   node.LinkState
	// slot is what the function and the port above it can do.
	slot pciregs.Link
	flow node.FlowControlState
	dcb  node.DCBState
	roce node.RoCEState
	// unread are kinds that are not answered.
	unread map[string]bool
}

func known[T any](v T) node.Value[T] { return node.Known(v, node.Source{Path: "/sys"}) }

func denied[T any]() node.Value[T] {
	return node.Unknown[T]("permission denied", node.Source{Path: "/sys"})
}

func lacking[T any]() node.Value[T] {
	return node.Unsupported[T]("the driver has none", node.Source{Path: "/sys"})
}

func v2(index int, gid, netdev string) node.GID {
	return node.GID{Index: index, GID: gid, Type: node.GIDRoCEv2, Netdev: netdev}
}

func v1(index int, gid, netdev string) node.GID {
	return node.GID{Index: index, GID: gid, Type: node.GIDRoCEv1, Netdev: netdev}
}

// gid4 is the GID of an IPv4 address 198.18.RAIL.LAST.
func gid4(rail, last int) string {
	return fmt.Sprintf("0000:0000:0000:0000:0000:ffff:c612:%02x%02x", rail, last)
}

// gidMAC is the default GID of the MAC that rails have.
func gidMAC(rail int) string { return fmt.Sprintf("fe80:0000:0000:0000:0000:00ff:fe00:%04x", rail) }

// healthy is rail number i, from 1, on the RoCE network: NIC i4:00.0 with netdev ethI and device
// mlx5_I, beside GPU i3:00.0.
func healthy(i int) *rail {
	bus := func(b, device int) string { return fmt.Sprintf("0000:%x%x:%02x.0", i, b, device) }
	function := func(address, parent, vendor, id, class string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: vendor, Device: id, Class: class, Parent: parent}
	}
	nic := function(bus(4, 0), bus(2, 1), "15b3", "1021", "020000")
	nic.Driver = "mlx5_core"
	name := fmt.Sprintf("eth%d", i)
	dscps := []dcbnl.App{}
	for dscp := range uint16(64) {
		dscps = append(dscps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: dscp, Priority: uint8(dscp / 8)})
	}
	return &rail{
		pci: []node.PCIFunction{
			function(bus(0, 1), "", "8086", "352a", "060400"), function(bus(1, 0), bus(0, 1), "1000", "c030", "060400"),
			function(bus(2, 0), bus(1, 0), "1000", "c030", "060400"), function(bus(2, 1), bus(1, 0), "1000", "c030", "060400"),
			function(bus(3, 0), bus(2, 0), "10de", "2330", "030200"), nic,
		},
		netdev: node.Netdev{Name: name, Type: node.ARPHardwareEthernet, PCI: bus(4, 0), Port: 1, Up: true, Addresses: []string{fmt.Sprintf("198.18.%d.17/24", i), fmt.Sprintf("fe80::ff:fe00:%x/64", i)}},
		device: node.RDMADevice{Name: fmt.Sprintf("mlx5_%d", i), PCI: bus(4, 0), Ports: []node.RDMADevicePort{{Port: 1, Netdev: name, LinkLayer: known("Ethernet")}}},
		port: node.RDMAPortState{
			LinkLayer: "Ethernet", State: known("ACTIVE"), PhysState: known("LinkUp"), Rate: known("2.5 Gb/sec (1X SDR)"), LID: known(0), SMLID: known(0),
			GIDs:     known([]node.GID{v1(0, gidMAC(i), name), v2(1, gidMAC(i), name), v1(2, gid4(i, 17), name), v2(3, gid4(i, 17), name)}),
			Firmware: known("28.39.1002"), BoardID: known("MT_0000000838"), HCAType: known("MT4129"), NodeGUID: known("0000:0000:0000:0001"),
		},
		link: node.LinkState{
			Netdev: name, MAC: known(fmt.Sprintf("02:00:00:00:00:%02x", i)), MTU: known(9000), Up: known(true), Carrier: known(true), OperState: known("up"), Speed: known(400_000),
			Driver: known("mlx5_core"), Firmware: known("28.39.1002 (MT_0000000838)"),
		},
		slot: pciregs.Link{SpeedGTs: 32, Width: 16},
		flow: node.FlowControlState{Netdev: name, Pause: known(ethtool.Pause{}), PFCStormPrevention: known(100)},
		dcb: node.DCBState{
			Netdev: name, Driver: "mlx5_core", DCBX: known(dcbnl.DCBXHost | dcbnl.DCBXIEEE), PFC: known(dcbnl.PFC{Capacity: 8, Enabled: 1 << 3}),
			Apps: known(dscps), Trust: known(node.TrustDSCP),
		},
		roce: node.RoCEState{
			Netdev: name, RDMA: fmt.Sprintf("mlx5_%d/1", i), NotificationPoint: known(dcbnl.Priorities(1 << 3)), ReactionPoint: known(dcbnl.Priorities(1 << 3)),
			CNPDSCP: known(48), CNPPriority: known(6), CCParams: lacking[map[string]uint32](), TrafficClass: known(node.TrafficClass{Global: 104}), DefaultToS: known(106), DefaultMode: known(node.GIDRoCEv2),
		},
		unread: map[string]bool{},
	}
}

// rails are facts of a node with two rails, each of them edited.
func rails(edit ...func(i int, r *rail)) node.Facts {
	f := plantest.Node()
	inv := f.Inventory
	var functions []node.PCIFunction
	var netdevs []node.Netdev
	var devices []node.RDMADevice
	for i := 1; i <= 2; i++ {
		r := healthy(i)
		for _, e := range edit {
			e(i, r)
		}
		functions = append(functions, r.pci...)
		if r.netdev.Name != "" {
			netdevs = append(netdevs, r.netdev)
		}
		nic := node.NIC{Address: fmt.Sprintf("0000:%x4:00.0", i)}.String()
		answers := []node.Answer{node.Link.Answer(nic, known(r.link)), node.FlowControl.Answer(nic, known(r.flow)), node.DCB.Answer(nic, known(r.dcb)), node.RoCE.Answer(nic, known(r.roce))}
		for _, address := range []string{nic, fmt.Sprintf("0000:%x2:01.0", i)} {
			answers = append(answers, node.PCILink.Answer(address, known(node.PCILinkState{Max: known(r.slot)})))
		}
		if r.device.Name != "" {
			devices = append(devices, r.device)
			for _, p := range r.device.Ports {
				answers = append(answers, node.RDMAPort.Answer(fmt.Sprintf("%s/%d", r.device.Name, p.Port), known(r.port)))
			}
		}
		for _, a := range answers {
			if !r.unread[a.Query.Kind] {
				f = f.With(a)
			}
		}
	}
	inv.PCI, inv.Netdevs, inv.RDMA = known(functions), known(netdevs), known(devices)
	inv.Virtualization, inv.Protected = known("none"), known([]node.ProtectedNetdev{})
	return f.WithInventory(inv)
}

// second edits the second rail alone.
func second(edit func(r *rail)) func(int, *rail) {
	return func(i int, r *rail) {
		if i == 2 {
			edit(r)
		}
	}
}

// both edits both.
func both(edit func(r *rail)) func(int, *rail) { return func(_ int, r *rail) { edit(r) } }

// judge is a case in which nothing can be put right: the plan after it is the plan without what is ok.
func judge(name, blocks string, facts node.Facts, want string, says ...string) plantest.Case {
	return plantest.Case{Name: name, Blocks: blocks, Facts: facts, Want: want, Says: says}
}

// fill puts values into a template: name, value, name, value ...
func fill(template string, values ...string) string {
	return strings.NewReplacer(values...).Replace(template)
}

// unbound is what a check says of two rails without a driver.
func unbound(check string) string {
	want := ""
	for _, nic := range []string{"0000:14:00.0", "0000:24:00.0"} {
		want += fmt.Sprintf("drift %s.driver %s (/sys/bus/pci/devices/%s/driver)\n", check, nic, nic)
	}
	if check == "rails" {
		want += "ok rails.gpu 0000:13:00.0 (/sys)\nok rails.gpu 0000:23:00.0 (/sys)\n" + alikeModel + alikeSlot
	}
	return want
}

// TestNICs: which NICs checks judge, and that none passes where it is unknown what they are.
func TestNICs(t *testing.T) {
	root, none := rails(), rails(both(func(r *rail) { r.pci = r.pci[:5] }))
	inv := root.Inventory
	inv.RootDirectory = true
	alone := map[string]string{"rails": "drift rails.gpu 0000:13:00.0 (/sys)\ndrift rails.gpu 0000:23:00.0 (/sys)\n"}
	for _, name := range []string{"gid", "infiniband", "lossless", "mtu", "rails", "rdma_port"} {
		block := `check "` + name + `" "all" {}`
		plantest.Run(t, checks.All(), []plantest.Case{
			judge(name+": nothing known", block, plantest.Node(), "unknown "+name+".nics  ()"),
			judge(name+": in a virtual machine", block, virtual(rails()), "unknown "+name+".nics  ()", "a virtual machine (kvm)"),
			judge(name+": a directory tree", block, root.WithInventory(inv), "skipped "+name+".nics nics ()"),
			judge(name+": no driver on any", block, rails(both(func(r *rail) { r.netdev, r.device, r.pci[5].Driver = node.Netdev{}, node.RDMADevice{}, "" })), unbound(name), "NIC 0000:14:00.0 is not in use: no driver is bound to it", "drivers_probe"),
			judge(name+": no rail", block, none, "drift "+name+".nics nics (/sys)", "there is no NIC to judge"),
			judge(name+": a NIC that is gone", `check "`+name+`" "all" { nics = [{ address = "0000:99:00.0", port = 2 }] }`, rails(), alone[name]+"drift "+name+".nics 0000:99:00.0/2 (/sys)", "NIC 0000:99:00.0/2 is not on the PCI bus"),
		})
	}
}
