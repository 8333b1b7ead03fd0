//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestKeptOutModules: lines of others in modprobe.d against a module of the profile.
func TestKeptOutModules(t *testing.T) {
	g := scenario(t, "blacklist and install lines against the profile are named, and taken over when that is asked for")
	const site = "/etc/modprobe.d/site.conf"
	nbd := func(more string) string { return "kernel_module \"nbd\" {\n  state = \"loaded\"\n" + more + "}\n" }
	g.profile(nbd(""))

	g.file(site, "# site\nblacklist nbd\n")
	g.busbar(2, "apply", "--yes").blames("conflict", "kernel_module.boot", site, 2)
	g.is("1", "grep -c '^nbd ' /proc/modules") // a blacklist stops aliases only

	g.sh("modprobe -r nbd")
	g.file(site, "install nbd /bin/false\n")
	g.busbar(2, "apply", "--yes").noStep()

	g.profile(nbd("  take_over = true\n"))
	g.busbar(0, "apply", "--yes")
	g.is("install nbd /bin/false", "cat "+site+".busbar-backup")
	g.is("", "cat "+site)
	g.is("1", "grep -c '^nbd ' /proc/modules")
	g.busbar(0, "apply", "--yes").noStep()

	g.profile("kernel_module \"no_such_module\" {\n  state = \"loaded\"\n}\n")
	g.busbar(2, "apply", "--yes").has("unsupported", "kernel_module.running")
	g.is("", "grep nbd /etc/modules-load.d/* || true")
}

// TestUnits: everything that is asked of systemd, over the bus and without it.
func TestUnits(t *testing.T) {
	g := scenario(t, "units are enabled, started, masked and restarted, with and without a bus")
	g.service("slurmd")
	g.service("nv_peer_mem")
	g.sh("systemctl start slurmd nv_peer_mem")
	limited := `
limits "rdma" {
  memlock  = "unlimited"
  users    = []
  services = ["slurmd"]
}
`
	states := func(name, enabled, active string) string {
		return "\nservice \"" + name + "\" {\n  enabled = " + enabled + "\n  active  = " + active + "\n}\n"
	}
	memlock := `awk '/Max locked memory/ {print $4}' /proc/$(systemctl show -P MainPID slurmd)/limits`
	for _, bus := range []string{"with a bus", "without a bus"} {
		if bus == "without a bus" {
			g.sh("systemctl stop dbus.socket dbus.service")
		}
		g.profile(limited + states("slurmd", "true", "true") + states("nv_peer_mem", "false", "false"))
		g.busbar(0, "apply", "--yes")
		g.is("unlimited", memlock)
		g.is("enabled", "systemctl is-enabled slurmd")
		g.is("inactive", "systemctl is-active nv_peer_mem || true")
		g.busbar(0, "apply", "--yes").noStep()

		// A block that is dropped leaves nothing, in systemd neither.
		g.profile(states("slurmd", "false", "true") + states("nv_peer_mem", "true", "true"))
		g.busbar(0, "apply", "--yes")
		g.is("no", "systemctl show -P NeedDaemonReload slurmd")
		g.is("8388608", "systemctl show -P LimitMEMLOCK slurmd")
		g.is("active", "systemctl is-active nv_peer_mem")
		g.sh("systemctl restart slurmd")
	}

	g.file("/etc/systemd/system/broken.service", "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n")
	g.profile(states("broken", "true", "true"))
	d := g.busbar(4, "apply", "--yes")
	if !strings.Contains(d.String(), "failed") {
		t.Errorf("a service that ends at once:\n%s", d)
	}
}

// TestTwoApplies: the second one is refused and names the first.
func TestTwoApplies(t *testing.T) {
	g := scenario(t, "of two applies at once the second one is refused, and plan is not")
	g.profile(passthrough)
	g.sh("busbar apply --yes >/root/first 2>&1 & until [ -e /run/busbar/lock.json ]; do sleep 0.05; done")
	second := g.Run(g.ctx, "busbar", "apply", "--yes")
	if second.Code != 6 || !strings.Contains(second.Stderr, "another run holds the lock: process ") {
		t.Errorf("the second apply: %s", second)
	}
	g.busbar(2, "plan")
	g.sh("while [ -e /run/busbar/lock.json ]; do sleep 0.2; done")
	g.busbar(3, "apply", "--yes").noStep()
}
