package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// JSON that leaves a member out, or says null, decodes to the zero value of Go, and any number that fits its
// type is taken. What a Value holds must neither be silent on a member without omitempty or omitzero, nor
// break what its types say of themselves: the tag range of a field, "FIRST:LAST", of which
// LAST may be left out, and a method Check. A Value that does has no value.

// checked is what knows which values it can have.
type checked interface{ Check() error }

// confined is a Value as the tag range of its field sees it.
type confined interface{ confine(span string) }

var (
	confinedType        = reflect.TypeFor[confined]()
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
)

// silence is the place in raw, which decodes to a t, where a member is null or left out that must have a value; empty
// without one. A list or map that is null is empty, as encoding/json writes one that is nil.
func silence(raw json.RawMessage, t reflect.Type) []string {
	pointer := reflect.PointerTo(t)
	kind := t.Kind()
	switch {
	case pointer.Implements(confinedType):
		return nil
	case string(raw) == string(null):
		if kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer || kind == reflect.Interface {
			return nil
		}
		return []string{""}
	case pointer.Implements(jsonUnmarshalerType) || pointer.Implements(textUnmarshalerType):
		return nil
	}
	inside := func(name string, raw json.RawMessage, t reflect.Type) []string {
		if place := silence(raw, t); place != nil {
			return append([]string{name}, place...)
		}
		return nil
	}
	switch kind {
	case reflect.Struct:
		return silentMember(raw, t, inside)
	case reflect.Slice, reflect.Array:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil // []byte, which is text
		}
		for i, element := range list {
			if place := inside(strconv.Itoa(i), element, t.Elem()); place != nil {
				return place
			}
		}
		if kind == reflect.Array && len(list) < t.Len() {
			return []string{strconv.Itoa(len(list))}
		}
	case reflect.Map:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if place := inside(name, members[name], t.Elem()); place != nil {
				return place
			}
		}
	}
	return nil
}

func silentMember(raw json.RawMessage, t reflect.Type, inside func(string, json.RawMessage, reflect.Type) []string) []string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		member, there := members[name]
		for other := range members { // as encoding/json does
			if !there && strings.EqualFold(other, name) {
				member, there = members[other], true
			}
		}
		if !there {
			if options == "" && !reflect.PointerTo(field.Type).Implements(confinedType) {
				return []string{name}
			}
			continue
		}
		if place := inside(name, member, field.Type); place != nil {
			return place
		}
	}
	return nil
}

// wrong is what cannot be, with its place in a value; the zero wrong is nothing.
type wrong struct {
	place []string
	why   string
}

// String completes the sentence "unknown: ...".
func (w wrong) String() string {
	if len(w.place) == 0 {
		return "it " + w.why
	}
	return strings.Join(w.place, ".") + " " + w.why
}

func (w wrong) in(name string) wrong { return wrong{append([]string{name}, w.place...), w.why} }

// confine makes the Values in v unknown that lie outside of the range that their fields' tags say. It returns what
// of v itself cannot be: a number that is no Value lies outside of its range, or a Check fails.
func confine(v reflect.Value, span string) wrong {
	if v.CanAddr() {
		if value, ok := v.Addr().Interface().(confined); ok {
			if span != "" {
				value.confine(span)
			}
			return wrong{}
		}
	}
	switch {
	case v.Kind() == reflect.Struct:
		for field, inner := range v.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || options == "omitempty" && inner.IsZero() {
				continue
			}
			if w := confine(inner, field.Tag.Get("range")); w.why != "" {
				return w.in(name)
			}
		}
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		if span == "" && v.Type().Elem().Kind() != reflect.Struct {
			return wrong{}
		}
		for i := range v.Len() {
			if w := confine(v.Index(i), span); w.why != "" {
				return w.in(strconv.Itoa(i))
			}
		}
	case v.Kind() == reflect.Map:
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			if w := confine(v.MapIndex(name), span); w.why != "" {
				return w.in(name.String())
			}
		}
	case span != "":
		return wrong{why: outside(v, span)}
	}
	if c, ok := v.Interface().(checked); ok {
		if err := c.Check(); err != nil {
			return wrong{why: "cannot be: " + err.Error()}
		}
	}
	return wrong{}
}

// outside says that a number is not in the range that span writes; empty where it is.
func outside(v reflect.Value, span string) string {
	var n float64
	if v.CanUint() {
		n = float64(v.Uint())
	} else {
		n = float64(v.Int())
	}
	first, last := bounds(span)
	switch {
	case first <= n && n <= last:
		return ""
	case math.IsInf(last, 1):
		return fmt.Sprintf("is %v and must be at least %.f", v, first)
	default:
		return fmt.Sprintf("is %v and must be from %.f to %.f", v, first, last)
	}
}

// bounds are the ends of a range as a tag writes it.
func bounds(span string) (first, last float64) {
	low, high, _ := strings.Cut(span, ":")
	first, _ = strconv.ParseFloat(low, 64)
	last, err := strconv.ParseFloat(high, 64)
	if err != nil {
		last = math.Inf(1)
	}
	return first, last
}

// confine makes a Value unknown whose number is not in a range.
func (v *Value[T]) confine(span string) {
	if !v.known {
		return
	}
	if w := confine(reflect.ValueOf(&v.value).Elem(), span); w.why != "" {
		*v = Unknown[T](w.String(), v.source)
	}
}
