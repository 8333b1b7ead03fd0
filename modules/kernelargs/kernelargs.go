// Package kernelargs is the block type kernel_args: arguments of the kernel.
package kernelargs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/cmdline"
	"busbar/internal/modprobe"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type kernel_args.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of kernel_args.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "kernel_args", Doc: "Arguments of the kernel, now and at the next boot.",
		Ceiling: plan.Reboot, Sinks: []string{sink.BootArgsName},
		Attributes: []plan.Attribute{
			{Name: "present", Type: cty.DynamicPseudoType, Example: `{ numa_balancing = "disable", nokaslr = "" }`, Doc: "Arguments that must be in force by the kernel's own rule for each, and their values; an empty value is a bare flag."},
			{Name: "absent", Type: cty.List(cty.String), Example: `["pci=noacs"]`, Doc: "Arguments that must not be there: KEY in any form, or KEY=VALUE."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Cut words of others that stand against these arguments out of their files, keeping a copy."},
		},
	}
}

// argument is one wanted argument.
type argument struct {
	key, text string
	present   bool
}

// decode returns the arguments in the order of their keys, with the mistakes in them.
func decode(b plan.Block) (args []argument, problems []plan.Problem) {
	present, err := b.Entries("present")
	if err != nil {
		problems = append(problems, plan.Problem{Attribute: "present", Summary: "not an object", Detail: err.Error()})
	}
	for _, key := range slices.Sorted(maps.Keys(present)) {
		value, err := plan.ScalarText(present[key])
		if err == nil {
			err = check(key, value)
		}
		if err != nil {
			problems = append(problems, plan.Problem{Attribute: "present", Key: key, Summary: "not a kernel argument", Detail: err.Error()})
			continue
		}
		args = append(args, argument{key, spell(key, value), true})
	}
	var c struct {
		Absent []string `cty:"absent"`
	}
	if err := b.Decode(&c); err != nil {
		return nil, []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
	}
	for _, text := range c.Absent {
		key, value, _ := strings.Cut(text, "=")
		if err := check(key, value); err != nil {
			problems = append(problems, plan.Problem{Attribute: "absent", Summary: "not a kernel argument", Detail: err.Error()})
			continue
		}
		args = append(args, argument{key, text, false})
	}
	return args, problems
}

// spell writes an argument, without '=' where it has no value.
func spell(key, value string) string {
	if value == "" {
		return key
	}
	return cmdline.Quote(key, value)
}

// check refuses what the kernel's parser would not read back as one argument.
func check(key, value string) error {
	if key == "" || strings.ContainsAny(key, "= \"") || strings.ContainsFunc(key, unicode.IsControl) {
		return fmt.Errorf("%q is no argument's name", key)
	}
	if strings.ContainsAny(value, "\"\\'") || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("the value %q holds a quote, a backslash, a tab or another control character", value)
	}
	line := cmdline.Parse(spell(key, value))
	if len(line) != 1 || line[0].Key != key || line[0].Value != value {
		return fmt.Errorf("the kernel would not read %s=%s as one argument", key, value)
	}
	if cmdline.KeyEqual(key, "amd_iommu") && slices.Contains(strings.Split(value, ","), "off") {
		return errors.New(`amd_iommu=off can keep CPUs from coming up; iommu { mode = "off" } sets it where that is safe`)
	}
	if ok, _ := cmdline.Satisfied(line, key, value); !ok {
		return fmt.Errorf("the kernel would ignore %s, or a part of it", line)
	}
	return nil
}

// Validate finds arguments that are none, that are both wanted and not, and a
// block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	args, problems := decode(b)
	for _, a := range args {
		if !a.present && slices.ContainsFunc(args, func(o argument) bool {
			return o.present && cmdline.KeyEqual(o.key, a.key) && (a.text == a.key || a.text == o.text)
		}) {
			problems = append(problems, plan.Problem{Attribute: "absent", Summary: "present and absent", Detail: a.text + " is wanted by present too."})
		}
	}
	if len(args) == 0 && len(problems) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set present or absent."})
	}
	return problems
}

// Queries is empty: the sink of boot arguments reads what it takes.
func (Type) Queries(plan.Block, node.Inventory) []node.Query { return nil }

// Assess contributes the arguments.
func (Type) Assess(b plan.Block, _ node.Facts) plan.Assessment {
	args, _ := decode(b)
	var a plan.Assessment
	var present []plan.Contribution
	for _, arg := range args {
		for _, c := range sink.BootArg(arg.text, arg.present) {
			c.TakeOver = b.Attributes["take_over"] == cty.True
			if arg.present {
				c.Origin = b.OriginOf("present", arg.key)
				present = append(present, c)
			} else {
				c.Origin = b.OriginOf("absent", "")
			}
			a.Contributions = append(a.Contributions, c)
		}
		if !arg.present {
			a.Contributions = append(a.Contributions, plan.Contribution{Sink: plan.FactSink, Key: plan.BootArgumentFact(arg.text), Value: "absent", Origin: b.OriginOf("absent", "")})
		}
	}
	a.Contributions = append(a.Contributions, meanings(present)...)
	if unwanted := func(option string) bool {
		return slices.ContainsFunc(args, func(arg argument) bool { return !arg.present && (arg.text == "pci" || arg.text == "pci="+option) })
	}; unwanted("config_acs") && unwanted("disable_acs_redir") {
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: plan.FactSink, Key: plan.ACSArgumentsFact, Value: "unwanted", Origin: b.OriginOf("absent", "")})
	}
	return a
}

// meanings are facts of the profile that follow from arguments: other blocks have other words
// for them.
func meanings(args []plan.Contribution) []plan.Contribution {
	var facts []plan.Contribution
	mean := func(arg plan.Contribution, key, value string) {
		facts = append(facts, plan.Contribution{Sink: plan.FactSink, Key: key, Value: value, By: arg.Value, Of: arg.Key, Origin: arg.Origin})
	}
	var line []string
	for _, arg := range args {
		line = append(line, arg.Value)
		modules := modprobe.FromCommandLine([]string{arg.Value})
		for _, m := range modules.Denied {
			mean(arg, plan.ModuleFact(modprobe.Normalize(m)), "unloaded")
		}
		for _, m := range slices.Concat(modules.Denied, modules.Blacklist) {
			mean(arg, plan.ModuleAtBootFact(modprobe.Normalize(m)), "unloaded")
		}
		for _, m := range modules.ModulesLoad {
			mean(arg, plan.ModuleAtBootFact(m), "loaded")
		}
	}
	// x86 kernels read every spelling.
	intent := cmdline.IOMMU(cmdline.Parse(strings.Join(line, " ")), cmdline.Platform{Arch: "x86_64"})
	for _, arg := range args {
		if arg.Value == intent.By {
			mean(arg, plan.IOMMUModeFact, string(intent.Mode))
		}
	}
	return facts
}
