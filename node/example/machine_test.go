package example_test

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan/sink"
)

// machine collects what a reader would answer on a node that does not exist.
type machine struct {
	hostname       string
	arch           string // x86_64 where empty
	os             node.OS
	kernel         string
	dmi            node.Value[node.DMI]
	virtualization node.Value[string]
	bootID         string
	uptime         time.Duration

	bus     bus
	netdevs []node.Netdev
	rdma    []node.RDMADevice
	routes  []node.Route
	guarded []node.ProtectedNetdev
	// unsaved: no run has saved which NICs are protected.
	unsaved  bool
	firmware []string // IOMMU tables
	iommus   []string
	domain   string // type of every IOMMU group

	// acs are the ACS functions that are on, by port; readRequests are those of the rails, in bytes. idle: no
	// GPU is at work.
	acs          map[string]pciregs.ACSBits
	readRequests map[string]int
	idle         bool

	commandLine string
	answers     map[node.Query]node.Answer
}

// observed is when all examples were recorded.
var observed = time.Date(2026, time.March, 2, 8, 15, 0, 0, time.UTC)

func at(path string) node.Source { return node.Source{Path: path} }

// answer adds an answer, or replaces one.
func answer[T any](m *machine, kind node.Kind[T], key string, v node.Value[T]) {
	if m.answers == nil {
		m.answers = map[node.Query]node.Answer{}
	}
	m.answers[kind.Query(key)] = kind.Answer(key, v)
}

// facts is the machine as a recording has it.
func (m *machine) facts() node.Facts {
	functions := slices.SortedFunc(slices.Values(m.bus.functions), func(a, b node.PCIFunction) int { return cmp.Compare(a.Address, b.Address) })
	m.bus.functions = functions
	inv := node.Inventory{
		Hostname:       m.hostname,
		Arch:           node.Known(cmp.Or(m.arch, "x86_64"), node.Source{Call: "uname"}),
		Kernel:         node.Known(m.kernel, node.Source{Call: "uname"}),
		OS:             node.Known(m.os, at("/etc/os-release")),
		DMI:            m.dmi,
		Virtualization: m.virtualization,
		PCI:            node.Known(functions, at("/sys/bus/pci/devices")),
		Netdevs:        node.Known(slices.SortedFunc(slices.Values(m.netdevs), func(a, b node.Netdev) int { return cmp.Compare(a.Name, b.Name) }), at("/sys/class/net")),
		RDMA:           node.Known(slices.SortedFunc(slices.Values(m.rdma), func(a, b node.RDMADevice) int { return cmp.Compare(a.Name, b.Name) }), at("/sys/class/infiniband")),
		Routes:         node.Known(m.routes, node.Source{Call: "rtnetlink"}),
		Protected:      node.Known(m.guarded, node.Source{Call: "rtnetlink"}),
		BootID:         node.Known(m.bootID, at("/proc/sys/kernel/random/boot_id")),
		Uptime:         node.Known(m.uptime, at("/proc/uptime")),
		Marker:         node.Known(node.Marker{}, at(node.MarkerPath)),
	}
	inv.SavedProtected = node.Known([]string{}, at(node.ProtectedPath))
	if lasting, ok := inv.LastingProtected().Get(); ok && !m.unsaved {
		inv.SavedProtected = node.Known(lasting, at(node.ProtectedPath))
	}
	answer(m, node.IOMMU, "", node.Known(m.iommuState(), at("/sys/class/iommu")))
	answer(m, node.CommandLine, "", node.Known(m.commandLine, at("/proc/cmdline")))
	m.host()
	answer(m, node.RDMAUsers, "", node.Known(node.RDMAUsage{}, node.Source{Call: "RDMA_NLDEV_CMD_RES_QP_GET"}))
	answer(m, node.SlurmJobs, "", node.Known([]string{}, at("/proc")))
	answer(m, node.GPUUsers, "", node.Known(node.GPUUsage{Unseen: node.Known(0, at("/sys/module/nvidia_uvm/refcnt"))}, at("/proc")))
	if m.virtualization == node.Known("none", m.virtualization.Source()) {
		m.pcie()
	}
	return node.NewFacts(inv, observed, slices.Collect(maps.Values(m.answers)))
}

// host answers how the processors and memory are set, as on a server that somebody tuned; NCCL is given no topology.
func (m *machine) host() {
	governors := node.Known(map[string]int{"performance": 2}, at("/sys/devices/system/cpu/cpufreq"))
	if m.virtualization != node.Known("none", m.virtualization.Source()) {
		governors = node.Unsupported[map[string]int]("the kernel does not set the processors' frequency here", governors.Source())
	}
	answer(m, node.CPUs, "", node.Known(node.CPUState{Packages: 2, Governors: governors}, at("/sys/devices/system/cpu")))
	m.absent("/var/run/nvidia-topologyd/virtualTopology.xml")
	answer(m, node.KernelLog, "", node.Known(node.KernelLogState{Records: 4213, Lost: node.Known(0, at("/dev/kmsg"))}, at("/dev/kmsg")))
	const hugePages = "/sys/kernel/mm/transparent_hugepage/enabled"
	answer(m, node.File, hugePages, node.Known(node.FileState{Exists: true, Text: "always [madvise] never\n"}, at(hugePages)))
	answer(m, node.Mount, "/dev/shm", node.Known(node.MountState{Point: "/dev/shm", Type: "tmpfs", Size: node.Known(uint64(64<<30), node.Source{Call: "statfs"})}, at("/proc/self/mountinfo")))
}

// driver is what drives a network device, and its firmware as it words it.
type driver struct{ name, firmware string }

// link answers for the link of a NIC port, by its key and its speed in Mbit/s: 0 where nothing is plugged in, -1 where
// the driver does not know.
func (m *machine) link(key string, d driver, mbps int) {
	address, port, _ := node.ParseNIC(key)
	i := slices.IndexFunc(m.netdevs, func(n node.Netdev) bool { return n.PCI == address && n.Port == port })
	dir, ioctl := "/sys/class/net/"+m.netdevs[i].Name, node.Source{Call: "ioctl SIOCETHTOOL ETHTOOL_GDRVINFO"}
	up := m.netdevs[i].Up
	s := node.LinkState{
		Netdev: m.netdevs[i].Name, MAC: node.Known(fmt.Sprintf("02:00:%s:%s:0%s:%02x", address[2:4], address[5:7], address[11:], port-1), at(dir+"/address")), MTU: node.Known(1500, at(dir+"/mtu")),
		Up: node.Known(up, at(dir+"/flags")), Carrier: node.Known(mbps != 0, at(dir+"/carrier")), OperState: node.Known("up", at(dir+"/operstate")), Speed: node.Known(mbps, at(dir+"/speed")),
		Driver: node.Known(d.name, ioctl), Firmware: node.Known(d.firmware, ioctl),
	}
	if d.firmware == "" { // of virtio
		s.Firmware = node.Unsupported[string]("the driver shows none", ioctl)
	}
	if mbps == 0 {
		s.OperState = node.Known("down", at(dir+"/operstate"))
	}
	if mbps <= 0 {
		s.Speed = node.Unknown[int]("there is no link, or the driver does not know its speed", at(dir+"/speed"))
	}
	if !up {
		s.Carrier = node.Unknown[bool]("the network device is down", at(dir+"/carrier"))
		s.Speed = node.Unknown[int]("the network device is down, or its driver has no speed", at(dir+"/speed"))
	}
	answer(m, node.Link, key, node.Known(s, at(dir)))
}

// roce answers for the RDMA port, DEVICE/PORT, of an Ethernet port with a link.
func (m *machine) roce(key, rate, firmware, hca string) {
	device, port, _ := strings.Cut(key, "/")
	dir := "/sys/class/infiniband/" + device
	ports := dir + "/ports/" + port
	answer(m, node.RDMAPort, key, node.Known(node.RDMAPortState{
		LinkLayer: "Ethernet", State: node.Known(node.RDMAActive, at(ports+"/state")), PhysState: node.Known("LinkUp", at(ports+"/phys_state")), Rate: node.Known(rate, at(ports+"/rate")),
		LID: node.Known(0, at(ports+"/lid")), SMLID: node.Known(0, at(ports+"/sm_lid")), GIDs: node.Known([]node.GID{}, at(ports+"/gids")),
		Firmware: node.Known(firmware, at(dir+"/fw_ver")), HCAType: node.Known(hca, at(dir+"/hca_type")),
	}, at(ports)))
}

// rootFileSystem answers which file system holds the directories that sinks write into: one of
// the given type, but for /run.
func (m *machine) rootFileSystem(kind string) {
	queries := []node.Query{node.Mount.Query(path.Dir(node.MarkerPath))}
	for _, s := range sink.All() {
		queries = append(queries, s.Queries(nil)...)
	}
	for _, q := range queries {
		if q.Kind != node.Mount.Name() {
			continue
		}
		state := node.MountState{Point: "/", Type: kind}
		if strings.HasPrefix(q.Key, "/run/") {
			state = node.MountState{Point: "/run", Type: "tmpfs"}
		}
		answer(m, node.Mount, q.Key, node.Known(state, at("/proc/self/mountinfo")))
	}
}

// numaNodes are the NUMA nodes from 0, each with its CPUs.
func (m *machine) numaNodes(cpus ...string) {
	list := []node.NUMANode{}
	for id, cpus := range cpus {
		list = append(list, node.NUMANode{ID: id, CPUs: cpus})
	}
	answer(m, node.NUMANodes, "", node.Known(list, at("/sys/devices/system/node")))
}

// iommuState puts every function into a group of its own, as ACS does.
func (m *machine) iommuState() node.IOMMUState {
	state := node.IOMMUState{Units: m.iommus, Tables: m.firmware, MaxAPICID: node.Known(255, at("/proc/cpuinfo"))}
	if m.arch != "" {
		state.MaxAPICID = node.Unknown[int]("no APIC id is in /proc/cpuinfo", at("/proc/cpuinfo"))
	}
	if len(m.iommus) == 0 {
		return state
	}
	for i, f := range m.bus.functions {
		kind := node.Known(m.domain, at(fmt.Sprintf("/sys/kernel/iommu_groups/%d/type", i)))
		state.Groups = append(state.Groups, node.IOMMUGroup{ID: i, Type: kind, Devices: []string{f.Address}})
	}
	return state
}

// files answers a list of configuration files; texts are path, content, path, content ...
func files(m *machine, kind node.Kind[[]confdir.File], key, dir string, texts ...string) {
	list := []confdir.File{}
	for i := 0; i+1 < len(texts); i += 2 {
		list = append(list, confdir.File{Path: texts[i], Text: texts[i+1]})
	}
	answer(m, kind, key, node.Known(list, at(dir)))
}

// sysctl is a parameter as it runs.
func (m *machine) sysctl(name, value string) {
	answer(m, node.Sysctl, name, node.Known(value, at("/proc/sys/"+strings.ReplaceAll(name, ".", "/"))))
}

// ncclConf is /etc/nccl.conf.
func (m *machine) ncclConf(text string) {
	answer(m, node.File, sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: text}, at(sink.NCCLPath)))
}

// devices are character devices that exist.
func (m *machine) devices(paths ...string) {
	for _, p := range paths {
		answer(m, node.Path, p, node.Known(node.PathState{Exists: true, Type: "character-device", Mode: "0666"}, at(p)))
	}
}

// absent are paths that do not exist.
func (m *machine) absent(paths ...string) {
	for _, p := range paths {
		answer(m, node.Path, p, node.Known(node.PathState{}, at(p)))
	}
}

// module is a kernel module; file is its path below each kernel's directory, empty when no
// kernel has it.
func (m *machine) module(name string, loaded bool, file string, kernels []string, holders ...string) {
	state := node.ModuleState{Loaded: loaded, Holders: holders, RefCount: len(holders)}
	for _, release := range kernels {
		on := node.ModuleOnDisk{Release: release}
		if file != "" {
			on.Path = "/lib/modules/" + release + "/" + file
			on.Signed = node.Known(true, at(on.Path))
		}
		state.Kernels = append(state.Kernels, on)
	}
	source := "/lib/modules"
	if loaded {
		source = "/proc/modules"
	}
	answer(m, node.Module, name, node.Known(state, at(source)))
}

// unit is a systemd unit and its files.
func (m *machine) unit(name, enablement, active string, texts ...string) {
	source := node.Source{Call: "org.freedesktop.systemd1.Unit " + name}
	state := node.UnitState{Load: "loaded", File: enablement, Active: node.Known(active, source)}
	answer(m, node.Unit, name, node.Known(state, source))
	if len(texts) > 0 {
		files(m, node.UnitFiles, name, "/etc/systemd/system/"+name, texts...)
	}
}

// noUnits are services that are not installed.
func (m *machine) noUnits(names ...string) {
	for _, name := range names {
		source := node.Source{Call: "org.freedesktop.systemd1.Unit " + name}
		answer(m, node.Unit, name, node.Known(node.UnitState{Load: "not-found", Active: node.Known("inactive", source)}, source))
		files(m, node.UnitFiles, name, "/etc/systemd/system/"+name)
		answer(m, node.ProcLimits, name, node.Known(node.ProcessLimits{}, node.Source{Call: "org.freedesktop.systemd1.Service " + name}))
	}
}

// process is a unit's main process with its limit of locked memory.
func (m *machine) process(unit, command string, pid int, memlock string) {
	p := node.ProcessLimits{Running: true, PID: pid, Command: command, Text: procLimits(memlock)}
	answer(m, node.ProcLimits, unit, node.Known(p, at(fmt.Sprintf("/proc/%d/limits", pid))))
}

// procLimits is /proc/PID/limits (proc_pid_limits in fs/proc/base.c).
func procLimits(memlock string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units")
	for _, row := range [][4]string{
		{"Max cpu time", "unlimited", "unlimited", "seconds"},
		{"Max file size", "unlimited", "unlimited", "bytes"},
		{"Max data size", "unlimited", "unlimited", "bytes"},
		{"Max stack size", "8388608", "unlimited", "bytes"},
		{"Max core file size", "0", "unlimited", "bytes"},
		{"Max resident set", "unlimited", "unlimited", "bytes"},
		{"Max processes", "8254021", "8254021", "processes"},
		{"Max open files", "131072", "131072", "files"},
		{"Max locked memory", memlock, memlock, "bytes"},
		{"Max address space", "unlimited", "unlimited", "bytes"},
		{"Max file locks", "unlimited", "unlimited", "locks"},
		{"Max pending signals", "8254021", "8254021", "signals"},
		{"Max msgqueue size", "819200", "819200", "bytes"},
		{"Max nice priority", "0", "0", ""},
		{"Max realtime priority", "0", "0", ""},
		{"Max realtime timeout", "unlimited", "unlimited", "us"},
	} {
		fmt.Fprintf(&b, "%-25s %-20s %-20s %-10s\n", row[0], row[1], row[2], row[3])
	}
	return b.String()
}

// grubNode is GRUB of Debian and Ubuntu: its defaults, and the grub.cfg that was made of them.
type grubNode struct {
	title   string // Ubuntu, Debian GNU/Linux
	uuid    string
	kernels []string // newest first
	// linux is GRUB_CMDLINE_LINUX, linuxDefault what the defaults add to it.
	linux, linuxDefault string
	// fragments are further files, path and content in turn.
	fragments []string
}

// boot answers the boot configuration and sets the running command line, that of the newest kernel.
func (m *machine) boot(g grubNode) {
	defaults := []confdir.File{{Path: grub.DefaultsFile, Text: "# Run update-grub after changes.\n" +
		"GRUB_DEFAULT=0\nGRUB_TIMEOUT_STYLE=hidden\nGRUB_TIMEOUT=5\n" +
		"GRUB_DISTRIBUTOR=`( . /etc/os-release; echo ${NAME:-Debian} ) 2>/dev/null || echo Debian`\n" +
		"GRUB_CMDLINE_LINUX_DEFAULT=\"\"\nGRUB_CMDLINE_LINUX=\"" + g.linux + "\"\n"}}
	for i := 0; i+1 < len(g.fragments); i += 2 {
		defaults = append(defaults, confdir.File{Path: g.fragments[i], Text: g.fragments[i+1]})
	}
	b := node.BootConfig{Loader: node.LoaderGRUBDebian, Defaults: defaults, Generated: g.config(), UpdateGrub: true}
	answer(m, node.Boot, "", node.Known(b, at(grub.DefaultsFile)))
	m.commandLine = fmt.Sprintf("BOOT_IMAGE=/boot/vmlinuz-%s root=UUID=%s ro %s", g.kernels[0], g.uuid, join(g.linux, g.linuxDefault))
}

func join(words ...string) string { return strings.Join(strings.Fields(strings.Join(words, " ")), " ") }

// config is a grub.cfg in the shape that grub-mkconfig gives it.
func (g grubNode) config() string {
	var b strings.Builder
	b.WriteString(`#
# DO NOT EDIT THIS FILE
#
# It is automatically generated by grub-mkconfig using templates
# from /etc/grub.d and settings from /etc/default/grub
#

### BEGIN /etc/grub.d/00_header ###
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi
export menuentry_id_option
set timeout_style=hidden
set timeout=5
### END /etc/grub.d/00_header ###

### BEGIN /etc/grub.d/10_linux ###
`)
	line := join(g.linux, g.linuxDefault)
	g.entry(&b, "", g.title, "simple", g.kernels[0], line)
	fmt.Fprintf(&b, "submenu 'Advanced options for %s' $menuentry_id_option 'gnulinux-advanced-%s' {\n", g.title, g.uuid)
	for _, kernel := range g.kernels {
		name := fmt.Sprintf("%s, with Linux %s", g.title, kernel)
		g.entry(&b, "\t", name, kernel+"-advanced", kernel, line)
		g.entry(&b, "\t", name+" (recovery mode)", kernel+"-recovery", kernel, join("recovery nomodeset dis_ucode_ldr", g.linux))
	}
	b.WriteString("}\n### END /etc/grub.d/10_linux ###\n")
	b.WriteString("\n### BEGIN /etc/grub.d/30_uefi-firmware ###\nmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {\n\tfwsetup\n}\n### END /etc/grub.d/30_uefi-firmware ###\n")
	return b.String()
}

func (g grubNode) entry(b *strings.Builder, indent, title, id, kernel, line string) {
	fmt.Fprintf(b, "%smenuentry '%s' --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-%s-%s' {\n", indent, title, id, g.uuid)
	for _, command := range []string{
		"insmod gzio", "insmod part_gpt", "insmod ext2",
		"search --no-floppy --fs-uuid --set=root " + g.uuid,
		fmt.Sprintf("linux\t/boot/vmlinuz-%s root=UUID=%s ro %s", kernel, g.uuid, line),
		"initrd\t/boot/initrd.img-" + kernel,
	} {
		fmt.Fprintf(b, "%s\t%s\n", indent, command)
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// bus is a PCI bus being wired.
type bus struct{ functions []node.PCIFunction }

// id is a kind of function: ids, class and driver.
type id struct{ vendor, device, class, driver string }

// add puts a function below parent ("" for a root bus) and returns its address, which is in domain 0000 unless it
// says another one. Buses below 0x80 belong to the first socket.
func (b *bus) add(address, parent string, k id) string {
	if strings.Count(address, ":") == 1 {
		address = "0000:" + address
	}
	f := node.PCIFunction{Address: address, Vendor: k.vendor, Device: k.device, Class: k.class, Driver: k.driver, Parent: parent}
	if bus := address[strings.IndexByte(address, ':')+1:]; bus >= "80" {
		f.NUMANode = 1
	}
	b.functions = append(b.functions, f)
	return f.Address
}

// numa sets the NUMA node of all functions.
func (b *bus) numa(of func(address string) int) {
	for i, f := range b.functions {
		b.functions[i].NUMANode = of(f.Address)
	}
}

// remove takes a function off the bus.
func (b *bus) remove(address string) {
	b.functions = slices.DeleteFunc(b.functions, func(f node.PCIFunction) bool { return f.Address == address })
}
