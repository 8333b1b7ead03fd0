package example_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"busbar/internal/pciregs"
	"busbar/node"
)

// The kinds of functions of a two-socket Sapphire Rapids server with an HGX H100 board.
var (
	intelRootPort = id{"8086", "352a", "060400", "pcieport"}
	pexPort       = id{"1000", "c030", "060400", "pcieport"}
	pmcPort       = id{"11f8", "4128", "060400", "pcieport"}
	h100          = id{"10de", "2330", "030200", "nvidia"}
	h200          = id{"10de", "2335", "030200", "nvidia"}
	b200          = id{"10de", "2901", "030200", "nvidia"}
	nvswitch      = id{"10de", "22a3", "068000", "nvidia-nvswitch"}
	connectx7     = id{"15b3", "1021", "020000", "mlx5_core"}
	infiniband7   = id{"15b3", "1021", "020700", "mlx5_core"}
	connectx6Dx   = id{"15b3", "101d", "020000", "mlx5_core"}
	nvme          = id{"144d", "a824", "010802", "nvme"}
	bcm5720       = id{"14e4", "165f", "020000", "tg3"}
)

// gpuSwitches are the root buses of the eight PCIe switches, each with an NVMe drive, a GPU and
// its rail; the first also holds the NIC of the front network.
var gpuSwitches = []int{0x15, 0x37, 0x48, 0x59, 0x97, 0xb7, 0xc7, 0xd7}

func hgxBus() bus {
	var b bus
	uncore(&b)
	hgxBoard(&b, h100, connectx7)
	nvswitches(&b)
	return b
}

// hgxBoard has eight GPUs and their rails.
func hgxBoard(b *bus, gpu, nic id) {
	for i, root := range gpuSwitches {
		port := func(bus, device int) string { return fmt.Sprintf("%02x:%02x.0", root+bus, device) }
		rootPort := b.add(port(0, 1), "", intelRootPort)
		up := b.add(port(1, 0), rootPort, pexPort)
		below := func(device int) string { return b.add(port(2, device), up, pexPort) }
		b.add(port(3, 0), below(0), nvme)
		b.add(port(4, 0), below(1), gpu)
		b.add(port(5, 0), below(2), nic)
		if i == 0 {
			front := below(3)
			b.add("1b:00.0", front, connectx6Dx)
			b.add("1b:00.1", front, connectx6Dx)
		}
		below(0x1f)
	}
}

// nvswitches are those of the third generation, behind a switch of their own.
func nvswitches(b *bus) {
	up := b.add("81:00.0", b.add("80:01.0", "", intelRootPort), pmcPort)
	for i := range 4 {
		b.add(fmt.Sprintf("%02x:00.0", 0x83+i), b.add(fmt.Sprintf("82:%02x.0", i), up, pmcPort), nvswitch)
	}
}

// uncore adds what the processors and the chipset have of their own.
func uncore(b *bus) {
	for _, root := range []string{"00", "15", "26", "37", "48", "59", "6a", "80", "97", "a7", "b7", "c7", "d7", "e7"} {
		for function, k := range map[int]id{
			0: {"8086", "09a2", "088000", ""}, 1: {"8086", "09a4", "088000", ""},
			2: {"8086", "09a3", "088000", ""}, 4: {"8086", "0b23", "088000", ""},
		} {
			b.add(fmt.Sprintf("%s:00.%d", root, function), "", k)
		}
	}
	for _, root := range []string{"6a", "e7"} {
		b.add(root+":01.0", "", id{"8086", "0b25", "088000", "idxd"})
		b.add(root+":02.0", "", id{"8086", "0cfe", "088000", "idxd"})
	}
	for _, root := range []string{"7e", "fe"} {
		for i, device := range []string{"3250", "3251", "3252", "0998"} {
			b.add(fmt.Sprintf("%s:00.%d", root, i), "", id{"8086", device, "088000", ""})
		}
		for i, device := range []string{"3240", "3241", "3242"} {
			for link := range 4 {
				b.add(fmt.Sprintf("%s:%02x.%d", root, 1+link, i), "", id{"8086", device, "088000", ""})
			}
		}
	}
	b.add("00:14.0", "", id{"8086", "1bcd", "0c0330", "xhci_hcd"})
	b.add("00:17.0", "", id{"8086", "1ba2", "010601", "ahci"})
	b.add("00:1f.0", "", id{"8086", "1b81", "060100", ""})
	b.add("00:1f.4", "", id{"8086", "1bc9", "0c0500", "i801_smbus"})
	lan := b.add("00:0c.0", "", id{"8086", "1bbc", "060400", "pcieport"})
	b.add("01:00.0", lan, bcm5720)
	b.add("01:00.1", lan, bcm5720)
	graphics := b.add("00:0e.0", "", id{"8086", "1bbe", "060400", "pcieport"})
	b.add("03:00.0", b.add("02:00.0", graphics, id{"1556", "be00", "060400", ""}), id{"102b", "0536", "030000", "mgag200"})
	b.add("27:00.0", b.add("26:01.0", "", intelRootPort), id{"1b4b", "2241", "010802", "nvme"})
}

// hgxNetwork: a bond of two ports for everything but RDMA, a rail per GPU in a subnet of its own.
func hgxNetwork(m *machine) {
	hgxFront(m)
	m.netdevs = append(
		m.netdevs, node.Netdev{Name: "eno8303", Type: node.ARPHardwareEthernet, PCI: "0000:01:00.0", Port: 1},
		node.Netdev{Name: "eno8403", Type: node.ARPHardwareEthernet, PCI: "0000:01:00.1", Port: 1},
	)
	for i, root := range gpuSwitches {
		bus := root + 5
		name := fmt.Sprintf("enp%ds0np0", bus)
		address := fmt.Sprintf("0000:%02x:00.0", bus)
		m.netdevs = append(m.netdevs, node.Netdev{Name: name, Type: node.ARPHardwareEthernet, PCI: address, Port: 1, Up: true, Addresses: []string{fmt.Sprintf("198.18.%d.17/24", i)}})
		m.rdma = append(m.rdma, node.RDMADevice{Name: rails[i], PCI: address, Ports: ethernetPort(name)})
	}
}

func ethernetPort(netdev string) []node.RDMADevicePort {
	return []node.RDMADevicePort{{Port: 1, Netdev: netdev, LinkLayer: node.Known("Ethernet", node.Source{})}}
}

// hgxFront is the bond.
func hgxFront(m *machine) {
	m.netdevs = []node.Netdev{
		{Name: "lo", Type: node.ARPHardwareLoopback, Up: true, Addresses: []string{"127.0.0.1/8", "::1/128"}},
		{Name: "enp27s0f0np0", Type: node.ARPHardwareEthernet, PCI: "0000:1b:00.0", Port: 1, Up: true},
		{Name: "enp27s0f1np1", Type: node.ARPHardwareEthernet, PCI: "0000:1b:00.1", Port: 1, Up: true},
		{Name: "bond0", Type: node.ARPHardwareEthernet, Lower: []string{"enp27s0f0np0", "enp27s0f1np1"}, Up: true, Addresses: []string{"192.0.2.17/24"}},
	}
	m.rdma = []node.RDMADevice{{Name: "mlx5_bond_0", PCI: "0000:1b:00.0", Ports: ethernetPort("bond0")}}
	m.routes = []node.Route{{Destination: "default", Devices: []string{"bond0"}}}
	m.guarded = []node.ProtectedNetdev{
		{Name: "bond0", Reason: "carries the default route"},
		{Name: "enp27s0f0np0", Reason: "below bond0: carries the default route"},
		{Name: "enp27s0f1np1", Reason: "below bond0: carries the default route"},
	}
}

// rails are the RDMA devices beside the GPUs. The bond took two numbers.
var rails = []string{"mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"}

var hgxKernels = []string{"5.15.0-139-generic", "5.15.0-138-generic"}

const (
	peermemFile  = "updates/dkms/nvidia-peermem.ko"
	mlx5File     = "updates/dkms/mlx5_ib.ko"
	umadFile     = "updates/dkms/ib_umad.ko"
	kernelConf   = "/etc/sysctl.d/10-kernel-hardening.conf"
	kernelText   = "kernel.kptr_restrict = 1\nkernel.dmesg_restrict = 1\n"
	slurmdUnit   = "[Unit]\nDescription=Slurm node daemon\nAfter=munge.service network-online.target\n\n[Service]\nType=notify\nExecStart=/usr/sbin/slurmd --systemd\nKillMode=process\nLimitNOFILE=131072\nDelegate=yes\n\n[Install]\nWantedBy=multi-user.target\n"
	memlockText  = "[Service]\nLimitMEMLOCK=infinity\n"
	containerd   = "[Unit]\nDescription=containerd container runtime\nAfter=network.target\n\n[Service]\nExecStart=/usr/bin/containerd\nDelegate=yes\nKillMode=process\nLimitNPROC=infinity\nLimitCORE=infinity\n\n[Install]\nWantedBy=multi-user.target\n"
	openibdUnit  = "[Unit]\nDescription=openibd - configure Mellanox devices\nDocumentation=file:/etc/infiniband/openib.conf\nAfter=wickedd.service wickedd-nanny.service local-fs.target sysinit.target\nBefore=network.target network.service networking.service remote-fs-pre.target\nRefuseManualStop=false\nDefaultDependencies=false\n\n[Service]\nType=oneshot\nTimeoutSec=180\nRemainAfterExit=yes\nExecStart=/etc/init.d/openibd start bootid=%b\nExecStop=/etc/init.d/openibd stop\nExecReload=/etc/init.d/openibd restart bootid=%b\n\n[Install]\nWantedBy=sysinit.target\n"
	rdmaLimits   = "# RDMA locks memory.\n* - memlock unlimited\nroot - memlock unlimited\n"
	hgxRootUUID  = "7c1d4f2e-5b0a-4a38-9a55-1f0c6a2e8d41"
	serialOutput = "console=tty0 console=ttyS0,115200n8"
)

// hgxH100 is a node as its owner's own tools leave it when all is well. busbar never ran on it.
func hgxH100() *machine {
	m := &machine{
		hostname: "gpu-a01", kernel: hgxKernels[0], bootID: "5f0a1c9e-3d52-4c19-8f0e-6f2b9a7d1e04", uptime: 19*24*time.Hour + 7*time.Hour,
		os:             node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "22.04", PrettyName: "Ubuntu 22.04.5 LTS"},
		dmi:            node.Known(node.DMI{SysVendor: "Dell Inc.", ProductName: "PowerEdge XE9680", BoardVendor: "Dell Inc.", BIOSVendor: "Dell Inc.", BIOSVersion: "2.5.4"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/proc/cpuinfo")),
		bus:            hgxBus(), domain: "identity", firmware: []string{"DMAR"},
	}
	for i := range 14 {
		m.iommus = append(m.iommus, fmt.Sprintf("dmar%d", i))
	}
	hgxNetwork(m)
	// A unit of its owner clears the ACS of all ports at boot, and sets the rails.
	m.readRequests = map[string]int{}
	for _, root := range gpuSwitches {
		m.readRequests[fmt.Sprintf("0000:%02x:00.0", root+5)] = 4096
	}
	m.boot(grubNode{
		title: "Ubuntu", uuid: hgxRootUUID, kernels: hgxKernels, linux: serialOutput, linuxDefault: "intel_iommu=on iommu=pt",
		fragments: []string{"/etc/default/grub.d/60-gpu.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT intel_iommu=on iommu=pt\"\n"},
	})
	m.gpuServer(hgxKernels)
	m.unit("nvidia-fabricmanager.service", "enabled", "active")
	m.ncclConf("NCCL_IB_HCA==" + strings.Join(rails, ",") + "\nNCCL_SOCKET_IFNAME==bond0\nNCCL_IB_TC=104\nNCCL_IB_QPS_PER_CONNECTION=4\n")
	m.numaNodes("0-55,112-167", "56-111,168-223")
	m.losslessRails()
	for port := range 2 {
		m.link(fmt.Sprintf("0000:01:00.%d", port), driver{"tg3", "FFV22.31.13 bc 5720-v1.39"}, 0)
	}
	m.frontLinks()
	return m
}

// frontLinks answers for the ports of the bond.
func (m *machine) frontLinks() {
	for port := range 2 {
		m.link(fmt.Sprintf("0000:1b:00.%d", port), driver{"mlx5_core", "22.39.1002 (MT_0000000359)"}, 100_000)
	}
	m.roce("mlx5_bond_0/1", "100 Gb/sec (4X EDR)", "22.39.1002", "MT4125")
}

// tuned is what the owner of a board has done to it besides: boot arguments, read requests, and no ACS on any port.
func (m *machine) tuned() {
	m.domain, m.firmware, m.readRequests = "identity", []string{"DMAR"}, map[string]int{}
	for i := range 14 {
		m.iommus = append(m.iommus, fmt.Sprintf("dmar%d", i))
	}
	for _, root := range gpuSwitches {
		m.readRequests[fmt.Sprintf("0000:%02x:00.0", root+5)] = 4096
	}
	const arguments = "intel_iommu=on iommu=pt"
	m.boot(grubNode{
		title: "Ubuntu", uuid: hgxRootUUID, kernels: []string{m.kernel}, linux: serialOutput, linuxDefault: arguments,
		fragments: []string{"/etc/default/grub.d/60-gpu.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT " + arguments + "\"\n"},
	})
}

// openDriver has dma-buf, so that nobody loads nvidia_peermem.
func (m *machine) openDriver(version string, k gpuKind) {
	m.gpus(version, true, k)
	m.absent(peerClient)
	m.module("nvidia_peermem", false, peermemFile, []string{m.kernel})
}

// hgxH200IB is a node with eight H200 and rails on InfiniBand without IPoIB, in a switched fabric whose subnet manager is elsewhere.
// All is well.
func hgxH200IB() *machine {
	m := &machine{
		hostname: "gpu-h03", kernel: "6.8.0-60-generic", bootID: "8d2f5b60-17c4-4e0a-a9b1-63c5d2f0e714", uptime: 11*24*time.Hour + 2*time.Hour,
		os:             node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04", PrettyName: "Ubuntu 24.04.2 LTS"},
		dmi:            node.Known(node.DMI{SysVendor: "Supermicro", ProductName: "SYS-821GE-TNHR", BoardVendor: "Supermicro", BoardName: "X13DEG-OAD", BIOSVendor: "American Megatrends International, LLC.", BIOSVersion: "2.4"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/proc/cpuinfo")),
	}
	hgxBoard(&m.bus, h200, infiniband7)
	nvswitches(&m.bus)
	hgxFront(m)
	m.tuned()
	m.gpuServer([]string{m.kernel})
	m.openDriver("570.195.03", h200SXM)
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n")
	m.unit("nvidia-fabricmanager.service", "enabled", "active")
	m.ncclConf("NCCL_IB_HCA==" + strings.Join(rails, ",") + "\nNCCL_SOCKET_IFNAME==bond0\nNCCL_IB_TC=104\n")
	m.numaNodes("0-55,112-167", "56-111,168-223")
	m.frontLinks()
	for i, root := range gpuSwitches {
		m.infiniband(fmt.Sprintf("0000:%02x:00.0", root+5), rails[i], 101+i)
	}
	return m
}

// hgxB200 is a node with eight B200 and rails on RoCE. Its NVSwitches show no PCI function: a ConnectX-7 on the board leads to
// them, whose four functions look like InfiniBand rails. All is well.
func hgxB200() *machine {
	m := &machine{
		hostname: "gpu-b01", kernel: "6.8.0-60-generic", bootID: "f1b7a2c8-5e90-4d36-8a4c-0c9e7d61b253", uptime: 4*24*time.Hour + 9*time.Hour,
		os:             node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04", PrettyName: "Ubuntu 24.04.2 LTS"},
		dmi:            node.Known(node.DMI{SysVendor: "Dell Inc.", ProductName: "PowerEdge XE9680L", BoardVendor: "Dell Inc.", BIOSVendor: "Dell Inc.", BIOSVersion: "2.6.3"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/proc/cpuinfo")),
	}
	hgxBoard(&m.bus, b200, connectx7)
	hgxNetwork(m)
	m.netdevs = slices.DeleteFunc(m.netdevs, func(d node.Netdev) bool { return strings.HasPrefix(d.Name, "eno") })
	m.tuned()
	m.gpuServer([]string{m.kernel})
	m.openDriver("580.95.05", b200SXM)
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n", "/etc/modules-load.d/nvlink.conf", "ib_umad\n")
	m.module("ib_umad", true, umadFile, []string{m.kernel})
	m.fabricManager("580.95.05")
	m.unit("nvidia-fabricmanager.service", "enabled", "active")
	answer(m, node.Path, "/opt/nvidia/nvlsm/sbin/nvlsm", node.Known(node.PathState{Exists: true, Type: "file", Mode: "0755"}, at("/opt/nvidia/nvlsm/sbin/nvlsm")))
	m.ncclConf("NCCL_IB_HCA==" + strings.Join(rails, ",") + "\nNCCL_SOCKET_IFNAME==bond0\nNCCL_IB_TC=104\nNCCL_IB_QPS_PER_CONNECTION=4\n")
	m.numaNodes("0-55,112-167", "56-111,168-223")
	m.losslessRails()
	m.frontLinks()
	for i, address := range bridgeToNVSwitches(&m.bus) {
		m.infiniband(address, fmt.Sprintf("mlx5_%d", 10+i), 0)
	}
	return m
}

// bridgeToNVSwitches is a ConnectX-7 beside the NVSwitches of the fifth generation.
func bridgeToNVSwitches(b *bus) []string {
	root := b.add("80:01.0", "", intelRootPort)
	var all []string
	for i := range 4 {
		all = append(all, b.add(fmt.Sprintf("81:00.%d", i), root, infiniband7))
	}
	return all
}

// infiniband answers for the only port of an adapter of 400 Gb/s without IPoIB. A LID of 0 is that of a port which no subnet manager
// has numbered, as those that lead to NVSwitches.
func (m *machine) infiniband(address, rdma string, lid int) {
	m.rdma = append(m.rdma, node.RDMADevice{Name: rdma, PCI: address, Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", node.Source{})}}})
	var bus int
	_, _ = fmt.Sscanf(address, "0000:%x:", &bus)
	s := losslessRail(bus, "", rdma, 0, ndr).RDMA
	s.LinkLayer = "InfiniBand"
	s.LID, s.SMLID = node.Known(lid, s.LID.Source()), node.Known(min(lid, 1), s.SMLID.Source())
	s.GIDs = node.Known([]node.GID{{GID: "fe80:0000:0000:0000:58a2:e103:000c:" + fmt.Sprintf("%02x00", bus), Type: node.GIDRoCEv1}}, s.GIDs.Source())
	answer(m, node.RDMAPort, rdma+"/1", node.Known(s, at("/sys/class/infiniband/"+rdma+"/ports/1")))
	source := at("/sys/bus/pci/devices/" + address)
	const none = "driver mlx5_core has made no network device for port 1 of the NIC"
	answer(m, node.Link, address, node.Unknown[node.LinkState](none, source))
	answer(m, node.LinkManagement, address, node.Unknown[node.LinkManagementState](none, source))
	answer(m, node.FlowControl, address, node.Unknown[node.FlowControlState](none, source))
	answer(m, node.DCB, address, node.Unknown[node.DCBState](none, source))
	answer(m, node.RoCE, address, node.Unknown[node.RoCEState](none, source))
}

// gpuServer is what the owner of a server with GPUs and rails has set up on it: modules, limits, services.
func (m *machine) gpuServer(kernels []string) {
	answer(m, node.ModuleSigning, "", node.Known(node.ModuleSigningState{Lockdown: "none"}, at("/sys/module/module/parameters/sig_enforce")))
	m.module("mlx5_ib", true, mlx5File, kernels)
	m.module("ib_umad", true, umadFile, kernels)
	m.module("nvidia_peermem", true, peermemFile, kernels)
	m.module("nv_peer_mem", false, "", kernels)
	m.module("rdma_cm", true, "updates/dkms/rdma_cm.ko", kernels)
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n", "/etc/modules-load.d/nvidia-peermem.conf", "nvidia-peermem\n")
	files(m, node.ModprobeFiles, "", "/etc/modprobe.d", "/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau\noptions nouveau modeset=0\n")

	m.sysctl("kernel.numa_balancing", "0")
	files(m, node.SysctlFiles, "", "/etc/sysctl.d", kernelConf, kernelText, "/etc/sysctl.d/60-gpu.conf", "kernel.numa_balancing = 0\n")

	files(m, node.LimitsFiles, "", "/etc/security/limits.d", "/etc/security/limits.conf", "# DOMAIN TYPE ITEM VALUE\n", "/etc/security/limits.d/90-rdma.conf", rdmaLimits)
	files(m, node.SystemConfFiles, "", "/etc/systemd/system.conf", "/etc/systemd/system.conf", "[Manager]\n#LogLevel=info\n")
	files(m, node.OwnedDropIns, "", "/etc/systemd/system")
	m.unit("slurmd.service", "enabled", "active", "/usr/lib/systemd/system/slurmd.service", slurmdUnit, "/etc/systemd/system/slurmd.service.d/memlock.conf", memlockText)
	m.process("slurmd.service", "slurmd", 3121, "unlimited")
	m.unit("containerd.service", "enabled", "active", "/usr/lib/systemd/system/containerd.service", containerd, "/etc/systemd/system/containerd.service.d/memlock.conf", memlockText)
	m.process("containerd.service", "containerd", 2874, "unlimited")
	m.noUnits("docker.service", "crio.service", "kubelet.service", "nv_peer_mem.service", "nvidia-imex.service")
	m.unit("nvidia-persistenced.service", "static", "active")
	m.unit("openibd.service", "enabled", "active", "/usr/lib/systemd/system/openibd.service", openibdUnit, "/etc/systemd/system/openibd.service.d/peermem.conf", "[Service]\nExecStartPost=/sbin/modprobe nvidia-peermem\n")
	files(m, node.NCCLUserFiles, "", "/home", "/etc/environment", "PATH=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n")
	m.devices("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0")
	m.noDCBXAgents()
	m.gpus("570.195.03", false, h100SXM)
	m.fabricManager("570.195.03")
	answer(m, node.Path, peerClient, node.Known(node.PathState{Exists: true, Type: "file", Mode: "0444"}, at(peerClient)))
	m.rootFileSystem("ext4")
}

// hgxH100Drifted is the same kind of node after a year of hands: every job still ends with exit
// code 0, and slower than on its neighbours.
func hgxH100Drifted() *machine {
	m := hgxH100()
	m.hostname, m.bootID = "gpu-a07", "c2b7e6d0-9a41-4f5b-b7d3-0e9f5a1c7b22"
	m.uptime, m.unsaved = 143*24*time.Hour, true
	m.netdevs[5].Addresses = []string{"192.0.2.23/24"}

	// One GPU fell off the bus, and two NVLinks of another are down.
	m.bus.remove("0000:bb:00.0")
	m.gpus("570.195.03", false, h100SXM)
	m.cut("0000:4c:00.0", 3, 5)

	// Somebody reset a port and a NIC: the kernel turned redirection on again, and the NIC lost what
	// had been set.
	m.acs = map[string]pciregs.ACSBits{"0000:39:01.0": kernelACS}
	m.readRequests["0000:4d:00.0"] = 512

	// Somebody wanted the IOMMU out of the way and wrote what AMD's cookbooks say.
	m.domain = "DMA-FQ"
	m.boot(grubNode{
		title: "Ubuntu", uuid: hgxRootUUID, kernels: hgxKernels, linux: serialOutput, linuxDefault: "intel_iommu=on amd_iommu=on",
		fragments: []string{"/etc/default/grub.d/60-gpu.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT intel_iommu=on amd_iommu=on\"\n"},
	})

	// The driver was upgraded; its loader's file went with the old package.
	m.module("nvidia_peermem", false, peermemFile, hgxKernels)
	m.absent(peerClient)
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n")

	// A tuning package sets what another file unset, and is read later.
	m.sysctl("kernel.numa_balancing", "1")
	files(m, node.SysctlFiles, "", "/etc/sysctl.d", kernelConf, kernelText, "/etc/sysctl.d/60-gpu.conf", "kernel.numa_balancing = 0\n", "/etc/sysctl.d/zzz-vendor-tuning.conf", "vm.swappiness = 10\nkernel.numa_balancing = 1\n")

	// The drop-in is right, the daemon was started before it.
	m.process("slurmd.service", "slurmd", 3098, "8388608")

	// Quotes, which NCCL takes for a part of the number; a key that does not exist.
	m.ncclConf("NCCL_IB_HCA==" + strings.Join(rails, ",") + "\nNCCL_SOCKET_IFNAME==bond0\nNCCL_IB_TC=\"104\"\nNCCL_IB_QPS_PER_CONECTION=4\n")
	m.driftedRails()
	return m
}
