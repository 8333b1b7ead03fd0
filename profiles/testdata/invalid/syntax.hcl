nccl {
  settings = {
    A = 1 +
  }
}

kernel_module "x" {
  state = = 1
}
