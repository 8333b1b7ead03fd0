profile {
  extends = ["bare"]
}

nccl {
  settings = { NCCL_DEBUG = "INFO" }
}

sysctl "kernel.numa_balancing" {
  value = 0
}
