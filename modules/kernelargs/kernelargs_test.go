package kernelargs_test

import (
	"testing"

	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/modules/kernelargs"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{kernelargs.Type{}}

func TestArguments(t *testing.T) {
	config := `"config_acs=xx111x0@0008:00:00.0;xx101x1@0008:02:03.0"`
	plantest.Run(t, types, []plantest.Case{
		{
			Name:   "spellings",
			Blocks: `kernel_args { present = { nokaslr = "", "init_on_alloc" = 0, dyndbg = "file drivers/infiniband/* +p", pci = ` + config + ` } }`,
			Facts:  plantest.Node(),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{
				`dyndbg="file drivers/infiniband/* +p"`, "init_on_alloc=0", "nokaslr", "pci=config_acs=xx111x0@0008:00:00.0;xx101x1@0008:02:03.0",
			})},
			Want: `
				!drift boot_args.next_boot dyndbg="file drivers/infiniband/* +p" (/boot/grub/grub.cfg:3)
				!drift boot_args.next_boot init_on_alloc=0 (/boot/grub/grub.cfg:3)
				!drift boot_args.next_boot nokaslr (/boot/grub/grub.cfg:3)
				!drift boot_args.next_boot pci=config_acs=xx111x0@0008:00:00.0;xx101x1@0008:02:03.0 (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot dyndbg="file drivers/infiniband/* +p" (/proc/cmdline)
				pending-reboot boot_args.next_boot init_on_alloc=0 (/proc/cmdline)
				pending-reboot boot_args.next_boot nokaslr (/proc/cmdline)
				pending-reboot boot_args.next_boot pci=config_acs=xx111x0@0008:00:00.0;xx101x1@0008:02:03.0 (/proc/cmdline)
			`,
		},
		{
			Name:   "in force, however it is spelt",
			Blocks: `kernel_args { present = { init_on_alloc = "n", "numa-balancing" = "disable", pci = "noaer", console = "ttyS0" } }`,
			Facts: plantest.Node(
				plantest.CommandLine("console=ttyS0 console=tty0 init_on_alloc=0 numa_balancing=disable pci=nommconf,noaer"),
				plantest.Boot("console=ttyS0 console=tty0 init_on_alloc=0 numa_balancing=disable pci=nommconf,noaer", "console=ttyS0 console=tty0 init_on_alloc=0 numa_balancing=disable pci=nommconf,noaer")),
			Want: `
				ok boot_args.next_boot console=ttyS0 (/boot/grub/grub.cfg:3)
				ok boot_args.next_boot init_on_alloc=n (/boot/grub/grub.cfg:3)
				ok boot_args.next_boot numa-balancing=disable (/boot/grub/grub.cfg:3)
				ok boot_args.next_boot pci=noaer (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "unwanted", Blocks: `kernel_args { absent = ["pci=noacs", "amd_iommu"] }`,
			Facts: plantest.Node(plantest.CommandLine("amd_iommu=on"), plantest.Boot("quiet amd_iommu=on", "quiet amd_iommu=on")),
			Says:  []string{"no amd_iommu is wanted (node.hcl:1), and /etc/default/grub:1 undoes it"},
			Want: `
				ok boot_args.next_boot pci=noacs (/boot/grub/grub.cfg:3)
				conflict boot_args.overridden amd_iommu (/etc/default/grub:1)
			`,
		},
		{
			Name: "unwanted, taken over", Blocks: `kernel_args {
				absent    = ["pci=noacs", "amd_iommu"]
				take_over = true
			}`,
			Facts: plantest.Node(plantest.CommandLine("amd_iommu=on"), plantest.Boot("quiet pci=noacs amd_iommu=on splash", "quiet amd_iommu=on")),
			Texts: map[string]string{grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\n"},
			Want: `
				!drift boot_args.next_boot amd_iommu (/boot/grub/grub.cfg:3)
				!drift boot_args.next_boot pci=noacs (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot amd_iommu (/proc/cmdline)
			`,
		},
		{
			Name: "a list is not cut", Blocks: `kernel_args {
				absent    = ["pci=noacs"]
				take_over = true
			}`,
			Facts: plantest.Node(plantest.CommandLine("pci=noacs,noaer"), plantest.Boot("pci=noacs,noaer", "pci=noacs,noaer")),
			Says:  []string{"busbar cuts whole words only"},
			Want: `
				conflict boot_args.overridden pci=noacs (/etc/default/grub:1)
			`,
		},
		{
			Name: "unwanted and gone at the next boot", Blocks: `kernel_args { absent = ["amd_iommu"] }`,
			Facts: plantest.Node(plantest.CommandLine("amd_iommu=on"), plantest.Boot("quiet", "quiet")),
			Want: `
				pending-reboot boot_args.next_boot amd_iommu (/proc/cmdline)
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot amd_iommu (/proc/cmdline)
			`,
		},
		{
			Name: "unwanted, and was there after the reboot too", Blocks: `kernel_args { absent = ["amd_iommu"] }`,
			Facts: marked(plantest.Node(plantest.CommandLine("amd_iommu=on"), plantest.Boot("quiet", "quiet")), "-amd_iommu"),
			Want: `
				ineffective boot_args.next_boot amd_iommu (/proc/cmdline)
			`,
		},
		{
			Name: "a later file replaces what busbar appends", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.BootWith(map[string]string{
				grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentDir + "/zzz.cfg": "# x\nGRUB_CMDLINE_LINUX_DEFAULT=quiet\n",
			}, "quiet")),
			Says: []string{"/etc/default/grub.d/zzz.cfg:2 undoes it"},
			Want: `
				drift warn boot_args.repeated_assignment /etc/default/grub.d/zzz.cfg (/etc/default/grub.d/zzz.cfg:2)
				conflict boot_args.overridden numa_balancing=disable (/etc/default/grub.d/zzz.cfg:2)
			`,
		},
		{
			Name: "the entries are stale", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.Boot("quiet numa_balancing=disable", "quiet")),
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step update-grub:/boot/grub/grub.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot numa_balancing=disable (/proc/cmdline)
			`,
		},
		{
			Name: "no entries yet", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.Generated = "" })),
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/etc/default/grub)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step write-marker:/var/lib/busbar/marker.json
			`,
			After: `
				pending-reboot boot_args.next_boot numa_balancing=disable (/proc/cmdline)
			`,
		},
		{
			Name: "no update-grub", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.UpdateGrub = false })),
			Want: `
				unsupported boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "a directory tree without update-grub", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: root(plantest.Node(changed(func(b *node.BootConfig) { b.UpdateGrub = false }))),
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
			`,
			After: `
				deferred boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "a directory tree with neither update-grub nor entries", Blocks: `kernel_args {
				present = { numa_balancing = "disable", quiet = "" }
				absent  = ["splash", "nokaslr"]
			}`,
			Facts: root(plantest.Node(changed(func(b *node.BootConfig) {
				b.UpdateGrub, b.Generated = false, ""
				b.Defaults = append(b.Defaults, confdir.File{Path: grub.FragmentFile, Text: grub.Fragment([]string{"splash"})})
			}))),
			Want: `
				deferred boot_args.next_boot nokaslr (/etc/default/grub)
				!drift boot_args.next_boot numa_balancing=disable (/etc/default/grub)
				deferred boot_args.next_boot quiet (/etc/default/grub)
				!drift boot_args.next_boot splash (/etc/default/grub)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
			`,
			After: `
				deferred boot_args.next_boot nokaslr (/etc/default/grub)
				deferred boot_args.next_boot numa_balancing=disable (/etc/default/grub)
				deferred boot_args.next_boot quiet (/etc/default/grub)
				deferred boot_args.next_boot splash (/etc/default/grub)
			`,
		},
		{
			Name: "a directory tree without update-grub whose defaults cannot be evaluated", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: root(plantest.Node(changed(func(b *node.BootConfig) {
				b.UpdateGrub = false
				b.Defaults = []confdir.File{{Path: grub.DefaultsFile, Text: "GRUB_CMDLINE_LINUX=\"$(cat /etc/args)\"\n"}}
			}))),
			Want: `
				unknown boot_args.next_boot numa_balancing (/etc/default/grub)
			`,
		},
		{
			Name: "a directory tree without update-grub, taken over", Blocks: `kernel_args {
				absent    = ["splash"]
				take_over = true
			}`,
			Facts: root(plantest.Node(changed(func(b *node.BootConfig) {
				b.UpdateGrub, b.Generated = false, ""
				b.Defaults = []confdir.File{{Path: grub.DefaultsFile, Text: "GRUB_CMDLINE_LINUX=\"quiet splash\"\n"}}
			}))),
			Want: `
				!drift boot_args.next_boot splash (/etc/default/grub)
				step write-file:/etc/default/grub
			`,
			After: `
				deferred boot_args.next_boot splash (/etc/default/grub)
			`,
		},
		{
			Name: "the entries have it, and the defaults do not", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("numa_balancing=disable"), plantest.Boot("quiet", "quiet numa_balancing=disable")),
			Says:  []string{"and gone when update-grub runs"},
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
			`,
		},
		{
			Name: "a directory tree in which all is well", Blocks: `kernel_args {
				present = { iommu = "pt" }
				absent  = ["splash"]
			}`,
			Facts: root(plantest.Node(plantest.Boot("iommu.passthrough=1", "iommu.passthrough=1"))),
			Says:  []string{"iommu=pt is in force at the next boot\n", "splash is not on the kernel's command line at the next boot\n"},
			Want: `
				ok boot_args.next_boot iommu=pt (/boot/grub/grub.cfg:3)
				ok boot_args.next_boot splash (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "a directory tree", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: root(plantest.Node()),
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
			`,
		},
		{
			Name: "nothing is left to want", Facts: plantest.Node(plantest.BootWith(map[string]string{
				grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: grub.Fragment([]string{"numa_balancing=disable", `dyndbg="a b"`}),
			}, `quiet numa_balancing=disable dyndbg=\"a b\"`)),
			Texts: map[string]string{grub.FragmentFile: grub.EmptyFragment},
			Want: `
				!drift file.stale /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step remove-file:/etc/default/grub.d/zz-busbar.cfg
			`,
		},
		{
			Name: "nothing is left to want, and a run was ended before update-grub was", Facts: plantest.Node(outdated(grub.EmptyFragment, "quiet nokaslr")),
			Want: `
				!drift boot_args.left_over nokaslr (/boot/grub/grub.cfg)
				!drift file.stale /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg)
				step update-grub:/boot/grub/grub.cfg
				step remove-file:/etc/default/grub.d/zz-busbar.cfg
			`,
		},
		{
			Name: "nothing is left to want, and a run was ended after update-grub was", Facts: plantest.Node(plantest.BootWith(map[string]string{
				grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: grub.EmptyFragment,
			}, "quiet")),
			Want: `
				!drift file.stale /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg)
				step remove-file:/etc/default/grub.d/zz-busbar.cfg
			`,
		},
		{
			Name: "one of two was dropped, and the run was ended before update-grub was", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("quiet numa_balancing=disable"), outdated(grub.Fragment([]string{"numa_balancing=disable"}), "quiet nokaslr numa_balancing=disable")),
			Says:  []string{"nokaslr is in the boot entries and not in GRUB's defaults: update-grub has not run to its end since busbar changed them"},
			Want: `
				!drift boot_args.left_over nokaslr (/boot/grub/grub.cfg)
				ok boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step update-grub:/boot/grub/grub.cfg
			`,
		},
		{
			Name: "the fragment is younger than entries that follow from it", Blocks: `kernel_args { present = { dyndbg = "a b" } }`,
			Facts: plantest.Node(plantest.CommandLine(`quiet dyndbg="a b"`), outdated(grub.Fragment([]string{`dyndbg="a b"`}), `quiet dyndbg="a b"`)),
			Want: `
				ok boot_args.next_boot dyndbg="a b" (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "others bring it by now", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("numa_balancing=disable"), plantest.BootWith(map[string]string{
				grub.DefaultsFile: "GRUB_CMDLINE_LINUX=numa_balancing=disable\n", grub.FragmentFile: grub.Fragment([]string{"numa_balancing=disable"}),
			}, "numa_balancing=disable numa_balancing=disable")),
			Want: `
				drift warn boot_args.doubled_token /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg:2)
				!drift file.stale /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg)
				ok boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step remove-file:/etc/default/grub.d/zz-busbar.cfg
			`,
		},
		{
			Name: "one of two is dropped", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("numa_balancing=disable nokaslr"), plantest.BootWith(map[string]string{
				grub.FragmentFile: grub.Fragment([]string{"nokaslr", "numa_balancing=disable"}),
			}, "nokaslr numa_balancing=disable")),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"numa_balancing=disable"})},
			Want: `
				!drift file.stale /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg)
				ok boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
			`,
		},
		{
			Name: "another entry is pinned", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("numa_balancing=disable"), changed(func(b *node.BootConfig) {
				b.Defaults[0].Text = "GRUB_DEFAULT=Windows\nGRUB_CMDLINE_LINUX=numa_balancing=disable\n"
				b.Generated = plantest.GRUBConfig("numa_balancing=disable") + "menuentry 'Windows' {\n\tchainloader /w\n}\n"
			})),
			Want: `
				ok boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				conflict boot_args.other_entry GRUB_DEFAULT (/etc/default/grub:1)
			`,
		},
		{
			Name: "a running command line with doubled words", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("console=tty0 numa_balancing=disable console=tty0 numa_balancing=disable numa_balancing=disable"), plantest.Boot("numa_balancing=disable", "numa_balancing=disable")),
			Want: `
				drift warn boot_args.doubled_token numa_balancing=disable (/proc/cmdline)
				ok boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "defaults that no shell can read", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.Defaults[0].Text = "A=1\nGRUB_CMDLINE_LINUX=\"x\n" })),
			Want: `
				conflict boot_args.defaults_broken numa_balancing=disable (/etc/default/grub:2)
			`,
		},
		{
			Name: "busbar's own fragment was broken by hand", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("numa_balancing=disable"), plantest.BootWith(map[string]string{
				grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: "GRUB_CMDLINE_LINUX_DEFAULT=\"$\n",
			}, "quiet numa_balancing=disable")),
			Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{"numa_balancing=disable"})},
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
			`,
		},
		{
			Name: "defaults that hang on a command", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.Defaults[0].Text = "GRUB_CMDLINE_LINUX=\"$(make-args)\"\n" })),
			Want: `
				unknown boot_args.next_boot numa_balancing (/etc/default/grub)
			`,
		},
		{
			Name: "a grub.cfg that cannot be read", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.Generated, b.GeneratedReason = "", "permission denied" })),
			Want: `
				unknown boot_args.next_boot numa_balancing (/etc/default/grub)
			`,
		},
		{
			Name: "a grub.cfg without an entry", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.Generated = "set default=0\n" })),
			Want: `
				unknown boot_args.next_boot numa_balancing (/etc/default/grub)
			`,
		},
		{
			Name: "a grub.cfg that was cut off", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(changed(func(b *node.BootConfig) { b.Generated = "menuentry a {\n" })),
			Want: `
				unknown boot_args.next_boot numa_balancing (/etc/default/grub)
			`,
		},
		{
			Name: "no boot loader", Blocks: `kernel_args { present = { numa_balancing = "disable", nokaslr = "" } }`,
			Facts: plantest.Node(plantest.CommandLine("nokaslr"), changed(func(b *node.BootConfig) { *b = node.BootConfig{Loader: node.LoaderNone} })),
			Says:  []string{"no boot loader that busbar manages"},
			Want: `
				ok boot_args.next_boot nokaslr (/proc/cmdline)
				unsupported boot_args.next_boot numa_balancing=disable (/proc/cmdline)
			`,
		},
		{
			Name: "unknown boot loader", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Says:  []string{"numa_balancing: what the boot loader hands the kernel is unknown: permission denied"},
			Facts: plantest.Node(node.Boot.Answer("", node.Unknown[node.BootConfig]("permission denied", node.Source{Path: "/etc/default"}))),
			Want: `
				unknown boot_args.next_boot numa_balancing (/etc/default)
			`,
		},
		{
			Name: "unknown command line", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.Boot("numa_balancing=disable", "numa_balancing=disable"), node.CommandLine.Answer("", node.Unknown[string]("no /proc", node.Source{}))),
			Want: `
				unknown boot_args.next_boot numa_balancing=disable ()
			`,
		},
		{
			Name: "a read-only file system", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(node.Mount.Answer("/etc/default", node.Known(node.MountState{Point: "/etc", Type: "overlay", ReadOnly: true}, node.Source{})),
				node.Mount.Answer("/etc/default/grub.d", node.Known(node.MountState{Point: "/etc", Type: "overlay", ReadOnly: true}, node.Source{}))),
			Says: []string{"/etc/default/grub.d/zz-busbar.cfg cannot be written: /etc is mounted read-only"},
			Want: `
				unsupported boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "boot entries on a read-only file system", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(node.Mount.Answer("/boot/grub", node.Known(node.MountState{Point: "/boot", Type: "ext4", ReadOnly: true}, node.Source{}))),
			Says:  []string{"/boot/grub/grub.cfg cannot be written: /boot is mounted read-only", "mount it for writing"},
			Want: `
				unsupported boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
			`,
		},
		{
			Name: "update-grub failed after the fragment was written", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(plantest.CommandLine("numa_balancing=disable"), outdated(grub.Fragment([]string{"numa_balancing=disable"}), "quiet")),
			Says:  []string{"numa_balancing=disable is not in force at the next boot, which changes when update-grub runs: GRUB's defaults are as wanted"},
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step update-grub:/boot/grub/grub.cfg
			`,
		},
		{
			Name: "a diskless node gets no marker", Blocks: `kernel_args { present = { numa_balancing = "disable" } }`,
			Facts: plantest.Node(node.Mount.Answer("/var/lib/busbar", node.Known(node.MountState{Point: "/", Type: "tmpfs"}, node.Source{}))),
			Want: `
				!drift boot_args.next_boot numa_balancing=disable (/boot/grub/grub.cfg:3)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
			`,
			After: `
				pending-reboot boot_args.next_boot numa_balancing=disable (/proc/cmdline)
			`,
		},
	})
}

func changed(change func(*node.BootConfig)) node.Answer {
	v := node.Boot.Get(node.Facts{}.With(plantest.Boot("quiet", "quiet")), "")
	boot, _ := v.Get()
	change(&boot)
	return node.Boot.Answer("", node.Known(boot, v.Source()))
}

func root(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.RootDirectory = true
	return f.WithInventory(inv)
}

// marked was left a marker by an earlier boot.
func marked(f node.Facts, args ...string) node.Facts {
	inv := f.Inventory
	inv.Marker = node.Known(node.Marker{BootID: "before", Args: args}, node.Source{Path: node.MarkerPath})
	return f.WithInventory(inv)
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`kernel_args { present = { a = "1", b = 2, c = "" } }`:          0,
		`kernel_args { absent = ["pci=noacs"] }`:                        0,
		`kernel_args {}`:                                                1,
		`kernel_args { present = "a" }`:                                 1,
		`kernel_args { present = { a = null, b = true, c = 1.5 } }`:     3,
		`kernel_args { present = { "a b" = 1, c = "x\ny" } }`:           2,
		`kernel_args { present = { "iommu.strict" = "maybe" } }`:        1,
		`kernel_args { present = { iommu = "pt,nopt" } }`:               1,
		`kernel_args { absent = ["a b=1"] }`:                            1,
		`kernel_args { present = { foo = "a\tb", "x\ty" = 1 } }`:        2,
		`kernel_args { absent = ["foo=a\tb"] }`:                         1,
		"kernel_args {\npresent = { a-b = 1 }\nabsent = [\"a_b\"]\n}":   1,
		"kernel_args {\npresent = { a = 1 }\nabsent = [\"a=1\"]\n}":     1,
		"kernel_args {\npresent = { a = 1 }\nabsent = [\"a=2\"]\n}":     0,
		"kernel_args {\npresent = { a = \"--\" }\nabsent = [\"--\"]\n}": 1,
	} {
		if problems := (kernelargs.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// outdated are boot entries that are older than busbar's fragment.
func outdated(fragment, entries string) node.Answer {
	answer := plantest.BootWith(map[string]string{grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: fragment}, entries)
	boot, _ := node.Boot.Get(node.Facts{}.With(answer), "").Get()
	boot.Outdated = true
	return node.Boot.Answer("", node.Known(boot, node.Source{Path: grub.DefaultsFile}))
}
