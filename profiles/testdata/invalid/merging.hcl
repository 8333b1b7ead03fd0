profile {
  extends = ["bare"]
}

kernel_module "noveau" {
  drop = true
}

kernel_module "nouveau" {
  drop  = true
  state = "loaded"
}

nccl {
  settings = {
    NCCL_DEBUGG = null
    NCCL_IB_TC  = null
  }
  version = null
}

service "nvidia-persistenced" {
  activ = null
  when  = null
}
