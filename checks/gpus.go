package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// GPUs is check "gpus": how many NVIDIA GPUs the PCI bus shows, and whether they are of one kind.
type GPUs struct{}

// Spec of check "gpus".
func (GPUs) Spec() plan.Spec {
	low := int64(1)
	return plan.Spec{
		Name: "gpus", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The NVIDIA GPUs: how many the PCI bus shows, and what the driver says of them. A GPU that the driver cannot use any more is found with usable, uniform, product or mig.",
		Attributes: []plan.Attribute{
			{Name: "count", Type: cty.Number, Min: &low, Example: "8", Doc: "How many there must be. Left out, at least one."},
			{Name: "product", Type: cty.String, Example: `"NVIDIA H200"`, Doc: "The name of the product that all must be, as nvidia-smi -L has it. Left out, any."},
			{Name: "uniform", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether all must be alike: PCI id, product, size of BAR1, ECC, compute mode, persistence."},
			{Name: "usable", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether the driver must be able to use each."},
			{Name: "mig", Type: cty.Bool, Example: "false", Doc: "Whether all must be divided (Multi-Instance GPU), or none, now and after the next reset. Divided GPUs have no NVLink and no peers. Left out, either."},
		},
	}
}

type gpusConfig struct {
	Product *string `cty:"product"`
	Uniform bool    `cty:"uniform"`
	Usable  bool    `cty:"usable"`
	MIG     *bool   `cty:"mig"`
}

// asks reports whether the driver has to be asked.
func (c gpusConfig) asks() bool { return c.Product != nil || c.Uniform || c.Usable || c.MIG != nil }

// Queries are what the driver says of each GPU, if anything but their number is judged.
func (GPUs) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c gpusConfig
	if b.Decode(&c) != nil || !c.asks() {
		return nil
	}
	return eachGPU(inv, node.GPUInfo)
}

// Assess counts, then judges what the driver says.
func (GPUs) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	if facts.Inventory.RootDirectory {
		return skippedGPUs("gpus.count", "hardware is not judged (--root)")
	}
	v := facts.Inventory.GPUs()
	gpus, ok := v.Get()
	var a plan.Assessment
	if _, withheld := b.IsWithheld("count", ""); !withheld {
		a.Findings = append(a.Findings, countGPUs(b, facts.Inventory, gpus, v))
	}
	var c gpusConfig
	if !ok || len(gpus) == 0 || b.Decode(&c) != nil || !c.asks() {
		return a
	}
	states := make([]node.Value[node.GPUState], len(gpus))
	for i, g := range gpus {
		states[i] = node.GPUInfo.Get(facts, g.Address)
		state, _ := states[i].Get()
		if state.Fault != "" {
			a.Findings = append(a.Findings, plan.Finding{
				ID: "gpus.fault", Target: g.Address, Status: plan.Drift, Want: "a GPU that answers", Found: state.Fault, Source: states[i].Source(),
				Summary: fmt.Sprintf("%s cannot be used: %s", name(g), state.Fault),
				Fix:     "look for Xid in the kernel log; reset the GPU (nvidia-smi -r -i " + g.Address + "), and power-cycle the node where that fails",
			})
		}
	}
	if c.Product != nil {
		a.Findings = append(a.Findings, c.products(gpus, states)...)
	}
	if c.Uniform {
		a.Findings = append(a.Findings, uniform(gpus, states))
	}
	if c.MIG != nil {
		a.Findings = append(a.Findings, c.divided(gpus, states)...)
	}
	return a
}

func countGPUs(b plan.Block, inv node.Inventory, gpus []node.GPU, v node.Value[[]node.GPU]) plan.Finding {
	if !v.IsKnown() {
		return plan.Unread("gpus.count", "how many GPUs there are", v)
	}
	f := plan.Finding{ID: "gpus.count", Target: "gpus", Status: plan.OK, Want: "at least 1", Found: strconv.Itoa(len(gpus)), Source: v.Source()}
	found, want, asked := int64(len(gpus)), int64(1), false
	if count := b.Attributes["count"]; count != cty.NilVal && !count.IsNull() {
		want, _ = count.AsBigFloat().Int64()
		f.Want, asked = strconv.FormatInt(want, 10), true
	}
	switch len(gpus) {
	case 0:
		f.Summary = "no GPU on the PCI bus"
	case 1:
		f.Summary = "1 GPU on the PCI bus"
	default:
		f.Summary = fmt.Sprintf("%d GPUs on the PCI bus", len(gpus))
	}
	if len(gpus) > 0 {
		f.Found += ": " + addressList(gpus)
	}
	if found < want || asked && found > want {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		switch vm, _ := inv.Virtualization.Get(); {
		case found > want:
		case vm != "" && vm != "none":
			f.Fix = "have the host pass its GPUs through to this virtual machine (" + vm + ")"
		case asked: // else it may never have had one
			f.Why = "a GPU that the PCI bus does not show has fallen off it or is not powered"
			f.Fix = "look for its slot in the BMC's log and for Xid 79 in the kernel log; power-cycle the node"
		}
	}
	return f
}

// partsOf are facts inside those of GPUs.
func partsOf[T any](states []node.Value[node.GPUState], part func(node.GPUState) node.Value[T]) []node.Value[T] {
	parts := make([]node.Value[T], len(states))
	for i, v := range states {
		parts[i] = partOf(v, part)
	}
	return parts
}

// products judges the name of each GPU.
func (c gpusConfig) products(gpus []node.GPU, states []node.Value[node.GPUState]) []plan.Finding {
	const id = "gpus.product"
	var findings []plan.Finding
	for i, v := range partsOf(states, func(s node.GPUState) node.Value[string] { return s.Product }) {
		have, ok := v.Get()
		if !ok {
			findings = append(findings, unreadGPU(id, gpus[i].Address, "the product", v))
			continue
		}
		f := plan.Finding{ID: id, Target: gpus[i].Address, Status: plan.OK, Want: *c.Product, Found: have, Source: v.Source(), Summary: fmt.Sprintf("%s is %s", node.Called("GPU", gpus[i].Address), have)}
		if have != *c.Product {
			f.Status = plan.Drift
			f.Summary += ", wanted is " + f.Want
		}
		findings = append(findings, f)
	}
	return findings
}

// trait is something that GPUs have in common.
type trait struct {
	what   string
	values []node.Value[string]
}

// uniform judges whether all GPUs are alike; what most of them have is what the others should.
func uniform(gpus []node.GPU, states []node.Value[node.GPUState]) plan.Finding {
	const id = "gpus.uniform"
	ids := make([]node.Value[string], len(gpus))
	for i, g := range gpus {
		ids[i] = node.Known(g.PCIID, node.Source{})
	}
	traits := []trait{
		{"PCI id", ids},
		{"product", partsOf(states, func(s node.GPUState) node.Value[string] { return s.Product })},
		{"BAR1", partsOf(states, func(s node.GPUState) node.Value[string] {
			return shown(s.BAR1Bytes, func(n uint64) string { return strconv.FormatUint(n>>20, 10) + " MiB" })
		})},
		{"ECC", partsOf(states, func(s node.GPUState) node.Value[string] { return shown(s.ECC, enablement) })},
		{"compute mode", partsOf(states, func(s node.GPUState) node.Value[string] { return s.ComputeMode })},
		{"persistence", partsOf(states, func(s node.GPUState) node.Value[string] { return shown(s.Persistence, enablement) })},
	}
	f := plan.Finding{ID: id, Target: "gpus", Status: plan.OK, Want: "all alike", Found: "all alike", Summary: "all GPUs are alike"}
	var differences, unread []string
	for _, t := range traits {
		if text := t.differences(gpus); text != "" {
			differences = append(differences, text)
		}
		if i := slices.IndexFunc(t.values, func(v node.Value[string]) bool { return !v.IsKnown() && !v.IsUnsupported() }); i >= 0 && len(unread) == 0 {
			unread = append(unread, fmt.Sprintf("%s of %s: %s", t.what, node.Called("GPU", gpus[i].Address), t.values[i].Reason()))
		}
	}
	switch {
	case len(differences) > 0:
		f.Status, f.Found = plan.Drift, strings.Join(differences, "; ")
		f.Summary = "GPUs differ: " + f.Found
		f.Why = "a job over all of them runs at the pace of the slowest, or fails on one"
	case len(unread) > 0:
		f.Status, f.Found = plan.Undetermined, ""
		f.Summary = "whether all GPUs are alike is unknown: " + unread[0]
	}
	return f
}

// shown is a fact in words.
func shown[T any](v node.Value[T], show func(T) string) node.Value[string] {
	return partOf(v, func(x T) node.Value[string] { return node.Known(show(x), v.Source()) })
}

func enablement(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

// differences says which GPUs have something else than most; empty where none has.
func (t trait) differences(gpus []node.GPU) string {
	having := map[string][]string{}
	for i, v := range t.values {
		value, ok := v.Get()
		switch {
		case ok:
		case v.IsUnsupported():
			value = "none"
		default:
			continue
		}
		having[value] = append(having[value], gpus[i].Address)
	}
	if len(having) < 2 {
		return ""
	}
	values := slices.SortedFunc(maps.Keys(having), func(a, b string) int { return cmp.Or(len(having[b])-len(having[a]), cmp.Compare(a, b)) })
	var words []string
	for _, value := range values[1:] {
		words = append(words, fmt.Sprintf("%s %s on %s", t.what, value, enumerate(having[value])))
	}
	return fmt.Sprintf("%s, %s on the others", strings.Join(words, ", "), values[0])
}

// divided judges MIG of each GPU, now and after the next reset.
func (c gpusConfig) divided(gpus []node.GPU, states []node.Value[node.GPUState]) []plan.Finding {
	const id = "gpus.mig"
	var findings []plan.Finding
	for i, v := range states {
		now, next := partOf(v, func(s node.GPUState) node.Value[bool] { return s.MIG }), partOf(v, func(s node.GPUState) node.Value[bool] { return s.MIGPending })
		f := plan.Finding{ID: id, Target: gpus[i].Address, Status: plan.OK, Want: enablement(*c.MIG), Source: now.Source()}
		is, ok := now.Get()
		pending, told := next.Get()
		f.Found = enablement(is)
		switch {
		case now.IsUnsupported() && !*c.MIG:
			f.Found, f.Summary = "none", name(gpus[i])+" has no MIG"
		case !ok:
			f = unreadGPU(id, gpus[i].Address, "MIG", now)
		case is != *c.MIG:
			f.Status = plan.Drift
			f.Summary = fmt.Sprintf("MIG is %s on %s, wanted is %s", f.Found, name(gpus[i]), f.Want)
			f.Fix = fmt.Sprintf("nvidia-smi -i %s -mig %d, while nobody uses the GPU, and nvidia-smi -r where it stays pending", gpus[i].Address, map[bool]int{true: 1}[*c.MIG])
			if is {
				f.Why = "a divided GPU has neither NVLink nor peers"
			}
		case told && pending != *c.MIG:
			f.Status, f.Found = plan.Drift, f.Found+", "+enablement(pending)+" after a reset"
			f.Summary = fmt.Sprintf("MIG is %s on %s, and will be %s after the next reset", enablement(is), name(gpus[i]), enablement(pending))
			f.Fix = fmt.Sprintf("nvidia-smi -i %s -mig %d", gpus[i].Address, map[bool]int{true: 1}[*c.MIG])
		case !told && !next.IsUnsupported():
			f = unreadGPU(id, gpus[i].Address, "MIG after the next reset", next)
		default:
			f.Summary = fmt.Sprintf("MIG is %s on %s", f.Found, name(gpus[i]))
		}
		findings = append(findings, f)
	}
	return findings
}

func addressList(gpus []node.GPU) string {
	var all []string
	for _, g := range gpus {
		all = append(all, g.Address)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
