package profiles

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	// Addresses of the selected NICs, ADDRESS or ADDRESS/PORT, sorted.
	Addresses []string
	// Protected are the NICs that were left out because busbar must not touch them.
	Protected []string
	// Reason says why the selection is unknown, empty when it is known. Needs is the
	// capability that would make it known, or empty.
	Reason, Needs string
}

// complete reports whether the selection is what the selector expects.
func (s Selection) complete() bool {
	switch {
	case s.Reason != "":
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
	if n := len(s.Protected); n > 0 {
		left = fmt.Sprintf(" (%d more protected: %s)", n, strings.Join(s.Protected, ", "))
	}
	switch {
	case s.Reason != "":
		return name + s.Reason
	case s.Want < 0:
		return name + "no NIC found" + left
	default:
		return fmt.Sprintf("%s%d of %d NICs found%s", name, s.Found, s.Want, left)
	}
}

func (s Selection) findings() []plan.Finding {
	if s.complete() {
		return nil
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
	if s.Reason != "" {
		f.ID, f.Status, f.Found, f.Needs = "selector.unknown", plan.Undetermined, "", s.Needs
		f.Fix = ""
	}
	return []plan.Finding{f}
}

// selector evaluates a selector, records the selection, and returns the NICs as a list;
// unknown where they are not what is expected.
func (e *evaluation) selector(s *selector, ctx *hcl.EvalContext) cty.Value {
	nics := cty.List(nodeTypes().nic)
	selection := Selection{Name: s.name, Origin: originOf(s.place), Want: -1}
	fail := func(u unknown) cty.Value {
		selection.Reason, selection.Needs, selection.Found, selection.Addresses = u.Reason, u.Needs, 0, nil
		e.out.Selections = append(e.out.Selections, selection)
		return unknownValue(nics, unknown{selection.summary(), u.Needs})
	}
	if s.nics == nil || s.nics.invalid || s.expect != nil && s.expect.invalid {
		return fail(noNode)
	}
	want, wantKnown := e.expected(s, ctx, &selection)
	v, ok := evaluate(e.report, "selector."+s.name, s.nics.expr, ctx)
	switch {
	case !ok:
		return fail(noNode)
	case !v.IsKnown():
		return fail(whyUnknown(v))
	case !wantKnown:
		return fail(want)
	}
	list, marks := v.Unmark()
	if list.IsNull() || !couldBeNICs(list.Type()) {
		e.report.errorf(s.nics.expr.Range(), "selector."+s.name, "Not a list of NICs", "nics has to be a list whose elements are all from node.nics.")
		return fail(noNode)
	}
	selected, unsure := selection.pick(list, marks)
	if unsure != nil {
		return fail(*unsure)
	}
	e.out.Selections = append(e.out.Selections, selection)
	if !selection.complete() {
		return unknownValue(nics, unknown{Reason: selection.summary()})
	}
	if len(selected) == 0 {
		return cty.ListValEmpty(nics.ElementType())
	}
	return cty.ListVal(selected)
}

// expected evaluates expect into Want; where it is unknown, why.
func (e *evaluation) expected(s *selector, ctx *hcl.EvalContext, into *Selection) (why unknown, known bool) {
	if s.expect == nil {
		return unknown{}, true
	}
	address := "selector." + s.name
	v, ok := evaluate(e.report, address, s.expect.expr, ctx)
	if !ok {
		return noNode, false
	}
	v, wrong := conform(v, cty.Number)
	for _, m := range wrong {
		e.report.errorf(s.expect.expr.Range(), address, "Wrong type", "%s.", m.under("expect"))
	}
	if len(wrong) > 0 {
		return noNode, false
	}
	if !v.IsKnown() {
		return whyUnknown(v), false
	}
	v, _ = v.Unmark()
	n := v.AsBigFloat()
	if count, accuracy := n.Int64(); accuracy == 0 && count >= 0 && count <= 1<<20 {
		into.Want = int(count)
		return unknown{}, true
	}
	e.report.errorf(s.expect.expr.Range(), address, "Value out of range", "expect is %s; it is the number of NICs.", n.Text('g', 10))
	return noNode, false
}

// pick takes the NICs of list that are not protected, each once, by address and port.
// unsure says why that cannot be told.
func (s *Selection) pick(list cty.Value, marks cty.ValueMarks) (selected []cty.Value, unsure *unknown) {
	type port struct {
		address string
		number  int
		value   cty.Value
	}
	var ports []port
	for it := list.ElementIterator(); it.Next(); {
		_, nic := it.Element()
		nic, own := nic.Unmark()
		if !nic.IsKnown() || nic.IsNull() {
			u := whyUnknown(cty.UnknownVal(cty.Bool).WithMarks(marks, own))
			return nil, &u
		}
		protected := nic.GetAttr("protected")
		if !protected.IsKnown() {
			u := whyUnknown(protected)
			u.Reason = fmt.Sprintf("whether NIC %s is protected is unknown: %s", nicName(nic), u.Reason)
			return nil, &u
		}
		if protected.True() {
			s.Protected = append(s.Protected, nicName(nic))
			continue
		}
		number, _ := nic.GetAttr("port").AsBigFloat().Int64()
		ports = append(ports, port{nic.GetAttr("address").AsString(), int(number), nic})
	}
	slices.SortFunc(ports, func(a, b port) int {
		return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.number, b.number))
	})
	ports = slices.CompactFunc(ports, func(a, b port) bool { return a.address == b.address && a.number == b.number })
	for _, p := range ports {
		selected = append(selected, p.value)
		s.Addresses = append(s.Addresses, nicName(p.value))
	}
	slices.Sort(s.Protected)
	s.Protected = slices.Compact(s.Protected)
	s.Found = len(selected)
	return selected, nil
}

// nicName is a NIC as node.NIC.String has it.
func nicName(nic cty.Value) string {
	name := nic.GetAttr("address").AsString()
	if port, _ := nic.GetAttr("port").AsBigFloat().Int64(); port > 1 {
		name += "/" + strconv.FormatInt(port, 10)
	}
	return name
}
