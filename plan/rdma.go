package plan

import (
	"errors"
	"fmt"
	"maps"

	"busbar/node"
)

// RDMACore is the kernel module whose parameter netns_mode is the network namespace mode of RDMA devices: Y is RDMAShared, N
// RDMAExclusive. The parameter also shows what was set since by RDMA netlink (ib_devices_shared_netns in
// drivers/infiniband/core/device.c).
const (
	RDMACore      = "ib_core"
	RDMANetnsMode = "netns_mode"
)

// PeerMemoryModule lets NICs read and write the memory of NVIDIA's GPUs. While it is loaded and registered, ib_core shows
// PeerMemoryClient (MLNX_OFED, and the kernels of Ubuntu; nv_mem is its name there: kernel-open/nvidia-peermem/nvidia-peermem.c of
// NVIDIA/open-gpu-kernel-modules).
const (
	PeerMemoryModule = "nvidia_peermem"
	PeerMemoryClient = "/sys/kernel/mm/memory_peers/nv_mem/version"
)

// The network namespace modes of RDMA devices (rdma-system(8)).
const (
	RDMAShared    = "shared"    // every network namespace sees every device
	RDMAExclusive = "exclusive" // a device is in one network namespace
)

// RDMANetns is the mode that the running kernel has; unsupported where ib_core is loaded and has none.
func RDMANetns(v node.Value[node.ModuleState]) node.Value[string] {
	m, ok := v.Get()
	source := node.Source{Path: "/sys/module/" + RDMACore + "/parameters/" + RDMANetnsMode}
	switch {
	case !ok:
		return node.UnknownLike[string](v)
	case !m.Loaded:
		return node.Unknown[string](RDMACore+" is not loaded", v.Source())
	}
	switch value, shown := m.Parameters[RDMANetnsMode]; {
	case !shown:
		return node.Unsupported[string](RDMACore+" has no parameter "+RDMANetnsMode, source)
	case value == "Y":
		return node.Known(RDMAShared, source)
	case value == "N":
		return node.Known(RDMAExclusive, source)
	default:
		return node.Unknown[string](fmt.Sprintf("%q is neither Y nor N", value), source)
	}
}

// SetRDMANetns sets the network namespace mode of RDMA devices until the next boot. The kernel refuses while there is another
// network namespace.
type SetRDMANetns struct {
	// Mode is RDMAShared or RDMAExclusive.
	Mode string `json:"mode"`
}

// Kind is "set-rdma-netns".
func (SetRDMANetns) Kind() string { return "set-rdma-netns" }

// Queries asks for ib_core.
func (SetRDMANetns) Queries() []node.Query { return []node.Query{node.Module.Query(RDMACore)} }

// Done compares the mode.
func (a SetRDMANetns) Done(f node.Facts) (bool, string, error) {
	v := RDMANetns(node.Module.Get(f, RDMACore))
	mode, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	return mode == a.Mode, mode, nil
}

// Project sets the mode in facts.
func (a SetRDMANetns) Project(f node.Facts) node.Facts {
	v := node.Module.Get(f, RDMACore)
	m, _ := v.Get()
	parameters := map[string]string{}
	maps.Copy(parameters, m.Parameters)
	m.Parameters = parameters
	m.Parameters[RDMANetnsMode] = map[string]string{RDMAShared: "Y", RDMAExclusive: "N"}[a.Mode]
	return f.With(node.Module.Answer(RDMACore, node.Known(m, v.Source())))
}
