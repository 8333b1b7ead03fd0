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
}

// under is the mismatch as a sentence without its full stop, in the value called name.
func (m mismatch) under(name string) string { return name + m.path + " " + m.message }

// conform converts v to want without loss. Lists, sets, maps and objects convert to
// each other; strings, numbers and bools never do.
func conform(v cty.Value, want cty.Type) (cty.Value, []mismatch) {
	if found := mismatches(v, want, ""); len(found) > 0 {
		return cty.NilVal, found
	}
	// Elements of any type keep the types that they have.
	if want.HasDynamicTypes() {
		return v, nil
	}
	out, err := convert.Convert(v, want)
	if err != nil {
		return cty.NilVal, []mismatch{{"", "is unsuitable: " + err.Error()}}
	}
	return out, nil
}

func mismatches(v cty.Value, want cty.Type, path string) []mismatch {
	v, _ = v.Unmark()
	have := v.Type()
	wrong := func(hint string) []mismatch {
		return []mismatch{{path, fmt.Sprintf("is %s where %s is wanted%s", describe(have), describe(want), hint)}}
	}
	switch {
	case have == cty.DynamicPseudoType && !v.IsKnown():
		return nil
	case v.IsNull():
		return []mismatch{{path, "is null; leave it out instead"}}
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
		return sequenceMismatches(v, want, path)
	case want.IsMapType():
		if !have.IsMapType() && !have.IsObjectType() {
			return wrong("")
		}
		return mapMismatches(v, want.ElementType(), path)
	case want.IsObjectType():
		switch {
		case have.IsObjectType():
			return objectMismatches(v, want, path)
		case have.IsMapType():
			return nil // convert tells about missing keys
		}
		return wrong("")
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

func sequenceMismatches(v cty.Value, want cty.Type, path string) []mismatch {
	element := want.ElementType()
	if !v.IsKnown() {
		if v.Type().IsTupleType() {
			return nil
		}
		return mismatches(cty.UnknownVal(v.Type().ElementType()), element, path+"[...]")
	}
	var out []mismatch
	seen := map[string]bool{}
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		_, e := it.Element()
		out = append(out, mismatches(e, element, fmt.Sprintf("%s[%d]", path, i))...)
		e, _ = e.Unmark()
		if want.IsSetType() && e.IsKnown() && !e.IsNull() && e.Type() == cty.String {
			if seen[e.AsString()] {
				out = append(out, mismatch{path, fmt.Sprintf("has %q twice", e.AsString())})
			}
			seen[e.AsString()] = true
		}
	}
	return out
}

func mapMismatches(v cty.Value, element cty.Type, path string) []mismatch {
	if !v.IsKnown() {
		if v.Type().IsMapType() {
			return mismatches(cty.UnknownVal(v.Type().ElementType()), element, path+"[...]")
		}
		return nil
	}
	var out []mismatch
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		out = append(out, mismatches(e, element, path+step(key.AsString()))...)
	}
	return out
}

func objectMismatches(v cty.Value, want cty.Type, path string) []mismatch {
	have := v.Type()
	var out []mismatch
	names := sortedKeys(want.AttributeTypes())
	for _, name := range names {
		optional := want.AttributeOptional(name)
		switch {
		case !have.HasAttribute(name) && !optional:
			out = append(out, mismatch{path, "lacks " + name})
		case !have.HasAttribute(name), !v.IsKnown():
		default:
			e := v.GetAttr(name)
			if optional && e.IsNull() {
				continue
			}
			out = append(out, mismatches(e, want.AttributeType(name), path+step(name))...)
		}
	}
	// What the node offers may have more than is wanted; what is written may not.
	if t := nodeTypes(); have.Equals(t.nic) || have.Equals(t.gpu) {
		return out
	}
	for _, name := range sortedKeys(have.AttributeTypes()) {
		if !want.HasAttribute(name) {
			missing := slices.DeleteFunc(slices.Clone(names), have.HasAttribute)
			out = append(out, mismatch{path, fmt.Sprintf("has no attribute %q%s", name, strings.TrimSuffix(strings.Replace(suggest(name, missing), " Did", "; did", 1), "?"))})
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
