// Package pciedevice is the block type pcie_device: how a PCIe device reads and orders.
package pciedevice

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/cmdline"
	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
)

// Type is the block type pcie_device.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of pcie_device.
func (Type) Spec() plan.Spec {
	low, high := int64(128), int64(4096)
	return plan.Spec{
		Name: "pcie_device", Label: plan.LabelRequired, LabelDoc: "a name of your own",
		Doc:     "Settings of PCIe functions that a reset or a reboot loses. Ports of switches are refused: they ask for nothing themselves. Virtual functions, which have none of their own, protected NICs and what was handed to guests are left alone.",
		Ceiling: plan.Live,
		Attributes: []plan.Attribute{
			{Name: "devices", Type: cty.List(cty.String), Required: true, Example: `["0000:1a:00.0", "0000:1a:00.1"]`, Doc: "PCI addresses, one for each function of a device."},
			{Name: "max_read_request", Type: cty.Number, Min: &low, Max: &high, Example: "4096", Doc: "The largest read that the function may ask for (MaxReadReq), in bytes: 128, 256, 512, 1024, 2048 or 4096."},
			{Name: "relaxed_ordering", Type: cty.Bool, Example: "true", Doc: "Whether the function may mark its transactions as freely ordered (RlxdOrd)."},
		},
	}
}

type config struct {
	Devices         []string `cty:"devices"`
	MaxReadRequest  *int     `cty:"max_read_request"`
	RelaxedOrdering *bool    `cty:"relaxed_ordering"`
}

// Validate finds what is no PCI address and no size, and a block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	var c config
	if err := b.Decode(&c); err != nil {
		return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	var problems []plan.Problem
	for _, address := range c.Devices {
		if err := plan.CheckPCIAddress(address); err != nil {
			problems = append(problems, plan.Problem{Attribute: "devices", Summary: "not a PCI address", Detail: err.Error()})
		}
	}
	if c.MaxReadRequest != nil {
		if err := pciregs.CheckMaxReadRequest(*c.MaxReadRequest); err != nil {
			problems = append(problems, plan.Problem{Attribute: "max_read_request", Summary: "not a size of read requests", Detail: err.Error()})
		}
	}
	if c.MaxReadRequest == nil && c.RelaxedOrdering == nil && len(problems) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set max_read_request or relaxed_ordering."})
	}
	return problems
}

// Queries are the functions' registers, the running command line, which can bound read
// requests, and whether the kernel lets anybody write registers.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c config
	if inv.RootDirectory || b.Decode(&c) != nil {
		return nil
	}
	queries := []node.Query{node.CommandLine.Query(""), node.ModuleSigning.Query("")}
	for _, address := range c.Devices {
		queries = append(queries, node.PCIRegisters.Query(address))
	}
	return queries
}

type assessor struct {
	plan.Assessment
	config
	block plan.Block
	facts node.Facts
	// protected is why NICs are left alone, by address.
	protected map[string]string
}

// Assess judges each function.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	a := &assessor{block: b, facts: facts}
	broken := b.Decode(&a.config) != nil
	if !broken {
		a.contribute()
	}
	switch {
	case broken, a.MaxReadRequest == nil && a.RelaxedOrdering == nil:
	case facts.Inventory.RootDirectory:
		a.find(plan.Finding{ID: "pcie_device.function", Target: "PCI", Status: plan.Skipped, Summary: "hardware is not judged (--root)"})
	case len(a.Devices) > 0 && !facts.Inventory.PCI.IsKnown():
		a.find(plan.Unread("pcie_device.function", "what the devices are", facts.Inventory.PCI))
	default:
		a.findProtected()
		for _, address := range slices.Compact(slices.Sorted(slices.Values(a.Devices))) {
			a.function(address)
		}
	}
	return a.Assessment
}

func (a *assessor) find(f plan.Finding) { a.Findings = append(a.Findings, f) }

func (a *assessor) function(address string) {
	f, there := a.facts.Inventory.PCIFunction(address)
	about := plan.Finding{ID: "pcie_device.function", Target: address, Source: a.facts.Inventory.PCI.Source()}
	if !there {
		about.Status, about.Want, about.Found = plan.Drift, "a PCI function", "none"
		about.Summary, about.Fix = "there is no PCI function "+address, "correct the list of devices, or look why this one is gone"
		a.find(about)
		return
	}
	if f.IsPort() {
		about.Status, about.Feature, about.Want, about.Found = plan.Unsupported, "devices", "a device", "a port"
		about.Summary = fmt.Sprintf("%s (%s) is a port: what it passes on reads as the devices below it do", address, f.ID())
		about.Fix = "name the devices below it"
		a.find(about)
		return
	}
	if why := a.leftAlone(f); why != "" {
		about.Status, about.Summary = plan.Skipped, address+" is left alone: "+why
		a.find(about)
		return
	}
	v := node.PCIRegisters.Get(a.facts, address)
	express := node.UnknownLike[pciregs.Express](v)
	if state, ok := v.Get(); ok {
		express = state.Express
	}
	e, ok := express.Get()
	switch {
	case !ok:
		about = plan.Unread(about.ID, "how "+address+" reads and orders", express)
		about.Target = address
		a.find(about)
	case !e.Present:
		about.Status, about.Feature, about.Source = plan.Unsupported, "devices", express.Source()
		about.Summary = address + " is no PCI Express function and has no such settings"
		a.find(about)
	default:
		a.express(f, e, express.Source())
	}
}

// leftAlone says why a function is not to be touched, or is empty.
func (a *assessor) leftAlone(f node.PCIFunction) string {
	if f.PhysicalFunction != "" {
		return "it is a virtual function, which takes the settings of " + f.PhysicalFunction
	}
	if f.IsVFIO() {
		return "it was handed to a guest or a program (driver " + f.Driver + ")"
	}
	return a.protected[f.Address]
}

func (a *assessor) findProtected() {
	a.protected = map[string]string{}
	nics, _ := a.facts.Inventory.NICs().Get() // known where the bus is
	for _, n := range nics {
		protected, told := n.Protected.Get()
		netdev, hasNetdev := n.Netdev.Get()
		switch {
		case !told && a.facts.Inventory.Protected.IsKnown():
			a.protected[n.Address] = "whether " + n.String() + " is protected is unknown: " + n.Protected.Reason()
		case protected && hasNetdev:
			a.protected[n.Address] = "its network device " + netdev + " is protected"
		case protected:
			a.protected[n.Address] = "it is protected"
		}
	}
}

func (a *assessor) express(f node.PCIFunction, e pciregs.Express, source node.Source) {
	if a.MaxReadRequest != nil {
		a.readRequest(f.Address, e, *a.MaxReadRequest, source)
	}
	if a.RelaxedOrdering != nil {
		a.ordering(f, e, *a.RelaxedOrdering, source)
	}
}

// contribute makes two blocks that want different things of a function contradict each other.
func (a *assessor) contribute() {
	devices := slices.Compact(slices.Sorted(slices.Values(a.Devices)))
	want := func(what, attribute, value string) {
		a.Contributions = append(a.Contributions, plan.DeviceFacts(a.block, "devices", devices, what, value, a.block.OriginOf(attribute, ""))...)
	}
	if a.MaxReadRequest != nil {
		want("read requests", "max_read_request", strconv.Itoa(*a.MaxReadRequest))
	}
	if a.RelaxedOrdering != nil {
		want("relaxed ordering", "relaxed_ordering", onOff(*a.RelaxedOrdering))
	}
}

func (a *assessor) readRequest(address string, e pciregs.Express, want int, source node.Source) {
	f := plan.Finding{
		ID: "pcie_device.max_read_request", Target: address, Status: plan.OK, Effect: plan.Live, Source: source,
		Want: bytes(want), Found: bytes(e.MaxReadRequest), Running: bytes(e.MaxReadRequest),
		Summary: fmt.Sprintf("%s reads %s at once", address, bytes(e.MaxReadRequest)),
	}
	line := node.CommandLine.Get(a.facts, "")
	text, ok := line.Get()
	if !ok && want > e.MaxPayload {
		f = plan.Unread(f.ID, "whether pci=pcie_bus_perf bounds what "+address+" reads at once", line)
		f.Target = address
		a.find(f)
		return
	}
	// The kernel then lets payloads differ along the way, and keeps each device from
	// asking for more at once than it can take (drivers/pci/pci.c, pcie_set_readrq).
	if bounded, _ := cmdline.Satisfied(cmdline.Parse(text), "pci", "pcie_bus_perf"); bounded && want > e.MaxPayload {
		f.Status, f.Source = plan.Conflict, line.Source()
		f.Summary = fmt.Sprintf("%s is to read %s at once, and pci=pcie_bus_perf bounds that to its payload of %s", address, bytes(want), bytes(e.MaxPayload))
		f.Why = "with pci=pcie_bus_perf a device may get more than it can take when it asks for more than its payload"
		f.Fix = "take pci=pcie_bus_perf out of the kernel's arguments, or max_read_request out of the profile"
		a.find(f)
		return
	}
	if e.MaxReadRequest != want {
		f.Summary = fmt.Sprintf("%s reads %s at once, wanted is %s", address, bytes(e.MaxReadRequest), bytes(want))
		f.Why = "small reads leave the device waiting for memory; the size is lost when the device is reset"
		a.wrong(&f, fmt.Sprintf("let %s read %s at once", address, bytes(want)), plan.SetMaxReadRequest{Address: address, Bytes: want})
	}
	a.find(f)
}

func bytes(n int) string { return strconv.Itoa(n) + " bytes" }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (a *assessor) ordering(function node.PCIFunction, e pciregs.Express, want bool, source node.Source) {
	address := function.Address
	f := plan.Finding{
		ID: "pcie_device.relaxed_ordering", Target: address, Status: plan.OK, Effect: plan.Live, Source: source,
		Want: onOff(want), Found: onOff(e.RelaxedOrdering), Running: onOff(e.RelaxedOrdering),
		Summary: fmt.Sprintf("relaxed ordering of %s is %s", address, onOff(e.RelaxedOrdering)),
	}
	if e.RelaxedOrdering != want {
		f.Summary += ", wanted is " + f.Want
		if root, bad := a.disordered(address); bad && want {
			f.Status, f.Feature = plan.Unsupported, "relaxed_ordering"
			f.Fix = fmt.Sprintf("leave it off: the kernel does so below %s (%s), which has an erratum", root.Address, root.ID())
		} else {
			a.wrong(&f, fmt.Sprintf("turn relaxed ordering of %s %s", address, f.Want), plan.SetRelaxedOrdering{Address: address, Allowed: want})
		}
	}
	a.find(f)
}

// wrong makes f a drift with its step.
func (a *assessor) wrong(f *plan.Finding, summary string, action plan.Action) {
	f.Status = plan.Drift
	if signing, ok := node.ModuleSigning.Get(a.facts, "").Get(); ok && signing.LockedDown() {
		f.Fix = fmt.Sprintf("the kernel is locked down (%s) and lets nobody write registers; turn Secure Boot off, or have the firmware set this", signing.Lockdown)
		return
	}
	f.Fixable = true
	a.Steps = append(a.Steps, plan.Step{Phase: plan.PhasePCI, Target: f.Target, Effect: plan.Live, Summary: summary, Action: action})
}

// disordered returns the root port above a function, and whether it is one below which the kernel
// forbids relaxed ordering: those of Intel's Haswell and Broadwell and of AMD's A1100
// (drivers/pci/quirks.c, quirk_relaxedordering_disable).
func (a *assessor) disordered(address string) (node.PCIFunction, bool) {
	bridges, _ := a.facts.Inventory.BridgesAbove(address).Get()
	if len(bridges) == 0 {
		return node.PCIFunction{}, false
	}
	root, _ := a.facts.Inventory.PCIFunction(bridges[len(bridges)-1])
	for _, r := range [][2]string{{"8086:6f01", "8086:6f0e"}, {"8086:2f01", "8086:2f0e"}, {"1022:1a00", "1022:1a02"}} {
		if r[0] <= root.ID() && root.ID() <= r[1] {
			return root, true
		}
	}
	return root, false
}
