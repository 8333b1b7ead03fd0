// Package gpudirect is the block type gpudirect: NICs read and write GPU memory (GPUDirect RDMA), through nvidia_peermem or
// through dma-buf.
package gpudirect

import (
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"busbar/modules/kernelmodule"
	"busbar/modules/service"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

const (
	blockType = "gpudirect"
	// predecessor registers under the same name in ib_core, so that whichever comes second fails; its init script
	// loads it at boot, whatever modprobe.d says (Mellanox/nv_peer_memory).
	predecessor = "nv_peer_mem"
	// openIB is the service of MLNX_OFED and DOCA that loads the RDMA stack, and loads it anew when it is restarted.
	openIB = "openibd.service"
)

// Type is the block type gpudirect.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of gpudirect.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: blockType,
		Doc: "GPUDirect RDMA: NICs read and write GPU memory. Without it NCCL copies through host memory and says so only in its debug log. " +
			"nvidia_peermem is loaded now, at boot and after each start of openibd, and its predecessor nv_peer_mem is kept out; dma-buf is only judged.",
		Ceiling: plan.Reboot, Sinks: []string{sink.ModulesLoadName, sink.ModprobeName, sink.InitramfsName, sink.DropInsName},
		Attributes: []plan.Attribute{
			{
				Name: "path", Type: cty.String, Default: cty.StringVal(Any), Enum: []string{Any, Peermem, DMABuf}, Example: `"dmabuf"`,
				Doc: "peermem: the module nvidia_peermem. dmabuf: the driver's open modules and Linux 5.12 or newer, which need nothing else. any: dmabuf where the node has it, else peermem.",
			},
			{Name: "options", Type: cty.Map(cty.DynamicPseudoType), Example: "{ peerdirect_support = 1 }", Doc: "Parameters of nvidia_peermem, where it is loaded: peerdirect_support (1 for MLNX_OFED 4.9), persistent_api_support."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Take lines of others that stand against it out of their files, keeping a copy."},
		},
	}
}

// Validate finds parameters that no file can hold, and those of a module that is not used.
func (Type) Validate(b plan.Block) []plan.Problem {
	options := b.Attributes["options"]
	if options == cty.NilVal || options.IsNull() {
		return nil
	}
	if b.Text("path") == DMABuf {
		return []plan.Problem{{Attribute: "options", Summary: "parameters of a module that is not used", Detail: `They are those of nvidia_peermem, which path = "dmabuf" does without.`}}
	}
	return kernelmodule.Type{}.Validate(module(b))
}

// module is the block kernel_module that nvidia_peermem has.
func module(b plan.Block) plan.Block {
	m := lowered(b, "kernel_module", plan.PeerMemoryModule, map[string]cty.Value{
		"state": cty.StringVal("loaded"), "options": b.Attributes["options"], "take_over": b.Attributes["take_over"],
	})
	for key, origin := range b.Origins {
		if key != "path" {
			m.Origins[key] = origin
		}
	}
	return m
}

// withoutPredecessor are the blocks that keep nv_peer_mem out.
func withoutPredecessor(b plan.Block) (module, unit plan.Block) {
	module = lowered(b, "kernel_module", predecessor, map[string]cty.Value{"state": cty.StringVal("unloaded"), "boot": cty.StringVal("unmanaged"), "take_over": cty.False})
	unit = lowered(b, "service", predecessor, map[string]cty.Value{"enabled": cty.False, "active": cty.False})
	return module, unit
}

// lowered is a block of another type that stands for a part of this one.
func lowered(b plan.Block, name, label string, attributes map[string]cty.Value) plan.Block {
	return plan.Block{Address: b.Address, Type: name, Label: label, Origin: b.OriginOf("path", ""), Origins: map[string]plan.Origin{}, Attributes: attributes}
}

// Queries are those of the ways, of the modules, and of the services that have to do with them.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	queries := WayQueries()
	if b.Text("path") == DMABuf {
		return queries
	}
	oldModule, oldUnit := withoutPredecessor(b)
	// What the sink of drop-ins reads hangs on what is contributed, and that on the driver.
	queries = append(queries, node.Unit.Query(openIB), node.UnitFiles.Query(openIB), node.SystemConfFiles.Query(""))
	return slices.Concat(queries, kernelmodule.Type{}.Queries(module(b), inv), kernelmodule.Type{}.Queries(oldModule, inv), service.Type{}.Queries(oldUnit, inv))
}

// assessor judges one block.
type assessor struct {
	plan.Assessment
	block plan.Block
	facts node.Facts
}

// Assess judges the way that the block wants, and lowers nvidia_peermem to what kernel_module and service say of it.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	a := &assessor{block: b, facts: facts}
	path := b.Text("path")
	if path == "" {
		return a.Assessment
	}
	if path != DMABuf {
		a.claim()
		a.keepPredecessorOut()
	}
	if !a.judged(path) {
		return a.Assessment
	}
	if facts.Inventory.RootDirectory {
		a.loadPeermem()
		return a.Assessment
	}
	ways := JudgeWays(blockType, facts)
	switch path {
	case DMABuf:
		a.add(ways.DMABuf)
	case Peermem:
		a.loadPeermem()
		if ways.Peermem.Status == plan.OK || ways.Unregistered {
			a.add(ways.Peermem) // that it is not loaded is said of the module
		}
	default:
		a.either(ways)
	}
	return a.Assessment
}

func (a *assessor) add(f plan.Finding) { a.Findings = append(a.Findings, f) }

func (a *assessor) join(from plan.Assessment) {
	a.Findings = append(a.Findings, from.Findings...)
	a.Contributions = append(a.Contributions, from.Contributions...)
	a.Steps = append(a.Steps, from.Steps...)
}

// judged reports whether there is something to judge, and says why not. Then it is unknown what the block wants of
// the files of others.
func (a *assessor) judged(path string) bool {
	inv := a.facts.Inventory
	f, none := NoGPU(blockType+".path", inv)
	switch {
	case !none, inv.RootDirectory && path == Peermem:
		return true
	case inv.RootDirectory && path == DMABuf:
		f.Summary = "the driver that runs is not judged (--root)"
	case inv.RootDirectory:
		f.Status, f.Tolerated, f.Effect = plan.Deferred, true, plan.Live
		f.Summary = "whether the driver exports dma-buf, or nvidia_peermem is needed, is known at the first boot (--root)"
	}
	a.add(f)
	a.undecided()
	return false
}

// undecided keeps what busbar's files hold for the block.
func (a *assessor) undecided() {
	if a.block.Text("path") == DMABuf {
		return
	}
	for _, name := range (Type{}).Spec().Sinks {
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: name, Undecided: true, Origin: a.block.OriginOf("path", "")})
	}
}

// claim says what no other block may contradict: who wants nvidia_peermem unloaded wants dmabuf.
func (a *assessor) claim() {
	facts := map[string]string{
		plan.ModuleFact(plan.PeerMemoryModule): "loaded", plan.ModuleAtBootFact(plan.PeerMemoryModule): "loaded",
		plan.ModuleFact(predecessor): "unloaded",
	}
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		a.Contributions = append(a.Contributions, plan.Contribution{
			Sink: plan.FactSink, Key: key, Value: facts[key], By: `path = "` + a.block.Text("path") + `"`, Origin: a.block.OriginOf("path", ""),
		})
	}
}

func (a *assessor) keepPredecessorOut() {
	module, unit := withoutPredecessor(a.block)
	a.join(kernelmodule.Type{}.Assess(module, a.facts))
	a.join(service.Type{}.Assess(unit, a.facts))
}

// loadPeermem has nvidia_peermem loaded, now, at boot, and behind each start of openibd: systemd loads modules before it, and it
// takes the RDMA stack away from under them.
func (a *assessor) loadPeermem() (loads bool) {
	m := kernelmodule.Type{}.Assess(module(a.block), a.facts)
	for i := range m.Steps {
		m.Steps[i].After = []string{plan.LoadModule{Unload: true}.Kind() + ":" + predecessor}
	}
	a.join(m)
	if slices.ContainsFunc(m.Contributions, func(c plan.Contribution) bool { return c.Value == sink.LoadAtBoot }) {
		a.Contributions = append(a.Contributions, plan.Contribution{
			Sink: sink.DropInsName, Key: sink.DropInKey(openIB, sink.ExecStartPost), Value: "-/sbin/modprobe nvidia-peermem", Origin: a.block.OriginOf("path", ""),
		})
	}
	return len(m.Steps) > 0
}

// either has nvidia_peermem loaded where the driver exports no dma-buf.
func (a *assessor) either(ways Ways) {
	f := ways.Either()
	driver, _ := node.NVIDIADriver.Get(a.facts, "").Get()
	switch {
	case ways.DMABuf.Status == plan.OK:
	case ways.DMABuf.Status != plan.Drift || !driver.Loaded:
		a.undecided() // which flavour it is, is not known
	default:
		if a.loadPeermem() && f.Status == plan.Drift {
			f.Fixable, f.By, f.Effect, f.Fix = true, plan.PeerMemoryModule, plan.Live, ""
		}
	}
	a.add(f)
	if ways.Unregistered {
		a.add(ways.Peermem)
	}
}
