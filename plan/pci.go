package plan

import (
	"errors"
	"fmt"
	"strings"

	"busbar/internal/pciregs"
	"busbar/node"
)

// CheckPCIAddress refuses in a profile what is no PCI address as sysfs spells it.
func CheckPCIAddress(s string) error {
	if !node.IsPCIAddress(s) || s != strings.ToLower(s) {
		return fmt.Errorf("%q is not DDDD:BB:DD.F in lower-case hexadecimal digits (0000:17:00.0)", s)
	}
	return nil
}

// PCIAction is an action that changes one register of a PCI function.
type PCIAction interface {
	Action
	// Function is the PCI function's address.
	Function() string
	// Write computes the change from what the register holds.
	Write(space *pciregs.Space) (pciregs.Write, error)
}

// SetACS turns ACS functions of a port on and off, and leaves the others as they are. It lasts until
// the next boot, and until the kernel restores the port's registers (a reset, an error, a resume).
type SetACS struct {
	// Address of the port.
	Address string `json:"address"`
	// On must be implemented by the port; of Off, what is not implemented is off.
	On  pciregs.ACSBits `json:"on,omitempty"`
	Off pciregs.ACSBits `json:"off,omitempty"`
}

var _ PCIAction = SetACS{}

// Kind is "set-acs".
func (SetACS) Kind() string { return "set-acs" }

// Function is the port.
func (a SetACS) Function() string { return a.Address }

// Queries asks for the port's registers.
func (a SetACS) Queries() []node.Query { return []node.Query{node.PCIRegisters.Query(a.Address)} }

// Done compares the ACS functions.
func (a SetACS) Done(f node.Facts) (bool, string, error) {
	acs, err := a.acs(f)
	if err != nil {
		return false, "", err
	}
	return acs.Enabled&a.On == a.On && acs.Enabled&a.Off == 0, acs.Enabled.String(), nil
}

func (a SetACS) acs(f node.Facts) (pciregs.ACS, error) {
	if err := pciregs.CheckACS(a.On, a.Off); err != nil {
		return pciregs.ACS{}, err
	}
	v := node.PCIRegisters.Get(f, a.Address)
	state, ok := v.Get()
	if !ok {
		return pciregs.ACS{}, errors.New(v.Reason())
	}
	acs, ok := state.ACS.Get()
	switch missing := a.On &^ acs.Supported; {
	case !ok:
		return acs, errors.New(state.ACS.Reason())
	case !acs.Present:
		return acs, errors.New("it has no ACS capability")
	case missing != 0:
		return acs, fmt.Errorf("it does not implement %s", strings.Join(missing.Names(), ", "))
	default:
		return acs, nil
	}
}

// Write is pciregs.Space.ACSWrite.
func (a SetACS) Write(space *pciregs.Space) (pciregs.Write, error) {
	return space.ACSWrite(a.On, a.Off)
}

// Project sets the ACS functions in facts.
func (a SetACS) Project(f node.Facts) node.Facts {
	acs, err := a.acs(f)
	if err != nil {
		return f
	}
	v := node.PCIRegisters.Get(f, a.Address)
	state, _ := v.Get()
	acs.Enabled = acs.Enabled&^a.Off | a.On
	state.ACS = node.Known(acs, state.ACS.Source())
	return f.With(node.PCIRegisters.Answer(a.Address, node.Known(state, v.Source())))
}

// SetMaxReadRequest sets the largest read that a PCI Express function may ask for. It lasts until
// the next boot or reset of the function. A virtual function has none of its own.
type SetMaxReadRequest struct {
	Address string `json:"address"`
	// Bytes are 128, 256, 512, 1024, 2048 or 4096.
	Bytes int `json:"bytes"`
}

var _ PCIAction = SetMaxReadRequest{}

// Kind is "set-max-read-request".
func (SetMaxReadRequest) Kind() string { return "set-max-read-request" }

// Function is the one that reads.
func (a SetMaxReadRequest) Function() string { return a.Address }

// Queries asks for the function's registers.
func (a SetMaxReadRequest) Queries() []node.Query {
	return []node.Query{node.PCIRegisters.Query(a.Address)}
}

// Done compares the size.
func (a SetMaxReadRequest) Done(f node.Facts) (bool, string, error) {
	if err := pciregs.CheckMaxReadRequest(a.Bytes); err != nil {
		return false, "", err
	}
	e, err := express(f, a.Address)
	return err == nil && e.MaxReadRequest == a.Bytes, fmt.Sprintf("%d bytes", e.MaxReadRequest), err
}

// Write is pciregs.Space.MaxReadRequestWrite.
func (a SetMaxReadRequest) Write(space *pciregs.Space) (pciregs.Write, error) {
	return space.MaxReadRequestWrite(a.Bytes)
}

// Project sets the size in facts.
func (a SetMaxReadRequest) Project(f node.Facts) node.Facts {
	if pciregs.CheckMaxReadRequest(a.Bytes) != nil {
		return f
	}
	return projectExpress(f, a.Address, func(e *pciregs.Express) { e.MaxReadRequest = a.Bytes })
}

// SetRelaxedOrdering allows a PCI Express function to mark its transactions as freely ordered, or
// forbids it. It lasts until the next boot or reset of the function. A function that never marks any
// cannot be allowed to.
type SetRelaxedOrdering struct {
	Address string `json:"address"`
	Allowed bool   `json:"allowed"`
}

var _ PCIAction = SetRelaxedOrdering{}

// Kind is "set-relaxed-ordering".
func (SetRelaxedOrdering) Kind() string { return "set-relaxed-ordering" }

// Function is the one that marks.
func (a SetRelaxedOrdering) Function() string { return a.Address }

// Queries asks for the function's registers.
func (a SetRelaxedOrdering) Queries() []node.Query {
	return []node.Query{node.PCIRegisters.Query(a.Address)}
}

// Done compares the bit.
func (a SetRelaxedOrdering) Done(f node.Facts) (bool, string, error) {
	e, err := express(f, a.Address)
	found := "off"
	if e.RelaxedOrdering {
		found = "on"
	}
	return err == nil && e.RelaxedOrdering == a.Allowed, found, err
}

// Write is pciregs.Space.RelaxedOrderingWrite.
func (a SetRelaxedOrdering) Write(space *pciregs.Space) (pciregs.Write, error) {
	return space.RelaxedOrderingWrite(a.Allowed)
}

// Project sets the bit in facts.
func (a SetRelaxedOrdering) Project(f node.Facts) node.Facts {
	return projectExpress(f, a.Address, func(e *pciregs.Express) { e.RelaxedOrdering = a.Allowed })
}

// express is the PCI Express capability of a function.
func express(f node.Facts, address string) (pciregs.Express, error) {
	v := node.PCIRegisters.Get(f, address)
	state, ok := v.Get()
	if !ok {
		return pciregs.Express{}, errors.New(v.Reason())
	}
	e, ok := state.Express.Get()
	switch {
	case !ok:
		return e, errors.New(state.Express.Reason())
	case !e.Present:
		return e, errors.New("it is no PCI Express function")
	default:
		return e, nil
	}
}

func projectExpress(f node.Facts, address string, change func(*pciregs.Express)) node.Facts {
	e, err := express(f, address)
	if err != nil {
		return f
	}
	v := node.PCIRegisters.Get(f, address)
	state, _ := v.Get()
	change(&e)
	state.Express = node.Known(e, state.Express.Source())
	return f.With(node.PCIRegisters.Answer(address, node.Known(state, v.Source())))
}
