package pciregs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// The registers of the PCI Express capability.
const (
	flagsOffset         = 0x02
	deviceCapOffset     = 0x04
	deviceControlOffset = 0x08
	linkCapOffset       = 0x0c
	linkStatusOffset    = 0x12
	linkCap2Offset      = 0x2c

	versionMask          = 0x0f
	versionWithLinkCap2  = 2
	portTypeShift        = 4
	portTypeMask         = 0x0f
	payloadSupportedMask = 0x07
	relaxedOrderingBit   = 0x0010
	payloadShift         = 5
	readRequestShift     = 12
	readRequestMask      = 0x7000
	sizeMask             = 0x07
	largestSizeCode      = 5
	smallestSize         = 128
	linkSpeedMask        = 0x0f
	linkSpeedVector      = 0xfe
	linkWidthShift       = 4
	linkWidthMask        = 0x3f
)

// The registers of the capabilities ACS and ATS.
const (
	extendedCapOffset     = 0x04
	extendedControlOffset = 0x06
	atsEnableBit          = 0x8000
)

// The types of PCI Express ports.
const (
	Endpoint             = "endpoint"
	LegacyEndpoint       = "legacy-endpoint"
	RootPort             = "root-port"
	UpstreamPort         = "upstream-port"
	DownstreamPort       = "downstream-port"
	ExpressToPCIBridge   = "pcie-to-pci-bridge"
	PCIToExpressBridge   = "pci-to-pcie-bridge"
	RootComplexEndpoint  = "root-complex-endpoint"
	RootComplexCollector = "root-complex-event-collector"
)

var portTypes = map[uint16]string{
	0x0: Endpoint, 0x1: LegacyEndpoint, 0x4: RootPort, 0x5: UpstreamPort, 0x6: DownstreamPort,
	0x7: ExpressToPCIBridge, 0x8: PCIToExpressBridge, 0x9: RootComplexEndpoint, 0xa: RootComplexCollector,
}

// Express is what is named of the PCI Express capability. The zero Express is that of a
// conventional PCI function.
type Express struct {
	// Present: the function has the capability.
	Present bool `json:"present"`
	// PortType is one of the port types above.
	PortType string `json:"port_type,omitempty"`
	// MaxPayloadSupported is the largest payload that the function can take, and
	// MaxPayload the one that it may send; in bytes, 128 to 4096.
	MaxPayloadSupported int `json:"max_payload_supported,omitempty"`
	MaxPayload          int `json:"max_payload,omitempty"`
	// MaxReadRequest is the largest read that the function may ask for, in bytes, 128 to
	// 4096. A virtual function shows 128, and takes its physical function's.
	MaxReadRequest int `json:"max_read_request,omitempty"`
	// RelaxedOrdering: the function may mark its transactions as freely ordered.
	RelaxedOrdering bool `json:"relaxed_ordering,omitempty"`
}

// Express reads the PCI Express capability.
func (s *Space) Express() (Express, error) {
	at, err := s.findExpress()
	if err != nil || at == 0 {
		return Express{}, err
	}
	b, err := s.read(at, deviceControlOffset+2)
	if err != nil {
		return Express{}, err
	}
	le := binary.LittleEndian
	flags, capability, control := le.Uint16(b[flagsOffset:]), le.Uint32(b[deviceCapOffset:]), le.Uint16(b[deviceControlOffset:])
	if capability == allOnes32 {
		return Express{}, errGone
	}
	e := Express{Present: true, RelaxedOrdering: control&relaxedOrderingBit != 0}
	if e.PortType = portTypes[flags>>portTypeShift&portTypeMask]; e.PortType == "" {
		return Express{}, fmt.Errorf("its port type %#x is reserved", flags>>portTypeShift&portTypeMask)
	}
	for _, field := range []struct {
		into *int
		code int
		name string
	}{
		{&e.MaxPayloadSupported, int(capability & payloadSupportedMask), "supported payload"},
		{&e.MaxPayload, int(control >> payloadShift & sizeMask), "payload"},
		{&e.MaxReadRequest, int(control >> readRequestShift & sizeMask), "read request"},
	} {
		if field.code > largestSizeCode {
			return Express{}, fmt.Errorf("its code %d of the maximum %s is reserved", field.code, field.name)
		}
		*field.into = smallestSize << field.code
	}
	return e, nil
}

// ACSBits is a set of ACS functions (Access Control Services). In JSON it is the list
// of their names, in order.
type ACSBits uint16

// The ACS functions, named as lspci(8) has them.
const (
	SrcValid    ACSBits = 1 << iota // Source Validation
	TransBlk                        // Translation Blocking
	ReqRedir                        // Peer-to-Peer Request Redirect
	CmpltRedir                      // Peer-to-Peer Completion Redirect
	UpstreamFwd                     // Upstream Forwarding
	EgressCtrl                      // Peer-to-Peer Egress Control
	DirectTrans                     // Direct Translated Peer-to-Peer

	// Redirect are the functions that send traffic between peers up to the root complex, or
	// block it. SrcValid is none of them.
	Redirect = ReqRedir | CmpltRedir | UpstreamFwd | EgressCtrl
)

var acsNames = [...]string{"SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans"}

const allACS = ACSBits(1)<<len(acsNames) - 1

// Names lists the functions in b, in lspci's order.
func (b ACSBits) Names() []string {
	names := []string{}
	for i, name := range acsNames {
		if b&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String is lspci's ACSCtl line: every function with + or -.
func (b ACSBits) String() string {
	marks := make([]string, len(acsNames))
	for i, name := range acsNames {
		marks[i] = name + "-"
		if b&(1<<i) != 0 {
			marks[i] = name + "+"
		}
	}
	return strings.Join(marks, " ")
}

// MarshalJSON writes Names.
func (b ACSBits) MarshalJSON() ([]byte, error) { return json.Marshal(b.Names()) }

// UnmarshalJSON reads names. One that is not known is an error: to leave it out would
// turn it off.
func (b *ACSBits) UnmarshalJSON(data []byte) error {
	var names []string
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	*b = 0
	for _, name := range names {
		bit, err := ParseACSBit(name)
		if err != nil {
			return err
		}
		*b |= bit
	}
	return nil
}

// ParseACSBit returns the ACS function of a name.
func ParseACSBit(name string) (ACSBits, error) {
	for i, n := range acsNames {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("%q is no ACS function: they are %s", name, strings.Join(acsNames[:], ", "))
}

// ACS is the ACS capability. The zero ACS is that of a function without.
type ACS struct {
	// Present: the function has the capability.
	Present bool `json:"present"`
	// Supported are the functions that it implements, Enabled those in force.
	Supported ACSBits `json:"supported,omitempty"`
	Enabled   ACSBits `json:"enabled,omitempty"`
}

// ACS reads the ACS capability.
func (s *Space) ACS() (ACS, error) {
	at, err := s.findACS()
	if err != nil || at == 0 {
		return ACS{}, err
	}
	supported, err := s.read16(at + extendedCapOffset)
	if err != nil {
		return ACS{}, err
	}
	enabled, err := s.read16(at + extendedControlOffset)
	if err != nil {
		return ACS{}, err
	}
	if supported == allOnes16 {
		return ACS{}, errGone
	}
	return ACS{Present: true, Supported: ACSBits(supported) & allACS, Enabled: ACSBits(enabled) & allACS}, nil
}

func (s *Space) findACS() (int64, error) {
	if s.vendor == vendorIntel && oddACS(s.device) {
		return 0, fmt.Errorf("the ACS control register of this Intel root port (8086:%04x) is not where the standard has it", s.device)
	}
	return s.findExtended(extendedCapabilityACS)
}

// oddACS tells the root ports of Intel's 100 and 200 series chipsets, whose ACS registers are
// twice as wide as they should be: what stands at the control register's offset
// says nothing (drivers/pci/quirks.c, pci_quirk_intel_spt_pch_acs_match).
func oddACS(device uint16) bool {
	for _, r := range [][2]uint16{{0x9d10, 0x9d1b}, {0xa110, 0xa11f}, {0xa167, 0xa16a}, {0xa290, 0xa29f}, {0xa2e7, 0xa2ee}} {
		if r[0] <= device && device <= r[1] {
			return true
		}
	}
	return false
}

// ATS is the ATS capability (Address Translation Services). The zero ATS is that of a
// function without.
type ATS struct {
	// Present: the function has the capability.
	Present bool `json:"present"`
	// Enabled: the function may ask the IOMMU for translations.
	Enabled bool `json:"enabled,omitempty"`
}

// ATS reads the ATS capability.
func (s *Space) ATS() (ATS, error) {
	at, err := s.findExtended(extendedCapabilityATS)
	if err != nil || at == 0 {
		return ATS{}, err
	}
	control, err := s.read16(at + extendedControlOffset)
	if err != nil {
		return ATS{}, err
	}
	if control == allOnes16 {
		return ATS{}, errGone
	}
	return ATS{Present: true, Enabled: control&atsEnableBit != 0}, nil
}

// Why there is no link: the function is none of PCI Express or part of the root complex, or
// nothing is at the other end.
var (
	ErrNoLink   = errors.New("the function has no PCI Express link")
	ErrLinkDown = errors.New("no link is up")
)

// CurrentLink reads the link as it was trained. GPUs let an idle link run slower.
func (s *Space) CurrentLink() (Link, error) {
	at, err := s.findLink()
	if err != nil {
		return Link{}, err
	}
	status, err := s.read16(at + linkStatusOffset)
	if err != nil {
		return Link{}, err
	}
	if status == allOnes16 {
		return Link{}, errGone
	}
	return newLink(speeds[status&linkSpeedMask], int(status>>linkWidthShift&linkWidthMask))
}

// MaxLink reads the fastest and widest link that the function can train, whatever the
// other end can do.
func (s *Space) MaxLink() (Link, error) {
	at, err := s.findLink()
	if err != nil {
		return Link{}, err
	}
	capability, err := s.read32(at + linkCapOffset)
	if err != nil {
		return Link{}, err
	}
	if capability == allOnes32 {
		return Link{}, errGone
	}
	flags, err := s.read16(at + flagsOffset)
	if err != nil {
		return Link{}, err
	}
	code := capability & linkSpeedMask
	if flags&versionMask >= versionWithLinkCap2 {
		vector, err := s.read32(at + linkCap2Offset)
		if err != nil {
			return Link{}, err
		}
		// Bit N is the speed of code N; before PCI Express 3.0 there is none.
		if vector &= linkSpeedVector; vector != 0 {
			code = uint32(bits.Len32(vector) - 1)
		}
	}
	return newLink(speeds[code], int(capability>>linkWidthShift&linkWidthMask))
}

// findLink returns the offset of the PCI Express capability of a function with a link.
func (s *Space) findLink() (int64, error) {
	at, err := s.findExpress()
	if err != nil {
		return 0, err
	}
	if at == 0 {
		return 0, ErrNoLink
	}
	flags, err := s.read16(at + flagsOffset)
	if err != nil {
		return 0, err
	}
	switch portTypes[flags>>portTypeShift&portTypeMask] {
	case RootComplexEndpoint, RootComplexCollector, "":
		return 0, ErrNoLink
	default:
		return at, nil
	}
}
