package checks

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// DeviceNodes is check "device_nodes": whether device nodes exist.
type DeviceNodes struct{}

var _ plan.Validator = DeviceNodes{}

// Spec of check "device_nodes".
func (DeviceNodes) Spec() plan.Spec {
	return plan.Spec{
		Name: "device_nodes", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Device nodes that users of GPUs and RDMA open.",
		Attributes: []plan.Attribute{
			{Name: "paths", Type: cty.List(cty.String), Required: true, Example: `["/dev/nvidiactl", "/dev/nvidia-uvm"]`, Doc: "The paths, all of which must be devices or directories below /dev."},
		},
	}
}

type deviceNodes struct {
	Paths []string `cty:"paths"`
}

// Validate refuses paths outside /dev.
func (DeviceNodes) Validate(b plan.Block) []plan.Problem {
	var c deviceNodes
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	var problems []plan.Problem
	for _, p := range c.Paths {
		if !strings.HasPrefix(p, "/dev/") || strings.Contains(p, "/../") {
			problems = append(problems, plan.Problem{Attribute: "paths", Summary: "not a device node", Detail: fmt.Sprintf("%q does not begin with /dev/.", p)})
		}
	}
	return problems
}

// Queries are the paths.
func (DeviceNodes) Queries(b plan.Block, _ node.Inventory) []node.Query {
	var c deviceNodes
	// Decoding was tried when the block was validated.
	_ = b.Decode(&c)
	return each(node.Path, c.Paths)
}

// Assess looks at each path.
func (DeviceNodes) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c deviceNodes
	_ = b.Decode(&c)
	var a plan.Assessment
	for _, p := range c.Paths {
		if facts.Inventory.RootDirectory {
			a.Findings = append(a.Findings, plan.Finding{ID: "device_nodes.missing", Target: p, Status: plan.Skipped, Summary: p + " is not judged (--root)"})
			continue
		}
		v := node.Path.Get(facts, p)
		state, ok := v.Get()
		f := plan.Finding{ID: "device_nodes.missing", Target: p, Status: plan.OK, Want: "a device", Found: state.Type, Source: v.Source(), Summary: p + " exists"}
		switch {
		case !ok:
			f = plan.Unread(f.ID, p, v)
			f.Target = p
		case !state.Exists:
			f.Status, f.Found = plan.Drift, "absent"
			f.Summary = p + " does not exist"
			f.Fix = missingNode(p)
		case state.Type != "character-device" && state.Type != "block-device" && state.Type != "directory":
			f.Status = plan.Drift
			f.Summary = fmt.Sprintf("%s is a %s, no device", p, state.Type)
			f.Fix = "take it away; " + missingNode(p)
		}
		a.Findings = append(a.Findings, f)
	}
	return a
}

// missingNode says what makes a node appear.
func missingNode(p string) string {
	switch {
	case strings.HasPrefix(p, "/dev/nvidia-uvm"):
		return "load nvidia_uvm and make its nodes: nvidia-modprobe -u -c 0; CUDA cannot start without them, although nvidia-smi works"
	case strings.HasPrefix(p, "/dev/nvidia"):
		return "load the NVIDIA driver and make its nodes: nvidia-modprobe, or start nvidia-persistenced"
	case strings.HasPrefix(p, "/dev/infiniband"):
		return "load ib_uverbs and rdma_ucm (package rdma-core); without them NCCL falls back to TCP without a word"
	default:
		return "load the module whose driver makes the node, or correct the path"
	}
}
