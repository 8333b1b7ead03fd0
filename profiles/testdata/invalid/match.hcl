profile {
  match = length(node.gpus) == 8 && node.kernel == "6" && var.x && node.dmi.bios == "1" && node.nics[0].protected && length(node.pci_ids) > 2
}
