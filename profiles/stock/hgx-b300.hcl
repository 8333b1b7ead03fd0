# Eight B300 on an HGX board, whose NVSwitches are reached as those of a B200. Its rails are ConnectX-8 of
# the board itself, each the PCIe switch above its GPU too (DGX B300 user guide; rdma_topo of rdma-core has it as "inline").
# The profiles that extend it judge rails too.
profile {
  description = "HGX B300, eight GPUs, no rails"
  extends     = ["hgx-b200"]
  match       = contains(node.pci_ids, "10de:3182") && node.nvswitch && !node.virtual
}

# They have PCIe 6 between each other, and what is above them may have less.
check "pcie_link" "gpus_and_nics" {
  speed = null
}
