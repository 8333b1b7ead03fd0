package checks_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"busbar/checks"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// moreGPUChecks are all checks of GPUs with arguments.
const moreGPUChecks = gpuChecks + `
	check "driver" "stated" {
		version     = "580.95.05"
		min_version = "570"
		open        = true
		parameters  = { NvLinkDisable = "0" }
	}
	check "fabric" "rack" { cluster = true }
	check "gpudirect_rdma" "peermem" { path = "peermem" }
	check "gpudirect_rdma" "dmabuf" { path = "dmabuf" }
	check "gpus" "stated" {
		count   = 2
		product = "NVIDIA H200"
		mig     = true
	}
	check "nvlink" "stated" { links = 2 }
	check "p2p" "stated" { nvlink = true }
`

// anyBox draws a node with two or three GPUs, with whatever NVML can say of them.
func anyBox(t *rapid.T) *box {
	b := &box{
		kernel: oneOf(t, "6.8.0-45-generic", "5.4.0-190-generic", "next"), virtualization: oneOf(t, "none", "none", "kvm"),
		uptime: known(oneOf(t, time.Minute, time.Hour)), modules: map[string]bool{"nvidia_peermem": rapid.Bool().Draw(t, "peermem"), "ib_umad": rapid.Bool().Draw(t, "umad")}, registered: rapid.Bool().Draw(t, "registered"),
		driver: known(node.NVIDIADriverState{
			Loaded: rapid.IntRange(0, 5).Draw(t, "loaded") > 0, Version: oneOf(t, driverVersion, "535.183.06", "main"), Open: rapid.Bool().Draw(t, "open"),
			Parameters: known(map[string]string{"NvLinkDisable": oneOf(t, "0", "1")}),
		}),
		library:      known(node.NVMLState{Version: oneOf(t, "13."+driverVersion, "12.535.183.06"), Driver: known(driverVersion)}),
		manager:      known(node.FabricManagerState{Installed: rapid.Bool().Draw(t, "installed"), Version: known(oneOf(t, driverVersion, "580.1"))}),
		service:      known(node.UnitState{Load: oneOf(t, "loaded", "not-found"), Active: known(oneOf(t, "active", "inactive", "failed"))}),
		confidential: known(node.ConfidentialComputingState{Enabled: rapid.Bool().Draw(t, "confidential")}),
	}
	if rapid.Bool().Draw(t, "switch") {
		b.others = []node.PCIFunction{{Address: "0000:07:00.0", Vendor: "10de", Device: "22a3", Class: "068000"}}
	}
	device := oneOf(t, "2330", "2321", "26b9", "2901", "2941", "9999")
	for i := range rapid.IntRange(1, 3).Draw(t, "GPUs") {
		c := &card{function: node.PCIFunction{Address: gpuAddress(i), Vendor: "10de", Device: device, Class: "030200", Driver: oneOf(t, "nvidia", "nvidia", "vfio-pci", "")}}
		flag := func() node.Value[bool] { return perhaps(t, rapid.Bool().Draw(t, "flag")) }
		c.state = known(node.GPUState{
			Fault: oneOf(t, "", "", "", "GPU is lost"), Product: known(oneOf(t, "NVIDIA H200", "NVIDIA H200", "NVIDIA L40S")), MIG: flag(), MIGPending: flag(), ECC: flag(), ECCPending: flag(),
			BAR1Bytes: known(oneOf(t, uint64(256<<20), 128<<30)), ComputeMode: known(oneOf(t, node.ComputeModeDefault, "prohibited")), Persistence: flag(),
		})
		c.links = perhaps(t, node.NVLinkState{})
		if s, ok := c.links.Get(); ok {
			for n := range rapid.IntRange(0, 3).Draw(t, "links") {
				s.Links = append(s.Links, node.NVLinkPort{Link: n, State: known(oneOf(t, node.NVLinkActive, node.NVLinkActive, node.NVLinkInactive, node.NVLinkSleep)), SpeedMBps: known(oneOf(t, 26562, 53125, 100))})
			}
			c.links = known(s)
		}
		c.fabric = perhaps(t, node.GPUFabricState{
			State: oneOf(t, node.FabricCompleted, node.FabricCompleted, node.FabricInProgress, node.FabricNotStarted, node.FabricNotSupported), Status: oneOf(t, node.FabricSuccess, node.FabricSuccess, "Unknown Error"),
			Clique: oneOf(t, uint32(0), 7), ClusterUUID: oneOf(t, node.NoCluster, "00000000-0000-0000-0000-000000000004"), Health: perhaps(t, oneOf(t, node.FabricHealth(0xaa), 1)), Summary: perhaps(t, oneOf(t, "healthy", "unhealthy")),
		})
		b.cards = append(b.cards, c)
	}
	b.p2p = known(b.matrix(func(p *node.P2PPair) {
		status := func() node.Value[string] {
			return perhaps(t, oneOf(t, node.P2POK, node.P2POK, node.P2POK, node.P2PNotSupported, node.P2PGPUNotSupported, node.P2PUnknown))
		}
		p.Read, p.Write, p.NVLink = status(), status(), status()
	}))
	return b
}

// lessOf is a fact with some of its parts unknown, or unknown as a whole.
func lessOf[T any](t *rapid.T, v node.Value[T]) node.Value[T] {
	x, ok := v.Get()
	switch {
	case rapid.IntRange(0, 15).Draw(t, "denied") == 0:
		return denied[T]()
	case !ok:
		return v
	}
	forget(t, &x)
	return known(x)
}

// lessBox is a box of which less is known.
func lessBox(t *rapid.T, full *box) *box {
	b := *full
	b.cards = nil
	for _, c := range full.cards {
		less := *c
		less.state, less.fabric = lessOf(t, c.state), lessOf(t, c.fabric)
		if s, ok := c.links.Get(); ok {
			s.Links = slices.Clone(s.Links)
			for i := range s.Links {
				forget(t, &s.Links[i])
			}
			less.links = lessOf(t, known(s))
		}
		b.cards = append(b.cards, &less)
	}
	if s, ok := full.p2p.Get(); ok {
		s.Pairs = slices.Clone(s.Pairs)
		for i := range s.Pairs {
			forget(t, &s.Pairs[i])
		}
		b.p2p = lessOf(t, known(s))
	}
	b.driver, b.library, b.manager, b.service = lessOf(t, b.driver), lessOf(t, b.library), lessOf(t, b.manager), lessOf(t, b.service)
	if rapid.IntRange(0, 7).Draw(t, "uptime") == 0 {
		b.uptime = denied[time.Duration]()
	}
	return &b
}

// TestUnknownGPUsAreNeverOK: what is ok where some of the facts about GPUs are unknown is ok, too, or a note, or no matter, where they are known.
func TestUnknownGPUsAreNeverOK(t *testing.T) {
	blocks := plantest.Blocks(t, checks.All(), moreGPUChecks)
	planner := plantest.Planner(checks.All())
	type key struct{ address, id, target string }
	rapid.Check(t, func(t *rapid.T) {
		full := anyBox(t)
		all, part := full.facts(), lessBox(t, full).facts()
		inv := part.Inventory
		forget(t, &inv)
		was := map[key]plan.Finding{}
		for _, f := range planner.Plan(blocks, all).Findings {
			was[key{f.Address, f.ID, f.Target}] = f
		}
		for _, f := range planner.Plan(blocks, part.WithInventory(inv)).Findings {
			before, told := was[key{f.Address, f.ID, f.Target}]
			if told && f.Status == plan.OK && before.Status != plan.OK && before.Severity != plan.Info {
				t.Errorf("%s %s %s is ok: %s\nwith all facts it is %s: %s", f.Address, f.ID, f.Target, f.Summary, before.Status, before.Summary)
			}
			if f.Summary == "" {
				t.Errorf("%s %s %s says nothing", f.Address, f.ID, f.Target)
			}
		}
	})
}
