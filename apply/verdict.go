//go:build linux

package apply

import (
	"slices"

	"busbar/plan"
)

// verdict judges the final plan in the light of what the run did, and fills in
// what is still deferred: docs/design.md section 3.
func (r *runner) verdict() int {
	final := r.result.Final.Plan
	if !r.running {
		// What only a running system tells is decided at the first boot.
		final.Findings = slices.DeleteFunc(slices.Clone(final.Findings), func(f plan.Finding) bool {
			return f.Status == plan.Deferred
		})
	}
	var disagreeing, left []plan.Finding
	for _, f := range final.Findings {
		switch {
		case f.Status == plan.Deferred || f.Status == plan.Undetermined && r.deferred[keyOf(f)]:
			left = append(left, f)
			r.result.Deferred = append(r.result.Deferred, f.Address)
		case f.Status == plan.Ineffective || r.touched[f.Address] && !r.foretold(f):
			disagreeing = append(disagreeing, f)
		}
	}
	slices.Sort(r.result.Deferred)
	r.result.Deferred = slices.Compact(r.result.Deferred)

	allDone := r.result.Stopped == "" && !r.result.Interrupted && !slices.ContainsFunc(r.result.Steps, func(s StepResult) bool {
		return s.Outcome != Done && s.Outcome != Already
	})
	switch {
	case allDone && codeOf(disagreeing) == plan.ExitDrift:
		return plan.ExitDisagrees
	case !allDone || codeOf(left) != plan.ExitOK:
		return plan.ExitPartial
	default:
		return codeOf(final.Findings)
	}
}

// foretold reports whether the plan that was approved had f, and no step for it: that
// it still stands is no surprise.
func (r *runner) foretold(f plan.Finding) bool {
	return slices.ContainsFunc(r.result.Planned.Plan.Findings, func(p plan.Finding) bool {
		return keyOf(p) == keyOf(f) && p.Status == f.Status && !p.Fixable
	})
}

// codeOf is the exit code that the findings alone give.
func codeOf(findings []plan.Finding) int { return plan.Plan{Findings: findings}.ExitCode() }
