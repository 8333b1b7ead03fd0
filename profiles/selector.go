package profiles

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// Selection is what a selector found on a node.
type Selection struct {
	// Name of the selector: rails for selector.rails.
	Name   string
	Origin plan.Origin
	// Want is how many NICs it expects, -1 when it says nothing; then one at least.
	Want int
	// Found is how many it selects, protected NICs not counted; 0 when Reason is set.
	Found int
	// Addresses of the selected NICs, ADDRESS or ADDRESS/PORT, in the order of the selection.
	Addresses []string
	// Protected are the NICs that were left out because busbar must not touch them, sorted.
	Protected []string
	// Missing are the addresses of include, and its ports, of which no NIC was selected, in its order, each with the reason.
	Missing []string
	// Idle are the addresses and ports of exclude that are no NIC of the node, in its order.
	Idle []string
	// Reason says why the selection is unknown, empty when it is known. Needs is the
	// capability that would make it known, or empty.
	Reason, Needs string
	// Unsure says of which ports it is unknown whether they are protected, and why; they are not selected. It is empty when there are none.
	Unsure string
}

// complete reports whether the selection is what the selector expects.
func (s Selection) complete() bool {
	switch {
	case s.Reason != "", len(s.Missing) > 0:
		return false
	case s.Want < 0:
		return s.Found > 0
	default:
		return s.Found == s.Want
	}
}

// summary is the reason of everything that is computed from the selection, when it is
// not complete.
func (s Selection) summary() string {
	name := "selector " + s.Name + ": "
	left := ""
	if s.Unsure != "" {
		left = "; " + s.Unsure
	}
	if n := len(s.Protected); n > 0 {
		left = fmt.Sprintf(" (%d more protected: %s)", n, strings.Join(s.Protected, ", ")) + left
	}
	switch {
	case s.Reason != "":
		return name + s.Reason
	case len(s.Missing) > 0:
		return name + "include names " + strings.Join(s.Missing, ", and ")
	case s.Want < 0:
		return name + "no NIC found" + left
	default:
		return fmt.Sprintf("%s%d of %d NICs found%s", name, s.Found, s.Want, left)
	}
}

// unsureFix is what to do about Unsure.
const unsureFix = "look why its driver shows no network device: it may be in a network namespace (ip netns)"

func (s Selection) findings() []plan.Finding {
	if s.complete() && s.Unsure == "" {
		return s.idle()
	}
	want := "1 or more NICs"
	if s.Want >= 0 {
		want = fmt.Sprintf("%d NICs", s.Want)
	}
	f := plan.Finding{
		ID: "selector.short", Address: "selector." + s.Name, Status: plan.Drift, Severity: plan.Error,
		Summary: s.summary(), Want: want, Found: fmt.Sprintf("%d NICs", s.Found),
		Source: node.Source{Path: s.Origin.File, Line: s.Origin.Line},
		Why:    "nothing is computed from a selection that is not the expected one: settings for some of the rails are worse than none",
		Fix:    "find out why NICs are missing, or expect another number in the profile",
	}
	switch {
	case s.Reason != "":
		f.ID, f.Status, f.Found, f.Needs = "selector.unknown", plan.Undetermined, "", s.Needs
		f.Fix = ""
		if s.Unsure != "" {
			f.Fix = unsureFix
		}
	case s.complete():
		f.ID, f.Status, f.Found = "selector.unknown", plan.Undetermined, ""
		f.Summary = "selector " + s.Name + ": " + s.Unsure
		f.Why = "it is left out, and may be one of those that are meant"
		f.Fix = unsureFix
	case len(s.Missing) > 0:
		f.ID, f.Want, f.Found = "selector.include", "", ""
		f.Fix = "look why it is not among the NICs of the node, or take it out of include"
		if !slices.ContainsFunc(s.Missing, func(m string) bool { return !strings.HasSuffix(m, isProtected) }) {
			f.Fix = "take it out of include: a NIC that the node is reached by is never selected; or move what protects it to another NIC"
		}
	case s.Want >= 0 && s.Found > s.Want:
		f.ID = "selector.surplus"
		f.Why = "a NIC that is not meant would be set up like those that are, and which one it is cannot be told"
		f.Fix = "exclude the NICs that are not meant, or expect another number in the profile: " + strings.Join(s.Addresses, ", ")
	}
	return append(s.idle(), f)
}

// idle notes what exclude names in vain: an address with a slip in it excludes nothing.
func (s Selection) idle() []plan.Finding {
	if len(s.Idle) == 0 {
		return nil
	}
	names := strings.Join(s.Idle, ", ")
	return []plan.Finding{{
		ID: "selector.exclude", Address: "selector." + s.Name, Status: plan.Drift, Severity: plan.Info, Found: names,
		Summary: fmt.Sprintf("selector %s: exclude names what is no NIC of this node: %s", s.Name, names),
		Source:  node.Source{Path: s.Origin.File, Line: s.Origin.Line}, Fix: "look for a slip in the address, or take it out",
	}}
}

// isProtected is why a NIC is not selected that include names.
const isProtected = "which is protected"

// selector evaluates a selector, records the selection, and returns the NICs as a list;
// unknown where they are not what is expected.
func (e *evaluation) selector(s *selector, ctx *hcl.EvalContext) cty.Value {
	nics := cty.List(nodeTypes().nic)
	selection := Selection{Name: s.name, Origin: originOf(s.place)}
	fail := func(u unknown) cty.Value {
		selection.Reason, selection.Needs, selection.Found, selection.Addresses = u.Reason, u.Needs, 0, nil
		e.out.Selections = append(e.out.Selections, selection)
		return unknownValue(nics, unknown{selection.summary(), u.Needs})
	}
	want, wantWhy := e.expected(s, ctx)
	include, includeWhy := e.names(s, s.include, ctx)
	exclude, excludeWhy := e.names(s, s.exclude, ctx)
	selection.Want = want
	if s.nics == nil || e.report.invalid[s.nics] {
		return fail(noNode)
	}
	v, ok := evaluate(e.report, "selector."+s.name, s.nics.metered, ctx)
	switch {
	case !ok:
		return fail(noNode)
	case !v.IsKnown():
		return fail(whyUnknown(v))
	case wantWhy != nil:
		return fail(*wantWhy)
	case includeWhy != nil:
		return fail(*includeWhy)
	case excludeWhy != nil:
		return fail(*excludeWhy)
	}
	list, marks := v.Unmark()
	if list.IsNull() || !couldBeNICs(list.Type()) {
		e.report.errorf(s.nics.expr.Range(), "selector."+s.name, "Not a list of NICs", notNICs)
		return fail(noNode)
	}
	ports, unsure := portsOf(list, marks)
	var all []nicPort
	if unsure == nil && len(include) > 0 {
		node, marks := e.node.GetAttr("nics").Unmark()
		all, unsure = portsOf(node, marks)
		ports = append(ports, slices.DeleteFunc(slices.Clone(all), func(p nicPort) bool { return !p.isOneOf(include) })...)
	}
	if unsure != nil {
		return fail(*unsure)
	}
	ports = slices.DeleteFunc(ports, func(p nicPort) bool { return p.isOneOf(exclude) })
	selected, unsure := selection.pick(ports)
	if unsure != nil {
		if e.of != nil && e.of.protectedKnown {
			selection.Unsure = unsure.Reason
		}
		return fail(*unsure)
	}
	if rails := e.node.GetAttr("rails"); e.of != nil && (v.RawEquals(rails) || len(ports) > 0 && among(ports, rails)) {
		selection.addProtectedRails(e.node.GetAttr("nics"), exclude, ports, v.RawEquals(rails))
	}
	selection.Missing = missing(include, exclude, all, selection)
	selection.Idle = e.idle(exclude)
	e.out.Selections = append(e.out.Selections, selection)
	if !selection.complete() {
		return unknownValue(nics, unknown{Reason: selection.summary()})
	}
	if len(selected) == 0 {
		return cty.ListValEmpty(nics.ElementType())
	}
	return cty.ListVal(selected)
}

// among reports whether all ports are of a list.
func among(ports []nicPort, list cty.Value) bool {
	list, marks := list.Unmark()
	all, unsure := portsOf(list, marks)
	return unsure == nil && !slices.ContainsFunc(ports, func(p nicPort) bool {
		return !slices.ContainsFunc(all, func(o nicPort) bool { return o.address == p.address && o.number == p.number })
	})
}

// missing says of which addresses and ports of include no NIC was selected, and why. Which NICs of a PCI id there are
// is the node's affair.
func missing(include, exclude []string, all []nicPort, s Selection) []string {
	var list []string
	for _, name := range include {
		if !strings.Contains(name, ".") {
			continue
		}
		named := slices.DeleteFunc(slices.Clone(all), func(p nicPort) bool { return !p.isOneOf([]string{name}) })
		why := "which is no NIC of this node"
		for _, p := range named {
			switch {
			case p.isOneOf(exclude), slices.Contains(s.Addresses, nicName(p.value)):
				why = ""
			case why != "":
				why = isProtected
			}
		}
		if why != "" {
			list = append(list, name+", "+why)
		}
	}
	return list
}

// idle are the addresses and ports among names that are no NIC of the node.
func (e *evaluation) idle(names []string) []string {
	nics, marks := e.node.GetAttr("nics").Unmark()
	all, unsure := portsOf(nics, marks)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return unsure != nil || !strings.Contains(name, ".") || slices.ContainsFunc(all, func(p nicPort) bool { return p.isOneOf([]string{name}) })
	})
}

// expected evaluates expect, -1 when the selector has none; where it is unknown, why.
func (e *evaluation) expected(s *selector, ctx *hcl.EvalContext) (want int, why *unknown) {
	if s.expect == nil {
		return -1, nil
	}
	v, why := e.argument(s, s.expect, cty.Number, ctx)
	if why != nil {
		return -1, why
	}
	n := v.AsBigFloat()
	if count, accuracy := n.Int64(); accuracy == 0 && count >= 1 && count <= 1<<20 {
		return int(count), nil
	}
	e.report.errorf(s.expect.expr.Range(), "selector."+s.name, "Value out of range", "expect is %s; it is the number of NICs, at least 1.", n.Text('g', 10))
	return -1, &noNode
}

// argument evaluates an argument of a selector to a type; where it is unknown, why.
func (e *evaluation) argument(s *selector, a *argument, t cty.Type, ctx *hcl.EvalContext) (v cty.Value, why *unknown) {
	address := "selector." + s.name
	if e.report.invalid[a] {
		return v, &noNode
	}
	v, ok := evaluate(e.report, address, a.metered, ctx)
	if !ok {
		return v, &noNode
	}
	v, wrong := conform(v, t)
	for _, m := range wrong {
		e.report.errorf(a.expr.Range(), address, "Wrong type", "%s.", m.under(a.name))
	}
	if len(wrong) > 0 {
		return v, &noNode
	}
	if !v.IsWhollyKnown() {
		u := whyUnknown(v)
		return v, &u
	}
	v, _ = v.UnmarkDeep()
	return v, nil
}

// names evaluates include or exclude; where it is unknown, why.
func (e *evaluation) names(s *selector, a *argument, ctx *hcl.EvalContext) (names []string, why *unknown) {
	if a == nil {
		return nil, nil
	}
	v, why := e.argument(s, a, cty.List(cty.String), ctx)
	if why != nil {
		return nil, why
	}
	for _, name := range v.AsValueSlice() {
		if !nicPattern().MatchString(name.AsString()) {
			e.report.errorf(a.expr.Range(), "selector."+s.name, "No name of a NIC", "%s lists PCI addresses, like 0000:1b:00.0 or 0000:1b:00.0/2 for the second port, and PCI ids, like 15b3:1021, in lower case.", a.name)
			return nil, &noNode
		}
		names = append(names, name.AsString())
	}
	return names, nil
}

// nicPattern is DDDD:BB:DD.F, that with /PORT, or vvvv:dddd.
var nicPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](/[1-9][0-9]*)?|[0-9a-f]{4}:[0-9a-f]{4})$`)
})

// nicPort is a NIC as the language has it.
type nicPort struct {
	address string
	number  int64
	value   cty.Value
}

func (p nicPort) isOneOf(names []string) bool {
	return isNamed(names, p.address, p.number, p.value.GetAttr("pci_id").AsString())
}

// isNamed reports whether names has a port, all ports of its function, or its PCI id.
func isNamed(names []string, address string, port int64, id string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == address || name == fmt.Sprintf("%s/%d", address, port) || name == id
	})
}

// portsOf takes a list of NICs apart, in its order, and a set in that of addresses and ports.
// unsure says why it cannot be told which they are.
func portsOf(list cty.Value, marks cty.ValueMarks) (ports []nicPort, unsure *unknown) {
	if !list.IsKnown() {
		u := whyUnknown(list.WithMarks(marks))
		return nil, &u
	}
	for it := list.ElementIterator(); it.Next(); {
		_, nic := it.Element()
		nic, own := nic.Unmark()
		if !nic.IsKnown() || nic.IsNull() {
			u := whyUnknown(cty.UnknownVal(cty.Bool).WithMarks(marks, own))
			return nil, &u
		}
		number, _ := nic.GetAttr("port").AsBigFloat().Int64()
		ports = append(ports, nicPort{nic.GetAttr("address").AsString(), number, nic})
	}
	if list.Type().IsSetType() {
		slices.SortFunc(ports, func(a, b nicPort) int {
			return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.number, b.number))
		})
	}
	return ports, nil
}

// pick takes the ports that are known not to be protected, each once. unsure says why it cannot be told which they are, where those of which
// that is unknown decide it.
func (s *Selection) pick(ports []nicPort) (selected []cty.Value, unsure *unknown) {
	open := map[string]bool{}
	for _, p := range ports {
		protected, name := p.value.GetAttr("protected"), nicName(p.value)
		switch {
		case !protected.IsKnown():
			if u := whyUnknown(protected); unsure == nil {
				u.Reason = fmt.Sprintf("whether NIC %s is protected is unknown: %s", name, u.Reason)
				unsure = &u
			}
			open[name] = true
		case protected.True():
			s.Protected = append(s.Protected, name)
		case !slices.Contains(s.Addresses, name):
			selected = append(selected, p.value)
			s.Addresses = append(s.Addresses, name)
		}
	}
	slices.Sort(s.Protected)
	s.Protected = slices.Compact(s.Protected)
	s.Found = len(selected)
	switch {
	case unsure == nil:
		return selected, nil
	case s.Want < 0 && s.Found > 0, s.Found+len(open) < s.Want: // without an answer it is known what to select, or that it is too few
		s.Unsure = unsure.Reason
		return selected, nil
	default:
		return nil, unsure
	}
}

// addProtectedRails adds the NICs that are protected and would else be among node.rails: all, or those of the models of ports.
func (s *Selection) addProtectedRails(nics cty.Value, exclude []string, ports []nicPort, all bool) {
	known, _ := portsOf(nics.Unmark()) // where rails are known
	for _, n := range known {
		sameModel := func(p nicPort) bool { return p.value.GetAttr("pci_id").RawEquals(n.value.GetAttr("pci_id")) }
		meant := all || slices.ContainsFunc(ports, sameModel)
		if meant && isTrue(n.value.GetAttr("protected")) && isTrue(n.value.GetAttr("near_gpu")) && !n.isOneOf(exclude) {
			s.Protected = append(s.Protected, nicName(n.value))
		}
	}
	slices.Sort(s.Protected)
	s.Protected = slices.Compact(s.Protected)
}

// isTrue is false where v is unknown.
func isTrue(v cty.Value) bool {
	v, _ = v.Unmark()
	return v.IsKnown() && v.True()
}

// nicName is a NIC as node.NIC.String has it.
func nicName(nic cty.Value) string {
	name := nic.GetAttr("address").AsString()
	if port, _ := nic.GetAttr("port").AsBigFloat().Int64(); port > 1 {
		name += "/" + strconv.FormatInt(port, 10)
	}
	return name
}
