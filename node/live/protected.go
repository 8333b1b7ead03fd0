package live

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"busbar/internal/cmdline"
	"busbar/node"
)

// peer is a host that the node must keep reaching.
type peer struct {
	address netip.Addr
	reason  string
}

// netboot is what the node needs of the network to stay up and reachable.
type netboot struct {
	peers []peer
	// devices by name, and by hardware address, with the reason.
	devices, hardware map[string]string
}

// netboot finds the hosts behind SSH_CONNECTION and a root file system on the network, and
// the devices that the command line names.
func (r *Reader) netboot() netboot {
	b := netboot{devices: map[string]string{}, hardware: map[string]string{}}
	client, _, _ := strings.Cut(strings.TrimSpace(r.sshConnection), " ")
	b.reach(client, node.ProtectedForSSH)
	b.commandLine(r.files)
	b.rootFilesystem(r.files)
	return b
}

// reach adds a host. A zone (fe80::1%eth0) names the device at once.
func (b *netboot) reach(host, why string) {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil || a.IsLoopback() || a.IsUnspecified() {
		return
	}
	if a.Zone() != "" {
		b.devices[a.Zone()] = why
		return
	}
	b.peers = append(b.peers, peer{a.Unmap(), why})
}

// commandLine reads what the boot loader and dracut.cmdline(7) say of the network:
// BOOTIF=01-MAC, ip=...:DEVICE:METHOD, netroot= and root= with a server.
func (b *netboot) commandLine(f files) {
	text, err := f.read("/proc/cmdline")
	if err != nil {
		return
	}
	for _, a := range cmdline.Parse(text) {
		switch a.Key {
		case "BOOTIF":
			if mac := strings.ToLower(strings.ReplaceAll(a.Value, "-", ":")); len(mac) == len("01:00:00:00:00:00:00") {
				b.hardware[mac[3:]] = "booted from (BOOTIF=)"
			}
		case "ip":
			if device := ipDevice(a.Value); device != "" {
				b.devices[device] = "configured by the kernel command line (ip=)"
			}
		case "netroot", "nfsroot", "root":
			if server := rootServer(a.Key, a.Value); server != "" {
				b.reach(server, "route to the root file system")
			}
		}
	}
}

// ipDevice is the device of dracut's and the kernel's ip= (Documentation/admin-guide/nfs/nfsroot.rst):
// CLIENT:SERVER:GATEWAY:NETMASK:HOSTNAME:DEVICE:METHOD, or dracut's DEVICE:METHOD.
func ipDevice(value string) string {
	fields := splitColons(value)
	switch {
	case len(fields) >= 6:
		return fields[5]
	case len(fields) >= 2 && !strings.ContainsAny(fields[0], ".["):
		return fields[0]
	default:
		return ""
	}
}

// splitColons splits at colons outside square brackets, which hold IPv6 addresses.
func splitColons(s string) []string {
	inside := false
	begin, fields := 0, []string{}
	for i := range len(s) {
		switch s[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ':':
			if !inside {
				fields = append(fields, s[begin:i])
				begin = i + 1
			}
		}
	}
	return append(fields, s[begin:])
}

// rootServer is the server in netroot=nfs:SERVER:PATH, netroot=iscsi:[USER:PASS@]SERVER:...,
// root=nfs4:SERVER:PATH, nfsroot=SERVER:PATH.
func rootServer(key, value string) string {
	scheme, rest, _ := strings.Cut(value, ":")
	switch {
	case key == "nfsroot":
		return splitColons(value)[0]
	case scheme == "nfs" || scheme == "nfs4":
		return splitColons(rest)[0]
	case scheme == "iscsi":
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			rest = rest[at+1:]
		}
		return splitColons(strings.TrimPrefix(rest, "//"))[0]
	default:
		return ""
	}
}

// rootFilesystem looks at what / is mounted from: an NFS server, or a disk of an
// NVMe-oF controller (/sys/class/nvme/nvmeN/{transport,address}).
func (b *netboot) rootFilesystem(f files) {
	mounts, _, err := f.mounts()
	if err != nil {
		return
	}
	m, ok := holding(mounts, "/")
	if !ok {
		return
	}
	const why = "route to the root file system"
	if strings.HasPrefix(m.kind, "nfs") {
		if server := option(m.options, "addr"); server != "" {
			b.reach(server, why)
		} else {
			b.reach(splitColons(m.source)[0], why)
		}
		return
	}
	name, ok := strings.CutPrefix(m.source, "/dev/nvme")
	if !ok {
		return
	}
	controller := "/sys/class/nvme/nvme" + name[:len(name)-len(strings.TrimLeft(name, "0123456789"))]
	if transport, _ := f.attribute(controller + "/transport"); transport == "tcp" || transport == "rdma" {
		address, _ := f.attribute(controller + "/address")
		b.reach(option(address, "traddr"), why)
		if device := option(address, "host_iface"); device != "" {
			b.devices[device] = why
		}
	}
}

// routes are those that decide which NICs are protected: defaults, then to the hosts, each once.
func routes(v node.Value[network]) node.Value[[]node.Route] {
	n, ok := v.Get()
	if !ok {
		return node.Unknown[[]node.Route](v.Reason(), v.Source())
	}
	list := []node.Route{}
	for _, r := range slices.Concat(n.Defaults, n.To) { // IPv4 and IPv6 often go the same way
		same := func(o node.Route) bool { return o.Destination == r.Destination && slices.Equal(o.Devices, r.Devices) }
		if !slices.ContainsFunc(list, same) {
			list = append(list, r)
		}
	}
	return node.Known(list, v.Source())
}

// protect names the network devices that carry a default route of the main table, the way to
// a host of b, SCSI disks, or were saved, with everything they stand on; and the ports of RDMA devices that
// need protection without a network device.
func (r *Reader) protect(b netboot, v node.Value[network], saved node.Value[[]string], netdevs []node.Netdev, rdma []node.RDMADevice) node.Value[[]node.ProtectedNetdev] {
	n, ok := v.Get()
	if !ok {
		return node.Unknown[[]node.ProtectedNetdev]("the routes are not known: "+v.Reason(), v.Source())
	}
	p := protection{netdevs: map[string]node.Netdev{}, reasons: map[string]string{}, ports: map[string]string{}}
	for _, d := range netdevs {
		p.netdevs[d.Name] = d
	}
	for _, route := range n.Defaults {
		for _, device := range route.Devices {
			p.add(device, "carries the default route", "")
		}
	}
	for _, route := range n.To {
		for _, peer := range b.peers {
			if hostPrefix(peer.address) != route.Destination {
				continue
			}
			for _, device := range route.Devices {
				p.add(device, peer.reason, "")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.devices)) {
		p.add(name, b.devices[name], "")
	}
	if len(b.hardware) > 0 {
		for _, d := range netdevs {
			mac, _ := r.files.attribute(netClass + "/" + d.Name + "/address")
			if why, ok := b.hardware[strings.ToLower(mac)]; ok {
				p.add(d.Name, why, "")
			}
		}
	}
	was, ok := saved.Get()
	if !ok {
		return node.UnknownLike[[]node.ProtectedNetdev](saved)
	}
	for _, d := range netdevs {
		if slices.Contains(was, d.Name) || d.PCI != "" && slices.Contains(was, node.NIC{Address: d.PCI, Port: d.Port}.String()) {
			p.add(d.Name, node.ProtectedAsSaved, "")
		}
	}
	disks, err := r.files.srpPorts()
	if err != nil {
		return node.Unknown[[]node.ProtectedNetdev](err.Error(), node.Source{Path: scsiHosts})
	}
	if len(p.reasons) == 0 {
		return node.Unknown[[]node.ProtectedNetdev]("no protected NIC is known: there is no default route", v.Source())
	}
	for _, d := range rdma {
		for _, port := range d.Ports {
			if d.PCI != "" && slices.Contains(was, node.NIC{Address: d.PCI, Port: port.Port}.String()) {
				p.addPort(d, port, node.ProtectedAsSaved)
			}
			if disks[rdmaPortKey(d.Name, port.Port)] {
				p.addPort(d, port, "carries SCSI disks (SRP)")
			}
		}
	}
	return node.Known(p.list(), v.Source())
}

// scsiHosts has an entry for each SCSI adapter.
const scsiHosts = "/sys/class/scsi_host"

// srpPorts are the RDMA ports, DEVICE/PORT, over which ib_srp has SCSI disks: the one storage of the kernel's that needs no
// network device (Documentation/ABI/stable/sysfs-driver-ib_srp, local_ib_device and local_ib_port).
func (f files) srpPorts() (map[string]bool, error) {
	hosts, err := f.names(scsiHosts)
	if err != nil && !absent(err) {
		return nil, errors.New("the SCSI adapters could not be read: " + reason(err))
	}
	ports := map[string]bool{}
	for _, host := range hosts {
		device, err := f.attribute(scsiHosts + "/" + host + "/local_ib_device")
		if absent(err) {
			continue // another driver's
		}
		var port int
		if err == nil {
			port, err = f.number(scsiHosts + "/" + host + "/local_ib_port")
		}
		if err != nil {
			return nil, fmt.Errorf("the InfiniBand port of the SCSI adapter %s could not be read: %s", host, reason(err))
		}
		ports[rdmaPortKey(device, port)] = true
	}
	return ports, nil
}

// savedProtected reads the saved set; where there is none it is empty.
func (f files) savedProtected() node.Value[[]string] {
	source := node.Source{Path: node.ProtectedPath}
	content, err := f.read(node.ProtectedPath)
	if absent(err) {
		return node.Known([]string{}, source)
	}
	if err != nil {
		return node.Unknown[[]string]("the saved set of protected NICs could not be read: "+reason(err), source)
	}
	list := []string{}
	if err := json.Unmarshal([]byte(content), &list); err != nil || list == nil {
		return node.Unknown[[]string]("the saved set of protected NICs is no JSON list of names; remove it, and apply saves it again", source)
	}
	for i, s := range list {
		if address, _, ok := node.ParseNIC(s); ok && node.IsPCIAddress(address) {
			list[i] = strings.ToLower(s)
		}
	}
	return node.Known(list, source)
}

// protection collects protected devices.
type protection struct {
	netdevs map[string]node.Netdev
	reasons map[string]string
	// ports without a network device, by node.NIC.String().
	ports map[string]string
}

// add protects a device, found below another one or not, and what it stands on. The
// first reason that lasts stays.
func (p protection) add(name, why, above string) {
	d, known := p.netdevs[name]
	if !known || d.Type == node.ARPHardwareLoopback || !outranks(why, p.reasons[name]) {
		return
	}
	p.reasons[name] = why
	if above != "" {
		p.reasons[name] = "below " + above + ": " + why
	}
	for _, lower := range d.Lower {
		p.add(lower, why, name)
	}
}

// addPort protects the network device of an RDMA port, or the port where it has none.
func (p protection) addPort(d node.RDMADevice, port node.RDMADevicePort, why string) {
	if _, there := p.netdevs[port.Netdev]; there {
		p.add(port.Netdev, why, "")
	} else if key := (node.NIC{Address: d.PCI, Port: port.Port}).String(); d.PCI != "" && outranks(why, p.ports[key]) {
		p.ports[key] = why
	}
}

// outranks reports whether a reason replaces another one, empty for none.
func outranks(why, other string) bool {
	return other == "" || node.ProtectedNetdev{Reason: why}.Lasts() && !node.ProtectedNetdev{Reason: other}.Lasts()
}

func (p protection) list() []node.ProtectedNetdev {
	list := []node.ProtectedNetdev{}
	for name, why := range p.reasons {
		list = append(list, node.ProtectedNetdev{Name: name, Reason: why})
	}
	for nic, why := range p.ports {
		list = append(list, node.ProtectedNetdev{NIC: nic, Reason: why})
	}
	slices.SortFunc(list, func(a, b node.ProtectedNetdev) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NIC, b.NIC))
	})
	return list
}
