profile {
  description = "Parent of test profiles"
}

variable "priority" {
  type    = number
  default = 3

  validation {
    condition     = var.priority >= 0 && var.priority <= 7
    error_message = "A priority is 0 to 7."
  }
}

kernel_module "nouveau" {
  state = "unloaded"
}

nccl {
  settings = {
    NCCL_DEBUG  = "WARN"
    NCCL_IB_TC  = var.priority * 32
    NCCL_NVLS_X = 1
  }
  version = "2.26.2"
}

service "nvidia-persistenced" {
  active = true
  after  = ["a.service", "b.service"]
}
