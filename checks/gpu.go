package checks

import (
	"fmt"
	"slices"
	"strings"

	"busbar/node"
	"busbar/plan"
)

// skippedGPUs is the finding that nothing about GPUs can be judged, or why.
func skippedGPUs(id, summary string) plan.Assessment {
	return plan.Assessment{Findings: []plan.Finding{{ID: id, Target: "gpus", Status: plan.Skipped, Summary: summary}}}
}

// gpusToJudge are the GPUs of the PCI bus; false where there are none to judge, which a says.
func gpusToJudge(id string, facts node.Facts) (gpus []node.GPU, a plan.Assessment, ok bool) {
	if facts.Inventory.RootDirectory {
		return nil, skippedGPUs(id, "hardware is not judged (--root)"), false
	}
	v := facts.Inventory.GPUs()
	gpus, known := v.Get()
	switch {
	case !known && facts.Inventory.FromText(): // what is not about one GPU can be judged
		return nil, a, true
	case !known:
		f := plan.Unread(id, "which GPUs there are", v)
		f.Target = "gpus"
		return nil, plan.Assessment{Findings: []plan.Finding{f}}, false
	case len(gpus) == 0:
		return nil, skippedGPUs(id, "no GPU on the PCI bus"), false
	}
	return gpus, a, true
}

// eachGPU asks kinds about every GPU.
func eachGPU(inv node.Inventory, kinds ...interface{ Query(key string) node.Query }) []node.Query {
	if inv.RootDirectory {
		return nil
	}
	gpus, _ := inv.GPUs().Get()
	var queries []node.Query
	for _, g := range gpus {
		for _, kind := range kinds {
			queries = append(queries, kind.Query(g.Address))
		}
	}
	return queries
}

// unreadGPU is the finding about something of a GPU that could not be read.
func unreadGPU[T any](id, address, what string, v node.Value[T]) plan.Finding {
	f := plan.Unread(id, what+" of "+node.Called("GPU", address), v)
	f.Target = address
	return f
}

// name is how findings call a GPU: by its address and, where it is known, its model.
func name(g node.GPU) string {
	if m, ok := g.Model(); ok {
		return fmt.Sprintf("%s (%s)", node.Called("GPU", g.Address), strings.TrimPrefix(m.Product, "NVIDIA "))
	}
	return node.Called("GPU", g.Address)
}

// enumerate lists words as a sentence does.
func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// hasNVSwitch reports NVSwitches that the node must route itself. Where it is unknown whether a hypervisor does, they count.
func hasNVSwitch(inv node.Inventory) bool {
	there, known := inv.NVSwitches().Get()
	return there || !known && hasFifthNVSwitch(inv)
}

// mayHaveNVSwitch reports a node of which text was given that may have NVSwitches although none was named: neither the whole PCI
// bus nor models of GPUs that take none.
func mayHaveNVSwitch(inv node.Inventory) bool {
	if inv.Partial == "" || hasNVSwitch(inv) {
		return false
	}
	gpus, _ := inv.GPUs().Get()
	return len(gpus) == 0 || slices.ContainsFunc(gpus, func(g node.GPU) bool {
		m, known := g.Model()
		return !known || m.Peers == node.NVLinkBoard
	})
}

// hasFifthNVSwitch reports NVSwitches of the fifth generation that the node must route itself.
func hasFifthNVSwitch(inv node.Inventory) bool {
	return !virtualMachine(inv) && hasGPUs(inv, node.NVLinkFifth)
}

// hasGPUs reports GPUs whose NVLinks lead to such peers.
func hasGPUs(inv node.Inventory, peers node.NVLinkPeers) bool {
	gpus, _ := inv.GPUs().Get()
	return slices.ContainsFunc(gpus, func(g node.GPU) bool {
		m, _ := g.Model()
		return m.Peers == peers
	})
}
