// Package kernelmodule is the block type kernel_module: a kernel module that is
// loaded or not, now and at boot, and its options.
package kernelmodule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/cmdline"
	"busbar/internal/modprobe"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Values of state and boot.
const (
	loaded    = "loaded"
	unloaded  = "unloaded"
	unmanaged = "unmanaged"
)

// Type is the block type kernel_module.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of kernel_module.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "kernel_module", Label: plan.LabelRequired, LabelDoc: "the module's name; - and _ are equal",
		Doc: "A kernel module that is loaded or not, now and at boot, and its options. Where the initramfs holds a module that has options or is kept out, " +
			"busbar makes it anew (update-initramfs), or names the command that does.",
		Ceiling: plan.Reboot, Sinks: []string{sink.ModulesLoadName, sink.ModprobeName, sink.InitramfsName},
		Attributes: []plan.Attribute{
			{Name: "state", Type: cty.String, Enum: []string{loaded, unloaded}, Example: `"loaded"`, Doc: "Whether the running kernel has the module. Left out, the running kernel is not judged."},
			{Name: "boot", Type: cty.String, Enum: []string{loaded, unloaded, unmanaged}, Example: `"loaded"`, Doc: "Whether the module is loaded at boot (modules-load.d), or kept out (blacklist). Follows state when it is left out."},
			{Name: "options", Type: cty.Map(cty.DynamicPseudoType), Example: `{ peerdirect_support = 1 }`, Doc: "Parameters that the module gets when it is loaded (modprobe.d). A value that holds blanks is put in quotes, one that has quotes stands as it is."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Take lines of others that blacklist the module, refuse it, load it or give its parameters other values out of their files, keeping a copy."},
		},
	}
}

type config struct {
	State, Boot *string
	TakeOver    bool
	// Options as modprobe.d has them.
	Options map[string]string
}

func decode(b plan.Block) (c config, module string, boot string, err error) {
	err = c.decode(b)
	switch {
	case c.Boot != nil:
		boot = *c.Boot
	case c.State != nil:
		boot = *c.State
	default:
		boot = unmanaged
	}
	return c, modprobe.Normalize(b.Label), boot, err
}

func (c *config) decode(b plan.Block) error {
	var tagged struct {
		State    *string `cty:"state"`
		Boot     *string `cty:"boot"`
		TakeOver bool    `cty:"take_over"`
	}
	if err := b.Decode(&tagged); err != nil {
		return err
	}
	*c = config{State: tagged.State, Boot: tagged.Boot, TakeOver: tagged.TakeOver, Options: map[string]string{}}
	entries, err := b.Entries("options")
	for key, v := range entries {
		text, textErr := plan.ScalarText(v)
		if textErr != nil {
			return fmt.Errorf("options.%s: %w", key, textErr)
		}
		c.Options[key] = modprobe.QuoteValue(text)
	}
	return err
}

// Validate finds a label that is no module name, options that modprobe.d cannot
// hold, and a block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	c, module, _, err := decode(b)
	if err != nil {
		return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	var problems []plan.Problem
	if err := modprobe.CheckName(module); err != nil {
		problems = append(problems, plan.Problem{Summary: "no module name", Detail: err.Error()})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Options)) {
		if err := modprobe.CheckOption(key, c.Options[key]); err != nil {
			problems = append(problems, plan.Problem{Attribute: "options", Key: key, Summary: "modprobe.d cannot hold this option", Detail: err.Error()})
		}
	}
	if c.State == nil && c.Boot == nil && len(c.Options) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set state, boot or options."})
	}
	return problems
}

// Queries are the module, what the kernel accepts, modprobe's configuration, the
// command line, and the initramfs where it can spoil what is wanted.
func (Type) Queries(b plan.Block, _ node.Inventory) []node.Query {
	c, module, boot, err := decode(b)
	queries := []node.Query{
		node.Module.Query(module), node.ModuleSigning.Query(""),
		node.ModprobeFiles.Query(""), node.CommandLine.Query(""), node.Boot.Query(""),
	}
	if err == nil && (boot == unloaded || len(c.Options) > 0) {
		queries = append(queries, node.Initramfs.Query(module)) // for the sink, also where another block lowers to this one only on some nodes
	}
	return queries
}

// rdmaModules make RDMA devices appear for NICs.
var rdmaModules = []string{"mlx4_ib", "mlx5_ib", "bnxt_re", "efa", "erdma", "hns_roce_hw_v2", "ionic_rdma", "irdma", "mana_ib", "ocrdma", "qedr", "rdma_rxe", "siw", "vmw_pvrdma"}

// assessor judges one block.
type assessor struct {
	plan.Assessment
	config
	block  plan.Block
	module string
	facts  node.Facts
	state  node.ModuleState
	source node.Source
}

// Assess judges the module now, and contributes what is wanted at boot.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	c, module, boot, err := decode(b)
	if err != nil {
		return plan.Assessment{Findings: []plan.Finding{{ID: "kernel_module.config", Status: plan.Undetermined, Summary: err.Error()}}}
	}
	a := assessor{config: c, block: b, module: module, facts: facts}
	a.contribute(boot)
	v := node.Module.Get(facts, module)
	state, ok := v.Get()
	if !ok {
		a.add(plan.Unread("kernel_module.running", "module "+module, v))
		return a.Assessment
	}
	a.state, a.source = state, v.Source()
	if a.ownedByContainer() || a.builtIn(boot) {
		a.Contributions = slices.DeleteFunc(a.Contributions, func(c plan.Contribution) bool {
			return c.Sink != plan.FactSink && !strings.HasPrefix(c.Key, "options ")
		})
		boot = unmanaged
	}
	if c.State != nil && !facts.Inventory.RootDirectory {
		a.running(*c.State)
	}
	if boot == loaded {
		a.nextKernel()
	}
	if a.onDiskNowhere() {
		a.Contributions = slices.DeleteFunc(a.Contributions, func(c plan.Contribution) bool { return c.Value == sink.LoadAtBoot })
	}
	a.optionsInForce()
	return a.Assessment
}

func (a *assessor) add(f plan.Finding) {
	if f.Target == "" {
		f.Target = a.module
	}
	a.Findings = append(a.Findings, f)
}

// contribute says what is wanted at boot and at the next load.
func (a *assessor) contribute(boot string) {
	want := func(sinkName, key, value string, origin plan.Origin) {
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: sinkName, Key: key, Value: value, TakeOver: a.TakeOver, Origin: origin})
	}
	inModprobe := func(key, value string, origin plan.Origin) {
		want(sink.ModprobeName, key, value, origin)
		want(sink.InitramfsName, key, value, origin)
	}
	if a.State != nil {
		want(plan.FactSink, plan.ModuleFact(a.module), *a.State, a.block.OriginOf("state", ""))
	}
	bootOrigin := a.block.OriginOf("boot", "")
	if a.Boot == nil {
		bootOrigin = a.block.OriginOf("state", "")
	}
	if boot != unmanaged {
		want(plan.FactSink, plan.ModuleAtBootFact(a.module), boot, bootOrigin)
	}
	if boot == loaded || a.State != nil && *a.State == loaded {
		want(sink.ModprobeName, sink.InstallKey(a.module), sink.Absent, bootOrigin)
	}
	switch boot {
	case loaded:
		want(sink.ModulesLoadName, a.module, sink.LoadAtBoot, bootOrigin)
		want(sink.ModprobeName, sink.BlacklistKey(a.module), sink.Absent, bootOrigin)
	case unloaded:
		want(sink.ModulesLoadName, a.module, sink.NotAtBoot, bootOrigin)
		inModprobe(sink.BlacklistKey(a.module), sink.Present, bootOrigin)
	}
	for _, key := range slices.Sorted(maps.Keys(a.Options)) {
		inModprobe(sink.OptionKey(a.module, key), a.Options[key], a.block.OriginOf("options", key))
	}
}

// ownedByContainer reports, and says, that the module is loaded and no installed kernel has it on
// disk: a driver container brought it, modprobe on the host would not find it.
func (a *assessor) ownedByContainer() bool {
	if !a.state.Loaded || !a.onDiskNowhere() {
		return false
	}
	a.add(plan.Finding{
		ID: "kernel_module.container", Status: plan.Skipped, Severity: plan.Info, Source: a.source,
		Summary: a.module + " is loaded and in no kernel's module directory: a driver container owns it, its boot state is not managed here",
	})
	return true
}

// builtIn reports, and says, that every installed kernel contains the module, so that its
// state at boot is no matter of configuration.
func (a *assessor) builtIn(boot string) bool {
	if len(a.state.Kernels) == 0 || slices.ContainsFunc(a.state.Kernels, func(k node.ModuleOnDisk) bool { return !k.BuiltIn }) {
		return false
	}
	f := plan.Finding{
		ID: "kernel_module.boot", Status: plan.OK, Want: boot, Found: "built in", Source: a.source,
		Summary: a.module + " is built into every installed kernel",
	}
	switch boot {
	case loaded:
		a.add(f)
	case unloaded:
		f.Status, f.Feature = plan.Unsupported, "boot"
		f.Summary += " and cannot be kept out"
		a.add(f)
	}
	return true
}

// running judges the running kernel.
func (a *assessor) running(want string) {
	f := plan.Finding{ID: "kernel_module.running", Want: want, Found: unloaded, Source: a.source, Effect: plan.Live, Status: plan.OK, Summary: a.module + " is " + want, Running: unloaded}
	if a.state.Loaded {
		f.Found, f.Running = loaded, loaded
	}
	on, known := a.onRunningKernel()
	if known && on.BuiltIn {
		f.Found = "built in"
		if want == unloaded {
			f.Status = plan.Unsupported
			f.Summary = a.module + " is built into the running kernel and cannot be unloaded"
		}
		a.add(f)
		return
	}
	if a.state.Changing != "" {
		a.add(a.changing(f))
		return
	}
	if f.Found == want {
		a.add(f)
		return
	}
	f.Summary = fmt.Sprintf("%s is %s, %s is wanted", a.module, f.Found, want)
	if want == loaded {
		f = a.blocked(f)
	} else {
		f = a.held(f)
	}
	if f.Status == plan.OK {
		f.Status, f.Fixable = plan.Drift, true
		a.Steps = append(a.Steps, a.step(want))
	}
	a.add(f)
}

// changing: the kernel is at work on the module, and takes no other order for it.
func (a *assessor) changing(f plan.Finding) plan.Finding {
	f.Status, f.Found, f.Running = plan.Drift, a.state.Changing, a.state.Changing
	what := "being loaded: its init function has not returned"
	if a.state.Changing == "going" {
		what = "being unloaded: its exit function has not returned"
	}
	f.Summary = fmt.Sprintf("%s is %s, %s is wanted", a.module, what, f.Want)
	f.Fix = "look into the kernel log for what it waits for; a driver that hangs there goes with a reboot only"
	return f
}

func (a *assessor) step(want string) plan.Step {
	s := plan.Step{
		Phase: plan.PhaseModules, Target: a.module, Effect: plan.Live, Summary: "load module " + a.module,
		Action: plan.LoadModule{Name: a.module, Unload: want == unloaded}, Requires: []string{sink.ModprobeName},
	}
	if want == unloaded {
		s.Summary = "unload module " + a.module
		return s
	}
	if slices.Contains(rdmaModules, a.module) {
		s.Provides, s.Settle = []string{node.CapabilityRDMA}, 15*time.Second
	}
	return s
}

func (a *assessor) onRunningKernel() (node.ModuleOnDisk, bool) {
	release, ok := a.facts.Inventory.Kernel.Get()
	if !ok {
		return node.ModuleOnDisk{}, false
	}
	return a.state.On(release)
}

// blocked finds what keeps the module from being loaded now; without any, the
// finding comes back as it was.
func (a *assessor) blocked(f plan.Finding) plan.Finding {
	signing, _ := node.ModuleSigning.Get(a.facts, "").Get()
	if signing.ModulesDisabled {
		f.Status = plan.Unsupported
		f.Summary = a.module + " cannot be loaded: kernel.modules_disabled is 1 until the next boot"
		return f
	}
	on, known := a.onRunningKernel()
	if release, ok := a.facts.Inventory.Kernel.Get(); ok && len(a.state.Kernels) > 0 && (!known || on.Path == "") {
		return a.notOnDisk(f, release)
	}
	if signed, ok := on.Signed.Get(); ok && !signed && signing.Enforced {
		f.Status = plan.Unsupported
		f.Source = on.Signed.Source()
		f.Summary = fmt.Sprintf("%s cannot be loaded: the file is not signed and this kernel takes signed modules only (Secure Boot or sig_enforce)", a.module)
		f.Fix = "install a signed package, or sign the module and enrol the key (MOK); nothing inside the running system can change this"
		return f
	}
	if line, ok := node.CommandLine.Get(a.facts, "").Get(); ok {
		denied := modprobe.FromCommandLine(cmdline.Parse(line).Strings()).Denied
		if slices.Contains(denied, a.module) {
			f.Status = plan.Conflict
			f.Source = node.CommandLine.Get(a.facts, "").Source()
			f.Summary = fmt.Sprintf("%s is wanted (%s) and refused by module_blacklist= on the running kernel's command line", a.module, a.block.OriginOf("state", ""))
			f.Fix = "take the module out of module_blacklist= and reboot"
			return f
		}
	}
	files, _ := node.ModprobeFiles.Get(a.facts, "").Get()
	configuration, _ := modprobe.ParseModprobe(modprobe.OrderModprobe(sink.ForeignModprobe(files)))
	if command, at, found := configuration.Install(a.module); found && modprobe.Refuses(command) && !(a.TakeOver && sink.TakesOver(configuration, at, a.module)) {
		f.Status = plan.Conflict
		f.Source = node.Source{Path: at.File, Line: at.Line}
		f.Summary = fmt.Sprintf("%s is wanted (%s) and kept out by %s: install %s %s", a.module, a.block.OriginOf("state", ""), f.Source, a.module, command)
		f.Fix = "remove the line if its owner agrees, or set take_over = true"
	}
	return f
}

func (a *assessor) notOnDisk(f plan.Finding, release string) plan.Finding {
	f.Status = plan.Unsupported
	f.Found = "not on disk"
	f.Source = node.Source{Path: "/lib/modules/" + release}
	f.Summary = fmt.Sprintf("%s is not on disk for kernel %s", a.module, release)
	f.Fix = "install the package that brings the module for this kernel (DKMS: build it for " + release + ")"
	return f
}

// held finds what keeps the module from being unloaded.
func (a *assessor) held(f plan.Finding) plan.Finding {
	if len(a.state.Holders) == 0 && a.state.RefCount == 0 {
		return f
	}
	f.Status = plan.Conflict
	f.Source = node.Source{Path: "/sys/module/" + a.module + "/holders"}
	if len(a.state.Holders) == 0 {
		f.Source.Path = "/sys/module/" + a.module + "/refcnt"
		f.Summary = fmt.Sprintf("%s cannot be unloaded: %d users hold it", a.module, a.state.RefCount)
	} else {
		f.Summary = fmt.Sprintf("%s cannot be unloaded: held by %s", a.module, strings.Join(a.state.Holders, ", "))
	}
	f.Fix = "stop what uses it first; busbar does not unload modules that are in use"
	return f
}

// nextKernel judges whether the kernels that may boot next have the module.
func (a *assessor) nextKernel() {
	running, _ := a.facts.Inventory.Kernel.Get()
	releases := a.nextReleases()
	for _, k := range a.state.Kernels {
		judged := k.Release == running && a.State != nil && !a.facts.Inventory.RootDirectory
		if judged || k.Path != "" || k.BuiltIn {
			continue
		}
		if len(releases) > 0 && !slices.Contains(releases, k.Release) {
			continue
		}
		f := a.notOnDisk(plan.Finding{ID: "kernel_module.next_kernel", Want: "on disk"}, k.Release)
		f.Summary = fmt.Sprintf("%s is not on disk for kernel %s, which may be booted next", a.module, k.Release)
		a.add(f)
	}
}

// onDiskNowhere: no installed kernel has the module, so that loading it at boot
// would only make systemd-modules-load fail.
func (a *assessor) onDiskNowhere() bool {
	return len(a.state.Kernels) > 0 && !slices.ContainsFunc(a.state.Kernels, func(k node.ModuleOnDisk) bool { return k.Path != "" || k.BuiltIn })
}

// nextReleases are the kernels of the boot loader's entries; none when they could
// not be read, and then every installed kernel counts.
func (a *assessor) nextReleases() []string {
	boot, _ := node.Boot.Get(a.facts, "").Get()
	state, err := nextboot.Read(boot)
	if err != nil {
		return nil
	}
	var releases []string
	for _, line := range state.Lines {
		if line.Release != "" {
			releases = append(releases, line.Release)
		}
	}
	return releases
}

// optionsInForce compares the parameters of the loaded module.
func (a *assessor) optionsInForce() {
	if !a.state.Loaded {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(a.Options)) {
		want := a.Options[key]
		f := plan.Finding{
			ID: "kernel_module.option_in_force", Target: a.module + "." + key, Want: key + "=" + want, Effect: plan.DriverReload,
			Source: node.Source{Path: "/sys/module/" + a.module + "/parameters/" + key},
		}
		got, shown := a.state.Parameters[strings.ReplaceAll(key, "-", "_")]
		switch {
		case !shown:
			f.Status, f.Severity = plan.Undetermined, plan.Info
			f.Summary = fmt.Sprintf("whether %s=%s is in force is unknown: %s does not show the parameter", key, want, a.module)
		case equalParameter(got, want):
			f.Status, f.Found = plan.OK, key+"="+got
			f.Summary = fmt.Sprintf("%s=%s is in force", key, got)
		default:
			f.Status, f.Found = plan.PendingReboot, key+"="+got
			f.Running = got
			f.Summary = fmt.Sprintf("%s has %s=%s in force, %s=%s comes with its next load", a.module, key, got, key, want)
			f.Fix = "reload the module when nothing uses it, or reboot"
		}
		a.add(f)
	}
}

// equalParameter: booleans are shown as Y and N, numbers in decimal, whatever was written.
func equalParameter(got, want string) bool {
	want = strings.Trim(want, `"`)
	boolean := map[string]string{"Y": "1", "y": "1", "1": "1", "N": "0", "n": "0", "0": "0"}
	if got == "Y" || got == "N" {
		return boolean[want] == boolean[got]
	}
	if n, err := strconv.ParseInt(want, 0, 64); err == nil {
		shown, err := strconv.ParseInt(got, 0, 64)
		return err == nil && shown == n
	}
	return got == want
}
