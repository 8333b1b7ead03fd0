variable "lossless" {
  type    = object({ dscp = number })
  default = { dscp = 26 }
}

locals {
  one  = node.nics[*].rdmaa
  two  = [for n in node.nics : n.rdm if n.link_layr == "InfiniBand"]
  five = [for n in node.nics : upper(n)]
  seven = [for n in node.nics : n if n.rdma != null && null == n.pci_id]
  eight = selector.rails[0].netdev == null
  six  = { for n in [for m in node.nics : m if !m.protected] : n.address => n.netdv }
}

selector "rails" {
  nics   = node.gpus
  expect = 8
}

nccl {
  settings = {
    A = node.vendor
    B = node.virtual && node.dmi.product_nam == "x"
    C = node.virtual ? node.kernl : var.lossles.dscp
    D = var.lossless.dcsp * 4
    E = "${local.ones}-${selector.rail[0].rdma}"
    F = jion(",", selector.rails[*].rdm)
    G = node.nics.rdma
    H = each.key
    I = nod.arch
    J = node
    K = node.arch.x
    L = file("/etc/passwd")
    M = timestamp()
  }
}
