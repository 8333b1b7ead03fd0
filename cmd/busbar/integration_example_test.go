package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
)

var update = flag.Bool("update", false, "write the golden files")

// What a newcomer sees first, word for word.
func TestPlanOfExample(t *testing.T) {
	o := execute(t, here(t, "plan", "--node", "example:hgx-h100-drifted"))
	o.want(t, plan.ExitDrift)
	golden := filepath.Join("testdata", "hgx-h100-drifted.golden")
	if *update {
		writeFile(t, golden, o.stdout)
	}
	if diff := cmp.Diff(strings.Split(readFile(t, golden), "\n"), strings.Split(o.stdout, "\n")); diff != "" {
		t.Errorf("with -update it becomes the new text:\n%s", diff)
	}
}

// The facts of the same plan that programs read.
func TestPlanOfExampleAsJSON(t *testing.T) {
	o := execute(t, here(t, "plan", "--json", "--node", "example:hgx-h100-drifted"))
	o.want(t, plan.ExitDrift)
	var doc struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		Node          struct {
			Hostname, Recording string
		} `json:"node"`
		Profile struct {
			Name     string `json:"name"`
			ChosenBy string `json:"chosen_by"`
		} `json:"profile"`
		Findings []struct {
			ID, Address, Status, Severity string
			Fixable                       bool
			Source                        struct {
				Path string `json:"path"`
				Line int    `json:"line"`
			} `json:"source"`
		} `json:"findings"`
		Steps    []struct{ ID, Effect string } `json:"steps"`
		Summary  plan.Summary                  `json:"summary"`
		ExitCode int                           `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.FormatVersion != "1.0" || doc.Command != "plan" || doc.Node.Hostname != "gpu-a07" || doc.Node.Recording != "example:hgx-h100-drifted" ||
		doc.Profile.Name != "hgx-h100-roce" || doc.Profile.ChosenBy != "matched" || doc.ExitCode != plan.ExitDrift {
		t.Errorf("%+v", doc)
	}
	found := map[string]bool{}
	var fixable int
	for _, f := range doc.Findings {
		found[f.Address+" "+f.ID+" "+f.Status] = true
		if f.Fixable {
			fixable++
		}
		if f.Status == "conflict" && (f.Source.Path != "/etc/sysctl.d/zzz-vendor-tuning.conf" || f.Source.Line == 0) {
			t.Errorf("the conflict is at %+v", f.Source)
		}
	}
	for _, want := range []string{
		`sysctl["kernel.numa_balancing"] sysctl.boot conflict`, `sysctl["kernel.numa_balancing"] sysctl.running drift`,
		"iommu boot_args.next_boot drift", "gpudirect kernel_module.running drift", "limits.rdma limits.process drift",
		"nccl nccl.setting drift", "pcie_acs.gpu_paths pcie_acs.redirect drift", "pcie_device.rails pcie_device.max_read_request drift",
	} {
		if !found[want] {
			t.Errorf("%q is not among %v", want, found)
		}
	}
	if doc.Summary.Steps != len(doc.Steps) || len(doc.Steps) == 0 || fixable == 0 {
		t.Errorf("%d steps, %d in the summary, %d fixable findings", len(doc.Steps), doc.Summary.Steps, fixable)
	}
	effects := map[string]string{}
	for _, step := range doc.Steps {
		effects[step.ID] = step.Effect
	}
	for id, want := range map[string]string{"update-grub:/boot/grub/grub.cfg": "reboot", "load-module:nvidia_peermem": "live", "set-acs:0000:39:01.0": "live", "set-max-read-request:0000:4d:00.0": "live", "restart-unit:slurmd.service": "service-restart"} {
		if effects[id] != want {
			t.Errorf("step %s has effect %q among %v, want %q", id, effects[id], effects, want)
		}
	}
}

func TestHealthyExamples(t *testing.T) {
	for _, name := range []string{"gb200-tray", "hgx-a100-nps4", "hgx-h100", "rtx-workstation", "vm-guest-2gpu"} {
		execute(t, here(t, "plan", "--node", "example:"+name)).want(t, plan.ExitOK)
	}
	// Several nodes: one document a line, the worst exit code.
	o := execute(t, here(t, "verify", "--json", "--node", "example:hgx-h100", "--node", "example:hgx-h100-drifted"))
	o.want(t, plan.ExitDrift)
	if lines := strings.Split(strings.TrimSpace(o.stdout), "\n"); len(lines) != 2 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) {
		t.Errorf("%d lines: %s", len(lines), o)
	}
	// A result that two ways give is one result.
	into := filepath.Join(t.TempDir(), "plan.json")
	o = execute(t, here(t, "plan", "--json", "--json-into", into, "--node", "example:hgx-h100"))
	text, err := os.ReadFile(into)
	if err != nil || string(text) != o.stdout {
		t.Errorf("--json-into differs from --json: %v", err)
	}
}
