package report_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
	"busbar/report"
)

func ptr[T any](v T) *T { return &v }

var h200s = []p2p.GPU{
	{Address: "0000:1b:00.0", UUID: "GPU-00000000-0000-0000-0000-000000000001", Name: "NVIDIA H200", Memory: 150109880320, Free: 149500000000},
	{Address: "0000:43:00.0", UUID: "GPU-00000000-0000-0000-0000-000000000002", Name: "NVIDIA H200", Memory: 150109880320, Free: 149500000000},
	{Address: "0000:52:00.0", UUID: "GPU-00000000-0000-0000-0000-000000000003", Name: "NVIDIA H200", Memory: 150109880320, Free: 149500000000},
}

// copied is a result of three GPUs: between the first two all is well, from the first to the third bytes are wrong, the
// other way nobody knows, and the second and third do not reach each other.
func copied() report.P2P {
	const size = 512 << 20
	right := func(kinds ...p2p.Transfer) []p2p.Check {
		checks := []p2p.Check{}
		for _, k := range kinds {
			checks = append(checks, p2p.Check{Transfer: k, Bytes: size})
		}
		return checks
	}
	wrong := right(p2p.Staged, p2p.OneWay, p2p.BothWays)
	wrong[1].Wrong, wrong[1].FirstWrong = 16, ptr(int64(4096))
	a, b, c := h200s[0].Address, h200s[1].Address, h200s[2].Address
	r := p2p.Result{
		CUDA: "13.0", Size: size, GPUs: h200s, Seconds: 1.234,
		Pairs: []p2p.Pair{
			{From: a, To: b, PeerAccess: ptr(true), OneWay: ptr(396.12), BothWays: ptr(781.5), Latency: ptr(1.93), Staged: ptr(37.04), Checks: right(p2p.Staged, p2p.OneWay, p2p.BothWays)},
			{From: a, To: c, PeerAccess: ptr(true), OneWay: ptr(395.9), BothWays: ptr(780.1), Latency: ptr(1.95), Staged: ptr(37.1), Checks: wrong},
			{From: b, To: a, PeerAccess: ptr(true), OneWay: ptr(396.2), BothWays: ptr(781.5), Latency: ptr(1.9), Staged: ptr(36.9), Checks: right(p2p.Staged, p2p.OneWay, p2p.BothWays)},
			{From: b, To: c, PeerAccess: ptr(false), Staged: ptr(37.0), Checks: right(p2p.Staged)},
			{From: c, To: a, Checks: []p2p.Check{}, Unknown: "SIGTERM\x1b[2J"},
			{From: c, To: b, PeerAccess: ptr(false), Staged: ptr(37.2), Checks: right(p2p.Staged)},
		},
		Unknown: "SIGTERM\x1b[2J",
	}
	findings := []plan.Finding{
		{ID: "p2p.data", Address: "probe.p2p", Status: plan.OK, Severity: plan.Error, Target: a + " to " + b, Summary: a + " to " + b + ": 1.5 GiB arrived as they were sent"},
		{ID: "p2p.data", Address: "probe.p2p", Status: plan.Undetermined, Severity: plan.Error, Target: c + " to " + a, Summary: c + " to " + a + ": not all was measured: SIGTERM\x1b[2J"},
		{ID: "p2p.data", Address: "probe.p2p", Status: plan.Drift, Severity: plan.Error, Target: a + " to " + c, Summary: a + " to " + c + ": bytes arrive wrong: one way 16 of 536870912, the first at offset 4096", Fix: "take the node out of service"},
	}
	known := node.Source{Path: "/proc"}
	facts := node.NewFacts(node.Inventory{Hostname: "gpu-a07", Virtualization: node.Known("none", known), PCI: node.Known([]node.PCIFunction{}, known)}, observed, nil)
	return report.NewP2P(report.NodeOf(facts, ""), r, nil, findings)
}

func TestP2P(t *testing.T) {
	compared := copied()
	compared.Baseline = &p2p.Result{Pairs: []p2p.Pair{{From: h200s[0].Address, To: h200s[1].Address, OneWay: ptr(395.0)}}}
	nothing := copied()
	nothing.Result = p2p.Result{Size: 512 << 20, GPUs: []p2p.GPU{}, Pairs: []p2p.Pair{}, Unknown: "the NVIDIA driver is not loaded"}
	for _, c := range []struct {
		golden string
		doc    report.P2P
		style  report.Style
	}{
		{"p2p.txt", copied(), report.Style{}},
		{"p2p-80.txt", copied(), report.Style{Width: 80, Color: true, Verbose: true}},
		{"p2p-compared.txt", compared, report.Style{}},
		{"p2p-quiet.txt", copied(), report.Style{Quiet: true}},
		{"p2p-nothing.txt", nothing, report.Style{}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var b bytes.Buffer
			if err := report.WriteP2P(&b, c.doc, c.style); err != nil {
				t.Fatal(err)
			}
			golden(t, c.golden, b.Bytes())
			if !c.style.Color && strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Error("what is not printable reached the terminal")
			}
		})
	}
	for name, doc := range map[string]report.P2P{"p2p.json": copied(), "p2p-nothing.json": nothing} {
		var b bytes.Buffer
		if err := report.WriteP2PJSON(&b, doc); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
	if code := copied().ExitCode; code != plan.ExitDrift {
		t.Errorf("exit code %d", code)
	}
}

func TestP2PWriteFails(t *testing.T) {
	r, w := io.Pipe()
	closed := errors.New("closed")
	_ = r.CloseWithError(closed)
	if err := report.WriteP2P(w, copied(), report.Style{}); !errors.Is(err, closed) {
		t.Error(err)
	}
	if err := report.WriteP2PJSON(w, copied()); !errors.Is(err, closed) {
		t.Error(err)
	}
}

func TestProgressOfPairs(t *testing.T) {
	for _, c := range []struct {
		style report.Style
		want  string
	}{
		{report.Style{Width: 80}, "[ 1/28] 0000:1b:00.0 and 0000:43:00.0 ... done (0.4 s)\n[ 2/28] 0000:1b:00.0 and 0000:52:00.0 ... unknown: no answer\\x1b\n"},
		{report.Style{}, ""},
		{report.Style{Width: 80, Quiet: true}, ""},
	} {
		var b bytes.Buffer
		p := report.NewProgress(&b, c.style)
		p.PairStarted(1, 28, "0000:1b:00.0", "0000:43:00.0")
		p.PairEnded(1, 28, "0000:1b:00.0", "0000:43:00.0", "", 400*time.Millisecond)
		p.PairStarted(2, 28, "0000:1b:00.0", "0000:52:00.0")
		p.PairEnded(2, 28, "0000:1b:00.0", "0000:52:00.0", "no answer\x1b", time.Second)
		if b.String() != c.want {
			t.Errorf("%+v: %q", c.style, b.String())
		}
	}
}
