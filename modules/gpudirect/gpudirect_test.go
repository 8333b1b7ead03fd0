package gpudirect_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/confdir"
	"busbar/modules/gpudirect"
	"busbar/modules/kernelmodule"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{gpudirect.Type{}, kernelmodule.Type{}}

const (
	peermem = "nvidia_peermem"
	openibd = "openibd.service"
	dropIn  = "/etc/systemd/system/openibd.service.d/zz-busbar.conf"
)

// machine is a node with a GPU, the proprietary driver, peer memory not loaded, the kernel's own RDMA stack, and answers.
func machine(answers ...node.Answer) node.Facts {
	f := plantest.Node(slices.Concat([]node.Answer{
		driver(false), module(peermem, false), module("nv_peer_mem", false), client(false), noUnit("nv_peer_mem.service"), noUnit(openibd),
	}, answers)...)
	return functions(f, node.PCIFunction{Address: "0000:1b:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia"})
}

// functions are those of the PCI bus.
func functions(f node.Facts, list ...node.PCIFunction) node.Facts {
	inv := f.Inventory
	inv.PCI = node.Known(list, node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

func driver(open bool) node.Answer {
	return node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{Loaded: true, Version: "580.95.05", Open: open}, node.Source{Path: "/proc/driver/nvidia/version"}))
}

func module(name string, loaded bool) node.Answer {
	return node.Module.Answer(name, node.Known(node.ModuleState{Loaded: loaded, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: "updates/dkms/" + name + ".ko"}}}, node.Source{Path: "/sys/module/" + name}))
}

func client(registered bool) node.Answer {
	state := node.PathState{}
	if registered {
		state = node.PathState{Exists: true, Type: "file", Mode: "0444"}
	}
	return node.Path.Answer(plan.PeerMemoryClient, node.Known(state, node.Source{Path: plan.PeerMemoryClient}))
}

func noUnit(name string) node.Answer {
	return node.Unit.Answer(name, node.Known(node.UnitState{Load: "not-found", Active: node.Known("inactive", node.Source{})}, node.Source{Call: name}))
}

func unit(name string, files ...confdir.File) []node.Answer {
	files = append([]confdir.File{{Path: "/usr/lib/systemd/system/" + name, Text: "[Service]\nType=oneshot\nExecStart=/etc/init.d/openibd start bootid=%b\nExecStop=/etc/init.d/openibd stop\n"}}, files...)
	return []node.Answer{
		node.Unit.Answer(name, node.Known(node.UnitState{Load: "loaded", File: "enabled", Active: node.Known("active", node.Source{Call: name})}, node.Source{Call: name})),
		node.UnitFiles.Answer(name, node.Known(files, node.Source{})),
	}
}

func atBoot() node.Answer {
	return plantest.Files(node.ModulesLoadFiles, map[string]string{"/etc/modules-load.d/nvidia.conf": "nvidia-peermem\n"})
}

func kernel(f node.Facts, release string) node.Facts {
	inv := f.Inventory
	inv.Kernel = node.Known(release, node.Source{Call: "uname"})
	return f.WithInventory(inv)
}

func rootDirectory(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.RootDirectory = true
	return f.WithInventory(inv)
}

// old is said of the predecessor where it is not installed.
const old = `
	ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
	skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
`

func TestGPUDirect(t *testing.T) {
	unread := node.NVIDIADriver.Answer("", node.Unknown[node.NVIDIADriverState]("permission denied", node.Source{Path: "/proc/driver/nvidia/version"}))
	noDriver := node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{}, node.Source{Path: "/proc/driver/nvidia"}))
	ours := plantest.Files(node.ModulesLoadFiles, map[string]string{"/etc/modules-load.d/busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nnvidia_peermem\n"})
	hold := func(name string) node.Answer {
		return node.Module.Answer(name, node.Known(node.ModuleState{Loaded: true, RefCount: 2, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: name + ".ko"}}}, node.Source{Path: "/sys/module/" + name}))
	}
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "dma-buf is there, nothing is done", Blocks: `gpudirect {}`, Facts: machine(driver(true)),
			Says: []string{"NICs can get at GPU memory: the open driver exports GPU memory as dma-buf"},
			Want: `
				ok gpudirect.path GPU memory (/proc/driver/nvidia/version)
			` + old,
		},
		{
			Name: "busbar's line is not needed any more", Blocks: `gpudirect {}`, Facts: machine(driver(true), module(peermem, true), client(true), ours),
			Want: `
				ok gpudirect.path GPU memory (/proc/driver/nvidia/version)
			` + old + `
				!drift file.stale /etc/modules-load.d/busbar.conf (/etc/modules-load.d/busbar.conf)
				step remove-file:/etc/modules-load.d/busbar.conf
			`,
			After: "skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)",
		},
		{
			Name: "the proprietary driver, the module is not loaded (F7)", Blocks: `gpudirect {}`, Facts: machine(),
			Texts: map[string]string{"/etc/modules-load.d/busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nnvidia_peermem\n"},
			Says:  []string{"NICs cannot get at GPU memory: nvidia_peermem is not loaded, and the driver's modules are the proprietary ones, which export no dma-buf"},
			Want: `
				!drift gpudirect.path GPU memory (/sys/module/nvidia_peermem)
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				!drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:nvidia_peermem
			`,
			After: "skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)",
		},
		{
			Name: "a kernel without dma-buf for RDMA", Blocks: `gpudirect {}`, Facts: kernel(machine(driver(true), module(peermem, true), client(true), atBoot()), "5.4.0-150-generic"),
			Want: `
				ok gpudirect.path GPU memory (/sys/module/nvidia_peermem)
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
			`,
		},
		{
			Name: "loaded, not registered: NCCL takes it, and fails (F8)", Blocks: `gpudirect {}`, Facts: machine(driver(true), module(peermem, true)),
			Says: []string{"modprobe -r nvidia_peermem, restart openibd, modprobe nvidia_peermem"},
			Want: `
				ok gpudirect.path GPU memory (/proc/driver/nvidia/version)
				drift gpudirect.unregistered nvidia_peermem (/sys/kernel/mm/memory_peers/nv_mem/version)
			` + old,
		},
		{
			Name: "the driver is not loaded: which way it has is unknown, busbar's line stays", Blocks: `gpudirect {}`, Facts: machine(noDriver, ours),
			Want: `
				drift gpudirect.path GPU memory (/sys/module/nvidia_peermem)
			` + old,
		},
		{
			Name: "the driver cannot be read", Blocks: `gpudirect {}`, Facts: machine(unread, ours),
			Says: []string{"whether NICs can get at GPU memory is unknown: nvidia_peermem is not loaded, and whether the driver exports GPU memory as dma-buf is unknown: permission denied"},
			Want: `
				unknown gpudirect.path GPU memory ()
			` + old,
		},
		{
			Name: "peermem though dma-buf would do, with a parameter", Blocks: `gpudirect {
				path    = "peermem"
				options = { persistent_api_support = 0 }
			}`,
			Facts: machine(driver(true)),
			Texts: map[string]string{"/etc/modprobe.d/zz-busbar.conf": "# Written by busbar. It owns this file: edits are lost.\noptions nvidia_peermem persistent_api_support=0\n"},
			Want: `
				ok initramfs.modprobe nvidia_peermem (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				!drift kernel_module.option nvidia_peermem.persistent_api_support (/etc/modprobe.d)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				!drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:nvidia_peermem
			`,
			After: `
				unknown info kernel_module.option_in_force nvidia_peermem.persistent_api_support (/sys/module/nvidia_peermem/parameters/persistent_api_support)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
			`,
		},
		{
			Name: "its predecessor has the name", Blocks: `gpudirect { path = "peermem" }`,
			Facts: machine(append(unit("nv_peer_mem.service"), module("nv_peer_mem", true), atBoot())...),
			Want: `
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				!drift kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				!drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				!drift service.boot nv_peer_mem.service (nv_peer_mem.service)
				!drift service.running nv_peer_mem.service (nv_peer_mem.service)
				step unload-module:nv_peer_mem
				step load-module:nvidia_peermem
				step set-unit:nv_peer_mem.service
			`,
		},
		{
			Name: "its predecessor is in use", Blocks: `gpudirect { path = "peermem" }`, Facts: machine(hold("nv_peer_mem"), module(peermem, true), client(true), atBoot()),
			Want: `
				ok gpudirect.peermem nvidia_peermem (/sys/module/nvidia_peermem)
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				conflict kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem/refcnt)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
			`,
		},
		{
			Name: "openibd takes the RDMA stack from under it (F9)", Blocks: `gpudirect { path = "peermem" }`,
			Facts: machine(append(unit(openibd), module(peermem, true), client(true), atBoot())...),
			Texts: map[string]string{dropIn: "# Written by busbar. It owns this file: edits are lost.\n[Service]\nExecStartPost=-/sbin/modprobe nvidia-peermem\n"},
			Want: `
				ok gpudirect.peermem nvidia_peermem (/sys/module/nvidia_peermem)
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				!drift unit.start_command openibd.service ExecStartPost (/etc/systemd/system/openibd.service.d)
				step write-file:/etc/systemd/system/openibd.service.d/zz-busbar.conf
				step daemon-reload:openibd.service
			`,
			After: "skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)",
		},
		{
			Name: "somebody's drop-in does it", Blocks: `gpudirect { path = "peermem" }`,
			Facts: machine(append(unit(openibd, confdir.File{Path: "/etc/systemd/system/openibd.service.d/override.conf", Text: "[Service]\nExecStartPost=/usr/sbin/modprobe nvidia_peermem\n"}), module(peermem, true), client(true), atBoot())...),
			Want: `
				ok gpudirect.peermem nvidia_peermem (/sys/module/nvidia_peermem)
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				ok unit.start_command openibd.service ExecStartPost (/etc/systemd/system/openibd.service.d/override.conf:2)
			`,
		},
		{
			Name: "a later drop-in takes all commands back", Blocks: `gpudirect { path = "peermem" }`,
			Facts: machine(append(unit(openibd, confdir.File{Path: "/etc/systemd/system/openibd.service.d/zzz.conf", Text: "[Service]\nExecStartPost=\n"}), module(peermem, true), client(true), atBoot())...),
			Says:  []string{`openibd.service is to run "-/sbin/modprobe nvidia-peermem" after it starts (node.hcl:1), and a drop-in that is read after zz-busbar.conf takes all such commands back`},
			Want: `
				ok gpudirect.peermem nvidia_peermem (/sys/module/nvidia_peermem)
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				conflict unit.start_command openibd.service ExecStartPost (/etc/systemd/system/openibd.service.d)
			`,
		},
		{
			Name: "dma-buf, which the proprietary driver lacks", Blocks: `gpudirect { path = "dmabuf" }`, Facts: machine(module(peermem, true), client(true)),
			Says: []string{"install the open flavour of the driver's kernel modules"},
			Want: "drift gpudirect.dmabuf dma-buf (/proc/driver/nvidia/version)",
		},
		{
			Name: "dma-buf, and peermem beside it", Blocks: `gpudirect { path = "dmabuf" }`, Facts: machine(driver(true), module(peermem, true), client(true)),
			Want: "ok gpudirect.dmabuf dma-buf (/proc/driver/nvidia/version)",
		},
		{
			Name: "no GPU, so that the driver does not load; busbar's line stays", Blocks: `gpudirect { path = "peermem" }`, Facts: functions(machine(ours)),
			Says: []string{"no GPU on the PCI bus"},
			Want: `
				skipped gpudirect.path GPU memory ()
			` + old,
		},
		{
			Name: "the PCI bus cannot be read", Blocks: `gpudirect { path = "peermem" }`, Facts: plantest.Node(module(peermem, false), module("nv_peer_mem", false), noUnit("nv_peer_mem.service"), ours),
			Want: `
				unknown gpudirect.path GPU memory ()
			` + old,
		},
		{
			Name: "an image, peermem", Blocks: `gpudirect { path = "peermem" }`, Facts: rootDirectory(machine()),
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: "skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)",
		},
		{
			Name: "an image, any", Blocks: `gpudirect {}`, Facts: rootDirectory(machine(ours)),
			Want: `
				deferred gpudirect.path GPU memory ()
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
			`,
		},
		{
			Name: "an image, dma-buf", Blocks: `gpudirect { path = "dmabuf" }`, Facts: rootDirectory(machine()),
			Want: "skipped gpudirect.path GPU memory ()",
		},
		{
			Name: "another block wants the module gone", Blocks: `gpudirect {}
				kernel_module "nvidia_peermem" { state = "unloaded" }`,
			Facts: machine(),
			Says:  []string{`kernel module nvidia_peermem "loaded" is wanted by path = "any" (node.hcl:1), and kernel_module.nvidia_peermem wants "unloaded" (node.hcl:2)`},
			Want: `
				drift gpudirect.path GPU memory (/sys/module/nvidia_peermem)
				ok kernel_module.running nv_peer_mem (/sys/module/nv_peer_mem)
				drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				conflict profile.contradiction kernel module nvidia_peermem (node.hcl:2)
				skipped service.not_installed nv_peer_mem.service (nv_peer_mem.service)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				conflict profile.contradiction kernel module nvidia_peermem (node.hcl:1)
			`,
		},
	})
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name, block string
		want        []string
	}{
		{"nothing set", `gpudirect {}`, nil},
		{"a parameter", `gpudirect { options = { peerdirect_support = 1 } }`, nil},
		{"no parameter's name", `gpudirect { options = { "peerdirect support" = 1 } }`, []string{"options.peerdirect support: modprobe.d cannot hold this option"}},
		{"a module that is not used", "gpudirect {\npath = \"dmabuf\"\noptions = { peerdirect_support = 1 }\n}", []string{"options: parameters of a module that is not used"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range (gpudirect.Type{}).Validate(plantest.Blocks(t, types, tt.block)[0]) {
				at := p.Attribute
				if p.Key != "" {
					at += "." + p.Key
				}
				got = append(got, at+": "+p.Summary)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWithheldPath: of a path that is not known nothing follows.
func TestWithheldPath(t *testing.T) {
	b := plantest.Blocks(t, types, `gpudirect {}`)[0]
	b.Attributes["path"] = plantest.Blocks(t, types, `kernel_module "x" {}`)[0].Attributes["state"] // null
	b.Withheld = []plan.Withheld{{Attribute: "path", Reason: "no GPU"}}
	got := plantest.Summarize(plantest.Planner(types).Plan([]plan.Block{b}, machine()))
	if want := "unknown gpudirect.withheld path (node.hcl:1)\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
