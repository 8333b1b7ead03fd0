package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestModuleFiles(t *testing.T) {
	load := func(text string) node.Answer {
		return node.ModulesLoadFiles.Answer("", node.Known([]confdir.File{{Path: "/etc/modules-load.d/a.conf", Text: text}}, node.Source{Path: "/etc/modules-load.d/a.conf"}))
	}
	modprobe := func(text string) node.Answer {
		return node.ModprobeFiles.Answer("", node.Known([]confdir.File{{Path: "/etc/modprobe.d/b.conf", Text: text}}, node.Source{Path: "/etc/modprobe.d/b.conf"}))
	}
	line := func(text string) node.Answer {
		return node.CommandLine.Answer("", node.Known(text, node.Source{Path: "/proc/cmdline"}))
	}
	c := func(name, want string, says []string, answers ...node.Answer) plantest.Case {
		unknown := []node.Answer{node.CommandLine.Answer("", node.Value[string]{}), node.ModulesLoadFiles.Answer("", node.Value[[]confdir.File]{}), node.ModprobeFiles.Answer("", node.Value[[]confdir.File]{}), plantest.Initramfs("nouveau", nil)}
		return plantest.Case{Name: name, Blocks: `check "module_files" "all" {}`, Facts: plantest.Node(append(unknown, answers...)...), Want: want, Says: says}
	}
	const fine = "ok module_files.boot modules (/etc/modprobe.d/b.conf)\n"
	const nouveau = "blacklist nouveau\noptions nouveau modeset=0\n"
	plantest.Run(t, checks.All(), []plantest.Case{
		c("nothing is known", "unknown module_files.boot  ()", []string{"what the files say is unknown"}),
		c("one kind of files alone", "ok module_files.boot modules ()", nil, load("nvidia_peermem\n")),
		c("loaded and not kept out", fine, nil, load("nvidia_peermem\n"), modprobe("blacklist floppy\n")),
		c("loaded and kept out, with a hyphen in one", "conflict module_files.boot nvidia_peermem (/etc/modprobe.d/b.conf:2)",
			[]string{"nvidia_peermem is to be loaded at boot (/etc/modules-load.d/a.conf:1), and /etc/modprobe.d/b.conf:2 blacklists it"},
			load("nvidia-peermem\n"), modprobe("# OFED\nblacklist nvidia_peermem\n")),
		c("named three times", "drift info module_files.repeated_line ib_umad (/etc/modules-load.d/a.conf:2)\ndrift info module_files.repeated_line ib_umad (/etc/modules-load.d/a.conf:3)",
			[]string{"ib_umad is named again"}, load("ib_umad\nib_umad\nib_umad\n")),
		c("an option that the driver had once", "drift warn module_files.gone_option NVreg_UsePageAttributeTable (/etc/modprobe.d/b.conf:1)", []string{"take it out"},
			modprobe("options nvidia NVreg_UsePageAttributeTable=1 NVreg_DynamicPowerManagement=0\n")),
		c("NVLinks are turned off", "drift warn module_files.nvlink_off NVreg_NvLinkDisable (/etc/modprobe.d/b.conf:1)", []string{"NVreg_NvLinkDisable=1 keeps the driver from using NVLinks"}, modprobe("options nvidia NVreg_NvLinkDisable=1\n")),
		c("NVLinks are left on", fine, nil, modprobe("options nvidia NVreg_NvLinkDisable=0\n")),
		c("the same name of another module", fine, nil, modprobe("options other NVreg_UsePageAttributeTable=1\n")),

		c("nouveau in a file alone", "drift warn module_files.initramfs nouveau ("+plantest.Image+")", []string{"make the initramfs anew"}, modprobe(nouveau), line("root=/dev/sda quiet")),
		c("nouveau, and the command line is unknown", fine, nil, modprobe(nouveau)),
		c("nouveau on the command line of dracut", fine, nil, modprobe(nouveau), line("root=/dev/sda rd.driver.blacklist=nouveau")),
		c("nouveau on the command line among others", fine, nil, modprobe(nouveau), line("root=/dev/sda modprobe.blacklist=floppy,nouveau")),
		c("another module on the command line", "drift warn module_files.initramfs nouveau ("+plantest.Image+")", nil, modprobe(nouveau), line("root=/dev/sda module_blacklist=nouveau2")),
	})
}
