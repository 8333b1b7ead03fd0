package live

import (
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// numaNodes reads /sys/devices/system/node (Documentation/ABI/stable/sysfs-devices-node).
func (s *session) numaNodes(string) node.Value[[]node.NUMANode] {
	const dir = "/sys/devices/system/node"
	names, err := s.names(dir)
	if absent(err) && s.exists("/sys/devices/system/cpu") {
		return node.Unknown[[]node.NUMANode]("the kernel knows no NUMA nodes (CONFIG_NUMA)", node.Source{Path: dir})
	}
	if err != nil {
		return unknown[[]node.NUMANode](err, dir)
	}
	list := []node.NUMANode{}
	for _, name := range names {
		number, _ := strings.CutPrefix(name, "node")
		id, err := strconv.Atoi(number)
		if err != nil {
			continue // a file about all of them
		}
		cpus, err := s.read(dir + "/" + name + "/cpulist") // may be longer than an attribute
		if err != nil {
			return unknown[[]node.NUMANode](err, dir+"/"+name+"/cpulist")
		}
		list = append(list, node.NUMANode{ID: id, CPUs: strings.TrimSpace(cpus)})
	}
	slices.SortFunc(list, func(a, b node.NUMANode) int { return a.ID - b.ID })
	return node.Known(list, node.Source{Path: dir})
}
