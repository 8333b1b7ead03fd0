//go:build !static

package probe

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

//go:embed kernels.ptx
var kernels string

// The types of cuda.h, of 64-bit Linux.
type (
	result     int32
	contextPtr uintptr
	streamPtr  uintptr
	eventPtr   uintptr
	modulePtr  uintptr
	kernelPtr  uintptr
)

// driver is the CUDA driver API (cuda.h; https://docs.nvidia.com/cuda/cuda-driver-api). The
// functions are those that the header's macros of these names lead to.
type driver struct {
	cuInit                   func(flags uint32) result
	cuGetErrorName           func(code result, text **byte) result
	cuGetErrorString         func(code result, text **byte) result
	cuDriverGetVersion       func(version *int32) result
	cuDeviceGetCount         func(count *int32) result
	cuDeviceGet              func(device *int32, ordinal int32) result
	cuDeviceGetName          func(name *byte, size int32, device int32) result
	cuDeviceGetUUID          func(uuid *[16]byte, device int32) result
	cuDeviceGetPCIBusID      func(id *byte, size int32, device int32) result
	cuDeviceTotalMem         func(bytes *uint64, device int32) result
	cuDeviceGetAttribute     func(value *int32, attribute int32, device int32) result
	cuDeviceCanAccessPeer    func(can *int32, device, peer int32) result
	cuDevicePrimaryCtxRetain func(context *contextPtr, device int32) result
	cuDevicePrimaryCtxReset  func(device int32) result
	cuCtxSetCurrent          func(context contextPtr) result
	cuCtxEnablePeerAccess    func(peer contextPtr, flags uint32) result
	cuCtxDisablePeerAccess   func(peer contextPtr) result
	cuMemGetInfo             func(free, total *uint64) result
	cuMemAlloc               func(pointer *uint64, size uint64) result
	cuMemsetD8Async          func(pointer uint64, value uint8, count uint64, stream streamPtr) result
	cuMemcpyDtoH             func(host unsafe.Pointer, pointer uint64, size uint64) result
	cuMemcpyPeerAsync        func(to uint64, toContext contextPtr, from uint64, fromContext contextPtr, size uint64, stream streamPtr) result
	cuStreamCreate           func(stream *streamPtr, flags uint32) result
	cuStreamSynchronize      func(stream streamPtr) result
	cuStreamWaitEvent        func(stream streamPtr, event eventPtr, flags uint32) result
	cuEventCreate            func(event *eventPtr, flags uint32) result
	cuEventRecord            func(event eventPtr, stream streamPtr) result
	cuEventElapsedTime       func(milliseconds *float32, begin, end eventPtr) result
	cuModuleLoadData         func(module *modulePtr, image *byte) result
	cuModuleGetFunction      func(function *kernelPtr, module modulePtr, name *byte) result
	cuLaunchKernel           func(function kernelPtr, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream streamPtr, parameters *unsafe.Pointer, extra uintptr) result
}

// Of CUdevice_attribute, CUstream_flags.
const (
	attributeComputeMode = 20 // CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
	streamNonBlocking    = 1  // CU_STREAM_NON_BLOCKING
)

// openDriver loads the library and starts CUDA, which may hang. The goroutine must be locked
// to its thread: the current context is the thread's.
func openDriver() (cuda, error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("loading the NVIDIA driver's library: %w", err)
	}
	d := &driver{}
	for _, f := range []struct {
		function any
		name     string
	}{
		{&d.cuInit, "cuInit"},
		{&d.cuGetErrorName, "cuGetErrorName"},
		{&d.cuGetErrorString, "cuGetErrorString"},
		{&d.cuDriverGetVersion, "cuDriverGetVersion"},
		{&d.cuDeviceGetCount, "cuDeviceGetCount"},
		{&d.cuDeviceGet, "cuDeviceGet"},
		{&d.cuDeviceGetName, "cuDeviceGetName"},
		{&d.cuDeviceGetUUID, "cuDeviceGetUuid_v2"},
		{&d.cuDeviceGetPCIBusID, "cuDeviceGetPCIBusId"},
		{&d.cuDeviceTotalMem, "cuDeviceTotalMem_v2"},
		{&d.cuDeviceGetAttribute, "cuDeviceGetAttribute"},
		{&d.cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer"},
		{&d.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"},
		{&d.cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2"},
		{&d.cuCtxSetCurrent, "cuCtxSetCurrent"},
		{&d.cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess"},
		{&d.cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess"},
		{&d.cuMemGetInfo, "cuMemGetInfo_v2"},
		{&d.cuMemAlloc, "cuMemAlloc_v2"},
		{&d.cuMemsetD8Async, "cuMemsetD8Async"},
		{&d.cuMemcpyDtoH, "cuMemcpyDtoH_v2"},
		{&d.cuMemcpyPeerAsync, "cuMemcpyPeerAsync"},
		{&d.cuStreamCreate, "cuStreamCreate"},
		{&d.cuStreamSynchronize, "cuStreamSynchronize"},
		{&d.cuStreamWaitEvent, "cuStreamWaitEvent"},
		{&d.cuEventCreate, "cuEventCreate"},
		{&d.cuEventRecord, "cuEventRecord"},
		{&d.cuEventElapsedTime, "cuEventElapsedTime"},
		{&d.cuModuleLoadData, "cuModuleLoadData"},
		{&d.cuModuleGetFunction, "cuModuleGetFunction"},
		{&d.cuLaunchKernel, "cuLaunchKernel"},
	} {
		symbol, err := purego.Dlsym(handle, f.name)
		if err != nil {
			return nil, fmt.Errorf("%s has no %s, the driver is older than 470: %w", library, f.name, err)
		}
		purego.RegisterFunc(f.function, symbol)
	}
	return d, d.check("cuInit", d.cuInit(0))
}

// check is the error of a call.
func (d *driver) check(call string, code result) error {
	if code == 0 {
		return nil
	}
	e := &cudaError{call: call, code: int(code), name: "an unknown error", text: "no description"}
	var text *byte
	if d.cuGetErrorName(code, &text) == 0 && text != nil {
		e.name = goString(text)
	}
	text = nil
	if d.cuGetErrorString(code, &text) == 0 && text != nil {
		e.text = goString(text)
	}
	return e
}

// goString copies a string of C's.
func goString(s *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}

// cString is s with a zero at its end.
func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// Version asks the driver.
func (d *driver) Version() (int, error) {
	var v int32
	err := d.check("cuDriverGetVersion", d.cuDriverGetVersion(&v))
	return int(v), err
}

// Devices lists them in CUDA's order.
func (d *driver) Devices() ([]device, error) {
	var count int32
	if err := d.check("cuDeviceGetCount", d.cuDeviceGetCount(&count)); err != nil {
		return nil, err
	}
	var all []device
	for i := range count {
		one, err := d.device(i)
		if err != nil {
			return nil, fmt.Errorf("GPU %d of CUDA's: %w", i, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func (d *driver) device(i int32) (device, error) {
	var ordinal, mode int32
	if err := d.check("cuDeviceGet", d.cuDeviceGet(&ordinal, i)); err != nil {
		return device{}, err
	}
	var name, address [256]byte
	var uuid [16]byte
	var memory uint64
	err := cmp.Or(
		d.check("cuDeviceGetName", d.cuDeviceGetName(&name[0], int32(len(name)), ordinal)),
		d.check("cuDeviceGetPCIBusId", d.cuDeviceGetPCIBusID(&address[0], int32(len(address)), ordinal)),
		d.check("cuDeviceGetUuid", d.cuDeviceGetUUID(&uuid, ordinal)),
		d.check("cuDeviceTotalMem", d.cuDeviceTotalMem(&memory, ordinal)),
		d.check("cuDeviceGetAttribute", d.cuDeviceGetAttribute(&mode, attributeComputeMode, ordinal)),
	)
	return device{
		ordinal: int(ordinal), name: text(name[:]), address: strings.ToLower(text(address[:])), memory: int64(memory), computeMode: int(mode),
		uuid: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:]),
	}, err
}

// text is what stands before the first zero.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// Open retains the device's primary context. The kernels are translated.
func (d *driver) Open(dev device) (gpu, error) {
	g := &cudaGPU{driver: d, device: int32(dev.ordinal)}
	if err := d.check("cuDevicePrimaryCtxRetain", d.cuDevicePrimaryCtxRetain(&g.context, g.device)); err != nil {
		return nil, err
	}
	if err := g.prepare(); err != nil {
		return nil, cmp.Or(err, g.Close())
	}
	return g, nil
}

// cudaGPU is a device with its primary context.
type cudaGPU struct {
	*driver
	device               int32
	context              contextPtr
	stream               streamPtr
	events               [events]eventPtr
	fill, compare, delay kernelPtr
	counters             buffer // of the kernel compare
}

// prepare makes what belongs to the context.
func (g *cudaGPU) prepare() error {
	if err := g.use(); err != nil {
		return err
	}
	if err := g.check("cuStreamCreate", g.cuStreamCreate(&g.stream, streamNonBlocking)); err != nil {
		return err
	}
	for i := range g.events {
		if err := g.check("cuEventCreate", g.cuEventCreate(&g.events[i], 0)); err != nil {
			return err
		}
	}
	var module modulePtr
	if err := g.check("cuModuleLoadData", g.cuModuleLoadData(&module, cString(kernels))); err != nil {
		return err
	}
	for name, kernel := range map[string]*kernelPtr{"fill": &g.fill, "compare": &g.compare, "delay": &g.delay} {
		if err := g.check("cuModuleGetFunction", g.cuModuleGetFunction(kernel, module, cString(name))); err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
	}
	var err error
	g.counters, err = g.Allocate(3 * 8)
	return err
}

// use makes the context current.
func (g *cudaGPU) use() error { return g.check("cuCtxSetCurrent", g.cuCtxSetCurrent(g.context)) }

// do makes a call in the context.
func (g *cudaGPU) do(name string, call func() result) error {
	if err := g.use(); err != nil {
		return err
	}
	return g.check(name, call())
}

// Memory asks the driver.
func (g *cudaGPU) Memory() (free, total int64, err error) {
	var f, t uint64
	err = g.do("cuMemGetInfo", func() result { return g.cuMemGetInfo(&f, &t) })
	return int64(f), int64(t), err
}

// Allocate allocates memory of the device.
func (g *cudaGPU) Allocate(n int64) (buffer, error) {
	b := buffer{size: n}
	err := g.do("cuMemAlloc", func() result { return g.cuMemAlloc(&b.pointer, uint64(n)) })
	return b, err
}

// CanAccess asks the driver.
func (g *cudaGPU) CanAccess(peer gpu) (bool, error) {
	var can int32
	err := g.check("cuDeviceCanAccessPeer", g.cuDeviceCanAccessPeer(&can, g.device, peer.(*cudaGPU).device))
	return can != 0, err
}

// EnableAccess maps the peer's memory, what will be allocated too.
func (g *cudaGPU) EnableAccess(peer gpu) error {
	return g.do("cuCtxEnablePeerAccess", func() result { return g.cuCtxEnablePeerAccess(peer.(*cudaGPU).context, 0) })
}

// DisableAccess takes the mapping back.
func (g *cudaGPU) DisableAccess(peer gpu) error {
	return g.do("cuCtxDisablePeerAccess", func() result { return g.cuCtxDisablePeerAccess(peer.(*cudaGPU).context) })
}

// The grid of the kernels that go over a buffer: more threads than any GPU runs at once.
const gridBlocks, blockThreads = 2048, 256

// launch starts a kernel with parameters of 64 bits.
func (g *cudaGPU) launch(kernel kernelPtr, blocks, threads uint32, parameters ...uint64) error {
	list := make([]unsafe.Pointer, len(parameters))
	for i := range parameters {
		list[i] = unsafe.Pointer(&parameters[i])
	}
	return g.do("cuLaunchKernel", func() result {
		return g.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, g.stream, &list[0], 0)
	})
}

// Fill runs the kernel fill.
func (g *cudaGPU) Fill(b buffer, seed uint64) error {
	return g.launch(g.fill, gridBlocks, blockThreads, b.pointer, uint64(b.size/8), seed)
}

// Clear sets bytes to zero.
func (g *cudaGPU) Clear(b buffer) error { return g.set(b, 0) }

// set makes every byte of b the same.
func (g *cudaGPU) set(b buffer, value uint8) error {
	return g.do("cuMemsetD8Async", func() result { return g.cuMemsetD8Async(b.pointer, value, uint64(b.size), g.stream) })
}

// Compare runs the kernel compare.
func (g *cudaGPU) Compare(b buffer, seed uint64) (mismatch, error) {
	counters := make([]byte, g.counters.size)
	first := buffer{pointer: g.counters.pointer + 16, size: 8}
	if err := cmp.Or(
		g.set(g.counters, 0),
		g.set(first, 0xff), // the largest number, from which the kernel goes down
		g.launch(g.compare, gridBlocks, blockThreads, b.pointer, uint64(b.size/8), seed, g.counters.pointer),
		g.Read(g.counters, 0, counters),
	); err != nil {
		return mismatch{}, err
	}
	m := mismatch{
		bytes: int64(binary.LittleEndian.Uint64(counters)),
		words: int64(binary.LittleEndian.Uint64(counters[8:])),
	}
	if m.bytes != 0 {
		m.first = int64(binary.LittleEndian.Uint64(counters[16:]))
	}
	return m, nil
}

// Read copies to the host.
func (g *cudaGPU) Read(b buffer, offset int64, into []byte) error {
	if err := g.Sync(); err != nil {
		return err
	}
	return g.do("cuMemcpyDtoH", func() result {
		return g.cuMemcpyDtoH(unsafe.Pointer(&into[0]), b.pointer+uint64(offset), uint64(len(into)))
	})
}

// Copy copies on this GPU's stream.
func (g *cudaGPU) Copy(to gpu, dst, src buffer, n int64) error {
	return g.do("cuMemcpyPeerAsync", func() result {
		return g.cuMemcpyPeerAsync(dst.pointer, to.(*cudaGPU).context, src.pointer, g.context, uint64(n), g.stream)
	})
}

// Delay runs the kernel delay.
func (g *cudaGPU) Delay(d time.Duration) error { return g.launch(g.delay, 1, 1, uint64(d)) }

// Record records an event.
func (g *cudaGPU) Record(e event) error {
	return g.do("cuEventRecord", func() result { return g.cuEventRecord(g.events[e], g.stream) })
}

// Wait lets the stream wait.
func (g *cudaGPU) Wait(other gpu, e event) error {
	return g.do("cuStreamWaitEvent", func() result { return g.cuStreamWaitEvent(g.stream, other.(*cudaGPU).events[e], 0) })
}

// Elapsed asks the driver, which knows it to about half a microsecond.
func (g *cudaGPU) Elapsed() (time.Duration, error) {
	var ms float32
	err := g.do("cuEventElapsedTime", func() result { return g.cuEventElapsedTime(&ms, g.events[begin], g.events[end]) })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Sync waits for the stream.
func (g *cudaGPU) Sync() error {
	return g.do("cuStreamSynchronize", func() result { return g.cuStreamSynchronize(g.stream) })
}

// Close resets the primary context, which is this process' alone: what belongs to it is freed.
func (g *cudaGPU) Close() error {
	return g.check("cuDevicePrimaryCtxReset", g.cuDevicePrimaryCtxReset(g.device))
}
