package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Source says where a fact was read.
type Source struct {
	// Path of a file on the node, never prefixed by a root directory.
	Path string `json:"path,omitempty"`
	// Call names what answered when it was no file (a D-Bus property, a system call).
	Call string `json:"call,omitempty"`
	// Line in Path, from 1; 0 when the whole file is meant.
	Line int `json:"line,omitempty"`
}

// String is the source as people write it: PATH:LINE or the call.
func (s Source) String() string {
	switch {
	case s.Path != "" && s.Line > 0:
		return fmt.Sprintf("%s:%d", s.Path, s.Line)
	case s.Path != "":
		return s.Path
	default:
		return s.Call
	}
}

// notRecorded is the reason of the zero Value.
const notRecorded = "not recorded"

// Value is a fact, or the reason why there is none. The zero Value is unknown
// ("not recorded"): what was forgotten never passes for a value.
type Value[T any] struct {
	value       T
	known       bool
	reason      string
	needs       string
	unsupported bool
	source      Source
}

// Known is a fact that was read from source.
func Known[T any](v T, source Source) Value[T] {
	return Value[T]{value: v, known: true, source: source}
}

// Unknown says why a fact could not be read. The reason completes the sentence
// "unknown: ...".
func Unknown[T any](reason string, source Source) Value[T] {
	return Value[T]{reason: reason, source: source}
}

// Awaiting is an unknown that becomes known once something provides needs, one
// of the capabilities that steps provide (see the Capability constants).
func Awaiting[T any](reason, needs string, source Source) Value[T] {
	return Value[T]{reason: reason, needs: needs, source: source}
}

// Unsupported is a fact that there is not: the driver, the device or the kernel has no such setting,
// as far as it says. Whoever does not ask IsUnsupported sees an unknown. The reason completes the
// sentence "unsupported: ...".
func Unsupported[T any](reason string, source Source) Value[T] {
	return Value[T]{reason: reason, unsupported: true, source: source}
}

// UnknownLike is an unknown of another type for the same reason: v's own with all it says. Of a
// known v there is none.
func UnknownLike[T, U any](v Value[U]) Value[T] {
	return Value[T]{reason: v.Reason(), needs: v.needs, unsupported: v.unsupported, source: v.source}
}

// Get returns the fact, and false when it is unknown.
func (v Value[T]) Get() (T, bool) { return v.value, v.known }

// IsKnown reports whether there is a fact.
func (v Value[T]) IsKnown() bool { return v.known }

// Reason says why the fact is unknown; it is empty for a known fact.
func (v Value[T]) Reason() string {
	switch {
	case v.known:
		return ""
	case v.reason == "":
		return notRecorded
	default:
		return v.reason
	}
}

// Needs is the capability that would make an unknown known, or empty.
func (v Value[T]) Needs() string { return v.needs }

// IsUnsupported reports whether there is no fact because there is no such setting.
func (v Value[T]) IsUnsupported() bool { return v.unsupported }

// Source says where the fact was read, or where reading it failed.
func (v Value[T]) Source() Source { return v.source }

// IsZero makes an unrecorded Value vanish from JSON with the omitzero option.
func (v Value[T]) IsZero() bool {
	return !v.known && v.reason == "" && v.needs == "" && !v.unsupported && v.source == Source{}
}

// valueJSON is the recorded form: a value, or the reason for its absence.
type valueJSON struct {
	Value       json.RawMessage `json:"value,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Needs       string          `json:"needs,omitempty"`
	Unsupported bool            `json:"unsupported,omitempty"`
	Source      *Source         `json:"source,omitempty"`
}

// errValueAndReason: what is known has no reason to be unknown.
var errValueAndReason = errors.New("it holds both a value and the reason why there is none")

// null is JSON's.
var null = []byte("null")

// MarshalJSON writes {"value", "source"} or {"reason", "needs", "unsupported", "source"}.
func (v Value[T]) MarshalJSON() ([]byte, error) {
	out := valueJSON{Needs: v.needs, Unsupported: v.unsupported}
	if v.source != (Source{}) {
		out.Source = &v.source
	}
	if !v.known {
		out.Reason = v.Reason()
		return json.Marshal(out)
	}
	raw, err := json.Marshal(v.value)
	if err != nil {
		return nil, err
	}
	if reflect.TypeFor[T]().Kind() == reflect.Slice && bytes.Equal(raw, null) {
		raw = []byte("[]") // a nil list is an empty one, and known
	}
	out.Value = raw
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. A null value is no value, and neither is one in which something
// is left out or null that must be said, or is out of range.
func (v *Value[T]) UnmarshalJSON(data []byte) error {
	in, plain := plainValue(data)
	if !plain {
		in = valueJSON{}
		if err := json.Unmarshal(data, &in); err != nil {
			return err
		}
	}
	return v.decode(in)
}

// decode reads a recorded form.
func (v *Value[T]) decode(in valueJSON) error {
	*v = Value[T]{reason: in.Reason, needs: in.Needs, unsupported: in.Unsupported}
	if in.Source != nil {
		v.source = *in.Source
	}
	if len(in.Value) == 0 || bytes.Equal(in.Value, null) {
		return nil
	}
	if in.Reason != "" || in.Unsupported {
		return errValueAndReason
	}
	var value T
	if plainScalar(in.Value, &value) {
		*v = Known(value, v.source)
		return nil
	}
	err := json.Unmarshal(in.Value, &value)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		wrong.Field = strings.TrimSuffix("value."+wrong.Field, ".")
	}
	if err != nil {
		return err
	}
	if place := silence(in.Value, reflect.TypeFor[T]()); place != nil {
		*v = Unknown[T]("the recording says nothing of "+strings.TrimSuffix(strings.Join(place, "."), "."), v.source)
		return nil
	}
	if w := confine(reflect.ValueOf(&value).Elem(), ""); w.why != "" {
		*v = Unknown[T](w.String(), v.source)
		return nil
	}
	*v = Known(value, v.source)
	return nil
}
