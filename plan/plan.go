package plan

import (
	"cmp"
	"slices"
	"time"
)

// Plan is a judged node: what was found and what would be done.
type Plan struct {
	Findings []Finding
	Changes  []Change
	Steps    []Step
	Deferred []DeferredBlock
}

// DeferredBlock is an address that cannot be decided before a step of the plan
// has been done.
type DeferredBlock struct {
	Address string `json:"address"`
	Reason  string `json:"reason"`
	// Unlocks is the id of the step that will tell.
	Unlocks string `json:"unlocked_by"`
	// Ceiling is the strongest effect that its steps may have.
	Ceiling Effect `json:"effect_ceiling"`
}

// assemble finishes findings with what blocks say of severity, optional parts and
// waivers, tells deferred from unknown, and derives changes.
func assemble(blocks map[string]Block, findings []Finding, steps []Step, ceilings map[string]Effect, now time.Time) Plan {
	p := Plan{Findings: make([]Finding, 0, len(findings)), Changes: []Change{}, Steps: steps, Deferred: []DeferredBlock{}}
	provider := map[string]string{}
	for _, s := range slices.Backward(steps) {
		for _, name := range s.Provides {
			provider[name] = s.ID
		}
	}
	for _, f := range findings {
		b := blocks[f.Address]
		if f.Severity == "" || f.Severity == Error {
			f.Severity = cmp.Or(b.Severity, f.Severity, Error)
		}
		if f.Status == Unsupported && slices.Contains(b.Optional, f.Feature) {
			f.Tolerated = true
		}
		if f.Status == Undetermined && f.Needs != "" {
			if step, ok := provider[f.Needs]; ok {
				f.Status = Deferred
				p.Deferred = append(p.Deferred, DeferredBlock{
					Address: f.Address, Reason: f.Summary, Unlocks: step,
					Ceiling: ceilings[b.typeKey()],
				})
			}
		}
		if b.Waive != nil && f.Status != OK && f.Status != Skipped {
			f.Waiver = b.Waive.at(now)
			if b.Waive.holds(now) {
				f.Status = Waived
			}
		}
		p.Findings = append(p.Findings, f)
	}
	slices.SortStableFunc(p.Findings, compareFindings)
	p.Findings = slices.CompactFunc(p.Findings, func(a, b Finding) bool { return a == b })
	for _, f := range p.Findings {
		if f.Fixable || f.Status == PendingReboot || f.Status == Ineffective {
			p.Changes = append(p.Changes, Change{
				Address: f.Address, ID: f.ID, Target: f.Target, Running: f.Running,
				NextBoot: f.NextBoot, Want: f.Want, Effect: f.Effect,
			})
		}
	}
	return p
}
