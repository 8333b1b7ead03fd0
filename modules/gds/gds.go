// Package gds is the block type gds: drives read and write GPU memory (GPUDirect Storage), through nvidia_fs or through
// peer-to-peer DMA of the kernel, and how the library cuFile is set.
package gds

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/json"

	"busbar/internal/cufile"
	"busbar/modules/gpudirect"
	"busbar/modules/kernelmodule"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

const blockType = "gds"

// Type is the block type gds.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of gds.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: blockType,
		Doc: "GPUDirect Storage: drives read and write GPU memory. Without it cuFile copies through host memory where it may, and says so only in its log. " +
			"Settings are made in /etc/cufile.json as it is, and stay there when the block goes.",
		Ceiling: plan.DriverReload, Sinks: []string{sink.ModulesLoadName, sink.ModprobeName, sink.CUFileName},
		Attributes: []plan.Attribute{
			{
				Name: "path", Type: cty.String, Default: cty.StringVal(NVIDIAFS), Enum: []string{NVIDIAFS, P2PDMA}, Example: `"p2pdma"`,
				Doc: "nvidia_fs: NVIDIA's module is loaded, now and at boot. p2pdma: the kernel's NVMe driver does it, and cuFile is told to use it (properties.use_pci_p2pdma); driver and kernel are only judged.",
			},
			{Name: "settings", Type: cty.DynamicPseudoType, Example: `{ "properties.allow_compat_mode" = false }`, Doc: "Settings of cuFile, by the names of their members with dots between: true, false, numbers, texts and lists of them. A setting whose value cannot be computed on a node is withheld there, alone."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Take lines of others that keep the module out out of their files, keeping a copy."},
		},
	}
}

// settings are those of the block, by key, and the mistakes in them.
func settings(b plan.Block) (values map[string]string, problems []plan.Problem) {
	values = map[string]string{}
	entries, err := b.Entries("settings")
	if err != nil {
		problems = append(problems, plan.Problem{Attribute: "settings", Summary: "not an object", Detail: err.Error()})
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		wrong := func(err error) {
			problems = append(problems, plan.Problem{Attribute: "settings", Key: key, Summary: "no setting of cuFile", Detail: err.Error()})
		}
		if err := cufile.CheckKey(key); err != nil {
			wrong(err)
			continue
		}
		text, err := json.Marshal(entries[key], entries[key].Type())
		if err == nil {
			err = cufile.CheckValue(string(text))
		}
		if err != nil {
			wrong(err)
			continue
		}
		values[key] = string(text)
	}
	return values, problems
}

// Validate finds what are no settings of cuFile, and one that stands against the path.
func (Type) Validate(b plan.Block) []plan.Problem {
	values, problems := settings(b)
	if value, set := values[useP2PDMA]; set && value != "true" && b.Text("path") == P2PDMA {
		problems = append(problems, plan.Problem{Attribute: "settings", Key: useP2PDMA, Summary: "it stands against the path", Detail: fmt.Sprintf("path = %q needs it to be true.", P2PDMA)})
	}
	return problems
}

// module is the block kernel_module that nvidia_fs has.
func module(b plan.Block) plan.Block {
	return plan.Block{
		Address: b.Address, Type: "kernel_module", Label: fsModule, Origin: b.OriginOf("path", ""),
		Attributes: map[string]cty.Value{"state": cty.StringVal("loaded"), "take_over": b.Attributes["take_over"]},
	}
}

// Queries are those of the way.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	switch b.Text("path") {
	case NVIDIAFS:
		return kernelmodule.Type{}.Queries(module(b), inv)
	case P2PDMA:
		return P2PDMAQueries()
	default:
		return nil
	}
}

// Assess contributes the settings, and judges or lowers the way.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var a plan.Assessment
	values, _ := settings(b)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: sink.CUFileName, Key: key, Value: values[key], Origin: b.OriginOf("settings", key)})
	}
	root := facts.Inventory.RootDirectory
	switch path := b.Text("path"); {
	case path == P2PDMA:
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: sink.CUFileName, Key: useP2PDMA, Value: "true", By: `path = "` + P2PDMA + `"`, Origin: b.OriginOf("path", "")})
		if f, none := gpudirect.NoGPU(blockType+".path", facts.Inventory); none {
			a.Findings = append(a.Findings, f)
		} else {
			a.Findings = append(a.Findings, JudgeP2PDMA(blockType, false, facts))
		}
	case path == NVIDIAFS:
		f, none := gpudirect.NoGPU(blockType+".path", facts.Inventory)
		if none && !root {
			a.Findings = append(a.Findings, f)
			a.Contributions = append(a.Contributions, undecided(b)...)
			break
		}
		m := kernelmodule.Type{}.Assess(module(b), facts)
		a.Findings = append(a.Findings, m.Findings...)
		a.Contributions = append(a.Contributions, m.Contributions...)
		a.Steps = append(a.Steps, m.Steps...)
	}
	return a
}

// undecided keeps what busbar's files hold for the module, which does not load without a GPU.
func undecided(b plan.Block) []plan.Contribution {
	var all []plan.Contribution
	for _, name := range []string{sink.ModulesLoadName, sink.ModprobeName} {
		all = append(all, plan.Contribution{Sink: name, Undecided: true, Origin: b.OriginOf("path", "")})
	}
	return append(all, plan.Contribution{Sink: plan.FactSink, Key: plan.ModuleFact(fsModule), Value: "loaded", Origin: b.OriginOf("path", "")})
}
