package live

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/modprobe"
	"busbar/internal/sysctld"
	"busbar/node"

	"golang.org/x/sys/unix"
)

func (s *session) sysctl(name string) node.Value[string] {
	p, err := sysctlPath(name)
	if err != nil {
		return node.Unknown[string](err.Error(), node.Source{})
	}
	v, err := s.read1(p)
	if absent(err) && s.exists("/proc/sys") {
		return node.Unknown[string]("the running kernel has no such parameter", node.Source{Path: p})
	}
	if err != nil {
		return unknown[string](err, p)
	}
	return node.Known(v, node.Source{Path: p})
}

// sysctlPath is the file of a kernel parameter. As in sysctl(8), names are separated by
// dots, and a slash stands for a dot inside a name (net.ipv4.conf.eth0/100.rp_filter).
func sysctlPath(name string) (string, error) {
	swapped := strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		default:
			return r
		}
	}, name)
	for element := range strings.SplitSeq(swapped, "/") {
		if element == "" || element == "." || element == ".." {
			return "", fmt.Errorf("%q is no name of a kernel parameter", name)
		}
	}
	return "/proc/sys/" + swapped, nil
}

// read1 reads a file of one value without its final newline.
func (f files) read1(p string) (string, error) {
	v, err := f.read(p)
	return strings.TrimSuffix(v, "\n"), err
}

func (s *session) commandLine(string) node.Value[string] {
	const p = "/proc/cmdline"
	v, err := s.read1(p)
	if err != nil {
		return unknown[string](err, p)
	}
	return node.Known(v, node.Source{Path: p})
}

func (s *session) sysctlFiles(string) node.Value[[]confdir.File] {
	return fileList(sysctld.Dirs[0])(s.fragments(sysctld.Dirs, ".conf"))
}

func (s *session) modulesLoadFiles(string) node.Value[[]confdir.File] {
	return fileList(modprobe.ModulesLoadDirs[0])(s.fragments(modprobe.ModulesLoadDirs, ".conf"))
}

func (s *session) modprobeFiles(string) node.Value[[]confdir.File] {
	return fileList(modprobe.ModprobeDirs[0])(s.fragments(modprobe.ModprobeDirs, ".conf"))
}

func (s *session) limitsFiles(string) node.Value[[]confdir.File] {
	const dir = "/etc/security/limits.d"
	list, err := s.fragments([]string{dir}, ".conf")
	return fileList(dir)(append(s.present("/etc/security/limits.conf"), list...), err)
}

// systemdConfigDirs are where systemd's own configuration stands, highest priority first
// (systemd-system.conf(5)).
var systemdConfigDirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd"}

func (s *session) systemConfFiles(string) node.Value[[]confdir.File] {
	return s.systemdFiles("system.conf")
}

// logindConfFiles stand beside system.conf (logind.conf(5)).
func (s *session) logindConfFiles(string) node.Value[[]confdir.File] {
	return s.systemdFiles("logind.conf")
}

func (s *session) systemdFiles(name string) node.Value[[]confdir.File] {
	main, dirs := []string{}, []string{}
	for _, dir := range systemdConfigDirs {
		main = append(main, dir+"/"+name)
		dirs = append(dirs, dir+"/"+name+".d")
	}
	list, err := s.fragments(dirs, ".conf")
	return fileList(main[0])(append(s.present(main[:len(main)-1]...), list...), err)
}

// maxHomes bounds how many home directories are looked into.
const maxHomes = 200

func (s *session) ncclUserFiles(string) node.Value[[]confdir.File] {
	const homes, name = "/home", ".nccl.conf"
	list := s.present("/root/" + name)
	users, err := s.entries(homes)
	switch {
	case s.isAutomount(homes):
		list = append(list, confdir.File{Path: homes + "/*/" + name, Reason: "not read: looking would mount home directories"})
	case absent(err):
	case err != nil:
		list = append(list, confdir.File{Path: homes + "/*/" + name, Reason: reason(err)})
	}
	if len(users) > maxHomes {
		list = append(list, confdir.File{Path: homes + "/*/" + name, Reason: fmt.Sprintf("only %d of %d home directories were read", maxHomes, len(users))})
		users = users[:maxHomes]
	}
	for _, u := range users {
		if u.IsDir() {
			list = append(list, s.present(path.Join(homes, u.Name(), name))...)
		}
	}
	return fileList(homes)(append(list, s.present("/etc/environment")...), nil)
}

func (s *session) isAutomount(p string) bool {
	host, err := s.resolve(p)
	if err != nil {
		return false
	}
	var st unix.Statfs_t
	return unix.Statfs(host, &st) == nil && st.Type == unix.AUTOFS_SUPER_MAGIC
}

// fileList makes the fact of a list that is found at p.
func fileList(p string) func([]confdir.File, error) node.Value[[]confdir.File] {
	return func(list []confdir.File, err error) node.Value[[]confdir.File] {
		if err != nil {
			return unknown[[]confdir.File](err, p)
		}
		return node.Known(list, node.Source{Path: p})
	}
}

func (s *session) file(p string) node.Value[node.FileState] {
	content, err := s.read(p)
	switch {
	case absent(err):
		return node.Known(node.FileState{}, node.Source{Path: p})
	case err != nil:
		return unknown[node.FileState](err, p)
	default:
		return node.Known(node.FileState{Exists: true, Text: content}, node.Source{Path: p})
	}
}

func (s *session) path(p string) node.Value[node.PathState] {
	st, err := s.stat(p)
	if absent(err) || errors.Is(err, unix.ELOOP) {
		st, err = s.lstat(p) // the link itself, where it leads nowhere
	}
	switch {
	case absent(err):
		return node.Known(node.PathState{}, node.Source{Path: p})
	case err != nil:
		return unknown[node.PathState](err, p)
	}
	return node.Known(node.PathState{
		Exists: true,
		Type:   fileType(st.Mode),
		Mode:   fmt.Sprintf("%04o", st.Mode&0o7777),
	}, node.Source{Path: p})
}
