package node_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

// said is everything that a Value says.
type said struct {
	Value  any
	Known  bool
	Reason string
	Needs  string
	// Unsupported: IsUnsupported.
	Unsupported bool
	Source      node.Source
	Zero        bool
}

func say[T any](v node.Value[T]) said {
	value, known := v.Get()
	if known != v.IsKnown() {
		panic("Get and IsKnown disagree")
	}
	return said{value, known, v.Reason(), v.Needs(), v.IsUnsupported(), v.Source(), v.IsZero()}
}

func TestValue(t *testing.T) {
	source := node.Source{Path: "/etc/fstab", Line: 3}
	for _, tt := range []struct {
		name string
		v    node.Value[int]
		want said
		json string
		back said
	}{
		{
			"known", node.Known(7, source), said{Value: 7, Known: true, Source: source},
			`{"value":7,"source":{"path":"/etc/fstab","line":3}}`, said{Value: 7, Known: true, Source: source},
		},
		{
			"a known zero is known", node.Known(0, node.Source{}), said{Value: 0, Known: true},
			`{"value":0}`, said{Value: 0, Known: true},
		},
		{
			"unknown", node.Unknown[int]("permission denied", source), said{Value: 0, Reason: "permission denied", Source: source},
			`{"reason":"permission denied","source":{"path":"/etc/fstab","line":3}}`, said{Value: 0, Reason: "permission denied", Source: source},
		},
		{
			"awaiting", node.Awaiting[int]("no RDMA device", node.CapabilityRDMA, node.Source{Call: "netlink"}), said{Value: 0, Reason: "no RDMA device", Needs: "rdma-devices", Source: node.Source{Call: "netlink"}},
			`{"reason":"no RDMA device","needs":"rdma-devices","source":{"call":"netlink"}}`, said{Value: 0, Reason: "no RDMA device", Needs: "rdma-devices", Source: node.Source{Call: "netlink"}},
		},
		{
			"unsupported", node.Unsupported[int]("the driver has none", source), said{Value: 0, Reason: "the driver has none", Unsupported: true, Source: source},
			`{"reason":"the driver has none","unsupported":true,"source":{"path":"/etc/fstab","line":3}}`, said{Value: 0, Reason: "the driver has none", Unsupported: true, Source: source},
		},
		{
			"zero", node.Value[int]{}, said{Value: 0, Reason: "not recorded", Zero: true},
			`{"reason":"not recorded"}`, said{Value: 0, Reason: "not recorded"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, say(tt.v)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			text, err := json.Marshal(tt.v)
			if err != nil || string(text) != tt.json {
				t.Fatalf("written as %s, %v, want %s", text, err, tt.json)
			}
			back := node.Known(99, node.Source{Path: "/old"}) // nothing of the old value may stay
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.back, say(back)); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

// What others may write: nothing of it passes for a value, unless it is one.
func TestValueFromJSON(t *testing.T) {
	for text, want := range map[string]said{
		`null`:                           {Value: "", Reason: "not recorded", Zero: true},
		`{}`:                             {Value: "", Reason: "not recorded", Zero: true},
		`{"value":null}`:                 {Value: "", Reason: "not recorded", Zero: true},
		`{"value":null,"reason":"gone"}`: {Value: "", Reason: "gone"},
		`{"value":"a","source":null,"future":[]}`: {Value: "a", Known: true},
		`{"source":{}}`: {Value: "", Reason: "not recorded", Zero: true},
	} {
		v := node.Known("old", node.Source{Path: "/old"})
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, say(v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{`7`, `[]`, `{"value":7}`, `{"reason":7}`, `{"source":"/etc"}`, `{"value":"","reason":"x","needs":"y"}`, `{"value":"","unsupported":true}`} {
		v := node.Value[string]{}
		if err := json.Unmarshal([]byte(text), &v); err == nil || v.IsKnown() {
			t.Errorf("%s was read as %+v, %v", text, say(v), err)
		}
	}
}

// An unknown says the same of another type.
func TestUnknownLike(t *testing.T) {
	source := node.Source{Path: "/sys/class/net/eth0"}
	for _, v := range []node.Value[int]{
		{}, node.Unknown[int]("permission denied", source), node.Awaiting[int]("no RDMA device", node.CapabilityRDMA, source), node.Unsupported[int]("no DCB", source),
	} {
		want := say(v)
		want.Value, want.Zero = "", false
		if diff := cmp.Diff(want, say(node.UnknownLike[string](v))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A known list without elements stays known, however it was made.
func TestEmptyList(t *testing.T) {
	for _, list := range [][]string{nil, {}} {
		text, err := json.Marshal(node.Known(list, node.Source{}))
		if err != nil || string(text) != `{"value":[]}` {
			t.Errorf("written as %s, %v", text, err)
		}
		var back node.Value[[]string]
		if err := json.Unmarshal(text, &back); err != nil || !back.IsKnown() {
			t.Errorf("read back as %+v, %v", say(back), err)
		}
	}
}

func TestOmitZero(t *testing.T) {
	text, err := json.Marshal(struct {
		Forgotten node.Value[int] `json:"forgotten,omitzero"`
		Zero      node.Value[int] `json:"zero,omitzero"`
		Tried     node.Value[int] `json:"tried,omitzero"`
	}{Zero: node.Known(0, node.Source{}), Tried: node.Unknown[int]("", node.Source{Path: "/x"})})
	want := `{"zero":{"value":0},"tried":{"reason":"not recorded","source":{"path":"/x"}}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func TestMarshalError(t *testing.T) {
	if text, err := json.Marshal(node.Known(func() {}, node.Source{})); err == nil {
		t.Errorf("a function was written as %s", text)
	}
}

func TestSourceString(t *testing.T) {
	for want, s := range map[string]node.Source{
		"/etc/fstab:3": {Path: "/etc/fstab", Line: 3, Call: "open"},
		"/etc/fstab":   {Path: "/etc/fstab"},
		"uname":        {Call: "uname", Line: 3},
		"":             {},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
