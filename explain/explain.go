// Package explain collects what the rooms of the house say about their findings, and shows on which facts a finding on a node
// rests. It is pure.
package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"busbar/node"
	"busbar/plan"
)

// Catalog has the explanations of all findings.
type Catalog struct{ byID map[string]plan.Explanation }

// anyType begins the ids of findings that blocks of any type may have.
const anyType = "*."

// New collects the explanations of types, sinks and others. Of two with one id the first counts.
func New(types []plan.Type, sinks []plan.Sink, others ...[]plan.Explanation) Catalog {
	c := Catalog{byID: map[string]plan.Explanation{}}
	add := func(all []plan.Explanation) {
		for _, e := range all {
			if _, there := c.byID[e.ID]; !there {
				c.byID[e.ID] = e
			}
		}
	}
	for _, t := range types {
		if e, ok := t.(plan.Explainer); ok {
			add(e.Explanations())
		}
	}
	for _, s := range sinks {
		if e, ok := s.(plan.Explainer); ok {
			add(e.Explanations())
		}
	}
	for _, all := range others {
		add(all)
	}
	return c
}

// Of is the explanation of findings with an id, and false where there is none.
func (c Catalog) Of(id string) (plan.Explanation, bool) {
	e, ok := c.byID[id]
	if _, what, found := strings.Cut(id, "."); !ok && found {
		e, ok = c.byID[anyType+what]
	}
	return e, ok
}

// Title is the title of findings with an id, or empty.
func (c Catalog) Title(id string) string {
	e, _ := c.Of(id)
	return e.Title
}

// All are the explanations, sorted by id.
func (c Catalog) All() []plan.Explanation {
	return slices.SortedFunc(maps.Values(c.byID), func(a, b plan.Explanation) int { return cmp.Compare(a.ID, b.ID) })
}

// Evidence is a fact on which a finding rests.
type Evidence struct {
	// Query is the fact's kind and key.
	Query node.Query `json:"query"`
	// Fact is what was answered as a recording has it: a value, or the reason why there is none, and the source.
	Fact json.RawMessage `json:"fact"`
}

// EvidenceOf are the facts that a finding rests on: those about its target, or else from its source, or where there are none all that
// own asks for, in the order of queries. own are the queries of its block, others those of the sinks.
func EvidenceOf(f plan.Finding, own, others []node.Query, facts node.Facts) []Evidence {
	var all, about, from []Evidence
	source, _ := json.Marshal(f.Source) // strings and a number
	for _, q := range slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(own, others)), node.CompareQueries)) {
		e := Evidence{q, json.RawMessage(`{"reason":"not recorded"}`)}
		if raw, err := json.Marshal(facts.Raw(q)); err == nil && string(raw) != "null" {
			e.Fact = raw
		}
		if slices.Contains(own, q) {
			all = append(all, e)
		}
		if q.Key != "" && (q.Key == f.Target || strings.HasPrefix(f.Target, q.Key+" ") || strings.Contains(f.Summary, q.Key)) {
			about = append(about, e)
		}
		if f.Source != (node.Source{}) && bytes.Contains(e.Fact, source) {
			from = append(from, e)
		}
	}
	switch {
	case len(about) > 0:
		return about
	case len(from) > 0:
		return from
	default:
		return all
	}
}

// Markdown is a document of all explanations, by what their ids begin with.
func (c Catalog) Markdown() string {
	var b strings.Builder
	b.WriteString("# Findings\n\nWhat `busbar explain ID` says of each kind of finding. This file is made of the same texts: `go test ./cmd/busbar -update`.\n" +
		"A `*` stands for the type of any block.\n")
	last := ""
	for _, e := range c.All() {
		kind, _, _ := strings.Cut(e.ID, ".")
		if kind != last {
			fmt.Fprintf(&b, "\n## %s\n", strings.ReplaceAll(kind, "*", "any block"))
			last = kind
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n", strings.ReplaceAll(e.ID, "*", `\*`), strings.ToUpper(e.Title[:1])+e.Title[1:])
		for _, part := range Parts(e) {
			fmt.Fprintf(&b, "\n- **%s** %s\n", part.Label, strings.ReplaceAll(part.Text, "*", `\*`))
		}
	}
	return strings.ReplaceAll(b.String(), "\n\n- ", "\n- ")
}

// Part is a part of an explanation with what it is about: why, read, fix, risk, sources.
type Part struct{ Label, Text string }

// Parts are those of an explanation that say something.
func Parts(e plan.Explanation) []Part {
	all := []Part{{"why", e.Why}, {"read", e.Read}, {"fix", e.Fix}, {"risk", e.Risk}, {"sources", strings.Join(e.Sources, "; ")}}
	return slices.DeleteFunc(all, func(p Part) bool { return p.Text == "" })
}
