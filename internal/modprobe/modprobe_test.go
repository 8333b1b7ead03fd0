package modprobe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/internal/confdir"
)

const conf = "/etc/modprobe.d/a.conf"

func TestParseModprobe(t *testing.T) {
	at := func(line int) Origin { return Origin{conf, line} }
	tests := []struct {
		name, text string
		want       []Statement
		problems   []Problem
	}{
		{name: "every statement",
			text: "alias snd-card-* my-mod\nblacklist nv-peer-mem\ninstall nouveau /bin/false\noptions nvidia NVreg_X=1\n" +
				"remove foo /sbin/rmmod foo\nsoftdep nvidia post: nvidia-peermem\nweakdep a b\n",
			want: []Statement{
				{Alias, "snd_card_*", "my_mod", at(1)},
				{Blacklist, "nv_peer_mem", "", at(2)},
				{Install, "nouveau", "/bin/false", at(3)},
				{Options, "nvidia", "NVreg_X=1", at(4)},
				{Remove, "foo", "/sbin/rmmod foo", at(5)},
				{Softdep, "nvidia", "post: nvidia-peermem", at(6)},
				{Weakdep, "a", "b", at(7)},
			}},
		{name: "options byte for byte",
			text: "options\tnvidia \t NVreg_RegistryDwords=\"ForceP2P=17;RMForceP2PType=1\"  a-b=c-d  \n",
			want: []Statement{{Options, "nvidia", `NVreg_RegistryDwords="ForceP2P=17;RMForceP2PType=1"  a-b=c-d`, at(1)}}},
		{name: "comments and blank lines",
			text: "# a\n\n  # b\n\t\n\r\nblacklist x # trailing words are not read\n",
			want: []Statement{{Blacklist, "x", "", at(6)}}},
		{name: "continuation",
			text: "options a x=1 \\\n  y=2\nblacklist b",
			want: []Statement{{Options, "a", "x=1   y=2", at(1)}, {Blacklist, "b", "", at(3)}}},
		{name: "backslash elsewhere is dropped",
			text: `options a x=\"1\\2\q` + "\n",
			want: []Statement{{Options, "a", `x="1\2q`, at(1)}}},
		{name: "comment with continuation",
			text:     "# old: \\\nblacklist nouveau\nblacklist b\n",
			want:     []Statement{{Blacklist, "b", "", at(3)}},
			problems: []Problem{{File: conf, Line: 1, Text: "comment ends in a backslash and swallows the next line"}}},
		{name: "bad lines",
			text: "blacklst nouveau\nblacklist\noptions nvidia \ninclude /etc/x\nblacklist a]\n\nalias x\nblacklist b\x00c\n",
			problems: []Problem{
				{File: conf, Line: 1, Text: `unknown statement "blacklst nouveau"`},
				{File: conf, Line: 2, Text: `incomplete statement "blacklist"`},
				{File: conf, Line: 3, Text: `incomplete statement "options nvidia "`},
				{File: conf, Line: 4, Text: `include is no longer read by kmod: "include /etc/x"`},
				{File: conf, Line: 5, Text: `module name with unbalanced bracket: "blacklist a]"`},
				{File: conf, Line: 7, Text: `incomplete statement "alias x"`},
				{File: conf, Line: 8, Text: `line with a NUL byte: "blacklist b\x00c"`},
			}},
		{name: "CRLF",
			text: "blacklist nouveau\r\noptions nvidia a=1\r\n",
			want: []Statement{{Options, "nvidia", "a=1", at(2)}},
			problems: []Problem{{File: conf, Line: 1,
				Text: `module name with control character '\r' (a carriage return stays part of the name): "blacklist nouveau\r"`}}},
		{name: "byte order mark",
			text:     "\ufeffblacklist nouveau\n",
			problems: []Problem{{File: conf, Line: 1, Text: `unknown statement "\ufeffblacklist nouveau"`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := ParseModprobe([]confdir.File{{Path: conf, Text: tt.text}})
			if diff := cmp.Diff(tt.want, got.Statements); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.problems, problems); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnreadFiles(t *testing.T) {
	files := []confdir.File{{Path: conf, Reason: "permission denied"}}
	want := []Problem{{File: conf, Text: "content unknown: permission denied", Unread: true}}
	if _, problems := ParseModprobe(files); !cmp.Equal(want, problems) {
		t.Error(cmp.Diff(want, problems))
	}
	if _, problems := ParseModulesLoad(files); !cmp.Equal(want, problems) {
		t.Error(cmp.Diff(want, problems))
	}
}

func TestOrder(t *testing.T) {
	got := OrderModprobe([]confdir.File{
		{Path: "/lib/modprobe.d/b.conf", Text: "hidden"},
		{Path: "/etc/modprobe.d/b.conf", Text: "local"},
		{Path: "/etc/modprobe.d/README", Text: "no"},
		{Path: "/etc/modprobe.d/.x.conf", Text: "no"},
		{Path: "/usr/lib/modprobe.d/a.conf", Text: "vendor"},
		{Path: "/etc/modules-load.d/c.conf", Text: "elsewhere"},
	})
	want := []confdir.File{{Path: "/usr/lib/modprobe.d/a.conf", Text: "vendor"}, {Path: "/etc/modprobe.d/b.conf", Text: "local"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	loads := OrderModulesLoad([]confdir.File{{Path: "/etc/modules-load.d/c.conf"}, {Path: "/etc/modules"}})
	if diff := cmp.Diff([]confdir.File{{Path: "/etc/modules-load.d/c.conf"}}, loads); diff != "" {
		t.Error(diff)
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"nvidia-peermem": "nvidia_peermem",
		"nvidia_peermem": "nvidia_peermem",
		"a-[0-9]-b":      "a_[0-9]_b",
		"a-[0-9":         "a_[0-9",
	} {
		if got := Normalize(in); got != want {
			t.Errorf("Normalize(%q) = %q, want %q", in, got, want)
		}
	}
}

func parse(t *testing.T, text string) Config {
	t.Helper()
	c, problems := ParseModprobe([]confdir.File{{Path: conf, Text: text}})
	if problems != nil {
		t.Fatal(problems)
	}
	return c
}

func TestBlacklistedAndInstall(t *testing.T) {
	c := parse(t, "blacklist nv-peer-mem\ninstall nv* /bin/true\ninstall nvidia_peermem /sbin/modprobe x\nblacklist nv_peer_mem\n")
	if diff := cmp.Diff([]Origin{{conf, 1}, {conf, 4}}, c.Blacklisted("nv-peer_mem")); diff != "" {
		t.Error(diff)
	}
	if got := c.Blacklisted("nvidia"); got != nil {
		t.Errorf("nvidia blacklisted at %v", got)
	}
	command, at, found := c.Install("nvidia-peermem")
	if command != "/bin/true" || at != (Origin{conf, 2}) || !found {
		t.Errorf("got %q at %v, %t; the first match wins", command, at, found)
	}
	if _, _, found := c.Install("mlx5_core"); found {
		t.Error("install command for mlx5_core")
	}
}

func TestRefuses(t *testing.T) {
	for command, want := range map[string]bool{
		"/bin/true": true, "/bin/false": true, "/usr/bin/false": true, "true": true, ":": true, "exit 0": true,
		"/bin/false # hardening; see ticket":       true,
		"/bin/true $CMDLINE_OPTS":                  true,
		"/sbin/modprobe --ignore-install nvidia":   false,
		"/bin/true; /sbin/modprobe -i nvidia":      false,
		"/bin/false || /sbin/modprobe -i nvidia":   false,
		"/opt/bin/true":                            false,
		"":                                         false,
		"/usr/bin/truecolor":                       false,
		"/sbin/modprobe x; exit 0":                 false,
		"  /usr/bin/false  ":                       true,
		"/bin/sh -c 'modprobe nvidia_uvm || true'": false,
	} {
		if got := Refuses(command); got != want {
			t.Errorf("Refuses(%q) = %t", command, got)
		}
	}
}

func TestOptions(t *testing.T) {
	c := parse(t, "options nvidia NVreg-A=1 NVreg_B=\"x y;z=1\"\noptions other NVreg_A=9\n"+
		"options nvidia NVreg_A=2 flag \"quoted=a b\" empty= -- NVreg_C=1\n")
	want := []Option{
		{"NVreg_B", "x y;z=1", `NVreg_B="x y;z=1"`, Origin{conf, 1}},
		{"NVreg_A", "2", "NVreg_A=2", Origin{conf, 3}},
		{"flag", "", "flag", Origin{conf, 3}},
		{"quoted", "a b", `"quoted=a b"`, Origin{conf, 3}},
		{"empty", "", "empty=", Origin{conf, 3}},
	}
	if diff := cmp.Diff(want, c.Options("nvidia")); diff != "" {
		t.Error(diff)
	}
}

// TestCheckOption: what is accepted is read back as this one parameter.
func TestCheckOption(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		spelt      string // -: refused
	}{
		{"x", "1", "1"},
		{"x", "", ""},
		{"a-b", "a b", `"a b"`},
		{"x", `"a b"`, `"a b"`},
		{"x", `"A=1;B=2"`, `"A=1;B=2"`},
		{"x", `a"b c"d`, `a"b c"d`},
		{"x", `a\b c`, `"a\b c"`},
		{"x", "a\u0420b", "\"a\u0420b\""}, // its second byte is the kernel's no-break space
		{"x", `a"b`, "-"},
		{"x", `"`, "-"},
		{"x", `"a b`, "-"},
		{"x", `a "b c"`, "-"},
		{"x", `"a"b`, "-"},
		{"x", `"a" b=1`, "-"},
		{"x", "a\tb", "-"},
		{"x", "a\nb", "-"},
		{"x y", "1", "-"},
		{"x=y", "1", "-"},
		{"", "1", "-"},
	} {
		err := CheckOption(tt.key, tt.value)
		if (err != nil) != (tt.spelt == "-") {
			t.Errorf("%s=%q: %v", tt.key, tt.value, err)
		}
		if got := QuoteValue(tt.value); err == nil && got != tt.spelt {
			t.Errorf("%q is spelt %s, want %s", tt.value, got, tt.spelt)
		}
	}
}

func TestFromCommandLine(t *testing.T) {
	got := FromCommandLine([]string{
		"BOOT_IMAGE=/boot/vmlinuz-6.8.0", "root=/dev/sda.1", "quiet", "iommu=pt",
		"modprobe.blacklist=nouveau,nv-peer-mem", "module_blacklist=gone", "module-blacklist=nouveau,nova-core",
		"rd.driver.blacklist=nouveau", "rd.driver.blacklist=nova-core", "modules-load=nvidia-peermem,ib_umad",
		"modules_load=rdma_cm", "rd.modules-load=early", "nvidia-drm.modeset=1", "a.b.c=1", "drm.debug",
		`"parport.dyndbg=file x +p"`, `mod.p="x y"`, "mod.q=x y",
	})
	at := Origin{"/proc/cmdline", 1}
	want := CmdlineConfig{
		Blacklist:          []string{"nouveau", "nv-peer-mem"},
		Denied:             []string{"nouveau", "nova-core"},
		InitramfsBlacklist: []string{"nouveau", "nova_core"},
		ModulesLoad:        []string{"nvidia_peermem", "ib_umad", "rdma_cm"},
		Options: []Statement{
			{Options, "rd", "modules-load=early", at},
			{Options, "nvidia_drm", "modeset=1", at},
			{Options, "drm", "debug", at},
			{Options, "parport", `dyndbg="file x +p"`, at},
			{Options, "mod", `p="x y"`, at},
			{Options, "mod", `q="x y"`, at},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	c := parse(t, "options nvidia-drm modeset=0 fbdev=1\n").With(got)
	if diff := cmp.Diff([]Option{
		{"fbdev", "1", "fbdev=1", Origin{conf, 1}},
		{"modeset", "1", "modeset=1", at},
	}, c.Options("nvidia_drm")); diff != "" {
		t.Error(diff)
	}
	if got := c.Blacklisted("nouveau"); len(got) != 1 {
		t.Errorf("nouveau blacklisted at %v", got)
	}
	if got := c.Blacklisted("nv_peer_mem"); got != nil {
		t.Errorf("modprobe.blacklist is compared as it stands, yet nv_peer_mem is blacklisted at %v", got)
	}
}

func TestParseModulesLoad(t *testing.T) {
	got, problems := ParseModulesLoad([]confdir.File{{Path: conf, Text: "# x\n; y\n\n nvidia-peermem\r\nib_umad # no\nnvidia_peermem\nnvidia_peermem"}})
	want := []LoadEntry{{"nvidia_peermem", Origin{conf, 4}}, {"nvidia_peermem", Origin{conf, 6}}, {"nvidia_peermem", Origin{conf, 7}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Problem{{File: conf, Line: 5, Text: `not one module name: "ib_umad # no"`}}, problems); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:], Duplicates(got)); diff != "" {
		t.Error(diff)
	}
}

func TestParseProcModules(t *testing.T) {
	got, err := ParseProcModules("nvidia_peermem 16384 0 - Live 0x0000000000000000 (POE)\n" +
		"ib_core 524288 2 ib_uverbs,mlx5_ib, Live 0xffffffffc0a00000\n" +
		"x 1 - - Loading 0x0000000000000000 (OE+)\ny 2 1 [permanent], Live 0x0000000000000000\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Loaded{
		{Name: "nvidia_peermem", Size: 16384, State: "Live", Taints: "POE"},
		{Name: "ib_core", Size: 524288, Refcount: 2, UsedBy: []string{"ib_uverbs", "mlx5_ib"}, State: "Live"},
		{Name: "x", Size: 1, Refcount: -1, State: "Loading", Taints: "OE"},
		{Name: "y", Size: 2, Refcount: 1, Permanent: true, State: "Live"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := ParseProcModules(""); got != nil || err != nil {
		t.Errorf("no modules: %v, %v", got, err)
	}
	for _, bad := range []string{
		"nvidia 565", "nvidia 565 x - Live 0x0", "Module Size Used by", "nvidia 1 0 - Dead 0x0", "nvidia 1 0 - Live 0x0 OE",
		"a.b 1 0 - Live 0x0", "a -1 0 - Live 0x0", "bash: /proc/modules: Permission denied",
	} {
		if got, err := ParseProcModules(bad); err == nil {
			t.Errorf("%q: parsed as %v", bad, got)
		}
	}
}

func TestParseLsmod(t *testing.T) {
	got, err := ParseLsmod("$ lsmod\nModule                  Size  Used by\nnvidia              56508416  12 nvidia_uvm,nvidia_modeset\nnvidia_peermem         16384  0\n$ echo $?\n0\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Loaded{
		{Name: "nvidia", Size: 56508416, Refcount: 12, UsedBy: []string{"nvidia_uvm", "nvidia_modeset"}},
		{Name: "nvidia_peermem", Size: 16384},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := ParseLsmod("$ lsmod\n"); err == nil {
		t.Errorf("parsed as %v", got)
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"nvidia-peermem": true, "8021q": true, "mlx5_core": true,
		"": false, "a b": false, "#a": false, "a\nb": false, "nvidia.ko": false, "a*": false, "1": false,
	} {
		if got := CheckName(name) == nil; got != want {
			t.Errorf("CheckName(%q) = %t", name, got)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, s := range []Statement{
		{Verb: "include", Module: "x"},
		{Verb: Blacklist},
		{Verb: Blacklist, Module: "a\nblacklist b"},
		{Verb: Blacklist, Module: "a b"},
		{Verb: Blacklist, Module: "a", Args: "b"},
		{Verb: Alias, Module: "a", Args: "b c"},
		{Verb: Options, Module: "a"},
		{Verb: Options, Module: "a", Args: " x=1"},
		{Verb: Options, Module: "a", Args: "x=1\ny=2"},
	} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}

func drawStatement(t *rapid.T) Statement {
	name := rapid.StringMatching(`[a-z0-9_]{1,8}(\[[0-9]-[0-9]\]|\*)?`)
	s := Statement{Verb: rapid.SampledFrom(verbs).Draw(t, "verb"), Module: name.Draw(t, "module")}
	switch s.Verb {
	case Blacklist:
	case Alias:
		s.Args = name.Draw(t, "target")
	default:
		s.Args = rapid.StringMatching(`[a-zA-Z0-9="';:\\#é-]([ a-zA-Z0-9="';:\\#é-]*[a-zA-Z0-9="';:\\#é-])?`).Draw(t, "args")
	}
	return s
}

func TestRenderModprobe(t *testing.T) {
	if got := RenderModprobe(nil); got != "" {
		t.Errorf("nothing to render: %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawStatement), 1, 8).Draw(t, "statements")
		for i, s := range want {
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			want[i].Origin = Origin{conf, i + 2}
		}
		text := RenderModprobe(want)
		got, problems := ParseModprobe([]confdir.File{{Path: conf, Text: text}})
		if problems != nil || !cmp.Equal(want, got.Statements) {
			t.Fatalf("%v\n%s\n%s", problems, text, cmp.Diff(want, got.Statements))
		}
	})
}

func TestRenderModulesLoad(t *testing.T) {
	if got := RenderModulesLoad(nil); got != "" {
		t.Errorf("nothing to render: %q", got)
	}
	want := "# Written by busbar. It owns this file: edits are lost.\nib_umad\nnvidia_peermem\n"
	if got := RenderModulesLoad([]string{"nvidia-peermem", "ib_umad", "nvidia_peermem"}); got != want {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		modules := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9_-]{1,6}`), 1, 6).Draw(t, "modules")
		text := RenderModulesLoad(modules)
		entries, problems := ParseModulesLoad([]confdir.File{{Path: conf, Text: text}})
		var got []string
		for _, e := range entries {
			got = append(got, e.Module)
		}
		if problems != nil || Duplicates(entries) != nil || RenderModulesLoad(got) != text {
			t.Fatalf("%v %v\n%s", problems, got, text)
		}
	})
}

// readCase returns a file of the shared cases.
func readCase(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: a directory with the inputs of EXPECT.tsv")
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCaseLoadedModules(t *testing.T) {
	for _, tt := range []struct {
		file    string
		present []string
		absent  []string
	}{
		{"modules-peermem-ok.txt", []string{"nvidia-peermem", "nvidia"}, []string{"nouveau"}},
		{"modules-peermem-missing.txt", []string{"nvidia"}, []string{"nvidia-peermem"}},
		{"modules-nouveau-won.txt", []string{"nouveau"}, []string{"nvidia"}},
		{"modules-inbox-open-dmabuf.txt", []string{"nvidia"}, []string{"nvidia_peermem"}},
		{"modules-no-ib-umad.txt", []string{"nvidia", "ib_uverbs"}, []string{"ib_umad"}},
	} {
		loaded, err := ParseProcModules(readCase(t, tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		byName := map[string]Loaded{}
		for _, m := range loaded {
			byName[m.Name] = m
		}
		for _, name := range tt.present {
			if _, ok := byName[Normalize(name)]; !ok {
				t.Errorf("%s: %s not found", tt.file, name)
			}
		}
		for _, name := range tt.absent {
			if _, ok := byName[Normalize(name)]; ok {
				t.Errorf("%s: %s found", tt.file, name)
			}
		}
	}
	ok, err := ParseProcModules(readCase(t, "modules-peermem-ok.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ok {
		if m.Name == "ib_uverbs" && (!cmp.Equal(m.UsedBy, []string{"nvidia_peermem", "rdma_ucm", "mlx5_ib"}) || m.Taints != "OE") {
			t.Errorf("ib_uverbs: %+v", m)
		}
	}
}

func TestCaseLsmodHyphen(t *testing.T) {
	got, err := ParseLsmod(readCase(t, "lsmod-hyphen-grep.txt"))
	if diff := cmp.Diff([]Loaded{{Name: Normalize("nvidia-peermem"), Size: 16384}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestCaseLoadAgainstBlacklist(t *testing.T) {
	const blacklist = "/etc/modprobe.d/blacklist-ofed-modules.conf"
	const load = "/etc/modules-load.d/nvidia-peermem.conf"
	c, problems := ParseModprobe(OrderModprobe([]confdir.File{{Path: blacklist, Text: readCase(t, "modload-vs-blacklist"+blacklist)}}))
	entries, more := ParseModulesLoad(OrderModulesLoad([]confdir.File{{Path: load, Text: readCase(t, "modload-vs-blacklist"+load)}}))
	if problems != nil || more != nil {
		t.Fatal(problems, more)
	}
	if diff := cmp.Diff([]LoadEntry{{"nvidia_peermem", Origin{load, 1}}}, entries); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Origin{{blacklist, 5}}, c.Blacklisted(entries[0].Module)); diff != "" {
		t.Error(diff)
	}
}

func TestCaseAppendedThrice(t *testing.T) {
	const load = "/etc/modules-load.d/nvidia-peermem.conf"
	entries, problems := ParseModulesLoad([]confdir.File{{Path: load, Text: readCase(t, "modload-appended-thrice"+load)}})
	if problems != nil || len(entries) != 3 || len(Duplicates(entries)) != 2 {
		t.Errorf("%v %v", entries, problems)
	}
}

func TestCaseNouveau(t *testing.T) {
	const nvidia = "/etc/modprobe.d/50-nvidia.conf"
	c, problems := ParseModprobe([]confdir.File{{Path: nvidia, Text: readCase(t, "modprobe-nouveau-not-in-initramfs"+nvidia)}})
	cmdline := FromCommandLine(strings.Fields(readCase(t, "modprobe-nouveau-not-in-initramfs/proc/cmdline")))
	if problems != nil || len(c.Blacklisted("nouveau")) != 1 || cmdline.InitramfsBlacklist != nil || cmdline.Denied != nil {
		t.Errorf("%v %+v %+v", problems, c, cmdline)
	}
}

func TestCaseOptions(t *testing.T) {
	c := parse(t, readCase(t, "modprobe-registrydwords.conf"))
	options := c.Options("nvidia")
	want := "ForceP2P=17;RMForceP2PType=1;RMPcieP2PType=1;PeerMappingOverride=1;RMForceStaticBar1=1"
	if len(options) != 1 || options[0].Value != want {
		t.Errorf("%+v", options)
	}
	if text := RenderModprobe(c.Statements); !strings.HasSuffix(text, "\n"+readCase(t, "modprobe-registrydwords.conf")) {
		t.Errorf("does not survive a rewrite: %s", text)
	}
	var keys []string
	for _, o := range parse(t, readCase(t, "modprobe-nvreg-unknown.conf")).Options("nvidia") {
		keys = append(keys, o.Key+"="+o.Value)
	}
	if diff := cmp.Diff([]string{"NVreg_UsePageAttributeTable=1", "NVreg_InitializeSystemMemoryAllocations=0", "NVreg_DynamicPowerManagement=0x02"}, keys); diff != "" {
		t.Error(diff)
	}
}
