package kernelmodule

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "A module that is not loaded, or loaded with other options, is a part of the node that does not work as the profile says.",
		Read:    "/sys/module, /proc/modules, the module trees in /lib/modules, modules-load.d and modprobe.d.",
		Fix:     "busbar apply loads or unloads it, and writes modules-load.d and modprobe.d.",
		Risk:    "A module is unloaded only when nobody uses it.",
		Sources: []string{"modprobe.d(5)", "modules-load.d(5)"},
	},
		plan.Explanation{ID: "kernel_module.running", Title: "a module is not loaded, or is loaded and should not be"},
		plan.Explanation{ID: "kernel_module.boot", Title: "a module is not loaded at boot, or is and should not be", Why: "What runs now is gone after the next boot.", Read: "modules-load.d and what is built into the kernel."},
		plan.Explanation{ID: "kernel_module.next_kernel", Title: "the kernel that boots next does not have the module", Why: "The node comes up without it.", Read: "/lib/modules/RELEASE of the default boot entry.", Fix: "Build or install the module for that kernel (DKMS)."},
		plan.Explanation{ID: "kernel_module.container", Title: "a module belongs to a container", Why: "modprobe does not know it, and busbar leaves it to its owner.", Fix: "Nothing, as long as the container keeps it loaded.", Sources: []string{"NVIDIA/gpu-operator issue 2619"}},
		plan.Explanation{ID: "kernel_module.option_in_force", Title: "a module runs with another option than wanted", Why: "An option in modprobe.d counts when the module is loaded, not before.", Read: "/sys/module/NAME/parameters.", Fix: "Load the module anew, or reboot.", Risk: "Loading it anew ends what uses it."},
		plan.Explanation{ID: "kernel_module.config", Title: "the block cannot be understood", Why: "Nothing of it is judged.", Read: "The profile.", Fix: "busbar validate names the mistake."},
	)
}
