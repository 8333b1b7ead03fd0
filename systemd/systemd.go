// Package systemd talks to the service manager of this machine over D-Bus: it
// reads units and starts, stops, enables and masks them.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Available reports whether systemd is the running init (sd_booted(3):
// /run/systemd/system exists). It costs one system call.
func Available() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// ErrNotRunning says that systemd is not the init of this machine.
var ErrNotRunning = errors.New("it is not running here (no /run/systemd/system)")

// Conn is a connection to the service manager. It is closed by Close.
type Conn struct {
	bus    *dbus.Conn
	cancel context.CancelFunc
}

// Connect connects through the system bus, and where there is none (early boot)
// as root to systemd's own socket /run/systemd/private. A manager that does not
// answer costs no more than ctx allows.
func Connect(ctx context.Context) (*Conn, error) {
	if !Available() {
		return nil, fmt.Errorf("connecting to systemd: %w", ErrNotRunning)
	}
	life, cancel := context.WithCancel(context.Background())
	type result struct {
		bus *dbus.Conn
		err error
	}
	connected := make(chan result, 1)
	go func() {
		bus, err := dbus.NewWithContext(life)
		connected <- result{bus, err}
	}()
	select {
	case r := <-connected:
		if r.err != nil {
			cancel()
			return nil, fmt.Errorf("connecting to systemd: %w", r.err)
		}
		return &Conn{bus: r.bus, cancel: cancel}, nil
	case <-ctx.Done():
		cancel()
		return nil, fmt.Errorf("connecting to systemd: %w", ctx.Err())
	}
}

// Close ends the connection.
func (c *Conn) Close() {
	c.bus.Close()
	c.cancel()
}

// Unit is what the manager says of a unit (org.freedesktop.systemd1(5)).
type Unit struct {
	// Load is LoadState: loaded, not-found, masked, bad-setting, error.
	Load string
	// File is UnitFileState: enabled, disabled, static, masked ...; empty for a unit without a file.
	File string
	// Active is ActiveState: active, inactive, failed, activating ...
	Active string
	// NeedReload is NeedDaemonReload: unit files changed since they were read.
	NeedReload bool
	// MainPID of a service; 0 when it does not run or the unit is no service.
	MainPID int
	// Job is the type of the unit's job that has not ended (start, stop, restart ...); empty without one.
	Job string
}

// Unit reads a unit by its full name (slurmd.service). A unit that does not
// exist is no error: its Load is not-found.
func (c *Conn) Unit(ctx context.Context, name string) (Unit, error) {
	props, err := c.bus.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return Unit{}, fmt.Errorf("asking systemd about %s: %w", name, err)
	}
	u := Unit{}
	u.Load, _ = props["LoadState"].(string)
	u.File, _ = props["UnitFileState"].(string)
	u.Active, _ = props["ActiveState"].(string)
	u.NeedReload, _ = props["NeedDaemonReload"].(bool)
	pid, _ := props["MainPID"].(uint32)
	u.MainPID = int(pid)
	if u.Load == "" {
		return Unit{}, fmt.Errorf("asking systemd about %s: the answer has no LoadState", name)
	}
	// The property is the job's number and object path; 0 without one.
	if job, _ := props["Job"].([]any); len(job) > 0 && job[0] != uint32(0) {
		if u.Job, err = c.jobType(ctx, name); err != nil {
			return Unit{}, err
		}
	}
	return u, nil
}

// jobType is the type of a unit's job, empty when that has ended meanwhile.
func (c *Conn) jobType(ctx context.Context, name string) (string, error) {
	jobs, err := c.bus.ListJobsContext(ctx)
	if err != nil {
		return "", fmt.Errorf("asking systemd for its jobs: %w", err)
	}
	for _, job := range jobs {
		if job.Unit == name {
			return job.JobType, nil
		}
	}
	return "", nil
}

// Booting reports whether the machine is still being booted (systemctl(1),
// is-system-running: initializing or starting).
func (c *Conn) Booting(ctx context.Context) (bool, error) {
	property, err := c.bus.SystemStateContext(ctx)
	if err != nil {
		return false, fmt.Errorf("asking systemd for its state: %w", err)
	}
	state, ok := property.Value.Value().(string)
	if !ok {
		return false, fmt.Errorf("asking systemd for its state: %s is no text", property.Value)
	}
	return state == "initializing" || state == "starting", nil
}

// Enable makes the [Install] links of a unit below /etc, replacing conflicting
// ones. Reload is due afterwards.
func (c *Conn) Enable(ctx context.Context, name string) error {
	_, _, err := c.bus.EnableUnitFilesContext(ctx, []string{name}, false, true)
	return wrap("enabling", name, err)
}

// Disable removes a unit's [Install] links below /etc. Reload is due afterwards.
func (c *Conn) Disable(ctx context.Context, name string) error {
	_, err := c.bus.DisableUnitFilesContext(ctx, []string{name}, false)
	return wrap("disabling", name, err)
}

// Mask links a unit to /dev/null below /etc. A unit file that stands there is in
// the way, and an error. Reload is due afterwards.
func (c *Conn) Mask(ctx context.Context, name string) error {
	_, err := c.bus.MaskUnitFilesContext(ctx, []string{name}, false, false)
	return wrap("masking", name, err)
}

// Unmask removes the link that Mask made. Reload is due afterwards.
func (c *Conn) Unmask(ctx context.Context, name string) error {
	_, err := c.bus.UnmaskUnitFilesContext(ctx, []string{name}, false)
	return wrap("unmasking", name, err)
}

// Start starts a unit and waits for the job to end or ctx. An error has the job's
// result: canceled, timeout, failed, dependency, skipped.
func (c *Conn) Start(ctx context.Context, name string) error {
	return job(ctx, "starting", name, c.bus.StartUnitContext)
}

// Stop stops a unit, otherwise like Start.
func (c *Conn) Stop(ctx context.Context, name string) error {
	return job(ctx, "stopping", name, c.bus.StopUnitContext)
}

// Restart restarts a unit, or starts one that does not run, otherwise like Start.
func (c *Conn) Restart(ctx context.Context, name string) error {
	return job(ctx, "restarting", name, c.bus.RestartUnitContext)
}

// Enqueue puts a start or restart into the manager's queue without waiting for its
// outcome. Inside a boot transaction waiting could deadlock: the unit may be
// ordered after the caller.
func (c *Conn) Enqueue(ctx context.Context, name string, restart bool) error {
	enqueue, doing := c.bus.StartUnitContext, "enqueuing the start of"
	if restart {
		enqueue, doing = c.bus.RestartUnitContext, "enqueuing the restart of"
	}
	_, err := enqueue(ctx, name, "replace", nil)
	return wrap(doing, name, err)
}

// Reload makes the manager read all unit files again (daemon-reload).
func (c *Conn) Reload(ctx context.Context) error {
	if err := c.bus.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reloading systemd: %w", err)
	}
	return nil
}

// jobDone is the result of a job that did what it should.
const jobDone = "done"

func job(ctx context.Context, doing, name string, enqueue func(context.Context, string, string, chan<- string) (int, error)) error {
	result := make(chan string, 1)
	if _, err := enqueue(ctx, name, "replace", result); err != nil {
		return wrap(doing, name, err)
	}
	select {
	case r := <-result:
		if r != jobDone {
			return fmt.Errorf("%s %s: the job ended as %q", doing, name, r)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %s: the job has not ended: %w", doing, name, ctx.Err())
	}
}

func wrap(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, name, err)
}
