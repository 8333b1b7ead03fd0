package paste

import (
	"strings"

	"busbar/node"
)

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

// What systemctl status prints of a unit: a line with its name, and lines that are indented; or that there is no such unit.
var (
	statusHead   = expression(`^(?:[●○×↻*] )?([\w:.@\\-]+\.(?:service|socket|timer|mount|target))(?: - .*)?$`)
	statusLoaded = expression(`^ +Loaded: (loaded|not-found|masked|bad-setting|error)(?: \((?:Reason: .*|[^;)]*(?:; ([a-z-]+))?.*)\))?$`)
	statusActive = expression(`^ +Active: (active|inactive|failed|activating|deactivating|reloading)\b`)
	noUnit       = expression(`^Unit ([\w:.@\\-]+\.(?:service|socket|timer|mount|target)) could not be found\.$`)
)

var unitStatusKind = kind{
	name: "systemctl status",
	scan: func(p piece) match {
		if noUnit.MatchString(p.lines[0]) {
			return match{1, 2}
		}
		if !statusHead.MatchString(p.lines[0]) || len(p.lines) < 2 {
			return match{}
		}
		loaded, active := 0, 0
		n := while(p.lines[1:], func(line string) bool {
			loaded, active = loaded+one(statusLoaded.MatchString(line)), active+one(statusActive.MatchString(line))
			return line[0] == ' '
		})
		return match{1 + n, one(loaded == 1) + one(active == 1)}
	},
	read: func(d *draft, s section) string {
		if m := noUnit.FindStringSubmatch(s.lines[0]); m != nil {
			d.unitState(m[1], node.UnitState{Load: "not-found", Active: node.Known("inactive", s.source(0))}, s.source(0))
			return ""
		}
		name := statusHead.FindStringSubmatch(s.lines[0])[1]
		var u node.UnitState
		for i, line := range s.lines {
			if m := statusLoaded.FindStringSubmatch(line); m != nil {
				u.Load, u.File = m[1], m[2]
			}
			if m := statusActive.FindStringSubmatch(line); m != nil {
				u.Active = node.Known(m[1], s.source(i))
			}
		}
		d.unitState(name, u, s.source(0))
		return ""
	},
}

// unitState is what is said of a unit.
func (d *draft) unitState(unit string, state node.UnitState, source node.Source) {
	say(d, node.Unit, unit, node.Known(state, source))
}

// numactl -H: NUMA nodes, their CPUs and memory, and distances (hardware() of numactl.c).
var (
	numaCount = expression(`^available: (\d{1,4}) nodes? \([\d,-]+\)$`)
	numaCPUs  = expression(`^node (\d{1,4}) cpus:((?: \d{1,5})*)$`)
	numaOther = expression(`^(?:node \d{1,4} (?:size|free): \d+ MB|node distances:|node +(?: *\d+)+|No distance information available\.| *\d{1,4}:(?: +\d{1,3})+)$`)
)

var numactlKind = kind{
	name: "numactl -H",
	scan: func(p piece) match {
		if !numaCount.MatchString(p.lines[0]) {
			return match{}
		}
		cpus := 0
		n := while(p.lines, func(line string) bool {
			cpus += one(numaCPUs.MatchString(line))
			return numaCount.MatchString(line) || numaCPUs.MatchString(line) || numaOther.MatchString(line)
		})
		return match{n, 1 + one(cpus > 0)}
	},
	read: func(d *draft, s section) string {
		var nodes []node.NUMANode
		for _, line := range s.lines {
			if m := numaCPUs.FindStringSubmatch(line); m != nil {
				nodes = append(nodes, node.NUMANode{ID: number(m[1]), CPUs: cpuList(strings.Fields(m[2]))})
			}
		}
		if n := number(numaCount.FindStringSubmatch(s.lines[0])[1]); n != len(nodes) {
			return "it is cut off"
		}
		say(d, node.NUMANodes, "", node.Known(nodes, s.source(-1)))
		return ""
	},
}

// cpuList is the kernel's list of CPUs, 0-3,8-11, of numbers in ascending order.
func cpuList(cpus []string) string {
	var list strings.Builder
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && number(cpus[j+1]) == number(cpus[j])+1 {
			j++
		}
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(cpus[i])
		if j > i {
			list.WriteString("-" + cpus[j])
		}
		i = j + 1
	}
	return list.String()
}
