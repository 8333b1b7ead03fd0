# A virtual machine with GPUs passed through. Boot arguments, IOMMU and ACS are the host's part:
# a guest sees no bridges, and clearing ACS in it would open it to its neighbours.
profile {
  description = "Virtual machine with NVIDIA GPUs"
  extends     = ["baseline"]
  match       = node.virtual && anytrue([for id in node.pci_ids : startswith(id, "10de:")])
}

# The guest has NVSwitches only where the whole board was passed through; it must then route
# them itself. Elsewhere the host or a service machine does (NVIDIA's fabric manager guide,
# virtualization models).
service "nvidia-fabricmanager" {
  enabled = true
  active  = true
  when    = node.nvswitch
}

check "p2p" "all" {
  severity = "warn"
}

# GPUs of two kinds in one machine, or one that is divided, are seldom meant.
check "gpus" "all" {
  uniform = true
}

# A guest's PCI tree says nothing of how near GPUs and NICs are: NCCL takes all for alike, and GPUDirect RDMA for impossible.
# Clouds come with a file for each kind of machine.
check "platform" "topology" {
  severity      = "warn"
  topology_file = true
}

# Whether GPUs move bytes to each other rightly (busbar verify --probe), be it through host memory.
proof "p2p_bandwidth" "all" {
  optional = ["peer_access"]
}
