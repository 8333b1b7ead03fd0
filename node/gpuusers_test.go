package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

func TestGPUUsageBy(t *testing.T) {
	source := node.Source{Path: "/sys/module/nvidia_uvm/refcnt"}
	none, uncounted := node.Known(0, source), node.Unknown[int]("not counted", source)
	one := []node.GPUUser{{PID: 7, Name: "python3", GPUs: []string{"0000:1b:00.0"}}}
	for _, c := range []struct {
		name  string
		usage node.GPUUsage
		gpus  []string
		want  []string // nil: unknown
	}{
		{"nobody", node.GPUUsage{Unseen: none, Hidden: 9}, nil, []string{}},
		{"nobody, seen by root", node.GPUUsage{Unseen: uncounted}, nil, []string{}},
		{"nobody who could be looked into", node.GPUUsage{Unseen: uncounted, Hidden: 9}, nil, nil},
		{"of an old recording", node.GPUUsage{Hidden: 1}, nil, nil},
		{"a process", node.GPUUsage{Users: one, Unseen: none}, nil, []string{"python3 (process 7) uses 0000:1b:00.0"}},
		{"a process on that GPU", node.GPUUsage{Users: one, Unseen: uncounted, Hidden: 9}, []string{"0000:43:00.0", "0000:1b:00.0"}, []string{"python3 (process 7) uses 0000:1b:00.0"}},
		{"a process on another GPU", node.GPUUsage{Users: one, Unseen: none}, []string{"0000:43:00.0"}, []string{}},
		{"a process on nobody knows which", node.GPUUsage{Users: []node.GPUUser{{PID: 9, Name: "Xorg"}}, Unseen: none}, []string{"0000:43:00.0"}, []string{"Xorg (process 9) uses GPUs"}},
		{"in another container", node.GPUUsage{Unseen: node.Known(2, source)}, []string{"0000:43:00.0"}, []string{"processes that do not show here, of other users or containers, use GPUs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			by, known := c.usage.By(c.gpus...).Get()
			if diff := cmp.Diff(c.want, by); known != (c.want != nil) || diff != "" {
				t.Errorf("known %t: %s", known, diff)
			}
		})
	}
}
