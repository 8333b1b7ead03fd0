package sink

import (
	"fmt"

	"busbar/internal/cufile"
	"busbar/node"
	"busbar/plan"
)

// CUFileName is the name of the sink CUFile.
const CUFileName = "cufile.json"

// CUFile is /etc/cufile.json, cuFile's configuration. Keys are those of cufile.Setting, values JSON. The file has one
// place for a setting and no drop-ins, so that settings are made in it as it is, and stay when no block wants them any more.
type CUFile struct{}

var cufilePlace = place{dirs: []string{"/etc"}, option: `environment.etc."cufile.json".text`}

// Name is cufile.json.
func (CUFile) Name() string { return CUFileName }

// Queries are the file and whether it can be written; none without contributions.
func (CUFile) Queries(contributions []plan.Contribution) []node.Query {
	if len(contributions) == 0 {
		return nil
	}
	return append(cufilePlace.queries(), node.File.Query(cufile.Path))
}

// Assess judges each setting as a program that starts next gets it.
func (CUFile) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	const id = "gds.setting"
	contributions, _ = decided(contributions)
	if len(contributions) == 0 {
		return plan.Assessment{}
	}
	v := node.File.Get(facts, cufile.Path)
	state, ok := v.Get()
	if !ok {
		return unread(contributions, id, "what cuFile reads", v)
	}
	file, err := cufile.Parse(state.Text)
	if err != nil {
		return broken(contributions, id, err)
	}
	var a plan.Assessment
	var missing []cufile.Setting
	for _, c := range contributions {
		f := plan.Finding{
			ID: id, Address: c.Address, Target: c.Key, Effect: plan.Live, Status: plan.OK, Want: c.Value, Source: node.Source{Path: cufile.Path},
			Summary: fmt.Sprintf("%s of cuFile is %s", c.Key, c.Value),
		}
		value, line, found := file.Get(c.Key)
		f.Found, f.Source.Line = value, line
		switch {
		case !found:
			f.Found = "not set"
			f.Summary = fmt.Sprintf("%s of cuFile is not set, wanted is %s", c.Key, c.Value)
		case !cufile.Equal(value, c.Value):
			f.Summary = fmt.Sprintf("%s of cuFile is %s, wanted is %s", c.Key, value, c.Value)
		default:
			a.Findings = append(a.Findings, f)
			continue
		}
		f.Status, f.Fixable, f.By = plan.Drift, true, cufile.Path
		missing = append(missing, cufile.Setting{Key: c.Key, Value: c.Value})
		a.Findings = append(a.Findings, f)
	}
	if len(missing) == 0 {
		return a
	}
	text, err := file.Set(missing)
	if err != nil {
		return broken(contributions, id, err)
	}
	write := plan.WriteFile{Path: cufile.Path, Text: text, Computed: true}
	if state.Exists {
		write.Backup = cufile.Path + backupSuffix
	}
	a.Steps = append(a.Steps, plan.Step{
		Addresses: addresses(contributions), Phase: plan.PhaseFiles, Target: cufile.Path, Effect: plan.Live, Provides: []string{CUFileName},
		Summary: fmt.Sprintf("set %d of cuFile's settings in %s", len(missing), cufile.Path), Action: write,
	})
	return cufilePlace.allow(a, facts)
}

// broken: the file is one that nobody can edit without knowing what is meant.
func broken(contributions []plan.Contribution, id string, err error) plan.Assessment {
	var a plan.Assessment
	for _, c := range contributions {
		a.Findings = append(a.Findings, plan.Finding{
			ID: id, Address: c.Address, Target: c.Key, Status: plan.Conflict, Want: c.Value, Source: node.Source{Path: cufile.Path},
			Summary: fmt.Sprintf("%s is to be %s (%s), and %s cannot be edited: %v", c.Key, c.Value, c.Origin, cufile.Path, err),
			Fix:     "correct the file, or take the one of the CUDA toolkit (/usr/local/cuda/gds/cufile.json)",
		})
	}
	return a
}
