package node_test

import (
	"testing"

	"busbar/node"
)

func TestParseNIC(t *testing.T) {
	for _, n := range []node.NIC{{Address: "0000:17:00.0", Port: 1}, {Address: "10000:17:00.0", Port: 12}} {
		address, port, ok := node.ParseNIC(n.String())
		if !ok || address != n.Address || port != n.Port {
			t.Errorf("%s: %q %d %t", n, address, port, ok)
		}
	}
	for _, bad := range []string{"", "/2", "0000:17:00.0/", "0000:17:00.0/1", "0000:17:00.0/0", "0000:17:00.0/-2", "0000:17:00.0/02", "0000:17:00.0/+2", "0000:17:00.0/2/3"} {
		if address, port, ok := node.ParseNIC(bad); ok {
			t.Errorf("%q: %q %d", bad, address, port)
		}
	}
}

func TestGIDAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0000:0000:0000:0000:0000:ffff:0a01:0102": "10.1.1.2",
		"fe80:0000:0000:0000:941c:9aff:fefe:f174": "fe80::941c:9aff:fefe:f174",
		"2001:0db8:0000:0001:0000:0000:0000:0002": "2001:db8:0:1::2",
		"nonsense": "invalid IP",
	} {
		if got := (node.GID{GID: text}).Address().String(); got != want {
			t.Errorf("%s: %s, wanted %s", text, got, want)
		}
	}
}

func TestParseRDMARate(t *testing.T) {
	for text, want := range map[string]node.RDMARate{
		"400 Gb/sec (4X NDR)":  {Mbps: 400_000, Width: 4, Speed: "NDR"},
		"2.5 Gb/sec (1X SDR)":  {Mbps: 2500, Width: 1, Speed: "SDR"},
		"10 Gb/sec (4X)":       {Mbps: 10_000, Width: 4},
		"40 Gb/sec (4X FDR10)": {Mbps: 40_000, Width: 4, Speed: "FDR10"},
	} {
		if got, ok := node.ParseRDMARate(text); !ok || got != want {
			t.Errorf("%q: %+v %t", text, got, ok)
		}
	}
	for _, bad := range []string{"", "400", "400 Gb/sec", "-1 Gb/sec (4X NDR)", "400 Gb/sec (4X NDR) ", "99999999999999999999 Gb/sec (4X NDR)", "2.25 Gb/sec (1X)"} {
		if got, ok := node.ParseRDMARate(bad); ok {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzParseRDMARate(f *testing.F) {
	f.Add("400 Gb/sec (4X NDR)")
	f.Add("2.5 Gb/sec (1X)")
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := node.ParseRDMARate(text); ok && (r.Mbps < 0 || r.Width < 0 || r.Mbps%500 != 0) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
