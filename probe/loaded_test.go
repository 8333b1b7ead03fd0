package probe

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLoaded(t *testing.T) {
	for _, c := range []struct {
		file string
		want bool
	}{{"proc/driver/nvidia/version", true}, {"dev/nvidiactl", true}, {"dev/null", false}} {
		root := t.TempDir()
		file := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := loaded(root); got != c.want {
			t.Errorf("%s: %t", c.file, got)
		}
	}
}
