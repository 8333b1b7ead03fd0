package profiles

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of what is read and evaluated. Profiles are read at boot by root: a broken one
// must cost a message, not the memory of the machine.
const (
	// maxSource is the size of a profile's text, with all that it extends, in bytes.
	maxSource = 1 << 20
	// maxDeclared is how many blocks, locals, or keys of one kind a profile can have.
	maxDeclared = 4096
	// maxName is the length of an identifier or a label in bytes.
	maxName = 256
	// maxDepth is the depth of the syntax tree; the parser and the evaluator recurse.
	maxDepth = 256
	// maxPieces is how many lines and pieces one text can have: HCL puts them together
	// one by one.
	maxPieces = 1024
	// maxNumber is the length of a number as written; maxExponent of its exponent.
	maxNumber, maxExponent = 64, 3
	// maxInstances is how many blocks one for_each can make, and how many elements an
	// argument can have.
	maxInstances = 1024
	// maxWork is the work of one evaluation, about the bytes of all values computed.
	maxWork = 4 << 20
	// fewTypes is how many types can be compared with each other at no cost to speak of.
	fewTypes = 16
	// regexpWork is the work of a regular expression beside that of its result.
	regexpWork = 1 << 10
)

// parse reads the text of a profile; the first mistake in it ends reading.
func parse(filename string, src []byte) (*hclsyntax.Body, *hcl.Diagnostic) {
	if d := checkSource(filename, src); d != nil {
		return nil, d
	}
	file, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos)
	if d := firstError(diags); d != nil {
		return nil, d
	}
	return file.Body.(*hclsyntax.Body), nil
}

// parseExpression reads an expression given apart from a file.
func parseExpression(filename string, src []byte, start hcl.Pos) (hclsyntax.Expression, *hcl.Diagnostic) {
	if d := checkSource(filename, src); d != nil {
		return nil, d
	}
	expr, diags := hclsyntax.ParseExpression(src, filename, start)
	if d := firstError(diags); d != nil {
		return nil, d
	}
	return expr, nil
}

// firstError is the error that stands first in the text, nil when there is none.
func firstError(diags hcl.Diagnostics) *hcl.Diagnostic {
	var first *hcl.Diagnostic
	for _, d := range diags {
		if d.Severity == hcl.DiagError && (first == nil || d.Subject.Start.Byte < first.Subject.Start.Byte) {
			first = d
		}
	}
	return first
}

// checkSource finds what the parser must not be given.
func checkSource(filename string, src []byte) *hcl.Diagnostic {
	problem := func(start, end hcl.Pos, summary, detail string) *hcl.Diagnostic {
		return &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: summary, Detail: detail,
			Subject: &hcl.Range{Filename: filename, Start: start, End: end},
		}
	}
	at := func(offset int) hcl.Pos {
		line := bytes.Count(src[:offset], []byte("\n")) + 1
		column := utf8.RuneCount(src[bytes.LastIndexByte(src[:offset], '\n')+1:offset]) + 1
		return hcl.Pos{Line: line, Column: column, Byte: offset}
	}
	if len(src) > maxSource {
		return problem(hcl.InitialPos, hcl.InitialPos, "Profile too large",
			fmt.Sprintf("The text has %d bytes; a profile has at most %d.", len(src), maxSource))
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return problem(at(i), at(i), "Not a text", "The file holds a NUL byte.")
	}
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return problem(at(i), at(i), "Not UTF-8", fmt.Sprintf("Byte 0x%02x is not UTF-8.", src[i]))
		}
		i += size
	}
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	return checkTokens(tokens, problem)
}

// checkTokens bounds the depth of the syntax tree that tokens can make: brackets, and in
// one bracket the operators between two separators, which chain or nest.
func checkTokens(tokens hclsyntax.Tokens, problem func(start, end hcl.Pos, summary, detail string) *hcl.Diagnostic) *hcl.Diagnostic {
	type level struct {
		chain    int
		newlines bool // a newline separates
		pieces   int  // of text
	}
	levels := []level{{newlines: true}}
	depth := 0
	for _, t := range tokens {
		top := &levels[len(levels)-1]
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			top.chain++
			depth++
			levels = append(levels, level{newlines: t.Type == hclsyntax.TokenOBrace})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			if len(levels) > 1 {
				depth -= top.chain
				levels = levels[:len(levels)-1]
			}
		case hclsyntax.TokenComma:
			depth -= top.chain
			top.chain = 0
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			// A comment up to the end of the line has the line break in it.
			if top.newlines && bytes.HasSuffix(t.Bytes, []byte("\n")) {
				depth -= top.chain
				top.chain = 0
			}
		case hclsyntax.TokenIdent:
			if len(t.Bytes) > maxName {
				return problem(t.Range.Start, t.Range.End, "Name too long", fmt.Sprintf("A name has at most %d bytes.", maxName))
			}
		case hclsyntax.TokenNumberLit:
			mantissa, exponent, _ := bytes.Cut(bytes.ToLower(t.Bytes), []byte("e"))
			if len(mantissa) > maxNumber || len(bytes.TrimLeft(exponent, "+-")) > maxExponent {
				return problem(t.Range.Start, t.Range.End, "Number too long",
					fmt.Sprintf("A number has at most %d digits and an exponent of at most %d digits.", maxNumber, maxExponent))
			}
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit:
			if top.pieces++; top.pieces > maxPieces {
				return problem(t.Range.Start, t.Range.End, "Text too long", fmt.Sprintf("A text has at most %d lines or pieces.", maxPieces))
			}
		case hclsyntax.TokenEqual, hclsyntax.TokenEOF:
		default:
			top.chain++
			depth++
		}
		if depth > maxDepth {
			return problem(t.Range.Start, t.Range.End, "Nested too deeply",
				fmt.Sprintf("More than %d brackets and operators stand inside one another.", maxDepth))
		}
	}
	return nil
}

// budget is what is left of the work of one evaluation.
type budget struct {
	left int
	told bool
}

// budgetName is the name of the budget among the variables of an evaluation; no
// reference can have it.
const budgetName = ""

var budgetType = sync.OnceValue(func() cty.Type { return cty.Capsule("budget", reflect.TypeFor[budget]()) })

// spend takes work; nothing is left when it returns false. That is an error once.
func (b *budget) spend(work int, place hcl.Range) (ok bool, diags hcl.Diagnostics) {
	if b.left -= work; b.left > 0 {
		return true, nil
	}
	if !b.told {
		b.told = true
		diags = hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Too much to compute",
			Detail:  fmt.Sprintf("The values of this profile have more than about %d MiB in all, or long lists of unlike elements.", maxWork>>20),
			Subject: &place,
		}}
	}
	return false, diags
}

func budgetOf(ctx *hcl.EvalContext) *budget {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[budgetName]; ok {
			return v.EncapsulatedValue().(*budget)
		}
	}
	return &budget{}
}

// metered is an expression whose value is charged to the evaluation's budget.
type metered struct {
	hclsyntax.Expression
	// references are those of the expression; HCL does not find them below metered ones.
	references []hcl.Traversal
	// work is what it takes besides its value.
	work int
}

// Variables are the references of the expression, for one that meterWhole returned.
func (m metered) Variables() []hcl.Traversal { return m.references }

// Value is unknown, with one error in all, when the budget is used up.
func (m metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	b := budgetOf(ctx)
	if ok, diags := b.spend(m.work, m.Range()); !ok {
		return cty.DynamicVal, diags
	}
	v, diags := m.Expression.Value(ctx)
	if ok, more := b.spend(weight(v), m.Range()); !ok {
		return cty.DynamicVal, append(diags, more...)
	}
	return v, diags
}

// operand is an expression whose type HCL brings together with others, or whose
// elements' types with each other: it compares all pairs.
type operand struct {
	hclsyntax.Expression
	// expanded: each element is an argument.
	expanded bool
}

// Value is a list or a map where a long tuple or object has elements of one type: of
// these nothing is compared.
func (o operand) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := o.Expression.Value(ctx)
	if size(v.Type(), fewTypes) == fewTypes {
		v = level(v)
	}
	n := size(v.Type(), math.MaxInt)
	if o.expanded {
		n += elements(v)
	}
	if ok, more := budgetOf(ctx).spend(n*n, o.Range()); !ok {
		return cty.DynamicVal, append(diags, more...)
	}
	return v, diags
}

// level makes lists and maps of the tuples and objects in v whose elements are of one type.
func level(v cty.Value) cty.Value {
	v, marks := v.Unmark()
	t := v.Type()
	if !v.IsKnown() || v.IsNull() || !t.IsTupleType() && !t.IsObjectType() || v.LengthInt() == 0 {
		return v.WithMarks(marks)
	}
	keys := make([]string, 0, v.LengthInt())
	values := make([]cty.Value, 0, v.LengthInt())
	alike := true
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		element = level(element)
		if t.IsObjectType() {
			keys = append(keys, key.AsString())
		}
		values = append(values, element)
		alike = alike && element.Type().Equals(values[0].Type()) && !element.Type().HasDynamicTypes()
	}
	switch {
	case t.IsTupleType() && alike:
		v = cty.ListVal(values)
	case t.IsTupleType():
		v = cty.TupleVal(values)
	default:
		attributes := map[string]cty.Value{}
		for i, key := range keys {
			attributes[key] = values[i]
		}
		if v = cty.ObjectVal(attributes); alike {
			v = cty.MapVal(attributes)
		}
	}
	return v.WithMarks(marks)
}

// size is how many types t is made of; counting ends at most.
func size(t cty.Type, most int) int {
	n := 1
	switch {
	case t.IsTupleType():
		for _, e := range t.TupleElementTypes() {
			if n >= most {
				break
			}
			n += size(e, most-n)
		}
	case t.IsObjectType():
		for _, a := range t.AttributeTypes() {
			if n >= most {
				break
			}
			n += size(a, most-n)
		}
	case t.IsCollectionType():
		n += size(t.ElementType(), most-n)
	}
	return n
}

// weight is about the size of v in bytes.
func weight(v cty.Value) int {
	const each = 16
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown() || v.IsNull():
		return each
	case v.Type() == cty.String:
		return each + len(v.AsString())
	case v.Type() == cty.Number:
		// An exponent of e bits is written with e/3.3 digits.
		exponent := v.AsBigFloat().MantExp(nil)
		return each + max(exponent, -exponent)/3
	case !v.CanIterateElements():
		return each
	}
	sum := each
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		sum += weight(element)
	}
	return sum
}

// meterWhole meters an expression that is evaluated for itself.
func meterWhole(e hclsyntax.Expression) hclsyntax.Expression {
	references := e.Variables()
	e = meter(e)
	whole, already := e.(metered)
	if !already {
		whole = metered{Expression: e}
	}
	whole.references = references
	return whole
}

// meterItems is an object whose items are evaluated one by one, metered.
func meterItems(e *hclsyntax.ObjectConsExpr) *hclsyntax.ObjectConsExpr {
	return meterObject(e, meterWhole)
}

func meterObject(e *hclsyntax.ObjectConsExpr, meter func(hclsyntax.Expression) hclsyntax.Expression) *hclsyntax.ObjectConsExpr {
	out := *e
	out.Items = slices.Clone(e.Items)
	for i, item := range e.Items {
		if key, ok := item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr); ok && literalKey(item) == "" {
			computed := *key
			computed.Wrapped = meter(key.Wrapped)
			out.Items[i].KeyExpr = &computed
		}
		out.Items[i].ValueExpr = meter(item.ValueExpr)
	}
	return &out
}

// meter is e with a charge on whatever can multiply: references, calls, templates and the collections of loops. It is a copy: what
// stands in a file is evaluated metered, and checked as it is.
func meter(e hclsyntax.Expression) hclsyntax.Expression {
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return metered{Expression: e}
	case *hclsyntax.FunctionCallExpr:
		out := *e
		out.Args = meterAll(e.Args)
		for i, a := range out.Args {
			out.Args[i] = operand{a, e.ExpandFinal && i == len(e.Args)-1}
		}
		work := len(e.Args) * len(e.Args)
		if e.Name == "regex" || e.Name == "regexall" {
			work += regexpWork
		}
		return metered{Expression: &out, work: work}
	case *hclsyntax.TemplateExpr:
		out := *e
		out.Parts = meterAll(e.Parts)
		return metered{Expression: &out}
	case *hclsyntax.TemplateJoinExpr:
		out := *e
		out.Tuple = meter(e.Tuple)
		return metered{Expression: &out}
	case *hclsyntax.TemplateWrapExpr:
		out := *e
		out.Wrapped = meter(e.Wrapped)
		return &out
	case *hclsyntax.ForExpr:
		out := *e
		out.CollExpr, out.ValExpr = metered{Expression: meter(e.CollExpr)}, meter(e.ValExpr)
		if e.KeyExpr != nil {
			out.KeyExpr = meter(e.KeyExpr)
		}
		if e.CondExpr != nil {
			out.CondExpr = meter(e.CondExpr)
		}
		return &out
	case *hclsyntax.SplatExpr:
		out := *e
		out.Source, out.Each = metered{Expression: meter(e.Source)}, meter(e.Each)
		return &out
	case *hclsyntax.RelativeTraversalExpr:
		out := *e
		out.Source = meter(e.Source)
		return &out
	case *hclsyntax.ConditionalExpr:
		out := *e
		out.Condition = meter(e.Condition)
		out.TrueResult, out.FalseResult = operand{Expression: meter(e.TrueResult)}, operand{Expression: meter(e.FalseResult)}
		return &out
	case *hclsyntax.IndexExpr:
		out := *e
		out.Collection, out.Key = meter(e.Collection), meter(e.Key)
		return &out
	case *hclsyntax.TupleConsExpr:
		out := *e
		out.Exprs = meterAll(e.Exprs)
		return &out
	case *hclsyntax.ObjectConsExpr:
		return meterObject(e, meter)
	case *hclsyntax.BinaryOpExpr:
		out := *e
		out.LHS, out.RHS = meter(e.LHS), meter(e.RHS)
		return &out
	case *hclsyntax.UnaryOpExpr:
		out := *e
		out.Val = meter(e.Val)
		return &out
	case *hclsyntax.ParenthesesExpr:
		out := *e
		out.Expression = meter(e.Expression)
		return &out
	}
	return e
}

func meterAll(list []hclsyntax.Expression) []hclsyntax.Expression {
	out := make([]hclsyntax.Expression, len(list))
	for i, e := range list {
		out[i] = meter(e)
	}
	return out
}
