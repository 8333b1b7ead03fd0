package live

import (
	"os"
	"sync"
	"testing"

	"busbar/node"
)

// perGPU asks NVML all that plans ask about one GPU.
func perGPU(d drivers, address string) (known bool) {
	info, links, fabric := d.gpuState(address), d.nvLinks(address), d.gpuFabric(address)
	return info.IsKnown() && (links.IsKnown() || links.IsUnsupported()) && (fabric.IsKnown() || fabric.IsUnsupported())
}

// BenchmarkNVMLCalls is what busbar itself takes for a GPU with 18 NVLinks whose library answers at once, and how many calls
// it makes: of each GPU, and of each ordered pair.
func BenchmarkNVMLCalls(b *testing.B) {
	f := twoH200()
	d := nvidiaDrivers(b, f)
	calls := 0
	d.nvml = func() (nvml, error) { return countedNVML{f, &calls}, nil }
	b.Run("GPU", func(b *testing.B) {
		calls = 0
		for b.Loop() {
			if !perGPU(d, gpuA) {
				b.Fatal("no answer")
			}
		}
		b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
	})
	b.Run("pair", func(b *testing.B) {
		calls = 0
		for b.Loop() {
			if s, ok := d.p2p("").Get(); !ok || len(s.Pairs) != 2 {
				b.Fatal("no answer")
			}
		}
		b.ReportMetric(float64(calls)/float64(b.N)/2, "calls/pair")
	})
}

// BenchmarkNVML asks the library of this machine: its start, then each kind for one GPU after the other, then the pairs.
func BenchmarkNVML(b *testing.B) {
	if _, err := os.Stat(nvidiaVersion); err != nil {
		b.Skip("the NVIDIA driver is not loaded")
	}
	d := drivers{files: files{running: true}, nvml: sync.OnceValues(loadNVML)}
	gpus, err := d.names(nvidiaGPUs)
	if err != nil || len(gpus) == 0 {
		b.Skipf("no GPU: %v", err)
	}
	if v := d.nvmlLibrary(""); !v.IsKnown() {
		b.Fatal(v.Reason())
	}
	perGPU(d, gpus[0]) // the driver starts it
	for _, kind := range []struct {
		name string
		ask  func(address string) bool
	}{
		{node.GPUInfo.Name(), func(address string) bool { return d.gpuState(address).IsKnown() }},
		{node.NVLinks.Name(), func(address string) bool { v := d.nvLinks(address); return v.IsKnown() || v.IsUnsupported() }},
		{node.GPUFabric.Name(), func(address string) bool { v := d.gpuFabric(address); return v.IsKnown() || v.IsUnsupported() }},
		{"all", func(address string) bool { return perGPU(d, address) }},
	} {
		b.Run(kind.name+"/GPU", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if !kind.ask(gpus[i%len(gpus)]) {
					b.Fatal("no answer")
				}
			}
		})
	}
	b.Run(node.P2P.Name(), func(b *testing.B) {
		for b.Loop() {
			if v := d.p2p(""); !v.IsKnown() {
				b.Fatal(v.Reason())
			}
		}
		b.ReportMetric(float64(len(gpus)*(len(gpus)-1)), "pairs")
	})
}

// countedNVML and countedGPU count the calls.
type countedNVML struct {
	nvml
	calls *int
}

func (c countedNVML) text(call string) (string, error) { *c.calls++; return c.nvml.text(call) }

func (c countedNVML) gpu(address string) (nvmlGPU, error) {
	*c.calls++
	g, err := c.nvml.gpu(address)
	return countedGPU{g, c.calls}, err
}

type countedGPU struct {
	nvmlGPU
	calls *int
}

func (c countedGPU) text(call string) (string, error) { *c.calls++; return c.nvmlGPU.text(call) }

func (c countedGPU) number(call string) (int, error) { *c.calls++; return c.nvmlGPU.number(call) }

func (c countedGPU) modes(call string) (int, int, error) { *c.calls++; return c.nvmlGPU.modes(call) }

func (c countedGPU) pci() (nvmlPCI, error) { *c.calls++; return c.nvmlGPU.pci() }

func (c countedGPU) bar1() (uint64, uint64, error) { *c.calls++; return c.nvmlGPU.bar1() }

func (c countedGPU) field(id, scope int) (int, error) { *c.calls++; return c.nvmlGPU.field(id, scope) }

func (c countedGPU) link(call string, link int) (int, error) {
	*c.calls++
	return c.nvmlGPU.link(call, link)
}

func (c countedGPU) linkRemote(link int) (nvmlPCI, error) {
	*c.calls++
	return c.nvmlGPU.linkRemote(link)
}

func (c countedGPU) p2p(other nvmlGPU, capability int) (int, error) {
	*c.calls++
	return c.nvmlGPU.p2p(other.(countedGPU).nvmlGPU, capability)
}

func (c countedGPU) fabric() (nvmlFabric, error) { *c.calls++; return c.nvmlGPU.fabric() }
