package pciregs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Link is how fast and wide a link is.
type Link struct {
	// SpeedGTs is the rate of a lane in GT/s: 2.5, 5, 8, 16, 32 or 64.
	SpeedGTs float64 `json:"speed_gt_s"`
	// Width is the number of lanes: 1, 2, 4, 8, 12, 16 or 32.
	Width int `json:"width"`
}

// String is as lspci(8) has it: "32GT/s x16".
func (l Link) String() string { return fmt.Sprintf("%gGT/s x%d", l.SpeedGTs, l.Width) }

// Slower reports whether l runs at fewer GT/s or over fewer lanes than other.
func (l Link) Slower(other Link) bool { return l.SpeedGTs < other.SpeedGTs || l.Width < other.Width }

// Within is what two ends can do together: the lower speed and the smaller width.
func (l Link) Within(other Link) Link {
	return Link{SpeedGTs: min(l.SpeedGTs, other.SpeedGTs), Width: min(l.Width, other.Width)}
}

// Check refuses a speed and a width that no link has.
func (l Link) Check() error {
	if l.SpeedGTs == 0 || !slices.Contains(speeds[:], l.SpeedGTs) {
		return fmt.Errorf("a speed of %g GT/s: it is 2.5, 5, 8, 16, 32 or 64", l.SpeedGTs)
	}
	_, err := newLink(l.SpeedGTs, l.Width)
	return err
}

// speeds are the rates by their code in the link registers (PCI_EXP_LNKSTA_CLS).
var speeds = [16]float64{1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}

var widths = []int{1, 2, 4, 8, 12, 16, 32}

func newLink(speed float64, width int) (Link, error) {
	switch {
	case width == 0:
		return Link{}, ErrLinkDown
	case speed == 0:
		return Link{}, errors.New("the link's speed is of an unknown code")
	case !slices.Contains(widths, width):
		return Link{}, fmt.Errorf("a link is not %d lanes wide", width)
	default:
		return Link{SpeedGTs: speed, Width: width}, nil
	}
}

// ParseLink reads the pair of attributes current_link_speed and current_link_width of sysfs, or
// max_link_speed and max_link_width. A speed is "32.0 GT/s PCIe", "8 GT/s" of older
// kernels, or begins with "Unknown" (drivers/pci/probe.c, pci_speed_string).
func ParseLink(speed, width string) (Link, error) {
	lanes, err := strconv.Atoi(strings.TrimSpace(width))
	if err != nil {
		return Link{}, fmt.Errorf("the link's width %q is no number", width)
	}
	if lanes == 0 {
		return newLink(0, 0)
	}
	number, unit, _ := strings.Cut(strings.TrimSpace(speed), " ")
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || unit != "GT/s" && unit != "GT/s PCIe" || rate == 0 || !slices.Contains(speeds[:], rate) {
		return Link{}, fmt.Errorf("the kernel shows %q as the link's speed", speed)
	}
	return newLink(rate, lanes)
}

// BAR is a memory region of a function.
type BAR struct {
	// Index is the number of its first base address register, 0 to 5.
	Index int `json:"index" range:"0:5"`
	// SizeBytes is how much of the function's memory it shows.
	SizeBytes uint64 `json:"size_bytes"`
	// Prefetchable: reading has no side effects.
	Prefetchable bool `json:"prefetchable,omitempty"`
	// Unassigned: neither firmware nor the kernel found room for it.
	Unassigned bool `json:"unassigned,omitempty"`
}

// The flags of a resource (include/linux/ioport.h).
const (
	resourceMemory   = 0x00000200
	resourcePrefetch = 0x00002000
	resourceUnset    = 0x20000000
)

// baseAddressRegisters is how many a function has; what follows them in the file
// resource is its ROM, virtual functions' regions and a bridge's windows.
const baseAddressRegisters = 6

// ParseResource reads the memory regions off a function's file resource in sysfs: a line "START END
// FLAGS" for each base address register, each in hexadecimal, all zero where there is none.
func ParseResource(text string) ([]BAR, error) {
	bars := []BAR{}
	lines := strings.Split(text, "\n")
	if len(lines) < baseAddressRegisters {
		return nil, fmt.Errorf("it has lines for %d of %d base address registers", len(lines), baseAddressRegisters)
	}
	for i, line := range lines[:baseAddressRegisters] {
		var v [3]uint64
		fields := strings.Fields(line)
		if len(fields) != len(v) {
			return nil, fmt.Errorf("line %d has %d fields, wanted START END FLAGS", i+1, len(fields))
		}
		for j, field := range fields {
			digits, ok := strings.CutPrefix(field, "0x")
			n, err := strconv.ParseUint(digits, 16, 64)
			if !ok || err != nil {
				return nil, fmt.Errorf("line %d: %q is no hexadecimal number", i+1, field)
			}
			v[j] = n
		}
		start, end, flags := v[0], v[1], v[2]
		if flags&resourceMemory == 0 || end == 0 {
			continue
		}
		size := end - start + 1
		if end < start || size == 0 {
			return nil, fmt.Errorf("line %d: the region ends before it starts", i+1)
		}
		bars = append(bars, BAR{Index: i, SizeBytes: size, Prefetchable: flags&resourcePrefetch != 0, Unassigned: flags&resourceUnset != 0})
	}
	return bars, nil
}
