package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/internal/limits"
	"busbar/internal/sysctld"
	"busbar/node"
)

// WriteFile makes a file have exactly Text. Content that is already equal is not written.
type WriteFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
	// Backup is the path at which the old content is kept first; empty for none.
	Backup string `json:"backup,omitempty"`
	// Computed: Text was made of the old content, so that a file which changed since
	// must not be overwritten.
	Computed bool `json:"computed,omitempty"`
	// List is the kind of query whose list of files holds this one, so that
	// readers of the directory see the change; empty for a file read on its own.
	List node.Query `json:"list,omitzero"`
}

// Kind is "write-file".
func (WriteFile) Kind() string { return "write-file" }

// Queries asks for the file, or for the list that holds it.
func (a WriteFile) Queries() []node.Query { return fileQueries(a.Path, a.List) }

// Done compares the content.
func (a WriteFile) Done(f node.Facts) (bool, string, error) {
	state, err := fileState(f, a.Path, a.List)
	switch {
	case err != nil:
		return false, "", err
	case !state.Exists:
		return false, "absent", nil
	case state.Text == a.Text:
		return true, "as wanted", nil
	default:
		return false, "other content", nil
	}
}

// Project writes the file in facts.
func (a WriteFile) Project(f node.Facts) node.Facts {
	return projectFile(f, a.Path, node.FileState{Exists: true, Text: a.Text}, a.List)
}

// RemoveFile makes an owned file be absent.
type RemoveFile struct {
	Path string     `json:"path"`
	List node.Query `json:"list,omitzero"`
}

// Kind is "remove-file".
func (RemoveFile) Kind() string { return "remove-file" }

// Queries asks for the file, or for the list that holds it.
func (a RemoveFile) Queries() []node.Query { return fileQueries(a.Path, a.List) }

// Done reports whether the file is absent.
func (a RemoveFile) Done(f node.Facts) (bool, string, error) {
	state, err := fileState(f, a.Path, a.List)
	switch {
	case err != nil:
		return false, "", err
	case state.Exists:
		return false, "present", nil
	default:
		return true, "absent", nil
	}
}

// Project removes the file in facts.
func (a RemoveFile) Project(f node.Facts) node.Facts {
	return projectFile(f, a.Path, node.FileState{}, a.List)
}

// fileQueries: a file that is part of a list is read through the list.
func fileQueries(p string, list node.Query) []node.Query {
	if list != (node.Query{}) {
		return []node.Query{list}
	}
	return []node.Query{node.File.Query(p)}
}

func fileState(f node.Facts, p string, list node.Query) (node.FileState, error) {
	if list == (node.Query{}) {
		v := node.File.Get(f, p)
		state, ok := v.Get()
		if !ok {
			return node.FileState{}, fmt.Errorf("%s: %s", p, v.Reason())
		}
		return state, nil
	}
	files, err := listedFiles(f, list)
	if err != nil {
		return node.FileState{}, err
	}
	for _, file := range files {
		if file.Path != p {
			continue
		}
		if file.Reason != "" {
			return node.FileState{}, fmt.Errorf("%s: %s", p, file.Reason)
		}
		return node.FileState{Exists: true, Text: file.Text}, nil
	}
	return node.FileState{}, nil
}

// listedFiles reads a list of files, also the one inside the boot configuration.
func listedFiles(f node.Facts, list node.Query) ([]confdir.File, error) {
	if list.Kind == node.Boot.Name() {
		v := node.Boot.Get(f, list.Key)
		boot, ok := v.Get()
		if !ok {
			return nil, fmt.Errorf("%s: %s", list, v.Reason())
		}
		return boot.Defaults, nil
	}
	v := node.Get[[]confdir.File](f, list)
	files, ok := v.Get()
	if !ok {
		return nil, fmt.Errorf("%s: %s", list, v.Reason())
	}
	return files, nil
}

func projectFile(f node.Facts, p string, state node.FileState, list node.Query) node.Facts {
	if list == (node.Query{}) {
		return f.With(node.File.Answer(p, node.Known(state, node.Source{Path: p})))
	}
	files, err := listedFiles(f, list)
	if err != nil {
		return f
	}
	files = slices.DeleteFunc(slices.Clone(files), func(file confdir.File) bool { return file.Path == p })
	if state.Exists {
		files = append(files, confdir.File{Path: p, Text: state.Text})
		slices.SortStableFunc(files, func(a, b confdir.File) int {
			// The main file of a configuration stands before its fragments.
			if ad, bd := path.Dir(a.Path), path.Dir(b.Path); ad != bd {
				return strings.Compare(ad, bd)
			}
			return strings.Compare(a.Path, b.Path)
		})
	}
	if unit, ok := strings.CutSuffix(path.Base(path.Dir(p)), ".d"); ok && list == node.OwnedDropIns.Query("") {
		v := node.Unit.Get(f, unit)
		if u, ok := v.Get(); ok {
			u.NeedReload = true
			f = f.With(node.Unit.Answer(unit, node.Known(u, v.Source())))
		}
	}
	if list.Kind == node.Boot.Name() {
		v := node.Boot.Get(f, list.Key)
		boot, _ := v.Get()
		boot.Defaults = files
		if p == grub.FragmentFile {
			boot.Outdated = state.Exists && boot.Generated != ""
		}
		return f.With(node.Boot.Answer(list.Key, node.Known(boot, v.Source())))
	}
	return f.With(node.AnswerTo(list, node.Known(files, node.Get[[]confdir.File](f, list).Source())))
}

// SetSysctl sets a running kernel parameter.
type SetSysctl struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kind is "set-sysctl".
func (SetSysctl) Kind() string { return "set-sysctl" }

// Queries asks for the parameter.
func (a SetSysctl) Queries() []node.Query { return []node.Query{node.Sysctl.Query(a.Name)} }

// Done compares values; runs of white space are equal, and so are spellings of a number.
func (a SetSysctl) Done(f node.Facts) (bool, string, error) {
	v := node.Sysctl.Get(f, a.Name)
	value, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	return sysctld.EqualValue(value, a.Value), sysctld.Blanks(value), nil
}

// Project sets the value in facts.
func (a SetSysctl) Project(f node.Facts) node.Facts {
	return f.With(node.Sysctl.Answer(a.Name, node.Known(a.Value, node.Sysctl.Get(f, a.Name).Source())))
}

// LoadModule loads a kernel module with modprobe, or unloads it.
type LoadModule struct {
	// Name with underscores.
	Name string `json:"name"`
	// Unload: take it out.
	Unload bool `json:"unload,omitempty"`
}

// Kind is "load-module" or "unload-module".
func (a LoadModule) Kind() string {
	if a.Unload {
		return "unload-module"
	}
	return "load-module"
}

// Queries asks for the module.
func (a LoadModule) Queries() []node.Query { return []node.Query{node.Module.Query(a.Name)} }

// Done reports whether the module is loaded, or gone.
func (a LoadModule) Done(f node.Facts) (bool, string, error) {
	v := node.Module.Get(f, a.Name)
	m, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	found := "not loaded"
	switch {
	case m.Loaded:
		found = "loaded"
	case m.Changing != "":
		return false, m.Changing, nil
	}
	return m.Loaded != a.Unload, found, nil
}

// Project loads or unloads the module in facts. PeerMemoryModule registers as it is loaded, or is not loaded.
func (a LoadModule) Project(f node.Facts) node.Facts {
	v := node.Module.Get(f, a.Name)
	m, _ := v.Get()
	m.Loaded, m.Changing = !a.Unload, ""
	m.RefCount, m.Holders = 0, nil
	f = f.With(node.Module.Answer(a.Name, node.Known(m, v.Source())))
	if a.Name != PeerMemoryModule {
		return f
	}
	client := node.PathState{}
	if !a.Unload {
		client = node.PathState{Exists: true, Type: "file", Mode: "0444"}
	}
	return f.With(node.Path.Answer(PeerMemoryClient, node.Known(client, node.Path.Get(f, PeerMemoryClient).Source())))
}

// SetUnit brings a systemd unit into a state. Empty fields are left alone.
type SetUnit struct {
	Unit string `json:"unit"`
	// Enablement is enabled, disabled or masked.
	Enablement string `json:"enablement,omitempty"`
	// Active is active or inactive.
	Active string `json:"active,omitempty"`
}

// Kind is "set-unit".
func (SetUnit) Kind() string { return "set-unit" }

// Queries asks for the unit.
func (a SetUnit) Queries() []node.Query { return []node.Query{node.Unit.Query(a.Unit)} }

// Done compares the unit's states. A start or stop that systemd has queued is done: what the
// job comes to is told by later facts.
func (a SetUnit) Done(f node.Facts) (bool, string, error) {
	v := node.Unit.Get(f, a.Unit)
	u, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	done := true
	found := []string{}
	if a.Enablement != "" {
		found = append(found, u.File)
		done = done && Enabled(a.Enablement, u.File)
	}
	if a.Active != "" {
		active, ok := u.Active.Get()
		if !ok {
			return false, "", errors.New(u.Active.Reason())
		}
		words, as := RunState(a.Active, active, u)
		found = append(found, words)
		done = done && as != Drift
	}
	return done, strings.Join(found, ", "), nil
}

// RunState judges whether a unit that is active (systemd's ActiveState) is as good as a
// wanted one of active and inactive: OK, Drift, or Skipped while a job of systemd is to bring it
// about. words say what is found.
func RunState(want, active string, u node.UnitState) (words string, status Status) {
	switch {
	case want == "active" && u.Starting() && active != "active":
		return active + ", its start is queued", Skipped
	case want == "inactive" && u.Job == "stop" && active == "active":
		return active + ", its stop is queued", Skipped
	case active == want, want == "inactive" && active == "failed":
		return active, OK
	default:
		return active, Drift
	}
}

// ActiveText is systemd's ActiveState of a unit, or empty where it is unknown.
func ActiveText(u node.UnitState) string {
	active, _ := u.Active.Get()
	return active
}

// Enabled reports whether a unit's file state (systemctl(1), is-enabled) is as good as
// a wanted one of enabled, disabled and masked. A unit without an [Install] section, an
// alias, and one that a generator made is started by others; what stands in /run
// does not outlive the next boot.
func Enabled(want, found string) bool {
	switch want {
	case "enabled":
		return slices.Contains([]string{"enabled", "alias", "static", "generated", "indirect"}, found)
	case "disabled":
		return slices.Contains([]string{"disabled", "static", "indirect", "enabled-runtime"}, found)
	default:
		return found == want
	}
}

// Project sets the states in facts.
func (a SetUnit) Project(f node.Facts) node.Facts {
	v := node.Unit.Get(f, a.Unit)
	u, _ := v.Get()
	if a.Enablement != "" {
		u.File = a.Enablement
		u.Load = "loaded"
		if a.Enablement == "masked" {
			u.Load = "masked"
		}
	}
	if a.Active != "" {
		u.Active, u.Job = node.Known(a.Active, u.Active.Source()), ""
	}
	return f.With(node.Unit.Answer(a.Unit, node.Known(u, v.Source())))
}

// ReloadUnits makes systemd read the changed files of units (daemon-reload).
type ReloadUnits struct {
	Units []string `json:"units"`
}

// Kind is "daemon-reload".
func (ReloadUnits) Kind() string { return "daemon-reload" }

// Queries asks for the units.
func (a ReloadUnits) Queries() []node.Query {
	queries := make([]node.Query, 0, len(a.Units))
	for _, unit := range a.Units {
		queries = append(queries, node.Unit.Query(unit))
	}
	return queries
}

// Done reports whether systemd knows the files of all units as they are.
func (a ReloadUnits) Done(f node.Facts) (bool, string, error) {
	for _, unit := range a.Units {
		v := node.Unit.Get(f, unit)
		u, ok := v.Get()
		if !ok {
			return false, "", fmt.Errorf("%s: %s", unit, v.Reason())
		}
		if u.NeedReload {
			return false, unit + " has changed files", nil
		}
	}
	return true, "unit files as read", nil
}

// Project reloads the units in facts.
func (a ReloadUnits) Project(f node.Facts) node.Facts {
	for _, unit := range a.Units {
		v := node.Unit.Get(f, unit)
		if u, ok := v.Get(); ok {
			u.NeedReload = false
			f = f.With(node.Unit.Answer(unit, node.Known(u, v.Source())))
		}
	}
	return f
}

// RestartUnit makes a unit's main process have the resource limits of its unit files
// by restarting it.
type RestartUnit struct {
	Unit   string         `json:"unit"`
	Limits []ProcessLimit `json:"limits"`
}

// ProcessLimit is a resource limit that a process must have, soft and hard.
type ProcessLimit struct {
	// Item as limits.conf(5) names it: memlock, nofile, stack.
	Item string `json:"item"`
	// Value in bytes, or a count for nofile.
	Value limits.Value `json:"value"`
	// Exact: a higher limit is not as good.
	Exact bool `json:"exact,omitempty"`
}

// Holds reports whether a process with limit p meets l.
func (l ProcessLimit) Holds(p limits.Pair) bool {
	if l.Exact {
		return p.Soft == l.Value && p.Hard == l.Value
	}
	return p.Soft >= l.Value && p.Hard >= l.Value
}

// Kind is "restart-unit".
func (RestartUnit) Kind() string { return "restart-unit" }

// Queries asks for the unit and its main process' limits.
func (a RestartUnit) Queries() []node.Query {
	return []node.Query{node.Unit.Query(a.Unit), node.ProcLimits.Query(a.Unit)}
}

// Done compares the limits; a unit that does not run, or is to be started again by a job of
// systemd, is done.
func (a RestartUnit) Done(f node.Facts) (bool, string, error) {
	if u, _ := node.Unit.Get(f, a.Unit).Get(); u.Starting() {
		return true, "its restart is queued", nil
	}
	v := node.ProcLimits.Get(f, a.Unit)
	p, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	if !p.Running {
		return true, "not running", nil
	}
	in, err := limits.ParseProc(p.Text)
	if err != nil {
		return false, "", fmt.Errorf("limits of process %d: %w", p.PID, err)
	}
	for _, want := range a.Limits {
		pair, ok := in[want.Item]
		if !ok {
			return false, "", fmt.Errorf("%s is not among the limits of process %d", want.Item, p.PID)
		}
		if !want.Holds(pair) {
			return false, fmt.Sprintf("%s %s:%s", want.Item, pair.Soft, pair.Hard), nil
		}
	}
	return true, "as wanted", nil
}

// Project gives the main process the wanted limits in facts.
func (a RestartUnit) Project(f node.Facts) node.Facts {
	v := node.ProcLimits.Get(f, a.Unit)
	p, _ := v.Get()
	for _, want := range a.Limits {
		p.Text = limits.SetProc(p.Text, want.Item, limits.Pair{Soft: want.Value, Hard: want.Value})
	}
	return f.With(node.ProcLimits.Answer(a.Unit, node.Known(p, v.Source())))
}

// WriteMarker leaves the marker for after the reboot.
type WriteMarker struct {
	Marker node.Marker `json:"marker"`
}

// Kind is "write-marker".
func (WriteMarker) Kind() string { return "write-marker" }

// Queries is empty: the marker is part of the inventory.
func (WriteMarker) Queries() []node.Query { return nil }

// Done compares the marker.
func (a WriteMarker) Done(f node.Facts) (bool, string, error) {
	v := f.Inventory.Marker
	m, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	return m.BootID == a.Marker.BootID && slices.Equal(m.Args, a.Marker.Args), strings.Join(m.Args, " "), nil
}

// Project leaves the marker in facts.
func (a WriteMarker) Project(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.Marker = node.Known(a.Marker, node.Source{Path: node.MarkerPath})
	return f.WithInventory(inv)
}

// MarkerText is the marker file's content.
func MarkerText(m node.Marker) string { return encoded(m) }

// encoded is JSON of what holds plain strings.
func encoded(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	_ = enc.Encode(v) // strings always encode
	return b.String()
}

// SaveProtected saves which NICs are protected, for runs before the network is up.
type SaveProtected struct {
	// NICs as node.Inventory.LastingProtected has them.
	NICs []string `json:"nics"`
}

// Kind is "save-protected".
func (SaveProtected) Kind() string { return "save-protected" }

// Queries is empty: what is saved is part of the inventory.
func (SaveProtected) Queries() []node.Query { return nil }

// Done compares the lists.
func (a SaveProtected) Done(f node.Facts) (bool, string, error) {
	saved, err := needed(f.Inventory.SavedProtected)
	return err == nil && slices.Equal(saved, a.NICs), strings.Join(saved, " "), err
}

// Project saves the list in facts.
func (a SaveProtected) Project(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.SavedProtected = node.Known(a.NICs, node.Source{Path: node.ProtectedPath})
	return f.WithInventory(inv)
}

// ProtectedText is the content of node.ProtectedPath.
func ProtectedText(nics []string) string { return encoded(nics) }
