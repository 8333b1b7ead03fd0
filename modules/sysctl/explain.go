package sysctl

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "What the kernel does with memory, networks and processes hangs on it.",
		Read:    "/proc/sys for the running kernel.",
		Fix:     "busbar apply sets it.",
		Risk:    "It takes effect at once for all processes.",
		Sources: []string{"sysctl.d(5)", "Linux Documentation/admin-guide/sysctl"},
	},
		plan.Explanation{ID: "sysctl.running", Title: "a kernel parameter has another value than wanted"},
	)
}
