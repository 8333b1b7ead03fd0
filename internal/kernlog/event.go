package kernlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/lazyregexp"
)

// Kind is what a line tells of.
type Kind string

// The kinds of events. Of each stands here where the lines come from.
const (
	// Xid is an error that the NVIDIA driver reports of a GPU; Code is its number (nverror.h). Of number 154 Name is
	// what the GPU needs now: None, GPU Reset Required, Node Reboot Required, Drain P2P, Drain and Reset.
	Xid Kind = "xid"
	// SXid is one of an NVSwitch; Name is fatal or non-fatal (common_nvswitch.h).
	SXid Kind = "sxid"
	// GPULost: a GPU does not answer on the PCI bus any more (osapi.c, osinit.c).
	GPULost Kind = "gpu-lost"
	// GPUInit: the driver could not start a GPU (RmInitAdapter failed; None of the NVIDIA devices were initialized).
	GPUInit Kind = "gpu-init"
	// GPUTaken: another driver has GPUs (The NVIDIA probe routine was not called; nv.c).
	GPUTaken Kind = "gpu-taken"
	// VersionMismatch: a library of the driver has another version than the kernel module; Name is "LIBRARY and MODULE".
	VersionMismatch Kind = "version-mismatch"
	// DMABufRefused: GPU memory was not exported to a device that the driver takes for too far (nv-dmabuf.c).
	DMABufRefused Kind = "dma-buf-refused"
	// PeerMemory is a complaint of nvidia-peermem; Name is "invalid context" for the one about memory that was freed before.
	PeerMemory Kind = "peer-memory"
	// AER is an error of a PCI Express link; Name is corrected, non-fatal or fatal (drivers/pci/pcie/aer.c).
	AER Kind = "aer"
	// Containment: a port cut off what is behind it after an error (drivers/pci/pcie/dpc.c).
	Containment Kind = "containment"
	// LinkDown: the link of a hot-plug slot went down (drivers/pci/hotplug/pciehp_ctrl.c); Device is the port.
	LinkDown Kind = "link-down"
	// SlowLink: a device gets less bandwidth than it could use; Name is the driver that says so, or pci
	// (__pcie_print_link_status of drivers/pci/pci.c).
	SlowLink Kind = "slow-link"
	// IOMMUFault: an IOMMU refused what a device wanted to read or write (DMAR, AMD-Vi, Arm's SMMU).
	IOMMUFault Kind = "iommu-fault"
	// BAR: a memory region of a device has no address, and none was found later; Code is its number (drivers/pci/setup-res.c).
	BAR Kind = "bar"
	// MLX5 is a complaint of mlx5_core; Name is health, command-timeout, power, temperature or cable.
	MLX5 Kind = "mlx5"
	// ModuleSymbol: a module does not fit the others, Name, and what it lacks is in Text (kernel/module).
	ModuleSymbol Kind = "module-symbol"
	// ModuleUnversioned: a module was built without the versions of symbols of another; Name is the module's.
	ModuleUnversioned Kind = "module-unversioned"
	// ModuleUnsigned: the kernel refused a module for its signature; Name is the module's, where the line has it.
	ModuleUnsigned Kind = "module-unsigned"
	// ParameterUnknown: a module ignored a parameter; Name is MODULE.PARAMETER.
	ParameterUnknown Kind = "parameter-unknown"
	// OptionUnknown: the kernel ignored an argument; Name is amd_iommu=OPTION or pci=OPTION.
	OptionUnknown Kind = "option-unknown"
	// DMADomain says how IOMMUs treat devices unless told otherwise; Name is Passthrough or Translated. It is no fault.
	DMADomain Kind = "dma-domain"
	// NoX2APIC: processors were left out because interrupts cannot be remapped; Name is empty, or "cpu" for each one.
	NoX2APIC Kind = "no-x2apic"
	// OrderingCycle: systemd did not start a unit, Name, because units wait for each other in a circle.
	OrderingCycle Kind = "ordering-cycle"
	// Segfault: a program crashed in a library on the way to GPUs and NICs, Name (show_signal_msg of arch/x86/mm/fault.c).
	Segfault Kind = "segfault"
)

// Event is what one or more like lines tell.
type Event struct {
	Kind Kind `json:"kind"`
	// Device is the PCI address of what it is about, as sysfs writes it; empty where the line names none.
	Device string `json:"device,omitempty"`
	Code   int    `json:"code,omitempty"`
	Name   string `json:"name,omitempty"`
	// Text is the first of the lines, of Xid 154 the last; cut at 300 bytes.
	Text string `json:"text"`
	// Count of such lines, 1 at least.
	Count int  `json:"count" range:"1:"`
	First When `json:"first,omitzero"`
	Last  When `json:"last,omitzero"`
}

const (
	// maxEvents bounds what Collect returns.
	maxEvents = 500
	maxText   = 300
)

// address is a PCI address with or without its function, and of 4 to 8 digits in its domain.
const address = `([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)`

// pattern knows the lines of a kind. event fills in what they say; false where it is no such event after all.
type pattern struct {
	kind Kind
	// holds is in every such line: a cheap test before form.
	holds string
	form  *lazyregexp.Regexp
	event func(e *Event, m []string) bool
}

// modules are those of which it matters that they do not fit.
var modules = lazyregexp.New(`^(nvidia.*|nv_peer_mem|gdrdrv|mlx[45]_.*|mlx_compat|ib_.*|rdma_.*|iw_cm|bnxt_.*|irdma)$`)

var patterns = []pattern{
	{Xid, "Xid (", lazyregexp.New(`NVRM: Xid \((?:PCI:)?` + address + `[^)]*\): (\d{1,5})\b(.*)`), func(e *Event, m []string) bool {
		e.Device, e.Code = pci(m[1]), number(m[2])
		if change := recovery.FindStringSubmatch(m[3]); change != nil {
			e.Name = change[1]
		}
		return true
	}},
	{SXid, "SXid (", lazyregexp.New(`SXid \(PCI:` + address + `\): (\d{1,6}), (Fatal|Non-fatal)?`), func(e *Event, m []string) bool {
		e.Device, e.Code, e.Name = pci(m[1]), number(m[2]), strings.ToLower(m[3])
		return true
	}},
	{GPULost, "fallen off the bus", lazyregexp.New(`NVRM: (?:The NVIDIA )?GPU (?:at PCI:)?` + address + `.*fallen off the bus`), ofDevice},
	{GPUInit, "rm_init_adapter failed", lazyregexp.New(`NVRM: (?:GPU )?` + address + `: rm_init_adapter failed`), ofDevice},
	{GPUInit, "RmInitAdapter failed", lazyregexp.New(`NVRM: (?:GPU )?` + address + `: RmInitAdapter failed`), ofDevice},
	{GPUInit, "NVIDIA devices were initialized", lazyregexp.New(`NVRM: None of the NVIDIA devices were initialized`), always},
	{GPUTaken, "probe routine was not called", lazyregexp.New(`NVRM: The NVIDIA probe routine was not called`), always},
	{VersionMismatch, "NVRM: API mismatch", lazyregexp.New(`the version ([0-9.]+), but this kernel module has the version ([0-9.]*[0-9])`), func(e *Event, m []string) bool {
		e.Name = m[1] + " and " + m[2]
		return true
	}},
	{DMABufRefused, "not supported for dma-buf", lazyregexp.New(`NVRM: dma-buf attach failed: PCI topology not supported`), always},
	{PeerMemory, "peermem", lazyregexp.New(`nvidia[-_]peermem \S+ ERROR (detected (invalid context))?`), func(e *Event, m []string) bool {
		e.Name = m[2]
		return true
	}},
	{AER, "Bus Error: severity=", lazyregexp.New(address + `: (?:AER: )?(?:PCIe|CXL) Bus Error: severity=(Correct|Uncorrect)[a-z]+(?: \((Non-Fatal|Fatal)\))?`), func(e *Event, m []string) bool {
		e.Device, e.Name = pci(m[1]), strings.ToLower(m[3])
		if m[2] == "Correct" {
			e.Name = "corrected"
		}
		return true
	}},
	{AER, "error", lazyregexp.New(`: (?:Multiple )?Uncorrect(?:ed|able) \((Non-Fatal|Fatal)\) error (?:message )?received(?: from|:) ` + address), func(e *Event, m []string) bool {
		e.Device, e.Name = pci(m[2]), strings.ToLower(m[1])
		return true
	}},
	{Containment, "containment event", lazyregexp.New(address + `(?::pcie\d+)?: (?:DPC: |DPC )?containment event, status:`), ofDevice},
	{LinkDown, "Link Down", lazyregexp.New(address + `(?::pcie\d+)?: (?:pciehp: )?Slot\([^)]*\): Link Down$`), ofDevice},
	{SlowLink, "available PCIe bandwidth, limited by", lazyregexp.New(`(\w+) ` + address + `: [0-9.]+ Gb/s available PCIe bandwidth, limited by `), func(e *Event, m []string) bool {
		e.Name, e.Device = m[1], pci(m[2])
		return true
	}},
	{IOMMUFault, "IO_PAGE_FAULT", lazyregexp.New(`(?:` + address + `: )?AMD-Vi: Event logged \[IO_PAGE_FAULT (?:device=([0-9a-f:.]+) )?`), func(e *Event, m []string) bool {
		e.Device = pci(m[1] + m[2])
		return true
	}},
	{IOMMUFault, "equest device [", lazyregexp.New(`DMAR: ?\[DMA \w+(?: NO_PASID)?\] Request device \[([0-9a-f:.]+)\]`), func(e *Event, m []string) bool {
		e.Device = pci(m[1])
		return true
	}},
	{IOMMUFault, "arm-smmu", lazyregexp.New(`arm-smmu-v3 \S+: (?:event 0x[0-9a-f]+ received|event: [A-Z]\w+ client: (\S+))`), func(e *Event, m []string) bool {
		e.Device = pci(m[1])
		return true
	}},
	{BAR, "BAR", lazyregexp.New(`NVRM: BAR(\d) is 0M @ 0x0 \(PCI:` + address + `\)`), func(e *Event, m []string) bool {
		e.Code, e.Device = number(m[1]), pci(m[2])
		return true
	}},
	{BAR, "BAR", lazyregexp.New(`\S+ ` + address + `: BAR ([0-5])(?: \[mem size [^]]*\]: (?:can't assign|failed to assign)|: (?:no space for|failed to assign) \[mem)`), func(e *Event, m []string) bool {
		e.Device, e.Code = pci(m[1]), number(m[2])
		return true
	}},
	{MLX5, "mlx5_core", lazyregexp.New(`mlx5_core ` + address + `.*(health compromised|Fatal error \d+ detected|firmware internal error|unrecoverable hardware error|handling bad device|timeout\. Will cause a leak|insufficient power|High temperature|Cable error)`), func(e *Event, m []string) bool {
		e.Device, e.Name = pci(m[1]), "health"
		switch m[2] {
		case "timeout. Will cause a leak":
			e.Name = "command-timeout"
		case "insufficient power":
			e.Name = "power"
		case "High temperature":
			e.Name = "temperature"
		case "Cable error":
			e.Name = "cable"
		}
		return true
	}},
	{ModuleUnversioned, "no symbol version for", lazyregexp.New(`(?:^|\s)(\w+): no symbol version for \w+`), ofModule},
	{ModuleSymbol, "symbol", lazyregexp.New(`(?:^|\s)(\w+): (?:disagrees about version of symbol|Unknown symbol) \w+`), ofModule},
	{ModuleUnsigned, "is rejected", lazyregexp.New(`(?:(\w+): )?Loading of (?:unsigned module|module with \w+ \w+) is rejected`), func(e *Event, m []string) bool {
		e.Name = m[1]
		return true
	}},
	{ModuleUnsigned, "Lockdown: ", lazyregexp.New(`Lockdown: \S+: unsigned module loading is restricted`), always},
	{ParameterUnknown, "unknown parameter", lazyregexp.New(`(?:^|\s)(\w+): unknown parameter '([^']+)' ignored`), func(e *Event, m []string) bool {
		e.Name = m[1] + "." + m[2]
		return modules.MatchString(m[1])
	}},
	{OptionUnknown, "AMD-Vi: Unknown option", lazyregexp.New(`AMD-Vi: Unknown option - '([^']*)'`), func(e *Event, m []string) bool {
		e.Name = "amd_iommu=" + m[1]
		return true
	}},
	{OptionUnknown, "PCI: Unknown option", lazyregexp.New("PCI: Unknown option `([^']*)'"), func(e *Event, m []string) bool {
		e.Name = "pci=" + m[1]
		return true
	}},
	{OptionUnknown, "ACS command line", lazyregexp.New(`PCI: Can't parse ACS command line parameter`), func(e *Event, _ []string) bool {
		e.Name = "pci=config_acs or pci=disable_acs_redir"
		return true
	}},
	{DMADomain, "iommu: Default domain", lazyregexp.New(`iommu: Default domain type: ?(Passthrough|Translated)`), named},
	{NoX2APIC, "x2apic", lazyregexp.New(`x2apic: IRQ remapping doesn't support X2APIC mode`), always},
	{NoX2APIC, "invalid APIC ID", lazyregexp.New(`smpboot: CPU \d+ has invalid APIC ID`), func(e *Event, _ []string) bool {
		e.Name = "cpu"
		return true
	}},
	{OrderingCycle, "ordering cycle", lazyregexp.New(`systemd\[1\]: (?:\S+: Job (\S+)/\w+ deleted to break ordering cycle|Breaking ordering cycle by deleting job (\S+)/\w+)`), func(e *Event, m []string) bool {
		e.Name = m[1] + m[2]
		return true
	}},
	{Segfault, "segfault at ", lazyregexp.New(`\[\d+\]: segfault at [0-9a-f]+ .* in (lib(?:nccl|cuda|nvidia|ibverbs|mlx|rdmacm)[\w.+-]*)\[`), named},
}

var (
	recovery = lazyregexp.New(`recovery action changed from .* to 0x[0-9a-f]+ \(([^)]*)\)`)
	assigned = lazyregexp.New(`\S+ ` + address + `: BAR ([0-5])(?: \[mem [^]]*\]: assigned|: assigned \[mem)`)
)

func always(*Event, []string) bool { return true }

func named(e *Event, m []string) bool {
	e.Name = m[1]
	return true
}

func ofDevice(e *Event, m []string) bool {
	e.Device = pci(m[1])
	return true
}

func ofModule(e *Event, m []string) bool {
	e.Name = m[1]
	return modules.MatchString(m[1])
}

// continued are beginnings of what the NVIDIA driver prints in several calls, and how many lines follow.
var continued = map[string]int{"NVRM: API mismatch": 4, "NVRM: The NVIDIA GPU ": 2}

// Collect gives the events of a log, in the order in which they began, and how many others did not fit beside 500.
func Collect(log Log) (events []Event, dropped int) {
	var c Collector
	for _, r := range log.Records {
		c.Add(r)
	}
	return c.Events()
}

// Collector picks the events of a log that is too long to be held. The zero Collector has seen nothing.
type Collector struct {
	records int
	last    Record   // whose further lines may follow: priority and time
	held    []Record // lines that may be continued, and what may continue them
	events  []Event
	at      map[eventKey]int // index of events
	dropped int
}

// eventKey is what like lines have in common.
type eventKey struct {
	kind         Kind
	device, name string
	code         int
}

// Add takes the next record.
func (c *Collector) Add(r Record) {
	c.records++
	for line := range strings.SplitSeq(r.Text, "\n") {
		c.line(Record{Priority: r.Priority, When: r.When, Text: line})
	}
}

// Records is how many records were added.
func (c *Collector) Records() int { return c.records }

// Events are those so far, in the order in which they began, and how many others did not fit beside 500.
func (c *Collector) Events() (events []Event, dropped int) {
	rest := Collector{events: slices.Clone(c.events), at: maps.Clone(c.at), dropped: c.dropped}
	for i := range c.held {
		rest.collect(c.held[i:])
	}
	return slices.DeleteFunc(rest.events, func(e Event) bool { return e.Count == 0 }), rest.dropped
}

// mostContinued is the greatest number in continued.
const mostContinued = 4

// line takes a line of a record, and collects the one behind which enough are known.
func (c *Collector) line(r Record) {
	if len(c.held) == 0 && !begins(r.Text) {
		c.collect([]Record{r})
		return
	}
	c.held = append(c.held, r)
	for len(c.held) > mostContinued || len(c.held) > 0 && !begins(c.held[0].Text) {
		c.collect(c.held)
		c.held = slices.Delete(c.held, 0, 1)
	}
}

// begins reports a line that further ones may continue.
func begins(line string) bool {
	for start := range continued {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// whole is the first line with those that continue it.
func whole(lines []Record) string {
	text := lines[0].Text
	for start, more := range continued {
		if !strings.HasPrefix(text, start) {
			continue
		}
		for _, next := range lines[1:min(1+more, len(lines))] {
			rest, ok := strings.CutPrefix(next.Text, "NVRM: ")
			if !ok || strings.HasPrefix(next.Text, start) {
				break
			}
			text += " " + rest
		}
		break
	}
	return text
}

// collect notes what the first line tells.
func (c *Collector) collect(lines []Record) {
	text, when := whole(lines), lines[0].When
	if strings.Contains(text, "assigned") {
		if m := assigned.FindStringSubmatch(text); m != nil {
			resolved := eventKey{kind: BAR, device: pci(m[1]), code: number(m[2])}
			if i, ok := c.at[resolved]; ok {
				c.events[i].Count = 0 // a later attempt found room
				delete(c.at, resolved)
			}
			return
		}
	}
	e, ok := recognize(text)
	if !ok {
		return
	}
	k := eventKey{e.Kind, e.Device, e.Name, e.Code}
	if e.Kind == SXid || e.Kind == Xid {
		k.name = "" // further lines of one SXid do not repeat how bad it is; of Xid 154 the last one counts
	}
	i, seen := c.at[k]
	switch {
	case seen:
		c.events[i].Count++
		c.events[i].Last = when
		if e.Name != "" {
			c.events[i].Name = e.Name
		}
		if e.Kind == Xid && e.Name != "" {
			c.events[i].Text = e.Text
		}
	case len(c.events) == maxEvents:
		c.dropped++
	default:
		if c.at == nil {
			c.at = map[eventKey]int{}
		}
		e.First, e.Last, e.Count = when, when, 1
		c.at[k] = len(c.events)
		c.events = append(c.events, e)
	}
}

// Tells reports whether a line, with or without what stands before its message, tells of an event.
func Tells(line string) bool {
	_, ok := recognize(line)
	return ok
}

// recognize is the event that a line tells of.
func recognize(line string) (Event, bool) {
	for _, p := range patterns {
		if !strings.Contains(line, p.holds) {
			continue
		}
		m := p.form.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		e := Event{Kind: p.kind, Text: shorten(line)}
		if p.event(&e, m) {
			return e, true
		}
	}
	return Event{}, false
}

func shorten(line string) string {
	line = strings.TrimSpace(line)
	if len(line) > maxText {
		line = strings.ToValidUTF8(line[:maxText], "") + "..."
	}
	return line
}

// number is that of a few digits.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// pci is an address as sysfs writes it: DDDD:BB:DD.F. Lines of the driver leave out the function of a GPU, which is 0, and some
// of IOMMUs the domain 0. It is empty where text is no address.
func pci(text string) string {
	if strings.Count(text, ":") == 1 {
		text = "0000:" + text
	}
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	var domain, bus, device, function uint32
	if n, err := fmt.Sscanf(strings.ToLower(text), "%x:%x:%x.%x", &domain, &bus, &device, &function); n != 4 || err != nil || bus > 0xff || device > 0x1f || function > 7 {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, device, function)
}
