package paste

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/pciregs"
	"busbar/node"
)

// given is one text of testdata, all of the kinds that are named.
func given(t *testing.T, name string, kinds ...string) node.Facts {
	t.Helper()
	f, inputs := pasted(t, [2]string{name, testdata(t, name)})
	if diff := cmp.Diff(kinds, kindsOf(inputs)); diff != "" {
		t.Errorf("%s: kinds (-want +got):\n%s", name, diff)
	}
	for _, in := range inputs {
		if in.Doubt != "" {
			t.Errorf("%s: %s", name, in.Doubt)
		}
	}
	return f
}

// ports are RDMA ports as text, one a line.
func ports(f node.Facts, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		v := node.RDMAPort.Get(f, name)
		p, ok := v.Get()
		if !ok {
			fmt.Fprintf(&b, "%s: %s\n", name, v.Reason())
			continue
		}
		word := func(v node.Value[string]) string {
			if s, ok := v.Get(); ok {
				return s
			}
			return "?"
		}
		lids := "?"
		if lid, ok := p.LID.Get(); ok {
			sm, _ := p.SMLID.Get()
			lids = fmt.Sprintf("%d<%d", lid, sm)
		}
		fmt.Fprintf(&b, "%s: %s %s %s, %s, %s, %s\n", name, p.LinkLayer, word(p.State), word(p.PhysState), word(p.Rate), lids, word(p.Firmware))
	}
	return b.String()
}

func TestPortTexts(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, want string
		ports      []string
	}{
		"ibstat-two-ports.txt": {"ibstat", `mlx4_0/1: InfiniBand DOWN Disabled, 10 Gb/sec (4X SDR), 38<13, 2.42.5000
mlx4_0/2: InfiniBand ACTIVE LinkUp, 56 Gb/sec (4X FDR), 39<13, ?
mlx4_1/1: Ethernet ACTIVE LinkUp, 40 Gb/sec (4X QDR), 0<0, 2.42.5000
`, []string{"mlx4_0/1", "mlx4_0/2", "mlx4_1/1"}},
		"devinfo.txt": {"ibv_devinfo", `mlx5_0/1: InfiniBand DOWN ?, ?, 65535<0, 28.39.2048
mlx4_0/1: InfiniBand ACTIVE ?, ?, 38<13, 2.42.5000
mlx4_0/2: Ethernet DOWN ?, ?, 0<0, ?
`, []string{"mlx5_0/1", "mlx4_0/1", "mlx4_0/2"}},
		"ibstatus.txt": {"ibstatus", `mlx5_0/1: Ethernet ACTIVE LinkUp, 100 Gb/sec (4X EDR), 0<0, ?
mlx5_1/1: InfiniBand INIT LinkUp, 400 Gb/sec (4X NDR), 31<1, ?
`, []string{"mlx5_0/1", "mlx5_1/1"}},
		"rdma-link.txt": {"rdma link", `mlx5_0/1: Ethernet ACTIVE LinkUp, ?, ?, ?
mlx5_1/1: Ethernet DOWN Disabled, ?, ?, ?
mlx5_2/1: InfiniBand ACTIVE LinkUp, ?, 13399<49151, ?
mlx5_3/1:  INIT Polling, ?, ?, ?
`, []string{"mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"}},
		"mlxlink.txt": {"mlxlink", "mlx5_0/1: InfiniBand ? LinkUp, 400 Gb/sec (4X NDR), ?, 28.43.1014\n", []string{"mlx5_0/1"}},
	} {
		if diff := cmp.Diff(tt.want, ports(given(t, name, tt.kind), tt.ports...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Ports of one device are those of one NIC, and what text says of the second is not taken for the first.
func TestSecondPort(t *testing.T) {
	f, _ := pasted(t,
		[2]string{"ibstat", testdata(t, "ibstat-two-ports.txt")},
		[2]string{"sysfs", "/sys/class/infiniband/mlx4_0/ports/2/gids/0:fe80:0000:0000:0000:f452:1403:007b:e0e2\n/sys/class/infiniband/mlx4_0/ports/2/gid_attrs/types/0:IB/RoCE v1\n"},
		[2]string{"gids", "DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\nmlx4_1\t2\t3\t0000:0000:0000:0000:0000:ffff:c633:640b\t198.51.100.11\tv2\teth7\n"})
	devices, _ := f.Inventory.RDMA.Get()
	if len(devices) != 2 || len(devices[0].Ports) != 2 || devices[0].Ports[1].Port != 2 || len(devices[1].Ports) != 2 {
		t.Fatalf("devices are %+v", devices)
	}
	for port, want := range map[string]int{"mlx4_0/1": 0, "mlx4_0/2": 1, "mlx4_1/1": 0, "mlx4_1/2": 1} {
		state, _ := node.RDMAPort.Get(f, port).Get()
		if gids, _ := state.GIDs.Get(); len(gids) != want {
			t.Errorf("%s has %d GIDs", port, len(gids))
		}
	}
	if nic, ok := f.Inventory.PortOf("mlx4_1"); !ok || nic.Netdev.IsKnown() {
		t.Errorf("the network device of port 2 is that of %v", nic)
	}
}

// A network device, its PCI address and its RDMA device are one NIC, whatever tells two of the names.
func TestEthtool(t *testing.T) {
	f, inputs := pasted(t, [2]string{"ethtool", testdata(t, "ethtool-i.txt")}, [2]string{"rdma", "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth1\n"})
	if diff := cmp.Diff([]string{"ethtool -i", "rdma link"}, kindsOf(inputs)); diff != "" {
		t.Error(diff)
	}
	link, _ := node.Link.Get(f, "0000:1a:00.0").Get()
	known1(t, "firmware", link.Firmware, "28.43.1014 (MT_0000000838)")
	known1(t, "driver", link.Driver, "mlx5_core")
	port, _ := node.RDMAPort.Get(f, "mlx5_0/1").Get()
	known1(t, "firmware of the port", port.Firmware, "28.43.1014")
	known1(t, "board", port.BoardID, "MT_0000000838")
	nic, _ := f.Inventory.PortOf("0000:1a:00.0")
	known1(t, "network device", nic.Netdev, "eth1")
	known1(t, "RDMA device", nic.RDMA, "mlx5_0")
	_, inputs = pasted(t, [2]string{"x", "driver: tun\nversion: 1.6\nbus-info: tap\n"})
	if len(inputs) != 1 || inputs[0].Doubt == "" {
		t.Errorf("of a device that nobody named: %+v", inputs)
	}
}

func TestMlxlinkEthernet(t *testing.T) {
	text := strings.NewReplacer("IB-NDR", "200G_4X", "LinkUp", "ETH_AN_FSM_ENABLE", "mlx5_0 -p 1", "/dev/mst/mt4129_pciconf0").Replace(testdata(t, "mlxlink.txt"))
	_, inputs := pasted(t, [2]string{"x", text})
	if len(inputs) != 1 || !strings.Contains(inputs[0].Doubt, "which NIC") {
		t.Errorf("inputs are %+v", inputs)
	}
	f, _ := pasted(t, [2]string{"ethtool", testdata(t, "ethtool-i.txt")}, [2]string{"x", text})
	link, _ := node.Link.Get(f, "0000:1a:00.0").Get()
	known1(t, "speed", link.Speed, 200_000)
}

func TestPackages(t *testing.T) {
	f := given(t, "dpkg.txt", "dpkg -l")
	manager, _ := node.FabricManager.Get(f, "").Get()
	known1(t, "fabric manager", manager.Version, "580.82.07")
	library, _ := node.NVML.Get(f, "").Get()
	if library.DriverVersion() != "580.95.05" || node.NVIDIADriver.Get(f, "").IsKnown() {
		t.Errorf("the library is of %s; packages say which driver runs: %v", library.DriverVersion(), node.NVIDIADriver.Get(f, "").IsKnown())
	}
	if nvlsm, _ := node.Path.Get(f, subnetManager).Get(); !nvlsm.Exists {
		t.Error("nvlsm is not there")
	}
	f = given(t, "rpm.txt", "rpm -qa")
	imex, _ := node.IMEX.Get(f, "").Get()
	known1(t, "IMEX", imex.Version, "580.82.07")
	manager, _ = node.FabricManager.Get(f, "").Get()
	known1(t, "fabric manager", manager.Version, "580.95.05")
	for name, want := range map[string]int{
		"nvidia-fabricmanager": managerPackage, "nvidia-fabricmanager-570": managerPackage, "nvidia-fabric-manager": managerPackage, "nvidia-fabricmanager-dev-570": otherPackage,
		"nvidia-imex-580": imexPackage, "libnvidia-compute": libraryPackage, "libnvidia-compute-570": libraryPackage, "libnvidia-ml": libraryPackage, "libnvidia-ml-dev": otherPackage,
	} {
		if got := packageOf(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

func TestServices(t *testing.T) {
	f := given(t, "systemctl-status.txt", "systemctl status", "?", "systemctl status", "systemctl status")
	for unit, want := range map[string]string{
		"nvidia-fabricmanager.service": "loaded enabled failed", "nvidia-imex.service": "masked  inactive", "openibd.service": "not-found  inactive",
	} {
		u, ok := node.Unit.Get(f, unit).Get()
		active, _ := u.Active.Get()
		if got := u.Load + " " + u.File + " " + active; !ok || got != want {
			t.Errorf("%s is %q, want %q", unit, got, want)
		}
	}
}

func TestHostTexts(t *testing.T) {
	f := given(t, "numactl.txt", "numactl -H")
	known1(t, "NUMA nodes", node.NUMANodes.Get(f, ""), []node.NUMANode{{ID: 0, CPUs: "0-3,8-11"}, {ID: 1, CPUs: "4-7,12,14"}})
	if _, inputs := pasted(t, [2]string{"x", strings.Join(strings.SplitAfter(testdata(t, "numactl.txt"), "\n")[:3], "")}); inputs[0].Doubt == "" {
		t.Errorf("half of it: %+v", inputs)
	}

	f = given(t, "ulimit.txt", "ulimit")
	limits, _ := node.ProcLimits.Get(f, shell).Get()
	if !limits.Running || !strings.Contains(limits.Text, "Max locked memory         65536                65536                bytes") {
		t.Errorf("limits are %q", limits.Text)
	}
	f, _ = pasted(t, [2]string{"x", "$ ulimit -l\nunlimited\n"})
	if limits, _ := node.ProcLimits.Get(f, shell).Get(); !strings.Contains(limits.Text, "unlimited            unlimited") {
		t.Errorf("limits are %q", limits.Text)
	}

	f = given(t, "nvidia-params.txt", driverParameters)
	driver, _ := node.NVIDIADriver.Get(f, "").Get()
	parameters, _ := driver.Parameters.Get()
	if !driver.Loaded || parameters["RegistryDwords"] != "PeerMappingOverride=1;" || len(parameters) != 12 {
		t.Errorf("driver is %+v", driver)
	}

	f, _ = pasted(t, [2]string{"x", "$ sysctl -a\nabi.vsyscall32 = 1\ndev.cdrom.info = \nkernel.core_pattern =\nkernel.numa_balancing = 1\n"})
	known1(t, "behind empty ones", node.Sysctl.Get(f, "kernel.numa_balancing"), "1")
}

// The module on disk is the one that runs where both are of one version.
func TestModinfo(t *testing.T) {
	for version, want := range map[string]bool{"590.44.01": true, "580.95.05": false} {
		var d draft
		modinfoKind.read(&d, section{piece: piece{lines: strings.Split(strings.TrimSpace(testdata(t, "modinfo.txt")), "\n")[3:]}, file: "x", first: 1})
		d.driverVersion(version, node.Source{})
		f := d.facts()
		driver, _ := node.NVIDIADriver.Get(f, "").Get()
		given, _ := f.Inventory.Given.Get()
		if driver.Open != want || slices.Contains(given, "driver_flavour") != want {
			t.Errorf("with %s running: %+v, given %v", version, driver, given)
		}
	}
}

func TestTree(t *testing.T) {
	f := given(t, "lspci-tv.txt", "lspci -t")
	gpus, _ := f.Inventory.GPUs().Get()
	if len(gpus) != 2 || gpus[0].Address != "0000:5e:00.0" || gpus[1].Address != "0000:e4:00.0" || gpus[1].PCIID != "10de:20b0" {
		t.Errorf("GPUs are %+v", gpus)
	}
	tree := f.Inventory.Topology()
	for pair, want := range map[[2]string]node.Relation{
		{"0000:5e:00.0", "0000:5d:00.0"}: node.PIX,
		{"0000:e4:00.0", "0000:e3:00.0"}: node.PIX,
	} {
		known1(t, strings.Join(pair[:], " and "), tree.Relation(pair[0], pair[1]), want)
	}
	for address, parent := range map[string]string{
		"0000:e0:02.0": "", "0000:e1:00.0": "0000:e0:02.0", "0000:e2:08.0": "0000:e1:00.0", "0000:e4:00.0": "0000:e2:08.0", "0000:5d:00.1": "0000:5c:04.0",
		"0000:60:00.0": "0000:5c:0c.0", "0000:5a:05.0": "", "0000:00:1c.0": "",
	} {
		if function, ok := f.Inventory.PCIFunction(address); !ok || function.Parent != parent {
			t.Errorf("%s is below %q", address, function.Parent)
		}
	}
	nics := 0
	functions, _ := f.Inventory.PCI.Get()
	for _, function := range functions {
		nics += one(function.IsNIC())
	}
	if nics != 2 {
		t.Errorf("%d NICs", nics)
	}
	// Without -v the tree has no names; another text gives them.
	f, _ = pasted(t, [2]string{"t", "-[0000:00]-+-00.0\n           \\-01.0-[01-03]----00.0-[02-03]--+-00.0-[03]----00.0\n"}, [2]string{"nn", "03:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"})
	if gpus, _ := f.Inventory.GPUs().Get(); len(gpus) != 1 {
		t.Errorf("GPUs are %+v", gpus)
	}
	if gpu, _ := f.Inventory.PCIFunction("0000:03:00.0"); gpu.Parent != "0000:02:00.0" {
		t.Errorf("the GPU is below %q", gpu.Parent)
	}
}

func TestSetpci(t *testing.T) {
	f, inputs := pasted(t, [2]string{
		"x",
		"# setpci -s 1a:00.0 CAP_EXP+8.w\n2936\n# setpci -s 0000:1a:00.0 CAP_EXP+0x12.w\n1105\n# setpci -s 1a:00.0 CAP_EXP+0c.l\n0047f905\n" +
			"# setpci -s 19:00.0 ECAP_ACS+0x6.w\n001d\n# setpci -s 19:00.0 BRIDGE_CONTROL\n0013\n# setpci -d 10de: CAP_EXP+8.w\n2936\n",
	})
	if diff := cmp.Diff([]string{"setpci", "setpci", "setpci", "setpci", "setpci, another register", "setpci, another register"}, kindsOf(inputs)); diff != "" {
		t.Error(diff)
	}
	registers, _ := node.PCIRegisters.Get(f, "0000:1a:00.0").Get()
	known1(t, "device control", registers.Express, pciregs.Express{Present: true, MaxPayload: 256, MaxReadRequest: 512})
	link, _ := node.PCILink.Get(f, "0000:1a:00.0").Get()
	known1(t, "link", link.Current, pciregs.Link{SpeedGTs: 32, Width: 16})
	known1(t, "best link", link.Max, pciregs.Link{SpeedGTs: 32, Width: 16})
	bridge, _ := node.PCIRegisters.Get(f, "0000:19:00.0").Get()
	acs, _ := bridge.ACS.Get()
	if got := strings.Join(acs.Enabled.Names(), " "); got != "SrcValid ReqRedir CmpltRedir UpstreamFwd" {
		t.Errorf("ACS is %s", got)
	}
}
