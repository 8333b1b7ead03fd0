package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"busbar/node"
)

// anyNode draws a node with PCI trees of any shape.
func anyNode(t *rapid.T) node.Facts {
	var functions []node.PCIFunction
	bus := 0
	for range rapid.IntRange(1, 6).Draw(t, "host bridges") {
		numa := rapid.IntRange(-1, 2).Draw(t, "numa")
		domain := rapid.SampledFrom([]string{"0000", "0012", "10000"}).Draw(t, "domain")
		var grow func(parent string, depth int)
		grow = func(parent string, depth int) {
			bus++
			here := bus
			for slot := range rapid.IntRange(1, 3).Draw(t, "slots") {
				f := node.PCIFunction{Address: fmt.Sprintf("%s:%02x:%02x.0", domain, here, slot), Parent: parent, NUMANode: numa, Vendor: "8086", Device: "352a", Class: "060400"}
				if depth > 0 && rapid.Bool().Draw(t, "bridge") {
					functions = append(functions, f)
					grow(f.Address, depth-1)
					continue
				}
				f.Vendor, f.Device, f.Class = "10de", "2330", "030200"
				if rapid.Bool().Draw(t, "NIC") {
					f.Vendor, f.Device, f.Class = "15b3", "1021", "020000"
				}
				for function := range rapid.IntRange(1, 2).Draw(t, "functions") {
					f.Address = fmt.Sprintf("%s:%02x:%02x.%d", domain, here, slot, function)
					functions = append(functions, f)
				}
			}
		}
		grow("", 5)
	}
	slices.SortFunc(functions, func(a, b node.PCIFunction) int { return cmp.Compare(a.Address, b.Address) })
	return node.NewFacts(node.Inventory{
		PCI: node.Known(functions, node.Source{}), Virtualization: node.Known("none", node.Source{}),
		Netdevs: node.Known([]node.Netdev{}, node.Source{}), RDMA: node.Known([]node.RDMADevice{}, node.Source{}),
	}, time.Time{}, []node.Answer{node.NUMANodes.Answer("", node.Known([]node.NUMANode{{ID: 0, CPUs: strings.Repeat("0,2,4,", 60)}, {ID: 1}, {ID: 2}}, node.Source{}))})
}

// Boxes lie apart and inside the page, labels inside their boxes, and everything is drawn once.
func TestDrawingIsLegible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topology := NewTopology(Node{}, anyNode(t))
		var d drawing
		d.page(topology)
		boxes := slices.DeleteFunc(slices.Clone(d.Shapes), func(s shape) bool { return s.Kind != "rect" || s.Class == "panel" || s.Text == "" })
		if want := len(topology.Devices()) + hosts(topology) + rootPortsAndSwitches(topology); len(boxes) != want {
			t.Fatalf("%d boxes, want %d", len(boxes), want)
		}
		for i, a := range boxes {
			for _, b := range boxes[i+1:] {
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Fatalf("%+v lies over %+v", a, b)
				}
			}
		}
		for _, s := range d.Shapes {
			switch {
			case s.Kind == "text" && strings.Contains(s.Class, "mid"):
				half := utf8.RuneCountInString(s.Text) * monoWidth / 2
				if !slices.ContainsFunc(boxes, func(b shape) bool { return b.X <= s.X-half && s.X+half <= b.X+b.W && b.Y < s.Y && s.Y < b.Y+b.H }) {
					t.Fatalf("%q at %d, %d is in no box", s.Text, s.X, s.Y)
				}
			case s.Kind == "text" && s.Class == "muted" && s.X+7*utf8.RuneCountInString(s.Text) > d.Width:
				t.Fatalf("%q leaves the page of %d", s.Text, d.Width)
			case s.X < 0 || s.Y < 0 || s.X > d.Width || s.Y > d.Height || s.Kind != "text" && s.Kind != "line" && (s.X+s.W > d.Width || s.Y+s.H > d.Height):
				t.Fatalf("%+v is not on the page of %d by %d", s, d.Width, d.Height)
			}
		}
	})
}

// hosts are the host bridges above devices; one with devices in two NUMA nodes is drawn twice.
func hosts(t Topology) int {
	seen := map[string]bool{}
	for _, d := range t.Devices() {
		seen[fmt.Sprint(d.Root, device{TopologyPlace: d}.numa())] = true
	}
	return len(seen)
}

// rootPortsAndSwitches are the bridges that are boxes: the ports of switches are lines.
func rootPortsAndSwitches(t Topology) int {
	n := 0
	for _, b := range t.Bridges {
		depth := len(t.above(TopologyPlace{Parent: b.Parent}))
		if depth == 0 || isBox(depth) {
			n++
		}
	}
	return n
}

// Parents may be anything in a recording that somebody wrote.
func TestTopologyOfAnyRecording(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.SampledFrom([]string{"", "x", ":", "0000:00:00.0", "0000:00:01.0", "0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0001:00:00.0"})
		var functions []node.PCIFunction
		for range rapid.IntRange(0, 9).Draw(t, "functions") {
			id := rapid.SampledFrom([]string{"10de 030200", "15b3 020000", "8086 060400", " "}).Draw(t, "id")
			vendor, class, _ := strings.Cut(id, " ")
			functions = append(functions, node.PCIFunction{
				Address: address.Draw(t, "address"), Parent: address.Draw(t, "parent"), PhysicalFunction: rapid.SampledFrom([]string{"", "", "0000:01:00.0"}).Draw(t, "PF"),
				Vendor: vendor, Class: class, NUMANode: rapid.IntRange(-2, 2).Draw(t, "numa"),
			})
		}
		topology := NewTopology(Node{}, node.NewFacts(node.Inventory{
			PCI: node.Known(functions, node.Source{}), Virtualization: node.Known("none", node.Source{}), Netdevs: node.Known([]node.Netdev{}, node.Source{}),
			RDMA: node.Known([]node.RDMADevice{}, node.Source{}), Protected: node.Known([]node.ProtectedNetdev{}, node.Source{}),
		}, time.Time{}, nil))
		if err := errors.Join(WriteTopology(io.Discard, topology, Style{Verbose: true}), WriteTopologyJSON(io.Discard, topology), WriteTopologySVG(io.Discard, topology)); err != nil {
			t.Fatal(err)
		}
	})
}
