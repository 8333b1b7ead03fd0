package cmdline

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is what becomes of a device's DMA addresses.
type Mode string

const (
	// Unset: the line leaves it to the kernel's configuration.
	Unset Mode = ""
	// Passthrough: an IOMMU is on, devices get identity domains.
	Passthrough Mode = "passthrough"
	// Translated: devices get DMA domains.
	Translated Mode = "translated"
	// Off: the IOMMU does not remap DMA.
	Off Mode = "off"
)

// Platform is what decides which arguments a kernel reads.
type Platform struct {
	// Arch is the machine name of uname(2): "x86_64", "aarch64".
	Arch string
	// Table is the firmware table that describes the IOMMU: "DMAR" (Intel
	// VT-d), "IVRS" (AMD-Vi), "IORT" (Arm SMMU), "VIOT" (virtio-iommu), or ""
	// where it is not known.
	Table string
}

// NoteKind is why an argument deserves a remark.
type NoteKind string

const (
	// NoOp: the kernel does not act on the argument on this platform.
	NoOp NoteKind = "no-op"
	// Contradiction: another argument of the line undoes it.
	Contradiction NoteKind = "contradiction"
)

// Note is a remark about one argument.
type Note struct {
	// Arg is the exact text of the token.
	Arg  string
	Kind NoteKind
	// Text says what happens to the argument and what to write instead.
	Text string
}

// Intent is what a command line asks of the IOMMU. What the kernel made of it
// stands in /sys/kernel/iommu_groups/*/type.
type Intent struct {
	Mode Mode
	// By is the token that decides, "" where Mode is Unset.
	By    string
	Notes []Note
}

// known holds the sub-options that each key's reader knows.
var known = map[string][]string{
	"iommu": { // arch/x86/kernel/pci-dma.c iommu_setup, amd_gart_64.c gart_parse_options
		"off", "force", "noforce", "biomerge", "panic", "nopanic", "merge", "nomerge", "forcesac",
		"allowdac", "nodac", "usedac", "soft", "pt", "nopt", "fullflush", "nofullflush", "noagp",
		"noaperture", "allowed", "memaper", "leak",
	},
	"intel_iommu": { // drivers/iommu/intel/iommu.c intel_iommu_setup
		"on", "off", "igfx_off", "forcedac", "strict", "sp_off", "sm_on", "sm_off", "tboot_noforce",
	},
	"amd_iommu": { // drivers/iommu/amd/init.c parse_amd_iommu_options
		"fullflush", "force_enable", "off", "force_isolation", "pgtbl_v1", "pgtbl_v2", "irtcachedis",
		"nohugepages", "v2_pgsizes_only",
	},
}

// IOMMU says what a line asks of the IOMMU on a platform. On x86_64 the default
// domain type is set by iommu=pt, iommu=nopt and iommu.passthrough=, the last of
// them wins; iommu=off (no_iommu) and amd_iommu=off stay off whatever follows,
// of intel_iommu=on and off the last wins. Other architectures read only
// iommu.passthrough=. Where Table is "", the arguments of either vendor count.
func IOMMU(line Line, platform Platform) Intent {
	r := reading{platform: platform, noted: map[Note]bool{}}
	for _, a := range line {
		r.read(a)
	}
	return r.intent()
}

// event is an argument that votes for one of two outcomes.
type event struct {
	arg Arg
	yes bool
}

// reading collects what a line says about the IOMMU.
type reading struct {
	platform Platform
	off      *Arg    // the first argument that turns the IOMMU off for good
	domain   []event // yes: passthrough
	intel    []event // yes: on
	notes    []Note
	noted    map[Note]bool
}

// note keeps one contradiction per token: the first one found says the most.
func (r *reading) note(a Arg, kind NoteKind, format string, args ...any) {
	n := Note{Arg: a.Text, Kind: kind, Text: fmt.Sprintf(format, args...)}
	id := n
	if kind == Contradiction {
		id.Text = ""
	}
	if !r.noted[id] {
		r.noted[id] = true
		r.notes = append(r.notes, n)
	}
}

func (r *reading) read(a Arg) {
	switch key := canonical(a.Key); key {
	case "iommu.passthrough":
		pt, ok := parseBool(a.Value)
		if !ok {
			r.note(a, NoOp, "the kernel takes only 0, 1, y, n, on, off here and ignores the argument")
			return
		}
		r.domain = append(r.domain, event{a, pt})
	case "iommu":
		if r.platform.Arch != "x86_64" {
			r.note(a, NoOp, "iommu= is the x86 spelling, %s kernels do not read it; write iommu.passthrough=1 or =0", r.platform.Arch)
			return
		}
		r.options(a, key)
	case "intel_iommu":
		r.vendor(a, key, "Intel VT-d", "DMAR")
	case "amd_iommu":
		r.vendor(a, key, "AMD-Vi", "IVRS")
	}
}

// Ignored notes the arguments that no mainline kernel acts on and that are widely believed in:
// pci=noacs (drivers/pci/pci.c pci_setup).
func Ignored(line Line) []Note {
	var notes []Note
	for _, a := range Occurrences(line, "pci") {
		n := Note{Arg: a.Text, Kind: NoOp, Text: "the mainline kernel answers \"PCI: Unknown option `noacs'\"; use pci=disable_acs_redir= or pci=config_acs="}
		if slices.Contains(strings.Split(a.Value, ","), "noacs") && !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	return notes
}

// vendor reads a vendor's key where the platform has that vendor's table.
func (r *reading) vendor(a Arg, key, driver, table string) {
	switch {
	case r.platform.Arch != "x86_64":
		r.note(a, NoOp, "only the %s driver reads it, and %s has none", driver, r.platform.Arch)
	case r.platform.Table != table && r.platform.Table != "":
		r.note(a, NoOp, "only the %s driver reads it (ACPI table %s), and this firmware has %s", driver, table, r.platform.Table)
	default:
		r.options(a, key)
	}
}

func (r *reading) options(a Arg, key string) {
	for sub := range strings.SplitSeq(a.Value, ",") {
		name, _, _ := strings.Cut(sub, "=")
		switch key + "=" + sub {
		case "iommu=pt", "iommu=nopt":
			r.domain = append(r.domain, event{a, sub == "pt"})
		case "iommu=off":
			if r.platform.Table == "VIOT" {
				r.note(a, NoOp, "the virtio-iommu driver does not read iommu=off")
				continue
			}
			r.turnOff(a)
		case "amd_iommu=off":
			r.turnOff(a)
		case "intel_iommu=on", "intel_iommu=off":
			r.intel = append(r.intel, event{a, sub == "on"})
		default:
			if sub == "" || slices.Contains(known[key], name) || key == "iommu" && '0' <= sub[0] && sub[0] <= '9' {
				continue
			}
			r.note(a, NoOp, "%s", unknownOption(key, sub))
		}
	}
}

// unknownOption says what the kernel does with a sub-option it does not know.
func unknownOption(key, sub string) string {
	switch key {
	case "amd_iommu":
		return fmt.Sprintf("the kernel answers \"AMD-Vi: Unknown option - '%s'\" (older ones say nothing); AMD-Vi is on where the firmware has it, passthrough is iommu=pt", sub)
	case "intel_iommu":
		return fmt.Sprintf("the kernel answers \"DMAR: Unknown option - '%s'\" (older ones say nothing)", sub)
	default:
		return fmt.Sprintf("x86 kernels know no iommu=%s and say nothing; passthrough is iommu=pt", sub)
	}
}

func (r *reading) turnOff(a Arg) {
	if r.off == nil {
		r.off = &a
	}
}

func (r *reading) intent() Intent {
	off := r.off
	if n := len(r.intel); off == nil && n > 0 && !r.intel[n-1].yes {
		off = &r.intel[n-1].arg
	}
	var intent Intent
	switch n := len(r.domain); {
	case off != nil:
		for _, e := range r.domain {
			r.pointless(e.arg, *off)
		}
		for _, e := range r.intel {
			if e.yes {
				r.pointless(e.arg, *off)
			}
		}
		intent.Mode, intent.By = Off, off.Text
	case n > 0:
		intent.Mode, intent.By = Translated, r.domain[n-1].arg.Text
		if r.domain[n-1].yes {
			intent.Mode = Passthrough
		}
	}
	r.overruled(r.domain)
	r.overruled(r.intel)
	intent.Notes = r.notes
	return intent
}

// pointless notes an argument that an IOMMU turned off leaves without effect.
func (r *reading) pointless(a, off Arg) {
	if a.Text != off.Text {
		r.note(a, Contradiction, "has no effect: %s turns the IOMMU off", off.Text)
	}
}

// overruled notes the events that a later one of the other kind undoes.
func (r *reading) overruled(events []event) {
	if len(events) == 0 {
		return
	}
	last := events[len(events)-1]
	for _, e := range events {
		if e.yes != last.yes {
			r.note(e.arg, Contradiction, "undone by the later %s", last.arg.Text)
		}
	}
}

// WantedIOMMU returns the arguments that spell a mode on a platform:
//
//	x86_64   passthrough  iommu=pt            arch/x86/kernel/pci-dma.c
//	x86_64   translated   iommu=nopt          arch/x86/kernel/pci-dma.c
//	x86_64   off          intel_iommu=off (DMAR), amd_iommu=off (IVRS)
//	aarch64  passthrough  iommu.passthrough=1 drivers/iommu/iommu.c
//	aarch64  translated   iommu.passthrough=0 drivers/iommu/iommu.c
//
// With a DMAR table passthrough and translated come with intel_iommu=on, since
// a kernel may be built without CONFIG_INTEL_IOMMU_DEFAULT_ON
// (drivers/iommu/intel/iommu.c). It fails where no argument spells the mode.
func WantedIOMMU(mode Mode, platform Platform) ([]string, error) {
	switch platform.Arch {
	case "x86_64":
		return wantedX86(mode, platform.Table)
	case "aarch64":
		switch mode {
		case Passthrough:
			return []string{"iommu.passthrough=1"}, nil
		case Translated:
			return []string{"iommu.passthrough=0"}, nil
		case Off:
			return nil, fmt.Errorf("IOMMU mode off on aarch64: no kernel argument turns an SMMU off; firmware does, and iommu.passthrough=1 takes it out of the way")
		}
	default:
		return nil, fmt.Errorf("IOMMU mode %s: no spelling is known for architecture %q", mode, platform.Arch)
	}
	return nil, fmt.Errorf("IOMMU mode %q: want passthrough, translated or off", mode)
}

func wantedX86(mode Mode, table string) ([]string, error) {
	switch table {
	case "DMAR", "IVRS", "VIOT":
	case "":
		return nil, fmt.Errorf("IOMMU mode %s on x86_64: which IOMMU the firmware describes (ACPI table DMAR, IVRS or VIOT) is not known", mode)
	default:
		return nil, fmt.Errorf("IOMMU mode %s on x86_64: the ACPI table %s describes no x86 IOMMU", mode, table)
	}
	var args []string
	switch mode {
	case Passthrough:
		args = []string{"iommu=pt"}
	case Translated:
		args = []string{"iommu=nopt"}
	case Off:
		switch table {
		case "DMAR":
			return []string{"intel_iommu=off"}, nil
		case "IVRS":
			return []string{"amd_iommu=off"}, nil
		}
		return nil, fmt.Errorf("IOMMU mode off: no kernel argument turns virtio-iommu off; the hypervisor does")
	default:
		return nil, fmt.Errorf("IOMMU mode %q: want passthrough, translated or off", mode)
	}
	if table == "DMAR" {
		args = append([]string{"intel_iommu=on"}, args...)
	}
	return args, nil
}
