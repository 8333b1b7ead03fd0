package kernelmodule_test

import (
	"testing"

	"busbar/modules/kernelmodule"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{kernelmodule.Type{}}

// module is the state of a module that every installed kernel has on disk.
func module(name string, change func(*node.ModuleState)) node.Answer {
	m := node.ModuleState{Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: "kernel/" + name + ".ko", Signed: node.Known(true, node.Source{})}}}
	if change != nil {
		change(&m)
	}
	return node.Module.Answer(name, node.Known(m, node.Source{Path: "/sys/module/" + name}))
}

func isLoaded(m *node.ModuleState) { m.Loaded = true }

func modprobe(files map[string]string) node.Answer {
	return plantest.Files(node.ModprobeFiles, files)
}

func modulesLoad(files map[string]string) node.Answer {
	return plantest.Files(node.ModulesLoadFiles, files)
}

func TestModule(t *testing.T) {
	const name = "nvidia_peermem"
	wanted := `kernel_module "nvidia-peermem" { state = "loaded" }`
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "missing now and at boot", Blocks: wanted, Facts: plantest.Node(module(name, nil)),
			Texts: map[string]string{"/etc/modules-load.d/busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nnvidia_peermem\n"},
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				!drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:nvidia_peermem
			`,
		},
		{
			Name: "its init hangs", Blocks: wanted,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) { m.Changing = "coming" }), modulesLoad(map[string]string{"/etc/modules-load.d/nvidia.conf": "nvidia-peermem\n"})),
			Says:  []string{"nvidia_peermem is being loaded: its init function has not returned, loaded is wanted"},
			Want: `
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "its exit hangs", Blocks: `kernel_module "nvidia-peermem" {
				state = "unloaded"
				boot  = "unmanaged"
			}`,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) { m.Changing, m.RefCount = "going", 0 })),
			Says:  []string{"nvidia_peermem is being unloaded: its exit function has not returned, unloaded is wanted"},
			Want: `
				drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "loaded, and a file of others loads it", Blocks: wanted,
			Facts: plantest.Node(module(name, isLoaded), modulesLoad(map[string]string{"/etc/modules-load.d/nvidia.conf": "nvidia-peermem\n"})),
			Want: `
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "a script appends to its file at every run, two packages have one line each", Blocks: wanted,
			Facts: plantest.Node(module(name, isLoaded), modulesLoad(map[string]string{
				"/etc/modules-load.d/a.conf": "nvidia_peermem\n", "/etc/modules-load.d/b.conf": "x\nnvidia-peermem\nnvidia_peermem\nnvidia_peermem\n",
			})),
			Says: []string{"/etc/modules-load.d/b.conf names nvidia_peermem on line 2 already"},
			Want: `
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/a.conf:1)
				drift info kernel_module.repeated_line nvidia_peermem (/etc/modules-load.d/b.conf:3)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "busbar's own line is not needed any more", Blocks: wanted,
			Facts: plantest.Node(module(name, isLoaded), modulesLoad(map[string]string{
				"/etc/modules-load.d/nvidia.conf": "nvidia_peermem\n", "/etc/modules-load.d/busbar.conf": "nvidia_peermem\n",
			})),
			Want: `
				ok kernel_module.boot nvidia_peermem (/etc/modules-load.d/nvidia.conf:1)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				!drift file.stale /etc/modules-load.d/busbar.conf (/etc/modules-load.d/busbar.conf)
				step remove-file:/etc/modules-load.d/busbar.conf
			`,
		},
		{
			Name: "no block is left", Facts: plantest.Node(modulesLoad(map[string]string{"/etc/modules-load.d/busbar.conf": "nvidia_peermem\n"})),
			Want: `
				!drift file.stale /etc/modules-load.d/busbar.conf (/etc/modules-load.d/busbar.conf)
				step remove-file:/etc/modules-load.d/busbar.conf
			`,
		},
		{
			Name: "blacklisted", Blocks: wanted,
			Facts: plantest.Node(module(name, isLoaded), modprobe(map[string]string{"/etc/modprobe.d/ofed.conf": "blacklist mlx5_core\nblacklist nvidia-peermem\n"})),
			Says:  []string{"nvidia_peermem is wanted at boot (node.hcl:1) and kept out by /etc/modprobe.d/ofed.conf:2 (blacklisted)"},
			Want: `
				conflict kernel_module.boot nvidia_peermem (/etc/modprobe.d/ofed.conf:2)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "blacklisted, taken over", Blocks: `kernel_module "nvidia-peermem" {
				state     = "loaded"
				take_over = true
			}`,
			Facts: plantest.Node(module(name, isLoaded), modprobe(map[string]string{"/etc/modprobe.d/ofed.conf": "blacklist mlx5_core\nblacklist nvidia-peermem\noptions x y=1"})),
			Texts: map[string]string{"/etc/modprobe.d/ofed.conf": "blacklist mlx5_core\noptions x y=1"},
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modprobe.d/ofed.conf:2)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				step write-file:/etc/modprobe.d/ofed.conf
				step write-file:/etc/modules-load.d/busbar.conf
			`,
		},
		{
			Name: "an install line refuses it", Blocks: wanted,
			Facts: plantest.Node(module(name, nil), modprobe(map[string]string{"/etc/modprobe.d/cis.conf": "install nvidia-peermem /bin/false\n"})),
			Says:  []string{"kept out by /etc/modprobe.d/cis.conf:1: install nvidia_peermem /bin/false"},
			Want: `
				conflict kernel_module.boot nvidia_peermem (/etc/modprobe.d/cis.conf:1)
				conflict kernel_module.running nvidia_peermem (/etc/modprobe.d/cis.conf:1)
			`,
		},
		{
			Name: "an install line refuses it at the next boot", Blocks: wanted,
			Facts: plantest.Node(module(name, isLoaded), modprobe(map[string]string{"/etc/modprobe.d/cis.conf": "install nvidia* /bin/true\n"})),
			Says:  []string{"it holds for other modules too"},
			Want: `
				conflict kernel_module.boot nvidia_peermem (/etc/modprobe.d/cis.conf:1)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "an install line and a blacklist, taken over in one step", Blocks: `kernel_module "nvidia-peermem" {
				state     = "loaded"
				take_over = true
			}`,
			Facts: plantest.Node(module(name, nil), modprobe(map[string]string{"/etc/modprobe.d/cis.conf": "install nvidia-peermem /bin/false\nblacklist nvidia_peermem\n"})),
			Texts: map[string]string{"/etc/modprobe.d/cis.conf": ""},
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modprobe.d/cis.conf:2)
				!drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				step write-file:/etc/modprobe.d/cis.conf
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:nvidia_peermem
			`,
		},
		{
			Name: "an install line taken over, boot left alone", Blocks: `kernel_module "nvidia-peermem" {
				state     = "loaded"
				boot      = "unmanaged"
				take_over = true
			}`,
			Facts: plantest.Node(module(name, nil), modprobe(map[string]string{"/etc/modprobe.d/cis.conf": "install nvidia-peermem /bin/false\n"})),
			Want: `
				!drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				step write-file:/etc/modprobe.d/cis.conf
				step load-module:nvidia_peermem
			`,
		},
		{
			Name: "a pattern cannot be taken over", Blocks: `kernel_module "nvidia-peermem" {
				state     = "loaded"
				take_over = true
			}`,
			Facts: plantest.Node(module(name, nil), modprobe(map[string]string{"/etc/modprobe.d/cis.conf": "install nvidia* /bin/false\n"})),
			Want: `
				conflict kernel_module.boot nvidia_peermem (/etc/modprobe.d/cis.conf:1)
				conflict kernel_module.running nvidia_peermem (/etc/modprobe.d/cis.conf:1)
			`,
		},
		{
			Name: "built in", Blocks: `kernel_module "loop" { state = "loaded" }
				kernel_module "ext4" { state = "unloaded" }`,
			Facts: plantest.Node(
				module("loop", func(m *node.ModuleState) {
					*m = node.ModuleState{Loaded: true, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, BuiltIn: true}}}
				}),
				module("ext4", func(m *node.ModuleState) {
					*m = node.ModuleState{Loaded: true, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, BuiltIn: true}}}
				})),
			Want: `
				unsupported kernel_module.boot ext4 (/sys/module/ext4)
				unsupported kernel_module.running ext4 (/sys/module/ext4)
				ok kernel_module.boot loop (/sys/module/loop)
				ok kernel_module.running loop (/sys/module/loop)
			`,
		},
		{
			Name: "not on disk for the running kernel", Blocks: wanted,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) {
				m.Kernels = []node.ModuleOnDisk{{Release: "6.8.0-40-generic", Path: "x.ko"}, {Release: plantest.Kernel}}
			})),
			Says: []string{"build it for " + plantest.Kernel},
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				unsupported kernel_module.running nvidia_peermem (/lib/modules/6.8.0-45-generic)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				unsupported kernel_module.running nvidia_peermem (/lib/modules/6.8.0-45-generic)
			`,
		},
		{
			Name: "the running kernel's modules are gone", Blocks: `kernel_module "nvidia-peermem" {
				state = "loaded"
				boot  = "unmanaged"
			}`,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) {
				m.Kernels = []node.ModuleOnDisk{{Release: "6.8.0-99-generic", Path: "x.ko"}}
			})),
			Want: `
				unsupported kernel_module.running nvidia_peermem (/lib/modules/6.8.0-45-generic)
			`,
		},
		{
			Name: "not on disk for the next kernel", Blocks: `kernel_module "nvidia-peermem" { boot = "loaded" }`,
			Facts: plantest.Node(
				module(name, func(m *node.ModuleState) {
					m.Kernels = []node.ModuleOnDisk{{Release: "6.8.0-99-generic"}, {Release: "6.8.0-20-generic"}, {Release: plantest.Kernel, Path: "x.ko"}}
				}),
				node.Boot.Answer("", node.Known(node.BootConfig{Loader: node.LoaderGRUBDebian, Generated: "menuentry a {\n linux /vmlinuz-6.8.0-99-generic root=UUID=01 ro\n}\n"}, node.Source{}))),
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				unsupported kernel_module.next_kernel nvidia_peermem (/lib/modules/6.8.0-99-generic)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				unsupported kernel_module.next_kernel nvidia_peermem (/lib/modules/6.8.0-99-generic)
			`,
		},
		{
			Name: "nowhere on disk", Blocks: wanted,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) { m.Kernels = []node.ModuleOnDisk{{Release: plantest.Kernel}} })),
			Want: `
				unsupported kernel_module.running nvidia_peermem (/lib/modules/6.8.0-45-generic)
			`,
		},
		{
			Name: "a container owns it", Blocks: wanted,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) {
				*m = node.ModuleState{Loaded: true, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel}}}
			}), modulesLoad(map[string]string{"/etc/modules-load.d/busbar.conf": "nvidia_peermem\n"})),
			Says: []string{"a driver container owns it"},
			Want: `
				skipped info kernel_module.container nvidia_peermem (/sys/module/nvidia_peermem)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				!drift file.stale /etc/modules-load.d/busbar.conf (/etc/modules-load.d/busbar.conf)
				step remove-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				skipped info kernel_module.container nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "unsigned under Secure Boot", Blocks: wanted,
			Facts: plantest.Node(module(name, func(m *node.ModuleState) {
				m.Kernels[0].Signed = node.Known(false, node.Source{Path: "/lib/modules/x.ko"})
			}), node.ModuleSigning.Answer("", node.Known(node.ModuleSigningState{Enforced: true, Lockdown: "integrity"}, node.Source{}))),
			Says: []string{"enrol the key"},
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				unsupported kernel_module.running nvidia_peermem (/lib/modules/x.ko)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				unsupported kernel_module.running nvidia_peermem (/lib/modules/x.ko)
			`,
		},
		{
			Name: "no module can be loaded", Blocks: wanted,
			Facts: plantest.Node(module(name, nil), node.ModuleSigning.Answer("", node.Known(node.ModuleSigningState{ModulesDisabled: true}, node.Source{}))),
			Says:  []string{"kernel.modules_disabled"},
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				unsupported kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				unsupported kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "refused by the kernel's command line", Blocks: wanted,
			Facts: plantest.Node(module(name, nil), plantest.CommandLine("module_blacklist=nouveau,nvidia_peermem")),
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				conflict kernel_module.running nvidia_peermem (/proc/cmdline)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				conflict kernel_module.running nvidia_peermem (/proc/cmdline)
			`,
		},
		{
			Name: "unloaded", Blocks: `kernel_module "nouveau" { state = "unloaded" }`,
			Facts: plantest.Node(module("nouveau", isLoaded)),
			Texts: map[string]string{"/etc/modprobe.d/zz-busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nblacklist nouveau\n"},
			Want: `
				ok initramfs.modprobe nouveau (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.blacklist nouveau (/etc/modprobe.d)
				ok kernel_module.boot nouveau (/etc/modules-load.d)
				!drift kernel_module.running nouveau (/sys/module/nouveau)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				step unload-module:nouveau
			`,
		},
		{
			Name: "unloaded, blacklisted by others", Blocks: `kernel_module "nouveau" { state = "unloaded" }`,
			Facts: plantest.Node(module("nouveau", nil), modprobe(map[string]string{"/usr/lib/modprobe.d/nvidia.conf": "# x\nblacklist nouveau\n"})),
			Want: `
				ok initramfs.modprobe nouveau (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.blacklist nouveau (/usr/lib/modprobe.d/nvidia.conf:2)
				ok kernel_module.boot nouveau (/etc/modules-load.d)
				ok kernel_module.running nouveau (/sys/module/nouveau)
			`,
		},
		{
			Name: "held", Blocks: `kernel_module "nvidia" {
					state = "unloaded"
					boot  = "unmanaged"
				}
				kernel_module "nouveau" {
					state = "unloaded"
					boot  = "unmanaged"
				}`,
			Facts: plantest.Node(
				module("nvidia", func(m *node.ModuleState) {
					m.Loaded, m.RefCount, m.Holders = true, 3, []string{"gdrdrv", "nvidia_peermem"}
				}),
				module("nouveau", func(m *node.ModuleState) { m.Loaded, m.RefCount = true, 1 })),
			Says: []string{"held by gdrdrv, nvidia_peermem", "1 users hold it"},
			Want: `
				conflict kernel_module.running nouveau (/sys/module/nouveau/refcnt)
				conflict kernel_module.running nvidia (/sys/module/nvidia/holders)
			`,
		},
		{
			Name: "loaded at boot by others", Blocks: `kernel_module "nv_peer_mem" { boot = "unloaded" }`,
			Facts: plantest.Node(module("nv_peer_mem", nil), modulesLoad(map[string]string{"/etc/modules-load.d/mlnx.conf": "ib_umad\nnv-peer-mem\n"})),
			Want: `
				ok initramfs.modprobe nv_peer_mem (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.blacklist nv_peer_mem (/etc/modprobe.d)
				conflict kernel_module.boot nv_peer_mem (/etc/modules-load.d/mlnx.conf:2)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
			After: `
				conflict kernel_module.boot nv_peer_mem (/etc/modules-load.d/mlnx.conf:2)
			`,
		},
		{
			Name: "loaded at boot by others, taken over", Blocks: `kernel_module "nv_peer_mem" {
				boot      = "unloaded"
				take_over = true
			}`,
			Facts: plantest.Node(module("nv_peer_mem", nil), modulesLoad(map[string]string{"/etc/modules-load.d/mlnx.conf": "ib_umad\nnv-peer-mem\n"})),
			Texts: map[string]string{"/etc/modules-load.d/mlnx.conf": "ib_umad\n"},
			Want: `
				ok initramfs.modprobe nv_peer_mem (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.blacklist nv_peer_mem (/etc/modprobe.d)
				!drift kernel_module.boot nv_peer_mem (/etc/modules-load.d/mlnx.conf:2)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				step write-file:/etc/modules-load.d/mlnx.conf
			`,
		},
		{
			Name: "no longer loaded at boot", Blocks: `kernel_module "nv_peer_mem" { boot = "unloaded" }`,
			Facts: plantest.Node(module("nv_peer_mem", nil), modulesLoad(map[string]string{"/etc/modules-load.d/busbar.conf": "nv_peer_mem\n"})),
			Want: `
				ok initramfs.modprobe nv_peer_mem (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.blacklist nv_peer_mem (/etc/modprobe.d)
				!drift kernel_module.boot nv_peer_mem (/etc/modules-load.d/busbar.conf:1)
				step remove-file:/etc/modules-load.d/busbar.conf
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "two blocks contradict each other", Blocks: `kernel_module "nvidia-peermem" { state = "loaded" }
kernel_module "nvidia_peermem" { state = "unloaded" }`,
			Facts: plantest.Node(module(name, nil)),
			Says:  []string{`kernel module nvidia_peermem "loaded" is wanted (node.hcl:1), and kernel_module.nvidia_peermem wants "unloaded" (node.hcl:2)`},
			Want: `
				drift kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				conflict profile.contradiction kernel module nvidia_peermem (node.hcl:2)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
				conflict profile.contradiction kernel module nvidia_peermem (node.hcl:1)
			`,
		},
		{
			Name: "an RDMA driver", Blocks: `kernel_module "mlx5_ib" { state = "loaded" }`, Facts: plantest.Node(module("mlx5_ib", nil)),
			Want: `
				!drift kernel_module.boot mlx5_ib (/etc/modules-load.d)
				!drift kernel_module.running mlx5_ib (/sys/module/mlx5_ib)
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:mlx5_ib
			`,
		},
		{
			Name: "unknown", Blocks: wanted, Facts: plantest.Node(node.Module.Answer(name, node.Unknown[node.ModuleState]("permission denied", node.Source{Path: "/lib/modules"}))),
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				unknown kernel_module.running nvidia_peermem (/lib/modules)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
			After: `
				unknown kernel_module.running nvidia_peermem (/lib/modules)
			`,
		},
		{
			Name: "an unreadable file", Blocks: wanted, Facts: plantest.Node(module(name, isLoaded), modprobe(map[string]string{"/etc/modprobe.d/x.conf": "?"})),
			Want: `
				unknown kernel_module.boot nvidia_peermem (/etc/modprobe.d/x.conf)
				unknown kernel_module.modprobe blacklist nvidia_peermem (/etc/modprobe.d/x.conf)
				unknown kernel_module.modprobe install nvidia_peermem (/etc/modprobe.d/x.conf)
				ok kernel_module.running nvidia_peermem (/sys/module/nvidia_peermem)
			`,
		},
		{
			Name: "a directory tree", Blocks: wanted, Facts: root(plantest.Node(module(name, nil))),
			Want: `
				!drift kernel_module.boot nvidia_peermem (/etc/modules-load.d)
				step write-file:/etc/modules-load.d/busbar.conf
			`,
		},
	})
}

func root(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.RootDirectory = true
	return f.WithInventory(inv)
}

func TestOptions(t *testing.T) {
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "not given", Blocks: `kernel_module "nvidia" { options = { NVreg_EnableResizableBar = "1" } }`,
			Facts: plantest.Node(module("nvidia", nil)),
			Texts: map[string]string{"/etc/modprobe.d/zz-busbar.conf": "# Written by busbar. It owns this file: edits are lost.\noptions nvidia NVreg_EnableResizableBar=1\n"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "a value with blanks", Blocks: `kernel_module "nvidia" { options = { NVreg_X = "a b", NVreg_Y = "\"c d\"" } }`, Facts: plantest.Node(module("nvidia", nil)),
			Texts: map[string]string{"/etc/modprobe.d/zz-busbar.conf": "# Written by busbar. It owns this file: edits are lost.\noptions nvidia NVreg_X=\"a b\"\noptions nvidia NVreg_Y=\"c d\"\n"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_X (/etc/modprobe.d)
				!drift kernel_module.option nvidia.NVreg_Y (/etc/modprobe.d)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "given by others, quotes and blanks apart", Blocks: `kernel_module "nvidia" { options = { NVreg_RegistryDwords = "\"A=1;B=2\"" } }`,
			Facts: plantest.Node(module("nvidia", nil), modprobe(map[string]string{"/etc/modprobe.d/nvidia.conf": `options nvidia "NVreg_RegistryDwords=A=1;B=2"` + "\n"})),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_RegistryDwords (/etc/modprobe.d/nvidia.conf:1)
			`,
		},
		{
			Name: "others are read before", Blocks: `kernel_module "nvidia" { options = { a = "1" } }`,
			Facts: plantest.Node(module("nvidia", nil), modprobe(map[string]string{"/etc/modprobe.d/a.conf": "options nvidia a=0 b=1\n"})),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.a (/etc/modprobe.d/a.conf:1)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "others are read after", Blocks: `kernel_module "nvidia" { options = { a = "1" } }`,
			Facts: plantest.Node(module("nvidia", nil), modprobe(map[string]string{"/etc/modprobe.d/zzz-nvidia.conf": "options nvidia a=0 b=1\n"})),
			Says:  []string{"a=1 is wanted (node.hcl:1), /etc/modprobe.d/zzz-nvidia.conf:1 gives a=0 and is read last"},
			Want: `
				conflict kernel_module.option nvidia.a (/etc/modprobe.d/zzz-nvidia.conf:1)
			`,
		},
		{
			Name: "others are taken over", Blocks: `kernel_module "nvidia" {
				options   = { a = "1", c = "1" }
				take_over = true
			}`,
			Facts: plantest.Node(module("nvidia", nil), modprobe(map[string]string{"/etc/modprobe.d/zzz-nvidia.conf": "options nvidia a=0 b=1\tc=0\noptions nvidia c=2\n"})),
			Texts: map[string]string{"/etc/modprobe.d/zzz-nvidia.conf": "options nvidia b=1\n"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.a (/etc/modprobe.d/zzz-nvidia.conf:1)
				!drift kernel_module.option nvidia.c (/etc/modprobe.d/zzz-nvidia.conf:2)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				step write-file:/etc/modprobe.d/zzz-nvidia.conf
			`,
		},
		{
			Name: "a package's file is hidden by a copy below /etc", Blocks: `kernel_module "dummy" {
				boot      = "loaded"
				options   = { numdummies = 2 }
				take_over = true
			}`,
			Facts: plantest.Node(module("dummy", nil), modprobe(map[string]string{"/usr/lib/modprobe.d/zzz-systemd.conf": "blacklist dummy\noptions dummy numdummies=0\noptions bonding max_bonds=0\n"})),
			Texts: map[string]string{"/etc/modprobe.d/zzz-systemd.conf": "options bonding max_bonds=0\n"},
			Want: `
				ok initramfs.modprobe dummy (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.boot dummy (/usr/lib/modprobe.d/zzz-systemd.conf:1)
				!drift kernel_module.option dummy.numdummies (/usr/lib/modprobe.d/zzz-systemd.conf:2)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				step write-file:/etc/modprobe.d/zzz-systemd.conf
				step write-file:/etc/modules-load.d/busbar.conf
			`,
		},
		{
			Name: "a statement of several lines is not cut", Blocks: `kernel_module "nvidia" {
				options   = { a = "1" }
				take_over = true
			}`,
			Facts: plantest.Node(module("nvidia", nil), modprobe(map[string]string{"/etc/modprobe.d/zzz-nvidia.conf": "options nvidia b=1 \\\n a=0\n"})),
			Want: `
				conflict kernel_module.option nvidia.a (/etc/modprobe.d/zzz-nvidia.conf:1)
			`,
		},
		{
			Name: "in force", Blocks: `kernel_module "nvidia" { options = { a = "1", b-x = "0x10", c = "text", d = "1", e = "on" } }`,
			Facts: plantest.Node(module("nvidia", func(m *node.ModuleState) {
				m.Loaded, m.Parameters = true, map[string]string{"a": "Y", "b_x": "16", "c": "text", "d": "0"}
			}), modprobe(map[string]string{"/etc/modprobe.d/nvidia.conf": "options nvidia a=1 b_x=0x10 c=text d=1 e=on\n"})),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.a (/etc/modprobe.d/nvidia.conf:1)
				ok kernel_module.option nvidia.b_x (/etc/modprobe.d/nvidia.conf:1)
				ok kernel_module.option nvidia.c (/etc/modprobe.d/nvidia.conf:1)
				ok kernel_module.option nvidia.d (/etc/modprobe.d/nvidia.conf:1)
				ok kernel_module.option nvidia.e (/etc/modprobe.d/nvidia.conf:1)
				ok kernel_module.option_in_force nvidia.a (/sys/module/nvidia/parameters/a)
				ok kernel_module.option_in_force nvidia.b-x (/sys/module/nvidia/parameters/b-x)
				ok kernel_module.option_in_force nvidia.c (/sys/module/nvidia/parameters/c)
				pending-reboot kernel_module.option_in_force nvidia.d (/sys/module/nvidia/parameters/d)
				unknown info kernel_module.option_in_force nvidia.e (/sys/module/nvidia/parameters/e)
			`,
		},
	})
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`kernel_module "nvidia" { state = "loaded" }`:                    0,
		`kernel_module "nvidia" {}`:                                      1,
		`kernel_module "a b" { state = "loaded" }`:                       1,
		`kernel_module "nvidia" { options = { a = "1\n", b = "ok" } }`:   1,
		`kernel_module "nvidia" { options = { NVreg = "\"A=1;B=2\"" } }`: 0,
		`kernel_module "nvidia" { options = { NVreg = "a b" } }`:         0,
		`kernel_module "nvidia" { options = { NVreg = "a \"b" } }`:       1,
		`kernel_module "nvidia" { options = { NVreg = "\"a\" b=1" } }`:   1,
	} {
		if problems := (kernelmodule.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
