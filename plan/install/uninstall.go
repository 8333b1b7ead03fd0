package install

import (
	"strings"

	"busbar/node"
	"busbar/plan"
)

// Uninstall wants the unit disabled and what Install wrote gone. A profile that somebody has
// edited, and all that apply has set, stay.
type Uninstall struct {
	// UnitText is the unit, by whose first line a file of ours is known.
	UnitText string
	// ModulesLoadText is the bound on loading modules, known likewise.
	ModulesLoadText string
	// Untouched tells a profile that Install wrote and nobody has edited.
	Untouched func(profile string) bool
}

// Spec names the type.
func (Uninstall) Spec() plan.Spec { return plan.Spec{Name: "uninstall", Ceiling: plan.Live} }

// Queries are those of Install.
func (Uninstall) Queries(plan.Block, node.Inventory) []node.Query { return queries() }

// Assess judges the unit, the bound and the profile.
func (w Uninstall) Assess(_ plan.Block, facts node.Facts) plan.Assessment {
	var a plan.Assessment
	disabled(&a, facts)
	w.removed(&a, facts, "uninstall.unit", UnitPath, "was not written by busbar", func(text string) bool { return Ours(text, w.UnitText) })
	w.removed(&a, facts, "uninstall.modules_load", ModulesLoadPath, "was not written by busbar", func(text string) bool { return Ours(text, w.ModulesLoadText) })
	w.removed(&a, facts, "uninstall.profile", ProfilePath, "is the site's own", w.Untouched)
	return a
}

// disabled wants that nothing starts the unit. The links go before the file does: systemctl
// disables no unit that is not there.
func disabled(a *plan.Assessment, facts node.Facts) {
	v := node.Unit.Get(facts, Unit)
	u, ok := v.Get()
	f := plan.Finding{ID: "uninstall.enabled", Target: Unit, Found: u.File, Status: plan.OK, Source: v.Source(), Effect: plan.Live, Summary: Unit + " is not started at boot"}
	switch {
	case !ok:
		f = plan.Unread(f.ID, Unit, v)
	case strings.HasPrefix(u.File, "enabled"):
		f.Status, f.Fixable, f.Want, f.Summary = plan.Drift, true, "disabled", Unit+" is started at boot"
		a.Steps = append(a.Steps, plan.Step{
			Phase: plan.PhaseFiles, Target: Unit, Effect: plan.Live, Summary: "disable " + Unit,
			Provides: []string{"disabled"}, Action: plan.SetUnit{Unit: Unit, Enablement: "disabled"},
		})
	}
	a.Findings = append(a.Findings, f)
}

// dangling reports whether a link stands in the place of our unit's file, which is not there.
func dangling(facts node.Facts) bool {
	u, _ := node.Unit.Get(facts, Unit).Get()
	fragments, _ := node.UnitFiles.Get(facts, Unit).Get()
	return !masked(u) && leadsNowhere(fragments)
}

// left tells of a file that is not touched. Nothing is wrong with that, but people have to know.
func left(f *plan.Finding, summary string) {
	f.Status, f.Severity, f.Summary, f.Effect = plan.Drift, plan.Info, summary, plan.NoEffect
	f.Fix = "remove it if nobody needs it"
}

// removed wants a file gone that is ours.
func (Uninstall) removed(a *plan.Assessment, facts node.Facts, id, path, foreign string, ours func(text string) bool) {
	v := node.File.Get(facts, path)
	file, ok := v.Get()
	f := plan.Finding{ID: id, Target: path, Status: plan.OK, Source: v.Source(), Effect: plan.Live}
	switch {
	case !ok:
		f = plan.Unread(id, path, v)
	case !file.Exists && path == UnitPath && dangling(facts):
		left(&f, path+" is a link that leads nowhere, which busbar has not made, and stays")
	case !file.Exists:
		f.Summary = "there is no " + path
	case !ours(file.Text):
		left(&f, path+" "+foreign+" and stays")
	default:
		f.Status, f.Fixable, f.Summary = plan.Drift, true, path+" is there"
		a.Steps = append(a.Steps, plan.Step{
			Phase: plan.PhaseFiles, Target: path, Effect: plan.Live, Summary: "remove " + path,
			Requires: []string{"disabled"}, Action: plan.RemoveFile{Path: path},
		})
	}
	a.Findings = append(a.Findings, f)
}
