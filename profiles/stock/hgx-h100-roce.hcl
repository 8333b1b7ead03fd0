# Eight H100 or H800 SXM5 on an HGX board with four NVSwitches, whose rails (ConnectX-7 or BlueField-3) are
# on Ethernet. A four-GPU board has the same GPU id and no NVSwitch.
profile {
  description = "HGX H100 or H800, eight GPUs, RoCE rails"
  extends     = ["hgx-roce"]
  match = (anytrue([for id in ["10de:2330", "10de:2324"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if n.near_gpu && contains(["15b3:1021", "15b3:a2dc"], n.pci_id)])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && contains(["15b3:1021", "15b3:a2dc"], n.pci_id)]))
}
