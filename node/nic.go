package node

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/internal/mstconfig"
)

// ParseNIC splits what NIC.String returns into the PCI address and the port, from 1. It does not
// check the address.
func ParseNIC(s string) (address string, port int, ok bool) {
	address, digits, second := strings.Cut(s, "/")
	if !second {
		return address, 1, address != ""
	}
	port, err := strconv.Atoi(digits)
	return address, port, err == nil && port > 1 && address != "" && strconv.Itoa(port) == digits
}

// PortOf is the port that a key of NIC.String names, also of a virtual function; false where there is none, or the PCI bus is
// not known.
func (inv Inventory) PortOf(key string) (NIC, bool) {
	address, port, ok := ParseNIC(key)
	functions, _ := inv.PCI.Get()
	for _, p := range functions {
		if ok && p.Address == address && p.IsNIC() && slices.Contains(inv.nicPorts(address), port) {
			return inv.nic(p, port, inv.guarded()), true
		}
	}
	return NIC{}, false
}

// RDMAPortOf is the RDMA port of a NIC port as DEVICE/PORT, the key of RDMAPort: that of the same number on its PCI function, else
// that which has its network device or one that stands on it (a bond, rxe).
func (inv Inventory) RDMAPortOf(n NIC) Value[string] {
	name, ok := n.RDMA.Get()
	if !ok {
		return n.RDMA
	}
	netdev, hasNetdev := n.Netdev.Get()
	devices, _ := inv.RDMA.Get() // known where a NIC has one
	for _, d := range devices {
		if d.Name != name {
			continue
		}
		for _, p := range d.Ports {
			if d.PCI == n.Address && p.Port == n.Port || hasNetdev && (p.Netdev == netdev || inv.standsOn(p.Netdev, netdev)) {
				return Known(fmt.Sprintf("%s/%d", name, p.Port), n.RDMA.Source())
			}
		}
	}
	return Unknown[string](fmt.Sprintf("RDMA device %s shows no port of the NIC", name), n.RDMA.Source())
}

// PortRefusal says why the port with a key of NIC.String must not be touched: it is protected, or that cannot be told. It
// is empty where it may be.
func (inv Inventory) PortRefusal(key string) string {
	n, ok := inv.PortOf(key)
	if !ok {
		return "there is no such NIC"
	}
	protected, ok := n.Protected.Get()
	switch {
	case !ok:
		return "whether it is protected is unknown: " + n.Protected.Reason()
	case protected:
		by := inv.guarded()[n.String()]
		if by.Name == "" {
			return "it is protected: " + by.Reason
		}
		return fmt.Sprintf("it is protected: %s, %s", by.Name, by.Reason)
	default:
		return ""
	}
}

// BondOf is the device that a network device is a port of: a bond or a bridge, not a VLAN on it; empty
// without one.
func (inv Inventory) BondOf(netdev string) string {
	netdevs, _ := inv.Netdevs.Get()
	for _, d := range netdevs {
		if len(d.Lower) > 1 && slices.Contains(d.Lower, netdev) {
			return d.Name
		}
	}
	return ""
}

// LinkState is the link of a NIC port. What busbar sets of it is the MTU, and whether it is up; the rest changes by itself.
type LinkState struct {
	// Netdev is the network device's name.
	Netdev string `json:"netdev"`
	// MAC address, XX:XX:XX:XX:XX:XX in lower case.
	MAC Value[string] `json:"mac,omitzero"`
	// MTU in bytes. RoCE fits an InfiniBand MTU of 4096 into 4192 and more.
	MTU Value[int] `json:"mtu,omitzero" range:"68:65535"`
	// Up: administratively up.
	Up Value[bool] `json:"up,omitzero"`
	// Carrier: the link is there; unknown while the network device is down, since the
	// kernel does not tell.
	Carrier Value[bool] `json:"carrier,omitzero"`
	// OperState is the operational state of RFC 2863: up, down, dormant, lowerlayerdown, unknown ...
	OperState Value[string] `json:"oper_state,omitzero"`
	// Speed in Mbit/s; unknown without a link.
	Speed Value[int] `json:"speed,omitzero" range:"1:"`
	// Driver is the driver's own name (mlx5_core, bnxt_en, ice); that of the PCI function is
	// in the inventory.
	Driver Value[string] `json:"driver,omitzero"`
	// Firmware is the running firmware's version as the driver words it: "28.39.1002 (MT_0000000838)".
	Firmware Value[string] `json:"firmware,omitzero"`
}

// Those who set network devices up.
const (
	ManagerNetworkd       = "networkd" // systemd-networkd
	ManagerNetworkManager = "NetworkManager"
	ManagerIfupdown       = "ifupdown" // of Debian
	ManagerUdev           = "udev"     // as the device is added
)

// LinkManagementState is who sets up the network device of a NIC port, and the MTU that their files say.
type LinkManagementState struct {
	Netdev string `json:"netdev"`
	// Managers have set the device up since the node booted, as they themselves have noted in /run: ManagerNetworkd,
	// ManagerNetworkManager, ManagerIfupdown, in this order. One is usual; empty: nobody has.
	Managers []LinkManager `json:"managers,omitempty"`
	// Udev is the .link file that is for the device; what it says lasts until a manager sets another MTU.
	Udev LinkManager `json:"udev,omitzero"`
	// Bond is the bond that the device is a port of, and which gives it its MTU; empty without one. BondManagers have set that up.
	Bond         string        `json:"bond,omitempty"`
	BondManagers []LinkManager `json:"bond_managers,omitempty"`
}

// LinkManager is one who sets a network device up.
type LinkManager struct {
	Name string `json:"name"`
	// File decides about the device: a .network, .link, key file or ifcfg file, or the file of the stanza iface. It is empty where
	// the manager has none for it.
	File string `json:"file,omitempty"`
	// MTU that is set whenever the device is set up, in bytes, with the file and line that says it: File, a drop-in of it, a default of the
	// manager's, or a DHCP lease. 0 is known: nothing says one, and the device keeps what it has.
	MTU Value[int] `json:"mtu,omitzero" range:"0:"`
	// Netplan is where netplan's YAML, of which File was made, says the MTU or defines the device; without a path for a file that
	// netplan did not make.
	Netplan Source `json:"netplan,omitzero"`
}

// Decides is who says the MTU that the port's network device has when all have set it up, or of whom that is not known; false
// where nobody says one. A manager wins over udev.
func (s LinkManagementState) Decides() (LinkManager, bool) {
	udev := s.Udev
	udev.Name = ManagerUdev
	for _, m := range append(slices.Clone(s.Managers), udev) {
		if n, ok := m.MTU.Get(); !ok || n > 0 {
			return m, true
		}
	}
	return LinkManager{}, false
}

// FlowControlState is how a NIC port holds back its peer as a whole.
type FlowControlState struct {
	Netdev string `json:"netdev"`
	// Pause is flow control of the whole link (802.3x), which is at odds with PFC.
	Pause Value[ethtool.Pause] `json:"pause,omitzero"`
	// PFCStormPrevention is how many milliseconds the port may hold back its peer without a break; 0 is
	// for ever. mlx5_core alone has it.
	PFCStormPrevention Value[int] `json:"pfc_storm_prevention,omitzero" range:"0:65535"`
}

// What a port trusts.
const (
	TrustDSCP = "dscp" // the DSCP of an IP packet gives the priority
	TrustPCP  = "pcp"  // the priority of the VLAN tag
	TrustNone = "none" // neither
)

// DCBState is Data Center Bridging of a NIC port. A field is unsupported where the kernel does not show it, which
// it does for neither an operation that the driver lacks nor one that failed; unknown when
// the driver claims to have the operation.
type DCBState struct {
	Netdev string `json:"netdev"`
	// Driver is bound to the PCI function; dcbnl.AppChanges asks for it.
	Driver string `json:"driver"`
	// DCBX says who negotiates with the switch. Firmware that does can overwrite all else.
	DCBX Value[dcbnl.DCBX] `json:"dcbx,omitzero"`
	PFC  Value[dcbnl.PFC]  `json:"pfc,omitzero"`
	ETS  Value[dcbnl.ETS]  `json:"ets,omitzero"`
	// Apps maps DSCPs, and more, to priorities; sorted with dcbnl.CompareApps. mlx5_core lists all 64 DSCPs when it
	// trusted them already as the driver began, else those that were added since: the firmware maps
	// the others too, to DSCP/8 where nobody changed that.
	Apps Value[[]dcbnl.App] `json:"apps,omitzero"`
	// Trust is TrustDSCP, TrustPCP or TrustNone. Source says where from: qos/trust of MLNX_OFED, the driver's trust
	// order, or else the APP table, whose first DSCP makes mlx5_core and ice trust DSCPs, and
	// which is all that the kernel shows of other drivers.
	Trust Value[string] `json:"trust,omitzero"`
	// TrustOrder is what the driver trusts where it says so; drivers of NICs do not.
	TrustOrder Value[dcbnl.TrustOrder] `json:"trust_order,omitzero"`
	Buffer     Value[dcbnl.Buffer]     `json:"buffer,omitzero"`
	MaxRate    Value[dcbnl.MaxRate]    `json:"max_rate,omitzero"`
}

// RoCEState is how a NIC port marks RoCE traffic and reacts to congestion.
type RoCEState struct {
	// Netdev is the network device, RDMA the RDMA port as DEVICE/PORT; empty without one.
	Netdev string `json:"netdev,omitempty"`
	RDMA   string `json:"rdma,omitempty"`

	// NotificationPoint are the priorities for which the port answers ECN marks with congestion notification packets
	// (CNP), ReactionPoint those for which it slows down on CNPs: ecn/roce_np/enable and
	// ecn/roce_rp/enable, which only MLNX_OFED and DOCA-OFED drivers have. They answer EPERM when a
	// priority is enabled that is so already.
	NotificationPoint Value[dcbnl.Priorities] `json:"notification_point,omitzero"`
	ReactionPoint     Value[dcbnl.Priorities] `json:"reaction_point,omitzero"`
	// CNPDSCP and CNPPriority are what CNPs are sent with: ecn/roce_np/cnp_dscp and cnp_802p_prio of the same drivers.
	CNPDSCP     Value[int] `json:"cnp_dscp,omitzero" range:"0:63"`
	CNPPriority Value[int] `json:"cnp_priority,omitzero" range:"0:7"`
	// CCParams are the congestion control parameters that the kernel's own mlx5 driver shows in debugfs, by the
	// names of its files: np_cnp_dscp, np_cnp_prio, np_cnp_prio_mode, rp_* and more
	// (drivers/infiniband/hw/mlx5/cong.c).
	CCParams Value[map[string]uint32] `json:"cc_params,omitzero"`

	// TrafficClass overrides the traffic class of queue pairs: tc/PORT/traffic_class of MLNX_OFED.
	TrafficClass Value[TrafficClass] `json:"traffic_class,omitzero"`
	// DefaultToS is the type of service of connections that rdma_cm makes, 0 to 255, and DefaultMode the type of GID that
	// they use, GIDRoCEv1 or GIDRoCEv2. Both stand in configfs in a directory that somebody must have
	// made, and are unknown without it.
	DefaultToS  Value[int]    `json:"default_tos,omitzero" range:"0:255"`
	DefaultMode Value[string] `json:"default_mode,omitzero"`
}

// TrafficClass is tc/PORT/traffic_class of MLNX_OFED's mlx5_ib.
type TrafficClass struct {
	// Global is the traffic class of all queue pairs of the port, 0 to 255, or -1 where none is set and
	// applications choose. The DSCP is its upper six bits.
	Global int `json:"global" range:"-1:255"`
	// Rules are the other lines, traffic classes for certain addresses (dst_ip=10.0.0.0/24,tclass=64), which
	// count where Global is -1.
	Rules []string `json:"rules,omitempty"`
}

// MellanoxVendor is the PCI vendor id of NVIDIA's NICs.
const MellanoxVendor = "15b3"

// NVConfigState is the configuration in a NIC's firmware (NV configuration): it is loaded when the firmware is reset, and
// survives everything but being set anew.
type NVConfigState struct {
	// Tool is the program that read it: mstconfig of mstflint, or mlxconfig of NVIDIA's MFT.
	Tool string `json:"tool"`
	// Parameters by name (LINK_TYPE_P1), elements of arrays as NAME[INDEX] beside the array itself.
	Parameters map[string]mstconfig.Values `json:"parameters"`
	// Missing is why the NIC may have parameters that are not in Parameters; empty where it has none that
	// Tool knows.
	Missing string `json:"missing,omitempty"`
}

// RDMAActive is the logical state of an RDMA port that carries traffic.
const RDMAActive = "ACTIVE"

// RDMAPortState is what the driver says of an RDMA port, /sys/class/infiniband/DEVICE and its ports/PORT.
type RDMAPortState struct {
	// LinkLayer is InfiniBand or Ethernet.
	LinkLayer string `json:"link_layer"`
	// State is the logical state: DOWN, INIT, ARMED, ACTIVE ...
	State Value[string] `json:"state,omitzero"`
	// PhysState is the physical state: LinkUp, Polling, Disabled, Sleep ...
	PhysState Value[string] `json:"phys_state,omitzero"`
	// Rate as the kernel words it: "400 Gb/sec (4X NDR)". It shows speeds that it does not know as 2.5 Gb/sec; LinkState.Speed is right
	// for Ethernet.
	Rate Value[string] `json:"rate,omitzero"`
	// LID and SMLID are InfiniBand's addresses of the port and of its subnet manager; 0 before one assigned any, and on Ethernet.
	LID   Value[int] `json:"lid,omitzero" range:"0:"`
	SMLID Value[int] `json:"sm_lid,omitzero" range:"0:"`
	// GIDs is the GID table without its empty slots, by index.
	GIDs Value[[]GID] `json:"gids,omitzero"`

	// Firmware is the running version, may be empty.
	Firmware Value[string] `json:"firmware,omitzero"`
	// BoardID is the board (PSID) and HCAType the device's model, where the driver has them.
	BoardID Value[string] `json:"board_id,omitzero"`
	HCAType Value[string] `json:"hca_type,omitzero"`
	// NodeGUID identifies the device: four groups of four hex digits.
	NodeGUID Value[string] `json:"node_guid,omitzero"`
}

// RDMARate is RDMAPortState.Rate taken apart.
type RDMARate struct {
	// Mbps is the rate in Mbit/s.
	Mbps int
	// Width is how many lanes the link has.
	Width int
	// Speed of a lane as InfiniBand names it: NDR, HDR, EDR ... It is SDR, or empty on older kernels, also where the kernel
	// does not know the speed.
	Speed string
}

// rdmaRate is what rate_show in drivers/infiniband/core/sysfs.c writes.
var rdmaRate = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{1,7})(\.5)? Gb/sec \(([0-9]{1,3})X ?([A-Z0-9]*)\)$`)
})

// ParseRDMARate reads what RDMAPortState.Rate holds, "400 Gb/sec (4X NDR)"; false where it is something else.
func ParseRDMARate(text string) (RDMARate, bool) {
	m := rdmaRate().FindStringSubmatch(text)
	if m == nil {
		return RDMARate{}, false
	}
	// The expression lets only digits through, few enough for an int.
	whole, _ := strconv.Atoi(m[1])
	width, _ := strconv.Atoi(m[3])
	r := RDMARate{Mbps: 1000 * whole, Width: width, Speed: m[4]}
	if m[2] != "" {
		r.Mbps += 500
	}
	return r, true
}

// LinkRate is Rate taken apart. It is unknown where the kernel may have had no word for the speed: it writes SDR then, or no
// name at all.
func (s RDMAPortState) LinkRate() Value[RDMARate] {
	text, ok := s.Rate.Get()
	if !ok {
		return UnknownLike[RDMARate](s.Rate)
	}
	rate, ok := ParseRDMARate(text)
	switch {
	case !ok:
		return Unknown[RDMARate](fmt.Sprintf("%q is no rate", text), s.Rate.Source())
	case rate.Speed == "" || rate.Speed == "SDR":
		return Unknown[RDMARate](fmt.Sprintf("%q is what the kernel writes for SDR and for every speed that it does not know", text), s.Rate.Source())
	}
	return Known(rate, s.Rate.Source())
}

// The types of GIDs (drivers/infiniband/core/cache.c).
const (
	GIDRoCEv1 = "IB/RoCE v1" // also of InfiniBand ports
	GIDRoCEv2 = "RoCE v2"
)

// GID is an entry of the GID table. Entries follow the addresses of the network device; which index one has can change
// when the link or an address comes back.
type GID struct {
	Index int `json:"index" range:"0:"`
	// GID as the kernel writes it: eight groups of four hex digits.
	GID string `json:"gid"`
	// Type is GIDRoCEv1 or GIDRoCEv2.
	Type string `json:"type"`
	// Netdev that the address belongs to: the port's own, a VLAN or a bond; empty on InfiniBand.
	Netdev string `json:"netdev,omitempty"`
}

// Address is the IP address that the GID stands for, IPv4 unmapped; invalid when the GID is not understood.
func (g GID) Address() netip.Addr {
	a, err := netip.ParseAddr(g.GID)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}
