//go:build linux

package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

// ports is a machine's rail: its driver keeps some in memory, the rest stands in files.
type ports struct {
	*machine
	state plantest.PortState
	// log is what the driver was told.
	log []string
	// deaf: the driver acknowledges DCB and does nothing.
	deaf bool
	// protected is the reason why the rail is.
	protected string
	// downs is how many more reads show the link down.
	downs int
	// trustFills: writing MLNX_OFED's file of the trust fills the APP table.
	trustFills bool
	// moved changes what the inventory says.
	moved func(*node.Inventory)
}

const (
	tosFile   = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
	modeFile  = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode"
	classFile = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"
	npDir     = "/sys/class/net/rail0/ecn/roce_np"
	trustFile = "/sys/class/net/rail0/qos/trust"
)

// newPorts is a rail with nothing done to it.
func newPorts(t *testing.T) *ports {
	p := &ports{machine: newMachine(t), state: plantest.Lossless(plantest.Rail, "rail0", "mlx5_0"), trustFills: true}
	p.state = p.state.Change(func(d *node.DCBState) {
		d.DCBX, d.PFC = node.Known(dcbnl.DCBXIEEE, d.DCBX.Source()), node.Known(dcbnl.PFC{Delay: 7}, d.PFC.Source())
		d.Apps = node.Known([]dcbnl.App{}, d.Apps.Source())
	})
	p.state.Link.MTU, p.state.Link.Up = node.Known(1500, node.Source{}), node.Known(false, node.Source{})
	p.state.Flow.Pause, p.state.Flow.PFCStormPrevention = node.Known(ethtool.Pause{Rx: true}, node.Source{}), node.Known(0, node.Source{})
	p.write(trustFile, "pcp\n")
	p.write(classFile, "\n")
	p.write(tosFile, "0\n")
	p.write(modeFile, "IB/RoCE v1\n")
	p.write(npDir+"/cnp_dscp", "0\n")
	p.write(npDir+"/cnp_802p_prio", "0\n")
	for _, point := range []string{"roce_np", "roce_rp"} {
		for priority := range 8 {
			p.write(fmt.Sprintf("/sys/class/net/rail0/ecn/%s/enable/%d", point, priority), "0\n")
		}
	}
	return p
}

func (p *ports) number(name string) int {
	n, err := strconv.Atoi(strings.TrimSpace(p.text(name)))
	must(err)
	return n
}

func (p *ports) enabled(point string) dcbnl.Priorities {
	var set dcbnl.Priorities
	for priority := range 8 {
		set |= dcbnl.Priorities(p.number(fmt.Sprintf("/sys/class/net/rail0/ecn/%s/enable/%d", point, priority)) << priority)
	}
	return set
}

func (p *ports) Inventory(ctx context.Context) node.Inventory {
	inv := plantest.PortNode().Inventory
	base := p.machine.Inventory(ctx)
	base.PCI, base.Netdevs, base.RDMA, base.Protected = inv.PCI, inv.Netdevs, inv.RDMA, node.Known([]node.ProtectedNetdev{}, node.Source{})
	if p.protected != "" {
		base.Protected = node.Known([]node.ProtectedNetdev{{Name: "rail0", Reason: p.protected}}, node.Source{})
	}
	if p.moved != nil {
		p.moved(&base)
	}
	return base
}

func (p *ports) Read(_ context.Context, inv node.Inventory, _ []node.Query) node.Facts {
	s := p.state
	r := &s.RoCE
	r.NotificationPoint, r.ReactionPoint = node.Known(p.enabled("roce_np"), r.NotificationPoint.Source()), node.Known(p.enabled("roce_rp"), r.ReactionPoint.Source())
	r.CNPDSCP, r.CNPPriority = node.Known(p.number(npDir+"/cnp_dscp"), r.CNPDSCP.Source()), node.Known(p.number(npDir+"/cnp_802p_prio"), r.CNPPriority.Source())
	class, err := strconv.Atoi(strings.TrimSpace(p.text(classFile)))
	if err != nil {
		class = -1
	}
	r.TrafficClass = node.Known(node.TrafficClass{Global: class}, r.TrafficClass.Source())
	if _, err := os.Stat(p.root + tosFile); err != nil {
		r.DefaultToS = node.Awaiting[int]("nobody has made it", node.CapabilityRDMACM, r.DefaultToS.Source())
	} else {
		mode, _, _ := strings.Cut(p.text(modeFile), "\n")
		r.DefaultToS, r.DefaultMode = node.Known(p.number(tosFile), r.DefaultToS.Source()), node.Known(mode, r.DefaultMode.Source())
	}
	trust := strings.TrimSpace(p.text(trustFile))
	s = s.Change(func(d *node.DCBState) {
		d.Trust = node.Known(trust, d.Trust.Source())
		if apps, _ := d.Apps.Get(); trust == node.TrustDSCP && len(apps) == 0 && p.trustFills {
			d.Apps = node.Known([]dcbnl.App{{Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}, {Selector: dcbnl.DSCP, Protocol: 27, Priority: 3}}, d.Apps.Source())
			p.state = p.state.Change(func(now *node.DCBState) { now.Apps = d.Apps })
		}
	})
	if p.downs > 0 {
		p.downs--
		s.Link.Carrier = node.Known(false, node.Source{})
	}
	all := plantest.PortNode(s.Answers()...)
	return node.NewFacts(inv, time.Time{}, nil).Merge(all)
}

func (p *ports) SetMTU(netdev string, mtu int) error {
	p.log = append(p.log, fmt.Sprintf("%s MTU %d", netdev, mtu))
	p.state.Link.MTU = node.Known(mtu, node.Source{})
	return nil
}

func (p *ports) SetUp(netdev string, up bool) error {
	p.log = append(p.log, fmt.Sprintf("%s up %t", netdev, up))
	p.state.Link.Up = node.Known(up, node.Source{})
	return nil
}

func (p *ports) SetPause(netdev string, pause ethtool.Pause) error {
	p.log = append(p.log, fmt.Sprintf("%s pause %s", netdev, pause))
	p.state.Flow.Pause = node.Known(pause, node.Source{})
	return nil
}

func (p *ports) SetPFCStormPrevention(netdev string, ms uint16) error {
	p.log = append(p.log, fmt.Sprintf("%s storm prevention %d", netdev, ms))
	p.state.Flow.PFCStormPrevention = node.Known(int(ms), node.Source{})
	return nil
}

func (p *ports) ChangeDCB(netdev string, changes []dcbnl.Message) error {
	for _, m := range changes {
		p.log = append(p.log, netdev+" "+m.String())
		if p.deaf {
			continue
		}
		p.state = p.state.Change(func(d *node.DCBState) {
			var dscp, priority, delay int
			apps, _ := d.Apps.Get()
			drop := func(one bool) []dcbnl.App {
				return slices.DeleteFunc(slices.Clone(apps), func(a dcbnl.App) bool { return int(a.Protocol) == dscp && (!one || int(a.Priority) == priority) })
			}
			switch text := m.String(); {
			case scan(text, "map dscp %d to priority %d", &dscp, &priority):
				apps = append(drop(false), dcbnl.App{Selector: dcbnl.DSCP, Protocol: uint16(dscp), Priority: uint8(priority)})
				slices.SortFunc(apps, dcbnl.CompareApps)
				d.Apps = node.Known(apps, d.Apps.Source())
			case scan(text, "enable PFC on priorities %d with delay %d", &priority, &delay):
				d.PFC = node.Known(dcbnl.PFC{Enabled: 1 << priority, Delay: uint16(delay)}, d.PFC.Source())
				p.downs = 3
			case text == "set DCBX to host ieee":
				d.DCBX = node.Known(dcbnl.DCBXHost|dcbnl.DCBXIEEE, d.DCBX.Source())
			default:
				panic(text)
			}
		})
	}
	return nil
}

func scan(text, format string, into ...any) bool {
	n, err := fmt.Sscanf(text, format, into...)
	return err == nil && n == len(into)
}

// settings are a step of each kind, in the order in which they are planned.
func settings(node.Facts) []plan.Step {
	p := plan.NICPort{NIC: plantest.Rail}
	var steps []plan.Step
	for _, a := range []plan.NICAction{
		plan.SetDCBX{NICPort: p, Owner: plan.DCBXHost}, plan.SetPause{NICPort: p}, plan.SetStormPrevention{NICPort: p, Milliseconds: 8000}, plan.SetLink{NICPort: p, MTU: 9000, State: "up"},
		plan.SetDSCPMap{NICPort: p, Map: []plan.DSCPPriority{{DSCP: 26, Priority: 3}, {DSCP: 27}, {DSCP: 48, Priority: 6}}}, plan.SetPFC{NICPort: p, Enabled: 8},
	} {
		steps = append(steps, plan.Step{Target: p.NIC, Action: a})
	}
	for _, a := range []plan.NICAction{
		plan.SetECN{NICPort: p, Priorities: 8}, plan.SetCNP{NICPort: p, DSCP: 48, Priority: 6},
		plan.SetTrafficClass{NICPort: p, Class: 104}, plan.SetConnectionDefaults{NICPort: p, ToS: 104, Mode: node.GIDRoCEv2},
	} {
		steps = append(steps, plan.Step{Target: p.NIC, Action: a})
	}
	return steps
}

func (p *ports) options(steps func(node.Facts) []plan.Step) Options {
	o := p.machine.options(func(ctx context.Context) (Planned, error) {
		facts := p.Read(ctx, p.Inventory(ctx), nil)
		var planned plan.Plan
		for _, s := range steps(facts) {
			s.ID = s.Action.Kind() + ":" + s.Target
			s.Addresses = []string{s.ID}
			done, _, err := s.Action.Done(facts)
			_, await := s.Action.(plan.Awaiting)
			f := plan.Finding{ID: s.ID, Address: s.ID, Severity: plan.Error, Status: plan.OK}
			if err != nil || !done && !await {
				f.Status, f.Fixable = plan.Drift, true
				planned.Steps = append(planned.Steps, s)
			}
			if await && len(planned.Steps) > 0 {
				planned.Steps = append(planned.Steps, s)
			}
			planned.Findings = append(planned.Findings, f)
		}
		return Planned{planned, facts}, nil
	})
	o.Reader, o.Ports = p, p
	return o
}

// Every setting is made, what differs alone, and a second run makes none.
func TestPortsAreSet(t *testing.T) {
	p := newPorts(t)
	p.write("/sys/class/net/rail0/ecn/roce_rp/enable/3", "1\n")
	before := p.snapshot()["/sys/class/net/rail0/ecn/roce_rp/enable/3"]
	result := applyOn(t, p.options(settings))
	if got := errorsOf(result); got != "" || result.ExitCode != 0 || len(result.Steps) != 10 {
		t.Fatalf("exit code %d, %v, %s", result.ExitCode, outcomes(result), got)
	}
	want := []string{
		"rail0 set DCBX to host ieee", "rail0 pause rx off, tx off", "rail0 storm prevention 8000", "rail0 MTU 9000", "rail0 up true",
		"rail0 map dscp 48 to priority 6", "rail0 map dscp 27 to priority 0", "rail0 enable PFC on priorities 3 with delay 7",
	}
	if diff := cmp.Diff(want, p.log); diff != "" {
		t.Errorf("the driver was told (-want +got):\n%s", diff)
	}
	for file, text := range map[string]string{
		trustFile: "dscp\n", classFile: "104\n", tosFile: "104\n", modeFile: "RoCE v2\n", npDir + "/cnp_dscp": "48\n", npDir + "/cnp_802p_prio": "6\n", npDir + "/enable/3": "1\n", npDir + "/enable/4": "0\n",
	} {
		if got := p.text(file); !strings.HasPrefix(got, text) {
			t.Errorf("%s holds %q", file, got)
		}
	}
	if after := p.snapshot()["/sys/class/net/rail0/ecn/roce_rp/enable/3"]; after != before {
		t.Error("a priority that was enabled already was written: the driver answers EPERM")
	}
	p.log = nil
	if result := applyOn(t, p.options(settings)); len(result.Steps) != 0 || len(p.log) != 0 || result.ExitCode != 0 {
		t.Errorf("%v %q", outcomes(result), p.log)
	}
}

// What is renamed, protected or gone while apply asks is not what was approved.
func TestPortsThatChangeMeanwhile(t *testing.T) {
	netdevs := func(inv *node.Inventory, a, b string) {
		list, _ := inv.Netdevs.Get()
		list = slices.Clone(list)
		for i, d := range list {
			switch d.Name {
			case a:
				list[i].Name = b
			case b:
				list[i].Name = a
			}
		}
		inv.Netdevs = node.Known(list, inv.Netdevs.Source())
	}
	for name, tt := range map[string]struct {
		moved func(*node.Inventory)
		want  string // a part of the error; empty where the run goes on
	}{
		"nothing":            {func(*node.Inventory) {}, ""},
		"a device of no NIC": {func(inv *node.Inventory) { netdevs(inv, "bond1", "bond2") }, ""},
		"renamed":            {func(inv *node.Inventory) { netdevs(inv, "rail0", "eth7") }, "the network device of NIC 0000:1a:00.0 was rail0 and is eth7"},
		"two swap names":     {func(inv *node.Inventory) { netdevs(inv, "rail0", "rail1") }, "the network device of NIC 0000:1a:00.0 was rail0 and is rail1"},
		"RDMA device renamed": {func(inv *node.Inventory) {
			devices, _ := inv.RDMA.Get()
			devices = slices.Clone(devices)
			devices[0].Name = "rocep26s0"
			inv.RDMA = node.Known(devices, inv.RDMA.Source())
		}, "the RDMA device of NIC 0000:1a:00.0 was mlx5_0 and is rocep26s0"},
		"the default route moves": {func(inv *node.Inventory) {
			inv.Protected = node.Known([]node.ProtectedNetdev{{Name: "rail1", Reason: "carries the default route"}}, node.Source{})
		}, "whether NIC 0000:3c:00.0 is protected was false and is true"},
		"the default route goes": {func(inv *node.Inventory) {
			inv.Protected = node.Unknown[[]node.ProtectedNetdev]("there is no default route", node.Source{})
		}, "is protected was false and is unknown"},
		"gone": {func(inv *node.Inventory) {
			functions, _ := inv.PCI.Get()
			inv.PCI = node.Known(slices.DeleteFunc(slices.Clone(functions), func(p node.PCIFunction) bool { return p.Address == plantest.Rail }), inv.PCI.Source())
		}, "NIC 0000:1a:00.0 is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPorts(t)
			o := p.options(setting(plan.SetPFC{NICPort: plan.NICPort{NIC: plantest.Rail}, Enabled: 8}))
			o.Approve = func(plan.Plan) (bool, error) {
				p.moved = tt.moved
				return true, nil
			}
			result, err := run(t.Context(), o, true)
			if tt.want == "" {
				if err != nil || result.ExitCode != plan.ExitOK {
					t.Errorf("exit code %d, error %v", result.ExitCode, err)
				}
				return
			}
			if !errors.Is(err, ErrChanged) || !strings.Contains(fmt.Sprint(err), tt.want) || result.ExitCode != plan.ExitStale || len(p.log) > 0 {
				t.Errorf("exit code %d, error %v, the driver was told %q", result.ExitCode, err, p.log)
			}
		})
	}
}

// The kernel's own driver keeps how notification is sent in debugfs.
func TestCNPWithoutVendorFiles(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"np_cnp_dscp", "np_cnp_prio"} {
		m.write("/cc/"+name, "0\n")
	}
	r := &runner{Options: m.options(nil), running: true}
	none := node.Unsupported[int]("none", node.Source{})
	state := node.RoCEState{CNPDSCP: none, CNPPriority: none, CCParams: node.Known(map[string]uint32{"np_cnp_dscp": 48, "np_cnp_prio": 6, "np_cnp_prio_mode": 1}, node.Source{Path: "/cc"})}
	must(r.setCNP(plan.SetCNP{DSCP: 48, Priority: 6}, state))
	if m.text("/cc/np_cnp_dscp") != "0\n" || !strings.HasPrefix(m.text("/cc/np_cnp_prio"), "6\n") {
		t.Errorf("%q %q", m.text("/cc/np_cnp_dscp"), m.text("/cc/np_cnp_prio"))
	}
}

func setting(action plan.NICAction) func(node.Facts) []plan.Step {
	return func(node.Facts) []plan.Step { return []plan.Step{{Target: plantest.Rail, Action: action}} }
}

func TestPortsThatAreNotSet(t *testing.T) {
	rail := plan.NICPort{NIC: plantest.Rail}
	defaults := plan.SetConnectionDefaults{NICPort: rail, ToS: 104, Mode: node.GIDRoCEv2}
	for name, tt := range map[string]struct {
		change func(*ports)
		action plan.NICAction
		want   string // a part of the error
	}{
		"a driver that acknowledges and does nothing": {func(p *ports) { p.deaf = true }, plan.SetPFC{NICPort: rail, Enabled: 8}, "it was done, yet reads back as: priorities none (the driver takes it and does nothing"},
		"protected":   {func(p *ports) { p.protected = "carries the default route" }, plan.SetPFC{NICPort: rail, Enabled: 8}, "NIC 0000:1a:00.0 is not touched: it is protected: rail0, carries the default route"},
		"no file":     {func(p *ports) { must(os.Remove(p.root + classFile)) }, plan.SetTrafficClass{NICPort: rail, Class: 104}, "no such file or directory"},
		"no rdma_cm":  {func(p *ports) { must(os.RemoveAll(p.root + "/sys/kernel/config/rdma_cm")) }, defaults, "load module rdma_cm, and mount configfs"},
		"a directory": {func(p *ports) { must(os.RemoveAll(p.root + "/sys/kernel/config/rdma_cm/mlx5_0")) }, defaults, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPorts(t)
			tt.change(p)
			result := applyOn(t, p.options(setting(tt.action)))
			if got := errorsOf(result); result.ExitCode != plan.ExitPartial || !strings.Contains(got, tt.want) {
				t.Errorf("exit code %d: %s", result.ExitCode, got)
			}
		})
	}
	// What was made and could not be used is taken away again.
	p := newPorts(t)
	must(os.RemoveAll(p.root + "/sys/kernel/config/rdma_cm/mlx5_0"))
	applyOn(t, p.options(setting(defaults)))
	if left, err := filepath.Glob(p.root + "/sys/kernel/config/rdma_cm/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// Who may, may.
	p = newPorts(t)
	p.protected = "carries the default route"
	allowed := plan.SetPFC{NICPort: plan.NICPort{NIC: plantest.Rail, AllowProtected: true}, Enabled: 8}
	if result := applyOn(t, p.options(setting(allowed))); result.ExitCode != 0 {
		t.Error(errorsOf(result))
	}
}

// Links are waited for until they are back, and have stayed.
func TestLinksAreAwaited(t *testing.T) {
	p := newPorts(t)
	steps := func(f node.Facts) []plan.Step {
		return append(setting(plan.SetPFC{NICPort: plan.NICPort{NIC: plantest.Rail}, Enabled: 8})(f),
			plan.Step{Target: "links", Action: plan.AwaitLinks{Ports: []plan.AwaitedPort{{NIC: plantest.Rail, RDMA: "mlx5_0/1", GID: true}}, DeadlineS: 60}})
	}
	if result := applyOn(t, p.options(steps)); result.ExitCode != 0 || p.downs != 0 || len(result.Steps) != 2 {
		t.Errorf("exit code %d, %v, %s", result.ExitCode, outcomes(result), errorsOf(result))
	}
	p = newPorts(t)
	p.state.RDMA.State = node.Known("INIT", node.Source{})
	late := func(f node.Facts) []plan.Step {
		all := steps(f)
		all[1].Action = plan.AwaitLinks{Ports: []plan.AwaitedPort{{NIC: plantest.Rail, RDMA: "mlx5_0/1"}}}
		return all
	}
	if got := errorsOf(applyOn(t, p.options(late))); !strings.Contains(got, "waited 0 s in vain for the link of 0000:1a:00.0 to come back (it is 0000:1a:00.0 without a link)") {
		t.Error(got)
	}
}

func TestAttributeRefusals(t *testing.T) {
	r := &runner{Options: Options{Root: t.TempDir()}}
	must(os.WriteFile(r.Root+"/sealed", nil, 0o444))
	if err := r.writeAttribute("/sealed", "1"); os.Getuid() != 0 && (!errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "needs root")) {
		t.Error(err)
	}
	if err := r.writeAttribute("/none", "1"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
