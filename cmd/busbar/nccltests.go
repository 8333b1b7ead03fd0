package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"busbar/internal/nccltests"
	"busbar/plan"
	"busbar/proofs"
	"busbar/report"
)

// ncclTestsFlags are the flags of probe nccl-tests.
type ncclTestsFlags struct {
	record, compare string
	minRatio        float64
	minSizeMiB      int64
}

// ncclTestsAddress is that of the findings of probe nccl-tests.
const ncclTestsAddress = "probe.nccl_tests"

func newProbeNCCLTests(c *console) *cobra.Command {
	var f ncclTestsFlags
	cmd := &cobra.Command{
		Use:   "nccl-tests FILE",
		Short: "Judge what all_reduce_perf and its siblings printed, and compare it with a baseline",
		Long: `Judge what a program of nccl-tests (all_reduce_perf and its siblings) printed into FILE,
- for standard input, or wrote there as JSON (its -J): whether every value was right,
whether it came to its end, and with --compare whether its bus bandwidth is still what it
was. busbar runs no such program: MPI, Slurm or Kubernetes does, on as many nodes as there
are. What mpirun and NCCL print between does not matter, nor do several runs in one file.

Rows of less than --min-size show latency, and are not compared. The baseline is a file that
--record wrote, or another output. A run is compared with the one of the same program over
as many ranks.

Exit codes: 0 every value is right and nothing is slower, 2 values are wrong, the program
gave up, or it is slower than the baseline allows, 8 something is not known, 1 an error, 64
usage.`,
		Example: "  mpirun -np 8 all_reduce_perf -b 1M -e 8G -f 2 | busbar probe nccl-tests - --record allreduce.json\n  busbar probe nccl-tests today.txt --compare allreduce.json --min-ratio 0.95",
		Args:    takes(1, 1, "file"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case math.IsNaN(f.minRatio) || f.minRatio <= 0 || f.minRatio > 1:
				return fmt.Errorf("--min-ratio %v is not above 0 and up to 1", f.minRatio)
			case f.minSizeMiB < 0 || f.minSizeMiB > math.MaxInt64>>20:
				return fmt.Errorf("--min-size %d is no size in MiB", f.minSizeMiB)
			}
			return c.probeNCCLTests(args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.record, "record", "", "write the result, where all is well, into `FILE` as a baseline")
	flags.StringVar(&f.compare, "compare", "", "compare with the baseline in `FILE`, - for standard input")
	flags.Float64Var(&f.minRatio, "min-ratio", 0.9, "the least part of the baseline's bus bandwidth that is as wanted, `RATIO`")
	flags.Int64Var(&f.minSizeMiB, "min-size", 1, "compare rows of at least so many `MiB`")
	return cmd
}

func (c *console) probeNCCLTests(file string, f ncclTestsFlags) error {
	result, err := c.readNCCLTests(file)
	if err != nil {
		return &exit{plan.ExitError, err}
	}
	var baseline *nccltests.Result
	if f.compare != "" {
		was, err := c.readNCCLTests(f.compare)
		if err != nil {
			return &exit{plan.ExitError, fmt.Errorf("--compare: %w", err)}
		}
		if err := was.Baseline(f.minSizeMiB << 20); err != nil {
			return &exit{plan.ExitError, fmt.Errorf("--compare: %s %w", f.compare, err)}
		}
		baseline = &was
	}
	if f.record != "" {
		if err := checkOutput(f.record); err != nil {
			return &exit{plan.ExitError, fmt.Errorf("--record: %w", err)}
		}
	}
	doc := report.NewNCCLTests(file, result, baseline, proofs.JudgeCollectives(result, proofs.WantedCollectives{
		Address: ncclTestsAddress, Baseline: baseline, MinRatio: f.minRatio, MinSize: f.minSizeMiB << 20,
	}))
	asJSON := func(w io.Writer) error { return report.WriteNCCLTestsJSON(w, doc) }
	err = c.result(func(w io.Writer, s report.Style) error { return report.WriteNCCLTests(w, doc, s) }, asJSON)
	if err == nil && f.record != "" {
		err = c.keepBaseline(f.record, doc.ExitCode == plan.ExitOK, asJSON)
	}
	return ended(doc.ExitCode, err)
}

func (c *console) readNCCLTests(file string) (result nccltests.Result, err error) {
	r, err := c.openInput(file)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if result, err = nccltests.Read(r); err != nil {
		return result, fmt.Errorf("%s %w", file, err)
	}
	return result, nil
}

// keepBaseline writes a document that others can be compared with; nothing where something is wrong with it.
func (c *console) keepBaseline(file string, good bool, asJSON func(io.Writer) error) error {
	if !good {
		fmt.Fprintf(c.err, "busbar: --record: %s was not written: this is no result to compare others with\n", file)
		return nil
	}
	var text bytes.Buffer
	err := asJSON(&text)
	if err == nil {
		err = c.writeOutput(file, text.Bytes())
	}
	if err != nil {
		return &exit{plan.ExitError, fmt.Errorf("--record: %w", err)}
	}
	return nil
}
