// Package nvidiadriver is the block type nvidia_driver: the options that NVIDIA's kernel driver is loaded with, and whether it
// keeps GPUs initialised while nobody uses them.
package nvidiadriver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/cmdline"
	"busbar/internal/modprobe"
	"busbar/modules/service"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

const (
	module = "nvidia"
	// prefix begins the driver's options; /proc/driver/nvidia/params leaves it out.
	prefix      = "NVreg_"
	persistence = "nvidia-persistenced"
)

// Type is the block type nvidia_driver.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of nvidia_driver.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "nvidia_driver",
		Doc: "The options of NVIDIA's kernel driver, and its persistence. An option that changes is in force when the driver is loaded anew, which busbar leaves to the next boot. " +
			"Where the initramfs holds the driver, busbar makes it anew (update-initramfs), or names the command that does.",
		Ceiling: plan.Reboot, Sinks: []string{sink.ModprobeName, sink.InitramfsName},
		Attributes: []plan.Attribute{
			{Name: "options", Type: cty.Map(cty.DynamicPseudoType), Example: `{ NVreg_EnableStreamMemOPs = 1, NVreg_RegistryDwords = "PeerMappingOverride=1" }`, Doc: "Options of the module nvidia (modprobe.d), numbers and texts. Texts are compared byte for byte. A value that holds blanks is put in quotes, one that has quotes stands as it is."},
			{Name: "persistence", Type: cty.Bool, Example: "true", Doc: "Whether nvidia-persistenced keeps GPUs initialised while nobody uses them: now and at boot."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Take lines of others that give these options other values out of their files, keeping a copy."},
		},
	}
}

type config struct {
	Persistence *bool `cty:"persistence"`
	TakeOver    bool  `cty:"take_over"`
	// options as modprobe.d has them.
	options map[string]string
}

func decode(b plan.Block) (config, error) {
	var c config
	if err := b.Decode(&c); err != nil {
		return c, err
	}
	c.options = map[string]string{}
	entries, err := b.Entries("options")
	for key, v := range entries {
		text, textErr := plan.ScalarText(v)
		if textErr != nil {
			return c, fmt.Errorf("options.%s: %w", key, textErr)
		}
		c.options[key] = modprobe.QuoteValue(text)
	}
	return c, err
}

// names are the options, sorted.
func (c config) names() []string { return slices.Sorted(maps.Keys(c.options)) }

// Validate finds options that modprobe.d cannot hold, names that the driver does not have, and a block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	c, err := decode(b)
	if err != nil {
		return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	var problems []plan.Problem
	for _, name := range c.names() {
		if err := modprobe.CheckOption(name, c.options[name]); err != nil {
			problems = append(problems, plan.Problem{Attribute: "options", Key: name, Summary: "modprobe.d cannot hold this option", Detail: err.Error()})
		}
		if !strings.HasPrefix(name, prefix) {
			problems = append(problems, plan.Problem{Attribute: "options", Key: name, Warning: true, Summary: "no option of the driver", Detail: "Its options begin with NVreg_, and it ignores others: " + prefix + name + "?"})
		}
	}
	if c.Persistence == nil && len(c.options) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set options or persistence."})
	}
	return problems
}

// persistenced is the block service that persistence stands for.
func (c config) persistenced(b plan.Block) plan.Block {
	want := cty.BoolVal(*c.Persistence)
	return plan.Block{
		Address: b.Address, Type: "service", Label: persistence, Origin: b.OriginOf("persistence", ""),
		Attributes: map[string]cty.Value{"enabled": want, "active": want},
	}
}

// Queries are the driver, the command line, and the service.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query {
	queries := []node.Query{node.NVIDIADriver.Query(""), node.CommandLine.Query(""), node.ModprobeFiles.Query("")}
	if c, err := decode(b); err == nil && c.Persistence != nil {
		queries = append(queries, service.Type{}.Queries(c.persistenced(b), inv)...)
	}
	return queries
}

// Assess judges the options that are in force, contributes those of the next load, and judges the service.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var a plan.Assessment
	c, err := decode(b)
	if err != nil {
		return plan.Assessment{Findings: []plan.Finding{{ID: "nvidia_driver.config", Status: plan.Undetermined, Summary: err.Error()}}}
	}
	a.Findings = append(a.Findings, unknownLines(c, facts)...)
	arguments := commandLine(facts)
	for _, name := range c.names() {
		written := c.options[name]
		a.Contributions = append(a.Contributions, sink.InInitramfs(plan.Contribution{
			Sink: sink.ModprobeName, Key: sink.OptionKey(module, name), Value: written, TakeOver: c.TakeOver, Origin: b.OriginOf("options", name),
		})...)
		if facts.Inventory.RootDirectory {
			continue
		}
		want := sink.OptionValue(module, name, written)
		if argument, given := argumentFor(arguments, name); given && !equal(argument, want) {
			a.Findings = append(a.Findings, overridden(name, want, argument, b.OriginOf("options", name)))
			continue
		}
		a.Findings = append(a.Findings, inForce(name, want, node.NVIDIADriver.Get(facts, "")))
	}
	if c.Persistence != nil {
		unit := service.Type{}.Assess(c.persistenced(b), facts)
		a.Findings = append(a.Findings, unit.Findings...)
		a.Contributions = append(a.Contributions, unit.Contributions...)
		a.Steps = append(a.Steps, unit.Steps...)
	}
	return a
}

// commandLine are the modules' options on the running kernel's command line.
func commandLine(facts node.Facts) []modprobe.Option {
	line, _ := node.CommandLine.Get(facts, "").Get()
	return modprobe.Config{Statements: modprobe.FromCommandLine(cmdline.Parse(line).Strings()).Options}.Options(module)
}

// argumentFor is the value that the command line gives an option. kmod appends it to what modprobe.d gives
// (kmod_config_new), and of a parameter given twice the last one counts.
func argumentFor(arguments []modprobe.Option, name string) (value string, given bool) {
	for _, o := range arguments {
		if o.Key == strings.ReplaceAll(name, "-", "_") {
			value, given = o.Value, true
		}
	}
	return value, given
}

func overridden(name, want, argument string, origin plan.Origin) plan.Finding {
	return plan.Finding{
		ID: "nvidia_driver.command_line", Target: name, Status: plan.Conflict, Want: name + "=" + want, Found: module + "." + name + "=" + argument, Effect: plan.Reboot,
		Source:  node.Source{Path: "/proc/cmdline"},
		Summary: fmt.Sprintf("%s=%s is wanted (%s), and the kernel's command line says %s.%s=%s, which wins over modprobe.d", name, want, origin, module, name, argument),
		Fix:     fmt.Sprintf("take %s.%s out of the boot loader's configuration (kernel_args { absent = [%q] })", module, name, module+"."+name),
	}
}

// shownAs are parameters that the driver shows by another name than the option has (nv-reg.h of NVIDIA/open-gpu-kernel-modules,
// NV_DEFINE_PARAMS_TABLE_ENTRY_CUSTOM_NAME), empty for one that it does not show.
var shownAs = map[string]string{"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly", "RmNvlinkBandwidth": ""}

// inForce judges an option that the driver was loaded with, as /proc/driver/nvidia/params has it (nv_procfs_read_params in
// kernel-open/nvidia/nv-procfs.c): all numbers, and the texts that are known there.
func inForce(name, want string, v node.Value[node.NVIDIADriverState]) plan.Finding {
	const id = "nvidia_driver.option_in_force"
	f := plan.Finding{ID: id, Target: name, Want: name + "=" + want, Effect: plan.DriverReload}
	driver, ok := v.Get()
	switch {
	case !ok:
		f = plan.Unread(id, "whether "+name+"="+want+" is in force", v)
		f.Target = name
		return f
	case !driver.Loaded:
		f.Status, f.Source, f.Summary = plan.Skipped, v.Source(), "the NVIDIA driver is not loaded, and gets "+name+" when it is"
		return f
	}
	parameters, ok := driver.Parameters.Get()
	if !ok {
		f = plan.Unread(id, "whether "+name+"="+want+" is in force", driver.Parameters)
		f.Target = name
		return f
	}
	f.Source = driver.Parameters.Source()
	shown := shownName(name)
	got, known := parameters[shown]
	f.Found, f.Running = name+"="+got, got
	switch {
	case shown == "":
		f.Status, f.Severity, f.Found = plan.Undetermined, plan.Info, ""
		f.Summary = fmt.Sprintf("whether %s=%s is in force is unknown: the driver does not show it", name, want)
	case !known:
		want, source := f.Want, f.Source
		f = unknownOption(name, driver.Version)
		f.Want, f.Source = want, source
	case equal(got, want):
		f.Status, f.Summary = plan.OK, fmt.Sprintf("%s=%s is in force", name, got)
	default:
		f.Status = plan.PendingReboot
		f.Summary = fmt.Sprintf("the driver runs with %s=%s, %s=%s comes with its next load", name, got, name, want)
		f.Fix = "reboot, or reload the driver when nothing uses a GPU; initramfs.modprobe says whether the next boot gets it from an initramfs, which must be right first"
	}
	return f
}

// shownName is what /proc/driver/nvidia/params calls an option; empty where it does not have it.
func shownName(name string) string {
	shown := strings.TrimPrefix(name, prefix)
	if other, differs := shownAs[shown]; differs {
		return other
	}
	return shown
}

func unknownOption(name, version string) plan.Finding {
	return plan.Finding{
		ID: "nvidia_driver.unknown_option", Target: name, Status: plan.Drift, Severity: plan.Warning, Found: "no such option",
		Summary: fmt.Sprintf("the running driver %s shows no option %s: it ignores what it does not know, and says so in the kernel log alone", version, name),
		Fix:     "correct the name, or drop the option if this version of the driver has none; what it has stands in /proc/driver/nvidia/params, without NVreg_",
	}
}

// unknownLines are options of others that the running driver does not have.
func unknownLines(c config, facts node.Facts) []plan.Finding {
	driver, _ := node.NVIDIADriver.Get(facts, "").Get()
	parameters, known := driver.Parameters.Get()
	files, _ := node.ModprobeFiles.Get(facts, "").Get()
	if !known || facts.Inventory.RootDirectory {
		return nil
	}
	var findings []plan.Finding
	config, _ := modprobe.ParseModprobe(modprobe.OrderModprobe(sink.ForeignModprobe(files))) // the sink says what cannot be read
	for _, o := range config.Options(module) {
		shown := shownName(o.Key)
		_, has := parameters[shown]
		_, wanted := c.options[o.Key]
		if has || wanted || shown == "" || !strings.HasPrefix(o.Key, prefix) {
			continue
		}
		f := unknownOption(o.Key, driver.Version)
		f.Source = node.Source{Path: o.File, Line: o.Line}
		findings = append(findings, f)
	}
	return findings
}

// equal compares numbers as the driver has them, in 32 bits and in any notation, and texts byte for byte.
func equal(got, want string) bool {
	if got == want {
		return true
	}
	a, err := strconv.ParseInt(got, 0, 64)
	b, err2 := strconv.ParseInt(want, 0, 64)
	return err == nil && err2 == nil && uint32(a) == uint32(b) //nolint:gosec // -1 is 4294967295 to the driver
}
