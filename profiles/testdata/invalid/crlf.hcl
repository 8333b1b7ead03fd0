nccl {
  version = node.arhc
}
