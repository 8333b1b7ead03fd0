//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"busbar/node"
	"busbar/plan"
	"busbar/systemd"
)

// Units controls systemd units, by full name. *systemd.Conn is one.
type Units interface {
	Enable(ctx context.Context, unit string) error
	Disable(ctx context.Context, unit string) error
	Mask(ctx context.Context, unit string) error
	Unmask(ctx context.Context, unit string) error
	// Start, Stop and Restart return when the job has ended.
	Start(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	Restart(ctx context.Context, unit string) error
	// Enqueue queues a start or restart and does not wait for it.
	Enqueue(ctx context.Context, unit string, restart bool) error
	// Booting reports whether the machine is still being booted.
	Booting(ctx context.Context) (bool, error)
	// Reload makes systemd read all unit files again (daemon-reload).
	Reload(ctx context.Context) error
	Close()
}

// unitDeadline bounds everything that one step asks of systemd: above its own default
// of 90 s for a start and a stop each (systemd-system.conf(5), DefaultTimeoutStartSec).
const unitDeadline = 5 * time.Minute

// systemctlDeadline bounds systemctl in a directory tree, where it only makes links.
const systemctlDeadline = time.Minute

// connectUnits connects once in a run.
func (r *runner) connectUnits(ctx context.Context) (Units, error) {
	if r.units != nil {
		return r.units, nil
	}
	connect := r.Units
	if connect == nil {
		connect = func(ctx context.Context) (Units, error) {
			conn, err := systemd.Connect(ctx)
			if err != nil {
				return nil, err
			}
			return conn, nil
		}
	}
	units, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	r.units = units
	return units, nil
}

func (r *runner) closeUnits() {
	if r.units != nil {
		r.units.Close()
	}
}

func (r *runner) setUnit(ctx context.Context, a plan.SetUnit, now node.Facts) error {
	state, _ := node.Unit.Get(now, a.Unit).Get()
	if !r.running {
		if a.Active != "" {
			return errNotRunning
		}
		return r.systemctlOffline(a)
	}
	ctx, cancel := context.WithTimeout(ctx, r.within(unitDeadline))
	defer cancel()
	units, err := r.connectUnits(ctx)
	if errors.Is(err, systemd.ErrNotRunning) && a.Active == "" {
		return r.systemctlOffline(a) // an image that is being made, entered by chroot(8)
	}
	if err != nil {
		return err
	}
	if state.NeedReload || r.unitFiles {
		if err := r.reload(ctx, units); err != nil {
			return err
		}
	}
	if a.Enablement != "" && a.Enablement != state.File {
		if err := enable(ctx, units, a, state); err != nil {
			return err
		}
	}
	switch a.Active {
	case "active":
		return r.start(ctx, units, a.Unit, false)
	case "inactive":
		return units.Stop(ctx, a.Unit)
	default:
		return nil
	}
}

// enable changes a unit's links and makes systemd notice.
func enable(ctx context.Context, units Units, a plan.SetUnit, state node.UnitState) error {
	change := map[string]func(context.Context, string) error{
		"enabled": units.Enable, "disabled": units.Disable, "masked": units.Mask,
	}[a.Enablement]
	if change == nil {
		return fmt.Errorf("a unit cannot be made %s", a.Enablement)
	}
	if strings.HasPrefix(state.File, "masked") {
		if err := units.Unmask(ctx, a.Unit); err != nil {
			return err
		}
	}
	if err := change(ctx, a.Unit); err != nil {
		return err
	}
	return units.Reload(ctx)
}

// systemctlOffline changes a unit's links in a directory tree, where no systemd
// could be asked (systemctl(1), --root).
func (r *runner) systemctlOffline(a plan.SetUnit) error {
	verbs := map[string][]string{"enabled": {"unmask", "enable"}, "disabled": {"unmask", "disable"}, "masked": {"mask"}}
	for _, verb := range verbs[a.Enablement] {
		if err := r.runProgram(systemctlDeadline, "systemctl", "--root="+r.Root, verb, a.Unit); err != nil {
			return err
		}
	}
	return nil
}

// reload is daemon-reload.
func (r *runner) reload(ctx context.Context, units Units) error {
	err := units.Reload(ctx)
	r.unitFiles = r.unitFiles && err != nil
	return err
}

func (r *runner) reloadUnits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.within(unitDeadline))
	defer cancel()
	units, err := r.connectUnits(ctx)
	if err != nil {
		return err
	}
	return r.reload(ctx, units)
}

// restartUnit reloads first, also for the sake of a drop-in that a killed run left:
// see outdated.
func (r *runner) restartUnit(ctx context.Context, a plan.RestartUnit) error {
	ctx, cancel := context.WithTimeout(ctx, r.within(unitDeadline))
	defer cancel()
	units, err := r.connectUnits(ctx)
	if err != nil {
		return err
	}
	if err := r.reload(ctx, units); err != nil {
		return err
	}
	return r.start(ctx, units, a.Unit, true)
}

// start starts or restarts a unit. While the machine boots it is queued only: the unit may be
// ordered behind whatever runs busbar, and would wait for it while busbar waits for the unit.
func (r *runner) start(ctx context.Context, units Units, unit string, restart bool) error {
	booting := r.Boot
	if !booting {
		var err error
		if booting, err = units.Booting(ctx); err != nil {
			return err
		}
	}
	switch {
	case booting:
		return units.Enqueue(ctx, unit, restart)
	case restart:
		return units.Restart(ctx, unit)
	default:
		return units.Start(ctx, unit)
	}
}

// outdated reports whether a daemon-reload is due whatever systemd says: older
// versions do not notice the first drop-in of a unit (NeedDaemonReload looks for it in a
// cache of directories).
func (r *runner) outdated(action plan.Action) bool {
	_, reload := action.(plan.ReloadUnits)
	return reload && r.unitFiles
}

func isUnitFile(file string) bool { return strings.Contains(file, "/systemd/system/") }
