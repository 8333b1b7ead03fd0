package profiles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// mismatch is a part of a value that is not of the type wanted.
type mismatch struct {
	path    string // ".dscp", "[0]", empty for the value
	message string // completes a sentence whose subject is the part
	hint    string // how to write it, or empty
}

// under is the mismatch as a sentence without its full stop, in the value called name.
func (m mismatch) under(name string) string { return name + m.path + " " + m.message + m.hint }

// maxMismatches is how many mismatches of one value are looked for.
const maxMismatches = 16

// in puts mismatches of an element behind those of the others.
func in(out, element []mismatch, step func() string) []mismatch {
	for _, m := range element {
		m.path = step() + m.path
		out = append(out, m)
	}
	return out
}

// conform converts v to want without loss. Lists, sets, maps and objects convert to
// each other; strings, numbers and bools never do.
func conform(v cty.Value, want cty.Type) (cty.Value, []mismatch) {
	if found := mismatches(v, want); len(found) > 0 {
		return cty.NilVal, found
	}
	// Elements of any type keep the types that they have.
	if want.HasDynamicTypes() {
		return v, nil
	}
	out, err := as(v, want)
	if err != nil {
		return cty.NilVal, []mismatch{{message: "is unsuitable: " + err.Error()}}
	}
	return out, nil
}

// as converts v to a type that it has no mismatch with. Element by element, where
// convert.Convert compares the types of all elements with each other.
func as(v cty.Value, want cty.Type) (cty.Value, error) {
	v, marks := v.Unmark()
	have := v.Type()
	whole := !v.IsKnown() || v.IsNull() || !v.CanIterateElements()
	if whole || !want.IsCollectionType() && (!want.IsObjectType() || !have.IsObjectType()) {
		out, err := convert.Convert(v, want)
		return out.WithMarks(marks), err
	}
	attributes := map[string]cty.Value{}
	if want.IsObjectType() {
		for name, t := range want.AttributeTypes() {
			attributes[name] = cty.NullVal(t.WithoutOptionalAttributesDeep())
		}
	}
	var elements []cty.Value
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		var t cty.Type
		switch {
		case want.IsCollectionType():
			t = want.ElementType()
		case want.HasAttribute(key.AsString()):
			t = want.AttributeType(key.AsString())
		default:
			continue // a NIC or GPU has more than is wanted
		}
		e, err := as(e, t)
		if err != nil {
			return cty.NilVal, err
		}
		if want.IsMapType() || want.IsObjectType() {
			attributes[key.AsString()] = e
		} else {
			elements = append(elements, e)
		}
	}
	return gather(want, attributes, elements).WithMarks(marks), nil
}

// gather makes an object or a collection of what conforms to its type.
func gather(t cty.Type, attributes map[string]cty.Value, elements []cty.Value) cty.Value {
	switch {
	case t.IsObjectType():
		return cty.ObjectVal(attributes)
	case t.IsMapType() && len(attributes) > 0:
		return cty.MapVal(attributes)
	case t.IsMapType():
		return cty.MapValEmpty(t.ElementType().WithoutOptionalAttributesDeep())
	case t.IsSetType() && len(elements) > 0:
		return cty.SetVal(elements)
	case t.IsSetType():
		return cty.SetValEmpty(t.ElementType().WithoutOptionalAttributesDeep())
	case len(elements) > 0:
		return cty.ListVal(elements)
	default:
		return cty.ListValEmpty(t.ElementType().WithoutOptionalAttributesDeep())
	}
}

func mismatches(v cty.Value, want cty.Type) []mismatch {
	v, _ = v.Unmark()
	have := v.Type()
	wrong := func(hint string) []mismatch {
		return []mismatch{{message: fmt.Sprintf("is %s where %s is wanted", describe(have), describe(want)), hint: hint}}
	}
	switch {
	case have == cty.DynamicPseudoType && !v.IsKnown():
		return nil
	case v.IsNull():
		return []mismatch{{message: "is null; leave it out instead"}}
	case want == cty.DynamicPseudoType:
		return nil
	case want.IsPrimitiveType():
		if have != want {
			return wrong(primitiveHint(v, want))
		}
		return nil
	case want.IsListType() || want.IsSetType():
		if !have.IsListType() && !have.IsSetType() && !have.IsTupleType() {
			return wrong("")
		}
		return sequenceMismatches(v, want)
	case want.IsMapType():
		if !have.IsMapType() && !have.IsObjectType() {
			return wrong("")
		}
		return mapMismatches(v, want.ElementType())
	case want.IsObjectType():
		switch {
		case have.IsObjectType():
			return objectMismatches(v, want)
		case have.IsMapType():
			return nil // convert tells about missing keys
		}
		return wrong(objectHint(want))
	case want.IsTupleType():
		if !have.IsTupleType() && !have.IsListType() {
			return wrong("")
		}
	}
	return nil
}

func primitiveHint(v cty.Value, want cty.Type) string {
	switch {
	case !v.IsKnown():
		return ""
	case v.Type() == cty.String && want != cty.String:
		if _, err := convert.Convert(v, want); err == nil {
			return fmt.Sprintf("; write %s without quotes", v.AsString())
		}
	case v.Type().IsPrimitiveType() && want == cty.String:
		if s, err := convert.Convert(v, cty.String); err == nil {
			return fmt.Sprintf("; write %q with quotes", s.AsString())
		}
	}
	return ""
}

// objectHint shows an object with what it has to have.
func objectHint(t cty.Type) string {
	var needed []string
	for _, name := range sortedKeys(t.AttributeTypes()) {
		example := map[cty.Type]string{cty.String: `"..."`, cty.Number: "0", cty.Bool: "true"}[t.AttributeType(name)]
		if !t.AttributeOptional(name) && example != "" {
			needed = append(needed, name+" = "+example)
		}
	}
	if len(needed) == 0 {
		return ""
	}
	return fmt.Sprintf("; write { %s }", strings.Join(needed, ", "))
}

func sequenceMismatches(v cty.Value, want cty.Type) []mismatch {
	element := want.ElementType()
	if !v.IsKnown() {
		if v.Type().IsTupleType() {
			return nil
		}
		return in(nil, mismatches(cty.UnknownVal(v.Type().ElementType()), element), anyElement)
	}
	var out []mismatch
	seen := map[string]bool{}
	i := -1
	for it := v.ElementIterator(); it.Next() && len(out) < maxMismatches; {
		i++
		_, e := it.Element()
		out = in(out, mismatches(e, element), func() string { return fmt.Sprintf("[%d]", i) })
		e, _ = e.Unmark()
		if want.IsSetType() && e.IsKnown() && !e.IsNull() && e.Type() == cty.String {
			if seen[e.AsString()] {
				out = append(out, mismatch{message: fmt.Sprintf("has %q twice", e.AsString())})
			}
			seen[e.AsString()] = true
		}
	}
	return out
}

func anyElement() string { return "[...]" }

func mapMismatches(v cty.Value, element cty.Type) []mismatch {
	if !v.IsKnown() {
		if v.Type().IsMapType() {
			return in(nil, mismatches(cty.UnknownVal(v.Type().ElementType()), element), anyElement)
		}
		return nil
	}
	var out []mismatch
	for it := v.ElementIterator(); it.Next() && len(out) < maxMismatches; {
		key, e := it.Element()
		out = in(out, mismatches(e, element), func() string { return step(key.AsString()) })
	}
	return out
}

func objectMismatches(v cty.Value, want cty.Type) []mismatch {
	have := v.Type()
	var out []mismatch
	names := sortedKeys(want.AttributeTypes())
	for _, name := range names {
		optional := want.AttributeOptional(name)
		switch {
		case !have.HasAttribute(name) && !optional:
			out = append(out, mismatch{message: "lacks " + name})
		case !have.HasAttribute(name), !v.IsKnown():
		default:
			e := v.GetAttr(name)
			if optional && e.IsNull() {
				continue
			}
			out = in(out, mismatches(e, want.AttributeType(name)), func() string { return step(name) })
		}
	}
	// What the node offers may have more than is wanted; what is written may not.
	if t := nodeTypes(); have.Equals(t.nic) || have.Equals(t.gpu) {
		return out
	}
	for _, name := range sortedKeys(have.AttributeTypes()) {
		if !want.HasAttribute(name) && len(out) < maxMismatches {
			missing := slices.DeleteFunc(slices.Clone(names), have.HasAttribute)
			hint := strings.TrimSuffix(strings.Replace(suggest(name, slices.Values(missing)), " Did", "; did", 1), "?")
			out = append(out, mismatch{message: fmt.Sprintf("has no attribute %q", name) + hint})
		}
	}
	return out
}

// step is a key as it follows a path: .key or ["key"].
func step(key string) string {
	if hclsyntax.ValidIdentifier(key) {
		return "." + key
	}
	return fmt.Sprintf("[%q]", key)
}

// describe names a type with its article.
func describe(t cty.Type) string {
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "a bool"
	case t.IsListType() && t.ElementType().IsPrimitiveType():
		return fmt.Sprintf("a list of %ss", t.ElementType().FriendlyName())
	case t.IsSetType() && t.ElementType().IsPrimitiveType():
		return fmt.Sprintf("a set of %ss", t.ElementType().FriendlyName())
	case t.IsListType(), t.IsTupleType():
		return "a list"
	case t.IsSetType():
		return "a set"
	case t.IsMapType():
		return "a map"
	case t.IsObjectType():
		return "an object"
	case t == cty.DynamicPseudoType:
		return "anything"
	}
	return "a " + typeexpr.TypeString(t)
}
