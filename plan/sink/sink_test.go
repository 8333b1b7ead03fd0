package sink_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/grub"
	"busbar/internal/limits"
	"busbar/internal/modprobe"
	"busbar/internal/ncclconf"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/plan/sink"
)

// ownedFiles is a node with a file of busbar's in every sink, and nothing else.
func ownedFiles() node.Facts {
	return plantest.Node(
		plantest.BootWith(map[string]string{grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: grub.Fragment([]string{"iommu=pt"})}, "quiet iommu=pt"),
		plantest.Files(node.ModulesLoadFiles, map[string]string{"/etc/modules-load.d/busbar.conf": "nvidia_peermem\n"}),
		plantest.Files(node.ModprobeFiles, map[string]string{"/etc/modprobe.d/zz-busbar.conf": "blacklist nouveau\n"}),
		plantest.Files(node.SysctlFiles, map[string]string{"/etc/sysctl.d/zz-busbar.conf": ""}),
		plantest.Files(node.LimitsFiles, map[string]string{"/etc/security/limits.d/zz-busbar.conf": "* - memlock unlimited\n"}),
		plantest.Files(node.OwnedDropIns, map[string]string{"/etc/systemd/system/slurmd.service.d/zz-busbar.conf": "[Service]\nLimitMEMLOCK=infinity\n"}),
		node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: "# BEGIN busbar\nNCCL_IB_TIMEOUT=22\n# END busbar\n"}, node.Source{Path: sink.NCCLPath})),
	)
}

func TestWithoutBlocks(t *testing.T) {
	plantest.Run(t, nil, []plantest.Case{
		{
			Name: "nothing to do", Facts: plantest.Node(),
		},
		{
			Name: "every file that busbar left is removed", Facts: ownedFiles(),
			Want: `
				!drift file.stale /etc/default/grub.d/zz-busbar.cfg (/etc/default/grub.d/zz-busbar.cfg)
				!drift file.stale /etc/systemd/system/slurmd.service.d/zz-busbar.conf (/etc/systemd/system/slurmd.service.d/zz-busbar.conf)
				!drift file.stale /etc/security/limits.d/zz-busbar.conf (/etc/security/limits.d/zz-busbar.conf)
				!drift file.stale /etc/modprobe.d/zz-busbar.conf (/etc/modprobe.d/zz-busbar.conf)
				!drift file.stale /etc/modules-load.d/busbar.conf (/etc/modules-load.d/busbar.conf)
				!drift file.stale /etc/nccl.conf (/etc/nccl.conf)
				!drift file.stale /etc/sysctl.d/zz-busbar.conf (/etc/sysctl.d/zz-busbar.conf)
				step write-file:/etc/default/grub.d/zz-busbar.cfg
				step update-grub:/boot/grub/grub.cfg
				step remove-file:/etc/default/grub.d/zz-busbar.cfg
				step remove-file:/etc/modprobe.d/zz-busbar.conf
				step remove-file:/etc/modules-load.d/busbar.conf
				step remove-file:/etc/nccl.conf
				step remove-file:/etc/security/limits.d/zz-busbar.conf
				step remove-file:/etc/sysctl.d/zz-busbar.conf
				step remove-file:/etc/systemd/system/slurmd.service.d/zz-busbar.conf
			`,
		},
	})
}

// TestImmutable: where NixOS makes /etc, no sink has a step, and each says which file it
// would write.
func TestImmutable(t *testing.T) {
	f, writing := ownedFiles(), 0 // sinks that write to /etc without blocks
	for _, s := range sink.All() {
		inEtc := false
		for _, q := range s.Queries(nil) {
			if q.Kind == node.Mount.Name() && strings.HasPrefix(q.Key, "/etc") {
				inEtc = true
				f = f.With(node.Mount.Answer(q.Key, node.Known(node.MountState{Point: "/", Type: "ext4", Immutable: "NixOS"}, node.Source{})))
			}
		}
		if inEtc {
			writing++
		}
	}
	first, _, _ := plantest.Settle(t, nil, nil, f)
	if len(first.Steps) > 0 || len(first.Findings) != writing {
		t.Errorf("%s", plantest.Summarize(first))
	}
	for _, found := range first.Findings {
		if found.Status != plan.Unsupported || !strings.Contains(found.Summary, found.Target+" cannot be written: NixOS") || !strings.Contains(found.Fix, "in configuration.nix") {
			t.Errorf("%+v", found)
		}
	}
}

// saver is a block type that changes ports of NICs.
type saver struct{}

func (saver) Spec() plan.Spec {
	return plan.Spec{Name: "saver", Label: plan.LabelRequired, Sinks: []string{sink.ProtectedName}}
}

func (saver) Queries(plan.Block, node.Inventory) []node.Query { return nil }

func (saver) Assess(plan.Block, node.Facts) plan.Assessment {
	return plan.Assessment{Contributions: []plan.Contribution{sink.SaveProtected()}}
}

// TestProtected: what is protected for a reason that lasts is saved once, by however many blocks, where there is a network
// and a place.
func TestProtected(t *testing.T) {
	with := func(edit func(*node.Inventory), answers ...node.Answer) node.Facts {
		f := plantest.PortNode(answers...)
		inv := f.Inventory
		edit(&inv)
		return f.WithInventory(inv)
	}
	saved := func(nics ...string) func(*node.Inventory) {
		return func(inv *node.Inventory) {
			inv.SavedProtected = node.Known(nics, node.Source{Path: node.ProtectedPath})
		}
	}
	at := func(state node.MountState) node.Answer {
		return node.Mount.Answer("/var/lib/busbar", node.Known(state, node.Source{Path: "/proc/self/mountinfo"}))
	}
	const want = "!drift info protected.saved /var/lib/busbar/protected.json (/var/lib/busbar/protected.json)\nstep save-protected:/var/lib/busbar/protected.json"
	const block = "saver \"a\" {\n}\n"
	plantest.Run(t, []plan.Type{saver{}}, []plantest.Case{
		{Name: "saved", Blocks: block, Facts: plantest.PortNode()},
		{Name: "nothing is saved", Blocks: block, Facts: with(saved()), Want: want, Says: []string{"the next boot knows no protected NIC, and touches no link, before its network is up"}},
		{Name: "two blocks", Blocks: block + "saver \"b\" {\n}\n", Facts: with(saved()), Want: want},
		{Name: "the route has moved", Blocks: block, Facts: with(saved(plantest.Rail)), Want: want, Says: []string{"protects other NICs"}},
		{Name: "no such block", Facts: with(saved())},
		{Name: "a directory tree", Blocks: block, Facts: with(func(inv *node.Inventory) { saved()(inv); inv.RootDirectory = true })},
		{Name: "no route", Blocks: block, Facts: with(func(inv *node.Inventory) {
			saved(plantest.Front, plantest.Rail)(inv)
			inv.Routes = node.Known([]node.Route{}, node.Source{})
		})},
		{Name: "an SSH client alone", Blocks: block, Facts: with(func(inv *node.Inventory) {
			saved()(inv)
			inv.Protected = node.Known([]node.ProtectedNetdev{{Name: "rail0", Reason: node.ProtectedForSSH}}, node.Source{})
		})},
		{Name: "what is saved is unreadable", Blocks: block, Facts: with(func(inv *node.Inventory) { inv.SavedProtected = node.Value[[]string]{} })},
		{Name: "a diskless node", Blocks: block, Facts: with(saved(), at(node.MountState{Point: "/", Type: "rootfs"}))},
		{Name: "read-only", Blocks: block, Facts: with(saved(), at(node.MountState{Point: "/", Type: "ext4", ReadOnly: true}))},
	})
	undecided := []plan.Block{{Type: "saver", Address: "saver", Undecided: "its when is unknown"}}
	if got := plantest.Summarize(plantest.Planner([]plan.Type{saver{}}).Plan(undecided, with(saved()))); !strings.Contains(got, "step save-protected") {
		t.Errorf("a block of which it is not known whether it applies saves nothing:\n%s", got)
	}
}

// TestUndecided: beside what is wanted, busbar's files keep what they have where it is not known
// whether that is wanted too.
func TestUndecided(t *testing.T) {
	const conf = "/etc/modprobe.d/zz-busbar.conf"
	options := func(words ...string) []modprobe.Statement {
		all := []modprobe.Statement{{Verb: modprobe.Blacklist, Module: "nouveau"}}
		for _, w := range words {
			all = append(all, modprobe.Statement{Verb: modprobe.Options, Module: "nvidia", Args: w})
		}
		return all
	}
	entry := func(user string) limits.Entry {
		return limits.Entry{Domain: user, Type: "-", Item: "memlock", Value: limits.Unlimited}
	}
	unit := func(items ...string) string {
		var all []limits.Assignment
		for _, i := range items {
			all = append(all, limits.Assignment{Section: limits.Service, Item: i, Soft: limits.Unlimited, Hard: limits.Unlimited})
		}
		return limits.RenderUnit(all)
	}
	block := func(settings ...ncclconf.Setting) string { return ncclconf.Render(settings) }
	boot := plantest.BootWith(map[string]string{
		grub.DefaultsFile: "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", grub.FragmentFile: grub.Fragment([]string{"audit=0", "iommu=pt", "nokaslr"}),
	}, "quiet audit=0 iommu=pt nokaslr")
	dropIn := "/etc/systemd/system/slurmd.service.d/zz-busbar.conf"
	for _, tt := range []struct {
		answer        node.Answer
		contributions []plan.Contribution
		want          string // of the one file that is written
	}{
		{plantest.Files(node.ModulesLoadFiles, map[string]string{"/etc/modules-load.d/busbar.conf": modprobe.RenderModulesLoad([]string{"a", "b"})}),
			[]plan.Contribution{{Sink: sink.ModulesLoadName, Key: "b", Value: sink.NotAtBoot}, {Sink: sink.ModulesLoadName, Key: "c", Value: sink.LoadAtBoot}},
			modprobe.RenderModulesLoad([]string{"a", "c"})},
		{plantest.Files(node.ModprobeFiles, map[string]string{conf: modprobe.RenderModprobe(options("a=1", "b=1"))}),
			[]plan.Contribution{{Sink: sink.ModprobeName, Key: sink.OptionKey("nvidia", "a"), Value: "2"}},
			modprobe.RenderModprobe(options("a=2", "b=1"))},
		{plantest.Files(node.LimitsFiles, map[string]string{"/etc/security/limits.d/zz-busbar.conf": limits.Render([]limits.Entry{entry("*")})}),
			[]plan.Contribution{{Sink: sink.LimitsName, Key: sink.LimitKey("root", "memlock"), Value: "unlimited"}},
			limits.Render([]limits.Entry{entry("*"), entry("root")})},
		{plantest.Files(node.OwnedDropIns, map[string]string{dropIn: unit("memlock"), "/etc/systemd/system/containerd.service.d/zz-busbar.conf": unit("memlock")}),
			[]plan.Contribution{{Sink: sink.DropInsName, Key: sink.DropInKey("slurmd.service", "nofile"), Value: "unlimited"}},
			unit("memlock", "nofile")},
		{plantest.Files(node.OwnedDropIns, map[string]string{dropIn: unit("memlock") + "ExecStartPost=/bin/a\n"}),
			[]plan.Contribution{{Sink: sink.DropInsName, Key: sink.DropInKey("slurmd.service", "nofile"), Value: "unlimited"}},
			unit("memlock", "nofile") + "ExecStartPost=/bin/a\n"},
		{plantest.Files(node.OwnedDropIns, map[string]string{dropIn: unit("memlock") + "ExecStartPost=/bin/a\n"}),
			[]plan.Contribution{{Sink: sink.DropInsName, Key: sink.DropInKey("slurmd.service", sink.ExecStartPost), Value: "/bin/b"}},
			unit("memlock") + "ExecStartPost=/bin/b\n"},
		{node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: block(ncclconf.Setting{Key: "NCCL_IB_HCA", Value: "=mlx5_0"}) + "NCCL_IB_TC=1\n"}, node.Source{})),
			[]plan.Contribution{{Sink: sink.NCCLName, Key: "NCCL_IB_TIMEOUT", Value: "22"}},
			block(ncclconf.Setting{Key: "NCCL_IB_HCA", Value: "=mlx5_0"}, ncclconf.Setting{Key: "NCCL_IB_TIMEOUT", Value: "22"}) + "NCCL_IB_TC=1\n"},
		{boot, append(sink.BootArg("nokaslr", false), sink.BootArg("audit=1", true)...),
			grub.Fragment([]string{"audit=1", "iommu=pt"})},
	} {
		name := tt.contributions[0].Sink
		s := sink.All()[slices.IndexFunc(sink.All(), func(s plan.Sink) bool { return s.Name() == name })]
		facts := plantest.Node(tt.answer, plantest.FilesOf(node.UnitFiles, "slurmd.service", map[string]string{"/lib/systemd/system/slurmd.service": ""}),
			node.Unit.Answer("slurmd.service", node.Known(node.UnitState{Load: "loaded"}, node.Source{})))
		undecided := plan.Contribution{Sink: name, Undecided: true}
		if a := s.Assess([]plan.Contribution{undecided}, facts); len(a.Findings)+len(a.Steps) > 0 {
			t.Errorf("%s: nothing is known, and yet %+v", name, a)
		}
		var written []string
		for _, step := range s.Assess(append(tt.contributions, undecided), facts).Steps {
			if w, ok := step.Action.(plan.WriteFile); ok {
				written = append(written, w.Text)
			}
		}
		if diff := cmp.Diff([]string{tt.want}, written); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBootArg(t *testing.T) {
	for _, tt := range []struct {
		arg     string
		present bool
		want    []plan.Contribution
	}{
		{"iommu=pt", true, []plan.Contribution{{Key: "iommu=pt", Value: "iommu=pt"}}},
		{"intel_iommu=on,sm_on", true, []plan.Contribution{{Key: "intel_iommu=on", Value: "intel_iommu=on"}, {Key: "intel_iommu=sm_on", Value: "intel_iommu=sm_on"}}},
		{"pci=,noaer", true, []plan.Contribution{{Key: "pci=noaer", Value: "pci=noaer"}}},
		{"console=ttyS0", true, []plan.Contribution{{Key: "console=ttyS0", Value: "console=ttyS0"}}},
		{"numa_balancing=disable", true, []plan.Contribution{{Key: "numa_balancing", Value: "numa_balancing=disable"}}},
		{"nokaslr", true, []plan.Contribution{{Key: "nokaslr", Value: "nokaslr"}}},
		{`x="a b"`, true, []plan.Contribution{{Key: "x", Value: `x="a b"`}}},
		{"pci=noacs", false, []plan.Contribution{{Key: "pci=noacs", Value: "absent"}}},
	} {
		for i := range tt.want {
			tt.want[i].Sink = sink.BootArgsName
		}
		if diff := cmp.Diff(tt.want, sink.BootArg(tt.arg, tt.present)); diff != "" {
			t.Errorf("%s: %s", tt.arg, diff)
		}
	}
}
