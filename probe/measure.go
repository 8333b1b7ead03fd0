package probe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"busbar/internal/p2p"
)

// How is measured. A sample is a row of copies that takes about sampleTime; what is told of
// all samples is the median, after a warm-up of one sample.
const (
	samples       = 5
	sampleTime    = 5 * time.Millisecond
	maxCopies     = 64
	smallCopy     = 16  // bytes, for the latency
	smallCopies   = 100 // in a row
	enqueuingTime = 2 * time.Millisecond
)

// BuffersEach is how many buffers of the size of a copy each GPU has: one that is sent from, and one
// that is received in.
const BuffersEach = 2

// request is what the child is asked.
type request struct {
	// GPUs are the addresses of those to take; none means all.
	GPUs []string `json:"gpus"`
	// Size of a copy in bytes, a multiple of 8.
	Size int64 `json:"size_bytes"`
	// Force takes GPUs whose memory is in use.
	Force bool `json:"force"`
}

// message is one line of the child's output.
type message struct {
	// Doing is what is begun that may hang, in words.
	Doing string `json:"doing,omitempty"`
	// CUDA and GPUs come once.
	CUDA string    `json:"cuda,omitempty"`
	GPUs []p2p.GPU `json:"gpus,omitempty"`
	// Begun names the two GPUs between which measuring begins.
	Begun []string `json:"begun,omitempty"`
	// Pairs are what was measured between them, one for each direction.
	Pairs []p2p.Pair `json:"pairs,omitempty"`
	// Ended is the last one; Failure says why not all was measured.
	Ended   bool   `json:"ended,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// run is a measurement under way.
type run struct {
	ctx   context.Context
	tell  func(message) error
	cuda  cuda
	asked request
	gpus  []*opened
}

// opened is a GPU with its buffers.
type opened struct {
	gpu
	p2p.GPU
	number  int // from 0, in the order of addresses
	out, in buffer
}

// measure measures what is asked for, and tells of it as it goes.
func measure(ctx context.Context, c cuda, asked request, tell func(message) error) (err error) {
	r := &run{ctx: ctx, tell: tell, cuda: c, asked: asked}
	defer func() {
		for _, g := range r.gpus {
			err = cmp.Or(err, r.tell(message{Doing: "freeing GPU " + g.Address}))
			err = cmp.Or(err, g.Close())
		}
	}()
	if err := r.open(); err != nil {
		return err
	}
	for i, a := range r.gpus {
		for _, b := range r.gpus[i+1:] {
			if err := r.pair(a, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// beat tells what is begun, and is an error once the run is to end.
func (r *run) beat(doing string) error {
	if err := r.tell(message{Doing: doing}); err != nil {
		return err
	}
	return context.Cause(r.ctx)
}

// open opens the GPUs, tells which they are, and allocates their buffers.
func (r *run) open() error {
	version, err := r.cuda.Version()
	if err != nil {
		return err
	}
	devices, err := r.cuda.Devices()
	if err != nil {
		return err
	}
	devices, err = chosen(devices, r.asked.GPUs)
	if err != nil {
		return err
	}
	told := message{CUDA: fmt.Sprintf("%d.%d", version/1000, version%1000/10), GPUs: []p2p.GPU{}}
	for _, d := range devices {
		told.GPUs = append(told.GPUs, d.describe())
	}
	if err := r.tell(told); err != nil {
		return err
	}
	if len(devices) < 2 {
		return nil
	}
	for i, d := range devices {
		if err := r.beat("opening GPU " + d.address); err != nil {
			return err
		}
		g, err := r.cuda.Open(d)
		if err != nil {
			return fmt.Errorf("opening GPU %s: %w", d.address, err)
		}
		r.gpus = append(r.gpus, &opened{gpu: g, GPU: d.describe(), number: i})
	}
	told.GPUs = nil
	for _, g := range r.gpus {
		if err := r.allocate(g); err != nil {
			return fmt.Errorf("GPU %s: %w", g.Address, err)
		}
		told.GPUs = append(told.GPUs, g.GPU)
	}
	return r.tell(told)
}

// describe is a device as the result has it.
func (d device) describe() p2p.GPU {
	return p2p.GPU{Address: d.address, UUID: d.uuid, Name: d.name, Memory: d.memory}
}

// chosen are the devices at these addresses, or all, by address.
func chosen(devices []device, addresses []string) ([]device, error) {
	devices = slices.Clone(devices)
	slices.SortFunc(devices, func(a, b device) int { return strings.Compare(a.address, b.address) })
	for _, a := range addresses {
		if !slices.ContainsFunc(devices, func(d device) bool { return d.address == a }) {
			return nil, fmt.Errorf("CUDA shows no GPU %s", a)
		}
	}
	devices = slices.DeleteFunc(devices, func(d device) bool { return len(addresses) > 0 && !slices.Contains(addresses, d.address) })
	for _, d := range devices {
		switch {
		case strings.Contains(d.name, " MIG "):
			return nil, fmt.Errorf("GPU %s is split (%s), and the parts cannot reach each other: nvidia-smi -mig 0", d.address, d.name)
		case d.computeMode == computeProhibited:
			return nil, fmt.Errorf("GPU %s lets nobody compute (compute mode Prohibited): nvidia-smi -c DEFAULT", d.address)
		}
	}
	return devices, nil
}

// maxContext is more memory than CUDA's own context takes.
const maxContext = 4 << 30

// allocate allocates a GPU's buffers where nobody else uses its memory.
func (r *run) allocate(g *opened) error {
	if err := r.beat("allocating memory of GPU " + g.Address); err != nil {
		return err
	}
	free, total, err := g.gpu.Memory()
	if err != nil {
		return err
	}
	g.Free = free
	switch need := BuffersEach * r.asked.Size; {
	case free < need:
		return fmt.Errorf("%s of memory are free, and %s are needed: give a smaller --size, or end what holds the memory", p2p.Bytes(free), p2p.Bytes(need))
	case total-free > maxContext && !r.asked.Force:
		return fmt.Errorf("%s of memory are in use, by processes that are not to be seen from here: end them, or say --force", p2p.Bytes(total-free))
	}
	if g.out, err = g.Allocate(r.asked.Size); err != nil {
		return err
	}
	g.in, err = g.Allocate(r.asked.Size)
	return err
}

// direction is a transfer from one GPU to another.
type direction struct {
	from, to *opened
	seed     uint64
}

// pair measures between two GPUs, and tells of it. Only what ends the run is an error.
func (r *run) pair(a, b *opened) error {
	if err := r.tell(message{Begun: []string{a.Address, b.Address}}); err != nil {
		return err
	}
	there := p2p.Pair{From: a.Address, To: b.Address, Checks: []p2p.Check{}}
	back := p2p.Pair{From: b.Address, To: a.Address, Checks: []p2p.Check{}}
	if err := r.between(a, b, &there, &back); err != nil {
		there.Unknown, back.Unknown = err.Error(), err.Error()
	}
	return cmp.Or(r.tell(message{Pairs: []p2p.Pair{there, back}}), context.Cause(r.ctx))
}

// between measures with peer access off, and on where that is possible.
func (r *run) between(a, b *opened, there, back *p2p.Pair) error {
	ways := []struct {
		from, to *opened
		pair     *p2p.Pair
	}{{a, b, there}, {b, a, back}}
	for _, w := range ways {
		var err error
		if w.pair.Staged, err = r.transfer(p2p.Staged, []direction{{from: w.from, to: w.to}}, w.pair); err != nil {
			return err
		}
	}
	possible, err := reach(a, b)
	if err != nil {
		return err
	}
	there.PeerAccess, back.PeerAccess = &possible, &possible
	if !possible {
		return nil
	}
	if err := r.beat(fmt.Sprintf("enabling peer access between %s and %s", a.Address, b.Address)); err != nil {
		return err
	}
	if err := a.EnableAccess(b.gpu); err != nil {
		return err
	}
	if err := b.EnableAccess(a.gpu); err != nil {
		return cmp.Or(err, a.DisableAccess(b.gpu))
	}
	err = func() error {
		for _, w := range ways {
			var err error
			if w.pair.OneWay, err = r.transfer(p2p.OneWay, []direction{{from: w.from, to: w.to}}, w.pair); err != nil {
				return err
			}
			if w.pair.Latency, err = r.latency(w.from, w.to); err != nil {
				return err
			}
		}
		there.BothWays, err = r.transfer(p2p.BothWays, []direction{{from: a, to: b}, {from: b, to: a}}, there, back)
		back.BothWays = there.BothWays
		return err
	}()
	return cmp.Or(err, a.DisableAccess(b.gpu), b.DisableAccess(a.gpu))
}

// reach says whether two GPUs can reach each other's memory.
func reach(a, b *opened) (bool, error) {
	there, err1 := a.CanAccess(b.gpu)
	back, err2 := b.CanAccess(a.gpu)
	return there && back, cmp.Or(err1, err2)
}

// transfer times copies in the given directions at once, then clears the receivers, copies once
// more and compares every byte. It is the median of the samples, in GB/s for all directions together. Each
// direction's check goes to its pair.
func (r *run) transfer(kind p2p.Transfer, directions []direction, pairs ...*p2p.Pair) (*float64, error) {
	var names []string
	for i, d := range directions {
		directions[i].seed = seedOf(d.from.number, d.to.number, slices.Index([]p2p.Transfer{p2p.Staged, p2p.OneWay, p2p.BothWays}, kind))
		names = append(names, d.from.Address+" to "+d.to.Address)
	}
	doing := fmt.Sprintf("copying from %s, %s", strings.Join(names, " and "), kind)
	wrap := func(err error) error { return fmt.Errorf("%s: %w", doing, err) }
	for _, d := range directions {
		if err := cmp.Or(d.from.Fill(d.from.out, d.seed), d.from.Sync()); err != nil {
			return nil, wrap(err)
		}
	}
	rate, err := r.rate(doing, directions)
	if err != nil {
		return nil, wrap(err)
	}
	for _, d := range directions {
		if err := wipe(d); err != nil {
			return nil, wrap(err)
		}
	}
	if _, err := r.timed(doing, directions, 1); err != nil {
		return nil, wrap(err)
	}
	for i, d := range directions {
		m, err := d.received()
		if err != nil {
			return nil, wrap(err)
		}
		check := p2p.Check{Transfer: kind, Bytes: d.to.in.size, Wrong: m.bytes}
		if m.bytes > 0 {
			check.FirstWrong = &m.first
		}
		pairs[i].Checks = append(pairs[i].Checks, check)
	}
	return &rate, nil
}

// rate is the median bandwidth of the samples in GB/s.
func (r *run) rate(doing string, directions []direction) (float64, error) {
	if _, err := r.timed(doing, directions, 1); err != nil { // the first copy sets up mappings
		return 0, err
	}
	one, err := r.timed(doing, directions, 1)
	if err != nil {
		return 0, err
	}
	copies := int(min(max(sampleTime/max(one, 1), 1), maxCopies))
	var rates []float64
	for i := range samples + 1 {
		took, err := r.timed(doing, directions, copies)
		if err != nil {
			return 0, err
		}
		if i > 0 { // the first one warms up
			rates = append(rates, float64(r.asked.Size)*float64(copies*len(directions))/took.Seconds()/1e9)
		}
	}
	return median(rates), nil
}

// median is rounded to what the clocks are good for.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return math.Round(list[len(list)/2]*1000) / 1000
}

// timed is how long the copies of all directions take, from the first one's begin to the last
// one's end, by the clock of the first sender.
func (r *run) timed(doing string, directions []direction, copies int) (time.Duration, error) {
	if err := r.beat(doing); err != nil {
		return 0, err
	}
	lead, others := directions[0].from, directions[1:]
	err := lead.Record(begin)
	for _, d := range others {
		err = cmp.Or(err, d.from.Wait(lead.gpu, begin))
	}
	for range copies {
		for _, d := range directions {
			err = cmp.Or(err, d.from.Copy(d.to.gpu, d.to.in, d.from.out, r.asked.Size))
		}
	}
	for _, d := range others {
		err = cmp.Or(err, d.from.Record(end), lead.Wait(d.from.gpu, end))
	}
	if err := cmp.Or(err, lead.Record(end), lead.Sync()); err != nil {
		return 0, err
	}
	took, err := lead.Elapsed()
	if err == nil && took <= 0 {
		err = fmt.Errorf("CUDA says that %d copies took %s", copies, took)
	}
	return took, err
}

// wipe clears the receiver, and sees to it that the comparison notices.
func wipe(d direction) error {
	if err := d.to.Clear(d.to.in); err != nil {
		return err
	}
	m, err := d.to.Compare(d.to.in, d.seed)
	if err != nil {
		return err
	}
	if words := d.to.in.size / 8; m.words != words || m.first >= 8 {
		return fmt.Errorf("GPU %s does not compare rightly: of the %d words of a cleared buffer it says that %d differ", d.to.Address, words, m.words)
	}
	return nil
}

// sampled is how much the host compares by itself, at the begin, the middle and the end.
const sampled = 4 << 10

// received compares what was received: all of it on the GPU, and samples on the host.
func (d direction) received() (mismatch, error) {
	size := d.to.in.size
	m, err := d.to.Compare(d.to.in, d.seed)
	if err != nil || m.bytes > 0 {
		return m, err
	}
	data := make([]byte, min(sampled, size))
	for _, at := range []int64{0, size / 16 * 8, size - int64(len(data))} {
		part := data[:min(int64(len(data)), size-at)]
		if err := d.to.Read(d.to.in, at, part); err != nil {
			return m, err
		}
		if m := compare(part, d.seed, uint64(at/8)); m.bytes > 0 {
			return m, nil
		}
	}
	return m, nil
}

// latency is the median time of a small copy in microseconds. The copies wait on the GPU
// until all are enqueued, so that the time of the host's calls is not in it.
func (r *run) latency(from, to *opened) (*float64, error) {
	doing := fmt.Sprintf("small copies from %s to %s", from.Address, to.Address)
	var times []float64
	for range samples {
		if err := r.beat(doing); err != nil {
			return nil, err
		}
		err := cmp.Or(from.Delay(enqueuingTime), from.Record(begin))
		for range smallCopies {
			err = cmp.Or(err, from.Copy(to.gpu, to.in, from.out, min(smallCopy, r.asked.Size)))
		}
		if err := cmp.Or(err, from.Record(end), from.Sync()); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		took, err := from.Elapsed()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		times = append(times, float64(took.Nanoseconds())/1e3/smallCopies)
	}
	m := median(times)
	return &m, nil
}
