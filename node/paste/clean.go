package paste

import (
	"strings"
)

// clean takes off a line what a terminal, an editor of another system or a logger adds and nobody reads: escape
// sequences (ECMA-48 CSI and OSC), carriage returns, backspaces and other control characters, blanks at the end.
func clean(line string) string {
	if strings.IndexFunc(line, control) >= 0 {
		line = escapes(line)
	}
	return strings.TrimRight(line, " \t")
}

func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == '\ufeff' || r == '\u00a0' }

// escapes drops escape sequences and control characters.
func escapes(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case c == 0x1b && i+1 < len(line) && line[i+1] == '[':
			for i += 2; i < len(line) && (line[i] < 0x40 || line[i] > 0x7e); i++ {
			}
			i++
		case c == 0x1b && i+1 < len(line) && line[i+1] == ']':
			for i += 2; i < len(line) && line[i] != 0x07 && line[i] != 0x1b; i++ {
			}
			i++
		case c == 0x1b:
			i += 2
		case c < ' ' && c != '\t' || c == 0x7f:
			i++
		case strings.HasPrefix(line[i:], "\ufeff"):
			i += len("\ufeff")
		case strings.HasPrefix(line[i:], "\u00a0"):
			b.WriteByte(' ')
			i += len("\u00a0")
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// Prefixes of lines: of whoever runs a job on several machines (mpirun --tag-output, prterun, torchrun, srun --label, pdsh), of a chat or
// mail, and of a logger with the time, the machine and the program.
var (
	tagged = expression(`^(?:\[(?:[\w.-]{1,80}@)?\d+,\d+\]<std(?:out|err)>: ?|\[(?:default|rank)\d{1,5}\]: ?|\d{1,5}: |[A-Za-z][\w.-]{0,63}: |> ?|[|│] ?)`)
	timed  = expression(`^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?(?: (?:stdout|stderr) [FP])? `)
	logged = expression(`^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?) [\w.-]{1,64} [\w./@-]{1,64}(?:\[\d{1,8}\])?: `)
)

// maxPrefixes bounds how many prefixes a line can have.
const maxPrefixes = 3

// bare is a line without prefixes; the same where it has none.
func bare(line string) string {
	for range maxPrefixes {
		if line == "" || !strings.ContainsAny(line[:min(len(line), 160)], ":>|│") {
			return line
		}
		switch {
		case logged.MatchString(line):
			return line[len(logged.FindString(line)):]
		case timed.MatchString(line):
			return line[len(timed.FindString(line)):]
		case tagged.MatchString(line):
			line = line[len(tagged.FindString(line)):]
		default:
			return line
		}
	}
	return line
}

// prompt is a line on which somebody typed a command: user@host:~$ COMMAND, [user@host dir]# COMMAND, $ COMMAND.
var prompt = expression(`^(?:\[?[\w.-]+@[\w.-]+[ :][^$#%]{0,80}\]?[$#%]|[$#%]) ([a-z/.][^=]*)$`)

// command is what somebody typed on the line; empty for another line. A comment is none: # words.
func command(line string) string {
	if len(line) > 400 || !strings.ContainsAny(line, "$#%") {
		return ""
	}
	m := prompt.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	typed := strings.TrimPrefix(strings.TrimSpace(m[1]), "sudo ")
	word, _, _ := strings.Cut(typed, " ")
	word = word[strings.LastIndexByte(word, '/')+1:]
	if line[0] == '#' && !programs[word] {
		return ""
	}
	return typed
}

// programs are those whose output is pasted: after # a line that begins with another word is a comment.
var programs = map[string]bool{
	"nvidia-smi": true, "lspci": true, "setpci": true, "lsmod": true, "modinfo": true, "cat": true, "dmesg": true, "journalctl": true, "mlnx_qos": true,
	"dcb": true, "show_gids": true, "ibv_devinfo": true, "ibstat": true, "ibstatus": true, "ip": true, "sysctl": true, "ulimit": true, "grep": true, "head": true,
	"tail": true, "systemctl": true, "ls": true, "lscpu": true, "ibdev2netdev": true, "rdma": true, "ethtool": true, "uname": true, "mlxlink": true, "mstlink": true, "numactl": true, "dpkg": true, "rpm": true,
}

// readsFile is the file that a command prints; empty for another command.
func readsFile(command string) string {
	words := strings.Fields(command)
	if len(words) != 2 || words[0] != "cat" || !strings.HasPrefix(words[1], "/") {
		return ""
	}
	return words[1]
}

// heading is the line by which head and tail name the file that follows: ==> FILE <==.
func heading(line string) string {
	path, ok := strings.CutPrefix(line, "==> ")
	path, closed := strings.CutSuffix(path, " <==")
	if !ok || !closed {
		return ""
	}
	return path
}

// fence is a line of three backticks or tildes, which Markdown has around code.
func fence(line string) bool {
	line = strings.TrimLeft(line, " ")
	return (strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")) && !strings.Contains(line[3:], "`") && len(line) < 24
}
