package modules_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/checks"
	"busbar/internal/cmdline"
	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/internal/modprobe"
	"busbar/internal/ncclconf"
	"busbar/internal/nccllog"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/node/live"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/plan/sink"
)

// cases is the directory of real cases.
type cases struct {
	*testing.T
	dir string
}

func openCases(t *testing.T) cases {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	return cases{t, dir}
}

func (c cases) read(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

// expected are the verdicts of EXPECT.tsv by input.
func (c cases) expected() map[string]string {
	verdicts := map[string]string{}
	for line := range strings.Lines(c.read("EXPECT.tsv")) {
		if columns := strings.Split(line, "\t"); len(columns) > 2 && columns[0] != "input" {
			verdicts[columns[0]] = columns[2]
		}
	}
	return verdicts
}

// tree reads a case that is a directory tree.
func (c cases) tree(name string, queries ...node.Query) node.Facts {
	reader := live.New(live.Options{Root: filepath.Join(c.dir, name), Running: true})
	return reader.Read(c.Context(), node.Inventory{}, queries)
}

// same are the answers of one node to queries, for use on another.
func same[T any](f node.Facts, kind node.Kind[T], key string) node.Answer {
	return kind.Answer(key, kind.Get(f, key))
}

// grub is a node whose boot loader has the defaults of a case. Without a /proc/cmdline
// in the case it was booted with them.
func (c cases) grub(name string) node.Facts {
	f := c.tree(name, node.Boot.Query(""), node.CommandLine.Query(""))
	boot, ok := node.Boot.Get(f, "").Get()
	if !ok {
		c.Fatal(node.Boot.Get(f, "").Reason())
	}
	boot.UpdateGrub, boot.Generated = true, plantest.GRUBConfig("")
	line := node.CommandLine.Get(f, "")
	if boot.Loader == node.LoaderGRUBDebian {
		boot, line = booted(boot, line)
	}
	return plantest.Node(node.Boot.Answer("", node.Known(boot, node.Source{Path: grub.DefaultsFile})), node.CommandLine.Answer("", line))
}

// plain is the directory tree of a case, as --root reads it.
func (c cases) plain(name string) node.Facts {
	reader := live.New(live.Options{Root: filepath.Join(c.dir, name)})
	f := plantest.Node()
	inv := f.Inventory
	inv.RootDirectory = true
	read := reader.Read(c.Context(), inv, sink.BootArgs{}.Queries(nil))
	return f.WithInventory(inv).With(same(read, node.Boot, ""), same(read, node.CommandLine, ""))
}

// booted has entries that follow from the defaults, and runs one of them unless line is
// known.
func booted(boot node.BootConfig, line node.Value[string]) (node.BootConfig, node.Value[string]) {
	generated, err := nextboot.Regenerate(boot)
	if err != nil {
		return boot, line // defaults that no shell can read
	}
	state, err := nextboot.Read(generated)
	if err == nil && !line.IsKnown() {
		line = node.Known(state.Lines[0].Args.String(), node.Source{Path: "/proc/cmdline"})
	}
	return generated, line
}

// cmdline is a node that runs with a command line that its boot loader will hand on.
func (c cases) cmdline(name string, more ...node.Answer) node.Facts {
	text := strings.TrimSpace(c.read(name))
	args := slices.DeleteFunc(cmdline.Parse(text).Strings(), func(arg string) bool {
		return arg == "ro" || strings.HasPrefix(arg, "root=") || strings.HasPrefix(arg, "BOOT_IMAGE=")
	})
	boot, line := booted(node.BootConfig{
		Loader: node.LoaderGRUBDebian, UpdateGrub: true, Generated: plantest.GRUBConfig(""),
		Defaults: []confdir.File{{Path: grub.DefaultsFile, Text: grub.Fragment(args)}},
	}, node.Known(text, node.Source{Path: "/proc/cmdline"}))
	return plantest.Node(append(more, node.Boot.Answer("", node.Known(boot, node.Source{Path: grub.DefaultsFile})), node.CommandLine.Answer("", line))...)
}

// iommu is an IOMMU of one group.
func iommu(table, unit, kind string) node.Answer {
	return node.IOMMU.Answer("", node.Known(node.IOMMUState{
		Tables: []string{table}, Units: []string{unit}, Groups: []node.IOMMUGroup{{ID: 1, Type: node.Known(kind, node.Source{}), Devices: []string{"0000:1b:00.0"}}},
	}, node.Source{Path: "/sys/class/iommu"}))
}

// files is a node with the files of a case's tree.
func (c cases) files(name string, more ...node.Answer) node.Facts {
	f := c.tree(name, node.ModprobeFiles.Query(""), node.ModulesLoadFiles.Query(""), node.LimitsFiles.Query(""), node.SysctlFiles.Query(""))
	return plantest.Node(append(more, same(f, node.ModprobeFiles, ""), same(f, node.ModulesLoadFiles, ""), same(f, node.LimitsFiles, ""), same(f, node.SysctlFiles, ""))...)
}

// loaded is a module that is there, and on disk.
func loaded(name string, yes bool) node.Answer {
	return node.Module.Answer(name, node.Known(node.ModuleState{
		Loaded: yes, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: name + ".ko"}},
	}, node.Source{Path: "/sys/module/" + name}))
}

// procModules is a node whose /proc/modules is a case; of the modules it is asked for.
func (c cases) procModules(name string, wanted ...string) node.Facts {
	list, err := modprobe.ParseProcModules(c.read(name))
	if err != nil {
		c.Fatal(err)
	}
	var answers []node.Answer
	for _, w := range wanted {
		answers = append(answers, loaded(w, slices.ContainsFunc(list, func(m modprobe.Loaded) bool { return m.Name == w && m.State == "Live" })))
	}
	return plantest.Node(answers...)
}

// driver is a node with a GPU whose /proc/modules is a case; that the driver is proprietary stands there as its taint.
func (c cases) driver(name string) node.Facts {
	var driver node.NVIDIADriverState
	for line := range strings.Lines(c.read(name)) {
		if words := strings.Fields(line); words[0] == "nvidia" {
			driver = node.NVIDIADriverState{Loaded: true, Open: !strings.Contains(words[len(words)-1], "P")}
		}
	}
	noUnit := node.UnitState{Load: "not-found", Active: node.Known("inactive", node.Source{})}
	f := c.procModules(name, "nvidia_peermem", "nv_peer_mem").With(
		node.NVIDIADriver.Answer("", node.Known(driver, node.Source{Path: "/proc/driver/nvidia/version"})), path(plan.PeerMemoryClient, false),
		node.Unit.Answer("nv_peer_mem.service", node.Known(noUnit, node.Source{})), node.Unit.Answer("openibd.service", node.Known(noUnit, node.Source{})))
	inv := f.Inventory
	inv.PCI = node.Known([]node.PCIFunction{{Address: "0000:1b:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia"}}, node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

// nccl is a node whose /etc/nccl.conf is a case.
func (c cases) nccl(name string, more ...node.Answer) node.Facts {
	return plantest.Node(append(more, node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: c.read(name)}, node.Source{Path: sink.NCCLPath})))...)
}

// hcas gives a node the RDMA devices that a case lists.
func (c cases) hcas(f node.Facts, name string) node.Facts {
	var devices []node.RDMADevice
	for _, d := range strings.Fields(c.read(name)) {
		devices = append(devices, node.RDMADevice{Name: d})
	}
	inv := f.Inventory
	inv.RDMA = node.Known(devices, node.Source{Path: "/sys/class/infiniband"})
	return f.WithInventory(inv)
}

func path(p string, exists bool) node.Answer {
	state := node.PathState{}
	if exists {
		state = node.PathState{Exists: true, Type: "file", Mode: "0644"}
	}
	return node.Path.Answer(p, node.Known(state, node.Source{Path: p}))
}

// service is a running unit whose main process has the limits of a file.
func service(unit, limits string, unitFiles ...confdir.File) []node.Answer {
	return []node.Answer{
		node.Unit.Answer(unit, node.Known(node.UnitState{Load: "loaded", File: "enabled", Active: node.Known("active", node.Source{})}, node.Source{})),
		node.ProcLimits.Answer(unit, node.Known(node.ProcessLimits{Running: true, PID: 812, Text: limits}, node.Source{Path: "/proc/812/limits"})),
		node.UnitFiles.Answer(unit, node.Known(append([]confdir.File{{Path: "/usr/lib/systemd/system/" + unit, Text: "[Service]\n"}}, unitFiles...), node.Source{})),
	}
}

// row is one judgement over a case.
type row struct {
	input, condition string
	// blocks in HCL, with constant values only; else a whole profile.
	blocks, profile string
	facts           node.Facts
	// verdict: PASS, INFO, WARN, FAIL, UNKNOWN or REFUSE.
	verdict string
	// says are parts of lines that Summarize writes or of findings' summaries and fixes.
	says []string
	// silent is what none of them holds; empty for nothing.
	silent string
}

// The blocks that most rows judge.
const (
	passthrough = `iommu { mode = "passthrough" }`
	pt          = `kernel_args { present = { iommu = "pt" } }`
	acs         = `kernel_args { present = { pci = "config_acs=xx111x0@0008:00:00.0;xx110x1@0008:02:00.0;xx101x1@0008:02:03.0;xx111x0@0009:00:00.0" } }`
	peermem     = `kernel_module "nvidia-peermem" { state = "loaded" }`
	memlock     = `limits "rdma" { memlock = "unlimited" }`
)

func memlockOf(service string) string {
	return "limits \"rdma\" {\nmemlock = \"unlimited\"\nusers = []\nservices = [\"" + service + "\"]\n}"
}

func bootRows(c cases) []row {
	const cloudimg = "/etc/default/grub.d/50-cloudimg-settings.cfg"
	return []row{
		{input: "cmdline-clean-amd.txt", blocks: passthrough, facts: c.cmdline("cmdline-clean-amd.txt", iommu("IVRS", "ivhd0", "identity")), verdict: "PASS"},
		{input: "cmdline-intel-off.txt", condition: "off is wanted", blocks: `iommu { mode = "off" }`, facts: c.cmdline("cmdline-intel-off.txt", node.IOMMU.Answer("", node.Known(node.IOMMUState{Tables: []string{"DMAR"}}, node.Source{}))), verdict: "PASS"},
		{
			input: "cmdline-intel-off.txt", condition: "passthrough is wanted", blocks: passthrough, verdict: "FAIL",
			facts: c.cmdline("cmdline-intel-off.txt", node.IOMMU.Answer("", node.Known(node.IOMMUState{Tables: []string{"DMAR"}}, node.Source{}))),
			says:  []string{"!drift iommu.off iommu", "!drift boot_args.next_boot intel_iommu=on", "!drift boot_args.next_boot iommu=pt"},
		},
		{
			input: "cmdline-amd-noop.txt", blocks: passthrough, facts: c.cmdline("cmdline-amd-noop.txt", iommu("IVRS", "ivhd0", "DMA-FQ")), verdict: "FAIL",
			says: []string{"!drift iommu.translated iommu (/sys/class/iommu)", "drift warn iommu.no_op amd_iommu=on (/etc/default/grub:2)"},
		},
		{
			input: "cmdline-amd-pt-typo.txt", blocks: passthrough, facts: c.cmdline("cmdline-amd-pt-typo.txt", iommu("IVRS", "ivhd0", "DMA-FQ")), verdict: "FAIL",
			says: []string{"drift warn iommu.no_op amd_iommu=pt", "passthrough is iommu=pt"},
		},
		{
			input: "cmdline-noacs.txt", blocks: passthrough + "\n" + `kernel_args { absent = ["splash"] }`, verdict: "WARN",
			facts: c.cmdline("cmdline-noacs.txt", iommu("IVRS", "ivhd0", "identity")), says: []string{"drift warn boot_args.no_op pci=noacs (/etc/default/grub:2)"},
		},
		{
			input: "cmdline-noacs.txt", condition: "it is not wanted", blocks: passthrough + "\nkernel_args {\nabsent = [\"pci=noacs\"]\nseverity = \"warn\"\n}", verdict: "WARN",
			facts: c.cmdline("cmdline-noacs.txt", iommu("IVRS", "ivhd0", "identity")), says: []string{"conflict warn boot_args.overridden pci=noacs (/etc/default/grub:2)"}, silent: "no_op",
		},
		{
			input: "cmdline-quoted-value.txt", blocks: `iommu { mode = "passthrough" }
				kernel_args { present = { dyndbg = "file drivers/infiniband/* +p" } }`,
			facts: c.cmdline("cmdline-quoted-value.txt", iommu("IVRS", "ivhd0", "identity")), verdict: "PASS",
			says: []string{`ok boot_args.next_boot dyndbg="file drivers/infiniband/* +p"`},
		},
		{
			input: "cmdline-arm64-passthrough.txt", blocks: `iommu { mode = "passthrough" }
				kernel_args { present = { numa_balancing = "disable" } }`,
			facts: arm(c.cmdline("cmdline-arm64-passthrough.txt", iommu("IORT", "smmu3.0x000000001a000000", "identity"))), verdict: "PASS",
		},

		{
			input: "grub-cloudimg-override/", blocks: pt, facts: c.grub("grub-cloudimg-override"), verdict: "FAIL",
			says: []string{"!drift boot_args.next_boot iommu=pt (" + cloudimg + ":4)", cloudimg + ":4 replaces the value that had it", "step write-file:" + grub.FragmentFile},
		},
		{input: "grub-azure-config-acs/", blocks: acs, facts: c.grub("grub-azure-config-acs"), verdict: "PASS"},
		{input: "grub-config-acs-only-in-comment/", blocks: acs, facts: c.grub("grub-config-acs-only-in-comment"), verdict: "FAIL", says: []string{"!drift boot_args.next_boot pci=config_acs="}},
		{input: "grub-hetzner-override/", blocks: pt, facts: c.grub("grub-hetzner-override"), verdict: "FAIL", says: []string{"iommu=pt (/etc/default/grub.d/hetzner.cfg:2)"}},
		{input: "grub-duplicate-lines/", blocks: pt, facts: c.grub("grub-duplicate-lines"), verdict: "WARN", says: []string{"drift warn boot_args.repeated_assignment /etc/default/grub (/etc/default/grub:4)"}},
		{input: "grub-two-different-lines/", blocks: pt, facts: c.grub("grub-two-different-lines"), verdict: "FAIL", says: []string{"iommu=pt (/etc/default/grub:4)"}},
		{input: "grub-default-copied-from-linux/", blocks: `kernel_args { present = { pci = "noaer" } }`, facts: c.grub("grub-default-copied-from-linux"), verdict: "WARN", says: []string{"drift warn boot_args.doubled_token /etc/default/grub (/etc/default/grub:2)"}},
		{input: "grub-single-quotes/", blocks: `kernel_args { present = { nowatchdog = "" } }`, facts: c.grub("grub-single-quotes"), verdict: "PASS"},
		{input: "grub-single-quotes/", condition: "to be added to", blocks: pt, facts: c.grub("grub-single-quotes"), verdict: "FAIL", says: []string{"step write-file:" + grub.FragmentFile}},
		{input: "grub-unquoted-single-token/", blocks: `kernel_args { present = { quiet = "" } }`, facts: c.grub("grub-unquoted-single-token"), verdict: "PASS"},
		{input: "grub-unquoted-single-token/", condition: "to be added to", blocks: pt, facts: c.grub("grub-unquoted-single-token"), verdict: "FAIL"},
		{
			input: "grub-missing-end-quote/", blocks: pt, facts: c.grub("grub-missing-end-quote"), verdict: "REFUSE",
			says: []string{"conflict boot_args.defaults_broken iommu=pt (/etc/default/grub:2)", "/etc/default/grub cannot be read by the shell"},
		},
		{input: "grub-none-token/", blocks: pt, facts: c.grub("grub-none-token"), verdict: "WARN", says: []string{"drift warn boot_args.stray_none /etc/default/grub (/etc/default/grub:2)"}},
		{input: "grub-missing-default-key/", blocks: `kernel_args { present = { console = "ttyS0,115200" } }`, facts: c.grub("grub-missing-default-key"), verdict: "PASS"},
		{input: "grub-missing-default-key/", condition: "to be added to", blocks: pt, facts: c.grub("grub-missing-default-key"), verdict: "FAIL"},
		{input: "grub-multi-console/", blocks: `kernel_args { present = { console = "tty0", iommu = "pt" } }`, facts: c.grub("grub-multi-console"), verdict: "PASS"},
		{input: "grub-self-append-line/", blocks: `kernel_args { present = { swapaccount = 1 } }`, facts: c.grub("grub-self-append-line"), verdict: "PASS"},
		{input: "grub-wrong-key/", blocks: pt, facts: c.grub("grub-wrong-key"), verdict: "FAIL", says: []string{"drift warn boot_args.unknown_key /etc/default/grub (/etc/default/grub:1)"}},
		{input: "grub-multiline-continuation/", blocks: pt, facts: c.grub("grub-multiline-continuation"), verdict: "PASS"},
		{input: "grub-azure-cloudimg/", blocks: `kernel_args { present = { "net.ifnames" = 0 } }`, facts: c.grub("grub-azure-cloudimg"), verdict: "PASS"},
		{
			input: "grub-tuned-double-path/", blocks: `kernel_args { present = { "iommu.passthrough" = 1, numa_balancing = "disable" } }`, facts: c.grub("grub-tuned-double-path"), verdict: "WARN",
			says: []string{"drift warn boot_args.doubled_token iommu.passthrough=1 (/proc/cmdline)", "ok boot_args.next_boot numa_balancing=disable"},
		},
		{
			input: "grub-tuned-double-path/", condition: "as a plain tree", blocks: `kernel_args { present = { "iommu.passthrough" = 1, numa_balancing = "disable" } }`, facts: c.plain("grub-tuned-double-path"), verdict: "WARN",
			says: []string{"drift warn boot_args.tuned_twice /etc/default/grub (/etc/default/grub:2)", "$TUNED_BOOT_CMDLINE of /etc/tuned/bootcmdline:1 puts them there again"},
		},
		{input: "grub-cloudimg-override/", condition: "as a plain tree", blocks: pt, facts: c.plain("grub-cloudimg-override"), verdict: "FAIL", says: []string{"!drift boot_args.next_boot iommu=pt (" + cloudimg + ":4)"}},
		{input: "grub-azure-config-acs/", condition: "as a plain tree", blocks: acs, facts: c.plain("grub-azure-config-acs"), verdict: "PASS", says: []string{"deferred boot_args.next_boot"}},
		// Boot loaders that are not managed are never found right.
		{input: "grub-rhel-bls-stale/", blocks: pt, facts: c.grub("grub-rhel-bls-stale"), verdict: "REFUSE", says: []string{"unsupported boot_args.next_boot iommu=pt", "the boot loader is grub-bls"}},
		{input: "grub-rhel8-kernelopts/", blocks: pt, facts: c.grub("grub-rhel8-kernelopts"), verdict: "REFUSE", says: []string{"unsupported boot_args.next_boot iommu=pt", "the boot loader is grub-bls"}},
	}
}

func arm(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.Arch = node.Known("aarch64", node.Source{})
	return f.WithInventory(inv)
}

// nouveauFacts is the node of the case whose initramfs nobody made anew, where that is of the case or given.
func (c cases) nouveauFacts(more ...node.Answer) node.Facts {
	f := c.tree(nouveauCase, checks.ModuleFiles{}.Queries(plan.Block{}, node.Inventory{})...)
	return plantest.Node(append([]node.Answer{
		same(f, node.ModprobeFiles, ""), same(f, node.ModulesLoadFiles, ""), same(f, node.CommandLine, ""), same(f, node.Initramfs, "nouveau"), loaded("nouveau", false),
	}, more...)...)
}

const nouveauCase = "modprobe-nouveau-not-in-initramfs/"

func nouveauRows(c cases) []row {
	const moduleFiles, keptOut = `check "module_files" "all" {}`, `kernel_module "nouveau" { boot = "unloaded" }`
	made := plantest.Initramfs("nouveau", map[string]string{"/etc/modprobe.d/50-nvidia.conf": c.read(nouveauCase + "etc/modprobe.d/50-nvidia.conf")})
	onLine := node.CommandLine.Answer("", node.Known(strings.TrimSpace(c.read(nouveauCase+"proc/cmdline"))+" rd.driver.blacklist=nouveau", node.Source{Path: "/proc/cmdline"}))
	return []row{
		{
			input: nouveauCase, blocks: moduleFiles, facts: c.nouveauFacts(), verdict: "WARN",
			says: []string{"drift warn module_files.initramfs nouveau (/etc/modprobe.d/50-nvidia.conf:1)", "what is in it is unknown: no such file or directory"},
		},
		{
			input: nouveauCase, condition: "an older one holds it", blocks: moduleFiles, facts: c.nouveauFacts(plantest.Initramfs("nouveau", nil)), verdict: "WARN",
			says: []string{"drift warn module_files.initramfs nouveau (" + plantest.Image + ")", "50-nvidia.conf:1 blacklists nouveau, and " + plantest.Image + ", which holds it, has no such line"},
		},
		{input: nouveauCase, condition: "it was made anew", blocks: moduleFiles, facts: c.nouveauFacts(made), verdict: "PASS"},
		{input: nouveauCase, condition: "the command line has it", blocks: moduleFiles, facts: c.nouveauFacts(onLine), verdict: "PASS"},
		{input: nouveauCase, condition: "it is to stay out", blocks: keptOut, facts: c.nouveauFacts(), verdict: "WARN", says: []string{"unknown warn initramfs.modprobe nouveau"}, silent: "step "},
		{
			input: nouveauCase, condition: "it is to stay out, and an older one holds it", blocks: keptOut, facts: c.nouveauFacts(plantest.Initramfs("nouveau", nil)), verdict: "FAIL",
			says: []string{"!drift initramfs.modprobe nouveau", "step update-initramfs:" + plantest.Image},
		},
		{input: nouveauCase, condition: "it is to stay out, and was made anew", blocks: keptOut, facts: c.nouveauFacts(made), verdict: "PASS"},
	}
}

func moduleRows(c cases) []row {
	const dwords = "modprobe-registrydwords.conf"
	options := plantest.Files(node.ModprobeFiles, map[string]string{"/etc/modprobe.d/nvidia.conf": c.read(dwords)})
	return []row{
		{
			input: "modload-vs-blacklist/", blocks: peermem, facts: c.files("modload-vs-blacklist", loaded("nvidia_peermem", true)), verdict: "FAIL",
			says: []string{"conflict kernel_module.boot nvidia_peermem (/etc/modprobe.d/blacklist-ofed-modules.conf:5)", "ok kernel_module.running nvidia_peermem", "node.hcl:1"},
		},
		{
			input: "modload-appended-thrice/", blocks: peermem, facts: c.files("modload-appended-thrice", loaded("nvidia_peermem", true)), verdict: "PASS",
			says: []string{"drift info kernel_module.repeated_line nvidia_peermem (/etc/modules-load.d/nvidia-peermem.conf:2)"}, silent: "step ",
		},
		{
			input: dwords, verdict: "PASS", facts: plantest.Node(loaded("nvidia", false), options),
			blocks: `kernel_module "nvidia" { options = { NVreg_RegistryDwords = "\"ForceP2P=17;RMForceP2PType=1;RMPcieP2PType=1;PeerMappingOverride=1;RMForceStaticBar1=1\"" } }`,
		},
		{input: dwords, condition: "another option is wanted", verdict: "FAIL", facts: plantest.Node(loaded("nvidia", false), options), blocks: `kernel_module "nvidia" { options = { NVreg_EnableResizableBar = "1" } }`, says: []string{"step write-file:/etc/modprobe.d/zz-busbar.conf"}},
		{
			input: "modprobe-nvreg-unknown.conf", verdict: "WARN", blocks: `nvidia_driver { options = { NVreg_DynamicPowerManagement = "0x02" } }`,
			facts: plantest.Node(plantest.Files(node.ModprobeFiles, map[string]string{"/etc/modprobe.d/nvidia.conf": c.read("modprobe-nvreg-unknown.conf")}), node.NVIDIADriver.Answer("", node.Known(node.NVIDIADriverState{
				Loaded: true, Version: "595.45.04", Open: true, Parameters: node.Known(map[string]string{"DynamicPowerManagement": "2", "InitializeSystemMemoryAllocations": "0"}, node.Source{Path: "/proc/driver/nvidia/params"}),
			}, node.Source{Path: "/proc/driver/nvidia/version"}))),
			says: []string{"drift warn nvidia_driver.unknown_option NVreg_UsePageAttributeTable (/etc/modprobe.d/nvidia.conf:1)", "ok nvidia_driver.option_in_force NVreg_DynamicPowerManagement"},
		},
		{input: "modules-peermem-ok.txt", blocks: runningOnly("nvidia-peermem", "loaded"), facts: c.procModules("modules-peermem-ok.txt", "nvidia_peermem"), verdict: "PASS"},
		{input: "modules-peermem-missing.txt", blocks: peermem, facts: c.procModules("modules-peermem-missing.txt", "nvidia_peermem"), verdict: "FAIL", says: []string{"!drift kernel_module.running nvidia_peermem", "!drift kernel_module.boot nvidia_peermem"}},
		{input: "modules-peermem-missing.txt", condition: "the profile uses dma-buf", facts: c.procModules("modules-peermem-missing.txt", "nvidia_peermem"), verdict: "PASS"},
		{input: "modules-inbox-open-dmabuf.txt", blocks: `gpudirect { path = "dmabuf" }`, facts: c.driver("modules-inbox-open-dmabuf.txt"), verdict: "PASS", says: []string{"ok gpudirect.dmabuf dma-buf"}},
		{input: "modules-inbox-open-dmabuf.txt", condition: "either way", blocks: `gpudirect {}`, facts: c.driver("modules-inbox-open-dmabuf.txt"), verdict: "PASS", says: []string{"ok gpudirect.path GPU memory"}, silent: "step "},
		{input: "modules-peermem-missing.txt", condition: "either way", blocks: `gpudirect {}`, facts: c.driver("modules-peermem-missing.txt"), verdict: "FAIL", says: []string{"!drift gpudirect.path GPU memory", "step load-module:nvidia_peermem"}},
		{input: "modules-nouveau-won.txt", blocks: `kernel_module "nouveau" { state = "unloaded" }`, facts: c.procModules("modules-nouveau-won.txt", "nouveau"), verdict: "FAIL", says: []string{"!drift kernel_module.running nouveau", "!drift kernel_module.blacklist nouveau"}},
	}
}

func runningOnly(module, state string) string {
	return "kernel_module \"" + module + "\" {\nstate = \"" + state + "\"\nboot = \"unmanaged\"\n}"
}

func kernelRows(c cases) []row {
	_, numa, _ := strings.Cut(c.read("sysctl-numa-balancing-2.txt"), ": ")
	dropIns, _ := node.UnitFiles.Get(c.tree("limits-dropin-ok", node.UnitFiles.Query("containerd.service")), "containerd.service").Get()
	if len(dropIns) == 0 {
		text := c.read("limits-dropin-ok/etc/systemd/system/containerd.service.d/10-memlock.conf")
		dropIns = []confdir.File{{Path: "/etc/systemd/system/containerd.service.d/10-memlock.conf", Text: text}}
	}
	short := c.read("limits-containerd-8m.txt")
	azure := plantest.Files(node.LimitsFiles, map[string]string{"/etc/security/limits.conf": c.read("limits-azure.conf")})
	return []row{
		{
			input: "sysctl-numa-balancing-2.txt", blocks: `sysctl "kernel.numa_balancing" { value = 0 }`, verdict: "FAIL",
			facts: plantest.Node(node.Sysctl.Answer("kernel.numa_balancing", node.Known(strings.TrimSpace(numa), node.Source{Path: "/proc/sys/kernel/numa_balancing"}))),
			says:  []string{"!drift sysctl.running kernel.numa_balancing (/proc/sys/kernel/numa_balancing)", "is 2, wanted is 0"},
		},
		{
			input: "limits-conf-ok/", verdict: "FAIL", facts: c.files("limits-conf-ok", service("slurmd.service", c.read("limits-conf-ok/proc/slurmd.limits"))...),
			blocks: "limits \"rdma\" {\nmemlock = \"unlimited\"\nservices = [\"slurmd\"]\n}",
			says:   []string{"ok limits.login * memlock (/etc/security/limits.conf:2)", "!drift limits.process slurmd.service memlock (/proc/812/limits)", "has memlock 65536"},
		},
		{input: "limits-azure.conf", condition: "memlock", blocks: memlock, facts: plantest.Node(azure), verdict: "WARN", says: []string{"ok limits.login * memlock", "drift warn limits.unlimited_stack * stack (/etc/security/limits.conf:6)"}},
		{input: "limits-azure.conf", condition: "memlock, and the stack is meant", blocks: "limits \"rdma\" {\nmemlock = \"unlimited\"\nstack = \"unlimited\"\n}", facts: plantest.Node(azure), verdict: "PASS"},
		{input: "limits-azure.conf", condition: "stack, NCCL before 2.28", blocks: "limits \"threads\" {\nstack = 67108864\nseverity = \"warn\"\n}", facts: plantest.Node(azure), verdict: "WARN", says: []string{"!drift warn limits.login * stack (/etc/security/limits.conf:5)"}},
		{
			input: "limits-containerd-8m.txt", blocks: memlockOf("containerd"), facts: plantest.Node(service("containerd.service", short)...), verdict: "FAIL",
			says: []string{"!drift limits.process containerd.service memlock", "has memlock 8388608"},
		},
		{input: "limits-dropin-ok/", condition: "restarted", blocks: memlockOf("containerd"), facts: plantest.Node(service("containerd.service", strings.ReplaceAll(short, "8388608  ", "unlimited"), dropIns...)...), verdict: "PASS"},
		{
			input: "limits-dropin-ok/", condition: "not restarted", blocks: memlockOf("containerd"), facts: plantest.Node(service("containerd.service", short, dropIns...)...), verdict: "FAIL",
			says: []string{"ok limits.unit containerd.service memlock (/etc/systemd/system/containerd.service.d/10-memlock.conf:2)", "step restart-unit:containerd.service"},
		},
		{
			input: "nixos-readonly-etc/", verdict: "REFUSE", facts: nixos(c),
			blocks: `kernel_module "nvidia-peermem" { boot = "loaded" }
				kernel_module "nvidia" { options = { NVreg_EnableResizableBar = "1" } }
				sysctl "kernel.numa_balancing" { value = 0 }
				limits "rdma" { memlock = "unlimited" }
				nccl { settings = { NCCL_IB_TIMEOUT = 22 } }`,
			says: []string{
				"unsupported kernel_module.boot nvidia_peermem", "/etc/modules-load.d/busbar.conf cannot be written: NixOS", "set boot.kernelModules in configuration.nix",
				"/etc/modprobe.d/zz-busbar.conf cannot be written: NixOS", "set boot.extraModprobeConfig in configuration.nix",
				"/etc/sysctl.d/zz-busbar.conf cannot be written: NixOS", "set boot.kernel.sysctl in configuration.nix",
				"/etc/security/limits.d/zz-busbar.conf cannot be written: NixOS", "set security.pam.loginLimits in configuration.nix",
				"/etc/nccl.conf cannot be written: NixOS", `set environment.etc."nccl.conf".text in configuration.nix`,
			},
		},
	}
}

// nixos is a node with the mounts of the NixOS case.
func nixos(c cases) node.Facts {
	var queries []node.Query
	for _, s := range sink.All() {
		for _, q := range s.Queries(nil) {
			if q.Kind == node.Mount.Name() {
				queries = append(queries, q)
			}
		}
	}
	f := c.tree("nixos-readonly-etc", queries...)
	answers := []node.Answer{loaded("nvidia_peermem", true), loaded("nvidia", false), node.Sysctl.Answer("kernel.numa_balancing", node.Known("0", node.Source{}))}
	for _, q := range queries {
		answers = append(answers, same(f, node.Mount, q.Key))
	}
	return plantest.Node(answers...)
}

func ncclRows(c cases) []row {
	lint := func(input, verdict string, says ...string) row {
		return row{input: input, blocks: "nccl {}", facts: c.nccl(input), verdict: verdict, says: says}
	}
	version := func(input, version, verdict string, says ...string) row {
		return row{input: input, condition: "NCCL " + version, blocks: `nccl { version = "` + version + `" }`, facts: c.nccl(input), verdict: verdict, says: says}
	}
	file := func(input, settings, verdict string, files ...node.Answer) row {
		return row{input: input, condition: "file " + verdict, blocks: "nccl { settings = {" + settings + "} }", facts: c.nccl(input, files...), verdict: verdict}
	}
	const (
		ndv4 = `NCCL_TOPO_FILE = "/opt/microsoft/ndv4/topo.xml"`
		ncv4 = `NCCL_TOPO_FILE = "/opt/microsoft/ncv4/topo.xml", NCCL_GRAPH_FILE = "/opt/microsoft/ncv4/graph.xml"`
	)
	rows := []row{
		file("nccl-azure-ndv4.conf", ndv4, "PASS", path("/opt/microsoft/ndv4/topo.xml", true)),
		file("nccl-azure-ndv4.conf", ndv4, "FAIL", path("/opt/microsoft/ndv4/topo.xml", false)),
		file("nccl-azure-ncv4.conf", ncv4, "PASS", path("/opt/microsoft/ncv4/topo.xml", true), path("/opt/microsoft/ncv4/graph.xml", true)),
		file("nccl-azure-ncv4.conf", ncv4, "FAIL", path("/opt/microsoft/ncv4/topo.xml", true), path("/opt/microsoft/ncv4/graph.xml", false)),
		lint("nccl-azure-ndv4-2022.conf", "PASS", "drift info nccl.foreign_variable CUDA_DEVICE_ORDER (/etc/nccl.conf:2)"),
		lint("nccl-azure-ncv6.conf", "PASS"),
		lint("nccl-oci-h100.conf", "PASS"),
		{input: "nccl-oci-h100.conf", condition: "its HCAs are wanted", verdict: "PASS", facts: c.nccl("nccl-oci-h100.conf"), blocks: `nccl { settings = { NCCL_IB_HCA = "=mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_12,mlx5_13,mlx5_14,mlx5_15,mlx5_16,mlx5_17" } }`},
		lint("nccl-oci-a100.conf", "PASS"),
		{input: "nccl-oci-a100.conf", condition: "another order is another value", verdict: "FAIL", facts: c.nccl("nccl-oci-a100.conf"), blocks: `nccl { settings = { NCCL_IB_HCA = "=mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_11,mlx5_12,mlx5_14,mlx5_15,mlx5_16,mlx5_17" } }`},
		lint("nccl-oci-h200-no-hpcx.conf", "PASS"),
		lint("nccl-aws-dlc.conf", "FAIL", "(/etc/nccl.conf:1)"),
		lint("nccl-horovod-image.conf", "FAIL", "(/etc/nccl.conf:2)"),
		lint("nccl-gcp-a3-tcpxo.conf", "PASS", "drift info nccl.plugin_key NCCL_FASTRAK_IFNAME (/etc/nccl.conf:2)"),
		lint("nccl-coreweave-ib.conf", "PASS"),
		lint("nccl-trap-quoted-int.conf", "FAIL"),
		lint("nccl-trap-export.conf", "FAIL", "drift nccl.export export NCCL_DEBUG (/etc/nccl.conf:1)"),
		lint("nccl-trap-space-around-eq.conf", "FAIL", "drift nccl.blank_around_equals NCCL_DEBUG  (/etc/nccl.conf:1)"),
		lint("nccl-trap-inline-comment.conf", "FAIL", "NCCL_SOCKET_IFNAME (/etc/nccl.conf:2)"),
		lint("nccl-trap-comment-lines.conf", "PASS", "info nccl.comment"),
		version("nccl-trap-comment-lines.conf", "2.18.3", "PASS", "info nccl.comment"),
		version("nccl-trap-comment-lines.conf", "2.26.2", "PASS"),
		lint("nccl-trap-crlf.conf", "FAIL", "drift nccl.crlf NCCL_DEBUG (/etc/nccl.conf:1)"),
		version("nccl-trap-crlf.conf", "2.29.7", "FAIL"),
		version("nccl-trap-crlf.conf", "2.30.3", "PASS"),
		lint("nccl-trap-duplicate-keys.conf", "FAIL", "drift nccl.duplicate NCCL_SOCKET_IFNAME (/etc/nccl.conf:3)", `NCCL uses "eth0" of line 1`),
		lint("nccl-trap-appended-no-newline.conf", "FAIL", "NCCL_IB_HCA (/etc/nccl.conf:2)"),
		{input: "nccl-trap-hca-prefix.conf", blocks: "nccl {}", facts: c.hcas(c.nccl("nccl-trap-hca-prefix.conf"), "ibdev-18-hcas.txt"), verdict: "WARN", says: []string{"drift warn nccl.hca_prefix NCCL_IB_HCA (/etc/nccl.conf:1)", "write NCCL_IB_HCA==mlx5_1"}},
		{input: "nccl-trap-hca-prefix-port.conf", blocks: "nccl {}", facts: c.hcas(c.nccl("nccl-trap-hca-prefix-port.conf"), "ibdev-18-hcas.txt"), verdict: "WARN", says: []string{"drift warn nccl.hca_prefix NCCL_IB_HCA (/etc/nccl.conf:1)"}},
		lint("nccl-trap-octal.conf", "FAIL", "NCCL_IB_TIMEOUT (/etc/nccl.conf:1)", "NCCL_IB_QPS_PER_CONNECTION (/etc/nccl.conf:2)"),
		lint("nccl-trap-empty-values.conf", "PASS"),
		lint("nccl-trap-spaces-in-list.conf", "FAIL", "drift nccl.list_blank NCCL_IB_HCA (/etc/nccl.conf:1)"),
		lint("nccl-trap-double-caret.conf", "FAIL", "drift nccl.repeated_prefix NCCL_SOCKET_IFNAME (/etc/nccl.conf:1)"),
		lint("nccl-trap-truncated-write.conf", "FAIL", "drift nccl.truncated NCCL_IB_HCA (/etc/nccl.conf:2)"),
		lint("nccl-trap-empty-file.conf", "PASS"),
		{input: "nccl-trap-empty-file.conf", condition: "keys are wanted", blocks: `nccl { settings = { NCCL_DEBUG = "WARN" } }`, facts: c.nccl("nccl-trap-empty-file.conf"), verdict: "FAIL", says: []string{"!drift nccl.setting NCCL_DEBUG", "step write-file:/etc/nccl.conf"}},
	}
	return rows
}

// log is a node on which a job left a case as its log.
func (c cases) log(name string) node.Facts {
	return jobLog(plantest.Node(), c.read(name))
}

const jobLogPath = "/var/log/nccl.log"

// jobLog adds a log that NCCL wrote to a node.
func jobLog(f node.Facts, text string) node.Facts {
	return f.With(node.NCCLLog.Answer(jobLogPath, node.Known(node.NCCLLogState{Files: []string{jobLogPath}, Log: nccllog.Parse(text)}, node.Source{Path: jobLogPath})))
}

const transport = `check "nccl_transport" "job" { log = "` + jobLogPath + `" }`

func ncclLogRows(c cases) []row {
	return []row{
		{
			input: "nccl-log-silent-socket.txt", blocks: transport, facts: c.log("nccl-log-silent-socket.txt"), verdict: "FAIL",
			says: []string{"drift nccl_transport.network network (" + jobLogPath + ":3)", "NCCL found no RDMA device and chose sockets"},
		},
		{
			input: "nccl-log-gdr-disabled.txt", blocks: transport, facts: c.log("nccl-log-gdr-disabled.txt"), verdict: "FAIL",
			says: []string{"drift nccl_transport.gpudirect GPUDirect RDMA (" + jobLogPath + ":1)", "NCCL finds no GPUDirect RDMA for mlx5_0"},
		},
		{
			input: "nccl-log-silent-socket.txt", condition: "sockets are meant", verdict: "UNKNOWN", facts: c.log("nccl-log-silent-socket.txt"),
			blocks: "check \"nccl_transport\" \"job\" {\nlog = \"" + jobLogPath + "\"\ninter_node = \"any\"\n}", silent: "nccl_transport.network",
		},
	}
}

// otherwise are inputs whose verdict differs from EXPECT.tsv on purpose.
var otherwise = map[string]string{
	"grub-rhel-bls-stale/":   "boot loader entries are not managed: refused, not judged",
	"grub-rhel8-kernelopts/": "boot loader entries are not managed: refused, not judged",
}

func TestCases(t *testing.T) {
	c := openCases(t)
	expected := c.expected()
	got := map[string][]string{}
	for _, r := range slices.Concat(bootRows(c), moduleRows(c), nouveauRows(c), kernelRows(c), ncclRows(c), ncclLogRows(c), portCases(c), matrixRows(c), nvidiaRows(c), kernelLogRows(c)) {
		if _, known := expected[r.input]; !known {
			t.Errorf("%s is not in EXPECT.tsv", r.input)
		}
		got[r.input] = append(got[r.input], r.verdict)
		t.Run(strings.TrimSpace(r.input+" "+r.condition), func(t *testing.T) { r.run(cases{t, c.dir}) })
	}
	for input, verdict := range expected {
		want, _, _ := strings.Cut(strings.NewReplacer(",", " ", ";", " ").Replace(verdict), " ")
		_, differs := otherwise[input]
		switch {
		case !isInput(input):
		case len(got[input]) == 0:
			t.Errorf("%s has no row: %s", input, verdict)
		case !differs && want != "-" && !slices.Contains(got[input], want): // with - the rows say what follows from the input
			t.Errorf("%s must be %s; its rows want %v", input, verdict, got[input])
		}
	}
}

// isInput: the inputs that sinks, modules and checks judge.
func isInput(name string) bool {
	if strings.HasPrefix(name, "nccl-") {
		return !strings.HasSuffix(name, ".json")
	}
	kinds := []string{
		"cmdline-", "grub-", "modload-", "modprobe-", "modules-", "sysctl-", "limits-", "nixos-",
		"lspci-", "mlnx-qos-", "roce-", "gids-", "mtu-", "ib-", "ibdev-", "sysfs-", "ifaces-",
		"topo-", "nvlink-", "fabric-", "fm-", "nvidia-", "imex-", "dmesg-",
	}
	return slices.ContainsFunc(kinds, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (r row) run(t cases) {
	blocks := plantest.Blocks(t, types(), r.blocks)
	if r.profile != "" {
		blocks = evaluated(t, r.profile, r.facts.Inventory)
	}
	first, _, _ := plantest.Settle(t, types(), blocks, r.facts)
	text := plantest.Summarize(first)
	for _, f := range first.Findings {
		text += f.Summary + "\n" + f.Fix + "\n"
	}
	want := r.verdict
	if want == "INFO" { // as wanted, with a note
		want = "PASS"
		r.says = append(r.says, "drift info ")
	}
	if v := verdict(first); v != want {
		t.Errorf("%s, want %s:\n%s", v, want, text)
	}
	for _, want := range r.says {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %q:\n%s", want, text)
		}
	}
	if r.silent != "" && strings.Contains(text, r.silent) {
		t.Errorf("%q is said:\n%s", r.silent, text)
	}
	ncclConf, _ := node.File.Get(r.facts, sink.NCCLPath).Get()
	for _, s := range first.Steps {
		w, ok := s.Action.(plan.WriteFile)
		switch {
		case !ok:
		case w.Path == sink.NCCLPath && !strings.HasSuffix(w.Text, ncclConf.Text):
			t.Errorf("bytes of others are changed: %q", w.Text)
		case w.Path != sink.NCCLPath && !strings.Contains(w.Path, "busbar"):
			t.Errorf("a file of others is written without being asked to: %s", w.Path)
		}
	}
}

// verdict is what a plan says in EXPECT.tsv's words. REFUSE is a failure that names its
// cause and is followed by no step. What is wrong comes before what is unknown, as in the exit code.
func verdict(p plan.Plan) string {
	wrong, warned, unknown, refused := false, false, false, len(p.Steps) == 0
	for _, f := range p.Findings {
		switch {
		case f.Status == plan.OK || f.Status == plan.Skipped || f.Tolerated:
		case f.Severity == plan.Warning:
			warned = true
		case f.Severity != plan.Error:
		case f.Status == plan.Undetermined:
			unknown = true
		default:
			wrong = true
			refused = refused && (f.ID == "boot_args.defaults_broken" || f.Status == plan.Unsupported)
		}
	}
	switch {
	case wrong && refused:
		return "REFUSE"
	case wrong:
		return "FAIL"
	case unknown:
		return "UNKNOWN"
	case warned:
		return "WARN"
	default:
		return "PASS"
	}
}

// TestGRUBCases compares with what dash made of the trees, in which no absolute path of
// a case existed.
func TestGRUBCases(t *testing.T) {
	c := openCases(t)
	var want map[string]struct {
		Linux   string `json:"GRUB_CMDLINE_LINUX"`
		Default string `json:"GRUB_CMDLINE_LINUX_DEFAULT"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal([]byte(c.read("grub-effective.expected.json")), &want); err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		boot, ok := node.Boot.Get(c.tree(name, node.Boot.Query("")), "").Get()
		if !ok {
			t.Errorf("%s: no boot configuration", name)
			continue
		}
		d, err := grub.Evaluate(boot.Defaults, nil)
		if w.Error != "" {
			var syntax *grub.SyntaxError
			if !errors.As(err, &syntax) || syntax.Line == 0 {
				t.Errorf("%s: %v, want a syntax error with its line", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		linux, _, _ := d.Value(grub.Linux)
		byDefault, _, _ := d.Value(grub.LinuxDefault)
		if diff := cmp.Diff([]string{w.Linux, w.Default}, []string{linux, byDefault}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNCCLCases compares with what NCCL's own reader made of the files.
func TestNCCLCases(t *testing.T) {
	c := openCases(t)
	var want map[string]map[string]map[string]string
	if err := json.Unmarshal([]byte(c.read("nccl-effective-env.expected.json")), &want); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{"before_2.26.2": "2.18.3", "2.26.2_to_2.29.7": "2.29.7", "2.30.3_and_later": "2.30.7"}
	for name, bands := range want {
		for band, effective := range bands {
			version, err := ncclconf.ParseVersion(versions[band])
			if err != nil {
				t.Fatalf("%s: %v", band, err)
			}
			if diff := cmp.Diff(effective, ncclconf.Parse(c.read(name), version).Effective()); diff != "" {
				t.Errorf("%s, NCCL %s (-want +got):\n%s", name, version, diff)
			}
		}
	}
}
