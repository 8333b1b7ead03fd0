# Eight A100 or A800 SXM4, of 40 or 80 GB, on an HGX board with six NVSwitches. A four-GPU board has the same GPU
# ids and no NVSwitch. The profiles that extend it judge rails too.
profile {
  description = "HGX A100 or A800, eight GPUs, no rails"
  extends     = ["hgx"]
  variables   = { pcie_speed = 16 }
  match       = anytrue([for id in ["10de:20b0", "10de:20b2", "10de:20bd", "10de:20f3"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
}
