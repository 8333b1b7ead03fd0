package stock_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"busbar/checks"
	"busbar/modules"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
	"busbar/profiles"
	"busbar/proofs"
)

func types() []plan.Type { return slices.Concat(modules.All(), checks.All(), proofs.All()) }

func loader() *profiles.Loader {
	return &profiles.Loader{Types: types(), Dirs: []profiles.Dir{profiles.Stock()}}
}

var planner = sync.OnceValue(func() *plan.Planner { return plan.NewPlanner(types(), sink.All()) })

// loaded are the stock profiles that load has loaded, by name.
var loaded sync.Map

// load returns a stock profile, and fails the test on any diagnostic.
func load(t testing.TB, name string) *profiles.Profile {
	t.Helper()
	if p, ok := loaded.Load(name); ok {
		return p.(*profiles.Profile)
	}
	p, diags := loader().Load(name)
	if len(diags) > 0 {
		var b strings.Builder
		_ = profiles.WriteText(&b, diags, 100, false)
		t.Fatalf("profile %s:\n%s", name, b.String())
	}
	loaded.Store(name, p)
	return p
}

// TestValidate loads every stock profile without a node: no mistake, no warning, no
// contradiction, and the usual layout.
func TestValidate(t *testing.T) {
	for _, name := range loader().Names() {
		t.Run(name, func(t *testing.T) {
			p := load(t, name)
			for _, f := range planner().Conflicts(p.StaticBlocks()) {
				t.Error(f.Summary)
			}
			if p.Description == "" {
				t.Error("no description")
			}
			src, err := fs.ReadFile(profiles.Stock().FS, name+".hcl")
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := profiles.Format(name+".hcl", src); string(want) != string(src) {
				t.Errorf("%s.hcl is not in its usual layout", name)
			}
		})
	}
}

// TestOtherNodes: a match holds for no node of another kind, and is decided where identity is
// known.
func TestOtherNodes(t *testing.T) {
	function := func(address, vendor, device, class string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: vendor, Device: device, Class: class}
	}
	below := func(port string, f node.PCIFunction) node.PCIFunction { f.Parent = port; return f }
	// A PCIe switch, whose ports lead to a GPU and its rail.
	tree := []node.PCIFunction{
		function("0000:15:01.0", "8086", "352a", "060400"), below("0000:15:01.0", function("0000:16:00.0", "1000", "c030", "060400")),
		below("0000:16:00.0", function("0000:17:00.0", "1000", "c030", "060400")), below("0000:16:00.0", function("0000:17:01.0", "1000", "c030", "060400")),
	}
	gpu, nvswitch := below("0000:17:00.0", function("0000:19:00.0", "10de", "2330", "030200")), function("0000:83:00.0", "10de", "22a3", "068000")
	like := func(device string) node.PCIFunction { f := gpu; f.Device = device; return f }
	nic := below("0000:17:01.0", function("0000:1a:00.0", "15b3", "1021", "020000"))
	bridge := function("0000:81:00.0", "15b3", "1021", "020700") // to the NVSwitches of a B200
	fabric := []node.RDMADevice{{Name: "mlx5_9", PCI: bridge.Address, Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", node.Source{})}}}}
	ibNIC := nic
	ibNIC.Class = "020700"
	spare := function("0000:01:00.0", "14e4", "165f", "020000")
	a100, a100Switch, l40s := like("20b2"), function("0000:c4:00.0", "10de", "1af1", "068000"), function("0000:02:00.0", "10de", "26b9", "030200")
	connectx6 := nic
	connectx6.Device = "101b"
	connectx8 := nic
	connectx8.Device = "1023"
	storage := function("0000:29:00.0", "15b3", "1021", "020000")
	files := node.Netdev{Name: "enp41s0np0", Type: node.ARPHardwareEthernet, PCI: storage.Address, Port: 1}
	ethernet := node.Netdev{Name: "enp26s0np0", Type: node.ARPHardwareEthernet, PCI: nic.Address, Port: 1}
	infiniband := node.Netdev{Name: "ibp26s0", Type: node.ARPHardwareInfiniBand, PCI: nic.Address, Port: 1}
	front := node.Netdev{Name: "eno1", Type: node.ARPHardwareEthernet, PCI: spare.Address, Port: 1}
	known := func(virtualization string, netdevs []node.Netdev, functions ...node.PCIFunction) node.Inventory {
		return node.Inventory{
			Arch: node.Known("x86_64", node.Source{}), Virtualization: node.Known(virtualization, node.Source{}),
			PCI: node.Known(slices.Concat(tree, functions), node.Source{}), Netdevs: node.Known(netdevs, node.Source{}), RDMA: node.Known([]node.RDMADevice{}, node.Source{}),
		}
	}
	bridged := func(inv node.Inventory) node.Inventory { inv.RDMA = node.Known(fabric, node.Source{}); return inv }
	var all []*profiles.Profile
	for _, name := range loader().Names() {
		all = append(all, load(t, name))
	}
	for _, test := range []struct {
		name string
		inv  node.Inventory
		want string // empty: cannot be told
	}{
		{"RoCE", known("none", []node.Netdev{ethernet}, gpu, nic, nvswitch), "hgx-h100-roce"},
		{"InfiniBand with Ethernet in front", known("none", []node.Netdev{front, infiniband}, spare, gpu, nic, nvswitch), "hgx-h100-ib"},
		{"InfiniBand with storage on Ethernet", known("none", []node.Netdev{files, infiniband}, storage, gpu, nic, nvswitch), "hgx-h100-ib"},
		{"A100 on RoCE", known("none", []node.Netdev{ethernet}, a100, connectx6, a100Switch), "hgx-a100-roce"},
		{"A100 on InfiniBand", known("none", []node.Netdev{infiniband}, a100, connectx6, a100Switch), "hgx-a100-ib"},
		{"RoCE with storage on InfiniBand", known("none", []node.Netdev{ethernet, {Name: "ibp41s0", Type: node.ARPHardwareInfiniBand, PCI: storage.Address, Port: 1}}, storage, gpu, nic, nvswitch), "hgx-h100-roce"},
		{"H200 on RoCE", known("none", []node.Netdev{ethernet}, like("2335"), nic, nvswitch), "hgx-h200-roce"},
		{"H200 on InfiniBand", known("none", []node.Netdev{infiniband}, like("2335"), nic, nvswitch), "hgx-h200-ib"},
		{"B200 on RoCE", bridged(known("none", []node.Netdev{ethernet}, like("2901"), nic, bridge)), "hgx-b200-roce"},
		{"B200 on InfiniBand", bridged(known("none", []node.Netdev{infiniband}, like("2901"), nic, bridge)), "hgx-b200-ib"},
		{"B200 without a NIC of its own", bridged(known("none", []node.Netdev{front}, spare, like("2901"), bridge)), "hgx-b200"},
		{"B300 on RoCE", bridged(known("none", []node.Netdev{ethernet}, like("3182"), connectx8, bridge)), "hgx-b300-roce"},
		{"B300 on InfiniBand", bridged(known("none", []node.Netdev{infiniband}, like("3182"), connectx8, bridge)), "hgx-b300-ib"},
		{"B300 without rails", bridged(known("none", []node.Netdev{front}, spare, like("3182"), bridge)), "hgx-b300"},
		{"H20 on RoCE", known("none", []node.Netdev{ethernet}, like("2329"), nic, nvswitch), "hgx-h20-roce"},
		{"H20-3e on InfiniBand", known("none", []node.Netdev{infiniband}, like("232c"), nic, nvswitch), "hgx-h20-ib"},
		{"H800 on InfiniBand", known("none", []node.Netdev{infiniband}, like("2324"), nic, nvswitch), "hgx-h100-ib"},
		{"A800 on RoCE", known("none", []node.Netdev{ethernet}, like("20f3"), connectx6, a100Switch), "hgx-a100-roce"},
		{"A100 without rails", known("none", []node.Netdev{front}, spare, a100, a100Switch), "hgx-a100"},
		{"H100 with NICs far from GPUs alone", known("none", []node.Netdev{files}, storage, gpu, nvswitch), "hgx"},
		{"B200 in a virtual machine", known("kvm", []node.Netdev{ethernet}, like("2901"), nic), "vm-guest"},
		{"GB200 tray", known("none", []node.Netdev{ethernet}, like("2941"), nic), "gb200-nvl"},
		{"GB200 tray in a virtual machine", known("amazon", nil, like("2941"), nic), "vm-guest"},
		{"GH200", known("none", []node.Netdev{ethernet}, like("2342"), nic), "baseline"},
		{"H100 NVL", known("none", []node.Netdev{ethernet}, like("2321"), nic), "pcie-gpu"},
		{"one H100 of a board in a virtual machine", known("kvm", nil, gpu), "vm-guest"},
		{"four A100 without NVSwitch", known("none", []node.Netdev{ethernet}, a100, connectx6), "baseline"},
		{"GPUs on cards", known("none", []node.Netdev{front}, l40s, spare), "pcie-gpu"},
		{"GPUs on cards, NIC without driver", known("none", nil, l40s, nic), "pcie-gpu"},
		{"GPUs on cards in a virtual machine", known("kvm", nil, l40s), "vm-guest"},
		{"four GPUs without NVSwitch", known("none", []node.Netdev{ethernet}, gpu, nic), "baseline"},
		{"no ConnectX-7", known("none", []node.Netdev{front}, spare, gpu, nvswitch), "hgx"},
		{"whole board in a virtual machine", known("kvm", []node.Netdev{ethernet}, gpu, nic, nvswitch), "vm-guest"},
		{"virtual machine without GPU", known("kvm", nil, spare), "baseline"},
		{"no GPU, NIC without driver", known("none", nil, nic), "baseline"},
		{"RoCE with a spare NIC without driver", known("none", []node.Netdev{ethernet}, spare, gpu, nic, nvswitch), "hgx-h100-roce"},
		{"H100 whose rail has no driver", known("none", []node.Netdev{front}, spare, gpu, nic, nvswitch), "hgx-h100-roce"},
		{"H100 whose InfiniBand rail has no driver", known("none", []node.Netdev{front}, spare, gpu, ibNIC, nvswitch), "hgx-h100-ib"},
		{"nothing known", node.Inventory{}, ""},
	} {
		got, err := profiles.Choose(all, test.inv)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: profile %q, error %v; want %q", test.name, got, err, test.want)
		}
	}
}

// TestOneProfile: no node, of whichever GPUs, switches, rails and hypervisor, fits two profiles of which none extends the other, and
// each is decided where its identity is known.
func TestOneProfile(t *testing.T) {
	var all []*profiles.Profile
	for _, name := range loader().Names() {
		all = append(all, load(t, name))
	}
	function := func(address, parent, id, class string) node.PCIFunction {
		vendor, device, _ := strings.Cut(id, ":")
		return node.PCIFunction{Address: address, Parent: parent, Vendor: vendor, Device: device, Class: class}
	}
	gpus := []string{"10de:2684"}
	for _, id := range pciIDs.FindAllString(sources(t), -1) {
		if strings.HasPrefix(id, "10de:") {
			gpus = append(gpus, id)
		}
	}
	slices.Sort(gpus)
	chosen := map[string]bool{}
	for _, gpu := range slices.Compact(gpus) {
		for _, virtualization := range []string{"none", "kvm"} {
			for _, nvswitch := range []bool{false, true} {
				for _, nic := range []string{"15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021", "15b3:1023", "15b3:a2dc", "14e4:16d7"} {
					for _, layers := range [][]int{{}, {node.ARPHardwareEthernet}, {node.ARPHardwareInfiniBand}, {node.ARPHardwareEthernet, node.ARPHardwareInfiniBand}} {
						functions := []node.PCIFunction{function("0000:15:01.0", "", "8086:352a", "060400"), function("0000:16:00.0", "0000:15:01.0", "1000:c030", "060400"), function("0000:19:00.0", "0000:16:00.0", gpu, "030200")}
						if nvswitch {
							functions = append(functions, function("0000:83:00.0", "", "10de:22a3", "068000"))
						}
						var netdevs []node.Netdev
						for i, layer := range layers {
							address := fmt.Sprintf("0000:1a:00.%d", i)
							functions = append(functions, function(address, "0000:16:00.0", nic, "020000"))
							netdevs = append(netdevs, node.Netdev{Name: fmt.Sprintf("nic%d", i), Type: layer, PCI: address, Port: 1})
						}
						name, err := profiles.Choose(all, node.Inventory{
							Arch: node.Known("x86_64", node.Source{}), Virtualization: node.Known(virtualization, node.Source{}), PCI: node.Known(functions, node.Source{}),
							Netdevs: node.Known(netdevs, node.Source{}), RDMA: node.Known([]node.RDMADevice{}, node.Source{}),
						})
						if err != nil {
							t.Errorf("%s, NVSwitch %v, %s on %v, virtualization %s: %v", gpu, nvswitch, nic, layers, virtualization, err)
						}
						chosen[name] = true
					}
				}
			}
		}
	}
	for _, name := range loader().Names() {
		src, err := fs.ReadFile(profiles.Stock().FS, name+".hcl")
		if err != nil {
			t.Fatal(err)
		}
		if matches := strings.Contains(string(src), "\n  match "); matches && !chosen[name] {
			t.Errorf("no node chose %s", name)
		}
	}
}

// pciIDs finds ids of PCI functions.
var pciIDs = regexp.MustCompile(`[0-9a-f]{4}:[0-9a-f]{4}`)

// sources are those of all stock profiles.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range loader().Names() {
		src, err := fs.ReadFile(profiles.Stock().FS, name+".hcl")
		if err != nil {
			t.Fatal(err)
		}
		all.Write(src)
	}
	return all.String()
}

// TestStorageBelowGPUs: a NIC of another kind below a GPU's switch, ConnectX-6 Dx for storage, is set and judged like a rail by nothing
// but what is right for every NIC there.
func TestStorageBelowGPUs(t *testing.T) {
	f := recorded(t, "hgx-h100")
	inv := f.Inventory
	rails, _ := inv.Rails().Get()
	list, _ := inv.PCI.Get()
	netdevs, _ := inv.Netdevs.Get()
	storage, _ := inv.PCIFunction(rails[0].Address)
	storage.Address, storage.Device = "0000:1f:00.0", "101d"
	inv.PCI = node.Known(append(slices.Clone(list), storage), inv.PCI.Source())
	inv.Netdevs = node.Known(append(slices.Clone(netdevs), node.Netdev{Name: "storage0", Type: node.ARPHardwareEthernet, PCI: storage.Address, Port: 1, Up: true}), inv.Netdevs.Source())
	if with, _ := inv.Rails().Get(); len(with) != len(rails)+1 {
		t.Fatalf("%d rails, want %d", len(with), len(rails)+1)
	}
	judged := 0
	for _, b := range blocks(t, load(t, "hgx-h100-roce"), inv) {
		v, ok := b.Attributes["nics"]
		if !ok || v.IsNull() {
			continue
		}
		judged++
		for _, n := range v.AsValueSlice() {
			if n.GetAttr("address").AsString() == storage.Address {
				t.Errorf("%s takes %s for a rail", b.Address, storage.Address)
			}
		}
		if n := v.LengthInt(); n != len(rails) {
			t.Errorf("%s has %d NICs, want %d", b.Address, n, len(rails))
		}
	}
	if judged != 4 {
		t.Errorf("%d blocks say which NICs are rails, want rails, roce, rdma_port and gid", judged)
	}
}
