package grub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"mvdan.cc/sh/v3/syntax"

	"busbar/internal/cmdline"
)

// LintKind names a kind of mistake; the names are stable.
type LintKind string

const (
	// UnknownKey: a name that GRUB does not read and that is nearly one it does.
	UnknownKey LintKind = "unknown-key"
	// RepeatedAssignment: the same assignment again.
	RepeatedAssignment LintKind = "repeated-assignment"
	// DroppedTokens: a later assignment replaces arguments of an earlier one.
	DroppedTokens LintKind = "dropped-tokens"
	// StrayNone: the word None, left by a program that printed a missing value.
	StrayNone LintKind = "stray-none"
	// DoubledToken: the same argument twice on the kernel's line.
	DoubledToken LintKind = "doubled-token"
	// Separator: GRUB ends the linux command in the middle of the value.
	Separator LintKind = "separator"
	// CommandAfterValue: NAME=value word, which runs the word.
	CommandAfterValue LintKind = "command-after-value"
	// TunedTwice: tuned's arguments come by its placeholder and by the file that it writes.
	TunedTwice LintKind = "tuned-twice"
	// Bashism: what bash takes and sh does not.
	Bashism LintKind = "bashism"
)

// Lint is something in a defaults file that looks like a mistake.
type Lint struct {
	File string
	Line int
	Kind LintKind
	Text string
}

// tunedArgs are what tuned wants on the kernel's line, in a file that it writes for the
// defaults to source (/etc/tuned/bootcmdline). In the defaults a \$tuned_params is left to
// GRUB, for which /etc/grub.d/00_tuned sets it to the same (tuned's bootloader plugin).
const tunedArgs = "TUNED_BOOT_CMDLINE"

// tunedTwice looks for both on the kernel's line.
func (i *interp) tunedTwice() {
	source, placeholder, copied := i.d.lookup(tunedArgs), Token{}, false
	for _, t := range slices.Concat(i.d.Tokens(Linux), i.d.Tokens(LinuxDefault)) {
		switch {
		case t.Text == "$tuned_params" || t.Text == "${tuned_params}":
			placeholder = t
		case source.line > 0 && t.File == source.file && t.Line == source.line:
			copied = true
		}
	}
	if copied && placeholder.File != "" {
		i.d.addLint(placeholder.File, placeholder.Line, TunedTwice, "%s puts tuned's arguments on the kernel's line, and $%s of %s:%d puts them there again", placeholder.Text, tunedArgs, source.file, source.line)
	}
}

// keys holds what grub-mkconfig reads (GNU GRUB manual, "Simple configuration";
// Debian's and Ubuntu's /etc/grub.d).
var keys = []string{
	"GRUB_BACKGROUND", "GRUB_BADRAM", "GRUB_BUTTON_CMOS_ADDRESS", "GRUB_BUTTON_CMOS_CLEAN",
	"GRUB_CMDLINE_GNUMACH", "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX_RECOVERY",
	"GRUB_CMDLINE_LINUX_XEN_REPLACE", "GRUB_CMDLINE_LINUX_XEN_REPLACE_DEFAULT", "GRUB_CMDLINE_NETBSD",
	"GRUB_CMDLINE_NETBSD_DEFAULT", "GRUB_CMDLINE_XEN", "GRUB_CMDLINE_XEN_DEFAULT", "GRUB_COLOR_HIGHLIGHT",
	"GRUB_COLOR_NORMAL", "GRUB_CRYPTODISK_ENABLE", "GRUB_DEFAULT", "GRUB_DEFAULT_BUTTON",
	"GRUB_DEFAULT_DTB", "GRUB_DISABLE_LINUX_PARTUUID", "GRUB_DISABLE_LINUX_RECOVERY",
	"GRUB_DISABLE_LINUX_UUID", "GRUB_DISABLE_OS_PROBER", "GRUB_DISABLE_RECOVERY", "GRUB_DISABLE_SUBMENU",
	"GRUB_DISABLE_UUID", "GRUB_DISTRIBUTOR", "GRUB_DONT_USE_LINUX_UUID", "GRUB_EARLY_INITRD_LINUX_CUSTOM",
	"GRUB_EARLY_INITRD_LINUX_STOCK", "GRUB_ENABLE_BLSCFG", "GRUB_ENABLE_CRYPTODISK", "GRUB_FLAVOUR_ORDER",
	"GRUB_FONT", "GRUB_FORCE_PARTUUID", "GRUB_GFXMODE", "GRUB_GFXPAYLOAD", "GRUB_GFXPAYLOAD_LINUX",
	"GRUB_HIDDEN_TIMEOUT", "GRUB_HIDDEN_TIMEOUT_BUTTON", "GRUB_HIDDEN_TIMEOUT_QUIET", "GRUB_INIT_TUNE",
	"GRUB_OS_PROBER_SKIP_LIST", "GRUB_PRELOAD_MODULES", "GRUB_RECORDFAIL_TIMEOUT", "GRUB_RECOVERY_TITLE",
	"GRUB_SAVEDEFAULT", "GRUB_SERIAL_COMMAND", "GRUB_TERMINAL", "GRUB_TERMINAL_INPUT",
	"GRUB_TERMINAL_OUTPUT", "GRUB_THEME", "GRUB_TIMEOUT", "GRUB_TIMEOUT_BUTTON", "GRUB_TIMEOUT_STYLE",
	"GRUB_TIMEOUT_STYLE_BUTTON", "GRUB_TOP_LEVEL", "GRUB_TOP_LEVEL_XEN", "GRUB_TOP_LEVEL_OS_PROBER",
	"GRUB_VIDEO_BACKEND",
}

// near is the largest edit distance at which a name counts as a slip.
const near = 2

func (i *interp) lint(n syntax.Node, kind LintKind, format string, args ...any) {
	i.d.addLint(i.src.path, i.src.line(int(n.Pos().Offset())), kind, format, args...)
}

func (d *Defaults) addLint(file string, line int, kind LintKind, format string, args ...any) {
	d.Lints = append(d.Lints, Lint{File: file, Line: line, Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// assignmentLints looks at an assignment of a known value over an older one.
func (i *interp) assignmentLints(n syntax.Node, name string, old variable, v value) {
	if !strings.HasPrefix(name, "GRUB_") {
		return
	}
	if !slices.Contains(keys, name) {
		i.charge(nearCost)
		if key := nearest(name); key != "" {
			i.lint(n, UnknownKey, "GRUB reads no %s; did you mean %s?", name, key)
		}
	}
	if !strings.HasPrefix(name, Linux) || old.file == "" || old.reason != "" {
		return
	}
	if old.value.size() > 0 && old.value.String() == v.String() {
		i.lint(n, RepeatedAssignment, "%s is already set to this value at %s:%d", name, old.file, old.line)
		return
	}
	kept := map[string]bool{}
	for _, t := range v.tokens() {
		kept[t.Text] = true
	}
	var dropped []string
	for _, t := range old.value.tokens() {
		if !kept[t.Text] {
			dropped = append(dropped, t.Text)
		}
	}
	if len(dropped) > 0 {
		i.lint(n, DroppedTokens, "%s replaces the value of %s:%d and drops %s", name, old.file, old.line, strings.Join(dropped, " "))
	}
}

// nearest returns the key that a name may be a slip of, or "".
func nearest(name string) string {
	best, at := near+1, ""
	for _, key := range keys {
		if diff := len(key) - len(name); diff > near || diff < -near {
			continue
		}
		if d := levenshtein.Distance(name, key, nil); d < best {
			best, at = d, key
		}
	}
	return at
}

// finalLints looks at the arguments that reach a normal entry.
func (i *interp) finalLints() {
	i.tunedTwice()
	first := map[string]Token{}
	told := map[string]bool{}
	for _, name := range []string{Linux, LinuxDefault} {
		for _, t := range i.d.Tokens(name) {
			if t.Text == "None" {
				i.d.addLint(t.File, t.Line, StrayNone, "%s holds the word None, which looks like a missing value that was printed", name)
			}
			earlier, again := first[t.Arg]
			if !again {
				first[t.Arg] = t
				continue
			}
			if args := cmdline.Parse(t.Arg); told[t.Arg] || len(args) == 1 && cmdline.RuleOf(args[0].Key) == cmdline.Repeat {
				continue
			}
			told[t.Arg] = true
			i.d.addLint(t.File, t.Line, DoubledToken, "%s stands on the kernel's line already, from %s:%d", t.Text, earlier.File, earlier.Line)
		}
		v := i.d.lookup(name)
		if _, lost := firstCommand(v.value.String()); lost != "" && v.reason == "" {
			i.d.addLint(v.file, v.line, Separator, "GRUB ends the linux command of %s before %q; put double quotes that GRUB sees around it: \\\"...\\\"", name, lost)
		}
	}
}
