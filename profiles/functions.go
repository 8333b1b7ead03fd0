package profiles

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
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
		"distinct":        stdlib.DistinctFunc,
		"element":         stdlib.ElementFunc,
		"endswith":        stringTest("suffix", strings.HasSuffix),
		"flatten":         stdlib.FlattenFunc,
		"floor":           stdlib.FloorFunc,
		"format":          bounded(stdlib.FormatFunc, refuseWideVerbs),
		"formatlist":      bounded(stdlib.FormatListFunc, refuseWideVerbs),
		"join":            bounded(stdlib.JoinFunc, nil),
		"keys":            stdlib.KeysFunc,
		"length":          stdlib.LengthFunc,
		"lookup":          stdlib.LookupFunc,
		"lower":           stdlib.LowerFunc,
		"max":             stdlib.MaxFunc,
		"merge":           stdlib.MergeFunc,
		"min":             stdlib.MinFunc,
		"parseint":        stdlib.ParseIntFunc,
		"range":           stdlib.RangeFunc,
		"regex":           stdlib.RegexFunc,
		"regexall":        stdlib.RegexAllFunc,
		"replace":         bounded(stdlib.ReplaceFunc, nil),
		"reverse":         stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc,
		"setsubtract":     stdlib.SetSubtractFunc,
		"setunion":        stdlib.SetUnionFunc,
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
		"trim":            stdlib.TrimFunc,
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

// maxMultiplied bounds the arguments of functions whose result can be as long as the
// product of its arguments, in bytes of strings and elements of lists.
const maxMultiplied = 16 << 10

// bounded makes f refuse arguments that could make its result huge; refuse, when not
// nil, sees them too.
func bounded(f function.Function, refuse func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params:      f.Params(),
		VarParam:    f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			size := 0
			for _, a := range args {
				size += multiplied(a)
			}
			if size > maxMultiplied {
				return cty.NilType, fmt.Errorf("arguments of more than %d bytes", maxMultiplied)
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
