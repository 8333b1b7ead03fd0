package checks_test

import (
	"strings"
	"testing"
	"time"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

// upFor sets the uptime.
func upFor(d time.Duration) func(*box) { return func(b *box) { b.uptime = known(d) } }

func TestFabric(t *testing.T) {
	all := `check "fabric" "all" {}`
	cluster := `check "fabric" "rack" { cluster = true }`
	started := node.GPUFabricState{State: node.FabricInProgress}
	rack := func(edit func(*node.GPUFabricState)) node.Facts {
		s := node.GPUFabricState{State: node.FabricCompleted, Status: node.FabricSuccess, Clique: 4026, ClusterUUID: "00000000-0000-0000-0000-000000000004", Health: known(node.FabricHealth(0xaa)), Summary: known("healthy")}
		edit(&s)
		return newBox("2941", 1, linked(18, 50000), fabric(s))
	}
	state := func(statuses ...string) string {
		var b strings.Builder
		for i, s := range statuses {
			b.WriteString(s + " fabric.state " + gpuAddress(i) + " (/sys)\n")
		}
		return b.String()
	}
	const unit = " fabric.manager nvidia-fabricmanager.service (/sys)\n"
	inProgress := hgx(2, fabric(started), upFor(time.Hour))
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("registering since long", all, inProgress, "ok"+unit+state("drift", "drift"), "GPU 0000:1b:00.0 (H100 80GB HBM3) is not registered with its fabric: in-progress", "reset them (nvidia-smi -r)"),
		judge("registering after boot", all, hgx(2, fabric(started), upFor(40*time.Second)), "ok"+unit+state("unknown", "unknown"), "in-progress, and the node is up for 40s only"),
		judge("registering at the end of grace", all, hgx(1, fabric(started), upFor(300*time.Second)), "ok"+unit+state("drift")),
		judge("a longer grace", `check "fabric" "all" { grace = 3600 }`, hgx(1, fabric(started), upFor(59*time.Minute)), "ok"+unit+state("unknown")),
		judge("the uptime is unknown", all, hgx(1, fabric(started), func(b *box) { b.uptime = denied[time.Duration]() }), "ok"+unit+state("drift")),
		judge("registered soon after boot", all, hgx(1, upFor(10*time.Second)), "ok"+unit+state("ok")),
		judge("a status that is an error", all, hgx(1, fabric(node.GPUFabricState{State: node.FabricCompleted, Status: "Insufficient Resources"})), "ok"+unit+state("drift"),
			"could not be registered with its fabric: Insufficient Resources"),

		// The fabric manager was restarted while GPUs were in use: it runs, and they are out.
		judge("the fabric manager was restarted under one GPU", all, hgx(2, func(b *box) { b.cards[1].fabric = known(node.GPUFabricState{State: node.FabricNotStarted}) }), "ok"+unit+state("ok", "drift"),
			"GPU 0000:2b:00.0 (H100 80GB HBM3) is not registered with its fabric: not-started", "where it was restarted while GPUs were in use, reset them"),
		// It died, and nobody noticed: what runs goes on.
		judge("the fabric manager has failed, and GPUs are still registered", all, hgx(1, manager(driverVersion, "failed")), "drift"+unit+state("ok"), "the fabric manager is failed, and the node has NVSwitches\nsystemctl start nvidia-fabricmanager.service"),
		judge("the fabric manager is not installed", all, hgx(1, func(b *box) { b.service = known(node.UnitState{Load: "not-found", Active: known("inactive")}) }), "drift"+unit+state("ok"), "the fabric manager is not installed, and the node has NVSwitches\ninstall it in the driver's very version"),
		judge("whether the fabric manager runs is unknown", all, hgx(1, func(b *box) { b.service = denied[node.UnitState]() }), "unknown"+unit+state("ok")),
		judge("whether the fabric manager is active is unknown", all, hgx(1, func(b *box) { b.service = known(node.UnitState{Load: "loaded", Active: denied[string]()}) }), "unknown"+unit+state("ok")),
		judge("a fabric manager that has nothing to do", all, newBox("26b9", 1, manager(driverVersion, "failed")), "drift info"+unit+state("skipped"), "NV_WARN_NOTHING_TO_DO)\nsystemctl disable --now nvidia-fabricmanager.service"),
		judge("a fabric manager that nothing needs is unknown", all, newBox("26b9", 1, func(b *box) { b.service = denied[node.UnitState]() }), "ok"+unit+state("skipped")),

		judge("NVSwitches of the fifth generation, no module to reach them", all, newBox("2901", 1, linked(18, 50000), fabric(node.GPUFabricState{State: node.FabricNotStarted}), manager(driverVersion, "failed")),
			"drift fabric.management_module ib_umad (/sys)\ndrift"+unit+state("drift"), "ib_umad is not loaded, by which the subnet manager reaches the NVSwitches\nmodprobe ib_umad, and a line in /etc/modules-load.d; install the package nvlsm"),

		// A rack: NVML says that all went well, and the GPU is in no clique.
		judge("a clique of a cluster", cluster, rack(func(*node.GPUFabricState) {}), "ok"+unit+state("ok")),
		judge("clique 0", cluster, rack(func(s *node.GPUFabricState) { s.Clique = 0 }), "ok"+unit+state("drift"), "is in no clique of a cluster\nlook whether nvidia-imex runs on all nodes of the rack"),
		judge("no cluster", cluster, rack(func(s *node.GPUFabricState) { s.ClusterUUID = node.NoCluster }), "ok"+unit+state("drift")),
		judge("no fabric where a rack's is wanted", cluster, rack(func(s *node.GPUFabricState) { *s = node.GPUFabricState{State: node.FabricNotSupported} }), "ok"+unit+state("drift"), "is not registered with its fabric: not-supported"),
		judge("a clique is nobody's wish", all, rack(func(s *node.GPUFabricState) { s.Clique = 0 }), "ok"+unit+state("ok")),

		judge("degraded", all, rack(func(s *node.GPUFabricState) { s.Health = known(node.FabricHealth(0xa9 | 5<<8)) }), "drift fabric.health 0000:1b:00.0 (/sys)\nok"+unit+state("ok"),
			"the fabric of GPU 0000:1b:00.0 (GB200): bandwidth is degraded, incorrect configuration: too few NVLinks\nlook for Xid 74 and SXid"),
		judge("a summary that says no more", all, rack(func(s *node.GPUFabricState) {
			s.Health, s.Summary = lacking[node.FabricHealth](), known("limited-capacity")
		}), "drift fabric.health 0000:1b:00.0 (/sys)\nok"+unit+state("ok"), ": limited-capacity"),
		judge("an old driver, which knows no health", all, rack(func(s *node.GPUFabricState) { s.Health, s.Summary = lacking[node.FabricHealth](), lacking[string]() }), "ok"+unit+state("ok")),
	})
}
