package paste

import (
	"strings"

	"busbar/node"
)

// What a shell says of a program that is not there: it tells nothing of what the program would have printed.
var noCommand = expression(`^(?:(?:\w*sh: )?(?:line \d+: )?(?:-bash: )?([\w./-]+): (?:command not found|not found|No such file or directory)$|Command '[\w./-]+' not found.*$)`)

var shellKind = kind{
	name:   "a program that is not there",
	scan:   func(p piece) match { return match{one(noCommand.MatchString(p.lines[0])), 2} },
	unread: "that a program is missing says nothing of what it would have printed",
}

// fabricManagerUnit is the fabric manager's.
const fabricManagerUnit = "nvidia-fabricmanager.service"

// The fabric manager's log, and what it says as it ends.
var (
	fmLog      = expression(`^\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\] \[(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\] \[tid \d+\] `)
	fmMismatch = expression(`fabric manager NVIDIA GPU driver interface version (\d[\d.]+) don't match with driver version (\d[\d.]*\d)`)
	fmNothing  = expression(`^request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do \[NV_WARN_NOTHING_TO_DO\]$`)
	fmPayload  = expression(`^Message payload details:`)
	unitExit   = expression(`^(?:([\w@.-]+\.service): (?:Control|Main) process exited, code=exited, status=(\d+)(?:/\w+)?$|([\w@.-]+\.service): Failed with result '[\w-]+'\.$)`)
)

func fmLine(line string) bool {
	return fmLog.MatchString(line) || fmMismatch.MatchString(line) || fmNothing.MatchString(line) || fmPayload.MatchString(line) || strings.HasPrefix(line, fabricManagerUnit+": ") && unitExit.MatchString(line)
}

var fabricManagerKind = kind{
	name: "fabricmanager.log",
	scan: func(p piece) match {
		if !fmLine(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, fmLine), 2}
	},
	parts: true,
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			source := s.source(i)
			if m := fmMismatch.FindStringSubmatch(line); m != nil {
				say(d, node.FabricManager, "", node.Known(node.FabricManagerState{Installed: true, Version: node.Known(strings.TrimSuffix(m[1], "."), source)}, source))
				d.driverVersion(m[2], source)
			}
			if m := unitExit.FindStringSubmatch(line); m != nil || fmNothing.MatchString(line) {
				d.unitState(fabricManagerUnit, node.UnitState{Load: "loaded", Active: node.Known("failed", source)}, source)
			}
		}
		return ""
	},
}

// unitState is what is said of a unit.
func (d *draft) unitState(unit string, state node.UnitState, source node.Source) {
	say(d, node.Unit, unit, node.Known(state, source))
}

// Rows of systemctl list-units.
var unitRow = expression(`^[●* ]*([\w:.@\\-]+\.(?:service|socket|timer|mount|target)) +(loaded|not-found|masked|bad-setting|error) +(active|inactive|failed|activating|deactivating|reloading) +([\w-]+) +\S`)

var unitListKind = kind{
	name: "systemctl",
	scan: func(p piece) match {
		if !unitRow.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, unitRow.MatchString), 2}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			if m := unitRow.FindStringSubmatch(line); m != nil {
				d.unitState(m[1], node.UnitState{Load: m[2], Active: node.Known(m[3], s.source(i))}, s.source(i))
			}
		}
		return ""
	},
}

// DRA's plugin for ComputeDomains of NVIDIA, which runs an IMEX daemon of its own (NVIDIA/k8s-dra-driver-gpu).
var draRow = expression(`^DRA compute-domain plugin: (enabled|disabled)$`)

var draKind = kind{
	name: "state of NVIDIA's DRA driver",
	scan: func(p piece) match { return match{one(draRow.MatchString(p.lines[0])), 2} },
	read: func(d *draft, s section) string {
		if strings.HasSuffix(s.lines[0], "enabled") {
			d.give("compute_domains", "")
		}
		return ""
	},
}

// Rows of dpkg -l, and names of rpm -qa.
var (
	dpkgRow = expression(`^[uihrp][ncHUFWti] {1,2}([a-z0-9][a-z0-9+.:-]+) +(\S+) +(\w+) +\S`)
	fmDeb   = expression(`^nvidia-fabricmanager(?:-\d+)?$`)
)

var packagesKind = kind{
	name: "dpkg -l",
	scan: func(p piece) match {
		if !dpkgRow.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, dpkgRow.MatchString), 2}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := dpkgRow.FindStringSubmatch(line)
			if m == nil || !strings.HasPrefix(line, "ii") && !strings.HasPrefix(line, "hi") {
				continue
			}
			if name, _, _ := strings.Cut(m[1], ":"); fmDeb.MatchString(name) {
				version, _, _ := strings.Cut(m[2], "-")
				say(d, node.FabricManager, "", node.Known(node.FabricManagerState{Installed: true, Version: node.Known(version, s.source(i))}, s.source(i)))
			}
		}
		return ""
	},
}

// Lines of NUMA of lscpu(1).
var (
	lscpuCount = expression(`^NUMA node\(s\): +(\d{1,4})$`)
	lscpuNode  = expression(`^ *NUMA node(\d{1,4}) CPU\(s\):(?: +([\d,-]*))?$`)
	lscpuLine  = expression(`^ *[A-Z][\w ()/.-]{2,40}:(?: +.*)?$`)
)

var lscpuKind = kind{
	name: "lscpu",
	scan: func(p piece) match {
		if !lscpuCount.MatchString(p.lines[0]) && !strings.HasPrefix(p.lines[0], "Architecture: ") && !lscpuNode.MatchString(p.lines[0]) {
			return match{}
		}
		nodes := 0
		n := while(p.lines, func(line string) bool {
			nodes += one(lscpuNode.MatchString(line))
			return lscpuLine.MatchString(line)
		})
		return match{n, 1 + one(nodes > 0) + one(n > 4)}
	},
	read: func(d *draft, s section) string {
		var nodes []node.NUMANode
		for i, line := range s.lines {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			value = strings.TrimSpace(value)
			if m := lscpuNode.FindStringSubmatch(line); m != nil {
				nodes = append(nodes, node.NUMANode{ID: number(m[1]), CPUs: m[2]})
			}
			switch name {
			case "Architecture":
				if d.inv.Arch.IsZero() {
					d.inv.Arch = node.Known(value, s.source(i))
				}
			case "Hypervisor vendor":
				if d.inv.Virtualization.IsZero() {
					d.inv.Virtualization = node.Known(strings.ToLower(value), s.source(i))
				}
			}
		}
		if len(nodes) > 0 {
			say(d, node.NUMANodes, "", node.Known(nodes, s.source(-1)))
		}
		return ""
	},
}

// /proc/mounts: DEVICE POINT TYPE OPTIONS 0 0.
var mountRow = expression(`^\S+ /\S* [a-z0-9_.]+ (?:rw|ro)(?:,\S*)? \d \d$`)

var mountsKind = kind{
	name: "/proc/mounts",
	scan: func(p piece) match {
		if !mountRow.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, mountRow.MatchString)
		return match{n, 1 + one(n > 1) + one(p.path == "/proc/mounts" || p.path == "/proc/self/mounts")}
	},
	unread: "no block asks which file systems are mounted",
}

// setpci prints a register's value: four or eight hex digits.
var (
	setpciValue = expression(`^(?:[0-9a-f]{2}|[0-9a-f]{4}|[0-9a-f]{8})$`)
	setpciACS   = expression(`setpci .*-s ([0-9a-f:.]+) .*ECAP_ACS\+0?x?6\.w`)
)

var setpciKind = kind{
	name: "setpci",
	scan: func(p piece) match { return match{one(p.typed("setpci") && setpciValue.MatchString(p.lines[0])), 2} },
	read: func(d *draft, s section) string {
		m := setpciACS.FindStringSubmatch(strings.ToLower(strings.ReplaceAll(s.command, "ecap_acs", "ECAP_ACS")))
		if m == nil {
			m = setpciACS.FindStringSubmatch(s.command)
		}
		if m == nil || pciAddress(m[1]) == "" {
			return ""
		}
		d.acsRegister(pciAddress(m[1]), s.lines[0], s.source(0))
		return ""
	},
}
