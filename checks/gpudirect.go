package checks

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// GPUDirectRDMA is check "gpudirect_rdma": whether NICs can read and write GPU memory.
type GPUDirectRDMA struct{}

// The ways by which a NIC gets at GPU memory.
const (
	anyPath     = "any"
	peermemPath = "peermem"
	dmabufPath  = "dmabuf"
)

// Spec of check "gpudirect_rdma".
func (GPUDirectRDMA) Spec() plan.Spec {
	return plan.Spec{
		Name: "gpudirect_rdma", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "GPUDirect RDMA: NICs read and write GPU memory, through nvidia_peermem or through dma-buf. Without either NCCL copies through host memory and says so only in its debug log.",
		Attributes: []plan.Attribute{
			{
				Name: "path", Type: cty.String, Enum: []string{anyPath, peermemPath, dmabufPath}, Default: cty.StringVal(anyPath), Example: `"dmabuf"`,
				Doc: "peermem: the module nvidia_peermem is loaded and registered with the RDMA stack. dmabuf: the driver's modules are the open ones, and the kernel is 5.12 or newer. any: one of the two.",
			},
		},
	}
}

// Queries are the module, its registration and the driver.
func (GPUDirectRDMA) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	return []node.Query{node.Module.Query(peermemModule), node.Path.Query(peerClient), node.NVIDIADriver.Query("")}
}

const (
	peermemModule = "nvidia_peermem"
	// peerClient is made by ib_core when nvidia_peermem registers (MLNX_OFED, and Ubuntu's kernels).
	peerClient = "/sys/kernel/mm/memory_peers/nv_mem/version"
)

// Assess judges the ways that the block lets count.
func (GPUDirectRDMA) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c struct {
		Path string `cty:"path"`
	}
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	const id = "gpudirect_rdma.path"
	_, a, ok := gpusToJudge(id, facts)
	if !ok {
		return a
	}
	peermem, dmabuf := peermem(facts), dmabuf(facts)
	switch c.Path {
	case peermemPath:
		a.Findings = append(a.Findings, peermem)
	case dmabufPath:
		a.Findings = append(a.Findings, dmabuf)
	default:
		a.Findings = append(a.Findings, either(peermem, dmabuf))
		if peermem.ID == unregisteredID {
			a.Findings = append(a.Findings, peermem)
		}
	}
	return a
}

// either is the finding where one of two ways is enough.
func either(peermem, dmabuf plan.Finding) plan.Finding {
	f := plan.Finding{ID: "gpudirect_rdma.path", Target: "GPU memory", Want: "peermem or dma-buf"}
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

// unregisteredID is about a module that is loaded and does nothing, which NCCL does not see.
const unregisteredID = "gpudirect_rdma.unregistered"

// peermem judges the module and its registration.
func peermem(facts node.Facts) plan.Finding {
	v, registered := node.Module.Get(facts, peermemModule), node.Path.Get(facts, peerClient)
	module, ok := v.Get()
	client, told := registered.Get()
	f := plan.Finding{ID: "gpudirect_rdma.peermem", Target: peermemModule, Status: plan.OK, Source: v.Source(), Want: "loaded and registered", Found: "loaded and registered", Summary: peermemModule + " is loaded and registered"}
	switch {
	case !ok:
		f = plan.Unread(f.ID, "whether "+peermemModule+" is loaded", v)
	case !module.Loaded:
		f.Status, f.Found, f.Summary = plan.Drift, "not loaded", peermemModule+" is not loaded"
		f.Why = "NCCL copies through host memory, at a part of the rate, and says so only in its debug log"
		f.Fix = "modprobe nvidia-peermem; where that answers Invalid argument, the driver was built before the RDMA stack: build it again"
	case !told:
		f = plan.Unread(f.ID, "whether "+peermemModule+" is registered with the RDMA stack", registered)
	case !client.Exists:
		f.ID, f.Status, f.Found, f.Source = unregisteredID, plan.Drift, "loaded, not registered", node.Source{Path: peerClient}
		f.Summary = peermemModule + " is loaded and not registered with the RDMA stack"
		f.Why = "NCCL takes the module for enough, and registering GPU memory fails when a job runs"
		f.Fix = "the RDMA stack was loaded anew under it: modprobe -r nvidia_peermem, restart openibd, modprobe nvidia_peermem"
	}
	f.Target = peermemModule
	return f
}

// dmabuf judges the driver and the kernel.
func dmabuf(facts node.Facts) plan.Finding {
	const id = "gpudirect_rdma.dmabuf"
	v := node.NVIDIADriver.Get(facts, "")
	driver, ok := v.Get()
	release, told := facts.Inventory.Kernel.Get()
	f := plan.Finding{ID: id, Target: "dma-buf", Status: plan.OK, Source: v.Source(), Want: "the open driver, Linux 5.12 or newer", Found: flavour(driver.Open) + " driver, Linux " + release}
	f.Summary = "the open driver exports GPU memory as dma-buf"
	number, _, _ := strings.Cut(release, "-")
	order, err := compareVersions(strings.TrimRight(number, "+"), "5.12")
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
		f = plan.Unread(id, "which kernel runs", facts.Inventory.Kernel)
	case err != nil:
		f.Status, f.Summary = plan.Undetermined, "whether the kernel is 5.12 or newer is unknown: "+err.Error()
	case order < 0:
		f.Status, f.Summary = plan.Drift, "Linux "+release+" has no dma-buf for RDMA, which came with 5.12"
		f.Fix = "boot a newer kernel"
	}
	f.Target = "dma-buf"
	return f
}
