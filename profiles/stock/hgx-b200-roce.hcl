# Eight B200 on an HGX board, whose rails (ConnectX-7, ConnectX-8 or BlueField-3) are on Ethernet.
# Those that manage the NVSwitches are on InfiniBand all the same, and near no GPU.
profile {
  description = "HGX B200, eight GPUs, RoCE rails"
  extends     = ["hgx-b200", "hgx-roce"]
  match = (contains(node.pci_ids, "10de:2901") && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if n.near_gpu && contains(["15b3:1021", "15b3:1023", "15b3:a2dc"], n.pci_id)])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && contains(["15b3:1021", "15b3:1023", "15b3:a2dc"], n.pci_id)]))
}

locals {
  rail_ids = ["15b3:1021", "15b3:1023", "15b3:a2dc"]
}
