package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestInfiniBand(t *testing.T) {
	all := `check "infiniband" "all" {}`
	ib := both(func(r *rail) {
		r.port.LinkLayer, r.port.Rate, r.port.LID, r.port.SMLID = "InfiniBand", known("400 Gb/sec (4X NDR)"), known(7), known(1)
		r.port.GIDs = known([]node.GID{v1(0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "")})
	})
	first := `
		ok infiniband.lid 0000:14:00.0 (/sys)
		LID
		RATE
		ok infiniband.state 0000:14:00.0 (/sys)
		STATE
		ok infiniband.subnet_manager 0000:14:00.0 (/sys)
		MANAGER
		ok infiniband.width 0000:14:00.0 (/sys)
		WIDTH
	`
	row := func(status, id string) string { return status + " infiniband." + id + " 0000:24:00.0 (/sys)" }
	table := func(lid, rate, state, manager, width string) string {
		return fill(first, "LID", row(lid, "lid"), "RATE", rate, "STATE", row(state, "state"), "MANAGER", row(manager, "subnet_manager"), "WIDTH", row(width, "width"))
	}
	const differ, unsaid = "drift infiniband.rate nics ()", "unknown infiniband.rate nics (/sys)"
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", `check "infiniband" "all" { rate = 400 }`, rails(ib), table("ok", "ok infiniband.rate 0000:14:00.0 (/sys)\nok infiniband.rate 0000:24:00.0 (/sys)", "ok", "ok", "ok"), "mlx5_1/1 (0000:14:00.0) has LID of a subnet manager 1"),
		judge("no subnet manager", all, rails(ib, second(func(r *rail) { r.port.State, r.port.LID, r.port.SMLID = known("INIT"), known(0), known(0) })),
			table("drift", "", "drift", "drift", "ok"), "mlx5_2/1 (0000:24:00.0) is INIT, LinkUp, wanted is ACTIVE, LinkUp\nstart a subnet manager in the fabric (opensm"),
		judge("lost lanes, half the rate", all, rails(ib, second(func(r *rail) { r.port.Rate = known("200 Gb/sec (2X NDR)") })),
			table("ok", differ, "ok", "ok", "drift"), "has 2 lanes, wanted is 4X or more"),
		judge("down", all, rails(ib, second(func(r *rail) { r.port.State, r.port.PhysState = known("DOWN"), known("Disabled") })),
			table("ok", "", "drift", "ok", "ok"), "the port is switched off: here or at the switch"),
		judge("down since it came up", all, rails(ib, second(func(r *rail) {
			r.port.State, r.port.PhysState, r.port.LID, r.port.SMLID = known("DOWN"), known("Polling"), known(0), known(0)
		})), table("skipped", "", "drift", "skipped", "ok"), "mlx5_2/1 (0000:24:00.0) has no LID, and no link (Polling)"),
		judge("lost lanes at a speed that the kernel does not know", all, rails(ib, second(func(r *rail) { r.port.Rate = known("2.5 Gb/sec (1X SDR)") })),
			table("ok", unsaid, "ok", "ok", "drift")),
		judge("junk", all, rails(ib, second(func(r *rail) { r.port.Rate = known("fast") })), table("ok", unsaid, "ok", "ok", "unknown")),
		judge("Ethernet", all, rails(), `
			drift infiniband.state 0000:14:00.0 (/sys)
			drift infiniband.state 0000:24:00.0 (/sys)
		`, "is Ethernet, InfiniBand is wanted"),
		judge("unread", all, rails(ib, second(func(r *rail) {
			r.port = node.RDMAPortState{LinkLayer: "InfiniBand", State: denied[string](), LID: denied[int](), SMLID: denied[int](), Rate: denied[string]()}
		})), table("unknown", unsaid, "unknown", "unknown", "unknown")),
		judge("nothing asked", all, rails(ib, both(func(r *rail) { r.unread[node.RDMAPort.Name()] = true })), `
			unknown infiniband.rate nics ()
			unknown infiniband.state 0000:14:00.0 ()
			unknown infiniband.state 0000:24:00.0 ()
		`),
	})
}
