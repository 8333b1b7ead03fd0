package sink

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/modprobe"
	"busbar/node"
	"busbar/plan"
)

// ModprobeName is the name of the sink Modprobe.
const ModprobeName = "modprobe.d"

// Modprobe is modprobe.d(5). Keys are BlacklistKey, InstallKey and OptionKey.
type Modprobe struct{}

// Values of a BlacklistKey and an InstallKey.
const (
	Present = "present"
	Absent  = "absent"
)

// BlacklistKey is the key of a module's blacklist line.
func BlacklistKey(module string) string { return "blacklist " + module }

// InstallKey is the key of an install line that keeps a module out; its value is
// always Absent.
func InstallKey(module string) string { return "install " + module }

// OptionKey is the key of a module's parameter, in whose name - and _ are equal; its value
// is the parameter's, quotes included.
func OptionKey(module, parameter string) string {
	return "options " + module + " " + strings.ReplaceAll(parameter, "-", "_")
}

// The owned file sorts after what distributions and packages bring (systemd.conf,
// nvidia.conf): of a parameter given twice the last one counts.
var modprobeFile = owned{
	sink: ModprobeName, path: "/etc/modprobe.d/zz-busbar.conf",
	list: node.ModprobeFiles.Query(""), effect: plan.Live,
}

var modprobePlace = place{dirs: modprobe.ModprobeDirs, option: "boot.extraModprobeConfig"}

// ForeignModprobe are the files of modprobe.d that belong to others.
func ForeignModprobe(files []confdir.File) []confdir.File { return modprobeFile.foreign(files) }

// Name is modprobe.d.
func (Modprobe) Name() string { return ModprobeName }

// Queries are the files of modprobe.d, and whether they can be written.
func (Modprobe) Queries([]plan.Contribution) []node.Query {
	return append(modprobePlace.queries(), node.ModprobeFiles.Query(""))
}

// Assess judges blacklist lines and options as the next load of a module gets
// them. That a line of others keeps out a module which is to be loaded is judged
// where the loading is, and only taken over here.
func (Modprobe) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	contributions, keep := decided(contributions)
	v := node.ModprobeFiles.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		return unread(contributions, "kernel_module.modprobe", "modprobe's configuration", v)
	}
	if bad, found := unreadable(files); found {
		return unread(contributions, "kernel_module.modprobe", "modprobe's configuration", bad)
	}
	edits := modprobeTakeOver(contributions, files)
	now := modprobeConfig(files)
	foreign := modprobeConfig(edits.apply(modprobeFile.foreign(files)))

	a := plan.Assessment{Steps: edits.steps(files, modprobeFile)}
	var statements []modprobe.Statement
	for _, c := range contributions {
		word, rest, _ := strings.Cut(c.Key, " ")
		module, parameter, _ := strings.Cut(rest, " ")
		switch {
		case word == "blacklist" && c.Value == Present:
			if len(foreign.Blacklisted(module)) == 0 {
				statements = append(statements, modprobe.Statement{Verb: modprobe.Blacklist, Module: module})
			}
			a.Findings = append(a.Findings, blacklistFinding(c, module, now.Blacklisted(module)))
		case word == "options":
			f := optionFinding(c, module, parameter, foreign, now)
			theirs, given := option(foreign, module, parameter)
			if f.Status != plan.Conflict && (!given && !c.Default || given && theirs.Value != f.Want) {
				statements = append(statements, optionStatement(module, parameter, c.Value))
			}
			f.Want = parameter + "=" + c.Value
			a.Findings = append(a.Findings, f)
		}
	}
	if keep {
		statements = keeping(statements, modprobeConfig(modprobeFile.only(files)).Statements, keyOf, contributions)
		slices.SortStableFunc(statements, func(a, b modprobe.Statement) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	}
	modprobeFile.ensure(&a, addresses(contributions), files, modprobe.RenderModprobe(slices.Compact(statements)))
	return modprobePlace.allow(a, facts)
}

// keyOf is the key under which a statement of busbar's file is contributed.
func keyOf(s modprobe.Statement) string {
	if s.Verb == modprobe.Blacklist {
		return BlacklistKey(s.Module)
	}
	parameter, _, _ := strings.Cut(s.Args, "=")
	return OptionKey(s.Module, parameter)
}

func modprobeConfig(files []confdir.File) modprobe.Config {
	config, _ := modprobe.ParseModprobe(modprobe.OrderModprobe(files))
	return config
}

// modprobeTakeOver collects the foreign lines that stand against contributions
// which may take them over.
func modprobeTakeOver(contributions []plan.Contribution, files []confdir.File) *takeOver {
	edits := &takeOver{}
	foreign := modprobeConfig(modprobeFile.foreign(files))
	for _, c := range contributions {
		if !c.TakeOver {
			continue
		}
		word, rest, _ := strings.Cut(c.Key, " ")
		module, parameter, _ := strings.Cut(rest, " ")
		for _, s := range foreign.Statements {
			line := edits.line(files, s.File, s.Line)
			if strings.HasSuffix(line, `\`) {
				continue // a part of a statement of several lines is nothing to cut
			}
			switch {
			case word == "blacklist" && c.Value == Absent && s.Verb == modprobe.Blacklist && s.Module == module,
				word == "install" && s.Verb == modprobe.Install && s.Module == module && modprobe.Refuses(s.Args):
				edits.cut(s.File, s.Line, c.Address)
			case word == "options" && s.Verb == modprobe.Options && s.Module == module:
				if kept := withoutOption(line, module, parameter, OptionValue(module, parameter, c.Value)); kept != line {
					edits.replace(s.File, s.Line, kept, c.Address)
				}
			}
		}
	}
	return edits
}

// withoutOption takes one parameter that has another value than want out of an
// options line; what is left is empty when the line gave nothing else.
func withoutOption(line, module, parameter, want string) string {
	given := modprobeConfig([]confdir.File{{Path: modprobeFile.path, Text: line}}).Options(module)
	for _, o := range given {
		if o.Key != strings.ReplaceAll(parameter, "-", "_") || o.Value == want {
			continue
		}
		if len(given) == 1 {
			return ""
		}
		for _, blank := range []string{" ", "\t"} {
			if before, after, found := strings.Cut(line, blank+o.Text); found && (after == "" || strings.ContainsAny(after[:1], " \t")) {
				return before + after
			}
		}
	}
	return line
}

func optionStatement(module, parameter, value string) modprobe.Statement {
	return modprobe.Statement{Verb: modprobe.Options, Module: module, Args: parameter + "=" + value}
}

// OptionValue is the value that the kernel makes of a parameter written as value.
func OptionValue(module, parameter, value string) string {
	o, _ := option(modprobe.Config{Statements: []modprobe.Statement{optionStatement(module, parameter, value)}}, module, parameter)
	return o.Value
}

func blacklistFinding(c plan.Contribution, module string, at []modprobe.Origin) plan.Finding {
	f := plan.Finding{
		ID: "kernel_module.blacklist", Address: c.Address, Target: module, Effect: plan.Live,
		Want: "blacklisted", Found: "blacklisted", Status: plan.OK, Summary: module + " does not load by itself",
	}
	if len(at) == 0 {
		f.Status, f.Fixable, f.Found = plan.Drift, true, "not blacklisted"
		f.Summary = module + " may load by itself at the next boot"
		f.Source = node.Source{Path: "/etc/modprobe.d"}
		return f
	}
	f.Source = node.Source{Path: at[0].File, Line: at[0].Line}
	return f
}

// optionFinding judges one parameter; Want is the value as the kernel reads it.
// foreign are the lines of others after what is taken over, now all lines.
func optionFinding(c plan.Contribution, module, parameter string, foreign, now modprobe.Config) plan.Finding {
	f := plan.Finding{
		ID: "kernel_module.option", Address: c.Address, Target: module + "." + parameter, Effect: plan.Live,
		Want: OptionValue(module, parameter, c.Value), Found: parameter + " not given", Status: plan.OK,
		Summary: fmt.Sprintf("%s gets %s=%s at its next load", module, parameter, c.Value),
		Source:  node.Source{Path: "/etc/modprobe.d"},
	}
	inForce, given := option(now, module, parameter)
	if given {
		f.Found, f.Source = inForce.Text, node.Source{Path: inForce.File, Line: inForce.Line}
	}
	if given && inForce.Value == f.Want {
		return f
	}
	if !given && c.Default {
		f.Found = "the default"
		return f
	}
	theirs, theyGive := option(foreign, module, parameter)
	if theyGive && theirs.Value != f.Want && cmp.Compare(path.Base(theirs.File), path.Base(modprobeFile.path)) > 0 {
		f.Status = plan.Conflict
		f.Source = node.Source{Path: theirs.File, Line: theirs.Line}
		f.Summary = fmt.Sprintf("%s=%s is wanted (%s), %s gives %s and is read last", parameter, c.Value, c.Origin, f.Source, theirs.Text)
		f.Fix = fmt.Sprintf("take %s out of %s if its owner agrees, or set take_over = true", parameter, theirs.File)
		return f
	}
	f.Status, f.Fixable = plan.Drift, true
	f.Summary = fmt.Sprintf("%s does not get %s=%s at its next load", module, parameter, c.Value)
	return f
}

func option(config modprobe.Config, module, parameter string) (modprobe.Option, bool) {
	for _, o := range config.Options(module) {
		if o.Key == strings.ReplaceAll(parameter, "-", "_") {
			return o, true
		}
	}
	return modprobe.Option{}, false
}
