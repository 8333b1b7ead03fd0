package paste

import (
	"path"
	"strings"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
	"busbar/node"
)

// bootDraft is what the boot loader's files say.
type bootDraft struct {
	config node.BootConfig
	bls    bool
	source node.Source
}

// bootArguments are those by which a kernel's command line is told.
var bootArguments = []string{"BOOT_IMAGE", "root", "initrd", "console", "crashkernel", "rhgb", "quiet", "ro", "rw", "splash", "iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "resume", "rd.lvm.lv", "pci", "default_hugepagesz", "hugepagesz"}

var commandLineKind = kind{
	name: "kernel command line",
	scan: func(p piece) match {
		line := p.lines[0]
		at := p.path == "/proc/cmdline" || p.path == kernelCommandLine
		if !at && !strings.Contains(line, "root=") && !strings.Contains(line, "BOOT_IMAGE=") || line == "" || line[0] == '#' || strings.HasPrefix(line, "options ") || strings.HasPrefix(line, "GRUB_") ||
			strings.HasPrefix(line, "kernelopts=") || strings.HasPrefix(line, "linux") || len(p.lines) > 1 && p.lines[1] != "" && !at {
			return match{}
		}
		signs := one(at)
		for _, name := range bootArguments {
			if len(cmdline.Occurrences(cmdline.Parse(line), name)) > 0 {
				signs++
			}
		}
		return match{1, signs}
	},
	read: func(d *draft, s section) string {
		if s.path == kernelCommandLine {
			d.stands(s, "")
			say(d, node.File, kernelCommandLine, node.Known(node.FileState{Exists: true, Text: s.text()}, s.source(0)))
			d.boot.source = s.source(0)
			return ""
		}
		say(d, node.CommandLine, "", node.Known(s.lines[0], s.source(0)))
		for _, a := range cmdline.Occurrences(cmdline.Parse(s.lines[0]), "BOOT_IMAGE") {
			image := path.Base(a.Value)
			if release, ok := strings.CutPrefix(image, "vmlinuz-"); ok && d.inv.Kernel.IsZero() {
				d.inv.Kernel = node.Known(release, s.source(0))
			}
		}
		return ""
	},
}

// kernelCommandLine is what kernel-install gives new entries.
const kernelCommandLine = "/etc/kernel/cmdline"

// grubLine reports a line of GRUB's defaults: an assignment of a name that begins with GRUB_.
func grubLine(line string) bool {
	name, _, ok := strings.Cut(line, "=")
	return ok && strings.HasPrefix(name, "GRUB_") && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

const grubDefaults, grubDirectory = "/etc/default/grub", "/etc/default/grub.d"

var grubKind = kind{
	name: "GRUB's defaults",
	scan: func(p piece) match {
		if at := p.path == grubDefaults || p.in(grubDirectory); at { // all of a file
			n, signs := len(p.lines), 1
			for _, line := range p.lines {
				signs += one(grubLine(strings.TrimLeft(line, " #")))
			}
			return match{n, min(signs, 4)}
		}
		assigned := 0
		n, _ := block(p.lines, false, func(i int, line string) bool {
			is := grubLine(line)
			assigned += one(is)
			return is || assigned > 0 && (continued(p.lines, i) || strings.Count(p.lines[i-1], `"`) == 1)
		})
		return match{n, 2 * one(assigned > 0)}
	},
	read: func(d *draft, s section) string {
		if s.path != grubDefaults && !s.in(grubDirectory) {
			s.path = grubDefaults
		}
		d.boot.config.Defaults = append(d.boot.config.Defaults, confdir.File{Path: d.stands(s, ""), Text: s.text()})
		for _, line := range s.lines {
			if strings.TrimSpace(line) == "GRUB_ENABLE_BLSCFG=true" || strings.TrimSpace(line) == `GRUB_ENABLE_BLSCFG="true"` {
				d.boot.bls = true
			}
		}
		if d.boot.source == (node.Source{}) {
			d.boot.source = s.source(-1)
		}
		return ""
	},
}

// blsKeys are those of an entry (Boot Loader Specification, type 1; grubby adds grub_*).
var blsKeys = []string{"title", "version", "machine-id", "linux", "initrd", "efi", "options", "devicetree", "architecture", "sort-key", "id", "grub_users", "grub_arg", "grub_class", "devicetree-overlay"}

func blsLine(line string) bool {
	key, value, ok := strings.Cut(line, " ")
	return ok && value != "" && contains(blsKeys, key)
}

var blsKind = kind{
	name: "boot loader entry (BLS)",
	scan: func(p piece) match {
		if !blsLine(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool { return blsLine(line) || line[0] == '#' })
		m := match{lines: n}
		for _, line := range p.lines[:n] {
			m.signs += one(strings.HasPrefix(line, "linux /")) + one(strings.HasPrefix(line, "options ")) + one(strings.HasPrefix(line, "initrd /"))
		}
		return m
	},
	read: func(d *draft, s section) string {
		d.boot.config.Entries = append(d.boot.config.Entries, confdir.File{Path: d.stands(s, s.file), Text: s.text()})
		d.boot.bls = true
		if d.boot.source == (node.Source{}) {
			d.boot.source = s.source(-1)
		}
		return ""
	},
}

var grubEnvironmentKind = kind{
	name: "GRUB's environment block",
	scan: func(p piece) match {
		if p.lines[0] != "# GRUB Environment Block" {
			return match{}
		}
		n := while(p.lines, func(line string) bool { return line[0] == '#' || strings.Contains(line, "=") })
		return match{n, 1 + one(n > 1)}
	},
	read: func(d *draft, s section) string {
		if d.boot.config.Environment == "" {
			d.boot.config.Environment = s.text()
		}
		return ""
	},
}

// answer is the boot configuration, if somebody said anything of it.
func (b bootDraft) answer(references []node.Reference) (node.Answer, bool) {
	if b.source == (node.Source{}) || len(b.config.Defaults) == 0 && len(b.config.Entries) == 0 {
		return node.Answer{}, false
	}
	c := b.config
	c.References = references
	c.Loader = node.LoaderGRUBDebian
	if b.bls {
		c.Loader = node.LoaderGRUBBLS
	}
	return node.Boot.Answer("", node.Known(c, b.source)), true
}
