//go:build e2e

package e2e

import "testing"

const defaults = "/etc/default/grub"

// grub sets lines of /etc/default/grub anew.
func (g *guest) grub(lines string) {
	g.t.Helper()
	g.file(defaults, "GRUB_TIMEOUT=0\nGRUB_DISTRIBUTOR=Debian\nGRUB_TERMINAL=serial\n"+lines)
}

// TestForeignDefaults: others' lines in GRUB's defaults keep the argument from taking effect.
// Busbar says so before any reboot, names the line, and changes nothing.
func TestForeignDefaults(t *testing.T) {
	g := scenario(t, "lines of others that undo the boot argument are named before any reboot")
	g.profile(passthrough)

	g.file("/etc/default/grub.d/zzz-vendor.cfg", "# vendor\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
	g.busbar(2, "plan").blames("conflict", "boot_args.overridden", "/etc/default/grub.d/zzz-vendor.cfg", 2)
	g.busbar(2, "apply", "--yes").noStep()
	g.sh("rm /etc/default/grub.d/zzz-vendor.cfg")

	g.grub("GRUB_CMDLINE_LINUX=\"console=ttyS0 iommu=off\"\n")
	d := g.busbar(2, "apply", "--yes")
	d.noStep()
	if f := d.blames("conflict", "boot_args.overridden", defaults, 4); f.Found != "iommu=off" {
		t.Errorf("found %q", f.Found)
	}

	g.grub("GRUB_CMDLINE_LINUX=\"console=ttyS0\nGRUB_TIMEOUT=1\n")
	g.busbar(2, "apply", "--yes").has("conflict", "boot_args.defaults_broken")

	g.grub("GRUB_DEFAULT=\"1>1\"\nGRUB_CMDLINE_LINUX=console=ttyS0\n")
	g.busbar(2, "plan").blames("conflict", "boot_args.other_entry", defaults, 4)

	g.grub("GRUB_DEFAULT=saved\nGRUB_CMDLINE_LINUX=console=ttyS0\n")
	g.ownEntry()
	g.busbar(2, "plan").has("drift", "boot_args.next_boot")
	g.sh("grub-set-default own")
	g.busbar(2, "plan").blames("conflict", "boot_args.other_entry", "/boot/grub/grubenv", 3)
}

// ownEntry is an entry of others that busbar's arguments do not reach.
func (g *guest) ownEntry() {
	g.t.Helper()
	g.sh(`cat > /boot/grub/custom.cfg <<EOF
menuentry 'own' {
	linux /boot/$(cd /boot && echo vmlinuz-*) root=UUID=$(findmnt -no UUID /) ro console=ttyS0 no_timer_check quiet cryptomgr.notests own
	initrd /boot/$(cd /boot && echo initrd.img-*)
}
EOF`)
}

// TestLostArgument: somebody has another entry booted once. After the reboot the argument
// is ineffective, and no further reboot is asked for.
func TestLostArgument(t *testing.T) {
	g := scenario(t, "an argument that the reboot did not bring is ineffective, and no second reboot is owed")
	g.profile(passthrough)
	g.ownEntry()
	g.busbar(3, "apply", "--yes")
	g.sh("grub-reboot own")
	g.busbar(2, "plan").blames("conflict", "boot_args.other_entry", "/boot/grub/grubenv", 3)
	g.reboot()
	g.is("1", "grep -c ' own' /proc/cmdline")
	g.busbar(2, "verify").has("ineffective", "boot_args.next_boot")
	d := g.busbar(5, "apply", "--yes")
	d.noStep()
	d.blames("ineffective", "boot_args.next_boot", "/proc/cmdline", 0)
}

// TestBootPartition: paths in GRUB's entries are those of /boot's own file system.
func TestBootPartition(t *testing.T) {
	g := scenario(t, "with /boot on a file system of its own the argument goes into its entries, and holds after a reboot")
	g.sh(`mkfs.ext4 -q /dev/vdb && mount /dev/vdb /mnt && cp -a /boot/. /mnt && umount /mnt
mv /boot /boot.old && mkdir /boot && echo "UUID=$(blkid -o value -s UUID /dev/vdb) /boot ext4 defaults 0 2" >>/etc/fstab && mount /boot
grub-install --target=i386-pc /dev/vda && update-grub && rm -r /boot.old`)
	g.is("0", "grep -c 'linux\t/boot/' /boot/grub/grub.cfg || true")
	g.profile(passthrough)
	g.busbar(3, "apply", "--yes").has("pending-reboot", "boot_args.next_boot")

	g.reboot()
	g.is("/dev/vdb", "findmnt -no SOURCE /boot")
	g.busbar(0, "verify")
	g.iommuIs("identity")
}
