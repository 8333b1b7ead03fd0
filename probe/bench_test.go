package probe

import (
	"context"
	"testing"
)

// BenchmarkMeasure is what the probe itself takes for a pair of GPUs that answer at once: all of a run over two of them, but for
// CUDA's start and the copies.
func BenchmarkMeasure(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		pairs := 0
		err := measure(context.Background(), newFake(2), request{Size: size}, func(m message) error {
			pairs += len(m.Pairs)
			return nil
		})
		if err != nil || pairs != 2 {
			b.Fatalf("%d pairs, %v", pairs, err)
		}
	}
}

// BenchmarkRun is a whole run on this machine with copies so small that they take no time: the child, CUDA's start, buffers,
// peer access, comparisons and the end.
func BenchmarkRun(b *testing.B) {
	if !Loaded() {
		b.Skip("the NVIDIA driver is not loaded")
	}
	var pairs int
	for b.Loop() {
		r, err := Run(context.Background(), Options{Size: 1 << 20})
		if err != nil || r.Unknown != "" || len(r.Pairs) == 0 {
			b.Fatalf("%d pairs, %q, %v", len(r.Pairs), r.Unknown, err)
		}
		pairs = len(r.Pairs)
	}
	b.ReportMetric(float64(pairs), "pairs")
}
