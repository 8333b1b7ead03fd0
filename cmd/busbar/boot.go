package main

import (
	"context"
	"fmt"
	"time"

	"busbar/apply"
	"busbar/node/live"
	"busbar/plan"
	"busbar/report"
	"busbar/systemd"
)

// settleTime is how long a boot may take to load the drivers of its devices before busbar
// goes on with what is there.
const settleTime = 30 * time.Second

// boot waits for the devices of a machine that boots, and returns an observer that tells
// the service manager what is being done.
func (c *console) boot(ctx context.Context, progress *report.Progress) apply.Observer {
	c.notify("waiting for udev")
	settling, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if !live.Settle(settling) {
		c.tell("udev is still at work after %.0f s; devices that it brings later are not seen", settleTime.Seconds())
	}
	c.notify("reading the node")
	return notifying{progress, c}
}

// notify tells the service manager what is being done.
func (c *console) notify(status string) {
	if err := systemd.NotifyStatus(status); err != nil {
		c.tell("%v", err)
	}
}

// notifying is a progress of which the service manager is told too.
type notifying struct {
	*report.Progress
	console *console
}

// StepStarted tells of the step.
func (n notifying) StepStarted(i, total int, s plan.Step) {
	n.console.notify(fmt.Sprintf("step %d of %d: %s", i, total, s.Summary))
	n.Progress.StepStarted(i, total, s)
}

// Waiting tells what is waited for.
func (n notifying) Waiting(what string, left time.Duration) {
	n.console.notify(fmt.Sprintf("waiting for %s, at most %.0f s", what, left.Seconds()))
	n.Progress.Waiting(what, left)
}
