package live

import (
	"fmt"
	"testing"

	"busbar/node"
)

// rdmaPortTree is a port of an RDMA device: files below its own directory and below the port's.
func rdmaPortTree(name string, device, port map[string]string) map[string]string {
	m := map[string]string{}
	for k, v := range device {
		m["sys/class/infiniband/"+name+"/"+k] = v
	}
	for k, v := range port {
		m["sys/class/infiniband/"+name+"/ports/1/"+k] = v
	}
	return m
}

func TestRDMAPort(t *testing.T) {
	text := func(s string) node.Value[string] { return node.Known(s, node.Source{}) }
	number := func(n int) node.Value[int] { return node.Known(n, node.Source{}) }
	none := node.Unsupported[string]("the driver shows none", node.Source{})

	// A ConnectX-7 of an H100 node.
	ib := tree(t, rdmaPortTree("mlx5_0", map[string]string{"board_id": "MT_0000000838\n", "fw_ver": "28.41.1000\n", "hca_type": "MT4129\n", "node_guid": "0000:00ff:fe00:0001\n"},
		map[string]string{
			"link_layer": "InfiniBand\n", "phys_state": "5: LinkUp\n", "rate": "400 Gb/sec (4X NDR)\n", "state": "4: ACTIVE\n", "lid": "0x1f\n", "sm_lid": "0x1\n",
			"gids/0": "fe80:0000:0000:0000:0000:00ff:fe00:0001\n", "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000\n", "gid_attrs/types/0": "IB/RoCE v1\n",
		}))
	known(t, ask(t, ib, node.RDMAPort, "mlx5_0/1"), node.RDMAPortState{
		LinkLayer: "InfiniBand", State: text("ACTIVE"), PhysState: text("LinkUp"), Rate: text("400 Gb/sec (4X NDR)"), LID: number(31), SMLID: number(1),
		GIDs:     node.Known([]node.GID{{GID: "fe80:0000:0000:0000:0000:00ff:fe00:0001", Type: node.GIDRoCEv1}}, node.Source{}),
		Firmware: text("28.41.1000"), BoardID: text("MT_0000000838"), HCAType: text("MT4129"), NodeGUID: text("0000:00ff:fe00:0001"),
	})

	// rxe has no board, and its GID table has holes.
	rxe := map[string]string{
		"link_layer": "Ethernet\n", "phys_state": "3: Disabled\n", "rate": "2.5 Gb/sec (1X SDR)\n", "state": "1: DOWN\n", "lid": "0x0\n", "sm_lid": "0x0\n",
	}
	for i := range 12 {
		rxe[fmt.Sprintf("gids/%d", i)] = "0000:0000:0000:0000:0000:0000:0000:0000\n"
	}
	for _, i := range []string{"1", "10"} {
		rxe["gids/"+i], rxe["gid_attrs/types/"+i], rxe["gid_attrs/ndevs/"+i] = "0000:0000:0000:0000:0000:ffff:0a01:0102\n", "RoCE v2\n", "dcbt0\n"
	}
	known(t, ask(t, tree(t, rdmaPortTree("rxe0", map[string]string{"fw_ver": "\n", "node_guid": "941c:9aff:fefe:f174\n"}, rxe)), node.RDMAPort, "rxe0/1"), node.RDMAPortState{
		LinkLayer: "Ethernet", State: text("DOWN"), PhysState: text("Disabled"), Rate: text("2.5 Gb/sec (1X SDR)"), LID: number(0), SMLID: number(0),
		GIDs: node.Known([]node.GID{
			{Index: 1, GID: "0000:0000:0000:0000:0000:ffff:0a01:0102", Type: node.GIDRoCEv2, Netdev: "dcbt0"},
			{Index: 10, GID: "0000:0000:0000:0000:0000:ffff:0a01:0102", Type: node.GIDRoCEv2, Netdev: "dcbt0"},
		}, node.Source{}),
		Firmware: none, BoardID: none, HCAType: none, NodeGUID: text("941c:9aff:fefe:f174"),
	})

	state, _ := ask(t, tree(t, rdmaPortTree("mlx5_0", nil, map[string]string{"link_layer": "Ethernet\n", "state": "ACTIVE\n", "lid": "none\n", "gids/0": "fe80::1\n"})), node.RDMAPort, "mlx5_0/1").Get()
	unknownAs(t, state.State, "is not NUMBER: NAME")
	unknownAs(t, state.LID, "is no number")
	unknownAs(t, state.GIDs, "no such file")
	if p := state.GIDs.Source().Path; p != "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0" {
		t.Error(p)
	}
}
