package sink

import (
	"fmt"
	"slices"

	"busbar/internal/ncclconf"
	"busbar/node"
	"busbar/plan"
)

// NCCLName is the name of the sink NCCL.
const NCCLName = "nccl.conf"

// NCCLPath is NCCL's system-wide configuration file.
const NCCLPath = "/etc/nccl.conf"

// NCCL is /etc/nccl.conf. Keys are variables, values theirs. The file has no
// drop-ins and the first line of a key wins, so the owned part is one block at its
// head; every other byte is kept.
type NCCL struct{}

var ncclPlace = place{dirs: []string{"/etc"}, option: `environment.etc."nccl.conf".text`}

// Name is nccl.conf.
func (NCCL) Name() string { return NCCLName }

// Queries are the file, and whether it can be written.
func (NCCL) Queries([]plan.Contribution) []node.Query {
	return append(ncclPlace.queries(), node.File.Query(NCCLPath))
}

// Assess judges each variable as a job that starts next gets it, whatever its
// version of NCCL.
func (NCCL) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	const id = "nccl.setting"
	v := node.File.Get(facts, NCCLPath)
	file, ok := v.Get()
	if !ok {
		contributions, _ = decided(contributions)
		return unread(contributions, id, "what NCCL reads", v)
	}
	_, hasBlock, theirs, err := ncclconf.Split(file.Text)
	if err != nil {
		return unread(contributions, id, "which part of the file is busbar's", node.Unknown[string](err.Error(), node.Source{Path: NCCLPath}))
	}
	var a plan.Assessment
	want, err := NCCLText(contributions, file.Text)
	contributions, _ = decided(contributions)
	if err != nil {
		return unread(contributions, id, "how to write the file", node.Unknown[string](err.Error(), node.Source{Path: NCCLPath}))
	}
	now := ncclconf.Parse(file.Text, ncclconf.Version{})
	for _, c := range contributions {
		a.Findings = append(a.Findings, ncclFinding(id, c, now))
	}
	if want == file.Text {
		return a
	}
	owners := addresses(contributions)
	if !slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Fixable }) {
		owners = append(owners, NCCLName)
		a.Findings = append(a.Findings, plan.Finding{
			ID: "file.stale", Address: NCCLName, Status: plan.Drift, Fixable: true, Target: NCCLPath, Effect: plan.Live,
			Summary: "busbar's block in " + NCCLPath + " holds what no block wants", Source: node.Source{Path: NCCLPath},
		})
	}
	write := plan.WriteFile{Path: NCCLPath, Text: want, Computed: true}
	if ncclTakeOver(contributions, theirs) != theirs {
		write.Backup = NCCLPath + backupSuffix
	}
	step := plan.Step{
		Addresses: owners, Phase: plan.PhaseFiles, Target: NCCLPath, Effect: plan.Live, Provides: []string{NCCLName},
		Summary: "write busbar's block at the head of " + NCCLPath, Action: write,
	}
	_, keepsBlock, _, _ := ncclconf.Split(want) // written well just now
	switch {
	case want == "" && hasBlock:
		step.Summary, step.Action = "remove "+NCCLPath+", which held nothing but busbar's block", plan.RemoveFile{Path: NCCLPath}
	case !keepsBlock:
		step.Summary = "remove busbar's block from " + NCCLPath
	}
	a.Steps = append(a.Steps, step)
	return ncclPlace.allow(a, facts)
}

// NCCLText is what the file becomes: a block of what the lines of others do not bring
// about already, and those lines less the ones that are taken over. It fails where the text
// has half a block of busbar's, and where no line can hold a contribution.
func NCCLText(contributions []plan.Contribution, text string) (string, error) {
	contributions, keep := decided(contributions)
	held, _, theirs, err := ncclconf.Split(text)
	if err != nil {
		return "", err
	}
	var wanted, own []ncclconf.Setting
	for _, c := range contributions {
		wanted = append(wanted, ncclconf.Setting{Key: c.Key, Value: c.Value})
	}
	if keep {
		for _, e := range held {
			own = append(own, ncclconf.Setting{Key: e.Key, Value: e.Value})
		}
		wanted = keeping(wanted, own, func(s ncclconf.Setting) string { return s.Key }, contributions)
	}
	foreign := ncclTakeOver(contributions, theirs)
	return ncclconf.Apply(foreign, ncclconf.Missing(foreign, slices.Compact(wanted), ncclconf.Version{}))
}

// ncclTakeOver takes the lines out of the foreign text that give a variable of a
// contribution which may do so another value.
func ncclTakeOver(contributions []plan.Contribution, foreign string) string {
	edits := map[int]string{}
	for _, c := range contributions {
		if !c.TakeOver {
			continue
		}
		// Without a block in the text, Shadowed only fails where Split would.
		shadowed, _ := ncclconf.Shadowed(foreign, []ncclconf.Setting{{Key: c.Key, Value: c.Value}}, ncclconf.Version{})
		for _, e := range shadowed {
			edits[e.Line] = ""
		}
	}
	return editLines(foreign, edits)
}

func ncclFinding(id string, c plan.Contribution, now ncclconf.File) plan.Finding {
	f := plan.Finding{
		ID: id, Address: c.Address, Target: c.Key, Effect: plan.Live, Status: plan.OK,
		Want: c.Key + "=" + c.Value, Found: c.Key + " is not set", Source: node.Source{Path: NCCLPath},
		Summary: c.Key + " takes effect as wanted",
	}
	wrong := ""
	for _, reading := range now.Readings {
		i := slices.IndexFunc(reading.Entries, func(e ncclconf.Entry) bool { return e.Key == c.Key })
		switch {
		case i < 0:
			wrong = "is not set"
		case reading.Entries[i].Value != c.Value:
			e := reading.Entries[i]
			wrong = "is " + ncclconf.Show(e.Value)
			f.Found, f.Source.Line = e.Raw, e.Line
		default:
			continue
		}
		break
	}
	if wrong == "" {
		f.Found = f.Want
		return f
	}
	f.Status, f.Fixable = plan.Drift, true
	f.Summary = fmt.Sprintf("%s %s, wanted is %s", c.Key, wrong, ncclconf.Show(c.Value))
	return f
}
