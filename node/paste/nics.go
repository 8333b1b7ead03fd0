package paste

import (
	"slices"
	"strings"

	"busbar/internal/dcbnl"
	"busbar/node"
)

// What mlnx_qos -i DEVICE prints. Which device that was stands in the command alone.
var (
	qosTrust = expression(`^Priority trust state: (dscp|pcp)$`)
	qosDCBX  = expression(`^DCBX mode: (OS|Firmware) controlled$`)
	qosPFC   = expression(`^\s*enabled((?: +[01]){8})$`)
	qosDSCP  = expression(`^\s*prio:([0-7]) dscp:([0-9,]+)$`)
	qosOther = expression(`^(?:\s*dscp2prio mapping:|PFC configuration:|\s*(?:priority|buffer)(?: +\d+){8}|Receive buffer size.*|Cable len: \d+|tc: \d+ ratelimit: .*|\s*priority: +\d+|\s*)$`)
	onDevice = expression(`(?:^| )(?:-i|dev|--interface) ?=?([\w.:-]+)`)
)

var qosKind = kind{
	name: "mlnx_qos",
	scan: func(p piece) match {
		first := p.lines[0]
		if !qosDCBX.MatchString(first) && !qosTrust.MatchString(first) && first != "PFC configuration:" {
			return match{}
		}
		pfc, trust := 0, 0
		n := while(p.lines, func(line string) bool {
			pfc, trust = pfc+one(qosPFC.MatchString(line)), trust+one(qosTrust.MatchString(line))
			return qosTrust.MatchString(line) || qosDCBX.MatchString(line) || qosPFC.MatchString(line) || qosDSCP.MatchString(line) || qosOther.MatchString(line)
		})
		return match{n, one(qosDCBX.MatchString(first)) + one(pfc > 0) + one(trust > 0) + one(p.typed("mlnx_qos"))}
	},
	read: func(d *draft, s section) string {
		x := d.nicOf(s)
		apps := []dcbnl.App{}
		for i, line := range s.lines {
			source := s.source(i)
			if m := qosTrust.FindStringSubmatch(line); m != nil {
				set(&x.dcb.Trust, node.Known(m[1], source))
			}
			if m := qosPFC.FindStringSubmatch(line); m != nil {
				pfc := dcbnl.PFC{Capacity: 8}
				for priority, on := range strings.Fields(m[1]) {
					if on == "1" {
						pfc.Enabled |= 1 << priority
					}
				}
				set(&x.dcb.PFC, node.Known(pfc, source))
			}
			if m := qosDSCP.FindStringSubmatch(line); m != nil {
				for _, text := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' }) {
					if n := number(text); n < 64 {
						apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: uint16(n), Priority: m[1][0] - '0'})
					}
				}
				slices.SortFunc(apps, dcbnl.CompareApps)
				x.dcb.Apps = node.Known(slices.Clone(apps), source)
			}
		}
		return ""
	},
}

// What dcb(8) of iproute2 prints of PFC and of the APP table: dcb pfc show dev DEVICE, dcb app show dev DEVICE dscp-prio.
var (
	dcbCap  = expression(`^pfc-cap \d{1,2} macsec-bypass (?:on|off) delay \d{1,5}$`)
	dcbPFC  = expression(`^prio-pfc((?: [0-7]:(?:on|off)){8})$`)
	dcbDSCP = expression(`^dscp-prio((?: [A-Z0-9]{1,4}:[0-7])+)$`)
)

var dcbKind = kind{
	name: "dcb",
	scan: func(p piece) match {
		if !dcbCap.MatchString(p.lines[0]) && !dcbPFC.MatchString(p.lines[0]) && !dcbDSCP.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool {
			return dcbCap.MatchString(line) || dcbPFC.MatchString(line) || dcbDSCP.MatchString(line)
		})
		return match{n, 2 + one(p.typed("dcb"))} // the word, and the form of eight priorities or of code points
	},
	read: func(d *draft, s section) string {
		x := d.nicOf(s)
		for i, line := range s.lines {
			source := s.source(i)
			if m := dcbPFC.FindStringSubmatch(line); m != nil {
				pfc := dcbnl.PFC{Capacity: 8}
				for priority, word := range strings.Fields(m[1]) {
					if strings.HasSuffix(word, ":on") {
						pfc.Enabled |= 1 << priority
					}
				}
				set(&x.dcb.PFC, node.Known(pfc, source))
			}
			if m := dcbDSCP.FindStringSubmatch(line); m != nil {
				apps := []dcbnl.App{}
				for _, word := range strings.Fields(m[1]) {
					name, priority, _ := strings.Cut(word, ":")
					if dscp, ok := codePoint(name); ok {
						apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: uint16(dscp), Priority: priority[0] - '0'})
					}
				}
				slices.SortFunc(apps, dcbnl.CompareApps)
				set(&x.dcb.Apps, node.Known(apps, source))
				if len(apps) > 0 { // the first DSCP in the table makes drivers trust it
					set(&x.dcb.Trust, node.Known(node.TrustDSCP, source))
				}
			}
		}
		return ""
	},
}

// codePoint reads a DSCP, a number or its name (RFC 2474, 2597, 3246, 5865, 8622).
func codePoint(name string) (dscp int, ok bool) {
	switch {
	case digits(name) == len(name):
		return number(name), number(name) < 64
	case len(name) == 3 && strings.HasPrefix(name, "CS") && name[2] <= '7' && name[2] >= '0':
		return 8 * int(name[2]-'0'), true
	case len(name) == 4 && strings.HasPrefix(name, "AF") && name[2] >= '1' && name[2] <= '4' && name[3] >= '1' && name[3] <= '3':
		return 8*int(name[2]-'0') + 2*int(name[3]-'0'), true
	}
	dscp, ok = map[string]int{"EF": 46, "VA": 44, "LE": 1}[name]
	return dscp, ok
}

// nicOf is the NIC that the section's command was about, one without a name where nobody said.
func (d *draft) nicOf(s section) *device {
	name := ""
	if m := onDevice.FindStringSubmatch(s.command); m != nil {
		name = m[1]
	}
	class := netName
	switch {
	case name == "":
		class, name = netName, "NIC"
		if nics := d.nics(); len(nics) == 1 { // one NIC is all that there is so far
			return nics[0]
		}
	case rdmaDevice(name):
		class = rdmaName
	}
	x := d.device("nic", class+name)
	if x.source == (node.Source{}) {
		x.source = s.source(-1)
	}
	return x
}

// nics are the devices that are NICs.
func (d *draft) nics() []*device {
	var all []*device
	for _, x := range d.devices {
		if x.is == "nic" {
			all = append(all, x)
		}
	}
	return all
}

// A table of ports: DEVICE portN LAYER STATE PHYSICAL RATE, as scripts make of sysfs.
var portRow = expression(`^(\w{3,32}) port ?(\d{1,3}) (InfiniBand|Ethernet) ([A-Z]+) (\w+) (\d{1,4})(?: ?Gb\S*)?$`)

// rates by Gbit/s, as the kernel words those that a number alone tells (ib_rate_to_mult and rate_show of drivers/infiniband/core/sysfs.c).
var rates = map[string]string{
	"800": "800 Gb/sec (4X XDR)", "400": "400 Gb/sec (4X NDR)", "200": "200 Gb/sec (4X HDR)", "100": "100 Gb/sec (4X EDR)", "56": "56 Gb/sec (4X FDR)",
	"40": "40 Gb/sec (4X QDR)", "25": "25 Gb/sec (1X EDR)", "20": "20 Gb/sec (4X DDR)", "10": "10 Gb/sec (4X SDR)",
}

var portTableKind = kind{
	name: "table of RDMA ports",
	scan: func(p piece) match {
		if !portRow.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, portRow.MatchString), 3}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := portRow.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			source := s.source(i)
			x := d.device("nic", rdmaName+m[1])
			x.source, x.rdmaPort.LinkLayer = source, m[3]
			set(&x.rdmaPort.State, node.Known(m[4], source))
			set(&x.rdmaPort.PhysState, node.Known(m[5], source))
			if rate := rates[m[6]]; rate != "" {
				set(&x.rdmaPort.Rate, node.Known(rate, source))
			}
		}
		return ""
	},
}

// A table of MTUs: NETDEV mtu N DEVICE active_mtu N max_mtu N.
var mtuRow = expression(`^([\w.:@-]{1,15}) mtu (\d{2,5}) (\w{3,32}) active_mtu (\d{3,4}) max_mtu (\d{3,4})$`)

var mtuTableKind = kind{
	name: "table of MTUs",
	scan: func(p piece) match {
		if !mtuRow.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, mtuRow.MatchString), 3}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := mtuRow.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			x := d.same("nic", rdmaName+m[3], netName+m[1])
			x.source = s.source(i)
			set(&x.link.MTU, node.Known(number(m[2]), x.source))
			x.rdmaPort.LinkLayer = orFirst(x.rdmaPort.LinkLayer, "Ethernet") // an InfiniBand port's MTU does not follow from a network device's
		}
		return ""
	},
}

// Network devices: NAME STATE ADDRESS..., as ip -brief address prints them, and the two lines each of ip link and ip address.
var (
	briefRow  = expression(`^([\w.:-]{1,15}(?:@[\w.:-]{1,15})?) +(UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)(?:$| +(.*)$)`)
	ipLink    = expression(`^\d{1,5}: ([\w.:-]{1,15})(?:@[\w.:-]{1,15})?: <([A-Z0-9,_-]*)> mtu (\d{1,6}) .*\bstate ([A-Z]+)`)
	ipBelow   = expression(`^\s+(?:link/\w+|inet6? |altname |valid_lft |vf \d|RX:|TX:|bond |\d+ )`)
	ipAddress = expression(`^\s+inet6? (\S+/\d{1,3}) `)
	ipEther   = expression(`^\s+link/(ether|infiniband|loopback) (\S+)`)
	prefix    = expression(`^[0-9a-fA-F.:]+/\d{1,3}$`)
	mtuWord   = expression(`\bmtu (\d{2,5})\b`)
)

var briefKind = kind{
	name: "ip -brief address",
	scan: func(p piece) match {
		m := briefRow.FindStringSubmatch(p.lines[0])
		if m == nil {
			return match{}
		}
		addresses := 0
		n := while(p.lines, func(line string) bool {
			row := briefRow.FindStringSubmatch(line)
			if row == nil {
				return false
			}
			for _, w := range strings.Fields(row[3]) {
				addresses += one(prefix.MatchString(w) || strings.HasPrefix(w, "<"))
			}
			return true
		})
		return match{n, one(n > 1) + one(addresses > 0) + one(netdevName(m[1])) + one(p.typed("ip"))}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := briefRow.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			name, lower, _ := strings.Cut(m[1], "@")
			n := node.Netdev{Name: name, Type: node.ARPHardwareEthernet, Up: m[2] == "UP"}
			if name == "lo" {
				n.Type = node.ARPHardwareLoopback
			}
			if lower != "" && lower != "NONE" {
				n.Lower = []string{lower}
			}
			for _, w := range strings.Fields(m[3]) {
				if prefix.MatchString(w) {
					n.Addresses = append(n.Addresses, w)
				}
			}
			mtu := 0
			if w := mtuWord.FindStringSubmatch(m[3]); w != nil {
				mtu = number(w[1])
			}
			d.addNetdev(n, mtu, s.source(i))
		}
		d.wholeNetdevs(s)
		return ""
	},
}

var ipKind = kind{
	name: "ip link or ip address",
	scan: func(p piece) match {
		if !ipLink.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool { return ipLink.MatchString(line) || ipBelow.MatchString(line) })
		return match{n, 2 + one(n > 1)}
	},
	read: func(d *draft, s section) string {
		var n node.Netdev
		mtu, at := 0, 0
		done := func() {
			if n.Name != "" {
				d.addNetdev(n, mtu, s.source(at))
			}
		}
		d.wholeNetdevs(s)
		for i, line := range s.lines {
			if m := ipLink.FindStringSubmatch(line); m != nil {
				done()
				n, mtu, at = node.Netdev{Name: m[1], Type: node.ARPHardwareEthernet, Up: contains(strings.Split(m[2], ","), "UP")}, number(m[3]), i
				continue
			}
			if m := ipEther.FindStringSubmatch(line); m != nil {
				n.Type = map[string]int{"ether": node.ARPHardwareEthernet, "infiniband": node.ARPHardwareInfiniBand, "loopback": node.ARPHardwareLoopback}[m[1]]
			}
			if m := ipAddress.FindStringSubmatch(line); m != nil {
				n.Addresses = append(n.Addresses, m[1])
			}
		}
		done()
		return ""
	},
}

// wholeNetdevs notes that a list leaves no network device out, if it was not asked for one alone: it has the loopback interface.
func (d *draft) wholeNetdevs(s section) {
	for _, line := range s.lines {
		if line == "lo" || strings.HasPrefix(line, "lo ") || strings.HasPrefix(line, "1: lo:") {
			d.give("netdevs_whole", "")
		}
	}
}

// addNetdev adds a network device: to the NIC that has its name, if there is one, else as one of which nobody said what it is.
func (d *draft) addNetdev(n node.Netdev, mtu int, source node.Source) {
	slices.Sort(n.Addresses)
	if x := d.find(netName + n.Name); x != nil {
		x.netdev = n
		if mtu >= 68 && mtu <= 65535 {
			set(&x.link.MTU, node.Known(mtu, source))
		}
		return
	}
	list, _ := d.inv.Netdevs.Get()
	if len(list) < maxDevices && !slices.ContainsFunc(list, func(o node.Netdev) bool { return o.Name == n.Name }) {
		d.inv.Netdevs = node.Known(append(slices.Clone(list), n), source)
	}
}

// ibdev2netdev: mlx5_0 port 1 ==> eth1 (Up), with -v more before it, and the RDMA port's state. Up is a network device that has a carrier, Down one that has none or is down, NA one without
// the attribute (ofed_scripts/ibdev2netdev of Mellanox/mlnx-tools, get_link_state).
var ibdevRow = expression(`^(?:[0-9a-f:.]+ )?(\w{3,32}) (?:\(.*\) )?.*port (\d{1,3})(?: \(([A-Z]+) *\))? ==> ([\w.:-]{1,15}) \((Up|Down|NA)\)$`)

var ibdevKind = kind{
	name: "ibdev2netdev",
	scan: func(p piece) match {
		if !strings.Contains(p.lines[0], " ==> ") || !ibdevRow.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, ibdevRow.MatchString), 2}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			if m := ibdevRow.FindStringSubmatch(line); m != nil && m[2] == "1" {
				x := d.same("nic", rdmaName+m[1], netName+m[4])
				x.source = s.source(i)
				if m[3] != "" && m[3] != "NA" {
					set(&x.rdmaPort.State, node.Known(m[3], x.source))
				}
				if m[5] != "NA" {
					set(&x.link.Carrier, node.Known(m[5] == "Up", x.source))
				}
				if address, _, _ := strings.Cut(line, " "); pciAddress(address) != "" {
					d.same("nic", rdmaName+m[1], pciName+pciAddress(address))
				}
			}
		}
		return ""
	},
}

// show_gids of MLNX_OFED: DEV PORT INDEX GID IPv4 VER DEV.
var (
	gidHead = expression(`^DEV\s+PORT\s+INDEX\s+GID\s+IPv4\s+VER\s+DEV$`)
	gidRow  = expression(`^(\w{3,32})\s+(\d{1,3})\s+(\d{1,5})\s+((?:[0-9a-f]{4}:){7}[0-9a-f]{4})\s+(?:[0-9.]+\s+)?(v1|v2)(?:\s+([\w.:-]{1,15}))?$`)
	gidRule = expression(`^(?:-+\s*)+$|^n_gids_found=\d+$`)
)

var showGIDsKind = kind{
	name: "show_gids",
	scan: func(p piece) match {
		if !gidHead.MatchString(p.lines[0]) && !gidRow.MatchString(p.lines[0]) {
			return match{}
		}
		rows := 0
		n := while(p.lines, func(line string) bool {
			rows += one(gidRow.MatchString(line))
			return gidRow.MatchString(line) || gidRule.MatchString(line) || gidHead.MatchString(line)
		})
		return match{n, one(gidHead.MatchString(p.lines[0])) + one(rows > 0) + one(rows > 1)}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := gidRow.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			x := d.rdmaDevice(m[1], s.source(i))
			port := x.port(number(m[2]))
			port.gid([]string{"gids", m[3]}, m[4], s.source(i))
			port.gid([]string{"gid_attrs", "types", m[3]}, map[string]string{"v1": node.GIDRoCEv1, "v2": node.GIDRoCEv2}[m[5]], s.source(i))
			if m[6] != "" {
				port.gid([]string{"gid_attrs", "ndevs", m[3]}, m[6], s.source(i))
				if x.name(netName) == "" && m[2] == "1" {
					d.same("nic", rdmaName+m[1], netName+m[6])
				}
			}
		}
		return ""
	},
}

// ibstat and ibv_devinfo: a device, its ports below, NAME: VALUE.
var (
	caHead     = expression(`^CA '(\w{3,32})'$`)
	hcaHead    = expression(`^hca_id:\s+(\w{3,32})$`)
	caLine     = expression(`^\s+([A-Za-z][\w .]*?):\s*(.*)$`)
	infoState  = expression(`^PORT_(\w+) \(\d+\)$`)
	infoLayers = map[string]string{"InfiniBand": "InfiniBand", "Ethernet": "Ethernet"}
)

var ibstatKind = kind{
	name: "ibstat",
	scan: func(p piece) match {
		if !caHead.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool { return caHead.MatchString(line) || caLine.MatchString(line) })
		return match{n, 1 + one(n > 4) + one(p.typed("ibstat"))}
	},
	read: func(d *draft, s section) string { d.rdmaBlocks(s, caHead); return "" },
}

var devinfoKind = kind{
	name: "ibv_devinfo",
	scan: func(p piece) match {
		if !hcaHead.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool {
			return hcaHead.MatchString(line) || caLine.MatchString(line) || strings.HasPrefix(line, "\t")
		})
		return match{n, 1 + one(n > 4) + one(p.typed("ibv_devinfo"))}
	},
	read: func(d *draft, s section) string { d.rdmaBlocks(s, hcaHead); return "" },
}

// rdmaBlocks reads blocks of lines below a device's name.
func (d *draft) rdmaBlocks(s section, head *pattern) {
	var x *device
	port := 0
	for i, line := range s.lines {
		source := s.source(i)
		if m := head.FindStringSubmatch(line); m != nil {
			x, port = d.device("nic", rdmaName+m[1]), 0
			x.source = source
			continue
		}
		m := caLine.FindStringSubmatch(line)
		if x == nil || m == nil {
			continue
		}
		name, value := strings.ToLower(m[1]), strings.TrimSpace(m[2])
		if strings.HasPrefix(name, "port ") && value == "" {
			port = number(strings.TrimPrefix(name, "port "))
			continue
		}
		if name == "port" {
			port = number(value)
			continue
		}
		p := x.port(port)
		switch name {
		case "state":
			if state := infoState.FindStringSubmatch(value); state != nil {
				value = state[1]
			}
			value = strings.ToUpper(value)
			if value == "INITIALIZING" { // as ibstat words it
				value = "INIT"
			}
			set(&p.State, node.Known(value, source))
		case "physical state":
			set(&p.PhysState, node.Known(value, source))
		case "rate":
			if rate := rates[value]; rate != "" {
				set(&p.Rate, node.Known(rate, source))
			}
		case "link layer", "link_layer":
			p.LinkLayer = orFirst(p.LinkLayer, infoLayers[value])
		case "base lid", "port_lid":
			set(&p.LID, node.Known(number(value), source))
		case "sm lid", "sm_lid":
			set(&p.SMLID, node.Known(number(value), source))
		case "firmware version", "fw_ver":
			set(&p.Firmware, node.Known(value, source))
		}
	}
}
