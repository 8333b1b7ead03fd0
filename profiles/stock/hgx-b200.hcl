# Eight B200 on an HGX board, whose NVSwitches show no PCI function: the node reaches them over
# InfiniBand, through four ports of a ConnectX-7 on the board, which is near no GPU. The profiles that extend it
# judge rails too.
profile {
  description = "HGX B200, eight GPUs, no rails"
  extends     = ["hgx"]
  match       = contains(node.pci_ids, "10de:2901") && node.nvswitch && !node.virtual
}

# GPUs of this generation and later have the open kernel modules alone (NVIDIA's driver README).
check "driver" "all" {
  open = true
}

# The ConnectX-7 that leads to the NVSwitches, on InfiniBand, is wired for less than it could, and is
# no NIC.
check "pcie_link" "other_nics" {
  devices = [for n in node.nics : n.address if n.link_layer == "Ethernet" && !contains(local.rails[*].address, n.address)]
}

# What the subnet manager of the NVSwitches talks through. Without it the fabric manager finds
# nothing to do, and ends (NVIDIA's fabric manager guide, NVLink 5). rdma-core's udev rules load it at
# boot where there is an InfiniBand device, as that ConnectX-7 is.
kernel_module "ib_umad" {
  state = "loaded"
  boot  = "unmanaged"
}
