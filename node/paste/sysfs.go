package paste

import (
	"strconv"
	"strings"

	"busbar/internal/dcbnl"
	"busbar/node"
)

// Files of /sys and /proc/sys: as PATH: VALUE or PATH:VALUE (grep . FILE...), one after the other, or one file of a tree.
var (
	pathValue = expression(`^(/(?:sys|proc/sys|proc/driver)/[^:\s]+):[ \t]*(.*)$`)
	portValue = expression(`^([A-Za-z0-9_]{3,32}/ports/\d{1,3}/[\w/]+):[ \t]*(.*)$`)
)

// pathOf takes a line apart; the path is absolute.
func pathOf(line string) (where, value string, ok bool) {
	if m := pathValue.FindStringSubmatch(line); m != nil {
		return m[1], m[2], true
	}
	if m := portValue.FindStringSubmatch(line); m != nil && rdmaDevice(m[1][:strings.IndexByte(m[1], '/')]) {
		return infinibandClass + m[1], m[2], true
	}
	return "", "", false
}

var sysfsKind = kind{
	name: "files of /sys and /proc/sys",
	scan: func(p piece) match {
		if where := p.path; strings.HasPrefix(where, "/sys/") || strings.HasPrefix(where, "/proc/sys/") {
			if _, _, ok := pathOf(p.lines[0]); !ok && known(where) {
				return match{len(p.lines), 2}
			}
		}
		where, _, ok := pathOf(p.lines[0])
		if !ok {
			return match{}
		}
		n := while(p.lines, func(line string) bool { _, _, ok := pathOf(line); return ok })
		return match{n, 1 + one(known(where)) + one(n > 1)}
	},
	read: func(d *draft, s section) string {
		if _, _, ok := pathOf(s.lines[0]); !ok {
			d.sysfs(s.path, strings.TrimSpace(strings.Join(s.lines, "\n")), s.source(-1))
			return ""
		}
		for i, line := range s.lines {
			if where, value, ok := pathOf(line); ok {
				d.sysfs(where, value, s.source(i))
			}
		}
		return ""
	},
}

// known reports a file of which busbar knows what it says.
func known(where string) bool {
	return strings.HasPrefix(where, "/proc/sys/") || strings.HasPrefix(where, "/sys/class/infiniband/") || strings.HasPrefix(where, "/sys/class/net/") ||
		strings.HasPrefix(where, "/sys/bus/pci/devices/") || strings.HasPrefix(where, "/sys/class/dmi/id/")
}

// numbered states of ports: "4: ACTIVE".
func stateWord(value string) string {
	_, word, ok := strings.Cut(value, ": ")
	if !ok {
		return value
	}
	return word
}

// sysfs takes what one file says.
func (d *draft) sysfs(where, value string, source node.Source) {
	words := strings.Split(strings.TrimPrefix(where, "/"), "/")
	switch {
	case strings.HasPrefix(where, "/proc/sys/") && len(words) > 3:
		d.sysctl(strings.Join(words[2:], "/"), value, source)
	case strings.HasPrefix(where, infinibandClass) && len(words) > 4:
		d.infinibandFile(words[3], words[4:], value, source)
	case strings.HasPrefix(where, "/sys/class/net/") && len(words) > 4:
		d.netFile(words[3], words[4:], value, source)
	case strings.HasPrefix(where, "/sys/bus/pci/devices/") && len(words) > 5 && words[5] == "numa_node":
		if a := pciAddress(words[4]); a != "" {
			x := d.device("", pciName+a)
			x.numaNode(value, source)
			d.give("numa_node", "")
		}
	case where == "/sys/class/dmi/id/sys_vendor":
		if value == "QEMU" && d.inv.Virtualization.IsZero() {
			d.inv.Virtualization = node.Known("qemu", source)
		}
		dmi, _ := d.inv.DMI.Get()
		dmi.SysVendor = orFirst(dmi.SysVendor, value)
		d.inv.DMI = node.Known(dmi, source)
	case where == "/sys/class/dmi/id/product_name":
		dmi, _ := d.inv.DMI.Get()
		dmi.ProductName = orFirst(dmi.ProductName, value)
		d.inv.DMI = node.Known(dmi, source)
	}
}

// numaNode is the NUMA node of a function, -1 where firmware did not say.
func (x *device) numaNode(value string, source node.Source) {
	if n, err := strconv.Atoi(value); err == nil && n >= -1 && n < 1024 {
		x.function.NUMANode = n
	}
	if x.source == (node.Source{}) {
		x.source = source
	}
}

// infinibandFile is a file of an RDMA device.
func (d *draft) infinibandFile(name string, rest []string, value string, source node.Source) {
	x := d.device("nic", rdmaName+name)
	if x.source == (node.Source{}) {
		x.source = source
	}
	port := &x.rdmaPort
	switch file := strings.Join(rest, "/"); {
	case file == "device/numa_node":
		x.numaNode(value, source)
		d.give("numa_node", "")
	case file == "fw_ver":
		set(&port.Firmware, node.Known(value, source))
	case file == "board_id":
		set(&port.BoardID, node.Known(value, source))
	case file == "hca_type":
		set(&port.HCAType, node.Known(value, source))
	case rest[0] == "tc" && rest[len(rest)-1] == "traffic_class":
		if n, ok := strings.CutPrefix(value, "Global tclass="); ok && digits(n) == len(n) && n != "" && len(n) < 4 {
			set(&x.roce.TrafficClass, node.Known(node.TrafficClass{Global: min(number(n), 255)}, source))
			x.roce.RDMA = name + "/1"
		}
	case len(rest) > 2 && rest[0] == "ports":
		d.portFile(x, number(rest[1]), rest[2:], value, source)
	}
}

// portFile is a file of an RDMA port.
func (d *draft) portFile(x *device, number int, rest []string, value string, source node.Source) {
	port := x.port(number)
	lid := func() node.Value[int] {
		n, err := strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16, 16)
		if err != nil {
			return node.Value[int]{}
		}
		return node.Known(int(n), source)
	}
	switch rest[0] {
	case "state":
		set(&port.State, node.Known(stateWord(value), source))
	case "phys_state":
		set(&port.PhysState, node.Known(stateWord(value), source))
	case "rate":
		set(&port.Rate, node.Known(value, source))
	case "link_layer":
		port.LinkLayer = orFirst(port.LinkLayer, value)
	case "lid":
		set(&port.LID, lid())
	case "sm_lid":
		set(&port.SMLID, lid())
	case "gids", "gid_attrs":
		port.gid(rest, value, source)
	}
}

// maxGIDs is more than any GID table has entries.
const maxGIDs = 1024

// gid is a part of the GID table: gids/N, gid_attrs/types/N, gid_attrs/ndevs/N.
func (p *rdmaPort) gid(rest []string, value string, source node.Source) {
	index, err := strconv.Atoi(rest[len(rest)-1])
	if err != nil || index < 0 || index > maxGIDs {
		return
	}
	table, _ := p.GIDs.Get()
	at := -1
	for i, g := range table {
		if g.Index == index {
			at = i
		}
	}
	if strings.Trim(value, "0:") == "" { // an empty slot
		p.GIDs = node.Known(append([]node.GID{}, table...), source)
		return
	}
	if at < 0 {
		table = append(table, node.GID{Index: index})
		at = len(table) - 1
	}
	switch {
	case rest[0] == "gids":
		table[at].GID = value
	case rest[1] == "types":
		table[at].Type = value
		if value == node.GIDRoCEv2 { // InfiniBand ports have none
			p.LinkLayer = orFirst(p.LinkLayer, "Ethernet")
		}
	case rest[1] == "ndevs":
		table[at].Netdev = value
	}
	p.GIDs = node.Known(table, source)
}

// netFile is a file of a network device.
func (d *draft) netFile(name string, rest []string, value string, source node.Source) {
	x := d.device("nic", netName+name)
	if x.source == (node.Source{}) {
		x.source = source
	}
	switch {
	case rest[0] == "mtu":
		if n := number(value); n >= 68 && n <= 65535 {
			set(&x.link.MTU, node.Known(n, source))
		}
	case rest[0] == "address":
		set(&x.link.MAC, node.Known(strings.ToLower(value), source))
	case rest[0] == "operstate":
		set(&x.link.OperState, node.Known(value, source))
	case rest[0] == "speed":
		if n := number(value); n > 0 {
			set(&x.link.Speed, node.Known(n, source))
		}
	case rest[0] == "ecn" && len(rest) == 4 && rest[2] == "enable":
		x.congestion(rest[1], rest[3], value, source)
	case rest[0] == "ecn" && len(rest) == 3 && rest[2] == "cnp_dscp":
		set(&x.roce.CNPDSCP, node.Known(min(number(value), 63), source))
	case rest[0] == "ecn" && len(rest) == 3 && rest[2] == "cnp_802p_prio":
		set(&x.roce.CNPPriority, node.Known(min(number(value), 7), source))
	}
}

// congestion is whether a priority has congestion control at a point, which of the other priorities says nothing: of what was
// given, the others count as off.
func (x *device) congestion(point, priority, value string, source node.Source) {
	p, err := strconv.Atoi(priority)
	if err != nil || p < 0 || p > 7 {
		return
	}
	v := &x.roce.NotificationPoint
	if point == "roce_rp" {
		v = &x.roce.ReactionPoint
	}
	on, _ := v.Get()
	if value == "1" {
		on |= dcbnl.Priorities(1) << p
	}
	*v = node.Known(on, source)
}

// A list of paths, as ls prints it: nodes of /dev, and what of /sys is there.
var listedPath = expression(`^/(?:dev|sys)/[\w./:-]+$`)

// deviceNodes are those that some block asks for, by the directory or the beginning whose listing has them if they exist.
var deviceNodes = map[string]string{
	"/dev/nvidiactl": "/dev/nvidia", "/dev/nvidia-uvm": "/dev/nvidia", "/dev/infiniband": "/dev/infiniband", "/dev/infiniband/rdma_cm": "/dev/infiniband",
}

var pathsKind = kind{
	name: "list of device nodes",
	scan: func(p piece) match {
		if !listedPath.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, listedPath.MatchString)
		dev := 0
		for _, line := range p.lines[:n] {
			dev += one(strings.HasPrefix(line, "/dev/nvidia") || strings.HasPrefix(line, "/dev/infiniband"))
		}
		return match{n, one(n > 1) + one(dev > 0) + one(dev > 1)}
	},
	read: func(d *draft, s section) string {
		listed := map[string]bool{}
		gpus, hcas := false, false
		for i, line := range s.lines {
			if line == "" {
				continue
			}
			listed[line] = true
			gpus = gpus || strings.HasPrefix(line, "/dev/nvidia")
			hcas = hcas || strings.HasPrefix(line, infinibandClass) || strings.HasPrefix(line, "/dev/infiniband")
			say(d, node.Path, line, node.Known(node.PathState{Exists: true, Type: "character-device"}, s.source(i)))
			if name, ok := strings.CutPrefix(line, infinibandClass); ok && rdmaDevice(name) {
				d.device("nic", rdmaName+name).source = s.source(i)
			}
		}
		for node, beginning := range deviceNodes {
			if beginning == "/dev/nvidia" && !gpus || beginning == "/dev/infiniband" && !hcas || listed[node] {
				continue
			}
			if node == "/dev/infiniband" && anyBelow(listed, "/dev/infiniband/") {
				continue
			}
			absent(d, node, s)
		}
		return ""
	},
}

func anyBelow(listed map[string]bool, dir string) bool {
	for p := range listed {
		if strings.HasPrefix(p, dir) {
			return true
		}
	}
	return false
}

// absent says that a list that would have a path has it not.
func absent(d *draft, where string, s section) {
	say(d, node.Path, where, node.Known(node.PathState{}, s.source(-1)))
}

// A list of names of RDMA devices, as ls /sys/class/infiniband prints it.
var hcaListKind = kind{
	name: "list of RDMA devices",
	scan: func(p piece) match {
		if !rdmaDevice(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, rdmaDevice)
		return match{n, one(n > 1) + one(n > 2) + one(p.typed("ls"))}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			if line != "" {
				d.device("nic", rdmaName+line).source = s.source(i)
			}
		}
		if !strings.Contains(s.command, "|") {
			d.give("rdma_whole", "")
		}
		return ""
	},
}

// treeFile is a file of a tree that says by its place alone what it is.
var markerKind = kind{
	name:   "marker of a distribution",
	scan:   func(p piece) match { return match{len(p.lines), 2 * one(p.path == "/etc/NIXOS")} },
	unread: "NixOS makes the files of /etc from its configuration: what is wrong in one is put right there",
}
