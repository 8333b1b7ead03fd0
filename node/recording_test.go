package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/internal/confdir"
	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/internal/kernlog"
	"busbar/internal/mstconfig"
	"busbar/internal/nccllog"
	"busbar/internal/p2p"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/node/example"
)

// exact compares what Facts and Values hold, not only what they say.
var exact = cmp.Exporter(func(t reflect.Type) bool { return t.PkgPath() == "busbar/node" })

func write(t testing.TB, f node.Facts) string {
	t.Helper()
	var b bytes.Buffer
	if err := node.WriteRecording(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func read(t testing.TB, text string) node.Facts {
	t.Helper()
	f, err := node.ReadRecording(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func recorded(t testing.TB, name string) string {
	t.Helper()
	r, err := example.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// declaredKinds are the names of the kinds that kinds.go declares.
func declaredKinds(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if index, ok := literal.Type.(*ast.IndexExpr); ok && index.X.(*ast.Ident).Name == "Kind" {
			name, err := strconv.Unquote(literal.Elts[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

// answers is one for each kind, every field set.
func answers() []node.Answer {
	at := func(path string) node.Source { return node.Source{Path: path, Line: 7} }
	files := node.Known([]confdir.File{{Path: "/etc/a.conf", Text: "a <b> & c\n\x00\u2028"}, {Path: "/etc/b.conf", Reason: "permission denied"}}, at("/etc"))
	return []node.Answer{
		sysctl("kernel.numa_balancing", "0"),
		node.SysctlFiles.Answer("", files), node.ModulesLoadFiles.Answer("", files), node.ModprobeFiles.Answer("", files),
		node.NCCLUserFiles.Answer("", files), node.OwnedDropIns.Answer("", files), node.SystemConfFiles.Answer("", files), node.LogindConfFiles.Answer("", files),
		node.LimitsFiles.Answer("", files), node.UnitFiles.Answer("slurmd.service", files),
		node.Module.Answer("mlx5_ib", node.Known(node.ModuleState{
			Loaded: true, RefCount: 2, Holders: []string{"ib_ipoib"}, Parameters: map[string]string{"a": "1", "b": ""},
			Kernels: []node.ModuleOnDisk{
				{Release: "6.1", Path: "/lib/x.ko", Signed: node.Known(true, at("/lib/x.ko"))},
				{Release: "6.8", BuiltIn: true, Signed: node.Unknown[bool]("compressed", at("/lib/y.ko"))},
			},
		}, at("/sys/module"))),
		node.ModuleSigning.Answer("", node.Known(node.ModuleSigningState{Enforced: true, Lockdown: "integrity", ModulesDisabled: true}, at("/sys"))),
		node.CommandLine.Answer("", node.Known("quiet", at("/proc/cmdline"))),
		node.Boot.Answer("", node.Known(node.BootConfig{
			Loader: node.LoaderGRUBDebian, Defaults: value(files), References: []node.Reference{{Path: "/x", Exists: true, Text: "y"}, {Path: "/z"}},
			Generated: "menuentry", GeneratedReason: "/boot: no", UpdateGrub: true,
		}, at("/etc/default/grub"))),
		node.Initramfs.Answer("nvidia", node.Known(node.InitramfsState{
			Kernel: "6.8.0-45-generic", Image: "/boot/initrd.img-6.8.0-45-generic", Generator: node.GeneratorInitramfsTools, Frozen: at("/etc/initramfs-tools/update-initramfs.conf"),
			Module: "/usr/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko", Modules: []string{"nvidia"}, Files: value(files),
		}, at("/boot/initrd.img-6.8.0-45-generic"))),
		node.IOMMU.Answer("", node.Known(node.IOMMUState{
			Units: []string{"dmar0"}, Tables: []string{"DMAR"}, MaxAPICID: node.Known(255, at("/proc/cpuinfo")),
			Groups: []node.IOMMUGroup{{ID: 3, Type: node.Unknown[string]("before 5.11", node.Source{}), Devices: []string{"0000:1b:00.0"}}},
		}, at("/sys/class/iommu"))),
		node.File.Answer("/etc/nccl.conf", node.Known(node.FileState{Exists: true, Text: "A=1\r\n"}, at("/etc/nccl.conf"))),
		node.Path.Answer("/dev/nvidiactl", node.Known(node.PathState{Exists: true, Type: "character-device", Mode: "0666"}, at("/dev/nvidiactl"))),
		node.Mount.Answer("/etc", node.Known(node.MountState{Point: "/", Type: "ext4", ReadOnly: true, Immutable: "NixOS"}, at("/proc/self/mountinfo"))),
		node.Unit.Answer("slurmd.service", node.Known(node.UnitState{Load: "loaded", File: "enabled", Active: node.Known("active", node.Source{Call: "D-Bus"}), NeedReload: true}, node.Source{Call: "D-Bus"})),
		node.ProcLimits.Answer("slurmd.service", node.Known(node.ProcessLimits{Running: true, PID: 9, Command: "slurmd", Text: "Limit\n"}, at("/proc/9/limits"))),
		node.KernelConfig.Answer("CONFIG_PCI_P2PDMA", node.Known("y", at("/boot/config-6.8.0-45-generic"))),
		node.CPUs.Answer("", node.Known(node.CPUState{Packages: 2, Governors: node.Known(map[string]int{"performance": 112}, at("/sys/devices/system/cpu/cpufreq"))}, at("/sys/devices/system/cpu"))),
		node.KernelLog.Answer("", node.Known(node.KernelLogState{
			Events: []kernlog.Event{{
				Kind: kernlog.Xid, Device: "0000:1b:00.0", Code: 154, Name: "GPU Reset Required", Text: "NVRM: Xid", Count: 2,
				First: kernlog.When{Seconds: new(12.5)}, Last: kernlog.When{Clock: "Feb 3 16:24"},
			}},
			Records: 900, Lost: known(3), Dropped: 1,
		}, at("/dev/kmsg"))),
		node.NUMANodes.Answer("", node.Known([]node.NUMANode{{ID: 0, CPUs: "0-55,112-167"}, {ID: 2}}, at("/sys/devices/system/node"))),
		node.RDMAPort.Answer("mlx5_0/1", node.Awaiting[node.RDMAPortState]("no RDMA device", node.CapabilityRDMA, node.Source{Call: "netlink"})),
		node.RDMAPort.Answer("mlx5_1/1", node.Known(node.RDMAPortState{LinkLayer: "Ethernet"}, node.Source{Call: "netlink"})),
		node.PCIRegisters.Answer("0000:1a:00.0", node.Known(node.PCIRegisterState{
			Express: node.Known(pciregs.Express{Present: true, PortType: pciregs.DownstreamPort, MaxPayloadSupported: 512, MaxPayload: 256, MaxReadRequest: 4096, RelaxedOrdering: true}, at("/sys/config")),
			ACS:     node.Known(pciregs.ACS{Present: true, Supported: pciregs.SrcValid | pciregs.Redirect | pciregs.TransBlk | pciregs.DirectTrans, Enabled: pciregs.SrcValid | pciregs.ReqRedir}, at("/sys/config")),
			ATS:     node.Known(pciregs.ATS{Present: true, Enabled: true}, at("/sys/config")),
			BARs:    node.Known([]pciregs.BAR{{Index: 2, SizeBytes: 256 << 30, Prefetchable: true, Unassigned: true}}, at("/sys/resource")),
		}, at("/sys/config"))),
		node.PCIRegisters.Answer("0000:1b:00.0", node.Known(node.PCIRegisterState{ACS: node.Unknown[pciregs.ACS]("run as root", at("/sys/config")), BARs: node.Known([]pciregs.BAR{}, at("/sys/resource"))}, at("/sys/config"))),
		node.PCILink.Answer("0000:1b:00.0", node.Known(node.PCILinkState{
			Current: node.Known(pciregs.Link{SpeedGTs: 2.5, Width: 8}, at("/sys/current_link_speed")), Max: node.Known(pciregs.Link{SpeedGTs: 32, Width: 16}, at("/sys/max_link_speed")), Busy: node.Known(true, at("")),
		}, at("/sys"))),
		node.RDMAPort.Answer("mlx5_1/1", node.Known(node.RDMAPortState{
			LinkLayer: "Ethernet", State: known("ACTIVE"), PhysState: known("LinkUp"), Rate: known("400 Gb/sec (4X NDR)"), LID: known(7), SMLID: known(1),
			GIDs:     known([]node.GID{{Index: 3, GID: "0000:0000:0000:0000:0000:ffff:0a01:0102", Type: node.GIDRoCEv2, Netdev: "eth0"}}),
			Firmware: known("28.41.1000"), BoardID: node.Unsupported[string]("the driver shows none", at("/sys")), HCAType: known("MT4129"), NodeGUID: known("0000:0000:0000:0001"),
		}, node.Source{Call: "netlink"})),
		node.Link.Answer("0000:1b:00.0", node.Known(node.LinkState{
			Netdev: "eth0", MAC: known("02:00:00:00:00:01"), MTU: known(9000), Carrier: known(true), OperState: known("up"), Speed: known(400_000),
			Driver: known("mlx5_core"), Firmware: known("28.41.1000 (MT_0000000838)"),
		}, at("/sys/class/net/eth0"))),
		node.LinkManagement.Answer("0000:1b:00.0", node.Known(node.LinkManagementState{
			Netdev: "eth0", Managers: []node.LinkManager{{
				Name: node.ManagerNetworkd, File: "/run/systemd/network/10-netplan-eth0.network", MTU: known(9000), Netplan: node.Source{Path: "/etc/netplan/a.yaml", Line: 7},
			}},
			Udev: node.LinkManager{Name: node.ManagerUdev, File: "/etc/systemd/network/1.link", MTU: node.Unknown[int]("a condition", at("/etc/systemd/network"))},
			Bond: "bond0", BondManagers: []node.LinkManager{{Name: node.ManagerIfupdown, File: "/etc/network/interfaces", MTU: known(0)}},
		}, at("/sys/class/net/eth0"))),
		node.FlowControl.Answer("0000:1b:00.0/2", node.Known(node.FlowControlState{
			Netdev: "eth0", Pause: known(ethtool.Pause{Autonegotiate: true, Rx: true, Tx: true}), PFCStormPrevention: known(100),
		}, node.Source{Call: "SIOCETHTOOL"})),
		node.DCB.Answer("0000:1c:00.0", node.Unsupported[node.DCBState]("the driver has no DCB operations", node.Source{Call: "RTM_GETDCB"})),
		node.DCB.Answer("0000:1b:00.0", node.Known(node.DCBState{
			Netdev: "eth0", Driver: "mlx5_core", DCBX: known(dcbnl.DCBXHost | dcbnl.DCBXIEEE), PFC: known(dcbnl.PFC{Capacity: 8, Enabled: 8, MACsecBypass: 1, Delay: 7}),
			ETS: known(dcbnl.ETS{
				Willing: 1, Classes: 8, CreditShaper: 1, TxBandwidth: [8]uint8{50, 50}, RxBandwidth: [8]uint8{1}, Algorithms: [8]dcbnl.TSA{dcbnl.Weighted, dcbnl.Vendor, 9},
				PriorityClass: [8]uint8{1}, RecommendedBandwidth: [8]uint8{2}, RecommendedAlgorithms: [8]dcbnl.TSA{dcbnl.CreditShaper}, RecommendedPriorityClass: [8]uint8{3},
			}),
			Apps:  known([]dcbnl.App{{Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}, {Selector: 99, Protocol: 1}}),
			Trust: known(node.TrustDSCP), TrustOrder: known(dcbnl.TrustOrder{dcbnl.DSCP, dcbnl.PCP}),
			Buffer: known(dcbnl.Buffer{PriorityBuffer: [8]uint8{3: 1}, Sizes: [8]uint32{262016}, Total: 524160}), MaxRate: known(dcbnl.MaxRate{1: 1 << 40}),
		}, node.Source{Call: "RTM_GETDCB"})),
		node.RoCE.Answer("0000:1b:00.0", node.Known(node.RoCEState{
			Netdev: "eth0", RDMA: "mlx5_1/1", NotificationPoint: known(dcbnl.Priorities(8)), ReactionPoint: known(dcbnl.Priorities(255)), CNPDSCP: known(48), CNPPriority: known(6),
			CCParams: known(map[string]uint32{"np_cnp_dscp": 48}), TrafficClass: known(node.TrafficClass{Global: 106, Rules: []string{"src_ip=10.0.0.1,tclass=32"}}),
			DefaultToS: known(104), DefaultMode: node.Awaiting[string]("no directory", node.CapabilityRDMACM, at("/sys/kernel/config/rdma_cm")),
		}, at("/sys/class/net/eth0"))),
		node.NVConfig.Answer("0000:1c:00.0", node.Unsupported[node.NVConfigState]("not NVIDIA's", at("/sys/vendor"))),
		node.NVConfig.Answer("0000:1b:00.0", node.Known(node.NVConfigState{
			Tool: "mstconfig", Missing: "index out of range",
			Parameters: map[string]mstconfig.Values{"LINK_TYPE_P1": {Default: "IB(1)", Running: "IB(1)", NextBoot: "ETH(2)"}, "A[0]": {NextBoot: "N/A", ReadOnly: true}, "B": {Unclear: "no"}},
		}, node.Source{Call: "mstconfig"})),
		node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{
			Loaded: true, Version: "580.159.04", Open: true, Parameters: known(map[string]string{"NvLinkDisable": "0", "RegistryDwords": ""}),
		}, at("/proc/driver/nvidia/version"))),
		node.FabricManager.Answer("", node.Known(node.FabricManagerState{Installed: true, Version: known("580.159.04")}, at("/var/lib/dpkg/status"))),
		node.IMEX.Answer("", node.Known(node.FabricManagerState{}, at("/usr/bin/nvidia-imex"))),
		node.NVML.Answer("", node.Known(node.NVMLState{Version: "13.580.159.04", Driver: known("580.159.04"), Fault: node.NVMLUnknown}, node.Source{Call: "nvmlSystemGetNVMLVersion"})),
		node.GPUInfo.Answer("0000:1b:00.0", node.Known(node.GPUState{
			Fault: "GPU is lost", Minor: known(3), UUID: known("GPU-0"), Product: known("NVIDIA H200"), PCIID: known("10de:2335"), Subsystem: known("10de:18bf"),
			MIG: known(false), MIGPending: known(true), Virtualization: known(node.GPUPassthrough), Persistence: known(true), ECC: known(true), ECCPending: known(false),
			BAR1Bytes: known(uint64(1) << 38), BAR1UsedBytes: known(uint64(1) << 20), PCIeGeneration: known(5), PCIeMaxGeneration: known(6), PCIeWidth: known(8), PCIeMaxWidth: known(16),
			ComputeMode: known(node.ComputeModeDefault), MemoryNUMANode: node.Unsupported[int]("Not Supported", node.Source{Call: "nvmlDeviceGetNumaNodeId"}),
		}, node.Source{Call: "NVML"})),
		node.NVLinks.Answer("0000:1b:00.0", node.Known(node.NVLinkState{Links: []node.NVLinkPort{
			{Link: 0, State: known(node.NVLinkActive), Version: known("4.0"), SpeedMBps: known(26562), Remote: known(node.NVLinkToSwitch), RemoteAddress: known("0000:83:00.0")},
			{Link: 1, State: known(node.NVLinkInactive)},
		}}, node.Source{Call: "NVML"})),
		node.P2P.Answer("", node.Known(node.P2PState{GPUs: []string{"0000:1b:00.0", "0000:43:00.0"}, Pairs: []node.P2PPair{
			{From: "0000:1b:00.0", To: "0000:43:00.0", Read: known(node.P2POK), Write: known(node.P2PChipsetNotSupported), NVLink: known(node.P2PNotSupported), Atomics: known(node.P2PUnknown)},
		}}, node.Source{Call: "nvmlDeviceGetP2PStatus"})),
		node.GPUFabric.Answer("0000:1b:00.0", node.Known(node.GPUFabricState{
			State: node.FabricCompleted, Status: node.FabricSuccess, Clique: 4026, ClusterUUID: node.NoCluster, Health: known(node.FabricHealth(0xaa)), Summary: known("healthy"),
		}, node.Source{Call: "NVML"})),
		node.ConfidentialComputing.Answer("", node.Known(node.ConfidentialComputingState{Environment: "production", Enabled: true, DevTools: true, MultiGPU: known("none")}, node.Source{Call: "NVML"})),
		node.GPUUsers.Answer("", node.Known(node.GPUUsage{
			Users: []node.GPUUser{{PID: 7, Name: "python3", GPUs: []string{"0000:1b:00.0"}}}, Unseen: known(2), Hidden: 3,
		}, at("/proc"))),
		node.RDMAUsers.Answer("", node.Known(node.RDMAUsage{
			Users: []node.RDMAUser{{PID: 7, Name: "python3", Devices: []string{"mlx5_0"}}}, Unseen: []string{"mlx5_1"},
		}, node.Source{Call: "RDMA_NLDEV_CMD_RES_QP_GET"})),
		node.SlurmJobs.Answer("", node.Known([]string{"3385"}, at("/proc"))),
		node.NCCLLog.Answer("/var/log/nccl.%h", node.Known(node.NCCLLogState{Files: []string{"/var/log/nccl.gpu-01"}, LeftOut: 1, Log: nccllog.Log{
			Versions: []string{"2.28.9+cuda13.0"}, Lines: 9, Messages: 8, Damaged: 1, CutOff: "ended", PairsLeftOut: 2, NoHCA: true,
			Communicators: []nccllog.Communicator{{ID: "0x1", Size: 2, Nodes: 1}}, Ranks: []nccllog.Rank{{Comm: "0x1", Rank: 1, Host: "gpu-01", PID: 7, GPU: "0000:1b:00.0", CUDADevice: 1, Complete: true}},
			Transports: []nccllog.Sum{{Transport: nccllog.Transport{Kind: nccllog.NET, Name: nccllog.IB, GDRDMA: true, Side: "send"}, Scope: nccllog.InterNode, Pairs: 1, Channels: 2, Example: "0 -> 1", Line: 3}},
			Pairs:      []nccllog.Pair{{Comm: "0x1", From: 0, To: 1, Transport: nccllog.Transport{Kind: nccllog.SHM}, Scope: nccllog.IntraNode, Channels: 2, Line: 3}},
			Networks:   []nccllog.Network{{Name: nccllog.IB, Times: 2, Line: 1}}, Devices: []nccllog.Device{{Network: nccllog.IB, Name: "mlx5_0", Layer: "IB"}},
			GPUDirect: []nccllog.GPUDirectHint{{Network: nccllog.IB, Device: "mlx5_0", Enabled: true, Line: 2}}, Variables: []nccllog.Variable{{Name: "NCCL_PROTO", Value: "simple", Origin: nccllog.FromPlugin, By: "NET/OFI", Line: 4}},
			Warnings: []nccllog.Warning{{ID: "cuda", Text: "Cuda failure", Host: "gpu-01", Times: 2, Line: 5}}, Failures: []nccllog.Failure{{Host: "gpu-01", PID: 7, Init: true, Where: "init.cc:9", Code: 1, Warning: "Cuda failure", Line: 6}},
		}}, at("/var/log/nccl.gpu-01"))),
		node.P2PMeasurement.Answer("512", node.Known(p2p.Result{
			CUDA: "13.0", Size: 512 << 20, GPUs: []p2p.GPU{{Address: "0000:1b:00.0", UUID: "GPU-0", Name: "NVIDIA H200", Memory: 2, Free: 1}}, Seconds: 1.5, Unknown: "ended",
			Pairs: []p2p.Pair{{
				From: "0000:1b:00.0", To: "0000:43:00.0", PeerAccess: new(true), OneWay: new(396.1), BothWays: new(781.5), Latency: new(1.9), Staged: new(37.0), Unknown: "ended",
				Checks: []p2p.Check{{Transfer: p2p.OneWay, Bytes: 4, Wrong: 1, FirstWrong: new(int64(3))}},
			}},
		}, node.Source{Call: "CUDA"})),
	}
}

func inventory() node.Inventory {
	return node.Inventory{
		Hostname: "gpu-01", Arch: known("x86_64"), Kernel: known("6.8"), OS: known(node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04", PrettyName: "Ubuntu"}),
		DMI:            known(node.DMI{SysVendor: "a", ProductName: "b", ProductVersion: "c", BoardVendor: "d", BoardName: "e", BIOSVendor: "f", BIOSVersion: "g"}),
		Virtualization: node.Unknown[string]("no /proc", node.Source{Call: "cpuid"}),
		PCI:            known([]node.PCIFunction{{Address: "0000:1b:00.0", Vendor: "15b3", Device: "1021", SubsystemVendor: "15b3", SubsystemDevice: "0040", Class: "020000", NUMANode: -1, Driver: "mlx5_core", Parent: "0000:1a:00.0", PhysicalFunction: "0000:1b:00.1"}}),
		Netdevs:        known([]node.Netdev{{Name: "eth0", Type: 1, PCI: "0000:1b:00.0", Port: 1, Lower: []string{"x"}, Up: true, Addresses: []string{"192.0.2.1/24"}}}),
		RDMA:           known([]node.RDMADevice{{Name: "mlx5_0", PCI: "0000:1b:00.0", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "eth0", LinkLayer: known("Ethernet")}}}}),
		Routes:         known([]node.Route{{Destination: "default", Devices: []string{"eth0"}}}),
		Protected:      known([]node.ProtectedNetdev{{Name: "eth0", Reason: "carries the default route"}}),
		SavedProtected: known([]string{"0000:1b:00.0"}),
		BootID:         known("5a1e"), Uptime: known(90 * time.Minute), Marker: known(node.Marker{FormatVersion: "1.0", BootID: "4b", Args: []string{"iommu=pt"}}), RootDirectory: true,
	}
}

func TestRoundTrip(t *testing.T) {
	want := node.NewFacts(inventory(), noon, answers())
	got := read(t, write(t, want))
	if diff := cmp.Diff(want, got, exact); diff != "" {
		t.Errorf("written and read again (-want +got):\n%s", diff)
	}
}

// Every kind that is declared can be read from a recording, and stands in answers.
func TestEveryKind(t *testing.T) {
	kinds := declaredKinds(t)
	if len(kinds) < 20 || len(slices.Compact(slices.Clone(kinds))) != len(kinds) {
		t.Fatalf("kinds.go declares %q", kinds)
	}
	var text strings.Builder
	for i, kind := range kinds {
		if i > 0 {
			text.WriteString(",")
		}
		fmt.Fprintf(&text, `{"kind":%q,"key":"k","reason":"gone"}`, kind)
	}
	read := map[string]bool{}
	for _, q := range readWith(t, text.String()).Queries() {
		read[q.Kind] = true
	}
	tried := map[string]bool{}
	for _, a := range answers() {
		tried[a.Query.Kind] = true
	}
	if diff := cmp.Diff(kinds, slices.Sorted(maps.Keys(read))); diff != "" {
		t.Errorf("decoders (-declared +read):\n%s", diff)
	}
	if diff := cmp.Diff(kinds, slices.Sorted(maps.Keys(tried))); diff != "" {
		t.Errorf("answers of this test (-declared +tried):\n%s", diff)
	}
}

// readWith reads a recording with answers.
func readWith(t *testing.T, answers string) node.Facts {
	t.Helper()
	return read(t, `{"format_version":"1.0","observed_at":"2026-07-01T12:00:00Z","inventory":{},"answers":[`+answers+`]}`)
}

// Any text survives, and neither the order of answers nor that of a foreign inventory shows.
func TestRoundTripOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.String()
		source := rapid.Custom(func(t *rapid.T) node.Source {
			return node.Source{Path: word.Draw(t, "path"), Call: word.Draw(t, "call"), Line: rapid.Int().Draw(t, "line")}
		})
		list := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) node.Answer {
			key, at := word.Draw(t, "key"), source.Draw(t, "source")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return node.Sysctl.Answer(key, node.Known(word.Draw(t, "value"), at))
			case 1:
				return node.File.Answer(key, node.Known(node.FileState{Exists: rapid.Bool().Draw(t, "exists"), Text: word.Draw(t, "text")}, at))
			case 2:
				return node.ModprobeFiles.Answer(key, node.Known([]confdir.File{{Path: rapid.StringMatching(`/.+`).Draw(t, "file"), Text: word.Draw(t, "text"), Reason: word.Draw(t, "reason")}}, at))
			default:
				return node.Unit.Answer(key, node.Awaiting[node.UnitState](rapid.StringN(1, -1, -1).Draw(t, "reason"), word.Draw(t, "needs"), at))
			}
		}), func(a node.Answer) node.Query { return a.Query }).Draw(t, "answers")
		inv := inventory()
		inv.Hostname = word.Draw(t, "hostname")
		want := node.NewFacts(inv, noon, list)
		var first, second bytes.Buffer
		if err := node.WriteRecording(&first, want); err != nil {
			t.Fatal(err)
		}
		got, err := node.ReadRecording(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, exact); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
		slices.Reverse(list)
		if err := node.WriteRecording(&second, node.NewFacts(inv, noon, list)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.String(), second.String()); diff != "" {
			t.Errorf("the order of answers shows:\n%s", diff)
		}
	})
}

func TestWritten(t *testing.T) {
	f := node.NewFacts(node.Inventory{Hostname: "a", BootID: known("5a1e")}, noon, []node.Answer{
		node.Unit.Answer("b.service", node.Unknown[node.UnitState]("gone", node.Source{})),
		sysctl("vm.b", "<2>"), node.Unit.Answer("a.service", node.Value[node.UnitState]{}), sysctl("vm.a", ""),
		node.SysctlFiles.Answer("", node.Known[[]confdir.File](nil, node.Source{Path: "/etc/sysctl.d"})),
	})
	want := `{
 "format_version": "1.0",
 "observed_at": "2026-07-01T12:00:00Z",
 "boot_id": "5a1e",
 "inventory": {
  "hostname": "a",
  "boot_id": {
   "value": "5a1e",
   "source": {
    "path": "/sys"
   }
  }
 },
 "answers": [
  {
   "kind": "sysctl",
   "key": "vm.a",
   "value": "",
   "source": {
    "path": "/proc/sys/vm.a"
   }
  },
  {
   "kind": "sysctl",
   "key": "vm.b",
   "value": "\u003c2\u003e",
   "source": {
    "path": "/proc/sys/vm.b"
   }
  },
  {
   "kind": "sysctl_files",
   "value": [],
   "source": {
    "path": "/etc/sysctl.d"
   }
  },
  {
   "kind": "unit",
   "key": "a.service",
   "reason": "not recorded"
  },
  {
   "kind": "unit",
   "key": "b.service",
   "reason": "gone"
  }
 ]
}
`
	for range 10 { // maps have no order
		if diff := cmp.Diff(want, write(t, f)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	if got := write(t, node.Facts{}); !strings.Contains(got, `"answers": []`) {
		t.Errorf("no facts are written as\n%s", got)
	}
}

func TestWriteErrors(t *testing.T) {
	odd := node.NewFacts(node.Inventory{}, noon, []node.Answer{node.AnswerTo(node.Sysctl.Query("vm.a"), node.Known(func() {}, node.Source{}))})
	if err := node.WriteRecording(io.Discard, odd); err == nil || !strings.Contains(err.Error(), "the answer to sysctl:vm.a") {
		t.Errorf("a function was written: %v", err)
	}
	r, w := io.Pipe()
	_ = r.CloseWithError(errors.New("disk full"))
	if err := node.WriteRecording(w, node.Facts{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a full disk: %v", err)
	}
}

func TestForwardCompatible(t *testing.T) {
	f := read(t, `{
 "format_version": "1.7", "signature": {"of": ["the", "future"]},
 "observed_at": "2026-07-01T14:00:00+02:00",
 "inventory": {"hostname": "a", "lanes": {"value": 3}, "kernel": {"value": "6.8", "age": 2},
  "pci": {"value": [{"address": "0000:2b:00.0", "vendor": "10de", "device": "2330", "class": "030200", "numa_node": 0, "lanes": 16}, {"address": "0000:1b:00.0", "vendor": "10de", "device": "2330", "class": "030200", "numa_node": 0}]},
  "netdevs": {"value": [{"name": "b", "type": 1}, {"name": "a", "type": 1}]}, "rdma": {"value": [{"name": "d"}, {"name": "c"}]},
  "protected": {"value": [{"name": "f", "reason": "x"}, {"name": "e", "reason": "x"}]}},
 "answers": [
  {"kind": "of-the-future", "key": "x", "value": {"a": 1}}, {"kind": "of-the-future", "value": 7}, {}, null,
  {"kind": "sysctl", "key": "vm.a", "value": "1", "age": 3},
  {"kind": "file", "key": "/x", "value": {"exists": true, "owner": 0}},
  {"kind": "sysctl", "key": "vm.b", "value": null}, {"kind": "sysctl", "key": "vm.c"},
  {"kind": "sysctl", "key": "vm.d", "value": null, "reason": "gone"}
 ]
}`)
	if f.ObservedAt != noon || f.Inventory.Hostname != "a" || value(f.Inventory.Kernel) != "6.8" {
		t.Errorf("observed at %s on %s, kernel %s", f.ObservedAt, f.Inventory.Hostname, value(f.Inventory.Kernel))
	}
	var queries []string
	for _, q := range f.Queries() {
		queries = append(queries, q.String())
	}
	if diff := cmp.Diff([]string{"file:/x", "sysctl:vm.a", "sysctl:vm.b", "sysctl:vm.c", "sysctl:vm.d"}, queries); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"vm.a": "1", "vm.b": "? not recorded", "vm.c": "? not recorded", "vm.d": "? gone"} {
		if got := text(node.Sysctl.Get(f, name)); got != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	inv := f.Inventory
	order := []string{
		value(inv.PCI)[0].Address, value(inv.PCI)[1].Address, value(inv.Netdevs)[0].Name, value(inv.Netdevs)[1].Name,
		value(inv.RDMA)[0].Name, value(inv.RDMA)[1].Name, value(inv.Protected)[0].Name, value(inv.Protected)[1].Name,
	}
	if diff := cmp.Diff([]string{"0000:1b:00.0", "0000:2b:00.0", "a", "b", "c", "d", "e", "f"}, order); diff != "" {
		t.Errorf("lists are not sorted (-want +got):\n%s", diff)
	}
}

func TestUnreadable(t *testing.T) {
	const head = "{\"format_version\": \"1.0\",\n"
	for name, tt := range map[string]struct{ text, want string }{
		"empty":               {"", "the recording is cut off: it is empty"},
		"blank":               {" \n\t\r\n", "the recording is cut off: it is empty"},
		"binary":              {"\x7fELF\x02\x01\x01\x00\x00", `line 1: not a recording: invalid character '\x7f' looking for beginning of value`},
		"NUL":                 {"\x00", `line 1: not a recording: invalid character '\x00' looking for beginning of value`},
		"byte order mark":     {"\ufeff{}", `line 1: not a recording: invalid character 'ï' looking for beginning of value`},
		"a profile":           {"sysctl \"a\" {\n}\n", "line 1: not a recording: invalid character 's' looking for beginning of value"},
		"array":               {"\n[]", "line 2: not a recording: found array, wanted object"},
		"string":              {`"x"`, "line 1: not a recording: found string, wanted object"},
		"null":                {"null", "this is no busbar recording: it has no format_version"},
		"another JSON":        {`{"a": 1}`, "this is no busbar recording: it has no format_version"},
		"more after it":       {head + "\"answers\": []}\n\nx", "line 4: not a recording: invalid character 'x' after top-level value"},
		"two in one":          {head + "\"answers\": []}\n{}", "line 3: not a recording: invalid character '{' after top-level value"},
		"newline in a string": {head + "\"observed_at\": \"20\n26\"}", `line 2: not a recording: invalid character '\n' in string literal`},
		"cut off":             {head + "\"answers\": [{\n", "line 3: the recording is cut off"},
		"nested": {
			head + `"x": ` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + "}",
			"line 2: not a recording: invalid character '[' exceeded max depth",
		},
		"newer major":       {`{"format_version": "2.0", "inventory": 7}`, "the recording has format 2.0, this busbar reads up to 1.x: use a newer busbar"},
		"much newer":        {`{"format_version": "10.3"}`, "the recording has format 10.3, this busbar reads up to 1.x: use a newer busbar"},
		"version, bare":     {`{"format_version": "1"}`, `format_version "1" is not MAJOR.MINOR`},
		"version, words":    {`{"format_version": "1.x"}`, `format_version "1.x" is not MAJOR.MINOR`},
		"version, negative": {`{"format_version": "-1.0"}`, `format_version "-1.0" is not MAJOR.MINOR`},
		"version, three":    {`{"format_version": "1.0.0"}`, `format_version "1.0.0" is not MAJOR.MINOR`},
		"version, huge":     {`{"format_version": "99999999999999999999.0"}`, `format_version "99999999999999999999.0" is not MAJOR.MINOR`},
		"version, number":   {"{\n\"format_version\": 1.0}", "line 2: field format_version: found number, wanted string"},
		"time":              {head + `"observed_at": "noon"}`, `not a recording: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`},
		"time, year 10000":  {head + `"observed_at": "9999-12-31T23:59:59-01:00"}`, "field observed_at: 9999-12-31T23:59:59-01:00 is in year 10000 in UTC"},
		"inventory":         {head + "\n\"inventory\": []}", "line 3: field inventory: found array, wanted object"},
		"hostname":          {head + "\"inventory\": {\n\"hostname\": 7}}", "line 3: field inventory.hostname: found number, wanted string"},
		"no value":          {head + "\"inventory\": {\n\"kernel\": \"6.8\"}}", "line 3: field inventory.kernel: found string, wanted object"},
		"value":             {head + "\"inventory\": {\n\"kernel\": {\n\"value\": {}}}}", "line 4: field inventory.kernel.value: found object, wanted string"},
		"reason":            {head + "\"inventory\": {\n\"kernel\": {\n\"reason\": true}}}", "line 4: field inventory.kernel.reason: found bool, wanted string"},
		"list": {
			head + "\"inventory\": {\"pci\": {\"value\": [\n{\"address\": \"a\", \"numa_node\": 1},\n{\"address\": \"7\",\n\"Numa_Node\": \"1\"}]}}}",
			"line 5: field inventory.pci.value.numa_node: found string, wanted whole number",
		},
		"fraction": {
			head + "\"inventory\": {\"pci\": {\"value\": [\n{\"numa_node\": 1},\n{\"numa_node\": 1.5}]}}}",
			"line 4: field inventory.pci.value.numa_node: found number 1.5, wanted whole number",
		},
		"a value inside a value": {
			head + "\"inventory\": {\"rdma\": {\"value\": [{\"ports\": [{\"link_layer\": {}},\n{\"link_layer\":\n{\"value\": 7}}]}]}}}",
			"line 4: field inventory.rdma.value.ports.link_layer.value: found number, wanted string",
		},
		"priorities": {
			head + "\"answers\": [{\"kind\": \"dcb\", \"value\": {\"pfc\": {\"value\": {\n\"enabled\": 264}}}}]}",
			"line 3: field answers.0.value.pfc.value.enabled: found number 264, wanted whole number from 0 to 255",
		},
		"answers":                         {head + "\"answers\":\n{}}", "line 3: field answers: found object, wanted array"},
		"answer":                          {head + "\"answers\": [{},\n7]}", "line 3: field answers: found number, wanted object"},
		"kind of answer":                  {head + "\"answers\": [{},\n{\"kind\": 7}]}", "line 3: field answers.kind: found number, wanted string"},
		"reason of answer":                {head + "\"answers\": [{},\n{\"reason\": 7}]}", "line 3: field answers.reason: found number, wanted string"},
		"line of source":                  {head + "\"answers\": [{\"source\": {\n\"line\": \"7\"}}]}", "line 3: field answers.source.line: found string, wanted whole number"},
		"value of answer":                 {head + "\"answers\": [\n{\"kind\": \"x\", \"value\": 7},\n{\"kind\": \"sysctl\", \"value\": 7}]}", "line 4: field answers.1.value: found number, wanted string"},
		"field of answer":                 {head + "\"answers\": [{\"kind\": \"unit\", \"value\": {\"active\": {},\n\"need_reload\": 1}}]}", "line 3: field answers.0.value.need_reload: found number, wanted bool"},
		"value in an answer":              {head + "\"answers\": [{\"kind\": \"unit\", \"value\": {\"active\":\n\"on\"}}]}", "line 3: field answers.0.value.active: found string, wanted object"},
		"member of a map":                 {head + "\"answers\": [{\"kind\": \"module\", \"value\": {\"parameters\": {\"a\": \"1\",\n\"b\": 2}}}]}", "line 3: field answers.0.value.parameters: found number, wanted string"},
		"map":                             {head + "\"answers\": [{\"kind\": \"module\", \"value\": {\"parameters\":\n[1]}}]}", "line 3: field answers.0.value.parameters: found array, wanted object"},
		"number with a fraction":          {head + "\"answers\": [{\"kind\": \"pci_link\", \"value\": {\"max\": {\"value\": {\"speed_gt_s\":\n\"32\"}}}}]}", "line 3: field answers.0.value.max.value.speed_gt_s: found string, wanted number"},
		"ACS function":                    {head + `"answers": [{"kind": "pci_registers", "value": {"acs": {"value": {"present": true, "enabled": ["Redirect"]}}}}]}`, "field answers.0: \"Redirect\" is no ACS function: they are SrcValid, TransBlk, ReqRedir, CmpltRedir, UpstreamFwd, EgressCtrl, DirectTrans"},
		"two answers":                     {head + `"answers": [{}, {"kind": "sysctl", "key": "a", "value": "1"}, {"kind": "sysctl", "key": "b"}, {"kind": "sysctl", "key": "a", "reason": "gone"}]}`, "field answers.3: sysctl:a was answered by answers.1"},
		"known and unknown":               {head + `"answers": [{}, {"kind": "sysctl", "key": "a", "value": "1", "reason": "gone"}]}`, "field answers.1: it holds both a value and the reason why there is none"},
		"known and not, in the inventory": {head + `"inventory": {"kernel": {"value": "6.8", "reason": "gone"}}}`, "not a recording: it holds both a value and the reason why there is none"},
		"a plan":                          {`{"format_version": "1.0", "command": "plan", "findings": []}`, "this is what busbar plan says, no recording; busbar capture makes one"},
		"list of words":                   {head + "\"answers\": [{\"kind\": \"module\", \"value\": {\"holders\": [\"a\",\n2]}}]}", "line 3: field answers.0.value.holders: found number, wanted string"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := node.ReadRecording(strings.NewReader(tt.text))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if diff := cmp.Diff(node.Facts{}, f, exact); diff != "" {
				t.Errorf("with the error came facts:\n%s", diff)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	_, err := node.ReadRecording(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("input/output error"))))
	if err == nil || err.Error() != "reading the recording: input/output error" {
		t.Errorf("a bad disk: %v", err)
	}
	// What has no end is not read to its end.
	if _, err := node.ReadRecording(zeros{}); err == nil || err.Error() != "the recording is larger than 64 MiB" {
		t.Errorf("/dev/zero: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A recording that was cut off anywhere is no recording, and the error says so.
func TestCutOff(t *testing.T) {
	whole := recorded(t, "vm-guest-2gpu")
	end := strings.LastIndex(whole, "}")
	step := cutEvery
	if testing.Short() {
		step = 101
	}
	for n := 0; n <= end; n += step {
		_, err := node.ReadRecording(strings.NewReader(whole[:n]))
		if err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("cut off at byte %d of %d: %v", n, len(whole), err)
		}
		if line := fmt.Sprintf("line %d:", strings.Count(whole[:n], "\n")+1); n > 0 && !strings.HasPrefix(err.Error(), line) {
			t.Fatalf("cut off at byte %d, %s %v", n, line, err)
		}
	}
	if _, err := node.ReadRecording(strings.NewReader(whole[:end+1])); err != nil {
		t.Errorf("without its last newline: %v", err)
	}
	if _, err := node.ReadRecording(strings.NewReader(strings.ReplaceAll(whole, "\n", "\r\n"))); err != nil {
		t.Errorf("with CRLF: %v", err)
	}
}

// What stands in the house is what reading and writing it again gives.
func TestExamples(t *testing.T) {
	for _, name := range example.Names() {
		whole := recorded(t, name)
		if diff := cmp.Diff(whole, write(t, read(t, whole))); diff != "" {
			t.Errorf("%s (-recorded +written):\n%s", name, diff)
		}
	}
}

func FuzzReadRecording(f *testing.F) {
	// The built-in recordings are left to TestExamples: the fuzzer spends its time on making
	// inputs of their size smaller.
	for _, a := range answers() {
		f.Add(write(f, node.NewFacts(node.Inventory{}, noon, []node.Answer{a})))
	}
	f.Add(write(f, node.NewFacts(inventory(), noon, nil)))
	const head = `{"format_version":"1.0",`
	for _, text := range []string{
		"", "[]", "null", "\x7fELF", "\ufeff{}", `{"format_version":"2.0"}`, `{"format_version":"1.99","x":1}`,
		head + `"observed_at":"9999-12-31T23:59:59-01:00"}`, head + `"observed_at":"0000-01-01T00:00:00+23:00"}`,
		head + `"inventory":{"pci":{"value":null},"uptime":{"value":-9223372036854775808},"marker":{"value":{"args":null}}}}`,
		head + `"inventory":{"rdma":{"value":[null,{"ports":[{"link_layer":7}]}]},"netdevs":{"value":[{"name":"b"},{"name":"a"},{"name":"b","type":9}]}}}`,
		head + `"answers":[null,{},{"kind":"sysctl"},{"kind":"sysctl","value":""},{"kind":"unit","value":{"active":null},"reason":"x","needs":"y"}]}`,
		head + `"answers":[{"KIND":"iommu","Value":{"groups":[null]}},{"kind":"module","value":{"parameters":{"\ud800":"\u0000"}}}]}`,
		head + `"answers":[{"kind":"limits_files","value":[]},{"kind":"limits_files","value":7}]}`,
		head + `"x":` + strings.Repeat("[", 20000),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := node.ReadRecording(strings.NewReader(text))
		if err != nil {
			if err.Error() == "" {
				t.Error("an error says nothing")
			}
			return
		}
		again := write(t, first)
		second := read(t, again)
		if diff := cmp.Diff(again, write(t, second)); diff != "" {
			t.Errorf("written, read and written again:\n%s", diff)
		}
		// What was read, the written form has too: the same answers, each as known as it was.
		if diff := cmp.Diff(first.Queries(), second.Queries()); diff != "" {
			t.Errorf("answers:\n%s", diff)
		}
		if diff := cmp.Diff(value(first.Inventory.NICs()), value(second.Inventory.NICs()), exact); diff != "" {
			t.Errorf("NICs:\n%s", diff)
		}
		for _, q := range first.Queries() {
			if q.Kind == node.Sysctl.Name() {
				before, after := say(node.Get[string](first, q)), say(node.Get[string](second, q))
				before.Zero = after.Zero // a forgotten answer is written with its reason
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("%s:\n%s", q, diff)
				}
			}
		}
	})
}

// A Decoder gives what DecodeRecording does, also of what it has seen before, and keeps apart what differs in anything but the query's
// place.
func TestDecoder(t *testing.T) {
	recording := func(answers string) []byte {
		return []byte(`{"format_version":"1.0","observed_at":"2026-03-02T08:15:00Z","inventory":{},"answers":[` + answers + `]}`)
	}
	var d node.Decoder
	for _, answers := range []string{
		`{"kind":"sysctl","key":"a.b","value":"1"},{"kind":"sysctl","key":"a.c","value":"1"}`,
		`{"kind":"sysctl","key":"a.b","value":"2"},{"kind":"sysctl","key":"a.c","value":"1"}`,
		`{"kind":"sysctl","key":"a.b","value":"1","source":{"path":"/p"}}`,
		`{"kind":"sysctl","key":"a.b","reason":"gone"}`, `{"KIND":"sysctl","key":"a.b","value":"3"}`, `{"kind":"sysctl","key":"a.b","value":4}`,
		`{"kind":"sysctl","key":"a.b","value":"` + strings.Repeat("x", 9<<20) + `"}`,
		`{"kind":"sysctl","key":"a.b","value":"1"},{"kind":"sysctl","key":"a.c","value":"1"}`,
	} {
		for range 2 {
			got, gotErr := d.Decode(recording(answers))
			want, wantErr := node.DecodeRecording(recording(answers))
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
				t.Errorf("%.80s: %v, without the decoder %v", answers, gotErr, wantErr)
			}
		}
	}
}
