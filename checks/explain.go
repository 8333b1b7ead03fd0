package checks

import "busbar/plan"

// Documents that several explanations name.
const (
	ncclEnvironment     = "NCCL user guide, Environment Variables"
	ncclTroubleshooting = "NCCL user guide, Troubleshooting"
	fabricGuide         = "NVIDIA Fabric Manager user guide"
	driverReadme        = "NVIDIA driver README, kernel modules"
	nvml                = "NVML API reference"
	sysfsInfiniBand     = "Linux Documentation/ABI/stable/sysfs-class-infiniband"
	sysfsPCI            = "Linux Documentation/ABI/testing/sysfs-bus-pci"
	dcb                 = "Linux net/dcb/dcbnl.c and include/uapi/linux/dcbnl.h"
	gidCache            = "Linux drivers/infiniband/core/cache.c and roce_gid_mgmt.c"
)

// Explanations are about its findings.
func (DeviceNodes) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "device_nodes.missing", Title: "a device node that programs open is not there",
		Why:  "CUDA cannot start without /dev/nvidiactl and /dev/nvidia-uvm. Without /dev/infiniband NCCL and MPI fall back to TCP and say nothing.",
		Read: "stat of each path.", Fix: "nvidia-modprobe -u makes those of the driver; the nodes below /dev/infiniband come with ib_uverbs and rdma_ucm. In a container, hand the directory through.",
		Sources: []string{"NVIDIA/nccl issue 451", ncclTroubleshooting},
	}}
}

// Explanations are about its findings.
func (Driver) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "/proc/driver/nvidia/version and params, the driver link of each GPU in sysfs, the version of libnvidia-ml.so.1 and of the fabric manager's package.",
		Risk: "A driver is replaced only when nothing uses the GPUs: every process that does is ended.", Sources: []string{driverReadme},
	},
		plan.Explanation{ID: "driver.loaded", Title: "the NVIDIA driver is not loaded", Why: "No program can use a GPU.", Fix: "modprobe nvidia; where that fails the kernel log says why (signature, another driver such as nouveau, another kernel)."},
		plan.Explanation{ID: "driver.bound", Title: "a GPU has no driver, or another one than NVIDIA's", Why: "CUDA does not see this GPU, and counts one less.", Fix: "See in the kernel log why the driver gave it up; nouveau and vfio-pci have to let it go first."},
		plan.Explanation{ID: "driver.version", Title: "the driver is of another version than the profile wants", Why: "Nodes of one job behave alike only with one driver.", Fix: "Install the package of that version on all nodes."},
		plan.Explanation{ID: "driver.min_version", Title: "the driver is older than the profile wants", Why: "What a job needs may be missing in it.", Fix: "Install a newer package."},
		plan.Explanation{ID: "driver.open", Title: "the driver's kernel modules are of the other flavour", Why: "Only the open modules export GPU memory as dma-buf, and GPUs from Blackwell on work with no others.", Fix: "Install the package of the other flavour (nvidia-open, nvidia-driver-NNN-open)."},
		plan.Explanation{ID: "driver.parameter", Title: "a parameter of the driver has another value than the profile wants", Why: "An option in modprobe.d counts when the module is loaded; what is in force can be another.", Fix: "The block nvidia_driver sets options; they are in force once the driver is loaded anew."},
		plan.Explanation{ID: "driver.library", Title: "the driver and its library are of different versions, or the library cannot start", Why: "No new process can use a GPU: Driver/library version mismatch, Unknown Error.", Fix: "Reboot, or unload and load the driver, after a package was replaced; hold the packages back from unattended upgrades. In a container that lost its GPUs: start it again.", Sources: []string{"NVIDIA/nvidia-container-toolkit issue 48"}},
		plan.Explanation{ID: "driver.devices", Title: "the driver is loaded and can use no GPU", Why: "nvidia-smi finds no devices, and no program can use a GPU.", Read: "What nvidia-smi printed: a node's own GPUs are counted on the PCI bus (gpus.count).", Fix: "See on the PCI bus whether there are GPUs, and in the kernel log why the driver gave up on them (RmInitAdapter, Xid 79, GSP firmware)."},
		plan.Explanation{ID: "driver.fabric_manager", Title: "the fabric manager is of another version than the driver", Why: "It ends unless it has the driver's very version, and then no new process can use CUDA on a board with NVSwitches.", Fix: "Install both in one version and hold both.", Sources: []string{fabricGuide, "NVIDIA/gpu-operator issue 544"}},
		plan.Explanation{ID: "driver.imex", Title: "IMEX is of another version than the driver", Why: "Jobs share memory over the NVLinks of a rack through IMEX; of another version than the driver it does not work with it.", Read: "dpkg's status of the packages nvidia-imex and nvidia-imex-NNN.", Fix: "Install both in one version and hold both.", Sources: []string{"NVIDIA IMEX service guide"}},
	)
}

// Explanations are about its findings.
func (Fabric) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "Before a GPU is registered with the fabric of NVSwitches, CUDA answers 802, system not yet initialized, in every new process.",
		Read: "NVML's fabric information of each GPU (nvmlDeviceGetGpuFabricInfoV), and systemd for the fabric manager.",
		Risk: "Restarting the fabric manager ends what runs over NVSwitches; GPUs may need a reset afterwards.", Sources: []string{fabricGuide, nvml},
	},
		plan.Explanation{ID: "fabric.state", Title: "a GPU is not registered with the fabric of NVSwitches", Fix: "Start nvidia-fabricmanager (on HGX B200 and B300 also nvlsm) and see its log; a GPU that stays away needs a reset. Registration takes a while after a start."},
		plan.Explanation{ID: "fabric.clique", Title: "GPUs of one node are in different cliques of a rack's fabric", Why: "GPUs of different cliques do not reach each other over NVLink: NCCL takes the network, or PCIe.", Fix: "Give all GPUs of a node to one partition of the fabric.", Sources: []string{nvml, "NVIDIA IMEX service guide"}},
		plan.Explanation{ID: "fabric.health", Title: "the fabric says that something of a GPU is not healthy", Why: "Its NVLinks carry nothing, or not all that they could.", Fix: "See Xid and SXid in the kernel log and the fabric manager's log; this is the vendor's to repair."},
		plan.Explanation{ID: "fabric.manager", Title: "the fabric manager does not run on a node that has NVSwitches, or fails on one that has none", Why: "What runs goes on, and new processes cannot use CUDA.", Fix: "Install it in the driver's very version and enable it; where the board has no NVSwitch, disable it."},
		plan.Explanation{ID: "fabric.management_module", Title: "ib_umad, by which NVSwitches of the fifth generation are managed, is not loaded", Why: "The fabric manager finds no NVSwitch and ends (NV_WARN_NOTHING_TO_DO).", Read: "/sys/module/ib_umad.", Fix: "kernel_module \"ib_umad\" loads it now and at boot.", Risk: "None: loading it changes nothing else."},
		plan.Explanation{ID: "fabric.subnet_manager", Title: "nvlsm, the subnet manager of NVSwitches of the fifth generation, does not run", Why: "The fabric manager gets no routes from it, and no GPU is registered.", Read: "systemd, the fabric manager's unit and its processes.", Fix: "Install the package nvlsm that fits the fabric manager; the fabric manager starts it.", Sources: []string{fabricGuide}},
		plan.Explanation{ID: "fabric.imex", Title: "IMEX does not run where GPUs of several nodes share an NVLink fabric, or runs where jobs bring their own", Why: "Without IMEX a GPU cannot map memory of another node: NCCL takes the network instead of NVLink.", Read: "systemd, nvidia-imex.service, and each GPU's cluster and clique (nvmlDeviceGetGpuFabricInfoV).", Fix: "Enable nvidia-imex with /etc/nvidia-imex/nodes_config.cfg the same on all nodes; mask it where the cluster's scheduler starts one for each job.", Risk: "Restarting IMEX ends jobs that share memory over it.", Sources: []string{"NVIDIA IMEX service guide"}},
	)
}

// Explanations are about its findings.
func (GID) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "RoCE sends from the address of one entry of the port's GID table. An entry that is missing, old or link-local makes connections time out or never begin.",
		Read: "/sys/class/infiniband/DEVICE/ports/PORT/gids, gid_attrs/types and gid_attrs/ndevs, and the addresses of the network device.",
		Risk: "Changing the addresses of a network device breaks connections over it.", Sources: []string{gidCache, ncclEnvironment},
	},
		plan.Explanation{ID: "gid.nics", Title: "there is no NIC whose GIDs could be judged", Fix: "See why the NICs are missing, or name others."},
		plan.Explanation{ID: "gid.port", Title: "a port is down, and has no GID that could be used", Why: "A port without a link loses its GIDs, and gets them back with it.", Fix: "Bring the link up first: see rdma_port.state."},
		plan.Explanation{ID: "gid.routable", Title: "a port has no RoCE v2 GID with a routable address", Why: "NCCL falls back to a link-local GID, which no router passes on: connections time out, or never begin.", Fix: "Give the network device an address, and see that it is up when the driver asks."},
		plan.Explanation{ID: "gid.address_family", Title: "a port has no GID of the address family that NCCL looks for", Fix: "Give it an address of that family, or set NCCL_IB_ADDR_FAMILY."},
		plan.Explanation{ID: "gid.stale", Title: "the GID table holds an address that the network device does not have", Why: "The driver missed a change; who takes such a GID sends from an address that nobody answers to.", Fix: "Set the link down and up, or remove and add the address."},
		plan.Explanation{ID: "gid.unique", Title: "two ports have one address", Why: "Peers reach one of them alone, and which one can change.", Fix: "Give each rail an address of its own."},
		plan.Explanation{ID: "gid.index", Title: "the pinned GID index (NCCL_IB_GID_INDEX) is not a right one on every port", Why: "Indexes differ between ports and move when a link or an address comes back.", Fix: "Take the setting out: from 2.21 on NCCL finds the entry itself.", Risk: "Older versions of NCCL take index 0 then, which is link-local.", Sources: []string{ncclEnvironment, "NVIDIA/nccl issues 1333 and 769"}},
	)
}

// Explanations are about its findings.
func (GPUDirectRDMA) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "Without GPUDirect RDMA every message between nodes is copied through host memory, at a part of the rate. NCCL says so only in its debug log (NET/IB without GDRDMA).",
		Read: "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/driver/nvidia/version and the kernel's release.",
		Fix:  "The block gpudirect sets up what the node can: dma-buf with the open driver and Linux 5.12 or newer, else nvidia_peermem.",
		Risk: "Loading a module hurts nobody. Replacing the driver ends all that uses GPUs.", Sources: []string{"NVIDIA GPUDirect RDMA documentation", "NCCL source, transport/net_ib"},
	},
		plan.Explanation{ID: "gpudirect_rdma.path", Title: "NICs have no way to GPU memory"},
		plan.Explanation{ID: "gpudirect_rdma.peermem", Title: "nvidia_peermem is not loaded"},
		plan.Explanation{ID: "gpudirect_rdma.unregistered", Title: "nvidia_peermem is loaded and not registered with the RDMA stack", Why: "NCCL takes the module for enough, and registering GPU memory fails when a job runs.", Fix: "Load it after the RDMA stack; where the stack was replaced, build it again against that.", Sources: []string{"Mellanox/nv_peer_memory issue 84", "NVIDIA/nccl issue 1939"}},
		plan.Explanation{ID: "gpudirect_rdma.dmabuf", Title: "the driver or the kernel cannot export GPU memory as dma-buf", Fix: "The open kernel modules and Linux 5.12 or newer can."},
	)
}

// Explanations are about its findings.
func (GPUDirectStorage) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "Without GPUDirect Storage cuFile copies through host memory where allow_compat_mode lets it, and says so only in its log; elsewhere it fails.",
		Read: "/proc/modules, /proc/driver/nvidia-fs, /etc/cufile.json, the kernel's configuration, the IOMMU's groups and the ACS registers of the ports between.",
		Fix:  "The block gds sets up nvidia_fs or the kernel's peer-to-peer DMA.", Sources: []string{"NVIDIA GPUDirect Storage documentation"},
	},
		plan.Explanation{ID: "gpudirect_storage.path", Title: "drives have no way to GPU memory"},
		plan.Explanation{ID: "gpudirect_storage.nvidia_fs", Title: "the module nvidia_fs is not loaded or does not work"},
		plan.Explanation{ID: "gpudirect_storage.p2pdma", Title: "driver, kernel or cuFile lack peer-to-peer DMA of NVMe drives"},
		plan.Explanation{ID: "gpudirect_storage.iommu", Title: "the IOMMU translates between GPUs and drives", Fix: "iommu { mode = \"passthrough\" } on x86.", Risk: "It needs a reboot."},
		plan.Explanation{ID: "gpudirect_storage.acs", Title: "ACS sends traffic between GPUs and drives up to the processor", Why: "It is slow, hangs, or arrives corrupted.", Fix: "The block pcie_acs switches redirection off."},
	)
}

// Explanations are about its findings.
func (GPUs) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{Read: "The PCI bus, and NVML for what the driver says of each GPU.", Sources: []string{nvml, "NVIDIA Xid errors"}},
		plan.Explanation{ID: "gpus.count", Title: "the PCI bus does not show as many GPUs as the node should have", Why: "A GPU that the bus does not show has fallen off it or is not powered; a job that wants all of them fails.", Read: "/sys/bus/pci/devices.", Fix: "Look for its slot in the BMC's log and for Xid 79 in the kernel log; power-cycle the node.", Risk: "A power cycle ends all that runs."},
		plan.Explanation{ID: "gpus.fault", Title: "the driver cannot use a GPU any more", Why: "Jobs on it fail or hang, and those over all GPUs with them.", Fix: "See the Xid in the kernel log; reset the GPU, or power-cycle the node.", Risk: "A reset ends all that uses the GPU."},
		plan.Explanation{ID: "gpus.memory", Title: "memory of a GPU failed, and could not be replaced or waits for that", Why: "Errors in it end jobs until it is left out; a row that cannot be replaced stays.", Read: "What nvidia-smi printed: Remapped Rows, Retired Pages.", Fix: "Reset the GPU where a repair is pending; have NVIDIA's field diagnostic decide where it failed.", Risk: "A reset ends all that uses the GPU.", Sources: []string{"NVIDIA GPU memory error management", "nvidia-smi(1)"}},
		plan.Explanation{ID: "gpus.recovery", Title: "the driver says that a GPU needs a reset, a reboot or to be drained", Why: "Jobs on it fail until then.", Read: "What nvidia-smi printed: GPU Recovery Action.", Fix: "Do what it says, and see the Xids in the kernel log.", Risk: "A reset or a reboot ends all that uses the GPU.", Sources: []string{"NVIDIA Xid errors", "nvidia-smi(1)"}},
		plan.Explanation{ID: "gpus.product", Title: "a GPU is of another model than the profile wants", Why: "The profile's numbers are those of another model.", Fix: "Take the profile for this model, or have the GPU replaced."},
		plan.Explanation{ID: "gpus.uniform", Title: "the GPUs of the node are not alike", Why: "A job over all of them runs at the pace of the slowest, or fails on one. The driver may deny peer access between different models.", Fix: "Replace the odd one; where it is meant, leave uniform out.", Sources: []string{nvml, "vllm-project/vllm issue 20282"}},
		plan.Explanation{
			ID: "gpus.ecc", Title: "error correction of a GPU's memory is off where it should be on, or the other way round",
			Why: "Without it a bit that flips changes a result, and nobody is told; errors that a GPU corrects are the first sign of memory that fails. Cards with GDDR give a part of their memory and bandwidth for it, so that some owners turn it off.",
			Fix: "nvidia-smi -e 1 (or 0), then reset the GPU or reboot.", Risk: "The reset ends all that uses the GPU.", Sources: []string{"nvidia-smi(1)"},
		},
		plan.Explanation{
			ID: "gpus.persistence", Title: "the driver does not keep a GPU's state while nobody uses it",
			Why:     "When the last client ends the driver unloads the GPU's state: the next job starts slowly, and settings (clocks, power, compute mode) are lost. nvidia-persistenced is such a client, unless its unit starts it with --no-persistence-mode.",
			Fix:     "Run nvidia-persistenced with persistence mode; nvidia-smi -pm 1 lasts until the driver is loaded anew.",
			Sources: []string{"NVIDIA driver persistence documentation", "nvidia-smi(1)"},
		},
		plan.Explanation{ID: "gpus.mig", Title: "MIG is on where it should be off, or the other way round", Why: "A GPU that is divided has neither NVLink nor peers.", Fix: "nvidia-smi -mig 0 (or 1), then reset the GPU.", Risk: "The reset ends all that uses the GPU; instances are lost.", Sources: []string{"NVIDIA MIG user guide"}},
	)
}

// Explanations are about its findings.
func (InfiniBand) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "/sys/class/infiniband/DEVICE/ports/PORT/state, phys_state, rate, lid and sm_lid.", Sources: []string{sysfsInfiniBand},
		Risk: "Replugging a cable or restarting a subnet manager disturbs jobs that use the fabric.",
	},
		plan.Explanation{ID: "infiniband.nics", Title: "there is no InfiniBand port to judge", Why: "The node cannot talk over the fabric.", Fix: "See why the NICs are missing; a NIC that can do both may be set to Ethernet (LINK_TYPE_P1)."},
		plan.Explanation{ID: "infiniband.state", Title: "an InfiniBand port is not ACTIVE", Why: "No job can use it. Polling means that there is no link; INIT that no subnet manager has come by.", Fix: "See cable, switch port and subnet manager."},
		plan.Explanation{ID: "infiniband.lid", Title: "a port has no LID", Why: "Nobody can send to it.", Fix: "See that a subnet manager serves the fabric."},
		plan.Explanation{ID: "infiniband.subnet_manager", Title: "a port knows no subnet manager", Why: "What is connected stays so; nothing new is, and no change of the fabric is noticed.", Fix: "Start OpenSM, or the one of the switch."},
		plan.Explanation{ID: "infiniband.rate", Title: "a link is slower than wanted", Why: "A collective runs at the pace of its slowest rail.", Fix: "See cable, transceiver and the port of the switch."},
		plan.Explanation{ID: "infiniband.width", Title: "a link has fewer lanes than wanted", Why: "Half the lanes are half the bandwidth.", Fix: "See cable and transceiver; reseat them."},
	)
}

// Explanations are about its findings.
func (Lossless) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "RoCE sends everything behind a lost packet again. All ports, and the switches, have to treat one class of packets as lossless, and NCCL has to mark its packets for it.",
		Read: "dcbnl over netlink, ethtool, /sys/class/net/NETDEV/ecn and /sys/class/infiniband of MLNX_OFED, configfs of rdma_cm, /etc/nccl.conf.",
		Fix:  "The block roce sets all of it from one statement; the switches need the same.",
		Risk: "Changing PFC takes the link down for a moment.", Sources: []string{dcb, "IEEE 802.1Qbb", "NVIDIA RoCE configuration guides"},
	},
		plan.Explanation{ID: "lossless.nics", Title: "there is no RoCE port to judge"},
		plan.Explanation{ID: "lossless.pfc", Title: "PFC is not on for the lossless priority alone", Why: "Without it a full queue drops packets; with too much of it deadlocks get likelier."},
		plan.Explanation{ID: "lossless.pause", Title: "pause of the whole link is on beside PFC", Why: "One of the two holds back what the other lets through."},
		plan.Explanation{ID: "lossless.trust", Title: "a port does not take the priority from the DSCP", Why: "Routed packets have no VLAN tag, and all come in with priority 0."},
		plan.Explanation{ID: "lossless.dscp_map", Title: "the DSCP of RoCE leads to another priority", Why: "The packets go through a queue that drops."},
		plan.Explanation{ID: "lossless.cnp_map", Title: "the DSCP of congestion notification leads to another priority", Why: "The packets that are to slow senders down are held back with what they are to slow down, or lost."},
		plan.Explanation{ID: "lossless.notification_point", Title: "a port does not answer ECN marks of the lossless class", Why: "Senders slow down only when PFC stops them, and their neighbours with them."},
		plan.Explanation{ID: "lossless.reaction_point", Title: "a port does not slow down on congestion notifications", Why: "It slows down only when PFC stops it, and its neighbours with it."},
		plan.Explanation{ID: "lossless.cnp_dscp", Title: "congestion notifications have another DSCP than the fabric expects", Why: "Switches queue them with other traffic."},
		plan.Explanation{ID: "lossless.cnp_priority", Title: "congestion notifications have another priority than the fabric expects", Why: "They are held back with the traffic that they are to slow down."},
		plan.Explanation{ID: "lossless.tos", Title: "connections of rdma_cm are marked for another class", Why: "Traffic with another DSCP goes through a queue that drops."},
		plan.Explanation{ID: "lossless.traffic_class", Title: "the global traffic class of a port is another one", Why: "It overrides what programs set, so that their packets go through another queue."},
		plan.Explanation{ID: "lossless.nccl", Title: "NCCL marks its traffic for another class", Why: "NCCL_IB_TC is the DSCP times four; without it NCCL sends into the default class.", Read: "/etc/nccl.conf.", Fix: "nccl { settings = { NCCL_IB_TC = DSCP * 4 } }.", Risk: "None for what runs: jobs read it when they start.", Sources: []string{ncclEnvironment}},
	)
}

// Explanations are about its findings.
func (Memlock) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "memlock.process", Title: "a running service may lock too little memory",
		Why:  "RDMA locks what it registers. ibv_reg_mr fails with a low limit (Linux gives 8 MiB), and jobs inherit the limits of the daemon that starts them.",
		Read: "/proc/PID/limits of the unit's main process.", Fix: "The block limits writes LimitMEMLOCK=infinity for the unit; a daemon has to be started again to take it.",
		Risk: "Restarting slurmd or a container runtime can disturb its jobs.", Sources: []string{"systemd.exec(5)", "getrlimit(2)", "NVIDIA/nccl-tests issue 206"},
	}}
}

// Explanations are about its findings.
func (MTU) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "The InfiniBand MTU of a RoCE port follows from the MTU of its network device: 4096 fits into 4192 and more, 1024 into 1500. Queue pairs between ports that differ fail, or run at half speed.",
		Read: "/sys/class/net/NETDEV/mtu, from which the driver derives it (drivers/infiniband/hw/mlx5).", Fix: "The blocks roce and link set the MTU; the switches must let it through.",
		Risk: "The link goes down for a moment; larger frames are lost where a switch does not take them.", Sources: []string{"Linux include/rdma/ib_addr.h, iboe_get_mtu", "NVIDIA/nccl issue 1524"},
	},
		plan.Explanation{ID: "mtu.nics", Title: "there is no RoCE port to judge"},
		plan.Explanation{ID: "mtu.port", Title: "a port is down, and its MTU is not judged", Fix: "Bring the link up first: see rdma_port.state."},
		plan.Explanation{ID: "mtu.active", Title: "the MTU of a RoCE port is smaller than wanted"},
		plan.Explanation{ID: "mtu.equal", Title: "RoCE ports of the node have different MTUs"},
	)
}

// Explanations are about its findings.
func (NICNVConfig) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "Firmware takes its configuration when it is reset, so that what is set and what is in force can differ for months.",
		Read: "mstconfig or mlxconfig -e query: what runs, and what the next reset brings.", Fix: "The command that the finding names, then a reset of the firmware (mlxfwreset or a power cycle; a reboot alone may not do).",
		Risk: "A wrong parameter can keep a NIC from coming up. The reset takes its links down.", Sources: []string{"NVIDIA Firmware Tools documentation, mlxconfig", "man mstconfig"},
	},
		plan.Explanation{ID: "nic_nvconfig.setting", Title: "a parameter in a NIC's firmware has another value, now or at its next reset"},
		plan.Explanation{ID: "nic_nvconfig.nics", Title: "there is no NIC whose firmware could be asked"},
	)
}

// Explanations are about its findings.
func (NVLink) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "What a GPU sends to others takes the links that are left, or PCIe, and no program fails.",
		Read: "NVML: state, version and speed of each link, as nvidia-smi nvlink -s shows them.",
		Fix:  "Look for Xid 74, Xid 144 to 150 and SXid in the kernel log; reset the GPUs (nvidia-smi -r); links that stay away are the vendor's to repair.",
		Risk: "A reset ends all that uses the GPUs of the board.", Sources: []string{nvml, "NVIDIA Xid errors", "data sheets of the GPUs"},
	},
		plan.Explanation{ID: "nvlink.links", Title: "a GPU has fewer NVLinks active than it should"},
		plan.Explanation{ID: "nvlink.speed", Title: "an NVLink is slower than it should be"},
	)
}

// Explanations are about its findings.
func (P2P) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "GPUs that may not reach each other's memory copy through host memory, several times slower, and no program fails.",
		Read: "NVML's matrix of pairs (nvmlDeviceGetP2PStatus), as nvidia-smi topo -p2p shows it. Whether ACS or an IOMMU get in the way is not in the answer.",
		Fix:  "See the status: CNS is the chipset, GNS the model (usual for GeForce), TNS the topology, DR a registry key of the driver. Different models in one node are often denied.",
		Risk: "None to look. Registry keys that force it are not supported by NVIDIA.", Sources: []string{nvml, "NVIDIA/nccl issues 257 and 949"},
	},
		plan.Explanation{ID: "p2p.access", Title: "which GPUs can reach each other is not known"},
		plan.Explanation{ID: "p2p.read", Title: "GPUs may not read each other's memory"},
		plan.Explanation{ID: "p2p.write", Title: "GPUs may not write each other's memory"},
		plan.Explanation{ID: "p2p.nvlink", Title: "GPUs do not reach each other over NVLink"},
	)
}

// Explanations are about its findings.
func (PCIeLink) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "All traffic of the device goes over this link: half the lanes or half the speed is half the bandwidth.",
		Read: "/sys/bus/pci/devices/ADDRESS/current_link_speed and current_link_width, and what both ends can (max_link_*). A GPU at rest may idle at 2.5 GT/s, which is no fault.",
		Fix:  "Reseat the card, its riser or its cable; see the slot in the manual; a link that trains down again is the vendor's to repair.",
		Risk: "The node has to be off for it.", Sources: []string{sysfsPCI},
	},
		plan.Explanation{ID: "pcie_link.link", Title: "the PCIe link of a device cannot be judged"},
		plan.Explanation{ID: "pcie_link.down", Title: "a device cannot be reached over its PCIe link", Why: "It has fallen off the bus, is not powered or does not train its link. Nothing can use it, and what waits for it hangs.", Read: "What lspci printed: revision ff and header type 7f are registers that read as ones, width x0 is a link that is down.", Fix: "Look for Xid 79, AER and pciehp in the kernel log; power the node off and on.", Risk: "It ends all that runs on the node."},
		plan.Explanation{ID: "pcie_link.speed", Title: "a PCIe link is slower than both of its ends can"},
		plan.Explanation{ID: "pcie_link.width", Title: "a PCIe link has fewer lanes than both of its ends can"},
		plan.Explanation{ID: "pcie_link.limit", Title: "a device can do more than its slot"},
	)
}

// Explanations are about its findings.
func (Platform) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{Sources: []string{"Linux Documentation/admin-guide/kernel-parameters.txt and Documentation/ABI", ncclTroubleshooting}},
		plan.Explanation{ID: "platform.host", Title: "the running host is not judged"},
		plan.Explanation{ID: "platform.numa_known", Title: "firmware does not say to which NUMA node a GPU or NIC belongs", Why: "What is bound to the NUMA node of its GPU or NIC lands anywhere, and NCCL takes such a device for far from all others.", Read: "/sys/bus/pci/devices/ADDRESS/numa_node, -1 where firmware says nothing.", Fix: "A newer BIOS; in a virtual machine the hypervisor's topology, or NCCL_TOPO_FILE.", Risk: "A wrong NCCL_TOPO_FILE is worse than none."},
		plan.Explanation{ID: "platform.numa_nodes_per_socket", Title: "each socket has another number of NUMA nodes than wanted", Why: "How memory and devices are split among nodes decides what is near.", Read: "/sys/devices/system/node and the packages of the CPUs.", Fix: "NPS (AMD) or SNC (Intel) in the BIOS.", Risk: "It needs a reboot, and jobs that bind to nodes have to know."},
		plan.Explanation{ID: "platform.governor", Title: "the CPU's frequency governor is another one", Why: "NCCL's proxy threads post and poll each transfer; a core that sleeps or idles low adds to each of them.", Read: "/sys/devices/system/cpu/cpufreq/policyN/scaling_governor.", Fix: "cpupower frequency-set -g performance, or tuned.", Risk: "More power is drawn."},
		plan.Explanation{ID: "platform.transparent_hugepages", Title: "transparent huge pages are set otherwise", Why: "Large pages mean fewer translations for pinned memory.", Read: "/sys/kernel/mm/transparent_hugepage/enabled.", Fix: "echo madvise (or always) into it, and transparent_hugepage= on the kernel's command line."},
		plan.Explanation{ID: "platform.irqbalance", Title: "irqbalance runs", Why: "It moves the interrupts of NICs to CPUs of other NUMA nodes.", Read: "systemd, irqbalance.service.", Fix: "service \"irqbalance\" { active = false, enabled = false }, or ban the NICs' interrupts in its configuration.", Risk: "Interrupts stay where they are: set their affinity (set_irq_affinity_bynode.sh)."},
		plan.Explanation{ID: "platform.shm", Title: "/dev/shm is smaller than wanted", Why: "NCCL's shared-memory transport fails when it is full.", Read: "statfs(2) of /dev/shm.", Fix: "size= for /dev/shm in /etc/fstab; in containers --shm-size or --ipc=host.", Sources: []string{ncclTroubleshooting}},
		plan.Explanation{ID: "platform.remove_ipc", Title: "logind removes what a user has in /dev/shm when the last session ends", Why: "A job that goes on after its user has logged out loses NCCL's shared memory.", Read: "RemoveIPC in logind.conf and its fragments; without a line systemd's built-in default counts.", Fix: "RemoveIPC=no in a fragment of /etc/systemd/logind.conf.d; it counts once logind is started anew.", Sources: []string{"logind.conf(5)"}},
		plan.Explanation{ID: "platform.topology_file", Title: "NCCL is not told how near GPUs and NICs of a virtual machine are", Why: "The PCI tree of a guest is its hypervisor's invention: NCCL takes GPUs and NICs for far apart and leaves GPUDirect RDMA out.", Read: "NCCL_TOPO_FILE in /etc/nccl.conf, and /var/run/nvidia-topologyd/virtualTopology.xml, which NCCL looks for itself.", Fix: "NCCL_TOPO_FILE with the file that the cloud has for this kind of machine.", Risk: "A file of another kind of machine is worse than none.", Sources: []string{ncclEnvironment}},
	)
}

// Explanations are about its findings.
func (Rails) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "A rail is a NIC below one PCIe switch with a GPU, where GPUDirect RDMA is used. A collective runs at the pace of its slowest rail.",
		Read: "The PCI tree in sysfs, /sys/class/infiniband, /etc/nccl.conf.", Sources: []string{ncclEnvironment, "nvidia-smi topo -m"},
	},
		plan.Explanation{ID: "rails.gpu", Title: "a GPU has no NIC below a common PCIe switch", Why: "What it sends to a NIC beyond its switch crosses the CPU, and NCCL copies it through host memory (NCCL_NET_GDR_LEVEL is PXB by default).", Fix: "See whether a NIC is missing from the bus; else this is how the machine is built, and optional lives with it."},
		plan.Explanation{ID: "rails.rdma", Title: "a rail has no RDMA device", Why: "NCCL does not see the NIC.", Fix: "Load the driver's RDMA part (mlx5_ib, bnxt_re, irdma)."},
		plan.Explanation{ID: "rails.port", Title: "a rail is down", Why: "Its GPU's traffic takes another rail, or the job ends.", Fix: "See the cable, the transceiver and the switch port, and whether somebody set the link down (ip link)."},
		plan.Explanation{ID: "rails.model", Title: "the rails are of different models", Fix: "See which NIC was exchanged; have all of one model."},
		plan.Explanation{ID: "rails.slot", Title: "the rails' slots are of different width or speed", Fix: "See pcie_link.width and pcie_link.speed for the odd one."},
		plan.Explanation{ID: "rails.hca", Title: "which NICs NCCL takes is not known", Fix: "See the reason."},
		plan.Explanation{ID: "rails.hca_missing", Title: "NCCL_IB_HCA leaves a rail out", Why: "Jobs never use a rail that is left out, and its GPU's traffic takes another one's.", Fix: "Compute it: NCCL_IB_HCA = \"=${join(\",\", selector.rails[*].rdma)}\". A name without = is a prefix: mlx5_1 takes mlx5_10, too."},
		plan.Explanation{ID: "rails.hca_other", Title: "NCCL_IB_HCA takes a NIC that is no rail", Why: "NCCL may open a connection over each device that it takes, and stripe traffic over it.", Fix: "Name the rails alone, with = before the list."},
	)
}

// Explanations are about its findings.
func (RDMAPort) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "/sys/class/infiniband/DEVICE: ports/PORT/state, phys_state, rate and link_layer, fw_ver and board_id; the speed of Ethernet from /sys/class/net/NETDEV/speed.", Sources: []string{sysfsInfiniBand},
	},
		plan.Explanation{ID: "rdma_port.nics", Title: "there is no RDMA port to judge", Why: "Jobs talk over TCP, and say so only in their logs.", Fix: "See why the NICs are missing."},
		plan.Explanation{ID: "rdma_port.count", Title: "there are fewer or more RDMA ports than wanted", Why: "A rail that is missing is bandwidth that is missing.", Fix: "See which NIC has none: its driver's RDMA part, or the NIC itself."},
		plan.Explanation{ID: "rdma_port.state", Title: "an RDMA port is not ACTIVE and LinkUp", Why: "No job can use it. On InfiniBand INIT means that no subnet manager has made it ACTIVE.", Fix: "See cable, switch port and, on InfiniBand, the subnet manager."},
		plan.Explanation{ID: "rdma_port.link_layer", Title: "an RDMA port is Ethernet where InfiniBand is wanted, or the other way round", Why: "It is connected to the wrong network, or none.", Fix: "LINK_TYPE_P1 in the NIC's firmware, then a reset of the firmware."},
		plan.Explanation{ID: "rdma_port.rate", Title: "an RDMA port is slower than wanted", Why: "A collective runs at the pace of its slowest rail.", Fix: "See cable, transceiver and the port of the switch."},
		plan.Explanation{ID: "rdma_port.firmware", Title: "a NIC's firmware is older than wanted", Why: "Faults that are mended in newer firmware are hard to find from outside.", Fix: "Flash it (mstflint, mlxfwmanager) and reset it.", Risk: "A flash that is interrupted can leave the NIC without firmware."},
	)
}

// Explanations are about its findings.
func (KernelLog) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "The kernel's log is the only place where many faults of GPUs, links and modules are told at all.",
		Read:    "/dev/kmsg from boot on (dmesg).",
		Fix:     "See the finding's own advice.",
		Sources: []string{"NVIDIA XID errors catalogue", fabricGuide},
	},
		plan.Explanation{ID: "kernel_log.faults", Title: "what the kernel has said since boot is not known", Fix: "Run as root; kernel.dmesg_restrict keeps others out."},
		plan.Explanation{ID: "kernel_log.complete", Title: "the log does not hold all since boot", Why: "What was dropped for newer lines may tell of faults.", Fix: "journalctl -k -b may have them; log_buf_len=16M on the command line keeps more."},
		plan.Explanation{ID: "kernel_log.xid", Title: "the driver reported a fault of a GPU or of a job on it (Xid)", Why: "By number: some end a job alone, others leave a GPU or its NVLinks unusable until a reset or a new board.", Fix: "The finding names what the number asks for; a fault stays in the log until the next boot: ignore_xids or waive it when it is dealt with.", Risk: "A reset ends all that uses the GPU; on boards with NVSwitches GPUs are reset together."},
		plan.Explanation{ID: "kernel_log.sxid", Title: "an NVSwitch reported a fault (SXid)", Why: "GPUs behind the switch lose NVLink when the fault is fatal.", Fix: "See the fabric manager's log; reset all GPUs and switches together.", Risk: "It ends all jobs of the node."},
		plan.Explanation{ID: "kernel_log.gpu_lost", Title: "a GPU has fallen off the bus", Why: "It does not answer any more, and jobs on it hang or end.", Fix: "Power the node off and on; look at seat, riser, power and cooling."},
		plan.Explanation{ID: "kernel_log.gpu_init", Title: "the driver could not start a GPU", Why: "CUDA does not see this GPU.", Fix: "See the lines around it; power the node off and on."},
		plan.Explanation{ID: "kernel_log.gpu_taken", Title: "another driver has the GPUs", Why: "NVIDIA's driver does not get them.", Fix: "Keep nouveau, nvidiafb and vfio-pci away from them, in the initramfs too.", Risk: "A display on that GPU goes dark."},
		plan.Explanation{ID: "kernel_log.version_mismatch", Title: "a program's library of the driver is of another version than the kernel module", Why: "It could not use a GPU.", Fix: "Reboot or reload the driver after an upgrade."},
		plan.Explanation{ID: "kernel_log.dma_buf_refused", Title: "the driver did not export GPU memory to a device", Why: "GPUDirect RDMA over dma-buf failed there.", Fix: "Use the NIC that is nearest to the GPU.", Sources: []string{driverReadme}},
		plan.Explanation{ID: "kernel_log.peer_memory", Title: "nvidia_peermem reports an error", Why: "GPUDirect RDMA over peer memory may have failed; an invalid context is a race as memory is given back, which it caught that time.", Fix: "dma-buf does without it, where the open kernel modules run.", Sources: []string{"Mellanox/nv_peer_memory issues 53 and 120"}},
		plan.Explanation{ID: "kernel_log.aer", Title: "a device reported a PCI Express error", Why: "Corrected ones cost bandwidth, others a transfer or the device.", Fix: "Look at seat, riser and cable; see pcie_link.", Sources: []string{"Linux Documentation/PCI/pcieaer-howto.rst"}},
		plan.Explanation{ID: "kernel_log.containment", Title: "a port cut off what is behind it after an error (Downstream Port Containment)", Why: "What was under way was lost, and the device was reset or is gone.", Fix: "See the lines behind it for the error; look at seat, riser, power and cooling.", Sources: []string{"Linux drivers/pci/pcie/dpc.c"}},
		plan.Explanation{ID: "kernel_log.link_down", Title: "the link of a slot went down", Why: "The device behind it is gone, unless somebody took it out.", Fix: "See what is behind the port (lspci -tv); look at seat, riser, power and cooling.", Sources: []string{"Linux drivers/pci/hotplug/pciehp_ctrl.c"}},
		plan.Explanation{ID: "kernel_log.slow_link", Title: "a device gets less PCIe bandwidth than it could use", Why: "A link on its way has fewer lanes or a lower speed than the device.", Fix: "Look at the link that the line names; see pcie_link.", Sources: []string{"Linux drivers/pci/pci.c"}},
		plan.Explanation{ID: "kernel_log.iommu_fault", Title: "the IOMMU refused an access to memory", Why: "Between GPUs and NICs it means that copies arrive as zeros or garbage while calls succeed.", Fix: "Block iommu with mode passthrough; then busbar probe p2p.", Risk: "It needs a reboot.", Sources: []string{ncclTroubleshooting}},
		plan.Explanation{ID: "kernel_log.bar", Title: "no addresses were found for a memory region of a device", Why: "Its driver cannot use it; of a GPU it is the window for GPUDirect.", Fix: "Above 4G Decoding and a larger MMIO window in the firmware's setup, else pci=realloc.", Risk: "It needs a reboot.", Sources: []string{"Linux drivers/pci/setup-bus.c"}},
		plan.Explanation{ID: "kernel_log.mlx5", Title: "a NIC's firmware or hardware reported a fault", Why: "Its rail stops, or runs slower.", Fix: "By kind: cooling, power, cable, or firmware.", Sources: []string{"Linux drivers/net/ethernet/mellanox/mlx5/core"}},
		plan.Explanation{ID: "kernel_log.module_symbol", Title: "a module does not fit the modules that run", Why: "It is not loaded; of nvidia_peermem GPUDirect RDMA hangs on it.", Fix: "Build it anew after RDMA stack and driver are installed.", Sources: []string{driverReadme}},
		plan.Explanation{ID: "kernel_log.module_unversioned", Title: "a module was not built against the driver that runs", Why: "It loads, and what it does with GPU memory fails.", Fix: "Build it anew after the driver is installed."},
		plan.Explanation{ID: "kernel_log.module_unsigned", Title: "the kernel refused a module that is not signed with a key that it knows", Why: "Under Secure Boot nothing on the running system can change that.", Fix: "Enrol the key (mokutil --import), install signed modules, or turn Secure Boot off.", Risk: "It needs somebody at the console at the next boot.", Sources: []string{"Linux Documentation/admin-guide/module-signing.rst"}},
		plan.Explanation{ID: "kernel_log.parameter_unknown", Title: "the driver ignored a parameter that it does not have", Why: "What somebody meant to set is not set.", Fix: "Correct it in modprobe.d; /proc/driver/nvidia/params has what this version knows."},
		plan.Explanation{ID: "kernel_log.option_unknown", Title: "the kernel ignored an argument", Why: "What somebody meant to set is not set.", Fix: "Take it off the command line.", Sources: []string{"Linux Documentation/admin-guide/kernel-parameters.txt"}},
		plan.Explanation{ID: "kernel_log.no_x2apic", Title: "x2APIC is off, because interrupts cannot be remapped", Why: "Processors whose APIC id is above 254 do not start.", Fix: "Take amd_iommu=off or intremap=off off the command line; iommu=pt leaves remapping on.", Risk: "It needs a reboot."},
		plan.Explanation{ID: "kernel_log.ordering_cycle", Title: "systemd did not start a unit because units wait for each other in a circle", Why: "Which one it leaves out is chance, and may be the network or the fabric manager.", Fix: "systemd-analyze verify shows the circle.", Sources: []string{"systemd.unit(5)"}},
		plan.Explanation{ID: "kernel_log.segfault", Title: "a program crashed in a library on the way to GPUs and NICs", Why: "Its job ended; the node goes on.", Fix: "NCCL_DEBUG=WARN says what came before, coredumpctl info where it was.", Sources: []string{"Linux arch/x86/mm/fault.c"}},
	)
}

// Explanations are about its findings.
func (NCCLTransport) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "The log that a job left (NCCL_DEBUG=INFO, NCCL_DEBUG_FILE), channel by channel.", Fix: "See the finding's own advice.",
		Risk: "None: the log is only read.", Sources: []string{"NCCL src/transport and src/init.cc", ncclEnvironment, ncclTroubleshooting},
	},
		plan.Explanation{ID: "nccl_transport.log", Title: "the log cannot be read, or is none of NCCL", Fix: "Run the job with NCCL_DEBUG=INFO and NCCL_DEBUG_FILE, and give the profile that path."},
		plan.Explanation{ID: "nccl_transport.channels", Title: "the log does not say which transports were taken", Why: "What NCCL finds and chooses at start proves nothing; the lines of channels do.", Fix: "Let the job run a collective with NCCL_DEBUG=INFO."},
		plan.Explanation{ID: "nccl_transport.intra_node", Title: "GPUs of one node did not talk to each other directly", Why: "Through host memory or a network an all-reduce runs at a tenth, or less, of what NVLink gives."},
		plan.Explanation{ID: "nccl_transport.inter_node", Title: "nodes did not talk to each other over RDMA with GPUDirect", Why: "Over TCP, or with a copy through host memory, the fabric gives a fraction of its rate."},
		plan.Explanation{ID: "nccl_transport.init", Title: "NCCL could not be initialised", Why: "That is a failed start, and says nothing about how fast a transport is."},
		plan.Explanation{ID: "nccl_transport.run", Title: "NCCL failed after it had begun", Why: "A link, a peer or a GPU went away in the middle."},
		plan.Explanation{ID: "nccl_transport.network", Title: "NCCL chose sockets for what goes between nodes", Why: "It found no RDMA device that it may use.", Fix: "See check rails, rdma_port, and NCCL_IB_HCA and NCCL_IB_DISABLE."},
		plan.Explanation{ID: "nccl_transport.gpudirect", Title: "NCCL finds no GPUDirect RDMA for a NIC", Why: "It copies through host memory there.", Fix: "Block gpudirect: nvidia_peermem, or dma-buf with the open driver."},
		plan.Explanation{ID: "nccl_transport.warning", Title: "NCCL warned of something that matters"},
		plan.Explanation{ID: "nccl_transport.variable", Title: "a variable that turns a transport off, or bounds it, was in force", Why: "It often is left over from a search for another fault.", Fix: "Take it out of the job's environment, ~/.nccl.conf or /etc/nccl.conf."},
	)
}

// Explanations are about its findings.
func (BootArgs) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "/proc/cmdline, GRUB's defaults as the shell makes them, the boot loader's entries.", Risk: "A changed argument counts from the next boot on.",
		Fix:     "Correct the line, make the boot entries anew (update-grub, grub2-mkconfig) and reboot.",
		Sources: []string{"Linux Documentation/admin-guide/kernel-parameters.txt", "GNU GRUB manual, Simple configuration", "Boot Loader Specification"},
	},
		plan.Explanation{ID: "boot_args.running", Title: "an argument of the running kernel does nothing, or another one undoes it", Why: "What somebody meant to settle, often how the IOMMU treats DMA, is not in force.", Fix: "Take the argument out of where it comes from, and write the one that the kernel knows: iommu=pt for passthrough."},
		plan.Explanation{ID: "boot_args.files", Title: "what the boot loader's files make of arguments", Why: "An argument that is lost on its way is missed at the next boot alone.", Fix: "None needed where it is ok."},
		plan.Explanation{ID: "boot_args.stale_entry", Title: "an argument of GRUB's defaults is missing in boot entries", Why: "Where GRUB reads entries (GRUB_ENABLE_BLSCFG), its defaults count when a kernel is installed, and never again.", Fix: "grubby --update-kernel=ALL --args=..., and the same in /etc/kernel/cmdline."},
		plan.Explanation{ID: "boot_args.defaults_broken", Title: "the boot loader's defaults cannot be read by the shell", Why: "update-grub fails, or stops in the middle of the file."},
		plan.Explanation{ID: "boot_args.unknown_key", Title: "a variable is none that the boot loader's scripts read", Why: "A misspelt name sets nothing."},
		plan.Explanation{ID: "boot_args.repeated_assignment", Title: "a variable is set again, and the earlier value is lost"},
		plan.Explanation{ID: "boot_args.dropped_tokens", Title: "arguments of one line are dropped by a later one"},
		plan.Explanation{ID: "boot_args.stray_none", Title: "the word none stands among the arguments"},
		plan.Explanation{ID: "boot_args.doubled_token", Title: "an argument stands twice"},
		plan.Explanation{ID: "boot_args.separator", Title: "arguments are separated by something else than blanks", Why: "The kernel takes the whole for one argument that it does not know."},
		plan.Explanation{ID: "boot_args.command_after_value", Title: "a word behind a value without quotes is run as a command", Why: "The variable is set for that command alone, and empty afterwards."},
		plan.Explanation{ID: "boot_args.tuned_twice", Title: "tuned's arguments come twice"},
		plan.Explanation{ID: "boot_args.bashism", Title: "the file uses what only bash understands", Why: "update-grub runs it with sh."},
	)
}

// Explanations are about its findings.
func (ModuleFiles) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "The files of modules-load.d and modprobe.d in the order of kmod, and /proc/cmdline.", Risk: "None for what runs: the files count when a module is loaded next.",
		Sources: []string{"modprobe.d(5)", "modules-load.d(5)", "dracut.cmdline(7)"},
	},
		plan.Explanation{ID: "module_files.boot", Title: "one file loads a module at boot and another keeps it out", Why: "modprobe by hand ignores a blacklist, systemd-modules-load honours it: what works now is gone after the next boot.", Fix: "Take one of the two lines out; whoever wrote the blacklist had a reason."},
		plan.Explanation{ID: "module_files.repeated_line", Title: "a module is named twice", Why: "It does no harm, and tells of a script that appends at each run.", Fix: "None needed."},
		plan.Explanation{ID: "module_files.initramfs", Title: "nouveau is kept out by a file that the initramfs lacks, or may lack", Why: "The initramfs has modprobe.d as it was when it was made, and nouveau takes the GPUs before the NVIDIA driver comes.", Fix: "Make the initramfs anew, as kernel_module \"nouveau\" has busbar do with update-initramfs, or add modprobe.blacklist=nouveau to the kernel's arguments."},
		plan.Explanation{ID: "module_files.nvlink_off", Title: "an option turns NVLinks off", Why: "GPUs reach each other over PCIe alone, several times slower.", Fix: "Take NVreg_NvLinkDisable out, and load the driver anew.", Sources: []string{"nv-reg.h of NVIDIA/open-gpu-kernel-modules"}},
		plan.Explanation{ID: "module_files.gone_option", Title: "an option that newer NVIDIA drivers do not have", Why: "The driver ignores it with a line in the kernel log.", Fix: "Take it out; /proc/driver/nvidia/params has what the running driver knows."},
	)
}

// Explanations are about its findings.
func (UnitFiles) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "The unit's file and its drop-ins.", Risk: "None before systemctl daemon-reload.", Sources: []string{"systemd.unit(5)", "systemd.target(5)"},
	},
		plan.Explanation{ID: "unit_files.order", Title: "a unit waits for the target that wants it", Why: "Each waits for the other: systemd drops a job to break the cycle, perhaps one that the network needs.", Fix: "Order the unit after what it really needs."},
		plan.Explanation{ID: "unit_files.owner", Title: "a unit writes /etc/nccl.conf itself", Why: "What anybody else writes there is gone after the unit's next start or stop.", Fix: "Decide who owns the file: disable the unit, or have it write what is wanted."},
	)
}
