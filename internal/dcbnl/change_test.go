package dcbnl

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func texts(messages []Message) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, m.String())
	}
	return list
}

func TestChanges(t *testing.T) {
	weighted := [8]TSA{Weighted, Strict, Strict, Weighted}
	for _, test := range []struct {
		name string
		got  []Message
		want []string
	}{
		{"PFC as wanted", fullPFC.Changes(1<<3, 7), nil},
		{"PFC as wanted, any delay", fullPFC.Changes(1<<3, 0), nil},
		{"PFC of another priority keeps the delay", fullPFC.Changes(1<<4, 0), []string{"enable PFC on priorities 4 with delay 7"}},
		{"PFC with another delay", fullPFC.Changes(1<<3, 100), []string{"enable PFC on priorities 3 with delay 100"}},
		{"PFC off", fullPFC.Changes(0, 0), []string{"disable PFC on all priorities with delay 7"}},
		{"ETS as wanted", fullETS.Changes(fullETS), nil},
		{"ETS: the share of a strict class says nothing",
			ETS{Algorithms: weighted, TxBandwidth: [8]uint8{50, 100, 100, 50}}.Changes(ETS{Algorithms: weighted, TxBandwidth: [8]uint8{50, 0, 0, 50}}), nil},
		{"ETS: what is not asked for says nothing", fullETS.Changes(ETS{Algorithms: fullETS.Algorithms, TxBandwidth: fullETS.TxBandwidth, PriorityClass: fullETS.PriorityClass}), nil},
		{"ETS of other shares", fullETS.Changes(ETS{Algorithms: weighted, TxBandwidth: [8]uint8{40, 1, 1, 60}, PriorityClass: fullETS.PriorityClass}),
			[]string{"set the classes of priorities 0 to 7 to [0 1 2 3 4 5 6 7], their algorithms to [ets strict strict ets strict strict strict strict] and shares to [40 0 0 60 0 0 0 0]"}},
		{"DCBX as wanted", (DCBXHost | DCBXIEEE).Changes(DCBXHost | DCBXIEEE), nil},
		{"DCBX of firmware", (DCBXLLDManaged | DCBXIEEE).Changes(DCBXHost | DCBXIEEE), []string{"set DCBX to host ieee"}},
		{"buffers as wanted, whatever the total", fullBuffer.Changes(Buffer{PriorityBuffer: fullBuffer.PriorityBuffer, Sizes: fullBuffer.Sizes}), nil},
		{"other buffers", fullBuffer.Changes(Buffer{Sizes: [8]uint32{1}}), []string{"set the receive buffers to [1 0 0 0 0 0 0 0] bytes and those of priorities 0 to 7 to [0 0 0 0 0 0 0 0]"}},
		{"rates as wanted", fullRate.Changes(fullRate), nil},
		{"other rates", fullRate.Changes(MaxRate{}), []string{"limit the traffic classes to [0 0 0 0 0 0 0 0] kbit/s"}},
		{"trust as wanted", TrustOrder{DSCP}.Changes(TrustOrder{DSCP}), nil},
		{"another trust", TrustOrder{PCP}.Changes(TrustOrder{DSCP, PCP}), []string{"trust [dscp pcp]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{}, test.want...), texts(test.got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A change keeps what it is not about.
func TestChangesKeep(t *testing.T) {
	pfc := PFC{Capacity: 4, Enabled: 1, MACsecBypass: 1, Delay: 9}.Changes(2, 0)[0]
	if diff := cmp.Diff(SetPFC(PFC{Capacity: 4, Enabled: 2, MACsecBypass: 1, Delay: 9}).content, pfc.content); diff != "" {
		t.Error(diff)
	}
	have := fullETS
	have.Willing, have.CreditShaper, have.RxBandwidth = 1, 1, [8]uint8{100}
	want := have
	want.PriorityClass = [8]uint8{7, 6, 5, 4, 3, 2, 1, 0}
	ets := have.Changes(ETS{PriorityClass: want.PriorityClass, Algorithms: have.Algorithms, TxBandwidth: have.TxBandwidth})[0]
	if diff := cmp.Diff(SetETS(want).content, ets.content); diff != "" {
		t.Error(diff)
	}
	buffer := fullBuffer.Changes(Buffer{Total: 1})[0]
	if diff := cmp.Diff(SetBuffer(Buffer{Total: fullBuffer.Total}).content, buffer.content); diff != "" {
		t.Error(diff)
	}
}

func TestAppChanges(t *testing.T) {
	dscp := func(dscp uint16, priority uint8) App { return App{DSCP, dscp, priority} }
	for _, test := range []struct {
		name       string
		driver     string
		have, want []App
		messages   []string
	}{
		{"as wanted", "mlx5_core", []App{dscp(48, 6), dscp(26, 3)}, []App{dscp(26, 3), dscp(48, 6)}, nil},
		{"into an empty table", "mlx5_core", nil, []App{dscp(48, 6), dscp(26, 3)}, []string{"map dscp 26 to priority 3", "map dscp 48 to priority 6"}},
		{"out of the table", "ice", []App{dscp(26, 3)}, nil, []string{"no longer map dscp 26 to priority 3"}},
		{"another priority", "ice", []App{dscp(26, 0)}, []App{dscp(26, 3)}, []string{"no longer map dscp 26 to priority 0", "map dscp 26 to priority 3"}},
		{"another priority, replaced", "mlx5_core", []App{dscp(26, 0)}, []App{dscp(26, 3)}, []string{"map dscp 26 to priority 3"}},
		{"the table is never empty", "bnxt_en", []App{dscp(8, 1), dscp(26, 0)}, []App{dscp(26, 3), dscp(48, 6)},
			[]string{"map dscp 48 to priority 6", "no longer map dscp 26 to priority 0", "map dscp 26 to priority 3", "no longer map dscp 8 to priority 1"}},
		{"two priorities for one DSCP", "bnxt_en", []App{dscp(26, 3), dscp(26, 4)}, []App{dscp(26, 3)},
			[]string{"no longer map dscp 26 to priority 3", "no longer map dscp 26 to priority 4", "map dscp 26 to priority 3"}},
		{"other selectors count apart", "ice", []App{{DatagramPort, 26, 0}}, []App{dscp(26, 3)},
			[]string{"map dscp 26 to priority 3", "no longer map dgram-port 26 to priority 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{}, test.messages...), texts(AppChanges(test.have, test.want, test.driver))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// port is a device as its driver behaves towards APP entries of selector DSCP. The table is the kernel's
// (dcb_ieee_setapp, dcb_ieee_delapp), mapped is what the hardware does.
type port struct {
	driver string
	table  []App
	mapped map[uint16]uint8
	flips  int // of trust, to PCP
}

func newPort(driver string, table []App) *port {
	p := &port{driver: driver, table: slices.Clone(table), mapped: map[uint16]uint8{}}
	for _, a := range table {
		p.mapped[a.Protocol] = a.Priority
	}
	return p
}

// Exchange takes APP messages only.
func (p *port) Exchange(_ uint16, payload []byte) ([]byte, error) {
	top, err := attributes(payload[headerSize:])
	if err != nil {
		return nil, err
	}
	nest, err := attributes(top[1].value)
	if err != nil {
		return nil, err
	}
	apps, err := decodeApps(nest[0].value)
	if err != nil {
		return nil, err
	}
	if payload[1] == cmdIEEEDelete {
		return answer(attrIEEE, p.remove(apps[0])), nil
	}
	return answer(attrIEEE, p.add(apps[0])), nil
}

func (p *port) add(a App) int8 {
	old := slices.IndexFunc(p.table, func(b App) bool { return b.Protocol == a.Protocol })
	switch {
	case p.driver == "mlx5_core" && old >= 0:
		p.table = slices.Delete(p.table, old, old+1)
	case slices.Contains(p.table, a):
		return -int8(EEXIST)
	case p.driver == "ice" && old >= 0:
		return -int8(EINVAL)
	}
	p.table = append(p.table, a)
	p.mapped[a.Protocol] = a.Priority
	if p.driver == "ice" {
		return 1
	}
	return 0
}

func (p *port) remove(a App) int8 {
	at := slices.Index(p.table, a)
	if at < 0 {
		return -int8(ENOENT)
	}
	p.table = slices.Delete(p.table, at, at+1)
	delete(p.mapped, a.Protocol)
	if len(p.table) == 0 {
		p.flips++
	}
	return 0
}

// On every driver the changes lead from any table to any other, in the hardware too. The trust flips
// only when it must: at the end, or where one DSCP alone is mapped.
func TestAppChangesLead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app := rapid.Custom(func(t *rapid.T) App {
			return App{DSCP, rapid.Uint16Range(0, 5).Draw(t, "dscp"), rapid.Uint8Range(0, 3).Draw(t, "priority")}
		})
		driver := rapid.SampledFrom([]string{"mlx5_core", "ice", "bnxt_en"}).Draw(t, "driver")
		identity := func(a App) any { return a.Protocol }
		if driver == "bnxt_en" {
			identity = func(a App) any { return a } // takes several priorities for a DSCP
		}
		have := rapid.SliceOfDistinct(app, identity).Draw(t, "have")
		want := rapid.SliceOfDistinct(app, func(a App) uint16 { return a.Protocol }).Draw(t, "want")
		p := newPort(driver, have)
		for _, m := range AppChanges(have, want, driver) {
			if err := Send(p, "eth0", m); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortFunc(p.table, CompareApps)
		slices.SortFunc(want, CompareApps)
		if !slices.Equal(p.table, want) {
			t.Errorf("leads to %v", p.table)
		}
		for _, a := range want {
			if got, ok := p.mapped[a.Protocol]; !ok || got != a.Priority {
				t.Errorf("dscp %d: mapped to %d, %t", a.Protocol, got, ok)
			}
		}
		if len(AppChanges(p.table, want, driver)) > 0 {
			t.Error("more is to be done")
		}
		if len(want) > 1 && p.flips > 0 {
			t.Errorf("the trust flipped %d times", p.flips)
		}
	})
}
