package install_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/install"
)

const (
	unitText    = "# busbar's unit\n[Service]\nExecStart=/usr/local/bin/busbar apply --boot\n"
	boundText   = "# busbar's bound\n[Service]\nTimeoutStopSec=5\n"
	profileText = "profile {\n  extends = [\"baseline\"]\n}\n"
)

// found is what a node has.
type found struct {
	profile, unit string // texts; empty for no file
	state         string // of the unit's file; empty for no unit
	packaged      bool
	link          bool   // without a target, in the place of the unit's file
	bound         string // on loading modules: boundText where it is empty, and no file where it is "none"
}

func (f found) facts() node.Facts {
	file := func(path, text string) node.Answer {
		return node.File.Answer(path, node.Known(node.FileState{Exists: text != "", Text: text}, node.Source{Path: path}))
	}
	bound := f.bound
	switch bound {
	case "":
		bound = boundText
	case "none":
		bound = ""
	}
	u := node.UnitState{Load: "loaded", File: f.state, Active: node.Known("inactive", node.Source{})}
	var files []confdir.File
	switch {
	case f.link:
		u.Load = "not-found"
		files = append(files, confdir.File{Path: install.UnitPath})
	case f.state == "":
		u.Load = "not-found"
	case f.packaged:
		files = append(files, confdir.File{Path: "/usr/lib/systemd/system/" + install.Unit, Text: unitText})
	default:
		files = append(files, confdir.File{Path: install.UnitPath, Text: f.unit})
	}
	return node.Facts{}.With(file(install.ProfilePath, f.profile), file(install.UnitPath, f.unit), file(install.ModulesLoadPath, bound),
		node.Unit.Answer(install.Unit, node.Known(u, node.Source{Call: "Unit"})),
		node.UnitFiles.Answer(install.Unit, node.Known(files, node.Source{Path: "/etc/systemd/system"})))
}

// lines are findings and steps.
func lines(p plan.Plan) []string {
	var out []string
	for _, f := range p.Findings {
		out = append(out, string(f.Status)+" "+f.ID)
	}
	for _, s := range p.Steps {
		out = append(out, "step "+s.ID)
	}
	return out
}

func TestInstall(t *testing.T) {
	const older = "# busbar's unit\n[Service]\nExecStart=/opt/busbar apply\n"
	for _, test := range []struct {
		name    string
		found   found
		profile string
		want    string
	}{
		{"nothing", found{bound: "none"}, profileText, `
			drift install.enabled, drift install.modules_load, drift install.profile, drift install.unit,
			step write-file:/etc/busbar/node.hcl, step write-file:/etc/systemd/system/busbar.service, step write-file:/etc/systemd/system/systemd-modules-load.service.d/busbar.conf, step set-unit:busbar.service`},
		{"installed", found{profileText, unitText, "enabled", false, false, ""}, profileText, "ok install.enabled, ok install.modules_load, ok install.profile, ok install.unit"},
		{"the profile that is there", found{"x", unitText, "enabled", false, false, ""}, "", "ok install.enabled, ok install.modules_load, ok install.profile, ok install.unit"},
		{"no profile at all", found{"", unitText, "enabled", false, false, ""}, "", "ok install.enabled, ok install.modules_load, drift install.profile, ok install.unit"},
		{"another profile", found{"x", unitText, "enabled", false, false, ""}, profileText, "ok install.enabled, ok install.modules_load, conflict install.profile, ok install.unit"},
		{"an older version", found{profileText, older, "disabled", false, false, ""}, profileText, `
			drift install.enabled, ok install.modules_load, ok install.profile, drift install.unit,
			step write-file:/etc/systemd/system/busbar.service, step set-unit:busbar.service`},
		{"another's unit", found{profileText, "[Service]\n", "enabled", false, false, ""}, profileText, "ok install.modules_load, ok install.profile, conflict install.unit"},
		{"from a package", found{profileText, "", "disabled", true, false, ""}, profileText, "drift install.enabled, ok install.modules_load, ok install.profile, ok install.unit, step set-unit:busbar.service"},
		{"a link that leads nowhere", found{profile: profileText, link: true}, profileText, "ok install.modules_load, ok install.profile, conflict install.unit"},
		{"masked", found{profileText, "", "masked", false, false, ""}, profileText, "conflict install.enabled, ok install.modules_load, ok install.profile"},
		{"a unit that no boot starts", found{profileText, "", "static", true, false, ""}, profileText, "conflict install.enabled, ok install.modules_load, ok install.profile, ok install.unit"},
		{"another profile, and no unit", found{"x", "", "", false, false, ""}, profileText, "drift install.enabled, ok install.modules_load, conflict install.profile, drift install.unit"},
		{"another's bound", found{profileText, "", "disabled", true, false, "[Service]\n"}, profileText, "drift install.enabled, conflict install.modules_load, ok install.profile, ok install.unit"},
		{"an older bound", found{profileText, unitText, "enabled", false, false, "# busbar's bound\n"}, profileText, `
			ok install.enabled, drift install.modules_load, ok install.profile, ok install.unit, step write-file:/etc/systemd/system/systemd-modules-load.service.d/busbar.conf`},
		{"no profile, another's unit", found{"", "[Service]\n", "enabled", false, false, ""}, profileText, "ok install.modules_load, drift install.profile, conflict install.unit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, install.Install{UnitText: unitText, ModulesLoadText: boundText, ProfileText: test.profile}, test.found.facts(), test.want)
		})
	}
}

func TestUninstall(t *testing.T) {
	for _, test := range []struct {
		name  string
		found found
		want  string
	}{
		{"installed", found{profileText, unitText, "enabled", false, false, ""}, `
			drift uninstall.enabled, drift uninstall.modules_load, drift uninstall.profile, drift uninstall.unit,
			step set-unit:busbar.service, step remove-file:/etc/busbar/node.hcl, step remove-file:/etc/systemd/system/busbar.service, step remove-file:/etc/systemd/system/systemd-modules-load.service.d/busbar.conf`},
		{"nothing", found{bound: "none"}, "ok uninstall.enabled, ok uninstall.modules_load, ok uninstall.profile, ok uninstall.unit"},
		{"edited", found{profileText + "#", "#\n", "disabled", false, false, "#\n"}, "ok uninstall.enabled, drift uninstall.modules_load, drift uninstall.profile, drift uninstall.unit"},
		{"a link that leads nowhere", found{link: true, bound: "none"}, "ok uninstall.enabled, ok uninstall.modules_load, ok uninstall.profile, drift uninstall.unit"},
		{"masked", found{state: "masked", bound: "none"}, "ok uninstall.enabled, ok uninstall.modules_load, ok uninstall.profile, ok uninstall.unit"},
		{"from a package", found{"", "", "enabled", true, false, ""}, "drift uninstall.enabled, drift uninstall.modules_load, ok uninstall.profile, ok uninstall.unit, step set-unit:busbar.service, step remove-file:/etc/systemd/system/systemd-modules-load.service.d/busbar.conf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, install.Uninstall{UnitText: unitText, ModulesLoadText: boundText, Untouched: func(text string) bool { return text == profileText }}, test.found.facts(), test.want)
		})
	}
}

// check plans, makes each step in the facts, and expects nothing left to do.
func check(t *testing.T, wanted plan.Type, facts node.Facts, want string) {
	t.Helper()
	p := plan.NewPlanner([]plan.Type{wanted}, nil)
	first := p.Plan(install.Blocks(wanted), facts)
	if diff := cmp.Diff(strings.Split(strings.Join(strings.Fields(want), " "), ", "), lines(first)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, s := range first.Steps {
		if done, found, err := s.Action.Done(facts); done || err != nil {
			t.Errorf("%s is done before it is made: %s, %v", s.ID, found, err)
		}
		facts = s.Action.Project(facts)
		if done, found, err := s.Action.Done(facts); !done || err != nil {
			t.Errorf("%s is not done afterwards: %s, %v", s.ID, found, err)
		}
	}
	if again := p.Plan(install.Blocks(wanted), facts); slices.ContainsFunc(again.Findings, func(f plan.Finding) bool { return f.Fixable }) {
		t.Errorf("is not settled: %q", lines(again))
	}
}

// TestUnread: what could not be read is no reason to write.
func TestUnread(t *testing.T) {
	facts := node.Facts{}.With(
		node.File.Answer(install.ProfilePath, node.Unknown[node.FileState]("input/output error", node.Source{})),
		node.File.Answer(install.ModulesLoadPath, node.Unknown[node.FileState]("input/output error", node.Source{})),
		node.File.Answer(install.UnitPath, node.Unknown[node.FileState]("input/output error", node.Source{})),
		node.Unit.Answer(install.Unit, node.Unknown[node.UnitState]("no answer", node.Source{})),
		node.UnitFiles.Answer(install.Unit, node.Unknown[[]confdir.File]("input/output error", node.Source{})))
	for _, wanted := range []plan.Type{install.Install{UnitText: unitText, ModulesLoadText: boundText, ProfileText: profileText}, install.Uninstall{UnitText: unitText, ModulesLoadText: boundText}} {
		p := plan.NewPlanner([]plan.Type{wanted}, nil).Plan(install.Blocks(wanted), facts)
		if len(p.Steps) > 0 || p.ExitCode() != plan.ExitUnknown || len(p.Findings) < 2 {
			t.Errorf("%s: %q", wanted.Spec().Name, lines(p))
		}
	}
}
