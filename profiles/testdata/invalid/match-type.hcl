profile {
  match = node.arch
}
