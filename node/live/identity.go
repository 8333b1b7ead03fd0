package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"busbar/node"

	"golang.org/x/sys/unix"
)

func (f files) hostname() string {
	for _, p := range []string{"/proc/sys/kernel/hostname", "/etc/hostname"} {
		if name, err := f.read(p); err == nil {
			if name = strings.TrimSpace(name); name != "" {
				return name
			}
		}
	}
	return ""
}

// arch is the machine of uname(2). A tree is asked for its record of it (Linux 6.1
// and later), then for the program loader that its programs need.
func (r *Reader) arch() node.Value[string] {
	if r.machine {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return node.Unknown[string](reason(err), node.Source{Call: "uname"})
		}
		return node.Known(unix.ByteSliceToString(u.Machine[:]), node.Source{Call: "uname"})
	}
	const p = "/proc/sys/kernel/arch"
	if v, err := r.files.attribute(p); err == nil && v != "" {
		return node.Known(v, node.Source{Path: p})
	}
	for _, loader := range []struct{ path, arch string }{
		{"/lib64/ld-linux-x86-64.so.2", "x86_64"},
		{"/lib/ld-linux-aarch64.so.1", "aarch64"},
	} {
		if r.files.exists(loader.path) {
			return node.Known(loader.arch, node.Source{Path: loader.path})
		}
	}
	return node.Unknown[string]("nothing in the tree tells it", node.Source{Path: p})
}

// attributeValue is a kernel attribute as a fact.
func (f files) attributeValue(p string) node.Value[string] {
	v, err := f.attribute(p)
	if err != nil {
		return unknown[string](err, p)
	}
	return worded(node.Known(v, node.Source{Path: p}))
}

// worded is a text of a driver's; one that is empty is none.
func worded(v node.Value[string]) node.Value[string] {
	if text, ok := v.Get(); ok && text == "" {
		return node.Unsupported[string](shownNone, v.Source())
	}
	return v
}

// shownNone is why there is no text where a driver could show one.
const shownNone = "the driver shows none"

// osRelease reads os-release(5).
func (f files) osRelease() node.Value[node.OS] {
	const etc, vendor = "/etc/os-release", "/usr/lib/os-release"
	p := etc
	content, err := f.read(p)
	if absent(err) {
		p = vendor
		content, err = f.read(p)
	}
	if err != nil {
		return unknown[node.OS](err, p)
	}
	return node.Known(parseOSRelease(content), node.Source{Path: p})
}

// parseOSRelease reads the assignments of os-release(5); the last of a name counts, and ID is
// linux where it is not set.
func parseOSRelease(content string) node.OS {
	os := node.OS{ID: "linux"}
	for line := range strings.Lines(strings.TrimPrefix(content, "\ufeff")) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		value = unquote(value)
		switch name {
		case "ID":
			os.ID = value
		case "ID_LIKE":
			os.IDLike = strings.Fields(value)
		case "VERSION_ID":
			os.VersionID = value
		case "PRETTY_NAME":
			os.PrettyName = value
		}
	}
	return os
}

// unquote undoes shell quoting of one word as os-release(5) allows it.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// dmi reads the strings of the SMBIOS tables that everybody may read.
func (f files) dmi() node.Value[node.DMI] {
	const dir = "/sys/class/dmi/id"
	if _, err := f.stat(dir); err != nil {
		if absent(err) {
			return node.Unknown[node.DMI]("the firmware has no SMBIOS tables", node.Source{Path: dir})
		}
		return unknown[node.DMI](err, dir)
	}
	var d node.DMI
	for _, field := range []struct {
		name string
		into *string
	}{
		{"sys_vendor", &d.SysVendor}, {"product_name", &d.ProductName}, {"product_version", &d.ProductVersion},
		{"board_vendor", &d.BoardVendor}, {"board_name", &d.BoardName},
		{"bios_vendor", &d.BIOSVendor}, {"bios_version", &d.BIOSVersion},
	} {
		v, err := f.attribute(dir + "/" + field.name)
		if err != nil && !absent(err) {
			return unknown[node.DMI](err, dir+"/"+field.name)
		}
		*field.into = v
	}
	return node.Known(d, node.Source{Path: dir})
}

func (f files) uptime() node.Value[time.Duration] {
	const p = "/proc/uptime"
	v, err := f.attribute(p)
	if err != nil {
		return unknown[time.Duration](err, p)
	}
	seconds, _, _ := strings.Cut(v, " ")
	d, err := time.ParseDuration(seconds + "s")
	if err != nil || strings.ContainsAny(seconds, "hmsnuµ-+") {
		return node.Unknown[time.Duration](fmt.Sprintf("%q is no number of seconds", seconds), node.Source{Path: p})
	}
	return node.Known(d, node.Source{Path: p})
}

// marker reads what the last apply left for after a reboot.
func (f files) marker() node.Value[node.Marker] {
	p := node.MarkerPath
	content, err := f.read(p)
	if errors.Is(err, fs.ErrNotExist) {
		return node.Known(node.Marker{}, node.Source{Path: p})
	}
	if err != nil {
		return unknown[node.Marker](err, p)
	}
	var m node.Marker
	if err := json.Unmarshal([]byte(content), &m); err != nil {
		return node.Unknown[node.Marker]("is no marker: "+err.Error(), node.Source{Path: p})
	}
	major, _, _ := strings.Cut(m.FormatVersion, ".")
	if n, err := strconv.Atoi(major); err != nil || n != 1 || m.BootID == "" {
		return node.Unknown[node.Marker](fmt.Sprintf("is no marker of format 1 with a boot id (format_version %q)", m.FormatVersion), node.Source{Path: p})
	}
	return node.Known(m, node.Source{Path: p})
}
