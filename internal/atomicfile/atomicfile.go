//go:build linux

// Package atomicfile replaces and removes files such that a file holds either
// its old or its new content as a whole, also after a kill, on a full disk or
// after a power cut. It is the only code of busbar that writes files.
//
// The order is that of rename(2) and fsync(2): an O_EXCL temporary file in the
// directory of the target; its content, owner, extended attributes and mode;
// fsync; rename; fsync of the directory. Nothing is written in place.
//
// github.com/google/renameio was considered. It keeps permission bits but no
// owner, ACL or SELinux label, replaces a symbolic link instead of what it leads
// to, and does not flush the directory: all that had to be built around it.
//
// Limits: two writers of one file must exclude each other, a hard link to the
// old file keeps the old content, a new file gets the SELinux label of its
// directory without the policy's rules for names, and a file that GRUB reads
// from XFS needs a FIFREEZE afterwards, since GRUB cannot replay the journal
// (ioctl_fsfreeze(2)).
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Option asks for more than the content of a file.
type Option func(*options)

type options struct {
	mode, uid, gid int // -1: nothing is asked for
	mkdir          bool
}

// Mode wants exactly these permission bits, whatever the umask. Without it a
// new file gets 0644 and a present one keeps its mode.
func Mode(perm fs.FileMode) Option {
	return func(o *options) { o.mode = int(perm.Perm()) }
}

// Owner wants this user and group id; -1 means any. Without it a new file
// belongs to the process and a present one keeps its owner.
func Owner(uid, gid int) Option {
	return func(o *options) { o.uid, o.gid = uid, gid }
}

// MkdirAll makes the missing directories of the path with mode 0755, whatever
// the umask, and flushes each one's parent. What only a symbolic link names is
// not made.
func MkdirAll() Option {
	return func(o *options) { o.mkdir = true }
}

// Write makes data the content of the file at path and says whether that was a
// change. path is absolute as the node sees it, root is "/" or the directory in
// which the node's file system lies. Symbolic links, absolute ones too, are
// followed inside root; what they lead to is replaced or made, and they stay.
//
// A regular file that holds data already, with the Mode and Owner asked for, is
// only read. Another one gives its owner, mode and extended attributes (xattr(7):
// ACLs, SELinux label) to the file that replaces it, except for attributes that
// the kernel derives from content. Temporary files left by a killed Write of
// the same file are removed. Anything but a regular file is an error, and so is one
// that lies, or whose links lead, in /dev, /proc or /sys.
//
// An error says what was being done to which file and what to do next, and wraps
// the errno (unix.EROFS, unix.ENOSPC ...). With changed false the old file is as
// it was. With changed true the new one stands, but its directory could not be
// flushed: a power cut may bring the old one back.
func Write(root, path string, data []byte, opts ...Option) (changed bool, err error) {
	changed, err = system(kernel).write(root, path, data, opts...)
	return changed, explain("write", root, path, err)
}

// Remove removes the file at path, flushes its directory and says whether there
// was one. path and root are those of Write, and links are followed likewise:
// Remove takes away what Write made through a link. Errors are as of Write.
func Remove(root, path string) (changed bool, err error) {
	changed, err = system(kernel).remove(root, path)
	return changed, explain("remove", root, path, err)
}

// system makes a call to the kernel; op and name say what it does to what.
// Every call goes through one, so that tests can record, fail and kill at each.
type system func(op, name string, call func() error) error

func kernel(op, name string, call func() error) error {
	for {
		err := call()
		var errno unix.Errno
		switch {
		case !errors.As(err, &errno):
			return err
		case errno != unix.EINTR || op == "close": // close(2): the descriptor is gone
			return &fs.PathError{Op: op, Path: name, Err: errno}
		}
	}
}

func (sys system) write(root, path string, data []byte, opts ...Option) (changed bool, err error) {
	want := options{mode: -1, uid: -1, gid: -1}
	for _, opt := range opts {
		opt(&want)
	}
	t, err := sys.resolve(root, path, want.mkdir)
	if err != nil {
		return false, err
	}
	defer t.dir.Close()
	want.complete(&t)
	var old *os.File
	if t.exists {
		old, err = sys.open(t.dir, t.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
		if err != nil {
			return false, err
		}
		defer old.Close()
		if same, err := sys.holds(old, &t.stat, data, &want); same || err != nil {
			return false, err
		}
	}
	if err := sys.sweep(t.dir, t.base, want.uid); err != nil {
		return false, err
	}
	if err := sys.replace(&t, old, data, &want); err != nil {
		return false, err
	}
	return true, sys.flush(t.dir)
}

func (sys system) replace(t *target, old *os.File, data []byte, want *options) error {
	temp := fmt.Sprintf("%s%016x", tempPrefix(t.base), rand.Uint64())
	f, err := sys.open(t.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	do := func(op string, call func() error) {
		if err == nil {
			err = sys(op, temp, call)
		}
	}
	do("write", func() error { _, err := f.Write(data); return err })
	do("set owner of", func() error { return f.Chown(want.uid, want.gid) }) // before the mode: clears set-id bits
	if err == nil && old != nil {
		err = sys.copyXattrs(f, old) // before the mode: an ACL sets the group bits
	}
	do("set mode of", func() error { return unix.Fchmod(fd(f), uint32(want.mode)) })
	do("flush", f.Sync)
	do("close", f.Close)
	do("rename", func() error { return unix.Renameat(fd(t.dir), temp, fd(t.dir), t.base) })
	if err != nil {
		f.Close()
		_ = sys.unlink(t.dir, temp) // err counts; what stays is swept by the next Write
	}
	return err
}

func (sys system) remove(root, path string) (changed bool, err error) {
	t, err := sys.resolve(root, path, false)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer t.dir.Close()
	if !t.exists {
		return false, nil
	}
	if err := sys.sweep(t.dir, t.base, int(t.stat.Uid)); err != nil {
		return false, err
	}
	if err := sys.unlink(t.dir, t.base); err != nil {
		return false, err
	}
	return true, sys.flush(t.dir)
}

// complete puts what t has, or a new file gets, where nothing is asked for. The
// owner of a new file is left to the kernel.
func (o *options) complete(t *target) {
	have := [...]int{0o644, -1, -1}
	if t.exists {
		have = [...]int{int(t.stat.Mode & 0o7777), int(t.stat.Uid), int(t.stat.Gid)}
	}
	for i, asked := range []*int{&o.mode, &o.uid, &o.gid} {
		if *asked < 0 {
			*asked = have[i]
		}
	}
}

// holds says that nothing is to be done. It reads only a file of the right
// size, mode and owner.
func (sys system) holds(f *os.File, st *unix.Stat_t, data []byte, want *options) (same bool, err error) {
	if st.Size != int64(len(data)) || int(st.Mode&0o7777) != want.mode ||
		int(st.Uid) != want.uid || int(st.Gid) != want.gid {
		return false, nil
	}
	err = sys("read", f.Name(), func() error {
		have, err := io.ReadAll(f)
		same = bytes.Equal(have, data)
		return err
	})
	return same && err == nil, err
}

// derived are attributes that depend on the content: hashes (IMA, EVM), and file
// capabilities, which the kernel drops at any write.
var derived = []string{"security.ima", "security.evm", "security.capability"}

// acl is the one attribute that a new file inherits from its directory.
const acl = "system.posix_acl_access"

// xattrMax is XATTR_LIST_MAX and XATTR_SIZE_MAX of linux/limits.h, in bytes.
const xattrMax = 65536

func (sys system) copyXattrs(f, old *os.File) error {
	list, err := sys.xattr("list attributes of", old, func(buf []byte) (int, error) { return unix.Flistxattr(fd(old), buf) })
	names := strings.FieldsFunc(string(list), func(r rune) bool { return r == 0 })
	for _, name := range names {
		if slices.Contains(derived, name) {
			continue
		}
		get := func(f *os.File) (value []byte) {
			if err == nil {
				value, err = sys.xattr("read attribute "+name+" of", f, func(buf []byte) (int, error) { return unix.Fgetxattr(fd(f), name, buf) })
			}
			return value
		}
		if want, have := get(old), get(f); err == nil && want != nil && (have == nil || !bytes.Equal(want, have)) {
			_, err = sys.xattr("set attribute "+name+" of", f, func([]byte) (int, error) { return 0, unix.Fsetxattr(fd(f), name, want, 0) })
		}
	}
	if err == nil && !slices.Contains(names, acl) {
		_, err = sys.xattr("remove the inherited ACL of", f, func([]byte) (int, error) { return 0, unix.Fremovexattr(fd(f), acl) })
	}
	return err
}

// xattr makes a call for extended attributes. That a file system has none, or a
// file not this one, is no error but a nil value.
func (sys system) xattr(op string, f *os.File, call func(buf []byte) (int, error)) ([]byte, error) {
	buf, n := make([]byte, xattrMax), 0
	err := sys(op, f.Name(), func() (err error) { n, err = call(buf); return err })
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENODATA) {
		return nil, nil
	}
	return buf[:max(n, 0)], err
}

// flush makes a rename or unlink in dir last. EINVAL comes from file systems
// without fsync for directories (fsync(2)), which have nothing better.
func (sys system) flush(dir *os.File) error {
	if err := sys("flush directory", dir.Name(), dir.Sync); !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

func (sys system) unlink(dir *os.File, name string) error {
	return sys("unlink", name, func() error { return unix.Unlinkat(fd(dir), name, 0) })
}

// tempPrefix begins the name of a temporary file, 16 hexadecimal digits end it:
// hidden, and without a suffix that readers of conf.d directories look for. The
// fixed length tells those of "a" and "a-b" apart.
func tempPrefix(base string) string { return ".busbar-" + base + "-" }

// sweep removes what killed runs left for base: temporary files of this process's
// user, or already given to owner.
func (sys system) sweep(dir *os.File, base string, owner int) error {
	var names []string
	err := sys("list directory", dir.Name(), func() (err error) { names, err = dir.Readdirnames(-1); return err })
	if err != nil {
		return err
	}
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, tempPrefix(base))
		if !ok || len(digits) != 16 || strings.Trim(digits, "0123456789abcdef") != "" {
			continue
		}
		st, err := sys.lstat(dir, name)
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
			int(st.Uid) != os.Geteuid() && int(st.Uid) != owner {
			continue
		}
		if err := sys.unlink(dir, name); err != nil {
			return err
		}
	}
	return nil
}
