package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/plantest"
)

// What check "rails" says of rails that are alike.
const (
	alikeModel = "ok warn rails.model nics (/sys/bus/pci/devices/0000:14:00.0)\n"
	alikeSlot  = "ok warn rails.slot nics (/sys)\n"
)

func TestRails(t *testing.T) {
	const (
		all   = `check "rails" "all" {}`
		one   = `check "rails" "all" { nics = [{ address = "0000:14:00.0" }] }`
		first = "ok rails.gpu 0000:13:00.0 (/sys)\n"
		gpus  = first + "ok rails.gpu 0000:23:00.0 (/sys)\n"
		lost  = first + "drift rails.gpu 0000:23:00.0 (/sys)\n"
		hca   = "ok rails.hca NCCL_IB_HCA (/etc/nccl.conf)\n"
		rdma1 = "ok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\n"
		nics  = rdma1 + "ok rails.rdma 0000:24:00.0 (/sys/class/infiniband/mlx5_2)\n"
		told  = "(/etc/nccl.conf:1)\n"
	)
	inventory := func(f node.Facts, edit func(inv *node.Inventory)) node.Facts {
		inv := f.Inventory
		edit(&inv)
		return f.WithInventory(inv)
	}
	moved := second(func(r *rail) { // the NIC sits on a root port of its own
		r.pci[5].Parent = ""
	})
	guarded := inventory(rails(), func(inv *node.Inventory) {
		inv.Protected = known([]node.ProtectedNetdev{{Name: "eth2", Reason: "carries the default route"}})
	})
	taken := func(hcas string) node.Facts { return rails().With(ncclConf("NCCL_IB_HCA=" + hcas + "\n")) }
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", all, rails(), gpus+hca+alikeModel+nics+alikeSlot, "GPU 0000:13:00.0 has NIC 0000:14:00.0 at PIX"),
		judge("a rail is in another slot", all, rails(moved), lost+hca+rdma1, "GPU 0000:23:00.0 has no NIC at PXB or nearer; the nearest is 0000:14:00.0 at NODE"),
		judge("a GPU whose NIC is not listed", one, rails(), lost+hca+rdma1, "GPU 0000:23:00.0 has no NIC of those that are meant: 0000:24:00.0 (15b3:1021) is there, at PIX, and not among them"),
		judge("a GPU whose NIC is protected", all, guarded, lost+hca+rdma1, "GPU 0000:23:00.0 has no NIC of its own: 0000:24:00.0 (15b3:1021) is there, at PIX, and protected"),
		judge("no NIC is near any GPU", all, rails(both(func(r *rail) { r.pci[5].Parent = "" })), "drift rails.nics nics (/sys)\n", "there is no NIC to judge; of those that are not protected 0000:14:00.0 is nearest to a GPU, NODE from 0000:13:00.0"),
		judge("none is meant", `check "rails" "all" { nics = [] }`, rails(moved),
			"drift rails.gpu 0000:13:00.0 (/sys)\ndrift rails.gpu 0000:23:00.0 (/sys)\ndrift rails.nics nics (/sys)\n", "the nearest of the node is 0000:14:00.0 at NODE"),
		judge("no RDMA device", all, rails(second(func(r *rail) { r.device = node.RDMADevice{} })),
			gpus+hca+alikeModel+rdma1+"drift rails.rdma 0000:24:00.0 (/sys/bus/pci/devices/0000:24:00.0)\n"+alikeSlot, "load the driver's RDMA module"),
		judge("RDMA devices unread", all, inventory(rails(), func(inv *node.Inventory) { inv.RDMA = denied[[]node.RDMADevice]() }),
			gpus+alikeModel+"unknown rails.rdma 0000:14:00.0 (/sys)\nunknown rails.rdma 0000:24:00.0 (/sys)\n"+alikeSlot),
		judge("no GPU", one, rails(both(func(r *rail) { r.pci[4].Vendor = "8086" })), "drift rails.gpu gpus (/sys)\n"+hca+rdma1),
		judge("how near is unknown", one, virtual(rails()), "unknown rails.gpu 0000:13:00.0 ()\nunknown rails.gpu 0000:23:00.0 ()\n"+hca+rdma1, "a virtual machine (kvm)"),
		judge("firmware does not say how far", all, rails(moved, both(func(r *rail) { r.pci[4].NUMANode, r.pci[5].NUMANode = -1, -1 })),
			first+"unknown rails.gpu 0000:23:00.0 (/sys/bus/pci/devices/0000:23:00.0/numa_node)\n"+hca+rdma1),

		judge("a rail is down", all, rails(second(func(r *rail) { r.port.State, r.port.PhysState = known("DOWN"), known("Polling") })),
			gpus+hca+alikeModel+"drift rails.port 0000:24:00.0 (/sys)\n"+nics+alikeSlot, "mlx5_2/1 (0000:24:00.0) carries nothing: DOWN"),
		judge("a rail on InfiniBand, whose IPoIB is down", all, rails(second(func(r *rail) { r.port.LinkLayer, r.link.Up = "InfiniBand", known(false) })), gpus+hca+alikeModel+nics+alikeSlot),
		judge("a rail that no subnet manager has found", all, rails(second(func(r *rail) { r.port.LinkLayer, r.port.State = "InfiniBand", known("INIT") })),
			gpus+hca+alikeModel+"drift rails.port 0000:24:00.0 (/sys)\n"+nics+alikeSlot, "carries nothing: INIT\nstart a subnet manager"),

		judge("another model", all, rails(second(func(r *rail) { r.pci[5].Device = "101d" })),
			gpus+hca+"drift warn rails.model nics (/sys/bus/pci/devices/0000:24:00.0)\n"+nics+alikeSlot, "the PCI id differs: 15b3:101d on mlx5_2/1 (0000:24:00.0), 15b3:1021 on the other rails"),
		judge("a worse slot", all, rails(second(func(r *rail) { r.slot = pciregs.Link{SpeedGTs: 16, Width: 8} })),
			gpus+hca+alikeModel+nics+"drift warn rails.slot nics (/sys)\n", "the best that the PCIe link can do differs: 16GT/s x8 on mlx5_2/1 (0000:24:00.0), 32GT/s x16 on the other rails"),
		judge("slots unread", all, rails(second(func(r *rail) { r.unread["pci_link"] = true })), gpus+hca+alikeModel+nics+"unknown warn rails.slot 0000:24:00.0 ()\n"),

		judge("NCCL takes the rails", all, taken("=mlx5_1,mlx5_2:1"), gpus+"ok rails.hca NCCL_IB_HCA "+told+alikeModel+nics+alikeSlot),
		judge("NCCL leaves a rail out", all, taken("^=mlx5_2"), gpus+"drift rails.hca NCCL_IB_HCA "+told+alikeModel+nics+alikeSlot,
			"NCCL_IB_HCA leaves out mlx5_2/1 (0000:24:00.0)", `set NCCL_IB_HCA to "=mlx5_1,mlx5_2" (block nccl)`),
		judge("NCCL is told of ports and devices that do not exist", all, taken("=mlx5_1,mlx5_2:2,mlx5_99"), gpus+"drift rails.hca NCCL_IB_HCA "+told+"drift rails.hca_missing NCCL_IB_HCA "+told+alikeModel+nics+alikeSlot,
			"NCCL_IB_HCA names what this node does not have: mlx5_2:2, mlx5_99"),
		judge("what NCCL may leave out need not exist", all, taken("^mlx5_99"), gpus+"ok rails.hca NCCL_IB_HCA "+told+alikeModel+nics+alikeSlot),
		judge("NCCL takes a protected NIC", all, guarded.With(ncclConf("NCCL_IB_HCA=mlx5\n")), lost+"ok rails.hca NCCL_IB_HCA "+told+"drift warn rails.hca_other NCCL_IB_HCA "+told+rdma1, "NCCL_IB_HCA takes what is no rail: mlx5_2/1 (protected)"),
		judge("NCCL takes a NIC near no GPU", all, rails(moved).With(ncclConf("NCCL_IB_HCA=mlx5\n")), lost+"ok rails.hca NCCL_IB_HCA "+told+"drift warn rails.hca_other NCCL_IB_HCA "+told+rdma1, "mlx5_2/1 (near no GPU on the bus)"),
		judge("NCCL takes another NIC", one, rails().With(ncclConf("NCCL_IB_HCA=mlx5\n")), lost+"ok rails.hca NCCL_IB_HCA "+told+"drift warn rails.hca_other NCCL_IB_HCA "+told+rdma1, "mlx5_2/1 (not among the rails)"),
		judge("NCCL's file is unread", one, rails().With(node.File.Answer("/etc/nccl.conf", denied[node.FileState]())), lost+"unknown rails.hca NCCL_IB_HCA (/sys)\n"+rdma1),
	})
}
