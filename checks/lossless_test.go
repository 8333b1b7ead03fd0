package checks_test

import (
	"slices"
	"strings"
	"testing"

	"busbar/checks"
	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// classes is a summary of check "lossless": every knob of both rails is ok but those in not, ID ADDRESS to STATUS.
func classes(not map[string]string) string {
	var lines []string
	for _, id := range []string{"cnp_dscp", "cnp_map", "cnp_priority", "dscp_map", "nccl", "notification_point", "pause", "pfc", "reaction_point", "tos", "traffic_class", "trust"} {
		targets := []string{"0000:14:00.0", "0000:24:00.0"}
		source := "(/sys)"
		if id == "nccl" {
			targets, source = []string{"NCCL_IB_TC"}, "(/etc/nccl.conf:1)"
		}
		for _, target := range targets {
			status, told := not[id+" "+target]
			for all, s := range not {
				if all == id {
					status, told = s, true
				}
			}
			switch {
			case !told:
				lines = append(lines, "ok lossless."+id+" "+target+" "+source)
			case strings.HasSuffix(status, ")"):
				word, where, _ := strings.Cut(status, " (")
				lines = append(lines, word+" lossless."+id+" "+target+" ("+where)
			case status != "":
				lines = append(lines, status+" lossless."+id+" "+target+" "+source)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestLossless(t *testing.T) {
	derived := `check "lossless" "all" {}`
	stated := `check "lossless" "all" { lossless = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 } }`
	const two = " 0000:24:00.0"
	tc := ncclConf("NCCL_IB_TC=104\n")
	unset := map[string]string{"nccl": "drift (/etc/nccl.conf)"}
	pfc := func(p dcbnl.Priorities) func(*rail) {
		return func(r *rail) { r.dcb.PFC = known(dcbnl.PFC{Capacity: 8, Enabled: p}) }
	}
	mapDSCP := func(dscp uint16, priorities ...uint8) func(*rail) {
		return func(r *rail) {
			apps, _ := r.dcb.Apps.Get()
			apps = slices.DeleteFunc(slices.Clone(apps), func(a dcbnl.App) bool { return a.Protocol == dscp })
			for _, p := range priorities {
				apps = append(apps, dcbnl.App{Selector: dcbnl.DSCP, Protocol: dscp, Priority: p})
			}
			r.dcb.Apps = known(apps)
		}
	}
	inbox := both(func(r *rail) {
		r.roce.NotificationPoint, r.roce.ReactionPoint, r.roce.TrafficClass = lacking[dcbnl.Priorities](), lacking[dcbnl.Priorities](), lacking[node.TrafficClass]()
		r.roce.CNPDSCP, r.roce.CNPPriority = lacking[int](), lacking[int]()
		r.roce.CCParams = known(map[string]uint32{"np_cnp_dscp": 48, "np_cnp_prio": 6, "np_cnp_prio_mode": 0})
	})
	onInbox := func(more map[string]string) map[string]string {
		m := map[string]string{"notification_point": "skipped ()", "reaction_point": "skipped ()", "traffic_class": "skipped ()"}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("as stated, 104 and 106 are one DSCP", stated, rails().With(tc), classes(nil), "NCCL_IB_TC is 104, DSCP 26"),
		judge("all agree", derived, rails().With(tc), classes(nil)),
		judge("the driver of the kernel: no switch per priority", derived, rails(inbox).With(tc), classes(onInbox(nil)), "ECN of mlx5_1/1 (0000:14:00.0) is not judged: the driver has none"),
		judge("notification packets take the priority of what they answer", derived, rails(inbox, both(func(r *rail) {
			r.roce.CCParams = known(map[string]uint32{"np_cnp_dscp": 48, "np_cnp_prio": 6, "np_cnp_prio_mode": 1})
		})).With(tc), classes(onInbox(map[string]string{"cnp_priority": "skipped ()", "cnp_map": ""}))),
		judge("all agree on another class", stated, rails(both(pfc(1<<4)), both(mapDSCP(26, 4)), both(func(r *rail) {
			r.roce.NotificationPoint, r.roce.ReactionPoint = known(dcbnl.Priorities(1<<4)), known(dcbnl.Priorities(1<<4))
		})).With(tc), classes(map[string]string{"pfc": "drift", "dscp_map": "drift", "notification_point": "drift", "reaction_point": "drift"})),
		judge("an application sets no traffic class: all RoCE in DSCP 0", derived, rails(), classes(unset), "NCCL_IB_TC is not set, and NCCL marks its traffic with DSCP 0\nset NCCL_IB_TC=104 in /etc/nccl.conf"),
		judge("the traffic class of the NICs does not reach NCCL's", derived, rails().With(ncclConf("NCCL_IB_TC=236\n")), classes(map[string]string{"nccl": "drift"}), "NCCL_IB_TC is 236, DSCP 59, wanted is DSCP 26, as elsewhere on the node"),
		judge("quotes make DSCP 0", derived, rails().With(ncclConf("NCCL_IB_TC=\"104\"\n")), classes(map[string]string{"nccl": "drift"})),
		judge("nothing marks at all", derived, rails(both(func(r *rail) { r.roce.DefaultToS, r.roce.TrafficClass = known(0), known(node.TrafficClass{Global: -1}) })),
			classes(map[string]string{"nccl": "drift (/etc/nccl.conf)", "tos": "drift", "traffic_class": "skipped ()", "dscp_map": ""}), "wanted is the DSCP of a lossless class"),
		judge("one direction with DSCP 0", derived, rails(second(func(r *rail) { r.roce.TrafficClass, r.roce.DefaultToS = known(node.TrafficClass{}), known(0) })).With(tc),
			classes(map[string]string{"traffic_class" + two: "drift", "tos" + two: "drift"})),
		judge("a lossy fabric: no PFC, no class", derived, rails(both(pfc(0))).With(tc),
			classes(map[string]string{"pfc": "drift", "dscp_map": "", "notification_point": "", "reaction_point": ""}), "has PFC on for priority none, wanted is one priority"),
		judge("PFC on for two priorities", derived, rails(second(pfc(1<<3|1<<5))).With(tc), classes(map[string]string{"pfc" + two: "drift"}), "has PFC on for priority 3,5, wanted is 3, as elsewhere on the node"),
		judge("the DSCP goes elsewhere", derived, rails(second(mapDSCP(26, 0))).With(tc), classes(map[string]string{"dscp_map" + two: "drift"}), "maps DSCP 26 to priority [0], wanted is priority 3"),
		judge("two priorities for one DSCP", derived, rails(second(mapDSCP(26, 3, 4))).With(tc), classes(map[string]string{"dscp_map" + two: "drift"})),
		judge("the map does not list the DSCP", derived, rails(second(mapDSCP(26))).With(tc), classes(map[string]string{"dscp_map" + two: "unknown"}), "dcb app add dev eth2 dscp-prio 26:3"),
		judge("the map does not have the DSCP", derived, rails(second(mapDSCP(26)), second(func(r *rail) { r.dcb.Driver = "bnxt_en" })).With(tc), classes(map[string]string{"dscp_map" + two: "drift"}), "does not map DSCP 26"),
		judge("the port trusts VLAN tags", derived, rails(second(func(r *rail) { r.dcb.Trust = known(node.TrustPCP) })).With(tc), classes(map[string]string{"trust" + two: "drift"}), "trusts pcp, wanted is dscp"),
		judge("the map of a port that trusts VLAN tags does not count", derived, rails(second(func(r *rail) { r.dcb.Trust = known(node.TrustPCP) }), second(mapDSCP(26))).With(tc),
			classes(map[string]string{"trust" + two: "drift", "dscp_map" + two: "skipped ()"}), "the map of DSCP 26 of mlx5_2/1 (0000:24:00.0) is not judged: the port trusts pcp"),
		judge("pause beside PFC", derived, rails(second(func(r *rail) { r.flow.Pause = known(ethtool.Pause{Rx: true}) })).With(tc), classes(map[string]string{"pause" + two: "drift"}), "ethtool -A eth2 rx off tx off"),
		judge("ECN off for the class", derived, rails(second(func(r *rail) { r.roce.NotificationPoint = known(dcbnl.Priorities(0)) })).With(tc), classes(map[string]string{"notification_point" + two: "drift"})),
		judge("notification packets in the lossless class", derived, rails(both(func(r *rail) { r.roce.CNPPriority = known(3) })).With(tc), classes(map[string]string{"cnp_priority": "drift", "cnp_map": "drift"}), "is 3, the lossless one"),
		judge("notification packets of two rails differ: the lower number is held against both", derived, rails(second(func(r *rail) { r.roce.CNPDSCP = known(4) })).With(tc), classes(map[string]string{"cnp_dscp 0000:14:00.0": "drift", "cnp_map": "drift"})),
		judge("a virtual function has no DCB", derived, rails(both(func(r *rail) { r.unread[node.DCB.Name()] = true })).With(tc,
			node.DCB.Answer("0000:14:00.0", lacking[node.DCBState]()), node.DCB.Answer("0000:24:00.0", lacking[node.DCBState]())),
			classes(map[string]string{"pfc": "unsupported", "trust": "unsupported", "dscp_map": "unsupported", "cnp_map": "", "notification_point": "", "reaction_point": ""})),
		judge("InfiniBand", derived, rails(second(func(r *rail) { r.device.Ports[0].LinkLayer = known("InfiniBand") })).With(tc), strings.ReplaceAll(notSecond(classes(nil)), "ok lossless.reaction", "drift lossless.pfc 0000:24:00.0 (/sys)\nok lossless.reaction")),
		judge("the default ToS cannot be read", derived, rails(second(func(r *rail) { r.roce.DefaultToS = denied[int]() })).With(tc), classes(map[string]string{"tos" + two: "unknown info"})),
		judge("a rail that cannot be read may have said otherwise", derived, rails(second(func(r *rail) { r.dcb.PFC, r.roce.TrafficClass = denied[dcbnl.PFC](), denied[node.TrafficClass]() })).With(tc), classes(map[string]string{
			"pfc": "unknown", "cnp_priority": "unknown", "traffic_class": "unknown", "nccl": "unknown (/etc/nccl.conf:1)", "tos": "unknown", "notification_point": "unknown", "reaction_point": "unknown", "dscp_map": "unknown",
		}), "since not everything could be read"),
		judge("a rail that cannot be read, the class is stated", stated, rails(second(func(r *rail) { r.dcb.PFC = denied[dcbnl.PFC]() })).With(tc), classes(map[string]string{"pfc" + two: "unknown"})),
		judge("the default ToS alone says the DSCP", derived, rails(both(func(r *rail) { r.roce.TrafficClass = lacking[node.TrafficClass]() })), classes(map[string]string{"nccl": "drift (/etc/nccl.conf)", "traffic_class": "skipped ()"})),
		judge("nothing asked", derived, rails(both(func(r *rail) {
			r.unread[node.DCB.Name()], r.unread[node.RoCE.Name()], r.unread[node.FlowControl.Name()] = true, true, true
		})).With(node.File.Answer("/etc/nccl.conf", denied[node.FileState]())), strings.ReplaceAll(classes(map[string]string{
			"cnp_dscp": "unknown ()", "cnp_map": "", "cnp_priority": "unknown ()", "dscp_map": "unknown ()", "nccl": "unknown (/sys)", "notification_point": "unknown ()", "pause": "unknown ()",
			"pfc": "unknown ()", "reaction_point": "unknown ()", "tos": "unknown info ()", "traffic_class": "unknown ()", "trust": "unknown ()",
		}), "unknown info ()", "unknown info")),
	})
}

// notSecond is a summary without the second rail.
func notSecond(summary string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(summary, "\n"), func(line string) bool { return strings.Contains(line, "0000:24:00.0") }), "\n")
}

func TestLosslessValidate(t *testing.T) {
	for text, want := range map[string]int{
		`check "lossless" "a" {}`: 0,
		`check "lossless" "a" { lossless = { priority = 3, dscp = 26 } }`:                                  0,
		`check "lossless" "a" { lossless = { priority = 8, cnp_priority = 9 } }`:                           2,
		`check "lossless" "a" { lossless = { priority = 3, dscp = 26, cnp_priority = 3 } }`:                1,
		`check "rdma_port" "a" { firmware = "28.39" }`:                                                     0,
		`check "rdma_port" "a" {` + "\nboard_firmware = { B = \"x\", C = \"1..2\" }\nfirmware = \"v1\"\n}": 3,
	} {
		b := plantest.Blocks(t, checks.All(), text)[0]
		for _, c := range checks.All() {
			if v, ok := c.(plan.Validator); ok && c.Spec().Name == b.Type {
				if problems := v.Validate(b); len(problems) != want {
					t.Errorf("%s: %v", text, problems)
				}
			}
		}
	}
}
