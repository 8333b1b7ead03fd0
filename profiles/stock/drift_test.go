package stock_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"busbar/internal/confdir"
	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/sink"
)

const unread = "permission denied"

// unknownOf makes an answer of a kind unknown.
func unknownOf[T any](kind node.Kind[T]) func(f node.Facts, key string) node.Facts {
	return func(f node.Facts, key string) node.Facts {
		return f.With(kind.Answer(key, node.Unknown[T](unread, kind.Get(f, key).Source())))
	}
}

var forgetting = map[string]func(f node.Facts, key string) node.Facts{
	node.Sysctl.Name():           unknownOf(node.Sysctl),
	node.SysctlFiles.Name():      unknownOf(node.SysctlFiles),
	node.Module.Name():           unknownOf(node.Module),
	node.ModulesLoadFiles.Name(): unknownOf(node.ModulesLoadFiles),
	node.ModprobeFiles.Name():    unknownOf(node.ModprobeFiles),
	node.ModuleSigning.Name():    unknownOf(node.ModuleSigning),
	node.CommandLine.Name():      unknownOf(node.CommandLine),
	node.Boot.Name():             unknownOf(node.Boot),
	node.Initramfs.Name():        unknownOf(node.Initramfs),
	node.IOMMU.Name():            unknownOf(node.IOMMU),
	node.File.Name():             unknownOf(node.File),
	node.Path.Name():             unknownOf(node.Path),
	node.Mount.Name():            unknownOf(node.Mount),
	node.NCCLUserFiles.Name():    unknownOf(node.NCCLUserFiles),
	node.Unit.Name():             unknownOf(node.Unit),
	node.UnitFiles.Name():        unknownOf(node.UnitFiles),
	node.OwnedDropIns.Name():     unknownOf(node.OwnedDropIns),
	node.SystemConfFiles.Name():  unknownOf(node.SystemConfFiles),
	node.LimitsFiles.Name():      unknownOf(node.LimitsFiles),
	node.ProcLimits.Name():       unknownOf(node.ProcLimits),
	node.RDMAPort.Name():         unknownOf(node.RDMAPort),
	node.NUMANodes.Name():        unknownOf(node.NUMANodes),
	node.CPUs.Name():             unknownOf(node.CPUs),
	node.Link.Name():             unknownOf(node.Link),
	node.LinkManagement.Name():   unknownOf(node.LinkManagement),
	node.FlowControl.Name():      unknownOf(node.FlowControl),
	node.DCB.Name():              unknownOf(node.DCB),
	node.RoCE.Name():             unknownOf(node.RoCE),
	node.PCIRegisters.Name():     unknownOf(node.PCIRegisters),
	node.PCILink.Name():          unknownOf(node.PCILink),

	node.NVIDIADriver.Name():          unknownOf(node.NVIDIADriver),
	node.NVML.Name():                  unknownOf(node.NVML),
	node.FabricManager.Name():         unknownOf(node.FabricManager),
	node.IMEX.Name():                  unknownOf(node.IMEX),
	node.GPUInfo.Name():               unknownOf(node.GPUInfo),
	node.NVLinks.Name():               unknownOf(node.NVLinks),
	node.P2P.Name():                   unknownOf(node.P2P),
	node.GPUFabric.Name():             unknownOf(node.GPUFabric),
	node.ConfidentialComputing.Name(): unknownOf(node.ConfidentialComputing),
	node.GPUUsers.Name():              unknownOf(node.GPUUsers),
	node.RDMAUsers.Name():             unknownOf(node.RDMAUsers),
	node.SlurmJobs.Name():             unknownOf(node.SlurmJobs),
	node.KernelLog.Name():             unknownOf(node.KernelLog),
}

// forget makes the answer to q unknown.
func forget(f node.Facts, q node.Query) node.Facts { return forgetting[q.Kind](f, q.Key) }

// change edits a known answer; an unknown one stays.
func change[T any](f node.Facts, kind node.Kind[T], key string, edit func(*T)) node.Facts {
	v := kind.Get(f, key)
	x, ok := v.Get()
	if !ok {
		return f
	}
	edit(&x)
	return f.With(kind.Answer(key, node.Known(x, v.Source())))
}

// keys are those under which facts answer a kind.
func keys(f node.Facts, kind string) []string {
	var list []string
	for _, q := range f.Queries() {
		if q.Kind == kind {
			list = append(list, q.Key)
		}
	}
	return list
}

// drift changes one thing about a node at random.
func drift(t *rapid.T, f node.Facts) node.Facts {
	names := slices.Sorted(maps.Keys(drifts))
	return drifts[rapid.SampledFrom(names).Draw(t, "drift")](t, f)
}

var drifts = map[string]func(*rapid.T, node.Facts) node.Facts{
	"forget": func(t *rapid.T, f node.Facts) node.Facts {
		q := rapid.SampledFrom(f.Queries()).Draw(t, "query")
		if m, _ := f.Inventory.Marker.Get(); q == node.Mount.Query(markerDir) && m.BootID != "" {
			return f
		}
		return forget(f, q)
	},
	"sysctl": func(t *rapid.T, f node.Facts) node.Facts {
		return change(f, node.Sysctl, "kernel.numa_balancing", func(v *string) {
			*v = rapid.SampledFrom([]string{"0", "1", "2", " 0 ", ""}).Draw(t, "value")
		})
	},
	"module":       driftModule,
	"signing":      driftSigning,
	"command line": driftCommandLine,
	"boot":         driftBoot,
	"iommu":        driftIOMMU,
	"unit":         driftUnit,
	"process":      driftProcess,
	"nccl":         driftNCCL,
	"RDMA port":    driftRDMAPort,
	"rail":         driftRail,
	"path":         driftPath,
	"mount":        driftMount,
	"inventory":    driftInventory,
	"registers":    driftRegisters,
	"PCI link":     driftPCILink,
	"VFIO":         driftVFIO,
	"sysctl.d":     lists(node.SysctlFiles, "/etc/sysctl.d/", sysctlLines),
	"modules-load": lists(node.ModulesLoadFiles, "/etc/modules-load.d/", []string{"nvidia_peermem", "nvidia-peermem", "nv_peer_mem", "mlx5_ib", "# nothing", "gdrdrv"}),
	"modprobe": lists(node.ModprobeFiles, "/etc/modprobe.d/", []string{
		"blacklist nvidia_peermem", "blacklist nv_peer_mem", "install nvidia-peermem /bin/true", "install mlx5_ib /bin/false",
		"options nvidia_peermem peerdirect_support=1", "options nvidia_peermem \\", "softdep nvidia post: nvidia-peermem",
	}),
	"limits": lists(node.LimitsFiles, "/etc/security/limits.d/", []string{
		"* - memlock unlimited", "root - memlock unlimited", "* soft memlock 64", "* hard memlock 65536", "root soft memlock 1024",
		"@users - memlock 8192", "1000: - memlock 64", "* -", "* - memlock 64M", "junk",
	}),
	"system.conf": lists(node.SystemConfFiles, "/etc/systemd/system.conf.d/", unitLines),
	"drop-ins":    driftDropIns,
	"unit files": func(t *rapid.T, f node.Facts) node.Facts {
		unit := rapid.SampledFrom(keys(f, node.UnitFiles.Name())).Draw(t, "unit")
		return editFiles(t, f, node.UnitFiles, unit, "/etc/systemd/system/"+unit+".d/", unitLines)
	},
	"link":       driftLink,
	"dcb":        driftDCB,
	"roce":       driftRoCE,
	"nccl users": lists(node.NCCLUserFiles, "/home/a/", ncclLines),
}

var (
	sysctlLines = []string{
		"kernel.numa_balancing = 0", "kernel.numa_balancing = 1", "kernel/numa_balancing=2", "-kernel.numa_balancing = 1",
		"kernel.numa_balancing", "; note", "kernel.* = 1", "-kernel.numa_balancing", "vm.swappiness = 1",
	}
	unitLines = []string{
		"[Service]", "[Manager]", "LimitMEMLOCK=infinity", "LimitMEMLOCK=8M", "LimitMEMLOCK=64K:infinity", "LimitMEMLOCK=", "DefaultLimitMEMLOCK=infinity",
		"DefaultLimitMEMLOCK=65536", "LimitNOFILE=1024", "LimitMEMLOCK=\\", "junk",
	}
	ncclLines = []string{
		"NCCL_IB_TC=104", "NCCL_IB_TC=\"104\"", "NCCL_IB_TC=0", "NCCL_IB_TC = 104", "export NCCL_IB_TC=104", "NCCL_IB_TC=104\r", "# NCCL_IB_TC=1",
		"NCCL_IB_TC=0x68", "NCCL_IB_HCA=mlx5_1", "NCCL_IB_QPS=4", "NCCL_DEBUG=TRACE", "NCCL_P2P_DISABLE=1", "", "PATH=/bin", "\xff\xfe",
		"# BEGIN busbar", "# END busbar",
	}
	fileNames = []string{"00-a.conf", "50-b.conf", "zz-busbar.conf", "busbar.conf", "zz-later.conf", "zzz.conf", "notes.txt"}
)

// lists changes a list of configuration files.
func lists(kind node.Kind[[]confdir.File], dir string, lines []string) func(*rapid.T, node.Facts) node.Facts {
	return func(t *rapid.T, f node.Facts) node.Facts { return editFiles(t, f, kind, "", dir, lines) }
}

func editFiles(t *rapid.T, f node.Facts, kind node.Kind[[]confdir.File], key, dir string, lines []string) node.Facts {
	return change(f, kind, key, func(list *[]confdir.File) { *list = edited(t, *list, dir, fileNames, lines) })
}

// edited adds a file to a list, or lines to one of its files, makes one unreadable, or takes one out.
func edited(t *rapid.T, list []confdir.File, dir string, names, lines []string) []confdir.File {
	list = slices.Clone(list)
	text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 1, 4).Draw(t, "lines"), "\n")
	if rapid.IntRange(0, 9).Draw(t, "complete") > 0 {
		text += "\n"
	}
	verb := rapid.SampledFrom([]string{"add", "append", "prepend", "unread", "remove"}).Draw(t, "verb")
	if verb == "add" || len(list) == 0 {
		p := dir + rapid.SampledFrom(names).Draw(t, "name")
		list = slices.DeleteFunc(list, func(f confdir.File) bool { return f.Path == p })
		list = append(list, confdir.File{Path: p, Text: text})
		slices.SortStableFunc(list, func(a, b confdir.File) int { return strings.Compare(a.Path, b.Path) })
		return list
	}
	i := rapid.IntRange(0, len(list)-1).Draw(t, "file")
	switch verb {
	case "append":
		list[i].Text += text
	case "prepend":
		list[i].Text = text + list[i].Text
	case "unread":
		list[i].Text, list[i].Reason = "", unread
	case "remove":
		list = slices.Delete(list, i, i+1)
	}
	return list
}

// driftDropIns leaves drop-ins of busbar behind, of units that it manages and of others.
func driftDropIns(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.OwnedDropIns, "", func(list *[]confdir.File) {
		unit := rapid.SampledFrom([]string{"slurmd.service", "containerd.service", "docker.service", "gone.service"}).Draw(t, "unit")
		*list = edited(t, *list, "/etc/systemd/system/"+unit+".d/", []string{"zz-busbar.conf"}, unitLines)
	})
}

func driftModule(t *rapid.T, f node.Facts) node.Facts {
	name := rapid.SampledFrom(keys(f, node.Module.Name())).Draw(t, "module")
	return change(f, node.Module, name, func(m *node.ModuleState) {
		m.Kernels = slices.Clone(m.Kernels)
		switch rapid.SampledFrom([]string{"loaded", "held", "nowhere", "one kernel", "unsigned", "built in", "path"}).Draw(t, "what") {
		case "loaded":
			m.Loaded = !m.Loaded
			m.RefCount, m.Holders = 0, nil
		case "held":
			m.Loaded, m.RefCount, m.Holders = true, 2, []string{"ib_umad"}
		case "nowhere":
			for i := range m.Kernels {
				m.Kernels[i].Path, m.Kernels[i].Signed = "", node.Value[bool]{}
			}
		case "one kernel":
			if len(m.Kernels) > 0 {
				m.Kernels[rapid.IntRange(0, len(m.Kernels)-1).Draw(t, "kernel")].Path = ""
			}
		case "unsigned":
			for i := range m.Kernels {
				m.Kernels[i].Signed = node.Known(false, node.Source{Path: m.Kernels[i].Path})
			}
		case "built in":
			for i := range m.Kernels {
				m.Kernels[i].BuiltIn, m.Kernels[i].Path = true, ""
			}
		case "path":
			for i := range m.Kernels {
				m.Kernels[i].Path = "/lib/modules/" + m.Kernels[i].Release + "/extra/" + name + ".ko"
			}
		}
	})
}

func driftSigning(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.ModuleSigning, "", func(s *node.ModuleSigningState) {
		s.Enforced = rapid.Bool().Draw(t, "enforced")
		s.ModulesDisabled = rapid.IntRange(0, 3).Draw(t, "disabled") == 0
		s.Lockdown = rapid.SampledFrom([]string{"", "none", "none", "integrity", "confidentiality"}).Draw(t, "lockdown")
	})
}

var arguments = []string{
	"iommu=pt", "iommu=nopt", "iommu=off", "iommu.passthrough=1", "iommu.passthrough=0", "intel_iommu=on", "intel_iommu=off", "intel_iommu=on,sm_on",
	"amd_iommu=on", "amd_iommu=off", "pci=pcie_bus_perf", "pci=disable_acs_redir=15:01.0;37:01.0", "pci=noacs", "pci=noaer,noacs", "module_blacklist=nvidia_peermem", "modprobe.blacklist=nv_peer_mem", "quiet",
	"numa_balancing=disable", "--", "init=/bin/sh",
}

// arguments draws a few kernel arguments.
func drawArguments(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(arguments), 1, 4).Draw(t, "arguments"), " ")
}

func driftCommandLine(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.CommandLine, "", func(line *string) {
		if rapid.Bool().Draw(t, "anew") {
			*line = "ro " + drawArguments(t)
			return
		}
		*line += " " + drawArguments(t)
	})
}

func driftBoot(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.Boot, "", func(b *node.BootConfig) {
		switch rapid.SampledFrom([]string{"loader", "no update-grub", "no grub.cfg", "grub.cfg unread", "stale", "fragment", "replaced", "pinned", "broken"}).Draw(t, "what") {
		case "loader":
			b.Loader = rapid.SampledFrom([]string{node.LoaderGRUBBLS, node.LoaderSystemdBoot, node.LoaderOSTree, node.LoaderNone}).Draw(t, "loader")
		case "no update-grub":
			b.UpdateGrub = false
		case "no grub.cfg":
			b.Generated = ""
		case "grub.cfg unread":
			b.Generated, b.GeneratedReason = "", unread
		case "stale":
			b.Generated = strings.ReplaceAll(b.Generated, rapid.SampledFrom([]string{" iommu=pt", " intel_iommu=on", " ro "}).Draw(t, "word"), " ")
		case "fragment":
			b.Defaults = edited(t, b.Defaults, "/etc/default/grub.d/", []string{"10-a.cfg", "60-gpu.cfg", "zz-busbar.cfg", "zz-later.cfg", "zzz.cfg"},
				[]string{`GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT ` + drawArguments(t) + `"`, "# note", "GRUB_TIMEOUT=1"})
		case "replaced":
			b.Defaults = edited(t, b.Defaults, "/etc/default/grub.d/", []string{"10-a.cfg", "zz-later.cfg"},
				[]string{"GRUB_CMDLINE_LINUX_DEFAULT='" + drawArguments(t) + "'", `GRUB_CMDLINE_LINUX="` + drawArguments(t) + `"`, "GRUB_CMDLINE_LINUX_DEFAULT=$(cat /x)"})
		case "pinned":
			b.Defaults = edited(t, b.Defaults, "/etc/default/grub.d/", []string{"20-default.cfg"}, []string{"GRUB_DEFAULT=saved", `GRUB_DEFAULT="1>1"`, "GRUB_DEFAULT=2", "GRUB_DEFAULT=7"})
		case "broken":
			b.Defaults = edited(t, b.Defaults, "/etc/default/grub.d/", []string{"30-broken.cfg"}, []string{`GRUB_CMDLINE_LINUX="x`, "if true; then", "fi"})
		}
	})
}

func driftIOMMU(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.IOMMU, "", func(s *node.IOMMUState) {
		s.Groups = slices.Clone(s.Groups)
		switch rapid.SampledFrom([]string{"off", "no table", "all", "one", "no groups", "type unread", "many CPUs"}).Draw(t, "what") {
		case "off":
			s.Units, s.Groups = nil, nil
		case "no table":
			s.Units, s.Groups, s.Tables = nil, nil, nil
		case "all":
			kind := rapid.SampledFrom([]string{"identity", "DMA", "DMA-FQ"}).Draw(t, "type")
			for i := range s.Groups {
				s.Groups[i].Type = node.Known(kind, s.Groups[i].Type.Source())
			}
		case "one":
			if len(s.Groups) > 0 {
				i := rapid.IntRange(0, len(s.Groups)-1).Draw(t, "group")
				s.Groups[i].Type = node.Known("DMA", s.Groups[i].Type.Source())
			}
		case "no groups":
			s.Groups = nil
		case "type unread":
			for i := range s.Groups {
				s.Groups[i].Type = node.Unknown[string](unread, s.Groups[i].Type.Source())
			}
		case "many CPUs":
			s.MaxAPICID = node.Known(511, node.Source{Path: "/proc/cpuinfo"})
		}
	})
}

func driftUnit(t *rapid.T, f node.Facts) node.Facts {
	name := rapid.SampledFrom(keys(f, node.Unit.Name())).Draw(t, "unit")
	return change(f, node.Unit, name, func(u *node.UnitState) {
		u.Load = rapid.SampledFrom([]string{"loaded", "loaded", "loaded", "masked", "not-found", "bad-setting"}).Draw(t, "load")
		u.File = rapid.SampledFrom([]string{"enabled", "disabled", "static", "masked", "generated", "indirect", "enabled-runtime", ""}).Draw(t, "file")
		u.Active = node.Known(rapid.SampledFrom([]string{"active", "inactive", "failed", "activating"}).Draw(t, "active"), u.Active.Source())
		if rapid.IntRange(0, 4).Draw(t, "no bus") == 0 {
			u.Active = node.Unknown[string]("no D-Bus", node.Source{})
		}
		u.NeedReload = rapid.Bool().Draw(t, "reload")
	})
}

func driftProcess(t *rapid.T, f node.Facts) node.Facts {
	name := rapid.SampledFrom(keys(f, node.ProcLimits.Name())).Draw(t, "unit")
	return change(f, node.ProcLimits, name, func(p *node.ProcessLimits) {
		*p = rapid.SampledFrom([]node.ProcessLimits{
			{},
			{Running: true, PID: 7, Text: "Max locked memory         8388608              8388608              bytes     \n"},
			{Running: true, PID: 7, Text: "Max locked memory         65536                unlimited            bytes     \n"},
			{Running: true, PID: 7, Text: "Max locked memory         unlimited            unlimited            bytes     \n"},
			{Running: true, PID: 7, Text: "Max open files            1024                 1024                 files     \n"},
			{Running: true, PID: 7, Text: "Max locked memory         many\n"},
			{Running: true, PID: 7},
		}).Draw(t, "limits")
	})
}

func driftNCCL(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.File, sink.NCCLPath, func(s *node.FileState) {
		files := []confdir.File{}
		if s.Exists {
			files = append(files, confdir.File{Path: sink.NCCLPath, Text: s.Text})
		}
		files = edited(t, files, "/etc/", []string{"nccl.conf"}, ncclLines)
		*s = node.FileState{}
		if len(files) > 0 {
			*s = node.FileState{Exists: true, Text: files[0].Text}
		}
	})
}

// port draws a port that answers a kind of query, or none.
func port(t *rapid.T, f node.Facts, kind string) string {
	all := keys(f, kind)
	if len(all) == 0 {
		return ""
	}
	return rapid.SampledFrom(all).Draw(t, "port")
}

func driftLink(t *rapid.T, f node.Facts) node.Facts {
	key := port(t, f, node.Link.Name())
	f = change(f, node.FlowControl, key, func(s *node.FlowControlState) {
		s.Pause = rapid.SampledFrom([]node.Value[ethtool.Pause]{
			node.Known(ethtool.Pause{}, s.Pause.Source()), node.Known(ethtool.Pause{Rx: true}, s.Pause.Source()), node.Known(ethtool.Pause{Autonegotiate: true, Tx: true}, s.Pause.Source()),
			node.Unsupported[ethtool.Pause]("the driver has none", s.Pause.Source()), node.Unknown[ethtool.Pause](unread, s.Pause.Source()),
		}).Draw(t, "pause")
	})
	f = change(f, node.LinkManagement, key, func(s *node.LinkManagementState) {
		path := node.Source{Path: "/etc/network/interfaces", Line: 3}
		mtu := rapid.SampledFrom([]node.Value[int]{node.Known(0, path), node.Known(1500, path), node.Known(9000, path), node.Unknown[int](unread, path)})
		s.Udev.MTU, s.Managers = mtu.Draw(t, "MTU of udev"), nil
		for _, name := range rapid.SampledFrom([][]string{nil, {node.ManagerIfupdown}, {node.ManagerNetworkManager, node.ManagerIfupdown}}).Draw(t, "managers") {
			s.Managers = append(s.Managers, node.LinkManager{Name: name, File: path.Path, MTU: mtu.Draw(t, "MTU of a file")})
		}
	})
	return change(f, node.Link, key, func(s *node.LinkState) {
		s.MTU = rapid.SampledFrom([]node.Value[int]{node.Known(1500, s.MTU.Source()), node.Known(9000, s.MTU.Source()), node.Unknown[int](unread, s.MTU.Source())}).Draw(t, "MTU")
		s.Carrier = rapid.SampledFrom([]node.Value[bool]{node.Known(true, s.Carrier.Source()), node.Known(false, s.Carrier.Source()), node.Unknown[bool]("the network device is down", s.Carrier.Source())}).Draw(t, "carrier")
	})
}

func driftDCB(t *rapid.T, f node.Facts) node.Facts {
	key := port(t, f, node.DCB.Name())
	if rapid.IntRange(0, 9).Draw(t, "none") == 0 && key != "" {
		return f.With(node.DCB.Answer(key, node.Unsupported[node.DCBState]("the driver has no DCB operations", node.Source{})))
	}
	return change(f, node.DCB, key, func(s *node.DCBState) {
		switch rapid.SampledFrom([]string{"driver", "dcbx", "pfc", "apps", "trust", "less"}).Draw(t, "what") {
		case "driver":
			s.Driver = rapid.SampledFrom([]string{"mlx5_core", "bnxt_en", "ice"}).Draw(t, "driver")
		case "dcbx":
			s.DCBX = node.Known(dcbnl.DCBX(rapid.Uint8Range(0, 31).Draw(t, "dcbx")), s.DCBX.Source())
		case "pfc":
			s.PFC = node.Known(dcbnl.PFC{Enabled: dcbnl.Priorities(rapid.Byte().Draw(t, "priorities"))}, s.PFC.Source())
		case "apps":
			apps := []dcbnl.App{}
			for range rapid.IntRange(0, 9).Draw(t, "entries") {
				apps = append(apps, dcbnl.App{
					Selector: rapid.SampledFrom([]dcbnl.Selector{dcbnl.DSCP, dcbnl.DSCP, dcbnl.DatagramPort}).Draw(t, "selector"),
					Protocol: uint16(rapid.SampledFrom([]int{0, 24, 26, 27, 48, 63}).Draw(t, "protocol")), Priority: rapid.Uint8Range(0, 7).Draw(t, "priority"),
				})
			}
			slices.SortFunc(apps, dcbnl.CompareApps)
			s.Apps = node.Known(slices.Compact(apps), s.Apps.Source())
		case "trust":
			s.Trust = node.Known(rapid.SampledFrom([]string{node.TrustDSCP, node.TrustPCP, node.TrustNone}).Draw(t, "trust"), s.Trust.Source())
		case "less":
			s.PFC, s.DCBX = node.Unsupported[dcbnl.PFC]("no such operation", s.PFC.Source()), node.Unsupported[dcbnl.DCBX]("no such operation", s.DCBX.Source())
		}
	})
}

func driftRoCE(t *rapid.T, f node.Facts) node.Facts {
	return change(f, node.RoCE, port(t, f, node.RoCE.Name()), func(s *node.RoCEState) {
		switch rapid.SampledFrom([]string{"ecn", "cnp", "class", "tos", "directory", "inbox", "no RDMA"}).Draw(t, "what") {
		case "ecn":
			s.NotificationPoint = node.Known(dcbnl.Priorities(rapid.Byte().Draw(t, "priorities")), s.NotificationPoint.Source())
		case "cnp":
			s.CNPDSCP = node.Known(rapid.IntRange(0, 63).Draw(t, "DSCP"), s.CNPDSCP.Source())
		case "class":
			s.TrafficClass = node.Known(node.TrafficClass{Global: rapid.SampledFrom([]int{-1, 0, 104, 105, 236}).Draw(t, "class")}, s.TrafficClass.Source())
		case "tos":
			s.DefaultToS = node.Known(rapid.SampledFrom([]int{0, 104, 106, 255}).Draw(t, "ToS"), s.DefaultToS.Source())
		case "directory":
			s.DefaultToS = node.Awaiting[int]("it can only be read in a directory that nobody has made", node.CapabilityRDMACM, s.DefaultToS.Source())
			s.DefaultMode = node.UnknownLike[string](s.DefaultToS)
		case "inbox":
			s.NotificationPoint, s.ReactionPoint = node.Unsupported[dcbnl.Priorities]("none", node.Source{}), node.Unsupported[dcbnl.Priorities]("none", node.Source{})
			s.CNPDSCP, s.CNPPriority, s.TrafficClass = node.Unsupported[int]("none", node.Source{}), node.Unsupported[int]("none", node.Source{}), node.Unsupported[node.TrafficClass]("none", node.Source{})
			if rapid.Bool().Draw(t, "parameters") {
				s.CCParams = node.Known(map[string]uint32{"np_cnp_dscp": 48, "np_cnp_prio": 6, "np_cnp_prio_mode": uint32(rapid.IntRange(0, 1).Draw(t, "mode"))}, node.Source{Path: "/sys/kernel/debug/mlx5"})
			}
		case "no RDMA":
			s.DefaultToS = node.Awaiting[int]("the NIC has no RDMA device", node.CapabilityRDMA, node.Source{})
			s.TrafficClass = node.UnknownLike[node.TrafficClass](s.DefaultToS)
		}
	})
}

func driftPath(t *rapid.T, f node.Facts) node.Facts {
	p := rapid.SampledFrom(keys(f, node.Path.Name())).Draw(t, "path")
	return change(f, node.Path, p, func(s *node.PathState) {
		*s = rapid.SampledFrom([]node.PathState{{}, {Exists: true, Type: "character-device", Mode: "0666"}, {Exists: true, Type: "file", Mode: "0644"}, {Exists: true, Type: "symlink"}}).Draw(t, "state")
	})
}

// driftRegisters changes what a function's registers hold, or what can be read of them.
func driftRegisters(t *rapid.T, f node.Facts) node.Facts {
	addresses := keys(f, node.PCIRegisters.Name())
	if len(addresses) == 0 {
		return f
	}
	address := rapid.SampledFrom(addresses).Draw(t, "function")
	return change(f, node.PCIRegisters, address, func(s *node.PCIRegisterState) {
		acs, _ := s.ACS.Get()
		express, _ := s.Express.Get()
		switch rapid.SampledFrom([]string{"ACS", "no ACS", "read request", "ordering", "conventional", "half unread", "unread"}).Draw(t, "what") {
		case "ACS":
			acs.Enabled = acs.Supported & pciregs.ACSBits(rapid.IntRange(0, 0x7f).Draw(t, "functions"))
			s.ACS = node.Known(acs, s.ACS.Source())
		case "no ACS":
			s.ACS = node.Known(pciregs.ACS{}, s.ACS.Source())
		case "read request":
			express.MaxReadRequest = rapid.SampledFrom([]int{128, 256, 512, 1024, 2048, 4096}).Draw(t, "bytes")
			s.Express = node.Known(express, s.Express.Source())
		case "ordering":
			express.RelaxedOrdering = !express.RelaxedOrdering
			s.Express = node.Known(express, s.Express.Source())
		case "conventional":
			s.Express, s.ACS = node.Known(pciregs.Express{}, s.Express.Source()), node.Known(pciregs.ACS{}, s.ACS.Source())
		case "half unread":
			s.ACS = node.Unknown[pciregs.ACS](unread, s.ACS.Source())
		case "unread":
			s.Express, s.ACS = node.Unknown[pciregs.Express](unread, s.Express.Source()), node.Unknown[pciregs.ACS](unread, s.ACS.Source())
		}
	})
}

func driftPCILink(t *rapid.T, f node.Facts) node.Facts {
	addresses := keys(f, node.PCILink.Name())
	if len(addresses) == 0 {
		return f
	}
	address := rapid.SampledFrom(addresses).Draw(t, "function")
	return change(f, node.PCILink, address, func(s *node.PCILinkState) {
		link := pciregs.Link{SpeedGTs: rapid.SampledFrom([]float64{2.5, 8, 16, 32, 64}).Draw(t, "speed"), Width: rapid.SampledFrom([]int{1, 8, 16}).Draw(t, "width")}
		switch rapid.SampledFrom([]string{"now", "best", "none", "unread"}).Draw(t, "what") {
		case "now":
			s.Current = node.Known(link, s.Current.Source())
		case "best":
			s.Max = node.Known(link, s.Max.Source())
		case "none":
			s.Current = node.Unsupported[pciregs.Link]("no link is up", s.Current.Source())
		case "unread":
			s.Max = node.Unknown[pciregs.Link](unread, s.Max.Source())
		}
	})
}

// driftVFIO hands a function to a guest.
func driftVFIO(t *rapid.T, f node.Facts) node.Facts {
	inv := f.Inventory
	functions, ok := inv.PCI.Get()
	if !ok || len(functions) == 0 {
		return f
	}
	functions = slices.Clone(functions)
	functions[rapid.IntRange(0, len(functions)-1).Draw(t, "function")].Driver = "vfio-pci"
	inv.PCI = node.Known(functions, inv.PCI.Source())
	return f.WithInventory(inv)
}

// markerDir holds the marker. Where it stands the directory can be written, else it could
// neither have been left nor be renewed.
var markerDir = path.Dir(node.MarkerPath)

func driftMount(t *rapid.T, f node.Facts) node.Facts {
	dir := rapid.SampledFrom(keys(f, node.Mount.Name())).Draw(t, "directory")
	if m, _ := f.Inventory.Marker.Get(); dir == markerDir && m.BootID != "" {
		return f
	}
	return change(f, node.Mount, dir, func(m *node.MountState) {
		m.Type = rapid.SampledFrom([]string{"ext4", "xfs", "tmpfs", "overlay"}).Draw(t, "type")
		m.Immutable = rapid.SampledFrom([]string{"", "", "", "NixOS"}).Draw(t, "immutable")
		m.ReadOnly = rapid.IntRange(0, 4).Draw(t, "read-only") == 0
	})
}

// driftRDMAPort takes a port down, slows it, or changes its GIDs.
func driftRDMAPort(t *rapid.T, f node.Facts) node.Facts {
	ports := keys(f, node.RDMAPort.Name())
	if len(ports) == 0 {
		return f
	}
	return change(f, node.RDMAPort, rapid.SampledFrom(ports).Draw(t, "port"), func(s *node.RDMAPortState) {
		source := s.State.Source()
		switch rapid.SampledFrom([]string{"down", "InfiniBand", "unread", "no GIDs", "other GIDs"}).Draw(t, "what") {
		case "down":
			s.State, s.PhysState = node.Known("DOWN", source), node.Known("Disabled", source)
		case "InfiniBand":
			s.LinkLayer = "InfiniBand"
		case "unread":
			s.State, s.GIDs = node.Unknown[string](unread, source), node.Unknown[[]node.GID](unread, source)
		case "no GIDs":
			s.GIDs = node.Known([]node.GID{}, source)
		case "other GIDs":
			s.GIDs = node.Known([]node.GID{
				{Index: rapid.IntRange(0, 4).Draw(t, "index"), GID: "fe80:0000:0000:0000:ba3f:d2ff:fe5a:001c", Type: node.GIDRoCEv2, Netdev: "enp26s0np0"},
				{Index: 5, GID: "0000:0000:0000:0000:0000:ffff:c612:0011", Type: node.GIDRoCEv1},
			}, source)
		}
	})
}

// driftRail changes the link of a rail.
func driftRail(t *rapid.T, f node.Facts) node.Facts {
	links := keys(f, node.Link.Name())
	if len(links) == 0 {
		return f
	}
	return change(f, node.Link, rapid.SampledFrom(links).Draw(t, "link"), func(s *node.LinkState) {
		source := s.MTU.Source()
		switch rapid.SampledFrom([]string{"MTU", "speed", "MAC", "unread"}).Draw(t, "what") {
		case "MTU":
			s.MTU = node.Known(rapid.SampledFrom([]int{68, 1500, 4200, 9000}).Draw(t, "MTU"), source)
		case "speed":
			s.Speed = rapid.SampledFrom([]node.Value[int]{node.Known(200_000, source), node.Unknown[int]("there is no link", source)}).Draw(t, "speed")
		case "MAC":
			s.MAC = node.Known("02:00:00:00:00:01", source)
		case "unread":
			s.MTU, s.MAC = node.Unknown[int](unread, source), node.Value[string]{}
		}
	})
}

// driftInventory changes what the node is: fewer devices, another boot, less known.
func driftInventory(t *rapid.T, f node.Facts) node.Facts {
	inv := f.Inventory
	source := node.Source{Path: "/sys"}
	switch rapid.SampledFrom([]string{"fewer functions", "fewer netdevs", "no RDMA", "no PCI", "architecture", "virtual", "kernel", "marker", "boot id", "saved NICs", "root directory"}).Draw(t, "what") {
	case "fewer functions":
		functions, ok := inv.PCI.Get()
		if !ok {
			return f
		}
		functions = slices.Clone(functions)
		for range rapid.IntRange(1, 40).Draw(t, "functions") {
			if len(functions) > 0 {
				i := rapid.IntRange(0, len(functions)-1).Draw(t, "function")
				functions = slices.Delete(functions, i, i+1)
			}
		}
		inv.PCI = node.Known(functions, inv.PCI.Source())
	case "fewer netdevs":
		if netdevs, ok := inv.Netdevs.Get(); ok && len(netdevs) > 0 {
			i := rapid.IntRange(0, len(netdevs)-1).Draw(t, "netdev")
			inv.Netdevs = node.Known(slices.Delete(slices.Clone(netdevs), i, i+1), inv.Netdevs.Source())
		}
	case "no RDMA":
		inv.RDMA = rapid.SampledFrom([]node.Value[[]node.RDMADevice]{node.Known([]node.RDMADevice{}, source), node.Unknown[[]node.RDMADevice](unread, source)}).Draw(t, "RDMA")
	case "no PCI":
		inv.PCI = node.Unknown[[]node.PCIFunction](unread, source)
	case "architecture":
		inv.Arch = rapid.SampledFrom([]node.Value[string]{node.Known("aarch64", source), node.Known("riscv64", source), {}}).Draw(t, "architecture")
	case "virtual":
		inv.Virtualization = rapid.SampledFrom([]node.Value[string]{node.Known("kvm", source), node.Known("none", source), node.Unknown[string](unread, source)}).Draw(t, "hypervisor")
	case "kernel":
		inv.Kernel = rapid.SampledFrom([]node.Value[string]{node.Known("5.15.0-138-generic", source), node.Known("6.99.0", source), {}}).Draw(t, "kernel")
	case "marker":
		f = f.With(node.Mount.Answer(markerDir, node.Known(node.MountState{Point: "/", Type: "ext4"}, node.Source{Path: "/proc/self/mountinfo"})))
		inv.Marker = rapid.SampledFrom([]node.Value[node.Marker]{
			{}, node.Known(node.Marker{FormatVersion: "1.0", BootID: "earlier", Args: []string{"iommu=pt"}}, source),
			node.Known(node.Marker{FormatVersion: "1.0", BootID: "earlier", Args: []string{"-pci=noacs", "intel_iommu=on", "iommu=pt"}}, source),
			node.Known(node.Marker{FormatVersion: "1.0", BootID: fmt.Sprint(known(inv.BootID)), Args: []string{"iommu=pt"}}, source),
		}).Draw(t, "marker")
	case "boot id":
		inv.BootID = rapid.SampledFrom([]node.Value[string]{{}, node.Known("another", source)}).Draw(t, "boot id")
	case "saved NICs":
		inv.SavedProtected = rapid.SampledFrom([]node.Value[[]string]{{}, node.Known([]string{}, source), node.Known([]string{"0000:ff:00.0"}, source)}).Draw(t, "saved")
		if rapid.Bool().Draw(t, "no route") {
			inv.Routes = node.Known([]node.Route{}, source)
		}
	case "root directory":
		inv.RootDirectory = true
	}
	return f.WithInventory(inv)
}

func known(v node.Value[string]) string {
	s, _ := v.Get()
	return s
}
