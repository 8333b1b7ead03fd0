package modules_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"

	"busbar/checks"
	"busbar/internal/dcbnl"
	"busbar/internal/pciregs"
	"busbar/modules"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/plan/sink"
	"busbar/profiles"
	"busbar/proofs"
)

// types are all block types.
func types() []plan.Type { return slices.Concat(modules.All(), checks.All(), proofs.All()) }

// The lossless class of the cases: priority 3, DSCP 26.
const class = "lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }"

// nicBlock is a block over ports.
func nicBlock(head string, ports []string, arguments string) string {
	var nics []string
	for _, p := range ports {
		nics = append(nics, fmt.Sprintf("{ address = %q }", p))
	}
	return fmt.Sprintf("%s {\nnics = [%s]\n%s\n}\n", head, strings.Join(nics, ", "), arguments)
}

// nicNode is a node with ports of NICs.
func nicNode(ports []plantest.PortState, more ...node.Answer) node.Facts {
	f := plantest.Node(more...)
	inv := f.Inventory
	var functions []node.PCIFunction
	var netdevs []node.Netdev
	var devices []node.RDMADevice
	for _, p := range ports {
		f = f.With(p.Answers()...)
		rdma, _, _ := strings.Cut(p.RoCE.RDMA, "/")
		functions = append(functions, node.PCIFunction{Address: p.Key, Vendor: "15b3", Device: "1021", Class: "020000", Driver: "mlx5_core"})
		kind := node.ARPHardwareEthernet
		if p.RDMA.LinkLayer == "InfiniBand" {
			kind = node.ARPHardwareInfiniBand
		}
		netdevs = append(netdevs, node.Netdev{Name: p.Link.Netdev, Type: kind, PCI: p.Key, Port: 1, Up: true})
		devices = append(devices, node.RDMADevice{Name: rdma, PCI: p.Key, Ports: []node.RDMADevicePort{{Port: 1, Netdev: p.Link.Netdev, LinkLayer: node.Known(p.RDMA.LinkLayer, node.Source{})}}})
	}
	inv.Virtualization = node.Known("none", node.Source{})
	inv.PCI, inv.Netdevs, inv.RDMA = node.Known(functions, node.Source{}), node.Known(netdevs, node.Source{}), node.Known(devices, node.Source{})
	inv.Protected = node.Known([]node.ProtectedNetdev{}, node.Source{})
	return f.WithInventory(inv)
}

// ncclConf is /etc/nccl.conf.
func ncclConf(text string) node.Answer {
	return node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: text}, node.Source{Path: sink.NCCLPath}))
}

var (
	qosTrust = regexp.MustCompile(`(?m)^Priority trust state: (\w+)$`)
	qosPFC   = regexp.MustCompile(`(?m)^\tenabled((?: +[01]){8}) *$`)
	qosDSCPs = regexp.MustCompile(`(?m)^\tprio:([0-7]) dscp:([0-9,]+)$`)
	qosOwner = regexp.MustCompile(`(?m)^DCBX mode: OS controlled$`)
)

// mlnxQoS is a port whose DCB is what mlnx_qos printed; unknown where it printed none of it.
func (c cases) mlnxQoS(name string) plantest.PortState {
	text := c.read(name)
	p := plantest.Lossless(plantest.Rail, "eth1", "mlx5_0")
	trust, enabled := qosTrust.FindStringSubmatch(text), qosPFC.FindStringSubmatch(text)
	if trust == nil || enabled == nil {
		p.DCB = node.Unknown[node.DCBState]("nobody told", node.Source{})
		return p
	}
	if !qosOwner.MatchString(text) {
		c.Fatalf("%s: DCBX is not the host's", name)
	}
	pfc := dcbnl.PFC{Capacity: 8}
	for priority, on := range strings.Fields(enabled[1]) {
		if on == "1" {
			pfc.Enabled |= 1 << priority
		}
	}
	apps := []dcbnl.App{}
	for _, row := range qosDSCPs.FindAllStringSubmatch(text, -1) {
		for _, digits := range strings.FieldsFunc(row[2], func(r rune) bool { return r == ',' }) {
			dscp, _ := strconv.ParseUint(digits, 10, 16)
			apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: uint16(dscp), Priority: row[1][0] - '0'})
		}
	}
	slices.SortFunc(apps, dcbnl.CompareApps)
	source := node.Source{Call: "mlnx_qos"}
	return p.Change(func(s *node.DCBState) {
		s.Trust, s.PFC, s.Apps = node.Known(trust[1], source), node.Known(pfc, source), node.Known(apps, source)
	})
}

func qosRows(c cases) []row {
	const name = "0000:1a:00.0"
	tc := ncclConf("NCCL_IB_TC=106\n")
	check, block := nicBlock(`check "lossless" "all"`, []string{name}, class), nicBlock(`roce "rails"`, []string{name}, class)
	judged := func(input string) node.Facts { return nicNode([]plantest.PortState{c.mlnxQoS(input)}, tc) }
	return []row{
		{input: "mlnx-qos-dscp-prio3.txt", blocks: check, facts: judged("mlnx-qos-dscp-prio3.txt"), verdict: "PASS", says: []string{"ok lossless.pfc " + name, "ok lossless.dscp_map " + name, "maps DSCP 26 to priority 3"}},
		{
			input: "mlnx-qos-dscp-prio3.txt", condition: "to be set", blocks: block, facts: judged("mlnx-qos-dscp-prio3.txt"), verdict: "INFO",
			says: []string{"ok roce.dscp_map " + name, "drift info roce.dscp_default nics", "has DSCP 24, 25 and 27 to 31 in the lossless class, too"}, silent: "!drift",
		},
		{
			input: "mlnx-qos-trust-pcp.txt", blocks: check, facts: judged("mlnx-qos-trust-pcp.txt"), verdict: "FAIL",
			says: []string{"drift lossless.trust " + name, "(0000:1a:00.0) trusts pcp, wanted is dscp", "ok lossless.pfc " + name},
		},
		{input: "mlnx-qos-trust-pcp.txt", condition: "to be set", blocks: block, facts: judged("mlnx-qos-trust-pcp.txt"), verdict: "FAIL", says: []string{"!drift roce.trust " + name}},
		{
			input: "mlnx-qos-pfc-off.txt", blocks: check, facts: judged("mlnx-qos-pfc-off.txt"), verdict: "FAIL",
			says: []string{"drift lossless.pfc " + name, "has PFC on for priority", "wanted is 3", "ok lossless.trust " + name},
		},
		{input: "mlnx-qos-pfc-off.txt", condition: "to be set", blocks: block, facts: judged("mlnx-qos-pfc-off.txt"), verdict: "FAIL", says: []string{"!drift roce.pfc " + name, "is off, wanted is priority 3"}},
		{
			input: "nccl-oci-h100.conf", condition: "PFC is on for DSCP 26 alone", blocks: check, verdict: "FAIL",
			facts: nicNode([]plantest.PortState{plantest.Lossless(name, "eth1", "mlx5_0")}, ncclConf(c.read("nccl-oci-h100.conf"))),
			says:  []string{"drift lossless.nccl NCCL_IB_TC", "ok lossless.pfc " + name},
		},
		{input: "mlnx-qos-missing-tool.txt", blocks: check, facts: judged("mlnx-qos-missing-tool.txt"), verdict: "UNKNOWN", says: []string{"unknown lossless.pfc " + name, "unknown lossless.trust " + name}, silent: "drift"},
		{input: "mlnx-qos-missing-tool.txt", condition: "to be set", blocks: block, facts: judged("mlnx-qos-missing-tool.txt"), verdict: "UNKNOWN", says: []string{"unknown roce.dcb " + name}, silent: "drift"},
	}
}

// roce is a node with a port whose files are a case; what MLNX_OFED's driver has besides is as it should be, and so is DCB, of which
// files tell nothing.
func (c cases) roce(name string) node.Facts {
	s := newSysfs(c.T)
	s.port(sysfsPort{plantest.Rail, "15b3:1021", "mlx5_core", "eth1", "02:00:00:00:00:01", "mlx5_0"})
	for _, point := range []string{"roce_np", "roce_rp"} {
		for priority := range 8 {
			s.write(fmt.Sprintf("/sys/class/net/eth1/ecn/%s/enable/%d", point, priority), "0\n")
		}
	}
	const cm = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1"
	for file, text := range map[string]string{
		"/sys/class/net/eth1/ecn/roce_np/cnp_dscp": "48", "/sys/class/net/eth1/ecn/roce_np/cnp_802p_prio": "6",
		"/sys/class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=106", cm + "/default_roce_tos": "104", cm + "/default_roce_mode": "RoCE v2",
	} {
		s.write(file, text+"\n")
	}
	s.lines(c.read(name), "", func(string, string) {})
	inv := s.inventory()
	read := s.reader().Read(c.Context(), inv, []node.Query{node.RoCE.Query(plantest.Rail), node.Sysctl.Query("net.ipv4.tcp_ecn")})
	return plantest.Node(plantest.Lossless(plantest.Rail, "eth1", "mlx5_0").Answers()...).WithInventory(inv).
		With(same(read, node.RoCE, plantest.Rail), same(read, node.Sysctl, "net.ipv4.tcp_ecn"), ncclConf("NCCL_IB_TC=106\n"))
}

func roceRows(c cases) []row {
	const name = "0000:1a:00.0"
	check := nicBlock(`check "lossless" "all"`, []string{name}, class)
	off := c.roce("roce-ecn-off-on-prio3.txt")
	return []row{
		{
			input: "roce-traffic-class.txt", verdict: "PASS", facts: c.roce("roce-traffic-class.txt"),
			blocks: check + "sysctl \"net.ipv4.tcp_ecn\" {\nvalue = 1\napply = \"running\"\n}",
			says:   []string{"ok lossless.traffic_class " + name, "(0000:1a:00.0) is 106, DSCP 26", "ok lossless.notification_point " + name, "ok sysctl.running net.ipv4.tcp_ecn"},
		},
		{
			input: "roce-ecn-off-on-prio3.txt", verdict: "FAIL", facts: off, blocks: check,
			says: []string{"drift lossless.notification_point " + name, "ok lossless.reaction_point " + name, "answers ECN marks for priorities"},
		},
		{
			input: "roce-ecn-off-on-prio3.txt", condition: "to be set", verdict: "FAIL", facts: off, blocks: nicBlock(`roce "rails"`, []string{name}, class),
			says: []string{"!drift roce.ecn " + name, "has no congestion control for priority 3"},
		},
	}
}

// gids is a node with a port whose GID table is a case, and whose network device has the addresses in it.
func (c cases) gids(name string, p sysfsPort, more ...node.Answer) node.Facts {
	s := newSysfs(c.T)
	s.port(p)
	var gids []node.GID
	s.lines(c.read(name), "/sys/class/infiniband/", func(path, content string) {
		if at := strings.Index(path, "/gids/"); at >= 0 && strings.Trim(content, "0:") != "" {
			s.write(path[:at]+"/gid_attrs/ndevs/"+path[at+len("/gids/"):], p.netdev+"\n")
			gids = append(gids, node.GID{GID: content})
		}
	})
	inv := s.inventory()
	netdevs, _ := inv.Netdevs.Get()
	for i := range netdevs {
		for _, g := range gids {
			if a := g.Address(); !a.IsLinkLocalUnicast() {
				netdevs[i].Addresses = append(netdevs[i].Addresses, a.String()+"/24")
			}
		}
		slices.Sort(netdevs[i].Addresses)
		netdevs[i].Addresses = slices.Compact(netdevs[i].Addresses)
	}
	read := s.reader().Read(c.Context(), inv, []node.Query{node.RDMAPort.Query(p.rdma + "/1"), node.Link.Query(p.address)})
	return plantest.Node(append(more, same(read, node.RDMAPort, p.rdma+"/1"), same(read, node.Link, p.address))...).WithInventory(inv)
}

func gidRows(c cases) []row {
	const name = "0000:1a:00.0"
	ports := []string{name}
	bond := sysfsPort{name, "15b3:1021", "mlx5_core", "bond0", "02:00:00:00:00:01", "mlx5_bond_0"}
	rail := sysfsPort{name, "15b3:1021", "mlx5_core", "eth1", "02:00:00:00:00:02", "mlx5_0"}
	thor := sysfsPort{name, "14e4:1760", "bnxt_en", "eth1", "02:00:00:00:00:04", "bnxt_re0"}
	check := nicBlock(`check "gid" "all"`, ports, "")
	index := func(n string) string { return nicBlock(`check "gid" "all"`, ports, "index = "+n) }
	pinned := ncclConf("NCCL_IB_GID_INDEX=3\n")
	return []row{
		{input: "gids-linklocal-and-ipv4.txt", condition: "index 3", blocks: index("3"), facts: c.gids("gids-linklocal-and-ipv4.txt", bond), verdict: "PASS", says: []string{"ok gid.index " + name, "ok gid.stale " + name}},
		{
			input: "gids-linklocal-and-ipv4.txt", condition: "index 1", blocks: index("1"), facts: c.gids("gids-linklocal-and-ipv4.txt", bond), verdict: "FAIL",
			says: []string{"drift gid.index " + name, "GID index 1 is pinned, and on mlx5_bond_0/1 (0000:1a:00.0) that is RoCE v2 fe80::ff:fe00:1 bond0", "right is index 3: RoCE v2 198.51.100.6 bond0"},
		},
		{
			input: "gids-drifted.txt", condition: "index 3 is pinned", blocks: check, facts: c.gids("gids-drifted.txt", rail, pinned), verdict: "FAIL",
			says: []string{"drift gid.index " + name, "that is an empty slot\ntake NCCL_IB_GID_INDEX out: from 2.21 on NCCL finds the right index itself; right is index 4", "ok gid.routable " + name},
		},
		{input: "gids-drifted.txt", condition: "nothing is pinned", blocks: check, facts: c.gids("gids-drifted.txt", rail), verdict: "PASS", says: []string{"ok gid.index NCCL_IB_GID_INDEX", "index 4: RoCE v2 198.51.100.7 eth1"}},
		{
			input: "gids-ipv6-only.txt", blocks: check, facts: c.gids("gids-ipv6-only.txt", thor), verdict: "WARN",
			says: []string{"drift warn gid.address_family " + name, "right is index 3: RoCE v2 2001:db8:0:1::2 eth1\nset NCCL_IB_ADDR_FAMILY=AF_INET6", "ok gid.routable " + name},
		},
		{input: "gids-ipv6-only.txt", condition: "NCCL is told", blocks: check, facts: c.gids("gids-ipv6-only.txt", thor, ncclConf("NCCL_IB_ADDR_FAMILY=AF_INET6\n")), verdict: "PASS", says: []string{"ok warn gid.address_family " + name}},
	}
}

func portRows(c cases) []row {
	return slices.Concat([]row{c.mtu("mtu-1500-on-rail.txt"), c.numaMinus1("sysfs-nic-numa-minus1.txt")}, c.ibPorts("ib-ports-mixed.txt"))
}

var mtuLine = regexp.MustCompile(`^(\w+) mtu (\d+) (\w+) active_mtu (\d+) max_mtu 4096$`)

// mtu judges network devices and InfiniBand MTUs that a case lists: what the kernel made active is what follows.
func (c cases) mtu(input string) row {
	r := row{input: input, verdict: "FAIL"}
	var ports []plantest.PortState
	var addresses []string
	for line := range strings.Lines(c.read(input)) {
		m := mtuLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			c.Fatalf("%s: %q", input, line)
		}
		address := fmt.Sprintf("0000:%d1:00.0", len(ports)+1)
		p := plantest.Lossless(address, m[1], m[3])
		bytes, _ := strconv.Atoi(m[2])
		p.Link.MTU = node.Known(bytes, node.Source{})
		ports, addresses = append(ports, p), append(addresses, address)
		r.says = append(r.says, fmt.Sprintf("%s/1 (%s) has InfiniBand MTU %s, of %s on %s", m[3], address, m[4], m[2], m[1]))
	}
	r.says = append(r.says, "drift mtu.active 0000:11:00.0", "ok mtu.active 0000:21:00.0", "ok mtu.active 0000:31:00.0", "InfiniBand MTU differs: 1024 on mlx5_1/1 (0000:11:00.0), 4096 on others")
	r.blocks, r.facts = nicBlock(`check "mtu" "all"`, addresses, ""), nicNode(ports)
	return r
}

// ibPorts judges RDMA ports that a case lists as DEVICE portPORT LAYER STATE PHYSICAL RATE.
func (c cases) ibPorts(input string) []row {
	names := map[string]string{"400": "400 Gb/sec (4X NDR)", "10": "10 Gb/sec (4X SDR)", "25": "25 Gb/sec (1X EDR)"}
	var ports []plantest.PortState
	var all, fabric []string
	for line := range strings.Lines(c.read(input)) {
		f := strings.Fields(line)
		if len(f) != 6 || f[1] != "port1" || names[f[5]] == "" {
			c.Fatalf("%s: %q", input, line)
		}
		address := fmt.Sprintf("0000:%d1:00.0", len(ports)+1)
		p := plantest.Lossless(address, "net"+f[0], f[0])
		mbps, _ := strconv.Atoi(f[5])
		p.Link.Speed = node.Known(1000*mbps, node.Source{})
		p.RDMA = node.RDMAPortState{LinkLayer: f[2], State: node.Known(f[3], node.Source{}), PhysState: node.Known(f[4], node.Source{}), Rate: node.Known(names[f[5]], node.Source{}), LID: node.Known(0, node.Source{}), SMLID: node.Known(0, node.Source{})}
		if f[3] == "ACTIVE" && f[2] == "InfiniBand" {
			p.RDMA.LID, p.RDMA.SMLID = node.Known(7, node.Source{}), node.Known(1, node.Source{})
		}
		ports, all = append(ports, p), append(all, address)
		if f[2] == "InfiniBand" {
			fabric = append(fabric, address)
		}
	}
	const (
		polling  = "mlx5_1/1 (0000:21:00.0) is DOWN, Polling, wanted is ACTIVE, LinkUp\nlook at the cable, the transceiver and the switch's port"
		disabled = "mlx5_3/1 (0000:41:00.0) is DOWN, Disabled, wanted is ACTIVE, LinkUp\nthe port is switched off: here or at the switch (ibportstate)"
	)
	facts := nicNode(ports)
	return []row{
		{
			input: input, verdict: "FAIL", facts: facts, blocks: nicBlock(`check "infiniband" "fabric"`, fabric, "") + nicBlock(`check "rdma_port" "fabric"`, fabric, ""),
			says: []string{"ok infiniband.state 0000:11:00.0", "drift infiniband.state 0000:21:00.0", "drift infiniband.state 0000:41:00.0", "drift rdma_port.state 0000:21:00.0", polling, disabled, "skipped infiniband.lid 0000:41:00.0"}, silent: "mlx5_2",
		},
		{
			input: input, condition: "the Ethernet port, too", verdict: "FAIL", facts: facts, blocks: nicBlock(`check "infiniband" "all"`, all, ""),
			says: []string{"drift infiniband.state 0000:31:00.0", "mlx5_2/1 (0000:31:00.0) is Ethernet, InfiniBand is wanted"},
		},
	}
}

// numaMinus1 judges the NUMA nodes of a NIC and of a GPU that a case's files tell, in the virtual machine that they tell.
func (c cases) numaMinus1(input string) row {
	s := newSysfs(c.T)
	s.function("pci0000:00/0000:00:0a.0", "10de:2330", "030200")
	s.port(sysfsPort{"0000:00:0b.0", "15b3:101e", "mlx5_core", "eth1", "02:00:00:00:00:01", "mlx5_0"})
	s.lines(c.read(input), "", func(string, string) {})
	return row{
		input: input, verdict: "INFO", blocks: `check "platform" "numa" { numa_known = true }`, facts: plantest.Node().WithInventory(s.inventory()),
		says: []string{"drift info platform.numa_known numa_node", "to which NUMA node these belong: 0000:00:0b.0; that is usual in a virtual machine\ngive NCCL the host's topology as a file (NCCL_TOPO_FILE)"},
	}
}

// interfaces gives a node the network devices that a case lists, NAME STATE ADDRESS.
func (c cases) interfaces(f node.Facts, name string) node.Facts {
	var list []node.Netdev
	for line := range strings.Lines(c.read(name)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			c.Fatalf("%s: %q", name, line)
		}
		d := node.Netdev{Name: words[0], Type: node.ARPHardwareEthernet, Up: words[1] == "UP"}
		if strings.Contains(words[2], "/") {
			d.Addresses = []string{words[2]}
		}
		if d.Name == "lo" {
			d.Type = node.ARPHardwareLoopback
		}
		list = append(list, d)
	}
	inv := f.Inventory
	inv.Netdevs = node.Known(list, node.Source{Path: "/sys/class/net"})
	return f.WithInventory(inv)
}

func nameRows(c cases) []row {
	hcas := func(value string) node.Facts {
		return c.hcas(plantest.Node(ncclConf("NCCL_IB_HCA="+value+"\n")), "ibdev-18-hcas.txt")
	}
	socket := func(input, value string) node.Facts {
		return c.interfaces(plantest.Node(ncclConf("NCCL_SOCKET_IFNAME="+value+"\n")), input)
	}
	const bond, loop = "ifaces-bond-prefix.txt", "ifaces-only-lo-docker-eth.txt"
	nine := "mlx5_1 takes mlx5_1, mlx5_10, mlx5_11, mlx5_12, mlx5_13, mlx5_14, mlx5_15, mlx5_16, mlx5_17;"
	on := func(input, condition, verdict string, facts node.Facts, says ...string) row {
		r := row{input: input, condition: condition, verdict: verdict, facts: facts, blocks: "nccl {}", says: says}
		if verdict == "PASS" {
			r.silent = "drift"
		}
		return r
	}
	return []row{
		on("ibdev-18-hcas.txt", "a prefix", "WARN", hcas("mlx5_1"), "drift warn nccl.hca_prefix NCCL_IB_HCA", nine, "NCCL_IB_HCA==mlx5_1"),
		on("ibdev-18-hcas.txt", "a port does not make it exact", "WARN", hcas("mlx5_1:1"), nine),
		on("ibdev-18-hcas.txt", "exact", "PASS", hcas("=mlx5_1")),
		on(bond, "a prefix", "WARN", socket(bond, "bond0"), "drift warn nccl.interface_prefix NCCL_SOCKET_IFNAME", "bond0 takes bond0, bond0.2973, bond0.2973.1", "NCCL_SOCKET_IFNAME==bond0"),
		on(bond, "exact", "PASS", socket(bond, "=bond0")),
		on(loop, "^docker0", "FAIL", socket(loop, "^docker0"), "drift nccl.loopback_eligible NCCL_SOCKET_IFNAME", "the loopback interface is eligible", "^docker,lo,virbr"),
		on(loop, "all three are excluded", "PASS", socket(loop, "^docker,lo,virbr")),
	}
}

// lspci is a node on whose PCI bus a case's functions are. above says below which port a function is; GPUs and NICs that the case does
// not show are added there.
func (c cases) lspci(name string, above map[string]string) node.Facts {
	functions := readLspci(c.T, c.read(name))
	for _, address := range slices.Sorted(maps.Keys(above)) {
		at := slices.IndexFunc(functions, func(f lspciFunction) bool { return f.Address == address })
		if at < 0 {
			functions, at = append(functions, lspciFunction{PCIFunction: node.PCIFunction{Address: address, Vendor: "10de", Device: "2330", Class: "030200"}}), len(functions)
		}
		functions[at].Parent = above[address]
	}
	for i := range functions {
		functions[i].registers.Express = node.Known(pciregs.Express{Present: true}, node.Source{Call: "lspci"})
	}
	slices.SortFunc(functions, func(a, b lspciFunction) int { return strings.Compare(a.Address, b.Address) })
	return lspciFacts(plantest.Node(), functions)
}

func acsRows(c cases) []row {
	const block = `pcie_acs "gpu_paths" { redirect = "off" }`
	const plx, amd = "lspci-acs-plx-on.txt", "lspci-acs-amd-rootport-on.txt"
	amdPorts := map[string]string{"0000:41:00.0": "0000:00:03.1", "0000:61:00.0": "0000:20:01.1"}
	guest := c.lspci(amd, amdPorts)
	inv := guest.Inventory
	inv.Virtualization = node.Known("kvm", node.Source{})
	all := "redirects traffic between peers: ReqRedir, CmpltRedir, UpstreamFwd"
	return []row{
		{
			input: plx, verdict: "FAIL", blocks: block, facts: c.lspci(plx, map[string]string{"0000:5b:08.0": "0000:5a:00.0", "0000:5c:00.0": "0000:5b:08.0", "0000:5d:00.0": "0000:5a:00.0"}),
			says: []string{"!drift pcie_acs.redirect 0000:5a:00.0", "!drift pcie_acs.redirect 0000:5b:08.0", "0000:5b:08.0 " + all},
		},
		{
			input: amd, verdict: "FAIL", blocks: block, facts: c.lspci(amd, amdPorts),
			says: []string{"!drift pcie_acs.redirect 0000:00:03.1", "!drift pcie_acs.redirect 0000:20:01.1", "0000:00:03.1 " + all},
		},
		{input: amd, condition: "in a virtual machine", verdict: "REFUSE", blocks: block, facts: guest.WithInventory(inv), says: []string{"unsupported pcie_acs.redirect ACS", "this is a virtual machine (kvm)"}},
		{
			input: "lspci-acs-srcvalid-only.txt", verdict: "PASS", blocks: block, silent: "drift",
			facts: c.lspci("lspci-acs-srcvalid-only.txt", map[string]string{"0000:01:00.0": "0000:00:0c.0", "0000:02:00.0": "0000:00:0e.0"}),
			says:  []string{"0000:00:0c.0 redirects nothing", "0000:00:0e.0 redirects nothing"},
		},
		{
			input: "lspci-acs-clean.txt", verdict: "PASS", blocks: block, silent: "drift",
			facts: c.lspci("lspci-acs-clean.txt", map[string]string{"0000:16:00.0": "0000:15:01.0", "0000:5b:00.0": "0000:5a:00.0"}),
			says:  []string{"0000:5a:00.0 redirects nothing", "0000:15:01.0 redirects nothing"},
		},
	}
}

// fabricRows: whether the fabric manager is required follows from the PCI bus.
func fabricRows(c cases) []row {
	const profile = "profile {\ndescription = \"test\"\n}\nservice \"nvidia-fabricmanager\" {\nenabled = true\nactive  = true\nwhen    = node.nvswitch\n}\n"
	unit := node.Unit.Answer("nvidia-fabricmanager.service", node.Known(node.UnitState{Load: "loaded", File: "disabled", Active: node.Known("inactive", node.Source{})}, node.Source{}))
	files := plantest.FilesOf(node.UnitFiles, "nvidia-fabricmanager.service", map[string]string{"/usr/lib/systemd/system/nvidia-fabricmanager.service": "[Service]\n"})
	on := func(input string) node.Facts { return c.lspci(input, nil).With(unit, files) }
	return []row{
		{input: "lspci-nvswitch-a100.txt", verdict: "FAIL", profile: profile, facts: on("lspci-nvswitch-a100.txt"), says: []string{"!drift service.", "nvidia-fabricmanager.service"}},
		{input: "lspci-no-nvswitch-a40.txt", verdict: "PASS", profile: profile, facts: on("lspci-no-nvswitch-a40.txt"), silent: "fabricmanager"},
	}
}

// evaluated are the blocks of a profile on a node.
func evaluated(c cases, text string, inv node.Inventory) []plan.Block {
	loader := profiles.Loader{Types: types(), Dirs: []profiles.Dir{{Path: "case", FS: fstest.MapFS{"case.hcl": {Data: []byte(text)}}}}}
	p, diagnostics := loader.Load("case")
	if len(diagnostics) > 0 {
		c.Fatal(diagnostics[0].Summary, diagnostics[0].Detail)
	}
	evaluation, diagnostics := p.Evaluate(inv)
	if len(diagnostics) > 0 {
		c.Fatal(diagnostics[0].Summary, diagnostics[0].Detail)
	}
	return evaluation.Blocks
}

// portCases are the rows about NICs and PCI.
func portCases(c cases) []row {
	return slices.Concat(qosRows(c), roceRows(c), gidRows(c), portRows(c), nameRows(c), acsRows(c), fabricRows(c))
}
