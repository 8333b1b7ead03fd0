package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

// TestGPUStates: what the driver says of GPUs.
func TestGPUStates(t *testing.T) {
	uniform, undivided, divided := `check "gpus" "all" { uniform = true }`, `check "gpus" "all" { mig = false }`, `check "gpus" "all" { mig = true }`
	product := `check "gpus" "all" { product = "NVIDIA 2330" }`
	second := func(edit func(*node.GPUState)) node.Facts { return newBox("2330", 3, change(1, edit)) }
	const count, alike = "ok gpus.count gpus (/sys)\n", " gpus.uniform gpus ()"
	mig := func(first, second string) string {
		return count + first + " gpus.mig 0000:1b:00.0 (/sys)\n" + second + " gpus.mig 0000:2b:00.0 (/sys)\n"
	}
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("alike", uniform, newBox("2330", 8), count+"ok"+alike),
		judge("a GPU of another model", uniform, newBox("2330", 3, func(b *box) { b.cards[1].function.Device = "2331" }), count+"drift"+alike, "GPUs differ: PCI id 10de:2331 on 0000:2b:00.0, 10de:2330 on the others\nreplace the card, or take the profile that fits the node"),
		judge("a small BAR1", uniform, second(func(s *node.GPUState) { s.BAR1Bytes = known(uint64(256 << 20)) }), count+"drift"+alike, "BAR1 256 MiB on 0000:2b:00.0, 131072 MiB on the others"),
		judge("ECC is off", uniform, second(func(s *node.GPUState) { s.ECC = known(false) }), count+"drift"+alike, "GPUs differ: ECC disabled on 0000:2b:00.0, enabled on the others"),
		judge("a GPU without ECC", uniform, second(func(s *node.GPUState) { s.ECC = lacking[bool]() }), count+"drift"+alike, "ECC none on 0000:2b:00.0"),
		judge("several differences", uniform, second(func(s *node.GPUState) { s.ComputeMode, s.Persistence = known("prohibited"), known(false) }), count+"drift"+alike,
			"GPUs differ: compute mode prohibited on 0000:2b:00.0, default on the others; persistence disabled on 0000:2b:00.0, enabled on the others"),
		judge("no ECC anywhere", uniform, newBox("2330", 2, every(func(s *node.GPUState) { s.ECC = lacking[bool]() })), count+"ok"+alike),
		judge("something is unknown", uniform, second(func(s *node.GPUState) { s.ECC = denied[bool]() }), count+"unknown"+alike, "whether all GPUs are alike is unknown: ECC of GPU 0000:2b:00.0: permission denied"),
		judge("something is unknown, and something differs", uniform, second(func(s *node.GPUState) { s.ECC, s.Persistence = denied[bool](), known(false) }), count+"drift"+alike),

		judge("usable", `check "gpus" "all" { usable = true }`, newBox("2330", 2), count),
		judge("one that is lost", `check "gpus" "all" { usable = true }`, second(func(s *node.GPUState) { s.Fault = "GPU is lost" }), count+"drift gpus.fault 0000:2b:00.0 (/sys)", "GPU 0000:2b:00.0 (H100 80GB HBM3) cannot be used: GPU is lost\nlook for Xid in the kernel log"),

		judge("products", product, newBox("2330", 2, change(1, func(s *node.GPUState) { s.Product = known("NVIDIA 2330 PCIe") })), count+"ok gpus.product 0000:1b:00.0 (/sys)\ndrift gpus.product 0000:2b:00.0 (/sys)", "GPU 0000:2b:00.0 is NVIDIA 2330 PCIe, wanted is NVIDIA 2330"),
		judge("a product that is unknown", product, newBox("2330", 1, change(0, func(s *node.GPUState) { s.Product = denied[string]() })), count+"unknown gpus.product 0000:1b:00.0 (/sys)"),

		judge("divided", divided, newBox("20b5", 2, every(func(s *node.GPUState) { s.MIG, s.MIGPending = known(true), known(true) })), mig("ok", "ok"), "MIG is enabled on GPU 0000:1b:00.0"),
		judge("divided, and wanted whole", undivided, newBox("20b5", 2, every(func(s *node.GPUState) { s.MIG, s.MIGPending = known(true), known(true) })), mig("drift", "drift"), "MIG is enabled on GPU 0000:1b:00.0 (A100 80GB PCIe), wanted is disabled\nnvidia-smi -i 0000:1b:00.0 -mig 0"),
		judge("whole, and wanted divided", divided, newBox("20b5", 2), mig("drift", "drift"), "nvidia-smi -i 0000:1b:00.0 -mig 1"),
		judge("whole until the next reset", undivided, newBox("20b5", 2, change(1, func(s *node.GPUState) { s.MIGPending = known(true) })), mig("ok", "drift"), "MIG is disabled on GPU 0000:2b:00.0 (A100 80GB PCIe), and will be enabled after the next reset"),
		judge("no MIG, and wanted whole", undivided, newBox("26b9", 2, every(func(s *node.GPUState) { s.MIG, s.MIGPending = lacking[bool](), lacking[bool]() })), mig("ok", "ok")),
		judge("no MIG, and wanted divided", divided, newBox("26b9", 2, every(func(s *node.GPUState) { s.MIG, s.MIGPending = lacking[bool](), lacking[bool]() })), mig("unsupported", "unsupported"), "MIG of GPU 0000:1b:00.0 is unsupported"),
		judge("MIG is unknown", undivided, newBox("20b5", 2, change(1, func(s *node.GPUState) { s.MIG = denied[bool]() })), mig("ok", "unknown")),

		judge("all without ECC", `check "gpus" "all" { ecc = true }`, newBox("2330", 2, every(func(s *node.GPUState) { s.ECC, s.ECCPending = known(false), known(false) })),
			count+"drift gpus.ecc 0000:1b:00.0 (/sys)\ndrift gpus.ecc 0000:2b:00.0 (/sys)\n", "ECC is disabled on GPU 0000:1b:00.0 (H100 80GB HBM3), wanted is enabled\nnvidia-smi -i 0000:1b:00.0 -e 1, then nvidia-smi -r"),
		judge("ECC until the next reset", `check "gpus" "all" { ecc = true }`, second(func(s *node.GPUState) { s.ECCPending = known(false) }),
			count+"ok gpus.ecc 0000:1b:00.0 (/sys)\ndrift gpus.ecc 0000:2b:00.0 (/sys)\nok gpus.ecc 0000:3b:00.0 (/sys)\n", "ECC is enabled on GPU 0000:2b:00.0 (H100 80GB HBM3), and will be disabled after the next reset\nnvidia-smi -i 0000:2b:00.0 -e 1\n"),
		judge("GPUs that have no ECC", `check "gpus" "all" { ecc = true }`, newBox("2684", 1, every(func(s *node.GPUState) { s.ECC, s.ECCPending = lacking[bool](), lacking[bool]() })), count+"unsupported gpus.ecc 0000:1b:00.0 (/sys)"),
		judge("GPUs that are to have no ECC", `check "gpus" "all" { ecc = false }`, newBox("2684", 1, every(func(s *node.GPUState) { s.ECC, s.ECCPending = lacking[bool](), lacking[bool]() })), count+"ok gpus.ecc 0000:1b:00.0 (/sys)"),
		judge("ECC is unknown", `check "gpus" "all" { ecc = true }`, newBox("2330", 1, every(func(s *node.GPUState) { s.ECC = denied[bool]() })), count+"unknown gpus.ecc 0000:1b:00.0 (/sys)"),
		judge("all without persistence", `check "gpus" "all" { persistence = true }`, newBox("2330", 2, every(func(s *node.GPUState) { s.Persistence = known(false) })),
			count+"drift warn gpus.persistence 0000:1b:00.0 (/sys)\ndrift warn gpus.persistence 0000:2b:00.0 (/sys)\n", "persistence is disabled on GPU 0000:1b:00.0 (H100 80GB HBM3), wanted is enabled\nrun nvidia-persistenced, whose unit must not say --no-persistence-mode"),
		judge("persistence as wanted", `check "gpus" "all" { persistence = true }`, newBox("2330", 1), count+"ok warn gpus.persistence 0000:1b:00.0 (/sys)"),
		judge("persistence is unwanted", `check "gpus" "all" { persistence = false }`, newBox("2330", 1), count+"drift warn gpus.persistence 0000:1b:00.0 (/sys)", "nvidia-smi -i 0000:1b:00.0 -pm 0"),

		judge("a GPU needs a reset", undivided, newBox("20b5", 2, change(1, func(s *node.GPUState) { s.Fault = "GPU requires reset" })), count+"drift gpus.fault 0000:2b:00.0 (/sys)\nok gpus.mig 0000:1b:00.0 (/sys)\nok gpus.mig 0000:2b:00.0 (/sys)\n", "cannot be used: GPU requires reset\nlook for Xid in the kernel log"),
	})
}
