package confdir

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	dirs := []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d"}
	got := Merge([]File{
		{Path: "/usr/lib/sysctl.d/50-default.conf", Text: "vendor"},
		{Path: "/usr/lib/sysctl.d/10-a.conf", Text: "a"},
		{Path: "/etc/sysctl.d/50-default.conf", Text: "local"},
		{Path: "/run/sysctl.d/50-default.conf", Text: "runtime"},
		{Path: "/etc/sysctl.d/99-z.conf", Reason: "permission denied"},
		{Path: "/etc/other/99-z.conf", Text: "elsewhere"},
	}, dirs)
	want := []File{
		{Path: "/usr/lib/sysctl.d/10-a.conf", Text: "a"},
		{Path: "/etc/sysctl.d/50-default.conf", Text: "local"},
		{Path: "/etc/sysctl.d/99-z.conf", Reason: "permission denied"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
