// Package iommu is the block type iommu: what becomes of the DMA addresses of
// GPUs and NICs.
package iommu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/cmdline"
	"busbar/internal/grub"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type iommu.
type Type struct{}

var _ plan.Claimer = Type{}

// Spec of iommu.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "iommu", Doc: "The IOMMU's mode for GPUs and NICs. It is judged by the devices' IOMMU groups, and set by kernel arguments spelt for the architecture and the firmware's tables.",
		Ceiling: plan.Reboot, Sinks: []string{sink.BootArgsName},
		Attributes: []plan.Attribute{
			{Name: "mode", Type: cty.String, Required: true, Enum: []string{"passthrough", "translated", "off"}, Example: `"passthrough"`, Doc: "passthrough: devices see physical addresses. translated: each group has a DMA domain. off: there is no IOMMU."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Cut words of others that stand against the mode out of their files, keeping a copy."},
		},
	}
}

// Queries are the IOMMU, and what the sink of boot arguments reads.
func (Type) Queries(plan.Block, node.Inventory) []node.Query {
	return append(sink.BootArgs{}.Queries(nil), node.IOMMU.Query(""))
}

// tables are the firmware tables that describe IOMMUs, with the names of the units
// that Linux makes of each.
var tables = []struct{ table, unit string }{{"DMAR", "dmar"}, {"IVRS", "ivhd"}, {"IORT", "smmu"}, {"VIOT", "virtio"}}

type assessor struct {
	plan.Assessment
	block    plan.Block
	facts    node.Facts
	want     cmdline.Mode
	takeOver bool
	state    node.IOMMUState
	source   node.Source
	platform cmdline.Platform

	running      cmdline.Line
	runningKnown bool
	next         nextboot.State
	nextErr      error
}

// Assess judges the mode by its effect, and contributes the arguments that bring it.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	mode := b.Attributes["mode"]
	if mode == cty.NilVal || mode.IsNull() {
		return plan.Assessment{}
	}
	a := &assessor{block: b, facts: facts, want: cmdline.Mode(mode.AsString()), takeOver: b.Attributes["take_over"] == cty.True}
	a.judge()
	if slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Status == plan.Undetermined || f.Status == plan.Deferred }) {
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: sink.BootArgsName, Undecided: true, Origin: b.OriginOf("mode", "")})
	}
	a.Contributions = append(a.Contributions, plan.Contribution{
		Sink: plan.FactSink, Key: plan.IOMMUModeFact, Value: string(a.want), Origin: b.OriginOf("mode", ""),
	})
	return a.Assessment
}

// Claims are the arguments that may have to bring the mode: which of them, and whether one is needed, hangs on the node, on which the
// sink of boot arguments knows.
func (Type) Claims(b plan.Block, _ node.Inventory) []plan.Contribution {
	mode := b.Attributes["mode"]
	if mode == cty.NilVal || mode.IsNull() {
		return nil
	}
	var facts []plan.Contribution
	for _, p := range []struct {
		cmdline.Platform
		where string
	}{
		{cmdline.Platform{Arch: "x86_64", Table: "DMAR"}, "of Intel"}, {cmdline.Platform{Arch: "x86_64", Table: "IVRS"}, "of AMD"}, {cmdline.Platform{Arch: "aarch64"}, "of Arm"},
	} {
		args, err := cmdline.WantedIOMMU(cmdline.Mode(mode.AsString()), p.Platform)
		if err != nil {
			continue // no argument spells it there
		}
		for _, arg := range args {
			key, _, _ := strings.Cut(arg, "=")
			for _, named := range []string{key, arg} {
				facts = append(facts, plan.Contribution{
					Sink: plan.FactSink, Key: plan.BootArgumentFact(named), Value: "present", By: arg,
					Where: p.where + " that have another mode by default", Origin: b.OriginOf("mode", ""),
				})
			}
		}
	}
	return facts
}

func (a *assessor) judge() {
	facts := a.facts
	if facts.Inventory.RootDirectory {
		a.firstBoot()
		return
	}
	v := node.IOMMU.Get(facts, "")
	state, ok := v.Get()
	if !ok {
		a.Findings = append(a.Findings, unread("the IOMMU's mode", v))
		return
	}
	a.state, a.source = state, v.Source()
	arch, ok := facts.Inventory.Arch.Get()
	if !ok {
		a.Findings = append(a.Findings, unread("the architecture", facts.Inventory.Arch))
		return
	}
	a.platform = cmdline.Platform{Arch: arch, Table: a.table()}
	if line, ok := node.CommandLine.Get(facts, "").Get(); ok {
		a.running, a.runningKnown = cmdline.Parse(line), true
	}
	boot, ok := node.Boot.Get(facts, "").Get()
	if ok {
		a.next, a.nextErr = nextboot.Read(boot)
	} else {
		a.nextErr = errors.New(node.Boot.Get(facts, "").Reason())
	}
	a.assess()
}

func unread[T any](what string, v node.Value[T]) plan.Finding {
	f := plan.Unread("iommu.mode", what, v)
	f.Target = "iommu"
	return f
}

// firstBoot: a directory tree shows no IOMMU, and the spelling hangs on it.
func (a *assessor) firstBoot() {
	a.Findings = append(a.Findings, plan.Finding{
		ID: "iommu.mode", Target: "iommu", Want: string(a.want), Status: plan.Deferred, Tolerated: true, Effect: plan.Reboot,
		Summary: "which argument sets the IOMMU's mode is known at the first boot: it hangs on the machine's firmware (--root)",
	})
}

func (a *assessor) table() string {
	for _, t := range tables {
		if slices.Contains(a.state.Tables, t.table) {
			return t.table
		}
	}
	for _, t := range tables {
		if slices.ContainsFunc(a.state.Units, func(u string) bool { return strings.HasPrefix(u, t.unit) }) {
			return t.table
		}
	}
	return ""
}

func (a *assessor) assess() {
	f := plan.Finding{ID: "iommu.mode", Target: "iommu", Want: string(a.want), Effect: plan.Reboot, Source: a.source, Status: plan.OK}
	effective, where, unknown := a.effective()
	f.Found = string(effective)
	f.Running = f.Found
	args, err := cmdline.WantedIOMMU(a.want, a.platform)
	switch {
	case unknown != "":
		f.Status = plan.Undetermined
		f.Summary = "the IOMMU's mode is unknown: " + unknown
	case effective == a.want:
		f.Summary = fmt.Sprintf("the IOMMU's mode is %s: %s", effective, where)
		if err == nil && !a.byDefault() {
			a.contribute(args)
		}
	case err != nil || a.platform.Table == "":
		f.Status, f.Feature = plan.Unsupported, "mode"
		f.ID = "iommu." + f.Found
		f.Summary = fmt.Sprintf("the IOMMU is %s, %s is wanted: %v", effective, a.want, err)
		if a.platform.Table == "" {
			f.Summary = fmt.Sprintf("the IOMMU is %s, %s is wanted, and the firmware describes no IOMMU", effective, a.want)
			f.Fix = "turn VT-d or AMD-Vi on in the BIOS if it is meant to be there; mode = \"off\" describes the node as it is"
		}
	case a.unsafe(&f):
	default:
		a.contribute(args)
		a.wrong(&f, effective, where, args)
	}
	a.Findings = append(a.Findings, f)
	a.notes()
}

// unsafe refuses amd_iommu=off where CPUs would not come up: without interrupt
// remapping there is no x2APIC, and APIC ids above 254 need it (arch/x86/kernel/apic).
func (a *assessor) unsafe(f *plan.Finding) bool {
	if a.want != cmdline.Off || a.platform.Table != "IVRS" {
		return false
	}
	id, ok := a.state.MaxAPICID.Get()
	if ok && id <= 254 {
		return false
	}
	f.ID, f.Status, f.Feature = "iommu.x2apic", plan.Unsupported, "mode"
	f.Summary = fmt.Sprintf("amd_iommu=off is not set: it takes x2APIC away, and this node has APIC ids up to %d, so that CPUs would not come up", id)
	if !ok {
		f.Summary = "amd_iommu=off is not set: whether CPUs need x2APIC is unknown (" + a.state.MaxAPICID.Reason() + ")"
	}
	f.Fix = `use mode = "passthrough"`
	return true
}

// wrong fills the finding of a mode that is in force and not wanted.
func (a *assessor) wrong(f *plan.Finding, effective cmdline.Mode, where string, args []string) {
	f.ID = "iommu." + string(effective)
	f.Status, f.Fixable = plan.Drift, a.nextErr == nil
	f.Summary = fmt.Sprintf("the IOMMU's mode is %s, wanted is %s: %s", effective, a.want, where)
	if effective == cmdline.Translated {
		f.Why = "translated DMA sends peer-to-peer traffic through the root complex, slows it, makes it hang, or loses it"
	}
	if a.nextErr != nil {
		f.Fix = fmt.Sprintf("set %s on the kernel's command line (%v)", strings.Join(args, " "), a.nextErr)
		return
	}
	f.NextBoot = string(a.nextMode())
	bootID, _ := a.facts.Inventory.BootID.Get()
	marker, _ := a.facts.Inventory.Marker.Get()
	blocked, isBlocked := sink.Blocked(sink.BootArgs{}.Assess(a.Contributions, a.facts))
	askedInVain := a.runningKnown && cmdline.IOMMU(a.running, a.platform).Mode == a.want
	switch {
	case askedInVain, a.nextMode() == a.want && marker.Expects(a.contributed(), bootID):
		f.Status, f.Fixable = plan.Ineffective, false
		f.Summary = fmt.Sprintf("the IOMMU's mode is %s although %s asks for %s: %s", effective, a.asking(args), a.want, where)
		f.Fix = "look in the kernel log for \"iommu: Default domain type\" and for what the driver says; another reboot changes nothing"
	case a.nextMode() != a.want && isBlocked:
		f.Fixable = false
		f.Fix = "settle this first: " + blocked.Summary
	case a.nextMode() != a.want:
		// The sink of boot arguments says what is missing and writes it.
		f.By = nextboot.GeneratedPath
	default:
		f.Status, f.Fixable = plan.PendingReboot, false
		f.Summary = fmt.Sprintf("the IOMMU's mode is %s, %s comes with the next boot", effective, a.want)
	}
}

// asking names what asked for the mode in vain.
func (a *assessor) asking(args []string) string {
	if by := cmdline.IOMMU(a.running, a.platform).By; by != "" {
		return by + " on the running kernel's command line"
	}
	return strings.Join(args, " ") + ", which was set before this boot,"
}

// nextMode is what every boot entry asks for; Unset when they differ.
func (a *assessor) nextMode() cmdline.Mode {
	mode := cmdline.Unset
	for i, line := range a.next.Lines {
		m := cmdline.IOMMU(line.Args, a.platform).Mode
		if i > 0 && m != mode {
			return cmdline.Unset
		}
		mode = m
	}
	return mode
}

// byDefault: the mode in force is the kernel's own default, nothing asks for it or
// for another one, and nothing need be written.
func (a *assessor) byDefault() bool {
	return a.runningKnown && cmdline.IOMMU(a.running, a.platform).Mode == cmdline.Unset && a.nextErr == nil && a.nextMode() == cmdline.Unset
}

// contribute asks for the arguments. intel_iommu=on is left out where the kernel
// turns the IOMMU on by itself, now and at the next boot.
func (a *assessor) contribute(args []string) {
	if a.want != cmdline.Off && a.platform.Table == "IVRS" && a.anywhere("amd_iommu", "off") { // it stays off, whatever follows
		for _, c := range sink.BootArg("amd_iommu=off", false) {
			c.TakeOver, c.Origin = a.takeOver, a.block.OriginOf("mode", "")
			a.Contributions = append(a.Contributions, c)
		}
	}
	for _, arg := range args {
		if arg == "intel_iommu=on" && a.onByDefault() {
			continue
		}
		for _, c := range sink.BootArg(arg, true) {
			c.TakeOver, c.Origin = a.takeOver, a.block.OriginOf("mode", "")
			a.Contributions = append(a.Contributions, c)
		}
	}
}

// anywhere reports whether KEY, or KEY with the value, is on the running line, in the
// defaults or in a boot entry.
func (a *assessor) anywhere(key, value string) bool {
	lines := []cmdline.Line{a.running}
	if a.nextErr == nil {
		if line, known, _ := grub.CommandLine(a.next.Defaults, false); known {
			lines = append(lines, cmdline.Parse(line))
		}
	}
	for _, l := range a.next.Lines {
		lines = append(lines, l.Args)
	}
	return slices.ContainsFunc(lines, func(l cmdline.Line) bool { return !cmdline.Absent(l, key, value) })
}

// onByDefault: the IOMMU is on, and no intel_iommu= has a part in it.
func (a *assessor) onByDefault() bool {
	effective, _, _ := a.effective()
	return a.runningKnown && !a.anywhere("intel_iommu", "") && (effective == cmdline.Passthrough || effective == cmdline.Translated)
}

// contributed are the arguments that are asked for, as a marker has them.
func (a *assessor) contributed() []string {
	var args []string
	for _, c := range a.Contributions {
		args = append(args, sink.MarkerWord(c))
	}
	return args
}

// effective is the mode in force, with the groups that show it; unknown says why it
// cannot be told.
func (a *assessor) effective() (mode cmdline.Mode, where, unknown string) {
	groups := a.relevantGroups()
	if len(groups) == 0 {
		if len(a.state.Units) == 0 {
			return cmdline.Off, "there is no IOMMU in /sys/class/iommu", ""
		}
		return "", "", "there are IOMMUs (" + strings.Join(a.state.Units, ", ") + ") and no IOMMU groups"
	}
	count := map[cmdline.Mode][]string{}
	for _, g := range groups {
		kind, ok := g.Type.Get()
		if !ok {
			return "", "", fmt.Sprintf("the type of IOMMU group %d is not known: %s", g.ID, g.Type.Reason())
		}
		m := cmdline.Translated
		if kind == "identity" {
			m = cmdline.Passthrough
		}
		count[m] = append(count[m], fmt.Sprintf("group %d (%s) is %s", g.ID, strings.Join(g.Devices, " "), kind))
	}
	// Where groups differ, what is not as wanted decides.
	m := cmdline.Translated
	if len(count[m]) == 0 || a.want == m && len(count[cmdline.Passthrough]) > 0 {
		m = cmdline.Passthrough
	}
	n := len(count[m])
	where = count[m][0] + more(n-1)
	if n < len(groups) {
		where = fmt.Sprintf("%d of %d groups: %s", n, len(groups), where)
	}
	return m, where, ""
}

func more(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and 1 more"
	default:
		return fmt.Sprintf(", and %d more", n)
	}
}

// relevantGroups are those of GPUs, then those of NICs; all where none of them is in a
// group.
func (a *assessor) relevantGroups() []node.IOMMUGroup {
	var gpus, nics []string
	allGPUs, _ := a.facts.Inventory.GPUs().Get()
	for _, g := range allGPUs {
		gpus = append(gpus, g.Address)
	}
	allNICs, _ := a.facts.Inventory.NICs().Get()
	for _, n := range allNICs {
		nics = append(nics, n.Address)
	}
	holds := func(g node.IOMMUGroup, devices []string) bool {
		return slices.ContainsFunc(g.Devices, func(d string) bool { return slices.Contains(devices, d) })
	}
	var relevant, others []node.IOMMUGroup
	for _, g := range a.state.Groups {
		switch {
		case holds(g, gpus):
			relevant = append(relevant, g)
		case holds(g, nics):
			others = append(others, g)
		}
	}
	relevant = append(relevant, others...)
	if len(relevant) == 0 {
		return a.state.Groups
	}
	return relevant
}

// notes are arguments that do nothing, or that contradict each other.
func (a *assessor) notes() {
	if !a.runningKnown {
		return
	}
	for _, n := range cmdline.IOMMU(a.running, a.platform).Notes {
		f := plan.Finding{
			ID: "iommu." + strings.ReplaceAll(string(n.Kind), "-", "_"), Target: n.Arg, Status: plan.Drift, Severity: plan.Warning,
			Found: n.Arg, Source: a.originOf(n.Arg), Summary: n.Arg + ": " + n.Text, Fix: "take " + n.Arg + " out of where it comes from",
		}
		a.Findings = append(a.Findings, f)
	}
}

// originOf is the line of GRUB's defaults that holds an argument, or else the
// running kernel's command line.
func (a *assessor) originOf(arg string) node.Source {
	if a.nextErr == nil {
		for _, t := range append(a.next.Defaults.Tokens(grub.Linux), a.next.Defaults.Tokens(grub.LinuxDefault)...) {
			if t.Arg == arg {
				return node.Source{Path: t.File, Line: t.Line}
			}
		}
	}
	return node.CommandLine.Get(a.facts, "").Source()
}
