package proofs

import (
	"fmt"
	"slices"

	"busbar/internal/nccltests"
	"busbar/internal/p2p"
	"busbar/plan"
)

// WantedCollectives is what runs of nccl-tests are judged against.
type WantedCollectives struct {
	// Address is that of the findings.
	Address string
	// Baseline is an earlier result; nil for none.
	Baseline *nccltests.Result
	// MinRatio is the least part of the baseline's bus bandwidth that is as wanted.
	MinRatio float64
	// MinSize in bytes: smaller rows show latency, and are not compared.
	MinSize int64
}

// JudgeCollectives says what runs of nccl-tests prove, and what they do not.
func JudgeCollectives(r nccltests.Result, w WantedCollectives) []plan.Finding {
	j := &collectives{wanted: w}
	for i, run := range r.Runs {
		j.name = run.Name()
		if len(r.Runs) > 1 {
			j.name = fmt.Sprintf("run %d, %s", i+1, j.name)
		}
		moved := j.run(run)
		j.data(run)
		if w.Baseline != nil && moved {
			j.baseline(run)
		}
	}
	if w.Baseline != nil {
		j.missing(r)
	}
	return j.findings
}

type collectives struct {
	wanted   WantedCollectives
	findings []plan.Finding
	// name of the run that is judged.
	name string
}

func (j *collectives) add(id, target string, status plan.Status, f plan.Finding) {
	f.ID, f.Address, f.Status, f.Target = "nccl_tests."+id, j.wanted.Address, status, target
	if f.Severity == "" {
		f.Severity = plan.Error
	}
	j.findings = append(j.findings, f)
}

// run judges whether the program came to its end, and reports whether it moved bytes between GPUs.
func (j *collectives) run(run nccltests.Run) bool {
	best := 0.0
	for _, row := range run.Rows {
		for _, m := range halves(row) {
			best = max(best, m.BusBW)
		}
	}
	switch {
	case run.Failure != "":
		j.add("run", j.name, plan.Drift, plan.Finding{
			Summary: fmt.Sprintf("%s gave up: %s", j.name, run.Failure), Want: "a run to its end", Found: run.Failure,
			Fix: "run it again with NCCL_DEBUG=WARN, which says why",
		})
	case run.Broken > 0:
		j.add("run", j.name, plan.Undetermined, plan.Finding{
			Summary: fmt.Sprintf("%s: %d of its rows cannot be read", j.name, run.Broken),
			Fix:     "keep other output apart: leave out NCCL_DEBUG, or give it a file (NCCL_DEBUG_FILE)",
		})
	case run.OutOfBounds == nil:
		j.add("run", j.name, plan.Undetermined, plan.Finding{Summary: j.name + ": its end is missing, where it says how many values were wrong"})
	case best == 0:
		j.add("run", j.name, plan.Undetermined, plan.Finding{
			Summary: j.name + ": its bus bandwidth is 0: no process had more than one rank, and nothing was moved between GPUs",
			Fix:     "build nccl-tests with MPI=1, or give one process all GPUs (-g 8)",
		})
	default:
		j.add("run", j.name, plan.OK, plan.Finding{Summary: fmt.Sprintf("%s: up to %.1f GB/s bus bandwidth%s", j.name, best, ranks(run))})
	}
	return best > 0
}

func ranks(run nccltests.Run) string {
	if run.Size() == 0 {
		return ""
	}
	return fmt.Sprintf(" over %d ranks", run.Size())
}

// halves are what was measured of a row.
func halves(row nccltests.Row) []nccltests.Measure {
	var all []nccltests.Measure
	for _, m := range []*nccltests.Measure{row.OutOfPlace, row.InPlace} {
		if m != nil {
			all = append(all, *m)
		}
	}
	return all
}

// data judges whether the values were right: by the rows, and by the sum that the program printed.
func (j *collectives) data(run nccltests.Run) {
	var wrong, inRows int64
	var sizes []int64
	compared := false
	for _, row := range run.Rows {
		for _, m := range halves(row) {
			if m.Wrong == nil {
				continue
			}
			compared = true
			if *m.Wrong > 0 {
				inRows += min(*m.Wrong, 1<<40)
				sizes = append(sizes, row.Size)
			}
		}
	}
	// What the program counts as wrong are values where it can, and rows in versions that print their error alone.
	if wrong = inRows; wrong == 0 && run.OutOfBounds != nil {
		wrong = *run.OutOfBounds
	}
	switch {
	case wrong > 0:
		found := fmt.Sprintf("%d", wrong)
		if len(sizes) > 0 {
			found += ", the first at a size of " + p2p.Bytes(sizes[0])
		}
		j.add("data", j.name, plan.Drift, plan.Finding{
			Summary: fmt.Sprintf("%s: values are wrong: %s", j.name, found), Want: "every value as it was computed", Found: found,
			Why: "no program is told that its data is wrong: a training run goes on, and its result is worthless",
			Fix: "take the node out of service; busbar probe p2p says between which GPUs bytes arrive wrong; look at ACS and the IOMMU (busbar plan), and for Xid in the kernel log",
		})
	case !compared && !checkedBySum(run):
		j.add("data", j.name, plan.Undetermined, plan.Finding{
			Summary: j.name + ": values were not compared", Fix: "leave out -c 0: nccl-tests compares unless told otherwise",
		})
	default:
		j.add("data", j.name, plan.OK, plan.Finding{Summary: j.name + ": every value is right"})
	}
}

// checkedBySum reports a run of which the sum alone says that values were compared: versions that print the largest error
// instead of how many were wrong. Where nothing is compared they print N/A, which leaves no error either, so that the sum is 0.
func checkedBySum(run nccltests.Run) bool { return run.OutOfBounds != nil && run.Errors }

// baseline judges the rows of a run against those of the same program before.
func (j *collectives) baseline(run nccltests.Run) {
	was, found := j.counterpart(run)
	if !found {
		j.add("baseline", j.name, plan.Undetermined, plan.Finding{
			Severity: plan.Warning, Summary: j.name + ": the baseline has no run of it over as many ranks", Fix: "record a new baseline once all is as it shall be",
		})
		return
	}
	least, slow, compared := 0.0, false, 0
	for _, row := range run.Rows {
		i := slices.IndexFunc(was.Rows, row.Alike)
		if row.Size < j.wanted.MinSize || i < 0 {
			continue
		}
		for _, half := range []struct {
			what     string
			was, now *nccltests.Measure
		}{{"out of place", was.Rows[i].OutOfPlace, row.OutOfPlace}, {"in place", was.Rows[i].InPlace, row.InPlace}} {
			if half.was == nil || half.now == nil || half.was.BusBW == 0 {
				continue
			}
			ratio := half.now.BusBW / half.was.BusBW
			if compared == 0 || ratio < least {
				least = ratio
			}
			compared++
			if ratio >= j.wanted.MinRatio {
				continue
			}
			slow = true
			target := fmt.Sprintf("%s, %s, %s", j.name, p2p.Bytes(row.Size), half.what)
			j.add("baseline", target, plan.Drift, plan.Finding{
				Summary: fmt.Sprintf("%s: was %.1f GB/s, is %.1f GB/s, %.2f of it", target, half.was.BusBW, half.now.BusBW, ratio),
				Want:    fmt.Sprintf("%.1f GB/s", half.was.BusBW*j.wanted.MinRatio), Found: fmt.Sprintf("%.1f GB/s", half.now.BusBW),
				Fix: "run it again on idle nodes; NCCL_DEBUG=INFO says which way bytes went (P2P, SHM, NET/IB with or without GDRDMA); then look at links and clocks (busbar plan)",
			})
		}
	}
	switch {
	case compared == 0:
		j.add("baseline", j.name, plan.Undetermined, plan.Finding{Summary: fmt.Sprintf("%s: the baseline has none of its sizes from %s on", j.name, p2p.Bytes(j.wanted.MinSize))})
	case !slow:
		j.add("baseline", j.name, plan.OK, plan.Finding{Summary: fmt.Sprintf("%s: at least %.2f of the baseline's bus bandwidth at each size from %s on", j.name, least, p2p.Bytes(j.wanted.MinSize))})
	}
}

// counterpart is the baseline's run of the same program over as many ranks, as far as both say so.
func (j *collectives) counterpart(run nccltests.Run) (nccltests.Run, bool) {
	i := slices.IndexFunc(j.wanted.Baseline.Runs, func(was nccltests.Run) bool { return sameProgram(was, run) })
	if i < 0 {
		return nccltests.Run{}, false
	}
	return j.wanted.Baseline.Runs[i], true
}

func sameProgram(a, b nccltests.Run) bool {
	return (a.Collective == b.Collective || a.Collective == "" || b.Collective == "") &&
		(a.Size() == b.Size() || a.Size() == 0 || b.Size() == 0)
}

// missing judges whether the baseline's rows were all measured again.
func (j *collectives) missing(r nccltests.Result) {
	for _, was := range j.wanted.Baseline.Runs {
		i := slices.IndexFunc(r.Runs, func(run nccltests.Run) bool { return sameProgram(was, run) })
		if i < 0 {
			j.add("baseline", was.Name(), plan.Undetermined, plan.Finding{Summary: fmt.Sprintf("%s: the baseline has this run%s, and it was not made again", was.Name(), ranks(was))})
			continue
		}
		for _, row := range was.Rows {
			if row.Size >= j.wanted.MinSize && !slices.ContainsFunc(r.Runs[i].Rows, row.Alike) {
				target := fmt.Sprintf("%s, %s", was.Name(), p2p.Bytes(row.Size))
				j.add("baseline", target, plan.Undetermined, plan.Finding{Summary: target + ": the baseline has this size, and it was not measured"})
			}
		}
	}
}
