package profiles

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// Evaluation is a profile evaluated over an inventory.
type Evaluation struct {
	// Blocks that apply, or may apply (Undecided), by address. A block whose when is
	// false is not among them.
	Blocks []plan.Block
	// Selections are what the selectors found, by name.
	Selections []Selection
	// Findings are about the selectors that did not find what they should.
	Findings []plan.Finding
}

// Evaluate computes the profile's blocks for a node. What hangs on something unknown
// is withheld with the reason. Errors are values of wrong types, or out of bounds, that
// only this node has; the blocks are then not to be used.
func (p *Profile) Evaluate(inv node.Inventory) (Evaluation, Diagnostics) {
	return p.EvaluateNode(NodeOf(inv))
}

// EvaluateNode is Evaluate for a node as profiles see it.
func (p *Profile) EvaluateNode(n Node) (Evaluation, Diagnostics) {
	w := p.whole()
	if w.diags.HasErrors() {
		return Evaluation{}, w.diags
	}
	r := newReport()
	r.files = p.sources
	out := newEvaluation(w, r, &n).run()
	return out, r.diagnostics()
}

// StaticBlocks are the blocks with everything unknown that depends on the node, for
// plan.Planner.Conflicts.
func (p *Profile) StaticBlocks() []plan.Block { return slices.Clone(p.whole().static.Blocks) }

// evaluation is one evaluation of a profile.
type evaluation struct {
	whole  *whole
	report *report
	// of is nil while the profile is checked without a node.
	of       *Node
	budget   cty.Value
	node     cty.Value
	vars     cty.Value
	locals   map[string]cty.Value
	selected map[string]cty.Value
	out      Evaluation
}

func newEvaluation(w *whole, r *report, of *Node) *evaluation {
	e := &evaluation{
		whole: w, report: r, of: of, budget: newBudget(),
		node: unknownValue(NodeSchema(), noNode), vars: cty.ObjectVal(w.values),
		locals: map[string]cty.Value{}, selected: map[string]cty.Value{},
	}
	if of != nil {
		e.node = of.value
	}
	return e
}

func newBudget() cty.Value { return cty.CapsuleVal(budgetType(), &budget{left: maxWork}) }

// newContext is a context of nothing but variables.
func newContext(budget cty.Value, variables map[string]cty.Value) *hcl.EvalContext {
	all := map[string]cty.Value{budgetName: budget}
	maps.Copy(all, variables)
	return &hcl.EvalContext{Variables: all, Functions: functions()}
}

// context has node, var, and the given locals and selectors.
func (e *evaluation) context(locals, selectors map[string]cty.Value) *hcl.EvalContext {
	return &hcl.EvalContext{Functions: functions(), Variables: map[string]cty.Value{
		budgetName: e.budget, "node": e.node, "var": e.vars,
		"local": cty.ObjectVal(locals), "selector": cty.ObjectVal(selectors),
	}}
}

// evaluate computes an expression; false says that errors were reported.
func evaluate(r *report, address string, expr hclsyntax.Expression, ctx *hcl.EvalContext) (v cty.Value, ok bool) {
	defer func() {
		// A profile must not take busbar down at boot, whatever HCL makes of it.
		if p := recover(); p != nil {
			r.errorf(expr.Range(), address, "Cannot be evaluated", "Evaluation failed: %v.", p)
			v, ok = cty.DynamicVal, false
		}
	}()
	v, diags := expr.Value(ctx)
	r.hcl(diags, address)
	if diags.HasErrors() {
		return cty.DynamicVal, false
	}
	return explain(v, expr, ctx), true
}

// explain gives an unknown that lost its reasons on the way the reasons of what the
// expression refers to.
func explain(v cty.Value, expr hclsyntax.Expression, ctx *hcl.EvalContext) cty.Value {
	if v.IsWhollyKnown() || len(unknowns(v)) > 0 {
		return v
	}
	for _, t := range expr.Variables() {
		if referred, diags := t.TraverseAbs(ctx); !diags.HasErrors() {
			for _, u := range unknowns(referred) {
				v = v.Mark(u)
			}
		}
	}
	return v
}

// unknowns are the reasons of the unknown parts of v, sorted. A part without a reason of
// its own has those of what it is in.
func unknowns(v cty.Value) []unknown {
	found := map[unknown]bool{}
	collectUnknowns(v, nil, found)
	return slices.SortedFunc(maps.Keys(found), func(a, b unknown) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Needs, b.Needs))
	})
}

func collectUnknowns(v cty.Value, outer cty.ValueMarks, found map[unknown]bool) {
	v, marks := v.Unmark()
	if len(marks) == 0 {
		marks = outer
	}
	if !v.IsKnown() {
		for mark := range marks {
			found[mark.(unknown)] = true
		}
		return
	}
	if v.IsNull() || !v.CanIterateElements() {
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		collectUnknowns(element, marks, found)
	}
}

// whyUnknown joins the reasons for which v is not wholly known. There is something that
// would make it known only if it would do so for every reason.
func whyUnknown(v cty.Value) unknown {
	all := unknowns(v)
	if len(all) == 0 {
		return unknown{Reason: "it cannot be computed"}
	}
	var reasons []string
	needs := all[0].Needs
	for _, u := range all {
		reasons = append(reasons, u.Reason)
		if u.Needs != needs {
			needs = ""
		}
	}
	return unknown{strings.Join(slices.Compact(reasons), "; "), needs}
}

func (e *evaluation) run() Evaluation {
	if e.of != nil {
		for _, v := range e.whole.unset {
			e.report.errorf(v.place, "var."+v.name, "No value", "Set it with --var %s=VALUE, or in variables of a profile that extends this one.", v.name)
		}
	}
	for _, b := range e.whole.order {
		locals, selectors := map[string]cty.Value{}, map[string]cty.Value{}
		for _, name := range b.needs {
			switch kind, name, _ := strings.Cut(name, "."); kind {
			case "local":
				locals[name] = e.locals[name]
			case "selector":
				selectors[name] = e.selected[name]
			}
		}
		ctx := e.context(locals, selectors)
		if b.selector != nil {
			e.selected[b.name] = e.selector(b.selector, ctx)
			continue
		}
		e.locals[b.name] = cty.DynamicVal
		if !e.report.invalid[b.local] {
			e.locals[b.name], _ = evaluate(e.report, "local."+b.name, b.local.metered, ctx)
		}
	}
	slices.SortFunc(e.out.Selections, func(a, b Selection) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range e.out.Selections {
		e.out.Findings = append(e.out.Findings, s.findings()...)
	}
	ctx := e.context(e.locals, e.selected)
	all := instanceTable{of: map[string][]string{}, has: map[string]bool{}}
	ends := map[*block]int{} // of a block's instances in out.Blocks
	for _, b := range e.whole.blocks {
		for _, i := range e.instances(b, ctx) {
			if len(all.has) == maxDeclared {
				e.report.errorf(b.place, b.address, "Too many blocks", "With all that for_each makes there are more than %d blocks.", maxDeclared)
				return e.out
			}
			all.has[i.address] = true
			all.of[b.address] = append(all.of[b.address], i.address)
			if out, applies := e.block(b, i); applies {
				e.out.Blocks = append(e.out.Blocks, out)
			}
		}
		ends[b] = len(e.out.Blocks)
	}
	begin := 0
	for _, b := range e.whole.blocks {
		if begin < ends[b] {
			dependencies := e.dependencies(b, all)
			for i := range e.out.Blocks[begin:ends[b]] {
				e.out.Blocks[begin+i].DependsOn = slices.Clone(dependencies)
			}
		}
		begin = ends[b]
	}
	if e.of == nil {
		e.checkMatch()
	}
	slices.SortFunc(e.out.Blocks, func(a, b plan.Block) int { return cmp.Compare(a.Address, b.Address) })
	return e.out
}

// instanceTable has the addresses of all instances, and those of each block.
type instanceTable struct {
	of  map[string][]string
	has map[string]bool
}

// dependencies turns depends_on of a block into the addresses of instances, sorted.
func (e *evaluation) dependencies(b *block, all instanceTable) []string {
	var out []string
	whole := map[string]bool{}
	for _, ref := range b.dependsOn {
		if !ref.hasKey {
			if !whole[ref.address] {
				whole[ref.address] = true
				out = append(out, all.of[ref.address]...)
			}
			continue
		}
		address := instanceAddress(ref.address, ref.key)
		decided := !all.has[ref.address]
		if decided && !all.has[address] {
			e.report.errorf(ref.place, b.address, "No such block", "%s has no instance %q.%s", ref.address, ref.key,
				e.report.suggest(address, slices.Values(all.of[ref.address])))
			continue
		}
		out = append(out, address)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkMatch finds a match that is not a bool.
func (e *evaluation) checkMatch() {
	m := e.whole.match
	if m == nil || e.report.invalid[m] {
		return
	}
	v, ok := evaluate(e.report, "profile", m.metered, newContext(e.budget, map[string]cty.Value{"node": e.node}))
	if !ok {
		return
	}
	_, wrong := conform(v, cty.Bool)
	for _, w := range wrong {
		e.report.errorf(m.expr.Range(), "profile", "Wrong type", "%s.", w.under("match"))
	}
}

// instance is one of the blocks that for_each makes of one.
type instance struct {
	address string
	ctx     *hcl.EvalContext
	// undecided is why it is not known what for_each makes.
	undecided *unknown
}

func instanceAddress(address, key string) string { return fmt.Sprintf("%s[%q]", address, key) }

func (e *evaluation) instances(b *block, ctx *hcl.EvalContext) []instance {
	layers := b.arguments["for_each"]
	if layers == nil {
		return []instance{{address: b.address, ctx: ctx}}
	}
	a := layers[0]
	undecided := func(u unknown, element cty.Type) []instance {
		return []instance{{b.address, withEach(ctx, unknownValue(cty.String, u), unknownValue(element, u)), &u}}
	}
	if e.report.invalid[a] {
		return undecided(noNode, cty.DynamicPseudoType)
	}
	v, ok := evaluate(e.report, b.address, a.metered, ctx)
	if !ok {
		return undecided(noNode, cty.DynamicPseudoType)
	}
	t := v.Type()
	switch {
	case t == cty.DynamicPseudoType && !v.IsKnown():
		return undecided(whyUnknown(v), cty.DynamicPseudoType)
	case v.IsNull() || !t.IsMapType() && !t.IsObjectType() && !(t.IsSetType() && (t.ElementType() == cty.String || t.ElementType() == cty.DynamicPseudoType)):
		hint := ""
		if t.IsListType() || t.IsTupleType() {
			hint = " Write for_each = toset(...) for a list of strings."
		}
		e.report.errorf(a.expr.Range(), b.address, "Wrong type", "for_each is %s; it is a map, an object or a set of strings.%s", describe(t), hint)
		return undecided(noNode, cty.DynamicPseudoType)
	case !v.IsKnown(), t.IsSetType() && !v.IsWhollyKnown():
		return undecided(whyUnknown(v), elementType(t))
	}
	v, marks := v.Unmark()
	if n := v.LengthInt(); n > maxInstances {
		tooManyInstances(e.report, a, b.address, n)
		return undecided(noNode, elementType(t))
	}
	var out []instance
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if t.IsSetType() {
			key = element
		}
		if key.IsNull() {
			e.report.errorf(a.expr.Range(), b.address, "Wrong type", "for_each has an element that is null.")
			continue
		}
		if !element.IsWhollyKnown() {
			element = element.WithMarks(marks)
		}
		out = append(out, instance{address: instanceAddress(b.address, key.AsString()), ctx: withEach(ctx, key, element)})
	}
	return out
}

func tooManyInstances(r *report, forEach *argument, address string, n int) {
	r.errorf(forEach.expr.Range(), address, "Too many blocks", "for_each has %d elements; it can have %d.", n, maxInstances)
}

func withEach(ctx *hcl.EvalContext, key, value cty.Value) *hcl.EvalContext {
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
	return child
}
