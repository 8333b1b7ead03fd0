profile {
  extends = ["./bare.hcl", "bare.hcl"]
}
