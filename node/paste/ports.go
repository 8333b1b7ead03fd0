package paste

import (
	"fmt"
	"strings"

	"busbar/node"
)

// rdma link of iproute2: "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth1", of InfiniBand with lid and sm_lid; until
// iproute2 4.19 "1/1: mlx5_0/1: state ..." (rdma/link.c).
var rdmaLink = expression(`^(?:link|\d{1,4}/\d{1,3}:) (\w{3,32})/(\d{1,3}):? ((?:[a-z_]+ \S+ ?)+)$`)

// rdmaPhysical are its words for physical states by those of sysfs (phys_state_show of drivers/infiniband/core/sysfs.c).
var rdmaPhysical = map[string]string{"LINK_UP": "LinkUp", "POLLING": "Polling", "DISABLED": "Disabled", "SLEEP": "Sleep"}

var rdmaLinkKind = kind{
	name: "rdma link",
	scan: func(p piece) match {
		if m := rdmaLink.FindStringSubmatch(p.lines[0]); m == nil || !strings.Contains(m[3], "state ") {
			return match{}
		}
		return match{while(p.lines, rdmaLink.MatchString), 2} // the port's name, and the words state and physical_state
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := rdmaLink.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			source, words := s.source(i), strings.Fields(m[3])
			fields := map[string]string{}
			for at := 0; at+1 < len(words); at += 2 {
				fields[words[at]] = words[at+1]
			}
			x := d.rdmaDevice(m[1], source)
			port := x.port(number(m[2]))
			if state := fields["state"]; state != "" {
				set(&port.State, node.Known(state, source))
			}
			if state := rdmaPhysical[fields["physical_state"]]; state != "" {
				set(&port.PhysState, node.Known(state, source))
			}
			lid, infiniBand := fields["lid"]
			switch {
			case infiniBand:
				port.LinkLayer = orFirst(port.LinkLayer, "InfiniBand")
				set(&port.LID, node.Known(number(lid), source))
				set(&port.SMLID, node.Known(number(fields["sm_lid"]), source))
			case fields["netdev"] != "":
				port.LinkLayer = orFirst(port.LinkLayer, "Ethernet")
			}
			if fields["netdev"] != "" && m[2] == "1" {
				d.same("nic", rdmaName+m[1], netName+fields["netdev"])
			}
		}
		return ""
	},
}

// rdmaDevice is the NIC of an RDMA device.
func (d *draft) rdmaDevice(name string, source node.Source) *device {
	x := d.device("nic", rdmaName+name)
	if x.source == (node.Source{}) {
		x.source = source
	}
	return x
}

// ibstatus of infiniband-diags: a heading for each port, and lines NAME: VALUE as sysfs has them.
var (
	ibstatusHead = expression(`^Infiniband device '(\w{3,32})' port (\d{1,3}) status:$`)
	ibstatusLine = expression(`^\s+(default gid|base lid|sm lid|state|phys state|rate|link_layer):\s*(.*)$`)
)

var ibstatusKind = kind{
	name: "ibstatus",
	scan: func(p piece) match {
		if !ibstatusHead.MatchString(p.lines[0]) {
			return match{}
		}
		n := while(p.lines, func(line string) bool { return ibstatusHead.MatchString(line) || ibstatusLine.MatchString(line) })
		return match{n, 1 + one(n > 3) + one(p.typed("ibstatus"))}
	},
	read: func(d *draft, s section) string {
		files := map[string]string{"base lid": "lid", "sm lid": "sm_lid", "state": "state", "phys state": "phys_state", "rate": "rate", "link_layer": "link_layer"}
		var x *device
		port := ""
		for i, line := range s.lines {
			if m := ibstatusHead.FindStringSubmatch(line); m != nil {
				x, port = d.rdmaDevice(m[1], s.source(i)), m[2]
			} else if m := ibstatusLine.FindStringSubmatch(line); m != nil && files[m[1]] != "" {
				d.portFile(x, number(port), []string{files[m[1]]}, m[2], s.source(i))
			}
		}
		return ""
	},
}

// ethtool -i: the driver of a network device, and where it is on the PCI bus (dump_drvinfo of ethtool.c).
var (
	ethtoolHead = expression(`^driver: [\w-]{2,31}$`)
	ethtoolLine = expression(`^(?:version|firmware-version|expansion-rom-version|bus-info|supports-(?:statistics|test|eeprom-access|register-dump|priv-flags)):(?: .*)?$`)
)

var ethtoolKind = kind{
	name: "ethtool -i",
	scan: func(p piece) match {
		if !ethtoolHead.MatchString(p.lines[0]) || len(p.lines) < 2 {
			return match{}
		}
		n := while(p.lines[1:], ethtoolLine.MatchString)
		return match{1 + n, one(n > 0) + one(n > 1) + one(p.typed("ethtool"))}
	},
	read: func(d *draft, s section) string {
		fields := map[string]string{}
		at := map[string]int{}
		for i, line := range s.lines {
			if name, value, ok := strings.Cut(line, ":"); ok {
				fields[name], at[name] = strings.TrimSpace(value), i
			}
		}
		name := ""
		if m := onDevice.FindStringSubmatch(s.command); m != nil {
			name = m[1]
		}
		address := pciAddress(fields["bus-info"])
		var x *device
		switch {
		case name != "" && address != "":
			x = d.same("nic", pciName+address, netName+name)
		case address != "":
			x = d.device("nic", pciName+address)
		case name != "":
			x = d.device("nic", netName+name)
		default:
			return "nobody said which network device it is"
		}
		if x.source == (node.Source{}) {
			x.source = s.source(-1)
		}
		set(&x.link.Driver, node.Known(fields["driver"], s.source(0)))
		if address != "" {
			x.function.Driver = orFirst(x.function.Driver, fields["driver"])
		}
		if firmware := fields["firmware-version"]; firmware != "" && firmware != "N/A" {
			source := s.source(at["firmware-version"])
			set(&x.link.Firmware, node.Known(firmware, source))
			if version, board, ok := strings.Cut(strings.TrimSuffix(firmware, ")"), " ("); ok && fields["driver"] == "mlx5_core" {
				set(&x.rdmaPort.Firmware, node.Known(version, source))
				set(&x.rdmaPort.BoardID, node.Known(board, source))
			}
		}
		return ""
	},
}

// mlxlink of NVIDIA's MFT and mstlink of mstflint: sections with a rule below their names, and lines NAME : VALUE.
var (
	mlxlinkHead = expression(`^(?:Operational|Supported|Troubleshooting|Tool|Module|Physical Counters and BER|Ext|FEC|Device)[\w ]* Info(?:rmation)?(?: .*)?$|^Operational Info$`)
	mlxlinkLine = expression(`^([A-Z][\w /().,-]{2,50}?) *: *(.*)$`)
	mlxlinkOn   = expression(`(?:^| )(?:-d|--device)[ =]?(\S+)`)
	mlxlinkPort = expression(`(?:^| )(?:-p|--port)[ =]?(\d{1,3})`)
	mlxSpeed    = expression(`^(\d{1,4})G(?:b[A-Z]*)?(?:_\d{1,2}X)?$`)
)

// laneSpeeds are the rates of InfiniBand's speeds, in Gbit/s of a lane (rate_show of drivers/infiniband/core/sysfs.c).
var laneSpeeds = map[string]int{"IB-EDR": 25, "IB-HDR": 50, "IB-NDR": 100, "IB-XDR": 200, "IB-FDR": 14, "IB-QDR": 10, "IB-DDR": 5}

// mlxStates are the operational states by physical states of sysfs.
var mlxStates = map[string]string{"Active": "LinkUp", "Polling": "Polling", "Disable": "Disabled", "Disabled": "Disabled"}

var mlxlinkKind = kind{
	name: "mlxlink",
	scan: func(p piece) match {
		if p.lines[0] != "Operational Info" {
			return match{}
		}
		states := 0
		n := while(p.lines, func(line string) bool {
			states += one(strings.HasPrefix(line, "State ") || strings.HasPrefix(line, "Physical state "))
			return mlxlinkHead.MatchString(line) || mlxlinkLine.MatchString(line) || strings.Trim(line, "-") == ""
		})
		return match{n, one(n > 2) + one(states > 1) + one(p.typed("mlxlink"))}
	},
	read: func(d *draft, s section) string {
		m := mlxlinkOn.FindStringSubmatch(s.command)
		var x *device
		switch {
		case m != nil && rdmaDevice(m[1]):
			x = d.device("nic", rdmaName+m[1])
		case m != nil && pciAddress(m[1]) != "":
			x = d.device("nic", pciName+pciAddress(m[1]))
		case m != nil && netdevName(m[1]):
			x = d.device("nic", netName+m[1])
		case len(d.nics()) == 1: // one NIC is all that there is so far
			x = d.nics()[0]
		default:
			return "nobody said which NIC it is: the command above it would (mlxlink -d mlx5_0), where it names none of /dev/mst"
		}
		if x.source == (node.Source{}) {
			x.source = s.source(-1)
		}
		n := 1
		if m := mlxlinkPort.FindStringSubmatch(s.command); m != nil {
			n = number(m[1])
		}
		port, speed := x.port(n), ""
		for i, line := range s.lines {
			m := mlxlinkLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			source, value := s.source(i), strings.TrimSpace(m[2])
			switch m[1] {
			case "State":
				if state := mlxStates[value]; state != "" {
					set(&port.PhysState, node.Known(state, source))
				}
			case "Speed":
				speed = value
				if g := mlxSpeed.FindStringSubmatch(value); g != nil && number(g[1]) > 0 {
					set(&x.link.Speed, node.Known(1000*number(g[1]), source))
					port.LinkLayer = orFirst(port.LinkLayer, "Ethernet")
				}
			case "Width":
				lanes := number(strings.TrimSuffix(value, "x"))
				if lane := laneSpeeds[speed]; lane > 0 && lanes > 0 && lanes <= 16 {
					port.LinkLayer = orFirst(port.LinkLayer, "InfiniBand")
					set(&port.Rate, node.Known(fmt.Sprintf("%d Gb/sec (%dX %s)", lane*lanes, lanes, strings.TrimPrefix(speed, "IB-")), source))
				}
			case "Firmware Version":
				set(&port.Firmware, node.Known(value, source))
			}
		}
		return ""
	},
}
