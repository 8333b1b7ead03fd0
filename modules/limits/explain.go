package limits

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "RDMA locks what it registers, and jobs inherit the limits of the daemon that starts them.",
		Read:    "/proc/PID/limits of the unit's main process.",
		Fix:     "busbar apply writes drop-ins and limits.d, and starts the daemon again.",
		Risk:    "Restarting slurmd or a container runtime can disturb its jobs.",
		Sources: []string{"limits.conf(5)", "systemd.exec(5)", "getrlimit(2)"},
	},
		plan.Explanation{ID: "limits.process", Title: "a running service has other limits than wanted", Why: "Limits of a file reach a daemon only when it is started again, and jobs inherit the daemon's."},
	)
}
