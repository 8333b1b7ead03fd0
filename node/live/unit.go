package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"busbar/internal/confdir"
	"busbar/node"
	"busbar/systemd"

	"golang.org/x/sys/unix"
)

// unitDirs are where systemd looks for units, highest priority first (systemd.unit(5)).
var unitDirs = []string{
	"/etc/systemd/system.control",
	"/run/systemd/system.control",
	"/run/systemd/transient",
	"/run/systemd/generator.early",
	"/etc/systemd/system",
	"/run/systemd/system",
	"/run/systemd/generator",
	"/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",
	"/lib/systemd/system",
	"/run/systemd/generator.late",
}

// managerDeadline is how long systemd may take for one answer, the connection included. While it
// reads its unit files anew (daemon-reload) it answers nobody, for seconds on a large or busy node.
const managerDeadline = 10 * time.Second

// manager is a connection to systemd that is made when it is first needed, and not tried again.
type manager struct {
	conn *systemd.Conn
	err  error
}

func (m *manager) close() {
	if m.conn != nil {
		m.conn.Close()
	}
}

// ask asks systemd about a unit.
func (m *manager) ask(ctx context.Context, unit string) (systemd.Unit, error) {
	if m.err != nil {
		return systemd.Unit{}, m.err
	}
	ctx, cancel := context.WithTimeout(ctx, managerDeadline)
	defer cancel()
	var u systemd.Unit
	var err error
	if m.conn == nil {
		m.conn, m.err = systemd.Connect(ctx)
	}
	if m.err == nil {
		u, err = m.conn.Unit(ctx, unit)
	}
	if ctx.Err() != nil {
		m.err = fmt.Errorf("no answer within %s from systemd", managerDeadline)
	}
	return u, cmp.Or(m.err, err)
}

// unit asks systemd, and where that does not answer, the unit files.
func (s *session) unit(name string) node.Value[node.UnitState] {
	if err := checkUnitName(name); err != nil {
		return node.Unknown[node.UnitState](err.Error(), node.Source{})
	}
	why := "not read: --root"
	if s.running {
		why = "no D-Bus"
	}
	if s.machine {
		u, err := s.manager.ask(s.ctx, name)
		if err == nil {
			source := node.Source{Call: "org.freedesktop.systemd1.Unit " + name}
			return node.Known(node.UnitState{Load: u.Load, File: u.File, Active: node.Known(u.Active, source), NeedReload: u.NeedReload, Job: u.Job}, source)
		}
		why = err.Error()
	}
	state, p, err := s.unitOnDisk(name)
	if err != nil {
		return unknown[node.UnitState](err, p)
	}
	state.Active = node.Unknown[string](why, node.Source{})
	return node.Known(state, node.Source{Path: p})
}

// maxUnitName is systemd's UNIT_NAME_MAX less the NUL.
const maxUnitName = 255

func checkUnitName(name string) error {
	if len(name) > maxUnitName || strings.ContainsAny(name, "/\x00") || path.Ext(name) == "" || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%.300q is no full name of a unit", name)
	}
	return nil
}

// What systemd says of units and their files.
const (
	loadLoaded   = "loaded"
	loadNotFound = "not-found"
	loadMasked   = "masked"
)

// unitOnDisk finds out what systemctl would say of a unit from its files and links.
func (f files) unitOnDisk(name string) (node.UnitState, string, error) {
	fragment, err := f.unitFragment(name)
	if err != nil {
		return node.UnitState{}, fragment.Path, err
	}
	if fragment.Path == "" {
		return node.UnitState{Load: loadNotFound}, unitDirs[4], nil
	}
	dir := path.Dir(fragment.Path)
	runtime := strings.HasPrefix(dir, "/run/")
	state := node.UnitState{Load: loadLoaded}
	switch {
	case f.leadsNowhere(fragment.Path):
		return node.UnitState{Load: loadNotFound}, fragment.Path, nil
	case strings.TrimSpace(fragment.Text) == "": // empty, or a link to /dev/null
		state.Load, state.File = loadMasked, suffixed("masked", runtime)
		return state, fragment.Path, nil
	case strings.HasPrefix(path.Base(dir), "generator"):
		state.File = "generated"
		return state, fragment.Path, nil
	case path.Base(dir) == "transient":
		state.File = "transient"
		return state, fragment.Path, nil
	}
	for _, config := range []string{"/etc/systemd/system", "/run/systemd/system"} {
		enabled, err := f.enabledIn(config, name)
		if err != nil {
			return state, config, err
		}
		if enabled {
			state.File = suffixed("enabled", strings.HasPrefix(config, "/run/"))
			return state, fragment.Path, nil
		}
	}
	state.File = "static"
	if hasInstall(fragment.Text) {
		state.File = "disabled"
	}
	return state, fragment.Path, nil
}

func suffixed(state string, runtime bool) string {
	if runtime {
		return state + "-runtime"
	}
	return state
}

// unitFragment finds a unit's own file, that of its template for an instance. None is the zero File.
func (f files) unitFragment(name string) (confdir.File, error) {
	for _, candidate := range []string{name, templateOf(name)} {
		if candidate == "" {
			continue
		}
		for _, dir := range unitDirs {
			p := dir + "/" + candidate
			if _, err := f.lstat(p); absent(err) || errors.Is(err, errNotRead) {
				continue
			}
			file, err := f.fragment(p)
			if file.Reason != "" {
				return file, err
			}
			return file, nil
		}
	}
	return confdir.File{}, nil
}

// templateOf is NAME@.TYPE of NAME@INSTANCE.TYPE, else empty.
func templateOf(name string) string {
	prefix, rest, ok := strings.Cut(name, "@")
	instance := strings.TrimSuffix(rest, path.Ext(rest))
	if !ok || instance == "" {
		return ""
	}
	return prefix + "@" + path.Ext(name)
}

// leadsNowhere reports whether a file is a link without a target. In a unit's place it hides those of
// other directories, and there is no unit.
func (f files) leadsNowhere(p string) bool {
	st, err := f.lstat(p)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK || f.away(p) != "" {
		return false
	}
	_, err = f.stat(p)
	return absent(err)
}

// enabledIn reports whether a unit is enabled by links in one of the directories where systemctl
// makes them: in some TARGET.wants or TARGET.requires, or as an alias. Files that are no links, systemd
// warns of and ignores there, and a link to /dev/null takes the unit out (src/core/load-dropin.c,
// process_deps; src/shared/install.c, find_symlinks_in_directory).
func (f files) enabledIn(dir, name string) (bool, error) {
	entries, err := f.entries(dir)
	if absent(err) || errors.Is(err, errNotRead) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		p := dir + "/" + e.Name()
		switch ext := path.Ext(e.Name()); {
		case ext == ".wants" || ext == ".requires":
			link := p + "/" + name
			if f.linkBase(link) != "" && f.away(link) != os.DevNull {
				return true, nil
			}
		case e.Name() != name && ext == path.Ext(name) && f.linkBase(p) == name:
			return true, nil
		}
	}
	return false, nil
}

// hasInstall reports whether a unit file has an [Install] section.
func hasInstall(content string) bool {
	for line := range strings.Lines(content) {
		if strings.TrimSpace(line) == "[Install]" {
			return true
		}
	}
	return false
}

// unitFiles are a unit's fragment and drop-ins.
func (s *session) unitFiles(name string) node.Value[[]confdir.File] {
	if err := checkUnitName(name); err != nil {
		return node.Unknown[[]confdir.File](err.Error(), node.Source{})
	}
	list := []confdir.File{}
	fragment, _ := s.unitFragment(name)
	if fragment.Path != "" {
		list = append(list, fragment)
	}
	dirs := dropInDirs(name)
	dropIns, err := s.fragments(dirs, ".conf")
	return fileList("/etc/systemd/system/"+name)(append(list, confdir.Merge(dropIns, dirs)...), err)
}

// ownedDropIns are busbar's drop-ins of all units.
func (s *session) ownedDropIns(string) node.Value[[]confdir.File] {
	const dir, name = "/etc/systemd/system", "zz-busbar.conf"
	list := []confdir.File{}
	entries, err := s.names(dir)
	if err != nil && !absent(err) {
		return unknown[[]confdir.File](err, dir)
	}
	for _, e := range entries {
		if path.Ext(e) == ".d" {
			list = append(list, s.present(dir+"/"+e+"/"+name)...)
		}
	}
	return node.Known(list, node.Source{Path: dir})
}

// dropInDirs are the directories of a unit's drop-ins, highest priority first: in each unit
// directory those of the unit, its template, and its name cut off at dashes (a-b-.service.d,
// a-.service.d), and after all of them those of its type (service.d).
func dropInDirs(name string) []string {
	kind := path.Ext(name)
	names := []string{name}
	for _, full := range []string{name, templateOf(name)} {
		if full == "" {
			continue
		}
		if full != name {
			names = append(names, full)
		}
		base := strings.TrimSuffix(full, kind)
		for dash := strings.LastIndexByte(base, '-'); dash > 0; dash = strings.LastIndexByte(base[:dash], '-') {
			if dash+1 < len(base) {
				names = append(names, base[:dash+1]+kind)
			}
		}
	}
	dirs := []string{}
	for _, dir := range unitDirs {
		for _, n := range names {
			dirs = append(dirs, dir+"/"+n+".d")
		}
	}
	for _, dir := range unitDirs {
		dirs = append(dirs, dir+"/"+strings.TrimPrefix(kind, ".")+".d")
	}
	return dirs
}

// procLimits reads the limits of a unit's main process, which systemd names; without systemd it
// is the process that has the unit's name.
func (s *session) procLimits(unit string) node.Value[node.ProcessLimits] {
	if err := checkUnitName(unit); err != nil {
		return node.Unknown[node.ProcessLimits](err.Error(), node.Source{})
	}
	if s.machine {
		u, err := s.manager.ask(s.ctx, unit)
		switch {
		case err == nil && u.MainPID == 0:
			return node.Known(node.ProcessLimits{}, node.Source{Call: "org.freedesktop.systemd1.Service " + unit})
		case err == nil:
			return s.limitsOf(u.MainPID)
		case systemd.Available():
			return node.Unknown[node.ProcessLimits](err.Error(), node.Source{Call: "org.freedesktop.systemd1"})
		}
	}
	pid, err := s.processNamed(strings.TrimSuffix(unit, path.Ext(unit)))
	switch {
	case err != nil:
		return unknown[node.ProcessLimits](err, "/proc")
	case pid == 0:
		return node.Known(node.ProcessLimits{}, node.Source{Path: "/proc"})
	default:
		return s.limitsOf(pid)
	}
}

// limitsOf reads a process; one that ended meanwhile does not run.
func (s *session) limitsOf(pid int) node.Value[node.ProcessLimits] {
	dir := "/proc/" + strconv.Itoa(pid)
	source := node.Source{Path: dir + "/limits"}
	content, err := s.read(dir + "/limits")
	if err == nil {
		var stat string
		if stat, err = s.read(dir + "/stat"); err == nil {
			name, _, _ := parseStat(stat)
			return node.Known(node.ProcessLimits{Running: true, PID: pid, Command: name, Text: content}, source)
		}
	}
	if absent(err) || errors.Is(err, unix.ESRCH) {
		return node.Known(node.ProcessLimits{}, source)
	}
	return unknown[node.ProcessLimits](err, source.Path)
}

// maxName is how much of a process's name the kernel keeps (TASK_COMM_LEN less the NUL).
const maxName = 15

// processNamed finds the process of a name, of several the lowest PID whose
// parent has another name; 0 when none has it.
func (f files) processNamed(name string) (int, error) {
	name = name[:min(len(name), maxName)]
	entries, err := f.names("/proc")
	if err != nil {
		return 0, err
	}
	parents := map[int]int{} // of the processes with that name
	for _, e := range entries {
		pid, err := strconv.Atoi(e)
		if err != nil {
			continue
		}
		stat, err := f.attribute("/proc/" + e + "/stat")
		if err != nil {
			continue // ended meanwhile
		}
		if command, parent, ok := parseStat(stat); ok && command == name {
			parents[pid] = parent
		}
	}
	found := []int{}
	for pid, parent := range parents {
		if _, same := parents[parent]; !same {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return 0, nil
	}
	return slices.Min(found), nil
}

// parseStat reads name and parent of /proc/PID/stat (proc_pid_stat(5)): PID (NAME) STATE
// PARENT. A name may contain anything, parentheses too.
func parseStat(stat string) (name string, parent int, ok bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return "", 0, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return stat[open+1 : end], parent, err == nil
}
