package node_test

import (
	"strings"
	"testing"

	"busbar/node"
)

// What a recording leaves out, nulls or makes impossible passes for no value.
func TestImpossible(t *testing.T) {
	const key = "0000:1b:00.0"
	field := func(f func(node.LinkState) string) func(node.Facts) string {
		return func(facts node.Facts) string {
			link, _ := node.Link.Get(facts, key).Get()
			return f(link)
		}
	}
	mtu := field(func(l node.LinkState) string { return l.MTU.Reason() })
	speed := field(func(l node.LinkState) string { return l.Speed.Reason() })
	pause := func(f node.Facts) string {
		v, _ := node.FlowControl.Get(f, key).Get()
		return v.Pause.Reason()
	}
	acs := func(f node.Facts) string {
		v, _ := node.PCIRegisters.Get(f, key).Get()
		return v.ACS.Reason()
	}
	current := func(f node.Facts) string {
		v, _ := node.PCILink.Get(f, key).Get()
		return v.Current.Reason()
	}
	whole := func(f node.Facts) string {
		for _, q := range f.Queries() {
			switch q.Kind {
			case node.Unit.Name():
				return node.Unit.Get(f, q.Key).Reason()
			case node.DCB.Name():
				v, _ := node.DCB.Get(f, q.Key).Get()
				return v.PFC.Reason() + v.ETS.Reason()
			case node.IOMMU.Name():
				return node.IOMMU.Get(f, q.Key).Reason()
			case node.CPUs.Name():
				v, _ := node.CPUs.Get(f, q.Key).Get()
				return v.Governors.Reason()
			case node.Module.Name():
				return node.Module.Get(f, q.Key).Reason()
			case node.NVIDIADriver.Name():
				return node.NVIDIADriver.Get(f, q.Key).Reason()
			case node.NVML.Name():
				return node.NVML.Get(f, q.Key).Reason()
			case node.FabricManager.Name():
				v := node.FabricManager.Get(f, q.Key)
				state, _ := v.Get()
				return v.Reason() + state.Version.Reason()
			case node.GPUInfo.Name():
				v := node.GPUInfo.Get(f, q.Key)
				gpu, _ := v.Get()
				return v.Reason() + gpu.Product.Reason() + gpu.UUID.Reason()
			}
		}
		return "?"
	}
	for _, tt := range []struct {
		name, kind, value string
		reason            func(node.Facts) string
		want              string
	}{
		{"MTU", "link", `{"netdev":"e","mtu":{"value":9000}}`, mtu, ""},
		{"negative MTU", "link", `{"netdev":"e","mtu":{"value":-1}}`, mtu, "it is -1 and must be from 68 to 65535"},
		{"huge MTU", "link", `{"netdev":"e","mtu":{"value":1000000000000000000}}`, mtu, "it is 1000000000000000000 and must be from 68 to 65535"},
		{"MTU without its link's name", "link", `{"mtu":{"value":9000}}`, func(f node.Facts) string { return node.Link.Get(f, key).Reason() }, "the recording says nothing of netdev"},
		{"speed", "link", `{"netdev":"e","speed":{"value":-1}}`, speed, "it is -1 and must be at least 1"},
		{"pause", "flow_control", `{"netdev":"e","pause":{"value":{"autonegotiate":true,"rx":false,"tx":false}}}`, pause, ""},
		{"pause without tx", "flow_control", `{"netdev":"e","pause":{"value":{"autonegotiate":true,"rx":false}}}`, pause, "the recording says nothing of tx"},
		{"pause of null", "flow_control", `{"netdev":"e","pause":{"value":{"autonegotiate":true,"rx":null,"tx":true}}}`, pause, "the recording says nothing of rx"},
		{"a member in other letters", "flow_control", `{"netdev":"e","pause":{"value":{"Autonegotiate":true,"RX":true,"tx":true}}}`, pause, ""},
		{"no ACS", "pci_registers", `{"acs":{"value":{"present":false}}}`, acs, ""},
		{"ACS of null", "pci_registers", `{"acs":{"value":{"present":null}}}`, acs, "the recording says nothing of present"},
		{"ACS bits of null", "pci_registers", `{"acs":{"value":{"present":true,"enabled":null}}}`, acs, "the recording says nothing of enabled"},
		{"link", "pci_link", `{"current":{"value":{"speed_gt_s":32,"width":16}}}`, current, ""},
		{"link of no speed", "pci_link", `{"current":{"value":{"speed_gt_s":-1,"width":16}}}`, current, "it cannot be: a speed of -1 GT/s: it is 2.5, 5, 8, 16, 32 or 64"},
		{"link of 63 lanes", "pci_link", `{"current":{"value":{"speed_gt_s":32,"width":63}}}`, current, "it cannot be: a link is not 63 lanes wide"},
		{"unit", "unit", `{"load":"not-found"}`, whole, ""},
		{"unit of null", "unit", `{"load":null}`, whole, "the recording says nothing of load"},
		{"unit of nothing", "unit", `{}`, whole, "the recording says nothing of load"},
		{"optional null", "unit", `{"load":"loaded","need_reload":null}`, whole, "the recording says nothing of need_reload"},
		{"short array", "dcb", `{"netdev":"e","driver":"x","pfc":{"value":{"capacity":8,"enabled":8}},"ets":{"value":{"classes":8,"algorithms":["ets"],"priority_class":[0,1,2,3,4,5,6,7]}}}`, whole, "the recording says nothing of algorithms.1"},
		{"no list", "iommu", `{"units":null,"groups":[{"id":3,"type":{"reason":"x"},"devices":null}]}`, whole, ""},
		{"in a list", "iommu", `{"groups":[{"id":3,"type":{"reason":"x"},"devices":[]},{"type":{"reason":"x"},"devices":[]}]}`, whole, "the recording says nothing of groups.1.id"},
		{"driver", "nvidia_driver", `{"loaded":true,"version":"580.95.05"}`, whole, ""},
		{"no driver", "nvidia_driver", `{"loaded":false}`, whole, ""},
		{"driver without a version", "nvidia_driver", `{"loaded":true}`, whole, "it cannot be: the driver is loaded and has no version"},
		{"driver of an empty version", "nvidia_driver", `{"loaded":true,"version":""}`, whole, "it cannot be: the driver is loaded and has no version"},
		{"library of an empty version", "nvml", `{"version":"","driver":{"value":"580.95.05"}}`, whole, "version is empty"},
		{"fabric manager of an empty version", "fabric_manager", `{"installed":true,"version":{"value":""}}`, whole, "it is empty"},
		{"GPU", "gpu", `{"product":{"value":"NVIDIA H200"},"uuid":{"value":"GPU-1"}}`, whole, ""},
		{"GPU of an empty name", "gpu", `{"product":{"value":""},"uuid":{"value":"GPU-1"}}`, whole, "it is empty"},
		{"GPU of blanks", "gpu", `{"product":{"value":"NVIDIA H200"},"uuid":{"value":" "}}`, whole, "it is empty"},
		{"firmware", "link", `{"netdev":"e","firmware":{"value":""}}`, field(func(l node.LinkState) string { return l.Firmware.Reason() }), "it is empty"},
		{"empty name", "link", `{"netdev":"","mtu":{"value":9000}}`, func(f node.Facts) string { return node.Link.Get(f, key).Reason() }, "netdev is empty"},
		{"setting without a value", "nccl_log", `{"files":["a"],"variables":[{"name":"NCCL_DEBUG","value":"","origin":"a plugin","line":3}]}`, func(f node.Facts) string { return node.NCCLLog.Get(f, key).Reason() }, ""},
		{"empty sysctl", "sysctl", `""`, func(f node.Facts) string { return node.Sysctl.Get(f, key).Reason() }, ""},
		{"number in a list", "iommu", `{"groups":[{"id":-3,"type":{"reason":"x"},"devices":[]}]}`, whole, "groups.0.id is -3 and must be at least 0"},
		{"null in a list", "iommu", `{"units":["a",null]}`, whole, "the recording says nothing of units.1"},
		{"map", "cpus", `{"packages":2,"governors":{"value":{"performance":0}}}`, whole, "performance is 0 and must be at least 1"},
		{"null in a map", "module", `{"loaded":true,"parameters":{"a":null}}`, whole, "the recording says nothing of parameters.a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := readWith(t, `{"kind":"`+tt.kind+`","key":"`+key+`","value":`+tt.value+`}`)
			if len(f.Queries()) != 1 {
				t.Fatal("no such kind")
			}
			if got := tt.reason(f); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The inventory likewise; what stands there twice makes the recording none.
func TestImpossibleInventory(t *testing.T) {
	recording := func(inventory string) (node.Facts, error) {
		return node.ReadRecording(strings.NewReader(`{"format_version":"1.0","observed_at":"2026-07-01T12:00:00Z","inventory":{` + inventory + `},"answers":[]}`))
	}
	const function = `{"address":"0000:1b:00.0","vendor":"15b3","device":"1021","class":"020000","numa_node":-1}`
	for inventory, want := range map[string]string{
		`"pci":{"value":[` + function + `]}`:                                            "",
		`"pci":{"value":[` + strings.Replace(function, `,"numa_node":-1`, "", 1) + `]}`: "the recording says nothing of 0.numa_node",
		`"pci":{"value":[` + strings.Replace(function, `-1`, "-2", 1) + `]}`:            "0.numa_node is -2 and must be from -1 to 1023",
		`"pci":{"value":[` + strings.Replace(function, `-1`, "99999", 1) + `]}`:         "0.numa_node is 99999 and must be from -1 to 1023",
	} {
		f, err := recording(inventory)
		if err != nil {
			t.Error(err)
		}
		if got := f.Inventory.PCI.Reason(); got != want {
			t.Errorf("%s: %q, want %q", inventory, got, want)
		}
	}
	if f, err := recording(`"uptime":{"value":-5}`); err != nil || f.Inventory.Uptime.Reason() != "it is -5ns and must be at least 0" {
		t.Error(f.Inventory.Uptime.Reason(), err)
	}
	for inventory, want := range map[string]string{
		`"pci":{"value":[` + function + `,` + function + `]}`:                                     "field inventory.pci.value.1: 0000:1b:00.0 is element 0 already",
		`"netdevs":{"value":[{"name":"a","type":1},{"name":"b","type":1},{"name":"a","type":1}]}`: "field inventory.netdevs.value.2: a is element 0 already",
		`"rdma":{"value":[{"name":"a"},{"name":"a"}]}`:                                            "field inventory.rdma.value.1: a is element 0 already",
	} {
		if _, err := recording(inventory); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", inventory, err, want)
		}
	}
}
