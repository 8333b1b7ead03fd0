package cmdline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	flag := func(key, text string) Arg { return Arg{Key: key, Text: text} }
	pair := func(key, value, text string) Arg { return Arg{Key: key, Value: value, HasValue: true, Text: text} }
	tests := []struct {
		name, in string
		want     Line
	}{
		{"empty", " \n", nil},
		{"plain", "ro quiet\troot=UUID=1-2\n", Line{flag("ro", "ro"), flag("quiet", "quiet"), pair("root", "UUID=1-2", "root=UUID=1-2")}},
		{"quoted value", `dyndbg="file a/* +p" iommu=pt`, Line{pair("dyndbg", "file a/* +p", `dyndbg="file a/* +p"`), pair("iommu", "pt", "iommu=pt")}},
		{"quoted token", `"dyndbg=file a +p" x`, Line{pair("dyndbg", "file a +p", `"dyndbg=file a +p"`), flag("x", "x")}},
		{"quoted flag", `"a b"`, Line{flag("a b", `"a b"`)}},
		{"quote inside a value stays", `pci=config_acs="a;b"`, Line{pair("pci", `config_acs="a;b"`, `pci=config_acs="a;b"`)}},
		{"quote in the middle", `a=b" "c`, Line{pair("a", `b" "c`, `a=b" "c`)}},
		{"open quote", `a="b c `, Line{pair("a", "b c ", `a="b c `)}},
		{"empty value", "a= b", Line{pair("a", "", "a="), flag("b", "b")}},
		{"equals first", "=a=b", Line{pair("=a", "b", "=a=b")}},
		{"lone quote", `"`, Line{flag("", `"`)}},
		{"two quotes", `""`, Line{flag("", `""`)}},
		{"end of kernel arguments", "a -- b", Line{flag("a", "a")}},
		{"two dashes with a value go on", "--=1 b", Line{pair("--", "1", "--=1"), flag("b", "b")}},
		{"no-break space separates", "iommu=pt\xc2\xa0quiet", Line{pair("iommu", "pt\xc2", "iommu=pt\xc2"), flag("quiet", "quiet")}},
		{"NUL ends", "a\x00b", Line{flag("a", "a")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Parse(tt.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	kernel, init := Split(`ro "--" single -- x=1`)
	if diff := cmp.Diff([]string{"ro"}, kernel.Strings()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"single", "--", "x=1"}, init.Strings()); diff != "" {
		t.Error(diff)
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range [][3]string{
		{"iommu", "pt", "iommu=pt"},
		{"dyndbg", "file a +p", `dyndbg="file a +p"`},
		{"pci", "config_acs=a;b", "pci=config_acs=a;b"},
	} {
		got := Quote(tt[0], tt[1])
		if got != tt[2] {
			t.Errorf("Quote(%q, %q) = %s, want %s", tt[0], tt[1], got, tt[2])
		}
		if a := Parse(got); len(a) != 1 || a[0].Key != tt[0] || a[0].Value != tt[1] {
			t.Errorf("%s reads as %+v", got, a)
		}
	}
}

func TestSatisfied(t *testing.T) {
	tests := []struct {
		line, key, value string
		ok               bool
		found            string
	}{
		{"intel_iommu=on,sm_on", "intel_iommu", "on", true, "intel_iommu=on,sm_on"},
		{"intel_iommu=on,sm_on", "intel_iommu", "sm_on,on", true, "intel_iommu=on,sm_on"},
		{"intel_iommu=on intel_iommu=sm_off", "intel_iommu", "on", true, "intel_iommu=on,sm_off"},
		{"intel_iommu=on intel_iommu=off", "intel_iommu", "on", false, "intel_iommu=off"},
		{"intel_iommu=off intel_iommu=on", "intel_iommu", "on", true, "intel_iommu=on"},
		{"iommu=pt", "iommu", "pt", true, "iommu=pt"},
		{"iommu=pt iommu=nopt", "iommu", "pt", false, "iommu=nopt"},
		{"iommu=nopt,soft iommu=pt", "iommu", "pt", true, "iommu=soft,pt"},
		{"iommu=off iommu=pt", "iommu", "pt", false, "iommu=off"},
		{"iommu=off iommu=pt", "iommu", "off", true, "iommu=off"},
		{"iommu=pt iommu.passthrough=0", "iommu", "pt", false, "iommu.passthrough=0"},
		{"iommu=soft iommu.passthrough=on", "iommu", "pt", true, "iommu=soft iommu.passthrough=on"},
		{"amd_iommu=off amd_iommu=pgtbl_v2", "amd_iommu", "pgtbl_v2", false, "amd_iommu=off"},
		{"amd_iommu=pgtbl_v1 amd_iommu=pgtbl_v2", "amd_iommu", "pgtbl_v1", false, "amd_iommu=pgtbl_v2"},
		{"pcie_aspm=off pcie_aspm=force", "pcie_aspm", "off", true, "pcie_aspm=off"},
		{"iommu.passthrough=0 iommu.passthrough=Y", "iommu.passthrough", "1", true, "iommu.passthrough=Y"},
		{"iommu.passthrough=1 iommu.passthrough=maybe", "iommu.passthrough", "1", true, "iommu.passthrough=1"},
		{"init-on-alloc=0", "init_on_alloc", "0", true, "init-on-alloc=0"},
		{"pci=noaer pci=realloc=off,pcie_bus_safe pci=pcie_bus_perf", "pci", "noaer,pcie_bus_perf", true, "pci=noaer,realloc=off,pcie_bus_perf"},
		{"pci=realloc=off pci=realloc=on", "pci", "realloc=off", false, "pci=realloc=on"},
		{"pci=disable_acs_redir=a;b", "pci", "disable_acs_redir=a;b", true, "pci=disable_acs_redir=a;b"},
		{"modprobe.blacklist=a,b modprobe.blacklist=c", "modprobe.blacklist", "a,c", true, "modprobe.blacklist=a,b,c"},
		{"module_blacklist=a module_blacklist=b", "module_blacklist", "a", false, "module_blacklist=b"},
		{"numa_balancing=enable numa_balancing=disable", "numa_balancing", "disable", true, "numa_balancing=disable"},
		{"numa_balancing=disable numa_balancing=enable", "numa_balancing", "disable", false, "numa_balancing=enable"},
		{"console=tty0 console=ttyS0,115200", "console", "tty0", true, "console=tty0 console=ttyS0,115200"},
		{"quiet splash", "quiet", "", true, "quiet"},
		{"quiet=1", "quiet", "", false, "quiet=1"},
		{"splash", "quiet", "", false, ""},
		{"a -- iommu=pt", "iommu", "pt", false, ""},
		{`dyndbg="file a +p"`, "dyndbg", "file a +p", true, `dyndbg="file a +p"`},
	}
	for _, tt := range tests {
		ok, found := Satisfied(Parse(tt.line), tt.key, tt.value)
		if ok != tt.ok || found != tt.found {
			t.Errorf("%s: Satisfied(%s, %s) = %v, %q, want %v, %q", tt.line, tt.key, tt.value, ok, found, tt.ok, tt.found)
		}
	}
}

func TestAbsent(t *testing.T) {
	tests := []struct {
		line, key, value string
		want             bool
	}{
		{"amd_iommu=on", "amd_iommu", "", false},
		{"amd_iommu=on", "amd_iommu", "on", false},
		{"amd_iommu=force_enable,on", "amd_iommu", "on", false},
		{"amd_iommu=force_enable", "amd_iommu", "on", true},
		{"iommu=pt iommu=nopt", "iommu", "pt", false},
		{"pci=noaer", "pci", "noacs", true},
		{"pci=noaer,disable_acs_redir=0000:17:00.0;0000:17:01.0", "pci", "disable_acs_redir", false},
		{"pci=disable_acs_redir=0000:17:00.0", "pci", "disable_acs_redir=0000:17:01.0", true},
		{"pci=disable_acs_redirect=0000:17:00.0", "pci", "disable_acs_redir", true},
		{"iommu.passthrough=1", "iommu.passthrough", "y", false},
		{"console=tty0", "console", "ttyS0", true},
		{"quiet", "splash", "", true},
	}
	for _, tt := range tests {
		if got := Absent(Parse(tt.line), tt.key, tt.value); got != tt.want {
			t.Errorf("%s: Absent(%s, %s) = %v", tt.line, tt.key, tt.value, got)
		}
	}
}

func TestIOMMU(t *testing.T) {
	intel := Platform{"x86_64", "DMAR"}
	amd := Platform{"x86_64", "IVRS"}
	arm := Platform{"aarch64", "IORT"}
	tests := []struct {
		line     string
		platform Platform
		mode     Mode
		by       string
		notes    []string // "kind token"
	}{
		{"ro quiet", intel, Unset, "", nil},
		{"iommu=pt", amd, Passthrough, "iommu=pt", nil},
		{"intel_iommu=on iommu=pt", intel, Passthrough, "iommu=pt", nil},
		{"intel_iommu=on", intel, Unset, "", nil},
		{"intel_iommu=off", intel, Off, "intel_iommu=off", nil},
		{"intel_iommu=off", amd, Unset, "", []string{"no-op intel_iommu=off"}},
		{"amd_iommu=off", intel, Unset, "", []string{"no-op amd_iommu=off"}},
		{"amd_iommu=off", amd, Off, "amd_iommu=off", nil},
		{"amd_iommu=off", Platform{"x86_64", ""}, Off, "amd_iommu=off", nil},
		{"amd_iommu=on", amd, Unset, "", []string{"no-op amd_iommu=on"}},
		{"amd_iommu=pt", amd, Unset, "", []string{"no-op amd_iommu=pt"}},
		{"amd_iommu=on iommu=pt", amd, Passthrough, "iommu=pt", []string{"no-op amd_iommu=on"}},
		{"iommu=on", intel, Unset, "", []string{"no-op iommu=on"}},
		{"iommu=off iommu=pt", amd, Off, "iommu=off", []string{"contradiction iommu=pt"}},
		{"iommu=pt iommu=off", intel, Off, "iommu=off", []string{"contradiction iommu=pt"}},
		{"iommu=nopt iommu=pt", intel, Passthrough, "iommu=pt", []string{"contradiction iommu=nopt"}},
		{"iommu=pt iommu.passthrough=0", intel, Translated, "iommu.passthrough=0", []string{"contradiction iommu=pt"}},
		{"intel_iommu=on intel_iommu=off", intel, Off, "intel_iommu=off", []string{"contradiction intel_iommu=on"}},
		{"intel_iommu=off iommu=pt", intel, Off, "intel_iommu=off", []string{"contradiction iommu=pt"}},
		{"iommu.passthrough=1", arm, Passthrough, "iommu.passthrough=1", nil},
		{"iommu.passthrough=0", arm, Translated, "iommu.passthrough=0", nil},
		{"iommu=pt", arm, Unset, "", []string{"no-op iommu=pt"}},
		{"amd_iommu=off iommu=off", arm, Unset, "", []string{"no-op amd_iommu=off", "no-op iommu=off"}},
		{"iommu=off,pt", Platform{"x86_64", "VIOT"}, Passthrough, "iommu=off,pt", []string{"no-op iommu=off,pt"}},
		{"iommu.passthrough=maybe", arm, Unset, "", []string{"no-op iommu.passthrough=maybe"}},
		{"pci=noaer,noacs", intel, Unset, "", nil},
	}
	for _, tt := range tests {
		got := IOMMU(Parse(tt.line), tt.platform)
		var notes []string
		for _, n := range got.Notes {
			notes = append(notes, string(n.Kind)+" "+n.Arg)
			if n.Text == "" {
				t.Errorf("%s: note without text: %+v", tt.line, n)
			}
		}
		if got.Mode != tt.mode || got.By != tt.by {
			t.Errorf("%s on %v: %s by %q, want %s by %q", tt.line, tt.platform, got.Mode, got.By, tt.mode, tt.by)
		}
		if diff := cmp.Diff(tt.notes, notes); diff != "" {
			t.Errorf("%s on %v:\n%s", tt.line, tt.platform, diff)
		}
	}
}

func TestIgnored(t *testing.T) {
	for line, want := range map[string][]string{
		"pci=noaer,noacs quiet pci=noacs pci=noacs": {"pci=noaer,noacs", "pci=noacs"},
		"pci=noaer noacs": nil,
	} {
		var got []string
		for _, n := range Ignored(Parse(line)) {
			got = append(got, n.Arg)
			if n.Kind != NoOp || n.Text == "" {
				t.Errorf("%s: %+v", line, n)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", line, diff)
		}
	}
}

// What is wanted must be read back as that mode, without a remark.
func TestWantedIOMMU(t *testing.T) {
	tests := []struct {
		mode     Mode
		platform Platform
		want     string // "" for an error
	}{
		{Passthrough, Platform{"x86_64", "DMAR"}, "intel_iommu=on iommu=pt"},
		{Translated, Platform{"x86_64", "DMAR"}, "intel_iommu=on iommu=nopt"},
		{Off, Platform{"x86_64", "DMAR"}, "intel_iommu=off"},
		{Passthrough, Platform{"x86_64", "IVRS"}, "iommu=pt"},
		{Translated, Platform{"x86_64", "IVRS"}, "iommu=nopt"},
		{Off, Platform{"x86_64", "IVRS"}, "amd_iommu=off"},
		{Passthrough, Platform{"x86_64", "VIOT"}, "iommu=pt"},
		{Off, Platform{"x86_64", "VIOT"}, ""},
		{Passthrough, Platform{"x86_64", ""}, ""},
		{Passthrough, Platform{"x86_64", "IORT"}, ""},
		{Passthrough, Platform{"aarch64", "IORT"}, "iommu.passthrough=1"},
		{Translated, Platform{"aarch64", ""}, "iommu.passthrough=0"},
		{Off, Platform{"aarch64", "IORT"}, ""},
		{"on", Platform{"aarch64", "IORT"}, ""},
		{Unset, Platform{"x86_64", "IVRS"}, ""},
		{Passthrough, Platform{"riscv64", ""}, ""},
	}
	for _, tt := range tests {
		args, err := WantedIOMMU(tt.mode, tt.platform)
		if got := strings.Join(args, " "); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("WantedIOMMU(%s, %v) = %q, %v, want %q", tt.mode, tt.platform, got, err, tt.want)
			continue
		}
		if err != nil {
			continue
		}
		if got := IOMMU(Parse(strings.Join(args, " ")), tt.platform); got.Mode != tt.mode || got.Notes != nil {
			t.Errorf("%v reads back as %+v", args, got)
		}
	}
}

func TestCases(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set to the directory of cases")
	}
	tests := []struct {
		file     string
		platform Platform
		mode     Mode
		notes    int
	}{
		{"cmdline-clean-amd.txt", Platform{"x86_64", "IVRS"}, Passthrough, 0},
		{"cmdline-intel-off.txt", Platform{"x86_64", "DMAR"}, Off, 0},
		{"cmdline-amd-noop.txt", Platform{"x86_64", "IVRS"}, Unset, 1},
		{"cmdline-amd-pt-typo.txt", Platform{"x86_64", "IVRS"}, Unset, 1},
		{"cmdline-noacs.txt", Platform{"x86_64", "DMAR"}, Unset, 1},
		{"cmdline-quoted-value.txt", Platform{"x86_64", "DMAR"}, Passthrough, 0},
		{"cmdline-arm64-passthrough.txt", Platform{"aarch64", "IORT"}, Passthrough, 0},
	}
	for _, tt := range tests {
		text, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		line := Parse(string(text))
		if got := IOMMU(line, tt.platform); got.Mode != tt.mode || len(got.Notes)+len(Ignored(line)) != tt.notes {
			t.Errorf("%s: %+v", tt.file, got)
		}
		if got := line.String(); got != strings.TrimSpace(string(text)) {
			t.Errorf("%s: reads as %s", tt.file, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "ro quiet root=UUID=1", `dyndbg="file a/* +p" iommu=pt`, `"a=b c" d`, `a="b`, `"`, "a -- b", "=a=b",
		"a\x00b", "a\xa0b", "\xef\xbb\xbfa\r\nb", "iommu=off,pt iommu=nopt,,", "intel_iommu=on,sm_on -- x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := Parse(s)
		if diff := cmp.Diff(line, Parse(line.String())); diff != "" {
			t.Errorf("%q: joined and parsed again:\n%s", s, diff)
		}
		for _, a := range line {
			Satisfied(line, a.Key, a.Value)
			if Absent(line, a.Key, "") {
				t.Errorf("%q: %q is said to be absent", s, a.Key)
			}
		}
		for _, p := range []Platform{{"x86_64", "DMAR"}, {"x86_64", "VIOT"}, {"aarch64", "IORT"}, {}} {
			if in := IOMMU(line, p); (in.Mode == Unset) != (in.By == "") {
				t.Errorf("%q on %v: mode %q by %q", s, p, in.Mode, in.By)
			}
		}
	})
}
