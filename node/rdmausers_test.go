package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

func TestRDMAUsage(t *testing.T) {
	u := node.RDMAUsage{Users: []node.RDMAUser{{Name: "rpcrdma", Devices: []string{"mlx5_1"}}, {PID: 7, Name: "python3", Devices: []string{"mlx5_0", "mlx5_1"}}}, Unseen: []string{"mlx5_2"}}
	disk, job, container := "rpcrdma (kernel) uses mlx5_1", "python3 (process 7) uses mlx5_0, mlx5_1", "processes that do not show here, as of containers, use mlx5_2"
	for _, c := range []struct{ devices, want []string }{
		{nil, []string{disk, job, container}}, {[]string{"mlx5_0"}, []string{job}}, {[]string{"mlx5_1"}, []string{disk, job}}, {[]string{"mlx5_2", "mlx5_9"}, []string{container}}, {[]string{"mlx5_9"}, nil},
	} {
		if diff := cmp.Diff(c.want, u.By(c.devices...)); diff != "" {
			t.Errorf("%v: %s", c.devices, diff)
		}
	}
}
