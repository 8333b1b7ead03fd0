package node

import "busbar/internal/pciregs"

// PCIRegisterState are the named registers of a PCI function. What is recorded does not change by
// itself: how fast its link runs now is PCILinkState. The NUMA node is in the
// inventory (PCIFunction.NUMANode).
//
// Without root all registers are unknown. So are those of a function that is without power (D3cold) or whose
// bridge sleeps: reading its configuration space would wake it
// (drivers/pci/pci.c, pci_config_pm_runtime_get).
type PCIRegisterState struct {
	// Express is the PCI Express capability: port type, payload, read request, ordering.
	Express Value[pciregs.Express] `json:"express,omitzero"`
	// ACS is the ACS capability. It is unknown, not absent, where the kernel does not
	// reach the extended configuration space.
	ACS Value[pciregs.ACS] `json:"acs,omitzero"`
	// ATS is the ATS capability.
	ATS Value[pciregs.ATS] `json:"ats,omitzero"`
	// BARs are the memory regions, by index (the function's file resource in sysfs, which
	// needs no root).
	BARs Value[[]pciregs.BAR] `json:"bars,omitzero"`
}

// PCILinkState is the link above a PCI function, or below it where it is a root or downstream
// port. Where the kernel's attributes do not tell, the link registers do. Both are unsupported where there is no
// link: of conventional PCI, inside the root complex, above an empty slot.
type PCILinkState struct {
	// Fault is why the device cannot be reached over the link, as lspci shows it; empty where nobody said so.
	Fault string `json:"fault,omitempty"`
	// Current is the link as it runs now. Idle GPUs run it slower: a speed below Max is a fault
	// under load only, a smaller width always.
	Current Value[pciregs.Link] `json:"current,omitzero"`
	// Max is what the function itself can do; the link can do what both ends can
	// (pciregs.Link.Within).
	Max Value[pciregs.Link] `json:"max,omitzero"`
	// Busy: the device was at work when Current was read, as nvidia-smi -q says of a GPU (Utilization). Nobody else says it.
	Busy Value[bool] `json:"busy,omitzero"`
}
