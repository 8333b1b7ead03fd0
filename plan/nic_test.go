package plan_test

import (
	"encoding/json"
	"testing"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

func TestNICActions(t *testing.T) {
	rail := plan.NICPort{NIC: plantest.Rail}
	set := func(edit func(*plantest.PortState)) plantest.PortState {
		s := plantest.Lossless(plantest.Rail, "rail0", "mlx5_0")
		edit(&s)
		return s
	}
	dcb := func(edit func(*node.DCBState)) plantest.PortState {
		return plantest.Lossless(plantest.Rail, "rail0", "mlx5_0").Change(edit)
	}
	healthy := set(func(*plantest.PortState) {})
	gone := set(func(s *plantest.PortState) { s.Key = "0000:ff:00.0" })
	lossless := plan.SetDSCPMap{NICPort: rail, Map: []plan.DSCPPriority{{DSCP: 26, Priority: 3}, {DSCP: 48, Priority: 6}}}
	inbox := set(func(s *plantest.PortState) {
		s.RoCE.CNPDSCP, s.RoCE.CNPPriority = node.Unsupported[int]("none", node.Source{}), node.Unsupported[int]("none", node.Source{})
		s.RoCE.CCParams = node.Known(map[string]uint32{"np_cnp_dscp": 48, "np_cnp_prio": 6, "np_cnp_prio_mode": 1}, node.Source{Path: "/cc"})
	})
	for name, tt := range map[string]struct {
		port   plantest.PortState
		action plan.NICAction
		done   bool
		want   string // what is found, or "? " and why it cannot be told
	}{
		"MTU":                  {healthy, plan.SetLink{NICPort: rail, MTU: 4200}, false, "MTU 9000"},
		"MTU and up":           {healthy, plan.SetLink{NICPort: rail, MTU: 9000, State: "up"}, true, "MTU 9000, up"},
		"MTU and down":         {healthy, plan.SetLink{NICPort: rail, MTU: 9000, State: "down"}, false, "MTU 9000, up"},
		"MTU unknown":          {set(func(s *plantest.PortState) { s.Link.MTU = node.Value[int]{} }), plan.SetLink{NICPort: rail, MTU: 9000}, false, "? not recorded"},
		"up unknown":           {set(func(s *plantest.PortState) { s.Link.Up = node.Value[bool]{} }), plan.SetLink{NICPort: rail, State: "up"}, false, "? not recorded"},
		"no link":              {gone, plan.SetLink{NICPort: rail, MTU: 9000}, false, "? not recorded"},
		"DCBX":                 {healthy, plan.SetDCBX{NICPort: rail, Owner: plan.DCBXHost}, true, "host ieee"},
		"DCBX of another kind": {dcb(func(d *node.DCBState) { d.DCBX = node.Known(dcbnl.DCBXHost|dcbnl.DCBXCEE, node.Source{}) }), plan.SetDCBX{NICPort: rail, Owner: plan.DCBXHost}, false, "host cee"},
		"DCBX to the firmware": {healthy, plan.SetDCBX{NICPort: rail, Owner: plan.DCBXFirmware}, false, "host ieee"},
		"DCBX of the firmware": {dcb(func(d *node.DCBState) { d.DCBX = node.Known(dcbnl.DCBXLLDManaged|dcbnl.DCBXHost, node.Source{}) }), plan.SetDCBX{NICPort: rail, Owner: plan.DCBXFirmware}, true, "host lld-managed"},
		"DCBX unknown":         {dcb(func(d *node.DCBState) { d.DCBX = node.Unsupported[dcbnl.DCBX]("no such operation", node.Source{}) }), plan.SetDCBX{NICPort: rail, Owner: plan.DCBXHost}, false, "? no such operation"},
		"no DCB":               {gone, plan.SetDCBX{NICPort: rail, Owner: plan.DCBXHost}, false, "? not recorded"},
		"pause":                {set(func(s *plantest.PortState) { s.Flow.Pause = node.Known(ethtool.Pause{Rx: true}, node.Source{}) }), plan.SetPause{NICPort: rail}, false, "rx on, tx off"},
		"pause negotiated away": {set(func(s *plantest.PortState) {
			s.Flow.Pause = node.Known(ethtool.Pause{Autonegotiate: true}, node.Source{})
		}), plan.SetPause{NICPort: rail}, true, "rx off, tx off, autonegotiated"},
		"no pause":          {gone, plan.SetPause{NICPort: rail}, false, "? not recorded"},
		"storms":            {healthy, plan.SetStormPrevention{NICPort: rail, Milliseconds: 100}, false, "8000 ms"},
		"no storms":         {gone, plan.SetStormPrevention{NICPort: rail}, false, "? not recorded"},
		"map":               {healthy, lossless, true, "trust dscp"},
		"map without trust": {dcb(func(d *node.DCBState) { d.Trust = node.Known(node.TrustPCP, node.Source{}) }), lossless, false, "trust pcp"},
		"two priorities of one DSCP": {dcb(func(d *node.DCBState) {
			apps, _ := d.Apps.Get()
			d.Apps = node.Known(append([]dcbnl.App{{Selector: dcbnl.DSCP, Protocol: 26, Priority: 1}}, apps...), node.Source{})
		}), lossless, false, "dscp 26 to priority 1 and 3"},
		"an empty table":     {dcb(func(d *node.DCBState) { d.Apps = node.Known([]dcbnl.App{}, node.Source{}) }), lossless, false, "dscp 26 to priority of no entry"},
		"table unknown":      {dcb(func(d *node.DCBState) { d.Apps = node.Value[[]dcbnl.App]{} }), lossless, false, "? not recorded"},
		"trust unknown":      {dcb(func(d *node.DCBState) { d.Trust = node.Value[string]{} }), lossless, false, "? not recorded"},
		"no table":           {gone, lossless, false, "? not recorded"},
		"PFC":                {healthy, plan.SetPFC{NICPort: rail, Enabled: 1 << 4}, false, "priorities 3"},
		"no PFC":             {gone, plan.SetPFC{NICPort: rail, Enabled: 1 << 4}, false, "? not recorded"},
		"ECN":                {healthy, plan.SetECN{NICPort: rail, Priorities: 8}, true, "notification point 3, reaction point 3"},
		"ECN of another":     {healthy, plan.SetECN{NICPort: rail, Priorities: 4}, false, "notification point 3, reaction point 3"},
		"no reaction point":  {set(func(s *plantest.PortState) { s.RoCE.ReactionPoint = node.Value[dcbnl.Priorities]{} }), plan.SetECN{NICPort: rail, Priorities: 8}, false, "? not recorded"},
		"no notification":    {set(func(s *plantest.PortState) { s.RoCE.NotificationPoint = node.Value[dcbnl.Priorities]{} }), plan.SetECN{NICPort: rail, Priorities: 8}, false, "? not recorded"},
		"no ECN":             {gone, plan.SetECN{NICPort: rail, Priorities: 8}, false, "? not recorded"},
		"CNP":                {healthy, plan.SetCNP{NICPort: rail, DSCP: 40, Priority: 6}, false, "DSCP 48, priority 6"},
		"CNP inbox":          {inbox, plan.SetCNP{NICPort: rail, DSCP: 48, Priority: 6}, false, "DSCP 48, no priority of their own"},
		"no CNP":             {gone, plan.SetCNP{NICPort: rail, DSCP: 48, Priority: 6}, false, "? not recorded"},
		"no priority of CNP": {set(func(s *plantest.PortState) { s.RoCE.CNPPriority = node.Value[int]{} }), plan.SetCNP{NICPort: rail, DSCP: 48, Priority: 6}, false, "? not recorded"},
		"class":              {healthy, plan.SetTrafficClass{NICPort: rail, Class: 104}, true, "106 (DSCP 26)"},
		"another class":      {healthy, plan.SetTrafficClass{NICPort: rail, Class: 96}, false, "106 (DSCP 26)"},
		"no class":           {gone, plan.SetTrafficClass{NICPort: rail, Class: 96}, false, "? not recorded"},
		"ToS":                {healthy, plan.SetConnectionDefaults{NICPort: rail, ToS: 106, Mode: node.GIDRoCEv2}, true, "ToS 104 (DSCP 26), RoCE v2"},
		"mode":               {healthy, plan.SetConnectionDefaults{NICPort: rail, ToS: 106, Mode: node.GIDRoCEv1}, false, "ToS 104 (DSCP 26), RoCE v2"},
		"no directory": {set(func(s *plantest.PortState) {
			s.RoCE.DefaultToS = node.Awaiting[int]("nobody made it", node.CapabilityRDMACM, node.Source{})
		}), plan.SetConnectionDefaults{NICPort: rail, ToS: 104, Mode: node.GIDRoCEv2}, false, "nobody made it"},
		"no RDMA device": {set(func(s *plantest.PortState) {
			s.RoCE.DefaultToS = node.Awaiting[int]("there is none", node.CapabilityRDMA, node.Source{})
		}), plan.SetConnectionDefaults{NICPort: rail, ToS: 104, Mode: node.GIDRoCEv2}, false, "? there is none"},
		"no defaults": {gone, plan.SetConnectionDefaults{NICPort: rail, ToS: 104, Mode: node.GIDRoCEv2}, false, "? not recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := plantest.PortNode(tt.port.Answers()...)
			done, found, err := tt.action.Done(facts.Restrict(tt.action.Queries()))
			if err != nil {
				found = "? " + err.Error()
			}
			if done != tt.done || found != tt.want {
				t.Errorf("done %v, %s; wanted %s", done, found, tt.want)
			}
			if tt.action.Port() != rail {
				t.Errorf("port %+v", tt.action.Port())
			}
			if _, err := json.Marshal(tt.action); err != nil {
				t.Error(err)
			}
			if err != nil {
				return
			}
			before := plan.Fingerprint(facts, tt.action.Queries())
			after := tt.action.Project(facts)
			if done, found, err := tt.action.Done(after); !done || err != nil {
				t.Errorf("after Project: %s, %v", found, err)
			}
			if plan.Fingerprint(facts, tt.action.Queries()) != before {
				t.Error("Project changed the facts that it was given")
			}
		})
	}
}

func TestAwaitLinks(t *testing.T) {
	wait := plan.AwaitLinks{Ports: []plan.AwaitedPort{{NIC: plantest.Rail, RDMA: "mlx5_0/1", GID: true}}}
	for name, tt := range map[string]struct {
		edit func(*plantest.PortState)
		want string
	}{
		"back":         {func(*plantest.PortState) {}, "all are back"},
		"no carrier":   {func(s *plantest.PortState) { s.Link.Carrier = node.Known(false, node.Source{}) }, plantest.Rail + " without a link"},
		"unknown":      {func(s *plantest.PortState) { s.Link.Carrier = node.Value[bool]{} }, plantest.Rail + " without a link"},
		"RDMA port":    {func(s *plantest.PortState) { s.RDMA.State = node.Known("INIT", node.Source{}) }, plantest.Rail + " with RDMA port mlx5_0/1 INIT"},
		"no RDMA port": {func(s *plantest.PortState) { s.RDMA.State = node.Value[string]{} }, plantest.Rail + " with RDMA port mlx5_0/1 unknown"},
		"GIDs of v1": {func(s *plantest.PortState) {
			s.RDMA.GIDs = node.Known([]node.GID{{Type: node.GIDRoCEv1}}, node.Source{})
		}, plantest.Rail + " without a GID of RoCE v2 on mlx5_0/1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := plantest.Lossless(plantest.Rail, "rail0", "mlx5_0")
			tt.edit(&s)
			facts := plantest.PortNode(s.Answers()...).Restrict(wait.Queries())
			if done, found, err := wait.Done(facts); found != tt.want || done != (name == "back") || err != nil {
				t.Errorf("%v, %s, %v", done, found, err)
			}
		})
	}
	if done, _, _ := (plan.AwaitLinks{Ports: []plan.AwaitedPort{{NIC: "0000:ff:00.0"}}}).Done(plantest.PortNode()); done {
		t.Error("a port that is not known is back")
	}
}

func TestInventoryOfPorts(t *testing.T) {
	inv := plantest.PortNode().Inventory
	for key, want := range map[string]string{
		plantest.Rail: "", plantest.VF: "", plantest.Front: "it is protected: eno1, carries the default route", "0000:99:00.0": "there is no such NIC", plantest.Rail + "/2": "there is no such NIC", "eno1": "there is no such NIC",
	} {
		if got := inv.PortRefusal(key); got != want {
			t.Errorf("%s: %q, wanted %q", key, got, want)
		}
	}
	if bond := inv.BondOf("storage0"); bond != "bond1" {
		t.Errorf("storage0 is a port of %q", bond)
	}
	inv.Netdevs = node.Known([]node.Netdev{}, node.Source{})
	if got := inv.PortRefusal(plantest.Rail); got != "whether it is protected is unknown: the NIC has no network device although driver mlx5_core is bound to it" {
		t.Error(got)
	}
	inv.RDMA = node.Known([]node.RDMADevice{{Name: "mlx5_0", PCI: plantest.Rail, Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", node.Source{})}}}}, node.Source{})
	if got := inv.PortRefusal(plantest.Rail); got != "" {
		t.Errorf("InfiniBand without IPoIB: %s", got)
	}
	inv.Protected = node.Known([]node.ProtectedNetdev{{NIC: plantest.Rail, Reason: "carries SCSI disks (SRP)"}}, node.Source{})
	if got := inv.PortRefusal(plantest.Rail); got != "it is protected: carries SCSI disks (SRP)" {
		t.Error(got)
	}
}
