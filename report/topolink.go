package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// TopologyLink is the link of a NIC port.
type TopologyLink struct {
	// Up: the link is there. Of a port without a network device the RDMA port's physical state tells.
	Up node.Value[bool]
	// SpeedMbps in Mbit/s: of InfiniBand the RDMA port's rate, else the network device's speed. Unknown without a link.
	SpeedMbps node.Value[int]
	// State is that of the RDMA port (ACTIVE, INIT, DOWN ...), of a port without one the operational state of the
	// network device (up, down, dormant ...).
	State node.Value[string]
}

// linkQueries ask about the links of all ports.
func linkQueries(inv node.Inventory) []node.Query {
	var queries []node.Query
	nics, _ := inv.NICs().Get()
	for _, n := range nics {
		if n.Netdev.IsKnown() {
			queries = append(queries, node.Link.Query(n.String()))
		}
		if key, ok := inv.RDMAPortOf(n).Get(); ok {
			queries = append(queries, node.RDMAPort.Query(key))
		}
	}
	return queries
}

// linkOf is the link of a port.
func linkOf(n node.NIC, facts node.Facts) TopologyLink {
	l := ofNetdev(partOf(n.Netdev, func(string) node.Value[node.LinkState] { return node.Link.Get(facts, n.String()) }))
	if n.RDMA.IsKnown() {
		l.addRDMA(n, partOf(facts.Inventory.RDMAPortOf(n), func(key string) node.Value[node.RDMAPortState] { return node.RDMAPort.Get(facts, key) }))
	}
	if up, ok := l.Up.Get(); ok && !up {
		l.SpeedMbps = node.Unknown[int]("there is no link", l.Up.Source())
	}
	return l
}

// ofNetdev is what a network device says of its link.
func ofNetdev(v node.Value[node.LinkState]) TopologyLink {
	l := TopologyLink{
		Up:        partOf(v, func(s node.LinkState) node.Value[bool] { return s.Carrier }),
		SpeedMbps: partOf(v, func(s node.LinkState) node.Value[int] { return s.Speed }),
		State:     partOf(v, operState),
	}
	if up, ok := partOf(v, func(s node.LinkState) node.Value[bool] { return s.Up }).Get(); ok && !up {
		l.Up = node.Known(false, v.Source()) // the kernel tells the carrier of no device that is down
	}
	return l
}

// addRDMA adds what an RDMA port says of its link.
func (l *TopologyLink) addRDMA(n node.NIC, v node.Value[node.RDMAPortState]) {
	l.State = partOf(v, func(s node.RDMAPortState) node.Value[string] { return s.State })
	if !n.Netdev.IsKnown() {
		l.Up = partOf(v, func(s node.RDMAPortState) node.Value[bool] {
			return partOf(s.PhysState, func(state string) node.Value[bool] { return node.Known(state == "LinkUp", s.PhysState.Source()) })
		})
	}
	if layer, _ := n.LinkLayer.Get(); layer == "InfiniBand" {
		l.SpeedMbps = partOf(v, func(s node.RDMAPortState) node.Value[int] {
			return partOf(s.LinkRate(), func(r node.RDMARate) node.Value[int] { return node.Known(r.Mbps, s.Rate.Source()) })
		})
	}
}

// operState is the operational state, which is unknown where the driver sets none (IF_OPER_UNKNOWN of RFC 2863).
func operState(s node.LinkState) node.Value[string] {
	if state, _ := s.OperState.Get(); state == "unknown" {
		return node.Unknown[string]("the driver sets no operational state", s.OperState.Source())
	}
	return s.OperState
}

// partOf is a fact inside another one, unknown where that is.
func partOf[T, U any](v node.Value[T], part func(T) node.Value[U]) node.Value[U] {
	t, ok := v.Get()
	if !ok {
		return node.UnknownLike[U](v)
	}
	return part(t)
}

// isDown: the link is not there, or its RDMA port carries nothing (state_show in drivers/infiniband/core/sysfs.c has the
// words).
func (l TopologyLink) isDown() bool {
	up, known := l.Up.Get()
	state, _ := l.State.Get()
	return known && !up || slices.Contains([]string{"NOP", "DOWN", "INIT", "ARMED"}, state)
}

// speed is the speed in words, empty where there is no link to have one.
func (l TopologyLink) speed() node.Value[string] {
	if up, known := l.Up.Get(); known && !up {
		return node.Known("", l.Up.Source())
	}
	return partOf(l.SpeedMbps, func(mbps int) node.Value[string] { return node.Known(gigabits(mbps)+" Gbit/s", l.SpeedMbps.Source()) })
}

// gigabits is a number of Mbit/s in Gbit/s.
func gigabits(mbps int) string { return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) }

// short is the link in a few letters: 400G ACTIVE; ? is unknown.
func (l TopologyLink) short() string {
	speed := "?"
	if mbps, ok := l.SpeedMbps.Get(); ok {
		speed = gigabits(mbps) + "G"
	} else if up, known := l.Up.Get(); known && !up {
		speed = ""
	}
	state, _ := l.State.Get()
	if state == "" && speed == "?" {
		return "?"
	}
	return strings.TrimSpace(speed + " " + cmp.Or(state, "?"))
}

// hint is the link in a sentence.
func (l TopologyLink) hint() string {
	return fmt.Sprintf("%s, %s", orUnknown("speed", l.speedHint()), orUnknown("state", l.State))
}

// speedHint is speed with the word for none.
func (l TopologyLink) speedHint() node.Value[string] {
	return partOf(l.speed(), func(s string) node.Value[string] { return node.Known(cmp.Or(s, "none"), l.Up.Source()) })
}
