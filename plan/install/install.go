// Package install is what busbar install and busbar uninstall want of a node: the unit that
// enforces the node's profile at each boot, and that profile. A wish is a block type
// like any other, which no profile can hold, so that it is planned, carried out and read back
// as everything else is.
package install

import (
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan"
)

// Where things stand on a node.
const (
	Unit        = "busbar.service"
	UnitPath    = "/etc/systemd/system/" + Unit
	ProfilePath = "/etc/busbar/node.hcl"
	// ModulesLoadPath is no zz-busbar.conf: those belong to the limits of units, and plans write them.
	ModulesLoadPath = "/etc/systemd/system/systemd-modules-load.service.d/busbar.conf"
)

// Blocks is the one block of a type.
func Blocks(t plan.Type) []plan.Block {
	name := t.Spec().Name
	return []plan.Block{{Type: name, Address: name}}
}

// Install wants the unit written and enabled, and the profile and the bound on loading modules there.
type Install struct {
	// UnitText is the unit; a file that begins with another line is not ours.
	UnitText string
	// ModulesLoadText is the drop-in that bounds how long loading modules holds up the boot; one that
	// begins with another line is not ours.
	ModulesLoadText string
	// ProfileText is the profile that is wanted; empty for the one that is there.
	ProfileText string
}

// Spec names the type.
func (Install) Spec() plan.Spec { return plan.Spec{Name: "install", Ceiling: plan.Live} }

// Queries are the unit, its files, the profile and the bound.
func (Install) Queries(plan.Block, node.Inventory) []node.Query {
	return queries()
}

func queries() []node.Query {
	return []node.Query{node.File.Query(UnitPath), node.File.Query(ProfilePath), node.File.Query(ModulesLoadPath), node.Unit.Query(Unit), node.UnitFiles.Query(Unit)}
}

// Assess judges the profile, the unit and the bound.
func (w Install) Assess(_ plan.Block, facts node.Facts) plan.Assessment {
	var a plan.Assessment
	w.profile(&a, facts)
	w.modulesLoad(&a, facts)
	if u, _ := node.Unit.Get(facts, Unit).Get(); masked(u) || w.unit(&a, facts) {
		enabled(&a, facts)
	}
	return wholly(a)
}

// wholly makes no step where one thing is in the way: half an installation would enforce a
// profile that nobody has named.
func wholly(a plan.Assessment) plan.Assessment {
	inTheWay := func(f plan.Finding) bool { return f.Status != plan.OK && !f.Fixable }
	if slices.ContainsFunc(a.Findings, inTheWay) {
		a.Steps = nil
		for i := range a.Findings {
			a.Findings[i].Fixable = false
		}
	}
	return a
}

// profile wants the text, and leaves another one alone.
func (w Install) profile(a *plan.Assessment, facts node.Facts) {
	v := node.File.Get(facts, ProfilePath)
	file, ok := v.Get()
	f := plan.Finding{ID: "install.profile", Target: ProfilePath, Status: plan.OK, Source: v.Source(), Effect: plan.Live}
	switch {
	case !ok:
		f = plan.Unread(f.ID, ProfilePath, v)
	case file.Exists && (w.ProfileText == "" || file.Text == w.ProfileText):
		f.Summary = ProfilePath + " is there"
	case file.Exists:
		f.Status, f.Summary = plan.Conflict, ProfilePath+" is there and says something else"
		f.Fix = "edit it, or move it away and install again"
	case w.ProfileText == "":
		f.Status, f.Summary = plan.Drift, "there is no "+ProfilePath
		f.Fix = "name the profile that it is to extend: busbar install PROFILE"
	default:
		f.Status, f.Fixable, f.Summary = plan.Drift, true, "there is no "+ProfilePath
		a.Steps = append(a.Steps, plan.Step{
			Phase: plan.PhaseFiles, Target: ProfilePath, Effect: plan.Live, Summary: "write " + ProfilePath,
			Action: plan.WriteFile{Path: ProfilePath, Text: w.ProfileText, Computed: true},
		})
	}
	a.Findings = append(a.Findings, f)
}

// modulesLoad wants the bound on loading modules.
func (w Install) modulesLoad(a *plan.Assessment, facts node.Facts) {
	v := node.File.Get(facts, ModulesLoadPath)
	file, ok := v.Get()
	f := plan.Finding{ID: "install.modules_load", Target: ModulesLoadPath, Status: plan.OK, Source: v.Source(), Effect: plan.Live}
	switch {
	case !ok:
		f = plan.Unread(f.ID, ModulesLoadPath, v)
	case file.Exists && file.Text == w.ModulesLoadText:
		f.Summary = ModulesLoadPath + " is as this version has it"
	case file.Exists && !Ours(file.Text, w.ModulesLoadText):
		f.Status, f.Summary = plan.Conflict, ModulesLoadPath+" was not written by busbar"
		f.Fix = "give it another name"
	default:
		f.Status, f.Fixable, f.Summary = plan.Drift, true, "a module that hangs could hold up the boot for minutes"
		a.Steps = append(a.Steps, plan.Step{
			Phase: plan.PhaseFiles, Target: ModulesLoadPath, Effect: plan.Live, Summary: "write " + ModulesLoadPath,
			Action: plan.WriteFile{Path: ModulesLoadPath, Text: w.ModulesLoadText, Computed: true},
		})
	}
	a.Findings = append(a.Findings, f)
}

// unit wants the unit's file, unless a package has brought one. It reports whether there is a unit,
// or will be.
func (w Install) unit(a *plan.Assessment, facts node.Facts) bool {
	v := node.File.Get(facts, UnitPath)
	file, ok := v.Get()
	fragments := node.UnitFiles.Get(facts, Unit)
	list, listed := fragments.Get()
	f := plan.Finding{ID: "install.unit", Target: UnitPath, Status: plan.OK, Source: v.Source(), Effect: plan.Live}
	defer func() { a.Findings = append(a.Findings, f) }()
	switch {
	case !ok:
		f = plan.Unread(f.ID, UnitPath, v)
		return false
	case !listed:
		f = plan.Unread(f.ID, "where "+Unit+" is", fragments)
		return false
	case !file.Exists && leadsNowhere(list):
		f.Status, f.Summary = plan.Conflict, UnitPath+" is a link that leads nowhere"
		f.Fix = "remove it, or put back what it leads to"
		return false
	case !file.Exists && len(list) > 0 && strings.HasSuffix(list[0].Path, "/"+Unit):
		f.Source, f.Summary = node.Source{Path: list[0].Path}, Unit+" comes from a package"
		return true
	case file.Exists && file.Text == w.UnitText:
		f.Summary = UnitPath + " is as this version has it"
		return true
	case file.Exists && !Ours(file.Text, w.UnitText):
		f.Status, f.Summary = plan.Conflict, UnitPath+" was not written by busbar"
		f.Fix = "move it away, and change the unit by systemctl edit busbar"
		return false
	case file.Exists:
		f.Summary = UnitPath + " is another version's"
	default:
		f.Summary = "there is no " + UnitPath
	}
	f.Status, f.Fixable = plan.Drift, true
	a.Steps = append(a.Steps, plan.Step{
		Phase: plan.PhaseFiles, Target: UnitPath, Effect: plan.Live, Summary: "write " + UnitPath,
		Provides: []string{Unit}, Action: plan.WriteFile{Path: UnitPath, Text: w.UnitText, Computed: true},
	})
	return true
}

// leadsNowhere reports whether in the place of our unit, whose file does not exist, there is a link all the same.
func leadsNowhere(fragments []confdir.File) bool {
	return len(fragments) > 0 && fragments[0].Path == UnitPath
}

// Ours reports whether a unit's file was written by some version of busbar, of which
// text is one: it begins with the same line.
func Ours(file, text string) bool {
	first, _, _ := strings.Cut(text, "\n")
	return strings.HasPrefix(file, first+"\n")
}

// masked: a link to /dev/null stands in the unit's place.
func masked(u node.UnitState) bool { return strings.HasPrefix(u.File, "masked") }

// enabled wants the unit to be started at each boot.
func enabled(a *plan.Assessment, facts node.Facts) {
	v := node.Unit.Get(facts, Unit)
	u, ok := v.Get()
	f := plan.Finding{ID: "install.enabled", Target: Unit, Want: "enabled", Found: u.File, Status: plan.OK, Source: v.Source(), Effect: plan.Live}
	switch {
	case !ok:
		f = plan.Unread(f.ID, Unit, v)
	case masked(u):
		f.Status, f.Summary = plan.Conflict, Unit+" is masked"
		f.Fix = "find out who masked it; systemctl unmask " + Unit
	case u.File == "enabled":
		f.Summary = Unit + " is enabled"
	case u.File != "" && plan.Enabled("enabled", u.File):
		f.Status, f.Summary = plan.Conflict, Unit+" is "+u.File+": no boot starts it"
		f.Fix = "find out where the unit comes from; busbar's own has an [Install] section"
	default:
		f.Status, f.Fixable, f.Summary = plan.Drift, true, Unit+" is not started at boot"
		a.Steps = append(a.Steps, plan.Step{
			Phase: plan.PhaseServices, Target: Unit, Effect: plan.Live, Summary: "enable " + Unit,
			Requires: []string{Unit}, Action: plan.SetUnit{Unit: Unit, Enablement: "enabled"},
		})
	}
	a.Findings = append(a.Findings, f)
}
