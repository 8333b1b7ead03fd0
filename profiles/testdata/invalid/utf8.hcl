nccl {
  version = "ÿ"
}
