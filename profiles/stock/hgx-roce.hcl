# An HGX board whose rails are on Ethernet. It has no match: the profiles that extend it say which
# GPUs, and which NICs are rails.
profile {
  description = "HGX, eight GPUs of any kind, RoCE rails"
  extends     = ["hgx-rails"]
}

# The fabric's lossless class, as its switches have it: priority and DSCP of RoCE, and those of
# congestion notification. These are the vendor's example; set your own in node.hcl:
# variables = { lossless = { dscp = 24 } }.
variable "lossless" {
  type = object({
    priority     = optional(number, 3)
    dscp         = optional(number, 26)
    cnp_priority = optional(number, 6)
    cnp_dscp     = optional(number, 48)
  })
  default = {}
  validation {
    condition     = alltrue([for n in [var.lossless.dscp, var.lossless.cnp_dscp] : n >= 0 && n < 64])
    error_message = "A DSCP is a number from 0 to 63."
  }
}

# Other NICs sit below the GPUs' switches too, for storage: ConnectX-6 Dx on an XE9680.
locals {
  rail_ids = ["15b3:1021", "15b3:a2dc"]
  rails    = [for n in node.rails : n if contains(local.rail_ids, n.pci_id)]
}

# A fabric that drops one packet of RoCE has everything behind it sent again. Rails whose GPU is
# off the bus are none (check.gpus.all), and those of an MTU that the switches do not have are
# worse than small ones: set yours in node.hcl.
roce "rails" {
  nics     = local.rails
  lossless = var.lossless
  mtu      = 9000
  optional = ["ecn", "cnp", "traffic_class"] # the kernel's own mlx5 driver has none of them
}

# Which devices are rails differs from node to node and stands in node.hcl (NCCL_IB_HCA).
nccl {
  settings = {
    # Traffic class of RoCE: DSCP times 4. NCCL's default 0 goes into the lossy queue, where one
    # dropped packet costs a retransmission of everything behind it.
    NCCL_IB_TC = var.lossless.dscp * 4
  }
}

# A rail that is down, or slower than it can be, slows all of them.
check "rdma_port" "rails" {
  nics       = local.rails
  link_layer = "Ethernet"
  rate       = var.rail_rate
}

# NCCL looks for a RoCE v2 GID with the rail's address. A link-local one is not routed, and a pinned
# index is another GID on the next port, or after the next flap.
check "gid" "rails" {
  nics = local.rails
}
