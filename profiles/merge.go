package profiles

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// merger puts the files of a profile together, parents first.
type merger struct {
	report    *report
	whole     *whole
	variables map[string]*variable
	blocks    map[string]*block
	dropped   map[string]bool
	budget    cty.Value // of all variables
}

func newMerger(r *report, w *whole) *merger {
	w.locals, w.selectors, w.values = map[string]*argument{}, map[string]*selector{}, map[string]cty.Value{}
	return &merger{report: r, whole: w, variables: map[string]*variable{}, blocks: map[string]*block{}, dropped: map[string]bool{}, budget: newBudget()}
}

// add merges a file over what is there.
func (m *merger) add(doc *document) {
	for name, v := range doc.variables {
		if inherited := m.variables[name]; inherited != nil {
			v = v.over(inherited)
		}
		m.variables[name] = v
	}
	maps.Copy(m.whole.locals, doc.locals)
	for name, s := range doc.selectors {
		m.whole.selectors[name] = m.selector(s, m.whole.selectors[name])
	}
	for _, b := range doc.blocks {
		m.block(b)
	}
}

// over is v with what it leaves out taken from inherited.
func (v *variable) over(inherited *variable) *variable {
	out := *v
	if out.typ == cty.NilType {
		out.typ, out.defaults = inherited.typ, inherited.defaults
	}
	if out.fallback == nil {
		out.fallback = inherited.fallback
	}
	if out.conditions == nil {
		out.conditions = inherited.conditions
	}
	return &out
}

func (m *merger) selector(s, inherited *selector) *selector {
	if inherited == nil {
		inherited = &selector{place: s.place}
	}
	address := "selector." + s.name
	return &selector{
		name: s.name, place: inherited.place,
		nics:    m.argument(address, s.nics, inherited.nics),
		include: m.argument(address, s.include, inherited.include),
		exclude: m.argument(address, s.exclude, inherited.exclude),
		expect:  m.argument(address, s.expect, inherited.expect),
	}
}

// argument is the child's, the inherited one where the child has none, and nothing
// where the child has null.
func (m *merger) argument(address string, child, inherited *argument) *argument {
	switch {
	case child == nil:
		return inherited
	case !isNull(child.expr):
		return child
	case inherited == nil:
		m.nullLeft(address, child, maps.Keys(map[string]bool{}))
	}
	return nil
}

func (m *merger) nullLeft(address string, a *argument, inherited iter.Seq[string]) {
	m.report.errorf(a.expr.Range(), address, "Null left after merging",
		"null takes away what a parent set, and no parent sets %s.%s", a.name, m.report.suggest(a.name, inherited))
}

func (m *merger) block(child *block) {
	b := m.blocks[child.address]
	if child.drop != nil {
		if b == nil {
			m.report.errorf(child.place, child.address, "Nothing to drop",
				"No parent has %s.%s", child.address, m.report.suggest(child.address, maps.Keys(m.blocks)))
			return
		}
		delete(m.blocks, child.address)
		m.dropped[child.address] = true
		return
	}
	if b == nil {
		b = &block{typ: child.typ, spec: child.spec, address: child.address, label: child.label, place: child.place, arguments: map[string][]*argument{}, nulls: map[string]bool{}}
		m.blocks[child.address] = b
		delete(m.dropped, child.address)
	}
	inherited := maps.Clone(b.arguments)
	for _, name := range sortedKeys(child.arguments) {
		layers := child.arguments[name]
		a := layers[0]
		if isNull(a.expr) {
			if b.arguments[name] == nil {
				m.nullLeft(child.address, a, maps.Keys(inherited))
				b.nulls[name] = true
			}
			delete(b.arguments, name)
			if name == "depends_on" {
				b.dependsOn = nil
			}
			continue
		}
		if b.keyed(name) {
			b.arguments[name] = append(b.arguments[name], a)
		} else {
			b.arguments[name] = layers
		}
		if name == "depends_on" {
			b.dependsOn = child.dependsOn
		}
	}
	if child.waive != nil {
		b.waive = child.waive
	}
}

// finish checks what only the whole can tell.
func (m *merger) finish() {
	for _, address := range sortedKeys(m.blocks) {
		m.whole.blocks = append(m.whole.blocks, m.blocks[address])
	}
	for _, name := range sortedKeys(m.whole.selectors) {
		if s := m.whole.selectors[name]; s.nics == nil {
			m.report.errorf(s.place, "selector."+name, "Missing argument", "A selector has nics, a list of NICs of node.nics or node.rails.")
		}
	}
	for _, b := range m.whole.blocks {
		for _, a := range b.spec.Attributes {
			if a.Required && b.arguments[a.Name] == nil && !b.nulls[a.Name] {
				m.report.errorf(b.place, b.address, "Missing argument", "%s needs %s: %s", b.address, a.Name, lowerFirst(a.Doc))
			}
		}
		m.dependencies(b)
	}
	m.dependencyCycles()
}

func lowerFirst(s string) string {
	if s == "" || len(s) > 1 && s[1] >= 'A' && s[1] <= 'Z' {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func (m *merger) dependencies(b *block) {
	b.dependsOn = slices.DeleteFunc(slices.Clone(b.dependsOn), func(ref reference) bool {
		switch target := m.blocks[ref.address]; {
		case m.dropped[ref.address]:
			return true
		case target == nil:
			m.report.errorf(ref.place, b.address, "No such block", "The profile has no %s.%s", ref.address, m.report.suggest(ref.address, maps.Keys(m.blocks)))
			return true
		case ref.hasKey && target.arguments["for_each"] == nil:
			m.report.errorf(ref.place, b.address, "No such block", "%s has no for_each, so there is no %s[%q].", ref.address, ref.address, ref.key)
			return true
		}
		return false
	})
}

func (m *merger) dependencyCycles() {
	graph := map[string][]string{}
	for _, b := range m.whole.blocks {
		for _, ref := range b.dependsOn {
			graph[b.address] = append(graph[b.address], ref.address)
		}
	}
	_, _, cycles := sortGraph(sortedKeys(m.blocks), graph)
	for _, cycle := range cycles {
		b := m.blocks[cycle[0]]
		m.report.errorf(b.arguments["depends_on"][0].expr.Range(), b.address, "Blocks depend on each other", "%s.", strings.Join(around(cycle), " depends on "))
	}
}

// sortGraph orders names behind what they need. Names that need each other are one
// knot; of each there is one cycle, from its first name on. It is Tarjan's algorithm for
// strongly connected components.
func sortGraph(names []string, needs map[string][]string) (order []string, knots, cycles [][]string) {
	index, low := map[string]int{}, map[string]int{} // index counts from 1
	open := map[string]bool{}
	var stack []string
	var visit func(name string)
	visit = func(name string) {
		index[name] = len(index) + 1
		low[name] = index[name]
		stack = append(stack, name)
		open[name] = true
		for _, other := range needs[name] {
			if index[other] == 0 {
				visit(other)
				low[name] = min(low[name], low[other])
			} else if open[other] {
				low[name] = min(low[name], index[other])
			}
		}
		if low[name] < index[name] {
			return
		}
		knot := slices.Clone(stack[slices.Index(stack, name):])
		stack = stack[:len(stack)-len(knot)]
		for _, member := range knot {
			delete(open, member)
		}
		slices.Reverse(knot)
		order = append(order, knot...)
		if len(knot) > 1 || slices.Contains(needs[name], name) {
			knots, cycles = append(knots, knot), append(cycles, cycleIn(knot, needs))
		}
	}
	for _, name := range names {
		if index[name] == 0 {
			visit(name)
		}
	}
	return order, knots, cycles
}

// cycleIn finds a cycle in a knot.
func cycleIn(knot []string, needs map[string][]string) []string {
	member := map[string]bool{}
	for _, name := range knot {
		member[name] = true
	}
	at := map[string]int{}
	var way []string
	for name := slices.Min(knot); ; {
		if i, been := at[name]; been {
			cycle := way[i:]
			least := slices.Index(cycle, slices.Min(cycle))
			return slices.Concat(cycle[least:], cycle[:least])
		}
		at[name] = len(way)
		way = append(way, name)
		i := slices.IndexFunc(needs[name], func(other string) bool { return member[other] })
		name = needs[name][i]
	}
}

// around is a cycle as it is told: back to its first name, and of a long one the ends.
func around(cycle []string) []string {
	const ends = 8
	if len(cycle) > 2*ends {
		cycle = slices.Concat(cycle[:ends], []string{"..."}, cycle[len(cycle)-ends:])
	}
	return append(slices.Clone(cycle), cycle[0])
}

// unlist makes tuples and objects of the lists, sets and maps in v: defaults are applied
// to these without comparing the types of all elements.
func unlist(v cty.Value) cty.Value {
	if !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return v
	}
	var values []cty.Value
	attributes := map[string]cty.Value{}
	keyed := v.Type().IsMapType() || v.Type().IsObjectType()
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if element = unlist(element); keyed {
			attributes[key.AsString()] = element
		} else {
			values = append(values, element)
		}
	}
	if keyed {
		return cty.ObjectVal(attributes)
	}
	return cty.TupleVal(values)
}

// assign gives every variable its value: an assignment from the command line, the
// youngest profile's variables, or the default.
func (m *merger) assign(documents []*document, assignments []string) {
	settings := map[string]*argument{}
	known := map[string]bool{}
	for _, doc := range documents {
		for name := range doc.variables {
			known[name] = true
		}
		if doc.header == nil {
			continue
		}
		for _, a := range doc.header.variables {
			if !known[a.name] {
				m.report.errorf(a.place, "profile", "No such variable", "Neither this profile nor a parent has a variable %q.%s", a.name, m.report.suggest(a.name, maps.Keys(known)))
				continue
			}
			settings[a.name] = a
		}
	}
	for _, text := range assignments {
		if a := m.assignment(text, known); a != nil {
			settings[a.name] = a
		}
	}
	for _, name := range sortedKeys(m.variables) {
		m.whole.values[name] = m.value(m.variables[name], settings[name])
	}
}

// assignment reads NAME=EXPR of the command line.
func (m *merger) assignment(text string, known map[string]bool) *argument {
	name, _, found := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	filename := "--var " + name
	m.report.files[filename] = sourceFile{src: []byte(text)}
	place := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.Pos{Line: 1, Column: len(name) + 1, Byte: len(name)}}
	if !found || name == "" {
		m.report.errorf(place, "", "Not an assignment", "Write --var NAME=EXPR.")
		return nil
	}
	if !known[name] {
		m.report.errorf(place, "", "No such variable", "The profile has no variable %q.%s", name, m.report.suggest(name, maps.Keys(known)))
		return nil
	}
	at := strings.IndexByte(text, '=') + 1
	expr, problem := parseExpression(filename, []byte(text[at:]), hcl.Pos{Line: 1, Column: at + 1, Byte: at})
	if problem != nil {
		m.report.hcl(hcl.Diagnostics{problem}, "var."+name)
		return nil
	}
	return newArgument(name, place, expr)
}

// value computes one variable. It is unknown while nothing sets it.
func (m *merger) value(v *variable, setting *argument) cty.Value {
	typ := v.typ
	if typ == cty.NilType {
		typ = cty.DynamicPseudoType
	}
	address := "var." + v.name
	from := setting
	if from == nil {
		from = v.fallback
	}
	if from == nil {
		m.whole.unset = append(m.whole.unset, v)
		return unknownValue(typ.WithoutOptionalAttributesDeep(), unknown{Reason: fmt.Sprintf("variable %s has no value", v.name)})
	}
	failed := cty.UnknownVal(typ.WithoutOptionalAttributesDeep())
	if !constant(m.report, address, from) {
		return failed
	}
	value, ok := evaluate(m.report, address, from.metered, newContext(m.budget, nil))
	if !ok {
		return failed
	}
	if v.defaults != nil {
		value = v.defaults.Apply(unlist(value))
	}
	value, mismatches := conform(value, typ)
	for _, mismatch := range mismatches {
		hint := ""
		if setting != nil {
			hint = fmt.Sprintf(" The type of %s is declared at %s.", address, originOf(v.place))
		}
		m.report.errorf(from.expr.Range(), address, "Wrong type", "%s.%s", mismatch.under(address), hint)
	}
	if len(mismatches) > 0 {
		return failed
	}
	m.validate(v, from, value)
	return value
}

// validate holds a variable's value against its validation blocks.
func (m *merger) validate(v *variable, from *argument, value cty.Value) {
	for _, c := range v.conditions {
		if m.report.invalid[c.expr] {
			continue
		}
		ctx := newContext(m.budget, map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{v.name: value})})
		holds, ok := evaluate(m.report, "var."+v.name, c.expr.metered, ctx)
		if !ok || !holds.IsKnown() {
			continue
		}
		if holds.IsNull() || holds.Type() != cty.Bool {
			m.report.errorf(c.expr.expr.Range(), "var."+v.name, "Wrong type", "condition is neither true nor false.")
			continue
		}
		if holds.False() {
			m.report.errorf(from.expr.Range(), "var."+v.name, "Value refused", "%s", c.message)
		}
	}
}

// constant reports whether an expression refers to nothing.
func constant(r *report, address string, a *argument) bool {
	before := r.count
	c := &checker{report: r, address: address, roots: map[string]cty.Type{}}
	c.rootHint = "the value of a variable refers to nothing"
	if setting, ok := a.expr.(*hclsyntax.ScopeTraversalExpr); ok && len(setting.Traversal) == 1 {
		c.rootHint = fmt.Sprintf("a string is written in quotes: %q", setting.Traversal.RootName())
	}
	c.expr(a.expr, nil)
	return r.count == before
}
