package modules_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"busbar/internal/kernlog"
	"busbar/internal/modprobe"
	"busbar/node"
	"busbar/node/live"
	"busbar/plan/plantest"
)

// gpuAt is the address of GPU number i.
func gpuAt(i int) string { return fmt.Sprintf("0000:%02x:00.0", 16*(i+1)) }

// gpuNode has n GPUs of a PCI device id on bare metal, up for an hour, with the open driver and without a fabric manager.
func gpuNode(device string, n int, answers ...node.Answer) node.Facts {
	f := plantest.Node(
		node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{Loaded: true, Version: "580.95.05", Open: true}, node.Source{})),
		node.ConfidentialComputing.Answer("", node.Known(node.ConfidentialComputingState{Environment: "unavailable"}, node.Source{})),
		fabricManager("not-found", "inactive"),
	).With(answers...)
	var functions []node.PCIFunction
	for i := range n {
		functions = append(functions, node.PCIFunction{Address: gpuAt(i), Vendor: "10de", Device: device, Class: "030200", Driver: "nvidia"})
	}
	inv := f.Inventory
	inv.Virtualization, inv.Uptime, inv.PCI = node.Known("none", node.Source{}), node.Known(time.Hour, node.Source{}), node.Known(functions, node.Source{})
	return f.WithInventory(inv)
}

func fabricManager(load, active string) node.Answer {
	return node.Unit.Answer("nvidia-fabricmanager.service", node.Known(node.UnitState{Load: load, Active: node.Known(active, node.Source{})}, node.Source{}))
}

// switched adds an NVSwitch, and the fabric manager that runs.
func switched(f node.Facts) node.Facts {
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	inv.PCI = node.Known(append(slices.Clone(functions), node.PCIFunction{Address: "0000:07:00.0", Vendor: "10de", Device: "22a3", Class: "068000"}), node.Source{})
	return f.WithInventory(inv).With(fabricManager("loaded", "active"))
}

func inVM(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.Virtualization = node.Known("kvm", node.Source{})
	return f.WithInventory(inv)
}

var terminalCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// matrix is a node whose GPUs, of a device id and with so many links each, are connected as a case's matrix of nvidia-smi topo -m
// says. What it does not say is unknown.
func (c cases) matrix(name, device string, links int) node.Facts {
	rows := strings.Split(terminalCodes.ReplaceAllString(c.read(name), ""), "\n")
	heading := strings.Fields(rows[0])
	n := 0
	for n < len(heading) && strings.HasPrefix(heading[n], "GPU") && heading[n] != "GPU" {
		n++
	}
	shown := map[string][]int{} // NV# to each GPU by address; 0 is none
	for _, row := range rows[1:] {
		cells := strings.Fields(row)
		if len(cells) <= n || !strings.HasPrefix(cells[0], "GPU") {
			continue
		}
		var numbers []int
		for _, cell := range cells[1 : n+1] {
			count, _ := strconv.Atoi(strings.TrimPrefix(cell, "NV"))
			numbers = append(numbers, count)
		}
		i, err := strconv.Atoi(strings.TrimPrefix(cells[0], "GPU"))
		if err != nil {
			c.Fatalf("%s: row %q", name, cells[0])
		}
		shown[gpuAt(i)] = numbers
	}
	f := gpuNode(device, n)
	pairs := node.P2PState{}
	for i := range n {
		numbers, ok := shown[gpuAt(i)]
		pairs.GPUs = append(pairs.GPUs, gpuAt(i))
		for j := range n {
			p := node.P2PPair{From: gpuAt(i), To: gpuAt(j)}
			if ok {
				p.Read, p.Write, p.NVLink = node.Known(node.P2POK, node.Source{}), node.Known(node.P2POK, node.Source{}), node.Known(node.P2PNotSupported, node.Source{})
				if numbers[j] > 0 {
					p.NVLink = node.Known(node.P2POK, node.Source{})
				}
			}
			pairs.Pairs = append(pairs.Pairs, p)
		}
		if ok {
			f = f.With(node.NVLinks.Answer(gpuAt(i), node.Known(ports(numbers, links), node.Source{Call: "NVML"})))
		}
		f = f.With(node.GPUInfo.Answer(gpuAt(i), node.Known(node.GPUState{MIG: node.Known(false, node.Source{})}, node.Source{})))
	}
	f = f.With(node.P2P.Answer("", node.Known(pairs, node.Source{})))
	for i := range n {
		for j, want := range shown[gpuAt(i)] {
			if _, ok := shown[gpuAt(j)]; !ok || i == j {
				continue
			}
			if got, _ := f.NVLinksBetween(gpuAt(i), gpuAt(j)).Get(); got != want {
				c.Errorf("%s: NV%d between GPU%d and GPU%d, %d are counted", name, want, i, j, got)
			}
		}
	}
	return f
}

// ports are the links of a GPU that has numbers of them to others: straight where it has enough for that, else through NVSwitches.
func ports(numbers []int, links int) node.NVLinkState {
	total := 0
	for _, number := range numbers {
		total += number
	}
	var s node.NVLinkState
	active := func(remote, address string) {
		s.Links = append(s.Links, node.NVLinkPort{
			Link: len(s.Links), State: node.Known(node.NVLinkActive, node.Source{}), Remote: node.Known(remote, node.Source{}), RemoteAddress: node.Known(address, node.Source{}),
			SpeedMBps: node.Known(53125, node.Source{}),
		})
	}
	for i, number := range numbers {
		for range number {
			switch {
			case total <= links:
				active(node.NVLinkToGPU, gpuAt(i))
			case len(s.Links) < number:
				active(node.NVLinkToSwitch, "0000:07:00.0")
			}
		}
	}
	for len(s.Links) < links {
		s.Links = append(s.Links, node.NVLinkPort{Link: len(s.Links), State: node.Known(node.NVLinkInactive, node.Source{})})
	}
	return s
}

// The checks that the rows of matrices judge.
const (
	nvlinkCheck = "check \"nvlink\" \"all\" {}\n"
	p2pCheck    = "check \"p2p\" \"all\" {}\n"
	meshCheck   = "check \"p2p\" \"all\" { nvlink = true }\n"
	fabricCheck = "check \"fabric\" \"all\" {}\n"
)

func matrixRows(c cases) []row {
	pcie, b200 := c.matrix("topo-pcie-8gpu-pix-phb.txt", "26b9", 0), c.matrix("topo-b200-gpu2-off-nvlink.txt", "2901", 18)
	for i := range 8 {
		pcie = pcie.With(node.GPUFabric.Answer(gpuAt(i), node.Unsupported[node.GPUFabricState]("Not Supported", node.Source{})))
	}
	truncated := c.matrix("topo-truncated-rows.txt", "2330", 18)
	mig := c.matrix("topo-2xa100-mig.txt", "20b5", 12)
	flat := inVM(c.matrix("topo-vm-flat-phb.txt", "2330", 18))
	whole := func(input, device string, links int, facts func(node.Facts) node.Facts) row {
		return row{input: input, blocks: nvlinkCheck + meshCheck, verdict: "PASS", facts: facts(c.matrix(input, device, links)), says: []string{"ok p2p.nvlink NVLink"}, silent: "skipped"}
	}
	as := func(f node.Facts) node.Facts { return f }
	return []row{
		whole("topo-h100-hgx-9nic.txt", "2330", 18, switched),
		whole("topo-h100-hgx-9nic-ansi.txt", "2330", 18, switched),
		whole("topo-dgx-a100-10nic-nps4.txt", "20b0", 12, switched),
		whole("topo-4xh100-nv6-interleaved-cpus.txt", "2330", 18, as),
		{input: "topo-pcie-8gpu-pix-phb.txt", blocks: nvlinkCheck + p2pCheck + fabricCheck, verdict: "PASS", facts: pcie, says: []string{"ok nvlink.links", "skipped fabric.state", "the fabric manager is not needed"}, silent: "drift"},
		{input: "topo-pcie-8gpu-pix-phb.txt", condition: "NVLink is wanted", blocks: "check \"nvlink\" \"all\" { links = 18 }", verdict: "FAIL", facts: pcie, says: []string{"has no NVLink active, wanted is 18"}},
		{input: "topo-v100-cubemesh-oldformat.txt", blocks: nvlinkCheck + p2pCheck, verdict: "PASS", facts: c.matrix("topo-v100-cubemesh-oldformat.txt", "1db1", 6), says: []string{"has 6 NVLinks active"}, silent: "drift"},
		{
			input: "topo-b200-gpu2-off-nvlink.txt", blocks: nvlinkCheck + meshCheck, verdict: "FAIL", facts: b200,
			says: []string{"drift nvlink.links " + gpuAt(2), "ok nvlink.links " + gpuAt(1), "GPUs that do not reach each other over NVLink: " + gpuAt(2) + " and 7 others"},
		},
		{input: "topo-vm-flat-phb.txt", condition: "NVLink", blocks: nvlinkCheck + meshCheck, verdict: "PASS", facts: flat},
		{input: "topo-vm-flat-phb.txt", blocks: nvlinkCheck + "check \"rails\" \"all\" { severity = \"warn\" }", verdict: "WARN", facts: flat, says: []string{"unknown warn rails.nics", "a virtual machine (kvm) has the PCI tree that its hypervisor chose to show"}},
		{
			input: "topo-vm-flat-phb.txt", condition: "NCCL's topology file", blocks: "check \"platform\" \"topology\" {\ntopology_file = true\nseverity = \"warn\"\n}", verdict: "WARN", facts: withRDMA(flat).With(
				ncclConf(""), node.Path.Answer("/var/run/nvidia-topologyd/virtualTopology.xml", node.Known(node.PathState{}, node.Source{}))),
			says: []string{"drift warn platform.topology_file NCCL_TOPO_FILE", "set NCCL_TOPO_FILE"},
		},
		{input: "topo-a100-nics-all-sys.txt", condition: "NVLink", blocks: nvlinkCheck + meshCheck, verdict: "PASS", facts: switched(c.matrix("topo-a100-nics-all-sys.txt", "20b2", 12))},
		c.railless("topo-a100-nics-all-sys.txt"),
		{input: "topo-mp-hides-nvlink.txt", blocks: nvlinkCheck, verdict: "UNKNOWN", facts: gpuNode("2330", 8), says: []string{"how many NVLinks are active of GPU " + gpuAt(0) + " is unknown"}, silent: "drift"},
		{input: "topo-3xa6000-one-bridge.txt", blocks: nvlinkCheck + p2pCheck, verdict: "PASS", facts: c.matrix("topo-3xa6000-one-bridge.txt", "2230", 4), says: []string{"GPU " + gpuAt(2) + " (RTX A6000) has no NVLink active"}, silent: "drift"},
		{input: "topo-2xa100-mig.txt", blocks: nvlinkCheck + p2pCheck, verdict: "PASS", facts: mig, silent: "drift"},
		{input: "topo-truncated-rows.txt", blocks: nvlinkCheck + meshCheck, verdict: "UNKNOWN", facts: truncated, says: []string{"ok nvlink.links " + gpuAt(3), "unknown nvlink.links " + gpuAt(7), "unknown p2p.nvlink NVLink, unknown"}, silent: "drift"},
		{input: "topo-8x4090-all-sys-nps4.txt", blocks: nvlinkCheck, verdict: "PASS", facts: c.matrix("topo-8x4090-all-sys-nps4.txt", "2684", 0), says: []string{"how many are normal for a 10de:2684 is not known"}},
		{input: "topo-1gpu-2nic-node.txt", blocks: nvlinkCheck + p2pCheck, verdict: "PASS", facts: c.matrix("topo-1gpu-2nic-node.txt", "2330", 18), says: []string{"skipped nvlink.links gpus", "skipped p2p.access gpus"}},

		{input: "nvidia-smi-mig-mode.csv", blocks: "check \"gpus\" \"all\" {\nmig = false\nseverity = \"warn\"\n}", verdict: "WARN", facts: c.divided(mig, node.P2POK), says: []string{"drift warn gpus.mig " + gpuAt(0), "drift warn gpus.mig " + gpuAt(1)}},
		{input: "nvidia-smi-mig-mode.csv", condition: "peers are wanted", blocks: p2pCheck, verdict: "FAIL", facts: c.divided(mig, node.P2PNotSupported), says: []string{"turn MIG off (nvidia-smi -mig 0) on " + gpuAt(0) + " and " + gpuAt(1)}},
	}
}

// railless has NICs of which no GPU is nearer than the interconnect of NUMA nodes, whichever its own: firmware does not say theirs.
func (c cases) railless(input string) row {
	f := c.matrix(input, "20b2", 12)
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	functions = slices.Clone(functions)
	for i := range functions {
		functions[i].NUMANode = i / 4
	}
	for i := range 4 {
		functions = append(functions, node.PCIFunction{Address: fmt.Sprintf("0000:c%d:00.0", i), Vendor: "15b3", Device: "101b", Class: "020700", NUMANode: -1, Driver: "mlx5_core"})
	}
	inv.PCI = node.Known(functions, node.Source{})
	inv.RDMA, inv.Netdevs, inv.Protected = node.Known([]node.RDMADevice{}, node.Source{}), node.Known([]node.Netdev{}, node.Source{}), node.Known([]node.ProtectedNetdev{}, node.Source{})
	return row{
		input: input, blocks: "check \"rails\" \"all\" { severity = \"warn\" }", verdict: "WARN", facts: f.WithInventory(inv),
		says: []string{"drift warn rails.nics nics", "where none is at PXB or nearer to a GPU"}, silent: "ok rails.gpu",
	}
}

// divided are the GPUs of a case of nvidia-smi --query-gpu=index,name,pci.bus_id,mig.mode.current, with that access to each other.
func (c cases) divided(f node.Facts, access string) node.Facts {
	var pairs []node.P2PPair
	for line := range strings.Lines(c.read("nvidia-smi-mig-mode.csv")) {
		columns := strings.Split(strings.TrimSpace(line), ", ")
		i, err := strconv.Atoi(columns[0])
		if err != nil || len(columns) != 4 {
			c.Fatalf("%q", line)
		}
		enabled := node.Known(columns[3] == "Enabled", node.Source{})
		f = f.With(node.GPUInfo.Answer(gpuAt(i), node.Known(node.GPUState{Product: node.Known(columns[1], node.Source{}), MIG: enabled, MIGPending: enabled}, node.Source{})))
		pairs = append(pairs, node.P2PPair{From: gpuAt(i), To: gpuAt(1 - i), Read: node.Known(access, node.Source{}), Write: node.Known(access, node.Source{})})
	}
	return f.With(node.P2P.Answer("", node.Known(node.P2PState{GPUs: []string{gpuAt(0), gpuAt(1)}, Pairs: pairs}, node.Source{})))
}

var (
	linkLine   = regexp.MustCompile(`^Link (\d+): (?:([0-9.]+) GB/s|<inactive>)$`)
	fabricLine = regexp.MustCompile(`(?m)^ +(State|Status|CliqueId|ClusterUUID) +: (.+)$`)
)

// linkStatus are the links that nvidia-smi nvlink -s printed.
func (c cases) linkStatus(name string) node.NVLinkState {
	var s node.NVLinkState
	for line := range strings.Lines(c.read(name)) {
		m := linkLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		l := node.NVLinkPort{State: node.Known(node.NVLinkInactive, node.Source{})}
		l.Link, _ = strconv.Atoi(m[1])
		if m[2] != "" {
			speed, _ := strconv.Atoi(strings.Replace(m[2], ".", "", 1))
			l.State, l.SpeedMBps = node.Known(node.NVLinkActive, node.Source{}), node.Known(speed, node.Source{})
		}
		s.Links = append(s.Links, l)
	}
	return s
}

// registration is the block Fabric of nvidia-smi -q.
func (c cases) registration(name string) node.Answer {
	s := node.GPUFabricState{}
	for _, m := range fabricLine.FindAllStringSubmatch(c.read(name), -1) {
		switch m[1] {
		case "State":
			s.State = strings.ReplaceAll(strings.ToLower(m[2]), " ", "-")
		case "Status":
			s.Status = strings.ToLower(m[2])
		case "CliqueId":
			clique, _ := strconv.ParseUint(m[2], 10, 32)
			s.Clique = uint32(clique)
		case "ClusterUUID":
			s.ClusterUUID = m[2]
		}
	}
	return node.GPUFabric.Answer(gpuAt(0), node.Known(s, node.Source{}))
}

func nvidiaRows(c cases) []row {
	const noWork = "fm-nothing-to-do.log"
	if !strings.Contains(c.read(noWork), "NV_WARN_NOTHING_TO_DO") {
		c.Fatal(noWork)
	}
	two := c.linkStatus("nvlink-s-two-inactive.txt")
	siblings := node.NVLinkState{}
	for i := range two.Links {
		siblings.Links = append(siblings.Links, node.NVLinkPort{Link: i, State: node.Known(node.NVLinkActive, node.Source{}), SpeedMBps: node.Known(25781, node.Source{})})
	}
	volta := gpuNode("1db5", 4, node.NVLinks.Answer(gpuAt(3), node.Known(two, node.Source{})))
	for i := range 3 {
		volta = volta.With(node.NVLinks.Answer(gpuAt(i), node.Known(siblings, node.Source{})))
	}
	early := gpuNode("2330", 1, c.registration("fabric-in-progress.txt"))
	inv := early.Inventory
	inv.Uptime = node.Known(30*time.Second, node.Source{})
	none := gpuNode("20b5", 0)
	for i := range strings.Count(c.read("fabric-na-pcie.csv"), ", N/A, N/A\n") {
		none = gpuNode("20b5", i+1, node.GPUFabric.Answer(gpuAt(0), node.Unsupported[node.GPUFabricState]("N/A", node.Source{})), node.GPUFabric.Answer(gpuAt(1), node.Unsupported[node.GPUFabricState]("N/A", node.Source{})))
	}
	imex := node.Unit.Answer("nvidia-imex.service", node.Known(node.UnitState{Load: "loaded", File: "enabled", Active: node.Known("active", node.Source{})}, node.Source{}))
	return []row{
		{
			input: "nvlink-s-two-inactive.txt", blocks: nvlinkCheck, verdict: "FAIL", facts: volta,
			says: []string{"drift nvlink.links " + gpuAt(3), "has 4 NVLinks active, wanted is 6: links 3 and 5 are not", "ok nvlink.links " + gpuAt(2), "ok nvlink.speed " + gpuAt(3)},
		},
		{
			input: "fm-version-mismatch/", blocks: `check "driver" "all" {}`, verdict: "FAIL", facts: c.skewed(),
			says: []string{"drift driver.fabric_manager fabric manager", "the driver is 530.41.03, the fabric manager 530.30.02"},
		},
		{
			input: noWork, condition: "no NVSwitch", blocks: fabricCheck, verdict: "PASS", facts: none.With(fabricManager("loaded", "failed")),
			says: []string{"drift info fabric.manager", "NV_WARN_NOTHING_TO_DO", "systemctl disable --now nvidia-fabricmanager.service"},
		},
		{
			input: noWork, condition: "NVSwitches", blocks: fabricCheck, verdict: "FAIL", facts: switched(gpuNode("2330", 1, c.registration("fabric-completed.txt"))).With(fabricManager("loaded", "failed")),
			says: []string{"drift fabric.manager", "the fabric manager is failed, and the node has NVSwitches"},
		},
		{input: "fabric-in-progress.txt", blocks: fabricCheck, verdict: "FAIL", facts: gpuNode("2330", 1, c.registration("fabric-in-progress.txt")), says: []string{"is not registered with its fabric: in-progress"}},
		{input: "fabric-in-progress.txt", condition: "after boot", blocks: fabricCheck, verdict: "UNKNOWN", facts: early.WithInventory(inv), says: []string{"in-progress, and the node is up for 30s only"}},
		{
			input: "fabric-completed.txt", blocks: "check \"fabric\" \"rack\" { cluster = true }", verdict: "PASS", facts: gpuNode("2941", 1, c.registration("fabric-completed.txt"), imex),
			says: []string{"ok fabric.state", "the fabric manager is not needed", "ok fabric.imex"},
		},
		{input: "fabric-na-pcie.csv", blocks: fabricCheck, verdict: "PASS", facts: none, says: []string{"skipped fabric.state " + gpuAt(0), "skipped fabric.state " + gpuAt(1)}, silent: "drift"},
		{
			input: "imex-and-dra.txt", blocks: "service \"nvidia-imex\" {\nmasked = true\nactive = false\n}", verdict: "FAIL", facts: plantest.Node(imex, plantest.FilesOf(node.UnitFiles, "nvidia-imex.service", map[string]string{"/usr/lib/systemd/system/nvidia-imex.service": "[Service]\n"})),
			says: []string{"!drift service.", "nvidia-imex.service"},
		},
		{
			input: "imex-and-dra.txt", condition: "judged alone", blocks: "check \"fabric\" \"rack\" { imex = false }", verdict: "FAIL", facts: gpuNode("2941", 1, c.registration("fabric-completed.txt"), imex),
			says: []string{"drift fabric.imex nvidia-imex.service", "IMEX of the host is active and not masked"},
		},
		c.exports("modules-inbox-open-dmabuf.txt", "dmabuf", "PASS", "ok gpudirect_rdma.dmabuf"),
		c.exports("modules-peermem-missing.txt", "any", "FAIL", "drift gpudirect_rdma.path"),
		c.exports("modules-peermem-ok.txt", "peermem", "PASS", "ok gpudirect_rdma.peermem"),
		{
			input: "modules-no-ib-umad.txt", blocks: fabricCheck, verdict: "FAIL",
			facts: gpuNode("2901", 1, c.registration("fabric-completed.txt"), fabricManager("loaded", "active"), node.Path.Answer("/opt/nvidia/nvlsm/sbin/nvlsm", node.Known(node.PathState{Exists: true, Type: "file"}, node.Source{}))).With(c.module("modules-no-ib-umad.txt", "ib_umad")),
			says:  []string{"drift fabric.management_module ib_umad"}, silent: "drift fabric.state",
		},
		{
			input: "modules-no-ib-umad.txt", condition: "NVSwitches of an earlier generation", blocks: fabricCheck, verdict: "PASS",
			facts: switched(gpuNode("2330", 1, c.registration("fabric-completed.txt"))).With(c.module("modules-no-ib-umad.txt", "ib_umad")), silent: "ib_umad",
		},
	}
}

// module is one of those in a case of /proc/modules.
func (c cases) module(name, module string) node.Answer {
	list, err := modprobe.ParseProcModules(c.read(name))
	if err != nil {
		c.Fatal(err)
	}
	return loaded(module, slices.ContainsFunc(list, func(m modprobe.Loaded) bool { return m.Name == module }))
}

// exports judges a way to GPU memory where /proc/modules is a case. The flag P (proprietary) of nvidia tells the flavour of the driver; that
// nvidia_peermem is registered, that ib_uverbs is used by it.
func (c cases) exports(input, path, verdict, says string) row {
	text := c.read(input)
	proprietary := regexp.MustCompile(`(?m)^nvidia .*\(P`).MatchString(text)
	client := node.PathState{Exists: regexp.MustCompile(`(?m)^ib_uverbs .*nvidia_peermem`).MatchString(text)}
	return row{
		input: input, condition: "GPUDirect RDMA by " + path, verdict: verdict, says: []string{says}, blocks: `check "gpudirect_rdma" "all" { path = "` + path + `" }`,
		facts: gpuNode("2330", 1, c.module(input, "nvidia_peermem"), node.Path.Answer("/sys/kernel/mm/memory_peers/nv_mem/version", node.Known(client, node.Source{})),
			node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{Loaded: true, Version: "580.95.05", Open: !proprietary}, node.Source{}))),
	}
}

// skewed has the driver of a case's tree, and the fabric manager of its list of packages.
func (c cases) skewed() node.Facts {
	const dir = "fm-version-mismatch"
	m := regexp.MustCompile(`(?m)^ii  nvidia-fabricmanager-\d+ +([0-9.]+)-\d+ `).FindStringSubmatch(c.read(dir + "/dpkg-l.txt"))
	if m == nil {
		c.Fatal("no fabric manager in dpkg-l.txt")
	}
	reader := live.New(live.Options{Root: c.dir + "/" + dir, Running: true})
	driver := reader.Read(c.Context(), node.Inventory{}, []node.Query{node.NVIDIADriver.Query("")})
	return switched(gpuNode("20b2", 1)).With(
		same(driver, node.NVIDIADriver, ""),
		node.FabricManager.Answer("", node.Known(node.FabricManagerState{Installed: true, Version: node.Known(m[1], node.Source{})}, node.Source{})),
		node.NVML.Answer("", node.Known(node.NVMLState{Version: "12.530.41.03", Driver: node.Known("530.41.03", node.Source{})}, node.Source{})),
	)
}

// withRDMA adds an RDMA NIC to a node.
func withRDMA(f node.Facts) node.Facts {
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	nic := node.PCIFunction{Address: "0000:ff:00.0", Vendor: "15b3", Device: "101e", Class: "020000", Driver: "mlx5_core"}
	inv.PCI = node.Known(append(slices.Clone(functions), nic), inv.PCI.Source())
	inv.Netdevs = node.Known([]node.Netdev{{Name: "eth1", Type: node.ARPHardwareEthernet, PCI: nic.Address, Port: 1, Up: true}}, node.Source{})
	inv.RDMA = node.Known([]node.RDMADevice{{Name: "mlx5_0", PCI: nic.Address, Ports: []node.RDMADevicePort{{Port: 1, Netdev: "eth1", LinkLayer: node.Known("Ethernet", node.Source{})}}}}, node.Source{})
	return f.WithInventory(inv)
}

// kernelLogRows judge what dmesg printed.
func kernelLogRows(c cases) []row {
	judge := func(input, verdict string, says ...string) row {
		source := node.Source{Path: "/dev/kmsg"}
		state := node.NewKernelLogState(kernlog.ParseText(c.read(input)), source)
		facts := plantest.Node(node.KernelLog.Answer("", node.Known(state, source)), loaded("nvidia_peermem", false), loaded("nv_peer_mem", false))
		return row{input: input, blocks: "check \"kernel_log\" \"all\" {}", verdict: verdict, facts: facts, says: says}
	}
	return []row{
		judge("dmesg-peermem-symbol-version.txt", "FAIL", "drift kernel_log.module_symbol nvidia_peermem", "loading it again does not help"),
		judge("dmesg-peermem-unknown-symbol.txt", "FAIL", "drift kernel_log.module_symbol nv_peer_mem"),
		judge("dmesg-amdvi-unknown-on.txt", "PASS", "drift info kernel_log.option_unknown amd_iommu=on", "IOMMUs are set to Passthrough"),
		judge("dmesg-unsigned-module.txt", "FAIL", "drift kernel_log.module_unsigned modules"),
		judge("dmesg-nvreg-unknown.txt", "WARN", "drift warn kernel_log.parameter_unknown nvidia.NVreg_UsePageAttributeTable"),
		judge("dmesg-nvfs-no-symbol-version.txt", "FAIL", "drift kernel_log.module_unversioned nvidia_fs", "was not built against the NVIDIA driver that runs"),
		judge("dmesg-ordering-cycle.txt", "FAIL", "drift kernel_log.ordering_cycle systemd-resolved.service"),
	}
}
