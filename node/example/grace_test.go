package example_test

import (
	"fmt"
	"strings"
	"time"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/sink"
)

// The kinds of functions of a GB200 compute tray.
var (
	gracePort     = id{"10de", "22b1", "060400", "pcieport"}
	gb200         = id{"10de", "2941", "030200", "nvidia"}
	connectxPort  = id{"15b3", "1979", "060400", "pcieport"}
	bluefieldPort = id{"15b3", "197b", "060400", "pcieport"}
	bluefield3    = id{"15b3", "a2dc", "020000", "mlx5_core"}
	graceKernels  = []string{"6.8.0-1028-nvidia-64k", "6.8.0-1025-nvidia-64k"}
)

// gb200Tray is a compute tray of a GB200 rack: two Graces, four GPUs and eight ports, each device in a PCI segment of its
// own. GPUs and processors talk over NVLink-C2C, which the PCI bus does not show; the SMMUs translate, as they must. Its firmware
// says the NUMA node of GPUs alone, which is why nvidia-smi topo -m has SYS between a NIC and all else but the other port of its
// card. All is well.
func gb200Tray() *machine {
	m := &machine{
		hostname: "tray-07", arch: "aarch64", kernel: graceKernels[0], bootID: "a84d06e2-5b1c-4e3f-8d97-c60f2b7e1a35", uptime: 9*24*time.Hour + 5*time.Hour,
		os:             node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04", PrettyName: "Ubuntu 24.04.2 LTS"},
		dmi:            node.Known(node.DMI{SysVendor: "NVIDIA", ProductName: "GB200 NVL", BoardVendor: "NVIDIA", BoardName: "P4024", BIOSVendor: "NVIDIA", BIOSVersion: "02.03.19"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/sys/class/dmi/id")),
		domain:         "DMA", firmware: []string{"IORT"},
	}
	graceBus(&m.bus)
	m.idle, m.acs = true, map[string]pciregs.ACSBits{}
	for i, f := range m.bus.functions {
		if f.ID() == "10de:22b1" {
			m.iommus = append(m.iommus, fmt.Sprintf("smmu3.0x%016x", 0x5000000+0x1000000*i))
			m.acs[f.Address] = kernelACS
		}
	}
	m.netdevs = []node.Netdev{{Name: "lo", Type: node.ARPHardwareLoopback, Up: true, Addresses: []string{"127.0.0.1/8", "::1/128"}}}
	for i, nic := range graceNICs {
		segment := nic[:4]
		d := node.Netdev{Name: graceNetdev(nic), Type: node.ARPHardwareEthernet, PCI: nic, Port: 1, Up: true, Addresses: []string{fmt.Sprintf("198.18.%d.7/24", i)}}
		if i == 2 {
			d.Addresses = []string{"192.0.2.207/24"}
		}
		m.netdevs = append(m.netdevs, d)
		rdma := fmt.Sprintf("mlx5_%d", i)
		m.rdma = append(m.rdma, node.RDMADevice{Name: rdma, PCI: nic, Ports: []node.RDMADevicePort{{Port: 1, Netdev: d.Name, LinkLayer: node.Known("Ethernet", node.Source{})}}})
		if segment[3] == '6' {
			m.link(nic, driver{"mlx5_core", "32.44.1036 (NVD0000000033)"}, 200_000)
			m.roce(rdma+"/1", "200 Gb/sec (4X HDR)", "32.44.1036", "MT41692")
			continue
		}
		m.link(nic, driver{"mlx5_core", "28.44.1036 (NVD0000000054)"}, 400_000)
		m.roce(rdma+"/1", "400 Gb/sec (4X NDR)", "28.44.1036", "MT4129")
	}
	m.routes = []node.Route{{Destination: "default", Devices: []string{m.netdevs[3].Name}}}
	m.guarded = []node.ProtectedNetdev{{Name: m.netdevs[3].Name, Reason: "carries the default route"}}
	m.boot(grubNode{
		title: "Ubuntu", uuid: "5e2f90c4-7a6d-4d18-93b7-d4f1c08a6b2e", kernels: graceKernels, linuxDefault: "init_on_alloc=0 numa_balancing=disable",
		fragments: []string{"/etc/default/grub.d/60-grace.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT init_on_alloc=0 numa_balancing=disable\"\n"},
	})
	m.gpuServer(graceKernels)
	m.gpus("570.195.03", true, gb200InRack)
	m.fabricManager("")
	m.imex("570.195.03", "active")
	m.absent(peerClient)
	m.module("nvidia_peermem", false, "updates/dkms/nvidia-peermem.ko", graceKernels) // dma-buf does it
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n")
	m.noUnits("nvidia-fabricmanager.service") // the NVSwitches are in trays of their own
	answer(m, node.File, sink.NCCLPath, node.Known(node.FileState{}, at(sink.NCCLPath)))
	// GPUs have NUMA nodes for their memory, eight each, most of them for MIG.
	m.numaNodes(append([]string{"0-71", "72-143"}, make([]string, 32)...)...)
	return m
}

// graceNICs are the ports of a tray, those of the BlueField-3 cards in segments 6 and 16.
var graceNICs = []string{
	"0000:03:00.0", "0002:03:00.0", "0006:03:00.0", "0006:03:00.1", "0010:03:00.0", "0012:03:00.0", "0016:03:00.0", "0016:03:00.1",
}

// graceNetdev is the name that udev gives the network device of a port: with the segment in decimal, and the function of
// cards that have several.
func graceNetdev(nic string) string {
	var segment, function int
	_, _ = fmt.Sscanf(nic, "%x:03:00.%d", &segment, &function)
	name := "en"
	if segment > 0 {
		name = fmt.Sprintf("enP%d", segment)
	}
	if segment%16 == 6 {
		return fmt.Sprintf("%sp3s0f%dnp%d", name, function, function)
	}
	return name + "p3s0np0"
}

func graceBus(b *bus) {
	for _, segment := range []string{"0008", "0009", "0018", "0019"} {
		b.add(segment+":01:00.0", b.add(segment+":00:00.0", "", gracePort), gb200)
	}
	for _, nic := range graceNICs {
		segment := nic[:4]
		port, kind := connectxPort, connectx7
		if segment[3] == '6' {
			port, kind = bluefieldPort, bluefield3
		}
		if strings.HasSuffix(nic, ".0") {
			b.add(segment+":02:00.0", b.add(segment+":01:00.0", b.add(segment+":00:00.0", "", gracePort), port), port)
		}
		b.add(nic, segment+":02:00.0", kind)
	}
	for _, segment := range []string{"0004", "0014"} {
		b.add(segment+":01:00.0", b.add(segment+":00:00.0", "", gracePort), nvme)
	}
	b.numa(func(address string) int {
		switch {
		case address < "0008" || address[3] != '8' && address[3] != '9':
			return -1
		case address < "0010":
			return 0
		default:
			return 1
		}
	})
}
