package mstconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// NotAvailable is what the tool prints where it has no value.
const NotAvailable = "N/A"

var (
	named      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([^\s()]*)\(([0-9]+)\)$`) })
	arrayValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Array\[([0-9]{1,6})\.\.([0-9]{1,6})\]$`) })
	setting    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?:\[([0-9]{1,6})(?:\.\.([0-9]{1,6}))?\])?$`)
	})
	settable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.:/+-]+(\([0-9]+\))?$`) })
)

// Equal reports whether a printed value is the wanted one. ETH(2) is ETH, eth, 2, 0x2 and ETH(2); True(1) is true and 1. A wanted
// number is compared with the number, as the tool does when it sets one (EnumParamValue::parseValue in
// mlxconfig/mlxcfg_param.cpp).
func Equal(printed, want string) bool {
	if strings.EqualFold(printed, want) {
		return true
	}
	name, number := printed, printed
	if m := named().FindStringSubmatch(printed); m != nil {
		name, number = m[1], m[2]
	}
	w, err := strconv.ParseUint(want, 0, 64)
	if err != nil {
		return strings.EqualFold(name, want)
	}
	n, err := strconv.ParseUint(number, 0, 64)
	return err == nil && n == w
}

// CheckValue says why a value cannot be wanted: the tool could not be told it.
func CheckValue(want string) error {
	if !settable().MatchString(want) {
		return fmt.Errorf("%q is no value of a parameter: write a number, true, false, or a name that the tool shows (ETH)", want)
	}
	return nil
}

// Assignment is the argument that makes the tool set a parameter, quoted for a shell where it must be.
func Assignment(name, want string) string {
	if m := named().FindStringSubmatch(want); m != nil {
		want = m[2] // the tool shows name and number, and takes either
	}
	argument := name + "=" + want
	if strings.Contains(argument, "[") {
		return "'" + argument + "'"
	}
	return argument
}

// maxElements is more than any array has (mlxconfig/mlxconfig_dbs).
const maxElements = 4096

// Elements are the parameters that a name stands for: itself, or NAME[0], NAME[1] ... for NAME[0..7].
func Elements(name string) ([]string, error) {
	m := setting().FindStringSubmatch(name)
	if m == nil {
		return nil, fmt.Errorf("%q is no parameter: write NAME, NAME[INDEX] or NAME[FIRST..LAST]", name)
	}
	if m[3] == "" {
		return []string{name}, nil
	}
	// The expression lets only numbers through that are small enough.
	first, _ := strconv.Atoi(m[2])
	last, _ := strconv.Atoi(m[3])
	if last < first || last-first >= maxElements {
		return nil, fmt.Errorf("%q is no range of elements", name)
	}
	var list []string
	for i := first; i <= last; i++ {
		list = append(list, fmt.Sprintf("%s[%d]", m[1], i))
	}
	return list, nil
}

// IsArray reports whether a printed value stands for the elements of an array, Array[0..7].
func IsArray(printed string) bool { return arrayValue().MatchString(printed) }

// ArrayName is the array that NAME[3] is an element of; false for what is no element.
func ArrayName(name string) (string, bool) {
	base, _, element := strings.Cut(name, "[")
	return base, element
}

// Arrays are the arguments that ask for the elements of every array in the table, NAME[0..7], sorted.
func (t Table) Arrays() []string {
	var list []string
	for name, v := range t.Parameters {
		if m := arrayValue().FindStringSubmatch(v.NextBoot); m != nil {
			list = append(list, fmt.Sprintf("%s[%s..%s]", name, m[1], m[2]))
		}
	}
	slices.Sort(list)
	return list
}
