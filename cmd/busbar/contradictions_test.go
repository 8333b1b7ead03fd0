package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/node/example"
	"busbar/plan"
	"busbar/profiles"
)

// TestContradictions: blocks over lists that only a node tells are known to contradict each other where the lists
// have something in common on every node, and then do so on one.
func TestContradictions(t *testing.T) {
	const lossless = "lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }"
	reader, err := example.Open("hgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	facts, err := node.ReadRecording(reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, profile string
		want          []string // of each message the beginning
	}{
		{"one selector", `
selector "rails" { nics = node.rails }
link "a" {
  nics = selector.rails
  mtu  = 9000
}
link "b" {
  nics = (selector["rails"])
  mtu  = 1500
}`, []string{`MTU of selector.rails "9000" is wanted (x.hcl:5), and link.b wants "1500" (x.hcl:9)`}},
		{"the same value", `
selector "rails" { nics = node.rails }
link "a" {
  nics = selector.rails
  mtu  = 9000
}
roce "b" {
  nics = node.rails
  mtu  = 9000
  ` + lossless + `
}`, nil},
		{"selectors over the same", `
selector "a" {
  nics   = node.rails
  expect = 8
}
selector "b" { nics = local.mine }
locals { mine = node.rails }
link "a" {
  nics = selector.a
  mtu  = 9000
}
roce "b" {
  nics = selector.b
  mtu  = 4200
  ` + lossless + `
}`, []string{`MTU of node.rails "9000"`}},
		{"all of which rails are some", `
link "a" {
  nics = node.nics
  mtu  = 1500
}
link "b" {
  nics = node.rails
  mtu  = 9000
}`, []string{`MTU of node.rails "1500"`}},
		{"perhaps other ports", `
selector "a" {
  nics    = node.rails
  exclude = ["0000:18:00.0"]
}
selector "b" {
  nics    = node.rails
  exclude = ["0000:3a:00.0"]
}
link "a" {
  nics = selector.a
  mtu  = 9000
}
link "b" {
  nics = [for n in node.nics : n if !contains(node.rails, n)]
  mtu  = 1500
}`, nil},
		{"parts of elements", `
selector "rails" { nics = node.rails }
pcie_device "a" {
  devices          = selector.rails[*].address
  max_read_request = 4096
}
pcie_device "b" {
  devices          = node.rails[*].address
  max_read_request = 512
}
pcie_device "c" {
  devices          = node.gpus[*].address
  max_read_request = 256
}`, []string{`read requests of node.rails[*].address "4096"`}},
		{"one expression", `
link "a" {
  nics = slice(node.rails, 0, 4)
  mtu  = 9000
}
link "b" {
  nics = slice(node.rails, 0, 4)
  mtu  = 1500
}`, []string{`MTU of slice(node.rails, 0, 4) "9000"`}},
		{"one for each", `
link "a" {
  for_each = { one = 9000, two = 1500 }
  nics     = [node.rails[each.key == "one" ? 0 : 1]]
  mtu      = each.value
}`, nil},
		{"down", `
selector "rails" { nics = node.rails }
link "a" {
  nics = selector.rails
  up   = false
}
roce "b" {
  nics = selector.rails
  ` + lossless + `
}`, []string{`state of selector.rails "down" is wanted (x.hcl:5), and roce.b wants "up"`}},
		{"a check of another class", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
check "lossless" "b" {
  lossless = { priority = 3, dscp = 24, cnp_dscp = 48 }
}`, []string{`lossless DSCP "24" is wanted (x.hcl:7), and roce.a wants "26" (x.hcl:4)`}},
		{"NCCL's own word", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
nccl {
  settings = { NCCL_IB_TC = 96 }
}`, []string{`lossless DSCP "24" is wanted by NCCL_IB_TC=96 (x.hcl:7), and roce.a wants "26" (x.hcl:4)`}},
		{"modules taken away from RoCE", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
kernel_module "ib_uverbs" {
  state = "unloaded"
}`, []string{`kernel module ib_uverbs "unloaded" is wanted (x.hcl:7), and roce.a wants "loaded"`}},
		{"modules taken away from checks", `
check "rdma_port" "a" {}
check "gpudirect_rdma" "b" { path = "peermem" }
kernel_module "rdma_cm" {
  state = "unloaded"
}
kernel_module "nvidia_peermem" {
  state = "unloaded"
}`, []string{`kernel module nvidia_peermem "loaded" is wanted (x.hcl:3), and kernel_module.nvidia_peermem wants "unloaded" (x.hcl:8)`}},
		{"modules of drivers taken away from RoCE", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
kernel_module "mlx5_ib" {
  state = "unloaded"
}`, []string{`kernel module mlx5_ib "unloaded" is wanted (x.hcl:7), and roce.a wants "loaded" on nodes whose NICs have driver mlx5_core (x.hcl:2)`}},
		{"drivers taken away from checks", `
check "rails" "a" {}
check "gid" "b" {}
kernel_module "mlx5_core" {
  state = "unloaded"
}
kernel_module "irdma" {
  state = "loaded"
}`, []string{`kernel module mlx5_core "unloaded" is wanted (x.hcl:5), and check.gid.b wants "loaded" on nodes whose NICs have driver mlx5_core (x.hcl:3)`}},
		{"the fabric manager is off", `
check "fabric" "a" {}
service "nvidia-fabricmanager" {
  enabled = false
  active  = false
}`, []string{`unit nvidia-fabricmanager.service active "false" is wanted (x.hcl:5), and check.fabric.a wants "true" on nodes with NVSwitches (x.hcl:2)`}},
		{"DCBX of the host and of the firmware", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
check "nic_nvconfig" "b" {
  nics     = node.rails
  settings = { LLDP_NB_DCBX_P1 = true }
}`, []string{`dcbx of node.rails "firmware" is wanted by LLDP_NB_DCBX_P1 = "true" (x.hcl:8), and roce.a wants "host"`}},
		{"DCBX that the firmware does not have", `
roce "a" {
  nics = node.rails
  dcbx = "firmware"
  ` + lossless + `
}
check "nic_nvconfig" "b" {
  nics     = node.rails
  settings = { LLDP_NB_DCBX_P1 = 0 }
}`, []string{`dcbx of node.rails "host" is wanted by LLDP_NB_DCBX_P1 = "0" (x.hcl:9), and roce.a wants "firmware" (x.hcl:4)`}},
		{"arguments of ACS", `
pcie_acs "a" {
  redirect = "off"
  persist  = "kernel_args"
}
kernel_args {
  absent = ["pci=config_acs", "pci=disable_acs_redir"]
}`, []string{`ACS in boot arguments "unwanted" is wanted (x.hcl:7), and pcie_acs.a wants "wanted" (x.hcl:4)`}},
		{"InfiniBand and RoCE", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
check "infiniband" "b" {}`, []string{`link layer of node.rails "InfiniBand" is wanted (x.hcl:6), and roce.a wants "Ethernet"`}},
		{"the link layer of a port and of its firmware", `
check "rdma_port" "a" {
  nics       = node.rails
  link_layer = "Ethernet"
}
check "nic_nvconfig" "b" {
  nics     = node.rails
  settings = { LINK_TYPE_P1 = "IB" }
}`, []string{`link layer of node.rails "InfiniBand" is wanted by LINK_TYPE_P1 = "IB" (x.hcl:8), and check.rdma_port.a wants "Ethernet" (x.hcl:4)`}},
		{"the same link layer", `
check "gid" "a" { nics = node.rails }
check "nic_nvconfig" "b" {
  nics     = node.rails
  settings = { LINK_TYPE_P1 = 2 }
}`, nil},
		{"an argument that the IOMMU's mode may take", `
iommu { mode = "passthrough" }
kernel_args { absent = ["iommu"] }`, []string{`kernel argument iommu "absent" is wanted (x.hcl:3), and iommu wants "present" by iommu=pt on nodes of Intel that have another mode by default (x.hcl:2)`}},
		{"the same with a value", `
iommu { mode = "passthrough" }
kernel_args { absent = ["iommu=pt"] }`, []string{`kernel argument iommu=pt "absent" is wanted (x.hcl:3), and iommu wants "present" by iommu=pt on nodes of Intel that have another mode by default (x.hcl:2)`}},
		{"another value of the argument", `
iommu { mode = "passthrough" }
kernel_args { absent = ["iommu=off", "pci"] }`, nil},
		{"the index of a GID", `
check "gid" "a" { index = 3 }
nccl { settings = { NCCL_IB_GID_INDEX = 1 } }`, []string{`GID index of jobs "3" is wanted (x.hcl:2), and nccl wants "1" by NCCL_IB_GID_INDEX=1`}},
		{"RoCE v1", `
roce "a" {
  nics = node.rails
  ` + lossless + `
}
nccl { settings = { NCCL_IB_ROCE_VERSION_NUM = 1 } }`, []string{`RoCE version of jobs "v1" is wanted by NCCL_IB_ROCE_VERSION_NUM=1 (x.hcl:6), and roce.a wants "v2"`}},
		{"an MTU that is too small", `
link "a" {
  nics = node.rails
  mtu  = 1500
}
check "mtu" "b" { nics = node.rails }`, []string{`InfiniBand MTU of 4096 or more of node.rails "true" is wanted by min = 4096 (x.hcl:6), and link.a wants "false" by an MTU of 1500 (x.hcl:4)`}},
		{"an MTU that will do", `
link "a" {
  nics = node.rails
  mtu  = 1500
}
check "mtu" "b" { min = 1000 }`, nil},
		{"an MTU of a port that is down", `
link "a" {
  nics = node.rails
  up   = false
}
check "mtu" "b" { nics = node.rails }`, []string{`state of node.rails "up" is wanted (x.hcl:6), and link.a wants "down" (x.hcl:4)`}},
		{"NVLinks that are off", `
check "nvlink" "a" { links = 18 }
check "driver" "b" { parameters = { NvLinkDisable = "1" } }
check "gpus" "c" { mig = true }`, []string{
			`driver parameter NvLinkDisable "1" is wanted (x.hcl:3), and check.nvlink.a wants "0" by links = 18 (x.hcl:2)`,
			`MIG "true" is wanted (x.hcl:4), and check.nvlink.a wants "false" by links = 18 (x.hcl:2)`,
		}},
		{"dma-buf of the closed driver", `
check "gpudirect_rdma" "a" { path = "dmabuf" }
check "driver" "b" { open = false }`, []string{`open kernel modules of the driver "false" is wanted (x.hcl:3), and check.gpudirect_rdma.a wants "true" by path = "dmabuf" (x.hcl:2)`}},
		{"what can have one value", `
check "gpus" "a" { count = 8 }
check "gpus" "b" { count = 4 }
check "rdma_port" "a" { count = 8 }
check "rdma_port" "b" { count = 4 }
check "platform" "a" { governor = "performance" }
check "platform" "b" { governor = "powersave" }
check "driver" "a" { version = "570.195.03" }
check "driver" "b" { version = "580.1" }`, []string{
			`driver version "570.195.03" is wanted`, `number of GPUs "8" is wanted`, `frequency governor "performance" is wanted`, `number of node.rails "8" is wanted`,
		}},
		{"numbers of other lists", `
selector "some" { nics = slice(node.rails, 0, 4) }
check "rdma_port" "a" { count = 8 }
check "rdma_port" "b" {
  nics  = selector.some
  count = 4
}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			loader := profiles.Loader{Types: types()}
			p, diags := loader.LoadText("x.hcl", []byte(tt.profile))
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			planner := newPlanner()
			var got []string
			for i, f := range planner.Conflicts(p.StaticBlocks()) {
				summary := f.Summary
				if i < len(tt.want) && strings.HasPrefix(summary, tt.want[i]) {
					summary = tt.want[i]
				}
				got = append(got, summary)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			inventory := node.Recorded{Facts: facts}.Inventory(context.Background())
			evaluation, diags := p.Evaluate(inventory)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			onNode := 0
			for _, f := range planner.Plan(evaluation.Blocks, facts, evaluation.Findings...).Findings {
				if f.ID == "profile.contradiction" && f.Status == plan.Conflict {
					onNode++
				}
			}
			if onNode != 2*len(tt.want) {
				t.Errorf("%d contradictions on a node", onNode)
			}
		})
	}
}

// TestCountOfSelector: a check cannot want another number of ports than the selector that it judges.
func TestCountOfSelector(t *testing.T) {
	const selector = "selector \"rails\" {\nnics = node.rails\nexpect = var.rails\n}\nvariable \"rails\" { default = 8 }\n"
	for check, want := range map[string]string{
		`nics = selector.rails
count = 4`: "selector.rails expects 8 NICs, and count is 4. Say the number there alone.",
		`nics = selector.rails
count = 8`: "",
		`nics = node.rails
count = 4`: "",
		`nics = slice(selector.rails, 0, 4)
count = 4`: "",
	} {
		loader := profiles.Loader{Types: types()}
		_, diags := loader.LoadText("x.hcl", []byte(selector+"check \"rdma_port\" \"a\" {\n"+check+"\n}"))
		got := ""
		for _, d := range diags {
			got += d.Detail
		}
		if got != want {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
}
