package checks

import (
	"github.com/zclconf/go-cty/cty"

	"busbar/modules/gpudirect"
	"busbar/node"
	"busbar/plan"
)

// GPUDirectRDMA is check "gpudirect_rdma": whether NICs can read and write GPU memory.
type GPUDirectRDMA struct{}

const gpudirectRDMA = "gpudirect_rdma"

// ways is the attribute path of a check for which one of several ways is enough; the first of the names is any.
func ways(names []string, example, doc string) plan.Attribute {
	return plan.Attribute{Name: "path", Type: cty.String, Enum: names, Default: cty.StringVal(names[0]), Example: example, Doc: doc}
}

// wantedWay is that attribute; false where there is nothing to judge, which a says.
func wantedWay(check string, b plan.Block, facts node.Facts) (path string, a plan.Assessment, ok bool) {
	if path = b.Text("path"); path == "" {
		return "", a, false
	}
	_, a, ok = gpusToJudge(check+".path", facts)
	return path, a, ok
}

// Spec of check "gpudirect_rdma".
func (GPUDirectRDMA) Spec() plan.Spec {
	return plan.Spec{
		Name: gpudirectRDMA, Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "GPUDirect RDMA: NICs read and write GPU memory, through nvidia_peermem or through dma-buf. Without either NCCL copies through host memory and says so only in its debug log.",
		Attributes: []plan.Attribute{ways([]string{gpudirect.Any, gpudirect.Peermem, gpudirect.DMABuf}, `"dmabuf"`,
			"peermem: the module nvidia_peermem is loaded and registered with the RDMA stack. dmabuf: the driver's modules are the open ones, and the kernel is 5.12 or newer. any: one of the two.")},
	}
}

// Queries are the module, its registration and the driver.
func (GPUDirectRDMA) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	return gpudirect.WayQueries()
}

// Assess judges the ways that the block lets count.
func (GPUDirectRDMA) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	path, a, ok := wantedWay(gpudirectRDMA, b, facts)
	if !ok {
		return a
	}
	ways := gpudirect.JudgeWays(gpudirectRDMA, facts)
	switch path {
	case gpudirect.Peermem:
		a.Findings = append(a.Findings, ways.Peermem)
	case gpudirect.DMABuf:
		a.Findings = append(a.Findings, ways.DMABuf)
	default:
		a.Findings = append(a.Findings, ways.Either())
		if ways.Unregistered {
			a.Findings = append(a.Findings, ways.Peermem)
		}
	}
	return a
}
