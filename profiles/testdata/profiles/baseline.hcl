profile {
  description = "What holds for every node"
}
