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
		Doc: "The NVIDIA GPUs: how many the PCI bus shows, and what the driver says of them. A GPU that the driver cannot use any more is found with all but count alone.",
		Attributes: []plan.Attribute{
			{Name: "count", Type: cty.Number, Min: &low, Example: "8", Doc: "How many there must be. Left out, at least one."},
			{Name: "product", Type: cty.String, Example: `"NVIDIA H200"`, Doc: "The name of the product that all must be, as nvidia-smi -L has it. Left out, any."},
			{Name: "uniform", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether all must be alike: PCI id, product, size of BAR1, ECC, compute mode, persistence."},
			{Name: "usable", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether the driver must be able to use each."},
			{Name: "mig", Type: cty.Bool, Example: "false", Doc: "Whether all must be divided (Multi-Instance GPU), or none, now and after the next reset. Divided GPUs have no NVLink and no peers. Left out, either."},
			{Name: "ecc", Type: cty.Bool, Example: "true", Doc: "Whether the memory of all must have error correction, or of none, now and after the next reset. Left out, either."},
			{Name: "persistence", Type: cty.Bool, Example: "true", Doc: "Whether the driver must keep the state of all while nobody uses them, or of none; another one is a warning. Left out, either."},
		},
	}
}

type gpusConfig struct {
	Product     *string `cty:"product"`
	Uniform     bool    `cty:"uniform"`
	Usable      bool    `cty:"usable"`
	MIG         *bool   `cty:"mig"`
	ECC         *bool   `cty:"ecc"`
	Persistence *bool   `cty:"persistence"`
}

// asks reports whether the driver has to be asked.
func (c gpusConfig) asks() bool {
	return c.Product != nil || c.Uniform || c.Usable || len(c.toggles()) > 0
}

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
	if c.Usable {
		for i, g := range gpus {
			a.Findings = append(a.Findings, ailing(g, states[i])...)
		}
	}
	if c.Product != nil {
		a.Findings = append(a.Findings, c.products(gpus, states)...)
	}
	if c.Uniform {
		a.Findings = append(a.Findings, uniform(gpus, states, facts.Inventory.FromText())...)
	}
	for _, t := range c.toggles() {
		for i, v := range states {
			a.Findings = append(a.Findings, t.judge(gpus[i], v))
		}
	}
	return a
}

// ailing is what nvidia-smi says of memory that could not be repaired, and of what a GPU needs; nothing where nobody asked it.
func ailing(g node.GPU, v node.Value[node.GPUState]) []plan.Finding {
	state, _ := v.Get()
	var findings []plan.Finding
	reset := "stop what uses the GPU and reset it (nvidia-smi -r -i " + g.Address + "), or reboot"
	failed, told := state.RepairFailed.Get()
	pending, toldPending := state.RepairPending.Get()
	if told || toldPending {
		f := plan.Finding{ID: "gpus.memory", Target: g.Address, Status: plan.OK, Want: "nothing to repair", Found: "nothing to repair", Source: cmp.Or(state.RepairFailed.Source(), state.RepairPending.Source()), Summary: "no memory of " + name(g) + " waits for repair"}
		switch {
		case failed:
			f.Status, f.Found, f.Source = plan.Drift, "a row that could not be replaced", state.RepairFailed.Source()
			f.Summary = "memory of " + name(g) + " failed, and could not be replaced by spare rows"
			f.Why = "errors in it end jobs again and again"
			f.Fix = "take the GPU out of use and run NVIDIA's field diagnostic, which decides on its replacement"
		case pending:
			f.Status, f.Severity, f.Found, f.Source = plan.Drift, plan.Warning, "a repair that waits for a reset", state.RepairPending.Source()
			f.Summary = "memory of " + name(g) + " failed, and is left out or replaced only when the GPU is reset"
			f.Fix = reset
		}
		findings = append(findings, f)
	}
	if action, ok := state.Recovery.Get(); ok {
		f := plan.Finding{ID: "gpus.recovery", Target: g.Address, Status: plan.OK, Want: "None", Found: action, Source: state.Recovery.Source(), Summary: name(g) + " needs no recovery"}
		if action != f.Want {
			f.Status = plan.Drift
			f.Summary = fmt.Sprintf("%s needs to be recovered, says its driver: %s", name(g), action)
			f.Why, f.Fix = "until then jobs on it fail", "look for Xid 154 and those before it in the kernel log; "+reset
		}
		findings = append(findings, f)
	}
	return findings
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
			f.Fix = "say in count how many there are"
		case vm != "" && vm != "none":
			f.Fix = "have the host pass its GPUs through to this virtual machine (" + vm + ")"
		case asked: // else it may never have had one
			f.Why = "a GPU that the PCI bus does not show has fallen off it or is not powered"
			f.Fix = noGPUFix
		default:
			f.Fix = "where it has GPUs, " + noGPUFix
		}
	}
	return f
}

// noGPUFix says what to do about a GPU that the PCI bus does not show.
const noGPUFix = "look for its slot in the BMC's log and for Xid 79 in the kernel log; power-cycle the node"

const (
	// otherCard says what to do about a GPU of another model.
	otherCard = "replace the card, or take the profile that fits the node: nvidia-smi -L and the BMC's inventory say which card is where"
	// persistFix says how persistence is turned on (nvidia-persistenced(1), nvidia-smi(1)).
	persistFix = "run nvidia-persistenced, whose unit must not say --no-persistence-mode; nvidia-smi -pm 1 lasts until the driver is loaded anew"
)

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
			f.Fix = otherCard
		}
		findings = append(findings, f)
	}
	return findings
}

// trait is something that GPUs have in common.
type trait struct {
	what   string
	values []node.Value[string]
	// fix says how the others are made like most.
	fix string
}

// uniform judges whether all GPUs are alike; what most of them have is what the others should. Of text it compares what is told of
// all, which may be nothing.
func uniform(gpus []node.GPU, states []node.Value[node.GPUState], text bool) []plan.Finding {
	const id = "gpus.uniform"
	ids := make([]node.Value[string], len(gpus))
	for i, g := range gpus {
		ids[i] = node.Known(g.PCIID, node.Source{})
	}
	traits := []trait{
		{"PCI id", ids, otherCard},
		{"product", partsOf(states, func(s node.GPUState) node.Value[string] { return s.Product }), otherCard},
		{"BAR1", partsOf(states, func(s node.GPUState) node.Value[string] {
			return shown(s.BAR1Bytes, func(n uint64) string { return strconv.FormatUint(n>>20, 10) + " MiB" })
		}), "look in the BIOS for Above 4G Decoding and Resizable BAR, and for \"BAR\" in the kernel log, then power-cycle the node"},
		{"ECC", partsOf(states, func(s node.GPUState) node.Value[string] { return shown(s.ECC, enablement) }), "nvidia-smi -e 1 for all, then nvidia-smi -r"},
		{"compute mode", partsOf(states, func(s node.GPUState) node.Value[string] { return s.ComputeMode }), "nvidia-smi -c DEFAULT for all"},
		{"persistence", partsOf(states, func(s node.GPUState) node.Value[string] { return shown(s.Persistence, enablement) }), persistFix},
	}
	if text {
		traits = slices.DeleteFunc(traits[1:], func(t trait) bool { // names of products tell what ids do, which text seldom has
			return slices.ContainsFunc(t.values, func(v node.Value[string]) bool { return !v.IsKnown() && !v.IsUnsupported() })
		})
		if len(traits) == 0 {
			return nil
		}
	}
	f := plan.Finding{ID: id, Target: "gpus", Status: plan.OK, Want: "all alike", Found: "all alike", Summary: "all GPUs are alike"}
	var differences, fixes, unread []string
	for _, t := range traits {
		if text := t.differences(gpus); text != "" {
			differences, fixes = append(differences, text), append(fixes, t.fix)
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
		f.Fix = strings.Join(slices.Compact(fixes), "; ")
	case len(unread) > 0:
		f.Status, f.Found = plan.Undetermined, ""
		f.Summary = "whether all GPUs are alike is unknown: " + unread[0]
	}
	return []plan.Finding{f}
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

// toggle is something of a GPU that is on or off.
type toggle struct {
	id, what string
	want     bool
	severity plan.Severity // the block's where it is empty
	// now, and after the next reset; next is nil where there is no such thing.
	now, next func(node.GPUState) node.Value[bool]
	// why it matters where it is not as wanted; how is what sets it, with %s for the GPU as nvidia-smi -i takes it, and then what comes after.
	why, how, then string
}

// toggles are those that the block wants to be on or off.
func (c gpusConfig) toggles() []toggle {
	var all []toggle
	digit := func(on bool) int { return map[bool]int{true: 1}[on] }
	if c.MIG != nil {
		t := toggle{
			id: "gpus.mig", what: "MIG", want: *c.MIG,
			now:  func(s node.GPUState) node.Value[bool] { return s.MIG },
			next: func(s node.GPUState) node.Value[bool] { return s.MIGPending },
			how:  fmt.Sprintf("nvidia-smi -i %%s -mig %d", digit(*c.MIG)), then: ", while nobody uses the GPU, and nvidia-smi -r where it stays pending",
		}
		if !*c.MIG {
			t.why = "a divided GPU has neither NVLink nor peers"
		}
		all = append(all, t)
	}
	if c.ECC != nil {
		t := toggle{
			id: "gpus.ecc", what: "ECC", want: *c.ECC,
			now:  func(s node.GPUState) node.Value[bool] { return s.ECC },
			next: func(s node.GPUState) node.Value[bool] { return s.ECCPending },
			how:  fmt.Sprintf("nvidia-smi -i %%s -e %d", digit(*c.ECC)), then: ", then nvidia-smi -r while nobody uses the GPU, or reboot",
		}
		if *c.ECC {
			t.why = "a bit that flips in the GPU's memory changes a result, and nobody is told"
		}
		all = append(all, t)
	}
	if c.Persistence != nil {
		t := toggle{
			id: "gpus.persistence", what: "persistence", want: *c.Persistence, severity: plan.Warning,
			now: func(s node.GPUState) node.Value[bool] { return s.Persistence }, how: "nvidia-smi -i %s -pm 0",
		}
		if *c.Persistence {
			t.why, t.how = "without a client the driver unloads the GPU's state: first jobs start slowly, and settings are lost", persistFix
		}
		all = append(all, t)
	}
	return all
}

// selects is what nvidia-smi -i takes for a GPU: its address, or of text that tells none its index.
func selects(g node.GPU) string {
	index := strings.TrimPrefix(g.Address, "GPU")
	if _, err := strconv.ParseUint(index, 10, 16); err != nil {
		return g.Address
	}
	return index
}

// judge judges it of a GPU, now and after the next reset.
func (t toggle) judge(g node.GPU, v node.Value[node.GPUState]) plan.Finding {
	now, next := partOf(v, t.now), node.Unsupported[bool]("it does not wait for a reset", node.Source{})
	if t.next != nil {
		next = partOf(v, t.next)
	}
	f := plan.Finding{ID: t.id, Target: g.Address, Status: plan.OK, Want: enablement(t.want), Source: now.Source()}
	how := strings.ReplaceAll(t.how, "%s", selects(g))
	is, ok := now.Get()
	pending, told := next.Get()
	f.Found = enablement(is)
	switch {
	case now.IsUnsupported() && !t.want:
		f.Found, f.Summary = "none", fmt.Sprintf("%s has no %s", name(g), t.what)
	case !ok:
		f = unreadGPU(t.id, g.Address, t.what, now)
	case is != t.want:
		f.Status, f.Why = plan.Drift, t.why
		f.Summary = fmt.Sprintf("%s is %s on %s, wanted is %s", t.what, f.Found, name(g), f.Want)
		f.Fix = how + t.then
	case told && pending != t.want:
		f.Status, f.Found = plan.Drift, f.Found+", "+enablement(pending)+" after a reset"
		f.Summary = fmt.Sprintf("%s is %s on %s, and will be %s after the next reset", t.what, enablement(is), name(g), enablement(pending))
		f.Fix = how
	case !told && !next.IsUnsupported():
		f = unreadGPU(t.id, g.Address, t.what+" after the next reset", next)
	default:
		f.Summary = fmt.Sprintf("%s is %s on %s", t.what, f.Found, name(g))
	}
	f.Severity = t.severity
	return f
}

func addressList(gpus []node.GPU) string {
	var all []string
	for _, g := range gpus {
		all = append(all, g.Address)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
