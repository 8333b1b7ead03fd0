package node

import (
	"fmt"
	"slices"
	"strings"
)

// RDMAUser is a process, or a module of the kernel, that has queue pairs.
type RDMAUser struct {
	// PID is 0 for the kernel.
	PID int `json:"pid,omitempty" range:"0:"`
	// Name is the process' comm, 15 bytes at most, or the module's name.
	Name string `json:"name" range:"0:"`
	// Devices are the names of the RDMA devices, sorted.
	Devices []string `json:"devices"`
}

// String says who uses what: "python3 (process 7) uses mlx5_0", "nvme_rdma (kernel) uses mlx5_0".
func (u RDMAUser) String() string {
	who := "kernel"
	if u.PID != 0 {
		who = fmt.Sprintf("process %d", u.PID)
	}
	return fmt.Sprintf("%s (%s) uses %s", u.Name, who, strings.Join(u.Devices, ", "))
}

// RDMAUsage is who has queue pairs (rdma-resource(8)).
type RDMAUsage struct {
	// Users are sorted by process id, then name. The queue pairs that the kernel keeps on every port for the subnet and for
	// connections (SMI, GSI, and those of ib_core, the driver and IPoIB) are nobody's.
	Users []RDMAUser `json:"users,omitempty"`
	// Unseen are the devices on which processes of other PID namespaces, such as containers, have queue pairs, sorted.
	Unseen []string `json:"unseen,omitempty"`
}

// By says who uses one of these devices, or any device where there are none; empty where nobody does.
func (u RDMAUsage) By(devices ...string) []string {
	about := func(used []string) bool {
		return len(devices) == 0 || slices.ContainsFunc(used, func(d string) bool { return slices.Contains(devices, d) })
	}
	var by []string
	for _, user := range u.Users {
		if about(user.Devices) {
			by = append(by, user.String())
		}
	}
	for _, d := range u.Unseen {
		if about([]string{d}) {
			by = append(by, "processes that do not show here, as of containers, use "+d)
		}
	}
	return by
}
