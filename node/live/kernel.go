package live

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"busbar/internal/dcbnl"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnetlink asks this machine's kernel about DCB. It refuses to change anything.
type rtnetlink struct{}

// Exchange sends a GetDCB message.
func (rtnetlink) Exchange(messageType uint16, payload []byte) ([]byte, error) {
	if messageType != dcbnl.GetDCB {
		return nil, fmt.Errorf("a reader sends no message of type %d", messageType)
	}
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

// ethtoolIoctl asks this machine's drivers.
type ethtoolIoctl struct{}

// Ioctl makes the ioctl SIOCETHTOOL (netdevice(7)) for a device that is there: for another name the kernel would
// look for a module (dev_load in net/core/dev_ioctl.c).
func (ethtoolIoctl) Ioctl(netdev string, data []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer shut(fd)
	request := struct { // struct ifreq
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
