package grub

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxNesting bounds menus within menus.
const maxNesting = 64

// Config is what a generated grub.cfg offers to boot.
type Config struct {
	// Entries in order. An entry with several linux lines (as cloud images have
	// for booting without an initrd) stands once for each.
	Entries []Entry
	// Default is the text of the last "set default=" outside entries, quotes
	// undone: "0", an id, "${saved_entry}"; "" if there is none.
	Default string
}

// Menu names a submenu.
type Menu struct {
	Title string
	ID    string
}

// Entry is one linux line of a menu entry, or an entry without one.
type Entry struct {
	Title string
	// ID is what follows --id or $menuentry_id_option, "" without.
	ID string
	// Submenus leads from the top menu to the entry.
	Submenus []Menu
	// Index is the entry's place among its siblings, from 0, with those of its
	// submenus before it: "1>2".
	Index string
	// Kernel is the path on the linux line, "" for an entry that boots no Linux.
	Kernel string
	// Args is the rest of the line as the kernel will read it (KernelLine), with
	// variables as they stand.
	Args string
	// Root is the value of the last root= in Args.
	Root string
	// Initrds are the paths on the initrd line that follows, in the order in which the kernel gets them;
	// none for an entry that boots without.
	Initrds []string
	// Recovery marks recovery and rescue entries of 10_linux.
	Recovery bool
	// Line is that of the linux command, else of the menuentry, from 1.
	Line int
}

// frame is an open brace.
type frame struct {
	command  string // menuentry, submenu or something else
	line     int
	title    string
	id       string
	index    string
	menus    []Menu // from the top menu to an entry, or to a submenu and with it
	children int    // entries and submenus so far, of the top menu or a submenu
	linux    bool
}

// parser reads a grub.cfg command by command.
type parser struct {
	cfg   Config
	lines *source
	stack []frame // stack[0] is the top menu
}

// ParseConfig reads a grub.cfg as GRUB would, without running it: entries within
// conditions are listed. A quote or brace that is not closed, as in a file that
// was cut off, is an error with its line.
func ParseConfig(text string) (Config, error) {
	l := lexer{text: strings.TrimPrefix(text, "\ufeff")}
	p := &parser{lines: newSource("grub.cfg", l.text), stack: []frame{{command: "submenu"}}}
	var cmd []lexeme
	for {
		w := l.next()
		line := p.lines.line(w.start)
		switch w.kind {
		case wordLexeme:
			if len(cmd) > 0 || !slices.Contains(keywords, w.raw) {
				cmd = append(cmd, w)
			}
			continue
		case badLexeme:
			return Config{}, fmt.Errorf("grub.cfg:%d: a quote is not closed", line)
		case openLexeme:
			if err := p.open(cmd, line); err != nil {
				return Config{}, err
			}
		case endLexeme:
			p.command(cmd)
		case closeLexeme:
			p.command(cmd)
			if err := p.close(line); err != nil {
				return Config{}, err
			}
		case eofLexeme:
			p.command(cmd)
			if top := p.stack[len(p.stack)-1]; len(p.stack) > 1 {
				return Config{}, fmt.Errorf("grub.cfg:%d: the file ends inside the %s that begins here", top.line, top.command)
			}
			return p.cfg, nil
		}
		cmd = nil
	}
}

// keywords stand before a command.
var keywords = []string{"if", "then", "elif", "else", "do", "while", "until", "!"}

func (p *parser) open(cmd []lexeme, line int) error {
	if len(p.stack) > maxNesting {
		return fmt.Errorf("grub.cfg:%d: more than %d blocks within each other", line, maxNesting)
	}
	f := frame{command: "block", line: line}
	if len(cmd) > 0 {
		f.command, f.line = cmd[0].text, p.lines.line(cmd[0].start)
	}
	if f.command == "menuentry" || f.command == "submenu" {
		f.title, f.id = name(cmd[1:])
		for n := len(p.stack) - 1; ; n-- {
			menu := &p.stack[n]
			if menu.command == "submenu" {
				f.index = strconv.Itoa(menu.children)
				if menu.index != "" {
					f.index = menu.index + ">" + f.index
				}
				menu.children++
				f.menus = menu.menus
				break
			}
		}
	}
	if f.command == "submenu" {
		f.menus = append(slices.Clip(f.menus), Menu{f.title, f.id})
	}
	p.stack = append(p.stack, f)
	return nil
}

func (p *parser) close(line int) error {
	if len(p.stack) == 1 {
		return fmt.Errorf("grub.cfg:%d: } without {", line)
	}
	f := p.stack[len(p.stack)-1]
	if f.command == "menuentry" && !f.linux {
		p.add(f, Entry{Line: f.line})
	}
	p.stack = p.stack[:len(p.stack)-1]
	return nil
}

// name reads the arguments of menuentry and submenu (grub-core/commands/menuentry.c).
func name(args []lexeme) (title, id string) {
	named := false
	for n := 0; n < len(args); n++ {
		switch arg := args[n].text; arg {
		case "--class", "--users", "--hotkey", "--source", "-c", "-u":
			n++
		case "--id", "$menuentry_id_option", "${menuentry_id_option}":
			if n++; n < len(args) {
				id = args[n].text
			}
		default:
			if value, ok := strings.CutPrefix(arg, "--id="); ok {
				id = value
			} else if !named && !strings.HasPrefix(arg, "--") {
				title, named = arg, true
			}
		}
	}
	return title, id
}

func (p *parser) command(cmd []lexeme) {
	if len(cmd) < 2 {
		return
	}
	entry := slices.IndexFunc(p.stack, func(f frame) bool { return f.command == "menuentry" })
	switch cmd[0].text {
	case "set":
		if value, ok := strings.CutPrefix(cmd[1].text, "default="); ok && entry < 0 {
			p.cfg.Default = value
		}
	case "linux", "linuxefi", "linux16":
		if entry < 0 {
			return
		}
		p.stack[entry].linux = true
		e := Entry{Kernel: cmd[1].text, Line: p.lines.line(cmd[0].start), Recovery: strings.Contains(cmd[1].text, "vmlinuz-0-rescue")}
		args := make([]string, 0, len(cmd)-2)
		for _, w := range cmd[2:] {
			args = append(args, w.kernel())
			if root, ok := strings.CutPrefix(w.text, "root="); ok {
				e.Root = root
			}
			e.Recovery = e.Recovery || w.text == "single" || w.text == "recovery"
		}
		e.Args = strings.Join(args, " ")
		p.add(p.stack[entry], e)
	case "initrd", "initrdefi", "initrd16":
		if entry < 0 || !p.stack[entry].linux {
			return
		}
		last := &p.cfg.Entries[len(p.cfg.Entries)-1]
		last.Initrds = nil // the last such line counts (grub-core/loader/i386/linux.c)
		for _, w := range cmd[1:] {
			last.Initrds = append(last.Initrds, w.text)
		}
	}
}

// add completes an entry from its frame.
func (p *parser) add(f frame, e Entry) {
	e.Title, e.ID, e.Index, e.Submenus = f.title, f.id, f.index, f.menus
	e.Recovery = e.Recovery || strings.Contains(e.ID, "-recovery-") || strings.Contains(e.Title, "(recovery mode)")
	p.cfg.Entries = append(p.cfg.Entries, e)
}

// DefaultEntry returns the entry that a selection boots: the value of
// GRUB_DEFAULT, or of saved_entry in grubenv, or "" for Config.Default. At each
// level of "a>b" it is a number from 0, a title or an id; ">>" is a literal ">"
// (grub-core/normal/menu.c). Of an entry with several linux lines it returns the
// last. It fails where the selection is "saved" or a variable, which the
// environment block knows, and where it selects no entry.
func DefaultEntry(cfg Config, grubDefault string) (Entry, error) {
	selection := grubDefault
	if selection == "" {
		selection = cfg.Default
	}
	switch {
	case selection == "":
		selection = "0"
	case selection == "saved" || strings.Contains(selection, "$"):
		return Entry{}, fmt.Errorf("the default entry is %q: only saved_entry in grubenv knows it", selection)
	}
	levels := levels(selection)
	first := slices.IndexFunc(cfg.Entries, func(e Entry) bool { return e.selected(levels) })
	if first < 0 {
		return Entry{}, fmt.Errorf("the default entry is %q, and grub.cfg has no such entry", selection)
	}
	last := first
	for n, e := range cfg.Entries {
		if e.Index == cfg.Entries[first].Index {
			last = n
		}
	}
	return cfg.Entries[last], nil
}

func levels(selection string) []string {
	const literal = "\x00"
	parts := strings.Split(strings.ReplaceAll(selection, ">>", literal), ">")
	for n := range parts {
		parts[n] = strings.ReplaceAll(parts[n], literal, ">")
	}
	return parts
}

func (e Entry) selected(levels []string) bool {
	indices := strings.Split(e.Index, ">")
	if len(levels) != len(indices) || len(indices) != len(e.Submenus)+1 {
		return false
	}
	path := append(slices.Clone(e.Submenus), Menu{e.Title, e.ID})
	for n, level := range levels {
		if _, err := strconv.Atoi(level); err == nil {
			if level != indices[n] {
				return false
			}
		} else if level != path[n].Title && level != path[n].ID {
			return false
		}
	}
	return true
}
