package dcbnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Types of rtnetlink messages (include/uapi/linux/rtnetlink.h).
const (
	GetDCB = 78 // RTM_GETDCB
	SetDCB = 79 // RTM_SETDCB
)

// enum dcbnl_commands.
const (
	cmdGetCapabilities = 11
	cmdIEEESet         = 20
	cmdIEEEGet         = 21
	cmdSetDCBX         = 23
	cmdIEEEDelete      = 27
)

// Attributes: enum dcbnl_attrs, ieee_attrs, ieee_attrs_app and dcbnl_cap_attrs.
const (
	attrIfname       = 1
	attrCapabilities = 9
	attrIEEE         = 13
	attrDCBX         = 14

	ieeeETS        = 1
	ieeePFC        = 2
	ieeeAppTable   = 3
	ieeeMaxRate    = 7
	ieeeBuffer     = 10
	ieeeTrustTable = 11

	appIEEE = 1 // selectors of the standard
	appDCB  = 2 // the kernel's own: PCP

	capabilityAll = 1
	capabilityETS = 2 // priority groups, in the words of the draft standard
	capabilityPFC = 3
)

// Sizes of the structs.
const (
	headerSize = 4 // struct dcbmsg: family, command, padding
	etsSize    = 59
	pfcSize    = 136
	appSize    = 4
	rateSize   = 64
	bufferSize = 44
)

// Flags of an attribute's type (include/uapi/linux/netlink.h).
const (
	flagNested = 0x8000
	typeMask   = 0x3fff // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
)

// native is the byte order of netlink.
var native = binary.NativeEndian

// attribute is a netlink attribute (struct nlattr).
type attribute struct {
	kind  uint16
	value []byte
}

// attributes splits a list of attributes.
func attributes(b []byte) ([]attribute, error) {
	var list []attribute
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, fmt.Errorf("%d bytes are left over behind the attributes", len(b))
		}
		length, kind := int(native.Uint16(b)), native.Uint16(b[2:])&typeMask
		if length < 4 || length > len(b) {
			return nil, fmt.Errorf("attribute %d claims a length of %d, %d bytes are there", kind, length, len(b))
		}
		list = append(list, attribute{kind, b[4:length]})
		b = b[min(aligned(length), len(b)):]
	}
	return list, nil
}

func aligned(n int) int { return (n + 3) &^ 3 }

// appendAttribute adds an attribute with the padding behind it.
func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(4+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, aligned(len(value))-len(value))...)
}

// request is the payload of a request about a network device.
func request(command uint8, netdev string, attributes []byte) []byte {
	b := []byte{0, command, 0, 0} // AF_UNSPEC
	b = appendAttribute(b, attrIfname, append([]byte(netdev), 0))
	return append(b, attributes...)
}

// reply finds the attributes of a reply.
func reply(payload []byte) ([]attribute, error) {
	if len(payload) < headerSize {
		return nil, fmt.Errorf("the reply has %d bytes", len(payload))
	}
	return attributes(payload[headerSize:])
}

// Decode reads the payload of the reply to IEEE_GET. A struct may be longer than it is known
// here, as those of newer kernels can be; one that is shorter is an error.
func Decode(payload []byte) (State, error) {
	s, err := decode(payload)
	if err != nil {
		return State{}, fmt.Errorf("a DCB reply is not understood: %w", err)
	}
	return s, nil
}

func decode(payload []byte) (State, error) {
	var s State
	top, err := reply(payload)
	for _, a := range top {
		if err != nil {
			break
		}
		switch a.kind {
		case attrIEEE:
			err = s.decodeIEEE(a.value)
		case attrDCBX:
			err = long(a.value, "DCBX", 1, func(b []byte) { s.DCBX = new(DCBX(b[0])) })
		}
	}
	return s, err
}

func (s *State) decodeIEEE(b []byte) error {
	list, err := attributes(b)
	for _, a := range list {
		if err != nil {
			break
		}
		switch a.kind {
		case ieeeETS:
			err = long(a.value, "ETS", etsSize, func(b []byte) { s.ETS = decodeETS(b) })
		case ieeePFC:
			err = long(a.value, "PFC", pfcSize, func(b []byte) {
				s.PFC = &PFC{Capacity: b[0], Enabled: Priorities(b[1]), MACsecBypass: b[2], Delay: native.Uint16(b[4:])}
			})
		case ieeeMaxRate:
			err = long(a.value, "the rate limits", rateSize, func(b []byte) {
				s.MaxRate = new(MaxRate)
				for i := range s.MaxRate {
					s.MaxRate[i] = native.Uint64(b[8*i:])
				}
			})
		case ieeeBuffer:
			err = long(a.value, "the buffers", bufferSize, func(b []byte) {
				s.Buffer = &Buffer{PriorityBuffer: [8]byte(b), Total: native.Uint32(b[40:])}
				for i := range s.Buffer.Sizes {
					s.Buffer.Sizes[i] = native.Uint32(b[8+4*i:])
				}
			})
		case ieeeAppTable:
			s.Apps, err = decodeApps(a.value)
		case ieeeTrustTable:
			s.TrustOrder, err = decodeTrustOrder(a.value)
		}
	}
	return err
}

// long hands on a struct that has at least size bytes.
func long(b []byte, what string, size int, decode func([]byte)) error {
	if len(b) < size {
		return fmt.Errorf("%s: %d bytes, at least %d are needed", what, len(b), size)
	}
	decode(b)
	return nil
}

func decodeETS(b []byte) *ETS {
	array := func(at int) [8]uint8 { return [8]uint8(b[at:]) }
	algorithms := func(at int) (list [8]TSA) {
		for i, v := range array(at) {
			list[i] = TSA(v)
		}
		return list
	}
	return &ETS{
		Willing: b[0], Classes: b[1], CreditShaper: b[2],
		TxBandwidth: array(3), RxBandwidth: array(11), Algorithms: algorithms(19), PriorityClass: array(27),
		RecommendedBandwidth: array(35), RecommendedAlgorithms: algorithms(43), RecommendedPriorityClass: array(51),
	}
}

func decodeApps(b []byte) ([]App, error) {
	list, err := attributes(b)
	if err != nil {
		return nil, fmt.Errorf("in the APP table: %w", err)
	}
	apps := []App{}
	for _, a := range list {
		if a.kind != appIEEE && a.kind != appDCB {
			continue
		}
		err := long(a.value, "an APP entry", appSize, func(b []byte) {
			apps = append(apps, App{Selector: Selector(b[0]), Priority: b[1], Protocol: native.Uint16(b[2:])})
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(apps, CompareApps)
	return apps, nil
}

func decodeTrustOrder(b []byte) (TrustOrder, error) {
	list, err := attributes(b)
	if err != nil {
		return nil, fmt.Errorf("in the trust table: %w", err)
	}
	order := TrustOrder{}
	for _, a := range list {
		err := long(a.value, "a trusted selector", 1, func(b []byte) { order = append(order, Selector(b[0])) })
		if err != nil {
			return nil, err
		}
	}
	return order, nil
}

func encodeETS(e ETS) []byte {
	b := []byte{e.Willing, e.Classes, e.CreditShaper}
	algorithms := func(list [8]TSA) {
		for _, t := range list {
			b = append(b, byte(t))
		}
	}
	b = append(b, e.TxBandwidth[:]...)
	b = append(b, e.RxBandwidth[:]...)
	algorithms(e.Algorithms)
	b = append(b, e.PriorityClass[:]...)
	b = append(b, e.RecommendedBandwidth[:]...)
	algorithms(e.RecommendedAlgorithms)
	return append(b, e.RecommendedPriorityClass[:]...)
}

func encodePFC(p PFC) []byte {
	b := make([]byte, pfcSize)
	b[0], b[1], b[2] = p.Capacity, byte(p.Enabled), p.MACsecBypass
	native.PutUint16(b[4:], p.Delay)
	return b
}

func encodeMaxRate(m MaxRate) []byte {
	b := make([]byte, 0, rateSize)
	for _, rate := range m {
		b = native.AppendUint64(b, rate)
	}
	return b
}

func encodeBuffer(f Buffer) []byte {
	b := slices.Clone(f.PriorityBuffer[:])
	for _, size := range f.Sizes {
		b = native.AppendUint32(b, size)
	}
	return native.AppendUint32(b, f.Total)
}

// encodeApp is the attribute of one entry.
func encodeApp(a App) []byte {
	b := []byte{byte(a.Selector), a.Priority}
	return appendAttribute(nil, appKind(a.Selector), native.AppendUint16(b, a.Protocol))
}

func encodeTrustOrder(order TrustOrder) []byte {
	var b []byte
	for _, s := range order {
		b = appendAttribute(b, appKind(s), []byte{byte(s)})
	}
	return b
}

// appKind is the attribute that carries entries of a selector (dcbnl_app_attr_type_get).
func appKind(s Selector) uint16 {
	if s == PCP {
		return appDCB
	}
	return appIEEE
}

// status finds the one byte of the attribute with which the kernel says how a change went.
func status(payload []byte, kind uint16) (byte, error) {
	list, err := reply(payload)
	if err != nil {
		return 0, err
	}
	for _, a := range list {
		if a.kind == kind && len(a.value) > 0 {
			return a.value[0], nil
		}
	}
	return 0, errors.New("the reply does not say how it went")
}
