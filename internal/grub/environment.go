package grub

import (
	"errors"
	"strings"
)

// EnvironmentFile is the environment block, which grub-set-default, grub-reboot and GRUB
// itself write.
const EnvironmentFile = "/boot/grub/grubenv"

// The variables of the environment block that select an entry (util/grub.d/00_header.in):
// NextEntry does so once, and SavedEntry where the default is "saved".
const (
	NextEntry  = "next_entry"
	SavedEntry = "saved_entry"
)

// environmentHeader begins the block (include/grub/lib/envblk.h).
const environmentHeader = "# GRUB Environment Block\n"

// Environment is an environment block.
type Environment map[string]Variable

// Variable is one of its values.
type Variable struct {
	Value string
	// Line of the file, from 1.
	Line int
}

// ParseEnvironment reads an environment block as GRUB does (grub-core/lib/envblk.c,
// grub_envblk_iterate): NAME=VALUE in lines, # begins a comment, and a backslash takes the
// character after it as it is, a new line too. A block without its header is an error.
func ParseEnvironment(text string) (Environment, error) {
	rest, ok := strings.CutPrefix(text, environmentHeader)
	if !ok {
		return nil, errors.New("it does not begin as an environment block does")
	}
	env := Environment{}
	for line := 2; rest != ""; {
		var entry string
		began := line
		entry, rest, line = environmentLine(rest, line)
		name, value, ok := strings.Cut(entry, "=")
		if ok && !strings.HasPrefix(entry, "#") {
			env[name] = Variable{unescape(value), began}
		}
	}
	return env, nil
}

// environmentLine cuts off the first line, which goes on over escaped new lines, and counts
// the lines of the file.
func environmentLine(text string, line int) (entry, rest string, next int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i < len(text) && text[i] == '\n' {
				line++
			}
		case '\n':
			return text[:i], text[i+1:], line + 1
		}
	}
	return text, "", line
}

func unescape(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) {
			i++
		}
		b.WriteByte(value[i])
	}
	return b.String()
}
