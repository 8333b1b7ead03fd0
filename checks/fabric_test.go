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
		s := inRack
		edit(&s)
		return newBox("2941", 1, linked(18, 50000), fabric(s), imex(driverVersion, "active"))
	}
	tray := func(edit ...func(*box)) node.Facts {
		return newBox("2941", 1, append([]func(*box){linked(18, 50000), fabric(inRack)}, edit...)...)
	}
	b200 := func(edit ...func(*box)) node.Facts {
		return newBox("2901", 1, append([]func(*box){linked(18, 53125), fabric(completed), fifth}, edit...)...)
	}
	state := func(statuses ...string) string {
		var b strings.Builder
		for i, s := range statuses {
			b.WriteString(s + " fabric.state " + gpuAddress(i) + " (/sys)\n")
		}
		return b.String()
	}
	const unit, shares = " fabric.manager nvidia-fabricmanager.service (/sys)\n", " fabric.imex nvidia-imex.service (/sys)\n"
	const reaches, routes = " fabric.management_module ib_umad (/sys)\n", " fabric.subnet_manager nvlsm (/sys)\n"
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

		// While the node boots, services come one after another.
		judge("the fabric manager starts after boot", all, hgx(1, fabric(started), manager(driverVersion, "activating"), upFor(40*time.Second)), "unknown"+unit+state("unknown"), "whether the fabric manager will run is not known yet: it is activating, and the node boots"),
		judge("the fabric manager has failed after boot", all, hgx(1, manager(driverVersion, "failed"), upFor(40*time.Second)), "drift"+unit+state("ok")),
		judge("the fabric manager has a job", all, hgx(1, func(b *box) {
			b.service = known(node.UnitState{Load: "loaded", Active: known("inactive"), Job: "start"})
		}), "unknown"+unit+state("ok")),
		judge("nobody starts the fabric manager", all, hgx(1, manager(driverVersion, "inactive")), "drift"+unit+state("ok"), "the fabric manager is inactive, and the node has NVSwitches"),

		// NVSwitches of the fifth generation are no PCI functions, and have a subnet manager.
		judge("NVSwitches of the fifth generation", all, b200(), "ok"+reaches+"ok"+unit+state("ok")+"ok"+routes),
		judge("no module to reach them", all, b200(fabric(node.GPUFabricState{State: node.FabricNotStarted}), manager(driverVersion, "failed"), func(b *box) { b.modules["ib_umad"] = false }),
			"drift"+reaches+"drift"+unit+state("drift")+"ok"+routes, "ib_umad is not loaded, by which the subnet manager reaches the NVSwitches\nmodprobe ib_umad, and a line in /etc/modules-load.d"),
		judge("no subnet manager", all, b200(fabric(started), manager(driverVersion, "failed"), func(b *box) { b.subnetManager = false }),
			"ok"+reaches+"drift"+unit+state("drift")+"drift"+routes, "the subnet manager of the NVSwitches, nvlsm, is not installed\ninstall the packages nvlsm and infiniband-diags"),
		judge("whether there is a subnet manager is unknown", all, b200().With(node.Path.Answer("/opt/nvidia/nvlsm/sbin/nvlsm", denied[node.PathState]())), "ok"+reaches+"ok"+unit+state("ok")+"unknown"+routes),
		judge("the same GPUs in a virtual machine", all, newBox("2901", 1, guest, linked(18, 53125), fabric(completed)), "ok"+unit+state("ok"), "NVSwitches that this virtual machine does not see are routed by its host"),
		judge("an earlier generation needs neither", all, hgx(1), "ok"+unit+state("ok")),

		// IMEX: needed where GPUs are in a cluster, and in the way where somebody else starts it.
		judge("IMEX is not installed", all, tray(), "drift"+shares+"ok"+unit+state("ok"), "IMEX is not installed, and GPUs are in a cluster with those of other nodes\ninstall nvidia-imex in the driver's very version"),
		judge("IMEX has ended", all, tray(imex(driverVersion, "inactive")), "drift"+shares+"ok"+unit+state("ok"), "IMEX is inactive, and GPUs are in a cluster with those of other nodes\nlist the rack's nodes in /etc/nvidia-imex/nodes_config.cfg"),
		judge("IMEX has failed", all, tray(imex(driverVersion, "failed"), upFor(30*time.Second)), "drift"+shares+"ok"+unit+state("ok")),
		judge("IMEX starts after boot", all, tray(imex(driverVersion, "activating"), upFor(30*time.Second)), "unknown"+shares+"ok"+unit+state("ok"), "whether IMEX will run is not known yet: it is activating, and the node boots"),
		judge("IMEX is masked", all, tray(imex(driverVersion, "inactive"), masked), "skipped"+shares+"ok"+unit+state("ok")),
		judge("IMEX is masked, and wanted", `check "fabric" "all" { imex = true }`, tray(imex(driverVersion, "inactive"), masked), "drift"+shares+"ok"+unit+state("ok"), "systemctl unmask nvidia-imex.service"),
		judge("IMEX runs, and jobs bring their own", `check "fabric" "all" { imex = false }`, tray(imex(driverVersion, "active")), "drift"+shares+"ok"+unit+state("ok"), "IMEX of the host is active and not masked\nsystemctl disable --now nvidia-imex.service && systemctl mask nvidia-imex.service"),
		judge("IMEX is disabled alone, and jobs bring their own", `check "fabric" "all" { imex = false }`, tray(imex(driverVersion, "inactive")), "drift"+shares+"ok"+unit+state("ok")),
		judge("IMEX was masked while it ran", `check "fabric" "all" { imex = false }`, tray(imex(driverVersion, "active"), masked), "drift"+shares+"ok"+unit+state("ok"), "IMEX of the host is masked, and still active"),
		judge("IMEX is masked for jobs that bring their own", `check "fabric" "all" { imex = false }`, tray(imex(driverVersion, "inactive"), masked), "ok"+shares+"ok"+unit+state("ok")),
		judge("whether IMEX runs is unknown", all, tray(func(b *box) { b.imex = denied[node.UnitState]() }), "unknown"+shares+"ok"+unit+state("ok")),
		judge("whether IMEX is active is unknown", all, tray(func(b *box) { b.imex = known(node.UnitState{Load: "loaded", Active: denied[string]()}) }), "unknown"+shares+"ok"+unit+state("ok")),
		judge("whether IMEX is needed is unknown", all, tray(func(b *box) { b.cards[0].fabric = denied[node.GPUFabricState]() }), "unknown"+shares+"ok"+unit+state("unknown"), "whether GPUs are in a cluster with those of other nodes, which need IMEX, is unknown"),
		judge("IMEX runs, needed or not", all, tray(imex(driverVersion, "active"), func(b *box) { b.cards[0].fabric = denied[node.GPUFabricState]() }), "ok"+shares+"ok"+unit+state("unknown")),
		judge("IMEX has failed, and nothing needs it", all, newBox("2342", 1, imex(driverVersion, "failed")), "drift info"+shares+"ok"+unit+state("skipped"), "IMEX has failed, and no GPU is in a cluster that would need it"),

		// A rack: NVML says that all went well, and the GPU is in no clique.
		judge("a clique of a cluster", cluster, rack(func(*node.GPUFabricState) {}), "ok"+shares+"ok"+unit+state("ok")),
		judge("clique 0", cluster, rack(func(s *node.GPUFabricState) { s.Clique = 0 }), "ok"+shares+"ok"+unit+state("drift"), "is in no clique of a cluster\nlook whether nvidia-imex runs on all nodes of the rack"),
		judge("no cluster", cluster, rack(func(s *node.GPUFabricState) { s.ClusterUUID = node.NoCluster }), "ok"+shares+"ok"+unit+state("drift")),
		judge("no fabric where a rack's is wanted", cluster, rack(func(s *node.GPUFabricState) { *s = node.GPUFabricState{State: node.FabricNotSupported} }), "ok"+shares+"ok"+unit+state("drift"), "is not registered with its fabric: not-supported"),
		judge("a clique is nobody's wish", all, rack(func(s *node.GPUFabricState) { s.Clique = 0 }), "ok"+shares+"ok"+unit+state("ok")),

		judge("degraded", all, rack(func(s *node.GPUFabricState) { s.Health = known(node.FabricHealth(0xa9 | 5<<8)) }), "drift fabric.health 0000:1b:00.0 (/sys)\nok"+shares+"ok"+unit+state("ok"),
			"the fabric of GPU 0000:1b:00.0 (GB200): bandwidth is degraded, incorrect configuration: too few NVLinks\nlook for Xid 74 and SXid"),
		judge("a summary that says no more", all, rack(func(s *node.GPUFabricState) {
			s.Health, s.Summary = lacking[node.FabricHealth](), known("limited-capacity")
		}), "drift fabric.health 0000:1b:00.0 (/sys)\nok"+shares+"ok"+unit+state("ok"), ": limited-capacity"),
		judge("an old driver, which knows no health", all, rack(func(s *node.GPUFabricState) { s.Health, s.Summary = lacking[node.FabricHealth](), lacking[string]() }), "ok"+shares+"ok"+unit+state("ok")),
	})
}
