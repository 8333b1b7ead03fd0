package node

import (
	"fmt"
	"slices"
	"strings"
)

// dataDirect is the id of the function by which a ConnectX-8 reaches GPU memory past the
// processor (rdma-core, kernel-boot/rdma_topo).
const dataDirect = "15b3:2100"

// ACSRefusal says why ACS functions must not be set on this node, or is empty:
//   - in a virtual machine the host owns the ports above the devices, and relies on them;
//   - NVIDIA's own processors (Grace and later) and ConnectX functions that go past the processor want
//     ACS functions of their own on each port, and other ones can bring the machine down
//     (rdma-core, kernel-boot/rdma_topo). Such a processor is told by its root ports, bridges of
//     vendor 10de on a root bus: 22b1, 22b2, 22b8 of Grace, 2f95, 2f96 of Vera;
//   - what cannot be told is refused.
func (inv Inventory) ACSRefusal() string {
	if inv.RootDirectory {
		return "a directory tree has no registers"
	}
	virtualization, ok := inv.Virtualization.Get()
	switch {
	case !ok:
		return "whether this is a virtual machine is unknown: " + inv.Virtualization.Reason()
	case virtualization != "none":
		return fmt.Sprintf("this is a virtual machine (%s): its host owns the ports above the devices, and relies on their ACS", virtualization)
	}
	functions, ok := inv.PCI.Get()
	if !ok {
		return "what is on the PCI bus is unknown: " + inv.PCI.Reason()
	}
	for _, f := range functions {
		switch {
		case f.Vendor == "10de" && f.Parent == "" && f.isBridge():
			return fmt.Sprintf("the root port %s (%s) is that of an NVIDIA processor, whose ports want ACS functions of their own: rdma_topo of rdma-core knows them", f.Address, f.ID())
		case f.ID() == dataDirect:
			return fmt.Sprintf("%s (%s) reaches GPU memory past the processor, for which ports want ACS functions of their own: rdma_topo of rdma-core knows them", f.Address, f.ID())
		}
	}
	return ""
}

// ACSPortRefusal says why the ACS functions of the port at address must not be set, or is empty:
// ACSRefusal, registers that cannot be read in full, or none of ACS. registers are the port's, the
// answer to PCIRegisters.
func (inv Inventory) ACSPortRefusal(address string, registers Value[PCIRegisterState]) string {
	if why := inv.ACSRefusal(); why != "" {
		return why
	}
	r, ok := registers.Get()
	if !ok {
		return "the registers of " + address + " cannot be read: " + registers.Reason()
	}
	acs, ok := r.ACS.Get()
	switch {
	case !r.Express.IsKnown():
		return "the registers of " + address + " cannot be read in full: " + r.Express.Reason()
	case !ok:
		return "the registers of " + address + " cannot be read in full: " + r.ACS.Reason()
	case !acs.Present:
		return address + " has no ACS capability"
	default:
		return ""
	}
}

// RedirectOffRefusal says why redirection must stay on at the port at address, or is empty: it keeps
// a function apart from others that was handed to a guest or to a user's program (VFIO).
func (inv Inventory) RedirectOffRefusal(address string) string {
	functions, ok := inv.PCI.Get()
	if !ok {
		return "what is on the PCI bus is unknown: " + inv.PCI.Reason()
	}
	for _, f := range functions {
		if !f.IsVFIO() {
			continue
		}
		bus, _ := inv.pciBus()
		bridges, err := bus.bridgesAbove(f.Address)
		if err != nil || f.Address == address || slices.Contains(bridges, address) {
			return fmt.Sprintf("the ACS of %s keeps %s apart, which was handed to a guest or a program (driver %s)", address, f.Address, f.Driver)
		}
	}
	return ""
}

// isBridge reports a PCI-to-PCI bridge (class 0604), which is what ports show.
func (p PCIFunction) isBridge() bool { return strings.HasPrefix(p.Class, "0604") }
