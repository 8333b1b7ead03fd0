//go:build cgo

package live

import (
	"encoding/binary"
	"errors"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlLibraries are where libnvidia-ml.so.1 is looked for: where the loader finds it, and in the root of a driver that runs
// in a container (gpu-operator mounts it at /run/nvidia/driver).
var nvmlLibraries = []string{
	"libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
}

// loadNVML loads the library of this machine.
func loadNVML() (nvml, error) { return openNVML(nvmlLibraries...) }

// openNVML loads the first library of paths that is there. That it cannot talk to the driver is an error of each call.
func openNVML(paths ...string) (nvml, error) {
	for _, path := range paths {
		l := library{Interface: gonvml.New(gonvml.WithLibraryPath(path))}
		switch r := l.Init(); {
		case errors.Is(r, gonvml.ERROR_LIBRARY_NOT_FOUND):
			continue
		case !errors.Is(r, gonvml.SUCCESS):
			l.unusable = nvmlError{"nvmlInit_v2", int(r), r.Error()}
		}
		return l, nil
	}
	return nil, refusal("libnvidia-ml.so.1 is neither where the loader looks nor below /run/nvidia/driver")
}

// library is NVML over go-nvml.
type library struct {
	gonvml.Interface
	// unusable is why nvmlInit failed.
	unusable error
}

// invoke makes a call, if the library has it: to call what it lacks would end the process.
func invoke[T any](l library, call string, f func() (T, gonvml.Return)) (T, error) {
	var none T
	if l.Extensions().LookupSymbol(call) != nil {
		return none, lacksCall(call)
	}
	v, r := f()
	if !errors.Is(r, gonvml.SUCCESS) {
		return none, nvmlError{call, int(r), r.Error()}
	}
	return v, nil
}

func (l library) text(call string) (string, error) {
	switch {
	case call == "nvmlSystemGetNVMLVersion": // answers without nvmlInit
		return invoke(l, call, l.SystemGetNVMLVersion)
	case l.unusable != nil:
		return "", l.unusable
	case call == "nvmlSystemGetDriverVersion":
		return invoke(l, call, l.SystemGetDriverVersion)
	}
	return "", lacksCall(call)
}

func (l library) confidential() (environment, feature, devTools int, err error) {
	if l.unusable != nil {
		return 0, 0, 0, l.unusable
	}
	s, err := invoke(l, confidentialCall, l.SystemGetConfComputeState)
	return int(s.Environment), int(s.CcFeature), int(s.DevToolsMode), err
}

func (l library) multiGPU() (int, error) {
	if l.unusable != nil {
		return 0, l.unusable
	}
	s, err := invoke(l, multiGPUCall, l.SystemGetConfComputeSettings)
	return int(s.MultiGpuMode), err
}

func (l library) gpu(address string) (nvmlGPU, error) {
	if l.unusable != nil {
		return nil, l.unusable
	}
	d, err := invoke(l, handleCall, func() (gonvml.Device, gonvml.Return) { return l.DeviceGetHandleByPciBusId(address) })
	return device{l, d}, err
}

// device is a GPU over go-nvml.
type device struct {
	library library
	gonvml.Device
}

func (d device) text(call string) (string, error) {
	f := map[string]func() (string, gonvml.Return){
		"nvmlDeviceGetName": d.GetName, "nvmlDeviceGetUUID": d.GetUUID,
	}[call]
	return invokeIf(d.library, call, f)
}

// invokeIf is invoke with a call that has no function here when f is nil.
func invokeIf[T any](l library, call string, f func() (T, gonvml.Return)) (T, error) {
	if f == nil {
		var none T
		return none, lacksCall(call)
	}
	return invoke(l, call, f)
}

// toInt makes a number of what a call gives.
func toInt[T ~int | ~int32 | ~uint32](f func() (T, gonvml.Return)) func() (int, gonvml.Return) {
	return func() (int, gonvml.Return) {
		v, r := f()
		return int(v), r
	}
}

func (d device) number(call string) (int, error) {
	f := map[string]func() (int, gonvml.Return){
		"nvmlDeviceGetMinorNumber":            d.GetMinorNumber,
		"nvmlDeviceGetVirtualizationMode":     toInt(d.GetVirtualizationMode),
		"nvmlDeviceGetPersistenceMode":        toInt(d.GetPersistenceMode),
		"nvmlDeviceGetCurrPcieLinkGeneration": d.GetCurrPcieLinkGeneration,
		"nvmlDeviceGetMaxPcieLinkGeneration":  d.GetMaxPcieLinkGeneration,
		"nvmlDeviceGetCurrPcieLinkWidth":      d.GetCurrPcieLinkWidth,
		"nvmlDeviceGetMaxPcieLinkWidth":       d.GetMaxPcieLinkWidth,
		"nvmlDeviceGetComputeMode":            toInt(d.GetComputeMode),
		"nvmlDeviceGetNumaNodeId":             d.GetNumaNodeId,
	}[call]
	return invokeIf(d.library, call, f)
}

func (d device) modes(call string) (now, pending int, err error) {
	type pair struct{ now, pending int }
	f := map[string]func() (pair, gonvml.Return){
		"nvmlDeviceGetMigMode": func() (pair, gonvml.Return) {
			now, pending, r := d.GetMigMode()
			return pair{now, pending}, r
		},
		"nvmlDeviceGetEccMode": func() (pair, gonvml.Return) {
			now, pending, r := d.GetEccMode()
			return pair{int(now), int(pending)}, r
		},
	}[call]
	p, err := invokeIf(d.library, call, f)
	return p.now, p.pending, err
}

func toPCI(p gonvml.PciInfo) nvmlPCI {
	return nvmlPCI{domain: p.Domain, bus: p.Bus, device: p.Device, id: p.PciDeviceId, subsystem: p.PciSubSystemId}
}

func (d device) pci() (nvmlPCI, error) {
	p, err := invoke(d.library, pciCall, d.GetPciInfo)
	return toPCI(p), err
}

func (d device) bar1() (total, used uint64, err error) {
	m, err := invoke(d.library, "nvmlDeviceGetBAR1MemoryInfo", d.GetBAR1MemoryInfo)
	return m.Bar1Total, m.Bar1Used, err
}

func (d device) field(id, scope int) (int, error) {
	const call = fieldCall
	fields := []gonvml.FieldValue{{FieldId: uint32(id), ScopeId: uint32(scope)}}
	_, err := invoke(d.library, call, func() (struct{}, gonvml.Return) { return struct{}{}, d.GetFieldValues(fields) })
	if err != nil {
		return 0, err
	}
	f := fields[0]
	if r := gonvml.Return(f.NvmlReturn); !errors.Is(r, gonvml.SUCCESS) {
		return 0, nvmlError{call, int(r), r.Error()}
	}
	switch gonvml.ValueType(f.ValueType) {
	case gonvml.VALUE_TYPE_UNSIGNED_INT, gonvml.VALUE_TYPE_SIGNED_INT:
		return int(int32(binary.NativeEndian.Uint32(f.Value[:]))), nil
	case gonvml.VALUE_TYPE_UNSIGNED_LONG, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, gonvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return int(binary.NativeEndian.Uint64(f.Value[:])), nil
	case gonvml.VALUE_TYPE_UNSIGNED_SHORT:
		return int(binary.NativeEndian.Uint16(f.Value[:])), nil
	}
	return 0, nvmlError{call, nvmlVersionMismatch, "NVML gives a value of a type that is no whole number"}
}

func (d device) link(call string, link int) (int, error) {
	f := map[string]func() (int, gonvml.Return){
		"nvmlDeviceGetNvLinkState":            toInt(func() (gonvml.EnableState, gonvml.Return) { return d.GetNvLinkState(link) }),
		"nvmlDeviceGetNvLinkVersion":          toInt(func() (uint32, gonvml.Return) { return d.GetNvLinkVersion(link) }),
		"nvmlDeviceGetNvLinkRemoteDeviceType": toInt(func() (gonvml.IntNvLinkDeviceType, gonvml.Return) { return d.GetNvLinkRemoteDeviceType(link) }),
	}[call]
	return invokeIf(d.library, call, f)
}

func (d device) linkRemote(link int) (nvmlPCI, error) {
	p, err := invoke(d.library, remoteCall, func() (gonvml.PciInfo, gonvml.Return) { return d.GetNvLinkRemotePciInfo(link) })
	return toPCI(p), err
}

func (d device) p2p(other nvmlGPU, capability int) (int, error) {
	peer := other.(device).Device // of this library, as all are
	return invoke(d.library, p2pCall, toInt(func() (gonvml.GpuP2PStatus, gonvml.Return) {
		return d.GetP2PStatus(peer, gonvml.GpuP2PCapsIndex(capability))
	}))
}

// fabric asks the newest version of the structure that the driver knows.
func (d device) fabric() (nvmlFabric, error) {
	const call, first = fabricCall, "nvmlDeviceGetGpuFabricInfo"
	info := d.GetGpuFabricInfoV()
	v3, err := invoke(d.library, call, info.V3)
	if err == nil {
		summary := int(v3.HealthSummary)
		return nvmlFabric{state: int(v3.State), status: status(v3.Status), clique: v3.CliqueId, cluster: v3.ClusterUuid, health: &v3.HealthMask, summary: &summary}, nil
	}
	if !outdated(err) {
		return nvmlFabric{}, err
	}
	v2, err := invoke(d.library, call, info.V2)
	if err == nil {
		return nvmlFabric{state: int(v2.State), status: status(v2.Status), clique: v2.CliqueId, cluster: v2.ClusterUuid, health: &v2.HealthMask, lacks: call + " version 3"}, nil
	}
	if !outdated(err) {
		return nvmlFabric{}, err
	}
	v1, err := invoke(d.library, first, info.V1)
	return nvmlFabric{state: int(v1.State), status: status(v1.Status), clique: v1.CliqueId, cluster: v1.ClusterUuid, lacks: call}, err
}

// status is the error that a structure holds as a number.
func status(code uint32) error {
	if r := gonvml.Return(code); !errors.Is(r, gonvml.SUCCESS) {
		return nvmlError{fabricCall, int(r), r.Error()}
	}
	return nil
}

// outdated: the driver has no such call, or not in this version.
func outdated(err error) bool {
	var e nvmlError
	return errors.As(err, &e) && (e.code == nvmlFunctionNotFound || e.code == nvmlVersionMismatch || e.code == nvmlInvalidArgument)
}
