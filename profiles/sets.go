package profiles

import (
	"bytes"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// nameSets gives the lists of blocks the names that plan.Withheld has of them.
func (w *whole) nameSets(r *report) {
	w.sets = map[*argument][]string{}
	n := naming{report: r, bound: map[string][]string{}}
	for _, b := range w.order {
		if b.local != nil {
			name := "local." + b.name
			n.bound[name] = append([]string{name}, n.sets(b.local)...)
			continue
		}
		name := "selector." + b.name
		n.bound[name] = []string{name}
		// It leaves out what is protected and is not empty, or nothing is computed from it: it has
		// something of everything that has all of its nics.
		if s := b.selector; s.nics != nil && s.include == nil && s.exclude == nil {
			n.bound[name] = append(n.bound[name], n.sets(s.nics)...)
		}
	}
	for _, b := range w.blocks {
		for _, a := range b.spec.Attributes {
			if layers := b.arguments[a.Name]; layers != nil && a.Type.IsListType() {
				last := layers[len(layers)-1]
				w.sets[last] = n.sets(last)
			}
		}
	}
}

// naming knows what locals and selectors are called.
type naming struct {
	report *report
	bound  map[string][]string
}

func (n naming) sets(a *argument) []string {
	if n.report.invalid[a] {
		return nil
	}
	return n.of(a.expr)
}

// of are the names of the sets that an expression has in it, its own first.
func (n naming) of(e hclsyntax.Expression) []string {
	switch e := e.(type) {
	case *hclsyntax.ParenthesesExpr:
		return n.of(e.Expression)
	case *hclsyntax.ScopeTraversalExpr:
		if len(e.Traversal) != 2 {
			break
		}
		name, _ := stepName(e.Traversal[1])
		name = e.Traversal.RootName() + "." + name
		if sets := n.bound[name]; sets != nil {
			return sets
		}
		if name == "node.nics" {
			return []string{name, "node.rails"}
		}
	case *hclsyntax.SplatExpr:
		// The same part of each element.
		inner := e.Source.Range()
		part := n.text(hcl.Range{Filename: inner.Filename, Start: inner.End, End: e.Range().End})
		var sets []string
		for _, of := range n.of(e.Source) {
			if part != "" {
				sets = append(sets, of+part)
			}
		}
		return sets
	}
	// An expression is a name for itself where it has one value in all blocks.
	variables := e.Variables()
	if len(variables) == 0 || slices.ContainsFunc(variables, func(t hcl.Traversal) bool { return t.RootName() == "each" }) {
		return nil
	}
	if text := n.text(e.Range()); text != "" {
		return []string{text}
	}
	return nil
}

// text is what is written in one line at a place, or empty.
func (n naming) text(rng hcl.Range) string {
	src := n.report.files[rng.Filename].src
	if !rng.CanSliceBytes(src) {
		return ""
	}
	text := rng.SliceBytes(src)
	if bytes.ContainsRune(text, '\n') {
		return ""
	}
	return string(text)
}
