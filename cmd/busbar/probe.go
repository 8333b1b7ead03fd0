package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"busbar/internal/p2p"
	"busbar/node"
	"busbar/plan"
	"busbar/probe"
	"busbar/proofs"
	"busbar/report"
)

func newProbe(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Prove on this node that bytes move as they should",
		Args:  takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			return errors.New("which probe?")
		},
	}
	cmd.AddCommand(newProbeNCCLTests(c), newProbeP2P(c))
	return cmd
}

// probeFlags are the flags of probe p2p.
type probeFlags struct {
	gpus            []string
	sizeMiB         int64
	timeout         time.Duration
	force           bool
	stagedIsEnough  bool
	record, compare string
	minRatio        float64
}

// probeAddress is that of the findings of probe p2p.
const probeAddress = "probe.p2p"

// probeTimeout is the time after which a probe ends where nobody says another.
const probeTimeout = 10 * time.Minute

func newProbeP2P(c *console) *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "p2p",
		Short: "Copy between all pairs of GPUs: bandwidth, latency, and every byte compared",
		Long: `Copy from each GPU to each other one, with peer access on and off, and compare every
byte of the last copy of each kind with what was sent. It needs the NVIDIA driver and
nothing else. Jobs on the GPUs would be disturbed, and disturb: where a process uses
them, also one that does not show here, nothing is done without --force. So it is where
more than 4 GiB of a GPU's memory are in use.

Each GPU needs room for two copies (--size) and for CUDA itself, about 0.5 GiB. What is
copied differs for each pair and offset. The receiver is cleared first, and the
comparison, which the GPU makes, has to notice that; the host compares samples itself.
Rates are medians of 5 samples after a warm-up, timed by CUDA events on the sender, in
GB/s of 10^9 bytes a second. Latency is the time of one copy of 16 bytes in a row of 100.

The probe is about the node: CUDA_VISIBLE_DEVICES and other CUDA_ variables do not count
(those of MPS do). --gpu selects. SIGINT and SIGTERM end it: memory is freed, and what
was measured until then is shown.

Exit codes: 0 all bytes right and peer access everywhere, 2 bytes arrived wrong, no peer
access, or slower than the baseline allows, 8 something could not be measured, 1 an
error, or the GPUs are in use, 64 usage, 77 needs root to see who uses the GPUs.`,
		Example: "  busbar probe p2p\n  busbar probe p2p --record p2p.json\n  busbar probe p2p --compare p2p.json --min-ratio 0.95",
		Args:    takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx, cancel := probing(cmd.Context(), f.timeout)
			defer cancel()
			return c.probeP2P(ctx, f)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.gpus, "gpu", nil, "take only the GPUs at these PCI `ADDRESS`es (0000:1b:00.0,0000:43:00.0); may be repeated")
	flags.Int64Var(&f.sizeMiB, "size", proofs.DefaultSizeMiB, "copy so many `MiB` at once")
	flags.DurationVar(&f.timeout, "timeout", probeTimeout, "end after `DURATION` (90s, 5m) with what was measured until then")
	flags.BoolVar(&f.force, "force", false, "do it although the GPUs are in use, or nobody knows")
	flags.BoolVar(&f.stagedIsEnough, "staged-is-enough", false, "tolerate pairs without peer access")
	flags.StringVar(&f.record, "record", "", "write the result, where all is well, into `FILE` as a baseline")
	flags.StringVar(&f.compare, "compare", "", "compare with the baseline in `FILE`, - for standard input")
	flags.Float64Var(&f.minRatio, "min-ratio", 0.9, "the least part of the baseline's bandwidth that is as wanted, `RATIO`")
	return cmd
}

// probing is a context that a signal or the timeout ends: the probe frees what it holds, and what was measured is shown.
func probing(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(parent, heeded()...)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
	return ctx, func() { cancel(); stop() }
}

// check refuses values that make no sense.
func (f *probeFlags) check() error {
	for i, address := range f.gpus {
		f.gpus[i] = strings.ToLower(address)
		if !node.IsPCIAddress(address) {
			return fmt.Errorf("--gpu %s is no PCI address like 0000:1b:00.0", address)
		}
	}
	slices.Sort(f.gpus)
	f.gpus = slices.Compact(f.gpus)
	switch {
	case len(f.gpus) == 1:
		return errors.New("--gpu: one GPU is no pair, name two or more")
	case f.sizeMiB < 1 || f.sizeMiB > proofs.MaxSizeMiB:
		return fmt.Errorf("--size %d is not from 1 to %d MiB", f.sizeMiB, proofs.MaxSizeMiB)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %s leaves no time", f.timeout)
	case math.IsNaN(f.minRatio) || f.minRatio <= 0 || f.minRatio > 1:
		return fmt.Errorf("--min-ratio %v is not above 0 and up to 1", f.minRatio)
	}
	return nil
}

func (c *console) probeP2P(ctx context.Context, f probeFlags) error {
	baseline, err := c.baseline(f)
	if err != nil {
		return &exit{plan.ExitError, err}
	}
	if f.record != "" {
		if err := checkOutput(f.record); err != nil {
			return &exit{plan.ExitError, fmt.Errorf("--record: %w", err)}
		}
	}
	t := target{root: "/"}
	reader, err := t.reader(c)
	if err != nil {
		return err
	}
	facts := reader.Read(ctx, reader.Inventory(ctx), []node.Query{node.GPUUsers.Query("")})
	if err := probe.Refusal(facts, f.gpus...); err != nil && !f.force {
		if errors.Is(err, probe.ErrUnseen) {
			return &exit{plan.ExitNeedsRoot, err}
		}
		return &exit{plan.ExitError, err}
	}
	if !c.quiet && probe.Loaded() {
		fmt.Fprintf(c.err, "busbar: takes %s on each GPU, besides what CUDA takes for itself\n", p2p.Bytes(probe.BuffersEach*f.sizeMiB<<20))
	}
	result, err := probe.Run(ctx, probe.Options{
		GPUs: f.gpus, Size: f.sizeMiB << 20, Force: f.force, Observer: report.NewProgress(c.err, c.style(c.err)),
	})
	if err != nil {
		return &exit{plan.ExitError, err}
	}
	doc := report.NewP2P(t.nodeOf(facts, ""), result, baseline, proofs.Judge(result, proofs.Wanted{
		Address: probeAddress, OnBus: proofs.Addresses(facts.Inventory.GPUs()), Selected: f.gpus, StagedIsEnough: f.stagedIsEnough, Baseline: baseline, MinRatio: f.minRatio,
	}))
	err = c.result(
		func(w io.Writer, s report.Style) error { return report.WriteP2P(w, doc, s) },
		func(w io.Writer) error { return report.WriteP2PJSON(w, doc) },
	)
	if err == nil && f.record != "" {
		good := doc.ExitCode == plan.ExitOK && len(doc.Pairs) > 0
		err = c.keepBaseline(f.record, good, func(w io.Writer) error { return report.WriteP2PJSON(w, doc) })
	}
	return ended(doc.ExitCode, err)
}

// baseline is what --compare names; nil where it names nothing.
func (c *console) baseline(f probeFlags) (*p2p.Result, error) {
	if f.compare == "" {
		return nil, nil
	}
	r, err := c.openInput(f.compare)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	defer r.Close()
	was, err := p2p.Read(r)
	if err == nil && was.Size != f.sizeMiB<<20 {
		err = fmt.Errorf("was recorded with copies of %d MiB: say --size %d", was.Size>>20, was.Size>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("--compare: %s %w", f.compare, err)
	}
	return &was, nil
}
