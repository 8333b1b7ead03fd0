package plan

import (
	"slices"
	"strings"

	"busbar/node"
)

// fabricManager is the service of which NVIDIA's guide says that jobs on NVSwitches end with it
// (ABORT_CUDA_JOBS_ON_FM_EXIT of fabricmanager.cfg, 1 unless changed).
const fabricManager = "nvidia-fabricmanager.service"

// disturbsGPUs reports whether making the step disturbs whoever uses GPUs: it takes a driver of theirs away, resets
// them, takes down the link of a rail, or ends the fabric manager. Where it is unknown which NICs are rails, any is one.
func (s Step) disturbsGPUs(inv node.Inventory) bool {
	switch a := s.Action.(type) {
	case LoadModule:
		if a.Unload && (strings.HasPrefix(a.Name, "nvidia") || a.Name == "nv_peer_mem" || a.Name == "gdrdrv") {
			return true
		}
	case SetUnit:
		return a.Unit == fabricManager && a.Active == "inactive"
	case RestartUnit:
		return a.Unit == fabricManager
	}
	switch s.Effect {
	case DriverReload, GPUReset:
		return true
	case LinkBounce:
		rails, known := inv.Rails().Get()
		return !known || slices.ContainsFunc(rails, func(n node.NIC) bool { return n.String() == s.Target })
	default:
		return false
	}
}

// InUseQueries are what InUse has to know of the node; none where the step disturbs nobody who could use GPUs.
func (s Step) InUseQueries(inv node.Inventory) []node.Query {
	if !s.disturbsGPUs(inv) {
		return nil
	}
	return inUseQueries(inv)
}

// inUseQueries are those of any step.
func inUseQueries(inv node.Inventory) []node.Query {
	if gpus, known := inv.GPUs().Get(); inv.RootDirectory || known && len(gpus) == 0 {
		return nil
	}
	return []node.Query{node.GPUUsers.Query("")}
}

// InUse says who uses GPUs that the step would disturb, or that this is unknown; empty where it can be made. facts answer
// InUseQueries. While the machine boots nobody has begun to use GPUs but who shows: one that was handed to VFIO waits for
// its guest.
func (s Step) InUse(facts node.Facts, booting bool) []string {
	inv := facts.Inventory
	if len(s.InUseQueries(inv)) == 0 {
		return nil
	}
	v := node.GPUUsers.Get(facts, "")
	usage, known := v.Get()
	by := usage.By()
	users, seen := by.Get()
	users = slices.Clone(users)
	switch {
	case booting:
		return users
	case !known:
		users = append(users, "who uses the GPUs is unknown: "+v.Reason())
	case !seen:
		users = append(users, "whether the GPUs are in use is unknown: "+by.Reason())
	}
	gpus, _ := inv.GPUs().Get()
	for _, g := range gpus {
		if f, _ := inv.PCIFunction(g.Address); f.IsVFIO() {
			users = append(users, f.Driver+" is bound to "+f.Address)
		}
	}
	return users
}
