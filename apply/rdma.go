//go:build linux

package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"busbar/plan"
)

// setRDMANetns sets the network namespace mode of RDMA devices. A socket to RDMA netlink would load ib_core, so that there
// is none without the class.
func (r *runner) setRDMANetns(a plan.SetRDMANetns) error {
	if _, err := os.Stat(filepath.Join(r.Root, "/sys/class/infiniband")); err != nil {
		return fmt.Errorf("the kernel has no RDMA: %w", err)
	}
	set := r.RDMANetns
	if set == nil {
		set = netlink.RdmaSystemSetNetnsMode
	}
	err := set(a.Mode)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w (there is another network namespace, of a container or of a service with PrivateNetwork=: lsns -t net lists them; at the next boot ib_core has the mode from the start)", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (this needs CAP_NET_ADMIN in the first user namespace)", err)
	}
	return err
}
