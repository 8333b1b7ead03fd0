//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"busbar/e2e/lab"
)

// bareNode asks for nothing that wholeNode leaves a file for.
const bareNode = `
service "slurmd" {
  active = true
}
`

// leftNothing expects that nothing of wholeNode's files is left, nor of its boot argument.
func (g *guest) leftNothing() {
	g.t.Helper()
	if left := g.owned(); left != "" {
		g.t.Errorf("left behind: %s", left)
	}
	g.is("", "cat /etc/nccl.conf 2>/dev/null || true")
	g.is("0", "grep -c iommu=pt /boot/grub/grub.cfg || true")
	g.is("8388608", "systemctl show -P LimitMEMLOCK slurmd")
}

// TestKills: kill -9 at a random moment of an apply that writes everything, and of one that
// takes everything back. The next run is begun at once.
func TestKills(t *testing.T) {
	g := scenario(t, "kill -9 at random moments of an apply: the next one is not stopped, and converges")
	g.drifted()
	for i := range 4 {
		g.profile([]string{wholeNode, bareNode}[i%2])
		// On an idle machine an apply takes 20 s here, of which update-grub takes more than half.
		after := time.Duration(rand.IntN(12000)) * time.Millisecond
		t.Logf("killed after %s", after)
		g.sh(fmt.Sprintf("busbar apply --yes >/dev/null 2>&1 & sleep %f; kill -9 $!; wait $! || true", after.Seconds()))
	}
	// The moment that is worst for what is dropped: the fragment is changed, the entries are not.
	g.profile(wholeNode)
	g.busbar(3, "apply", "--yes")
	g.inForce()
	g.profile(bareNode)
	g.sh("busbar apply --yes >/dev/null 2>&1 & pid=$!; until " + updatesGRUB + "; do sleep 0.05; done; kill -9 $pid; wait $pid || true")
	g.busbar(2, "plan").has("drift", "boot_args.left_over")
	g.busbar(0, "apply", "--yes")
	g.leftNothing()
	g.busbar(0, "apply", "--yes").noStep()
	g.torn()
	g.is("lock", "ls /run/busbar")
}

// TestSignals: the running step ends and no further one is begun.
func TestSignals(t *testing.T) {
	g := scenario(t, "SIGTERM, SIGINT and a stopped unit end an apply after the running step, and the next one goes on")
	const grub, sysctl = "update-grub:/boot/grub/grub.cfg", "set-sysctl:kernel.numa_balancing"
	numa := "sysctl \"kernel.numa_balancing\" {\n  value = 0\n}\n"
	args := func(value string) string { return "kernel_args {\n  present = { audit = \"" + value + "\" }\n}\n" }

	g.profile(numa + args("0"))
	s := g.start("apply", "--yes")
	g.until(updatesGRUB)
	g.sh("pkill -TERM -x busbar; sleep 0.3; pkill -TERM -x busbar; sleep 0.3; pkill -HUP -x busbar")
	d, said := s.ends(4)
	d.step("done", grub)
	d.step("interrupted", sysctl, "the run was ended before this step")
	if !d.Run.Interrupted || !strings.Contains(said, "SIGTERM: ends after the running step, in 300 s at most: run update-grub") ||
		!strings.Contains(said, "SIGTERM: still ends after the running step") {
		t.Errorf("said was:\n%s", said)
	}
	g.is("1", "sysctl -n kernel.numa_balancing")
	g.busbar(3, "apply", "--yes")
	g.is("0", "sysctl -n kernel.numa_balancing")

	g.sh("sysctl -qw kernel.numa_balancing=1")
	g.profile(numa + args("1"))
	s = g.start("apply", "--yes")
	g.until(updatesGRUB)
	g.sh("pkill -INT -x busbar")
	d, _ = s.ends(4)
	d.step("done", grub)
	d.step("interrupted", sysctl)

	// A unit that is stopped: the signal goes to every process of the run. update-grub dies of it, and
	// what boots stays as it was.
	g.profile(numa + args("0"))
	g.sh("cp /boot/grub/grub.cfg /root/old.cfg")
	g.sh("systemd-run -q --unit=provision -p RemainAfterExit=yes busbar apply --yes --json-into /root/run.json")
	g.until(updatesGRUB)
	g.sh("systemctl stop provision")
	text, err := g.Get(g.ctx, "/root/run.json")
	if err != nil {
		t.Fatal(err)
	}
	d = g.document(lab.Result{Code: 4, Stdout: text}, 4, "apply")
	d.step("failed", grub, "update-grub: signal: terminated")
	d.step("interrupted", sysctl)
	g.is("", "cmp /boot/grub/grub.cfg /root/old.cfg 2>&1")
	g.busbar(3, "apply", "--yes")
	g.busbar(3, "apply", "--yes").noStep()
	g.torn()
}

// TestClock: the machine stands still and its clock jumps, forth and back, while an apply runs.
func TestClock(t *testing.T) {
	g := scenario(t, "an apply outlives a machine that stands still and a clock that jumps")
	g.drifted()
	s := g.start("apply", "--yes")
	g.until(updatesGRUB)
	if err := g.Freeze(g.ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if err := g.Thaw(g.ctx); err != nil {
		t.Fatal(err)
	}
	g.sh("date -s '+2 days'")
	g.until("! " + updatesGRUB)
	g.sh("date -s '-5 days'")
	s.ends(3)
	g.inForce()
	g.busbar(3, "apply", "--yes").noStep()
	g.torn()
}

// TestBootEntries: update-grub fails. What was begun is told of by every later run, and ended by
// the first that can.
func TestBootEntries(t *testing.T) {
	g := scenario(t, "what a failed update-grub left half done is told of, and done by the next apply")
	args := func(list string) string { return "kernel_args {\n  present = { " + list + " }\n}\n" }
	const grub = "update-grub:/boot/grub/grub.cfg"
	inEntries := func(want string) {
		t.Helper()
		g.is(want, `grep -o '\(audit\|nokaslr\|mitigations\)[=a-z0-9]*' /boot/grub/grub.cfg | sort -u | tr '\n' ' '`)
	}
	g.profile(args(`audit = "0", mitigations = "off"`))
	g.busbar(3, "apply", "--yes")
	inEntries("audit=0 mitigations=off")

	// One argument goes, one comes.
	g.profile(args(`audit = "0", nokaslr = ""`))
	g.sh("chattr +i /boot/grub/grub.cfg")
	g.busbar(4, "apply", "--yes").step("failed", grub, "/boot/grub/grub.cfg", "operation not permitted", "lsattr")
	d := g.busbar(2, "plan")
	for id, words := range map[string]string{
		"boot_args.next_boot": "nokaslr is not in force at the next boot, which changes when update-grub runs: GRUB's defaults are as wanted",
		"boot_args.left_over": "mitigations=off is in the boot entries and not in GRUB's defaults: update-grub has not run to its end since busbar changed them",
	} {
		if f := d.has("drift", id); f.Summary != words {
			t.Errorf("%s: %s", id, f.Summary)
		}
	}
	g.sh("chattr -i /boot/grub/grub.cfg")
	g.busbar(3, "apply", "--yes")
	inEntries("audit=0 nokaslr")

	// Everything goes, and a script of update-grub's fails.
	g.profile(bareNode)
	g.service("slurmd")
	g.file("/etc/grub.d/45_broken", "#!/bin/sh\necho broken >&2\nexit 1\n")
	g.sh("chmod +x /etc/grub.d/45_broken")
	g.busbar(4, "apply", "--yes").step("failed", grub, "update-grub: exit status 1", "broken")
	inEntries("audit=0 nokaslr")
	g.sh("rm /etc/grub.d/45_broken")
	g.busbar(0, "apply", "--yes")
	inEntries("")
	g.busbar(0, "apply", "--yes").noStep()
	g.torn()
}
