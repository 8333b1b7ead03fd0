package pciedevice

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read:    "The device control register of the PCI Express capability, from /sys/bus/pci/devices/ADDRESS/config.",
		Fix:     "busbar apply sets it, and busbar.service again at each boot.",
		Risk:    "None for what runs, where the value is one that the device can have.",
		Sources: []string{"PCI Express Base Specification, Device Control", "Linux drivers/pci/pci.c, pcie_set_readrq"},
	},
		plan.Explanation{ID: "pcie_device.max_read_request", Title: "a device reads memory in smaller pieces than wanted", Why: "Small reads leave the device waiting for memory; the size is lost when the device is reset."},
		plan.Explanation{ID: "pcie_device.relaxed_ordering", Title: "a device does not ask for relaxed ordering, or does and should not", Why: "On many server processors writes to GPU and host memory are much faster with it."},
		plan.Explanation{ID: "pcie_device.function", Title: "a device cannot be judged or must not be touched", Why: "It is not on the bus, is a virtual function, or belongs to a guest or to the node's own network.", Fix: "Correct the list in the profile, or leave it."},
	)
}
