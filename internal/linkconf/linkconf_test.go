package linkconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/confdir"
)

func TestParseSystemd(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []Setting
	}{
		"sections, comments, white space": {
			"\ufeff# c\n; c\nX=1\n[Match]\n  Name = rail0 \n[Link]\nMTUBytes=9000\r\n",
			[]Setting{{"Match", "Name", "rail0", "/f", 5}, {"Link", "MTUBytes", "9000", "/f", 7}},
		},
		"continued, with a comment between":           {"[Match]\nName=a \\\n# c\n b\nPath=x\n", []Setting{{"Match", "Name", "a   b", "/f", 2}, {"Match", "Path", "x", "/f", 5}}},
		"continued at the end":                        {"[Match]\nName=a\\", []Setting{{"Match", "Name", "a", "/f", 2}}},
		"a backslash that is escaped":                 {"[Match]\nName=a\\\\\nPath=x", []Setting{{"Match", "Name", `a\\`, "/f", 2}, {"Match", "Path", "x", "/f", 3}}},
		"no key, no =":                                {"[Link]\n=1\nMTUBytes\n", nil},
		"an empty value":                              {"[Match]\nName=\n", []Setting{{"Match", "Name", "", "/f", 2}}},
		"a header that is no header ends the reading": {"[Link]\nMTUBytes=1\n[Link\nMTUBytes=2\n", []Setting{{"Link", "MTUBytes", "1", "/f", 2}}},
		"bytes that are no UTF-8 too":                 {"[Link]\nMTUBytes=1\n\xff=1\nMTUBytes=2\n", []Setting{{"Link", "MTUBytes", "1", "/f", 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ParseSystemd(confdir.File{Path: "/f", Text: tt.text})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLinkMTU(t *testing.T) {
	for text, want := range map[string]MTU{
		"[Link]\nMTUBytes=9000":                           {9000, "/f", 2},
		"[Link]\nMTUBytes=9000\nMTUBytes=1500":            {1500, "/f", 3},
		"[Link]\nMTUBytes=9000\nMTUBytes=":                {9000, "/f", 2},
		"[Link]\nMTUBytes=9000\nMTUBytes=large":           {9000, "/f", 2},
		"[Link]\nMTUBytes=9000\nMTUBytes=-1":              {9000, "/f", 2},
		"[Link]\nMTUBytes=9000\nMTUBytes=0":               {},
		"[Link]\nMTUBytes=8K":                             {8192, "/f", 2},
		"[Link]\nMTUBytes=4 K":                            {4096, "/f", 2},
		"[Link]\nMTUBytes=1500B":                          {1500, "/f", 2},
		"[Link]\nMTUBytes=1M\n":                           {1 << 20, "/f", 2},
		"[Link]\nMTUBytes=4G\nMTUBytes=5000G":             {},
		"[Link]\nMTUBytes=9KK":                            {},
		"[Route]\nMTUBytes=9000\n[Network]\nMTUBytes=900": {},
		"": {},
	} {
		if got := LinkMTU(ParseSystemd(confdir.File{Path: "/f", Text: text})); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestTakesDHCPMTU(t *testing.T) {
	for text, want := range map[string]bool{
		"[DHCPv4]\nUseMTU=true":                      true,
		"[DHCP]\nRouteMetric=100\nUseMTU=yes":        true,
		"[DHCPv4]\nUseMTU=true\n[DHCP]\nUseMTU=no":   false,
		"[IPv6AcceptRA]\nUseMTU=true\n":              false,
		"[Network]\nDHCP=ipv4\n[DHCPv4]\nUseDNS=yes": false,
	} {
		if got := TakesDHCPMTU(ParseSystemd(confdir.File{Text: text})); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// networkdState is what networkd of systemd 255 wrote of a port that netplan set up.
const networkdState = `# This is private data. Do not parse.
ADMIN_STATE=configured
OPER_STATE=routable
CARRIER_STATE=carrier
ADDRESS_STATE=routable
NETWORK_FILE=/run/systemd/network/10-netplan-rail0.network
NETWORK_FILE_DROPINS="/etc/systemd/network/10-netplan-rail0.network.d/x.conf"
DNS=
`

func TestParseEnvironment(t *testing.T) {
	values := ParseEnvironment(confdir.File{Path: "/s", Text: networkdState + "A='x'\nA=y\nnothing\n=1\nB=\"\n"})
	for key, want := range map[string]Setting{
		"ADMIN_STATE":          {"", "ADMIN_STATE", "configured", "/s", 2},
		"NETWORK_FILE":         {"", "NETWORK_FILE", "/run/systemd/network/10-netplan-rail0.network", "/s", 6},
		"NETWORK_FILE_DROPINS": {"", "NETWORK_FILE_DROPINS", "/etc/systemd/network/10-netplan-rail0.network.d/x.conf", "/s", 7},
		"A":                    {"", "A", "y", "/s", 10},
		"B":                    {"", "B", `"`, "/s", 13},
		"nothing":              {},
	} {
		if values[key] != want {
			t.Errorf("%s: %+v, want %+v", key, values[key], want)
		}
	}
}

func TestParseConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want Connection
		err  string
	}{
		"as netplan makes it": {
			"[connection]\nid=netplan-rail0\ntype=ethernet\ninterface-name=rail0\n\n[ethernet]\nwake-on-lan=0\nmtu=9000\n\n[ipv4]\nmethod=auto\n",
			Connection{Device: "rail0", Type: "ethernet", MTU: MTU{9000, "/c", 8}}, "",
		},
		"with the older name":       {"[connection]\nuuid=u\ntype=802-3-ethernet\n[802-3-ethernet]\nmtu=4200", Connection{UUID: "u", Type: "ethernet", MTU: MTU{4200, "/c", 5}}, ""},
		"automatic":                 {"[connection]\nuuid=u\n[ethernet]\nmtu=0", Connection{UUID: "u", Type: "ethernet"}, ""},
		"InfiniBand":                {"[connection]\ntype=infiniband\n[ethernet]\nmtu=1\n[infiniband]\nmtu = 2044 ", Connection{Type: "infiniband", MTU: MTU{2044, "/c", 6}}, ""},
		"a bond":                    {"[connection]\ntype=bond\n[ethernet]\nmtu=9000\n[ipv6]\nmtu=1500", Connection{Type: "ethernet", MTU: MTU{9000, "/c", 4}}, ""},
		"that NetworkManager found": {"[connection]\ntype=ethernet\n[.nmmeta]\nnm-generated=true\n", Connection{Type: "ethernet", Generated: true}, ""},
		"no number":                 {"#[ethernet]\n[ethernet]\n#mtu=1\nmtu=jumbo", Connection{Type: "ethernet"}, `line 4: MTU "jumbo" is no number`},
	} {
		t.Run(name, func(t *testing.T) {
			checkConnection(t, ParseConnection(confdir.File{Path: "/c", Text: tt.text}), tt.want, tt.err)
		})
	}
}

func TestParseIfcfg(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want Connection
		err  string
	}{
		"plain":           {"TYPE=Ethernet\nBOOTPROTO=none\nUUID=u\nDEVICE=rail0\nONBOOT=yes\nMTU=9000\n", Connection{UUID: "u", Device: "rail0", Type: "ethernet", MTU: MTU{9000, "/c", 6}}, ""},
		"quoted":          {"DEVICE=\"ra\\il0\" # c\n MTU='9000' # jumbo\n#MTU=1\n", Connection{Device: "rail0", Type: "ethernet", MTU: MTU{9000, "/c", 2}}, ""},
		"none":            {"MTU=9000\nMTU=\n", Connection{Type: "ethernet"}, ""},
		"InfiniBand":      {"TYPE=InfiniBand\nMTU=2044", Connection{Type: "infiniband", MTU: MTU{2044, "/c", 2}}, ""},
		"a variable":      {"MTU=$JUMBO", Connection{Type: "ethernet"}, "line 1: a shell would expand the value"},
		"quoted variable": {"MTU='$JUMBO'", Connection{Type: "ethernet"}, "is no number"},
	} {
		t.Run(name, func(t *testing.T) {
			checkConnection(t, ParseIfcfg(confdir.File{Path: "/c", Text: tt.text}), tt.want, tt.err)
		})
	}
}

func checkConnection(t *testing.T, got, want Connection, err string) {
	t.Helper()
	if (got.Err == nil) != (err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), err) {
		t.Errorf("error %v, want %q", got.Err, err)
	}
	if got.Err = nil; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestParseState(t *testing.T) {
	for text, want := range map[string]State{
		"[device]\nmanaged=true\nconnection-uuid=u\nnm-owned=false\n": {Managed: true, Connection: "u"},
		"[device]\nmanaged=true\n":                                    {Managed: true},
		"[device]\nmanaged=false\nconnection-uuid=u\n":                {},
		"":                                    {},
		"managed=true\n[other]\nmanaged=true": {},
	} {
		if got := ParseState(confdir.File{Text: text}); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestDefaultMTU(t *testing.T) {
	file := func(path, text string) confdir.File { return confdir.File{Path: path, Text: text} }
	for name, tt := range map[string]struct {
		files []confdir.File
		want  MTU
		err   string
	}{
		"none":                       {[]confdir.File{file("/a", "[main]\nplugins=keyfile\n[connection]\nethernet.wake-on-lan=1\n")}, MTU{}, ""},
		"one":                        {[]confdir.File{file("/a", "[connection]\nethernet.mtu=9000\n")}, MTU{9000, "/a", 2}, ""},
		"the last file wins":         {[]confdir.File{file("/a", "[connection-x]\nethernet.mtu=9000\n"), file("/b", "[connection]\nethernet.mtu=4200")}, MTU{4200, "/b", 2}, ""},
		"[connection] is last":       {[]confdir.File{file("/a", "[connection]\nethernet.mtu=1\n[connection-x]\nethernet.mtu=2\n[connection-y]\nethernet.mtu=3")}, MTU{2, "/a", 4}, ""},
		"of another type":            {[]confdir.File{file("/a", "[connection]\ninfiniband.mtu=2044\n")}, MTU{}, ""},
		"for certain devices":        {[]confdir.File{file("/a", "[connection-x]\nmatch-device=driver:mlx5_core\nethernet.mtu=2\n")}, MTU{}, "/a:2: match-device is not evaluated"},
		"about another thing":        {[]confdir.File{file("/a", "[connection-x]\nmatch-device=type:wifi\nwifi.powersave=2\n[connection]\nethernet.mtu=9000")}, MTU{9000, "/a", 5}, ""},
		"stopped":                    {[]confdir.File{file("/a", "[connection]\nethernet.mtu=9000"), file("/b", "[connection-x]\nstop-match=yes\n")}, MTU{}, ""},
		"stopped for certain":        {[]confdir.File{file("/a", "[connection-x]\nstop-match=1\nmatch-device=*\n")}, MTU{}, "match-device is not evaluated"},
		"a file that cannot be read": {[]confdir.File{{Path: "/a", Reason: "permission denied"}}, MTU{}, "/a: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultMTU(tt.files, "ethernet")
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestNetplanID(t *testing.T) {
	for file, want := range map[string]string{
		"/run/systemd/network/10-netplan-rail0.network":                          "rail0",
		"/run/systemd/network/10-netplan-rail0.link":                             "rail0",
		"/run/systemd/network/10-netplan-all%20rails.network":                    "all rails",
		"/run/NetworkManager/system-connections/netplan-enp26s0np0.nmconnection": "enp26s0np0",
		"/run/systemd/network/10-netplan-50%.network":                            "50%",
		"/run/systemd/network/10-netplan-.network":                               "",
		"/etc/systemd/network/10-netplan-rail0.network":                          "",
		"/run/systemd/network/20-rail0.network":                                  "",
		"/run/NetworkManager/system-connections/rail0.nmconnection":              "",
		"": "",
	} {
		if got, made := NetplanID(file); got != want || made != (want != "") {
			t.Errorf("%s: %q, %t", file, got, made)
		}
	}
}

func TestNetplanSource(t *testing.T) {
	base := confdir.File{Path: "/etc/netplan/50-cloud-init.yaml", Text: "network:\n  version: 2\n  ethernets:\n    rail0:\n      match: {macaddress: '58:a2:e1:0c:1a:00'}\n      set-name: rail0\n    rail1: {dhcp4: true, mtu: 4200}\n"}
	mtu := confdir.File{Path: "/etc/netplan/60-mtu.yaml", Text: "network:\n  ethernets:\n    rail0:\n      mtu: 9000\n"}
	more := confdir.File{Path: "/etc/netplan/70-set.yaml", Text: "network: {ethernets: {rail0: {wakeonlan: true}}}"}
	alias := confdir.File{Path: "/etc/netplan/80-alias.yaml", Text: "network:\n  ethernets:\n    rail2: &r\n      mtu: 9000\n    rail3: *r\n  bonds: *r\n"}
	for name, tt := range map[string]struct {
		files []confdir.File
		id    string
		path  string
		line  int
	}{
		"the definition":           {[]confdir.File{base}, "rail0", base.Path, 4},
		"in one line":              {[]confdir.File{base}, "rail1", base.Path, 7},
		"the file with the MTU":    {[]confdir.File{base, mtu, more}, "rail0", mtu.Path, 4},
		"an alias":                 {[]confdir.File{alias}, "rail3", alias.Path, 4},
		"no such definition":       {[]confdir.File{base, mtu}, "rail9", "", 0},
		"an attribute is no id":    {[]confdir.File{base}, "version", "", 0},
		"broken, empty and unread": {[]confdir.File{{Path: "/a", Text: "network: ["}, {Path: "/b"}, {Path: "/c", Reason: "x"}, {Path: "/d", Text: "[1]"}, {Path: "/e", Text: "network: 3"}, base}, "rail0", base.Path, 4},
		"an alias of itself":       {[]confdir.File{{Path: "/a", Text: "network: &n\n  ethernets: *n\n"}, base}, "rail0", base.Path, 4},
	} {
		t.Run(name, func(t *testing.T) {
			if path, line := NetplanSource(tt.files, tt.id); path != tt.path || line != tt.line {
				t.Errorf("%s:%d, want %s:%d", path, line, tt.path, tt.line)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	rail := Device{Name: "rail0", MAC: "58a2e10c1a00", Path: "pci-0000:1a:00.0", Driver: "mlx5_core", Type: "ether"}
	renamed, bare := rail, Device{Name: "rail0"}
	renamed.Renamed = true
	for _, tt := range []struct {
		match  string
		device Device
		want   Verdict
	}{
		{"OriginalName=*", rail, Yes},
		{"OriginalName=rail0 rail1", rail, Yes},
		{"OriginalName=rail1\nOriginalName=ra*", rail, Yes},
		{"OriginalName=eth*", rail, No},
		{"OriginalName=eth*", renamed, Unclear},
		{"OriginalName=rail?", renamed, Yes},
		{"OriginalName=!rail0", rail, No},
		{"OriginalName=!eth*", rail, Yes},
		{"OriginalName=[!e]*", rail, Yes},
		{"OriginalName=[", rail, Unclear},
		{"OriginalName=eth0\nOriginalName=\nOriginalName=rail0", rail, Yes},
		{"MACAddress=58:a2:e1:0c:1a:00", rail, Yes},
		{"PermanentMACAddress=00:00:00:00:00:01 58-A2-E1-C-1A-0", rail, Yes},
		{"MACAddress=58a2.e10c.1a00", rail, Yes},
		{"MACAddress=58:a2:e1:0c:1a:01", rail, No},
		{"PermanentMACAddress=58:a2:e1:0c:1a:00", bare, Unclear},
		{"Path=pci-0000:1a:00.0", rail, Yes},
		{"Path=pci-0000:1a:*", rail, Yes},
		{"Path=*-usb-*", rail, No},
		{"Path=*-usb-*", bare, Unclear},
		{"Driver=\"mlx5_core\" ice", rail, Yes},
		{"Driver=veth", rail, No},
		{"Type=ether", rail, Yes},
		{"Type=infiniband", rail, No},
		{"Type=ether", bare, Unclear},
		{"Kind=veth", rail, No},
		{"Kind=!veth\nOriginalName=*", rail, Yes},
		{"Property=ID_NET_X=1", rail, Unclear},
		{"Property=ID_NET_X=1\nOriginalName=eth0", rail, No},
		{"OriginalName=*\nKernelVersion=>6", rail, Unclear},
		{"Host=gpu-01", rail, Unclear},
		{"Colour=red", rail, No},
		{"", rail, No},
		{"OriginalName=", rail, No},
	} {
		settings := ParseSystemd(confdir.File{Text: "[Match]\n" + tt.match + "\n[Link]\nOriginalName=no\n"})
		if got := Match(settings, tt.device); got != tt.want {
			t.Errorf("%q of %+v: %d, want %d", tt.match, tt.device, got, tt.want)
		}
	}
}

func TestApplied(t *testing.T) {
	file := func(path, match, link string) LinkFile {
		return LinkFile{Path: path, Settings: ParseSystemd(confdir.File{Path: path, Text: "[Match]\n" + match + "\n[Link]\n" + link + "\n"})}
	}
	all, jumbo := file("/99", "OriginalName=*", "NamePolicy=keep"), file("/50", "Path=pci-*", "MTUBytes=9000")
	for name, tt := range map[string]struct {
		files   []LinkFile
		decides string
		mtu     MTU
		doubt   string
	}{
		"none":                               {nil, "", MTU{}, ""},
		"the first that matches":             {[]LinkFile{file("/10", "OriginalName=eth0", "MTUBytes=1"), jumbo, all}, "/50", MTU{9000, "/50", 4}, ""},
		"says none":                          {[]LinkFile{all, jumbo}, "/99", MTU{}, ""},
		"doubt that changes nothing":         {[]LinkFile{file("/10", "Host=x", "Name=rail0"), file("/11", "Host=x", "MTUBytes=9000"), jumbo}, "/50", MTU{9000, "/50", 4}, "/10"},
		"doubt about files without an MTU":   {[]LinkFile{file("/10", "Host=x", "Name=rail0"), all}, "/99", MTU{}, ""},
		"doubt about a file with another":    {[]LinkFile{file("/10", "Host=x", "MTUBytes=4200"), all}, "/99", MTU{}, "/10"},
		"doubt behind the one that decides":  {[]LinkFile{jumbo, file("/60", "Host=x", "MTUBytes=4200")}, "/50", MTU{9000, "/50", 4}, ""},
		"a file that could not be read":      {[]LinkFile{{Path: "/10", Reason: "permission denied"}, all}, "/99", MTU{}, "/10: permission denied"},
		"one behind the one that decides":    {[]LinkFile{all, {Path: "/99x", Reason: "permission denied"}}, "/99", MTU{}, ""},
		"doubt, and nothing else is for it":  {[]LinkFile{file("/10", "Host=x", "MTUBytes=4200")}, "", MTU{}, "/10"},
		"no doubt where no MTU is in it":     {[]LinkFile{file("/10", "Host=x", "")}, "", MTU{}, ""},
		"a mask has no section and no match": {[]LinkFile{file("/10", "", "MTUBytes=4200"), all}, "/99", MTU{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			decides, mtu, doubt := Applied(tt.files, Device{Name: "rail0", Path: "pci-0000:1a:00.0"})
			if decides.Path != tt.decides || mtu != tt.mtu || !strings.Contains(doubt, tt.doubt) || (doubt == "") != (tt.doubt == "") {
				t.Errorf("%s, %+v, %q", decides.Path, mtu, doubt)
			}
		})
	}
}

// FuzzParse runs all parsers over one text: none panics, and what they say an MTU to be is one, with the line that has it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		networkdState, "[Match]\nOriginalName=*\n[Link]\nMTUBytes=9000\n", "[Match]\nPermanentMACAddress=58:a2:e1:0c:1a:00\n[Link]\nWakeOnLan=off\nMTUBytes=8K\\\n\n",
		"[connection]\ntype=ethernet\nuuid=u\n[ethernet]\nmtu=9000\n", "DEVICE=rail0\nMTU=\"9000\"\n", "[connection-a]\nmatch-device=*\nethernet.mtu=9000\n",
		"network:\n  ethernets:\n    rail0: &a\n      mtu: 9000\n    rail1: *a\n", "network: {ethernets: {rail0: {mtu: 9000}}}", "a: &a [*a]\n", "[Link]\nMTUBytes=18446744073709551615G", "[device]\nmanaged=true\nconnection-uuid=u\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := confdir.File{Path: "/f", Text: text}
		lines := strings.Count(text, "\n") + 1
		check := func(m MTU, err error) {
			if err == nil && (m.Bytes < 0 || (m.Bytes > 0) != (m.Path == "/f") || m.Line < 0 || m.Line > lines || (m.Bytes > 0) != (m.Line > 0)) {
				t.Errorf("%+v", m)
			}
		}
		settings := ParseSystemd(file)
		check(LinkMTU(settings), nil)
		TakesDHCPMTU(settings)
		d := Device{Name: "rail0", MAC: "58a2e10c1a00", Path: "pci-0000:1a:00.0", Driver: "mlx5_core", Type: "ether"}
		_, mtu, _ := Applied([]LinkFile{{Path: "/f", Settings: settings}}, d)
		check(mtu, nil)
		for _, c := range []Connection{ParseConnection(file), ParseIfcfg(file)} {
			check(c.MTU, c.Err)
		}
		check(DefaultMTU([]confdir.File{file}, "ethernet"))
		for _, s := range ParseEnvironment(file) {
			if s.Line < 1 || s.Line > lines {
				t.Errorf("%+v", s)
			}
		}
		ParseState(file)
		NetplanID(text)
		if path, line := NetplanSource([]confdir.File{file}, "rail0"); path != "" && line < 1 {
			t.Errorf("%s:%d", path, line)
		}
	})
}
