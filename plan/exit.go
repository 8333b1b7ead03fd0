package plan

// Exit codes of the commands, for people in docs/design.md section 3.
const (
	ExitOK         = 0
	ExitError      = 1
	ExitDrift      = 2
	ExitReboot     = 3
	ExitPartial    = 4
	ExitDisagrees  = 5
	ExitLocked     = 6
	ExitStale      = 7
	ExitUnknown    = 8
	ExitUsage      = 64
	ExitNeedsRoot  = 77
	ExitBadProfile = 78
)

// ExitCode judges the findings: 2 when an error-severity finding is not ok, else 8
// when one is unknown, else 3 when only a reboot is owed, else 0.
func (p Plan) ExitCode() int {
	var drift, unknown, reboot bool
	for _, f := range p.Findings {
		if f.Severity != Error || f.Tolerated {
			continue
		}
		switch f.Status {
		case Drift, Conflict, Ineffective, Deferred, Unsupported:
			drift = true
		case Undetermined:
			unknown = true
		case PendingReboot:
			reboot = true
		}
	}
	switch {
	case drift:
		return ExitDrift
	case unknown:
		return ExitUnknown
	case reboot:
		return ExitReboot
	default:
		return ExitOK
	}
}

// Summary counts findings by status, and steps.
type Summary struct {
	OK            int `json:"ok"`
	Drift         int `json:"drift"`
	PendingReboot int `json:"pending_reboot"`
	Ineffective   int `json:"ineffective"`
	Conflict      int `json:"conflict"`
	Unsupported   int `json:"unsupported"`
	Unknown       int `json:"unknown"`
	Skipped       int `json:"skipped"`
	Deferred      int `json:"deferred"`
	Waived        int `json:"waived"`
	Steps         int `json:"steps"`
}

// Summary of the plan.
func (p Plan) Summary() Summary {
	s := Summary{Steps: len(p.Steps)}
	count := map[Status]*int{
		OK: &s.OK, Drift: &s.Drift, PendingReboot: &s.PendingReboot, Ineffective: &s.Ineffective,
		Conflict: &s.Conflict, Unsupported: &s.Unsupported, Undetermined: &s.Unknown,
		Skipped: &s.Skipped, Deferred: &s.Deferred, Waived: &s.Waived,
	}
	for _, f := range p.Findings {
		*count[f.Status]++
	}
	return s
}
