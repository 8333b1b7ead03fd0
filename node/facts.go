// Package node is the machine as data: what can be asked (Query), what was
// answered (Facts, Value) and how answers are recorded. It does no I/O.
package node

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Query names one thing to read. The zero Key is the whole of a kind that has
// only one instance on a node.
type Query struct {
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"`
}

// String is KIND or KIND:KEY.
func (q Query) String() string {
	if q.Key == "" {
		return q.Kind
	}
	return q.Kind + ":" + q.Key
}

// CompareQueries orders by kind, then key.
func CompareQueries(a, b Query) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
}

// Kind is a kind of query with the Go type of its answers. All kinds are
// declared in kinds.go.
type Kind[T any] struct{ name string }

// Name is the kind's name in queries and recordings.
func (k Kind[T]) Name() string { return k.name }

// Query asks this kind for key.
func (k Kind[T]) Query(key string) Query { return Query{Kind: k.name, Key: key} }

// Get returns the answer in f, unknown when it was not asked or not recorded.
func (k Kind[T]) Get(f Facts, key string) Value[T] { return Get[T](f, k.Query(key)) }

// Answer pairs the query for key with its answer.
func (k Kind[T]) Answer(key string, v Value[T]) Answer {
	return Answer{Query: k.Query(key), value: v}
}

// Answer is one query with what was answered.
type Answer struct {
	Query Query
	value any // a Value[T] of the query's kind
}

// AnswerTo pairs a query with its answer; T is the type of the query's kind.
func AnswerTo[T any](q Query, v Value[T]) Answer { return Answer{Query: q, value: v} }

// Facts are a node's inventory and the answers to queries. Facts are immutable;
// With returns changed copies.
type Facts struct {
	// ObservedAt is when reading began, UTC.
	ObservedAt time.Time
	Inventory  Inventory
	answers    map[Query]any
	allowed    map[Query]bool // nil: everything
}

// NewFacts collects answers under an inventory.
func NewFacts(inv Inventory, observedAt time.Time, answers []Answer) Facts {
	f := Facts{Inventory: inv, ObservedAt: observedAt, answers: make(map[Query]any, len(answers))}
	for _, a := range answers {
		f.answers[a.Query] = a.value
	}
	return f
}

// Get returns the answer to q. It is unknown when q was not answered, and when f
// was restricted to other queries.
func Get[T any](f Facts, q Query) Value[T] {
	if f.allowed != nil && !f.allowed[q] {
		return Unknown[T](q.String()+" was read without having been asked for", Source{})
	}
	v, ok := f.answers[q].(Value[T])
	if !ok {
		return Value[T]{}
	}
	return v
}

// Restrict returns f as somebody sees it who asked only for queries, so that a
// read of anything else shows as unknown.
func (f Facts) Restrict(queries []Query) Facts {
	f.allowed = make(map[Query]bool, len(queries))
	for _, q := range queries {
		f.allowed[q] = true
	}
	return f
}

// With returns a copy of f in which the given answers replace older ones.
func (f Facts) With(answers ...Answer) Facts {
	f.answers = f.copyAnswers()
	for _, a := range answers {
		f.answers[a.Query] = a.value
	}
	return f
}

// WithInventory returns a copy of f with another inventory.
func (f Facts) WithInventory(inv Inventory) Facts {
	f.Inventory = inv
	return f
}

// Queries lists what was answered, sorted.
func (f Facts) Queries() []Query {
	return slices.SortedFunc(maps.Keys(f.answers), CompareQueries)
}

// Merge returns f with all answers of g added; they replace those of f.
func (f Facts) Merge(g Facts) Facts {
	f.answers = f.copyAnswers()
	maps.Copy(f.answers, g.answers)
	return f
}

func (f Facts) copyAnswers() map[Query]any {
	if f.answers == nil {
		return map[Query]any{}
	}
	return maps.Clone(f.answers)
}

// Raw is the answer to q as a Value of its kind, nil when there is none. It is for
// encoding; Get is for reading.
func (f Facts) Raw(q Query) any { return f.answers[q] }
