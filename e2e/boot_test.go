//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// unit writes a oneshot unit that runs a shell command at boot, and enables it.
func (g *guest) unit(name, section, command string) {
	g.t.Helper()
	g.file("/etc/systemd/system/"+name+".service", "[Unit]\n"+section+"\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c '"+command+"'\n[Install]\nWantedBy=multi-user.target\n")
	g.sh("systemctl enable " + name)
}

// says looks for a text in what busbar.service said in this boot.
func (g *guest) says(text string) {
	g.t.Helper()
	if journal := g.sh("journalctl -b -u busbar --no-pager -o cat"); !strings.Contains(journal, text) {
		g.t.Errorf("the journal of busbar.service lacks %q:\n%s", text, journal)
	}
}

// seconds is a point of time of this boot that systemd noted.
func (g *guest) seconds(unit, property string) float64 {
	g.t.Helper()
	text := strings.TrimSpace(g.sh("systemctl show -P " + property + " " + unit))
	us, err := strconv.ParseFloat(text, 64)
	if err != nil || us == 0 {
		g.t.Fatalf("%s of %s is %q", property, unit, text)
	}
	return us / 1e6
}

// TestBoot: what a boot loses or others undo is put right before jobs can come.
func TestBoot(t *testing.T) {
	g := scenario(t, "busbar.service puts right what a boot lost before kubelet starts, and starts units that wait for it")
	const saw = "echo $(sysctl -n kernel.numa_balancing) $(grep -c ^rdma_rxe /proc/modules) >/run/saw-"
	g.unit("vandal", "After=systemd-sysctl.service systemd-modules-load.service\nBefore=busbar.service", "sysctl -w kernel.numa_balancing=1; modprobe -r rdma_rxe")
	g.unit("containerd", "", saw+"containerd")
	g.unit("kubelet", "", saw+"kubelet")
	g.profile(`
sysctl "kernel.numa_balancing" {
  value = 0
}

kernel_module "crc32_generic" {
  state = "loaded"
}

kernel_module "rdma_rxe" {
  state = "loaded"
}

service "kubelet" {
  enabled = true
  active  = true
}

service "containerd" {
  active = true
}
`)
	g.busbar(0, "install")
	g.is("", "systemd-analyze verify /etc/systemd/system/busbar.service 2>&1")
	g.busbar(0, "apply", "--yes")
	g.sh("systemctl disable kubelet")

	g.reboot()
	g.is("0 1", "cat /run/saw-containerd")
	g.is("0 1", "cat /run/saw-kubelet")
	g.is("active enabled active", "echo $(systemctl is-active kubelet) $(systemctl is-enabled kubelet) $(systemctl is-active busbar)")
	g.says("set kernel.numa_balancing")
	g.says("load module rdma_rxe")
	g.says("enable and start kubelet.service")
	g.is("1", "systemctl show -P StatusText busbar | grep -c 'exit 0'")
	if took := g.seconds("busbar", "ExecMainExitTimestampMonotonic") - g.seconds("busbar", "ExecMainStartTimestampMonotonic"); took > 30 {
		t.Errorf("busbar.service took %.0f s", took)
	}
	g.busbar(0, "verify")

	g.busbar(0, "uninstall")
	g.is("not-found", "systemctl show -P LoadState busbar")
	g.is("0", "sysctl -n kernel.numa_balancing")
}

// loginIn is how soon a machine whose boot is in trouble must let people in. Emulated, it
// takes a third of that; what hangs would take an hour.
const loginIn = 150 // seconds

// modulesLoadIn is how much longer a module may take that hangs when systemd loads it.
const modulesLoadIn = 80 // seconds

// TestBootTrouble: what goes wrong with busbar holds up neither the boot nor jobs.
func TestBootTrouble(t *testing.T) {
	g := scenario(t, "a broken profile and a modprobe that hangs at boot: people can log in, kubelet starts, the journal has the reason")
	g.modules("nvidia", "nvidia_peermem")
	g.unit("kubelet", "", "true")
	g.profile("kernel_module \"nvidia_peermem\" {\n  state = \"loaded\"\n}\n")
	g.busbar(0, "install")
	g.busbar(0, "apply", "--yes")

	broken := func(in float64, says ...string) {
		t.Helper()
		g.sh("sync")
		g.restart() // systemd would wait three minutes for what hangs
		g.is("failed active", "echo $(systemctl is-active busbar) $(systemctl is-active kubelet)")
		if at := g.seconds("serial-getty@ttyS0", "ActiveEnterTimestampMonotonic"); at > in {
			t.Errorf("people can log in after %.0f s", at)
		}
		for _, text := range says {
			g.says(text)
		}
	}
	// systemd-modules-load hangs, for as long as install lets it.
	g.file("/etc/modprobe.d/site.conf", "options nvidia_peermem hang=3600\n")
	broken(loginIn+modulesLoadIn, "nvidia_peermem is being loaded: its init function has not returned")

	// busbar itself meets the module that hangs.
	g.sh("rm /etc/modules-load.d/busbar.conf")
	broken(loginIn, "modprobe nvidia_peermem: gave no answer in", "exit 4")

	// busbar has had the module loaded at boot again, where systemd waits for it for minutes.
	g.sh("rm /etc/modprobe.d/site.conf /etc/modules-load.d/busbar.conf")
	g.file("/etc/busbar/node.hcl", "sysctl \"kernel.numa_balancing\" {\n  value = \n}\n")
	broken(loginIn, "/etc/busbar/node.hcl:2")
	g.is("1", "systemctl show -P StatusText busbar | grep -c 'exit code 78'")
}
