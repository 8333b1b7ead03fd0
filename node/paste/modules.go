package paste

import (
	"maps"
	"slices"

	"busbar/internal/modprobe"
	"busbar/node"
)

// moduleList are kernel modules that lists have.
type moduleList struct {
	loaded map[string]modprobe.Loaded
	// whole is where a list stands that leaves no module out.
	whole  node.Source
	source map[string]node.Source
}

// asked are the modules whose absence from a whole list matters to some block.
var asked = []string{
	"gdrdrv", "ib_core", "ib_ipoib", "ib_umad", "ib_uverbs", "mlx5_core", "mlx5_ib", "nouveau", "nv_peer_mem", "nvidia", "nvidia_fs",
	"nvidia_modeset", "nvidia_peermem", "nvidia_uvm", "rdma_cm", "rdma_ucm",
}

// names are the modules of which it is known whether they are loaded.
func (m *moduleList) names() []string {
	known := map[string]bool{}
	for name := range m.loaded {
		known[name] = true
	}
	if m.whole != (node.Source{}) {
		for _, name := range asked {
			known[name] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// given are the names for profiles.
func (m *moduleList) given() []string {
	var all []string
	for _, name := range m.names() {
		all = append(all, node.Module.Name()+":"+name)
	}
	if len(all) > 0 {
		all = append(all, node.Module.Name())
	}
	return all
}

// answers are the facts.
func (m *moduleList) answers() []node.Answer {
	var all []node.Answer
	for _, name := range m.names() {
		l, loaded := m.loaded[name]
		source := m.whole
		if loaded {
			source = m.source[name]
		}
		all = append(all, node.Module.Answer(name, node.Known(node.ModuleState{Loaded: loaded, RefCount: l.Refcount, Holders: slices.Sorted(slices.Values(l.UsedBy))}, source)))
	}
	return all
}

// contradictedBy is a module that matters and is loaded in one of two lists, and not in the other, and where this one stands.
func (m *moduleList) contradictedBy(later moduleList) (name string, source node.Source) {
	for _, name := range asked {
		_, loaded := m.loaded[name]
		_, then := later.loaded[name]
		switch {
		case loaded && !then && later.whole != (node.Source{}):
			return name, m.source[name]
		case !loaded && then && m.whole != (node.Source{}):
			return name, m.whole
		}
	}
	return "", node.Source{}
}
