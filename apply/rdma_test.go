//go:build linux

package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestRDMANetns(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*machine)
		want   string // what the step's error says; empty for none
	}{
		"set":                       {func(*machine) {}, ""},
		"another network namespace": {func(m *machine) { m.netnsError = unix.EBUSY }, "lsns -t net"},
		"not permitted":             {func(m *machine) { m.netnsError = unix.EPERM }, "CAP_NET_ADMIN"},
		"another error":             {func(m *machine) { m.netnsError = unix.EIO }, "input/output error"},
		"no RDMA":                   {func(m *machine) { must(os.Remove(filepath.Join(m.root, "/sys/class/infiniband"))) }, "the kernel has no RDMA"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tt.change(m)
			result := applyOn(t, m.options(m.plan(only("ib_core"))))
			outcome, mode := "done", "N\n"
			if tt.want != "" {
				outcome, mode = "failed", "Y\n"
			}
			if diff := cmp.Diff([]string{"set-rdma-netns:ib_core " + outcome}, outcomes(result)); diff != "" {
				t.Errorf("steps (-want +got):\n%s%s", diff, errorsOf(result))
			}
			if !strings.Contains(errorsOf(result), tt.want) {
				t.Errorf("%q is not in %s", tt.want, errorsOf(result))
			}
			if got := m.text("/sys/module/ib_core/parameters/netns_mode"); got != mode {
				t.Errorf("the mode is %q", got)
			}
		})
	}
}
