//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"busbar/e2e/kmod"
)

// redirecting is what a port has as firmware and the kernel leave it where an IOMMU keeps devices apart; redirectOff is
// what is left of it.
const (
	redirecting = 0x001d // SrcValid, ReqRedir, CmpltRedir, UpstreamFwd
	redirectOff = 0x0001
)

// acs are the ACS control registers of all ports that have one, as lspci shows them.
func (g *guest) acs() map[string]string {
	g.t.Helper()
	ports := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(g.sh(`lspci -D -vv | awk '/^[0-9a-f]/ {port = $1} /ACSCtl:/ {sub(/.*ACSCtl:[ \t]*/, ""); print port, $0}'`)), "\n") {
		port, flags, _ := strings.Cut(line, " ")
		ports[port] = flags
	}
	return ports
}

// TestACS: redirection is taken off the ports between GPUs and NICs, and comes back with a rescan.
func TestACS(t *testing.T) {
	g := micro(t, "ACS redirection is cleared on the ports between GPUs and NICs only, and is drift again after a rescan of the port")
	inv := recorded(t, "hgx-h100")
	table := tableOf(t, inv)
	for _, f := range table.Functions {
		if f.ACS != nil {
			f.ACS.Control = redirecting
		}
	}
	rails := g.railsOf(table)
	before := g.acs()
	paths := map[string]bool{}
	for _, address := range known(t, inv.GPUPaths()) {
		paths[kmod.Shifted(address)] = true
	}
	on := 0
	for port := range before {
		if paths[port] {
			on++
		}
	}
	if on < 16 || len(before)-on < 16 {
		t.Fatalf("%d of %d ports with ACS are on the paths", on, len(before))
	}
	cleared := func() {
		t.Helper()
		now := g.acs()
		for _, port := range slices.Sorted(maps.Keys(before)) {
			want := before[port]
			if paths[port] {
				want = strings.NewReplacer("ReqRedir+", "ReqRedir-", "CmpltRedir+", "CmpltRedir-", "UpstreamFwd+", "UpstreamFwd-").Replace(want)
			}
			if now[port] != want {
				t.Errorf("%s has %s, wanted is %s", port, now[port], want)
			}
		}
	}
	const port = "1000:17:02.0" // above the first rail
	control := func(want uint16) {
		t.Helper()
		g.is(fmt.Sprintf("%04x", want), "setpci -s "+port+" ECAP_ACS+6.w")
	}

	g.profile("pcie_acs \"gpu-paths\" {\n  redirect = \"off\"\n  scope    = node.gpu_paths\n}\n")
	control(redirecting)
	g.busbar(2, "plan").has("drift", "pcie_acs.redirect")
	g.busbar(0, "apply", "--yes")
	control(redirectOff)
	cleared()
	g.busbar(0, "apply", "--yes").noStep()

	g.sh("echo 1 > /sys/bus/pci/devices/" + port + "/remove")
	g.is("", "ls /sys/bus/pci/devices | grep "+rails[0].address+" || true")
	g.sh("echo 1 > /sys/bus/pci/rescan")
	g.up(rails[0])
	control(redirecting)
	g.busbar(2, "plan").drifts(port, "pcie_acs.redirect")
	d := g.busbar(0, "apply", "--yes")
	if len(d.Run.Steps) != 1 {
		t.Errorf("more than the port was written:\n%s", d)
	}
	control(redirectOff)
	cleared()
	g.busbar(0, "apply", "--yes").noStep()
}
