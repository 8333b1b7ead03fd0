package gpudirect

import (
	"fmt"

	"busbar/node"
	"busbar/plan"
)

// The ways by which a NIC gets at GPU memory, as profiles call them.
const (
	Any     = "any"
	Peermem = "peermem"
	DMABuf  = "dmabuf"
)

// NoGPU is the finding that there is no GPU memory to get at, or that it is not known or not judged; false where there are GPUs.
func NoGPU(id string, inv node.Inventory) (plan.Finding, bool) {
	f := plan.Finding{ID: id, Target: "GPU memory", Status: plan.Skipped, Summary: "no GPU on the PCI bus"}
	v := inv.GPUs()
	list, known := v.Get()
	switch {
	case inv.RootDirectory:
		f.Summary = "hardware is not judged (--root)"
	case !known:
		f = plan.Unread(id, "which GPUs there are", v)
		f.Target = "GPU memory"
	case len(list) > 0:
		return plan.Finding{}, false
	}
	return f, true
}

// WayQueries are what the ways are judged by: the module, its registration and the driver.
func WayQueries() []node.Query {
	return []node.Query{node.Module.Query(plan.PeerMemoryModule), node.Path.Query(plan.PeerMemoryClient), node.NVIDIADriver.Query("")}
}

// Ways are findings about the two ways on a running node, each judged as if it alone were wanted.
type Ways struct {
	block           string
	Peermem, DMABuf plan.Finding
	// Unregistered: nvidia_peermem is loaded and does nothing, which NCCL does not see.
	Unregistered bool
}

// JudgeWays judges both ways. The findings' ids begin with the name of the block type.
func JudgeWays(block string, facts node.Facts) Ways {
	w := Ways{block: block, DMABuf: dmabuf(block, facts)}
	w.Peermem, w.Unregistered = peermem(block, facts)
	return w
}

// Either is the finding where one of the two is enough.
func (w Ways) Either() plan.Finding {
	peermem, dmabuf := w.Peermem, w.DMABuf
	f := plan.Finding{ID: w.block + ".path", Target: "GPU memory", Want: "peermem or dma-buf"}
	switch {
	case dmabuf.Status == plan.OK:
		f.Status, f.Found, f.Summary, f.Source = plan.OK, "dma-buf", "NICs can get at GPU memory: "+dmabuf.Summary, dmabuf.Source
	case peermem.Status == plan.OK:
		f.Status, f.Found, f.Summary, f.Source = plan.OK, "peermem", "NICs can get at GPU memory: "+peermem.Summary, peermem.Source
	case peermem.Status == plan.Drift && dmabuf.Status == plan.Drift:
		f.Status, f.Found, f.Source = plan.Drift, "neither", peermem.Source
		f.Summary = fmt.Sprintf("NICs cannot get at GPU memory: %s, and %s", peermem.Summary, dmabuf.Summary)
		f.Why, f.Fix = peermem.Why, peermem.Fix+"; or "+dmabuf.Fix
	default:
		f.Status = plan.Undetermined
		f.Summary = fmt.Sprintf("whether NICs can get at GPU memory is unknown: %s, and %s", peermem.Summary, dmabuf.Summary)
	}
	return f
}

// peermem judges the module and its registration.
func peermem(block string, facts node.Facts) (f plan.Finding, unregistered bool) {
	const name = plan.PeerMemoryModule
	v, registered := node.Module.Get(facts, name), node.Path.Get(facts, plan.PeerMemoryClient)
	module, ok := v.Get()
	client, told := registered.Get()
	f = plan.Finding{ID: block + ".peermem", Status: plan.OK, Source: v.Source(), Want: "loaded and registered", Found: "loaded and registered", Summary: name + " is loaded and registered"}
	switch {
	case !ok:
		f = plan.Unread(f.ID, "whether "+name+" is loaded", v)
	case !module.Loaded:
		f.Status, f.Found, f.Summary = plan.Drift, "not loaded", name+" is not loaded"
		f.Why = "NCCL copies through host memory, at a part of the rate, and says so only in its debug log"
		f.Fix = "modprobe nvidia-peermem; where that answers Invalid argument, the driver was built before the RDMA stack: build it again"
	case !told:
		f = plan.Unread(f.ID, "whether "+name+" is registered with the RDMA stack", registered)
	case !client.Exists:
		unregistered = true
		f.ID, f.Status, f.Found, f.Source = block+".unregistered", plan.Drift, "loaded, not registered", node.Source{Path: plan.PeerMemoryClient}
		f.Summary = name + " is loaded and not registered with the RDMA stack"
		f.Why = "NCCL takes the module for enough, and registering GPU memory fails when a job runs"
		f.Fix = "the RDMA stack was loaded anew under it: modprobe -r nvidia_peermem, restart openibd, modprobe nvidia_peermem"
	}
	f.Target = name
	return f, unregistered
}

// dmabuf judges the driver and the kernel: only the open modules export GPU memory (nv-dmabuf.c of
// NVIDIA/open-gpu-kernel-modules), and RDMA takes a dma-buf since Linux 5.12 (drivers/infiniband/core/umem_dmabuf.c).
func dmabuf(block string, facts node.Facts) plan.Finding {
	id := block + ".dmabuf"
	v := node.NVIDIADriver.Get(facts, "")
	driver, ok := v.Get()
	release, _ := facts.Inventory.Kernel.Get()
	enough := facts.Inventory.KernelAtLeast(5, 12)
	recent, told := enough.Get()
	f := plan.Finding{ID: id, Status: plan.OK, Source: v.Source(), Want: "the open driver, Linux 5.12 or newer", Found: driver.Flavour() + " driver, Linux " + release}
	f.Summary = "the open driver exports GPU memory as dma-buf"
	switch {
	case !ok:
		f = plan.Unread(id, "whether the driver exports GPU memory as dma-buf", v)
	case !driver.Loaded:
		f.Status, f.Found, f.Summary = plan.Drift, "no driver", "the NVIDIA driver is not loaded"
		f.Fix = "load the NVIDIA driver"
	case !driver.Open:
		f.Status, f.Summary = plan.Drift, "the driver's modules are the proprietary ones, which export no dma-buf"
		f.Fix = "install the open flavour of the driver's kernel modules"
	case !told:
		f = plan.Unread(id, "whether the kernel is 5.12 or newer", enough)
	case !recent:
		f.Status, f.Summary = plan.Drift, "Linux "+release+" has no dma-buf for RDMA, which came with 5.12"
		f.Fix = "boot a newer kernel"
	}
	f.Target = "dma-buf"
	return f
}
