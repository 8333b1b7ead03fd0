package dcbnl

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden reads a message of testdata: those named dcb-* are what iproute2's dcb sent, golden.c wrote the others.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the golden messages are of a little-endian machine")
	}
	text, err := os.ReadFile("testdata/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	fullETS = ETS{
		Classes: 8, TxBandwidth: [8]uint8{50, 0, 0, 50}, Algorithms: [8]TSA{Weighted, Weighted, Weighted, Weighted, Weighted, Weighted, Weighted, Weighted},
		PriorityClass: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, RecommendedBandwidth: [8]uint8{100}, RecommendedAlgorithms: [8]TSA{7: Vendor},
		RecommendedPriorityClass: [8]uint8{7, 6, 5, 4, 3, 2, 1, 0},
	}
	defaultETS = ETS{Classes: 8, Algorithms: [8]TSA{Vendor, Vendor, Vendor, Vendor, Vendor, Vendor, Vendor, Vendor}, PriorityClass: [8]uint8{1, 0, 2, 3, 4, 5, 6, 7}}
	fullPFC    = PFC{Capacity: 8, Enabled: 1 << 3, Delay: 7}
	fullBuffer = Buffer{PriorityBuffer: [8]uint8{3: 1, 6: 2}, Sizes: [8]uint32{130944, 131072, 4096}, Total: 524160}
	fullRate   = MaxRate{1: 100_000, 3: 255_000_000, 7: 1 << 33}
)

func TestDecode(t *testing.T) {
	for name, want := range map[string]State{
		"get-default": {
			ETS: &defaultETS, PFC: &PFC{Capacity: 8, Delay: 7}, Apps: []App{}, DCBX: new(DCBXHost | DCBXCEE | DCBXIEEE),
			Buffer: &Buffer{Sizes: [8]uint32{262016}, Total: 524160}, MaxRate: &MaxRate{},
		},
		"get-full": {
			ETS: &fullETS, PFC: &fullPFC, Apps: []App{{Ethertype, 0, 0}, {DSCP, 26, 3}, {DSCP, 48, 6}, {PCP, 1, 1}},
			DCBX: new(DCBXHost | DCBXIEEE), Buffer: &fullBuffer, MaxRate: &fullRate, TrustOrder: TrustOrder{DSCP, PCP},
		},
		"get-longer":  {ETS: &fullETS, PFC: &fullPFC},
		"get-nothing": {Apps: []App{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(golden(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Structs that end before what is known here are refused, wherever they stand.
func TestDecodeRefuses(t *testing.T) {
	short := func(kind uint16, size int) []byte {
		return request(cmdIEEEGet, "eth0", appendAttribute(nil, attrIEEE, appendAttribute(nil, kind, make([]byte, size))))
	}
	cut := request(cmdIEEEGet, "eth0", appendAttribute(nil, attrIEEE, nil))
	for _, test := range []struct {
		payload []byte
		why     string
	}{
		{nil, "the reply has 0 bytes"},
		{short(ieeeETS, 58), "ETS: 58 bytes, at least 59 are needed"},
		{short(ieeePFC, 135), "PFC: 135 bytes, at least 136 are needed"},
		{short(ieeeMaxRate, 56), "the rate limits: 56 bytes"},
		{short(ieeeBuffer, 40), "the buffers: 40 bytes"},
		{short(ieeeAppTable, 3), "in the APP table: 3 bytes are left over behind the attributes"},
		{short(ieeeTrustTable, 2), "in the trust table: 2 bytes"},
		{request(cmdIEEEGet, "eth0", appendAttribute(nil, attrIEEE, appendAttribute(nil, ieeeAppTable, appendAttribute(nil, appIEEE, []byte{5, 3})))), "an APP entry: 2 bytes"},
		{request(cmdIEEEGet, "eth0", appendAttribute(nil, attrIEEE, appendAttribute(nil, ieeeTrustTable, appendAttribute(nil, appIEEE, nil)))), "a trusted selector: 0 bytes"},
		{request(cmdIEEEGet, "eth0", appendAttribute(nil, attrDCBX, nil)), "DCBX: 0 bytes"},
		{append(slices.Clone(cut), 9, 0, 13, 0), "attribute 13 claims a length of 9, 4 bytes are there"},
		{append(slices.Clone(cut), 3, 0, 13, 0), "attribute 13 claims a length of 3"},
	} {
		if s, err := Decode(test.payload); err == nil || !strings.Contains(err.Error(), "a DCB reply is not understood: "+test.why) {
			t.Errorf("%x: %v, wanted %q", test.payload, err, test.why)
		} else if diff := cmp.Diff(State{}, s); diff != "" {
			t.Errorf("%x gives half a state: %s", test.payload, diff)
		}
	}
}

// recorded is a Conn that keeps what it was sent and answers with what was recorded.
type recorded struct {
	sent  []byte
	kind  uint16
	reply []byte
	err   error
}

func (r *recorded) Exchange(kind uint16, payload []byte) ([]byte, error) {
	r.kind, r.sent = kind, payload
	return r.reply, r.err
}

func TestGet(t *testing.T) {
	c := &recorded{reply: golden(t, "get-full")}
	s, err := Get(c, "lo")
	if err != nil || s.PFC == nil || *s.PFC != fullPFC {
		t.Errorf("%+v, %v", s, err)
	}
	if diff := cmp.Diff(golden(t, "dcb-pfc-show"), c.sent); diff != "" || c.kind != GetDCB {
		t.Errorf("sent as type %d: %s", c.kind, diff)
	}
	for _, test := range []struct {
		answer error
		is     error
		text   string
	}{
		{EOPNOTSUPP, ErrNoOperations, "reading DCB of lo: the driver has no DCB operations"},
		{ENODEV, ENODEV, "reading DCB of lo: no such network device"},
		{KernelError(71), KernelError(71), "reading DCB of lo: errno 71"},
	} {
		_, err := Get(&recorded{err: test.answer}, "lo")
		if !errors.Is(err, test.is) || err.Error() != test.text {
			t.Errorf("%v", err)
		}
	}
	if _, err := Get(&recorded{reply: []byte{0, 21}}, "lo"); err == nil || err.Error() != "reading DCB of lo: a DCB reply is not understood: the reply has 2 bytes" {
		t.Error(err)
	}
}

func TestGetClaims(t *testing.T) {
	c := &recorded{reply: golden(t, "capabilities")}
	claims, err := GetClaims(c, "dcbt0")
	if err != nil || claims != (Claims{PFC: true}) || c.kind != GetDCB {
		t.Errorf("%+v, %v", claims, err)
	}
	want := []byte{0, 11, 0, 0, 10, 0, 1, 0, 'd', 'c', 'b', 't', '0', 0, 0, 0, 8, 0, 9, 0x80, 4, 0, 1, 0}
	if diff := cmp.Diff(want, c.sent); diff != "" {
		t.Error(diff)
	}
	if _, err := GetClaims(&recorded{err: EOPNOTSUPP}, "eth0"); !errors.Is(err, EOPNOTSUPP) {
		t.Error(err)
	}
	for _, bad := range [][]byte{{0}, request(cmdGetCapabilities, "", appendAttribute(nil, attrCapabilities, []byte{1}))} {
		if claims, err := GetClaims(&recorded{reply: bad}, "eth0"); err == nil || claims != (Claims{}) {
			t.Errorf("%x: %+v, %v", bad, claims, err)
		}
	}
}

// answer is the kernel's reply to a change.
func answer(kind uint16, status int8) []byte {
	return appendAttribute([]byte{0, cmdIEEESet, 0, 0}, kind, []byte{byte(status)})
}

func TestMessages(t *testing.T) {
	for _, test := range []struct {
		name, netdev string
		message      Message
		text         string
	}{
		{"set-pfc", "dcbt0", SetPFC(fullPFC), "enable PFC on priorities 3 with delay 7"},
		{"set-ets", "dcbt0", SetETS(fullETS), "set the classes of priorities 0 to 7 to [0 1 2 3 4 5 6 7], their algorithms to [ets ets ets ets ets ets ets ets] and shares to [50 0 0 50 0 0 0 0]"},
		{"set-buffer", "dcbt0", SetBuffer(fullBuffer), "set the receive buffers to [130944 131072 4096 0 0 0 0 0] bytes and those of priorities 0 to 7 to [0 0 0 1 0 0 2 0]"},
		{"set-maxrate", "dcbt0", SetMaxRate(fullRate), "limit the traffic classes to [0 100000 0 255000000 0 0 0 8589934592] kbit/s"},
		{"set-trust", "dcbt0", SetTrustOrder(TrustOrder{DSCP, PCP}), "trust [dscp pcp]"},
		{"dcb-app-add", "lo", AddApp(App{DSCP, 26, 3}), "map dscp 26 to priority 3"},
		{"dcb-app-del", "lo", DeleteApp(App{DSCP, 26, 3}), "no longer map dscp 26 to priority 3"},
		{"dcb-dcbx-set", "lo", SetDCBX(DCBXHost | DCBXIEEE), "set DCBX to host ieee"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &recorded{reply: answer(test.message.kind, 0)}
			if err := Send(c, test.netdev, test.message); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(golden(t, test.name), c.sent); diff != "" || c.kind != SetDCB {
				t.Errorf("sent as type %d: %s", c.kind, diff)
			}
			if test.message.String() != test.text {
				t.Errorf("%q", test.message)
			}
		})
	}
}

// The kernel answers a change that failed with a message that succeeded.
func TestRefused(t *testing.T) {
	app, pfc, dcbx := AddApp(App{DSCP, 26, 3}), SetPFC(PFC{}), SetDCBX(DCBXLLDManaged)
	for _, test := range []struct {
		message Message
		reply   []byte
		answer  error
		is      error
		text    string
	}{
		{pfc, answer(attrIEEE, -22), nil, EINVAL, "eth0: disable PFC on all priorities with delay 0: refused: invalid argument (firmware or an LLDP agent may own DCBX"},
		{app, answer(attrIEEE, -17), nil, EEXIST, "eth0: map dscp 26 to priority 3: refused: the entry exists (somebody else added it"},
		{DeleteApp(App{DSCP, 26, 3}), answer(attrIEEE, -2), nil, ENOENT, "refused: no such entry (somebody else deleted"},
		{app, answer(attrIEEE, -22), nil, EINVAL, "a DSCP is at most 63"},
		{SetETS(ETS{}), answer(attrIEEE, -22), nil, EINVAL, "must add up to 100"},
		{SetBuffer(Buffer{}), answer(attrIEEE, -22), nil, EINVAL, "a buffer with PFC must hold"},
		{SetTrustOrder(nil), answer(attrIEEE, -95), nil, EOPNOTSUPP, "the driver or the device has no such operation"},
		{app, answer(attrIEEE, int8(-524&0xff-256)), nil, ENOMEM, "ENOTSUPP, 524"}, // as C turns -524 into a byte
		{pfc, answer(attrIEEE, -5), nil, EIO, "refused: input/output error"},
		{pfc, answer(attrIEEE, -128), nil, KernelError(128), "refused: errno 128"},
		{dcbx, answer(attrDCBX, 1), nil, nil, "eth0: set DCBX to lld-managed: refused (the driver refuses this mode"},
		{pfc, nil, EPERM, EPERM, "refused: operation not permitted (this needs CAP_NET_ADMIN"},
		{dcbx, nil, EOPNOTSUPP, EOPNOTSUPP, "no such operation"},
		{pfc, nil, ENODEV, ENODEV, "renamed or removed"},
	} {
		err := Send(&recorded{reply: test.reply, err: test.answer}, "eth0", test.message)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Netdev != "eth0" || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%v, wanted %q", err, test.text)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%v is no %v", err, test.is)
		}
	}
	broken := errors.New("the socket broke")
	for _, test := range []struct {
		c    recorded
		text string
	}{
		{recorded{err: broken}, "eth0: map dscp 26 to priority 3: the socket broke"},
		{recorded{reply: []byte{0}}, "eth0: map dscp 26 to priority 3: the reply has 1 bytes"},
		{recorded{reply: answer(attrDCBX, 0)}, "the reply does not say how it went"},
		{recorded{reply: appendAttribute([]byte{0, 20, 0, 0}, attrIEEE, nil)}, "the reply does not say how it went"},
	} {
		var refused *RefusedError
		if err := Send(&test.c, "eth0", app); err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%v, wanted %q", err, test.text)
		}
	}
	// ice answers what it took with its own 1 or 2.
	for _, status := range []int8{0, 1, 2} {
		if err := Send(&recorded{reply: answer(attrIEEE, status)}, "eth0", app); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Priorities(0).String():    "none",
		Priorities(0x88).String(): "3,7",
		DCBX(0).String():          "none",
		DCBX(0x2a).String():       "lld-managed ieee 0x20",
		TSA(7).String():           "7",
		Selector(9).String():      "9",
		Weighted.String():         "ets",
	} {
		if got != want {
			t.Errorf("%q, wanted %q", got, want)
		}
	}
	p := Priorities(1 << 3)
	if !p.Has(3) || p.Has(2) || p.Has(-1) || p.Has(8) || len(p.List()) != 1 {
		t.Error(p.List())
	}
}

// What is recorded is read again, in words where there are some.
func TestJSON(t *testing.T) {
	in := State{ETS: &fullETS, PFC: &fullPFC, Apps: []App{{DSCP, 26, 3}, {Selector(9), 1, 2}}, Buffer: &fullBuffer, MaxRate: &fullRate, TrustOrder: TrustOrder{DSCP, PCP}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{"selector":"dscp","protocol":26,"priority":3}`, `"TrustOrder":["dscp","pcp"]`, `"algorithms":["ets","ets"`, `"enabled":8`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	var out State
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`"tcp"`, `"256"`, `"-1"`} {
		var s Selector
		if err := json.Unmarshal([]byte(bad), &s); err == nil || !strings.Contains(err.Error(), `nor one of ["dgram-port" "dscp"`) {
			t.Errorf("%s: %v, %v", bad, s, err)
		}
	}
}
