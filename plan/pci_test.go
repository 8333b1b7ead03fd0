package plan_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"busbar/internal/pciregs"
	"busbar/internal/pciregs/pciregstest"
	"busbar/node"
	"busbar/plan"
)

const port = "0000:17:01.0"

// registers are facts with the registers that config shows of port, as the live reader has them.
func registers(config []byte) node.Facts {
	state := node.PCIRegisterState{}
	if space, err := pciregs.Open(bytes.NewReader(config)); err != nil {
		state.Express = node.Unknown[pciregs.Express](err.Error(), node.Source{})
		state.ACS = node.Unknown[pciregs.ACS](err.Error(), node.Source{})
	} else {
		state.Express, state.ACS = register(space.Express), register(space.ACS)
	}
	return node.Facts{}.With(node.PCIRegisters.Answer(port, node.Known(state, node.Source{Path: "/sys/config"})))
}

func register[T any](read func() (T, error)) node.Value[T] {
	v, err := read()
	if err != nil {
		return node.Unknown[T](err.Error(), node.Source{})
	}
	return node.Known(v, node.Source{Path: "/sys/config"})
}

func TestPCIActions(t *testing.T) {
	switchPort, root := pciregstest.Config(t, "pex9716-port"), pciregstest.Config(t, "haswell-root-port")
	redirecting := bytes.Clone(switchPort)
	redirecting[0xf2a] = 0x1d
	nic, gpu, bridge := pciregstest.Config(t, "connectx3-endpoint"), pciregstest.Config(t, "h200-in-guest"), pciregstest.Config(t, "rs690-host-bridge")
	off := plan.SetACS{Address: port, Off: pciregs.Redirect}
	for name, tt := range map[string]struct {
		config []byte
		action plan.PCIAction
		done   bool
		want   string // what is found, or "? " and why it cannot be told
	}{
		"redirecting":                  {redirecting, off, false, "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"},
		"not redirecting":              {switchPort, off, true, "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"},
		"on":                           {switchPort, plan.SetACS{Address: port, On: pciregs.SrcValid}, false, "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"},
		"on and off":                   {redirecting, plan.SetACS{Address: port, On: pciregs.DirectTrans, Off: pciregs.EgressCtrl}, false, "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"},
		"as wanted":                    {redirecting, plan.SetACS{Address: port, On: pciregs.SrcValid | pciregs.ReqRedir, Off: pciregs.EgressCtrl}, true, "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"},
		"not implemented":              {root, plan.SetACS{Address: port, On: pciregs.DirectTrans}, false, "? it does not implement DirectTrans"},
		"off and not implemented":      {root, plan.SetACS{Address: port, Off: pciregs.EgressCtrl}, true, "SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"},
		"a contradiction":              {redirecting, plan.SetACS{Address: port, On: pciregs.ReqRedir, Off: pciregs.Redirect}, false, "? ReqRedir cannot be on and off"},
		"no ACS":                       {nic, off, false, "? it has no ACS capability"},
		"ACS unknown":                  {redirecting[:256], off, false, "? the kernel reaches only the first 256 bytes of configuration space"},
		"another function":             {redirecting, plan.SetACS{Address: "0000:00:00.0"}, false, "? not recorded"},
		"read requests of 512":         {nic, plan.SetMaxReadRequest{Address: port, Bytes: 4096}, false, "512 bytes"},
		"read requests of 4096":        {gpu, plan.SetMaxReadRequest{Address: port, Bytes: 4096}, true, "4096 bytes"},
		"read requests of 300":         {gpu, plan.SetMaxReadRequest{Address: port, Bytes: 300}, false, "? a maximum read request of 300 bytes: it is 128, 256, 512, 1024, 2048 or 4096"},
		"read requests unknown":        {gpu[:64], plan.SetMaxReadRequest{Address: port, Bytes: 512}, false, "? all but the first 64 bytes of configuration space are shown to root alone: run as root"},
		"read requests without PCIe":   {bridge, plan.SetMaxReadRequest{Address: port, Bytes: 512}, false, "? it is no PCI Express function"},
		"relaxed ordering off":         {nic, plan.SetRelaxedOrdering{Address: port, Allowed: true}, false, "off"},
		"relaxed ordering on":          {gpu, plan.SetRelaxedOrdering{Address: port, Allowed: true}, true, "on"},
		"relaxed ordering on, not off": {gpu, plan.SetRelaxedOrdering{Address: port}, false, "on"},
		"relaxed ordering unknown":     {gpu[:64], plan.SetRelaxedOrdering{Address: port}, false, "? all but the first 64 bytes of configuration space are shown to root alone: run as root"},
		"relaxed ordering of nobody":   {gpu, plan.SetRelaxedOrdering{Address: "0000:00:00.0"}, false, "? not recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := registers(tt.config)
			done, found, err := tt.action.Done(facts.Restrict(tt.action.Queries()))
			if err != nil {
				found = "? " + err.Error()
			}
			if done != tt.done || found != tt.want {
				t.Errorf("done %v, %s; wanted %s", done, found, tt.want)
			}
			after := tt.action.Project(facts)
			if done, _, doneErr := tt.action.Done(after); done != (err == nil) || (doneErr == nil) != (err == nil) {
				t.Errorf("after Project done is %v: %v", done, doneErr)
			}
			if diff := cmp.Diff(plan.Fingerprint(facts, tt.action.Queries()), plan.Fingerprint(after, tt.action.Queries())); (tt.done || err != nil) && diff != "" {
				t.Error("Project changed what was done, or cannot be")
			}
		})
	}
}

// What Project says is what the registers say after the write.
func TestPCIWriteIsProjected(t *testing.T) {
	original := pciregstest.Config(t, "pex9716-port")
	rapid.Check(t, func(t *rapid.T) {
		config := bytes.Clone(original)
		bit := func(name string) uint16 { return rapid.Uint16Range(0, 0x7f).Draw(t, name) }
		supported := bit("supported")
		binary.LittleEndian.PutUint16(config[0xf28:], supported)
		binary.LittleEndian.PutUint16(config[0xf2a:], bit("enabled")&supported|rapid.Uint16().Draw(t, "nameless")&0xff00&^0x8000)
		control := rapid.Uint16Range(0, 5).Draw(t, "request")<<12 | rapid.Uint16Range(0, 5).Draw(t, "payload")<<5 | rapid.Uint16().Draw(t, "others")&0x0f1f
		binary.LittleEndian.PutUint16(config[0x70:], control)
		on := pciregs.ACSBits(bit("on") & supported)
		action := rapid.SampledFrom([]plan.PCIAction{
			plan.SetACS{Address: port, On: on, Off: pciregs.ACSBits(bit("off")) &^ on},
			plan.SetMaxReadRequest{Address: port, Bytes: 128 << rapid.IntRange(0, 5).Draw(t, "bytes")},
			plan.SetRelaxedOrdering{Address: port, Allowed: rapid.Bool().Draw(t, "allowed")},
		}).Draw(t, "action")

		before := registers(config)
		space, err := pciregs.Open(bytes.NewReader(config))
		if err != nil {
			t.Fatal(err)
		}
		w, err := action.Write(space)
		if err != nil {
			t.Fatal(err)
		}
		if done, _, err := action.Done(before); err != nil || done != (w.Old == w.New) {
			t.Fatalf("done is %v, %v, and the write %s", done, err, w)
		}
		copy(config[w.Offset:], w.Bytes())
		queries := action.Queries()
		if plan.Fingerprint(action.Project(before), queries) != plan.Fingerprint(registers(config), queries) {
			t.Fatalf("%s: projected and written differ", w)
		}
	})
}

func TestPCIActionsAsData(t *testing.T) {
	for want, action := range map[string]plan.PCIAction{
		`set-acs {"address":"0000:17:01.0","off":["ReqRedir","CmpltRedir","UpstreamFwd","EgressCtrl"]}`: plan.SetACS{Address: port, Off: pciregs.Redirect},
		`set-acs {"address":"0000:17:01.0","on":["SrcValid","DirectTrans"]}`:                            plan.SetACS{Address: port, On: pciregs.SrcValid | pciregs.DirectTrans},
		`set-max-read-request {"address":"0000:17:01.0","bytes":4096}`:                                  plan.SetMaxReadRequest{Address: port, Bytes: 4096},
		`set-relaxed-ordering {"address":"0000:17:01.0","allowed":false}`:                               plan.SetRelaxedOrdering{Address: port},
	} {
		text, err := json.Marshal(action)
		if got := action.Kind() + " " + string(text); err != nil || got != want {
			t.Errorf("%s, %v; wanted %s", got, err, want)
		}
		if action.Function() != port {
			t.Error(action.Function())
		}
	}
}

func TestCheckPCIAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"0000:17:00.0": true, "10000:e1:00.0": true, "17:00.0": false, "0000:1A:00.0": false, "pci:1000:c030": false, "": false,
	} {
		if err := plan.CheckPCIAddress(address); (err == nil) != want {
			t.Errorf("%q: %v", address, err)
		}
	}
}
