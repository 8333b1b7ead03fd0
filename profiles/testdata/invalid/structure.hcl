version = 1

profile {
  descripton = "x"
  extends    = "bare"
}

profile {}

kernel_modul "x" {}

topology "all" {
  min_ratio = 0.65
}

check "p2p_bandwidth" "all" {}

proof "gpus" "all" {}

proof "p2p_bandwidth" "all" {
  min_ratio  = "much"
  depends_on = [proof.p2p_bandwidth.other, proof.p2p.all]
}

p2p_bandwidth "all" {}

proof {}

gpus "all" {
  count = 8
}

check "gpu" "all" {}

check "nccl" "all" {}

check "gpus" {}

nccl "x" {}

kernel_module {}

kernel_module "a" {
  stat = "loaded"
  drop = var.x

  settings {
  }
}

kernel_module "a" {
  state = "loaded"
}

sysctl "vm.x" {}

sysctl "vm.y" {
  value = null
}

locals {
  x = 1
}

locals {
  x = 2
}

nccl {
  settings {
    A = 1
  }
  waive = null
}

service "s" {
  waive {
    until = "tomorrow"
  }
}

selector "rails" {
  expect = 2
}

variable "v-1" {
  typ = string
}

variable "a.b" {}
