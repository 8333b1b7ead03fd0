//go:build linux

package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"busbar/plan"
)

// maxPasses bounds how often steps are made in one run.
const maxPasses = 3

// Polling begins with the first pause and doubles it up to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = time.Second
)

// undecided is a finding that waits for a capability.
type undecided struct{ address, id, target, needs string }

func keyOf(f plan.Finding) undecided { return undecided{f.Address, f.ID, f.Target, f.Needs} }

// envelope is what was approved: steps, and for deferred addresses the strongest
// effect that their steps may have.
type envelope struct {
	steps     map[string]plan.Effect
	addresses map[string]plan.Effect
}

func envelopeOf(p plan.Plan) envelope {
	e := envelope{map[string]plan.Effect{}, map[string]plan.Effect{}}
	for _, s := range p.Steps {
		e.steps[s.ID] = s.Effect
	}
	for _, d := range p.Deferred {
		e.addresses[d.Address] = max(e.addresses[d.Address], d.Ceiling)
	}
	return e
}

// holds reports whether s lies inside the envelope: it was approved itself, or it
// serves an address that was deferred, and has no stronger effect than approved.
func (e envelope) holds(s plan.Step) bool {
	ceiling, ok := e.steps[s.ID]
	for _, address := range s.Addresses {
		if c, deferred := e.addresses[address]; deferred {
			ceiling, ok = max(ceiling, c), true
		}
	}
	return ok && s.Effect <= ceiling
}

// passes makes the steps of p, and as long as they let something be decided that was
// deferred, those of the plan that follows from it.
func (r *runner) passes(ctx context.Context, p Planned) error {
	waiting := map[undecided]bool{}
	for {
		provided := r.steps(ctx, p)
		var settle time.Duration
		for _, f := range p.Plan.Findings {
			if wait, ok := provided[f.Needs]; ok && f.Status == plan.Deferred {
				waiting[keyOf(f)] = true
				settle = max(settle, wait)
			}
		}
		maps.Copy(r.deferred, waiting)
		if len(waiting) == 0 || !r.running || r.result.Interrupted {
			return nil
		}
		next, left, err := r.settle(ctx, waiting, settle)
		switch {
		case ctx.Err() != nil:
			r.result.Interrupted = true
			return nil
		case err != nil:
			return err
		}
		steps := r.pending(next.Plan)
		if len(left) == len(waiting) || len(steps) == 0 {
			return nil
		}
		for _, s := range steps {
			if !r.envelope.holds(s) {
				r.result.Stopped = fmt.Sprintf("needs a new approval: %s (%s) was not part of the plan; run apply again", s.ID, s.Summary)
				return nil
			}
		}
		if r.result.Passes == maxPasses {
			r.result.Stopped = fmt.Sprintf("%d passes were made and %s is still to be done; run apply again", maxPasses, steps[0].ID)
			return nil
		}
		r.result.Passes++
		r.Observer.PassStarted(r.result.Passes, "now known: "+addressesOf(without(waiting, left)))
		waiting, p = left, next
	}
}

// settle plans again until nothing of waiting is undecided, for at most wait. It
// returns the last plan, and what it still leaves undecided. It does not stop at the
// first answer: eight NICs get their RDMA devices one after the other.
func (r *runner) settle(ctx context.Context, waiting map[undecided]bool, wait time.Duration) (Planned, map[undecided]bool, error) {
	deadline := time.Now().Add(wait)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		p, err := r.Plan(ctx)
		if err != nil {
			return Planned{}, nil, err
		}
		left := map[undecided]bool{}
		for _, f := range p.Plan.Findings {
			if (f.Status == plan.Deferred || f.Status == plan.Undetermined) && waiting[keyOf(f)] {
				left[keyOf(f)] = true
			}
		}
		remaining := time.Until(deadline)
		if len(left) == 0 || remaining <= 0 {
			return p, left, nil
		}
		r.Observer.Waiting("what decides "+addressesOf(left), remaining)
		if !sleep(ctx, min(pause, remaining)) {
			return p, left, nil
		}
	}
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func without(all, left map[undecided]bool) map[undecided]bool {
	gone := maps.Clone(all)
	maps.DeleteFunc(gone, func(key undecided, _ bool) bool { return left[key] })
	return gone
}

func addressesOf(keys map[undecided]bool) string {
	var all []string
	for key := range keys {
		all = append(all, key.address)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}
