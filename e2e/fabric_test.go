//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/e2e/kmod"
	"busbar/node"
	"busbar/node/example"
)

// recorded is the inventory of a built-in recording.
func recorded(t *testing.T, name string) node.Inventory {
	t.Helper()
	file, err := example.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	facts, err := node.ReadRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	return node.Recorded{Facts: facts}.Inventory(context.Background())
}

// tableOf is the table of a recording's PCI tree.
func tableOf(t *testing.T, inv node.Inventory) *kmod.Fabric {
	t.Helper()
	table, err := kmod.New(inv)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// fabric gives the guest the PCI tree of a table.
func (g *guest) fabric(table *kmod.Fabric, parameters ...string) {
	g.t.Helper()
	g.modules("labfabric")
	g.file("/run/fabric", table.String())
	g.sh("modprobe labfabric table=/run/fabric " + strings.Join(parameters, " "))
}

// capture is what busbar records of the guest.
func (g *guest) capture() node.Facts {
	g.t.Helper()
	g.sh("busbar capture --raw -o /run/recording")
	text, err := g.Get(g.ctx, "/run/recording")
	if err != nil {
		g.t.Fatal(err)
	}
	facts, err := node.ReadRecording(strings.NewReader(text))
	if err != nil {
		g.t.Fatal(err)
	}
	return facts
}

// ofTwoNodes is an inventory as the micro machine has it: its kernel knows two NUMA nodes, and a function of another has none.
func ofTwoNodes(inv node.Inventory) node.Inventory {
	functions, _ := inv.PCI.Get()
	functions = slices.Clone(functions)
	for i := range functions {
		if functions[i].NUMANode > 1 {
			functions[i].NUMANode = -1
		}
	}
	inv.PCI = node.Known(functions, inv.PCI.Source())
	return inv
}

// TestFabric: the kernel shows the PCI tree that a recording has, and busbar reads it so.
func TestFabric(t *testing.T) {
	g := micro(t, "the PCI tree of a recording, made anew in a kernel, is read as it was recorded")
	for _, name := range example.Names() {
		inv := recorded(t, name)
		g.fabric(tableOf(t, inv))
		for _, difference := range kmod.Differences(ofTwoNodes(inv), g.capture().Inventory) {
			t.Errorf("%s: %s", name, difference)
		}
		g.sh("modprobe -r labfabric")
	}
}

// shifted gives addresses, DDDD:BB:DD.F, and root buses, DDDD:BB, of a recorded node those that they have in the lab.
func shifted(text []byte) []byte { return bytes.ReplaceAll(text, []byte(`"0000:`), []byte(`"1000:`)) }

// topology is the document of busbar topo without what is not the PCI bus's: names, links and NVLinks that drivers tell of,
// CPUs, and bridges of the guest itself.
func topology(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	list := func(key string) []any {
		items, ok := d[key].([]any)
		if !ok || len(items) == 0 {
			t.Fatalf("there are no %s: %s", key, text)
		}
		return items
	}
	for _, key := range []string{"gpus", "nics"} {
		for _, item := range list(key) {
			for _, drivers := range []string{"cpus", "netdev", "rdma", "link_layer", "link", "speed_mbps", "state", "protected", "unknown"} {
				delete(item.(map[string]any), drivers)
			}
		}
	}
	for _, relation := range list("relations") {
		delete(relation.(map[string]any), "nvlinks")
		delete(relation.(map[string]any), "unknown")
	}
	own := func(bridge any) bool {
		return strings.HasPrefix(bridge.(map[string]any)["address"].(string), "0000:")
	}
	return map[string]any{
		"gpus": d["gpus"], "nics": d["nics"], "bridges": slices.DeleteFunc(list("bridges"), own), "relations": d["relations"], "rails": d["rails"], "gpu_paths": d["gpu_paths"],
	}
}

// TestTopology: nodes of two shapes, one with switches and one without.
func TestTopology(t *testing.T) {
	g := micro(t, "busbar topo shows of a PCI tree in the kernel what it shows of the recording of which it was made: every relation, bridge, rail and path")
	program := filepath.Join(t.TempDir(), "busbar")
	if err := os.WriteFile(program, busbar, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hgx-h100", "epyc-pcie"} {
		if name == "hgx-h100" {
			g.rails()
		} else {
			g.noRails()
			g.fabric(tableOf(t, recorded(t, name)))
		}
		outside, err := exec.CommandContext(g.ctx, program, "topo", "--json", "--node", "example:"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		want, got := topology(t, shifted(outside)), topology(t, []byte(g.sh("busbar topo --json")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-recorded +kernel):\n%s", name, diff)
		}
	}
}
