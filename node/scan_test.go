package node_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/node/example"
)

// FuzzScan holds what cuts valid JSON into its parts to what encoding/json finds in it.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		`{"a": 1, "b" : [true, null, "x"], "c": {"d": {}}}`, `[]`, `{}`, ` [ 1 , -2.5e3 ,"a\"]b" , {"x":"}"} ] `, `"\\"`, `"a\\\"b"`, `null`,
		`{"\u0061":1,"a b":"\\","é":"ü"}`, `[[[1],[2]],{"a":[{}]}]`, `{"a":1,"a":2}`, "{\"a\"\t:\r\n1}", `{"value":{"x":1},"source":{"path":"/a","line":3}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil && list != nil {
			var got []string
			node.Elements(data, func(value []byte) bool { got = append(got, string(value)); return true })
			var want []string
			for _, element := range list {
				want = append(want, string(element))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("elements of %q (-want +got):\n%s", data, diff)
			}
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) == nil && object != nil {
			got := map[string]string{}
			node.Members(data, func(name, value []byte) bool { got[string(name)] = string(value); return true })
			want := map[string]string{}
			for name, member := range object {
				want[name] = string(member)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("members of %q (-want +got):\n%s", data, diff)
			}
		}
		var text, plain string
		if node.PlainScalar(bytes.TrimSpace(data), &plain) && (json.Unmarshal(data, &text) != nil || text != plain) {
			t.Errorf("%q is %q, not %q", data, text, plain)
		}
		var number, whole int
		if node.PlainScalar(bytes.TrimSpace(data), &whole) && (json.Unmarshal(data, &number) != nil || number != whole) {
			t.Errorf("%q is %d, not %d", data, number, whole)
		}
	})
}

// What has a shape that is unusual is read as what has the usual one.
func TestUnusualShapes(t *testing.T) {
	want := node.Known("a", node.Source{Path: "/b", Line: 3})
	for _, text := range []string{
		`{"value":"a","source":{"path":"/b","line":3}}`, `{"VALUE":"a","Source":{"path":"/b","LINE":3}}`, `{"value":"\u0061","source":{"path":"\/b","line":3}}`,
		`{"value":"a","reason":null,"unsupported":false,"source":{"path":"/b","line":3,"new":1},"new":[{}]}`, ` { "source" : { "line" : 3 , "path" : "/b" } , "value" : "a" } `,
	} {
		var v node.Value[string]
		if err := json.Unmarshal([]byte(text), &v); err != nil || v != want {
			t.Errorf("%s is %v, %v", text, v, err)
		}
	}
}

// Arrays are whole if and only if they are valid where their elements are; objects that are valid are whole.
func FuzzWhole(f *testing.F) {
	for _, text := range []string{
		"[]", "{}", " [ ] ", "[1,2] ", `{"a":1,"b":[]}`, "[,1]", "[1,]", "[1 2]", "[1]]", "[1", "[", `{"a":1,}`, `{,"a":1}`, `{"a" 1}`, `{"a":}`, `{"a":1 "b":2}`, `{"a":1}x`, `{"a`, `{"a":"`,
		`{"a":1]`, "[1}", "[[1]", `{1:2}`, "[1]\x00", "[}", `{"\x":1}`, `["\`, `["a\"]`, "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		trimmed := bytes.TrimLeft(data, " \t\r\n")
		valid := true
		whole := node.Elements(data, func(value []byte) bool { valid = valid && json.Valid(value); return true })
		if want := bytes.HasPrefix(trimmed, []byte("[")) && json.Valid(data); want != (whole && valid) {
			t.Errorf("%q: elements are whole: %v, and valid: %v", data, whole, valid)
		}
		whole = node.Members(data, func(_, _ []byte) bool { return true })
		if bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(data) && !whole {
			t.Errorf("%q: members are not whole", data)
		}
	})
}

// A recording in its usual form, its answers apart, gives the facts that it gives when it is read as a whole.
func TestPlainRecordings(t *testing.T) {
	var d node.Decoder
	for _, name := range example.Names() {
		for range 2 {
			text := []byte(recorded(t, name))
			got, plain := d.PlainRecording(text)
			want, err := node.AnyRecording(text)
			if !plain || err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: plain %v, %v", name, plain, err)
			}
		}
	}
}

// FuzzPlainRecording: whatever is taken for a recording in its usual form is read as it is as a whole.
func FuzzPlainRecording(f *testing.F) {
	const head, answers = `{"format_version":"1.0","observed_at":"2026-03-02T08:15:00Z","inventory":{"hostname":"a"}`, `[{"kind":"sysctl","key":"a","value":"1"},{"kind":"new","value":[7]}]`
	for _, text := range []string{
		head + `,"answers":` + answers + `}`, head + `,"answers":` + answers + `} `, head + `,"answers":[{"kind":"sysctl","key":"a","value":"1"}]}`, head + `,"answers":` + answers, head + `}`,
		head + `,"answers":` + answers + `,"Answers":[]}`, head + `,"Answers":` + answers + `}`, head + `,"an\u0073wers":[],"answers":` + answers + `}`, head + `,"an\u017fwers":[null],"answers":` + answers + `}`,
		head + `,"answers":null}`, head + `,"answers":{}}`, head + `,"answers":[null,{"kind":"sysctl","new":1,"value":"x"}]}`, head + `,"answers":[{"kind":"sysctl","value":7}]}`,
		head + `,"answers":[{"kind":"sysctl"},{"kind":"sysctl"}]}`, head + `,"answers":[{"kind":"new"},{"kind":"new"}],"more":1}`, head + `,"answers":[],"format_version":"2.0"}`, head + `,"answers":[{"kind":"new",}]}`,
		head + `,"answers":[],"command":"plan"}`, `[` + head + `,"answers":[]}]`, head + `,"answers":[{"kind":"sysctl","key":"a","value":"1"} {"kind":"sysctl","key":"b","value":"1"}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d node.Decoder
		for range 2 {
			got, plain := d.PlainRecording(text)
			if want, err := node.AnyRecording(text); plain && (err != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
