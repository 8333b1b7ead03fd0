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

// rdmaModules begin the names of modules without which queue pairs do not live.
var rdmaModules = []string{"mlx4_", "mlx5_", "mlx_compat", "ib_", "iw_cm", "rdma_", "irdma", "bnxt_re"}

// openIB is the service that loads the vendor's RDMA stack, and takes it away when it stops.
const openIB = "openibd.service"

// disturbsRDMA tells whether making the step ends connections over RDMA, and on which devices: it takes down a link, or the
// RDMA stack. None are all devices.
func (s Step) disturbsRDMA(inv node.Inventory) (devices []string, disturbs bool) {
	switch a := s.Action.(type) {
	case LoadModule:
		return nil, a.Unload && slices.ContainsFunc(rdmaModules, func(begin string) bool { return strings.HasPrefix(a.Name, begin) })
	case SetUnit:
		return nil, a.Unit == openIB && a.Active == "inactive"
	case RestartUnit:
		return nil, a.Unit == openIB
	}
	if s.Effect != LinkBounce {
		return nil, false
	}
	nics, _ := inv.NICs().Get()
	for _, n := range nics {
		if device, known := n.RDMA.Get(); known && n.String() == s.Target {
			if device == "" {
				return nil, false // a port without RDMA
			}
			devices = append(devices, device)
		}
	}
	return devices, true
}

// InUseQueries are what InUse has to know of the node; none where the step disturbs nobody.
func (s Step) InUseQueries(inv node.Inventory) []node.Query {
	_, rdma := s.disturbsRDMA(inv)
	return usageQueries(inv, s.disturbsGPUs(inv), rdma)
}

// inUseQueries are those of any step.
func inUseQueries(inv node.Inventory) []node.Query { return usageQueries(inv, true, true) }

// usageQueries ask who uses GPUs, and who RDMA, where there is any, and for Slurm's jobs, which are about both.
func usageQueries(inv node.Inventory, gpus, rdma bool) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	var queries []node.Query
	if list, known := inv.GPUs().Get(); gpus && (!known || len(list) > 0) {
		queries = append(queries, node.GPUUsers.Query(""))
	}
	if list, known := inv.RDMA.Get(); rdma && (!known || len(list) > 0) {
		queries = append(queries, node.RDMAUsers.Query(""))
	}
	if len(queries) > 0 {
		queries = append(queries, node.SlurmJobs.Query(""))
	}
	return queries
}

// InUse says who uses GPUs or RDMA devices that the step would disturb, or that this is unknown; empty where it can be made.
// facts answer InUseQueries. While the machine boots nobody has begun to use them but who shows: a GPU that was handed to
// VFIO waits for its guest.
func (s Step) InUse(facts node.Facts, booting bool) []string {
	var users []string
	for _, q := range s.InUseQueries(facts.Inventory) {
		switch q.Kind {
		case node.GPUUsers.Name():
			users = append(users, gpusInUse(facts, booting)...)
		case node.RDMAUsers.Name():
			v := node.RDMAUsers.Get(facts, "")
			usage, known := v.Get()
			devices, _ := s.disturbsRDMA(facts.Inventory)
			users = append(users, usage.By(devices...)...)
			if !known && !booting {
				users = append(users, "who uses RDMA is unknown: "+v.Reason())
			}
		case node.SlurmJobs.Name():
			v := node.SlurmJobs.Get(facts, "")
			jobs, known := v.Get()
			for _, job := range jobs {
				users = append(users, "Slurm runs job "+job)
			}
			if !known && !booting {
				users = append(users, "whether Slurm runs a job is unknown: "+v.Reason())
			}
		}
	}
	return users
}

func gpusInUse(facts node.Facts, booting bool) []string {
	inv := facts.Inventory
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
