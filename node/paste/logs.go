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
