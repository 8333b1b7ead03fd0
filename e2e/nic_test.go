//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"busbar/node"
)

// rails gives the guest the recorded HGX H100 node: its PCI tree, NICs that speak DCB as
// mlx5 does, an RDMA device on each rail, and a management NIC that has the default route. It
// returns the rails' network devices.
func (g *guest) rails(parameters ...string) []string {
	g.t.Helper()
	g.sh("ip link add mgmt0 type dummy && ip address add 192.0.2.10/24 dev mgmt0 && ip link set mgmt0 up && ip route add default via 192.0.2.1")
	inv := recorded(g.t, "hgx-h100")
	g.fabric(inv, append(parameters, "bounce_ms=100")...)
	g.modules("labfabric", "labrdma")
	ofed := slices.DeleteFunc(slices.Clone(parameters), func(p string) bool { return !strings.HasPrefix(p, "ofed=") })
	g.sh("modprobe -a crc32_generic rdma_rxe rdma_cm && modprobe labrdma " + strings.Join(ofed, " "))
	nics, ok := inv.Rails().Get()
	if !ok || len(nics) != 8 {
		g.t.Fatalf("the recording has the rails %v", nics)
	}
	var names []string
	for i, nic := range nics {
		name, rdma := known(g.t, nic.Netdev), known(g.t, nic.RDMA)
		g.sh(fmt.Sprintf("ip link set %s up && ip address add 10.0.%d.1/24 dev %s && rdma link add %s type rxe netdev %s", name, i, name, rdma, name))
		names = append(names, name)
	}
	return names
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

const lossless = `
selector "rails" {
  nics    = node.rails
  exclude = ["1000:1b:00.0", "1000:1b:00.1"]
  expect  = 8
}

roce "rails" {
  nics     = selector.rails
  lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
  mtu      = 9000
  optional = [%s]
}
`

// isLossless expects the class on a NIC, as iproute2 and the files of the drivers show it.
func (g *guest) isLossless(name string, ofed bool) {
	g.t.Helper()
	for command, want := range map[string]string{
		"dcb pfc show dev %s prio-pfc":                          "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off",
		"dcb app show dev %s dscp-prio | grep -o '26:3\\|48:6'": "26:3\n48:6",
		"cat /sys/class/net/%s/mtu":                             "9000",
		"ethtool -a %s | grep -c 'X:.*off'":                     "2",
	} {
		g.is(want, fmt.Sprintf(command, name))
	}
	if !ofed {
		return
	}
	g.is("1 1 48 6", fmt.Sprintf("cd /sys/class/net/%s/ecn && echo $(cat roce_np/enable/3 roce_rp/enable/3 roce_np/cnp_dscp roce_np/cnp_802p_prio)", name))
}

// TestLossless: from a fresh node to a lossless one, and back to it after others had their hands on it.
func TestLossless(t *testing.T) {
	g := micro(t, "eight fresh rails are lossless after one apply, the second writes nothing, and what others change comes back; the management NIC is untouched")
	names := g.rails("ofed=1")
	g.profile(fmt.Sprintf(lossless, ""))
	management := g.sh("ip -d link show mgmt0")

	g.busbar(2, "plan").has("drift", "roce.pfc")
	g.busbar(0, "apply", "--yes")
	for _, name := range names {
		g.isLossless(name, true)
		g.is("1", "cat /sys/class/net/"+name+"/labfabric/link_bounces")
	}
	before := g.counters()
	g.busbar(0, "apply", "--yes").noStep()
	g.busbar(0, "verify")
	if after := g.counters(); after != before {
		t.Errorf("the second apply asked the drivers to write:\n%s\nbefore:\n%s", after, before)
	}

	g.sh("dcb pfc set dev " + names[0] + " prio-pfc all:off")
	g.sh("ip link set " + names[1] + " mtu 1500")
	g.sh("dcb app del dev " + names[2] + " dscp-prio 26:3")
	g.busbar(2, "verify")
	g.busbar(0, "apply", "--yes")
	for _, name := range names {
		g.isLossless(name, true)
	}
	g.is("1", "cat /sys/class/net/"+names[7]+"/labfabric/link_bounces")
	if now := g.sh("ip -d link show mgmt0"); now != management {
		t.Errorf("the management NIC was %s and is %s", management, now)
	}
}

// TestInbox: what inbox drivers lack is told, and tolerated where the profile says so.
func TestInbox(t *testing.T) {
	g := micro(t, "drivers of the kernel lack ECN and congestion notification: told, and no failure where the profile says so")
	names := g.rails()
	g.profile(fmt.Sprintf(lossless, ""))
	g.busbar(2, "apply", "--yes").has("unsupported", "roce.ecn")
	g.isLossless(names[0], false)
	g.profile(fmt.Sprintf(lossless, `"ecn", "cnp", "traffic_class"`))
	g.busbar(0, "apply", "--yes").noStep()
}

// TestDrivers: drivers that refuse, and drivers that say yes and do nothing.
func TestDrivers(t *testing.T) {
	g := micro(t, "firmware that owns DCBX, drivers without DCB and drivers that say yes and do nothing: each its own outcome")
	for _, test := range []struct {
		parameters, status, id string
		code                   int
	}{
		{"missing=dcbnl", "unsupported", "roce.dcb", 2},
		{"missing=pfc", "unknown", "roce.pfc", 8},
		{"dcbx=locked", "drift", "roce.dcbx", 4},
	} {
		names := g.rails(test.parameters, "ofed=1")
		g.profile(fmt.Sprintf(lossless, ""))
		d := g.busbar(test.code, "apply", "--yes")
		d.has(test.status, test.id)
		if strings.Contains(d.String(), "panic") {
			t.Error(d)
		}
		for i := range names {
			g.sh(fmt.Sprintf("rdma link delete mlx5_%d || true", i))
		}
		g.sh("ip link del mgmt0; modprobe -r labrdma rdma_rxe; modprobe -r labfabric")
	}
}
