// Package plan holds the vocabulary in which block types judge a node and say
// what to change (Block, Finding, Contribution, Step, the Type interface), and
// the planner that puts their answers together. It does no I/O.
package plan

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"busbar/node"
)

// Origin is the place in a profile where something was written.
type Origin struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// String is FILE:LINE.
func (o Origin) String() string { return fmt.Sprintf("%s:%d", o.File, o.Line) }

// Block is one block of a profile, evaluated for one node.
type Block struct {
	// Address is TYPE, TYPE.LABEL, check.TYPE.LABEL or proof.TYPE.LABEL; for_each appends ["key"].
	Address string
	// Type is the block type's name, without "check." or "proof.".
	Type string
	// Label is the block's label, empty where the type has none.
	Label string
	// Attributes has every attribute of the type's table, conforming to its type;
	// null where it was neither set nor has a default.
	Attributes map[string]cty.Value
	// Withheld are the attributes, and keys of object attributes, that hang on
	// something unknown. They are null or missing in Attributes.
	Withheld []Withheld
	// Origin of the block, and of attributes ("settings") and their keys ("settings.NCCL_DEBUG").
	Origin  Origin
	Origins map[string]Origin
	// Undecided says why it is not known whether the block applies (its when
	// hangs on something unknown); Needs is what would tell. Empty when it applies.
	Undecided string
	Needs     string

	Severity  Severity
	Optional  []string
	Waive     *Waiver
	DependsOn []string
}

// Withheld is an attribute that could not be computed on this node.
type Withheld struct {
	// Attribute, and the key in it when only that key is withheld.
	Attribute, Key string
	Reason         string
	// Needs is the capability that would make it known, or empty.
	Needs string
	// Sets are names of what a list has elements of, as the profile's author writes them, its own first:
	// selector.rails, node.rails, selector.rails[*].address. Two lists with a name in common have
	// elements in common on every node on which both have any.
	Sets []string
	// Expect is how many elements a list has wherever it is known; 0 where nothing says it.
	Expect int
}

// Waiver accepts a block's findings for a while. It is about the verdict alone, which does not
// count them: apply still does what it can for the block.
type Waiver struct {
	Reason string
	// Until is when the waiver ends; zero for never.
	Until time.Time
}

// holds reports whether the waiver covers findings observed at now.
func (w *Waiver) holds(now time.Time) bool { return w.Until.IsZero() || now.Before(w.Until) }

// at is what the waiver says at now: its reason, and its end or that it has ended.
func (w *Waiver) at(now time.Time) string {
	day := w.Until.UTC().Format(time.DateOnly)
	switch {
	case w.Until.IsZero():
		return w.Reason
	case w.holds(now):
		return w.Reason + " (until " + day + ")"
	default:
		return "ended " + day + ": " + w.Reason
	}
}

// Decode fills a struct whose fields carry `cty:"attribute"` tags from the block's
// attributes. Attributes were checked against the type's table before, so an
// error means that struct and table disagree.
func (b Block) Decode(into any) error {
	ty, err := gocty.ImpliedType(into)
	if err != nil {
		return fmt.Errorf("decoding %s: %w", b.Address, err)
	}
	attributes := map[string]cty.Value{}
	for name, want := range ty.AttributeTypes() {
		v, ok := b.Attributes[name]
		if !ok {
			v = cty.NullVal(want)
		}
		attributes[name] = v
	}
	if err := gocty.FromCtyValue(cty.ObjectVal(attributes), into); err != nil {
		return fmt.Errorf("decoding %s: %w", b.Address, err)
	}
	return nil
}

// Text is a text attribute, empty where it is withheld, null or none.
func (b Block) Text(attribute string) string {
	v := b.Attributes[attribute]
	if v == cty.NilVal || v.IsNull() || v.Type() != cty.String || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}

// OriginOf is where attribute was written, or its key, or else the block.
func (b Block) OriginOf(attribute, key string) Origin {
	if o, ok := b.Origins[attribute+"."+key]; ok && key != "" {
		return o
	}
	if o, ok := b.Origins[attribute]; ok {
		return o
	}
	return b.Origin
}

// ScalarText is the text of an attribute that may be a number or a string. Numbers must
// be whole, and null is neither.
func ScalarText(v cty.Value) (string, error) {
	switch {
	case v.IsNull():
		return "", errors.New("null is no value")
	case v.Type() == cty.String:
		return v.AsString(), nil
	case v.Type() == cty.Number:
		i, accuracy := v.AsBigFloat().Int(nil)
		if accuracy != big.Exact {
			return "", fmt.Errorf("%s is no whole number", v.AsBigFloat().Text('g', -1))
		}
		return i.String(), nil
	default:
		return "", fmt.Errorf("a %s is neither a number nor a string", kindOf(v))
	}
}

// kindOf names a value's type in the words of a profile's author.
func kindOf(v cty.Value) string {
	if v.Type().IsTupleType() {
		return "list"
	}
	return v.Type().FriendlyName()
}

// Entries are the elements of an attribute that is an object or a map; none when it is
// absent.
func (b Block) Entries(attribute string) (map[string]cty.Value, error) {
	v := b.Attributes[attribute]
	switch {
	case v == cty.NilVal || v.IsNull():
		return nil, nil
	case !v.Type().IsObjectType() && !v.Type().IsMapType():
		return nil, fmt.Errorf("a %s is no object; write %s = { KEY = value }", kindOf(v), attribute)
	default:
		return v.AsValueMap(), nil
	}
}

// IsWithheld returns what is withheld of an attribute (of one key of it when key is not empty).
func (b Block) IsWithheld(attribute, key string) (Withheld, bool) {
	for _, w := range b.Withheld {
		if w.Attribute == attribute && (w.Key == "" || w.Key == key) {
			return w, true
		}
	}
	return Withheld{}, false
}

// Address builds TYPE, TYPE.LABEL, or TYPE["LABEL"] where the label is no identifier.
func Address(blockType, label string) string {
	switch {
	case label == "":
		return blockType
	case hclsyntax.ValidIdentifier(label):
		return blockType + "." + label
	default:
		return blockType + "[" + strconv.Quote(label) + "]"
	}
}

// Type is a block type: what can be written in a profile, what it has to know of
// the node, and how it judges it. All methods are pure.
type Type interface {
	Spec() Spec
	// Queries are what Assess needs to know for block.
	Queries(block Block, inventory node.Inventory) []node.Query
	// Assess judges the node. facts answer nothing but Queries.
	Assess(block Block, facts node.Facts) Assessment
}

// Validator is a Type that finds more mistakes in a block than its attribute
// table can, without a node.
type Validator interface {
	Type
	// Validate sees the attributes that are known without a node; the others are null.
	Validate(block Block) []Problem
}

// Claimer is a Type whose blocks say things of the profile or the node that no other block may want otherwise, whether
// or not the node can be judged.
type Claimer interface {
	Type
	// Claims are facts, of FactSink. The inventory is empty where there is no node.
	Claims(block Block, inventory node.Inventory) []Contribution
}

// Problem is a mistake in a block.
type Problem struct {
	// Attribute, and Key in it, that hold the mistake; both empty for the block.
	Attribute, Key string
	// Warning: the profile still holds.
	Warning bool
	Summary string
	Detail  string
}

// LabelUse says whether a block type takes a label.
type LabelUse int

// Label uses.
const (
	NoLabel LabelUse = iota
	LabelRequired
)

// Spec is what a block type looks like in a profile. Docs, schema and completion
// are derived from it.
type Spec struct {
	// Name is the block type, without "check" or "proof".
	Name string
	// Check: written as check "NAME" "LABEL".
	Check bool
	// Proof: written as proof "NAME" "LABEL". Its queries have the machine do something, so that nothing but
	// busbar verify --probe asks them.
	Proof bool
	Label LabelUse
	// LabelDoc says what the label means.
	LabelDoc string
	Doc      string
	// Ceiling is the strongest effect that a step of this type can have.
	Ceiling    Effect
	Attributes []Attribute
	// Sinks are the names of those that blocks contribute to, FactSink aside.
	Sinks []string
}

// Keywords are the words before the names of block types that judge only.
var Keywords = []string{checkKeyword, proofKeyword}

const (
	checkKeyword = "check"
	proofKeyword = "proof"
)

// Keyword is the word before the type's name in a profile, one of Keywords or empty.
func (s Spec) Keyword() string {
	switch {
	case s.Check:
		return checkKeyword
	case s.Proof:
		return proofKeyword
	default:
		return ""
	}
}

// Key is the type's name in addresses: NAME, check.NAME or proof.NAME.
func (s Spec) Key() string {
	if keyword := s.Keyword(); keyword != "" {
		return keyword + "." + s.Name
	}
	return s.Name
}

// typeKey is the key of the block's type.
func (b Block) typeKey() string {
	for _, keyword := range Keywords {
		if strings.HasPrefix(b.Address, keyword+".") {
			return keyword + "." + b.Type
		}
	}
	return b.Type
}

// Attribute is one argument of a block type.
type Attribute struct {
	Name string
	// Type is the HCL type; an argument is converted to it without loss or refused.
	Type cty.Type
	Doc  string
	// Default is used when the argument is absent; cty.NilVal for none.
	Default  cty.Value
	Required bool
	// Enum lists the allowed strings; nil allows all.
	Enum []string
	// Min and Max bound numbers; nil for no bound.
	Min, Max *int64
	// Fraction: numbers need not be whole.
	Fraction bool
	// Example is an HCL expression.
	Example string
}

// Assessment is what a block type or a sink finds.
type Assessment struct {
	Findings      []Finding
	Contributions []Contribution
	Steps         []Step
}
