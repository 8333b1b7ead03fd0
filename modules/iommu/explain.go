package iommu

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "Translated DMA sends peer-to-peer traffic through the root complex, which slows it, makes it hang, or loses it.",
		Read:    "The types in /sys/kernel/iommu_groups, /sys/class/iommu, the firmware tables (DMAR, IVRS, IORT) and the kernel's command line.",
		Fix:     "iommu { mode = \"passthrough\" } sets the arguments for this machine (iommu=pt on x86).",
		Risk:    "It needs a reboot. Off takes VFIO away, and on some AMD machines processors.",
		Sources: []string{"Linux Documentation/admin-guide/kernel-parameters.txt", "Linux drivers/iommu/iommu.c", "NVIDIA GPUDirect RDMA documentation"},
	},
		plan.Explanation{ID: "iommu.mode", Title: "the IOMMU's mode could not be judged, or is as wanted"},
		plan.Explanation{ID: "iommu.translated", Title: "the IOMMU translates the addresses of GPUs and NICs"},
		plan.Explanation{ID: "iommu.passthrough", Title: "the IOMMU passes through where another mode is wanted", Why: "The profile asks for translation (guests, confidential computing) or for no IOMMU at all."},
		plan.Explanation{ID: "iommu.off", Title: "the IOMMU is off where it is wanted", Why: "Without it there are no guests with devices of their own, and on some machines not all processors.", Fix: "Turn VT-d or AMD-Vi on in the BIOS where it is off there; iommu { mode = ... } sets the arguments."},
		plan.Explanation{ID: "iommu.x2apic", Title: "amd_iommu=off would take processors away", Why: "Without interrupt remapping there is no x2APIC, and processors with APIC ids above 254 do not come up.", Read: "/proc/cpuinfo.", Fix: "Use mode = \"passthrough\".", Sources: []string{"Linux arch/x86/kernel/apic"}},
		plan.Explanation{ID: "iommu.no_op", Title: "an argument for the IOMMU does nothing on this machine", Why: "It hides that what was meant is not in force: amd_iommu=on and amd_iommu=pt are no arguments that the kernel knows.", Read: "The kernel's command line, by the rules of the driver that reads it.", Fix: "Take it out of where it comes from.", Risk: "None."},
		plan.Explanation{ID: "iommu.contradiction", Title: "two arguments for the IOMMU contradict each other", Why: "Which of them counts follows from the kernel's rules, not from what was meant.", Read: "The kernel's command line.", Fix: "Take the one that is not meant out of where it comes from."},
	)
}
