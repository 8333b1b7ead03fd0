package report_test

import (
	"time"

	"busbar/node"
	"busbar/plan"
	"busbar/report"
)

var observed = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// drifted is an HGX H100 node on which much is wrong, described for command.
func drifted(command string) report.Document {
	return report.NewDocument(command, report.NodeOf(driftedFacts(), "example:hgx-h100-drifted"),
		report.Profile{Name: "hgx-h100", File: "hgx-h100.hcl", ChosenBy: report.Matched}, driftedPlan())
}

func driftedFacts() node.Facts {
	dmi := node.Source{Path: "/sys/class/dmi/id"}
	var functions []node.PCIFunction
	for _, bus := range []string{"18", "2a", "3a", "5d", "9a", "ab", "ba"} {
		functions = append(functions, node.PCIFunction{Address: "0000:" + bus + ":00.0", Vendor: "10de", Device: "2330", Class: "030200"})
	}
	return node.NewFacts(node.Inventory{
		Hostname:       "gpu-a-017",
		Arch:           node.Known("x86_64", node.Source{Call: "uname"}),
		Kernel:         node.Known("5.15.0-105-generic", node.Source{Call: "uname"}),
		OS:             node.Known(node.OS{ID: "ubuntu", VersionID: "22.04", PrettyName: "Ubuntu 22.04.4 LTS"}, node.Source{Path: "/etc/os-release"}),
		DMI:            node.Known(node.DMI{SysVendor: "Supermicro", ProductName: "SYS-821GE-TNHR"}, dmi),
		Virtualization: node.Known("none", dmi),
		PCI:            node.Known(functions, node.Source{Path: "/sys/bus/pci/devices"}),
	}, observed, nil)
}

func file(path string, line int) node.Source { return node.Source{Path: path, Line: line} }

func driftedPlan() plan.Plan {
	const (
		peermem = "kernel_module.nvidia_peermem"
		numa    = `sysctl["kernel.numa_balancing"]`
	)
	findings := []plan.Finding{
		{
			ID: "gpus.count", Address: "check.gpus.all", Status: plan.Drift, Severity: plan.Error,
			Summary: "one GPU is missing: nothing answers below the switch port 0000:c4:04.0", Want: "8", Found: "7",
			Source: node.Source{Path: "/sys/bus/pci/devices"},
			Why:    "a job over eight ranks fails, or hangs in its first collective",
			Fix:    "look for Xid 79 in the kernel log, then power-cycle the node; if it stays away, reseat or replace the baseboard",
			Effect: plan.PowerCycle,
		},
		{
			ID: "gpus.uniform", Address: "check.gpus.all", Status: plan.OK, Severity: plan.Error,
			Summary: "all GPUs are of one kind", Want: "10de:2330", Found: "10de:2330", Source: node.Source{Path: "/sys/bus/pci/devices"},
		},
		{
			ID: "nvlink.links", Address: "check.nvlink.all", Status: plan.Undetermined, Severity: plan.Error,
			Summary: "the number of active NVLinks is unknown: nvmlDeviceGetNvLinkState did not answer within 5 s", Want: "18 links per GPU",
			Source: node.Source{Call: "NVML on 0000:9a:00.0"},
			Fix:    "nvidia-smi nvlink -s -i 0000:9a:00.0, and the kernel log for Xid 74",
		},
		{
			ID: "service.active", Address: "service.nvidia-fabricmanager", Status: plan.OK, Severity: plan.Error,
			Summary: "nvidia-fabricmanager.service runs and starts at boot", Want: "enabled, active", Found: "enabled, active",
			Source: node.Source{Call: "systemd"},
		},
		{
			ID: "iommu.translated", Address: "iommu", Status: plan.Drift, Severity: plan.Error,
			Summary: "the IOMMU translates the DMA of all 7 GPUs and 8 rails", Want: "passthrough", Found: "translated (DMA-FQ)",
			Source: node.Source{Path: "/sys/kernel/iommu_groups"},
			Why:    "every peer-to-peer write goes up to the root complex and through the page tables of the IOMMU",
			Effect: plan.Reboot, Fixable: true, Target: "boot arguments", Running: "translated", NextBoot: "translated",
		},
		{
			ID: "iommu.noop-argument", Address: "iommu", Status: plan.Drift, Severity: plan.Warning,
			Summary: "amd_iommu=on does nothing: the kernel knows no such value, and this is an Intel machine",
			Found:   "amd_iommu=on", Source: file("/etc/default/grub", 11),
			Fix: "remove it from GRUB_CMDLINE_LINUX; iommu=pt is what was meant",
		},
		{
			ID: "module.not-loaded", Address: peermem, Status: plan.Drift, Severity: plan.Error,
			Summary: "nvidia_peermem is not loaded", Want: "loaded", Found: "not loaded",
			Source: node.Source{Path: "/sys/module/nvidia_peermem"},
			Why:    "without it, and without dma-buf, NCCL copies through host memory and says so only in its INFO log",
			Effect: plan.Live, Fixable: true, Target: "nvidia_peermem", Running: "not loaded",
		},
		{
			ID: "module.not-at-boot", Address: peermem, Status: plan.Drift, Severity: plan.Error,
			Summary: "nothing loads nvidia_peermem at boot", Want: "loaded at boot", Found: "in no file of modules-load.d",
			Effect: plan.Live, Fixable: true, Target: "/etc/modules-load.d/busbar.conf", NextBoot: "not loaded",
		},
		{
			ID: "limits.memlock", Address: "limits.rdma", Status: plan.Drift, Severity: plan.Error,
			Summary: "slurmd may lock 8 MiB of memory", Want: "unlimited", Found: "8388608 bytes",
			Source: node.Source{Path: "/proc/2817/limits"},
			Why:    "ibv_reg_mr fails with ENOMEM in every job that slurmd starts",
			Effect: plan.ServiceRestart, Fixable: true, Target: "slurmd.service", Running: "8388608",
		},
		{
			ID: "nccl.quoted_integer", Address: "nccl", Status: plan.Drift, Severity: plan.Error,
			Summary: "NCCL_IB_GID_INDEX is in quotes, which NCCL reads as 0", Want: "3", Found: `"3", read as 0`,
			Source: file("/etc/nccl.conf", 4), Effect: plan.Live, Fixable: true, Target: "/etc/nccl.conf",
		},
		{
			ID: "nccl.unknown_key", Address: "nccl", Status: plan.Drift, Severity: plan.Warning,
			Summary: "NCCL_IB_QPS_PER_CONECTION is no variable of any NCCL: did you mean NCCL_IB_QPS_PER_CONNECTION?",
			Source:  file("/etc/nccl.conf", 7), Fix: "correct or remove the line",
		},
		{
			ID: "nccl.withheld", Address: "nccl", Status: plan.Deferred, Severity: plan.Error, Target: "settings.NCCL_IB_HCA",
			Summary: "settings.NCCL_IB_HCA is withheld: 0000:9a:00.1 has no RDMA device", Source: file("hgx-h100.hcl", 38),
		},
		{
			ID: "sysctl.overridden", Address: numa, Status: plan.Conflict, Severity: plan.Error,
			Summary: "/etc/sysctl.d/zzz-vendor.conf is read after /etc/sysctl.d/zz-busbar.conf and turns NUMA balancing on again",
			Want:    "0", Found: "1", Source: file("/etc/sysctl.d/zzz-vendor.conf", 2),
			Why: "page migration stalls pinned transfers for milliseconds",
			Fix: "remove the line, or let the profile take it over with take_over = true",
		},
		{
			ID: "sysctl.running", Address: numa, Status: plan.Drift, Severity: plan.Error,
			Summary: "NUMA balancing is on", Want: "0", Found: "1", Source: node.Source{Path: "/proc/sys/kernel/numa_balancing"},
			Effect: plan.Live, Fixable: true, Target: "kernel.numa_balancing", Running: "1",
		},
		{
			ID: "acs.redirect", Address: "pcie_acs.gpu-paths", Status: plan.Unsupported, Severity: plan.Error,
			Summary: "the ACS control register of 0000:15:01.0 cannot be read: only 64 bytes of its configuration space are visible",
			Want:    "redirect off", Source: node.Source{Path: "/sys/bus/pci/devices/0000:15:01.0/config"},
			Fix: "run as root",
		},
		{
			ID: "boot.pending", Address: `kernel_argument["transparent_hugepage"]`, Status: plan.PendingReboot, Severity: plan.Error,
			Summary: "set for the next boot, the running kernel started without it", Want: "never", Found: "absent",
			Source: node.Source{Path: "/proc/cmdline"}, Effect: plan.Reboot,
		},
		{
			ID: "boot.ineffective", Address: `kernel_argument["pci"]`, Status: plan.Ineffective, Severity: plan.Error,
			Summary: "pci=realloc is on the command line of this boot, and the BARs are still too small", Want: "realloc", Found: "realloc, not in force",
			Source: node.Source{Path: "/proc/cmdline"}, Fix: "enable Above 4G Decoding in the firmware setup",
		},
		{
			ID: "service.inactive", Address: "service.nvidia-persistenced", Status: plan.Waived, Severity: plan.Error,
			Summary: "nvidia-persistenced.service is not running", Want: "active", Found: "inactive", Source: node.Source{Call: "systemd"},
			Waiver: "driver 550.54 hangs with it, ticket OPS-4711 (until 2027-03-31)",
		},
		{
			ID: "service.absent", Address: "service.nvidia-imex", Status: plan.Skipped, Severity: plan.Error,
			Summary: "unit not installed",
		},
		{
			ID: "readout.info", Address: "check.gpus.all", Status: plan.Drift, Severity: plan.Info,
			Summary: "one GPU runs a VBIOS older than the others", Want: "96.00.89.00.01", Found: "96.00.74.00.01", Source: node.Source{Call: "NVML on 0000:3a:00.0"},
		},
	}
	steps := []plan.Step{
		{
			ID: "write-file:/etc/default/grub.d/zz-busbar.cfg", Addresses: []string{"iommu"}, Phase: plan.PhaseFiles,
			Target: "/etc/default/grub.d/zz-busbar.cfg", Summary: "write the boot arguments intel_iommu=on iommu=pt",
			Action: plan.WriteFile{
				Path: "/etc/default/grub.d/zz-busbar.cfg",
				Text: "# Written by busbar.\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT intel_iommu=on iommu=pt\"\n",
			},
			Effect: plan.Reboot, Expect: "3f1c2a90aa41d0c7",
		},
		{
			ID: "write-file:/etc/modules-load.d/busbar.conf", Addresses: []string{peermem}, Phase: plan.PhaseFiles,
			Target: "/etc/modules-load.d/busbar.conf", Summary: "write /etc/modules-load.d/busbar.conf",
			Action: plan.WriteFile{Path: "/etc/modules-load.d/busbar.conf", Text: "nvidia_peermem\n"},
			Effect: plan.Live, Expect: "8b7d11e05a3fc2d9",
		},
		{
			ID: "write-file:/etc/nccl.conf", Addresses: []string{"nccl"}, Phase: plan.PhaseFiles,
			Target: "/etc/nccl.conf", Summary: "write busbar's block at the head of /etc/nccl.conf",
			Action: plan.WriteFile{Path: "/etc/nccl.conf", Text: "# BEGIN busbar\nNCCL_IB_GID_INDEX=3\n# END busbar\n", Backup: "/var/lib/busbar/backup/nccl.conf"},
			Effect: plan.Live, Expect: "04d2c1b8e6f7a935",
		},
		{
			ID: "load-module:nvidia_peermem", Addresses: []string{peermem}, Phase: plan.PhaseModules,
			Target: "nvidia_peermem", Summary: "load nvidia_peermem", Action: plan.LoadModule{Name: "nvidia_peermem"},
			Provides: []string{node.CapabilityRDMA}, Effect: plan.Live, Settle: 5 * time.Second, Expect: "77ab01c9d25e4f10",
		},
		{
			ID: "set-sysctl:kernel.numa_balancing", Addresses: []string{numa}, Phase: plan.PhaseServices,
			Target: "kernel.numa_balancing", Summary: "set kernel.numa_balancing to 0", Action: plan.SetSysctl{Name: "kernel.numa_balancing", Value: "0"},
			Effect: plan.Live, Expect: "c0ffee1234567890",
		},
		{
			ID: "set-unit:slurmd.service", Addresses: []string{"limits.rdma"}, Phase: plan.PhaseServices,
			Target: "slurmd.service", Summary: "restart with unlimited locked memory",
			Action:   plan.SetUnit{Unit: "slurmd.service", Enablement: "enabled", Active: "active"},
			Requires: []string{"write-file:/etc/modules-load.d/busbar.conf"}, Effect: plan.ServiceRestart, Expect: "d15ea5e0deadbeef",
		},
	}
	var changes []plan.Change
	for _, f := range findings {
		if f.Fixable {
			changes = append(changes, plan.Change{Address: f.Address, ID: f.ID, Target: f.Target, Running: f.Running, NextBoot: f.NextBoot, Want: f.Want, Effect: f.Effect})
		}
	}
	return plan.Plan{
		Findings: findings, Steps: steps, Changes: changes,
		Deferred: []plan.DeferredBlock{{
			Address: "nccl", Reason: "settings.NCCL_IB_HCA is withheld: 0000:9a:00.1 has no RDMA device",
			Unlocks: "load-module:nvidia_peermem", Ceiling: plan.NextLogin,
		}},
	}
}

// applied is the drifted node after an apply of which one step failed.
func applied() report.Document {
	steps := driftedPlan().Steps
	return drifted("apply").WithRun(report.Run{
		StartedAt: observed.Add(time.Second), EndedAt: observed.Add(4250 * time.Millisecond), Passes: 2,
		Steps: []report.RunStep{
			{Step: steps[0], Status: "done", Took: 1803 * time.Millisecond},
			{Step: steps[1], Status: "done", Took: 4 * time.Millisecond},
			{Step: steps[2], Status: "already", Took: 210 * time.Microsecond},
			{Step: steps[3], Status: "failed", Error: "modprobe nvidia_peermem: exit status 1: Invalid argument", Took: 96 * time.Millisecond},
			{Step: steps[5], Status: "skipped", Error: "it requires load-module:nvidia_peermem, which was not done"},
		},
		Stopped: "needs a new approval: set-unit:openibd.service (restart openibd) was not part of the plan; run apply again",
	}, plan.ExitPartial)
}

// clean is a node on which everything is as wanted, read live.
func clean(command string) report.Document {
	return report.NewDocument(command, report.NodeOf(driftedFacts(), ""),
		report.Profile{Name: "node", File: "/etc/busbar/node.hcl", ChosenBy: report.Named},
		plan.Plan{Findings: []plan.Finding{{
			ID: "iommu.passthrough", Address: "iommu", Status: plan.OK, Severity: plan.Error,
			Summary: "the IOMMU passes DMA through", Want: "passthrough", Found: "passthrough", Source: node.Source{Path: "/sys/kernel/iommu_groups"},
		}}})
}

// hostile is a node whose texts try to drive the terminal.
func hostile() report.Document {
	const wipe = "\x1b[2J\x1b]0;pwned\x07"
	facts := node.NewFacts(node.Inventory{Hostname: "a" + wipe, DMI: node.Known(node.DMI{ProductName: "b\u202e" + wipe}, node.Source{})}, time.Time{}, nil)
	return report.NewDocument("plan", report.NodeOf(facts, "c"+wipe), report.Profile{Name: "d" + wipe, ChosenBy: report.Default}, plan.Plan{
		Findings: []plan.Finding{{
			ID: "x", Address: "e" + wipe, Status: plan.Drift, Severity: plan.Error, Summary: "f\r\nexit 0" + wipe, Want: "g\x9b2J\u009b2J\U000e0001" + wipe,
			Found: "h\xff" + wipe, Source: node.Source{Path: "i" + wipe}, Why: "j" + wipe, Fix: "k" + wipe,
		}},
		Steps: []plan.Step{{
			ID: "l" + wipe, Target: "m" + wipe, Summary: "n" + wipe,
			Action: plan.WriteFile{Path: "o" + wipe, Text: "p" + wipe + "\r\nq"},
		}},
		Deferred: []plan.DeferredBlock{{Address: "r" + wipe, Unlocks: "s" + wipe}},
	})
}
