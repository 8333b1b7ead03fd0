// Package checks holds what busbar can judge but not put right: one file per
// check, written in a profile as check "NAME" "LABEL".
package checks

import (
	"busbar/node"
	"busbar/plan"
)

// All returns every check, sorted by name.
func All() []plan.Type {
	return []plan.Type{
		BootArgs{},
		DeviceNodes{},
		Driver{},
		Fabric{},
		GID{},
		GPUDirectRDMA{},
		GPUDirectStorage{},
		GPUs{},
		InfiniBand{},
		KernelLog{},
		Lossless{},
		Memlock{},
		ModuleFiles{},
		MTU{},
		NCCLTransport{},
		NICNVConfig{},
		NVLink{},
		P2P{},
		PCIeLink{},
		Platform{},
		Rails{},
		RDMAPort{},
		UnitFiles{},
	}
}

// problem is what Validate returns for a block that cannot be decoded.
func problem(err error) []plan.Problem {
	return []plan.Problem{{Summary: "cannot read the block", Detail: err.Error()}}
}

// each asks a kind about every key of a list.
func each[T any](kind node.Kind[T], keys []string) []node.Query {
	var queries []node.Query
	for _, key := range keys {
		queries = append(queries, kind.Query(key))
	}
	return queries
}

// labelDoc is the same for all checks.
const labelDoc = "a name of your own"
