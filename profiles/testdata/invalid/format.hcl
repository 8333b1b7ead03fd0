locals {
  a = format("%1000000000d", 1)
  b = replace(join("", [for i in range(1000) : "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"]), "a", "b")
}
