package grub

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
)

// evaluate reads texts as DefaultsFile and fragments 1.cfg, 2.cfg ...
func evaluate(t *testing.T, lookup Lookup, texts ...string) *Defaults {
	t.Helper()
	d, err := Evaluate(asFiles(texts), lookup)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func asFiles(texts []string) []confdir.File {
	var files []confdir.File
	for n, text := range texts {
		path := DefaultsFile
		if n > 0 {
			path = FragmentDir + "/" + string(rune('0'+n)) + ".cfg"
		}
		files = append(files, confdir.File{Path: path, Text: text})
	}
	return files
}

func lookupIn(files map[string]string) Lookup {
	return func(path string) (string, bool) {
		text, found := files[path]
		return text, found
	}
}

func TestEvaluate(t *testing.T) {
	node := lookupIn(map[string]string{
		"/etc/tuned/bootcmdline": "TUNED_BOOT_CMDLINE=\"isolcpus=1\"\nTUNED_BOOT_INITRD_ADD=\"\"\n",
		"/sys/firmware/efi/":     "",
		"/etc/empty":             "",
		"/etc/loop":              ". /etc/loop",
		"/etc/ends":              "X=sourced; return; X=never\n",
		"/etc/latin1":            "# Gr\xf6\xdfe\nX='\xf6'\n",
	})
	tests := []struct {
		name, text string
		want       string // of X
	}{
		{"unquoted", `X=quiet`, "quiet"},
		{"empty", `X=`, ""},
		{"unset", ``, ""},
		{"double quotes", `X="a  b"`, "a  b"},
		{"single quotes", `X='a "$Y" \ b'`, `a "$Y" \ b`},
		{"joined", `X=a"b c"'d e'\ f`, "ab cd e f"},
		{"escapes", `X="\$a \"b\" \\ \` + "`" + ` \n"`, `$a "b" \ ` + "`" + ` \n`},
		{"continuation", "X=\"a \\\n  b\"", "a   b"},
		{"continuation outside", "X=a\\\nb", "ab"},
		{"newline in quotes", "X=\"a\nb\"", "a\nb"},
		{"comment", "X=a # b\n#X=c", "a"},
		{"hash in a word", "X=a#b\"c\"#d", "a#bc#d"},
		{"self reference", "X=a\nX=\"$X b\"\nX=\"${X} c\"", "a b c"},
		{"append", "X=a\nX+=\" b\"", "a b"},
		{"two on a line", "X=a; X=$X$X", "aa"},
		{"export", "export X=\"a b\" Y\n", "a b"},
		{"last wins", "X=a\nX=b", "b"},
		{"unset command", "X=a\nunset X\n", ""},
		{"default", `X="${Y:-a b}${Z-c}"`, "a bc"},
		{"default of empty", `Y=; X="${Y:-a}${Y-b}"`, "a"},
		{"alternative", `Y=1; X="${Y:+a}${Z+b}"`, "a"},
		{"assign default", `: ${X:=a}`, "a"},
		{"assign default when set", `X=b; : ${X:=a}`, "b"},
		{"if file", `if [ -f /etc/tuned/bootcmdline ]; then . /etc/tuned/bootcmdline; X="$TUNED_BOOT_CMDLINE"; fi`, "isolcpus=1"},
		{"if no file", "X=a\nif [ -f /none ]; then X=b; fi", "a"},
		{"else", `if test -e /none; then X=a; elif [ -d /sys/firmware/efi ]; then X=b; else X=c; fi`, "b"},
		{"negation", `if ! [ -f /none ]; then X=a; fi; [ ! -f /none ] && X=$X"b"`, "ab"},
		{"and or", `[ -z "$Y" ] && X=a || X=b`, "a"},
		{"or", `[ -n "$Y" ] || X=b`, "b"},
		{"string test", `Y=true; if [ "$Y" = "true" ] && [ x$Y != xfalse ]; then X=a; fi`, "a"},
		{"number test", `Y=3; if [ $Y -gt 2 ]; then X=a; fi`, "a"},
		{"size", `[ -s /etc/empty ] || X=a`, "a"},
		{"case", `Y=6.8.0-gcp; case "$Y" in 5.*) X=a;; *-aws|*-gcp) X=b;; *) X=c;; esac`, "b"},
		{"case default", `case $Y in "*") X=a;; *) X=c;; esac`, "c"},
		{"return in a sourced file", ". /etc/ends\nX=\"$X back\"", "sourced back"},
		{"source", "source /etc/ends", "sourced"},
		{"subshell keeps its own", "X=a\n(X=b)\nX=c | X=d", "a"},
		{"function not called", "f() { X=b; }\nX=a", "a"},
		{"harmless commands", "X=a\necho hello\nprintf '%s' \"$X\"\nset -e\ntrue", "a"},
		{"unknown command", "X=a\nudevadm settle\n", "a"},
		{"prefix of a special built-in stays", "X=a :", "a"},
		{"bytes that are not UTF-8", ". /etc/latin1", "\xf6"},
		{"no newline at the end", "X=a", "a"},
		{"background", "X=a\nX=b &\n", "a"},
		{"block", "{ X=a; }", "a"},
		{"failed test", "false || test a = b || [ ] || [ \"\" ] || X=a", "a"},
		{"numbers", "[ 1 -eq 1 ] && [ 1 -ne 2 ] && [ 1 -lt 2 ] && [ 1 -le 1 ] && [ 2 -ge 2 ] && [ 1 != 2 ] && X=a", "a"},
		{"asking for a command", "X=a\nif command -v id; then Y=1; fi", "a"},
		{"conditional command that sets nothing", "X=a\nif id; then echo b > /dev/null; (X=c); X=d | cat; fi", "a"},
		{"unset environment", "unset HOME; X=\"a$HOME\"", "a"},
		{"return within if", ". /etc/ends; X=a; if true; then return; fi; X=b", "a"},
		{"else without match", "case a in b) X=1;; esac; X=${X:-c}", "c"},
		{"loop over something else", "X=a\nfor i in 1 2; do Y=$i; done", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, known, reason := evaluate(t, node, tt.text).Value("X")
			if got != tt.want || !known {
				t.Errorf("X = %q, known %v (%s), want %q", got, known, reason, tt.want)
			}
		})
	}
}

func TestEvaluateUnknown(t *testing.T) {
	node := lookupIn(map[string]string{"/etc/loop": ". /etc/loop"})
	tests := []struct {
		name, text string
		reason     string
	}{
		{"command substitution", "Y=1\nX=\"a $(uname -r)\"", "/etc/default/grub:2: command substitution is not run"},
		{"backquotes", "X=`lsb_release -i -s 2> /dev/null || echo Debian`", "/etc/default/grub:1: command substitution is not run"},
		{"inherited", "Y=`id`\nX=\"$Y a\"", "/etc/default/grub:1: command substitution is not run"},
		{"arithmetic", "X=$((1+1))", "/etc/default/grub:1: this expansion is not evaluated"},
		{"pattern removal", "Y=ab\nX=${Y%b}", "/etc/default/grub:2: this expansion is not evaluated"},
		{"environment", "X=$HOME", "$HOME comes from grub-mkconfig or its environment"},
		{"tilde", "X=~/a", "/etc/default/grub:1: ~ stands for a home directory"},
		{"command condition", "X=a\nif grep -q x /proc/cmdline; then\nX=b\nfi", "/etc/default/grub:2: the outcome of the condition is not known"},
		{"command and", "grep -q x /proc/cmdline && X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"unknown file test", "[ -x /bin/sh ] && X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"split test", "Y='a b'\n[ $Y = a ] || X=b", "/etc/default/grub:2: the outcome of the command is not known"},
		{"case on unknown", "Y=`id`\ncase $Y in a) X=b;; esac", "/etc/default/grub:1: command substitution is not run"},
		{"loop", "for i in 1 2; do\nX=$i; done", "/etc/default/grub:1: loops are not evaluated"},
		{"loop variable", "for X in 1 2; do :; done", "/etc/default/grub:1: loops are not evaluated"},
		{"while", "while read X; do :; done", "/etc/default/grub:1: a loop may never end, and update-grub with it"},
		{"until", "X=a\nuntil false; do :; done", "/etc/default/grub:2: a loop may never end, and update-grub with it"},
		{"while about something else", "X=a\n\nwhile :; do Y=b; done", "/etc/default/grub:3: a loop may never end, and update-grub with it"},
		{"while in a subshell", "X=a\n(while :; do :; done)", "/etc/default/grub:2: a loop may never end, and update-grub with it"},
		{"while in a substitution", "X=a\nY=$(while :; do :; done)", "/etc/default/grub:2: a loop may never end, and update-grub with it"},
		{"while on a condition", "X=a\nif false; then\nwhile :; do :; done; fi", "/etc/default/grub:3: a loop may never end, and update-grub with it"},
		{"while in a function", "f() { while :; do :; done; }\nX=a", "/etc/default/grub:1: a loop may never end, and update-grub with it"},
		{"function called", "f() { X=b; }\nf", "/etc/default/grub:2: functions (f) are not evaluated"},
		{"read", "read X < /etc/x", "/etc/default/grub:1: read is not run"},
		{"eval", "X=a\neval \"$Y\"", "/etc/default/grub:2: eval is not run"},
		{"command by variable", "X=a\n\"$Y\" b", ""},
		{"value without quotes", "X=a b", `/etc/default/grub:1: without quotes the shell runs "b" as a command`},
		{"source of a missing file", ". /none\nX=a", "/etc/default/grub:1: sources /none, which is not there, and the shell stops"},
		{"source of a relative path", "X=a\n. ./b", `/etc/default/grub:2: sources "./b", which is not an absolute path`},
		{"source of itself", ". /etc/loop\nX=a", "/etc/loop:1: files source each other more than 16 deep"},
		{"exit", "X=a\nexit 0", "/etc/default/grub:2: exit ends grub-mkconfig"},
		{"exit on a condition", "id || exit 1\nX=a", "/etc/default/grub:1: the outcome of the command is not known"},
		{"return on a condition", "id || return\nX=a", "/etc/default/grub:1: the outcome of the command is not known"},
		{"conditional export", "if id; then export X=b; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional else", "if id; then Y=1; else X=b; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional unset", "X=a; if ! id; then unset X; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional source", "X=a; if id; then . /x; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional append", "X=a; if id; then X+=b; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional default", "if id; then : ${X:=b}; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional function", "f() { X=b; f; }; if id; then f; fi", "/etc/default/grub:1: the outcome of the condition is not known"},
		{"conditional exec", "X=a; id && { return; exec id; }", "/etc/default/grub:1: the outcome of the command is not known"},
		{"function defined on a condition", "if id; then f() { X=b; }; fi\nf", "/etc/default/grub:2: functions (f) are not evaluated"},
		{"unset in doubt", "X=a; id || return\nunset X", "/etc/default/grub:1: the outcome of the command is not known"},
		{"unset of what is not known", "X=a; unset `id`", "/etc/default/grub:1: command substitution is not run"},
		{"malformed test", "[ a || X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"compound test", "[ a = a -a b = b ] && X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"word in a number test", "[ a -eq 1 ] && X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"relative file test", "[ -f a ] && X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"pattern on unknown", "case a in `id`) X=b;; esac", "/etc/default/grub:1: command substitution is not run"},
		{"source without a file", "X=a; .", "/etc/default/grub:1: . without a file"},
		{"source of an unknown file", "X=a; . `id`", ""},
		{"subshell condition", "(true) && X=b", "/etc/default/grub:1: the outcome of the command is not known"},
		{"too long", "X=" + strings.Repeat("a", 40<<10) + "\nX=$X$X", "/etc/default/grub:2: the value is longer than 65536 bytes"},
		{"too much", "Y=" + strings.Repeat("a", 60<<10) + "\n" + strings.Repeat("X=$Y\n", 300), "the defaults expand to more than 16777216 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, known, reason := evaluate(t, node, tt.text).Value("X")
			if known || tt.reason != "" && reason != tt.reason {
				t.Errorf("X = %q, known %v, reason %q, want %q", got, known, reason, tt.reason)
			}
		})
	}
}

// An unknown variable does not spoil the others, and assigning anew mends it.
func TestEvaluateUnknownIsLocal(t *testing.T) {
	d := evaluate(t, nil, "GRUB_DISTRIBUTOR=`lsb_release -i -s`\nX=$(id)\nX=a\nY=b\n")
	for name, want := range map[string]string{"X": "a", "Y": "b"} {
		if got, known, reason := d.Value(name); got != want || !known {
			t.Errorf("%s = %q, %v, %s", name, got, known, reason)
		}
	}
	d = evaluate(t, nil, "X=a\nY=b\neval something\nY=c\n")
	if got, known, _ := d.Value("Y"); got != "c" || !known {
		t.Errorf("Y = %q, %v", got, known)
	}
	if _, known, reason := d.Value("Z"); known || reason == "" {
		t.Errorf("an eval may set any variable: known %v, %q", known, reason)
	}
}

func TestEvaluateOrder(t *testing.T) {
	d, err := Evaluate([]confdir.File{
		{Path: FragmentDir + "/zz-busbar.cfg", Text: `X="$X z"`},
		{Path: FragmentDir + "/50-cloudimg-settings.cfg", Text: `X="$X cloud"`},
		{Path: FragmentDir + "/99.cfg.dpkg-old", Text: `X=old`},
		{Path: FragmentDir + "/.hidden.cfg", Text: `X=hidden`},
		{Path: "/etc/other", Text: `X=other`},
		{Path: DefaultsFile, Text: `X=first`},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := d.Value("X"); got != "first cloud z" {
		t.Errorf("X = %q", got)
	}
	want := []Assignment{
		{File: DefaultsFile, Line: 1, Name: "X", Value: "first"},
		{File: FragmentDir + "/50-cloudimg-settings.cfg", Line: 1, Name: "X", Value: "first cloud"},
		{File: FragmentDir + "/zz-busbar.cfg", Line: 1, Name: "X", Value: "first cloud z"},
	}
	if diff := cmp.Diff(want, d.Assignments); diff != "" {
		t.Error(diff)
	}
}

func TestEvaluateUnreadFile(t *testing.T) {
	d, err := Evaluate([]confdir.File{
		{Path: DefaultsFile, Text: "X=a\nY=b\n"},
		{Path: FragmentDir + "/1.cfg", Reason: "permission denied"},
		{Path: FragmentDir + "/2.cfg", Text: "Y=c\n"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, known, reason := d.Value("X"); known || reason != "/etc/default/grub.d/1.cfg: permission denied" {
		t.Errorf("X: known %v, %q", known, reason)
	}
	if got, known, _ := d.Value("Y"); got != "c" || !known {
		t.Errorf("Y = %q, %v", got, known)
	}
}

// A function's body lies in the file that defines it, not in the one that calls.
func TestEvaluateFunctionOfAnotherFile(t *testing.T) {
	d := evaluate(t, nil, strings.Repeat("#\n", 100)+"f() { X+=a; export Y=b; }\nX=a; Z=c\n", "f\n")
	for name, want := range map[string]bool{"X": false, "Y": false, "Z": true} {
		if _, known, reason := d.Value(name); known != want {
			t.Errorf("%s: known %v, %s", name, known, reason)
		}
	}
}

func TestEvaluateSourced(t *testing.T) {
	d := evaluate(t, nil, "[ -f /a ] && . /a\nif [ -e /b ] || [ -d /c ]; then . /d; fi\n[ -f /a ]\n")
	if diff := cmp.Diff([]string{"/a", "/b", "/b/", "/c/"}, d.Sourced); diff != "" {
		t.Error(diff)
	}
}

func TestEvaluateSyntaxError(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
	}{
		{"open quote", "GRUB_DEFAULT=0\nX=\"a b\nY=c\n", 2},
		{"if without fi", "\nif [ -f /a ]; then\nX=1\n", 2},
		{"array", "X=1\nY=(a b)\n", 2},
		{"function without a name", "X=1\n() { X=2; }\n", 2},
		{"CR LF", "X=1\r\n", 1},
		{"NUL", "X=1\nY=\x00\n", 2},
		{"byte order mark", "\ufeffX=1\n", 1},
		{"hash after a quote in case", "X=1\ncase a in\na) X=\"a\"#b\n;;\nesac\n", 3},
		{"huge", strings.Repeat("X=1\n", 100<<10), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Evaluate(asFiles([]string{"Z=1", tt.text}), nil)
			var syntaxErr *SyntaxError
			if !errors.As(err, &syntaxErr) || syntaxErr.File != FragmentDir+"/1.cfg" || syntaxErr.Line != tt.line {
				t.Errorf("got %v, want an error at line %d", err, tt.line)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	d := evaluate(t, nil,
		"GRUB_CMDLINE_LINUX=\"a b\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n  splash\"\n",
		"# comment\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX c\"'d e'\n",
		"GRUB_CMDLINE_LINUX=\"x $GRUB_CMDLINE_LINUX pci=config_acs=\\\"1@a;0@b\\\" dyndbg=\\\"file x +p\\\" \\$tuned_params\"\n")
	tests := []struct {
		name string
		want []Token
	}{
		{Linux, []Token{
			{"x", "x", FragmentDir + "/2.cfg", 1},
			{"a", "a", DefaultsFile, 1},
			{"b", "b", DefaultsFile, 1},
			{"cd", "cd", FragmentDir + "/1.cfg", 2},
			{"e", "e", FragmentDir + "/1.cfg", 2},
			{`pci=config_acs="1@a;0@b"`, "pci=config_acs=1@a;0@b", FragmentDir + "/2.cfg", 1},
			{`dyndbg="file x +p"`, `"dyndbg=file x +p"`, FragmentDir + "/2.cfg", 1},
			{"$tuned_params", "$tuned_params", FragmentDir + "/2.cfg", 1},
		}},
		{LinuxDefault, []Token{
			{"quiet", "quiet", DefaultsFile, 2},
			{"splash", "splash", DefaultsFile, 3},
		}},
		{"NONE", nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, d.Tokens(tt.name)); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
	if got := evaluate(t, nil, "X=$(id)").Tokens("X"); got != nil {
		t.Errorf("tokens of an unknown value: %v", got)
	}
}

func TestCommandLine(t *testing.T) {
	d := evaluate(t, nil, "GRUB_CMDLINE_LINUX=\"iommu=pt pci=\\\"config_acs=1@a;0@b\\\"\"\nGRUB_CMDLINE_LINUX_DEFAULT=quiet\n")
	for recovery, want := range map[bool]string{
		false: "iommu=pt pci=config_acs=1@a;0@b quiet",
		true:  "single iommu=pt pci=config_acs=1@a;0@b",
	} {
		if got, known, reason := CommandLine(d, recovery); got != want || !known {
			t.Errorf("recovery %v: %q, %v, %s", recovery, got, known, reason)
		}
	}
	d = evaluate(t, nil, "GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX_DEFAULT=`b`\n")
	want := "GRUB_CMDLINE_LINUX_DEFAULT is not known: /etc/default/grub:2: command substitution is not run"
	if _, known, reason := CommandLine(d, false); known || reason != want {
		t.Errorf("known %v, reason %q", known, reason)
	}
	if got, known, _ := CommandLine(d, true); got != "single a" || !known {
		t.Errorf("recovery: %q, %v", got, known)
	}
}

func TestLints(t *testing.T) {
	tests := []struct {
		name  string
		texts []string
		want  []Lint
	}{
		{"clean", []string{"GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"a b\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX c\"\n"}, nil},
		{"slip in a name", []string{"GRUB_CMDLINE_LINE=\"iommu=pt\"\nGRUB_MY_OWN_THING=1\n"}, []Lint{
			{DefaultsFile, 1, UnknownKey, "GRUB reads no GRUB_CMDLINE_LINE; did you mean GRUB_CMDLINE_LINUX?"},
		}},
		{"repeated", []string{"GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX=a\n"}, []Lint{
			{DefaultsFile, 2, RepeatedAssignment, "GRUB_CMDLINE_LINUX is already set to this value at /etc/default/grub:1"},
		}},
		{"overridden", []string{"GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n", "\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"}, []Lint{
			{FragmentDir + "/1.cfg", 2, DroppedTokens, "GRUB_CMDLINE_LINUX_DEFAULT replaces the value of /etc/default/grub:1 and drops iommu=pt"},
		}},
		{"None", []string{"GRUB_CMDLINE_LINUX=\"None a\"\n"}, []Lint{
			{DefaultsFile, 1, StrayNone, "GRUB_CMDLINE_LINUX holds the word None, which looks like a missing value that was printed"},
		}},
		{"doubled", []string{"GRUB_CMDLINE_LINUX=\"a console=tty0 a\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"console=tty0 b a\"\n"}, []Lint{
			{DefaultsFile, 1, DoubledToken, "a stands on the kernel's line already, from /etc/default/grub:1"},
		}},
		{"semicolon", []string{"GRUB_CMDLINE_LINUX=\"pci=config_acs=1@a;0@b c\"\n"}, []Lint{
			{DefaultsFile, 1, Separator, `GRUB ends the linux command of GRUB_CMDLINE_LINUX before ";0@b c"; put double quotes that GRUB sees around it: \"...\"`},
		}},
		{"no quotes", []string{"GRUB_CMDLINE_LINUX=quiet splash\n"}, []Lint{
			{DefaultsFile, 1, CommandAfterValue, `GRUB_CMDLINE_LINUX is not set: without quotes the shell runs "splash" as a command`},
		}},
		{"append", []string{"GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX+=\" b\"\n"}, []Lint{
			{DefaultsFile, 2, Bashism, `GRUB_CMDLINE_LINUX+= is not known to sh, the shell of grub-mkconfig on Debian: it looks for a command of that name and stops; write GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX ..."`},
		}},
		{"tuned, by placeholder and by its file", []string{"GRUB_CMDLINE_LINUX=\"quiet \\${tuned_params}\"\n", "\n. /etc/tuned/bootcmdline\nGRUB_CMDLINE_LINUX_DEFAULT=\"$TUNED_BOOT_CMDLINE\"\n"}, []Lint{
			{DefaultsFile, 1, TunedTwice, "${tuned_params} puts tuned's arguments on the kernel's line, and $TUNED_BOOT_CMDLINE of /etc/tuned/bootcmdline:1 puts them there again"},
		}},
		{"tuned, by placeholder", []string{"GRUB_CMDLINE_LINUX=\"quiet \\$tuned_params\"\n", ". /etc/tuned/bootcmdline\n"}, nil},
		{"tuned, by its file", []string{"", ". /etc/tuned/bootcmdline\nGRUB_CMDLINE_LINUX=\"$TUNED_BOOT_CMDLINE\"\n"}, nil},
	}
	node := lookupIn(map[string]string{"/etc/tuned/bootcmdline": "TUNED_BOOT_CMDLINE=\"numa_balancing=disable\"\n"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, evaluate(t, node, tt.texts...).Lints); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKernelLine(t *testing.T) {
	tests := [][3]string{
		{"a  b\tc", "a b c", ""},
		{`a="x y" 'b c'`, `"a=x y" "b c"`, ""},
		{`pci=config_acs="1@a;0@b" c`, "pci=config_acs=1@a;0@b c", ""},
		{"a;b c", "a", ";b c"},
		{"a\nb", "a", "b"},
		{`a "b`, "a", `"b`},
		{`a\;b \$x ${y}z`, "a;b $x ${y}z", ""},
		{`a=\"b\" c='\x20d'`, `a=\"b\" c=\x20d`, ""},
		{"a \\\n b #c", "a b", ""},
		{"a{b", "a", "{b"},
		{`$"a\"b;c" "d\` + "\n" + `e\x" ${f`, `a\"b;c de\\x`, "${f"},
	}
	for _, tt := range tests {
		if line, lost := KernelLine(tt[0]); line != tt[1] || lost != tt[2] {
			t.Errorf("KernelLine(%q) = %q, %q, want %q, %q", tt[0], line, lost, tt[1], tt[2])
		}
	}
}

// cases reads a tree of BUSBAR_CASES.
func caseFiles(t *testing.T, root string) []confdir.File {
	t.Helper()
	var files []confdir.File
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, confdir.File{Path: strings.TrimPrefix(path, root), Text: string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCases(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set to the directory of cases")
	}
	text, err := os.ReadFile(filepath.Join(dir, "grub-effective.expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]struct {
		Linux   string `json:"GRUB_CMDLINE_LINUX"`
		Default string `json:"GRUB_CMDLINE_LINUX_DEFAULT"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]LintKind{ // a kind that must be found
		"grub-cloudimg-override":         {DroppedTokens},
		"grub-hetzner-override":          {DroppedTokens},
		"grub-two-different-lines":       {DroppedTokens},
		"grub-duplicate-lines":           {RepeatedAssignment, DoubledToken},
		"grub-default-copied-from-linux": {DoubledToken},
		"grub-none-token":                {StrayNone},
		"grub-wrong-key":                 {UnknownKey},
	}
	for name, want := range expected {
		t.Run(name, func(t *testing.T) {
			d, err := Evaluate(caseFiles(t, filepath.Join(dir, name)), nil)
			if want.Error != "" {
				if err == nil || !strings.Contains(err.Error(), "/etc/default/grub:2:") {
					t.Errorf("got %v, want an error at line 2", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{Linux: want.Linux, LinuxDefault: want.Default} {
				if got, known, reason := d.Value(name); got != want || !known {
					t.Errorf("%s = %q, %v (%s), want %q", name, got, known, reason, want)
				}
			}
			for _, kind := range kinds[name] {
				if !slices.ContainsFunc(d.Lints, func(l Lint) bool { return l.Kind == kind }) {
					t.Errorf("no lint %s: %v", kind, d.Lints)
				}
			}
			if kinds[name] == nil && !slices.Contains([]string{"grub-azure-cloudimg"}, name) && len(d.Lints) > 0 {
				t.Errorf("lints on a clean case: %v", d.Lints)
			}
		})
	}
}

// Where the sourced file is there, both ways of tuned fire.
func TestCaseTunedFound(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set to the directory of cases")
	}
	files := caseFiles(t, filepath.Join(dir, "grub-tuned-double-path"))
	d, err := Evaluate(files, func(path string) (string, bool) {
		n := slices.IndexFunc(files, func(f confdir.File) bool { return f.Path == path })
		if n < 0 {
			return "", false
		}
		return files[n].Text, true
	})
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := CommandLine(d, false)
	if want := "quiet $tuned_params iommu.passthrough=1 numa_balancing=disable"; line != want {
		t.Errorf("got %q, want %q", line, want)
	}
	tokens := d.Tokens(LinuxDefault)
	if last := tokens[len(tokens)-1]; last.File != "/etc/tuned/bootcmdline" || last.Line != 1 {
		t.Errorf("origin of the last token: %+v", last)
	}
	if ok, _ := cmdline.Satisfied(cmdline.Parse(line), "iommu.passthrough", "1"); !ok {
		t.Errorf("%q does not satisfy iommu.passthrough=1", line)
	}
}

func FuzzEvaluate(f *testing.F) {
	for _, s := range []string{
		"GRUB_CMDLINE_LINUX=\"a b\"\n", "X='a' Y=$X\nX+=c", "if [ -f /a ]; then . /a; fi", "case $X in a*) Y=1;; esac",
		"X=`id`", "X=\"a\\\n b", "X=a b", "f() { X=1; }\nf", "\xff\xfe=1", "X=\xc3\xa9", "X=1\r\n", "\ufeffX=1", "X=${Y:-${Z:=a}}",
		"export X=\"a\" Y", "()0", "for i in a; do X=$i; done", "X=$((1))", ". /a; . /b", "while :; do return; done", "X=\"$X$X$X\"",
		"GRUB_CMDLINE_LINUX=\"pci=\\\"a;b\\\" 'x y' \\$z\"", "((((", "$($($(", "X=~", "<<A\nX\nA\n", "A=$'x'", "a\\\nb=c", "case x in [!a]*|\"*\") X=1;; esac",
	} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, fragment string) {
		lookup := func(string) (string, bool) { return fragment, true }
		d, err := Evaluate(asFiles([]string{text, fragment}), lookup)
		if err != nil {
			return
		}
		for _, name := range []string{Linux, LinuxDefault, "X"} {
			value, known, reason := d.Value(name)
			if known != (reason == "") {
				t.Errorf("%s: known %v, reason %q", name, known, reason)
			}
			words, _ := firstCommand(value)
			tokens := d.Tokens(name)
			if len(tokens) != len(words) {
				t.Errorf("%s: %d tokens of %d words", name, len(tokens), len(words))
			}
			for _, token := range tokens {
				if token.File == "" || token.Line < 1 {
					t.Errorf("token without origin: %+v", token)
				}
			}
		}
		CommandLine(d, false)
		for _, token := range d.Tokens(LinuxDefault) {
			if cut := TakeOver(text, token.Text, []int{token.Line}); len(cut) > len(text) {
				t.Errorf("cutting made %q longer: %q", text, cut)
			}
		}
	})
}
