package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"busbar/apply"
	"busbar/plan"
	"busbar/report"
)

// applyFlags are the flags that only apply has.
type applyFlags struct {
	yes, boot, disrupt bool
	timeout            time.Duration
}

func newApply(c *console) *cobra.Command {
	var t target
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply [PROFILE]",
		Short: "Bring this node into the state that a profile describes",
		Long: `Bring this node into the state that a profile describes, and judge it again
afterwards. Each step is an ensure: a run that was ended half-way is repeated by
the next one.

Without PROFILE it is /etc/busbar/node.hcl. On a terminal apply asks; elsewhere
it needs --yes. SIGTERM, SIGINT and SIGHUP end a run after the running step, which
ends in 5 minutes at most; further ones hasten nothing. With --timeout no step is
begun after that time, and one that waits for a module or a unit is given up.

--boot is how busbar.service runs it (see busbar install): it asks nobody, waits until
udev has loaded the drivers of the devices, and starts units without waiting for
them, because they may be waiting for busbar.

While a process uses GPUs, or one is handed to VFIO, no driver of theirs is taken away, no
rail's link goes down and the fabric manager does not end: such steps are skipped, and
so is what requires them, unless --disrupt is said.

Exit codes: 0 as wanted, 3 as wanted after a reboot, 2 something is not as wanted
that no step puts right, 4 applied in part, 5 done and yet not as wanted, 6 another
run holds the lock, 7 the node changed while apply asked, 8 something that matters
could not be read, 1 declined or an error, 64 usage, 77 needs root, 78 invalid profile.`,
		Example:           "  busbar apply hgx-h100-roce\n  busbar apply --yes --root /mnt/image /etc/busbar/node.hcl",
		Args:              takes(0, 1, "PROFILE"),
		ValidArgsFunction: t.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			// A reader of the outputs that goes away, like a terminal, must not end a run half-way.
			signal.Ignore(syscall.SIGPIPE)
			progress := report.NewProgress(c.err, c.style(c.err))
			if err := f.check(cmd, &t); err != nil {
				return err
			}
			ctx := endedBySignals(cmd.Context(), progress)
			if f.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, apply.ErrTimeout)
				defer cancel()
			}
			err := c.apply(ctx, &t, args, f, progress)
			if e := (*exit)(nil); f.boot && !c.resulted && errors.As(err, &e) {
				c.notify(fmt.Sprintf("no result, exit code %d: the journal has the reason", e.code))
			}
			return err
		},
	}
	t.addFlags(cmd, false)
	flags := cmd.Flags()
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.boot, "boot", false, "run as a part of the boot")
	flags.BoolVar(&f.disrupt, "disrupt", false, "disturb those who use the GPUs")
	flags.DurationVar(&f.timeout, "timeout", 0, "begin no step after `DURATION` (90s, 5m)")
	return cmd
}

// check refuses values that make no sense.
func (f applyFlags) check(cmd *cobra.Command, t *target) error {
	switch {
	case cmd.Flags().Changed("timeout") && f.timeout <= 0:
		return fmt.Errorf("--timeout %s leaves no time", f.timeout)
	case f.boot && t.root != "/":
		return errors.New("--boot and --root exclude each other: a directory tree does not boot")
	default:
		return nil
	}
}

// endedBySignals is a context that the first signal ends; progress tells of each. The handler
// stays until the process is gone: a late signal must not take the result away. SIGINT before
// the first step is a no.
func endedBySignals(parent context.Context, progress *report.Progress) context.Context {
	ctx, end := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, heeded()...)
	go func() {
		for received := range signals {
			if received == syscall.SIGINT {
				end(apply.ErrDeclined)
			}
			end(apply.ErrInterrupted)
			progress.Ending(endings[received], apply.LongestStep)
		}
	}()
	return ctx
}

// endings are the signals that end a run.
var endings = map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP"}

// heeded are the endings less those that whoever started the run had ignored, as nohup(1) does.
func heeded() []os.Signal {
	return slices.DeleteFunc(slices.Collect(maps.Keys(endings)), signal.Ignored)
}

func (c *console) apply(ctx context.Context, t *target, args []string, f applyFlags, progress *report.Progress) error {
	ask, err := c.approval(f.yes || f.boot)
	if err != nil {
		return err
	}
	reader, err := t.reader(c)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if _, err := t.nodeProfile(); err != nil {
			return &exit{plan.ExitUsage, fmt.Errorf("which profile? None was named, and %w", err)}
		}
	}
	var observer apply.Observer = progress
	if f.boot {
		observer = c.boot(ctx, progress)
	}
	p, err := t.choose(c, args, reader.Inventory(ctx), true)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := t.writableByOthers(p.files()); err != nil {
			return &exit{plan.ExitBadProfile, err}
		}
	}
	planner := newPlanner()
	var planned apply.Planned
	options := apply.Options{
		Root: t.root, Reader: reader, Observer: observer, Boot: f.boot, Disrupt: f.disrupt,
		Plan: func(ctx context.Context) (apply.Planned, error) {
			var err error
			planned, err = judge(ctx, c, planner, p.profile, reader, reader.Inventory(ctx))
			return planned, err
		},
	}
	if ask != nil {
		options.Approve = func(approved plan.Plan) (bool, error) {
			return ask(report.NewDocument("apply", t.nodeOf(planned.Facts, ""), p.view, approved))
		}
	}
	result, err := apply.Run(ctx, options)
	if e := (*exit)(nil); errors.As(err, &e) {
		return e // of judge
	}
	if err != nil {
		return &exit{result.ExitCode, err}
	}
	doc := report.NewDocument("apply", t.nodeOf(result.Final.Facts, ""), p.view, result.Final.Plan).WithRun(ran(result), result.ExitCode)
	if f.boot {
		c.notify(doc.Conclusion())
	}
	return ended(doc.ExitCode, c.result(
		func(w io.Writer, s report.Style) error { return report.WriteRun(w, doc, s) },
		func(w io.Writer) error { return report.WriteJSON(w, doc) },
	))
}

// approval is how a plan is approved: nil by --yes, or by whoever sits at the terminal.
func (c *console) approval(yes bool) (func(report.Document) (bool, error), error) {
	if yes {
		return nil, nil
	}
	in, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, &exit{plan.ExitUsage, fmt.Errorf("there is no terminal to ask at: look at busbar plan, then apply --yes")}
	}
	return func(doc report.Document) (bool, error) {
		if err := report.WritePlan(c.err, doc, c.style(c.err)); err != nil {
			return false, err
		}
		fmt.Fprint(c.err, "\nDo this? [y/N] ")
		answer, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			return false, fmt.Errorf("reading the answer: %w", err)
		}
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes", nil
	}, nil
}

// ran is a run as its view has it.
func ran(r apply.Result) report.Run {
	run := report.Run{StartedAt: r.StartedAt, EndedAt: r.EndedAt, Passes: r.Passes, Interrupted: r.Interrupted, Stopped: r.Stopped}
	for _, s := range r.Steps {
		step := report.RunStep{Step: s.Step, Status: s.Outcome, Took: s.Took}
		if s.Err != nil {
			step.Error = s.Err.Error()
		}
		run.Steps = append(run.Steps, step)
	}
	return run
}
