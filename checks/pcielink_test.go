package checks_test

import (
	"slices"
	"testing"

	"busbar/checks"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// The slots of slotted: a GPU, a two-port NIC, and a NIC inside the processor.
const (
	gpuPort, slotGPU = "0000:15:01.0", "0000:16:00.0"
	nicPort, slotNIC = "0000:37:01.0", "0000:38:00.0"
	inside           = "0000:b5:00.0"
)

var (
	gen5x16 = pciregs.Link{SpeedGTs: 32, Width: 16}
	gen5x8  = pciregs.Link{SpeedGTs: 32, Width: 8}
	gen4x16 = pciregs.Link{SpeedGTs: 16, Width: 16}
	idleX16 = pciregs.Link{SpeedGTs: 2.5, Width: 16}
)

func link(address string, now, best pciregs.Link) node.Answer {
	source := node.Source{Path: "/sys/bus/pci/devices/" + address}
	return node.PCILink.Answer(address, node.Known(node.PCILinkState{Current: node.Known(now, source), Max: node.Known(best, source)}, source))
}

// slotted is a node whose links are all as they should be, but for those answers that say
// otherwise.
func slotted(answers ...node.Answer) node.Facts {
	none := node.Unsupported[pciregs.Link]("no link is up", node.Source{})
	answers = append([]node.Answer{
		link(gpuPort, gen5x16, gen5x16), link(slotGPU, gen5x16, gen5x16), link(nicPort, gen5x16, gen5x16), link(slotNIC, gen5x16, gen5x16),
		node.PCILink.Answer(inside, node.Known(node.PCILinkState{Current: none, Max: none}, node.Source{})),
	}, answers...)
	f := plantest.Node(answers...)
	inv := f.Inventory
	inv.Virtualization = node.Known("none", node.Source{})
	inv.PCI = node.Known([]node.PCIFunction{
		{Address: gpuPort, Vendor: "8086", Device: "352a", Class: "060400"},
		{Address: slotGPU, Vendor: "10de", Device: "2330", Class: "030200", Parent: gpuPort},
		{Address: nicPort, Vendor: "8086", Device: "352a", Class: "060400"},
		{Address: slotNIC, Vendor: "15b3", Device: "1021", Class: "020000", Parent: nicPort},
		{Address: "0000:38:00.1", Vendor: "15b3", Device: "1021", Class: "020000", Parent: nicPort},
		{Address: inside, Vendor: "8086", Device: "37d2", Class: "020000"},
	}, node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

func TestPCIeLink(t *testing.T) {
	const anything = `check "pcie_link" "all" {}`
	named := func(attributes string) string {
		return "check \"pcie_link\" \"some\" {\n" + attributes + "\n}"
	}
	const (
		gpuOK = "ok pcie_link.link 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0)\n"
		nicOK = "ok pcie_link.link 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n"
	)
	unread := func(address string) node.Answer {
		return node.PCILink.Answer(address, node.Unknown[node.PCILinkState]("its bridge sleeps, and reading would wake it", node.Source{}))
	}
	gone := slotted().Inventory
	gone.PCI = node.Unknown[[]node.PCIFunction]("not read", node.Source{})
	undetected := slotted().Inventory
	undetected.Virtualization = node.Unknown[string]("not read", node.Source{})
	tree := slotted().Inventory
	tree.RootDirectory = true
	// Text gives a GPU or a NIC and what they can do, and seldom the port above or whether it is of a virtual machine.
	told := func(f node.Facts, parent string) node.Facts {
		inv := f.Inventory
		inv.Given = node.Known([]string{"pci_link"}, node.Source{})
		inv.Virtualization = node.Unknown[string]("no text that was given says it", node.Source{})
		functions, _ := inv.PCI.Get()
		functions = slices.Clone(functions)
		for i := range functions {
			if functions[i].Parent != parent {
				functions[i].Parent = ""
			}
		}
		inv.PCI = node.Known(functions, node.Source{})
		return f.WithInventory(inv)
	}
	busy := node.PCILink.Answer(slotGPU, node.Known(node.PCILinkState{Current: node.Known(idleX16, node.Source{}), Max: node.Known(gen5x16, node.Source{}), Busy: node.Known(true, node.Source{})}, node.Source{}))
	same := func(name, blocks string, f node.Facts, want string, says ...string) plantest.Case {
		return plantest.Case{Name: name, Blocks: blocks, Facts: f, Want: want, Says: says}
	}
	plantest.Run(t, checks.All(), []plantest.Case{
		same("all as they can", anything, slotted(), gpuOK+nicOK),
		same("half the lanes", anything, slotted(link(slotNIC, gen5x8, gen5x16)), gpuOK+"drift pcie_link.width 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n",
			"the link of 0000:38:00.0 runs at 32GT/s x8, both ends can do 32GT/s x16\npower off and reseat the card"),
		same("a NIC at half the speed", anything, slotted(link(slotNIC, gen4x16, gen5x16)), gpuOK+"drift pcie_link.speed 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n"),
		same("the port can do no more", anything, slotted(link(nicPort, gen4x16, gen4x16), link(slotNIC, gen4x16, gen5x16)), gpuOK+nicOK),
		same("a GPU that can do more than its slot", anything, slotted(link(gpuPort, gen4x16, gen4x16), link(slotGPU, gen4x16, gen5x16)),
			"drift info pcie_link.limit 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0)\n"+nicOK, "GPU 0000:16:00.0 (H100 80GB HBM3) can do 32GT/s, and with its slot 16GT/s x16\nlook in the BIOS"),
		same("an idle GPU that can do more than its slot", anything, slotted(link(gpuPort, idleX16, gen4x16), link(slotGPU, idleX16, gen5x16)),
			"drift info pcie_link.limit 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0)\n"+nicOK),
		same("a GPU that can do more than what is wanted", named("speed = 16"), slotted(link(gpuPort, gen4x16, gen4x16), link(slotGPU, gen4x16, gen5x16)), gpuOK+nicOK),
		same("an idle GPU", anything, slotted(link(slotGPU, idleX16, gen5x16)), gpuOK+nicOK, "the link of 0000:16:00.0 runs at 2.5GT/s x16, as an idle GPU's does; both ends can do 32GT/s x16"),
		same("an idle GPU on half the lanes", anything, slotted(link(slotGPU, pciregs.Link{SpeedGTs: 2.5, Width: 8}, gen5x16)), nicOK+"drift pcie_link.width 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0)\n"),
		same("a GPU that is neither idle nor at full speed", anything, slotted(link(slotGPU, gen4x16, gen5x16)),
			nicOK+"drift warn pcie_link.speed 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0)\n", "look again while the GPU works"),
		same("an idle NIC there is not", anything, slotted(link(slotNIC, idleX16, gen5x16)), gpuOK+"drift pcie_link.speed 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n"),
		same("named devices", named(`devices = ["0000:38:00.1", "0000:15:01.0"]`), slotted(link("0000:38:00.1", gen5x16, gen5x16)),
			"ok pcie_link.link 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0)\nok pcie_link.link 0000:38:00.1 (/sys/bus/pci/devices/0000:38:00.1)\n"),
		same("a named device without a link", named(`devices = ["0000:b5:00.0"]`), slotted(), "skipped pcie_link.link 0000:b5:00.0 ()\n"),
		same("a named device without a link, which is to have one", named("devices = [\"0000:b5:00.0\"]\nwidth = 16"), slotted(), "unsupported pcie_link.link 0000:b5:00.0 ()\n"),
		same("a card that cannot do what is wanted in any slot", named("devices = [\"0000:38:00.0\"]\nspeed = 32"), slotted(link(slotNIC, gen4x16, gen4x16)), "drift pcie_link.limit 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n"),
		same("a device that is gone", named(`devices = ["0000:99:00.0"]`), slotted(), "drift pcie_link.link 0000:99:00.0 (/sys/bus/pci/devices)\n"),
		same("a wish that is met", named("width = 8\nspeed = 16"), slotted(link(slotNIC, gen5x8, gen5x16)), gpuOK+nicOK),
		same("a wish that the slot cannot meet", named("devices = [\"0000:38:00.0\"]\nspeed = 32"), slotted(link(nicPort, gen4x16, gen4x16), link(slotNIC, gen4x16, gen5x16)),
			"drift pcie_link.limit 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n", "both ends can do 16GT/s x16, wanted is 32GT/s x16\nuse a slot that can do more"),
		same("a link that cannot be read", anything, slotted(unread(slotNIC)), gpuOK+"unknown pcie_link.link 0000:38:00.0 ()\n"),
		same("a port that cannot be read", anything, slotted(unread(nicPort)), gpuOK+"unknown pcie_link.link 0000:38:00.0 ()\n", "what 0000:37:01.0, the port above 0000:38:00.0, can do is unknown: its bridge sleeps"),
		same("what it can do is not told", anything, slotted(node.PCILink.Answer(slotNIC, node.Known(node.PCILinkState{Current: node.Known(gen5x16, node.Source{})}, node.Source{}))),
			gpuOK+"unknown pcie_link.link 0000:38:00.0 ()\n", "what the link of 0000:38:00.0 can do is unknown: not recorded"),
		same("a virtual machine", anything, virtual(slotted()), "skipped pcie_link.link links ()\n"),
		same("a virtual machine or not", anything, slotted().WithInventory(undetected), "unknown pcie_link.link links ()\n", "whether these links are real"),
		same("text of links as they can", anything, told(slotted(), ""), gpuOK+nicOK),
		same("text of a quarter of the lanes", anything, told(slotted(link(slotGPU, pciregs.Link{SpeedGTs: 32, Width: 4}, gen5x16)), ""),
			nicOK+"drift pcie_link.width 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0)\n", "runs at 32GT/s x4, the device can do 32GT/s x16\nlook what the port above it can do"),
		same("text of half the lanes, which may be all that the slot has", anything, told(slotted(link(slotNIC, gen5x8, gen5x16)), ""),
			gpuOK+"drift warn pcie_link.width 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n"),
		same("text of half the lanes below a port that has all", anything, told(slotted(link(slotNIC, gen5x8, gen5x16)), nicPort),
			gpuOK+"drift warn pcie_link.width 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n", "runs at 32GT/s x8, both ends can do 32GT/s x16\npower off"),
		same("text of a slot that has a quarter of the lanes", anything, told(slotted(link(nicPort, pciregs.Link{SpeedGTs: 32, Width: 4}, pciregs.Link{SpeedGTs: 32, Width: 4}), link(slotNIC, pciregs.Link{SpeedGTs: 32, Width: 4}, gen5x16)), nicPort), gpuOK+nicOK),
		same("text of a slower NIC, which may be in an older slot", anything, told(slotted(link(slotNIC, gen4x16, gen5x16)), ""), gpuOK+"drift warn pcie_link.speed 0000:38:00.0 (/sys/bus/pci/devices/0000:38:00.0)\n"),
		same("text of an idle GPU", anything, told(slotted(link(slotGPU, idleX16, gen5x16)), ""), gpuOK+nicOK, "as an idle GPU's does; the device can do 32GT/s x16"),
		same("a GPU at work over a link at rest", anything, slotted(busy), nicOK+"drift pcie_link.speed 0000:16:00.0 ()\n"),
		same("a directory tree", anything, slotted().WithInventory(tree), "skipped pcie_link.link links ()\n"),
		same("an unknown bus", anything, slotted().WithInventory(gone), "unknown pcie_link.link links ()\n"),
	})
}

func TestPCIeLinkWithheld(t *testing.T) {
	b := plantest.Blocks(t, checks.All(), `check "pcie_link" "all" {}`)[0]
	for _, attribute := range []string{"devices", "speed", "width"} {
		b.Withheld = []plan.Withheld{{Attribute: attribute, Reason: "no RDMA"}}
		if a := (checks.PCIeLink{}).Assess(b, slotted(link(slotNIC, gen5x8, gen5x16))); len(a.Findings) > 0 {
			t.Errorf("%s: %+v", attribute, a)
		}
	}
}
