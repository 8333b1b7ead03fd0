//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestNoSystemd: a node with a kernel and little else.
func TestNoSystemd(t *testing.T) {
	g := micro(t, "without systemd and an IOMMU the rest of the profile is put right, and the run says what is not")
	g.profile(wholeNode)
	d := g.busbar(2, "apply", "--yes")
	d.has("unsupported", "iommu.off")
	d.has("skipped", "service.not_installed")

	g.is("0", "sysctl -n kernel.numa_balancing")
	g.is("# BEGIN busbar\nNCCL_IB_TC=104\n# END busbar", "cat /etc/nccl.conf")
	g.is("crc32_generic rdma_rxe", `echo $(awk '$1 ~ /^(crc32_generic|rdma_rxe)$/ {print $1}' /proc/modules | sort)`)
	g.is("rxe0", "ip link add rail0 type dummy && rdma link add rxe0 type rxe netdev rail0 && ls /sys/class/infiniband")

	g.writesNothing(func() { g.busbar(2, "apply", "--yes").noStep() })
	g.is("", "find /etc -name '.busbar-*'")
}

// peermem wants nvidia_peermem in a state, and a sysctl besides.
func peermem(state string) string {
	return "kernel_module \"nvidia_peermem\" {\n  state = \"" + state + "\"\n  boot = \"unmanaged\"\n}\n\nsysctl \"kernel.numa_balancing\" {\n  value = 0\n}\n"
}

// TestRefusedModule: a module refuses, in each of its ways. The reason is told in words and the rest
// of the profile is applied.
func TestRefusedModule(t *testing.T) {
	g := micro(t, "a module that refuses, in each of its ways: the reason in words, the rest applied; a right one loads")
	g.modules("nvidia", "nvidia_peermem_unknown")
	g.profile(peermem("loaded"))
	refused := func(code int, texts ...string) {
		t.Helper()
		g.sh("sysctl -w kernel.numa_balancing=1")
		d := g.busbar(code, "apply", "--yes")
		d.has("drift", "kernel_module.running")
		for _, text := range append(texts, "failed load-module:nvidia_peermem", "done set-sysctl:kernel.numa_balancing") {
			if !strings.Contains(d.String(), text) {
				t.Errorf("%q is not said:\n%s", text, d)
			}
		}
		g.is("0", "sysctl -n kernel.numa_balancing")
	}
	refused(4, "Unknown symbol", "built against another kernel or, as an RDMA module, against another ib_core")

	g.modules("nvidia_peermem")
	options := func(text string) { g.file("/etc/modprobe.d/site.conf", "options nvidia_peermem "+text+"\n") }
	options("refuse=22")
	refused(4, "Invalid argument", "built without peer-memory symbols")
	options("refuse=19")
	refused(4, "No such device", "the hardware that it drives is not there")
	g.busbar(2, "plan").has("drift", "kernel_module.running")

	options("held=1")
	g.busbar(0, "apply", "--yes")
	g.is("nvidia nvidia_peermem", `echo $(awk '/^nvidia/ {print $1}' /proc/modules | sort)`)
	g.busbar(0, "apply", "--yes").noStep()
	g.profile(peermem("unloaded"))
	g.busbar(2, "apply", "--yes").has("conflict", "kernel_module.running")
	g.sh("echo N > /sys/module/nvidia_peermem/parameters/held")
	g.busbar(0, "apply", "--yes")
	g.is("0", "grep -c nvidia_peermem /proc/modules || true")
}

// TestHangingModule: a modprobe in state D is given up, and dies with the machine only.
func TestHangingModule(t *testing.T) {
	g := micro(t, "a modprobe that hangs in state D is given up in time, the rest is applied, and plan and verify do not hang")
	g.modules("nvidia", "nvidia_peermem")
	g.file("/etc/modprobe.d/site.conf", "options nvidia_peermem hang=3600\n")
	g.profile(peermem("loaded"))
	g.sh("sysctl -w kernel.numa_balancing=1")
	d := g.busbar(4, "apply", "--yes", "--timeout=20s")
	for _, text := range []string{"modprobe nvidia_peermem: gave no answer in", "was abandoned"} {
		if !strings.Contains(d.String(), text) {
			t.Errorf("%q is not said:\n%s", text, d)
		}
	}
	g.is("D", "awk '/^State/ {print $2}' /proc/$(pidof modprobe)/status")
	for _, command := range []string{"plan", "verify"} {
		if f := g.busbar(2, command).has("drift", "kernel_module.running"); !strings.Contains(f.Summary, "its init function has not returned") {
			t.Errorf("%s says %q", command, f.Summary)
		}
	}
	g.busbar(2, "apply", "--yes")
	g.is("0", "sysctl -n kernel.numa_balancing")
}
