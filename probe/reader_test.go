package probe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"busbar/node"
)

// asked is a node of which facts are known, and what it was asked for.
type asked struct {
	node.Recorded
	queries []node.Query
}

func (a *asked) Read(ctx context.Context, inv node.Inventory, queries []node.Query) node.Facts {
	a.queries = append(a.queries, queries...)
	return a.Recorded.Read(ctx, inv, queries)
}

func usedBy(users ...node.GPUUser) node.Facts {
	return node.Facts{}.With(node.GPUUsers.Answer("", node.Known(node.GPUUsage{Users: users, Unseen: node.Known(0, node.Source{})}, node.Source{Path: "/proc"})))
}

func TestReader(t *testing.T) {
	cmdline, users, measurement := node.CommandLine.Query(""), node.GPUUsers.Query(""), node.P2PMeasurement.Query("1")
	job := node.GPUUser{PID: 7, Name: "python3"}
	for _, c := range []struct {
		name    string
		facts   node.Facts
		queries []node.Query
		force   bool
		asks    int    // how many queries the node is asked
		pairs   int    // that were measured
		why     string // nothing was measured
	}{
		{"nothing to measure", usedBy(job), []node.Query{cmdline}, false, 1, 0, "not recorded"},
		{"nobody uses them", usedBy(), []node.Query{cmdline, measurement}, false, 2, 6, ""},
		{"asked who uses them already", usedBy(), []node.Query{measurement, users}, false, 1, 6, ""},
		{"in use", usedBy(job), []node.Query{measurement}, false, 1, 0, "the GPUs are in use: python3 (process 7) uses GPUs: wait until that has ended, or say --force"},
		{"in use, and all the same", usedBy(job), []node.Query{measurement}, true, 1, 6, ""},
		{"nobody knows", node.Facts{}, []node.Query{measurement}, false, 1, 0, "who uses the GPUs is unknown: not recorded"},
		{"no size", usedBy(), []node.Query{node.P2PMeasurement.Query("much")}, false, 1, 0, `"much" is no size in MiB`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := &asked{Recorded: node.Recorded{Facts: c.facts}}
			r := Reader{Reader: a, Options: Options{Force: c.force, Child: behaving("works")}}
			key := measurement.Key
			if strings.HasPrefix(c.why, `"much"`) {
				key = "much"
			}
			v := node.P2PMeasurement.Get(r.Read(context.Background(), node.Inventory{}, c.queries), key)
			result, ok := v.Get()
			if ok != (c.why == "") || !strings.HasPrefix(v.Reason(), c.why) || len(a.queries) != c.asks || len(result.Pairs) != c.pairs {
				t.Errorf("%q, asked %v, %+v", v.Reason(), a.queries, result)
			}
			if ok && (result.Size != 1<<20 || result.Unknown != "") {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	hidden := node.Facts{}.With(node.GPUUsers.Answer("", node.Known(node.GPUUsage{Hidden: 3}, node.Source{Path: "/proc"})))
	if err := Refusal(hidden); !errors.Is(err, ErrUnseen) || !strings.Contains(err.Error(), "not all processes can be looked into (3 cannot); root can; or say --force") {
		t.Error(err)
	}
	onA := usedBy(node.GPUUser{PID: 7, Name: "python3", GPUs: []string{"0000:10:00.0"}})
	if err := Refusal(onA, "0000:20:00.0"); err != nil {
		t.Error(err)
	}
	if err := Refusal(onA); err == nil || errors.Is(err, ErrUnseen) {
		t.Error(err)
	}
}
