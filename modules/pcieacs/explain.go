package pcieacs

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "Access Control Services that redirect send traffic between GPUs and NICs below one switch up to the processor: it is slow, hangs, or arrives corrupted. SrcValid alone does no harm.",
		Read:    "The ACS capability of each port between the devices, from /sys/bus/pci/devices/ADDRESS/config (lspci -vvv shows it as ACSCtl).",
		Fix:     "busbar apply clears the redirecting bits, now and at each boot through busbar.service, or by pci=config_acs= where the kernel has it.",
		Risk:    "Devices below the port can reach each other's memory without the IOMMU: not in virtual machines, nor where guests share the switch.",
		Sources: []string{"PCI Express Base Specification, Access Control Services", "Linux drivers/pci/pci.c and Linux Documentation/admin-guide/kernel-parameters.txt", "NVIDIA/nccl issues 304, 606 and 2079"},
	},
		plan.Explanation{ID: "pcie_acs.redirect", Title: "ACS redirects traffic between peers at a port between GPUs or NICs"},
		plan.Explanation{ID: "pcie_acs.kernel_args", Title: "the kernel's arguments do not switch redirection off at boot", Why: "The bits come back with the next boot."},
	)
}
