//go:build linux

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"

	"busbar/internal/nextboot"
)

// updateGRUBDeadline: os-prober looks at every partition of the node.
const updateGRUBDeadline = 5 * time.Minute

// updateGRUB generates the boot loader's configuration and makes it last: grub-mkconfig
// renames a new file into place without flushing it, and a power cut after that
// leaves an empty one.
func (r *runner) updateGRUB() error {
	cmd, title := exec.Command("/usr/bin/env", "update-grub"), "update-grub"
	if r.running {
		file, err := r.lookPath("update-grub")
		if err != nil {
			return err
		}
		cmd = exec.Command(file)
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
	// Without the file there is nothing to flush, and reading back judges.
	if err := flush(r.Root, nextboot.GeneratedPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("update-grub succeeded, but what it wrote could not be flushed: %w", err)
	}
	return nil
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
