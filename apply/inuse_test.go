//go:build linux

package apply

import (
	"context"
	"strings"
	"testing"

	"busbar/node"
	"busbar/plan"
)

// A step that disturbs whoever uses GPUs is made when nobody does, or when it was allowed, and what requires it waits for it.
func TestInUse(t *testing.T) {
	job := []node.GPUUser{{PID: 7, Name: "python3", GPUs: []string{gpu}}}
	unseen := node.Known(0, node.Source{})
	steps := func(node.Facts) []plan.Step {
		return []plan.Step{
			{Target: "nvidia_peermem", Action: plan.LoadModule{Name: "nvidia_peermem", Unload: true}, Provides: []string{"gone"}},
			{Target: "/after", Action: plan.WriteFile{Path: "/after", Text: "x"}, Requires: []string{"gone"}},
			{Target: "/etc/nccl.conf", Action: plan.WriteFile{Path: "/etc/nccl.conf", Text: "A=1\n"}},
		}
	}
	const refused = "unload-module:nvidia_peermem skipped, write-file:/after skipped, write-file:/etc/nccl.conf done"
	const done = "unload-module:nvidia_peermem done, write-file:/after done, write-file:/etc/nccl.conf done"
	for _, c := range []struct {
		name, driver  string
		usage         node.GPUUsage
		disrupt, boot bool
		later         bool // they are used once the plan was made
		want, err     string
	}{
		{"no GPU", "", node.GPUUsage{Users: job, Unseen: unseen}, false, false, false, done, ""},
		{"nobody", "nvidia", node.GPUUsage{Unseen: unseen}, false, false, false, done, ""},
		{"a process", "nvidia", node.GPUUsage{Users: job, Unseen: unseen}, false, false, false, refused, "needs --disrupt: python3 (process 7) uses 0000:1b:00.0\n"},
		{"a process, at boot", "nvidia", node.GPUUsage{Users: job, Unseen: unseen}, false, true, false, refused, "needs --disrupt: python3 (process 7) uses 0000:1b:00.0\n"},
		{"a process, later", "nvidia", node.GPUUsage{Users: job, Unseen: unseen}, false, false, true, refused, "needs --disrupt: python3 (process 7) uses 0000:1b:00.0\n"},
		{"a process, and it was allowed", "nvidia", node.GPUUsage{Users: job, Unseen: unseen}, true, false, false, done, ""},
		{"a guest", "vfio-pci", node.GPUUsage{Unseen: unseen}, false, false, false, refused, "needs --disrupt: vfio-pci is bound to 0000:1b:00.0\n"},
		{"a guest, at boot", "vfio-pci", node.GPUUsage{Unseen: unseen}, false, true, false, done, ""},
		{"nobody knows", "nvidia", node.GPUUsage{Hidden: 3}, false, false, false, refused, "needs --disrupt: whether the GPUs are in use is unknown: not all processes can be looked into (3 cannot); root can\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.write("/sys/module/nvidia_peermem/initstate", "live\n")
			m.gpuDriver, m.usage = c.driver, c.usage
			o := m.options(m.plan(steps))
			o.Disrupt, o.Boot = c.disrupt, c.boot
			if c.later {
				m.usage = node.GPUUsage{Unseen: unseen}
				planned := o.Plan
				o.Plan = func(ctx context.Context) (Planned, error) {
					p, err := planned(ctx)
					m.usage = c.usage
					return p, err
				}
			}
			result := applyOn(t, o)
			code := plan.ExitOK
			if c.err != "" {
				code = plan.ExitPartial
			}
			if got := strings.Join(outcomes(result), ", "); got != c.want || !strings.HasPrefix(errorsOf(result)+"\n", c.err) || result.ExitCode != code {
				t.Errorf("%s: %q, exit code %d", got, errorsOf(result), result.ExitCode)
			}
		})
	}
}

// Connections over RDMA and Slurm's jobs are not disturbed either.
func TestRDMAInUse(t *testing.T) {
	steps := func(node.Facts) []plan.Step {
		return []plan.Step{{Target: "mlx5_ib", Action: plan.LoadModule{Name: "mlx5_ib", Unload: true}}}
	}
	connected := node.RDMAUsage{Users: []node.RDMAUser{{PID: 7, Name: "python3", Devices: []string{"mlx5_0"}}}}
	for _, c := range []struct {
		name       string
		connected  node.RDMAUsage
		jobs       []string
		disrupt    bool
		want, says string
	}{
		{"nobody", node.RDMAUsage{}, nil, false, "unload-module:mlx5_ib done", ""},
		{"a process", connected, nil, false, "unload-module:mlx5_ib skipped", "needs --disrupt: python3 (process 7) uses mlx5_0"},
		{"a job", node.RDMAUsage{}, []string{"3385"}, false, "unload-module:mlx5_ib skipped", "needs --disrupt: Slurm runs job 3385"},
		{"both, and it was allowed", connected, []string{"3385"}, true, "unload-module:mlx5_ib done", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.write("/sys/module/mlx5_ib/initstate", "live\n")
			m.rdma, m.connections, m.jobs = true, c.connected, c.jobs
			o := m.options(m.plan(steps))
			o.Disrupt = c.disrupt
			result := applyOn(t, o)
			if got := strings.Join(outcomes(result), ", "); got != c.want || !strings.Contains(errorsOf(result), c.says) {
				t.Errorf("%s: %q", got, errorsOf(result))
			}
		})
	}
}
