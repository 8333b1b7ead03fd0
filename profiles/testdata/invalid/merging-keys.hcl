nccl {
  settings = {
    GOOD = 1
    BAD  = true
    GONE = null
    TYPO = node.arhc
  }
}
