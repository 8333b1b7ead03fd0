package linkconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"busbar/internal/confdir"
)

// Connection is a connection of NetworkManager as a file has it.
type Connection struct {
	// UUID is empty where the file has none and NetworkManager makes it of the file's name.
	UUID string
	// Device is the network device that the connection is bound to, or empty.
	Device string
	// Type is the section that has the MTU: ethernet or infiniband.
	Type string
	// Generated: NetworkManager wrote it for a device that somebody else had set up, and whose MTU it leaves alone.
	Generated bool
	MTU       MTU
	// Err says why the MTU is not known.
	Err error
}

// The sections of a key file that have an MTU, and what they are called in defaults (src/libnm-core-impl/nm-keyfile-utils.c
// has the older names).
var connectionTypes = map[string]string{
	"ethernet": "ethernet", "802-3-ethernet": "ethernet", "infiniband": "infiniband",
}

// ParseConnection reads a key file of a connection (nm-settings-keyfile(5)).
func ParseConnection(f confdir.File) Connection {
	settings := ParseKeyFile(f)
	value := func(section, key string) string {
		s, _ := last(settings, section, key)
		return strings.TrimRight(s.Value, " \t")
	}
	c := Connection{UUID: value("connection", "uuid"), Device: value("connection", "interface-name"), Generated: value(".nmmeta", "nm-generated") == "true"}
	c.Type = connectionTypes[value("connection", "type")]
	if c.Type == "" {
		c.Type = "ethernet" // a bond, a bridge, a VLAN have their MTU in section ethernet
	}
	for _, s := range settings {
		if s.Key == "mtu" && connectionTypes[s.Section] == c.Type {
			c.MTU, c.Err = number(s)
		}
	}
	return c
}

// ParseIfcfg reads an ifcfg file of the RHEL family (src/core/settings/plugins/ifcfg-rh/shvar.c): assignments of a
// shell, without expansion.
func ParseIfcfg(f confdir.File) Connection {
	c, n := Connection{Type: "ethernet"}, 0
	for line := range strings.SplitSeq(f.Text, "\n") {
		n++
		key, value, assigned := strings.Cut(strings.TrimLeft(line, whitespace), "=")
		if !assigned {
			continue
		}
		value, err := unquote(value)
		switch key {
		case "UUID":
			c.UUID = value
		case "DEVICE":
			c.Device = value
		case "TYPE":
			if strings.EqualFold(value, "InfiniBand") {
				c.Type = "infiniband"
			}
		case "MTU":
			switch {
			case err != nil:
				c.MTU, c.Err = MTU{}, fmt.Errorf("line %d: %w", n, err)
			case value == "":
				c.MTU, c.Err = MTU{}, nil
			default:
				c.MTU, c.Err = number(Setting{Value: value, Path: f.Path, Line: n})
			}
		}
	}
	return c
}

var errExpanded = errors.New("a shell would expand the value")

// unquote reads the word of an assignment up to the end or a comment.
func unquote(s string) (string, error) {
	var b strings.Builder
	quote := rune(0)
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\' && quote != '\'':
			escaped = true
		case (r == '$' || r == '`') && quote != '\'':
			return "", errExpanded
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && strings.ContainsRune(whitespace+";", r):
			return b.String(), nil
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), nil
}

// State is what NetworkManager notes of a device in /run/NetworkManager/devices/IFINDEX (nm_config_device_state_write in
// src/core/nm-config.c).
type State struct {
	Managed bool
	// Connection is the UUID of the active connection, or empty.
	Connection string
}

// ParseState reads it.
func ParseState(f confdir.File) State {
	settings := ParseKeyFile(f)
	managed, _ := last(settings, "device", "managed")
	uuid, _ := last(settings, "device", "connection-uuid")
	state := State{Managed: strings.TrimSpace(managed.Value) == "true"}
	if state.Managed {
		state.Connection = strings.TrimSpace(uuid.Value)
	}
	return state
}

// DefaultMTU is the MTU that NetworkManager's configuration gives connections of a type that say none: TYPE.mtu in sections
// [connection*] (NetworkManager.conf(5)). The files come in the order in which they are read. Of several files the last one that has the
// key counts, in a file the first section, [connection] last. Sections for certain devices are not evaluated, and make it
// unknown where they could count.
func DefaultMTU(files []confdir.File, connectionType string) (MTU, error) {
	key := connectionType + ".mtu"
	for _, f := range slices.Backward(files) {
		if f.Reason != "" {
			return MTU{}, fmt.Errorf("%s: %s", f.Path, f.Reason)
		}
		settings := ParseKeyFile(f)
		var sections []string
		for _, s := range settings {
			if strings.HasPrefix(s.Section, "connection-") && !slices.Contains(sections, s.Section) {
				sections = append(sections, s.Section)
			}
		}
		for _, section := range append(sections, "connection") {
			mtu, has := last(settings, section, key)
			stop, _ := last(settings, section, "stop-match")
			match, limited := last(settings, section, "match-device")
			switch stops := isTrue(strings.TrimSpace(stop.Value)); {
			case !has && !stops:
			case limited:
				return MTU{}, fmt.Errorf("%s:%d: match-device is not evaluated", match.Path, match.Line)
			case !has:
				return MTU{}, nil
			default:
				return number(mtu)
			}
		}
	}
	return MTU{}, nil
}
