// Package ifupdown reads /etc/network/interfaces, the configuration of Debian's ifupdown, as config.c of ifupdown 0.8
// does, as far as it is about the MTU of a network device. It is pure: files come through Tree.
package ifupdown

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// InterfacesPath is the file that ifup reads.
const InterfacesPath = "/etc/network/interfaces"

// Tree is where the files are.
type Tree interface {
	// Read reads a file.
	Read(path string) (string, error)
	// Glob lists the paths that match a pattern of path.Match, sorted.
	Glob(pattern string) []string
	// List lists the names in a directory, sorted.
	List(dir string) ([]string, error)
}

// Option is a line of a stanza.
type Option struct {
	Name, Value string
	// Path of the file and Line in it, from 1.
	Path string
	Line int
}

// Interface is a stanza iface.
type Interface struct {
	// Name is that of the logical interface, Family inet, inet6 ..., Method static, manual, dhcp ...
	Name, Family, Method string
	// Options are those of the stanza, after those that it inherits.
	Options []Option
	Path    string
	Line    int
}

// Config is the configuration with all that it sources.
type Config struct {
	Interfaces []Interface
	// Unread says which files were not read and why, each as PATH:LINE: REASON.
	Unread []string
}

// How many files are read, and how deep they may source each other; through a link to its own directory a file can source itself
// under ever longer names.
const (
	maxFiles = 200
	maxDepth = 10
)

// Load reads the configuration. The error is that of the main file; files that it sources and that cannot be read stand in
// Unread.
func Load(t Tree) (Config, error) {
	l := loader{tree: t, seen: map[string]bool{}}
	err := l.file(InterfacesPath)
	return l.config, err
}

type loader struct {
	tree   Tree
	seen   map[string]bool
	depth  int
	config Config
}

var (
	errTooMany = fmt.Errorf("more than %d files", maxFiles)
	errTooDeep = fmt.Errorf("sourced more than %d deep", maxDepth)
)

// file reads a file once, and what it sources where it does so.
func (l *loader) file(p string) error {
	switch {
	case l.seen[p]:
		return nil
	case len(l.seen) == maxFiles:
		return errTooMany
	case l.depth == maxDepth:
		return errTooDeep
	}
	l.seen[p] = true
	l.depth++
	defer func() { l.depth-- }()
	text, err := l.tree.Read(p)
	if err != nil {
		return err
	}
	current := -1 // the stanza iface that options belong to
	for line := range logicalLines(text) {
		word, rest := nextWord(line.text)
		switch {
		case word == "":
		case word == "source":
			current = -1
			l.source(p, line, rest, l.tree.Glob)
		case strings.HasPrefix(word, "source-dir"):
			current = -1
			l.source(p, line, rest, l.directory)
		case word == "iface":
			current = -1
			if i, ok := l.newInterface(rest); ok {
				i.Path, i.Line = p, line.number
				l.config.Interfaces = append(l.config.Interfaces, i)
				current = len(l.config.Interfaces) - 1
			}
		case word == "auto" || word == "no-auto-down" || word == "no-scripts" || strings.HasPrefix(word, "allow-"):
			if rest != "" { // alone, they are about the stanza
				current = -1
			}
		case word == "mapping" || word == "rename":
			current = -1
		case current >= 0:
			i := &l.config.Interfaces[current]
			i.Options = append(i.Options, Option{Name: word, Value: rest, Path: p, Line: line.number})
		}
	}
	return nil
}

// source reads the files that a line names: words of a shell, of which only patterns are understood.
func (l *loader) source(p string, line logicalLine, words string, files func(string) []string) {
	for pattern := range strings.FieldsSeq(words) {
		if strings.ContainsAny(pattern, "$`~\"'\\{") {
			l.unread(p, line.number, fmt.Errorf("%s: a shell would expand it", pattern))
			continue
		}
		if !path.IsAbs(pattern) {
			pattern = path.Dir(p) + "/" + pattern
		}
		for _, file := range files(pattern) {
			if err := l.file(file); err != nil {
				l.unread(p, line.number, fmt.Errorf("%s: %w", file, err))
				if errors.Is(err, errTooMany) {
					return
				}
			}
		}
	}
}

// directory lists the files of directories whose names are letters, digits, _ and - (directory_filter in config.c).
func (l *loader) directory(pattern string) []string {
	var files []string
	for _, dir := range l.tree.Glob(pattern) {
		names, err := l.tree.List(dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
				files = append(files, dir+"/"+name)
			}
		}
	}
	return files
}

func (l *loader) unread(p string, line int, err error) {
	l.config.Unread = append(l.config.Unread, fmt.Sprintf("%s:%d: %s", p, line, err))
}

// newInterface reads the words after iface: NAME [FAMILY [METHOD]] [inherits OTHER].
func (l *loader) newInterface(words string) (Interface, bool) {
	fields := strings.Fields(words)
	if len(fields) == 0 {
		return Interface{}, false
	}
	i := Interface{Name: fields[0]}
	for n := 1; n < len(fields); n++ {
		switch {
		case fields[n] == "inherits":
			if n+1 < len(fields) {
				l.inherit(&i, fields[n+1])
			}
			return i, true
		case n == 1:
			i.Family = fields[n]
		case n == 2:
			i.Method = fields[n]
		}
	}
	return i, true
}

// inherit takes over the options of the first stanza of a name and family.
func (l *loader) inherit(i *Interface, name string) {
	for _, other := range l.config.Interfaces {
		if other.Name != name || i.Family != "" && other.Family != i.Family {
			continue
		}
		i.Options = slices.Clone(other.Options)
		if i.Family == "" {
			i.Family = other.Family
		}
		if i.Method == "" {
			i.Method = other.Method
		}
		return
	}
}

// logicalLine is a line with those that go on after a backslash.
type logicalLine struct {
	text   string
	number int // of its first line, from 1
}

// logicalLines is get_line of config.c. A line that begins with # is none; what goes on after a backslash is not looked at
// for comments.
func logicalLines(text string) func(yield func(logicalLine) bool) {
	return func(yield func(logicalLine) bool) {
		var whole strings.Builder
		first, n := 0, 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			if first == 0 {
				line = strings.TrimLeft(line, space)
				if strings.HasPrefix(line, "#") {
					continue
				}
				first = n
			}
			body, more := strings.CutSuffix(line, "\\")
			whole.WriteString(body)
			if more {
				continue
			}
			if !yield(logicalLine{strings.TrimRight(whole.String(), space), first}) {
				return
			}
			whole.Reset()
			first = 0
		}
		if first > 0 {
			yield(logicalLine{strings.TrimRight(whole.String(), space), first})
		}
	}
}

const space = " \t\n\v\f\r"

func nextWord(s string) (word, rest string) {
	end := strings.IndexAny(s, space)
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimLeft(s[end:], space)
}

// State is what /run/network/ifstate has of a network device: the logical interface that it was brought up as, and false
// where ifup did not bring it up. Lines are IFACE=LOGICAL (update_state in main.c).
func State(ifstate, iface string) (logical string, up bool) {
	for line := range strings.Lines(ifstate) {
		name, as, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && name == iface {
			logical, up = as, true
		}
	}
	return logical, up
}

// MTU is what the stanzas of a logical interface say of its device's MTU, and the line that does; 0 where they say
// nothing. Method dhcp has no MTU. Of family inet6 it is that of IPv6, which raises the device's where that is lower (inet.defn,
// inet6.defn). A command that says an MTU counts too; the error names what cannot be read as one.
func (c Config) MTU(logical string) (bytes int, at Option, err error) {
	for _, i := range c.Interfaces {
		if i.Name != logical {
			continue
		}
		said := 0
		for _, o := range i.Options {
			switch o.Name {
			case "mtu":
				if !slices.Contains([]string{"static", "manual", "tunnel", "v4tunnel", "6to4"}, i.Method) {
					continue
				}
				said++
				n, invalid := strconv.ParseUint(o.Value, 10, 31)
				switch {
				case invalid != nil || n == 0:
					return 0, o, fmt.Errorf("line %d: MTU %.40q is no number", o.Line, o.Value)
				case said > 1:
					return 0, o, fmt.Errorf("line %d: a second MTU in one stanza", o.Line)
				case i.Family != "inet6" || int(n) > max(bytes, ethernetMTU):
					bytes, at = int(n), o
				}
			case "pre-up", "up", "post-up":
				n, says, understood := commandMTU(o.Value, logical)
				switch {
				case says && !understood:
					return 0, o, fmt.Errorf("line %d: a command sets it: %.80s", o.Line, o.Value)
				case says:
					bytes, at = n, o
				}
			}
		}
	}
	return bytes, at, nil
}

// ethernetMTU is what a device has before anybody sets it.
const ethernetMTU = 1500

// commandMTU reads a command like "ip link set dev eth0 mtu 9000" or "ifconfig $IFACE mtu 9000". says is false for one that is
// about no device's MTU, such as that of a route.
func commandMTU(command, iface string) (bytes int, says, understood bool) {
	fields := strings.Fields(command)
	if !strings.Contains(command, "mtu") || slices.Contains(fields, "route") {
		return 0, false, false
	}
	at := slices.Index(fields, "mtu")
	program := path.Base(fields[0])
	device := slices.ContainsFunc(fields, func(f string) bool { return slices.Contains([]string{iface, "$IFACE", "${IFACE}", `"$IFACE"`}, f) })
	if at < 0 || at+1 == len(fields) || !device || strings.ContainsAny(command, ";|&<>()`") ||
		program != "ifconfig" && (program != "ip" || !slices.Contains(fields, "link")) {
		return 0, true, false
	}
	n, err := strconv.ParseUint(fields[at+1], 10, 31)
	return int(n), true, err == nil && n > 0
}
