check "nope" "all" {}

nope {}

kernel_module "a" {
  severity   = 17
  state      = true # one of few
  depends_on = [nope.x]
}

nccl {
  severity = "erorr"
  settings = {
    "A B\t" = "c\nd"
    B       = true
  }
  waive {
    reason = "x"
    until  = "next\nweek"
  }
}
