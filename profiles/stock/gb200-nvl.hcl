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

# Three GPUs still run, and a rack of 72 has 71.
check "gpus" "all" {
  count   = 4
  uniform = true
  mig     = false
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
  links = var.rack ? 18 : null
}

# NVML says "completed" of GPUs that have no part in the rack too: clique 0 of no cluster. Without IMEX
# those of other trays are out of reach, and NCCL takes the network without a word.
check "fabric" "all" {
  cluster = var.rack
  imex    = var.rack ? var.imex : null
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

# A rail for each GPU, ConnectX-7 or ConnectX-8; BlueField-3 is for storage and everything else. A port
# that is down, or slower than the others, slows all of them.
check "rdma_port" "rails" {
  nics = [for n in node.nics : n if contains(["15b3:1021", "15b3:1023"], n.pci_id)]
}

# Whether GPUs move bytes rightly, and as fast as their NVLinks let expect (busbar verify --probe).
proof "p2p_bandwidth" "all" {
  min_ratio = 0.65
}
