package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestP2P(t *testing.T) {
	all, nvlink := `check "p2p" "all" {}`, `check "p2p" "all" { nvlink = true }`
	a, b, c := gpuAddress(0), gpuAddress(1), gpuAddress(2)
	refuse := func(status string) func(*box) {
		return peers(func(p *node.P2PPair) { p.Read, p.Write = known(status), known(status) })
	}
	// between refuses everything between one GPU and the others.
	between := func(address, status string) func(*box) {
		return peers(func(p *node.P2PPair) {
			if p.From == address || p.To == address {
				p.Read, p.Write, p.NVLink = known(status), known(status), known(status)
			}
		})
	}
	const (
		read, write = "ok p2p.read read (/sys)\n", "ok p2p.write write (/sys)\n"
		both        = read + write
		both0       = "drift p2p.read read NS (/sys)\ndrift p2p.write write NS (/sys)\n"
	)
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("one pair", all, newBox("26b9", 2), both, "GPUs may read each other's memory: 0000:1b:00.0 and 0000:2b:00.0\n", "GPUs may write each other's memory: 0000:1b:00.0 and 0000:2b:00.0\n"),
		judge("all pairs", all, newBox("26b9", 3), both, "GPUs may read each other's memory: all 3 pairs\n"),
		judge("over NVLink", nvlink, hgx(8), "ok p2p.nvlink NVLink (/sys)\n"+both, "GPUs reach each other over NVLink: all 28 pairs"),
		judge("NVLink where there is none", nvlink, newBox("26b9", 2), "drift p2p.nvlink NVLink NS (/sys)\n"+both, "GPUs that do not reach each other over NVLink: 0000:1b:00.0 and 0000:2b:00.0, not supported (NS)"),
		judge("one GPU of eight is off the fabric", nvlink, hgx(8, between(c, node.P2PNotSupported)), "drift p2p.nvlink NVLink NS (/sys)\n"+both0,
			"GPUs that do not reach each other over NVLink: 0000:3b:00.0 and 7 others, not supported (NS)\nlook for NVLinks that are down and for the fabric's state"),
		judge("one GPU is off, and the others reach each other over PCIe", all, newBox("26b9", 3, between(c, node.P2PChipsetNotSupported)), "drift p2p.read read CNS (/sys)\ndrift p2p.write write CNS (/sys)\n",
			"GPUs that may not read each other's memory: 0000:1b:00.0 and 0000:3b:00.0, 0000:2b:00.0 and 0000:3b:00.0, chipset not supported (CNS)", "the processor does not forward what one of them sends the other"),
		// Root complexes of client chipsets forward writes alone.
		judge("writes, and no reads", all, newBox("26b9", 2, peers(func(p *node.P2PPair) { p.Read = known(node.P2PChipsetNotSupported) })), "drift p2p.read read CNS (/sys)\n"+write,
			"GPUs that may not read each other's memory: 0000:1b:00.0 and 0000:2b:00.0, chipset not supported (CNS)"),
		judge("in one direction", all, newBox("26b9", 2, peers(func(p *node.P2PPair) {
			if p.From == b {
				p.Read = known(node.P2PTopologyNotSupported)
			}
		})), "drift p2p.read read TNS (/sys)\n"+write, "GPUs that may not read each other's memory: 0000:2b:00.0 to 0000:1b:00.0, topology not supported (TNS)"),
		judge("GPUs that have none by design", all, newBox("9999", 2, refuse(node.P2PGPUNotSupported)), "drift p2p.read read GNS (/sys)\ndrift p2p.write write GNS (/sys)\n", "GPU not supported (GNS)\nthe driver has no P2P for GPUs of this model", "that is no fault: leave the check out"),
		judge("turned off by a parameter", all, newBox("26b9", 2, refuse(node.P2PDisabledByRegkey), drive(func(s *node.NVIDIADriverState) {
			s.Parameters = known(map[string]string{"RegistryDwords": "ForceP2P=0"})
		})), "drift p2p.read read DR (/sys)\ndrift p2p.write write DR (/sys)\n", `the driver was loaded with NVreg_RegistryDwords="ForceP2P=0"`),
		judge("a version of the driver that errs", all, hgx(2, refuse(node.P2PNotSupported), drive(func(s *node.NVIDIADriverState) { s.Version = "535.183.06" })), both0, "driver 535.183.06 says so of GPUs that can"),
		judge("a virtual machine without its host's topology", all, newBox("26b9", 2, guest, refuse(node.P2PNotSupported)), both0, "nothing in the guest can change it"),
		// MIG takes the peers of a GPU that the matrix of the topology shows as before.
		judge("divided GPUs", all, newBox("20b5", 2, refuse(node.P2PNotSupported), every(func(s *node.GPUState) { s.MIG = known(true) })), both0, "turn MIG off (nvidia-smi -mig 0) on 0000:1b:00.0 and 0000:2b:00.0"),
		judge("one divided GPU of three", all, newBox("20b5", 3, between(b, node.P2PNotSupported), change(1, func(s *node.GPUState) { s.MIG = known(true) })), both0, "turn MIG off (nvidia-smi -mig 0) on 0000:2b:00.0\n"),
		judge("confidential computing", all, newBox("2330", 2, refuse(node.P2PNotSupported), func(b *box) {
			b.confidential = known(node.ConfidentialComputingState{Environment: "production", Enabled: true})
		}), both0, "confidential computing is on, which keeps GPUs from each other"),
		judge("pairs that are refused for several reasons", all, newBox("26b9", 3, between(c, node.P2PNotSupported), peers(func(p *node.P2PPair) {
			if p.From == a && p.To == b {
				p.Write = known(node.P2PChipsetNotSupported)
			}
		})), "drift p2p.read read NS (/sys)\ndrift p2p.write write CNS (/sys)\ndrift p2p.write write NS (/sys)\n"),
		judge("a GPU that the driver does not know", all, newBox("26b9", 3, func(x *box) {
			list := x.cards
			x.cards = list[:2]
			x.p2p = known(x.matrix(func(*node.P2PPair) {}))
			x.cards = list
		}), "unknown p2p.read read, unknown (/sys)\nunknown p2p.write write, unknown (/sys)\n", "read access is unknown of 0000:1b:00.0 and 0000:3b:00.0, 0000:2b:00.0 and 0000:3b:00.0: the driver does not know 0000:3b:00.0"),
		judge("a status that has no name", all, newBox("26b9", 2, peers(func(p *node.P2PPair) {
			p.Read = node.Unknown[string]("NVML gives 9, which has no name yet", node.Source{})
		})), "unknown p2p.read read, unknown (/sys)\n"+write),
		judge("a status that the driver does not know", all, newBox("26b9", 2, refuse(node.P2PUnknown)), "unknown p2p.read read, unknown (/sys)\nunknown p2p.write write, unknown (/sys)\n", "read access is unknown of 0000:1b:00.0 and 0000:2b:00.0: the driver does not know it (U)"),
		judge("one GPU", all, newBox("26b9", 1), "skipped p2p.access gpus ()"),
	})
}
