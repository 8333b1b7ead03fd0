package initramfs

import (
	"bytes"
	"os"
	"testing"
)

// BenchmarkRead reads a whole image: BUSBAR_INITRAMFS names one.
func BenchmarkRead(b *testing.B) {
	name := os.Getenv("BUSBAR_INITRAMFS")
	if name == "" {
		b.Skip("BUSBAR_INITRAMFS is not set: it names an image")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		image, err := Read(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(image.Modules)), "modules")
	}
}
