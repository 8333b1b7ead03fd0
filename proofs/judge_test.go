package proofs

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	difference "github.com/google/go-cmp/cmp"

	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
)

const gpuA, gpuB, gpuC = "0000:10:00.0", "0000:20:00.0", "0000:30:00.0"

func ptr[T any](v T) *T { return &v }

// good is a pair with nothing wrong.
func good(from, to string) p2p.Pair {
	return p2p.Pair{
		From: from, To: to, PeerAccess: ptr(true), OneWay: ptr(400.0), BothWays: ptr(780.0), Latency: ptr(2.0), Staged: ptr(40.0),
		Checks: []p2p.Check{{Transfer: p2p.Staged, Bytes: 1 << 20}, {Transfer: p2p.OneWay, Bytes: 1 << 20}, {Transfer: p2p.BothWays, Bytes: 1 << 20}},
	}
}

// outcome is of two GPUs; change changes the pair from A to B.
func outcome(change func(*p2p.Pair)) p2p.Result {
	r := p2p.Result{CUDA: "13.0", Size: 1 << 20, GPUs: []p2p.GPU{{Address: gpuA}, {Address: gpuB}}, Pairs: []p2p.Pair{good(gpuA, gpuB), good(gpuB, gpuA)}}
	if change != nil {
		change(&r.Pairs[0])
	}
	return r
}

func onBus(addresses ...string) node.Value[[]string] {
	return node.Known(addresses, node.Source{Path: "/sys/bus/pci/devices"})
}

func TestJudge(t *testing.T) {
	base := outcome(nil)
	for _, c := range []struct {
		name   string
		result p2p.Result
		wanted Wanted
		// found are the findings that are not ok: status severity id: summary.
		found []string
		ok    int
		code  int
	}{
		{"all right", outcome(nil), Wanted{OnBus: onBus(gpuA, gpuB)}, nil, 4, plan.ExitOK},
		{"wrong bytes", outcome(func(p *p2p.Pair) {
			p.Checks[1].Wrong, p.Checks[1].FirstWrong = 3, ptr(int64(4096))
			p.Checks[2].Wrong, p.Checks[2].FirstWrong = 1, ptr(int64(0))
		}), Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"drift error p2p.data: 0000:10:00.0 to 0000:20:00.0: bytes arrive wrong: one way 3 of 1048576, the first at offset 4096; both ways 1 of 1048576, the first at offset 0",
		}, 3, plan.ExitDrift},
		{"wrong bytes before it broke off", outcome(func(p *p2p.Pair) {
			p.Unknown, p.BothWays, p.Checks = "SIGTERM", nil, p.Checks[:2]
			p.Checks[1].Wrong, p.Checks[1].FirstWrong = 3, ptr(int64(4096))
		}), Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"drift error p2p.data: 0000:10:00.0 to 0000:20:00.0: bytes arrive wrong: one way 3 of 1048576, the first at offset 4096",
			"unknown error p2p.data: 0000:10:00.0 to 0000:20:00.0: not all was measured: SIGTERM",
		}, 3, plan.ExitDrift},
		{"no peer access", outcome(func(p *p2p.Pair) {
			p.PeerAccess, p.OneWay, p.BothWays, p.Latency, p.Checks = ptr(false), nil, nil, nil, p.Checks[:1]
		}), Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"unsupported error p2p.peer_access: 0000:10:00.0 to 0000:20:00.0: the driver offers no peer access, what is copied goes through host memory",
		}, 3, plan.ExitDrift},
		{"no peer access, tolerated", outcome(func(p *p2p.Pair) {
			p.PeerAccess, p.OneWay, p.BothWays, p.Latency, p.Checks = ptr(false), nil, nil, nil, p.Checks[:1]
		}), Wanted{OnBus: onBus(gpuA, gpuB), StagedIsEnough: true}, []string{
			"unsupported error p2p.peer_access: 0000:10:00.0 to 0000:20:00.0: the driver offers no peer access, what is copied goes through host memory",
		}, 3, plan.ExitOK},
		{"peer access is slow", outcome(func(p *p2p.Pair) { p.OneWay = ptr(2.6) }), Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"drift warn p2p.peer_access: 0000:10:00.0 to 0000:20:00.0: peer access is slower (2.6 GB/s) than the way through host memory (40.0 GB/s)",
		}, 3, plan.ExitOK},
		{"a GPU is missing", outcome(nil), Wanted{OnBus: onBus(gpuA, gpuB, gpuC)}, []string{
			"unknown error p2p.gpus: nothing is known of GPU 0000:30:00.0: the PCI bus has it, and CUDA does not show it",
		}, 4, plan.ExitUnknown},
		{"it was not to be taken", outcome(nil), Wanted{OnBus: onBus(gpuA, gpuB, gpuC), Selected: []string{gpuA, gpuB}}, nil, 4, plan.ExitOK},
		{"the PCI bus is unknown", outcome(nil), Wanted{OnBus: node.Unknown[[]string]("permission denied", node.Source{})}, []string{
			"unknown error p2p.gpus: it is not known which GPUs there are: permission denied",
		}, 4, plan.ExitUnknown},
		{"no driver", p2p.Result{Unknown: "the NVIDIA driver is not loaded"}, Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"unknown error p2p.gpus: nothing is known of the GPUs: the NVIDIA driver is not loaded",
		}, 0, plan.ExitUnknown},
		{"no GPU", p2p.Result{CUDA: "13.0"}, Wanted{OnBus: onBus()}, []string{"unknown error p2p.gpus: CUDA shows no GPU"}, 0, plan.ExitUnknown},
		{"one GPU", p2p.Result{CUDA: "13.0", GPUs: []p2p.GPU{{Address: gpuA}}}, Wanted{OnBus: onBus(gpuA)}, []string{"skipped error p2p.gpus: one GPU, 0000:10:00.0, is no pair"}, 0, plan.ExitOK},
		{"one of two GPUs", p2p.Result{CUDA: "13.0", GPUs: []p2p.GPU{{Address: gpuA}}}, Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"unknown error p2p.gpus: nothing is known of GPU 0000:20:00.0: the PCI bus has it, and CUDA does not show it",
		}, 0, plan.ExitUnknown},
		{"nothing was measured", outcome(func(p *p2p.Pair) { *p = p2p.Pair{From: gpuA, To: gpuB, Unknown: "no answer"} }), Wanted{OnBus: onBus(gpuA, gpuB)}, []string{
			"unknown error p2p.data: 0000:10:00.0 to 0000:20:00.0: not all was measured: no answer",
		}, 2, plan.ExitUnknown},
		{"as the baseline", outcome(nil), Wanted{OnBus: onBus(gpuA, gpuB), Baseline: &base, MinRatio: 0.9}, nil, 10, plan.ExitOK},
		{"slower than the baseline", outcome(func(p *p2p.Pair) { p.OneWay, p.BothWays = ptr(359.0), ptr(702.1) }), Wanted{OnBus: onBus(gpuA, gpuB), Baseline: &base, MinRatio: 0.9}, []string{
			"drift error p2p.baseline: 0000:10:00.0 to 0000:20:00.0, one way: was 400.0 GB/s, is 359.0 GB/s, 0.90 of it",
		}, 9, plan.ExitDrift},
		{"peer access has gone", outcome(func(p *p2p.Pair) {
			p.PeerAccess, p.OneWay, p.BothWays, p.Latency, p.Checks = ptr(false), nil, nil, nil, p.Checks[:1]
		}), Wanted{OnBus: onBus(gpuA, gpuB), StagedIsEnough: true, Baseline: &base, MinRatio: 0.9}, []string{
			"drift error p2p.baseline: 0000:10:00.0 to 0000:20:00.0, both ways: was 780.0 GB/s, and is no longer possible",
			"drift error p2p.baseline: 0000:10:00.0 to 0000:20:00.0, one way: was 400.0 GB/s, and is no longer possible",
			"unsupported error p2p.peer_access: 0000:10:00.0 to 0000:20:00.0: the driver offers no peer access, what is copied goes through host memory",
		}, 7, plan.ExitDrift},
		{"not measured, and a baseline", outcome(func(p *p2p.Pair) { *p = p2p.Pair{From: gpuA, To: gpuB, Unknown: "no answer"} }), Wanted{OnBus: onBus(gpuA, gpuB), Baseline: &base, MinRatio: 0.9}, []string{
			"unknown error p2p.data: 0000:10:00.0 to 0000:20:00.0: not all was measured: no answer",
		}, 5, plan.ExitUnknown},
		{"a baseline of other GPUs", outcome(nil), Wanted{OnBus: onBus(gpuA, gpuB), Baseline: &p2p.Result{Pairs: []p2p.Pair{good(gpuA, gpuC), good(gpuB, gpuA)}}, MinRatio: 0.9}, []string{
			"unknown error p2p.baseline: 0000:10:00.0 to 0000:30:00.0: the baseline has this pair, and it was not measured",
			"unknown warn p2p.baseline: 0000:10:00.0 to 0000:20:00.0: the baseline does not have this pair",
		}, 7, plan.ExitUnknown},
		{"a baseline of more GPUs than were to be taken", outcome(nil), Wanted{OnBus: onBus(gpuA, gpuB, gpuC), Selected: []string{gpuA, gpuB}, Baseline: &p2p.Result{Pairs: []p2p.Pair{good(gpuA, gpuC), good(gpuA, gpuB), good(gpuB, gpuA)}}, MinRatio: 0.9}, nil, 10, plan.ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.wanted.Address = "probe.p2p"
			findings := Judge(c.result, c.wanted)
			var found []string
			ok := 0
			for _, f := range findings {
				if f.Address != c.wanted.Address || f.ID == "" {
					t.Errorf("%+v", f)
				}
				if f.Status == plan.OK {
					ok++
					continue
				}
				found = append(found, fmt.Sprintf("%s %s %s: %s", f.Status, f.Severity, f.ID, f.Summary))
			}
			slices.SortFunc(found, func(a, b string) int { return cmp.Compare(a, b) })
			if diff := difference.Diff(c.found, found); diff != "" {
				t.Error(diff)
			}
			if code := (plan.Plan{Findings: findings}).ExitCode(); ok != c.ok || code != c.code {
				t.Errorf("%d ok, want %d; exit code %d, want %d", ok, c.ok, code, c.code)
			}
		})
	}
}
