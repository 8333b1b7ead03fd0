package stock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/kernlog"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
)

// replaced has every PCI function of an id be of another one.
func replaced(from, to string) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		inv := f.Inventory
		functions, _ := inv.PCI.Get()
		functions = slices.Clone(functions)
		for i := range functions {
			if functions[i].ID() == from {
				functions[i].Device = strings.TrimPrefix(to, functions[i].Vendor+":")
			}
		}
		inv.PCI = node.Known(functions, inv.PCI.Source())
		return f.WithInventory(inv)
	}
}

// without takes every PCI function of an id away, and its network and RDMA devices with it.
func without(id string) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		inv := f.Inventory
		functions, _ := inv.PCI.Get()
		netdevs, _ := inv.Netdevs.Get()
		devices, _ := inv.RDMA.Get()
		gone := func(address string) bool {
			p, there := f.Inventory.PCIFunction(address)
			return there && p.ID() == id
		}
		inv.PCI = node.Known(slices.DeleteFunc(slices.Clone(functions), func(p node.PCIFunction) bool { return p.ID() == id }), inv.PCI.Source())
		inv.Netdevs = node.Known(slices.DeleteFunc(slices.Clone(netdevs), func(d node.Netdev) bool { return gone(d.PCI) }), inv.Netdevs.Source())
		inv.RDMA = node.Known(slices.DeleteFunc(slices.Clone(devices), func(d node.RDMADevice) bool { return gone(d.PCI) }), inv.RDMA.Source())
		return f.WithInventory(inv)
	}
}

// eachGPU edits what the driver says of all GPUs.
func eachGPU(edit func(*node.GPUState)) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		for _, key := range keys(f, node.GPUInfo.Name()) {
			f = change(f, node.GPUInfo, key, edit)
		}
		return f
	}
}

// active leaves each GPU so many active NVLinks.
func active(n int) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		for _, key := range keys(f, node.NVLinks.Name()) {
			f = change(f, node.NVLinks, key, func(s *node.NVLinkState) { s.Links = slices.Clone(s.Links)[:n] })
		}
		return f
	}
}

func lanes(address string, n int) func(node.Facts) node.Facts {
	return func(f node.Facts) node.Facts {
		return change(f, node.PCILink, address, func(s *node.PCILinkState) {
			now, _ := s.Current.Get()
			s.Current = node.Known(pciregs.Link{SpeedGTs: now.SpeedGTs, Width: n}, s.Current.Source())
		})
	}
}

// TestBoards: boards that are like a recorded one, and what is wrong with some; findings are those that are neither ok, skipped nor a note.
func TestBoards(t *testing.T) {
	const h100, a100, b200, rail = "10de:2330", "10de:20b2", "10de:2901", "15b3:1021"
	eight := func(line string) []string { return slices.Repeat([]string{line}, 8) }
	var stock []*profiles.Profile
	for _, name := range loader().Names() {
		stock = append(stock, load(t, name))
	}
	for _, test := range []struct {
		name, recording string
		fault           func(node.Facts) node.Facts
		profile         string
		want            []string
		exit            int
	}{
		{"H20", "hgx-h100", replaced(h100, "10de:2329"), "hgx-h20-roce", nil, plan.ExitOK},
		{"H20-3e on InfiniBand", "hgx-h200-ib", replaced("10de:2335", "10de:232c"), "hgx-h20-ib", nil, plan.ExitOK},
		{"H20 that lost a link", "hgx-h100", all(replaced(h100, "10de:2329"), active(17)), "hgx-h20-roce", eight("drift error check.nvlink.all nvlink.links"), plan.ExitDrift},
		{"H800", "hgx-h100", all(replaced(h100, "10de:2324"), active(8)), "hgx-h100-roce", nil, plan.ExitOK},
		{"A800", "hgx-a100-nps4", all(replaced(a100, "10de:20f3"), active(8)), "hgx-a100-roce", nil, plan.ExitOK},
		{"B300", "hgx-b200", all(replaced(b200, "10de:3182"), replaced(rail, "15b3:1023")), "hgx-b300-roce", nil, plan.ExitOK},
		{"H100 without rails", "hgx-h100", all(without(rail), ncclConf("")), "hgx", nil, plan.ExitOK},
		{"A100 without rails", "hgx-a100-nps4", all(without("15b3:101b"), ncclConf("")), "hgx-a100", nil, plan.ExitOK},
		{"no rails, and a GPU is gone", "hgx-h100", all(without(rail), ncclConf(""), function("0000:19:00.0", func(p *node.PCIFunction) { p.Class = "ff0000" })), "hgx", []string{"drift error check.gpus.all gpus.count"}, plan.ExitDrift},
		{"no ECC", "hgx-h100", eachGPU(func(s *node.GPUState) {
			s.ECC, s.ECCPending = node.Known(false, s.ECC.Source()), node.Known(false, s.ECC.Source())
		}), "hgx-h100-roce", eight("drift error check.gpus.all gpus.ecc"), plan.ExitDrift},
		{"no persistence", "hgx-h100", eachGPU(func(s *node.GPUState) { s.Persistence = node.Known(false, s.Persistence.Source()) }), "hgx-h100-roce", eight("drift warn check.gpus.all gpus.persistence"), plan.ExitOK},
		{"Xid 79", "hgx-h100", func(f node.Facts) node.Facts {
			return change(f, node.KernelLog, "", func(s *node.KernelLogState) {
				s.Events = []kernlog.Event{{Kind: kernlog.Xid, Device: "0000:19:00.0", Code: 79, Text: "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.", Count: 1}}
			})
		}, "hgx-h100-roce", []string{"drift warn check.kernel_log.all kernel_log.xid"}, plan.ExitOK},
		{"GB300", "gb200-tray", replaced("10de:2941", "10de:31c2"), "gb200-nvl", nil, plan.ExitOK},
		{"a rail of GB200 on four lanes", "gb200-tray", lanes("0000:03:00.0", 4), "gb200-nvl", []string{"drift error check.pcie_link.gpus_and_nics pcie_link.width"}, plan.ExitDrift},
		{"a GB200 on eight lanes", "gb200-tray", lanes("0009:01:00.0", 8), "gb200-nvl", []string{"drift error check.pcie_link.gpus_and_nics pcie_link.width"}, plan.ExitDrift},
		{"a BlueField-3 of GB200 on four lanes", "gb200-tray", lanes("0006:03:00.0", 4), "gb200-nvl", []string{"drift warn check.pcie_link.other_nics pcie_link.width"}, plan.ExitOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := test.fault(recorded(t, test.recording))
			name, err := profiles.Choose(stock, f.Inventory)
			if name != test.profile || err != nil {
				t.Fatalf("chose %q, %v; want %s", name, err, test.profile)
			}
			got := planOver(t, load(t, name), f)
			var left []string
			for _, f := range got.Findings {
				if f.Status != plan.OK && f.Status != plan.Skipped && f.Severity != plan.Info {
					left = append(left, fmt.Sprintf("%s %s %s %s", f.Status, f.Severity, f.Address, f.ID))
				}
			}
			if diff := cmp.Diff(test.want, left); diff != "" || got.ExitCode() != test.exit {
				t.Errorf("exit code %d (-want +got):\n%s", got.ExitCode(), diff)
			}
		})
	}
}

// TestTrayAlone: what the variables of gb200-nvl say is judged, and no other.
func TestTrayAlone(t *testing.T) {
	f := recorded(t, "gb200-tray")
	for variables, want := range map[string][]string{
		`{ rack = true }`:  {"check.fabric.rack", "check.nvlink.rack"},
		`{ rack = false }`: {"check.fabric.all", "check.nvlink.all"},
		`{ imex = false }`: {"check.fabric.rack", "check.nvlink.rack"},
	} {
		site := loader()
		site.Dirs = append(site.Dirs, profiles.Dir{Path: "site", FS: fstest.MapFS{"site.hcl": {Data: []byte(`
profile {
  description = "A site's trays"
  extends     = ["gb200-nvl"]
  variables   = ` + variables + `
}
`)}}})
		p, diags := site.Load("site")
		if len(diags) > 0 {
			t.Fatalf("%s: %s: %s", variables, diags[0].Summary, diags[0].Detail)
		}
		judged := map[string]bool{}
		for _, f := range planOver(t, p, f).Findings {
			if strings.HasPrefix(f.Address, "check.fabric.") || strings.HasPrefix(f.Address, "check.nvlink.") {
				judged[f.Address] = judged[f.Address] || f.Status != plan.Skipped
			}
		}
		for _, address := range []string{"check.fabric.all", "check.fabric.rack", "check.nvlink.all", "check.nvlink.rack"} {
			if judged[address] != slices.Contains(want, address) {
				t.Errorf("%s: %s is judged: %v", variables, address, judged[address])
			}
		}
	}
}
