package node_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

// The driver's version files, as the two flavours write them.
const (
	openDriver = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-B17-02-5)  Tue Sep 23 09:55:41 UTC 2025\n" +
		"GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2) \n"
	proprietaryDriver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 14.2.0 (Debian 14.2.0-19) \n"
)

func TestParseNVIDIAVersion(t *testing.T) {
	for text, want := range map[string]struct {
		version  string
		open, ok bool
	}{
		openDriver:        {"580.95.05", true, true},
		proprietaryDriver: {"550.163.01", false, true},
		"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  590.44.01  Release Build": {"590.44.01", true, true},
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64\n580.95.05":                 {},
		"GCC version: Module 11.4.0": {},
		"":                           {},
	} {
		version, open, ok := node.ParseNVIDIAVersion(text)
		if version != want.version || open != want.open || ok != want.ok {
			t.Errorf("%q: %q %t %t", text, version, open, ok)
		}
	}
}

func TestParseNVIDIAParameters(t *testing.T) {
	got := node.ParseNVIDIAParameters("ResmanDebugLevel: 4294967295\nNvLinkDisable: 0\nRegistryDwords: \"ForceP2P=17;RMForceP2PType=1\"\nCoherentGPUMemoryMode: \"\"\nno parameter\n: 1\n")
	want := map[string]string{"ResmanDebugLevel": "4294967295", "NvLinkDisable": "0", "RegistryDwords": "ForceP2P=17;RMForceP2PType=1", "CoherentGPUMemoryMode": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// information is /proc/driver/nvidia/gpus/ADDRESS/information of a GPU that works.
const information = "Model: \t\t Quadro RTX 8000\nIRQ:   \t\t 135\nGPU UUID: \t GPU-97e0449e-f914-403f-3976-34c746092b9c\nVideo BIOS: \t 90.02.30.00.01\nBus Type: \t PCIe\nDMA Size: \t 47 bits\n" +
	"DMA Mask: \t 0x7fffffffffff\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 12\nGPU Firmware: \t N/A\nGPU Excluded:\t No\n"

func TestParseNVIDIAInformation(t *testing.T) {
	for text, want := range map[string]node.NVIDIAInformation{
		information: {Model: "Quadro RTX 8000", UUID: "GPU-97e0449e-f914-403f-3976-34c746092b9c", Minor: 12},
		"Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 0\n": {Minor: 0},
		"Device Minor: \t 4294967295\n": {Minor: -1},
		"":                              {Minor: -1},
	} {
		if diff := cmp.Diff(want, node.ParseNVIDIAInformation(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// What the parsers give holds nothing that is not in the text.
func FuzzNVIDIAProc(f *testing.F) {
	for _, text := range []string{openDriver, proprietaryDriver, information, "RegistryDwords: \"a=b\"\nNvLinkDisable: 1\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		version, _, ok := node.ParseNVIDIAVersion(text)
		if ok != (version != "") || !strings.Contains(text, version) {
			t.Errorf("version %q of %q", version, text)
		}
		for name, value := range node.ParseNVIDIAParameters(text) {
			if name == "" || !strings.Contains(text, name+": ") || !strings.Contains(text, value) {
				t.Errorf("%q: %q of %q", name, value, text)
			}
		}
		info := node.ParseNVIDIAInformation(text)
		if info.Minor < -1 || !strings.Contains(text, info.Model) || !strings.Contains(text, info.UUID) {
			t.Errorf("%+v of %q", info, text)
		}
	})
}

// link is an NVLink that leads to what remote says, a PCI address or NVLinkToSwitch.
func link(number int, state, remote string) node.NVLinkPort {
	p := node.NVLinkPort{Link: number, State: known(state)}
	switch {
	case state != node.NVLinkActive:
	case remote == node.NVLinkToSwitch:
		p.Remote, p.RemoteAddress = known(node.NVLinkToSwitch), known("0000:83:00.0")
	case remote == node.HiddenRemote:
		p.Remote, p.RemoteAddress = known(node.NVLinkToUnknown), node.Unknown[string](node.HiddenRemote, node.Source{})
	default:
		p.Remote, p.RemoteAddress = known(node.NVLinkToGPU), known(remote)
	}
	return p
}

// links are n active ones to remote.
func links(n int, remote string) []node.NVLinkPort {
	var list []node.NVLinkPort
	for i := range n {
		list = append(list, link(i, node.NVLinkActive, remote))
	}
	return list
}

func TestNVLinksBetween(t *testing.T) {
	const a, b = "0000:1b:00.0", "0000:43:00.0"
	unknown := node.NVLinkPort{Link: 3, State: node.Unknown[string]("GPU is lost", node.Source{})}
	for name, test := range map[string]struct {
		a, b   []node.NVLinkPort
		p2p    string
		want   int
		reason string
	}{
		"bridge":                         {a: links(12, b), b: links(12, a), want: 12},
		"NVSwitch":                       {a: links(18, node.NVLinkToSwitch), b: links(18, node.NVLinkToSwitch), p2p: node.P2POK, want: 18},
		"NVSwitch that is hidden":        {a: links(18, node.HiddenRemote), b: links(18, node.HiddenRemote), p2p: node.P2POK, want: 18},
		"one has fewer":                  {a: links(18, node.NVLinkToSwitch), b: append(links(16, node.NVLinkToSwitch), link(16, node.NVLinkInactive, ""), link(17, node.NVLinkSleep, "")), p2p: node.P2POK, want: 16},
		"off the fabric":                 {a: links(18, node.NVLinkToSwitch), b: links(18, node.NVLinkToSwitch), p2p: node.P2PNotSupported, want: 0},
		"links of another GPU":           {a: links(4, "0000:52:00.0"), b: nil, want: 0},
		"bridge, and a switch elsewhere": {a: links(4, b), b: links(2, node.NVLinkToSwitch), want: 4},
		"no P2P matrix":                  {a: links(18, node.NVLinkToSwitch), b: links(18, node.NVLinkToSwitch), reason: "not recorded"},
		"a link that is unknown":         {a: links(2, b), b: []node.NVLinkPort{unknown}, reason: "the state of link 3 is unknown: GPU is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := []node.Answer{
				node.NVLinks.Answer(a, node.Known(node.NVLinkState{Links: test.a}, node.Source{})), node.NVLinks.Answer(b, node.Known(node.NVLinkState{Links: test.b}, node.Source{})),
			}
			if test.p2p != "" {
				answers = append(answers, node.P2P.Answer("", node.Known(node.P2PState{GPUs: []string{a, b}, Pairs: []node.P2PPair{{From: a, To: b, NVLink: known(test.p2p)}}}, node.Source{})))
			}
			v := node.NewFacts(node.Inventory{}, noon, answers).NVLinksBetween(a, b)
			if n, ok := v.Get(); n != test.want || ok != (test.reason == "") || v.Reason() != test.reason {
				t.Errorf("%d %q", n, v.Reason())
			}
		})
	}
	none := node.Unsupported[node.NVLinkState]("Not Supported", node.Source{})
	f := node.NewFacts(node.Inventory{}, noon, []node.Answer{node.NVLinks.Answer(a, none), node.NVLinks.Answer(b, none)})
	if n, ok := f.NVLinksBetween(a, b).Get(); n != 0 || !ok {
		t.Errorf("without NVLink: %d %t", n, ok)
	}
	if v := (node.Facts{}).NVLinksBetween(a, b); v.IsKnown() {
		t.Errorf("known without answers: %v", v)
	}
}

func TestNVLinkRateBetween(t *testing.T) {
	const a, b = "0000:1b:00.0", "0000:43:00.0"
	at := func(mbps int, of []node.NVLinkPort) []node.NVLinkPort {
		for i := range of {
			of[i].SpeedMBps = known(mbps)
		}
		return of
	}
	ok := node.P2P.Answer("", node.Known(node.P2PState{Pairs: []node.P2PPair{{From: a, To: b, NVLink: known(node.P2POK)}}}, node.Source{}))
	for name, test := range map[string]struct {
		a, b   []node.NVLinkPort
		want   int
		reason string
	}{
		"bridge":                  {at(14062, links(4, b)), at(14062, links(4, a)), 56248, ""},
		"NVSwitch, one has fewer": {at(26562, links(18, node.NVLinkToSwitch)), at(26562, links(16, node.NVLinkToSwitch)), 424992, ""},
		"none":                    {nil, nil, 0, ""},
		"a speed that is unknown": {links(2, b), links(2, a), 0, "not recorded"},
		"no answer of the driver": {append(at(1, links(1, b)), node.NVLinkPort{State: node.Unknown[string]("lost", node.Source{})}), nil, 0, "the state of link 0 is unknown: lost"},
	} {
		t.Run(name, func(t *testing.T) {
			v := node.NewFacts(node.Inventory{}, noon, []node.Answer{
				node.NVLinks.Answer(a, node.Known(node.NVLinkState{Links: test.a}, node.Source{})), node.NVLinks.Answer(b, node.Known(node.NVLinkState{Links: test.b}, node.Source{})), ok,
			}).NVLinkRateBetween(a, b)
			if n, known := v.Get(); n != test.want || known != (test.reason == "") || v.Reason() != test.reason {
				t.Errorf("%d %q", n, v.Reason())
			}
		})
	}
}

// The bits are those of nvml.h.
func TestFabricHealth(t *testing.T) {
	for mask, want := range map[node.FabricHealth][]string{
		0:                              nil,
		0xaa | 1<<8:                    nil, // every part says false, the configuration is right
		0b10_10_10_01 | 1<<8:           {"bandwidth is degraded"},
		0b01_01_01_10:                  {"routes are being recovered", "a route is unhealthy", "recovering from an access timeout"},
		2<<12 | 2<<14:                  {"no partition is assigned", "the global fabric manager is disconnected"},
		1<<12 | 1<<14:                  nil,
		5 << 8:                         {"incorrect configuration: too few NVLinks"},
		8 << 8:                         {"incorrect configuration: invalid GPU state"},
		15 << 8:                        {"incorrect configuration: code 15"},
		node.FabricHealth(1 << 31):     nil,
		node.FabricHealth(0xf00 | 0xf): {"incorrect configuration: code 15"},
	} {
		if diff := cmp.Diff(want, mask.Complaints()); diff != "" {
			t.Errorf("%#x: %s", uint32(mask), diff)
		}
	}
}

func TestNVMLDriverVersion(t *testing.T) {
	got := map[string]string{}
	for _, version := range []string{"13.580.159.04", "12.550.90", "x", ""} {
		got[version] = node.NVMLState{Version: version}.DriverVersion()
	}
	if want := map[string]string{"13.580.159.04": "580.159.04", "12.550.90": "550.90", "x": "", "": ""}; !maps.Equal(got, want) {
		t.Errorf("%v", slices.Collect(maps.Keys(got)))
	}
}
