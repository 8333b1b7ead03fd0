package plantest

import (
	"maps"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/node"
)

// List is the kind of query that answers with the files of a configuration.
type List interface {
	Name() string
	Answer(key string, v node.Value[[]confdir.File]) node.Answer
}

// Files answers a list with files: path to text. A text of "?" stands for a file that
// cannot be read.
func Files(kind List, files map[string]string) node.Answer {
	return FilesOf(kind, "", files)
}

// FilesOf is Files for one key of the kind.
func FilesOf(kind List, key string, files map[string]string) node.Answer {
	return kind.Answer(key, node.Known(sorted(files), node.Source{Path: "/etc"}))
}

func sorted(files map[string]string) []confdir.File {
	list := make([]confdir.File, 0, len(files))
	for _, p := range slices.Sorted(maps.Keys(files)) {
		f := confdir.File{Path: p, Text: files[p]}
		if f.Text == "?" {
			f.Text, f.Reason = "", "permission denied"
		}
		list = append(list, f)
	}
	return list
}

// Boot is a boot configuration whose defaults set GRUB_CMDLINE_LINUX_DEFAULT, and whose
// boot entries have other arguments.
func Boot(defaults, entries string) node.Answer {
	return BootWith(map[string]string{grub.DefaultsFile: `GRUB_CMDLINE_LINUX_DEFAULT="` + defaults + "\"\n"}, entries)
}

// BootWith is a boot configuration with the given defaults and boot entries.
func BootWith(defaults map[string]string, entries string) node.Answer {
	return node.Boot.Answer("", node.Known(node.BootConfig{
		Loader: node.LoaderGRUBDebian, Defaults: sorted(defaults), Generated: GRUBConfig(entries), UpdateGrub: true,
	}, node.Source{Path: grub.DefaultsFile}))
}

// GRUBConfig is a grub.cfg as update-grub writes it: an entry and its recovery entry.
func GRUBConfig(args string) string {
	kernel := "\tlinux /vmlinuz-" + Kernel + " root=UUID=01 ro "
	return "set default=\"0\"\n" +
		"menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple' {\n" + strings.TrimRight(kernel+args, " ") + "\n\tinitrd /initrd.img\n}\n" +
		"menuentry 'Ubuntu (recovery mode)' $menuentry_id_option 'gnulinux-recovery' {\n" + kernel + "recovery nomodeset\n}\n"
}
