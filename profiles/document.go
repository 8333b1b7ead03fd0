package profiles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"busbar/plan"
)

// document is one profile file with its blocks sorted by kind, nothing evaluated. It is immutable: the profiles that it is part
// of share it.
type document struct {
	name, filename string
	header         *header
	variables      map[string]*variable
	locals         map[string]*argument
	selectors      map[string]*selector
	blocks         []*block
	// declares: there is a block beside that called profile, right or wrong.
	declares bool
}

// header is the profile block.
type header struct {
	description string
	extends     []parentRef
	match       *argument
	variables   []*argument
}

type parentRef struct {
	name  string
	place hcl.Range
}

// argument is NAME = EXPR. It is immutable: the profiles that its file is part of share it.
type argument struct {
	name  string
	place hcl.Range // of the name
	expr  hclsyntax.Expression
	// metered is expr as it is evaluated: whatever can multiply is charged.
	metered hclsyntax.Expression
}

func newArgument(name string, place hcl.Range, expr hclsyntax.Expression) *argument {
	return &argument{name, place, expr, meterWhole(expr)}
}

func originOf(rng hcl.Range) plan.Origin {
	return plan.Origin{File: rng.Filename, Line: rng.Start.Line}
}

// variable is a variable block.
type variable struct {
	name     string
	place    hcl.Range
	typ      cty.Type // cty.NilType when none was written
	defaults *typeexpr.Defaults
	fallback *argument
	// conditions are the validation blocks.
	conditions []condition
}

type condition struct {
	expr    *argument
	message string
}

// selector is a selector block.
type selector struct {
	name                           string
	place                          hcl.Range
	nics, include, exclude, expect *argument
}

// arguments are those that are set.
func (s *selector) arguments() []*argument {
	return slices.DeleteFunc([]*argument{s.nics, s.include, s.exclude, s.expect}, func(a *argument) bool { return a == nil })
}

// block is a typed block as one file has it, or as the files of a profile make it.
type block struct {
	typ            plan.Type
	spec           plan.Spec
	address, label string
	place          hcl.Range
	// arguments by name. One that merges key by key has a layer of each file, the
	// youngest last.
	arguments map[string][]*argument
	// nulls are the arguments refused because nothing was there to take away.
	nulls     map[string]bool
	waive     *waiveBlock
	drop      *argument // drop = true
	dependsOn []reference
}

// reference is one entry of depends_on: a block, and the key of one of its instances.
type reference struct {
	address, key string
	hasKey       bool
	// unknownType is the type named, where there is none such.
	unknownType string
	place       hcl.Range
}

type waiveBlock struct {
	place         hcl.Range
	reason, until *argument
}

// metaArguments are understood by every block type.
var metaArguments = []string{"when", "for_each", "depends_on", "severity", "optional", "drop"}

// keyed reports whether attributes of type t merge key by key.
func keyed(t cty.Type) bool {
	return t == cty.DynamicPseudoType || t.IsMapType() || t.IsObjectType()
}

// attribute finds an attribute of the block's type.
func (b *block) attribute(name string) (plan.Attribute, bool) {
	for _, a := range b.spec.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return plan.Attribute{}, false
}

// keyed reports whether an argument of the block merges key by key.
func (b *block) keyed(name string) bool {
	a, ok := b.attribute(name)
	return ok && keyed(a.Type)
}

// decoder sorts the blocks of one file.
type decoder struct {
	report *report
	types  typeTable
	doc    *document
	seen   map[string]hcl.Range // address -> first place
}

// typeTable has the block types by name.
type typeTable struct {
	blocks map[string]plan.Type
	// judging are those that are written behind one of plan.Keywords, by that.
	judging map[string]map[string]plan.Type
}

func newTypeTable(types []plan.Type) typeTable {
	t := typeTable{map[string]plan.Type{}, map[string]map[string]plan.Type{}}
	for _, keyword := range plan.Keywords {
		t.judging[keyword] = map[string]plan.Type{}
	}
	for _, typ := range types {
		if spec := typ.Spec(); spec.Keyword() != "" {
			t.judging[spec.Keyword()][spec.Name] = typ
		} else {
			t.blocks[spec.Name] = typ
		}
	}
	return t
}

// blockNames are all that can stand at the top of a profile.
func (t typeTable) blockNames() []string {
	return slices.Concat(sortedKeys(t.blocks), plan.Keywords, []string{"locals", "profile", "selector", "variable"})
}

// names are all block types, checks and proofs.
func (t typeTable) names() []string {
	names := sortedKeys(t.blocks)
	for _, keyword := range plan.Keywords {
		names = append(names, sortedKeys(t.judging[keyword])...)
	}
	return names
}

func decodeDocument(r *report, types typeTable, name, filename string, body *hclsyntax.Body) *document {
	d := &decoder{report: r, types: types, seen: map[string]hcl.Range{}, doc: &document{
		name: name, filename: filename,
		variables: map[string]*variable{}, locals: map[string]*argument{}, selectors: map[string]*selector{},
	}}
	for _, a := range sortedAttributes(body) {
		r.errorf(a.NameRange, "", "Argument outside a block", "Write %s inside a block.%s", a.Name, suggestBlock(a.Name, types))
	}
	for _, b := range body.Blocks {
		d.doc.declares = d.doc.declares || b.Type != "profile"
		d.block(b)
	}
	return d.doc
}

func suggestBlock(name string, types typeTable) string {
	if slices.Contains(types.blockNames(), name) {
		return fmt.Sprintf(" %s is a block: %s { ... }.", name, name)
	}
	return ""
}

func (d *decoder) block(b *hclsyntax.Block) {
	for i, label := range b.Labels {
		if len(label) > maxName {
			d.report.errorf(b.LabelRanges[i], "", "Name too long", "A label has at most %d bytes.", maxName)
			return
		}
	}
	switch b.Type {
	case "profile":
		if d.labels(b, 0, "profile") && d.first("profile", b) {
			d.profile(b)
		}
	case "variable":
		if d.labels(b, 1, `variable "NAME"`) && d.first("var."+b.Labels[0], b) && d.identifier(b) {
			d.variable(b)
		}
	case "locals":
		if d.labels(b, 0, "locals") {
			d.locals(b)
		}
	case "selector":
		if d.labels(b, 1, `selector "NAME"`) && d.first("selector."+b.Labels[0], b) && d.identifier(b) {
			d.selector(b)
		}
	default:
		if d.types.judging[b.Type] != nil {
			d.judging(b)
			return
		}
		typ, ok := d.types.blocks[b.Type]
		if !ok {
			d.noSuchType(b)
			return
		}
		d.typed(b, typ, b.Labels, b.Type)
	}
}

func (d *decoder) noSuchType(b *hclsyntax.Block) {
	hint := d.report.choice(b.Type, "The block types are", d.types.blockNames())
	for _, keyword := range plan.Keywords {
		if _, ok := d.types.judging[keyword][b.Type]; ok {
			hint = fmt.Sprintf(" %s is a %s: write %s %q.", b.Type, keyword, keyword, b.Type)
		}
	}
	d.report.errorf(b.TypeRange, "", "No such block type", "There is no block type %q.%s", b.Type, hint)
}

// judging is a block behind one of plan.Keywords.
func (d *decoder) judging(b *hclsyntax.Block) {
	keyword, types := b.Type, d.types.judging[b.Type]
	if len(b.Labels) == 0 {
		d.report.errorf(b.DefRange(), "", "Wrong number of labels", `A %s is written %s "TYPE" "LABEL" { ... }.`, keyword, keyword)
		return
	}
	name := b.Labels[0]
	typ, ok := types[name]
	if !ok {
		hint := d.report.choice(name, fmt.Sprintf("The %ss are", keyword), sortedKeys(types))
		if _, ok := d.types.blocks[name]; ok {
			hint = fmt.Sprintf(" %s is a block type of its own: write it without %s.", name, keyword)
		}
		for _, other := range plan.Keywords {
			if _, ok := d.types.judging[other][name]; ok {
				hint = fmt.Sprintf(" %s is a %s: write %s %q.", name, other, other, name)
			}
		}
		d.report.errorf(b.LabelRanges[0], "", "No such "+keyword, "There is no %s %q.%s", keyword, name, hint)
		return
	}
	d.typed(b, typ, b.Labels[1:], fmt.Sprintf("%s %q", keyword, name))
}

// labels reports whether b has n labels.
func (d *decoder) labels(b *hclsyntax.Block, n int, written string) bool {
	if len(b.Labels) == n {
		return true
	}
	d.report.errorf(b.DefRange(), "", "Wrong number of labels", "Write %s { ... }.", written)
	return false
}

// identifier reports whether b's label can be referred to.
func (d *decoder) identifier(b *hclsyntax.Block) bool {
	if hclsyntax.ValidIdentifier(b.Labels[0]) {
		return true
	}
	d.report.errorf(b.LabelRanges[0], "", "Not a name", "%q cannot be referred to: a name has letters, digits, _ and - and starts with a letter.", b.Labels[0])
	return false
}

// first reports whether address was not declared before in this file.
func (d *decoder) first(address string, b *hclsyntax.Block) bool {
	return d.firstAt(address, b.DefRange())
}

func (d *decoder) firstAt(address string, place hcl.Range) bool {
	if before, ok := d.seen[address]; ok {
		d.report.errorf(place, address, "Duplicate", "%s was declared at %s before.", address, originOf(before))
		return false
	}
	d.seen[address] = place
	return true
}

// arguments are the arguments of body by name, those that are not allowed left out.
func (d *decoder) arguments(body *hclsyntax.Body, address string, allowed, blocks []string) map[string]*argument {
	out := map[string]*argument{}
	for _, a := range sortedAttributes(body) {
		if !slices.Contains(allowed, a.Name) {
			hint := d.report.suggest(a.Name, slices.Values(slices.DeleteFunc(slices.Clone(allowed), func(n string) bool { return body.Attributes[n] != nil })))
			if slices.Contains(blocks, a.Name) {
				hint = fmt.Sprintf(" %s is a block: write %s { ... }.", a.Name, a.Name)
			}
			d.report.errorf(a.NameRange, address, "No such argument", "%s has no argument %q.%s", address, a.Name, hint)
			continue
		}
		out[a.Name] = newArgument(a.Name, a.NameRange, a.Expr)
	}
	for _, b := range body.Blocks {
		if slices.Contains(blocks, b.Type) {
			continue
		}
		hint := d.report.suggest(b.Type, slices.Values(blocks))
		if slices.Contains(allowed, b.Type) {
			hint = fmt.Sprintf(" %s is an argument: write %s = { ... }.", b.Type, b.Type)
		}
		d.report.errorf(b.TypeRange, address, "No such block here", "%s has no block %q.%s", address, b.Type, hint)
	}
	return out
}

func (d *decoder) profile(b *hclsyntax.Block) {
	args := d.arguments(b.Body, "profile", []string{"description", "extends", "match", "variables"}, nil)
	h := &header{match: args["match"]}
	d.doc.header = h
	if a := args["description"]; a != nil {
		h.description, _ = d.literalString(a.expr, "profile", "description")
	}
	if a := args["extends"]; a != nil {
		list, ok := a.expr.(*hclsyntax.TupleConsExpr)
		if !ok {
			d.report.errorf(a.expr.Range(), "profile", "Not a list of names", `Write extends = ["NAME", ...].`)
			list = &hclsyntax.TupleConsExpr{}
		}
		for _, e := range list.Exprs {
			if name, ok := d.literalString(e, "profile", "a name in extends"); ok {
				h.extends = append(h.extends, parentRef{name, e.Range()})
			}
		}
	}
	if a := args["variables"]; a != nil {
		object, ok := a.expr.(*hclsyntax.ObjectConsExpr)
		if !ok {
			d.report.errorf(a.expr.Range(), "profile", "Not an object", "Write variables = { NAME = VALUE }.")
			return
		}
		for _, item := range object.Items {
			name := literalKey(item)
			if name == "" {
				d.report.errorf(item.KeyExpr.Range(), "profile", "Not a name", "A key of variables is the name of a variable.")
				continue
			}
			if d.firstAt("setting of var."+name, item.KeyExpr.Range()) {
				h.variables = append(h.variables, newArgument(name, item.KeyExpr.Range(), item.ValueExpr))
			}
		}
	}
}

func (d *decoder) variable(b *hclsyntax.Block) {
	name := b.Labels[0]
	address := "var." + name
	args := d.arguments(b.Body, address, []string{"type", "default", "description"}, []string{"validation"})
	v := &variable{name: name, place: b.DefRange(), fallback: args["default"]}
	if a := args["description"]; a != nil {
		d.literalString(a.expr, address, "description")
	}
	if a := args["type"]; a != nil {
		typ, defaults, diags := typeexpr.TypeConstraintWithDefaults(a.expr)
		d.report.hcl(diags, address)
		if !diags.HasErrors() {
			v.typ, v.defaults = typ, defaults
		}
	}
	for _, child := range b.Body.Blocks {
		if child.Type != "validation" {
			continue
		}
		inner := d.arguments(child.Body, address, []string{"condition", "error_message"}, nil)
		if inner["condition"] == nil || inner["error_message"] == nil {
			d.report.errorf(child.DefRange(), address, "Missing argument", "A validation has a condition and an error_message.")
			continue
		}
		if message, ok := d.literalString(inner["error_message"].expr, address, "error_message"); ok {
			v.conditions = append(v.conditions, condition{inner["condition"], message})
		}
	}
	d.doc.variables[name] = v
}

func (d *decoder) locals(b *hclsyntax.Block) {
	for _, child := range b.Body.Blocks {
		d.report.errorf(child.TypeRange, "locals", "No such block here", "locals has arguments only: NAME = VALUE.")
	}
	for _, a := range sortedAttributes(b.Body) {
		if d.firstAt("local."+a.Name, a.NameRange) {
			d.doc.locals[a.Name] = newArgument(a.Name, a.NameRange, a.Expr)
		}
	}
}

func (d *decoder) selector(b *hclsyntax.Block) {
	name := b.Labels[0]
	args := d.arguments(b.Body, "selector."+name, []string{"nics", "include", "exclude", "expect"}, nil)
	d.doc.selectors[name] = &selector{
		name: name, place: b.DefRange(),
		nics: args["nics"], include: args["include"], exclude: args["exclude"], expect: args["expect"],
	}
}

func (d *decoder) typed(b *hclsyntax.Block, typ plan.Type, labels []string, written string) {
	spec := typ.Spec()
	want := 0
	if spec.Label == plan.LabelRequired {
		want = 1
		written += ` "LABEL"`
	}
	if len(labels) != want {
		detail := fmt.Sprintf("Write %s { ... }.", written)
		if want == 1 && spec.LabelDoc != "" {
			detail += " The label is " + strings.TrimSuffix(spec.LabelDoc, ".") + "."
		}
		d.report.errorf(b.DefRange(), "", "Wrong number of labels", "%s", detail)
		return
	}
	out := &block{typ: typ, spec: spec, place: b.DefRange(), arguments: map[string][]*argument{}}
	if want == 1 {
		out.label = labels[0]
		if out.label == "" {
			d.report.errorf(b.LabelRanges[len(b.LabelRanges)-1], "", "Empty label", "Write %s { ... }.", written)
			return
		}
	}
	out.address = addressOf(spec, out.label)
	if !d.first(out.address, b) {
		return
	}
	names := slices.Clone(metaArguments)
	for _, a := range spec.Attributes {
		names = append(names, a.Name)
	}
	args := d.arguments(b.Body, out.address, names, []string{"waive"})
	if a := args["drop"]; a != nil {
		delete(args, "drop")
		drop, ok := literal(a.expr)
		switch {
		case !ok || drop.Type() != cty.Bool:
			d.report.errorf(a.expr.Range(), out.address, "Not true or false", "drop is true or false as it stands, not computed.")
		case drop.True() && len(b.Body.Attributes) > 1:
			d.report.errorf(a.place, out.address, "Dropped block with arguments", "drop = true takes the inherited block out; other arguments do nothing.")
		case drop.True():
			out.drop = a
		}
	}
	if a := args["depends_on"]; a != nil && !isNull(a.expr) {
		out.dependsOn = d.references(a.expr, out.address)
	}
	for name, a := range args {
		if object, written := a.expr.(*hclsyntax.ObjectConsExpr); written && out.keyed(name) {
			a.metered = meterItems(object)
		}
		out.arguments[name] = []*argument{a}
	}
	d.waive(b, out)
	d.doc.blocks = append(d.doc.blocks, out)
}

// addressOf is a block's address.
func addressOf(spec plan.Spec, label string) string {
	return strings.TrimSuffix(spec.Key(), spec.Name) + plan.Address(spec.Name, label)
}

func (d *decoder) waive(b *hclsyntax.Block, out *block) {
	for _, child := range b.Body.Blocks {
		if child.Type != "waive" {
			continue
		}
		if out.waive != nil {
			d.report.errorf(child.DefRange(), out.address, "Duplicate", "waive was declared at %s before.", originOf(out.waive.place))
			continue
		}
		d.labels(child, 0, "waive")
		args := d.arguments(child.Body, out.address, []string{"reason", "until"}, nil)
		out.waive = &waiveBlock{place: child.DefRange(), reason: args["reason"], until: args["until"]}
		if out.waive.reason == nil {
			d.report.errorf(child.DefRange(), out.address, "Missing argument", "waive has no reason: say why the findings are accepted.")
		}
	}
}

// references reads depends_on.
func (d *decoder) references(e hclsyntax.Expression, address string) []reference {
	list, ok := e.(*hclsyntax.TupleConsExpr)
	if !ok {
		d.report.errorf(e.Range(), address, "Not a list of addresses", "Write depends_on = [TYPE.LABEL, ...].")
		return nil
	}
	var out []reference
	for _, item := range list.Exprs {
		ref, ok := d.reference(item)
		if !ok {
			d.report.errorf(item.Range(), address, "Not an address", `An address is TYPE, TYPE.LABEL, TYPE["LABEL"], check.TYPE.LABEL or proof.TYPE.LABEL, without quotes around it.`)
			continue
		}
		if ref.unknownType != "" {
			d.report.errorf(ref.place, address, "No such block type", "There is no block type %q.%s", ref.unknownType, d.report.choice(ref.unknownType, "The block types are", d.types.names()))
			continue
		}
		out = append(out, ref)
	}
	return out
}

func (d *decoder) reference(e hclsyntax.Expression) (reference, bool) {
	traversal, diags := hcl.AbsTraversalForExpr(e)
	if diags.HasErrors() {
		return reference{}, false
	}
	var steps []string
	for _, t := range traversal {
		switch t := t.(type) {
		case hcl.TraverseRoot:
			steps = append(steps, t.Name)
		case hcl.TraverseAttr:
			steps = append(steps, t.Name)
		case hcl.TraverseIndex:
			if t.Key.Type() != cty.String {
				return reference{}, false
			}
			steps = append(steps, t.Key.AsString())
		}
	}
	ref := reference{place: e.Range()}
	prefix, table := "", d.types.blocks
	if types := d.types.judging[steps[0]]; types != nil && len(steps) > 1 {
		prefix, table, steps = steps[0]+".", types, steps[1:]
	}
	typ, ok := table[steps[0]]
	label := ""
	rest := steps[1:]
	if len(rest) > 0 && (!ok || typ.Spec().Label == plan.LabelRequired) {
		label, rest = rest[0], rest[1:]
	}
	ref.address = prefix + plan.Address(steps[0], label)
	if !ok {
		ref.unknownType = steps[0]
	}
	if len(rest) > 0 {
		ref.key, ref.hasKey = rest[0], true
		rest = rest[1:]
	}
	return ref, len(rest) == 0
}

// literalString is the string that e is without evaluation.
func (d *decoder) literalString(e hclsyntax.Expression, address, what string) (string, bool) {
	v, ok := literal(e)
	if !ok || v.IsNull() || v.Type() != cty.String {
		d.report.errorf(e.Range(), address, "Not a string", "%s is a string as it stands, not computed.", what)
		return "", false
	}
	return v.AsString(), true
}

// literal is the value of an expression that is a literal.
func literal(e hclsyntax.Expression) (cty.Value, bool) {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val, !e.Val.IsNull()
	case *hclsyntax.TemplateExpr:
		var b strings.Builder
		for _, part := range e.Parts {
			l, ok := part.(*hclsyntax.LiteralValueExpr)
			if !ok || l.Val.Type() != cty.String {
				return cty.NilVal, false
			}
			b.WriteString(l.Val.AsString())
		}
		return cty.StringVal(b.String()), true
	case *hclsyntax.ParenthesesExpr:
		return literal(e.Expression)
	}
	return cty.NilVal, false
}

// isNull reports whether e is null as it stands.
func isNull(e hclsyntax.Expression) bool {
	l, ok := e.(*hclsyntax.LiteralValueExpr)
	return ok && l.Val.IsNull()
}

// literalKey is the key of an object's item when it is written out, or empty.
func literalKey(item hclsyntax.ObjectConsItem) string {
	key, ok := item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return ""
	}
	if !key.ForceNonLiteral {
		if name := hcl.ExprAsKeyword(key.Wrapped); name != "" {
			return name
		}
	}
	if v, ok := literal(key.Wrapped); ok && v.Type() == cty.String {
		return v.AsString()
	}
	return ""
}

func sortedAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(body.Attributes))
	for _, a := range body.Attributes {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *hclsyntax.Attribute) int { return a.NameRange.Start.Byte - b.NameRange.Start.Byte })
	return out
}
