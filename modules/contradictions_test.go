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
			[]string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "off" by iommu=off (node.hcl:2)`},
			"nokaslr",
		},
		{
			"VT-d is off", "iommu { mode = \"passthrough\" }\nkernel_args { present = { intel_iommu = \"off\", iommu = \"pt\" } }",
			[]string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "off" by intel_iommu=off (node.hcl:2)`},
			"iommu=pt",
		},
		{
			"the other spelling", "iommu { mode = \"passthrough\" }\nkernel_args { present = { \"iommu.passthrough\" = 0 } }",
			[]string{`IOMMU mode "passthrough" is wanted (node.hcl:1), and kernel_args wants "translated" by iommu.passthrough=0 (node.hcl:2)`},
			"",
		},
		{"the same mode", "iommu { mode = \"passthrough\" }\nkernel_args { present = { \"iommu.passthrough\" = 1, intel_iommu = \"on\" } }", nil, ""},
		{
			"a blacklist", "kernel_module \"nouveau\" { state = \"loaded\" }\nkernel_args { present = { \"modprobe.blacklist\" = \"nvidiafb,nouveau\" } }",
			[]string{`kernel module nouveau at boot "loaded" is wanted (node.hcl:1), and kernel_args wants "unloaded" by modprobe.blacklist=nouveau (node.hcl:2)`},
			"modprobe.blacklist=nvidiafb",
		},
		{
			"the kernel's own blacklist", "kernel_module \"nouveau\" { state = \"loaded\" }\nkernel_args { present = { module_blacklist = \"nouveau\" } }",
			[]string{`kernel module nouveau "loaded" is wanted (node.hcl:1), and kernel_args wants "unloaded" by module_blacklist=nouveau (node.hcl:2)`},
			"",
		},
		{
			"loaded by systemd", "kernel_module \"nv-peer-mem\" { boot = \"unloaded\" }\nkernel_args { present = { modules_load = \"nv_peer_mem\" } }",
			[]string{`kernel module nv_peer_mem at boot "unloaded" is wanted (node.hcl:1), and kernel_args wants "loaded" by modules_load=nv_peer_mem (node.hcl:2)`},
			"",
		},
		{
			"peer memory is unloaded", "gpudirect { path = \"any\" }\nkernel_module \"nvidia-peermem\" { state = \"unloaded\" }",
			[]string{`kernel module nvidia_peermem "loaded" is wanted by path = "any" (node.hcl:1), and kernel_module.nvidia-peermem wants "unloaded" (node.hcl:2)`},
			"",
		},
		{
			"peer memory at boot", "gpudirect { path = \"peermem\" }\nkernel_args { present = { \"modprobe.blacklist\" = \"nvidia-peermem\", nokaslr = \"\" } }",
			[]string{`kernel module nvidia_peermem at boot "loaded" is wanted by path = "peermem" (node.hcl:1), and kernel_args wants "unloaded" by modprobe.blacklist=nvidia-peermem (node.hcl:2)`},
			"nokaslr",
		},
		{
			"the predecessor of peer memory", "gpudirect {}\nkernel_module \"nv_peer_mem\" { state = \"loaded\" }\nservice \"nv_peer_mem\" { active = true }",
			[]string{
				`kernel module nv_peer_mem "unloaded" is wanted by path = "any" (node.hcl:1), and kernel_module.nv_peer_mem wants "loaded" (node.hcl:2)`,
				`unit nv_peer_mem.service active "false" is wanted (node.hcl:1), and service.nv_peer_mem wants "true" (node.hcl:3)`,
			},
			"",
		},
		{"dma-buf alone", "gpudirect { path = \"dmabuf\" }\nkernel_module \"nvidia-peermem\" { state = \"unloaded\" }", nil, ""},
		{
			"the lossless DSCP", "roce \"rails\" {\nnics = []\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}\nnccl { settings = { NCCL_IB_TC = 96 } }",
			[]string{`lossless DSCP "26" is wanted (node.hcl:3), and nccl wants "24" by NCCL_IB_TC=96 (node.hcl:5)`},
			"",
		},
		{"ECN's bits in the traffic class", "roce \"rails\" {\nnics = []\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}\nnccl { settings = { NCCL_IB_TC = 106 } }", nil, ""},
		{
			"lldpad", "roce \"rails\" {\nnics = []\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}\nservice \"lldpad\" { active = true }",
			[]string{`unit lldpad.service active "false" is wanted (node.hcl:1), and service.lldpad wants "true" (node.hcl:5)`},
			"",
		},
		{
			"the MTU of some ports", "link \"a\" {\nnics = [{ address = \"0000:1a:00.0\" }, { address = \"0000:2a:00.0\" }, { address = \"0000:3a:00.0\", port = 2 }]\nmtu = 9000\n}\n" +
				"link \"b\" {\nnics = [{ address = \"0000:3a:00.0\", port = 2 }, { address = \"0000:2a:00.0\", port = 1 }, { address = \"0000:1a:00.0\", port = 2 }]\nmtu = 1500\n}",
			[]string{`MTU of 2 devices "9000" is wanted (node.hcl:3), and link.b wants "1500" (node.hcl:7): 0000:2a:00.0, 0000:3a:00.0/2`},
			"",
		},
		{
			"a port that is down", "link \"a\" {\nnics = [{ address = \"0000:1a:00.0\" }]\nup = false\n}\n" +
				"roce \"b\" {\nnics = [{ address = \"0000:1a:00.0\" }]\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\n}",
			[]string{`state of 0000:1a:00.0 "down" is wanted (node.hcl:3), and roce.b wants "up" (node.hcl:5)`},
			"",
		},
		{
			"what a port is to do", "roce \"a\" {\nnics = [{ address = \"0000:1a:00.0\" }]\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\nstorm_prevention = 100\ndcbx = \"firmware\"\n}\n" +
				"roce \"b\" {\nnics = [{ address = \"0000:1a:00.0\" }]\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\npause = \"unmanaged\"\nstorm_prevention = 0\ndcbx = \"host\"\n}",
			[]string{
				`dcbx of 0000:1a:00.0 "firmware" is wanted (node.hcl:5), and roce.b wants "host" (node.hcl:12)`,
				`storm_prevention of 0000:1a:00.0 "100" is wanted (node.hcl:4), and roce.b wants "0" (node.hcl:11)`,
			},
			"",
		},
		{
			"what functions read", "pcie_device \"a\" {\ndevices = [\"0000:1a:00.0\", \"0000:2a:00.0\"]\nmax_read_request = 4096\nrelaxed_ordering = true\n}\n" +
				"pcie_device \"b\" {\ndevices = [\"0000:2a:00.0\", \"0000:1a:00.0\"]\nmax_read_request = 512\nrelaxed_ordering = true\n}",
			[]string{`read requests of 2 devices "4096" is wanted (node.hcl:3), and pcie_device.b wants "512" (node.hcl:8): 0000:1a:00.0, 0000:2a:00.0`},
			"",
		},
		{"other ports", "link \"a\" {\nnics = [{ address = \"0000:1a:00.0\" }]\nmtu = 9000\n}\nlink \"b\" {\nnics = [{ address = \"0000:1a:00.0\", port = 2 }]\nmtu = 1500\n}", nil, ""},
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
