package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
)

// A real virtual machine with two H200, recorded with capture --raw; names, addresses and UUIDs were replaced. What busbar said there
// was compared with nvidia-smi topo -m, topo -p2p, nvlink -s and -q.
func TestRecordedGuest(t *testing.T) {
	const recording = "testdata/h200x2-vm.json"
	for name, args := range map[string][]string{
		"plan": {"plan", "--verbose", "--node", recording},
		"topo": {"topo", "--node", recording},
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
