package sink

import (
	"fmt"
	"slices"

	"busbar/internal/modprobe"
	"busbar/node"
	"busbar/plan"
)

// Values of a contribution to ModulesLoad.
const (
	LoadAtBoot = "load"
	NotAtBoot  = "none"
)

// ModulesLoadName is the name of the sink ModulesLoad.
const ModulesLoadName = "modules-load.d"

// ModulesLoad is modules-load.d(5): which modules systemd loads at boot. Keys are
// module names with underscores, values LoadAtBoot and NotAtBoot. A module that is
// blacklisted is skipped by systemd's loader although an explicit modprobe would
// load it (libkmod KMOD_PROBE_APPLY_BLACKLIST), so a blacklist is a conflict here;
// Modprobe takes it over where it may.
type ModulesLoad struct{}

var modulesLoadFile = owned{
	sink: ModulesLoadName, path: "/etc/modules-load.d/busbar.conf",
	list: node.ModulesLoadFiles.Query(""), effect: plan.Live,
}

var modulesLoadPlace = place{dirs: modprobe.ModulesLoadDirs, option: "boot.kernelModules"}

// Name is modules-load.d.
func (ModulesLoad) Name() string { return ModulesLoadName }

// Queries are the files of modules-load.d and modprobe.d, and whether the former can
// be written.
func (ModulesLoad) Queries([]plan.Contribution) []node.Query {
	return append(modulesLoadPlace.queries(), node.ModulesLoadFiles.Query(""), node.ModprobeFiles.Query(""))
}

// Assess judges each module at the next boot.
func (ModulesLoad) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	const id = "kernel_module.boot"
	contributions, keep := decided(contributions)
	v := node.ModulesLoadFiles.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		return unread(contributions, id, "what is loaded at boot", v)
	}
	modprobeFiles, ok := node.ModprobeFiles.Get(facts, "").Get()
	if !ok {
		return unread(contributions, id, "what is blacklisted", node.ModprobeFiles.Get(facts, ""))
	}
	if bad, found := unreadable(slices.Concat(files, modprobeFiles)); found {
		return unread(contributions, id, "what is loaded at boot", bad)
	}
	entries, _ := modprobe.ParseModulesLoad(modprobe.OrderModulesLoad(modulesLoadFile.foreign(files)))
	ownEntries, _ := modprobe.ParseModulesLoad(modulesLoadFile.only(files))
	config, _ := modprobe.ParseModprobe(modprobe.OrderModprobe(modprobeFile.foreign(modprobeFiles)))

	var a plan.Assessment
	var load []string
	var edits takeOver
	for _, c := range contributions {
		foreign := linesOf(entries, c.Key)
		own := linesOf(ownEntries, c.Key)
		f := plan.Finding{
			ID: id, Address: c.Address, Target: c.Key, Effect: plan.Live,
			Want: "loaded at boot", Found: "not loaded at boot", Status: plan.OK,
			Source: node.Source{Path: "/etc/modules-load.d"},
		}
		if at := slices.Concat(foreign, own); len(at) > 0 {
			f.Found, f.Source = "loaded at boot", node.Source{Path: at[0].File, Line: at[0].Line}
		}
		switch c.Value {
		case LoadAtBoot:
			if len(foreign) == 0 {
				load = append(load, c.Key)
			}
			f.Summary = c.Key + " is loaded at boot"
			if f.Found != f.Want {
				f.Status, f.Fixable = plan.Drift, true
				f.Summary = c.Key + " is not loaded at boot"
			}
			if out, found := keptOut(config, c); found {
				f = out.finding(f, c)
				if f.Status == plan.Conflict {
					load = slices.DeleteFunc(load, func(m string) bool { return m == c.Key })
				}
			}
		case NotAtBoot:
			f.Want = "not loaded at boot"
			f.Summary = c.Key + " is not loaded at boot"
			switch {
			case len(foreign) > 0 && c.TakeOver:
				f.Status, f.Fixable = plan.Drift, true
				f.Summary = c.Key + " is loaded at boot by a file of others, which is taken over"
				for _, at := range foreign {
					edits.cut(at.File, at.Line, c.Address)
				}
			case len(foreign) > 0:
				f.Status = plan.Conflict
				f.Summary = fmt.Sprintf("%s is loaded at boot by %s", c.Key, f.Source)
				f.Fix = fmt.Sprintf("remove %s from %s, or set take_over = true", c.Key, f.Source.Path)
			case len(own) > 0:
				f.Status, f.Fixable = plan.Drift, true
				f.Summary = c.Key + " is loaded at boot"
			}
		}
		a.Findings = append(a.Findings, f)
		if c.Value == LoadAtBoot {
			a.Findings = append(a.Findings, repeated(c, foreign)...)
		}
	}
	if keep {
		var own []string
		for _, e := range ownEntries {
			own = append(own, e.Module)
		}
		load = keeping(load, own, func(module string) string { return module }, contributions)
	}
	a.Steps = edits.steps(files, modulesLoadFile)
	modulesLoadFile.ensure(&a, addresses(contributions), files, modprobe.RenderModulesLoad(load))
	return modulesLoadPlace.allow(a, facts)
}

// repeated says that a file has a module on several lines, as one that a script appends to at
// every run.
func repeated(c plan.Contribution, at []modprobe.Origin) []plan.Finding {
	for i, o := range at[min(1, len(at)):] {
		if o.File != at[i].File {
			continue
		}
		return []plan.Finding{{
			ID: "kernel_module.repeated_line", Address: c.Address, Target: c.Key, Status: plan.Drift, Severity: plan.Info,
			Source:  node.Source{Path: o.File, Line: o.Line},
			Summary: fmt.Sprintf("%s names %s on line %d already; once is enough, more does no harm", o.File, c.Key, at[i].Line),
		}}
	}
	return nil
}

// obstacle is a line of modprobe.d that keeps a module out at boot.
type obstacle struct {
	modprobe.Statement
	// whole: the line can be taken out without an effect on other modules.
	whole bool
}

// keptOut is the first line of others that keeps a module out at boot: of blacklist
// lines and of install commands that do nothing.
func keptOut(config modprobe.Config, c plan.Contribution) (obstacle, bool) {
	for _, s := range config.Statements {
		if s.Verb == modprobe.Blacklist && s.Module == c.Key {
			return obstacle{s, true}, true
		}
	}
	command, at, found := config.Install(c.Key)
	if !found || !modprobe.Refuses(command) {
		return obstacle{}, false
	}
	s := modprobe.Statement{Verb: modprobe.Install, Module: c.Key, Args: command, Origin: at}
	return obstacle{s, TakesOver(config, at, c.Key)}, true
}

// TakesOver reports whether the install line at a place holds for one module alone, so
// that taking it over leaves other modules as they are.
func TakesOver(config modprobe.Config, at modprobe.Origin, module string) bool {
	return slices.ContainsFunc(config.Statements, func(s modprobe.Statement) bool {
		return s.Verb == modprobe.Install && s.Origin == at && s.Module == module
	})
}

// finding turns the finding of a module that is to be loaded at boot into what the
// line makes of it.
func (o obstacle) finding(f plan.Finding, c plan.Contribution) plan.Finding {
	f.Source = node.Source{Path: o.File, Line: o.Line}
	f.Found = "blacklisted"
	f.Why = "systemd's module loader obeys a blacklist, an explicit modprobe does not: the module can be loaded now and be missing after the next boot"
	if o.Verb == modprobe.Install {
		f.Found, f.Why = "install "+o.Module+" "+o.Args, "modprobe runs the command instead of loading the module"
	}
	if c.TakeOver && o.whole {
		f.Status, f.Fixable = plan.Drift, true
		f.Summary = fmt.Sprintf("%s is kept out at boot by %s (%s), which is taken over", c.Key, f.Source, f.Found)
		return f
	}
	f.Status, f.Fixable = plan.Conflict, false
	f.Summary = fmt.Sprintf("%s is wanted at boot (%s) and kept out by %s (%s)", c.Key, c.Origin, f.Source, f.Found)
	f.Fix = fmt.Sprintf("remove the line from %s if its owner agrees, or set take_over = true", o.File)
	if !o.whole {
		f.Fix = fmt.Sprintf("mend the line of %s if its owner agrees; it holds for other modules too, so that busbar does not take it over", o.File)
	}
	return f
}

func linesOf(entries []modprobe.LoadEntry, module string) []modprobe.Origin {
	var at []modprobe.Origin
	for _, e := range entries {
		if e.Module == module {
			at = append(at, e.Origin)
		}
	}
	return at
}
