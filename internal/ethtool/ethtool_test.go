package ethtool

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// kernel answers an ioctl: it keeps what it was given and writes over it.
type kernel struct {
	netdev, given string
	answer        string // in hexadecimal
	err           error
}

func (k *kernel) Ioctl(netdev string, data []byte) error {
	k.netdev, k.given = netdev, hex.EncodeToString(data)
	answer, err := hex.DecodeString(k.answer)
	copy(data, answer)
	return errors.Join(k.err, err)
}

// The structs are those of a little-endian machine.
func littleEndian(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("written for a little-endian machine")
	}
}

func TestDriver(t *testing.T) {
	littleEndian(t)
	field := func(s string, size int) string {
		return hex.EncodeToString([]byte(s)) + strings.Repeat("00", size-len(s))
	}
	k := &kernel{answer: "03000000" + field("mlx5_core", 32) + field("6.8.0-45-generic", 32) + field("28.39.1002 (MT_0000000838)", 32)}
	d, err := GetDriver(k, "eth0")
	if err != nil || d != (Driver{Name: "mlx5_core", Firmware: "28.39.1002 (MT_0000000838)"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if k.netdev != "eth0" || len(k.given) != 2*196 || !strings.HasPrefix(k.given, "0300000000") {
		t.Errorf("%s: %s", k.netdev, k.given)
	}
	// A string that fills its field has no end, and need not be UTF-8.
	k.answer = "03000000" + field(strings.Repeat("x", 32), 32) + field("", 32) + "ff20" + field("", 30)
	if d, err := GetDriver(k, "eth0"); err != nil || d != (Driver{Name: strings.Repeat("x", 32), Firmware: "\ufffd"}) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestPause(t *testing.T) {
	littleEndian(t)
	for _, test := range []struct {
		p       Pause
		content string
		text    string
	}{
		{Pause{}, "000000000000000000000000", "rx off, tx off"},
		{Pause{Rx: true}, "000000000100000000000000", "rx on, tx off"},
		{Pause{Autonegotiate: true, Tx: true}, "010000000000000001000000", "rx off, tx on, autonegotiated"},
	} {
		k := &kernel{}
		if err := SetPause(k, "eth0", test.p); err != nil || k.given != "13000000"+test.content {
			t.Errorf("%s: %s, %v", test.text, k.given, err)
		}
		k.answer = "12000000" + test.content
		p, err := GetPause(k, "eth0")
		if err != nil || p != test.p || p.String() != test.text || k.given != "12000000000000000000000000000000" {
			t.Errorf("%s: %+v, %s, %v", test.text, p, k.given, err)
		}
	}
}

func TestPFCStormPrevention(t *testing.T) {
	littleEndian(t)
	k := &kernel{}
	if err := SetPFCStormPrevention(k, "eth0", StormPreventionAuto); err != nil || k.given != "49000000030000000200000002000000ffff" {
		t.Errorf("%s, %v", k.given, err)
	}
	k.answer = "480000000300000002000000020000006400"
	v, err := GetPFCStormPrevention(k, "eth0")
	if err != nil || v != 100 || k.given != "480000000300000002000000020000000000" {
		t.Errorf("%d, %s, %v", v, k.given, err)
	}
}

func TestErrors(t *testing.T) {
	refused := errors.New("operation not supported")
	k := &kernel{err: refused}
	_, driver := GetDriver(k, "eth0")
	_, pause := GetPause(k, "eth0")
	_, storm := GetPFCStormPrevention(k, "eth0")
	for text, err := range map[string]error{
		"reading the driver of eth0":                         driver,
		"reading pause of eth0":                              pause,
		"setting pause of eth0 to rx on, tx off":             SetPause(k, "eth0", Pause{Rx: true}),
		"reading the PFC storm prevention of eth0":           storm,
		"setting the PFC storm prevention of eth0 to 100 ms": SetPFCStormPrevention(k, "eth0", 100),
	} {
		if !errors.Is(err, refused) || err.Error() != text+": operation not supported" {
			t.Errorf("%v, wanted %q", err, text)
		}
	}
}

// Whatever a driver writes becomes text.
func FuzzDriver(f *testing.F) {
	f.Add("03000000")
	f.Add(strings.Repeat("ff", 196))
	f.Fuzz(func(t *testing.T, answer string) {
		d, err := GetDriver(&kernel{answer: answer}, "eth0")
		if err == nil && (!utf8.ValidString(d.Name) || !utf8.ValidString(d.Firmware) || strings.Contains(d.Name+d.Firmware, "\x00")) {
			t.Errorf("%q", d)
		}
	})
}
