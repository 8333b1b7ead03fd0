package paste

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"busbar/internal/modprobe"
	"busbar/internal/ncclconf"
	"busbar/internal/sysctld"
	"busbar/node"
)

// Files of a node. Where a file stood is one sign for what it is, that its lines have the form is another.

// modprobeWords begin the lines of modprobe.d(5).
var modprobeWords = []string{"alias", "blacklist", "install", "options", "remove", "softdep", "weakdep"}

func modprobeLine(line string) bool {
	words := strings.Fields(line)
	if len(words) < 2 || !contains(modprobeWords, words[0]) || modprobe.CheckName(strings.Trim(words[1], "*?")) != nil && words[0] != "alias" {
		return false
	}
	switch words[0] {
	case "blacklist":
		return len(words) == 2 || words[2][0] == '#'
	case "options":
		return len(words) > 2
	case "softdep":
		return len(words) > 3 && (words[2] == "pre:" || words[2] == "post:")
	default:
		return len(words) > 2
	}
}

func comment(line string) bool { return line != "" && (line[0] == '#' || line[0] == ';') }

// continued reports a line that the one above continues.
func continued(lines []string, i int) bool { return i > 0 && strings.HasSuffix(lines[i-1], "\\") }

var modprobeKind = kind{
	name: "modprobe.d",
	scan: func(p piece) match {
		at := p.in("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d", "/usr/local/lib/modprobe.d") && strings.HasSuffix(p.path, ".conf")
		n, said := block(p.lines, at, func(i int, line string) bool { return modprobeLine(line) || i > 0 && continued(p.lines, i) })
		return match{n, 2*one(at) + 2*one(said > 0)}
	},
	read: func(d *draft, s section) string {
		d.addFile(node.ModprobeFiles, "", s, "/etc/modprobe.d/"+path.Base(s.file), s.text())
		return ""
	},
}

var modulesLoadKind = kind{
	name: "modules-load.d",
	scan: func(p piece) match {
		if !p.in("/etc/modules-load.d", "/run/modules-load.d", "/usr/lib/modules-load.d", "/usr/local/lib/modules-load.d") && p.path != "/etc/modules" {
			return match{}
		}
		named := 0
		for _, line := range p.lines {
			if line != "" && !comment(line) {
				if modprobe.CheckName(strings.TrimSpace(line)) != nil {
					return match{len(p.lines), 1}
				}
				named++
			}
		}
		return match{len(p.lines), 1 + one(named > 0 || len(p.lines) > 0)}
	},
	read: func(d *draft, s section) string {
		d.addFile(node.ModulesLoadFiles, "", s, "", s.text())
		return ""
	},
}

// sysctlRoots are the first parts of names of kernel parameters.
var sysctlRoots = []string{"abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"}

func sysctlName(name string) bool {
	root, rest, ok := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(name), "-"), "/", "."), ".")
	if !ok || rest == "" || !contains(sysctlRoots, root) {
		return false
	}
	_, err := sysctld.Normalize(strings.TrimSpace(name))
	return err == nil
}

func sysctlLine(line string) bool {
	name, value, ok := strings.Cut(line, "=")
	return ok && sysctlName(name) && (value != "" || strings.HasSuffix(name, " ")) // sysctl -a has empty ones
}

// sysctl prints NAME = VALUE, and sysctl.d(5) has the same; where the text stood or the command tells which.
var sysctlKind = kind{
	name: "sysctl",
	scan: func(p piece) match {
		at := p.in("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d", "/usr/local/lib/sysctl.d") || p.path == "/etc/sysctl.conf"
		if !at && !sysctlLine(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool { return sysctlLine(line) || comment(line) || at })
		said := 0
		for _, line := range p.lines[:n] {
			said += one(line != "" && sysctlLine(line))
		}
		return match{n, one(at) + one(p.typed("sysctl")) + 2*one(said > 0) + one(at && n > 0)}
	},
	read: func(d *draft, s section) string {
		if strings.HasPrefix(s.path, "/") && !s.typed("sysctl") {
			d.addFile(node.SysctlFiles, "", s, "", s.text())
			return ""
		}
		for i, line := range s.lines {
			if line == "" || comment(line) {
				continue
			}
			name, value, _ := strings.Cut(line, "=")
			d.sysctl(strings.TrimSpace(name), strings.TrimSpace(value), s.source(i))
		}
		return ""
	},
}

// sysctl is the running value of a kernel parameter.
func (d *draft) sysctl(name, value string, source node.Source) {
	if normal, err := sysctld.Normalize(name); err == nil {
		say(d, node.Sysctl, normal, node.Known(value, source))
	}
}

// ncclLine reports a line that NCCL's file may have, also a mistaken one: a name in capitals that NCCL knows, or that begins with
// NCCL_, before =. An attribute of HCL or TOML (indented, blanks around =), a command or a sentence that begins with an assignment is none.
func ncclLine(line string) (is, known bool) {
	assignment := strings.TrimLeft(line, " \t")
	indented := len(assignment) < len(line)
	name, value, ok := strings.Cut(strings.TrimPrefix(assignment, exported), "=")
	trimmed := strings.TrimSpace(name)
	if !ok || trimmed == "" || strings.Trim(trimmed, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
		return false, false
	}
	if indented && strings.HasSuffix(name, " ") || !oneValue(value) {
		return false, false
	}
	_, found := ncclconf.LookupKey(trimmed)
	return true, found || strings.HasPrefix(trimmed, "NCCL_")
}

// exported is what a shell has before an assignment that programs are to see.
const exported = "export "

// oneValue reports a value behind which no other words stand but a comment. The items of a list may be apart, and what is quoted.
func oneValue(value string) bool {
	value, _, _ = strings.Cut(strings.TrimSpace(value), " #")
	if quote := strings.Trim(value[:min(1, len(value))], `"'`); quote == "" && len(value) > 1 && value[0] == value[len(value)-1] {
		return true
	}
	words := strings.Fields(value)
	for i, word := range words {
		if i < len(words)-1 && !strings.HasSuffix(word, ",") {
			return false
		}
	}
	return true
}

const ncclPath = "/etc/nccl.conf"

var ncclKind = kind{
	name: "nccl.conf",
	scan: func(p piece) match {
		if p.path == ncclPath || path.Base(p.path) == ".nccl.conf" {
			return match{len(p.lines), 2}
		}
		if shebang.MatchString(p.lines[0]) || strings.HasPrefix(p.path, "/etc/") && !strings.Contains(path.Base(p.path), "nccl") {
			return match{}
		}
		known, exports := 0, false
		n, said := block(p.lines, false, func(_ int, line string) bool {
			is, isKnown := ncclLine(line)
			known += one(is && isKnown)
			exports = exports || is && strings.HasPrefix(strings.TrimLeft(line, " \t"), exported)
			return is
		})
		if whole := p.begins && rest(p.lines[n:]); exports && !whole && !strings.Contains(p.command, "nccl.conf") {
			return match{n, 0} // commands of a shell
		}
		// One sign is the form of all lines, another that NCCL knows the names.
		return match{n, one(said > 0) + one(known > 0) + one(said > 0 && known == said)}
	},
	read: func(d *draft, s section) string {
		if path.Base(s.path) == ".nccl.conf" {
			d.addFile(node.NCCLUserFiles, "", s, "", s.raw())
			return ""
		}
		if s.path != ncclPath {
			s.path = ""
		}
		d.stands(s, ncclPath)
		say(d, node.File, ncclPath, node.Known(node.FileState{Exists: true, Text: s.raw()}, node.Source{Path: ncclPath}))
		return ""
	},
}

// shebang is the first line of a script that a shell runs (execve(2)).
var shebang = expression(`^#! *(?:/\S*/)?(?:env +(?:-S +)?)?(?:/\S*/)?(?:ba|da|z|k|a)?sh(?: |$)`)

var scriptKind = kind{
	name: "shell script",
	scan: func(p piece) match {
		if !shebang.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, func(string) bool { return true }), 2}
	},
	unread: "what a script does when it is run is not read: give what it prints, or the file that it writes",
}

// Limits: limits.conf(5), the table of /proc/PID/limits, and a shell's ulimit -a.
var (
	limitsRow = expression(`^\S+[ \t]+(?:soft|hard|-)[ \t]+(?:core|data|fsize|memlock|nofile|rss|stack|cpu|nproc|as|maxlogins|maxsyslogins|priority|locks|sigpending|msgqueue|nice|rtprio)[ \t]+(?:unlimited|infinity|-?\d+)$`)
	procLimit = expression(`^Max [a-z ]+? {2,}(?:unlimited|\d+) +(?:unlimited|\d+)(?: +[a-z]+)?$`)
	procHead  = expression(`^Limit +Soft Limit +Hard Limit +Units$`)
	ofProcess = expression(`^/proc/(?:([A-Za-z][\w.@-]*?)\.limits|(\d{1,9})/limits)$`)
	pidOf     = expression(`(?:pidof|pgrep(?: -\w+)*) ([\w.@-]+)`)
)

var limitsKind = kind{
	name: "limits.conf",
	scan: func(p piece) match {
		at := p.in("/etc/security/limits.d") || p.path == "/etc/security/limits.conf"
		n, rows := block(p.lines, at, func(_ int, line string) bool { return limitsRow.MatchString(line) })
		return match{n, one(at)*2 + 2*one(rows > 0)}
	},
	read: func(d *draft, s section) string {
		d.addFile(node.LimitsFiles, "", s, "/etc/security/limits.conf", s.text())
		return ""
	},
}

var procLimitsKind = kind{
	name: "/proc/PID/limits",
	scan: func(p piece) match {
		if !procHead.MatchString(p.lines[0]) {
			return match{}
		}
		rows := while(p.lines[1:], procLimit.MatchString)
		return match{1 + rows, 1 + one(rows > 0)}
	},
	read: func(d *draft, s section) string {
		say(d, node.ProcLimits, s.process(), node.Known(node.ProcessLimits{Running: true, Text: s.text()}, s.source(-1)))
		return ""
	},
}

// What a shell says of its limits: bash's table of ulimit -a, and ulimit -l alone.
var (
	ulimitRow    = expression(`^[a-zA-Z][a-zA-Z -]{3,40}? +\((?:[a-z0-9 -]+, )?-[A-Za-z]\) +(?:unlimited|\d{1,19})$`)
	ulimitLocked = expression(`^max locked memory +\(kbytes, -l\) +(unlimited|\d{1,15})$`)
	ulimitValue  = expression(`^(unlimited|\d{1,15})$`)
)

// shell is what the shell is called that was asked.
const shell = "the shell"

var ulimitKind = kind{
	name: "ulimit",
	scan: func(p piece) match {
		if p.typed("ulimit", "-l") && ulimitValue.MatchString(p.lines[0]) {
			return match{1, 2}
		}
		if !ulimitRow.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, ulimitRow.MatchString)
		return match{n, 1 + one(n > 2) + one(p.typed("ulimit"))}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := ulimitLocked.FindStringSubmatch(line)
			if m == nil && len(s.lines) == 1 {
				m = ulimitValue.FindStringSubmatch(line)
			}
			if m == nil {
				continue
			}
			value := m[1]
			if value != "unlimited" {
				kib, _ := strconv.ParseUint(value, 10, 64) // 15 digits at most
				value = strconv.FormatUint(kib*1024, 10)
			}
			// In the form of /proc/PID/limits; the hard limit, which nobody said, as the one that is in force.
			text := fmt.Sprintf("%-25s %-20s %-20s %-10s\n%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units", "Max locked memory", value, value, "bytes")
			say(d, node.ProcLimits, shell, node.Known(node.ProcessLimits{Running: true, Text: text}, s.source(i)))
		}
		return ""
	},
}

// process is what text calls the process whose limits it shows, by its program, else its number, else where they stand.
func (s section) process() string {
	m := ofProcess.FindStringSubmatch(s.path)
	by := pidOf.FindStringSubmatch(s.command)
	switch {
	case m != nil && m[1] != "":
		return m[1]
	case m != nil:
		return "process " + m[2]
	case by != nil:
		return by[1]
	default:
		return "the process of " + s.source(0).String()
	}
}

// Unit files (systemd.syntax(7)): sections with lines KEY=VALUE.
var (
	unitSection = expression(`^\[(Unit|Service|Install|Socket|Timer|Mount|Path|Target)\]$`)
	unitSetting = expression(`^[A-Z][A-Za-z0-9]{2,40}=`)
	unitDropIn  = expression(`/([\w:.@\\-]+\.(?:service|socket|timer|mount|target|slice))\.d/[^/]+\.conf$`)
)

var unitKind = kind{
	name: "unit file",
	scan: func(p piece) match {
		settings, sections := 0, 0
		n, _ := block(p.lines, false, func(i int, line string) bool {
			section := strings.HasPrefix(line, "[") && unitSection.MatchString(line)
			setting := sections > 0 && unitSetting.MatchString(line)
			sections, settings = sections+one(section), settings+one(setting)
			return section || setting || sections > 0 && continued(p.lines, i)
		})
		return match{n, one(sections > 0) + one(settings > 0) + one(sections > 1)}
	},
	read: func(d *draft, s section) string {
		name := path.Base(orFirst(s.path, s.file))
		if m := unitDropIn.FindStringSubmatch(s.path); m != nil {
			name = m[1]
		}
		if !strings.Contains(name, ".") || strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".conf") || name == "-" {
			name = "pasted.service"
		}
		d.addFile(node.UnitFiles, name, s, "/etc/systemd/system/"+name, s.text())
		if strings.Contains(s.text(), "\nLimitMEMLOCK=") {
			d.give("unit_limits:"+name, "")
		}
		return ""
	},
}

// os-release(5).
var osReleaseKind = kind{
	name: "os-release",
	scan: func(p piece) match {
		is := func(line string) bool {
			name, _, ok := strings.Cut(line, "=")
			return ok && contains([]string{"ID", "NAME", "VERSION", "VERSION_ID", "PRETTY_NAME", "ID_LIKE", "VERSION_CODENAME", "PLATFORM_ID", "CPE_NAME", "HOME_URL", "BUG_REPORT_URL", "SUPPORT_URL", "PRIVACY_POLICY_URL", "UBUNTU_CODENAME", "ANSI_COLOR", "LOGO", "VARIANT", "VARIANT_ID", "BUILD_ID", "DOCUMENTATION_URL", "SUPPORT_END", "DEFAULT_HOSTNAME"}, name) ||
				ok && (strings.HasPrefix(name, "REDHAT_") || strings.HasPrefix(name, "ROCKY_") || strings.HasPrefix(name, "ALMALINUX_"))
		}
		if !is(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, is)
		return match{n, one(n > 1) + one(n > 2) + one(path.Base(p.path) == "os-release")}
	},
	read: func(d *draft, s section) string {
		v := map[string]string{}
		for _, line := range s.lines {
			name, value, _ := strings.Cut(line, "=")
			v[name] = strings.Trim(value, `"'`)
		}
		if d.inv.OS.IsZero() && v["ID"] != "" {
			d.inv.OS = node.Known(node.OS{ID: v["ID"], IDLike: strings.Fields(v["ID_LIKE"]), VersionID: v["VERSION_ID"], PrettyName: v["PRETTY_NAME"]}, s.source(-1))
		}
		return ""
	},
}
