//go:build e2e

package e2e

import "testing"

// TestInitramfs: the initramfs loads the driver with the modprobe.d of the time when it was made.
// Busbar makes it anew, and the option is in force after one reboot.
func TestInitramfs(t *testing.T) {
	g := scenario(t, "an initramfs that loads the driver with older options is made anew, and one reboot brings them")
	const params, conf = "grep EnableResizableBar /proc/driver/nvidia/params", "/etc/initramfs-tools/update-initramfs.conf"
	g.modules("nvidia")
	// Another archive behind the one that is there has the driver; update-initramfs puts it in by this line.
	g.sh(`echo nvidia >>/etc/initramfs-tools/modules && v=$(uname -r) && d=usr/lib/modules/$v/updates && cd $(mktemp -d) && mkdir -p $d &&
cp /lib/modules/$v/updates/nvidia.ko $d && find . | cpio -o -H newc | gzip -1 >>/boot/initrd.img-$v && modprobe nvidia`)
	g.is("EnableResizableBar: 0", params)
	g.profile("nvidia_driver {\n  options = { NVreg_EnableResizableBar = 1 }\n}\n")

	g.sh("sed -i s/^update_initramfs=yes/update_initramfs=no/ " + conf)
	g.busbar(2, "plan").blames("conflict", "initramfs.modprobe", conf, 12)
	g.sh("sed -i s/^update_initramfs=no/update_initramfs=yes/ " + conf)
	g.writesNothing(func() { g.busbar(2, "plan").has("drift", "initramfs.modprobe") })

	d := g.busbar(3, "apply", "--yes")
	d.has("ok", "initramfs.modprobe")
	d.has("pending-reboot", "nvidia_driver.option_in_force")
	g.is("etc/modprobe.d/zz-busbar.conf", "lsinitramfs /boot/initrd.img-$(uname -r) | grep busbar")
	g.is("", "ls -A /boot | grep busbar || true")
	g.writesNothing(func() { g.busbar(3, "apply", "--yes").noStep() })

	g.reboot()
	g.is("EnableResizableBar: 1", params)
	g.busbar(0, "verify")
}
