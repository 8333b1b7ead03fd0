package modprobe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Loaded is one module of the running kernel.
type Loaded struct {
	Name     string   `json:"name"`     // as the kernel spells it, with underscores
	Size     uint64   `json:"size"`     // bytes
	Refcount int      `json:"refcount"` // -1: a kernel that cannot unload modules does not count
	UsedBy   []string `json:"used_by,omitempty"`
	// Permanent modules have no exit function and cannot be unloaded.
	Permanent bool `json:"permanent,omitempty"`
	// State is "Live", "Loading" or "Unloading"; "" from lsmod, which does not
	// say.
	State string `json:"state,omitempty"`
	// Taints are the module's taint flags as letters, "OE" or "POE" (P
	// proprietary, O out of tree, E unsigned); lsmod does not show them.
	Taints string `json:"taints,omitempty"`
}

// ParseProcModules parses /proc/modules (m_show in kernel/module/procfs.c). A
// line that is not of its form is an error: a list cut off says nothing about
// what is absent.
func ParseProcModules(text string) ([]Loaded, error) {
	var loaded []Loaded
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 6 || len(fields) > 7 || !strings.HasPrefix(fields[5], "0x") ||
			!slices.Contains([]string{"Live", "Loading", "Unloading"}, fields[4]) {
			return nil, fmt.Errorf("/proc/modules line %d: not NAME SIZE REFCOUNT USERS STATE ADDRESS [TAINTS]: %s", n, excerpt(line))
		}
		m, err := parseLoaded(fields[:4])
		if err != nil {
			return nil, fmt.Errorf("/proc/modules line %d: %w: %s", n, err, excerpt(line))
		}
		m.State = fields[4]
		if len(fields) == 7 {
			taints, open := strings.CutPrefix(fields[6], "(")
			taints, closed := strings.CutSuffix(taints, ")")
			if !open || !closed {
				return nil, fmt.Errorf("/proc/modules line %d: taint flags not in parentheses: %s", n, excerpt(line))
			}
			m.Taints = strings.TrimRight(taints, "+-") // coming, going: State says so
		}
		loaded = append(loaded, m)
	}
	return loaded, nil
}

// ParseLsmod picks the rows out of pasted output of lsmod(8), with or without
// its heading, among prompts and other text. No row at all is an error.
func ParseLsmod(text string) ([]Loaded, error) {
	var loaded []Loaded
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 3 || len(fields) > 4 {
			continue
		}
		if m, err := parseLoaded(fields); err == nil {
			loaded = append(loaded, m)
		}
	}
	if loaded == nil {
		return nil, errors.New("no row of lsmod found")
	}
	return loaded, nil
}

// parseLoaded reads name, size, reference count and, where there is one, the
// list of users.
func parseLoaded(fields []string) (Loaded, error) {
	m := Loaded{Name: fields[0]}
	if err := CheckName(m.Name); err != nil {
		return m, err
	}
	var err error
	if m.Size, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return m, fmt.Errorf("size %q is no number", fields[1])
	}
	if fields[2] == "-" {
		m.Refcount = -1
	} else if m.Refcount, err = strconv.Atoi(fields[2]); err != nil {
		return m, fmt.Errorf("reference count %q is no number", fields[2])
	}
	if len(fields) == 4 && fields[3] != "-" {
		for _, user := range names(fields[3]) {
			if user == "[permanent]" {
				m.Permanent = true
			} else {
				m.UsedBy = append(m.UsedBy, user)
			}
		}
	}
	return m, nil
}
