// Package unitfile reads commands from systemd's unit files, and settings from its configuration files.
package unitfile

import (
	"path"
	"strings"

	"busbar/internal/confdir"
)

// Command is one command of a service, or the value of a setting.
type Command struct {
	// Line as it stands in the file behind the =, of a command prefixes included: -/sbin/modprobe nvidia-peermem.
	Line string
	File string
	// Number of the line in the file on which it begins, from 1.
	Number int
}

const whitespace = " \t\n\r"

// Commands are those that a key of section Service gives (ExecStartPost), of a unit file and its drop-ins in the order
// given; an empty assignment takes back what was given before it. The grammar is that of systemd.syntax(7).
func Commands(files []confdir.File, key string) []Command { return values(files, "Service", key) }

// Setting is what files say of a key that holds one value, in the order given: the last one, with its file and line; false
// where none says it, or the last one takes it back.
func Setting(files []confdir.File, section, key string) (Command, bool) {
	all := values(files, section, key)
	if len(all) == 0 {
		return Command{}, false
	}
	return all[len(all)-1], true
}

func values(files []confdir.File, wanted, key string) []Command {
	var all []Command
	for _, f := range files {
		section := ""
		for number, line := range logical(f.Text) {
			if name, ok := strings.CutPrefix(line, "["); ok {
				section = strings.TrimSuffix(name, "]")
				continue
			}
			name, value, _ := strings.Cut(line, "=")
			if section != wanted || strings.Trim(name, whitespace) != key {
				continue
			}
			if value = strings.Trim(value, whitespace); value == "" {
				all = nil
				continue
			}
			all = append(all, Command{Line: value, File: f.Path, Number: number})
		}
	}
	return all
}

// logical are the lines of a file that are no comments, with those joined that a backslash continues, each with
// the number of its first line.
func logical(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		joined, first, n := "", 0, 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			line = strings.TrimSuffix(line, "\r")
			if lead := strings.TrimLeft(line, whitespace); lead != "" && (lead[0] == '#' || lead[0] == ';') {
				continue // also between continued lines
			}
			if first == 0 {
				first = n
			}
			if body := strings.TrimRight(line, `\`); (len(line)-len(body))%2 == 1 {
				joined += line[:len(line)-1] + " "
				continue
			}
			if !yield(first, strings.Trim(joined+line, whitespace)) {
				return
			}
			joined, first = "", 0
		}
		if first > 0 {
			yield(first, strings.Trim(joined, whitespace))
		}
	}
}

// Same reports whether two commands run the same program with the same arguments: prefixes (systemd.service(5), "Command
// lines"), the program's directory, and - for _ make no difference.
func Same(a, b string) bool { return normal(a) == normal(b) }

func normal(command string) string {
	words := strings.Fields(strings.TrimLeft(command, "@-:+!|"))
	if len(words) == 0 {
		return ""
	}
	words[0] = path.Base(words[0])
	return strings.ReplaceAll(strings.Join(words, " "), "_", "-")
}
