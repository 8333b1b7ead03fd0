package checks_test

import (
	"strings"
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestNUMA(t *testing.T) {
	all := `check "numa" "all" {}`
	nodes := func(cpus ...string) node.Answer {
		var list []node.NUMANode
		for id, c := range cpus {
			list = append(list, node.NUMANode{ID: id, CPUs: c})
		}
		return node.NUMANodes.Answer("", known(list))
	}
	const first = "ok numa.node 0000:13:00.0 (/sys/bus/pci/devices/0000:13:00.0/numa_node)\nok numa.node 0000:14:00.0 (/sys/bus/pci/devices/0000:14:00.0/numa_node)\n"
	said := func(nic string) string {
		return first + "ok numa.node 0000:23:00.0 (/sys/bus/pci/devices/0000:23:00.0/numa_node)\n" + nic + "\n"
	}
	const at = " numa.node 0000:24:00.0 (/sys/bus/pci/devices/0000:24:00.0/numa_node)"
	unsaid := rails(second(func(r *rail) { r.pci[5].NUMANode = -1 }))
	undetected := unsaid.Inventory
	undetected.Virtualization = denied[string]()
	root := unsaid.Inventory
	root.RootDirectory = true
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", all, rails(), said("ok"+at), "0000:24:00.0 belongs to NUMA node 0"),
		judge("firmware does not say it", all, unsaid.With(nodes("0-31", "32-63")), said("drift"+at), "0000:24:00.0 belongs to no NUMA node: firmware does not say the NUMA node\nupdate the firmware"),
		judge("one NUMA node, beside one of memory", all, unsaid.With(nodes("", "0-63")), said("ok"+at), "belongs to NUMA node 1, the only one with processors"),
		judge("a virtual machine", all, virtual(unsaid), strings.TrimSuffix(said(""), "\n")+"drift info numa.node devices (/sys/bus/pci/devices)", "0000:24:00.0 belongs to no NUMA node: firmware does not say the NUMA node, which is usual in a virtual machine (kvm)\ngive NCCL the host's topology as a file (NCCL_TOPO_FILE)"),
		judge("a virtual machine whose hypervisor says nothing", all, virtual(rails(both(func(r *rail) { r.pci[4].NUMANode, r.pci[5].NUMANode = -1, -1 }))), "drift info numa.node devices (/sys/bus/pci/devices)", "0000:13:00.0 and 3 more belong to no NUMA node"),
		judge("a virtual machine or not", all, unsaid.WithInventory(undetected).With(nodes("0-31", "32-63")), said("unknown numa.node 0000:24:00.0 (/sys)")),
		judge("how many NUMA nodes is unknown", all, unsaid.With(node.NUMANodes.Answer("", denied[[]node.NUMANode]())), said("unknown numa.node 0000:24:00.0 (/sys)")),
		judge("a directory tree", all, unsaid.WithInventory(root), "skipped numa.node devices ()"),
		judge("nothing known", all, plantest.Node(), "unknown numa.node devices ()"),
		judge("functions of one card, virtual ones, and what is neither GPU nor NIC", all, rails(second(func(r *rail) {
			port, virtual := r.pci[5], r.pci[5]
			port.Address, port.NUMANode = "0000:24:00.1", -1
			virtual.Address, virtual.NUMANode, virtual.PhysicalFunction = "0000:25:00.0", -1, r.pci[5].Address
			r.pci[0].NUMANode = -1
			r.pci = append(r.pci, port, virtual)
		})), said("ok"+at)),
	})
}
