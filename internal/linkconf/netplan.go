package linkconf

import (
	"net/url"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"busbar/internal/confdir"
)

// NetplanDirs are where netplan looks for its YAML, highest priority first (src/util.c, netplan_parser_load_yaml_hierarchy: what
// stands in /run wins over /etc, unlike systemd's).
var NetplanDirs = []string{"/run/netplan", "/etc/netplan", "/usr/lib/netplan", "/lib/netplan"}

// NetplanID is the id of the definition that netplan made a file of, and false where it did not make it. The file is
// /run/systemd/network/10-netplan-ID.network or .link (src/networkd.c), or /run/NetworkManager/system-connections/netplan-ID.nmconnection
// (src/nm.c); the id is escaped as in a URI.
func NetplanID(file string) (string, bool) {
	dir, base := path.Split(file)
	var id string
	var made bool
	switch {
	case dir == "/run/systemd/network/":
		id, made = strings.CutPrefix(strings.TrimSuffix(base, path.Ext(base)), "10-netplan-")
	case dir == "/run/NetworkManager/system-connections/":
		id, made = strings.CutPrefix(strings.TrimSuffix(base, ".nmconnection"), "netplan-")
	}
	if !made || id == "" {
		return "", false
	}
	if unescaped, err := url.PathUnescape(id); err == nil {
		id = unescaped
	}
	return id, true
}

// NetplanSource is where netplan's YAML says the MTU of a definition, or where the definition stands that says none. The files are merged
// with confdir.Merge and NetplanDirs; of several that have the definition the last one that says an MTU counts. file is empty where none
// has it.
func NetplanSource(files []confdir.File, id string) (file string, line int) {
	said := false
	for _, f := range files {
		var document yaml.Node
		if f.Reason != "" || yaml.Unmarshal([]byte(f.Text), &document) != nil || len(document.Content) == 0 {
			continue
		}
		_, network := member(document.Content[0], "network")
		for i := 1; network != nil && i < len(network.Content); i += 2 {
			name, definition := member(network.Content[i], id)
			if name == nil {
				continue
			}
			if key, _ := member(definition, "mtu"); key != nil {
				file, line, said = f.Path, key.Line, true
			} else if !said {
				file, line = f.Path, name.Line
			}
		}
	}
	return file, line
}

// member is a key of a mapping and its value, nil where there is none.
func member(n *yaml.Node, name string) (key, value *yaml.Node) {
	n = target(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			key, value = n.Content[i], target(n.Content[i+1])
		}
	}
	return key, value
}

// target is what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
