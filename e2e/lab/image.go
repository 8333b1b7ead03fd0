//go:build e2e

package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// suite is the Debian release in the image.
const suite = "bookworm"

// packages of the image, on top of mmdebstrap's minbase.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "rdma-core", "ibverbs-utils", "pciutils",
	"procps", "ethtool", "linux-image-amd64", "grub2-common", "grub-pc-bin",
	"linux-headers-amd64", "gcc", "make", "busybox-static", "cpio", // what the stand-in modules and the micro machine are made with
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

// bootArguments of the kernel. On a busy host an emulated timer ticks too late for the kernel's
// check of it, and the kernel panics. Neither a slow console nor tests of ciphers are to hold up a boot.
const bootArguments = "console=ttyS0 no_timer_check quiet cryptomgr.notests"

// DefaultGRUB is /etc/default/grub of the image.
const DefaultGRUB = `GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="` + bootArguments + `"
GRUB_TERMINAL=serial
`

const agentPath = "/usr/local/lib/busbar-lab/agent"

// laid are the files that the image has on top of its packages.
var laid = map[string]string{
	"/etc/fstab":        "UUID=" + rootUUID + " / ext4 defaults 0 0\n",
	"/etc/hostname":     "gpu-lab\n",
	"/etc/hosts":        "127.0.0.1 localhost\n127.0.1.1 gpu-lab\n",
	"/etc/machine-id":   "b05ba12b05ba12b05ba12b05ba12b05b\n",
	"/etc/default/grub": DefaultGRUB,
	// The management NIC is the one that has an address and the default route; the others are for scenarios.
	"/etc/systemd/network/10-management.network":               "[Match]\nDriver=virtio_net\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\n",
	"/etc/systemd/system/serial-getty@ttyS0.service.d/10.conf": "[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --keep-baud 115200,57600 %I vt220\n",
	// What udev and networkd load for an emulated processor and for radio, in seconds a boot.
	"/etc/modprobe.d/lab-unused.conf": "blacklist ccp\nblacklist cfg80211\nblacklist kvm_amd\n",
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

// linked are links in the image: units that are enabled.
var linked = map[string]string{
	"/etc/systemd/system/multi-user.target.wants/lab-agent.service":        "/etc/systemd/system/lab-agent.service",
	"/etc/systemd/system/multi-user.target.wants/systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
}

// masked are units that no scenario looks at. What a unit costs at each boot is most of a second.
var masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer", "systemd-tmpfiles-clean.timer",
	"e2scrub_reap.service", "getty@tty1.service", "kmod-static-nodes.service", "systemd-logind.service", "systemd-networkd-wait-online.service",
	"systemd-random-seed.service", "systemd-rfkill.socket", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
	"dev-mqueue.mount", "sys-fs-fuse-connections.mount", "sys-kernel-tracing.mount",
	"modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@loop.service",
}

// removed are scripts of update-grub that find nothing in these machines.
var removed = []string{"/etc/grub.d/05_debian_theme", "/etc/grub.d/20_linux_xen", "/etc/grub.d/30_os-prober", "/etc/grub.d/30_uefi-firmware"}

// The disk: a GPT with a partition for GRUB's core image, and the root. The spare one is empty.
const (
	diskMiB      = 4096
	rootStartMiB = 3
	rootEndMiB   = 4094
	spareMiB     = 1024
)

func makeRoot(ctx context.Context, product string) error {
	args := []string{"--variant=minbase", "--include=" + strings.Join(packages, ","), "--essential-hook=" + essential}
	for _, path := range excluded {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	return command(ctx, "mmdebstrap", append(args, suite, product)...)
}

// makeDisk lays the tree out on a disk and lets it install its own GRUB.
func makeDisk(ctx context.Context, work, root string, agent []byte, product string) error {
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
		{"truncate", "-s", fmt.Sprintf("%dM", diskMiB), product},
		{"parted", "-s", product, "mklabel", "gpt", "mkpart", "bios", "1MiB", fmt.Sprintf("%dMiB", rootStartMiB), "set", "1", "bios_grub", "on",
			"mkpart", "root", "ext4", fmt.Sprintf("%dMiB", rootStartMiB), fmt.Sprintf("%dMiB", rootEndMiB)},
		{"mke2fs", "-q", "-F", "-t", "ext4", "-U", rootUUID, "-d", root, "-E", fmt.Sprintf("offset=%d", rootStartMiB<<20), product,
			fmt.Sprintf("%dk", (rootEndMiB-rootStartMiB)<<10)},
	} {
		if err := command(ctx, step[0], step[1:]...); err != nil {
			return err
		}
	}
	spare := filepath.Join(work, spareDisk)
	if err := makeSpare(ctx, spare); err != nil {
		return err
	}
	args := append(drives(product, "raw", spare), "-kernel", kernel, "-initrd", initrd, "-append", "root=UUID="+rootUUID+" ro "+bootArguments)
	m, err := boot(ctx, work, Intel, logged(work), args...)
	if err != nil {
		return err
	}
	defer m.Cut()
	for _, step := range []string{"grub-install --target=i386-pc /dev/vda", "update-grub", "sync"} {
		if r := m.Run(ctx, "sh", "-c", step); r.Code != 0 {
			return fmt.Errorf("in the guest: %s: %s", step, r)
		}
	}
	m.Run(ctx, "systemctl", "poweroff", "--no-block") // the machine may end before it answers
	return m.Wait(ctx)
}

// lay writes the lab's own files into the tree.
func lay(root string, agent []byte) error {
	if err := write(filepath.Join(root, agentPath), agent, 0o755); err != nil {
		return err
	}
	for name, text := range laid {
		if err := write(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	links := maps.Clone(linked)
	for _, unit := range masked {
		links["/etc/systemd/system/"+unit] = "/dev/null"
	}
	for name, target := range links {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, file); err != nil {
			return err
		}
	}
	for _, name := range removed {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// makeBooted boots the disk through its own GRUB, and keeps the machine as it is
// then: its disk as an overlay, its memory and devices as QEMU's migration stream.
func (l *Lab) makeBooted(ctx context.Context, work, product string) error {
	if err := os.Mkdir(product, 0o755); err != nil {
		return err
	}
	disk, spare := filepath.Join(product, rootDisk), filepath.Join(work, spareDisk)
	if err := overlay(ctx, l.disk, "raw", disk); err != nil {
		return err
	}
	if err := makeSpare(ctx, spare); err != nil {
		return err
	}
	m, err := boot(ctx, work, Intel, logged(work), drives(disk, "qcow2", spare)...)
	if err != nil {
		return err
	}
	defer m.Cut()
	return m.save(ctx, filepath.Join(product, stateFile))
}

// makeDisks makes a machine's disks: an overlay of a root, and the spare one.
func makeDisks(ctx context.Context, dir, root, format string) error {
	if err := overlay(ctx, root, format, filepath.Join(dir, rootDisk)); err != nil {
		return err
	}
	return makeSpare(ctx, filepath.Join(dir, spareDisk))
}

func overlay(ctx context.Context, base, format, file string) error {
	return command(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", format, file)
}

func makeSpare(ctx context.Context, file string) error {
	return command(ctx, "qemu-img", "create", "-q", "-f", "qcow2", file, fmt.Sprintf("%dM", spareMiB))
}
