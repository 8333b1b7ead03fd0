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

# Gbit/s of each rail, as DGX H100 and most boards have them: eight that are equally slow pass a look at each other. Rails of
# 200 say so in node.hcl: variables = { rail_rate = 200 }.
variable "rail_rate" {
  type    = number
  default = 400
}

# GPUs and rails are made for sixteen lanes of PCIe 5, and so are their slots. Other NICs need only run as fast as they can.
check "pcie_link" "gpus_and_nics" {
  devices = concat(node.gpus[*].address, local.rails[*].address)
  speed   = 32
  width   = 16
}

check "pcie_link" "other_nics" {
  devices  = [for n in node.nics : n.address if !contains(local.rails[*].address, n.address)]
  severity = "warn"
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
  rate = var.rail_rate
}
