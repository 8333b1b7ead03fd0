package checks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/checks"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// card is a GPU as readers answer it.
type card struct {
	function node.PCIFunction
	state    node.Value[node.GPUState]
	links    node.Value[node.NVLinkState]
	fabric   node.Value[node.GPUFabricState]
}

// box is a node with GPUs as readers answer it.
type box struct {
	cards []*card
	// others are the functions that are no GPUs.
	others         []node.PCIFunction
	kernel         string
	virtualization string
	uptime         node.Value[time.Duration]
	driver         node.Value[node.NVIDIADriverState]
	library        node.Value[node.NVMLState]
	manager        node.Value[node.FabricManagerState]
	service        node.Value[node.UnitState]
	imexPackage    node.Value[node.FabricManagerState]
	imex           node.Value[node.UnitState]
	p2p            node.Value[node.P2PState]
	confidential   node.Value[node.ConfidentialComputingState]
	// modules that are loaded, whether nvidia_peermem is registered, and whether nvlsm is installed.
	modules       map[string]bool
	registered    bool
	subnetManager bool
}

// gpuAddress is that of GPU number i, from 0.
func gpuAddress(i int) string { return fmt.Sprintf("0000:%xb:00.0", i+1) }

// The version of the driver that boxes have.
const driverVersion = "580.95.05"

// newBox has n GPUs of a PCI device id on bare metal, with the open driver, up for a day. The GPUs have no NVLinks and no fabric, and
// reach each other over PCIe; no fabric manager is installed, nvidia_peermem is not loaded.
func newBox(device string, n int, edit ...func(*box)) node.Facts {
	b := &box{
		kernel: "6.8.0-45-generic", virtualization: "none", uptime: known(24 * time.Hour),
		driver:       known(node.NVIDIADriverState{Loaded: true, Version: driverVersion, Open: true, Parameters: known(map[string]string{"NvLinkDisable": "0", "RegistryDwords": ""})}),
		library:      known(node.NVMLState{Version: "13." + driverVersion, Driver: known(driverVersion)}),
		manager:      known(node.FabricManagerState{}),
		service:      known(node.UnitState{Load: "not-found", Active: known("inactive")}),
		imexPackage:  known(node.FabricManagerState{}),
		imex:         known(node.UnitState{Load: "not-found", Active: known("inactive")}),
		confidential: known(node.ConfidentialComputingState{Environment: "unavailable"}),
		modules:      map[string]bool{},
	}
	for i := range n {
		b.cards = append(b.cards, &card{
			function: node.PCIFunction{Address: gpuAddress(i), Vendor: "10de", Device: device, Class: "030200", Driver: "nvidia"},
			state: known(node.GPUState{
				Product: known("NVIDIA " + device), MIG: known(false), MIGPending: known(false), ECC: known(true), ECCPending: known(true),
				BAR1Bytes: known(uint64(128 << 30)), ComputeMode: known(node.ComputeModeDefault), Persistence: known(true),
			}),
			links: known(node.NVLinkState{}), fabric: known(node.GPUFabricState{State: node.FabricNotSupported}),
		})
	}
	b.p2p = known(b.matrix(func(*node.P2PPair) {}))
	for _, e := range edit {
		e(b)
	}
	return b.facts()
}

// matrix has all pairs, which reach each other over PCIe, each of them edited.
func (b *box) matrix(edit func(*node.P2PPair)) node.P2PState {
	var s node.P2PState
	for _, from := range b.cards {
		s.GPUs = append(s.GPUs, from.function.Address)
		for _, to := range b.cards {
			if from == to {
				continue
			}
			p := node.P2PPair{From: from.function.Address, To: to.function.Address, Read: known(node.P2POK), Write: known(node.P2POK), NVLink: known(node.P2PNotSupported), Atomics: known(node.P2PNotSupported)}
			edit(&p)
			s.Pairs = append(s.Pairs, p)
		}
	}
	return s
}

func (b *box) facts() node.Facts {
	answers := []node.Answer{
		node.NVIDIADriver.Answer("", b.driver), node.NVML.Answer("", b.library), node.FabricManager.Answer("", b.manager), node.P2P.Answer("", b.p2p),
		node.ConfidentialComputing.Answer("", b.confidential), node.Unit.Answer("nvidia-fabricmanager.service", b.service),
		node.Path.Answer("/sys/kernel/mm/memory_peers/nv_mem/version", known(node.PathState{Exists: b.registered, Type: "file"})),
		node.IMEX.Answer("", b.imexPackage), node.Unit.Answer("nvidia-imex.service", b.imex),
		node.Path.Answer("/opt/nvidia/nvlsm/sbin/nvlsm", known(node.PathState{Exists: b.subnetManager, Type: "file", Mode: "0755"})),
	}
	for _, name := range []string{"nvidia_peermem", "ib_umad"} {
		answers = append(answers, node.Module.Answer(name, known(node.ModuleState{Loaded: b.modules[name]})))
	}
	functions := slices.Clone(b.others)
	for _, c := range b.cards {
		functions = append(functions, c.function)
		answers = append(answers, node.GPUInfo.Answer(c.function.Address, c.state), node.NVLinks.Answer(c.function.Address, c.links), node.GPUFabric.Answer(c.function.Address, c.fabric))
	}
	f := plantest.Node(answers...)
	inv := f.Inventory
	inv.Kernel, inv.PCI, inv.Virtualization, inv.Uptime = known(b.kernel), known(functions), known(b.virtualization), b.uptime
	return f.WithInventory(inv)
}

// guest makes it a virtual machine.
func guest(b *box) { b.virtualization = "kvm" }

// switches puts NVSwitches on the PCI bus, and the fabric manager that routes them.
func switches(b *box) {
	b.others = append(b.others, node.PCIFunction{Address: "0000:07:00.0", Vendor: "10de", Device: "22a3", Class: "068000"})
	manager(driverVersion, "active")(b)
}

// manager installs the fabric manager.
func manager(version, active string) func(*box) {
	return func(b *box) {
		b.manager = known(node.FabricManagerState{Installed: true, Version: known(version)})
		b.service = known(node.UnitState{Load: "loaded", File: "enabled", Active: known(active)})
	}
}

// fifth has what NVSwitches of the fifth generation need.
func fifth(b *box) {
	b.modules["ib_umad"], b.subnetManager = true, true
	manager(driverVersion, "active")(b)
}

// imex installs IMEX.
func imex(version, active string) func(*box) {
	return func(b *box) {
		b.imexPackage = known(node.FabricManagerState{Installed: true, Version: known(version)})
		b.imex = known(node.UnitState{Load: "loaded", File: "enabled", Active: known(active)})
	}
}

// masked masks IMEX.
func masked(b *box) {
	s, _ := b.imex.Get()
	s.Load, s.File = "masked", "masked"
	b.imex = known(s)
}

// nvlinks are links of a GPU, the inactive ones by number, the others of a speed in MB/s.
func nvlinks(n, speed int, inactive ...int) node.Value[node.NVLinkState] {
	var s node.NVLinkState
	for i := range n {
		l := node.NVLinkPort{Link: i, State: known(node.NVLinkActive), SpeedMBps: known(speed), Remote: known(node.NVLinkToSwitch)}
		if slices.Contains(inactive, i) {
			l = node.NVLinkPort{Link: i, State: known(node.NVLinkInactive), SpeedMBps: node.Unknown[int]("the link is not active", node.Source{})}
		}
		s.Links = append(s.Links, l)
	}
	return known(s)
}

// linked gives all GPUs NVLinks, over which they reach each other.
func linked(n, speed int, inactive ...int) func(*box) {
	return func(b *box) {
		for _, c := range b.cards {
			c.links = nvlinks(n, speed, inactive...)
		}
		b.p2p = known(b.matrix(func(p *node.P2PPair) { p.NVLink, p.Atomics = known(node.P2POK), known(node.P2POK) }))
	}
}

// fabric gives all GPUs a state of their fabric.
func fabric(s node.GPUFabricState) func(*box) {
	return func(b *box) {
		for _, c := range b.cards {
			c.fabric = known(s)
		}
	}
}

// completed is the fabric of a board.
var completed = node.GPUFabricState{State: node.FabricCompleted, Status: node.FabricSuccess, ClusterUUID: node.NoCluster, Health: known(node.FabricHealth(0x1aa)), Summary: known("healthy")}

// inRack is the fabric of a tray whose NVSwitches are in others.
var inRack = node.GPUFabricState{State: node.FabricCompleted, Status: node.FabricSuccess, Clique: 4026, ClusterUUID: "00000000-0000-0000-0000-000000000004", Health: known(node.FabricHealth(0xaa)), Summary: known("healthy")}

// hgx is an HGX H100 board with n GPUs, all well.
func hgx(n int, edit ...func(*box)) node.Facts {
	return newBox("2330", n, append([]func(*box){switches, linked(18, 26562), fabric(completed)}, edit...)...)
}

// peers edits what the driver says of pairs.
func peers(edit func(*node.P2PPair)) func(*box) {
	return func(b *box) {
		s, _ := b.p2p.Get()
		s.Pairs = slices.Clone(s.Pairs)
		for i := range s.Pairs {
			edit(&s.Pairs[i])
		}
		b.p2p = known(s)
	}
}

// change edits what the driver says of GPU number i.
func change(i int, edit func(*node.GPUState)) func(*box) {
	return func(b *box) {
		s, _ := b.cards[i].state.Get()
		edit(&s)
		b.cards[i].state = known(s)
	}
}

// drive edits the driver.
func drive(edit func(*node.NVIDIADriverState)) func(*box) {
	return func(b *box) {
		s, _ := b.driver.Get()
		edit(&s)
		b.driver = known(s)
	}
}

// gpuChecks are all checks of GPUs as stock profiles ask them.
const gpuChecks = `
	check "driver" "all" {}
	check "fabric" "all" {}
	check "gpudirect_rdma" "all" {}
	check "gpus" "all" {
		uniform = true
		mig     = false
	}
	check "nvlink" "all" {}
	check "p2p" "all" {}
`

// left is what a plan says that is not ok, and its sentences.
func left(p plan.Plan) (summary []string, sentences string) {
	for line := range strings.Lines(plantest.Summarize(p)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "ok ") {
			summary = append(summary, line)
		}
	}
	var b strings.Builder
	for _, f := range p.Findings {
		fmt.Fprintf(&b, "%s: %s\n%s\n", f.Status, f.Summary, f.Fix)
	}
	return summary, b.String()
}

// TestHealthyGPUs: nothing is wrong with machines of many shapes that are as they should be, and nothing is unknown.
func TestHealthyGPUs(t *testing.T) {
	const noFabric, onePeer, oneLink = "skipped fabric.state ", "skipped p2p.access gpus ()", "skipped nvlink.links gpus ()"
	unfabric := func(n int) []string {
		var lines []string
		for i := range n {
			lines = append(lines, noFabric+gpuAddress(i)+" (/sys)")
		}
		return lines
	}
	for name, test := range map[string]struct {
		facts   node.Facts
		skipped []string
		says    string
	}{
		"HGX H100": {facts: hgx(8), says: "ok: the fabric manager runs"},
		"HGX A100, whose GPUs do not register": {
			facts:   newBox("20b2", 8, switches, linked(12, 25000)),
			skipped: unfabric(8), says: "ok: GPU 0000:1b:00.0 (A100-SXM4-80GB) has 12 NVLinks active",
		},
		"HGX B200, whose NVSwitches are no PCI functions": {
			facts: newBox("2901", 8, linked(18, 53125), fabric(completed), fifth),
			says:  "ok: ib_umad, by which the subnet manager reaches the NVSwitches, is loaded",
		},
		"two B200 in a virtual machine": {
			facts: newBox("2901", 2, guest, linked(18, 50000), fabric(completed)),
			says:  "routed by its host, or by a virtual machine for that",
		},
		"GB200 tray": {
			facts: newBox("2941", 4, linked(18, 50000), fabric(inRack), imex(driverVersion, "active")),
			says:  "ok: IMEX runs",
		},
		"GB200 tray whose jobs bring an IMEX of their own": {
			facts:   newBox("2941", 4, linked(18, 50000), fabric(inRack), imex(driverVersion, "inactive"), masked),
			skipped: []string{"skipped fabric.imex nvidia-imex.service (/sys)"}, says: "ok: the fabric manager is not needed",
		},
		"one GPU of an HGX board in a virtual machine": {
			facts:   newBox("2330", 1, guest, linked(18, 26562, upTo(18)...)),
			skipped: slices.Concat(unfabric(1), []string{oneLink, onePeer}), says: "there is one GPU, which has no peer",
		},
		"GH200": {
			facts:   newBox("2342", 1, change(0, func(s *node.GPUState) { s.Product = known("NVIDIA GH200 480GB") })),
			skipped: slices.Concat(unfabric(1), []string{oneLink, onePeer}),
		},
		"two GH200 without a rack": {
			facts:   newBox("2342", 2, linked(18, 26562, upTo(18)...)),
			skipped: unfabric(2), says: "ok: GPU 0000:1b:00.0 (GH200) has no NVLink active",
		},
		"H100 NVL with bridges": {
			facts:   newBox("2321", 2, linked(18, 26562, 4, 5, 10, 11, 16, 17)),
			skipped: unfabric(2), says: "ok: GPU 0000:1b:00.0 (H100 NVL) has 12 NVLinks active",
		},
		"H100 NVL without bridges": {
			facts:   newBox("2321", 2, linked(18, 26562, upTo(18)...)),
			skipped: unfabric(2), says: "ok: GPU 0000:1b:00.0 (H100 NVL) has no NVLink active",
		},
		"PCIe cards": {
			facts: newBox("26b9", 4, func(b *box) {
				for _, c := range b.cards {
					c.links = node.Unsupported[node.NVLinkState]("Not Supported", node.Source{Path: "/sys"})
					c.fabric = node.Unsupported[node.GPUFabricState]("Not Supported", node.Source{Path: "/sys"})
				}
			}, every(func(s *node.GPUState) { s.MIG, s.MIGPending = lacking[bool](), lacking[bool]() })),
			skipped: unfabric(4), says: "ok: GPU 0000:1b:00.0 (L40S) has no MIG",
		},
		"cube mesh of V100": {
			facts:   newBox("1db5", 8, linked(6, 25781), drive(func(s *node.NVIDIADriverState) { s.Open = false }), func(b *box) { b.modules["nvidia_peermem"], b.registered = true, true }),
			skipped: unfabric(8), says: "ok: NICs can get at GPU memory: nvidia_peermem is loaded and registered",
		},
		"three cards, two of them with a bridge": {
			facts:   newBox("2230", 3, linked(4, 14062), func(b *box) { b.cards[2].links = nvlinks(4, 0, 0, 1, 2, 3) }),
			skipped: unfabric(3),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plantest.Planner(checks.All()).Plan(plantest.Blocks(t, checks.All(), gpuChecks), test.facts)
			summary, sentences := left(p)
			if diff := cmp.Diff(append([]string(nil), test.skipped...), summary); diff != "" || p.ExitCode() != plan.ExitOK {
				t.Errorf("exit %d, and what is not ok (-want +got):\n%s\n%s", p.ExitCode(), diff, sentences)
			}
			if !strings.Contains(sentences, test.says) {
				t.Errorf("nothing says %q:\n%s", test.says, sentences)
			}
		})
	}
}

// upTo are the numbers below n.
func upTo(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	return all
}

// every edits what the driver says of all GPUs.
func every(edit func(*node.GPUState)) func(*box) {
	return func(b *box) {
		for i := range b.cards {
			change(i, edit)(b)
		}
	}
}

// TestWithoutAnswers: what all checks of GPUs say, and with which exit code, where there is no GPU, no driver, or no
// answer. Nothing of that passes for ok.
func TestWithoutAnswers(t *testing.T) {
	silent := func(reason string) func(*box) {
		return func(b *box) {
			b.library = node.Unknown[node.NVMLState](reason, node.Source{Path: "/sys"})
			b.p2p = node.Unknown[node.P2PState](reason, node.Source{Path: "/sys"})
			b.confidential = node.Unknown[node.ConfidentialComputingState](reason, node.Source{Path: "/sys"})
			for _, c := range b.cards {
				c.state = node.Unknown[node.GPUState](reason, node.Source{Path: "/sys"})
				c.links = node.Unknown[node.NVLinkState](reason, node.Source{Path: "/sys"})
				c.fabric = node.Unknown[node.GPUFabricState](reason, node.Source{Path: "/sys"})
			}
		}
	}
	unanswered := []string{
		"unknown driver.library library (/sys)",
		"unknown fabric.state 0000:1b:00.0 (/sys)", "unknown fabric.state 0000:2b:00.0 (/sys)",
		"unknown gpus.mig 0000:1b:00.0 (/sys)", "unknown gpus.mig 0000:2b:00.0 (/sys)", "unknown gpus.uniform gpus ()",
		"unknown nvlink.links 0000:1b:00.0 (/sys)", "unknown nvlink.links 0000:2b:00.0 (/sys)", "unknown p2p.access gpus (/sys)",
	}
	rooted := hgx(2)
	inv := rooted.Inventory
	inv.RootDirectory = true
	skipped := []string{
		"skipped driver.loaded gpus ()", "skipped fabric.state gpus ()", "skipped gpudirect_rdma.path gpus ()",
		"skipped gpus.count gpus ()", "skipped nvlink.links gpus ()", "skipped p2p.access gpus ()",
	}
	none := slices.Clone(skipped)
	none[3] = "drift gpus.count gpus (/sys)"
	unread := []string{
		"unknown driver.loaded gpus ()", "unknown fabric.state gpus ()", "unknown gpudirect_rdma.path gpus ()",
		"unknown gpus.count  ()", "unknown nvlink.links gpus ()", "unknown p2p.access gpus ()",
	}
	for name, test := range map[string]struct {
		facts node.Facts
		want  []string
		exit  int
		says  []string
	}{
		"no GPU":                {newBox("2330", 0), none, plan.ExitDrift, []string{"no GPU on the PCI bus, wanted is at least 1"}},
		"nothing known":         {plantest.Node(), unread, plan.ExitUnknown, []string{"not recorded"}},
		"a directory tree":      {rooted.WithInventory(inv), skipped, plan.ExitOK, []string{"hardware is not judged (--root)"}},
		"the driver hangs":      {hgx(2, silent("no answer within 10s from NVML about GPU 0000:1b:00.0")), unanswered, plan.ExitUnknown, []string{"no answer within 10s from NVML about GPU 0000:1b:00.0"}},
		"no device nodes":       {hgx(2, silent("there is no /dev/nvidiactl: nobody has made the driver's device nodes (nvidia-modprobe)")), unanswered, plan.ExitUnknown, []string{"how many NVLinks are active of GPU 0000:1b:00.0 is unknown: there is no /dev/nvidiactl: nobody has made the driver's device nodes"}},
		"no management library": {hgx(2, silent("libnvidia-ml.so.1 cannot be loaded")), unanswered, plan.ExitUnknown, []string{"libnvidia-ml.so.1 cannot be loaded"}},
		"the driver is not loaded": {
			hgx(2, silent("the NVIDIA driver is not loaded"), func(b *box) {
				b.driver = known(node.NVIDIADriverState{})
				for _, c := range b.cards {
					c.function.Driver = ""
				}
			}),
			append([]string{
				"drift driver.bound 0000:1b:00.0 (/sys)", "drift driver.bound 0000:2b:00.0 (/sys)", "drift driver.loaded driver (/sys)",
				"unknown fabric.state 0000:1b:00.0 (/sys)", "unknown fabric.state 0000:2b:00.0 (/sys)", "drift gpudirect_rdma.path GPU memory (/sys)",
			}, unanswered[3:]...),
			plan.ExitDrift, []string{"the NVIDIA driver is not loaded\ninstall it for the running kernel and load it", "GPU 0000:1b:00.0 (H100 80GB HBM3) has no driver\n"},
		},
		"nouveau was first": {
			newBox("26b9", 1, silent("driver nouveau is bound to the GPU, not nvidia"), func(b *box) {
				b.driver = known(node.NVIDIADriverState{})
				b.cards[0].function.Driver = "nouveau"
			}),
			[]string{
				"drift driver.bound 0000:1b:00.0 (/sys)", "drift driver.loaded driver (/sys)", "skipped fabric.state 0000:1b:00.0 (/sys)", "drift gpudirect_rdma.path GPU memory (/sys)",
				"unknown gpus.mig 0000:1b:00.0 (/sys)", "unknown gpus.uniform gpus ()", "skipped nvlink.links gpus ()", "skipped p2p.access gpus ()",
			},
			plan.ExitDrift, []string{"has driver nouveau\nkeep nouveau away (blacklist nouveau in /etc/modprobe.d, and in the initramfs), and reboot"},
		},
		"the driver's state cannot be read": {
			hgx(2, func(b *box) { b.driver = denied[node.NVIDIADriverState]() }),
			[]string{"unknown driver.loaded driver (/sys)", "unknown gpudirect_rdma.path GPU memory ()"}, plan.ExitUnknown, []string{"whether the NVIDIA driver is loaded is unknown: permission denied"},
		},
		"a GPU was handed to a guest": {
			hgx(2, func(b *box) { b.cards[1].function.Driver = "vfio-pci" }),
			[]string{"skipped driver.bound 0000:2b:00.0 (/sys)"}, plan.ExitOK, []string{"was handed to a guest or a program (driver vfio-pci)"},
		},
		"an old driver, whose library lacks calls": {
			hgx(2, func(b *box) {
				const lacks = "this driver's NVML lacks "
				for _, c := range b.cards {
					c.fabric = node.Unknown[node.GPUFabricState](lacks+"nvmlDeviceGetGpuFabricInfo", node.Source{Path: "/sys"})
				}
			}, peers(func(p *node.P2PPair) {
				p.Read = node.Unknown[string]("this driver's NVML lacks nvmlDeviceGetP2PStatus", node.Source{})
				p.Write = p.Read
			})),
			[]string{
				"unknown fabric.state 0000:1b:00.0 (/sys)", "unknown fabric.state 0000:2b:00.0 (/sys)", "unknown p2p.read read, unknown (/sys)", "unknown p2p.write write, unknown (/sys)",
			},
			plan.ExitUnknown, []string{"the fabric state of GPU 0000:1b:00.0 is unknown: this driver's NVML lacks nvmlDeviceGetGpuFabricInfo", "read access is unknown of 0000:1b:00.0 and 0000:2b:00.0: this driver's NVML lacks nvmlDeviceGetP2PStatus"},
		},
		"an old driver of cards that have no fabric": {
			newBox("20b5", 2, func(b *box) {
				for _, c := range b.cards {
					c.fabric = node.Unknown[node.GPUFabricState]("this driver's NVML lacks nvmlDeviceGetGpuFabricInfo", node.Source{Path: "/sys"})
				}
			}),
			[]string{"skipped fabric.state 0000:1b:00.0 (/sys)", "skipped fabric.state 0000:2b:00.0 (/sys)"}, plan.ExitOK, []string{"has no fabric to register with"},
		},
		"a GPU is lost": {
			hgx(2, func(b *box) {
				const lost = "GPU is lost"
				b.cards[1].state = known(node.GPUState{Fault: lost, Product: known("NVIDIA 2330"), MIG: node.Unknown[bool](lost, node.Source{Path: "/sys"})})
				b.cards[1].links = node.Unknown[node.NVLinkState](lost, node.Source{Path: "/sys"})
				b.cards[1].fabric = node.Unknown[node.GPUFabricState](lost, node.Source{Path: "/sys"})
			}, peers(func(p *node.P2PPair) {
				p.Read, p.Write = node.Unknown[string]("GPU is lost", node.Source{}), node.Unknown[string]("GPU is lost", node.Source{})
			})),
			[]string{
				"unknown fabric.state 0000:2b:00.0 (/sys)", "drift gpus.fault 0000:2b:00.0 (/sys)", "unknown gpus.mig 0000:2b:00.0 (/sys)", "unknown gpus.uniform gpus ()",
				"unknown nvlink.links 0000:2b:00.0 (/sys)", "unknown p2p.read read, unknown (/sys)", "unknown p2p.write write, unknown (/sys)",
			},
			plan.ExitDrift, []string{"GPU 0000:2b:00.0 (H100 80GB HBM3) cannot be used: GPU is lost\nlook for Xid in the kernel log; reset the GPU (nvidia-smi -r -i 0000:2b:00.0)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plantest.Planner(checks.All()).Plan(plantest.Blocks(t, checks.All(), gpuChecks), test.facts)
			summary, sentences := left(p)
			if diff := cmp.Diff(test.want, summary); diff != "" || p.ExitCode() != test.exit {
				t.Errorf("exit %d, and what is not ok (-want +got):\n%s\n%s", p.ExitCode(), diff, sentences)
			}
			for _, says := range test.says {
				if !strings.Contains(sentences, says) {
					t.Errorf("nothing says %q:\n%s", says, sentences)
				}
			}
		})
	}
}
