package checks_test

import (
	"strings"
	"testing"

	"busbar/checks"
	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan/plantest"
)

// host is an Epyc with two sockets, NPS4, and a quiet host.
func host(answers ...node.Answer) node.Facts {
	nodes := []node.NUMANode{}
	for id := range 8 {
		nodes = append(nodes, node.NUMANode{ID: id, CPUs: "0-15"})
	}
	nodes = append(nodes, node.NUMANode{ID: 8}) // memory alone
	answers = append([]node.Answer{
		node.NUMANodes.Answer("", node.Known(nodes, node.Source{Path: "/sys/devices/system/node"})),
		cpus(node.CPUState{Packages: 2, Governors: node.Known(map[string]int{"performance": 128}, node.Source{Path: "/sys/devices/system/cpu/cpufreq"})}),
		hugePages("always [madvise] never\n"),
		unit("irqbalance.service", node.UnitState{Load: "loaded", Active: node.Known("inactive", node.Source{})}),
		shm(node.MountState{Point: "/dev/shm", Type: "tmpfs", Size: node.Known(uint64(1<<30), node.Source{Path: "/dev/shm"})}),
	}, answers...)
	return slotted(answers...)
}

func cpus(s node.CPUState) node.Answer {
	return node.CPUs.Answer("", node.Known(s, node.Source{Path: "/sys/devices/system/cpu"}))
}

func hugePages(text string) node.Answer {
	const p = "/sys/kernel/mm/transparent_hugepage/enabled"
	return node.File.Answer(p, node.Known(node.FileState{Exists: text != "", Text: text}, node.Source{Path: p}))
}

func unit(name string, s node.UnitState) node.Answer {
	return node.Unit.Answer(name, node.Known(s, node.Source{Call: "systemd"}))
}

func shm(s node.MountState) node.Answer {
	return node.Mount.Answer("/dev/shm", node.Known(s, node.Source{Path: "/proc/self/mountinfo"}))
}

func homeless(f node.Facts, address string) node.Facts {
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	moved := append([]node.PCIFunction{}, functions...)
	for i := range moved {
		if moved[i].Address == address || moved[i].Class == "060400" {
			moved[i].NUMANode = -1
		}
	}
	inv.PCI = node.Known(moved, inv.PCI.Source())
	return f.WithInventory(inv)
}

func TestPlatform(t *testing.T) {
	all := `check "platform" "host" {
		numa_known            = true
		numa_nodes_per_socket = [1, 4]
		governor              = "performance"
		transparent_hugepages = ["madvise", "always"]
		irqbalance            = false
		shm_min               = 1073741824
	}`
	one := func(attribute string) string { return "check \"platform\" \"host\" {\n" + attribute + "\n}" }
	root := host().Inventory
	root.RootDirectory = true
	active := func(state string) node.Answer {
		return unit("irqbalance.service", node.UnitState{Load: "loaded", Active: node.Known(state, node.Source{})})
	}
	plantest.Run(t, checks.All(), []plantest.Case{
		{
			Name: "as wanted", Blocks: all, Facts: host(),
			Says: []string{"4 NUMA nodes on each of 2 sockets", "/dev/shm holds 1073741824 bytes", "the frequency governor is performance"},
			Want: `
				ok platform.governor governor (/sys/devices/system/cpu/cpufreq)
				ok platform.irqbalance irqbalance.service (systemd)
				ok platform.numa_known numa_node (/sys/bus/pci/devices)
				ok platform.numa_nodes_per_socket numa_nodes_per_socket (/sys/devices/system/node)
				ok platform.shm /dev/shm (/proc/self/mountinfo)
				ok platform.transparent_hugepages transparent_hugepages (/sys/kernel/mm/transparent_hugepage/enabled)
			`,
		},
		{
			Name: "nothing as wanted", Blocks: all,
			Facts: homeless(host(
				node.NUMANodes.Answer("", node.Known([]node.NUMANode{{CPUs: "0-1"}, {CPUs: "2-3"}, {CPUs: "4-5"}, {CPUs: "6-7"}}, node.Source{Path: "/sys/devices/system/node"})),
				cpus(node.CPUState{Packages: 2, Governors: node.Known(map[string]int{"performance": 1, "schedutil": 127}, node.Source{})}),
				hugePages("always madvise [never]\n"), active("active"),
				shm(node.MountState{Point: "/dev/shm", Type: "tmpfs", Size: node.Known(uint64(64<<20), node.Source{})}),
			), slotNIC),
			Says: []string{
				"firmware does not say to which NUMA node these belong: " + slotNIC, "2 NUMA nodes on each of 2 sockets, wanted is 1 or 4",
				"the frequency governor is performance and schedutil, wanted is performance", "transparent huge pages: never, wanted is madvise or always\nboot argument transparent_hugepage=madvise",
				"irqbalance.service is active", "/dev/shm holds 67108864 bytes, wanted are at least 1073741824 bytes",
			},
			Want: `
				drift platform.governor governor ()
				drift platform.irqbalance irqbalance.service (systemd)
				drift platform.numa_known numa_node (/sys/bus/pci/devices)
				drift platform.numa_nodes_per_socket numa_nodes_per_socket (/sys/devices/system/node)
				drift platform.shm /dev/shm (/proc/self/mountinfo)
				drift platform.transparent_hugepages transparent_hugepages (/sys/kernel/mm/transparent_hugepage/enabled)
			`,
		},
		{
			Name: "nothing recorded", Blocks: all, Facts: plantest.Node(),
			Want: `
				unknown platform.governor  ()
				unknown platform.irqbalance  ()
				unknown platform.numa_known  ()
				unknown platform.numa_nodes_per_socket  ()
				unknown platform.shm  ()
				unknown platform.transparent_hugepages  ()
			`,
		},
		{
			Name: "a virtual machine", Blocks: one("numa_known = true\ngovernor = \"performance\"\ntransparent_hugepages = [\"always\"]\nirqbalance = false"),
			Facts: virtual(host(
				cpus(node.CPUState{Packages: 1, Governors: node.Unsupported[map[string]int]("the kernel does not set the processors' frequency here", node.Source{})}),
				hugePages(""), unit("irqbalance.service", node.UnitState{Load: "not-found"}),
			)),
			Want: `
				skipped platform.governor governor ()
				ok platform.irqbalance irqbalance.service (systemd)
				ok platform.numa_known numa_node (/sys/bus/pci/devices)
				skipped platform.transparent_hugepages transparent_hugepages (/sys/kernel/mm/transparent_hugepage/enabled)
			`,
		},
		{
			Name: "in parts unknown", Blocks: one("numa_nodes_per_socket = [1]\ngovernor = \"performance\"\ntransparent_hugepages = [\"always\"]\nirqbalance = false\nshm_min = 1"),
			Facts: host(
				cpus(node.CPUState{Packages: 3}), hugePages("always"), unit("irqbalance.service", node.UnitState{Load: "loaded"}), shm(node.MountState{Point: "/dev/shm", Type: "tmpfs"}),
			),
			Says: []string{"8 NUMA nodes over 3 sockets"},
			Want: `
				unknown platform.governor  ()
				unknown platform.irqbalance  ()
				unknown platform.numa_nodes_per_socket numa_nodes_per_socket (/sys/devices/system/node)
				unknown platform.shm  ()
				unknown platform.transparent_hugepages transparent_hugepages (/sys/kernel/mm/transparent_hugepage/enabled)
			`,
		},
		{
			Name: "no /dev/shm, irqbalance allowed", Blocks: one("shm_min = 1\nirqbalance = true"), Facts: host(shm(node.MountState{Point: "/", Type: "ext4"}), active("active")),
			Want: `
				ok platform.irqbalance irqbalance.service (systemd)
				drift platform.shm /dev/shm (/proc/self/mountinfo)
			`,
		},
		logind("logind's files say nothing", nil, "drift platform.remove_ipc RemoveIPC (/etc/systemd)", "removes what users leave"),
		logind("built with yes", map[string]string{"/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\n"}, "drift platform.remove_ipc RemoveIPC (/etc/systemd/logind.conf)", "RemoveIPC=no below [Login]"),
		logind("built with no", map[string]string{"/usr/lib/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"}, "ok platform.remove_ipc RemoveIPC (/usr/lib/systemd/logind.conf)", "keeps what users leave"),
		logind("set", map[string]string{"/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\nRemoveIPC=off\n"}, "ok platform.remove_ipc RemoveIPC (/etc/systemd/logind.conf:3)", ""),
		logind("a fragment wins", map[string]string{"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n", "/usr/lib/systemd/logind.conf.d/10.conf": "[Login]\nRemoveIPC=yes\n"}, "drift platform.remove_ipc RemoveIPC (/usr/lib/systemd/logind.conf.d/10.conf:2)", ""),
		logind("another logind.conf is hidden", map[string]string{"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n", "/usr/lib/systemd/logind.conf": "[Login]\nRemoveIPC=yes\n"}, "ok platform.remove_ipc RemoveIPC (/etc/systemd/logind.conf:2)", ""),
		{
			Name: "logind's files are unreadable", Blocks: one("remove_ipc = false"), Says: []string{"is unknown: permission denied"},
			Facts: plantest.Node(node.LogindConfFiles.Answer("", node.Known([]confdir.File{{Path: "/etc/systemd/logind.conf", Reason: "permission denied"}}, node.Source{}))),
			Want:  "unknown platform.remove_ipc RemoveIPC (/etc/systemd/logind.conf)", After: "unknown platform.remove_ipc RemoveIPC (/etc/systemd/logind.conf)",
		},
		{
			Name: "logind is not recorded", Blocks: one("remove_ipc = false"), Facts: plantest.Node(), Want: "unknown platform.remove_ipc  ()", After: "unknown platform.remove_ipc  ()",
		},
		{Name: "logind may", Blocks: one("remove_ipc = true"), Facts: plantest.Node(plantest.Files(node.LogindConfFiles, nil)), Want: "ok platform.remove_ipc RemoveIPC (/etc)"},
		{
			Name: "a root directory", Blocks: all, Facts: host().WithInventory(root),
			Want: `
				skipped platform.host host ()
			`,
		},
	})
}

// logind is a node with these files of systemd-logind, which must not remove anything.
func logind(name string, files map[string]string, want, says string) plantest.Case {
	list := []confdir.File{}
	for p, text := range files {
		list = append(list, confdir.File{Path: p, Text: text})
	}
	c := plantest.Case{
		Name: name, Blocks: "check \"platform\" \"host\" { remove_ipc = false }", Want: want, Says: []string{says},
		Facts: plantest.Node(node.LogindConfFiles.Answer("", node.Known(list, node.Source{Path: "/etc/systemd"}))),
	}
	if strings.HasPrefix(want, "drift") {
		c.After = want
	}
	return c
}

// TestNUMAKnown: what follows where firmware does not say a NUMA node.
func TestNUMAKnown(t *testing.T) {
	asked := `check "platform" "numa" { numa_known = true }`
	nodes := func(cpus ...string) node.Answer {
		var list []node.NUMANode
		for id, c := range cpus {
			list = append(list, node.NUMANode{ID: id, CPUs: c})
		}
		return node.NUMANodes.Answer("", known(list))
	}
	unsaid := rails(second(func(r *rail) { r.pci[5].NUMANode = -1 }))
	undetected := unsaid.Inventory
	undetected.Virtualization = denied[string]()
	const said = "ok platform.numa_known numa_node (/sys)"
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("two NUMA nodes", asked, unsaid.With(nodes("0-31", "32-63")), "drift platform.numa_known numa_node (/sys)", "these belong: 0000:24:00.0\nlook for NUMA, NPS or SNC"),
		judge("one NUMA node, beside one of memory", asked, unsaid.With(nodes("", "0-63")), said, "all GPUs and NICs belong to NUMA node 1, the only one with CPUs"),
		judge("a virtual machine", asked, virtual(unsaid), "drift info platform.numa_known numa_node (/sys)", "0000:24:00.0; that is usual in a virtual machine\ngive NCCL the host's topology as a file (NCCL_TOPO_FILE)"),
		judge("a virtual machine or not", asked, unsaid.WithInventory(undetected).With(nodes("0-63")), "unknown platform.numa_known  (/sys)"),
		judge("how many NUMA nodes is unknown", asked, unsaid.With(node.NUMANodes.Answer("", denied[[]node.NUMANode]())), "unknown platform.numa_known  (/sys)"),
		judge("virtual functions, and what is neither GPU nor NIC", asked, rails(second(func(r *rail) {
			function := r.pci[5]
			function.Address, function.NUMANode, function.PhysicalFunction = "0000:25:00.0", -1, r.pci[5].Address
			r.pci[0].NUMANode = -1
			r.pci = append(r.pci, function)
		})), said),
	})
}

// TestTopologyFile: NCCL has to be given the topology of a virtual machine's host.
func TestTopologyFile(t *testing.T) {
	const asked, file = `check "platform" "topology" { topology_file = true }`, "/var/run/nvidia-topologyd/virtualTopology.xml"
	there := node.Path.Answer(file, node.Known(node.PathState{Exists: true, Type: "file"}, node.Source{Path: file}))
	absent := node.Path.Answer(file, node.Known(node.PathState{}, node.Source{Path: file}))
	unsaid := rails().Inventory
	unsaid.Virtualization = denied[string]()
	const ok = "ok platform.topology_file NCCL_TOPO_FILE "
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("bare metal", asked, rails(), ok+"(/sys)", "this is no virtual machine"),
		judge("a virtual machine whose topology nothing tells", asked, virtual(rails()).With(absent), "drift platform.topology_file NCCL_TOPO_FILE (/etc/nccl.conf)",
			"nothing tells NCCL how near the 2 GPUs and the 2 RDMA NICs of this virtual machine (kvm) are to each other", "set NCCL_TOPO_FILE in /etc/nccl.conf (block nccl)"),
		judge("a file that is named", asked, virtual(rails()).With(ncclConf("NCCL_TOPO_FILE=/opt/topo.xml\n"), absent), ok+"(/etc/nccl.conf:1)"),
		judge("the file that NCCL looks for", asked, virtual(rails()).With(there), ok+"("+file+")"),
		judge("no RDMA NIC", asked, virtual(rails(both(func(r *rail) { r.device = node.RDMADevice{} }))).With(absent), ok+"()"),
		judge("no GPU", asked, virtual(rails(both(func(r *rail) { r.pci[4].Vendor = "8086" }))).With(absent), ok+"()"),
		judge("a virtual machine or not", asked, rails().WithInventory(unsaid), "unknown platform.topology_file  (/sys)"),
		judge("NCCL's file is unread", asked, virtual(rails()).With(node.File.Answer("/etc/nccl.conf", denied[node.FileState]()), there), "unknown platform.topology_file  (/sys)"),
		judge("not looked for", asked, virtual(rails()), "unknown platform.topology_file  ()"),
	})
}
