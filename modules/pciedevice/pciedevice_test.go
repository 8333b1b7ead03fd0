package pciedevice_test

import (
	"strings"
	"testing"

	"busbar/internal/pciregs"
	"busbar/modules/pciedevice"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{pciedevice.Type{}}

const (
	first, second = "0000:1a:00.0", "0000:1a:00.1"
	virtual       = "0000:1a:00.2"
	guests        = "0000:1b:00.0"
	front         = "0000:41:00.0"
	gone          = "0000:99:00.0"
)

// registers answers with a function's read request and payload in bytes and its ordering.
func registers(address string, readRequest, payload int, relaxed bool) node.Answer {
	config := node.Source{Path: "/sys/bus/pci/devices/" + address + "/config"}
	return node.PCIRegisters.Answer(address, node.Known(node.PCIRegisterState{Express: node.Known(pciregs.Express{
		Present: true, PortType: pciregs.Endpoint, MaxPayload: payload, MaxReadRequest: readRequest, RelaxedOrdering: relaxed,
	}, config)}, config))
}

// host is a node with a NIC of two functions below a root port of an id, one with a virtual function, a NIC
// that a guest has and one that carries the default route.
func host(root string, answers ...node.Answer) node.Facts {
	f := plantest.Node(append([]node.Answer{registers(first, 512, 256, true), registers(second, 512, 256, true), registers(front, 512, 256, true)}, answers...)...)
	inv := f.Inventory
	nic := func(address, parent string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: "15b3", Device: "1021", Class: "020000", Driver: "mlx5_core", Parent: parent}
	}
	vendor, device, _ := strings.Cut(root, ":")
	vf, handed := nic(virtual, "0000:15:01.0"), nic(guests, "")
	vf.PhysicalFunction, handed.Driver = first, "vfio-pci"
	inv.PCI = node.Known([]node.PCIFunction{
		{Address: "0000:15:01.0", Vendor: vendor, Device: device, Class: "060400", Driver: "pcieport"},
		nic(first, "0000:15:01.0"), nic(second, "0000:15:01.0"), vf, handed, nic(front, ""),
	}, node.Source{Path: "/sys/bus/pci/devices"})
	inv.Netdevs = node.Known([]node.Netdev{
		{Name: "eth0", Type: node.ARPHardwareEthernet, PCI: front, Port: 1}, {Name: "eth1", Type: node.ARPHardwareEthernet, PCI: first, Port: 1}, {Name: "eth2", Type: node.ARPHardwareEthernet, PCI: second, Port: 1},
	}, node.Source{})
	inv.Protected = node.Known([]node.ProtectedNetdev{{Name: "eth0", Reason: "carries the default route"}}, node.Source{})
	return f.WithInventory(inv)
}

func block(attributes string, devices ...string) string {
	return "pcie_device \"nics\" {\ndevices = [\"" + strings.Join(devices, `", "`) + "\"]\n" + attributes + "\n}"
}

func TestFunctions(t *testing.T) {
	const sapphire = "8086:352a"
	reads := func(devices ...string) string { return block("max_read_request = 4096", devices...) }
	ordered := func(want string, devices ...string) string { return block("relaxed_ordering = "+want, devices...) }
	lockdown := node.ModuleSigning.Answer("", node.Known(node.ModuleSigningState{Lockdown: "integrity"}, node.Source{}))
	elsewhere := host(sapphire) // the network device of a NIC is in another network namespace
	moved := elsewhere.Inventory
	moved.Netdevs = node.Known([]node.Netdev{}, node.Source{})
	elsewhere = elsewhere.WithInventory(moved)
	root := host(sapphire)
	inv := root.Inventory
	inv.RootDirectory = true
	noBus := host(sapphire)
	unknownBus := noBus.Inventory
	unknownBus.PCI = node.Unknown[[]node.PCIFunction]("not read", node.Source{})
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "each function of a device, once", Blocks: reads(second, first, first), Facts: host(sapphire, registers(second, 4096, 256, false)),
			Says: []string{"0000:1a:00.0 reads 512 bytes at once, wanted is 4096 bytes"},
			Want: `
				!drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				ok pcie_device.max_read_request 0000:1a:00.1 (/sys/bus/pci/devices/0000:1a:00.1/config)
				step set-max-read-request:0000:1a:00.0
			`,
		},
		{
			Name: "both settings", Blocks: block("max_read_request = 4096\nrelaxed_ordering = true", first), Facts: host(sapphire, registers(first, 512, 256, false)),
			Want: `
				!drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				!drift pcie_device.relaxed_ordering 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				step set-max-read-request:0000:1a:00.0
				step set-relaxed-ordering:0000:1a:00.0
			`,
		},
		{
			Name: "whether the kernel bounds it is unknown", Blocks: reads(second, first),
			Facts: host(sapphire, registers(first, 4096, 256, false), registers(second, 4096, 4096, false), node.CommandLine.Answer("", node.Unknown[string]("not read", node.Source{Path: "/proc/cmdline"}))),
			Says:  []string{"whether pci=pcie_bus_perf bounds what 0000:1a:00.0 reads at once is unknown: not read"},
			Want: `
				unknown pcie_device.max_read_request 0000:1a:00.0 (/proc/cmdline)
				ok pcie_device.max_read_request 0000:1a:00.1 (/sys/bus/pci/devices/0000:1a:00.1/config)
			`,
		},
		{
			Name: "ordering is forbidden", Blocks: ordered("false", first), Facts: host(sapphire), Says: []string{"relaxed ordering of 0000:1a:00.0 is on, wanted is off"},
			Want: `
				!drift pcie_device.relaxed_ordering 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				step set-relaxed-ordering:0000:1a:00.0
			`,
		},
		{
			Name: "whether it is protected is unknown", Blocks: reads(first), Facts: elsewhere,
			Says: []string{"whether 0000:1a:00.0 is protected is unknown: the NIC has no network device although driver mlx5_core is bound to it"},
			Want: "skipped pcie_device.function 0000:1a:00.0 (/sys/bus/pci/devices)",
		},
		{
			Name: "what is left alone", Blocks: reads(virtual, guests, front), Facts: host(sapphire),
			Says: []string{"takes the settings of 0000:1a:00.0", "handed to a guest or a program (driver vfio-pci)", "its network device eth0 is protected"},
			Want: `
				skipped pcie_device.function 0000:1a:00.2 (/sys/bus/pci/devices)
				skipped pcie_device.function 0000:1b:00.0 (/sys/bus/pci/devices)
				skipped pcie_device.function 0000:41:00.0 (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "gone", Blocks: reads(gone), Facts: host(sapphire),
			Want: "drift pcie_device.function 0000:99:00.0 (/sys/bus/pci/devices)",
		},
		{
			Name: "the kernel bounds reads", Blocks: reads(first), Facts: host(sapphire, plantest.CommandLine("pci=pcie_bus_safe,pcie_bus_perf")),
			Says: []string{"pci=pcie_bus_perf bounds that to its payload of 256 bytes"},
			Want: "conflict pcie_device.max_read_request 0000:1a:00.0 (/proc/cmdline)",
		},
		{
			Name: "within the bound", Blocks: block("max_read_request = 256", first), Facts: host(sapphire, plantest.CommandLine("pci=pcie_bus_perf")),
			Want: `
				!drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				step set-max-read-request:0000:1a:00.0
			`,
		},
		{
			Name: "a bound that a later word lifts", Blocks: reads(first), Facts: host(sapphire, plantest.CommandLine("pci=pcie_bus_perf pci=pcie_bus_safe")),
			Want: `
				!drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				step set-max-read-request:0000:1a:00.0
			`,
		},
		{
			Name: "below a Haswell root port", Blocks: ordered("true", first), Facts: host("8086:2f02", registers(first, 512, 256, false)), Says: []string{"the kernel does so below 0000:15:01.0 (8086:2f02), which has an erratum"},
			Want: "unsupported pcie_device.relaxed_ordering 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)",
		},
		{
			Name: "forbidden below a Broadwell root port", Blocks: ordered("false", first), Facts: host("8086:6f0e"),
			Want: `
				!drift pcie_device.relaxed_ordering 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				step set-relaxed-ordering:0000:1a:00.0
			`,
		},
		{
			Name: "a port", Blocks: ordered("true", "0000:15:01.0"), Facts: host("1022:1a01", registers("0000:15:01.0", 512, 256, false)), Says: []string{"0000:15:01.0 (1022:1a01) is a port", "name the devices below it"},
			Want:  "unsupported pcie_device.function 0000:15:01.0 (/sys/bus/pci/devices)",
			After: "unsupported pcie_device.function 0000:15:01.0 (/sys/bus/pci/devices)",
		},
		{
			Name: "lockdown", Blocks: reads(first), Facts: host(sapphire, lockdown), Says: []string{"the kernel is locked down (integrity)"},
			Want: "drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)",
		},
		{
			Name: "without root", Blocks: reads(first), Says: []string{"how 0000:1a:00.0 reads and orders is unknown: run as root"},
			Facts: host(sapphire, node.PCIRegisters.Answer(first, node.Known(node.PCIRegisterState{Express: node.Unknown[pciregs.Express]("run as root", node.Source{})}, node.Source{}))),
			Want:  "unknown pcie_device.function 0000:1a:00.0 ()",
		},
		{
			Name: "not recorded", Blocks: reads(first), Facts: host(sapphire, node.PCIRegisters.Answer(first, node.Value[node.PCIRegisterState]{})),
			Want: "unknown pcie_device.function 0000:1a:00.0 ()",
		},
		{
			Name: "conventional PCI", Blocks: reads(first), Facts: host(sapphire, node.PCIRegisters.Answer(first, node.Known(node.PCIRegisterState{Express: node.Known(pciregs.Express{}, node.Source{})}, node.Source{}))),
			Want: "unsupported pcie_device.function 0000:1a:00.0 ()",
		},
		{
			Name: "two blocks of two minds", Blocks: reads(first) + "\n" + strings.Replace(block("max_read_request = 2048", first), "nics", "again", 1), Facts: host(sapphire),
			Says: []string{`read requests of 0000:1a:00.0 "2048" is wanted (node.hcl:7), and pcie_device.nics wants "4096" (node.hcl:3)`},
			Want: `
				drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				conflict profile.contradiction read requests of 0000:1a:00.0 (node.hcl:3)
				drift pcie_device.max_read_request 0000:1a:00.0 (/sys/bus/pci/devices/0000:1a:00.0/config)
				conflict profile.contradiction read requests of 0000:1a:00.0 (node.hcl:7)
			`,
		},
		{Name: "no devices", Blocks: "pcie_device \"none\" {\ndevices = []\nmax_read_request = 4096\n}", Facts: noBus.WithInventory(unknownBus)},
		{
			Name: "an unknown bus", Blocks: reads(first), Facts: noBus.WithInventory(unknownBus),
			Want: "unknown pcie_device.function  ()",
		},
		{
			Name: "a directory tree", Blocks: reads(first), Facts: root.WithInventory(inv),
			Want: "skipped pcie_device.function PCI ()",
		},
	})
}

func TestWithheld(t *testing.T) {
	b := plantest.Blocks(t, types, "pcie_device \"nics\" {\ndevices = [\"0000:1a:00.0\"]\nmax_read_request = null\n}")[0]
	b.Withheld = []plan.Withheld{{Attribute: "max_read_request", Reason: "no RDMA"}}
	if a := (pciedevice.Type{}).Assess(b, host("8086:352a")); len(a.Findings)+len(a.Steps) > 0 {
		t.Errorf("%+v", a)
	}
	if problems := (pciedevice.Type{}).Validate(b); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestValidate(t *testing.T) {
	for attributes, want := range map[string]int{
		"devices = [\"0000:1a:00.0\"]\nmax_read_request = 4096":     0,
		"devices = [\"0000:1a:00.0\"]\nrelaxed_ordering = false":    0,
		"devices = [\"0000:1a:00.0\"]":                              1,
		"devices = [\"0000:1a:00.0\"]\nmax_read_request = 1000":     1,
		"devices = [\"1a:00.0\", \"eth0\"]\nmax_read_request = 128": 2,
	} {
		b := plantest.Blocks(t, types, "pcie_device \"x\" {\n"+attributes+"\n}")[0]
		if problems := (pciedevice.Type{}).Validate(b); len(problems) != want {
			t.Errorf("%s: %v", attributes, problems)
		}
	}
}
