package example_test

import (
	"fmt"
	"time"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/sink"
)

// epycPCIe is a single-socket EPYC server with four L40S and one NIC: no NVLink, no NVSwitch, no
// RDMA configured. It has never been set up for busbar's profile bare-metal.
func epycPCIe() *machine {
	kernels := []string{"6.1.0-31-amd64", "6.1.0-28-amd64"}
	m := &machine{
		hostname: "render-03", kernel: kernels[0], bootID: "91f0d3a4-2c6e-4d0b-a3c9-b5d84e7f6a10", uptime: 61 * time.Hour,
		os:             node.OS{ID: "debian", VersionID: "12", PrettyName: "Debian GNU/Linux 12 (bookworm)"},
		dmi:            node.Known(node.DMI{SysVendor: "Supermicro", ProductName: "AS -4125GS-TNRT", BoardVendor: "Supermicro", BoardName: "H13DSG-O-CPU", BIOSVendor: "American Megatrends International, LLC.", BIOSVersion: "1.9"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/proc/cpuinfo")),
		domain:         "DMA-FQ", firmware: []string{"IVRS"}, iommus: []string{"ivhd0", "ivhd1", "ivhd2", "ivhd3"},
	}
	epycBus(&m.bus)
	// Nobody works on it, and the kernel has its way with the ports.
	m.idle, m.acs = true, map[string]pciregs.ACSBits{}
	for _, port := range []string{"0000:00:01.1", "0000:20:01.1", "0000:40:01.1", "0000:60:01.1", "0000:40:03.1"} {
		m.acs[port] = kernelACS
	}
	m.netdevs = []node.Netdev{
		{Name: "enp65s0f0np0", Type: node.ARPHardwareEthernet, PCI: "0000:41:00.0", Port: 1, Up: true, Addresses: []string{"192.0.2.41/24"}},
		{Name: "enp65s0f1np1", Type: node.ARPHardwareEthernet, PCI: "0000:41:00.1", Port: 1},
		{Name: "lo", Type: node.ARPHardwareLoopback, Up: true, Addresses: []string{"127.0.0.1/8", "::1/128"}},
	}
	m.rdma = []node.RDMADevice{}
	m.routes = []node.Route{{Destination: "default", Devices: []string{"enp65s0f0np0"}}}
	m.guarded = []node.ProtectedNetdev{{Name: "enp65s0f0np0", Reason: "carries the default route"}}
	m.boot(grubNode{title: "Debian GNU/Linux", uuid: "e1c7a9b3-0f4d-4c59-8c3a-77f1d02b5e96", kernels: kernels, linuxDefault: ""})

	answer(m, node.ModuleSigning, "", node.Known(node.ModuleSigningState{Lockdown: "none"}, at("/sys/module/module/parameters/sig_enforce")))
	m.module("mlx5_ib", false, "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko", kernels)
	m.module("ib_umad", false, "kernel/drivers/infiniband/core/ib_umad.ko", kernels)
	m.module("nvidia_peermem", false, "updates/dkms/nvidia-current-peermem.ko", kernels)
	m.module("nv_peer_mem", false, "", kernels)
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n")
	files(m, node.ModprobeFiles, "", "/etc/modprobe.d", "/etc/modprobe.d/nvidia-blacklists-nouveau.conf", "blacklist nouveau\n")
	m.sysctl("kernel.numa_balancing", "0")
	files(m, node.SysctlFiles, "", "/etc/sysctl.d", "/usr/lib/sysctl.d/50-pid-max.conf", "kernel.pid_max = 4194304\n")
	files(m, node.LimitsFiles, "", "/etc/security/limits.d", "/etc/security/limits.conf", "# DOMAIN TYPE ITEM VALUE\n")
	files(m, node.SystemConfFiles, "", "/etc/systemd/system.conf", "/etc/systemd/system.conf", "[Manager]\n")
	files(m, node.OwnedDropIns, "", "/etc/systemd/system")
	m.unit("docker.service", "enabled", "active", "/usr/lib/systemd/system/docker.service", "[Service]\nType=notify\nExecStart=/usr/bin/dockerd -H fd://\nLimitNPROC=infinity\nLimitCORE=infinity\nDelegate=yes\n")
	m.process("docker.service", "dockerd", 1188, "8388608")
	m.unit("containerd.service", "enabled", "active", "/usr/lib/systemd/system/containerd.service", containerd)
	m.process("containerd.service", "containerd", 1031, "8388608")
	m.noUnits("slurmd.service", "crio.service", "kubelet.service", "nv_peer_mem.service", "nvidia-imex.service", "openibd.service", "nvidia-fabricmanager.service")
	m.unit("nvidia-persistenced.service", "enabled", "active")
	answer(m, node.File, sink.NCCLPath, node.Known(node.FileState{}, at(sink.NCCLPath)))
	files(m, node.NCCLUserFiles, "", "/home", "/etc/environment", "")
	m.devices("/dev/nvidiactl", "/dev/nvidia-uvm")
	m.absent("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0")
	m.numaNodes("0-95")
	m.gpus("535.247.01", false, gpuKind{
		product: "NVIDIA L40S", subsystem: "10de:1851", bar1GiB: 64, generation: 4, virtualization: node.GPUBareMetal, p2p: node.P2POK, nvlink: node.P2PNotSupported,
		fabric: node.Unsupported[node.GPUFabricState]("Not Supported", node.Source{Call: "nvmlDeviceGetGpuFabricInfoV"}),
	})
	m.fabricManager("")
	m.absent(peerClient)
	m.module("rdma_cm", false, "kernel/drivers/infiniband/core/rdma_cm.ko", kernels)
	m.noDCBXAgents()
	m.link("0000:41:00.0", driver{"bnxt_en", "219.0.144.0/pkg 219.0.144.0"}, 10_000)
	m.link("0000:41:00.1", driver{"bnxt_en", "219.0.144.0/pkg 219.0.144.0"}, 0)
	m.rootFileSystem("ext4")
	return m
}

// epycBus: each L40S on a root port of its own.
func epycBus(b *bus) {
	genoaPort := id{"1022", "14ab", "060400", "pcieport"}
	for i, root := range []string{"00", "20", "40", "60"} {
		b.add(root+":00.0", "", id{"1022", "14a4", "060000", ""})
		b.add(root+":00.2", "", id{"1022", "149e", "080600", ""})
		b.add(root+":01.0", "", id{"1022", "149f", "060000", ""})
		port := b.add(root+":01.1", "", genoaPort)
		bus := fmt.Sprintf("%02x", 0x20*i+2)
		b.add(bus+":00.0", port, id{"10de", "26b9", "030200", "nvidia"})
	}
	nic := b.add("40:03.1", "", genoaPort)
	b.add("41:00.0", nic, id{"14e4", "16d7", "020000", "bnxt_en"})
	b.add("41:00.1", nic, id{"14e4", "16d7", "020000", "bnxt_en"})
	b.add("61:00.0", b.add("60:03.1", "", genoaPort), nvme)
	b.add("00:14.0", "", id{"1022", "790b", "0c0500", "piix4_smbus"})
	b.add("00:14.3", "", id{"1022", "790e", "060100", ""})
	b.add("04:00.0", b.add("03:00.0", b.add("00:05.1", "", genoaPort), id{"1a03", "1150", "060400", ""}), id{"1a03", "2000", "030000", "ast"})
	for i := range b.functions {
		b.functions[i].NUMANode = 0
	}
}
