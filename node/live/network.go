package live

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"busbar/node"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const defaultDestination = "default"

// network is what the kernel's network configuration says.
type network struct {
	// Defaults are the default routes of the main table.
	Defaults []node.Route `json:"defaults"`
	// To are the routes to the addresses asked for; one that cannot be reached is absent.
	To []node.Route `json:"to"`
	// Addresses of network devices in CIDR form.
	Addresses map[string][]string `json:"addresses"`
}

// network reads routes and addresses. Over netlink this waits for the lock that
// drivers hold while they work: where RDMA adapters, the drivers that are known
// to hang with it, are there, the child does the waiting.
func (r *Reader) network(ctx context.Context, to []netip.Addr, adapters bool) node.Value[network] {
	key := joinAddresses(to)
	if !r.machine {
		return r.files.treeNetwork(to)
	}
	if adapters {
		q := node.Query{Kind: kindNetwork, Key: key}
		return decodeValue[network](r.ask(ctx, []node.Query{q})[q])
	}
	answer := make(chan node.Value[network], 1)
	go func() { answer <- machineNetwork(key) }()
	allowed := r.deadline(kindNetwork)
	source := node.Source{Call: "rtnetlink"}
	select {
	case v := <-answer:
		return v
	case <-time.After(allowed):
		return node.Unknown[network](fmt.Sprintf("no answer within %s from the kernel's routing tables", allowed), source)
	case <-ctx.Done():
		return node.Unknown[network]("not read in time: "+context.Cause(ctx).Error(), source)
	}
}

func joinAddresses(list []netip.Addr) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

// machineNetwork asks this machine's kernel over netlink (rtnetlink(7)). to are addresses
// separated by commas.
func machineNetwork(to string) node.Value[network] {
	source := node.Source{Call: "rtnetlink"}
	n, err := askNetlink(to)
	if err != nil {
		return node.Unknown[network](err.Error(), source)
	}
	return node.Known(n, source)
}

func askNetlink(to string) (network, error) {
	n := network{Addresses: map[string][]string{}}
	names, err := files{running: true}.interfaceNames()
	if err != nil {
		return n, err
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := dumped(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		})
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return n, fmt.Errorf("listing routes: %w", err)
		}
		for _, route := range routes {
			if devices := routeDevices(route, names); isDefault(route) && len(devices) > 0 {
				n.Defaults = append(n.Defaults, node.Route{Destination: defaultDestination, Devices: devices})
			}
		}
	}
	for a := range strings.SplitSeq(to, ",") {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			continue // the empty list
		}
		routes, err := netlink.RouteGet(addr.AsSlice())
		if err != nil {
			continue // unreachable
		}
		for _, route := range routes {
			if devices := routeDevices(route, names); len(devices) > 0 {
				n.To = append(n.To, node.Route{Destination: hostPrefix(addr), Devices: devices})
			}
		}
	}
	addresses, err := dumped(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return n, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		if name := names[a.LinkIndex]; name != "" && a.IPNet != nil {
			n.Addresses[name] = append(n.Addresses[name], a.IPNet.String())
		}
	}
	return n, nil
}

// dumped repeats a dump that a change interrupted.
func dumped[T any](list func() ([]T, error)) ([]T, error) {
	for range 2 {
		got, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return got, err
		}
	}
	return list()
}

// interfaceNames are the names of all network devices by index.
func (f files) interfaceNames() (map[int]string, error) {
	names, err := f.names(netClass)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", netClass, reason(err))
	}
	byIndex := make(map[int]string, len(names))
	for _, name := range names {
		if i, err := f.number(netClass + "/" + name + "/ifindex"); err == nil {
			byIndex[i] = name
		}
	}
	return byIndex, nil
}

func isDefault(r netlink.Route) bool {
	if r.Type != unix.RTN_UNICAST {
		return false
	}
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0 && r.Dst.IP.IsUnspecified()
}

func routeDevices(r netlink.Route, names map[int]string) []string {
	var devices []string
	if name := names[r.LinkIndex]; name != "" {
		devices = append(devices, name)
	}
	for _, hop := range r.MultiPath {
		if name := names[hop.LinkIndex]; name != "" {
			devices = append(devices, name)
		}
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

func hostPrefix(a netip.Addr) string {
	return netip.PrefixFrom(a.WithZone(""), a.BitLen()).String()
}

// treeRoute is a route as procfs shows it.
type treeRoute struct {
	prefix netip.Prefix
	metric uint64
	device string
}

// treeNetwork reads the routes of a captured tree from procfs. A tree has no addresses.
func (f files) treeNetwork(to []netip.Addr) node.Value[network] {
	const v4, v6 = "/proc/net/route", "/proc/net/ipv6_route"
	table, err := f.read(v4)
	if err != nil {
		return unknown[network](err, v4)
	}
	routes := parseRoutes(table)
	table, err = f.read(v6)
	if err != nil && !absent(err) {
		return unknown[network](err, v6)
	}
	routes = append(routes, parseIPv6Routes(table)...)
	var n network
	for _, r := range routes {
		if r.prefix.Bits() == 0 {
			n.Defaults = append(n.Defaults, node.Route{Destination: defaultDestination, Devices: []string{r.device}})
		}
	}
	for _, a := range to {
		best := treeRoute{}
		for _, r := range routes {
			if !r.prefix.Contains(a.WithZone("").Unmap()) {
				continue
			}
			if best.device == "" || r.prefix.Bits() > best.prefix.Bits() || r.prefix.Bits() == best.prefix.Bits() && r.metric < best.metric {
				best = r
			}
		}
		if best.device != "" {
			n.To = append(n.To, node.Route{Destination: hostPrefix(a), Devices: []string{best.device}})
		}
	}
	return node.Known(n, node.Source{Path: v4})
}

// parseRoutes reads /proc/net/route (fib_route_seq_show in net/ipv4/fib_trie.c): the main
// table, addresses as hexadecimal numbers of little-endian machines. Only routes that
// are up (flag 1) and not rejecting (flag 0x200) count.
func parseRoutes(table string) []treeRoute {
	var routes []treeRoute
	for line := range strings.Lines(table) {
		l := strings.Fields(line)
		if len(l) < 8 {
			continue
		}
		destination, err1 := strconv.ParseUint(l[1], 16, 32)
		flags, err2 := strconv.ParseUint(l[3], 16, 32)
		metric, err3 := strconv.ParseUint(l[6], 10, 32)
		mask, err4 := strconv.ParseUint(l[7], 16, 32)
		if errors.Join(err1, err2, err3, err4) != nil || flags&1 == 0 || flags&0x200 != 0 {
			continue
		}
		var addr [4]byte
		binary.LittleEndian.PutUint32(addr[:], uint32(destination))
		bits := 0
		for m := mask; m != 0; m >>= 1 {
			bits += int(m & 1)
		}
		routes = append(routes, treeRoute{prefix: netip.PrefixFrom(netip.AddrFrom4(addr), bits), metric: metric, device: l[0]})
	}
	return routes
}

// parseIPv6Routes reads /proc/net/ipv6_route (rt6_info_route in net/ipv6/route.c): DESTINATION
// LENGTH SOURCE LENGTH NEXTHOP METRIC REFS USE FLAGS DEVICE, hexadecimal. Loopback routes are left out.
func parseIPv6Routes(table string) []treeRoute {
	var routes []treeRoute
	for line := range strings.Lines(table) {
		l := strings.Fields(line)
		if len(l) < 10 || l[9] == "lo" {
			continue
		}
		raw, err1 := hex.DecodeString(l[0])
		bits, err2 := strconv.ParseUint(l[1], 16, 8)
		metric, err3 := strconv.ParseUint(l[5], 16, 64)
		flags, err4 := strconv.ParseUint(l[8], 16, 64)
		addr, ok := netip.AddrFromSlice(raw)
		if errors.Join(err1, err2, err3, err4) != nil || !ok || !addr.Is6() || bits > 128 || flags&1 == 0 || flags&0x200 != 0 {
			continue
		}
		routes = append(routes, treeRoute{prefix: netip.PrefixFrom(addr, int(bits)), metric: metric, device: l[9]})
	}
	return routes
}
