package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/sysctld"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/plan/sink"
)

// scripted is a block type that answers with what a test gives it, by label.
type scripted map[string]plan.Assessment

func (scripted) Spec() plan.Spec {
	return plan.Spec{Name: "scripted", Label: plan.LabelRequired, Ceiling: plan.DriverReload, Sinks: []string{sink.SysctlName}}
}

func (scripted) Queries(b plan.Block, _ node.Inventory) []node.Query {
	return []node.Query{node.Sysctl.Query(b.Label)}
}

func (s scripted) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	if _, ok := node.Sysctl.Get(facts, "not.asked.for").Get(); ok {
		panic("an undeclared read was answered")
	}
	return s[b.Label]
}

func block(label string, change func(*plan.Block)) plan.Block {
	b := plan.Block{Address: plan.Address("scripted", label), Type: "scripted", Label: label, Origin: plan.Origin{File: "node.hcl", Line: len(label)}}
	if change != nil {
		change(&b)
	}
	return b
}

func finding(status plan.Status, change func(*plan.Finding)) plan.Assessment {
	f := plan.Finding{ID: "x.y", Status: status, Target: "t"}
	if change != nil {
		change(&f)
	}
	return plan.Assessment{Findings: []plan.Finding{f}}
}

func TestAssemble(t *testing.T) {
	until := func(day int) *plan.Waiver {
		return &plan.Waiver{Reason: "known", Until: time.Date(2026, 7, day, 0, 0, 0, 0, time.UTC)}
	}
	provider := finding(plan.Drift, func(f *plan.Finding) { f.Fixable = true })
	provider.Steps = []plan.Step{{Target: "m", Action: plan.LoadModule{Name: "m"}, Provides: []string{node.CapabilityRDMA}}}
	waits := finding(plan.Undetermined, func(f *plan.Finding) { f.Needs = node.CapabilityRDMA })
	for _, tt := range []struct {
		name   string
		types  scripted
		blocks []plan.Block
		want   string
		exit   int
	}{
		{"nothing", nil, nil, "", plan.ExitOK},
		{"severity of the block", scripted{"a": finding(plan.Drift, nil)}, []plan.Block{block("a", func(b *plan.Block) { b.Severity = plan.Warning })}, "drift warn x.y t ()\n", plan.ExitOK},
		{"a finding's own lower severity stays", scripted{"a": finding(plan.Drift, func(f *plan.Finding) { f.Severity = plan.Info })}, []plan.Block{block("a", func(b *plan.Block) { b.Severity = plan.Warning })}, "drift info x.y t ()\n", plan.ExitOK},
		{"optional", scripted{"a": finding(plan.Unsupported, func(f *plan.Finding) { f.Feature = "ecn" })}, []plan.Block{block("a", func(b *plan.Block) { b.Optional = []string{"ecn"} })}, "unsupported x.y t ()\n", plan.ExitOK},
		{"not optional", scripted{"a": finding(plan.Unsupported, func(f *plan.Finding) { f.Feature = "pfc" })}, []plan.Block{block("a", func(b *plan.Block) { b.Optional = []string{"ecn"} })}, "unsupported x.y t ()\n", plan.ExitDrift},
		{"waived", scripted{"a": finding(plan.Conflict, nil)}, []plan.Block{block("a", func(b *plan.Block) { b.Waive = until(2) })}, "waived x.y t ()\n", plan.ExitOK},
		{"waived for ever", scripted{"a": finding(plan.Drift, nil)}, []plan.Block{block("a", func(b *plan.Block) { b.Waive = &plan.Waiver{Reason: "known"} })}, "waived x.y t ()\n", plan.ExitOK},
		{"what is ok needs no waiver", scripted{"a": finding(plan.OK, nil)}, []plan.Block{block("a", func(b *plan.Block) { b.Waive = until(2) })}, "ok x.y t ()\n", plan.ExitOK},
		{"the waiver is over", scripted{"a": finding(plan.Drift, nil)}, []plan.Block{block("a", func(b *plan.Block) { b.Waive = until(1) })}, "drift x.y t ()\n", plan.ExitDrift},
		{"unknown", scripted{"a": waits}, []plan.Block{block("a", nil)}, "unknown x.y t ()\n", plan.ExitUnknown},
		{"deferred", scripted{"a": waits, "b": provider}, []plan.Block{block("a", nil), block("b", nil)}, "deferred x.y t ()\n!drift x.y t ()\nstep load-module:m\n", plan.ExitDrift},
		{"pending", scripted{"a": finding(plan.PendingReboot, nil)}, []plan.Block{block("a", nil)}, "pending-reboot x.y t ()\n", plan.ExitReboot},
		{"fixable without a step", scripted{"a": finding(plan.Drift, func(f *plan.Finding) { f.Fixable = true })}, []plan.Block{block("a", nil)}, "drift x.y t ()\n", plan.ExitDrift},
		{"undecided", nil, []plan.Block{block("ab", func(b *plan.Block) { b.Undecided, b.Needs = "no PCI bus", "x" })}, "unknown scripted.undecided  (node.hcl:2)\n", plan.ExitUnknown},
		{"withheld", nil, []plan.Block{block("ab", func(b *plan.Block) {
			b.Withheld = []plan.Withheld{{Attribute: "settings", Key: "A", Reason: "no RDMA"}, {Attribute: "value", Reason: "no RDMA"}}
			b.Origins = map[string]plan.Origin{"settings.A": {File: "node.hcl", Line: 7}}
		})}, "unknown scripted.withheld settings.A (node.hcl:7)\nunknown scripted.withheld value (node.hcl:2)\n", plan.ExitUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.NewPlanner([]plan.Type{tt.types}, nil).Plan(tt.blocks, plantest.Node())
			if diff := cmp.Diff(tt.want, plantest.Summarize(p)); diff != "" {
				t.Error(diff)
			}
			if p.ExitCode() != tt.exit {
				t.Errorf("exit code %d, want %d", p.ExitCode(), tt.exit)
			}
			for _, d := range p.Deferred {
				if want := (plan.DeferredBlock{Address: "scripted.a", Unlocks: "load-module:m", Ceiling: plan.DriverReload}); d != want {
					t.Errorf("deferred: %+v", d)
				}
			}
		})
	}
}

func TestOrder(t *testing.T) {
	step := func(target string, phase plan.Phase, requires ...string) plan.Assessment {
		return plan.Assessment{Steps: []plan.Step{{Target: target, Phase: phase, Action: plan.SetSysctl{Name: target, Value: "1"}, Requires: requires, Provides: []string{"p " + target}}}}
	}
	types := scripted{
		"a": step("a", plan.PhaseFiles, "p z"), "b": step("b", plan.PhaseFiles), "c": step("c", plan.PhaseFiles, "p d"),
		"d": step("d", plan.PhaseServices, "p c", "nobody provides this"), "z": step("z", plan.PhaseServices),
	}
	blocks := []plan.Block{
		block("a", nil), block("c", nil), block("d", nil), block("z", nil),
		block("b", func(b *plan.Block) { b.DependsOn = []string{"scripted.d"} }),
	}
	p := plan.NewPlanner([]plan.Type{types}, nil).Plan(blocks, plantest.Node())
	var order, expects []string
	for _, s := range p.Steps {
		order = append(order, s.Target)
		expects = append(expects, s.Expect)
	}
	if got := strings.Join(order, " "); got != "z a c d b" {
		t.Errorf("order: %s", got)
	}
	if diff := cmp.Diff([]string{"set-sysctl:d"}, p.Steps[4].Requires); diff != "" {
		t.Error(diff)
	}
	again := plan.NewPlanner([]plan.Type{types}, nil).Plan(blocks, plantest.Node(node.Sysctl.Answer("z", node.Known("5", node.Source{}))))
	if again.Steps[0].Expect == expects[0] || again.Steps[1].Expect != expects[1] {
		t.Error("the fingerprint does not follow the answers to the step's own queries")
	}
}

func TestMergedSteps(t *testing.T) {
	one := func(a plan.Action, effect plan.Effect) plan.Assessment {
		return plan.Assessment{Steps: []plan.Step{{Target: "u", Action: a, Effect: effect, Settle: time.Duration(effect)}}}
	}
	p := plan.NewPlanner([]plan.Type{scripted{
		"a": one(plan.SetUnit{Unit: "u", Enablement: "enabled"}, plan.Live), "b": one(plan.SetUnit{Unit: "u", Active: "active"}, plan.ServiceRestart),
		"c": one(plan.RestartUnit{Unit: "u", Limits: []plan.ProcessLimit{{Item: "memlock", Value: 1}}}, plan.Live),
		"d": one(plan.RestartUnit{Unit: "u", Limits: []plan.ProcessLimit{{Item: "memlock", Value: 1}, {Item: "nofile", Value: 2}}}, plan.Live),
		"e": one(plan.LoadModule{Name: "u"}, plan.Live), "f": one(plan.LoadModule{Name: "u"}, plan.Live),
	}}, nil).Plan([]plan.Block{block("a", nil), block("b", nil), block("c", nil), block("d", nil), block("e", nil), block("f", nil)}, plantest.Node())
	var got []any
	for _, s := range p.Steps {
		got = append(got, s.Action, strings.Join(s.Addresses, " "), s.Effect)
	}
	want := []any{
		plan.LoadModule{Name: "u"}, "scripted.e scripted.f", plan.Live,
		plan.RestartUnit{Unit: "u", Limits: []plan.ProcessLimit{{Item: "memlock", Value: 1}, {Item: "nofile", Value: 2}}}, "scripted.c scripted.d", plan.Live,
		plan.SetUnit{Unit: "u", Enablement: "enabled", Active: "active"}, "scripted.a scripted.b", plan.ServiceRestart,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestQueriesAndConflicts(t *testing.T) {
	wants := func(value string) plan.Assessment {
		return plan.Assessment{Contributions: []plan.Contribution{{Sink: sink.SysctlName, Key: "kernel.numa_balancing", Value: value}}}
	}
	p := plantest.Planner([]plan.Type{scripted{"a": wants("0"), "bb": wants("1"), "c": wants("0")}})
	blocks := []plan.Block{block("a", nil), block("bb", nil), block("c", nil), block("d", func(b *plan.Block) { b.Undecided = "why" })}
	queries := p.Queries(blocks, node.Inventory{})
	asked := map[node.Query]int{}
	for _, q := range queries {
		asked[q]++
	}
	for q, want := range map[node.Query]int{node.Sysctl.Query("a"): 1, node.Sysctl.Query("d"): 0, node.Boot.Query(""): 1, node.SysctlFiles.Query(""): 1, node.OwnedDropIns.Query(""): 1} {
		if asked[q] != want {
			t.Errorf("%s is asked for %d times, want %d", q, asked[q], want)
		}
	}
	conflicts := p.Conflicts(blocks)
	if len(conflicts) != 2 || conflicts[0].Summary != `kernel.numa_balancing "0" is wanted (node.hcl:1), and scripted.bb wants "1" (node.hcl:2)` || conflicts[1].Address != "scripted.c" {
		t.Errorf("%+v", conflicts)
	}
	if got := p.Conflicts(blocks[2:]); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestContradictions: two blocks that stand against each other in several things are told of
// once on each, and what they want there is not done; the rest of them is.
func TestContradictions(t *testing.T) {
	wants := func(fact, parameter string) plan.Assessment {
		return plan.Assessment{Contributions: []plan.Contribution{
			{Sink: plan.FactSink, Key: "mode", Value: fact}, {Sink: plan.FactSink, Key: "use", Value: fact},
			{Sink: sink.SysctlName, Key: parameter, Value: fact},
			{Sink: sink.SysctlName, Key: "net." + parameter, Value: "1", Origin: plan.Origin{File: "node.hcl", Line: 9}},
		}}
	}
	types := scripted{"a": wants("on", "a"), "bb": wants("off", "bb")}
	blocks := []plan.Block{block("a", nil), block("bb", nil)}
	p := plantest.Planner([]plan.Type{types})
	if got := p.Conflicts(blocks); len(got) != 1 || got[0].Summary != `mode "on" is wanted (node.hcl:1), and scripted.bb wants "off" (node.hcl:2)` {
		t.Errorf("%+v", got)
	}
	want := `conflict profile.contradiction mode (node.hcl:2)
!drift sysctl.boot net.a (/etc/sysctl.d)
conflict profile.contradiction mode (node.hcl:1)
!drift sysctl.boot net.bb (/etc/sysctl.d)
step write-file:/etc/sysctl.d/zz-busbar.conf
`
	if diff := cmp.Diff(want, plantest.Summarize(p.Plan(blocks, plantest.Node()))); diff != "" {
		t.Error(diff)
	}
}

// TestUndecided: what a block wants is not known, or two contradict each other. Nothing of it goes
// from busbar's file, and what others want comes.
func TestUndecided(t *testing.T) {
	wants := func(key, value string) plan.Assessment {
		return plan.Assessment{Contributions: []plan.Contribution{{Sink: sink.SysctlName, Key: key, Value: value}}}
	}
	types := scripted{"a": wants("a", "1"), "known": wants("new", "1"), "aa": wants("a", "2"), "changed": wants("old", "8")}
	file := func(settings ...sysctld.Setting) string { return sysctld.Render(settings) }
	const path = "/etc/sysctl.d/zz-busbar.conf"
	before := []sysctld.Setting{{Name: "a", Value: "1"}, {Name: "old", Value: "7"}}
	added := file(append(before, sysctld.Setting{Name: "new", Value: "1"})...)
	for name, tt := range map[string]struct {
		blocks []plan.Block
		want   string
	}{
		"undecided": {[]plan.Block{block("known", nil), block("a", func(b *plan.Block) { b.Undecided = "why" })}, added},
		"withheld": {[]plan.Block{block("known", nil), block("other", func(b *plan.Block) {
			b.Withheld = []plan.Withheld{{Attribute: "value", Reason: "why"}}
		})}, added},
		"contradicted": {[]plan.Block{block("known", nil), block("a", nil), block("aa", nil)}, added},
		"changed": {[]plan.Block{block("changed", nil), block("a", func(b *plan.Block) { b.Undecided = "why" })},
			file(before[0], sysctld.Setting{Name: "old", Value: "8"})},
		"dropped": {[]plan.Block{block("a", nil)}, file(before[0])},
	} {
		facts := plantest.Node(plantest.Files(node.SysctlFiles, map[string]string{path: file(before...)}))
		p := plantest.Planner([]plan.Type{types}).Plan(tt.blocks, facts)
		if len(p.Steps) != 1 {
			t.Errorf("%s: %s", name, plantest.Summarize(p))
			continue
		}
		if w, ok := p.Steps[0].Action.(plan.WriteFile); !ok || w.Text != tt.want {
			t.Errorf("%s: (-want +got)\n%s", name, cmp.Diff(tt.want, w.Text))
		}
	}
}

func TestWaiver(t *testing.T) {
	end := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC) // Node is observed at noon
	for _, tt := range []struct {
		until          time.Time
		status, waiver string
	}{
		{time.Time{}, "waived", "known"},
		{end.AddDate(0, 0, 1), "waived", "known (until 2026-07-02)"},
		{end, "drift", "ended 2026-07-01: known"},
	} {
		b := block("a", func(b *plan.Block) { b.Waive = &plan.Waiver{Reason: "known", Until: tt.until} })
		for status, waiver := range map[plan.Status]string{plan.Drift: tt.waiver, plan.OK: "", plan.Skipped: ""} {
			p := plan.NewPlanner([]plan.Type{scripted{"a": finding(status, nil)}}, nil).Plan([]plan.Block{b}, plantest.Node())
			f := p.Findings[0]
			if f.Waiver != waiver || status == plan.Drift && string(f.Status) != tt.status {
				t.Errorf("%s until %s: %s, %q", status, tt.until, f.Status, f.Waiver)
			}
		}
	}
}

func TestUnknownFacts(t *testing.T) {
	list := node.SysctlFiles.Query("")
	unreadable := plantest.Files(node.SysctlFiles, map[string]string{"/etc/sysctl.d/a.conf": "?"})
	for _, tt := range []struct {
		action plan.Action
		facts  node.Facts
	}{
		{plan.WriteFile{Path: "/a"}, node.Facts{}},
		{plan.RemoveFile{Path: "/a"}, node.Facts{}},
		{plan.WriteFile{Path: "/etc/sysctl.d/a.conf", List: list}, node.Facts{}},
		{plan.WriteFile{Path: "/etc/sysctl.d/a.conf", List: list}, node.Facts{}.With(unreadable)},
		{plan.RemoveFile{Path: "/etc/default/grub.d/a.cfg", List: node.Boot.Query("")}, node.Facts{}},
		{plan.SetSysctl{Name: "a"}, node.Facts{}},
		{plan.LoadModule{Name: "a"}, node.Facts{}},
		{plan.SetRDMANetns{Mode: plan.RDMAShared}, node.Facts{}},
		{plan.SetUnit{Unit: "a", Active: "active"}, node.Facts{}},
		{plan.SetUnit{Unit: "a", Active: "active"}, node.Facts{}.With(node.Unit.Answer("a", node.Known(node.UnitState{}, node.Source{})))},
		{plan.ReloadUnits{Units: []string{"a"}}, node.Facts{}},
		{plan.RestartUnit{Unit: "a"}, node.Facts{}},
		{plan.RestartUnit{Unit: "a"}, node.Facts{}.With(node.ProcLimits.Answer("a", node.Known(node.ProcessLimits{Running: true, Text: "junk"}, node.Source{})))},
		{plan.WriteMarker{}, node.Facts{}},
		{plan.SaveProtected{NICs: []string{}}, node.Facts{}},
		{plan.UpdateGRUB{}, node.Facts{}},
		{plan.UpdateGRUB{}, node.Facts{}.With(node.Boot.Answer("", node.Known(node.BootConfig{Loader: node.LoaderNone}, node.Source{})))},
	} {
		if done, _, err := tt.action.Done(tt.facts); done || err == nil {
			t.Errorf("%s %+v: done %v, %v", tt.action.Kind(), tt.action, done, err)
		}
		tt.action.Project(tt.facts) // must not fail
	}
	done, found, err := plan.RestartUnit{Unit: "a"}.Done(node.Facts{}.With(node.ProcLimits.Answer("a", node.Known(node.ProcessLimits{}, node.Source{}))))
	if !done || found != "not running" || err != nil {
		t.Errorf("a unit that does not run: %v, %s, %v", done, found, err)
	}
}

func TestContent(t *testing.T) {
	f := node.Facts{}.With(node.File.Answer("/a", node.Known(node.FileState{Exists: true, Text: "x"}, node.Source{})))
	for _, content := range []func(node.Facts) (node.FileState, error){plan.WriteFile{Path: "/a"}.Content, plan.RemoveFile{Path: "/a"}.Content} {
		if state, err := content(f); err != nil || state.Text != "x" {
			t.Errorf("%+v, %v", state, err)
		}
	}
	if _, err := (plan.WriteFile{Path: "/b"}).Content(f); err == nil {
		t.Error("an unknown file has content")
	}
}

func TestProjectedFilesStandInOrder(t *testing.T) {
	f := node.Facts{}.With(plantest.Files(node.LimitsFiles, map[string]string{"/etc/security/limits.d/z.conf": "z", "/etc/security/limits.conf": "main"}))
	list := node.LimitsFiles.Query("")
	f = plan.WriteFile{Path: "/etc/security/limits.d/a.conf", Text: "a", List: list}.Project(f)
	f = plan.RemoveFile{Path: "/etc/security/limits.d/z.conf", List: list}.Project(f)
	files, _ := node.LimitsFiles.Get(f, "").Get()
	var names []string
	for _, file := range files {
		names = append(names, file.Path)
	}
	if diff := cmp.Diff([]string{"/etc/security/limits.conf", "/etc/security/limits.d/a.conf"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestEncoding(t *testing.T) {
	s := plan.Step{ID: "set-sysctl:a", Phase: plan.PhaseServices, Action: plan.SetSysctl{Name: "a", Value: "<1>"}, Effect: plan.Reboot, Settle: 1500 * time.Millisecond}
	got, err := json.Marshal(s)
	want := `{"id":"set-sysctl:a","addresses":[],"phase":"services","target":"","summary":"","kind":"set-sysctl","action":{"name":"a","value":"\u003c1\u003e"},"requires":[],"provides":[],"effect":"reboot","settle_s":1.5,"expect":""}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	m := node.Marker{FormatVersion: "1.0", BootID: "b", Args: []string{"iommu=pt"}}
	var back node.Marker
	if err := json.Unmarshal([]byte(plan.MarkerText(m)), &back); err != nil || !cmp.Equal(m, back) {
		t.Errorf("%+v, %v", back, err)
	}
	var nics []string
	if err := json.Unmarshal([]byte(plan.ProtectedText([]string{"0000:1b:00.0/2", "bond0"})), &nics); err != nil || !cmp.Equal([]string{"0000:1b:00.0/2", "bond0"}, nics) {
		t.Errorf("%q, %v", nics, err)
	}
	sum := plan.Plan{Findings: []plan.Finding{{Status: plan.OK}, {Status: plan.Waived}, {Status: plan.Waived}}, Steps: []plan.Step{s}}.Summary()
	if sum != (plan.Summary{OK: 1, Waived: 2, Steps: 1}) {
		t.Errorf("%+v", sum)
	}
}

func TestBlock(t *testing.T) {
	b := block("kernel.numa_balancing", func(b *plan.Block) {
		b.Origins = map[string]plan.Origin{"value": {File: "a.hcl", Line: 3}}
		b.Withheld = []plan.Withheld{{Attribute: "value"}, {Attribute: "settings", Key: "A"}}
	})
	if b.Address != `scripted["kernel.numa_balancing"]` || plan.Address("nccl", "") != "nccl" {
		t.Error(b.Address)
	}
	if got := b.OriginOf("value", "key").String(); got != "a.hcl:3" {
		t.Error(got)
	}
	for _, tt := range []struct {
		attribute, key string
		want           bool
	}{{"value", "", true}, {"value", "any", true}, {"settings", "A", true}, {"settings", "B", false}, {"settings", "", false}} {
		if _, got := b.IsWithheld(tt.attribute, tt.key); got != tt.want {
			t.Errorf("%s.%s is withheld: %v", tt.attribute, tt.key, got)
		}
	}
	var wrong struct {
		Value chan int `cty:"value"`
	}
	if err := b.Decode(&wrong); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("decoding into a channel: %v", err)
	}
}
