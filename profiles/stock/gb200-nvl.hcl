# A compute tray of a GB200 or GB300 rack: four GPUs and two Graces, each device on a PCI segment of
# its own, so that the PCI bus does not tell which NIC is whose. The NVSwitches are in other trays,
# whose own software routes them.
profile {
  description = "Compute tray of a GB200 or GB300 NVL rack"
  extends     = ["bare-metal"]
  match       = !node.virtual && anytrue([for id in ["10de:2941", "10de:31c2"] : contains(node.pci_ids, id)])
}

# Whether the tray shares its NVLinks with others. A board of four GPUs that stands alone (NVL4) says
# variables = { rack = false } in node.hcl.
variable "rack" {
  type    = bool
  default = true
}

# Whether nvidia-imex of the host runs, as Slurm wants it. Kubernetes starts one of its own for each
# ComputeDomain, and needs that of the host masked: variables = { imex = false }.
variable "imex" {
  type    = bool
  default = true
}

# A rail for each GPU, and Gbit/s of each. A tray of other NICs says so in node.hcl: variables = { rails = 8, rail_rate = 800 }.
variable "rails" {
  type    = number
  default = 4
}

variable "rail_rate" {
  type    = number
  default = 400
}

locals {
  rails = [for n in node.nics : n if contains(["15b3:1021", "15b3:1023"], n.pci_id)]
}

# Three GPUs still run, and a rack of 72 has 71.
check "gpus" "all" {
  count   = 4
  uniform = true
  mig     = false
  ecc     = true # as they come (nvidia-smi -q of GB200 and GB300)
}

# GPUs of this generation and later have the open kernel modules alone (NVIDIA's driver README).
check "driver" "all" {
  open = true
}

# All GPUs of a tray reach each other over NVLink.
check "p2p" "all" {
  nvlink   = true
  severity = "error"
}

# Eighteen links to the rack's NVSwitches. A GPU of such a model may stand alone and have none, so that
# this has to be said.
check "nvlink" "all" {
  when = !var.rack
}

check "nvlink" "rack" {
  links = 18
  when  = var.rack
}

# One that is not enabled is gone after the next boot.
service "nvidia-imex" {
  enabled = true
  active  = true
  when    = var.rack && var.imex
}

# NVML says "completed" of GPUs that have no part in the rack too: clique 0 of no cluster. Without IMEX
# those of other trays are out of reach, and NCCL takes the network without a word.
check "fabric" "all" {
  cluster = false
  when    = !var.rack
}

check "fabric" "rack" {
  cluster = true
  imex    = var.imex
  when    = var.rack
}

# Makes the NICs' RDMA devices. rdma-core's udev rules load it at boot.
kernel_module "mlx5_ib" {
  state = "loaded"
  boot  = "unmanaged"
}

# NICs read and write GPU memory (GPUDirect RDMA). Without it NCCL copies through host memory and says so
# only in its debug log. The open driver does it with dma-buf.
gpudirect {
  path = "dmabuf"
}

# What verbs programs open. Without rdma_cm NCCL falls back to TCP without a word.
check "device_nodes" "rdma" {
  paths = ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]
}

# GPUs and rails have sixteen lanes (nvidia-smi -q of GB200 and GB300; a ConnectX-7 of 400 Gbit/s needs them). Other
# NICs need only run as fast as they can.
check "pcie_link" "gpus_and_nics" {
  devices  = concat(node.gpus[*].address, local.rails[*].address)
  width    = 16
  severity = "error"
}

check "pcie_link" "other_nics" {
  devices  = [for n in node.nics : n.address if !contains(local.rails[*].address, n.address)]
  severity = "warn"
}

# A rail for each GPU, ConnectX-7 or ConnectX-8; BlueField-3 is for storage and everything else. A port
# that is down, or slower than the others, slows all of them.
check "rdma_port" "rails" {
  nics  = local.rails
  count = var.rails
  rate  = var.rail_rate
}

# Whether GPUs move bytes rightly, and as fast as their NVLinks let expect (busbar verify --probe).
proof "p2p_bandwidth" "all" {
  min_ratio = 0.65
}
