//go:build !cgo

package live

// loadNVML cannot load a library in a program that was built without cgo.
func loadNVML() (nvml, error) {
	return nil, refusal("this busbar was built without cgo and cannot load libnvidia-ml.so.1")
}
