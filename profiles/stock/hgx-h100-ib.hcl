# Eight H100 or H800 SXM5 on an HGX board with four NVSwitches, whose rails (ConnectX-7 or BlueField-3) are
# on InfiniBand. A four-GPU board has the same GPU id and no NVSwitch.
# Other ports of such NICs may be on Ethernet, for storage.
profile {
  description = "HGX H100 or H800, eight GPUs, InfiniBand rails"
  extends     = ["hgx-ib"]
  match = (anytrue([for id in ["10de:2330", "10de:2324"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
  && anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && contains(["15b3:1021", "15b3:a2dc"], n.pci_id)]))
}
