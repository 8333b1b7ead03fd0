package nvidiadriver

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "Options of the driver decide what GPUs can do with each other and with NICs.",
		Read:    "/proc/driver/nvidia/params, modprobe.d and the kernel's command line.",
		Fix:     "busbar apply writes modprobe.d; the option is in force when the driver is loaded anew.",
		Risk:    "Loading the driver anew ends all that uses GPUs; busbar leaves it to the next boot.",
		Sources: []string{"kernel-open/nvidia/nv-reg.h of NVIDIA/open-gpu-kernel-modules", "modprobe.d(5)"},
	},
		plan.Explanation{ID: "nvidia_driver.option_in_force", Title: "the driver runs with another option than wanted"},
		plan.Explanation{ID: "nvidia_driver.command_line", Title: "the kernel's command line says another value of an option", Why: "It wins over modprobe.d.", Fix: "Take it off the command line."},
		plan.Explanation{ID: "nvidia_driver.unknown_option", Title: "the running driver has no such option", Why: "The line does nothing, and what was meant is not in force; new drivers drop options.", Fix: "See the driver's README for the option that replaced it."},
		plan.Explanation{ID: "nvidia_driver.config", Title: "the block cannot be understood", Why: "Nothing of it is judged.", Read: "The profile.", Fix: "busbar validate names the mistake."},
	)
}
