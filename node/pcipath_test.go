package node_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/pciregs"
	"busbar/node"
)

// pci is an inventory with the functions of a drawing: a line each, indented below the bridge above; the
// address without its domain, the id, the class and words: a driver, vf=PF.
func pci(drawing string) node.Inventory {
	var functions []node.PCIFunction
	var above []string
	for line := range strings.Lines(drawing) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		depth := strings.Count(line, "\t")
		above = append(above[:depth], "0000:"+fields[0])
		vendor, device, _ := strings.Cut(fields[1], ":")
		f := node.PCIFunction{Address: "0000:" + fields[0], Vendor: vendor, Device: device, Class: fields[2]}
		if depth > 0 {
			f.Parent = above[depth-1]
		}
		for _, word := range fields[3:] {
			if pf, ok := strings.CutPrefix(word, "vf="); ok {
				f.PhysicalFunction = "0000:" + pf
			} else {
				f.Driver = word
			}
		}
		functions = append(functions, f)
	}
	return node.Inventory{PCI: known(functions), Virtualization: known("none")}
}

// server: a switch that holds a GPU, a two-port NIC and a second switch with a GPU; a root port with a drive; a NIC
// for management and an accelerator without a port.
const server = `
15:01.0 8086:352a 060400
	16:00.0 1000:c030 060400
		17:00.0 1000:c030 060400
			18:00.0 10de:2330 030200 nvidia
		17:01.0 1000:c030 060400
			19:00.0 15b3:1021 020000 mlx5_core
			19:00.1 15b3:1021 020000 mlx5_core
			19:02.3 15b3:101e 020000 mlx5_core vf=19:00.1
		17:02.0 1000:c030 060400
			1a:00.0 1000:c030 060400
				1b:00.0 1000:c030 060400
					1c:00.0 10de:2330 030200 nvidia
37:01.0 8086:352a 060400
	38:00.0 144d:a824 010802 nvme
00:0c.0 8086:1bbc 060400
	01:00.0 14e4:165f 020000 tg3
6a:01.0 8086:0b25 088000 idxd
`

func short(addresses []string) string {
	return strings.ReplaceAll(strings.Join(addresses, " "), "0000:", "")
}

func TestBridgesAbove(t *testing.T) {
	for address, want := range map[string]string{
		"0000:1c:00.0": "1b:00.0 1a:00.0 17:02.0 16:00.0 15:01.0", "0000:38:00.0": "37:01.0", "0000:15:01.0": "", "0000:6a:01.0": "",
		"0000:ff:00.0": "? there is no PCI function ff:00.0", "": "? there is no PCI function ",
	} {
		v := pci(server).BridgesAbove(address)
		got := short(value(v))
		if !v.IsKnown() {
			got = "? " + short([]string{v.Reason()})
		}
		if got != want {
			t.Errorf("%s: %s, wanted %s", address, got, want)
		}
	}
	if v := pci("01:00.0 10de:2330 030200").BridgesAbove("0000:01:00.0"); !v.IsKnown() || value(v) == nil || v.Source().Path != "/sys" {
		t.Errorf("%+v", say(v))
	}
	loop := node.Inventory{PCI: known([]node.PCIFunction{{Address: "a", Parent: "b"}, {Address: "b", Parent: "a"}})}
	if v := loop.BridgesAbove("a"); v.Reason() != "the bridges above a form a loop" {
		t.Error(v.Reason())
	}
	hidden := node.Inventory{PCI: known([]node.PCIFunction{{Address: "a", Parent: "b"}})} // the bridge is not listed
	if got := value(hidden.BridgesAbove("a")); short(got) != "b" {
		t.Error(got)
	}
}

func TestPCIFunction(t *testing.T) {
	if f, ok := pci(server).PCIFunction("0000:38:00.0"); !ok || f.ID() != "144d:a824" || f.Parent != "0000:37:01.0" {
		t.Errorf("%+v, %v", f, ok)
	}
	for _, inv := range []node.Inventory{pci(server), {}} {
		if f, ok := inv.PCIFunction("0000:ff:00.0"); ok || f.Address != "" {
			t.Errorf("%+v", f)
		}
	}
	for driver, want := range map[string]bool{"vfio-pci": true, "mlx5_vfio_pci": true, "nvgrace-gpu-vfio-pci": true, "mlx5_core": false, "": false} {
		if got := (node.PCIFunction{Driver: driver}).IsVFIO(); got != want {
			t.Errorf("driver %q: %v", driver, got)
		}
	}
}

func TestPeerPath(t *testing.T) {
	for ends, want := range map[string]string{
		"18:00.0 19:00.0": "17:00.0 16:00.0 17:01.0 turn 16:00.0",
		"19:00.0 18:00.0": "17:01.0 16:00.0 17:00.0 turn 16:00.0",
		"18:00.0 1c:00.0": "17:00.0 16:00.0 17:02.0 1a:00.0 1b:00.0 turn 16:00.0",
		"1c:00.0 19:02.3": "1b:00.0 1a:00.0 17:02.0 16:00.0 17:01.0 turn 16:00.0",
		"18:00.0 38:00.0": "17:00.0 16:00.0 15:01.0 37:01.0 across",
		"18:00.0 6a:01.0": "17:00.0 16:00.0 15:01.0 across",
		"19:00.0 19:00.1": "19:00.0 19:00.1 same",
		"19:00.0 19:02.3": "19:00.0 19:02.3 same", // the function that it is a part of is 19:00.1
		"18:00.0 18:00.0": "18:00.0 same",
		"18:00.0 ff:00.0": "? there is no PCI function 0000:ff:00.0",
		"ff:00.0 18:00.0": "? there is no PCI function 0000:ff:00.0",
	} {
		a, b, _ := strings.Cut(ends, " ")
		v := pci(server).PeerPath("0000:"+a, "0000:"+b)
		p := value(v)
		got := short(p.Ports)
		if p.Turn != "" {
			got += " turn " + short([]string{p.Turn})
		}
		if p.CrossesRoot() {
			got += " across"
		}
		if p.SameDevice {
			got += " same"
		}
		if !v.IsKnown() {
			got = "? " + v.Reason()
		}
		if got != want {
			t.Errorf("%s: %s, wanted %s", ends, got, want)
		}
	}
}

func TestPeerPorts(t *testing.T) {
	for name, tt := range map[string]struct{ endpoints, want string }{
		"a GPU and its NIC": {"18:00.0 19:00.0", `
0000:16:00.0 18:00.0 19:00.0
0000:17:00.0 18:00.0
0000:17:01.0 19:00.0
`},
		"nested switches": {"1c:00.0 18:00.0 1c:00.0", `
0000:16:00.0 18:00.0 1c:00.0
0000:17:00.0 18:00.0
0000:17:02.0 1c:00.0
0000:1a:00.0 1c:00.0
0000:1b:00.0 1c:00.0
`},
		"across the root complex": {"18:00.0 38:00.0", `
0000:15:01.0 18:00.0 across
0000:16:00.0 18:00.0 across
0000:17:00.0 18:00.0 across
0000:37:01.0 38:00.0 across
`},
		// The switch joins two of them, the root ports only lead to the drive.
		"both": {"18:00.0 19:00.0 38:00.0", `
0000:15:01.0 18:00.0 19:00.0 across
0000:16:00.0 18:00.0 19:00.0
0000:17:00.0 18:00.0
0000:17:01.0 19:00.0
0000:37:01.0 38:00.0 across
`},
		"functions of one device": {"19:00.0 19:00.1", `
0000:19:00.0 19:00.0
0000:19:00.1 19:00.1
`},
		"one":           {"18:00.0", "\n"},
		"none":          {"", "\n"},
		"one not there": {"ff:00.0", "? there is no PCI function 0000:ff:00.0"},
		"not there":     {"18:00.0 ff:00.0", "? there is no PCI function 0000:ff:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			var endpoints []string
			for _, e := range strings.Fields(tt.endpoints) {
				endpoints = append(endpoints, "0000:"+e)
			}
			v := pci(server).PeerPorts(endpoints)
			got := "\n"
			for _, p := range value(v) {
				got += p.Address + " " + short(p.Endpoints)
				if p.AcrossRoot {
					got += " across"
				}
				got += "\n"
			}
			if !v.IsKnown() {
				got = "? " + v.Reason()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	loop := node.Inventory{PCI: known([]node.PCIFunction{{Address: "a", Parent: "b"}, {Address: "b", Parent: "a"}, {Address: "c"}})}
	for _, v := range []node.Value[[]node.PeerPort]{loop.PeerPorts([]string{"a", "c"}), loop.PeerPorts([]string{"b", "c"})} {
		if !strings.HasSuffix(v.Reason(), "form a loop") {
			t.Errorf("%+v", say(v))
		}
	}
}

// On the HGX node each GPU and its rail meet in a switch of their own; the other ports of that switch, the front NIC's
// among them, and the NVSwitches' are nobody's way.
func TestPeerPortsOfHGX(t *testing.T) {
	inv := read(t, recorded(t, "hgx-h100")).Inventory
	var endpoints []string
	for _, f := range value(inv.PCI) {
		if f.IsNVIDIAGPU() || f.ID() == "15b3:1021" {
			endpoints = append(endpoints, f.Address)
		}
	}
	ports := value(inv.PeerPorts(endpoints))
	var below, roots []string
	for _, p := range ports {
		if p.AcrossRoot {
			roots = append(roots, p.Address)
		} else {
			below = append(below, p.Address)
		}
	}
	if len(endpoints) != 16 || len(below) != 8*3 || len(roots) != 8 || short(below[:3]) != "16:00.0 17:01.0 17:02.0" || roots[0] != "0000:15:01.0" {
		t.Errorf("%d endpoints, ports %s, root ports %s", len(endpoints), short(below), short(roots))
	}
}

func TestUnknownPCIPaths(t *testing.T) {
	inv := node.Inventory{PCI: node.Unknown[[]node.PCIFunction]("permission denied", node.Source{Path: "/sys/bus/pci/devices"})}
	for _, reason := range []string{inv.BridgesAbove("a").Reason(), inv.PeerPath("a", "b").Reason(), inv.PeerPorts([]string{"a", "b"}).Reason()} {
		if reason != "permission denied" {
			t.Error(reason)
		}
	}
}

func TestIsPCIAddress(t *testing.T) {
	for s, want := range map[string]bool{
		"0000:3b:00.0": true, "10000:01:00.1": true, "0000:3B:1f.7": true, "3b:00.0": false, "0000:3b:00": false, "0000:3b:00.": false,
		"0000:3b:00.00": false, "000:3b:00.0": false, "0000:3g:00.0": false, "../0:3b:00.0": false, "0000:../...": false, "": false, "0000:3b-00.0": false,
	} {
		if node.IsPCIAddress(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestACSRefusal(t *testing.T) {
	change := func(f func(*node.Inventory)) node.Inventory {
		inv := pci(server)
		f(&inv)
		return inv
	}
	for name, tt := range map[string]struct {
		inv  node.Inventory
		want string // a part
	}{
		"bare metal":      {pci(server), ""},
		"virtual machine": {change(func(inv *node.Inventory) { inv.Virtualization = known("kvm") }), "this is a virtual machine (kvm): its host owns the ports"},
		"perhaps a virtual machine": {change(func(inv *node.Inventory) {
			inv.Virtualization = node.Unknown[string]("no CPU flags tell it", node.Source{})
		}), "whether this is a virtual machine is unknown: no CPU flags tell it"},
		"never looked":   {node.Inventory{PCI: known([]node.PCIFunction{})}, "whether this is a virtual machine is unknown: not recorded"},
		"directory tree": {change(func(inv *node.Inventory) { inv.RootDirectory = true }), "a directory tree has no registers"},
		"unknown PCI bus": {change(func(inv *node.Inventory) {
			inv.PCI = node.Unknown[[]node.PCIFunction]("permission denied", node.Source{})
		}), "what is on the PCI bus is unknown: permission denied"},
		"Grace":               {pci("00:00.0 10de:22b1 060400 pcieport\n\t01:00.0 10de:2941 030200 nvidia"), "the root port 0000:00:00.0 (10de:22b1) is that of an NVIDIA processor"},
		"Vera":                {pci("00:00.0 10de:2f95 060400 pcieport"), "0000:00:00.0 (10de:2f95)"},
		"data direct":         {pci("00:01.0 8086:352a 060400\n\t01:00.0 15b3:2100 080000"), "0000:01:00.0 (15b3:2100) reaches GPU memory past the processor"},
		"a GPU on a root bus": {pci("01:00.0 10de:2330 030200 nvidia"), ""},
		// Neither is a processor's port: an NVSwitch, and a bridge of a board below a root port.
		"NVSwitch and bridges": {pci("80:01.0 8086:352a 060400\n\t83:00.0 10de:22a3 068000\n\t84:00.0 10de:05b8 060400"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.inv.ACSRefusal(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, wanted %q", got, tt.want)
			}
		})
	}
}

func TestACSPortRefusal(t *testing.T) {
	const port = "0000:17:01.0"
	full := node.PCIRegisterState{
		Express: known(pciregs.Express{Present: true, PortType: pciregs.DownstreamPort}),
		ACS:     known(pciregs.ACS{Present: true, Supported: pciregs.SrcValid | pciregs.Redirect}),
	}
	virtual := pci(server)
	virtual.Virtualization = known("kvm")
	for name, tt := range map[string]struct {
		inv       node.Inventory
		registers node.Value[node.PCIRegisterState]
		want      string
	}{
		"all is well":              {pci(server), known(full), ""},
		"the platform":             {virtual, known(full), "this is a virtual machine (kvm): its host owns the ports above the devices, and relies on their ACS"},
		"registers unknown":        {pci(server), node.Unknown[node.PCIRegisterState]("no answer within 2s", node.Source{}), "the registers of 0000:17:01.0 cannot be read: no answer within 2s"},
		"registers never asked":    {pci(server), node.Value[node.PCIRegisterState]{}, "the registers of 0000:17:01.0 cannot be read: not recorded"},
		"without root":             {pci(server), known(node.PCIRegisterState{Express: node.Unknown[pciregs.Express]("run as root", node.Source{})}), "the registers of 0000:17:01.0 cannot be read in full: run as root"},
		"without extended space":   {pci(server), known(node.PCIRegisterState{Express: full.Express, ACS: node.Unknown[pciregs.ACS]("only 256 bytes", node.Source{})}), "the registers of 0000:17:01.0 cannot be read in full: only 256 bytes"},
		"a port without ACS":       {pci(server), known(node.PCIRegisterState{Express: full.Express, ACS: known(pciregs.ACS{})}), "0000:17:01.0 has no ACS capability"},
		"what was never looked at": {pci(server), known(node.PCIRegisterState{Express: full.Express}), "the registers of 0000:17:01.0 cannot be read in full: not recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.inv.ACSPortRefusal(port, tt.registers); got != tt.want {
				t.Errorf("%q, wanted %q", got, tt.want)
			}
		})
	}
}

func TestRedirectOffRefusal(t *testing.T) {
	const port = "0000:17:01.0"
	bound := func(address, driver string) node.Inventory {
		inv := pci(server)
		functions := value(inv.PCI)
		for i := range functions {
			if functions[i].Address == address {
				functions[i].Driver = driver
			}
		}
		return inv
	}
	for name, tt := range map[string]struct {
		inv  node.Inventory
		want string
	}{
		"nobody's":             {pci(server), ""},
		"a function below":     {bound("0000:19:00.1", "vfio-pci"), "the ACS of 0000:17:01.0 keeps 0000:19:00.1 apart, which was handed to a guest or a program (driver vfio-pci)"},
		"a virtual one below":  {bound("0000:19:02.3", "mlx5_vfio_pci"), "the ACS of 0000:17:01.0 keeps 0000:19:02.3 apart, which was handed to a guest or a program (driver mlx5_vfio_pci)"},
		"the function itself":  {bound(port, "vfio-pci"), "the ACS of 0000:17:01.0 keeps 0000:17:01.0 apart, which was handed to a guest or a program (driver vfio-pci)"},
		"one below its sister": {bound("0000:18:00.0", "vfio-pci"), ""},
		"bridges in a loop": {node.Inventory{PCI: known([]node.PCIFunction{{Address: "a", Parent: "b", Driver: "vfio-pci"}, {Address: "b", Parent: "a"}})},
			"the ACS of 0000:17:01.0 keeps a apart, which was handed to a guest or a program (driver vfio-pci)"},
		"an unknown bus": {node.Inventory{PCI: node.Unknown[[]node.PCIFunction]("permission denied", node.Source{})},
			"what is on the PCI bus is unknown: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.inv.RedirectOffRefusal(port); got != tt.want {
				t.Errorf("%q, wanted %q", got, tt.want)
			}
		})
	}
}
