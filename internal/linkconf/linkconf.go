// Package linkconf reads what those who set network devices up say of a device's MTU: files of systemd-networkd and
// udev, connections and defaults of NetworkManager, and the YAML of netplan that some of them are made of. It is pure; ifupdown
// has a package of its own.
package linkconf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"busbar/internal/confdir"
)

// Setting is one assignment in a file of sections.
type Setting struct {
	Section, Key, Value string
	// Path of the file and Line in it, from 1.
	Path string
	Line int
}

// MTU is what a file says of an MTU.
type MTU struct {
	// Bytes is 0 where nothing is said, and the device keeps what it has.
	Bytes int
	// Path and Line say where; empty and 0 where nothing is said.
	Path string
	Line int
}

// whitespace is WHITESPACE of systemd (src/basic/string-util.h).
const whitespace = " \t\n\r"

// ParseSystemd reads a file in the grammar of systemd.syntax(7) as config_parse in src/shared/conf-parser.c does. Lines
// that systemd skips are left out; after one at which it stops to read, nothing follows. The line of a setting that goes on over
// several is its first.
func ParseSystemd(f confdir.File) []Setting {
	var settings []Setting
	section, logical, first, n := "", "", 0, 0
	for line := range strings.SplitSeq(strings.TrimPrefix(f.Text, "\ufeff")+"\n", "\n") {
		n++
		if lead := strings.TrimLeft(line, whitespace); lead != "" && (lead[0] == '#' || lead[0] == ';') {
			continue // also between continued lines
		}
		if first == 0 {
			first = n
		}
		line = strings.TrimSuffix(line, "\r")
		if body := strings.TrimRight(line, `\`); (len(line)-len(body))%2 == 1 {
			logical += line[:len(line)-1] + " "
			continue
		}
		whole, at := strings.Trim(logical+line, whitespace), first
		logical, first = "", 0
		if !utf8.ValidString(whole) || whole != "" && whole[0] == '[' && !strings.HasSuffix(whole, "]") {
			return settings
		}
		key, value, assigned := strings.Cut(whole, "=")
		switch key = strings.Trim(key, whitespace); {
		case whole != "" && whole[0] == '[':
			section = whole[1 : len(whole)-1]
		case assigned && key != "" && section != "":
			settings = append(settings, Setting{Section: section, Key: key, Value: strings.Trim(value, whitespace), Path: f.Path, Line: at})
		}
	}
	return settings
}

// ParseKeyFile reads a key file of GLib, NetworkManager's format (glib/gkeyfile.c): # begins a comment, a line is
// never continued, and white space around = does not count.
func ParseKeyFile(f confdir.File) []Setting {
	var settings []Setting
	section, n := "", 0
	for line := range strings.SplitSeq(f.Text, "\n") {
		n++
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
		key, value, assigned := strings.Cut(line, "=")
		switch trimmed := strings.TrimRight(line, " \t"); {
		case line == "" || line[0] == '#':
		case line[0] == '[' && strings.HasSuffix(trimmed, "]"):
			section = trimmed[1 : len(trimmed)-1]
		case assigned && section != "":
			settings = append(settings, Setting{Section: section, Key: strings.TrimRight(key, " \t"), Value: strings.TrimLeft(value, " \t"), Path: f.Path, Line: n})
		}
	}
	return settings
}

// last is the last setting of a key, which counts, and false where there is none.
func last(settings []Setting, section, key string) (Setting, bool) {
	for i := len(settings) - 1; i >= 0; i-- {
		if s := settings[i]; s.Section == section && s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// isTrue is parse_boolean of systemd (src/basic/parse-util.c).
func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "1", "yes", "y", "true", "t", "on":
		return true
	default:
		return false
	}
}

// LinkMTU is MTUBytes= of section [Link] in the files of a .network or a .link, the main file first and then its drop-ins in
// their order. What systemd ignores counts for nothing (config_parse_mtu in src/shared/conf-parser.c).
func LinkMTU(settings []Setting) MTU {
	var mtu MTU
	for _, s := range settings {
		if s.Section != "Link" || s.Key != "MTUBytes" {
			continue
		}
		if n, ok := parseSize(s.Value); ok {
			mtu = MTU{n, s.Path, s.Line}
		}
	}
	if mtu.Bytes == 0 {
		return MTU{}
	}
	return mtu
}

// parseSize reads bytes with a suffix to the base of 1024 (parse_size in src/basic/parse-util.c), as far as they fit an
// MTU. Sums ("1K 100") and fractions are not read.
func parseSize(s string) (int, bool) {
	digits := strings.TrimRight(s, "BKMG"+whitespace)
	shift := 0
	switch strings.TrimLeft(s[len(digits):], whitespace) {
	case "", "B":
	case "K":
		shift = 10
	case "M":
		shift = 20
	case "G":
		shift = 30
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n<<shift > 1<<32-1 {
		return 0, false
	}
	return int(n << shift), true
}

// TakesDHCPMTU reports whether networkd takes the MTU of a DHCP lease where MTUBytes= says none: UseMTU= of section
// [DHCPv4], or of [DHCP] in older files (src/network/networkd-network-gperf.gperf).
func TakesDHCPMTU(settings []Setting) bool {
	use := false
	for _, s := range settings {
		if (s.Section == "DHCPv4" || s.Section == "DHCP") && s.Key == "UseMTU" {
			use = isTrue(s.Value)
		}
	}
	return use
}

// ParseEnvironment reads KEY=VALUE lines, as networkd writes them into its files of state and leases; quotes around a value
// are taken off. Of several lines with a key the last one counts.
func ParseEnvironment(f confdir.File) map[string]Setting {
	values, n := map[string]Setting{}, 0
	for line := range strings.SplitSeq(f.Text, "\n") {
		n++
		line = strings.Trim(line, whitespace)
		key, value, assigned := strings.Cut(line, "=")
		if !assigned || line[0] == '#' || key == "" {
			continue
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		values[key] = Setting{Key: key, Value: value, Path: f.Path, Line: n}
	}
	return values
}

// number reads the MTU of a setting as a decimal number; 0 is none, as it is everywhere.
func number(s Setting) (MTU, error) {
	n, err := strconv.ParseUint(strings.Trim(s.Value, whitespace), 10, 31)
	switch {
	case err != nil:
		return MTU{}, fmt.Errorf("line %d: MTU %.40q is no number", s.Line, s.Value)
	case n == 0:
		return MTU{}, nil
	default:
		return MTU{int(n), s.Path, s.Line}, nil
	}
}
