package node

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// JSON that leaves a member out, or says null, decodes to the zero value of Go, and any number that fits its
// type is taken. What a Value holds must neither be silent on a member without omitempty or omitzero, nor
// break what its types say of themselves: the tag range of a field, "FIRST:LAST", of which
// LAST may be left out, and a method Check. A Value that does has no value. The range of a text is that of its
// length in bytes without white space around it; a member that must be there, or is a Value, is no empty text unless its tag says so.

// checked is what knows which values it can have.
type checked interface{ Check() error }

// confined is a Value as the tag range of its field sees it.
type confined interface{ confine(span string) }

var (
	checkedType         = reflect.TypeFor[checked]()
	confinedType        = reflect.TypeFor[confined]()
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
	textType            = reflect.TypeFor[Value[string]]()
)

// silence is the place in raw, which decodes to a t, where a member is null or left out that must have a value; empty
// without one. A list or map that is null is empty, as encoding/json writes one that is nil.
func silence(raw json.RawMessage, t reflect.Type) []string {
	shape := shapeOf(t)
	kind := t.Kind()
	switch {
	case shape.isValue:
		return nil
	case string(raw) == string(null):
		if kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer || kind == reflect.Interface {
			return nil
		}
		return []string{""}
	case shape.decodesItself:
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
		return silentMember(raw, shape.members, inside)
	case reflect.Slice, reflect.Array:
		var place []string
		i := 0
		elements(raw, func(element []byte) bool { // []byte is text and has none
			place = inside(strconv.Itoa(i), element, t.Elem())
			i++
			return place == nil
		})
		if place == nil && kind == reflect.Array && i < t.Len() {
			return []string{strconv.Itoa(i)}
		}
		return place
	case reflect.Map:
		var places [][]string
		members(raw, func(name, member []byte) bool {
			if place := inside(string(name), member, t.Elem()); place != nil {
				places = append(places, place)
			}
			return true
		})
		if len(places) > 0 {
			return slices.MinFunc(places, slices.Compare)
		}
	}
	return nil
}

// shape is how a type is decoded.
type shape struct {
	isValue       bool // a Value, which is told by itself
	decodesItself bool
	bounded       bool     // there are values that it or a part of it cannot have
	members       []member // of a struct
}

// member is a member of a struct's JSON.
type member struct {
	name      string
	required  bool // to be there
	omitempty bool
	span      string // the tag range
	index     int    // of the field
	t         reflect.Type
}

// shapes are those of all types that were decoded.
var shapes sync.Map

func shapeOf(t reflect.Type) shape {
	if known, ok := shapes.Load(t); ok {
		return known.(shape)
	}
	pointer := reflect.PointerTo(t)
	s := shape{
		isValue:       pointer.Implements(confinedType),
		decodesItself: pointer.Implements(jsonUnmarshalerType) || pointer.Implements(textUnmarshalerType),
	}
	s.bounded = t.Implements(checkedType)
	switch {
	case s.isValue:
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			inner := shapeOf(field.Type)
			m := member{name, options == "" && !inner.isValue, options == "omitempty", field.Tag.Get("range"), i, field.Type}
			if m.span == "" && (field.Type == textType || m.required && field.Type.Kind() == reflect.String) {
				m.span = "1:"
			}
			s.members = append(s.members, m)
			s.bounded = s.bounded || m.span != "" || inner.bounded
		}
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array, t.Kind() == reflect.Map:
		s.bounded = s.bounded || shapeOf(t.Elem()).bounded
	}
	shapes.Store(t, s)
	return s
}

func silentMember(raw json.RawMessage, wanted []member, inside func(string, json.RawMessage, reflect.Type) []string) []string {
	found := make([][]byte, len(wanted))
	exact := make([]bool, len(wanted))
	members(raw, func(name, value []byte) bool {
		for i, m := range wanted {
			same := string(name) == m.name
			if same || !exact[i] && strings.EqualFold(string(name), m.name) { // as encoding/json does
				found[i], exact[i] = value, same
			}
		}
		return true
	})
	for i, m := range wanted {
		switch {
		case found[i] != nil:
			if place := inside(m.name, found[i], m.t); place != nil {
				return place
			}
		case m.required:
			return []string{m.name}
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
	shape := shapeOf(v.Type())
	switch {
	case span == "" && !shape.bounded:
		return wrong{}
	case shape.isValue && v.CanAddr():
		v.Addr().Interface().(confined).confine(span)
		return wrong{}
	}
	switch {
	case v.Kind() == reflect.Struct:
		for _, m := range shape.members {
			inner := v.Field(m.index)
			if m.omitempty && inner.IsZero() {
				continue
			}
			if w := confine(inner, m.span); w.why != "" {
				return w.in(m.name)
			}
		}
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
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

// outside says that a number, or the length of a text, is not in the range that span writes; empty where it is.
func outside(v reflect.Value, span string) string {
	var n float64
	switch {
	case v.Kind() == reflect.String:
		n = float64(len(strings.TrimSpace(v.String())))
	case v.CanUint():
		n = float64(v.Uint())
	default:
		n = float64(v.Int())
	}
	first, last := bounds(span)
	switch {
	case first <= n && n <= last:
		return ""
	case v.Kind() == reflect.String:
		return "is empty"
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

// confine makes a Value unknown whose number or text is not in a range.
func (v *Value[T]) confine(span string) {
	if !v.known {
		return
	}
	if w := confine(reflect.ValueOf(&v.value).Elem(), span); w.why != "" {
		*v = Unknown[T](w.String(), v.source)
	}
}
