package gds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/cufile"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
)

// The ways by which a drive gets at GPU memory, as profiles call them.
const (
	Any      = "any" // of the check
	NVIDIAFS = "nvidia_fs"
	P2PDMA   = "p2pdma"
)

const (
	fsModule = "nvidia_fs"
	// fsVersion is made as the module has initialised (nvfs_proc_init in src/nvfs-proc.c of NVIDIA/gds-nvidia-fs).
	fsVersion    = "/proc/driver/nvidia-fs/version"
	p2pdmaConfig = "CONFIG_PCI_P2PDMA"
	nvmeModule   = "nvme_core"
	// useP2PDMA is cuFile's setting that lets it do without nvidia_fs.
	useP2PDMA = "properties.use_pci_p2pdma"
)

// FSQueries are what JudgeNVIDIAFS reads.
func FSQueries() []node.Query {
	return []node.Query{node.Module.Query(fsModule), node.File.Query(fsVersion)}
}

// JudgeNVIDIAFS judges NVIDIA's own kernel module of GPUDirect Storage, loaded and initialised. Which drivers of storage it works
// with is known while a program uses it alone, and that it was built against another NVIDIA driver stands in the kernel log.
func JudgeNVIDIAFS(block string, facts node.Facts) plan.Finding {
	id := block + ".nvidia_fs"
	v, shown := node.Module.Get(facts, fsModule), node.File.Get(facts, fsVersion)
	module, ok := v.Get()
	version, told := shown.Get()
	_, number, _ := strings.Cut(strings.TrimSpace(version.Text), ": ")
	f := plan.Finding{ID: id, Status: plan.OK, Want: "loaded", Found: "version " + number, Source: shown.Source(), Summary: fsModule + " " + number + " is loaded"}
	switch {
	case !ok:
		f = plan.Unread(id, "whether "+fsModule+" is loaded", v)
	case !module.Loaded:
		f.Status, f.Found, f.Source, f.Summary = plan.Drift, "not loaded", v.Source(), fsModule+" is not loaded"
		f.Fix = "modprobe nvidia-fs; it comes with the package nvidia-gds or nvidia-fs-dkms"
	case !told:
		f = plan.Unread(id, "whether "+fsModule+" works", shown)
	case !version.Exists:
		f.Status, f.Found = plan.Drift, "no version"
		f.Summary = fsModule + " is loaded and shows no version"
		f.Fix = "look for nvidia_fs in the kernel log: one that was built against another NVIDIA driver has to be built again"
	}
	f.Target = fsModule
	return f
}

// P2PDMAQueries are what JudgeP2PDMA reads.
func P2PDMAQueries() []node.Query {
	return []node.Query{
		node.NVIDIADriver.Query(""), node.KernelConfig.Query(p2pdmaConfig), node.Module.Query(nvmeModule), node.File.Query(cufile.Path),
	}
}

// bar1Options are what the driver needs on x86 so that the kernel can hand out GPU memory (NVIDIA's GPUDirect Storage
// troubleshooting guide, "Setting the Driver Registries for Enabling PCI P2PDMA").
var bar1Options = []string{"RMForceStaticBar1=1", "RmForceDisableIomapWC=1"}

// JudgeP2PDMA judges peer-to-peer DMA of the kernel's own NVMe driver, which does without nvidia_fs: the open driver from 565 on,
// Linux 6.2 or newer with CONFIG_PCI_P2PDMA, multipath of NVMe off, and on x86 bar1Options (NVIDIA's "GDS Support for NVMe
// Drives Using Linux PCI P2PDMA", and its GPUDirect Storage troubleshooting guide, chapter 14). withCUFile has cuFile use it, too.
func JudgeP2PDMA(block string, withCUFile bool, facts node.Facts) plan.Finding {
	j := judgement{}
	j.driver(facts)
	j.kernel(facts)
	if withCUFile {
		j.cuFile(node.File.Get(facts, cufile.Path))
	}
	f := plan.Finding{
		ID: block + ".p2pdma", Target: "P2PDMA", Status: plan.OK, Want: "the open driver and the kernel with P2PDMA", Found: "all of it",
		Source: node.NVIDIADriver.Get(facts, "").Source(), Summary: "driver and kernel have peer-to-peer DMA between drives and GPUs",
	}
	switch {
	case len(j.missing) > 0:
		f.Status, f.Found = plan.Drift, strings.Join(j.missing, "; ")
		f.Summary = "the kernel's NVMe driver cannot get at GPU memory: " + f.Found
		f.Fix = strings.Join(j.fixes, "; ")
	case len(j.unknown) > 0:
		f.Status, f.Found = plan.Undetermined, ""
		f.Summary = "whether the kernel's NVMe driver can get at GPU memory is unknown: " + strings.Join(j.unknown, "; ")
	}
	return f
}

// judgement collects what stands against P2PDMA.
type judgement struct{ missing, fixes, unknown []string }

func (j *judgement) lacks(what, fix string) {
	j.missing = append(j.missing, what)
	j.fixes = append(j.fixes, fix)
}

func (j *judgement) driver(facts node.Facts) {
	v := node.NVIDIADriver.Get(facts, "")
	driver, ok := v.Get()
	major, err := strconv.Atoi(strings.SplitN(driver.Version, ".", 2)[0])
	switch {
	case !ok:
		j.unknown = append(j.unknown, v.Reason())
		return
	case !driver.Loaded:
		j.lacks("the NVIDIA driver is not loaded", "load it")
		return
	case !driver.Open:
		j.lacks("the driver's modules are the proprietary ones", "install the open flavour of the driver's kernel modules")
		return
	case err != nil:
		j.unknown = append(j.unknown, fmt.Sprintf("the driver's version %q is none", driver.Version))
	case major < 565:
		j.lacks("the driver "+driver.Version+" is older than 565", "install a newer driver")
	}
	parameters, ok := driver.Parameters.Get()
	arch, _ := facts.Inventory.Arch.Get()
	switch {
	case arch != "x86_64":
	case !ok:
		j.unknown = append(j.unknown, "the driver's parameters: "+driver.Parameters.Reason())
	default:
		set := strings.Split(parameters["RegistryDwords"], ";")
		for _, option := range bar1Options {
			if !slices.Contains(set, option) {
				j.lacks("the driver runs without "+option, "add "+option+" to NVreg_RegistryDwords (block nvidia_driver)")
			}
		}
	}
}

func (j *judgement) kernel(facts node.Facts) {
	release, _ := facts.Inventory.Kernel.Get()
	recent := facts.Inventory.KernelAtLeast(6, 2)
	config := node.KernelConfig.Get(facts, p2pdmaConfig)
	value, told := config.Get()
	if enough, ok := recent.Get(); !ok {
		j.unknown = append(j.unknown, recent.Reason())
	} else if !enough {
		j.lacks("Linux "+release+" is older than 6.2", "boot a newer kernel")
	}
	switch {
	case !told:
		j.unknown = append(j.unknown, p2pdmaConfig+": "+config.Reason())
	case value != "y":
		j.lacks("the kernel was built without "+p2pdmaConfig, "boot a kernel that has it")
	}
	nvme := node.Module.Get(facts, nvmeModule)
	state, ok := nvme.Get()
	if !ok {
		j.unknown = append(j.unknown, nvmeModule+": "+nvme.Reason())
	}
	if state.Parameters["multipath"] == "Y" {
		j.lacks("multipath of NVMe is on", "options "+nvmeModule+" multipath=N (block kernel_module), make the initramfs again, and reboot")
	}
}

func (j *judgement) cuFile(v node.Value[node.FileState]) {
	state, ok := v.Get()
	if !ok {
		j.unknown = append(j.unknown, cufile.Path+": "+v.Reason())
		return
	}
	file, err := cufile.Parse(state.Text)
	if err != nil {
		j.unknown = append(j.unknown, cufile.Path+": "+err.Error())
		return
	}
	if value, _, _ := file.Get(useP2PDMA); value != "true" {
		j.lacks(useP2PDMA+" of cuFile is not true", `set it in `+cufile.Path+` (block gds, path = "p2pdma")`)
	}
}

// drives are the NVMe drives on the PCI bus.
func drives(inv node.Inventory) []string {
	functions, _ := inv.PCI.Get()
	var list []string
	for _, f := range functions {
		if strings.HasPrefix(f.Class, "0108") && !f.IsVFIO() {
			list = append(list, f.Address)
		}
	}
	return list
}

func gpus(inv node.Inventory) []string {
	known, _ := inv.GPUs().Get()
	var list []string
	for _, g := range known {
		list = append(list, g.Address)
	}
	return list
}

// ports are those between GPUs and drives below one switch, at which ACS decides the way.
func ports(inv node.Inventory) []string {
	if inv.ACSRefusal() != "" {
		return nil
	}
	var list []string
	for _, gpu := range gpus(inv) {
		for _, drive := range drives(inv) {
			if way, ok := inv.PeerPath(gpu, drive).Get(); ok && !way.CrossesRoot() {
				list = append(list, way.Ports...)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// PathQueries are what JudgePaths reads.
func PathQueries(inv node.Inventory) []node.Query {
	queries := []node.Query{node.IOMMU.Query("")}
	for _, port := range ports(inv) {
		queries = append(queries, node.PCIRegisters.Query(port))
	}
	return queries
}

// Either is the finding where one of the two ways is enough.
func Either(block string, fs, p2pdma plan.Finding) plan.Finding {
	f := plan.Finding{ID: block + ".path", Target: "GPU memory", Want: fsModule + " or P2PDMA"}
	switch {
	case p2pdma.Status == plan.OK:
		f.Status, f.Found, f.Source, f.Summary = plan.OK, "P2PDMA", p2pdma.Source, "drives can get at GPU memory: "+p2pdma.Summary
	case fs.Status == plan.OK:
		f.Status, f.Found, f.Source, f.Summary = plan.OK, fsModule, fs.Source, "drives can get at GPU memory: "+fs.Summary
	case fs.Status == plan.Drift && p2pdma.Status == plan.Drift:
		f.Status, f.Found, f.Source = plan.Drift, "neither", fs.Source
		f.Summary = fmt.Sprintf("drives cannot get at GPU memory: %s, and %s", fs.Summary, p2pdma.Summary)
		f.Why = "cuFile copies through host memory where allow_compat_mode lets it, and says so only in its log; elsewhere it fails"
		f.Fix = fs.Fix + "; or for P2PDMA " + p2pdma.Fix
	default:
		f.Status = plan.Undetermined
		f.Summary = fmt.Sprintf("whether drives can get at GPU memory is unknown: %s, and %s", fs.Summary, p2pdma.Summary)
	}
	return f
}

// JudgePaths judges what either way needs on x86: an IOMMU that is off or passes through (NVIDIA's GPUDirect Storage guide), and
// ports that do not redirect traffic between a GPU and a drive.
func JudgePaths(block string, facts node.Facts) []plan.Finding {
	var findings []plan.Finding
	if arch, _ := facts.Inventory.Arch.Get(); arch == "x86_64" {
		findings = append(findings, iommu(block+".iommu", facts))
	}
	return append(findings, acs(block+".acs", facts))
}

func iommu(id string, facts node.Facts) plan.Finding {
	v := node.IOMMU.Get(facts, "")
	state, ok := v.Get()
	f := plan.Finding{ID: id, Target: "iommu", Status: plan.OK, Want: "off or passthrough", Found: "no translation", Source: v.Source(), Summary: "the IOMMU translates neither GPUs nor drives"}
	if !ok {
		f = plan.Unread(id, "the IOMMU's mode", v)
		f.Target = "iommu"
		return f
	}
	ends := slices.Concat(gpus(facts.Inventory), drives(facts.Inventory))
	for _, g := range state.Groups {
		at := slices.IndexFunc(g.Devices, func(device string) bool { return slices.Contains(ends, device) })
		if at < 0 {
			continue
		}
		kind, known := g.Type.Get()
		switch {
		case !known:
			f = plan.Unread(id, fmt.Sprintf("the IOMMU's mode of %s", g.Devices[at]), g.Type)
			f.Target = "iommu"
			return f
		case strings.HasPrefix(kind, "DMA"):
			f.Status, f.Found = plan.Drift, "translated"
			f.Summary = "the IOMMU translates DMA of " + g.Devices[at] + " and others: drives and GPUs do not get at each other, or slowly"
			f.Fix = `iommu { mode = "passthrough" }`
			return f
		}
	}
	return f
}

func acs(id string, facts node.Facts) plan.Finding {
	inv := facts.Inventory
	f := plan.Finding{ID: id, Target: "ACS", Status: plan.Skipped, Summary: "no GPU and NVMe drive are below one PCIe switch"}
	between := ports(inv)
	switch why := inv.ACSRefusal(); {
	case !inv.Virtualization.IsKnown():
		f = plan.Unread(id, "the ACS of the ports (a guest sees none)", inv.Virtualization)
		f.Target = "ACS"
		return f
	case why != "":
		f.Summary = "the ACS of the ports is not judged: " + why
		return f
	case len(between) == 0:
		return f
	}
	var redirecting []string
	for _, port := range between {
		v := node.PCIRegisters.Get(facts, port)
		registers, ok := v.Get()
		bits, known := registers.ACS.Get()
		switch {
		case !ok:
			f = plan.Unread(id, "the ACS of "+port, v)
		case !known:
			f = plan.Unread(id, "the ACS of "+port, registers.ACS)
		case bits.Enabled&pciregs.Redirect != 0 && inv.RedirectOffRefusal(port) == "":
			redirecting = append(redirecting, port)
			continue
		default:
			continue
		}
		f.Target = "ACS"
		return f
	}
	f.Want, f.Found, f.Source = "no redirection", "no redirection", inv.PCI.Source()
	f.Status, f.Summary = plan.OK, fmt.Sprintf("the %d ports between GPUs and NVMe drives redirect nothing", len(between))
	if len(redirecting) > 0 {
		f.Status, f.Found = plan.Drift, strings.Join(redirecting, " ")
		f.Summary = fmt.Sprintf("%d of %d ports between GPUs and NVMe drives redirect traffic: %s", len(redirecting), len(between), f.Found)
		f.Why = "traffic between a GPU and a drive below one switch goes through the processor: it is slow, hangs, or arrives corrupted"
		f.Fix = fmt.Sprintf("pcie_acs with redirect = \"off\" and scope = [%q]", strings.Join(redirecting, `", "`))
	}
	return f
}
