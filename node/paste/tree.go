package paste

import (
	"strings"

	"busbar/node"
)

// lspci -t draws the PCI bus as a tree: a line for each function, behind a bridge the numbers of its buses in brackets, and with -v
// what the function is (ls-tree.c of pciutils). Which bridge a function is below is what it alone says.
var (
	lspciTree    = expression(`^-(?:\[[0-9a-f]{4,8}:[0-9a-f]{2}(?:-[0-9a-f]{2})?\]|\+-\[[0-9a-f]{4,8}:[0-9a-f]{2})`)
	treeRoot     = expression(`^\[([0-9a-f]{4,8}):([0-9a-f]{2})(?:-[0-9a-f]{2})?\]`)
	treeFunction = expression(`^[01][0-9a-f]\.[0-7]`)
	treeBus      = expression(`^-\[([0-9a-f]{2})(?:-[0-9a-f]{2})?\]`)
	// treeGPU is a GPU's name, by its chip; NVSwitches have names of chips too.
	treeGPU = expression(`^NVIDIA Corporation (?:G[VAHBP]|TU|AD)\d{2,3}\w* \[`)
	// treeProcessor is a function of a processor itself that guests are not shown (pci.ids: "Sky Lake-E MM/Vt-d Configuration Registers",
	// "Starship/Matisse Root Complex").
	treeProcessor = expression(`^(?:Intel Corporation .*V[Tt]-d|Advanced Micro Devices, Inc\. \[AMD\] .*Root Complex)`)
	treeNIC       = expression(`^Mellanox Technologies .*ConnectX`)
)

// treeLine reports a line of the tree behind its first one.
func treeLine(line string) bool {
	rest := strings.TrimLeft(line, " |")
	return lspciTree.MatchString(line) || strings.HasPrefix(rest, "+-") || strings.HasPrefix(rest, `\-`)
}

var lspciTreeKind = kind{
	name: "lspci -t",
	scan: func(p piece) match {
		if !lspciTree.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, treeLine)
		return match{n, 1 + one(n > 1) + one(p.typed("lspci"))}
	},
	read: func(d *draft, s section) string {
		t := treeReader{at: map[int]bus{}}
		for i, line := range s.lines {
			t.line(line, func(address, parent, what string, bridge bool) {
				d.treeFunction(address, parent, what, bridge, s.source(i))
			})
		}
		d.give("pci_tree", "")
		return ""
	},
}

// bus is one in the tree.
type bus struct{ domain, number, parent string }

// treeReader remembers which bus hangs at a column.
type treeReader struct{ at map[int]bus }

// line gives the functions on a line, the one that is nearest to the root first.
func (t *treeReader) line(line string, function func(address, parent, what string, bridge bool)) {
	at := len(line) - len(strings.TrimLeft(line, " |"))
	if at == len(line) {
		return
	}
	on := t.at[at]
	if line[at] == '+' || line[at] == '\\' {
		at++
	}
	for {
		for at < len(line) && (line[at] == '-' || line[at] == '+') {
			if line[at] == '+' {
				t.at[at] = on
			}
			at++
		}
		if m := treeRoot.FindStringSubmatch(line[at:]); m != nil {
			on = bus{m[1], m[2], ""}
			at += len(m[0])
			continue
		}
		f := treeFunction.FindString(line[at:])
		address := pciAddress(on.domain + ":" + on.number + ":" + f)
		if f == "" || address == "" {
			return
		}
		at += len(f)
		m := treeBus.FindStringSubmatch(line[at:])
		if m == nil {
			what, _ := strings.CutPrefix(line[at:], "  ")
			function(address, on.parent, what, false)
			return
		}
		function(address, on.parent, "", true)
		on = bus{on.domain, m[1], address}
		at += len(m[0])
	}
}

// treeFunction makes a device of a function of the tree.
func (d *draft) treeFunction(address, parent, what string, bridge bool, source node.Source) {
	f := node.PCIFunction{NUMANode: -1, Parent: parent}
	if bridge {
		f.Class = "060400"
	}
	for _, v := range vendors {
		if f.Vendor == "" && strings.HasPrefix(what, v.name) {
			f.Vendor = v.id
		}
	}
	if ids := lspciID.FindStringSubmatch(what); ids != nil {
		f.Vendor, f.Device = ids[1], ids[2]
	}
	is := ""
	switch {
	case strings.Contains(what, "Virtual Function"):
	case treeGPU.MatchString(what) && !strings.Contains(what, "NVSwitch"):
		is = "gpu"
	case treeNIC.MatchString(what):
		is = "nic"
	}
	if treeProcessor.MatchString(what) && d.inv.Virtualization.IsZero() {
		d.inv.Virtualization = node.Known("none", source)
	}
	x := d.device(is, pciName+address)
	numa := x.function.NUMANode
	fill(&x.function, f)
	x.function.NUMANode = numa
	if x.source == (node.Source{}) {
		x.source = source
	}
}
