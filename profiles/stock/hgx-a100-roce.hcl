# Eight A100 SXM4, of 40 or 80 GB, on an HGX board with six NVSwitches, whose rails (ConnectX-5 Ex
# to ConnectX-7) are on Ethernet. A four-GPU board has the same GPU ids and no NVSwitch.
profile {
  description = "HGX A100, eight GPUs, RoCE rails"
  extends     = ["hgx"]
  match = (anytrue([for id in ["10de:20b0", "10de:20b2"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)]))
}

# A rail that is down, or slower than the others, slows all of them.
check "rdma_port" "rails" {
  link_layer = "Ethernet"
}

# NCCL looks for a RoCE v2 GID with the rail's address. A link-local one is not routed, and a pinned
# index is another GID on the next port, or after the next flap.
check "gid" "rails" {}

# 1500 on a network device makes 1024 of RoCE's 4096, and rails that differ fail (NCCL takes the
# MTU of its own side since 2.20).
check "mtu" "rails" {}
