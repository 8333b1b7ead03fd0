package linkconf

import (
	"path"
	"strings"
	"unicode"
)

// NetworkDirs are where systemd-networkd and udev look for .network and .link files, highest priority first
// (systemd.network(5), systemd.link(5)).
var NetworkDirs = []string{"/etc/systemd/network", "/run/systemd/network", "/usr/local/lib/systemd/network", "/usr/lib/systemd/network", "/lib/systemd/network"}

// Device is a network device as section [Match] of a .link file sees it. An empty field is not known.
type Device struct {
	// Name of now. Renamed: the kernel had given it another one, which is not known.
	Name    string
	Renamed bool
	// MAC is the permanent address, twelve hex digits.
	MAC string
	// Path is udev's ID_PATH, Driver its ID_NET_DRIVER.
	Path, Driver string
	// Type is ether or infiniband.
	Type string
}

// Verdict says whether a file is for a device.
type Verdict int

// A file is for a device, is not, or it cannot be told.
const (
	No Verdict = iota
	Yes
	Unclear
)

// Match evaluates section [Match] of a .link file with its drop-ins as net_match_config in src/shared/net-condition.c does. It
// is Unclear where a key decides that hangs on more than Device has: Property=, conditions such as Host= and
// KernelVersion=, an original name after a renaming. A file without a key matches nothing.
func Match(settings []Setting, d Device) Verdict {
	values := map[string][]string{}
	var keys []string
	for _, s := range settings {
		if s.Section != "Match" {
			continue
		}
		if _, seen := values[s.Key]; !seen {
			keys = append(keys, s.Key)
		}
		if s.Value == "" {
			values[s.Key] = nil
			continue
		}
		invert, words := "", s.Value
		if rest, not := strings.CutPrefix(s.Value, "!"); not && !isAddressKey(s.Key) {
			invert, words = "!", rest
		}
		for word := range strings.FieldsSeq(words) {
			values[s.Key] = append(values[s.Key], invert+strings.Trim(word, `"'`))
		}
	}
	verdict, constrained := Yes, false
	for _, key := range keys {
		if len(values[key]) == 0 {
			continue
		}
		v, valid := d.match(key, values[key])
		constrained = constrained || valid
		switch {
		case !valid:
		case v == No:
			return No
		case v == Unclear:
			verdict = Unclear
		}
	}
	if !constrained {
		return No
	}
	return verdict
}

func isAddressKey(key string) bool { return key == "MACAddress" || key == "PermanentMACAddress" }

// match evaluates one key; valid is false for one that systemd does not know.
func (d Device) match(key string, patterns []string) (v Verdict, valid bool) {
	switch key {
	case "MACAddress", "PermanentMACAddress":
		if d.MAC == "" {
			return Unclear, true
		}
		for _, p := range patterns {
			if hexDigits(p) == d.MAC {
				return Yes, true
			}
		}
		return No, true
	case "OriginalName":
		v := glob(patterns, d.Name)
		if v == No && d.Renamed {
			v = Unclear
		}
		return v, true
	case "Path":
		return known(patterns, d.Path), true
	case "Driver":
		return known(patterns, d.Driver), true
	case "Type":
		return known(patterns, d.Type), true
	case "Kind":
		return glob(patterns, ""), true // a port of a PCI function has none
	case "Property", "Host", "Virtualization", "KernelCommandLine", "KernelVersion", "Version", "Credential", "Architecture", "Firmware":
		return Unclear, true
	default:
		return No, false
	}
}

func known(patterns []string, s string) Verdict {
	if s == "" {
		return Unclear
	}
	return glob(patterns, s)
}

// glob is net_condition_test_strv: one pattern that matches is enough, one with ! must not. An empty s matches none.
func glob(patterns []string, s string) Verdict {
	verdict, positive := No, false
	for _, p := range patterns {
		p, invert := strings.CutPrefix(p, "!")
		positive = positive || !invert
		if s == "" {
			continue
		}
		matches, err := path.Match(strings.ReplaceAll(p, "[!", "[^"), s)
		switch {
		case err != nil:
			return Unclear
		case matches && invert:
			return No
		case matches:
			verdict = Yes
		}
	}
	if !positive {
		return Yes
	}
	return verdict
}

// hexDigits are those of an address, XX:XX:XX:XX:XX:XX, with dashes, or XXXX.XXXX.XXXX, in lower case
// (parse_hw_addr_full in src/basic/ether-addr-util.c).
func hexDigits(address string) string {
	width := 2
	if strings.ContainsRune(address, '.') {
		width = 4
	}
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(address, func(r rune) bool { return !unicode.IsDigit(r) && !unicode.IsLetter(r) }) {
		b.WriteString(strings.Repeat("0", max(0, width-len(part))) + strings.ToLower(part))
	}
	return b.String()
}

// LinkFile is a .link file with what its drop-ins add.
type LinkFile struct {
	Path     string
	Settings []Setting
	// Reason says why the file or a drop-in could not be read; Settings are then not all.
	Reason string
}

// Applied is the file that decides about a device as it is added, the first one that is for it, with the MTU that it says; without
// a path where none is. The files come in their order. doubt names a file before it of which it cannot be told whether it is
// for the device, where that makes a difference to the MTU, and says why.
func Applied(files []LinkFile, d Device) (decides LinkFile, mtu MTU, doubt string) {
	var doubtful []LinkFile
	for _, f := range files {
		verdict := Match(f.Settings, d)
		if f.Reason != "" || verdict == Unclear {
			doubtful = append(doubtful, f)
			continue
		}
		if verdict == Yes {
			decides, mtu = f, LinkMTU(f.Settings)
			break
		}
	}
	for _, f := range doubtful {
		switch {
		case f.Reason != "":
			return decides, mtu, f.Path + ": " + f.Reason
		case LinkMTU(f.Settings).Bytes != mtu.Bytes:
			return decides, mtu, "whether " + f.Path + " is for it hangs on more than can be read"
		}
	}
	return decides, mtu, ""
}
