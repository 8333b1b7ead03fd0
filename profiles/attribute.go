package profiles

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"busbar/plan"
)

// entry is one key of an attribute that merges key by key.
type entry struct {
	value cty.Value
	place hcl.Range // of the key, for origins
	expr  hcl.Range // of the value, for mistakes
}

// attribute computes one attribute from its layers.
func (c *computing) attribute(a plan.Attribute) {
	layers := c.block.arguments[a.Name]
	null := cty.NullVal(a.Type.WithoutOptionalAttributesDeep())
	if layers == nil {
		c.out.Attributes[a.Name] = null
		if a.Default != cty.NilVal {
			c.out.Attributes[a.Name] = a.Default
		}
		return
	}
	c.out.Attributes[a.Name] = null
	last := layers[len(layers)-1]
	c.placed(a.Name, "", last.place, last.expr.Range())
	if slices.ContainsFunc(layers, func(l *argument) bool { return c.report.invalid[l] }) {
		return
	}
	if !keyed(a.Type) {
		if v, ok := evaluate(c.report, c.block.address, last.metered, c.ctx); ok {
			c.whole(a, v, last)
		}
		return
	}
	entries := map[string]entry{}
	for _, layer := range layers {
		items, whole, ok := c.items(layer)
		switch {
		case !ok:
			return
		case whole != cty.NilVal && !whole.IsKnown():
			// Which keys it sets over the others is unknown.
			c.withhold(a.Name, "", whyUnknown(whole))
			return
		case whole != cty.NilVal && layer == last:
			c.whole(a, whole, last)
			return
		case whole != cty.NilVal:
			clear(entries)
			continue
		}
		c.overlay(a.Name, entries, items)
	}
	c.entries(a, entries, last)
}

// whole sets an attribute that is one value.
func (c *computing) whole(a plan.Attribute, v cty.Value, from *argument) {
	if v.IsNull() {
		c.report.errorf(from.expr.Range(), c.block.address, "Null left after merging", "%s is null on this profile; leave it out instead.", a.Name)
		return
	}
	v, wrong := conform(v, a.Type)
	c.mismatched(wrong, a.Enum, a.Name, from.expr.Range())
	if len(wrong) > 0 || !c.few(a.Name, elements(v), from.expr.Range()) {
		return
	}
	c.constrain(a, v, func() string { return a.Name }, from.expr.Range())
	if !v.IsWhollyKnown() {
		c.withhold(a.Name, "", whyUnknown(v), c.evaluation.whole.sets[from]...)
		return
	}
	c.out.Attributes[a.Name], _ = v.UnmarkDeep()
}

// items are the keys that one layer sets, or whole when it is not an object or is
// unknown.
func (c *computing) items(layer *argument) (items map[string]entry, whole cty.Value, ok bool) {
	items, ok = map[string]entry{}, true
	if object, written := layer.metered.(*hclsyntax.ObjectConsExpr); written {
		invalid := c.report.invalidItems[layer]
		for i, item := range object.Items {
			key := literalKey(item)
			if invalid[i] && key == "" {
				ok = false
				continue
			}
			if invalid[i] {
				// The mistake was told; a place holder keeps the key from seeming absent.
				items[key] = entry{cty.DynamicVal, item.KeyExpr.Range(), item.ValueExpr.Range()}
				continue
			}
			if key == "" {
				k, good := evaluate(c.report, c.block.address, item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr).Wrapped, c.ctx)
				switch {
				case !good:
					ok = false
					continue
				case !k.IsKnown():
					whole = k
					continue
				case k.IsNull() || k.Type() != cty.String:
					c.report.errorf(item.KeyExpr.Range(), c.block.address, "Wrong type", "The key is %s where a string is wanted.", describe(k.Type()))
					ok = false
					continue
				}
				k, _ = k.Unmark()
				key = k.AsString()
			}
			v, good := evaluate(c.report, c.block.address, item.ValueExpr, c.ctx)
			ok = ok && good
			items[key] = entry{v, item.KeyExpr.Range(), item.ValueExpr.Range()}
		}
		return items, whole, ok
	}
	v, ok := evaluate(c.report, c.block.address, layer.metered, c.ctx)
	if !ok {
		return nil, cty.NilVal, false
	}
	object, marks := v.Unmark()
	if !v.IsKnown() || v.IsNull() || !object.Type().IsObjectType() && !object.Type().IsMapType() {
		return nil, v, true
	}
	for it := object.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if !element.IsWhollyKnown() && len(unknowns(element)) == 0 {
			element = element.WithMarks(marks)
		}
		items[key.AsString()] = entry{element, layer.place, layer.expr.Range()}
	}
	return items, cty.NilVal, true
}

// overlay puts the keys of a younger layer over entries.
func (c *computing) overlay(attribute string, entries, items map[string]entry) {
	inherited := maps.Clone(entries)
	for _, key := range sortedKeys(items) {
		item := items[key]
		if !item.value.IsNull() {
			entries[key] = item
			continue
		}
		if _, ok := entries[key]; !ok {
			c.report.errorf(item.expr, c.block.address, "Null left after merging",
				"null takes away what a parent set, and no parent sets %s%s.%s", attribute, step(key), c.report.suggest(key, maps.Keys(inherited)))
		}
		delete(entries, key)
	}
}

// entries sets an attribute that was put together key by key.
func (c *computing) entries(a plan.Attribute, entries map[string]entry, last *argument) {
	if !c.few(a.Name, len(entries), last.expr.Range()) {
		return
	}
	values := map[string]cty.Value{}
	good := true
	for _, key := range sortedKeys(entries) {
		item := entries[key]
		c.placed(a.Name, key, item.place, item.expr)
		name := a.Name + step(key)
		t := cty.DynamicPseudoType
		switch {
		case a.Type.IsMapType():
			t = a.Type.ElementType()
		case a.Type.IsObjectType() && !a.Type.HasAttribute(key):
			c.report.errorf(item.place, c.block.address, "No such attribute", "%s has no attribute %q.%s", a.Name, key, c.report.suggest(key, maps.Keys(a.Type.AttributeTypes())))
			good = false
			continue
		case a.Type.IsObjectType():
			t = a.Type.AttributeType(key)
		}
		v, wrong := conform(item.value, t)
		if c.mismatched(wrong, a.Enum, name, item.expr); len(wrong) > 0 {
			good = false
			continue
		}
		c.constrain(plan.Attribute{Type: t, Enum: a.Enum, Min: a.Min, Max: a.Max, Fraction: a.Fraction}, v, func() string { return name }, item.expr)
		if !v.IsWhollyKnown() {
			c.withhold(a.Name, key, whyUnknown(v))
			if a.Type.IsObjectType() {
				values[key] = cty.NullVal(t.WithoutOptionalAttributesDeep())
			}
			continue
		}
		values[key], _ = v.UnmarkDeep()
	}
	if a.Type.IsObjectType() {
		for _, key := range sortedKeys(a.Type.AttributeTypes()) {
			if _, ok := entries[key]; ok {
				continue
			}
			if !a.Type.AttributeOptional(key) {
				c.report.errorf(last.expr.Range(), c.block.address, "Wrong type", "%s lacks %s.", a.Name, key)
				good = false
			}
			values[key] = cty.NullVal(a.Type.AttributeType(key).WithoutOptionalAttributesDeep())
		}
	}
	if good {
		c.out.Attributes[a.Name] = collect(a.Type, values)
	}
}

// collect makes a map or an object of values that conform to t.
func collect(t cty.Type, values map[string]cty.Value) cty.Value {
	if !t.IsMapType() || t.ElementType().HasDynamicTypes() {
		return cty.ObjectVal(values)
	}
	return gather(t, values, nil)
}

func (c *computing) placed(attribute, key string, place, expr hcl.Range) {
	name := attribute
	if key != "" {
		name += "." + key
	}
	c.out.Origins[name] = originOf(place)
	c.places[name] = expr
}

func (c *computing) withhold(attribute, key string, u unknown, sets ...string) {
	w := plan.Withheld{Attribute: attribute, Key: key, Reason: u.Reason, Needs: u.Needs, Sets: sets}
	for _, s := range c.evaluation.out.Selections {
		if len(sets) > 0 && sets[0] == "selector."+s.Name {
			w.Expect = max(0, s.Want)
		}
	}
	c.out.Withheld = append(c.out.Withheld, w)
}

// few reports whether an argument has no more elements than one can have; block types
// compare them with each other.
func (c *computing) few(name string, n int, place hcl.Range) bool {
	if n <= maxInstances {
		return true
	}
	c.report.errorf(place, c.block.address, "Too many elements", "%s has %d elements; it can have %d.", name, n, maxInstances)
	return false
}

// elements is how many elements a collection has, 0 when v is none.
func elements(v cty.Value) int {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return 0
	}
	return v.LengthInt()
}

// mismatched reports the parts of the value called name that are of a wrong type; enum
// are the strings that are allowed, nil where all are.
func (c *computing) mismatched(wrong []mismatch, enum []string, name string, place hcl.Range) {
	for _, m := range wrong {
		if enum != nil && m.hint != "" {
			m.hint = "; it is one of " + strings.Join(enum, ", ")
		}
		c.report.errorf(place, c.block.address, "Wrong type", "%s.", m.under(name))
	}
}

// constrain holds the known strings and numbers of v against the attribute's bounds.
func (c *computing) constrain(a plan.Attribute, v cty.Value, name func() string, place hcl.Range) {
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown() || v.IsNull() || c.report.full():
	case v.Type() == cty.String && a.Enum != nil:
		c.constrainString(v.AsString(), a.Enum, name, place)
	case v.Type() == cty.Number:
		c.constrainNumber(a, v.AsBigFloat(), name, place)
	case v.CanIterateElements():
		i := -1
		for it := v.ElementIterator(); it.Next(); {
			i++
			key, element := it.Element()
			c.constrain(a, element, func() string {
				if key.Type() == cty.String && !v.Type().IsSetType() {
					return name() + step(key.AsString())
				}
				return fmt.Sprintf("%s[%d]", name(), i)
			}, place)
		}
	}
}

func (c *computing) constrainString(s string, enum []string, name func() string, place hcl.Range) {
	if !slices.Contains(enum, s) {
		c.report.errorf(place, c.block.address, "Value not allowed", "%s is %q; it is one of %s.%s",
			name(), s, strings.Join(enum, ", "), c.report.suggest(s, slices.Values(enum)))
	}
}

func (c *computing) constrainNumber(a plan.Attribute, n *big.Float, name func() string, place hcl.Range) {
	wrong := func(summary, want string) {
		c.report.errorf(place, c.block.address, summary, "%s is %s; it is %s.", name(), n.Text('g', 10), want)
	}
	switch {
	case n.IsInf() || !n.IsInt() && !a.Fraction && a.Type != cty.DynamicPseudoType:
		wrong("Value not allowed", "a whole number")
	case a.Min != nil && n.Cmp(new(big.Float).SetInt64(*a.Min)) < 0:
		wrong("Value out of range", fmt.Sprintf("%d at least", *a.Min))
	case a.Max != nil && n.Cmp(new(big.Float).SetInt64(*a.Max)) > 0:
		wrong("Value out of range", fmt.Sprintf("%d at most", *a.Max))
	}
}
