# Eight H20, of 96 or 141 GB, on an HGX board with four NVSwitches, whose rails (ConnectX-7 or BlueField-3) are
# on Ethernet. All NVLinks of an H200 are there (sglang issues 4572 and 6823: NV18). Nodes come with four rails
# and with eight, of 200 and of 400 Gbit/s (DeepEP issues 137 and 150), so that node.hcl says what there is:
# selector "rails" { expect = 8 }.
profile {
  description = "HGX H20, eight GPUs, RoCE rails"
  extends     = ["hgx-roce"]
  match = (anytrue([for id in ["10de:2329", "10de:232c"] : contains(node.pci_ids, id)]) && node.nvswitch && !node.virtual
    && anytrue([for n in node.nics : n.link_layer == "Ethernet" if n.near_gpu && contains(["15b3:1021", "15b3:a2dc"], n.pci_id)])
  && !anytrue([for n in node.nics : n.link_layer == "InfiniBand" if n.near_gpu && contains(["15b3:1021", "15b3:a2dc"], n.pci_id)]))
}

selector "rails" {
  expect = null
}

check "rdma_port" "rails" {
  rate = null # all the same
}
