# An HGX board with a rail beside each GPU. It has no match: GPUs and rails tell the profiles that extend it apart.
profile {
  description = "HGX, eight GPUs and rails of any kind"
  extends     = ["hgx"]
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

# The profiles that extend it leave out NICs for storage, which sit beside GPUs too.
locals {
  rails = node.rails
}

# Which NICs are rails is judged apart from how they are: when one is lost, the others are set and
# judged all the same.
selector "rails" {
  nics   = local.rails
  expect = var.rails
}

# One that is not near its GPU, of another model or in a worse slot, or that NCCL_IB_HCA leaves out. From farther
# away than the GPU's PCIe switch NCCL copies through host memory.
check "rails" "all" {
  nics = local.rails
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
