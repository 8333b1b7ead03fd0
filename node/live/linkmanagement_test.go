package live

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"busbar/node"

	"github.com/google/go-cmp/cmp"
)

// The notes of managers, as they write them.
const (
	networkdLink = `# This is private data. Do not parse.
ADMIN_STATE=configured
OPER_STATE=routable
CARRIER_STATE=carrier
ADDRESS_STATE=routable
IPV4_ADDRESS_STATE=routable
IPV6_ADDRESS_STATE=degraded
ONLINE_STATE=online
REQUIRED_FOR_ONLINE=yes
ACTIVATION_POLICY=up
NETWORK_FILE=%s
NETWORK_FILE_DROPINS=""
DNS=
NTP=
LLMNR=yes
MDNS=no
`
	networkManagerDevice = `[device]
managed=true
connection-uuid=7d0a2c5e-6c3b-4f0e-9d61-0a6f1d1f6f4e
nm-owned=false
route-metric-default-aspired=100
route-metric-default-effective=100
`
	udevDatabase = `I:5261843
E:ID_NET_NAMING_SCHEME=v255
E:ID_NET_NAME_MAC=enx58a2e10c1a00
E:ID_PATH=pci-0000:17:00.0
E:ID_NET_DRIVER=mlx5_core
E:ID_NET_LINK_FILE=/usr/lib/systemd/network/99-default.link
G:systemd
Q:systemd
V:1
`
)

// What systemd installs.
const defaultLink = "/usr/lib/systemd/network/99-default.link"

// managedTree is a running node whose port is eth0, with index 3.
func managedTree(more map[string]string) map[string]string {
	m := railTree(map[string]string{
		"sys/class/net/eth0/ifindex": "3\n", "sys/class/net/eth0/name_assign_type": "4\n",
		"run/udev/data/n3":                       udevDatabase,
		defaultLink:                              "#  SPDX-License-Identifier: MIT-0\n[Match]\nOriginalName=*\n\n[Link]\nNamePolicy=keep kernel database onboard slot path\nMACAddressPolicy=persistent\n",
		"usr/lib/systemd/network/80-vm-vt.link":  "[Match]\nProperty=ID_NET_DRIVER=tun\n[Link]\nName=x\n",
		"usr/lib/systemd/network/73-usb-by.link": "[Match]\nPath=*-usb-*\n[Link]\nMTUBytes=1400\n",
	})
	maps.Copy(m, more)
	return m
}

// noUdev is a port of which no .link file says an MTU.
func noUdev() node.LinkManager {
	return node.LinkManager{Name: node.ManagerUdev, File: defaultLink, MTU: node.Known(0, node.Source{Path: defaultLink})}
}

func TestLinkManagement(t *testing.T) {
	networkd := func(file string) map[string]string {
		return map[string]string{"run/systemd/netif/links/3": fmt.Sprintf(networkdLink, file)}
	}
	with := func(maps_ ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range maps_ {
			maps.Copy(all, m)
		}
		return managedTree(all)
	}
	says := func(name, file string, mtu int, path string, line int) node.LinkManager {
		return node.LinkManager{Name: name, File: file, MTU: node.Known(mtu, node.Source{Path: path, Line: line})}
	}
	made := func(m node.LinkManager, line int) node.LinkManager {
		m.Netplan = node.Source{Path: "/etc/netplan/50-rails.yaml", Line: line}
		return m
	}
	const (
		network    = "/etc/systemd/network/10-rail.network"
		generated  = "/run/systemd/network/10-netplan-eth0"
		connection = "/etc/NetworkManager/system-connections/eth0.nmconnection"
		netplanned = "/run/NetworkManager/system-connections/netplan-eth0.nmconnection"
		ifcfg      = "/etc/sysconfig/network-scripts/ifcfg-eth0"
		uuid       = "uuid=7d0a2c5e-6c3b-4f0e-9d61-0a6f1d1f6f4e"
		yaml       = "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    eth0:\n      addresses: [198.18.0.17/31]\n      mtu: 9000\n"
	)
	device := map[string]string{"run/NetworkManager/devices/3": networkManagerDevice}
	ifstate := map[string]string{"run/network/ifstate": "lo=lo\neth0=eth0\n"}
	for name, tt := range map[string]struct {
		entries  map[string]string
		managers []node.LinkManager
		udev     node.LinkManager
		reason   string // of the first manager's MTU, or of udev's without one
	}{
		"nobody": {entries: with(), udev: noUdev()},
		"networkd": {
			entries:  with(networkd(network), map[string]string{network: "[Match]\nName=eth0\n\n[Link]\nMTUBytes=9000\n"}),
			managers: []node.LinkManager{says("networkd", network, 9000, network, 5)}, udev: noUdev(),
		},
		"networkd, none said": {
			entries:  with(networkd(network), map[string]string{network: "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n"}),
			managers: []node.LinkManager{says("networkd", network, 0, network, 0)}, udev: noUdev(),
		},
		"networkd, a drop-in that hides its namesake": {
			entries: with(networkd(network), map[string]string{network: "[Match]\nName=eth0\n[Link]\nMTUBytes=1500\n",
				"run/systemd/network/10-rail.network.d/50-mtu.conf": "[Link]\nMTUBytes=4200\n", network + ".d/50-mtu.conf": "[Link]\n# jumbo\nMTUBytes=9000\n"}),
			managers: []node.LinkManager{says("networkd", network, 9000, network+".d/50-mtu.conf", 3)}, udev: noUdev(),
		},
		"networkd, of DHCP": {
			entries: with(networkd(network), map[string]string{network: "[Match]\nName=eth0\n[DHCPv4]\nUseMTU=true\n",
				"run/systemd/netif/leases/3": "# This is private data. Do not parse.\nADDRESS=192.0.2.9\nNETMASK=255.255.255.0\nMTU=1450\n"}),
			managers: []node.LinkManager{says("networkd", network, 1450, "/run/systemd/netif/leases/3", 4)}, udev: noUdev(),
		},
		"networkd, of DHCP that says none": {
			entries: with(networkd(network), map[string]string{network: "[Match]\nName=eth0\n[DHCPv4]\nUseMTU=true\n",
				"run/systemd/netif/leases/3": "ADDRESS=192.0.2.9\n"}),
			managers: []node.LinkManager{says("networkd", network, 0, network, 0)}, udev: noUdev(),
		},
		"networkd does not manage it": {
			entries: with(map[string]string{"run/systemd/netif/links/3": "ADMIN_STATE=unmanaged\nOPER_STATE=routable\n", "run/NetworkManager/devices/3": "[device]\nmanaged=false\n", "run/network/ifstate": "lo=lo\n"}),
			udev:    noUdev(),
		},
		"networkd, unmanaged by its file": {
			entries: with(map[string]string{"run/systemd/netif/links/3": "ADMIN_STATE=unmanaged\nNETWORK_FILE=" + network + "\n"}), udev: noUdev(),
		},
		"networkd, its file is gone": {
			entries:  with(networkd(network)),
			managers: []node.LinkManager{{Name: "networkd", File: network}}, udev: noUdev(), reason: "no such file",
		},
		"networkd, its file is elsewhere": {
			entries:  with(networkd("/etc/shadow"), map[string]string{"etc/shadow": "[Link]\nMTUBytes=9000\n"}),
			managers: []node.LinkManager{{Name: "networkd", File: "/etc/shadow"}}, udev: noUdev(), reason: "is in no directory of networkd's",
		},
		"networkd, its file is larger than any": {
			entries:  with(networkd(network), map[string]string{network: strings.Repeat("#", maxFile+1)}),
			managers: []node.LinkManager{{Name: "networkd", File: network}}, udev: noUdev(), reason: "larger than 1 MiB",
		},
		"networkd, its file is a loop of links": {
			entries:  with(networkd(network), map[string]string{network: "-> 10-rail.network"}),
			managers: []node.LinkManager{{Name: "networkd", File: network}}, udev: noUdev(), reason: "loop",
		},
		"netplan and networkd": {
			entries: with(networkd(generated+".network"), map[string]string{
				generated + ".network":        "[Match]\nName=eth0\n\n[Link]\nMTUBytes=9000\n\n[Network]\nLinkLocalAddressing=ipv6\nAddress=198.18.0.17/31\n",
				generated + ".link":           "[Match]\nOriginalName=eth0\n\n[Link]\nWakeOnLan=off\nMTUBytes=9000\n",
				"etc/netplan/50-rails.yaml":   yaml,
				"etc/netplan/60-wake.yaml":    "network: {ethernets: {eth0: {wakeonlan: false}}}\n",
				"etc/netplan/broken.yaml":     "network: [\n",
				"etc/netplan/00-default.yaml": "network: {version: 2}\n",
			}),
			managers: []node.LinkManager{made(says("networkd", generated+".network", 9000, generated+".network", 5), 7)},
			udev:     made(says("udev", generated+".link", 9000, generated+".link", 6), 7),
		},
		"netplan, whose YAML is gone": {
			entries: with(networkd(generated+".network"), map[string]string{generated + ".network": "[Match]\nName=eth0\n"}),
			managers: []node.LinkManager{{Name: "networkd", File: generated + ".network", MTU: node.Known(0, node.Source{Path: generated + ".network"}),
				Netplan: node.Source{Path: "/etc/netplan"}}}, udev: noUdev(),
		},
		"netplan and NetworkManager": {
			entries: with(device, map[string]string{
				netplanned:                  "[connection]\nid=netplan-eth0\ntype=ethernet\n" + uuid + "\ninterface-name=eth0\n\n[ethernet]\nwake-on-lan=0\nmtu=9000\n",
				"etc/netplan/50-rails.yaml": strings.Replace(yaml, "networkd", "NetworkManager", 1),
			}),
			managers: []node.LinkManager{made(says("NetworkManager", netplanned, 9000, netplanned, 9), 7)}, udev: noUdev(),
		},
		"NetworkManager, a key file": {
			entries: with(device, map[string]string{
				connection: "[connection]\nid=eth0\n" + uuid + "\ntype=ethernet\n\n[ethernet]\nmtu=4200\n",
				"etc/NetworkManager/system-connections/other.nmconnection":   "[connection]\nuuid=x\ninterface-name=eth0\n[ethernet]\nmtu=1\n",
				"etc/NetworkManager/system-connections/backup~":              "[connection]\n" + uuid + "\n[ethernet]\nmtu=2\n",
				"usr/lib/NetworkManager/system-connections/vendor":           "[connection]\n" + uuid + "\n[ethernet]\nmtu=3\n",
				"usr/lib/NetworkManager/system-connections/eth.nmconnection": "[connection]\n" + uuid + "\n[ethernet]\nmtu=4\n",
			}),
			managers: []node.LinkManager{says("NetworkManager", connection, 4200, connection, 7)}, udev: noUdev(),
		},
		"NetworkManager, /run wins": {
			entries: with(device, map[string]string{
				connection: "[connection]\n" + uuid + "\n[ethernet]\nmtu=4200\n", "run/NetworkManager/system-connections/eth0.nmconnection": "[connection]\n" + uuid + "\n[ethernet]\nmtu=9000\n",
			}),
			managers: []node.LinkManager{says("NetworkManager", "/run/NetworkManager/system-connections/eth0.nmconnection", 9000, "/run/NetworkManager/system-connections/eth0.nmconnection", 4)}, udev: noUdev(),
		},
		"NetworkManager, the default": {
			entries: with(device, map[string]string{
				connection:                               "[connection]\n" + uuid + "\ntype=ethernet\n[ethernet]\n",
				"etc/NetworkManager/NetworkManager.conf": "[main]\nplugins=keyfile\n[connection]\nethernet.mtu=1500\n",
				"etc/NetworkManager/conf.d/mtu.conf":     "[connection]\nethernet.mtu=9000\n",
				"usr/lib/NetworkManager/conf.d/mtu.conf": "[connection]\nethernet.mtu=1\n",
			}),
			managers: []node.LinkManager{says("NetworkManager", connection, 9000, "/etc/NetworkManager/conf.d/mtu.conf", 2)}, udev: noUdev(),
		},
		"NetworkManager, a default for some": {
			entries: with(device, map[string]string{
				connection:                               "[connection]\n" + uuid + "\n",
				"run/NetworkManager/conf.d/10-mtu.conf":  "[connection-mlx]\nmatch-device=driver:mlx5_core\nethernet.mtu=9000\n",
				"etc/NetworkManager/NetworkManager.conf": "[main]\n",
			}),
			managers: []node.LinkManager{{Name: "NetworkManager", File: connection}}, udev: noUdev(), reason: "/run/NetworkManager/conf.d/10-mtu.conf:2: match-device is not evaluated",
		},
		"NetworkManager, found set up by another": {
			entries: with(device, map[string]string{
				"run/NetworkManager/system-connections/eth0.nmconnection": "[connection]\n" + uuid + "\n[ethernet]\nmtu=1500\n[.nmmeta]\nnm-generated=true\n",
			}),
			managers: []node.LinkManager{says("NetworkManager", "/run/NetworkManager/system-connections/eth0.nmconnection", 0, "/run/NetworkManager/system-connections/eth0.nmconnection", 0)}, udev: noUdev(),
		},
		"NetworkManager, no connection": {
			entries:  with(map[string]string{"run/NetworkManager/devices/3": "[device]\nmanaged=true\n"}),
			managers: []node.LinkManager{says("NetworkManager", "", 0, "/run/NetworkManager/devices/3", 0)}, udev: noUdev(),
		},
		"NetworkManager, no file": {
			entries:  with(device),
			managers: []node.LinkManager{{Name: "NetworkManager"}}, udev: noUdev(), reason: "no file has connection 7d0a2c5e",
		},
		"NetworkManager, two files": {
			entries:  with(device, map[string]string{connection: "[connection]\n" + uuid + "\n[ethernet]\nmtu=4200\n", "etc/NetworkManager/system-connections/copy": "[connection]\n" + uuid + "\n"}),
			managers: []node.LinkManager{{Name: "NetworkManager", File: "/etc/NetworkManager/system-connections/copy"}}, udev: noUdev(),
			reason: connection + " has connection 7d0a2c5e-6c3b-4f0e-9d61-0a6f1d1f6f4e too, with another MTU",
		},
		"NetworkManager, ifcfg": {
			entries: with(device, map[string]string{
				ifcfg: "TYPE=Ethernet\nBOOTPROTO=none\nNAME=eth0\nUUID=7d0a2c5e-6c3b-4f0e-9d61-0a6f1d1f6f4e\nDEVICE=eth0\nONBOOT=yes\nMTU=9000\n",
				"etc/sysconfig/network-scripts/ifcfg-eth0.rpmsave": "UUID=7d0a2c5e-6c3b-4f0e-9d61-0a6f1d1f6f4e\nMTU=1\n",
				"etc/sysconfig/network-scripts/ifup-eth":           "MTU=2\n",
			}),
			managers: []node.LinkManager{says("NetworkManager", ifcfg, 9000, ifcfg, 7)}, udev: noUdev(),
		},
		"NetworkManager, ifcfg without a UUID": {
			entries:  with(device, map[string]string{ifcfg: "DEVICE=eth0\n", "etc/sysconfig/network-scripts/ifcfg-lo": "DEVICE=lo\n"}),
			managers: []node.LinkManager{says("NetworkManager", ifcfg, 0, ifcfg, 0)}, udev: noUdev(),
		},
		"ifupdown, source-directory": {
			entries: with(ifstate, map[string]string{
				"etc/network/interfaces":           "source-directory interfaces.d\n\nauto lo\niface lo inet loopback\n",
				"etc/network/interfaces.d/rails":   "auto eth0\niface eth0 inet static\n  address 198.18.0.17/31\n  mtu 9000\n",
				"etc/network/interfaces.d/old.bak": "iface eth0 inet static\n  mtu 1500\n",
			}),
			managers: []node.LinkManager{says("ifupdown", "/etc/network/interfaces.d/rails", 9000, "/etc/network/interfaces.d/rails", 4)}, udev: noUdev(),
		},
		"ifupdown, source and links": {
			entries: with(ifstate, map[string]string{
				"etc/network/interfaces":              "source /etc/network/interfaces.d/*\nsource /proc/*/*\nsource /etc/network/[x\nsource loop/a\n",
				"etc/network/interfaces.d/50-cloud":   "-> ../../opt/cloud",
				"etc/network/interfaces.d/.hidden":    "iface eth0 inet static\n  mtu 1\n",
				"etc/opt/cloud":                       "iface eth0 inet dhcp\n  post-up ip link set dev eth0 mtu 9000\n",
				"etc/network/interfaces.d/directory/": "",
				"etc/network/loop":                    "-> .",
				"etc/network/a":                       "source loop/a\nsource loop/loop/a\n",
			}),
			managers: []node.LinkManager{says("ifupdown", "/etc/network/interfaces.d/50-cloud", 9000, "/etc/network/interfaces.d/50-cloud", 2)}, udev: noUdev(),
		},
		"ifupdown, none said and not all read": {
			entries: with(ifstate, map[string]string{
				"etc/network/interfaces": "iface eth0 inet dhcp\nsource /etc/network/x\n", "etc/network/x": "\xff",
			}),
			managers: []node.LinkManager{{Name: "ifupdown", File: "/etc/network/interfaces"}}, udev: noUdev(), reason: "/etc/network/interfaces:2: /etc/network/x: is not valid UTF-8",
		},
		"ifupdown, another logical interface": {
			entries:  with(map[string]string{"run/network/ifstate": "eth0=work\n", "etc/network/interfaces": "iface eth0 inet static\n mtu 1500\niface work inet static\n mtu 9000\n"}),
			managers: []node.LinkManager{says("ifupdown", "/etc/network/interfaces", 9000, "/etc/network/interfaces", 4)}, udev: noUdev(),
		},
		"ifupdown, a program": {
			entries:  with(ifstate, map[string]string{"etc/network/interfaces": "iface eth0 inet dhcp\n up /sbin/mtu.sh\n"}),
			managers: []node.LinkManager{{Name: "ifupdown", File: "/etc/network/interfaces"}}, udev: noUdev(), reason: "line 2: a command sets it",
		},
		"ifupdown, no configuration": {
			entries:  with(ifstate),
			managers: []node.LinkManager{{Name: "ifupdown", File: "/etc/network/interfaces"}}, udev: noUdev(), reason: "no such file",
		},
		"two": {
			entries:  with(networkd(network), ifstate, map[string]string{network: "[Match]\nName=eth0\n", "etc/network/interfaces": "iface eth0 inet manual\n"}),
			managers: []node.LinkManager{says("networkd", network, 0, network, 0), says("ifupdown", "/etc/network/interfaces", 0, "/etc/network/interfaces", 0)}, udev: noUdev(),
		},
		"a .link file": {
			entries: with(map[string]string{"etc/systemd/network/10-rail.link": "[Match]\nPermanentMACAddress=58:a2:e1:0c:1a:00\n[Link]\nName=eth0\n", "etc/systemd/network/10-rail.link.d/mtu.conf": "[Link]\nMTUBytes=9000\n"}),
			udev:    says("udev", "/etc/systemd/network/10-rail.link", 9000, "/etc/systemd/network/10-rail.link.d/mtu.conf", 2),
		},
		".link files of others, one of them masked": {
			entries: with(map[string]string{
				"etc/systemd/network/10-a.link": "[Match]\nPath=pci-0000:18:*\n[Link]\nMTUBytes=1\n", "etc/systemd/network/10-b.link": "[Match]\nDriver=ice\n[Link]\nMTUBytes=2\n",
				"etc/systemd/network/10-c.link": "-> /dev/null", "usr/lib/systemd/network/10-c.link": "[Match]\nOriginalName=*\n[Link]\nMTUBytes=3\n",
			}),
			udev: noUdev(),
		},
		"a .link file that hangs on the original name": {
			entries: with(map[string]string{"etc/systemd/network/10-eth.link": "[Match]\nOriginalName=eth7\n[Link]\nMTUBytes=9000\n"}),
			udev:    node.LinkManager{Name: "udev", File: defaultLink}, reason: "whether /etc/systemd/network/10-eth.link is for it hangs on more than can be read",
		},
		"a .link file that cannot be read": {
			entries: with(map[string]string{"etc/systemd/network/10-eth.link": "\xff"}),
			udev:    node.LinkManager{Name: "udev", File: defaultLink}, reason: "/etc/systemd/network/10-eth.link: is not valid UTF-8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := ask(t, tree(t, tt.entries), node.LinkManagement, rail)
			got, ok := v.Get()
			if !ok {
				t.Fatal(v.Reason())
			}
			if tt.reason != "" {
				in := &got.Udev
				if len(tt.managers) > 0 {
					in = &got.Managers[0]
				}
				if unknownAs(t, in.MTU, tt.reason); in.MTU.Source().Path == "" {
					t.Error("no source")
				}
				in.MTU = node.Value[int]{}
			}
			want := node.LinkManagementState{Netdev: "eth0", Managers: tt.managers, Udev: tt.udev}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(node.Value[int]{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A port of a bond has managers of its own, and those of the bond.
func TestLinkManagementOfBondPort(t *testing.T) {
	const port, bond = "/etc/systemd/network/10-port.network", "/etc/systemd/network/20-bond.network"
	root := tree(t, managedTree(map[string]string{
		"sys/class/net/eth0/master": "-> ../bond0", "sys/class/net/bond0/bonding/mode": "802.3ad 4\n", "sys/class/net/bond0/type": "1\n", "sys/class/net/bond0/ifindex": "9\n",
		"run/systemd/netif/links/3": fmt.Sprintf(networkdLink, port), "run/systemd/netif/links/9": fmt.Sprintf(networkdLink, bond),
		port: "[Match]\nName=eth0\n[Network]\nBond=bond0\n", bond: "[Match]\nName=bond0\n[Link]\nMTUBytes=9000\n",
	}))
	got, ok := ask(t, root, node.LinkManagement, rail).Get()
	want := node.LinkManagementState{
		Netdev: "eth0", Managers: []node.LinkManager{{Name: "networkd", File: port, MTU: node.Known(0, node.Source{Path: port})}}, Udev: noUdev(),
		Bond: "bond0", BondManagers: []node.LinkManager{{Name: "networkd", File: bond, MTU: node.Known(9000, node.Source{Path: bond, Line: 4})}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(node.Value[int]{})); !ok || diff != "" {
		t.Error(diff)
	}
}

// Of the representors at a port the inventory tells its own network device; what has none or cannot be read is unknown.
func TestLinkManagementUnknown(t *testing.T) {
	representor := netTree("aep0", "1", "../../../"+rail, map[string]string{"ifindex": "4\n"})
	root := tree(t, managedTree(nil), representor)
	unknownAs(t, ask(t, root, node.LinkManagement, rail), "the port has several network devices: aep0, eth0")
	inv := node.Inventory{
		PCI:     node.Known([]node.PCIFunction{{Address: rail, Class: "020000"}}, node.Source{}),
		Netdevs: node.Known([]node.Netdev{{Name: "aep0"}, {Name: "eth0", PCI: rail, Port: 1}}, node.Source{}),
	}
	facts := New(Options{Root: root, Running: true}).Read(context.Background(), inv, []node.Query{node.LinkManagement.Query(rail)})
	if state, ok := node.LinkManagement.Get(facts, rail).Get(); !ok || state.Netdev != "eth0" {
		t.Errorf("%+v", node.LinkManagement.Get(facts, rail))
	}
	unknownAs(t, ask(t, root, node.LinkManagement, rail+"/2"), "has made no network device for port 2")
	unknownAs(t, ask(t, root, node.LinkManagement, "../../etc"), "is not a NIC's PCI address")
	unknownAs(t, ask(t, tree(t, railTree(nil)), node.LinkManagement, rail), "the index of eth0: no such file")
	unknownAs(t, ask(t, tree(t, managedTree(map[string]string{"run/systemd/netif/links/3/": ""})), node.LinkManagement, rail), "/run/systemd/netif/links/3: is a directory")
	unknownAs(t, get(t, New(Options{Root: root}), node.LinkManagement, rail), "not read: --root")
}
