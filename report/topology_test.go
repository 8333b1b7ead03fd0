package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/node/example"
	"busbar/report"
)

func recorded(t *testing.T, name string) node.Facts {
	t.Helper()
	r, err := example.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	facts, err := node.ReadRecording(r)
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func topology(t *testing.T, name string) report.Topology {
	t.Helper()
	facts := recorded(t, name)
	return report.NewTopology(report.NodeOf(facts, "example:"+name), facts)
}

// odd is a node where little is known: no firmware tables, names that would take over a terminal
// or an XML reader, a port without a driver, two ports on one function.
func odd() report.Topology {
	known := node.Source{Path: "/sys"}
	const hostile = "eth<0>\x1b[2J\u202e&\""
	inv := node.Inventory{
		Hostname: "evil</text><script>\x00", Virtualization: node.Known("none", known), DMI: node.Known(node.DMI{ProductName: "]]>"}, known),
		PCI: node.Known([]node.PCIFunction{
			{Address: "0000:01:00.0", Vendor: "15b3", Device: "1003", Class: "020700", NUMANode: -1, Driver: "mlx4_core", Parent: "0000:f0:01.0"},
			{Address: "0000:02:00.0", Vendor: "10de", Device: "2330", Class: "030200", NUMANode: -1, Parent: "0000:f0:02.0"},
			{Address: "0000:03:00.0", Vendor: "10de", Device: "2330", Class: "030200", NUMANode: 7, Parent: "0000:e0:01.0"},
			{Address: "0000:04:00.0", Vendor: "15b3", Device: "1021", Class: "020000", NUMANode: 7, Parent: "0000:ee:00.0"},
			{Address: "0000:e0:01.0", Vendor: "8086", Device: "352a", Class: "060400", NUMANode: 7},
			{Address: "0000:f0:01.0", Vendor: "8086", Device: "352a", Class: "060400", NUMANode: -1},
			{Address: "0000:f0:02.0", Vendor: "8086", Device: "352a", Class: "060400", NUMANode: -1},
		}, known),
		Netdevs: node.Known([]node.Netdev{{Name: hostile, Type: node.ARPHardwareInfiniBand, PCI: "0000:01:00.0", Port: 2}}, known),
		RDMA: node.Known([]node.RDMADevice{{Name: "mlx4_0", PCI: "0000:01:00.0", Ports: []node.RDMADevicePort{
			{Port: 1, LinkLayer: node.Known("InfiniBand", known)}, {Port: 2, LinkLayer: node.Unknown[string]("no answer within 2s", known)},
		}}}, known),
	}
	facts := node.NewFacts(inv, observed, []node.Answer{node.NUMANodes.Answer("", node.Known([]node.NUMANode{{ID: 0, CPUs: "0-3"}, {ID: 1, CPUs: "4-7"}}, known))})
	return report.NewTopology(report.NodeOf(facts, ""), facts)
}

func empty() report.Topology {
	known := node.Source{Path: "/sys"}
	facts := node.NewFacts(node.Inventory{Hostname: "empty", PCI: node.Known([]node.PCIFunction{}, known), Virtualization: node.Known("none", known), Protected: node.Known([]node.ProtectedNetdev{}, known)}, observed, nil)
	return report.NewTopology(report.NodeOf(facts, ""), facts)
}

func blind() report.Topology {
	facts := node.NewFacts(node.Inventory{PCI: node.Unknown[[]node.PCIFunction]("permission denied", node.Source{})}, observed, nil)
	return report.NewTopology(report.NodeOf(facts, ""), facts)
}

func TestTopology(t *testing.T) {
	for _, c := range []struct {
		name     string
		topology report.Topology
	}{
		{"hgx-h100", topology(t, "hgx-h100")}, {"epyc-pcie", topology(t, "epyc-pcie")}, {"vm-guest-2gpu", topology(t, "vm-guest-2gpu")},
		{"gb200-tray", topology(t, "gb200-tray")}, {"hgx-a100-nps4", topology(t, "hgx-a100-nps4")}, {"rtx-workstation", topology(t, "rtx-workstation")},
		{"odd", odd()}, {"empty", empty()}, {"blind", blind()},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text, asJSON, svg bytes.Buffer
			if err := errors.Join(report.WriteTopology(&text, c.topology, report.Style{}), report.WriteTopologyJSON(&asJSON, c.topology), report.WriteTopologySVG(&svg, c.topology)); err != nil {
				t.Fatal(err)
			}
			golden(t, "topo-"+c.name+".txt", text.Bytes())
			golden(t, "topo-"+c.name+".json", asJSON.Bytes())
			golden(t, "topo-"+c.name+".svg", svg.Bytes())
			for _, s := range []string{text.String(), asJSON.String(), svg.String()} {
				for _, r := range s {
					if r != '\n' && !unicode.IsPrint(r) || r == '\u202e' {
						t.Errorf("%q reached the terminal", r)
					}
				}
			}
			wellFormed(t, svg.Bytes())
			sameMatrix(t, text.String(), asJSON.Bytes())
		})
	}
}

// wellFormed reads a drawing as XML.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && !slices.Contains([]string{"svg", "title", "style", "rect", "line", "text"}, e.Name.Local) {
			t.Errorf("element %s", e.Name.Local)
		}
	}
}

// sameMatrix holds text and JSON to each other.
func sameMatrix(t *testing.T, text string, asJSON []byte) {
	t.Helper()
	var doc struct {
		GPUs, NICs []struct {
			Name, Address string
			Unknown       map[string]string
		}
		Relations []struct {
			Between  [2]string
			Relation *string
			NVLinks  *int
			Unknown  map[string]string
		}
	}
	if err := json.Unmarshal(asJSON, &doc); err != nil {
		t.Fatal(err)
	}
	name := map[string]string{}
	for _, d := range slices.Concat(doc.GPUs, doc.NICs) {
		name[d.Address] = d.Name
	}
	if n := len(name) * (len(name) - 1) / 2; len(doc.Relations) != n {
		t.Errorf("%d relations of %d devices", len(doc.Relations), len(name))
	}
	printed := map[[2]string]string{}
	var columns []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && regexp.MustCompile(`^ +(GPU|NIC)0`).MatchString(line) && columns == nil:
			columns = fields
		case len(fields) > 1 && columns != nil && regexp.MustCompile(`^[0-9a-f]{4}:`).MatchString(fields[1]):
			columns = nil
		case columns != nil && len(fields) > 1 && regexp.MustCompile(`^(GPU|NIC)\d`).MatchString(line):
			for i, cell := range fields[1:min(len(fields), len(name)+1)] {
				printed[[2]string{fields[0], columns[i]}] = cell
			}
		}
	}
	for _, r := range doc.Relations {
		a, b, want := name[r.Between[0]], name[r.Between[1]], "?"
		if r.Relation != nil {
			want = *r.Relation
		}
		if (r.Relation == nil) != (r.Unknown["relation"] != "") || (r.NVLinks == nil) != (r.Unknown["nvlinks"] != "") {
			t.Errorf("%s to %s: unknown without a reason, or known with one", a, b)
		}
		if r.NVLinks != nil && *r.NVLinks > 0 {
			want = fmt.Sprintf("NV%d", *r.NVLinks)
		}
		if printed[[2]string{a, b}] != want || printed[[2]string{b, a}] != want {
			t.Errorf("%s to %s: %s, printed is %q and %q", a, b, want, printed[[2]string{a, b}], printed[[2]string{b, a}])
		}
	}
	for _, n := range name {
		if printed[[2]string{n, n}] != "X" {
			t.Errorf("%s to itself: %q", n, printed[[2]string{n, n}])
		}
	}
}

// Two H200 of a virtual machine, as nvidia-smi topo -m shows them: their NVSwitches and their place on the host's PCI bus
// are hidden, their NVLinks are not.
func TestTopologyOfH200Guest(t *testing.T) {
	facts := recorded(t, "vm-guest-2gpu")
	const a, b = "0000:00:06.0", "0000:00:07.0"
	var state node.NVLinkState
	for i := range 18 {
		state.Links = append(state.Links, node.NVLinkPort{
			Link: i, State: node.Known(node.NVLinkActive, node.Source{}), Remote: node.Known(node.NVLinkToSwitch, node.Source{}), RemoteAddress: node.Unknown[string](node.HiddenRemote, node.Source{}),
		})
	}
	ok := node.Known(node.P2POK, node.Source{})
	facts = facts.With(
		node.NVLinks.Answer(a, node.Known(state, node.Source{})), node.NVLinks.Answer(b, node.Known(state, node.Source{})),
		node.P2P.Answer("", node.Known(node.P2PState{GPUs: []string{a, b}, Pairs: []node.P2PPair{{From: a, To: b, NVLink: ok}, {From: b, To: a, NVLink: ok}}}, node.Source{})),
	)
	var text bytes.Buffer
	if err := report.WriteTopology(&text, report.NewTopology(report.NodeOf(facts, ""), facts), report.Style{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"GPU0   X    NV18", "GPU1  NV18   X"} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("%q is not in\n%s", row, text.String())
		}
	}
	queries := report.TopologyQueries(facts.Inventory)
	if want := []node.Query{node.Link.Query("0000:00:03.0"), node.NUMANodes.Query(""), node.NVLinks.Query(a), node.NVLinks.Query(b), node.P2P.Query("")}; !slices.Equal(queries, want) {
		t.Errorf("%v", queries)
	}
}

func TestTopologyStyles(t *testing.T) {
	for name, style := range map[string]report.Style{"quiet": {Quiet: true}, "verbose": {Verbose: true}, "color": {Color: true, Width: 100}} {
		var b bytes.Buffer
		if err := report.WriteTopology(&b, topology(t, "epyc-pcie"), style); err != nil {
			t.Fatal(err)
		}
		golden(t, "topo-"+name+".txt", b.Bytes())
	}
}

func TestTopologyOfTheExample(t *testing.T) {
	top := topology(t, "hgx-h100")
	rails, _ := top.Rails.Get()
	want := []string{"0000:1a:00.0", "0000:3c:00.0", "0000:4d:00.0", "0000:5e:00.0", "0000:9c:00.0", "0000:bc:00.0", "0000:cc:00.0", "0000:dc:00.0"}
	if diff := cmp.Diff(want, rails); diff != "" {
		t.Errorf("rails (-want +got):\n%s", diff)
	}
	// Of each of eight trees the root port, both ports of the GPU's and the rail's way, and the upstream port.
	paths, _ := top.GPUPaths.Get()
	if len(paths) != 32 || !slices.Contains(paths, "0000:17:01.0") || slices.Contains(paths, "0000:17:03.0") || slices.Contains(paths, "0000:17:00.0") {
		t.Errorf("%d paths: %q", len(paths), paths)
	}
	// A GPU less is a rail less: its NIC serves nobody.
	drifted, _ := topology(t, "hgx-h100-drifted").Rails.Get()
	if diff := cmp.Diff(slices.DeleteFunc(want, func(r string) bool { return r == "0000:bc:00.0" }), drifted); diff != "" {
		t.Errorf("rails of the drifted node (-want +got):\n%s", diff)
	}
	var line bytes.Buffer
	if err := report.WriteTopologyJSONLine(&line, top); err != nil || bytes.Count(line.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%v, %d lines", err, bytes.Count(line.Bytes(), []byte("\n")))
	}
}

func BenchmarkTopologySVG(b *testing.B) {
	r, err := example.Open("hgx-h100")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	facts, err := node.ReadRecording(r)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := report.WriteTopologySVG(io.Discard, report.NewTopology(report.Node{}, facts)); err != nil {
			b.Fatal(err)
		}
	}
}
