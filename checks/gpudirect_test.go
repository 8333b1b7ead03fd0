package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestGPUDirectRDMA(t *testing.T) {
	by := func(path string) string { return `check "gpudirect_rdma" "all" { path = "` + path + `" }` }
	peermem := func(b *box) { b.modules["nvidia_peermem"], b.registered = true, true }
	unregistered := func(b *box) { b.modules["nvidia_peermem"] = true }
	proprietary := drive(func(s *node.NVIDIADriverState) { s.Open = false })
	kernel := func(release string) func(*box) { return func(b *box) { b.kernel = release } }
	const path, module, exported = " gpudirect_rdma.path GPU memory (/sys)\n", " nvidia_peermem (/sys)\n", " gpudirect_rdma.dmabuf dma-buf (/sys)\n"
	const lost = "drift gpudirect_rdma.unregistered nvidia_peermem (/sys/kernel/mm/memory_peers/nv_mem/version)\n"
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("any, the open driver", by("any"), hgx(1), "ok"+path, "NICs can get at GPU memory: the open driver exports GPU memory as dma-buf"),
		judge("any, peermem", by("any"), hgx(1, proprietary, peermem), "ok"+path, "NICs can get at GPU memory: nvidia_peermem is loaded and registered"),
		judge("any, neither", by("any"), hgx(1, proprietary), "drift"+path, "NICs cannot get at GPU memory: nvidia_peermem is not loaded, and the driver's modules are the proprietary ones, which export no dma-buf", "where that answers Invalid argument, the driver was built before the RDMA stack"),
		judge("any, an old kernel", by("any"), hgx(1, kernel("5.4.0-190-generic")), "drift"+path, "Linux 5.4.0-190-generic has no dma-buf for RDMA, which came with 5.12"),
		// The RDMA stack was restarted: the module stayed, its client is gone.
		judge("any, loaded and not registered", by("any"), hgx(1, proprietary, unregistered), "drift gpudirect_rdma.path GPU memory (/sys/kernel/mm/memory_peers/nv_mem/version)\n"+lost, "modprobe -r nvidia_peermem, restart openibd, modprobe nvidia_peermem"),
		judge("any, not registered beside dma-buf", by("any"), hgx(1, unregistered), "ok"+path+lost),

		judge("peermem", by("peermem"), hgx(1, peermem), "ok gpudirect_rdma.peermem"+module),
		judge("peermem, not loaded", by("peermem"), hgx(1), "drift gpudirect_rdma.peermem"+module, "nvidia_peermem is not loaded"),
		judge("peermem, not registered", by("peermem"), hgx(1, unregistered), lost, "nvidia_peermem is loaded and not registered with the RDMA stack"),
		judge("peermem, unknown", by("peermem"), hgx(1).With(node.Module.Answer("nvidia_peermem", denied[node.ModuleState]())), "unknown gpudirect_rdma.peermem"+module),
		judge("peermem, its client is unknown", by("peermem"), hgx(1, peermem).With(node.Path.Answer("/sys/kernel/mm/memory_peers/nv_mem/version", denied[node.PathState]())), "unknown gpudirect_rdma.peermem"+module, "whether nvidia_peermem is registered with the RDMA stack is unknown"),

		judge("dma-buf", by("dmabuf"), hgx(1), "ok"+exported),
		judge("dma-buf, peermem does not count", by("dmabuf"), hgx(1, proprietary, peermem), "drift"+exported, "install the open flavour of the driver's kernel modules"),
		judge("dma-buf, the first kernel that has it", by("dmabuf"), hgx(1, kernel("5.12.0-051200-generic")), "ok"+exported),
		judge("dma-buf, the last kernel that has it not", by("dmabuf"), hgx(1, kernel("5.11.22-051122-generic")), "drift"+exported, "boot a newer kernel"),
		judge("dma-buf, a kernel that somebody built", by("dmabuf"), hgx(1, kernel("6.1.0+")), "ok"+exported),
		judge("dma-buf, a kernel of another name", by("dmabuf"), hgx(1, kernel("next")), "unknown"+exported, "whether the kernel is 5.12 or newer is unknown"),
		judge("dma-buf, the driver is not loaded", by("dmabuf"), hgx(1, drive(func(s *node.NVIDIADriverState) { *s = node.NVIDIADriverState{} })), "drift"+exported, "the NVIDIA driver is not loaded\nload the NVIDIA driver"),
		judge("dma-buf, the driver is unknown", by("dmabuf"), hgx(1, func(b *box) { b.driver = denied[node.NVIDIADriverState]() }), "unknown"+exported),
		judge("any, one is unknown and the other not there", by("any"), hgx(1, func(b *box) { b.driver = denied[node.NVIDIADriverState]() }), "unknown gpudirect_rdma.path GPU memory ()", "whether NICs can get at GPU memory is unknown: nvidia_peermem is not loaded, and whether the driver exports GPU memory as dma-buf is unknown: permission denied"),
		judge("any, one is unknown and the other there", by("any"), hgx(1, peermem, func(b *box) { b.driver = denied[node.NVIDIADriverState]() }), "ok"+path),
	})
}
