package proofs

import (
	"fmt"
	"slices"
	"strings"

	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
)

// Wanted is what a result is judged against.
type Wanted struct {
	// Address is that of the findings.
	Address string
	// OnBus are the addresses of the GPUs that the PCI bus shows.
	OnBus node.Value[[]string]
	// Selected are the addresses of those that it is about; none means all.
	Selected []string
	// StagedIsEnough tolerates pairs without peer access.
	StagedIsEnough bool
	// Baseline is an earlier result; nil for none.
	Baseline *p2p.Result
	// MinRatio is the least part of the baseline's bandwidth that is as wanted.
	MinRatio float64
}

// Judge says what a result proves, and what it does not.
func Judge(r p2p.Result, w Wanted) []plan.Finding {
	j := &judge{result: r, wanted: w}
	j.gpus()
	for _, p := range r.Pairs {
		j.data(p)
		j.peerAccess(p)
		if w.Baseline != nil {
			j.baseline(p)
		}
	}
	if w.Baseline != nil {
		j.missing()
	}
	return j.findings
}

type judge struct {
	result   p2p.Result
	wanted   Wanted
	findings []plan.Finding
}

func (j *judge) add(id, target string, status plan.Status, f plan.Finding) {
	f.ID, f.Address, f.Status, f.Target = id, j.wanted.Address, status, target
	if f.Severity == "" {
		f.Severity = plan.Error
	}
	j.findings = append(j.findings, f)
}

// way names a pair.
func way(p p2p.Pair) string { return p.From + " to " + p.To }

// gpus judges whether CUDA shows what the PCI bus does, and whether there is a pair.
func (j *judge) gpus() {
	r := j.result
	gpus, known := j.wanted.OnBus.Get()
	if len(j.wanted.Selected) > 0 {
		gpus, known = j.wanted.Selected, true
	}
	for _, address := range gpus {
		if r.CUDA != "" && !slices.ContainsFunc(r.GPUs, func(g p2p.GPU) bool { return g.Address == address }) {
			j.add("p2p.gpus", address, plan.Undetermined, plan.Finding{
				Summary: "nothing is known of GPU " + address + ": the PCI bus has it, and CUDA does not show it",
				Fix:     "look at nvidia-smi and for Xid in the kernel log; in a container, name the GPUs that it has (busbar probe p2p --gpu)",
			})
		}
	}
	switch {
	case r.CUDA == "":
		j.add("p2p.gpus", "", plan.Undetermined, plan.Finding{Summary: "nothing is known of the GPUs: " + r.Unknown})
	case !known:
		j.add("p2p.gpus", "", plan.Undetermined, plan.Finding{Summary: "it is not known which GPUs there are: " + j.wanted.OnBus.Reason()})
	case len(r.GPUs) == 0:
		j.add("p2p.gpus", "", plan.Undetermined, plan.Finding{Summary: "CUDA shows no GPU"})
	case len(r.GPUs) == 1 && len(gpus) < 2:
		j.add("p2p.gpus", "", plan.Skipped, plan.Finding{Summary: "one GPU, " + r.GPUs[0].Address + ", is no pair"})
	case r.Unknown != "" && len(r.Pairs) == 0:
		j.add("p2p.gpus", "", plan.Undetermined, plan.Finding{Summary: "not all was measured: " + r.Unknown})
	}
}

// data judges whether what arrived is what was sent.
func (j *judge) data(p p2p.Pair) {
	var compared int64
	var wrong []string
	for _, c := range p.Checks {
		compared += c.Bytes
		if c.Wrong > 0 && c.FirstWrong != nil {
			wrong = append(wrong, fmt.Sprintf("%s %d of %d, the first at offset %d", c.Transfer, c.Wrong, c.Bytes, *c.FirstWrong))
		}
	}
	if len(wrong) > 0 {
		j.add("p2p.data", way(p), plan.Drift, plan.Finding{
			Summary: way(p) + ": bytes arrive wrong: " + strings.Join(wrong, "; "),
			Want:    "every byte as it was sent",
			Found:   strings.Join(wrong, "; "),
			Why:     "no program is told that its data is wrong: a training run goes on, and its result is worthless",
			Fix:     "take the node out of service; look which GPU all wrong pairs share, for Xid in the kernel log, and at ACS and the IOMMU (busbar plan)",
		})
	}
	switch {
	case p.Unknown != "":
		j.add("p2p.data", way(p), plan.Undetermined, plan.Finding{Summary: fmt.Sprintf("%s: not all was measured: %s", way(p), p.Unknown)})
	case len(wrong) == 0:
		j.add("p2p.data", way(p), plan.OK, plan.Finding{Summary: fmt.Sprintf("%s: %s arrived as they were sent", way(p), p2p.Bytes(compared))})
	}
}

// muchSlower is the part of the bandwidth through host memory that peer access reaches at the
// least where nothing is wrong; both can be bound by the same PCIe link.
const muchSlower = 0.9

// peerAccess judges whether the GPUs reach each other, and are faster for it.
func (j *judge) peerAccess(p p2p.Pair) {
	switch {
	case p.PeerAccess == nil: // data says that not all was measured
	case !*p.PeerAccess:
		j.add("p2p.peer_access", way(p), plan.Unsupported, plan.Finding{
			Summary:   way(p) + ": the driver offers no peer access, what is copied goes through host memory",
			Why:       "NCCL and MPI fall back to host memory without an error, and are many times slower",
			Fix:       "look at nvidia-smi topo -p2p r, which says why; where it has to be so (GeForce, some virtual machines), say --staged-is-enough, or optional = [\"peer_access\"] in a proof",
			Feature:   "peer_access",
			Tolerated: j.wanted.StagedIsEnough,
		})
	case p.OneWay != nil && p.Staged != nil && *p.OneWay < *p.Staged*muchSlower:
		j.add("p2p.peer_access", way(p), plan.Drift, plan.Finding{
			Severity: plan.Warning,
			Summary:  fmt.Sprintf("%s: peer access is slower (%.1f GB/s) than the way through host memory (%.1f GB/s)", way(p), *p.OneWay, *p.Staged),
			Why:      "the way between the GPUs goes through the root complex, or a link is degraded",
			Fix:      "look at ACS on the ports between them (busbar plan), at busbar topo, and at the PCIe and NVLink state of both",
		})
	case p.OneWay != nil:
		j.add("p2p.peer_access", way(p), plan.OK, plan.Finding{Summary: fmt.Sprintf("%s: peer access, %.1f GB/s", way(p), *p.OneWay)})
	}
}

// slowFix is what to do about a pair that is slow.
const slowFix = "run it again on an idle node; then look at nvidia-smi nvlink -s, at the PCIe links (busbar plan) and at clocks (nvidia-smi -q -d PERFORMANCE)"

// baseline judges a pair against what it was.
func (j *judge) baseline(p p2p.Pair) {
	was, there := j.wanted.Baseline.Pair(p.From, p.To)
	if !there {
		j.add("p2p.baseline", way(p), plan.Undetermined, plan.Finding{
			Severity: plan.Warning,
			Summary:  way(p) + ": the baseline does not have this pair",
			Fix:      "record a new baseline once the GPUs are as they shall be",
		})
		return
	}
	for _, m := range []struct {
		what     string
		was, now *float64
	}{{"one way", was.OneWay, p.OneWay}, {"both ways", was.BothWays, p.BothWays}, {"peer access off", was.Staged, p.Staged}} {
		target := way(p) + ", " + m.what
		switch {
		case m.was == nil:
		case m.now == nil:
			if p.Unknown == "" { // else data says so
				j.add("p2p.baseline", target, plan.Drift, plan.Finding{
					Summary: fmt.Sprintf("%s: was %.1f GB/s, and is no longer possible", target, *m.was),
				})
			}
		case *m.now < *m.was*j.wanted.MinRatio:
			j.add("p2p.baseline", target, plan.Drift, plan.Finding{
				Summary: fmt.Sprintf("%s: was %.1f GB/s, is %.1f GB/s, %.2f of it", target, *m.was, *m.now, *m.now / *m.was),
				Want:    fmt.Sprintf("%.1f GB/s", *m.was*j.wanted.MinRatio),
				Found:   fmt.Sprintf("%.1f GB/s", *m.now),
				Fix:     slowFix,
			})
		default:
			j.add("p2p.baseline", target, plan.OK, plan.Finding{
				Summary: fmt.Sprintf("%s: was %.1f GB/s, is %.1f GB/s, %.2f of it", target, *m.was, *m.now, *m.now / *m.was),
			})
		}
	}
}

// missing judges whether the baseline's GPUs are all there, those that it is about.
func (j *judge) missing() {
	about := func(address string) bool {
		return len(j.wanted.Selected) == 0 || slices.Contains(j.wanted.Selected, address)
	}
	for _, p := range j.wanted.Baseline.Pairs {
		if _, there := j.result.Pair(p.From, p.To); there || !about(p.From) || !about(p.To) {
			continue
		}
		j.add("p2p.baseline", way(p), plan.Undetermined, plan.Finding{Summary: way(p) + ": the baseline has this pair, and it was not measured"})
	}
}
