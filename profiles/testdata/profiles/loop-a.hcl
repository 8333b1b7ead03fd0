profile {
  extends = ["loop-b"]
}
