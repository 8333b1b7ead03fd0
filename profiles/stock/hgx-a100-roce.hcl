# Eight A100 SXM4, of 40 or 80 GB, on an HGX board with six NVSwitches, whose rails (ConnectX-5 Ex
# to ConnectX-7) are on Ethernet. A four-GPU board has the same GPU ids and no NVSwitch.
profile {
  description = "HGX A100, eight GPUs, RoCE rails"
  extends     = ["hgx"]
  match = (anytrue([for id in ["10de:20b0", "10de:20b2"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)]))
}

# NICs of other makers sit below the GPUs' switches too, for storage.
locals {
  rails = [for n in node.rails : n if contains(["15b3:1019", "15b3:101b", "15b3:101d", "15b3:1021"], n.pci_id)]
}

# Which NICs are rails is judged apart from how they are: when one is lost, the others are set and
# judged all the same.
selector "rails" {
  nics   = local.rails
  expect = var.rails
}

# One that is not near its GPU, of another model or in a worse slot, or that NCCL_IB_HCA leaves out.
check "rails" "all" {
  nics = local.rails
}

# A rail that is down, or slower than the others, slows all of them.
check "rdma_port" "rails" {
  nics       = local.rails
  link_layer = "Ethernet"
}

# NCCL looks for a RoCE v2 GID with the rail's address. A link-local one is not routed, and a pinned
# index is another GID on the next port, or after the next flap.
check "gid" "rails" {
  nics = local.rails
}

# 1500 on a network device makes 1024 of RoCE's 4096, and rails that differ fail (NCCL takes the
# MTU of its own side since 2.20).
check "mtu" "rails" {
  nics = local.rails
}
