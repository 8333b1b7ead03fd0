# Data-centre GPUs on PCIe cards, with bridges between pairs or without: A2, A10, A16, A30, A40, A100,
# H100, H100 NVL, H200 NVL, L2, L4, L20, L40, L40S, RTX PRO 6000 Server. Where there is no bridge they
# talk over PCIe, so that the ports between them matter.
profile {
  description = "GPUs on PCIe cards, without NVSwitch"
  extends     = ["bare-metal"]
  match = !node.nvswitch && !node.virtual && anytrue([
    for id in [
      "10de:25b6", "10de:2236", "10de:20b7", "10de:2235", "10de:20b1", "10de:20f1", "10de:20b5", "10de:2331", "10de:2321", "10de:233b",
      "10de:27b6", "10de:27b8", "10de:26ba", "10de:26b5", "10de:26b9", "10de:2bb5"
    ] : contains(node.pci_ids, id)
  ])
}

# One card without a NIC near it has no peer whose traffic translation would slow.
iommu {
  when = node.arch == "x86_64" && (length(node.gpus) > 1 || length(node.rails) > 0)
}

# The memory of such cards has error correction, which some owners turn off: it takes a part of GDDR.
check "gpus" "ecc" {
  severity = "warn"
  ecc      = true
}

# Without RDMA nobody locks memory but CUDA, whose driver does not count it.
limits "rdma" {
  when = anytrue([for id in node.pci_ids : startswith(id, "15b3:")])
}

# With an IOMMU the kernel has every port redirect traffic between peers, in passthrough too: cards
# below one switch then talk through the processor, slowly or not at all (NCCL's troubleshooting
# guide, "PCI access control"). Where guests get GPUs: drop = true.
pcie_acs "gpu_paths" {
  redirect = "off"
  when     = node.arch == "x86_64" # Arm's SMMU translates, and its ports may have to redirect
}

# Where a NIC is near a GPU it can read and write its memory (GPUDirect RDMA). Without it NCCL copies
# through host memory and says so only in its debug log.
check "gpudirect_rdma" "all" {
  severity = "warn"
  when     = length(node.rails) > 0
}

# Whether GPUs move bytes to each other rightly (busbar verify --probe): with translation or ACS in the
# way zeros arrive, and no program fails. How fast a path over PCIe is differs from board to board.
proof "p2p_bandwidth" "all" {
  optional = ["peer_access"]
}
