package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/p2p"
	"busbar/node"
)

// Reader reads a node and, where node.P2PMeasurement is asked for, measures.
type Reader struct {
	node.Reader
	// Options of the measurement. Force takes also GPUs that processes use. Size is what the query says.
	Options Options
}

// Read reads first, and then measures what is asked for, one size after the other. Where the GPUs are in use, or nobody
// knows, nothing is measured without Force, and the answer says so.
func (r Reader) Read(ctx context.Context, inv node.Inventory, queries []node.Query) node.Facts {
	var others, measurements []node.Query
	for _, q := range queries {
		if q.Kind == node.P2PMeasurement.Name() {
			measurements = append(measurements, q)
		} else {
			others = append(others, q)
		}
	}
	if len(measurements) == 0 {
		return r.Reader.Read(ctx, inv, others)
	}
	if users := node.GPUUsers.Query(""); !slices.Contains(others, users) {
		others = append(others, users)
	}
	facts := r.Reader.Read(ctx, inv, others)
	for _, q := range measurements {
		facts = facts.With(node.P2PMeasurement.Answer(q.Key, r.measure(ctx, q.Key, facts)))
	}
	return facts
}

func (r Reader) measure(ctx context.Context, mib string, facts node.Facts) node.Value[p2p.Result] {
	source := node.Source{Call: "CUDA"}
	size, err := strconv.ParseInt(mib, 10, 32)
	if err != nil {
		return node.Unknown[p2p.Result](fmt.Sprintf("%q is no size in MiB", mib), source)
	}
	if err := Refusal(facts); err != nil && !r.Options.Force {
		return node.Unknown[p2p.Result](err.Error(), node.GPUUsers.Get(facts, "").Source())
	}
	o := r.Options
	o.Size = size << 20
	result, err := Run(ctx, o)
	if err != nil {
		return node.Unknown[p2p.Result](err.Error(), source)
	}
	return node.Known(result, source)
}

// ErrUnseen says that who uses the GPUs cannot be seen without being root.
var ErrUnseen = errors.New("whether the GPUs are in use cannot be seen")

// Refusal is why the GPUs at these addresses, or all where there are none, are not to be measured without Force: who uses
// them, or that nobody knows. It is nil where nobody does.
func Refusal(facts node.Facts, gpus ...string) error {
	v := node.GPUUsers.Get(facts, "")
	usage, known := v.Get()
	if !known {
		return fmt.Errorf("who uses the GPUs is unknown: %s (%s); or say --force", v.Reason(), v.Source())
	}
	by := usage.By(gpus...)
	switch users, known := by.Get(); {
	case !known:
		return fmt.Errorf("%w: %s; or say --force", ErrUnseen, by.Reason())
	case len(users) > 0:
		return fmt.Errorf("the GPUs are in use: %s: wait until that has ended, or say --force", strings.Join(users, "; "))
	default:
		return nil
	}
}
