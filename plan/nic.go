package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
)

// NICPort is the port of a NIC that an action changes. Its network device and RDMA device are looked up
// just before.
type NICPort struct {
	// NIC is the port's key, as node.NIC.String has it.
	NIC string `json:"nic"`
	// AllowProtected: the port may be one that busbar must not touch otherwise.
	AllowProtected bool `json:"allow_protected,omitempty"`
}

// Port is the port itself.
func (p NICPort) Port() NICPort { return p }

// NICAction is an action that changes a port of a NIC. What it sets lasts until the next boot, and
// until the driver is loaded again.
type NICAction interface {
	Action
	Port() NICPort
}

// portState is the fact of a port that an action is about; an error says why it is not known.
func portState[T any](f node.Facts, kind node.Kind[T], p NICPort) (T, error) {
	return needed(kind.Get(f, p.NIC))
}

// needed is a fact, or an error that says why there is none.
func needed[T any](v node.Value[T]) (T, error) {
	x, ok := v.Get()
	if !ok {
		return x, errors.New(v.Reason())
	}
	return x, nil
}

// projectPort edits the fact of a port, which stays as it is where it is not known.
func projectPort[T any](f node.Facts, kind node.Kind[T], p NICPort, edit func(*T)) node.Facts {
	v := kind.Get(f, p.NIC)
	state, ok := v.Get()
	if !ok {
		return f
	}
	edit(&state)
	return f.With(kind.Answer(p.NIC, node.Known(state, v.Source())))
}

// with is a fact with another value, from where it was read.
func with[T any](v node.Value[T], x T) node.Value[T] { return node.Known(x, v.Source()) }

// SetLink sets what of a port's link can be set.
type SetLink struct {
	NICPort
	// MTU in bytes; 0 leaves it.
	MTU int `json:"mtu,omitempty"`
	// State is "up", "down", or empty to leave it.
	State string `json:"state,omitempty"`
}

var _ NICAction = SetLink{}

// Kind is "set-link".
func (SetLink) Kind() string { return "set-link" }

// Queries asks for the link.
func (a SetLink) Queries() []node.Query { return []node.Query{node.Link.Query(a.NIC)} }

// Done compares the MTU and whether the link is up.
func (a SetLink) Done(f node.Facts) (bool, string, error) {
	link, err := portState(f, node.Link, a.NICPort)
	if err != nil {
		return false, "", err
	}
	done, found := true, []string{}
	if a.MTU != 0 {
		mtu, err := needed(link.MTU)
		if err != nil {
			return false, "", err
		}
		done, found = mtu == a.MTU, append(found, fmt.Sprintf("MTU %d", mtu))
	}
	if a.State != "" {
		up, err := needed(link.Up)
		if err != nil {
			return false, "", err
		}
		done, found = done && up == (a.State == "up"), append(found, UpOrDown(up))
	}
	return done, strings.Join(found, ", "), nil
}

// Summary says what it does.
func (a SetLink) Summary() string {
	var words []string
	if a.MTU != 0 {
		words = append(words, fmt.Sprintf("set the MTU of NIC %s to %d", a.NIC, a.MTU))
	}
	if a.State != "" {
		words = append(words, fmt.Sprintf("set NIC %s %s", a.NIC, a.State))
	}
	return strings.Join(words, " and ")
}

// UpOrDown is the word for a link that is, or is not, administratively up.
func UpOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// Project sets the link in facts.
func (a SetLink) Project(f node.Facts) node.Facts {
	return projectPort(f, node.Link, a.NICPort, func(s *node.LinkState) {
		if a.MTU != 0 {
			s.MTU = with(s.MTU, a.MTU)
		}
		if a.State != "" {
			s.Up = with(s.Up, a.State == "up")
		}
	})
}

// Who owns DCBX on a port.
const (
	DCBXHost     = "host"     // programs of this host, or nobody
	DCBXFirmware = "firmware" // the adapter's firmware, which follows the switch
)

// SetDCBX gives DCBX of a port to an owner.
type SetDCBX struct {
	NICPort
	// Owner is DCBXHost or DCBXFirmware.
	Owner string `json:"owner"`
}

var _ NICAction = SetDCBX{}

// Kind is "set-dcbx".
func (SetDCBX) Kind() string { return "set-dcbx" }

// Queries asks for DCB.
func (a SetDCBX) Queries() []node.Query { return []node.Query{node.DCB.Query(a.NIC)} }

// Done compares the owner.
func (a SetDCBX) Done(f node.Facts) (bool, string, error) {
	dcb, err := portState(f, node.DCB, a.NICPort)
	if err != nil {
		return false, "", err
	}
	d, err := needed(dcb.DCBX)
	if err != nil {
		return false, "", err
	}
	return DCBXOwner(d) == a.Owner, d.String(), nil
}

// DCBXOwner is who owns DCBX: DCBXHost where the host does in the way of 802.1Qaz, which is what the kernel's
// messages about DCB need, DCBXFirmware where it does not, and else empty.
func DCBXOwner(d dcbnl.DCBX) string {
	switch {
	case d&dcbnl.DCBXHost == 0 || d&dcbnl.DCBXLLDManaged != 0:
		return DCBXFirmware
	case d&dcbnl.DCBXIEEE != 0:
		return DCBXHost
	default:
		return ""
	}
}

// Mode is what the kernel is told: mlx5_core takes nothing for its firmware; bnxt_en and ice take no other version
// beside 802.1Qaz (their setdcbx in en_dcbnl.c, bnxt_dcb.c, ice_dcb_nl.c).
func (a SetDCBX) Mode() dcbnl.DCBX {
	if a.Owner == DCBXHost {
		return dcbnl.DCBXHost | dcbnl.DCBXIEEE
	}
	return 0
}

// Project sets the owner in facts. mlx5_core clears no more than the host's bit for its firmware.
func (a SetDCBX) Project(f node.Facts) node.Facts {
	return projectPort(f, node.DCB, a.NICPort, func(s *node.DCBState) {
		d, _ := s.DCBX.Get()
		if d &^= dcbnl.DCBXHost; a.Owner == DCBXHost {
			d = a.Mode()
		}
		s.DCBX = with(s.DCBX, d)
	})
}

// SetPause sets flow control of a whole link, which is not negotiated then.
type SetPause struct {
	NICPort
	Rx bool `json:"rx"`
	Tx bool `json:"tx"`
}

var _ NICAction = SetPause{}

// Kind is "set-pause".
func (SetPause) Kind() string { return "set-pause" }

// Queries asks for flow control.
func (a SetPause) Queries() []node.Query { return []node.Query{node.FlowControl.Query(a.NIC)} }

// Done compares the directions.
func (a SetPause) Done(f node.Facts) (bool, string, error) {
	flow, err := portState(f, node.FlowControl, a.NICPort)
	if err != nil {
		return false, "", err
	}
	p, err := needed(flow.Pause)
	return err == nil && p.Rx == a.Rx && p.Tx == a.Tx, p.String(), err
}

// Project sets pause in facts.
func (a SetPause) Project(f node.Facts) node.Facts {
	return projectPort(f, node.FlowControl, a.NICPort, func(s *node.FlowControlState) {
		s.Pause = with(s.Pause, ethtool.Pause{Rx: a.Rx, Tx: a.Tx})
	})
}

// SetStormPrevention sets how long a port may hold back its peer without a break.
type SetStormPrevention struct {
	NICPort
	// Milliseconds; 0 is for ever, ethtool.StormPreventionAuto the driver's own.
	Milliseconds int `json:"milliseconds"`
}

var _ NICAction = SetStormPrevention{}

// Kind is "set-storm-prevention".
func (SetStormPrevention) Kind() string { return "set-storm-prevention" }

// Queries asks for flow control.
func (a SetStormPrevention) Queries() []node.Query {
	return []node.Query{node.FlowControl.Query(a.NIC)}
}

// Done compares the time.
func (a SetStormPrevention) Done(f node.Facts) (bool, string, error) {
	flow, err := portState(f, node.FlowControl, a.NICPort)
	if err != nil {
		return false, "", err
	}
	ms, err := needed(flow.PFCStormPrevention)
	return err == nil && ms == a.Milliseconds, fmt.Sprintf("%d ms", ms), err
}

// Project sets the time in facts.
func (a SetStormPrevention) Project(f node.Facts) node.Facts {
	return projectPort(f, node.FlowControl, a.NICPort, func(s *node.FlowControlState) {
		s.PFCStormPrevention = with(s.PFCStormPrevention, a.Milliseconds)
	})
}

// DSCPPriority is the priority of a DSCP.
type DSCPPriority struct {
	DSCP     int `json:"dscp"`
	Priority int `json:"priority"`
}

// SetDSCPMap makes a port trust DSCPs and gives some of them their priorities. All other entries of the APP table
// stay.
type SetDSCPMap struct {
	NICPort
	// Map is sorted by DSCP, each once.
	Map []DSCPPriority `json:"map"`
}

var _ NICAction = SetDSCPMap{}

// Kind is "set-dscp-map".
func (SetDSCPMap) Kind() string { return "set-dscp-map" }

// Queries asks for DCB.
func (a SetDSCPMap) Queries() []node.Query { return []node.Query{node.DCB.Query(a.NIC)} }

// Done compares the trust, and the entries of the wanted DSCPs: each has one.
func (a SetDSCPMap) Done(f node.Facts) (bool, string, error) {
	dcb, err := portState(f, node.DCB, a.NICPort)
	if err != nil {
		return false, "", err
	}
	trust, err := needed(dcb.Trust)
	if err != nil {
		return false, "", err
	}
	apps, err := needed(dcb.Apps)
	if err != nil {
		return false, "", err
	}
	for _, want := range a.Map {
		if have := PrioritiesOf(apps, want.DSCP); !slices.Equal(have, []int{want.Priority}) {
			return false, fmt.Sprintf("dscp %d to priority %s", want.DSCP, ListOr(have, "of no entry")), nil
		}
	}
	return trust == node.TrustDSCP, "trust " + trust, nil
}

// PrioritiesOf are the priorities that the entries of an APP table give a DSCP: one where the table is sound, ascending.
func PrioritiesOf(apps []dcbnl.App, dscp int) []int {
	var all []int
	for _, app := range apps {
		if app.Selector == dcbnl.DSCP && int(app.Protocol) == dscp {
			all = append(all, int(app.Priority))
		}
	}
	slices.Sort(all)
	return all
}

// ListOr is a list of ascending numbers in words, three and more in a row as a range: "2", "2 and 3", "24, 25 and 27 to 31";
// none where it is empty.
func ListOr(numbers []int, none string) string {
	if len(numbers) == 0 {
		return none
	}
	var words []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		if end > i+1 {
			words = append(words, fmt.Sprintf("%d to %d", numbers[i], numbers[end]))
			i = end + 1
			continue
		}
		words = append(words, fmt.Sprint(numbers[i]))
		i++
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// Apps is what an APP table becomes.
func (a SetDSCPMap) Apps(have []dcbnl.App) []dcbnl.App {
	apps := slices.DeleteFunc(slices.Clone(have), func(app dcbnl.App) bool {
		return app.Selector == dcbnl.DSCP && slices.ContainsFunc(a.Map, func(m DSCPPriority) bool { return m.DSCP == int(app.Protocol) })
	})
	for _, m := range a.Map {
		apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: uint16(m.DSCP), Priority: uint8(m.Priority)})
	}
	slices.SortFunc(apps, dcbnl.CompareApps)
	return apps
}

// Project sets trust and entries in facts.
func (a SetDSCPMap) Project(f node.Facts) node.Facts {
	return projectPort(f, node.DCB, a.NICPort, func(s *node.DCBState) {
		apps, _ := s.Apps.Get()
		s.Apps, s.Trust = with(s.Apps, a.Apps(apps)), with(s.Trust, node.TrustDSCP)
	})
}

// SetPFC sets which priorities of a port have priority flow control. The link goes down and comes
// back.
type SetPFC struct {
	NICPort
	Enabled dcbnl.Priorities `json:"enabled"`
}

var _ NICAction = SetPFC{}

// Kind is "set-pfc".
func (SetPFC) Kind() string { return "set-pfc" }

// Queries asks for DCB.
func (a SetPFC) Queries() []node.Query { return []node.Query{node.DCB.Query(a.NIC)} }

// Done compares the priorities.
func (a SetPFC) Done(f node.Facts) (bool, string, error) {
	dcb, err := portState(f, node.DCB, a.NICPort)
	if err != nil {
		return false, "", err
	}
	p, err := needed(dcb.PFC)
	return err == nil && p.Enabled == a.Enabled, "priorities " + p.Enabled.String(), err
}

// Project sets the priorities in facts.
func (a SetPFC) Project(f node.Facts) node.Facts {
	return projectPort(f, node.DCB, a.NICPort, func(s *node.DCBState) {
		p, _ := s.PFC.Get()
		p.Enabled = a.Enabled
		s.PFC = with(s.PFC, p)
	})
}

// SetECN makes a port notify of congestion and react to it for some priorities, and leaves the others as they are.
type SetECN struct {
	NICPort
	Priorities dcbnl.Priorities `json:"priorities"`
}

var _ NICAction = SetECN{}

// Kind is "set-ecn".
func (SetECN) Kind() string { return "set-ecn" }

// Queries asks for the settings of RoCE.
func (a SetECN) Queries() []node.Query { return []node.Query{node.RoCE.Query(a.NIC)} }

// Done looks for the priorities on both points.
func (a SetECN) Done(f node.Facts) (bool, string, error) {
	roce, err := portState(f, node.RoCE, a.NICPort)
	if err != nil {
		return false, "", err
	}
	np, err := needed(roce.NotificationPoint)
	if err != nil {
		return false, "", err
	}
	rp, err := needed(roce.ReactionPoint)
	if err != nil {
		return false, "", err
	}
	return np&rp&a.Priorities == a.Priorities, fmt.Sprintf("notification point %s, reaction point %s", np, rp), nil
}

// Project adds the priorities in facts.
func (a SetECN) Project(f node.Facts) node.Facts {
	return projectPort(f, node.RoCE, a.NICPort, func(s *node.RoCEState) {
		np, _ := s.NotificationPoint.Get()
		rp, _ := s.ReactionPoint.Get()
		s.NotificationPoint, s.ReactionPoint = with(s.NotificationPoint, np|a.Priorities), with(s.ReactionPoint, rp|a.Priorities)
	})
}

// The congestion control parameters of the kernel's own mlx5 driver that say how congestion notification packets are
// sent (drivers/infiniband/hw/mlx5/cong.c).
const (
	CCParamCNPDSCP         = "np_cnp_dscp"
	CCParamCNPPriority     = "np_cnp_prio"
	CCParamCNPPriorityMode = "np_cnp_prio_mode" // 0: np_cnp_prio counts; set with it
)

// CNP is the DSCP and the priority of congestion notification packets.
func CNP(s node.RoCEState) (dscp, priority node.Value[int]) {
	params, ok := s.CCParams.Get()
	if !s.CNPDSCP.IsUnsupported() || !ok {
		return s.CNPDSCP, s.CNPPriority
	}
	param := func(name string) node.Value[int] {
		n, ok := params[name]
		source := node.Source{Path: s.CCParams.Source().Path + "/" + name}
		if !ok {
			return node.Unsupported[int]("mlx5_ib shows no "+name, source)
		}
		return node.Known(int(n), source)
	}
	priority = param(CCParamCNPPriority)
	if mode, ok := params[CCParamCNPPriorityMode]; ok && mode != 0 && priority.IsKnown() {
		priority = node.Known(-1, node.Source{Path: s.CCParams.Source().Path + "/" + CCParamCNPPriorityMode})
	}
	return param(CCParamCNPDSCP), priority
}

// SetCNP sets the DSCP and the priority of congestion notification packets.
type SetCNP struct {
	NICPort
	DSCP     int `json:"dscp"`
	Priority int `json:"priority"`
}

var _ NICAction = SetCNP{}

// Kind is "set-cnp".
func (SetCNP) Kind() string { return "set-cnp" }

// Queries asks for the settings of RoCE.
func (a SetCNP) Queries() []node.Query { return []node.Query{node.RoCE.Query(a.NIC)} }

// Done compares both.
func (a SetCNP) Done(f node.Facts) (bool, string, error) {
	roce, err := portState(f, node.RoCE, a.NICPort)
	if err != nil {
		return false, "", err
	}
	dscpValue, priorityValue := CNP(roce)
	dscp, err := needed(dscpValue)
	if err != nil {
		return false, "", err
	}
	priority, err := needed(priorityValue)
	return err == nil && dscp == a.DSCP && priority == a.Priority, CNPText(dscp, priority), err
}

// CNPText says how congestion notification packets are sent; priority -1 is that of the packet that they answer.
func CNPText(dscp, priority int) string {
	if priority < 0 {
		return fmt.Sprintf("DSCP %d, no priority of their own", dscp)
	}
	return fmt.Sprintf("DSCP %d, priority %d", dscp, priority)
}

// Project sets both in facts.
func (a SetCNP) Project(f node.Facts) node.Facts {
	return projectPort(f, node.RoCE, a.NICPort, func(s *node.RoCEState) {
		if s.CNPDSCP.IsKnown() {
			s.CNPDSCP, s.CNPPriority = with(s.CNPDSCP, a.DSCP), with(s.CNPPriority, a.Priority)
			return
		}
		old, _ := s.CCParams.Get()
		params := map[string]uint32{}
		for name, n := range old {
			params[name] = n
		}
		params[CCParamCNPDSCP], params[CCParamCNPPriority] = uint32(a.DSCP), uint32(a.Priority)
		if _, ok := params[CCParamCNPPriorityMode]; ok {
			params[CCParamCNPPriorityMode] = 0
		}
		s.CCParams = with(s.CCParams, params)
	})
}

// SetTrafficClass sets the traffic class of all queue pairs of a port. The rules for addresses stay.
type SetTrafficClass struct {
	NICPort
	// Class is DSCP times 4.
	Class int `json:"class"`
}

var _ NICAction = SetTrafficClass{}

// Kind is "set-traffic-class".
func (SetTrafficClass) Kind() string { return "set-traffic-class" }

// Queries asks for the settings of RoCE.
func (a SetTrafficClass) Queries() []node.Query { return []node.Query{node.RoCE.Query(a.NIC)} }

// Done compares the DSCPs: the two lowest bits of a traffic class are ECN's.
func (a SetTrafficClass) Done(f node.Facts) (bool, string, error) {
	roce, err := portState(f, node.RoCE, a.NICPort)
	if err != nil {
		return false, "", err
	}
	tc, err := needed(roce.TrafficClass)
	return err == nil && SameDSCP(tc.Global, a.Class), TrafficClassText(tc.Global), err
}

// SameDSCP reports whether two traffic classes (types of service) have one DSCP; -1 is no traffic class.
func SameDSCP(a, b int) bool { return a >= 0 && b >= 0 && a>>2 == b>>2 }

// TrafficClassText is a traffic class with its DSCP, or none for -1.
func TrafficClassText(class int) string {
	if class < 0 {
		return "none"
	}
	return fmt.Sprintf("%d (DSCP %d)", class, class>>2)
}

// Project sets the traffic class in facts.
func (a SetTrafficClass) Project(f node.Facts) node.Facts {
	return projectPort(f, node.RoCE, a.NICPort, func(s *node.RoCEState) {
		tc, _ := s.TrafficClass.Get()
		tc.Global = a.Class
		s.TrafficClass = with(s.TrafficClass, tc)
	})
}

// SetConnectionDefaults sets what connections get that rdma_cm makes on a port. The directory below
// /sys/kernel/config/rdma_cm is made where it is absent and stays, since nothing can be read without it; module rdma_cm
// cannot be unloaded while it is there.
type SetConnectionDefaults struct {
	NICPort
	// ToS is the type of service, DSCP times 4.
	ToS int `json:"tos"`
	// Mode is node.GIDRoCEv1 or node.GIDRoCEv2.
	Mode string `json:"mode"`
}

var _ NICAction = SetConnectionDefaults{}

// Kind is "set-connection-defaults".
func (SetConnectionDefaults) Kind() string { return "set-connection-defaults" }

// Queries asks for the settings of RoCE.
func (a SetConnectionDefaults) Queries() []node.Query { return []node.Query{node.RoCE.Query(a.NIC)} }

// Done compares the DSCP and the mode. Without the directory nothing is set.
func (a SetConnectionDefaults) Done(f node.Facts) (bool, string, error) {
	roce, err := portState(f, node.RoCE, a.NICPort)
	if err != nil {
		return false, "", err
	}
	if roce.DefaultToS.Needs() == node.CapabilityRDMACM {
		return false, roce.DefaultToS.Reason(), nil
	}
	tos, err := needed(roce.DefaultToS)
	if err != nil {
		return false, "", err
	}
	mode, err := needed(roce.DefaultMode)
	return err == nil && SameDSCP(tos, a.ToS) && mode == a.Mode, fmt.Sprintf("ToS %s, %s", TrafficClassText(tos), mode), err
}

// Project sets both in facts.
func (a SetConnectionDefaults) Project(f node.Facts) node.Facts {
	return projectPort(f, node.RoCE, a.NICPort, func(s *node.RoCEState) {
		s.DefaultToS, s.DefaultMode = with(s.DefaultToS, a.ToS), with(s.DefaultMode, a.Mode)
	})
}

// AwaitedPort is a port that had a link before a change that takes it down.
type AwaitedPort struct {
	// NIC is the port's key.
	NIC string `json:"nic"`
	// RDMA is its RDMA port, DEVICE/PORT, where it was active; else empty.
	RDMA string `json:"rdma,omitempty"`
	// GID: it had a GID of RoCE v2.
	GID bool `json:"gid,omitempty"`
}

// AwaitLinks waits until the links of ports are back, their RDMA ports active, and their GIDs there.
type AwaitLinks struct {
	Ports []AwaitedPort `json:"ports"`
	// DeadlineS is how long to wait, in seconds.
	DeadlineS int `json:"deadline_s"`
	// HoldS is how long all must hold, in seconds: the kernel learns of a link that goes down
	// only after the change.
	HoldS int `json:"hold_s"`
}

var _ Awaiting = AwaitLinks{}

// Kind is "await-links".
func (AwaitLinks) Kind() string { return "await-links" }

// Deadline is how long to wait.
func (a AwaitLinks) Deadline() time.Duration { return time.Duration(a.DeadlineS) * time.Second }

// Hold is how long all must hold.
func (a AwaitLinks) Hold() time.Duration { return time.Duration(a.HoldS) * time.Second }

// Awaited says what is awaited.
func (a AwaitLinks) Awaited() string {
	if len(a.Ports) == 1 {
		return "the link of " + a.Ports[0].NIC + " to come back"
	}
	return fmt.Sprintf("%d links to come back", len(a.Ports))
}

// Queries asks for the links and RDMA ports.
func (a AwaitLinks) Queries() []node.Query {
	var queries []node.Query
	for _, p := range a.Ports {
		queries = append(queries, node.Link.Query(p.NIC))
		if p.RDMA != "" {
			queries = append(queries, node.RDMAPort.Query(p.RDMA))
		}
	}
	return queries
}

// Done reports the first port that is not back. What cannot be read may become readable.
func (a AwaitLinks) Done(f node.Facts) (bool, string, error) {
	for _, p := range a.Ports {
		if missing := p.missing(f); missing != "" {
			return false, p.NIC + " " + missing, nil
		}
	}
	return true, "all are back", nil
}

// missing is what a port has not got back, or empty.
func (p AwaitedPort) missing(f node.Facts) string {
	link, _ := node.Link.Get(f, p.NIC).Get()
	if carrier, _ := link.Carrier.Get(); !carrier {
		return "without a link"
	}
	if p.RDMA == "" {
		return ""
	}
	v := node.RDMAPort.Get(f, p.RDMA)
	port, ok := v.Get()
	if !ok {
		return "with RDMA port " + p.RDMA + " unknown: " + v.Reason()
	}
	if state, _ := port.State.Get(); state != node.RDMAActive {
		return "with RDMA port " + p.RDMA + " " + cmp.Or(state, "unknown")
	}
	if p.GID && !HasRoCEv2GID(port) {
		return "without a GID of RoCE v2 on " + p.RDMA
	}
	return ""
}

// HasRoCEv2GID reports whether the GID table of a port is known to have an entry of RoCE v2.
func HasRoCEv2GID(port node.RDMAPortState) bool {
	gids, _ := port.GIDs.Get()
	return slices.ContainsFunc(gids, func(g node.GID) bool { return g.Type == node.GIDRoCEv2 })
}

// Project changes nothing: links come back by themselves.
func (a AwaitLinks) Project(f node.Facts) node.Facts { return f }

// merge joins two waits.
func (a AwaitLinks) merge(b AwaitLinks) AwaitLinks {
	all := append(slices.Clone(a.Ports), b.Ports...)
	slices.SortFunc(all, func(a, b AwaitedPort) int { return cmp.Or(cmp.Compare(a.NIC, b.NIC), cmp.Compare(b.RDMA, a.RDMA)) })
	a.Ports = slices.CompactFunc(all, func(a, b AwaitedPort) bool { return a.NIC == b.NIC })
	a.DeadlineS, a.HoldS = max(a.DeadlineS, b.DeadlineS), max(a.HoldS, b.HoldS)
	return a
}
