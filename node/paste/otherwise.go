package paste

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"busbar/internal/pciregs"
	"busbar/node"
)

// Texts are taken for one node's. Where one says something else of a thing than an earlier one, they are of two nodes or of two
// times, and which of them holds nobody can tell. To find that, a section is read for itself too, and what it says is compared
// with what is there: readers need not know of it. Logs, which are joined, are left out.

// otherwise is of what a section says something else than those before it, or than itself: as a doubt, empty where it does not.
// tags are the machines that stood before its lines.
func (d *draft) otherwise(k *kind, s section, tags []string) string {
	said := ""
	heard := func(earlier *draft, s section) *draft {
		alone := &draft{}
		k.read(alone, s)
		if earlier == nil || said != "" {
			return alone
		}
		if what, than := earlier.contradictedBy(alone); what != "" {
			said = fmt.Sprintf("says otherwise of %s than %s: texts of two nodes, or of two times", what, than)
		}
		return alone
	}
	var other *draft
	for _, part := range s.byTag(tags) {
		whole := heard(d, part)
		if other != nil {
			heard(other, part)
		}
		other = whole
		if len(whole.places) > 0 { // in a file of a node, what comes again is nothing else
			continue
		}
		var last *draft
		for _, again := range part.repeats() {
			last = heard(last, again)
		}
	}
	return said
}

// byTag are the lines of each machine that tags name, of most sections one part.
func (s section) byTag(tags []string) []section {
	lines, first := map[string][]string{}, map[string]int{}
	for i, line := range s.lines {
		if lines[tags[i]] == nil {
			first[tags[i]] = s.first + i
		}
		lines[tags[i]] = append(lines[tags[i]], line)
	}
	if len(lines) == 1 {
		return []section{s}
	}
	var all []section
	for _, tag := range slices.Sorted(maps.Keys(lines)) {
		part := s
		part.lines, part.first, part.bytes = lines[tag], first[tag], ""
		all = append(all, part)
	}
	return all
}

// repeats are the parts of a section that begin where what its first line is about comes again; none where it does not.
func (s section) repeats() []section {
	var all []section
	about, begin := subject(s.lines[0]), 0
	for i := 1; i <= len(s.lines); i++ {
		if i == len(s.lines) && begin > 0 || i < len(s.lines) && about != "" && subject(s.lines[i]) == about {
			part := s
			part.lines, part.first, part.bytes = s.lines[begin:i], s.first+begin, ""
			all = append(all, part)
			begin = i
		}
	}
	return all
}

// subject is what a line is about: its first two words, of a line that is not indented. One word alone is about nothing.
func subject(line string) string {
	words := strings.Fields(line)
	if len(words) < 2 || line[0] == ' ' || line[0] == '\t' {
		return ""
	}
	return words[0] + " " + words[1]
}

// machineTag is the machine before a line of pdsh.
var machineTag = expression(`^[A-Za-z][\w.-]{0,63}: `)

// contradictedBy is a thing of which a later draft says something else, and where this one says it; empty where there is none.
func (d *draft) contradictedBy(later *draft) (what, than string) {
	for _, q := range slices.SortedFunc(maps.Keys(later.values), node.CompareQueries) {
		v, ok := d.values[q]
		if a, b := reflect.ValueOf(v), reflect.ValueOf(later.values[q]); ok && !agree(a, b, false) {
			return strings.TrimSuffix(q.Kind+" "+q.Key, " "), sourceOf(a).String()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(later.files)) {
		list := d.files[name]
		for _, f := range later.files[name].files {
			if list == nil {
				continue
			}
			for _, earlier := range list.files {
				if earlier.Path == f.Path && strings.TrimSpace(earlier.Text) != strings.TrimSpace(f.Text) {
					return f.Path, d.standing(f.Path)
				}
			}
		}
	}
	if a, b := d.driver.Version, later.driver.Version; a != "" && b != "" && a != b {
		return "the NVIDIA driver's version", d.driverSource.String()
	}
	if !agree(reflect.ValueOf(d.inv.Kernel), reflect.ValueOf(later.inv.Kernel), false) {
		return "the kernel's release", d.inv.Kernel.Source().String()
	}
	if name, source := d.modules.contradictedBy(later.modules); name != "" {
		return "module " + name, source.String()
	}
	for _, y := range later.devices {
		if what, than := d.deviceContradicted(y); what != "" {
			return what, than
		}
	}
	if len(d.told) > 0 && len(later.told) > 0 {
		relation := map[[2]string]string{}
		for _, t := range d.told {
			relation[[2]string{t.a, t.b}] = t.relation
		}
		for _, t := range later.told {
			x := d.find(t.a)
			if r := relation[[2]string{t.a, t.b}]; r != "" && r != t.relation && x != nil {
				return "how far " + plainName(t.a) + " is from " + plainName(t.b), x.source.String()
			}
		}
	}
	if d.p2p != nil && later.p2p != nil {
		for _, names := range slices.SortedFunc(maps.Keys(later.p2p.pairs), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
			if pair, ok := d.p2p.pairs[names]; ok && d.find(names[0]) != nil && !agree(reflect.ValueOf(pair), reflect.ValueOf(later.p2p.pairs[names]), false) {
				return "the access of " + plainName(names[0]) + " to " + plainName(names[1]), d.find(names[0]).source.String()
			}
		}
	}
	return "", ""
}

// standing is where the text of a node's file stands first, else its path.
func (d *draft) standing(path string) string {
	if places := d.places[path]; len(places) > 0 {
		return places[0].at(1).String()
	}
	return path
}

// plainName is a device's name as people write it.
func plainName(name string) string {
	class, rest, _ := strings.Cut(name, ":")
	switch class + ":" {
	case gpuIndex:
		return "GPU" + rest
	case nicIndex:
		return "NIC" + rest
	default:
		return rest
	}
}

// soleNames are classes of names of which a device has one: a GPU has one number, one UUID, one address.
var soleNames = []string{gpuIndex, gpuUUID, pciName, rdmaName, nicIndex}

// deviceContradicted is of what a later text says something else of one of the devices.
func (d *draft) deviceContradicted(y *device) (what, than string) {
	names := maps.Clone(y.names)
	for _, name := range slices.Sorted(maps.Keys(y.names)) {
		x := d.find(name)
		if x == nil {
			continue
		}
		maps.Copy(names, x.names)
		for _, class := range soleNames {
			n := 0
			for name := range names {
				n += one(strings.HasPrefix(name, class))
			}
			if n > 1 {
				return "which device " + x.key() + " is", x.source.String()
			}
		}
		if field, source := x.contradictedBy(y); field != "" {
			return field + " of " + x.key(), source.String()
		}
	}
	return "", ""
}

// contradictedBy is the field of which another text says something else, and where this one says it.
func (x *device) contradictedBy(y *device) (field string, source node.Source) {
	if a, ok := x.links.Get(); ok {
		b, said := y.links.Get()
		if _, hidden := y.unlinked.links(x).Get(); said && activeLinks(a) != activeLinks(b) || !said && hidden && activeLinks(a) > 0 {
			return "NVLinks", x.links.Source()
		}
	}
	if !agree(reflect.ValueOf(x.fabric), reflect.ValueOf(y.fabric), false) {
		return "the fabric", x.fabric.Source()
	}
	if x.product != "" && y.product != "" && x.product != y.product {
		return "the product", x.source
	}
	if a, b := x.function, y.function; a.Driver != "" && b.Driver != "" && a.Driver != b.Driver || a.Device != "" && b.Device != "" && a.ID() != b.ID() || a.NUMANode >= 0 && b.NUMANode >= 0 && a.NUMANode != b.NUMANode {
		return "the PCI function", x.source
	}
	ports := [][2]any{{x.rdmaPort.RDMAPortState, y.rdmaPort.RDMAPortState}}
	for _, n := range slices.Sorted(maps.Keys(y.furtherPorts)) {
		if p := x.furtherPorts[n]; p != nil {
			ports = append(ports, [2]any{p.RDMAPortState, y.furtherPorts[n].RDMAPortState})
		}
	}
	for _, pair := range append(ports, [][2]any{{x.gpu, y.gpu}, {x.registers, y.registers}, {x.pciLink, y.pciLink}, {x.link, y.link}, {x.dcb, y.dcb}, {x.roce, y.roce}, {x.flow, y.flow}}...) {
		a, b := reflect.ValueOf(pair[0]), reflect.ValueOf(pair[1])
		for i := range a.NumField() {
			if name := a.Type().Field(i).Name; !passing[name] && !agree(a.Field(i), b.Field(i), false) {
				source = sourceOf(a.Field(i))
				if source == (node.Source{}) {
					source = x.source
				}
				return name, source
			}
		}
	}
	return "", node.Source{}
}

// passing are fields that change from moment to moment while nothing is wrong.
var passing = map[string]bool{"Busy": true, "BAR1UsedBytes": true}

// activeLinks is how many NVLinks are active: texts show more or less of the rest.
func activeLinks(s node.NVLinkState) int {
	n := 0
	for _, l := range s.Links {
		state, _ := l.State.Get()
		n += one(state == node.NVLinkActive)
	}
	return n
}

// sourceOf is the source of a node.Value, zero of anything else.
func sourceOf(v reflect.Value) node.Source {
	if s, ok := v.Interface().(interface{ Source() node.Source }); ok {
		return s.Source()
	}
	return node.Source{}
}

// agree reports that two values do not contradict each other. What is unknown contradicts nothing, and nor does what is zero, unless
// it is said: inside a known node.Value.
func agree(a, b reflect.Value, said bool) bool {
	if v, ok := a.Interface().(interface{ IsUnsupported() bool }); ok {
		w, _ := b.Interface().(interface{ IsUnsupported() bool })
		x, y := a.MethodByName("Get").Call(nil), b.MethodByName("Get").Call(nil)
		known, other := x[1].Bool(), y[1].Bool()
		if known && other {
			return agree(x[0], y[0], true)
		}
		return !(known && w.IsUnsupported() || other && v.IsUnsupported())
	}
	if !said && (a.IsZero() || b.IsZero()) {
		return true
	}
	switch x := a.Interface().(type) {
	case pciregs.Express: // some texts show its sizes
		return agree(reflect.ValueOf(&x).Elem().FieldByName("MaxPayload"), b.FieldByName("MaxPayload"), false) &&
			agree(reflect.ValueOf(&x).Elem().FieldByName("MaxReadRequest"), b.FieldByName("MaxReadRequest"), false)
	case []node.GID: // a file of sysfs has one
		for _, g := range x {
			for _, h := range b.Interface().([]node.GID) {
				if g.Index == h.Index && !agree(reflect.ValueOf(g), reflect.ValueOf(h), false) {
					return false
				}
			}
		}
		return true
	case string:
		return x == "" || b.String() == "" || x == b.String()
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !a.Type().Field(i).IsExported() {
				return a.Equal(b)
			}
			if !agree(a.Field(i), b.Field(i), said) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !agree(a.Index(i), b.Index(i), said) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}
