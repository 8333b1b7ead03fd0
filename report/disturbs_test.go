package report_test

import (
	"bytes"
	"strings"
	"testing"

	"busbar/plan"
	"busbar/report"
)

// Steps that disturb the same users share a line, after the steps.
func TestDisturbs(t *testing.T) {
	d := drifted("plan")
	for i, users := range map[int][]string{0: {"python3 (process 7) uses 0000:18:00.0", "X\x1b (process 9) uses GPUs"}, 1: {"vfio-pci is bound to 0000:2a:00.0"}, 2: {"python3 (process 7) uses 0000:18:00.0", "X\x1b (process 9) uses GPUs"}} {
		d.Steps[i].Disturbs = users
	}
	var b bytes.Buffer
	if err := report.WritePlan(&b, d, report.Style{}); err != nil {
		t.Fatal(err)
	}
	const want = "\neach of steps 1, 3 needs --disrupt: python3 (process 7) uses 0000:18:00.0; X\\x1b (process 9) uses GPUs\nstep 2 needs --disrupt: vfio-pci is bound to 0000:2a:00.0\n"
	if !strings.Contains(b.String(), want) {
		t.Error(b.String())
	}
	b.Reset()
	if err := report.WriteJSON(&b, d); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), `"disturbs": [`); n != 3 || d.ExitCode != plan.ExitDrift {
		t.Errorf("%d steps have it: %s", n, b.String())
	}
}
