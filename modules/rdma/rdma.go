// Package rdma is the block type rdma: the kernel's RDMA stack as a whole, its modules and the network namespaces that
// see its devices.
package rdma

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/modprobe"
	"busbar/modules/kernelmodule"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type rdma.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of rdma.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "rdma", Label: plan.NoLabel,
		Doc:     "The kernel's RDMA stack: its modules, now and at boot, and which network namespaces see its devices.",
		Ceiling: plan.Reboot, Sinks: []string{sink.ModulesLoadName, sink.ModprobeName, sink.InitramfsName},
		Attributes: []plan.Attribute{
			{Name: "netns_mode", Type: cty.String, Enum: []string{plan.RDMAShared, plan.RDMAExclusive}, Example: `"shared"`, Doc: "Whether every network namespace sees every RDMA device (shared, the kernel's default), or a device is in one of them (exclusive). It cannot be changed while there is more than one network namespace, only at boot. Where the initramfs holds ib_core, busbar makes it anew (update-initramfs), or names the command that does."},
			{Name: "modules", Type: cty.List(cty.String), Example: `["mlx5_ib", "rdma_cm", "ib_uverbs", "rdma_ucm", "ib_umad"]`, Doc: "Kernel modules that are loaded, now and at boot."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Take lines of others that stand against it out of their files, keeping a copy."},
		},
	}
}

type config struct {
	NetnsMode *string  `cty:"netns_mode"`
	Modules   []string `cty:"modules"`
	TakeOver  bool     `cty:"take_over"`
}

// Validate finds names that no module has, and a block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	var c config
	if err := b.Decode(&c); err != nil {
		return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	var problems []plan.Problem
	for _, name := range c.Modules {
		if err := modprobe.CheckName(modprobe.Normalize(name)); err != nil {
			problems = append(problems, plan.Problem{Attribute: "modules", Summary: "no module name", Detail: err.Error()})
		}
	}
	if c.NetnsMode == nil && len(c.Modules) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set netns_mode or modules."})
	}
	return problems
}

// modules are the blocks kernel_module that the list stands for, each module once.
func (c config) modules(b plan.Block) []plan.Block {
	var names []string
	for _, name := range c.Modules {
		names = append(names, modprobe.Normalize(name))
	}
	slices.Sort(names)
	var blocks []plan.Block
	for _, name := range slices.Compact(names) {
		blocks = append(blocks, plan.Block{
			Address: b.Address, Type: "kernel_module", Label: name, Origin: b.OriginOf("modules", ""),
			Attributes: map[string]cty.Value{"state": cty.StringVal("loaded"), "take_over": cty.BoolVal(c.TakeOver)},
		})
	}
	return blocks
}

// Queries are those of the modules, and the module that has the mode.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c config
	// Decoding was tried when the block was validated.
	_ = b.Decode(&c)
	var queries []node.Query
	if c.NetnsMode != nil {
		queries = append(queries, node.Module.Query(plan.RDMACore))
	}
	for _, m := range c.modules(b) {
		queries = append(queries, kernelmodule.Type{}.Queries(m, inv)...)
	}
	return queries
}

// Assess judges modules and mode as they are now, and contributes what is wanted at boot.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c config
	_ = b.Decode(&c)
	var a plan.Assessment
	for _, m := range c.modules(b) {
		module := kernelmodule.Type{}.Assess(m, facts)
		a.Findings = append(a.Findings, module.Findings...)
		a.Contributions = append(a.Contributions, module.Contributions...)
		a.Steps = append(a.Steps, module.Steps...)
	}
	if c.NetnsMode == nil {
		return a
	}
	option := "1" // the default of the parameter (drivers/infiniband/core/device.c)
	if *c.NetnsMode == plan.RDMAExclusive {
		option = "0"
	}
	a.Contributions = append(a.Contributions, sink.InInitramfs(plan.Contribution{
		Sink: sink.ModprobeName, Key: sink.OptionKey(plan.RDMACore, plan.RDMANetnsMode), Value: option, Default: *c.NetnsMode == plan.RDMAShared, TakeOver: c.TakeOver, Origin: b.OriginOf("netns_mode", ""),
	})...)
	if facts.Inventory.RootDirectory {
		return a
	}
	f := running(*c.NetnsMode, facts)
	if f.Fixable {
		a.Steps = append(a.Steps, plan.Step{
			Phase: plan.PhaseRDMA, Target: plan.RDMACore, Effect: plan.Live, Summary: fmt.Sprintf("set the network namespace mode of RDMA devices to %s", *c.NetnsMode),
			Action: plan.SetRDMANetns{Mode: *c.NetnsMode},
		})
	}
	a.Findings = append(a.Findings, f)
	return a
}

// running judges the mode that the running kernel has.
func running(want string, facts node.Facts) plan.Finding {
	const id = "rdma.netns_mode"
	module := node.Module.Get(facts, plan.RDMACore)
	if m, ok := module.Get(); ok && !m.Loaded {
		return plan.Finding{ID: id, Target: plan.RDMACore, Status: plan.Skipped, Source: module.Source(), Summary: plan.RDMACore + " is not loaded, and gets the mode when it is"}
	}
	v := plan.RDMANetns(module)
	mode, ok := v.Get()
	if !ok {
		f := plan.Unread(id, "the network namespace mode of RDMA devices", v)
		f.Target, f.Feature = plan.RDMACore, "netns_mode"
		return f
	}
	f := plan.Finding{
		ID: id, Target: plan.RDMACore, Status: plan.OK, Want: want, Found: mode, Running: mode, Source: v.Source(), Effect: plan.Live,
		Summary: "the network namespace mode of RDMA devices is " + mode,
	}
	if mode != want {
		f.Status, f.Fixable = plan.Drift, true
		f.Summary += ", wanted is " + want
	}
	return f
}
