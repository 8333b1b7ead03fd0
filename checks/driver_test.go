package checks_test

import (
	"strings"
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestDriver(t *testing.T) {
	all := `check "driver" "all" {}`
	wanted := `check "driver" "all" {
		version     = "580.95.05"
		min_version = "570"
		open        = true
		parameters  = { NvLinkDisable = "0" }
	}`
	proprietary := drive(func(s *node.NVIDIADriverState) { s.Version, s.Open = "550.163.01", false })
	library := func(version string, driver node.Value[string]) func(*box) {
		return func(b *box) { b.library = known(node.NVMLState{Version: version, Driver: driver}) }
	}
	const loaded, ours, theirs = "ok driver.loaded driver (/sys)\n", "ok driver.library library (/sys)\n", "ok driver.fabric_manager fabric manager (/sys)\n"
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as wanted", wanted, hgx(2), theirs+ours+loaded+`
			ok driver.min_version min_version (/sys)
			ok driver.open open (/sys)
			ok driver.parameter NvLinkDisable (/sys)
			ok driver.version version (/sys)
		`, "the driver's kernel modules are the open ones"),
		judge("another version, another flavour", wanted, newBox("2330", 2, proprietary, library("12.550.163.01", known("550.163.01"))), ours+loaded+`
			drift driver.min_version min_version (/sys)
			drift driver.open open (/sys)
			ok driver.parameter NvLinkDisable (/sys)
			drift driver.version version (/sys)
		`, "the driver is version 550.163.01, wanted is 580.95.05", "the driver is version 550.163.01, wanted is 570 or newer", "the driver's kernel modules are the proprietary ones, wanted are the open ones"),
		judge("the proprietary flavour is wanted", `check "driver" "all" { open = false }`, newBox("2330", 2), ours+loaded+"drift driver.open open (/sys)", "wanted are the proprietary ones"),
		judge("versions are numbers", `check "driver" "all" { min_version = "95.1" }`, newBox("2330", 2), ours+loaded+"ok driver.min_version min_version (/sys)"),
		judge("a version that is none", `check "driver" "all" { min_version = "570" }`, newBox("2330", 2, drive(func(s *node.NVIDIADriverState) { s.Version = "main" }), library("13.main", known("main"))),
			ours+loaded+"unknown driver.min_version min_version (/sys)", `whether the driver is new enough is unknown: "main" is no version`),

		// The fabric manager must be of the driver's very version: those of one branch are not enough.
		judge("the fabric manager is older by one release", all, hgx(2, drive(func(s *node.NVIDIADriverState) { s.Version = "530.41.03" }), library("12.530.41.03", known("530.41.03")), manager("530.30.02", "failed")),
			"drift driver.fabric_manager fabric manager (/sys)\n"+ours+loaded, "the driver is 530.41.03, the fabric manager 530.30.02\ninstall nvidia-fabricmanager of version 530.41.03, and hold both packages together"),
		judge("the fabric manager's version is unknown", all, hgx(2, func(b *box) {
			b.manager = known(node.FabricManagerState{Installed: true, Version: denied[string]()})
		}), "unknown driver.fabric_manager fabric manager (/sys)\n"+ours+loaded),
		judge("whether the fabric manager is installed is unknown", all, hgx(2, func(b *box) { b.manager = denied[node.FabricManagerState]() }), "unknown driver.fabric_manager fabric manager (/sys)\n"+ours+loaded),
		judge("the fabric manager's version is unknown, and nothing needs it", all, newBox("26b9", 2, func(b *box) { b.manager = denied[node.FabricManagerState]() }),
			"skipped driver.fabric_manager fabric manager (/sys)\n"+ours+loaded, "the node has no NVSwitch that would need it"),

		judge("IMEX is of the driver's version", all, newBox("2941", 1, imex(driverVersion, "active")), "ok driver.imex IMEX (/sys)\n"+ours+loaded),
		judge("IMEX is older by one release", all, newBox("2941", 1, imex("580.95.04", "failed")), "drift driver.imex IMEX (/sys)\n"+ours+loaded,
			"the driver is 580.95.05, IMEX 580.95.04\ninstall nvidia-imex of version 580.95.05, and hold both packages together"),
		judge("IMEX's version is unknown", all, newBox("2941", 1, func(b *box) {
			b.imexPackage = known(node.FabricManagerState{Installed: true, Version: denied[string]()})
		}), "unknown driver.imex IMEX (/sys)\n"+ours+loaded),

		// A driver that was upgraded and not loaded anew.
		judge("the library is newer than the driver", all, newBox("2330", 2, library("13.580.105.08", node.Unknown[string]("Driver/library version mismatch", node.Source{}))),
			"drift driver.library library (/sys)\n"+loaded, "the driver is 580.95.05, its library is of 580.105.08\nthe driver was upgraded and not loaded anew: reboot"),
		judge("the library does not reach the driver", all, newBox("2330", 2, library("13.580.95.05", node.Unknown[string]("Driver Not Loaded", node.Source{}))),
			"unknown driver.library library ()\n"+loaded, "what the driver's library says of the driver is unknown: Driver Not Loaded"),

		// The driver ignores what it does not know.
		judge("parameters that are not in force", "check \"driver\" \"all\" {\nparameters = { NvLinkDisable = \"1\", ForcP2P = \"17\" }\n}", newBox("2330", 2), ours+loaded+`
			drift driver.parameter ForcP2P (/sys)
			drift driver.parameter NvLinkDisable (/sys)
		`, "the driver has no parameter ForcP2P\ncorrect the name", `parameter NvLinkDisable of the driver is "0", wanted is "1"`, "set NVreg_NvLinkDisable in /etc/modprobe.d"),
		judge("a text is compared byte for byte", "check \"driver\" \"all\" {\nparameters = { RegistryDwords = \"ForceP2P=17;RMForceP2PType=1\" }\n}", newBox("2330", 2, drive(func(s *node.NVIDIADriverState) {
			s.Parameters = known(map[string]string{"RegistryDwords": "ForceP2P=17,RMForceP2PType=1"})
		})), ours+loaded+"drift driver.parameter RegistryDwords (/sys)"),
		judge("parameters that are unknown", "check \"driver\" \"all\" {\nparameters = { NvLinkDisable = \"0\" }\n}", newBox("2330", 2, drive(func(s *node.NVIDIADriverState) { s.Parameters = denied[map[string]string]() })),
			ours+loaded+"unknown driver.parameter NvLinkDisable (/sys)"),
	})
}

func TestDriverValidates(t *testing.T) {
	for text, want := range map[string]string{
		`version = "580.95.05"`:                                             "",
		`min_version = "570"`:                                               "",
		`version = "580-open"`:                                              "version",
		`min_version = "latest"`:                                            "min_version",
		`parameters = { NvLinkDisable = "0" }`:                              "",
		`parameters = { NVreg_NvLinkDisable = "0" }`:                        "parameters",
		"version = \"\"\nmin_version = \"x\"\nparameters = { NVreg_X = 1 }": "version min_version parameters",
	} {
		var attributes []string
		for _, p := range (checks.Driver{}).Validate(plantest.Blocks(t, checks.All(), "check \"driver\" \"all\" {\n"+text+"\n}")[0]) {
			attributes = append(attributes, p.Attribute)
		}
		if got := strings.Join(attributes, " "); got != want {
			t.Errorf("%s: problems of %q, want %q", text, got, want)
		}
	}
}

// Text tells why the driver's library shows no GPU; what the driver is, it seldom tells.
func TestDriverRefusal(t *testing.T) {
	refused := func(fault, version string, answers ...node.Answer) node.Facts {
		f := plantest.Node(append(answers, node.NVML.Answer("", node.Known(node.NVMLState{Version: version, Fault: fault}, node.Source{Path: "x.txt", Line: 2})))...)
		inv := f.Inventory
		inv.Given = node.Known([]string{"nvml"}, node.Source{})
		return f.WithInventory(inv)
	}
	running := node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{Loaded: true, Version: "535.129.03"}, node.Source{Path: "y.txt"}))
	const library = "drift driver.library library (x.txt:2)\n"
	var cases []plantest.Case
	for _, c := range []struct {
		facts node.Facts
		want  string
		says  []string
	}{
		{refused(node.NVMLDriverNotLoaded, ""), "drift driver.loaded driver (x.txt:2)", []string{"the NVIDIA driver is not loaded\nmodprobe nvidia, and read in the kernel log what it lacks"}},
		{refused(node.NVMLDriverNotLoaded, "", running), "skipped driver.fabric_manager fabric manager ()\n" + library + "ok driver.loaded driver (y.txt)", []string{"nvidia-smi cannot talk to the driver, which is loaded\nmake its device nodes"}},
		{refused(node.NVMLMismatch, ".535.161"), library, []string{"are of different versions: the library is of 535.161\nthe driver was upgraded and not loaded anew"}},
		{refused(node.NVMLMismatch, ""), library, []string{"are of different versions\n"}},
		{refused(node.NVMLUnknown, ""), library, []string{"cannot start: Unknown Error\nin a container that worked before"}},
		{refused(node.NVMLNoPermission, ""), library, []string{"may not open the device nodes"}},
		{refused(node.NVMLNoLibrary, ""), library, []string{"libnvidia-ml.so is not found\ninstall the driver's libraries"}},
		{refused(node.NVMLNoDevices, ""), "drift driver.devices gpus (x.txt:2)", []string{"none of the GPUs can be used\nlspci -d 10de:"}},
		{refused("GPU access blocked by the operating system", ""), library, []string{"cannot start: GPU access blocked"}},
	} {
		state, _ := node.NVML.Get(c.facts, "").Get()
		cases = append(cases, plantest.Case{Name: state.Fault, Blocks: `check "driver" "all" {}`, Facts: c.facts, Want: c.want, Says: c.says})
	}
	plantest.Run(t, checks.All(), cases)
}
