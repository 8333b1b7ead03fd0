profile {
  extends = ["bear", "loop-a", "../bare", "broken"]
}

nccl {
  setings = {}
}
