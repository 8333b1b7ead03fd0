package live

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// iommuTables are the firmware tables that describe IOMMUs.
var iommuTables = []string{"DMAR", "IORT", "IVRS", "VIOT"}

func (s *session) iommu(string) node.Value[node.IOMMUState] {
	const units, tables, groups = "/sys/class/iommu", "/sys/firmware/acpi/tables", "/sys/kernel/iommu_groups"
	if _, err := s.stat("/sys/class"); err != nil {
		return unknown[node.IOMMUState](err, "/sys/class")
	}
	var state node.IOMMUState
	var err error
	if state.Units, err = s.names(units); err != nil && !absent(err) {
		return unknown[node.IOMMUState](err, units)
	}
	names, err := s.names(tables)
	if err != nil && !absent(err) {
		return unknown[node.IOMMUState](err, tables)
	}
	for _, name := range names {
		// A second table of a name is numbered.
		if slices.Contains(iommuTables, strings.TrimRight(name, "0123456789")) {
			state.Tables = append(state.Tables, name)
		}
	}
	names, err = s.names(groups)
	if err != nil && !absent(err) {
		return unknown[node.IOMMUState](err, groups)
	}
	for _, name := range names {
		id, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		devices, err := s.names(groups + "/" + name + "/devices")
		if err != nil && !absent(err) {
			return unknown[node.IOMMUState](err, groups+"/"+name+"/devices")
		}
		kind := s.attributeValue(groups + "/" + name + "/type")
		if !kind.IsKnown() && !s.exists(kind.Source().Path) {
			kind = node.Unknown[string]("the kernel does not show it (before Linux 5.11)", kind.Source())
		}
		state.Groups = append(state.Groups, node.IOMMUGroup{ID: id, Type: kind, Devices: devices})
	}
	slices.SortFunc(state.Groups, func(a, b node.IOMMUGroup) int { return a.ID - b.ID })
	state.MaxAPICID = s.maxAPICID()
	return node.Known(state, node.Source{Path: units})
}

// maxAPICID finds the highest "apicid" of the processors that are online.
func (s *session) maxAPICID() node.Value[int] {
	const p = "/proc/cpuinfo"
	text, err := s.readBytes(p, maxIndex)
	if err != nil {
		return unknown[int](err, p)
	}
	highest := -1
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("apicid"))
		if !ok {
			continue
		}
		id, err := strconv.Atoi(string(bytes.Trim(rest, "\t\n :")))
		if err != nil {
			return node.Unknown[int]("an apicid is no number", node.Source{Path: p})
		}
		highest = max(highest, id)
	}
	if highest < 0 {
		return node.Unknown[int]("the processors have no APIC ids", node.Source{Path: p})
	}
	return node.Known(highest, node.Source{Path: p})
}
