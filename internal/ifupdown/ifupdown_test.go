package ifupdown

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// texts is a Tree of files by path.
type texts map[string]string

func (t texts) Read(p string) (string, error) {
	text, ok := t[p]
	if !ok {
		return "", fs.ErrNotExist
	}
	return text, nil
}

func (t texts) List(dir string) ([]string, error) {
	var names []string
	for p := range t {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (t texts) Glob(pattern string) []string {
	known := map[string]bool{}
	for p := range t {
		known[p], known[path.Dir(p)] = true, true
	}
	var matches []string
	for _, p := range slices.Sorted(maps.Keys(known)) {
		if ok, _ := path.Match(path.Clean(pattern), p); ok {
			matches = append(matches, p)
		}
	}
	return matches
}

// debian is the file that Debian installs, with a port added as its administrators do.
const debian = `# This file describes the network interfaces available on your system
# and how to activate them. For more information, see interfaces(5).

source /etc/network/interfaces.d/*

# The loopback network interface
auto lo
iface lo inet loopback

# The primary network interface
allow-hotplug eno1
iface eno1 inet dhcp
`

func TestLoad(t *testing.T) {
	got, err := Load(texts{
		InterfacesPath:                      debian + "auto rail0\niface rail0 inet static\n\taddress 198.18.0.17/31\n\tmtu \\\n  9000 \nno-scripts\n  hwaddress ether \nmapping eth*\n\tscript x\nrename a=b\niface",
		"/etc/network/interfaces.d/rail1":   "iface rail1 inet6 manual\n  mtu 4200\nsource-directory ../more\niface rail2 inherits rail1\niface rail3 inet inherits rail1\n",
		"/etc/network/more/rail4":           "iface rail4 inet static inherits rail2\n  #mtu 1\niface rail5 inet6 inherits rail1\n",
		"/etc/network/more/rail4.dpkg-old":  "iface old inet manual\n",
		"/etc/network/interfaces.d/cloud-x": "source $HOME/*\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	const dir = "/etc/network/interfaces.d/"
	mtu := []Option{{"mtu", "4200", dir + "rail1", 2}}
	want := Config{
		Interfaces: []Interface{
			{"rail1", "inet6", "manual", mtu, dir + "rail1", 1},
			{"rail4", "inet", "static", nil, "/etc/network/more/rail4", 1},
			{"rail5", "inet6", "manual", mtu, "/etc/network/more/rail4", 3},
			{"rail2", "inet6", "manual", mtu, dir + "rail1", 4},
			{"rail3", "inet", "", nil, dir + "rail1", 5},
			{"lo", "inet", "loopback", nil, InterfacesPath, 8},
			{"eno1", "inet", "dhcp", nil, InterfacesPath, 12},
			{"rail0", "inet", "static", []Option{{"address", "198.18.0.17/31", InterfacesPath, 15}, {"mtu", "9000", InterfacesPath, 16}, {"hwaddress", "ether", InterfacesPath, 19}}, InterfacesPath, 14},
		},
		Unread: []string{dir + "cloud-x:1: $HOME/*: a shell would expand it"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Load(texts{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Files that source each other end, and so do more files than anybody has.
func TestLoops(t *testing.T) {
	got, err := Load(texts{InterfacesPath: "source a\niface x inet manual\n", "/etc/network/a": "source /etc/network/interfaces\nsource b\n", "/etc/network/b": "source ./a\nsource a b\n"})
	if err != nil || len(got.Interfaces) != 1 || len(got.Unread) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = Load(endless{})
	if err != nil || len(got.Unread) != 1 || !strings.HasSuffix(got.Unread[0], "sourced more than 10 deep") {
		t.Errorf("%+v, %v", got, err)
	}
	many := texts{InterfacesPath: "source x/*\n"}
	for i := range 300 {
		many[fmt.Sprintf("/etc/network/x/%d", i)] = "iface r inet manual\n"
	}
	got, err = Load(many)
	if err != nil || len(got.Interfaces) != 199 || len(got.Unread) != 1 || !strings.HasSuffix(got.Unread[0], "more than 200 files") {
		t.Errorf("%d, %q, %v", len(got.Interfaces), got.Unread, err)
	}
}

// endless has a file under every name, which sources one with a longer name.
type endless struct{}

func (endless) Read(p string) (string, error)           { return fmt.Sprintf("source %sx\n", p), nil }
func (endless) Glob(pattern string) []string            { return []string{pattern} }
func (endless) List(string) (names []string, err error) { return nil, nil }

func TestState(t *testing.T) {
	const ifstate = "lo=lo\nrail0=rail0\neno1=work\n"
	for iface, want := range map[string]string{"rail0": "rail0", "eno1": "work", "rail1": "", "": ""} {
		if got, up := State(ifstate, iface); got != want || up != (want != "") {
			t.Errorf("%s: %q, %t", iface, got, up)
		}
	}
}

func TestMTU(t *testing.T) {
	for stanzas, want := range map[string]struct {
		mtu, line int
		err       string
	}{
		"iface r inet static\n mtu 9000\n":                                           {9000, 2, ""},
		"iface r inet manual\n mtu 9000\niface r inet6 static\n mtu 1500\n":          {9000, 2, ""}, // only IPv6's
		"iface r inet6 static\n mtu 1500\n":                                          {0, 0, ""},
		"iface r inet6 manual\n mtu 9000\n":                                          {9000, 2, ""}, // raises it
		"iface r inet static\n mtu 4200\niface r inet6 static\n mtu 9000\n":          {9000, 4, ""},
		"iface r inet dhcp\n mtu 9000\n":                                             {0, 0, ""}, // has none
		"iface other inet static\n mtu 9000\niface r inet static\n":                  {0, 0, ""},
		"iface r inet static\n mtu jumbo\n":                                          {0, 2, `line 2: MTU "jumbo" is no number`},
		"iface r inet static\n mtu 9000\n mtu 1500\n":                                {0, 3, "a second MTU in one stanza"},
		"iface r inet dhcp\n post-up ip link set dev r mtu 9000\n":                   {9000, 2, ""},
		"iface r inet dhcp\n up /sbin/ip link set $IFACE mtu 9000 up\n":              {9000, 2, ""},
		"iface r inet dhcp\n pre-up /sbin/ifconfig r mtu 9000\n":                     {9000, 2, ""},
		"iface r inet static\n mtu 1500\n up ip link set mtu 9000 dev \"$IFACE\"\n":  {9000, 3, ""},
		"iface r inet dhcp\n up ip route add default via 192.0.2.1 dev r mtu 1400\n": {0, 0, ""},
		"iface r inet dhcp\n down ip link set r mtu 1500\n":                          {0, 0, ""},
		"iface r inet dhcp\n up ip link set r mtu 9000 || true\n":                    {0, 2, "line 2: a command sets it: ip link set r mtu 9000 || true"},
		"iface r inet dhcp\n up ip link set r mtu $MTU\n":                            {0, 2, "a command sets it"},
		"iface r inet dhcp\n up ip link set r.100 mtu 9000\n":                        {0, 2, "a command sets it"},
		"iface r inet dhcp\n up /usr/local/sbin/set-mtu.sh\n":                        {0, 2, "a command sets it"},
		"iface r inet dhcp\n up ethtool -G r rx 8192\n up echo done\n":               {0, 0, ""},
	} {
		c, err := Load(texts{InterfacesPath: stanzas})
		if err != nil {
			t.Fatal(err)
		}
		mtu, at, err := c.MTU("r")
		if mtu != want.mtu || at.Line != want.line || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %d, line %d, %v", stanzas, mtu, at.Line, err)
		}
	}
}

// FuzzLoad: whatever stands in a file that is sourced, lines are lines of it, and the reading ends.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		debian, "iface r inet static\n mtu 9000\n", "source-directory interfaces.d\nsource a b c\n", "iface r inherits r\niface r inherits\n iface\n", "\\\n\\\n# \\\niface \\\nr inet manual\nmtu 1\\",
		"iface r inet dhcp\n up ip link set r mtu 9000\n up mtu\n", "auto\nallow-hotplug r\nmapping *\n script x\n map y\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Load(texts{InterfacesPath: "source /etc/network/x\n", "/etc/network/x": text})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(text, "\n") + 1
		for _, i := range c.Interfaces {
			if i.Name == "" || i.Line < 1 || i.Line > lines {
				t.Errorf("%+v", i)
			}
			mtu, at, err := c.MTU(i.Name)
			if mtu < 0 || at.Line > lines || (mtu > 0 || err != nil) != (at.Line > 0) {
				t.Errorf("%d, %+v, %v", mtu, at, err)
			}
		}
		State(text, "r")
	})
}
