# What busbar diagnose holds pasted text to. Each block applies only where text gave the facts that it is about, so that
# nothing is asked for that nobody said. It has no match: no node is held to it.
profile {
  description = "Text about a node: what of it is wrong (busbar diagnose)"
}

variable "lossless" { # the class in which RoCE is lossless in most fabrics; --var says another
  type    = object({ priority = number, dscp = number, cnp_priority = number, cnp_dscp = number })
  default = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
}

locals {
  given = node.given
  # Ports of NICs of which text gave something, by what.
  infiniband = [for n in node.nics : n if contains(local.given, "infiniband:${n.address}")]
  ports      = [for n in node.nics : n if contains(local.given, "ports:${n.address}")]
  sized      = [for n in node.nics : n if contains(local.given, "mtu:${n.address}")]
  addressed  = [for n in node.nics : n if contains(local.given, "gids:${n.address}")]
  classified = [for n in node.nics : n if contains(local.given, "dcb:${n.address}") || contains(local.given, "roce_settings:${n.address}")]
}

# GPUs

check "gpus" "all" {
  when = contains(local.given, "gpus")
}

check "gpus" "usable" {
  usable = true
  when   = contains(local.given, "gpu_fault")
}

# Some nodes have GPUs of several models.
check "gpus" "alike" {
  severity = "warn"
  uniform  = true
  when     = contains(local.given, "gpu") && length(node.gpus) > 1
}

# Owners of some cards turn it off.
check "gpus" "ecc" {
  severity = "info"
  ecc      = true
  when     = contains(local.given, "ecc")
}

# Divided GPUs have neither NVLink nor peers, which is meant on some nodes.
check "gpus" "mig" {
  severity = "warn"
  mig      = false
  when     = contains(local.given, "mig")
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
  when = anytrue([for fact in ["gpu_fabric", "unit:nvidia-fabricmanager.service"] : contains(local.given, fact)]) || contains(local.given, "module:ib_umad") && contains(local.given, "gpus")
}

# What belongs to the driver, and a library of the driver's that shows no GPU.
check "driver" "all" {
  when = contains(local.given, "driver_version") && anytrue([for fact in ["fabric_manager", "imex"] : contains(local.given, fact)]) || contains(local.given, "nvml") || contains(local.given, "pci_drivers") && contains(local.given, "gpus")
}

# Links of GPUs and NICs that are narrower or slower than what they can do.
check "pcie_link" "all" {
  when = contains(local.given, "pci_link")
}

# NICs and GPUs

# A GPU that sends through a NIC across the CPU. A board with fewer NICs than GPUs has some without, by design.
check "rails" "all" {
  severity = "warn"
  when     = contains(local.given, "relations") && contains(local.given, "nics") ? length(node.gpus) > 1 && (length(node.rails) == 0 || length(node.rails) >= length(node.gpus)) : false
}

check "gpudirect_rdma" "all" {
  when = alltrue([for fact in ["rdma_stack", "driver_flavour", "module:nvidia_peermem"] : contains(local.given, fact)])
}

# Traffic between peers that ports send up to the root complex. Where text does not say which port is above which device, each
# port counts.
pcie_acs "gpu_paths" {
  redirect = "off"
  when     = contains(local.given, "acs") && contains(local.given, "pci_tree") && contains(local.given, "gpus")
}

pcie_acs "ports" {
  redirect = "off"
  scope    = [for fact in local.given : trimprefix(fact, "acs:") if startswith(fact, "acs:")]
  when     = contains(local.given, "acs") && !contains(local.given, "pci_tree")
}

check "platform" "numa" {
  severity   = "info"
  numa_known = true
  when       = contains(local.given, "numa_node")
}

check "platform" "packages" {
  severity              = "info"
  numa_nodes_per_socket = [1, 2, 4, 8]
  when                  = contains(local.given, "numa_nodes")
}

# NICs

check "infiniband" "given" {
  nics = local.infiniband
  when = contains(local.given, "infiniband")
}

# A port that nobody uses has no link either. Rates are said, not compared: not all ports are rails.
check "rdma_port" "given" {
  severity = "warn"
  nics     = local.ports
  rate     = 1
  when     = contains(local.given, "ports")
}

check "mtu" "given" {
  nics = local.sized
  when = contains(local.given, "mtu")
}

check "gid" "given" {
  nics = local.addressed
  when = contains(local.given, "gids")
}

check "lossless" "given" {
  nics     = local.classified
  lossless = var.lossless
  when     = contains(local.given, "dcb") || contains(local.given, "roce_settings")
}

# The host

check "boot_args" "all" {
  when = contains(local.given, "kernel_command_line") || contains(local.given, "boot_config")
}

check "module_files" "all" {
  when = contains(local.given, "modprobe_files") || contains(local.given, "modules_load_files")
}

kernel_module "nouveau" {
  state = "unloaded"
  boot  = "unmanaged"
  when  = contains(local.given, "module:nouveau")
}

check "device_nodes" "cuda" {
  paths = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
  when  = contains(local.given, "path:/dev/nvidia-uvm")
}

check "device_nodes" "rdma" {
  paths = ["/dev/infiniband"]
  when  = contains(local.given, "path:/dev/infiniband")
}

check "kernel_log" "all" {
  when = contains(local.given, "kernel_log")
}

sysctl "kernel.numa_balancing" {
  value = 0
  apply = "running"
  when  = contains(local.given, "sysctl:kernel.numa_balancing")
}

check "memlock" "given" {
  services  = []
  processes = [for fact in local.given : trimprefix(fact, "proc_limits:") if startswith(fact, "proc_limits:")]
  when      = contains(local.given, "proc_limits")
}

limits "login" {
  memlock  = "unlimited"
  users    = ["*"]
  services = []
  when     = contains(local.given, "limits_files")
}

limits "services" {
  memlock  = "unlimited"
  users    = []
  services = [for fact in local.given : trimsuffix(trimprefix(fact, "unit_limits:"), ".service") if startswith(fact, "unit_limits:")]
  when     = anytrue([for fact in local.given : startswith(fact, "unit_limits:")])
}

check "unit_files" "given" {
  units = [for fact in local.given : trimprefix(fact, "unit_files:") if startswith(fact, "unit_files:")]
  when  = contains(local.given, "unit_files")
}

# NVIDIA's DRA driver runs an IMEX daemon in each ComputeDomain; one of the host takes its place (aicr issue 2520).
service "nvidia-imex" {
  masked = true
  active = false
  when   = contains(local.given, "compute_domains") && contains(local.given, "unit:nvidia-imex.service")
}

# NCCL

nccl {
  when = contains(local.given, "file:/etc/nccl.conf")
}

check "nccl_transport" "given" {
  for_each = toset([for fact in local.given : trimprefix(fact, "nccl_log:") if startswith(fact, "nccl_log:")])
  log      = each.key
}
