package stock_test

import "testing"

// BenchmarkLoadAll loads all stock profiles, as plan does that chooses among them.
func BenchmarkLoadAll(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		l := loader()
		for _, name := range l.Names() {
			if p, diags := l.Load(name); p == nil {
				b.Fatal(diags)
			}
		}
	}
}
