# Eight H100 SXM5 on an HGX board with four NVSwitches, and an InfiniBand port on a ConnectX-7 or
# BlueField-3. Other ports of such NICs may be on Ethernet, for storage.
profile {
  description = "HGX H100, eight GPUs, InfiniBand rails"
  extends     = ["hgx"]
  match = (contains(node.pci_ids, "10de:2330") && node.nvswitch && !node.virtual
  && anytrue([for n in node.nics : n.link_layer == "InfiniBand" if contains(["15b3:1021", "15b3:a2dc"], n.pci_id)]))
}

locals {
  rails = [for n in node.rails : n if n.link_layer == "InfiniBand"]
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

# A rail that is down, or slower than it can be, slows all of them. Without a subnet manager a port stays in INIT and has no LID; a link that lost lanes stays up, at
# a part of its rate.
check "infiniband" "rails" {
  nics = local.rails
}
