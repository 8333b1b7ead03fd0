package report_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"busbar/internal/nccltests"
	"busbar/plan"
	"busbar/report"
)

// reduced are two runs: one on two hosts with a value that is wrong, and one of which little is known.
func reduced() report.NCCLTests {
	measure := func(busBW float64, wrong *int64) *nccltests.Measure {
		return &nccltests.Measure{Time: 1000, AlgBW: busBW, BusBW: busBW, Wrong: wrong}
	}
	right := ptr(int64(0))
	r := nccltests.Result{Runs: []nccltests.Run{
		{
			Collective: "all_reduce_perf", Version: "2.17.6", NCCL: "22807",
			Devices: []nccltests.Device{{Rank: 0, Host: "gpu-1", PCI: "0000:1b:00", Name: "NVIDIA H200"}, {Rank: 1, Host: "gpu-2\x1b[2J", PCI: "0000:1b:00", Name: "NVIDIA H200"}},
			Rows: []nccltests.Row{
				{Size: 8, Count: 2, Type: "float", RedOp: "sum", Root: ptr(-1), OutOfPlace: measure(0.01, right), InPlace: measure(0.01, right)},
				{Size: 8 << 30, Count: 2 << 30, Type: "float", RedOp: "sum", Root: ptr(-1), OutOfPlace: measure(332.78, right), InPlace: measure(327.05, ptr(int64(12)))},
			},
			OutOfBounds: ptr(int64(12)), Average: ptr(166.4),
		},
		{Rows: []nccltests.Row{{Size: 8 << 30, Count: 2 << 30, Type: "float", InPlace: measure(70.9, nil)}}, Broken: 1},
	}}
	findings := []plan.Finding{
		{ID: "nccl_tests.run", Address: "probe.nccl_tests", Status: plan.Undetermined, Severity: plan.Error, Target: "run 2, nccl-tests", Summary: "run 2, nccl-tests: 1 of its rows cannot be read"},
		{ID: "nccl_tests.data", Address: "probe.nccl_tests", Status: plan.Drift, Severity: plan.Error, Target: "run 1, all_reduce_perf", Summary: "run 1, all_reduce_perf: values are wrong: 12", Fix: "take the node out of service"},
	}
	return report.NewNCCLTests("out.txt", r, nil, findings)
}

func TestNCCLTests(t *testing.T) {
	compared := reduced()
	was := reduced().Result
	was.Runs = was.Runs[:1]
	was.Runs[0].Rows = was.Runs[0].Rows[1:]
	compared.Baseline = &was
	for _, c := range []struct {
		golden string
		doc    report.NCCLTests
		style  report.Style
	}{
		{"nccltests.txt", reduced(), report.Style{}},
		{"nccltests-compared.txt", compared, report.Style{Width: 100, Color: true}},
		{"nccltests-quiet.txt", reduced(), report.Style{Quiet: true}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var b bytes.Buffer
			if err := report.WriteNCCLTests(&b, c.doc, c.style); err != nil {
				t.Fatal(err)
			}
			golden(t, c.golden, b.Bytes())
		})
	}
	var b bytes.Buffer
	if err := report.WriteNCCLTestsJSON(&b, reduced()); err != nil {
		t.Fatal(err)
	}
	golden(t, "nccltests.json", b.Bytes())
	if r, err := nccltests.Read(&b); err != nil || len(r.Runs) != 2 {
		t.Errorf("%v: %+v", err, r)
	}
	if code := reduced().ExitCode; code != plan.ExitDrift {
		t.Errorf("exit code %d", code)
	}
}

func TestNCCLTestsWriteFails(t *testing.T) {
	r, w := io.Pipe()
	closed := errors.New("closed")
	_ = r.CloseWithError(closed)
	if err := report.WriteNCCLTests(w, reduced(), report.Style{}); !errors.Is(err, closed) {
		t.Error(err)
	}
	if err := report.WriteNCCLTestsJSON(w, reduced()); !errors.Is(err, closed) {
		t.Error(err)
	}
}
