package live

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"busbar/node"

	"golang.org/x/sys/unix"
)

const (
	netClass  = "/sys/class/net"
	rdmaClass = "/sys/class/infiniband"
)

// netdevs reads the identity of all network devices; no file that it opens takes
// the lock of the network configuration or asks a driver.
func (f files) netdevs() node.Value[[]node.Netdev] {
	names, err := f.names(netClass)
	if err != nil {
		return unknown[[]node.Netdev](err, netClass)
	}
	list := []node.Netdev{}
	for _, name := range names {
		dir := netClass + "/" + name
		kind, err := f.number(dir + "/type")
		if absent(err) {
			continue // not a device (bonding_masters), or gone meanwhile
		}
		if err != nil {
			return unknown[[]node.Netdev](err, dir+"/type")
		}
		d := node.Netdev{Name: name, Type: kind, PCI: f.pciOf(dir)}
		if d.PCI != "" {
			port, _ := f.number(dir + "/dev_port")
			d.Port = port + 1
		}
		flags, _ := f.number(dir + "/flags")
		d.Up = flags&unix.IFF_UP != 0
		d.Lower = f.lower(dir)
		list = append(list, d)
	}
	return node.Known(list, node.Source{Path: netClass})
}

// number reads an integer, decimal or with prefix 0x.
func (f files) number(p string) (int, error) {
	v, err := f.attribute(p)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		return 0, refusal("is no number: " + strconv.Quote(v))
	}
	return int(n), nil
}

// pciOf is the address of the PCI function that a class device belongs to,
// directly or through virtio. It is empty for others: virtual devices, USB, subfunctions.
func (f files) pciOf(dir string) string {
	parent := f.linkBase(dir + "/device")
	if strings.HasPrefix(parent, "virtio") {
		// the link leads to .../0000:00:03.0/virtio0
		target, _ := f.readlink("/sys/bus/virtio/devices/" + parent)
		parent = path.Base(path.Dir(target))
	}
	if parent = strings.ToLower(parent); node.IsPCIAddress(parent) {
		return parent
	}
	return ""
}

// lower are the devices that one stands on: the kernel links them as lower_NAME
// (Documentation/ABI/testing/sysfs-class-net); bonding and bridges list their ports besides.
func (f files) lower(dir string) []string {
	entries, _ := f.names(dir)
	var lower []string
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e, "lower_"); ok {
			lower = append(lower, name)
		}
		switch e {
		case "bonding":
			slaves, _ := f.attribute(dir + "/bonding/slaves")
			lower = append(lower, strings.Fields(slaves)...)
		case "brif":
			ports, _ := f.names(dir + "/brif")
			lower = append(lower, ports...)
		}
	}
	slices.Sort(lower)
	return slices.Compact(lower)
}

// dropRepresentors takes the PCI address off network devices that are not a port of their function.
// With an embedded switch the representors of virtual functions share directory and
// port number with the function itself; its own device is the one whose
// phys_port_name is pN (or pfN... of other forms for the rest).
func (r *Reader) dropRepresentors(ctx context.Context, list []node.Netdev) {
	type place struct {
		pci  string
		port int
	}
	at := map[place][]int{}
	for i, d := range list {
		if d.PCI != "" {
			at[place{d.PCI, d.Port}] = append(at[place{d.PCI, d.Port}], i)
		}
	}
	var queries []node.Query
	for _, devices := range at {
		for _, i := range devices {
			if len(devices) > 1 {
				queries = append(queries, node.Query{Kind: kindPortName, Key: list[i].Name})
			}
		}
	}
	if len(queries) == 0 {
		return
	}
	slices.SortFunc(queries, node.CompareQueries)
	portNames := r.ask(ctx, queries)
	for _, devices := range at {
		for _, i := range devices {
			name, known := decodeValue[string](portNames[node.Query{Kind: kindPortName, Key: list[i].Name}]).Get()
			if len(devices) > 1 && known && !isPhysicalPort(name) {
				list[i].PCI, list[i].Port = "", 0
			}
		}
	}
}

// isPhysicalPort reports whether a phys_port_name is pN, or empty.
func isPhysicalPort(name string) bool {
	digits, ok := strings.CutPrefix(name, "p")
	return name == "" || ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// rdma reads the RDMA devices with their ports; link layers, which the driver answers, come through
// the child. It reads names only, and opens no RDMA netlink socket.
func (r *Reader) rdma(ctx context.Context, netdevs []node.Netdev) node.Value[[]node.RDMADevice] {
	names, err := r.files.names(rdmaClass)
	if absent(err) && r.files.exists("/sys/class") {
		return node.Known([]node.RDMADevice{}, node.Source{Path: rdmaClass})
	}
	if err != nil {
		return unknown[[]node.RDMADevice](err, rdmaClass)
	}
	list := []node.RDMADevice{}
	var queries []node.Query
	for _, name := range names {
		dir := rdmaClass + "/" + name
		d := node.RDMADevice{Name: name, PCI: r.files.pciOf(dir)}
		ports, err := r.files.names(dir + "/ports")
		if err != nil && !absent(err) {
			return unknown[[]node.RDMADevice](err, dir+"/ports")
		}
		for _, p := range ports {
			n, err := strconv.Atoi(p)
			if err != nil {
				continue
			}
			d.Ports = append(d.Ports, node.RDMADevicePort{Port: n, Netdev: r.files.portNetdev(dir, d.PCI, n, netdevs)})
			queries = append(queries, node.Query{Kind: kindLinkLayer, Key: rdmaPortKey(name, n)})
		}
		slices.SortFunc(d.Ports, func(a, b node.RDMADevicePort) int { return cmp.Compare(a.Port, b.Port) })
		list = append(list, d)
	}
	if len(queries) == 0 {
		return node.Known(list, node.Source{Path: rdmaClass})
	}
	answers := r.ask(ctx, queries)
	for _, d := range list {
		for i := range d.Ports {
			d.Ports[i].LinkLayer = decodeValue[string](answers[node.Query{Kind: kindLinkLayer, Key: rdmaPortKey(d.Name, d.Ports[i].Port)}])
		}
	}
	if r.machine {
		r.findNetdevs(ctx, list, netdevs)
	}
	return node.Known(list, node.Source{Path: rdmaClass})
}

func rdmaPortKey(device string, port int) string { return device + "/" + strconv.Itoa(port) }

// portNetdev is the network device of an RDMA port: that of the port's first GID, the one
// that rxe was made on, or the one at the same port of the same PCI function.
func (f files) portNetdev(dir, pci string, port int, netdevs []node.Netdev) string {
	for _, p := range []string{dir + "/ports/" + strconv.Itoa(port) + "/gid_attrs/ndevs/0", dir + "/parent"} {
		if name, err := f.attribute(p); err == nil && name != "" {
			return name
		}
	}
	for _, d := range netdevs {
		if pci != "" && d.PCI == pci && d.Port == port {
			return d.Name
		}
	}
	return ""
}

// findNetdevs looks for the network devices of ports that nothing simple tells, by all
// their GIDs and by node GUID. Only network devices of the same link layer are asked about.
func (r *Reader) findNetdevs(ctx context.Context, devices []node.RDMADevice, netdevs []node.Netdev) {
	hardware := map[string]int{"Ethernet": node.ARPHardwareEthernet, "InfiniBand": node.ARPHardwareInfiniBand}
	taken, wanted := map[string]bool{}, map[int]bool{}
	for _, d := range devices {
		for _, p := range d.Ports {
			taken[p.Netdev] = true
			if layer, _ := p.LinkLayer.Get(); p.Netdev == "" && len(d.Ports) == 1 {
				wanted[hardware[layer]] = true
			}
		}
	}
	var queries []node.Query
	for _, n := range netdevs {
		if wanted[n.Type] && !taken[n.Name] && n.PCI != "" {
			queries = append(queries, node.Query{Kind: kindRDMAOfNetdev, Key: n.Name})
		}
	}
	if len(queries) == 0 {
		return
	}
	for q, answer := range r.ask(ctx, queries) {
		name, ok := decodeValue[string](answer).Get()
		for _, d := range devices {
			if ok && d.Name == name && len(d.Ports) == 1 && d.Ports[0].Netdev == "" {
				d.Ports[0].Netdev = q.Key
			}
		}
	}
}
