package roce_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/modules/kernelmodule"
	"busbar/modules/link"
	"busbar/modules/nccl"
	"busbar/modules/roce"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{roce.Type{}, link.Type{}, nccl.Type{}, kernelmodule.Type{}}

// block is a roce block over ports, with further arguments.
func block(arguments string, ports ...string) string {
	var list []string
	for _, p := range ports {
		list = append(list, fmt.Sprintf("{ address = %q }", p))
	}
	return fmt.Sprintf("roce \"rails\" {\nnics = [%s]\nlossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }\nmtu = 9000\n%s\n}", strings.Join(list, ", "), arguments)
}

func rail() plantest.PortState { return plantest.Lossless(plantest.Rail, "rail0", "mlx5_0") }

// facts are those of a node whose rail is edited.
func facts(edit func(*plantest.PortState), more ...node.Answer) node.Facts {
	s := rail()
	if edit != nil {
		edit(&s)
	}
	return plantest.PortNode(append(s.Answers(), more...)...)
}

func dcb(edit func(*node.DCBState)) func(*plantest.PortState) {
	return func(s *plantest.PortState) { *s = s.Change(edit) }
}

// inbox is what the kernel's own mlx5 driver lacks.
func inbox(s *plantest.PortState) {
	reason := "the driver shows none; MLNX_OFED and DOCA-OFED drivers do"
	r := &s.RoCE
	r.NotificationPoint = node.Unsupported[dcbnl.Priorities](reason, r.NotificationPoint.Source())
	r.ReactionPoint = node.Unsupported[dcbnl.Priorities](reason, r.ReactionPoint.Source())
	r.CNPDSCP, r.CNPPriority = node.Unsupported[int](reason, r.CNPDSCP.Source()), node.Unsupported[int](reason, r.CNPPriority.Source())
	r.TrafficClass = node.Unsupported[node.TrafficClass](reason, r.TrafficClass.Source())
	*s = s.Change(func(d *node.DCBState) {
		d.Trust = node.Known(node.TrustDSCP, node.Source{Call: "rtnetlink RTM_GETDCB, APP table"})
	})
}

// check compares what is not ok before and after all steps.
func check(t *testing.T, blocks string, f node.Facts, want, after string, says ...string) {
	t.Helper()
	first, second, _ := plantest.Settle(t, types, plantest.Blocks(t, types, blocks), f)
	if diff := cmp.Diff(lines(want), notOK(first)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(lines(after), notOK(second)); diff != "" {
		t.Errorf("plan after all steps (-want +got):\n%s", diff)
	}
	var sentences strings.Builder
	for _, f := range first.Findings {
		sentences.WriteString(f.Summary + "\n" + f.Fix + "\n")
	}
	for _, s := range first.Steps {
		sentences.WriteString(s.Summary + "\n")
	}
	for _, say := range says {
		if !strings.Contains(sentences.String(), say) {
			t.Errorf("nothing says %q:\n%s", say, sentences.String())
		}
	}
}

func notOK(p plan.Plan) []string {
	return slices.DeleteFunc(lines(plantest.Summarize(p)), func(line string) bool { return strings.HasPrefix(line, "ok ") })
}

func lines(s string) []string {
	all := []string{}
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// The whole of a healthy port, every statement once.
func TestHealthy(t *testing.T) {
	const netlink = "(rtnetlink RTM_GETDCB)"
	plantest.Run(t, types, []plantest.Case{{
		Name: "MLNX_OFED", Blocks: block("storm_prevention = 8000", plantest.Rail), Facts: facts(nil),
		Want: `ok roce.agent lldpad.service (org.freedesktop.systemd1.Unit lldpad.service)
			ok roce.agent lldpad.socket (org.freedesktop.systemd1.Unit lldpad.socket)
			ok roce.carrier 0000:1a:00.0 (/sys/class/net/rail0/carrier)
			ok roce.cnp 0000:1a:00.0 (/sys/class/net/rail0/ecn/roce_np/cnp_dscp)
			ok roce.cnp_map 0000:1a:00.0 ` + netlink + `
			ok roce.dcbx 0000:1a:00.0 ` + netlink + `
			ok roce.dscp_map 0000:1a:00.0 ` + netlink + `
			ok roce.ecn 0000:1a:00.0 (/sys/class/net/rail0/ecn/roce_np/enable)
			ok roce.mtu 0000:1a:00.0 (/sys/class/net/rail0/mtu)
			ok roce.mtu_file 0000:1a:00.0 (/run/systemd/network/10-netplan-rail0.network:5)
			ok roce.pause 0000:1a:00.0 (ioctl SIOCETHTOOL ETHTOOL_GPAUSEPARAM)
			ok roce.pfc 0000:1a:00.0 ` + netlink + `
			ok roce.storm_prevention 0000:1a:00.0 (ioctl SIOCETHTOOL ETHTOOL_GPAUSEPARAM)
			ok roce.tos 0000:1a:00.0 (/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos)
			ok roce.traffic_class 0000:1a:00.0 (/sys/class/infiniband/mlx5_0/tc/1/traffic_class)
			ok roce.trust 0000:1a:00.0 (/sys/class/net/rail0/qos/trust)
			ok roce.up 0000:1a:00.0 (/sys/class/net/rail0/flags)`,
	}})
}

func TestOneThingWrong(t *testing.T) {
	const rail, netlink = plantest.Rail, "(rtnetlink RTM_GETDCB)"
	const defaultMap = "drift info roce.dscp_default nics " + netlink
	for _, tt := range []struct {
		name, arguments string
		edit            func(*plantest.PortState)
		more            []node.Answer
		want, after     string
		says            []string
	}{
		{
			name: "down", edit: func(s *plantest.PortState) { s.Link.Up = node.Known(false, s.Link.Up.Source()) },
			want: "!drift roce.up " + rail + " (/sys/class/net/rail0/flags)\nstep set-link:" + rail, says: []string{"0000:1a:00.0 (rail0) is down, wanted is up"},
		},
		{
			name: "no link", edit: func(s *plantest.PortState) { s.Link.Carrier = node.Known(false, s.Link.Carrier.Source()) },
			want: "drift roce.carrier " + rail + " (/sys/class/net/rail0/carrier)", after: "drift roce.carrier " + rail + " (/sys/class/net/rail0/carrier)",
			says: []string{"0000:1a:00.0 (rail0) is up and has no link\nlook at the cable"},
		},
		{
			name: "no PFC", edit: dcb(func(d *node.DCBState) { d.PFC = node.Known(dcbnl.PFC{Capacity: 8, Delay: 7}, d.PFC.Source()) }),
			want: "!drift roce.pfc " + rail + " " + netlink + "\nstep set-pfc:" + rail + "\nstep await-links:links",
			says: []string{"PFC of 0000:1a:00.0 (rail0) is off, wanted is priority 3", "its link goes down and comes back"},
		},
		{
			name: "a second lossless class", edit: dcb(func(d *node.DCBState) { d.PFC = node.Known(dcbnl.PFC{Enabled: 0x18}, d.PFC.Source()) }),
			want: "!drift roce.pfc " + rail + " " + netlink + "\nstep set-pfc:" + rail + "\nstep await-links:links", says: []string{"is on for priority 3,4, wanted is 3 alone"},
		},
		{
			name: "the MTU of Ethernet", edit: func(s *plantest.PortState) { s.Link.MTU = node.Known(1500, s.Link.MTU.Source()) },
			want: "!drift roce.mtu " + rail + " (/sys/class/net/rail0/mtu)\nstep set-link:" + rail + "\nstep await-links:links", says: []string{"set the MTU of NIC 0000:1a:00.0 to 9000"},
		},
		{
			name: "netplan says another MTU", edit: func(s *plantest.PortState) { s.Management = plantest.Netplan("rail0", 1500) },
			want:  "conflict roce.mtu_file " + rail + " (/run/systemd/network/10-netplan-rail0.network:5)",
			after: "conflict roce.mtu_file " + rail + " (/run/systemd/network/10-netplan-rail0.network:5)",
			says:  []string{"write mtu: 9000 into /etc/netplan/50-rails.yaml:7"},
		},
		{
			name: "a link that was down is not waited for", edit: func(s *plantest.PortState) {
				s.Link.MTU, s.Link.Carrier = node.Known(1500, s.Link.MTU.Source()), node.Known(false, node.Source{})
			},
			want:  "drift roce.carrier " + rail + " ()\n!drift roce.mtu " + rail + " (/sys/class/net/rail0/mtu)\nstep set-link:" + rail,
			after: "drift roce.carrier " + rail + " ()",
		},
		{
			name: "pause", edit: func(s *plantest.PortState) { s.Flow.Pause = node.Known(ethtool.Pause{Rx: true}, node.Source{}) },
			want: "!drift roce.pause " + rail + " ()\nstep set-pause:" + rail,
		},
		{
			name: "pause that is not asked about", arguments: `pause = "unmanaged"`,
			edit: func(s *plantest.PortState) { s.Flow.Pause = node.Known(ethtool.Pause{Rx: true}, node.Source{}) },
		},
		{
			name: "no pause", edit: func(s *plantest.PortState) {
				s.Flow.Pause = node.Unsupported[ethtool.Pause]("the driver has none", node.Source{})
			},
			want: "unsupported roce.pause " + rail + " ()", after: "unsupported roce.pause " + rail + " ()",
		},
		{
			name: "storms", arguments: "storm_prevention = 100", want: "!drift roce.storm_prevention " + rail + " (ioctl SIOCETHTOOL ETHTOOL_GPAUSEPARAM)\nstep set-storm-prevention:" + rail,
		},
		{
			name: "PCP is trusted", edit: dcb(func(d *node.DCBState) {
				d.Trust, d.Apps = node.Known(node.TrustPCP, d.Trust.Source()), node.Known([]dcbnl.App{}, d.Apps.Source())
			}),
			want: "!drift roce.cnp_map " + rail + " " + netlink + "\n!drift roce.dscp_map " + rail + " " + netlink + "\n!drift roce.trust " + rail + " (/sys/class/net/rail0/qos/trust)\nstep set-dscp-map:" + rail,
			says: []string{"map 26 to priority 3, 48 to 6"}, after: defaultMap,
		},
		{
			name: "the map of mlnx_qos --trust dscp", edit: dcb(func(d *node.DCBState) {
				var apps []dcbnl.App
				for dscp := range uint16(64) {
					apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: dscp, Priority: uint8(dscp / 8)})
				}
				d.Apps = node.Known(apps, d.Apps.Source())
			}),
			want: defaultMap, after: defaultMap, says: []string{"the default map of the driver has DSCP 24, 25 and 27 to 31 in the lossless class, too, at 0000:1a:00.0"},
		},
		{
			name: "all DSCPs are lossless", edit: dcb(func(d *node.DCBState) {
				var apps []dcbnl.App
				for dscp := range uint16(64) {
					apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: dscp, Priority: 3})
				}
				d.Apps = node.Known(apps, d.Apps.Source())
			}),
			want:  "!drift roce.cnp_map " + rail + " " + netlink + "\n" + defaultMap + "\n!drift warn roce.dscp_stray " + rail + " " + netlink + "\nstep set-dscp-map:" + rail,
			after: defaultMap, says: []string{"has DSCP 0 to 23, 32 to 47 and 49 to 63 in the lossless class, too", "48 to 6, DSCP 0 to 23, 32 to 47 and 49 to 63 to 0"},
		},
		{
			name: "mlx5 lists what was added and maps the others all the same", edit: dcb(func(d *node.DCBState) {
				d.Apps = node.Known([]dcbnl.App{{Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}, {Selector: dcbnl.DSCP, Protocol: 48, Priority: 6}}, d.Apps.Source())
			}),
			want: defaultMap, after: defaultMap,
		},
		{
			name: "other drivers map nothing by themselves", edit: dcb(func(d *node.DCBState) {
				d.Driver = "bnxt_en"
				d.Apps = node.Known([]dcbnl.App{{Selector: dcbnl.DatagramPort, Protocol: 4791, Priority: 3}, {Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}, {Selector: dcbnl.DSCP, Protocol: 48, Priority: 6}}, d.Apps.Source())
			}),
		},
		{
			name: "two priorities of one DSCP, and notification in the lossless class", edit: dcb(func(d *node.DCBState) {
				d.Driver = "bnxt_en"
				d.Apps = node.Known([]dcbnl.App{{Selector: dcbnl.DSCP, Protocol: 26, Priority: 2}, {Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}, {Selector: dcbnl.DSCP, Protocol: 48, Priority: 3}}, d.Apps.Source())
			}),
			want: "!drift roce.cnp_map " + rail + " " + netlink + "\n!drift roce.dscp_map " + rail + " " + netlink + "\nstep set-dscp-map:" + rail,
			says: []string{"maps DSCP 26 to 2 and 3, wanted is priority 3", "maps DSCP 48 to 3, wanted is priority 6"},
		},
		{
			name: "the firmware of mlx5 owns DCBX", edit: dcb(func(d *node.DCBState) { d.DCBX = node.Known(dcbnl.DCBXIEEE|dcbnl.DCBXCEE, d.DCBX.Source()) }),
			want: "!drift roce.dcbx " + rail + " " + netlink + "\nstep set-dcbx:" + rail, says: []string{"DCBX of 0000:1a:00.0 (rail0) is cee ieee, wanted is that the host owns it"},
		},
		{
			name: "the firmware of bnxt owns DCBX", edit: dcb(func(d *node.DCBState) {
				d.Driver, d.DCBX, d.PFC = "bnxt_en", node.Known(dcbnl.DCBXLLDManaged|dcbnl.DCBXIEEE, d.DCBX.Source()), node.Known(dcbnl.PFC{}, d.PFC.Source())
			}),
			want:  "conflict roce.dcbx " + rail + " " + netlink + "\ndrift roce.pfc " + rail + " " + netlink,
			after: "conflict roce.dcbx " + rail + " " + netlink + "\ndrift roce.pfc " + rail + " " + netlink,
			says:  []string{"niccli", "busbar does not set it: the firmware owns DCBX"},
		},
		{
			name: "the switch drives DCBX", arguments: `dcbx = "firmware"`, edit: dcb(func(d *node.DCBState) {
				d.DCBX, d.PFC = node.Known(dcbnl.DCBXIEEE, d.DCBX.Source()), node.Known(dcbnl.PFC{}, d.PFC.Source())
			}),
			want: "drift roce.pfc " + rail + " " + netlink, after: "drift roce.pfc " + rail + " " + netlink, says: []string{"busbar does not set it: the switch sets it"},
		},
		{
			name: "the switch is to drive DCBX", arguments: `dcbx = "firmware"`, want: "!drift roce.dcbx " + rail + " " + netlink + "\nstep set-dcbx:" + rail,
		},
		{
			name: "nothing is known of DCBX", edit: dcb(func(d *node.DCBState) {
				d.DCBX = node.Unsupported[dcbnl.DCBX]("the driver has no such operation", d.DCBX.Source())
			}),
			want: "unsupported roce.dcbx " + rail + " " + netlink, after: "unsupported roce.dcbx " + rail + " " + netlink,
		},
		{
			name: "a driver without DCB", edit: func(s *plantest.PortState) {
				s.DCB = node.Unsupported[node.DCBState]("the driver has no DCB operations for rail0", s.DCB.Source())
			},
			want: "unsupported roce.dcb " + rail + " " + netlink, after: "unsupported roce.dcb " + rail + " " + netlink,
		},
		{
			name: "PFC missing", edit: dcb(func(d *node.DCBState) {
				d.PFC = node.Unsupported[dcbnl.PFC]("the driver has no such operation", d.PFC.Source())
			}),
			want: "unsupported roce.pfc " + rail + " " + netlink, after: "unsupported roce.pfc " + rail + " " + netlink,
		},
		{
			name: "nothing could be read", edit: func(s *plantest.PortState) {
				s.DCB = node.Unknown[node.DCBState]("operation not permitted", s.DCB.Source())
				s.Flow.Pause, s.Link.MTU = node.Value[ethtool.Pause]{}, node.Value[int]{}
				s.RoCE.DefaultMode, s.RoCE.TrafficClass, s.RoCE.CNPPriority = node.Value[string]{}, node.Value[node.TrafficClass]{}, node.Value[int]{}
			},
			want:  "unknown roce.cnp " + rail + " ()\nunknown roce.dcb " + rail + " " + netlink + "\nunknown roce.mtu " + rail + " ()\nunknown roce.pause " + rail + " ()\nunknown roce.tos " + rail + " ()\nunknown roce.traffic_class " + rail + " ()",
			after: "unknown roce.cnp " + rail + " ()\nunknown roce.dcb " + rail + " " + netlink + "\nunknown roce.mtu " + rail + " ()\nunknown roce.pause " + rail + " ()\nunknown roce.tos " + rail + " ()\nunknown roce.traffic_class " + rail + " ()",
		},
		{
			name: "no reaction point", edit: func(s *plantest.PortState) { s.RoCE.ReactionPoint = node.Known(dcbnl.Priorities(1), node.Source{}) },
			want: "!drift roce.ecn " + rail + " (/sys/class/net/rail0/ecn/roce_np/enable)\nstep set-ecn:" + rail, says: []string{"notification point 3, reaction point 0"},
		},
		{
			name: "congestion control for all priorities", edit: func(s *plantest.PortState) {
				s.RoCE.ReactionPoint, s.RoCE.NotificationPoint = node.Known(dcbnl.Priorities(255), node.Source{}), node.Known(dcbnl.Priorities(255), node.Source{})
			},
		},
		{
			name: "notification elsewhere", edit: func(s *plantest.PortState) { s.RoCE.CNPDSCP = node.Known(4, node.Source{}) },
			want: "!drift roce.cnp " + rail + " ()\nstep set-cnp:" + rail, says: []string{"has DSCP 4, priority 6, wanted is DSCP 48, priority 6"},
		},
		{
			name: "no traffic class", edit: func(s *plantest.PortState) {
				s.RoCE.TrafficClass = node.Known(node.TrafficClass{Global: -1}, node.Source{})
			},
			want: "!drift roce.traffic_class " + rail + " ()\nstep set-traffic-class:" + rail, says: []string{"is none, wanted is 104 (DSCP 26)"},
		},
		{
			name: "another ToS", edit: func(s *plantest.PortState) { s.RoCE.DefaultToS = node.Known(0, node.Source{}) },
			want: "!drift roce.tos " + rail + " ()\nstep set-connection-defaults:" + rail, says: []string{"get ToS 0 (DSCP 0), RoCE v2, wanted is ToS 104 (DSCP 26), RoCE v2"},
		},
		{name: "bits of ECN make no other DSCP", edit: func(s *plantest.PortState) { s.RoCE.DefaultToS = node.Known(106, node.Source{}) }},
		{
			name: "RoCE v1", edit: func(s *plantest.PortState) { s.RoCE.DefaultMode = node.Known(node.GIDRoCEv1, node.Source{}) },
			says: []string{"get ToS 104 (DSCP 26), IB/RoCE v1, wanted is ToS 104 (DSCP 26), RoCE v2"},
			want: "!drift roce.tos " + rail + " (/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos)\nstep set-connection-defaults:" + rail,
		},
		{
			name: "the directory was never made", edit: unset, want: "!drift roce.tos " + rail + " ()\nstep set-connection-defaults:" + rail,
		},
		{
			name: "rdma_cm is not loaded", edit: unset, more: []node.Answer{module(false, "/lib/modules/rdma_cm.ko")},
			want: "!drift roce.tos " + rail + " ()\nstep load-module:rdma_cm\nstep set-connection-defaults:" + rail,
		},
		{
			name: "rdma_cm is not installed", edit: unset, more: []node.Answer{module(false, "")},
			want: "drift roce.tos " + rail + " ()", after: "drift roce.tos " + rail + " ()", says: []string{"install module rdma_cm"},
		},
		{
			name: "whether rdma_cm is loaded is unknown", edit: unset, more: []node.Answer{node.Module.Answer("rdma_cm", node.Unknown[node.ModuleState]("permission denied", node.Source{}))},
			want: "drift roce.tos " + rail + " ()", after: "drift roce.tos " + rail + " ()", says: []string{"permission denied"},
		},
		{
			name: "lldpad", more: []node.Answer{unit("lldpad.service", "enabled", "active"), unit("lldpad.socket", "disabled", "active")},
			edit: dcb(func(d *node.DCBState) { d.PFC = node.Known(dcbnl.PFC{}, d.PFC.Source()) }),
			want: "!drift roce.agent lldpad.service ()\n!drift roce.agent lldpad.socket ()\n!drift roce.pfc " + rail + " " + netlink +
				"\nstep set-unit:lldpad.service\nstep set-unit:lldpad.socket\nstep set-pfc:" + rail + "\nstep await-links:links",
		},
		{
			name: "lldpad that the next boot starts", more: []node.Answer{unit("lldpad.service", "enabled", "inactive")},
			want: "!drift roce.agent lldpad.service ()\nstep set-unit:lldpad.service",
		},
		{name: "lldpad that nothing starts", more: []node.Answer{unit("lldpad.service", "masked", "failed"), unit("fcoe.service", "disabled", "inactive")}},
		{name: "lldpad where the switch drives DCBX", arguments: `dcbx = "firmware"`, edit: dcb(func(d *node.DCBState) { d.DCBX = node.Known(dcbnl.DCBX(0), d.DCBX.Source()) }), more: []node.Answer{unit("lldpad.service", "enabled", "active")}},
		{
			name: "disks need lldpad", more: []node.Answer{unit("lldpad.service", "enabled", "active"), unit("fcoe.service", "enabled", "active")},
			want: "conflict roce.agent fcoe.service ()\ndrift roce.agent lldpad.service ()", after: "conflict roce.agent fcoe.service ()\ndrift roce.agent lldpad.service ()",
		},
		{
			name: "systemd is not asked", more: []node.Answer{
				node.Unit.Answer("lldpad.socket", node.Unknown[node.UnitState]("no D-Bus", node.Source{})),
				node.Unit.Answer("lldpad.service", node.Known(node.UnitState{Load: "loaded", Active: node.Unknown[string]("no D-Bus", node.Source{})}, node.Source{})),
			},
			want:  "unknown roce.agent lldpad.service ()\nunknown roce.agent lldpad.socket ()",
			after: "unknown roce.agent lldpad.service ()\nunknown roce.agent lldpad.socket ()",
		},
		{
			name: "no RDMA device", edit: func(s *plantest.PortState) {
				s.RoCE.TrafficClass = node.Awaiting[node.TrafficClass]("the NIC has no RDMA device", node.CapabilityRDMA, node.Source{})
				s.RoCE.DefaultToS = node.Awaiting[int]("the NIC has no RDMA device", node.CapabilityRDMA, node.Source{})
			},
			want: "unknown roce.tos " + rail + " ()\nunknown roce.traffic_class " + rail + " ()", after: "unknown roce.tos " + rail + " ()\nunknown roce.traffic_class " + rail + " ()",
		},
		{
			name: "inbox", edit: inbox,
			want: "unsupported roce.cnp " + rail + " (/sys/class/net/rail0/ecn/roce_np/cnp_dscp)\nunsupported roce.ecn " + rail + " (/sys/class/net/rail0/ecn/roce_np/enable)\n" +
				"unsupported roce.traffic_class " + rail + " (/sys/class/infiniband/mlx5_0/tc/1/traffic_class)",
			after: "unsupported roce.cnp " + rail + " (/sys/class/net/rail0/ecn/roce_np/cnp_dscp)\nunsupported roce.ecn " + rail + " (/sys/class/net/rail0/ecn/roce_np/enable)\n" +
				"unsupported roce.traffic_class " + rail + " (/sys/class/infiniband/mlx5_0/tc/1/traffic_class)",
			says: []string{"ROCE_CC_PRIO_MASK_P1", "CNP_DSCP_P1", "NCCL_IB_TC"},
		},
		{
			name: "inbox with congestion control parameters", edit: func(s *plantest.PortState) {
				inbox(s)
				s.RoCE.CCParams = node.Known(map[string]uint32{"np_cnp_dscp": 0, "np_cnp_prio": 6, "np_cnp_prio_mode": 1}, node.Source{Path: "/cc"})
			},
			want: "!drift roce.cnp " + rail + " (/cc/np_cnp_dscp)\nunsupported roce.ecn " + rail + " (/sys/class/net/rail0/ecn/roce_np/enable)\n" +
				"unsupported roce.traffic_class " + rail + " (/sys/class/infiniband/mlx5_0/tc/1/traffic_class)\nstep set-cnp:" + rail,
			after: "unsupported roce.ecn " + rail + " (/sys/class/net/rail0/ecn/roce_np/enable)\nunsupported roce.traffic_class " + rail + " (/sys/class/infiniband/mlx5_0/tc/1/traffic_class)",
			says:  []string{"has DSCP 0, no priority of their own"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, block(tt.arguments, rail), facts(tt.edit, tt.more...), tt.want, tt.after, tt.says...)
		})
	}
}

func unset(s *plantest.PortState) {
	s.RoCE.DefaultToS = node.Awaiting[int]("it can only be read in a directory that nobody has made", node.CapabilityRDMACM, node.Source{})
	s.RoCE.DefaultMode = node.UnknownLike[string](s.RoCE.DefaultToS)
}

func module(loaded bool, file string) node.Answer {
	return node.Module.Answer("rdma_cm", node.Known(node.ModuleState{Loaded: loaded, Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: file}}}, node.Source{}))
}

func unit(name, file, active string) node.Answer {
	return node.Unit.Answer(name, node.Known(node.UnitState{Load: "loaded", File: file, Active: node.Known(active, node.Source{})}, node.Source{}))
}

// A port on which everything is wrong is put right in the order that is safe, port by port, and links are waited for once.
func TestOrder(t *testing.T) {
	wrong := func(s plantest.PortState) []node.Answer {
		s = s.Change(func(d *node.DCBState) {
			d.DCBX, d.PFC = node.Known(dcbnl.DCBXIEEE, d.DCBX.Source()), node.Known(dcbnl.PFC{}, d.PFC.Source())
			d.Trust, d.Apps = node.Known(node.TrustPCP, d.Trust.Source()), node.Known([]dcbnl.App{}, d.Apps.Source())
		})
		s.Link.MTU, s.Flow.Pause, s.Flow.PFCStormPrevention = node.Known(1500, node.Source{}), node.Known(ethtool.Pause{Rx: true, Tx: true}, node.Source{}), node.Known(0, node.Source{})
		s.RoCE.NotificationPoint, s.RoCE.CNPPriority, s.RoCE.TrafficClass = node.Known(dcbnl.Priorities(0), node.Source{}), node.Known(0, node.Source{}), node.Known(node.TrafficClass{Global: -1}, node.Source{})
		unset(&s)
		return s.Answers()
	}
	answers := append(wrong(rail()), wrong(plantest.Lossless(plantest.SecondRail, "rail1", "mlx5_1"))...)
	f := plantest.PortNode(append(answers, module(false, "/x.ko"), unit("lldpad.service", "enabled", "active"))...)
	blocks := "link \"rails\" {\nnics = [{ address = \"" + plantest.SecondRail + "\" }, { address = \"" + plantest.Rail + "\" }]\nmtu = 9000\nup = true\n}\n" +
		block("storm_prevention = 8000", plantest.SecondRail, plantest.Rail)
	first, second, _ := plantest.Settle(t, types, plantest.Blocks(t, types, blocks), f)
	var got []string
	for _, s := range first.Steps {
		got = append(got, fmt.Sprintf("%s %s", s.ID, s.Effect))
	}
	want := []string{"load-module:rdma_cm live", "set-unit:lldpad.service service-restart"}
	for _, nic := range []string{plantest.Rail, plantest.SecondRail} {
		want = append(want, "set-dcbx:"+nic+" live", "set-pause:"+nic+" live", "set-storm-prevention:"+nic+" live", "set-link:"+nic+" link-bounce", "set-dscp-map:"+nic+" live", "set-pfc:"+nic+" link-bounce")
	}
	want = append(want, "await-links:links live")
	for _, kind := range []string{"set-cnp", "set-connection-defaults", "set-ecn", "set-traffic-class"} {
		want = append(want, kind+":"+plantest.Rail+" live", kind+":"+plantest.SecondRail+" live")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if left := notOK(second); !slices.Equal(left, []string{"drift info roce.dscp_default nics (rtnetlink RTM_GETDCB)"}) {
		t.Errorf("left: %q", left)
	}
	for _, s := range first.Steps {
		if wait, ok := s.Action.(plan.AwaitLinks); ok {
			if diff := cmp.Diff([]plan.AwaitedPort{{NIC: plantest.Rail, RDMA: "mlx5_0/1", GID: true}, {NIC: plantest.SecondRail, RDMA: "mlx5_1/1", GID: true}}, wait.Ports); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// Ports that are no rails.
func TestOtherPorts(t *testing.T) {
	noPFC := func(s *plantest.PortState) {
		*s = s.Change(func(d *node.DCBState) { d.PFC = node.Known(dcbnl.PFC{}, d.PFC.Source()) })
	}
	const netlink = "(rtnetlink RTM_GETDCB)"
	front, storage := plantest.Lossless(plantest.Front, "eno1", "mlx5_9"), plantest.Lossless(plantest.BondPort, "storage0", "mlx5_8")
	noPFC(&front)
	noPFC(&storage)
	vf := plantest.Lossless(plantest.VF, "rail0v0", "mlx5_2")
	vf.DCB = node.Unsupported[node.DCBState]("the driver has no DCB operations for rail0v0", vf.DCB.Source())
	vf.Link.MTU, vf.RoCE.DefaultToS = node.Known(1500, node.Source{}), node.Known(0, node.Source{})
	frontFacts := plantest.PortNode(front.Answers()...)
	unprotected := frontFacts.Inventory
	unprotected.Protected = node.Unknown[[]node.ProtectedNetdev]("no default route", node.Source{})
	infiniband := facts(nil).Inventory
	infiniband.RDMA = node.Known([]node.RDMADevice{{Name: "mlx5_0", PCI: plantest.Rail, Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", node.Source{})}}}}, node.Source{})
	guest := facts(nil).Inventory
	guest.Virtualization = node.Known("kvm", node.Source{})
	noDCB := func(s *plantest.PortState) {
		s.DCB = node.Unsupported[node.DCBState]("the driver has no DCB operations for rail0", s.DCB.Source())
		s.Flow.Pause = node.Known(ethtool.Pause{}, node.Source{})
	}
	root, unknown := facts(nil).Inventory, facts(nil).Inventory
	root.RootDirectory = true
	unknown.PCI = node.Unknown[[]node.PCIFunction]("permission denied", node.Source{})
	for _, tt := range []struct {
		name, blocks string
		facts        node.Facts
		want, after  string
		says         []string
	}{
		{"protected", block("", plantest.Front), frontFacts, "drift roce.pfc " + plantest.Front + " " + netlink, "drift roce.pfc " + plantest.Front + " " + netlink, []string{"0000:01:00.0 is not touched: it is protected: eno1, carries the default route; allow_protected = true"}},
		{"protected and allowed", block("allow_protected = true", plantest.Front), frontFacts, "!drift roce.pfc " + plantest.Front + " " + netlink + "\nstep set-pfc:" + plantest.Front + "\nstep await-links:links", "", nil},
		{"no protected NIC known", block("", plantest.Front), frontFacts.WithInventory(unprotected), "drift roce.pfc " + plantest.Front + " " + netlink, "drift roce.pfc " + plantest.Front + " " + netlink, []string{"whether it is protected is unknown: no default route"}},
		{"a virtual function", block("", plantest.VF), plantest.PortNode(vf.Answers()...),
			"!drift roce.mtu " + plantest.VF + " ()\n!drift roce.tos " + plantest.VF + " ()\nskipped roce.virtual_function " + plantest.VF + " ()\nstep set-link:" + plantest.VF + "\nstep await-links:links\nstep set-connection-defaults:" + plantest.VF,
			"skipped roce.virtual_function " + plantest.VF + " ()", []string{"those of its physical function 0000:1a:00.0"}},
		{"a port of a bond", block("", plantest.BondPort), plantest.PortNode(storage.Answers()...),
			"skipped roce.mtu " + plantest.BondPort + " ()\n!drift roce.pfc " + plantest.BondPort + " " + netlink + "\nstep set-pfc:" + plantest.BondPort + "\nstep await-links:links", "skipped roce.mtu " + plantest.BondPort + " ()",
			[]string{"its MTU is that of bond1"}},
		{"InfiniBand", block("", plantest.Rail), facts(noPFC).WithInventory(infiniband), "skipped roce.infiniband " + plantest.Rail + " ()", "skipped roce.infiniband " + plantest.Rail + " ()", nil},
		{"in a virtual machine", block("", plantest.Rail), facts(noDCB).WithInventory(guest), "skipped roce.dcb " + plantest.Rail + " ()", "skipped roce.dcb " + plantest.Rail + " ()", []string{"the host of this virtual machine sets DCB"}},
		{"no such NIC", block("", "0000:99:00.0"), facts(nil), "drift roce.nics 0000:99:00.0 (/sys/bus/pci/devices)", "drift roce.nics 0000:99:00.0 (/sys/bus/pci/devices)", nil},
		{"the bus unknown", block("", plantest.Rail), facts(nil).WithInventory(unknown), "unknown roce.nics " + plantest.Rail + " ()", "unknown roce.nics " + plantest.Rail + " ()", nil},
		{"no NIC", block(""), facts(nil), "drift roce.nics  (node.hcl:2)", "drift roce.nics  (node.hcl:2)", nil},
		{"a directory tree", block("", plantest.Rail), facts(noPFC).WithInventory(root), "skipped roce.nics  ()", "skipped roce.nics  ()", nil},
	} {
		t.Run(tt.name, func(t *testing.T) { check(t, tt.blocks, tt.facts, tt.want, tt.after, tt.says...) })
	}
}

// What the module that makes RDMA devices provides is deferred.
func TestDeferred(t *testing.T) {
	f := facts(func(s *plantest.PortState) {
		s.RoCE.DefaultToS = node.Awaiting[int]("the NIC has no RDMA device", node.CapabilityRDMA, node.Source{})
	}, node.Module.Answer("mlx5_ib", node.Known(node.ModuleState{Kernels: []node.ModuleOnDisk{{Release: plantest.Kernel, Path: "/x.ko"}}}, node.Source{})))
	blocks := plantest.Blocks(t, types, block("", plantest.Rail)+"\nkernel_module \"mlx5_ib\" {\nstate = \"loaded\"\nboot = \"unmanaged\"\n}")
	p := plantest.Planner(types).Plan(blocks, f)
	if len(p.Deferred) != 1 || p.Deferred[0].Unlocks != "load-module:mlx5_ib" || p.Deferred[0].Ceiling != plan.LinkBounce {
		t.Errorf("%+v\n%s", p.Deferred, plantest.Summarize(p))
	}
}

// What a driver may lack is tolerated by name.
func TestOptional(t *testing.T) {
	blocks := plantest.Blocks(t, types, block("", plantest.Rail))
	blocks[0].Optional = []string{"ecn", "cnp", "traffic_class"}
	if p := plantest.Planner(types).Plan(blocks, facts(inbox)); p.ExitCode() != plan.ExitOK || len(p.Steps) > 0 {
		t.Errorf("exit code %d:\n%s", p.ExitCode(), plantest.Summarize(p))
	}
	blocks[0].Optional = []string{"ecn"}
	if p := plantest.Planner(types).Plan(blocks, facts(inbox)); p.ExitCode() != plan.ExitDrift {
		t.Errorf("exit code %d:\n%s", p.ExitCode(), plantest.Summarize(p))
	}
}

func TestValidate(t *testing.T) {
	lossless := func(numbers string) string { return "roce \"r\" {\nnics = []\nlossless = { " + numbers + " }\n}" }
	for _, tt := range []struct {
		name, block string
		optional    []string
		want        []string
	}{
		{"sound", block("", plantest.Rail), []string{"ecn", "tos"}, nil},
		{"no priority", lossless("priority = 8, dscp = 26, cnp_priority = 9, cnp_dscp = 48"), nil, []string{"lossless.priority: no priority", "lossless.cnp_priority: no priority"}},
		{"one priority", lossless("priority = 3, dscp = 26, cnp_priority = 3, cnp_dscp = 48"), nil, []string{"lossless.cnp_priority: congestion notification is in the lossless class"}},
		{"one DSCP", lossless("priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 26"), nil, []string{"lossless.cnp_dscp: congestion notification is in the lossless class"}},
		{"a name", block("", "eth0"), nil, []string{"nics.: no NIC"}},
		{"optional", block("", plantest.Rail), []string{"lossless"}, []string{".: nothing that a driver may lack"}},
		{"the MTU of Ethernet", strings.Replace(block(""), "9000", "1500", 1), nil, []string{"mtu.: an InfiniBand MTU of 4096 does not fit"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := plantest.Blocks(t, types, tt.block)[0]
			b.Optional = tt.optional
			var got []string
			for _, p := range (roce.Type{}).Validate(b) {
				got = append(got, fmt.Sprintf("%s.%s: %s", p.Attribute, p.Key, p.Summary))
				if strings.Contains(p.Summary, "MTU") && (!p.Warning || !strings.Contains(p.Detail, "an InfiniBand MTU of 1024")) {
					t.Errorf("%+v", p)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without a node there are no ports, and what is withheld is judged nowhere.
func TestWithheld(t *testing.T) {
	b := plantest.Blocks(t, types, block("", plantest.Rail))[0]
	class := b.Attributes["lossless"].AsValueMap()
	class["priority"], class["dscp"], class["cnp_dscp"] = cty.NullVal(cty.Number), cty.NullVal(cty.Number), cty.NullVal(cty.Number)
	b.Attributes["lossless"] = cty.ObjectVal(class)
	p := plantest.Planner(types).Plan([]plan.Block{b}, facts(dcb(func(d *node.DCBState) { d.PFC = node.Known(dcbnl.PFC{}, d.PFC.Source()) })))
	if left := notOK(p); len(left) > 0 {
		t.Errorf("%q", left)
	}
	b.Attributes["nics"] = cty.NullVal(b.Attributes["nics"].Type())
	if p := plantest.Planner(types).Plan([]plan.Block{b}, node.Facts{}); len(p.Findings) > 0 || len(p.Steps) > 0 {
		t.Errorf("%s", plantest.Summarize(p))
	}
}
