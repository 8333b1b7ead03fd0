package profiles_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"busbar/node"
	"busbar/profiles"
)

// What a profile can tell apart is asked for anew, and nothing else is.
func TestAlike(t *testing.T) {
	n := 0
	ask := profiles.Alike(func(profiles.Node) int { n++; return n })
	first := ask(hgx())
	source := node.Source{Path: "/x"}
	for name, change := range map[string]func(*node.Inventory){
		"host name": func(inv *node.Inventory) { inv.Hostname = "b" },
		"boot id":   func(inv *node.Inventory) { inv.BootID = node.Known("b", source) },
		"uptime":    func(inv *node.Inventory) { inv.Uptime = node.Known(time.Hour, source) },
		"source":    func(inv *node.Inventory) { inv.Arch = node.Known("x86_64", source) },
	} {
		inv := hgx()
		if change(&inv); ask(inv) != first {
			t.Errorf("%s: asked again", name)
		}
	}
	lists := func(inv *node.Inventory) {
		pci, _ := inv.PCI.Get()
		netdevs, _ := inv.Netdevs.Get()
		rdma, _ := inv.RDMA.Get()
		inv.PCI, inv.Netdevs, inv.RDMA = node.Known(slices.Clone(pci), source), node.Known(slices.Clone(netdevs), source), node.Known(slices.Clone(rdma), source)
	}
	for name, change := range map[string]func(*node.Inventory){
		"arch":            func(inv *node.Inventory) { inv.Arch = node.Known("aarch64", source) },
		"no arch":         func(inv *node.Inventory) { inv.Arch = node.Unknown[string]("a", source) },
		"no arch either":  func(inv *node.Inventory) { inv.Arch = node.Unknown[string]("b", source) },
		"an arch to come": func(inv *node.Inventory) { inv.Arch = node.Awaiting[string]("a", "c", source) },
		"kernel":          func(inv *node.Inventory) { inv.Kernel = node.Known("6.9", source) },
		"OS":              func(inv *node.Inventory) { inv.OS = node.Known(node.OS{ID: "rhel"}, source) },
		"DMI":             func(inv *node.Inventory) { inv.DMI = node.Known(node.DMI{BIOSVersion: "2"}, source) },
		"hypervisor":      func(inv *node.Inventory) { inv.Virtualization = node.Known("kvm", source) },
		"text":            func(inv *node.Inventory) { inv.Given = node.Known([]string{"gpus"}, source) },
		"NUMA node":       func(inv *node.Inventory) { pci, _ := inv.PCI.Get(); pci[1].NUMANode = 1 },
		"address":         func(inv *node.Inventory) { pci, _ := inv.PCI.Get(); pci[1].Address = "0000:1c:00.0" },
		"one GPU less": func(inv *node.Inventory) {
			pci, _ := inv.PCI.Get()
			inv.PCI = node.Known(slices.Delete(pci, 1, 2), source)
		},
		"netdev":            func(inv *node.Inventory) { netdevs, _ := inv.Netdevs.Get(); netdevs[1].Name = "rail7" },
		"RDMA device":       func(inv *node.Inventory) { rdma, _ := inv.RDMA.Get(); rdma[1].Name = "mlx5_7" },
		"protected":         func(inv *node.Inventory) { inv.Protected = node.Known([]node.ProtectedNetdev{}, source) },
		"protected unknown": func(inv *node.Inventory) { inv.Protected = node.Unknown[[]node.ProtectedNetdev]("a", source) },
	} {
		inv := hgx()
		lists(&inv)
		change(&inv)
		before := n
		if got := ask(inv); got == first || n != before+1 {
			t.Errorf("%s: not asked", name)
		}
		if got := ask(inv); n != before+1 || got != n {
			t.Errorf("%s: asked again", name)
		}
	}
}

// However many nodes there are, each gets its own answer, and all who ask for nodes that are alike the same.
func TestAlikeForMany(t *testing.T) {
	ask := profiles.Alike(func(n profiles.Node) profiles.Node { return n })
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 200 {
				inv := node.Inventory{Kernel: node.Known(string(rune('a'+i)), node.Source{})}
				if got := ask(inv); !got.Equal(profiles.NodeOf(inv)) {
					t.Errorf("node %d got the answer of another one", i)
				}
			}
		})
	}
	group.Wait()
}
