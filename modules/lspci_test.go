package modules_test

import (
	"strings"
	"testing"

	"busbar/node"
	"busbar/node/paste"
)

// lspciFunction is what lspci(8) says of a PCI function.
type lspciFunction struct {
	node.PCIFunction
	registers node.PCIRegisterState
	link      node.PCILinkState
}

// readLspci reads lspci's output as busbar diagnose does. What a function does not say stays unknown.
func readLspci(t testing.TB, text string) []lspciFunction {
	t.Helper()
	var p paste.Paste
	if err := p.Add("lspci", "", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	facts := p.Reader().Read(t.Context(), node.Inventory{}, nil)
	functions, ok := facts.Inventory.PCI.Get()
	if !ok {
		t.Fatalf("it shows no function: %+v", p.Inputs())
	}
	var all []lspciFunction
	for _, f := range functions {
		registers, _ := node.PCIRegisters.Get(facts, f.Address).Get()
		link, _ := node.PCILink.Get(facts, f.Address).Get()
		all = append(all, lspciFunction{f, registers, link})
	}
	return all
}

// lspciFacts puts functions onto the PCI bus of a node, bare metal if nothing says otherwise.
func lspciFacts(f node.Facts, functions []lspciFunction) node.Facts {
	inv := f.Inventory
	var list []node.PCIFunction
	for _, function := range functions {
		list = append(list, function.PCIFunction)
		f = f.With(node.PCIRegisters.Answer(function.Address, node.Known(function.registers, node.Source{Call: "lspci"})), node.PCILink.Answer(function.Address, node.Known(function.link, node.Source{Call: "lspci"})))
	}
	inv.PCI = node.Known(list, node.Source{Call: "lspci"})
	inv.Virtualization = node.Known("none", node.Source{})
	return f.WithInventory(inv)
}
