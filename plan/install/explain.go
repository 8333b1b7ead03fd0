package install

import "busbar/plan"

// Explanations are about the findings of busbar install and uninstall.
func Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "busbar.service puts back at each boot what does not outlive one.",
		Read: "The files themselves, and systemd for what is enabled.", Fix: "busbar install PROFILE, or busbar uninstall, does it.",
		Risk: "The next boot enforces the profile.", Sources: []string{"systemd.unit(5)"},
	},
		plan.Explanation{ID: "install.profile", Title: "the node's profile, /etc/busbar/node.hcl, is not the one to be installed"},
		plan.Explanation{ID: "install.unit", Title: "busbar.service is not there as wanted"},
		plan.Explanation{ID: "install.enabled", Title: "busbar.service is not started at boot"},
		plan.Explanation{ID: "install.modules_load", Title: "systemd-modules-load.service has no bound on its time", Why: "A module that hangs would hold up the boot for minutes."},
		plan.Explanation{ID: "uninstall.profile", Title: "the node's profile is still there"},
		plan.Explanation{ID: "uninstall.unit", Title: "busbar.service is still there"},
		plan.Explanation{ID: "uninstall.enabled", Title: "busbar.service is still started at boot"},
		plan.Explanation{ID: "uninstall.modules_load", Title: "busbar's bound on systemd-modules-load.service is still there"},
	)
}
