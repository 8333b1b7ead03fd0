package checks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/ncclconf"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// GID is check "gid": whether the GID tables of RoCE ports have what jobs need.
type GID struct{}

const (
	// gidIndexKey pins the index of the GID that NCCL uses on every port.
	gidIndexKey = "NCCL_IB_GID_INDEX"
	// addressFamilyKey is the family of the addresses among whose GIDs NCCL chooses where no index is pinned.
	addressFamilyKey = "NCCL_IB_ADDR_FAMILY"
	ipv6             = "AF_INET6"
)

// Spec of check "gid".
func (GID) Spec() plan.Spec {
	low, high := int64(0), int64(255)
	return plan.Spec{
		Name: "gid", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The GIDs of RoCE ports: one of RoCE v2 with a routable address that the network device has now, of the family that NCCL looks for, none of an old address, and under the pinned index no other.",
		Attributes: []plan.Attribute{
			nicsAttribute(),
			{Name: "index", Type: cty.Number, Min: &low, Max: &high, Example: "3", Doc: "The index that jobs pin. Left out, what " + sink.NCCLPath + " gives " + gidIndexKey + "."},
		},
	}
}

// Queries are the RDMA ports, their links, and NCCL's file.
func (GID) Queries(b plan.Block, inv node.Inventory) []node.Query {
	return append(queries(b, inv, node.RDMAPort, node.Link), node.File.Query(sink.NCCLPath))
}

// Assess judges the table of each port, and the pinned index over all of them.
func (GID) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	ports, a := survey(b, facts)
	var tables []gidTable
	for _, p := range ports {
		table, f := gidsOf(p, facts)
		if f.ID != "" {
			a.Findings = append(a.Findings, f)
			continue
		}
		table.down = p.down(facts, "gid.port")
		tables = append(tables, table)
		a.Findings = append(a.Findings, besides(table.down, table.routable(), table.stale())...)
	}
	if len(tables) > 1 {
		a.Findings = append(a.Findings, unique(tables))
	}
	if _, withheld := b.IsWithheld("index", ""); !withheld && len(ports) > 0 {
		a.Findings = append(a.Findings, chosen(b, tables, facts)...)
	}
	return a
}

// gidTable is the GID table of a port, with what its GIDs are to be held against.
type gidTable struct {
	port
	gids   []node.GID
	source node.Source
	// addresses of the network devices that GIDs belong to, by name.
	addresses map[string][]netip.Addr
	// mac of the port's own network device.
	mac node.Value[string]
	// down is the finding that the port is, or the zero one.
	down plan.Finding
	// text: addresses are those that text gave, which may lack what the network devices have.
	text bool
}

// gidsOf reads the table; f says why it cannot be judged, where it cannot.
func gidsOf(p port, facts node.Facts) (t gidTable, f plan.Finding) {
	const id = "gid.routable"
	v := p.rdma(facts)
	state, ok := v.Get()
	if !ok {
		return t, unread(p, id, "the GID table", v)
	}
	if state.LinkLayer != ethernet {
		return t, wrongLayer(p, id, ethernet, state.LinkLayer, v.Source())
	}
	gids, ok := state.GIDs.Get()
	if !ok {
		return t, unread(p, id, "the GID table", state.GIDs)
	}
	netdevs, ok := facts.Inventory.Netdevs.Get()
	if !ok && !facts.Inventory.FromText() {
		return t, unread(p, id, "the addresses", facts.Inventory.Netdevs)
	}
	t = gidTable{text: facts.Inventory.FromText(), port: p, gids: gids, source: state.GIDs.Source(), addresses: map[string][]netip.Addr{}}
	for _, d := range netdevs {
		for _, text := range d.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				t.addresses[d.Name] = append(t.addresses[d.Name], prefix.Addr().Unmap())
			}
		}
	}
	t.mac = partOf(p.link(facts), func(l node.LinkState) node.Value[string] { return l.MAC })
	return t, plan.Finding{}
}

// has reports whether a GID's address is one that its network device has now.
func (t gidTable) has(g node.GID) bool {
	return t.text && len(t.addresses[g.Netdev]) == 0 || slices.Contains(t.addresses[g.Netdev], g.Address())
}

// isRoutable reports whether an address can be reached through a router.
func isRoutable(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsLinkLocalUnicast()
}

// isRight reports whether peers reach the port with a GID: RoCE v2, a routable address, and a current one.
func (t gidTable) isRight(g node.GID) bool {
	return g.Type == node.GIDRoCEv2 && isRoutable(g.Address()) && t.has(g)
}

// words is a GID as findings show it.
func words(g node.GID) string {
	return fmt.Sprintf("index %d: %s %s %s", g.Index, g.Type, g.Address(), g.Netdev)
}

// right are the right GIDs in words, by the family of their addresses.
func (t gidTable) right() (v4, v6 []string) {
	for _, g := range t.gids {
		switch {
		case !t.isRight(g):
		case g.Address().Is4():
			v4 = append(v4, words(g))
		default:
			v6 = append(v6, words(g))
		}
	}
	return v4, v6
}

// routable judges whether there is a right GID.
func (t gidTable) routable() plan.Finding {
	f := t.finding("gid.routable")
	f.Want, f.Source = "a RoCE v2 GID with a routable address", t.source
	v4, v6 := t.right()
	if right := append(v4, v6...); len(right) > 0 { // NCCL looks for IPv4 by default
		f.Found, f.Summary = strings.Join(right, ", "), fmt.Sprintf("%s has a routable RoCE v2 GID, %s", t.name(), right[0])
		return f
	}
	f.Status, f.Found = plan.Drift, "none"
	f.Why = "NCCL falls back to a link-local GID, which no router passes on: connections time out, or never begin"
	f.Fix = fmt.Sprintf("give %s the rail's address, and look at the GID table again", t.netdev())
	f.Summary = t.name() + " has no GID at all"
	var found []string
	for _, g := range t.gids {
		found = append(found, words(g))
	}
	if len(found) > 0 {
		f.Found = strings.Join(found, ", ")
		f.Summary = t.name() + " has no routable RoCE v2 GID"
	}
	own, _ := t.Netdev.Get()
	if at := slices.IndexFunc(t.addresses[own], isRoutable); at >= 0 {
		address := t.addresses[own][at]
		f.Summary += fmt.Sprintf(", although %s has address %s", own, address)
		f.Fix = "the driver missed that the address came, or offers RoCE v1 alone: take the address away and give it again, or load the driver's RDMA module again"
	}
	return f
}

// unique judges whether each port has addresses of its own.
func unique(tables []gidTable) plan.Finding {
	f := plan.Finding{ID: "gid.unique", Target: "nics", Status: plan.OK, Want: "an address of its own on each", Source: tables[0].source, Summary: "no two ports have one address"}
	first := map[netip.Addr]port{}
	var twice []string
	for _, t := range tables {
		told := map[netip.Addr]bool{}
		for _, g := range t.gids {
			address := g.Address()
			if !isRoutable(address) || told[address] {
				continue
			}
			told[address] = true
			if other, there := first[address]; there {
				twice = append(twice, fmt.Sprintf("%s of %s and %s", address, other.name(), t.name()))
				f.Source = t.source
				continue
			}
			first[address] = t.port
		}
	}
	if len(twice) > 0 {
		f.Status, f.Found = plan.Drift, strings.Join(twice, ", ")
		f.Summary = "two ports have one address: " + f.Found
		f.Why = "peers reach one of them alone, and which one can change"
		f.Fix = "give each rail its own address, in a subnet of its own"
	}
	return f
}

// stale finds GIDs of addresses that their network devices no longer have, and of a MAC that is not theirs.
// They shift the indexes of all that come behind them. The MAC of a bond or VLAN is not known
// here, so that link-local GIDs of those are left out.
func (t gidTable) stale() plan.Finding {
	f := t.finding("gid.stale")
	f.Want, f.Found, f.Source, f.Summary = "none", "none", t.source, "every GID of "+t.name()+" is of a current address"
	own, _ := t.Netdev.Get()
	var stale []string
	for _, g := range t.gids {
		if g.Netdev == "" || t.has(g) {
			continue
		}
		if g.Address().IsLinkLocalUnicast() {
			mac, ok := t.mac.Get()
			switch {
			case g.Netdev != own:
				continue
			case !ok:
				return unread(t.port, f.ID, "the MAC that GIDs are held against", t.mac)
			case isDefaultGID(g.Address(), mac):
				continue
			}
		}
		stale = append(stale, words(g))
	}
	if len(stale) > 0 {
		f.Status, f.Found = plan.Drift, strings.Join(stale, ", ")
		f.Summary = fmt.Sprintf("%s has GIDs of addresses that are gone: %s", t.name(), f.Found)
		f.Why = "the driver missed a change of MAC or address; who takes such a GID sends from an address that nobody answers to, and indexes are not those of other nodes"
		f.Fix = "load the driver's RDMA module again, or reboot"
	}
	return f
}

// isDefaultGID reports whether an address is the default GID of a MAC, which the kernel makes whether the network device has such an
// address or not: the halves of the MAC around FF:FE, or around the number of the port for drivers that share a MAC between ports
// (make_default_gid in drivers/infiniband/core/cache.c, addrconf_ifid_eui48 in
// include/net/addrconf.h).
func isDefaultGID(a netip.Addr, mac string) bool {
	m, err := hex.DecodeString(strings.ReplaceAll(mac, ":", ""))
	if err != nil || len(m) != 6 {
		return false
	}
	id := a.As16()
	halves := append(id[8:11:11], id[13:]...)
	if id[11] == 0xff && id[12] == 0xfe {
		halves[0] ^= 2
	}
	return bytes.Equal(halves, m)
}

// chosen judges which GIDs NCCL uses: the one at the pinned index on every port, else those that it looks for.
func chosen(b plan.Block, tables []gidTable, facts node.Facts) []plan.Finding {
	const id = "gid.index"
	index, source, problem := pinned(b, facts)
	if problem.ID != "" {
		findings := []plan.Finding{problem}
		for _, t := range tables {
			findings = append(findings, t.family(ncclSetting(facts, addressFamilyKey))...)
		}
		return findings
	}
	if index < 0 {
		findings := []plan.Finding{{
			ID: id, Target: gidIndexKey, Status: plan.OK, Want: "none, or a right one on every port", Found: "none", Source: source,
			Summary: "no GID index is pinned: NCCL looks for the right one on each port",
		}}
		family := ncclSetting(facts, addressFamilyKey)
		for _, t := range tables {
			findings = append(findings, t.family(family)...)
		}
		return findings
	}
	var findings []plan.Finding
	for _, t := range tables {
		f := t.finding(id)
		f.Want, f.Found, f.Source = fmt.Sprintf("a routable RoCE v2 GID at index %d", index), "an empty slot", source
		at := slices.IndexFunc(t.gids, func(g node.GID) bool { return g.Index == index })
		if at >= 0 {
			f.Found = words(t.gids[at])
		}
		f.Summary = fmt.Sprintf("%s has a routable RoCE v2 GID at the pinned index %d", t.name(), index)
		if at < 0 || !t.isRight(t.gids[at]) {
			f.Status = plan.Drift
			f.Summary = fmt.Sprintf("GID index %d is pinned, and on %s that is %s", index, t.name(), strings.TrimPrefix(f.Found, fmt.Sprintf("index %d: ", index)))
			f.Why = "indexes differ between ports, and move when a link or an address comes back"
			f.Fix = "take " + gidIndexKey + " out: from 2.21 on NCCL finds the right index itself"
			v4, v6 := t.right()
			if right := append(v4, v6...); len(right) > 0 {
				f.Fix += "; right is " + right[0]
			}
		}
		if f.Status == plan.OK || t.down.ID == "" { // what is wrong with a port that is down comes with it
			findings = append(findings, f)
		}
	}
	return findings
}

// family judges whether the family that NCCL looks for has a right GID, where the port has some and that is not plain: NCCL looks
// for IPv4 by default. Without one it keeps index 0, which is link-local (ncclIbGetGidIndex and ncclUpdateGidIndex in
// NCCL's src/transport/net_ib/connect.cc). A warning, since jobs may bring the setting themselves.
func (t gidTable) family(setting node.Value[string]) []plan.Finding {
	text, ok := setting.Get()
	v4, v6 := t.right()
	if !ok && t.text && len(v4) == 0 && len(v6) > 0 { // who pasted GIDs may not have said what NCCL is told
		ok = true
	}
	switch {
	case !ok || len(v4)+len(v6) == 0: // told already
		return nil
	case text == "" && len(v4) > 0:
		return nil
	}
	f := t.finding("gid.address_family")
	f.Severity, f.Source = plan.Warning, setting.Source()
	have, other, fix := v4, v6, fmt.Sprintf("set %s=%s in %s (block nccl), or give %s an IPv4 address", addressFamilyKey, ipv6, sink.NCCLPath, t.netdev())
	f.Want = "a right GID of an IPv4 address"
	if text == ipv6 {
		have, other, fix = v6, v4, "take "+addressFamilyKey+" out, or give "+t.netdev()+" an IPv6 address"
		f.Want = "a right GID of an IPv6 address"
	}
	if len(have) > 0 {
		f.Found, f.Summary = have[0], fmt.Sprintf("%s has %s: %s", t.name(), f.Want, have[0])
		return []plan.Finding{f}
	}
	f.Status, f.Found, f.Fix = plan.Drift, other[0], fix
	f.Summary = fmt.Sprintf("NCCL looks for %s, and %s has none: right is %s", f.Want, t.name(), other[0])
	f.Why = "NCCL then takes index 0, a link-local GID of RoCE v1"
	return []plan.Finding{f}
}

// pinned is the index that jobs pin, -1 for none, and where that stands; problem says why it
// cannot be told, where it cannot.
func pinned(b plan.Block, facts node.Facts) (index int, source node.Source, problem plan.Finding) {
	if v := b.Attributes["index"]; v != cty.NilVal && !v.IsNull() {
		n, _ := v.AsBigFloat().Int64()
		origin := b.OriginOf("index", "")
		return int(n), node.Source{Path: origin.File, Line: origin.Line}, plan.Finding{}
	}
	setting := ncclSetting(facts, gidIndexKey)
	text, ok := setting.Get()
	if !ok {
		f := plan.Unread("gid.index", "whether "+gidIndexKey+" is pinned", setting)
		f.Target = gidIndexKey
		return 0, node.Source{}, f
	}
	if text == "" {
		return -1, setting.Source(), plan.Finding{} // NCCL takes an empty value for none
	}
	n, _, _ := ncclconf.Int(text)
	return int(max(-1, min(n, 1<<16))), setting.Source(), plan.Finding{}
}

// ncclSetting is what /etc/nccl.conf sets a key to, empty where it does not. Of the ways in which versions of NCCL
// read the file the newest counts that finds the key.
func ncclSetting(facts node.Facts, key string) node.Value[string] {
	v := node.File.Get(facts, sink.NCCLPath)
	file, ok := v.Get()
	if !ok {
		return node.UnknownLike[string](v)
	}
	for _, reading := range slices.Backward(ncclconf.Parse(file.Text, ncclconf.Version{}).Readings) {
		for _, e := range reading.Entries {
			if e.Key == key {
				return node.Known(e.Value, node.Source{Path: sink.NCCLPath, Line: e.Line})
			}
		}
	}
	return node.Known("", node.Source{Path: sink.NCCLPath})
}
