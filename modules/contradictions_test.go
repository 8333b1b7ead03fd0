package modules_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/grub"
	"busbar/modules"
	"busbar/plan"
	"busbar/plan/plantest"
)

// TestContradictions: blocks of different types that stand against each other are found
// without a node, once for each pair, and on both of them on a node.
func TestContradictions(t *testing.T) {
	for _, tt := range []struct {
		name, blocks string
		want         []string
		rest         string // arguments that are set all the same
	}{
		{
			"the IOMMU is off", "iommu { mode = \"passthrough\" }\nkernel_args { present = { iommu = \"off\", nokaslr = \"\" } }",
			[]string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "off" (node.hcl:2)`},
			"nokaslr",
		},
		{
			"VT-d is off", "iommu { mode = \"passthrough\" }\nkernel_args { present = { intel_iommu = \"off\", iommu = \"pt\" } }",
			[]string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "off" (node.hcl:2)`},
			"iommu=pt",
		},
		{
			"the other spelling", "iommu { mode = \"passthrough\" }\nkernel_args { present = { \"iommu.passthrough\" = 0 } }",
			[]string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "translated" (node.hcl:2)`},
			"",
		},
		{"the same mode", "iommu { mode = \"passthrough\" }\nkernel_args { present = { \"iommu.passthrough\" = 1, intel_iommu = \"on\" } }", nil, ""},
		{
			"a blacklist", "kernel_module \"nouveau\" { state = \"loaded\" }\nkernel_args { present = { \"modprobe.blacklist\" = \"nvidiafb,nouveau\" } }",
			[]string{`kernel module nouveau at boot "loaded" is wanted (node.hcl:1), and kernel_args wants "unloaded" (node.hcl:2)`},
			"modprobe.blacklist=nvidiafb",
		},
		{
			"the kernel's own blacklist", "kernel_module \"nouveau\" { state = \"loaded\" }\nkernel_args { present = { module_blacklist = \"nouveau\" } }",
			[]string{`kernel module nouveau "loaded" is wanted (node.hcl:1), and kernel_args wants "unloaded" (node.hcl:2)`},
			"",
		},
		{
			"loaded by systemd", "kernel_module \"nv-peer-mem\" { boot = \"unloaded\" }\nkernel_args { present = { modules_load = \"nv_peer_mem\" } }",
			[]string{`kernel module nv_peer_mem at boot "unloaded" is wanted (node.hcl:1), and kernel_args wants "loaded" (node.hcl:2)`},
			"",
		},
		{
			"the lossless DSCP", "roce \"rails\" {\nnics = []\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}\nnccl { settings = { NCCL_IB_TC = 96 } }",
			[]string{`lossless DSCP "26" is wanted (node.hcl:3), and nccl wants "24" (node.hcl:5)`},
			"",
		},
		{"ECN's bits in the traffic class", "roce \"rails\" {\nnics = []\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}\nnccl { settings = { NCCL_IB_TC = 106 } }", nil, ""},
		{
			"lldpad", "roce \"rails\" {\nnics = []\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}\nservice \"lldpad\" { active = true }",
			[]string{`unit lldpad.service active "false" is wanted (node.hcl:1), and service.lldpad wants "true" (node.hcl:5)`},
			"",
		},
		{"kept out twice", "kernel_module \"nouveau\" { state = \"unloaded\" }\nkernel_args { present = { \"modprobe.blacklist\" = \"nouveau\" } }", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks := plantest.Blocks(t, modules.All(), tt.blocks)
			p := plantest.Planner(modules.All())
			var got []string
			for _, f := range p.Conflicts(blocks) {
				got = append(got, f.Summary)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			onNode := 0
			planned := p.Plan(blocks, plantest.Node(loaded("nouveau", false), loaded("nv_peer_mem", false)))
			for _, f := range planned.Findings {
				if f.ID == "profile.contradiction" && f.Status == plan.Conflict {
					onNode++
				}
			}
			if onNode != 2*len(tt.want) {
				t.Errorf("on a node: %s", plantest.Summarize(planned))
			}
			if fragment := fragmentOf(planned); len(tt.want) > 0 && fragment != grub.Fragment(strings.Fields(tt.rest)) {
				t.Errorf("what is contradicted is done: %s%s", plantest.Summarize(planned), fragment)
			}
		})
	}
}

// fragmentOf is what a plan writes into busbar's fragment of GRUB's defaults, or else its first
// step.
func fragmentOf(p plan.Plan) string {
	for _, s := range p.Steps {
		if w, ok := s.Action.(plan.WriteFile); ok && w.Path == grub.FragmentFile {
			return w.Text
		}
	}
	if len(p.Steps) > 0 {
		return p.Steps[0].ID
	}
	return ""
}
