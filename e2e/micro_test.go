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

// TestRefusedModule: the kernel refuses a module that was built for another RDMA stack.
func TestRefusedModule(t *testing.T) {
	g := micro(t, "a module that the kernel refuses fails the apply with the kernel's reason; a right one loads")
	g.modules("nvidia", "nvidia_peermem_unknown")
	g.profile("kernel_module \"nvidia_peermem\" {\n  state = \"loaded\"\n}\n")
	d := g.busbar(4, "apply", "--yes")
	d.has("drift", "kernel_module.running")
	if !strings.Contains(d.String(), "failed load-module:nvidia_peermem") || !strings.Contains(d.String(), "Unknown symbol") {
		t.Errorf("a module with a symbol that nobody has:\n%s", d)
	}

	g.modules("nvidia_peermem")
	g.busbar(0, "apply", "--yes")
	g.is("nvidia nvidia_peermem", `echo $(awk '/^nvidia/ {print $1}' /proc/modules | sort)`)
	g.busbar(0, "apply", "--yes").noStep()
}
