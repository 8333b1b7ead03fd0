# What is true of every node with NVIDIA GPUs, bare metal or not. It is the profile of
# nodes that no other one matches, so that what a healthy node may lack is a warning here.
profile {
  description = "Any node with NVIDIA GPUs"
}

check "gpus" "all" {} # a GPU that is off the PCI bus fails no command, there is just one less

# A driver that was upgraded and not loaded anew, or that nouveau kept out, or a fabric manager of another
# version: each ends CUDA, and says so only to who starts a job.
check "driver" "all" {}

# Links that are down take nothing but bandwidth. Models that busbar does not know are not judged.
check "nvlink" "all" {
  severity = "warn"
}

# Before a GPU is registered with its NVSwitches CUDA answers 802, "system not yet initialized". GPUs without
# NVSwitches have no fabric, which is ok.
check "fabric" "all" {}

# The driver's control node: without it nothing can talk to a GPU.
check "device_nodes" "driver" {
  paths = ["/dev/nvidiactl"]
}

# CUDA opens it first. libcuda makes it when it may, a container never may: there CUDA fails
# although nvidia-smi works.
check "device_nodes" "uvm" {
  severity = "warn"
  paths    = ["/dev/nvidia-uvm"]
}

# Buffers and interrupts of a device whose NUMA node nobody knows lie anywhere, and NCCL takes it for
# far from all others. Hypervisors often leave it out, which is a note. Grace has no NUMA node for
# what stands on a PCI segment of its own.
check "platform" "numa" {
  when       = node.arch == "x86_64"
  severity   = "warn"
  numa_known = true
}

# RDMA locks the memory that it registers. systemd's default of 8 MiB ends in "Cannot allocate
# memory" from ibv_reg_mr, or in containers whose jobs fall back to TCP. The limit of the
# running process counts: files reach it at its next start (proc(5), limits).
check "memlock" "job_starters" {
  severity = "warn"
  services = ["slurmd", "containerd", "docker", "crio", "kubelet"]
  when     = anytrue([for id in node.pci_ids : startswith(id, "15b3:")]) # there is an RDMA NIC
}

# Automatic NUMA balancing unmaps pages to see who touches them. The GPU's and the NIC's
# proxy threads pay for it with jitter (kernel.numa_balancing in the kernel's sysctl
# documentation; RCCL warns of it too). Where the command line turns it off nothing need stand
# in sysctl.d, so that only the running value is judged.
sysctl "kernel.numa_balancing" {
  severity = "warn"
  value    = 0
  apply    = "running"
}

# Sets nothing, but reads every line of /etc/nccl.conf as NCCL does: quotes make 0 of a number,
# a mistyped key does nothing, the first of two lines wins, all without a message.
nccl {}
