package stock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/node/example"
	"busbar/plan"
	"busbar/plan/sink"
	"busbar/profiles"
)

// verdict is a part of what a plan must say: status, id and target as a plan has them, and parts of the sentences.
type verdict struct {
	status     plan.Status
	id, target string
	says       []string
}

// failure is one that was reported of a real machine, and put into a recording of a healthy one.
type failure struct {
	// name begins with its number; reported is where.
	name, reported string
	recording      string
	fault          func(node.Facts) node.Facts
	want           []verdict
	// healthy: the report was a false alarm, and nothing must be found.
	healthy bool
}

func unit(name, active string) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		return change(f, node.Unit, name, func(u *node.UnitState) { u.Active = node.Known(active, u.Active.Source()) })
	}
}

// acs turns functions of a port's ACS on.
func acs(port string, enabled pciregs.ACSBits) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		return change(f, node.PCIRegisters, port, func(s *node.PCIRegisterState) {
			registers, _ := s.ACS.Get()
			registers.Enabled = enabled
			s.ACS = node.Known(registers, s.ACS.Source())
		})
	}
}

func all(faults ...func(node.Facts) node.Facts) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		for _, fault := range faults {
			f = fault(f)
		}
		return f
	}
}

// translated has the IOMMU translate what all functions send.
func translated(f node.Facts) node.Facts {
	return change(f, node.IOMMU, "", func(s *node.IOMMUState) {
		s.Groups = slices.Clone(s.Groups)
		for i := range s.Groups {
			s.Groups[i].Type = node.Known("DMA-FQ", s.Groups[i].Type.Source())
		}
	})
}

// booted replaces words of the running command line alone: what the boot loader says is not touched.
func booted(oldnew ...string) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		return change(f, node.CommandLine, "", func(line *string) { *line = strings.NewReplacer(oldnew...).Replace(*line) })
	}
}

// pairs edits what the driver says of pairs of GPUs.
func pairs(edit func(*node.P2PPair)) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		return change(f, node.P2P, "", func(s *node.P2PState) {
			s.Pairs = slices.Clone(s.Pairs)
			for i := range s.Pairs {
				edit(&s.Pairs[i])
			}
		})
	}
}

// refused says of reads and writes of all pairs why there are none.
func refused(status string) func(node.Facts) node.Facts {
	return pairs(func(p *node.P2PPair) {
		p.Read, p.Write, p.NVLink = node.Known(status, p.Read.Source()), node.Known(status, p.Write.Source()), node.Known(status, p.NVLink.Source())
	})
}

func ncclConf(text string) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		return f.With(node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: text}, node.Source{Path: sink.NCCLPath})))
	}
}

// function edits a PCI function.
func function(address string, edit func(*node.PCIFunction)) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		inv := f.Inventory
		functions, _ := inv.PCI.Get()
		functions = slices.Clone(functions)
		edit(&functions[slices.IndexFunc(functions, func(p node.PCIFunction) bool { return p.Address == address })])
		inv.PCI = node.Known(functions, inv.PCI.Source())
		return f.WithInventory(inv)
	}
}

// offNVLink takes the NVLinks of a GPU away.
func offNVLink(address string) func(node.Facts) node.Facts {
	return all(func(f node.Facts) node.Facts {
		return change(f, node.NVLinks, address, func(s *node.NVLinkState) {
			s.Links = slices.Clone(s.Links)
			for i := range s.Links {
				s.Links[i] = node.NVLinkPort{Link: s.Links[i].Link, State: node.Known(node.NVLinkInactive, node.Source{})}
			}
		})
	}, pairs(func(p *node.P2PPair) {
		if p.From == address || p.To == address {
			p.NVLink = node.Known(node.P2PNotSupported, p.NVLink.Source())
		}
	}))
}

func fabricOf(address string, edit func(*node.GPUFabricState)) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts { return change(f, node.GPUFabric, address, edit) }
}

func failures() []failure {
	const (
		gpu, third = "0000:19:00.0", "0000:4c:00.0" // of the HGX boards
		tray       = "0009:01:00.0"
		rail       = "0000:3c:00.0"
		switchPort = "0000:17:01.0"
		romePort   = "0000:40:01.1"
		kernelACS  = pciregs.SrcValid | pciregs.ReqRedir | pciregs.CmpltRedir | pciregs.UpstreamFwd
		manager    = "nvidia-fabricmanager.service"
		client     = "/sys/kernel/mm/memory_peers/nv_mem/version"
	)
	absent := func(path string) func(node.Facts) node.Facts {
		return func(f node.Facts) node.Facts {
			return change(f, node.Path, path, func(s *node.PathState) { *s = node.PathState{} })
		}
	}
	unloaded := func(f node.Facts) node.Facts {
		return change(f, node.Module, "nvidia_peermem", func(m *node.ModuleState) { m.Loaded, m.RefCount, m.Holders = false, 0, nil })
	}
	redirects := []string{"redirects traffic between peers: ReqRedir, CmpltRedir, UpstreamFwd"}
	return []failure{
		{name: "F1 ACS on a PCIe switch", reported: "nccl#304", recording: "hgx-h100", fault: acs(switchPort, kernelACS), want: []verdict{{plan.Drift, "pcie_acs.redirect", switchPort, redirects}}},
		{name: "F2 source validation alone", reported: "nccl#606", recording: "hgx-h100", fault: acs(switchPort, pciregs.SrcValid), healthy: true},
		{name: "F3 ACS on AMD's root ports, 001d", reported: "nccl#2079", recording: "hgx-a100-nps4", fault: acs(romePort, 0x1d), want: []verdict{{plan.Drift, "pcie_acs.redirect", romePort, redirects}}},
		{
			name: "F4 VT-d translates", reported: "nccl#667", recording: "hgx-h100", fault: all(translated, booted(" iommu=pt", "")),
			want: []verdict{{plan.PendingReboot, "iommu.translated", "", []string{"the IOMMU's mode is translated, passthrough comes with the next boot", "makes it hang"}}},
		},
		{
			name: "F5 the IOMMU translates, and the driver says that all is well", reported: "nccl#257", recording: "epyc-pcie", fault: all(),
			want: []verdict{{plan.Drift, "iommu.translated", "", []string{"makes it hang, or loses it"}}, {plan.OK, "p2p.read", "read", nil}},
		},
		{name: "F6 ACS on the ports of PCIe cards", reported: "nccl#19, #85, #631, nccl-tests#117", recording: "epyc-pcie", fault: all(), want: []verdict{{plan.Drift, "pcie_acs.redirect", "0000:20:01.1", redirects}}},
		{
			name: "F7 nvidia_peermem is not loaded", reported: "nccl#214, #1412", recording: "hgx-h100", fault: all(unloaded, absent(client)),
			want: []verdict{{plan.Drift, "gpudirect.path", "GPU memory", []string{"NICs cannot get at GPU memory: nvidia_peermem is not loaded"}}},
		},
		{
			name: "F8 loaded and not registered", reported: "nccl#1939, #1537", recording: "hgx-h100", fault: absent(client),
			want: []verdict{{plan.Drift, "gpudirect.unregistered", "nvidia_peermem", []string{"modprobe -r nvidia_peermem, restart openibd"}}},
		},
		{
			name: "F11 the kernel's RDMA stack knows no dma-buf", reported: "nccl#778", recording: "hgx-h200-ib",
			fault: func(f node.Facts) node.Facts {
				inv := f.Inventory
				inv.Kernel = node.Known("5.4.0-190-generic", inv.Kernel.Source())
				return f.WithInventory(inv)
			},
			want: []verdict{{plan.Drift, "gpudirect.path", "GPU memory", []string{"Linux 5.4.0-190-generic has no dma-buf for RDMA, which came with 5.12"}}},
		},
		{
			name: "F12 no device nodes for verbs", reported: "nccl#451, vllm#42075", recording: "hgx-h200-ib", fault: all(absent("/dev/infiniband/uverbs0"), absent("/dev/infiniband/rdma_cm")),
			want: []verdict{{plan.Drift, "device_nodes.missing", "/dev/infiniband/uverbs0", nil}, {plan.Drift, "device_nodes.missing", "/dev/infiniband/rdma_cm", nil}},
		},
		{
			name: "F13 8 MiB of locked memory", reported: "nccl-tests#206", recording: "hgx-h100",
			fault: func(f node.Facts) node.Facts {
				return change(f, node.ProcLimits, "slurmd.service", func(p *node.ProcessLimits) {
					p.Text = strings.ReplaceAll(p.Text, "Max locked memory         unlimited            unlimited ", "Max locked memory         8388608              8388608   ")
				})
			},
			want: []verdict{{plan.Drift, "limits.process", "slurmd.service memlock", []string{"has memlock 8388608, wanted is unlimited"}}},
		},
		{
			name: "F14 the fabric manager was restarted, and a GPU not reset", reported: "nccl#1488, #1705", recording: "hgx-h100",
			fault: fabricOf(third, func(s *node.GPUFabricState) { *s = node.GPUFabricState{State: node.FabricNotStarted} }),
			want:  []verdict{{plan.Drift, "fabric.state", third, []string{"not registered with its fabric: not-started", "reset them (nvidia-smi -r)"}}, {plan.OK, "fabric.manager", manager, nil}},
		},
		{
			name: "F15 the fabric manager is older by a release", reported: "gpu-operator#544, #610, #2868, #2619", recording: "hgx-h100",
			fault: all(unit(manager, "failed"), func(f node.Facts) node.Facts {
				return change(f, node.FabricManager, "", func(s *node.FabricManagerState) { s.Version = node.Known("570.195.02", s.Version.Source()) })
			}),
			want: []verdict{{plan.Drift, "driver.fabric_manager", "fabric manager", []string{"the driver is 570.195.03, the fabric manager 570.195.02"}}, {plan.Drift, "fabric.manager", manager, nil}},
		},
		{
			name: "F16 a B200 is off NVLink", reported: "vllm#16336", recording: "hgx-b200", fault: offNVLink(third),
			want: []verdict{
				{plan.Drift, "nvlink.links", third, []string{"(B200) has no NVLink active, wanted is 18"}}, {plan.OK, "nvlink.links", gpu, nil},
				{plan.Drift, "p2p.nvlink", "NVLink NS", []string{third + " and 7 others"}},
			},
		},
		{
			name: "F17 a tray is in no clique", reported: "nccl#2186, #1925, nvbandwidth#39, azhpc-images#506", recording: "gb200-tray",
			fault: all(unit("nvidia-imex.service", "inactive"), fabricOf(tray, func(s *node.GPUFabricState) {
				s.Clique, s.Health = 0, node.Known(node.FabricHealth(0xaa), s.Health.Source())
			})),
			want: []verdict{{plan.Drift, "fabric.state", tray, []string{"is in no clique of a cluster"}}, {plan.Drift, "fabric.imex", "nvidia-imex.service", []string{"IMEX is inactive"}}},
		},
		{
			name: "F17 one GPU of a tray is in another partition", reported: "nccl#2186", recording: "gb200-tray",
			fault: fabricOf(tray, func(s *node.GPUFabricState) { s.Clique = 1 }),
			want:  []verdict{{plan.Drift, "fabric.clique", tray, []string{"is in another clique than most GPUs of the node"}}},
		},
		{
			name: "F17 completed, without resources", reported: "azhpc-images#506", recording: "gb200-tray",
			fault: fabricOf(tray, func(s *node.GPUFabricState) { s.Status, s.Clique = "Insufficient Resources", 0 }),
			want:  []verdict{{plan.Drift, "fabric.state", tray, []string{"could not be registered with its fabric: Insufficient Resources"}}},
		},
		{
			name: "F18 AMD's IOMMU translates, P2P faults", reported: "tinygrad#18, cuda-samples#48", recording: "hgx-a100-nps4", fault: all(translated, booted(" iommu=pt", "")),
			want: []verdict{{plan.PendingReboot, "iommu.translated", "", []string{"translated"}}},
		},
		{
			name: "F21 the chipset forwards writes and no reads", reported: "open-gpu-kernel-modules#1253", recording: "epyc-pcie",
			fault: pairs(func(p *node.P2PPair) { p.Read = node.Known(node.P2PChipsetNotSupported, p.Read.Source()) }),
			want:  []verdict{{plan.Drift, "p2p.read", "read CNS", []string{"all 6 pairs, chipset not supported (CNS)", "the processor does not forward"}}, {plan.OK, "p2p.write", "write", nil}},
		},
		{
			name: "F22 NCCL_P2P_LEVEL=LOC for all", reported: "nccl-tests#228", recording: "hgx-a100-nps4", fault: ncclConf("NCCL_IB_TC=104\nNCCL_P2P_LEVEL=LOC\n"),
			want: []verdict{{plan.Drift, "nccl.p2p-disabled", "NCCL_P2P_LEVEL", nil}},
		},
		{
			name: "F23 a virtual machine without its host's topology", reported: "nccl#949, #1464, #2171, nccl-tests#201, #256, #380", recording: "vm-guest-2gpu", fault: refused(node.P2PNotSupported),
			want: []verdict{{plan.Drift, "p2p.read", "read NS", []string{"nothing in the guest can change it"}}},
		},
		{
			name: "F25 a topology file that is not there", reported: "azurehpc-health-checks#142, #143", recording: "hgx-h200-ib", fault: ncclConf("NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\n"),
			want: []verdict{{plan.Drift, "nccl.file", "NCCL_TOPO_FILE", nil}},
		},
		{
			name: "F26 a rail in another slot", reported: "nccl#1086, #1817, #1502", recording: "hgx-h100", fault: function(rail, func(p *node.PCIFunction) { p.Parent = "0000:26:01.0" }),
			want: []verdict{{plan.Drift, "rails.gpu", "0000:3b:00.0", nil}},
		},
		{
			name: "F27 amd_iommu=off on a node of 256 CPUs", reported: "linux-kernel, 2026-03-19", recording: "hgx-a100-nps4",
			fault: all(booted(" iommu=pt", " amd_iommu=off"), func(f node.Facts) node.Facts {
				return change(f, node.IOMMU, "", func(s *node.IOMMUState) { s.Units, s.Groups = nil, nil })
			}),
			want: []verdict{{plan.PendingReboot, "iommu.off", "", nil}},
		},
		{
			name: "F28 a GPU without a NUMA node", reported: "cuCascade#119, nccl#1285, nccl-tests#293", recording: "hgx-h100", fault: function(third, func(p *node.PCIFunction) { p.NUMANode = -1 }),
			want: []verdict{{plan.Drift, "platform.numa_known", "numa_node", []string{"firmware does not say to which NUMA node these belong: " + third}}},
		},
		{
			name: "F30 the fabric manager died, and nobody noticed", reported: "NVSentinel#883", recording: "hgx-b200", fault: unit(manager, "failed"),
			want: []verdict{{plan.Drift, "fabric.manager", manager, []string{"the fabric manager is failed, and the node has NVSwitches"}}, {plan.OK, "fabric.state", third, nil}, {plan.Drift, "service.running", manager, nil}},
		},
		{
			name: "F32 a driver that errs", reported: "release notes of 535.183.06", recording: "hgx-a100-nps4",
			fault: all(refused(node.P2PNotSupported), func(f node.Facts) node.Facts {
				return change(f, node.NVIDIADriver, "", func(s *node.NVIDIADriverState) { s.Version = "535.183.06" })
			}),
			want: []verdict{{plan.Drift, "p2p.read", "read NS", []string{"all 28 pairs, not supported (NS)", "driver 535.183.06 says so of GPUs that can"}}},
		},
	}
}

// elsewhere are the failures that a state of the node does not show, or that a table beside the code judges: file and test.
var elsewhere = map[string][2]string{
	"F9 openibd takes the RDMA stack from under nvidia_peermem": {"modules/gpudirect/gpudirect_test.go", "TestGPUDirect"},
	"F10 the driver was built before the RDMA stack":            {"checks/gpudirect_test.go", "TestGPUDirectRDMA"},
	"F18 AMD's IOMMU refused accesses":                          {"checks/kernellog_test.go", "TestKernelLog"},
	"F19 VT-d refused accesses":                                 {"checks/kernellog_test.go", "TestKernelLog"},
	"F20 peer access is slower than its link":                   {"proofs/p2pbandwidth_test.go", "TestP2PBandwidth"},
	"F24 NCCL's log shows no GDRDMA":                            {"checks/nccltransport_test.go", "TestNCCLTransport"},
	"F29 relaxed ordering is off":                               {"modules/pciedevice/pciedevice_test.go", "TestFunctions"},
	"F31 RegistryDwords are not in force":                       {"modules/nvidiadriver/nvidiadriver_test.go", "TestOptions"},
}

// TestFailures: each is found in a recording that is healthy but for it, with the right verdict, about the right device, and with the
// reason; the profile is the one that fits.
func TestFailures(t *testing.T) {
	var stock []*profiles.Profile
	for _, name := range loader().Names() {
		stock = append(stock, load(t, name))
	}
	for _, test := range failures() {
		t.Run(test.name, func(t *testing.T) {
			healthy := recorded(t, test.recording)
			f := test.fault(healthy)
			name, err := profiles.Choose(stock, f.Inventory)
			if err != nil {
				t.Fatal(err)
			}
			p := load(t, name)
			got := converges(t, p, f).plan
			if test.healthy {
				if was := planOver(t, p, healthy); encode(t, was) == encode(t, got) || got.ExitCode() != plan.ExitOK {
					t.Errorf("exit code %d", got.ExitCode())
				}
			}
			for _, want := range test.want {
				i := slices.IndexFunc(got.Findings, func(f plan.Finding) bool {
					return f.Status == want.status && f.ID == want.id && (want.target == "" || f.Target == want.target)
				})
				if i < 0 {
					t.Errorf("nothing says %s %s %s:\n%s", want.status, want.id, want.target, notOK(got))
					continue
				}
				f := got.Findings[i]
				for _, part := range want.says {
					if !strings.Contains(f.Summary+"\n"+f.Why+"\n"+f.Fix, part) {
						t.Errorf("%q is not said: %s\n%s\n%s", part, show(f), f.Why, f.Fix)
					}
				}
			}
		})
	}
}

func notOK(p plan.Plan) string {
	var b strings.Builder
	for _, f := range p.Findings {
		if f.Status != plan.OK && f.Status != plan.Skipped {
			fmt.Fprintln(&b, show(f))
		}
	}
	return b.String()
}

// TestEveryFailure: F1 to F32 are each judged here or by a test that exists, and the recordings are those of the package.
func TestEveryFailure(t *testing.T) {
	judged := map[string]bool{}
	number := func(name string) string { n, _, _ := strings.Cut(name, " "); return n }
	for _, test := range failures() {
		judged[number(test.name)] = true
		if !slices.Contains(example.Names(), test.recording) || test.reported == "" || test.healthy == (len(test.want) > 0) {
			t.Errorf("%s: %+v", test.name, test)
		}
	}
	for name, place := range elsewhere {
		judged[number(name)] = true
		text, err := os.ReadFile(filepath.Join("..", "..", place[0]))
		if err != nil || !strings.Contains(string(text), "func "+place[1]+"(") {
			t.Errorf("%s: there is no test %s in %s: %v", name, place[1], place[0], err)
		}
	}
	for n := 1; n <= 32; n++ {
		if !judged[fmt.Sprintf("F%d", n)] {
			t.Errorf("nothing judges F%d", n)
		}
	}
}
