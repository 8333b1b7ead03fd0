# A GPU node of its own, no virtual machine. It has no match: what it asks of a server would be
# too much for somebody's workstation. Name it, or extend it in node.hcl.
profile {
  description = "Bare-metal GPU node"
  extends     = ["baseline"]
}

# Translated DMA sends peer-to-peer traffic up to the IOMMU in the root complex: half the speed
# at best, hangs, or zeros where data should be (NCCL's troubleshooting guide, "PCI access
# control"). Passthrough keeps the IOMMU for x2APIC and VFIO. Grace is left alone: its SMMU
# must translate (GPUDirect Storage's guide).
iommu {
  mode     = "passthrough"
  optional = ["mode"] # firmware may have VT-d or AMD-Vi off, which is as good
  when     = node.arch == "x86_64"
}

# pci=noacs stands in many cookbooks; the mainline kernel answers "PCI: Unknown option" and ACS
# stays on (drivers/pci/pci.c pci_setup). Who relies on it has not what he thinks.
kernel_args {
  absent   = ["pci=noacs"]
  severity = "warn"
}

sysctl "kernel.numa_balancing" {
  severity = "error"
  apply    = "both"
}

# Jobs inherit the limits of the daemon that starts them, logins those of pam_limits: all of
# them, or one path to the node fails where the other works.
limits "rdma" {
  memlock  = "unlimited"
  users    = ["*", "root"] # * is everybody but root (limits.conf(5))
  services = ["slurmd", "containerd", "docker", "crio", "kubelet"]
}

# limits "rdma" judges the same processes, as errors.
check "memlock" "job_starters" {
  drop = true
}

# What the kernel has said since boot: Xids, errors of PCI Express, faults of the IOMMU, NICs that fail. Warnings: they
# stay in the log until the next boot, whatever was done about them (ignore_xids, waive).
check "kernel_log" "all" {
  severity = "warn"
}

# Without a client the driver unloads its state: slow first jobs, settings lost (NVIDIA's driver
# persistence documentation). Which of them are kept says check.gpus.all.
check "gpus" "all" {
  persistence = true # a warning, as the service
}

service "nvidia-persistenced" {
  enabled  = true
  active   = true
  severity = "warn"
}

# NCCL's proxy threads post and poll each transfer: a core that idles low is felt in all of them. Its
# shared-memory transport lives in /dev/shm, and huge pages that are off for good make pinned memory
# slow. Warnings: what runs on the node may want it so.
check "platform" "host" {
  severity              = "warn"
  governor              = "performance"
  transparent_hugepages = ["madvise", "always"]
  shm_min               = 1073741824
}

# A card or riser that sits badly costs half the lanes, and fails nothing. A warning: some slots
# are wired for less than their port says.
check "pcie_link" "gpus_and_nics" {
  severity = "warn"
}

check "nvlink" "all" {
  severity = "error"
}

# Where the driver refuses, NCCL copies through host memory. A warning: some chipsets and GPUs cannot,
# which is no fault.
check "p2p" "all" {
  severity = "warn"
}

# With the default of 512 bytes a NIC of 400 Gb/s waits for memory. It is lost whenever the NIC is
# reset (nic-configuration-operator of NVIDIA sets the same).
pcie_device "rails" {
  devices          = node.rails[*].address
  max_read_request = 4096
}
