profile {
  extends = ["loop-a"]
}
