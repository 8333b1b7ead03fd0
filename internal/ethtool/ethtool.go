// Package ethtool speaks the few ioctl commands of SIOCETHTOOL that tell and set how a port controls
// its flow. Numbers and layouts are those of include/uapi/linux/ethtool.h.
//
// It encodes and decodes only; a Conn carries the commands. The PFC storm prevention can be reached
// in no other way: neither ethtool's netlink family nor a Go library has tunables.
package ethtool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// Conn carries a command to the kernel.
type Conn interface {
	// Ioctl makes the ioctl SIOCETHTOOL for a network device. Data is the command's struct; the kernel
	// writes its answer there. The error is the system call's.
	Ioctl(netdev string, data []byte) error
}

// The commands.
const (
	cmdGetDriver  = 0x03 // ETHTOOL_GDRVINFO
	cmdGetPause   = 0x12 // ETHTOOL_GPAUSEPARAM
	cmdSetPause   = 0x13 // ETHTOOL_SPAUSEPARAM
	cmdGetTunable = 0x48 // ETHTOOL_GTUNABLE
	cmdSetTunable = 0x49 // ETHTOOL_STUNABLE
)

const (
	driverSize  = 196 // struct ethtool_drvinfo
	pauseSize   = 16  // struct ethtool_pauseparam
	tunableSize = 18  // struct ethtool_tunable with a value of 2 bytes

	tunablePFCPrevention = 3 // ETHTOOL_PFC_PREVENTION_TOUT, Linux 4.17
	tunableU16           = 2 // ETHTOOL_TUNABLE_U16
)

// The timeouts of PFC storm prevention that are none.
const (
	StormPreventionOff  = 0
	StormPreventionAuto = 0xffff // the driver's own: 100 ms on mlx5_core; read back as that
)

var native = binary.NativeEndian

// Driver says what runs a port.
type Driver struct {
	// Name of the driver: mlx5_core.
	Name string
	// Firmware is its version as the driver words it: "28.39.1002 (MT_0000000838)"; may be empty.
	Firmware string
}

// GetDriver asks for the driver of a network device. It needs no privilege.
func GetDriver(c Conn, netdev string) (Driver, error) {
	b := make([]byte, driverSize)
	native.PutUint32(b, cmdGetDriver)
	if err := c.Ioctl(netdev, b); err != nil {
		return Driver{}, fmt.Errorf("reading the driver of %s: %w", netdev, err)
	}
	return Driver{Name: text(b[4:36]), Firmware: text(b[68:100])}, nil
}

// text is a string of C.
func text(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\ufffd"))
}

// Pause is flow control of the whole link (802.3x), which holds back all priorities.
type Pause struct {
	// Autonegotiate: what follows is what is offered to the peer, not what is in force.
	Autonegotiate bool `json:"autonegotiate"`
	Rx            bool `json:"rx"`
	Tx            bool `json:"tx"`
}

// String is "rx off, tx off", with "autonegotiated" where it is.
func (p Pause) String() string {
	word := map[bool]string{false: "off", true: "on"}
	s := "rx " + word[p.Rx] + ", tx " + word[p.Tx]
	if p.Autonegotiate {
		s += ", autonegotiated"
	}
	return s
}

// GetPause asks for the flow control of the link. It needs no privilege; EOPNOTSUPP: the driver has none.
func GetPause(c Conn, netdev string) (Pause, error) {
	b := make([]byte, pauseSize)
	native.PutUint32(b, cmdGetPause)
	if err := c.Ioctl(netdev, b); err != nil {
		return Pause{}, fmt.Errorf("reading pause of %s: %w", netdev, err)
	}
	set := func(at int) bool { return native.Uint32(b[at:]) != 0 }
	return Pause{Autonegotiate: set(4), Rx: set(8), Tx: set(12)}, nil
}

// SetPause sets the flow control of the link. mlx5_core answers EINVAL to Autonegotiate and EOPNOTSUPP on virtual
// functions.
func SetPause(c Conn, netdev string, p Pause) error {
	b := make([]byte, pauseSize)
	native.PutUint32(b, cmdSetPause)
	for i, on := range []bool{p.Autonegotiate, p.Rx, p.Tx} {
		if on {
			native.PutUint32(b[4+4*i:], 1)
		}
	}
	if err := c.Ioctl(netdev, b); err != nil {
		return fmt.Errorf("setting pause of %s to %s: %w", netdev, p, err)
	}
	return nil
}

// tunable is struct ethtool_tunable about PFC storm prevention.
func tunable(cmd uint32, value uint16) []byte {
	b := make([]byte, tunableSize)
	for i, field := range []uint32{cmd, tunablePFCPrevention, tunableU16, 2} {
		native.PutUint32(b[4*i:], field)
	}
	native.PutUint16(b[16:], value)
	return b
}

// GetPFCStormPrevention asks how many milliseconds the port may hold back its peer without a break before it stops
// to; 0 is for ever. It needs no privilege. EOPNOTSUPP and EINVAL: the driver has no such
// tunable.
func GetPFCStormPrevention(c Conn, netdev string) (uint16, error) {
	b := tunable(cmdGetTunable, 0)
	if err := c.Ioctl(netdev, b); err != nil {
		return 0, fmt.Errorf("reading the PFC storm prevention of %s: %w", netdev, err)
	}
	return native.Uint16(b[16:]), nil
}

// SetPFCStormPrevention sets it, in milliseconds. mlx5_core answers EINVAL to what is neither 0, nor auto, nor
// from 80 to 8000.
func SetPFCStormPrevention(c Conn, netdev string, milliseconds uint16) error {
	if err := c.Ioctl(netdev, tunable(cmdSetTunable, milliseconds)); err != nil {
		return fmt.Errorf("setting the PFC storm prevention of %s to %d ms: %w", netdev, milliseconds, err)
	}
	return nil
}
