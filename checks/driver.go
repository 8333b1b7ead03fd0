package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// Driver is check "driver": the NVIDIA driver that runs, and whether what belongs to it is of its version.
type Driver struct{}

// Spec of check "driver".
func (Driver) Spec() plan.Spec {
	return plan.Spec{
		Name: "driver", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The NVIDIA driver that is loaded: it has all GPUs, and its library, the fabric manager and IMEX are of its version.",
		Attributes: []plan.Attribute{
			{Name: "version", Type: cty.String, Example: `"580.95.05"`, Doc: "The version that it must have. Left out, any."},
			{Name: "min_version", Type: cty.String, Example: `"570"`, Doc: "The version that it must have at least. Left out, any."},
			{Name: "open", Type: cty.Bool, Example: "true", Doc: "Whether its kernel modules must be the open ones, or must not. Left out, either."},
			{Name: "parameters", Type: cty.Map(cty.String), Example: `{ NvLinkDisable = "0" }`, Doc: "Parameters in force, /proc/driver/nvidia/params, by their names there, which have no NVreg_."},
		},
	}
}

type driverConfig struct {
	Version    *string           `cty:"version"`
	MinVersion *string           `cty:"min_version"`
	Open       *bool             `cty:"open"`
	Parameters map[string]string `cty:"parameters"`
}

var _ plan.Validator = Driver{}

// Validate finds what is no version.
func (Driver) Validate(b plan.Block) []plan.Problem {
	var c driverConfig
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	var problems []plan.Problem
	for _, v := range []struct {
		attribute string
		version   *string
	}{{"version", c.Version}, {"min_version", c.MinVersion}} {
		if v.version == nil {
			continue
		}
		if _, err := versionNumbers(*v.version); err != nil {
			problems = append(problems, plan.Problem{Attribute: v.attribute, Summary: "not a version", Detail: err.Error()})
		}
	}
	if c.Version != nil && c.MinVersion != nil {
		if order, err := compareVersions(*c.Version, *c.MinVersion); err == nil && order < 0 {
			problems = append(problems, plan.Problem{Attribute: "min_version", Summary: "no driver is both", Detail: fmt.Sprintf("version is %s, which is older than %s.", *c.Version, *c.MinVersion)})
		}
	}
	for _, name := range sortedKeys(c.Parameters) {
		if strings.HasPrefix(name, "NVreg_") {
			problems = append(problems, plan.Problem{Attribute: "parameters", Summary: "not a parameter in force", Detail: fmt.Sprintf("The driver shows %s as %s.", name, strings.TrimPrefix(name, "NVreg_"))})
		}
	}
	return problems
}

// Queries are the driver, its library and what goes with it.
func (Driver) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	queries := []node.Query{node.NVIDIADriver.Query(""), node.NVML.Query("")}
	for _, c := range companions(inv) {
		queries = append(queries, c.kind.Query(""))
	}
	return queries
}

// companion is a program that ends unless it has the driver's very version.
type companion struct {
	id, name, pkg string
	kind          node.Kind[node.FabricManagerState]
	// needless says why the node does not need it; empty where it does.
	needless string
}

// companions are those that the node may need. IMEX looks at the driver's version when it starts, and ends where it does not fit
// (NVIDIA's IMEX guide, "Other NVIDIA software packages").
func companions(inv node.Inventory) []companion {
	manager := companion{id: "driver.fabric_manager", name: "the fabric manager", pkg: "nvidia-fabricmanager", kind: node.FabricManager}
	if !hasNVSwitch(inv) && !mayHaveNVSwitch(inv) {
		manager.needless = "the node has no NVSwitch that would need it"
	}
	if hasGPUs(inv, node.NVLinkRack) {
		return []companion{manager, {id: "driver.imex", name: "IMEX", pkg: "nvidia-imex", kind: node.IMEX}}
	}
	return []companion{manager}
}

const driverID = "driver.loaded"

// Assess judges the driver, then what belongs to it.
func (Driver) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c driverConfig
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	v := node.NVIDIADriver.Get(facts, "")
	driver, known := v.Get()
	refusal, refused := refusal(driver, facts)
	if refused && !known {
		return plan.Assessment{Findings: []plan.Finding{refusal}}
	}
	gpus, a, ok := gpusToJudge(driverID, facts)
	if !ok {
		return a
	}
	if packaged, ok := node.NVML.Get(facts, "").Get(); !known && facts.Inventory.FromText() { // nobody said which driver runs
		findings := bound(gpus, facts.Inventory)
		if ok {
			findings = append(findings, judgeCompanions(node.NVIDIADriverState{Version: packaged.DriverVersion()}, facts)...)
		}
		return plan.Assessment{Findings: findings}
	}
	if !known {
		f := plan.Unread(driverID, "whether the NVIDIA driver is loaded", v)
		f.Target = "driver"
		return plan.Assessment{Findings: []plan.Finding{f}}
	}
	f := plan.Finding{ID: driverID, Target: "driver", Status: plan.OK, Want: "loaded", Found: driver.Version, Source: v.Source(), Summary: "the NVIDIA driver " + driver.Version + " is loaded"}
	if !driver.Loaded {
		f.Status, f.Found, f.Summary = plan.Drift, "not loaded", "the NVIDIA driver is not loaded"
		f.Fix = "install it for the running kernel and load it (modprobe nvidia); the kernel log says what it lacks"
	}
	a.Findings = append(append(a.Findings, f), bound(gpus, facts.Inventory)...)
	if !driver.Loaded {
		return a
	}
	for _, f := range c.judge(driver) {
		f.Source = v.Source()
		a.Findings = append(a.Findings, f)
	}
	if refused {
		a.Findings = append(a.Findings, refusal)
	} else {
		a.Findings = append(a.Findings, library(driver, facts))
	}
	a.Findings = append(a.Findings, judgeCompanions(driver, facts)...)
	return a
}

// judgeCompanions judges the programs that must have the driver's version.
func judgeCompanions(driver node.NVIDIADriverState, facts node.Facts) []plan.Finding {
	var findings []plan.Finding
	for _, c := range companions(facts.Inventory) {
		if f, judged := c.judge(driver, c.kind.Get(facts, "")); judged {
			findings = append(findings, f)
		}
	}
	return findings
}

// bound judges whether each GPU has the driver.
func bound(gpus []node.GPU, inv node.Inventory) []plan.Finding {
	has := func(driver string) bool {
		return slices.ContainsFunc(gpus, func(g node.GPU) bool { f, _ := inv.PCIFunction(g.Address); return f.Driver == driver })
	}
	var findings []plan.Finding
	for _, g := range gpus {
		function, _ := inv.PCIFunction(g.Address)
		f := plan.Finding{ID: "driver.bound", Target: g.Address, Want: "nvidia", Found: function.Driver, Source: inv.PCI.Source()}
		switch {
		case function.Driver == "nvidia", function.Driver == "" && inv.FromText():
			continue
		case function.IsVFIO() && inv.FromText() && has("nvidia"):
			f.Status, f.Severity = plan.Drift, plan.Warning
			f.Summary = fmt.Sprintf("%s was handed to a guest or a program (driver %s), and others have the driver nvidia", name(g), function.Driver)
			f.Why = "CUDA counts one GPU less"
			f.Fix = "where no guest is meant to have it, take its id out of the options of vfio-pci (vfio-pci.ids=, modprobe.d, driverctl list-overrides), and reboot"
		case function.IsVFIO():
			f.Status = plan.Skipped
			f.Summary = fmt.Sprintf("%s was handed to a guest or a program (driver %s)", name(g), function.Driver)
		case function.Driver == "":
			f.Status, f.Found = plan.Drift, "none"
			f.Summary = name(g) + " has no driver"
			f.Fix = "the kernel log says why the NVIDIA driver did not take it (lines with NVRM)"
		default:
			f.Status = plan.Drift
			f.Summary = fmt.Sprintf("%s has driver %s", name(g), function.Driver)
			f.Fix = fmt.Sprintf("keep %s away (blacklist %s in /etc/modprobe.d, and in the initramfs), and reboot", function.Driver, function.Driver)
		}
		findings = append(findings, f)
	}
	return findings
}

// judge holds the driver to what the block wants.
func (c driverConfig) judge(driver node.NVIDIADriverState) []plan.Finding {
	var findings []plan.Finding
	if c.Version != nil {
		f := plan.Finding{ID: "driver.version", Target: "version", Status: plan.OK, Want: *c.Version, Found: driver.Version, Summary: "the driver is version " + driver.Version}
		if driver.Version != *c.Version {
			f.Status = plan.Drift
			f.Summary += ", wanted is " + f.Want
			f.Fix = "install that version, with its library and fabric manager"
		}
		findings = append(findings, f)
	}
	if c.MinVersion != nil {
		f := plan.Finding{ID: "driver.min_version", Target: "min_version", Status: plan.OK, Want: *c.MinVersion + " or newer", Found: driver.Version, Summary: "the driver is version " + driver.Version}
		switch order, err := compareVersions(driver.Version, *c.MinVersion); {
		case err != nil:
			f.Status, f.Summary = plan.Undetermined, "whether the driver is new enough is unknown: "+err.Error()
		case order < 0:
			f.Status = plan.Drift
			f.Summary += ", wanted is " + f.Want
			f.Fix = "install a newer version, with its library and fabric manager"
		}
		findings = append(findings, f)
	}
	if c.Open != nil {
		f := plan.Finding{ID: "driver.open", Target: "open", Status: plan.OK, Want: node.NVIDIADriverState{Open: *c.Open}.Flavour(), Found: driver.Flavour(), Summary: "the driver's kernel modules are the " + driver.Flavour() + " ones"}
		if driver.Open != *c.Open {
			f.Status = plan.Drift
			f.Summary += ", wanted are the " + f.Want + " ones"
			f.Fix = "install the other flavour of the driver's kernel modules"
			if *c.Open {
				f.Why = "the proprietary modules do not export GPU memory as dma-buf"
			}
		}
		findings = append(findings, f)
	}
	for _, name := range sortedKeys(c.Parameters) {
		findings = append(findings, parameter(name, c.Parameters[name], driver.Parameters))
	}
	return findings
}

// parameter judges one that is in force. A name that is misspelt in modprobe.d is ignored by the driver.
func parameter(name, want string, all node.Value[map[string]string]) plan.Finding {
	const id = "driver.parameter"
	parameters, ok := all.Get()
	if !ok {
		f := plan.Unread(id, "parameter "+name+" of the driver", all)
		f.Target = name
		return f
	}
	have, there := parameters[name]
	f := plan.Finding{ID: id, Target: name, Status: plan.OK, Want: want, Found: have, Running: have, Summary: fmt.Sprintf("parameter %s of the driver is %q", name, have)}
	switch {
	case !there:
		f.Status, f.Found = plan.Drift, "none"
		f.Summary = "the driver has no parameter " + name
		f.Fix = "correct the name; what this version has stands in /proc/driver/nvidia/params"
	case have != want:
		f.Status = plan.Drift
		f.Summary += fmt.Sprintf(", wanted is %q", want)
		f.Fix = fmt.Sprintf("set NVreg_%s in /etc/modprobe.d, make the initramfs anew, and load the driver anew; the kernel log names parameters that it ignored", name)
	}
	return f
}

// library judges whether libnvidia-ml, and with it CUDA's libraries, are of the driver's version.
func library(driver node.NVIDIADriverState, facts node.Facts) plan.Finding {
	const id = libraryID
	v := node.NVML.Get(facts, "")
	state, ok := v.Get()
	if !ok {
		f := plan.Unread(id, "the version of the driver's library", v)
		f.Target = "library"
		return f
	}
	f := plan.Finding{ID: id, Target: "library", Status: plan.OK, Want: driver.Version, Found: state.DriverVersion(), Source: v.Source(), Summary: "the driver's library is of the driver's version"}
	switch {
	case state.DriverVersion() != driver.Version:
		f.Status = plan.Drift
		f.Summary = fmt.Sprintf("the driver is %s, its library is of %s", driver.Version, state.DriverVersion())
		f.Why = "no new process can use a GPU: Driver/library version mismatch"
		f.Fix = "the driver was upgraded and not loaded anew: reboot, or stop what uses GPUs and reload it"
	case !state.Driver.IsKnown():
		f = plan.Unread(id, "what the driver's library says of the driver", state.Driver)
		f.Target = "library"
	}
	return f
}

// refusal is the finding that the driver's library shows no GPU, as text tells; false where it does not.
func refusal(driver node.NVIDIADriverState, facts node.Facts) (plan.Finding, bool) {
	v := node.NVML.Get(facts, "")
	state, _ := v.Get()
	f := plan.Finding{ID: libraryID, Target: "library", Status: plan.Drift, Want: "one that answers", Found: state.Fault, Source: v.Source(), Why: "no new process can use a GPU"}
	switch state.Fault {
	case "":
		return f, false
	case node.NVMLDriverNotLoaded:
		if driver.Loaded {
			f.Summary = "nvidia-smi cannot talk to the driver, which is loaded"
			f.Fix = "make its device nodes (nvidia-modprobe -c 0 -u), and look whether /dev/nvidiactl is there and open to its user; in a container, start that with the NVIDIA runtime"
			break
		}
		f.ID, f.Target, f.Want, f.Found = driverID, "driver", "loaded", "not loaded"
		f.Summary = "the NVIDIA driver is not loaded"
		f.Fix = "modprobe nvidia, and read in the kernel log what it lacks: it was not built for this kernel (dkms status; install its headers and build it), Secure Boot refuses its signature, or nouveau has the GPUs; in a container, start that with the NVIDIA runtime"
	case node.NVMLMismatch:
		f.Summary = "the driver that is loaded and its library are of different versions"
		if version := state.DriverVersion(); version != "" {
			f.Found = "a library of " + version
			f.Summary += ": the library is of " + version
		}
		f.Fix = "the driver was upgraded and not loaded anew: reboot, or stop what uses GPUs and reload it (/proc/driver/nvidia/version says which is loaded); hold its packages, so that unattended upgrades leave them alone"
	case node.NVMLUnknown:
		f.Summary = "the driver's library cannot start: " + state.Fault
		f.Fix = "in a container that worked before: a daemon-reload of systemd on the host took its access to the device nodes; start it again, and see NVIDIA/nvidia-container-toolkit issue 48 for what lasts. On the node itself, look for NVRM and Xid in the kernel log"
	case node.NVMLNoPermission:
		f.Summary = "the driver's library may not open the device nodes"
		f.Fix = "look at the modes of /dev/nvidia* (0666 unless NVreg_DeviceFileMode says otherwise), and at the device cgroup of the job"
	case node.NVMLNoLibrary:
		f.Summary = "the driver's library libnvidia-ml.so is not found"
		f.Fix = "install the driver's libraries of the version of its kernel modules; in a container, start that with the NVIDIA runtime and the capability utility"
	case node.NVMLNoDevices:
		f.ID, f.Target, f.Want = "driver.devices", "gpus", "a GPU"
		f.Summary = "the driver is loaded, and none of the GPUs can be used"
		f.Fix = "lspci -d 10de: says which GPUs the PCI bus has (none: they are not powered or not passed through), and the kernel log why the driver gave up on them: RmInitAdapter failed, Xid 79, a GSP firmware that is missing, a model that this driver or its open modules do not know; those of VFIO are not its own"
	default:
		f.Summary = "the driver's library cannot start: " + state.Fault
		f.Fix = "look for NVRM and Xid in the kernel log"
	}
	return f, true
}

const libraryID = "driver.library"

// judge judges whether it has the driver's very version; false where none is installed.
func (c companion) judge(driver node.NVIDIADriverState, v node.Value[node.FabricManagerState]) (plan.Finding, bool) {
	state, ok := v.Get()
	if ok && !state.Installed {
		return plan.Finding{}, false
	}
	version := state.Version
	if !ok {
		version = node.UnknownLike[string](v)
	}
	have, known := version.Get()
	f := plan.Finding{ID: c.id, Target: strings.TrimPrefix(c.name, "the "), Status: plan.OK, Want: driver.Version, Found: have, Source: version.Source(), Summary: c.name + " is of the driver's version"}
	switch {
	case !known:
		target := f.Target
		f = plan.Unread(c.id, "the version of "+c.name, version)
		f.Target = target
		if c.needless != "" {
			f.Status, f.Summary = plan.Skipped, "the version of "+c.name+" is unknown, and "+c.needless
		}
	case have != driver.Version:
		f.Status = plan.Drift
		f.Summary = fmt.Sprintf("the driver is %s, %s %s", driver.Version, c.name, have)
		f.Why = c.name + " ends unless it has the driver's very version"
		f.Fix = "install " + c.pkg + " of version " + driver.Version + ", and hold both packages together"
	}
	return f, true
}
