package nvidiadriver_test

import (
	"testing"

	"busbar/node"
	"busbar/plan/plantest"
)

// image edits the initramfs of a case.
func image(a node.Answer, edit func(*node.InitramfsState)) node.Answer {
	f := plantest.Node(a)
	v := node.Initramfs.Get(f, a.Query.Key)
	state, _ := v.Get()
	edit(&state)
	return node.Initramfs.Answer(a.Query.Key, node.Known(state, v.Source()))
}

func TestInitramfs(t *testing.T) {
	const resizable = `nvidia_driver { options = { NVreg_EnableResizableBar = 1 } }`
	const nouveau = `kernel_module "nouveau" { boot = "unloaded" }`
	const right = header + "options nvidia NVreg_EnableResizableBar=1\n"
	inForce := driver(map[string]string{"EnableResizableBar": "1"})
	written := modprobe(map[string]string{file: right})
	stale := plantest.Initramfs("nvidia", nil)
	noNouveau := node.Module.Answer("nouveau", node.Known(node.ModuleState{}, node.Source{}))
	blacklisted := modprobe(map[string]string{"/usr/lib/modprobe.d/nvidia.conf": "blacklist nouveau\n"})
	// asWanted are the lines of a plan whose step is the image's, or none.
	const asWanted = `
				ok kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/zz-busbar.conf:2)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
	`
	const keptOut = `
				ok kernel_module.blacklist nouveau (/usr/lib/modprobe.d/nvidia.conf:1)
				ok kernel_module.boot nouveau (/etc/modules-load.d)
	`
	const made = "step update-initramfs:" + plantest.Image + "\n"
	withLine := func(args string) node.Answer { return plantest.Boot(args, args) }
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "the file comes first, and then the image", Blocks: resizable, Facts: plantest.Node(driver(nil), stale),
			Says: []string{
				"/boot/initrd.img-6.8.0-45-generic holds /usr/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko and an older modprobe.d: NVreg_EnableResizableBar not given; the next boot gets that, and not options nvidia NVreg_EnableResizableBar=1",
			},
			Want: `
				!drift initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				pending-reboot nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				` + made,
			After: "pending-reboot nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)",
		},
		{
			Name: "the file is right, and the image has another value", Blocks: resizable,
			Facts: plantest.Node(inForce, written, plantest.Initramfs("nvidia", map[string]string{file: header + "options nvidia NVreg_EnableResizableBar=0\n"})),
			Want:  "!drift initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted + made,
		},
		{
			Name: "the image has it from another file", Blocks: resizable,
			Facts: plantest.Node(inForce, written, plantest.Initramfs("nvidia", map[string]string{"/usr/lib/modprobe.d/a.conf": "options nvidia NVreg-EnableResizableBar=\"1\"\n"})),
			Want:  "ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "the image still has an option that no block wants any more", Blocks: resizable,
			Facts: plantest.Node(inForce, written, plantest.Initramfs("nvidia", map[string]string{file: right + "options nvidia NVreg_NvLinkDisable=1\n"})),
			Says:  []string{"an older modprobe.d: NVreg_NvLinkDisable=1;", "no NVreg_NvLinkDisable"},
			Want:  "!drift initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted + made,
		},
		{
			Name: "what others' file in the image says besides is theirs", Blocks: resizable,
			Facts: plantest.Node(inForce, written, plantest.Initramfs("nvidia", map[string]string{file: right, "/etc/modprobe.d/hook.conf": "options nvidia NVreg_NvLinkDisable=1\n"})),
			Want:  "ok initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "a line of others that is read last keeps it from the root too", Blocks: resizable,
			Facts: plantest.Node(inForce, stale, modprobe(map[string]string{"/etc/modprobe.d/zzz.conf": "options nvidia NVreg_EnableResizableBar=0\n"})),
			Want: `
				conflict kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/zzz.conf:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
			`,
		},
		{
			Name: "the root has it from where mkinitramfs does not look", Blocks: resizable,
			Facts: plantest.Node(inForce, stale, modprobe(map[string]string{"/usr/local/lib/modprobe.d/a.conf": "options nvidia NVreg_EnableResizableBar=1\n"})),
			Says:  []string{"move the lines about nvidia into /etc/modprobe.d"},
			Want: `
				drift initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_EnableResizableBar (/usr/local/lib/modprobe.d/a.conf:1)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
			`,
		},
		{
			Name: "the next boot's command line gives it in both", Blocks: resizable,
			Facts: plantest.Node(inForce, written, stale, withLine("nvidia.NVreg_EnableResizableBar=1")),
			Want:  asWanted,
		},
		{
			Name: "no initramfs", Blocks: resizable,
			Facts: plantest.Node(inForce, written, node.Initramfs.Answer("nvidia", node.Known(node.InitramfsState{Kernel: plantest.Kernel}, node.Source{Path: "/boot/grub/grub.cfg", Line: 3}))),
			Want:  "ok initramfs.modprobe nvidia (/boot/grub/grub.cfg:3)" + asWanted,
		},
		{
			Name: "unknown", Blocks: resizable,
			Facts: plantest.Node(inForce, written, node.Initramfs.Answer("nvidia", node.Unknown[node.InitramfsState]("it is cut off", node.Source{Path: plantest.Image}))),
			Says:  []string{"what the initramfs gives nvidia is unknown: it is cut off", "see whether the initramfs holds nvidia"},
			Want:  "unknown warn initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "a file in it that cannot be read", Blocks: resizable,
			Facts: plantest.Node(inForce, written, plantest.Initramfs("nvidia", map[string]string{"/etc/modprobe.d/a.conf": "?"})),
			Says:  []string{"its /etc/modprobe.d/a.conf permission denied"},
			Want:  "unknown warn initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "dracut", Blocks: resizable,
			Facts: plantest.Node(inForce, written, image(stale, func(s *node.InitramfsState) {
				s.Generator, s.Image = node.GeneratorDracut, "/boot/initramfs-"+plantest.Kernel+".img"
			})),
			Says: []string{"before any reboot: dracut --force --kver 6.8.0-45-generic\n"},
			Want: "unsupported initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "dracut on Debian", Blocks: resizable,
			Facts: plantest.Node(inForce, written, image(stale, func(s *node.InitramfsState) { s.Generator = node.GeneratorDracut })),
			Says:  []string{"before any reboot: dracut --force /boot/initrd.img-6.8.0-45-generic 6.8.0-45-generic\n"},
			Want:  "unsupported initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "nobody knows who made it", Blocks: resizable,
			Facts: plantest.Node(inForce, written, image(stale, func(s *node.InitramfsState) { s.Generator = "" })),
			Says:  []string{"make /boot/initrd.img-6.8.0-45-generic anew with the program that made it"},
			Want:  "unsupported initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "an image that update-initramfs does not make", Blocks: resizable,
			Facts: plantest.Node(inForce, written, image(stale, func(s *node.InitramfsState) { s.Image = "/boot/rescue.img" })),
			Want:  "unsupported initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "frozen", Blocks: resizable,
			Facts: plantest.Node(inForce, written, image(stale, func(s *node.InitramfsState) {
				s.Frozen = node.Source{Path: "/etc/initramfs-tools/update-initramfs.conf", Line: 12}
			})),
			Says: []string{"/etc/initramfs-tools/update-initramfs.conf:12 keeps update-initramfs from changing it", "update-initramfs -c -k 6.8.0-45-generic"},
			Want: "conflict initramfs.modprobe nvidia (/etc/initramfs-tools/update-initramfs.conf:12)" + asWanted,
		},
		{
			Name: "/boot is read-only", Blocks: resizable,
			Facts: plantest.Node(inForce, written, stale, node.Mount.Answer("/boot", node.Known(node.MountState{Point: "/boot", Type: "ext4", ReadOnly: true}, node.Source{Path: "/proc/self/mountinfo"}))),
			Says:  []string{"/boot/initrd.img-6.8.0-45-generic cannot be written: /boot is mounted read-only"},
			Want:  "unsupported initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)" + asWanted,
		},
		{
			Name: "a directory tree", Blocks: resizable, Facts: rootDirectory(plantest.Node(written, stale)),
			Says: []string{"busbar makes it anew when this root has booted", "in this root: update-initramfs -u -k 6.8.0-45-generic"},
			Want: `
				deferred initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				ok kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d/zz-busbar.conf:2)
			`,
		},
		{
			Name: "kept out by the root alone", Blocks: nouveau, Facts: plantest.Node(noNouveau, blacklisted, plantest.Initramfs("nouveau", nil)),
			Says: []string{"nouveau not blacklisted"},
			Want: "!drift initramfs.modprobe nouveau (/boot/initrd.img-6.8.0-45-generic)" + keptOut + made,
		},
		{
			Name: "kept out by both", Blocks: nouveau, Facts: plantest.Node(noNouveau, blacklisted, plantest.Initramfs("nouveau", map[string]string{"/etc/modprobe.d/x.conf": "blacklist nouveau\n"})),
			Want: "ok initramfs.modprobe nouveau (/boot/initrd.img-6.8.0-45-generic)" + keptOut,
		},
		{
			Name: "kept out by the next boot's command line", Blocks: nouveau, Facts: plantest.Node(noNouveau, blacklisted, plantest.Initramfs("nouveau", nil), withLine("modprobe.blacklist=nouveau")),
			Want: keptOut,
		},
		{
			Name: "dracut's argument says nothing to initramfs-tools", Blocks: nouveau, Facts: plantest.Node(noNouveau, blacklisted, plantest.Initramfs("nouveau", nil), withLine("rd.driver.blacklist=nouveau")),
			Want: "!drift initramfs.modprobe nouveau (/boot/initrd.img-6.8.0-45-generic)" + keptOut + made,
		},
		{
			Name: "dracut's argument", Blocks: nouveau, Want: keptOut,
			Facts: plantest.Node(noNouveau, blacklisted, withLine("rd.driver.blacklist=nouveau"), image(plantest.Initramfs("nouveau", nil), func(s *node.InitramfsState) { s.Generator = node.GeneratorDracut })),
		},
		{
			Name: "two modules, one image", Blocks: resizable + "\n" + nouveau, Facts: plantest.Node(inForce, noNouveau, blacklisted, stale, plantest.Initramfs("nouveau", nil)),
			Want: `
				!drift initramfs.modprobe nouveau (/boot/initrd.img-6.8.0-45-generic)` + keptOut + `
				!drift initramfs.modprobe nvidia (/boot/initrd.img-6.8.0-45-generic)
				!drift kernel_module.option nvidia.NVreg_EnableResizableBar (/etc/modprobe.d)
				ok nvidia_driver.option_in_force NVreg_EnableResizableBar (/proc/driver/nvidia/params)
				step write-file:/etc/modprobe.d/zz-busbar.conf
				` + made,
		},
	})
}
