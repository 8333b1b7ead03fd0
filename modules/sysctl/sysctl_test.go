package sysctl_test

import (
	"testing"

	"busbar/internal/confdir"
	"busbar/modules/sysctl"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{sysctl.Type{}}

func running(name, value string) node.Answer {
	return node.Sysctl.Answer(name, node.Known(value, node.Source{Path: "/proc/sys/" + name}))
}

func files(files map[string]string) node.Answer { return plantest.Files(node.SysctlFiles, files) }

func TestParameter(t *testing.T) {
	const numa = "kernel.numa_balancing"
	off := `sysctl "kernel.numa_balancing" { value = 0 }`
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "neither now nor at boot", Blocks: off, Facts: plantest.Node(running(numa, "2")),
			Texts: map[string]string{"/etc/sysctl.d/zz-busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nkernel.numa_balancing = 0\n"},
			Want: `
				!drift sysctl.boot kernel.numa_balancing (/etc/sysctl.d)
				!drift sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
				step write-file:/etc/sysctl.d/zz-busbar.conf
				step set-sysctl:kernel.numa_balancing
			`,
		},
		{
			Name: "others set it", Blocks: off,
			Facts: plantest.Node(running(numa, "0"), files(map[string]string{"/usr/lib/sysctl.d/10-hpc.conf": "# x\nkernel/numa_balancing = 0x0\n"})),
			Want: `
				ok sysctl.boot kernel.numa_balancing (/usr/lib/sysctl.d/10-hpc.conf:2)
				ok sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
			`,
		},
		{
			Name: "others set it to another value, and busbar's file is read last", Blocks: off,
			Facts: plantest.Node(running(numa, "0"), files(map[string]string{"/usr/lib/sysctl.d/99-hpc.conf": "kernel.numa_balancing = 1\n"})),
			Says:  []string{"kernel.numa_balancing is set to 1 at boot by /usr/lib/sysctl.d/99-hpc.conf:1"},
			Want: `
				!drift sysctl.boot kernel.numa_balancing (/usr/lib/sysctl.d/99-hpc.conf:1)
				ok sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
				step write-file:/etc/sysctl.d/zz-busbar.conf
			`,
		},
		{
			Name: "a file of others is read last", Blocks: off,
			Facts: plantest.Node(running(numa, "0"), files(map[string]string{"/etc/sysctl.d/zzz.conf": "\nkernel.numa_balancing = 1\n", "/etc/sysctl.d/zz-busbar.conf": "kernel.numa_balancing = 0\n"})),
			Says:  []string{`0 is wanted (node.hcl:1), /etc/sysctl.d/zzz.conf:2 sets 1 and is read after /etc/sysctl.d/zz-busbar.conf`},
			Want: `
				!drift file.stale /etc/sysctl.d/zz-busbar.conf (/etc/sysctl.d/zz-busbar.conf)
				conflict sysctl.boot kernel.numa_balancing (/etc/sysctl.d/zzz.conf:2)
				ok sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
				step remove-file:/etc/sysctl.d/zz-busbar.conf
			`,
			After: `
				conflict sysctl.boot kernel.numa_balancing (/etc/sysctl.d/zzz.conf:2)
			`,
		},
		{
			Name: "a pattern in a later file does not win", Blocks: `sysctl "net.ipv4.conf.eth0.rp_filter" {
				value = 2
				apply = "boot"
			}`,
			Facts: plantest.Node(files(map[string]string{"/etc/sysctl.d/zzz.conf": "net.ipv4.conf.*.rp_filter = 1\n"})),
			Want: `
				!drift sysctl.boot net.ipv4.conf.eth0.rp_filter (/etc/sysctl.d/zzz.conf:1)
				step write-file:/etc/sysctl.d/zz-busbar.conf
			`,
		},
		{
			Name: "now only", Blocks: `sysctl "vm.zone_reclaim_mode" {
				value = "0"
				apply = "running"
			}`,
			Facts: plantest.Node(running("vm.zone_reclaim_mode", "1")),
			Want: `
				!drift sysctl.running vm.zone_reclaim_mode (/proc/sys/vm.zone_reclaim_mode)
				step set-sysctl:vm.zone_reclaim_mode
			`,
		},
		{
			Name: "runs of blanks and spellings of numbers are equal", Blocks: `sysctl "net.ipv4.tcp_rmem" { value = "4096 0x10000 6291456" }
				sysctl "vm.x" { value = "0x10" }`,
			Facts: plantest.Node(running("net.ipv4.tcp_rmem", "4096\t65536\t6291456"), running("vm.x", "17")),
			Want: `
				!drift sysctl.boot net.ipv4.tcp_rmem (/etc/sysctl.d)
				ok sysctl.running net.ipv4.tcp_rmem (/proc/sys/net.ipv4.tcp_rmem)
				!drift sysctl.boot vm.x (/etc/sysctl.d)
				!drift sysctl.running vm.x (/proc/sys/vm.x)
				step write-file:/etc/sysctl.d/zz-busbar.conf
				step set-sysctl:vm.x
			`,
		},
		{
			Name: "tabs are shown as blanks", Blocks: `sysctl "net.ipv4.ip_local_port_range" { value = "1024\t65000" }`,
			Facts: plantest.Node(running("net.ipv4.ip_local_port_range", "32768\t60999"), files(map[string]string{"/etc/sysctl.d/a.conf": "net.ipv4.ip_local_port_range = 1\t2\n"})),
			Says:  []string{"is 32768 60999, wanted is 1024 65000", "is set to 1 2 at boot by /etc/sysctl.d/a.conf:1"},
			Want: `
				!drift sysctl.boot net.ipv4.ip_local_port_range (/etc/sysctl.d/a.conf:1)
				!drift sysctl.running net.ipv4.ip_local_port_range (/proc/sys/net.ipv4.ip_local_port_range)
				step write-file:/etc/sysctl.d/zz-busbar.conf
				step set-sysctl:net.ipv4.ip_local_port_range
			`,
		},
		{
			Name: "two blocks agree, however they spell it", Blocks: `sysctl "kernel.numa_balancing" { value = 0 }
				sysctl "kernel/numa_balancing" { value = "0" }`,
			Facts: plantest.Node(running(numa, "1")),
			Texts: map[string]string{"/etc/sysctl.d/zz-busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nkernel.numa_balancing = 0\n"},
			Want: `
				!drift sysctl.boot kernel.numa_balancing (/etc/sysctl.d)
				!drift sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
				!drift sysctl.boot kernel.numa_balancing (/etc/sysctl.d)
				!drift sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
				step write-file:/etc/sysctl.d/zz-busbar.conf
				step set-sysctl:kernel.numa_balancing
			`,
		},
		{
			Name: "two blocks contradict each other", Blocks: `sysctl "kernel.numa_balancing" { value = 0 }
sysctl "kernel/numa_balancing" { value = 1 }`,
			Facts: plantest.Node(running(numa, "1")),
			Says:  []string{`(node.hcl:1), and sysctl["kernel/numa_balancing"] wants "1" (node.hcl:2)`},
			Want: `
				conflict profile.contradiction kernel.numa_balancing (node.hcl:2)
				drift sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
				conflict profile.contradiction kernel.numa_balancing (node.hcl:1)
				ok sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
			`,
		},
		{
			Name:  "no block is left",
			Facts: plantest.Node(files(map[string]string{"/etc/sysctl.d/zz-busbar.conf": "kernel.numa_balancing = 0\n"})),
			Want: `
				!drift file.stale /etc/sysctl.d/zz-busbar.conf (/etc/sysctl.d/zz-busbar.conf)
				step remove-file:/etc/sysctl.d/zz-busbar.conf
			`,
		},
		{
			Name: "unknown", Blocks: off, Facts: plantest.Node(
				node.Sysctl.Answer(numa, node.Unknown[string]("the running kernel has no such parameter", node.Source{Path: "/proc/sys/kernel/numa_balancing"})),
				node.SysctlFiles.Answer("", node.Value[[]confdir.File]{})),
			Want: `
				unknown sysctl.boot kernel.numa_balancing ()
				unknown sysctl.running kernel.numa_balancing (/proc/sys/kernel/numa_balancing)
			`,
		},
		{
			Name: "an unreadable file", Blocks: off, Facts: plantest.Node(running(numa, "0"), files(map[string]string{"/etc/sysctl.d/x.conf": "?"})),
			Want: `
				unknown sysctl.boot kernel.numa_balancing (/etc/sysctl.d/x.conf)
				ok sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
			`,
		},
		{
			Name: "NixOS", Blocks: off, Facts: plantest.Node(running(numa, "0"),
				node.Mount.Answer("/etc/sysctl.d", node.Known(node.MountState{Point: "/", Type: "ext4", Immutable: "NixOS"}, node.Source{}))),
			Says: []string{"/etc/sysctl.d/zz-busbar.conf cannot be written: NixOS makes /etc from its own configuration", "set boot.kernel.sysctl in configuration.nix"},
			Want: `
				unsupported sysctl.boot kernel.numa_balancing (/etc/sysctl.d)
				ok sysctl.running kernel.numa_balancing (/proc/sys/kernel.numa_balancing)
			`,
		},
	})
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`sysctl "kernel.numa_balancing" { value = 0 }`:     0,
		`sysctl "kernel.numa_balancing" { value = "a\n" }`: 1,
		`sysctl "kernel.numa_balancing" { value = 0.5 }`:   1,
		`sysctl "kernel.numa_balancing" { value = true }`:  1,
		`sysctl "../x" { value = 1 }`:                      1,
		`sysctl "a.b" { value = null }`:                    0,
	} {
		if problems := (sysctl.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

func TestMistyped(t *testing.T) {
	for label, want := range map[string]string{
		"kernel.numa_balancng":                          "There is kernel.numa_balancing; kernel.numa_balancng is set where the kernel has it.",
		"vm/zone_reclam_mode":                           "There is vm.zone_reclaim_mode; vm.zone_reclam_mode is set where the kernel has it.",
		"kernel.numa_balancing":                         "",
		"kernel.numa_balancing_promote_rate_limit_MBps": "",
		"net.core.rmem_max":                             "",
	} {
		got := ""
		for _, p := range (sysctl.Type{}).Validate(plan.Block{Label: label}) {
			got += p.Detail
			if !p.Warning {
				t.Errorf("%s is refused", label)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
}
