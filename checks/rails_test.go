package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestRails(t *testing.T) {
	all := `check "rails" "all" {}`
	const (
		gpus = "ok rails.gpu 0000:13:00.0 (/sys)\nok rails.gpu 0000:23:00.0 (/sys)\n"
		nics = "ok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\nok rails.rdma 0000:24:00.0 (/sys/class/infiniband/mlx5_2)\n"
	)
	inventory := func(f node.Facts, edit func(inv *node.Inventory)) node.Facts {
		inv := f.Inventory
		edit(&inv)
		return f.WithInventory(inv)
	}
	moved := second(func(r *rail) { // the NIC sits on a root port of its own
		r.pci[5].Parent = ""
	})
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", all, rails(), gpus+nics, "GPU 0000:13:00.0 has NIC 0000:14:00.0 at PIX"),
		judge("a rail is in another slot", all, rails(moved),
			"ok rails.gpu 0000:13:00.0 (/sys)\ndrift rails.gpu 0000:23:00.0 (/sys)\nok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\n",
			"GPU 0000:23:00.0 has no NIC at PXB or nearer; the nearest is 0000:14:00.0 at NODE"),
		judge("a GPU whose NIC is not listed", `check "rails" "all" { nics = [{ address = "0000:14:00.0" }] }`, rails(),
			"ok rails.gpu 0000:13:00.0 (/sys)\ndrift rails.gpu 0000:23:00.0 (/sys)\nok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\n"),
		judge("no RDMA device", all, rails(second(func(r *rail) { r.device = node.RDMADevice{} })),
			gpus+"ok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\ndrift rails.rdma 0000:24:00.0 (/sys/bus/pci/devices/0000:24:00.0)\n", "load the driver's RDMA module"),
		judge("RDMA devices unread", all, inventory(rails(), func(inv *node.Inventory) { inv.RDMA = denied[[]node.RDMADevice]() }),
			gpus+"unknown rails.rdma 0000:14:00.0 (/sys)\nunknown rails.rdma 0000:24:00.0 (/sys)\n"),
		judge("no GPU", `check "rails" "all" { nics = [{ address = "0000:14:00.0" }] }`, rails(both(func(r *rail) { r.pci[4].Vendor = "8086" })),
			"drift rails.gpu gpus (/sys)\nok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\n"),
		judge("how near is unknown", `check "rails" "all" { nics = [{ address = "0000:14:00.0" }] }`, virtual(rails()),
			"unknown rails.gpu 0000:13:00.0 ()\nunknown rails.gpu 0000:23:00.0 ()\nok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\n", "a virtual machine (kvm)"),
		judge("firmware does not say how far", all, rails(moved, both(func(r *rail) { r.pci[4].NUMANode, r.pci[5].NUMANode = -1, -1 })),
			"ok rails.gpu 0000:13:00.0 (/sys)\nunknown rails.gpu 0000:23:00.0 (/sys/bus/pci/devices/0000:23:00.0/numa_node)\nok rails.rdma 0000:14:00.0 (/sys/class/infiniband/mlx5_1)\n"),
	})
}
