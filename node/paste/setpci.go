package paste

import (
	"strconv"

	"busbar/internal/pciregs"
	"busbar/node"
)

// acsRegister is the ACS control register of a port, four hex digits (PCI Express Base Specification, 7.7.8.3).
func (d *draft) acsRegister(address, word string, source node.Source) {
	n, err := strconv.ParseUint(word, 16, 16)
	if err != nil {
		return
	}
	x := d.device("", pciName+address)
	if x.source == (node.Source{}) {
		x.source = source
	}
	state, _ := x.registers.ACS.Get()
	state.Present, state.Enabled = true, pciregs.ACSBits(n)
	x.registers.ACS = node.Known(state, source)
	set(&x.registers.Express, node.Known(pciregs.Express{Present: true}, source))
	x.function.Class = orFirst(x.function.Class, "060400")
}
