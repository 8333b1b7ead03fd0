//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"

	"busbar/node"
	"busbar/plan"
)

// updateInitramfsDeadline: MODULES=most with all firmware and xz takes minutes on a slow disk.
const updateInitramfsDeadline = 5 * time.Minute

// keptSuffix ends the name of the old image while the new one is made. No boot loader's script looks for such a name.
const keptSuffix = ".busbar-backup"

// dpkgLock is held by whoever installs packages (dpkg(1)), and may at any moment have the image made anew too.
const dpkgLock = "/var/lib/dpkg/lock-frontend"

// updateInitramfs has update-initramfs(8) make an image anew. It makes IMAGE.new, renames that, flushes it, and runs the hooks of
// /etc/initramfs/post-update.d; whether the image is any good it does not look at. So the old one is kept beside it,
// and comes back unless the new one unpacks to its end and holds every module that was in the old one.
func (r *runner) updateInitramfs(ctx context.Context, a plan.UpdateInitramfs, now node.Facts) error {
	before, err := r.imageModules(ctx, now.Inventory, a)
	if err != nil {
		return err
	}
	if err := r.packagesAtRest(); err != nil {
		return err
	}
	handle, err := pathrs.OpenInRoot(r.Root, path.Dir(a.Image))
	if err != nil {
		return &os.PathError{Op: "open", Path: path.Dir(a.Image), Err: err}
	}
	defer handle.Close()
	dir, err := openIn(handle, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	image := keptImage{dir, path.Base(a.Image)}
	if err := image.keep(); err != nil {
		return fmt.Errorf("keeping the old %s: %w", a.Image, err)
	}
	err = r.runProgram(updateInitramfsDeadline, "update-initramfs", "-u", "-k", a.Kernel)
	if err == nil {
		err = r.judgeImage(ctx, now.Inventory, a, before)
	}
	if err != nil {
		if putBack := image.putBack(); putBack != nil {
			return fmt.Errorf("%w; the old image could not be put back and is %s: %w", err, a.Image+keptSuffix, putBack)
		}
		return fmt.Errorf("%w; %s is the old one", err, a.Image)
	}
	if err := image.drop(); err != nil {
		return fmt.Errorf("%s is made anew, and the old one is left as %s: %w", a.Image, a.Image+keptSuffix, err)
	}
	return nil
}

// imageModules are the modules in the image. What cannot be read to its end, or does not boot next, is an error.
func (r *runner) imageModules(ctx context.Context, inv node.Inventory, a plan.UpdateInitramfs) ([]string, error) {
	v := node.Initramfs.Get(r.read(ctx, inv, []node.Query{node.Initramfs.Query("")}), "")
	state, ok := v.Get()
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is not whole: %s", a.Image, v.Reason())
	case state.Image != a.Image:
		return nil, fmt.Errorf("%s boots next, and not %s; run apply again", state.Image, a.Image)
	default:
		return state.Modules, nil
	}
}

// judgeImage says what is wrong with the image that was made.
func (r *runner) judgeImage(ctx context.Context, inv node.Inventory, a plan.UpdateInitramfs, before []string) error {
	after, err := r.imageModules(ctx, inv, a)
	if err != nil {
		return fmt.Errorf("update-initramfs succeeded, but what it made does not do: %w", err)
	}
	lost := slices.DeleteFunc(slices.Clone(before), func(module string) bool { return slices.Contains(after, module) })
	if len(lost) > 0 {
		return fmt.Errorf("update-initramfs succeeded, but what it made lacks modules that were there: %s (if that is meant, run update-initramfs -u -k %s by hand)", strings.Join(lost, ", "), a.Kernel)
	}
	if err := flush(r.Root, a.Image); err != nil {
		return fmt.Errorf("update-initramfs succeeded, but what it made could not be flushed: %w", err)
	}
	return nil
}

// packagesAtRest refuses while somebody installs packages.
func (r *runner) packagesAtRest() error {
	f, err := pathrs.OpenInRoot(r.Root, dpkgLock)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dpkgLock, Err: err}
	}
	defer f.Close()
	lock, err := pathrs.Reopen(f, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open", Path: dpkgLock, Err: err}
	}
	defer lock.Close()
	held := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_GETLK, &held); err != nil {
		return &os.PathError{Op: "ask for the lock on", Path: dpkgLock, Err: err}
	}
	if held.Type != unix.F_UNLCK {
		return fmt.Errorf("packages are being installed (process %d holds %s), which may make the initramfs anew as well; run apply again when that has ended", held.Pid, dpkgLock)
	}
	return nil
}

// keptImage is an image whose old content is kept beside it.
type keptImage struct {
	dir  *os.File
	base string
}

func (k keptImage) kept() string { return k.base + keptSuffix }

// keep gives the image a second name, or where the file system has no hard links (FAT) makes a copy, after it has seen that
// there is room for a new one.
func (k keptImage) keep() error {
	// What a killed run left is older than the image, which was read just now and is whole.
	if err := k.unlink(); err != nil {
		return err
	}
	f, err := openIn(k.dir, k.base, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	need := uint64(info.Size()) //nolint:gosec // a file's size
	if err := k.room(need); err != nil {
		return err
	}
	err = unix.Linkat(int(k.dir.Fd()), k.base, int(k.dir.Fd()), k.kept(), 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		if err := k.room(2 * need); err != nil {
			return err
		}
		err = k.copy(f)
	}
	if err != nil {
		_ = k.unlink() // a part of a copy
		return &os.PathError{Op: "keep", Path: k.base, Err: err}
	}
	return k.dir.Sync()
}

// room refuses where the file system has not so many bytes free, and an eighth more: the new image may be larger.
func (k keptImage) room(need uint64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(k.dir.Fd()), &st); err != nil {
		return &os.PathError{Op: "statfs", Path: k.dir.Name(), Err: err}
	}
	if free := st.Bavail * uint64(st.Bsize); free < need+need/8 { //nolint:gosec // a block's size
		return fmt.Errorf("its file system has %d MiB free, and while a new image is made beside the old one %d MiB are needed: remove kernels that nobody boots", free>>20, (need+need/8)>>20+1)
	}
	return nil
}

func (k keptImage) copy(f *os.File) error {
	to, err := openIn(k.dir, k.kept(), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return errors.Join(err, to.Sync(), to.Close())
}

// putBack makes the old image the image again.
func (k keptImage) putBack() error {
	if err := unix.Renameat(int(k.dir.Fd()), k.kept(), int(k.dir.Fd()), k.base); err != nil {
		return &os.PathError{Op: "rename", Path: k.kept(), Err: err}
	}
	return k.drop() // rename(2) of two names of one file does nothing
}

// drop removes the old image.
func (k keptImage) drop() error {
	if err := k.unlink(); err != nil {
		return err
	}
	return k.dir.Sync()
}

func (k keptImage) unlink() error {
	err := unix.Unlinkat(int(k.dir.Fd()), k.kept(), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &os.PathError{Op: "unlink", Path: k.kept(), Err: err}
	}
	return nil
}
