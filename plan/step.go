package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"busbar/node"
)

// Phase orders steps.
type Phase int

// The phases, in order.
const (
	PhaseFiles    Phase = iota // persistent files and boot arguments
	PhaseModules               // modules and drivers
	PhasePCI                   // PCI registers
	PhaseLink                  // link and DCB
	PhaseRDMA                  // RDMA and configfs
	PhaseServices              // services
	PhaseMarker                // the marker for after a reboot
)

var phaseNames = [...]string{"files", "modules", "pci", "link", "rdma", "services", "marker"}

// String is the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// MarshalText is String.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Step is one ensure: it reads, compares, writes where needed and reads back.
type Step struct {
	// ID is KIND:TARGET, unique in a plan.
	ID string
	// Addresses of the blocks that it serves, sorted.
	Addresses []string
	Phase     Phase
	// Target is the PCI address, path, module, unit or parameter.
	Target string
	// Summary is what it does, an imperative sentence without a full stop.
	Summary string
	Action  Action
	// Requires are step ids and provided names that must have succeeded if they are in the plan.
	Requires []string
	// After are the ids of steps that come first if they are in the plan, whatever becomes of them.
	After []string
	// Provides are names under which others require this step, and capabilities.
	Provides []string
	Effect   Effect
	// Settle is how long what the step provides may take to appear.
	Settle time.Duration
	// Disturbs are those who use GPUs or RDMA and would be disturbed (InUse), in words, so that apply makes the step only where
	// that was allowed.
	Disturbs []string
	// Expect is the fingerprint of what the plan saw.
	Expect string
}

// MarshalJSON writes the step with its action's parameters under "action".
func (s Step) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		ID        string   `json:"id"`
		Addresses []string `json:"addresses"`
		Phase     Phase    `json:"phase"`
		Target    string   `json:"target"`
		Summary   string   `json:"summary"`
		Kind      string   `json:"kind"`
		Action    Action   `json:"action"`
		Requires  []string `json:"requires"`
		After     []string `json:"after,omitempty"`
		Provides  []string `json:"provides"`
		Effect    Effect   `json:"effect,omitzero"`
		SettleS   float64  `json:"settle_s,omitempty"`
		Disturbs  []string `json:"disturbs,omitempty"`
		Expect    string   `json:"expect"`
	}{
		s.ID, list(s.Addresses), s.Phase, s.Target, s.Summary, s.Action.Kind(), s.Action,
		list(s.Requires), s.After, list(s.Provides), s.Effect, s.Settle.Seconds(), s.Disturbs, s.Expect,
	})
	return b.Bytes(), err
}

// list is never null in JSON.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Action is what a step does: one of a closed set of serialisable kinds, declared
// in actions.go and executed by package apply.
type Action interface {
	// Kind is the action's name in JSON and step ids.
	Kind() string
	// Queries are what Done reads.
	Queries() []node.Query
	// Done reports whether facts show the wanted state, with what they show in words.
	// An error says why it cannot be told.
	Done(facts node.Facts) (done bool, found string, err error)
	// Project is facts as they will be after the action succeeded.
	Project(facts node.Facts) node.Facts
}

// Awaiting is an action that changes nothing: it waits until Done.
type Awaiting interface {
	Action
	// Deadline is how long to wait, Hold for how long Done must have been so without a break.
	Deadline() time.Duration
	Hold() time.Duration
	// Awaited completes "waited for".
	Awaited() string
}

// Fingerprint identifies the answers to queries in facts.
func Fingerprint(facts node.Facts, queries []node.Query) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, q := range queries {
		// Encoding a hash never fails, and answers are plain data.
		_ = enc.Encode(q)
		_ = enc.Encode(facts.Raw(q))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
