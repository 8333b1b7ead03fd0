# An HGX board whose rails are on InfiniBand. It has no match: the profiles that extend it say which
# GPUs.
profile {
  description = "HGX, eight GPUs of any kind, InfiniBand rails"
  extends     = ["hgx"]
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

# A rail that is down, or slower than it can be, slows all of them. Without a subnet manager a port
# stays in INIT and has no LID; a link that lost lanes stays up, at a part of its rate.
check "infiniband" "rails" {
  nics = local.rails
  rate = var.rail_rate
}
