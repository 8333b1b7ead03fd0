package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
)

// h200Guest is a real virtual machine with two H200, recorded with capture --raw; names, addresses and UUIDs were replaced. What
// busbar said there was compared with nvidia-smi topo -m, topo -p2p, nvlink -s and -q.
const h200Guest = "testdata/h200x2-vm.json"

func TestRecordedGuest(t *testing.T) {
	for name, args := range map[string][]string{
		"plan": {"plan", "--verbose", "--node", h200Guest},
		"topo": {"topo", "--node", h200Guest},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := busbar("", args...)
			if code != plan.ExitOK || stderr != "" {
				t.Errorf("exit code %d, standard error %q", code, stderr)
			}
			golden := filepath.Join("testdata", "h200x2-vm-"+name+".golden")
			if *update {
				writeFile(t, golden, stdout)
			}
			if diff := cmp.Diff(strings.Split(readFile(t, golden), "\n"), strings.Split(stdout, "\n")); diff != "" {
				t.Errorf("with -update it becomes the new text:\n%s", diff)
			}
		})
	}
}

// recordedAnswer is an answer of a recording.
type recordedAnswer struct {
	Kind   string          `json:"kind"`
	Key    string          `json:"key,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Source json.RawMessage `json:"source,omitempty"`
}

// The same machine, if its GPUs were gone, its driver not loaded, or NVML did not answer: busbar plans, says why, and exits with
// what is unknown.
func TestRecordedGuestWithoutAnswers(t *testing.T) {
	nvml := []string{"confidential_computing", "gpu", "gpu_fabric", "nvlink", "nvml", "p2p"}
	silent := func(reason string) func(*recordedAnswer) {
		return func(a *recordedAnswer) {
			if slices.Contains(nvml, a.Kind) {
				a.Value, a.Reason = nil, reason
			}
		}
	}
	unloaded := silent("the NVIDIA driver is not loaded")
	for name, c := range map[string]struct {
		edit     func(*recordedAnswer)
		withGPUs bool
		code     int
		says     []string
		nvlinks  string
	}{
		"NVML hangs": {
			silent("no answer within 10s from NVML about GPU 0000:00:06.0"), true, plan.ExitUnknown,
			[]string{
				"unknown check.fabric.all: the fabric state of GPU 0000:00:06.0 is unknown: no answer within 10s from NVML about GPU 0000:00:06.0",
				"unknown check.gpus.all: whether all GPUs are alike is unknown: product of GPU 0000:00:06.0: no answer within 10s",
				"unknown check.nvlink.all (warn): how many NVLinks are active of GPU 0000:00:07.0 is unknown",
				"unknown check.p2p.all (warn): which GPUs can reach each other is unknown",
			}, "no answer within 10s from NVML",
		},
		"the driver is not loaded": {
			func(a *recordedAnswer) {
				unloaded(a)
				if a.Kind == "nvidia_driver" {
					a.Value = json.RawMessage(`{"loaded": false}`)
				}
			}, true, plan.ExitDrift, []string{"drift check.driver.all: the NVIDIA driver is not loaded", "modprobe nvidia"}, "the NVIDIA driver is not loaded",
		},
		"no device nodes": {
			func(a *recordedAnswer) {
				silent("there is no /dev/nvidiactl: nobody has made the driver's device nodes (nvidia-modprobe)")(a)
				if a.Kind == "path" && strings.HasPrefix(a.Key, "/dev/nvidia") {
					a.Value = json.RawMessage(`{"exists": false}`)
				}
			}, true, plan.ExitDrift, []string{"drift check.device_nodes.driver: /dev/nvidiactl does not exist", "nobody has made the driver's device nodes"}, "nobody has made the driver's device nodes",
		},
		"no GPU": {func(*recordedAnswer) {}, false, plan.ExitDrift, []string{"profile baseline", "drift check.gpus.all: no GPU on the PCI bus, wanted is at least 1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var recording map[string]json.RawMessage
			var answers []recordedAnswer
			var inventory map[string]json.RawMessage
			var pci struct {
				Value []map[string]any `json:"value"`
			}
			read := func(text []byte, into any) {
				if err := json.Unmarshal(text, into); err != nil {
					t.Fatal(err)
				}
			}
			write := func(from any) json.RawMessage {
				text, err := json.Marshal(from)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			read([]byte(readFile(t, h200Guest)), &recording)
			read(recording["answers"], &answers)
			read(recording["inventory"], &inventory)
			read(inventory["pci"], &pci)
			for i := range answers {
				c.edit(&answers[i])
			}
			if !c.withGPUs {
				pci.Value = slices.DeleteFunc(pci.Value, func(f map[string]any) bool { return f["vendor"] == "10de" })
			}
			inventory["pci"] = write(pci)
			recording["answers"], recording["inventory"] = write(answers), write(inventory)
			edited := filepath.Join(t.TempDir(), "node.json")
			writeFile(t, edited, string(write(recording)))

			code, stdout, _ := busbar("", "plan", "--node", edited)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			words := strings.Join(strings.Fields(stdout), " ")
			for _, text := range c.says {
				if !strings.Contains(words, text) {
					t.Errorf("%q is not said:\n%s", text, stdout)
				}
			}
			if c.nvlinks == "" {
				return
			}
			if code, stdout, _ := busbar("", "topo", "--node", edited); code != plan.ExitOK || strings.Contains(stdout, "NV18") || !strings.Contains(stdout, c.nvlinks) {
				t.Errorf("topo: exit code %d\n%s", code, stdout)
			}
		})
	}
}
