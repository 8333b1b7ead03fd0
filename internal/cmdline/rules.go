package cmdline

import (
	"slices"
	"strings"
)

// Rule says what the reader of a key does with several occurrences of it.
type Rule int

const (
	// LastWins: only the last occurrence counts.
	LastWins Rule = iota
	// List: the value is a comma list whose sub-options add up over all
	// occurrences; of sub-options that exclude each other the last wins.
	List
	// LastList: the value is a comma list, and only the last occurrence counts.
	LastList
	// Sticky is List with a sub-option that stays once it was seen, whatever
	// follows ("iommu=off").
	Sticky
	// Repeat: every occurrence has a meaning of its own.
	Repeat
)

// rules holds the keys that are not LastWins, in canonical spelling, with the
// function that reads them.
var rules = map[string]Rule{
	"iommu":     Sticky, // arch/x86/kernel/pci-dma.c iommu_setup
	"amd_iommu": Sticky, // drivers/iommu/amd/init.c parse_amd_iommu_options
	"pcie_aspm": Sticky, // drivers/pci/pcie/aspm.c pcie_aspm_disable

	"intel_iommu":         List, // drivers/iommu/intel/iommu.c intel_iommu_setup
	"pci":                 List, // drivers/pci/pci.c pci_setup
	"efi":                 List, // drivers/firmware/efi/efi.c parse_efi_cmdline
	"modprobe.blacklist":  List, // kmod libkmod/libkmod-config.c
	"modules_load":        List, // systemd-modules-load(8)
	"rd.modules_load":     List,
	"rd.driver.blacklist": List, // dracut.cmdline(7)
	"rd.driver.pre":       List,
	"rd.driver.post":      List,

	"module_blacklist": LastList, // kernel/module/main.c, a charp: each occurrence replaces the one before

	"console":        Repeat, // kernel/printk/printk.c console_setup
	"earlycon":       Repeat,
	"earlyprintk":    Repeat,
	"netconsole":     Repeat,
	"hugepagesz":     Repeat, // mm/hugetlb.c: pairs, the order counts
	"hugepages":      Repeat,
	"crashkernel":    Repeat, // kernel/crash_core.c: X, X,high and X,low
	"memmap":         Repeat, // arch/x86/kernel/e820.c parse_memmap_opt
	"acpi_osi":       Repeat, // drivers/acpi/osi.c
	"ivrs_ioapic":    Repeat, // drivers/iommu/amd/init.c
	"ivrs_hpet":      Repeat,
	"ivrs_acpihid":   Repeat,
	"dyndbg":         Repeat,
	"video":          Repeat,
	"ip":             Repeat, // dracut.cmdline(7), from here on
	"ifname":         Repeat,
	"bond":           Repeat,
	"bridge":         Repeat,
	"team":           Repeat,
	"vlan":           Repeat,
	"nameserver":     Repeat,
	"rd.route":       Repeat,
	"rd.luks.uuid":   Repeat,
	"rd.luks.name":   Repeat,
	"rd.lvm.lv":      Repeat,
	"rd.lvm.vg":      Repeat,
	"rd.md.uuid":     Repeat,
	"rd.znet":        Repeat,
	"systemd.mask":   Repeat, // systemd-debug-generator(8)
	"systemd.wants":  Repeat,
	"systemd.setenv": Repeat,
}

// RuleOf returns the rule of a key.
func RuleOf(key string) Rule { return rules[canonical(key)] }

// exclusive names, per key, the sub-options that overwrite each other; those
// with the same group name do. A sub-option that is not listed overwrites only
// its own kind: the same name before '='.
var exclusive = map[string]map[string]string{
	"iommu": {
		"pt": "domain", "nopt": "domain",
		"force": "force", "noforce": "force",
		"merge": "merge", "nomerge": "merge",
		"panic": "panic", "nopanic": "panic",
	},
	"intel_iommu": {
		"on": "on", "off": "on",
		"sm_on": "sm", "sm_off": "sm",
	},
	"amd_iommu": {
		"pgtbl_v1": "pgtbl", "pgtbl_v2": "pgtbl",
	},
	"pci": {
		"pcie_bus_tune_off": "bus", "pcie_bus_safe": "bus",
		"pcie_bus_perf": "bus", "pcie_bus_peer2peer": "bus",
	},
}

// sticky names the sub-option that, once seen, stays and makes the rest of its
// key pointless.
var sticky = map[string]string{
	"iommu":     "off", // no_iommu = 1
	"amd_iommu": "off", // amd_iommu_disabled = true
	"pcie_aspm": "off", // aspm_disabled = 1
}

// boolean holds the keys whose value goes through kstrtobool (lib/kstrtox.c);
// the kernel ignores an occurrence that it rejects.
var boolean = map[string]bool{
	"iommu.passthrough": true, // drivers/iommu/iommu.c iommu_set_def_domain_type
	"iommu.strict":      true, // drivers/iommu/iommu.c iommu_dma_setup
	"iommu.forcedac":    true, // drivers/iommu/dma-iommu.c
	"init_on_alloc":     true, // mm/mm_init.c
	"init_on_free":      true,
}

// parseBool is kstrtobool; ok is false where the kernel answers EINVAL.
func parseBool(s string) (value, ok bool) {
	if s == "" {
		return false, false
	}
	switch s[0] {
	case 'y', 'Y', 't', 'T', '1':
		return true, true
	case 'n', 'N', 'f', 'F', '0':
		return false, true
	case 'o', 'O':
		if len(s) > 1 {
			switch s[1] {
			case 'n', 'N':
				return true, true
			case 'f', 'F':
				return false, true
			}
		}
	}
	return false, false
}

// option is one sub-option of a comma list and the token that it stands in.
type option struct {
	text string
	arg  Arg
}

// options lists the sub-options of a list key, in order. For iommu= it counts
// iommu.passthrough= too: both set the kernel's default domain type, and the
// later one wins (drivers/iommu/iommu.c).
func options(line Line, key string) []option {
	key = canonical(key)
	var all []option
	for _, a := range line {
		switch {
		case canonical(a.Key) == key:
			if rules[key] == LastList {
				all = nil
			}
			for sub := range strings.SplitSeq(a.Value, ",") {
				if sub != "" {
					all = append(all, option{sub, a})
				}
			}
		case key == "iommu" && KeyEqual(a.Key, "iommu.passthrough"):
			if pt, ok := parseBool(a.Value); ok {
				all = append(all, option{domainName(pt), a})
			}
		}
	}
	return all
}

func domainName(passthrough bool) string {
	if passthrough {
		return "pt"
	}
	return "nopt"
}

// group returns what a sub-option overwrites.
func group(key, sub string) string {
	if g, ok := exclusive[canonical(key)][sub]; ok {
		return g
	}
	name, _, _ := strings.Cut(sub, "=")
	return "=" + name
}

// inForce drops from the sub-options of a key those that are overwritten.
func inForce(line Line, key string) []option {
	all := options(line, key)
	if stays, ok := sticky[canonical(key)]; ok {
		if i := slices.IndexFunc(all, func(o option) bool { return o.text == stays }); i >= 0 {
			return all[i : i+1]
		}
	}
	last := map[string]int{}
	for i, o := range all {
		last[group(key, o.text)] = i
	}
	var winners []option
	for i, o := range all {
		if last[group(key, o.text)] == i {
			winners = append(winners, o)
		}
	}
	return winners
}

// Satisfied says whether KEY=VALUE, or with an empty value the bare flag KEY, is
// in force once the kernel has read the whole line, by the rule of the key: for
// lists every wanted sub-option must be in force, for Repeat one occurrence
// suffices, else only the last occurrence counts. found names what is in force
// for the key as tokens, "" where the key is absent. For iommu= an equivalent
// iommu.passthrough= counts; use IOMMU where a mode is wanted and not a token.
func Satisfied(line Line, key, value string) (ok bool, found string) {
	rule := RuleOf(key)
	occurrences := Occurrences(line, key)
	switch {
	case rule == Repeat || value == "" && rule != LastWins:
		for _, a := range occurrences {
			ok = ok || hasValue(a, value)
		}
		return ok, Line(occurrences).String()
	case rule != LastWins:
		winners := inForce(line, key)
		ok = true
		for sub := range strings.SplitSeq(value, ",") {
			ok = ok && slices.ContainsFunc(winners, func(o option) bool { return o.text == sub })
		}
		return ok, describe(key, winners)
	}
	if boolean[canonical(key)] {
		occurrences = slices.DeleteFunc(occurrences, func(a Arg) bool {
			_, valid := parseBool(a.Value)
			return !valid
		})
	}
	if len(occurrences) == 0 {
		return false, ""
	}
	last := occurrences[len(occurrences)-1]
	return hasValue(last, value), last.Text
}

// hasValue compares a token with a wanted value; booleans compare as such.
func hasValue(a Arg, value string) bool {
	if value == "" {
		return a.Value == ""
	}
	if boolean[canonical(a.Key)] {
		got, ok := parseBool(a.Value)
		want, wantOK := parseBool(value)
		return ok && wantOK && got == want
	}
	return a.Value == value
}

// describe renders sub-options in force as one token per key.
func describe(key string, winners []option) string {
	var subs, others []string
	for _, o := range winners {
		if KeyEqual(o.arg.Key, key) {
			subs = append(subs, o.text)
		} else {
			others = append(others, o.arg.Text)
		}
	}
	if len(subs) > 0 {
		others = slices.Insert(others, 0, Quote(key, strings.Join(subs, ",")))
	}
	return strings.Join(others, " ")
}

// Absent says whether nothing on the line spells the argument: KEY in any form
// where value is empty, else KEY=VALUE, or for comma lists any of the
// sub-options in value, in force or not; one without "=" in any form too.
func Absent(line Line, key, value string) bool {
	for _, a := range Occurrences(line, key) {
		if value == "" {
			return false
		}
		switch RuleOf(key) {
		case List, LastList, Sticky:
			subs := strings.Split(a.Value, ",")
			for sub := range strings.SplitSeq(value, ",") {
				if slices.ContainsFunc(subs, func(s string) bool {
					name, _, _ := strings.Cut(s, "=")
					return s == sub || name == sub
				}) {
					return false
				}
			}
		default:
			if hasValue(a, value) {
				return false
			}
		}
	}
	return true
}
