//go:build e2e

package e2e

import "testing"

// wholeNode asks for something of everything that busbar can put right.
const wholeNode = passthrough + `
kernel_module "crc32_generic" {
  state = "loaded"
}

kernel_module "rdma_rxe" {
  state = "loaded"
}

kernel_module "pcspkr" {
  state = "unloaded"
}

sysctl "kernel.numa_balancing" {
  value = 0
}

limits "rdma" {
  memlock  = "unlimited"
  users    = ["*", "root"]
  services = ["slurmd", "containerd"]
}

service "nvidia-persistenced" {
  enabled = true
  active  = true
}

service "irqbalance" {
  enabled = false
  active  = false
}

nccl {
  settings = {
    NCCL_IB_TC = 104
  }
}
`

// drifted is a node that has nothing of wholeNode.
func (g *guest) drifted() {
	g.t.Helper()
	for _, name := range []string{"slurmd", "nvidia-persistenced", "irqbalance"} {
		g.service(name)
	}
	g.sh("systemctl enable --now slurmd irqbalance && modprobe pcspkr")
	g.profile(wholeNode)
}

// inForce expects wholeNode on the running node, as others than busbar see it.
func (g *guest) inForce() {
	g.t.Helper()
	g.is("0", "sysctl -n kernel.numa_balancing")
	g.is("unlimited unlimited", `awk '/Max locked memory/ {print $4, $5}' /proc/$(systemctl show -P MainPID slurmd)/limits`)
	g.is("unlimited", `su -s /bin/sh -c 'ulimit -l' nobody`)
	g.is("enabled active", `echo $(systemctl is-enabled nvidia-persistenced) $(systemctl is-active nvidia-persistenced)`)
	g.is("disabled inactive", `echo $(systemctl is-enabled irqbalance) $(systemctl is-active irqbalance)`)
	g.is("# BEGIN busbar\nNCCL_IB_TC=104\n# END busbar", "cat /etc/nccl.conf")
	g.is("crc32_generic rdma_rxe", `echo $(awk '$1 ~ /^(crc32_generic|pcspkr|rdma_rxe)$/ {print $1}' /proc/modules | sort)`)
	// The RDMA device that the modules are for.
	g.is("rxe0", "rdma link show | grep -q rxe0 || rdma link add rxe0 type rxe netdev enp0s3 && ls /sys/class/infiniband")
}

func TestFresh(t *testing.T) {
	g := scenario(t, "a fresh node is put right, owes a reboot, and is as wanted after it")
	g.modules("nvidia", "nvidia_peermem")
	g.drifted()
	g.profile(wholeNode + "\nkernel_module \"nvidia_peermem\" {\n  state = \"loaded\"\n}\n")
	g.iommuIs("DMA", "DMA-FQ")

	g.writesNothing(func() { g.busbar(2, "plan") })

	d := g.busbar(3, "apply", "--yes")
	d.has("pending-reboot", "boot_args.next_boot")
	g.inForce()
	g.iommuIs("DMA", "DMA-FQ")
	g.busbar(3, "apply", "--yes").noStep()
	g.busbar(3, "verify")

	g.reboot()
	g.busbar(0, "verify")
	g.iommuIs("identity")
	g.is("1", "grep -c '^nvidia_peermem ' /proc/modules")
	g.inForce()

	g.writesNothing(func() { g.busbar(0, "apply", "--yes").noStep() })
	g.torn()
}
