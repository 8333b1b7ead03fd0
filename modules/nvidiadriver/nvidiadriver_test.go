package nvidiadriver_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/modules/kernelmodule"
	"busbar/modules/nvidiadriver"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{nvidiadriver.Type{}, kernelmodule.Type{}}

const (
	params = "/proc/driver/nvidia/params"
	file   = "/etc/modprobe.d/zz-busbar.conf"
	header = "# Written by busbar. It owns this file: edits are lost.\n"
	// dwords is the value of somebody's modprobe.d, where it stands in quotes.
	dwords = "ForceP2P=17;RMForceP2PType=1;RMPcieP2PType=1;PeerMappingOverride=1;RMForceStaticBar1=1"
)

// driver is the open driver 580.159.04 with its defaults, and parameters that differ.
func driver(differ map[string]string) node.Answer {
	parameters := map[string]string{
		"CoherentGPUMemoryMode": "", "DeviceFileMode": "438", "DmaRemapPeerMmio": "1", "EnableResizableBar": "0", "EnableStreamMemOPs": "0",
		"GrdmaPciTopoCheckOverride": "0", "NvLinkDisable": "0", "RegistryDwords": "", "RmProfilingAdminOnly": "1", "UsePageAttributeTable": "4294967295",
	}
	maps.Copy(parameters, differ)
	return node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{
		Loaded: true, Version: "580.159.04", Open: true, Parameters: node.Known(parameters, node.Source{Path: params}),
	}, node.Source{Path: "/proc/driver/nvidia/version"}))
}

func modprobe(files map[string]string) node.Answer { return plantest.Files(node.ModprobeFiles, files) }

func unit(state node.UnitState) node.Answer {
	return node.Unit.Answer("nvidia-persistenced.service", node.Known(state, node.Source{Call: "persistenced"}))
}

func rootDirectory(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.RootDirectory = true
	return f.WithInventory(inv)
}

func TestOptions(t *testing.T) {
	resizable := `nvidia_driver { options = { NVreg_EnableResizableBar = 1 } }`
	registry := `nvidia_driver { options = { NVreg_RegistryDwords = "` + dwords + `" } }`
	theirs := modprobe(map[string]string{"/etc/modprobe.d/nvidia.conf": "options nvidia NVreg_RegistryDwords=\"" + dwords + "\"\n"})
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "in force and at the next load", Blocks: resizable, Facts: plantest.Node(driver(map[string]string{"EnableResizableBar": "1"}), modprobe(map[string]string{"/etc/modprobe.d/a.conf": "options nvidia NVreg_EnableResizableBar=1\n"})),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/a.conf:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
			`,
		},
		{
			Name: "neither", Blocks: resizable, Facts: plantest.Node(driver(nil)),
			Texts: map[string]string{file: header + "options nvidia NVreg_EnableResizableBar=1\n"},
			Says:  []string{"the driver runs with NVreg_EnableResizableBar=0, NVreg_EnableResizableBar=1 comes with its next load", "initramfs.modprobe says"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				pending-reboot nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
			After: "pending-reboot nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)",
		},
		{
			Name: "others give another value, which is read before", Blocks: resizable, Facts: plantest.Node(driver(map[string]string{"EnableResizableBar": "1"}), modprobe(map[string]string{"/etc/modprobe.d/a.conf": "options nvidia NVreg_EnableResizableBar=0\n"})),
			Texts: map[string]string{file: header + "options nvidia NVreg_EnableResizableBar=1\n"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/a.conf:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "others give another value, taken over", Blocks: `nvidia_driver {
				options   = { NVreg_EnableResizableBar = 1 }
				take_over = true
			}`,
			Facts: plantest.Node(driver(map[string]string{"EnableResizableBar": "1"}), modprobe(map[string]string{"/etc/modprobe.d/zzz.conf": "options nvidia NVreg_NvLinkDisable=0 NVreg_EnableResizableBar=0\n"})),
			Texts: map[string]string{"/etc/modprobe.d/zzz.conf": "options nvidia NVreg_NvLinkDisable=0\n"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/zzz.conf:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				step write-file:/etc/modprobe.d/zzz.conf
			`,
		},
		{
			Name: "the command line wins", Blocks: resizable,
			Facts: plantest.Node(driver(nil), modprobe(map[string]string{"/etc/modprobe.d/a.conf": "options nvidia NVreg_EnableResizableBar=1\n"}), plantest.CommandLine("nvidia.NVreg_EnableResizableBar=0 nvidia-drm.modeset=1")),
			Says:  []string{`take nvidia.NVreg_EnableResizableBar out of the boot loader's configuration (kernel_args { absent = ["nvidia.NVreg_EnableResizableBar"] })`},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/a.conf:1)
				conflict nvidia_driver.command_line NVreg_EnableResizableBar (/proc/cmdline)
			`,
			After: "conflict nvidia_driver.command_line NVreg_EnableResizableBar (/proc/cmdline)",
		},
		{
			Name: "the command line says the same", Blocks: resizable,
			Facts: plantest.Node(driver(map[string]string{"EnableResizableBar": "1"}), modprobe(map[string]string{"/etc/modprobe.d/a.conf": "options nvidia NVreg_EnableResizableBar=1\n"}), plantest.CommandLine("nvidia.NVreg_EnableResizableBar=0x1")),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/a.conf:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
			`,
		},
		{
			Name: "RegistryDwords, in quotes elsewhere (F31)", Blocks: registry, Facts: plantest.Node(driver(map[string]string{"RegistryDwords": dwords}), theirs),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_RegistryDwords (/etc/modprobe.d/nvidia.conf:1)
				ok nvidia_driver.option_in_force NVreg_RegistryDwords (/proc/driver/nvidia/params)
			`,
		},
		{
			Name: "RegistryDwords, byte for byte", Blocks: registry, Facts: plantest.Node(driver(map[string]string{"RegistryDwords": dwords + ";"}), theirs),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_RegistryDwords (/etc/modprobe.d/nvidia.conf:1)
				pending-reboot nvidia_driver.option_in_force NVreg_RegistryDwords (/proc/driver/nvidia/params)
			`,
			After: "pending-reboot nvidia_driver.option_in_force NVreg_RegistryDwords (/proc/driver/nvidia/params)",
		},
		{
			Name: "RegistryDwords, written with quotes of its own", Blocks: `nvidia_driver { options = { NVreg_RegistryDwords = "\"` + dwords + `\"" } }`, Facts: plantest.Node(driver(map[string]string{"RegistryDwords": dwords})),
			Texts: map[string]string{file: header + "options nvidia NVreg_RegistryDwords=\"" + dwords + "\"\n"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_RegistryDwords (/etc/modprobe.d)
				ok nvidia_driver.option_in_force NVreg_RegistryDwords (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "numbers in another notation, and what the driver shows by another name or not at all",
			Blocks: `nvidia_driver { options = {
				NVreg_DeviceFileMode = "0666", NVreg_UsePageAttributeTable = -1, NVreg_RestrictProfilingToAdminUsers = 0, NVreg_RmNvlinkBandwidth = "FULL"
			} }`,
			Facts: plantest.Node(driver(map[string]string{"RmProfilingAdminOnly": "0"}), modprobe(map[string]string{
				"/etc/modprobe.d/a.conf": "options nvidia NVreg_DeviceFileMode=0666 NVreg_UsePageAttributeTable=-1 NVreg_RestrictProfilingToAdminUsers=0 NVreg_RmNvlinkBandwidth=FULL\n",
			})),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_DeviceFileMode (/etc/modprobe.d/a.conf:1)
				ok kernel_module.option nvidia.NVreg_RestrictProfilingToAdminUsers (/etc/modprobe.d/a.conf:1)
				ok kernel_module.option nvidia.NVreg_RmNvlinkBandwidth (/etc/modprobe.d/a.conf:1)
				ok kernel_module.option nvidia.NVreg_UsePageAttributeTable (/etc/modprobe.d/a.conf:1)
				ok nvidia_driver.option_in_force NVreg_DeviceFileMode (/proc/driver/nvidia/params)
				ok nvidia_driver.option_in_force NVreg_RestrictProfilingToAdminUsers (/proc/driver/nvidia/params)
				unknown info nvidia_driver.option_in_force NVreg_RmNvlinkBandwidth (/proc/driver/nvidia/params)
				ok nvidia_driver.option_in_force NVreg_UsePageAttributeTable (/proc/driver/nvidia/params)
			`,
			After: "unknown info nvidia_driver.option_in_force NVreg_RmNvlinkBandwidth (/proc/driver/nvidia/params)",
		},
		{
			Name: "options that the running driver does not have, wanted and of others", Blocks: `nvidia_driver { options = { NVreg_EnableStreamMemOps = 1 } }`,
			Facts: plantest.Node(driver(nil), modprobe(map[string]string{"/etc/modprobe.d/a.conf": "options nvidia NVreg_EnableStreamMemOps=1\noptions nvidia NVreg_EnableMsi=1 NVreg_NvLinkDisable=0 rm_firmware_active=all\n"})),
			Says:  []string{"the running driver 580.159.04 shows no option NVreg_EnableStreamMemOps: it ignores what it does not know"},
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_EnableStreamMemOps (/etc/modprobe.d/a.conf:1)
				drift warn nvidia_driver.unknown_option NVreg_EnableMsi (/etc/modprobe.d/a.conf:2)
				drift warn nvidia_driver.unknown_option NVreg_EnableStreamMemOps (/proc/driver/nvidia/params)
			`,
		},
		{
			Name: "the driver is not loaded", Blocks: resizable, Facts: plantest.Node(node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{}, node.Source{Path: "/proc/driver/nvidia"}))),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				skipped nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
			After: "skipped nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia)",
		},
		{
			Name: "the parameters cannot be read", Blocks: resizable,
			Facts: plantest.Node(node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{Loaded: true, Version: "580.159.04", Parameters: node.Unknown[map[string]string]("permission denied", node.Source{Path: params})}, node.Source{}))),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				unknown nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
			After: "unknown nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)",
		},
		{
			Name: "an image", Blocks: resizable, Facts: rootDirectory(plantest.Node(driver(nil))),
			Want: `
				ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				step write-file:/etc/modprobe.d/zz-busbar.conf
			`,
		},
		{
			Name: "kernel_module wants another value", Blocks: resizable + "\n" + `kernel_module "nvidia" { options = { NVreg_EnableResizableBar = 0 } }`,
			Facts: plantest.Node(driver(map[string]string{"EnableResizableBar": "1"}), node.Module.Answer("nvidia", node.Known(node.ModuleState{}, node.Source{Path: "/sys/module/nvidia"}))),
			Want: `
				conflict profile.contradiction options nvidia NVreg_EnableResizableBar (node.hcl:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				conflict profile.contradiction options nvidia NVreg_EnableResizableBar (node.hcl:2)
			`,
		},
	})
}

func TestPersistence(t *testing.T) {
	on := `nvidia_driver { persistence = true }`
	active := node.Known("active", node.Source{Call: "persistenced"})
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "it runs, started by udev", Blocks: on, Facts: plantest.Node(driver(nil), unit(node.UnitState{Load: "loaded", File: "static", Active: active})),
			Want: `
				ok service.boot nvidia-persistenced.service (persistenced)
				ok service.running nvidia-persistenced.service (persistenced)
			`,
		},
		{
			Name: "off", Blocks: on, Facts: plantest.Node(driver(nil), unit(node.UnitState{Load: "loaded", File: "disabled", Active: node.Known("inactive", node.Source{Call: "persistenced"})})),
			Want: `
				!drift service.boot nvidia-persistenced.service (persistenced)
				!drift service.running nvidia-persistenced.service (persistenced)
				step set-unit:nvidia-persistenced.service
			`,
		},
		{
			Name: "it is not wanted", Blocks: `nvidia_driver { persistence = false }`, Facts: plantest.Node(driver(nil), unit(node.UnitState{Load: "loaded", File: "enabled", Active: active})),
			Want: `
				!drift service.boot nvidia-persistenced.service (persistenced)
				!drift service.running nvidia-persistenced.service (persistenced)
				step set-unit:nvidia-persistenced.service
			`,
		},
		{
			Name: "it is not installed", Blocks: on, Facts: plantest.Node(driver(nil), unit(node.UnitState{Load: "not-found"})),
			Want: "skipped service.not_installed nvidia-persistenced.service (persistenced)",
		},
	})
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name, block string
		want        []string
	}{
		{"an option", `nvidia_driver { options = { NVreg_EnableResizableBar = 1 } }`, nil},
		{"nothing", `nvidia_driver {}`, []string{"the block asks for nothing"}},
		{"without the prefix", `nvidia_driver { options = { EnableResizableBar = 1 } }`, []string{"options.EnableResizableBar: no option of the driver (warning)"}},
		{"two values", `nvidia_driver { options = { NVreg_X = "1 NVreg_Y=2\"" } }`, []string{"options.NVreg_X: modprobe.d cannot hold this option"}},
		{"a list", `nvidia_driver { options = { NVreg_X = [1] } }`, []string{"cannot read the block"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range (nvidiadriver.Type{}).Validate(plantest.Blocks(t, types, tt.block)[0]) {
				text := p.Summary
				if p.Key != "" {
					text = p.Attribute + "." + p.Key + ": " + text
				}
				if p.Warning {
					text += " (warning)"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
