package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

func known[T any](v T) node.Value[T] { return node.Known(v, node.Source{Path: "/sys"}) }

// text is a Value on one word or sentence.
func text[T any](v node.Value[T]) any {
	got, ok := v.Get()
	switch {
	case ok:
		return got
	case v.Needs() != "":
		return "? " + v.Reason() + " (" + v.Needs() + ")"
	default:
		return "? " + v.Reason()
	}
}

func TestGPUs(t *testing.T) {
	inv := node.Inventory{PCI: known([]node.PCIFunction{
		{Address: "0000:00:01.0", Vendor: "8086", Device: "352a", Class: "060400"},
		{Address: "0000:02:00.0", Vendor: "1a03", Device: "2000", Class: "030000"},                // another vendor's VGA
		{Address: "0000:1b:00.0", Vendor: "10de", Device: "2330", Class: "030200", NUMANode: 1},   // 3D controller
		{Address: "0000:2b:00.0", Vendor: "10de", Device: "2204", Class: "030000", NUMANode: -1},  // VGA
		{Address: "0000:2b:00.1", Vendor: "10de", Device: "1aef", Class: "040300", NUMANode: -1},  // its audio function
		{Address: "0000:83:00.0", Vendor: "10de", Device: "22a3", Class: "068000", NUMANode: -1},  // NVSwitch
		{Address: "0000:a1:00.0", Vendor: "15b3", Device: "a2dc", Class: "020000", NUMANode: -1}}, // NIC
	)}
	gpus := inv.GPUs()
	want := []node.GPU{{Address: "0000:1b:00.0", PCIID: "10de:2330", NUMANode: 1}, {Address: "0000:2b:00.0", PCIID: "10de:2204", NUMANode: -1}}
	if diff := cmp.Diff(want, value(gpus)); diff != "" || gpus.Source().Path != "/sys" {
		t.Errorf("(-want +got):\n%s%s", diff, gpus.Source())
	}
	for _, p := range value(inv.PCI) {
		if got, want := p.IsNVSwitch(), p.Address == "0000:83:00.0"; got != want {
			t.Errorf("%s: IsNVSwitch is %v", p.Address, got)
		}
	}
	if none := (node.Inventory{PCI: known([]node.PCIFunction{})}).GPUs(); !none.IsKnown() || value(none) == nil {
		t.Errorf("an empty bus: %+v", say(none))
	}
}

// TestNVSwitches: those of the fifth generation are no PCI functions, and those of a virtual machine its host's.
func TestNVSwitches(t *testing.T) {
	gpu := func(device string) node.PCIFunction {
		return node.PCIFunction{Vendor: "10de", Device: device, Class: "030200"}
	}
	nvswitch := node.PCIFunction{Vendor: "10de", Device: "22a3", Class: "068000"}
	for _, test := range []struct {
		virtualization node.Value[string]
		functions      []node.PCIFunction
		want           any
	}{
		{known("none"), nil, false},
		{known("none"), []node.PCIFunction{gpu("2330"), nvswitch}, true},
		{known("kvm"), []node.PCIFunction{gpu("2330"), nvswitch}, true},
		{node.Value[string]{}, []node.PCIFunction{gpu("2330"), nvswitch}, true},
		{known("none"), []node.PCIFunction{gpu("2330")}, false},
		{known("none"), []node.PCIFunction{gpu("2901")}, true},  // B200
		{known("none"), []node.PCIFunction{gpu("3182")}, true},  // B300
		{known("none"), []node.PCIFunction{gpu("2941")}, false}, // GB200, whose are in other trays
		{known("kvm"), []node.PCIFunction{gpu("2901")}, false},
		{node.Unknown[string]("not read", node.Source{}), []node.PCIFunction{gpu("2901")}, "not read"},
		{node.Unknown[string]("not read", node.Source{}), []node.PCIFunction{gpu("26b9")}, false},
	} {
		v := node.Inventory{Virtualization: test.virtualization, PCI: known(test.functions)}.NVSwitches()
		var got any = v.Reason()
		if there, ok := v.Get(); ok {
			got = there
		}
		if got != test.want {
			t.Errorf("%v on %v: %v, want %v", test.functions, test.virtualization, got, test.want)
		}
	}
	if v := (node.Inventory{}).NVSwitches(); v.IsKnown() {
		t.Error("known of nothing")
	}
}

func TestUnknownPCI(t *testing.T) {
	inv := node.Inventory{PCI: node.Unknown[[]node.PCIFunction]("permission denied", node.Source{Path: "/sys/bus/pci/devices"})}
	want := said{Reason: "permission denied", Source: node.Source{Path: "/sys/bus/pci/devices"}}
	want.Value = []node.GPU(nil)
	if diff := cmp.Diff(want, say(inv.GPUs())); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	want.Value = []node.NIC(nil)
	if diff := cmp.Diff(want, say(inv.NICs())); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
}

// nic is a NIC with its Values on one word.
type nic struct {
	NIC                                string
	Netdev, RDMA, LinkLayer, Protected any
}

func TestNICs(t *testing.T) {
	const ethernet, infiniband = "Ethernet", "InfiniBand"
	rdma := func(name, pci string, ports ...node.RDMADevicePort) node.RDMADevice {
		return node.RDMADevice{Name: name, PCI: pci, Ports: ports}
	}
	port := func(n int, netdev string, layer node.Value[string]) node.RDMADevicePort {
		return node.RDMADevicePort{Port: n, Netdev: netdev, LinkLayer: layer}
	}
	function := func(address, class string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: "15b3", Device: "1021", Class: class, Driver: "mlx5_core"}
	}
	const a, b = "0000:1b:00.0", "0000:1b:00.1"
	const noNetdev = "? the NIC has no network device although driver mlx5_core is bound to it"
	driven := func(driver string) node.PCIFunction {
		f := function(a, "020000")
		f.Driver = driver
		return f
	}
	noDriver := driven("")
	vf := function(b, "020000")
	vf.PhysicalFunction = a
	for _, tt := range []struct {
		name string
		inv  node.Inventory
		want []nic
	}{
		{
			"two ports, a function each", node.Inventory{
				PCI: known([]node.PCIFunction{function(a, "020700"), function(b, "020000")}),
				Netdevs: known([]node.Netdev{
					{Name: "eth1", Type: node.ARPHardwareEthernet, PCI: b, Port: 1},
					{Name: "ib0", Type: node.ARPHardwareInfiniBand, PCI: a, Port: 1}, {Name: "lo", Type: node.ARPHardwareLoopback},
				}),
				RDMA:      known([]node.RDMADevice{rdma("mlx5_0", a, port(1, "ib0", known(infiniband))), rdma("mlx5_1", b, port(1, "eth1", known(ethernet)))}),
				Protected: known([]node.ProtectedNetdev{{Name: "eth1", Reason: "carries the default route"}}),
			},
			[]nic{{a, "ib0", "mlx5_0", infiniband, false}, {b, "eth1", "mlx5_1", ethernet, true}},
		},
		{
			"two ports, one function (ConnectX-3), one without a network device", node.Inventory{
				PCI:       known([]node.PCIFunction{function(a, "020700")}),
				Netdevs:   known([]node.Netdev{{Name: "eth2", Type: node.ARPHardwareEthernet, PCI: a, Port: 2}}),
				RDMA:      known([]node.RDMADevice{rdma("mlx4_0", a, port(1, "", known(infiniband)), port(2, "eth2", known(ethernet)))}),
				Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{
				{a, noNetdev, "mlx4_0", infiniband, false},
				{a + "/2", "eth2", "mlx4_0", ethernet, false},
			},
		},
		{
			"InfiniBand without IPoIB: SCSI disks over the second port, the third's link layer unknown, the fourth on Ethernet", node.Inventory{
				PCI: known([]node.PCIFunction{function(a, "020700")}), Netdevs: known([]node.Netdev{}),
				RDMA:      known([]node.RDMADevice{rdma("mlx5_0", a, port(1, "", known(infiniband)), port(2, "", known(infiniband)), port(3, "", node.Unknown[string]("no answer within 2s", node.Source{})), port(4, "", known(ethernet)))}),
				Protected: known([]node.ProtectedNetdev{{Name: "eth0", Reason: "carries the default route"}, {NIC: a + "/2", Reason: "carries SCSI disks (SRP)"}}),
			},
			[]nic{
				{a, noNetdev, "mlx5_0", infiniband, false}, {a + "/2", noNetdev, "mlx5_0", infiniband, true},
				{a + "/3", noNetdev, "mlx5_0", "? no answer within 2s", noNetdev}, {a + "/4", noNetdev, "mlx5_0", ethernet, noNetdev},
			},
		},
		{
			"InfiniBand, network devices unknown", node.Inventory{
				PCI: known([]node.PCIFunction{function(a, "020700")}), Netdevs: node.Unknown[[]node.Netdev]("no /sys/class/net", node.Source{}),
				RDMA: known([]node.RDMADevice{rdma("mlx5_0", a, port(1, "", known(infiniband)))}), Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{a, "? no /sys/class/net", "mlx5_0", infiniband, "? no /sys/class/net"}},
		},
		{
			"an IPoIB partition carries the default route, a virtual function the way to the SSH client", node.Inventory{
				PCI: known([]node.PCIFunction{function(a, "020700"), function(b, "020000"), {Address: "0000:1b:00.2", Vendor: "15b3", Device: "101e", Class: "020000", PhysicalFunction: b}}),
				Netdevs: known([]node.Netdev{
					{Name: "eth1", Type: node.ARPHardwareEthernet, PCI: b, Port: 1}, {Name: "eth1v0", Type: node.ARPHardwareEthernet, PCI: "0000:1b:00.2", Port: 1},
					{Name: "ib0", Type: node.ARPHardwareInfiniBand, PCI: a, Port: 1}, {Name: "ib0.8001", Type: node.ARPHardwareInfiniBand, PCI: a, Port: 1},
				}),
				RDMA:      known([]node.RDMADevice{}),
				Protected: known([]node.ProtectedNetdev{{Name: "eth1v0", Reason: "route back to the SSH client"}, {Name: "ib0.8001", Reason: "carries the default route"}}),
			},
			[]nic{
				{a, "ib0", "? the NIC has no RDMA device (rdma-devices)", infiniband, true},
				{b, "eth1", "? the NIC has no RDMA device (rdma-devices)", ethernet, true},
			},
		},
		{
			"virtual functions and what is no NIC are left out", node.Inventory{
				PCI: known([]node.PCIFunction{{Address: "0000:00:00.0", Vendor: "8086", Class: "060000"}, function(a, "020000"), vf, {Address: "0000:2b:00.0", Vendor: "10de", Class: "030200"}}),
				Netdevs: known([]node.Netdev{
					{Name: "eth0", Type: node.ARPHardwareEthernet, PCI: a, Port: 1},
					{Name: "eth0v0", Type: node.ARPHardwareEthernet, PCI: b, Port: 1},
				}),
				RDMA: known([]node.RDMADevice{}), Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{a, "eth0", "? the NIC has no RDMA device (rdma-devices)", ethernet, false}},
		},
		{
			"rxe stands on a network device", node.Inventory{
				PCI: known([]node.PCIFunction{function(a, "020000"), function(b, "020000")}),
				Netdevs: known([]node.Netdev{
					{Name: "eth0", Type: node.ARPHardwareEthernet, PCI: a, Port: 1}, {Name: "eth1", Type: node.ARPHardwareEthernet, PCI: b, Port: 1},
				}),
				RDMA:      known([]node.RDMADevice{rdma("rxe0", "", port(1, "eth1", known(ethernet)))}),
				Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{a, "eth0", "? the NIC has no RDMA device (rdma-devices)", ethernet, false}, {b, "eth1", "rxe0", ethernet, false}},
		},
		{
			"no driver", node.Inventory{
				PCI: known([]node.PCIFunction{noDriver}), Netdevs: known([]node.Netdev{}), RDMA: known([]node.RDMADevice{rdma("rxe0", "", port(1, "", known(ethernet)))}),
				Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{
				a, "? the NIC has no network device: no driver is bound to it", "? the NIC has no RDMA device (rdma-devices)",
				ethernet, false,
			}},
		},
		{
			"no driver, and protected since a run that had one", node.Inventory{
				PCI: known([]node.PCIFunction{noDriver}), Netdevs: known([]node.Netdev{}), RDMA: known([]node.RDMADevice{}), Protected: known([]node.ProtectedNetdev{{NIC: a}}),
			},
			[]nic{{
				a, "? the NIC has no network device: no driver is bound to it", "? the NIC has no RDMA device (rdma-devices)",
				ethernet, true,
			}},
		},
		{
			"a guest has it", node.Inventory{
				PCI: known([]node.PCIFunction{driven("vfio-pci")}), Netdevs: known([]node.Netdev{}), RDMA: known([]node.RDMADevice{}), Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{
				a, "? the NIC has no network device although driver vfio-pci is bound to it", "? the NIC has no RDMA device (rdma-devices)",
				ethernet, false,
			}},
		},
		{
			"its network device is elsewhere", node.Inventory{
				PCI: known([]node.PCIFunction{driven("mlx5_core")}), Netdevs: known([]node.Netdev{}), RDMA: known([]node.RDMADevice{}), Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{
				a, "? the NIC has no network device although driver mlx5_core is bound to it", "? the NIC has no RDMA device (rdma-devices)",
				ethernet, noNetdev,
			}},
		},
		{
			"InfiniBand by its class: no driver, and a driver that shows neither device", node.Inventory{
				PCI:     known([]node.PCIFunction{{Address: a, Vendor: "15b3", Device: "1021", Class: "020700"}, function(b, "020700")}),
				Netdevs: known([]node.Netdev{}), RDMA: known([]node.RDMADevice{}), Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{
				{a, "? the NIC has no network device: no driver is bound to it", "? the NIC has no RDMA device (rdma-devices)", infiniband, false},
				{b, noNetdev, "? the NIC has no RDMA device (rdma-devices)", infiniband, noNetdev},
			},
		},
		{
			"the driver did not answer: the network device's type tells the link layer", node.Inventory{
				PCI:       known([]node.PCIFunction{function(a, "020700")}),
				Netdevs:   known([]node.Netdev{{Name: "ib0", Type: node.ARPHardwareInfiniBand, PCI: a, Port: 1}}),
				RDMA:      known([]node.RDMADevice{rdma("mlx5_0", a, port(1, "", node.Unknown[string]("no answer within 2s", node.Source{})))}),
				Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{a, "ib0", "mlx5_0", infiniband, false}},
		},
		{
			"neither tells the link layer", node.Inventory{
				PCI:       known([]node.PCIFunction{function(a, "020700")}),
				Netdevs:   known([]node.Netdev{{Name: "odd0", Type: 5, PCI: a, Port: 1}}),
				RDMA:      known([]node.RDMADevice{rdma("mlx5_0", a, port(1, "", node.Unknown[string]("no answer within 2s", node.Source{})))}),
				Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{a, "odd0", "mlx5_0", "? no answer within 2s", false}},
		},
		{
			"an odd network device", node.Inventory{
				PCI:     known([]node.PCIFunction{function(a, "020000")}),
				Netdevs: known([]node.Netdev{{Name: "odd0", Type: 5, PCI: a, Port: 1}}),
				RDMA:    known([]node.RDMADevice{}), Protected: known([]node.ProtectedNetdev{}),
			},
			[]nic{{a, "odd0", "? the NIC has no RDMA device (rdma-devices)", "? odd0 has hardware type 5", false}},
		},
		{
			"nothing is known but the bus", node.Inventory{
				PCI:       known([]node.PCIFunction{function(a, "020000")}),
				Netdevs:   node.Unknown[[]node.Netdev]("no /sys/class/net", node.Source{}),
				RDMA:      node.Unknown[[]node.RDMADevice]("no /sys/class/infiniband", node.Source{}),
				Protected: node.Unknown[[]node.ProtectedNetdev]("no routes", node.Source{}),
			},
			[]nic{{a, "? no /sys/class/net", "? no /sys/class/infiniband", "? no /sys/class/net", "? no routes"}},
		},
		{
			"protection is unknown", node.Inventory{
				PCI:     known([]node.PCIFunction{function(a, "020000")}),
				Netdevs: known([]node.Netdev{{Name: "eth0", Type: node.ARPHardwareEthernet, PCI: a, Port: 1}}),
			},
			[]nic{{a, "eth0", "? not recorded", ethernet, "? not recorded"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := []nic{}
			for _, n := range value(tt.inv.NICs()) {
				if n.PCIID != "15b3:1021" {
					t.Errorf("%s is %s", n, n.PCIID)
				}
				got = append(got, nic{n.String(), text(n.Netdev), text(n.RDMA), text(n.LinkLayer), text(n.Protected)})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLastingProtected(t *testing.T) {
	const (
		front = "0000:1b:00.0"
		rail  = "0000:3c:00.0"
		vf    = "0000:3c:00.2"
	)
	inv := node.Inventory{
		PCI: known([]node.PCIFunction{{Address: front, Class: "020000"}, {Address: rail, Class: "020000"}, {Address: vf, Class: "020000", PhysicalFunction: rail}}),
		Netdevs: known([]node.Netdev{
			{Name: "bond0", Lower: []string{"eth0", "eth1"}}, {Name: "eth0", PCI: front, Port: 1}, {Name: "eth1", PCI: front, Port: 2},
			{Name: "rail0", PCI: rail, Port: 1}, {Name: "rail0v0", PCI: vf, Port: 1}, {Name: "usb0"},
		}),
		RDMA: known([]node.RDMADevice{}), Routes: known([]node.Route{{Destination: "10.0.0.1/32"}, {Destination: "default", Devices: []string{"bond0"}}}),
	}
	const gateway = "carries the default route"
	for _, tt := range []struct {
		name      string
		protected []node.ProtectedNetdev
		want      []string
	}{
		{"nothing", nil, nil},
		{
			"a bond on two ports of a NIC, and a device that is none of PCI",
			[]node.ProtectedNetdev{{Name: "bond0", Reason: gateway}, {Name: "eth0", Reason: "below bond0: " + gateway}, {Name: "eth1", Reason: "below bond0: " + gateway}, {Name: "usb0", Reason: "configured by the kernel command line (ip=)"}},
			[]string{front, front + "/2", "bond0", "usb0"},
		},
		{
			"an SSH client, and what was saved",
			[]node.ProtectedNetdev{
				{Name: "bond0", Reason: node.ProtectedForSSH}, {Name: "eth0", Reason: "below bond0: " + node.ProtectedForSSH}, {Name: "eth1", Reason: gateway},
				{Name: "rail0", Reason: node.ProtectedAsSaved}, {Name: "usb0", Reason: "below x: " + node.ProtectedAsSaved}, {NIC: rail + "/2", Reason: node.ProtectedAsSaved},
			},
			[]string{front + "/2"},
		},
		{"a virtual function stands on its PF", []node.ProtectedNetdev{{Name: "rail0v0", Reason: gateway}}, []string{rail, vf}},
		{"a port without a network device", []node.ProtectedNetdev{{NIC: rail + "/2", Reason: "carries SCSI disks (SRP)"}}, []string{rail + "/2"}},
	} {
		inv.Protected = known(tt.protected)
		if diff := cmp.Diff(tt.want, value(inv.LastingProtected())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	inv.Routes = known([]node.Route{{Destination: "10.0.0.1/32"}})
	unknown := map[string]node.Inventory{"there is no default route": inv}
	inv.Routes = node.Unknown[[]node.Route]("no routes", node.Source{})
	unknown["no routes"] = inv
	inv.Protected = node.Unknown[[]node.ProtectedNetdev]("no netdevs", node.Source{})
	unknown["no netdevs"] = inv
	for why, inv := range unknown {
		if v := inv.LastingProtected(); v.IsKnown() || v.Reason() != why {
			t.Errorf("%s: %v", why, v)
		}
	}
}

func TestOSIs(t *testing.T) {
	ubuntu := node.OS{ID: "ubuntu", IDLike: []string{"debian"}}
	for _, tt := range []struct {
		ids  []string
		want bool
	}{
		{[]string{"ubuntu"}, true}, {[]string{"fedora", "debian"}, true}, {[]string{"fedora"}, false}, {nil, false},
	} {
		if got := ubuntu.Is(tt.ids...); got != tt.want {
			t.Errorf("Is(%q) is %v", tt.ids, got)
		}
	}
}

func TestMarkerExpects(t *testing.T) {
	m := node.Marker{BootID: "first", Args: []string{"iommu=pt", "pci=noacs"}}
	for _, tt := range []struct {
		name   string
		m      node.Marker
		args   []string
		bootID string
		want   bool
	}{
		{"an earlier boot, all arguments", m, []string{"pci=noacs", "iommu=pt"}, "second", true},
		{"an earlier boot, one argument", m, []string{"iommu=pt"}, "second", true},
		{"the same boot", m, []string{"iommu=pt"}, "first", false},
		{"another argument", m, []string{"iommu=pt", "quiet"}, "second", false},
		{"another value", m, []string{"iommu=off"}, "second", false},
		{"unknown boot", m, []string{"iommu=pt"}, "", false},
		{"no marker", node.Marker{}, []string{"iommu=pt"}, "second", false},
		{"a marker without a boot", node.Marker{Args: m.Args}, []string{"iommu=pt"}, "second", false},
		{"no arguments", m, nil, "second", true},
	} {
		if got := tt.m.Expects(tt.args, tt.bootID); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
