package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
)

// What the command writes is what the views make of the example (report's golden files).
func TestTopoOfExample(t *testing.T) {
	for extension, flags := range map[string][]string{".txt": nil, ".json": {"--json"}, ".svg": {"--svg"}} {
		code, stdout, stderr := busbar("", append([]string{"topo", "--node", "example:hgx-h100"}, flags...)...)
		if code != plan.ExitOK || stderr != "" {
			t.Errorf("%s: exit code %d, standard error %q", extension, code, stderr)
		}
		if diff := cmp.Diff(readFile(t, filepath.Join("..", "..", "report", "testdata", "topo-hgx-h100"+extension)), stdout); diff != "" {
			t.Errorf("%s (-want +got):\n%s", extension, diff)
		}
	}
}

func TestTopo(t *testing.T) {
	into := filepath.Join(t.TempDir(), "topo.json")
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr string
	}{
		{"a drawing and JSON", []string{"--svg", "--json", "--node", "example:epyc-pcie"}, plan.ExitUsage, nil, "--svg is a drawing of one node, and no JSON"},
		{"a drawing of two nodes", []string{"--svg", "--node", "example:epyc-pcie", "--node", "example:hgx-h100"}, plan.ExitUsage, nil, "--svg is a drawing of one node"},
		{"an argument", []string{"baseline"}, plan.ExitUsage, nil, `topo takes no argument, and "baseline" is one`},
		{"no such recording", []string{"--node", "example:nonsense"}, plan.ExitError, nil, `no built-in recording "nonsense"`},
		{"a root directory", []string{"--root", "/"}, plan.ExitUsage, nil, "unknown flag: --root"},
		{"several", []string{"--quiet", "--node", "example:vm-guest-2gpu", "--node", "example:epyc-pcie"}, plan.ExitOK, []string{"GPU1  NV18   X    ?", "\n\n      GPU0  GPU1  GPU2  GPU3  NIC0  NIC1"}, ""},
		{"several, one unreadable", []string{"--node", "example:nonsense", "--node", "example:epyc-pcie"}, plan.ExitError, []string{"render-03"}, `no built-in recording "nonsense"`},
		{"a drawing, and JSON into a file", []string{"--svg", "--json-into", into, "--node", "example:epyc-pcie"}, plan.ExitOK, []string{"<svg "}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := busbar("", append([]string{"topo"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
				t.Errorf("exit code %d, standard error %q", code, stderr)
			}
			for _, text := range c.stdout {
				if !strings.Contains(stdout, text) {
					t.Errorf("%q is not in %q", text, stdout)
				}
			}
		})
	}
	if text, err := os.ReadFile(into); err != nil || !json.Valid(text) || !strings.Contains(string(text), `"command": "topo"`) {
		t.Errorf("%v: %.200s", err, text)
	}
	_, stdout, _ := busbar("", "topo", "--json", "--node", "example:nonsense", "--node", "example:epyc-pcie")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"exit_code":1`) || !strings.Contains(lines[1], `"between":["0000:02:00.0","0000:22:00.0"],"relation":"NODE","nccl":"PHB"`) {
		t.Errorf("%d lines: %.300s", len(lines), stdout)
	}
}

// On this machine, whatever it is: what is printed of it can be recorded and printed again.
func TestTopoHere(t *testing.T) {
	live := execute(t, here(t, "topo", "--json"))
	live.want(t, plan.ExitOK, `"relations"`)
	file := filepath.Join(t.TempDir(), "node.json")
	execute(t, here(t, "capture", "--raw", "-o", file)).want(t, plan.ExitOK)
	again := execute(t, here(t, "topo", "--json", "--node", file))
	again.want(t, plan.ExitOK)
	var a, b map[string]any
	if err := json.Unmarshal([]byte(live.stdout), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(again.stdout), &b); err != nil {
		t.Fatal(err)
	}
	delete(a, "node")
	delete(b, "node")
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("live and recorded differ:\n%s", diff)
	}
}
