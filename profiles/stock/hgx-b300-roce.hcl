# Eight B300 on an HGX board, whose rails, ConnectX-8 of the board, are on Ethernet. Their ports may be divided, so
# that node.hcl says how many there are: selector "rails" { expect = 16 }.
profile {
  description = "HGX B300, eight GPUs, RoCE rails"
  extends     = ["hgx-b300", "hgx-roce"]
  match = (contains(node.pci_ids, "10de:3182") && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if n.near_gpu && n.pci_id == "15b3:1023"])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && n.pci_id == "15b3:1023"]))
}

locals {
  rail_ids = ["15b3:1023"]
}

selector "rails" {
  expect = null
}

check "rdma_port" "rails" {
  rate = null # all the same
}
