//go:build linux

package apply

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/limits"
	"busbar/node"
	"busbar/plan"
	"busbar/systemd"
)

// recorder notes what is asked of a machine's systemd.
type recorder struct {
	unitControl
	calls *[]string
}

func (r recorder) note(call string, err error) error {
	*r.calls = append(*r.calls, call)
	return err
}

func (r recorder) Enable(ctx context.Context, unit string) error {
	return r.note("enable", r.unitControl.Enable(ctx, unit))
}

func (r recorder) Disable(ctx context.Context, unit string) error {
	return r.note("disable", r.unitControl.Disable(ctx, unit))
}

func (r recorder) Mask(ctx context.Context, unit string) error {
	return r.note("mask", r.unitControl.Mask(ctx, unit))
}

func (r recorder) Unmask(ctx context.Context, unit string) error {
	return r.note("unmask", r.unitControl.Unmask(ctx, unit))
}

func (r recorder) Start(ctx context.Context, unit string) error {
	return r.note("start", r.unitControl.Start(ctx, unit))
}

func (r recorder) Stop(ctx context.Context, unit string) error {
	return r.note("stop", r.unitControl.Stop(ctx, unit))
}

func (r recorder) Reload(ctx context.Context) error {
	return r.note("reload", r.unitControl.Reload(ctx))
}

func (r recorder) Close() { _ = r.note("close", nil) }

func TestSetUnit(t *testing.T) {
	const unit = "x.service"
	tests := []struct {
		before             string
		enablement, active string
		stale              bool // unit files changed since systemd read them
		want               string
	}{
		{before: "disabled inactive 0", enablement: "enabled", active: "active", want: "enable reload start close"},
		{before: "masked inactive 0", enablement: "enabled", want: "unmask enable reload close"},
		{before: "masked inactive 0", enablement: "disabled", want: "unmask disable reload close"},
		{before: "enabled active 0", enablement: "masked", active: "inactive", want: "mask reload stop close"},
		{before: "enabled active 0", enablement: "disabled", want: "disable reload close"},
		{before: "enabled failed 0", enablement: "enabled", active: "active", want: "start close"},
		{before: "enabled inactive 0", active: "active", stale: true, want: "reload start close"},
		{before: "enabled active 0", enablement: "enabled", active: "active", want: ""},
	}
	for _, test := range tests {
		t.Run(test.before+" to "+test.enablement+" "+test.active, func(t *testing.T) {
			m := newMachine(t)
			m.write("/units/"+unit, test.before)
			m.write("/units/loaded-"+unit, "65536")
			if test.stale {
				m.write("/units/loaded-"+unit, "1")
			}
			var calls []string
			o := m.options(m.plan(func(node.Facts) []plan.Step {
				return []plan.Step{{Target: unit, Action: plan.SetUnit{Unit: unit, Enablement: test.enablement, Active: test.active}}}
			}))
			o.Units = func(context.Context) (Units, error) { return recorder{unitControl{m}, &calls}, nil }
			result := applyOn(t, o)
			if diff := cmp.Diff(test.want, strings.Join(calls, " ")); diff != "" || result.ExitCode != 0 {
				t.Errorf("exit code %d, calls (-want +got):\n%s\n%s", result.ExitCode, diff, errorsOf(result))
			}
		})
	}
}

func (r recorder) Restart(ctx context.Context, unit string) error {
	return r.note("restart", r.unitControl.Restart(ctx, unit))
}

func (r recorder) Enqueue(ctx context.Context, unit string, restart bool) error {
	return r.note("enqueue", r.unitControl.Enqueue(ctx, unit, restart))
}

// TestBoot: while the machine boots nothing waits for a unit, which may be waiting for
// busbar itself.
func TestBoot(t *testing.T) {
	for _, test := range []struct {
		name    string
		boot    bool
		booting string
		want    string
	}{
		{name: "told so", boot: true, want: "enqueue reload enqueue close"},
		{name: "seen", booting: "yes", want: "enqueue reload enqueue close"},
		{name: "not", want: "start reload restart close"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			m.write("/units/booting", test.booting)
			m.write("/units/kubelet.service", "enabled inactive 0")
			m.write("/units/loaded-kubelet.service", "65536")
			m.write("/units/slurmd.service", "enabled active 65536")
			m.write("/units/loaded-slurmd.service", "unlimited")
			m.write("/etc/systemd/system/slurmd.service.d/zz-busbar.conf", "LimitMEMLOCK=infinity")
			var calls []string
			o := m.options(m.plan(func(node.Facts) []plan.Step {
				return []plan.Step{
					{Target: "kubelet.service", Action: plan.SetUnit{Unit: "kubelet.service", Active: "active"}},
					{Target: "slurmd.service", Action: plan.RestartUnit{Unit: "slurmd.service", Limits: []plan.ProcessLimit{{Item: "memlock", Value: limits.Unlimited}}}},
				}
			}))
			o.Boot = test.boot
			o.Units = func(context.Context) (Units, error) { return recorder{unitControl{m}, &calls}, nil }
			result := applyOn(t, o)
			if got := strings.Join(calls, " "); got != test.want || len(result.Steps) != 2 || result.Steps[0].Outcome != Done || result.Steps[1].Outcome != Done {
				t.Errorf("calls %q, wanted %q; %s", got, test.want, errorsOf(result))
			}
		})
	}
}

// TestRemovedDropIn: systemd forgets what a drop-in said when it is removed, and a machine
// without systemd has nothing to forget.
func TestRemovedDropIn(t *testing.T) {
	const file = "/etc/systemd/system/slurmd.service.d/zz-busbar.conf"
	for _, test := range []struct {
		name    string
		connect error
		calls   string
		outcome string
	}{
		{"with systemd", nil, "reload close", Done},
		{"without systemd", systemd.ErrNotRunning, "", Done},
		{"systemd does not answer", context.DeadlineExceeded, "", Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			m.write(file, "[Service]\nLimitMEMLOCK=infinity\n")
			o := m.options(m.plan(func(node.Facts) []plan.Step {
				return []plan.Step{{Target: file, Action: plan.RemoveFile{Path: file}}}
			}))
			var calls []string
			o.Units = func(context.Context) (Units, error) {
				return recorder{unitControl{m}, &calls}, test.connect
			}
			result := applyOn(t, o)
			if got := strings.Join(calls, " "); got != test.calls || result.Steps[0].Outcome != test.outcome {
				t.Errorf("%s, calls %q", errorsOf(result), got)
			}
		})
	}
}
