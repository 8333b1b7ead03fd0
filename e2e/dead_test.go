//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"busbar/e2e/kmod"
)

// railNode is a node with eight rails of one kind, whose names go into nccl.conf.
const railNode = `
selector "rails" {
  nics   = [for n in node.rails : n if n.pci_id == "15b3:1021" && n.link_layer == "Ethernet"]
  expect = 8
}

roce "rails" {
  nics     = selector.rails
  lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
  mtu      = 9000
}

nccl {
  settings = {
    NCCL_IB_HCA = "=${join(",", selector.rails[*].rdma)}"
    NCCL_IB_TC  = 104
  }
}

check "rdma_port" "rails" {
  nics       = selector.rails
  link_layer = "Ethernet"
}
` + readRequests

// allHCAs is nccl.conf as railNode has it.
const allHCAs = "# BEGIN busbar\nNCCL_IB_HCA==mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9\nNCCL_IB_TC=104\n# END busbar"

// withoutRail expects that neither plan nor apply makes anything of rails of which one is not as it should be, and
// that both say so.
func (g *guest) withoutRail(code int, status, id, words string, others []rail) {
	g.t.Helper()
	var before []string
	for _, r := range others {
		before = append(before, g.writes(r))
	}
	for _, args := range [][]string{{"plan"}, {"apply", "--yes"}} {
		d := g.busbar(code, args...)
		d.noStep()
		if f := d.has(status, id); !strings.Contains(f.Summary, words) {
			g.t.Errorf("%q is not said: %s", words, f.Summary)
		}
	}
	for i, r := range others {
		if now := g.writes(r); now != before[i] {
			g.t.Errorf("%s was\n%s\nand is\n%s", r.address, before[i], now)
		}
	}
	g.is(allHCAs, "cat /etc/nccl.conf")
}

// TestDeadRail: a NIC dies, in each of its ways.
func TestDeadRail(t *testing.T) {
	g := micro(t, "a rail without driver, without a link, that does not answer or is off the bus: told, nccl.conf keeps its eight HCAs, no other rail is touched")
	rails := g.rails("ofed=1")
	dead, others := rails[3], rails[4:]
	g.profile(railNode)
	g.busbar(0, "apply", "--yes")
	g.is(allHCAs, "cat /etc/nccl.conf")
	for _, fault := range []struct {
		name, do, undo    string
		gone              bool // its devices go with it
		code              int
		status, id, words string
	}{
		{
			"no driver", "echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/unbind", "echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/bind", true,
			2, "drift", "rdma_port.driver", "NIC " + dead.address + " is not in use: no driver is bound to it",
		},
		{"no link", "echo 0 > /sys/class/net/NETDEV/carrier", "echo 1 > /sys/class/net/NETDEV/carrier", false, 2, "drift", "rdma_port.state", dead.address},
		{"no answer", "echo ADDRESS > DEAD", "echo > DEAD", false, 8, "unknown", "pcie_device.function", dead.address},
		{
			"off the bus", "echo ADDRESS > DEAD; echo 1 > /sys/bus/pci/devices/ADDRESS/remove; echo 1 > /sys/bus/pci/rescan",
			"echo > DEAD; echo 1 > /sys/bus/pci/rescan", true, 2, "drift", "selector.short", "selector rails: 7 of 8 NICs found",
		},
	} {
		t.Log(fault.name)
		of := strings.NewReplacer("ADDRESS", dead.address, "NETDEV", dead.netdev, "DEAD", "/sys/module/labfabric/parameters/dead")
		g.sh(of.Replace(fault.do))
		g.withoutRail(fault.code, fault.status, fault.id, fault.words, others)
		g.sh(of.Replace(fault.undo))
		if fault.gone {
			g.up(dead)
		}
		g.busbar(0, "apply", "--yes")
		g.busbar(0, "apply", "--yes").noStep()
	}
}

// TestWrongRail: in place of a rail there is a NIC of another kind.
func TestWrongRail(t *testing.T) {
	g := micro(t, "a NIC of another model, of virtio, or on InfiniBand in place of a rail: told, nccl.conf keeps its eight HCAs, no other rail is touched")
	const wrong = 2
	inv := recorded(t, "hgx-h100")
	address := known(t, inv.Rails())[wrong].Address
	g.profile(railNode)
	g.rails("ofed=1")
	g.busbar(0, "apply", "--yes")
	for _, kind := range []struct {
		name              string
		change            func(*kmod.Function)
		parameters        []string
		status, id, words string
	}{
		{"another model", func(f *kmod.Function) { f.Device = "101d" }, nil, "drift", "selector.short", "selector rails: 7 of 8 NICs found"},
		{"InfiniBand", func(*kmod.Function) {}, []string{"infiniband=mlx5_4"}, "drift", "selector.short", "selector rails: 7 of 8 NICs found"},
		{
			"virtio", func(f *kmod.Function) { f.Vendor, f.Device, f.Netdevs = "1af4", "1041", nil }, nil,
			"drift", "selector.short", "selector rails: 7 of 8 NICs found",
		},
	} {
		t.Log(kind.name)
		g.noRails()
		table := tableOf(t, inv)
		kind.change(table.At(address))
		rails := g.railsOf(table, append(kind.parameters, "ofed=1")...)
		g.withoutRail(2, kind.status, kind.id, kind.words, rails[wrong+1:])
	}
}

// TestNoRoute: before the network is up nobody knows which NIC must not be touched.
func TestNoRoute(t *testing.T) {
	g := micro(t, "without a route no protected NIC is known: no port is touched, which is said; with it the rails are set")
	rails := g.rails("ofed=1")
	g.sh("ip route del default")
	const why = "no protected NIC is known: there is no default route"
	before := g.counters()

	g.profile(railNode)
	g.busbar(2, "plan")
	d := g.busbar(8, "apply", "--yes")
	if f := d.has("unknown", "selector.unknown"); !strings.Contains(f.Summary, why) {
		t.Error(f.Summary)
	}
	// What does not hang on the rails is done.
	if len(d.Run.Steps) != 1 {
		t.Errorf("too many steps:\n%s", d)
	}
	g.is("# BEGIN busbar\nNCCL_IB_TC=104\n# END busbar", "cat /etc/nccl.conf")

	// NICs by their model, without a selector, which takes none that could be protected.
	g.profile(`
roce "rails" {
  nics     = [for n in node.nics : n if n.pci_id == "15b3:1021"]
  lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
  mtu      = 9000
}

nccl {
  settings = { NCCL_IB_TC = 104 }
}
`)
	for _, args := range [][]string{{"plan"}, {"apply", "--yes"}} {
		d = g.busbar(2, args...)
		d.noStep()
		for _, id := range []string{"roce.pfc", "roce.mtu", "roce.tos"} {
			if f := d.has("drift", id); !strings.Contains(f.Fix, "is not touched: whether it is protected is unknown: "+why) {
				t.Errorf("%s: %q", id, f.Fix)
			}
		}
	}
	g.wroteNothing(before)
	g.is("1500", "cat /sys/class/net/"+rails[1].netdev+"/mtu")

	g.profile(railNode)
	g.sh("ip route add default via 192.0.2.1")
	g.busbar(0, "apply", "--yes")
	for _, r := range rails {
		g.isLossless(r, true)
	}
	// The root is an initramfs, in which nothing outlives a reboot.
	g.is("", "ls /var/lib/busbar 2>/dev/null || true")
}

// TestNoRouteAtBoot: what a run with a network saved tells a boot without one which NIC must not be touched.
func TestNoRouteAtBoot(t *testing.T) {
	g := micro(t, "the first apply saves which NICs are protected: rails that lost their state are set without a route too, and the management NIC is untouched; a route that moves is saved anew")
	rails := g.rails("ofed=1")
	// The one file system here that is not known to be empty after a reboot.
	g.sh("mkdir -p /dev/state /var/lib/busbar && mount --bind /dev/state /var/lib/busbar")
	const saved = "save-protected:/var/lib/busbar/protected.json"
	holds := func(want ...string) {
		t.Helper()
		g.is("644 "+strings.Join(want, " "), `echo $(stat -c %a /var/lib/busbar/protected.json; tr -d '[]", ' < /var/lib/busbar/protected.json)`)
	}
	management := []string{kmod.Shifted("0000:1b:00.0"), kmod.Shifted("0000:1b:00.1"), "bond0"}
	g.profile(railNode)
	g.busbar(2, "plan").has("drift", "protected.saved")
	g.busbar(0, "apply", "--yes").step("done", saved)
	holds(management...)
	g.busbar(0, "apply", "--yes").noStep()

	g.sh("ip route del default")
	for _, r := range rails {
		g.sh("cd /sys/bus/pci/drivers/mlx5_core && echo " + r.address + " > unbind && echo " + r.address + " > bind")
		g.up(r)
	}
	g.busbar(2, "plan").has("drift", "roce.mtu")
	g.busbar(0, "apply", "--yes", "--boot")
	for _, r := range rails {
		g.isLossless(r, true)
	}
	holds(management...)
	g.busbar(0, "apply", "--yes").noStep()

	// The run that saves another set still protects the old one.
	g.sh("ip route add default via 10.0.0.2")
	before := g.counters()
	d := g.busbar(2, "apply", "--yes")
	d.has("drift", "selector.short")
	d.step("done", saved)
	if len(d.Run.Steps) != 1 {
		t.Errorf("too many steps:\n%s", d)
	}
	g.wroteNothing(before)
	holds(rails[0].address)
	g.busbar(2, "apply", "--yes").noStep()
}
