//go:build e2e

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// buildStandIns builds the stand-in modules in the image's tree, against its headers. Guests are given them often: a
// tenth is left without what a debugger wants.
const buildStandIns = `make -C /lab/kmod KDIR=$(echo /lib/modules/*/build) OUT=/lab/modules && strip --strip-debug /lab/modules/*.ko`

// standIns are the sources of the stand-in modules, which play hardware that the machines do
// not have: the files of e2e/kmod but those that Go and people read, by name.
type standIns map[string]string

func readStandIns() (standIns, error) {
	dir := os.DirFS(filepath.Join(e2eDir(), "kmod"))
	sources := standIns{}
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains([]string{".go", ".md"}, path.Ext(name)) {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		sources[name] = string(text)
		return err
	})
	return sources, err
}

// makeModules builds the stand-in modules. They are no part of the disk, which a change in
// them leaves as it is.
func makeModules(ctx context.Context, root string, sources standIns, product string) error {
	for name, text := range sources {
		if err := write(filepath.Join(root, "lab/kmod", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := chroot(ctx, root, "sh", "-c", buildStandIns); err != nil {
		return err
	}
	return os.Rename(filepath.Join(root, "lab/modules"), product)
}

// Module is the text of NAME.ko, as e2e/kmod was built for the kernel of the machines.
func (l *Lab) Module(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(l.modules, name+".ko"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("e2e/kmod builds no %s.ko", name)
	}
	return text, err
}
