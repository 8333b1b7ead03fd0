package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/confdir"
	"busbar/internal/lazyregexp"
	"busbar/internal/unitfile"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Platform is check "platform": settings of firmware and host that GPU jobs feel.
type Platform struct{}

var _ plan.Validator = Platform{}

// Spec of check "platform".
func (Platform) Spec() plan.Spec {
	one := int64(1)
	return plan.Spec{
		Name: "platform", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Settings of firmware and host that GPU jobs feel. What is left out is not judged.",
		Attributes: []plan.Attribute{
			{Name: "numa_known", Type: cty.Bool, Example: "true", Doc: "Whether firmware says of each GPU and NIC to which NUMA node it belongs, where there are several. A note in virtual machines."},
			{Name: "numa_nodes_per_socket", Type: cty.List(cty.Number), Example: "[1, 4]", Doc: "How many NUMA nodes with CPUs a socket may have (NPS on Epyc, SNC on Xeon)."},
			{Name: "governor", Type: cty.String, Example: `"performance"`, Doc: "The frequency governor of all CPUs: NCCL's proxy threads feel a slow one."},
			{Name: "transparent_hugepages", Type: cty.List(cty.String), Example: `["madvise", "always"]`, Doc: "The modes that /sys/kernel/mm/transparent_hugepage/enabled may have."},
			{Name: "irqbalance", Type: cty.Bool, Example: "false", Doc: "Whether irqbalance may run; it moves the interrupts of NICs away from their NUMA node."},
			{Name: "remove_ipc", Type: cty.Bool, Example: "false", Doc: "Whether systemd-logind may remove what a user has in /dev/shm when the last session ends: jobs that go on lose NCCL's shared memory."},
			{Name: "topology_file", Type: cty.Bool, Example: "true", Doc: "Whether NCCL must be given the topology as a file (NCCL_TOPO_FILE in " + sink.NCCLPath + ", or the one that it looks for itself), where a virtual machine has GPUs and RDMA NICs: its PCI tree says nothing of how near they are."},
			{Name: "shm_min", Type: cty.Number, Min: &one, Example: "1073741824", Doc: "Bytes that /dev/shm must hold at least: NCCL's shared-memory transport and its set-up over processes live there."},
		},
	}
}

type platform struct {
	NUMAKnown          *bool    `cty:"numa_known"`
	NUMANodesPerSocket []int    `cty:"numa_nodes_per_socket"`
	Governor           *string  `cty:"governor"`
	HugePages          []string `cty:"transparent_hugepages"`
	IRQBalance         *bool    `cty:"irqbalance"`
	RemoveIPC          *bool    `cty:"remove_ipc"`
	TopologyFile       *bool    `cty:"topology_file"`
	ShmMin             *uint64  `cty:"shm_min"`
}

const (
	hugePagesPath = "/sys/kernel/mm/transparent_hugepage/enabled"
	shmPath       = "/dev/shm"
	// topologyKey names the file of the topology for NCCL; without it NCCL takes defaultTopology, where that is there
	// (ncclTopoGetSystem in NCCL's src/graph/topo.cc).
	topologyKey     = "NCCL_TOPO_FILE"
	defaultTopology = "/var/run/nvidia-topologyd/virtualTopology.xml"
	irqbalance      = "irqbalance.service"
)

// hugePageModes are those of Documentation/admin-guide/mm/transhuge.rst.
var hugePageModes = []string{"always", "madvise", "never"}

// Validate finds a block that asks nothing, and modes that do not exist.
func (Platform) Validate(b plan.Block) []plan.Problem {
	var c platform
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	var problems []plan.Problem
	if len(b.Withheld) == 0 && c.NUMAKnown == nil && c.NUMANodesPerSocket == nil && c.Governor == nil && c.HugePages == nil && c.IRQBalance == nil && c.RemoveIPC == nil && c.TopologyFile == nil && c.ShmMin == nil {
		problems = append(problems, plan.Problem{Summary: "nothing is asked", Detail: "Name at least one setting that is to be judged."})
	}
	for name, empty := range map[string]bool{
		"numa_nodes_per_socket": c.NUMANodesPerSocket != nil && len(c.NUMANodesPerSocket) == 0,
		"transparent_hugepages": c.HugePages != nil && len(c.HugePages) == 0,
	} {
		if empty {
			problems = append(problems, plan.Problem{Attribute: name, Summary: "an empty list allows nothing", Detail: "Name what is allowed, or leave the attribute out."})
		}
	}
	for _, mode := range c.HugePages {
		if !slices.Contains(hugePageModes, mode) {
			problems = append(problems, plan.Problem{
				Attribute: "transparent_hugepages", Summary: "not a mode of transparent huge pages",
				Detail: fmt.Sprintf("%q is none of %s.", mode, strings.Join(hugePageModes, ", ")),
			})
		}
	}
	for _, n := range c.NUMANodesPerSocket {
		if n < 1 {
			problems = append(problems, plan.Problem{Attribute: "numa_nodes_per_socket", Summary: "a socket has a NUMA node at least", Detail: fmt.Sprintf("%d is less than one.", n)})
		}
	}
	return problems
}

// Queries are those that the attributes need.
func (Platform) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c platform
	if inv.RootDirectory || b.Decode(&c) != nil {
		return nil
	}
	var queries []node.Query
	if c.NUMANodesPerSocket != nil || c.Governor != nil {
		queries = append(queries, node.CPUs.Query(""))
	}
	if c.NUMANodesPerSocket != nil || c.NUMAKnown != nil {
		queries = append(queries, node.NUMANodes.Query(""))
	}
	if c.HugePages != nil {
		queries = append(queries, node.File.Query(hugePagesPath))
	}
	if c.IRQBalance != nil {
		queries = append(queries, node.Unit.Query(irqbalance))
	}
	if virtualization, known := inv.Virtualization.Get(); c.TopologyFile != nil && (!known || virtualization != "none") {
		queries = append(queries, node.File.Query(sink.NCCLPath), node.Path.Query(defaultTopology))
	}
	if c.RemoveIPC != nil {
		queries = append(queries, node.LogindConfFiles.Query(""))
	}
	if c.ShmMin != nil {
		queries = append(queries, node.Mount.Query(shmPath))
	}
	return queries
}

// Assess judges each attribute.
func (Platform) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c platform
	_ = b.Decode(&c) // tried when the block was validated
	if facts.Inventory.RootDirectory {
		return plan.Assessment{Findings: []plan.Finding{{ID: "platform.host", Target: "host", Status: plan.Skipped, Summary: "the running host is not judged (--root)"}}}
	}
	var list []plan.Finding
	if c.NUMAKnown != nil {
		list = append(list, numaKnown(*c.NUMAKnown, facts))
	}
	if c.NUMANodesPerSocket != nil {
		list = append(list, numaPerSocket(c.NUMANodesPerSocket, facts))
	}
	if c.Governor != nil {
		list = append(list, governor(*c.Governor, facts))
	}
	if c.HugePages != nil {
		list = append(list, hugePages(c.HugePages, facts))
	}
	if c.IRQBalance != nil {
		list = append(list, irqBalance(*c.IRQBalance, facts))
	}
	if c.TopologyFile != nil && *c.TopologyFile {
		list = append(list, topologyFile(facts))
	}
	if c.RemoveIPC != nil {
		list = append(list, removeIPC(*c.RemoveIPC, facts))
	}
	if c.ShmMin != nil {
		list = append(list, shm(*c.ShmMin, facts))
	}
	return plan.Assessment{Findings: list}
}

// numaKnown judges GPUs and NICs of which the kernel writes NUMA node -1: neither ACPI's _PXM nor anything like it says one
// (Documentation/ABI/testing/sysfs-bus-pci, numa_node). It does no harm where there is one node alone, and is usual in a virtual machine.
func numaKnown(want bool, facts node.Facts) plan.Finding {
	const id = "platform.numa_known"
	inv := facts.Inventory
	functions, ok := inv.PCI.Get()
	if !ok {
		return plan.Unread(id, "to which NUMA nodes GPUs and NICs belong", inv.PCI)
	}
	var without []string
	for _, p := range functions {
		if (p.IsNVIDIAGPU() || p.IsNIC()) && p.PhysicalFunction == "" && p.NUMANode < 0 {
			without = append(without, p.Address)
		}
	}
	f := plan.Finding{ID: id, Target: "numa_node", Source: inv.PCI.Source(), Status: plan.OK, Want: fmt.Sprint(want), Found: strings.Join(without, " ")}
	f.Summary = "firmware does not say to which NUMA node these belong: " + f.Found
	if len(without) == 0 {
		f.Summary = "firmware says to which NUMA node each GPU and NIC belongs"
	}
	if len(without) == 0 || !want {
		return f
	}
	nodes := node.NUMANodes.Get(facts, "")
	list, counted := nodes.Get()
	list = slices.DeleteFunc(slices.Clone(list), func(n node.NUMANode) bool { return n.CPUs == "" })
	f.Why = "what is bound to the NUMA node of its GPU or NIC lands anywhere, and NCCL takes such a device for far from all others"
	switch {
	case virtualMachine(inv):
		f.Status, f.Severity = plan.Drift, plan.Info
		f.Summary += "; that is usual in a virtual machine"
		f.Fix = "give NCCL the host's topology as a file (NCCL_TOPO_FILE), or have the hypervisor say the NUMA nodes"
	case !inv.Virtualization.IsKnown():
		return plan.Unread(id, "whether firmware has to say NUMA nodes (it need not in a virtual machine)", inv.Virtualization)
	case !counted:
		return plan.Unread(id, "whether there are several NUMA nodes, of which firmware does not say that of "+f.Found, nodes)
	case len(list) == 1:
		f.Why, f.Summary = "", fmt.Sprintf("all GPUs and NICs belong to NUMA node %d, the only one with CPUs", list[0].ID)
	default:
		f.Status = plan.Drift
		f.Fix = "look for NUMA, NPS or SNC in the firmware's setup, or for a newer firmware"
	}
	return f
}

// topologyFile judges whether NCCL is told how near GPUs and NICs of a virtual machine are to each other.
func topologyFile(facts node.Facts) plan.Finding {
	const id, what = "platform.topology_file", "whether NCCL needs a topology file"
	inv := facts.Inventory
	nics, nicsKnown := inv.NICs().Get()
	gpus, _ := inv.GPUs().Get() // known where NICs are
	f := plan.Finding{ID: id, Target: topologyKey, Status: plan.OK, Source: inv.Virtualization.Source()}
	virtualization, ok := inv.Virtualization.Get()
	switch {
	case !ok:
		return plan.Unread(id, what, inv.Virtualization)
	case virtualization == "none":
		f.Summary = "this is no virtual machine: its PCI bus tells NCCL how near GPUs and NICs are"
		return f
	case !nicsKnown:
		return plan.Unread(id, what, inv.PCI)
	case !inv.RDMA.IsKnown():
		return plan.Unread(id, what, inv.RDMA)
	}
	nics = slices.DeleteFunc(slices.Clone(nics), func(n node.NIC) bool { return !n.RDMA.IsKnown() })
	if len(gpus) == 0 || len(nics) == 0 {
		f.Summary = "this virtual machine has no GPUs and RDMA NICs whose distance matters"
		return f
	}
	setting := ncclSetting(facts, topologyKey)
	text, told := setting.Get()
	file := node.Path.Get(facts, defaultTopology)
	found, looked := file.Get()
	f.Want = "the topology of the host as a file"
	switch {
	case !told:
		return plan.Unread(id, "whether "+topologyKey+" is set", setting)
	case text != "":
		f.Found, f.Source, f.Summary = text, setting.Source(), fmt.Sprintf("NCCL reads the topology from %s", text)
	case !looked:
		return plan.Unread(id, "whether there is "+defaultTopology, file)
	case found.Exists:
		f.Found, f.Source, f.Summary = defaultTopology, file.Source(), fmt.Sprintf("NCCL reads the topology from %s", defaultTopology)
	default:
		f.Status, f.Found, f.Source = plan.Drift, "none", setting.Source()
		f.Summary = fmt.Sprintf("nothing tells NCCL how near the %s and the %s of this virtual machine (%s) are to each other: its PCI tree is its hypervisor's invention",
			count(len(gpus), "GPU"), count(len(nics), "RDMA NIC"), virtualization)
		f.Why = "NCCL takes them for as far from each other as the tree shows, copies through host memory, and may pair GPUs with NICs of the other socket"
		f.Fix = fmt.Sprintf("set %s in %s (block nccl) to the topology file of the cloud or the hypervisor for this kind of machine", topologyKey, sink.NCCLPath)
	}
	return f
}

// count is a number of things in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func numaPerSocket(allowed []int, facts node.Facts) plan.Finding {
	const id, what = "platform.numa_nodes_per_socket", "how many NUMA nodes a socket has"
	nodes, cpus := node.NUMANodes.Get(facts, ""), node.CPUs.Get(facts, "")
	list, ok := nodes.Get()
	if !ok {
		return plan.Unread(id, what, nodes)
	}
	state, ok := cpus.Get()
	f := plan.Finding{ID: id, Target: "numa_nodes_per_socket", Source: nodes.Source(), Status: plan.OK, Want: alternatives(allowed)}
	withCPUs := 0
	for _, n := range list {
		if n.CPUs != "" {
			withCPUs++ // a node of memory alone belongs to a GPU or an expander
		}
	}
	switch {
	case !ok && withCPUs == 1 && slices.Contains(allowed, 1): // whatever the sockets
		f.Found, f.Summary = "1", "all CPUs are on one NUMA node"
		return f
	case !ok:
		return plan.Unread(id, what, cpus)
	}
	if state.Packages == 0 || withCPUs%state.Packages != 0 {
		f.Status, f.Summary = plan.Undetermined, fmt.Sprintf("%s is unknown: %s over %s", what, counted(withCPUs, "NUMA node"), counted(state.Packages, "socket"))
		return f
	}
	each := withCPUs / state.Packages
	f.Found = fmt.Sprint(each)
	f.Summary = fmt.Sprintf("%s on each of %s", counted(each, "NUMA node"), counted(state.Packages, "socket"))
	if !slices.Contains(allowed, each) {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		f.Fix = "set NPS (Epyc) or SNC (Xeon) in the firmware's setup"
	}
	return f
}

func governor(want string, facts node.Facts) plan.Finding {
	const id, what = "platform.governor", "the frequency governor"
	v := node.CPUs.Get(facts, "")
	state, ok := v.Get()
	if !ok {
		return plan.Unread(id, what, v)
	}
	governors, ok := state.Governors.Get()
	if state.Governors.IsUnsupported() {
		return plan.Finding{ID: id, Target: "governor", Status: plan.Skipped, Source: state.Governors.Source(), Summary: state.Governors.Reason()}
	}
	if !ok {
		return plan.Unread(id, what, state.Governors)
	}
	names := slices.Sorted(maps.Keys(governors))
	f := plan.Finding{ID: id, Target: "governor", Source: state.Governors.Source(), Status: plan.OK, Want: want, Found: strings.Join(names, " ")}
	f.Summary = "the frequency governor is " + strings.Join(names, " and ")
	if !slices.Equal(names, []string{want}) {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + want
		f.Why = "NCCL's proxy threads post and poll each transfer; a core that sleeps or idles low adds to each of them"
		f.Fix = "cpupower frequency-set -g " + want + ", and a tuned profile or unit that does so at each boot"
	}
	return f
}

func hugePages(allowed []string, facts node.Facts) plan.Finding {
	const id, what = "platform.transparent_hugepages", "the mode of transparent huge pages"
	v := node.File.Get(facts, hugePagesPath)
	file, ok := v.Get()
	if !ok {
		return plan.Unread(id, what, v)
	}
	f := plan.Finding{ID: id, Target: "transparent_hugepages", Source: v.Source(), Status: plan.OK, Want: strings.Join(allowed, " or ")}
	if !file.Exists {
		f.Status, f.Summary = plan.Skipped, "the kernel has no transparent huge pages"
		return f
	}
	_, rest, _ := strings.Cut(file.Text, "[") // always [madvise] never
	mode, _, ok := strings.Cut(rest, "]")
	if !ok {
		f.Status, f.Summary = plan.Undetermined, fmt.Sprintf("%s is unknown: %s says %q", what, hugePagesPath, strings.TrimSpace(file.Text))
		return f
	}
	f.Found, f.Summary = mode, "transparent huge pages: "+mode
	if !slices.Contains(allowed, mode) {
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		f.Fix = "boot argument transparent_hugepage=" + allowed[0] + ": block kernel_args"
	}
	return f
}

func irqBalance(allowed bool, facts node.Facts) plan.Finding {
	const id = "platform.irqbalance"
	v := node.Unit.Get(facts, irqbalance)
	u, ok := v.Get()
	if !ok {
		return plan.Unread(id, irqbalance, v)
	}
	f := plan.Finding{ID: id, Target: irqbalance, Source: v.Source(), Status: plan.OK}
	if u.Load == "not-found" {
		f.Summary = irqbalance + " is not installed"
		return f
	}
	active, ok := u.Active.Get()
	if !ok {
		return plan.Unread(id, "whether "+irqbalance+" runs", u.Active)
	}
	f.Found, f.Summary = active, irqbalance+" is "+active
	if !allowed && active != "inactive" && active != "failed" {
		f.Status, f.Want = plan.Drift, "inactive"
		f.Why = "it moves the interrupts of NICs to CPUs of other NUMA nodes"
		f.Fix = "ban the NICs' interrupts in its configuration and allow it here, or stop and disable it: block service"
	}
	return f
}

// logindDirs have logind.conf, of which the first one counts, and logind.conf.d (logind.conf(5)).
var logindDirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd"}

// builtIn is a line of logind.conf that is commented out, with which the file shows what logind was built with (logind.conf(5),
// "Configuration directories and precedence"): yes, unless the distribution chose no.
var builtIn = lazyregexp.New(`(?m)^#RemoveIPC=(\w+)\s*$`)

// removeIPC judges whether logind clears /dev/shm behind users who log out; those of system users and root stay.
func removeIPC(allowed bool, facts node.Facts) plan.Finding {
	const id, target, what = "platform.remove_ipc", "RemoveIPC", "whether systemd-logind removes what users leave in /dev/shm"
	v := node.LogindConfFiles.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		return plan.Unread(id, what, v)
	}
	f := plan.Finding{ID: id, Target: target, Source: v.Source(), Status: plan.OK}
	if i := slices.IndexFunc(files, func(f confdir.File) bool { return f.Reason != "" }); i >= 0 {
		f.Status, f.Source = plan.Undetermined, node.Source{Path: files[i].Path}
		f.Summary = fmt.Sprintf("%s is unknown: %s", what, files[i].Reason)
		return f
	}
	fragments := make([]string, len(logindDirs))
	for i, dir := range logindDirs {
		fragments[i] = dir + "/logind.conf.d"
	}
	f.Found = "yes"
	ordered := confdir.Merge(files, logindDirs)
	for _, main := range ordered {
		if m := builtIn.FindStringSubmatch(main.Text); m != nil {
			f.Found, f.Source = m[1], node.Source{Path: main.Path}
		}
	}
	if set, ok := unitfile.Setting(append(ordered, confdir.Merge(files, fragments)...), "Login", "RemoveIPC"); ok {
		f.Found, f.Source = set.Line, node.Source{Path: set.File, Line: set.Number}
	}
	f.Summary = "systemd-logind keeps what users leave in /dev/shm when they log out"
	if !slices.Contains([]string{"no", "n", "false", "f", "0", "off"}, strings.ToLower(f.Found)) { // parse_boolean of systemd's src/basic/parse-util.c; what it refuses leaves the default
		f.Summary = "systemd-logind removes what users leave in /dev/shm when they log out"
		if !allowed {
			f.Status, f.Want = plan.Drift, "no"
			f.Why = "a job that goes on without a session loses NCCL's shared memory, and ends or hangs"
			f.Fix = "write RemoveIPC=no below [Login] into /etc/systemd/logind.conf.d/busbar.conf, and systemctl restart systemd-logind"
		}
	}
	return f
}

func shm(least uint64, facts node.Facts) plan.Finding {
	const id = "platform.shm"
	v := node.Mount.Get(facts, shmPath)
	m, ok := v.Get()
	if !ok {
		return plan.Unread(id, "what "+shmPath+" holds", v)
	}
	f := plan.Finding{ID: id, Target: shmPath, Source: v.Source(), Status: plan.OK, Want: fmt.Sprintf("%d bytes", least)}
	if m.Point != shmPath {
		f.Status, f.Found = plan.Drift, "not mounted"
		f.Summary = shmPath + " is no file system of its own"
		f.Fix = "mount a tmpfs there: systemd does so at boot"
		return f
	}
	size, ok := m.Size.Get()
	if !ok {
		return plan.Unread(id, "the size of "+shmPath, m.Size)
	}
	f.Found = fmt.Sprintf("%d bytes", size)
	f.Summary = shmPath + " holds " + f.Found
	if size < least {
		f.Status = plan.Drift
		f.Summary += ", wanted are at least " + f.Want
		f.Why = "NCCL's shared-memory transport fails when it is full"
		f.Fix = "mount -o remount,size=BYTES " + shmPath + " and the same in /etc/fstab; in a container --shm-size or --ipc=host"
	}
	return f
}

// counted is N THING or N THINGs.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// alternatives is A or B or C.
func alternatives(list []int) string {
	var all []string
	for _, n := range list {
		all = append(all, fmt.Sprint(n))
	}
	return strings.Join(all, " or ")
}
