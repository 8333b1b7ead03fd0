nccl {
  settings = {
