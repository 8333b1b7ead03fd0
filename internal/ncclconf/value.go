package ncclconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// setting is one key and its value under judgement.
type setting struct {
	*linter
	line     int
	key      Key
	value    string
	complete bool // the line ends with a newline
}

func (s *setting) add(severity Severity, id, fix, format string, args ...any) {
	s.linter.add(s.line, s.key.Name, severity, id, fix, format, args...)
}

func (s *setting) write(value string) string { return fmt.Sprintf("write %s=%s", s.key.Name, value) }

// judge looks at the value by the kind of its key.
func (s *setting) judge() {
	if len(s.value) > maxText {
		s.add(Error, "nccl.too_long", "", "NCCL cuts the value at %d bytes; it has %d", maxText, len(s.value))
		return
	}
	if at := glued(s.value); at >= 0 {
		s.add(Error, "nccl.glued", "begin a new line before "+s.value[at:],
			"two settings stand on one line: the value is %s, and what follows is not set", Show(s.value))
		return
	}
	if s.value == "" {
		s.empty()
		return
	}
	if s.key.Kind == Int64 {
		s.integer()
		return
	}
	if !s.text() {
		return
	}
	switch s.key.Kind {
	case Enum, Level:
		s.word()
	case Tokens:
		s.tokens(s.value)
	case Tuning:
		s.tuning()
	case HCAs:
		s.hcas()
	case Interfaces:
		s.interfaces()
	case Names:
		s.listShape(parseList(s.value, maxHCAs))
	case Path, Library:
		s.file()
	case CIDR:
		if _, err := netip.ParsePrefix(s.value); err != nil {
			s.add(Error, "nccl.bad_value", s.write("192.0.2.0/24, say"), "%s is no ADDRESS/LENGTH: NCCL ignores it", Show(s.value))
		}
	}
}

// glued finds a second setting inside a value, as >> leaves it behind on a file
// without a final newline; -1: there is none.
func glued(value string) int {
	for from := 0; ; {
		i := strings.Index(value[from:], prefix)
		if i < 0 {
			return -1
		}
		from += i
		rest := value[from+len(prefix):]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))]
		if name != "" && strings.HasPrefix(rest[len(name):], "=") {
			return from
		}
		from += len(prefix)
	}
}

func (s *setting) empty() {
	if s.key.Empty != "" {
		s.add(Error, "nccl.empty_value", "delete the line", "an empty value is not the same as none: %s", s.key.Empty)
		return
	}
	s.add(Info, "nccl.empty_value", "delete the line", "an empty value counts as unset; later lines for the key are ignored")
}

func quoted(value string) bool {
	return strings.ContainsRune(`"'`, rune(value[0])) || strings.ContainsRune(`"'`, rune(value[len(value)-1]))
}

// comment finds a '#' after a blank; -1: there is none.
func comment(value string) int {
	i := strings.IndexFunc(value, func(r rune) bool { return strings.ContainsRune(blanks, r) })
	for i >= 0 {
		rest := strings.TrimLeft(value[i:], blanks)
		if strings.HasPrefix(rest, "#") {
			return i
		}
		next := strings.IndexAny(rest, blanks)
		if next < 0 {
			return -1
		}
		i = len(value) - len(rest) + next
	}
	return -1
}

var (
	trueWords  = []string{"true", "t", "yes", "y", "on", "enable", "enabled"}
	falseWords = []string{"false", "f", "no", "n", "off", "disable", "disabled", "none"}
)

func (s *setting) integer() {
	word := strings.ToLower(strings.Trim(s.value, blanks+`"'`))
	r := readInteger(s.value)
	rest := strings.Trim(r.junk, blanks)
	switch {
	case s.key.Strict.Known() && s.version.Known() && s.version.Compare(s.key.Strict) >= 0:
		s.strictBool()
		return
	case quoted(s.value):
		s.add(Error, "nccl.quoted_integer", s.write(strings.Trim(s.value, blanks+`"'`)), "the quotes are part of the value: NCCL reads %s as %d", Show(s.value), r.n)
		return
	case r.digits == "" && slices.Contains(trueWords, word):
		s.add(Error, "nccl.word_integer", s.write("1"), "the key takes a number: NCCL reads %s as 0", Show(s.value))
		return
	case r.digits == "" && slices.Contains(falseWords, word):
		s.add(Warn, "nccl.word_integer", s.write("0"), "the key takes a number: NCCL reads %s as 0, as it reads every word", Show(s.value))
		return
	case r.digits == "":
		s.add(Error, "nccl.not_integer", s.write("a number"), "the key takes a number: NCCL reads %s as 0", Show(s.value))
		return
	case r.overflow:
		s.add(Error, "nccl.overflow", s.write("a smaller number"), "%s does not fit into 64 bits: NCCL keeps its default", Show(s.value))
		return
	case r.octal:
		s.add(Error, "nccl.octal", s.write(strings.TrimLeft(r.digits, "0")), "a leading zero means octal: NCCL reads %s as %d", Show(s.value), r.n)
		return
	case s.ours && s.value != r.digits:
		s.add(Error, "nccl.trailing_junk", s.write(r.digits), "the value is not a plain number: NCCL reads %s as %d", Show(s.value), r.n)
		return
	case rest != "" && r.junk[0] != rest[0] && strings.ContainsAny(rest[:1], "#;/"):
		s.add(Warn, "nccl.inline_comment", s.write(r.digits), "NCCL has no comments after a value; it reads %d here, a string would take the comment in", r.n)
	case rest != "":
		s.add(Error, "nccl.trailing_junk", s.write("a plain number"), "NCCL reads %s as %d and ignores %s", Show(s.value), r.n, Show(rest))
		return
	case s.value != r.digits:
		s.add(Info, "nccl.blank_around_equals", s.write(r.digits), "NCCL ignores the blanks around an integer; a string would keep them")
	}
	s.inRange(r.n)
}

// strictBool judges a flag for the strict parser: 1, T, TRUE, 0, F, FALSE.
func (s *setting) strictBool() {
	if !slices.ContainsFunc([]string{"0", "1", "t", "f", "true", "false"}, func(word string) bool { return strings.EqualFold(word, s.value) }) {
		s.add(Error, "nccl.bad_value", s.write("0 or 1"), "from %s on NCCL takes 0, 1, true or false here and keeps its default on %s", s.key.Strict, Show(s.value))
	}
}

func (s *setting) inRange(n int64) {
	k := s.key
	if !k.bounded() || n >= k.Min && n <= k.Max {
		return
	}
	severity, fix := Error, fmt.Sprintf("write a number from %d to %d", k.Min, k.Max)
	if k.Min == 0 && k.Max == 1 { // a flag: most are true when not 0
		severity = Warn
	}
	s.add(severity, "nccl.out_of_range", fix, "NCCL documents %d to %d; %d is not checked when the file is read", k.Min, k.Max, n)
}

// text judges what no string survives. It is false if there is no use in
// looking closer.
func (s *setting) text() bool {
	trimmed := strings.Trim(s.value, blanks)
	severity := Error
	if _, known := LookupKey(s.key.Name); !known && !s.ours {
		severity = Warn // whoever reads the key may trim
	}
	switch {
	case trimmed == "":
		s.add(severity, "nccl.blank_around_equals", "delete the line", "the value is nothing but blanks, which is not the same as empty")
	case quoted(trimmed):
		s.add(severity, "nccl.quoted_string", s.write(strings.Trim(trimmed, `"'`)), "the quotes are part of the value: NCCL uses %s", Show(s.value))
	case comment(s.value) > 0:
		s.add(severity, "nccl.inline_comment", s.write(strings.Trim(s.value[:comment(s.value)], blanks)), "NCCL has no comments after a value: it uses %s", Show(s.value))
	case trimmed != s.value:
		s.add(severity, "nccl.blank_around_equals", s.write(trimmed), "NCCL trims nothing: it uses %s", Show(s.value))
	default:
		return true
	}
	return false
}

// word judges an Enum or a Level.
func (s *setting) word() {
	k := s.key
	for _, v := range k.Values {
		head, number, _ := strings.Cut(s.value, ":")
		if counted, ok := strings.CutSuffix(v, ":N"); ok && strings.EqualFold(counted, head) && atoi(number) > 0 {
			return
		}
		if !strings.HasSuffix(v, ":N") && k.sameValue(v, s.value) {
			return
		}
	}
	if k.Kind == Level && s.value[0] >= '0' && s.value[0] <= '9' {
		n := atoi(s.value)
		names := []string{"LOC", "PIX", "PXB", "PHB", "SYS", "SYS"}
		s.add(Info, "nccl.old_level", s.write(names[min(n, len(names)-1)]), "numbers are the old way to write a distance; %s is %s", Show(s.value), names[min(n, len(names)-1)])
		return
	}
	s.add(Error, "nccl.bad_value", s.write(strings.Join(k.Values, ", ")), "%s is none of %s: NCCL does as if it were not set", Show(s.value), strings.Join(k.Values, ", "))
}

// tokens judges a list of words.
func (s *setting) tokens(list string) {
	sep := s.key.Sep
	if sep == "" {
		sep = ","
		list = strings.TrimPrefix(list, "^")
	}
	for token := range strings.SplitSeq(list, sep) {
		trimmed := strings.Trim(token, blanks)
		isValue := slices.ContainsFunc(s.key.Values, func(v string) bool { return strings.EqualFold(v, trimmed) })
		switch {
		case token == "":
		case isValue && trimmed == token:
		case isValue:
			s.add(Error, "nccl.list_blank", s.write(strings.Join(strings.Fields(s.value), "")), "NCCL trims nothing: %s is not recognised", Show(token))
			return
		case strings.HasPrefix(trimmed, "^"):
			s.add(Error, "nccl.repeated_prefix", s.write("one ^ before the whole list"), "'^' counts at the beginning only: %s is not recognised", Show(token))
			return
		default:
			s.add(Error, "nccl.bad_value", s.write("words of "+strings.Join(s.key.Values, sep)), "%s is none of %s", Show(token), strings.Join(s.key.Values, ", "))
			return
		}
	}
}

// tuning judges NCCL_ALGO and NCCL_PROTO.
func (s *setting) tuning() {
	collectives := []string{"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
	if !strings.ContainsAny(s.value, ":;") {
		s.tokens(s.value)
		return
	}
	perCollective := Version{2, 24, 0}
	if s.version.Known() && s.version.Compare(perCollective) < 0 {
		s.add(Error, "nccl.bad_value", s.write("one list for all collectives"), "lists per collective are read from %s on; %s takes the whole for words it does not know", perCollective, s.version)
		return
	}
	for i, part := range strings.Split(s.value, ";") {
		collective, list, ok := strings.Cut(part, ":")
		switch {
		case part == "":
		case !ok && i == 0:
			s.tokens(part)
		case !ok:
			s.add(Error, "nccl.bad_value", "", "only the first list may stand without a collective: NCCL fails on %s", Show(part))
		case !slices.Contains(collectives, strings.ToLower(collective)):
			s.add(Error, "nccl.bad_value", "", "%s is none of the collectives %s: NCCL fails on it", Show(collective), strings.Join(collectives, ", "))
		default:
			s.tokens(list)
		}
	}
}

// file judges the path of a file that NCCL reads.
func (s *setting) file() {
	switch {
	case s.value[0] == '~' || strings.Contains(s.value, "$"):
		s.add(Error, "nccl.not_expanded", s.write("the whole path"), "NCCL expands neither ~ nor variables: it uses %s", Show(s.value))
		return
	case s.ours || s.key.Missing == "" || s.key.Kind == Library && !strings.Contains(s.value, "/"):
		return
	}
	exists, known := false, false
	if s.env.FileExists != nil {
		exists, known = s.env.FileExists(s.value)
	}
	switch {
	case !known:
		s.add(Info, "nccl.file", "", "%s must exist where the job runs, containers included: otherwise %s", Show(s.value), s.key.Missing)
	case !exists:
		s.add(Error, "nccl.file_missing", "install the file, or delete the line", "%s does not exist: %s", Show(s.value), s.key.Missing)
	}
}

// listShape judges how a list of names is written. It is false if NCCL does not
// read the list as it was meant.
func (s *setting) listShape(list List) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(s.value, "^"), "=")
	lead := s.value[:len(s.value)-len(rest)]
	var clean []string
	blank, repeated := false, false
	for token := range strings.SplitSeq(rest, ",") {
		name := strings.Trim(token, blanks)
		blank = blank || name != token
		bare := strings.TrimLeft(name, "^=")
		repeated = repeated || bare != name
		if bare != "" {
			clean = append(clean, bare)
		}
	}
	fix := s.write(lead + strings.Join(clean, ","))
	switch {
	case len(list.Items) == 0 && list.Exclude:
		s.add(Error, "nccl.empty_list", "delete the line", "the list is empty: every device is left out")
	case len(list.Items) == 0:
		s.add(Error, "nccl.empty_list", "delete the line", "the list is empty: every device is taken")
	case blank && len(clean) == 1:
		s.add(Error, "nccl.list_blank", fix, "a blank is part of the name: %s matches nothing", Show(list.Items[0].Name))
	case blank:
		s.add(Error, "nccl.list_blank", fix, "a blank is part of a name: names after a comma and a blank match nothing")
	case repeated:
		s.add(Error, "nccl.repeated_prefix", fix, "'^' and '=' count at the beginning of the list only; a later one is part of a name, which matches nothing")
	case list.Dropped > 0:
		s.add(Error, "nccl.list_too_long", "", "NCCL keeps %d names and ignores the last %d", len(list.Items), list.Dropped)
	case s.truncated(list):
		s.add(Error, "nccl.truncated", "write the file again", "the file ends inside a list, without a newline: %s is cut off", Show(list.Items[len(list.Items)-1].Name))
	default:
		return true
	}
	return false
}

// truncated says whether the file ends in the middle of a name: the last item
// is only a part of what its first sibling's name has before its number.
func (s *setting) truncated(list List) bool {
	if s.complete || len(list.Items) < 2 {
		return false
	}
	stem := strings.TrimRight(list.Items[0].Name, "0123456789")
	last := list.Items[len(list.Items)-1].Name
	return len(list.Items[0].Name) > len(stem) && strings.HasPrefix(stem, last)
}

func (s *setting) hcas() {
	list := HCAList(s.value)
	if !s.listShape(list) {
		return
	}
	for _, item := range list.Items {
		if item.Port == 0 || item.Port < -1 {
			s.add(Error, "nccl.hca_port", "number ports from 1", "the port of %s is no number above 0: it matches nothing", Show(item.Name))
		}
		if item.Rail != -1 && s.version.Known() && s.version.Compare(Version{2, 30, 0}) < 0 {
			s.add(Warn, "nccl.too_new", "", "rail and plane are read from 2.30 on; %s ignores those of %s", s.version, Show(item.Name))
		}
	}
	if s.env.HCAs == nil {
		s.guessPrefixes(list)
		return
	}
	missing, wide := list.against(s.env.HCAs)
	if len(missing) > 0 {
		severity := Error
		if list.Exclude {
			severity = Info
		}
		s.add(severity, "nccl.hca_missing", "name devices of this node", "no RDMA device of this node matches %s; it has %s", strings.Join(missing, ", "), nameAll(s.env.HCAs))
	}
	for _, w := range wide {
		s.add(Warn, "nccl.hca_prefix", s.exactFix(list), "a name is a prefix: %s takes %s; a port does not make it exact", w.name, nameAll(w.devices))
	}
}

// guessPrefixes remarks on names that look whole but are prefixes, where the
// devices are not known.
func (s *setting) guessPrefixes(list List) {
	if list.Exact {
		return
	}
	for _, item := range list.Items {
		if strings.TrimRight(item.Name, "0123456789") != item.Name {
			s.add(Info, "nccl.hca_prefix", s.exactFix(list), "a name is a prefix: where there is a %s0, %s takes it too", item.Name, item.Name)
			return
		}
	}
}

// exactFix spells the same list with '='.
func (s *setting) exactFix(list List) string {
	if list.Exclude {
		return s.write("^=" + strings.TrimPrefix(s.value, "^"))
	}
	return s.write("=" + s.value)
}

// wideItem is an item that is a device's name and takes others as well.
type wideItem struct {
	name    string
	devices []string
}

// against compares the items of a list with the devices there are: those that
// match none, and those that are meant as a name but match several.
func (l List) against(devices []string) (missing []string, wide []wideItem) {
	for _, item := range l.Items {
		var taken []string
		for _, d := range devices {
			if item.matches(d, l.Exact) {
				taken = append(taken, d)
			}
		}
		switch {
		case len(taken) == 0:
			missing = append(missing, item.Name)
		case len(taken) > 1 && slices.Contains(taken, item.Name):
			wide = append(wide, wideItem{item.Name, taken})
		}
	}
	return missing, wide
}

// nameAll lists names, the first twelve of many.
func nameAll(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func (s *setting) interfaces() {
	if len(s.value) == 1 {
		s.add(Warn, "nccl.empty_list", "delete the line", "NCCL takes a value of one byte as unset")
		return
	}
	list := IfnameList(s.value)
	shape := s.listShape(list)
	present := func(name string) bool { return s.env.Interfaces == nil || slices.Contains(s.env.Interfaces, name) }
	if len(list.Items) > 0 && list.Selects("lo", -1) && present("lo") {
		if list.Exclude {
			s.add(Error, "nccl.loopback_eligible", s.write("^docker,lo,virbr")+", or delete the line", "the value replaces NCCL's own exclusions (docker, lo, virbr): the loopback interface is eligible")
		} else {
			s.add(Error, "nccl.loopback_eligible", "name the interface between the nodes", "the loopback interface is taken: nodes cannot reach one another")
		}
	}
	if !shape || s.env.Interfaces == nil {
		return
	}
	missing, wide := list.against(s.env.Interfaces)
	if list.Exclude {
		bridges := slices.DeleteFunc(list.Match(s.env.Interfaces), func(name string) bool {
			return !strings.HasPrefix(name, "docker") && !strings.HasPrefix(name, "virbr")
		})
		if len(bridges) > 0 {
			s.add(Warn, "nccl.bridge_eligible", s.write("^docker,lo,virbr"), "the value replaces NCCL's own exclusions (docker, lo, virbr): %s is eligible", nameAll(bridges))
		}
		return
	}
	switch {
	case len(missing) == len(list.Items):
		s.add(Error, "nccl.interface_missing", "name interfaces of this node", "no interface of this node matches %s; it has %s", strings.Join(missing, ", "), nameAll(s.env.Interfaces))
	case len(missing) > 0:
		s.add(Warn, "nccl.interface_missing", "", "no interface of this node matches %s", strings.Join(missing, ", "))
	}
	for _, w := range wide {
		s.add(Warn, "nccl.interface_prefix", s.exactFix(list), "a name is a prefix: %s takes %s", w.name, nameAll(w.devices))
	}
}
