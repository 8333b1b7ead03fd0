package limits

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/confdir"
)

const (
	limitsConf = "/etc/security/limits.conf"
	limitsDir  = "/etc/security/limits.d"
)

// Entry is one line of limits.conf(5).
type Entry struct {
	// Domain is a user, "@GROUP", "MIN:MAX" (user ids), "@MIN:MAX" (group ids) or
	// "*", everybody.
	Domain string `json:"domain"`
	// Type is "soft", "hard" or "-" for both.
	Type string `json:"type"`
	// Item names the resource. It is empty in a line "DOMAIN -", which takes all
	// limits off the domain's logins.
	Item  string `json:"item,omitempty"`
	Value Value  `json:"value"`
	Origin
}

// Order returns the files that pam_limits(8) reads, in its order: limits.conf,
// then limits.d/*.conf by name.
func Order(files []confdir.File) []confdir.File {
	var ordered []confdir.File
	for _, f := range files {
		if f.Path == limitsConf {
			ordered = append(ordered, f)
		}
	}
	return append(ordered, confdir.Merge(slices.DeleteFunc(slices.Clone(files), func(f confdir.File) bool {
		base := path.Base(f.Path)
		return !strings.HasSuffix(base, ".conf") || strings.HasPrefix(base, ".")
	}), []string{limitsDir})...)
}

// Parse parses the files in the order given, which Order establishes, by the
// rules of pam_limits (modules/pam_limits/pam_limits.c). Items other than sizes
// and counts (priority, maxlogins ...) are left out. A value that is read in
// part ("64M" is 64 KiB of memlock) gives an entry and a Problem. A file that is
// not known gives a Problem with Unread set.
func Parse(files []confdir.File) ([]Entry, []Problem) {
	var entries []Entry
	var problems []Problem
	for _, f := range files {
		if f.Reason != "" {
			problems = append(problems, unread(f))
			continue
		}
		n := 0
		for line := range strings.SplitSeq(f.Text, "\n") {
			n++
			e, ok, problem := parseLine(line)
			if ok {
				e.Origin = Origin{f.Path, n}
				entries = append(entries, e)
			}
			if problem != "" {
				problems = append(problems, Problem{File: f.Path, Line: n, Text: problem})
			}
		}
	}
	return entries, problems
}

func unread(f confdir.File) Problem {
	return Problem{File: f.Path, Text: "content unknown: " + f.Reason, Unread: true}
}

// parseLine parses one line; ok says that e is in force.
func parseLine(line string) (e Entry, ok bool, problem string) {
	if strings.IndexByte(line, 0) >= 0 {
		return e, false, "line with a NUL byte: " + excerpt(line)
	}
	text, _, _ := strings.Cut(line, "#")
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	if strings.TrimSpace(text) == "" {
		return e, false, ""
	}
	if strings.Contains(text, "\r") {
		return e, false, "carriage return in the value: " + excerpt(line)
	}
	e.Domain = fields[0]
	if err := checkDomain(e.Domain); err != nil {
		return e, false, err.Error()
	}
	if len(fields) == 2 && fields[1] == "-" {
		e.Type = "-"
		return e, true, ""
	}
	if len(fields) < 4 {
		return e, false, "not DOMAIN TYPE ITEM VALUE: " + excerpt(line)
	}
	e.Type, e.Item = strings.ToLower(fields[1]), strings.ToLower(fields[2])
	if slices.Contains(foreign, e.Item) {
		return e, false, ""
	}
	r, known := find(e.Item)
	switch {
	case !known:
		return e, false, fmt.Sprintf("unknown item %q", fields[2])
	case e.Type != "soft" && e.Type != "hard" && e.Type != "-":
		return e, false, fmt.Sprintf("unknown type %q", fields[1])
	case e.Domain[0] == '%':
		return e, false, fmt.Sprintf("domain %q is for maxlogins only", e.Domain)
	}
	value := strings.ToLower(fields[3])
	var read string
	if e.Value, read = parsePAM(value, r.scale); read == "" {
		return e, false, fmt.Sprintf("value %q of %s is neither a number nor \"unlimited\"", fields[3], e.Item)
	}
	if rest := strings.Join(append([]string{value[len(read):]}, fields[4:]...), " "); rest != "" {
		problem = fmt.Sprintf("value of %s is read as %q, the rest is ignored: %s", e.Item, read, excerpt(strings.TrimSpace(rest)))
	}
	return e, true, problem
}

// parsePAM reads a value as process_limit does, by strtoull(3), and returns what
// part of the text was read. Sizes that overflow are unlimited.
func parsePAM(text string, scale Value) (v Value, read string) {
	switch text {
	case "-1", "-", "unlimited", "infinity":
		return Unlimited, text
	}
	read = text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	if read == "" {
		return 0, ""
	}
	n, err := strconv.ParseUint(read, 10, 64)
	if err != nil || scale > 1 && Value(n) >= Unlimited/scale {
		return Unlimited, read
	}
	return Value(n) * scale, read
}

// checkDomain refuses what parse_uid_range refuses.
func checkDomain(domain string) error {
	if _, _, isRange, err := parseRange(domain); isRange {
		return err
	}
	return nil
}

// parseRange reads a domain that holds a colon: MIN:MAX, MIN: without an upper
// end, :ID for one id.
func parseRange(domain string) (low, high uint64, isRange bool, err error) {
	from, to, isRange := strings.Cut(strings.TrimLeft(domain, "@%"), ":")
	if !isRange {
		return 0, 0, false, nil
	}
	high = 1<<32 - 1
	if to != "" {
		if high, err = strconv.ParseUint(to, 10, 32); err != nil {
			return 0, 0, true, fmt.Errorf("invalid range of ids %q", domain)
		}
	}
	if from == "" {
		low = high
	} else if low, err = strconv.ParseUint(from, 10, 32); err != nil {
		return 0, 0, true, fmt.Errorf("invalid range of ids %q", domain)
	}
	if from == "" && to == "" {
		return 0, 0, true, fmt.Errorf("invalid range of ids %q", domain)
	}
	return low, high, true, nil
}

// class is the rank of a domain; the lower wins (LIMITS_DEF_* in pam_limits.c).
type class int

const (
	classUser class = iota
	classDefault
	classNone  // does not reach the user
	classMaybe // only membership or ids can tell
)

// classify says how domain reaches user.
func classify(domain, user string) class {
	low, high, isRange, err := parseRange(domain)
	switch {
	case err != nil || domain == "":
		return classNone
	case domain == "*":
		if user == "root" {
			return classNone
		}
		return classDefault
	case domain == user:
		return classUser
	case domain[0] == '@' && user == "root":
		return classNone
	case domain[0] == '@', isRange && user != "root":
		return classMaybe
	case isRange && low == 0 && high >= low:
		return classUser
	}
	return classNone
}

// Effective returns the limit of item that a login of user gets: a line for the
// user (or a range with its id) wins over one for "*", in one rank the last line
// wins. user "*" stands for any user without lines of its own. found is false
// where no line applies, and where a line "USER -" takes all limits off.
//
// Lines for "*" and groups do not reach root on Debian and Ubuntu, on others
// they do; here they do not, so that what is found holds everywhere. A soft
// limit above the hard one is lowered to it, as pam_limits does. Where only one
// of the two is set, the other is what the login program was started with.
// nofile set to Unlimited becomes fs.nr_open.
func Effective(entries []Entry, user, item string) (limit Limit, found bool) {
	softClass, hardClass := classNone, classNone
	for _, e := range entries {
		if e.Item != item && e.Item != "" {
			continue
		}
		c := classify(e.Domain, user)
		switch {
		case c == classMaybe:
			limit.Undecided = append(limit.Undecided, e)
			continue
		case c == classNone:
			continue
		case e.Item == "":
			if c == classUser {
				return Limit{Undecided: limit.Undecided}, false
			}
			continue
		}
		bound := Bound{Value: e.Value, Set: true, Origin: e.Origin}
		if e.Type != "hard" {
			if softClass < c {
				continue // a "-" that loses as soft limit is not looked at as hard one
			}
			limit.Soft, softClass = bound, c
		}
		if e.Type != "soft" && hardClass >= c {
			limit.Hard, hardClass = bound, c
		}
	}
	if limit.Soft.Set && limit.Hard.Set && limit.Soft.Value > limit.Hard.Value {
		limit.Soft = limit.Hard
	}
	return limit, limit.Soft.Set || limit.Hard.Set
}

// Validate says why an entry cannot stand in a file in such a way that the same
// entry is read back.
func (e Entry) Validate() error {
	r, known := find(e.Item)
	switch {
	case e.Domain == "" || strings.ContainsAny(e.Domain, "# \t\r\n\v\f\x00"):
		return fmt.Errorf("limits: user %q cannot be written in a file", e.Domain)
	case e.Domain[0] == '%':
		return fmt.Errorf("limits: domain %q is for maxlogins only", e.Domain)
	case e.Type != "soft" && e.Type != "hard" && e.Type != "-":
		return fmt.Errorf("limits: unknown type %q", e.Type)
	case !known:
		return fmt.Errorf("limits: unknown item %q", e.Item)
	case e.Value != Unlimited && (e.Value%r.scale != 0 || r.scale > 1 && e.Value/r.scale >= Unlimited/r.scale):
		return fmt.Errorf("limits: %s of %d bytes: the file holds KiB", e.Item, uint64(e.Value))
	}
	return checkDomain(e.Domain)
}

// Render returns the content of a limits.d file of busbar's own, one line per
// entry, sorted by domain, item and type; without entries "", which means no
// file. The entries must be valid.
func Render(entries []Entry) string {
	if len(entries) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(header)
	for _, e := range slices.SortedStableFunc(slices.Values(entries), compareEntries) {
		value := e.Value.String()
		if r, _ := find(e.Item); r.scale > 1 && e.Value != Unlimited {
			value = (e.Value / r.scale).String()
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", e.Domain, e.Type, e.Item, value)
	}
	return b.String()
}

func compareEntries(a, b Entry) int {
	return slices.Compare([]string{a.Domain, a.Item, a.Type}, []string{b.Domain, b.Item, b.Type})
}
