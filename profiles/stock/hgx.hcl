# Eight GPUs (H100, H800, H20, H200) on an HGX board with NVSwitches: a node whose jobs stay on it. Where a NIC that
# makes a rail is beside a GPU, one of the profiles that extend it fits, which judge rails too.
profile {
  description = "HGX, eight GPUs, no rails"
  extends     = ["bare-metal"]
  match = node.nvswitch && !node.virtual && anytrue([
    for id in ["10de:2324", "10de:2329", "10de:232c", "10de:2330", "10de:2335"] : contains(node.pci_ids, id)
  ])
}

# GT/s of the slots of GPUs and rails: 32 is PCIe 5.
variable "pcie_speed" {
  type    = number
  default = 32
}

# NICs beside GPUs that their traffic goes through. Others sit there too, for storage.
locals {
  rails = []
}

# Seven GPUs still run: jobs that ask for eight wait, others lose a rail. One that differs, or is
# divided, has no part in what the others do. All models of such boards come with ECC on (nvidia-smi -q of A100, H100, B200).
check "gpus" "all" {
  count   = 8
  uniform = true
  mig     = false
  ecc     = true
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

# Whether GPUs move bytes rightly, and as fast as their NVLinks let expect (busbar verify --probe).
proof "p2p_bandwidth" "all" {
  min_ratio = 0.65
}
