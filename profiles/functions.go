package profiles

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are what expressions may call: pure functions alone, so that a profile
// and a recording always give the same blocks.
var functions = sync.OnceValue(func() map[string]function.Function {
	return map[string]function.Function{
		"abs":             stdlib.AbsoluteFunc,
		"alltrue":         quantifier(false),
		"anytrue":         quantifier(true),
		"can":             tryfunc.CanFunc,
		"ceil":            stdlib.CeilFunc,
		"chomp":           stdlib.ChompFunc,
		"coalesce":        stdlib.CoalesceFunc,
		"coalescelist":    stdlib.CoalesceListFunc,
		"compact":         stdlib.CompactFunc,
		"concat":          stdlib.ConcatFunc,
		"contains":        stdlib.ContainsFunc,
		"distinct":        distinct,
		"element":         stdlib.ElementFunc,
		"endswith":        stringTest("suffix", strings.HasSuffix),
		"flatten":         stdlib.FlattenFunc,
		"floor":           stdlib.FloorFunc,
		"format":          bounded(stdlib.FormatFunc, maxMultiplied, refuseWideVerbs),
		"formatlist":      bounded(stdlib.FormatListFunc, maxMultiplied, refuseWideVerbs),
		"join":            bounded(stdlib.JoinFunc, maxMultiplied, nil),
		"keys":            stdlib.KeysFunc,
		"length":          stdlib.LengthFunc,
		"lookup":          stdlib.LookupFunc,
		"lower":           stdlib.LowerFunc,
		"max":             stdlib.MaxFunc,
		"merge":           stdlib.MergeFunc,
		"min":             stdlib.MinFunc,
		"parseint":        stdlib.ParseIntFunc,
		"range":           stdlib.RangeFunc,
		"regex":           bounded(stdlib.RegexFunc, maxMatched, refuseLargeRegexps),
		"regexall":        bounded(stdlib.RegexAllFunc, maxMatched, refuseLargeRegexps),
		"replace":         bounded(stdlib.ReplaceFunc, maxMultiplied, nil),
		"reverse":         stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc,
		"setsubtract":     stdlib.SetSubtractFunc,
		"setunion":        setUnion,
		"signum":          stdlib.SignumFunc,
		"slice":           stdlib.SliceFunc,
		"sort":            stdlib.SortFunc,
		"split":           stdlib.SplitFunc,
		"startswith":      stringTest("prefix", strings.HasPrefix),
		"strlen":          stdlib.StrlenFunc,
		"substr":          stdlib.SubstrFunc,
		"tobool":          stdlib.MakeToFunc(cty.Bool),
		"tolist":          stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":           stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber":        stdlib.MakeToFunc(cty.Number),
		"toset":           stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring":        stdlib.MakeToFunc(cty.String),
		"trim":            bounded(stdlib.TrimFunc, maxMultiplied, nil),
		"trimprefix":      stdlib.TrimPrefixFunc,
		"trimspace":       stdlib.TrimSpaceFunc,
		"trimsuffix":      stdlib.TrimSuffixFunc,
		"upper":           stdlib.UpperFunc,
		"try":             tryfunc.TryFunc,
		"values":          stdlib.ValuesFunc,
		"zipmap":          stdlib.ZipmapFunc,
	}
})

// Functions lists the names of the functions that expressions may call, sorted.
func Functions() []string { return sortedKeys(functions()) }

// stringTest is a function of a string and an affix.
func stringTest(affix string, test func(s, affix string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "string", Type: cty.String}, {Name: affix, Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(test(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// quantifier is anytrue (decisive true) or alltrue (decisive false): the first element
// that equals decisive decides, whatever the unknown ones are. Marks of unknown elements
// stay on the result while it is open.
func quantifier(decisive bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool), AllowMarked: true, AllowUnknown: true}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			list, marks := args[0].Unmark()
			if !list.IsKnown() {
				return cty.UnknownVal(cty.Bool).WithMarks(marks), nil
			}
			open := []cty.ValueMarks{}
			for it := list.ElementIterator(); it.Next(); {
				_, v := it.Element()
				v, own := v.Unmark()
				switch {
				case !v.IsKnown():
					open = append(open, own)
				case v.IsNull():
					return cty.NilVal, fmt.Errorf("an element is null")
				case v.True() == decisive:
					return cty.BoolVal(decisive), nil
				}
			}
			if len(open) > 0 {
				return cty.UnknownVal(cty.Bool).WithMarks(append(open, marks)...), nil
			}
			return cty.BoolVal(!decisive), nil
		},
	})
}

// distinct is a list without the elements that it has before, found by hash.
var distinct = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.List(cty.DynamicPseudoType)}},
	Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(t), nil
		}
		seen := map[int][]cty.Value{}
		var out []cty.Value
		for it := args[0].ElementIterator(); it.Next(); {
			_, v := it.Element()
			hash := v.Hash()
			if !slices.ContainsFunc(seen[hash], v.RawEquals) {
				seen[hash] = append(seen[hash], v)
				out = append(out, v)
			}
		}
		if len(out) == 0 {
			return cty.ListValEmpty(t.ElementType()), nil
		}
		return cty.ListVal(out), nil
	},
})

// setUnion is stdlib.SetUnionFunc, which makes a set anew for each argument, in one go.
var setUnion = function.New(&function.Spec{
	VarParam: stdlib.SetUnionFunc.VarParam(),
	Type:     stdlib.SetUnionFunc.ReturnTypeForValues,
	Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
		var all []cty.Value
		for _, arg := range args {
			set, err := convert.Convert(arg, t)
			if err != nil {
				return cty.NilVal, err
			}
			if !set.IsKnown() {
				return cty.UnknownVal(t), nil
			}
			all = append(all, set.AsValueSlice()...)
		}
		if len(all) == 0 {
			return cty.SetValEmpty(t.ElementType()), nil
		}
		return cty.SetVal(all), nil
	},
})

const (
	// maxMultiplied bounds the arguments of functions whose result or work can be as
	// large as the product of its arguments, in bytes of strings and elements of lists.
	maxMultiplied = 16 << 10
	// maxMatched is the same for regular expressions, and maxInstructions the size of one
	// as regexp compiles it: a short text can have a lot of them.
	maxMatched, maxInstructions = 1 << 10, 200
)

// bounded makes f refuse arguments that are larger than most in all; refuse, when not
// nil, sees them too.
func bounded(f function.Function, most int, refuse func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params:      f.Params(),
		VarParam:    f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			size := 0
			for _, a := range args {
				size += multiplied(a)
			}
			if size > most {
				return cty.NilType, fmt.Errorf("arguments of more than %d bytes", most)
			}
			if refuse != nil {
				if err := refuse(args); err != nil {
					return cty.NilType, err
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

func multiplied(v cty.Value) int {
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown() || v.IsNull():
		return 1
	case v.Type() == cty.String:
		return len(v.AsString()) + 1
	case !v.CanIterateElements():
		return 1
	}
	size := 1
	for it := v.ElementIterator(); it.Next() && size <= maxMultiplied; {
		_, element := it.Element()
		size += multiplied(element)
	}
	return size
}

// refuseWideVerbs refuses a format string in which a width or precision has four digits.
func refuseWideVerbs(args []cty.Value) error {
	format, _ := args[0].Unmark()
	if format.Type() != cty.String || !format.IsKnown() || format.IsNull() {
		return nil
	}
	for _, verb := range strings.Split(format.AsString(), "%")[1:] {
		digits := 0
		for _, r := range verb {
			switch {
			case '0' <= r && r <= '9':
				digits++
			case strings.ContainsRune("#+- .[]*", r):
				digits = 0
			default:
				digits = -len(verb)
			}
			if digits > 3 {
				return function.NewArgErrorf(0, "a width or precision of more than three digits")
			}
		}
	}
	return nil
}

// refuseLargeRegexps refuses a regular expression that takes long to compile and match.
func refuseLargeRegexps(args []cty.Value) error {
	pattern, _ := args[0].Unmark()
	if !pattern.IsKnown() || pattern.IsNull() {
		return nil
	}
	parsed, err := syntax.Parse(pattern.AsString(), syntax.Perl)
	if err != nil {
		return function.NewArgError(0, err)
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err == nil && len(compiled.Inst) > maxInstructions {
		return function.NewArgErrorf(0, "a regular expression of more than %d instructions", maxInstructions)
	}
	return err
}
