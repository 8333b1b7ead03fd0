package example_test

import (
	"fmt"

	"busbar/node"
)

// nvml is where what NVML says comes from.
var nvml = node.Source{Call: "NVML"}

// said is a part of an answer of NVML's, whose source the whole answer has.
func said[T any](v T) node.Value[T] { return node.Known(v, node.Source{}) }

func notSupported[T any]() node.Value[T] { return node.Unsupported[T]("Not Supported", node.Source{}) }

// gpuKind is what the GPUs of a node have in common.
type gpuKind struct {
	product, subsystem string
	bar1GiB            uint64
	generation         int
	virtualization     string
	// links is how many NVLinks each has, all of them active, to what: an NVSwitch of switches in turn, or to
	// one that is hidden.
	links    int
	switches []string
	// link is the version and rate in MB/s of each: those of an H100 where it is zero.
	link struct {
		version string
		mbps    int
	}
	// p2p is the access over PCIe or NVLink, nvlink that over NVLink alone.
	p2p, nvlink string
	fabric      node.Value[node.GPUFabricState]
}

var h100SXM = gpuKind{
	product: "NVIDIA H100 80GB HBM3", subsystem: "10de:16c1", bar1GiB: 128, generation: 5, virtualization: node.GPUBareMetal, links: 18,
	switches: []string{"0000:83:00.0", "0000:84:00.0", "0000:85:00.0", "0000:86:00.0"}, p2p: node.P2POK, nvlink: node.P2POK, fabric: registered,
}

// a100SXM are those of an HGX A100: NVLinks of the third generation, and no state of the fabric.
var a100SXM = gpuKind{
	product: "NVIDIA A100-SXM4-80GB", subsystem: "10de:1463", bar1GiB: 128, generation: 4, virtualization: node.GPUBareMetal, links: 12,
	switches: []string{"0000:a3:00.0", "0000:a4:00.0", "0000:a5:00.0", "0000:a6:00.0", "0000:a7:00.0", "0000:a8:00.0"},
	link: struct {
		version string
		mbps    int
	}{"3.1", 25000},
	p2p: node.P2POK, nvlink: node.P2POK,
	fabric: node.Unsupported[node.GPUFabricState]("Not Supported", node.Source{Call: "nvmlDeviceGetGpuFabricInfoV"}),
}

// h200SXM are those of an HGX H200.
var h200SXM = gpuKind{
	product: "NVIDIA H200", subsystem: "10de:18be", bar1GiB: 256, generation: 5, virtualization: node.GPUBareMetal, links: 18,
	switches: h100SXM.switches, p2p: node.P2POK, nvlink: node.P2POK, fabric: registered,
}

// b200SXM are those of an HGX B200, which know how their fabric fares.
var b200SXM = gpuKind{
	product: "NVIDIA B200", subsystem: "10de:1999", bar1GiB: 256, generation: 5, virtualization: node.GPUBareMetal, links: 18,
	link: struct {
		version string
		mbps    int
	}{"5.0", 53125},
	p2p: node.P2POK, nvlink: node.P2POK,
	fabric: node.Known(node.GPUFabricState{
		State: node.FabricCompleted, Status: node.FabricSuccess, ClusterUUID: node.NoCluster, Health: said(node.FabricHealth(0)), Summary: said("healthy"),
	}, node.Source{Call: "nvmlDeviceGetGpuFabricInfoV"}),
}

// gb200InRack are those of a tray whose NVSwitches are in other trays of the rack.
var gb200InRack = gpuKind{
	product: "NVIDIA GB200", subsystem: "10de:2046", bar1GiB: 256, generation: 5, virtualization: node.GPUBareMetal, links: 18,
	link: struct {
		version string
		mbps    int
	}{"5.0", 50000},
	p2p: node.P2POK, nvlink: node.P2POK,
	fabric: node.Known(node.GPUFabricState{
		State: node.FabricCompleted, Status: node.FabricSuccess, Clique: 32766, ClusterUUID: "5b3c1d2e-0000-4000-8000-00000000c200", Health: said(node.FabricHealth(0)), Summary: said("healthy"),
	}, node.Source{Call: "nvmlDeviceGetGpuFabricInfoV"}),
}

// registered is a GPU whose fabric ends at its own board.
var registered = node.Known(node.GPUFabricState{
	State: node.FabricCompleted, Status: node.FabricSuccess, ClusterUUID: node.NoCluster, Health: said(node.FabricHealth(0)), Summary: said("not-supported"),
}, node.Source{Call: "nvmlDeviceGetGpuFabricInfoV"})

// gpus answers for the driver, and for all GPUs that it has.
func (m *machine) gpus(version string, open bool, k gpuKind) {
	m.driver(version, open, map[string]string{})
	var addresses []string
	for _, f := range m.bus.functions {
		if f.IsNVIDIAGPU() {
			addresses = append(addresses, f.Address)
		}
	}
	matrix := node.P2PState{GPUs: addresses, Pairs: []node.P2PPair{}}
	for i, address := range addresses {
		f := node.PCIFunction{}
		for _, at := range m.bus.functions {
			if at.Address == address {
				f = at
			}
		}
		answer(m, node.GPUInfo, address, node.Known(node.GPUState{
			Minor: said(i), UUID: said(fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i+1)), Product: said(k.product), PCIID: said(f.ID()), Subsystem: said(k.subsystem),
			MIG: said(false), MIGPending: said(false), Virtualization: said(k.virtualization), Persistence: said(true), ECC: said(true), ECCPending: said(true),
			BAR1Bytes: said(k.bar1GiB << 30), BAR1UsedBytes: said(uint64(1 << 20)), PCIeGeneration: said(k.generation), PCIeMaxGeneration: said(k.generation),
			PCIeWidth: said(16), PCIeMaxWidth: said(16), ComputeMode: said(node.ComputeModeDefault), MemoryNUMANode: notSupported[int](),
		}, nvml))
		answer(m, node.NVLinks, address, k.nvlinks())
		answer(m, node.GPUFabric, address, k.fabric)
		for _, to := range addresses {
			if to != address {
				matrix.Pairs = append(matrix.Pairs, node.P2PPair{From: address, To: to, Read: said(k.p2p), Write: said(k.p2p), NVLink: said(k.nvlink), Atomics: said(k.nvlink)})
			}
		}
	}
	answer(m, node.P2P, "", node.Known(matrix, node.Source{Call: "nvmlDeviceGetP2PStatus"}))
}

// driver is the driver, its library and confidential computing, which is off.
func (m *machine) driver(version string, open bool, parameters map[string]string) {
	for name, value := range map[string]string{"NvLinkDisable": "0", "EnableResizableBar": "0", "DmaRemapPeerMmio": "1", "GrdmaPciTopoCheckOverride": "0", "RegistryDwords": ""} {
		if _, set := parameters[name]; !set {
			parameters[name] = value
		}
	}
	answer(m, node.NVIDIADriver, "", node.Known(node.NVIDIADriverState{
		Loaded: true, Version: version, Open: open, Parameters: node.Known(parameters, at("/proc/driver/nvidia/params")),
	}, at("/proc/driver/nvidia/version")))
	answer(m, node.NVML, "", node.Known(node.NVMLState{Version: "13." + version, Driver: said(version)}, node.Source{Call: "nvmlSystemGetNVMLVersion"}))
	answer(m, node.ConfidentialComputing, "", node.Known(node.ConfidentialComputingState{Environment: "unavailable", MultiGPU: said("none")}, node.Source{Call: "nvmlSystemGetConfComputeState"}))
}

// nvlinks are those of one GPU.
func (k gpuKind) nvlinks() node.Value[node.NVLinkState] {
	if k.links == 0 {
		return node.Unsupported[node.NVLinkState]("Not Supported", node.Source{Call: "nvmlDeviceGetFieldValues"})
	}
	version, mbps := "4.0", 26562
	if k.link.version != "" {
		version, mbps = k.link.version, k.link.mbps
	}
	s := node.NVLinkState{}
	for i := range k.links {
		p := node.NVLinkPort{Link: i, State: said(node.NVLinkActive), Version: said(version), SpeedMBps: said(mbps), Remote: said(node.NVLinkToSwitch), RemoteAddress: node.Unknown[string](node.HiddenRemote, node.Source{})}
		if len(k.switches) > 0 { // 4, 5, 5 and 4 of 18
			p.RemoteAddress = said(k.switches[(i*len(k.switches)+len(k.switches)/2)/k.links%len(k.switches)])
		}
		s.Links = append(s.Links, p)
	}
	return node.Known(s, nvml)
}

// cut makes NVLinks of a GPU inactive.
func (m *machine) cut(address string, numbers ...int) {
	s := node.NVLinkState{}
	state, _ := node.NVLinks.Get(node.NewFacts(node.Inventory{}, observed, []node.Answer{m.answers[node.NVLinks.Query(address)]}), address).Get()
	for _, l := range state.Links {
		for _, n := range numbers {
			if l.Link == n {
				const why = "the link is not active"
				l = node.NVLinkPort{
					Link: n, State: said(node.NVLinkInactive), Version: node.Unknown[string](why, node.Source{}), SpeedMBps: node.Unknown[int](why, node.Source{}),
					Remote: node.Unknown[string](why, node.Source{}), RemoteAddress: node.Unknown[string](why, node.Source{}),
				}
			}
		}
		s.Links = append(s.Links, l)
	}
	answer(m, node.NVLinks, address, node.Known(s, nvml))
}

// fabricManager is the one that is installed, none where version is empty.
func (m *machine) fabricManager(version string) {
	const program = "/usr/bin/nv-fabricmanager"
	state := node.FabricManagerState{}
	if version != "" {
		state = node.FabricManagerState{Installed: true, Version: node.Known(version, at("/var/lib/dpkg/status"))}
	}
	answer(m, node.FabricManager, "", node.Known(state, at(program)))
}

// imex is what of IMEX is installed, none where version is empty, and its unit.
func (m *machine) imex(version, active string) {
	state := node.FabricManagerState{}
	if version != "" {
		state = node.FabricManagerState{Installed: true, Version: node.Known(version, at("/var/lib/dpkg/status"))}
		m.unit("nvidia-imex.service", "enabled", active)
	}
	answer(m, node.IMEX, "", node.Known(state, at("/usr/bin/nvidia-imex")))
}

// peerClient is what ib_core shows of nvidia_peermem.
const peerClient = "/sys/kernel/mm/memory_peers/nv_mem/version"
