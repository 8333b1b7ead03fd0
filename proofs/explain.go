package proofs

import "busbar/plan"

// Explanations are about its findings.
func (P2PBandwidth) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read:    "busbar copies between each pair of GPUs through the driver, in a child process, compares every byte, and times it.",
		Risk:    "It takes memory and time of GPUs; where they are in use nothing is copied without --force.",
		Sources: []string{"CUDA Driver API reference, peer context memory access"},
	},
		plan.Explanation{ID: "p2p.gpus", Title: "whether GPUs move bytes to each other rightly is not known", Why: "Nothing else on a node proves it.", Fix: "See the reason: the driver, GPUs that are in use, or fewer than two GPUs."},
		plan.Explanation{ID: "p2p.data", Title: "bytes arrived wrong", Why: "No program is told that its data is wrong: a training run goes on, and its result is worthless.", Fix: "Take the node out of service. See ACS and the IOMMU, the kernel log for Xid and AER, then the hardware."},
		plan.Explanation{ID: "p2p.peer_access", Title: "GPUs have no access to each other's memory", Why: "NCCL and MPI fall back to host memory without an error, and are many times slower.", Fix: "See check p2p for what the driver says: topology, model, IOMMU, virtual machine."},
		plan.Explanation{ID: "p2p.bandwidth", Title: "a pair of GPUs is slower than wanted", Why: "The way between the GPUs goes through the root complex, or a link is degraded.", Fix: "See check nvlink, pcie_link and pcie_acs for the pair."},
		plan.Explanation{ID: "p2p.bandwidth_of_links", Title: "a pair of GPUs is slower than its links allow", Why: "The way between the GPUs goes through the root complex, or a link is degraded.", Fix: "See check nvlink, pcie_link and pcie_acs for the pair."},
		plan.Explanation{ID: "p2p.baseline", Title: "a pair of GPUs is slower than in the node's baseline", Why: "It was faster once: something has changed.", Fix: "Compare drivers, firmware, links and ACS with then."},
	)
}
