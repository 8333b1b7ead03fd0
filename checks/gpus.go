package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// GPUs is check "gpus": how many NVIDIA GPUs the PCI bus shows.
type GPUs struct{}

// Spec of check "gpus".
func (GPUs) Spec() plan.Spec {
	low := int64(1)
	return plan.Spec{
		Name: "gpus", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The NVIDIA GPUs that the PCI bus shows.",
		Attributes: []plan.Attribute{
			{Name: "count", Type: cty.Number, Min: &low, Example: "8", Doc: "How many there must be. Left out, at least one."},
		},
	}
}

// Queries is empty: the inventory tells.
func (GPUs) Queries(plan.Block, node.Inventory) []node.Query { return nil }

// Assess counts.
func (GPUs) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	if _, withheld := b.IsWithheld("count", ""); withheld {
		return plan.Assessment{}
	}
	if facts.Inventory.RootDirectory {
		return plan.Assessment{Findings: []plan.Finding{{ID: "gpus.count", Target: "gpus", Status: plan.Skipped, Summary: "hardware is not judged (--root)"}}}
	}
	v := facts.Inventory.GPUs()
	gpus, ok := v.Get()
	if !ok {
		return plan.Assessment{Findings: []plan.Finding{plan.Unread("gpus.count", "how many GPUs there are", v)}}
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
		switch vm, _ := facts.Inventory.Virtualization.Get(); {
		case found > want:
		case vm != "" && vm != "none":
			f.Fix = "have the host pass its GPUs through to this virtual machine (" + vm + ")"
		case asked: // else it may never have had one
			f.Why = "a GPU that the PCI bus does not show has fallen off it or is not powered"
			f.Fix = "look for its slot in the BMC's log and for Xid 79 in the kernel log; power-cycle the node"
		}
	}
	return plan.Assessment{Findings: []plan.Finding{f}}
}

func addressList(gpus []node.GPU) string {
	var all []string
	for _, g := range gpus {
		all = append(all, g.Address)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
