package paste

import (
	"strconv"
	"strings"

	"busbar/internal/pciregs"
	"busbar/node"
)

// setpci prints a register's value: two, four or eight hex digits. Which register of which function that is the command alone says.
var (
	setpciValue   = expression(`^(?:[0-9a-f]{2}|[0-9a-f]{4}|[0-9a-f]{8})$`)
	setpciCommand = expression(`(?:^|/)setpci (?:.* )?-s ?([0-9a-fA-F:.]+) (?:.* )?([A-Za-z_0-9+.]+)$`)
)

// setpciRegisters are those that are read, by their names for setpci(8) in capitals and without 0x, with the number of their digits:
// ACS control, and of PCI Express device control, link capabilities and link status (PCI Express Base Specification, 7.5.3 and 7.7.8).
var setpciRegisters = map[string]struct {
	digits int
	read   func(d *draft, address string, value uint32, source node.Source)
}{
	"ECAP_ACS+6.W": {4, (*draft).acsRegister},
	"CAP_EXP+8.W":  {4, (*draft).deviceControl},
	"CAP_EXP+C.L": {8, func(d *draft, address string, value uint32, source node.Source) {
		set(&d.registerOf(address, source).pciLink.Max, linkRegister(value, source))
	}},
	"CAP_EXP+12.W": {4, func(d *draft, address string, value uint32, source node.Source) {
		set(&d.registerOf(address, source).pciLink.Current, linkRegister(value, source))
	}},
}

// setpciRegister is the function and the register that a command reads; false where it says neither, or nothing is read of it.
func setpciRegister(command string) (address, register string, ok bool) {
	m := setpciCommand.FindStringSubmatch(command)
	if m == nil {
		return "", "", false
	}
	register = strings.NewReplacer("+0X", "+", "+0", "+").Replace(strings.ToUpper(m[2]))
	_, known := setpciRegisters[register]
	return pciAddress(m[1]), register, known && pciAddress(m[1]) != ""
}

var setpciKind = kind{
	name: "setpci",
	scan: func(p piece) match {
		if !p.typed("setpci") || !setpciValue.MatchString(p.lines[0]) {
			return match{}
		}
		_, register, ok := setpciRegister(p.command)
		return match{1, 1 + 2*one(ok && len(p.lines[0]) == setpciRegisters[register].digits)}
	},
	read: func(d *draft, s section) string {
		address, register, _ := setpciRegister(s.command)
		value, _ := strconv.ParseUint(s.lines[0], 16, 32) // eight hex digits at most
		setpciRegisters[register].read(d, address, uint32(value), s.source(0))
		return ""
	},
}

var otherSetpciKind = kind{
	name:   "setpci, another register",
	scan:   func(p piece) match { return match{one(p.typed("setpci") && setpciValue.MatchString(p.lines[0])), 2} },
	unread: "no block asks for this register, or the command does not say of one function which it is",
}

// registerOf is a function of which a register is known.
func (d *draft) registerOf(address string, source node.Source) *device {
	x := d.device("", pciName+address)
	if x.source == (node.Source{}) {
		x.source = source
	}
	return x
}

// linkRegister is the speed and width in link capabilities and link status, which have them in the same bits.
func linkRegister(value uint32, source node.Source) node.Value[pciregs.Link] {
	speeds := map[uint32]float64{1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
	l := pciregs.Link{SpeedGTs: speeds[value&0xf], Width: int(value >> 4 & 0x3f)}
	if err := l.Check(); err != nil {
		return node.Unknown[pciregs.Link](err.Error(), source)
	}
	return node.Known(l, source)
}

// deviceControl is the register that has the sizes of payloads and of requests to read.
func (d *draft) deviceControl(address string, value uint32, source node.Source) {
	payload, request := value>>5&7, value>>12&7
	if x := d.registerOf(address, source); max(payload, request) <= 5 { // the others are reserved
		set(&x.registers.Express, node.Known(pciregs.Express{Present: true, MaxPayload: 128 << payload, MaxReadRequest: 128 << request}, source))
	}
}

// acsRegister is the ACS control register of a port, four hex digits (PCI Express Base Specification, 7.7.8.3).
func (d *draft) acsRegister(address string, value uint32, source node.Source) {
	x := d.registerOf(address, source)
	state, _ := x.registers.ACS.Get()
	state.Present, state.Enabled = true, pciregs.ACSBits(value)
	x.registers.ACS = node.Known(state, source)
	set(&x.registers.Express, node.Known(pciregs.Express{Present: true}, source))
	x.function.Class = orFirst(x.function.Class, "060400")
}
