//go:build e2e

package e2e

import (
	"testing"

	"busbar/e2e/lab"
)

func TestAMD(t *testing.T) {
	g := scenarioOn(t, lab.AMD, "an IOMMU of AMD's is put into passthrough mode by a reboot")
	g.is("ivhd0", "ls /sys/class/iommu")
	g.is("IVRS", "cd /sys/firmware/acpi/tables && ls | grep -E 'DMAR|IVRS'")
	g.iommuIs("DMA", "DMA-FQ")
	g.profile(passthrough)
	g.busbar(2, "verify").has("drift", "iommu.translated")
	g.busbar(3, "apply", "--yes").has("pending-reboot", "boot_args.next_boot")
	g.iommuIs("DMA", "DMA-FQ")

	g.reboot()
	g.busbar(0, "verify")
	g.iommuIs("identity")
}
