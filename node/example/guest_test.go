package example_test

import (
	"time"

	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan/sink"
)

const noSystemd = "systemd does not run here: there is no /run/systemd/system"

// vmGuest is a small virtual machine with two H200s, as renters get them: no systemd, no RDMA,
// the kernel on the hypervisor's side.
func vmGuest() *machine {
	m := &machine{
		hostname: "vm", kernel: "6.1.155", bootID: "0d9be0b1-77c4-4a0f-9f5e-24b5d8a3c6f1", uptime: 26 * time.Minute,
		os:             node.OS{ID: "debian", VersionID: "13", PrettyName: "Debian GNU/Linux 13 (trixie)"},
		dmi:            node.Unknown[node.DMI]("the firmware has no SMBIOS tables", at("/sys/class/dmi/id")),
		virtualization: node.Known("kvm", at("/sys/devices/system/clocksource/clocksource0/available_clocksource")),
		commandLine:    "console=hvc0 root=/dev/vda1 rw reboot=k panic=1",
	}
	m.bus.add("00:00.0", "", id{"8086", "0d57", "060000", ""})
	m.bus.add("00:01.0", "", id{"1af4", "1043", "078000", "virtio-pci"})
	m.bus.add("00:02.0", "", id{"1af4", "1042", "018000", "virtio-pci"})
	m.bus.add("00:03.0", "", id{"1af4", "1041", "020000", "virtio-pci"})
	m.bus.add("00:04.0", "", id{"1af4", "1044", "ffff00", "virtio-pci"})
	m.bus.add("00:06.0", "", h200)
	m.bus.add("00:07.0", "", h200)
	for i := range m.bus.functions {
		m.bus.functions[i].NUMANode = -1
	}
	m.netdevs = []node.Netdev{
		{Name: "eth0", Type: node.ARPHardwareEthernet, PCI: "0000:00:03.0", Port: 1, Up: true, Addresses: []string{"192.0.2.2/30"}},
		{Name: "lo", Type: node.ARPHardwareLoopback, Up: true, Addresses: []string{"127.0.0.1/8"}},
	}
	m.rdma = []node.RDMADevice{}
	m.routes = []node.Route{{Destination: "default", Devices: []string{"eth0"}}}
	m.guarded = []node.ProtectedNetdev{{Name: "eth0", Reason: "carries the default route"}}

	answer(m, node.Boot, "", node.Known(node.BootConfig{Loader: node.LoaderNone}, at("/etc/default/grub")))
	answer(m, node.ModuleSigning, "", node.Unknown[node.ModuleSigningState]("securityfs is not mounted, so that the lockdown mode cannot be told", at("/sys/kernel/security/lockdown")))
	answer(m, node.Sysctl, "kernel.numa_balancing", node.Unknown[string]("the running kernel has no such parameter", at("/proc/sys/kernel/numa_balancing")))
	for _, kind := range []node.Kind[[]confdir.File]{node.SysctlFiles, node.ModulesLoadFiles, node.ModprobeFiles, node.LimitsFiles, node.SystemConfFiles, node.OwnedDropIns, node.NCCLUserFiles} {
		files(m, kind, "", "/etc")
	}
	m.module("mlx5_ib", false, "", nil)
	m.module("ib_umad", false, "", nil)
	m.module("nvidia_peermem", false, "", nil)
	m.module("nv_peer_mem", false, "", nil)
	m.module("rdma_cm", false, "", nil)
	for _, unit := range []string{"fcoe.service", "lldpad.service", "lldpad.socket"} {
		answer(m, node.Unit, unit, node.Unknown[node.UnitState](noSystemd, node.Source{Call: "org.freedesktop.systemd1"}))
	}
	for _, unit := range []string{"slurmd.service", "containerd.service", "docker.service", "crio.service", "kubelet.service", "nvidia-fabricmanager.service", "nvidia-persistenced.service", "nv_peer_mem.service", "nvidia-imex.service", "openibd.service"} {
		answer(m, node.Unit, unit, node.Unknown[node.UnitState](noSystemd, node.Source{Call: "org.freedesktop.systemd1"}))
		answer(m, node.ProcLimits, unit, node.Unknown[node.ProcessLimits](noSystemd, node.Source{Call: "org.freedesktop.systemd1"}))
		files(m, node.UnitFiles, unit, "/etc/systemd/system/"+unit)
	}
	answer(m, node.File, sink.NCCLPath, node.Known(node.FileState{}, at(sink.NCCLPath)))
	m.devices("/dev/nvidiactl", "/dev/nvidia-uvm")
	m.absent("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0")
	m.numaNodes("0-31")
	m.link("0000:00:03.0", driver{"virtio_net", ""}, -1)
	m.gpus("580.159.04", true, gpuKind{
		product: "NVIDIA H200", subsystem: "10de:18bf", bar1GiB: 256, generation: 5, virtualization: node.GPUPassthrough, links: 18, p2p: node.P2POK, nvlink: node.P2POK, fabric: registered,
	})
	m.fabricManager("")
	m.absent(peerClient)
	m.rootFileSystem("ext4")
	return m
}
