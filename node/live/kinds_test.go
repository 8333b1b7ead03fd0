package live

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"busbar/internal/confdir"
	"busbar/node"
)

// every is one query of each kind, with a plausible key.
var every = []node.Query{
	node.Sysctl.Query("kernel.numa_balancing"), node.SysctlFiles.Query(""), node.Module.Query("nvidia_peermem"),
	node.ModulesLoadFiles.Query(""), node.ModprobeFiles.Query(""), node.ModuleSigning.Query(""), node.CommandLine.Query(""),
	node.Boot.Query(""), node.Initramfs.Query("nvidia"), node.IOMMU.Query(""), node.File.Query("/etc/nccl.conf"), node.Path.Query("/dev/nvidiactl"),
	node.Mount.Query("/etc/modprobe.d"), node.NCCLUserFiles.Query(""), node.NCCLLog.Query("/var/log/nccl.%h.%p"), node.Unit.Query("slurmd.service"), node.UnitFiles.Query("slurmd.service"),
	node.OwnedDropIns.Query(""), node.SystemConfFiles.Query(""), node.LogindConfFiles.Query(""), node.LimitsFiles.Query(""), node.ProcLimits.Query("slurmd.service"), node.RDMAPort.Query("mlx5_0/1"),
	node.PCIRegisters.Query("0000:00:00.0"), node.PCILink.Query("0000:00:00.0"),
	node.Link.Query(rail), node.LinkManagement.Query(rail), node.FlowControl.Query(rail), node.DCB.Query(rail), node.RoCE.Query(rail), node.NVConfig.Query(rail),
	node.NUMANodes.Query(""), node.CPUs.Query(""), node.KernelConfig.Query("CONFIG_PCI_P2PDMA"), node.KernelLog.Query(""),
	node.NVIDIADriver.Query(""), node.FabricManager.Query(""), node.IMEX.Query(""), node.NVML.Query(""), node.GPUInfo.Query("0000:1b:00.0"), node.NVLinks.Query("0000:1b:00.0"), node.P2P.Query(""),
	node.GPUFabric.Query("0000:1b:00.0"), node.ConfidentialComputing.Query(""), node.GPUUsers.Query(""), node.RDMAUsers.Query(""), node.SlurmJobs.Query(""), node.P2PMeasurement.Query("512"),
}

// Every kind is read, and its answer has the kind's type: it can be recorded and is found again.
func TestEveryKind(t *testing.T) {
	declared, err := os.ReadFile("../kinds.go")
	must(t, err)
	if n := strings.Count(string(declared), " = Kind["); n != len(every) || n != len(kindReaders()) {
		t.Errorf("node declares %d kinds, %d are read, %d tested", n, len(kindReaders()), len(every))
	}
	for _, opts := range []Options{{}, {Root: tree(t), Running: true}, {Root: tree(t)}} {
		facts := New(opts).Read(context.Background(), node.Inventory{}, every)
		if n := len(facts.Queries()); n != len(every) {
			t.Errorf("%+v: %d answers to %d queries", opts, n, len(every))
		}
		var recording bytes.Buffer
		must(t, node.WriteRecording(&recording, facts))
		again, err := node.ReadRecording(&recording)
		if err != nil || len(again.Queries()) != len(every) {
			t.Errorf("%d answers of the recording are read again: %v", len(again.Queries()), err)
		}
		for _, q := range every {
			raw, ok := facts.Raw(q).(interface{ Reason() string })
			if !ok || raw.Reason() == "not recorded" {
				t.Errorf("%s: no value and no reason", q)
			}
		}
	}
	if _, ok := New(Options{Root: tree(t)}).kinds["nonsense"]; ok {
		t.Error("nonsense")
	}
	facts := New(Options{Root: tree(t)}).Read(context.Background(), node.Inventory{}, []node.Query{{Kind: "nonsense"}})
	if len(facts.Queries()) != 0 {
		t.Error("nonsense was answered")
	}
}

const signature = "\x01\x02~Module signature appended~\n"

func TestModule(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/module/nvidia_peermem/initstate":                         "live\n",
		"sys/module/nvidia_peermem/refcnt":                            "2\n",
		"sys/module/nvidia_peermem/holders/":                          "",
		"sys/module/nvidia_peermem/parameters/peerdirect_support":     "0\n",
		"sys/module/ib_core/initstate":                                "live\n",
		"sys/module/ib_core/holders/nvidia_peermem":                   "-> ../../nvidia_peermem",
		"sys/module/ib_core/holders/mlx5_ib":                          "-> ../../mlx5_ib",
		"sys/module/coming/initstate":                                 "coming\n",
		"sys/module/pcie_aspm/parameters/policy":                      "[default] performance\n",
		"proc/modules":                                                "gdrdrv 24576 0 - Live 0x0000000000000000 (OE)\nnvidia 100 1 gdrdrv, Unloading 0x0000000000000000\n",
		"proc/sys/kernel/osrelease":                                   "6.8.0-45-generic\n",
		"lib/modules/6.8.0-45-generic/modules.dep":                    "updates/dkms/nvidia-peermem.ko: updates/dkms/nvidia.ko\nkernel/x/gdrdrv.ko.zst:\n/extra/abs-olute.ko:\nnot a module\n",
		"lib/modules/6.8.0-45-generic/modules.builtin":                "kernel/drivers/pci/pcie_aspm.ko\nkernel/drivers/iommu/virtio-iommu.ko\n",
		"lib/modules/6.8.0-45-generic/updates/dkms/nvidia-peermem.ko": "ELF" + signature,
		"lib/modules/6.8.0-31-generic/modules.dep":                    "kernel/a/ib_core.ko:\n",
		"lib/modules/6.8.0-31-generic/kernel/a/ib_core.ko":            "x",
		"lib/modules/5.0-removed/kernel/":                             "",
	})
	source := node.Source{}
	const newer, older = "6.8.0-45-generic", "6.8.0-31-generic"
	for name, want := range map[string]node.ModuleState{
		"nvidia_peermem": {
			Loaded: true, RefCount: 2, Parameters: map[string]string{"peerdirect_support": "0"},
			Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer,
				Path: "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia-peermem.ko", Signed: node.Known(true, source)}},
		},
		"ib_core": {
			Loaded: true, Holders: []string{"mlx5_ib", "nvidia_peermem"},
			Kernels: []node.ModuleOnDisk{{Release: older, Path: "/lib/modules/6.8.0-31-generic/kernel/a/ib_core.ko", Signed: node.Known(false, source)}, {Release: newer}},
		},
		"gdrdrv": {Loaded: true, Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer,
			Path: "/lib/modules/6.8.0-45-generic/kernel/x/gdrdrv.ko.zst", Signed: node.Unknown[bool]("the file is compressed", source)}}},
		"nvidia": {Changing: "going", RefCount: 1, Holders: []string{"gdrdrv"}, Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer}}},
		"coming": {Changing: "coming", Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer}}},
		"pcie_aspm": {Loaded: true, Parameters: map[string]string{"policy": "[default] performance"},
			Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer, BuiltIn: true}}},
		"virtio_iommu": {Loaded: true, Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer, BuiltIn: true}}},
		"abs_olute": {Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer, Path: "/extra/abs-olute.ko",
			Signed: node.Unknown[bool]("no such file or directory", source)}}},
		"nv_peer_mem": {Kernels: []node.ModuleOnDisk{{Release: older}, {Release: newer}}},
	} {
		t.Run(name, func(t *testing.T) { known(t, ask(t, root, node.Module, name), want) })
	}
	unknownAs(t, ask(t, root, node.Module, "../../etc"), "is no module name")
	unknownAs(t, ask(t, tree(t), node.Module, "nvidia"), "no such file")
	unknownAs(t, ask(t, tree(t, map[string]string{"proc/modules": "nonsense\n"}), node.Module, "nvidia"), "line 1")
}

func TestModuleSigning(t *testing.T) {
	const enforce, lockdown, disabled = "sys/module/module/parameters/sig_enforce", "sys/kernel/security/lockdown", "proc/sys/kernel/modules_disabled"
	for _, test := range []struct {
		files map[string]string
		want  node.ModuleSigningState
		why   string
	}{
		{files: map[string]string{enforce: "Y\n", lockdown: "none [integrity] confidentiality\n", disabled: "0\n"},
			want: node.ModuleSigningState{Enforced: true, Lockdown: "integrity"}},
		{files: map[string]string{enforce: "N\n", lockdown: "[none] integrity confidentiality\n", disabled: "1\n"},
			want: node.ModuleSigningState{Lockdown: "none", ModulesDisabled: true}},
		{files: map[string]string{enforce: "N\n", lockdown: "none [integrity] confidentiality\n"},
			want: node.ModuleSigningState{Enforced: true, Lockdown: "integrity"}},
		{files: map[string]string{enforce: "N\n", "sys/kernel/security/lsm": "capability,apparmor"}, want: node.ModuleSigningState{}},
		{files: map[string]string{enforce: "Y\n"}, want: node.ModuleSigningState{Enforced: true}},
		{files: map[string]string{enforce: "N\n"}, why: "securityfs is not mounted"},
		{files: nil, why: "no such file"},
	} {
		v := ask(t, tree(t, test.files), node.ModuleSigning, "")
		if test.why != "" {
			unknownAs(t, v, test.why)
			continue
		}
		known(t, v, test.want)
	}
}

func TestKernelConfig(t *testing.T) {
	const release, option = "6.8.0-45-generic", "CONFIG_PCI_P2PDMA"
	const config = "#\n# Linux/x86 6.8.12 Kernel Configuration\n#\nCONFIG_CC_VERSION_TEXT=\"gcc 13.2.0\"\nCONFIG_PCI_P2PDMA_X=m\nCONFIG_PCI_P2PDMA=y\n# CONFIG_PCI_PF_STUB is not set\n"
	osrelease := map[string]string{"proc/sys/kernel/osrelease": release + "\n"}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(config))
	must(t, err)
	must(t, w.Close())
	for _, where := range []map[string]string{
		{"boot/config-" + release: config, "proc/config.gz": "x"}, {"lib/modules/" + release + "/config": config}, {"proc/config.gz": zipped.String()},
	} {
		root := tree(t, osrelease, where)
		known(t, ask(t, root, node.KernelConfig, option), "y")
		known(t, ask(t, root, node.KernelConfig, "CONFIG_CC_VERSION_TEXT"), "gcc 13.2.0")
		known(t, ask(t, root, node.KernelConfig, "CONFIG_PCI_PF_STUB"), "n")
	}
	unknownAs(t, ask(t, tree(t, osrelease), node.KernelConfig, option), "neither /boot, nor /lib/modules, nor the kernel itself")
	unknownAs(t, ask(t, tree(t, osrelease, map[string]string{"proc/config.gz": "x"}), node.KernelConfig, option), "EOF")
	unknownAs(t, ask(t, tree(t), node.KernelConfig, option), "no such file")
}

func TestCPUs(t *testing.T) {
	const dir = "sys/devices/system/cpu/"
	root := tree(t, map[string]string{
		dir + "cpu0/topology/physical_package_id": "0\n", dir + "cpu1/topology/physical_package_id": "1\n",
		dir + "cpu10/topology/physical_package_id": "1\n", dir + "cpu11/online": "0\n", dir + "cpuidle/current_driver": "none\n",
		dir + "cpufreq/policy0/scaling_governor": "performance\n", dir + "cpufreq/policy1/scaling_governor": "powersave\n",
		dir + "cpufreq/policy10/scaling_governor": "powersave\n", dir + "cpufreq/boost": "1\n",
	})
	at := node.Source{Path: "/" + dir + "cpufreq"}
	known(t, ask(t, root, node.CPUs, ""), node.CPUState{Packages: 2, Governors: node.Known(map[string]int{"performance": 1, "powersave": 2}, at)})

	v, ok := ask(t, tree(t, map[string]string{dir + "cpu0/topology/physical_package_id": "0\n"}), node.CPUs, "").Get()
	if !ok || v.Packages != 1 || !v.Governors.IsUnsupported() {
		t.Errorf("without cpufreq: %+v", v)
	}
	v, _ = ask(t, tree(t, map[string]string{dir + "cpu0/topology/physical_package_id": "0\n", dir + "cpufreq/policy0/affected_cpus": "0\n"}), node.CPUs, "").Get()
	unknownAs(t, v.Governors, "no such file")
	unknownAs(t, ask(t, tree(t), node.CPUs, ""), "no such file")
}

func TestNUMANodes(t *testing.T) {
	const nodes = "sys/devices/system/node/"
	root := tree(t, map[string]string{
		nodes + "node10/cpulist": "8-15\n", nodes + "node2/cpulist": "\n", nodes + "node0/cpulist": "0-7,16-23\n", nodes + "node0/distance": "10 21 21\n",
		nodes + "online": "0,2,10\n", nodes + "nodes/x": "",
	})
	known(t, ask(t, root, node.NUMANodes, ""), []node.NUMANode{{ID: 0, CPUs: "0-7,16-23"}, {ID: 2}, {ID: 10, CPUs: "8-15"}})
	unknownAs(t, ask(t, tree(t, map[string]string{"sys/devices/system/cpu/online": "0\n"}), node.NUMANodes, ""), "the kernel knows no NUMA nodes")
	unknownAs(t, ask(t, tree(t), node.NUMANodes, ""), "no such file")
	unknownAs(t, ask(t, tree(t, map[string]string{nodes + "node0/distance": "10\n"}), node.NUMANodes, ""), "no such file")
}

func TestIOMMU(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/class/iommu/dmar1":                           "-> ../../devices/virtual/iommu/dmar1",
		"sys/class/iommu/dmar0":                           "-> ../../devices/virtual/iommu/dmar0",
		"sys/firmware/acpi/tables/DMAR":                   "",
		"sys/firmware/acpi/tables/FACP":                   "",
		"proc/cpuinfo":                                    "processor\t: 0\napicid\t\t: 0\ninitial apicid\t: 999\n\nprocessor\t: 1\napicid\t\t: 385\n\n",
		"sys/firmware/acpi/tables/data/":                  "",
		"sys/kernel/iommu_groups/10/type":                 "identity\n",
		"sys/kernel/iommu_groups/10/devices/0000:16:00.0": "-> ../../../../devices/x",
		"sys/kernel/iommu_groups/2/type":                  "DMA-FQ\n",
		"sys/kernel/iommu_groups/2/devices/0000:00:00.0":  "-> ../../../../devices/y",
		"sys/kernel/iommu_groups/3/devices/INTC1:00":      "-> ../../../../devices/z",
	})
	known(t, ask(t, root, node.IOMMU, ""), node.IOMMUState{
		Units: []string{"dmar0", "dmar1"}, Tables: []string{"DMAR"}, MaxAPICID: node.Known(385, node.Source{}),
		Groups: []node.IOMMUGroup{
			{ID: 2, Type: node.Known("DMA-FQ", node.Source{}), Devices: []string{"0000:00:00.0"}},
			{ID: 3, Type: node.Unknown[string]("the kernel does not show it (before Linux 5.11)", node.Source{}), Devices: []string{"INTC1:00"}},
			{ID: 10, Type: node.Known("identity", node.Source{}), Devices: []string{"0000:16:00.0"}},
		},
	})
	arm := tree(t, map[string]string{"sys/class/net/": "", "proc/cpuinfo": "processor\t: 0\nFeatures\t: fp\n"})
	known(t, ask(t, arm, node.IOMMU, ""), node.IOMMUState{
		Units: []string{}, MaxAPICID: node.Unknown[int]("the processors have no APIC ids", node.Source{}),
	})
	unknownAs(t, ask(t, tree(t), node.IOMMU, ""), "no such file")
}

func TestBoot(t *testing.T) {
	const defaults = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"
	for _, test := range []struct {
		name, want string
		files      map[string]string
	}{
		{"Ubuntu", node.LoaderGRUBDebian, map[string]string{"etc/default/grub": defaults, "etc/os-release": "ID=ubuntu\n", "usr/sbin/update-grub": "#!/bin/sh\n", "boot/grub/grub.cfg": ""}},
		{"RHEL 9", node.LoaderGRUBBLS, map[string]string{"etc/default/grub": "GRUB_ENABLE_BLSCFG=\"true\"\n", "etc/os-release": "ID=rhel\n", "etc/kernel/cmdline": "ro"}},
		{"BLS disabled again", node.LoaderGRUBDebian, map[string]string{"etc/default/grub": "GRUB_ENABLE_BLSCFG=true\nGRUB_ENABLE_BLSCFG=false\n", "etc/os-release": "ID=debian\n"}},
		{"Fedora without defaults", node.LoaderGRUBBLS, map[string]string{"boot/loader/entries/": "", "boot/grub2/": "", "etc/os-release": "ID=fedora\n"}},
		{"SUSE", node.LoaderNone, map[string]string{"etc/default/grub": defaults, "boot/grub2/grub.cfg": "", "etc/os-release": "ID=sles\nID_LIKE=suse\n"}},
		{"systemd-boot", node.LoaderSystemdBoot, map[string]string{"boot/efi/loader/loader.conf": "", "etc/kernel/cmdline": "ro", "etc/os-release": "ID=ubuntu\n"}},
		{"CoreOS", node.LoaderOSTree, map[string]string{"run/ostree-booted": "", "etc/default/grub": "GRUB_ENABLE_BLSCFG=true\n", "boot/loader/entries/": ""}},
		{"container", node.LoaderNone, map[string]string{"etc/os-release": "ID=ubuntu\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, ok := ask(t, tree(t, test.files), node.Boot, "").Get()
			if !ok || b.Loader != test.want {
				t.Errorf("%+v", b)
			}
		})
	}
	root := tree(t, map[string]string{
		"etc/default/grub":             "[ -d /etc/kernel ] && [ -f /etc/none ] && X=1\n. /etc/tuned/bootcmdline\n" + defaults,
		"etc/default/grub.d/20-b.cfg":  "B=1\n",
		"etc/default/grub.d/10-a.cfg":  "A=1\n",
		"etc/default/grub.d/notes.txt": "",
		"etc/tuned/bootcmdline":        "TUNED=1\n",
		"etc/kernel/":                  "",
		"usr/sbin/update-grub":         "",
		"boot/grub/grub.cfg":           "menuentry 'Linux' {\n linux /vmlinuz ro quiet\n}\n",
	})
	known(t, ask(t, root, node.Boot, ""), node.BootConfig{
		Loader: node.LoaderGRUBDebian, UpdateGrub: true,
		Defaults: []confdir.File{
			{Path: "/etc/default/grub", Text: "[ -d /etc/kernel ] && [ -f /etc/none ] && X=1\n. /etc/tuned/bootcmdline\n" + defaults},
			{Path: "/etc/default/grub.d/10-a.cfg", Text: "A=1\n"},
			{Path: "/etc/default/grub.d/20-b.cfg", Text: "B=1\n"},
		},
		References: []node.Reference{{Path: "/etc/kernel/", Exists: true}, {Path: "/etc/none"}, {Path: "/etc/tuned/bootcmdline", Exists: true, Text: "TUNED=1\n"}},
		Generated:  "menuentry 'Linux' {\n linux /vmlinuz ro quiet\n}\n",
	})
	outdated := func(fragment, config time.Time) bool {
		for name, at := range map[string]time.Time{"etc/default/grub.d/zz-busbar.cfg": fragment, "boot/grub/grub.cfg": config} {
			if err := os.Chtimes(filepath.Join(root, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
		b, _ := ask(t, root, node.Boot, "").Get()
		return b.Outdated
	}
	if err := os.WriteFile(filepath.Join(root, "etc/default/grub.d/zz-busbar.cfg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	early, late, future := time.Unix(1e9, 1000), time.Unix(1e9, 2000), time.Now().Add(time.Hour)
	if !outdated(late, early) || outdated(early, early) || outdated(early, late) || outdated(future, early) {
		t.Error("whether the entries are older than the fragment")
	}
	broken := ask(t, tree(t, map[string]string{"etc/default/grub": "X=\"\n", "boot/grub/grub.cfg": "\xff"}), node.Boot, "")
	known(t, broken, node.BootConfig{
		Loader: node.LoaderGRUBDebian, Defaults: []confdir.File{{Path: "/etc/default/grub", Text: "X=\"\n"}},
		GeneratedReason: "/boot/grub/grub.cfg: is not valid UTF-8 (byte 1)",
	})
}

func TestUnitOnDisk(t *testing.T) {
	const install = "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\n"
	root := tree(t, map[string]string{
		"usr/lib/systemd/system/slurmd.service":                        install,
		"etc/systemd/system/multi-user.target.wants/slurmd.service":    "-> /usr/lib/systemd/system/slurmd.service",
		"usr/lib/systemd/system/sshd.service":                          install,
		"etc/systemd/system/ssh.service":                               "-> /usr/lib/systemd/system/sshd.service",
		"usr/lib/systemd/system/off.service":                           install,
		"usr/lib/systemd/system/plain.service":                         "[Service]\n#[Install]\n",
		"usr/lib/systemd/system/nvidia-imex.service":                   install,
		"etc/systemd/system/nvidia-imex.service":                       "-> /dev/null",
		"run/systemd/system/quiet.service":                             "-> /dev/null",
		"run/systemd/generator/gen.service":                            "[Service]\n",
		"usr/lib/systemd/system/rdma@.service":                         install,
		"etc/systemd/system/basic.target.requires/rdma@mlx5_0.service": "-> /usr/lib/systemd/system/rdma@.service",
		"etc/systemd/system/gone.service":                              "-> /opt/gone.service",
		"usr/lib/systemd/system/gone.service":                          install,
		"usr/lib/systemd/system/copied.service":                        install,
		"etc/systemd/system/multi-user.target.wants/copied.service":    install,
		"usr/lib/systemd/system/taken-out.service":                     install,
		"etc/systemd/system/multi-user.target.wants/taken-out.service": "-> /dev/null",
		"usr/lib/systemd/system/stale.service":                         install,
		"etc/systemd/system/multi-user.target.wants/stale.service":     "-> /lib/systemd/system/gone.service",
	})
	for name, want := range map[string]node.UnitState{
		"gone.service":        {Load: "not-found"},
		"copied.service":      {Load: "loaded", File: "disabled"},
		"taken-out.service":   {Load: "loaded", File: "disabled"},
		"stale.service":       {Load: "loaded", File: "enabled"},
		"slurmd.service":      {Load: "loaded", File: "enabled"},
		"sshd.service":        {Load: "loaded", File: "enabled"},
		"off.service":         {Load: "loaded", File: "disabled"},
		"plain.service":       {Load: "loaded", File: "static"},
		"nvidia-imex.service": {Load: "masked", File: "masked"},
		"quiet.service":       {Load: "masked", File: "masked-runtime"},
		"gen.service":         {Load: "loaded", File: "generated"},
		"rdma@mlx5_0.service": {Load: "loaded", File: "enabled"},
		"rdma@mlx5_1.service": {Load: "loaded", File: "disabled"},
		"none.service":        {Load: "not-found"},
	} {
		want.Active = node.Unknown[string]("no D-Bus", node.Source{})
		t.Run(name, func(t *testing.T) { known(t, ask(t, root, node.Unit, name), want) })
	}
	unknownAs(t, ask(t, root, node.Unit, "slurmd"), "is no full name of a unit")
	unknownAs(t, ask(t, root, node.Unit, "../x.service"), "is no full name of a unit")
}

func TestUnitFiles(t *testing.T) {
	root := tree(t, map[string]string{
		"usr/lib/systemd/system/a-b@.service":          "template",
		"etc/systemd/system/a-b@x.service.d/10.conf":   "instance 10",
		"etc/systemd/system/a-b@.service.d/10.conf":    "template 10",
		"etc/systemd/system/a-b@.service.d/20.conf":    "template 20",
		"usr/lib/systemd/system/a-.service.d/05.conf":  "prefix 05",
		"usr/lib/systemd/system/service.d/30.conf":     "type 30",
		"etc/systemd/system/service.d/20.conf":         "type 20",
		"run/systemd/system/a-b@x.service.d/40.conf":   "-> /dev/null",
		"etc/systemd/system/a-b@x.service.d/50-zz.txt": "no",
	})
	known(t, ask(t, root, node.UnitFiles, "a-b@x.service"), []confdir.File{
		{Path: "/usr/lib/systemd/system/a-b@.service", Text: "template"},
		{Path: "/usr/lib/systemd/system/a-.service.d/05.conf", Text: "prefix 05"},
		{Path: "/etc/systemd/system/a-b@x.service.d/10.conf", Text: "instance 10"},
		{Path: "/etc/systemd/system/a-b@.service.d/20.conf", Text: "template 20"},
		{Path: "/usr/lib/systemd/system/service.d/30.conf", Text: "type 30"},
		{Path: "/run/systemd/system/a-b@x.service.d/40.conf"},
	})
	known(t, ask(t, root, node.UnitFiles, "none.service"), []confdir.File{
		{Path: "/etc/systemd/system/service.d/20.conf", Text: "type 20"},
		{Path: "/usr/lib/systemd/system/service.d/30.conf", Text: "type 30"},
	})
}

func TestOwnedDropIns(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/systemd/system/slurmd.service.d/zz-busbar.conf": "[Service]\n",
		"etc/systemd/system/slurmd.service.d/override.conf":  "[Service]\n",
		"etc/systemd/system/kubelet.service.d/10.conf":       "",
	})
	known(t, ask(t, root, node.OwnedDropIns, ""), []confdir.File{{Path: "/etc/systemd/system/slurmd.service.d/zz-busbar.conf", Text: "[Service]\n"}})
	known(t, ask(t, tree(t), node.OwnedDropIns, ""), []confdir.File{})
}

func TestProcLimits(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         65536                65536                bytes\n"
	process := func(pid, parent int, name string) map[string]string {
		dir := fmt.Sprintf("proc/%d/", pid)
		return map[string]string{dir + "stat": fmt.Sprintf("%d (%s) S %d 1 1\n", pid, name, parent), dir + "limits": limits}
	}
	root := tree(t, process(1, 0, "systemd"), process(700, 1, "slurmd"), process(650, 700, "slurmd"), process(900, 1, "a) S (b"),
		process(910, 1, "nvidia-fabricma"), map[string]string{"proc/920/stat": "920 (gone) S 1\n", "proc/uptime": "1"})
	known(t, ask(t, root, node.ProcLimits, "slurmd.service"), node.ProcessLimits{Running: true, PID: 700, Command: "slurmd", Text: limits})
	known(t, ask(t, root, node.ProcLimits, "a) S (b.service"), node.ProcessLimits{Running: true, PID: 900, Command: "a) S (b", Text: limits})
	known(t, ask(t, root, node.ProcLimits, "nvidia-fabricmanager.service"), node.ProcessLimits{Running: true, PID: 910, Command: "nvidia-fabricma", Text: limits})
	known(t, ask(t, root, node.ProcLimits, "gone.service"), node.ProcessLimits{})
	known(t, ask(t, root, node.ProcLimits, "containerd.service"), node.ProcessLimits{})
	unknownAs(t, ask(t, tree(t), node.ProcLimits, "slurmd.service"), "no such file")
}

// A profile of 40 checks over plain files.
func BenchmarkRead(b *testing.B) {
	queries := []node.Query{}
	for _, name := range []string{"kernel.numa_balancing", "vm.zone_reclaim_mode", "vm.swappiness", "net.core.rmem_max", "net.core.wmem_max",
		"net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.arp_ignore", "kernel.pid_max", "vm.max_map_count", "fs.file-max"} {
		queries = append(queries, node.Sysctl.Query(name))
	}
	for _, name := range []string{"nvidia", "nvidia_peermem", "nv_peer_mem", "mlx5_ib", "ib_umad", "rdma_ucm", "nouveau", "gdrdrv"} {
		queries = append(queries, node.Module.Query(name))
	}
	for _, p := range []string{"/etc/nccl.conf", "/etc/cufile.json", "/etc/fstab", "/etc/passwd", "/etc/hosts", "/etc/hostname"} {
		queries = append(queries, node.File.Query(p))
	}
	for _, p := range []string{"/dev/nvidiactl", "/dev/infiniband", "/dev/shm", "/dev/nvidia-uvm"} {
		queries = append(queries, node.Path.Query(p))
	}
	queries = append(queries, node.SysctlFiles.Query(""), node.ModprobeFiles.Query(""), node.ModulesLoadFiles.Query(""), node.CommandLine.Query(""),
		node.ModuleSigning.Query(""), node.Boot.Query(""), node.IOMMU.Query(""), node.Mount.Query("/etc"), node.NCCLUserFiles.Query(""),
		node.LimitsFiles.Query(""), node.SystemConfFiles.Query(""), node.UnitFiles.Query("slurmd.service"))
	r := New(Options{})
	for b.Loop() {
		r.Read(context.Background(), node.Inventory{}, queries)
	}
}
