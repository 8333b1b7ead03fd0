package plan

import (
	"fmt"
	"maps"
	"slices"

	"busbar/node"
)

// Contribution is what one block wants in something that many blocks write
// together: a file, the boot arguments, or a fact of the profile.
type Contribution struct {
	// Sink is the sink's name.
	Sink string
	// Key in the sink: a sysctl's name, a module, a boot argument.
	Key string
	// Device that a fact is about, or the name of a set of devices (Withheld.Sets) where SetOfDevices; empty for
	// what is not about devices.
	Device       string
	SetOfDevices bool
	// Value wanted for the key, of the device. Two different values are a conflict.
	Value string
	// By is what the block says where it has other words for a fact: NCCL_IB_TC=96.
	By string
	// TakeOver: foreign lines that want something else may be cut, with a backup.
	TakeOver bool
	// Default: whoever reads the file does as wanted where it says nothing.
	Default bool
	// Undecided: what the block wants in the sink, if anything, is not known on this node now, so
	// that nothing may go from busbar's file. It has neither Key nor Value.
	Undecided bool
	// Of, in a fact, is the key of the block's contribution that it follows from, which falls with it;
	// empty for all that stand in the same place.
	Of string
	// Where says on which nodes a fact holds, in words, where there is no node to tell; empty for what holds on all. It counts
	// in Conflicts alone.
	Where string
	// Address and Origin of the block that wants it.
	Address string
	Origin  Origin
}

// undecided is what stands for a contribution of which it is not known whether it holds.
func (c Contribution) undecided() Contribution {
	return Contribution{Sink: c.Sink, Undecided: true, Address: c.Address, Origin: c.Origin}
}

// Sink is something that many blocks write together.
type Sink interface {
	// Name as contributions have it.
	Name() string
	// Queries are asked in every round, also when no block contributes.
	Queries(contributions []Contribution) []node.Query
	// Assess judges whether the next boot (login, start) gets what contributions
	// want, and says in at most a few steps how to bring it about. Contributions are
	// free of conflicts and sorted by key. Without any, an owned file is removed; with one that
	// is Undecided, what an owned file holds stays but for the keys of the others.
	Assess(contributions []Contribution, facts node.Facts) Assessment
}

// FactSink is the name of the sink of facts about the profile itself: nothing is
// written, but two blocks must not contradict each other in it.
const FactSink = "profile"

// IOMMUModeFact is the key of the fact which mode the IOMMU has. Its values are those of
// the block type iommu.
const IOMMUModeFact = "IOMMU mode"

// BootArgumentFact is the key of the fact whether the kernel is to have an argument, KEY in any form or KEY=VALUE: "present" or "absent".
func BootArgumentFact(arg string) string { return "kernel argument " + arg }

// LosslessFact is the key of a fact of the lossless class, a number: priority, dscp, cnp_priority or cnp_dscp as
// profiles call it.
func LosslessFact(key string) string {
	switch key {
	case "dscp":
		return LosslessDSCPFact
	case "cnp_priority":
		return "priority of congestion notification"
	case "cnp_dscp":
		return "DSCP of congestion notification"
	default:
		return "lossless " + key
	}
}

// LosslessDSCPFact is the key of the fact which DSCP RoCE's lossless traffic has: a number from 0 to 63.
const LosslessDSCPFact = "lossless DSCP"

// ModuleFact is the key of the fact whether the running kernel has a module: "loaded" or
// "unloaded". The name has underscores.
func ModuleFact(module string) string { return "kernel module " + module }

// ModuleAtBootFact is the key of the fact whether a module is loaded at boot, likewise.
func ModuleAtBootFact(module string) string { return ModuleFact(module) + " at boot" }

// ACSArgumentsFact is the key of the fact whether boot arguments tell the kernel of ACS: "wanted" or "unwanted".
const ACSArgumentsFact = "ACS in boot arguments"

// UnitFact is the key of a fact of a systemd unit, "true" or "false": what is enabled, active or masked.
func UnitFact(unit, what string) string { return "unit " + unit + " " + what }

// What more than one block type says of ports of NICs (DeviceFacts).
const (
	// LinkLayerFact is Ethernet or InfiniBand.
	LinkLayerFact = "link layer"
	// DCBXFact is DCBXHost or DCBXFirmware: who owns DCBX.
	DCBXFact = "dcbx"
	// LinkStateFact is UpOrDown.
	LinkStateFact = "state"
)

// InfiniBandMTUFact is the key of the fact, "true" or "false", whether a RoCE port has an InfiniBand MTU of
// at least so many bytes.
func InfiniBandMTUFact(bytes int) string { return fmt.Sprintf("InfiniBand MTU of %d or more", bytes) }

// RoCEOverhead is what the kernel sets aside of a network device's MTU for RoCE: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28 and ICRC 4
// bytes (iboe_get_mtu in include/rdma/ib_addr.h).
const RoCEOverhead = 96

// InfiniBandMTUs are those that there are.
var InfiniBandMTUs = [...]int{4096, 2048, 1024, 512, 256}

// rdmaDrivers are the modules that make RDMA devices, by the driver of the network adapter that they stand on.
var rdmaDrivers = map[string]string{"mlx5_core": "mlx5_ib", "bnxt_en": "bnxt_re", "ice": "irdma"}

// RDMAModuleFacts are that the kernel has the modules without which NIC ports, as node.NIC.String has them, have no RDMA device that
// programs can use. Which drivers the ports have the PCI bus tells; where it is not known, each that they may have is
// wanted where they have it.
func RDMAModuleFacts(ports []string, inv node.Inventory, origin Origin) []Contribution {
	loaded := func(module, where string) Contribution {
		return Contribution{Sink: FactSink, Key: ModuleFact(module), Value: "loaded", Where: where, Origin: origin}
	}
	facts := []Contribution{loaded("ib_core", ""), loaded("ib_uverbs", "")}
	drivers := map[string]bool{}
	where := func(string) string { return "" }
	if !inv.PCI.IsKnown() {
		for driver := range rdmaDrivers {
			drivers[driver] = true
		}
		where = func(driver string) string { return "whose NICs have driver " + driver }
	}
	for _, key := range ports {
		address, _, _ := node.ParseNIC(key)
		f, _ := inv.PCIFunction(address)
		drivers[f.Driver] = true
	}
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		if above, ok := rdmaDrivers[driver]; ok {
			facts = append(facts, loaded(driver, where(driver)), loaded(above, where(driver)))
		}
	}
	return facts
}

// What more than one block type says of the node.
const (
	// GIDIndexFact is the index of the GID that jobs pin.
	GIDIndexFact = "GID index of jobs"
	// RoCEVersionFact is v1 or v2.
	RoCEVersionFact = "RoCE version of jobs"
)

// DeviceFacts are a fact about each of the devices that an attribute of a block lists, and where the attribute is
// withheld, about the sets that it is known to be.
func DeviceFacts(b Block, attribute string, devices []string, key, value string, origin Origin) []Contribution {
	w, sets := b.IsWithheld(attribute, "")
	if sets {
		devices = w.Sets
	}
	all := make([]Contribution, len(devices))
	for i, device := range devices {
		all[i] = Contribution{Sink: FactSink, Key: key, Device: device, SetOfDevices: sets, Value: value, Origin: origin}
	}
	return all
}
