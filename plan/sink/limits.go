package sink

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/limits"
	"busbar/node"
	"busbar/plan"
)

// LimitsName is the name of the sink Limits.
const LimitsName = "limits.d"

// Limits is limits.conf(5), the resource limits of logins. Keys are LimitKey, values
// a number (bytes; a count for nofile) or "unlimited".
type Limits struct{}

// LimitKey is the key of one resource (memlock, nofile, stack) of a user ("*" for any).
func LimitKey(user, item string) string { return user + " " + item }

var limitsFile = owned{
	sink: LimitsName, path: "/etc/security/limits.d/zz-busbar.conf",
	list: node.LimitsFiles.Query(""), effect: plan.NextLogin,
}

var limitsPlace = place{dirs: []string{path.Dir(limitsFile.path)}, option: "security.pam.loginLimits"}

// Name is limits.d.
func (Limits) Name() string { return LimitsName }

// Queries are the files that pam_limits reads, and whether they can be written.
func (Limits) Queries([]plan.Contribution) []node.Query {
	return append(limitsPlace.queries(), node.LimitsFiles.Query(""))
}

// Assess judges what the next login gets.
func (Limits) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	const id = "limits.login"
	contributions, keep := decided(contributions)
	v := node.LimitsFiles.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		return unread(contributions, id, "what logins get", v)
	}
	if bad, found := unreadable(files); found {
		return unread(contributions, id, "what logins get", bad)
	}
	foreign := limitEntries(limitsFile.foreign(files))
	now := limitEntries(files)
	var a plan.Assessment
	var entries []limits.Entry
	for _, c := range contributions {
		user, item, _ := strings.Cut(c.Key, " ")
		want, err := limits.ParseValue(c.Value)
		if err != nil {
			continue // refused when the profile was validated
		}
		need := Need(item, want)
		f := plan.Finding{
			ID: id, Address: c.Address, Target: c.Key, Effect: plan.NextLogin, Status: plan.OK,
			Want: want.String(), Source: node.Source{Path: "/etc/security"},
			Summary: fmt.Sprintf("a login of %s gets %s %s", userWords(user), item, want),
		}
		got, _ := limits.Effective(now, user, item)
		f.Found, f.Source = limitWords(got, f.Source)
		theirs, _ := limits.Effective(foreign, user, item)
		own := limits.Entry{Domain: user, Type: "-", Item: item, Value: want}
		withOwn, _ := limits.Effective(limitEntries(append(limitsFile.foreign(files), confdir.File{Path: limitsFile.path, Text: limits.Render([]limits.Entry{own})})), user, item)
		switch {
		case holds(need, theirs):
			// Lines of others already bring it about.
		case !holds(need, withOwn):
			f.Status = plan.Conflict
			f.Found, f.Source = limitWords(withOwn, f.Source)
			f.Summary = fmt.Sprintf("%s %s is wanted for %s (%s), %s gives %s and wins", item, want, userWords(user), c.Origin, f.Source, f.Found)
			f.Fix = fmt.Sprintf("take the line out of %s if its owner agrees", f.Source.Path)
			a.Findings = append(a.Findings, f)
			continue
		default:
			entries = append(entries, own)
		}
		if !holds(need, got) {
			f.Status, f.Fixable = plan.Drift, true
			f.Summary = fmt.Sprintf("a login of %s gets %s %s, wanted is %s", userWords(user), item, f.Found, want)
		}
		a.Findings = append(a.Findings, f)
		if stack, _ := limits.Effective(now, user, "stack"); wantsMemlockOnly(contributions, user, item) && isUnlimited(stack.Soft) {
			a.Findings = append(a.Findings, unlimitedStack(c, LimitKey(user, "stack"), "a login of "+userWords(user)+" gets", stack.Soft))
		}
	}
	if keep {
		entries = keeping(entries, limitEntries(limitsFile.only(files)), func(e limits.Entry) string { return LimitKey(e.Domain, e.Item) }, contributions)
	}
	limitsFile.ensure(&a, addresses(contributions), files, limits.Render(slices.Compact(entries)))
	return limitsPlace.allow(a, facts)
}

func limitEntries(files []confdir.File) []limits.Entry {
	entries, _ := limits.Parse(limits.Order(files))
	return entries
}

func userWords(user string) string {
	if user == "*" {
		return "any user but root"
	}
	return user
}

// Need is what a limit must be: at least the value, but for stack exactly it, since an
// unlimited stack makes NCCL before 2.28 start its threads with small ones.
func Need(item string, value limits.Value) plan.ProcessLimit {
	return plan.ProcessLimit{Item: item, Value: value, Exact: item == "stack"}
}

// holds reports whether both bounds of a limit are set and meet need.
func holds(need plan.ProcessLimit, l limits.Limit) bool {
	return l.Soft.Set && l.Hard.Set && need.Holds(limits.Pair{Soft: l.Soft.Value, Hard: l.Hard.Value})
}

// limitWords says what a limit is and where it stands.
func limitWords(l limits.Limit, fallback node.Source) (string, node.Source) {
	bound := func(b limits.Bound) string {
		if !b.Set {
			return "unset"
		}
		return b.Value.String()
	}
	source := fallback
	for _, b := range []limits.Bound{l.Soft, l.Hard} {
		if b.Set {
			source = node.Source{Path: b.File, Line: b.Line}
		}
	}
	soft, hard := bound(l.Soft), bound(l.Hard)
	if soft == hard {
		return soft, source
	}
	return fmt.Sprintf("soft %s, hard %s", soft, hard), source
}

// wantsMemlockOnly: the item is memlock, and nobody has a wish for the stack of the same user
// or unit.
func wantsMemlockOnly(contributions []plan.Contribution, whose, item string) bool {
	return item == "memlock" && !slices.ContainsFunc(contributions, func(c plan.Contribution) bool { return c.Key == whose+" stack" })
}

func isUnlimited(b limits.Bound) bool { return b.Set && b.Value == limits.Unlimited }

// unlimitedStack warns of what others set for those who are to lock memory, which is to say
// for jobs that use NCCL (NCCL's troubleshooting guide, "Stack size").
func unlimitedStack(c plan.Contribution, target, who string, b limits.Bound) plan.Finding {
	return plan.Finding{
		ID: "limits.unlimited_stack", Address: c.Address, Target: target, Status: plan.Drift, Severity: plan.Warning,
		Want: "a limit", Found: b.Value.String(), Source: node.Source{Path: b.File, Line: b.Line},
		Summary: who + " an unlimited stack, with which NCCL before 2.28 starts helper threads that have 2 MiB",
		Fix:     "set stack = 67108864 here, or see to it that jobs use NCCL 2.28 or later",
	}
}

// DropInsName is the name of the sink DropIns.
const DropInsName = "unit drop-ins"

// DropIns are drop-ins of systemd units, UNIT.d/zz-busbar.conf. Keys are DropInKey, values
// as those of Limits, or a command.
type DropIns struct{}

// DropInKey is the key of one resource of a unit (full name), or of ExecStartPost.
func DropInKey(unit, item string) string { return unit + " " + item }

const dropInName = "zz-busbar.conf"

// DropInProvided is the name under which steps require a unit's drop-in.
func DropInProvided(unit string) string { return "drop-in of " + unit }

// unitOf is the unit of a drop-in's path.
func unitOf(p string) string { return strings.TrimSuffix(path.Base(path.Dir(p)), ".d") }

const unitDir = "/etc/systemd/system"

var dropInsPlace = place{dirs: []string{unitDir}, option: "systemd.services.NAME.serviceConfig"}

func dropInPath(unit string) string { return path.Join(unitDir, unit+".d", dropInName) }

// Name is "unit drop-ins".
func (DropIns) Name() string { return DropInsName }

// Queries are busbar's own drop-ins, whether they can be written, and the files of the
// units that are contributed to.
func (DropIns) Queries(contributions []plan.Contribution) []node.Query {
	contributions, _ = decided(contributions)
	queries := append(dropInsPlace.queries(), node.OwnedDropIns.Query(""), node.SystemConfFiles.Query(""))
	for _, unit := range units(contributions) {
		queries = append(queries, node.UnitFiles.Query(unit), node.Unit.Query(unit))
	}
	return queries
}

// units are those that contributions name, in order.
func units(contributions []plan.Contribution) []string {
	var all []string
	for _, c := range contributions {
		unit, _, _ := strings.Cut(c.Key, " ")
		if len(all) == 0 || all[len(all)-1] != unit {
			all = append(all, unit)
		}
	}
	return all
}

// Assess judges what the next start of each unit gets.
func (DropIns) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	contributions, keep := decided(contributions)
	v := node.OwnedDropIns.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		return unread(contributions, "limits.unit", "busbar's drop-ins", v)
	}
	if bad, found := unreadable(files); found {
		return unread(contributions, "limits.unit", "what busbar's drop-ins set", bad)
	}
	var a plan.Assessment
	wanted := map[string]bool{}
	for _, unit := range units(contributions) {
		var mine []plan.Contribution
		for _, c := range contributions {
			if strings.HasPrefix(c.Key, unit+" ") {
				mine = append(mine, c)
			}
		}
		if one := assessUnit(unit, mine, keep, files, facts); one != nil {
			wanted[dropInPath(unit)] = true
			a.Findings = append(a.Findings, one.Findings...)
			a.Steps = append(a.Steps, one.Steps...)
		}
	}
	for _, f := range files {
		if wanted[f.Path] || keep {
			continue
		}
		orphan := dropIn(f.Path)
		var stale plan.Assessment
		orphan.ensure(&stale, nil, files, "")
		a.Findings = append(a.Findings, stale.Findings...)
		a.Steps = append(a.Steps, stale.Steps...)
	}
	return dropInsPlace.allow(a, facts)
}

func dropIn(p string) owned {
	return owned{sink: DropInProvided(unitOf(p)), path: p, list: node.OwnedDropIns.Query(""), effect: plan.Live}
}

// assessUnit judges one unit; nil when the unit is not installed, so that it has no drop-in.
func assessUnit(unit string, contributions []plan.Contribution, keep bool, own []confdir.File, facts node.Facts) *plan.Assessment {
	const id = "limits.unit"
	state, _ := node.Unit.Get(facts, unit).Get()
	if state.Load == "not-found" {
		return nil // the limits block says that it is skipped
	}
	a := &plan.Assessment{}
	v := node.UnitFiles.Get(facts, unit)
	unitFiles, ok := v.Get()
	if !ok {
		*a = unreadUnit(contributions, unit, v)
		return a
	}
	conf := node.SystemConfFiles.Get(facts, "")
	systemFiles, ok := conf.Get()
	if !ok {
		*a = unread(contributions, id, "systemd's default limits", conf)
		return a
	}
	if bad, found := unreadable(append(append([]confdir.File{}, unitFiles...), systemFiles...)); found {
		*a = unreadUnit(contributions, unit, bad)
		return a
	}
	file := dropIn(dropInPath(unit))
	system := orderSystemConf(systemFiles)
	parse := func(dropIn string) []limits.Assignment {
		assignments, _ := limits.ParseUnit(append(slices.Clone(system), insertDropIn(file.foreign(unitFiles), confdir.File{Path: file.path, Text: dropIn})...))
		return assignments
	}
	theirAssignments, nowAssignments := parse(""), parse(file.text(own))

	var assignments []limits.Assignment
	var commands []string
	for _, c := range contributions {
		_, item, _ := strings.Cut(c.Key, " ")
		if item == ExecStartPost {
			f, needed := startCommand(unit, c, file, unitFiles, own)
			if needed {
				commands = append(commands, c.Value)
			}
			a.Findings = append(a.Findings, f)
			continue
		}
		want, err := limits.ParseValue(c.Value)
		if err != nil {
			continue // refused when the profile was validated
		}
		need := Need(item, want)
		f := plan.Finding{
			ID: id, Address: c.Address, Target: c.Key, Effect: plan.ServiceRestart, Status: plan.OK, Want: want.String(),
			Source: node.Source{Path: path.Dir(file.path)}, Summary: fmt.Sprintf("%s starts with %s %s", unit, item, want),
		}
		got, _ := limits.EffectiveUnit(nowAssignments, item)
		f.Found, f.Source = limitWords(got, f.Source)
		theirs, _ := limits.EffectiveUnit(theirAssignments, item)
		assignment := limits.Assignment{Section: limits.Service, Item: item, Soft: want, Hard: want}
		after, _ := limits.EffectiveUnit(parse(limits.RenderUnit([]limits.Assignment{assignment})), item)
		switch {
		case holds(need, theirs):
			// Files of others already bring it about.
		case !holds(need, after):
			f.Status = plan.Conflict
			f.Found, f.Source = limitWords(after, f.Source)
			f.Summary = fmt.Sprintf("%s %s is wanted for %s (%s), %s sets %s and is read after %s", item, want, unit, c.Origin, f.Source, f.Found, dropInName)
			f.Fix = fmt.Sprintf("take the line out of %s if its owner agrees", f.Source.Path)
			a.Findings = append(a.Findings, f)
			continue
		default:
			assignments = append(assignments, assignment)
		}
		if !holds(need, got) {
			f.Status, f.Fixable = plan.Drift, true
			f.Summary = fmt.Sprintf("%s starts with %s %s, wanted is %s", unit, item, f.Found, want)
		}
		a.Findings = append(a.Findings, f)
		if stack, _ := limits.EffectiveUnit(nowAssignments, "stack"); wantsMemlockOnly(contributions, unit, item) && isUnlimited(stack.Soft) {
			a.Findings = append(a.Findings, unlimitedStack(c, DropInKey(unit, "stack"), unit+" starts with", stack.Soft))
		}
	}
	if keep {
		held, _ := limits.ParseUnit(file.only(own))
		assignments = keeping(assignments, held, func(a limits.Assignment) string { return DropInKey(unit, a.Item) }, contributions)
		commands = keeping(commands, startCommands(file.only(own)), func(string) string { return DropInKey(unit, ExecStartPost) }, contributions)
	}
	file.ensure(a, addresses(contributions), own, withCommands(limits.RenderUnit(slices.Compact(assignments)), slices.Compact(commands)))
	outdated := state.NeedReload && !facts.Inventory.RootDirectory
	if outdated && len(a.Steps) == 0 {
		a.Findings = append(a.Findings, notReloaded(contributions, unit, state)...)
	}
	if (len(a.Steps) > 0 || outdated) && state.Active.IsKnown() {
		a.Steps = append(a.Steps, plan.Step{
			Addresses: addresses(contributions), Phase: plan.PhaseServices, Target: unit, Effect: plan.Live,
			Summary: "have systemd read the files of " + unit, Requires: []string{DropInProvided(unit)}, Provides: []string{ReloadedUnit(unit)},
			Action: plan.ReloadUnits{Units: []string{unit}},
		})
	}
	return a
}

// unreadUnit reports for every contribution to a unit that its files could not be read.
func unreadUnit[T any](contributions []plan.Contribution, unit string, v node.Value[T]) plan.Assessment {
	isCommand := func(c plan.Contribution) bool { return c.Key == DropInKey(unit, ExecStartPost) }
	limits := unread(slices.DeleteFunc(slices.Clone(contributions), isCommand), "limits.unit", "the limits of "+unit, v)
	isLimit := func(c plan.Contribution) bool { return !isCommand(c) }
	commands := unread(slices.DeleteFunc(slices.Clone(contributions), isLimit), startCommandID, "what "+unit+" runs after it starts", v)
	return plan.Assessment{Findings: slices.Concat(limits.Findings, commands.Findings)}
}

// ReloadedUnit is what the step provides that makes systemd read a unit's files.
func ReloadedUnit(unit string) string { return "reloaded " + unit }

// notReloaded: the unit's files were changed and systemd does not know it, as after a
// run that was killed.
func notReloaded(contributions []plan.Contribution, unit string, state node.UnitState) []plan.Finding {
	var findings []plan.Finding
	for _, address := range addresses(contributions) {
		findings = append(findings, plan.Finding{
			ID: "limits.not_reloaded", Address: address, Target: unit, Status: plan.Drift, Fixable: state.Active.IsKnown(),
			Effect: plan.Live, Source: state.Active.Source(),
			Summary: "the files of " + unit + " were changed since systemd read them",
		})
	}
	return findings
}

// systemDirs are the directories of systemd's own configuration, highest priority first
// (systemd-system.conf(5)).
var systemDirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd"}

// orderSystemConf puts system.conf, of which the first one counts, before its fragments.
func orderSystemConf(files []confdir.File) []confdir.File {
	fragmentDirs := make([]string, len(systemDirs))
	for i, dir := range systemDirs {
		fragmentDirs[i] = dir + "/system.conf.d"
	}
	return append(confdir.Merge(files, systemDirs), confdir.Merge(files, fragmentDirs)...)
}

// insertDropIn puts busbar's drop-in where systemd reads it: behind the unit's own file,
// among its drop-ins by base name.
func insertDropIn(unitFiles []confdir.File, own confdir.File) []confdir.File {
	at := slices.IndexFunc(unitFiles, func(f confdir.File) bool {
		return path.Ext(path.Dir(f.Path)) == ".d" && path.Base(f.Path) > path.Base(own.Path)
	})
	if at < 0 {
		at = len(unitFiles)
	}
	return slices.Insert(slices.Clone(unitFiles), at, own)
}
