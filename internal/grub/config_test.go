package grub

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readConfig(t *testing.T) Config {
	t.Helper()
	text, err := os.ReadFile("testdata/grub.cfg")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseConfig(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestParseConfig(t *testing.T) {
	advanced := []Menu{{"Advanced options for GNU/Linux", "gnulinux-advanced-11111111"}}
	latest := Entry{
		Title: "GNU/Linux, with Linux 6.8.0-40-generic", ID: "gnulinux-6.8.0-40-generic-advanced-11111111",
		Submenus: advanced, Index: "1>0", Kernel: "/boot/vmlinuz-6.8.0-40-generic",
		Args: "root=PARTUUID=aaaa ro iommu=pt quiet", Root: "PARTUUID=aaaa", Line: 64,
		Initrds: []string{"/boot/initrd.img-6.8.0-40-generic"},
	}
	withoutInitrd := latest
	withoutInitrd.Args += " panic=-1"
	withoutInitrd.Line, withoutInitrd.Initrds = 67, nil
	want := Config{
		Default: "1>2",
		Entries: []Entry{
			{
				Title: "GNU/Linux", ID: "gnulinux-simple-11111111-2222-3333-4444-555555555555", Index: "0",
				Kernel: "/boot/vmlinuz-6.8.0-40-generic",
				Args:   "root=UUID=11111111-2222-3333-4444-555555555555 ro iommu=pt pci=config_acs=1@a;0@b quiet $vt_handoff",
				Root:   "UUID=11111111-2222-3333-4444-555555555555", Line: 57, Initrds: latest.Initrds,
			},
			latest,
			withoutInitrd,
			{
				Title: "GNU/Linux, with Linux 6.8.0-40-generic (recovery mode)", ID: "gnulinux-6.8.0-40-generic-recovery-11111111",
				Submenus: advanced, Index: "1>1", Kernel: "/boot/vmlinuz-6.8.0-40-generic",
				Args: "root=UUID=11111111 ro recovery nomodeset dis_ucode_ldr", Root: "UUID=11111111", Recovery: true, Line: 71,
			},
			{
				Title: "It's GNU/Linux > 5", ID: "old", Submenus: advanced, Index: "1>2", Kernel: "/boot/vmlinuz-5.4.0",
				Args: `root=/dev/sda1 ro "dyndbg=file a +p" root=/dev/sda2`, Root: "/dev/sda2", Line: 74,
			},
			{Title: "UEFI Firmware Settings", ID: "uefi-firmware", Index: "2", Line: 83},
		},
	}
	if diff := cmp.Diff(want, readConfig(t)); diff != "" {
		t.Error(diff)
	}
}

func TestParseConfigErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"cut off", "set default=0\nmenuentry 'a' {\n\tlinux /v", "grub.cfg:2: the file ends inside the menuentry that begins here"},
		{"open quote", "set a=1\nmenuentry 'a {\n}\n", "grub.cfg:2: a quote is not closed"},
		{"stray brace", "\n}\n", "grub.cfg:2: } without {"},
		{"nesting", strings.Repeat("submenu a {\n", 100), "grub.cfg:65: more than 64 blocks within each other"},
	}
	for _, tt := range tests {
		if _, err := ParseConfig(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if cfg, err := ParseConfig(""); err != nil || cfg.Entries != nil {
		t.Errorf("an empty file: %+v, %v", cfg, err)
	}
}

// An unquoted semicolon ends the linux command; what follows never reaches the
// kernel.
func TestParseConfigSemicolon(t *testing.T) {
	cfg, err := ParseConfig("menuentry a {\nlinux16 /v ro pci=config_acs=1@a;0@b quiet\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Entries[0].Args; got != "ro pci=config_acs=1@a" {
		t.Errorf("Args = %q", got)
	}
}

func TestDefaultEntry(t *testing.T) {
	cfg := readConfig(t)
	tests := []struct {
		selection, index string
		line             int
	}{
		{"", "1>2", 74},
		{"0", "0", 57},
		{"2", "2", 83},
		{"1>0", "1>0", 67},
		{"GNU/Linux", "0", 57},
		{"uefi-firmware", "2", 83},
		{"gnulinux-advanced-11111111>gnulinux-6.8.0-40-generic-recovery-11111111", "1>1", 71},
		{"Advanced options for GNU/Linux>It's GNU/Linux >> 5", "1>2", 74},
		{"1>old", "1>2", 74},
	}
	for _, tt := range tests {
		got, err := DefaultEntry(cfg, tt.selection)
		if err != nil || got.Index != tt.index || got.Line != tt.line {
			t.Errorf("%q selects %s at line %d, %v, want %s at %d", tt.selection, got.Index, got.Line, err, tt.index, tt.line)
		}
	}
	for _, selection := range []string{"saved", "${saved_entry}", "1", "7", "old", "1>0>0", "nothing"} {
		if got, err := DefaultEntry(cfg, selection); err == nil {
			t.Errorf("%q selects %s", selection, got.Index)
		}
	}
	if got, err := DefaultEntry(Config{Entries: cfg.Entries}, ""); err != nil || got.Index != "0" {
		t.Errorf("without any default: %s, %v", got.Index, err)
	}
}

func FuzzParseConfig(f *testing.F) {
	text, err := os.ReadFile("testdata/grub.cfg")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text), "1>2")
	for _, s := range []string{
		"menuentry a {\nlinux /v a=\"b\nc\"\n}", "menuentry '", "submenu a { submenu b { menuentry c { linux x } } }", "}", "${", "$\"a\"",
		"\ufeffset default=\"${saved_entry}\"\r\n", "linux\x00", "menuentry --id", "menuentry a --id=b{linux16 /v \\", "#", "if a; then menuentry b {}; fi", "set default='a>>b'",
	} {
		f.Add(s, "a>>b>0")
	}
	f.Fuzz(func(t *testing.T, text, selection string) {
		cfg, err := ParseConfig(text)
		if err != nil {
			return
		}
		for _, e := range cfg.Entries {
			if e.Line < 1 || e.Index == "" {
				t.Errorf("%+v", e)
			}
		}
		DefaultEntry(cfg, selection)
		KernelLine(text)
	})
}
