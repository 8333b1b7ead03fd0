package link_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"busbar/modules/link"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{link.Type{}}

func block(port, arguments string) string {
	return "link \"rails\" {\nnics = [{ address = \"" + port + "\", port = 1 }]\n" + arguments + "\n}"
}

// down is a rail that nobody has set up yet: down, with the MTU of Ethernet.
func down() plantest.PortState {
	s := plantest.Lossless(plantest.Rail, "rail0", "mlx5_0")
	s.Link.MTU, s.Link.Up = node.Known(1500, s.Link.MTU.Source()), node.Known(false, s.Link.Up.Source())
	s.Link.Carrier = node.Unknown[bool]("the network device is down", s.Link.Carrier.Source())
	return s
}

func TestLink(t *testing.T) {
	const rail, mtu, flags = plantest.Rail, "(/sys/class/net/rail0/mtu)", "(/sys/class/net/rail0/flags)"
	const file = "link.mtu_file " + rail + " (/run/systemd/network/10-netplan-rail0.network:5)"
	healthy, unread := plantest.Lossless(rail, "rail0", "mlx5_0"), down()
	unread.Link.MTU, unread.Link.Up = node.Value[int]{}, node.Value[bool]{}
	front := plantest.Lossless(plantest.Front, "eno1", "mlx5_9")
	const protected = "drift link.mtu 0000:01:00.0 (/sys/class/net/eno1/mtu)\nconflict link.mtu_file 0000:01:00.0 (/run/systemd/network/10-netplan-eno1.network:5)"
	undriven := plantest.PortNode(healthy.Answers()...)
	inv := undriven.Inventory
	functions, _ := inv.PCI.Get()
	functions = slices.Clone(functions)
	functions[slices.IndexFunc(functions, func(p node.PCIFunction) bool { return p.Address == rail })].Driver = "vfio-pci"
	inv.PCI = node.Known(functions, inv.PCI.Source())
	netdevs, _ := inv.Netdevs.Get()
	inv.Netdevs = node.Known(slices.DeleteFunc(slices.Clone(netdevs), func(d node.Netdev) bool { return d.PCI == rail }), inv.Netdevs.Source())
	devices, _ := inv.RDMA.Get()
	inv.RDMA = node.Known(slices.DeleteFunc(slices.Clone(devices), func(d node.RDMADevice) bool { return d.PCI == rail }), inv.RDMA.Source())
	undriven = undriven.WithInventory(inv)
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "as wanted", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(healthy.Answers()...),
			Want: "ok link.mtu " + rail + " " + mtu + "\nok " + file + "\nok link.up " + rail + " " + flags,
		},
		{
			Name: "no driver", Blocks: block(rail, "up = true"), Facts: undriven,
			Want: "drift link.driver " + rail + " (/sys/bus/pci/devices/" + rail + "/driver)", After: "drift link.driver " + rail + " (/sys/bus/pci/devices/" + rail + "/driver)",
			Says: []string{"NIC " + rail + " is not in use: it was handed to a guest or a program (driver vfio-pci)", "driverctl unset-override"},
		},
		{
			Name: "MTU and state are one step", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(down().Answers()...),
			Want: "!drift link.mtu " + rail + " " + mtu + "\nok " + file + "\n!drift link.up " + rail + " " + flags + "\nstep set-link:" + rail,
			Says: []string{"the MTU of 0000:1a:00.0 (rail0) is 1500, wanted is 9000; networkd sets it up"},
		},
		{
			Name: "to be down", Blocks: block(rail, "up = false"), Facts: plantest.PortNode(healthy.Answers()...),
			Want: "!drift link.up " + rail + " " + flags + "\nstep set-link:" + rail, Says: []string{"0000:1a:00.0 (rail0) is up, wanted is down"},
		},
		{
			Name: "a bounce is waited for", Blocks: block(rail, "mtu = 4200"), Facts: plantest.PortNode(healthy.Answers()...),
			Want:  "!drift link.mtu " + rail + " " + mtu + "\nconflict " + file + "\nstep set-link:" + rail + "\nstep await-links:links",
			After: "conflict " + file,
		},
		{
			Name: "protected", Blocks: block(plantest.Front, "mtu = 1500"), Facts: plantest.PortNode(front.Answers()...),
			Want: protected, After: protected, Says: []string{"carries the default route"},
		},
		{
			Name: "unread", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(unread.Answers()...),
			Want: "unknown link.mtu " + rail + " ()\nok " + file + "\nunknown link.up " + rail + " ()", After: "unknown link.mtu " + rail + " ()\nunknown link.up " + rail + " ()",
		},
		{
			Name: "not answered", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(),
			Want:  "unknown link.mtu " + rail + " ()\nunknown link.mtu_file " + rail + " ()\nunknown link.up " + rail + " ()",
			After: "unknown link.mtu " + rail + " ()\nunknown link.mtu_file " + rail + " ()\nunknown link.up " + rail + " ()",
		},
	})
}

// Who says another MTU is named with file and line, and what to write there.
func TestMTUFile(t *testing.T) {
	const want = 9000
	at := func(path string, line int) node.Source { return node.Source{Path: path, Line: line} }
	manager := func(name, file string, mtu int, source node.Source) node.LinkManager {
		return node.LinkManager{Name: name, File: file, MTU: node.Known(mtu, source)}
	}
	silent := manager(node.ManagerUdev, "/usr/lib/systemd/network/99-default.link", 0, at("/usr/lib/systemd/network/99-default.link", 0))
	only := func(m node.LinkManager) node.LinkManagementState {
		return node.LinkManagementState{Netdev: "rail0", Managers: []node.LinkManager{m}, Udev: silent}
	}
	const network, connection, ifcfg = "/etc/systemd/network/10-rail0.network", "/etc/NetworkManager/system-connections/rail0.nmconnection", "/etc/sysconfig/network-scripts/ifcfg-rail0"
	unread := only(node.LinkManager{Name: node.ManagerIfupdown, File: "/etc/network/interfaces", MTU: node.Unknown[int]("line 9: a command sets it: mtu.sh", at("/etc/network/interfaces", 9))})
	netplan := plantest.Netplan("rail0", 1500)
	for _, tt := range []struct {
		name         string
		state        node.LinkManagementState
		status       plan.Status
		found        string
		source       string
		summary, fix string
	}{
		{"nobody", node.LinkManagementState{Netdev: "rail0", Udev: silent}, plan.OK, "none", "/sys/class/net/rail0", "no manager sets 0000:1a:00.0 (rail0) up, and no file says an MTU: busbar.service sets it at each boot", ""},
		{"networkd says none", only(manager(node.ManagerNetworkd, network, 0, at(network, 0))), plan.OK, "none", "/sys/class/net/rail0", "networkd sets 0000:1a:00.0 (rail0) up, and no file says an MTU", ""},
		{"networkd says it", only(manager(node.ManagerNetworkd, network, want, at(network, 5))), plan.OK, "9000", network + ":5", "networkd gives 0000:1a:00.0 (rail0) an MTU of 9000", ""},
		{"networkd", only(manager(node.ManagerNetworkd, network, 1500, at(network, 5))), plan.Conflict, "1500", network + ":5",
			"networkd gives 0000:1a:00.0 (rail0) an MTU of 1500 (" + network + ":5), wanted is 9000", "write MTUBytes=9000 into section [Link] of " + network},
		{"networkd's drop-in", only(manager(node.ManagerNetworkd, network, 1500, at(network+".d/x.conf", 2))), plan.Conflict, "1500", network + ".d/x.conf:2", "an MTU of 1500", "of " + network + ".d/x.conf"},
		{"a vendor's file", only(manager(node.ManagerNetworkd, "/usr/lib/systemd/network/80-x.network", 1500, at("/usr/lib/systemd/network/80-x.network", 3))), plan.Conflict, "1500",
			"/usr/lib/systemd/network/80-x.network:3", "an MTU of 1500", "of /etc/systemd/network/80-x.network.d/mtu.conf"},
		{"DHCP", only(manager(node.ManagerNetworkd, network, 1500, at("/run/systemd/netif/leases/3", 4))), plan.Conflict, "1500", "/run/systemd/netif/leases/3:4", "an MTU of 1500 (/run/systemd/netif/leases/3:4)", "section [Link] of " + network},
		{"netplan", netplan, plan.Conflict, "1500", "/run/systemd/network/10-netplan-rail0.network:5", "networkd gives", "write mtu: 9000 into /etc/netplan/50-rails.yaml:7, of which netplan makes /run/systemd/network/10-netplan-rail0.network"},
		{"NetworkManager", only(manager(node.ManagerNetworkManager, connection, 1500, at(connection, 8))), plan.Conflict, "1500", connection + ":8", "NetworkManager gives", "write mtu=9000 into section [ethernet] of " + connection},
		{"ifcfg", only(manager(node.ManagerNetworkManager, ifcfg, 1500, at(ifcfg, 8))), plan.Conflict, "1500", ifcfg + ":8", "NetworkManager gives", "write MTU=9000 into " + ifcfg},
		{"ifupdown", only(manager(node.ManagerIfupdown, "/etc/network/interfaces", 1500, at("/etc/network/interfaces.d/rail0", 3))), plan.Conflict, "1500", "/etc/network/interfaces.d/rail0:3",
			"ifupdown gives", "write mtu 9000 into the stanza iface at /etc/network/interfaces.d/rail0:3"},
		{"udev, and no manager says one", node.LinkManagementState{Netdev: "rail0", Managers: []node.LinkManager{manager(node.ManagerNetworkd, network, 0, at(network, 0))}, Udev: manager(node.ManagerUdev, "/etc/systemd/network/10-rail0.link", 1500, at("/etc/systemd/network/10-rail0.link", 6))},
			plan.Conflict, "1500", "/etc/systemd/network/10-rail0.link:6", "udev gives", "write MTUBytes=9000 into section [Link] of /etc/systemd/network/10-rail0.link"},
		{"a manager wins over udev", node.LinkManagementState{Netdev: "rail0", Managers: []node.LinkManager{manager(node.ManagerNetworkd, network, want, at(network, 5))}, Udev: manager(node.ManagerUdev, "/etc/systemd/network/10-rail0.link", 1500, at("/etc/systemd/network/10-rail0.link", 6))},
			plan.OK, "9000", network + ":5", "networkd gives", ""},
		{"two managers", node.LinkManagementState{Netdev: "rail0", Managers: []node.LinkManager{manager(node.ManagerNetworkd, network, 0, at(network, 0)), manager(node.ManagerNetworkManager, connection, 0, at(connection, 0))}, Udev: silent},
			plan.OK, "none", "/sys/class/net/rail0", "networkd and NetworkManager set 0000:1a:00.0 (rail0) up", ""},
		{"a command", unread, plan.Undetermined, "", "/etc/network/interfaces:9", "the MTU that ifupdown gives the network device of 0000:1a:00.0 (rail0) is unknown: line 9: a command sets it", ""},
		{"udev was forgotten", node.LinkManagementState{Netdev: "rail0"}, plan.Undetermined, "", "", "the MTU that udev gives the network device of 0000:1a:00.0 (rail0) is unknown: not recorded", "reads on the node what it asks for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := plantest.Lossless(plantest.Rail, "rail0", "mlx5_0")
			s.Management = tt.state
			p := plantest.Planner(types).Plan(plantest.Blocks(t, types, block(plantest.Rail, "mtu = 9000")), plantest.PortNode(s.Answers()...))
			if len(p.Steps) != 0 || len(p.Findings) != 2 {
				t.Fatal(plantest.Summarize(p))
			}
			f := p.Findings[1]
			if f.ID != "link.mtu_file" || f.Status != tt.status || f.Fixable || f.Found != tt.found || f.Source.String() != tt.source ||
				!strings.Contains(f.Summary, tt.summary) || !strings.HasSuffix(f.Fix, tt.fix) || (f.Fix == "") != (tt.fix == "") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A block that asks for no MTU does not ask who says one.
func TestNoMTU(t *testing.T) {
	b := plantest.Blocks(t, types, block(plantest.Rail, "up = true"))[0]
	for _, q := range (link.Type{}).Queries(b, plantest.PortNode().Inventory) {
		if q.Kind == node.LinkManagement.Name() {
			t.Error(q)
		}
	}
}

// A port of a bond has the bond's MTU, whatever its own file says.
func TestBondPort(t *testing.T) {
	s := plantest.Lossless(plantest.BondPort, "storage0", "mlx5_3")
	s.Management.Bond = "bond1"
	const bond = "/etc/systemd/network/20-bond1.network"
	for want, managers := range map[string][]node.LinkManager{
		"its MTU is that of bond1, which it is a port of; networkd gives that an MTU of 1500 (" + bond + ":4)": {{Name: node.ManagerNetworkd, File: bond, MTU: node.Known(1500, node.Source{Path: bond, Line: 4})}},
		"its MTU is that of bond1, which it is a port of; networkd sets that up":                               {{Name: node.ManagerNetworkd, File: bond, MTU: node.Known(0, node.Source{Path: bond})}},
		"its MTU is that of bond1, which it is a port of":                                                      nil,
	} {
		s.Management.BondManagers = managers
		p := plantest.Planner(types).Plan(plantest.Blocks(t, types, block(plantest.BondPort, "mtu = 9000")), plantest.PortNode(s.Answers()...))
		if len(p.Findings) != 1 || p.Findings[0].Status != plan.Skipped || !strings.HasSuffix(p.Findings[0].Summary, want) {
			t.Errorf("%s\n%+v", want, p.Findings)
		}
	}
}

func TestMergedStep(t *testing.T) {
	p := plantest.Planner(types).Plan(plantest.Blocks(t, types, block(plantest.Rail, "mtu = 9000\nup = true")), plantest.PortNode(down().Answers()...))
	want := plan.SetLink{NICPort: plan.NICPort{NIC: plantest.Rail}, MTU: 9000, State: "up"}
	if len(p.Steps) != 1 || p.Steps[0].Action != want || p.Steps[0].Summary != "set the MTU of NIC 0000:1a:00.0 to 9000 and set NIC 0000:1a:00.0 up" || len(p.Steps[0].After) != 0 {
		t.Errorf("%+v", p.Steps)
	}
}

// Two blocks that want different things of one port contradict each other, and nothing is done.
func TestContradiction(t *testing.T) {
	blocks := block(plantest.Rail, "mtu = 9000\nup = true") + "\n" + "link \"others\" {\nnics = [{ address = \"" + plantest.Rail + "\" }]\nmtu = 4200\n}"
	p := plantest.Planner(types).Plan(plantest.Blocks(t, types, blocks), plantest.PortNode(down().Answers()...))
	conflicts := 0
	for _, f := range p.Findings {
		if f.ID == "profile.contradiction" {
			conflicts++
		}
	}
	if conflicts != 2 || len(p.Steps) != 0 {
		t.Error(plantest.Summarize(p))
	}
}

func TestValidate(t *testing.T) {
	for text, want := range map[string][]string{
		block(plantest.Rail, "mtu = 9000"):                   nil,
		block(plantest.Rail, "up = false"):                   nil,
		block(plantest.Rail, ""):                             {"the block asks for nothing"},
		block("0000:1a:00", "mtu = 9000"):                    {"no NIC"},
		block(plantest.Rail+"/2", "mtu = 9000"):              nil,
		"link \"x\" {\nnics = []\nallow_protected = true\n}": {"the block asks for nothing"},
	} {
		var got []string
		for _, p := range (link.Type{}).Validate(plantest.Blocks(t, types, text)[0]) {
			got = append(got, p.Summary)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
	b := plantest.Blocks(t, types, block(plantest.Rail, "up = true"))[0]
	b.Attributes["up"], b.Withheld = cty.NullVal(cty.Bool), []plan.Withheld{{Attribute: "up", Reason: "x"}}
	if problems := (link.Type{}).Validate(b); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}
