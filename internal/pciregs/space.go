// Package pciregs decodes named registers of PCI configuration space and computes
// changes of them. The bytes come through an io.ReaderAt, and only the standard
// header, capability headers and the registers that are named here are asked for: some
// devices lock up when registers are read that they do not define
// (drivers/pci/pci-sysfs.c, pci_read_config). It also reads what sysfs says of links
// and memory regions.
//
// Offsets and bits are those of include/uapi/linux/pci_regs.h.
package pciregs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The layout of configuration space.
const (
	headerSize   = 64   // what everybody may read
	standardSize = 256  // what every function has
	extendedSize = 4096 // what a PCI Express function has

	statusOffset           = 0x06
	classOffset            = 0x08
	headerTypeOffset       = 0x0e
	capabilitiesOffset     = 0x34
	cardBusCapabilities    = 0x14
	statusCapabilityList   = 0x10
	headerTypeMask         = 0x7f // without the multi-function bit
	headerTypeNormal       = 0
	headerTypeBridge       = 1
	headerTypeCardBus      = 2
	capabilityPointerMask  = 0xfc
	extendedPointerShift   = 20
	extendedPointerMask    = 0xffc
	capabilityIDExpress    = 0x10
	extendedCapabilityACS  = 0x000d
	extendedCapabilityATS  = 0x000f
	vendorIntel            = 0x8086
	allOnes32              = 0xffffffff
	allOnes16              = 0xffff
	identifyingHeaderBytes = 16
)

var (
	errGone       = errors.New("it reads as all ones: the device does not answer (unplugged, in reset or without power)")
	errRootOnly   = errors.New("all but the first 64 bytes of configuration space are shown to root alone: run as root")
	errNoExtended = errors.New("the kernel reaches only the first 256 bytes of configuration space")
)

// Space is the configuration space of one function. What was found of its
// capability lists is kept, registers are read afresh by every call.
type Space struct {
	config         io.ReaderAt
	vendor, device uint16
	// first is the offset of the first capability, 0 when there is none.
	first int64
	// express is the offset of the PCI Express capability, 0 when there is none.
	express location
	// extended are the extended capabilities that were found.
	extended map[uint16]int64
}

// location is where a capability was found, once it was looked for.
type location struct {
	offset int64
	looked bool
}

// Open reads the standard header. It fails where that cannot be read in full, is all ones
// or of no known layout. A virtual function's vendor and device read as all ones
// by themselves (PCI Express Base Specification, 9.3.4.1), so more than these are compared.
func Open(config io.ReaderAt) (*Space, error) {
	s := &Space{config: config}
	header, err := s.read(0, identifyingHeaderBytes)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if le.Uint32(header) == allOnes32 && le.Uint32(header[classOffset:]) == allOnes32 {
		return nil, errGone
	}
	s.vendor, s.device = le.Uint16(header), le.Uint16(header[2:])
	if le.Uint16(header[statusOffset:])&statusCapabilityList == 0 {
		return s, nil
	}
	pointer := int64(capabilitiesOffset)
	switch kind := header[headerTypeOffset] & headerTypeMask; kind {
	case headerTypeNormal, headerTypeBridge:
	case headerTypeCardBus:
		pointer = cardBusCapabilities
	default:
		return nil, fmt.Errorf("its header is of the unknown type %d", kind)
	}
	b, err := s.read(pointer, 1)
	if err != nil {
		return nil, err
	}
	s.first = int64(b[0] & capabilityPointerMask)
	return s, nil
}

// read reads n bytes at offset, or says why there are fewer.
func (s *Space) read(offset int64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := s.config.ReadAt(b, offset)
	switch {
	case got == n:
		return b, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case offset+int64(got) < headerSize:
		return nil, fmt.Errorf("configuration space ends after %d bytes, within the header", offset+int64(got))
	case offset < standardSize:
		return nil, errRootOnly
	default:
		return nil, errNoExtended
	}
}

func (s *Space) read16(offset int64) (uint16, error) {
	b, err := s.read(offset, 2)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint16(b), nil
}

func (s *Space) read32(offset int64) (uint32, error) {
	b, err := s.read(offset, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// findExpress returns the offset of the PCI Express capability, 0 when the list
// holds none.
func (s *Space) findExpress() (int64, error) {
	if s.express.looked {
		return s.express.offset, nil
	}
	var seen [standardSize]bool
	at := s.first
	for at != 0 {
		if at < headerSize {
			return 0, fmt.Errorf("the capability list leads to %#02x, into the header", at)
		}
		if seen[at] {
			return 0, fmt.Errorf("the capability list loops at %#02x", at)
		}
		seen[at] = true
		b, err := s.read(at, 2)
		if err != nil {
			return 0, err
		}
		if binary.LittleEndian.Uint16(b) == allOnes16 {
			return 0, errGone
		}
		if b[0] == capabilityIDExpress {
			break
		}
		at = int64(b[1] & capabilityPointerMask)
	}
	s.express = location{offset: at, looked: true}
	return at, nil
}

// findExtended returns the offset of an extended capability, 0 when the list holds none. A
// function without PCI Express has no list: what is read there, if anything, mirrors
// other registers.
func (s *Space) findExtended(id uint16) (int64, error) {
	express, err := s.findExpress()
	if err != nil || express == 0 {
		return 0, err
	}
	if s.extended == nil {
		if s.extended, err = s.walkExtended(); err != nil {
			return 0, err
		}
	}
	return s.extended[id], nil
}

// walkExtended lists the extended capabilities; of several with one id the first
// counts. An empty list is one header of zero.
func (s *Space) walkExtended() (map[uint16]int64, error) {
	found := map[uint16]int64{}
	var seen [extendedSize]bool
	for at := int64(standardSize); at != 0; {
		if at < standardSize {
			return nil, fmt.Errorf("the list of extended capabilities leads to %#03x, below 0x100", at)
		}
		if seen[at] {
			return nil, fmt.Errorf("the list of extended capabilities loops at %#03x", at)
		}
		seen[at] = true
		header, err := s.read32(at)
		if err != nil {
			return nil, err
		}
		if header == allOnes32 {
			return nil, errGone
		}
		id := uint16(header & 0xffff)
		if _, ok := found[id]; !ok {
			found[id] = at
		}
		at = int64(header >> extendedPointerShift & extendedPointerMask)
	}
	return found, nil
}
