package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
	"busbar/plan"
)

// NUMA is check "numa": whether firmware says to which NUMA node GPUs and NICs belong.
type NUMA struct{}

// Spec of check "numa".
func (NUMA) Spec() plan.Spec {
	return plan.Spec{
		Name: "numa", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Firmware says to which NUMA node each GPU and each network adapter belongs, on a node that has several. In a virtual machine, whose hypervisor often leaves it out, it is a note.",
	}
}

// Queries are the NUMA nodes.
func (NUMA) Queries(plan.Block, node.Inventory) []node.Query {
	return []node.Query{node.NUMANodes.Query("")}
}

const numaID = "numa.node"

// Assess judges the first function of each device.
func (NUMA) Assess(_ plan.Block, facts node.Facts) plan.Assessment {
	inv := facts.Inventory
	all := func(f plan.Finding) plan.Assessment {
		f.Target = "devices"
		return plan.Assessment{Findings: []plan.Finding{f}}
	}
	functions, ok := inv.PCI.Get()
	switch {
	case inv.RootDirectory:
		return all(plan.Finding{ID: numaID, Status: plan.Skipped, Summary: "hardware is not judged (--root)"})
	case !ok:
		return all(plan.Unread(numaID, "which devices have NUMA nodes", inv.PCI))
	}
	functions = slices.DeleteFunc(slices.Clone(functions), func(f node.PCIFunction) bool { return !f.IsNVIDIAGPU() && !f.IsNIC() || f.PhysicalFunction != "" })
	device := func(f node.PCIFunction) string { d, _, _ := strings.Cut(f.Address, "."); return d }
	functions = slices.CompactFunc(functions, func(a, b node.PCIFunction) bool { return device(a) == device(b) })
	var a plan.Assessment
	virtualization, _ := inv.Virtualization.Get()
	var unsaid []string // in a virtual machine
	for _, f := range functions {
		if f.NUMANode < 0 && virtualization != "" && virtualization != "none" {
			unsaid = append(unsaid, f.Address)
			continue
		}
		a.Findings = append(a.Findings, numaNode(f, facts))
	}
	if len(unsaid) > 0 {
		a.Findings = append(a.Findings, unsaidInGuest(unsaid, virtualization))
	}
	return a
}

// unsaidInGuest notes devices whose NUMA node the hypervisor does not say, once for all of them.
func unsaidInGuest(addresses []string, virtualization string) plan.Finding {
	f := plan.Finding{
		ID: numaID, Target: "devices", Status: plan.Drift, Severity: plan.Info, Want: "a NUMA node", Found: "none: " + strings.Join(addresses, " "), Source: node.Source{Path: "/sys/bus/pci/devices"},
		Summary: addresses[0] + " belongs to no NUMA node",
		Why:     "NCCL takes such a device for far from every other whose NUMA node is known",
		Fix:     "give NCCL the host's topology as a file (NCCL_TOPO_FILE), or have the hypervisor say the NUMA node",
	}
	if more := len(addresses) - 1; more > 0 {
		f.Summary = fmt.Sprintf("%s and %d more belong to no NUMA node", addresses[0], more)
	}
	f.Summary += ": " + node.NoNUMANode + ", which is usual in a virtual machine (" + virtualization + ")"
	return f
}

// numaNode judges one function. The kernel writes -1 where neither ACPI's _PXM nor anything like it says
// the node (Documentation/ABI/testing/sysfs-bus-pci, numa_node). NCCL takes all such devices for ones of a NUMA
// node of their own, far from the others (src/graph/xml.cc).
func numaNode(function node.PCIFunction, facts node.Facts) plan.Finding {
	f := plan.Finding{
		ID: numaID, Target: function.Address, Status: plan.OK, Want: "a NUMA node", Found: strconv.Itoa(function.NUMANode),
		Source: node.Source{Path: "/sys/bus/pci/devices/" + function.Address + "/numa_node"},
	}
	f.Summary = fmt.Sprintf("%s belongs to NUMA node %d", function.Address, function.NUMANode)
	if function.NUMANode >= 0 {
		return f
	}
	f.Summary = fmt.Sprintf("%s belongs to no NUMA node: %s", function.Address, node.NoNUMANode)
	nodes := node.NUMANodes.Get(facts, "")
	list, counted := nodes.Get()
	withCPUs := slices.DeleteFunc(slices.Clone(list), func(n node.NUMANode) bool { return n.CPUs == "" })
	switch {
	case !facts.Inventory.Virtualization.IsKnown():
		f = plan.Unread(numaID, "whether "+function.Address+" should belong to a NUMA node (in a virtual machine it need not)", facts.Inventory.Virtualization)
		f.Target = function.Address
	case counted && len(withCPUs) == 1:
		f.Summary = fmt.Sprintf("%s belongs to NUMA node %d, the only one with processors", function.Address, withCPUs[0].ID)
	case !counted:
		f = plan.Unread(numaID, "how many NUMA nodes there are, to one of which "+function.Address+" should belong", nodes)
		f.Target = function.Address
	default:
		f.Status = plan.Drift
		f.Why = "its buffers and its interrupts come to lie on any of the processors, and NCCL takes it for far from all others"
		f.Fix = "update the firmware, look at its NUMA settings (NPS, SNC), and report it to the vendor"
	}
	return f
}
