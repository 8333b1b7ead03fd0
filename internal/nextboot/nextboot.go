// Package nextboot says what command lines a node's boot loader will hand the
// kernel at the next boot.
package nextboot

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/node"
)

// Line is the kernel command line of one boot entry.
type Line struct {
	// Title of the entry; empty when there are no generated entries yet.
	Title string
	// Release of the entry's kernel, empty when its file name does not tell.
	Release string
	Args    cmdline.Line
	// Images are the files that the kernel gets as its initramfs, in this order, where they stand
	// in this root; none where the entry boots without.
	Images []string
	// Source is the line of grub.cfg, or the defaults when there is no grub.cfg.
	Source node.Source
}

// State is what will be booted.
type State struct {
	// Lines are those of every entry of this root but recovery ones; one, made of the
	// defaults, where no grub.cfg stands yet.
	Lines []Line
	// Next is the index in Lines of the one that boots, unless Pinned is set.
	Next int
	// Generated: Lines come from a grub.cfg.
	Generated bool
	// Defaults are the evaluated defaults.
	Defaults *grub.Defaults
	// Pinned says which entry is selected when that is none of Lines, PinnedBy what selects
	// it (GRUB_DEFAULT, or saved_entry or next_entry of the environment block), and PinnedAt where;
	// empty when one of Lines boots.
	Pinned, PinnedBy string
	PinnedAt         node.Source
}

// UnsupportedError is a boot loader that busbar does not manage.
type UnsupportedError struct{ Loader string }

// Error names the loader.
func (e *UnsupportedError) Error() string {
	if e.Loader == node.LoaderNone {
		return "no boot loader that busbar manages (GRUB of Debian and Ubuntu) was found"
	}
	return "the boot loader is " + e.Loader + ", busbar manages GRUB of Debian and Ubuntu"
}

// Read evaluates a boot configuration. It fails with *UnsupportedError, with
// *grub.SyntaxError for defaults that the shell cannot read, and with what makes
// a value unknown otherwise.
func Read(boot node.BootConfig) (State, error) {
	if boot.Loader != node.LoaderGRUBDebian {
		return State{}, &UnsupportedError{boot.Loader}
	}
	defaults, err := Evaluate(boot, boot.Defaults)
	if err != nil {
		return State{}, err
	}
	s := State{Defaults: defaults}
	if boot.GeneratedReason != "" {
		return State{}, errors.New(boot.GeneratedReason)
	}
	if boot.Generated == "" {
		line, known, reason := grub.CommandLine(defaults, false)
		if !known {
			return State{}, fmt.Errorf("what update-grub would write is not known: %s", reason)
		}
		s.Lines = []Line{{Args: cmdline.Parse(line), Source: node.Source{Path: grub.DefaultsFile}}}
		return s, nil
	}
	config, err := grub.ParseConfig(boot.Generated)
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", GeneratedPath, err)
	}
	s.Generated = true
	entries := ofThisRoot(config.Entries)
	if len(entries) == 0 {
		return State{}, fmt.Errorf("%s has no entry that boots Linux", GeneratedPath)
	}
	for _, e := range entries {
		s.Lines = append(s.Lines, Line{Title: e.Title, Release: release(e.Kernel), Args: cmdline.Parse(e.Args), Images: images(e.Initrds), Source: node.Source{Path: GeneratedPath, Line: e.Line}})
	}
	return s, s.pinned(boot, entries)
}

// fromScript are the arguments that 10_linux itself puts on every line.
var fromScript = []string{"root", "rootflags", "ro", "rw"}

// LeftOver are arguments of the entries that the defaults do not bring, each once. GRUB's own
// variables (Ubuntu's $vt_handoff) are the script's.
func (s State) LeftOver() cmdline.Line {
	line, known, _ := grub.CommandLine(s.Defaults, false)
	if !known {
		return nil
	}
	seen := map[string]bool{}
	for _, a := range cmdline.Parse(line) {
		seen[a.Text] = true
	}
	var left cmdline.Line
	for _, l := range s.Lines {
		for _, a := range l.Args {
			if !seen[a.Text] && !slices.Contains(fromScript, a.Key) && !strings.HasPrefix(a.Text, "$") {
				seen[a.Text] = true
				left = append(left, a)
			}
		}
	}
	return left
}

// GeneratedPath is the configuration that GRUB reads, CustomPath what that takes in at its end.
const (
	GeneratedPath = "/boot/grub/grub.cfg"
	CustomPath    = "/boot/grub/custom.cfg"
)

// Evaluate evaluates files in place of the boot configuration's defaults.
func Evaluate(boot node.BootConfig, files []confdir.File) (*grub.Defaults, error) {
	return grub.Evaluate(files, func(p string) (string, bool) {
		for _, r := range boot.References {
			if r.Path == p {
				return r.Text, r.Exists
			}
		}
		return "", false
	})
}

// ofThisRoot are the entries that boot the file system which the first one boots,
// recovery entries left out: those of other systems (os-prober) are not ours.
func ofThisRoot(entries []grub.Entry) []grub.Entry {
	var ours []grub.Entry
	for _, e := range entries {
		if e.Kernel != "" && !e.Recovery && (len(ours) == 0 || e.Root == ours[0].Root) {
			ours = append(ours, e)
		}
	}
	return ours
}

// images are where files that GRUB names stand in this root: it calls them by their paths on the file system that
// holds them, which may be /boot's own, or one that has the root in a subvolume.
func images(initrds []string) []string {
	var all []string
	for _, p := range initrds {
		if i := strings.LastIndex(p, "/boot/"); i >= 0 {
			p = p[i+len("/boot"):]
		}
		all = append(all, path.Join("/boot", p))
	}
	return all
}

func release(kernel string) string {
	_, release, _ := strings.Cut(path.Base(kernel), "-")
	return release
}

// pinned finds out which entry is selected, and whether that is none of ours.
func (s *State) pinned(boot node.BootConfig, ours []grub.Entry) error {
	menu, err := grub.ParseConfig(boot.Generated + "\n" + boot.Custom)
	if err != nil {
		return fmt.Errorf("%s with %s: %w", GeneratedPath, CustomPath, err)
	}
	selection, by, at, err := s.selection(boot)
	if err != nil || selection == "" {
		return err
	}
	// A selection that is no entry boots the first one.
	entry, err := grub.DefaultEntry(menu, selection)
	if err != nil {
		return nil
	}
	next := slices.IndexFunc(ours, func(e grub.Entry) bool { return e.Line == entry.Line })
	if next < 0 {
		s.Pinned, s.PinnedBy, s.PinnedAt = entry.Title, by, at
		return nil
	}
	s.Next = next
	return nil
}

// selection is what selects the entry that will boot, as 00_header does: next_entry once, else
// GRUB_DEFAULT, which may refer to saved_entry. It is empty where nothing does.
func (s *State) selection(boot node.BootConfig) (selection, by string, at node.Source, err error) {
	env := grub.Environment{}
	if boot.Environment != "" {
		if env, err = grub.ParseEnvironment(boot.Environment); err != nil {
			return "", "", node.Source{}, fmt.Errorf("%s: %w", grub.EnvironmentFile, err)
		}
	}
	stored := func(name string) (string, string, node.Source, error) {
		return env[name].Value, name, node.Source{Path: grub.EnvironmentFile, Line: env[name].Line}, nil
	}
	if env[grub.NextEntry].Value != "" {
		return stored(grub.NextEntry)
	}
	selection, known, _ := s.Defaults.Value("GRUB_DEFAULT")
	switch {
	case !known:
		return "", "", node.Source{}, nil
	case selection == "saved":
		return stored(grub.SavedEntry)
	}
	for _, a := range s.Defaults.Assignments {
		if a.Name == "GRUB_DEFAULT" {
			at = node.Source{Path: a.File, Line: a.Line}
		}
	}
	return selection, "GRUB_DEFAULT", at, nil
}

// Regenerate returns the boot configuration as update-grub would leave it: every
// entry of this root gets the command line of the defaults behind what 10_linux
// puts first (root=, ro and the like).
func Regenerate(boot node.BootConfig) (node.BootConfig, error) {
	if boot.Generated == "" {
		return boot, nil
	}
	defaults, err := Evaluate(boot, boot.Defaults)
	if err != nil {
		return boot, err
	}
	var words []string // verbatim: GRUB's quotes stay
	for _, name := range []string{grub.Linux, grub.LinuxDefault} {
		value, known, reason := defaults.Value(name)
		if !known {
			return boot, fmt.Errorf("what update-grub would write is not known: %s", reason)
		}
		words = append(words, value)
	}
	config, err := grub.ParseConfig(boot.Generated)
	if err != nil {
		return boot, fmt.Errorf("%s: %w", GeneratedPath, err)
	}
	lines := strings.SplitAfter(boot.Generated, "\n")
	for _, e := range ofThisRoot(config.Entries) {
		at := e.Line - 1
		if at >= len(lines) {
			continue
		}
		fields := strings.Fields(lines[at])
		if len(fields) < 2 {
			continue
		}
		head, seen := fields[:2], map[string]bool{}
		for _, f := range fields[2:] {
			key, _, _ := strings.Cut(f, "=")
			if slices.Contains(fromScript, key) && !seen[key] {
				head, seen[key] = append(head, f), true
			}
		}
		lines[at] = "\t" + strings.Join(append(head, words...), " ") + "\n"
	}
	boot.Generated, boot.Outdated = strings.Join(lines, ""), false
	return boot, nil
}
