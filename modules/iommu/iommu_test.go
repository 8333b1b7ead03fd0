package iommu_test

import (
	"testing"

	"busbar/internal/grub"
	"busbar/modules/iommu"
	"busbar/modules/kernelargs"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{iommu.Type{}, kernelargs.Type{}}

// state is an IOMMU described by a firmware table, whose groups have the given types.
func state(table, unit string, kinds ...string) node.Answer {
	s := node.IOMMUState{MaxAPICID: node.Known(127, node.Source{Path: "/proc/cpuinfo"})}
	if table != "" {
		s.Tables = []string{table}
	}
	if unit != "" {
		s.Units = []string{unit}
	}
	for i, kind := range kinds {
		s.Groups = append(s.Groups, node.IOMMUGroup{ID: i, Type: node.Known(kind, node.Source{}), Devices: []string{addresses[i]}})
	}
	return node.IOMMU.Answer("", node.Known(s, node.Source{Path: "/sys/class/iommu"}))
}

var addresses = []string{"0000:1b:00.0", "0000:1c:00.0", "0000:00:1f.0", "0000:00:1e.0"}

// with puts a GPU, a NIC and a chipset function on the bus.
func with(f node.Facts, change func(*node.Inventory)) node.Facts {
	inv := f.Inventory
	inv.PCI = node.Known([]node.PCIFunction{
		{Address: addresses[0], Vendor: "10de", Device: "2330", Class: "030200"},
		{Address: addresses[1], Vendor: "15b3", Device: "1021", Class: "020700"},
		{Address: addresses[2], Vendor: "8086", Device: "1bc0", Class: "060100"},
	}, node.Source{Path: "/sys/bus/pci/devices"})
	if change != nil {
		change(&inv)
	}
	return f.WithInventory(inv)
}

func marker(bootID string, args ...string) func(*node.Inventory) {
	return func(inv *node.Inventory) {
		inv.Marker = node.Known(node.Marker{BootID: bootID, Args: args}, node.Source{Path: node.MarkerPath})
	}
}

func TestMode(t *testing.T) {
	const passthrough = `iommu { mode = "passthrough" }`
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "translated on Intel, the IOMMU is on by itself", Blocks: passthrough,
			Facts: with(plantest.Node(state("DMAR", "dmar0", "DMA-FQ", "DMA-FQ")), nil),
			Says:  []string{"group 0 (0000:1b:00.0) is DMA-FQ, and 1 more"},
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"iommu=pt"})},
			Want: `
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				!drift iommu.translated iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				pending-reboot iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "off on Intel", Blocks: passthrough,
			Facts: with(plantest.Node(state("DMAR", "")), nil),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"intel_iommu=on", "iommu=pt"})},
			Want: `
				!drift boot_args.next_boot intel_iommu=on (/boot/grub/grub.cfg:3)
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				!drift iommu.off iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot intel_iommu=on (/proc/cmdline)
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				pending-reboot iommu.off iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "passthrough by arguments of others, sub-options and all", Blocks: passthrough,
			Facts: with(plantest.Node(state("DMAR", "dmar0", "identity", "identity"), plantest.CommandLine("intel_iommu=on,sm_on iommu=pt"),
				plantest.Boot("intel_iommu=on,sm_on iommu=pt", "intel_iommu=on,sm_on iommu=pt")), nil),
			Want: `
				ok boot_args.next_boot intel_iommu=on (/boot/grub/grub.cfg:3)
				ok boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				ok iommu.mode iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "passthrough by the kernel's own default", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "identity", "identity", "DMA")), nil),
			Want: `
				ok iommu.mode iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "passthrough now, lost at the next boot", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "identity", "identity"), plantest.CommandLine("iommu=pt"), plantest.Boot("quiet", "quiet")), nil),
			Want: `
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				ok iommu.mode iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
			`,
		},
		{
			Name: "busbar's own fragment brings it", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "identity", "identity"), plantest.CommandLine("quiet iommu=pt"), plantest.BootWith(map[string]string{
				grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: grub.Fragment([]string{"iommu=pt"}),
			}, "quiet iommu=pt")), nil),
			Want: `
				ok boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				ok iommu.mode iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "translated on AMD, with arguments that do nothing", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA"), plantest.CommandLine("amd_iommu=on"), plantest.Boot("amd_iommu=on", "amd_iommu=on")), nil),
			Want: `
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				drift warn iommu.no_op amd_iommu=on (/etc/default/grub:1)
				!drift iommu.translated iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				drift warn iommu.no_op amd_iommu=on (/etc/default/grub:1)
				pending-reboot iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "Arm", Blocks: passthrough,
			Facts: with(plantest.Node(state("IORT", "smmu3.0x1", "DMA", "DMA")), func(inv *node.Inventory) { inv.Arch = node.Known("aarch64", node.Source{}) }),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"iommu.passthrough=1"})},
			Want: `
				!drift boot_args.next_boot iommu.passthrough=1 (/boot/grub/grub.cfg:3)
				!drift iommu.translated iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu.passthrough=1 (/proc/cmdline)
				pending-reboot iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "Arm, off is not to be had", Blocks: `iommu { mode = "off" }`,
			Facts: with(plantest.Node(state("", "smmu3.0x1", "DMA", "DMA")), func(inv *node.Inventory) { inv.Arch = node.Known("aarch64", node.Source{}) }),
			Want: `
				unsupported iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "one group is translated", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "identity", "DMA", "DMA")), nil),
			Says:  []string{"1 of 2 groups: group 1 (0000:1c:00.0) is DMA"},
			Want: `
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				!drift iommu.translated iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				pending-reboot iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "one group is passed through", Blocks: `iommu { mode = "translated" }`,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "identity", "DMA")), nil),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"iommu=nopt"})},
			Want: `
				!drift boot_args.next_boot iommu=nopt (/boot/grub/grub.cfg:3)
				!drift iommu.passthrough iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu=nopt (/proc/cmdline)
				pending-reboot iommu.passthrough iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "all groups count where no device is in one", Blocks: passthrough,
			Facts: plantest.Node(state("IVRS", "ivhd0", "identity", "DMA", "DMA", "DMA")),
			Says:  []string{"3 of 4 groups: group 1 (0000:1c:00.0) is DMA, and 2 more"},
			Want: `
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				!drift iommu.translated iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				pending-reboot iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "off on AMD", Blocks: `iommu { mode = "off" }`,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "identity", "identity")), nil),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"amd_iommu=off"})},
			Want: `
				!drift boot_args.next_boot amd_iommu=off (/boot/grub/grub.cfg:3)
				!drift iommu.passthrough iommu (/sys/class/iommu)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot amd_iommu=off (/proc/cmdline)
				pending-reboot iommu.passthrough iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "off on AMD with many CPUs", Blocks: `iommu { mode = "off" }`,
			Facts: with(plantest.Node(many(state("IVRS", "ivhd0", "identity", "identity"), node.Known(447, node.Source{}))), nil),
			Says:  []string{"APIC ids up to 447"},
			Want: `
				unsupported iommu.x2apic iommu ()
			`,
		},
		{
			Name: "off on AMD with unknown CPUs", Blocks: `iommu { mode = "off" }`,
			Facts: with(plantest.Node(many(state("IVRS", "ivhd0", "identity", "identity"), node.Value[int]{})), nil),
			Want: `
				unsupported iommu.x2apic iommu ()
			`,
		},
		{
			Name: "the firmware has none", Blocks: passthrough,
			Facts: with(plantest.Node(state("", "")), nil),
			Says:  []string{"turn VT-d or AMD-Vi on in the BIOS"},
			Want: `
				unsupported iommu.off iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "off as wanted", Blocks: `iommu { mode = "off" }`,
			Facts: with(plantest.Node(state("", "")), nil),
			Want: `
				ok iommu.mode iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "set, not yet rebooted", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA"), plantest.Boot("iommu=pt", "iommu=pt")), marker(plantest.BootID, "iommu=pt")),
			Want: `
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				pending-reboot iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "rebooted, another entry was booted", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA"), plantest.Boot("iommu=pt", "iommu=pt")), marker("before", "iommu=pt")),
			Want: `
				ineffective boot_args.next_boot iommu=pt (/proc/cmdline)
				ineffective iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "rebooted with the argument, and in vain", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA"), plantest.CommandLine("iommu=pt"), plantest.Boot("iommu=pt", "iommu=pt")), nil),
			Says:  []string{"although iommu=pt on the running kernel's command line asks for passthrough"},
			Want: `
				ok boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				ineffective iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "others turn it off", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", ""), plantest.CommandLine("iommu=off"), plantest.Boot("quiet iommu=off", "quiet iommu=off")), nil),
			Says:  []string{"/etc/default/grub:1 undoes it"},
			Want: `
				conflict boot_args.overridden iommu=pt (/etc/default/grub:1)
				drift iommu.off iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "others turn it off and are taken over", Blocks: `iommu {
				mode      = "passthrough"
				take_over = true
			}`,
			Facts: with(plantest.Node(state("IVRS", ""), plantest.CommandLine("iommu=off"), plantest.Boot("quiet iommu=off", "quiet iommu=off")), nil),
			Texts: map[string]string{grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"},
			Want: `
				!drift boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				!drift iommu.off iommu (/sys/class/iommu)
				step write-file:/etc/default/grub
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot iommu=pt (/proc/cmdline)
				pending-reboot iommu.off iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "a boot loader that is not managed", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA"), node.Boot.Answer("", node.Known(node.BootConfig{Loader: node.LoaderSystemdBoot}, node.Source{}))), nil),
			Says:  []string{"set iommu=pt on the kernel's command line (the boot loader is systemd-boot"},
			Want: `
				unsupported boot_args.next_boot iommu=pt (/proc/cmdline)
				drift iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "against another block", Blocks: `iommu { mode = "passthrough" }
kernel_args { present = { iommu = "nopt" } }`,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA")), nil),
			Says:  []string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "translated" by iommu=nopt (node.hcl:2)`},
			Want: `
				drift iommu.translated iommu (/sys/class/iommu)
				conflict profile.contradiction IOMMU mode (node.hcl:2)
				conflict profile.contradiction IOMMU mode (node.hcl:1)
			`,
		},
		{
			Name: "against an argument that another block does not want", Blocks: `iommu { mode = "passthrough" }
kernel_args { absent = ["iommu"] }`,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA", "DMA")), nil),
			Says:  []string{"iommu=pt is wanted (node.hcl:1), and kernel_args wants no iommu (node.hcl:2)"},
			Want: `
				drift iommu.translated iommu (/sys/class/iommu)
				conflict profile.contradiction iommu=pt (node.hcl:2)
				conflict profile.contradiction iommu (node.hcl:1)
			`,
		},
		{
			Name: "groups without a type", Blocks: passthrough,
			Facts: with(plantest.Node(node.IOMMU.Answer("", node.Known(node.IOMMUState{
				Tables: []string{"DMAR"}, Units: []string{"dmar0"}, Groups: []node.IOMMUGroup{{ID: 3, Devices: []string{addresses[0]}}},
			}, node.Source{}))), nil),
			Want: `
				unknown iommu.mode iommu ()
			`,
		},
		{
			Name: "units without groups", Blocks: passthrough, Facts: with(plantest.Node(state("DMAR", "dmar0")), nil),
			Want: `
				unknown iommu.mode iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "unknown", Blocks: passthrough, Facts: with(plantest.Node(), nil),
			Want: `
				unknown iommu.mode iommu ()
			`,
		},
		{
			Name: "unknown architecture", Blocks: passthrough,
			Facts: with(plantest.Node(state("DMAR", "dmar0", "DMA")), func(inv *node.Inventory) { inv.Arch = node.Value[string]{} }),
			Want: `
				unknown iommu.mode iommu ()
			`,
		},
		{
			Name: "unknown boot loader and command line", Blocks: passthrough,
			Facts: with(plantest.Node(state("IVRS", "ivhd0", "DMA"), node.Boot.Answer("", node.Value[node.BootConfig]{}), node.CommandLine.Answer("", node.Value[string]{})), nil),
			Want: `
				unknown boot_args.next_boot iommu=pt ()
				drift iommu.translated iommu (/sys/class/iommu)
			`,
		},
		{
			Name: "the mode cannot be read, and busbar's fragment stays", Blocks: passthrough,
			Facts: with(plantest.Node(fragment), nil),
			Want: `
				unknown iommu.mode iommu ()
			`,
		},
		{
			Name: "a directory tree with busbar's fragment", Blocks: passthrough,
			Facts: with(plantest.Node(fragment), func(inv *node.Inventory) { inv.RootDirectory = true }),
			Want: `
				deferred iommu.mode iommu ()
			`,
		},
		{
			Name: "a directory tree", Blocks: passthrough,
			Facts: with(plantest.Node(), func(inv *node.Inventory) { inv.RootDirectory = true }),
			Want: `
				deferred iommu.mode iommu ()
			`,
		},
	})
}

// fragment is a boot configuration with what busbar wrote.
var fragment = plantest.BootWith(map[string]string{
	grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: grub.Fragment([]string{"iommu=pt"}),
}, "quiet iommu=pt")

func many(a node.Answer, max node.Value[int]) node.Answer {
	f := node.Facts{}.With(a)
	s, _ := node.IOMMU.Get(f, "").Get()
	s.MaxAPICID = max
	return node.IOMMU.Answer("", node.Known(s, node.Source{}))
}

func TestWithheld(t *testing.T) {
	b := plantest.Blocks(t, types, `iommu { mode = null }`)[0]
	if a := (iommu.Type{}).Assess(b, plantest.Node()); len(a.Findings)+len(a.Contributions)+len(a.Steps) > 0 {
		t.Errorf("%+v", a)
	}
}

// TestOverriddenBeforeUpdateGRUB: what a conflict found is what its source says, also when
// the boot entries do not show it yet.
func TestOverriddenBeforeUpdateGRUB(t *testing.T) {
	facts := with(plantest.Node(state("DMAR", "dmar0", "DMA"), plantest.CommandLine("quiet"), plantest.Boot("quiet iommu=off", "quiet")), nil)
	first, _, _ := plantest.Settle(t, types, plantest.Blocks(t, types, `iommu { mode = "passthrough" }`), facts)
	for _, f := range first.Findings {
		if f.ID == "boot_args.overridden" {
			if f.Found != "iommu=off" {
				t.Errorf("found %q", f.Found)
			}
			return
		}
	}
	t.Error("no conflict:\n" + plantest.Summarize(first))
}
