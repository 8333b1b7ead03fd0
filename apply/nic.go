//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	kernel "busbar/apply/nic"
	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
	"busbar/plan"

	"golang.org/x/sys/unix"
)

// Ports changes the ports of NICs, which it knows by the names of their network devices.
type Ports interface {
	SetMTU(netdev string, mtu int) error
	SetUp(netdev string, up bool) error
	// ChangeDCB makes changes in their order, and stops at the first that is refused.
	ChangeDCB(netdev string, changes []dcbnl.Message) error
	SetPause(netdev string, p ethtool.Pause) error
	SetPFCStormPrevention(netdev string, milliseconds uint16) error
}

// ports are those of the Options, or the kernel's.
func (r *runner) ports() Ports {
	if r.Ports != nil {
		return r.Ports
	}
	return kernel.Kernel{}
}

// setPort changes a port of a NIC, unless it is protected. Names are those that were read just before.
func (r *runner) setPort(ctx context.Context, action plan.NICAction, now node.Facts) error {
	port := action.Port()
	if why := now.Inventory.PortRefusal(port.NIC); why != "" && !port.AllowProtected {
		return fmt.Errorf("NIC %s is not touched: %s", port.NIC, why)
	}
	link, _ := node.Link.Get(now, port.NIC).Get()
	dcb, _ := node.DCB.Get(now, port.NIC).Get()
	flow, _ := node.FlowControl.Get(now, port.NIC).Get()
	roce, _ := node.RoCE.Get(now, port.NIC).Get()
	switch a := action.(type) {
	case plan.SetLink:
		return r.setLink(a, link)
	case plan.SetPause:
		return r.ports().SetPause(flow.Netdev, ethtool.Pause{Rx: a.Rx, Tx: a.Tx})
	case plan.SetStormPrevention:
		return r.ports().SetPFCStormPrevention(flow.Netdev, uint16(a.Milliseconds))
	case plan.SetDCBX:
		d, _ := dcb.DCBX.Get()
		return r.ports().ChangeDCB(dcb.Netdev, d.Changes(a.Mode()))
	case plan.SetDSCPMap:
		return r.setDSCPMap(ctx, a, dcb, now)
	case plan.SetPFC:
		p, _ := dcb.PFC.Get()
		return r.ports().ChangeDCB(dcb.Netdev, p.Changes(a.Enabled, 0))
	case plan.SetECN:
		return r.setECN(a, roce)
	case plan.SetCNP:
		return r.setCNP(a, roce)
	case plan.SetTrafficClass:
		return r.setAttribute(roce.TrafficClass.Source().Path, a.Class)
	case plan.SetConnectionDefaults:
		return r.setConnectionDefaults(a, roce)
	default:
		return fmt.Errorf("this version does not know how to %s", action.Kind())
	}
}

// setLink sets what differs: a driver may close a port for an MTU that it has.
func (r *runner) setLink(a plan.SetLink, link node.LinkState) error {
	if mtu, _ := link.MTU.Get(); a.MTU != 0 && mtu != a.MTU {
		if err := r.ports().SetMTU(link.Netdev, a.MTU); err != nil {
			return err
		}
	}
	if up, _ := link.Up.Get(); a.State != "" && up != (a.State == "up") {
		return r.ports().SetUp(link.Netdev, a.State == "up")
	}
	return nil
}

// setDSCPMap changes the trust where MLNX_OFED has a file for it, which fills the APP table, and then the table. On other
// drivers the trust follows from the table.
func (r *runner) setDSCPMap(ctx context.Context, a plan.SetDSCPMap, dcb node.DCBState, now node.Facts) error {
	trust, _ := dcb.Trust.Get()
	if file := dcb.Trust.Source().Path; trust != node.TrustDSCP && path.Base(file) == "trust" {
		if err := r.writeAttribute(file, node.TrustDSCP); err != nil {
			return err
		}
		v := node.DCB.Get(r.read(ctx, now.Inventory, a.Queries()), a.NIC)
		again, ok := v.Get()
		if !ok {
			return fmt.Errorf("after the trust was changed: %s", v.Reason())
		}
		dcb = again
	}
	apps, _ := dcb.Apps.Get()
	return r.ports().ChangeDCB(dcb.Netdev, dcbnl.AppChanges(apps, a.Apps(apps), dcb.Driver))
}

// setECN enables what is not: the driver answers EPERM to a priority that is enabled already.
func (r *runner) setECN(a plan.SetECN, roce node.RoCEState) error {
	for _, point := range []node.Value[dcbnl.Priorities]{roce.NotificationPoint, roce.ReactionPoint} {
		on, _ := point.Get()
		for _, priority := range (a.Priorities &^ on).List() {
			if err := r.setAttribute(path.Join(point.Source().Path, strconv.Itoa(priority)), 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runner) setCNP(a plan.SetCNP, roce node.RoCEState) error {
	dscp, priority := plan.CNP(roce)
	if n, _ := dscp.Get(); n != a.DSCP {
		if err := r.setAttribute(dscp.Source().Path, a.DSCP); err != nil {
			return err
		}
	}
	if n, _ := priority.Get(); n != a.Priority {
		file := priority.Source().Path
		if path.Base(file) == plan.CCParamCNPPriorityMode {
			file = path.Join(path.Dir(file), plan.CCParamCNPPriority)
		}
		return r.setAttribute(file, a.Priority)
	}
	return nil
}

// setConnectionDefaults writes them into the directory of the RDMA device, which it makes where there is none
// (drivers/infiniband/core/cma_configfs.c). What it made and could not write into it takes away again.
func (r *runner) setConnectionDefaults(a plan.SetConnectionDefaults, roce node.RoCEState) (err error) {
	device, _, _ := strings.Cut(roce.RDMA, "/")
	tos := roce.DefaultToS.Source().Path
	above := path.Dir(path.Dir(path.Dir(path.Dir(tos))))
	dir := filepath.Join(r.Root, above, device)
	made := os.Mkdir(dir, 0o755)
	switch {
	case made == nil:
		defer func() {
			if err != nil {
				err = errors.Join(err, os.Remove(dir))
			}
		}()
	case errors.Is(made, fs.ErrExist):
	case errors.Is(made, fs.ErrNotExist):
		return fmt.Errorf("%w: load module rdma_cm, and mount configfs on /sys/kernel/config", made)
	case errors.Is(made, unix.ENODEV):
		return fmt.Errorf("%w (rdma_cm knows no RDMA device of this name: it was renamed or removed meanwhile)", made)
	default:
		return made
	}
	if err := r.setAttribute(tos, a.ToS); err != nil {
		return err
	}
	return r.writeAttribute(path.Join(path.Dir(tos), "default_roce_mode"), a.Mode)
}

func (r *runner) setAttribute(file string, n int) error {
	return r.writeAttribute(file, strconv.Itoa(n))
}

// writeAttribute writes a file of sysfs, configfs or debugfs, which takes a value in one write(2).
func (r *runner) writeAttribute(file, text string) error {
	f, err := os.OpenFile(filepath.Join(r.Root, file), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text + "\n")
		err = errors.Join(err, f.Close())
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("writing %q: %w (the driver or the device does not take this value)", text, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("writing %q: %w (this needs root outside of user namespaces; a kernel in lockdown lets nobody write into debugfs)", text, err)
	default:
		return fmt.Errorf("writing %q: %w", text, err)
	}
}
