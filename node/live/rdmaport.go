package live

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"busbar/node"

	"golang.org/x/sys/unix"
)

// rdmaPort reads the port DEVICE/PORT (drivers/infiniband/core/sysfs.c).
func (f files) rdmaPort(key string) node.Value[node.RDMAPortState] {
	device, number, _ := strings.Cut(key, "/")
	dir := path.Join(rdmaClass, device)
	port := path.Join(dir, "ports", number)
	layer := f.linkLayer(key)
	name, ok := layer.Get()
	if !ok {
		return node.UnknownLike[node.RDMAPortState](layer)
	}
	return node.Known(node.RDMAPortState{
		LinkLayer: name, State: f.numberedName(port + "/state"), PhysState: f.numberedName(port + "/phys_state"), Rate: f.attributeValue(port + "/rate"),
		LID: f.numberValue(port + "/lid"), SMLID: f.numberValue(port + "/sm_lid"), GIDs: f.gids(port),
		Firmware: f.attributeValue(dir + "/fw_ver"), BoardID: f.optional(dir + "/board_id"), HCAType: f.optional(dir + "/hca_type"), NodeGUID: f.attributeValue(dir + "/node_guid"),
	}, node.Source{Path: port})
}

// linkLayer reads the link layer of the port DEVICE/PORT.
func (f files) linkLayer(key string) node.Value[string] {
	device, number, _ := strings.Cut(key, "/")
	return f.attributeValue(path.Join(rdmaClass, device, "ports", number, "link_layer"))
}

// numberedName reads "4: ACTIVE" and gives the name.
func (f files) numberedName(p string) node.Value[string] {
	text, err := f.attribute(p)
	if err != nil {
		return unknown[string](err, p)
	}
	_, name, ok := strings.Cut(text, ": ")
	if !ok {
		return node.Unknown[string]("is not NUMBER: NAME", node.Source{Path: p})
	}
	return node.Known(name, node.Source{Path: p})
}

// optional reads an attribute that only some drivers have.
func (f files) optional(p string) node.Value[string] {
	if _, err := f.stat(p); absent(err) {
		return node.Unsupported[string](shownNone, node.Source{Path: p})
	}
	return f.attributeValue(p)
}

// gids reads the GID table of a port's directory. The attributes of an empty slot read as EINVAL, and so do those
// of a GID that goes meanwhile and the network device of one that has none.
func (f files) gids(port string) node.Value[[]node.GID] {
	names, err := f.names(port + "/gids")
	if err != nil {
		return unknown[[]node.GID](err, port+"/gids")
	}
	list := []node.GID{}
	for _, name := range names {
		index, ok := parsePort(name)
		if !ok {
			continue
		}
		gid, err := f.attribute(port + "/gids/" + name)
		if err != nil {
			return unknown[[]node.GID](err, port+"/gids/"+name)
		}
		if strings.Trim(gid, "0:") == "" {
			continue // an empty slot
		}
		kind, err := f.attribute(port + "/gid_attrs/types/" + name)
		if errors.Is(err, unix.EINVAL) {
			continue
		}
		if err != nil {
			return unknown[[]node.GID](err, port+"/gid_attrs/types/"+name)
		}
		netdev, err := f.attribute(port + "/gid_attrs/ndevs/" + name)
		if err != nil && !errors.Is(err, unix.EINVAL) && !absent(err) {
			return unknown[[]node.GID](err, port+"/gid_attrs/ndevs/"+name)
		}
		list = append(list, node.GID{Index: index, GID: gid, Type: kind, Netdev: netdev})
	}
	slices.SortFunc(list, func(a, b node.GID) int { return cmp.Compare(a.Index, b.Index) })
	return node.Known(list, node.Source{Path: port + "/gids"})
}
