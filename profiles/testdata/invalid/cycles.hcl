locals {
  a = local.b + 1
  b = length(selector.c)
  d = local.d
}

selector "c" {
  nics = [for n in node.nics : n if n.port == local.a]
}

service "a" {
  depends_on = [service.b]
}

service "b" {
  depends_on = [service.c, service.missing, kernel_modul.x, "service.a", service.a["k"]]
}

service "c" {
  depends_on = [service.a]
}

nccl {
  settings = {
    X = local.d
  }
}
