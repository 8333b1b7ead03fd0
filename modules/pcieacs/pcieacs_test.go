package pcieacs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"busbar/internal/grub"
	"busbar/internal/pciregs"
	"busbar/modules/pcieacs"
	"busbar/modules/pciedevice"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{pcieacs.Type{}, pciedevice.Type{}}

// server has two GPUs below a switch, a third one alone, and a drive.
var server = []node.PCIFunction{
	bridge("0000:15:01.0", ""), bridge("0000:16:00.0", "0000:15:01.0"),
	bridge("0000:17:00.0", "0000:16:00.0"), bridge("0000:17:01.0", "0000:16:00.0"), bridge("0000:17:02.0", "0000:16:00.0"),
	gpu("0000:18:00.0", "0000:17:00.0"), gpu("0000:19:00.0", "0000:17:01.0"),
	{Address: "0000:1a:00.0", Vendor: "144d", Device: "a824", Class: "010802", Driver: "nvme", Parent: "0000:17:02.0"},
	bridge("0000:37:01.0", ""), gpu("0000:38:00.0", "0000:37:01.0"),
}

func bridge(address, parent string) node.PCIFunction {
	return node.PCIFunction{Address: address, Vendor: "1000", Device: "c030", Class: "060400", Driver: "pcieport", Parent: parent}
}

func gpu(address, parent string) node.PCIFunction {
	return node.PCIFunction{Address: address, Vendor: "10de", Device: "2330", Class: "030200", Driver: "nvidia", Parent: parent}
}

// acs answers for a port: the functions that are on, as their names begin, or - for no capability.
func acs(address, on string) node.Answer {
	config := node.Source{Path: "/sys/bus/pci/devices/" + address + "/config"}
	state := node.PCIRegisterState{Express: node.Known(pciregs.Express{Present: true, PortType: pciregs.DownstreamPort}, config)}
	capability := pciregs.ACS{Present: on != "-", Supported: 0x5f}
	for name := range strings.FieldsSeq(strings.Trim(on, "-")) {
		bit, err := pciregs.ParseACSBit(name)
		if err != nil {
			panic(err)
		}
		capability.Enabled |= bit
	}
	state.ACS = node.Known(capability, config)
	return node.PCIRegisters.Answer(address, node.Known(state, config))
}

const (
	clean = "SrcValid"
	all   = "SrcValid ReqRedir CmpltRedir UpstreamFwd"
)

// on is the server with the ACS of its ports, clean where nothing else is said.
func on(functions []node.PCIFunction, ports ...node.Answer) node.Facts {
	answers := []node.Answer{
		acs("0000:15:01.0", clean), acs("0000:16:00.0", "-"), acs("0000:17:00.0", clean), acs("0000:17:01.0", clean), acs("0000:37:01.0", clean),
	}
	f := plantest.Node(append(answers, ports...)...)
	inv := f.Inventory
	inv.Virtualization = node.Known("none", node.Source{Path: "/proc/cpuinfo"})
	inv.PCI = node.Known(functions, node.Source{Path: "/sys/bus/pci/devices"})
	return f.WithInventory(inv)
}

func with(f node.Facts, edit func(*node.Inventory)) node.Facts {
	inv := f.Inventory
	edit(&inv)
	return f.WithInventory(inv)
}

func kernel(f node.Facts, release string) node.Facts {
	return with(f, func(inv *node.Inventory) { inv.Kernel = node.Known(release, node.Source{}) })
}

// driven is the server with another driver for one function.
func driven(address, driver string) []node.PCIFunction {
	functions := slices.Clone(server)
	i := slices.IndexFunc(functions, func(f node.PCIFunction) bool { return f.Address == address })
	functions[i].Driver = driver
	return functions
}

func unread(address string) node.Answer {
	const why = "all but the first 64 bytes of configuration space are shown to root alone: run as root"
	config := node.Source{Path: "/sys/bus/pci/devices/" + address + "/config"}
	return node.PCIRegisters.Answer(address, node.Known(node.PCIRegisterState{
		Express: node.Unknown[pciregs.Express](why, config), ACS: node.Unknown[pciregs.ACS](why, config),
	}, config))
}

func signing(lockdown string) node.Answer {
	return node.ModuleSigning.Answer("", node.Known(node.ModuleSigningState{Lockdown: lockdown}, node.Source{Path: "/sys/kernel/security/lockdown"}))
}

const off = `pcie_acs "gpus" { redirect = "off" }`

const allOK = `
	ok pcie_acs.redirect 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0/config)
	ok pcie_acs.redirect 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0/config)
	ok pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
	ok pcie_acs.redirect 0000:17:01.0 (/sys/bus/pci/devices/0000:17:01.0/config)
	ok pcie_acs.redirect 0000:37:01.0 (/sys/bus/pci/devices/0000:37:01.0/config)
`

func TestPorts(t *testing.T) {
	one := func(address string) string {
		return fmt.Sprintf("pcie_acs \"one\" {\nredirect = \"off\"\nscope = [%q]\n}", address)
	}
	plantest.Run(t, types, []plantest.Case{
		{Name: "SrcValid alone is no fault", Blocks: off, Facts: on(server), Want: allOK},
		{
			Name: "what the kernel turns on with an IOMMU", Blocks: off, Facts: on(server, acs("0000:15:01.0", all), acs("0000:17:00.0", all)),
			Says: []string{"0000:17:00.0 redirects traffic between peers: ReqRedir, CmpltRedir, UpstreamFwd"},
			Want: `
				!drift pcie_acs.redirect 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0/config)
				ok pcie_acs.redirect 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0/config)
				!drift pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
				ok pcie_acs.redirect 0000:17:01.0 (/sys/bus/pci/devices/0000:17:01.0/config)
				ok pcie_acs.redirect 0000:37:01.0 (/sys/bus/pci/devices/0000:37:01.0/config)
				step set-acs:0000:15:01.0
				step set-acs:0000:17:00.0
			`,
		},
		{
			Name: "each of the four redirects", Blocks: one("0000:17:02.0"), Facts: on(server, acs("0000:17:02.0", "TransBlk EgressCtrl DirectTrans")), Says: []string{"peers: EgressCtrl\n"},
			Want: `
				!drift pcie_acs.redirect 0000:17:02.0 (/sys/bus/pci/devices/0000:17:02.0/config)
				step set-acs:0000:17:02.0
			`,
		},
		{
			Name: "two blocks about one port", Blocks: off + "\n" + one("0000:17:00.0"), Facts: on(server, acs("0000:17:00.0", all)),
			Want: strings.Replace(allOK, "ok pcie_acs.redirect 0000:17:00.0", "!drift pcie_acs.redirect 0000:17:00.0", 1) + `
				!drift pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
				step set-acs:0000:17:00.0
			`,
		},
		{
			Name: "an empty scope", Blocks: "pcie_acs \"none\" {\nredirect = \"off\"\nscope = []\n}", Facts: on(server),
		},
		{
			Name: "a port that is gone", Blocks: one("0000:99:00.0"), Facts: on(server), Says: []string{"there is no PCI function 0000:99:00.0"},
			Want: "drift pcie_acs.redirect 0000:99:00.0 (/sys/bus/pci/devices)",
		},
		{
			Name: "a guest's device below", Blocks: off, Facts: on(driven("0000:1a:00.0", "vfio-pci"), acs("0000:15:01.0", all), acs("0000:17:00.0", all)),
			Says: []string{"0000:15:01.0 redirects (ReqRedir, CmpltRedir, UpstreamFwd), and has to: the ACS of 0000:15:01.0 keeps 0000:1a:00.0 apart"},
			Want: `
				conflict pcie_acs.redirect 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0/config)
				ok pcie_acs.redirect 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0/config)
				!drift pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
				ok pcie_acs.redirect 0000:17:01.0 (/sys/bus/pci/devices/0000:17:01.0/config)
				ok pcie_acs.redirect 0000:37:01.0 (/sys/bus/pci/devices/0000:37:01.0/config)
				step set-acs:0000:17:00.0
			`,
			After: "conflict pcie_acs.redirect 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0/config)",
		},
		{
			Name: "lockdown", Blocks: one("0000:17:00.0"), Facts: on(server, acs("0000:17:00.0", all), signing("integrity")),
			Says: []string{`the kernel is locked down (integrity) and lets nobody write registers: set persist = "kernel_args"`},
			Want: "drift pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)",
		},
	})
}

func TestGates(t *testing.T) {
	const unsupported = "unsupported pcie_acs.redirect ACS ()"
	grace := append(slices.Clone(server), node.PCIFunction{Address: "0008:00:00.0", Vendor: "10de", Device: "22b1", Class: "060400"})
	direct := append(slices.Clone(server), node.PCIFunction{Address: "0002:03:00.0", Vendor: "15b3", Device: "2100", Class: "020000"})
	noPCI := with(on(server), func(inv *node.Inventory) { inv.PCI = node.Unknown[[]node.PCIFunction]("not read", node.Source{}) })
	perhaps := with(on(server), func(inv *node.Inventory) { inv.Virtualization = node.Unknown[string]("not read", node.Source{}) })
	full := []node.Answer{acs("0000:17:00.0", all), acs("0000:17:01.0", all)}
	var plain []node.Answer
	for _, address := range []string{"0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:17:01.0", "0000:37:01.0"} {
		plain = append(plain, unread(address))
	}
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "a virtual machine", Blocks: off, Says: []string{"this is a virtual machine (kvm)", "is set on the host"},
			Facts: with(on(server, full...), func(inv *node.Inventory) { inv.Virtualization = node.Known("kvm", node.Source{}) }), Want: unsupported, After: unsupported,
		},
		{Name: "Grace", Blocks: off, Facts: on(grace, full...), Says: []string{"the root port 0008:00:00.0 (10de:22b1) is that of an NVIDIA processor", "rdma_topo check"}, Want: unsupported, After: unsupported},
		{Name: "a NIC that goes past the processor", Blocks: off, Facts: on(direct, full...), Says: []string{"0002:03:00.0 (15b3:2100)"}, Want: unsupported, After: unsupported},
		{Name: "perhaps a virtual machine", Blocks: off, Facts: perhaps, Want: "unknown pcie_acs.redirect  ()", After: "unknown pcie_acs.redirect  ()"},
		{Name: "an unknown bus", Blocks: off, Facts: noPCI, Want: "unknown pcie_acs.redirect  ()", After: "unknown pcie_acs.redirect  ()"},
		{
			Name: "nothing known", Blocks: off, Facts: with(on(server), func(inv *node.Inventory) { *inv = node.Inventory{} }),
			Want: "unknown pcie_acs.redirect  ()",
		},
		{
			Name: "without root", Blocks: off, Facts: on(server, plain...), Says: []string{"the ACS of 5 ports is unknown: all but the first 64 bytes of configuration space are shown to root alone: run as root"},
			Want: "unknown pcie_acs.redirect  (/sys/bus/pci/devices/0000:15:01.0/config)",
		},
		{
			Name: "one that sleeps", Blocks: off, Facts: on(server, unread("0000:17:01.0")),
			Want:  strings.Replace(allOK, "ok pcie_acs.redirect 0000:17:01.0", "unknown pcie_acs.redirect 0000:17:01.0", 1),
			After: "unknown pcie_acs.redirect 0000:17:01.0 (/sys/bus/pci/devices/0000:17:01.0/config)",
		},
		{
			Name: "half of it read", Blocks: "pcie_acs \"one\" {\nredirect = \"off\"\nscope = [\"0000:17:00.0\"]\n}",
			Facts: on(server, node.PCIRegisters.Answer("0000:17:00.0", node.Known(node.PCIRegisterState{ACS: node.Known(pciregs.ACS{Present: true}, node.Source{})}, node.Source{}))),
			Want:  "unknown pcie_acs.redirect 0000:17:00.0 ()",
		},
		{
			Name: "a directory tree", Blocks: "pcie_acs \"gpus\" {\nredirect = \"off\"\npersist = \"kernel_args\"\n}",
			Facts: with(on(server), func(inv *node.Inventory) { inv.RootDirectory = true }),
			Want: `
				deferred pcie_acs.kernel_args pci ()
				skipped pcie_acs.redirect ACS ()
			`,
		},
	})
}

const persistent = "pcie_acs \"gpus\" {\nredirect = \"off\"\npersist = \"kernel_args\"\n}"

func TestKernelArgs(t *testing.T) {
	const (
		redir     = "pci=disable_acs_redir=15:01.0;15:01.0/00.0;15:01.0/00.0/00.0;15:01.0/00.0/01.0;37:01.0"
		configure = "pci=config_acs=0000xx@15:01.0;0000xx@15:01.0/00.0;0000xx@15:01.0/00.0/00.0;0000xx@15:01.0/00.0/01.0;0000xx@37:01.0"
	)
	written := func(arg string) string {
		return `
			!drift boot_args.next_boot ` + arg + ` (/boot/grub/grub.cfg:3)
			ok pcie_acs.kernel_args pci ()` + allOK + `
			step write-file:/etc/default/grub.d/zz-busbar.cfg
			step update-grub:/boot/grub/grub.cfg
			step write-marker:/var/lib/busbar/marker.json
		`
	}
	refused := "unsupported pcie_acs.kernel_args pci ()"
	one := func(persist, address string) string {
		return fmt.Sprintf("pcie_acs %q {\nredirect = \"off\"\nscope = [%q]\npersist = %q\n}\n", address, address, persist)
	}
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "before 6.11", Blocks: persistent, Facts: on(server), Says: []string{"which leaves UpstreamFwd to busbar.service"},
			Want: written(redir), After: "pending-reboot boot_args.next_boot " + redir + " (/proc/cmdline)", Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{redir})},
		},
		{
			Name: "since 6.15", Blocks: persistent, Facts: kernel(on(server), "6.15-rc1"),
			Want: written(configure), After: "pending-reboot boot_args.next_boot " + configure + " (/proc/cmdline)", Texts: map[string]string{grub.FragmentFile: grub.Fragment([]string{configure})},
		},
		{
			Name: "in force, UpstreamFwd left", Blocks: persistent, Says: []string{"0000:17:00.0 has UpstreamFwd on, which pci=disable_acs_redir= does not clear"},
			Facts: on(server, plantest.CommandLine(redir), plantest.BootWith(map[string]string{grub.FragmentFile: grub.Fragment([]string{redir})}, `pci="`+strings.TrimPrefix(redir, "pci=")+`"`), acs("0000:17:00.0", "SrcValid UpstreamFwd")),
			Want: "ok boot_args.next_boot " + redir + " (/boot/grub/grub.cfg:3)\nok pcie_acs.kernel_args pci ()" +
				strings.Replace(allOK, "ok pcie_acs.redirect 0000:17:00.0", "!drift pcie_acs.redirect 0000:17:00.0", 1) + "step set-acs:0000:17:00.0",
		},
		{
			Name: "with the bug", Blocks: persistent, Facts: kernel(on(server), "6.11.0-21-generic"), Says: []string{"mended in 6.15, 6.14.2, 6.13.11 and 6.12.23", `set persist = "boot"`},
			Want: refused + allOK, After: refused,
		},
		{Name: "too old", Blocks: persistent, Facts: kernel(on(server), "4.18.0-553.el8_10.x86_64"), Says: []string{"there is no option for it before Linux 4.20, and this is 4.18.0-553.el8_10.x86_64"}, Want: refused + allOK, After: refused},
		{
			Name: "an unknown kernel", Blocks: persistent, Facts: with(on(server), func(inv *node.Inventory) { inv.Kernel = node.Value[string]{} }),
			Want: "unknown pcie_acs.kernel_args pci ()" + allOK, After: "unknown pcie_acs.kernel_args pci ()",
		},
		{
			Name: "a line without room", Blocks: persistent, Facts: on(server, plantest.CommandLine(strings.Repeat("x", 1930))), Says: []string{"ends after 2048 characters, and pci=disable_acs_redir= with 5 ports does not fit in"},
			Want: refused + allOK, After: refused,
		},
		{
			Name: "a line that has it already", Blocks: one("kernel_args", "0000:17:00.0"),
			Facts: on(server, plantest.CommandLine(strings.Repeat("x", 1900)+" pci=disable_acs_redir=15:01.0/00.0/00.0"), plantest.Boot("pci=disable_acs_redir=15:01.0/00.0/00.0", "pci=disable_acs_redir=15:01.0/00.0/00.0")),
			Want: `
				ok boot_args.next_boot pci=disable_acs_redir=15:01.0/00.0/00.0 (/boot/grub/grub.cfg:3)
				ok pcie_acs.kernel_args pci ()
				ok pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
			`,
		},
		{
			Name: "the argument is the same where a port cannot be read", Blocks: one("kernel_args", "0000:17:00.0"),
			Facts: on(server, plantest.CommandLine("pci=disable_acs_redir=15:01.0/00.0/00.0"), plantest.Boot("pci=disable_acs_redir=15:01.0/00.0/00.0", "pci=disable_acs_redir=15:01.0/00.0/00.0"), unread("0000:17:00.0")),
			Want: `
				ok boot_args.next_boot pci=disable_acs_redir=15:01.0/00.0/00.0 (/boot/grub/grub.cfg:3)
				ok pcie_acs.kernel_args pci ()
				unknown pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
			`,
			After: "unknown pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)",
		},
		{
			Name: "what busbar wrote stays while the node is unknown", Blocks: persistent,
			Facts: with(on(server, plantest.CommandLine(redir), plantest.BootWith(map[string]string{grub.FragmentFile: grub.Fragment([]string{redir})}, `pci="`+strings.TrimPrefix(redir, "pci=")+`"`)), func(inv *node.Inventory) {
				inv.Virtualization = node.Value[string]{}
			}),
			Want: "unknown pcie_acs.redirect  ()",
		},
		{
			Name: "lockdown", Blocks: one("kernel_args", "0000:17:00.0"), Says: []string{"lets nobody write registers: the next boot turns it off, or the BIOS"},
			Facts: on(server, acs("0000:17:00.0", all), signing("confidentiality"), plantest.CommandLine("pci=disable_acs_redir=15:01.0/00.0/00.0"), plantest.Boot("pci=disable_acs_redir=15:01.0/00.0/00.0", "pci=disable_acs_redir=15:01.0/00.0/00.0")),
			Want: `
				ok boot_args.next_boot pci=disable_acs_redir=15:01.0/00.0/00.0 (/boot/grub/grub.cfg:3)
				ok pcie_acs.kernel_args pci ()
				drift pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
			`,
			After: "drift pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)",
		},
		{
			Name: "a guest's device and a port that is gone are not named", Says: []string{"pci=disable_acs_redir=37:01.0"},
			Blocks: "pcie_acs \"some\" {\nredirect = \"off\"\npersist = \"kernel_args\"\nscope = [\"0000:15:01.0\", \"0000:37:01.0\", \"0000:99:00.0\"]\n}",
			Facts:  on(driven("0000:1a:00.0", "vfio-pci"), plantest.CommandLine("pci=disable_acs_redir=37:01.0"), plantest.Boot("pci=disable_acs_redir=37:01.0", "pci=disable_acs_redir=37:01.0")),
			Want: `
				ok boot_args.next_boot pci=disable_acs_redir=37:01.0 (/boot/grub/grub.cfg:3)
				ok pcie_acs.kernel_args pci ()
				ok pcie_acs.redirect 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0/config)
				ok pcie_acs.redirect 0000:37:01.0 (/sys/bus/pci/devices/0000:37:01.0/config)
				drift pcie_acs.redirect 0000:99:00.0 (/sys/bus/pci/devices)
			`,
			After: "drift pcie_acs.redirect 0000:99:00.0 (/sys/bus/pci/devices)",
		},
		{
			Name: "nothing to name", Blocks: one("kernel_args", "0000:99:00.0"), Facts: on(server),
			Want: "drift pcie_acs.redirect 0000:99:00.0 (/sys/bus/pci/devices)",
		},
		{
			Name: "two blocks, of which the kernel reads one", Blocks: one("kernel_args", "0000:17:00.0") + one("kernel_args", "0000:17:01.0"), Facts: on(server),
			Want: `
				ok pcie_acs.kernel_args pci ()
				ok pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
				conflict profile.contradiction pci=disable_acs_redir=15:01.0/00.0/00.0 (node.hcl:9)
				ok pcie_acs.kernel_args pci ()
				ok pcie_acs.redirect 0000:17:01.0 (/sys/bus/pci/devices/0000:17:01.0/config)
				conflict profile.contradiction pci=disable_acs_redir=15:01.0/00.0/01.0 (node.hcl:4)
			`,
		},
	})
}

// TestReleases: which kernel is told how.
func TestReleases(t *testing.T) {
	for release, want := range map[string]string{
		"4.19.0-27-amd64": "", "4.20.0": "pci=disable_acs_redir=", "5.15.0-139-generic": "pci=disable_acs_redir=", "6.1.0-31-amd64": "pci=disable_acs_redir=", "6.10.14": "pci=disable_acs_redir=",
		"6.8.0-1024-nvidia": "", "6.14.0-1004-nvidia-64k": "", "6.17.0-1001-nvidia": "pci=config_acs=",
		"6.11.11": "", "6.12.22": "", "6.12.23": "pci=config_acs=", "6.12.43+deb13-amd64": "pci=config_acs=", "6.12.0-55.9.1.el10_0.x86_64": "",
		"6.13.10": "", "6.13.11": "pci=config_acs=", "6.14.0-27-generic": "", "6.14.2": "pci=config_acs=", "6.15": "pci=config_acs=", "7.0.0": "pci=config_acs=", "5.13.19": "pci=disable_acs_redir=",
		"": "", "next": "", "6": "",
	} {
		b := plantest.Blocks(t, types, persistent)
		got := ""
		for _, f := range plantest.Planner(types).Plan(b, kernel(on(server), release)).Findings {
			if f.ID == "boot_args.next_boot" {
				option, _, _ := strings.Cut(strings.TrimPrefix(f.Want, "pci="), "=")
				got = "pci=" + option + "="
			}
		}
		if got != want {
			t.Errorf("Linux %s: %q, wanted %q", release, got, want)
		}
	}
}

// TestAcrossRoot: switch ports whose traffic goes through the processor anyway are left alone, root ports are not.
func TestAcrossRoot(t *testing.T) {
	functions := []node.PCIFunction{
		bridge("0000:15:01.0", ""), bridge("0000:16:00.0", "0000:15:01.0"), bridge("0000:17:00.0", "0000:16:00.0"), gpu("0000:18:00.0", "0000:17:00.0"),
		bridge("0000:37:01.0", ""), gpu("0000:38:00.0", "0000:37:01.0"),
	}
	plantest.Run(t, types, []plantest.Case{{
		Name: "default scope", Blocks: off, Facts: on(functions, acs("0000:17:00.0", all)),
		Want: `
			ok pcie_acs.redirect 0000:15:01.0 (/sys/bus/pci/devices/0000:15:01.0/config)
			ok pcie_acs.redirect 0000:37:01.0 (/sys/bus/pci/devices/0000:37:01.0/config)
		`,
	}})
}

// TestRails: the ports above NICs that serve GPUs, and those above no others.
func TestRails(t *testing.T) {
	nic := func(address, parent string) node.PCIFunction {
		return node.PCIFunction{Address: address, Vendor: "15b3", Device: "1021", Class: "020000", Driver: "mlx5_core", Parent: parent}
	}
	functions := []node.PCIFunction{
		bridge("0000:15:01.0", ""), bridge("0000:16:00.0", "0000:15:01.0"), gpu("0000:18:00.0", "0000:17:00.0"), nic("0000:19:00.0", "0000:17:01.0"), nic("0000:19:00.1", "0000:17:01.0"), nic("0000:1a:00.0", "0000:17:02.0"),
		bridge("0000:17:00.0", "0000:16:00.0"), bridge("0000:17:01.0", "0000:16:00.0"), bridge("0000:17:02.0", "0000:16:00.0"), bridge("0000:37:01.0", ""), nic("0000:38:00.0", "0000:37:01.0"),
	}
	const want = `
		ok pcie_acs.redirect 0000:16:00.0 (/sys/bus/pci/devices/0000:16:00.0/config)
		ok pcie_acs.redirect 0000:17:00.0 (/sys/bus/pci/devices/0000:17:00.0/config)
		!drift pcie_acs.redirect 0000:17:01.0 (/sys/bus/pci/devices/0000:17:01.0/config)
		step set-acs:0000:17:01.0
	`
	f := with(on(functions, acs("0000:17:01.0", all)), func(inv *node.Inventory) {
		inv.Netdevs = node.Known([]node.Netdev{{Name: "eth0", Type: node.ARPHardwareEthernet, PCI: "0000:1a:00.0", Port: 1}}, node.Source{})
		inv.Protected = node.Known([]node.ProtectedNetdev{{Name: "eth0"}}, node.Source{})
	})
	plantest.Run(t, types, []plantest.Case{{Name: "one is protected, another serves no GPU", Blocks: off, Facts: f, Want: want}})
}

// TestOtherDomain: the kernel takes a domain that is left out for 0.
func TestOtherDomain(t *testing.T) {
	functions := []node.PCIFunction{bridge("0001:00:01.0", ""), gpu("0001:01:00.0", "0001:00:01.0"), bridge("10000:00:02.0", ""), gpu("10000:01:00.0", "10000:00:02.0")}
	b := plantest.Blocks(t, types, persistent)
	p := plantest.Planner(types).Plan(b, on(functions, acs("0001:00:01.0", clean), acs("10000:00:02.0", clean)))
	if !slices.ContainsFunc(p.Findings, func(f plan.Finding) bool { return f.Want == "pci=disable_acs_redir=0001:00:01.0;10000:00:02.0" }) {
		t.Error(plantest.Summarize(p))
	}
}

// TestFindings: what the operator reads of a port.
func TestFindings(t *testing.T) {
	p := plantest.Planner(types).Plan(plantest.Blocks(t, types, off), on(server, acs("0000:17:00.0", all)))
	for _, f := range p.Findings {
		if f.Status != plan.Drift {
			continue
		}
		if want := "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"; f.Want != want {
			t.Errorf("want %q", f.Want)
		}
		if found := "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"; f.Found != found {
			t.Errorf("found %q", f.Found)
		}
		if f.Effect != plan.Live || !strings.Contains(f.Why, "IOMMU groups") {
			t.Errorf("%+v", f)
		}
	}
	set, _ := p.Steps[0].Action.(plan.SetACS)
	if len(p.Steps) != 1 || set != (plan.SetACS{Address: "0000:17:00.0", Off: pciregs.Redirect}) || p.Steps[0].Phase != plan.PhasePCI {
		t.Errorf("%+v", p.Steps)
	}
}

func TestWithheld(t *testing.T) {
	b := plantest.Blocks(t, types, persistent)[0]
	b.Withheld = []plan.Withheld{{Attribute: "scope", Reason: "a virtual machine"}}
	a := (pcieacs.Type{}).Assess(b, on(server))
	if len(a.Findings)+len(a.Steps) > 0 || len(a.Contributions) != 1 || a.Contributions[0].Sink != plan.FactSink || a.Contributions[0].Key != plan.ACSArgumentsFact {
		t.Errorf("%+v", a)
	}
	b = plantest.Blocks(t, types, `pcie_acs "gpus" { redirect = null }`)[0]
	if a := (pcieacs.Type{}).Assess(b, on(server)); len(a.Findings) > 0 {
		t.Errorf("%+v", a)
	}
}

func TestValidate(t *testing.T) {
	for scope, want := range map[string]int{
		`["0000:17:00.0", "10000:00:02.0"]`: 0, `[]`: 0, "null": 0,
		`["17:00.0", "0000:17:00", "0000:1A:00.0", "pci:1000:c030"]`: 4,
	} {
		b := plantest.Blocks(t, types, "pcie_acs \"x\" {\nredirect = \"off\"\nscope = "+scope+"\n}")[0]
		if problems := (pcieacs.Type{}).Validate(b); len(problems) != want {
			t.Errorf("%s: %v", scope, problems)
		}
	}
}
