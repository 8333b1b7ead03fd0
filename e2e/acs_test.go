//go:build e2e

package e2e

import "testing"

// TestACS: redirection is taken off the ports between GPUs and NICs, and comes back with a rescan.
func TestACS(t *testing.T) {
	g := micro(t, "ACS redirection is cleared on the ports between GPUs and NICs only, and is drift again after a rescan of the port")
	g.rails()
	const port, other = "1000:17:02.0", "1000:00:01.0"
	g.sh("setpci -s " + port + " ECAP_ACS+6.w=1d")
	g.profile("pcie_acs \"gpu-paths\" {\n  redirect = \"off\"\n  scope    = node.gpu_paths\n}\n")
	g.busbar(2, "plan").has("drift", "pcie_acs.redirect")
	g.busbar(0, "apply", "--yes")
	g.is("0001", "setpci -s "+port+" ECAP_ACS+6.w")
	g.busbar(0, "apply", "--yes").noStep()
}
