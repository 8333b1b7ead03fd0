//go:build linux

// Package nic changes a NIC's port and how it treats traffic: the link and DCB over rtnetlink, flow control over the
// ioctl SIOCETHTOOL.
//
// All name a network device, and names change: whoever calls reads the name, and what is to be changed, just before, and
// reads back afterwards. What is as wanted already must not be sent: mlx5_core and ice take the link
// down when PFC changes, and ice refuses the DCBX mode that is set.
package nic

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Kernel is the running kernel.
type Kernel struct{}

// SetMTU sets the MTU in bytes.
func (Kernel) SetMTU(netdev string, mtu int) error {
	err := onLink(netdev, func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) {
		return fmt.Errorf("setting the MTU of %s to %d: %w (the driver or firmware takes no such MTU: see maxmtu of ip -d link)", netdev, mtu, err)
	}
	return during(fmt.Sprintf("setting the MTU of %s to %d", netdev, mtu), err)
}

// SetUp sets whether the network device is administratively up.
func (Kernel) SetUp(netdev string, up bool) error {
	word, set := "down", netlink.LinkSetDown
	if up {
		word, set = "up", netlink.LinkSetUp
	}
	return during(fmt.Sprintf("setting %s %s", netdev, word), onLink(netdev, set))
}

func onLink(netdev string, set func(netlink.Link) error) error {
	l, err := netlink.LinkByName(netdev)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return unix.ENODEV
	}
	if err != nil {
		return err
	}
	return set(l)
}

// during says what was being done when an error came, and what that means.
func during(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, explained(err))
}

// ChangeDCB makes changes one after the other and stops at the first that is refused, a *dcbnl.RefusedError.
func (Kernel) ChangeDCB(netdev string, changes []dcbnl.Message) error {
	for _, m := range changes {
		if err := dcbnl.Send(rtnetlink{}, netdev, m); err != nil {
			return err
		}
	}
	return nil
}

// SetPause sets flow control of the whole link.
func (Kernel) SetPause(netdev string, p ethtool.Pause) error {
	err := ethtool.SetPause(ioctl{}, netdev, p)
	if errors.Is(err, unix.EINVAL) && p.Autonegotiate {
		return fmt.Errorf("%w (mlx5_core does not negotiate pause)", err)
	}
	return explained(err)
}

// SetPFCStormPrevention sets for how many milliseconds the port may hold back its peer without a break; 0 is for
// ever, ethtool.StormPreventionAuto the driver's own.
func (Kernel) SetPFCStormPrevention(netdev string, milliseconds uint16) error {
	err := ethtool.SetPFCStormPrevention(ioctl{}, netdev, milliseconds)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w (mlx5_core takes 0, %d and 80 to 8000; other drivers have none)", err, ethtool.StormPreventionAuto)
	}
	return explained(err)
}

// explained says what an error of ethtool means.
func explained(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w (the driver has none, or it is a virtual function)", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (this needs CAP_NET_ADMIN)", err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w (it was renamed or removed meanwhile)", err)
	default:
		return err
	}
}

// rtnetlink is a dcbnl.Conn to the kernel.
type rtnetlink struct{}

// Exchange sends a message.
func (rtnetlink) Exchange(messageType uint16, payload []byte) ([]byte, error) {
	req := nl.NewNetlinkRequest(int(messageType), 0)
	req.AddRawData(payload)
	replies, err := req.Execute(unix.NETLINK_ROUTE, messageType)
	var errno unix.Errno
	switch {
	case errors.As(err, &errno):
		return nil, dcbnl.KernelError(errno)
	case err != nil:
		return nil, err
	case len(replies) != 1:
		return nil, fmt.Errorf("the kernel sent %d replies", len(replies))
	default:
		return replies[0], nil
	}
}

// ioctl is an ethtool.Conn to the kernel.
type ioctl struct{}

// Ioctl makes the ioctl SIOCETHTOOL (netdevice(7)).
func (ioctl) Ioctl(netdev string, data []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing can be lost
	request := struct {                   // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(unsafe.SliceData(data))}
	if copy(request.name[:unix.IFNAMSIZ-1], netdev) < len(netdev) {
		return unix.ENODEV
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(data)
	if errno != 0 {
		return errno
	}
	return nil
}
