// Package modules lists the block types that busbar can put right. Each stands in
// a package of its own beside this file.
package modules

import (
	"busbar/modules/gds"
	"busbar/modules/gpudirect"
	"busbar/modules/iommu"
	"busbar/modules/kernelargs"
	"busbar/modules/kernelmodule"
	"busbar/modules/limits"
	"busbar/modules/link"
	"busbar/modules/nccl"
	"busbar/modules/nvidiadriver"
	"busbar/modules/pcieacs"
	"busbar/modules/pciedevice"
	"busbar/modules/rdma"
	"busbar/modules/roce"
	"busbar/modules/service"
	"busbar/modules/sysctl"
	"busbar/plan"
)

// All returns every block type, sorted by name.
func All() []plan.Type {
	return []plan.Type{
		gds.Type{}, gpudirect.Type{}, iommu.Type{}, kernelargs.Type{}, kernelmodule.Type{}, limits.Type{}, link.Type{}, nccl.Type{},
		nvidiadriver.Type{}, pcieacs.Type{}, pciedevice.Type{}, rdma.Type{}, roce.Type{}, service.Type{}, sysctl.Type{},
	}
}
