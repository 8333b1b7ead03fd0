package nextboot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/internal/nextboot"
	"busbar/node"
)

const generated = `set default="0"
menuentry 'Ubuntu' {
	linux	/boot/vmlinuz-6.8.0-45-generic root=UUID=01 ro rootflags=subvol=@ quiet
}
submenu 'Advanced' {
	menuentry 'Ubuntu, with Linux 6.8.0-40' {
		linux	/boot/vmlinuz-6.8.0-40-generic root=UUID=01 ro rootflags=subvol=@ quiet
	}
	menuentry 'Ubuntu, with Linux 6.8.0-40 (recovery mode)' {
		linux	/boot/vmlinuz-6.8.0-40-generic root=UUID=01 ro recovery nomodeset
	}
}
menuentry 'Debian on the other disk' {
	linux	/boot/vmlinuz-6.1.0 root=UUID=02 ro quiet
}
`

func boot(defaults string) node.BootConfig {
	return node.BootConfig{
		Loader: node.LoaderGRUBDebian, Generated: generated, UpdateGrub: true,
		Defaults:   []confdir.File{{Path: grub.DefaultsFile, Text: defaults}},
		References: []node.Reference{{Path: "/etc/tuned/bootcmdline", Exists: true, Text: "TUNED=nokaslr\n"}, {Path: "/absent"}},
	}
}

// lines are a state's entries: title, release, arguments, line.
func lines(s nextboot.State) []string {
	var all []string
	for _, l := range s.Lines {
		all = append(all, strings.Join([]string{l.Title, l.Release, l.Args.String(), l.Source.String()}, " | "))
	}
	return all
}

func TestNext(t *testing.T) {
	const two = "menuentry 'A' {\n\tlinux /vmlinuz-2 root=UUID=01\n\tinitrd /intel-ucode.img /initrd.img-2\n}\n" +
		"menuentry 'B' {\n\tlinux /@/boot/vmlinuz-1 root=UUID=01\n\tinitrd /@/boot/initrd.img-1\n}\n" +
		"menuentry 'C' {\n\tlinux /boot/vmlinuz-1 root=UUID=01\n}\n"
	for defaults, want := range map[string][]string{
		"":                     {"/boot/intel-ucode.img", "/boot/initrd.img-2"},
		"GRUB_DEFAULT=1\n":     {"/boot/initrd.img-1"},
		"GRUB_DEFAULT=C\n":     nil,
		"GRUB_DEFAULT=none\n":  {"/boot/intel-ucode.img", "/boot/initrd.img-2"},
		"GRUB_DEFAULT=saved\n": {"/boot/intel-ucode.img", "/boot/initrd.img-2"},
	} {
		b := boot(defaults)
		b.Generated = two
		s, err := nextboot.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.Lines[s.Next].Images); diff != "" {
			t.Errorf("%q (-want +got):\n%s", defaults, diff)
		}
	}
}

func TestRead(t *testing.T) {
	s, err := nextboot.Read(boot("GRUB_DEFAULT='Debian on the other disk'\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Ubuntu | 6.8.0-45-generic | root=UUID=01 ro rootflags=subvol=@ quiet | /boot/grub/grub.cfg:3",
		"Ubuntu, with Linux 6.8.0-40 | 6.8.0-40-generic | root=UUID=01 ro rootflags=subvol=@ quiet | /boot/grub/grub.cfg:7",
	}
	if diff := cmp.Diff(want, lines(s)); diff != "" {
		t.Error(diff)
	}
	if s.Pinned != "Debian on the other disk" || s.PinnedAt != (node.Source{Path: grub.DefaultsFile, Line: 1}) || !s.Generated {
		t.Errorf("pinned to %q at %s", s.Pinned, s.PinnedAt)
	}
	for _, selection := range []string{"0", "saved", "Advanced>0", "nothing of that name"} {
		if s, err := nextboot.Read(boot("GRUB_DEFAULT='" + selection + "'\n")); err != nil || s.Pinned != "" {
			t.Errorf("GRUB_DEFAULT=%s: pinned to %q, %v", selection, s.Pinned, err)
		}
	}
	fresh := boot("GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX_DEFAULT=b\n")
	fresh.Generated = ""
	if s, err = nextboot.Read(fresh); err != nil || s.Generated || !cmp.Equal([]string{" |  | a b | /etc/default/grub"}, lines(s)) {
		t.Errorf("%v, %v", lines(s), err)
	}
}

// TestPinned: what selects an entry that is none of this root's.
func TestPinned(t *testing.T) {
	const (
		head   = "# GRUB Environment Block\n"
		custom = "menuentry 'own' --id mine {\n\tlinux /vmlinuz root=UUID=01 ro\n}\n"
	)
	for _, test := range []struct{ name, defaults, env, want string }{
		{"nothing", "GRUB_DEFAULT=0\n", head, ""},
		{"saved, and nothing is", "GRUB_DEFAULT=saved\n", head, ""},
		{"saved, no environment block", "GRUB_DEFAULT=saved\n", "", ""},
		{"saved", "GRUB_DEFAULT=saved\n", head + "saved_entry=own\n", "saved_entry: own (/boot/grub/grubenv:2)"},
		{"saved, by its id", "GRUB_DEFAULT=saved\n", head + "# x\nsaved_entry=mine\n", "saved_entry: own (/boot/grub/grubenv:3)"},
		{"saved is one of ours", "GRUB_DEFAULT=saved\n", head + "saved_entry=Ubuntu\n", ""},
		{"saved, and not asked for", "GRUB_DEFAULT=0\n", head + "saved_entry=own\n", ""},
		{"once", "GRUB_DEFAULT=0\n", head + "next_entry=own\n", "next_entry: own (/boot/grub/grubenv:2)"},
		{"once, done", "GRUB_DEFAULT=0\n", head + "next_entry=\n", ""},
		{"once wins", "GRUB_DEFAULT='Debian on the other disk'\n", head + "next_entry=Ubuntu\n", ""},
		{"in custom.cfg", "GRUB_DEFAULT=own\n", head, "GRUB_DEFAULT: own (/etc/default/grub:1)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := boot(test.defaults)
			b.Custom, b.Environment = custom, test.env
			s, err := nextboot.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if s.Pinned != "" {
				got = s.PinnedBy + ": " + s.Pinned + " (" + s.PinnedAt.String() + ")"
			}
			if got != test.want {
				t.Errorf("got %q, wanted %q", got, test.want)
			}
		})
	}
	for want, change := range map[string]func(*node.BootConfig){
		"/boot/grub/grubenv: it does not begin": func(b *node.BootConfig) { b.Environment = "torn" },
		"/boot/grub/custom.cfg: grub.cfg:":      func(b *node.BootConfig) { b.Custom = "menuentry 'x' {\n" },
	} {
		b := boot("GRUB_DEFAULT=0\n")
		change(&b)
		if _, err := nextboot.Read(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, wanted %q", err, want)
		}
	}
}

func TestReadFails(t *testing.T) {
	unknown := "GRUB_CMDLINE_LINUX=$(args)\n"
	for want, change := range map[string]func(*node.BootConfig){
		"systemd-boot, busbar manages GRUB":  func(b *node.BootConfig) { b.Loader = node.LoaderSystemdBoot },
		"no boot loader that busbar manages": func(b *node.BootConfig) { b.Loader = node.LoaderNone },
		"/etc/default/grub:1":                func(b *node.BootConfig) { b.Defaults[0].Text = "A='\n" },
		"permission denied":                  func(b *node.BootConfig) { b.GeneratedReason = "permission denied" },
		"what update-grub would write":       func(b *node.BootConfig) { b.Generated, b.Defaults[0].Text = "", unknown },
		"grub.cfg:2":                         func(b *node.BootConfig) { b.Generated = "\nmenuentry 'a' {\n" },
		"no entry that boots Linux":          func(b *node.BootConfig) { b.Generated = "\n" },
	} {
		b := boot("")
		change(&b)
		_, err := nextboot.Read(b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		var unsupported *nextboot.UnsupportedError
		if errors.As(err, &unsupported) != (b.Loader != node.LoaderGRUBDebian) {
			t.Errorf("%T", err)
		}
	}
}

func TestRegenerate(t *testing.T) {
	text := `. /etc/tuned/bootcmdline
GRUB_CMDLINE_LINUX="root=ZFS=x pci=config_acs=\"a;b\""
if [ -f /absent ]; then GRUB_CMDLINE_LINUX=; fi
GRUB_CMDLINE_LINUX_DEFAULT=$TUNED
`
	b, err := nextboot.Regenerate(boot(text))
	if err != nil {
		t.Fatal(err)
	}
	// A second time changes nothing.
	twice, err := nextboot.Regenerate(b)
	if err != nil || twice.Generated != b.Generated {
		t.Errorf("%v\n%s", err, cmp.Diff(b.Generated, twice.Generated))
	}
	s, err := nextboot.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Ubuntu | 6.8.0-45-generic | root=UUID=01 ro rootflags=subvol=@ root=ZFS=x pci=config_acs=a;b nokaslr | /boot/grub/grub.cfg:3",
		"Ubuntu, with Linux 6.8.0-40 | 6.8.0-40-generic | root=UUID=01 ro rootflags=subvol=@ root=ZFS=x pci=config_acs=a;b nokaslr | /boot/grub/grub.cfg:7",
	}
	if diff := cmp.Diff(want, lines(s)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(b.Generated, "root=UUID=02 ro quiet\n") || !strings.Contains(b.Generated, "recovery nomodeset\n") {
		t.Error("another system's or a recovery entry was changed")
	}
	for _, change := range []func(*node.BootConfig){
		func(b *node.BootConfig) { b.Defaults[0].Text = "A='\n" },
		func(b *node.BootConfig) { b.Defaults[0].Text = "GRUB_CMDLINE_LINUX=$(args)\n" },
		func(b *node.BootConfig) { b.Generated = "menuentry 'a' {\n" },
	} {
		b := boot("")
		change(&b)
		if after, err := nextboot.Regenerate(b); err == nil || after.Generated != b.Generated {
			t.Errorf("%v", err)
		}
	}
}

func TestLeftOver(t *testing.T) {
	for defaults, want := range map[string]string{
		"GRUB_CMDLINE_LINUX_DEFAULT=quiet\n":        "",
		"GRUB_CMDLINE_LINUX_DEFAULT=splash\n":       "quiet",
		"GRUB_CMDLINE_LINUX_DEFAULT=quiet=1\n":      "quiet",
		"GRUB_CMDLINE_LINUX_DEFAULT=\"$(args)\"\n":  "",
		"GRUB_CMDLINE_LINUX='quiet dyndbg=\"a\"'\n": "",
	} {
		b := boot(defaults)
		b.Generated = strings.ReplaceAll(b.Generated, "quiet", "quiet $vt_handoff")
		s, err := nextboot.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.LeftOver().String(); got != want {
			t.Errorf("%q: %q, want %q", defaults, got, want)
		}
	}
}
