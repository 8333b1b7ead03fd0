package explain

// Layers says which layer a job needs, and in which order to look when it is slow.
const Layers = `A path between GPUs breaks without an error: it falls back to a slower one. Four layers, each with its own tool:

  layer            made of                                   breaks when                                      shows as
  GPU to GPU       NVLink and NVSwitch, or PCIe peer         GPUs on different sockets, an IOMMU that         NCCL over SHM; tens of GB/s where
  in one node      access                                    translates, ACS, mixed models, a virtual machine NVLink gives hundreds
  GPU to NIC       GPUDirect RDMA (dma-buf or                module missing, NIC far from its GPU, a          NET/Socket in NCCL's log, or
                   nvidia_peermem)                           container without /dev/infiniband                NET/IB without GDRDMA
  storage to GPU   GPUDirect Storage                         file system or drive cannot, IOMMU, ACS          loading stalls
  node to node     InfiniBand, or RoCE with PFC and ECN on   packets are lost: NIC or switch lacks the class  training stalls now and then,
                   NIC and switch                                                                             and all looks healthy

Which layer a job needs:

  one GPU                          none of them; GPUDirect Storage where loading is the limit
  several GPUs, medium model       peer access, NCCL on NVLink; without NVLink a lower ceiling
  several GPUs, large model        NVLink and NVSwitch, all GPUs and NICs in one domain
  several nodes                    RDMA, each NIC on its GPU's side
  tensor or expert parallel        NVLink
  data parallel alone              tolerates PCIe

Look in this order:

  1. busbar topo                   are GPU pairs NV#, and is a NIC near each GPU?
  2. busbar probe p2p              hundreds of GB/s over NVLink; keep the result: --record FILE
  3. busbar plan                   IOMMU, ACS, modules, links, limits, nccl.conf
  4. all_reduce_perf with NCCL_DEBUG=INFO
                                   P2P or SHM in the node, NET/IB with GDRDMA between nodes
  5. containers                    CAP_IPC_LOCK, /dev/infiniband, /dev/shm, /etc/nccl.conf are handed through
  6. RoCE                          PFC and ECN on NIC and switch: check lossless
`
