package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/kernlog"
	"busbar/node"
	"busbar/plan"
)

// KernelLog is check "kernel_log": what the kernel has said since boot about GPUs, NVSwitches and NICs, their links and drivers.
type KernelLog struct{}

var _ plan.Validator = KernelLog{}

// Spec of check "kernel_log".
func (KernelLog) Spec() plan.Spec {
	return plan.Spec{
		Name: "kernel_log", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "What the kernel has said since boot: Xids of GPUs and NVSwitches, errors of PCI Express, faults of the IOMMU, NICs that fail, modules that do not fit. " +
			"What has been seen to stays in the log until the next boot: ignore it here, or waive it.",
		Attributes: []plan.Attribute{
			{Name: "ignore_xids", Type: cty.List(cty.Number), Example: "[94]", Doc: "Numbers of Xids that are not judged."},
		},
	}
}

type kernelLog struct {
	IgnoreXids []int `cty:"ignore_xids"`
}

// Validate finds what is no Xid.
func (KernelLog) Validate(b plan.Block) []plan.Problem {
	var c kernelLog
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	for _, n := range c.IgnoreXids {
		if n < 1 {
			return []plan.Problem{{Attribute: "ignore_xids", Summary: "not an Xid", Detail: fmt.Sprintf("Xids are numbered from 1, and %d is less.", n)}}
		}
	}
	return nil
}

// peerMemoryModules are those of which a failure to load may have been put right since.
var peerMemoryModules = []string{"nvidia_peermem", "nv_peer_mem"}

// Queries are the log, and the modules that may have been loaded after all.
func (KernelLog) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	return append(each(node.Module, peerMemoryModules), node.KernelLog.Query(""))
}

// Assess has a finding for each kind of fault of each device, and for a log that is whole and clean.
func (KernelLog) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	const id = "kernel_log.faults"
	var c kernelLog
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	only := func(f plan.Finding) plan.Assessment { return plan.Assessment{Findings: []plan.Finding{f}} }
	if facts.Inventory.RootDirectory {
		return only(plan.Finding{ID: id, Target: "log", Status: plan.Skipped, Summary: "the running kernel is not judged (--root)"})
	}
	v := node.KernelLog.Get(facts, "")
	log, ok := v.Get()
	if !ok {
		f := plan.Unread(id, "what the kernel has said since boot", v)
		f.Target = "log"
		return only(f)
	}
	var findings []plan.Finding
	for _, e := range log.Events {
		f, judged := c.judge(e, log, facts)
		if !judged {
			continue
		}
		f.ID, f.Source, f.Found = "kernel_log."+strings.ReplaceAll(string(e.Kind), "-", "_"), v.Source(), e.Text
		f.Summary += often(e)
		if f.Target == "" {
			f.Target = "kernel"
		}
		findings = append(findings, f)
	}
	if len(findings) == 0 {
		findings = append(findings, plan.Finding{
			ID: id, Target: "log", Status: plan.OK, Source: v.Source(), Summary: fmt.Sprintf("the kernel's log tells of no fault in %s", counted(log.Records, "record")),
		})
	}
	return plan.Assessment{Findings: append(findings, incomplete(log, v.Source())...)}
}

// often says how often and when, where that says more than that it happened.
func often(e kernlog.Event) string {
	last := e.Last.String()
	switch {
	case e.Count > 1 && last != "":
		return fmt.Sprintf(" (%d times, the last one %s)", e.Count, last)
	case e.Count > 1:
		return fmt.Sprintf(" (%d times)", e.Count)
	case last != "":
		return " (" + last + ")"
	default:
		return ""
	}
}

// incomplete are the notes about what the log does not hold.
func incomplete(log node.KernelLogState, source node.Source) []plan.Finding {
	note := plan.Finding{ID: "kernel_log.complete", Target: "log", Status: plan.Drift, Severity: plan.Info, Source: source}
	var notes []plan.Finding
	if lost, _ := log.Lost.Get(); lost > 0 {
		note.Summary = fmt.Sprintf("the log does not go back to boot: %s were dropped for newer ones", counted(lost, "record"))
		note.Fix = "journalctl -k -b may have them; boot argument log_buf_len=16M keeps more"
		notes = append(notes, note)
	}
	if log.Dropped > 0 {
		note.Summary, note.Fix = fmt.Sprintf("%s more are not shown", counted(log.Dropped, "fault")), "look into the log itself: dmesg"
		notes = append(notes, note)
	}
	return notes
}

// Parts of fixes that several faults share.
const (
	resetGPU  = "stop what uses the GPU and reset it (nvidia-smi --gpu-reset -i ADDRESS), or reboot; when it comes back, have the GPU looked at"
	fitModule = "build the module anew against what runs now (dkms), after the RDMA stack and the driver are installed; loading it again does not help"
)

// judge says what an event means; false where it is none to be told.
func (c kernelLog) judge(e kernlog.Event, log node.KernelLogState, facts node.Facts) (plan.Finding, bool) {
	f := plan.Finding{Target: e.Device, Status: plan.Drift}
	inv := facts.Inventory
	switch e.Kind {
	case kernlog.Xid:
		if slices.Contains(c.IgnoreXids, e.Code) {
			return f, false
		}
		return judgeXid(e, inv)
	case kernlog.SXid:
		f.Summary = fmt.Sprintf("NVSwitch %s: SXid %d", e.Device, e.Code)
		f.Fix = "the fabric manager's log (/var/log/fabricmanager.log) says what it did about it; NVIDIA's fabric manager guide lists SXids by number"
		if e.Name != "fatal" {
			f.Severity = plan.Warning
		} else {
			f.Why = "jobs on GPUs behind this switch have ended, and no new one gets NVLink until GPUs and switches are reset"
			f.Fix = "stop all jobs, reset all GPUs and switches together (nvidia-smi --gpu-reset without -i), or reboot; " + f.Fix
		}
	case kernlog.GPULost:
		f.Summary, f.Why, f.Fix = nameAt(e.Device, inv)+" has fallen off the bus", "it does not answer any more", "power the node off and on; when it comes back, have its seat, riser, power and cooling looked at"
	case kernlog.GPUInit:
		f.Summary, f.Fix = "the driver could not start a GPU", "the lines around it in the kernel log say why; power the node off and on, and have the GPU looked at when that does not help"
		if e.Device != "" {
			f.Summary = "the driver could not start " + nameAt(e.Device, inv)
		}
	case kernlog.GPUTaken:
		f.Target, f.Summary = "driver", "the NVIDIA driver did not get GPUs that another driver has"
		f.Fix = "keep nouveau, nvidiafb and vfio-pci away from them (modprobe.d, and in the initramfs), and reboot"
	case kernlog.VersionMismatch:
		library, module, _ := strings.Cut(e.Name, " and ")
		f.Target, f.Severity = "driver", plan.Warning
		f.Summary = fmt.Sprintf("a program's library of the driver is of %s, the kernel module of %s", library, module)
		f.Why, f.Fix = "it could not use a GPU", "the driver was upgraded and not loaded anew, or a container brings its own library: reboot, or reload the driver"
	case kernlog.DMABufRefused:
		f.Target, f.Severity = "dma-buf", plan.Warning
		f.Summary = "the driver did not export a GPU's memory to a device that is not behind the same PCI switch"
		f.Why = "GPUDirect RDMA by dma-buf failed there: jobs fall back to host memory, or end"
		f.Fix = "use the NIC that is nearest to the GPU; on Grace, and where NIC and GPU are in different IOMMU groups, see NVreg_GrdmaPciTopoCheckOverride of the driver"
	case kernlog.PeerMemory:
		f.Target, f.Severity, f.Summary = "nvidia_peermem", plan.Warning, "nvidia_peermem reports an error"
		f.Fix = "dma-buf does without it, where the driver's open kernel modules run"
		if e.Name != "" {
			f.Summary = "nvidia_peermem was called for memory that it had given back already, and caught it"
			f.Why = "it is a race as registered memory is given back, and such a check does not catch it always"
		}
	case kernlog.AER:
		return judgeAER(e, inv)
	case kernlog.Containment:
		f.Summary = fmt.Sprintf("port %s cut off what is behind it after an error (DPC)", e.Device)
		f.Why = "what was under way to the device was lost, and it was reset or is gone"
		f.Fix = "the lines behind it name the error and whether the device came back; have its seat, riser, power and cooling looked at"
	case kernlog.LinkDown:
		f.Severity, f.Summary = plan.Warning, fmt.Sprintf("the link below port %s went down", e.Device)
		f.Why, f.Fix = "the device behind it is gone, unless somebody took it out", "lspci -tv shows what is behind the port; have its seat, riser, power and cooling looked at"
	case kernlog.SlowLink:
		f.Severity, f.Summary = plan.Info, fmt.Sprintf("%s gets less PCIe bandwidth than it could use", e.Device)
		f.Fix = "the line names the link that limits it: look there with lspci -vvv, and at check \"pcie_link\""
		if function, _ := inv.PCIFunction(e.Device); e.Name == "mlx5_core" || function.IsNVIDIAGPU() || function.IsNIC() {
			f.Severity = plan.Warning
		}
	case kernlog.IOMMUFault:
		f.Summary = "the IOMMU refused an access to memory"
		f.Why = "between GPUs and NICs it means that copies arrive as zeros or garbage while calls succeed"
		f.Fix = "iommu=pt on x86 (block iommu with mode passthrough); then prove it: busbar probe p2p"
		if e.Device != "" {
			f.Summary = fmt.Sprintf("the IOMMU refused an access to memory of %s", e.Device)
			f.Severity = severityOn(e.Device, inv, plan.Error)
		}
	case kernlog.BAR:
		f.Summary = fmt.Sprintf("no addresses were found for memory region %d of %s", e.Code, e.Device)
		f.Why = "its driver cannot use it; of a GPU it is the window for GPUDirect"
		f.Fix = "turn on \"Above 4G Decoding\" in the firmware's setup, and give it a larger MMIO window; else boot argument pci=realloc"
		f.Severity = severityOn(e.Device, inv, plan.Error)
	case kernlog.MLX5:
		return judgeMLX5(e)
	case kernlog.ModuleSymbol:
		f.Target, f.Summary, f.Fix = e.Name, fmt.Sprintf("module %s does not fit the modules that run", e.Name), fitModule
		if m, _ := node.Module.Get(facts, e.Name).Get(); m.Loaded {
			f.Severity, f.Summary, f.Fix = plan.Info, f.Summary+"; it was loaded later all the same", ""
		} else if slices.Contains(peerMemoryModules, e.Name) {
			f.Why = "GPUDirect RDMA by peer memory needs it, and the ib_core that runs offers another interface, or none"
			f.Fix += "; dma-buf does without it"
		}
	case kernlog.ModuleUnversioned:
		f.Target, f.Summary, f.Fix = e.Name, fmt.Sprintf("module %s was not built against the NVIDIA driver that runs", e.Name), fitModule
		f.Why = "it loads, and what it does with GPU memory fails"
	case kernlog.ModuleUnsigned:
		f.Target, f.Summary = "modules", "the kernel refused a module that is not signed with a key that it knows"
		if e.Name != "" {
			f.Target, f.Summary = e.Name, fmt.Sprintf("the kernel refused module %s, which is not signed with a key that it knows", e.Name)
		}
		f.Why = "Secure Boot: nothing on the running system can change that"
		f.Fix = "enrol the key with which it is signed (mokutil --import), install signed modules, or turn Secure Boot off in the firmware's setup"
	case kernlog.ParameterUnknown:
		f.Target, f.Severity, f.Summary = e.Name, plan.Warning, fmt.Sprintf("the driver ignored parameter %s, which it does not have", e.Name)
		f.Fix = "correct or remove it in /etc/modprobe.d or in the kernel's arguments; /proc/driver/nvidia/params has what this version knows"
	case kernlog.OptionUnknown:
		f.Target, f.Severity, f.Summary = e.Name, plan.Info, fmt.Sprintf("the kernel ignored its argument %s", e.Name)
		f.Fix = "take it off the command line: it does nothing"
		if i := slices.IndexFunc(log.Events, func(e kernlog.Event) bool { return e.Kind == kernlog.DMADomain }); i >= 0 && strings.HasPrefix(e.Name, "amd_iommu=") {
			f.Summary += "; IOMMUs are set to " + log.Events[i].Name
		}
	case kernlog.NoX2APIC:
		f.Target, f.Summary = "cpus", "interrupts cannot be remapped, and x2APIC is off"
		if e.Name != "" {
			f.Summary = counted(e.Count, "processor") + " did not start, whose APIC ids need x2APIC"
		}
		f.Why, f.Fix = "processors whose APIC id is above 254 are left out", "take amd_iommu=off or intremap=off off the kernel's command line: block iommu with mode passthrough"
	case kernlog.OrderingCycle:
		f.Target, f.Summary = e.Name, fmt.Sprintf("systemd did not start %s: units wait for each other in a circle", e.Name)
		f.Fix = "systemd-analyze verify " + e.Name + " shows the circle; drop the After= or Before= of the unit that came last"
	case kernlog.Segfault:
		f.Target, f.Severity, f.Summary, f.Why = e.Name, plan.Info, "a program crashed in "+e.Name, "its job ended; the node goes on"
		f.Fix = "NCCL_DEBUG=WARN says what came before, the core dump where it was (coredumpctl info)"
	default: // what is no fault
		return f, false
	}
	return f, true
}

// nameAt is how findings call the GPU at an address.
func nameAt(address string, inv node.Inventory) string {
	gpus, _ := inv.GPUs().Get()
	if i := slices.IndexFunc(gpus, func(g node.GPU) bool { return g.Address == address }); i >= 0 {
		return name(gpus[i])
	}
	return "GPU " + address
}

func judgeXid(e kernlog.Event, inv node.Inventory) (plan.Finding, bool) {
	f := plan.Finding{Target: e.Device, Status: plan.Drift, Fix: "NVIDIA's catalogue says more: docs.nvidia.com/deploy/xid-errors"}
	gpu := nameAt(e.Device, inv)
	if e.Code == recoveryChanged {
		if e.Name == "None" {
			return f, false
		}
		f.Summary, f.Fix = fmt.Sprintf("%s: Xid 154: the driver says what it needs now: %s", gpu, e.Name), "do so, after what uses it has been stopped; until then jobs on it fail"
		if e.Name == "" {
			f.Summary = gpu + ": Xid 154: what the GPU needs to go on has changed"
		}
		return f, true
	}
	x := xids[e.Code]
	f.Summary = fmt.Sprintf("%s: Xid %d", gpu, e.Code)
	if x.what != "" {
		f.Summary += ": " + x.what
	}
	switch x.class {
	case xidJob:
		f.Severity, f.Why, f.Fix = plan.Info, "the GPU goes on", ""
	case xidWatch:
		f.Severity, f.Fix = plan.Warning, "the GPU goes on; reset it between jobs, and have it looked at when it comes again"
	case xidReset:
		f.Fix = strings.Replace(resetGPU, "ADDRESS", e.Device, 1)
	case xidLink:
		f.Why = "copies between GPUs fail, hang, or go slower over fewer links"
		f.Fix = "check \"nvlink\" names dead links, the kernel log the switch (SXid) or GPU at the other end; " + strings.Replace(resetGPU, "ADDRESS", e.Device, 1)
	case xidBus:
		f.Fix = "power the node off and on; when it comes back, have its seat, riser, power and cooling looked at"
	case xidUnlisted:
		f.Severity = plan.Warning
	}
	return f, true
}

// severityOn is the severity of a fault of a device: it is a note where the bus shows that it is no device that GPUs need.
func severityOn(address string, inv node.Inventory, severity plan.Severity) plan.Severity {
	function, ok := inv.PCIFunction(address)
	if !ok || function.IsNVIDIAGPU() || function.IsNVSwitch() || function.IsNIC() || strings.HasPrefix(function.Class, "0604") || strings.HasPrefix(function.Class, "0108") {
		return severity
	}
	return plan.Info
}

// frequentCorrections is from when on corrected errors of a link are more than what training it at boot leaves behind.
const frequentCorrections = 10

func judgeAER(e kernlog.Event, inv node.Inventory) (plan.Finding, bool) {
	f := plan.Finding{
		Target: e.Device, Status: plan.Drift, Summary: fmt.Sprintf("%s reported a PCI Express error, %s", e.Device, e.Name),
		Fix: "have the seat, riser and cable of the device looked at; check \"pcie_link\" says whether its link is as fast and wide as it can be",
	}
	switch {
	case e.Name != "corrected":
		f.Severity = severityOn(e.Device, inv, plan.Error)
		f.Why = "a transfer was lost, or the device was reset"
	case e.Count >= frequentCorrections:
		f.Severity = severityOn(e.Device, inv, plan.Warning)
		f.Why = "the link repeats transfers, which costs bandwidth"
	default:
		f.Severity, f.Fix = plan.Info, ""
	}
	return f, true
}

func judgeMLX5(e kernlog.Event) (plan.Finding, bool) {
	f := plan.Finding{Target: e.Device, Status: plan.Drift}
	switch e.Name {
	case "command-timeout":
		f.Summary, f.Fix = fmt.Sprintf("the firmware of NIC %s did not answer", e.Device), "power the node off and on; look for a newer firmware (mstflint -d "+e.Device+" query)"
	case "power":
		f.Severity, f.Summary = plan.Warning, fmt.Sprintf("NIC %s says that its slot gives it too little power", e.Device)
		f.Fix = "have its slot and its power cable looked at; some boards say so at every boot, and it works"
	case "temperature":
		f.Severity, f.Summary, f.Fix = plan.Warning, fmt.Sprintf("NIC %s is too hot", e.Device), "have its cooling looked at; it slows down, then turns itself off"
	case "cable":
		f.Severity, f.Summary, f.Fix = plan.Warning, fmt.Sprintf("NIC %s cannot use its cable", e.Device), "have the cable or transceiver seated anew or replaced"
	default:
		f.Summary, f.Fix = fmt.Sprintf("the firmware of NIC %s failed", e.Device), "power the node off and on; look for a newer firmware (mstflint -d "+e.Device+" query), and have the NIC looked at when it comes again"
	}
	return f, true
}
