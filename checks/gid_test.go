package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

// ncclConf is /etc/nccl.conf.
func ncclConf(text string) node.Answer {
	return node.File.Answer("/etc/nccl.conf", node.Known(node.FileState{Exists: true, Text: text}, node.Source{Path: "/etc/nccl.conf"}))
}

func TestGID(t *testing.T) {
	all := `check "gid" "all" {}`
	const (
		unpinned = "ok gid.index NCCL_IB_GID_INDEX (/etc/nccl.conf)\n"
		first    = "ok gid.routable 0000:14:00.0 (/sys)\n"
		current  = "ok gid.stale 0000:14:00.0 (/sys)\n"
		fine     = "ok gid.routable 0000:24:00.0 (/sys)\n"
		apart    = "ok gid.unique nics (/sys)\n"
		fresh    = "ok gid.stale 0000:24:00.0 (/sys)\n" + apart
		routable = "2001:0db8:0000:0000:0000:0000:0000:0007"
	)
	gids := func(list ...node.GID) func(int, *rail) {
		return second(func(r *rail) { r.port.GIDs = known(list) })
	}
	linkLocal := gids(v1(0, gidMAC(2), "eth2"), v2(1, gidMAC(2), "eth2"))
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", all, rails(), unpinned+first+fine+current+fresh, "mlx5_1/1 (0000:14:00.0) has a routable RoCE v2 GID, index 3: RoCE v2 198.18.1.17 eth1"),
		judge("two rails have one address", all, rails(gids(v1(2, gid4(1, 17), "eth2"), v2(3, gid4(1, 17), "eth2")), second(func(r *rail) { r.netdev.Addresses = []string{"198.18.1.17/24"} })),
			unpinned+first+fine+current+"ok gid.stale 0000:24:00.0 (/sys)\ndrift gid.unique nics (/sys)\n", "two ports have one address: 198.18.1.17 of mlx5_1/1 (0000:14:00.0) and mlx5_2/1 (0000:24:00.0)"),
		judge("link-local GIDs alone: the network device has no address", all, rails(linkLocal, second(func(r *rail) { r.netdev.Addresses = nil })),
			unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current+fresh, "has no routable RoCE v2 GID\ngive eth2 the rail's address"),
		judge("link-local GIDs alone: the driver missed the address", all, rails(linkLocal),
			unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current+fresh, "although eth2 has address 198.18.2.17"),
		judge("all IPv6, none routable", all, rails(gids(v2(0, gidMAC(2), "eth2"), v2(1, "fe80:0000:0000:0000:0000:00ff:fe00:0002", "eth2"))),
			unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current+fresh),
		judge("RoCE v1 alone", all, rails(gids(v1(0, gidMAC(2), "eth2"), v1(1, gid4(2, 17), "eth2"))),
			unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current+fresh, "offers RoCE v1 alone"),
		judge("an empty table", all, rails(gids()), unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current+fresh, "has no GID at all"),
		judge("GID of an old MAC", all, rails(gids(v2(0, "fe80:0000:0000:0000:0000:00ff:fe00:0099", "eth2"), v2(1, gidMAC(2), "eth2"), v2(2, gid4(2, 17), "eth2"))),
			unpinned+first+fine+current+"drift gid.stale 0000:24:00.0 (/sys)\n"+apart, "index 0: RoCE v2 fe80::ff:fe00:99 eth2"),
		judge("GID of an address that was changed", all, rails(second(func(r *rail) { r.netdev.Addresses = []string{"198.18.2.18/24"} })),
			unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current+"drift gid.stale 0000:24:00.0 (/sys)\n"+apart, "although eth2 has address 198.18.2.18", "gone: index 2: IB/RoCE v1 198.18.2.17 eth2, index 3"),
		judge("IPv6, of a VLAN, and a default GID with the port's number", all, vlan(rails(second(func(r *rail) { r.netdev.Addresses = nil }), gids(
			v2(0, "fe80:0000:0000:0000:0200:0000:0100:0002", "eth2"), v2(1, gidMAC(2), "eth2.7"), v2(2, routable, "eth2.7"),
		))), "drift warn gid.address_family 0000:24:00.0 (/etc/nccl.conf)\n"+unpinned+first+fine+current+fresh, "index 2: RoCE v2 2001:db8::7 eth2.7",
			"NCCL looks for a right GID of an IPv4 address, and mlx5_2/1 (0000:24:00.0) has none: right is index 2: RoCE v2 2001:db8::7 eth2.7\nset NCCL_IB_ADDR_FAMILY=AF_INET6"),
		judge("NCCL is told of IPv6, which one rail has", all, vlan(rails(gids(v2(0, gidMAC(2), "eth2"), v2(2, routable, "eth2.7")))).With(ncclConf("NCCL_IB_ADDR_FAMILY=AF_INET6\n")),
			"drift warn gid.address_family 0000:14:00.0 (/etc/nccl.conf:1)\nok warn gid.address_family 0000:24:00.0 (/etc/nccl.conf:1)\nok gid.index NCCL_IB_GID_INDEX (/etc/nccl.conf)\n"+first+fine+current+fresh,
			"take NCCL_IB_ADDR_FAMILY out, or give eth1 an IPv6 address"),
		judge("IPv6 alone, whose index is pinned", all, vlan(rails(gids(v2(0, gidMAC(2), "eth2"), v2(3, routable, "eth2.7")))).With(ncclConf("NCCL_IB_GID_INDEX=3\n")),
			"ok gid.index 0000:14:00.0 (/etc/nccl.conf:1)\nok gid.index 0000:24:00.0 (/etc/nccl.conf:1)\n"+first+fine+current+fresh),
		judge("InfiniBand", all, rails(second(func(r *rail) { r.port.LinkLayer = "InfiniBand" })), unpinned+first+"drift gid.routable 0000:24:00.0 (/sys)\n"+current, "is InfiniBand, Ethernet is wanted"),
		judge("a pinned index that is right everywhere", all, rails().With(ncclConf("A=1\nNCCL_IB_GID_INDEX=3\n")),
			"ok gid.index 0000:14:00.0 (/etc/nccl.conf:2)\nok gid.index 0000:24:00.0 (/etc/nccl.conf:2)\n"+first+fine+current+fresh),
		judge("the pinned index is link-local", all, rails().With(ncclConf("NCCL_IB_GID_INDEX=1\n")),
			"drift gid.index 0000:14:00.0 (/etc/nccl.conf:1)\ndrift gid.index 0000:24:00.0 (/etc/nccl.conf:1)\n"+first+fine+current+fresh,
			"GID index 1 is pinned, and on mlx5_1/1 (0000:14:00.0) that is RoCE v2 fe80::ff:fe00:1 eth1\ntake NCCL_IB_GID_INDEX out: from 2.21 on NCCL finds the right index itself; right is index 3"),
		judge("a pinned index in a sparse table, after a flap", all, rails(gids(v1(4, gid4(2, 17), "eth2"), v2(5, gid4(2, 17), "eth2"))).With(ncclConf("NCCL_IB_GID_INDEX=3\n")),
			"ok gid.index 0000:14:00.0 (/etc/nccl.conf:1)\ndrift gid.index 0000:24:00.0 (/etc/nccl.conf:1)\n"+first+fine+current+fresh, "that is an empty slot", "right is index 5"),
		judge("quotes make 0 of the pinned index", all, rails().With(ncclConf("NCCL_IB_GID_INDEX=\"3\"\n")),
			"drift gid.index 0000:14:00.0 (/etc/nccl.conf:1)\ndrift gid.index 0000:24:00.0 (/etc/nccl.conf:1)\n"+first+fine+current+fresh, "GID index 0 is pinned"),
		judge("not pinned after all", all, rails().With(ncclConf("NCCL_IB_GID_INDEX=-1\n")), "ok gid.index NCCL_IB_GID_INDEX (/etc/nccl.conf:1)\n"+first+fine+current+fresh),
		judge("set to nothing", all, rails().With(ncclConf("NCCL_IB_GID_INDEX=\n")), "ok gid.index NCCL_IB_GID_INDEX (/etc/nccl.conf:1)\n"+first+fine+current+fresh),
		judge("pinned in the profile", `check "gid" "all" {
			index = 2
		}`, rails(), "drift gid.index 0000:14:00.0 (node.hcl:2)\ndrift gid.index 0000:24:00.0 (node.hcl:2)\n"+first+fine+current+fresh),
		judge("unread", all, rails(func(i int, r *rail) {
			if i == 1 {
				r.link.MAC = node.Value[string]{}
				r.netdev.Addresses = r.netdev.Addresses[:1]
				return
			}
			r.port.GIDs = denied[[]node.GID]()
		}).With(node.File.Answer("/etc/nccl.conf", denied[node.FileState]())),
			"unknown gid.index NCCL_IB_GID_INDEX (/sys)\n"+first+"unknown gid.routable 0000:24:00.0 (/sys)\nunknown gid.stale 0000:14:00.0 ()\n", "the MAC that GIDs are held against of mlx5_1/1 (0000:14:00.0) is unknown: not recorded"),
		judge("a rail is switched off", all, rails(gids(), second(func(r *rail) { r.link.Up, r.link.Carrier = known(false), denied[bool]() })),
			unpinned+"drift gid.port 0000:24:00.0 (/sys)\n"+first+current+fresh, "mlx5_2/1 (0000:24:00.0) carries nothing: down\nbring eth2 up"),
		judge("a rail without a link", all, rails(second(func(r *rail) { r.link.Carrier = known(false) })), unpinned+"drift gid.port 0000:24:00.0 (/sys)\n"+first+fine+current+fresh, "carries nothing: no link\nlook at the cable"),
		judge("whether a rail has a link is unread", all, rails(second(func(r *rail) { r.link.Carrier = denied[bool]() })), unpinned+first+fine+current+fresh),
		judge("the pinned index of a rail that is down is not judged", all, rails(gids(), second(func(r *rail) { r.port.State = known("DOWN") })).With(ncclConf("NCCL_IB_GID_INDEX=3\n")),
			"ok gid.index 0000:14:00.0 (/etc/nccl.conf:1)\ndrift gid.port 0000:24:00.0 (/sys)\n"+first+current+fresh),
		judge("nothing asked", all, rails(both(func(r *rail) { r.unread[node.RDMAPort.Name()] = true })),
			unpinned+"unknown gid.routable 0000:14:00.0 ()\nunknown gid.routable 0000:24:00.0 ()\n"),
	})
}

// vlan adds VLAN 7 on eth2.
func vlan(f node.Facts) node.Facts {
	inv := f.Inventory
	netdevs, _ := inv.Netdevs.Get()
	inv.Netdevs = known(append(netdevs, node.Netdev{Name: "eth2.7", Type: node.ARPHardwareEthernet, Lower: []string{"eth2"}, Up: true, Addresses: []string{"2001:db8::7/64"}}))
	return f.WithInventory(inv)
}
