# What busbar diagnose holds pasted text to. Each block applies only where text gave the facts that it is about, so that
# nothing is asked for that nobody said.
profile {
  description = "Text about a node: what of it is wrong (busbar diagnose)"
}

variable "lossless" { # the class in which RoCE is usually lossless; --var says another
  type    = object({ priority = number, dscp = number, cnp_priority = number, cnp_dscp = number })
  default = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
}

locals {
  given = node.given
}

check "gpus" "all" {
  when = contains(local.given, "gpus")
}

# Divided GPUs have neither NVLink nor peers, which is meant on some nodes.
check "gpus" "mig" {
  severity = "warn"
  mig      = false
  when     = contains(local.given, "gpu")
}

check "nvlink" "all" {
  when = contains(local.given, "nvlink")
}

# Some chipsets and GPUs have no peer access, which is no fault.
check "p2p" "all" {
  severity = "warn"
  when     = contains(local.given, "p2p")
}

check "fabric" "all" {
  when = contains(local.given, "gpu_fabric")
}

# A GPU that sends through a NIC across the CPU. A board with fewer NICs than GPUs has some without, by design.
check "rails" "all" {
  severity = "warn"
  when     = contains(local.given, "gpus") && contains(local.given, "nics") ? length(node.gpus) > 1 && (length(node.rails) == 0 || length(node.rails) >= length(node.gpus)) : false
}
