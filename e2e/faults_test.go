//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"busbar/e2e/lab"
)

// step expects a step with an outcome, whose error has all words.
func (d document) step(outcome, id string, words ...string) {
	d.guest.t.Helper()
	for _, s := range d.Run.Steps {
		if s.ID != id {
			continue
		}
		if s.Status != outcome {
			d.guest.t.Errorf("%s: wanted %s, got %s %s", id, outcome, s.Status, s.Error)
		}
		for _, word := range words {
			if !strings.Contains(s.Error, word) {
				d.guest.t.Errorf("%s: %q lacks %q", id, s.Error, word)
			}
		}
		return
	}
	d.guest.t.Fatalf("there is no step %s:\n%s", id, d)
}

// started is busbar --json at work in the guest.
type started struct {
	guest *guest
	args  []string
	ended chan lab.Result
}

// start starts busbar with --json.
func (g *guest) start(args ...string) started {
	s := started{g, args, make(chan lab.Result, 1)}
	go func() { s.ended <- g.Run(g.ctx, append([]string{"busbar", "--json"}, args...)...) }()
	return s
}

// ends waits for the end.
func (s started) ends(code int) (document, string) {
	s.guest.t.Helper()
	r := <-s.ended
	return s.guest.document(r, code, s.args...), r.Stderr
}

// until waits until a shell command succeeds.
func (g *guest) until(condition string) {
	g.t.Helper()
	g.sh("until " + condition + "; do sleep 0.05; done")
}

// updatesGRUB holds while update-grub is at work.
const updatesGRUB = "pgrep -x grub-mkconfig >/dev/null"

// fill takes all space of the root file system but a number of blocks.
func (g *guest) fill(free int) {
	g.t.Helper()
	g.sh(fmt.Sprintf(`mkdir /full && for i in $(seq %d); do head -c 4096 /dev/zero >/full/free-$i; done; sync
for size in 1G 100M 10M 1M 100K 4K; do n=0; while fallocate -l $size /full/$size-$n 2>/dev/null; do n=$((n+1)); done; done
rm -f /full/free-*; sync`, free))
}

// owned are the files of busbar's in the guest.
func (g *guest) owned() string {
	g.t.Helper()
	return strings.TrimSpace(g.sh("find /etc -xdev -name '*busbar*' -not -path '/etc/busbar*' | sort"))
}

// TestFullDisk: what cannot be written is told of, and what stands there stays whole.
func TestFullDisk(t *testing.T) {
	g := scenario(t, "on a full disk apply names each file and why, tears none, and converges once there is space")
	g.drifted()
	g.fill(0)
	d := g.busbar(4, "apply", "--yes")
	const full, advice = "no space left on device", "free blocks and inodes"
	for _, file := range []string{
		"/etc/default/grub.d/zz-busbar.cfg", "/etc/modprobe.d/zz-busbar.conf", "/etc/modules-load.d/busbar.conf", "/etc/nccl.conf",
		"/etc/security/limits.d/zz-busbar.conf", "/etc/sysctl.d/zz-busbar.conf", "/etc/systemd/system/slurmd.service.d/zz-busbar.conf",
	} {
		d.step("failed", "write-file:"+file, file, full, advice)
	}
	d.step("skipped", "update-grub:/boot/grub/grub.cfg", "it requires write-file:/etc/default/grub.d/zz-busbar.cfg")
	d.step("done", "set-sysctl:kernel.numa_balancing") // needs no disk
	if left := g.owned(); left != "" {
		t.Errorf("left behind: %s", left)
	}
	g.is("", "cat /etc/nccl.conf 2>/dev/null || true")
	g.sh("rm -r /full")
	g.busbar(3, "apply", "--yes")
	g.inForce()
	g.torn()

	// The boot entries are short and grow by a block: update-grub must not begin what it cannot end.
	const shorten = `sed '/^#/d;/^$/d;s/^[ \t]*//;s/ iommu=pt//' /boot/grub/grub.cfg >/root/old.cfg && cat /root/old.cfg >/boot/grub/grub.cfg && stat -c %b /boot/grub/grub.cfg`
	g.is("8", shorten) // blocks of 512 bytes
	g.fill(0)
	d = g.busbar(4, "apply", "--yes")
	d.step("failed", "update-grub:/boot/grub/grub.cfg", "/boot/grub/grub.cfg", full, advice)
	if f := d.has("drift", "boot_args.next_boot"); !strings.Contains(f.Summary, "changes when update-grub runs") {
		t.Errorf("that the fragment waits for update-grub is not told: %s", f.Summary)
	}
	g.is("", "cmp /boot/grub/grub.cfg /root/old.cfg 2>&1; ls /boot/grub/ | grep new || true")
	g.sh("rm -r /full")
	g.fill(2)
	g.busbar(3, "apply", "--yes")
	g.is("", "grub-script-check /boot/grub/grub.cfg 2>&1")
	g.sh("rm -r /full")
	g.busbar(3, "apply", "--yes").noStep()

	g.sh("rm /etc/sysctl.d/zz-busbar.conf && mount -t tmpfs -o nr_inodes=1 none /etc/sysctl.d")
	g.busbar(4, "apply", "--yes").step("failed", "write-file:/etc/sysctl.d/zz-busbar.conf", full, advice)
	g.sh("umount /etc/sysctl.d")
	g.busbar(3, "apply", "--yes")
	g.busbar(3, "apply", "--yes").noStep()
}

// TestReadOnly: what cannot be written is told by plan, and nothing is begun.
func TestReadOnly(t *testing.T) {
	g := scenario(t, "a read-only /etc, /boot or root is told by plan, and apply does the rest")
	g.drifted()
	noFile := func(d document, point string) {
		t.Helper()
		for _, id := range []string{"boot_args.next_boot", "kernel_module.boot", "limits.login", "limits.unit", "nccl.setting", "sysctl.boot"} {
			if f := d.has("unsupported", id); !strings.Contains(f.Summary, "cannot be written: "+point+" is mounted read-only") || f.Fix == "" {
				t.Errorf("%s: %s; %s", id, f.Summary, f.Fix)
			}
		}
	}
	g.sh("mount --bind /boot /boot && mount -o remount,bind,ro /boot")
	g.profile(passthrough)
	if f := g.busbar(2, "apply", "--yes").has("unsupported", "boot_args.next_boot"); !strings.Contains(f.Summary, "/boot/grub/grub.cfg cannot be written: /boot is mounted read-only") {
		t.Error(f.Summary)
	}
	if left := g.owned(); left != "" {
		t.Errorf("written although /boot is read-only: %s", left)
	}
	g.sh("umount /boot")

	g.sh("mount --bind /etc /etc && mount -o remount,bind,ro /etc")
	g.busbar(2, "apply", "--yes").noStep()
	g.sh("umount /etc")
	g.profile(wholeNode)
	g.sh("mount --bind /etc /etc && mount -o remount,bind,ro /etc")
	noFile(g.busbar(2, "plan"), "/etc")
	d := g.busbar(4, "apply", "--yes")
	noFile(d, "/etc")
	d.step("failed", "set-unit:irqbalance.service", "disabling irqbalance.service", "Read-only file system")
	d.step("done", "load-module:rdma_rxe")
	g.sh("umount /etc")

	g.sh("sync && echo u >/proc/sysrq-trigger && until grep -q ' / ext4 ro' /proc/mounts; do sleep 0.1; done")
	noFile(g.busbar(2, "plan"), "/")
	noFile(g.busbar(4, "apply", "--yes"), "/")
	g.sh("mount -o remount,rw /")
	g.busbar(3, "apply", "--yes")
	g.inForce()
	g.busbar(3, "apply", "--yes").noStep()
	g.torn()
}

// TestTools: programs and daemons that busbar hangs on are gone, lie or hang.
func TestTools(t *testing.T) {
	g := scenario(t, "without modprobe, update-grub, systemctl or D-Bus, or with ones that lie or hang, apply ends and says why")
	g.service("slurmd")
	g.profile(passthrough + "kernel_module \"nbd\" {\n  state = \"loaded\"\n}\nservice \"slurmd\" {\n  active = true\n}\n")
	without := func(file string, do func()) {
		t.Helper()
		g.sh("mv " + file + " " + file + ".away")
		do()
		g.sh("mv " + file + ".away " + file)
	}
	const grub, module, unit = "update-grub:/boot/grub/grub.cfg", "load-module:nbd", "set-unit:slurmd.service"

	g.sh("systemctl stop dbus.socket dbus.service")
	without("/run/systemd/private", func() {
		d := g.busbar(2, "plan")
		if f := d.has("unknown", "service.running"); !strings.Contains(f.Summary, "connecting to systemd") {
			t.Error(f.Summary)
		}
	})
	g.sh("systemctl start dbus.socket dbus.service")
	g.sh("kill -STOP $(pidof dbus-daemon)")
	if f := g.busbar(2, "plan").has("unknown", "service.running"); !strings.Contains(f.Summary, "no answer within 10s from systemd") {
		t.Error(f.Summary)
	}
	g.sh("kill -CONT $(pidof dbus-daemon)")

	without("/usr/sbin/modprobe", func() {
		without("/usr/sbin/update-grub", func() {
			without("/usr/bin/systemctl", func() {
				d := g.busbar(4, "apply", "--yes")
				if f := d.has("unsupported", "boot_args.next_boot"); !strings.Contains(f.Summary, "there is no update-grub") || f.Fix != "install grub2-common" {
					t.Errorf("%s; %s", f.Summary, f.Fix)
				}
				d.step("failed", module, "there is no modprobe in /usr/sbin:")
				d.step("done", unit)
			})
			g.sh("ln -s /bin/true /usr/sbin/update-grub")
			d := g.busbar(4, "apply", "--yes")
			d.step("failed", grub, "it was done, yet reads back as: iommu=pt is not in force")
			d.step("failed", module, "there is no modprobe")
			g.sh("rm /usr/sbin/update-grub")
		})
		g.sh("ln -s /bin/true /usr/sbin/modprobe")
		g.busbar(4, "apply", "--yes").step("failed", module, "it was done, yet reads back as: not loaded")
		g.sh("rm /usr/sbin/modprobe")
	})
	g.busbar(3, "apply", "--yes")
	g.busbar(3, "apply", "--yes").noStep()
}
