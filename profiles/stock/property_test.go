package stock_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/internal/dcbnl"
	"busbar/node"
	"busbar/node/example"
	"busbar/plan"
	"busbar/profiles"
)

// tester is what the properties need of *testing.T and *rapid.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// read are the recordings that recorded has read, by name.
var read sync.Map

// recorded reads a built-in recording.
func recorded(t testing.TB, name string) node.Facts {
	t.Helper()
	if f, ok := read.Load(name); ok {
		return f.(node.Facts)
	}
	r, err := example.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := node.ReadRecording(r)
	if err != nil {
		t.Fatal(err)
	}
	read.Store(name, f)
	return f
}

// blocks evaluates a profile over a node.
func blocks(t tester, p *profiles.Profile, inv node.Inventory) []plan.Block {
	t.Helper()
	evaluation, diags := p.Evaluate(inv)
	if len(diags) > 0 {
		t.Fatalf("profile %s: %s: %s", p.Name, diags[0].Summary, diags[0].Detail)
	}
	return evaluation.Blocks
}

func planOver(t tester, p *profiles.Profile, f node.Facts) plan.Plan {
	t.Helper()
	return planner().Plan(blocks(t, p, f.Inventory), f)
}

// TestConvergence: every stock profile over every recording. An answer is taken away once of each node and of the blocks that ask for it:
// profiles of several boards ask the same of a node that has none of them.
func TestConvergence(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range loader().Names() {
		p := load(t, name)
		for _, recording := range example.Names() {
			t.Run(name+"/"+recording, func(t *testing.T) {
				f := recorded(t, recording)
				c := converges(t, p, f)
				most := 1
				if fits, _ := p.Match(f.Inventory); fits {
					most = alike
				}
				of, askers := map[string]int{}, c.askers()
				for _, q := range c.asked {
					if of[q.Kind]++; of[q.Kind] > most {
						continue
					}
					if once := recording + q.String() + askers(q); !seen[once] {
						seen[once] = true
						c.knowsLess(t, q)
					}
				}
			})
		}
	}
}

// TestDriftedConvergence: stock profiles over nodes that drifted at random.
// -rapid.checks=100000 looks deeper.
func TestDriftedConvergence(t *testing.T) {
	nodes := map[string]node.Facts{}
	for _, name := range example.Names() {
		nodes[name] = recorded(t, name)
	}
	var all []*profiles.Profile
	for _, name := range loader().Names() {
		all = append(all, load(t, name))
	}
	rapid.Check(t, func(t *rapid.T) {
		f := nodes[rapid.SampledFrom(example.Names()).Draw(t, "node")]
		for range rapid.IntRange(1, 8).Draw(t, "drifts") {
			f = drift(t, f)
		}
		p := all[rapid.IntRange(0, len(all)-1).Draw(t, "profile")]
		if c := converges(t, p, f); len(c.asked) > 0 {
			c.knowsLess(t, rapid.SampledFrom(c.asked).Draw(t, "forgotten"))
		}
		if name, err := profiles.Choose(all, f.Inventory); err == nil && !slices.Contains(loader().Names(), name) {
			t.Errorf("chose profile %q", name)
		}
	})
}

// TestNothingKnown: a node of which nothing is known is as wanted in nothing.
func TestNothingKnown(t *testing.T) {
	for _, name := range loader().Names() {
		p := load(t, name)
		converges(t, p, node.Facts{})
		got := planOver(t, p, node.Facts{})
		for _, f := range got.Findings {
			if f.Status == plan.OK {
				t.Errorf("%s: %s %s is ok: %s", name, f.Address, f.ID, f.Summary)
			}
		}
		if len(got.Steps) > 0 {
			t.Errorf("%s: %d steps", name, len(got.Steps))
		}
	}
}

// planned is a profile planned over a node.
type planned struct {
	profile *profiles.Profile
	facts   node.Facts
	blocks  []plan.Block
	asked   []node.Query
	plan    plan.Plan
}

// converges: what is planned brings about what is wanted, in one go.
func converges(t tester, p *profiles.Profile, before node.Facts) planned {
	t.Helper()
	wanted := blocks(t, p, before.Inventory)
	first := planner().Plan(wanted, before)
	wellFormed(t, p.Name, first)
	if again := planOver(t, p, before); encode(t, first) != encode(t, again) {
		t.Errorf("%s: planning twice gives two plans", p.Name)
	}
	asked := planner().Queries(wanted, before.Inventory)
	after := before
	for _, s := range first.Steps {
		for _, q := range s.Action.Queries() {
			if !slices.Contains(asked, q) {
				t.Errorf("%s: step %s reads %s, which nobody asks for", p.Name, s.ID, q)
			}
		}
		// systemd notices changed unit files only once they are there, and links go down only then.
		_, reload := s.Action.(plan.ReloadUnits)
		_, links := s.Action.(plan.AwaitLinks)
		if !reload && !links {
			if done, found, err := s.Action.Done(before); done || err != nil {
				t.Errorf("%s: before step %s: done %v, found %q, error %v", p.Name, s.ID, done, found, err)
			}
		}
		after = s.Action.Project(after)
		if done, found, err := s.Action.Done(after); !done || err != nil {
			t.Errorf("%s: after step %s: done %v, found %q, error %v", p.Name, s.ID, done, found, err)
		}
	}
	second := planOver(t, p, after)
	wellFormed(t, p.Name, second)
	if len(second.Steps) > 0 {
		t.Errorf("%s: after %s the next plan has steps again:\n%s", p.Name, ids(first), ids(second))
	}
	for _, f := range second.Findings {
		if f.Fixable {
			t.Errorf("%s: after %s something fixable is left: %s", p.Name, ids(first), show(f))
		}
	}
	lasts(t, p, first, second)
	return planned{p, before, wanted, asked, first}
}

// key identifies what a finding is about.
type key struct{ address, id, target string }

func keyOf(f plan.Finding) key { return key{f.Address, f.ID, f.Target} }

// lasts: what was fixable is right after the steps, or will be after a reboot; what was right
// has stayed so.
func lasts(t tester, p *profiles.Profile, first, second plan.Plan) {
	t.Helper()
	after := map[key]plan.Finding{}
	for _, f := range second.Findings {
		after[keyOf(f)] = f
	}
	for _, f := range first.Findings {
		if f.Fixable && len(first.Steps) == 0 {
			t.Errorf("%s: fixable, and the plan has no step: %s", p.Name, show(f))
		}
		g, still := after[keyOf(f)]
		right := !still || g.Tolerated || slices.Contains([]plan.Status{plan.OK, plan.PendingReboot, plan.Skipped}, g.Status)
		if f.Fixable && g.Status == plan.Undetermined {
			right = true // the next boot is as wanted, the running kernel's part cannot be read
		}
		if (f.Fixable || f.Status == plan.OK) && !right {
			t.Errorf("%s: the steps %s turn\n%s into\n%s", p.Name, ids(first), show(f), show(g))
		}
	}
}

// idForm is dotted lower case words; NCCL's have hyphens.
var idForm = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)+$`)

var statuses = []plan.Status{plan.OK, plan.Drift, plan.PendingReboot, plan.Ineffective, plan.Conflict, plan.Unsupported, plan.Undetermined, plan.Skipped, plan.Deferred, plan.Waived}

func wellFormed(t tester, profile string, got plan.Plan) {
	t.Helper()
	for _, f := range got.Findings {
		switch {
		case !idForm.MatchString(f.ID):
			t.Errorf("%s: id %q: %s", profile, f.ID, show(f))
		case strings.TrimSpace(f.Summary) == "":
			t.Errorf("%s: %s %s has no summary", profile, f.Address, f.ID)
		case !slices.Contains(statuses, f.Status):
			t.Errorf("%s: status %q: %s", profile, f.Status, show(f))
		case f.Address == "":
			t.Errorf("%s: no address: %s", profile, show(f))
		case f.Severity != plan.Error && f.Severity != plan.Warning && f.Severity != plan.Info:
			t.Errorf("%s: severity %q: %s", profile, f.Severity, show(f))
		case f.Fixable && (f.Status == plan.OK || f.Status == plan.Undetermined || f.Status == plan.Skipped):
			t.Errorf("%s: fixable and %s: %s", profile, f.Status, show(f))
		}
	}
	placed := map[string]bool{}
	for _, s := range got.Steps {
		if placed[s.ID] {
			t.Errorf("%s: two steps %s", profile, s.ID)
		}
		placed[s.ID] = true
		if s.Summary == "" || s.Target == "" || s.Expect == "" || len(s.Addresses) == 0 {
			t.Errorf("%s: step %s lacks something: %+v", profile, s.ID, s)
		}
	}
}

// askers give the blocks that a fact is judged by, with what they want: all of them where a sink asks for it.
func (p planned) askers() func(node.Query) string {
	inv := p.facts.Inventory
	var all strings.Builder
	of := map[node.Query]string{}
	for _, b := range p.blocks {
		b.Origin, b.Origins = plan.Origin{}, nil
		wants := fmt.Sprintf("%#v\n", b)
		all.WriteString(wants)
		for _, q := range planner().TypeOf(b).Queries(b, inv) {
			of[q] += wants
		}
	}
	ofSinks := planner().Queries(nil, inv)
	return func(q node.Query) string {
		if slices.Contains(ofSinks, q) || of[q] == "" {
			return all.String()
		}
		return of[q]
	}
}

// knowsLess: without the answer to q nothing is ok that was not, and the exit code is not 0 when
// it was not. What only a leftover of busbar's own would tell (file.stale) may go unsaid.
func (p planned) knowsLess(t tester, q node.Query) {
	t.Helper()
	bad := map[key]plan.Finding{}
	full := p.plan
	full.Findings = slices.DeleteFunc(slices.Clone(full.Findings), func(f plan.Finding) bool { return f.ID == "file.stale" })
	for _, finding := range full.Findings {
		if finding.Status != plan.OK {
			bad[keyOf(finding)] = finding
		}
	}
	less := planner().Plan(p.blocks, forget(p.facts, q))
	for _, finding := range less.Findings {
		if was, ok := bad[keyOf(finding)]; ok && finding.Status == plan.OK && was.Status != plan.Undetermined {
			t.Errorf("%s: without %s this turns ok: %s\nwas: %s", p.profile.Name, q, show(finding), show(was))
		}
	}
	if full.ExitCode() != plan.ExitOK && less.ExitCode() == plan.ExitOK {
		t.Errorf("%s: without %s the exit code is 0, with it %d", p.profile.Name, q, full.ExitCode())
	}
}

func encode(t tester, p plan.Plan) string {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatalf("encoding a plan: %v", err)
	}
	return string(b)
}

func ids(p plan.Plan) string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.ID)
	}
	return fmt.Sprintf("%q", list)
}

func show(f plan.Finding) string {
	return fmt.Sprintf("%s %s %s %q: %s (%s; fixable %v)", f.Address, f.ID, f.Status, f.Target, f.Summary, f.Source, f.Fixable)
}

// TestExamples holds the recordings to their story.
func TestExamples(t *testing.T) {
	var all []*profiles.Profile
	for _, name := range loader().Names() {
		all = append(all, load(t, name))
	}
	for _, test := range []struct {
		recording, profile string
		exit               int
		// notOK are the findings other than ok and skipped: status, severity, address, id.
		notOK []string
	}{
		{recording: "epyc-pcie", profile: "pcie-gpu", exit: plan.ExitDrift, notOK: []string{
			"drift error iommu boot_args.next_boot",
			"drift error iommu iommu.translated",
			"drift error pcie_acs.gpu_paths pcie_acs.redirect",
			"drift error pcie_acs.gpu_paths pcie_acs.redirect",
			"drift error pcie_acs.gpu_paths pcie_acs.redirect",
			"drift error pcie_acs.gpu_paths pcie_acs.redirect",
			`drift error sysctl["kernel.numa_balancing"] sysctl.boot`,
		}},
		{recording: "gb200-tray", profile: "gb200-nvl"},
		{recording: "hgx-a100-nps4", profile: "hgx-a100-roce"},
		{recording: "hgx-b200", profile: "hgx-b200-roce"},
		{recording: "hgx-h100", profile: "hgx-h100-roce"},
		{recording: "hgx-h200-ib", profile: "hgx-h200-ib"},
		{recording: "rtx-workstation", profile: "baseline"},
		{recording: "vm-guest-2gpu", profile: "vm-guest", notOK: []string{
			"drift info check.platform.numa platform.numa_known",
			`unknown warn sysctl["kernel.numa_balancing"] sysctl.running`,
		}},
		{recording: "hgx-h100-drifted", profile: "hgx-h100-roce", exit: plan.ExitDrift, notOK: []string{
			"drift error check.gpus.all gpus.count",
			"drift error check.nvlink.all nvlink.links",
			"drift warn check.rails.all rails.hca_other",
			"drift error gpudirect gpudirect.path",
			"drift error gpudirect kernel_module.boot",
			"drift error gpudirect kernel_module.running",
			"drift error iommu boot_args.next_boot",
			"drift warn iommu iommu.no_op",
			"drift error iommu iommu.translated",
			"drift error limits.rdma limits.process",
			"drift warn nccl nccl.mistyped_key",
			"drift error nccl nccl.quoted_integer",
			"drift error nccl nccl.setting",
			"drift error pcie_acs.gpu_paths pcie_acs.redirect",
			"drift error pcie_device.rails pcie_device.max_read_request",
			"drift info protected NICs protected.saved",
			"drift error roce.rails roce.cnp_map",
			"drift error roce.rails roce.dscp_map",
			"drift error roce.rails roce.mtu",
			"drift error roce.rails roce.pause",
			"drift error roce.rails roce.pfc",
			"drift error roce.rails roce.tos",
			"drift error roce.rails roce.traffic_class",
			"drift error roce.rails roce.trust",
			`conflict error sysctl["kernel.numa_balancing"] sysctl.boot`,
			`drift error sysctl["kernel.numa_balancing"] sysctl.running`,
		}},
	} {
		t.Run(test.recording, func(t *testing.T) {
			f := recorded(t, test.recording)
			name, err := profiles.Choose(all, f.Inventory)
			if err != nil || name != test.profile {
				t.Fatalf("chose profile %q, error %v; want %s", name, err, test.profile)
			}
			got := planOver(t, load(t, name), f)
			if got.ExitCode() != test.exit {
				t.Errorf("exit code %d, want %d", got.ExitCode(), test.exit)
			}
			var notOK []string
			for _, f := range got.Findings {
				if f.Status != plan.OK && f.Status != plan.Skipped {
					notOK = append(notOK, fmt.Sprintf("%s %s %s %s", f.Status, f.Severity, f.Address, f.ID))
				}
			}
			if diff := cmp.Diff(test.notOK, notOK); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCardInWorkstation: one H100 PCIe in somebody's workstation, without a NIC for RDMA, is asked for nothing that only peers need.
func TestCardInWorkstation(t *testing.T) {
	f := function("0000:01:00.0", func(p *node.PCIFunction) { p.Device, p.Class = "2331", "030200" })(recorded(t, "rtx-workstation"))
	var all []*profiles.Profile
	for _, name := range loader().Names() {
		all = append(all, load(t, name))
	}
	name, err := profiles.Choose(all, f.Inventory)
	if name != "pcie-gpu" || err != nil {
		t.Fatalf("chose %q, %v", name, err)
	}
	var left []string
	for _, f := range converges(t, load(t, name), f).plan.Findings {
		if f.Status != plan.OK && f.Status != plan.Skipped {
			left = append(left, fmt.Sprintf("%s %s %s %s", f.Status, f.Severity, f.Address, f.ID))
		}
	}
	want := []string{"drift info check.pcie_link.gpus_and_nics pcie_link.limit", `drift error sysctl["kernel.numa_balancing"] sysctl.boot`}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGraceKeepsItsACS: no profile touches the ACS of an NVIDIA processor's ports, or its IOMMU, and hgx says why.
func TestGraceKeepsItsACS(t *testing.T) {
	f := recorded(t, "gb200-tray")
	for _, name := range loader().Names() {
		got := planOver(t, load(t, name), f)
		for _, s := range got.Steps {
			if strings.HasPrefix(s.ID, "set-acs") || s.Effect == plan.Reboot {
				t.Errorf("%s: step %s", name, s.ID)
			}
		}
		refused := slices.ContainsFunc(got.Findings, func(f plan.Finding) bool {
			return f.Address == "pcie_acs.gpu_paths" && f.Status == plan.Unsupported && strings.Contains(f.Summary+f.Why, "10de:22b1")
		})
		if want := strings.HasPrefix(name, "hgx"); refused != want {
			t.Errorf("%s: says that it leaves ACS alone: %v", name, refused)
		}
	}
}

// TestInboxDriver: rails that the kernel's own driver runs are as wanted, without what it lacks.
func TestInboxDriver(t *testing.T) {
	f := recorded(t, "hgx-h100")
	for _, key := range keys(f, node.RoCE.Name()) {
		f = change(f, node.RoCE, key, func(s *node.RoCEState) {
			s.NotificationPoint, s.ReactionPoint = node.Unsupported[dcbnl.Priorities]("none", node.Source{}), node.Unsupported[dcbnl.Priorities]("none", node.Source{})
			s.CNPDSCP, s.CNPPriority, s.TrafficClass = node.Unsupported[int]("none", node.Source{}), node.Unsupported[int]("none", node.Source{}), node.Unsupported[node.TrafficClass]("none", node.Source{})
		})
	}
	got := planOver(t, load(t, "hgx-h100-roce"), f)
	lacking := map[string]int{}
	for _, f := range got.Findings {
		if f.Status == plan.Unsupported {
			lacking[f.ID]++
		}
	}
	if diff := cmp.Diff(map[string]int{"roce.ecn": 8, "roce.cnp": 8, "roce.traffic_class": 8}, lacking); diff != "" || got.ExitCode() != plan.ExitOK {
		t.Errorf("exit code %d, unsupported (-want +got):\n%s", got.ExitCode(), diff)
	}
}

// TestRecordingsAnswerEverything: a recording answers what any stock profile asks on its node.
func TestRecordingsAnswerEverything(t *testing.T) {
	for _, recording := range example.Names() {
		f := recorded(t, recording)
		answered := f.Queries()
		for _, name := range loader().Names() {
			for _, q := range planner().Queries(blocks(t, load(t, name), f.Inventory), f.Inventory) {
				if !slices.Contains(answered, q) {
					t.Errorf("%s does not answer %s, which %s asks", recording, q, name)
				}
			}
		}
	}
}

// BenchmarkDecode: a full HGX recording from JSON to facts.
func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		recorded(b, "hgx-h100-drifted")
	}
}

// BenchmarkPlan: what the command plan does with a full HGX recording once it is decoded.
func BenchmarkPlan(b *testing.B) {
	b.ReportAllocs()
	f := recorded(b, "hgx-h100-drifted")
	p := load(b, "hgx-h100-roce")
	for b.Loop() {
		evaluated := blocks(b, p, f.Inventory)
		pl := planner()
		pl.Queries(evaluated, f.Inventory)
		pl.Plan(evaluated, f)
	}
}
