package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

func path(p, kind string) node.Answer {
	return node.Path.Answer(p, node.Known(node.PathState{Exists: kind != "", Type: kind}, node.Source{Path: p}))
}

func gpus(f node.Facts, addresses ...string) node.Facts {
	var functions []node.PCIFunction
	for _, a := range addresses {
		functions = append(functions, node.PCIFunction{Address: a, Vendor: "10de", Device: "2330", Class: "030200"})
	}
	inv := f.Inventory
	inv.PCI = node.Known(append(functions, node.PCIFunction{Address: "0000:00:00.0", Vendor: "8086", Class: "060000"}), node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

func virtual(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.Virtualization = node.Known("kvm", node.Source{})
	return f.WithInventory(inv)
}

func service(name, load, limits string, running bool) []node.Answer {
	return []node.Answer{
		node.Unit.Answer(name, node.Known(node.UnitState{Load: load}, node.Source{})),
		node.ProcLimits.Answer(name, node.Known(node.ProcessLimits{Running: running, PID: 9, Text: limits}, node.Source{Path: "/proc/9/limits"})),
	}
}

const proc = "Limit                     Soft Limit           Hard Limit           Units     \n" +
	"Max locked memory         8388608              8388608              bytes     \n"

func TestChecks(t *testing.T) {
	memlock := `check "memlock" "all" { services = ["slurmd"] }`
	one := func(load, limits string, running bool) node.Facts {
		return plantest.Node(service("slurmd.service", load, limits, running)...)
	}
	root := one("loaded", "", false)
	inv := root.Inventory
	inv.RootDirectory = true
	plantest.Run(t, checks.All(), []plantest.Case{
		{
			Name: "device nodes", Blocks: `check "device_nodes" "all" { paths = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/infiniband", "/dev/infiniband/rdma_cm", "/dev/fuse", "/dev/sda", "/dev/null"] }`,
			Facts: plantest.Node(path("/dev/nvidiactl", "character-device"), path("/dev/nvidia-uvm", ""), path("/dev/nvidia0", ""), path("/dev/infiniband", "directory"),
				path("/dev/infiniband/rdma_cm", ""), path("/dev/fuse", ""), path("/dev/sda", "block-device"), path("/dev/null", "file")),
			Says: []string{"nvidia-modprobe -u -c 0", "falls back to TCP", "/dev/null is a file, no device"},
			Want: `
				drift device_nodes.missing /dev/fuse (/dev/fuse)
				ok device_nodes.missing /dev/infiniband (/dev/infiniband)
				drift device_nodes.missing /dev/infiniband/rdma_cm (/dev/infiniband/rdma_cm)
				drift device_nodes.missing /dev/null (/dev/null)
				drift device_nodes.missing /dev/nvidia-uvm (/dev/nvidia-uvm)
				drift device_nodes.missing /dev/nvidia0 (/dev/nvidia0)
				ok device_nodes.missing /dev/nvidiactl (/dev/nvidiactl)
				ok device_nodes.missing /dev/sda (/dev/sda)
			`,
		},
		{
			Name: "device nodes, unknown", Blocks: `check "device_nodes" "all" { paths = ["/dev/nvidiactl"] }`, Facts: plantest.Node(),
			Want: `
				unknown device_nodes.missing /dev/nvidiactl ()
			`,
		},
		{
			Name: "GPUs", Blocks: `check "gpus" "all" { count = 2 }`, Facts: gpus(plantest.Node(), "0000:1b:00.0", "0000:43:00.0"),
			Want: `
				ok gpus.count gpus (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "one GPU is missing", Blocks: `check "gpus" "all" { count = 2 }`, Facts: gpus(plantest.Node(), "0000:1b:00.0"), Says: []string{"1 GPU on the PCI bus, wanted is 2\nlook for its slot in the BMC's log"},
			Want: `
				drift gpus.count gpus (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "any GPU", Blocks: `check "gpus" "all" {}`, Facts: gpus(plantest.Node(), "0000:1b:00.0"),
			Want: `
				ok gpus.count gpus (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "no GPU", Blocks: `check "gpus" "all" {}`, Facts: gpus(plantest.Node()), Says: []string{"no GPU on the PCI bus, wanted is at least 1\nwhere it has GPUs, look for"},
			Want: `
				drift gpus.count gpus (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "one GPU too many", Blocks: `check "gpus" "all" { count = 1 }`, Facts: gpus(plantest.Node(), "0000:1b:00.0", "0000:43:00.0"), Says: []string{"2 GPUs on the PCI bus, wanted is 1\nsay in count how many there are"},
			Want: `
				drift gpus.count gpus (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "no GPU in a virtual machine", Blocks: `check "gpus" "all" { count = 1 }`, Facts: virtual(gpus(plantest.Node())), Says: []string{"have the host pass its GPUs through to this virtual machine (kvm)"},
			Want: `
				drift gpus.count gpus (/sys/bus/pci/devices)
			`,
		},
		{
			Name: "GPUs, unknown", Blocks: `check "gpus" "all" {}`, Facts: plantest.Node(),
			Want: `
				unknown gpus.count  ()
			`,
		},
		{
			Name: "memlock", Blocks: memlock, Facts: one("loaded", proc, true), Says: []string{"slurmd.service (process 9) has memlock 8388608, wanted is unlimited"},
			Want: `
				drift memlock.process slurmd.service memlock (/proc/9/limits)
			`,
		},
		{
			Name: "memlock, enough", Blocks: "check \"memlock\" \"all\" {\nservices = [\"slurmd\"]\nmin = 8388608\n}", Facts: one("loaded", proc, true),
			Want: `
				ok memlock.process slurmd.service memlock (/proc/9/limits)
			`,
		},
		{
			Name: "memlock, in words", Blocks: "check \"memlock\" \"all\" {\nservices = [\"slurmd\"]\nmin = \"1024\"\n}", Facts: one("loaded", proc, true),
			Want: `
				ok memlock.process slurmd.service memlock (/proc/9/limits)
			`,
		},
		{
			Name: "memlock of processes that text calls by a number and a name", Blocks: "check \"memlock\" \"all\" {\nservices = []\nprocesses = [\"process 4711\", \"slurmd\"]\n}",
			Facts: plantest.Node(node.ProcLimits.Answer("process 4711", node.Known(node.ProcessLimits{Running: true, Text: proc}, node.Source{Path: "x.txt"}))),
			Says:  []string{"process 4711 has memlock 8388608, wanted is unlimited", "LimitMEMLOCK=infinity of a unit, ulimit -l unlimited of a shell"},
			Want: `
				drift memlock.process process 4711 memlock (x.txt)
				unknown memlock.process slurmd ()
				`,
		},
		{
			Name: "memlock, not installed", Blocks: memlock, Facts: one("not-found", "", false),
			Want: `
				skipped memlock.process slurmd.service ()
			`,
		},
		{
			Name: "memlock, not running", Blocks: memlock, Facts: one("loaded", "", false),
			Want: `
				skipped memlock.process slurmd.service ()
			`,
		},
		{
			Name: "memlock, a directory tree", Blocks: memlock, Facts: root.WithInventory(inv),
			Want: `
				skipped memlock.process slurmd.service ()
			`,
		},
		{
			Name: "memlock, broken", Blocks: memlock, Facts: one("loaded", "junk", true),
			Want: `
				unknown memlock.process slurmd.service (/proc/9/limits)
			`,
		},
		{
			Name: "memlock, unknown", Blocks: memlock, Facts: plantest.Node(),
			Want: `
				unknown memlock.process slurmd.service ()
			`,
		},
	})
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`check "device_nodes" "a" { paths = ["/dev/nvidia0"] }`:                      0,
		`check "device_nodes" "a" { paths = ["/etc/passwd", "/dev/../etc/passwd"] }`: 2,
		`check "memlock" "a" { services = ["slurmd"] }`:                              0,
		"check \"memlock\" \"a\" {\nservices = [\"slurmd\"]\nmin = \"lots\"\n}":      1,
		"check \"memlock\" \"a\" {\nservices = [\"slurmd\"]\nmin = 0.5\n}":           1,
		"check \"memlock\" \"a\" {\nservices = [\"slurmd\"]\nmin = true\n}":          1,
		`check "memlock" "a" { services = ["", "a b"] }`:                             2,
		"check \"pcie_link\" \"a\" {\nspeed = 2.5\nwidth = 12\n}":                    0,
		"check \"pcie_link\" \"a\" {\nspeed = 10\n}":                                 1,
		"check \"pcie_link\" \"a\" {\nwidth = 3\n}":                                  1,
		`check "pcie_link" "a" { devices = ["1b:00.0", "GPU0"] }`:                    2,
	} {
		b := plantest.Blocks(t, checks.All(), text)[0]
		for _, c := range checks.All() {
			if v, ok := c.(plan.Validator); ok && c.Spec().Name == b.Type {
				if problems := v.Validate(b); len(problems) != want {
					t.Errorf("%s: %v", text, problems)
				}
			}
		}
	}
}

func TestWithheldCount(t *testing.T) {
	b := plantest.Blocks(t, checks.All(), `check "gpus" "all" {}`)[0]
	b.Withheld = []plan.Withheld{{Attribute: "count", Reason: "no RDMA"}}
	if a := (checks.GPUs{}).Assess(b, plantest.Node()); len(a.Findings) > 0 {
		t.Errorf("%+v", a)
	}
}
