package pciregs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/pciregs"
	"busbar/internal/pciregs/pciregstest"
)

// say is everything that config says, a line each.
func say(config io.ReaderAt) string {
	s, err := pciregs.Open(config)
	if err != nil {
		return "? " + err.Error()
	}
	var b strings.Builder
	line := func(name string, v any, err error) {
		if err != nil {
			fmt.Fprintf(&b, "%s ? %v\n", name, err)
			return
		}
		if l, ok := v.(pciregs.Link); ok {
			v = l.String()
		}
		text, _ := json.Marshal(v)
		fmt.Fprintf(&b, "%s %s\n", name, text)
	}
	express, err := s.Express()
	line("express", express, err)
	acs, err := s.ACS()
	line("acs", acs, err)
	ats, err := s.ATS()
	line("ats", ats, err)
	now, err := s.CurrentLink()
	line("now", now, err)
	best, err := s.MaxLink()
	line("best", best, err)
	return b.String()
}

// What the devices' registers hold, as lspci -vvv says it of the same dumps.
func TestRealDevices(t *testing.T) {
	const without = `{"present":false}`
	for name, want := range map[string]string{
		"h200-in-guest": `express {"present":true,"port_type":"endpoint","max_payload_supported":256,"max_payload":256,"max_read_request":4096,"relaxed_ordering":true}
acs {"present":false}
ats {"present":false}
now "32GT/s x16"
best "32GT/s x16"
`,
		"haswell-root-port": `express {"present":true,"port_type":"root-port","max_payload_supported":256,"max_payload":256,"max_read_request":128}
acs {"present":true,"supported":["SrcValid","TransBlk","ReqRedir","CmpltRedir","UpstreamFwd"],"enabled":["SrcValid","TransBlk","ReqRedir","CmpltRedir","UpstreamFwd"]}
ats {"present":false}
now "8GT/s x8"
best "8GT/s x8"
`,
		"connectx3-endpoint": `express {"present":true,"port_type":"endpoint","max_payload_supported":256,"max_payload":256,"max_read_request":512}
acs {"present":false}
ats {"present":false}
now "8GT/s x8"
best "8GT/s x8"
`,
		"skylake-graphics": `express {"present":true,"port_type":"root-complex-endpoint","max_payload_supported":128,"max_payload":128,"max_read_request":128}
acs {"present":false}
ats {"present":true,"enabled":true}
now ? the function has no PCI Express link
best ? the function has no PCI Express link
`,
		"sunrise-point-root-port": `express {"present":true,"port_type":"root-port","max_payload_supported":256,"max_payload":256,"max_read_request":128}
acs ? the ACS control register of this Intel root port (8086:9d10) is not where the standard has it
ats {"present":false}
now "8GT/s x4"
best "8GT/s x4"
`,
		"pex9716-port": `express {"present":true,"port_type":"downstream-port","max_payload_supported":1024,"max_payload":128,"max_read_request":128}
acs {"present":true,"supported":["SrcValid","TransBlk","ReqRedir","CmpltRedir","UpstreamFwd","EgressCtrl","DirectTrans"]}
ats {"present":false}
now "8GT/s x4"
best "8GT/s x4"
`,
		"pex9716-port-256": `express {"present":true,"port_type":"downstream-port","max_payload_supported":1024,"max_payload":128,"max_read_request":128}
acs ? the kernel reaches only the first 256 bytes of configuration space
ats ? the kernel reaches only the first 256 bytes of configuration space
now "8GT/s x4"
best "8GT/s x4"
`,
		"rs690-host-bridge": "express " + without + "\nacs " + without + "\nats " + without + `
now ? the function has no PCI Express link
best ? the function has no PCI Express link
`,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, say(bytes.NewReader(pciregstest.Config(t, name)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// change is a configuration space with some bytes changed: offset to byte.
func change(config []byte, at map[int]byte) []byte {
	config = bytes.Clone(config)
	for offset, b := range at {
		config[offset] = b
	}
	return config
}

// What cannot be read is unknown with its reason, never off and never absent.
func TestUnreadable(t *testing.T) {
	port, gpu := pciregstest.Config(t, "pex9716-port"), pciregstest.Config(t, "h200-in-guest")
	ones := bytes.Repeat([]byte{0xff}, 4096)
	const rootOnly = "all but the first 64 bytes of configuration space are shown to root alone"
	const gone = "it reads as all ones: the device does not answer"
	for name, tt := range map[string]struct {
		config []byte
		want   string // begins every line
	}{
		"without root":              {port[:64], rootOnly},
		"nothing":                   {nil, "configuration space ends after 0 bytes"},
		"within the header":         {port[:52], "configuration space ends after 52 bytes"},
		"gone":                      {ones, gone},
		"gone at the list":          {append(bytes.Clone(port[:64]), ones[64:]...), gone},
		"unknown header":            {change(port, map[int]byte{0x0e: 0x05}), "its header is of the unknown type 5"},
		"list into the header":      {change(port, map[int]byte{0x34: 0x1c}), "the capability list leads to 0x1c, into the header"},
		"list loops":                {change(port, map[int]byte{0x49: 0x40}), "the capability list loops at 0x40"},
		"list loops on itself":      {change(port, map[int]byte{0x41: 0x40}), "the capability list loops at 0x40"},
		"list ends where it is cut": {port[:0x48], rootOnly},
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range strings.Split(strings.TrimSpace(say(bytes.NewReader(tt.config))), "\n") {
				if _, why, ok := strings.Cut(line, "? "); !ok || !strings.HasPrefix(why, tt.want) {
					t.Errorf("%s; wanted %s", line, tt.want)
				}
			}
		})
	}
	for name, tt := range map[string]struct {
		config []byte
		want   string // is one of the lines
	}{
		"extended list loops":          {change(port, map[int]byte{0xf26: 0x01, 0xf27: 0x10}), "acs ? the list of extended capabilities loops at 0x100"},
		"extended list into standard":  {change(port, map[int]byte{0xf26: 0x01, 0xf27: 0x08}), "acs ? the list of extended capabilities leads to 0x080, below 0x100"},
		"gone at the extended list":    {append(bytes.Clone(port[:256]), ones[256:]...), "ats ? " + gone},
		"gone at ACS":                  {change(port, map[int]byte{0xf28: 0xff, 0xf29: 0xff}), "acs ? " + gone},
		"gone at PCI Express":          {change(port, map[int]byte{0x6c: 0xff, 0x6d: 0xff, 0x6e: 0xff, 0x6f: 0xff}), "express ? " + gone},
		"gone at the link":             {change(port, map[int]byte{0x7a: 0xff, 0x7b: 0xff}), "now ? " + gone},
		"gone at the link's best":      {change(port, map[int]byte{0x74: 0xff, 0x75: 0xff, 0x76: 0xff, 0x77: 0xff}), "best ? " + gone},
		"reserved port type":           {change(port, map[int]byte{0x6a: 0xf2}), "express ? its port type 0xf is reserved"},
		"reserved payload":             {change(port, map[int]byte{0x70: 0xc0}), "express ? its code 6 of the maximum payload is reserved"},
		"reserved supported payload":   {change(port, map[int]byte{0x6c: 0x07}), "express ? its code 7 of the maximum supported payload is reserved"},
		"reserved read request":        {change(port, map[int]byte{0x71: 0x68}), "express ? its code 6 of the maximum read request is reserved"},
		"no link is up":                {change(port, map[int]byte{0x7a: 0x03, 0x7b: 0x00}), "now ? no link is up"},
		"strange speed":                {change(port, map[int]byte{0x7a: 0x49, 0x7b: 0x60}), "now ? the link's speed is of an unknown code"},
		"strange width":                {change(port, map[int]byte{0x7a: 0xf3, 0x7b: 0x61}), "now ? a link is not 31 lanes wide"},
		"cut within PCI Express":       {port[:0x70], "express ? " + rootOnly},
		"cut before the link":          {port[:0x78], "now ? " + rootOnly},
		"cut before the link's best":   {port[:0x90], "best ? " + rootOnly},
		"cut before ACS":               {port[:0xf28], "acs ? the kernel reaches only the first 256 bytes"},
		"cut within ACS":               {port[:0xf2a], "acs ? the kernel reaches only the first 256 bytes"},
		"a virtual function":           {change(gpu, map[int]byte{0: 0xff, 1: 0xff, 2: 0xff, 3: 0xff}), `now "32GT/s x16"`},
		"no capabilities":              {change(gpu, map[int]byte{6: 0}), `express {"present":false}`},
		"an empty list":                {change(gpu, map[int]byte{0x34: 0}), `express {"present":false}`},
		"an empty extended list":       {change(port, map[int]byte{0x100: 0, 0x101: 0, 0x102: 0, 0x103: 0}), `acs {"present":false}`},
		"a CardBus bridge's list":      {change(port, map[int]byte{0x0e: 2, 0x34: 0x1c, 0x14: 0x40}), `now "8GT/s x4"`},
		"low bits of a pointer":        {change(port, map[int]byte{0x34: 0x43}), `now "8GT/s x4"`},
		"before version 2 of PCIe":     {change(port, map[int]byte{0x6a: 0x61, 0x74: 0x42}), `best "5GT/s x4"`},
		"no vector of speeds":          {change(port, map[int]byte{0x74: 0x42, 0x94: 0}), `best "5GT/s x4"`},
		"a vector up to 64 GT/s":       {change(port, map[int]byte{0x94: 0x7e}), `best "64GT/s x4"`},
		"the first of two":             {change(port, map[int]byte{0x10c: 0x0d}), `acs {"present":true}` + "\n"},
		"every ACS function":           {change(port, map[int]byte{0xf2a: 0x5d}), `"enabled":["SrcValid","ReqRedir","CmpltRedir","UpstreamFwd","DirectTrans"]}`},
		"ACS functions without a name": {change(port, map[int]byte{0xf29: 0xff, 0xf2b: 0xff}), `"EgressCtrl","DirectTrans"]}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := say(bytes.NewReader(tt.config)); !strings.Contains(got, tt.want) {
				t.Errorf("%s\nwanted %s", got, tt.want)
			}
		})
	}
}

// refusing answers every read from an offset on with an error.
type refusing struct {
	*bytes.Reader
	from int64
}

var errRefused = errors.New("input/output error")

func (r refusing) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.from {
		return 0, errRefused
	}
	return r.Reader.ReadAt(p, off)
}

func TestReadErrors(t *testing.T) {
	port := pciregstest.Config(t, "pex9716-port")
	for from, want := range map[int64]string{
		0: "? input/output error", 0x34: "? input/output error", 0x40: "express ? input/output error", 0x68: "express ? input/output error",
		0x69: "now ? input/output error", 0x100: "acs ? input/output error", 0xf28: "acs ? input/output error", 0xf2a: "acs ? input/output error",
	} {
		if got := say(refusing{bytes.NewReader(port), from}); !strings.Contains(got, want) {
			t.Errorf("refused from %#x: %s\nwanted %s", from, got, want)
		}
	}
}

// noted notes what is read.
type noted struct {
	*bytes.Reader
	read [4096]bool
}

func (n *noted) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		n.read[off+int64(i)] = true
	}
	return n.Reader.ReadAt(p, off)
}

// Nothing is read but the header, the headers of capabilities and what is named of them.
func TestReadsNoMore(t *testing.T) {
	n := &noted{Reader: bytes.NewReader(pciregstest.Config(t, "pex9716-port"))}
	say(n)
	allowed := [][2]int{{0, 16}, {0x34, 0x35}, {0x40, 0x42}, {0x48, 0x4a}, {0x68, 0x72}, {0x74, 0x78}, {0x7a, 0x7c}, {0x94, 0x98}, {0xf28, 0xf2c}}
	for _, at := range []int{0x100, 0xfb4, 0x138, 0x10c, 0x148, 0xf24, 0xb70, 0xb60} {
		allowed = append(allowed, [2]int{at, at + 4})
	}
	for at, read := range n.read {
		within := false
		for _, r := range allowed {
			within = within || r[0] <= at && at < r[1]
		}
		if read != within {
			t.Errorf("%#03x: read %v, wanted %v", at, read, within)
		}
	}
}

func TestWrites(t *testing.T) {
	const (
		kernel = pciregs.SrcValid | pciregs.ReqRedir | pciregs.CmpltRedir | pciregs.UpstreamFwd // what Linux turns on
		guests = pciregs.SrcValid | pciregs.ReqRedir | pciregs.CmpltRedir | pciregs.UpstreamFwd | pciregs.DirectTrans
	)
	port := pciregstest.Config(t, "pex9716-port")
	redirecting := change(port, map[int]byte{0xf2a: 0x1d})
	root, graphics := pciregstest.Config(t, "haswell-root-port"), pciregstest.Config(t, "skylake-graphics")
	acs := func(on, off pciregs.ACSBits) func(*pciregs.Space) (pciregs.Write, error) {
		return func(s *pciregs.Space) (pciregs.Write, error) { return s.ACSWrite(on, off) }
	}
	request := func(n int) func(*pciregs.Space) (pciregs.Write, error) {
		return func(s *pciregs.Space) (pciregs.Write, error) { return s.MaxReadRequestWrite(n) }
	}
	ordering := func(on bool) func(*pciregs.Space) (pciregs.Write, error) {
		return func(s *pciregs.Space) (pciregs.Write, error) { return s.RelaxedOrderingWrite(on) }
	}
	for name, tt := range map[string]struct {
		config []byte
		write  func(*pciregs.Space) (pciregs.Write, error)
		want   string
	}{
		"redirect off":                  {redirecting, acs(0, pciregs.Redirect), "0xf2a.w: 001d -> 0001"},
		"redirect is off":               {port, acs(0, pciregs.Redirect), "0xf2a.w: 0000 -> 0000"},
		"others stay":                   {change(port, map[int]byte{0xf2a: 0x7f, 0xf2b: 0x10}), acs(0, pciregs.Redirect), "0xf2a.w: 107f -> 1043"},
		"as the kernel":                 {port, acs(kernel, 0), "0xf2a.w: 0000 -> 001d"},
		"for guests":                    {redirecting, acs(guests, pciregs.TransBlk|pciregs.EgressCtrl), "0xf2a.w: 001d -> 005d"},
		"off without being implemented": {root, acs(0, pciregs.Redirect), "0x116.w: 001f -> 0003"},
		"on without being implemented":  {root, acs(guests, 0), "? it does not implement DirectTrans"},
		"on and off":                    {port, acs(kernel, pciregs.Redirect), "? ReqRedir, CmpltRedir, UpstreamFwd cannot be on and off"},
		"no such function":              {port, acs(0, 1<<7), "? 0x0080 are no ACS functions"},
		"without ACS":                   {pciregstest.Config(t, "h200-in-guest"), acs(0, pciregs.Redirect), "? it has no ACS capability"},
		"ACS out of reach":              {pciregstest.Config(t, "pex9716-port-256"), acs(0, pciregs.Redirect), "? the kernel reaches only the first 256 bytes of configuration space"},
		"Intel's own ACS":               {pciregstest.Config(t, "sunrise-point-root-port"), acs(0, pciregs.Redirect), "? the ACS control register of this Intel root port (8086:9d10) is not where the standard has it"},
		"ACS without root":              {redirecting[:64], acs(0, pciregs.Redirect), "? all but the first 64 bytes of configuration space are shown to root alone: run as root"},
		"ACS that goes":                 {change(port, map[int]byte{0xf2a: 0xff, 0xf2b: 0xff}), acs(0, pciregs.Redirect), "? it reads as all ones: the device does not answer (unplugged, in reset or without power)"},
		"read requests of 4096":         {pciregstest.Config(t, "connectx3-endpoint"), request(4096), "0x068.w: 2020 -> 5020"},
		"read requests of 128":          {pciregstest.Config(t, "h200-in-guest"), request(128), "0x068.w: 5134 -> 0134"},
		"read requests as they are":     {pciregstest.Config(t, "h200-in-guest"), request(4096), "0x068.w: 5134 -> 5134"},
		"read requests of 0":            {port, request(0), "? a maximum read request of 0 bytes: it is 128, 256, 512, 1024, 2048 or 4096"},
		"read requests of 64":           {port, request(64), "? a maximum read request of 64 bytes: it is 128, 256, 512, 1024, 2048 or 4096"},
		"read requests of 8192":         {port, request(8192), "? a maximum read request of 8192 bytes: it is 128, 256, 512, 1024, 2048 or 4096"},
		"read requests of 4095":         {port, request(4095), "? a maximum read request of 4095 bytes: it is 128, 256, 512, 1024, 2048 or 4096"},
		"read requests without PCIe":    {pciregstest.Config(t, "rs690-host-bridge"), request(512), "? it is no PCI Express function"},
		"read requests without root":    {port[:64], request(512), "? all but the first 64 bytes of configuration space are shown to root alone: run as root"},
		"relaxed ordering on":           {pciregstest.Config(t, "connectx3-endpoint"), ordering(true), "0x068.w: 2020 -> 2030"},
		"relaxed ordering off":          {pciregstest.Config(t, "h200-in-guest"), ordering(false), "0x068.w: 5134 -> 5124"},
		"relaxed ordering is off":       {graphics, ordering(false), "0x078.w: 0000 -> 0000"},
		"relaxed ordering without PCIe": {pciregstest.Config(t, "rs690-host-bridge"), ordering(true), "? it is no PCI Express function"},
		"relaxed ordering without root": {port[:64], ordering(true), "? all but the first 64 bytes of configuration space are shown to root alone: run as root"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pciregs.Open(bytes.NewReader(tt.config))
			if err != nil {
				t.Fatal(err)
			}
			w, err := tt.write(s)
			got := w.String()
			if err != nil {
				got = "? " + err.Error()
			}
			if got != tt.want {
				t.Errorf("%s, wanted %s", got, tt.want)
			}
			if want := []byte{byte(w.New), byte(w.New >> 8)}; err == nil && !bytes.Equal(w.Bytes(), want) {
				t.Errorf("writes % x, wanted % x", w.Bytes(), want)
			}
		})
	}
}

func TestACSBits(t *testing.T) {
	const bits = pciregs.SrcValid | pciregs.ReqRedir | pciregs.DirectTrans
	if got, want := bits.String(), "SrcValid+ TransBlk- ReqRedir+ CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans+"; got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
	if pciregs.Redirect != 0x3c {
		t.Errorf("redirect is %#x", uint16(pciregs.Redirect))
	}
	for text, want := range map[string]pciregs.ACSBits{`["SrcValid","ReqRedir","DirectTrans"]`: bits, `[]`: 0} {
		var got pciregs.ACSBits = 0xff
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %s: %v", text, got, err)
		}
		if again, err := json.Marshal(want); err != nil || string(again) != text {
			t.Errorf("%s is written as %s: %v", text, again, err)
		}
	}
	var b pciregs.ACSBits
	if err := json.Unmarshal([]byte(`["Redirect"]`), &b); err == nil || !strings.Contains(err.Error(), `"Redirect" is no ACS function: they are SrcValid, TransBlk`) {
		t.Error(err)
	}
	if err := json.Unmarshal([]byte(`29`), &b); err == nil {
		t.Error("a number is no list of names")
	}
}

func TestParseLink(t *testing.T) {
	for _, tt := range [][3]string{
		{"32.0 GT/s PCIe", "16", "32GT/s x16"}, {"16.0 GT/s PCIe\n", "8\n", "16GT/s x8"}, {"8 GT/s", "12", "8GT/s x12"}, {"2.5 GT/s PCIe", "1", "2.5GT/s x1"},
		{"Unknown", "16", `? the kernel shows "Unknown" as the link's speed`}, {"Unknown speed", "4", `? the kernel shows "Unknown speed" as the link's speed`},
		{"2.5 GT/s PCIe", "0", "? no link is up"}, {"Unknown", "63", `? the kernel shows "Unknown" as the link's speed`},
		{"32.0 GT/s PCIe", "255", "? a link is not 255 lanes wide"}, {"32.0 GT/s PCIe", "", `? the link's width "" is no number`},
		{"133 MHz PCI-X", "16", `? the kernel shows "133 MHz PCI-X" as the link's speed`}, {"33 GT/s", "16", `? the kernel shows "33 GT/s" as the link's speed`},
		{"0 GT/s", "16", `? the kernel shows "0 GT/s" as the link's speed`}, {"NaN GT/s", "16", `? the kernel shows "NaN GT/s" as the link's speed`},
	} {
		link, err := pciregs.ParseLink(tt[0], tt[1])
		got := link.String()
		if err != nil {
			got = "? " + err.Error()
		}
		if got != tt[2] {
			t.Errorf("%q and %q: %s, wanted %s", tt[0], tt[1], got, tt[2])
		}
	}
	gpu, port := pciregs.Link{SpeedGTs: 32, Width: 16}, pciregs.Link{SpeedGTs: 16, Width: 16}
	if !port.Slower(gpu) || gpu.Slower(port) || gpu.Slower(gpu) || !(pciregs.Link{SpeedGTs: 64, Width: 8}).Slower(gpu) || gpu.Within(port) != port {
		t.Error("which link is slower")
	}
}

func TestCheckLink(t *testing.T) {
	for link, want := range map[pciregs.Link]string{
		{SpeedGTs: 2.5, Width: 12}: "<nil>", {SpeedGTs: 64, Width: 32}: "<nil>",
		{SpeedGTs: 10, Width: 16}: "a speed of 10 GT/s: it is 2.5, 5, 8, 16, 32 or 64", {Width: 16}: "a speed of 0 GT/s: it is 2.5, 5, 8, 16, 32 or 64",
		{SpeedGTs: 32, Width: 3}: "a link is not 3 lanes wide", {SpeedGTs: 32}: "no link is up",
	} {
		if got := fmt.Sprint(link.Check()); got != want {
			t.Errorf("%v: %s, wanted %s", link, got, want)
		}
	}
}

// h200Resource is what an H200 in a virtual machine shows.
const h200Resource = `0x0000104002000000 0x0000104002ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000100000000000 0x0000103fffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000104000000000 0x0000104001ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
`

func TestParseResource(t *testing.T) {
	const gib = 1 << 30
	h200 := []pciregs.BAR{{Index: 0, SizeBytes: 16 << 20, Prefetchable: true}, {Index: 2, SizeBytes: 256 * gib, Prefetchable: true}, {Index: 4, SizeBytes: 32 << 20, Prefetchable: true}}
	none := strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 7)
	first := func(line string) string { return line + none[strings.Index(none, "\n"):] }
	for name, tt := range map[string]struct {
		text string
		want []pciregs.BAR
		why  string
	}{
		"H200":         {text: h200Resource, want: h200},
		"none":         {text: none, want: []pciregs.BAR{}},
		"virtio":       {text: first("0x0000004000100000 0x000000400017ffff 0x0000000000140204"), want: []pciregs.BAR{{SizeBytes: 512 << 10}}},
		"I/O ports":    {text: first("0x0000000000003000 0x000000000000303f 0x0000000000040101"), want: []pciregs.BAR{}},
		"unassigned":   {text: first("0x0000000000000000 0x0000000fffffffff 0x000000002014220c"), want: []pciregs.BAR{{SizeBytes: 64 * gib, Prefetchable: true, Unassigned: true}}},
		"cut off":      {text: "0x0 0x0 0x0\n", why: "it has lines for 2 of 6 base address registers"},
		"few fields":   {text: first("0x0 0x0"), why: "line 1 has 2 fields"},
		"no number":    {text: first("0x0 x 0x200"), why: `line 1: "x" is no hexadecimal number`},
		"decimal":      {text: first("0 1 2"), why: `line 1: "0" is no hexadecimal number`},
		"backwards":    {text: first("0x2 0x1 0x200"), why: "line 1: the region ends before it starts"},
		"all there is": {text: first("0x0 0xffffffffffffffff 0x200"), why: "line 1: the region ends before it starts"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pciregs.ParseResource(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// FuzzConfig: whatever a device answers, reading ends, and a change touches only what it is about.
func FuzzConfig(f *testing.F) {
	for _, name := range []string{
		"h200-in-guest", "haswell-root-port", "connectx3-endpoint", "skylake-graphics", "sunrise-point-root-port",
		"pex9716-port", "pex9716-port-256", "rs690-host-bridge",
	} {
		f.Add(pciregstest.Config(f, name))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 4096))
	f.Fuzz(func(t *testing.T, config []byte) {
		say(bytes.NewReader(config))
		s, err := pciregs.Open(bytes.NewReader(config))
		if err != nil {
			return
		}
		for mask, write := range map[uint16]func() (pciregs.Write, error){
			uint16(pciregs.Redirect): func() (pciregs.Write, error) { return s.ACSWrite(0, pciregs.Redirect) },
			0x7000:                   func() (pciregs.Write, error) { return s.MaxReadRequestWrite(4096) },
			0x0010:                   func() (pciregs.Write, error) { return s.RelaxedOrderingWrite(true) },
		} {
			w, err := write()
			if err != nil {
				continue
			}
			if w.Offset < 0x40 || w.Offset%2 != 0 || w.Offset+2 > int64(len(config)) || (w.Old^w.New)&^mask != 0 {
				t.Fatalf("%s with mask %#04x", w, mask)
			}
			if held := binary.LittleEndian.Uint16(config[w.Offset:]); held != w.Old {
				t.Fatalf("%s, but it holds %04x", w, held)
			}
		}
	})
}

// FuzzSysfs: what the kernel shows of links and regions.
func FuzzSysfs(f *testing.F) {
	f.Add("32.0 GT/s PCIe", "16", h200Resource)
	f.Add("Unknown", "255", "")
	f.Add("2.5 GT/s", "0", "0x0 0xffffffffffffffff 0x200\n")
	f.Fuzz(func(t *testing.T, speed, width, resource string) {
		if link, err := pciregs.ParseLink(speed, width); err == nil && (link.SpeedGTs < 2.5 || link.SpeedGTs > 64 || link.Width < 1 || link.Width > 32) {
			t.Error(link)
		}
		bars, _ := pciregs.ParseResource(resource)
		for i, b := range bars {
			if b.SizeBytes == 0 || b.Index < 0 || b.Index > 5 || i > 0 && bars[i-1].Index >= b.Index {
				t.Errorf("%+v", bars)
			}
		}
	})
}
