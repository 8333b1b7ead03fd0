# Eight A100 or A800 SXM4, of 40 or 80 GB, on an HGX board with six NVSwitches, whose rails (ConnectX-5 Ex
# to ConnectX-7) are on Ethernet. A four-GPU board has the same GPU ids and no NVSwitch.
profile {
  description = "HGX A100 or A800, eight GPUs, RoCE rails"
  extends     = ["hgx-a100", "hgx-roce"]
  variables   = { rail_rate = 200 }
  match = (anytrue([for id in ["10de:20b0", "10de:20b2", "10de:20bd", "10de:20f3"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if n.near_gpu && contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)]))
}

locals {
  rail_ids = ["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"]
}
