package limits

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

const (
	conf    = "/etc/security/limits.conf"
	dropIn  = "/etc/security/limits.d/zz.conf"
	service = "/etc/systemd/system/slurmd.service.d/zz-busbar.conf"
)

func TestValue(t *testing.T) {
	for text, want := range map[string]Value{"unlimited": Unlimited, "infinity": Unlimited, "0": 0, "8388608": 8388608} {
		got, err := ParseValue(text)
		if got != want || err != nil {
			t.Errorf("ParseValue(%q) = %d, %v", text, got, err)
		}
		if s := got.String(); s != text && text != "infinity" {
			t.Errorf("%q prints as %q", text, s)
		}
	}
	for _, bad := range []string{"", "-1", "8M", "18446744073709551615", "18446744073709551616", " 1"} {
		if got, err := ParseValue(bad); err == nil {
			t.Errorf("ParseValue(%q) = %d", bad, got)
		}
	}
}

func TestOrder(t *testing.T) {
	var got []string
	for _, f := range Order([]confdir.File{
		{Path: "/etc/security/limits.d/zz-busbar.conf"}, {Path: "/etc/security/limits.d/README"}, {Path: "/etc/security/limits.d/.a.conf"},
		{Path: "/etc/security/limits.d/Z.conf"}, {Path: conf}, {Path: "/etc/security/limits.d/a.conf"}, {Path: "/etc/security/access.conf"},
	}) {
		got = append(got, f.Path)
	}
	want := []string{conf, "/etc/security/limits.d/Z.conf", "/etc/security/limits.d/a.conf", "/etc/security/limits.d/zz-busbar.conf"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParse(t *testing.T) {
	entries, problems := Parse([]confdir.File{
		{Path: conf, Text: "# c\n\n  *\tHARD memlock Unlimited # all\n@rdma - nofile 1048576\n1000:2000 soft stack 8192\nftp -\n" +
			"* - memlock 64M\n* - memlock 18014398509481984\n* - nofile -1\n* - memlock -\n" +
			"* - maxlogins 4\n% - maxlogins 4\n% - nofile 4\n* both nofile 4\n* - nofiles 4\n* - nofile x\n* - nofile\n5:x - nofile 1\n* - memlock unlimited\r\n* - nofile 1024 2048\n" +
			"root - nofile 1\x00"},
		{Path: dropIn, Reason: "input/output error"},
	})
	at := func(line int) Origin { return Origin{conf, line} }
	if diff := cmp.Diff([]Entry{
		{"*", "hard", "memlock", Unlimited, at(3)},
		{"@rdma", "-", "nofile", 1048576, at(4)},
		{"1000:2000", "soft", "stack", 8 << 20, at(5)},
		{"ftp", "-", "", 0, at(6)},
		{"*", "-", "memlock", 64 << 10, at(7)},
		{"*", "-", "memlock", Unlimited, at(8)},
		{"*", "-", "nofile", Unlimited, at(9)},
		{"*", "-", "memlock", Unlimited, at(10)},
		{"*", "-", "nofile", 1024, at(20)},
	}, entries); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Problem{
		{File: conf, Line: 7, Text: `value of memlock is read as "64", the rest is ignored: "m"`},
		{File: conf, Line: 13, Text: `domain "%" is for maxlogins only`},
		{File: conf, Line: 14, Text: `unknown type "both"`},
		{File: conf, Line: 15, Text: `unknown item "nofiles"`},
		{File: conf, Line: 16, Text: `value "x" of nofile is neither a number nor "unlimited"`},
		{File: conf, Line: 17, Text: `not DOMAIN TYPE ITEM VALUE: "* - nofile"`},
		{File: conf, Line: 18, Text: `invalid range of ids "5:x"`},
		{File: conf, Line: 19, Text: `carriage return in the value: "* - memlock unlimited\r"`},
		{File: conf, Line: 20, Text: `value of nofile is read as "1024", the rest is ignored: "2048"`},
		{File: conf, Line: 21, Text: `line with a NUL byte: "root - nofile 1\x00"`},
		{File: dropIn, Text: "content unknown: input/output error", Unread: true},
	}, problems); diff != "" {
		t.Error(diff)
	}
}

func TestEffective(t *testing.T) {
	at := func(v Value, line int) Bound { return Bound{Value: v, Set: true, Origin: Origin{conf, line}} }
	tests := []struct {
		name, text, user string
		soft, hard       Bound
		undecided        int
		found            bool
	}{
		{name: "absent", text: "* - nofile 1\n", user: "*"},
		{name: "both at once", text: "* - memlock unlimited", user: "*", soft: at(Unlimited, 1), hard: at(Unlimited, 1), found: true},
		{name: "last wins", text: "* - memlock 64\n* soft memlock 32", user: "alice", soft: at(32<<10, 2), hard: at(64<<10, 1), found: true},
		{name: "user beats default", text: "alice - memlock 64\n* - memlock unlimited", user: "alice", soft: at(64<<10, 1), hard: at(64<<10, 1), found: true},
		{name: "lines of other users", text: "bob - memlock 64\n", user: "alice"},
		{name: "soft alone", text: "* soft memlock unlimited", user: "*", soft: at(Unlimited, 1), found: true},
		{name: "soft above hard", text: "* soft memlock unlimited\n* hard memlock 64", user: "*", soft: at(64<<10, 2), hard: at(64<<10, 2), found: true},
		{name: "a dash that loses soft leaves hard", text: "alice soft memlock 1\n* - memlock 2", user: "alice", soft: at(1<<10, 1), found: true},
		{name: "groups and ranges", text: "* - memlock 1\n@rdma - memlock 2\n1000: hard memlock 3\n@rdma - nofile 1\n@x -\n", user: "*",
			soft: at(1<<10, 1), hard: at(1<<10, 1), undecided: 3, found: true},
		{name: "root is not everybody", text: "* - memlock unlimited\n@root - memlock unlimited", user: "root"},
		{name: "root by name", text: "root - memlock unlimited\n* - memlock 1", user: "root", soft: at(Unlimited, 1), hard: at(Unlimited, 1), found: true},
		{name: "root by id", text: ":0 - memlock 1\n0: hard memlock 2\n1:5 hard memlock 3", user: "root", soft: at(1<<10, 1), hard: at(2<<10, 2), found: true},
		{name: "limits taken off", text: "* - memlock 1\nalice -\n", user: "alice"},
		{name: "a dash for everybody does nothing", text: "* - memlock 1\n* -\n", user: "*", soft: at(1<<10, 1), hard: at(1<<10, 1), found: true},
	}
	for _, tt := range tests {
		entries, problems := Parse([]confdir.File{{Path: conf, Text: tt.text}})
		if problems != nil {
			t.Fatal(problems)
		}
		got, found := Effective(entries, tt.user, "memlock")
		if got.Soft != tt.soft || got.Hard != tt.hard || len(got.Undecided) != tt.undecided || found != tt.found {
			t.Errorf("%s: %+v, %t", tt.name, got, found)
		}
	}
	if _, found := Effective([]Entry{{}}, "*", "memlock"); found {
		t.Error("found in an empty entry")
	}
}

// limits.d beats limits.conf, and a later file an earlier one.
func TestEffectiveAcrossFiles(t *testing.T) {
	entries, _ := Parse(Order([]confdir.File{
		{Path: dropIn, Text: "* hard memlock 64\n"},
		{Path: conf, Text: "* hard memlock unlimited\n"},
	}))
	got, _ := Effective(entries, "*", "memlock")
	if want := (Bound{Value: 64 << 10, Set: true, Origin: Origin{dropIn, 1}}); got.Hard != want {
		t.Errorf("%+v", got.Hard)
	}
}

const procLimits = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max stack size            8388608              unlimited            bytes     
Max processes             254897               254897               processes 
Max open files            1024                 524288               files     
Max locked memory         8388608              8388608              bytes     
Max nice priority         0                    0                    
Max new thing             1                    2                    things    
`

func TestParseProc(t *testing.T) {
	got, err := ParseProc(procLimits)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Pair{"stack": {8388608, Unlimited}, "nproc": {254897, 254897}, "nofile": {1024, 524288}, "memlock": {8388608, 8388608}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"", "no limits here\n", "Max locked memory", "Max locked memory  65536", "Max locked memory  65536  655",
		"Max locked memory  65536  65536  byt", "Max locked memory  65536  65536  files", "Max open files  1k  1k  files",
		"Max open files infinity infinity files", "Max locked mem", procLimits + procLimits,
	} {
		if got, err := ParseProc(bad); err == nil {
			t.Errorf("%q: parsed as %v", bad, got)
		}
	}
	// Whatever is cut off, no value changes: a row is whole or the text refused.
	for i := range len(procLimits) {
		got, err := ParseProc(procLimits[:i])
		if err != nil {
			continue
		}
		for item, pair := range got {
			if pair != want[item] {
				t.Errorf("cut off at byte %d: %s is %v", i, item, pair)
			}
		}
	}
}

func TestParseUnit(t *testing.T) {
	unit := "\ufeff[Unit]\r\nDescription=x\r\nLimitMEMLOCK=1\n[Service]\nExecStart=/bin/x -a=b \\\n  # comment between\n  --c\n" +
		"LimitMEMLOCK = 64K:infinity\n; c\nLimitNOFILE=\\\n 1048576\nLimitSTACK=8M\nLimitSTACK=\nLimitSTACK=2G:1G\nLimitNOFILE=1M\nLimitCPU=10min\nDefaultLimitNOFILE=1\nLimitBOGUS=1\nfoo\n[X-Own]\n[Socket]\nLimitNOFILE=7\n"
	got, problems := ParseUnit([]confdir.File{
		{Path: "/usr/lib/systemd/system/slurmd.service", Text: unit},
		{Path: service, Text: "LimitMEMLOCK=1\n[Service]\nLimitMEMLOCK=infinity\n[Service\nLimitNOFILE=5"},
		{Path: "/etc/systemd/system/slurmd.service.d/zzz.conf", Reason: "permission denied"},
	})
	at := func(line int) Origin { return Origin{"/usr/lib/systemd/system/slurmd.service", line} }
	if diff := cmp.Diff([]Assignment{
		{Service, "memlock", 64 << 10, Unlimited, at(8)},
		{Service, "nofile", 1048576, 1048576, at(10)},
		{Service, "stack", 8 << 20, 8 << 20, at(12)},
		{Service, "memlock", Unlimited, Unlimited, Origin{service, 3}},
	}, got); diff != "" {
		t.Error(diff)
	}
	file := at(0).File
	if diff := cmp.Diff([]Problem{
		{File: file, Line: 3, Text: "LimitMEMLOCK= in section [Unit] is ignored: it belongs in [Service]"},
		{File: file, Line: 13, Text: `LimitSTACK= is ignored: "" is neither a size nor "infinity"`},
		{File: file, Line: 14, Text: "LimitSTACK=2G:1G is ignored: the soft limit is above the hard one"},
		{File: file, Line: 15, Text: `LimitNOFILE=1M is ignored: "1M" is neither a number nor "infinity"`},
		{File: file, Line: 17, Text: "DefaultLimitNOFILE= in section [Service] is ignored: it belongs in [Manager]"},
		{File: file, Line: 18, Text: "unknown setting LimitBOGUS="},
		{File: file, Line: 19, Text: `missing '=': "foo"`},
		{File: service, Line: 1, Text: "LimitMEMLOCK= outside of a section is ignored"},
		{File: service, Line: 4, Text: `invalid section header, the rest of the file is not read: "[Service"`},
		{File: "/etc/systemd/system/slurmd.service.d/zzz.conf", Text: "content unknown: permission denied", Unread: true},
	}, problems); diff != "" {
		t.Error(diff)
	}

	limit, found := EffectiveUnit(got, "memlock")
	if !found || limit.Soft != (Bound{Unlimited, true, Origin{service, 3}}) {
		t.Errorf("memlock: %+v", limit)
	}
	if limit, found := EffectiveUnit(got, "nproc"); found {
		t.Errorf("nproc: %+v", limit)
	}
	manager, problems := ParseUnit([]confdir.File{{Path: "/etc/systemd/system.conf", Text: "[Manager]\nDefaultLimitMEMLOCK=1M\nDefaultLimitNPROC=5:6"}})
	if problems != nil {
		t.Error(problems)
	}
	all := append(manager, got...)
	if limit, _ := EffectiveUnit(all, "memlock"); limit.Hard.Value != Unlimited {
		t.Errorf("the manager's default beats the unit: %+v", limit)
	}
	if limit, _ := EffectiveUnit(all, "nproc"); limit.Soft.Value != 5 || limit.Hard.Value != 6 || limit.Hard.Line != 3 {
		t.Errorf("nproc: %+v", limit)
	}
}

func TestContinuationAtTheEnd(t *testing.T) {
	got, problems := ParseUnit([]confdir.File{{Path: service, Text: "[Service]\nLimitMEMLOCK=1M \\"}})
	if problems != nil || len(got) != 1 || got[0].Line != 2 {
		t.Errorf("%v %v", got, problems)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "65536": 65536, "64K": 64 << 10, "8M": 8 << 20, "1.5G": 3 << 29, "10.M": 10 << 20, "1G 512M": 1<<30 + 512<<20,
		"1T": 1 << 40, "1P": 1 << 50, "1E": 1 << 60, "3B": 3, "2 K": 2 << 10, "1G5": 1<<30 + 5,
	} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", " ", "x", "-1", "1KiB", "1k", "16E", "1M 1G", "5 5", "1K ", "99999999999999999999", ".5G", "15.9E 15.9E"} {
		if got, err := parseSize(bad); err == nil {
			t.Errorf("parseSize(%q) = %d", bad, got)
		}
	}
}

func drawValue(t *rapid.T, r resource) Value {
	if rapid.Bool().Draw(t, "unlimited") {
		return Unlimited
	}
	return Value(rapid.Uint64Range(0, 1<<53).Draw(t, "value")) * r.scale
}

func TestRender(t *testing.T) {
	if got := Render(nil); got != "" {
		t.Errorf("nothing to render: %q", got)
	}
	want := "# Written by busbar. It owns this file: edits are lost.\n* - memlock unlimited\n* hard stack 65536\nroot - memlock unlimited\n"
	if got := Render([]Entry{
		{Domain: "root", Type: "-", Item: "memlock", Value: Unlimited},
		{Domain: "*", Type: "hard", Item: "stack", Value: 64 << 20},
		{Domain: "*", Type: "-", Item: "memlock", Value: Unlimited},
	}); got != want {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
			r := rapid.SampledFrom(resources).Draw(t, "resource")
			return Entry{
				Domain: rapid.StringMatching(`\*|@?[A-Za-z][a-z0-9]{0,4}|@?[0-9]{1,4}:[0-9]{0,4}|:[0-9]{1,4}`).Draw(t, "domain"),
				Type:   rapid.SampledFrom([]string{"-", "soft", "hard"}).Draw(t, "type"),
				Item:   r.item, Value: drawValue(t, r),
			}
		}), 1, 6).Draw(t, "entries")
		for _, e := range entries {
			if err := e.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		got, problems := Parse([]confdir.File{{Path: conf, Text: Render(entries)}})
		slices.SortStableFunc(entries, compareEntries)
		for i := range entries {
			entries[i].Origin = Origin{conf, i + 2}
		}
		if problems != nil || !cmp.Equal(entries, got) {
			t.Fatalf("%v\n%s", problems, cmp.Diff(entries, got))
		}
	})
}

func TestRenderUnit(t *testing.T) {
	if got := RenderUnit(nil); got != "" {
		t.Errorf("nothing to render: %q", got)
	}
	want := "# Written by busbar. It owns this file: edits are lost.\n[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1024:1048576\n"
	if got := RenderUnit([]Assignment{
		{Section: Service, Item: "nofile", Soft: 1024, Hard: 1048576},
		{Section: Service, Item: "memlock", Soft: Unlimited, Hard: Unlimited},
	}); got != want {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Assignment {
			r := rapid.SampledFrom(resources).Draw(t, "resource")
			a, b := drawValue(t, r), drawValue(t, r)
			return Assignment{
				Section: rapid.SampledFrom([]string{Service, Manager}).Draw(t, "section"),
				Item:    r.item, Soft: min(a, b), Hard: max(a, b),
			}
		}), 1, 6).Draw(t, "assignments")
		for _, a := range drawn {
			if err := a.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		got, problems := ParseUnit([]confdir.File{{Path: service, Text: RenderUnit(drawn)}})
		slices.SortStableFunc(drawn, compareAssignments)
		for i := range got {
			got[i].Origin = Origin{}
		}
		if problems != nil || !cmp.Equal(drawn, got) {
			t.Fatalf("%v\n%s", problems, cmp.Diff(drawn, got))
		}
	})
}

func TestValidate(t *testing.T) {
	for _, e := range []Entry{
		{Type: "-", Item: "memlock"}, {Domain: "a b", Type: "-", Item: "memlock"}, {Domain: "a\n* - core", Type: "-", Item: "memlock"},
		{Domain: "#a", Type: "-", Item: "memlock"}, {Domain: "%a", Type: "-", Item: "memlock"}, {Domain: "1:x", Type: "-", Item: "memlock"},
		{Domain: "*", Type: "both", Item: "memlock"}, {Domain: "*", Type: "-", Item: "maxlogins"}, {Domain: "*", Type: "-"},
		{Domain: "*", Type: "-", Item: "memlock", Value: 1}, {Domain: "*", Type: "-", Item: "memlock", Value: Unlimited - 1023},
	} {
		if e.Validate() == nil {
			t.Errorf("%+v is valid", e)
		}
	}
	for _, a := range []Assignment{
		{Section: "Unit", Item: "memlock"}, {Section: Service, Item: "cpu"}, {Section: Service, Item: "memlock", Soft: 2, Hard: 1},
	} {
		if a.Validate() == nil {
			t.Errorf("%+v is valid", a)
		}
	}
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

func TestCaseConfRightDaemonWrong(t *testing.T) {
	entries, problems := Parse([]confdir.File{{Path: conf, Text: readCase(t, "limits-conf-ok"+conf)}})
	limit, found := Effective(entries, "*", "memlock")
	if problems != nil || !found || limit.Soft.Value != Unlimited || limit.Hard.Value != Unlimited || limit.Soft.Line != 1 || limit.Hard.Line != 2 {
		t.Errorf("%v %+v", problems, limit)
	}
	got, err := ParseProc(readCase(t, "limits-conf-ok/proc/slurmd.limits"))
	if diff := cmp.Diff(map[string]Pair{"memlock": {65536, 65536}, "stack": {8388608, Unlimited}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestCaseContainerd(t *testing.T) {
	got, err := ParseProc(readCase(t, "limits-containerd-8m.txt"))
	if diff := cmp.Diff(map[string]Pair{"memlock": {8 << 20, 8 << 20}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	const unit = "/etc/systemd/system/containerd.service.d/10-memlock.conf"
	assignments, problems := ParseUnit([]confdir.File{{Path: unit, Text: readCase(t, "limits-dropin-ok"+unit)}})
	limit, found := EffectiveUnit(assignments, "memlock")
	if problems != nil || !found || limit.Hard != (Bound{Unlimited, true, Origin{unit, 2}}) {
		t.Errorf("%v %+v", problems, limit)
	}
}

func TestCaseAzure(t *testing.T) {
	entries, problems := Parse([]confdir.File{{Path: conf, Text: readCase(t, "limits-azure.conf")}})
	if problems != nil {
		t.Error(problems)
	}
	for item, want := range map[string]Value{"memlock": Unlimited, "nofile": 1048576, "stack": Unlimited} {
		limit, found := Effective(entries, "*", item)
		if !found || limit.Soft.Value != want || limit.Hard.Value != want {
			t.Errorf("%s: %+v", item, limit)
		}
	}
	if limit, found := Effective(entries, "root", "memlock"); found {
		t.Errorf("root: %+v", limit)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "* - memlock unlimited\n", "@g hard nofile 1 # c\n:5 soft stack 8192\r\n", "root -\n1: - as 5\n% - maxlogins 1", "\ufeff* - nofile 1\n\x00\xff", "* - memlock 99999999999999999999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, _ := Parse([]confdir.File{{Path: conf, Text: text}})
		var valid []Entry
		for _, e := range entries {
			if e.Validate() == nil {
				e.Origin = Origin{}
				valid = append(valid, e)
			}
		}
		for _, user := range []string{"*", "root", "alice"} {
			limit, found := Effective(entries, user, "memlock")
			if found != (limit.Soft.Set || limit.Hard.Set) {
				t.Fatalf("%+v, found %t", limit, found)
			}
		}
		again, problems := Parse([]confdir.File{{Path: conf, Text: Render(valid)}})
		slices.SortStableFunc(valid, compareEntries)
		for i := range again {
			again[i].Origin = Origin{}
		}
		if problems != nil || !cmp.Equal(valid, again) {
			t.Fatalf("%v\n%s", problems, cmp.Diff(valid, again))
		}
	})
}

func FuzzParseProc(f *testing.F) {
	for _, seed := range []string{"", procLimits, procLimits[:200], "Max open files 1 2 files\r\n", "\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := ParseProc(text)
		if (err == nil) != (len(pairs) > 0) {
			t.Fatalf("%v, error %v", pairs, err)
		}
	})
}

func FuzzParseUnit(f *testing.F) {
	for _, seed := range []string{
		"", "[Service]\nLimitMEMLOCK=infinity\n", "\ufeff[Manager]\r\nDefaultLimitNOFILE=1:2\r\n", "[Service]\nLimitSTACK=1.5G 2M \\\n# c\n x\\\\\n", "[Service\n\x00\xff=\n", "LimitMEMLOCK=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		assignments, problems := ParseUnit([]confdir.File{{Path: service, Text: text}})
		if n := len(assignments) + len(problems); n > strings.Count(text, "\n")+1 {
			t.Fatalf("%d results", n)
		}
		for i, a := range assignments {
			if err := a.Validate(); err != nil {
				t.Fatal(err)
			}
			assignments[i].Origin = Origin{}
		}
		again, problems := ParseUnit([]confdir.File{{Path: service, Text: RenderUnit(assignments)}})
		slices.SortStableFunc(assignments, compareAssignments)
		for i := range again {
			again[i].Origin = Origin{}
		}
		if problems != nil || !cmp.Equal(assignments, again) {
			t.Fatalf("%v\n%s", problems, cmp.Diff(assignments, again))
		}
	})
}
