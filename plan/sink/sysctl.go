package sink

import (
	"fmt"
	"path"
	"slices"

	"busbar/internal/confdir"
	"busbar/internal/sysctld"
	"busbar/node"
	"busbar/plan"
)

// SysctlName is the name of the sink Sysctl.
const SysctlName = "sysctl.d"

// Sysctl is sysctl.d(5) as systemd-sysctl reads it at boot. Keys are parameter names
// (kernel.numa_balancing), values their values.
type Sysctl struct{}

var sysctlFile = owned{
	sink: SysctlName, path: "/etc/sysctl.d/zz-busbar.conf",
	list: node.SysctlFiles.Query(""), effect: plan.Live,
}

var sysctlPlace = place{dirs: []string{path.Dir(sysctlFile.path)}, option: "boot.kernel.sysctl"}

// Name is sysctl.d.
func (Sysctl) Name() string { return SysctlName }

// Queries are the files of sysctl.d, and whether they can be written.
func (Sysctl) Queries([]plan.Contribution) []node.Query {
	return append(sysctlPlace.queries(), node.SysctlFiles.Query(""))
}

// Assess judges each parameter at the next boot.
func (Sysctl) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	const id = "sysctl.boot"
	contributions, keep := decided(contributions)
	v := node.SysctlFiles.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		return unread(contributions, id, "what is set at boot", v)
	}
	if bad, found := unreadable(files); found {
		return unread(contributions, id, "what is set at boot", bad)
	}
	foreign := sysctlSettings(sysctlFile.foreign(files))
	now := sysctlSettings(files)

	var a plan.Assessment
	var settings []sysctld.Setting
	for _, c := range contributions {
		f := plan.Finding{
			ID: id, Address: c.Address, Target: c.Key, Effect: plan.Live, Status: plan.OK,
			Want: c.Value, Found: "not set at boot", Source: node.Source{Path: "/etc/sysctl.d"},
			Summary: fmt.Sprintf("%s is set to %s at boot", c.Key, c.Value),
		}
		winner, _, set := sysctld.Effective(now, c.Key)
		if set {
			f.Found, f.Source = sysctld.Blanks(winner.Value), node.Source{Path: winner.File, Line: winner.Line}
		}
		own := sysctld.Setting{Name: c.Key, Value: c.Value}
		theirs, _, theySet := sysctld.Effective(foreign, c.Key)
		withOwn, _, _ := sysctld.Effective(sysctlSettings(append(sysctlFile.foreign(files), confdir.File{Path: sysctlFile.path, Text: sysctld.Render([]sysctld.Setting{own})})), c.Key)
		switch {
		case theySet && sysctld.EqualValue(theirs.Value, c.Value):
			// Files of others already bring it about.
		case !sysctld.EqualValue(withOwn.Value, c.Value):
			f.Status = plan.Conflict
			f.Source = node.Source{Path: withOwn.File, Line: withOwn.Line}
			f.Found = sysctld.Blanks(withOwn.Value)
			f.Summary = fmt.Sprintf("%s is wanted (%s), %s sets %s and is read after %s", c.Value, c.Origin, f.Source, f.Found, sysctlFile.path)
			f.Fix = fmt.Sprintf("take %s out of %s if its owner agrees, or give that file a name that sorts before %s", c.Key, withOwn.File, path.Base(sysctlFile.path))
			a.Findings = append(a.Findings, f)
			continue
		default:
			settings = append(settings, own)
		}
		if !set || !sysctld.EqualValue(winner.Value, c.Value) {
			f.Status, f.Fixable = plan.Drift, true
			f.Summary = fmt.Sprintf("%s is not set to %s at boot", c.Key, c.Value)
			if set {
				f.Summary = fmt.Sprintf("%s is set to %s at boot by %s", c.Key, f.Found, f.Source)
			}
		}
		a.Findings = append(a.Findings, f)
	}
	if keep {
		settings = keeping(settings, sysctlSettings(sysctlFile.only(files)), func(s sysctld.Setting) string { return s.Name }, contributions)
	}
	sysctlFile.ensure(&a, addresses(contributions), files, sysctld.Render(slices.Compact(settings)))
	return sysctlPlace.allow(a, facts)
}

func sysctlSettings(files []confdir.File) []sysctld.Setting {
	ordered, _ := sysctld.Order(files)
	settings, _ := sysctld.Parse(ordered)
	return settings
}
