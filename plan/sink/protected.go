package sink

import (
	"slices"
	"strings"

	"busbar/node"
	"busbar/plan"
)

// ProtectedName is the name of the sink Protected.
const ProtectedName = "protected NICs"

// Protected is the file in which apply saves which NICs are protected. A boot has no route yet when busbar.service runs,
// and without a protected NIC that is known it touches no link. Contributions are made by SaveProtected.
type Protected struct{}

var _ plan.Sink = Protected{}

// SaveProtected is the contribution of a block that changes ports of NICs.
func SaveProtected() plan.Contribution {
	return plan.Contribution{Sink: ProtectedName, Key: node.ProtectedPath, Value: "saved"}
}

// Name is "protected NICs".
func (Protected) Name() string { return ProtectedName }

// Queries ask whether what is saved would last.
func (Protected) Queries([]plan.Contribution) []node.Query {
	return []node.Query{node.Mount.Query(stateDir)}
}

// Assess compares what is saved with what is protected for a reason that lasts, on a running system, where there is a
// default route and what is saved outlives a reboot. Nothing is amiss without it until then, hence it is no error.
func (Protected) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	inv := facts.Inventory
	want, known := inv.LastingProtected().Get()
	have, readable := inv.SavedProtected.Get()
	switch {
	case len(contributions) == 0, inv.RootDirectory, !known, !readable, len(want) == 0, slices.Equal(want, have), !keepsState(facts):
		return plan.Assessment{}
	}
	f := plan.Finding{
		ID: "protected.saved", Address: ProtectedName, Target: node.ProtectedPath, Status: plan.Drift, Severity: plan.Info, Fixable: true,
		Want: strings.Join(want, " "), Found: strings.Join(have, " "), Source: inv.SavedProtected.Source(),
		Summary: "the next boot protects other NICs than are to be protected before its network is up",
	}
	if len(have) == 0 {
		f.Found, f.Summary = "none", "the next boot knows no protected NIC, and touches no link, before its network is up"
	}
	return plan.Assessment{Findings: []plan.Finding{f}, Steps: []plan.Step{{
		Addresses: []string{ProtectedName}, Phase: plan.PhaseMarker, Target: node.ProtectedPath, Effect: plan.NoEffect,
		Summary: "note which NICs are protected", Action: plan.SaveProtected{NICs: want},
	}}}
}
