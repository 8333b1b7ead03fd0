package node_test

import (
	"testing"

	"busbar/node"
)

func TestKernelAtLeast(t *testing.T) {
	for _, tt := range []struct {
		release      string
		major, minor int
		want         string
	}{
		{"6.8.0-45-generic", 5, 12, "yes"},
		{"5.14.0-427.13.1.el9_4.x86_64", 5, 12, "yes"},
		{"5.12-rc1", 5, 12, "yes"},
		{"5.4.0-150-generic", 5, 12, "no"},
		{"4.18.0-553.el8_10.x86_64", 5, 12, "no"},
		{"6.2.0+", 6, 2, "yes"},
		{"6.1.0", 6, 2, "no"},
		{"10.0.0", 6, 2, "yes"},
		{"6", 6, 2, "?"},
		{"6.x", 6, 2, "?"},
		{"", 6, 2, "?"},
	} {
		inv := node.Inventory{Kernel: node.Known(tt.release, node.Source{Call: "uname"})}
		got := "?"
		if yes, ok := inv.KernelAtLeast(tt.major, tt.minor).Get(); ok {
			got = map[bool]string{true: "yes", false: "no"}[yes]
		}
		if got != tt.want {
			t.Errorf("%q is %d.%d or newer: %s, want %s", tt.release, tt.major, tt.minor, got, tt.want)
		}
	}
	if v := (node.Inventory{}).KernelAtLeast(5, 12); v.IsKnown() || v.Reason() == "" {
		t.Errorf("of no kernel: %v", v)
	}
}
