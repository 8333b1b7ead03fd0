package profiles

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"busbar/plan"
)

// computing is a block of one instance while it is computed.
type computing struct {
	*evaluation
	block *block
	ctx   *hcl.EvalContext
	out   plan.Block
	// places are where the attributes and keys of out.Origins stand, with columns.
	places map[string]hcl.Range
}

// block computes one instance. applies is false when its when is.
func (e *evaluation) block(b *block, i instance) (out plan.Block, applies bool) {
	c := &computing{evaluation: e, block: b, ctx: i.ctx, places: map[string]hcl.Range{}}
	c.out = plan.Block{
		Address: i.address, Type: b.spec.Name, Label: b.label, Origin: originOf(b.place),
		Attributes: map[string]cty.Value{}, Origins: map[string]plan.Origin{},
	}
	applies = c.when()
	if i.undecided != nil {
		c.out.Undecided, c.out.Needs, applies = i.undecided.Reason, i.undecided.Needs, true
	}
	c.meta(i)
	// On a node, what does not apply is not computed: its expressions may make sense
	// only where it applies.
	if e.of != nil && (!applies || c.out.Undecided != "") {
		return c.out, applies
	}
	for _, a := range b.spec.Attributes {
		c.attribute(a)
	}
	c.validate()
	return c.out, applies
}

// when evaluates the block's when; it sets Undecided when that is unknown.
func (c *computing) when() bool {
	v, ok := c.metaArgument("when", cty.Bool)
	if !ok {
		return true
	}
	if !v.IsKnown() {
		u := whyUnknown(v)
		c.out.Undecided, c.out.Needs = u.Reason, u.Needs
		return true
	}
	v, _ = v.Unmark()
	return v.True()
}

// metaArgument evaluates a meta argument that is there and right.
func (c *computing) metaArgument(name string, t cty.Type) (cty.Value, bool) {
	layers := c.block.arguments[name]
	if layers == nil {
		return cty.NilVal, false
	}
	return c.value(layers[0], t, name)
}

// value evaluates an argument that has to be of type t.
func (c *computing) value(a *argument, t cty.Type, name string) (cty.Value, bool) {
	if a == nil || c.report.invalid[a] {
		return cty.NilVal, false
	}
	v, ok := evaluate(c.report, c.block.address, a.metered, c.ctx)
	if !ok {
		return cty.NilVal, false
	}
	v, wrong := conform(v, t)
	var enum []string
	if name == "severity" {
		enum = severities
	}
	c.mismatched(wrong, enum, name, a.expr.Range())
	return v, len(wrong) == 0 && c.few(name, elements(v), a.expr.Range())
}

// known is value for what may not depend on the node. It is reported unknown once, and
// not where it is unknown what for_each makes, or where all that is computed now is: nothing is left of the budget.
func (c *computing) known(a *argument, t cty.Type, name string, i instance) (cty.Value, bool) {
	v, ok := c.value(a, t, name)
	if !ok {
		return cty.NilVal, false
	}
	if !v.IsWhollyKnown() {
		if i.undecided == nil && budgetOf(c.ctx).left > 0 {
			c.report.errorf(a.expr.Range(), c.block.address, "Unknown", "%s has to be known without a node.", name)
		}
		return cty.NilVal, false
	}
	v, _ = v.UnmarkDeep()
	return v, true
}

// severities are what severity can be.
var severities = []string{string(plan.Error), string(plan.Warning), string(plan.Info)}

func (c *computing) meta(i instance) {
	first := func(name string) *argument {
		if layers := c.block.arguments[name]; layers != nil {
			return layers[0]
		}
		return nil
	}
	c.out.Severity = plan.Error
	if v, ok := c.known(first("severity"), cty.String, "severity", i); ok {
		c.constrainString(v.AsString(), severities, func() string { return "severity" }, first("severity").expr.Range())
		c.out.Severity = plan.Severity(v.AsString())
	}
	if v, ok := c.known(first("optional"), cty.List(cty.String), "optional", i); ok {
		for it := v.ElementIterator(); it.Next(); {
			_, s := it.Element()
			c.out.Optional = append(c.out.Optional, s.AsString())
		}
	}
	w := c.block.waive
	if w == nil {
		return
	}
	c.out.Waive = &plan.Waiver{}
	if v, ok := c.known(w.reason, cty.String, "reason", i); ok {
		if c.out.Waive.Reason = v.AsString(); strings.TrimSpace(v.AsString()) == "" {
			c.report.errorf(w.reason.expr.Range(), c.block.address, "Empty reason", "Say why the findings are accepted.")
		}
	}
	if v, ok := c.known(w.until, cty.String, "until", i); ok {
		until, err := parseUntil(v.AsString())
		if err != nil {
			c.report.errorf(w.until.expr.Range(), c.block.address, "Not a date", `until is %q; write a date "2026-12-31" (the waiver ends as it begins, UTC) or a time "2026-12-31T18:00:00Z".`, v.AsString())
		}
		c.out.Waive.Until = until
	}
}

func parseUntil(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err
}

// validate asks the block's type. Where the block has mistakes already, what misses
// something may miss what is mistaken: then only mistakes in values that are there are told.
func (c *computing) validate() {
	v, ok := c.block.typ.(plan.Validator)
	if !ok {
		return
	}
	mistaken := c.report.blamed[c.block.address]
	for _, p := range v.Validate(c.out) {
		value, has := c.out.Attributes[p.Attribute]
		if !mistaken || has && !value.IsNull() {
			c.problem(p)
		}
	}
}

func (c *computing) problem(p plan.Problem) {
	severity := DiagnosticError
	if p.Warning {
		severity = DiagnosticWarning
	}
	place, ok := c.places[p.Attribute+"."+p.Key]
	if !ok || p.Key == "" {
		place, ok = c.places[p.Attribute]
	}
	if !ok {
		place = c.block.place
	}
	c.report.add(severity, place, c.block.address, upperFirst(p.Summary), p.Detail)
}

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
