package limits_test

import (
	"slices"
	"strings"
	"testing"

	"busbar/internal/confdir"
	"busbar/modules/limits"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{limits.Type{}}

const (
	unitFile = "/usr/lib/systemd/system/slurmd.service"
	dropIn   = "/etc/systemd/system/slurmd.service.d/zz-busbar.conf"
	fragment = "[Service]\nExecStart=/usr/sbin/slurmd\n"
	header   = "# Written by busbar. It owns this file: edits are lost.\n"
)

// slurmd is a running unit whose main process may lock memlock bytes.
func slurmd(memlock string, files map[string]string, change func(*node.UnitState)) []node.Answer {
	u := node.UnitState{Load: "loaded", File: "enabled", Active: node.Known("active", node.Source{Call: "ActiveState"})}
	if change != nil {
		change(&u)
	}
	if files == nil {
		files = map[string]string{}
	}
	list := map[string]string{unitFile: fragment}
	for p, text := range files {
		list[p] = text
	}
	return []node.Answer{
		node.Unit.Answer("slurmd.service", node.Known(u, node.Source{Call: "Unit slurmd.service"})),
		node.ProcLimits.Answer("slurmd.service", node.Known(node.ProcessLimits{Running: true, PID: 812, Command: "slurmd", Text: proc(memlock)}, node.Source{Path: "/proc/812/limits"})),
		// systemd lists a unit's own file first.
		node.UnitFiles.Answer("slurmd.service", node.Known(ordered(list), node.Source{Path: unitFile})),
	}
}

func proc(memlock string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max stack size            8388608              8388608              bytes     \n" +
		"Max open files            1024                 524288               files     \n" +
		"Max locked memory         " + (memlock + "                     ")[:21] + (memlock + "                     ")[:21] + "bytes     \n"
}

func TestLimits(t *testing.T) {
	logins := `limits "rdma" { memlock = "unlimited" }`
	service := `limits "rdma" {
		memlock  = "unlimited"
		users    = []
		services = ["slurmd"]
	}`
	login := func(files map[string]string) node.Answer { return plantest.Files(node.LimitsFiles, files) }
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "logins", Blocks: `limits "rdma" {
				memlock = "unlimited"
				nofile  = 1048576
				users   = ["*", "root"]
			}`,
			Facts: plantest.Node(),
			Texts: map[string]string{"/etc/security/limits.d/zz-busbar.conf": header + "* - memlock unlimited\n* - nofile 1048576\nroot - memlock unlimited\nroot - nofile 1048576\n"},
			Want: `
				!drift limits.login * memlock (/etc/security)
				!drift limits.login * nofile (/etc/security)
				!drift limits.login root memlock (/etc/security)
				!drift limits.login root nofile (/etc/security)
				step write-file:/etc/security/limits.d/zz-busbar.conf
			`,
		},
		{
			Name: "a unit of which nothing is known", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil)[1:], node.Unit.Answer("slurmd.service", node.Unknown[node.UnitState]("access denied", node.Source{Call: "Unit slurmd.service"})))...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				unknown limits.unit slurmd.service memlock (Unit slurmd.service)
			`,
			After: "unknown limits.unit slurmd.service memlock (Unit slurmd.service)",
		},
		{
			Name: "others give it", Blocks: logins,
			Facts: plantest.Node(login(map[string]string{"/etc/security/limits.conf": "* soft memlock unlimited\n* hard memlock unlimited\n"})),
			Want: `
				ok limits.login * memlock (/etc/security/limits.conf:2)
			`,
		},
		{
			Name: "limits.d is read after limits.conf", Blocks: logins,
			Facts: plantest.Node(login(map[string]string{"/etc/security/limits.conf": "* - memlock unlimited\n", "/etc/security/limits.d/10-old.conf": "\n* - memlock 65536\n"})),
			Says:  []string{"a login of any user but root gets memlock 67108864, wanted is unlimited"},
			Want: `
				!drift limits.login * memlock (/etc/security/limits.d/10-old.conf:2)
				step write-file:/etc/security/limits.d/zz-busbar.conf
			`,
		},
		{
			Name: "a later file wins", Blocks: logins,
			Facts: plantest.Node(login(map[string]string{"/etc/security/limits.d/zzz.conf": "* hard memlock 65536\n"})),
			Says:  []string{"/etc/security/limits.d/zzz.conf:1 gives 67108864 and wins"},
			Want: `
				conflict limits.login * memlock (/etc/security/limits.d/zzz.conf:1)
			`,
		},
		{
			Name: "more is enough, but for stack", Blocks: `limits "rdma" {
				nofile = 1024
				stack  = 67108864
			}`,
			Facts: plantest.Node(login(map[string]string{"/etc/security/limits.conf": "* - nofile 4096\n* soft stack unlimited\n* hard stack unlimited\n"})),
			Want: `
				ok limits.login * nofile (/etc/security/limits.conf:1)
				!drift limits.login * stack (/etc/security/limits.conf:3)
				step write-file:/etc/security/limits.d/zz-busbar.conf
			`,
		},
		{
			Name: "no block is left", Facts: plantest.Node(login(map[string]string{"/etc/security/limits.d/zz-busbar.conf": "* - memlock unlimited\n"}),
				plantest.Files(node.OwnedDropIns, map[string]string{dropIn: "[Service]\nLimitMEMLOCK=infinity\n"})),
			Want: `
				!drift file.stale /etc/systemd/system/slurmd.service.d/zz-busbar.conf (/etc/systemd/system/slurmd.service.d/zz-busbar.conf)
				!drift file.stale /etc/security/limits.d/zz-busbar.conf (/etc/security/limits.d/zz-busbar.conf)
				step remove-file:/etc/security/limits.d/zz-busbar.conf
				step remove-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
			`,
		},
		{
			Name: "logins, an unreadable file", Blocks: logins, Facts: plantest.Node(login(map[string]string{"/etc/security/limits.d/x.conf": "?"})),
			Want: `
				unknown limits.login * memlock (/etc/security/limits.d/x.conf)
			`,
		},
		{
			Name: "logins, unknown", Blocks: logins, Facts: plantest.Node(node.LimitsFiles.Answer("", unknown)),
			Want: `
				unknown limits.login * memlock (/etc)
			`,
		},
		{
			Name: "an unlimited stack of others", Blocks: `limits "rdma" {
				memlock  = "unlimited"
				users    = ["*", "root"]
				services = ["slurmd"]
			}`,
			Facts: plantest.Node(append(slurmd("unlimited", map[string]string{"/etc/systemd/system/slurmd.service.d/a.conf": "[Service]\nLimitMEMLOCK=infinity\nLimitSTACK=infinity\n"}, nil),
				login(map[string]string{"/etc/security/limits.conf": "* - memlock unlimited\nroot - memlock unlimited\n* soft stack unlimited\n"}))...),
			Says: []string{"a login of any user but root gets an unlimited stack", "slurmd.service starts with an unlimited stack", "set stack = 67108864 here"},
			Want: `
				ok limits.login * memlock (/etc/security/limits.conf:1)
				ok limits.login root memlock (/etc/security/limits.conf:2)
				ok limits.process slurmd.service memlock (/proc/812/limits)
				ok limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/a.conf:2)
				drift warn limits.unlimited_stack * stack (/etc/security/limits.conf:3)
				drift warn limits.unlimited_stack slurmd.service stack (/etc/systemd/system/slurmd.service.d/a.conf:3)
			`,
		},
		{
			Name: "another block has a wish for the stack", Blocks: `limits "rdma" { memlock = "unlimited" }
				limits "threads" { stack = "unlimited" }`,
			Facts: plantest.Node(login(map[string]string{"/etc/security/limits.conf": "* - memlock unlimited\n* - stack unlimited\n"})),
			Want: `
				ok limits.login * memlock (/etc/security/limits.conf:1)
				ok limits.login * stack (/etc/security/limits.conf:2)
			`,
		},
		{
			Name: "a service", Blocks: service, Facts: plantest.Node(slurmd("65536", nil, nil)...),
			Texts: map[string]string{dropIn: header + "[Service]\nLimitMEMLOCK=infinity\n"},
			Says:  []string{"slurmd.service (process 812) has memlock 65536, wanted is unlimited"},
			Want: `
				!drift limits.process slurmd.service memlock (/proc/812/limits)
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
				step daemon-reload:slurmd.service
				step restart-unit:slurmd.service
			`,
		},
		{
			Name: "a service that others take care of", Blocks: service,
			Facts: plantest.Node(slurmd("unlimited", map[string]string{"/etc/systemd/system/slurmd.service.d/10-memlock.conf": "[Service]\nLimitMEMLOCK=infinity\n"}, nil)...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				ok limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/10-memlock.conf:2)
			`,
		},
		{
			Name: "the default for all services is enough", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil),
				plantest.Files(node.SystemConfFiles, map[string]string{
					"/etc/systemd/system.conf": "[Manager]\nDefaultLimitMEMLOCK=8M\n", "/usr/lib/systemd/system.conf.d/zzzz.conf": "[Manager]\nDefaultLimitMEMLOCK=infinity\n",
					"/usr/lib/systemd/system.conf": "[Manager]\nDefaultLimitMEMLOCK=1\n",
				}))...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				ok limits.unit slurmd.service memlock (/usr/lib/systemd/system.conf.d/zzzz.conf:2)
			`,
		},
		{
			Name: "the file is right, the process is not", Blocks: service,
			Facts: plantest.Node(append(slurmd("65536", nil, nil), plantest.Files(node.OwnedDropIns, map[string]string{dropIn: header + "[Service]\nLimitMEMLOCK=infinity\n"}))...),
			Want: `
				!drift limits.process slurmd.service memlock (/proc/812/limits)
				ok limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/zz-busbar.conf:3)
				step restart-unit:slurmd.service
			`,
		},
		{
			Name: "the process is not right, its restart is queued", Blocks: service,
			Facts: plantest.Node(append(slurmd("65536", nil, func(u *node.UnitState) { u.Job = "restart" }), plantest.Files(node.OwnedDropIns, map[string]string{dropIn: header + "[Service]\nLimitMEMLOCK=infinity\n"}))...),
			Want: `
				skipped limits.process slurmd.service (Unit slurmd.service)
				ok limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/zz-busbar.conf:3)
			`,
		},
		{
			Name: "systemd has not read the file", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, func(u *node.UnitState) { u.NeedReload = true }),
				plantest.Files(node.OwnedDropIns, map[string]string{dropIn: header + "[Service]\nLimitMEMLOCK=infinity\n"}))...),
			Want: `
				!drift limits.not_reloaded slurmd.service (ActiveState)
				ok limits.process slurmd.service memlock (/proc/812/limits)
				ok limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/zz-busbar.conf:3)
				step daemon-reload:slurmd.service
			`,
		},
		{
			Name: "a later drop-in wins, and nothing is restarted", Blocks: service,
			Facts: plantest.Node(slurmd("65536", map[string]string{"/etc/systemd/system/slurmd.service.d/zzz.conf": "[Service]\nLimitMEMLOCK=64K\n"}, nil)...),
			Says:  []string{"/etc/systemd/system/slurmd.service.d/zzz.conf:2 sets 65536 and is read after zz-busbar.conf", "restart slurmd.service once this is settled"},
			Want: `
				drift limits.process slurmd.service memlock (/proc/812/limits)
				conflict limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/zzz.conf:2)
			`,
		},
		{
			Name: "a service that is not installed", Blocks: service,
			Facts: plantest.Node(slurmd("65536", nil, func(u *node.UnitState) { *u = node.UnitState{Load: "not-found"} })...),
			Want: `
				skipped limits.process slurmd.service (Unit slurmd.service)
			`,
		},
		{
			Name: "a drop-in for a service that is gone", Blocks: service,
			Facts: plantest.Node(append(slurmd("65536", nil, func(u *node.UnitState) { *u = node.UnitState{Load: "not-found"} }),
				plantest.Files(node.OwnedDropIns, map[string]string{dropIn: "[Service]\nLimitMEMLOCK=infinity\n"}))...),
			Want: `
				!drift file.stale /etc/systemd/system/slurmd.service.d/zz-busbar.conf (/etc/systemd/system/slurmd.service.d/zz-busbar.conf)
				skipped limits.process slurmd.service (Unit slurmd.service)
				step remove-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
			`,
			After: `
				skipped limits.process slurmd.service (Unit slurmd.service)
			`,
		},
		{
			Name: "a service that does not run", Blocks: service,
			Facts: plantest.Node(append(slurmd("65536", nil, func(u *node.UnitState) { u.Active = node.Known("inactive", node.Source{}) }),
				node.ProcLimits.Answer("slurmd.service", node.Known(node.ProcessLimits{}, node.Source{})))...),
			Want: `
				skipped limits.process slurmd.service ()
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
				step daemon-reload:slurmd.service
			`,
			After: `
				skipped limits.process slurmd.service ()
			`,
		},
		{
			Name: "no D-Bus", Blocks: service,
			Facts: plantest.Node(slurmd("65536", nil, func(u *node.UnitState) { u.Active = node.Unknown[string]("no D-Bus", node.Source{}) })...),
			Says:  []string{"systemd cannot be reached from here"},
			Want: `
				drift limits.process slurmd.service memlock (/proc/812/limits)
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
			`,
			After: `
				drift limits.not_reloaded slurmd.service ()
				drift limits.process slurmd.service memlock (/proc/812/limits)
			`,
		},
		{
			Name: "limits that cannot be read", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), node.ProcLimits.Answer("slurmd.service", node.Known(node.ProcessLimits{Running: true, PID: 1}, node.Source{})))...),
			Want: `
				unknown limits.process slurmd.service ()
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
				step daemon-reload:slurmd.service
			`,
			After: `
				unknown limits.process slurmd.service ()
			`,
		},
		{
			Name: "unknown limits", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), node.ProcLimits.Answer("slurmd.service", node.Unknown[node.ProcessLimits]("permission denied", node.Source{})))...),
			Want: `
				unknown limits.process slurmd.service ()
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
				step daemon-reload:slurmd.service
			`,
			After: `
				unknown limits.process slurmd.service ()
			`,
		},
		{
			Name: "a limit that is not shown", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), node.ProcLimits.Answer("slurmd.service", node.Known(node.ProcessLimits{
				Running: true, PID: 1, Text: "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 524288               files     \n",
			}, node.Source{})))...),
			Want: `
				unknown limits.process slurmd.service memlock ()
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
				step daemon-reload:slurmd.service
			`,
			After: `
				unknown limits.process slurmd.service memlock ()
			`,
		},
		{
			Name: "a unit file that cannot be read", Blocks: service, Facts: plantest.Node(slurmd("unlimited", map[string]string{"/etc/systemd/system/slurmd.service.d/x.conf": "?"}, nil)...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				unknown limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/x.conf)
			`,
		},
		{
			Name: "unknown unit files", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), node.UnitFiles.Answer("slurmd.service", unknown))...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				unknown limits.unit slurmd.service memlock (/etc)
			`,
		},
		{
			Name: "unknown system.conf", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), node.SystemConfFiles.Answer("", unknown))...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				unknown limits.unit slurmd.service memlock (/etc)
			`,
		},
		{
			Name: "unknown drop-ins", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), node.OwnedDropIns.Answer("", unknown))...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				unknown limits.unit slurmd.service memlock (/etc)
			`,
		},
		{
			Name: "an unreadable drop-in", Blocks: service,
			Facts: plantest.Node(append(slurmd("unlimited", nil, nil), plantest.Files(node.OwnedDropIns, map[string]string{dropIn: "?"}))...),
			Want: `
				ok limits.process slurmd.service memlock (/proc/812/limits)
				unknown limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d/zz-busbar.conf)
			`,
		},
		{
			Name: "two blocks for one service", Blocks: `limits "a" {
					memlock  = "unlimited"
					users    = []
					services = ["slurmd"]
				}
				limits "b" {
					memlock  = "unlimited"
					nofile   = 1048576
					users    = []
					services = ["slurmd.service"]
				}`,
			Facts: plantest.Node(slurmd("65536", nil, nil)...),
			Texts: map[string]string{dropIn: header + "[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1048576\n"},
			Want: `
				!drift limits.process slurmd.service memlock (/proc/812/limits)
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				!drift limits.process slurmd.service memlock (/proc/812/limits)
				!drift limits.process slurmd.service nofile (/proc/812/limits)
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				!drift limits.unit slurmd.service nofile (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
				step daemon-reload:slurmd.service
				step restart-unit:slurmd.service
			`,
		},
		{
			Name: "two blocks that contradict each other", Blocks: `limits "a" {
					memlock  = "unlimited"
					services = ["slurmd"]
				}
				limits "b" {
					memlock  = 65536
					users    = ["root"]
					services = ["slurmd.service"]
				}`,
			Facts: plantest.Node(slurmd("1", nil, nil)...),
			Want: `
				!drift limits.login * memlock (/etc/security)
				drift limits.process slurmd.service memlock (/proc/812/limits)
				conflict profile.contradiction slurmd.service memlock (node.hcl:6)
				!drift limits.login root memlock (/etc/security)
				drift limits.process slurmd.service memlock (/proc/812/limits)
				conflict profile.contradiction slurmd.service memlock (node.hcl:2)
				step write-file:/etc/security/limits.d/zz-busbar.conf
			`,
			After: `
				drift limits.process slurmd.service memlock (/proc/812/limits)
				conflict profile.contradiction slurmd.service memlock (node.hcl:6)
				drift limits.process slurmd.service memlock (/proc/812/limits)
				conflict profile.contradiction slurmd.service memlock (node.hcl:2)
			`,
		},
		{
			Name: "a directory tree", Blocks: service, Facts: root(plantest.Node(slurmd("65536", nil, func(u *node.UnitState) { u.Active = node.Value[string]{} })...)),
			Want: `
				!drift limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
				step write-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
			`,
		},
		{
			Name: "NixOS", Blocks: service,
			Facts: plantest.Node(append(slurmd("65536", nil, nil), node.Mount.Answer("/etc/systemd/system", node.Known(node.MountState{Immutable: "NixOS"}, node.Source{})))...),
			Says:  []string{"set systemd.services.NAME.serviceConfig in configuration.nix"},
			Want: `
				drift limits.process slurmd.service memlock (/proc/812/limits)
				unsupported limits.unit slurmd.service memlock (/etc/systemd/system/slurmd.service.d)
			`,
		},
	})
}

var unknown = node.Unknown[[]confdir.File]("permission denied", node.Source{Path: "/etc"})

// ordered lists a unit's file before its drop-ins.
func ordered(files map[string]string) []confdir.File {
	list, _ := node.UnitFiles.Get(node.Facts{}.With(plantest.FilesOf(node.UnitFiles, "u", files)), "u").Get()
	slices.SortStableFunc(list, func(a, b confdir.File) int {
		return strings.Compare(strings.TrimPrefix(a.Path, unitFile), strings.TrimPrefix(b.Path, unitFile))
	})
	return list
}

func root(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.RootDirectory = true
	return f.WithInventory(inv)
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`limits "x" { memlock = "unlimited" }`:                    0,
		`limits "x" { nofile = 1024 }`:                            0,
		`limits "x" {}`:                                           1,
		`limits "x" { memlock = "lots" }`:                         1,
		`limits "x" { memlock = true }`:                           1,
		`limits "x" { memlock = 0.5 }`:                            1,
		"limits \"x\" {\nmemlock = 1\nusers = [\"a b\"]\n}":       1,
		"limits \"x\" {\nmemlock = 1024\nservices = [\"a/b\"]\n}": 1,
		"limits \"x\" {\nmemlock = 1024\nservices = [\"\", \"a\\tb\", \"@x\", \"ssh.socket\"]\n}":          4,
		"limits \"x\" {\nmemlock = 1024\nservices = [\"slurmd\", \"my.daemon\", \"user@1000.service\"]\n}": 0,
		"limits \"x\" {\nmemlock = 1024\nusers = [\"\"]\n}":                                                1,
		`limits "x" { memlock = "18446744073709551616" }`:                                                  1,
	} {
		if problems := (limits.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// TestRestartRequires: a service is not restarted for a drop-in that could not be written.
func TestRestartRequires(t *testing.T) {
	blocks := plantest.Blocks(t, types, `limits "rdma" {
		memlock  = "unlimited"
		users    = []
		services = ["slurmd"]
	}`)
	first, _, _ := plantest.Settle(t, types, blocks, plantest.Node(slurmd("65536", nil, nil)...))
	provided := map[string]bool{}
	for _, s := range first.Steps {
		for _, name := range s.Requires {
			if !provided[name] {
				t.Errorf("%s requires %q, which no step before it provides", s.ID, name)
			}
		}
		for _, name := range s.Provides {
			provided[name] = true
		}
	}
	if len(first.Steps) != 3 {
		t.Error(plantest.Summarize(first))
	}
}
