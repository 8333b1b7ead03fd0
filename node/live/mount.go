package live

import (
	"path"
	"strconv"
	"strings"

	"busbar/node"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// mountPoint is one line of a mount table.
type mountPoint struct {
	point, kind, source string
	readOnly            bool
	options             string // of the file system, where they matter: the server of an NFS mount
}

// mounts reads the mount table, in the order in which things were mounted.
func (f files) mounts() ([]mountPoint, string, error) {
	const info, old = "/proc/self/mountinfo", "/proc/mounts"
	table, err := f.read(info)
	if err == nil {
		return parseMountinfo(table), info, nil
	}
	if !absent(err) {
		return nil, info, err
	}
	if table, err = f.read(old); err != nil {
		return nil, info, err
	}
	return parseMounts(table), old, nil
}

// parseMountinfo reads /proc/PID/mountinfo (proc_pid_mountinfo(5)): ID PARENT MAJOR:MINOR ROOT
// POINT OPTIONS [TAGS] - TYPE SOURCE SUPEROPTIONS. Other lines are left out.
func parseMountinfo(table string) []mountPoint {
	var mounts []mountPoint
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := mountPoint{point: unescapeMount(l[4]), kind: r[0], source: unescapeMount(r[1])}
		if len(r) > 2 {
			m.options = r[2]
		}
		m.readOnly = hasOption(l[5], "ro") || hasOption(m.options, "ro")
		mounts = append(mounts, m)
	}
	return mounts
}

// parseMounts reads /proc/mounts (fstab(5)): SOURCE POINT TYPE OPTIONS DUMP PASS.
func parseMounts(table string) []mountPoint {
	var mounts []mountPoint
	for line := range strings.Lines(table) {
		l := strings.Fields(line)
		if len(l) < 4 {
			continue
		}
		mounts = append(mounts, mountPoint{
			point: unescapeMount(l[1]), kind: l[2], source: unescapeMount(l[0]), options: l[3], readOnly: hasOption(l[3], "ro"),
		})
	}
	return mounts
}

func hasOption(options, name string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// option is the value of NAME=VALUE among mount options.
func option(options, name string) string {
	for o := range strings.SplitSeq(options, ",") {
		if key, value, ok := strings.Cut(o, "="); ok && key == name {
			return value
		}
	}
	return ""
}

// unescapeMount undoes the kernel's octal escapes (\040 for a space).
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// holding returns the mount that holds a path without links: the longest mount point above it,
// of equal ones the last, which covers the others.
func holding(mounts []mountPoint, p string) (mountPoint, bool) {
	best, found := mountPoint{}, false
	for _, m := range mounts {
		if under(p, m.point) && len(m.point) >= len(best.point) {
			best, found = m, true
		}
	}
	return best, found
}

func under(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func (s *session) mount(p string) node.Value[node.MountState] {
	host, err := s.resolve(p)
	if err != nil {
		return unknown[node.MountState](err, p)
	}
	root := s.root
	inTable := strings.TrimPrefix(host, root)
	switch {
	case s.root == "":
		if inTable, err = securejoin.SecureJoin("/", host); err != nil {
			return unknown[node.MountState](err, p)
		}
	case !s.running: // the root is a directory of this machine: so is its mount
		inTable = host
	}
	mounts, err := s.mountTable()
	if err != nil {
		return unknown[node.MountState](err, mounts.source)
	}
	m, ok := holding(mounts.points, path.Clean("/"+inTable))
	if !ok {
		return unknown[node.MountState](errNoMount, mounts.source)
	}
	state := node.MountState{Point: m.point, Type: m.kind, ReadOnly: m.readOnly, Immutable: s.immutable()}
	if s.machine && m.kind == "tmpfs" { // a network file system might not answer
		state.Size = tmpfsSize(m.point)
	}
	if !s.running && root != "" {
		state.Point = "/" + strings.TrimPrefix(strings.TrimPrefix(m.point, root), "/")
		if !under(m.point, root) {
			state.Point = "/" // the mount begins above the root
		}
	}
	return node.Known(state, node.Source{Path: mounts.source})
}

func tmpfsSize(point string) node.Value[uint64] {
	var st unix.Statfs_t
	if err := unix.Statfs(point, &st); err != nil {
		return unknown[uint64](err, point)
	}
	return node.Known(st.Blocks*uint64(st.Bsize), node.Source{Path: point})
}

// mountTable is what is mounted, and where that was read.
type mountTable struct {
	points []mountPoint
	source string
}

// readMounts reads the table in which the root is found.
func (s *session) readMounts() (mountTable, error) {
	table := s.files
	if s.root != "" && !s.running {
		table = files{running: true}
	}
	points, source, err := table.mounts()
	return mountTable{points, source}, err
}

// readImmutable names the system that manages /etc as a whole.
func (s *session) readImmutable() string {
	if os, _ := s.osRelease().Get(); os.ID == "nixos" || s.exists("/etc/NIXOS") {
		return "NixOS"
	}
	return ""
}
