# Eight GPUs on an HGX board with NVSwitches, each with a rail beside it. It has no match: GPUs and
# rails tell the profiles that extend it apart.
profile {
  description = "HGX, eight GPUs and rails of any kind"
  extends     = ["bare-metal"]
}

# How many rails the board has. A node with more or fewer says so in node.hcl:
# variables = { rails = 4 }.
variable "rails" {
  type    = number
  default = 8
}

# Gbit/s of each rail, as DGX H100 and most boards have them: eight that are equally slow pass a look
# at each other. Rails of 200 say so in node.hcl: variables = { rail_rate = 200 }.
variable "rail_rate" {
  type    = number
  default = 400
}

# GT/s of the slots of GPUs and rails: 32 is PCIe 5.
variable "pcie_speed" {
  type    = number
  default = 32
}

# The profiles that extend it leave out NICs for storage, which sit beside GPUs too.
locals {
  rails = node.rails
}

# Seven GPUs still run: jobs that ask for eight wait, others lose a rail. One that differs, or is
# divided, has no part in what the others do.
check "gpus" "all" {
  count   = 8
  uniform = true
  mig     = false
}

# All GPUs of such a board reach each other over NVLink.
check "p2p" "all" {
  nvlink   = true
  severity = "error"
}

# These boards have no slot that is wired for less than it says, and GPUs and rails have sixteen
# lanes. Other NICs need only run as fast as they can.
check "pcie_link" "gpus_and_nics" {
  devices  = concat(node.gpus[*].address, local.rails[*].address)
  speed    = var.pcie_speed
  width    = 16
  severity = "error"
}

check "pcie_link" "other_nics" {
  devices  = [for n in node.nics : n.address if !contains(local.rails[*].address, n.address)]
  severity = "warn"
}

# With an IOMMU the kernel has every port redirect traffic between peers, in passthrough too: NIC and
# GPU below one switch then talk through the processor, slowly or not at all (NCCL's
# troubleshooting guide, "PCI access control").
pcie_acs "gpu_paths" {
  redirect = "off"
}

# Routes the NVSwitches. Without it CUDA answers 802, "system not yet initialized", in every
# new process (NVIDIA's fabric manager guide).
service "nvidia-fabricmanager" {
  enabled = true
  active  = true
  when    = node.nvswitch
}

# Makes the NICs' RDMA devices. rdma-core's udev rules load it at boot.
kernel_module "mlx5_ib" {
  state = "loaded"
  boot  = "unmanaged"
}

# NICs read and write GPU memory (GPUDirect RDMA). Without it NCCL copies through host memory and says so
# only in its debug log. The open driver with dma-buf needs nothing else; with the other one
# nvidia_peermem is often lost, by a driver upgrade or a restart of the RDMA stack, and seldom missing.
gpudirect {
  path = "any"
}

# What verbs programs open. Without rdma_cm NCCL falls back to TCP without a word.
check "device_nodes" "rdma" {
  paths = ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]
}

# A rail for each GPU below its PCIe switch: from farther away NCCL copies through host memory.
check "rails" "all" {}

# Whether GPUs move bytes rightly, and as fast as their NVLinks let expect (busbar verify --probe).
proof "p2p_bandwidth" "all" {
  min_ratio = 0.65
}
