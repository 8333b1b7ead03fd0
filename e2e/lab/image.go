//go:build e2e

package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// suite is the Debian release in the image.
const suite = "bookworm"

// packages of the image, on top of mmdebstrap's minbase.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "rdma-core", "ibverbs-utils", "pciutils",
	"procps", "ethtool", "linux-image-amd64", "grub2-common", "grub-pc-bin",
}

// essential runs before the kernel is installed: an initramfs with what this disk
// needs is loaded three times faster under emulation.
const essential = `mkdir -p "$1/etc/initramfs-tools/conf.d" &&
echo MODULES=list > "$1/etc/initramfs-tools/conf.d/lab" &&
printf 'virtio_pci\nvirtio_blk\next4\n' > "$1/etc/initramfs-tools/modules"`

// left out of the image, to make it smaller.
var excluded = []string{"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"}

// rootUUID is the root file system's.
const rootUUID = "0b05ba12-1ab0-4000-8000-000000000001"

// DefaultGRUB is /etc/default/grub of the image.
const DefaultGRUB = `GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=ttyS0"
GRUB_TERMINAL=serial
`

const agentPath = "/usr/local/lib/busbar-lab/agent"

// laid are the files that the image has on top of its packages.
var laid = map[string]string{
	"/etc/fstab":        "UUID=" + rootUUID + " / ext4 defaults 0 1\n",
	"/etc/hostname":     "gpu-lab\n",
	"/etc/hosts":        "127.0.0.1 localhost\n127.0.1.1 gpu-lab\n",
	"/etc/machine-id":   "b05ba12b05ba12b05ba12b05ba12b05b\n",
	"/etc/default/grub": DefaultGRUB,
	// The management NIC is the one that gets an address; the others are for scenarios.
	"/etc/systemd/network/10-management.network":               "[Match]\nDriver=virtio_net\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n",
	"/etc/systemd/system/serial-getty@ttyS0.service.d/10.conf": "[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --keep-baud 115200,57600 %I vt220\n",
	"/etc/systemd/system/lab-agent.service": `[Unit]
Description=The lab's agent
StartLimitIntervalSec=0
[Service]
ExecStart=` + agentPath + `
Restart=always
RestartSec=200ms
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[Install]
WantedBy=multi-user.target
`,
}

// linked are links in the image: units that are enabled or masked.
var linked = map[string]string{
	"/etc/systemd/system/multi-user.target.wants/lab-agent.service":        "/etc/systemd/system/lab-agent.service",
	"/etc/systemd/system/multi-user.target.wants/systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
	"/etc/systemd/system/apt-daily.timer":                                  "/dev/null",
	"/etc/systemd/system/apt-daily-upgrade.timer":                          "/dev/null",
	"/etc/systemd/system/dpkg-db-backup.timer":                             "/dev/null",
	"/etc/systemd/system/e2scrub_all.timer":                                "/dev/null",
	"/etc/systemd/system/fstrim.timer":                                     "/dev/null",
	"/etc/systemd/system/systemd-networkd-wait-online.service":             "/dev/null",
}

// The disk: a GPT with a partition for GRUB's core image, and the root.
const (
	diskMiB      = 4096
	rootStartMiB = 3
	rootEndMiB   = 4094
)

// digest names what is made from the given parts.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// Lab is where machines come from: a disk with a bootable Debian and the memory
// of a machine that has booted it.
type Lab struct {
	dir string
	log func(format string, args ...any)

	disk   string // raw image, bootable through its own GRUB
	booted bootedMachine
}

// bootedMachine is a machine that was frozen when it had booted.
type bootedMachine struct{ disk, state string }

// Open makes what is missing: programs (as root on Debian and Ubuntu), the image,
// the booted machine. What was made stays in $BUSBAR_LAB_CACHE, or else in
// $XDG_CACHE_HOME/busbar-lab, or else in /var/cache/busbar-lab, named by the digest of its recipe.
func Open(ctx context.Context, log func(format string, args ...any)) (*Lab, error) {
	l := &Lab{dir: cacheDir(), log: log}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("the lab makes a root file system with device nodes and owners: run it as root")
	}
	if err := install(ctx, log); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(l.dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	return l, l.prepare(ctx)
}

func cacheDir() string {
	if dir := os.Getenv("BUSBAR_LAB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "busbar-lab")
	}
	return "/var/cache/busbar-lab"
}

// lock waits for others that make an image in the same directory.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// needed are programs and files, and the packages in which Debian and Ubuntu have them.
var needed = map[string]string{
	qemu: "qemu-system-x86", "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "parted": "parted",
	"/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}

// install installs what is missing.
func install(ctx context.Context, log func(string, ...any)) error {
	missing := []string{}
	for program, pkg := range needed {
		if _, err := os.Stat(program); err == nil {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install what corresponds to Debian's packages %s", strings.Join(missing, ", "))
	}
	log("installing %s", strings.Join(missing, ", "))
	if err := command(ctx, "apt-get", "update", "-q"); err != nil {
		return err
	}
	return command(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"}, missing...)...)
}

// command runs a program to its end; its output is shown when it fails.
func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return nil
}

// prepare makes the root file system, the disk and the booted machine.
func (l *Lab) prepare(ctx context.Context) error {
	version, err := exec.CommandContext(ctx, qemu, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", qemu, err)
	}
	work, err := os.MkdirTemp(l.dir, "work-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	agent := filepath.Join(work, "agent")
	if err := Build(ctx, agent, "./agent", "-tags", "e2e"); err != nil {
		return err
	}
	agentText, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	tree := digest(suite, strings.Join(packages, " "), essential, strings.Join(excluded, " "))
	disk := digest(tree, fmt.Sprint(laid, linked, diskMiB, rootStartMiB, rootEndMiB), string(agentText))
	booted := digest(disk, string(version), strings.Join(hardware(), " "))

	rootTar := filepath.Join(l.dir, "root-"+tree+".tar")
	l.disk = filepath.Join(l.dir, "disk-"+disk+".img")
	l.booted.disk = filepath.Join(l.dir, "booted-"+booted+".qcow2")
	l.booted.state = filepath.Join(l.dir, "booted-"+booted+".state")
	for _, made := range []struct {
		what, file string
		make       func() error
	}{
		{"the root file system", rootTar, func() error { return makeRoot(ctx, rootTar) }},
		{"the disk", l.disk, func() error { return l.makeDisk(ctx, work, rootTar, agentText) }},
		{"a machine that has booted", l.booted.state, func() error { return l.makeBooted(ctx, work) }},
	} {
		if _, err := os.Stat(made.file); err == nil {
			continue
		}
		l.log("making %s (%s)", made.what, made.file)
		began := time.Now()
		if err := made.make(); err != nil {
			return fmt.Errorf("making %s: %w", made.what, err)
		}
		l.log("made in %s", time.Since(began).Round(time.Second))
	}
	return nil
}

// Build builds a command of this module, named relative to e2e/, as a static binary.
func Build(ctx context.Context, file, pkg string, flags ...string) error {
	_, source, _, _ := runtime.Caller(0)
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-trimpath", "-buildvcs=false", "-o", file}, flags...), pkg)...)
	cmd.Dir = filepath.Dir(filepath.Dir(source))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return nil
}

func makeRoot(ctx context.Context, file string) error {
	args := []string{"--variant=minbase", "--include=" + strings.Join(packages, ","), "--essential-hook=" + essential}
	for _, path := range excluded {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	temp := file + ".part.tar"
	if err := command(ctx, "mmdebstrap", append(args, suite, temp)...); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

// makeDisk lays the tree out on a disk and lets it install its own GRUB.
func (l *Lab) makeDisk(ctx context.Context, work, rootTar string, agent []byte) error {
	root, disk := filepath.Join(work, "root"), filepath.Join(work, "disk.img")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := command(ctx, "tar", "--numeric-owner", "-xf", rootTar, "-C", root); err != nil {
		return err
	}
	if err := lay(root, agent); err != nil {
		return err
	}
	kernel, err := one(root, "boot/vmlinuz-*")
	if err != nil {
		return err
	}
	initrd, err := one(root, "boot/initrd.img-*")
	if err != nil {
		return err
	}
	for _, step := range [][]string{
		{"truncate", "-s", fmt.Sprintf("%dM", diskMiB), disk},
		{"parted", "-s", disk, "mklabel", "gpt", "mkpart", "bios", "1MiB", fmt.Sprintf("%dMiB", rootStartMiB), "set", "1", "bios_grub", "on",
			"mkpart", "root", "ext4", fmt.Sprintf("%dMiB", rootStartMiB), fmt.Sprintf("%dMiB", rootEndMiB)},
		{"mke2fs", "-q", "-F", "-t", "ext4", "-U", rootUUID, "-d", root, "-E", fmt.Sprintf("offset=%d", rootStartMiB<<20), disk,
			fmt.Sprintf("%dk", (rootEndMiB-rootStartMiB)<<10)},
	} {
		if err := command(ctx, step[0], step[1:]...); err != nil {
			return err
		}
	}
	m, err := l.start(ctx, work, l.console(work), "-drive", drive(disk, "raw"), "-kernel", kernel, "-initrd", initrd, "-append", "root=UUID="+rootUUID+" ro console=ttyS0")
	if err != nil {
		return err
	}
	defer m.Cut()
	if err := m.waitBooted(ctx); err != nil {
		return err
	}
	for _, step := range []string{"grub-install --target=i386-pc /dev/vda", "update-grub", "sync", "systemctl poweroff --no-block"} {
		if r := m.Run(ctx, "sh", "-c", step); r.Code != 0 {
			return fmt.Errorf("in the guest: %s: %s", step, r)
		}
	}
	if err := m.Wait(ctx); err != nil {
		return err
	}
	return os.Rename(disk, l.disk)
}

// lay writes the lab's own files into the tree.
func lay(root string, agent []byte) error {
	write := func(name string, data []byte, mode fs.FileMode) error {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, mode); err != nil {
			return err
		}
		return os.Chmod(file, mode)
	}
	if err := write(agentPath, agent, 0o755); err != nil {
		return err
	}
	for name, text := range laid {
		if err := write(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, target := range linked {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, file); err != nil {
			return err
		}
	}
	return nil
}

// one is the only file that the pattern below root names.
func one(root, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for %s: %w", pattern, err)
	case len(found) != 1:
		return "", fmt.Errorf("%d files are %s in the tree, wanted is one", len(found), pattern)
	}
	return found[0], nil
}

// makeBooted boots the disk through its own GRUB, and keeps the machine as it is
// then: its disk as an overlay, its memory and devices as QEMU's migration stream.
func (l *Lab) makeBooted(ctx context.Context, work string) error {
	if err := overlay(ctx, l.disk, "raw", l.booted.disk); err != nil {
		return err
	}
	m, err := l.start(ctx, work, l.console(work), "-drive", drive(l.booted.disk, "qcow2"))
	if err != nil {
		return err
	}
	defer m.Cut()
	if err := m.waitBooted(ctx); err != nil {
		return err
	}
	if r := m.Run(ctx, "sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"); r.Code != 0 {
		return fmt.Errorf("in the guest: %s", r)
	}
	temp := filepath.Join(work, "state")
	if err := m.save(ctx, temp); err != nil {
		return err
	}
	m.Cut()
	return os.Rename(temp, l.booted.state)
}

func overlay(ctx context.Context, base, format, file string) error {
	return command(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", format, file)
}
