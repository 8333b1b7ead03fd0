profile {
  extends   = ["bare"]
  variables = { priority = 5 }
}

service "nvidia-persistenced" {
  after = ["c.service"]
}

kernel_module "nouveau" {
  drop = true
}
