package profiles

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// checker follows every reference of an expression through the types it leads to,
// before anything is evaluated: behind &&, in both arms of a conditional and in the
// bodies of loops too.
type checker struct {
	report  *report
	address string // of the block that the expression stands in
	// roots are the types of what references can start with.
	roots map[string]cty.Type
	// locals are the types of the locals that were checked.
	locals map[string]cty.Type
	// rootHint is said where a reference starts with nothing of roots.
	rootHint string
	// identity: the expression is a match.
	identity bool
	// items are the types of what splats stand at.
	items map[*hclsyntax.AnonSymbolExpr]splatItem
}

type splatItem struct {
	typ     cty.Type
	written string
}

// scope has the variables of the loops around an expression.
type scope struct {
	names  map[string]cty.Type
	parent *scope
}

// binding is a local or a selector, with the names that it needs.
type binding struct {
	name     string // local.x, selector.x
	local    *argument
	selector *selector
	needs    []string
}

// check checks all expressions of a profile, notes those that are wrong,
// and orders locals and selectors.
func check(r *report, w *whole, variables map[string]*variable) {
	values := map[string]cty.Type{}
	for name, v := range variables {
		values[name] = cty.DynamicPseudoType
		if v.typ != cty.NilType {
			values[name] = v.typ.WithoutOptionalAttributesDeep()
		}
	}
	c := &checker{report: r, locals: map[string]cty.Type{}, roots: map[string]cty.Type{
		"node": NodeSchema(), "var": cty.Object(values),
		"local": dynamicObject(w.locals), "selector": selectorsType(w.selectors),
	}}
	for _, name := range sortedKeys(variables) {
		v := variables[name]
		inner := &checker{report: r, roots: map[string]cty.Type{"var": cty.Object(map[string]cty.Type{name: values[name]})}}
		inner.rootHint = "a validation refers to its own variable alone"
		for _, condition := range v.conditions {
			inner.argument("var."+name, condition.expr)
		}
	}
	c.bindings(w)
	for _, b := range w.blocks {
		c.block(b)
	}
	if w.match != nil {
		m := &checker{report: r, identity: true, roots: map[string]cty.Type{"node": nodeTypes().identity}}
		m.rootHint = "match sees the node alone"
		m.argument("profile", w.match)
	}
}

func dynamicObject[V any](names map[string]V) cty.Type {
	types := map[string]cty.Type{}
	for name := range names {
		types[name] = cty.DynamicPseudoType
	}
	return cty.Object(types)
}

func selectorsType(selectors map[string]*selector) cty.Type {
	types := map[string]cty.Type{}
	for name := range selectors {
		types[name] = cty.List(nodeTypes().nic)
	}
	return cty.Object(types)
}

// bindings orders locals and selectors, finds cycles among them, and gives locals the
// types of their expressions.
func (c *checker) bindings(w *whole) {
	all := map[string]*binding{}
	for name, a := range w.locals {
		all["local."+name] = &binding{name: name, local: a, needs: references(a)}
	}
	for name, s := range w.selectors {
		all["selector."+name] = &binding{name: name, selector: s, needs: references(s.arguments()...)}
	}
	graph := map[string][]string{}
	for name, b := range all {
		b.needs = slices.DeleteFunc(b.needs, func(other string) bool { return all[other] == nil })
		graph[name] = b.needs
	}
	order, knots, cycles := sortGraph(sortedKeys(all), graph)
	for i, cycle := range cycles {
		b := all[cycle[0]]
		var place hcl.Range
		if b.local != nil {
			place = b.local.place
		} else {
			place = b.selector.place
		}
		c.report.errorf(place, cycle[0], "Values depend on each other", "%s.", strings.Join(around(cycle), " needs "))
		for _, name := range knots[i] {
			all[name].invalidate(c.report)
		}
	}
	for _, name := range order {
		b := all[name]
		if b.local != nil {
			c.locals[b.name] = c.argument(name, b.local)
		} else {
			c.selector(name, b.selector)
		}
		w.order = append(w.order, b)
	}
}

func (b *binding) invalidate(r *report) {
	for _, a := range b.arguments() {
		r.invalid[a] = true
	}
}

func (b *binding) arguments() []*argument {
	candidates := []*argument{b.local}
	if b.selector != nil {
		candidates = []*argument{b.selector.nics, b.selector.expect}
	}
	return slices.DeleteFunc(candidates, func(a *argument) bool { return a == nil })
}

// references are the locals and selectors that arguments refer to.
func references(arguments ...*argument) []string {
	found := map[string]bool{}
	for _, a := range arguments {
		for _, t := range a.expr.Variables() {
			root := t.RootName()
			if (root == "local" || root == "selector") && len(t) > 1 {
				if name, ok := stepName(t[1]); ok {
					found[root+"."+name] = true
				}
			}
		}
	}
	return sortedKeys(found)
}

func stepName(step hcl.Traverser) (string, bool) {
	switch step := step.(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String && step.Key.IsKnown() && !step.Key.IsNull() {
			return step.Key.AsString(), true
		}
	}
	return "", false
}

func (c *checker) selector(address string, s *selector) {
	if s.nics != nil {
		t := c.argument(address, s.nics)
		if !couldBeNICs(t) && !c.report.invalid[s.nics] {
			c.report.invalid[s.nics] = true
			c.report.errorf(s.nics.expr.Range(), address, "Not a list of NICs", notNICs)
		}
	}
	for _, a := range s.arguments() {
		if a != s.nics {
			c.argument(address, a)
		}
	}
}

// notNICs says what the nics of a selector are.
const notNICs = "nics has to be a list whose elements are all from node.nics or node.rails."

func couldBeNICs(t cty.Type) bool {
	isNIC := func(e cty.Type) bool { return e == cty.DynamicPseudoType || e.Equals(nodeTypes().nic) }
	switch {
	case t == cty.DynamicPseudoType:
		return true
	case t.IsTupleType():
		return !slices.ContainsFunc(t.TupleElementTypes(), func(e cty.Type) bool { return !isNIC(e) })
	case t.IsListType() || t.IsSetType():
		return isNIC(t.ElementType())
	}
	return false
}

func (c *checker) block(b *block) {
	inner := *c
	each := b.arguments["for_each"]
	if each != nil {
		if n := literalElements(each[0].expr); n > maxInstances {
			tooManyInstances(c.report, each[0], b.address, n)
			c.report.invalid[each[0]] = true
		}
		element := elementType(c.argument(b.address, each[0]))
		inner.roots = maps.Clone(c.roots)
		inner.roots["each"] = cty.Object(map[string]cty.Type{"key": cty.String, "value": element})
	}
	for _, name := range sortedKeys(b.arguments) {
		if name == "for_each" || name == "depends_on" {
			continue
		}
		keyed := b.keyed(name)
		for _, a := range b.arguments[name] {
			object, written := a.expr.(*hclsyntax.ObjectConsExpr)
			if keyed && written {
				invalid := map[int]bool{}
				c.report.invalidItems[a] = invalid
				inner.address = b.address
				inner.object(object, nil, invalid)
				continue
			}
			inner.argument(b.address, a)
		}
	}
	if b.waive != nil {
		for _, a := range []*argument{b.waive.reason, b.waive.until} {
			if a != nil {
				inner.argument(b.address, a)
			}
		}
	}
}

// literalElements is how many elements toset([...]) has at most, 0 for another expression.
func literalElements(e hclsyntax.Expression) int {
	if call, ok := e.(*hclsyntax.FunctionCallExpr); ok && call.Name == "toset" && len(call.Args) == 1 {
		if list, ok := call.Args[0].(*hclsyntax.TupleConsExpr); ok {
			return len(list.Exprs)
		}
	}
	return 0
}

// argument checks one expression and notes it when it is wrong. It returns its type.
func (c *checker) argument(address string, a *argument) cty.Type {
	before := c.report.count
	c.address = address
	t := c.expr(a.expr, nil)
	if c.report.count > before {
		c.report.invalid[a] = true
		return cty.DynamicPseudoType
	}
	return t
}

// expr checks e and returns its type, any where it takes evaluation to tell.
func (c *checker) expr(e hclsyntax.Expression, s *scope) cty.Type {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val.Type()
	case *hclsyntax.ScopeTraversalExpr:
		return c.traversal(e.Traversal, s)
	case *hclsyntax.RelativeTraversalExpr:
		return c.follow(c.expr(e.Source, s), e.Traversal, c.written(e.Source))
	case *hclsyntax.AnonSymbolExpr:
		return c.items[e].typ
	case *hclsyntax.SplatExpr:
		return c.splat(e, s)
	case *hclsyntax.ForExpr:
		return c.loop(e, s)
	case *hclsyntax.FunctionCallExpr:
		return c.call(e, s)
	case *hclsyntax.ConditionalExpr:
		c.expr(e.Condition, s)
		t, f := unifiable(c.expr(e.TrueResult, s)), unifiable(c.expr(e.FalseResult, s))
		if unified, _ := convert.Unify([]cty.Type{t, f}); unified != cty.NilType {
			return unified
		}
	case *hclsyntax.IndexExpr:
		collection := c.expr(e.Collection, s)
		c.expr(e.Key, s)
		return elementType(collection)
	case *hclsyntax.TupleConsExpr:
		types := make([]cty.Type, len(e.Exprs))
		for i, element := range e.Exprs {
			types[i] = c.expr(element, s)
		}
		switch t := cty.Tuple(types); {
		case len(types) <= followed:
			return t
		case alike(types):
			return cty.List(types[0])
		}
		return cty.DynamicPseudoType
	case *hclsyntax.ObjectConsExpr:
		return c.object(e, s, map[int]bool{})
	case *hclsyntax.ObjectConsKeyExpr:
		return c.expr(e.Wrapped, s)
	case *hclsyntax.BinaryOpExpr:
		c.expr(e.LHS, s)
		c.expr(e.RHS, s)
		c.neverNull(e, s)
		return e.Op.Type
	case *hclsyntax.UnaryOpExpr:
		c.expr(e.Val, s)
		return e.Op.Type
	case *hclsyntax.TemplateExpr:
		for _, part := range e.Parts {
			c.expr(part, s)
		}
		return cty.String
	case *hclsyntax.TemplateJoinExpr:
		c.expr(e.Tuple, s)
		return cty.String
	case *hclsyntax.TemplateWrapExpr:
		return c.expr(e.Wrapped, s)
	case *hclsyntax.ParenthesesExpr:
		return c.expr(e.Expression, s)
	}
	return cty.DynamicPseudoType
}

// neverNull finds that an attribute of a NIC is compared with null, which none is.
func (c *checker) neverNull(e *hclsyntax.BinaryOpExpr, s *scope) {
	for _, sides := range [][2]hclsyntax.Expression{{e.LHS, e.RHS}, {e.RHS, e.LHS}} {
		attribute, ok := sides[0].(*hclsyntax.ScopeTraversalExpr)
		if !ok || !isNull(sides[1]) || len(attribute.Traversal) < 2 {
			continue
		}
		last := len(attribute.Traversal) - 1
		name, named := stepName(attribute.Traversal[last])
		before := c.report.count
		if !named || !c.traversal(attribute.Traversal[:last], s).Equals(nodeTypes().nic) || c.report.count > before {
			continue
		}
		hint := ""
		if nodeTypes().nic.HasAttribute("has_" + name) {
			hint = fmt.Sprintf(" %s tells whether there is one.", strings.TrimSuffix(c.written(attribute), step(name))+step("has_"+name))
		}
		c.report.errorf(e.Range(), c.address, "Never null", "%s is known or unknown, never null.%s", c.written(attribute), hint)
	}
}

// object checks an object item by item and notes which are wrong.
func (c *checker) object(e *hclsyntax.ObjectConsExpr, s *scope, invalid map[int]bool) cty.Type {
	types := map[string]cty.Type{}
	first := map[string]hcl.Range{}
	computed := false
	for i, item := range e.Items {
		before := c.report.count
		t := c.expr(item.ValueExpr, s)
		name := literalKey(item)
		if name == "" {
			c.expr(item.KeyExpr, s)
			computed = true
		}
		if c.report.count > before {
			invalid[i] = true
		}
		if name == "" {
			continue
		}
		if before, ok := first[name]; ok {
			c.report.errorf(item.KeyExpr.Range(), c.address, "Duplicate key", "%s was set at %s before.", name, originOf(before))
			continue
		}
		first[name], types[name] = item.KeyExpr.Range(), t
	}
	if computed || len(types) > followed {
		return cty.DynamicPseudoType
	}
	return cty.Object(types)
}

func (c *checker) splat(e *hclsyntax.SplatExpr, s *scope) cty.Type {
	source := c.expr(e.Source, s)
	item := source
	if source.IsListType() || source.IsSetType() || source.IsTupleType() {
		item = elementType(source)
	}
	if c.items == nil {
		c.items = map[*hclsyntax.AnonSymbolExpr]splatItem{}
	}
	c.items[e.Item] = splatItem{item, c.written(e.Source) + "[*]"}
	each := c.expr(e.Each, s)
	if source.IsListType() || source.IsSetType() {
		return cty.List(each)
	}
	return cty.DynamicPseudoType
}

func (c *checker) loop(e *hclsyntax.ForExpr, s *scope) cty.Type {
	collection := c.expr(e.CollExpr, s)
	names := map[string]cty.Type{}
	if e.KeyVar != "" {
		names[e.KeyVar] = keyType(collection)
	}
	names[e.ValVar] = elementType(collection)
	inner := &scope{names, s}
	if e.CondExpr != nil {
		c.expr(e.CondExpr, inner)
	}
	value := c.expr(e.ValExpr, inner)
	if e.KeyExpr == nil {
		return cty.List(value)
	}
	c.expr(e.KeyExpr, inner)
	if e.Group {
		value = cty.List(value)
	}
	return cty.Map(value)
}

func keyType(collection cty.Type) cty.Type {
	switch {
	case collection.IsListType() || collection.IsTupleType():
		return cty.Number
	case collection.IsMapType() || collection.IsObjectType():
		return cty.String
	case collection.IsSetType():
		return collection.ElementType()
	}
	return cty.DynamicPseudoType
}

// elementType is the type of a collection's elements, any where they differ.
func elementType(collection cty.Type) cty.Type {
	var types []cty.Type
	switch {
	case collection.IsCollectionType():
		return collection.ElementType()
	case size(collection, followed) == followed:
	case collection.IsTupleType():
		types = collection.TupleElementTypes()
	case collection.IsObjectType():
		types = slices.Collect(maps.Values(collection.AttributeTypes()))
	}
	if len(types) == 0 || !alike(types) {
		return cty.DynamicPseudoType
	}
	return types[0]
}

// followed is how many types the type of a literal can be made of so that references
// into it, where they are written, are checked: each takes a look at all of them.
const followed = 256

func alike(types []cty.Type) bool {
	return !slices.ContainsFunc(types, func(t cty.Type) bool { return !t.Equals(types[0]) })
}

// unifiable is t, or any where bringing it together with others takes long.
func unifiable(t cty.Type) cty.Type {
	if size(t, fewTypes) == fewTypes {
		return cty.DynamicPseudoType
	}
	return t
}

// call checks a function's name and arguments.
func (c *checker) call(e *hclsyntax.FunctionCallExpr, s *scope) cty.Type {
	types := make([]cty.Type, len(e.Args))
	for i, a := range e.Args {
		types[i] = c.expr(a, s)
	}
	f, ok := functions()[e.Name]
	if !ok {
		c.report.errorf(e.NameRange, c.address, "No such function", "There is no function %q.%s", e.Name, c.report.suggest(e.Name, maps.Keys(functions())))
		return cty.DynamicPseudoType
	}
	if c.identity && e.Name == "length" {
		c.report.errorf(e.NameRange, c.address, identityOnly, "A count is health, not identity: a node that lost a device is still the same node.")
		return cty.DynamicPseudoType
	}
	switch {
	case e.Name == "can":
		return cty.Bool
	case e.Name == "try" || e.ExpandFinal || len(types) > fewTypes:
		return cty.DynamicPseudoType
	}
	return c.result(e, f, types, s)
}

// result is the type that f returns for arguments of types. Evaluation without a node
// never enters the body of a loop over node.*, so arguments there are checked here.
func (c *checker) result(e *hclsyntax.FunctionCallExpr, f function.Function, types []cty.Type, s *scope) cty.Type {
	wrong := func(place hcl.Range, err error) cty.Type {
		if s != nil {
			c.report.errorf(place, c.address, "Wrong argument", "%s: %v.", e.Name, err)
		}
		return cty.DynamicPseudoType
	}
	params := f.Params()
	args := make([]cty.Value, len(types))
	for i, t := range types {
		param := f.VarParam()
		if i < len(params) {
			param = &params[i]
		}
		if param == nil {
			return wrong(e.Args[i].Range(), fmt.Errorf("takes %d arguments", len(params)))
		}
		arg, err := convert.Convert(cty.UnknownVal(unifiable(t)), param.Type)
		if err != nil {
			return wrong(e.Args[i].Range(), fmt.Errorf("%s is unsuitable: %w", param.Name, err))
		}
		args[i] = arg
	}
	if len(args) < len(params) {
		return wrong(e.CloseParenRange, fmt.Errorf("lacks %s", params[len(args)].Name))
	}
	t, err := f.ReturnTypeForValues(args)
	if err != nil {
		return wrong(e.Range(), err)
	}
	return t
}

const identityOnly = "match may use identity only"

// traversal checks a reference from its root on.
func (c *checker) traversal(t hcl.Traversal, s *scope) cty.Type {
	root := t.RootName()
	for ; s != nil; s = s.parent {
		if typ, ok := s.names[root]; ok {
			return c.follow(typ, t[1:], root)
		}
	}
	if root == "local" && len(t) > 1 {
		if name, named := stepName(t[1]); named {
			if typ, ok := c.locals[name]; ok {
				return c.follow(typ, t[2:], root+step(name))
			}
		}
	}
	typ, ok := c.roots[root]
	rng := t[0].SourceRange()
	if !ok {
		c.report.errorf(rng, c.address, "No such reference", "Nothing is called %q here%s.%s", root, c.hintFor(root), c.report.suggest(root, maps.Keys(c.roots)))
		return cty.DynamicPseudoType
	}
	if len(t) == 1 {
		c.report.errorf(rng, c.address, "Incomplete reference", "%s stands for nothing alone; write %s.NAME.", root, root)
		return cty.DynamicPseudoType
	}
	return c.follow(typ, t[1:], root)
}

func (c *checker) hintFor(root string) string {
	switch {
	case c.rootHint != "":
		return ": " + c.rootHint
	case root == "each":
		return ": each is known in a block with for_each"
	}
	return ""
}

// follow checks the steps of a reference to something of type t that is written so far
// as written.
func (c *checker) follow(t cty.Type, steps hcl.Traversal, written string) cty.Type {
	for _, s := range steps {
		name, named := stepName(s)
		switch {
		case t == cty.DynamicPseudoType:
			return t
		case t.IsMapType():
			t = t.ElementType()
		case t.IsObjectType() && named:
			if !t.HasAttribute(name) {
				c.noAttribute(t, name, s.SourceRange(), written)
				return cty.DynamicPseudoType
			}
			t = t.AttributeType(name)
		case !named && (t.IsListType() || t.IsTupleType()):
			t = elementType(t)
		default:
			c.report.errorf(s.SourceRange(), c.address, "No such attribute", "%s", noStep(t, name, named, written))
			return cty.DynamicPseudoType
		}
		if named {
			written += step(name)
		} else {
			written += "[...]"
		}
	}
	return t
}

// written is how e reads in a message.
func (c *checker) written(e hclsyntax.Expression) string {
	switch e := e.(type) {
	case *hclsyntax.AnonSymbolExpr:
		return c.items[e].written
	case *hclsyntax.ScopeTraversalExpr:
		out := e.Traversal.RootName()
		for _, s := range e.Traversal[1:] {
			if name, named := stepName(s); named {
				out += step(name)
			} else {
				out += "[...]"
			}
		}
		return out
	}
	return "this value"
}

// noStep says why something of type t cannot be followed.
func noStep(t cty.Type, name string, named bool, written string) string {
	sequence := t.IsListType() || t.IsSetType() || t.IsTupleType()
	if named && sequence {
		if e := elementType(t); e.IsObjectType() && e.HasAttribute(name) {
			return fmt.Sprintf("%s is a list; write %s[*].%s for all of its elements.", written, written, name)
		}
	}
	what := fmt.Sprintf("has no attribute %q", name)
	if !named {
		what = "has no elements by number"
	}
	return fmt.Sprintf("%s is %s and %s.", written, describe(t), what)
}

func (c *checker) noAttribute(t cty.Type, name string, place hcl.Range, written string) {
	if c.identity {
		for _, a := range nodeAttributes() {
			if !a.Identity && slices.Contains(strings.Split(strings.ReplaceAll(a.Path, "[*]", ""), "."), name) {
				c.report.errorf(place, c.address, identityOnly, "%s%s says how a node fares or what runs on it, not what it is. match may use %s.", written, step(name), identityPaths())
				return
			}
		}
	}
	names := t.AttributeTypes()
	hint := c.report.suggest(name, maps.Keys(names))
	switch written {
	case "var", "local", "selector":
		kind := map[string]string{"var": "variable", "local": "local", "selector": "selector"}[written]
		c.report.errorf(place, c.address, "No such "+kind, "There is no %s %q.%s", kind, name, hint)
	default:
		if hint == "" && len(names) > 0 && len(names) <= maxListed {
			hint = fmt.Sprintf(" It has %s.", strings.Join(sortedKeys(names), ", "))
		}
		c.report.errorf(place, c.address, "No such attribute", "%s has no attribute %q.%s", written, name, hint)
	}
}

func identityPaths() string {
	var paths []string
	for _, a := range nodeAttributes() {
		head, _, nested := strings.Cut(a.Path, ".")
		switch {
		case !a.Identity:
			continue
		case nested && !strings.HasSuffix(head, "[*]"):
			a.Path = head + ".*"
		}
		if path := "node." + a.Path; !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return strings.Join(paths, ", ")
}
