package example_test

import (
	"fmt"
	"strings"
	"time"

	"busbar/node"
)

// romePort and plxPort are the ports of an HGX A100 server: those of its processors and of its PCIe switches.
var (
	romePort    = id{"1022", "1483", "060400", "pcieport"}
	plxPort     = id{"1000", "c010", "060400", "pcieport"}
	a100        = id{"10de", "20b2", "030200", "nvidia"}
	a100Switch  = id{"10de", "1af1", "068000", "nvidia-nvswitch"}
	connectx6   = id{"15b3", "101b", "020000", "mlx5_core"}
	a100Kernels = []string{"5.15.0-141-generic", "5.15.0-139-generic"}
)

// quads are the root buses of the four PCIe switches of an HGX A100, in the order of addresses. Each holds two GPUs, two rails and
// a drive.
var quads = []int{0x00, 0x40, 0x80, 0xc0}

// a100NUMA are the NUMA nodes by the upper three bits of a bus: with NPS4 each quadrant of an EPYC, and so each of its host
// bridges, is one.
var a100NUMA = []int{3, 2, 1, 0, 7, 6, 5, 4}

// quadBuses are the buses of a quad's devices: a GPU, a rail, a GPU, a rail.
func quadBuses(root int) [4]int { return [4]int{root + 5, root + 8, root + 11, root + 14} }

// hgxA100NPS4 is a two-socket EPYC with eight A100, eight rails and a card for storage and everything else, whose memory
// is divided as finely as it can be (NPS4). The switches show two levels, each device behind one of its own. All is well.
func hgxA100NPS4() *machine {
	m := &machine{
		hostname: "gpu-b12", kernel: a100Kernels[0], bootID: "3b8e5c1f-64d7-4f0a-9c2b-7a1d90e4f862", uptime: 52*24*time.Hour + 3*time.Hour,
		os:             node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "22.04", PrettyName: "Ubuntu 22.04.5 LTS"},
		dmi:            node.Known(node.DMI{SysVendor: "Supermicro", ProductName: "AS -4124GO-NART+", BoardVendor: "Supermicro", BoardName: "H12DGO-6", BIOSVendor: "American Megatrends Inc.", BIOSVersion: "2.9"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/proc/cpuinfo")),
		domain:         "identity", firmware: []string{"IVRS"},
	}
	for i := range 8 {
		m.iommus = append(m.iommus, fmt.Sprintf("ivhd%d", i))
	}
	a100Bus(&m.bus)
	m.gpuServer(a100Kernels)
	m.gpus("570.195.03", false, a100SXM)
	m.readRequests = map[string]int{}
	m.netdevs = []node.Netdev{
		{Name: "lo", Type: node.ARPHardwareLoopback, Up: true, Addresses: []string{"127.0.0.1/8", "::1/128"}},
		{Name: "enp225s0f0np0", Type: node.ARPHardwareEthernet, PCI: "0000:e1:00.0", Port: 1, Up: true, Addresses: []string{"192.0.2.112/24"}},
		{Name: "enp225s0f1np1", Type: node.ARPHardwareEthernet, PCI: "0000:e1:00.1", Port: 1, Up: true, Addresses: []string{"203.0.113.112/24"}},
	}
	port := func(netdev string) []node.RDMADevicePort {
		return []node.RDMADevicePort{{Port: 1, Netdev: netdev, LinkLayer: node.Known("Ethernet", node.Source{})}}
	}
	m.rdma = []node.RDMADevice{{Name: "mlx5_8", PCI: "0000:e1:00.0", Ports: port("enp225s0f0np0")}, {Name: "mlx5_9", PCI: "0000:e1:00.1", Ports: port("enp225s0f1np1")}}
	m.routes = []node.Route{{Destination: "default", Devices: []string{"enp225s0f0np0"}}}
	m.guarded = []node.ProtectedNetdev{{Name: "enp225s0f0np0", Reason: "carries the default route"}}
	var names []string
	for i := range 2 * len(quads) {
		bus := quadBuses(quads[i/2])[1+i%2*2]
		address, netdev, rdma := fmt.Sprintf("0000:%02x:00.0", bus), fmt.Sprintf("enp%ds0np0", bus), fmt.Sprintf("mlx5_%d", i)
		m.netdevs = append(m.netdevs, node.Netdev{Name: netdev, Type: node.ARPHardwareEthernet, PCI: address, Port: 1, Up: true, Addresses: []string{fmt.Sprintf("198.18.%d.17/24", i)}})
		m.rdma = append(m.rdma, node.RDMADevice{Name: rdma, PCI: address, Ports: port(netdev)})
		m.readRequests[address] = 4096
		m.answerRail(losslessRail(bus, netdev, rdma, i, hdr))
		names = append(names, rdma)
	}
	for i := range 2 {
		m.link(fmt.Sprintf("0000:e1:00.%d", i), driver{"mlx5_core", "22.39.1002 (MT_0000000359)"}, 100_000)
		m.roce(fmt.Sprintf("mlx5_%d/1", 8+i), "100 Gb/sec (4X EDR)", "22.39.1002", "MT4125")
	}
	m.boot(grubNode{
		title: "Ubuntu", uuid: "0c9d3a7e-81f4-4b62-b6d5-2e7f1a3c5d90", kernels: a100Kernels, linux: serialOutput, linuxDefault: "iommu=pt",
		fragments: []string{"/etc/default/grub.d/60-gpu.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt\"\n"},
	})
	m.unit("nvidia-fabricmanager.service", "enabled", "active")
	m.ncclConf("NCCL_IB_HCA==" + strings.Join(names, ",") + "\nNCCL_SOCKET_IFNAME==enp225s0f0np0\nNCCL_IB_TC=104\n")
	m.numaNodes("0-15,128-143", "16-31,144-159", "32-47,160-175", "48-63,176-191", "64-79,192-207", "80-95,208-223", "96-111,224-239", "112-127,240-255")
	return m
}

func a100Bus(b *bus) {
	for root := 0; root < 0x100; root += 0x20 {
		b.add(fmt.Sprintf("%02x:00.0", root), "", id{"1022", "1480", "060000", ""})
		b.add(fmt.Sprintf("%02x:00.2", root), "", id{"1022", "1481", "080600", ""})
		b.add(fmt.Sprintf("%02x:01.0", root), "", id{"1022", "1482", "060000", ""})
	}
	for _, root := range quads {
		up := b.add(fmt.Sprintf("%02x:00.0", root+1), b.add(fmt.Sprintf("%02x:01.1", root), "", romePort), plxPort)
		for i, device := range quadBuses(root) {
			lower := b.add(fmt.Sprintf("%02x:00.0", device-2), b.add(fmt.Sprintf("%02x:%02x.0", root+2, 4*i), up, plxPort), plxPort)
			b.add(fmt.Sprintf("%02x:00.0", device), b.add(fmt.Sprintf("%02x:00.0", device-1), lower, plxPort), [4]id{a100, connectx6, a100, connectx6}[i])
		}
		b.add(fmt.Sprintf("%02x:00.0", root+15), b.add(fmt.Sprintf("%02x:10.0", root+2), up, plxPort), nvme)
	}
	up := b.add("a1:00.0", b.add("a0:01.1", "", romePort), plxPort)
	for i := range 6 {
		b.add(fmt.Sprintf("%02x:00.0", 0xa3+i), b.add(fmt.Sprintf("a2:%02x.0", 4*i), up, plxPort), a100Switch)
	}
	card := b.add("e0:03.1", "", romePort)
	b.add("e1:00.0", card, connectx6Dx)
	b.add("e1:00.1", card, connectx6Dx)
	b.add("64:00.0", b.add("63:00.0", b.add("60:05.2", "", romePort), id{"1a03", "1150", "060400", ""}), id{"1a03", "2000", "030000", "ast"})
	b.numa(func(address string) int {
		var bus int
		_, _ = fmt.Sscanf(address, "0000:%x:", &bus)
		return a100NUMA[bus>>5]
	})
	// The switches tell by their subsystem that two levels are one chip.
	for i, f := range b.functions {
		if f.ID() == "1000:c010" {
			b.functions[i].SubsystemVendor, b.functions[i].SubsystemDevice = "1000", "a096"
		}
	}
}
