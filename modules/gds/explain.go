package gds

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "Without GPUDirect Storage cuFile copies through host memory where allow_compat_mode lets it, and says so only in its log; elsewhere it fails.",
		Read:    "/proc/modules, /proc/driver/nvidia-fs, /etc/cufile.json, the kernel's configuration, the IOMMU's groups and the ACS registers of the ports between.",
		Fix:     "busbar apply loads nvidia_fs or sets cuFile to the kernel's peer-to-peer DMA.",
		Sources: []string{"NVIDIA GPUDirect Storage documentation"},
	},
		plan.Explanation{ID: "gds.path", Title: "drives have no way to GPU memory"},
		plan.Explanation{ID: "gds.nvidia_fs", Title: "the module nvidia_fs is not loaded or does not work", Fix: "Load it; where that fails it was built against another driver and has to be built again."},
		plan.Explanation{ID: "gds.p2pdma", Title: "driver, kernel or cuFile lack peer-to-peer DMA of NVMe drives", Fix: "The finding names what is missing; driver and kernel are yours to install."},
		plan.Explanation{ID: "gds.iommu", Title: "the IOMMU translates between GPUs and drives", Fix: "iommu { mode = \"passthrough\" } on x86.", Risk: "It needs a reboot."},
		plan.Explanation{ID: "gds.acs", Title: "ACS sends traffic between GPUs and drives up to the processor", Why: "It is slow, hangs, or arrives corrupted.", Fix: "The block pcie_acs switches redirection off."},
	)
}
