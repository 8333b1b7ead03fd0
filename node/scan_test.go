package node_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
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
