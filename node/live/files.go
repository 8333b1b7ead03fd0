package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"busbar/internal/confdir"
	"busbar/node"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

const (
	// maxFile bounds every file that is read whole.
	maxFile = 1 << 20
	// maxIndex bounds depmod's indexes, which pass 1 MiB on kernels with many modules.
	maxIndex = 32 << 20
	// maxAttribute is the size of a sysfs attribute, one page (Documentation/filesystems/sysfs.rst).
	maxAttribute = 4096
)

// refusal is an error whose text is the reason as it is shown.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	errNotRead     = refusal("not read: --root")
	errNoMount     = refusal("no mounted file system holds it")
	errTooLarge    = refusal("larger than 1 MiB")
	errIsDirectory = refusal("is a directory")
)

// files reads files inside a root directory. Paths are node paths: absolute, as
// somebody sees them who lives in the root. Symbolic links, absolute ones too,
// lead to files inside the root.
type files struct {
	// root is empty for this machine's own root, else an absolute path.
	root string
	// running: /proc, /sys, /dev and /run of the root show a running system.
	running bool
}

// resolve returns where p stands on this machine.
func (f files) resolve(p string) (string, error) {
	if !f.running && isRunningState(p) {
		return "", errNotRead
	}
	if f.root == "" {
		return p, nil
	}
	return securejoin.SecureJoin(f.root, p)
}

// resolveLink is resolve without following p itself.
func (f files) resolveLink(p string) (string, error) {
	if !f.running && isRunningState(p) {
		return "", errNotRead
	}
	if f.root == "" {
		return p, nil
	}
	dir, err := securejoin.SecureJoin(f.root, path.Dir(p))
	return filepath.Join(dir, path.Base(p)), err
}

// kernelDirs are the directories that the kernel fills.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

func isRunningState(p string) bool { return inAny(p, kernelDirs...) || inAny(p, "/run") }

func inAny(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

// away is where p's links lead when that is no place for files: a device, or, as far as it
// is not read, what only a running system has. Else it is empty.
func (f files) away(p string) string {
	if inAny(p, kernelDirs...) {
		return ""
	}
	target, err := securejoin.SecureJoin("/"+f.root, p)
	target = strings.TrimPrefix(target, f.root)
	if err != nil || !isRunningState(target) || f.running && !inAny(target, kernelDirs...) {
		return ""
	}
	return target
}

// open opens a regular file for reading. Anything else is refused unopened: a
// FIFO would hang, and opening a device can have effects.
func (f files) open(p string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	host, err := f.resolve(p)
	if err != nil {
		return -1, st, err
	}
	err = retry(func() error { return unix.Stat(host, &st) })
	if err == nil {
		err = regular(st)
	}
	if err != nil || f.root != "" {
		if away := f.away(p); away != "" {
			err = refusal("is a link to " + away)
		}
	}
	if err != nil {
		return -1, st, err
	}
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if f.root != "" {
		flags |= unix.O_NOFOLLOW
	}
	fd := -1
	err = retry(func() (err error) { fd, err = unix.Open(host, flags, 0); return err })
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = regular(st)
	}
	if err != nil {
		shut(fd)
		return -1, st, err
	}
	return fd, st, nil
}

func regular(st unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return errIsDirectory
	default:
		return refusal("is a " + strings.ReplaceAll(fileType(st.Mode), "-", " ") + ", not a regular file")
	}
}

// fileType names the type of st_mode (inode(7)) as node.PathState does.
func fileType(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFCHR:
		return "character-device"
	case unix.S_IFBLK:
		return "block-device"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFLNK:
		return "symlink"
	default:
		return ""
	}
}

// shut closes what was only read, so that nothing can be lost.
func shut(fd int) { _ = unix.Close(fd) }

// readBytes reads a whole file of at most limit bytes.
func (f files) readBytes(p string, limit int) ([]byte, error) {
	fd, st, err := f.open(p)
	if err != nil {
		return nil, err
	}
	defer shut(fd)
	if st.Size > int64(limit) {
		return nil, errTooLarge
	}
	// The size of a file in procfs is 0 and in sysfs a page, whatever it holds.
	b := make([]byte, 0, max(st.Size+1, 512))
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, cap(b))
		}
		n := 0
		err := retry(func() (err error) { n, err = unix.Read(fd, b[len(b):cap(b)]); return err })
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return b, nil
		}
		b = b[:len(b)+n]
		if len(b) > limit {
			return nil, errTooLarge
		}
	}
}

// read reads a text file.
func (f files) read(p string) (string, error) {
	b, err := f.readBytes(p, maxFile)
	if err != nil {
		return "", err
	}
	return text(b)
}

// text refuses what JSON could not carry byte for byte.
func text(b []byte) (string, error) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size == 1 {
			return "", refusal(fmt.Sprintf("is not valid UTF-8 (byte %d)", at+1))
		}
		at += size
	}
}

// attribute reads the first page of a kernel attribute without white space around it. On
// this machine's sysfs and procfs, where there is nothing but regular files, it
// saves the system calls that would make sure of that.
func (f files) attribute(p string) (string, error) {
	if f.root != "" {
		s, err := f.read(p)
		return strings.TrimSpace(s), err
	}
	host, err := f.resolve(p)
	if err != nil {
		return "", err
	}
	fd := -1
	err = retry(func() (err error) {
		fd, err = unix.Open(host, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	defer shut(fd)
	var page [maxAttribute]byte
	n := 0
	err = retry(func() (err error) { n, err = unix.Read(fd, page[:]); return err })
	if err != nil {
		return "", err
	}
	s, err := text(page[:n])
	return strings.TrimSpace(s), err
}

// tail reads the last n bytes of a file of any size; fewer when it is shorter.
func (f files) tail(p string, n int64) ([]byte, error) {
	fd, st, err := f.open(p)
	if err != nil {
		return nil, err
	}
	defer shut(fd)
	b := make([]byte, min(n, st.Size))
	got := 0
	err = retry(func() (err error) { got, err = unix.Pread(fd, b, st.Size-int64(len(b))); return err })
	return b[:max(got, 0)], err
}

// entries lists a directory, sorted by name.
func (f files) entries(p string) ([]fs.DirEntry, error) {
	host, err := f.resolve(p)
	if err != nil {
		return nil, err
	}
	if away := f.away(p); f.root != "" && away != "" {
		return nil, refusal("is a link to " + away)
	}
	d, err := os.OpenFile(host, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer closeAll(d)
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// names lists a directory's names, sorted.
func (f files) names(p string) ([]string, error) {
	entries, err := f.entries(p)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (f files) readlink(p string) (string, error) {
	host, err := f.resolveLink(p)
	if err != nil {
		return "", err
	}
	return os.Readlink(host)
}

// linkBase is the last element of a link's target, empty when p is no link.
func (f files) linkBase(p string) string {
	target, err := f.readlink(p)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// stat follows links, lstat does not follow the last one.
func (f files) stat(p string) (unix.Stat_t, error) {
	var st unix.Stat_t
	host, err := f.resolve(p)
	if err != nil {
		return st, err
	}
	return st, retry(func() error { return unix.Stat(host, &st) })
}

func (f files) lstat(p string) (unix.Stat_t, error) {
	var st unix.Stat_t
	host, err := f.resolveLink(p)
	if err != nil {
		return st, err
	}
	return st, retry(func() error { return unix.Lstat(host, &st) })
}

// exists reports whether p, its links followed, is there for certain.
func (f files) exists(p string) bool {
	_, err := f.stat(p)
	return err == nil
}

// fragments reads the files of conf.d directories whose names end in one of the suffixes.
// Absent directories are empty; one that cannot be listed is an error. Hidden
// files and directories are no fragments. A fragment of others that is a link to /dev/null,
// or any to nowhere, reads as empty, and still hides its namesakes.
func (f files) fragments(dirs []string, suffixes ...string) ([]confdir.File, error) {
	list := []confdir.File{}
	for _, dir := range dirs {
		if dir == "/lib" || strings.HasPrefix(dir, "/lib/") {
			if st, err := f.lstat("/lib"); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				continue // merged into /usr/lib
			}
		}
		entries, err := f.entries(dir)
		if absent(err) || errors.Is(err, errNotRead) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s", dir, reason(err))
		}
		for _, e := range entries {
			name := e.Name()
			if strings.HasPrefix(name, ".") || e.IsDir() ||
				!slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }) {
				continue
			}
			file, err := f.fragment(path.Join(dir, name))
			if !errors.Is(err, errIsDirectory) {
				list = append(list, file)
			}
		}
	}
	return list, nil
}

// fragment reads one configuration file; the error is also the file's Reason.
func (f files) fragment(p string) (confdir.File, error) {
	s, err := f.read(p)
	if err == nil {
		return confdir.File{Path: p, Text: s}, nil
	}
	if st, lerr := f.lstat(p); lerr == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		if absent(err) || f.away(p) == os.DevNull && !owned(p) {
			return confdir.File{Path: p}, nil
		}
	}
	return confdir.File{Path: p, Reason: reason(err)}, err
}

// owned tells busbar's own fragments. One that is masked is not just empty: nothing can be
// written there.
func owned(p string) bool {
	base := path.Base(p)
	return base == "busbar.conf" || strings.HasPrefix(base, "zz-busbar.")
}

// present reads those of paths that exist.
func (f files) present(paths ...string) []confdir.File {
	list := []confdir.File{}
	for _, p := range paths {
		file, err := f.fragment(p)
		if !absent(err) && !errors.Is(err, errNotRead) {
			list = append(list, file)
		}
	}
	return list
}

// absent: the file is certain not to exist.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// reason says why something could not be read, without the path.
func reason(err error) string {
	var errno unix.Errno
	switch {
	case absent(err):
		return "no such file or directory"
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "permission denied: run as root"
	case errors.Is(err, unix.ELOOP):
		return "symbolic links form a loop"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return err.Error()
	}
}

// unknown is a fact that could not be read at p.
func unknown[T any](err error, p string) node.Value[T] {
	return node.Unknown[T](reason(err), node.Source{Path: p})
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
