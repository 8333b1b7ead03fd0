package report_test

import (
	"fmt"
	"io"
	"testing"

	"busbar/node"
	"busbar/report"
)

// large is a node with n GPUs and as many NICs, eight of each below one switch.
func large(n int) node.Facts {
	known := node.Source{Path: "/sys"}
	var functions []node.PCIFunction
	add := func(domain, bus int, parent, id, class string) string {
		address := fmt.Sprintf("%04x:%02x:00.0", domain, bus)
		functions = append(functions, node.PCIFunction{Address: address, Parent: parent, Vendor: id[:4], Device: id[5:], Class: class, NUMANode: domain % 2})
		return address
	}
	for domain := range (n + 7) / 8 {
		root := add(domain, 0, "", "8086:352a", "060400")
		upstream := add(domain, 1, root, "1000:c030", "060400")
		for i := range min(8, n-8*domain) {
			add(domain, 0x40+i, add(domain, 0x10+i, upstream, "1000:c030", "060400"), "10de:2330", "030200")
			add(domain, 0x60+i, add(domain, 0x20+i, upstream, "1000:c030", "060400"), "15b3:1021", "020000")
		}
	}
	return node.NewFacts(node.Inventory{
		Hostname: "large", Virtualization: node.Known("none", known), PCI: node.Known(functions, known),
		Netdevs: node.Known([]node.Netdev{}, known), RDMA: node.Known([]node.RDMADevice{}, known), Protected: node.Known([]node.ProtectedNetdev{}, known),
	}, observed, nil)
}

// BenchmarkTopology measures what grows with the square of the devices.
func BenchmarkTopology(b *testing.B) {
	for _, n := range []int{8, 64, 512} {
		facts := large(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				t := report.NewTopology(report.NodeOf(facts, "large"), facts)
				if err := report.WriteTopology(io.Discard, t, report.Style{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
