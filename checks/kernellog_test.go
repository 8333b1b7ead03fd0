package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"busbar/checks"
	"busbar/internal/kernlog"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// logged is a node with two H100s, a NIC and a disk controller whose kernel has said this, from its first word on.
func logged(text string, more ...node.Answer) node.Facts {
	source := node.Source{Path: "/dev/kmsg"}
	state := node.NewKernelLogState(kernlog.ParseText(text), source)
	state.Lost = node.Known(0, source)
	f := newBox("2330", 2, func(b *box) {
		b.others = append(b.others, node.PCIFunction{Address: "0000:5e:00.0", Vendor: "15b3", Device: "1021", Class: "020700"}, node.PCIFunction{Address: "0000:02:00.0", Vendor: "8086", Device: "a182", Class: "010601"})
	})
	return f.With(append([]node.Answer{node.KernelLog.Answer("", node.Known(state, source)), node.Module.Answer("nv_peer_mem", known(node.ModuleState{}))}, more...)...)
}

func TestKernelLog(t *testing.T) {
	all := `check "kernel_log" "all" {}`
	one := func(name, text, want string, says ...string) plantest.Case {
		want += " (/dev/kmsg)"
		after := want
		if strings.HasPrefix(want, "ok ") {
			after = ""
		}
		return plantest.Case{Name: name, Blocks: all, Facts: logged(text), Want: want, After: after, Says: says}
	}
	gpu := gpuAddress(0)
	line := func(number int, rest string) string {
		return fmt.Sprintf("NVRM: Xid (PCI:%s): %d, %s", strings.TrimSuffix(gpu, ".0"), number, rest)
	}
	cases := []plantest.Case{
		one("nothing", "[    1.000000] nvidia: loading\n", "ok kernel_log.faults log", "the kernel's log tells of no fault in 1 record"),
		one("off the bus", "[   90.000000] "+line(79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."), "drift kernel_log.xid "+gpu,
			"GPU "+gpu+" (H100 80GB HBM3): Xid 79: the GPU has fallen off the bus (90.0 s after boot)", "power the node off and on"),
		one("a job's mistake", line(31, "MMU Fault"), "drift info kernel_log.xid "+gpu),
		one("memory that is watched", line(94, "Contained"), "drift warn kernel_log.xid "+gpu),
		one("NVLink", line(145, "RLW_REMAP Nonfatal"), "drift kernel_log.xid "+gpu, "check \"nvlink\" names dead links"),
		one("the GSP hangs", line(119, "Timeout")+"\n"+line(119, "Timeout"), "drift kernel_log.xid "+gpu, "does not answer (2 times)", "nvidia-smi --gpu-reset -i "+gpu),
		one("an Xid that nobody knows", line(999, "?"), "drift warn kernel_log.xid "+gpu, "docs.nvidia.com/deploy/xid-errors"),
		one("a reset is owed", line(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"), "drift kernel_log.xid "+gpu, "says what it needs now: Node Reboot Required"),
		one("a reset was owed", line(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"), "ok kernel_log.faults log"),
		one("an NVSwitch fails", "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack timeout error (First)", "drift kernel_log.sxid 0000:c3:00.0", "reset all GPUs and switches together"),
		one("an NVSwitch complains", "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 46 egress", "drift warn kernel_log.sxid 0000:c3:00.0"),
		one("a port cuts off", "pcieport 0000:30:03.0: DPC: containment event, status:0x0005 source:0x3400", "drift kernel_log.containment 0000:30:03.0"),
		one("a slot's link goes down", "pcieport 0000:30:03.0: pciehp: Slot(16): Link Down", "drift warn kernel_log.link_down 0000:30:03.0"),
		one("a NIC's slow link", "pci 0000:5e:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:5d:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)", "drift warn kernel_log.slow_link 0000:5e:00.0"),
		one("a disk's slow link", "pci 0000:02:00.0: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x1 link at 0000:00:1c.1 (capable of 7.876 Gb/s with 8.0 GT/s PCIe x1 link)", "drift info kernel_log.slow_link 0000:02:00.0"),
		one("lost", "NVRM: GPU "+gpu+": GPU has fallen off the bus.", "drift kernel_log.gpu_lost "+gpu),
		one("a GPU that does not start", "NVRM: GPU "+gpu+": RmInitAdapter failed! (0x62:0x55:2449)", "drift kernel_log.gpu_init "+gpu, "could not start GPU "+gpu),
		one("none starts", "NVRM: None of the NVIDIA devices were initialized.", "drift kernel_log.gpu_init kernel"),
		one("nouveau was first", "NVRM: The NVIDIA probe routine was not called for 2 device(s).", "drift kernel_log.gpu_taken driver"),
		one("versions", "NVRM: API mismatch: the client has the version 470.129.06, but\nNVRM: this kernel module has the version 470.103.01.  Please", "drift warn kernel_log.version_mismatch driver", "is of 470.129.06, the kernel module of 470.103.01"),
		one("dma-buf", "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf", "drift warn kernel_log.dma_buf_refused dma-buf"),
		one("peermem races", "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping", "drift warn kernel_log.peer_memory nvidia_peermem", "had given back already, and caught it"),
		one("peermem fails", "nvidia-peermem nv_mem_client_init:436 ERROR x", "drift warn kernel_log.peer_memory nvidia_peermem"),
		one("AER, fatal", "nvidia "+gpu+": PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)", "drift kernel_log.aer "+gpu),
		one("AER, now and then", "nvidia "+gpu+": PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", "drift info kernel_log.aer "+gpu),
		one("AER, often", strings.Repeat("nvidia "+gpu+": PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n", 10), "drift warn kernel_log.aer "+gpu, "(10 times)"),
		one("AER of a disk", "ahci 0000:02:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)", "drift info kernel_log.aer 0000:02:00.0"),
		one("the IOMMU refuses a GPU", "DMAR: [DMA Write NO_PASID] Request device [1b:00.0] fault addr 0xfffc0000 [fault reason 0x05] PTE Write access is not set", "drift kernel_log.iommu_fault 0000:1b:00.0", "busbar probe p2p"),
		one("the IOMMU refuses somebody", "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]", "drift kernel_log.iommu_fault kernel"),
		one("the IOMMU refuses a disk", "ahci 0000:02:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0035 address=0x7fffff00000 flags=0x0000]", "drift info kernel_log.iommu_fault 0000:02:00.0"),
		one("no room for a GPU", "NVRM: BAR1 is 0M @ 0x0 (PCI:"+gpu+")", "drift kernel_log.bar "+gpu, "Above 4G Decoding"),
		one("a NIC's firmware", "mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count", "drift kernel_log.mlx5 0000:5e:00.0", "the firmware of NIC 0000:5e:00.0 failed"),
		one("a NIC that does not answer", "mlx5_core 0000:5e:00.0: wait_func:1195:(pid 19): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource", "drift kernel_log.mlx5 0000:5e:00.0", "did not answer"),
		one("a NIC's power", "mlx5_core 0000:5e:00.0: mlx5_pcie_event:301:(pid 2): Detected insufficient power on the PCIe slot (27W).", "drift warn kernel_log.mlx5 0000:5e:00.0", "too little power"),
		one("a NIC's heat", "mlx5_core 0000:5e:00.0: temp_warn:161:(pid 0): High temperature on sensors with bit set 0 1", "drift warn kernel_log.mlx5 0000:5e:00.0", "too hot"),
		one("a NIC's cable", "mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, Bus stuck", "drift warn kernel_log.mlx5 0000:5e:00.0", "cannot use its cable"),
		one("a module that does not fit", "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err 0)", "drift kernel_log.module_symbol nvidia_peermem", "dma-buf does without it"),
		one("a module without versions", "nvidia_fs: no symbol version for nvidia_p2p_dma_unmap_pages", "drift kernel_log.module_unversioned nvidia_fs"),
		one("Secure Boot", "nvidia: Loading of module with unavailable key is rejected", "drift kernel_log.module_unsigned nvidia", "mokutil --import"),
		one("a parameter that is gone", "nvidia: unknown parameter 'NVreg_X' ignored", "drift warn kernel_log.parameter_unknown nvidia.NVreg_X"),
		one("an argument that is none", "PCI: Unknown option `noacs'", "drift info kernel_log.option_unknown pci=noacs"),
		one("AMD's IOMMU", "AMD-Vi: Unknown option - 'on'\niommu: Default domain type: Passthrough (set via kernel command line)", "drift info kernel_log.option_unknown amd_iommu=on", "IOMMUs are set to Passthrough"),
		one("processors are missing", "smpboot: CPU 112 has invalid APIC ID 100. Aborting bringup\nsmpboot: CPU 113 has invalid APIC ID 102. Aborting bringup", "drift kernel_log.no_x2apic cpus", "2 processors did not start"),
		one("a unit was dropped", "systemd[1]: sysinit.target: Job systemd-resolved.service/start deleted to break ordering cycle starting with sysinit.target/start", "drift kernel_log.ordering_cycle systemd-resolved.service"),
	}
	loaded := plantest.Case{
		Name: "a module that was rebuilt", Blocks: all, Want: "drift info kernel_log.module_symbol nvidia_peermem (/dev/kmsg)", Says: []string{"it was loaded later all the same"},
		Facts: logged("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err 0)", node.Module.Answer("nvidia_peermem", known(node.ModuleState{Loaded: true}))),
	}
	loaded.After = loaded.Want
	ignored := plantest.Case{Name: "what has been seen to", Blocks: "check \"kernel_log\" \"all\" {\nignore_xids = [79]\n}", Facts: logged(line(79, "x")), Want: "ok kernel_log.faults log (/dev/kmsg)"}
	short := plantest.Case{
		Name: "the beginning is lost", Blocks: all, Want: "drift info kernel_log.complete log (/dev/kmsg)\nok kernel_log.faults log (/dev/kmsg)", After: "drift info kernel_log.complete log (/dev/kmsg)",
		Facts: logged("", node.KernelLog.Answer("", node.Known(node.KernelLogState{Records: 7, Lost: known(3964)}, node.Source{Path: "/dev/kmsg"}))),
		Says:  []string{"3964 records were dropped for newer ones", "no fault in 7 records"},
	}
	many := plantest.Case{
		Name: "more than fit", Blocks: all, Want: "drift info kernel_log.complete log (/dev/kmsg)\nok kernel_log.faults log (/dev/kmsg)", After: "drift info kernel_log.complete log (/dev/kmsg)",
		Facts: logged("", node.KernelLog.Answer("", node.Known(node.KernelLogState{Records: 7, Lost: known(0), Dropped: 2}, node.Source{Path: "/dev/kmsg"}))), Says: []string{"2 faults more are not shown"},
	}
	denied := plantest.Case{
		Name: "only root may read it", Blocks: all, Want: "unknown kernel_log.faults log (/dev/kmsg)", After: "unknown kernel_log.faults log (/dev/kmsg)",
		Facts: logged("", node.KernelLog.Answer("", node.Unknown[node.KernelLogState]("only root may read it", node.Source{Path: "/dev/kmsg"}))),
	}
	f := logged("")
	inv := f.Inventory
	inv.RootDirectory = true
	root := plantest.Case{Name: "a root directory", Blocks: all, Facts: f.WithInventory(inv), Want: "skipped kernel_log.faults log ()", After: "skipped kernel_log.faults log ()"}
	plantest.Run(t, checks.All(), append(cases, loaded, ignored, short, many, denied, root))

	p := (checks.KernelLog{}).Validate(plantest.Blocks(t, checks.All(), "check \"kernel_log\" \"all\" {\nignore_xids = [0]\n}")[0])
	if len(p) != 1 || p[0].Attribute != "ignore_xids" {
		t.Errorf("%+v", p)
	}
}

// TestEveryEventIsJudged: whatever the log tells, the check says something about it that has a target, or it is no fault.
func TestEveryEventIsJudged(t *testing.T) {
	kinds := []kernlog.Kind{
		kernlog.Xid, kernlog.SXid, kernlog.GPULost, kernlog.GPUInit, kernlog.GPUTaken, kernlog.VersionMismatch, kernlog.DMABufRefused, kernlog.PeerMemory, kernlog.AER, kernlog.IOMMUFault,
		kernlog.BAR, kernlog.MLX5, kernlog.ModuleSymbol, kernlog.ModuleUnversioned, kernlog.ModuleUnsigned, kernlog.ParameterUnknown, kernlog.OptionUnknown, kernlog.NoX2APIC, kernlog.OrderingCycle,
	}
	block := plantest.Blocks(t, checks.All(), `check "kernel_log" "all" {}`)[0]
	rapid.Check(t, func(t *rapid.T) {
		e := kernlog.Event{
			Kind: oneOf(t, kinds...), Device: oneOf(t, "", gpuAddress(0), "0000:02:00.0"), Code: rapid.IntRange(1, 200).Draw(t, "code"),
			Name: oneOf(t, "", "fatal", "corrected", "power", "nvidia_peermem"), Text: "x", Count: rapid.IntRange(1, 20).Draw(t, "count"),
		}
		state := node.KernelLogState{Events: []kernlog.Event{e}, Records: 1, Lost: known(0)}
		a := (checks.KernelLog{}).Assess(block, logged("", node.KernelLog.Answer("", known(state))))
		if len(a.Findings) != 1 || a.Findings[0].Status == plan.OK || a.Findings[0].Target == "" || a.Findings[0].Summary == "" {
			t.Errorf("%+v: %+v", e, a.Findings)
		}
	})
}
