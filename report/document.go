// Package report renders what was found, planned and done: as text for people
// and as JSON for programs. Both are views of one Document. It does no I/O but
// to the writers it is given.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"busbar/node"
	"busbar/plan"
)

// FormatVersion is the version of the JSON form of Document: "major.minor",
// additive within a major.
const FormatVersion = "1.0"

// Document is the outcome of plan, verify or apply for one node.
type Document struct {
	FormatVersion string `json:"format_version"`
	// Command is plan, verify, apply, install or uninstall.
	Command string  `json:"command"`
	Node    Node    `json:"node"`
	Profile Profile `json:"profile"`
	// Findings are sorted by address, then id.
	Findings []plan.Finding `json:"findings"`
	// Changes are sorted by address, then id, then target.
	Changes []plan.Change `json:"changes"`
	// Steps stand in the order in which apply does them; of an apply, those that it
	// came to.
	Steps []plan.Step `json:"steps"`
	// Deferred are sorted by address, then unlocking step.
	Deferred []plan.DeferredBlock `json:"deferred"`
	Summary  plan.Summary         `json:"summary"`
	ExitCode int                  `json:"exit_code"`
	// Run is what apply did; nil for the other commands.
	Run *Run `json:"run,omitempty"`
}

// NewDocument is what command says of p, which for apply was made before the first
// step or, for WithRun, after the last. The exit code is that of the findings.
func NewDocument(command string, n Node, profile Profile, p plan.Plan) Document {
	return Document{
		FormatVersion: FormatVersion,
		Command:       command,
		Node:          n,
		Profile:       profile,
		Findings:      sorted(p.Findings, compareFindings),
		Changes:       sorted(p.Changes, compareChanges),
		Steps:         append([]plan.Step{}, p.Steps...),
		Deferred:      sorted(p.Deferred, compareDeferred),
		Summary:       p.Summary(),
		ExitCode:      p.ExitCode(),
	}
}

// WithRun is d after a run; apply has exit codes of its own.
func (d Document) WithRun(r Run, exitCode int) Document {
	d.Run = &r
	d.ExitCode = exitCode
	d.Steps = []plan.Step{}
	for _, s := range r.Steps {
		d.Steps = append(d.Steps, s.Step)
	}
	d.Summary.Steps = len(d.Steps)
	return d
}

// Node says which node was looked at.
type Node struct {
	Hostname node.Value[string]
	// Product is the DMI product name.
	Product node.Value[string]
	// OS is the distribution's pretty name.
	OS node.Value[string]
	// Kernel is the running kernel's release, Arch the machine as uname has it.
	Kernel, Arch node.Value[string]
	// Virtualization is "none" on bare metal.
	Virtualization node.Value[string]
	// GPUs is the number of NVIDIA GPUs on the PCI bus.
	GPUs node.Value[int]
	// Recording is the file or example:NAME that was read; empty for the live node.
	Recording string
	// Root is the directory in which the root file system of a node lies that does not run;
	// empty for the others.
	Root string
	// ObservedAt is when reading began; zero when it was not recorded.
	ObservedAt time.Time
}

// NodeOf describes the node that facts show. recording names where they were
// recorded and is empty for the live node.
func NodeOf(facts node.Facts, recording string) Node {
	inv := facts.Inventory
	return Node{
		Hostname:       nonEmpty(inv.Hostname, node.Source{}, ""),
		Product:        product(inv.DMI),
		OS:             osName(inv.OS),
		Kernel:         inv.Kernel,
		Arch:           inv.Arch,
		Virtualization: inv.Virtualization,
		GPUs:           count(inv.GPUs()),
		Recording:      recording,
		ObservedAt:     facts.ObservedAt,
	}
}

func product(v node.Value[node.DMI]) node.Value[string] {
	dmi, ok := v.Get()
	if !ok {
		return node.Unknown[string](v.Reason(), v.Source())
	}
	return nonEmpty(dmi.ProductName, v.Source(), "the firmware names none")
}

func osName(v node.Value[node.OS]) node.Value[string] {
	os, ok := v.Get()
	if !ok {
		return node.Unknown[string](v.Reason(), v.Source())
	}
	return nonEmpty(cmp.Or(os.PrettyName, joinNonEmpty(" ", os.ID, os.VersionID)), v.Source(), "os-release names none")
}

// nonEmpty is s, or unknown for the given reason when s is empty.
func nonEmpty(s string, source node.Source, reason string) node.Value[string] {
	if s == "" {
		return node.Unknown[string](reason, source)
	}
	return node.Known(s, source)
}

func count[T any](v node.Value[[]T]) node.Value[int] {
	list, ok := v.Get()
	if !ok {
		return node.Unknown[int](v.Reason(), v.Source())
	}
	return node.Known(len(list), v.Source())
}

// MarshalJSON writes each fact, null where it is unknown, and the reasons for
// all nulls by field under "unknown".
func (n Node) MarshalJSON() ([]byte, error) {
	unknown := map[string]string{}
	var out struct {
		Hostname       *string           `json:"hostname"`
		Product        *string           `json:"product"`
		OS             *string           `json:"os"`
		Kernel         *string           `json:"kernel"`
		Arch           *string           `json:"arch"`
		Virtualization *string           `json:"virtualization"`
		GPUs           *int              `json:"gpus"`
		Recording      *string           `json:"recording"`
		Root           string            `json:"root,omitempty"`
		ObservedAt     *time.Time        `json:"observed_at"`
		Unknown        map[string]string `json:"unknown,omitempty"`
	}
	out.Hostname = orNull(n.Hostname, "hostname", unknown)
	out.Product = orNull(n.Product, "product", unknown)
	out.OS = orNull(n.OS, "os", unknown)
	out.Kernel = orNull(n.Kernel, "kernel", unknown)
	out.Arch = orNull(n.Arch, "arch", unknown)
	out.Virtualization = orNull(n.Virtualization, "virtualization", unknown)
	out.GPUs = orNull(n.GPUs, "gpus", unknown)
	out.Root = n.Root
	if n.Recording != "" {
		out.Recording = &n.Recording
	}
	var observed node.Value[time.Time]
	if !n.ObservedAt.IsZero() {
		observed = node.Known(n.ObservedAt.UTC(), node.Source{})
	}
	out.ObservedAt = orNull(observed, "observed_at", unknown)
	out.Unknown = unknown
	return marshal(out)
}

func orNull[T any](v node.Value[T], field string, unknown map[string]string) *T {
	known, ok := v.Get()
	if !ok {
		unknown[field] = v.Reason()
		return nil
	}
	return &known
}

// Choice says how a profile came to be used.
type Choice string

// The choices.
const (
	// Named on the command line, or /etc/busbar/node.hcl.
	Named Choice = "named"
	// Matched: the stock profile whose match fits the node.
	Matched Choice = "matched"
	// Default: no stock profile matches.
	Default Choice = "default"
)

// Profile says what the node was judged against.
type Profile struct {
	Name     string `json:"name"`
	File     string `json:"file"`
	ChosenBy Choice `json:"chosen_by"`
}

// Run is what an apply did.
type Run struct {
	StartedAt time.Time
	EndedAt   time.Time
	// Passes is how often was planned, from 1.
	Passes int
	// Steps in the order in which they were done.
	Steps []RunStep
	// Interrupted: ended by a signal or the timeout before all steps were done.
	Interrupted bool
	// Stopped says why steps were left that no failure explains; empty otherwise.
	Stopped string
}

// RunStep is what became of one step.
type RunStep struct {
	Step plan.Step
	// Status is done, already (was as wanted before), failed, skipped (what it
	// requires failed, or it disturbs those who use GPUs or RDMA) or interrupted.
	Status string
	// Error says why it failed or was skipped; empty otherwise.
	Error string
	Took  time.Duration
}

// MarshalJSON writes times as RFC 3339 in UTC, to the millisecond.
func (r Run) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		StartedAt   time.Time `json:"started_at"`
		EndedAt     time.Time `json:"ended_at"`
		Passes      int       `json:"passes"`
		Steps       []RunStep `json:"steps"`
		Interrupted bool      `json:"interrupted"`
		Stopped     string    `json:"stopped,omitempty"`
	}{r.StartedAt.UTC().Truncate(time.Millisecond), r.EndedAt.UTC().Truncate(time.Millisecond), r.Passes, append([]RunStep{}, r.Steps...), r.Interrupted, r.Stopped})
}

// MarshalJSON writes the step's id and the duration in seconds, to the microsecond.
func (s RunStep) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		ID       string  `json:"id"`
		Status   string  `json:"status"`
		Error    string  `json:"error,omitempty"`
		Duration float64 `json:"duration_s"`
	}{s.Step.ID, s.Status, s.Error, s.Took.Round(time.Microsecond).Seconds()})
}

// WriteJSON writes d indented, for a single node.
func WriteJSON(w io.Writer, d Document) error { return encode(w, d, d.Command, d.Node, "  ") }

// WriteJSONLine writes d on one line, for one of several nodes.
func WriteJSONLine(w io.Writer, d Document) error { return encode(w, d, d.Command, d.Node, "") }

// encode writes what a command says of a node.
func encode(w io.Writer, document any, command string, n Node, indent string) error {
	raw, err := marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the %s of %s: %w", command, hostname(n), err)
	}
	if indent != "" {
		var b bytes.Buffer
		// raw is valid JSON.
		_ = json.Indent(&b, raw, "", indent)
		raw = b.Bytes()
	}
	_, err = w.Write(append(escape(raw), '\n'))
	return err
}

// escape writes what JSON allows in a string but a terminal or an eye could be
// fooled by (DEL, C1 controls, bidirectional overrides) as \uXXXX.
func escape(raw []byte) []byte {
	hidden := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if bytes.IndexFunc(raw, hidden) < 0 {
		return raw
	}
	var out []byte
	for _, r := range string(raw) {
		if !hidden(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// marshal is json.Marshal without the escapes that only matter inside HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// sorted is a sorted copy of list, never nil.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	out := append([]T{}, list...)
	slices.SortStableFunc(out, compare)
	return out
}

func compareFindings(a, b plan.Finding) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Summary, b.Summary))
}

func compareChanges(a, b plan.Change) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Target, b.Target))
}

func compareDeferred(a, b plan.DeferredBlock) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Unlocks, b.Unlocks), cmp.Compare(a.Reason, b.Reason))
}
