package stock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
	"busbar/profiles"
)

// withoutIPoIB is hgx-h100 with its rails on InfiniBand, as nodes are that have no use for IPoIB: RDMA devices without a
// network device.
func withoutIPoIB(t *testing.T) node.Facts {
	f := recorded(t, "hgx-h100")
	rails, _ := f.Inventory.Rails().Get()
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	netdevs, _ := inv.Netdevs.Get()
	devices, _ := inv.RDMA.Get()
	functions, netdevs, devices = slices.Clone(functions), slices.Clone(netdevs), slices.Clone(devices)
	for i, rail := range rails {
		of := func(address string) bool { return address == rail.Address }
		functions[slices.IndexFunc(functions, func(p node.PCIFunction) bool { return of(p.Address) })].Class = "020700"
		netdevs = slices.DeleteFunc(netdevs, func(d node.Netdev) bool { return of(d.PCI) })
		d := &devices[slices.IndexFunc(devices, func(d node.RDMADevice) bool { return of(d.PCI) })]
		d.Ports = []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", node.Source{})}}
		f = change(f, node.RDMAPort, d.Name+"/1", func(s *node.RDMAPortState) {
			s.LinkLayer = "InfiniBand"
			s.LID, s.SMLID = node.Known(100+i, s.LID.Source()), node.Known(1, s.SMLID.Source())
			s.GIDs = node.Known([]node.GID{{GID: fmt.Sprintf("fe80:0000:0000:0000:58a2:e103:000c:%04x", i), Type: node.GIDRoCEv1}}, s.GIDs.Source())
		})
		f = f.With(node.Link.Answer(rail.String(), node.Unknown[node.LinkState]("driver mlx5_core has made no network device for port 1 of the NIC", node.Source{Path: "/sys/bus/pci/devices/" + rail.Address})))
	}
	inv.PCI, inv.Netdevs, inv.RDMA = node.Known(functions, inv.PCI.Source()), node.Known(netdevs, inv.Netdevs.Source()), node.Known(devices, inv.RDMA.Source())
	return f.WithInventory(inv)
}

// TestInfiniBandWithoutIPoIB: rails are known without network devices, judged, and what a site computes of them comes out.
func TestInfiniBandWithoutIPoIB(t *testing.T) {
	f := withoutIPoIB(t)
	var all []*profiles.Profile
	for _, name := range loader().Names() {
		all = append(all, load(t, name))
	}
	if name, err := profiles.Choose(all, f.Inventory); name != "hgx-h100-ib" || err != nil {
		t.Fatalf("chose %q, %v", name, err)
	}
	site := loader()
	site.Dirs = append(site.Dirs, profiles.Dir{Path: "site", FS: fstest.MapFS{"site.hcl": {Data: []byte(`
profile {
  description = "A site's InfiniBand nodes"
  extends     = ["hgx-h100-ib"]
}

selector "rails" {
  nics   = node.rails
  expect = 8
}

nccl {
  settings = { NCCL_IB_HCA = "=${join(",", selector.rails[*].rdma)}" }
}
`)}}})
	p, diags := site.Load("site")
	if len(diags) > 0 {
		t.Fatalf("%s: %s", diags[0].Summary, diags[0].Detail)
	}
	judge := func(f node.Facts) (exit int, ok map[string]int, not []string) {
		got := planOver(t, p, f)
		ok = map[string]int{}
		for _, f := range got.Findings {
			switch f.Status {
			case plan.OK:
				ok[f.ID]++
			case plan.Skipped:
			default:
				not = append(not, fmt.Sprintf("%s %s %s", f.Status, f.ID, f.Target))
			}
		}
		return got.ExitCode(), ok, not
	}
	exit, ok, not := judge(f)
	if exit != plan.ExitOK || len(not) > 0 {
		t.Errorf("exit code %d: %q", exit, not)
	}
	for id, want := range map[string]int{"infiniband.state": 8, "infiniband.lid": 8, "infiniband.subnet_manager": 8, "infiniband.width": 8, "infiniband.rate": 8, "pcie_device.max_read_request": 8, "nccl.setting": 1} {
		if ok[id] != want {
			t.Errorf("%d %s are ok, want %d of %v", ok[id], id, want, ok)
		}
	}
	// The list is computed of them: another one drifts, and so does a port that no subnet manager has found.
	drifted := f.With(node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: "NCCL_IB_HCA==mlx5_0\n"}, node.Source{Path: sink.NCCLPath})))
	drifted = change(drifted, node.RDMAPort, "mlx5_3/1", func(s *node.RDMAPortState) {
		s.State, s.LID, s.SMLID = node.Known("INIT", s.State.Source()), node.Known(0, s.LID.Source()), node.Known(0, s.SMLID.Source())
	})
	exit, _, not = judge(drifted)
	for _, want := range []string{"drift infiniband.state 0000:3c:00.0", "drift infiniband.lid 0000:3c:00.0", "drift infiniband.subnet_manager 0000:3c:00.0"} {
		if exit != plan.ExitDrift || !slices.Contains(not, want) {
			t.Errorf("exit code %d, %q lacks %q", exit, not, want)
		}
	}
	if !slices.ContainsFunc(planOver(t, p, drifted).Findings, func(f plan.Finding) bool {
		return f.ID == "nccl.setting" && f.Status == plan.Drift && strings.Contains(f.Want, "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9")
	}) {
		t.Errorf("NCCL_IB_HCA is not judged: %q", not)
	}
	converges(t, p, drifted)

	// A rail without a driver is named, and the others are judged.
	inv := f.Inventory
	functions, _ := inv.PCI.Get()
	functions = slices.Clone(functions)
	functions[slices.IndexFunc(functions, func(p node.PCIFunction) bool { return p.Address == "0000:3c:00.0" })].Driver = ""
	inv.PCI = node.Known(functions, inv.PCI.Source())
	devices, _ := inv.RDMA.Get()
	inv.RDMA = node.Known(slices.DeleteFunc(slices.Clone(devices), func(d node.RDMADevice) bool { return d.PCI == "0000:3c:00.0" }), inv.RDMA.Source())
	exit, ok, not = judge(f.WithInventory(inv))
	if exit != plan.ExitDrift || ok["infiniband.state"] != 7 || !slices.Contains(not, "drift infiniband.driver 0000:3c:00.0") {
		t.Errorf("exit code %d, %d rails, %q", exit, ok["infiniband.state"], not)
	}

	// A rail that carries the disks is none of the eight.
	inv = f.Inventory
	guarded, _ := inv.Protected.Get()
	inv.Protected = node.Known(append(slices.Clone(guarded), node.ProtectedNetdev{NIC: "0000:1a:00.0", Reason: "carries SCSI disks (SRP)"}), inv.Protected.Source())
	if exit, ok, _ := judge(f.WithInventory(inv)); exit != plan.ExitDrift || ok["infiniband.state"] != 7 {
		t.Errorf("exit code %d, %d rails", exit, ok["infiniband.state"])
	}
}
