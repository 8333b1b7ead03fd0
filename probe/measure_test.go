package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/p2p"
)

// size of copies in tests: it has no whole number of samples for the host, and an odd middle.
const size = 3*sampled + 8

// measured runs a measurement, and returns what was told.
func measured(t *testing.T, f *fake, asked request) (gpus []p2p.GPU, pairs []p2p.Pair, failure string) {
	t.Helper()
	if asked.Size == 0 {
		asked.Size = size
	}
	err := measure(context.Background(), f, asked, func(m message) error {
		if m.GPUs != nil {
			gpus = m.GPUs
		}
		pairs = append(pairs, m.Pairs...)
		return nil
	})
	if err != nil {
		failure = err.Error()
	}
	var opened, closed int
	for _, c := range f.calls {
		switch verb, _, _ := strings.Cut(c, " "); verb {
		case "open":
			opened++
		case "close":
			closed++
		}
	}
	if opened != closed && !strings.Contains(failure, "opening") {
		t.Errorf("%d GPUs were opened and %d closed", opened, closed)
	}
	for _, g := range f.gpus {
		if len(g.peers) > 0 {
			t.Errorf("%s still has peer access", g.address)
		}
	}
	return gpus, pairs, failure
}

func pairOf(t *testing.T, pairs []p2p.Pair, from, to string) p2p.Pair {
	t.Helper()
	p, ok := p2p.Result{Pairs: pairs}.Pair(from, to)
	if !ok {
		t.Fatalf("no pair %s to %s among %d", from, to, len(pairs))
	}
	return p
}

func TestMeasure(t *testing.T) {
	f := newFake(3)
	gpus, pairs, failure := measured(t, f, request{})
	if failure != "" || len(gpus) != 3 || len(pairs) != 6 {
		t.Fatalf("%d GPUs, %d pairs, %q", len(gpus), len(pairs), failure)
	}
	if diff := cmp.Diff(p2p.GPU{Address: "0000:10:00.0", UUID: "GPU-1", Name: "NVIDIA H200", Memory: 1 << 37, Free: 1<<37 - 1<<29}, gpus[0]); diff != "" {
		t.Error(diff)
	}
	rate := func(bandwidth, directions int) float64 {
		return float64(size*directions) / float64(int(fakeStart)+size/bandwidth)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got < want*0.99 || *got > want*1.01 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, p := range pairs {
		near("one way", p.OneWay, rate(fakePeer, 1))
		near("both ways", p.BothWays, rate(fakePeer, 2))
		near("staged", p.Staged, rate(fakeStaged, 1))
		near("latency", p.Latency, 2)
		if p.PeerAccess == nil || !*p.PeerAccess || p.Unknown != "" {
			t.Errorf("%+v", p)
		}
		want := []p2p.Check{{Transfer: p2p.Staged, Bytes: size}, {Transfer: p2p.OneWay, Bytes: size}, {Transfer: p2p.BothWays, Bytes: size}}
		if diff := cmp.Diff(want, p.Checks); diff != "" {
			t.Errorf("%s to %s: %s", p.From, p.To, diff)
		}
	}
}

// Every byte is looked at, wherever it is, in every kind of transfer, and the pair is the right one.
func TestWrongData(t *testing.T) {
	for _, offset := range []int64{0, 1, 7, 8, size / 2, size - 8, size - 1} {
		for _, peer := range []bool{false, true} {
			f := newFake(3)
			f.spoil = func(from, to *fakeGPU, dst []byte) {
				if from.address == "0000:30:00.0" && to.address == "0000:10:00.0" && from.peers[to] == peer && int64(len(dst)) > offset {
					dst[offset] ^= 1
				}
			}
			_, pairs, failure := measured(t, f, request{})
			if failure != "" {
				t.Fatal(failure)
			}
			for _, p := range pairs {
				for _, c := range p.Checks {
					var want p2p.Check
					if p.From == "0000:30:00.0" && p.To == "0000:10:00.0" && (c.Transfer != p2p.Staged) == peer {
						want.Wrong, want.FirstWrong = 1, &offset
					}
					if c.Wrong != want.Wrong || (c.FirstWrong == nil) != (want.FirstWrong == nil) || c.FirstWrong != nil && *c.FirstWrong != offset {
						t.Errorf("offset %d, peer %t: %s to %s %s: %d wrong, first %v", offset, peer, p.From, p.To, c.Transfer, c.Wrong, c.FirstWrong)
					}
				}
			}
		}
	}
}

func TestDataThatIsNotWrittenOrShifted(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(from, to *fakeGPU, dst []byte)
		first int64
	}{
		{"the last copy writes nothing", func(_, _ *fakeGPU, dst []byte) { clear(dst) }, 0},
		{"a page is not written", func(_, _ *fakeGPU, dst []byte) { clear(dst[min(len(dst), 4096):min(len(dst), 8192)]) }, 4096},
		{"what is written is a word too far", func(_, _ *fakeGPU, dst []byte) { copy(dst[8:], slices.Clone(dst)) }, 8},
		{"two pages are swapped", func(_, _ *fakeGPU, dst []byte) {
			if len(dst) >= 8192 {
				first := slices.Clone(dst[:4096])
				copy(dst, dst[4096:8192])
				copy(dst[4096:], first)
			}
		}, 0},
		{"it is the data of another pair", func(_, _ *fakeGPU, dst []byte) {
			for i := range len(dst) / 8 {
				binary.LittleEndian.PutUint64(dst[8*i:], word(seedOf(3, 4, 1), uint64(i)))
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(2)
			f.spoil = c.spoil
			_, pairs, failure := measured(t, f, request{})
			if failure != "" {
				t.Fatal(failure)
			}
			for _, p := range pairs {
				for _, check := range p.Checks {
					if check.Wrong == 0 || check.FirstWrong == nil || *check.FirstWrong/8 != c.first/8 {
						t.Errorf("%s: %d wrong, first %v", check.Transfer, check.Wrong, check.FirstWrong)
					}
				}
			}
		})
	}
}

// A GPU that cannot compare proves nothing.
func TestBrokenComparison(t *testing.T) {
	f := newFake(2)
	f.gpu("0000:20:00.0").blind = true
	_, pairs, _ := measured(t, f, request{})
	if p := pairOf(t, pairs, "0000:10:00.0", "0000:20:00.0"); !strings.Contains(p.Unknown, "GPU 0000:20:00.0 does not compare rightly: of the 1537 words of a cleared buffer it says that 0 differ") {
		t.Errorf("%+v", p)
	}
	// GPUs that compute the same wrong pattern agree with each other, and not with the host.
	f = newFake(2)
	f.gpus[0].constant, f.gpus[1].constant = 1, 1
	_, pairs, _ = measured(t, f, request{})
	if p := pairOf(t, pairs, "0000:10:00.0", "0000:20:00.0"); len(p.Checks) == 0 || p.Checks[0].Wrong == 0 {
		t.Errorf("%+v", p)
	}
}

func TestNoPeerAccess(t *testing.T) {
	f := newFake(3)
	f.unreachable = func(g, peer *fakeGPU) bool { return g.address == "0000:20:00.0" && peer.address == "0000:10:00.0" }
	_, pairs, failure := measured(t, f, request{})
	if failure != "" {
		t.Fatal(failure)
	}
	for _, p := range pairs {
		without := p.From != "0000:30:00.0" && p.To != "0000:30:00.0"
		if *p.PeerAccess == without || (p.OneWay == nil) != without || (p.BothWays == nil) != without || (p.Latency == nil) != without || p.Staged == nil || p.Unknown != "" {
			t.Errorf("%+v", p)
		}
		if want := map[bool]int{true: 1, false: 3}[without]; len(p.Checks) != want {
			t.Errorf("%s to %s: %d checks", p.From, p.To, len(p.Checks))
		}
	}
}

var errBroken = &cudaError{call: "cuMemcpyPeerAsync", code: 220, name: "CUDA_ERROR_NVLINK_UNCORRECTABLE", text: "uncorrectable NVLink error"}

// What fails between two GPUs leaves the others be.
func TestPairFails(t *testing.T) {
	for _, call := range []string{"copy", "fill", "compare", "read", "sync", "enable", "delay", "clear"} {
		t.Run(call, func(t *testing.T) {
			f := newFake(3)
			begun := false // of the pair
			f.fault = func(what string, g, to *fakeGPU) error {
				begun = begun || to != nil && g.address == "0000:10:00.0" && to.address == "0000:20:00.0"
				if begun && what == call && g.address != "0000:30:00.0" && (to == nil || to.address != "0000:30:00.0") {
					return errBroken
				}
				return nil
			}
			broken := false
			err := measure(context.Background(), f, request{Size: size}, func(m message) error {
				for _, p := range m.Pairs {
					if p.From == "0000:10:00.0" && p.To == "0000:20:00.0" {
						broken = strings.Contains(p.Unknown, "cuMemcpyPeerAsync failed with CUDA_ERROR_NVLINK_UNCORRECTABLE (220), uncorrectable NVLink error: a link is broken")
						f.fault = nil
					} else if broken && p.Unknown != "" && p.From == "0000:30:00.0" {
						t.Errorf("%s to %s: %s", p.From, p.To, p.Unknown)
					}
				}
				return nil
			})
			if err != nil || !broken {
				t.Errorf("%v, broken %t", err, broken)
			}
		})
	}
}

func TestCannotStart(t *testing.T) {
	notReady := &cudaError{call: "cuDriverGetVersion", code: 802, name: "CUDA_ERROR_SYSTEM_NOT_READY", text: "system not yet initialized"}
	for _, c := range []struct {
		name   string
		change func(*fake)
		asked  request
		want   string
	}{
		{"Fabric Manager does not run", func(f *fake) { f.version = notReady }, request{}, "cuDriverGetVersion failed with CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized: GPUs with NVSwitches wait for nvidia-fabricmanager"},
		{"MIG", func(f *fake) { f.gpus[1].name = "NVIDIA H200 MIG 1g.18gb" }, request{}, "GPU 0000:10:00.0 is split (NVIDIA H200 MIG 1g.18gb), and the parts cannot reach each other: nvidia-smi -mig 0"},
		{"compute mode", func(f *fake) { f.gpus[0].computeMode = computeProhibited }, request{}, "GPU 0000:20:00.0 lets nobody compute (compute mode Prohibited): nvidia-smi -c DEFAULT"},
		{"a GPU that is not there", func(*fake) {}, request{GPUs: []string{"0000:10:00.0", "0000:70:00.0"}}, "CUDA shows no GPU 0000:70:00.0"},
		{"another has the GPU for itself", func(f *fake) {
			f.fault = func(call string, g, _ *fakeGPU) error {
				if call == "open" && g.address == "0000:20:00.0" {
					return &cudaError{call: "cuDevicePrimaryCtxRetain", code: 46, name: "CUDA_ERROR_DEVICE_UNAVAILABLE", text: "CUDA-capable device(s) is/are busy or unavailable"}
				}
				return nil
			}
		}, request{}, "opening GPU 0000:20:00.0: cuDevicePrimaryCtxRetain failed with CUDA_ERROR_DEVICE_UNAVAILABLE (46), CUDA-capable device(s) is/are busy or unavailable: another process has the GPU for itself"},
		{"no room", func(f *fake) { f.gpus[0].free = size }, request{}, "GPU 0000:20:00.0: 192 MiB of memory are free, and 384 MiB are needed: give a smaller --size"},
		{"memory in use", func(f *fake) { f.gpus[1].free = f.gpus[1].memory - 5<<30 }, request{}, "GPU 0000:10:00.0: 5 GiB of memory are in use, by processes that are not to be seen from here: end them, or say --force"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(2)
			c.change(f)
			_, pairs, failure := measured(t, f, c.asked)
			want := strings.NewReplacer("192 MiB", p2p.Bytes(size), "384 MiB", p2p.Bytes(2*size)).Replace(c.want)
			if !strings.HasPrefix(failure, want) || len(pairs) != 0 {
				t.Errorf("%q, want %q", failure, want)
			}
		})
	}
	f := newFake(2)
	f.gpus[0].free -= 5 << 30
	if _, pairs, failure := measured(t, f, request{Force: true}); failure != "" || len(pairs) != 2 {
		t.Errorf("with force: %q, %d pairs", failure, len(pairs))
	}
}

func TestSelection(t *testing.T) {
	gpus, pairs, failure := measured(t, newFake(4), request{GPUs: []string{"0000:20:00.0", "0000:40:00.0"}})
	if failure != "" || len(gpus) != 2 || len(pairs) != 2 || pairs[0].From != "0000:20:00.0" || pairs[0].To != "0000:40:00.0" {
		t.Errorf("%v, %v, %q", gpus, pairs, failure)
	}
	f := newFake(1)
	if gpus, pairs, failure := measured(t, f, request{}); failure != "" || len(gpus) != 1 || len(pairs) != 0 || len(f.calls) != 0 {
		t.Errorf("one GPU: %v, %v, %q, %v", gpus, pairs, failure, f.calls)
	}
}

// A run that is to end frees everything, wherever it is.
func TestInterrupted(t *testing.T) {
	ended := errors.New("SIGTERM")
	for beats := 1; ; beats++ {
		f := newFake(2)
		ctx, cancel := context.WithCancelCause(context.Background())
		n := 0
		err := measure(ctx, f, request{Size: size}, func(m message) error {
			if m.Doing != "" && !strings.HasPrefix(m.Doing, "freeing") {
				if n++; n == beats {
					cancel(ended)
				}
			}
			return nil
		})
		cancel(nil)
		if n < beats {
			if err != nil || beats < 20 {
				t.Errorf("after %d beats: %v", n, err)
			}
			return
		}
		if !errors.Is(err, ended) {
			t.Fatalf("ended at beat %d: %v", beats, err)
		}
		opened := slices.DeleteFunc(slices.Clone(f.calls), func(c string) bool { return !strings.HasPrefix(c, "open") })
		closed := slices.DeleteFunc(slices.Clone(f.calls), func(c string) bool { return !strings.HasPrefix(c, "close") })
		if len(opened) != len(closed) {
			t.Errorf("ended at beat %d: %v", beats, f.calls)
		}
	}
}

func TestPattern(t *testing.T) {
	seen := map[uint64]bool{}
	for _, seed := range []uint64{seedOf(0, 1, 0), seedOf(0, 1, 1), seedOf(1, 0, 0), seedOf(15, 14, 2)} {
		for i := range uint64(10000) {
			w := word(seed, i)
			if w == 0 || seen[w] {
				t.Fatalf("word %d of seed %x: %x", i, seed, w)
			}
			seen[w] = true
		}
	}
	// The largest buffers of two transfers have no words in common: their seeds are further apart.
	seeds := []uint64{}
	for from := range 16 {
		for to := range 16 {
			for kind := range 3 {
				seeds = append(seeds, seedOf(from, to, kind))
			}
		}
	}
	slices.Sort(seeds)
	for i, s := range seeds[1:] {
		if s-seeds[i] < 16<<30/8 {
			t.Errorf("seeds %x and %x", seeds[i], s)
		}
	}
}
