//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// readRequests wants reads of 4096 bytes from all rails.
const readRequests = `
pcie_device "rails" {
  devices          = selector.rails[*].address
  max_read_request = 4096
}
`

// TestLostState: what is set of a NIC lives in the driver, in firmware and in registers, and goes with them.
func TestLostState(t *testing.T) {
	g := micro(t, "what a rail loses when its driver is reloaded, and when it is taken away and comes back, is drift and put right; the other rails are not touched")
	rails := g.rails("ofed=1")
	lost, others := rails[0], rails[1:]
	g.profile(fmt.Sprintf(lossless, "") + readRequests)
	g.busbar(0, "apply", "--yes")
	// What drivers of the other rails were asked, and their registers.
	untouched := func() string {
		show := "grep . /sys/class/net/*/labfabric/* | grep -v ^/sys/class/net/" + lost.netdev + "/; md5sum"
		for _, r := range others {
			show += " /sys/bus/pci/devices/" + r.address + "/config"
		}
		return g.sh(show)
	}
	before := untouched()
	mended := func(ids ...string) {
		t.Helper()
		g.up(lost)
		g.busbar(2, "plan").drifts(lost.address, ids...)
		d := g.busbar(0, "apply", "--yes")
		for _, s := range d.Run.Steps {
			if !strings.HasSuffix(s.ID, ":"+lost.address) && !strings.HasPrefix(s.ID, "await-links") {
				t.Errorf("a step of another NIC: %s", s.ID)
			}
		}
		for _, r := range append(others, lost) {
			g.isLossless(r, true)
			g.is("MaxReadReq 4096 104", "echo $(lspci -vv -s "+r.address+" | grep -o 'MaxReadReq [0-9]*') $(cat /sys/kernel/config/rdma_cm/"+r.rdma+"/ports/1/default_roce_tos)")
		}
		if now := untouched(); now != before {
			t.Errorf("other NICs were touched:\n%s\nbefore:\n%s", now, before)
		}
		g.busbar(0, "apply", "--yes").noStep()
	}

	// Firmware keeps PFC and the map of DSCPs.
	g.sh("cd /sys/bus/pci/drivers/mlx5_core && echo " + lost.address + " > unbind && echo " + lost.address + " > bind")
	mended("roce.mtu", "roce.tos", "roce.traffic_class")

	g.sh("echo 1 > /sys/bus/pci/devices/" + lost.address + "/remove && echo 1 > /sys/bus/pci/rescan")
	mended("pcie_device.max_read_request", "roce.cnp_map", "roce.dscp_map", "roce.ecn", "roce.mtu", "roce.pause", "roce.pfc", "roce.tos", "roce.traffic_class", "roce.trust")

	// Registers alone: what a reset leaves.
	g.sh("setpci -s " + lost.address + " CAP_EXP+8.w=2930")
	g.busbar(2, "plan").drifts(lost.address, "pcie_device.max_read_request")
	g.busbar(0, "apply", "--yes")
	g.is("4096", "lspci -vv -s "+lost.address+" | grep -o 'MaxReadReq [0-9]*' | cut -d' ' -f2")
}
