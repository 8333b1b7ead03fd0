package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/plan"
)

func TestUnread(t *testing.T) {
	source := node.Source{Path: "/sys/class/net/eth0"}
	for _, test := range []struct {
		v    node.Value[int]
		want plan.Finding
	}{
		{node.Unknown[int]("permission denied", source), plan.Finding{ID: "roce.pfc", Status: plan.Undetermined, Summary: "PFC is unknown: permission denied", Source: source}},
		{node.Awaiting[int]("no RDMA device", "rdma-devices", source), plan.Finding{ID: "roce.pfc", Status: plan.Undetermined, Needs: "rdma-devices", Summary: "PFC is unknown: no RDMA device", Source: source}},
		{node.Unsupported[int]("the driver has none", source), plan.Finding{ID: "roce.pfc", Status: plan.Unsupported, Summary: "PFC is unsupported: the driver has none", Source: source}},
	} {
		if diff := cmp.Diff(test.want, plan.Unread("roce.pfc", "PFC", test.v)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
