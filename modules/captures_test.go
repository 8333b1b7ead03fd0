package modules_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"busbar/internal/nccltopo"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/profiles"
)

// openCaptures is the directory of public captures beside that of the cases.
func openCaptures(t *testing.T) cases {
	c := openCases(t)
	c.dir = filepath.Join(c.dir, "..", "captures", "public")
	if _, err := os.Stat(c.dir); err != nil {
		t.Skip("there are no public captures: ", err)
	}
	return c
}

// captured is a machine of which some facts were captured. All others are unknown.
type captured struct {
	inv node.Inventory
	// read answers queries; nil where the inventory is all that there is.
	read func(queries []node.Query) node.Facts
	// profile is the stock profile that matches.
	profile string
	// ok counts the findings that are ok, by id.
	ok map[string]int
	// wrong are findings that are not, ID TARGET, with what is really wrong there.
	wrong map[string]string
	// untold are the ids of unknown findings, with what the capture lacks.
	untold map[string]string
}

// judge plans the stock profile that matches, and returns the plan.
func (m captured) judge(t *testing.T) plan.Plan {
	t.Helper()
	loader := profiles.Loader{Types: types(), Dirs: []profiles.Dir{profiles.Stock()}}
	var all []*profiles.Profile
	for _, name := range loader.Names() {
		p, diagnostics := loader.Load(name)
		if len(diagnostics) > 0 {
			t.Fatalf("profile %s: %s", name, diagnostics[0].Summary)
		}
		all = append(all, p)
	}
	name, err := profiles.Choose(all, m.inv)
	if err != nil || name != m.profile {
		t.Fatalf("profile %q, want %q: %v", name, m.profile, err)
	}
	p := all[slices.IndexFunc(all, func(p *profiles.Profile) bool { return p.Name == name })]
	evaluation, diagnostics := p.Evaluate(m.inv)
	if len(diagnostics) > 0 {
		t.Fatal(diagnostics[0].Summary)
	}
	planner := plantest.Planner(types())
	facts := node.NewFacts(m.inv, time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), nil)
	if m.read != nil {
		facts = m.read(planner.Queries(evaluation.Blocks, m.inv))
	}
	ok, wrong, untold := map[string]int{}, map[string]bool{}, map[string]bool{}
	got := planner.Plan(evaluation.Blocks, facts)
	for _, f := range got.Findings {
		_, foretold := m.untold[f.ID]
		switch key := f.ID + " " + f.Target; {
		case f.Status == plan.OK:
			ok[f.ID]++
		case f.Status == plan.Skipped:
		case f.Status == plan.Undetermined && foretold:
			untold[f.ID] = true
		case f.Status == plan.Undetermined && strings.Contains(f.Summary, "not recorded"):
		case m.wrong[key] != "":
			wrong[key] = true
		default:
			t.Errorf("%s: %s %s %s %s: %s (%s)", name, f.Status, f.Severity, f.Address, key, f.Summary, f.Source)
		}
	}
	if !maps.Equal(m.ok, ok) {
		t.Errorf("%s: ok are %v, want %v", name, ok, m.ok)
	}
	for key, why := range m.wrong {
		if !wrong[key] {
			t.Errorf("%s: %s is not told: %s", name, key, why)
		}
	}
	for id, why := range m.untold {
		if !untold[id] {
			t.Errorf("%s: no %s is unknown, although %s", name, id, why)
		}
	}
	return got
}

// captureNetdevs gives each NIC a network device of a hardware type, and protects none: what captures seldom have.
func captureNetdevs(inv node.Inventory) node.Inventory {
	functions, _ := inv.PCI.Get()
	var list []node.Netdev
	for _, f := range functions {
		kind := map[string]int{"0200": node.ARPHardwareEthernet, "0207": node.ARPHardwareInfiniBand}[f.Class[:4]]
		if kind != 0 {
			list = append(list, node.Netdev{Name: fmt.Sprint("net", len(list)), Type: kind, PCI: f.Address, Port: 1, Up: true})
		}
	}
	inv.Netdevs, inv.Protected = node.Known(list, node.Source{}), node.Known([]node.ProtectedNetdev{}, node.Source{})
	inv.RDMA = node.Unknown[[]node.RDMADevice]("not recorded", node.Source{})
	return inv
}

// TestCapturedInfiniBand: /sys/class/infiniband of an H100 node, on an HGX board made by hand.
func TestCapturedInfiniBand(t *testing.T) {
	c := openCaptures(t)
	s := newSysfs(t)
	s.check(os.CopyFS(s.path("/sys/class/infiniband"), os.DirFS(filepath.Join(c.dir, "gpud/infiniband-class/sys-class-infiniband-h100.0"))))
	for i, device := range []string{"mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"} {
		root := fmt.Sprintf("pci0000:%x0/0000:%x0:01.0", i+1, i+1)
		s.function(root, "8086:352a", "060400")
		above := root + fmt.Sprintf("/0000:%x1:00.0", i+1)
		s.function(above, "1000:c030", "060400")
		s.function(above+fmt.Sprintf("/0000:%x2:00.0", i+1), "1000:c030", "060400")
		s.function(above+fmt.Sprintf("/0000:%x2:01.0", i+1), "1000:c030", "060400")
		s.function(above+fmt.Sprintf("/0000:%x2:00.0/0000:%x3:00.0", i+1, i+1), "10de:2330", "030200")
		nic := s.function(above+fmt.Sprintf("/0000:%x2:01.0/0000:%x4:00.0", i+1, i+1), "15b3:1021", "020700")
		s.of(nic, "/sys/class/infiniband/"+device)
		s.netdev(nic, fmt.Sprint("ib", i), node.ARPHardwareInfiniBand)
	}
	for i := range 4 {
		s.function(fmt.Sprintf("pci0000:a0/0000:a0:0%d.0", i), "10de:22a3", "068000")
	}
	front := s.function("pci0000:b0/0000:b0:00.0", "15b3:a2dc", "020000")
	s.of(front, "/sys/class/infiniband/mlx5_bond_0")
	s.netdev(front, "eth0", node.ARPHardwareEthernet)
	s.write("/proc/sys/kernel/arch", "x86_64\n")
	inv := s.inventory()
	captured{
		inv: inv, profile: "hgx-h100-ib",
		read: func(queries []node.Query) node.Facts {
			queries = slices.DeleteFunc(queries, func(q node.Query) bool { return q.Kind != node.RDMAPort.Name() })
			if len(queries) != 8 || slices.ContainsFunc(queries, func(q node.Query) bool { return strings.Contains(q.Key, "bond") }) {
				t.Errorf("the eight InfiniBand ports are not those that are asked about: %v", queries)
			}
			return s.reader().Read(t.Context(), inv, queries)
		},
		ok: map[string]int{
			"gpus.count": 1, "infiniband.state": 8, "infiniband.width": 8, "infiniband.rate": 8, "rails.gpu": 8, "rails.rdma": 8, "rails.model": 1, "platform.numa_known": 1,
		},
		untold: map[string]string{
			"infiniband.lid": "the capture has no lid", "infiniband.subnet_manager": "the capture has no sm_lid",
		},
	}.judge(t)
}

// activePorts adds what lspci does not tell: RDMA devices of Mellanox's NICs, their ports ACTIVE and as fast, in Mbit/s, as their kind is.
func activePorts(inv node.Inventory, facts node.Facts, speeds map[string]int) (node.Inventory, node.Facts) {
	var devices []node.RDMADevice
	nics, _ := inv.NICs().Get()
	for _, n := range nics {
		speed, ok := speeds[n.PCIID]
		if !ok {
			continue
		}
		netdev, _ := n.Netdev.Get()
		name := fmt.Sprint("mlx5_", len(devices))
		devices = append(devices, node.RDMADevice{Name: name, PCI: n.Address, Ports: []node.RDMADevicePort{{Port: 1, Netdev: netdev, LinkLayer: node.Known("Ethernet", node.Source{})}}})
		facts = facts.With(
			node.Link.Answer(n.String(), node.Known(node.LinkState{Netdev: netdev, Speed: node.Known(speed, node.Source{})}, node.Source{})),
			node.RDMAPort.Answer(name+"/1", node.Known(node.RDMAPortState{LinkLayer: "Ethernet", State: node.Known("ACTIVE", node.Source{}), PhysState: node.Known("LinkUp", node.Source{})}, node.Source{})),
		)
	}
	inv.RDMA = node.Known(devices, node.Source{})
	return inv, facts.WithInventory(inv)
}

// TestCapturedLspci: lspci -vvv of an HGX H100 with eight ConnectX-7, and with ConnectX-6 Dx for storage below two of the GPUs' switches.
func TestCapturedLspci(t *testing.T) {
	c := openCaptures(t)
	var functions []struct{ BDF, Class, Vendor, Device, Path, Driver string }
	if err := json.Unmarshal([]byte(c.read("gpud/lspci/pci.json")), &functions); err != nil {
		t.Fatal(err)
	}
	s := newSysfs(t)
	for _, f := range functions {
		id := strings.TrimPrefix(cmp.Or(f.Vendor, "0x0000"), "0x") + ":" + strings.TrimPrefix(cmp.Or(f.Device, "0x0000"), "0x")
		s.function(f.Path, id, strings.TrimPrefix(f.Class, "0x"))
	}
	s.write("/proc/sys/kernel/arch", "x86_64\n")
	inv := captureNetdevs(s.inventory())
	registers := readLspci(t, c.read("gpud/lspci/lspci-vvv-h100-trimmed.txt"))
	tree, _ := inv.PCI.Get()
	facts := lspciFacts(node.NewFacts(inv, time.Time{}, []node.Answer{plantest.CommandLine("quiet")}), registers).WithInventory(inv)
	for _, f := range registers {
		at := slices.IndexFunc(tree, func(p node.PCIFunction) bool { return p.Address == f.Address })
		switch {
		case at < 0:
			t.Errorf("%s is in lspci's output alone", f.Address)
		case tree[at].Parent != f.Parent && f.Parent != "":
			t.Errorf("%s is below %s by its path, and below %s by bus numbers", f.Address, tree[at].Parent, f.Parent)
		default:
			tree[at].NUMANode = f.NUMANode
		}
	}
	inv, facts = activePorts(inv, facts, map[string]int{"15b3:1021": 400_000, "15b3:101d": 100_000})
	captured{
		inv: inv, profile: "hgx-h100-roce", read: func([]node.Query) node.Facts { return facts },
		ok: map[string]int{
			"gpus.count": 1, "pcie_acs.redirect": 34, "pcie_device.max_read_request": 12, "pcie_link.link": 22, "rails.gpu": 8, "rails.rdma": 8, "rails.model": 1, "rails.slot": 1, "platform.numa_known": 1,
			"rdma_port.state": 8, "rdma_port.link_layer": 8, "rdma_port.rate": 8,
		},
	}.judge(t)

	// What the capture shows on: ports above the NVSwitches, which no GPU's traffic to a NIC takes.
	above := []string{"0000:82:00.0", "0000:82:01.0", "0000:82:02.0", "0000:82:03.0"}
	quoted, _ := json.Marshal(above)
	p := plantest.Planner(types()).Plan(plantest.Blocks(t, types(), fmt.Sprintf("pcie_acs \"switches\" {\nredirect = \"off\"\nscope = %s\n}", quoted)), facts)
	var redirecting []string
	for _, f := range p.Findings {
		if f.ID == "pcie_acs.redirect" && f.Status == plan.Drift {
			redirecting = append(redirecting, f.Target)
		}
	}
	if !slices.Equal(redirecting, above) {
		t.Errorf("%v redirect, want %v", redirecting, above)
	}
}

// TestCapturedGuests: lspci -nn of two virtual machines.
func TestCapturedGuests(t *testing.T) {
	c := openCaptures(t)
	for _, g := range []struct {
		file, hypervisor string
		gpus             int
		fabricManager    bool
	}{{"gpud/fabric-manager/lspci.nn.a10", "kvm", 1, false}, {"gpud/fabric-manager/lspci.nn.a100", "microsoft", 8, true}} {
		t.Run(filepath.Base(g.file), func(t *testing.T) {
			inv := lspciFacts(node.Facts{}, readLspci(t, c.read(g.file))).Inventory
			inv.Virtualization, inv.Arch = node.Known(g.hypervisor, node.Source{}), node.Known("x86_64", node.Source{})
			if gpus, _ := inv.GPUs().Get(); len(gpus) != g.gpus {
				t.Errorf("%d GPUs, want %d", len(gpus), g.gpus)
			}
			ok := map[string]int{"gpus.count": 1}
			if !g.fabricManager {
				ok["fabric.manager"] = 1 // it is not needed
			}
			p := captured{inv: captureNetdevs(inv), profile: "vm-guest", ok: ok, wrong: map[string]string{"platform.numa_known numa_node": "lspci -nn tells no NUMA node"}}.judge(t)
			if wanted := slices.ContainsFunc(p.Findings, func(f plan.Finding) bool { return f.Address == "service.nvidia-fabricmanager" }); wanted != g.fabricManager {
				t.Errorf("the fabric manager is wanted: %v, want %v", wanted, g.fabricManager)
			}
		})
	}
}

// topologyFile reads the PCI tree out of a topology file. ids are by class, of what the file gives no vendor and device; devices whose
// class it does not give have one by their address.
func (c cases) topologyFile(name string, ids, classes map[string]string) node.Value[[]node.PCIFunction] {
	topology, err := nccltopo.Parse(strings.NewReader(c.read(name)))
	if err != nil {
		c.Fatal(name, ": ", err)
	}
	tree := map[string]node.PCIFunction{}
	for _, d := range topology.Devices {
		f := node.PCIFunction{Address: d.Address, Class: cmp.Or(d.Class, classes[d.Address]), Vendor: d.Vendor, Device: d.Device, Parent: d.Parent, NUMANode: topology.CPUs[d.CPU].NUMANode}
		if f.Vendor == "" {
			f.Vendor, f.Device, _ = strings.Cut(cmp.Or(ids[f.Class], "0000:0000"), ":")
		}
		if !node.IsPCIAddress(f.Address) || len(f.Class) != 6 {
			c.Fatalf("%s: %+v", name, f)
		}
		tree[f.Address] = f
	}
	return node.Known(slices.SortedFunc(maps.Values(tree), func(a, b node.PCIFunction) int { return cmp.Compare(a.Address, b.Address) }), node.Source{Path: name})
}

// TestCapturedTopologies: topology files that clouds give to NCCL.
func TestCapturedTopologies(t *testing.T) {
	c := openCaptures(t)
	const ethernet, infiniBand, gpu = "020000", "020700", "030200"
	g5 := map[string]string{"0000:00:15.0": ethernet}
	for i := range 8 {
		g5[fmt.Sprintf("0000:00:%x.0", 0x16+i)] = gpu
	}
	noNVIDIA := map[string]string{"gpus.count gpus": "its GPUs are AMD's"}
	far := func(gpus ...string) map[string]string {
		all := map[string]string{}
		for _, g := range gpus {
			all["rails.gpu "+g] = "the one NIC is at the processor"
		}
		return all
	}
	for _, test := range []struct {
		file, virtualization, profile string
		ids, classes                  map[string]string
		wrong                         map[string]string
		// rails counts GPUs that have a NIC at PXB or nearer on the host; alone are those that have none.
		rails int
		alone map[string]string
	}{
		{file: "azure-ndv5.xml", virtualization: "microsoft", profile: "vm-guest", ids: map[string]string{gpu: "10de:2330", infiniBand: "15b3:101e"}, rails: 8},
		{file: "azure-ndv4.xml", virtualization: "microsoft", profile: "vm-guest", ids: map[string]string{gpu: "10de:20b2", infiniBand: "15b3:101c"}, rails: 8},
		{
			file: "azure-ndv2.xml", virtualization: "microsoft", profile: "vm-guest", ids: map[string]string{gpu: "10de:1db5", infiniBand: "15b3:1018"},
			alone: far("0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0004:00:00.0", "0005:00:00.0", "0006:00:00.0", "0007:00:00.0", "0008:00:00.0"),
		},
		{file: "azure-ncv4.xml", virtualization: "microsoft", profile: "vm-guest", alone: map[string]string{"rails.nics nics": "it has no RDMA NIC"}},
		{file: "aws-p4d.xml", virtualization: "amazon", profile: "vm-guest", ids: map[string]string{gpu: "10de:20b0", ethernet: "1d0f:efa0"}, rails: 8},
		{file: "aws-p4de.xml", virtualization: "amazon", profile: "vm-guest", ids: map[string]string{gpu: "10de:20b2", ethernet: "1d0f:efa1"}, rails: 8},
		{file: "aws-p5-2026.xml", virtualization: "amazon", profile: "vm-guest", ids: map[string]string{gpu: "10de:2330", ethernet: "1d0f:efa2"}, rails: 8},
		{
			file: "aws-g5.48xl.xml", virtualization: "amazon", profile: "vm-guest", ids: map[string]string{gpu: "10de:2237", ethernet: "1d0f:efa1"}, classes: g5,
			alone: far("0000:00:16.0", "0000:00:17.0", "0000:00:18.0", "0000:00:19.0", "0000:00:1a.0", "0000:00:1b.0", "0000:00:1c.0", "0000:00:1d.0"),
		},
		{file: "rccl-topo_16p1h.xml", virtualization: "none", profile: "baseline", ids: map[string]string{"038000": "1002:738c", infiniBand: "15b3:101b"}, wrong: noNVIDIA, alone: map[string]string{"rails.gpu gpus": "its GPUs are AMD's"}},
		{file: "rccl-topo_8p_940.xml", virtualization: "none", profile: "baseline", ids: map[string]string{"120000": "1002:74a1", infiniBand: "15b3:1021"}, wrong: noNVIDIA, alone: map[string]string{"rails.gpu gpus": "its GPUs are AMD's"}},
		{file: "rccl-topo_8p_rome_4nics.xml", virtualization: "none", profile: "baseline", ids: map[string]string{"038000": "1002:738c", infiniBand: "15b3:101b"}, wrong: noNVIDIA, alone: map[string]string{"rails.gpu gpus": "its GPUs are AMD's"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			c := cases{t, c.dir}
			inv := node.Inventory{PCI: c.topologyFile("nccl-xml/"+test.file, test.ids, test.classes), Virtualization: node.Known(test.virtualization, node.Source{}), Arch: node.Known("x86_64", node.Source{})}
			inv = captureNetdevs(inv)
			ok := map[string]int{"gpus.count": 1, "platform.numa_known": 1, "fabric.manager": 1} // none of the files shows NVSwitches
			if test.wrong != nil {
				delete(ok, "gpus.count")
				delete(ok, "fabric.manager")
			}
			captured{inv: inv, profile: test.profile, ok: ok, wrong: test.wrong}.judge(t)

			inv.Virtualization = node.Known("none", node.Source{})
			nics, _ := inv.NICs().Get()
			var addresses []string
			for _, n := range nics {
				addresses = append(addresses, n.Address)
			}
			block := `check "rails" "all" {}`
			if len(addresses) > 0 {
				block = nicBlock(`check "rails" "all"`, addresses, "")
			}
			near, alone := 0, map[string]string{}
			for _, f := range plantest.Planner(types()).Plan(plantest.Blocks(t, types(), block), plantest.Node().WithInventory(inv)).Findings {
				switch key := f.ID + " " + f.Target; {
				case f.ID == "rails.gpu" && f.Status == plan.OK:
					near++
				case f.Status == plan.Drift:
					alone[key] = test.alone[key]
				}
			}
			if near != test.rails || !maps.Equal(test.alone, alone) {
				t.Errorf("%d GPUs have a rail, want %d; alone are %v, want %v", near, test.rails, alone, test.alone)
			}
		})
	}
}

// TestCapturedLogs: no public log of NCCL's raises an alarm; the logs of one job with P2P and without are told apart.
func TestCapturedLogs(t *testing.T) {
	c := openCaptures(t)
	for file, want := range map[string][]string{
		"nccl-logs/v100-nvlink-1node-2.7.8.log": {"ok nccl_transport.intra_node P2P/IPC"},
		// Omni-Path: NET/IB without GPUDirect RDMA is normal.
		"nccl-logs/v100-opa-16nodes-2.7.8.log":     {"ok nccl_transport.intra_node P2P/IPC", "ok nccl_transport.inter_node NET/IB"},
		"nccl-logs/p4d-efa-gdr-2nodes-2.9.9.log":   {"ok nccl_transport.intra_node P2P/IPC", "ok nccl_transport.inter_node NET/AWS Libfabric/GDRDMA"},
		"nccl-logs/t4-efa-nogdr-2nodes-2.12.7.log": {"ok nccl_transport.inter_node NET/AWS Libfabric"},
		"nccl-logs/rtx5090-1gpu-2.29.7.log":        {"skipped nccl_transport.channels transports"},
		"../h200x2/nccl-p2p.log":                   {"ok nccl_transport.intra_node P2P/CUMEM"},
		"../h200x2/nccl-shm.log":                   {"!drift nccl_transport.intra_node SHM"},
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p := plantest.Planner(types()).Plan(plantest.Blocks(t, types(), transport), jobLog(plantest.Node(), c.read(file)))
			text := plantest.Summarize(p)
			var judged []string
			for _, f := range p.Findings {
				if f.Severity == plan.Info && f.Status == plan.Drift { // variables, as a note
					continue
				}
				mark := ""
				if f.Status == plan.Drift {
					mark = "!"
				}
				judged = append(judged, fmt.Sprintf("%s%s %s %s", mark, f.Status, f.ID, f.Target))
			}
			slices.Sort(judged)
			slices.Sort(want)
			if !slices.Equal(judged, want) {
				t.Errorf("%q, want %q:\n%s", judged, want, text)
			}
		})
	}
}
