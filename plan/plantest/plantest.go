// Package plantest helps the tests of block types, sinks and checks: it writes blocks
// in HCL, models a small node, and holds plans to what every plan must fulfil.
package plantest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"busbar/explain"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// File is the name of the profile that Blocks pretends to read.
const File = "node.hcl"

// Blocks evaluates blocks written in HCL with constant values only. Of the meta
// arguments it knows severity.
func Blocks(t testing.TB, types []plan.Type, text string) []plan.Block {
	t.Helper()
	parsed, diagnostics := hclsyntax.ParseConfig([]byte(text), File, hcl.InitialPos)
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	var blocks []plan.Block
	for _, b := range parsed.Body.(*hclsyntax.Body).Blocks {
		blocks = append(blocks, block(t, types, b))
	}
	return blocks
}

func block(t testing.TB, types []plan.Type, from *hclsyntax.Block) plan.Block {
	t.Helper()
	labels, name, prefix := from.Labels, from.Type, ""
	if slices.Contains(plan.Keywords, name) {
		name, labels, prefix = labels[0], labels[1:], name+"."
	}
	at := slices.IndexFunc(types, func(t plan.Type) bool { return t.Spec().Key() == prefix+name })
	if at < 0 {
		t.Fatalf("no block type %s%s", prefix, name)
	}
	b := plan.Block{
		Type: name, Label: strings.Join(labels, " "), Origin: plan.Origin{File: File, Line: from.TypeRange.Start.Line},
		Attributes: map[string]cty.Value{}, Origins: map[string]plan.Origin{},
	}
	b.Address = prefix + plan.Address(name, b.Label)
	given := maps.Clone(from.Body.Attributes)
	for _, a := range types[at].Spec().Attributes {
		b.Attributes[a.Name] = attribute(t, &b, a, given[a.Name])
		delete(given, a.Name)
	}
	for name, a := range given {
		v, diagnostics := a.Expr.Value(nil)
		if diagnostics.HasErrors() {
			t.Fatal(diagnostics)
		}
		if name != "severity" {
			t.Fatalf("%s has no attribute %s", b.Address, name)
		}
		b.Severity = plan.Severity(v.AsString())
	}
	return b
}

func attribute(t testing.TB, b *plan.Block, a plan.Attribute, from *hclsyntax.Attribute) cty.Value {
	t.Helper()
	if from == nil {
		if a.Default != cty.NilVal {
			return a.Default
		}
		return cty.NullVal(a.Type)
	}
	b.Origins[a.Name] = plan.Origin{File: File, Line: from.NameRange.Start.Line}
	if object, ok := from.Expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, item := range object.Items {
			key, _ := item.KeyExpr.Value(nil)
			b.Origins[a.Name+"."+key.AsString()] = plan.Origin{File: File, Line: item.KeyExpr.Range().Start.Line}
		}
	}
	v, diagnostics := from.Expr.Value(nil)
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	v, err := convert.Convert(v, a.Type)
	if err != nil {
		t.Fatalf("%s.%s: %v", b.Address, a.Name, err)
	}
	return v
}

// The model node's kernel and boot.
const (
	Kernel = "6.8.0-45-generic"
	BootID = "5a1e0000-0000-4000-8000-000000000001"
)

// Node is a model node with nothing configured: Ubuntu's GRUB, one kernel, no modules,
// no files. The answers are added to it or replace what it has.
func Node(answers ...node.Answer) node.Facts {
	inv := node.Inventory{
		Arch:   node.Known("x86_64", node.Source{Call: "uname"}),
		Kernel: node.Known(Kernel, node.Source{Call: "uname"}),
		BootID: node.Known(BootID, node.Source{Path: "/proc/sys/kernel/random/boot_id"}),
		Marker: node.Known(node.Marker{}, node.Source{Path: node.MarkerPath}),
	}
	f := node.NewFacts(inv, time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), []node.Answer{
		Boot("quiet", "quiet"),
		CommandLine("quiet"),
		node.Mount.Answer("/var/lib/busbar", node.Known(node.MountState{Point: "/", Type: "ext4"}, node.Source{Path: "/proc/self/mountinfo"})),
		node.ModuleSigning.Answer("", node.Known(node.ModuleSigningState{}, node.Source{})),
		Files(node.SysctlFiles, nil), Files(node.ModulesLoadFiles, nil), Files(node.ModprobeFiles, nil), Files(node.LimitsFiles, nil),
		Files(node.SystemConfFiles, nil), Files(node.OwnedDropIns, nil), Files(node.NCCLUserFiles, nil),
		node.File.Answer(sink.NCCLPath, node.Known(node.FileState{}, node.Source{Path: sink.NCCLPath})),
	})
	return f.With(answers...)
}

// Image is the model node's initramfs.
const Image = "/boot/initrd.img-" + Kernel

// Initramfs is an initramfs of the model node that holds a module, with its own modprobe.d: path to text.
func Initramfs(module string, files map[string]string) node.Answer {
	return node.Initramfs.Answer(module, node.Known(node.InitramfsState{
		Kernel: Kernel, Image: Image, Generator: node.GeneratorInitramfsTools,
		Module: "/usr/lib/modules/" + Kernel + "/updates/dkms/" + module + ".ko", Files: sorted(files),
	}, node.Source{Path: Image}))
}

// withInitramfs answers for modules of which facts do not say whether the initramfs holds them: it does not.
func withInitramfs(facts node.Facts, queries []node.Query) node.Facts {
	for _, q := range queries {
		if q.Kind == node.Initramfs.Name() && node.Initramfs.Get(facts, q.Key).IsZero() {
			facts = facts.With(node.Initramfs.Answer(q.Key, node.Known(node.InitramfsState{Kernel: Kernel, Image: Image, Generator: node.GeneratorInitramfsTools}, node.Source{Path: Image})))
		}
	}
	return facts
}

// CommandLine is the running kernel's command line that ends in args.
func CommandLine(args string) node.Answer {
	return node.CommandLine.Answer("", node.Known(strings.TrimSpace("BOOT_IMAGE=/vmlinuz-"+Kernel+" root=UUID=01 ro "+args), node.Source{Path: "/proc/cmdline"}))
}

// Planner plans with types over all sinks.
func Planner(types []plan.Type) *plan.Planner { return plan.NewPlanner(types, sink.All()) }

// Settle plans, makes each step in the model, and plans again. It holds the plan to what
// every plan must fulfil: no step is done before it is made, each is afterwards, and
// then nothing is left that a step could put right, also where it becomes unknown whether
// the blocks apply. It returns both plans and the facts after the steps.
func Settle(t testing.TB, types []plan.Type, blocks []plan.Block, facts node.Facts) (first, second plan.Plan, after node.Facts) {
	t.Helper()
	p := Planner(types)
	facts = withInitramfs(facts, p.Queries(blocks, facts.Inventory))
	first = p.Plan(blocks, facts)
	now := facts
	for _, s := range first.Steps {
		_, awaits := s.Action.(plan.Awaiting) // what an earlier step takes away, which no model of it does
		if done, found, err := s.Action.Done(now); !awaits && (done || err != nil) {
			t.Errorf("%s is done before it is made: %v, %s, %v", s.ID, done, found, err)
		}
		now = s.Action.Project(now)
		if done, found, err := s.Action.Done(now); !done || err != nil {
			t.Errorf("%s is not done after it was made: %s, %v", s.ID, found, err)
		}
		if len(s.Addresses) == 0 || s.Addresses[0] == "" {
			t.Errorf("%s serves nobody", s.ID)
		}
	}
	texts := explain.New(types, sink.All(), plan.Explanations(), sink.Explanations())
	for _, f := range first.Findings {
		if _, ok := texts.Of(f.ID); !ok && explains(types, f.ID) {
			t.Errorf("%s has no explanation", f.ID)
		}
		switch {
		case strings.Contains(f.Summary, "without having been asked for"):
			t.Errorf("%s of %s: %s", f.ID, f.Address, f.Summary)
		case f.Fixable && !slices.ContainsFunc(first.Steps, func(s plan.Step) bool { return slices.Contains(s.Addresses, f.Address) }):
			t.Errorf("%s of %s is fixable, and no step serves it", f.ID, f.Address)
		}
	}
	second = p.Plan(blocks, now)
	for _, s := range second.Steps {
		t.Errorf("after all steps there is another one: %s", s.ID)
	}
	for _, f := range second.Findings {
		if f.Fixable {
			t.Errorf("after all steps this is still to be done: %s of %s: %s", f.ID, f.Address, f.Summary)
		}
	}
	undecided := slices.Clone(blocks)
	for i := range undecided {
		undecided[i].Undecided, undecided[i].Attributes = "its when is unknown", nil
	}
	if len(blocks) > 0 {
		for _, s := range p.Plan(undecided, now).Steps {
			t.Errorf("it is not known any more what is wanted, and %s takes back what stands", s.ID)
		}
	}
	return first, second, now
}

// explains reports whether the type that an id begins with explains its findings.
func explains(types []plan.Type, id string) bool {
	name, _, _ := strings.Cut(id, ".")
	return slices.ContainsFunc(types, func(t plan.Type) bool {
		_, ok := t.(plan.Explainer)
		return ok && t.Spec().Name == name
	})
}

// Summarize writes a plan on a few lines: findings as STATUS [SEVERITY] ID TARGET (SOURCE),
// "!" before those that a step puts right, then steps by their ids.
func Summarize(p plan.Plan) string {
	var b strings.Builder
	for _, f := range p.Findings {
		status := string(f.Status)
		if f.Fixable {
			status = "!" + status
		}
		if f.Severity != plan.Error {
			status += " " + string(f.Severity)
		}
		fmt.Fprintf(&b, "%s %s %s (%s)\n", status, f.ID, f.Target, f.Source)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "step %s\n", s.ID)
	}
	return b.String()
}
