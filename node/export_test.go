package node

// GPUModels are all models.
var GPUModels = gpuModels
