package stock_test

import (
	"io/fs"
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
)

func loader() *profiles.Loader {
	return &profiles.Loader{Types: slices.Concat(modules.All(), checks.All()), Dirs: []profiles.Dir{profiles.Stock()}}
}

var planner = sync.OnceValue(func() *plan.Planner {
	return plan.NewPlanner(slices.Concat(modules.All(), checks.All()), sink.All())
})

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
	gpu, nvswitch := function("0000:19:00.0", "10de", "2330", "030200"), function("0000:83:00.0", "10de", "22a3", "068000")
	nic := function("0000:1a:00.0", "15b3", "1021", "020000")
	spare := function("0000:01:00.0", "14e4", "165f", "020000")
	a100, a100Switch, l40s := function("0000:07:00.0", "10de", "20b2", "030200"), function("0000:c4:00.0", "10de", "1af1", "068000"), function("0000:02:00.0", "10de", "26b9", "030200")
	connectx6 := function(nic.Address, "15b3", "101b", "020000")
	storage := function("0000:29:00.0", "15b3", "1021", "020000")
	files := node.Netdev{Name: "enp41s0np0", Type: node.ARPHardwareEthernet, PCI: storage.Address, Port: 1}
	ethernet := node.Netdev{Name: "enp26s0np0", Type: node.ARPHardwareEthernet, PCI: nic.Address, Port: 1}
	infiniband := node.Netdev{Name: "ibp26s0", Type: node.ARPHardwareInfiniBand, PCI: nic.Address, Port: 1}
	front := node.Netdev{Name: "eno1", Type: node.ARPHardwareEthernet, PCI: spare.Address, Port: 1}
	known := func(virtualization string, netdevs []node.Netdev, functions ...node.PCIFunction) node.Inventory {
		return node.Inventory{
			Arch: node.Known("x86_64", node.Source{}), Virtualization: node.Known(virtualization, node.Source{}),
			PCI: node.Known(functions, node.Source{}), Netdevs: node.Known(netdevs, node.Source{}), RDMA: node.Known([]node.RDMADevice{}, node.Source{}),
		}
	}
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
		{"A100 on InfiniBand", known("none", []node.Netdev{infiniband}, a100, connectx6, a100Switch), "baseline"},
		{"four A100 without NVSwitch", known("none", []node.Netdev{ethernet}, a100, connectx6), "baseline"},
		{"GPUs on cards", known("none", []node.Netdev{front}, l40s, spare), "pcie-gpu"},
		{"GPUs on cards, NIC without driver", known("none", nil, l40s, nic), "pcie-gpu"},
		{"GPUs on cards in a virtual machine", known("kvm", nil, l40s), "vm-guest"},
		{"four GPUs without NVSwitch", known("none", []node.Netdev{ethernet}, gpu, nic), "baseline"},
		{"no ConnectX-7", known("none", []node.Netdev{front}, spare, gpu, nvswitch), "baseline"},
		{"whole board in a virtual machine", known("kvm", []node.Netdev{ethernet}, gpu, nic, nvswitch), "vm-guest"},
		{"virtual machine without GPU", known("kvm", nil, spare), "baseline"},
		{"no GPU, NIC without driver", known("none", nil, nic), "baseline"},
		{"RoCE with a spare NIC without driver", known("none", []node.Netdev{ethernet}, spare, gpu, nic, nvswitch), "hgx-h100-roce"},
		{"H100 whose rail has no driver", known("none", []node.Netdev{front}, spare, gpu, nic, nvswitch), ""},
		{"nothing known", node.Inventory{}, ""},
	} {
		got, err := profiles.Choose(all, test.inv)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: profile %q, error %v; want %q", test.name, got, err, test.want)
		}
	}
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
