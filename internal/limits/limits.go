// Package limits reads and writes resource limits where a node keeps them:
// limits.conf(5) for logins, the Limit*= settings of systemd for services, and
// /proc/PID/limits for what a running process has.
package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Value is one limit, in bytes for sizes (memlock, stack), a count for the rest
// (nofile, nproc).
type Value uint64

// Unlimited is RLIM_INFINITY.
const Unlimited Value = math.MaxUint64

// String returns "unlimited" or the number in decimal.
func (v Value) String() string {
	if v == Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(uint64(v), 10)
}

// MarshalText is String, so that JSON holds a text: Unlimited is beyond what its
// numbers carry.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText is ParseValue.
func (v *Value) UnmarshalText(text []byte) (err error) {
	*v, err = ParseValue(string(text))
	return err
}

// ParseValue is the inverse of String; "infinity" too is Unlimited.
func ParseValue(text string) (Value, error) {
	if text == "unlimited" || text == "infinity" {
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && Value(n) == Unlimited {
		return 0, fmt.Errorf("limit %q is too large: write \"unlimited\", or a number below 2^64-1", text)
	}
	if err != nil {
		return 0, fmt.Errorf("limit %q is neither a number nor \"unlimited\"", text)
	}
	return Value(n), nil
}

// resource is one resource limit of the kernel. systemd's name for it is the
// item's in capitals.
type resource struct {
	item  string // limits.conf(5)
	scale Value  // what limits.conf counts in: 1024 bytes, or 1
	size  bool   // measured in bytes
	row   string // /proc/PID/limits (lnames in fs/proc/base.c)
	units string // likewise
}

var resources = []resource{
	{"as", 1024, true, "Max address space", "bytes"},
	{"core", 1024, true, "Max core file size", "bytes"},
	{"data", 1024, true, "Max data size", "bytes"},
	{"fsize", 1024, true, "Max file size", "bytes"},
	{"locks", 1, false, "Max file locks", "locks"},
	{"memlock", 1024, true, "Max locked memory", "bytes"},
	{"msgqueue", 1, true, "Max msgqueue size", "bytes"},
	{"nofile", 1, false, "Max open files", "files"},
	{"nproc", 1, false, "Max processes", "processes"},
	{"rss", 1024, true, "Max resident set", "bytes"},
	{"sigpending", 1, false, "Max pending signals", "signals"},
	{"stack", 1024, true, "Max stack size", "bytes"},
}

// foreign are items of limits.conf(5) that are neither sizes nor counts of a
// resource, which this package leaves out.
var foreign = []string{"chroot", "cpu", "maxlogins", "maxsyslogins", "nice", "nonewprivs", "priority", "rtprio", "rttime"}

func find(item string) (resource, bool) {
	i := slices.IndexFunc(resources, func(r resource) bool { return r.item == item })
	if i < 0 {
		return resource{}, false
	}
	return resources[i], true
}

// Origin is where a limit is set; lines count from 1.
type Origin struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Problem is a part of a file that its reader ignores or reads in another way
// than it looks.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: the whole file
	Text string `json:"text"`
	// Unread says that the content of File is unknown: any limit may stand in it.
	Unread bool `json:"unread,omitempty"`
}

// Bound is a soft or a hard limit and the line that sets it. Where Set is false
// no line does.
type Bound struct {
	Value Value `json:"value"`
	Set   bool  `json:"set"`
	Origin
}

// Limit is what configuration says about one resource.
type Limit struct {
	Soft Bound `json:"soft"`
	Hard Bound `json:"hard"`
	// Undecided are entries for groups and ranges of ids, which win over an entry
	// for "*". Text alone does not say whether they reach the user.
	Undecided []Entry `json:"undecided,omitempty"`
}

// Pair is the soft and the hard limit of a running process.
type Pair struct {
	Soft Value `json:"soft"`
	Hard Value `json:"hard"`
}

// ParseProc parses /proc/PID/limits and returns the limits by the name that
// limits.conf has for them ("memlock", "nofile", "stack"). A row that is cut off
// or stands there twice, and text without any row, is an error. A resource
// without a row is not in the map.
func ParseProc(text string) (map[string]Pair, error) {
	pairs := map[string]Pair{}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		for _, r := range resources {
			rest, ok := strings.CutPrefix(strings.TrimSpace(line), r.row)
			if !ok || rest != "" && rest[0] != ' ' {
				continue
			}
			fields := strings.Fields(rest)
			if len(fields) != 3 || fields[2] != r.units {
				return nil, fmt.Errorf("process limits, line %d: %s: want soft, hard and %q, found %s", n, r.row, r.units, excerpt(rest))
			}
			soft, err := procValue(fields[0])
			if err != nil {
				return nil, fmt.Errorf("process limits, line %d: %s: soft %w", n, r.row, err)
			}
			hard, err := procValue(fields[1])
			if err != nil {
				return nil, fmt.Errorf("process limits, line %d: %s: hard %w", n, r.row, err)
			}
			if _, twice := pairs[r.item]; twice {
				return nil, fmt.Errorf("process limits, line %d: %s stands there twice", n, r.row)
			}
			pairs[r.item] = Pair{soft, hard}
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("process limits: no row found in %d bytes of text", len(text))
	}
	return pairs, nil
}

func procValue(text string) (Value, error) {
	if text == "infinity" {
		return 0, fmt.Errorf("limit %q is not how the kernel writes one", text)
	}
	return ParseValue(text)
}

// excerpt quotes the beginning of a line for a message.
func excerpt(line string) string {
	const limit = 80
	if len(line) > limit {
		return fmt.Sprintf("%q...", line[:limit])
	}
	return fmt.Sprintf("%q", line)
}

const header = "# Written by busbar. It owns this file: edits are lost.\n"
