package live

import (
	"errors"
	"fmt"

	"busbar/node"
)

// What the NVIDIA driver shows without NVML (kernel-open/nvidia/nv-procfs.c of NVIDIA/open-gpu-kernel-modules).
const (
	nvidiaProc    = "/proc/driver/nvidia"
	nvidiaVersion = nvidiaProc + "/version"
	nvidiaGPUs    = nvidiaProc + "/gpus" // a directory for each GPU, named by its address
	nvidiaControl = "/dev/nvidiactl"
)

// Calls that more than one place names.
const (
	confidentialCall = "nvmlSystemGetConfComputeState"
	multiGPUCall     = "nvmlSystemGetConfComputeSettings"
	fabricCall       = "nvmlDeviceGetGpuFabricInfoV"
	fieldCall        = "nvmlDeviceGetFieldValues"
	remoteCall       = "nvmlDeviceGetNvLinkRemotePciInfo_v2"
	pciCall          = "nvmlDeviceGetPciInfo_v3"
	handleCall       = "nvmlDeviceGetHandleByPciBusId_v2"
	p2pCall          = "nvmlDeviceGetP2PStatus"
)

// nvidiaDriver reads what stands in memory of the driver; no GPU is asked.
func (s *session) nvidiaDriver(string) node.Value[node.NVIDIADriverState] {
	source := node.Source{Path: nvidiaVersion}
	text, err := s.read(nvidiaVersion)
	switch {
	case absent(err) && s.exists("/proc"):
		return node.Known(node.NVIDIADriverState{}, source)
	case err != nil:
		return unknown[node.NVIDIADriverState](err, nvidiaVersion)
	}
	version, open, ok := node.ParseNVIDIAVersion(text)
	if !ok {
		return node.Unknown[node.NVIDIADriverState](fmt.Sprintf("%.80q is no version of the NVIDIA driver", text), source)
	}
	state := node.NVIDIADriverState{Loaded: true, Version: version, Open: open}
	const params = nvidiaProc + "/params"
	if text, err := s.read(params); err != nil {
		state.Parameters = unknown[map[string]string](err, params)
	} else {
		state.Parameters = node.Known(node.ParseNVIDIAParameters(text), node.Source{Path: params})
	}
	return node.Known(state, source)
}

// nvidiaWithout answers where the driver is not loaded.
func nvidiaWithout[T any](f files, _ string) (node.Value[T], bool) {
	_, err := f.stat(nvidiaVersion)
	switch {
	case absent(err):
		return node.Unknown[T]("the NVIDIA driver is not loaded", node.Source{Path: nvidiaVersion}), true
	case err != nil:
		return unknown[T](err, nvidiaVersion), true
	}
	return node.Value[T]{}, false
}

// gpuWithout answers for a GPU that is not there, or that another driver is bound to.
func gpuWithout[T any](f files, address string) (node.Value[T], bool) {
	if !node.IsPCIAddress(address) {
		return node.Unknown[T]("is no PCI address", node.Source{}), true
	}
	dir := pciDevices + "/" + address
	source := node.Source{Path: dir}
	switch _, err := f.stat(dir); {
	case absent(err):
		return node.Unknown[T]("there is no PCI function "+address, source), true
	case err != nil:
		return unknown[T](err, dir), true
	}
	switch driver := f.linkBase(dir + "/driver"); driver {
	case "nvidia":
		return nvidiaWithout[T](f, address)
	case "":
		return node.Unknown[T]("no driver is bound to the GPU", source), true
	default:
		return node.Unknown[T]("driver "+driver+" is bound to the GPU, not nvidia", source), true
	}
}

// nvmlThere is the library, if there is a driver for it to talk to: NVML would make the driver's device nodes, and load
// the driver, where they are missing.
func (d drivers) nvmlThere() (nvml, error) {
	if d.nvml == nil {
		return nil, errNoAnswers
	}
	if !d.exists(nvidiaControl) {
		return nil, refusal("there is no " + nvidiaControl + ": nobody has made the driver's device nodes (nvidia-modprobe)")
	}
	return d.nvml()
}

func (d drivers) nvmlLibrary(string) node.Value[node.NVMLState] {
	const call = "nvmlSystemGetNVMLVersion"
	lib, err := d.nvmlThere()
	if err != nil {
		return node.Unknown[node.NVMLState](err.Error(), node.Source{Call: call})
	}
	version, err := lib.text(call)
	if err != nil {
		return fromNVML(node.NVMLState{}, err, call)
	}
	const driver = "nvmlSystemGetDriverVersion"
	of, err := lib.text(driver)
	return node.Known(node.NVMLState{Version: version, Driver: fromNVML(of, err, driver)}, node.Source{Call: call})
}

// handle is a GPU of NVML's.
func (d drivers) handle(address string) (nvmlGPU, error) {
	lib, err := d.nvmlThere()
	if err != nil {
		return nil, err
	}
	return lib.gpu(address)
}

// gpuState asks NVML about a GPU, and the driver's files about what NVML does not say.
func (d drivers) gpuState(address string) node.Value[node.GPUState] {
	gpu, err := d.handle(address)
	q := questions{gpu: gpu, err: err}
	s := node.GPUState{
		Minor: q.number("nvmlDeviceGetMinorNumber"), UUID: q.text("nvmlDeviceGetUUID"), Product: q.text("nvmlDeviceGetName"),
		Virtualization: word(q.number("nvmlDeviceGetVirtualizationMode"), []string{node.GPUBareMetal, node.GPUPassthrough, node.GPUVGPU, node.GPUHostVGPU, node.GPUHostVSGA}),
		Persistence:    enabled(q.number("nvmlDeviceGetPersistenceMode")),
		PCIeGeneration: q.number("nvmlDeviceGetCurrPcieLinkGeneration"), PCIeMaxGeneration: q.number("nvmlDeviceGetMaxPcieLinkGeneration"),
		PCIeWidth: q.number("nvmlDeviceGetCurrPcieLinkWidth"), PCIeMaxWidth: q.number("nvmlDeviceGetMaxPcieLinkWidth"),
		ComputeMode:    word(q.number("nvmlDeviceGetComputeMode"), []string{node.ComputeModeDefault, "exclusive-thread", "prohibited", "exclusive-process"}),
		MemoryNUMANode: q.number("nvmlDeviceGetNumaNodeId"),
	}
	s.PCIID, s.Subsystem = q.pciIDs()
	s.MIG, s.MIGPending = q.modes("nvmlDeviceGetMigMode")
	s.ECC, s.ECCPending = q.modes("nvmlDeviceGetEccMode")
	s.BAR1Bytes, s.BAR1UsedBytes = q.bar1()
	s.Fault = q.fault
	d.withoutNVML(address, &s)
	return node.Known(s, node.Source{Call: "NVML"})
}

// withoutNVML fills in what NVML left unknown.
func (d drivers) withoutNVML(address string, s *node.GPUState) {
	if s.Minor.IsKnown() && s.UUID.IsKnown() && s.Product.IsKnown() {
		return
	}
	p := nvidiaGPUs + "/" + address + "/information"
	text, err := d.read(p)
	if err != nil {
		return
	}
	info, source := node.ParseNVIDIAInformation(text), node.Source{Path: p}
	if !s.Minor.IsKnown() && info.Minor >= 0 {
		s.Minor = node.Known(info.Minor, source)
	}
	if !s.UUID.IsKnown() && info.UUID != "" {
		s.UUID = node.Known(info.UUID, source)
	}
	if !s.Product.IsKnown() && info.Model != "" {
		s.Product = node.Known(info.Model, source)
	}
}

// questions are those about one GPU. An error from the start answers them all.
type questions struct {
	gpu nvmlGPU
	err error
	// fault is the first error that says that the GPU as a whole cannot be used.
	fault string
}

// answerOf makes a fact of what a call gave.
func answerOf[T any](q *questions, call string, ask func() (T, error)) node.Value[T] {
	var v T
	err := q.err
	if err == nil {
		v, err = ask()
	}
	var e nvmlError
	if errors.As(err, &e) && e.faulty() && q.fault == "" {
		q.fault = e.text
	}
	return fromNVML(v, err, call)
}

func (q *questions) text(call string) node.Value[string] {
	return answerOf(q, call, func() (string, error) { return q.gpu.text(call) })
}

func (q *questions) number(call string) node.Value[int] {
	return answerOf(q, call, func() (int, error) { return q.gpu.number(call) })
}

func (q *questions) modes(call string) (now, pending node.Value[bool]) {
	v := answerOf(q, call, func() ([2]int, error) {
		now, pending, err := q.gpu.modes(call)
		return [2]int{now, pending}, err
	})
	return mapValue(v, func(m [2]int) bool { return m[0] != 0 }), mapValue(v, func(m [2]int) bool { return m[1] != 0 })
}

func (q *questions) bar1() (total, used node.Value[uint64]) {
	v := answerOf(q, "nvmlDeviceGetBAR1MemoryInfo", func() ([2]uint64, error) {
		total, used, err := q.gpu.bar1()
		return [2]uint64{total, used}, err
	})
	return mapValue(v, func(b [2]uint64) uint64 { return b[0] }), mapValue(v, func(b [2]uint64) uint64 { return b[1] })
}

func (q *questions) pciIDs() (id, subsystem node.Value[string]) {
	v := answerOf(q, pciCall, func() (nvmlPCI, error) { return q.gpu.pci() })
	write := func(n uint32) string { return fmt.Sprintf("%04x:%04x", n&0xffff, n>>16) }
	return mapValue(v, func(p nvmlPCI) string { return write(p.id) }), mapValue(v, func(p nvmlPCI) string { return write(p.subsystem) })
}

// field is the value of a field of nvml.h.
func (q *questions) field(id, scope int) node.Value[int] {
	return answerOf(q, fieldCall, func() (int, error) { return q.gpu.field(id, scope) })
}

// Fields of nvml.h (NVML_FI_DEV_NVLINK_*). The last three take the link's number as scope.
const (
	fieldLinkSpeedCommon = 90
	fieldLinkCount       = 91
	fieldLinkSpeed       = 164
	fieldLinkState       = 165
	fieldLinkVersion     = 166
)

// maxNVLinks is NVML_NVLINK_MAX_LINKS, larger than any GPU has.
const maxNVLinks = 36

// nvLinks asks NVML about the NVLinks of a GPU.
func (d drivers) nvLinks(address string) node.Value[node.NVLinkState] {
	gpu, err := d.handle(address)
	if err != nil {
		return fromNVML(node.NVLinkState{}, err, handleCall)
	}
	q := &questions{gpu: gpu}
	number := q.field(fieldLinkCount, 0)
	n, ok := number.Get()
	if !ok {
		if n = q.countLinks(); n == 0 {
			return node.UnknownLike[node.NVLinkState](number)
		}
	}
	if n < 0 || n > maxNVLinks {
		return node.Unknown[node.NVLinkState](fmt.Sprintf("NVML counts %d links", n), number.Source())
	}
	s := node.NVLinkState{Links: []node.NVLinkPort{}}
	for link := range n {
		s.Links = append(s.Links, q.link(link))
	}
	return node.Known(s, node.Source{Call: "NVML"})
}

// countLinks counts the links that have a state, for drivers without the field that counts them.
func (q *questions) countLinks() int {
	n := 0
	for n < maxNVLinks && q.linkState(n).IsKnown() {
		n++
	}
	return n
}

// linkState asks the newer of two ways first; from Hopper on it is the one that counts.
func (q *questions) linkState(link int) node.Value[string] {
	if v := q.field(fieldLinkState, link); v.IsKnown() {
		return word(v, []string{node.NVLinkInactive, node.NVLinkActive, node.NVLinkSleep, node.NVLinkTrafficDisabled})
	}
	return word(q.linkNumber("nvmlDeviceGetNvLinkState", link), []string{node.NVLinkInactive, node.NVLinkActive})
}

func (q *questions) linkNumber(call string, link int) node.Value[int] {
	return answerOf(q, call, func() (int, error) { return q.gpu.link(call, link) })
}

// linkVersions are the names of nvmlNvlinkVersion_t.
var linkVersions = []string{"", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0"}

func (q *questions) link(link int) node.NVLinkPort {
	p := node.NVLinkPort{Link: link, State: q.linkState(link)}
	if state, ok := p.State.Get(); !ok || state != node.NVLinkActive {
		why := "the link is not active"
		p.Version, p.SpeedMBps = node.Unknown[string](why, node.Source{}), node.Unknown[int](why, node.Source{})
		p.Remote, p.RemoteAddress = node.Unknown[string](why, node.Source{}), node.Unknown[string](why, node.Source{})
		return p
	}
	version := q.field(fieldLinkVersion, link)
	if n, ok := version.Get(); !ok || n == 0 {
		version = q.linkNumber("nvmlDeviceGetNvLinkVersion", link)
	}
	p.Version = word(version, linkVersions)
	if p.SpeedMBps = q.field(fieldLinkSpeed, link); !p.SpeedMBps.IsKnown() {
		p.SpeedMBps = q.field(fieldLinkSpeedCommon, 0)
	}
	remote := q.linkNumber("nvmlDeviceGetNvLinkRemoteDeviceType", link)
	if n, _ := remote.Get(); n == 0xff {
		p.Remote = node.Known(node.NVLinkToUnknown, remote.Source())
	} else {
		p.Remote = word(remote, []string{node.NVLinkToGPU, node.NVLinkToNPU, node.NVLinkToSwitch})
	}
	p.RemoteAddress = q.linkRemote(link)
	return p
}

func (q *questions) linkRemote(link int) node.Value[string] {
	v := answerOf(q, remoteCall, func() (nvmlPCI, error) { return q.gpu.linkRemote(link) })
	p, ok := v.Get()
	switch {
	case !ok:
		return node.UnknownLike[string](v)
	case p.device > 0x1f || p.bus > 0xff: // all ones; no PCI bus has them
		return node.Unknown[string](node.HiddenRemote, v.Source())
	}
	return node.Known(fmt.Sprintf("%04x:%02x:%02x.0", p.domain, p.bus, p.device), v.Source())
}

// p2p asks NVML about all ordered pairs of the GPUs that the driver knows.
func (d drivers) p2p(string) node.Value[node.P2PState] {
	addresses, err := d.names(nvidiaGPUs)
	if err != nil {
		return unknown[node.P2PState](err, nvidiaGPUs)
	}
	if _, err := d.nvmlThere(); err != nil {
		return node.Unknown[node.P2PState](err.Error(), node.Source{Call: p2pCall})
	}
	handles := make([]questions, len(addresses))
	for i, address := range addresses {
		gpu, err := d.handle(address)
		handles[i] = questions{gpu: gpu, err: err}
	}
	s := node.P2PState{GPUs: addresses, Pairs: []node.P2PPair{}}
	words := []string{
		node.P2POK, node.P2PChipsetNotSupported, node.P2PGPUNotSupported, node.P2PTopologyNotSupported, node.P2PDisabledByRegkey, node.P2PNotSupported, node.P2PUnknown,
	}
	for i, from := range addresses {
		for j, to := range addresses {
			if i == j {
				continue
			}
			q := &questions{gpu: handles[i].gpu, err: handles[i].err}
			if q.err == nil {
				q.err = handles[j].err
			}
			status := func(capability int) node.Value[string] {
				return word(answerOf(q, p2pCall, func() (int, error) { return q.gpu.p2p(handles[j].gpu, capability) }), words)
			}
			s.Pairs = append(s.Pairs, node.P2PPair{From: from, To: to, Read: status(0), Write: status(1), NVLink: status(2), Atomics: status(3)})
		}
	}
	return node.Known(s, node.Source{Call: p2pCall})
}

// gpuFabric asks NVML how a GPU's registration with the NVSwitches stands.
func (d drivers) gpuFabric(address string) node.Value[node.GPUFabricState] {
	gpu, err := d.handle(address)
	if err != nil {
		return fromNVML(node.GPUFabricState{}, err, handleCall)
	}
	f, err := gpu.fabric()
	if err != nil {
		return fromNVML(node.GPUFabricState{}, err, fabricCall)
	}
	source := node.Source{Call: fabricCall}
	names := []string{node.FabricNotSupported, node.FabricNotStarted, node.FabricInProgress, node.FabricCompleted}
	state := word(node.Known(f.state, source), names)
	name, ok := state.Get()
	if !ok {
		return node.UnknownLike[node.GPUFabricState](state)
	}
	u := f.cluster
	s := node.GPUFabricState{
		State: name, Status: node.FabricSuccess, Clique: f.clique,
		ClusterUUID: fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16]),
		Health:      node.Unsupported[node.FabricHealth]("this driver's NVML lacks "+f.lacks, source),
		Summary:     node.Unsupported[string]("this driver's NVML lacks "+f.lacks, source),
	}
	if f.status != nil {
		s.Status = f.status.Error()
	}
	if f.health != nil {
		s.Health = node.Known(node.FabricHealth(*f.health), source)
	}
	if f.summary != nil {
		s.Summary = word(node.Known(*f.summary, source), []string{"not-supported", "healthy", "unhealthy", "limited-capacity"})
	}
	return node.Known(s, source)
}

// confidentialComputing asks NVML about the node as a whole.
func (d drivers) confidentialComputing(string) node.Value[node.ConfidentialComputingState] {
	lib, err := d.nvmlThere()
	if err != nil {
		return node.Unknown[node.ConfidentialComputingState](err.Error(), node.Source{Call: confidentialCall})
	}
	environment, feature, devTools, err := lib.confidential()
	if err != nil {
		return fromNVML(node.ConfidentialComputingState{}, err, confidentialCall)
	}
	source := node.Source{Call: confidentialCall}
	name := word(node.Known(environment, source), []string{"unavailable", "simulation", "production"})
	words, ok := name.Get()
	if !ok {
		return node.UnknownLike[node.ConfidentialComputingState](name)
	}
	mode, err := lib.multiGPU()
	return node.Known(node.ConfidentialComputingState{
		Environment: words, Enabled: feature != 0, DevTools: devTools != 0,
		MultiGPU: word(fromNVML(mode, err, multiGPUCall), []string{"none", "protected-pcie", "nvlink-encryption"}),
	}, source)
}
