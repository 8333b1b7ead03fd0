package probe

import (
	"fmt"
	"time"
)

// library is the driver's library, which comes with the kernel module and needs no toolkit.
const library = "libcuda.so.1"

// cuda is what a probe needs of the CUDA driver.
type cuda interface {
	// Version is the driver's CUDA version: 1000 * major + 10 * minor.
	Version() (int, error)
	// Devices lists the GPUs that CUDA shows.
	Devices() ([]device, error)
	// Open makes a device's context current and loads what runs on it.
	Open(d device) (gpu, error)
}

// device is a GPU that was not opened.
type device struct {
	ordinal             int
	address, uuid, name string
	memory              int64
	computeMode         int // CUcomputemode
}

// Of CUcomputemode (cuda.h).
const (
	computeProhibited = 2
	computeExclusive  = 3
)

// gpu is an opened device with one stream, in the order of which it does what it is told by Fill, Clear, Copy,
// Delay, Record and Wait. Those return at once; what went wrong meanwhile is told by Sync at the latest.
type gpu interface {
	// Memory is how many bytes are free, and how many there are.
	Memory() (free, total int64, err error)
	// Allocate allocates n bytes, which Close frees.
	Allocate(n int64) (buffer, error)
	// CanAccess says whether this GPU could reach the memory of peer, EnableAccess that it shall.
	CanAccess(peer gpu) (bool, error)
	EnableAccess(peer gpu) error
	DisableAccess(peer gpu) error
	// Fill makes word(seed, i) the i-th word of b.
	Fill(b buffer, seed uint64) error
	// Clear fills b with zeros.
	Clear(b buffer) error
	// Compare waits for what came before, and says where b differs from what Fill writes.
	Compare(b buffer, seed uint64) (mismatch, error)
	// Read waits for what came before, and reads from b's byte at offset on.
	Read(b buffer, offset int64, into []byte) error
	// Copy copies the first n bytes of this GPU's src into dst of another GPU.
	Copy(to gpu, dst, src buffer, n int64) error
	// Delay does nothing for so long.
	Delay(d time.Duration) error
	// Record notes the time of an event, which Wait of another GPU waits for.
	Record(e event) error
	Wait(other gpu, e event) error
	// Elapsed is the time between the two events of this GPU, both of which came.
	Elapsed() (time.Duration, error)
	// Sync waits until all is done.
	Sync() error
	// Close frees the memory and the context.
	Close() error
}

// buffer lies in the memory of a GPU.
type buffer struct {
	pointer uint64 // CUdeviceptr
	size    int64
}

// event is one of the two that a GPU has.
type event int

const (
	begin event = iota
	end
	events
)

// cudaError is a call of CUDA that failed.
type cudaError struct {
	call string
	// code is the CUresult; name and text are cuGetErrorName's and cuGetErrorString's.
	code       int
	name, text string
}

// Error says what was called, what CUDA says and, where that is known, what to do.
func (e *cudaError) Error() string {
	s := fmt.Sprintf("%s failed with %s (%d), %s", e.call, e.name, e.code, e.text)
	if advice := advices[e.code]; advice != "" {
		s += ": " + advice
	}
	return s
}

// advices are by CUresult (cuda.h; the causes are NVIDIA's documentation of the error
// codes and of Fabric Manager).
var advices = map[int]string{
	2:   "give a smaller --size, or end what holds the memory",
	46:  "another process has the GPU for itself (compute mode): end it, or nvidia-smi -c DEFAULT",
	100: "the driver shows no GPU: look at nvidia-smi, and for Xid in the kernel log",
	214: "look at nvidia-smi -q -d ECC and for Xid 48 or 94 in the kernel log",
	217: "the two GPUs cannot reach each other: look at nvidia-smi topo -p2p r",
	220: "a link is broken: look at nvidia-smi nvlink -e and for Xid 74 in the kernel log",
	221: "libnvidia-ptxjitcompiler.so.1 of the driver's version is missing",
	222: "the driver is too old",
	304: "look whether /dev/nvidia-uvm is there (nvidia-modprobe -u makes it)",
	711: "other processes hold peer mappings of these GPUs",
	719: "look for Xid in the kernel log",
	802: "GPUs with NVSwitches wait for nvidia-fabricmanager: see that it runs, in the driver's very version",
	803: "libcuda.so.1 and the loaded kernel module are of different versions: reload the module or reboot",
	804: "a compatibility library of CUDA's is used that this GPU does not support: take it out of the library path",
	805: "the MPS daemon does not answer: look at nvidia-cuda-mps-control",
	999: "look for the cause in the kernel log, and whether /dev/nvidia-uvm is there (nvidia-modprobe -u makes it)",
}
