package dcbnl

import (
	"errors"
	"fmt"
)

// Conn carries one request to the kernel.
type Conn interface {
	// Exchange sends a message of type GetDCB or SetDCB with the flag NLM_F_REQUEST and returns the
	// payload of the one reply. Both payloads begin with struct dcbmsg. Where the reply is an
	// NLMSG_ERROR, the error is its KernelError.
	Exchange(messageType uint16, payload []byte) ([]byte, error)
}

// KernelError is an error number of the kernel (include/uapi/asm-generic/errno-base.h, errno.h).
type KernelError uint16

// The error numbers that the kernel or a driver answers with.
const (
	EPERM      KernelError = 1
	ENOENT     KernelError = 2
	EIO        KernelError = 5
	ENOMEM     KernelError = 12
	EBUSY      KernelError = 16
	EEXIST     KernelError = 17
	ENODEV     KernelError = 19
	EINVAL     KernelError = 22
	ERANGE     KernelError = 34
	EOPNOTSUPP KernelError = 95
)

var errnoTexts = map[KernelError]string{
	EPERM: "operation not permitted", ENOENT: "no such entry", EIO: "input/output error", ENOMEM: "cannot allocate memory", EBUSY: "device or resource busy",
	EEXIST: "the entry exists", ENODEV: "no such network device", EINVAL: "invalid argument", ERANGE: "out of range", EOPNOTSUPP: "operation not supported",
}

// Error is the number in words.
func (e KernelError) Error() string {
	if text, ok := errnoTexts[e]; ok {
		return text
	}
	return fmt.Sprintf("errno %d", uint16(e))
}

// ErrNoOperations says that the driver takes no part in DCB at all. That is so of loopback, bonds, VLANs
// and virtual functions.
var ErrNoOperations = errors.New("the driver has no DCB operations")

// Get asks for the state of the network device named netdev. It needs no privilege. The error is
// ErrNoOperations, or a KernelError: ENODEV when there is no such device.
func Get(c Conn, netdev string) (State, error) {
	payload, err := c.Exchange(GetDCB, request(cmdIEEEGet, netdev, nil))
	switch {
	case errors.Is(err, EOPNOTSUPP):
		return State{}, fmt.Errorf("reading DCB of %s: %w", netdev, ErrNoOperations)
	case err != nil:
		return State{}, fmt.Errorf("reading DCB of %s: %w", netdev, err)
	}
	s, err := Decode(payload)
	if err != nil {
		return State{}, fmt.Errorf("reading DCB of %s: %w", netdev, err)
	}
	return s, nil
}

// Claims are operations that a driver says it has.
type Claims struct{ ETS, PFC bool }

// GetClaims asks the driver what it has (DCB_CMD_GCAP). Get shows neither an operation that the driver
// lacks nor one that failed; one that it claims has failed. Drivers need not answer:
// mlx5_core and ice do, bnxt_en does not, and the error is EOPNOTSUPP.
func GetClaims(c Conn, netdev string) (Claims, error) {
	all := appendAttribute(nil, capabilityAll, nil)
	payload, err := c.Exchange(GetDCB, request(cmdGetCapabilities, netdev, appendAttribute(nil, attrCapabilities|flagNested, all)))
	var claims Claims
	if err == nil {
		claims, err = decodeClaims(payload)
	}
	if err != nil {
		return Claims{}, fmt.Errorf("asking the driver of %s for its DCB capabilities: %w", netdev, err)
	}
	return claims, nil
}

func decodeClaims(payload []byte) (Claims, error) {
	var claims Claims
	top, err := reply(payload)
	if err != nil {
		return claims, err
	}
	for _, a := range top {
		if a.kind != attrCapabilities {
			continue
		}
		list, err := attributes(a.value)
		if err != nil {
			return Claims{}, err
		}
		for _, c := range list {
			yes := len(c.value) > 0 && c.value[0] != 0
			switch c.kind {
			case capabilityETS:
				claims.ETS = yes
			case capabilityPFC:
				claims.PFC = yes
			}
		}
	}
	return claims, nil
}
