//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"busbar/e2e/lab"
)

// swap gives two devices each other's name. rename is a command with the old name and the new one.
func (g *guest) swap(rename, a, b string) {
	g.t.Helper()
	for _, names := range [][2]string{{a, "between"}, {b, a}, {"between", b}} {
		g.sh(fmt.Sprintf(rename, names[0], names[1]))
	}
}

// What renames a network device, which must be down for it, and an RDMA device.
const (
	renameNetdev = "ip link set %[1]s down && ip link set %[1]s name %[2]s && ip link set %[2]s up"
	renameRDMA   = "rdma dev set %s name %s"
)

// writes shows what the driver of a rail was asked, its MTU, and its pause.
func (g *guest) writes(r rail) string {
	g.t.Helper()
	netdev := g.netdevOf(r)
	return g.sh("cd /sys/class/net/" + netdev + " && grep . mtu labfabric/*; ethtool -a " + netdev + " | tail -n +2")
}

// answers runs busbar apply at a terminal, does something while it asks, and says yes.
func (g *guest) answers(meanwhile func()) lab.Result {
	g.t.Helper()
	g.sh("rm -f /run/keys /run/screen && mkfifo /run/keys")
	ended := make(chan lab.Result, 1)
	go func() {
		ended <- g.Run(g.ctx, "sh", "-c", "exec 3<>/run/keys; SHELL=/bin/sh script -qefc 'busbar apply' /run/screen <&3")
	}()
	g.until("grep -q 'Do this' /run/screen")
	meanwhile()
	g.sh("echo y >/run/keys")
	return <-ended
}

// TestRenamed: names move between NICs while an apply is at work, and while it asks.
func TestRenamed(t *testing.T) {
	g := micro(t, "NICs that swap names during an apply: the one at the PCI address is set, no other is; when names or the default route move while it asks, nothing is")
	rails := g.rails("ofed=1")
	g.modules("nvidia", "nvidia_peermem")
	only, others := rails[0], rails[1:]
	g.profile(strings.Replace(fmt.Sprintf(lossless, ""), "node.rails\n  expect = 8", `[for n in node.rails : n if n.address == "`+only.address+`"]`, 1) +
		"kernel_module \"nvidia_peermem\" {\n  state = \"loaded\"\n  boot = \"unmanaged\"\n}\n")
	before := make([]string, len(others))
	for i, r := range others {
		before[i] = g.writes(r)
	}
	untouched := func() {
		t.Helper()
		for i, r := range others {
			if now := g.writes(r); now != before[i] {
				t.Errorf("%s was\n%s\nand is\n%s", r.address, before[i], now)
			}
		}
	}

	// While it asks. What was approved goes by addresses, and names stand in files.
	says := func(words string, r lab.Result) {
		t.Helper()
		if r.Code != 7 || !strings.Contains(strings.Join(strings.Fields(r.Stdout), " "), "the node has changed since the plan was shown, nothing was changed; run apply again: "+words) {
			t.Errorf("%q is not said: %s", words, r)
		}
		untouched()
		g.is("0", "grep -c nvidia_peermem /proc/modules || true")
	}
	says("the network device of NIC "+only.address, g.answers(func() { g.swap(renameNetdev, only.netdev, others[0].netdev) }))
	g.swap(renameNetdev, only.netdev, others[0].netdev)
	says("the RDMA device of NIC "+only.address+" was "+only.rdma+" and is rocep26s0", g.answers(func() { g.sh(fmt.Sprintf(renameRDMA, only.rdma, "rocep26s0")) }))
	g.sh(fmt.Sprintf(renameRDMA, "rocep26s0", only.rdma))
	says("whether NIC "+others[0].address+" is protected was false and is true", g.answers(func() {
		g.sh("ip route add default via 10.0.1.254 dev " + others[0].netdev + " metric 100")
	}))
	g.sh("ip route del default dev " + others[0].netdev)

	// While it works: a module takes its time before the NICs' turn.
	g.file("/etc/modprobe.d/site.conf", "options nvidia_peermem hang=600\n")
	s := g.start("apply", "--yes")
	g.until(`[ "$(awk '/^State/ {print $2}' /proc/$(pidof modprobe)/status 2>/dev/null)" = D ]`)
	g.swap(renameNetdev, only.netdev, others[0].netdev)
	g.swap(renameRDMA, only.rdma, others[0].rdma)
	g.sh("echo 0 > /sys/module/nvidia_peermem/parameters/hang")
	s.ends(0)
	g.is(others[0].netdev, "ls /sys/bus/pci/devices/"+only.address+"/net")
	g.isLossless(only, true)
	g.is("104 Global tclass=104", "echo $(cat /sys/kernel/config/rdma_cm/"+others[0].rdma+"/ports/1/default_roce_tos /sys/class/infiniband/"+others[0].rdma+"/tc/1/traffic_class)")
	g.is(others[0].rdma, "ls /sys/kernel/config/rdma_cm")
	g.is("1", "cat /sys/class/infiniband/*/tc/1/traffic_class | wc -l")
	untouched()
	g.busbar(0, "apply", "--yes").noStep()
}
