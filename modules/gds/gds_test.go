package gds_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/checks"
	"busbar/internal/cufile"
	"busbar/internal/pciregs"
	"busbar/modules/gds"
	"busbar/modules/kernelmodule"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{gds.Type{}, kernelmodule.Type{}, checks.GPUDirectStorage{}}

const (
	fs      = "nvidia_fs"
	version = "/proc/driver/nvidia-fs/version"
	gpu     = "0000:1b:00.0"
	drive   = "0000:1a:00.0"
	// vendors is a file as the CUDA toolkit brings it, shortened.
	vendors = `{
            "properties": {
                            // allow compat mode, this will enable use of cuFile posix read/writes
                            "allow_compat_mode": true,
                            "max_direct_io_size_kb" : 16384
            }
}
`
)

// machine has a GPU and a drive below one switch, the open driver with what P2PDMA needs, a kernel that has it, neither
// nvidia_fs nor a cufile.json, and answers.
func machine(answers ...node.Answer) node.Facts {
	f := plantest.Node(slices.Concat([]node.Answer{
		driver("580.95.05", true, "RMForceStaticBar1=1;RmForceDisableIomapWC=1"), module(fs, false, nil), module("nvme_core", true, map[string]string{"multipath": "N"}),
		node.KernelConfig.Answer("CONFIG_PCI_P2PDMA", node.Known("y", node.Source{Path: "/boot/config-" + plantest.Kernel})),
		file(version, ""), file(cufile.Path, ""), iommu("identity"),
		acs("0000:17:00.0", 0), acs("0000:18:00.0", 0), acs("0000:18:01.0", 0),
	}, answers)...)
	inv := f.Inventory
	inv.Virtualization = node.Known("none", node.Source{})
	port := func(address, parent string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: "1000", Device: "c030", Class: "060400", Driver: "pcieport", Parent: parent}
	}
	inv.PCI = node.Known([]node.PCIFunction{
		port("0000:16:01.0", ""), port("0000:17:00.0", "0000:16:01.0"), port("0000:18:00.0", "0000:17:00.0"), port("0000:18:01.0", "0000:17:00.0"),
		{Address: drive, Vendor: "144d", Device: "a824", Class: "010802", Driver: "nvme", Parent: "0000:18:00.0"},
		{Address: gpu, Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia", Parent: "0000:18:01.0"},
		{Address: "0000:e8:00.0", Vendor: "144d", Device: "a824", Class: "010802", Driver: "nvme"},
	}, node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

func driver(version string, open bool, dwords string) node.Answer {
	return node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{
		Loaded: true, Version: version, Open: open, Parameters: node.Known(map[string]string{"RegistryDwords": dwords}, node.Source{Path: "/proc/driver/nvidia/params"}),
	}, node.Source{Path: "/proc/driver/nvidia/version"}))
}

func module(name string, loaded bool, parameters map[string]string) node.Answer {
	return node.Module.Answer(name, node.Known(node.ModuleState{
		Loaded: loaded, Parameters: parameters, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: name + ".ko"}},
	}, node.Source{Path: "/sys/module/" + name}))
}

func file(path, text string) node.Answer {
	return node.File.Answer(path, node.Known(node.FileState{Exists: text != "", Text: text}, node.Source{Path: path}))
}

func iommu(kind string) node.Answer {
	group := func(id int, device, kind string) node.IOMMUGroup {
		return node.IOMMUGroup{ID: id, Type: node.Known(kind, node.Source{}), Devices: []string{device}}
	}
	return node.IOMMU.Answer("", node.Known(node.IOMMUState{
		Units: []string{"dmar0"}, Groups: []node.IOMMUGroup{group(1, "0000:00:1f.0", "DMA"), group(2, gpu, "identity"), group(3, drive, kind)},
	}, node.Source{Path: "/sys/class/iommu"}))
}

func acs(address string, on pciregs.ACSBits) node.Answer {
	return node.PCIRegisters.Answer(address, node.Known(node.PCIRegisterState{ACS: node.Known(pciregs.ACS{Present: true, Supported: 0x7f, Enabled: on}, node.Source{})}, node.Source{Path: address}))
}

func atBoot() node.Answer {
	return plantest.Files(node.ModulesLoadFiles, map[string]string{"/etc/modules-load.d/nvidia-fs.conf": "nvidia-fs\n"})
}

// change returns facts with another inventory.
func change(f node.Facts, edit func(*node.Inventory)) node.Facts {
	inv := f.Inventory
	edit(&inv)
	return f.WithInventory(inv)
}

func TestGDS(t *testing.T) {
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "the module, and settings among the vendor's, whose comments stay", Blocks: `gds { settings = { "properties.allow_compat_mode" = false, "properties.rdma_dev_addr_list" = ["10.0.1.2"] } }`,
			Facts: machine(file(cufile.Path, vendors)),
			Texts: map[string]string{cufile.Path: `{
            "properties": {
                            // allow compat mode, this will enable use of cuFile posix read/writes
                            "allow_compat_mode": false,
                            "max_direct_io_size_kb" : 16384,
                            "rdma_dev_addr_list": ["10.0.1.2"]
            }
}
`},
			Says: []string{"properties.allow_compat_mode of cuFile is true, wanted is false", "properties.rdma_dev_addr_list of cuFile is not set"},
			Want: `
				!drift gds.setting properties.allow_compat_mode (/etc/cufile.json:4)
				!drift gds.setting properties.rdma_dev_addr_list (/etc/cufile.json)
				!drift kernel_module.boot nvidia_fs (/etc/modules-load.d)
				!drift kernel_module.running nvidia_fs (/sys/module/nvidia_fs)
				step write-file:/etc/cufile.json
				step write-file:/etc/modules-load.d/busbar.conf
				step load-module:nvidia_fs
			`,
		},
		{
			Name: "as wanted", Blocks: `gds { settings = { "properties.max_direct_io_size_kb" = 16384 } }`, Facts: machine(file(cufile.Path, vendors), module(fs, true, nil), atBoot()),
			Want: `
				ok gds.setting properties.max_direct_io_size_kb (/etc/cufile.json:5)
				ok kernel_module.boot nvidia_fs (/etc/modules-load.d/nvidia-fs.conf:1)
				ok kernel_module.running nvidia_fs (/sys/module/nvidia_fs)
			`,
		},
		{
			Name: "P2PDMA, no file yet", Blocks: `gds { path = "p2pdma" }`, Facts: machine(),
			Texts: map[string]string{cufile.Path: "{\n    \"properties\": {\n        \"use_pci_p2pdma\": true\n    }\n}\n"},
			Want: `
				ok gds.p2pdma P2PDMA (/proc/driver/nvidia/version)
				!drift gds.setting properties.use_pci_p2pdma (/etc/cufile.json)
				step write-file:/etc/cufile.json
			`,
		},
		{
			Name: "P2PDMA, which node and driver lack", Blocks: `gds { path = "p2pdma" }`,
			Facts: change(machine(driver("550.163.01", true, ""), file(cufile.Path, `{"properties": {"use_pci_p2pdma": true}}`), module("nvme_core", true, map[string]string{"multipath": "Y"}),
				node.KernelConfig.Answer("CONFIG_PCI_P2PDMA", node.Known("n", node.Source{}))), func(inv *node.Inventory) { inv.Kernel = node.Known("5.15.0-139-generic", node.Source{}) }),
			Says: []string{"the driver 550.163.01 is older than 565; the driver runs without RMForceStaticBar1=1; the driver runs without RmForceDisableIomapWC=1; Linux 5.15.0-139-generic is older than 6.2; the kernel was built without CONFIG_PCI_P2PDMA; multipath of NVMe is on"},
			Want: `
				drift gds.p2pdma P2PDMA (/proc/driver/nvidia/version)
				ok gds.setting properties.use_pci_p2pdma (/etc/cufile.json:1)
			`,
			After: "drift gds.p2pdma P2PDMA (/proc/driver/nvidia/version)",
		},
		{
			Name: "a file that is broken", Blocks: `gds { path = "p2pdma" }`, Facts: machine(file(cufile.Path, "{ \"properties\": {\n")),
			Says: []string{"properties.use_pci_p2pdma is to be true (node.hcl:1), and /etc/cufile.json cannot be edited: it is no JSON with comments"},
			Want: "ok gds.p2pdma P2PDMA (/proc/driver/nvidia/version)\nconflict gds.setting properties.use_pci_p2pdma (/etc/cufile.json)",
		},
		{
			Name: "a member that is no object", Blocks: `gds { path = "p2pdma" }`, Facts: machine(file(cufile.Path, `{"properties": 1}`)),
			Want: "ok gds.p2pdma P2PDMA (/proc/driver/nvidia/version)\nconflict gds.setting properties.use_pci_p2pdma (/etc/cufile.json)",
		},
		{
			Name: "/etc is made elsewhere", Blocks: `gds { path = "p2pdma" }`,
			Facts: machine(node.Mount.Answer("/etc", node.Known(node.MountState{Point: "/", Type: "ext4", Immutable: "NixOS"}, node.Source{}))),
			Says:  []string{`set environment.etc."cufile.json".text in configuration.nix`},
			Want:  "ok gds.p2pdma P2PDMA (/proc/driver/nvidia/version)\nunsupported gds.setting properties.use_pci_p2pdma (/etc/cufile.json)",
		},
		{
			Name: "no GPU", Blocks: `gds { settings = { "logging.level" = "INFO" } }`,
			Facts: change(machine(plantest.Files(node.ModulesLoadFiles, map[string]string{"/etc/modules-load.d/busbar.conf": "# Written by busbar. It owns this file: edits are lost.\nnvidia_fs\n"}), file(cufile.Path, `{"logging": {"level": "INFO"}}`)), func(inv *node.Inventory) {
				inv.PCI = node.Known([]node.PCIFunction{}, node.Source{})
			}),
			Want: "skipped gds.path GPU memory ()\nok gds.setting logging.level (/etc/cufile.json:1)",
		},
		{
			Name: "an image", Blocks: `gds { path = "p2pdma" }`, Facts: change(machine(), func(inv *node.Inventory) { inv.RootDirectory = true }),
			Want: `
				skipped gds.path GPU memory ()
				!drift gds.setting properties.use_pci_p2pdma (/etc/cufile.json)
				step write-file:/etc/cufile.json
			`,
			After: "skipped gds.path GPU memory ()",
		},
		{
			Name: "another block wants the module gone", Blocks: `gds {}` + "\n" + `kernel_module "nvidia-fs" { state = "unloaded" }`, Facts: machine(),
			Says: []string{`kernel module nvidia_fs "loaded" is wanted (node.hcl:1), and kernel_module.nvidia-fs wants "unloaded" (node.hcl:2)`},
			Want: `
				drift kernel_module.running nvidia_fs (/sys/module/nvidia_fs)
				conflict profile.contradiction kernel module nvidia_fs (node.hcl:2)
				ok kernel_module.running nvidia_fs (/sys/module/nvidia_fs)
				conflict profile.contradiction kernel module nvidia_fs (node.hcl:1)
			`,
		},
	})
}

func TestCheck(t *testing.T) {
	check := func(path string) string { return `check "gpudirect_storage" "all" { path = "` + path + `" }` }
	p2pdma := file(cufile.Path, `{"properties": {"use_pci_p2pdma": true}}`)
	healthy := `
		ok gpudirect_storage.acs ACS (/sys/bus/pci/devices)
		ok gpudirect_storage.iommu iommu (/sys/class/iommu)
	`
	noDriver := node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{}, node.Source{Path: "/proc/driver/nvidia"}))
	unread := node.KernelConfig.Answer("CONFIG_PCI_P2PDMA", node.Unknown[string]("permission denied", node.Source{}))
	cases := map[string]struct {
		path, want string
		facts      node.Facts
		says       []string
	}{
		"P2PDMA":                      {path: gds.Any, facts: machine(p2pdma), want: healthy + "ok gpudirect_storage.path GPU memory (/proc/driver/nvidia/version)"},
		"nvidia_fs":                   {path: gds.Any, facts: machine(module(fs, true, nil), file(version, "version: 2.28\n")), want: healthy + "ok gpudirect_storage.path GPU memory (" + version + ")", says: []string{"nvidia_fs 2.28 is loaded"}},
		"neither":                     {path: gds.Any, facts: machine(), want: healthy + "drift gpudirect_storage.path GPU memory (/sys/module/nvidia_fs)", says: []string{"drives cannot get at GPU memory: nvidia_fs is not loaded, and the kernel's NVMe driver cannot get at GPU memory: properties.use_pci_p2pdma of cuFile is not true"}},
		"nvidia_fs, not initialised":  {path: gds.NVIDIAFS, facts: machine(module(fs, true, nil)), want: healthy + "drift gpudirect_storage.nvidia_fs nvidia_fs (" + version + ")"},
		"no driver":                   {path: gds.P2PDMA, facts: machine(p2pdma, noDriver), want: healthy + "drift gpudirect_storage.p2pdma P2PDMA (/proc/driver/nvidia)"},
		"the proprietary driver":      {path: gds.P2PDMA, facts: machine(p2pdma, driver("580.95.05", false, "")), want: healthy + "drift gpudirect_storage.p2pdma P2PDMA (/proc/driver/nvidia/version)", says: []string{"cannot get at GPU memory: the driver's modules are the proprietary ones"}},
		"the kernel's configuration":  {path: gds.P2PDMA, facts: machine(p2pdma, unread), want: healthy + "unknown gpudirect_storage.p2pdma P2PDMA (/proc/driver/nvidia/version)", says: []string{"is unknown: CONFIG_PCI_P2PDMA: permission denied"}},
		"unknown, or not":             {path: gds.Any, facts: machine(p2pdma, unread), want: healthy + "unknown gpudirect_storage.path GPU memory ()"},
		"the drive's DMA, translated": {path: gds.P2PDMA, facts: machine(p2pdma, iommu("DMA-FQ")), want: "ok gpudirect_storage.acs ACS (/sys/bus/pci/devices)\ndrift gpudirect_storage.iommu iommu (/sys/class/iommu)\nok gpudirect_storage.p2pdma P2PDMA (/proc/driver/nvidia/version)"},
		"a port that redirects": {
			path: gds.P2PDMA, facts: machine(p2pdma, acs("0000:18:00.0", pciregs.Redirect)),
			want: "drift gpudirect_storage.acs ACS (/sys/bus/pci/devices)\nok gpudirect_storage.iommu iommu (/sys/class/iommu)\nok gpudirect_storage.p2pdma P2PDMA (/proc/driver/nvidia/version)",
			says: []string{`pcie_acs with redirect = "off" and scope = ["0000:18:00.0"]`},
		},
		"a guest": {
			path: gds.P2PDMA, facts: change(machine(p2pdma), func(inv *node.Inventory) { inv.Virtualization = node.Known("kvm", node.Source{}) }),
			want: "skipped gpudirect_storage.acs ACS ()\nok gpudirect_storage.iommu iommu (/sys/class/iommu)\nok gpudirect_storage.p2pdma P2PDMA (/proc/driver/nvidia/version)",
		},
		"no GPU":   {path: gds.Any, facts: change(machine(), func(inv *node.Inventory) { inv.PCI = node.Known([]node.PCIFunction{}, node.Source{}) }), want: "skipped gpudirect_storage.path gpus ()"},
		"an image": {path: gds.Any, facts: change(machine(), func(inv *node.Inventory) { inv.RootDirectory = true }), want: "skipped gpudirect_storage.path gpus ()"},
	}
	var rows []plantest.Case
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		rows = append(rows, plantest.Case{Name: name, Blocks: check(c.path), Facts: c.facts, Want: c.want, Says: c.says})
	}
	plantest.Run(t, types, rows)
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name, block string
		want        []string
	}{
		{"settings", `gds { settings = { "properties.allow_compat_mode" = false, "fs.generic.posix_unaligned_writes" = true, "logging.level" = "ERROR", "properties.max_direct_io_size_kb" = 1024 } }`, nil},
		{"without a section", `gds { settings = { allow_compat_mode = false } }`, []string{"allow_compat_mode: no setting of cuFile"}},
		{"an object", `gds { settings = { "properties.a" = { b = 1 } } }`, []string{"properties.a: no setting of cuFile"}},
		{"null", `gds { settings = { "properties.a" = null } }`, []string{"properties.a: no setting of cuFile"}},
		{"against the path", "gds {\npath = \"p2pdma\"\nsettings = { \"properties.use_pci_p2pdma\" = false }\n}", []string{"properties.use_pci_p2pdma: it stands against the path"}},
		{"a list", `gds { settings = [1] }`, []string{": not an object"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range (gds.Type{}).Validate(plantest.Blocks(t, types, tt.block)[0]) {
				got = append(got, p.Key+": "+p.Summary)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
