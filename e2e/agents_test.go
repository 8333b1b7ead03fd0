//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"busbar/e2e/kmod"
)

// TestLLDPAgent: a daemon of the node sets DCB, too.
func TestLLDPAgent(t *testing.T) {
	g := scenario(t, "lldpad is stopped and disabled before DCB is set, stays where FCoE needs it, and is told of either way")
	g.leaves("enp0s3")
	g.file("/etc/modprobe.d/lab.conf", "blacklist mlx5_core\nblacklist nouveau\n")
	// The first root bus with a rail is enough.
	inv := recorded(t, "hgx-h100")
	nic := known(t, inv.Rails())[0]
	table := tableOf(t, inv)
	in := func(address string) bool { return strings.HasPrefix(address, "0000:1") }
	table.Functions = slices.DeleteFunc(table.Functions, func(f *kmod.Function) bool { return !in(f.Address) })
	table.Buses = slices.DeleteFunc(table.Buses, func(b kmod.RootBus) bool { return b.First < 0x10 || b.First > 0x1f })
	g.fabric(table, "ofed=1", "bounce_ms=100")
	g.modules("labrdma")
	g.sh("modprobe -a crc32_generic rdma_rxe rdma_cm && modprobe labrdma ofed=1 && udevadm settle")
	r := rail{kmod.Shifted(nic.Address), known(t, nic.Netdev), known(t, nic.RDMA), 0}
	g.up(r)
	g.profile(fmt.Sprintf(`
roce "rail" {
  nics     = [for n in node.nics : n if n.address == %q]
  lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
  mtu      = 9000
}
`, r.address))

	for _, name := range []string{"lldpad", "fcoe"} {
		g.service(name)
	}
	g.sh("systemctl enable --now lldpad && systemctl start fcoe")
	states := func(want string) {
		t.Helper()
		g.is(want, "echo $(systemctl is-enabled lldpad) $(systemctl is-active lldpad)")
	}
	if f := g.busbar(2, "apply", "--yes").has("conflict", "roce.agent"); !strings.Contains(f.Summary, "fcoe.service is active") {
		t.Error(f.Summary)
	}
	states("enabled active")

	g.sh("systemctl stop fcoe")
	g.dcb("pfc", "set", "dev", r.netdev, "prio-pfc", "all:off")
	d := g.busbar(2, "plan")
	if f := d.has("drift", "roce.agent"); !strings.Contains(f.Summary, "lldpad.service is enabled, active: it sets DCB of ports as it negotiates with the switch") {
		t.Error(f.Summary)
	}
	d = g.busbar(0, "apply", "--yes")
	var order []string
	for _, s := range d.Run.Steps {
		if kind, _, _ := strings.Cut(s.ID, ":"); kind == "set-unit" || kind == "set-pfc" {
			order = append(order, s.ID)
		}
	}
	if want := []string{"set-unit:lldpad.service", "set-pfc:" + r.address}; !slices.Equal(order, want) {
		t.Errorf("steps are %v, wanted %v", order, want)
	}
	states("disabled inactive")
	g.isLossless(r, true)
	g.busbar(0, "apply", "--yes").noStep()

	g.sh("systemctl start lldpad")
	d = g.busbar(2, "verify")
	d.drifts("lldpad.service", "roce.agent")
	g.busbar(0, "apply", "--yes")
	states("disabled inactive")
}
