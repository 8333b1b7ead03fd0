package paste

import (
	"strings"

	"busbar/internal/modprobe"
	"busbar/node"
)

// Rows of /proc/modules (kernel/module/procfs.c m_show) and of lsmod(8).
var (
	procModule = expression(`^[A-Za-z0-9_]+ \d+ (?:\d+|-) \S+ (?:Live|Loading|Unloading) 0x[0-9a-f]+(?: \([A-Z]+\))?$`)
	lsmodRow   = expression(`^[A-Za-z0-9_]+ +\d+  ?(?:\d+|-2)(?: [A-Za-z0-9_,\[\]-]*)?$`)
	lsmodHead  = expression(`^Module +Size +Used by$`)
)

var procModulesKind = kind{
	name: "/proc/modules",
	scan: func(p piece) match {
		if !strings.Contains(p.lines[0], " 0x") || !procModule.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, procModule.MatchString), 3}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			list, err := modprobe.ParseProcModules(line + "\n")
			if line == "" || err != nil || len(list) != 1 {
				continue
			}
			d.loadedModule(list[0], s.source(i))
		}
		d.wholeModules(s)
		return ""
	},
}

var lsmodKind = kind{
	name: "lsmod",
	scan: func(p piece) match {
		switch first := p.lines[0]; {
		case lsmodHead.MatchString(first) && len(p.lines) > 1:
			n := while(p.lines[1:], lsmodRow.MatchString)
			return match{n + 1, 1 + one(n > 0) + one(p.typed("lsmod"))}
		case p.typed("lsmod") && lsmodRow.MatchString(first):
			return match{while(p.lines, lsmodRow.MatchString), 2}
		case p.typed("lsmod") && p.typed("grep"): // what grep did not find is no line
			return match{}
		case strings.Contains(first, "  ") && lsmodRow.MatchString(first):
			n := while(p.lines, lsmodRow.MatchString)
			return match{n, 1 + one(n > 2)}
		}
		return match{}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			list, err := modprobe.ParseLsmod(line)
			if err != nil || len(list) != 1 || lsmodHead.MatchString(line) {
				continue
			}
			d.loadedModule(list[0], s.source(i))
		}
		if lsmodHead.MatchString(s.lines[0]) {
			d.wholeModules(s)
		}
		return ""
	},
}

// loadedModule notes a module of a list, and what its users tell.
func (d *draft) loadedModule(l modprobe.Loaded, source node.Source) {
	m := &d.modules
	if m.loaded == nil {
		m.loaded, m.source = map[string]modprobe.Loaded{}, map[string]node.Source{}
	}
	if _, ok := m.loaded[l.Name]; ok {
		return
	}
	m.loaded[l.Name], m.source[l.Name] = l, source
	switch l.Name {
	case "nvidia":
		d.driver.Loaded = true
		if d.driverSource == (node.Source{}) {
			d.driverSource = source
		}
		if l.Taints != "" { // P: a proprietary module (Documentation/admin-guide/tainted-kernels.rst)
			d.driver.Open = !strings.Contains(l.Taints, "P")
			d.give("driver_flavour", "")
		}
	case "ib_core":
		d.give("rdma_stack", "")
	case "ib_uverbs":
		for _, user := range l.UsedBy {
			if user == "nvidia_peermem" { // it holds ib_uverbs while it is registered
				say(d, node.Path, peerMemoryClient, node.Known(node.PathState{Exists: true, Type: "file"}, source))
			}
		}
	}
}

// peerMemoryClient is where a registered nvidia_peermem shows (plan.PeerMemoryClient).
const peerMemoryClient = "/sys/kernel/mm/memory_peers/nv_mem/version"

// wholeModules notes that a list leaves nothing out, if no filter was on it.
func (d *draft) wholeModules(s section) {
	if strings.Contains(s.command, "|") || strings.Contains(s.command, "grep") || d.modules.whole != (node.Source{}) {
		return
	}
	d.modules.whole = s.source(-1)
}

// modinfo(8) prints NAME: VALUE, the name of the file first.
var (
	modinfoLine = expression(`^(filename|version|license|description|author|srcversion|depends|retpoline|name|vermagic|alias|parm|firmware|intree|sig_id|signer|sig_key|sig_hashalgo|signature|import_ns|supported|rhelversion|softdep|builtin|namespaces|staging|suserelease|livepatch|info|import|mlx5_core):(?: .*)?$`)
	kernelFile  = expression(`^filename: +(?:/\S+\.ko(?:\.\w+)?|\(builtin\))$`)
)

var modinfoKind = kind{
	name: "modinfo",
	scan: func(p piece) match {
		if !kernelFile.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool {
			return modinfoLine.MatchString(line) || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "                ")
		})
		return match{n, 1 + one(n > 2) + one(p.typed("modinfo"))}
	},
	read: func(d *draft, s section) string {
		fields := map[string]string{}
		for _, line := range s.lines {
			name, value, ok := strings.Cut(line, ":")
			if _, seen := fields[name]; ok && !seen {
				fields[name] = strings.TrimSpace(value)
			}
		}
		if fields["name"] == "nvidia" && d.onDisk.version == "" {
			d.onDisk.version, d.onDisk.open = fields["version"], fields["license"] == "Dual MIT/GPL"
		}
		return ""
	},
}

// /proc/driver/nvidia/version, one line or two.
var driverVersionKind = kind{
	name: "/proc/driver/nvidia/version",
	scan: func(p piece) match {
		if !strings.HasPrefix(p.lines[0], "NVRM version: ") {
			return match{}
		}
		_, _, ok := node.ParseNVIDIAVersion(p.lines[0] + "\n")
		n := 1
		if len(p.lines) > 1 && strings.HasPrefix(p.lines[1], "GCC version:") {
			n = 2
		}
		return match{n, 1 + one(ok)}
	},
	read: func(d *draft, s section) string {
		version, open, _ := node.ParseNVIDIAVersion(s.lines[0] + "\n")
		d.driverVersion(version, s.source(0))
		d.driver.Open = open
		d.give("driver_flavour", "")
		return ""
	},
}

// /proc/driver/nvidia/params: the driver's parameters in force.
var parameterRow = expression(`^[A-Z][A-Za-z0-9]{2,60}: (?:\d{1,20}|".*")$`)

const driverParameters = "/proc/driver/nvidia/params"

var driverParametersKind = kind{
	name: driverParameters,
	scan: func(p piece) match {
		if !parameterRow.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, parameterRow.MatchString)
		return match{n, one(strings.HasPrefix(p.lines[0], "ResmanDebugLevel: ")) + one(n > 3) + 2*one(p.path == driverParameters)}
	},
	read: func(d *draft, s section) string {
		d.driver.Loaded = true
		if d.driverSource == (node.Source{}) {
			d.driverSource = s.source(-1)
		}
		set(&d.driver.Parameters, node.Known(node.ParseNVIDIAParameters(s.text()), s.source(-1)))
		return ""
	},
}
