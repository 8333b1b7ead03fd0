# An HGX board whose rails are on InfiniBand. It has no match: the profiles that extend it say which
# GPUs.
profile {
  description = "HGX, eight GPUs of any kind, InfiniBand rails"
  extends     = ["hgx-rails"]
}

locals {
  rails = [for n in node.rails : n if n.link_layer == "InfiniBand"]
}

# A rail that is down, or slower than it can be, slows all of them. Without a subnet manager a port
# stays in INIT and has no LID; a link that lost lanes stays up, at a part of its rate.
check "infiniband" "rails" {
  nics = local.rails
  rate = var.rail_rate
}
