package live

import (
	"fmt"

	"busbar/node"
)

// nvml is NVIDIA's management library as far as it is asked here. Calls go by their names in nvml.h, and those that take
// the same and give the same are one method. Errors are of type nvmlError, or a refusal where there is no library.
type nvml interface {
	// text is a call about the system as a whole.
	text(call string) (string, error)
	// confidential is nvmlSystemGetConfComputeState, multiGPU a part of nvmlSystemGetConfComputeSettings.
	confidential() (environment, feature, devTools int, err error)
	multiGPU() (int, error)
	// gpu is nvmlDeviceGetHandleByPciBusId, which makes the driver start the GPU.
	gpu(address string) (nvmlGPU, error)
}

// nvmlGPU is a GPU that NVML knows.
type nvmlGPU interface {
	text(call string) (string, error)
	number(call string) (int, error)
	// modes are what is in force now and after the next reset.
	modes(call string) (now, pending int, err error)
	// pci is nvmlDeviceGetPciInfo.
	pci() (nvmlPCI, error)
	// bar1 is nvmlDeviceGetBAR1MemoryInfo, in bytes.
	bar1() (total, used uint64, err error)
	// field is nvmlDeviceGetFieldValues of one field, scope the number of a link.
	field(id, scope int) (int, error)
	// link is a call about an NVLink.
	link(call string, link int) (int, error)
	// linkRemote is nvmlDeviceGetNvLinkRemotePciInfo.
	linkRemote(link int) (nvmlPCI, error)
	// p2p is nvmlDeviceGetP2PStatus; other comes from the same library.
	p2p(other nvmlGPU, capability int) (int, error)
	// fabric is nvmlDeviceGetGpuFabricInfoV, or its predecessor without the mask and the summary.
	fabric() (nvmlFabric, error)
}

// nvmlPCI is nvmlPciInfo_t.
type nvmlPCI struct {
	domain, bus, device uint32
	// id and subsystem have the vendor in the lower half.
	id, subsystem uint32
}

// nvmlFabric is nvmlGpuFabricInfo_v3_t.
type nvmlFabric struct {
	state   int
	status  error // nil for success
	clique  uint32
	cluster [16]byte
	// health and summary are nil where the driver lacks the call that gives them.
	health  *uint32
	summary *int
	lacks   string
}

// nvmlError is a call that failed.
type nvmlError struct {
	call string
	code int
	// text is NVML's, or ours where NVML has no such call.
	text string
}

func (e nvmlError) Error() string { return e.text }

// Codes of nvmlReturn_t.
const (
	nvmlInvalidArgument  = 2
	nvmlNotSupported     = 3
	nvmlIRQIssue         = 11
	nvmlFunctionNotFound = 13
	nvmlGPUIsLost        = 15
	nvmlResetRequired    = 16
	nvmlVersionMismatch  = 25
)

// faulty: the GPU as a whole cannot be used.
func (e nvmlError) faulty() bool {
	return e.code == nvmlIRQIssue || e.code == nvmlGPUIsLost || e.code == nvmlResetRequired
}

// lacksCall is the error for a call that the library does not have.
func lacksCall(call string) nvmlError {
	return nvmlError{call, nvmlFunctionNotFound, "this driver's NVML lacks " + call}
}

// fromNVML is a fact that NVML gave, or why it did not.
func fromNVML[T any](v T, err error, call string) node.Value[T] {
	source := node.Source{Call: call}
	e, isNVML := err.(nvmlError) //nolint:errorlint // never wrapped
	switch {
	case err == nil:
		return node.Known(v, source)
	case isNVML && e.code == nvmlNotSupported:
		return node.Unsupported[T](e.text, source)
	default:
		return node.Unknown[T](err.Error(), source)
	}
}

// word gives a number of NVML's its name.
func word(v node.Value[int], names []string) node.Value[string] {
	n, ok := v.Get()
	switch {
	case !ok:
		return node.UnknownLike[string](v)
	case n < 0 || n >= len(names):
		return node.Unknown[string](fmt.Sprintf("NVML gives %d, which has no name yet", n), v.Source())
	}
	return node.Known(names[n], v.Source())
}

// enabled reads nvmlEnableState_t.
func enabled(v node.Value[int]) node.Value[bool] {
	return mapValue(v, func(n int) bool { return n != 0 })
}
