package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func sysctl(name, value string) node.Answer {
	return node.Sysctl.Answer(name, node.Known(value, node.Source{Path: "/proc/sys/" + name}))
}

func value[T any](v node.Value[T]) T {
	t, _ := v.Get()
	return t
}

func TestFactsGet(t *testing.T) {
	f := node.NewFacts(node.Inventory{Hostname: "a"}, noon, []node.Answer{
		sysctl("vm.a", "1"),
		node.File.Answer("/etc/x", node.Unknown[node.FileState]("permission denied", node.Source{Path: "/etc/x"})),
		node.AnswerTo(node.CommandLine.Query(""), node.Known("quiet", node.Source{})),
	})
	for query, got := range map[string]said{
		"answered":       say(node.Sysctl.Get(f, "vm.a")),
		"by query":       say(node.Get[string](f, node.Query{Kind: "sysctl", Key: "vm.a"})),
		"AnswerTo":       say(node.CommandLine.Get(f, "")),
		"unknown":        say(node.File.Get(f, "/etc/x")),
		"another key":    say(node.Sysctl.Get(f, "vm.b")),
		"another kind":   say(node.Path.Get(f, "vm.a")),
		"another type":   say(node.Get[int](f, node.Sysctl.Query("vm.a"))),
		"nothing at all": say(node.Sysctl.Get(node.Facts{}, "vm.a")),
	} {
		want := map[string]said{
			"answered":     {Value: "1", Known: true, Source: node.Source{Path: "/proc/sys/vm.a"}},
			"by query":     {Value: "1", Known: true, Source: node.Source{Path: "/proc/sys/vm.a"}},
			"AnswerTo":     {Value: "quiet", Known: true},
			"unknown":      {Value: node.FileState{}, Reason: "permission denied", Source: node.Source{Path: "/etc/x"}},
			"another kind": {Value: node.PathState{}, Reason: "not recorded", Zero: true},
			"another type": {Value: 0, Reason: "not recorded", Zero: true},
		}
		w, ok := want[query]
		if !ok {
			w = said{Value: "", Reason: "not recorded", Zero: true}
		}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestRestrict(t *testing.T) {
	all := node.NewFacts(node.Inventory{}, noon, []node.Answer{sysctl("vm.a", "1"), sysctl("vm.b", "2")})
	f := all.Restrict([]node.Query{node.Sysctl.Query("vm.a"), node.Sysctl.Query("vm.c")})
	for name, want := range map[string]said{
		"vm.a": {Value: "1", Known: true, Source: node.Source{Path: "/proc/sys/vm.a"}},
		"vm.b": {Value: "", Reason: "sysctl:vm.b was read without having been asked for"},
		"vm.c": {Value: "", Reason: "not recorded", Zero: true},
	} {
		if diff := cmp.Diff(want, say(node.Sysctl.Get(f, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if v := node.Sysctl.Get(all, "vm.b"); !v.IsKnown() {
		t.Errorf("the facts themselves were restricted: %s", v.Reason())
	}
	if v := node.Sysctl.Get(all.Restrict(nil), "vm.a"); v.IsKnown() {
		t.Error("who asks for nothing sees an answer")
	}
	if v := node.Sysctl.Get(f.With(sysctl("vm.b", "3")), "vm.b"); v.IsKnown() {
		t.Error("With lifted the restriction")
	}
	if v := node.Sysctl.Get(f.Restrict([]node.Query{node.Sysctl.Query("vm.b")}), "vm.b"); value(v) != "2" {
		t.Errorf("a second restriction: %+v", say(v))
	}
}

// Facts are immutable: what is made of them leaves them as they were.
func TestFactsImmutable(t *testing.T) {
	old := node.NewFacts(node.Inventory{Hostname: "old"}, noon, []node.Answer{sysctl("vm.b", "2"), sysctl("vm.a", "1")})
	with := old.With(sysctl("vm.a", "7"), sysctl("vm.c", "3"))
	merged := old.Merge(with)
	renamed := with.WithInventory(node.Inventory{Hostname: "new"})
	queries := old.Queries()
	if want := []node.Query{{Kind: "sysctl", Key: "vm.a"}, {Kind: "sysctl", Key: "vm.b"}}; !slices.Equal(queries, want) {
		t.Errorf("Queries are %v, want %v", queries, want)
	}
	queries[0] = node.Query{Kind: "x"}
	for _, tt := range []struct {
		name    string
		f       node.Facts
		host    string
		a, b, c string
	}{
		{"old", old, "old", "1", "2", ""},
		{"with", with, "old", "7", "2", "3"},
		{"merged", merged, "old", "7", "2", "3"},
		{"inventory", renamed, "new", "7", "2", "3"},
		{"with nothing", old.With(), "old", "1", "2", ""},
		{"merged with nothing", old.Merge(node.Facts{}), "old", "1", "2", ""},
		{"nothing with", node.Facts{}.With(sysctl("vm.a", "1")), "", "1", "", ""},
		{"nothing merged", node.Facts{}.Merge(old), "", "1", "2", ""},
		{"nothing", node.Facts{}, "", "", "", ""},
	} {
		got := [4]string{tt.f.Inventory.Hostname}
		for i, name := range []string{"vm.a", "vm.b", "vm.c"} {
			got[i+1] = value(node.Sysctl.Get(tt.f, name))
		}
		if want := [4]string{tt.host, tt.a, tt.b, tt.c}; got != want {
			t.Errorf("%s: %q, want %q", tt.name, got, want)
		}
		if tt.host != "" && !tt.f.ObservedAt.Equal(noon) {
			t.Errorf("%s: observed at %s", tt.name, tt.f.ObservedAt)
		}
	}
}

func TestRaw(t *testing.T) {
	f := node.NewFacts(node.Inventory{}, noon, []node.Answer{sysctl("vm.a", "1")})
	if v, ok := f.Raw(node.Sysctl.Query("vm.a")).(node.Value[string]); !ok || value(v) != "1" {
		t.Errorf("Raw is %#v", f.Raw(node.Sysctl.Query("vm.a")))
	}
	if raw := f.Raw(node.Sysctl.Query("vm.b")); raw != nil {
		t.Errorf("Raw of what was not asked is %#v", raw)
	}
}

func TestQuery(t *testing.T) {
	queries := []node.Query{node.Unit.Query("b"), node.Sysctl.Query("z"), node.Unit.Query("a"), node.Boot.Query("")}
	slices.SortFunc(queries, node.CompareQueries)
	var got []string
	for _, q := range queries {
		got = append(got, q.String())
	}
	if diff := cmp.Diff([]string{"boot_config", "sysctl:z", "unit:a", "unit:b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if node.Unit.Name() != "unit" {
		t.Errorf("the kind's name is %s", node.Unit.Name())
	}
}

func TestRecorded(t *testing.T) {
	inv := node.Inventory{Hostname: "a"}
	r := node.Recorded{Facts: node.NewFacts(inv, noon, []node.Answer{sysctl("vm.a", "1")})}
	if got := r.Inventory(context.Background()); got.Hostname != "a" {
		t.Errorf("the inventory is of %q", got.Hostname)
	}
	f := r.Read(context.Background(), inv, []node.Query{node.Sysctl.Query("vm.a"), node.Sysctl.Query("vm.b")})
	if got := value(node.Sysctl.Get(f, "vm.a")); got != "1" {
		t.Errorf("vm.a is %q", got)
	}
	if v := node.Sysctl.Get(f, "vm.b"); v.IsKnown() || v.Reason() != "not recorded" {
		t.Errorf("vm.b: %+v", say(v))
	}
}

func TestModuleOn(t *testing.T) {
	m := node.ModuleState{Kernels: []node.ModuleOnDisk{{Release: "6.1"}, {Release: "6.8", BuiltIn: true}}}
	if k, ok := m.On("6.8"); !ok || !k.BuiltIn {
		t.Errorf("on 6.8: %+v, %v", k, ok)
	}
	if k, ok := m.On("6.9"); ok {
		t.Errorf("on a kernel that is not there: %+v", k)
	}
}
