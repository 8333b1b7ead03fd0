package proofs

import (
	"fmt"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
)

// P2PBandwidth is proof "p2p_bandwidth": whether GPUs move bytes to each other rightly, and as fast as the links between
// them let expect.
type P2PBandwidth struct{}

// The sizes of a copy in MiB: a small one measures the start of copies more than the way.
const (
	DefaultSizeMiB = 512
	MaxSizeMiB     = 16 << 10
)

// Spec of proof "p2p_bandwidth".
func (P2PBandwidth) Spec() plan.Spec {
	zero, one, most := int64(0), int64(1), int64(MaxSizeMiB)
	return plan.Spec{
		Name: "p2p_bandwidth", Proof: true, Label: plan.LabelRequired, LabelDoc: "a name of your own",
		Doc: "Copies between all pairs of GPUs, as busbar probe p2p makes them: every byte right, peer access, and the bandwidth of each pair one way. optional = [\"peer_access\"] lives with copies through host memory.",
		Attributes: []plan.Attribute{
			{Name: "min_gb_per_s", Type: cty.Number, Min: &zero, Fraction: true, Example: "350", Doc: "The least bandwidth of each pair one way, in GB/s of 10^9 bytes a second."},
			{Name: "min_ratio", Type: cty.Number, Min: &zero, Max: &one, Fraction: true, Example: "0.65", Doc: "The least part of the rate of the links between two GPUs that a copy one way must reach: of their NVLinks together, or else of PCIe."},
			{Name: "size_mib", Type: cty.Number, Min: &one, Max: &most, Default: cty.NumberIntVal(DefaultSizeMiB), Example: "64", Doc: "How many MiB are copied at once. Each GPU needs room for two copies, and for CUDA."},
		},
	}
}

type p2pBandwidthConfig struct {
	MinGBps  *float64 `cty:"min_gb_per_s"`
	MinRatio *float64 `cty:"min_ratio"`
	SizeMiB  *int     `cty:"size_mib"`
}

func configOf(b plan.Block) (c p2pBandwidthConfig, measurement string, err error) {
	if err := b.Decode(&c); err != nil {
		return c, "", err
	}
	if c.SizeMiB == nil { // withheld
		return c, strconv.Itoa(DefaultSizeMiB), nil
	}
	return c, strconv.Itoa(*c.SizeMiB), nil
}

// Queries are the measurement, and what the links between the GPUs can do.
func (P2PBandwidth) Queries(b plan.Block, inv node.Inventory) []node.Query {
	_, measurement, err := configOf(b)
	gpus, known := inv.GPUs().Get()
	if err != nil || inv.RootDirectory || known && len(gpus) < 2 {
		return nil
	}
	queries := []node.Query{node.P2PMeasurement.Query(measurement), node.P2P.Query("")}
	for _, g := range gpus {
		queries = append(queries, node.NVLinks.Query(g.Address), node.GPUInfo.Query(g.Address))
	}
	return queries
}

const bandwidthID = "p2p.bandwidth"

// Assess judges the measurement.
func (P2PBandwidth) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	c, measurement, err := configOf(b)
	if err != nil {
		return plan.Assessment{Findings: []plan.Finding{{ID: bandwidthID, Status: plan.Undetermined, Summary: err.Error()}}}
	}
	bus := facts.Inventory.GPUs()
	gpus, known := bus.Get()
	skipped := func(why string) plan.Assessment {
		return plan.Assessment{Findings: []plan.Finding{{ID: "p2p.gpus", Target: "gpus", Status: plan.Skipped, Summary: why}}}
	}
	switch {
	case facts.Inventory.RootDirectory:
		return skipped("hardware is not judged (--root)")
	case known && len(gpus) == 0:
		return skipped("no GPU on the PCI bus")
	case known && len(gpus) == 1:
		return skipped("there is one GPU, which has no peer")
	}
	v := node.P2PMeasurement.Get(facts, measurement)
	result, ok := v.Get()
	if !ok {
		f := plan.Unread("p2p.gpus", "whether GPUs move bytes to each other rightly", v)
		f.Target = "gpus"
		return plan.Assessment{Findings: []plan.Finding{f}}
	}
	a := plan.Assessment{Findings: Judge(result, Wanted{Address: b.Address, OnBus: Addresses(bus)})}
	for _, pair := range result.Pairs {
		if pair.OneWay == nil { // Judge says why
			continue
		}
		if c.MinGBps != nil {
			a.Findings = append(a.Findings, atLeast(pair, *c.MinGBps))
		}
		if c.MinRatio != nil {
			a.Findings = append(a.Findings, ofLinks(pair, *c.MinRatio, facts))
		}
	}
	return a
}

// Addresses are those of the GPUs.
func Addresses(v node.Value[[]node.GPU]) node.Value[[]string] {
	gpus, ok := v.Get()
	if !ok {
		return node.UnknownLike[[]string](v)
	}
	list := []string{}
	for _, g := range gpus {
		list = append(list, g.Address)
	}
	return node.Known(list, v.Source())
}

func gigabytes(v float64) string { return fmt.Sprintf("%.1f GB/s", v) }

// atLeast judges a pair against a number.
func atLeast(p p2p.Pair, least float64) plan.Finding {
	f := plan.Finding{
		ID: bandwidthID, Target: way(p), Status: plan.OK, Want: "at least " + gigabytes(least), Found: gigabytes(*p.OneWay),
		Summary: fmt.Sprintf("%s: %s", way(p), gigabytes(*p.OneWay)),
	}
	if *p.OneWay < least {
		f.Status, f.Fix = plan.Drift, slowFix
		f.Summary += ", wanted is " + gigabytes(least)
	}
	return f
}

// ofLinks judges a pair against what the links between its GPUs carry.
func ofLinks(p p2p.Pair, least float64, facts node.Facts) plan.Finding {
	const id = "p2p.bandwidth_of_links"
	v := linkRate(p.From, p.To, facts)
	links, ok := v.Get()
	if !ok {
		f := plan.Unread(id, fmt.Sprintf("%s: what the links between them carry", way(p)), v)
		f.Target = way(p)
		f.Fix = "say min_gb_per_s instead of min_ratio where the driver does not tell"
		f.Status = plan.Undetermined // also where the driver has no such answer: it cannot be judged
		return f
	}
	ratio := *p.OneWay / links.gbps
	f := plan.Finding{
		ID: id, Target: way(p), Status: plan.OK, Want: fmt.Sprintf("at least %g of it, %s", least, gigabytes(least*links.gbps)), Found: gigabytes(*p.OneWay), Source: v.Source(),
		Summary: fmt.Sprintf("%s: %s, %.2f of the %s that %s carries", way(p), gigabytes(*p.OneWay), ratio, gigabytes(links.gbps), links.kind),
	}
	if ratio < least {
		f.Status, f.Fix = plan.Drift, slowFix
		f.Summary += fmt.Sprintf(", wanted is %g", least)
	}
	return f
}

// links are those that the traffic between two GPUs takes.
type links struct {
	kind string
	gbps float64 // one way, GB/s
}

// linkRate is what the NVLinks between two GPUs carry together or, where they have none, the PCIe link of the GPU with the
// slower one. What lies between those links is not looked at.
func linkRate(from, to string, facts node.Facts) node.Value[links] {
	nvlinks := facts.NVLinkRateBetween(from, to)
	mbps, ok := nvlinks.Get()
	switch {
	case !ok:
		return node.UnknownLike[links](nvlinks)
	case mbps > 0:
		return node.Known(links{"NVLink", float64(mbps) / 1000}, nvlinks.Source())
	}
	slowest := links{kind: "PCIe"}
	var source node.Source
	for _, address := range []string{from, to} {
		v := pcieRate(node.GPUInfo.Get(facts, address))
		gbps, ok := v.Get()
		if !ok {
			return node.UnknownLike[links](v)
		}
		if slowest.gbps == 0 || gbps < slowest.gbps {
			slowest.gbps, source = gbps, v.Source()
		}
	}
	return node.Known(slowest, source)
}

// laneGBps is what a PCIe lane carries one way in GB/s, by generation, the encoding of bits deducted
// (PCIE_SPEED2MBS_ENC of drivers/pci/pci.h).
var laneGBps = [...]float64{1: 2.5 * 8 / 10 / 8, 2: 5. * 8 / 10 / 8, 3: 8. * 128 / 130 / 8, 4: 16. * 128 / 130 / 8, 5: 32. * 128 / 130 / 8, 6: 64. / 8}

// pcieRate is what a GPU's PCIe link carries one way at best in GB/s, as device and slot allow
// (nvmlDeviceGetMaxPcieLinkGeneration and nvmlDeviceGetMaxPcieLinkWidth are about both).
func pcieRate(v node.Value[node.GPUState]) node.Value[float64] {
	gpu, ok := v.Get()
	if !ok {
		return node.UnknownLike[float64](v)
	}
	generation, ok := gpu.PCIeMaxGeneration.Get()
	if !ok {
		return node.UnknownLike[float64](gpu.PCIeMaxGeneration)
	}
	width, ok := gpu.PCIeMaxWidth.Get()
	if !ok {
		return node.UnknownLike[float64](gpu.PCIeMaxWidth)
	}
	if generation < 1 || generation >= len(laneGBps) || width < 1 {
		return node.Unknown[float64](fmt.Sprintf("a link of generation %d with %d lanes is none", generation, width), v.Source())
	}
	return node.Known(laneGBps[generation]*float64(width), v.Source())
}
