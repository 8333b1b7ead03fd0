package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// NVIDIADriverState is the NVIDIA kernel driver that is loaded, /proc/driver/nvidia (kernel-open/nvidia/nv-procfs.c
// of NVIDIA/open-gpu-kernel-modules).
type NVIDIADriverState struct {
	// Loaded: the kernel has the driver; without it the other fields are empty.
	Loaded bool `json:"loaded"`
	// Version of the driver, "580.159.04".
	Version string `json:"version,omitempty"`
	// Open: it is the flavour whose kernel modules are open source, which can export GPU memory as dma-buf.
	Open bool `json:"open,omitempty"`
	// Parameters are those in force, by their names without NVreg_; texts without their quotes.
	Parameters Value[map[string]string] `json:"parameters,omitzero"`
}

// Check refuses a driver that is loaded and has no version.
func (s NVIDIADriverState) Check() error {
	if s.Loaded && s.Version == "" {
		return errors.New("the driver is loaded and has no version")
	}
	return nil
}

// Flavour is what NVIDIA calls the kernel modules: open or proprietary.
func (s NVIDIADriverState) Flavour() string {
	if s.Open {
		return "open"
	}
	return "proprietary"
}

// FabricManagerState is the package of NVIDIA's fabric manager, or of IMEX, each of which works with the driver of its own version alone.
type FabricManagerState struct {
	// Installed: the program is there, /usr/bin/nv-fabricmanager or /usr/bin/nvidia-imex.
	Installed bool `json:"installed"`
	// Version of the package without its revision, "580.159.04"; unknown where neither dpkg nor the program says it.
	Version Value[string] `json:"version,omitzero"`
}

// ParseNVIDIAVersion reads /proc/driver/nvidia/version: the driver's version, and whether its modules are the open ones;
// false where it is something else. The first line is one of
//
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (builder)  Tue Sep 23 09:55:41 UTC 2025
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025
func ParseNVIDIAVersion(text string) (version string, open, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	at := slices.Index(words, "Module")
	if !strings.HasPrefix(line, "NVRM version: ") || at < 0 {
		return "", false, false
	}
	for _, w := range words[at+1:] {
		if strings.Contains(w, ".") && strings.Trim(w, "0123456789.") == "" {
			return w, slices.Contains(words[:at], "Open"), true
		}
	}
	return "", false, false
}

// ParseNVIDIAParameters reads /proc/driver/nvidia/params, lines of NAME: NUMBER and NAME: "TEXT". Other lines are passed over.
func ParseNVIDIAParameters(text string) map[string]string {
	parameters := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			continue
		}
		if inner, quoted := strings.CutPrefix(value, `"`); quoted {
			value = strings.TrimSuffix(inner, `"`)
		}
		parameters[name] = value
	}
	return parameters
}

// NVIDIAInformation is what the driver says of a GPU without NVML.
type NVIDIAInformation struct {
	// Model is the product name, UUID begins with GPU-; empty where the driver does not say.
	Model, UUID string
	// Minor is N of /dev/nvidiaN, -1 where the driver does not say.
	Minor int
}

// ParseNVIDIAInformation reads /proc/driver/nvidia/gpus/ADDRESS/information, lines of "NAME: TABS VALUE".
func ParseNVIDIAInformation(text string) NVIDIAInformation {
	info := NVIDIAInformation{Minor: -1}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Model":
			if value != "Unknown" {
				info.Model = value
			}
		case "GPU UUID":
			if strings.HasPrefix(value, "GPU-") && !strings.Contains(value, "?") {
				info.UUID = value
			}
		case "Device Minor":
			if n, ok := smallNumber(value); ok {
				info.Minor = n
			}
		}
	}
	return info
}

// smallNumber reads digits, six at most.
func smallNumber(s string) (n int, ok bool) {
	if s == "" || len(s) > 6 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n, true
}

// NVMLState is NVIDIA's management library, libnvidia-ml.so.1.
type NVMLState struct {
	// Version of the library: the CUDA version's first number and the version of the driver that it
	// came with, "13.580.159.04" (nvmlSystemGetNVMLVersion); PackagedNVML of a package, which tells the second alone.
	Version string `json:"version"`
	// Driver is the version of the driver that it talks to (nvmlSystemGetDriverVersion); unknown where it does not,
	// with the reason that NVML gives.
	Driver Value[string] `json:"driver,omitzero"`
	// Fault is why it shows no GPU at all, one of the NVML constants or NVML's own words, as text tells of nvidia-smi and others; empty
	// for one that answers. Of a node that is read, NVMLState is unknown then.
	Fault string `json:"fault,omitempty"`
}

// PackagedNVML is NVMLState.Version where only the version of its package is known, which is the driver's: "?.580.159.04".
func PackagedNVML(driver string) string { return "?." + driver }

// Faults of NVMLState: those of nvmlInit in NVML's words (nvmlErrorString, as nvidia-smi prints them), and what nvidia-smi says itself.
const (
	NVMLDriverNotLoaded = "Driver Not Loaded"
	NVMLMismatch        = "Driver/library version mismatch"
	NVMLUnknown         = "Unknown Error"
	NVMLNoPermission    = "Insufficient Permissions"
	NVMLNoLibrary       = "libnvidia-ml.so is not found"
	NVMLNoDevices       = "No devices were found"
)

// DriverVersion is the version of the driver that the library came with.
func (s NVMLState) DriverVersion() string {
	_, version, _ := strings.Cut(s.Version, ".")
	return version
}

// Modes of GPUState.Virtualization (nvmlGpuVirtualizationMode_t).
const (
	GPUBareMetal   = "none"
	GPUPassthrough = "passthrough"
	GPUVGPU        = "vgpu"      // in the guest
	GPUHostVGPU    = "host-vgpu" // on the host
	GPUHostVSGA    = "host-vsga" // on the host
)

// ComputeModeDefault is the compute mode in which any number of processes use a GPU (nvmlComputeMode_t).
const ComputeModeDefault = "default"

// GPUState is what NVML says of a GPU. What NVML has no answer for is unknown with NVML's words, or unsupported where
// they are Not Supported.
type GPUState struct {
	// Fault is why NVML cannot use the GPU at all, in NVML's words: it is lost, needs a reset ...; empty for a
	// GPU that answers.
	Fault string `json:"fault,omitempty"`
	// Minor is N of /dev/nvidiaN.
	Minor Value[int] `json:"minor,omitzero" range:"0:"`
	// UUID begins with GPU-.
	UUID Value[string] `json:"uuid,omitzero"`
	// Product is the product's name, "NVIDIA H200".
	Product Value[string] `json:"product,omitzero"`
	// PCIID and Subsystem are VENDOR:DEVICE, as PCIFunction.ID has it.
	PCIID     Value[string] `json:"pci_id,omitzero"`
	Subsystem Value[string] `json:"subsystem,omitzero"`
	// MIG: the GPU is divided (Multi-Instance GPU), now and after the next reset.
	MIG        Value[bool] `json:"mig,omitzero"`
	MIGPending Value[bool] `json:"mig_pending,omitzero"`
	// Virtualization is GPUBareMetal, GPUPassthrough ...
	Virtualization Value[string] `json:"virtualization,omitzero"`
	// Persistence: the driver keeps the GPU's state while nobody uses it.
	Persistence Value[bool] `json:"persistence,omitzero"`
	// ECC of the GPU's memory, now and after the next reset.
	ECC        Value[bool] `json:"ecc,omitzero"`
	ECCPending Value[bool] `json:"ecc_pending,omitzero"`
	// RepairFailed: a row of the GPU's memory could not be replaced by a spare one. RepairPending: rows are replaced, or pages left
	// out, when the GPU is reset. Recovery is what the driver says that the GPU needs: None, Reset, Reboot, Drain P2P, Drain and
	// Reset. nvidia-smi says all three; nobody else is asked.
	RepairFailed  Value[bool]   `json:"repair_failed,omitzero"`
	RepairPending Value[bool]   `json:"repair_pending,omitzero"`
	Recovery      Value[string] `json:"recovery,omitzero"`
	// BAR1Bytes is the size of the window to the GPU's memory that peers map, BAR1UsedBytes what of it is mapped.
	BAR1Bytes     Value[uint64] `json:"bar1_bytes,omitzero"`
	BAR1UsedBytes Value[uint64] `json:"bar1_used_bytes,omitzero"`
	// PCIe generation and width in lanes of the GPU's link, now and at best; a GPU at rest lowers the generation.
	PCIeGeneration    Value[int] `json:"pcie_generation,omitzero" range:"0:"`
	PCIeMaxGeneration Value[int] `json:"pcie_max_generation,omitzero" range:"0:"`
	PCIeWidth         Value[int] `json:"pcie_width,omitzero" range:"0:32"`
	PCIeMaxWidth      Value[int] `json:"pcie_max_width,omitzero" range:"0:32"`
	// ComputeMode is ComputeModeDefault, exclusive-thread, prohibited or exclusive-process.
	ComputeMode Value[string] `json:"compute_mode,omitzero"`
	// MemoryNUMANode is the NUMA node that the GPU's memory makes, on Grace and alike.
	MemoryNUMANode Value[int] `json:"memory_numa_node,omitzero" range:"0:1023"`
}

// States of an NVLink (NVML_NVLINK_STATE_* of nvml.h).
const (
	NVLinkActive          = "active"
	NVLinkInactive        = "inactive"
	NVLinkSleep           = "sleep"
	NVLinkTrafficDisabled = "active-traffic-disabled"
)

// What an NVLink leads to (nvmlIntNvLinkDeviceType_t).
const (
	NVLinkToGPU     = "gpu"
	NVLinkToNPU     = "npu" // of IBM's processors
	NVLinkToSwitch  = "switch"
	NVLinkToUnknown = "unknown"
)

// NVLinkState are the NVLinks of a GPU, by number.
type NVLinkState struct {
	Links []NVLinkPort `json:"links"`
}

// NVLinkPort is one NVLink of a GPU.
type NVLinkPort struct {
	Link int `json:"link" range:"0:"`
	// State is NVLinkActive, NVLinkInactive ...
	State Value[string] `json:"state,omitzero"`
	// Version of the link, "4.0".
	Version Value[string] `json:"version,omitzero"`
	// SpeedMBps is the link's rate one way, in MB/s as nvidia-smi nvlink -s shows it in GB/s: 26562.
	SpeedMBps Value[int] `json:"speed_mbps,omitzero" range:"0:"`
	// Remote is NVLinkToGPU, NVLinkToSwitch ..., RemoteAddress the PCI address there. A hypervisor hides the
	// address of what it does not pass through.
	Remote        Value[string] `json:"remote,omitzero"`
	RemoteAddress Value[string] `json:"remote_address,omitzero"`
}

// HiddenRemote is why the address of what an NVLink leads to is unknown where NVML gives one of all ones.
const HiddenRemote = "what is at the other end of the link is on no PCI bus of this node"

// leadsToSwitch reports an active link to an NVSwitch. NCCL too takes what is on no PCI bus of the node for one
// (ncclTopoGetXmlFromSys in src/graph/xml.cc).
func (l NVLinkPort) leadsToSwitch() bool {
	remote, _ := l.Remote.Get()
	return l.active() && (remote == NVLinkToSwitch || remote != NVLinkToGPU && l.RemoteAddress.Reason() == HiddenRemote)
}

func (l NVLinkPort) active() bool { state, _ := l.State.Get(); return state == NVLinkActive }

// leadsTo reports an active link to the GPU at address.
func (l NVLinkPort) leadsTo(address string) bool {
	remote, _ := l.RemoteAddress.Get()
	return l.active() && remote == address
}

// Active counts the active links; unknown where the state of one is.
func (s NVLinkState) Active() Value[int] {
	n := 0
	for _, l := range s.Links {
		state, ok := l.State.Get()
		switch {
		case state == NVLinkActive:
			n++
		case !ok && !l.State.IsUnsupported():
			return Unknown[int](fmt.Sprintf("the state of link %d is unknown: %s", l.Link, l.State.Reason()), l.State.Source())
		}
	}
	return Known(n, Source{})
}

// States of peer-to-peer access, as nvidia-smi topo -p2p prints them (nvmlGpuP2PStatus_t).
const (
	P2POK                   = "OK"
	P2PChipsetNotSupported  = "CNS"
	P2PGPUNotSupported      = "GNS"
	P2PTopologyNotSupported = "TNS"
	P2PDisabledByRegkey     = "DR"
	P2PNotSupported         = "NS"
	P2PUnknown              = "U"
)

// P2PState is what the driver says of the access of GPUs to each other. It is a property of driver and chipset: ACS
// and IOMMU are not looked at.
type P2PState struct {
	// GPUs that the driver knows, by address.
	GPUs []string `json:"gpus"`
	// Pairs are all ordered ones, by From and To.
	Pairs []P2PPair `json:"pairs"`
}

// P2PPair is the access of one GPU to another, each P2POK or why not.
type P2PPair struct {
	From    string        `json:"from"`
	To      string        `json:"to"`
	Read    Value[string] `json:"read,omitzero"`
	Write   Value[string] `json:"write,omitzero"`
	NVLink  Value[string] `json:"nvlink,omitzero"`
	Atomics Value[string] `json:"atomics,omitzero"`
}

// Between is the pair of two GPUs in one direction, and false where there is none.
func (s P2PState) Between(from, to string) (P2PPair, bool) {
	i := slices.IndexFunc(s.Pairs, func(p P2PPair) bool { return p.From == from && p.To == to })
	if i < 0 {
		return P2PPair{}, false
	}
	return s.Pairs[i], true
}

// NVLinksBetween is how many NVLinks carry the traffic of two GPUs, what nvidia-smi topo -m calls NV#: the active ones
// of a that lead to b, and through NVSwitches, where the driver lets the two talk over NVLink, as many as the GPU
// with fewer active ones has. It is 0 where there are none, and unknown where nobody asked NVML.
func (f Facts) NVLinksBetween(a, b string) Value[int] {
	v := f.nvlinksBetween(a, b)
	links, ok := v.Get()
	if !ok {
		return UnknownLike[int](v)
	}
	return Known(len(links), v.Source())
}

// NVLinkRateBetween is the sum of the rates one way of the NVLinks that carry the traffic of two GPUs (NVLinksBetween), in
// MB/s: 478116 for 18 links of 26562. It is 0 where there are none.
func (f Facts) NVLinkRateBetween(a, b string) Value[int] {
	v := f.nvlinksBetween(a, b)
	links, ok := v.Get()
	if !ok {
		return UnknownLike[int](v)
	}
	sum := 0
	for _, l := range links {
		speed, ok := l.SpeedMBps.Get()
		if !ok {
			return UnknownLike[int](l.SpeedMBps)
		}
		sum += speed
	}
	return Known(sum, v.Source())
}

// nvlinksBetween are the NVLinks of NVLinksBetween, those through NVSwitches as the GPU has them that has fewer.
func (f Facts) nvlinksBetween(a, b string) Value[[]NVLinkPort] {
	var sides [2]NVLinkState
	for i, address := range []string{a, b} {
		v := NVLinks.Get(f, address)
		state, ok := v.Get()
		if !ok && !v.IsUnsupported() {
			return UnknownLike[[]NVLinkPort](v)
		}
		sides[i] = state
		if active := state.Active(); !active.IsKnown() {
			return UnknownLike[[]NVLinkPort](active)
		}
	}
	source := NVLinks.Get(f, a).Source()
	direct := those(sides[0].Links, func(l NVLinkPort) bool { return l.leadsTo(b) })
	switched := those(sides[0].Links, NVLinkPort.leadsToSwitch)
	if other := those(sides[1].Links, NVLinkPort.leadsToSwitch); len(other) < len(switched) {
		switched = other
	}
	if len(switched) == 0 {
		return Known(direct, source)
	}
	matrix := P2P.Get(f, "")
	state, ok := matrix.Get()
	if !ok {
		return UnknownLike[[]NVLinkPort](matrix)
	}
	pair, _ := state.Between(a, b)
	switch status, ok := pair.NVLink.Get(); {
	case !ok:
		return UnknownLike[[]NVLinkPort](pair.NVLink)
	case status != P2POK:
		return Known(direct, source)
	}
	return Known(slices.Concat(direct, switched), source)
}

func those[T any](list []T, are func(T) bool) []T {
	var some []T
	for _, x := range list {
		if are(x) {
			some = append(some, x)
		}
	}
	return some
}

// States of a GPU's registration with the fabric of NVSwitches (NVML_GPU_FABRIC_STATE_* of nvml.h).
const (
	FabricNotSupported = "not-supported"
	FabricNotStarted   = "not-started"
	FabricInProgress   = "in-progress"
	FabricCompleted    = "completed"
)

// FabricSuccess is the status of a GPU that is registered with its fabric.
const FabricSuccess = "success"

// GPUFabricState is a GPU's registration with the fabric of NVSwitches.
type GPUFabricState struct {
	// State is FabricNotSupported (there is no fabric), FabricNotStarted, FabricInProgress or FabricCompleted.
	State string `json:"state"`
	// Status is FabricSuccess, or NVML's words for how registering ended. It counts where State is FabricCompleted.
	Status string `json:"status,omitempty"`
	// Clique is the GPU's group in the cluster whose UUID is ClusterUUID; both are zero in a fabric that
	// ends at the node's own board.
	Clique      uint32 `json:"clique"`
	ClusterUUID string `json:"cluster_uuid,omitempty"`
	// Health is NVML's mask of bits (NVML_GPU_FABRIC_HEALTH_MASK_* of nvml.h).
	Health Value[FabricHealth] `json:"health,omitzero"`
	// Summary is not-supported, healthy, unhealthy or limited-capacity.
	Summary Value[string] `json:"summary,omitzero"`
}

// NoCluster is the UUID of no cluster.
const NoCluster = "00000000-0000-0000-0000-000000000000"

// FabricHealth is the mask of health bits of a GPU's fabric. Parts that the GPU does not support are 0.
type FabricHealth uint32

// Parts of the mask that say that something is wrong.
const (
	FabricBandwidthDegraded FabricHealth = 1 << 0
	FabricRouteRecovery     FabricHealth = 1 << 2
	FabricRouteUnhealthy    FabricHealth = 1 << 4
	FabricTimeoutRecovery   FabricHealth = 1 << 6
)

// incorrectConfiguration are the values of the mask's part of that name, from 2 on.
var incorrectConfiguration = [...]string{
	"another system GUID", "another chassis serial number", "no partition", "too few NVLinks",
	"incompatible GPU firmware", "invalid location", "invalid GPU state",
}

// Complaints are what the mask says that is wrong, in words.
func (h FabricHealth) Complaints() []string {
	var list []string
	for _, part := range []struct {
		shift, bad uint32
		words      string
	}{
		{0, 1, "bandwidth is degraded"},
		{2, 1, "routes are being recovered"},
		{4, 1, "a route is unhealthy"},
		{6, 1, "recovering from an access timeout"},
		{12, 2, "no partition is assigned"},
		{14, 2, "the global fabric manager is disconnected"},
	} {
		if uint32(h)>>part.shift&3 == part.bad {
			list = append(list, part.words)
		}
	}
	if n := int(h >> 8 & 15); n >= 2 {
		words := fmt.Sprintf("code %d", n)
		if n-2 < len(incorrectConfiguration) {
			words = incorrectConfiguration[n-2]
		}
		list = append(list, "incorrect configuration: "+words)
	}
	return list
}

// ConfidentialComputingState is whether GPUs keep their data from the host.
type ConfidentialComputingState struct {
	// Environment is unavailable, simulation or production.
	Environment string `json:"environment"`
	// Enabled: GPUs encrypt what leaves them, and P2P has other paths or none.
	Enabled bool `json:"enabled"`
	// DevTools: the mode in which tools may look inside.
	DevTools bool `json:"dev_tools,omitempty"`
	// MultiGPU is none, protected-pcie or nvlink-encryption.
	MultiGPU Value[string] `json:"multi_gpu,omitzero"`
}
