package checks

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/plan"
)

// BootArgs is check "boot_args": what is wrong with the kernel's arguments whatever a profile wants of them.
type BootArgs struct{}

// Spec of check "boot_args".
func (BootArgs) Spec() plan.Spec {
	return plan.Spec{
		Name: "boot_args", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The kernel's arguments, and what the boot loader's files make of them: arguments that do nothing, contradict each other or are lost on the way. Which are wanted is said by kernel_args and iommu.",
	}
}

// Queries are the running command line, and the boot loader's files.
func (BootArgs) Queries(plan.Block, node.Inventory) []node.Query {
	return []node.Query{node.CommandLine.Query(""), node.Boot.Query(""), node.File.Query(kernelCommandLine)}
}

// kernelCommandLine is what kernel-install(8) gives new entries.
const kernelCommandLine = "/etc/kernel/cmdline"

// weighty are the keys of arguments on which the way of GPU traffic hangs.
var weighty = []string{"iommu", "iommu.passthrough", "intel_iommu", "amd_iommu", "pci", "numa_balancing", "pcie_aspm", "init_on_alloc"}

// isWeighty reports whether one of the words is such an argument.
func isWeighty(words string) bool {
	return slices.ContainsFunc(cmdline.Parse(words), func(a cmdline.Arg) bool {
		return slices.ContainsFunc(weighty, func(key string) bool { return cmdline.KeyEqual(key, a.Key) })
	})
}

// Assess judges the running line, then what the next boot is told.
func (BootArgs) Assess(_ plan.Block, facts node.Facts) plan.Assessment {
	var a plan.Assessment
	line := node.CommandLine.Get(facts, "")
	boot := node.Boot.Get(facts, "")
	if text, ok := line.Get(); ok {
		a.Findings = append(a.Findings, runningArguments(text, line.Source(), facts.Inventory)...)
	}
	if config, ok := boot.Get(); ok {
		a.Findings = append(a.Findings, bootFiles(config, facts)...)
	}
	if len(a.Findings) == 0 && !boot.IsKnown() && !line.IsKnown() {
		a.Findings = append(a.Findings, plan.Unread("boot_args.running", "what the kernel was told", line))
	}
	return a
}

// runningArguments judges the line of the running kernel.
func runningArguments(text string, source node.Source, inv node.Inventory) []plan.Finding {
	const id = "boot_args.running"
	line := cmdline.Parse(text)
	arch, _ := inv.Arch.Get()
	if arch == "" {
		arch = "x86_64"
		if len(cmdline.Occurrences(line, "iommu.passthrough")) > 0 && len(cmdline.Occurrences(line, "iommu")) == 0 {
			arch = "aarch64"
		}
	}
	intent := cmdline.IOMMU(line, cmdline.Platform{Arch: arch})
	var findings []plan.Finding
	for _, n := range append(slices.Clone(intent.Notes), cmdline.Ignored(line)...) {
		f := plan.Finding{ID: id, Target: n.Arg, Status: plan.Drift, Severity: plan.Warning, Found: n.Arg, Source: source, Summary: n.Arg + ": " + n.Text, Fix: "take it out of where it comes from"}
		switch {
		case n.Kind == cmdline.Contradiction:
			f.Severity = plan.Error
		case intent.Mode == cmdline.Unset && strings.Contains(n.Arg, "iommu"):
			f.Severity = plan.Error
			f.Summary = n.Arg + " does nothing: " + n.Text
			f.Why = "somebody meant to settle how the IOMMU treats DMA, and the kernel's default is in force: translation, in most distributions, which sends peer-to-peer traffic up to the root complex"
			f.Fix = "write iommu=pt instead, and look at /sys/kernel/iommu_groups/*/type after the reboot"
		}
		findings = append(findings, f)
	}
	seen, told := map[string]bool{}, map[string]bool{}
	for _, arg := range line {
		if seen[arg.Text] && !told[arg.Text] && cmdline.RuleOf(arg.Key) != cmdline.Repeat {
			told[arg.Text] = true
			findings = append(findings, plan.Finding{
				ID: "boot_args.doubled_token", Target: arg.Text, Status: plan.Drift, Severity: plan.Warning, Source: source,
				Summary: arg.Text + " stands on the running kernel's command line more than once: two mechanisms add it",
				Fix:     "take it out of one of the two: of the boot loader's defaults, tuned or a kernelopts of its own",
			})
		}
		seen[arg.Text] = true
	}
	for _, arg := range cmdline.Occurrences(line, "intel_iommu") {
		if intent.Mode == cmdline.Unset && slices.Contains(strings.Split(arg.Value, ","), "on") {
			findings = append(findings, plan.Finding{
				ID: id, Target: arg.Text, Status: plan.Drift, Severity: plan.Warning, Found: arg.Text, Source: source,
				Summary: arg.Text + " turns the IOMMU on, and no argument says how it treats DMA: the kernel's default is in force, translation in most distributions",
				Why:     "translation sends peer-to-peer traffic up to the root complex",
				Fix:     "add iommu=pt (block iommu with mode passthrough), and look at /sys/kernel/iommu_groups/*/type after the reboot",
			})
			break
		}
	}
	if len(findings) > 0 {
		return findings
	}
	f := plan.Finding{ID: id, Target: "command line", Status: plan.OK, Source: source, Summary: "the kernel's arguments do not contradict each other, and none that settles the IOMMU is without effect"}
	if intent.By != "" {
		f.Summary = fmt.Sprintf("the kernel's arguments ask for an IOMMU in mode %s (%s)", intent.Mode, intent.By)
	}
	return []plan.Finding{f}
}

// lintWords are what to do about a mistake in GRUB's defaults.
var lintWords = map[grub.LintKind]string{
	grub.UnknownKey: "correct the name, and run update-grub", grub.DroppedTokens: "put the argument into a file that is read last and appends to what is there (/etc/default/grub.d), and run update-grub",
	grub.RepeatedAssignment: "keep one of the lines", grub.StrayNone: "take the word out, and run update-grub", grub.DoubledToken: "keep one of the two", grub.TunedTwice: "keep the placeholder or the file, not both",
}

// bootFiles judges what the files make of the arguments.
func bootFiles(config node.BootConfig, facts node.Facts) []plan.Finding {
	defaults, err := nextboot.Evaluate(config, config.Defaults)
	if err != nil {
		source := node.Source{Path: grub.DefaultsFile}
		if syntax, ok := errors.AsType[*grub.SyntaxError](err); ok {
			source = node.Source{Path: syntax.File, Line: syntax.Line}
		}
		return []plan.Finding{{
			ID: "boot_args.defaults_broken", Target: source.Path, Status: plan.Drift, Source: source, Summary: source.Path + " cannot be read by the shell: " + err.Error(),
			Why: "update-grub fails, and the next boot gets what the last good run wrote", Fix: "mend the line",
		}}
	}
	var findings []plan.Finding
	for _, l := range defaults.Lints {
		f := plan.Finding{ID: "boot_args." + strings.ReplaceAll(string(l.Kind), "-", "_"), Target: l.File, Status: plan.Drift, Severity: plan.Warning, Summary: l.Text, Source: node.Source{Path: l.File, Line: l.Line}, Fix: lintWords[l.Kind]}
		words := l.Text
		switch l.Kind {
		case grub.DroppedTokens:
			_, words, _ = strings.Cut(l.Text, " drops ")
			f.Severity = plan.Info
		case grub.UnknownKey:
			words = valueOn(config.Defaults, l.File, l.Line)
		}
		if (l.Kind == grub.DroppedTokens || l.Kind == grub.UnknownKey) && isWeighty(words) {
			f.Severity = plan.Error
			f.Why = "the kernel is never told: " + strings.TrimSpace(words)
		}
		findings = append(findings, f)
	}
	if config.Loader == node.LoaderGRUBBLS {
		findings = append(findings, staleEntries(config, defaults, facts)...)
	}
	if len(findings) == 0 {
		findings = append(findings, plan.Finding{ID: "boot_args.files", Target: "boot loader", Status: plan.OK, Source: node.Source{Path: grub.DefaultsFile}, Summary: "no argument of the boot loader's files is lost or doubled on its way"})
	}
	return findings
}

// valueOn is what a line of a file assigns, quotes undone.
func valueOn(files []confdir.File, path string, line int) string {
	for _, f := range files {
		lines := strings.Split(f.Text, "\n")
		if f.Path == path && line > 0 && line <= len(lines) {
			_, value, _ := strings.Cut(lines[line-1], "=")
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// staleEntries finds arguments of the defaults that entries of the boot loader do not have: where GRUB reads entries
// (GRUB_ENABLE_BLSCFG), the defaults count when an entry is made and never again.
func staleEntries(config node.BootConfig, defaults *grub.Defaults, facts node.Facts) []plan.Finding {
	environment, _ := grub.ParseEnvironment(config.Environment)
	var findings []plan.Finding
	for _, t := range append(defaults.Tokens(grub.Linux), defaults.Tokens(grub.LinuxDefault)...) {
		if !isWeighty(t.Arg) {
			continue
		}
		key, value := "", ""
		for _, a := range cmdline.Parse(t.Arg) {
			key, value = a.Key, a.Value
		}
		var without []string
		for _, e := range config.Entries {
			options := ""
			for line := range strings.Lines(e.Text) {
				if rest, ok := strings.CutPrefix(line, "options "); ok {
					options += " " + strings.TrimSpace(rest)
				}
			}
			options = strings.NewReplacer("$kernelopts", environment["kernelopts"].Value, "${kernelopts}", environment["kernelopts"].Value).Replace(options)
			if ok, _ := cmdline.Satisfied(cmdline.Parse(options), key, value); !ok {
				without = append(without, e.Path)
			}
		}
		if len(without) == 0 {
			continue
		}
		f := plan.Finding{
			ID: "boot_args.stale_entry", Target: t.Arg, Status: plan.Drift, Want: t.Arg, Found: "absent", Source: node.Source{Path: t.File, Line: t.Line},
			Summary: fmt.Sprintf("%s stands in %s, and the boot loader's entries do not have it: %s", t.Arg, t.File, strings.Join(without, ", ")),
			Why:     "where GRUB reads entries (GRUB_ENABLE_BLSCFG) its defaults count when a kernel is installed, and never again",
			Fix:     fmt.Sprintf("grubby --update-kernel=ALL --args=%q", t.Arg),
		}
		if text, ok := node.File.Get(facts, kernelCommandLine).Get(); ok {
			if has, _ := cmdline.Satisfied(cmdline.Parse(text.Text), key, value); !has {
				f.Fix += ", and add it to " + kernelCommandLine + ", which the next kernel's entry is made of"
			}
		}
		findings = append(findings, f)
	}
	return findings
}
