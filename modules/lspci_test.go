package modules_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"busbar/internal/pciregs"
	"busbar/node"
)

// lspciFunction is what lspci(8) says of a PCI function, with -vvv or -nn.
type lspciFunction struct {
	node.PCIFunction
	// secondary is the bus below a bridge, DDDD:BB, or empty.
	secondary string
	registers node.PCIRegisterState
	link      node.PCILinkState
}

var (
	lspciHead = regexp.MustCompile(`^((?:[0-9a-f]{4,8}:)?)([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:\[]+?)(?: \[([0-9a-f]{4})\])?: (.*)$`)
	lspciID   = regexp.MustCompile(`\[([0-9a-f]{4}):([0-9a-f]{4})\]`)
	lspciBus  = regexp.MustCompile(`^Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}),`)
	lspciNUMA = regexp.MustCompile(`^NUMA node: (\d{1,4})$`)
	lspciLink = regexp.MustCompile(`^Lnk(Cap|Sta):.*\sSpeed ([0-9.]+)GT/s(?: \([a-z]+\))?, Width x(\d+)`)
	lspciSize = regexp.MustCompile(`^MaxPayload (\d+) bytes, MaxReadReq (\d+) bytes`)
	lspciACS  = regexp.MustCompile(`^ACS(Cap|Ctl):\s(.*)$`)
)

// lspciClasses are the words of lspci for classes, where -nn does not give the number.
var lspciClasses = map[string]string{
	"PCI bridge": "0604", "Host bridge": "0600", "Bridge": "0680", "3D controller": "0302", "VGA compatible controller": "0300",
	"Ethernet controller": "0200", "Infiniband controller": "0207", "Non-Volatile memory controller": "0108",
}

// lspciVendors likewise, by what names of devices begin with.
var lspciVendors = map[string]string{
	"NVIDIA Corporation": "10de", "Mellanox Technologies": "15b3", "Advanced Micro Devices, Inc. [AMD]": "1022", "Intel Corporation": "8086", "Broadcom": "1000", "PLX Technology": "10b5",
}

// parseLspci reads lspci's output. What a function does not say stays unknown; a capability that it could show and
// does not is absent.
func parseLspci(text string) []lspciFunction {
	var all []lspciFunction
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := lspciHead.FindStringSubmatch(line); m != nil {
			all = append(all, lspciHeader(m))
			continue
		}
		if len(all) > 0 {
			all[len(all)-1].property(strings.TrimSpace(line))
		}
	}
	for i := range all {
		for _, above := range all {
			if above.secondary != "" && strings.HasPrefix(all[i].Address, above.secondary+":") {
				all[i].Parent = above.Address
			}
		}
	}
	slices.SortFunc(all, func(a, b lspciFunction) int { return cmp.Compare(a.Address, b.Address) })
	return all
}

func lspciHeader(m []string) lspciFunction {
	f := lspciFunction{PCIFunction: node.PCIFunction{Address: cmp.Or(m[1], "0000:") + m[2], NUMANode: -1}}
	f.Class = cmp.Or(m[4], lspciClasses[m[3]], "ff00") + "00"
	for name, id := range lspciVendors {
		if strings.HasPrefix(m[5], name) {
			f.Vendor = id
		}
	}
	if ids := lspciID.FindStringSubmatch(m[5]); ids != nil {
		f.Vendor, f.Device = ids[1], ids[2]
	}
	return f
}

// property reads an indented line about the function.
func (f *lspciFunction) property(line string) {
	source := node.Source{Call: "lspci"}
	driver, hasDriver := strings.CutPrefix(line, "Kernel driver in use: ")
	bus, numa, link, size, acs := lspciBus.FindStringSubmatch(line), lspciNUMA.FindStringSubmatch(line), lspciLink.FindStringSubmatch(line), lspciSize.FindStringSubmatch(line), lspciACS.FindStringSubmatch(line)
	switch {
	case hasDriver:
		f.Driver = driver
	case bus != nil:
		f.secondary = strings.SplitAfter(f.Address, ":")[0] + bus[1]
	case numa != nil:
		f.NUMANode, _ = strconv.Atoi(numa[1])
	case link != nil:
		// The expression lets only numbers through; Check judges them.
		speed, _ := strconv.ParseFloat(link[2], 64)
		width, _ := strconv.Atoi(link[3])
		l := pciregs.Link{SpeedGTs: speed, Width: width}
		v := node.Known(l, source)
		if err := l.Check(); err != nil {
			v = node.Unknown[pciregs.Link](err.Error(), source)
		}
		if link[1] == "Sta" {
			f.link.Current = v
		} else {
			f.link.Max = v
		}
	case size != nil:
		e := pciregs.Express{Present: true}
		e.MaxPayload, _ = strconv.Atoi(size[1])
		e.MaxReadRequest, _ = strconv.Atoi(size[2])
		f.registers.Express = node.Known(e, source)
		if !f.registers.ACS.IsKnown() {
			f.registers.ACS = node.Known(pciregs.ACS{}, source)
		}
	case acs != nil:
		state, _ := f.registers.ACS.Get()
		state.Present = true
		bits := acsBits(acs[2])
		if acs[1] == "Cap" {
			state.Supported = bits
		} else {
			state.Enabled = bits
		}
		f.registers.ACS = node.Known(state, source)
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

// lspciFacts puts functions onto the PCI bus of a node, bare metal if nothing says otherwise.
func lspciFacts(f node.Facts, functions []lspciFunction) node.Facts {
	inv := f.Inventory
	var list []node.PCIFunction
	for _, function := range functions {
		list = append(list, function.PCIFunction)
		f = f.With(node.PCIRegisters.Answer(function.Address, node.Known(function.registers, node.Source{Call: "lspci"})), node.PCILink.Answer(function.Address, node.Known(function.link, node.Source{Call: "lspci"})))
	}
	inv.PCI = node.Known(list, node.Source{Call: "lspci"})
	inv.Virtualization = node.Known("none", node.Source{})
	return f.WithInventory(inv)
}

func TestParseLspci(t *testing.T) {
	const text = `00:0c.0 PCI bridge: Intel Corporation Device 1bbc (rev 11) (prog-if 00 [Normal decode])
	NUMA node: 1
	Bus: primary=00, secondary=01, subordinate=01, sec-latency=0
	Capabilities: [40] Express (v2) Root Port (Slot-), MSI 00
		DevCtl:	CorrErr- NonFatalErr- FatalErr+ UnsupReq-
			MaxPayload 256 bytes, MaxReadReq 512 bytes
		LnkCap:	Port #12, Speed 8GT/s, Width x4, ASPM not supported
		LnkSta:	Speed 5GT/s (downgraded), Width x1 (downgraded)
	Capabilities: [148 v1] Access Control Services
		ACSCap:	SrcValid+ TransBlk+ ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans-
		ACSCtl:	SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
	Kernel driver in use: pcieport

01:00.0 3D controller [0302]: NVIDIA Corporation GA102GL [A40] [10de:2235] (rev a1)
`
	var got []string
	for _, f := range parseLspci(text) {
		acs, _ := f.registers.ACS.Get()
		express, _ := f.registers.Express.Get()
		now, _ := f.link.Current.Get()
		best, _ := f.link.Max.Get()
		got = append(got, fmt.Sprintln(f.Address, f.ID(), f.Class, f.Parent, f.Driver, f.NUMANode, f.IsNVIDIAGPU(), express.MaxReadRequest, acs.Supported.Names(), acs.Enabled.Names(), now, best))
	}
	want := []string{
		"0000:00:0c.0 8086: 060400  pcieport 1 false 512 [SrcValid TransBlk UpstreamFwd] [SrcValid] 5GT/s x1 8GT/s x4\n",
		"0000:01:00.0 10de:2235 030200 0000:00:0c.0  -1 true 0 [] [] 0GT/s x0 0GT/s x0\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzParseLspci(f *testing.F) {
	f.Add("00:0c.0 PCI bridge: Intel\n\tBus: primary=00, secondary=00, x\n\t\tLnkSta:\tSpeed 5GT/s (downgraded), Width x99\n\tACSCtl:\tSrcValid+ Odd+\n")
	f.Add("0001:00:00.0 3D controller [0302]: NVIDIA [10de:20b2]\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, function := range parseLspci(text) {
			if !node.IsPCIAddress(function.Address) || len(function.Class) != 6 {
				t.Errorf("%+v", function.PCIFunction)
			}
		}
	})
}
