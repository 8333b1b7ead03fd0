package sink

import "busbar/plan"

// Explanations are about the findings that several sinks make: a file of busbar's that nobody wants any more.
func Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "file.stale", Title: "a file that busbar wrote holds what no block wants any more",
		Why:  "A block that was dropped from the profile must leave no line behind.",
		Read: "The file, which busbar owns as a whole (nccl.conf: the block at its head).", Fix: "busbar apply renders it anew, or removes it.",
		Risk: "None: nothing else is in it.",
	}}
}

// Explanations are about its findings.
func (BootArgs) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "What the kernel is told at the next boot decides what the node is then.",
		Read: "/proc/cmdline, /etc/default/grub and its fragments as GRUB's own scripts read them, /boot/grub/grub.cfg.",
		Fix:  "busbar apply writes /etc/default/grub.d/zz-busbar.cfg and has update-grub write grub.cfg.",
		Risk: "It takes effect with the next boot. An argument that is wrong can keep the node from booting: try one node first.", Sources: []string{"GNU GRUB manual, Simple configuration", "Linux Documentation/admin-guide/kernel-parameters.txt"},
	},
		plan.Explanation{ID: "boot_args.next_boot", Title: "an argument is not in force at the next boot"},
		plan.Explanation{ID: "boot_args.overridden", Title: "another file takes an argument away again", Why: "A fragment that is read later replaces the line instead of adding to it, as those of cloud images do.", Fix: "Change the file that the finding names, or say take_over = true."},
		plan.Explanation{ID: "boot_args.other_entry", Title: "another boot entry than those with the arguments is chosen", Why: "The node boots a kernel that was never told.", Fix: "grub-set-default, or GRUB_DEFAULT in /etc/default/grub."},
		plan.Explanation{ID: "boot_args.left_over", Title: "an argument that busbar once set is still in the boot entries", Fix: "busbar apply has them written anew."},
		plan.Explanation{ID: "boot_args.no_op", Title: "no kernel acts on an argument", Why: "It hides that what was meant is not in force: pci=noacs, for example, is none that Linux has.", Fix: "Take it out of where it comes from.", Risk: "None."},
		plan.Explanation{ID: "boot_args.doubled_token", Title: "an argument stands twice on the kernel's line", Why: "Two mechanisms add it, and whoever changes one of them is surprised by the other.", Fix: "Find the second one (tuned, a fragment, kernelopts) and take it out."},
		plan.Explanation{ID: "boot_args.defaults_broken", Title: "GRUB's defaults have an error", Why: "update-grub fails, or reads less than is written.", Fix: "Mend the line that the finding names."},
		plan.Explanation{ID: "boot_args.unknown_key", Title: "a name in GRUB's defaults is none that GRUB reads", Why: "The line does nothing.", Fix: "Write the name that is meant."},
		plan.Explanation{ID: "boot_args.repeated_assignment", Title: "the same assignment stands there twice", Why: "It does no harm, and whoever changes one of them changes nothing.", Fix: "Delete one."},
		plan.Explanation{ID: "boot_args.dropped_tokens", Title: "a later line replaces the arguments of an earlier one", Why: "Arguments of the earlier line never reach the kernel.", Fix: "Add to the variable instead: \"$GRUB_CMDLINE_LINUX_DEFAULT ...\"."},
		plan.Explanation{ID: "boot_args.stray_none", Title: "the word None stands among the arguments", Why: "A program printed a missing value; what was meant is missing.", Fix: "Take it out."},
		plan.Explanation{ID: "boot_args.separator", Title: "a separator ends the kernel's line in the middle of a value", Why: "GRUB takes the rest for a command.", Fix: "Quote the value as GRUB wants it."},
		plan.Explanation{ID: "boot_args.command_after_value", Title: "a word behind an assignment is run as a command", Why: "The file is a shell script: NAME=value word runs the word.", Fix: "Put the value in quotes."},
		plan.Explanation{ID: "boot_args.tuned_twice", Title: "tuned adds its arguments in two ways", Why: "They stand on the line twice.", Fix: "Keep one: the placeholder or the file."},
		plan.Explanation{ID: "boot_args.bashism", Title: "the file has what bash takes and sh does not", Why: "update-grub runs it with sh, which fails or does something else.", Fix: "Write it for sh."},
	)
}

// Explanations are about its findings.
func (CUFile) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "gds.setting", Title: "cuFile is not set as wanted",
		Why:  "Whether cuFile copies through host memory without a word hangs on properties.allow_compat_mode.",
		Read: "/etc/cufile.json, JSON with comments.", Fix: "busbar apply sets it there and keeps comments and all else.",
		Risk: "None for what runs: programs read the file when they start.", Sources: []string{"NVIDIA GPUDirect Storage documentation, cufile.json"},
	}}
}

// Explanations are about its findings.
func (Limits) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "RDMA locks what it registers: with a low limit ibv_reg_mr fails.",
		Read: "/etc/security/limits.conf and limits.d, as pam_limits reads them.", Fix: "busbar apply writes /etc/security/limits.d/zz-busbar.conf.",
		Risk: "None: it counts for logins from then on.", Sources: []string{"limits.conf(5)", "pam_limits(8)"},
	},
		plan.Explanation{ID: "limits.login", Title: "logins get other limits than wanted"},
		plan.Explanation{ID: "limits.unlimited_stack", Title: "the stack is unlimited", Why: "NCCL before 2.28 gives its threads small stacks then.", Fix: "Set a number, such as 65536 (KiB).", Sources: []string{"NCCL user guide, Troubleshooting"}},
	)
}

// Explanations are about its findings.
func (DropIns) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "Jobs inherit the limits of the daemon that starts them.",
		Read: "The unit's files and drop-ins in the order in which systemd reads them, and system.conf.", Fix: "busbar apply writes UNIT.d/zz-busbar.conf and has systemd read it.",
		Risk: "It counts when the unit is started again.", Sources: []string{"systemd.exec(5)", "systemd.unit(5)"},
	},
		plan.Explanation{ID: "limits.unit", Title: "a unit starts with other limits than wanted"},
		plan.Explanation{ID: "limits.not_reloaded", Title: "systemd has not read the unit's files since they changed", Why: "It starts the unit as it was.", Fix: "systemctl daemon-reload; busbar apply does it."},
		plan.Explanation{ID: "unit.start_command", Title: "a unit does not run a command after it starts", Why: "nvidia_peermem has to be loaded again after the RDMA stack was restarted.", Risk: "None."},
	)
}

// Explanations are about its findings.
func (Modprobe) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Read: "The *.conf files of modprobe.d, in the order in which modprobe reads them.", Fix: "busbar apply writes /etc/modprobe.d/zz-busbar.conf; lines of others that stand against it are named.",
		Risk: "It counts when the module is loaded the next time.", Sources: []string{"modprobe.d(5)"},
	},
		plan.Explanation{ID: "kernel_module.blacklist", Title: "a module is kept out by modprobe.d, or is not and should be", Why: "systemd's module loader obeys a blacklist, an explicit modprobe does not: the module can be loaded now and be missing after the next boot."},
		plan.Explanation{ID: "kernel_module.option", Title: "a module is given another option than wanted when it is loaded", Why: "Of several values of one option the last counts."},
		plan.Explanation{ID: "kernel_module.modprobe", Title: "what modprobe is told is not known", Why: "Lines of others may stand against the profile.", Fix: "See the reason."},
	)
}

// Explanations are about its findings.
func (Initramfs) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "initramfs.modprobe", Title: "the initramfs holds a module and an older modprobe.d",
		Why:     "An initramfs has modprobe.d as it was when it was made. A module in it is loaded with that, before the root's files are there, and no reboot brings what they say: a hook that reboots until all is in force does so for ever.",
		Read:    "The image of the entry that GRUB boots next (else of the running kernel), unpacked: the modules in it and its own modprobe.d; the next boot's command line, which counts in both.",
		Fix:     "busbar apply runs update-initramfs -u -k KERNEL, reads the image again, and puts the old one back unless the new one is whole and has every module that was in it. With dracut, mkinitcpio or booster run the command that the finding names.",
		Risk:    "A node whose initramfs lacks the driver of its disk does not boot; this is what is looked at before the old one goes. It takes effect with the next boot.",
		Sources: []string{"update-initramfs(8)", "dracut(8)", "Linux init/initramfs.c", "modprobe.d(5)"},
	}}
}

// Explanations are about its findings.
func (ModulesLoad) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "kernel_module.repeated_line", Title: "a module stands in several files of modules-load.d",
		Why:  "It does no harm, and whoever takes one line out changes nothing.",
		Read: "The *.conf files of modules-load.d.", Fix: "Keep one.", Risk: "None.", Sources: []string{"modules-load.d(5)"},
	}}
}

// Explanations are about its findings.
func (Protected) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "protected.saved", Title: "which NICs carry the node's own network is not noted, or otherwise",
		Why:  "Early in the next boot there is no route to tell by; a NIC that is not noted is not touched where none is.",
		Read: "/var/lib/busbar/protected.json, and the routes of the running node.", Fix: "busbar apply notes it.", Risk: "None: nothing but the note is written.",
	}}
}

// Explanations are about its findings.
func (Sysctl) Explanations() []plan.Explanation {
	return []plan.Explanation{{
		ID: "sysctl.boot", Title: "a kernel parameter is not set as wanted at boot",
		Why:  "What runs now is gone after the next boot; of several files that set it the last counts.",
		Read: "The *.conf files of sysctl.d, in the order in which systemd-sysctl reads them.", Fix: "busbar apply writes /etc/sysctl.d/zz-busbar.conf; a file that sorts behind it has to be changed by its owner.",
		Risk: "None before the next boot.", Sources: []string{"sysctl.d(5)"},
	}}
}
