package node

import (
	"fmt"
	"slices"
	"strings"
)

// GPUUser is a process that computes or draws on GPUs.
type GPUUser struct {
	PID int `json:"pid"`
	// Name is the process' comm, 15 bytes at most.
	Name string `json:"name" range:"0:"`
	// GPUs are their PCI addresses, sorted; none where the driver does not say which ones.
	GPUs []string `json:"gpus,omitempty"`
}

// String says which process uses which GPUs: "python3 (process 7) uses 0000:1b:00.0".
func (u GPUUser) String() string {
	what := "GPUs"
	if len(u.GPUs) > 0 {
		what = strings.Join(u.GPUs, ", ")
	}
	return fmt.Sprintf("%s (process %d) uses %s", u.Name, u.PID, what)
}

// uses reports whether the process uses one of the GPUs at these addresses, any one where there are none.
func (u GPUUser) uses(gpus []string) bool {
	return len(gpus) == 0 || len(u.GPUs) == 0 || slices.ContainsFunc(gpus, func(address string) bool { return slices.Contains(u.GPUs, address) })
}

// GPUUsage is who uses the GPUs.
type GPUUsage struct {
	// Users are processes that compute or draw on GPUs, by process id: those that hold a GPU's device file
	// open and, besides, that of unified memory, which CUDA opens when it starts, or of mode setting.
	// Programs that only look after GPUs do not count, though nvidia-smi of driver 580 opens both.
	Users []GPUUser `json:"users,omitempty"`
	// Unseen is how often unified memory is open besides, by processes that cannot be looked into, or of other
	// PID namespaces. It is unknown where the kernel does not count users of modules.
	Unseen Value[int] `json:"unseen,omitzero"`
	// Hidden is how many processes could not be looked into for want of rights that root has.
	Hidden int `json:"hidden,omitempty"`
}

// By says who uses the GPUs at these addresses, or any GPU where there are none; empty where nobody does.
// It is unknown where that cannot be seen.
func (u GPUUsage) By(gpus ...string) Value[[]string] {
	by := []string{}
	for _, user := range u.Users {
		if user.uses(gpus) {
			by = append(by, user.String())
		}
	}
	unseen, known := u.Unseen.Get()
	switch {
	case unseen > 0:
		by = append(by, "processes that do not show here, of other users or containers, use GPUs")
	case !known && u.Hidden > 0 && len(by) == 0:
		return Unknown[[]string](fmt.Sprintf("not all processes can be looked into (%d cannot); root can", u.Hidden), u.Unseen.Source())
	}
	return Known(by, u.Unseen.Source())
}
