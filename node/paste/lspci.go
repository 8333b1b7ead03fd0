package paste

import (
	"cmp"
	"strconv"
	"strings"

	"busbar/internal/pciregs"
	"busbar/node"
)

// What lspci(8) prints: a line for each function, with -n and -nn ids, with -v to -vvv indented lines below.
var (
	lspciHead = expression(`^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) ([^:\[\]]{2,60}?)(?: \[([0-9a-f]{4})\])?: (.*)$`)
	lspciID   = expression(`\[([0-9a-f]{4}):([0-9a-f]{4})\]`)
	lspciOnes = expression(`\(rev ff\)`)
	lspciBus  = expression(`^Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}),`)
	lspciNUMA = expression(`^NUMA node: (\d{1,4})$`)
	lspciLink = expression(`^Lnk(Cap|Sta):.*\sSpeed ([0-9.]{1,6})GT/s(?: \([a-z]+\))?, Width x(\d{1,3})`)
	lspciDown = expression(`^LnkSta:\s+Speed unknown(?: \([a-z]+\))?, Width x0\b`)
	lspciSize = expression(`^MaxPayload (\d{1,6}) bytes, MaxReadReq (\d{1,6}) bytes`)
	lspciACS  = expression(`^ACS(Cap|Ctl):\s(.*)$`)
)

// classes are the words of lspci for classes, where -nn does not give the number.
var classes = map[string]string{
	"PCI bridge": "0604", "Host bridge": "0600", "ISA bridge": "0601", "Bridge": "0680", "3D controller": "0302", "VGA compatible controller": "0300",
	"Ethernet controller": "0200", "Infiniband controller": "0207", "Network controller": "0280", "Non-Volatile memory controller": "0108",
	"System peripheral": "0880", "SATA controller": "0106", "USB controller": "0c03", "Communication controller": "0780", "Signal processing controller": "1180",
	"RAID bus controller": "0104", "Serial Attached SCSI controller": "0107", "SMBus": "0c05", "Processing accelerators": "1200", "DMA controller": "0801", "Audio device": "0403",
	"Encryption controller": "1080", "Memory controller": "0580", "Generic system peripheral": "0880", "PIC": "0800", "IOMMU": "0806", "Performance counters": "1101", "Non-Essential Instrumentation": "1300",
	"Unassigned class": "ff00", "SCSI storage controller": "0100", "Display controller": "0380", "RAM memory": "0500", "Serial controller": "0700", "Co-processor": "0b40", "Serial bus controller": "0c80", "Mass storage controller": "0180",
}

// vendors likewise, by what names of devices begin with.
var vendors = []struct{ name, id string }{
	{"NVIDIA Corporation", "10de"}, {"Mellanox Technologies", "15b3"}, {"Advanced Micro Devices", "1022"}, {"Intel Corporation", "8086"},
	{"Broadcom / LSI", "1000"}, {"Broadcom Inc. and subsidiaries", "14e4"}, {"LSI Logic", "1000"}, {"PLX Technology", "10b5"}, {"Microsemi", "11f8"}, {"PMC-Sierra", "11f8"},
	{"ASPEED Technology", "1a03"}, {"Red Hat", "1b36"}, {"Amazon.com", "1d0f"}, {"Microsoft", "1414"}, {"VMware", "15ad"}, {"Samsung Electronics", "144d"},
}

// physical reports a bridge that a hypervisor does not show to guests: VFIO hands endpoints over and no bridges
// (Documentation/driver-api/vfio.rst), and those of QEMU (1b36, 8086:3420, 104c:8232 and :8233), VMware and Xen have ids of their own.
// It is told by its vendor and by ACS, which the ones that QEMU emulates for old chipsets have not.
func physical(f node.PCIFunction) bool {
	if !strings.HasPrefix(f.Class, "0604") || f.Device == "3420" {
		return false
	}
	for _, v := range []string{"1022", "8086", "1000", "10b5", "11f8", "15b3", "10de"} {
		if f.Vendor == v {
			return true
		}
	}
	return false
}

func lspciFunctionLine(line string) bool {
	return len(line) > 10 && (line[2] == ':' || line[4] == ':' || len(line) > 16 && line[8] == ':') && lspciHead.MatchString(line)
}

var lspciKind = kind{
	name: "lspci",
	scan: func(p piece) match {
		if !lspciFunctionLine(p.lines[0]) {
			return match{}
		}
		m := match{signs: 1 + one(p.typed("lspci"))}
		id, class, deep := 0, 0, 0
		for i, line := range p.lines {
			switch {
			case line == "":
				if i-m.lines >= maxBlank {
					goto done
				}
				continue
			case lspciFunctionLine(line):
				h := lspciHead.FindStringSubmatch(line)
				id += one(lspciID.MatchString(h[4]))
				class += one(classes[h[2]] != "")
			case line[0] == '\t' || line[0] == ' ':
				deep++
			default:
				goto done
			}
			m.lines = i + 1
		}
	done:
		m.signs += one(id > 0) + one(class > 0) + one(deep > 0)
		return m
	},
	read: func(d *draft, s section) string {
		var functions []*device
		secondary := map[*device]string{}
		var x *device
		for i, line := range s.lines {
			source := s.source(i)
			if h := lspciHead.FindStringSubmatch(line); h != nil {
				x = d.lspciHeader(h, source)
				functions = append(functions, x)
				continue
			}
			if x == nil {
				continue
			}
			property := strings.TrimSpace(line)
			if m := lspciBus.FindStringSubmatch(property); m != nil {
				secondary[x] = strings.SplitAfter(x.name(pciName), ":")[0] + m[1]
				continue
			}
			x.lspciProperty(property, source)
		}
		if len(secondary) > 0 {
			d.give("pci_tree", "")
		}
		for _, f := range functions {
			for above, bus := range secondary {
				if strings.HasPrefix(f.name(pciName), bus+":") && f.function.Parent == "" {
					f.function.Parent = above.name(pciName)
				}
			}
			acs, _ := f.registers.ACS.Get()
			if physical(f.function) && acs.Present && d.inv.Virtualization.IsZero() {
				d.inv.Virtualization = node.Known("none", f.source)
			}
			if f.function.Driver != "" {
				d.give("pci_drivers", "")
			}
		}
		// Without a filter lspci lists all functions; a node has host bridges.
		if strings.Join(strings.Fields(s.command), " ") == "lspci" || !strings.Contains(s.command, "|") && hasHostBridge(functions) {
			d.wholeBus = true
		}
		return ""
	},
}

func hasHostBridge(functions []*device) bool {
	for _, f := range functions {
		if strings.HasPrefix(f.function.Class, "0600") {
			return true
		}
	}
	return false
}

// lspciHeader makes a device of a function's first line.
func (d *draft) lspciHeader(h []string, source node.Source) *device {
	f := node.PCIFunction{NUMANode: -1}
	class := cmp.Or(h[3], classes[h[2]])
	if class != "" {
		f.Class = class + "00"
	}
	for _, v := range vendors {
		if f.Vendor == "" && strings.HasPrefix(h[4], v.name) {
			f.Vendor = v.id
		}
	}
	if ids := lspciID.FindStringSubmatch(h[4]); ids != nil {
		f.Vendor, f.Device = ids[1], ids[2]
	}
	is := ""
	switch {
	case f.IsNVIDIAGPU():
		is = "gpu"
	case f.IsNIC() && (f.Vendor == "15b3" || strings.HasPrefix(f.Class, "0207")):
		is = "nic"
	}
	x := d.device(is, pciName+pciAddress(h[1]))
	numa := x.function.NUMANode
	fill(&x.function, f)
	x.function.NUMANode = numa
	if x.source == (node.Source{}) {
		x.source = source
	}
	// What does not answer reads as ones: revision, programming interface and header type (show_terse and show_verbose of lspci.c).
	if lspciOnes.MatchString(h[4]) {
		x.unreachable("all of its registers read as ones", source)
	}
	return x
}

// unreachable notes why a device cannot be reached over its link.
func (x *device) unreachable(why string, source node.Source) {
	if x.pciLink.Fault == "" {
		x.pciLink.Fault, x.source = why, source
	}
}

// lspciProperty reads an indented line about the function. A capability that -vvv could show and does not is absent.
func (x *device) lspciProperty(line string, source node.Source) {
	if strings.HasPrefix(line, "!!! Unknown header type 7f") {
		x.unreachable("all of its registers read as ones", source)
		return
	}
	if driver, ok := strings.CutPrefix(line, "Kernel driver in use: "); ok {
		x.function.Driver = driver
		return
	}
	if m := lspciNUMA.FindStringSubmatch(line); m != nil {
		x.function.NUMANode = min(number(m[1]), 1023)
		return
	}
	if m := lspciLink.FindStringSubmatch(line); m != nil {
		speed, err := strconv.ParseFloat(m[2], 64)
		l := pciregs.Link{SpeedGTs: speed, Width: number(m[3])}
		v := node.Known(l, source)
		if err = cmp.Or(err, l.Check()); err != nil {
			v = node.Unknown[pciregs.Link](err.Error(), source)
		}
		if m[1] == "Sta" {
			set(&x.pciLink.Current, v)
		} else {
			set(&x.pciLink.Max, v)
		}
		return
	}
	// Virtual functions have no link of their own, and read as x0; the device itself is number 0 below its port.
	if lspciDown.MatchString(line) && x.is == "gpu" && strings.HasSuffix(x.name(pciName), ":00.0") {
		x.unreachable("its link is down", source)
		return
	}
	if m := lspciSize.FindStringSubmatch(line); m != nil {
		set(&x.registers.Express, node.Known(pciregs.Express{Present: true, MaxPayload: number(m[1]), MaxReadRequest: number(m[2])}, source))
		set(&x.registers.ACS, node.Known(pciregs.ACS{}, source))
		return
	}
	if m := lspciACS.FindStringSubmatch(line); m != nil {
		state, _ := x.registers.ACS.Get()
		state.Present = true
		if bits := acsBits(m[2]); m[1] == "Cap" {
			state.Supported = bits
		} else {
			state.Enabled = bits
		}
		x.registers.ACS = node.Known(state, source)
		if !x.registers.Express.IsKnown() { // what has ACS is PCI Express
			x.registers.Express = node.Known(pciregs.Express{Present: true}, source)
		}
	}
}

// acsBits are the functions that have a plus.
func acsBits(text string) (bits pciregs.ACSBits) {
	for _, word := range strings.Fields(text) {
		if name, on := strings.CutSuffix(word, "+"); on {
			if bit, err := pciregs.ParseACSBit(name); err == nil {
				bits |= bit
			}
		}
	}
	return bits
}
