package example_test

import (
	"time"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/sink"
)

// rtxWorkstation is a desktop with one GeForce card, as its owner set it up: none of what servers need, and nothing wrong.
func rtxWorkstation() *machine {
	kernels := []string{"6.8.0-60-generic", "6.8.0-59-generic"}
	m := &machine{
		hostname: "desk", kernel: kernels[0], bootID: "e7b1c94f-20a6-4c8d-b35e-1f6d8a920c47", uptime: 7 * time.Hour,
		os:             node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04", PrettyName: "Ubuntu 24.04.2 LTS"},
		dmi:            node.Known(node.DMI{SysVendor: "ASUS", ProductName: "System Product Name", BoardVendor: "ASUSTeK COMPUTER INC.", BoardName: "ProArt X670E-CREATOR WIFI", BIOSVendor: "American Megatrends Inc.", BIOSVersion: "2204"}, at("/sys/class/dmi/id")),
		virtualization: node.Known("none", at("/proc/cpuinfo")),
		domain:         "DMA-FQ", firmware: []string{"IVRS"}, iommus: []string{"ivhd0"},
	}
	raphaelPort := id{"1022", "14db", "060400", "pcieport"}
	m.bus.add("00:00.0", "", id{"1022", "14d8", "060000", ""})
	m.bus.add("00:00.2", "", id{"1022", "14d9", "080600", ""})
	m.bus.add("00:01.0", "", id{"1022", "14da", "060000", ""})
	card := m.bus.add("00:01.1", "", raphaelPort)
	m.bus.add("01:00.0", card, id{"10de", "2684", "030000", "nvidia"})
	m.bus.add("01:00.1", card, id{"10de", "22ba", "040300", "snd_hda_intel"})
	m.bus.add("02:00.0", m.bus.add("00:01.2", "", raphaelPort), id{"144d", "a80c", "010802", "nvme"})
	m.bus.add("03:00.0", m.bus.add("00:02.1", "", raphaelPort), id{"8086", "125c", "020000", "igc"})
	m.bus.numa(func(string) int { return -1 })
	m.idle, m.acs = true, map[string]pciregs.ACSBits{"0000:00:01.1": kernelACS, "0000:00:02.1": kernelACS}
	m.netdevs = []node.Netdev{
		{Name: "enp3s0", Type: node.ARPHardwareEthernet, PCI: "0000:03:00.0", Port: 1, Up: true, Addresses: []string{"192.0.2.77/24"}},
		{Name: "lo", Type: node.ARPHardwareLoopback, Up: true, Addresses: []string{"127.0.0.1/8", "::1/128"}},
	}
	m.rdma = []node.RDMADevice{}
	m.routes = []node.Route{{Destination: "default", Devices: []string{"enp3s0"}}}
	m.guarded = []node.ProtectedNetdev{{Name: "enp3s0", Reason: "carries the default route"}}
	m.boot(grubNode{title: "Ubuntu", uuid: "d0a6f3b8-4c97-4e21-8b5a-96e2c7f01d34", kernels: kernels, linuxDefault: "quiet splash"})

	answer(m, node.ModuleSigning, "", node.Known(node.ModuleSigningState{Enforced: true, Lockdown: "integrity"}, at("/sys/kernel/security/lockdown")))
	for _, name := range []string{"mlx5_ib", "ib_umad", "nvidia_peermem", "nv_peer_mem", "rdma_cm"} {
		m.module(name, false, "", kernels)
	}
	files(m, node.ModulesLoadFiles, "", "/etc/modules-load.d", "/etc/modules-load.d/modules.conf", "# Modules to load at boot, one a line.\n")
	files(m, node.ModprobeFiles, "", "/etc/modprobe.d", "/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau\n")
	m.sysctl("kernel.numa_balancing", "0")
	files(m, node.SysctlFiles, "", "/etc/sysctl.d", kernelConf, kernelText)
	files(m, node.LimitsFiles, "", "/etc/security/limits.d", "/etc/security/limits.conf", "# DOMAIN TYPE ITEM VALUE\n")
	files(m, node.SystemConfFiles, "", "/etc/systemd/system.conf", "/etc/systemd/system.conf", "[Manager]\n")
	files(m, node.OwnedDropIns, "", "/etc/systemd/system")
	m.unit("docker.service", "enabled", "active", "/usr/lib/systemd/system/docker.service", "[Service]\nType=notify\nExecStart=/usr/bin/dockerd -H fd://\nDelegate=yes\n")
	m.process("docker.service", "dockerd", 1405, "8388608")
	m.unit("containerd.service", "enabled", "active", "/usr/lib/systemd/system/containerd.service", containerd)
	m.process("containerd.service", "containerd", 1322, "8388608")
	m.noUnits("slurmd.service", "crio.service", "kubelet.service", "nv_peer_mem.service", "nvidia-imex.service", "openibd.service", "nvidia-fabricmanager.service")
	m.unit("nvidia-persistenced.service", "static", "active")
	answer(m, node.File, sink.NCCLPath, node.Known(node.FileState{}, at(sink.NCCLPath)))
	files(m, node.NCCLUserFiles, "", "/home", "/etc/environment", "")
	m.gpus("570.133.20", false, gpuKind{
		product: "NVIDIA GeForce RTX 4090", subsystem: "1043:889d", bar1GiB: 32, generation: 4, virtualization: node.GPUBareMetal, p2p: node.P2POK, nvlink: node.P2PNotSupported,
		fabric: node.Unsupported[node.GPUFabricState]("Not Supported", node.Source{Call: "nvmlDeviceGetGpuFabricInfoV"}),
	})
	m.fabricManager("")
	m.absent(peerClient)
	m.devices("/dev/nvidiactl", "/dev/nvidia-uvm")
	m.absent("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0")
	m.numaNodes("0-31")
	m.noDCBXAgents()
	m.link("0000:03:00.0", driver{"igc", "2014:8877"}, 2500)
	m.rootFileSystem("ext4")
	return m
}
