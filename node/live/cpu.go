package live

import (
	"strings"

	"busbar/node"
)

// cpus reads /sys/devices/system/cpu (Documentation/ABI/stable/sysfs-devices-system-cpu,
// Documentation/admin-guide/pm/cpufreq.rst).
func (s *session) cpus(string) node.Value[node.CPUState] {
	const dir = "/sys/devices/system/cpu"
	names, err := s.names(dir)
	if err != nil {
		return unknown[node.CPUState](err, dir)
	}
	packages := map[string]bool{}
	for _, name := range names {
		if number, ok := strings.CutPrefix(name, "cpu"); !ok || strings.Trim(number, "0123456789") != "" {
			continue
		}
		p := dir + "/" + name + "/topology/physical_package_id"
		id, err := s.read1(p)
		if absent(err) {
			continue // offline
		}
		if err != nil {
			return unknown[node.CPUState](err, p)
		}
		packages[id] = true
	}
	return node.Known(node.CPUState{Packages: len(packages), Governors: s.governors(dir + "/cpufreq")}, node.Source{Path: dir})
}

func (s *session) governors(dir string) node.Value[map[string]int] {
	policies, err := s.names(dir)
	if absent(err) || err == nil && len(policies) == 0 {
		return node.Unsupported[map[string]int]("the kernel does not set the processors' frequency here", node.Source{Path: dir})
	}
	if err != nil {
		return unknown[map[string]int](err, dir)
	}
	count := map[string]int{}
	for _, policy := range policies {
		if !strings.HasPrefix(policy, "policy") {
			continue // an attribute about all of them
		}
		p := dir + "/" + policy + "/scaling_governor"
		governor, err := s.read1(p)
		if err != nil {
			return unknown[map[string]int](err, p)
		}
		count[governor]++
	}
	return node.Known(count, node.Source{Path: dir})
}
