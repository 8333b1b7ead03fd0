kernel_module "a" {
  state     = "laoded"
  options   = { n = 1, s = "x", b = true }
  take_over = "true"
}

kernel_module "b" {
  state   = 1
  options = ["x"]
}

roce "r" {
  nics     = [{ address = "0000:18:00.0", port = "1" }, { address = "x", port = 1, prot = 2 }]
  mtu      = 100000
  ratio    = 0.5
  lossless = { priority = 1.5, dscp = 64, est = 4 }
  severity = "warning"
  optional = "ecn"
  when     = "yes"
}

roce "s" {
  nics     = null
  mtu      = node.virtual ? null : 9000
  lossless = { priority = 3 }
}

service "x" {
  after    = ["a", "b", "a"]
  active   = 1
  severity = node.virtual ? "warn" : "error"

  waive {
    reason = " "
    until  = "2026-13-01"
  }
}

service "y" {
  for_each = ["a", "b"]
}

service "z" {
  for_each = 3
}

nccl {
  settings = {
    GOOD = 1
    BAD  = true
    GONE = null
    GOOD = 2
  }
}

check "gpus" "all" {
  count = 8.5
  mig   = "no"
}
