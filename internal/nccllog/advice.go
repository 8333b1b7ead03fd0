package nccllog

import (
	"slices"
	"strings"
)

// Advice is what a warning means and what to do.
type Advice struct {
	// Means completes "it means that".
	Means string
	// Do is what to do next.
	Do string
	// Fatal: the job ends of it, or is wrong; else it is slower.
	Fatal bool
}

// known are the warnings that are known, in the order in which they are tried: each needs all of its texts. The texts are those of
// src/init.cc, src/bootstrap.cc, src/graph/, src/misc/, src/transport/ and src/os/ of NVIDIA/nccl 2.4 to 2.30, and of ROCm/rccl.
var known = []struct {
	id    string
	texts []string
	Advice
}{
	{"nvls_off", []string{"Failed to bind NVLink SHARP (NVLS) Multicast memory", "Proceeding without NVLS"}, Advice{
		"the NVSwitch fabric refused memory for NVLink SHARP, which is not used then: mostly because the fabric manager was restarted while the GPUs were not reset",
		"drain the node, restart the fabric manager and reset all GPUs (nvidia-smi -r)", false,
	}},
	{"cuda_not_initialised", []string{"Cuda failure ", "system not yet initialized"}, Advice{
		"CUDA waits for the NVSwitch fabric (error 802)", "look whether the fabric manager runs and has the driver's version: systemctl status nvidia-fabricmanager, nvidia-smi -q -d FABRIC", true,
	}},
	{"nvls_bind", []string{"Failed to bind NVLink SHARP (NVLS) Multicast memory"}, Advice{
		"the NVSwitch fabric refused memory for NVLink SHARP, mostly because the fabric manager was restarted while the GPUs were not reset",
		"drain the node, restart the fabric manager and reset all GPUs (nvidia-smi -r); NCCL_NVLS_ENABLE=0 works around it at a cost in bandwidth", true,
	}},
	{"out_of_memory", []string{"Cuda failure ", "out of memory"}, Advice{"the GPU had no memory left for NCCL's buffers", "look for processes left on the GPU (nvidia-smi), or leave NCCL more memory", true}},
	{"cuda", []string{"Cuda failure "}, Advice{"a call of CUDA failed", "look for Xid in the kernel log, and at what the program did before", true}},
	{"p2p_disabled_nvlink", []string{"P2P is disabled between NVLINK connected GPUs"}, Advice{
		"the driver refuses peer-to-peer access between GPUs that NVLink joins", "look for NVLinks that are down (nvidia-smi nvlink -s), for the fabric's state, and for Xid 74 in the kernel log", true,
	}},
	{"p2p_disabled", []string{"P2P is disabled between connected GPUs"}, Advice{
		"the driver refuses peer-to-peer access between GPUs", "nvidia-smi topo -p2p r says why: GNS is the GPU's model, CNS and TNS the chipset, DR a parameter of the driver", false,
	}},
	{"p2p_not_enabled", []string{"Could not enable P2P between dev"}, Advice{
		"the driver refuses peer-to-peer access between GPUs", "nvidia-smi topo -p2p r says why: GNS is the GPU's model, CNS and TNS the chipset, DR a parameter of the driver", false,
	}},
	{"imex", []string{"MNNVL (cliqueSize", "not working on this system"}, Advice{
		"the nodes share an NVLink fabric, and cannot export memory to each other", "look at nvidia-imex-ctl -N and at /dev/nvidia-caps-imex-channels, in the container too", true,
	}},
	{"ib_library", []string{"Failed to open libibverbs.so"}, Advice{
		"there is no RDMA library where the job runs, so that no RDMA device is found", "install rdma-core in the job's image or on the node", false,
	}},
	{"ib_open", []string{"Call to ibv_open_device failed"}, Advice{
		"the job may not open the RDMA devices", "give the container /dev/infiniband/uverbs* (and CAP_IPC_LOCK); on the node look at their permissions", false,
	}},
	{"ib_open", []string{"NET/IB : Unable to open device"}, Advice{
		"the job may not open an RDMA device", "give the container /dev/infiniband/uverbs* (and CAP_IPC_LOCK); on the node look at their permissions", false,
	}},
	{"ib_memlock", []string{"Call to ibv_", "failed", "Cannot allocate memory"}, Advice{
		"the job may not lock the memory that RDMA registers", "raise memlock to unlimited for the service that starts jobs, and give containers --ulimit memlock=-1: block limits does the first", true,
	}},
	{"ib_dmabuf", []string{"Call to ibv_reg_dmabuf_mr", "failed"}, Advice{
		"the NIC's driver does not take GPU memory as DMA-BUF", "load nvidia-peermem, or use a NIC driver and a kernel (5.12 or newer) that have it: block gpudirect", true,
	}},
	{"ib_register", []string{"Call to ibv_reg_mr", "failed"}, Advice{
		"GPU memory could not be registered with the NIC", "nvidia-peermem is loaded and not registered with the RDMA stack, as after a restart of openibd: unload and load it", true,
	}},
	{"ib_timeout", []string{"Got completion from peer", "status=12"}, Advice{
		"a packet was sent again until the NIC gave up: it, or its answer, was lost on the way",
		"look at the peer's link, at the GID that is used, at routes between rails, and on RoCE at flow control and ECN; on this node: checks rdma_port, gid, lossless", true,
	}},
	{"ib_timeout", []string{"Got completion from peer", "(12)"}, Advice{
		"a packet was sent again until the NIC gave up: it, or its answer, was lost on the way",
		"look at the peer's link, at the GID that is used, at routes between rails, and on RoCE at flow control and ECN; on this node: checks rdma_port, gid, lossless", true,
	}},
	{"ib_timeout", []string{"Got completion ", "error 12,"}, Advice{
		"a packet was sent again until the NIC gave up: it, or its answer, was lost on the way",
		"look at the peer's link, at the GID that is used, at routes between rails, and on RoCE at flow control and ECN; on this node: checks rdma_port, gid, lossless", true,
	}},
	{"ib_protection", []string{"Got completion ", "status=4 "}, Advice{
		"the NIC could not reach memory that was registered: with GPU memory mostly because ACS or an IOMMU turns it away", "block pcie_acs for the bridges between GPU and NIC, block iommu", true,
	}},
	{"ib_protection", []string{"Got completion ", "LOC_PROT_ERR"}, Advice{
		"the NIC could not reach memory that was registered: with GPU memory mostly because ACS or an IOMMU turns it away", "block pcie_acs for the bridges between GPU and NIC, block iommu", true,
	}},
	{"ib_completion", []string{"NET/IB", "Got completion "}, Advice{"a transfer of the NIC failed", "status 5 follows another error: look for the first one, on all ranks", true}},
	{"acs", []string{"HINT: ", "ACS is enabled"}, Advice{"ACS may turn GPUDirect RDMA away", "block pcie_acs for the bridges between GPU and NIC", false}},
	{"ib_connect", []string{"Call to ibv_modify_qp failed"}, Advice{
		"a queue pair could not be connected: the GID is none that the peer can reach, or the path is not there", "leave NCCL_IB_GID_INDEX unset from NCCL 2.21 on; look at the ports' GIDs and at routes: check gid", true,
	}},
	{"link_layers", []string{"Try selecting NICs of"}, Advice{
		"InfiniBand and RoCE ports, or others that do not fit, were paired", "name the ports of one kind in NCCL_IB_HCA", true,
	}},
	{"gid_changed", []string{"NET/IB", "GID table change"}, Advice{"addresses of a port changed while the job ran", "look who sets the address of the port's network device", false}},
	{"ib_event", []string{"NET/IB", "Got async event"}, Advice{"a port or device reported an event, as when its link goes down", "look in the kernel log for the link: check rdma_port", false}},
	{"ib_event", []string{"NET/IB", "async"}, Advice{"a port or device reported an event, as when its link goes down", "look in the kernel log for the link: check rdma_port", false}},
	{"shm_size", []string{"/dev/shm", "xtend"}, Advice{
		"/dev/shm has no room left for NCCL's buffers", "give the container more (--shm-size=1g, --ipc=host, an emptyDir of medium Memory)", true,
	}},
	{"shm", []string{"shared memory segment"}, Advice{
		"shared memory could not be used: /dev/shm is full, or ranks of one node do not share it", "give the containers of a node one /dev/shm (--ipc=host) with room in it", true,
	}},
	{"no_transport", []string{"No transport found"}, Advice{"two ranks have no way to each other", "look which of P2P, SHM and networks is turned off, in the variables", true}},
	{"duplicate_gpu", []string{"Duplicate GPU detected"}, Advice{"two ranks use one GPU", "set the device by local rank: the launcher's CUDA_VISIBLE_DEVICES, or torch.cuda.set_device", true}},
	{"versions", []string{"Mismatched NCCL version detected"}, Advice{"ranks loaded different versions of NCCL", "use one image; look for LD_LIBRARY_PATH and LD_PRELOAD", true}},
	{"versions", []string{"NCCL version mismatch with remote peer"}, Advice{"ranks loaded different versions of NCCL", "use one image; look for LD_LIBRARY_PATH and LD_PRELOAD", true}},
	{"no_interface", []string{"no socket interface found"}, Advice{"no network interface was left", "NCCL_SOCKET_IFNAME names none that the node has: check it, or leave it unset", true}},
	{"no_interface", []string{"NET/Socket : no interface found"}, Advice{"no network interface was left", "NCCL_SOCKET_IFNAME names none that the node has: check it, or leave it unset", true}},
	{"subnet", []string{"No interface found in the same subnet"}, Advice{"no interface is in the subnet of the first rank", "name the right interface in NCCL_SOCKET_IFNAME, on every node", true}},
	{"connect", []string{"onnect to ", "exceeded error retry count"}, Advice{
		"a rank could not be reached over TCP", "look whether it still runs, at firewalls, and whether NCCL_SOCKET_IFNAME leads to an interface that all nodes share", true,
	}},
	{"connect", []string{"onnect to ", " failed : "}, Advice{
		"a rank could not be reached over TCP", "look whether it still runs, at firewalls, and whether NCCL_SOCKET_IFNAME leads to an interface that all nodes share", true,
	}},
	{"peer_closed", []string{"onnection closed by remote peer"}, Advice{"another rank ended first", "look for the first error, on all ranks", true}},
	{"peer_closed", []string{"Call to recv from ", " failed"}, Advice{"another rank ended first", "look for the first error, on all ranks", true}},
	{"topology_file", []string{"Could not open XML topology file"}, Advice{"the topology file that a variable names is not there", "install the file, or take NCCL_TOPO_FILE out", false}},
	{"unused_variable", []string{"Warning: ENV ", "has no effect"}, Advice{"a variable is set that this version does not have", "take it out, or correct its name", false}},
	{"invalid_value", []string{"Invalid value ", ", using default "}, Advice{"a variable has a value that NCCL does not take", "correct it: the default is used", false}},
	{"iommu", []string{`Missing "iommu=pt" from kernel command line`}, Advice{"the IOMMU may translate what GPUs send each other", "block iommu with mode passthrough", false}},
	{"numa_balancing", []string{"NUMA auto balancing enabled"}, Advice{"the kernel moves memory between NUMA nodes while GPUs use it", `block sysctl "kernel.numa_balancing" with value 0`, false}},
}

// quiet are the IDs that matter as INFO too. What NCCL tries and lives without it writes as INFO (NCCLCHECKNOWARN of
// src/include/checks.h).
var quiet = []string{"nvls_off", "p2p_disabled", "p2p_not_enabled", "ib_library", "acs", "topology_file", "unused_variable", "invalid_value"}

// recognise is the ID of a message that is known to matter, or empty. warned: it is a WARN.
func recognise(text string, warned bool) string {
	for _, k := range known {
		if (warned || slices.Contains(quiet, k.id)) && all(text, k.texts) {
			return k.id
		}
	}
	return ""
}

func all(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// Advise is what is known of a warning's ID; false for none.
func Advise(id string) (Advice, bool) {
	for _, k := range known {
		if k.id == id && id != "" {
			return k.Advice, true
		}
	}
	return Advice{}, false
}
