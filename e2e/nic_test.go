//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/e2e/kmod"
	"busbar/node"
)

// rail is a rail of the guest: where its NIC is, and the names of its devices.
type rail struct {
	address, netdev, rdma string
	subnet                int
}

// rails gives the guest the recorded HGX H100 node: its PCI tree, NICs that speak DCB as
// mlx5 does, an RDMA device on each rail, and a bond of two such NICs beside the first GPU, which has the
// default route and stays as it is.
func (g *guest) rails(parameters ...string) []rail {
	g.t.Helper()
	return g.railsOf(tableOf(g.t, recorded(g.t, "hgx-h100")), parameters...)
}

// railsOf is rails with another table, and parameters of labfabric; ofed= and infiniband= are labrdma's.
// A NIC that has no network device in the table gets no RDMA device.
func (g *guest) railsOf(table *kmod.Fabric, parameters ...string) []rail {
	g.t.Helper()
	var ofLabfabric, ofLabrdma []string
	for _, p := range parameters {
		if !strings.HasPrefix(p, "infiniband=") {
			ofLabfabric = append(ofLabfabric, p)
		}
		if strings.HasPrefix(p, "infiniband=") || strings.HasPrefix(p, "ofed=") {
			ofLabrdma = append(ofLabrdma, p)
		}
	}
	g.fabric(table, append(ofLabfabric, "bounce_ms=100")...)
	g.modules("labrdma")
	g.sh("modprobe -a crc32_generic rdma_rxe rdma_cm && modprobe labrdma " + strings.Join(ofLabrdma, " "))
	g.bond()
	nics, ok := recorded(g.t, "hgx-h100").Rails().Get()
	if !ok || len(nics) != 8 {
		g.t.Fatalf("the recording has the rails %v", nics)
	}
	var rails, there []rail
	for i, nic := range nics {
		r := rail{kmod.Shifted(nic.Address), known(g.t, nic.Netdev), known(g.t, nic.RDMA), i}
		if len(table.At(nic.Address).Netdevs) > 0 {
			there = append(there, r)
		}
		rails = append(rails, r)
	}
	g.up(there...)
	g.leaves("bond0 " + bondPorts)
	return rails
}

// up does what the driver and the network's configuration do when NICs come.
func (g *guest) up(rails ...rail) {
	g.t.Helper()
	script := "set -e\n"
	for _, r := range rails {
		// The kernel takes the last RDMA device away a moment after its netdev.
		script += fmt.Sprintf("while [ -e /sys/class/infiniband/%[2]s ]; do sleep 0.05; done\n"+
			"ip link set %[1]s up; ip address add 10.0.%[3]d.1/24 dev %[1]s; rdma link add %[2]s type rxe netdev %[1]s\n", r.netdev, r.rdma, r.subnet)
	}
	g.sh(script)
}

// bond makes the management NIC as it was recorded.
func (g *guest) bond() {
	g.t.Helper()
	g.sh(`modprobe bonding max_bonds=0 && ip link add bond0 type bond mode active-backup miimon 100
for port in ` + bondPorts + `; do ip link set $port master bond0; done
ip address add 192.0.2.17/24 dev bond0 && ip link set bond0 up && ip route add default via 192.0.2.1
until [ "$(cat /sys/class/net/bond0/carrier)" = 1 ]; do sleep 0.1; done`)
}

const bondPorts = "enp27s0f0np0 enp27s0f1np1"

// leaves expects that network devices are at the end, and in noRails, as they are now.
func (g *guest) leaves(devices string) {
	g.t.Helper()
	g.manages = devices
	g.management = g.onManagement()
	g.t.Cleanup(g.managementIsUntouched)
}

// onManagement shows the devices, and what their drivers were asked to write.
func (g *guest) onManagement() string {
	g.t.Helper()
	return g.sh(`for d in ` + g.manages + `; do
  cd /sys/class/net/$d && grep . /dev/null mtu flags address carrier carrier_changes labfabric/*
  ip -4 address show dev $d; ethtool -a $d
  for what in pfc app dcbx buffer; do dcb $what show dev $d; done
done 2>&1 || true`)
}

func (g *guest) managementIsUntouched() {
	g.t.Helper()
	if g.manages == "" {
		return
	}
	if diff := cmp.Diff(strings.Split(g.management, "\n"), strings.Split(g.onManagement(), "\n")); diff != "" {
		g.t.Errorf("the management NIC is not as it was (-was +is):\n%s", diff)
	}
	g.manages = ""
}

// noRails takes away what rails made.
func (g *guest) noRails() {
	g.t.Helper()
	g.managementIsUntouched()
	g.sh("for d in $(ls /sys/class/infiniband); do rdma link delete $d; done; ip link del bond0; modprobe -r labrdma rdma_rxe; modprobe -r labfabric")
}

func known[T any](t *testing.T, v node.Value[T]) T {
	t.Helper()
	value, ok := v.Get()
	if !ok {
		t.Fatal(v.Reason())
	}
	return value
}

// counters are what the drivers of all NICs were asked to write, a line each.
func (g *guest) counters() string {
	g.t.Helper()
	return g.sh("grep . /sys/class/net/*/labfabric/*")
}

// wroteNothing expects counters as they were.
func (g *guest) wroteNothing(before string) {
	g.t.Helper()
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(g.counters(), "\n")); diff != "" {
		g.t.Errorf("drivers were asked to write (-before +after):\n%s", diff)
	}
}

const lossless = `
selector "rails" {
  nics   = node.rails
  expect = 8
}

roce "rails" {
  nics     = selector.rails
  lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
  mtu      = 9000
  optional = [%s]
}
`

// isLossless expects the class on a rail, as iproute2 and the files of the drivers show it.
func (g *guest) isLossless(r rail, ofed bool) {
	g.t.Helper()
	want, show := "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off 26:3 48:6 9000 2",
		`$(dcb pfc show dev $d prio-pfc; dcb -N app show dev $d dscp-prio | grep -o '26:3\|48:6'; cat mtu; ethtool -a $d | grep -c 'X:.*off')`
	if ofed {
		want, show = want+" 1 1 48 6", show+" $(cd ecn && cat roce_np/enable/3 roce_rp/enable/3 roce_np/cnp_dscp roce_np/cnp_802p_prio)"
	}
	g.is(want, "cd /sys/bus/pci/devices/"+r.address+"/net/* && d=${PWD##*/} && echo "+show)
}

// dcb changes something with iproute2's dcb. It numbers its messages by the second, and calls it a protocol error when one
// begins between reading and writing: the kernel has done it then.
func (g *guest) dcb(args ...string) {
	g.t.Helper()
	if r := g.Run(g.ctx, append([]string{"dcb"}, args...)...); r.Code != 0 && !strings.Contains(r.Stderr, "Protocol error") {
		g.t.Fatalf("dcb %s: %s", strings.Join(args, " "), r)
	}
}

// netdevOf is what the network device of a rail is called now.
func (g *guest) netdevOf(r rail) string {
	g.t.Helper()
	return strings.TrimSpace(g.sh("ls /sys/bus/pci/devices/" + r.address + "/net"))
}

// TestLossless: from a fresh node to a lossless one, and back to it after others had their hands on it.
func TestLossless(t *testing.T) {
	g := micro(t, "eight fresh rails are lossless after one apply, the second writes nothing, and what others change comes back; the management NIC is untouched")
	rails := g.rails("ofed=1")
	g.profile(fmt.Sprintf(lossless, ""))

	g.busbar(2, "plan").has("drift", "roce.pfc")
	g.busbar(0, "apply", "--yes")
	for _, r := range rails {
		g.isLossless(r, true)
		g.is("1", "cat /sys/class/net/"+r.netdev+"/labfabric/link_bounces")
	}
	before := g.counters()
	g.busbar(0, "apply", "--yes").noStep()
	g.busbar(0, "verify")
	g.wroteNothing(before)

	g.dcb("pfc", "set", "dev", rails[0].netdev, "prio-pfc", "all:off")
	g.sh("ip link set " + rails[1].netdev + " mtu 1500")
	g.dcb("app", "del", "dev", rails[2].netdev, "dscp-prio", "26:3")
	g.busbar(2, "verify")
	g.busbar(0, "apply", "--yes")
	for _, r := range rails {
		g.isLossless(r, true)
	}
	g.is("1", "cat /sys/class/net/"+rails[7].netdev+"/labfabric/link_bounces")
}

// TestInbox: what inbox drivers lack is told, and tolerated where the profile says so.
func TestInbox(t *testing.T) {
	g := micro(t, "drivers of the kernel lack ECN and congestion notification: told, and no failure where the profile says so")
	rails := g.rails()
	g.profile(fmt.Sprintf(lossless, ""))
	g.busbar(2, "apply", "--yes").has("unsupported", "roce.ecn")
	g.isLossless(rails[0], false)
	g.profile(fmt.Sprintf(lossless, `"ecn", "cnp", "traffic_class"`))
	g.busbar(0, "apply", "--yes").noStep()
}

// TestDrivers: drivers that refuse, and drivers that say yes and do nothing.
func TestDrivers(t *testing.T) {
	g := micro(t, "firmware that owns DCBX, drivers without DCB and drivers that say yes and do nothing: each its own outcome")
	for _, test := range []struct {
		parameters, status, id string
		code                   int
		words                  string
	}{
		{"missing=dcbnl", "unsupported", "roce.dcb", 2, ""},
		{"missing=pfc", "unknown", "roce.pfc", 8, ""},
		{"missing=dcbx", "unsupported", "roce.dcbx", 2, ""},
		{"missing=pause", "unsupported", "roce.pause", 2, ""},
		{"missing=stall", "unsupported", "roce.storm_prevention", 2, ""},
		{"unsupported=pause", "drift", "roce.pause", 4, "the driver has none"},
		{"unsupported=stall", "unsupported", "roce.storm_prevention", 2, ""},
		{"dcbx=locked", "drift", "roce.dcbx", 4, ""},
		{"dcbx=locked driver=bnxt_en", "conflict", "roce.dcbx", 2, "owns DCBX"},
		{"dcbx=firmware", "ok", "roce.dcbx", 0, ""}, // mlx5 takes it
	} {
		rails := g.rails(test.parameters, "ofed=1")
		g.profile(strings.Replace(fmt.Sprintf(lossless, ""), "mtu ", "storm_prevention = 8000\n  mtu ", 1))
		d := g.busbar(test.code, "apply", "--yes")
		d.has(test.status, test.id)
		if strings.Contains(d.String(), "panic") || !strings.Contains(d.String(), test.words) {
			t.Errorf("%s: %q is not said, or more:\n%s", test.parameters, test.words, d)
		}
		if test.code == 0 {
			g.isLossless(rails[0], true)
		}
		g.noRails()
	}
}
