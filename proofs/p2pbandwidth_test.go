package proofs

import (
	"fmt"
	"strings"
	"testing"

	difference "github.com/google/go-cmp/cmp"

	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// bus is the model node with GPUs.
func bus(addresses ...string) node.Facts {
	functions := []node.PCIFunction{{Address: "0000:00:00.0", Vendor: "8086", Class: "060000"}}
	for _, a := range addresses {
		functions = append(functions, node.PCIFunction{Address: a, Vendor: "10de", Device: "2335", Class: "030200"})
	}
	f := plantest.Node()
	inv := f.Inventory
	inv.PCI = node.Known(functions, node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

func said[T any](v T) node.Value[T] { return node.Known(v, node.Source{Call: "NVML"}) }

// nvlinks are a GPU's, all to NVSwitches.
func nvlinks(address string, n, mbps int) node.Answer {
	var s node.NVLinkState
	for i := range n {
		s.Links = append(s.Links, node.NVLinkPort{Link: i, State: said(node.NVLinkActive), SpeedMBps: said(mbps), Remote: said(node.NVLinkToSwitch)})
	}
	return node.NVLinks.Answer(address, said(s))
}

func noNVLinks(address string) node.Answer {
	return node.NVLinks.Answer(address, node.Unsupported[node.NVLinkState]("the GPU has none", node.Source{Call: "NVML"}))
}

func pcie(address string, generation, width int) node.Answer {
	return node.GPUInfo.Answer(address, said(node.GPUState{PCIeMaxGeneration: said(generation), PCIeMaxWidth: said(width)}))
}

// matrix lets A and B reach each other over NVLink.
var matrix = node.P2P.Answer("", said(node.P2PState{GPUs: []string{gpuA, gpuB}, Pairs: []node.P2PPair{
	{From: gpuA, To: gpuB, NVLink: said(node.P2POK)}, {From: gpuB, To: gpuA, NVLink: said(node.P2POK)},
}}))

func measured(change func(*p2p.Pair)) node.Answer {
	return node.P2PMeasurement.Answer("512", said(outcome(change)))
}

func TestP2PBandwidth(t *testing.T) {
	both := bus(gpuA, gpuB).With(matrix, nvlinks(gpuA, 18, 26562), nvlinks(gpuB, 18, 26562), measured(nil))
	overPCIe := bus(gpuA, gpuB).With(noNVLinks(gpuA), noNVLinks(gpuB), pcie(gpuA, 5, 16), pcie(gpuB, 4, 16))
	root := both.Inventory
	root.RootDirectory = true
	noPeers := func(p *p2p.Pair) {
		p.PeerAccess, p.OneWay, p.BothWays, p.Latency, p.Checks = ptr(false), nil, nil, nil, p.Checks[:1]
	}
	for _, c := range []struct {
		name, attributes string
		facts            node.Facts
		// want are the findings that are not ok; ok is how many are.
		want []string
		ok   int
		code int
	}{
		{"all right", "min_ratio = 0.65", both, nil, 6, plan.ExitOK},
		{"nothing is wanted of the bandwidth", "", bus(gpuA, gpuB).With(measured(nil)), nil, 4, plan.ExitOK},
		{"slower than the links", "min_ratio = 0.9", both, []string{
			"drift error p2p.bandwidth_of_links: 0000:10:00.0 to 0000:20:00.0: 400.0 GB/s, 0.84 of the 478.1 GB/s that NVLink carries, wanted is 0.9",
			"drift error p2p.bandwidth_of_links: 0000:20:00.0 to 0000:10:00.0: 400.0 GB/s, 0.84 of the 478.1 GB/s that NVLink carries, wanted is 0.9",
		}, 4, plan.ExitDrift},
		{"fewer links carry less", "min_ratio = 0.9", both.With(nvlinks(gpuA, 16, 26562)), nil, 6, plan.ExitOK},
		{"slower than a number, one way alone", "min_gb_per_s = 390.5", both.With(measured(func(p *p2p.Pair) { p.OneWay = ptr(390.0) })), []string{
			"drift error p2p.bandwidth: 0000:10:00.0 to 0000:20:00.0: 390.0 GB/s, wanted is 390.5 GB/s",
		}, 5, plan.ExitDrift},
		{"PCIe, the slower of both", "min_ratio = 0.8", overPCIe.With(measured(func(p *p2p.Pair) { p.OneWay, p.Staged = ptr(25.0), ptr(20.0) })), []string{
			"drift error p2p.bandwidth_of_links: 0000:10:00.0 to 0000:20:00.0: 25.0 GB/s, 0.79 of the 31.5 GB/s that PCIe carries, wanted is 0.8",
		}, 5, plan.ExitDrift},
		{"the driver does not tell", "min_ratio = 0.65\nmin_gb_per_s = 100", bus(gpuA, gpuB).With(measured(nil),
			node.NVLinks.Answer(gpuA, node.Unknown[node.NVLinkState]("no answer", node.Source{Call: "NVML"}))), []string{
			"unknown error p2p.bandwidth_of_links: 0000:10:00.0 to 0000:20:00.0: what the links between them carry is unknown: no answer",
			"unknown error p2p.bandwidth_of_links: 0000:20:00.0 to 0000:10:00.0: what the links between them carry is unknown: not recorded",
		}, 6, plan.ExitUnknown},
		{"no such link", "min_ratio = 0.65", overPCIe.With(measured(nil), pcie(gpuA, 9, 16)), []string{
			"unknown error p2p.bandwidth_of_links: 0000:10:00.0 to 0000:20:00.0: what the links between them carry is unknown: a link of generation 9 with 16 lanes is none",
			"unknown error p2p.bandwidth_of_links: 0000:20:00.0 to 0000:10:00.0: what the links between them carry is unknown: a link of generation 9 with 16 lanes is none",
		}, 4, plan.ExitUnknown},
		{"wrong bytes, fast", "min_ratio = 0.65", both.With(measured(func(p *p2p.Pair) { p.Checks[1].Wrong, p.Checks[1].FirstWrong = 1, ptr(int64(7)) })), []string{
			"drift error p2p.data: 0000:10:00.0 to 0000:20:00.0: bytes arrive wrong: one way 1 of 1048576, the first at offset 7",
		}, 5, plan.ExitDrift},
		{"no peer access", "min_ratio = 0.65\nseverity = \"warn\"", both.With(measured(noPeers)), []string{
			"unsupported warn p2p.peer_access: 0000:10:00.0 to 0000:20:00.0: the driver offers no peer access, what is copied goes through host memory",
		}, 4, plan.ExitOK},
		{"in use", "min_ratio = 0.65", both.With(node.P2PMeasurement.Answer("512", node.Unknown[p2p.Result]("the GPUs are in use", node.Source{Path: "/proc"}))), []string{
			"unknown error p2p.gpus: whether GPUs move bytes to each other rightly is unknown: the GPUs are in use",
		}, 0, plan.ExitUnknown},
		{"of another size", "size_mib = 64", both, []string{
			"unknown error p2p.gpus: whether GPUs move bytes to each other rightly is unknown: not recorded",
		}, 0, plan.ExitUnknown},
		{"a GPU that CUDA does not show", "", bus(gpuA, gpuB, gpuC).With(measured(nil)), []string{
			"unknown error p2p.gpus: nothing is known of GPU 0000:30:00.0: the PCI bus has it, and CUDA does not show it",
		}, 4, plan.ExitUnknown},
		{"no GPU", "", bus(), []string{"skipped error p2p.gpus: no GPU on the PCI bus"}, 0, plan.ExitOK},
		{"one GPU", "", bus(gpuA), []string{"skipped error p2p.gpus: there is one GPU, which has no peer"}, 0, plan.ExitOK},
		{"a root directory", "", both.WithInventory(root), []string{"skipped error p2p.gpus: hardware is not judged (--root)"}, 0, plan.ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			blocks := plantest.Blocks(t, All(), "proof \"p2p_bandwidth\" \"all\" {\n"+c.attributes+"\n}")
			p := plantest.Planner(All()).Proving().Plan(blocks, c.facts)
			var found []string
			ok := 0
			for _, f := range p.Findings {
				if f.Address != "proof.p2p_bandwidth.all" || strings.Contains(f.Summary, "without having been asked for") {
					t.Errorf("%+v", f)
				}
				if f.Status == plan.OK {
					ok++
					continue
				}
				found = append(found, fmt.Sprintf("%s %s %s: %s", f.Status, f.Severity, f.ID, f.Summary))
			}
			if diff := difference.Diff(c.want, found); diff != "" {
				t.Error(diff)
			}
			if code := p.ExitCode(); ok != c.ok || code != c.code {
				t.Errorf("%d ok, want %d; exit code %d, want %d", ok, c.ok, code, c.code)
			}
		})
	}
}

// Nobody but who runs proofs asks for what they need.
func TestNotRun(t *testing.T) {
	blocks := plantest.Blocks(t, All(), `proof "p2p_bandwidth" "all" { min_ratio = 0.65 }`)
	blocks[0].Withheld = []plan.Withheld{{Attribute: "min_ratio", Reason: "no RDMA"}}
	undecided := blocks[0]
	undecided.Address, undecided.Undecided = "proof.p2p_bandwidth.other", "its when is unknown"
	blocks = append(blocks, undecided)
	facts := bus(gpuA, gpuB).With(measured(nil))
	planner := plantest.Planner(All())
	asked := func(p *plan.Planner) (n int) {
		for _, q := range p.Queries(blocks, facts.Inventory) {
			if q == node.P2PMeasurement.Query("512") {
				n++
			}
		}
		return n
	}
	if asked(planner) != 0 || asked(planner.Proving()) != 1 || asked(planner) != 0 {
		t.Errorf("asked %d times, and %d when proving", asked(planner), asked(planner.Proving()))
	}
	want := "skipped p2p_bandwidth.not_run  ()\nskipped p2p_bandwidth.not_run  ()\n"
	if got := plantest.Summarize(planner.Plan(blocks, facts)); got != want {
		t.Error(got)
	}
	want = "unknown p2p_bandwidth.withheld min_ratio (node.hcl:1)\nunknown p2p_bandwidth.undecided  (node.hcl:1)\n"
	if got := plantest.Summarize(planner.Proving().Plan(blocks, facts)); !strings.HasSuffix(got, strings.SplitAfter(want, "\n")[1]) || !strings.Contains(got, strings.SplitAfter(want, "\n")[0]) {
		t.Error(got)
	}
}

func TestSpec(t *testing.T) {
	for _, typ := range All() {
		if s := typ.Spec(); s.Keyword() != "proof" || s.Key() != "proof."+s.Name || s.Ceiling != plan.NoEffect || len(s.Sinks) > 0 {
			t.Errorf("%+v", s)
		}
	}
}
