// Package dcbnl speaks the kernel's messages about Data Center Bridging: priority flow
// control (PFC), transmission selection (ETS), the APP table that maps DSCPs to
// priorities, DCBX, receive buffers and rates.
//
// They are the rtnetlink messages RTM_GETDCB and RTM_SETDCB. Numbers and layouts are those of
// include/uapi/linux/dcbnl.h; what the kernel does with them was read in net/dcb/dcbnl.c of
// Linux 6.1 and 6.12, what drivers do in en_dcbnl.c (mlx5_core), ice_dcb_nl.c (ice) and
// bnxt_dcb.c (bnxt_en) of the same. The package encodes and decodes; a Conn carries the messages.
package dcbnl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Priorities is a set of the 802.1p priorities 0 to 7, a bit for each.
type Priorities uint8

// Has reports whether p is in the set.
func (s Priorities) Has(p int) bool { return p >= 0 && p < 8 && s>>p&1 == 1 }

// List lists the set in ascending order.
func (s Priorities) List() []int {
	list := []int{}
	for p := range 8 {
		if s.Has(p) {
			list = append(list, p)
		}
	}
	return list
}

// String is the list with commas, or none.
func (s Priorities) String() string {
	if s == 0 {
		return "none"
	}
	var words []string
	for _, p := range s.List() {
		words = append(words, strconv.Itoa(p))
	}
	return strings.Join(words, ",")
}

// PFC is priority flow control, struct ieee_pfc without its counters of pause frames.
type PFC struct {
	// Capacity is how many traffic classes can have PFC at the same time.
	Capacity uint8 `json:"capacity"`
	// Enabled are the priorities with PFC.
	Enabled Priorities `json:"enabled"`
	// MACsecBypass is the bit MBC of 802.1Qaz.
	MACsecBypass uint8 `json:"macsec_bypass,omitempty"`
	// Delay is the link delay allowance. mlx5_core keeps the length of the cable here, in metres
	// from 1 to 999 7 by default, and 0 when it cannot set its buffers.
	Delay uint16 `json:"delay,omitempty"`
}

// TSA is how a traffic class is chosen for transmission.
type TSA uint8

// The algorithms of 802.1Qaz.
const (
	Strict       TSA = 0
	CreditShaper TSA = 1
	Weighted     TSA = 2 // ETS: a share of the bandwidth
	Vendor       TSA = 255
)

var tsaNames = map[TSA]string{Strict: "strict", CreditShaper: "cbs", Weighted: "ets", Vendor: "vendor"}

// String is the name that dcb-ets(8) uses, or the number.
func (t TSA) String() string { return nameOf(tsaNames, t) }

// MarshalText is String.
func (t TSA) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *TSA) UnmarshalText(text []byte) (err error) {
	*t, err = named(tsaNames, string(text))
	return err
}

// ETS is transmission selection, struct ieee_ets. The arrays are indexed by traffic class, those
// of priorities by priority.
type ETS struct {
	Willing uint8 `json:"willing,omitempty"`
	// Classes is how many traffic classes there are.
	Classes      uint8 `json:"classes"`
	CreditShaper uint8 `json:"credit_shaper,omitempty"`
	// TxBandwidth is each class's share in percent; those of classes with algorithm ets
	// add up to 100. A driver gives 0 for others.
	TxBandwidth [8]uint8 `json:"tx_bandwidth,omitzero"`
	RxBandwidth [8]uint8 `json:"rx_bandwidth,omitzero"`
	Algorithms  [8]TSA   `json:"algorithms"`
	// PriorityClass is the class of each priority. It is no identity by default: mlx5_core
	// begins with 1,0,2,3,4,5,6,7.
	PriorityClass [8]uint8 `json:"priority_class" range:"0:7"`

	// What is recommended to the peer.
	RecommendedBandwidth     [8]uint8 `json:"recommended_bandwidth,omitzero"`
	RecommendedAlgorithms    [8]TSA   `json:"recommended_algorithms,omitzero"`
	RecommendedPriorityClass [8]uint8 `json:"recommended_priority_class,omitzero"`
}

// Selector says what an APP entry's protocol is.
type Selector uint8

// The selectors of 802.1Qaz, and the kernel's own for PCP.
const (
	Ethertype    Selector = 1
	StreamPort   Selector = 2
	DatagramPort Selector = 3
	AnyPort      Selector = 4
	DSCP         Selector = 5
	PCP          Selector = 255 // Linux 6.2
)

var selectorNames = map[Selector]string{
	Ethertype: "ethtype", StreamPort: "stream-port", DatagramPort: "dgram-port", AnyPort: "port", DSCP: "dscp", PCP: "pcp",
}

// String is the name that dcb-app(8) uses, or the number.
func (s Selector) String() string { return nameOf(selectorNames, s) }

// MarshalText is String.
func (s Selector) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Selector) UnmarshalText(text []byte) (err error) {
	*s, err = named(selectorNames, string(text))
	return err
}

// App maps traffic to a priority, struct dcb_app.
type App struct {
	Selector Selector `json:"selector"`
	// Protocol is an Ethertype (0: the default priority), a port, a DSCP from 0 to 63, or a PCP.
	Protocol uint16 `json:"protocol"`
	Priority uint8  `json:"priority"`
}

// String is "dscp 26 to priority 3".
func (a App) String() string {
	return fmt.Sprintf("%s %d to priority %d", a.Selector, a.Protocol, a.Priority)
}

// CompareApps orders by selector, protocol and priority.
func CompareApps(a, b App) int {
	return cmp.Or(cmp.Compare(a.Selector, b.Selector), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Priority, b.Priority))
}

// DCBX says who negotiates with the switch: bits DCBXHost to DCBXStatic.
type DCBX uint8

// The bits of DCBX.
const (
	DCBXHost       DCBX = 0x01 // programs of this host, or nobody
	DCBXLLDManaged DCBX = 0x02 // the adapter's firmware
	DCBXCEE        DCBX = 0x04
	DCBXIEEE       DCBX = 0x08
	DCBXStatic     DCBX = 0x10
)

// String lists the bits as dcb-dcbx(8) does: "host ieee", or none.
func (d DCBX) String() string {
	if d == 0 {
		return "none"
	}
	var words []string
	for i, name := range []string{"host", "lld-managed", "cee", "ieee", "static"} {
		if d&(1<<i) != 0 {
			words = append(words, name)
		}
	}
	if rest := d &^ 0x1f; rest != 0 {
		words = append(words, fmt.Sprintf("%#x", uint8(rest)))
	}
	return strings.Join(words, " ")
}

// Buffer is the receive buffer, struct dcbnl_buffer. Sizes are in bytes.
type Buffer struct {
	// PriorityBuffer is the buffer of each priority, 0 to 7.
	PriorityBuffer [8]uint8  `json:"priority_buffer" range:"0:7"`
	Sizes          [8]uint32 `json:"sizes"`
	// Total cannot be set.
	Total uint32 `json:"total"`
}

// MaxRate limits each traffic class, in kbit/s; 0 is no limit. mlx5_core rounds down to
// 100 Mbit/s, above 25.5 Gbit/s to 1 Gbit/s.
type MaxRate [8]uint64

// TrustOrder are the selectors by which the port classifies what it receives, the first that fits
// wins. Linux 6.2 and later show it, and of 6.12's drivers only those of switches do.
type TrustOrder []Selector

// State is what a network device's driver says. What is nil the kernel did not show: the driver
// has no such operation, or it failed (see Claims).
type State struct {
	ETS *ETS
	PFC *PFC
	// Apps is the APP table, sorted with CompareApps. It is the kernel's own and may hold several
	// priorities for one DSCP where the driver (bnxt_en) does not prevent it.
	Apps       []App
	DCBX       *DCBX
	Buffer     *Buffer
	MaxRate    *MaxRate
	TrustOrder TrustOrder
}

func nameOf[T ~uint8](names map[T]string, v T) string {
	if name, ok := names[v]; ok {
		return name
	}
	return strconv.Itoa(int(v))
}

func named[T ~uint8](names map[T]string, text string) (T, error) {
	for v, name := range names {
		if name == text {
			return v, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a number up to 255 nor one of %q", text, slices.Sorted(maps.Values(names)))
	}
	return T(n), nil
}
