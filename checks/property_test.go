package checks_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"busbar/checks"
	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// nicChecks are all checks of NICs, each without arguments and with them.
const nicChecks = `
	check "gid" "all" {}
	check "gid" "pinned" { index = 3 }
	check "infiniband" "all" {}
	check "infiniband" "fast" { rate = 400 }
	check "lossless" "alike" {}
	check "lossless" "stated" { lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 } }
	check "mtu" "all" {}
	check "mtu" "small" { min = 1024 }
	check "pcie_link" "all" {}
	check "platform" "numa" { numa_known = true }
	check "rails" "all" {}
	check "rails" "one" { nics = [{ address = "0000:14:00.0" }] }
	check "rdma_port" "all" {}
	check "rdma_port" "stated" {
		nics       = [{ address = "0000:14:00.0" }, { address = "0000:24:00.0" }]
		count      = 2
		link_layer = "Ethernet"
		rate       = 400
		firmware   = "28.39.1002"
		board_firmware = { MT_0000000838 = "28.41.1000" }
	}
`

// oneOf draws one of the values.
func oneOf[T any](t *rapid.T, values ...T) T { return rapid.SampledFrom(values).Draw(t, "value") }

// some draws some of the values, in their order.
func some[T any](t *rapid.T, values ...T) []T {
	list := []T{}
	for _, v := range values {
		if rapid.Bool().Draw(t, "taken") {
			list = append(list, v)
		}
	}
	return list
}

// perhaps is a known value, or one that the driver lacks.
func perhaps[T any](t *rapid.T, v T) node.Value[T] {
	if rapid.IntRange(0, 5).Draw(t, "lacking") == 0 {
		return lacking[T]()
	}
	return known(v)
}

// anyRail draws rail number i with whatever a NIC can have, as readers answer it.
func anyRail(t *rapid.T, i int) *rail {
	r := healthy(i)
	priorities := func() dcbnl.Priorities { return oneOf(t, dcbnl.Priorities(0), 1<<3, 1<<4, 1<<3|1<<4, 255) }
	layer := oneOf(t, "Ethernet", "Ethernet", "Ethernet", "InfiniBand")
	name := r.netdev.Name
	if layer == "InfiniBand" {
		r.netdev.Type = node.ARPHardwareInfiniBand
	}
	r.netdev.Addresses = some(t, r.netdev.Addresses[0], "198.18.99.1/24", "2001:db8::7/64")
	r.device.Ports[0].LinkLayer = known(layer)
	switch rapid.IntRange(0, 9).Draw(t, "missing") {
	case 0:
		r.pci = r.pci[:5]
	case 1:
		r.device = node.RDMADevice{}
	case 2:
		r.netdev = node.Netdev{}
	case 3:
		r.pci[5].Parent = ""
	}
	for n := range r.pci {
		r.pci[n].NUMANode = oneOf(t, -1, 0, 0, 1)
	}
	r.port = node.RDMAPortState{
		LinkLayer: layer, State: known(oneOf(t, "ACTIVE", "ACTIVE", "DOWN", "INIT", "")), PhysState: known(oneOf(t, "LinkUp", "LinkUp", "Polling", "Disabled")),
		Rate: known(oneOf(t, "400 Gb/sec (4X NDR)", "400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)", "2.5 Gb/sec (1X SDR)", "fast", "")),
		LID:  known(oneOf(t, 0, 7)), SMLID: known(oneOf(t, 0, 1)),
		GIDs:     known(some(t, v1(0, gidMAC(i), name), v2(1, gidMAC(i), name), v2(2, gid4(99, 1), name), v2(3, gid4(i, 17), name), v2(4, "2001:0db8:0000:0000:0000:0000:0000:0007", name), v2(5, "junk", name))),
		Firmware: known(oneOf(t, "28.39.1002", "28.41.1000", "28.9.1", "", "x")), BoardID: perhaps(t, oneOf(t, "MT_0000000838", "MT_0000000839")),
	}
	r.link = node.LinkState{
		Netdev: name, MAC: known(oneOf(t, fmt.Sprintf("02:00:00:00:00:%02x", i), "02:00:00:00:00:99", "")), MTU: known(oneOf(t, 0, 351, 1500, 4191, 4192, 9000)),
		Up: known(rapid.Bool().Draw(t, "up")), Carrier: known(rapid.Bool().Draw(t, "carrier")), OperState: known(oneOf(t, "up", "down")), Speed: known(oneOf(t, 400_000, 400_000, 200_000, 0)),
	}
	r.flow.Pause = perhaps(t, oneOf(t, ethtool.Pause{}, ethtool.Pause{Rx: true}, ethtool.Pause{Rx: true, Tx: true}))
	apps, _ := r.dcb.Apps.Get()
	r.dcb = node.DCBState{
		Netdev: name, Driver: oneOf(t, "mlx5_core", "bnxt_en"), PFC: perhaps(t, dcbnl.PFC{Capacity: 8, Enabled: priorities()}), Trust: known(oneOf(t, node.TrustDSCP, node.TrustDSCP, node.TrustPCP, node.TrustNone)),
		Apps: known(oneOf(t, apps, apps, apps[:26], nil, append(slices.Clone(apps), dcbnl.App{Selector: dcbnl.DSCP, Protocol: 26, Priority: 5}))),
	}
	r.roce = node.RoCEState{
		Netdev: name, NotificationPoint: perhaps(t, priorities()), ReactionPoint: perhaps(t, priorities()), CNPDSCP: perhaps(t, oneOf(t, 48, 48, 26, 0)), CNPPriority: perhaps(t, oneOf(t, 6, 6, 3)),
		CCParams:     perhaps(t, oneOf(t, map[string]uint32{"np_cnp_dscp": 48, "np_cnp_prio": 6}, map[string]uint32{"np_cnp_dscp": 0, "np_cnp_prio": 3, "np_cnp_prio_mode": 1})),
		TrafficClass: perhaps(t, node.TrafficClass{Global: oneOf(t, -1, 104, 106, 96)}), DefaultToS: perhaps(t, oneOf(t, 0, 104, 106)),
	}
	return r
}

// forget makes some of the facts of a struct unknown. The zero Value is one that is not known.
func forget[T any](t *rapid.T, facts *T) {
	v := reflect.ValueOf(facts).Elem()
	for n := range v.NumField() {
		isFact := strings.HasPrefix(v.Type().Field(n).Type.Name(), "Value[")
		if isFact && rapid.IntRange(0, 7).Draw(t, v.Type().Field(n).Name) == 0 {
			v.Field(n).SetZero()
		}
	}
}

// less is a rail of which less is known.
func less(t *rapid.T, r rail) *rail {
	r.unread = map[string]bool{}
	for _, kind := range []string{node.Link.Name(), node.FlowControl.Name(), node.DCB.Name(), node.RoCE.Name(), node.RDMAPort.Name()} {
		r.unread[kind] = rapid.IntRange(0, 15).Draw(t, kind) == 0
	}
	forget(t, &r.port)
	forget(t, &r.link)
	forget(t, &r.flow)
	forget(t, &r.dcb)
	forget(t, &r.roce)
	return &r
}

// nicFacts are those of a node with rails.
func nicFacts(list [2]*rail, inventory func(*node.Inventory), more ...node.Answer) node.Facts {
	f := rails(func(i int, r *rail) { *r = *list[i-1] }).With(more...)
	inv := f.Inventory
	inventory(&inv)
	return f.WithInventory(inv)
}

// TestUnknownIsNeverOK: random NICs through all checks of NICs. What is ok where some of the facts are unknown is ok, too, where they are
// known, whatever they are: no check takes for granted what it needs and does not know.
func TestUnknownIsNeverOK(t *testing.T) {
	blocks := plantest.Blocks(t, checks.All(), nicChecks)
	planner := plantest.Planner(checks.All())
	type key struct{ address, id, target string }
	rapid.Check(t, func(t *rapid.T) {
		conf := node.FileState{Exists: true, Text: strings.Join(some(t, "NCCL_IB_GID_INDEX=3\n", "NCCL_IB_TC=104\n", "NCCL_IB_ADDR_FAMILY=AF_INET6\n", "NCCL_IB_TC=\"7\"\n"), "")}
		full := [2]*rail{anyRail(t, 1), anyRail(t, 2)}
		some := [2]*rail{less(t, *full[0]), less(t, *full[1])}
		var links, someLinks []node.Answer
		for _, r := range full {
			for _, f := range r.pci {
				link := func() node.Value[pciregs.Link] {
					return perhaps(t, pciregs.Link{SpeedGTs: oneOf(t, 2.5, 16, 32.0), Width: oneOf(t, 8, 16)})
				}
				state := node.PCILinkState{Current: link(), Max: link()}
				links = append(links, node.PCILink.Answer(f.Address, known(state)))
				forget(t, &state)
				someLinks = append(someLinks, node.PCILink.Answer(f.Address, known(state)))
			}
		}
		nodes := node.NUMANodes.Answer("", known([]node.NUMANode{{ID: 0, CPUs: "0-7"}, {ID: 1, CPUs: oneOf(t, "8-15", "")}}))
		file := node.File.Answer("/etc/nccl.conf", known(conf))
		asked, someAsked := append(links, nodes, file), someLinks
		if rapid.IntRange(0, 7).Draw(t, "nodes") > 0 {
			someAsked = append(someAsked, nodes)
		}
		if rapid.IntRange(0, 7).Draw(t, "file") > 0 {
			someAsked = append(someAsked, file)
		} else {
			someAsked = append(someAsked, node.File.Answer("/etc/nccl.conf", denied[node.FileState]()))
		}
		virtualization := oneOf(t, "none", "none", "none", "kvm")
		all := nicFacts(full, func(inv *node.Inventory) { inv.Virtualization = known(virtualization) }, asked...)
		part := nicFacts(some, func(inv *node.Inventory) {
			inv.Virtualization = known(virtualization)
			forget(t, inv)
		}, someAsked...)

		was := map[key]plan.Finding{}
		for _, f := range planner.Plan(blocks, all).Findings {
			was[key{f.Address, f.ID, f.Target}] = f
		}
		for _, f := range planner.Plan(blocks, part).Findings {
			if before, told := was[key{f.Address, f.ID, f.Target}]; f.Status == plan.OK && before.Status != plan.OK {
				t.Errorf("%s %s %s is ok: %s\nwith all facts it is %s (%v): %s", f.Address, f.ID, f.Target, f.Summary, before.Status, told, before.Summary)
			}
		}
	})
}
