package paste

import (
	"fmt"
	"slices"
	"strings"

	"busbar/internal/kernlog"
	"busbar/node"
)

// Lines of the kernel's log, in the forms that kernlog.ParseText and ParseKmsg know.
var (
	kmsgRecord = expression(`^(?:\d{1,3},\d+,\d+,[-c]| [A-Z]+=\S)`)
	// What only the kernel's log has before a message: seconds since boot, facility and level, a logger's word for the kernel.
	klogSeconds = expression(`^(?:<\d{1,3}>)?(?:[a-z0-9]+ *:(?:emerg|alert|crit|err|warn|notice|info|debug) *: ?)?\[ *\d{1,9}\.\d{6}\](?:\[ *[TC]\d+\])?(?: \S+ kernel:)?(?: |$)`)
	klogLevel   = expression(`^[a-z0-9]+ *:(?:emerg|alert|crit|err|warn|notice|info|debug) *: ?(?:\S+[-+]\d\d:\d\d |\[[^]]*\] ?)?`)
	klogLogger  = expression(`^(?:[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d(?:\.\d+)?|(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?: ?[-+A-Z][A-Z0-9:]*)?) \S+ kernel:(?: \[ *\d+\.\d+\])?(?: |$)`)
	// Times of day of dmesg, which others may print too.
	klogClock = expression(`^(?:\[(?: *\+\d+\.\d{6}|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d+ \d\d:\d\d(?::\d\d \d{4})?)\](?: |$)|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[-+]\d\d:\d\d(?: |$))`)
	// Beginnings of messages, of the kernel and of systemd about what keeps units from starting.
	klogMessage = expression(`^(?:NVRM: |AMD-Vi: |DMAR: |iommu: Default domain|nvidia[\w-]*: |nvidia-peermem |nv_peer_mem: |nvidia_fs: |\w+: (?:disagrees about version of symbol|Unknown symbol|no symbol version for) |Loading of (?:un)?signed module|Lockdown: |(?:mlx[45]_\w+|pcieport|usb|pci|nvme) [\w:.-]+: |PCI: |smpboot: |x2apic: |Linux version |(?:Kernel c|C)ommand line: )`)
	klogSystemd = expression(`^(?:\S+ +){0,4}systemd\[1\]: (?:\S+: (?:Found (?:ordering cycle|dependency)|Job \S+ deleted)|Breaking ordering cycle)`)
)

// klogForm is what stands before the message on a line of the kernel's log, whether only the kernel's log has it, and how the message begins.
// The cheap tests before the expressions let a long text of another kind pass fast.
func klogForm(line string) (stamp string, sure bool, message string) {
	const most = 160
	head := line[:min(len(line), most)]
	if !strings.ContainsAny(head, "[:") {
		return "", false, head
	}
	if strings.Contains(head, "[") {
		stamp = klogSeconds.FindString(head)
	}
	if stamp == "" {
		stamp = klogLevel.FindString(head)
	}
	if stamp == "" && strings.Contains(head, " kernel:") {
		stamp = klogLogger.FindString(head)
	}
	if stamp != "" {
		return stamp, true, head[len(stamp):]
	}
	stamp = klogClock.FindString(head)
	return stamp, false, head[len(stamp):]
}

// klogKnown reports a message that begins as one of the kernel's that matter.
func klogKnown(message string) bool {
	return klogMessage.MatchString(message) || strings.Contains(message, "systemd[1]: ") && klogSystemd.MatchString(message)
}

var kernelLogKind = kind{
	name: "kernel log",
	scan: func(p piece) match {
		if kmsgRecord.MatchString(p.lines[0]) && p.lines[0][0] != ' ' {
			n := while(p.lines, kmsgRecord.MatchString)
			return match{n, 1 + one(n > 1)}
		}
		forms, told := 0, false
		n := while(p.lines, func(line string) bool {
			stamp, sure, message := klogForm(line)
			if told && sure {
				return true
			}
			known := klogKnown(message)
			if stamp == "" && !known {
				return false
			}
			forms += one(sure || known)
			told = told || forms > 2 || stamp != "" && known || kernlog.Tells(line)
			return true
		})
		return match{n, one(n > 0) + one(told)}
	},
	parts: true,
	read: func(d *draft, s section) string {
		i := slices.IndexFunc(d.kernelLogs, func(k kernelLog) bool { return k.file == s.file && k.command == s.command })
		if i < 0 {
			i = len(d.kernelLogs)
			d.kernelLogs = append(d.kernelLogs, kernelLog{file: s.file, command: s.command, log: &kernlog.Collector{}})
			d.give(node.KernelLog.Name(), "")
		}
		take := d.kernelLogs[i].log.TextLine
		if kmsgRecord.MatchString(s.lines[0]) {
			take = d.kernelLogs[i].log.KmsgLine
		}
		for _, line := range s.lines {
			take(line)
		}
		return ""
	},
}

// kernelLog is the kernel's log as one command or file has it, which may be in pieces.
type kernelLog struct {
	file, command string
	// log has what is missing before its first line neither: whoever pasted it may have left that out.
	log *kernlog.Collector
}

// kernelLogAnswer is what all logs say together. Several may have the same lines: an event of more than one is that of the first.
func kernelLogAnswer(logs []kernelLog) node.Answer {
	source := node.Source{Path: logs[0].file}
	files := []string{logs[0].file}
	state := node.CollectedKernelLog(logs[0].log, source)
	for _, l := range logs[1:] {
		if !slices.Contains(files, l.file) {
			files = append(files, l.file)
		}
		more := node.CollectedKernelLog(l.log, source)
		state.Records += more.Records
		state.Dropped += more.Dropped
		first := state.Events
		for _, e := range more.Events {
			same := func(o kernlog.Event) bool {
				return o.Kind == e.Kind && o.Device == e.Device && o.Code == e.Code && o.Name == e.Name
			}
			if !slices.ContainsFunc(first, same) {
				state.Events = append(state.Events, e)
			}
		}
	}
	if len(files) > 1 {
		source.Path += fmt.Sprintf(" and %d more", len(files)-1)
	}
	return node.KernelLog.Answer("", node.Known(state, source))
}
