# Eight B300 on an HGX board, whose rails, ConnectX-8 of the board, are on InfiniBand.
profile {
  description = "HGX B300, eight GPUs, InfiniBand rails"
  extends     = ["hgx-b300", "hgx-ib"]
  variables   = { rail_rate = 800 }
  match = (contains(node.pci_ids, "10de:3182") && node.nvswitch && !node.virtual
  && anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && n.pci_id == "15b3:1023"]))
}
