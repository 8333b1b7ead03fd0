nccl {
	settings = { A = "[31m", "é日本" = node.arhc }
}
