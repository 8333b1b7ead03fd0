package plan

import (
	"cmp"
	"fmt"
	"strings"

	"busbar/node"
)

// Status of a finding.
type Status string

// The statuses.
const (
	OK            Status = "ok"
	Drift         Status = "drift"
	PendingReboot Status = "pending-reboot"
	// Ineffective: set, rebooted and still not in force; another reboot is no answer.
	Ineffective Status = "ineffective"
	// Conflict: two owners want different things; both are named.
	Conflict    Status = "conflict"
	Unsupported Status = "unsupported"
	// Undetermined is written "unknown": could not be read or decided.
	Undetermined Status = "unknown"
	Skipped      Status = "skipped"
	// Deferred: not decidable until a step of this plan has been done.
	Deferred Status = "deferred"
	Waived   Status = "waived"
)

// Severity of a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warn"
	Info    Severity = "info"
)

// Effect is what a change does to the node when it is made, from the weakest to
// the strongest.
type Effect int

// The effects.
const (
	NoEffect Effect = iota
	Live
	NextLogin
	ServiceRestart
	LinkBounce
	DriverReload
	GPUReset
	Reboot
	PowerCycle
)

var effectNames = [...]string{"", "live", "next-login", "service-restart", "link-bounce", "driver-reload", "gpu-reset", "reboot", "power-cycle"}

// String is the effect's name as profiles and JSON have it; empty for NoEffect.
func (e Effect) String() string { return effectNames[e] }

// MarshalText is String.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Finding is one judged statement about the node.
type Finding struct {
	// ID names the kind of finding (iommu.translated). It is stable: explain knows it.
	ID string `json:"id"`
	// Address of the block, or of the sink for what belongs to none.
	Address  string   `json:"address"`
	Status   Status   `json:"status"`
	Severity Severity `json:"severity"`
	// Summary is one sentence without a full stop.
	Summary string `json:"summary"`
	Want    string `json:"want,omitempty"`
	Found   string `json:"found,omitempty"`
	// Source of what was found.
	Source node.Source `json:"source,omitzero"`
	// Why it matters, and Fix: what to do next, where busbar does not do it.
	Why string `json:"why,omitempty"`
	Fix string `json:"fix,omitempty"`
	// Effect of putting it right.
	Effect Effect `json:"effect,omitzero"`
	// Fixable: a step of the plan puts it right.
	Fixable bool `json:"fixable"`
	// Tolerated: the profile lives with it (optional), whatever the status.
	Tolerated bool `json:"tolerated,omitempty"`
	// Waiver is the reason for which the profile accepts a waived finding, or that the
	// waiver has ended: "ended 2026-12-31: REASON".
	Waiver string `json:"waiver,omitempty"`

	// Target is the device, file or unit, for the change record.
	Target string `json:"-"`
	// By is the target of the step that puts it right, where that is not Target, or the step's id.
	By string `json:"-"`
	// Running and NextBoot are two of the three states where a change has them.
	Running  string `json:"-"`
	NextBoot string `json:"-"`
	// Feature is the attribute that the node may lack when it is listed in optional.
	Feature string `json:"-"`
	// Needs is the capability that would decide an unknown finding.
	Needs string `json:"-"`
	// Between are the places of a contradiction, that of Address first; zero for others.
	Between Places `json:"-"`
}

// Place is where a block wants something.
type Place struct {
	Address string
	Origin  Origin
}

// Places are two that contradict each other.
type Places [2]Place

// Swapped are the places the other way round.
func (p Places) Swapped() Places { return Places{p[1], p[0]} }

// Change is a finding's property in three states.
type Change struct {
	Address  string `json:"address"`
	ID       string `json:"id"`
	Target   string `json:"target,omitempty"`
	Running  string `json:"running,omitempty"`
	NextBoot string `json:"next_boot,omitempty"`
	Want     string `json:"want"`
	Effect   Effect `json:"effect,omitzero"`
}

// compareFindings orders by address, then id, then target, then summary.
func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.ID, b.ID),
		cmp.Compare(a.Target, b.Target), cmp.Compare(a.Summary, b.Summary))
}

// Unread is the finding for something that could not be read: it is unknown, or unsupported where there is
// no such setting, with the reason and the place.
func Unread[T any](id, what string, v node.Value[T]) Finding {
	status := Undetermined
	if v.IsUnsupported() {
		status = Unsupported
	}
	f := Finding{
		ID: id, Status: status, Needs: v.Needs(),
		Summary: fmt.Sprintf("%s is %s: %s", what, status, v.Reason()), Source: v.Source(),
	}
	if v.IsZero() {
		f.Fix = "record it: busbar capture with the name of this profile reads on the node what it asks for"
	}
	return f
}

// UnboundNIC is the finding, TYPE.driver, that a block is about a NIC port that nothing runs; why is node.Inventory.Unbound's.
func UnboundNIC(blockType string, n node.NIC, why string) Finding {
	source := node.Source{Path: "/sys/bus/pci/devices/" + n.Address + "/driver"}
	f := Finding{
		ID: blockType + ".driver", Target: n.String(), Status: Drift, Want: "a network driver", Found: "none", Source: source,
		Summary: fmt.Sprintf("NIC %s is not in use: %s", n, why),
		Fix:     fmt.Sprintf("look in the kernel log for %s: the driver (mlx5_core, bnxt_en, ice) is not loaded or gave up on it; echo %s > /sys/bus/pci/drivers_probe tries again", n.Address, n.Address),
	}
	if strings.Contains(why, "vfio") {
		f.Found = "vfio"
		f.Fix = fmt.Sprintf("take it back from VFIO (driverctl unset-override %s, or vfio-pci.ids= in the kernel's arguments), or leave it out of the profile", n.Address)
	}
	return f
}
