package plan

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/modprobe"
	"busbar/node"
)

// UpdateInitramfs makes an initramfs anew, so that its copy of modprobe.d is that of the root: it runs update-initramfs -u -k
// KERNEL (initramfs-tools), and the image must then be whole, hold all modules that it held before, and give modules
// what is wanted.
type UpdateInitramfs struct {
	// Kernel is the release whose image it is, Image its path.
	Kernel string `json:"kernel"`
	Image  string `json:"image"`
	// Modules are what it must give those that it holds.
	Modules []InitramfsModule `json:"modules"`
}

// InitramfsModule is what a module must get in an initramfs that holds it.
type InitramfsModule struct {
	// Name with underscores.
	Name string `json:"name"`
	// Options are parameters, in whose names '-' and '_' are equal, with their values as the kernel reads them.
	Options map[string]string `json:"options,omitempty"`
	// Absent are parameters that must not be given, sorted.
	Absent []string `json:"absent,omitempty"`
	// Blacklisted: it must not load by itself.
	Blacklisted bool `json:"blacklisted,omitempty"`
}

// Words are what the module must get, as modprobe.d has it.
func (m InitramfsModule) Words() string {
	var words []string
	if m.Blacklisted {
		words = append(words, "blacklist "+m.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Options)) {
		words = append(words, "options "+m.Name+" "+key+"="+m.Options[key])
	}
	for _, key := range m.Absent {
		words = append(words, "no "+key)
	}
	return strings.Join(words, "; ")
}

// Missing is what an initramfs gives the module otherwise, in words; empty where it does not hold it, or gives it what it
// must get.
func (m InitramfsModule) Missing(state node.InitramfsState) string {
	if state.Module == "" {
		return ""
	}
	config, _ := modprobe.ParseModprobe(modprobe.OrderModprobe(state.Files))
	given := map[string]modprobe.Option{}
	for _, o := range config.Options(m.Name) {
		given[o.Key] = o
	}
	var words []string
	if m.Blacklisted && len(config.Blacklisted(m.Name)) == 0 {
		words = append(words, m.Name+" not blacklisted")
	}
	for _, key := range slices.Sorted(maps.Keys(m.Options)) {
		o, ok := given[underscored(key)]
		switch {
		case !ok:
			words = append(words, key+" not given")
		case o.Value != m.Options[key]:
			words = append(words, o.Text)
		}
	}
	for _, key := range m.Absent {
		if o, ok := given[underscored(key)]; ok {
			words = append(words, o.Text)
		}
	}
	return strings.Join(words, "; ")
}

func underscored(parameter string) string { return strings.ReplaceAll(parameter, "-", "_") }

// Kind is "update-initramfs".
func (UpdateInitramfs) Kind() string { return "update-initramfs" }

// Queries asks for each module.
func (a UpdateInitramfs) Queries() []node.Query {
	var queries []node.Query
	for _, m := range a.Modules {
		queries = append(queries, node.Initramfs.Query(m.Name))
	}
	return queries
}

// Done judges each module.
func (a UpdateInitramfs) Done(f node.Facts) (bool, string, error) {
	for _, m := range a.Modules {
		v := node.Initramfs.Get(f, m.Name)
		state, ok := v.Get()
		switch {
		case !ok:
			return false, "", errors.New(v.Reason())
		case state.Image != a.Image || state.Kernel != a.Kernel:
			return false, "", fmt.Errorf("what boots next is now kernel %s with %s, and not %s with %s; run apply again", state.Kernel, state.Image, a.Kernel, a.Image)
		}
		if missing := m.Missing(state); missing != "" {
			return false, missing + " in " + state.Image, nil
		}
	}
	return true, "as wanted", nil
}

// Project copies modprobe.d into the initramfs in facts.
func (a UpdateInitramfs) Project(f node.Facts) node.Facts {
	files, _ := node.ModprobeFiles.Get(f, "").Get()
	for _, m := range a.Modules {
		v := node.Initramfs.Get(f, m.Name)
		if state, ok := v.Get(); ok {
			state.Files = modprobe.About(InitramfsCopy(files), m.Name)
			f = f.With(node.Initramfs.Answer(m.Name, node.Known(state, v.Source())))
		}
	}
	return f
}

// InitramfsCopy are the files of modprobe.d that mkinitramfs(8) copies: those of two directories.
func InitramfsCopy(files []confdir.File) []confdir.File {
	return slices.DeleteFunc(slices.Clone(files), func(f confdir.File) bool {
		return !slices.Contains([]string{"/etc/modprobe.d", "/lib/modprobe.d", "/usr/lib/modprobe.d"}, path.Dir(f.Path))
	})
}
