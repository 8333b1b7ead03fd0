package checks

import (
	"fmt"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// Fabric is check "fabric": whether GPUs are registered with their NVSwitches, and who routes those.
type Fabric struct{}

// Spec of check "fabric".
func (Fabric) Spec() plan.Spec {
	none, hour := int64(0), int64(3600)
	return plan.Spec{
		Name: "fabric", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The fabric of NVSwitches: each GPU is registered with it, and the fabric manager runs where the node has NVSwitches to route. Before a GPU is registered CUDA answers 802, system not yet initialized.",
		Attributes: []plan.Attribute{
			{Name: "grace", Type: cty.Number, Min: &none, Max: &hour, Default: cty.NumberIntVal(300), Example: "300", Doc: "Seconds after boot in which registering may go on."},
			{Name: "cluster", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether GPUs must belong to a clique of a cluster, as those of a rack do (GB200)."},
		},
	}
}

type fabricConfig struct {
	Grace   int  `cty:"grace"`
	Cluster bool `cty:"cluster"`
}

const (
	fabricManagerUnit = "nvidia-fabricmanager.service"
	// managementModule is what the subnet manager of NVSwitches of the fifth generation talks through.
	managementModule = "ib_umad"
)

// Queries are the state of each GPU, the fabric manager and what it needs.
func (Fabric) Queries(_ plan.Block, inv node.Inventory) []node.Query {
	queries := eachGPU(inv, node.GPUFabric)
	if len(queries) == 0 {
		return nil
	}
	queries = append(queries, node.Unit.Query(fabricManagerUnit))
	if hasFifthNVSwitch(inv) {
		queries = append(queries, node.Module.Query(managementModule))
	}
	return queries
}

const fabricID = "fabric.state"

// Assess judges each GPU, and the services.
func (Fabric) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c fabricConfig
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	gpus, a, ok := gpusToJudge(fabricID, facts)
	if !ok {
		return a
	}
	for _, g := range gpus {
		v := node.GPUFabric.Get(facts, g.Address)
		state, ok := v.Get()
		switch {
		case v.IsUnsupported(), ok && state.State == node.FabricNotSupported && !c.Cluster, !ok && !registers(g):
			a.Findings = append(a.Findings, plan.Finding{ID: fabricID, Target: g.Address, Status: plan.Skipped, Source: v.Source(), Summary: name(g) + " has no fabric to register with"})
			continue
		case !ok:
			a.Findings = append(a.Findings, unreadGPU(fabricID, g.Address, "the fabric state", v))
			continue
		}
		f := c.registered(g, state, facts.Inventory.Uptime)
		f.Source = v.Source()
		a.Findings = append(a.Findings, f)
		if f, bad := unhealthy(g, state); bad {
			f.Source = v.Source()
			a.Findings = append(a.Findings, f)
		}
	}
	a.Findings = append(a.Findings, fabricManager(facts))
	if hasFifthNVSwitch(facts.Inventory) {
		a.Findings = append(a.Findings, subnetManager(facts))
	}
	return a
}

// registers reports whether the GPU's model may register with a fabric, which those of NVLink 4 and later do where
// NVSwitches connect them; a model that is not in the table may.
func registers(g node.GPU) bool {
	m, ok := g.Model()
	return !ok || m.Generation >= 4 && m.Peers != node.NVLinkBridge
}

// registered judges a GPU's state and status.
func (c fabricConfig) registered(g node.GPU, state node.GPUFabricState, uptime node.Value[time.Duration]) plan.Finding {
	f := plan.Finding{ID: fabricID, Target: g.Address, Status: plan.OK, Want: "completed, success", Found: state.State, Running: state.State}
	up, known := uptime.Get()
	grace := time.Duration(c.Grace) * time.Second
	early := known && up < grace && state.State != node.FabricNotSupported
	const manager = "look whether the fabric manager runs and what its log says (/var/log/fabricmanager.log)"
	switch {
	case state.State != node.FabricCompleted && early:
		f.Status = plan.Undetermined
		f.Summary = fmt.Sprintf("whether %s will be registered with its fabric is not known yet: %s, and the node is up for %s only", name(g), state.State, up.Round(time.Second))
	case state.State != node.FabricCompleted:
		f.Status = plan.Drift
		f.Summary = fmt.Sprintf("%s is not registered with its fabric: %s", name(g), state.State)
		f.Why = "CUDA answers 802, system not yet initialized, in every new process"
		f.Fix = manager + "; where it was restarted while GPUs were in use, reset them (nvidia-smi -r)"
	case state.Status != node.FabricSuccess:
		f.Status = plan.Drift
		f.Found += ", " + state.Status
		f.Summary = fmt.Sprintf("%s could not be registered with its fabric: %s", name(g), state.Status)
		f.Why = "its NVLinks carry nothing, or not all that they could"
		f.Fix = manager + "; in a rack what nvidia-imex-ctl -N says, and the partitions of the fabric"
	case c.Cluster && (state.Clique == 0 || state.ClusterUUID == "" || state.ClusterUUID == node.NoCluster):
		f.Status = plan.Drift
		f.Want, f.Found = "a clique of a cluster", fmt.Sprintf("clique %d of cluster %s", state.Clique, state.ClusterUUID)
		f.Summary = fmt.Sprintf("%s is in no clique of a cluster", name(g))
		f.Why = "GPUs of other nodes of the rack are out of its NVLinks' reach"
		f.Fix = "look whether nvidia-imex runs on all nodes of the rack (nvidia-imex-ctl -N), and whether a partition of the fabric has this GPU"
	default:
		f.Found += ", " + state.Status
		f.Summary = name(g) + " is registered with its fabric"
	}
	return f
}

// unhealthy is the finding that NVML complains of a GPU's fabric.
func unhealthy(g node.GPU, state node.GPUFabricState) (plan.Finding, bool) {
	health, _ := state.Health.Get()
	complaints := health.Complaints()
	if summary, _ := state.Summary.Get(); len(complaints) == 0 && (summary == "unhealthy" || summary == "limited-capacity") {
		complaints = []string{summary}
	}
	if len(complaints) == 0 {
		return plan.Finding{}, false
	}
	return plan.Finding{
		ID: "fabric.health", Target: g.Address, Status: plan.Drift, Want: "healthy", Found: strings.Join(complaints, ", "),
		Summary: fmt.Sprintf("the fabric of %s: %s", name(g), strings.Join(complaints, ", ")),
		Fix:     "look for Xid 74 and SXid in the kernel log, and what the log of the fabric manager says",
	}, true
}

// fabricManager judges whether it runs where it must, and has not failed where nothing needs it.
func fabricManager(facts node.Facts) plan.Finding {
	const id = "fabric.manager"
	v := node.Unit.Get(facts, fabricManagerUnit)
	unit, ok := v.Get()
	active, known := unit.Active.Get()
	f := plan.Finding{ID: id, Target: fabricManagerUnit, Status: plan.OK, Source: v.Source(), Found: active}
	switch needed := hasNVSwitch(facts.Inventory); {
	case mayHaveNVSwitch(facts.Inventory):
		f.Status, f.Found = plan.Undetermined, ""
		f.Summary = "whether the fabric manager is needed is unknown: nobody said whether the node has NVSwitches (lspci -nn says it)"
		if active == "failed" {
			f.Summary += "; it has failed"
		}
	case !needed && (!ok || !known || active != "failed"):
		f.Want, f.Summary = "not needed", "the fabric manager is not needed: the node has no NVSwitch to route"
		if virtualMachine(facts.Inventory) {
			f.Summary = "the fabric manager is not needed: NVSwitches that this virtual machine does not see are routed by its host, or by a virtual machine for that"
		}
	case !needed:
		f.Status, f.Severity, f.Want = plan.Drift, plan.Info, "not needed"
		f.Summary = "the fabric manager has failed, and the node has no NVSwitch that would need it (NV_WARN_NOTHING_TO_DO)"
		f.Fix = "systemctl disable --now " + fabricManagerUnit
	case !ok:
		f = plan.Unread(id, "whether the fabric manager runs", v)
		f.Target = fabricManagerUnit
	case !known:
		f = plan.Unread(id, "whether the fabric manager runs", unit.Active)
		f.Target = fabricManagerUnit
	case unit.Load == "not-found":
		f.Status, f.Want, f.Found = plan.Drift, "active", "not installed"
		f.Summary = "the fabric manager is not installed, and the node has NVSwitches"
		f.Why, f.Fix = "new processes cannot use CUDA: 802, system not yet initialized", "install it in the driver's very version"
	case active != "active":
		f.Status, f.Want = plan.Drift, "active"
		f.Summary = fmt.Sprintf("the fabric manager is %s, and the node has NVSwitches", active)
		f.Why = "what runs goes on, and new processes cannot use CUDA: 802, system not yet initialized"
		f.Fix = "systemctl start " + fabricManagerUnit + "; look into /var/log/fabricmanager.log, where a version that is not the driver's is the usual reason"
	default:
		f.Want, f.Summary = "active", "the fabric manager runs"
	}
	return f
}

// subnetManager judges what the fabric manager needs to reach NVSwitches of the fifth generation.
func subnetManager(facts node.Facts) plan.Finding {
	const id = "fabric.management_module"
	v := node.Module.Get(facts, managementModule)
	module, ok := v.Get()
	f := plan.Finding{ID: id, Target: managementModule, Status: plan.OK, Source: v.Source(), Want: "loaded", Found: "loaded", Summary: managementModule + ", by which the subnet manager reaches the NVSwitches, is loaded"}
	switch {
	case !ok:
		f = plan.Unread(id, "whether "+managementModule+" is loaded", v)
		f.Target = managementModule
	case !module.Loaded:
		f.Status, f.Found = plan.Drift, "not loaded"
		f.Summary = managementModule + " is not loaded, by which the subnet manager reaches the NVSwitches"
		f.Why = "the fabric manager finds no NVSwitch and ends (NV_WARN_NOTHING_TO_DO)"
		f.Fix = "modprobe " + managementModule + ", and a line in /etc/modules-load.d; install the package nvlsm"
	}
	return f
}
