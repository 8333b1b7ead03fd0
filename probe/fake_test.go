package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// fake is a CUDA of GPUs that are slices of bytes, with a clock of its own.
type fake struct {
	gpus    []*fakeGPU
	version error // of Version
	// fault is asked before each call on a GPU: Copy also has its receiver.
	fault func(call string, g, to *fakeGPU) error
	// spoil changes what a copy has written.
	spoil func(from, to *fakeGPU, dst []byte)
	// unreachable are peers that a GPU cannot reach.
	unreachable func(g, peer *fakeGPU) bool
	calls       []string // of Open, Close, EnableAccess and DisableAccess
}

type fakeGPU struct {
	device
	fake    *fake
	free    int64
	now     time.Duration
	at      [events]time.Duration
	buffers map[uint64][]byte
	peers   map[*fakeGPU]bool
	// What a broken GPU does.
	blind    bool   // Compare finds nothing
	constant uint64 // is added to what Fill writes and Compare wants
}

// newFake has GPUs at 0000:N0:00.0, from 1 on, in the reverse order.
func newFake(count int) *fake {
	f := &fake{}
	for i := count; i > 0; i-- {
		f.gpus = append(f.gpus, &fakeGPU{
			device: device{ordinal: len(f.gpus), address: fmt.Sprintf("0000:%x0:00.0", i), uuid: fmt.Sprintf("GPU-%d", i), name: "NVIDIA H200", memory: 1 << 37},
			fake:   f, free: 1<<37 - 1<<29, buffers: map[uint64][]byte{}, peers: map[*fakeGPU]bool{},
		})
	}
	return f
}

func (f *fake) gpu(address string) *fakeGPU {
	return f.gpus[slices.IndexFunc(f.gpus, func(g *fakeGPU) bool { return g.address == address })]
}

func (f *fake) Version() (int, error) { return 13000, f.version }

func (f *fake) Devices() ([]device, error) {
	var all []device
	for _, g := range f.gpus {
		all = append(all, g.device)
	}
	return all, nil
}

func (f *fake) Open(d device) (gpu, error) {
	g := f.gpus[d.ordinal]
	f.calls = append(f.calls, "open "+g.address)
	return g, g.asked("open", nil)
}

func (g *fakeGPU) asked(call string, to *fakeGPU) error {
	if g.fake.fault == nil {
		return nil
	}
	return g.fake.fault(call, g, to)
}

func (g *fakeGPU) Memory() (free, total int64, err error) { return g.free, g.memory, nil }

func (g *fakeGPU) Allocate(n int64) (buffer, error) {
	b := buffer{pointer: uint64(len(g.buffers) + 1), size: n}
	g.buffers[b.pointer] = make([]byte, n)
	return b, g.asked("allocate", nil)
}

func (g *fakeGPU) CanAccess(peer gpu) (bool, error) {
	return g.fake.unreachable == nil || !g.fake.unreachable(g, peer.(*fakeGPU)), nil
}

func (g *fakeGPU) EnableAccess(peer gpu) error {
	p := peer.(*fakeGPU)
	g.fake.calls = append(g.fake.calls, "enable "+g.address+" "+p.address)
	if err := g.asked("enable", p); err != nil {
		return err
	}
	if g.peers[p] {
		return errors.New("is enabled already")
	}
	g.peers[p] = true
	return nil
}

func (g *fakeGPU) DisableAccess(peer gpu) error {
	p := peer.(*fakeGPU)
	g.fake.calls = append(g.fake.calls, "disable "+g.address+" "+p.address)
	if !g.peers[p] {
		return errors.New("is not enabled")
	}
	delete(g.peers, p)
	return nil
}

func (g *fakeGPU) Fill(b buffer, seed uint64) error {
	data := g.buffers[b.pointer]
	for i := range len(data) / 8 {
		binary.LittleEndian.PutUint64(data[8*i:], word(seed, uint64(i))+g.constant)
	}
	return g.asked("fill", nil)
}

func (g *fakeGPU) Clear(b buffer) error {
	clear(g.buffers[b.pointer])
	return g.asked("clear", nil)
}

func (g *fakeGPU) Compare(b buffer, seed uint64) (mismatch, error) {
	if g.blind {
		return mismatch{}, nil
	}
	data := slices.Clone(g.buffers[b.pointer])
	if g.constant != 0 {
		for i := range len(data) / 8 {
			binary.LittleEndian.PutUint64(data[8*i:], binary.LittleEndian.Uint64(data[8*i:])-g.constant)
		}
	}
	return compare(data, seed, 0), g.asked("compare", nil)
}

func (g *fakeGPU) Read(b buffer, offset int64, into []byte) error {
	copy(into, g.buffers[b.pointer][offset:])
	return g.asked("read", nil)
}

// Bandwidths in bytes a nanosecond, and what each copy takes besides.
const (
	fakePeer, fakeStaged = 400, 40
	fakeStart            = 2 * time.Microsecond
)

func (g *fakeGPU) Copy(to gpu, dst, src buffer, n int64) error {
	p := to.(*fakeGPU)
	copy(p.buffers[dst.pointer][:n], g.buffers[src.pointer])
	if g.fake.spoil != nil {
		g.fake.spoil(g, p, p.buffers[dst.pointer][:n])
	}
	bandwidth := fakeStaged
	if g.peers[p] {
		bandwidth = fakePeer
	}
	g.now += fakeStart + time.Duration(int(n)/bandwidth)
	return g.asked("copy", p)
}

func (g *fakeGPU) Delay(d time.Duration) error {
	g.now += d
	return g.asked("delay", nil)
}

func (g *fakeGPU) Record(e event) error {
	g.at[e] = g.now
	return nil
}

func (g *fakeGPU) Wait(other gpu, e event) error {
	g.now = max(g.now, other.(*fakeGPU).at[e])
	return nil
}

func (g *fakeGPU) Elapsed() (time.Duration, error) { return g.at[end] - g.at[begin], nil }

func (g *fakeGPU) Sync() error { return g.asked("sync", nil) }

func (g *fakeGPU) Close() error {
	g.fake.calls = append(g.fake.calls, "close "+g.address)
	return nil
}
