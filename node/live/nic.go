package live

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"

	"golang.org/x/sys/unix"
)

// drivers asks those of one machine; it lives in the child.
type drivers struct {
	files
	// dcb and ethtool ask the kernel; nil for a directory tree, which does not answer.
	dcb     dcbnl.Conn
	ethtool ethtool.Conn
	// programs are the directories of programs that ask devices; none for a directory tree.
	programs []string
	// nvml loads NVIDIA's library once; nil for a directory tree.
	nvml func() (nvml, error)
}

const errNoAnswers = refusal("a directory tree does not answer for its drivers")

// port is a port of a NIC with what belongs to it.
type port struct {
	address string
	number  int
	// netdev is its network device, empty without one.
	netdev string
	// rdma is its RDMA device and rdmaPort the port there; empty without one.
	rdma     string
	rdmaPort int
}

// netdevsOf are the network devices at a port of a PCI function: one, or with an embedded switch those of its
// virtual functions too. It asks no driver.
func (f files) netdevsOf(address string, number int) ([]string, error) {
	names, err := f.names(netClass)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		dir := netClass + "/" + name
		if f.pciOf(dir) != address {
			return true
		}
		at, _ := f.number(dir + "/dev_port")
		return at+1 != number
	}), nil
}

// port resolves what node.NIC.String() returned. The port's own network device is chosen as in the inventory (see
// dropRepresentors).
func (f files) port(key string) (port, error) {
	address, number, _ := node.ParseNIC(key)
	p := port{address: address, number: number}
	names, err := f.netdevsOf(address, number)
	if err != nil {
		return p, err
	}
	for _, name := range names {
		label, err := f.attribute(netClass + "/" + name + "/phys_port_name")
		if len(names) == 1 || err != nil || isPhysicalPort(label) {
			p.netdev = name
			break
		}
	}
	p.rdma, p.rdmaPort = f.rdmaOf(p)
	return p, nil
}

// rdmaOf is the RDMA port of a port: the one on the same PCI function, or on its network device where
// the RDMA device is on no function (rxe, siw).
func (f files) rdmaOf(p port) (device string, number int) {
	names, _ := f.names(rdmaClass)
	for _, name := range names {
		dir := rdmaClass + "/" + name
		switch f.pciOf(dir) {
		case p.address:
			if f.exists(dir + "/ports/" + strconv.Itoa(p.number)) {
				return name, p.number
			}
		case "":
			ports, _ := f.names(dir + "/ports")
			for _, digits := range ports {
				if n, ok := parsePort(digits); ok && p.netdev != "" && f.portNetdev(dir, "", n, nil) == p.netdev {
					return name, n
				}
			}
		}
	}
	return "", 0
}

// class is the directory of the port's network device.
func (p port) class() string { return netClass + "/" + p.netdev }

// noNetdev says why a port has no network device.
func (f files) noNetdev(p port) (why string, source node.Source) {
	dir := pciDevices + "/" + p.address
	return fmt.Sprintf("driver %s has made no network device for port %d of the NIC", f.linkBase(dir+"/driver"), p.number), node.Source{Path: dir}
}

// onNetdev reads what is about a port's network device.
func onNetdev[T any](f files, key string, read func(port) node.Value[T]) node.Value[T] {
	p, err := f.port(key)
	if err != nil {
		return unknown[T](err, netClass)
	}
	if p.netdev == "" {
		return node.Unknown[T](f.noNetdev(p))
	}
	v := read(p)
	if f.renamed(p) {
		return node.Unknown[T](errRenamed.Error(), node.Source{Path: p.class()})
	}
	return v
}

const errRenamed = refusal("the network device was renamed or removed while it was read")

// renamed reports whether the port's network device has lost its name since: what was read by that
// name may be another's.
func (f files) renamed(p port) bool { return p.netdev != "" && f.pciOf(p.class()) != p.address }

func (d drivers) link(key string) node.Value[node.LinkState] {
	return onNetdev(d.files, key, func(p port) node.Value[node.LinkState] {
		dir := p.class()
		info := d.driver(p.netdev)
		return node.Known(node.LinkState{
			Netdev: p.netdev, MAC: d.attributeValue(dir + "/address"), MTU: d.numberValue(dir + "/mtu"), Up: d.up(dir + "/flags"), Carrier: d.carrier(dir + "/carrier"),
			OperState: d.attributeValue(dir + "/operstate"),
			Speed:     d.speed(dir + "/speed"),
			Driver:    worded(mapValue(info, func(i ethtool.Driver) string { return i.Name })),
			Firmware:  worded(mapValue(info, func(i ethtool.Driver) string { return i.Firmware })),
		}, node.Source{Path: dir})
	})
}

// mapValue is a part of a fact.
func mapValue[T, U any](v node.Value[T], part func(T) U) node.Value[U] {
	t, ok := v.Get()
	if !ok {
		return node.UnknownLike[U](v)
	}
	return node.Known(part(t), v.Source())
}

// numberValue reads a number that the kernel shows.
func (f files) numberValue(p string) node.Value[int] {
	n, err := f.number(p)
	if err != nil {
		return unknown[int](err, p)
	}
	return node.Known(n, node.Source{Path: p})
}

// up reads whether a device is administratively up off its flags.
func (f files) up(p string) node.Value[bool] {
	return mapValue(f.numberValue(p), func(flags int) bool { return flags&unix.IFF_UP != 0 })
}

// carrier: the kernel answers EINVAL while the device is down (carrier_show in net/core/net-sysfs.c).
func (f files) carrier(p string) node.Value[bool] {
	n, err := f.number(p)
	switch {
	case errors.Is(err, unix.EINVAL):
		return node.Unknown[bool]("the network device is down", node.Source{Path: p})
	case err != nil:
		return unknown[bool](err, p)
	default:
		return node.Known(n != 0, node.Source{Path: p})
	}
}

// speed: the kernel answers EINVAL while the device is down and where the driver has no speed, and
// -1 without a link and where the driver does not know (speed_show in net/core/net-sysfs.c).
func (f files) speed(p string) node.Value[int] {
	n, err := f.number(p)
	switch {
	case errors.Is(err, unix.EINVAL):
		return node.Unknown[int]("the network device is down, or its driver has no speed", node.Source{Path: p})
	case err != nil:
		return unknown[int](err, p)
	case n < 0 || n == math.MaxUint32: // SPEED_UNKNOWN
		return node.Unknown[int]("there is no link, or the driver does not know its speed", node.Source{Path: p})
	default:
		return node.Known(n, node.Source{Path: p})
	}
}

// command is the answer of an ethtool command. None are the errors that mean that the driver has no such thing.
func command[T any](d drivers, what string, ask func(c ethtool.Conn) (T, error), none ...unix.Errno) node.Value[T] {
	source := node.Source{Call: "ioctl SIOCETHTOOL " + what}
	if d.ethtool == nil {
		return node.Unknown[T](errNoAnswers.Error(), source)
	}
	v, err := ask(d.ethtool)
	var errno unix.Errno
	switch {
	case err == nil:
		return node.Known(v, source)
	case errors.As(err, &errno) && slices.Contains(none, errno):
		return node.Unsupported[T]("the driver has none: "+errno.Error(), source)
	default:
		return node.Unknown[T](err.Error(), source)
	}
}

func (d drivers) driver(netdev string) node.Value[ethtool.Driver] {
	return command(d, "ETHTOOL_GDRVINFO", func(c ethtool.Conn) (ethtool.Driver, error) { return ethtool.GetDriver(c, netdev) }, unix.EOPNOTSUPP)
}

func (d drivers) flowControl(key string) node.Value[node.FlowControlState] {
	return onNetdev(d.files, key, func(p port) node.Value[node.FlowControlState] {
		pause := command(d, "ETHTOOL_GPAUSEPARAM", func(c ethtool.Conn) (ethtool.Pause, error) { return ethtool.GetPause(c, p.netdev) }, unix.EOPNOTSUPP)
		// A driver that has other tunables only answers EINVAL, as mlx5e_get_tunable does.
		storm := command(d, "ETHTOOL_GTUNABLE", func(c ethtool.Conn) (uint16, error) { return ethtool.GetPFCStormPrevention(c, p.netdev) }, unix.EOPNOTSUPP, unix.EINVAL)
		return node.Known(node.FlowControlState{
			Netdev: p.netdev, Pause: pause, PFCStormPrevention: mapValue(storm, func(ms uint16) int { return int(ms) }),
		}, node.Source{Path: p.class()})
	})
}

// dcbCall is the source of what rtnetlink says of DCB.
var dcbCall = node.Source{Call: "rtnetlink RTM_GETDCB"}

func (d drivers) dataCenterBridging(key string) node.Value[node.DCBState] {
	return onNetdev(d.files, key, func(p port) node.Value[node.DCBState] {
		if d.dcb == nil {
			return node.Unknown[node.DCBState](errNoAnswers.Error(), dcbCall)
		}
		s, err := dcbnl.Get(d.dcb, p.netdev)
		switch {
		case errors.Is(err, dcbnl.ErrNoOperations):
			return node.Unsupported[node.DCBState](dcbnl.ErrNoOperations.Error()+" for "+p.netdev, dcbCall)
		case err != nil:
			return node.Unknown[node.DCBState](err.Error(), dcbCall)
		}
		var claims dcbnl.Claims
		if s.ETS == nil || s.PFC == nil {
			claims, _ = dcbnl.GetClaims(d.dcb, p.netdev) // drivers need not answer
		}
		return node.Known(node.DCBState{
			Netdev: p.netdev, Driver: d.linkBase(pciDevices + "/" + p.address + "/driver"),
			DCBX: shown(s.DCBX, false), PFC: shown(s.PFC, claims.PFC), ETS: shown(s.ETS, claims.ETS), Buffer: shown(s.Buffer, false), MaxRate: shown(s.MaxRate, false),
			Apps: shownList(s.Apps), Trust: d.trust(p, s), TrustOrder: shownList(s.TrustOrder),
		}, dcbCall)
	})
}

// notShown is why an operation is unsupported of which the kernel shows nothing.
const notShown = "the driver has no such operation, or it failed without a word"

// shown is what the kernel shows of an operation; claimed: the driver says that it has it.
func shown[T any](v *T, claimed bool) node.Value[T] {
	switch {
	case v != nil:
		return node.Known(*v, dcbCall)
	case claimed:
		return node.Unknown[T]("the driver says that it has it and shows nothing: its firmware may have failed, see the kernel's log", dcbCall)
	default:
		return node.Unsupported[T](notShown, dcbCall)
	}
}

// shownList is shown of a list, which is nil when there is none.
func shownList[T ~[]E, E any](list T) node.Value[T] {
	if list == nil {
		return node.Unsupported[T](notShown, dcbCall)
	}
	return node.Known(list, dcbCall)
}

// trust tells it by MLNX_OFED's file, the driver's trust order, or the APP table (see node.DCBState).
func (d drivers) trust(p port, s dcbnl.State) node.Value[string] {
	file := p.class() + "/qos/trust"
	text, err := d.attribute(file)
	switch {
	case err == nil:
		return node.Known(text, node.Source{Path: file})
	case !absent(err):
		return unknown[string](err, file)
	}
	if s.TrustOrder != nil {
		return trusted(s.TrustOrder, node.TrustNone, "trust order")
	}
	var selectors []dcbnl.Selector
	for _, a := range s.Apps {
		selectors = append(selectors, a.Selector)
	}
	return trusted(selectors, node.TrustPCP, "APP table")
}

// trusted is what selectors in a list mean; none: what it means that neither DSCP nor PCP is there.
func trusted(selectors []dcbnl.Selector, none, list string) node.Value[string] {
	source := node.Source{Call: dcbCall.Call + ", " + list}
	switch {
	case slices.Contains(selectors, dcbnl.DSCP):
		return node.Known(node.TrustDSCP, source)
	case slices.Contains(selectors, dcbnl.PCP):
		return node.Known(node.TrustPCP, source)
	default:
		return node.Known(none, source)
	}
}

// nicWithout answers for a NIC that is not there, or that no driver is bound to.
func nicWithout[T any](f files, key string) (node.Value[T], bool) {
	address, _, valid := node.ParseNIC(key)
	if !valid || !node.IsPCIAddress(address) {
		return node.Unknown[T]("is not a NIC's PCI address or ADDRESS/PORT", node.Source{}), true
	}
	p := pciDevices + "/" + address
	source := node.Source{Path: p}
	switch _, err := f.stat(p); {
	case absent(err):
		return node.Unknown[T]("there is no PCI function "+address, source), true
	case err != nil:
		return unknown[T](err, p), true
	case f.linkBase(p+"/driver") == "":
		return node.Unknown[T]("no driver is bound to the NIC", source), true
	default:
		return node.Value[T]{}, false
	}
}
