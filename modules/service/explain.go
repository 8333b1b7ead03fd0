package service

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "A unit that does not run, or does not start at boot, leaves the node without what it is for.",
		Read:    "systemd over D-Bus, or the unit files where nothing runs.",
		Fix:     "busbar apply enables, starts, stops or masks it.",
		Risk:    "What depends on the unit is started or stopped with it.",
		Sources: []string{"systemctl(1)", "org.freedesktop.systemd1(5)"},
	},
		plan.Explanation{ID: "service.running", Title: "a unit does not run, or runs and should not"},
		plan.Explanation{ID: "service.boot", Title: "a unit does not start at boot, or does and should not"},
		plan.Explanation{ID: "service.state", Title: "the state of a unit is not known"},
		plan.Explanation{ID: "service.not_installed", Title: "the unit is not installed", Why: "There is nothing to judge.", Fix: "Nothing, or install the package."},
		plan.Explanation{ID: "service.config", Title: "the block cannot be understood", Why: "Nothing of it is judged.", Read: "The profile.", Fix: "busbar validate names the mistake."},
	)
}
