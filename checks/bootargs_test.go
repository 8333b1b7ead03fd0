package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestBootArgs(t *testing.T) {
	const blocks = `check "boot_args" "all" {}`
	running := func(line string) node.Answer {
		return node.CommandLine.Answer("", node.Known(line, node.Source{Path: "/proc/cmdline", Line: 1}))
	}
	grub := func(defaults string, fragments ...confdir.File) node.BootConfig {
		return node.BootConfig{Loader: node.LoaderGRUBDebian, Defaults: append([]confdir.File{{Path: "/etc/default/grub", Text: defaults}}, fragments...)}
	}
	boot := func(c node.BootConfig) node.Answer {
		return node.Boot.Answer("", node.Known(c, node.Source{Path: "/etc/default/grub"}))
	}
	fragment := func(text string) confdir.File {
		return confdir.File{Path: "/etc/default/grub.d/50-cloudimg-settings.cfg", Text: text}
	}
	entries := func(options, environment string) node.BootConfig {
		c := grub("GRUB_CMDLINE_LINUX=\"iommu=pt quiet\"\nGRUB_ENABLE_BLSCFG=true\n")
		c.Loader, c.Environment = node.LoaderGRUBBLS, environment
		c.Entries = []confdir.File{{Path: "/boot/loader/entries/a.conf", Text: "title A\nlinux /vmlinuz\noptions " + options + "\n"}}
		return c
	}
	kernelLine := node.File.Answer("/etc/kernel/cmdline", node.Known(node.FileState{Exists: true, Text: "root=/dev/sda ro\n"}, node.Source{Path: "/etc/kernel/cmdline"}))
	c := func(name, want string, says []string, answers ...node.Answer) plantest.Case {
		unknown := []node.Answer{node.CommandLine.Answer("", node.Value[string]{}), node.Boot.Answer("", node.Value[node.BootConfig]{})}
		return plantest.Case{Name: name, Blocks: blocks, Facts: plantest.Node(append(unknown, answers...)...), Want: want, Says: says}
	}
	const (
		runs  = "ok boot_args.running command line (/proc/cmdline:1)\n"
		files = "ok boot_args.files boot loader (/etc/default/grub)\n"
	)
	plantest.Run(t, checks.All(), []plantest.Case{
		c("an IOMMU that is on, and nothing says how it treats DMA", "drift warn boot_args.running intel_iommu=on (/proc/cmdline:1)", []string{"add iommu=pt"}, running("root=/dev/sda intel_iommu=on quiet")),
		c("an IOMMU that is on, for passthrough", runs, nil, running("root=/dev/sda intel_iommu=on iommu=pt")),
		c("nothing is known", "unknown boot_args.running  ()", []string{"what the kernel was told is unknown"}),
		c("passthrough", runs, []string{"ask for an IOMMU in mode passthrough (iommu=pt)"}, running("root=/dev/sda ro iommu=pt")),
		c("passthrough of arm64", runs, []string{"in mode passthrough (iommu.passthrough=1)"}, running("root=/dev/sda ro iommu.passthrough=1")),
		c("nothing of the IOMMU", runs, []string{"none that settles the IOMMU is without effect"}, running("root=/dev/sda ro quiet")),
		c("an argument of AMD's that is none", "drift boot_args.running amd_iommu=on (/proc/cmdline:1)", []string{"amd_iommu=on does nothing", "write iommu=pt instead"}, running("root=/dev/sda amd_iommu=on")),
		c("the same beside one that counts", "drift warn boot_args.running amd_iommu=on (/proc/cmdline:1)", []string{"take it out of where it comes from"}, running("root=/dev/sda amd_iommu=on iommu=pt")),
		c("an argument that the kernel does not know", "drift warn boot_args.running pci=noacs (/proc/cmdline:1)", []string{"pci=noacs: "}, running("root=/dev/sda pci=noacs")),
		c("an argument twice", "drift warn boot_args.doubled_token quiet (/proc/cmdline:1)", []string{"quiet stands on the running kernel's command line more than once"}, running("root=/dev/sda quiet quiet quiet")),
		c("consoles are many", runs, nil, running("root=/dev/sda console=tty0 console=ttyS0 console=tty0")),

		c("files that lose nothing", files, nil, boot(grub("GRUB_CMDLINE_LINUX=\"iommu=pt\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"))),
		c("the running line and the files", files+runs, nil, running("root=/dev/sda iommu=pt quiet"), boot(grub("GRUB_CMDLINE_LINUX=\"iommu=pt\"\n"))),
		c("a comment sets nothing", files, nil, boot(grub("GRUB_CMDLINE_LINUX=\"\"\n", fragment("#GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX pci=config_acs=xx111x0@0008:00:00.0\"\n")))),
		c("a later file drops what matters", "drift boot_args.dropped_tokens /etc/default/grub.d/50-cloudimg-settings.cfg (/etc/default/grub.d/50-cloudimg-settings.cfg:1)",
			[]string{"drops quiet iommu=pt"}, boot(grub("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n", fragment("GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\n")))),
		c("a later file drops what does not", "drift info boot_args.dropped_tokens /etc/default/grub.d/50-cloudimg-settings.cfg (/etc/default/grub.d/50-cloudimg-settings.cfg:1)",
			[]string{"drops quiet"}, boot(grub("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n", fragment("GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\n")))),
		c("a name that nobody reads", "drift boot_args.unknown_key /etc/default/grub (/etc/default/grub:1)", []string{"correct the name, and run update-grub"}, boot(grub("GRUB_CMDLINE_LINE=\"iommu=pt\"\n"))),
		c("a quote without its end", "drift boot_args.defaults_broken /etc/default/grub (/etc/default/grub:2)", []string{"cannot be read by the shell"}, boot(grub("GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"iommu=pt\n"))),
		c("an argument in both lines", "drift warn boot_args.doubled_token /etc/default/grub (/etc/default/grub:2)", []string{"keep one of the two"}, boot(grub("GRUB_CMDLINE_LINUX=\"quiet\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"))),

		c("entries that have it", files, nil, boot(entries("root=/dev/sda ro iommu=pt quiet", ""))),
		c("entries that have it in GRUB's environment", files, nil, boot(entries("$kernelopts", "# GRUB Environment Block\nkernelopts=root=/dev/sda ro iommu=pt\n"))),
		c("an entry that was made before", "drift boot_args.stale_entry iommu=pt (/etc/default/grub:1)", []string{"the boot loader's entries do not have it: /boot/loader/entries/a.conf", `grubby --update-kernel=ALL --args="iommu=pt"`},
			boot(entries("root=/dev/sda ro", ""))),
		c("and the next kernel's neither", "drift boot_args.stale_entry iommu=pt (/etc/default/grub:1)", []string{"add it to /etc/kernel/cmdline, which the next kernel's entry is made of"}, boot(entries("root=/dev/sda ro", "")), kernelLine),
	})
}
