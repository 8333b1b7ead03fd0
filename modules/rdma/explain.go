package rdma

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "In exclusive mode a container sees only the RDMA devices that were given to its network namespace, in shared mode all.",
		Read:    "The mode of the RDMA subsystem over netlink (rdma system show).",
		Fix:     "busbar apply sets it, and writes the option of ib_core for the next boot.",
		Risk:    "It can be set only while no other network namespace exists; containers have to be stopped.",
		Sources: []string{"rdma-system(8)", "Linux drivers/infiniband/core/device.c"},
	},
		plan.Explanation{ID: "rdma.netns_mode", Title: "RDMA devices are shared among network namespaces otherwise than wanted"},
	)
}
