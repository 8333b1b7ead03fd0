// Package sink holds the things that many blocks write together. Each sink judges
// what the next boot (login, start) will get, and renders the one file that
// busbar owns in it as a whole; a file with nothing to say is removed.
package sink

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/plan"
)

// All returns every sink, in a fixed order.
func All() []plan.Sink {
	return []plan.Sink{BootArgs{}, ModulesLoad{}, Modprobe{}, Initramfs{}, Sysctl{}, Limits{}, DropIns{}, NCCL{}, CUFile{}, Protected{}}
}

// stateDir holds what apply leaves for later runs.
var stateDir = path.Dir(node.MarkerPath)

// keepsState reports whether what is left in stateDir is known to outlive a reboot.
func keepsState(facts node.Facts) bool {
	mount, ok := node.Mount.Get(facts, stateDir).Get()
	return ok && !mount.ReadOnly && !slices.Contains(volatile, mount.Type)
}

// volatile are file systems that a reboot empties; rootfs is an initramfs that stayed (init/do_mounts.c).
var volatile = []string{"tmpfs", "ramfs", "rootfs", "overlay", "squashfs"}

// owned is a file that a sink renders as a whole.
type owned struct {
	// sink is the name under which steps require the file, and the address of what
	// belongs to no block.
	sink string
	path string
	// list is the query whose answer holds the file.
	list   node.Query
	effect plan.Effect
}

// text is the file's content, empty when it is absent.
func (o owned) text(files []confdir.File) string {
	for _, f := range files {
		if f.Path == o.path {
			return f.Text
		}
	}
	return ""
}

// foreign are the files that belong to others.
func (o owned) foreign(files []confdir.File) []confdir.File {
	return slices.DeleteFunc(slices.Clone(files), func(f confdir.File) bool { return f.Path == o.path })
}

// only is the file alone.
func (o owned) only(files []confdir.File) []confdir.File {
	return slices.DeleteFunc(slices.Clone(files), func(f confdir.File) bool { return f.Path != o.path })
}

// exists reports whether the file is there.
func (o owned) exists(files []confdir.File) bool {
	return slices.ContainsFunc(files, func(f confdir.File) bool { return f.Path == o.path })
}

// place is where a sink writes.
type place struct {
	// dirs hold the files that may change.
	dirs []string
	// option of configuration.nix that says the same on NixOS.
	option string
}

// queries ask whether the place can be written.
func (p place) queries() []node.Query {
	var queries []node.Query
	for _, dir := range p.dirs {
		queries = append(queries, node.Mount.Query(dir))
	}
	return queries
}

// allow takes the steps out of a when a file that they change stands where nothing
// can be written, and says so in the findings that they would have put right.
func (p place) allow(a plan.Assessment, facts node.Facts) plan.Assessment {
	for _, s := range a.Steps {
		why, fix := p.refusal(s.Action, facts)
		if why == "" {
			continue
		}
		for i := range a.Findings {
			if f := &a.Findings[i]; f.Fixable {
				f.Status, f.Fixable, f.Fix = plan.Unsupported, false, fix
				f.Summary += fmt.Sprintf("; %s cannot be written: %s", s.Target, why)
			}
		}
		a.Steps = nil
		break
	}
	return a
}

// refusal says why an action cannot write its file, and what to do instead; empty
// when it can or when that is not known.
func (p place) refusal(action plan.Action, facts node.Facts) (why, fix string) {
	var file string
	switch action := action.(type) {
	case plan.WriteFile:
		file = action.Path
	case plan.RemoveFile:
		file = action.Path
	case plan.UpdateGRUB:
		file = nextboot.GeneratedPath
	case plan.UpdateInitramfs:
		file = action.Image
	}
	for _, dir := range p.dirs {
		if !strings.HasPrefix(file, dir+"/") {
			continue
		}
		mount, _ := node.Mount.Get(facts, dir).Get()
		switch {
		case mount.Immutable != "":
			return mount.Immutable + " makes /etc from its own configuration", "set " + p.option + " in configuration.nix and run nixos-rebuild switch"
		case mount.ReadOnly:
			return mount.Point + " is mounted read-only", "make the change in the image that " + mount.Point + " comes from, or mount it for writing"
		}
	}
	return "", ""
}

// Blocked returns the first finding of a sink that is not as wanted and that no step
// of the sink puts right.
func Blocked(a plan.Assessment) (plan.Finding, bool) {
	for _, f := range a.Findings {
		wrong := f.Status == plan.Conflict || f.Status == plan.Unsupported || f.Status == plan.Undetermined
		if wrong && !f.Tolerated {
			return f, true
		}
	}
	return plan.Finding{}, false
}

// ensure adds the step that makes the file have want (empty: makes it absent) to a,
// unless it has it already. When none of the findings in a says why, one is added:
// the file holds what no block wants any more.
func (o owned) ensure(a *plan.Assessment, addresses []string, files []confdir.File, want string) {
	have := o.text(files)
	if have == want && o.exists(files) == (want != "") {
		return
	}
	step := plan.Step{
		Addresses: addresses, Phase: plan.PhaseFiles, Target: o.path,
		Summary: "write " + o.path, Effect: o.effect, Provides: []string{o.sink},
		Action: plan.WriteFile{Path: o.path, Text: want, List: o.list},
	}
	if want == "" {
		step.Summary, step.Action = "remove "+o.path, plan.RemoveFile{Path: o.path, List: o.list}
	}
	if !slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Fixable }) {
		a.Findings = append(a.Findings, plan.Finding{
			ID: "file.stale", Address: o.sink, Status: plan.Drift, Fixable: true, Target: o.path, Effect: o.effect,
			Summary: o.path + " holds what no block wants, or what others bring already", Source: node.Source{Path: o.path},
			Want: words(want), Found: words(have),
		})
		step.Addresses = append(slices.Clone(step.Addresses), o.sink)
	}
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Fixable && f.By == "" {
			f.By = o.path
		}
	}
	a.Steps = append(a.Steps, step)
}

// words is a file's content on one line, without comments.
func words(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return "nothing"
	}
	return strings.Join(kept, "; ")
}

// decided are the contributions whose wish is known; keep says that there are others, so that
// what busbar's file holds for further keys stays.
func decided(contributions []plan.Contribution) (known []plan.Contribution, keep bool) {
	known = slices.DeleteFunc(slices.Clone(contributions), func(c plan.Contribution) bool { return c.Undecided })
	return known, len(known) < len(contributions)
}

// keeping adds to what is wanted in busbar's file what it holds for keys of which no contribution
// speaks.
func keeping[T any](wanted, own []T, key func(T) string, contributions []plan.Contribution) []T {
	for _, o := range own {
		if !slices.ContainsFunc(contributions, func(c plan.Contribution) bool { return c.Key == key(o) }) {
			wanted = append(wanted, o)
		}
	}
	return wanted
}

// addresses are those of contributions, sorted, each once.
func addresses(contributions []plan.Contribution) []string {
	var all []string
	for _, c := range contributions {
		all = append(all, c.Address)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unread reports for every contribution that what it hangs on could not be read.
func unread[T any](contributions []plan.Contribution, id, what string, v node.Value[T]) plan.Assessment {
	var a plan.Assessment
	for _, c := range contributions {
		f := plan.Unread(id, c.Key+": "+what, v)
		f.Address, f.Target = c.Address, c.Key
		a.Findings = append(a.Findings, f)
	}
	return a
}

// unreadable is the first file whose content is unknown, as a Value for unread.
func unreadable(files []confdir.File) (node.Value[string], bool) {
	for _, f := range files {
		if f.Reason != "" {
			return node.Unknown[string](f.Reason, node.Source{Path: f.Path}), true
		}
	}
	return node.Value[string]{}, false
}

// backupSuffix ends the name of the copy that is kept of a foreign file.
const backupSuffix = ".busbar-backup"

// takeOver collects changes to lines of foreign files.
type takeOver struct {
	// lines of each file that change: number to new content, empty to take it out.
	lines map[string]map[int]string
	// texts are files that change as a whole.
	texts     map[string]string
	addresses map[string][]string
}

// claim notes that a block takes something over in a file.
func (t *takeOver) claim(path, address string) {
	if t.addresses == nil {
		t.addresses = map[string][]string{}
	}
	t.addresses[path] = append(t.addresses[path], address)
}

// rewrite gives a file a new text.
func (t *takeOver) rewrite(path, text string) {
	if t.texts == nil {
		t.texts = map[string]string{}
	}
	t.texts[path] = text
}

// cut takes a line out.
func (t *takeOver) cut(path string, line int, address string) { t.replace(path, line, "", address) }

// replace gives a line new content, without its line end.
func (t *takeOver) replace(path string, line int, content, address string) {
	if t.lines == nil {
		t.lines = map[string]map[int]string{}
	}
	if t.lines[path] == nil {
		t.lines[path] = map[int]string{}
	}
	t.lines[path][line] = content
	t.claim(path, address)
}

// apply returns files with the changes made. A vendor's file, which its package
// would restore, is not changed but hidden by a copy of its name below /etc.
func (t *takeOver) apply(files []confdir.File) []confdir.File {
	changed := slices.Clone(files)
	for i, f := range files {
		text := f.Text
		if edits, ok := t.lines[f.Path]; ok {
			text = editLines(f.Text, edits)
		}
		if whole, ok := t.texts[f.Path]; ok {
			text = whole
		}
		switch at := ownedByAdmin(f.Path); {
		case text == f.Text:
		case at == f.Path:
			changed[i].Text = text
		default:
			changed = append(changed, confdir.File{Path: at, Text: text})
		}
	}
	return changed
}

// ownedByAdmin is the path below /etc that stands for a file of a configuration directory.
func ownedByAdmin(p string) string {
	if strings.HasPrefix(p, "/etc/") {
		return p
	}
	return path.Join("/etc", path.Base(path.Dir(p)), path.Base(p))
}

// steps make the changes and keep a copy of each file's old content beside it.
func (t *takeOver) steps(files []confdir.File, o owned) []plan.Step {
	var steps []plan.Step
	for _, f := range t.apply(files) {
		old := slices.IndexFunc(files, func(g confdir.File) bool { return g.Path == f.Path })
		if old >= 0 && files[old].Text == f.Text {
			continue
		}
		var owners []string
		for p, addresses := range t.addresses {
			if p == f.Path || old < 0 && ownedByAdmin(p) == f.Path {
				owners = append(owners, addresses...)
			}
		}
		slices.Sort(owners)
		step := plan.Step{
			Addresses: slices.Compact(owners), Phase: plan.PhaseFiles, Target: f.Path, Effect: o.effect, Provides: []string{o.sink},
			Summary: fmt.Sprintf("take over %s (the old content stays in %s)", f.Path, f.Path+backupSuffix),
			Action:  plan.WriteFile{Path: f.Path, Text: f.Text, Computed: true, Backup: f.Path + backupSuffix, List: o.list},
		}
		if old < 0 {
			step.Summary = fmt.Sprintf("write %s, which hides the package's file of that name", f.Path)
			step.Action = plan.WriteFile{Path: f.Path, Text: f.Text, List: o.list}
		}
		steps = append(steps, step)
	}
	return steps
}

func editLines(text string, edits map[int]string) string {
	var out strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		content, edited := edits[n]
		switch {
		case !edited:
			out.WriteString(line)
		case content != "":
			out.WriteString(content)
			out.WriteString(line[len(strings.TrimRight(line, "\r\n")):])
		}
	}
	return out.String()
}

// line is a line of a file as changed so far, without its line end; empty when there is
// none.
func (t *takeOver) line(files []confdir.File, path string, number int) string {
	if content, edited := t.lines[path][number]; edited {
		return content
	}
	for _, f := range files {
		if f.Path != path {
			continue
		}
		n := 0
		for line := range strings.Lines(f.Text) {
			if n++; n == number {
				return strings.TrimRight(line, "\r\n")
			}
		}
	}
	return ""
}
