package profiles

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
)

// NodeAttribute is one attribute of node.* as profiles see it.
type NodeAttribute struct {
	// Path below node: dmi.sys_vendor, nics[*].rdma.
	Path string
	Type cty.Type
	Doc  string
	// Identity: it says what the node is, not how it fares, and may stand in match.
	Identity bool
}

// NodeAttributes is the published schema of node.*, in the order of documentation.
func NodeAttributes() []NodeAttribute { return slices.Clone(nodeAttributes()) }

// nicAttributes are those of one NIC.
func nicAttributes() []NodeAttribute {
	return []NodeAttribute{
		{"address", cty.String, "PCI address of a port of a network adapter, DDDD:BB:DD.F; virtual functions are left out.", false},
		{"port", cty.Number, "Port of the function, from 1.", false},
		{"netdev", cty.String, "Name of its network device. Unknown where it has none, and never null: has_netdev tells.", false},
		{"has_netdev", cty.Bool, "It has a network device, in this network namespace.", false},
		{"rdma", cty.String, "Name of its RDMA device; the ports of a bond share one. Unknown until a driver has made one, and never null: has_rdma tells.", false},
		{"has_rdma", cty.Bool, "It has an RDMA device.", false},
		{"pci_id", cty.String, "PCI id of the function, vvvv:dddd.", true},
		{"numa", cty.Number, "NUMA node of the function; unknown where firmware does not say.", false},
		{"link_layer", cty.String, "Ethernet or InfiniBand; of a port without devices what its PCI class says.", true},
		{"near_gpu", cty.Bool, "It is at PXB or nearer to a GPU (nvidia-smi topo -m), where a rail belongs; unknown in a virtual machine.", true},
		{"protected", cty.Bool, "The port carries a default route, the way back to an SSH client, or the root file system; it is never selected.", false},
		{"gpus", cty.List(cty.String), "Addresses of the GPUs that it is nearest to, of those at PXB or nearer (nvidia-smi topo -m); empty for none, unknown in a virtual machine.", false},
	}
}

// nodeAttributes has the objects in pieces: a path's objects and lists follow from it.
var nodeAttributes = sync.OnceValue(func() []NodeAttribute {
	all := []NodeAttribute{
		{"arch", cty.String, "Machine as uname has it: x86_64, aarch64.", true},
		{"os.id", cty.String, "Distribution, ID of os-release(5): ubuntu, rhel.", false},
		{"os.id_like", cty.List(cty.String), "Distributions that it derives from, ID_LIKE of os-release(5).", false},
		{"os.version_id", cty.String, "Version, VERSION_ID of os-release(5): 24.04; empty where the distribution has none.", false},
		{"os.pretty_name", cty.String, "Name for people, PRETTY_NAME of os-release(5).", false},
		{"kernel", cty.String, "Release of the running kernel: 6.8.0-52-generic.", false},
		{"dmi.sys_vendor", cty.String, "/sys/class/dmi/id/sys_vendor; empty where firmware left it empty, like all of dmi.", true},
		{"dmi.product_name", cty.String, "/sys/class/dmi/id/product_name.", true},
		{"dmi.product_version", cty.String, "/sys/class/dmi/id/product_version.", true},
		{"dmi.board_vendor", cty.String, "/sys/class/dmi/id/board_vendor.", true},
		{"dmi.board_name", cty.String, "/sys/class/dmi/id/board_name.", true},
		{"dmi.bios_vendor", cty.String, "/sys/class/dmi/id/bios_vendor.", true},
		{"dmi.bios_version", cty.String, "/sys/class/dmi/id/bios_version.", true},
		{"virtual", cty.Bool, "The node is a virtual machine.", true},
		{"virtualization", cty.String, "none, or systemd's name of the hypervisor: kvm, vmware, microsoft, xen, amazon.", true},
		{"pci_ids", cty.List(cty.String), "Ids of all PCI functions as vvvv:dddd, lower case, sorted, each once.", true},
		{"nvswitch", cty.Bool, "The node has NVSwitches to route: on the PCI bus (class 0680 of vendor 10de), or on bare metal on the board of GPUs like B200, whose are no PCI functions.", true},
		{"gpus[*].address", cty.String, "PCI address of an NVIDIA GPU, DDDD:BB:DD.F.", false},
		{"gpus[*].pci_id", cty.String, "Its PCI id, vvvv:dddd.", false},
		{"gpus[*].numa", cty.Number, "Its NUMA node; unknown where firmware does not say.", false},
	}
	all = append(all, NodeAttribute{"given", cty.List(cty.String), "What text about a node gave (busbar diagnose): kinds of facts, KIND and KIND:KEY, and gpus, nics, rdma, netdevs, pci_tree. Unknown of a node that was read itself.", false})
	nic := nicAttributes()
	for _, a := range nic {
		a.Path = "nics[*]." + a.Path
		all = append(all, a)
	}
	return append(all,
		NodeAttribute{"rails", cty.List(objectOf(nic)), "The NICs of nics that serve GPUs: at PXB or nearer to one and not protected, in the order of GPUs, then of addresses. Unknown in a virtual machine.", false},
		NodeAttribute{"gpu_paths", cty.List(cty.String), "Addresses of the PCIe root ports and switch ports on the paths between GPUs, and between GPUs and rails, sorted. Unknown in a virtual machine.", false},
	)
})

// NodeSchema is the type of node.
func NodeSchema() cty.Type { return nodeTypes().node }

type schemaTypes struct{ node, identity, nic, gpu cty.Type }

var nodeTypes = sync.OnceValue(func() schemaTypes {
	all := nodeAttributes()
	t := schemaTypes{node: objectOf(all)}
	t.identity = objectOf(slices.DeleteFunc(slices.Clone(all), func(a NodeAttribute) bool { return !a.Identity }))
	t.nic = t.node.AttributeType("nics").ElementType()
	t.gpu = t.node.AttributeType("gpus").ElementType()
	return t
})

// objectOf builds the object type that has attributes.
func objectOf(attributes []NodeAttribute) cty.Type {
	types := map[string]cty.Type{}
	nested := map[string][]NodeAttribute{}
	for _, a := range attributes {
		head, rest, found := strings.Cut(a.Path, ".")
		if !found {
			types[head] = a.Type
			continue
		}
		a.Path = rest
		nested[head] = append(nested[head], a)
	}
	for head, children := range nested {
		if name, isList := strings.CutSuffix(head, "[*]"); isList {
			types[name] = cty.List(objectOf(children))
			continue
		}
		types[head] = objectOf(children)
	}
	return cty.Object(types)
}

// unknown marks a cty value that is not known with the reason.
type unknown struct {
	Reason string
	// Needs is the capability that would make it known, or empty.
	Needs string
}

func unknownValue(t cty.Type, u unknown) cty.Value { return cty.UnknownVal(t).Mark(u) }

// noNode is why node.* is unknown while a profile is checked without a node.
var noNode = unknown{Reason: "it depends on the node"}

// lift makes a cty value of a fact, or an unknown that has the fact's reason.
func lift[T any](v node.Value[T], t cty.Type, known func(T) cty.Value) cty.Value {
	x, ok := v.Get()
	if !ok {
		return unknownValue(t, unknown{v.Reason(), v.Needs()})
	}
	return known(x)
}

func liftString(v node.Value[string]) cty.Value { return lift(v, cty.String, cty.StringVal) }

// few is v, unknown where it has more elements than an attribute can have: no node has so many.
func few[T any](v node.Value[[]T], what string) node.Value[[]T] {
	if list, _ := v.Get(); len(list) > maxInstances {
		return node.Unknown[[]T](fmt.Sprintf("the node has %d %s, and a profile takes %d", len(list), what, maxInstances), v.Source())
	}
	return v
}

// nodeValue is node for an inventory; it conforms to NodeSchema.
func nodeValue(inv node.Inventory) cty.Value {
	t := nodeTypes()
	return cty.ObjectVal(map[string]cty.Value{
		"arch":           liftString(inv.Arch),
		"given":          lift(inv.Given, cty.List(cty.String), stringList),
		"kernel":         liftString(inv.Kernel),
		"virtualization": liftString(inv.Virtualization),
		"virtual": lift(inv.Virtualization, cty.Bool, func(s string) cty.Value {
			return cty.BoolVal(s != "none")
		}),
		"os": lift(inv.OS, t.node.AttributeType("os"), func(os node.OS) cty.Value {
			return cty.ObjectVal(map[string]cty.Value{
				"id": cty.StringVal(os.ID), "id_like": stringList(os.IDLike),
				"version_id": cty.StringVal(os.VersionID), "pretty_name": cty.StringVal(os.PrettyName),
			})
		}),
		"dmi": lift(inv.DMI, t.node.AttributeType("dmi"), func(d node.DMI) cty.Value {
			return cty.ObjectVal(map[string]cty.Value{
				"sys_vendor": cty.StringVal(d.SysVendor), "product_name": cty.StringVal(d.ProductName),
				"product_version": cty.StringVal(d.ProductVersion), "board_vendor": cty.StringVal(d.BoardVendor),
				"board_name": cty.StringVal(d.BoardName), "bios_vendor": cty.StringVal(d.BIOSVendor),
				"bios_version": cty.StringVal(d.BIOSVersion),
			})
		}),
		"pci_ids": lift(inv.PCI, cty.List(cty.String), func(functions []node.PCIFunction) cty.Value {
			ids := make([]string, 0, len(functions))
			for _, f := range functions {
				ids = append(ids, f.ID())
			}
			slices.Sort(ids)
			return stringList(slices.Compact(ids))
		}),
		"nvswitch": lift(inv.NVSwitches(), cty.Bool, cty.BoolVal),
		"gpus": lift(few(inv.GPUs(), "GPUs"), cty.List(t.gpu), func(gpus []node.GPU) cty.Value {
			return listOf(t.gpu, gpus, func(g node.GPU) cty.Value {
				return cty.ObjectVal(map[string]cty.Value{
					"address": cty.StringVal(g.Address), "pci_id": cty.StringVal(g.PCIID), "numa": numaValue(g.NUMANode),
				})
			})
		}),
		"nics":      lift(few(inv.NICs(), "NIC ports"), cty.List(t.nic), nicList(inv)),
		"rails":     lift(few(inv.Rails(), "rails"), cty.List(t.nic), nicList(inv)),
		"gpu_paths": lift(few(inv.GPUPaths(), "ports between GPUs"), cty.List(cty.String), stringList),
	})
}

func nicList(inv node.Inventory) func([]node.NIC) cty.Value {
	return func(nics []node.NIC) cty.Value {
		return listOf(nodeTypes().nic, nics, func(n node.NIC) cty.Value { return nicValue(inv, n) })
	}
}

func nicValue(inv node.Inventory, n node.NIC) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"address": cty.StringVal(n.Address), "port": cty.NumberIntVal(int64(n.Port)), "pci_id": cty.StringVal(n.PCIID),
		"numa": numaValue(n.NUMANode), "netdev": liftString(n.Netdev), "rdma": liftString(n.RDMA),
		"has_netdev": lift(inv.HasNetdev(n), cty.Bool, cty.BoolVal), "has_rdma": lift(inv.HasRDMA(n), cty.Bool, cty.BoolVal),
		"link_layer": liftString(n.LinkLayer), "protected": lift(n.Protected, cty.Bool, cty.BoolVal),
		"gpus":     lift(n.GPUs, cty.List(cty.String), stringList),
		"near_gpu": lift(n.GPUs, cty.Bool, func(gpus []string) cty.Value { return cty.BoolVal(len(gpus) > 0) }),
	})
}

func numaValue(n int) cty.Value {
	if n < 0 {
		return unknownValue(cty.Number, unknown{Reason: node.NoNUMANode})
	}
	return cty.NumberIntVal(int64(n))
}

func stringList(ss []string) cty.Value { return listOf(cty.String, ss, cty.StringVal) }

func listOf[T any](element cty.Type, items []T, value func(T) cty.Value) cty.Value {
	if len(items) == 0 {
		return cty.ListValEmpty(element)
	}
	values := make([]cty.Value, len(items))
	for i, item := range items {
		values[i] = value(item)
	}
	return cty.ListVal(values)
}
