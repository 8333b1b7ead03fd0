//go:build linux

package apply

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"

	"busbar/internal/atomicfile"
	"busbar/internal/nextboot"
	"busbar/node"
)

// updateGRUBDeadline: os-prober looks at every partition of the node.
const updateGRUBDeadline = 5 * time.Minute

// updateGRUB generates the boot loader's configuration and puts it in place as a whole.
// update-grub(8) is grub-mkconfig -o /boot/grub/grub.cfg "$@", which in the end copies what it
// generated over that file: on a full disk, or killed there, it leaves a part of one and a node
// that does not boot. The last -o counts, so it is told to generate in /run. A program of that
// name that does not heed it has written the file itself.
func (r *runner) updateGRUB(now node.Facts) error {
	r.sweepGenerated()
	defer r.sweepGenerated()
	name := generatedPrefix + strconv.Itoa(os.Getpid())
	output := path.Join(lockDir, name)
	cmd, title := exec.Command("/usr/bin/env", "update-grub", "-o", output), "update-grub"
	if r.running {
		file, err := r.lookPath("update-grub")
		if err != nil {
			return err
		}
		cmd = exec.Command(file, "-o", filepath.Join(r.Root, output))
	} else {
		// The tree's own program, which env(1) looks for in the tree.
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: r.Root}
		title += " in " + r.Root
	}
	cmd.Env = locale()
	if err := r.wait(updateGRUBDeadline, cmd, title); err != nil {
		return err
	}
	if err := r.installGenerated(name, now); err != nil {
		return err
	}
	// Without the file there is nothing to flush, and reading back judges.
	if err := flush(r.Root, nextboot.GeneratedPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("update-grub succeeded, but what it wrote could not be flushed: %w", err)
	}
	return nil
}

// generatedPrefix begins the names of what update-grub generates beside the lock, its process
// ends them: the update-grub of a run that was killed may still be at work.
const generatedPrefix = "grub.cfg-"

// installGenerated makes what update-grub generated the boot loader's configuration, unless
// nothing in it boots.
func (r *runner) installGenerated(name string, now node.Facts) error {
	dir, err := pathrs.OpenInRoot(r.Root, lockDir)
	if err != nil {
		return &os.PathError{Op: "open", Path: lockDir, Err: err}
	}
	defer dir.Close()
	f, err := openIn(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	boot, _ := node.Boot.Get(now, "").Get() // Done has read it
	var options []atomicfile.Option
	if boot.Generated == "" {
		options = append(options, atomicfile.Mode(0o600)) // as grub-mkconfig does: it may hold a password
	}
	boot.Generated, boot.GeneratedReason = string(text), ""
	if _, err := nextboot.Read(boot); err != nil {
		return fmt.Errorf("what update-grub generated is not put in place: %w", err)
	}
	_, err = atomicfile.Write(r.Root, nextboot.GeneratedPath, text, options...)
	return err
}

// sweepGenerated removes what update-grub generated, in this run or in one that was killed.
func (r *runner) sweepGenerated() {
	handle, err := pathrs.OpenInRoot(r.Root, lockDir)
	if err != nil {
		return
	}
	defer handle.Close()
	dir, err := openIn(handle, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what is not listed stays until the next boot
	for _, name := range names {
		if strings.HasPrefix(name, generatedPrefix) {
			_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		}
	}
}

// locale are this process' locale variables: update-grub translates the titles of menu
// entries, by which GRUB_DEFAULT may select one.
func locale() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return !strings.HasPrefix(variable, "LANG") && !strings.HasPrefix(variable, "LC_")
	})
}

// flush makes a file that another program wrote, and its whole file system, last.
func flush(root, file string) error {
	handle, err := pathrs.OpenInRoot(root, path.Dir(file))
	if err != nil {
		return &os.PathError{Op: "open", Path: path.Dir(file), Err: err}
	}
	defer handle.Close()
	dir, err := openIn(handle, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := openIn(dir, path.Base(file), unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: path.Dir(file), Err: err}
	}
	return nil
}
