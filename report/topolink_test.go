package report_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/node/example"
	"busbar/report"
)

// linked is a node with one NIC, whose port 1 answers.
func linked(d *node.Netdev, r *node.RDMADevice, link node.Value[node.LinkState], port node.Value[node.RDMAPortState]) node.Facts {
	const address = "0000:0a:00.0"
	at := node.Source{Path: "/sys"}
	inv := node.Inventory{
		Virtualization: node.Known("none", at), Protected: node.Known([]node.ProtectedNetdev{{Name: "eno1"}}, at),
		PCI:     node.Known([]node.PCIFunction{{Address: address, Vendor: "15b3", Device: "1021", Class: "020700", Driver: "mlx5_core"}}, at),
		Netdevs: node.Known([]node.Netdev{}, at), RDMA: node.Known([]node.RDMADevice{}, at),
	}
	if d != nil {
		d.Name, d.PCI, d.Port = "port0", address, 1
		inv.Netdevs = node.Known([]node.Netdev{*d}, at)
	}
	if r != nil {
		r.Name, r.PCI = "mlx5_0", address
		inv.RDMA = node.Known([]node.RDMADevice{*r}, at)
	}
	f := node.NewFacts(inv, observed, []node.Answer{node.Link.Answer(address, link), node.RDMAPort.Answer("mlx5_0/1", port)})
	return f.Restrict(report.TopologyQueries(inv)) // what nobody asks for is not there
}

func TestTopologyLinks(t *testing.T) {
	at := node.Source{Path: "/sys"}
	ethernet, ipoib := node.Netdev{Type: node.ARPHardwareEthernet}, node.Netdev{Type: node.ARPHardwareInfiniBand}
	rdma := func(layer string) *node.RDMADevice {
		return &node.RDMADevice{Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known(layer, at)}}}
	}
	netdev := func(up, carrier bool, state string, speed node.Value[int]) node.Value[node.LinkState] {
		return node.Known(node.LinkState{Up: node.Known(up, at), Carrier: node.Known(carrier, at), OperState: node.Known(state, at), Speed: speed}, at)
	}
	port := func(layer, state, physical, rate string) node.Value[node.RDMAPortState] {
		return node.Known(node.RDMAPortState{LinkLayer: layer, State: node.Known(state, at), PhysState: node.Known(physical, at), Rate: node.Known(rate, at)}, at)
	}
	downSpeed := node.Unknown[int]("the network device is down, or its driver has no speed", at)
	var noPort node.Value[node.RDMAPortState]
	var noLink node.Value[node.LinkState]
	for _, tt := range []struct {
		name  string
		facts node.Facts
		want  []any // link, Mbit/s, state
		cells string
	}{
		{"Ethernet", linked(&ethernet, nil, netdev(true, true, "up", node.Known(2500, at)), noPort), []any{true, 2500, "up"}, "2.5 Gbit/s up"},
		{"nothing plugged in", linked(&ethernet, nil, netdev(true, false, "down", node.Unknown[int]("-1", at)), noPort), []any{false, "? there is no link", "down"}, "down"},
		{"switched off", linked(&ethernet, nil, node.Known(node.LinkState{Up: node.Known(false, at), Carrier: node.Unknown[bool]("the network device is down", at), OperState: node.Known("down", at), Speed: downSpeed}, at), noPort), []any{false, "? there is no link", "down"}, "down"},
		{"a driver that tells little", linked(&ethernet, nil, netdev(true, true, "unknown", node.Unknown[int]("not known to the driver", at)), noPort), []any{true, "? not known to the driver", "? the driver sets no operational state"}, "? ?"},
		{"RoCE: the network device has the speed", linked(&ethernet, rdma("Ethernet"), netdev(true, true, "up", node.Known(400_000, at)), port("Ethernet", "ACTIVE", "LinkUp", "2.5 Gb/sec (1X SDR)")), []any{true, 400_000, "ACTIVE"}, "400 Gbit/s ACTIVE"},
		{"RoCE without a link", linked(&ethernet, rdma("Ethernet"), netdev(true, false, "down", node.Unknown[int]("-1", at)), port("Ethernet", "DOWN", "Disabled", "40 Gb/sec (4X QDR)")), []any{false, "? there is no link", "DOWN"}, "DOWN"},
		{"InfiniBand: the RDMA port has the rate", linked(&ipoib, rdma("InfiniBand"), netdev(true, true, "up", node.Unknown[int]("IPoIB", at)), port("InfiniBand", "ACTIVE", "LinkUp", "400 Gb/sec (4X NDR)")), []any{true, 400_000, "ACTIVE"}, "400 Gbit/s ACTIVE"},
		{"InfiniBand without IPoIB", linked(nil, rdma("InfiniBand"), noLink, port("InfiniBand", "ACTIVE", "LinkUp", "200 Gb/sec (4X HDR)")), []any{true, 200_000, "ACTIVE"}, "200 Gbit/s ACTIVE"},
		{"no subnet manager", linked(nil, rdma("InfiniBand"), noLink, port("InfiniBand", "INIT", "LinkUp", "400 Gb/sec (4X NDR)")), []any{true, 400_000, "INIT"}, "400 Gbit/s INIT"},
		{"InfiniBand, no cable", linked(nil, rdma("InfiniBand"), noLink, port("InfiniBand", "DOWN", "Polling", "10 Gb/sec (4X SDR)")), []any{false, "? there is no link", "DOWN"}, "DOWN"},
		{"a speed without a name", linked(nil, rdma("InfiniBand"), noLink, port("InfiniBand", "ACTIVE", "LinkUp", "10 Gb/sec (4X SDR)")), []any{true, `? "10 Gb/sec (4X SDR)" is what the kernel writes for SDR and for every speed that it does not know`, "ACTIVE"}, "? ACTIVE"},
		{"the driver is stuck", linked(&ethernet, rdma("Ethernet"), node.Unknown[node.LinkState]("no answer within 2s", at), node.Unknown[node.RDMAPortState]("no answer within 3s", at)), []any{"? no answer within 2s", "? no answer within 2s", "? no answer within 3s"}, "? ?"},
		{"neither device", linked(nil, nil, noLink, noPort), []any{noDevice, noDevice, noDevice}, "? ?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := report.NewTopology(report.Node{}, tt.facts)
			nics, _ := top.NICs.Get()
			l := nics[0].Link
			if diff := cmp.Diff(tt.want, []any{said(l.Up), said(l.SpeedMbps), said(l.State)}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var text bytes.Buffer
			if err := report.WriteTopology(&text, top, report.Style{}); err != nil {
				t.Fatal(err)
			}
			_, row, _ := strings.Cut(text.String(), "0000:0a:00.0  15b3:1021")
			row, _, _ = strings.Cut(row, "\n")
			if got := strings.Join(strings.Fields(row), " "); !strings.HasSuffix(got, tt.cells+" none") {
				t.Errorf("%q does not end in %q", got, tt.cells)
			}
		})
	}
}

// A port that is down is told at a glance, a spare one like the two of this node too.
func TestPortsDownAreDrawnSo(t *testing.T) {
	for key, want := range map[string]int{"": 2, "0000:01:00.0": 2, "0000:1b:00.0": 3, "0000:1a:00.0": 3} {
		f := recorded(t, "hgx-h100")
		if key != "" {
			link, _ := node.Link.Get(f, key).Get()
			link.Carrier, link.OperState = node.Known(false, node.Source{}), node.Known("down", node.Source{})
			f = f.With(node.Link.Answer(key, node.Known(link, node.Source{})))
		}
		var svg bytes.Buffer
		if err := report.WriteTopologySVG(&svg, report.NewTopology(report.Node{}, f)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(svg.String(), `class="down-text`); got != want {
			t.Errorf("%s: %d ports are drawn as down, want %d", key, got, want)
		}
	}
}

const noDevice = "? the NIC has no network device although driver mlx5_core is bound to it"

// said is a Value as its value or its reason.
func said[T any](v node.Value[T]) any {
	if got, ok := v.Get(); ok {
		return got
	}
	return "? " + v.Reason()
}

// TestRecordingsAnswerTheTopology: a recording answers what busbar topo asks.
func TestRecordingsAnswerTheTopology(t *testing.T) {
	for _, name := range example.Names() {
		f := recorded(t, name)
		answered := f.Queries()
		for _, q := range report.TopologyQueries(f.Inventory) {
			if !slices.Contains(answered, q) {
				t.Errorf("%s does not answer %s", name, q)
			}
		}
	}
}

// TestTopologyAsPrinted holds what is printed of a recording to what nvidia-smi topo -m printed on a machine of its kind.
func TestTopologyAsPrinted(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "topo-dgx-a100-10nic-nps4.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer
	if err := report.WriteTopology(&ours, topology(t, "hgx-a100-nps4"), report.Style{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	matrix := func(text string) (rows []string) {
		for line := range strings.Lines(text) {
			cells := strings.Fields(line)
			if len(cells) < 19 || cells[0] == "GPU0" && cells[1] == "GPU1" {
				continue
			}
			for i := range cells {
				if strings.HasPrefix(cells[0], "GPU") && 1 <= i && i <= 8 && cells[i] != "X" {
					cells[i] = "GPU" // NVLinks to the one, the PCI bus to the other
				}
			}
			rows = append(rows, fmt.Sprint(cells[:min(len(cells), 21)])) // without the column GPU NUMA ID
		}
		return rows
	}
	theirs := matrix(string(raw))
	if diff := cmp.Diff(theirs, matrix(ours.String())); diff != "" || len(theirs) != 18 {
		t.Errorf("%d rows (-nvidia-smi +busbar):\n%s", len(theirs), diff)
	}
}

// TestManyNICs: NICs are set against GPUs, and not against each other, where there are more than a matrix holds.
func TestManyNICs(t *testing.T) {
	f := recorded(t, "hgx-h100")
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	functions = slices.Clone(functions)
	for i := range 80 {
		functions = append(functions, node.PCIFunction{Address: fmt.Sprintf("0001:%02x:00.0", i), Vendor: "15b3", Device: "1021", Class: "020000"})
	}
	inv.PCI = node.Known(functions, inv.PCI.Source())
	top := report.NewTopology(report.Node{}, f.WithInventory(inv))
	gpus, all := 8, len(top.Devices())
	if want := gpus*(gpus-1)/2 + gpus*(all-gpus); len(top.Pairs) != want {
		t.Errorf("%d pairs of %d devices, want %d", len(top.Pairs), all, want)
	}
	var text, asJSON bytes.Buffer
	if err := report.WriteTopology(&text, top, report.Style{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteTopologyJSON(&asJSON, top); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(text.String(), "\n")
	if got := strings.Fields(rows[0]); len(got) != gpus+4 || got[gpus] != "CPU" {
		t.Errorf("the heading is %q", rows[0])
	}
	if len(rows) != all+2 || !strings.HasPrefix(rows[gpus+3], "NIC2 ") || !strings.Contains(rows[gpus+3], "PIX") {
		t.Errorf("%d rows: %q", len(rows), rows)
	}
	if !strings.Contains(asJSON.String(), `"relations": "those of two NICs are left out: there are more than 64 NICs"`) {
		t.Error("the JSON does not say that relations are left out")
	}
}
