variable "names" {
  type = map(string)
}

locals {
  prefix = "^"
  hca    = { hca = "${local.prefix}${join(",", selector.rails[*].address)}" }
}

selector "rails" {
  nics   = node.nics
  expect = length(local.some)
}

locals { some = ["a", "b"] }

kernel_module "rails" {
  options = merge(local.hca, var.names)
}
