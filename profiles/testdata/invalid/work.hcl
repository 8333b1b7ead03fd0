locals {
  a = range(1000000000)
  b = [for x in range(1000) : [for y in range(1000) : [for z in range(1000) : "${x}${y}${z}"]]]
}
