locals {
  d = 1e999999999
}
