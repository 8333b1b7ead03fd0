selector "upper" {
  nics    = node.rails
  include = ["0000:4E:00.0"]
}

selector "short" {
  nics    = node.rails
  exclude = ["4e:00.0", "mlx5_0"]
}

selector "types" {
  nics    = node.gpu_paths
  include = "15b3:1021"
  exclude = [1, null]
  expect  = "8"
}

selector "nothing" {
  nics    = node.rails
  include = true ? null : ["15b3:1021"]
}

selector "misspelt" {
  nics   = node.rail
  exlude = []
}

nccl {
  settings = {
    A = join(",", node.rails[*].rdmaa)
    B = node.rails[0].gpus
    C = node.gpu_path
  }
}
selector "nobody" {
  nics   = node.rails
  expect = 0
}
