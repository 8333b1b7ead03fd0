package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/mstconfig"
	"busbar/node"
	"busbar/plan"
)

// NICNVConfig is check "nic_nvconfig": the configuration in the firmware of NVIDIA's NICs.
type NICNVConfig struct{}

var _ plan.Validator = NICNVConfig{}

const (
	nvSettings  = "settings"
	nvSettingID = "nic_nvconfig.setting"
)

// Spec of check "nic_nvconfig".
func (NICNVConfig) Spec() plan.Spec {
	return plan.Spec{
		Name: "nic_nvconfig", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "Parameters in the firmware of NVIDIA's NICs, what it runs with and what it takes at its next reset, as mstconfig (package mstflint) or mlxconfig (MFT) reads them. Reading takes seconds per NIC.",
		Attributes: []plan.Attribute{
			nicsAttribute(),
			{
				Name: nvSettings, Type: cty.DynamicPseudoType, Required: true, Example: `{ LINK_TYPE_P1 = "ETH", ATS_ENABLED = false, NUM_OF_VFS = 0 }`,
				Doc: "Parameters and their values: numbers, bools, and the tool's own words. Elements of arrays are \"NAME[0]\", or \"NAME[0..7]\" for all of them. With optional = [\"settings\"] a NIC may lack parameters.",
			},
		},
	}
}

// nvSetting is a parameter that is wanted, or the elements of an array.
type nvSetting struct {
	// name as the profile has it, and elements, which are the parameters that the tool shows.
	name     string
	elements []string
	want     string
}

// wantedSettings returns the settings by name, with the mistakes in them.
func wantedSettings(b plan.Block) (settings []nvSetting, problems []plan.Problem) {
	entries, err := b.Entries(nvSettings)
	if err != nil {
		problems = append(problems, plan.Problem{Attribute: nvSettings, Summary: "not an object", Detail: err.Error()})
	}
	for _, name := range sortedKeys(entries) {
		elements, err := mstconfig.Elements(name)
		if err != nil {
			problems = append(problems, plan.Problem{Attribute: nvSettings, Key: name, Summary: "not a parameter", Detail: err.Error()})
			continue
		}
		want, err := nvText(entries[name])
		if err != nil {
			problems = append(problems, plan.Problem{Attribute: nvSettings, Key: name, Summary: "not a value", Detail: err.Error()})
			continue
		}
		settings = append(settings, nvSetting{name, elements, want})
	}
	return settings, problems
}

// nvText is a value in the tool's words.
func nvText(v cty.Value) (string, error) {
	if !v.IsNull() && v.Type() == cty.Bool {
		return strconv.FormatBool(v.True()), nil
	}
	text, err := plan.ScalarText(v)
	if err != nil {
		return "", err
	}
	return text, mstconfig.CheckValue(text)
}

// Validate finds what is no parameter, and no value of one.
func (NICNVConfig) Validate(b plan.Block) []plan.Problem {
	settings, problems := wantedSettings(b)
	if len(settings) == 0 && len(problems) == 0 && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Attribute: nvSettings, Summary: "no parameter", Detail: "the check judges nothing: name the parameters that NICs must have"})
	}
	return problems
}

// Queries are the configurations of the NICs.
func (NICNVConfig) Queries(b plan.Block, inv node.Inventory) []node.Query {
	ports, _, _ := portsOf(b, inv)
	var asked []node.Query
	for _, p := range perFunction(ports) {
		asked = append(asked, node.NVConfig.Query(p.Address))
	}
	return asked
}

// perFunction is one port of each PCI function: its ports share one configuration.
func perFunction(ports []port) []port {
	var list []port
	for _, p := range ports {
		if !slices.ContainsFunc(list, func(q port) bool { return q.Address == p.Address }) {
			list = append(list, p)
		}
	}
	return list
}

// Assess judges each parameter of each NIC.
func (NICNVConfig) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	settings, _ := wantedSettings(b)
	ports, a := survey(b, facts)
	for _, p := range perFunction(ports) {
		v := node.NVConfig.Get(facts, p.Address)
		state, ok := v.Get()
		if !ok {
			f := plan.Unread(nvSettingID, "the firmware configuration of "+p.name(), v)
			f.Target, f.Feature = p.Address, nvSettings
			a.Findings = append(a.Findings, f)
			continue
		}
		for _, s := range settings {
			f := s.judge(p, state)
			f.ID, f.Target, f.Want, f.Source, f.Feature = nvSettingID, p.Address+" "+s.name, s.want, v.Source(), nvSettings
			a.Findings = append(a.Findings, f)
		}
	}
	return a
}

// judge holds a parameter of a NIC against what is wanted. What the firmware takes at its next reset is set already: where
// that is right and what it runs with is not, nothing but the reset is left to do.
func (s nvSetting) judge(p port, state node.NVConfigState) plan.Finding {
	values, lack := s.valuesOf(p, state)
	if lack != nil {
		return *lack
	}
	running, next := values.Running, values.NextBoot
	what := fmt.Sprintf("%s of %s", s.name, p.name())
	isNext, isRunning := mstconfig.Equal(next, s.want), mstconfig.Equal(running, s.want)
	f := plan.Finding{Found: running, Running: running, NextBoot: next}
	switch {
	case next == mstconfig.NotAvailable:
		return undetermined(what, "the tool shows no value for the next reset")
	case isNext && isRunning:
		f.Status, f.Summary = plan.OK, fmt.Sprintf("%s is %s", what, running)
	case isNext && (running == "" || running == mstconfig.NotAvailable):
		return undetermined(what, fmt.Sprintf("the firmware does not show what it runs with; after its next reset it is %s", next))
	case isNext:
		// Not pending-reboot: a hook that reboots until nothing is owed would do so for ever where
		// a reboot alone does not reset the firmware.
		f.Status, f.Effect = plan.Drift, plan.PowerCycle
		f.Summary = fmt.Sprintf("%s is %s, and %s after the next reset of the firmware", what, running, next)
		f.Fix = resetOf(p, state) + "; a reboot alone does not reset the firmware of every NIC"
	case isRunning:
		f.Status, f.Found = plan.Drift, next+" after the next reset"
		f.Summary = fmt.Sprintf("%s is %s, which is lost at the next reset of the firmware: %s comes then", what, running, next)
		f.Fix = s.setOn(p, state)
	default:
		f.Status, f.Found = plan.Drift, next
		f.Summary = fmt.Sprintf("%s is %s, wanted is %s", what, next, s.want)
		if running != next && running != "" {
			f.Found = fmt.Sprintf("%s, %s after the next reset", running, next)
			f.Summary = fmt.Sprintf("%s is %s, and %s after the next reset of the firmware; wanted is %s", what, running, next, s.want)
		}
		f.Fix = s.setOn(p, state) + ", then " + resetOf(p, state)
	}
	if values.ReadOnly && f.Status == plan.Drift {
		f.Why, f.Fix = "the parameter is read only", "leave it out of the profile, or use a NIC, or firmware, that has it as wanted"
	}
	return f
}

// valuesOf are the values of the parameter, or the finding that there are none. Elements that differ are listed.
func (s nvSetting) valuesOf(p port, state node.NVConfigState) (v mstconfig.Values, lack *plan.Finding) {
	var running, next []string
	for _, name := range s.elements {
		e, ok := state.Parameters[name]
		if !ok {
			return v, s.absent(p, name, state)
		}
		what := fmt.Sprintf("%s of %s", name, p.name())
		switch {
		case e.Unclear != "":
			f := undetermined(what, e.Unclear)
			return v, &f
		case mstconfig.IsArray(e.NextBoot):
			f := undetermined(what, "it is an array")
			_, indices, _ := strings.Cut(e.NextBoot, "[")
			f.Fix = fmt.Sprintf("name its elements: %q for all of them", name+"["+indices)
			return v, &f
		}
		v.ReadOnly = v.ReadOnly || e.ReadOnly
		running, next = append(running, e.Running), append(next, e.NextBoot)
	}
	v.Running, v.NextBoot = together(running), together(next)
	return v, nil
}

// together is the value that all have, or all of them.
func together(values []string) string {
	if len(slices.Compact(slices.Clone(values))) == 1 {
		return values[0]
	}
	return strings.Join(values, ", ")
}

// absent is the finding that a NIC does not have a parameter, or that this cannot be told.
func (s nvSetting) absent(p port, name string, state node.NVConfigState) *plan.Finding {
	what := fmt.Sprintf("%s of %s", name, p.name())
	array, element := mstconfig.ArrayName(name)
	whole := state.Parameters[array]
	switch {
	case element && whole.Unclear != "":
		f := undetermined(what, whole.Unclear)
		return &f
	case state.Missing != "":
		f := undetermined(what, "not all could be read: "+state.Missing)
		return &f
	}
	f := plan.Finding{Status: plan.Unsupported, Found: "absent", Summary: fmt.Sprintf("%s has no parameter %s that %s shows", p.name(), name, state.Tool)}
	f.Why = "the firmware is too old or too new for it, the tool does not know it, or ADVANCED_PCI_SETTINGS hides it"
	if element && whole.NextBoot != "" {
		f.Found, f.Why = whole.NextBoot, ""
	}
	return &f
}

// undetermined is the finding that something of a NIC is not known.
func undetermined(what, why string) plan.Finding {
	return plan.Finding{Status: plan.Undetermined, Summary: fmt.Sprintf("%s is unknown: %s", what, why)}
}

// setOn is the command that sets the parameter.
func (s nvSetting) setOn(p port, state node.NVConfigState) string {
	return fmt.Sprintf("%s -d %s set %s", state.Tool, p.Address, mstconfig.Assignment(s.name, s.want))
}

// resetOf is how the firmware of a NIC is reset.
func resetOf(p port, state node.NVConfigState) string {
	tool := "mstfwreset"
	if state.Tool == "mlxconfig" {
		tool = "mlxfwreset"
	}
	return fmt.Sprintf("reset the firmware, which takes the NIC's links down (%s -d %s reset), or cycle the node's power", tool, p.Address)
}
