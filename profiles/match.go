package profiles

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
)

// Baseline is the profile of nodes that no other matches.
const Baseline = "baseline"

// Match reports whether the profile's match holds for a node. A profile without match
// holds for none. Where it cannot be told, reason says why.
func (p *Profile) Match(inv node.Inventory) (matched bool, reason string) {
	return p.matches(NodeOf(inv).value)
}

// matches is Match for a node as profiles see it.
func (p *Profile) matches(of cty.Value) (matched bool, reason string) {
	if p.match == nil {
		return false, ""
	}
	r := newReport()
	v, ok := evaluate(r, "profile", p.match.metered, newContext(newBudget(), map[string]cty.Value{"node": of}))
	if !ok {
		d := r.list[0]
		return false, fmt.Sprintf("match of profile %s: %s: %s", p.Name, d.Summary, d.Detail)
	}
	v, wrong := conform(v, cty.Bool)
	if len(wrong) > 0 {
		return false, fmt.Sprintf("match of profile %s %s", p.Name, wrong[0].message)
	}
	if !v.IsKnown() {
		return false, whyUnknown(v).Reason
	}
	v, _ = v.Unmark()
	return v.True(), ""
}

// ChoiceError says why no profile could be chosen for a node.
type ChoiceError struct {
	// Matches are the names of several profiles that match, none of which extends all
	// the others.
	Matches []string
	// Undecided has the reason for which it is unknown whether a profile matches.
	Undecided map[string]string
}

// Error names the profiles.
func (e *ChoiceError) Error() string {
	var parts []string
	if len(e.Matches) > 1 {
		parts = append(parts, fmt.Sprintf("profiles %s match this node and none extends the others", strings.Join(e.Matches, ", ")))
	}
	for _, why := range slices.Compact(slices.Sorted(maps.Values(e.Undecided))) {
		names := slices.DeleteFunc(sortedKeys(e.Undecided), func(name string) bool { return e.Undecided[name] != why })
		noun, verb := "profile", "matches"
		if len(names) > 1 {
			noun, verb = "profiles", "match"
		}
		parts = append(parts, fmt.Sprintf("whether %s %s %s this node is unknown: %s", noun, strings.Join(names, ", "), verb, why))
	}
	return strings.Join(parts, "; ")
}

// Choose returns the name of the profile that matches a node: of several the one that
// extends all the others, Baseline when none does. The error is a *ChoiceError.
func Choose(profiles []*Profile, inv node.Inventory) (string, error) {
	return ChooseForNode(profiles, NodeOf(inv))
}

// ChooseForNode is Choose for a node as profiles see it.
func ChooseForNode(profiles []*Profile, n Node) (string, error) {
	failed := &ChoiceError{Undecided: map[string]string{}}
	var matching []*Profile
	for _, p := range profiles {
		matched, reason := p.matches(n.value)
		switch {
		case reason != "":
			failed.Undecided[p.Name] = reason
		case matched:
			matching = append(matching, p)
			failed.Matches = append(failed.Matches, p.Name)
		}
	}
	slices.Sort(failed.Matches)
	if len(failed.Matches) == 0 && len(failed.Undecided) == 0 {
		return Baseline, nil
	}
	for _, p := range matching {
		outranks := func(name string) bool { return name == p.Name || p.Extends(name) }
		if !slices.ContainsFunc(append(sortedKeys(failed.Undecided), failed.Matches...), func(name string) bool { return !outranks(name) }) {
			return p.Name, nil
		}
	}
	return "", failed
}
