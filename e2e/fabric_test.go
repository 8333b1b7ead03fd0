//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

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

// fabric gives the guest the PCI tree of a recording.
func (g *guest) fabric(inv node.Inventory, parameters ...string) {
	g.t.Helper()
	table, err := kmod.New(inv)
	if err != nil {
		g.t.Fatal(err)
	}
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

// TestFabric: the kernel shows the PCI tree that a recording has, and busbar reads it so.
func TestFabric(t *testing.T) {
	g := micro(t, "the PCI tree of a recording, made anew in a kernel, is read as it was recorded")
	for _, name := range example.Names() {
		inv := recorded(t, name)
		g.fabric(inv)
		for _, difference := range kmod.Differences(inv, g.capture().Inventory) {
			t.Errorf("%s: %s", name, difference)
		}
		g.sh("modprobe -r labfabric")
	}
}
