package node

// GPUModels are all models.
var GPUModels = gpuModels

var (
	Elements    = elements
	Members     = members
	PlainScalar = plainScalar
)
