# Data-centre GPUs on PCIe cards, with bridges between pairs or without: A10, A30, A40, A100, H100,
# H100 NVL, L4, L40, L40S. They talk over PCIe, so that the ports between them matter.
profile {
  description = "GPUs on PCIe cards, without NVSwitch"
  extends     = ["bare-metal"]
  match = !node.nvswitch && !node.virtual && anytrue([
    for id in [
      "10de:2236", "10de:20b7", "10de:2235", "10de:20b1", "10de:20f1", "10de:20b5", "10de:2331", "10de:2321", "10de:27b8", "10de:26b5", "10de:26b9"
    ] : contains(node.pci_ids, id)
  ])
}

# With an IOMMU the kernel has every port redirect traffic between peers, in passthrough too: cards
# below one switch then talk through the processor, slowly or not at all (NCCL's troubleshooting
# guide, "PCI access control"). Where guests get GPUs: drop = true.
pcie_acs "gpu_paths" {
  redirect = "off"
  when     = node.arch == "x86_64" # Arm's SMMU translates, and its ports may have to redirect
}
