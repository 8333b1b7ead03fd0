package live

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"busbar/node"

	"github.com/google/go-cmp/cmp"
)

// The GPUs of the tests: two H200 that NVSwitches connect, in a virtual machine.
const (
	gpuA = "0000:00:06.0"
	gpuB = "0000:00:07.0"
)

const openDriver = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22-I3-B17-02-5)  Tue Sep 23 09:55:41 UTC 2025\n" +
	"GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2) \n"

// gpuTree is a tree with the driver and both GPUs.
func gpuTree(t testing.TB, more ...map[string]string) string {
	files := map[string]string{
		"proc/driver/nvidia/version": openDriver,
		"proc/driver/nvidia/params":  "NvLinkDisable: 0\nRegistryDwords: \"\"\n",
		"dev/nvidiactl":              "",
	}
	for i, address := range []string{gpuA, gpuB} {
		files["sys/bus/pci/devices/"+address+"/driver"] = "-> ../../../../bus/pci/drivers/nvidia"
		files["proc/driver/nvidia/gpus/"+address+"/information"] = fmt.Sprintf("Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-00000000-0000-0000-0000-00000000000%d\nDevice Minor: \t %d\n", i+1, i)
	}
	return tree(t, append([]map[string]string{files}, more...)...)
}

// Errors as NVML words them.
var (
	errNotSupported = nvmlError{"", nvmlNotSupported, "Not Supported"}
	errLost         = nvmlError{"", nvmlGPUIsLost, "GPU is lost"}
)

// fakeNVML answers calls by their names. A call that it has no answer for is one that the library lacks.
type fakeNVML struct {
	answers map[string]any // string or error
	gpus    map[string]*fakeGPU
	conf    [4]int
	confErr error
	started []string
}

func (f *fakeNVML) text(call string) (string, error) { return fakeAnswer[string](f.answers, call) }
func (f *fakeNVML) confidential() (environment, feature, devTools int, err error) {
	return f.conf[0], f.conf[1], f.conf[2], f.confErr
}
func (f *fakeNVML) multiGPU() (int, error) { return f.conf[3], f.confErr }

func (f *fakeNVML) gpu(address string) (nvmlGPU, error) {
	f.started = append(f.started, address)
	g, ok := f.gpus[address]
	if !ok {
		return nil, nvmlError{handleCall, 6, "Not Found"}
	}
	return g, g.handle
}

// fakeGPU is a GPU whose calls, with arguments after the name, are in answers.
type fakeGPU struct {
	address string
	handle  error
	answers map[string]any
}

func fakeAnswer[T any](answers map[string]any, call string) (T, error) {
	var none T
	switch v := answers[call].(type) {
	case T:
		return v, nil
	case error:
		return none, v
	case nil:
		name, _, _ := strings.Cut(call, " ")
		return none, lacksCall(name)
	default:
		panic(fmt.Sprintf("%s is %T", call, v))
	}
}

func (g *fakeGPU) text(call string) (string, error) { return fakeAnswer[string](g.answers, call) }
func (g *fakeGPU) number(call string) (int, error)  { return fakeAnswer[int](g.answers, call) }
func (g *fakeGPU) modes(call string) (now, pending int, err error) {
	m, err := fakeAnswer[[2]int](g.answers, call)
	return m[0], m[1], err
}
func (g *fakeGPU) pci() (nvmlPCI, error) { return fakeAnswer[nvmlPCI](g.answers, "pci") }
func (g *fakeGPU) bar1() (total, used uint64, err error) {
	b, err := fakeAnswer[[2]uint64](g.answers, "bar1")
	return b[0], b[1], err
}
func (g *fakeGPU) field(id, scope int) (int, error) {
	return fakeAnswer[int](g.answers, fmt.Sprintf("%s %d %d", fieldCall, id, scope))
}
func (g *fakeGPU) link(call string, link int) (int, error) {
	return fakeAnswer[int](g.answers, fmt.Sprintf("%s %d", call, link))
}
func (g *fakeGPU) linkRemote(link int) (nvmlPCI, error) {
	return fakeAnswer[nvmlPCI](g.answers, fmt.Sprintf("%s %d", remoteCall, link))
}
func (g *fakeGPU) p2p(other nvmlGPU, capability int) (int, error) {
	return fakeAnswer[int](g.answers, fmt.Sprintf("%s %s %d", p2pCall, other.(*fakeGPU).address, capability))
}
func (g *fakeGPU) fabric() (nvmlFabric, error) { return fakeAnswer[nvmlFabric](g.answers, fabricCall) }

// h200 is a GPU as driver 580 answers for it in a virtual machine. Links is how many of its 18 are active.
func h200(address, peer string, minor, active int) *fakeGPU {
	health, summary := uint32(0), 0
	a := map[string]any{
		"nvmlDeviceGetName": "NVIDIA H200", "nvmlDeviceGetUUID": fmt.Sprintf("GPU-00000000-0000-0000-0000-00000000000%d", minor+1), "nvmlDeviceGetMinorNumber": minor,
		"pci": nvmlPCI{bus: 0, device: 6, id: 0x233510de, subsystem: 0x18bf10de}, "bar1": [2]uint64{262144 << 20, 1 << 20},
		"nvmlDeviceGetMigMode": [2]int{0, 0}, "nvmlDeviceGetEccMode": [2]int{1, 1}, "nvmlDeviceGetVirtualizationMode": 1, "nvmlDeviceGetPersistenceMode": 1,
		"nvmlDeviceGetCurrPcieLinkGeneration": 5, "nvmlDeviceGetMaxPcieLinkGeneration": 5, "nvmlDeviceGetCurrPcieLinkWidth": 16, "nvmlDeviceGetMaxPcieLinkWidth": 16,
		"nvmlDeviceGetComputeMode": 0, "nvmlDeviceGetNumaNodeId": errNotSupported,
		fabricCall:               nvmlFabric{state: 3, health: &health, summary: &summary},
		field(fieldLinkCount, 0): 18,
	}
	for link := range 18 {
		a[field(fieldLinkState, link)] = 0
		if link < active {
			a[field(fieldLinkState, link)], a[field(fieldLinkVersion, link)], a[field(fieldLinkSpeed, link)] = 1, 6, 26562
			a[fmt.Sprint("nvmlDeviceGetNvLinkRemoteDeviceType ", link)] = 2
			a[fmt.Sprint(remoteCall, " ", link)] = nvmlPCI{domain: 0xffffffff, bus: 0xff, device: 0xff}
		}
	}
	for capability := range 4 {
		a[fmt.Sprint(p2pCall, " ", peer, " ", capability)] = 0
	}
	return &fakeGPU{address: address, answers: a}
}

func field(id, scope int) string { return fmt.Sprintf("%s %d %d", fieldCall, id, scope) }

func twoH200() *fakeNVML {
	return &fakeNVML{
		answers: map[string]any{"nvmlSystemGetNVMLVersion": "13.580.159.04", "nvmlSystemGetDriverVersion": "580.159.04"},
		gpus:    map[string]*fakeGPU{gpuA: h200(gpuA, gpuB, 0, 18), gpuB: h200(gpuB, gpuA, 1, 18)},
	}
}

// nvidiaDrivers asks a library that is no real one about a tree.
func nvidiaDrivers(t testing.TB, f *fakeNVML) drivers {
	return drivers{files: files{root: gpuTree(t), running: true}, nvml: func() (nvml, error) { return f, nil }}
}

func TestGPUState(t *testing.T) {
	known(t, nvidiaDrivers(t, twoH200()).gpuState(gpuA), node.GPUState{
		Minor: value(0), UUID: value("GPU-00000000-0000-0000-0000-000000000001"), Product: value("NVIDIA H200"), PCIID: value("10de:2335"), Subsystem: value("10de:18bf"),
		MIG: value(false), MIGPending: value(false), Virtualization: value(node.GPUPassthrough), Persistence: value(true), ECC: value(true), ECCPending: value(true),
		BAR1Bytes: value(uint64(262144 << 20)), BAR1UsedBytes: value(uint64(1 << 20)), PCIeGeneration: value(5), PCIeMaxGeneration: value(5), PCIeWidth: value(16), PCIeMaxWidth: value(16),
		ComputeMode: value(node.ComputeModeDefault), MemoryNUMANode: node.Unsupported[int]("Not Supported", node.Source{}),
	})
}

func value[T any](v T) node.Value[T] { return node.Known(v, node.Source{}) }

// What NVML does not answer has its words, and the driver's files answer what they can.
func TestGPUStateOfErrors(t *testing.T) {
	d := func(change func(f *fakeNVML)) node.GPUState {
		f := twoH200()
		change(f)
		s, ok := nvidiaDrivers(t, f).gpuState(gpuA).Get()
		if !ok {
			t.Fatal("unknown as a whole")
		}
		return s
	}
	t.Run("a divided GPU", func(t *testing.T) {
		s := d(func(f *fakeNVML) {
			f.gpus[gpuA].answers["nvmlDeviceGetMigMode"] = [2]int{0, 1}
			f.gpus[gpuA].answers["nvmlDeviceGetComputeMode"] = 3
			f.gpus[gpuA].answers["nvmlDeviceGetVirtualizationMode"] = 7
		})
		known(t, s.MIG, false)
		known(t, s.MIGPending, true)
		known(t, s.ComputeMode, "exclusive-process")
		unknownAs(t, s.Virtualization, "NVML gives 7, which has no name yet")
	})
	t.Run("an old library", func(t *testing.T) {
		s := d(func(f *fakeNVML) { delete(f.gpus[gpuA].answers, "nvmlDeviceGetNumaNodeId") })
		unknownAs(t, s.MemoryNUMANode, "this driver's NVML lacks nvmlDeviceGetNumaNodeId")
		if s.MemoryNUMANode.IsUnsupported() || s.Fault != "" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("lost", func(t *testing.T) {
		s := d(func(f *fakeNVML) {
			for call := range f.gpus[gpuA].answers {
				f.gpus[gpuA].answers[call] = errLost
			}
		})
		if s.Fault != "GPU is lost" {
			t.Errorf("fault %q", s.Fault)
		}
		unknownAs(t, s.ECC, "GPU is lost")
		known(t, s.Product, "NVIDIA H200") // of the driver's file
		known(t, s.UUID, "GPU-00000000-0000-0000-0000-000000000001")
		known(t, s.Minor, 0)
	})
	t.Run("no handle", func(t *testing.T) {
		s := d(func(f *fakeNVML) {
			f.gpus[gpuA].handle = nvmlError{handleCall, nvmlResetRequired, "GPU requires reset"}
		})
		if s.Fault != "GPU requires reset" {
			t.Errorf("fault %q", s.Fault)
		}
		unknownAs(t, s.BAR1Bytes, "GPU requires reset")
	})
	t.Run("no library", func(t *testing.T) {
		drivers := drivers{files: files{root: gpuTree(t), running: true}, nvml: func() (nvml, error) { return nil, refusal("libnvidia-ml.so.1 is nowhere") }}
		s, _ := drivers.gpuState(gpuB).Get()
		known(t, s.Product, "NVIDIA H200")
		known(t, s.Minor, 1)
		unknownAs(t, s.ECC, "libnvidia-ml.so.1 is nowhere")
		unknownAs(t, drivers.nvLinks(gpuB), "libnvidia-ml.so.1 is nowhere")
		unknownAs(t, drivers.p2p(""), "libnvidia-ml.so.1 is nowhere")
		unknownAs(t, drivers.gpuFabric(gpuB), "libnvidia-ml.so.1 is nowhere")
		unknownAs(t, drivers.confidentialComputing(""), "libnvidia-ml.so.1 is nowhere")
		unknownAs(t, drivers.nvmlLibrary(""), "libnvidia-ml.so.1 is nowhere")
	})
}

// The library is not touched while there is no device node: it would load the driver and make nodes.
func TestNVMLWithoutControlNode(t *testing.T) {
	root := gpuTree(t)
	must(t, os.Remove(root+"/dev/nvidiactl"))
	d := drivers{files: files{root: root, running: true}, nvml: func() (nvml, error) {
		t.Error("the library was loaded")
		return nil, nil
	}}
	unknownAs(t, d.nvLinks(gpuA), "there is no /dev/nvidiactl")
	s, _ := d.gpuState(gpuA).Get()
	known(t, s.Product, "NVIDIA H200")
}

// NVML of another version than the driver's says so, and still which one it is.
func TestNVMLLibrary(t *testing.T) {
	f := twoH200()
	known(t, nvidiaDrivers(t, f).nvmlLibrary(""), node.NVMLState{Version: "13.580.159.04", Driver: value("580.159.04")})
	f.answers["nvmlSystemGetDriverVersion"] = nvmlError{"nvmlInit_v2", 18, "Driver/library version mismatch"}
	s, _ := nvidiaDrivers(t, f).nvmlLibrary("").Get()
	unknownAs(t, s.Driver, "Driver/library version mismatch")
	if s.DriverVersion() != "580.159.04" {
		t.Errorf("%+v", s)
	}
}

func TestNVLinks(t *testing.T) {
	f := twoH200()
	f.gpus[gpuA] = h200(gpuA, gpuB, 0, 17)
	s, ok := nvidiaDrivers(t, f).nvLinks(gpuA).Get()
	if !ok || len(s.Links) != 18 {
		t.Fatalf("%+v", s)
	}
	if diff := cmp.Diff(node.NVLinkPort{
		Link: 16, State: value(node.NVLinkActive), Version: value("4.0"), SpeedMBps: value(26562), Remote: value(node.NVLinkToSwitch), RemoteAddress: node.Unknown[string](node.HiddenRemote, node.Source{}),
	}, s.Links[16], compareValues); diff != "" {
		t.Error(diff)
	}
	known(t, s.Links[17].State, node.NVLinkInactive)
	unknownAs(t, s.Links[17].SpeedMBps, "the link is not active")
	known(t, s.Active(), 17)
}

// Before Hopper there are no fields by link, and before the field that counts them none at all.
func TestNVLinksOfOldDrivers(t *testing.T) {
	v100 := &fakeGPU{answers: map[string]any{field(fieldLinkSpeedCommon, 0): 25781}}
	for link := range 6 {
		v100.answers[fmt.Sprint("nvmlDeviceGetNvLinkState ", link)] = 1
		v100.answers[fmt.Sprint("nvmlDeviceGetNvLinkVersion ", link)] = 2
		v100.answers[fmt.Sprint("nvmlDeviceGetNvLinkRemoteDeviceType ", link)] = 0
		v100.answers[fmt.Sprint(remoteCall, " ", link)] = nvmlPCI{bus: 0x8a, device: 0}
	}
	v100.answers["nvmlDeviceGetNvLinkState 3"] = 0
	v100.answers["nvmlDeviceGetNvLinkState 6"] = nvmlError{"", nvmlInvalidArgument, "Invalid Argument"}
	d := nvidiaDrivers(t, &fakeNVML{gpus: map[string]*fakeGPU{gpuA: v100}})
	s, _ := d.nvLinks(gpuA).Get()
	known(t, s.Active(), 5)
	if diff := cmp.Diff(node.NVLinkPort{
		Link: 5, State: value(node.NVLinkActive), Version: value("2.0"), SpeedMBps: value(25781), Remote: value(node.NVLinkToGPU), RemoteAddress: value("0000:8a:00.0"),
	}, s.Links[5], compareValues); diff != "" {
		t.Error(diff)
	}
	l40s := &fakeGPU{answers: map[string]any{field(fieldLinkCount, 0): errNotSupported}}
	v := nvidiaDrivers(t, &fakeNVML{gpus: map[string]*fakeGPU{gpuA: l40s}}).nvLinks(gpuA)
	if unknownAs(t, v, "Not Supported"); !v.IsUnsupported() {
		t.Error("a card without NVLink is not unsupported")
	}
	l40s.answers[field(fieldLinkCount, 0)] = 99
	unknownAs(t, nvidiaDrivers(t, &fakeNVML{gpus: map[string]*fakeGPU{gpuA: l40s}}).nvLinks(gpuA), "NVML counts 99 links")
	l40s.handle = errLost
	unknownAs(t, nvidiaDrivers(t, &fakeNVML{gpus: map[string]*fakeGPU{gpuA: l40s}}).nvLinks(gpuA), "GPU is lost")
}

func TestP2P(t *testing.T) {
	f := twoH200()
	for capability, status := range []int{5, 1, 4, 9} {
		f.gpus[gpuB].answers[fmt.Sprint(p2pCall, " ", gpuA, " ", capability)] = status
	}
	known(t, nvidiaDrivers(t, f).p2p(""), node.P2PState{GPUs: []string{gpuA, gpuB}, Pairs: []node.P2PPair{
		{From: gpuA, To: gpuB, Read: value("OK"), Write: value("OK"), NVLink: value("OK"), Atomics: value("OK")},
		{From: gpuB, To: gpuA, Read: value("NS"), Write: value("CNS"), NVLink: value("DR"), Atomics: node.Unknown[string]("NVML gives 9, which has no name yet", node.Source{})},
	}})
	f.gpus[gpuB].handle = errLost
	s, _ := nvidiaDrivers(t, f).p2p("").Get()
	for _, p := range s.Pairs {
		unknownAs(t, p.Read, "GPU is lost")
	}
}

func TestGPUFabric(t *testing.T) {
	mask, summary := uint32(0x1aa), 2
	for name, test := range map[string]struct {
		answer any
		want   node.GPUFabricState
		why    string
	}{
		"on its own board": {nvmlFabric{state: 3, health: new(uint32), summary: new(int)}, node.GPUFabricState{
			State: node.FabricCompleted, Status: node.FabricSuccess, ClusterUUID: node.NoCluster, Health: value(node.FabricHealth(0)), Summary: value("not-supported"),
		}, ""},
		"of a cluster, without resources": {nvmlFabric{state: 3, status: nvmlError{fabricCall, 23, "Insufficient Resources"}, clique: 4026, cluster: [16]byte{0xde, 0xad, 15: 4}, health: &mask, summary: &summary}, node.GPUFabricState{
			State: node.FabricCompleted, Status: "Insufficient Resources", Clique: 4026, ClusterUUID: "dead0000-0000-0000-0000-000000000004", Health: value(node.FabricHealth(0x1aa)), Summary: value("unhealthy"),
		}, ""},
		"an old driver": {nvmlFabric{state: 2, lacks: fabricCall}, node.GPUFabricState{
			State: node.FabricInProgress, Status: node.FabricSuccess, ClusterUUID: node.NoCluster,
			Health: node.Unsupported[node.FabricHealth]("this driver's NVML lacks "+fabricCall, node.Source{}), Summary: node.Unsupported[string]("this driver's NVML lacks "+fabricCall, node.Source{}),
		}, ""},
		"a state to come": {nvmlFabric{state: 8}, node.GPUFabricState{}, "NVML gives 8, which has no name yet"},
		"lost":            {errLost, node.GPUFabricState{}, "GPU is lost"},
		"not supported":   {errNotSupported, node.GPUFabricState{}, "Not Supported"},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoH200()
			f.gpus[gpuA].answers[fabricCall] = test.answer
			v := nvidiaDrivers(t, f).gpuFabric(gpuA)
			if test.why != "" {
				unknownAs(t, v, test.why)
				return
			}
			known(t, v, test.want)
		})
	}
	unknownAs(t, nvidiaDrivers(t, twoH200()).gpuFabric("0000:99:00.0"), "Not Found")
}

func TestConfidentialComputing(t *testing.T) {
	f := twoH200()
	f.conf = [4]int{2, 1, 0, 1}
	known(t, nvidiaDrivers(t, f).confidentialComputing(""), node.ConfidentialComputingState{Environment: "production", Enabled: true, MultiGPU: value("protected-pcie")})
	f.confErr = errNotSupported
	if v := nvidiaDrivers(t, f).confidentialComputing(""); !v.IsUnsupported() {
		t.Errorf("%+v", v)
	}
}

func TestNVIDIADriver(t *testing.T) {
	known(t, ask(t, gpuTree(t), node.NVIDIADriver, ""), node.NVIDIADriverState{
		Loaded: true, Version: "580.159.04", Open: true, Parameters: value(map[string]string{"NvLinkDisable": "0", "RegistryDwords": ""}),
	})
	known(t, ask(t, tree(t, map[string]string{"proc/": ""}), node.NVIDIADriver, ""), node.NVIDIADriverState{})
	unknownAs(t, ask(t, tree(t, map[string]string{"proc/driver/nvidia/version": "what\n"}), node.NVIDIADriver, ""), `"what\n" is no version`)
	unknownAs(t, get(t, New(Options{Root: gpuTree(t)}), node.NVIDIADriver, ""), "not read: --root")
}

// Nobody is asked about a GPU that the driver does not have.
func TestGPUWithout(t *testing.T) {
	root := gpuTree(t, map[string]string{
		"sys/bus/pci/devices/0000:01:00.0/driver": "-> ../../../../bus/pci/drivers/vfio-pci", "sys/bus/pci/devices/0000:02:00.0/vendor": "0x10de\n",
	})
	for address, why := range map[string]string{
		"0000:01:00.0": "driver vfio-pci is bound to the GPU, not nvidia", "0000:02:00.0": "no driver is bound to the GPU", "0000:03:00.0": "there is no PCI function", "GPU0": "is no PCI address",
	} {
		unknownAs(t, ask(t, root, node.NVLinks, address), why)
	}
	must(t, os.RemoveAll(root+"/proc/driver"))
	unknownAs(t, ask(t, root, node.GPUInfo, gpuA), "the NVIDIA driver is not loaded")
	unknownAs(t, ask(t, root, node.P2P, ""), "the NVIDIA driver is not loaded")
}

// A captured tree has the driver's files; this machine's library is not asked about it.
func TestNVMLOfTree(t *testing.T) {
	s, _ := ask(t, gpuTree(t), node.GPUInfo, gpuA).Get()
	known(t, s.Product, "NVIDIA H200")
	unknownAs(t, s.ECC, "a directory tree does not answer for its drivers")
}

// NVML hangs once: what else it would have been asked is not, other drivers are.
func TestHangingNVML(t *testing.T) {
	r := New(Options{Root: gpuTree(t, map[string]string{"sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n"}), Running: true})
	starts := 0
	r.child = func() *exec.Cmd {
		if starts++; starts == 1 {
			return exec.Command("/proc/self/exe", brokenChild, "stopped")
		}
		return self()
	}
	r.deadline = func(string) time.Duration { return 2 * time.Second }
	queries := []node.Query{
		node.GPUInfo.Query(gpuA), node.GPUInfo.Query(gpuB), node.NVLinks.Query(gpuA), node.P2P.Query(""), node.GPUFabric.Query(gpuA),
		node.ConfidentialComputing.Query(""), node.NVML.Query(""), node.RDMAPort.Query("mlx5_0/1"),
	}
	facts := r.Read(context.Background(), node.Inventory{}, queries)
	unknownAs(t, node.GPUInfo.Get(facts, gpuA), "no answer within 2s from NVML about GPU "+gpuA)
	for _, q := range queries[1:7] {
		raw, err := json.Marshal(facts.Raw(q))
		if must(t, err); !strings.Contains(string(raw), "not asked: no answer within 2s from NVML about GPU "+gpuA) {
			t.Errorf("%s: %s", q, raw)
		}
	}
	if p, _ := node.RDMAPort.Get(facts, "mlx5_0/1").Get(); p.LinkLayer != "InfiniBand" || starts != 2 {
		t.Errorf("%+v after %d starts", p, starts)
	}
}

// Each GPU has a handle, and each link is asked about, by its own address and number.
func TestHandles(t *testing.T) {
	f := twoH200()
	nvidiaDrivers(t, f).p2p("")
	if !slices.Equal(f.started, []string{gpuA, gpuB}) {
		t.Errorf("%q", f.started)
	}
}
