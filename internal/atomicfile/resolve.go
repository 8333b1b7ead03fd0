//go:build linux

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// target is what a path leads to when its links are followed: a regular file,
// or the place in a directory where there is none yet.
type target struct {
	dir    *os.File
	base   string
	exists bool
	stat   unix.Stat_t
}

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// resolve follows path inside rootDir: the kernel resolves directories, the last
// component is followed here, because it may be absent. ENOENT means that a
// directory is.
func (sys system) resolve(rootDir, path string, mkdir bool) (target, error) {
	if !strings.HasPrefix(path, "/") {
		return target{}, errors.New("the path is not absolute")
	}
	root, err := os.OpenFile(rootDir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return target{}, fmt.Errorf("no root directory: %v", err) //nolint:errorlint // never taken for an absent file
	}
	defer root.Close()
	for range maxLinks + 1 {
		i := strings.LastIndexByte(path, '/') + 1
		dirName, base := path[:i], path[i:]
		if base == "" || base == "." || base == ".." {
			return target{}, fmt.Errorf("%s names a directory, not a file", path)
		}
		dir, err := sys.openDir(root, dirName, mkdir)
		if err != nil {
			return target{}, err
		}
		if err := sys.lasting(root, dir, base); err != nil {
			dir.Close()
			return target{}, err
		}
		st, err := sys.lstat(dir, base)
		if errors.Is(err, unix.ENOENT) {
			return target{dir: dir, base: base}, nil
		}
		kind := st.Mode & unix.S_IFMT
		if err == nil && kind == unix.S_IFREG {
			return target{dir, base, true, st}, nil
		}
		var link string
		if err == nil && kind == unix.S_IFLNK {
			link, err = sys.readlink(dir, base)
		} else if err == nil {
			err = fmt.Errorf("%s is a %s, not a regular file", path, map[uint32]string{
				unix.S_IFDIR: "directory", unix.S_IFIFO: "FIFO", unix.S_IFSOCK: "socket",
				unix.S_IFCHR: "character device", unix.S_IFBLK: "block device"}[kind])
		}
		dir.Close()
		if err != nil {
			return target{}, err
		}
		if path, mkdir = link, false; !strings.HasPrefix(link, "/") {
			path = dirName + link
		}
	}
	return target{}, &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
}

// openDir opens a directory inside root; name ends in a slash. With mkdir it
// makes those that are missing, from the top.
func (sys system) openDir(root *os.File, name string, mkdir bool) (dir *os.File, err error) {
	err = sys("open directory", name, func() error {
		handle, err := pathrs.OpenatInRoot(root, name) // O_PATH: cannot be listed or flushed
		if err != nil {
			return err
		}
		defer handle.Close()
		n, err := unix.Openat(fd(handle), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			dir = os.NewFile(uintptr(n), name)
		}
		return err
	})
	if !mkdir || !errors.Is(err, unix.ENOENT) {
		return dir, err
	}
	trimmed := strings.TrimRight(name, "/")
	i := strings.LastIndexByte(trimmed, '/') + 1
	parent, err := sys.openDir(root, trimmed[:i], true)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	base := trimmed[i:]
	err = sys("make directory", trimmed, func() error { return unix.Mkdirat(fd(parent), base, 0o755) })
	if err == nil {
		err = sys("set mode of", trimmed, func() error { return unix.Fchmodat(fd(parent), base, 0o755, 0) })
	}
	if err == nil {
		err = sys.flush(parent)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return sys.openDir(root, name, false) // EEXIST may have been a dangling link
}

// lasting refuses a file in the directories that the kernel fills, of the node and of a
// tree alike: a file there is gone with the next boot, and a link to /dev/null says that
// there shall be none. /dev/shm is a place for files.
func (sys system) lasting(root, dir *os.File, base string) error {
	top, err := sys.nameOf(root)
	if err != nil {
		return err
	}
	name, err := sys.nameOf(dir)
	if err != nil {
		return err
	}
	name = strings.TrimPrefix(name, strings.TrimSuffix(top, "/")) + "/"
	for _, kernels := range []string{"/dev/", "/proc/", "/sys/"} {
		if strings.HasPrefix(name, kernels) && !strings.HasPrefix(name, "/dev/shm/") {
			return fmt.Errorf("it leads to %s%s, and in %s no file lasts", name, base, strings.TrimSuffix(kernels, "/"))
		}
	}
	return nil
}

// nameOf is the path of an open directory (proc_pid_fd(5)).
func (sys system) nameOf(dir *os.File) (name string, err error) {
	err = sys("read link", dir.Name(), func() error {
		name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd(dir)))
		return err
	})
	return name, err
}

func (sys system) open(dir *os.File, name string, flags int) (f *os.File, err error) {
	op := "open"
	if flags&unix.O_CREAT != 0 {
		op = "create"
	}
	err = sys(op, name, func() error {
		n, err := unix.Openat(fd(dir), name, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(n), name)
		}
		return err
	})
	return f, err
}

func (sys system) lstat(dir *os.File, name string) (st unix.Stat_t, err error) {
	err = sys("stat", name, func() error { return unix.Fstatat(fd(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

func (sys system) readlink(dir *os.File, name string) (string, error) {
	buf, n := make([]byte, unix.PathMax), 0
	err := sys("read link", name, func() (err error) { n, err = unix.Readlinkat(fd(dir), name, buf); return err })
	return string(buf[:max(n, 0)]), err
}

func fd(f *os.File) int { return int(f.Fd()) }

// explain names the file, and says what to do about an errno.
func explain(verb, root, path string, err error) error {
	if err == nil {
		return nil
	}
	if root != "/" {
		path += " in root " + root
	}
	var errno unix.Errno
	errors.As(err, &errno)
	return fmt.Errorf("%s %s: %w%s", verb, path, err, advice(errno))
}

func advice(errno unix.Errno) string {
	switch errno {
	case unix.EROFS:
		return "; remount it read-write, or make the change where the image is built"
	case unix.ENOSPC, unix.EDQUOT:
		return "; free blocks and inodes (df, df -i) or raise the quota, then run again"
	case unix.EPERM, unix.EACCES:
		return "; run as root; as root, look for an immutable flag (lsattr) and for SELinux or AppArmor denials (journalctl -k)"
	case unix.EBUSY:
		return "; something is mounted on the file: change the file at its source"
	case unix.ELOOP:
		return "; the links form a loop or lead through /proc"
	case unix.ENOENT:
		return "; a directory of the path, or one that a link leads to, does not exist"
	}
	return ""
}
