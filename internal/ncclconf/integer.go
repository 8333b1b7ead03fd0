package ncclconf

import (
	"fmt"
	"strconv"
	"strings"
)

// blanks are what isspace(3) accepts in the C locale.
const blanks = " \t\n\v\f\r"

// integer is a value taken apart the way strtoll(3) with base 0 does.
type integer struct {
	n        int64
	digits   string // with sign and base prefix; empty: no integer at all
	junk     string // what follows the digits, ignored by NCCL
	blank    bool   // blanks before the digits
	octal    bool   // a leading zero made it octal, and that changes the number
	overflow bool   // beyond 64 bits: NCCL keeps its default
}

// readInteger does what ncclLoadParam does with a value (src/misc/param.cc):
// strtoll(value, NULL, 0).
func readInteger(value string) integer {
	rest := strings.TrimLeft(value, blanks)
	r := integer{blank: len(rest) < len(value)}
	start := rest
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	sign := start[:len(start)-len(rest)]
	base, digits := 10, "0123456789"
	switch {
	case len(rest) > 2 && rest[0] == '0' && rest[1]|0x20 == 'x' && strings.IndexByte(hexDigits, rest[2]) >= 0:
		base, digits, rest = 16, hexDigits, rest[2:]
	case rest != "" && rest[0] == '0':
		base, digits = 8, "01234567"
	}
	number := rest[:len(rest)-len(strings.TrimLeft(rest, digits))]
	r.junk = rest[len(number):]
	if number == "" {
		r.junk = value
		return r
	}
	r.digits = start[:len(start)-len(r.junk)]
	n, err := strconv.ParseInt(sign+number, base, 64)
	if r.overflow = err != nil; r.overflow {
		return r
	}
	r.n = n
	r.octal = base == 8 && (r.n > 7 || r.n < -7 || r.junk != "" && (r.junk[0] == '8' || r.junk[0] == '9'))
	return r
}

const hexDigits = "0123456789abcdefABCDEF"

// Int gives the integer that NCCL reads from value: strtoll(3) with base 0,
// which ignores leading blanks and trailing junk, takes 0x10 as 16 and 010 as
// 8, and reads text that is no number as 0 without a word. exact says that the
// value means what it looks like; otherwise note says what NCCL does. A number
// beyond 64 bits is not exact either: NCCL keeps the key's default, and n is 0.
func Int(value string) (n int64, exact bool, note string) {
	r := readInteger(value)
	switch {
	case value == "":
		return 0, false, "empty: NCCL keeps its default"
	case r.digits == "":
		return 0, false, "not a number: NCCL reads 0"
	case r.overflow:
		return 0, false, "beyond 64 bits: NCCL keeps its default"
	case r.octal:
		return r.n, false, fmt.Sprintf("a leading zero means octal: NCCL reads %d", r.n)
	case r.junk != "":
		return r.n, false, fmt.Sprintf("NCCL reads %d and ignores %s", r.n, Show(r.junk))
	case r.blank:
		return r.n, false, fmt.Sprintf("NCCL reads %d and ignores the blanks before it", r.n)
	}
	return r.n, true, ""
}
