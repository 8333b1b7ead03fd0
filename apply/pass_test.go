//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/plan"
)

// roce is a profile on a machine with rails: the module provides RDMA devices, and
// what roce wants of each is a parameter that is known once the device is there.
type roce struct {
	*machine
	rails   []string
	effect  plan.Effect
	ceiling plan.Effect
	// foreign: the second plan has a step that nobody approved.
	foreign bool
	calls   int
}

func (p *roce) plan(ctx context.Context) (Planned, error) {
	p.calls++
	planned, err := p.machine.plan(func(f node.Facts) []plan.Step {
		steps := []plan.Step{{
			Target: "mlx5_ib", Action: plan.LoadModule{Name: "mlx5_ib"}, Addresses: []string{"kernel_module.mlx5_ib"},
			Provides: []string{node.CapabilityRDMA}, Settle: 15 * time.Second,
		}}
		if p.foreign && p.calls > 1 {
			steps = append(steps, only("numa")(f)...)
		}
		return steps
	})(ctx)
	if err != nil {
		return planned, err
	}
	for _, rail := range p.rails {
		f := plan.Finding{ID: "roce.rail", Target: rail, Address: "roce.rails", Severity: plan.Error}
		facts := p.Read(ctx, planned.Facts.Inventory, []node.Query{node.RDMAPort.Query(rail), node.File.Query("/config/" + rail)})
		port := node.RDMAPort.Get(facts, rail)
		step := plan.Step{
			ID: "write-file:/config/" + rail, Target: "/config/" + rail, Summary: "configure " + rail, Effect: p.effect,
			Addresses: []string{"roce.rails"}, Action: plan.WriteFile{Path: "/config/" + rail, Text: "lossless"},
		}
		done, _, err := step.Action.Done(facts)
		must(err)
		switch {
		case !port.IsKnown():
			f.Status, f.Needs, f.Summary = plan.Undetermined, port.Needs(), port.Reason()
			if len(planned.Plan.Steps) > 0 && planned.Plan.Steps[0].Target == "mlx5_ib" {
				f.Status = plan.Deferred
				planned.Plan.Deferred = append(planned.Plan.Deferred, plan.DeferredBlock{Address: "roce.rails", Unlocks: "load-module:mlx5_ib", Ceiling: p.ceiling})
			}
		case done:
			f.Status = plan.OK
		default:
			f.Status, f.Fixable = plan.Drift, true
			planned.Plan.Steps = append(planned.Plan.Steps, step)
			planned.Facts = planned.Facts.Merge(facts)
		}
		planned.Plan.Findings = append(planned.Plan.Findings, f)
	}
	return planned, nil
}

// appear makes RDMA devices appear after a while, in the bubble's time.
func (p *roce) appear(after time.Duration, rails ...string) func(plan.Step) {
	return func(s plan.Step) {
		if s.Target == "mlx5_ib" {
			go func() {
				time.Sleep(after)
				for _, rail := range rails {
					p.write("/sys/class/infiniband/"+rail, "Ethernet")
				}
			}()
		}
	}
}

func newRoce(t *testing.T) *roce {
	m := newMachine(t)
	must(os.Mkdir(m.root+"/config", 0o755))
	return &roce{machine: m, rails: []string{"mlx5_0", "mlx5_1"}, effect: plan.LinkBounce, ceiling: plan.LinkBounce}
}

func TestPasses(t *testing.T) {
	const module = "load-module:mlx5_ib done"
	tests := []struct {
		name    string
		setUp   func(*roce)
		appear  []string
		after   time.Duration
		want    []string
		passes  int
		code    int
		stopped string
		left    []string
		took    time.Duration
	}{
		{
			name: "known at once", appear: []string{"mlx5_0", "mlx5_1"},
			want:   []string{module, "write-file:/config/mlx5_0 done", "write-file:/config/mlx5_1 done"},
			passes: 2,
		}, {
			name: "known later", appear: []string{"mlx5_0", "mlx5_1"}, after: 5 * time.Second,
			want:   []string{module, "write-file:/config/mlx5_0 done", "write-file:/config/mlx5_1 done"},
			passes: 2, took: 5 * time.Second,
		}, {
			name: "one of two", appear: []string{"mlx5_0"},
			want:   []string{module, "write-file:/config/mlx5_0 done"},
			passes: 2, code: plan.ExitPartial, left: []string{"roce.rails"}, took: 15 * time.Second,
		}, {
			name: "never", want: []string{module}, passes: 1, code: plan.ExitPartial, left: []string{"roce.rails"}, took: 15 * time.Second,
		}, {
			name: "too strong", appear: []string{"mlx5_0", "mlx5_1"}, setUp: func(p *roce) { p.ceiling = plan.Live },
			want: []string{module}, passes: 1, code: plan.ExitPartial, stopped: "needs a new approval: write-file:/config/mlx5_0",
		}, {
			name: "not approved", appear: []string{"mlx5_0", "mlx5_1"}, setUp: func(p *roce) { p.foreign = true },
			want: []string{module}, passes: 1, code: plan.ExitPartial, stopped: "needs a new approval: set-sysctl:kernel.numa_balancing",
		}, {
			name:   "provider fails",
			setUp:  func(p *roce) { p.program("modprobe", "exit 1") },
			want:   []string{"load-module:mlx5_ib failed"},
			passes: 1, code: plan.ExitPartial, left: []string{"roce.rails"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newRoce(t)
			if test.setUp != nil {
				test.setUp(p)
			}
			synctest.Test(t, func(t *testing.T) {
				o := p.options(p.plan)
				ended := func(plan.Step) {}
				if len(test.appear) > 0 {
					ended = p.appear(test.after, test.appear...)
				}
				waited := ""
				o.Observer = observer{ended: ended, waiting: func(what string) { waited = what }}
				began := time.Now()
				result := applyOn(t, o)
				took := time.Since(began)
				if diff := cmp.Diff(test.want, outcomes(result)); diff != "" {
					t.Errorf("steps (-want +got):\n%s\n%s", diff, errorsOf(result))
				}
				if result.Passes != test.passes || result.ExitCode != test.code {
					t.Errorf("%d passes, exit code %d; want %d, %d", result.Passes, result.ExitCode, test.passes, test.code)
				}
				if !strings.HasPrefix(result.Stopped, test.stopped) || (result.Stopped == "") != (test.stopped == "") {
					t.Errorf("stopped %q, want %q", result.Stopped, test.stopped)
				}
				if diff := cmp.Diff(test.left, result.Deferred); diff != "" {
					t.Errorf("deferred (-want +got):\n%s", diff)
				}
				if took < test.took || took > test.took+2*time.Second {
					t.Errorf("took %s, want about %s", took, test.took)
				}
				if want := "what decides roce.rails"; test.took > 0 && waited != want {
					t.Errorf("waited for %q", waited)
				}
				time.Sleep(time.Minute) // let appear end
			})
		})
	}
}

// A deferred set that goes on shrinking, with new steps each time, ends after three
// passes.
func TestPassesRunOut(t *testing.T) {
	m := newMachine(t)
	must(os.Mkdir(m.root+"/level", 0o755))
	planning := func(context.Context) (Planned, error) {
		// Level n is known when the file of level n-1 is there.
		facts := m.Read(t.Context(), node.Inventory{}, []node.Query{node.File.Query("/level/0"), node.File.Query("/level/1"), node.File.Query("/level/2"), node.File.Query("/level/3")})
		p := Planned{Facts: facts}
		known := true
		for level := range 4 {
			name := fmt.Sprintf("/level/%d", level)
			state, _ := node.File.Get(facts, name).Get()
			f := plan.Finding{ID: "level", Address: "levels", Target: name, Severity: plan.Error, Status: plan.OK}
			switch {
			case state.Exists:
			case known:
				f.Status = plan.Drift
				p.Plan.Steps = append(p.Plan.Steps, plan.Step{
					ID: "write-file:" + name, Target: name, Addresses: []string{"levels"}, Provides: []string{name},
					Action: plan.WriteFile{Path: name, Text: "x"},
				})
			default:
				f.Status, f.Needs = plan.Undetermined, fmt.Sprintf("/level/%d", level-1)
				if p.Plan.Steps[0].Provides[0] == f.Needs {
					f.Status = plan.Deferred
					p.Plan.Deferred = []plan.DeferredBlock{{Address: "levels", Ceiling: plan.Live}}
				}
			}
			known = state.Exists
			p.Plan.Findings = append(p.Plan.Findings, f)
		}
		return p, nil
	}
	result := applyOn(t, m.options(planning))
	if result.Passes != 3 || len(result.Steps) != 3 || result.ExitCode != plan.ExitPartial || !strings.HasPrefix(result.Stopped, "3 passes were made and write-file:/level/3") {
		t.Errorf("%d passes, %v, exit code %d, stopped %q", result.Passes, outcomes(result), result.ExitCode, result.Stopped)
	}
	if result := applyOn(t, m.options(planning)); result.ExitCode != 0 || len(result.Steps) != 1 {
		t.Errorf("the next run: %v, exit code %d", outcomes(result), result.ExitCode)
	}
}

func TestInterruptedWhileSettling(t *testing.T) {
	p := newRoce(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := p.options(p.plan)
		o.Observer = observer{waiting: func(string) { cancel() }}
		began := time.Now()
		result, err := run(ctx, o, true)
		if err != nil || result.ExitCode != plan.ExitPartial || !result.Interrupted || time.Since(began) > time.Second {
			t.Errorf("exit code %d, interrupted %t, took %s, error %v", result.ExitCode, result.Interrupted, time.Since(began), err)
		}
	})
}

func TestAwait(t *testing.T) {
	const rail = "0000:23:00.0"
	steps := func(node.Facts) []plan.Step {
		return []plan.Step{{Target: rail, Addresses: []string{"roce.rails"}, Action: plan.AwaitLinks{Ports: []plan.AwaitedPort{{NIC: rail}}, DeadlineS: 20}}}
	}
	tests := []struct {
		name    string
		after   time.Duration
		cancel  bool
		outcome string
		took    time.Duration
		err     string
	}{
		{name: "at once", outcome: Done},
		{name: "later", after: 7 * time.Second, outcome: Done, took: 7 * time.Second},
		{name: "in vain", after: time.Hour, outcome: Failed, took: 20 * time.Second, err: "waited 20 s in vain for the link of 0000:23:00.0 to come back"},
		{name: "interrupted", after: time.Hour, cancel: true, outcome: Interrupted, err: "the run was ended while waiting for"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			planned, err := m.plan(steps)(t.Context())
			must(err)
			planned.Plan.Steps = steps(planned.Facts)
			planned.Plan.Steps[0].ID = "await:" + rail
			planned.Plan.Findings = nil
			m.write("/links/"+rail, "0")
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					time.Sleep(test.after)
					m.write("/links/"+rail, "1")
				}()
				synctest.Wait()
				o := m.options(func(context.Context) (Planned, error) { return planned, nil })
				o.Observer = observer{waiting: func(string) {
					if test.cancel {
						cancel()
					}
				}}
				began := time.Now()
				result, err := run(ctx, o, true)
				took := time.Since(began)
				if err != nil {
					t.Fatal(err)
				}
				if got := result.Steps[0].Outcome; got != test.outcome {
					t.Errorf("outcome %s, want %s", got, test.outcome)
				}
				if got := errorsOf(result); !strings.Contains(got, test.err) {
					t.Errorf("error %q, want %q", got, test.err)
				}
				if took < test.took || took > test.took+time.Second {
					t.Errorf("took %s, want about %s", took, test.took)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestVerdict(t *testing.T) {
	finding := func(address string, status plan.Status) plan.Finding {
		return plan.Finding{ID: "x", Address: address, Status: status, Severity: plan.Error}
	}
	warn := func(f plan.Finding) plan.Finding { f.Severity = plan.Warning; return f }
	fixable := func(f plan.Finding) plan.Finding { f.Fixable = true; return f }
	waiting := finding("d", plan.Undetermined)
	waiting.Needs = node.CapabilityRDMA
	done := StepResult{Outcome: Done, Step: plan.Step{Addresses: []string{"a"}}}
	failed := StepResult{Outcome: Failed, Err: errors.New("x")}
	tests := []struct {
		name     string
		findings []plan.Finding
		planned  []plan.Finding
		steps    []StepResult
		stopped  string
		tree     bool
		want     int
	}{
		{name: "as wanted", findings: []plan.Finding{finding("a", plan.OK)}, steps: []StepResult{done}, want: plan.ExitOK},
		{name: "reboot owed", findings: []plan.Finding{finding("a", plan.PendingReboot)}, steps: []StepResult{done}, want: plan.ExitReboot},
		{name: "done, yet drift", findings: []plan.Finding{finding("a", plan.Drift)}, steps: []StepResult{done}, want: plan.ExitDisagrees},
		{name: "done, drift that no step was for", findings: []plan.Finding{finding("a", plan.Drift)}, planned: []plan.Finding{finding("a", plan.Drift)}, steps: []StepResult{done}, want: plan.ExitDrift},
		{name: "done, drift that a step was for", findings: []plan.Finding{finding("a", plan.Drift)}, planned: []plan.Finding{fixable(finding("a", plan.Drift))}, steps: []StepResult{done}, want: plan.ExitDisagrees},
		{name: "done, conflict where drift was", findings: []plan.Finding{finding("a", plan.Conflict)}, planned: []plan.Finding{finding("a", plan.Drift)}, steps: []StepResult{done}, want: plan.ExitDisagrees},
		{name: "done, drift elsewhere", findings: []plan.Finding{finding("b", plan.Drift)}, steps: []StepResult{done}, want: plan.ExitDrift},
		{name: "done, drift that only warns", findings: []plan.Finding{warn(finding("a", plan.Drift))}, steps: []StepResult{done}, want: plan.ExitOK},
		{name: "done, unknown", findings: []plan.Finding{finding("a", plan.Undetermined)}, steps: []StepResult{done}, want: plan.ExitUnknown},
		{name: "nothing done, drift", findings: []plan.Finding{finding("a", plan.Conflict)}, want: plan.ExitDrift},
		{name: "nothing done, ineffective", findings: []plan.Finding{finding("a", plan.Ineffective)}, want: plan.ExitDisagrees},
		{name: "failed, drift", findings: []plan.Finding{finding("a", plan.Drift)}, steps: []StepResult{done, failed}, want: plan.ExitPartial},
		{name: "failed, otherwise as wanted", steps: []StepResult{failed}, want: plan.ExitPartial},
		{name: "passes ran out", steps: []StepResult{done}, stopped: "3 passes", want: plan.ExitPartial},
		{name: "passes ran out, yet drift", findings: []plan.Finding{finding("a", plan.Drift)}, steps: []StepResult{done}, stopped: "3 passes", want: plan.ExitPartial},
		{name: "still deferred", findings: []plan.Finding{waiting}, steps: []StepResult{done}, want: plan.ExitPartial},
		{name: "still deferred, only a warning", findings: []plan.Finding{warn(waiting)}, steps: []StepResult{done}, want: plan.ExitOK},
		{name: "first boot decides", findings: []plan.Finding{finding("d", plan.Deferred)}, steps: []StepResult{done}, tree: true, want: plan.ExitOK},
		{name: "waived and skipped", findings: []plan.Finding{finding("a", plan.Waived), finding("a", plan.Skipped)}, steps: []StepResult{done}, want: plan.ExitOK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := runner{running: !test.tree, touched: map[string]bool{"a": len(test.steps) > 0}, deferred: map[undecided]bool{keyOf(waiting): true}}
			r.result = Result{Planned: Planned{Plan: plan.Plan{Findings: test.planned}}, Final: Planned{Plan: plan.Plan{Findings: test.findings}}, Steps: test.steps, Stopped: test.stopped}
			if got := r.verdict(); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}
