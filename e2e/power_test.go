//go:build e2e

package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// cuts is how often TestPowerCut cuts the power: BUSBAR_LAB_CUTS, or 5.
func cuts(t *testing.T) int {
	text := os.Getenv("BUSBAR_LAB_CUTS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("BUSBAR_LAB_CUTS: %v", err)
	}
	return n
}

// ownedFiles are what busbar writes for wholeNode, /etc/nccl.conf with them.
const ownedFiles = "/etc/default/grub.d/zz-busbar.cfg /etc/modules-load.d/busbar.conf /etc/modprobe.d/zz-busbar.conf /etc/sysctl.d/zz-busbar.conf " +
	"/etc/security/limits.d/zz-busbar.conf /etc/systemd/system/*.d/zz-busbar.conf /etc/nccl.conf /var/lib/busbar/marker.json"

// TestPowerCut: whenever the power goes in an apply, the node boots, and the next apply
// brings it where it should be. Each apply has all files to write.
func TestPowerCut(t *testing.T) {
	g := scenario(t, "the power goes at a random moment of an apply: the node boots, the next apply converges")
	g.drifted()
	g.sh("sync")
	for range cuts(t) {
		g.renew()
		// An apply takes 20 s here, of which update-grub takes more than half.
		after := time.Duration(rand.IntN(20000)) * time.Millisecond
		t.Logf("the power goes after %s", after)
		g.sh("rm -f " + ownedFiles)
		g.sh("busbar apply --yes >/dev/null 2>&1 &")
		time.Sleep(after)
		g.restart()
	}
	// What a cut run left decides whether a reboot is owed or was made.
	r := g.Run(g.ctx, "busbar", "apply", "--yes")
	if r.Code != 0 && r.Code != 3 {
		t.Fatalf("the apply after the cuts: %s", r)
	}
	g.inForce()
	g.torn()
	g.busbar(r.Code, "apply", "--yes").noStep()
}
