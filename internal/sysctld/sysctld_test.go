package sysctld

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/internal/confdir"
)

const conf = "/etc/sysctl.d/a.conf"

func TestPathAndNormalize(t *testing.T) {
	tests := []struct{ name, path, normal string }{
		{"kernel.numa_balancing", "kernel/numa_balancing", "kernel.numa_balancing"},
		{"kernel/numa_balancing", "kernel/numa_balancing", "kernel.numa_balancing"},
		{"/kernel/numa_balancing", "kernel/numa_balancing", "kernel.numa_balancing"},
		{"net/ipv4/conf/enp3s0.200/forwarding", "net/ipv4/conf/enp3s0.200/forwarding", "net.ipv4.conf.enp3s0/200.forwarding"},
		{"net.ipv4.conf.enp3s0/200.forwarding", "net/ipv4/conf/enp3s0.200/forwarding", "net.ipv4.conf.enp3s0/200.forwarding"},
		{"net.ipv4.conf.*.rp_filter", "net/ipv4/conf/*/rp_filter", "net.ipv4.conf.*.rp_filter"},
		{"kernel//x/./y/", "kernel/x/y", "kernel.x.y"},
		{"/a.b/c", "a.b/c", "/a.b/c"},
		{"single", "single", "single"},
	}
	for _, tt := range tests {
		if got, err := Path(tt.name); got != tt.path || err != nil {
			t.Errorf("Path(%q) = %q, %v", tt.name, got, err)
		}
		if got, err := Normalize(tt.name); got != tt.normal || err != nil {
			t.Errorf("Normalize(%q) = %q, %v", tt.name, got, err)
		}
		if got := RenderKey(tt.name); got != tt.normal {
			t.Errorf("RenderKey(%q) = %q", tt.name, got)
		}
	}
	for _, bad := range []string{"", "/", ".", "a/../b", "kernel..x", "a.//b", "../x", "a b", "a\x00b", "a\tb", "\ufeffkernel.x", "a\xff"} {
		if got, err := Path(bad); err == nil {
			t.Errorf("Path(%q) = %q", bad, got)
		}
	}
}

func TestParse(t *testing.T) {
	got, problems := Parse([]confdir.File{
		{Path: conf, Text: "# c\n; c\n\n  kernel.numa_balancing=0 \r\n-net/ipv4/conf/eth0.1/x = 1\n-net.ipv4.conf.lo.rp_filter\n" +
			"kernel.core_pattern = |/bin/x %e # kept\nvm.empty =\n" +
			"nonsense\n= 1\na..b = 1\nk\x00=1\n"},
		{Path: "/etc/sysctl.d/b.conf", Reason: "permission denied"},
	})
	if diff := cmp.Diff([]Setting{
		{Name: "kernel.numa_balancing", Value: "0", File: conf, Line: 4},
		{Name: "net.ipv4.conf.eth0/1.x", Value: "1", IgnoreErrors: true, File: conf, Line: 5},
		{Name: "net.ipv4.conf.lo.rp_filter", Exclude: true, File: conf, Line: 6},
		{Name: "kernel.core_pattern", Value: "|/bin/x %e # kept", File: conf, Line: 7},
		{Name: "vm.empty", File: conf, Line: 8},
	}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Problem{
		{File: conf, Line: 9, Text: `not an assignment: "nonsense"`},
		{File: conf, Line: 10, Text: `empty sysctl name`},
		{File: conf, Line: 11, Text: `sysctl name "a..b" holds ".."`},
		{File: conf, Line: 12, Text: `line with a NUL byte: "k\x00=1"`},
		{File: "/etc/sysctl.d/b.conf", Text: "content unknown: permission denied", Unread: true},
	}, problems); diff != "" {
		t.Error(diff)
	}
}

func TestOrder(t *testing.T) {
	main := confdir.File{Path: "/etc/sysctl.conf", Text: "kernel.numa_balancing = 1\n"}
	link := confdir.File{Path: "/etc/sysctl.d/99-sysctl.conf", Text: main.Text}
	vendor := confdir.File{Path: "/usr/lib/sysctl.d/50-default.conf", Text: "a.b = 1"}
	readme := confdir.File{Path: "/etc/sysctl.d/README.sysctl"}
	comments := confdir.File{Path: "/etc/sysctl.conf", Text: "# nothing set\n"}
	tests := []struct {
		name        string
		files, want []confdir.File
		notes       int
	}{
		{"linked", []confdir.File{main, link, vendor, readme}, []confdir.File{vendor, link}, 0},
		{"not linked", []confdir.File{main, vendor}, []confdir.File{vendor}, 1},
		{"without settings", []confdir.File{comments, vendor}, []confdir.File{vendor}, 0},
	}
	for _, tt := range tests {
		got, notes := Order(tt.files)
		if diff := cmp.Diff(tt.want, got); diff != "" || len(notes) != tt.notes {
			t.Errorf("%s: %s\n%v", tt.name, diff, notes)
		}
	}
}

func TestEffective(t *testing.T) {
	const key = "net.ipv4.conf.eth0.rp_filter"
	tests := []struct {
		name, text string
		line       int // of the winner; 0: none, negative: of the line that excludes
		over       []int
	}{
		{"absent", "a.b = 1\n", 0, nil},
		{"last wins", key + " = 1\nnet/ipv4/conf/eth0/rp_filter = 2\n", 2, []int{1}},
		{"own line beats later pattern", key + " = 1\nnet.ipv4.conf.*.rp_filter = 2\n", 1, []int{2}},
		{"last pattern wins", "net.ipv4.conf.*.rp_filter = 1\nnet.ipv4.conf.eth*.rp_filter = 2\n", 2, []int{1}},
		{"pattern given again moves to the end", "net.ipv4.conf.*.rp_filter = 1\nnet.ipv4.conf.eth?.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 3\n", 3, []int{1, 2}},
		{"pattern repeated stays", "net.ipv4.conf.*.rp_filter = 1\nnet.ipv4.conf.eth?.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 1\n", 2, []int{1, 3}},
		{"pattern stays in its component", "net.ipv4.*.rp_filter = 1\nnet.ipv4.conf.[!e]*.rp_filter = 1\n", 0, nil},
		{"excluded", "net.ipv4.conf.*.rp_filter = 1\n-" + key + "\n", -2, []int{1}},
		{"excluded, then set", "-" + key + "\n" + key + " = 1\n", 2, []int{1}},
		{"set, then excluded", key + " = 1\n-" + key + "\n", -2, []int{1}},
		{"pattern taken back", "net.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.*.rp_filter\n", 0, []int{1, 2}},
	}
	for _, tt := range tests {
		settings, problems := Parse([]confdir.File{{Path: conf, Text: tt.text}})
		if problems != nil {
			t.Fatal(problems)
		}
		got, over, found := Effective(settings, "net/ipv4/conf/eth0/rp_filter")
		var lines []int
		for _, s := range over {
			lines = append(lines, s.Line)
		}
		if got.Line != max(tt.line, -tt.line) || found != (tt.line > 0) || !slices.Equal(lines, tt.over) {
			t.Errorf("%s: line %d over %v, found %t", tt.name, got.Line, lines, found)
		}
	}
	if _, _, found := Effective([]Setting{{Name: "a.b"}}, "a..b"); found {
		t.Error("found an invalid name")
	}
}

// A later file of the image wins over the one that was written first.
func TestEffectiveAcrossFiles(t *testing.T) {
	files, _ := Order([]confdir.File{
		{Path: "/etc/sysctl.d/60-gpu.conf", Text: "kernel.numa_balancing = 0\n"},
		{Path: "/usr/lib/sysctl.d/95-image.conf", Text: "\n-kernel/numa_balancing = 1\n"},
	})
	settings, _ := Parse(files)
	got, over, found := Effective(settings, "kernel.numa_balancing")
	want := Setting{Name: "kernel.numa_balancing", Value: "1", IgnoreErrors: true, File: "/usr/lib/sysctl.d/95-image.conf", Line: 2}
	if diff := cmp.Diff(want, got); diff != "" || !found || len(over) != 1 || over[0].File != "/etc/sysctl.d/60-gpu.conf" {
		t.Error(diff, over, found)
	}
	files, _ = Order(append(files, confdir.File{Path: "/etc/sysctl.d/zz-busbar.conf", Text: Render([]Setting{{Name: "kernel.numa_balancing", Value: "0"}})}))
	settings, _ = Parse(files)
	if got, over, _ := Effective(settings, "kernel.numa_balancing"); got.Value != "0" || len(over) != 2 {
		t.Error(got, over)
	}
}

func TestNumberAndEqualValue(t *testing.T) {
	for value, want := range map[string]int64{"0": 0, "2": 2, "-1": -1, "0x10": 16, "010": 8} {
		if got, ok := Number(value); got != want || !ok {
			t.Errorf("Number(%q) = %d, %t", value, got, ok)
		}
	}
	for _, bad := range []string{"", "-", "x", "1 2", "0b1", "0o7", "1_0", "0x1_0", "+1", "--1"} {
		if got, ok := Number(bad); ok {
			t.Errorf("Number(%q) = %d", bad, got)
		}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"4096 87380 6291456", "4096\t87380\t6291456", true},
		{" 0\n", "0", true},
		{"0x10", "16", true},
		{"0", "", false},
		{"1 2", "12", false},
		{"bbr", "cubic", false},
	} {
		if got := EqualValue(tt.a, tt.b); got != tt.want {
			t.Errorf("EqualValue(%q, %q) = %t", tt.a, tt.b, got)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, s := range []Setting{
		{Name: ""}, {Name: "a..b"}, {Name: "-a.b"}, {Name: "#a"}, {Name: "a=b"},
		{Name: "a.b", Value: "1\nc.d = 2"}, {Name: "a.b", Value: " 1"}, {Name: "a.b", Value: "1", Exclude: true},
	} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}

func TestRender(t *testing.T) {
	if got := Render(nil); got != "" {
		t.Errorf("nothing to render: %q", got)
	}
	want := "# Written by busbar. It owns this file: edits are lost.\nkernel.numa_balancing = 0\n-net.ipv4.conf.lo.rp_filter\n"
	got := Render([]Setting{{Name: "net.ipv4.conf.lo.rp_filter", Exclude: true}, {Name: "kernel.numa_balancing", Value: "0"}})
	if got != want {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		settings := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Setting {
			s := Setting{
				Name:    rapid.StringMatching(`[a-z]{1,4}(\.[a-z0-9_*]{1,4}(/[0-9]{1,3})?){0,3}`).Draw(t, "name"),
				Exclude: rapid.Bool().Draw(t, "exclude"),
			}
			if !s.Exclude {
				s.Value = rapid.StringMatching(`([a-z0-9=#-]([ \ta-z0-9=#-]*[a-z0-9=#-])?)?`).Draw(t, "value")
				s.IgnoreErrors = rapid.Bool().Draw(t, "ignore errors")
			}
			return s
		}), 1, 8).Draw(t, "settings")
		for _, s := range settings {
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		text := Render(settings)
		got, problems := Parse([]confdir.File{{Path: conf, Text: text}})
		slices.SortStableFunc(settings, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
		for i := range settings {
			settings[i].File, settings[i].Line = conf, i+2
		}
		if problems != nil || !cmp.Equal(settings, got) {
			t.Fatalf("%v\n%s\n%s", problems, text, cmp.Diff(settings, got))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "kernel.numa_balancing = 0\n", "-net/ipv4/conf/eth0.1/x=1\r\n", "net.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.lo.rp_filter\n",
		"\ufeffa=1", "a..b=1\n\x00=\xff\n=\n-\n", "[!a].[=1\na.?=2", "# c\n; d",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, problems := Parse([]confdir.File{{Path: conf, Text: text}})
		if n := len(settings) + len(problems); n > strings.Count(text, "\n")+1 {
			t.Fatalf("%d results", n)
		}
		var valid []Setting
		for i, s := range settings {
			p, err := Path(s.Name)
			if err != nil || strings.Contains(p, "..") || strings.HasPrefix(p, "/") {
				t.Fatalf("%q: path %q, %v", s.Name, p, err)
			}
			if again, err := Normalize(s.Name); again != s.Name || err != nil {
				t.Fatalf("%q normalised again is %q, %v", s.Name, again, err)
			}
			if i < 8 {
				Effective(settings, s.Name)
			}
			if s.Validate() == nil {
				s.Line = 0
				valid = append(valid, s)
			}
		}
		again, problems := Parse([]confdir.File{{Path: conf, Text: Render(valid)}})
		slices.SortStableFunc(valid, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
		for i := range again {
			again[i].Line = 0
		}
		if problems != nil || !cmp.Equal(valid, again) {
			t.Fatalf("%v\n%s", problems, cmp.Diff(valid, again))
		}
	})
}

func TestCaseNumaBalancing(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: a directory with the inputs of EXPECT.tsv")
	}
	text, err := os.ReadFile(filepath.Join(dir, "sysctl-numa-balancing-2.txt"))
	if err != nil {
		t.Fatal(err)
	}
	file, value, _ := strings.Cut(strings.TrimSpace(string(text)), ": ")
	p, err := Path("kernel.numa_balancing")
	if err != nil || file != "/proc/sys/"+p {
		t.Errorf("%q is not /proc/sys/%s (%v)", file, p, err)
	}
	if n, ok := Number(value); !ok || n == 0 || EqualValue(value, "0") {
		t.Errorf("value %q reads as %d, %t", value, n, ok)
	}
}
