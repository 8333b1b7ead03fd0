package gpudirect

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "Without GPUDirect RDMA every message between nodes is copied through host memory, at a part of the rate. NCCL says so only in its debug log (NET/IB without GDRDMA).",
		Read:    "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/driver/nvidia/version and the kernel's release.",
		Fix:     "busbar apply loads nvidia_peermem, now and at boot, where the driver exports no dma-buf.",
		Risk:    "Loading a module hurts nobody. Replacing the driver ends all that uses GPUs.",
		Sources: []string{"NVIDIA GPUDirect RDMA documentation", "NCCL source, transport/net_ib"},
	},
		plan.Explanation{ID: "gpudirect.path", Title: "NICs have no way to GPU memory"},
		plan.Explanation{ID: "gpudirect.peermem", Title: "nvidia_peermem is not loaded"},
		plan.Explanation{ID: "gpudirect.unregistered", Title: "nvidia_peermem is loaded and not registered with the RDMA stack", Why: "NCCL takes the module for enough, and registering GPU memory fails when a job runs.", Fix: "Load it after the RDMA stack; where the stack was replaced, build it again against that."},
		plan.Explanation{ID: "gpudirect.dmabuf", Title: "the driver or the kernel cannot export GPU memory as dma-buf", Fix: "The open kernel modules and Linux 5.12 or newer can."},
	)
}
