package rdma_test

import (
	"testing"

	"busbar/modules/kernelmodule"
	"busbar/modules/rdma"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{rdma.Type{}, kernelmodule.Type{}}

// module is a module that the model node's kernel has on disk.
func module(name string, loaded bool, parameters map[string]string) node.Answer {
	source := node.Source{Path: "/lib/modules"}
	if loaded {
		source.Path = "/proc/modules"
	}
	return node.Module.Answer(name, node.Known(node.ModuleState{
		Loaded: loaded, Parameters: parameters,
		Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: "/lib/modules/" + plantest.Kernel + "/" + name + ".ko", Signed: node.Known(true, source)}},
	}, source))
}

func core(mode string) node.Answer {
	return module("ib_core", true, map[string]string{"netns_mode": mode})
}

func TestRDMA(t *testing.T) {
	exclusive := `rdma { netns_mode = "exclusive" }`
	const (
		file   = "/etc/modprobe.d/zz-busbar.conf"
		header = "# Written by busbar. It owns this file: edits are lost.\n"
	)
	const parameter = "/sys/module/ib_core/parameters/netns_mode"
	root := plantest.Node(core("Y"))
	inv := root.Inventory
	inv.RootDirectory = true
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "shared, exclusive is wanted", Blocks: exclusive, Facts: plantest.Node(core("Y")),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option ib_core.netns_mode (/etc/modprobe.d)
				!drift rdma.netns_mode ib_core (` + parameter + `)
				step write-file:` + file + `
				step set-rdma-netns:ib_core
			`,
			Texts: map[string]string{file: header + "options ib_core netns_mode=0\n"},
			Says:  []string{"the network namespace mode of RDMA devices is shared, wanted is exclusive"},
		},
		{
			Name: "exclusive already", Blocks: exclusive,
			Facts: plantest.Node(core("N"), plantest.Files(node.ModprobeFiles, map[string]string{file: header + "options ib_core netns_mode=0\n"})),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option ib_core.netns_mode (` + file + `:2)
				ok rdma.netns_mode ib_core (` + parameter + `)
			`,
		},
		{
			Name: "the live mode was set, the next boot forgets it", Blocks: exclusive, Facts: plantest.Node(core("N")),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option ib_core.netns_mode (/etc/modprobe.d)
				ok rdma.netns_mode ib_core (` + parameter + `)
				step write-file:` + file + `
			`,
		},
		{
			Name: "another file says shared, and is read last", Blocks: `rdma { netns_mode = "exclusive" }`,
			Facts: plantest.Node(core("N"), plantest.Files(node.ModprobeFiles, map[string]string{"/etc/modprobe.d/zzz-site.conf": "options ib_core netns_mode=1\n"})),
			Want: `
				conflict kernel_module.option ib_core.netns_mode (/etc/modprobe.d/zzz-site.conf:1)
				ok rdma.netns_mode ib_core (` + parameter + `)
			`,
			After: `
				conflict kernel_module.option ib_core.netns_mode (/etc/modprobe.d/zzz-site.conf:1)
			`,
		},
		{
			Name: "another block says shared", Blocks: exclusive + "\n" + `kernel_module "ib_core" { options = { netns_mode = 1 } }`, Facts: plantest.Node(core("Y")),
			Says: []string{`options ib_core netns_mode "0" is wanted (node.hcl:1), and kernel_module.ib_core wants "1" (node.hcl:2)`},
			Want: `
				ok kernel_module.option_in_force ib_core.netns_mode (` + parameter + `)
				conflict profile.contradiction options ib_core netns_mode (node.hcl:1)
				conflict profile.contradiction options ib_core netns_mode (node.hcl:2)
				drift rdma.netns_mode ib_core (` + parameter + `)
			`,
			After: `
				conflict profile.contradiction options ib_core netns_mode (node.hcl:1)
				conflict profile.contradiction options ib_core netns_mode (node.hcl:2)
				drift rdma.netns_mode ib_core (` + parameter + `)
			`,
		},
		{
			Name: "ib_core is not loaded", Blocks: `rdma { netns_mode = "shared" }`, Facts: plantest.Node(module("ib_core", false, nil)),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option ib_core.netns_mode (/etc/modprobe.d)
				skipped rdma.netns_mode ib_core (/lib/modules)
			`,
			After: `
				skipped rdma.netns_mode ib_core (/lib/modules)
			`,
		},
		{
			Name: "shared is the default, and another file says exclusive", Blocks: `rdma { netns_mode = "shared" }`,
			Facts: plantest.Node(core("Y"), plantest.Files(node.ModprobeFiles, map[string]string{"/etc/modprobe.d/a-site.conf": "options ib_core netns_mode=0\n"})),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option ib_core.netns_mode (/etc/modprobe.d/a-site.conf:1)
				ok rdma.netns_mode ib_core (` + parameter + `)
				step write-file:` + file + `
			`,
			Texts: map[string]string{file: header + "options ib_core netns_mode=1\n"},
		},
		{
			Name: "shared is the default, and busbar's file has nothing to say", Blocks: `rdma { netns_mode = "shared" }`,
			Facts: plantest.Node(core("Y"), plantest.Files(node.ModprobeFiles, map[string]string{file: header + "options ib_core netns_mode=1\n"})),
			Want: `
				!drift file.stale ` + file + ` (` + file + `)
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option ib_core.netns_mode (` + file + `:2)
				ok rdma.netns_mode ib_core (` + parameter + `)
				step remove-file:` + file + `
			`,
		},
		{
			Name: "a kernel without the mode", Blocks: exclusive, Facts: plantest.Node(module("ib_core", true, nil), plantest.Files(node.ModprobeFiles, map[string]string{file: header + "options ib_core netns_mode=0\n"})),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option ib_core.netns_mode (` + file + `:2)
				unsupported rdma.netns_mode ib_core (` + parameter + `)
			`,
			After: `
				unsupported rdma.netns_mode ib_core (` + parameter + `)
			`,
		},
		{
			Name: "unknown", Blocks: exclusive, Facts: plantest.Node(core("?"), plantest.Files(node.ModprobeFiles, map[string]string{file: header + "options ib_core netns_mode=0\n"})), Says: []string{`"?" is neither Y nor N`},
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option ib_core.netns_mode (` + file + `:2)
				unknown rdma.netns_mode ib_core (` + parameter + `)
			`,
			After: `
				unknown rdma.netns_mode ib_core (` + parameter + `)
			`,
		},
		{
			Name: "not read", Blocks: exclusive, Facts: plantest.Node(plantest.Files(node.ModprobeFiles, map[string]string{file: header + "options ib_core netns_mode=0\n"})),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option ib_core.netns_mode (` + file + `:2)
				unknown rdma.netns_mode ib_core ()
			`,
			After: `
				unknown rdma.netns_mode ib_core ()
			`,
		},
		{
			Name: "a directory tree", Blocks: exclusive, Facts: root.WithInventory(inv),
			Want: `
				ok initramfs.modprobe ib_core (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option ib_core.netns_mode (/etc/modprobe.d)
				step write-file:` + file + `
			`,
		},
		{
			Name: "modules, one of them twice, blacklisted and loaded", Blocks: `rdma {
				modules   = ["rdma-ucm", "ib_umad", "rdma_ucm"]
				take_over = true
			}`,
			Facts: plantest.Node(module("ib_umad", true, nil), module("rdma_ucm", false, nil), plantest.Files(node.ModprobeFiles, map[string]string{"/etc/modprobe.d/site.conf": "blacklist rdma_ucm\n"})),
			Want: `
				!drift kernel_module.boot ib_umad (/etc/modules-load.d)
				!drift kernel_module.boot rdma_ucm (/etc/modprobe.d/site.conf:1)
				ok kernel_module.running ib_umad (/proc/modules)
				!drift kernel_module.running rdma_ucm (/lib/modules)
				step write-file:/etc/modprobe.d/site.conf
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:rdma_ucm
			`,
			Texts: map[string]string{"/etc/modules-load.d/busbar.conf": header + "ib_umad\nrdma_ucm\n"},
		},
	})
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`rdma { netns_mode = "shared" }`:           0,
		`rdma { modules = ["ib_umad"] }`:           0,
		`rdma {}`:                                  1,
		`rdma { modules = ["../x", "a b", "ok"] }`: 2,
	} {
		if problems := (rdma.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
