package modprobe

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/confdir"
)

func FuzzParseModprobe(f *testing.F) {
	for _, seed := range []string{
		"", "blacklist nouveau\n", "options nvidia NVreg_RegistryDwords=\"a=1;b=2\" x\\\n=1\n", "alias a-[0-9]* b\ninstall x /bin/true",
		"\ufeffblacklist a\r\n", "# c \\\nblacklist b\n", "blacklist [\n", "softdep a pre: b post: c", "\x00\xff\\", "include x\nremove a b\nweakdep a b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := ParseModprobe([]confdir.File{{Path: conf, Text: text}})
		lines := strings.Count(text, "\n") + 1
		if n := len(c.Statements) + len(problems); n > lines {
			t.Fatalf("%d results of %d lines", n, lines)
		}
		var valid []Statement
		for _, s := range c.Statements {
			if s.Line < 1 || s.Line > lines {
				t.Fatalf("line %d of %d", s.Line, lines)
			}
			c.Options(s.Module)
			c.Install(s.Module)
			Refuses(s.Args)
			if s.Validate() == nil {
				s.Line = len(valid) + 2
				valid = append(valid, s)
			}
		}
		again, problems := ParseModprobe([]confdir.File{{Path: conf, Text: RenderModprobe(valid)}})
		if problems != nil || !cmp.Equal(valid, again.Statements) {
			t.Fatalf("%v\n%s", problems, cmp.Diff(valid, again.Statements))
		}
	})
}

func FuzzParseModulesLoad(f *testing.F) {
	for _, seed := range []string{"", "nvidia-peermem\n", "# a\n; b\n c \r\n", "a b\n", "\ufeff\xff\x00[", "x\nx\nx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, problems := ParseModulesLoad([]confdir.File{{Path: conf, Text: text}})
		if n := len(entries) + len(problems); n > strings.Count(text, "\n")+1 {
			t.Fatalf("%d results", n)
		}
		var modules []string
		for _, e := range entries {
			modules = append(modules, e.Module)
		}
		again, _ := ParseModulesLoad([]confdir.File{{Path: conf, Text: RenderModulesLoad(modules)}})
		if len(again)+len(Duplicates(entries)) != len(entries) {
			t.Fatalf("%v became %v", entries, again)
		}
	})
}

func FuzzParseProcModules(f *testing.F) {
	for _, seed := range []string{
		"", "nvidia 16384 0 - Live 0x0000000000000000 (POE)\n", "ib_core 1 2 a,b, Live 0x0\n", "Module  Size  Used by\nx 1 - [permanent],\n", "\x00\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if loaded, err := ParseProcModules(text); err != nil && loaded != nil {
			t.Fatal("modules and an error")
		}
		loaded, err := ParseLsmod(text)
		if (err == nil) != (len(loaded) > 0) {
			t.Fatalf("%d modules, error %v", len(loaded), err)
		}
		if slices.ContainsFunc(loaded, func(m Loaded) bool { return m.Name == "" }) {
			t.Fatal("module without a name")
		}
	})
}

func FuzzFromCommandLine(f *testing.F) {
	for _, seed := range []string{"", "modprobe.blacklist=a,b module_blacklist=c", `"a.b=c d" x.y="z`, "a.b.c=1 .x=1 x.=1", "rd.driver.blacklist=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := FromCommandLine(strings.Split(text, " "))
		joined := Config{}.With(c)
		if len(joined.Statements) != len(c.Blacklist)+len(c.Options) {
			t.Fatal("statements lost")
		}
		for _, s := range joined.Statements {
			joined.Options(s.Module)
		}
	})
}
