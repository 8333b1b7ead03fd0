nccl { version = node.arhc }
