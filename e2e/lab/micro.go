//go:build e2e

package lab

import (
	"context"
	_ "embed"
	"io/fs"
	"os"
	"path/filepath"
)

// What the micro machine is made with and started by.
var (
	//go:embed micro/make
	makeInitramfs string
	//go:embed micro/init
	microInit string
)

// makeMicro makes the micro machine's initramfs, boots the image's kernel with it, and keeps
// the machine as it is then.
func makeMicro(ctx context.Context, work, root string, agent []byte, product string) error {
	parts := filepath.Join(root, "lab")
	for name, text := range map[string]string{"make": makeInitramfs, "init": microInit, "agent": string(agent)} {
		if err := write(filepath.Join(parts, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	if err := chroot(ctx, root, "/lab/make"); err != nil {
		return err
	}
	kernel, err := one(root, "boot/vmlinuz-*")
	if err != nil {
		return err
	}
	if err := os.Mkdir(product, 0o755); err != nil {
		return err
	}
	for from, to := range map[string]string{kernel: "vmlinuz", filepath.Join(parts, "initramfs"): "initramfs"} {
		if err := os.Link(from, filepath.Join(product, to)); err != nil {
			return err
		}
	}
	m, err := boot(ctx, work, Micro, logged(work), initramfs(product)...)
	if err != nil {
		return err
	}
	defer m.Cut()
	return m.save(ctx, filepath.Join(product, stateFile))
}

// write writes a file and makes its directories.
func write(file string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, data, mode); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}
