// Package pcieacs is the block type pcie_acs: whether the ports between peers let their
// traffic pass, or send it up to the processor.
package pcieacs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type pcie_acs.
type Type struct{}

var _ plan.Validator = Type{}

// What makes redirection stay off.
const (
	persistBoot       = "boot"
	persistKernelArgs = "kernel_args"
)

// Spec of pcie_acs.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "pcie_acs", Label: plan.LabelRequired, LabelDoc: "a name of your own",
		Doc:     "Access Control Services (ACS) of the PCIe ports between GPUs and NICs. Redirection sends traffic between peers up to the processor; SrcValid alone does not.",
		Ceiling: plan.Reboot, Sinks: []string{sink.BootArgsName},
		Attributes: []plan.Attribute{
			{Name: "redirect", Type: cty.String, Required: true, Enum: []string{"off"}, Example: `"off"`, Doc: "off: ReqRedir, CmpltRedir, UpstreamFwd and EgressCtrl are cleared, the other functions stay as they are. Not in virtual machines and not on NVIDIA's processors, whose ports want others."},
			{Name: "scope", Type: cty.List(cty.String), Example: `["0000:15:01.0", "0000:17:00.0"]`, Doc: "PCI addresses of the ports. Left out, the ports between the GPUs, and between them and the rails, at which redirection decides the way."},
			{Name: "persist", Type: cty.String, Default: cty.StringVal(persistBoot), Enum: []string{persistBoot, persistKernelArgs}, Example: `"kernel_args"`, Doc: "The kernel turns redirection on at each boot where it uses an IOMMU. boot: busbar.service turns it off again. kernel_args: the kernel is told as well, by pci=config_acs= where it has that without its bugs, before Linux 6.11 by pci=disable_acs_redir=, which leaves UpstreamFwd to busbar.service."},
		},
	}
}

type config struct {
	Scope   []string `cty:"scope"`
	Persist *string  `cty:"persist"`
}

// Validate finds what is no PCI address.
func (Type) Validate(b plan.Block) []plan.Problem {
	var c config
	if err := b.Decode(&c); err != nil {
		return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	var problems []plan.Problem
	for _, address := range c.Scope {
		if err := plan.CheckPCIAddress(address); err != nil {
			problems = append(problems, plan.Problem{Attribute: "scope", Summary: "not a PCI address", Detail: err.Error()})
		}
	}
	return problems
}

// ports are the addresses that a block is about, sorted.
func ports(b plan.Block, c config, inv node.Inventory) node.Value[[]string] {
	if w, withheld := b.IsWithheld("scope", ""); withheld {
		return node.Awaiting[[]string](w.Reason, w.Needs, node.Source{})
	}
	if b.Attributes["scope"] != cty.NilVal && !b.Attributes["scope"].IsNull() {
		return node.Known(slices.Compact(slices.Sorted(slices.Values(c.Scope))), node.Source{})
	}
	ends := peers(inv)
	endpoints, ok := ends.Get()
	if !ok {
		return ends
	}
	between := inv.PeerPorts(endpoints)
	list, ok := between.Get()
	if !ok {
		return node.UnknownLike[[]string](between)
	}
	addresses := []string{}
	for _, p := range list {
		f, _ := inv.PCIFunction(p.Address)
		switch {
		case slices.Contains(endpoints, p.Address): // between functions of one NIC
		case p.AcrossRoot && f.Parent != "": // traffic that crosses the root complex anyway is redirected by root ports alone
		default:
			addresses = append(addresses, p.Address)
		}
	}
	return node.Known(addresses, between.Source())
}

// peers are the GPUs and the NICs that serve them. A NIC counts as long as it is not known to be
// protected: its own settings are not touched.
func peers(inv node.Inventory) node.Value[[]string] {
	gpus, ok := inv.GPUs().Get()
	if !ok {
		return node.UnknownLike[[]string](inv.PCI)
	}
	var addresses []string
	for _, g := range gpus {
		addresses = append(addresses, g.Address)
	}
	nics, _ := inv.NICs().Get() // known where the bus is
	for _, n := range nics {
		near, ok := n.GPUs.Get()
		if !ok {
			return node.UnknownLike[[]string](n.GPUs)
		}
		if protected, _ := n.Protected.Get(); len(near) > 0 && !protected {
			addresses = append(addresses, n.Address)
		}
	}
	return node.Known(addresses, inv.PCI.Source())
}

// Queries are the ports' registers, whether the kernel lets anybody write them, and the
// running command line, whose length is bounded.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c config
	if inv.ACSRefusal() != "" || b.Decode(&c) != nil {
		return nil
	}
	queries := []node.Query{node.ModuleSigning.Query(""), node.CommandLine.Query("")}
	addresses, _ := ports(b, c, inv).Get()
	for _, address := range addresses {
		queries = append(queries, node.PCIRegisters.Query(address))
	}
	return queries
}

const (
	redirectID   = "pcie_acs.redirect"
	kernelArgsID = "pcie_acs.kernel_args"

	// danger is why redirection matters, and what follows from turning it off. IOMMU groups are made when
	// devices are found (drivers/iommu/iommu.c, pci_device_group).
	danger = "redirected traffic between peers goes through the processor: it is slow, hangs, or arrives corrupted. " +
		"DMA should rest while this changes, and nothing below the port may be handed to a guest until the next boot: the kernel keeps the IOMMU groups that it made with redirection on"
)

type assessor struct {
	plan.Assessment
	block   plan.Block
	facts   node.Facts
	persist string
	args    spelling
	argsErr error
}

// Assess judges each port, and contributes kernel arguments.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c config
	if redirect := b.Attributes["redirect"]; redirect == cty.NilVal || redirect.IsNull() || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	a := &assessor{block: b, facts: facts}
	if c.Persist != nil {
		a.persist = *c.Persist
	}
	a.judge(c)
	if a.persist == persistKernelArgs && len(a.Contributions) == 0 && slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Status == plan.Undetermined || f.Status == plan.Deferred }) {
		a.Contributions = []plan.Contribution{{Sink: sink.BootArgsName, Undecided: true, Origin: b.OriginOf("persist", "")}}
	}
	if a.persist == persistKernelArgs {
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: plan.FactSink, Key: plan.ACSArgumentsFact, Value: "wanted", Origin: b.OriginOf("persist", "")})
	}
	return a.Assessment
}

func (a *assessor) find(f plan.Finding) { a.Findings = append(a.Findings, f) }

func (a *assessor) judge(c config) {
	inv := a.facts.Inventory
	virtualization, known := inv.Virtualization.Get()
	why := inv.ACSRefusal()
	switch {
	case inv.RootDirectory:
		a.withoutMachine()
		return
	case !known:
		a.find(plan.Unread(redirectID, "whether ACS may be set (it may not in a virtual machine)", inv.Virtualization))
		return
	case virtualization == "none" && !inv.PCI.IsKnown():
		a.find(plan.Unread(redirectID, "the ACS of the ports", inv.PCI))
		return
	case why != "":
		f := plan.Finding{ID: redirectID, Target: "ACS", Status: plan.Unsupported, Feature: "redirect", Summary: "the ACS of the ports is left as it is: " + why}
		f.Fix = "take the block out for this node (when, drop = true); rdma_topo check of rdma-core judges such ports"
		if virtualization != "none" {
			f.Fix = "take the block out for this node (when, drop = true); what the ports must let pass is set on the host"
		}
		a.find(f)
		return
	}
	if _, withheld := a.block.IsWithheld("scope", ""); withheld {
		return
	}
	scope := ports(a.block, c, inv)
	addresses, ok := scope.Get()
	if !ok {
		a.find(plan.Unread(redirectID, "which ports are between the GPUs", scope))
		return
	}
	if release, ok := inv.Kernel.Get(); ok {
		a.args, a.argsErr = spellingOf(release)
	}
	addresses = slices.DeleteFunc(slices.Clone(addresses), a.isNoPort)
	if !a.allUnread(addresses) {
		for _, address := range addresses {
			a.port(address)
		}
	}
	if a.persist == persistKernelArgs {
		a.kernelArgs(addresses)
	}
}

// isNoPort tells of an address of the scope that is no port, or not there at all.
func (a *assessor) isNoPort(address string) bool {
	inv := a.facts.Inventory
	function, there := inv.PCIFunction(address)
	f := plan.Finding{ID: redirectID, Target: address, Status: plan.Drift, Want: "a port", Found: "no PCI function", Source: inv.PCI.Source()}
	switch {
	case there && function.IsPort():
		return false
	case !there:
		f.Summary, f.Fix = "there is no PCI function "+address, "correct the scope, or look why the port is gone"
	default:
		f.Found = "a function of class " + function.Class
		f.Summary = fmt.Sprintf("%s (%s) is no port of a switch or of the processor", address, function.ID())
		f.Fix = "take it out of the scope"
		if function.Parent != "" {
			f.Fix = fmt.Sprintf("name %s, the port above it, instead", function.Parent)
		}
	}
	a.find(f)
	return true
}

// withoutMachine: a directory tree has no registers, and which ports kernel arguments name hangs
// on the machine.
func (a *assessor) withoutMachine() {
	a.find(plan.Finding{ID: redirectID, Target: "ACS", Status: plan.Skipped, Summary: "hardware is not judged (--root)"})
	if a.persist == persistKernelArgs {
		a.find(plan.Finding{
			ID: kernelArgsID, Target: "pci", Status: plan.Deferred, Tolerated: true, Effect: plan.Reboot,
			Summary: "which ports pci= has to name is known at the first boot (--root)",
		})
	}
}

// allUnread tells once what no port tells for one reason, such as that root alone may read it.
func (a *assessor) allUnread(addresses []string) bool {
	var first node.Value[pciregs.ACS]
	for i, address := range addresses {
		v := a.acs(address)
		if v.IsKnown() || i > 0 && v.Reason() != first.Reason() {
			return false
		}
		if i == 0 {
			first = v
		}
	}
	if len(addresses) < 2 {
		return false
	}
	a.find(plan.Unread(redirectID, fmt.Sprintf("the ACS of %d ports", len(addresses)), first))
	return true
}

// acs is the ACS capability of a port, unknown where its registers cannot be read in full.
func (a *assessor) acs(address string) node.Value[pciregs.ACS] {
	v := node.PCIRegisters.Get(a.facts, address)
	state, ok := v.Get()
	switch {
	case !ok:
		return node.UnknownLike[pciregs.ACS](v)
	case !state.Express.IsKnown():
		return node.UnknownLike[pciregs.ACS](state.Express)
	default:
		return state.ACS
	}
}

func (a *assessor) port(address string) {
	v := a.acs(address)
	acs, ok := v.Get()
	if !ok {
		f := plan.Unread(redirectID, "the ACS of "+address, v)
		f.Target = address
		a.find(f)
		return
	}
	f := plan.Finding{ID: redirectID, Target: address, Status: plan.OK, Effect: plan.Live, Source: v.Source()}
	on := acs.Enabled & pciregs.Redirect
	f.Want, f.Found = (acs.Enabled &^ pciregs.Redirect).String(), acs.Enabled.String()
	f.Running = f.Found
	switch why := a.facts.Inventory.RedirectOffRefusal(address); {
	case !acs.Present:
		f.Want, f.Found = "", "no ACS"
		f.Summary = address + " has no ACS and redirects nothing"
	case on == 0:
		f.Summary = address + " redirects nothing"
	case why != "":
		f.Status = plan.Conflict
		f.Summary = fmt.Sprintf("%s redirects (%s), and has to: %s", address, strings.Join(on.Names(), ", "), why)
		f.Fix = "leave the port out of scope, or have no guest use the device"
	default:
		a.redirects(&f, on)
	}
	a.find(f)
}

// redirects: the port has functions of on set that are to be off.
func (a *assessor) redirects(f *plan.Finding, on pciregs.ACSBits) {
	f.Status, f.Why = plan.Drift, danger
	f.Summary = fmt.Sprintf("%s redirects traffic between peers: %s", f.Target, strings.Join(on.Names(), ", "))
	if on == pciregs.UpstreamFwd && a.persist == persistKernelArgs && a.args == disableRedirect {
		f.Summary = fmt.Sprintf("%s has UpstreamFwd on, which %s does not clear", f.Target, disableRedirect)
	}
	if signing, ok := node.ModuleSigning.Get(a.facts, "").Get(); ok && signing.LockedDown() {
		f.Fix = fmt.Sprintf(`the kernel is locked down (%s) and lets nobody write registers: set persist = %q, or turn ACS off in the BIOS`, signing.Lockdown, persistKernelArgs)
		if a.persist == persistKernelArgs {
			f.Fix = fmt.Sprintf("the kernel is locked down (%s) and lets nobody write registers: the next boot turns it off, or the BIOS", signing.Lockdown)
		}
		return
	}
	f.Fixable = true
	a.Steps = append(a.Steps, plan.Step{
		Phase: plan.PhasePCI, Target: f.Target, Effect: plan.Live, Summary: "turn redirection off at " + f.Target,
		Action: plan.SetACS{Address: f.Target, Off: pciregs.Redirect},
	})
}

// kernelArgs contributes the argument that keeps redirection off from the start. It names all ports,
// whether or not they have ACS, so that it is the same whatever can be read of them.
func (a *assessor) kernelArgs(addresses []string) {
	inv := a.facts.Inventory
	f := plan.Finding{ID: kernelArgsID, Target: "pci", Status: plan.Unsupported, Feature: "persist", Fix: fmt.Sprintf("set persist = %q: busbar.service turns redirection off at each boot", persistBoot)}
	var paths []string
	for _, address := range addresses {
		if inv.RedirectOffRefusal(address) == "" {
			paths = append(paths, devicePath(inv, address))
		}
	}
	line, _ := node.CommandLine.Get(a.facts, "").Get()
	switch {
	case !inv.Kernel.IsKnown():
		f = plan.Unread(kernelArgsID, "how the kernel is told", inv.Kernel)
	case a.argsErr != nil:
		f.Summary = "the kernel cannot be told to leave redirection off: " + a.argsErr.Error()
	case len(paths) == 0:
		return
	case !a.args.fits(paths, line):
		f.Summary = fmt.Sprintf("the kernel's command line ends after %d characters, and %s with %d ports does not fit in", commandLineSize, a.args, len(paths))
	default:
		for _, c := range sink.BootArg(a.args.argument(paths), true) {
			c.Origin = a.block.OriginOf("persist", "")
			a.Contributions = append(a.Contributions, c)
		}
		f.Status, f.Fix = plan.OK, ""
		f.Summary = fmt.Sprintf("the kernel is told by %s", a.args)
		if a.args == disableRedirect {
			f.Summary += ", which leaves UpstreamFwd to busbar.service"
		}
	}
	f.Target = "pci"
	a.find(f)
}
