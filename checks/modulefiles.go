package checks

import (
	"fmt"
	"slices"
	"strings"

	"busbar/internal/cmdline"
	"busbar/internal/modprobe"
	"busbar/node"
	"busbar/plan"
)

// ModuleFiles is check "module_files": what is wrong in modules-load.d and modprobe.d whatever a profile wants of modules.
type ModuleFiles struct{}

// Spec of check "module_files".
func (ModuleFiles) Spec() plan.Spec {
	return plan.Spec{
		Name: "module_files", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The files of modules-load.d and modprobe.d: modules that one file loads at boot and another keeps out, a blacklist of nouveau that the initramfs lacks, options that the NVIDIA driver no longer has.",
	}
}

const nouveauModule = "nouveau"

// Queries are the files, the command line, which can keep modules out too, and what the initramfs has of nouveau.
func (ModuleFiles) Queries(plan.Block, node.Inventory) []node.Query {
	return []node.Query{node.ModulesLoadFiles.Query(""), node.ModprobeFiles.Query(""), node.CommandLine.Query(""), node.Initramfs.Query(nouveauModule)}
}

// goneOptions are options that the NVIDIA driver had once. Newer ones log "unknown parameter ... ignored" (CachyOS-PKGBUILDS issue 1678).
var goneOptions = []string{"NVreg_UsePageAttributeTable"}

// Assess reads the files as kmod and systemd-modules-load do.
func (ModuleFiles) Assess(_ plan.Block, facts node.Facts) plan.Assessment {
	const id = "module_files.boot"
	load, modprobeFiles := node.ModulesLoadFiles.Get(facts, ""), node.ModprobeFiles.Get(facts, "")
	var a plan.Assessment
	loadFiles, hasLoad := load.Get()
	files, hasModprobe := modprobeFiles.Get()
	if !hasLoad && !hasModprobe {
		return plan.Assessment{Findings: []plan.Finding{plan.Unread(id, "what the files say", load)}}
	}
	entries, _ := modprobe.ParseModulesLoad(modprobe.OrderModulesLoad(loadFiles))
	config, _ := modprobe.ParseModprobe(modprobe.OrderModprobe(files))
	for _, e := range entries {
		for _, at := range config.Blacklisted(e.Module) {
			a.Findings = append(a.Findings, plan.Finding{
				ID: id, Target: e.Module, Status: plan.Conflict, Want: "one owner", Found: "two", Source: node.Source{Path: at.File, Line: at.Line},
				Summary: fmt.Sprintf("%s is to be loaded at boot (%s:%d), and %s:%d blacklists it", e.Module, e.File, e.Line, at.File, at.Line),
				Why:     "modprobe by hand ignores a blacklist, and systemd-modules-load honours it: what works now is gone after the next boot",
				Fix:     "take one of the two lines out; whoever wrote the blacklist had a reason",
			})
		}
	}
	for _, e := range modprobe.Duplicates(entries) {
		a.Findings = append(a.Findings, plan.Finding{
			ID: "module_files.repeated_line", Target: e.Module, Status: plan.Drift, Severity: plan.Info, Source: node.Source{Path: e.File, Line: e.Line},
			Summary: e.Module + " is named again, which does no harm", Fix: "some script appends the line each time it runs",
		})
	}
	a.Findings = append(a.Findings, nouveau(config, facts)...)
	for _, o := range config.Options("nvidia") {
		if slices.Contains(goneOptions, o.Key) {
			a.Findings = append(a.Findings, plan.Finding{
				ID: "module_files.gone_option", Target: o.Key, Status: plan.Drift, Severity: plan.Warning, Found: o.Value, Source: node.Source{Path: o.File, Line: o.Line},
				Summary: o.Key + " is an option of older drivers, which newer ones ignore with a line in the kernel log", Fix: "take it out; /proc/driver/nvidia/params has what the running driver knows",
			})
		}
	}
	for _, o := range config.Options("nvidia") {
		if strings.EqualFold(o.Key, "NVreg_NvLinkDisable") && o.Value != "0" {
			a.Findings = append(a.Findings, plan.Finding{
				ID: "module_files.nvlink_off", Target: o.Key, Status: plan.Drift, Severity: plan.Warning, Found: o.Value, Source: node.Source{Path: o.File, Line: o.Line},
				Summary: fmt.Sprintf("%s=%s keeps the driver from using NVLinks", o.Key, o.Value), Why: "GPUs reach each other over PCIe alone", Fix: "take it out, unless it stands there because of broken links; it counts at the driver's next load",
			})
		}
	}
	if len(a.Findings) == 0 {
		a.Findings = append(a.Findings, plan.Finding{ID: id, Target: "modules", Status: plan.OK, Source: modprobeFiles.Source(), Summary: "no file keeps out what another one loads"})
	}
	return a
}

// nouveau judges a blacklist of it: the initramfs has its own copy of modprobe.d, of the time when it was made, and loads what
// drives a display early. The command line counts there too (dracut.cmdline(7), modprobe(8)).
func nouveau(config modprobe.Config, facts node.Facts) []plan.Finding {
	at := config.Blacklisted(nouveauModule)
	line := node.CommandLine.Get(facts, "")
	text, ok := line.Get()
	if len(at) == 0 || !ok {
		return nil
	}
	for _, key := range []string{"rd.driver.blacklist", "modprobe.blacklist", "module_blacklist", "rdblacklist"} {
		for _, arg := range cmdline.Occurrences(cmdline.Parse(text), key) {
			if slices.Contains(strings.Split(arg.Value, ","), nouveauModule) {
				return nil
			}
		}
	}
	f := plan.Finding{
		ID: "module_files.initramfs", Target: nouveauModule, Status: plan.Drift, Severity: plan.Warning, Source: node.Source{Path: at[0].File, Line: at[0].Line},
		Summary: "nouveau is blacklisted in a file, and not on the command line: an initramfs that was made before the file still loads it",
		Why:     "nouveau takes the GPUs before the NVIDIA driver comes",
		Fix:     `make the initramfs anew (kernel_module "nouveau" { boot = "unloaded" } has busbar do it with update-initramfs; dracut --force), or add modprobe.blacklist=nouveau to the kernel's arguments`,
	}
	v := node.Initramfs.Get(facts, nouveauModule)
	image, known := v.Get()
	switch {
	case known && (image.Module == "" || plan.InitramfsModule{Name: nouveauModule, Blacklisted: true}.Missing(image) == ""):
		return nil
	case known:
		f.Source = v.Source()
		f.Summary = fmt.Sprintf("%s:%d blacklists nouveau, and %s, which holds it, has no such line", at[0].File, at[0].Line, image.Image)
	case !v.IsZero():
		f.Summary += fmt.Sprintf(" (what is in it is unknown: %s)", v.Reason())
	}
	return []plan.Finding{f}
}
