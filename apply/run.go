//go:build linux

// Package apply brings a node into the state that a plan wants. It is the only
// package that changes machine state. What it knows of the node it reads through
// the node.Reader that it is given.
//
// A run takes the lock, plans afresh, asks, and then makes each step an ensure:
// read, compare, change, read back. A run that was killed is repeated by the next
// one, which finds done what was done. Reading and planning afresh at the end gives
// the verdict.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"busbar/node"
	"busbar/plan"
)

// The reasons for which Run makes no step.
var (
	// ErrLocked: another run holds the lock; the error names its process.
	ErrLocked = errors.New("another run holds the lock")
	// ErrNeedsRoot: the lock's directory cannot be written.
	ErrNeedsRoot = errors.New("changing a node needs root")
	// ErrDeclined: Approve said no, or its context was cancelled with this cause.
	ErrDeclined = errors.New("declined, nothing was changed")
	// ErrChanged: while Approve asked, a NIC got other names or protection than the plan was made for.
	ErrChanged = errors.New("the node has changed since the plan was shown, nothing was changed; run apply again")
	// ErrInterrupted: the context ended before the first step.
	ErrInterrupted = errors.New("interrupted, nothing was changed")
	// ErrTimeout: the context ended before the first step with this cause.
	ErrTimeout = errors.New("the time that was given for the run is over")
)

// Planned is a plan with the facts from which it was made.
type Planned struct {
	Plan  plan.Plan
	Facts node.Facts
}

// Options say what Run works on and whom it talks to. Plan and Reader are needed.
type Options struct {
	// Root is "/" (or empty) for the running node, else the directory tree in which
	// a node's file system lies. In a tree nothing of the running system is touched.
	Root string
	// Plan reads the inventory, evaluates the profile, reads what the blocks ask for
	// and plans, all afresh at every call.
	Plan func(context.Context) (Planned, error)
	// Reader reads the node below Root.
	Reader node.Reader
	// Approve asks whether the plan may be carried out; nil approves. It may block: Run
	// abandons it when its context ends.
	Approve func(plan.Plan) (bool, error)
	// Observer follows the run; nil for nobody.
	Observer Observer
	// Units connects to systemd. It is called when the first step needs it.
	Units func(context.Context) (Units, error)
	// Ports changes ports of NICs; nil for the kernel's.
	Ports Ports
	// RDMANetns sets the network namespace mode of RDMA devices, plan.RDMAShared or plan.RDMAExclusive; nil for RDMA
	// netlink.
	RDMANetns func(mode string) error
	// Boot: the run is part of a boot, so that units are started without waiting for them.
	Boot bool
	// Disrupt: steps are made also where they disturb those who use GPUs or RDMA, or a job of Slurm.
	Disrupt bool
	// Path is where programs (modprobe, update-grub, update-initramfs) are looked for, as in $PATH;
	// empty for the usual directories.
	Path string
	// Deadline after which such a program is killed and abandoned; zero for 60 s, and 5
	// minutes for update-grub, which may look for other systems on all disks, and update-initramfs.
	Deadline time.Duration
}

// Observer follows a run. Its methods are called one at a time.
type Observer interface {
	// PassStarted is called when planning begins again, from pass 2 on.
	PassStarted(pass int, reason string)
	// StepStarted is called when step n, from 1, of a pass' total is looked at.
	StepStarted(n, total int, s plan.Step)
	// StepEnded is called once for every step; a step that was skipped or interrupted
	// may not have been started. outcome is one of the constants, err says why it is
	// neither Done nor Already.
	StepEnded(n, total int, s plan.Step, outcome string, err error, took time.Duration)
	// Waiting is called while something is waited for, for left at most.
	Waiting(what string, left time.Duration)
}

// The outcomes of a step.
const (
	Done        = "done"
	Already     = "already" // was as wanted before
	Failed      = "failed"
	Skipped     = "skipped" // what it requires failed, or it disturbs those who use GPUs or RDMA
	Interrupted = "interrupted"
)

// StepResult is what became of a step.
type StepResult struct {
	// Pass from 1.
	Pass    int
	Step    plan.Step
	Outcome string
	// Err says why the outcome is neither Done nor Already.
	Err  error
	Took time.Duration
}

// Result is what a run did and what it left.
type Result struct {
	StartedAt, EndedAt time.Time
	// Planned is what was approved; zero when planning failed.
	Planned Planned
	// Steps in the order in which they were done.
	Steps []StepResult
	// Passes is how often steps were made, or would have been, from 1.
	Passes int
	// Stopped says why no further pass was made although one was due; empty otherwise.
	Stopped string
	// Deferred are the addresses that no pass could decide, sorted.
	Deferred []string
	// Interrupted: the context ended before all steps were done.
	Interrupted bool
	// Final was planned after the last step.
	Final Planned
	// ExitCode of the command.
	ExitCode int
}

// Run applies. It returns an error when no verdict could be reached; then too the
// Result holds the exit code and the steps that were made. When ctx ends, the running
// step is finished (an await is broken off) and the others are Interrupted. At ctx's deadline
// a step that waits for a module or a unit is given up too.
func Run(ctx context.Context, o Options) (Result, error) {
	return run(ctx, o, o.Root == "" || o.Root == "/")
}

// run is Run with running saying whether Root is the running system's.
func run(ctx context.Context, o Options, running bool) (Result, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	r := &runner{
		Options: o, running: running,
		undone: map[string]string{}, touched: map[string]bool{}, deferred: map[undecided]bool{},
	}
	r.until, _ = ctx.Deadline()
	r.result.StartedAt = time.Now()
	err := r.run(ctx)
	r.closeUnits()
	r.result.EndedAt = time.Now()
	if err != nil {
		r.result.ExitCode = exitCode(err)
	}
	return r.result, err
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, ErrLocked):
		return plan.ExitLocked
	case errors.Is(err, ErrNeedsRoot):
		return plan.ExitNeedsRoot
	case errors.Is(err, ErrChanged):
		return plan.ExitStale
	case errors.Is(err, ErrInterrupted), errors.Is(err, ErrTimeout):
		return plan.ExitPartial
	default:
		return plan.ExitError
	}
}

// runner is one run.
type runner struct {
	Options
	running bool
	until   time.Time // the end of the run's time; zero without one
	units   Units     // nil until a step needs it
	// unitFiles: files of units were changed since the last daemon-reload.
	unitFiles bool
	result    Result

	envelope envelope
	// undone are the ids of steps that failed or were skipped, and what they would
	// have provided, with the id of the step.
	undone map[string]string
	// touched are the addresses whose steps this run did.
	touched map[string]bool
	// deferred is all that waited for a step of this run.
	deferred map[undecided]bool
}

func (r *runner) run(ctx context.Context) error {
	release, err := acquire(r.Root, r.running)
	if err != nil {
		return err
	}
	defer release()

	planned, err := r.Plan(ctx)
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case err != nil:
		return fmt.Errorf("planning: %w", err)
	}
	r.result.Planned, r.result.Final, r.result.Passes = planned, planned, 1
	if len(planned.Plan.Steps) == 0 {
		r.result.ExitCode = r.verdict()
		return nil
	}
	if err := r.ask(ctx, planned); err != nil {
		return err
	}
	r.envelope = envelopeOf(planned.Plan)
	if err := r.passes(ctx, planned); err != nil {
		return fmt.Errorf("planning again: %w", err)
	}
	r.result.Final, err = r.Plan(context.WithoutCancel(ctx))
	if err != nil {
		return fmt.Errorf("reading the result: %w", err)
	}
	r.result.ExitCode = r.verdict()
	return nil
}

// ask waits for the approval, but not longer than for ctx: a terminal that is being
// read does not notice a signal. Meanwhile the node does not stand still.
func (r *runner) ask(ctx context.Context, p Planned) error {
	if r.Approve == nil {
		return nil
	}
	answer := make(chan error, 1)
	go func() {
		ok, err := r.Approve(p.Plan)
		if err == nil && !ok {
			err = ErrDeclined
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		if err != nil {
			return err
		}
		return sameNICs(p.Facts.Inventory, r.Reader.Inventory(ctx))
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, ErrDeclined) {
			return cause
		}
		return interrupted(ctx)
	}
}

// sameNICs refuses to go on when NICs are not those of the plan: names of devices stand in files that it writes, and
// whether a NIC is protected hangs on the routes.
func sameNICs(planned, now node.Inventory) error {
	nics, _ := planned.NICs().Get()
	for _, before := range nics {
		key := before.String()
		after, ok := now.PortOf(key)
		if !ok {
			return fmt.Errorf("%w: NIC %s is gone", ErrChanged, key)
		}
		if err := cmp.Or(
			sameValue("the network device of NIC "+key, before.Netdev, after.Netdev),
			sameValue("the RDMA device of NIC "+key, before.RDMA, after.RDMA),
			sameValue("whether NIC "+key+" is protected", before.Protected, after.Protected),
		); err != nil {
			return err
		}
	}
	return nil
}

func sameValue[T any](what string, planned, now node.Value[T]) error {
	before, after := wordOf(planned), wordOf(now)
	if before == after {
		return nil
	}
	return fmt.Errorf("%w: %s was %s and is %s", ErrChanged, what, before, after)
}

func wordOf[T any](v node.Value[T]) string {
	if known, ok := v.Get(); ok {
		return fmt.Sprint(known)
	}
	return "unknown"
}

// interrupted is why a run whose context has ended makes no step.
func interrupted(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrTimeout) {
		return fmt.Errorf("%w, nothing was changed", ErrTimeout)
	}
	return ErrInterrupted
}

// steps makes the steps of one pass and returns what those that succeeded provide,
// with the time that it may take to appear.
func (r *runner) steps(ctx context.Context, p Planned) map[string]time.Duration {
	provided := map[string]time.Duration{}
	steps := r.pending(p.Plan)
	for i, s := range steps {
		outcome, err := Interrupted, errors.New("the run was ended before this step")
		if errors.Is(context.Cause(ctx), ErrTimeout) {
			err = ErrTimeout
		}
		began := time.Now()
		missing, unmet := r.unmet(s)
		switch {
		case ctx.Err() != nil:
		case unmet:
			outcome, err = Skipped, fmt.Errorf("it requires %s, which was not done", missing)
		default:
			r.Observer.StepStarted(i+1, len(steps), s)
			outcome, err = r.ensure(ctx, s, p.Facts)
		}
		took := time.Since(began)
		r.Observer.StepEnded(i+1, len(steps), s, outcome, err, took)
		r.result.Steps = append(r.result.Steps, StepResult{r.result.Passes, s, outcome, err, took})
		switch outcome {
		case Done, Already:
			for _, name := range s.Provides {
				provided[name] = max(provided[name], s.Settle)
			}
		default:
			for _, name := range append([]string{s.ID}, s.Provides...) {
				r.undone[name] = s.ID
			}
		}
		if outcome == Done {
			for _, address := range s.Addresses {
				r.touched[address] = true
			}
		}
		r.result.Interrupted = r.result.Interrupted || outcome == Interrupted
	}
	return provided
}

// pending are the steps of a plan less those that were tried in vain in an earlier
// pass: nothing is tried twice in a run.
func (r *runner) pending(p plan.Plan) []plan.Step {
	var steps []plan.Step
	for _, s := range p.Steps {
		if _, ok := r.undone[s.ID]; !ok {
			steps = append(steps, s)
		}
	}
	return steps
}

// unmet is the step, of those that s requires, that was not done.
func (r *runner) unmet(s plan.Step) (id string, ok bool) {
	for _, name := range s.Requires {
		if id, ok := r.undone[name]; ok {
			return id, true
		}
	}
	return "", false
}

// nobody is the Observer when there is none.
type nobody struct{}

func (nobody) PassStarted(int, string)                                     {}
func (nobody) StepStarted(int, int, plan.Step)                             {}
func (nobody) StepEnded(int, int, plan.Step, string, error, time.Duration) {}
func (nobody) Waiting(string, time.Duration)                               {}
