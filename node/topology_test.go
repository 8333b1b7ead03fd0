package node_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/node"
	"busbar/node/example"
)

// wired is a bare-metal inventory of functions, each given by its sysfs path: pciDDDD:BB, the
// bridges, the function; with its NUMA node and what it is (gpu, nic, other). Bridges come by themselves.
func wired(lines ...string) node.Inventory {
	all := map[string]node.PCIFunction{}
	for _, line := range lines {
		fields := strings.Fields(line)
		steps := strings.Split(fields[0], "/")
		numa, _ := strconv.Atoi(fields[1])
		parent := ""
		for i, address := range steps[1:] {
			f := node.PCIFunction{Address: address, Parent: parent, NUMANode: numa, Vendor: "8086", Device: "352a", Class: "060400"}
			if i == len(steps)-2 {
				f.Vendor, f.Device, f.Class, f.Driver = "15b3", "1021", "020000", "mlx5_core"
				if len(fields) > 2 && fields[2] == "gpu" {
					f.Vendor, f.Device, f.Class = "10de", "2330", "030200"
				}
			}
			if _, there := all[address]; !there || f.Class != "060400" {
				all[address] = f
			}
			parent = address
		}
	}
	list := []node.PCIFunction{}
	for _, f := range all {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b node.PCIFunction) int { return cmp.Compare(a.Address, b.Address) })
	return node.Inventory{PCI: known(list), Virtualization: known("none")}
}

// change replaces a function of inv.
func change(inv node.Inventory, address string, how func(*node.PCIFunction)) node.Inventory {
	list := slices.Clone(value(inv.PCI))
	for i := range list {
		if list[i].Address == address {
			how(&list[i])
		}
	}
	inv.PCI = known(list)
	return inv
}

// TestRelationAsPrinted holds relations to what nvidia-smi printed over the same trees.
func TestRelationAsPrinted(t *testing.T) {
	files, _ := filepath.Glob("testdata/topology/*.txt")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(string(raw), "\n\n")
			var lines []string
			address, numa := map[string]string{}, map[string]string{}
			for line := range strings.Lines(parts[1]) {
				fields := strings.Fields(line)
				kind := "nic"
				if strings.HasPrefix(fields[0], "GPU") {
					kind = "gpu"
				}
				lines = append(lines, fields[1]+" "+fields[2]+" "+kind)
				address[fields[0]], numa[fields[0]] = fields[1][strings.LastIndexByte(fields[1], '/')+1:], fields[2]
			}
			tree := wired(lines...).Topology()
			rows := strings.Split(strings.TrimSpace(parts[2]), "\n")
			names := strings.Fields(rows[0])
			compared := 0
			for _, row := range rows[1:] {
				cells := strings.Fields(row)
				for i, want := range cells[1:] {
					a, b := cells[0], names[i]
					if strings.HasPrefix(want, "NV") {
						continue // not of the PCI tree
					}
					if want == "SYS" && (numa[a] == "-1" || numa[b] == "-1") {
						want = "unknown"
					}
					got := "unknown"
					if r, ok := tree.Relation(address[a], address[b]).Get(); ok {
						got = r.String()
					}
					if got != want {
						t.Errorf("%s to %s: %s, nvidia-smi says %s", a, b, got, want)
					}
					compared++
				}
			}
			if compared < 30 {
				t.Errorf("%d cells", compared)
			}
			t.Logf("%d cells", compared)
		})
	}
}

// A DGX-class Broadcom switch shows two levels: 20:00.0, and 22:00.0 and 25:00.0 below it.
var twoLevels = []string{
	"pci0000:1f/0000:1f:00.0/0000:20:00.0/0000:21:00.0/0000:22:00.0/0000:23:00.0/0000:24:00.0 0 gpu",
	"pci0000:1f/0000:1f:00.0/0000:20:00.0/0000:21:01.0/0000:25:00.0/0000:26:00.0/0000:27:00.0 0 nic",
	"pci0000:1f/0000:1f:00.0/0000:20:00.0/0000:21:02.0/0000:28:00.0 0 nic",
}

// broadcom gives the switches of twoLevels ids.
func broadcom(id, above, below string) node.Inventory {
	inv := wired(twoLevels...)
	for address, subsystem := range map[string]string{"0000:20:00.0": above, "0000:22:00.0": below, "0000:25:00.0": below} {
		inv = change(inv, address, func(f *node.PCIFunction) {
			f.Vendor, f.Device, f.SubsystemVendor, f.SubsystemDevice = id[:4], id[5:], subsystem[:4], subsystem[5:]
		})
	}
	return inv
}

func TestRelations(t *testing.T) {
	const a, b = "0000:0a:00.0", "0000:0b:00.0"
	two := func(wayA, wayB string) node.Inventory { return wired(wayA, wayB) }
	guest := two("pci0000:00/"+a+" 0 gpu", "pci0000:00/"+b+" 0")
	guest.Virtualization = known("kvm")
	unsaid := guest
	unsaid.Virtualization = node.Unknown[string]("no DMI", node.Source{})
	noBus := node.Inventory{PCI: node.Unknown[[]node.PCIFunction]("permission denied", node.Source{}), Virtualization: known("none")}
	withVF := wired("pci0000:00/0000:00:01.0/0000:0a:00.0 0", "pci0000:00/0000:00:01.0/0000:0a:00.2 0", "pci0000:00/0000:00:02.0/0000:0b:00.0 0 gpu")
	withVF = change(withVF, "0000:0a:00.2", func(f *node.PCIFunction) { f.PhysicalFunction, f.Parent, f.NUMANode = a, "", -1 })
	loop := change(two("pci0000:00/0000:00:01.0/0000:01:00.0/"+a+" 0", "pci0000:00/"+b+" 0"), "0000:00:01.0", func(f *node.PCIFunction) { f.Parent = "0000:01:00.0" })
	const (
		guestSays = "? a virtual machine (kvm) has the PCI tree that its hypervisor chose to show, not the one that the traffic takes"
		noNUMA    = "? firmware does not say the NUMA node"
	)
	for _, tt := range []struct {
		name      string
		inv       node.Inventory
		a, b      string
		smi, nccl string
	}{
		{"the ports of a switch", two("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/"+a+" 0", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/"+b+" 0"), a, b, "PIX", "PIX"},
		{"itself", two("pci0000:00/"+a+" 0", "pci0000:00/"+b+" 0"), a, a, "X", "X"},
		{"two functions of a card below a root port", two("pci0000:00/0000:00:01.0/"+a+" 0", "pci0000:00/0000:00:01.0/0000:0a:00.1 0"), a, "0000:0a:00.1", "PIX", "PHB"},
		{"two functions of a card below a switch", two("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/"+a+" 0", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:0a:00.1 0"), a, "0000:0a:00.1", "PIX", "PIX"},
		{"two functions of a device on the root bus", two("pci0000:00/0000:00:01.0 0", "pci0000:00/0000:00:01.1 0"), "0000:00:01.0", "0000:00:01.1", "PHB", "PHB"},
		{"switches one behind the other", two("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/"+a+" 0", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0/0000:04:00.0/"+b+" 0"), a, b, "PXB", "PXB"},
		{"two root ports", two("pci0000:00/0000:00:01.0/"+a+" 0", "pci0000:00/0000:00:02.0/"+b+" 0"), a, b, "PHB", "PHB"},
		{"two root ports whose NUMA node firmware does not say", two("pci0000:00/0000:00:01.0/"+a+" -1", "pci0000:00/0000:00:02.0/"+b+" -1"), a, b, "PHB", "PHB"},
		{"two host bridges, one NUMA node", two("pci0000:00/0000:00:01.0/"+a+" 1", "pci0000:80/0000:80:01.0/"+b+" 1"), a, b, "NODE", "PHB"},
		{"two NUMA nodes", two("pci0000:00/0000:00:01.0/"+a+" 0", "pci0000:80/0000:80:01.0/"+b+" 1"), a, b, "SYS", "SYS"},
		{"two segments of a Grace, one NUMA node", two("pci0008:00/0008:00:00.0/0008:01:00.0 0", "pci0009:00/0009:00:00.0/0009:01:00.0 0"), "0008:01:00.0", "0009:01:00.0", "NODE", "PHB"},
		{"two segments of two Graces", two("pci0008:00/0008:00:00.0/0008:01:00.0 0", "pci0018:00/0018:00:00.0/0018:01:00.0 1"), "0008:01:00.0", "0018:01:00.0", "SYS", "SYS"},
		{"a segment with the same buses", two("pci0000:00/0000:00:01.0/"+a+" 0", "pci0001:00/0001:00:01.0/0001:0a:00.0 0"), a, "0001:0a:00.0", "NODE", "PHB"},
		{"firmware says one NUMA node of two", two("pci0000:00/0000:00:01.0/"+a+" 0", "pci0000:80/0000:80:01.0/"+b+" -1"), a, b, noNUMA, "SYS"},
		{"firmware says no NUMA node", two("pci0000:00/0000:00:01.0/"+b+" -1", "pci0000:80/0000:80:01.0/"+a+" -1"), b, a, noNUMA, "PHB"},
		{"a virtual function is where its physical function is", withVF, "0000:0a:00.2", b, "PHB", "PHB"},
		{"a virtual and its physical function", withVF, "0000:0a:00.2", a, "PIX", "PHB"},
		{"PEX88000 of two levels", broadcom("1000:c010", "1000:a096", "1000:a096"), "0000:24:00.0", "0000:27:00.0", "PXB", "PIX"},
		{"PEX88000 of two levels, one on the upper", broadcom("1000:c010", "1000:a096", "1000:a096"), "0000:24:00.0", "0000:28:00.0", "PXB", "PIX"},
		{"PEX89000 of two levels", broadcom("1000:c030", "1000:0144", "1000:100b"), "0000:24:00.0", "0000:27:00.0", "PXB", "PIX"},
		{"PEX89000 behind another one", broadcom("1000:c030", "1000:100b", "1000:100b"), "0000:24:00.0", "0000:27:00.0", "PXB", "PXB"},
		{"a PEX88000 with a vendor's subsystem id", broadcom("1000:c010", "1000:a096", "10de:13b8"), "0000:24:00.0", "0000:27:00.0", "PXB", "PXB"},
		{"virtual machine", guest, a, b, guestSays, guestSays},
		{"virtual machine, itself", guest, a, a, "X", "X"},
		{"virtual machine or not", unsaid, a, b, "? whether this is a virtual machine, whose PCI tree tells nothing, is unknown: no DMI", "? whether this is a virtual machine, whose PCI tree tells nothing, is unknown: no DMI"},
		{"no such function", guest, "0000:ff:00.0", "0000:ff:00.0", "? 0000:ff:00.0 is not on the PCI bus", "? 0000:ff:00.0 is not on the PCI bus"},
		{"no bus", noBus, a, a, "? permission denied", "? permission denied"},
		{"nothing recorded", node.Inventory{}, a, b, "? not recorded", "? not recorded"},
		{"bridges in a loop", loop, a, b, "? the bridges above 0000:0a:00.0 lead to no root bus", "? the bridges above 0000:0a:00.0 lead to no root bus"},
		{"a bridge is missing", change(two("pci0000:00/"+a+" 0", "pci0000:00/"+b+" 0"), b, func(f *node.PCIFunction) { f.Parent = "0000:00:09.0" }), a, b, "? the bridges above 0000:0b:00.0 lead to no root bus", "? the bridges above 0000:0b:00.0 lead to no root bus"},
		{"a physical function is missing", change(two("pci0000:00/"+a+" 0", "pci0000:00/"+b+" 0"), b, func(f *node.PCIFunction) { f.PhysicalFunction = "0000:00:09.0" }), a, b, "? the physical function of 0000:0b:00.0 is not on the PCI bus", "? the physical function of 0000:0b:00.0 is not on the PCI bus"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := tt.inv.Topology()
			got := []string{fmt.Sprint(text(tree.Relation(tt.a, tt.b))), fmt.Sprint(text(tree.NCCL(tt.a, tt.b)))}
			if diff := gocmp.Diff([]string{tt.smi, tt.nccl}, got); diff != "" {
				t.Errorf("nvidia-smi, NCCL (-want +got):\n%s", diff)
			}
		})
	}
}

// drawTree draws a machine of up to four host bridges, with bridges of any depth up to four.
func drawTree(t *rapid.T) (inv node.Inventory, ends []string) {
	var lines []string
	bus := 0
	for range rapid.IntRange(1, 4).Draw(t, "roots") {
		numa := rapid.IntRange(-1, 1).Draw(t, "numa")
		var grow func(above string, depth int)
		grow = func(above string, depth int) {
			bus++
			here := bus
			for device := range rapid.IntRange(1, 3).Draw(t, "devices") {
				address := fmt.Sprintf("0000:%02x:%02x.0", here, device)
				if depth > 0 && rapid.Bool().Draw(t, "bridge") {
					grow(above+"/"+address, depth-1)
					continue
				}
				lines = append(lines, fmt.Sprintf("%s/%s %d %s", above, address, numa, rapid.SampledFrom([]string{"gpu", "nic"}).Draw(t, "what")))
				ends = append(ends, address)
			}
		}
		grow(fmt.Sprintf("pci0000:%02x", bus+1), 4)
	}
	return wired(lines...), ends
}

func TestRelationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, ends := drawTree(t)
		tree := inv.Topology()
		for _, a := range ends {
			for _, b := range ends {
				there, back := tree.Relation(a, b), tree.Relation(b, a)
				r, ok := there.Get()
				if s, sok := back.Get(); ok != sok || r != s {
					t.Fatalf("%s to %s is %v, the other way %v", a, b, text(there), text(back))
				}
				n, nok := tree.NCCL(a, b).Get()
				if m, _ := tree.NCCL(b, a).Get(); !nok || n != m {
					t.Fatalf("NCCL: %s to %s is %v, the other way %v", a, b, n, m)
				}
				if (r == node.Self) != (a == b) || (n == node.Self) != (a == b) {
					t.Fatalf("%s to %s is %v, to NCCL %v", a, b, r, n)
				}
				rootA, above := tree.Root(a)
				rootB, _ := tree.Root(b)
				if ok && (r < node.NODE) != (rootA == rootB) || len(above) > 0 && !strings.HasPrefix(above[0].Address, rootA) {
					t.Fatalf("%s on %s below %v to %s on %s is %v", a, rootA, above, b, rootB, r)
				}
			}
		}
		checkRails(t, inv)
		inv.Virtualization = known("kvm")
		if inv.Rails().IsKnown() || inv.GPUPaths().IsKnown() {
			t.Fatal("rails in a virtual machine")
		}
	})
}

// checkRails holds rails and paths to what relations say.
func checkRails(t *rapid.T, inv node.Inventory) {
	inv.Protected, inv.RDMA = known([]node.ProtectedNetdev{}), known([]node.RDMADevice{})
	netdevs := []node.Netdev{}
	for _, f := range value(inv.PCI) {
		if f.IsNIC() {
			netdevs = append(netdevs, node.Netdev{Name: "n" + f.Address, PCI: f.Address, Port: 1, Type: node.ARPHardwareEthernet})
		}
	}
	inv.Netdevs = known(netdevs)
	tree, gpus := inv.Topology(), value(inv.GPUs())
	want := map[string]bool{}
	for _, n := range value(inv.NICs()) {
		for _, g := range gpus {
			if r, ok := tree.Relation(n.Address, g.Address).Get(); ok && r <= node.PXB {
				want[n.Address] = true
			}
		}
	}
	rails, last := inv.Rails(), ""
	for _, n := range value(rails) {
		near := value(n.GPUs)
		if !want[n.Address] || len(near) == 0 || near[0] < last {
			t.Fatalf("rail %s of %v, after one of %s", n, near, last)
		}
		last = near[0]
		delete(want, n.Address)
	}
	if !rails.IsKnown() || len(want) > 0 {
		t.Fatalf("%v, no rails: %v", text(rails), want)
	}
	paths := value(inv.GPUPaths())
	if !slices.IsSorted(paths) || len(slices.Compact(slices.Clone(paths))) != len(paths) {
		t.Fatalf("paths %v", paths)
	}
	for _, p := range paths {
		above := slices.ContainsFunc(gpus, func(g node.GPU) bool {
			_, bridges := tree.Root(g.Address)
			return slices.ContainsFunc(bridges, func(f node.PCIFunction) bool { return f.Address == p })
		})
		if !above && !slices.ContainsFunc(value(rails), func(n node.NIC) bool {
			_, bridges := tree.Root(n.Address)
			return slices.ContainsFunc(bridges, func(f node.PCIFunction) bool { return f.Address == p })
		}) {
			t.Fatalf("%s is above neither a GPU nor a rail", p)
		}
	}
}

func TestRails(t *testing.T) {
	const sw = "pci0000:10/0000:10:01.0/0000:11:00.0/"
	inv := wired(sw+"0000:12:00.0/0000:13:00.0 0 gpu", sw+"0000:12:01.0/0000:14:00.0 0", sw+"0000:12:02.0/0000:15:00.0 0", sw+"0000:12:02.0/0000:15:00.1 0",
		sw+"0000:12:03.0/0000:16:00.0/0000:17:00.0/0000:18:00.0 0", "pci0000:10/0000:10:02.0/0000:19:00.0 0")
	netdev := func(name, pci string) node.Netdev {
		return node.Netdev{Name: name, Type: node.ARPHardwareEthernet, PCI: pci, Port: 1}
	}
	inv.Netdevs = known([]node.Netdev{
		{Name: "bond0", Type: node.ARPHardwareEthernet, Lower: []string{"left", "right"}}, netdev("far", "0000:19:00.0"), netdev("left", "0000:15:00.0"),
		netdev("nested", "0000:18:00.0"), netdev("plain", "0000:14:00.0"), netdev("right", "0000:15:00.1"),
	})
	inv.RDMA = known([]node.RDMADevice{{Name: "mlx5_bond_0", PCI: "0000:15:00.0", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "bond0", LinkLayer: known("Ethernet")}}}})
	inv.Protected = known([]node.ProtectedNetdev{{Name: "plain"}})
	var got []string
	for _, n := range value(inv.Rails()) {
		got = append(got, fmt.Sprint(n, " ", text(n.Netdev), " ", text(n.RDMA), " ", text(n.GPUs)))
	}
	want := []string{
		"0000:15:00.0 left mlx5_bond_0 [0000:13:00.0]", "0000:15:00.1 right mlx5_bond_0 [0000:13:00.0]",
		"0000:18:00.0 nested ? the NIC has no RDMA device (rdma-devices) [0000:13:00.0]",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("rails (-want +got):\n%s", diff)
	}
	// One GPU has no path to another one; what leads to the protected NIC is on none to a rail.
	paths := []string{"0000:11:00.0", "0000:12:00.0", "0000:12:02.0", "0000:12:03.0", "0000:16:00.0", "0000:17:00.0"}
	if diff := gocmp.Diff(paths, value(inv.GPUPaths())); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	inv.Protected = node.Unknown[[]node.ProtectedNetdev]("no default route", node.Source{})
	for _, v := range []any{text(inv.Rails()), text(inv.GPUPaths())} {
		if v != "? whether NIC 0000:14:00.0 is protected is unknown: no default route" {
			t.Errorf("%v", v)
		}
	}
	inv.Protected, inv.Netdevs = known([]node.ProtectedNetdev{{Name: "plain"}}), known(value(inv.Netdevs)[:5])
	inv = change(inv, "0000:15:00.1", func(f *node.PCIFunction) { f.Driver = "mlx5_core" })
	if rails := value(inv.Rails()); len(rails) != 3 || rails[1].Protected.IsKnown() {
		t.Errorf("with a NIC whose network device is elsewhere: %v", rails)
	}
	for _, v := range []any{text(node.Inventory{}.Rails()), text(node.Inventory{}.GPUPaths())} {
		if v != "? not recorded" {
			t.Errorf("%v", v)
		}
	}
	inv.PCI = known(append(slices.Clone(value(inv.PCI)), node.PCIFunction{Address: "0000:99:00.0", Vendor: "10de", Class: "030200", Parent: "0000:98:00.0"}))
	if v := text(inv.Rails()); v != "? the bridges above 0000:99:00.0 lead to no root bus" {
		t.Errorf("%v", v)
	}
}

// Both ports of a function are rails, without network devices too; a virtual function is none, and protects the port that it
// shares.
func TestRailsOfPorts(t *testing.T) {
	const sw = "pci0000:10/0000:10:01.0/0000:11:00.0/"
	inv := wired(sw+"0000:12:00.0/0000:13:00.0 0 gpu", sw+"0000:12:01.0/0000:14:00.0 0", sw+"0000:12:02.0/0000:15:00.0 0", sw+"0000:12:02.0/0000:15:00.1 0")
	inv = change(inv, "0000:15:00.1", func(f *node.PCIFunction) { f.PhysicalFunction = "0000:15:00.0" })
	port := func(n int) node.RDMADevicePort {
		return node.RDMADevicePort{Port: n, LinkLayer: known("InfiniBand")}
	}
	inv.RDMA = known([]node.RDMADevice{{Name: "mlx4_0", PCI: "0000:14:00.0", Ports: []node.RDMADevicePort{port(1), port(2)}}, {Name: "mlx5_0", PCI: "0000:15:00.0", Ports: []node.RDMADevicePort{port(1)}}})
	inv.Netdevs, inv.Protected = known([]node.Netdev{{Name: "vf", PCI: "0000:15:00.1", Port: 1}}), known([]node.ProtectedNetdev{})
	rails := func() (names []string) {
		for _, n := range value(inv.Rails()) {
			key := inv.RDMAPortOf(n)
			names = append(names, fmt.Sprint(n, " ", text(key)))
		}
		return names
	}
	want := []string{"0000:14:00.0 mlx4_0/1", "0000:14:00.0/2 mlx4_0/2", "0000:15:00.0 mlx5_0/1"}
	if diff := gocmp.Diff(want, rails()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	inv.Protected = known([]node.ProtectedNetdev{{Name: "vf"}})
	if diff := gocmp.Diff(want[:2], rails()); diff != "" {
		t.Errorf("the virtual function is protected (-want +got):\n%s", diff)
	}
}

// Without a NIC there are no rails, and still paths between GPUs, or a reason why not.
func TestGPUPathsWithoutNICs(t *testing.T) {
	inv := wired("pci0000:00/0000:00:01.0/0000:0a:00.0 0 gpu", "pci0000:80/0000:80:01.0/0000:81:00.0 1 gpu")
	if diff := gocmp.Diff([]any{[]node.NIC{}, []string{"0000:00:01.0", "0000:80:01.0"}}, []any{text(inv.Rails()), text(inv.GPUPaths())}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	inv = change(inv, "0000:81:00.0", func(f *node.PCIFunction) { f.Parent = "0000:80:02.0" })
	if got := text(inv.GPUPaths()); got != "? the bridges above 0000:81:00.0 lead to no root bus" {
		t.Errorf("%v", got)
	}
}

// An RDMA device of its own wins over that of a bond.
func TestBondedPortsWithTwoDevices(t *testing.T) {
	inv := wired("pci0000:00/0000:00:01.0/0000:0a:00.0 0", "pci0000:00/0000:00:01.0/0000:0a:00.1 0", "pci0000:00/0000:00:02.0/0000:0b:00.0 0")
	inv.Netdevs = known([]node.Netdev{
		{Name: "bond0", Lower: []string{"a", "b", "c"}}, {Name: "a", PCI: "0000:0a:00.0", Port: 1}, {Name: "b", PCI: "0000:0a:00.1", Port: 1}, {Name: "c", PCI: "0000:0b:00.0", Port: 1},
	})
	inv.RDMA = known([]node.RDMADevice{
		{Name: "rdma0", PCI: "0000:0a:00.0", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "bond0"}}},
		{Name: "rdma1", PCI: "0000:0a:00.1", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "bond0"}}},
	})
	var got []any
	for _, n := range value(inv.NICs()) {
		got = append(got, text(inv.RDMAPortOf(n)))
	}
	// The third port is of another device.
	if diff := gocmp.Diff([]any{"rdma0/1", "rdma1/1", "? the NIC has no RDMA device (rdma-devices)"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithNUMANodes(t *testing.T) {
	inv := wired("pci0000:00/0000:00:01.0/0000:0a:00.0 -1", "pci0000:80/0000:80:01.0/0000:81:00.0 -1")
	relation := func(nodes node.Value[[]node.NUMANode]) any {
		return text(inv.WithNUMANodes(nodes).Topology().Relation("0000:0a:00.0", "0000:81:00.0"))
	}
	unsaid := "? firmware does not say the NUMA node"
	got := []any{
		relation(known([]node.NUMANode{{ID: 3}})), relation(known([]node.NUMANode{{ID: 0}, {ID: 1}})), relation(node.Value[[]node.NUMANode]{}),
		text(node.Inventory{}.WithNUMANodes(known([]node.NUMANode{{}})).Topology().Relation("a", "b")), value(inv.PCI)[0].NUMANode,
	}
	if diff := gocmp.Diff([]any{node.NODE, unsaid, unsaid, "? not recorded", -1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkNICs(b *testing.B) {
	r, err := example.Open("hgx-h100")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	facts, err := node.ReadRecording(r)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		facts.Inventory.NICs()
	}
}
