package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// P2P is check "p2p": whether the driver lets all GPUs reach each other's memory.
type P2P struct{}

// Spec of check "p2p".
func (P2P) Spec() plan.Spec {
	return plan.Spec{
		Name: "p2p", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Peer-to-peer access between all pairs of GPUs, as driver and chipset allow it. Whether ACS or an IOMMU get in the way is not in the driver's answer.",
		Attributes: []plan.Attribute{
			{Name: "nvlink", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether all pairs must have it over NVLink."},
		},
	}
}

type p2pConfig struct {
	NVLink bool `cty:"nvlink"`
}

// Queries are the matrix and what can be the reason of a refusal.
func (P2P) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	queries := eachGPU(inv, node.GPUInfo)
	if len(queries) < 2 {
		return nil
	}
	return append(queries, node.P2P.Query(""), node.NVIDIADriver.Query(""), node.ConfidentialComputing.Query(""))
}

const p2pID = "p2p.access"

// access is a kind of access in the matrix.
type access struct {
	name string
	of   func(node.P2PPair) node.Value[string]
}

// Assess looks at every pair in both directions.
func (P2P) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c p2pConfig
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	gpus, a, ok := gpusToJudge(p2pID, facts)
	if !ok {
		return a
	}
	if len(gpus) < 2 {
		return skippedGPUs(p2pID, "there is one GPU, which has no peer")
	}
	v := node.P2P.Get(facts, "")
	state, ok := v.Get()
	if !ok {
		f := plan.Unread(p2pID, "which GPUs can reach each other", v)
		f.Target = "gpus"
		return plan.Assessment{Findings: []plan.Finding{f}}
	}
	kinds := []access{
		{"read", func(p node.P2PPair) node.Value[string] { return p.Read }},
		{"write", func(p node.P2PPair) node.Value[string] { return p.Write }},
	}
	if c.NVLink {
		kinds = append(kinds, access{"NVLink", func(p node.P2PPair) node.Value[string] { return p.NVLink }})
	}
	for _, kind := range kinds {
		for _, f := range kind.judge(gpus, state, facts) {
			f.Source = v.Source()
			a.Findings = append(a.Findings, f)
		}
	}
	return a
}

// direction is an ordered pair of GPUs.
type direction struct{ from, to string }

// judge is one finding where all is well, else one for each status that pairs have.
func (k access) judge(gpus []node.GPU, state node.P2PState, facts node.Facts) []plan.Finding {
	refused, unread := map[string][]direction{}, map[string][]direction{}
	var all []direction
	for _, from := range gpus {
		for _, to := range gpus {
			if from == to {
				continue
			}
			d := direction{from.Address, to.Address}
			all = append(all, d)
			pair, ok := state.Between(d.from, d.to)
			v := k.of(pair)
			status, known := v.Get()
			switch {
			case !ok:
				why := "the driver does not know " + strings.Join(slices.DeleteFunc([]string{d.from, d.to}, func(a string) bool { return slices.Contains(state.GPUs, a) }), " and ")
				unread[why] = append(unread[why], d)
			case !known:
				unread[v.Reason()] = append(unread[v.Reason()], d)
			case status == node.P2PUnknown:
				const why = "the driver does not know it (U)"
				unread[why] = append(unread[why], d)
			case status != node.P2POK:
				refused[status] = append(refused[status], d)
			}
		}
	}
	id := "p2p." + strings.ToLower(k.name)
	var findings []plan.Finding
	for _, status := range sortedKeys(refused) {
		which := pairs(refused[status], len(all))
		f := plan.Finding{ID: id, Target: k.name + " " + status, Status: plan.Drift, Want: node.P2POK, Found: status + ": " + which}
		f.Summary = fmt.Sprintf("%s: %s, %s", k.denied(), which, cmp.Or(p2pWords(status), "the driver says "+status))
		f.Why = "CUDA and NCCL copy through host memory instead, and no program fails"
		f.Fix = p2pFix(status, refused[status], facts)
		findings = append(findings, f)
	}
	for _, why := range sortedKeys(unread) {
		findings = append(findings, plan.Finding{
			ID: id, Target: k.name + ", unknown", Status: plan.Undetermined, Want: node.P2POK,
			Summary: fmt.Sprintf("%s is unknown of %s: %s", k.subject(), pairs(unread[why], len(all)), why),
		})
	}
	if len(findings) == 0 {
		findings = append(findings, plan.Finding{
			ID: id, Target: k.name, Status: plan.OK, Want: node.P2POK, Found: node.P2POK, Summary: k.granted() + ": " + pairs(all, len(all)),
		})
	}
	return findings
}

func (k access) denied() string {
	if k.name == "NVLink" {
		return "GPUs that do not reach each other over NVLink"
	}
	return "GPUs that may not " + k.name + " each other's memory"
}

func (k access) granted() string {
	if k.name == "NVLink" {
		return "GPUs reach each other over NVLink"
	}
	return "GPUs may " + k.name + " each other's memory"
}

func (k access) subject() string {
	if k.name == "NVLink" {
		return "peer-to-peer access over NVLink"
	}
	return k.name + " access"
}

// pairs names pairs: "A and B" of both directions, "A to B" of one. all is how many directions there are, two to a pair.
func pairs(list []direction, all int) string {
	if len(list) == all && all > 2 {
		return fmt.Sprintf("all %d pairs", all/2)
	}
	var words []string
	for _, d := range list {
		back := slices.Contains(list, direction{d.to, d.from})
		switch {
		case back && d.from < d.to:
			words = append(words, d.from+" and "+d.to)
		case !back:
			words = append(words, d.from+" to "+d.to)
		}
	}
	if alone := common(list); alone != "" && len(words) > 2 {
		return fmt.Sprintf("%s and %d others", alone, len(words))
	}
	return strings.Join(words, ", ")
}

// common is the GPU that all of the pairs have in common, or empty.
func common(list []direction) string {
	for _, candidate := range []string{list[0].from, list[0].to} {
		if !slices.ContainsFunc(list, func(d direction) bool { return d.from != candidate && d.to != candidate }) {
			return candidate
		}
	}
	return ""
}

// p2pWords are those of nvidia-smi's legend.
func p2pWords(status string) string {
	return map[string]string{
		node.P2PChipsetNotSupported:  "chipset not supported (CNS)",
		node.P2PGPUNotSupported:      "GPU not supported (GNS)",
		node.P2PTopologyNotSupported: "topology not supported (TNS)",
		node.P2PDisabledByRegkey:     "disabled by a parameter of the driver (DR)",
		node.P2PNotSupported:         "not supported (NS)",
	}[status]
}

// p2pFix says what refuses the access, as far as facts tell, and what to do.
func p2pFix(status string, list []direction, facts node.Facts) string {
	driver, _ := node.NVIDIADriver.Get(facts, "").Get()
	parameters, _ := driver.Parameters.Get()
	var divided []string
	for _, d := range list {
		for _, address := range []string{d.from, d.to} {
			gpu, _ := node.GPUInfo.Get(facts, address).Get()
			if mig, _ := gpu.MIG.Get(); mig && !slices.Contains(divided, address) {
				divided = append(divided, address)
			}
		}
	}
	slices.SortFunc(divided, cmp.Compare)
	confidential, _ := node.ConfidentialComputing.Get(facts, "").Get()
	switch {
	case len(divided) > 0:
		return "GPUs that are divided have no peers: turn MIG off (nvidia-smi -mig 0) on " + enumerate(divided)
	case confidential.Enabled:
		return "confidential computing is on, which keeps GPUs from each other; where that is wanted, say severity = \"info\" or leave the check out"
	case status == node.P2PDisabledByRegkey:
		return fmt.Sprintf("take out what turns it off: the driver was loaded with NVreg_RegistryDwords=%q", parameters["RegistryDwords"])
	case status == node.P2PGPUNotSupported:
		return "the driver has no P2P for GPUs of this model, as for GeForce since the 40 series; that is no fault: leave the check out"
	case status == node.P2PNotSupported && driver.Version == "535.183.06":
		return "driver 535.183.06 says so of GPUs that can (NVIDIA's release notes): use another version"
	case virtualMachine(facts.Inventory):
		return "the hypervisor has to show the GPUs' way to each other (pass NVSwitches or a shared PCIe switch through); nothing in the guest can change it"
	case status == node.P2PChipsetNotSupported, status == node.P2PTopologyNotSupported:
		return "the processor does not forward what one of them sends the other: put both below one PCIe switch, or leave the check out"
	default:
		return "look for NVLinks that are down and for the fabric's state, and what nvidia-smi topo -p2p says; try another version of the driver"
	}
}
