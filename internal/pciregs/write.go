package pciregs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Write is the change of one 16-bit register. No more than its two bytes are to be written: the status register
// beside it clears bits that are written as one.
type Write struct {
	// Offset in configuration space.
	Offset int64
	// Old is what the register held, New what it is to hold.
	Old, New uint16
}

// Bytes is New as it is written.
func (w Write) Bytes() []byte { return binary.LittleEndian.AppendUint16(nil, w.New) }

// String is "0xf2a.w: 001d -> 0001".
func (w Write) String() string { return fmt.Sprintf("%#03x.w: %04x -> %04x", w.Offset, w.Old, w.New) }

// ACSWrite computes the change of the ACS control register that turns functions on and
// off and leaves all others, those without a name too, as they are. A function
// that is to be on must be implemented; one that is not implemented is off.
func (s *Space) ACSWrite(on, off ACSBits) (Write, error) {
	if err := CheckACS(on, off); err != nil {
		return Write{}, err
	}
	acs, err := s.ACS()
	if err != nil {
		return Write{}, err
	}
	if !acs.Present {
		return Write{}, errors.New("it has no ACS capability")
	}
	if missing := on &^ acs.Supported; missing != 0 {
		return Write{}, fmt.Errorf("it does not implement %s", strings.Join(missing.Names(), ", "))
	}
	at, err := s.findACS()
	if err != nil {
		return Write{}, err
	}
	return s.modify(at+extendedControlOffset, uint16(on), uint16(off))
}

// CheckACS refuses a change of ACS functions that contradicts itself or names
// functions that there are not.
func CheckACS(on, off ACSBits) error {
	if both := on & off; both != 0 {
		return fmt.Errorf("%s cannot be on and off", strings.Join(both.Names(), ", "))
	}
	if strange := (on | off) &^ allACS; strange != 0 {
		return fmt.Errorf("%#04x are no ACS functions", uint16(strange))
	}
	return nil
}

// MaxReadRequestWrite computes the change of the device control register that sets the
// maximum read request to 128, 256, 512, 1024, 2048 or 4096 bytes.
func (s *Space) MaxReadRequestWrite(bytes int) (Write, error) {
	code, err := sizeCode(bytes)
	if err != nil {
		return Write{}, err
	}
	at, err := s.deviceControl()
	if err != nil {
		return Write{}, err
	}
	return s.modify(at, code<<readRequestShift, readRequestMask)
}

// CheckMaxReadRequest refuses what is no size of a read request.
func CheckMaxReadRequest(bytes int) error {
	_, err := sizeCode(bytes)
	return err
}

func sizeCode(bytes int) (uint16, error) {
	for code := range uint16(largestSizeCode + 1) {
		if bytes == smallestSize<<code {
			return code, nil
		}
	}
	return 0, fmt.Errorf("a maximum read request of %d bytes: it is 128, 256, 512, 1024, 2048 or 4096", bytes)
}

// RelaxedOrderingWrite computes the change of the device control register that allows or
// forbids relaxed ordering. The bit of a function that never uses it stays off.
func (s *Space) RelaxedOrderingWrite(on bool) (Write, error) {
	at, err := s.deviceControl()
	if err != nil {
		return Write{}, err
	}
	if on {
		return s.modify(at, relaxedOrderingBit, 0)
	}
	return s.modify(at, 0, relaxedOrderingBit)
}

// deviceControl is the offset of the device control register of a function that
// answers.
func (s *Space) deviceControl() (int64, error) {
	e, err := s.Express()
	if err != nil {
		return 0, err
	}
	if !e.Present {
		return 0, errors.New("it is no PCI Express function")
	}
	at, err := s.findExpress()
	return at + deviceControlOffset, err
}

// modify reads the register at offset and computes it with the bits of off cleared and
// those of on set.
func (s *Space) modify(offset int64, on, off uint16) (Write, error) {
	old, err := s.read16(offset)
	if err != nil {
		return Write{}, err
	}
	if old == allOnes16 {
		return Write{}, errGone
	}
	return Write{Offset: offset, Old: old, New: old&^off | on}, nil
}
