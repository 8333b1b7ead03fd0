//go:build e2e

package kmod

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"busbar/node"
	"busbar/node/example"
)

func recording(t *testing.T, name string) node.Inventory {
	t.Helper()
	r, err := example.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	facts, err := node.ReadRecording(r)
	if err != nil {
		t.Fatal(err)
	}
	return facts.Inventory
}

func inventory(functions ...node.PCIFunction) node.Inventory {
	return node.Inventory{PCI: node.Known(functions, node.Source{})}
}

// scan finds the functions of a table as a kernel does: from each root bus down through the
// bridges, by their bus numbers.
func scan(t *testing.T, table string) node.Inventory {
	t.Helper()
	type row struct {
		node.PCIFunction
		secondary, subordinate uint
	}
	rows, nodes := map[busNumber][]row{}, map[busNumber]int{}
	ranges := map[busNumber]uint{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if words[0] == "bus" {
			var root busNumber
			var last uint
			var numa int
			if _, err := fmt.Sscanf(line, "bus %x:%x-%x node=%d", &root.domain, &root.bus, &last, &numa); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			nodes[root], ranges[root] = numa, last
			continue
		}
		r := row{PCIFunction: node.PCIFunction{Address: words[0]}}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "id":
				r.Vendor, r.Device, _ = strings.Cut(value, ":")
			case "class":
				r.Class = value
			case "subsystem":
				r.SubsystemVendor, r.SubsystemDevice, _ = strings.Cut(value, ":")
			case "bus":
				if _, err := fmt.Sscanf(value, "%x-%x", &r.secondary, &r.subordinate); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
		at, err := parseAddress(words[0])
		if err != nil {
			t.Fatal(err)
		}
		on := busNumber{at.domain, at.bus}
		rows[on] = append(rows[on], r)
	}
	var found []node.PCIFunction
	var walk func(bus busNumber, last uint, above string, numa int)
	walk = func(bus busNumber, last uint, above string, numa int) {
		taken := map[uint]string{}
		for _, r := range rows[bus] {
			r.Parent, r.NUMANode = above, numa
			found = append(found, r.PCIFunction)
			if r.secondary == 0 {
				continue
			}
			if r.secondary <= bus.bus || r.subordinate > last || r.subordinate < r.secondary {
				t.Errorf("%s has buses %02x-%02x, below bus %02x-%02x", r.Address, r.secondary, r.subordinate, bus.bus, last)
			}
			for n := r.secondary; n <= r.subordinate; n++ {
				if taken[n] != "" {
					t.Errorf("bus %02x belongs to %s and %s", n, taken[n], r.Address)
				}
				taken[n] = r.Address
			}
			walk(busNumber{bus.domain, r.secondary}, r.subordinate, r.Address, numa)
		}
	}
	for root, numa := range nodes {
		walk(root, ranges[root], "", numa)
	}
	return inventory(found...)
}

func TestTreeOfTheTableIsTheRecorded(t *testing.T) {
	for _, name := range example.Names() {
		t.Run(name, func(t *testing.T) {
			inv := recording(t, name)
			f, err := New(inv)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Functions) == 0 {
				t.Fatal("no function")
			}
			for _, d := range Differences(inv, scan(t, f.String())) {
				t.Error(d)
			}
		})
	}
}

func TestLinesOfAnHGX(t *testing.T) {
	f, err := New(recording(t, "hgx-h100"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(f.String(), "\n")
	const pcie = " devcap=8022 devctl=2930 lnkcap=105 lnksta=2105"
	for _, want := range []string{
		"bus 1000:15-25 node=0",
		"bus 1000:d7-e6 node=1",
		"1000:00:00.0 id=8086:09a2 class=088000",
		"1000:15:01.0 id=8086:352a class=060400 bus=16-1c type=root" + pcie + " acscap=5f acsctl=0",
		"1000:16:00.0 id=1000:c030 class=060400 bus=17-1c type=upstream" + pcie,
		"1000:17:02.0 id=1000:c030 class=060400 bus=1a-1a type=downstream" + pcie + " acscap=5f acsctl=0",
		"1000:17:1f.0 id=1000:c030 class=060400 bus=1c-1c type=downstream" + pcie + " acscap=5f acsctl=0",
		"1000:19:00.0 id=10de:2330 class=030200 type=endpoint devcap=10008022 devctl=2930 lnkcap=105 lnksta=2105",
		"1000:1a:00.0 id=15b3:1021 class=020000 type=endpoint devcap=10008022 devctl=2930 lnkcap=105 lnksta=2105 netdev=enp26s0np0/1",
		"1000:02:00.0 id=1556:be00 class=060400 bus=03-03 type=bridge" + pcie,
		"1000:03:00.0 id=102b:0536 class=030000",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the table lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log("\n" + f.String())
	}
}

func TestNumbersOfEmptyBridges(t *testing.T) {
	bridge := func(address, parent string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: "8086", Device: "352a", Class: "060400", Parent: parent}
	}
	inv := inventory(
		bridge("0000:00:01.0", ""), bridge("0000:02:00.0", "0000:00:01.0"), bridge("0000:02:01.0", "0000:00:01.0"),
		node.PCIFunction{Address: "0000:05:00.0", Class: "088000", Parent: "0000:02:00.0"},
		bridge("0000:00:02.0", ""), bridge("0000:00:03.0", ""),
		node.PCIFunction{Address: "0000:07:00.0", Class: "088000", Parent: "0000:00:03.0"},
	)
	f, err := New(inv)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string][2]uint{
		"0000:00:01.0": {2, 5}, // its empty port lies in the gap that it has
		"0000:02:01.0": {3, 3},
		"0000:00:02.0": {1, 1},
		"0000:00:03.0": {7, 7},
	} {
		if b := f.At(address); b.Secondary != want[0] || b.Subordinate != want[1] {
			t.Errorf("%s has buses %02x-%02x, wanted %02x-%02x", address, b.Secondary, b.Subordinate, want[0], want[1])
		}
	}
	for _, d := range Differences(inv, scan(t, f.String())) {
		t.Error(d)
	}
}

func TestRegistersCanBeChanged(t *testing.T) {
	f, err := New(recording(t, "hgx-h100"))
	if err != nil {
		t.Fatal(err)
	}
	port := f.At("0000:17:02.0")
	port.ACS.Control = 0x1d
	nic := f.At("0000:1a:00.0")
	nic.DeviceControl = 0x5930
	nic.ATSControl = new(uint16)
	if got := port.String(); !strings.Contains(got, "acsctl=1d") {
		t.Error(got)
	}
	if got := nic.String(); !strings.Contains(got, "devctl=5930") || !strings.Contains(got, "atsctl=0") {
		t.Error(got)
	}
	if f.At("0000:ff:1f.7") != nil {
		t.Error("a function that does not exist was found")
	}
}

func TestTreesThatAreRefused(t *testing.T) {
	bridge := node.PCIFunction{Address: "0000:00:01.0", Vendor: "8086", Device: "352a", Class: "060400"}
	nic := node.PCIFunction{Address: "0000:01:00.0", Vendor: "15b3", Device: "1021", Class: "020000", Parent: bridge.Address}
	with := func(p node.PCIFunction, change func(*node.PCIFunction)) node.PCIFunction {
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		inv  node.Inventory
		want string
	}{
		"unknown":          {node.Inventory{}, "not recorded"},
		"empty":            {inventory(), "no function on a root bus"},
		"virtual function": {inventory(bridge, with(nic, func(p *node.PCIFunction) { p.PhysicalFunction = "0000:01:00.1" })), "virtual function"},
		"no bridge":        {inventory(nic), "0000:00:01.0 was not recorded"},
		"below itself":     {inventory(bridge, with(nic, func(p *node.PCIFunction) { p.Parent = p.Address })), "cannot be below"},
		"two buses": {inventory(bridge, nic, with(nic, func(p *node.PCIFunction) { p.Address = "0000:02:00.0" })),
			"cannot be below"},
		"two nodes": {inventory(bridge, with(nic, func(p *node.PCIFunction) { p.NUMANode = 1 })), "node 1"},
		"no number left": {inventory(bridge, with(bridge, func(p *node.PCIFunction) { p.Address = "0000:00:02.0" }), nic,
			node.PCIFunction{Address: "0000:02:00.0", Class: "088000"}), "no bus number is left"},
		"address": {inventory(with(bridge, func(p *node.PCIFunction) { p.Address = "0000:00:01.0x" })), "no PCI address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.inv)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, wanted %q in it", err, c.want)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	original := recording(t, "hgx-h100")
	f, err := New(original)
	if err != nil {
		t.Fatal(err)
	}
	lab := scan(t, f.String())
	functions, _ := lab.PCI.Get()
	own := node.PCIFunction{Address: "0000:00:02.0", Class: "020000"}
	functions = append(slices.Clone(functions), own)
	if got := Differences(original, inventory(functions...)); len(got) != 0 {
		t.Errorf("a function of the machine itself counts: %q", got)
	}
	changed := slices.IndexFunc(functions, func(p node.PCIFunction) bool { return p.Address == "1000:1a:00.0" })
	functions[changed].NUMANode = 1
	gone := slices.IndexFunc(functions, func(p node.PCIFunction) bool { return p.Address == "1000:19:00.0" })
	functions[gone].Address = "1000:1c:00.0"
	got := Differences(original, inventory(functions...))
	for i, want := range []string{"0000:19:00.0: is missing", "0000:1a:00.0: is {", "0000:1c:00.0: was not recorded"} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("differences are %q, wanted %q", got, want)
		}
	}
	if got := Differences(original, node.Inventory{}); len(got) != 1 {
		t.Errorf("an unknown tree is equal to a known one: %q", got)
	}
}

func TestRecordedNetdevs(t *testing.T) {
	lab := node.Inventory{Netdevs: node.Known([]node.Netdev{
		{Name: "eth0", PCI: "0000:00:02.0", Port: 1}, {Name: "lo"}, {Name: "rail0", PCI: "1000:1a:00.0", Port: 1},
	}, node.Source{})}
	got, _ := Recorded(lab).Netdevs.Get()
	if len(got) != 1 || got[0].Name != "rail0" || got[0].PCI != "0000:1a:00.0" {
		t.Errorf("netdevs of the fabric are %+v", got)
	}
}
