package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestMTU(t *testing.T) {
	all := `check "mtu" "all" {}`
	mtu := func(bytes int) func(*rail) { return func(r *rail) { r.link.MTU = known(bytes) } }
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted, although the network devices differ", all, rails(second(mtu(4192))), `
			ok mtu.active 0000:14:00.0 (/sys)
			ok mtu.active 0000:24:00.0 (/sys)
			ok mtu.equal nics ()
		`, "mlx5_1/1 (0000:14:00.0) has InfiniBand MTU 4096, of 9000 on eth1"),
		judge("a rail at 1500", all, rails(second(mtu(1500))), `
			ok mtu.active 0000:14:00.0 (/sys)
			drift mtu.active 0000:24:00.0 (/sys)
			drift mtu.equal nics ()
		`, "has InfiniBand MTU 1024, of 1500 on eth2, wanted is 4096 or more\ngive eth2 an MTU of 4192 or more", "InfiniBand MTU differs: 1024 on mlx5_2/1 (0000:24:00.0), 4096 on others"),
		judge("one byte too few, and too few for any", all, rails(func(i int, r *rail) { mtu([]int{0, 4191, 351}[i])(r) }), `
			drift mtu.active 0000:14:00.0 (/sys)
			drift mtu.active 0000:24:00.0 (/sys)
			drift mtu.equal nics ()
		`, "has InfiniBand MTU 2048, of 4191 on eth1", "has InfiniBand MTU 0, of 351 on eth2"),
		judge("enough", `check "mtu" "all" { min = 1024 }`, rails(both(mtu(1500))), `
			ok mtu.active 0000:14:00.0 (/sys)
			ok mtu.active 0000:24:00.0 (/sys)
			ok mtu.equal nics ()
		`),
		judge("InfiniBand", all, rails(second(func(r *rail) { r.port.LinkLayer = "InfiniBand" })), `
			ok mtu.active 0000:14:00.0 (/sys)
			drift mtu.active 0000:24:00.0 (/sys)
		`, "is InfiniBand, Ethernet is wanted"),
		judge("a rail that is down, and will differ", all, rails(second(mtu(1500)), second(func(r *rail) { r.link.Carrier = known(false) })), `
			ok mtu.active 0000:14:00.0 (/sys)
			drift mtu.equal nics ()
			drift mtu.port 0000:24:00.0 (/sys)
		`, "mlx5_2/1 (0000:24:00.0) carries nothing: no link\nlook at the cable"),
		judge("unread", all, rails(func(i int, r *rail) {
			r.link.MTU = denied[int]()
			r.unread[node.RDMAPort.Name()] = i == 2
		}), `
			unknown mtu.active 0000:14:00.0 (/sys)
			unknown mtu.active 0000:24:00.0 ()
			unknown mtu.equal nics (/sys)
		`, "the MTU of mlx5_1/1 (0000:14:00.0) is unknown: permission denied"),
	})
}
