package checks

import (
	"slices"

	"busbar/modules/gds"
	"busbar/node"
	"busbar/plan"
)

// GPUDirectStorage is check "gpudirect_storage": whether drives can read and write GPU memory.
type GPUDirectStorage struct{}

const gpudirectStorage = "gpudirect_storage"

// Spec of check "gpudirect_storage".
func (GPUDirectStorage) Spec() plan.Spec {
	return plan.Spec{
		Name: gpudirectStorage, Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "GPUDirect Storage: drives read and write GPU memory, and neither the IOMMU nor ACS is in the way. Without it cuFile copies through host memory where it may, and says so only in its log.",
		Attributes: []plan.Attribute{ways([]string{gds.Any, gds.NVIDIAFS, gds.P2PDMA}, `"p2pdma"`,
			"nvidia_fs: NVIDIA's module is loaded. p2pdma: driver, kernel and cuFile have peer-to-peer DMA of NVMe drives. any: one of the two.")},
	}
}

// Queries are those of both ways, and of what is between GPUs and drives.
func (GPUDirectStorage) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	return slices.Concat(gds.FSQueries(), gds.P2PDMAQueries(), gds.PathQueries(inv))
}

// Assess judges the ways that the block lets count, and what is between GPUs and drives.
func (GPUDirectStorage) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	path, a, ok := wantedWay(gpudirectStorage, b, facts)
	if !ok {
		return a
	}
	fs, p2pdma := gds.JudgeNVIDIAFS(gpudirectStorage, facts), gds.JudgeP2PDMA(gpudirectStorage, true, facts)
	switch path {
	case gds.NVIDIAFS:
		a.Findings = append(a.Findings, fs)
	case gds.P2PDMA:
		a.Findings = append(a.Findings, p2pdma)
	default:
		a.Findings = append(a.Findings, gds.Either(gpudirectStorage, fs, p2pdma))
	}
	a.Findings = append(a.Findings, gds.JudgePaths(gpudirectStorage, facts)...)
	return a
}
