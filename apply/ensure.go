//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"busbar/node"
	"busbar/plan"
)

// ensure makes one step. planned are the facts that the plan saw. ctx only breaks off
// an await: everything else is finished.
func (r *runner) ensure(ctx context.Context, s plan.Step, planned node.Facts) (outcome string, err error) {
	if a, ok := s.Action.(plan.Awaiting); ok {
		return r.await(ctx, a, planned.Inventory)
	}
	ctx = context.WithoutCancel(ctx)
	now := r.read(ctx, planned.Inventory, s.Action.Queries())
	done, _, err := s.Action.Done(now)
	switch {
	case err != nil:
		return Failed, fmt.Errorf("whether it is to be done is unknown: %w", err)
	case done && !r.outdated(s.Action):
		return Already, nil
	}
	if err := r.inUse(ctx, s, planned.Inventory); err != nil {
		return Skipped, err
	}
	if err := unchanged(s.Action, planned, now); err != nil {
		return Failed, err
	}
	if err := r.execute(ctx, s.Action, now); err != nil {
		return Failed, err
	}
	done, found, err := s.Action.Done(r.read(ctx, planned.Inventory, s.Action.Queries()))
	switch {
	case err != nil:
		return Failed, fmt.Errorf("it was done, yet cannot be read back: %w", err)
	case !done && ofPort(s.Action):
		return Failed, fmt.Errorf("it was done, yet reads back as: %s (the driver takes it and does nothing, or firmware or an agent of DCBX set it back)", found)
	case !done:
		return Failed, fmt.Errorf("it was done, yet reads back as: %s", found)
	default:
		return Done, nil
	}
}

// inUse refuses a step that disturbs those who use GPUs or RDMA now, or a job of Slurm, whoever did when it was planned.
func (r *runner) inUse(ctx context.Context, s plan.Step, inv node.Inventory) error {
	queries := s.InUseQueries(inv)
	if r.Disrupt || !r.running || len(queries) == 0 {
		return nil
	}
	if users := s.InUse(r.read(ctx, inv, queries), r.Boot); len(users) > 0 {
		return fmt.Errorf("needs --disrupt: %s", strings.Join(users, "; "))
	}
	return nil
}

// ofPort tells the actions whose success says little: the kernel acknowledges a change for which the driver has no
// operation.
func ofPort(a plan.Action) bool {
	_, ok := a.(plan.NICAction)
	return ok
}

// read asks the node afresh. An action without queries is about the inventory.
func (r *runner) read(ctx context.Context, inv node.Inventory, queries []node.Query) node.Facts {
	if len(queries) == 0 {
		inv = r.Reader.Inventory(ctx)
	}
	return r.Reader.Read(ctx, inv, queries).WithInventory(inv)
}

// unchanged refuses to touch a file that others own and have changed since the plan
// was made: what is to be written, or that the file is to go, was computed from its
// old content. All other actions bring about their whole state whatever it was.
func unchanged(action plan.Action, planned, now node.Facts) error {
	var content func(node.Facts) (node.FileState, error)
	var name string
	switch a := action.(type) {
	case plan.WriteFile:
		if !a.Computed && a.Backup == "" {
			return nil
		}
		name, content = a.Path, a.Content
	case plan.RemoveFile:
		if owned(a.Path) {
			return nil
		}
		name, content = a.Path, a.Content
	default:
		return nil
	}
	before, err := content(planned)
	if err != nil {
		return fmt.Errorf("what %s held when it was planned is unknown: %w", name, err)
	}
	after, err := content(now)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if before != after {
		return fmt.Errorf("%s was changed since it was planned and is left as it is; run apply again", name)
	}
	return nil
}

// owned tells the files that busbar alone writes: busbar.conf and zz-busbar.* in
// directories of fragments.
func owned(file string) bool {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base)) == "zz-busbar" || base == "busbar.conf"
}

// await polls until the state is there and has held, the deadline has passed or ctx ended.
func (r *runner) await(ctx context.Context, a plan.Awaiting, inv node.Inventory) (outcome string, err error) {
	deadline := time.Now().Add(a.Deadline())
	var since time.Time // when it began to be there
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		done, found, err := a.Done(r.read(context.WithoutCancel(ctx), inv, a.Queries()))
		now := time.Now()
		if !done {
			since = time.Time{}
		} else if since.IsZero() {
			since = now
		}
		if done && now.Sub(since) >= a.Hold() {
			return Done, nil
		}
		if err != nil {
			found = err.Error()
		}
		what := fmt.Sprintf("%s (it is %s)", a.Awaited(), found)
		remaining := time.Until(deadline)
		if remaining <= 0 {
			return Failed, fmt.Errorf("waited %s in vain for %s", seconds(a.Deadline()), what)
		}
		r.Observer.Waiting(what, remaining)
		if !sleep(ctx, min(pause, remaining)) {
			if errors.Is(context.Cause(ctx), ErrTimeout) {
				return Failed, fmt.Errorf("%w; it waited for %s", ErrTimeout, what)
			}
			return Interrupted, errors.New("the run was ended while waiting for " + what)
		}
	}
}

// seconds writes a duration as people say deadlines: "60 s".
func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
