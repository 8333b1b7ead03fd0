package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestRDMAPort(t *testing.T) {
	all := `check "rdma_port" "all" {}`
	wanted := `check "rdma_port" "all" {
		count = 2
		link_layer = "Ethernet"
		rate = 400
		firmware = "28.39.1002"
	}`
	infiniband := both(func(r *rail) {
		r.port.LinkLayer, r.port.Rate = "InfiniBand", known("400 Gb/sec (4X NDR)")
	})
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", wanted, rails(), `
			ok rdma_port.count nics (/sys)
			ok rdma_port.firmware 0000:14:00.0 (/sys)
			ok rdma_port.firmware 0000:24:00.0 (/sys)
			ok rdma_port.link_layer 0000:14:00.0 (/sys)
			ok rdma_port.link_layer 0000:24:00.0 (/sys)
			ok rdma_port.rate 0000:14:00.0 (/sys)
			ok rdma_port.rate 0000:24:00.0 (/sys)
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "mlx5_2/1 (0000:24:00.0) has 400 Gbit/s"),
		judge("a rail is missing, and firmware is older in its second number", `check "rdma_port" "all" {
			count = 3
			firmware = "28.100.0"
		}`, rails(), `
			drift rdma_port.count nics (/sys)
			drift rdma_port.firmware 0000:14:00.0 (/sys)
			drift rdma_port.firmware 0000:24:00.0 (/sys)
			ok rdma_port.rate nics ()
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "2 NIC ports, wanted is 3", "has firmware 28.39.1002, wanted is 28.100.0 or newer"),
		judge("a NIC too many, Ethernet where InfiniBand is wanted", `check "rdma_port" "all" {
			count = 1
			link_layer = "InfiniBand"
		}`, rails(), `
			drift rdma_port.count nics (/sys)
			drift rdma_port.link_layer 0000:14:00.0 (/sys)
			drift rdma_port.link_layer 0000:24:00.0 (/sys)
			ok rdma_port.rate nics ()
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "2 NIC ports, wanted is 1", "mlx5_1/1 (0000:14:00.0) is Ethernet, InfiniBand is wanted"),
		judge("one port of another link layer", `check "rdma_port" "all" { link_layer = "Ethernet" }`, rails(second(func(r *rail) { r.port.LinkLayer, r.port.Rate = "InfiniBand", known("400 Gb/sec (4X NDR)") })), `
			ok rdma_port.link_layer 0000:14:00.0 (/sys)
			drift rdma_port.link_layer 0000:24:00.0 (/sys)
			ok rdma_port.rate nics ()
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`),
		judge("no cable, switched off", all, rails(func(i int, r *rail) {
			r.port.State, r.port.PhysState = known("DOWN"), known("Polling")
			if i == 2 {
				r.port.PhysState = known("Disabled")
			}
			r.link.Speed = node.Unknown[int]("there is no link", node.Source{Path: "/sys/speed"})
		}), `
			drift rdma_port.state 0000:14:00.0 (/sys)
			drift rdma_port.state 0000:24:00.0 (/sys)
		`, "mlx5_1/1 (0000:14:00.0) is DOWN, Polling, wanted is ACTIVE, LinkUp\nlook at the cable", "bring eth2 up"),
		judge("slower than its neighbour", all, rails(second(func(r *rail) { r.link.Speed = known(200_000) })), `
			drift rdma_port.rate nics ()
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "the rate differs: 200 Gbit/s on mlx5_2/1 (0000:24:00.0), 400 Gbit/s on others\nlook at the cable"),
		judge("alike, as far as it is known", all, rails(second(func(r *rail) { r.link.Speed = denied[int]() })), `
			unknown rdma_port.rate nics (/sys)
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "whether the rate is the same on all ports is unknown: the rate of mlx5_2/1 (0000:24:00.0) is unknown: permission denied"),
		judge("as slow as its neighbour", `check "rdma_port" "all" { rate = 800 }`, rails(), `
			drift rdma_port.rate 0000:14:00.0 (/sys)
			drift rdma_port.rate 0000:24:00.0 (/sys)
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`),
		judge("InfiniBand where Ethernet is wanted: the rate is the port's", wanted, rails(infiniband), `
			ok rdma_port.count nics (/sys)
			ok rdma_port.firmware 0000:14:00.0 (/sys)
			ok rdma_port.firmware 0000:24:00.0 (/sys)
			drift rdma_port.link_layer 0000:14:00.0 (/sys)
			drift rdma_port.link_layer 0000:24:00.0 (/sys)
			ok rdma_port.rate 0000:14:00.0 (/sys)
			ok rdma_port.rate 0000:24:00.0 (/sys)
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "is InfiniBand, Ethernet is wanted\nset LINK_TYPE_P1"),
		judge("InfiniBand faster than the kernel knows, and junk", `check "rdma_port" "all" { rate = 800 }`, rails(infiniband, func(i int, r *rail) {
			r.port.Rate = known([]string{"", "10 Gb/sec (4X SDR)", "fast"}[i])
		}), `
			unknown rdma_port.rate 0000:14:00.0 (/sys)
			unknown rdma_port.rate 0000:24:00.0 (/sys)
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "every speed that it does not know", `"fast" is no rate`),
		judge("firmware of boards, and of one that has no version", `check "rdma_port" "all" {
			board_firmware = { MT_0000000838 = "28.41.0", MT_2 = "22" }
			firmware = "1"
		}`, rails(second(func(r *rail) { r.port.BoardID, r.port.Firmware = lacking[string](), known("") })), `
			drift rdma_port.firmware 0000:14:00.0 (/sys)
			unknown rdma_port.firmware 0000:24:00.0 (/sys)
			ok rdma_port.rate nics ()
			ok rdma_port.state 0000:14:00.0 (/sys)
			ok rdma_port.state 0000:24:00.0 (/sys)
		`, "wanted is 28.41.0 or newer", `"" is no version`),
		judge("the live one of several ports is not the first", `check "rdma_port" "all" { nics = [{ address = "0000:24:00.0", port = 3 }] }`, rails(second(func(r *rail) {
			r.netdev.Port = 3
			r.device.Ports = []node.RDMADevicePort{{Port: 1}, {Port: 3, Netdev: "eth2"}}
		})).With(
			node.RDMAPort.Answer("mlx5_2/1", known(node.RDMAPortState{LinkLayer: "Ethernet", State: known("DOWN"), PhysState: known("Disabled")})),
			node.Link.Answer("0000:24:00.0/3", known(node.LinkState{Speed: known(400_000)})),
		), `
			ok rdma_port.state 0000:24:00.0/3 (/sys)
		`),
		judge("no RDMA device", all, rails(both(func(r *rail) { r.device = node.RDMADevice{} })), `
			drift rdma_port.state 0000:14:00.0 (/sys/bus/pci/devices/0000:14:00.0)
			drift rdma_port.state 0000:24:00.0 (/sys/bus/pci/devices/0000:24:00.0)
		`, "NIC 0000:14:00.0 has no RDMA device"),
		judge("unread", wanted, rails(func(i int, r *rail) {
			if i == 1 {
				r.unread[node.RDMAPort.Name()] = true
				return
			}
			r.port = node.RDMAPortState{LinkLayer: "Ethernet", State: denied[string](), Firmware: denied[string]()}
			r.unread[node.Link.Name()] = true
		}), `
			ok rdma_port.count nics (/sys)
			unknown rdma_port.firmware 0000:24:00.0 (/sys)
			ok rdma_port.link_layer 0000:24:00.0 (/sys)
			unknown rdma_port.rate 0000:14:00.0 ()
			unknown rdma_port.rate 0000:24:00.0 (/sys)
			unknown rdma_port.state 0000:14:00.0 ()
			unknown rdma_port.state 0000:24:00.0 (/sys)
		`, "the RDMA port of mlx5_1/1 (0000:14:00.0) is unknown: not recorded"),
	})
}

// Text says of a port less than a node: its state alone, or whether its network device has a link.
func TestRDMAPortOfText(t *testing.T) {
	told := func(edit func(*rail)) node.Facts {
		f := rails(second(func(r *rail) {
			r.port, r.link = node.RDMAPortState{}, node.LinkState{Netdev: r.link.Netdev}
			edit(r)
		}))
		inv := f.Inventory
		inv.Given = node.Known([]string{"ports"}, node.Source{})
		return f.WithInventory(inv)
	}
	blocks := `check "rdma_port" "given" {
		severity = "warn"
		nics     = [{ address = "0000:24:00.0" }]
		rate     = 1
	}`
	const state = "rdma_port.state 0000:24:00.0 (/sys)\n"
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("a link", blocks, told(func(r *rail) { r.link.Carrier = known(true) }), "ok warn "+state, "eth2 of mlx5_2/1 (0000:24:00.0) has a link"),
		judge("no link", blocks, told(func(r *rail) { r.link.Carrier = known(false) }), "drift warn "+state, "eth2 of mlx5_2/1 (0000:24:00.0) has no link, or is down\nbring eth2 up"),
		judge("no link of IPoIB", blocks, told(func(r *rail) {
			r.link.Carrier, r.netdev.Name, r.device.Ports[0].Netdev = known(false), "ib0", "ib0"
		}), "drift warn "+state, "ib0 of mlx5_2/1 (0000:24:00.0) has no link, or is down; that is IPoIB's"),
		judge("a state", blocks, told(func(r *rail) { r.port.State, r.link.Carrier = known("ACTIVE"), known(false) }), "ok warn "+state, "is ACTIVE"),
		judge("a state that is down", blocks, told(func(r *rail) { r.port.State = known("DOWN") }), "drift warn "+state, "is DOWN, wanted is ACTIVE\nlook at the cable"),
		judge("both states, and no rate", blocks, told(func(r *rail) {
			r.port = node.RDMAPortState{LinkLayer: "Ethernet", State: known("ACTIVE"), PhysState: known("LinkUp")}
		}), "ok warn "+state, "is ACTIVE, LinkUp"),
	})
}

// Versions are compared number by number, not as text.
func TestRDMAPortFirmware(t *testing.T) {
	var cases []plantest.Case
	for _, test := range []struct{ have, want, status string }{
		{"28.39.1002", "28.39.1002", "ok"}, {"28.39.1002", "28.39.999", "ok"}, {"28.39.1002", "28.39.10000", "drift"}, {"28.39.1002", "28.4.2000", "ok"},
		{"28.39.1002", "9.99.9999", "drift"}, {"28.9.1002", "28.10.0", "drift"}, {"100.1.1", "28.39.1002", "drift"}, {"28.39.1002", "28.39", "ok"},
		{"28.39", "28.39.1002", "drift"}, {"28.39.1002", "28.039.01002", "ok"}, {"28.39.1002", "28.39.1003", "drift"},
		{"229.0.139.0/pkg 229.1.123.0", "229.0.0", "unknown"}, {"28.-1.0", "28", "unknown"}, {"99999999999999999999.1", "28", "unknown"},
	} {
		facts := rails(both(func(r *rail) { r.port.Firmware = known(test.have) }))
		cases = append(cases, judge(test.have+" and "+test.want, `check "rdma_port" "all" {
			nics     = [{ address = "0000:14:00.0" }]
			firmware = "`+test.want+`"
		}`, facts, test.status+" rdma_port.firmware 0000:14:00.0 (/sys)\nok rdma_port.state 0000:14:00.0 (/sys)\n"))
	}
	plantest.Run(t, checks.All(), cases)
	for version, problems := range map[string]int{"28.39.1002": 0, "28": 0, "": 1, "28.": 1, "28..1": 1, "v28": 1, "28.39-1": 1} {
		for _, attribute := range []string{`firmware = "` + version + `"`, `board_firmware = { MT_1 = "` + version + `" }`} {
			blocks := plantest.Blocks(t, checks.All(), `check "rdma_port" "all" { `+attribute+` }`)
			if got := (checks.RDMAPort{}).Validate(blocks[0]); len(got) != problems {
				t.Errorf("%s: %+v", attribute, got)
			}
		}
	}
}
