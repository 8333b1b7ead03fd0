package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
		Doc: "The fabric of NVSwitches: each GPU is registered with it, the fabric manager runs where the node has NVSwitches to route, and IMEX where GPUs are in a cluster. Before a GPU is registered CUDA answers 802, system not yet initialized.",
		Attributes: []plan.Attribute{
			{Name: "grace", Type: cty.Number, Min: &none, Max: &hour, Default: cty.NumberIntVal(300), Example: "300", Doc: "Seconds after boot in which registering may go on, and services may start."},
			{Name: "cluster", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Whether GPUs must belong to a clique of a cluster, as those of a rack do (GB200)."},
			{Name: "imex", Type: cty.Bool, Example: "false", Doc: "Whether nvidia-imex must run, by which GPUs of a rack's nodes share memory. false where something else starts one for each job, as Kubernetes does for ComputeDomains: then it must be masked. Left out, it must run where GPUs are in a cluster, unless it is masked."},
		},
	}
}

type fabricConfig struct {
	Grace   int   `cty:"grace"`
	Cluster bool  `cty:"cluster"`
	IMEX    *bool `cty:"imex"`
}

const (
	fabricManagerUnit = "nvidia-fabricmanager.service"
	imexUnit          = "nvidia-imex.service"
	// managementModule is what the subnet manager of NVSwitches of the fifth generation talks through, and subnetManager that
	// itself, which nvidia-fabricmanager-start.sh starts before the fabric manager (NVIDIA's fabric manager guide).
	managementModule = "ib_umad"
	subnetManager    = "/opt/nvidia/nvlsm/sbin/nvlsm"
)

// Queries are the state of each GPU, the fabric manager, what it needs, and IMEX.
func (Fabric) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c fabricConfig
	queries := eachGPU(inv, node.GPUFabric)
	if len(queries) == 0 || b.Decode(&c) != nil {
		return nil
	}
	queries = append(queries, node.Unit.Query(fabricManagerUnit))
	if hasFifthNVSwitch(inv) {
		queries = append(queries, node.Module.Query(managementModule), node.Path.Query(subnetManager))
	}
	if c.judgesIMEX(inv) {
		queries = append(queries, node.Unit.Query(imexUnit))
	}
	return queries
}

// judgesIMEX reports whether the node could need IMEX, or the block says something of it.
func (c fabricConfig) judgesIMEX(inv node.Inventory) bool {
	return c.IMEX != nil || c.Cluster || hasGPUs(inv, node.NVLinkRack)
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
	up, known := facts.Inventory.Uptime.Get()
	early := known && up < time.Duration(c.Grace)*time.Second
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
		f := c.registered(g, state, early, up)
		f.Source = v.Source()
		a.Findings = append(a.Findings, f)
		if f, bad := unhealthy(g, state); bad {
			f.Source = v.Source()
			a.Findings = append(a.Findings, f)
		}
	}
	if c.Cluster {
		a.Findings = append(a.Findings, parted(gpus, facts)...)
	}
	a.Findings = append(a.Findings, fabricManager(facts, early))
	if hasFifthNVSwitch(facts.Inventory) {
		a.Findings = append(a.Findings, reaches(facts), routes(facts))
	}
	if c.judgesIMEX(facts.Inventory) {
		a.Findings = append(a.Findings, c.imex(gpus, facts, early))
	}
	return a
}

// inCluster reports a GPU whose NVLinks reach those of other nodes.
func inCluster(s node.GPUFabricState) bool {
	return s.Clique != 0 && s.ClusterUUID != "" && s.ClusterUUID != node.NoCluster
}

// parted judges GPUs of one node that are in another clique than most: partitions of a rack are made of whole nodes.
func parted(gpus []node.GPU, facts node.Facts) []plan.Finding {
	cliques := map[string][]node.GPU{}
	for _, g := range gpus {
		if s, ok := node.GPUFabric.Get(facts, g.Address).Get(); ok && inCluster(s) {
			clique := fmt.Sprintf("clique %d of cluster %s", s.Clique, s.ClusterUUID)
			cliques[clique] = append(cliques[clique], g)
		}
	}
	if len(cliques) < 2 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(cliques), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(cliques[b]), len(cliques[a])), cmp.Compare(a, b))
	})
	var findings []plan.Finding
	for _, other := range names[1:] {
		for _, g := range cliques[other] {
			findings = append(findings, plan.Finding{
				ID: "fabric.clique", Target: g.Address, Status: plan.Drift, Want: names[0], Found: other, Source: node.GPUFabric.Get(facts, g.Address).Source(),
				Summary: fmt.Sprintf("%s is in another clique than most GPUs of the node", name(g)),
				Why:     "GPUs of different cliques do not reach each other over NVLink",
				Fix:     "look at the partitions of the rack's fabric: all GPUs of a node belong into one",
			})
		}
	}
	return findings
}

// registers reports whether the GPU's model may register with a fabric, which those of NVLink 4 and later do where
// NVSwitches connect them; a model that is not in the table may.
func registers(g node.GPU) bool {
	m, ok := g.Model()
	return !ok || m.Generation >= 4 && m.Peers != node.NVLinkBridge
}

// registered judges a GPU's state and status.
func (c fabricConfig) registered(g node.GPU, state node.GPUFabricState, early bool, up time.Duration) plan.Finding {
	f := plan.Finding{ID: fabricID, Target: g.Address, Status: plan.OK, Want: "completed, success", Found: state.State, Running: state.State}
	manager := "look whether the fabric manager runs and what its log says (/var/log/fabricmanager.log)"
	if m, _ := g.Model(); m.Peers == node.NVLinkRack {
		manager = "look at the fabric manager of the rack's switch trays (NMX-C), and whether a partition of the fabric has this GPU"
	}
	switch {
	case state.State != node.FabricCompleted && state.State != node.FabricNotSupported && early:
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
	case c.Cluster && !inCluster(state):
		f.Status = plan.Drift
		f.Want, f.Found = "a clique of a cluster", fmt.Sprintf("clique %d of cluster %s", state.Clique, state.ClusterUUID)
		f.Summary = fmt.Sprintf("%s is in no clique of a cluster", name(g))
		f.Why = "GPUs of other nodes of the rack are out of its NVLinks' reach"
		f.Fix = "look whether nvidia-imex runs on all nodes of the rack (nvidia-imex-ctl -N), and whether a partition of the fabric has this GPU"
	default:
		f.Found += ", " + state.Status
		f.Summary = name(g) + " is registered with its fabric"
		if inCluster(state) {
			f.Summary += fmt.Sprintf(", clique %d of cluster %s", state.Clique, state.ClusterUUID)
		}
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
func fabricManager(facts node.Facts, early bool) plan.Finding {
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
		switch {
		case hasGPUs(facts.Inventory, node.NVLinkRack) && active != "active":
			f.Summary = "the fabric manager is not needed: NVSwitches that its GPUs may have are in other trays, which route them"
		case virtualMachine(facts.Inventory):
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
	case starts(unit, active, early):
		f.Status, f.Want = plan.Undetermined, "active"
		f.Summary = fmt.Sprintf("whether the fabric manager will run is not known yet: it is %s, and the node boots", active)
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

// starts reports a unit that may still start by itself: soon after boot, or because systemd has a job that starts it.
func starts(u node.UnitState, active string, early bool) bool {
	return (active == "inactive" || active == "activating") && (early || u.Starting())
}

// routes judges whether the subnet manager of NVSwitches of the fifth generation is installed.
func routes(facts node.Facts) plan.Finding {
	const id = "fabric.subnet_manager"
	v := node.Path.Get(facts, subnetManager)
	program, ok := v.Get()
	f := plan.Finding{ID: id, Target: "nvlsm", Status: plan.OK, Source: v.Source(), Want: "installed", Found: "installed", Summary: "the subnet manager of the NVSwitches, nvlsm, is installed"}
	switch {
	case !ok:
		f = plan.Unread(id, "whether the subnet manager of the NVSwitches, nvlsm, is installed", v)
		f.Target = "nvlsm"
	case !program.Exists:
		f.Status, f.Found = plan.Drift, "not installed"
		f.Summary = "the subnet manager of the NVSwitches, nvlsm, is not installed"
		f.Why = "nobody fills the NVSwitches' routing tables: the fabric manager ends, and GPUs stay unregistered"
		f.Fix = "install the packages nvlsm and infiniband-diags, and start " + fabricManagerUnit + " anew, which starts it"
	}
	return f
}

// needsIMEX reports whether GPUs of other nodes are in reach; unknown where what would tell could not be read.
func (c fabricConfig) needsIMEX(gpus []node.GPU, facts node.Facts) node.Value[bool] {
	needed := node.Known(c.Cluster, node.Source{})
	for _, g := range gpus {
		v := node.GPUFabric.Get(facts, g.Address)
		state, ok := v.Get()
		switch {
		case c.Cluster, inCluster(state):
			return node.Known(true, v.Source())
		case !ok && !v.IsUnsupported() && registers(g):
			needed = node.UnknownLike[bool](v)
		}
	}
	return needed
}

// imex judges whether IMEX runs where it must: where GPUs of other nodes are in reach, if the block does not say.
func (c fabricConfig) imex(gpus []node.GPU, facts node.Facts, early bool) plan.Finding {
	const id = "fabric.imex"
	needed := c.needsIMEX(gpus, facts)
	clustered, decided := needed.Get()
	v := node.Unit.Get(facts, imexUnit)
	unit, ok := v.Get()
	active, known := unit.Active.Get()
	found := active
	masked, absent := unit.Load == "masked" || unit.File == "masked", unit.Load == "not-found"
	switch {
	case masked && active != "active":
		found = "masked"
	case absent:
		found = "not installed"
	}
	var f plan.Finding
	switch needless := c.IMEX == nil && decided && !clustered; {
	case needless && active != "failed":
		f = plan.Finding{Status: plan.OK, Want: "not needed", Summary: "IMEX is not needed: no GPU is in a cluster with those of other nodes"}
	case !ok:
		f = plan.Unread(id, "whether IMEX runs", v)
	case !masked && !absent && !known:
		f = plan.Unread(id, "whether IMEX runs", unit.Active)
	case needless:
		f = plan.Finding{Status: plan.Drift, Severity: plan.Info, Want: "not needed", Fix: "systemctl disable --now " + imexUnit}
		f.Summary = "IMEX has failed, and no GPU is in a cluster that would need it"
	case c.IMEX == nil && !decided && found != "active":
		f = plan.Unread(id, "whether GPUs are in a cluster with those of other nodes, which need IMEX,", needed)
	case c.IMEX != nil && !*c.IMEX:
		f = withoutIMEX(found, masked)
	case found == "masked" && c.IMEX == nil:
		f = plan.Finding{Status: plan.Skipped, Want: "active"}
		f.Summary = "IMEX is masked, as it must be where Kubernetes starts one for each ComputeDomain: say in imex whether that is meant"
	case starts(unit, found, early):
		f = plan.Finding{Status: plan.Undetermined, Want: "active"}
		f.Summary = fmt.Sprintf("whether IMEX will run is not known yet: it is %s, and the node boots", found)
	default:
		f = withIMEX(found)
	}
	f.ID, f.Target, f.Source, f.Found = id, imexUnit, v.Source(), found
	return f
}

// withIMEX judges the state of IMEX where it must run.
func withIMEX(found string) plan.Finding {
	f := plan.Finding{Status: plan.Drift, Want: "active"}
	f.Summary = "IMEX is " + found + ", and GPUs are in a cluster with those of other nodes"
	f.Why = "CUDA exports no memory to the other nodes of the rack: jobs over several nodes fail, or take the network instead of NVLinks (NCCL's MNNVL)"
	switch found {
	case "active":
		return plan.Finding{Status: plan.OK, Want: "active", Summary: "IMEX runs"}
	case "not installed":
		f.Fix = "install nvidia-imex in the driver's very version"
	case "masked":
		f.Fix = "systemctl unmask " + imexUnit + ", enable and start it: block service"
	default:
		f.Fix = "list the rack's nodes in /etc/nvidia-imex/nodes_config.cfg, alike on each, and start " + imexUnit +
			"; look into /var/log/nvidia-imex.log, where a version that is not the driver's ends it, and at nvidia-imex-ctl -N"
	}
	return f
}

// withoutIMEX judges the state of IMEX where something else starts it for each job.
func withoutIMEX(found string, masked bool) plan.Finding {
	if found == "not installed" || found == "masked" {
		return plan.Finding{Status: plan.OK, Want: "masked", Summary: "IMEX of the host is " + found + ", and leaves the node to those of jobs"}
	}
	f := plan.Finding{Status: plan.Drift, Want: "masked", Summary: "IMEX of the host is " + found + " and not masked"}
	if masked {
		f.Summary = "IMEX of the host is masked, and still " + found
	}
	f.Why = "two of them on one node are in each other's way, and one that is only disabled comes back"
	f.Fix = "systemctl disable --now " + imexUnit + " && systemctl mask " + imexUnit + ": block service does both"
	return f
}

// reaches judges what the subnet manager needs to reach NVSwitches of the fifth generation.
func reaches(facts node.Facts) plan.Finding {
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
