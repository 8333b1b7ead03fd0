package grub

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
)

func TestFragment(t *testing.T) {
	tests := []struct {
		args []string
		want string // after the header
	}{
		{nil, ""},
		{[]string{"iommu=pt", "pcie_aspm=off"}, `GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt pcie_aspm=off"` + "\n"},
		{[]string{"pci=config_acs=1@a;0@b"}, `GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=\"config_acs=1@a;0@b\""` + "\n"},
		{[]string{`dyndbg="file x +p"`}, `GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT dyndbg=\"file x +p\""` + "\n"},
		{[]string{"a=$b`c\\"}, `GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT a=\"\\\$b` + "\\`" + `c\\\\\""` + "\n"},
	}
	for _, tt := range tests {
		got := Fragment(tt.args)
		if want := tt.want; want != "" && got != fragmentHeader+want || want == "" && got != "" {
			t.Errorf("Fragment(%q) = %s", tt.args, got)
		}
	}
}

// Whatever the arguments, shell and GRUB hand the kernel exactly them, after
// what stood there before.
func TestFragmentProperty(t *testing.T) {
	key := rapid.StringMatching(`[a-z][a-z_.]{0,8}`)
	plainArg := rapid.Custom(func(t *rapid.T) string {
		return key.Draw(t, "key") + "=" + rapid.StringMatching("[a-z0-9;$`&|<>{}()#*?~!^%@,:/ =.-]{0,12}").Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		var args []string
		for _, raw := range rapid.SliceOfN(rapid.OneOf(plainArg, key), 1, 6).Draw(t, "args") {
			if k, v, ok := strings.Cut(raw, "="); ok {
				raw = cmdline.Quote(k, v)
			}
			args = append(args, raw)
		}
		fragment := Fragment(args)
		d, err := Evaluate([]confdir.File{
			{Path: DefaultsFile, Text: "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"},
			{Path: FragmentFile, Text: fragment},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		line, known, reason := CommandLine(d, false)
		if !known {
			t.Fatal(reason)
		}
		if diff := cmp.Diff(keysAndValues("quiet "+strings.Join(args, " ")), keysAndValues(line)); diff != "" {
			t.Fatalf("%s\n%s", fragment, diff)
		}
		var fromTokens []string
		for _, token := range d.Tokens(LinuxDefault)[1:] {
			fromTokens = append(fromTokens, token.Arg)
			if token.File != FragmentFile || token.Line != 2 {
				t.Fatalf("origin of %+v", token)
			}
		}
		if diff := cmp.Diff(keysAndValues(strings.Join(args, " ")), keysAndValues(strings.Join(fromTokens, " "))); diff != "" {
			t.Fatal(diff)
		}
		back, err := FragmentArgs(fragment)
		if diff := cmp.Diff(args, back); diff != "" || err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}

func keysAndValues(line string) []cmdline.Arg {
	args := cmdline.Parse(line)
	for n := range args {
		args[n].Text = ""
	}
	return args
}

// Quotes and backslashes survive the shell; what GRUB does to them is GRUB's.
func TestFragmentPropertyShell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.StringMatching("[a=\"'\\\\$` ;]{1,10}"), 1, 4).Draw(t, "args")
		d, err := Evaluate([]confdir.File{{Path: FragmentFile, Text: Fragment(args)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, arg := range args {
			words = append(words, grubWord(arg))
		}
		if got, known, reason := d.Value(LinuxDefault); got != " "+strings.Join(words, " ") || !known {
			t.Fatalf("%q, %s, want %q", got, reason, words)
		}
		if tokens := d.Tokens(LinuxDefault); len(tokens) != len(args) {
			t.Fatalf("%d tokens of %d arguments: %v", len(tokens), len(args), tokens)
		}
	})
}

func TestFragmentArgsRefuses(t *testing.T) {
	for _, text := range []string{
		LinuxDefault + `="a`,
		LinuxDefault + "=`a`",
		LinuxDefault + `="a;b"`,
	} {
		if args, err := FragmentArgs(text); err == nil {
			t.Errorf("%s: %q", text, args)
		}
	}
}

func TestTakeOver(t *testing.T) {
	tests := []struct {
		name, text, token string
		lines             []int
		want              string
	}{
		{"in the middle", "# x\nX=\"a b c\" # iommu=pt b\nY=\"a b\"\n", "b", []int{2}, "# x\nX=\"a c\" # iommu=pt b\nY=\"a b\"\n"},
		{"first", `X="b c"`, "b", []int{1}, `X="c"`},
		{"last", `X='a b'`, "b", []int{1}, `X='a'`},
		{"only", `X="b"`, "b", []int{1}, `X=""`},
		{"unquoted", `X=b`, "b", []int{1}, `X=`},
		{"every occurrence", `X="b a b b"`, "b", []int{1}, `X="a"`},
		{"neighbours", `X="b b a"`, "b", []int{1}, `X=" a"`},
		{"not within a word", `X="ab b=1 -b b"`, "b", []int{1}, `X="ab b=1 -b"`},
		{"not glued to an expansion", `X="$Y"b" b"`, "b", []int{1}, `X="$Y"b""`},
		{"after an expansion", `X="$X b"`, "b", []int{1}, `X="$X"`},
		{"continuation", "X=\"a \\\n  b \\\n  c\"\n", "b", []int{2}, "X=\"a \\\n \\\n  c\"\n"},
		{"escaped", `X="a pci=config_acs=\"1@a;0@b\" c"`, `pci=config_acs="1@a;0@b"`, []int{1}, `X="a c"`},
		{"as the kernel reads it", `X="a pci=config_acs=\"1@a;0@b\" c"`, `pci=config_acs=1@a;0@b`, []int{1}, `X="a c"`},
		{"escaped blank", `X=a\ b\ c`, "b", []int{1}, `X=a\ c`},
		{"quotes within the word", `X="a "'b'"c d"`, "bc", []int{1}, `X="a "''"d"`},
		{"export", `export X="a b"`, "b", []int{1}, `export X="a"`},
		{"append", `X+=" b"`, "b", []int{1}, `X+=""`},
		{"in a condition", "if [ -f /a ]; then\n\tX=\"$X b\"\nfi\n", "b", []int{2}, "if [ -f /a ]; then\n\tX=\"$X\"\nfi\n"},
		{"tabs", "X=\"a\t b\"", "b", []int{1}, "X=\"a\""},
		{"bytes that are not UTF-8", "# \xf6\nX=\"\xf6 b\"", "b", []int{2}, "# \xf6\nX=\"\xf6\""},
		{"other line", "X=\"a b\"\nX=\"a b\"\n", "b", []int{2}, "X=\"a b\"\nX=\"a\"\n"},
		{"absent", `X="a b"`, "c", []int{1}, `X="a b"`},
		{"no lines", `X="a b"`, "b", nil, `X="a b"`},
		{"syntax error", `X="a b`, "b", []int{1}, `X="a b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := TakeOver(tt.text, tt.token, tt.lines); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// Cutting a token leaves every other token of the value, and nothing of it.
func TestTakeOverProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "X=" + rapid.StringMatching(`("([ab]| |\\\n|\\"|')*"|'[ab "]*'|[ab]|\\ ){0,5}`).Draw(t, "value") + "\n"
		read := func(text string) []Token {
			d, err := Evaluate([]confdir.File{{Path: DefaultsFile, Text: text}}, nil)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return d.Tokens("X")
		}
		before := read(text)
		if len(before) == 0 {
			return
		}
		token := rapid.SampledFrom(before).Draw(t, "token")
		var want, got []string
		for _, b := range before {
			if b.Text != token.Text && b.Arg != token.Text {
				want = append(want, b.Text)
			}
		}
		cut := TakeOver(text, token.Text, []int{token.Line})
		for _, a := range read(cut) {
			got = append(got, a.Text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q without %q is %q\n%s", text, token.Text, cut, diff)
		}
	})
}
