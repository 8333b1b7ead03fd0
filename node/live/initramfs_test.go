package live

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"testing"

	"busbar/internal/confdir"
	"busbar/node"
)

// cpioOf is a compressed archive of files: name to content, in pairs.
func cpioOf(t *testing.T, pairs ...string) string {
	t.Helper()
	var b, zipped bytes.Buffer
	pad := func() { b.Write(make([]byte, (4-b.Len()%4)%4)) }
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", i, 0o100644, 0, 0, 1, 0, len(pairs[i+1]), 8, 1, 0, 0, len(pairs[i])+1, 0)
		b.WriteString(pairs[i] + "\x00")
		pad()
		b.WriteString(pairs[i+1])
		pad()
	}
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(b.Bytes())
	must(t, err)
	must(t, z.Close())
	return zipped.String()
}

func TestInitramfs(t *testing.T) {
	const release, nvidia = "6.8.0-45-generic", "/usr/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko"
	image := cpioOf(t,
		"etc/modprobe.d/nvidia.conf", "options nvidia NVreg_A=1\n", "etc/modprobe.d/other.conf", "blacklist pcspkr\n",
		nvidia[1:], "ELF", "usr/lib/modules/"+release+"/kernel/drivers/nvme/host/nvme-core.ko.zst", "", "TRAILER!!!", "")
	grub := func(entry string) map[string]string {
		return map[string]string{
			"etc/default/grub": "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", "usr/sbin/update-grub": "", "boot/initrd.img-" + release: image,
			"boot/grub/grub.cfg":                          "menuentry 'Linux' {\n\tlinux /boot/vmlinuz-" + release + " root=/dev/vda1 ro quiet\n" + entry + "}\n",
			"usr/sbin/update-initramfs":                   "",
			"usr/sbin/mkinitramfs":                        "",
			"etc/initramfs-tools/update-initramfs.conf":   "# update_initramfs=no\nupdate_initramfs=no\nupdate_initramfs=yes\n",
			"proc/sys/kernel/osrelease":                   "5.4.0-1-old\n",
			"lib/modules/" + release + "/modules.dep":     "",
			"lib/modules/" + release + "/modules.builtin": "",
		}
	}
	with := func(files map[string]string, more map[string]string) map[string]string {
		files = maps.Clone(files)
		for name, content := range more {
			files[name] = content
			if content == "" {
				delete(files, name)
			}
		}
		return files
	}
	usual := grub("\tinitrd\t/boot/initrd.img-" + release + "\n")
	base := node.InitramfsState{Kernel: release, Image: "/boot/initrd.img-" + release, Generator: node.GeneratorInitramfsTools}
	held := base
	held.Module, held.Files = nvidia, []confdir.File{{Path: "/etc/modprobe.d/nvidia.conf", Text: "options nvidia NVreg_A=1\n"}}
	all := base
	all.Modules = []string{"nvidia", "nvme_core"}

	for _, module := range []struct {
		name string
		want node.InitramfsState
	}{{"nvidia", held}, {"nouveau", base}, {"", all}} {
		known(t, ask(t, tree(t, usual), node.Initramfs, module.name), module.want)
	}
	t.Run("on a file system of its own, behind microcode", func(t *testing.T) {
		files := grub("\tinitrd\t/intel-ucode.img /initrd.img-" + release + "\n")
		known(t, ask(t, tree(t, files), node.Initramfs, "nvidia"), held)
	})
	t.Run("without one", func(t *testing.T) {
		known(t, ask(t, tree(t, grub("")), node.Initramfs, "nvidia"), node.InitramfsState{Kernel: release})
	})
	t.Run("another entry boots", func(t *testing.T) {
		files := with(usual, map[string]string{
			"etc/default/grub":   "GRUB_DEFAULT=1\n",
			"boot/grub/grub.cfg": usual["boot/grub/grub.cfg"] + "menuentry 'Old' {\n\tlinux /boot/vmlinuz-5.4 root=/dev/vda1\n\tinitrd /boot/initrd.img-5.4\n}\n",
		})
		unknownAs(t, ask(t, tree(t, files), node.Initramfs, "nvidia"), "no such file")
	})
	t.Run("an entry of another root boots", func(t *testing.T) {
		files := with(usual, map[string]string{
			"etc/default/grub":   "GRUB_DEFAULT=1\n",
			"boot/grub/grub.cfg": usual["boot/grub/grub.cfg"] + "menuentry 'Other' {\n\tlinux /boot/vmlinuz-5.4 root=/dev/vdb1\n}\n",
		})
		unknownAs(t, ask(t, tree(t, files), node.Initramfs, "nvidia"), `GRUB_DEFAULT boots "Other", which is no entry of this root`)
	})
	t.Run("frozen", func(t *testing.T) {
		frozen := base
		frozen.Frozen = node.Source{Path: updateInitramfsConf, Line: 2}
		files := with(usual, map[string]string{updateInitramfsConf[1:]: "# no\nupdate_initramfs='no'\n"})
		known(t, ask(t, tree(t, files), node.Initramfs, "nouveau"), frozen)
	})
	t.Run("broken", func(t *testing.T) {
		files := with(usual, map[string]string{base.Image[1:]: image[:100]})
		unknownAs(t, ask(t, tree(t, files), node.Initramfs, "nvidia"), "cut off")
	})
	t.Run("without GRUB's entries", func(t *testing.T) {
		dracut := node.InitramfsState{Kernel: "5.14.0-427.el9.x86_64", Image: "/boot/initramfs-5.14.0-427.el9.x86_64.img", Generator: node.GeneratorDracut}
		files := map[string]string{"proc/sys/kernel/osrelease": dracut.Kernel + "\n", dracut.Image[1:]: image, "usr/bin/dracut": ""}
		dracut.Module, dracut.Files = nvidia, held.Files
		known(t, ask(t, tree(t, files), node.Initramfs, "nvidia"), dracut)
		delete(files, dracut.Image[1:])
		unknownAs(t, ask(t, tree(t, files), node.Initramfs, "nvidia"), "no initramfs of kernel 5.14.0-427.el9.x86_64")
	})
	t.Run("a root directory", func(t *testing.T) {
		files := with(usual, map[string]string{"boot/grub/grub.cfg": ""})
		known(t, get(t, New(Options{Root: tree(t, files)}), node.Initramfs, "nvidia"), held)
		files["lib/modules/6.9/modules.dep"] = ""
		unknownAs(t, get(t, New(Options{Root: tree(t, files)}), node.Initramfs, "nvidia"), "it has 2 kernels")
	})
	unknownAs(t, ask(t, tree(t), node.Initramfs, "../x"), "no module name")
}
