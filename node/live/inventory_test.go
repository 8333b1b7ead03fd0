package live

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	"busbar/node"

	"github.com/google/go-cmp/cmp"
)

// function is a PCI function of a made-up sysfs: where it hangs and its attributes.
type function struct {
	above      string // path of bridges below /sys/devices
	address    string
	ids        string // VENDOR DEVICE SUBVENDOR SUBDEVICE CLASS
	numa       string
	driver     string
	physfn     string
	noModalias bool
}

func pciTree(functions ...function) map[string]string {
	m := map[string]string{}
	for _, f := range functions {
		dir := "sys/devices/" + path.Join(f.above, f.address)
		m["sys/bus/pci/devices/"+f.address] = "-> ../../../devices/" + path.Join(f.above, f.address)
		v, d, sv, sd, c := f.ids[0:4], f.ids[5:9], f.ids[10:14], f.ids[15:19], f.ids[20:26]
		m[dir+"/vendor"], m[dir+"/device"], m[dir+"/class"] = "0x"+v+"\n", "0x"+d+"\n", "0x"+c+"\n"
		m[dir+"/subsystem_vendor"], m[dir+"/subsystem_device"] = "0x"+sv+"\n", "0x"+sd+"\n"
		if !f.noModalias {
			m[dir+"/modalias"] = "pci:v0000" + v + "d0000" + d + "sv0000" + sv + "sd0000" + sd + "bc" + c[:2] + "sc" + c[2:4] + "i" + c[4:] + "\n"
		}
		if f.numa != "" {
			m[dir+"/numa_node"] = f.numa + "\n"
		}
		if f.driver != "" {
			m[dir+"/driver"] = "-> ../../../../bus/pci/drivers/" + f.driver
		}
		if f.physfn != "" {
			m[dir+"/physfn"] = "-> ../" + f.physfn
		}
	}
	return m
}

// netTree is a network device; device is the target of its device link, empty for a virtual one.
func netTree(name, kind, device string, more map[string]string) map[string]string {
	dir := "sys/class/net/" + name + "/"
	m := map[string]string{dir + "type": kind + "\n", dir + "flags": "0x1003\n", dir + "dev_port": "0\n"}
	if device != "" {
		m[dir+"device"] = "-> " + device
	}
	for k, v := range more {
		m[dir+k] = v
	}
	return m
}

func inventory(t testing.TB, opts Options, entries ...map[string]string) node.Inventory {
	t.Helper()
	opts.Root, opts.Running = tree(t, entries...), true
	return New(opts).Inventory(context.Background())
}

var gpuNode = slices.Concat([]map[string]string{
	pciTree(
		function{above: "pci0000:15", address: "0000:15:01.0", ids: "8086 352a 0000 0000 060400", numa: "0", driver: "pcieport"},
		function{above: "pci0000:15/0000:15:01.0", address: "0000:16:00.0", ids: "10de 2330 10de 16c1 030200", numa: "0", driver: "nvidia"},
		function{above: "pci0000:15/0000:15:01.0", address: "0000:17:00.0", ids: "15b3 1021 15b3 0023 020700", numa: "-1", driver: "mlx5_core", noModalias: true},
		function{above: "pci0000:80", address: "0000:80:00.0", ids: "15b3 101d 15b3 0016 020000", numa: "1", driver: "mlx5_core"},
		function{above: "pci0000:80", address: "0000:80:00.2", ids: "15b3 101e 15b3 0016 020000", numa: "1", physfn: "0000:80:00.0"},
		function{above: "pci0000:80", address: "0000:81:00.0", ids: "1af4 1041 1af4 0001 020000"},
	),
	netTree("lo", "772", "", nil),
	netTree("ib0", "32", "../../../0000:17:00.0", nil),
	netTree("eth0", "1", "../../../0000:80:00.0", map[string]string{"address": "AA:bb:cc:00:00:01\n"}),
	netTree("eth1", "1", "../../../0000:80:00.0", map[string]string{"dev_port": "1\n", "flags": "0x1002\n"}),
	netTree("vnet", "1", "../../../virtio3", nil),
	netTree("usb0", "1", "../../../1-1:1.0", nil),
	netTree("bond0", "1", "", map[string]string{"lower_eth0": "-> ../eth0", "lower_eth1": "-> ../eth1", "bonding/slaves": "eth0 eth1\n"}),
	netTree("bond0.100", "1", "", map[string]string{"lower_bond0": "-> ../bond0"}),
	{
		"sys/class/net/bonding_masters":                              "bond0\n",
		"sys/bus/virtio/devices/virtio3":                             "-> ../../../devices/pci0000:80/0000:81:00.0/virtio3",
		"sys/class/infiniband/mlx5_0/device":                         "-> ../../../0000:17:00.0",
		"sys/class/infiniband/mlx5_0/ports/1/link_layer":             "InfiniBand\n",
		"sys/class/infiniband/mlx5_bond_0/device":                    "-> ../../../0000:80:00.0",
		"sys/class/infiniband/mlx5_bond_0/ports/1/link_layer":        "Ethernet\n",
		"sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0": "bond0\n",
		"sys/class/infiniband/rxe0/parent":                           "vnet\n",
		"sys/class/infiniband/rxe0/ports/1/link_layer":               "Ethernet\n",
		"sys/class/dmi/id/sys_vendor":                                "Supermicro\n",
		"sys/class/dmi/id/product_name":                              "SYS-821GE-TNHR\n",
		"proc/sys/kernel/osrelease":                                  "6.8.0-45-generic\n",
		"proc/sys/kernel/arch":                                       "x86_64\n",
		"proc/sys/kernel/hostname":                                   "gpu01\n",
		"proc/sys/kernel/random/boot_id":                             "0f6a1c6e-3a7b-4a55-9a51-6d5a9c1f7e11\n",
		"proc/uptime":                                                "12345.67 99999.00\n",
		"proc/cpuinfo":                                               "processor\t: 0\nflags\t\t: fpu vmx avx\n\nprocessor\t: 1\n",
		"etc/os-release":                                             "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\nPRETTY_NAME='Ubuntu 24.04.1 LTS'\n",
		"proc/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"bond0.100\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
			"vnet\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n",
		"proc/net/ipv6_route": "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
		"proc/cmdline":        "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro\n",
		"proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
	},
})

func TestInventory(t *testing.T) {
	inv := inventory(t, Options{SSHConnection: "192.168.7.9 50000 192.168.0.2 22"}, gpuNode...)
	known(t, inv.PCI, []node.PCIFunction{
		{Address: "0000:15:01.0", Vendor: "8086", Device: "352a", SubsystemVendor: "0000", SubsystemDevice: "0000", Class: "060400", Driver: "pcieport"},
		{Address: "0000:16:00.0", Vendor: "10de", Device: "2330", SubsystemVendor: "10de", SubsystemDevice: "16c1", Class: "030200", Driver: "nvidia", Parent: "0000:15:01.0"},
		{Address: "0000:17:00.0", Vendor: "15b3", Device: "1021", SubsystemVendor: "15b3", SubsystemDevice: "0023", Class: "020700", Driver: "mlx5_core", NUMANode: -1, Parent: "0000:15:01.0"},
		{Address: "0000:80:00.0", Vendor: "15b3", Device: "101d", SubsystemVendor: "15b3", SubsystemDevice: "0016", Class: "020000", NUMANode: 1, Driver: "mlx5_core"},
		{Address: "0000:80:00.2", Vendor: "15b3", Device: "101e", SubsystemVendor: "15b3", SubsystemDevice: "0016", Class: "020000", NUMANode: 1, PhysicalFunction: "0000:80:00.0"},
		{Address: "0000:81:00.0", Vendor: "1af4", Device: "1041", SubsystemVendor: "1af4", SubsystemDevice: "0001", Class: "020000", NUMANode: -1},
	})
	known(t, inv.Netdevs, []node.Netdev{
		{Name: "bond0", Type: 1, Lower: []string{"eth0", "eth1"}, Up: true},
		{Name: "bond0.100", Type: 1, Lower: []string{"bond0"}, Up: true},
		{Name: "eth0", Type: 1, PCI: "0000:80:00.0", Port: 1, Up: true},
		{Name: "eth1", Type: 1, PCI: "0000:80:00.0", Port: 2},
		{Name: "ib0", Type: 32, PCI: "0000:17:00.0", Port: 1, Up: true},
		{Name: "lo", Type: 772, Up: true},
		{Name: "usb0", Type: 1, Up: true},
		{Name: "vnet", Type: 1, PCI: "0000:81:00.0", Port: 1, Up: true},
	})
	layer := func(s string) node.Value[string] { return node.Known(s, node.Source{}) }
	known(t, inv.RDMA, []node.RDMADevice{
		{Name: "mlx5_0", PCI: "0000:17:00.0", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "ib0", LinkLayer: layer("InfiniBand")}}},
		{Name: "mlx5_bond_0", PCI: "0000:80:00.0", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "bond0", LinkLayer: layer("Ethernet")}}},
		{Name: "rxe0", Ports: []node.RDMADevicePort{{Port: 1, Netdev: "vnet", LinkLayer: layer("Ethernet")}}},
	})
	known(t, inv.Routes, []node.Route{
		{Destination: "default", Devices: []string{"bond0.100"}},
		{Destination: "192.168.7.9/32", Devices: []string{"vnet"}},
	})
	known(t, inv.Protected, []node.ProtectedNetdev{
		{Name: "bond0", Reason: "below bond0.100: carries the default route"},
		{Name: "bond0.100", Reason: "carries the default route"},
		{Name: "eth0", Reason: "below bond0: carries the default route"},
		{Name: "eth1", Reason: "below bond0: carries the default route"},
		{Name: "vnet", Reason: "route back to the SSH client"},
	})
	known(t, inv.OS, node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04", PrettyName: "Ubuntu 24.04.1 LTS"})
	known(t, inv.DMI, node.DMI{SysVendor: "Supermicro", ProductName: "SYS-821GE-TNHR"})
	known(t, inv.Virtualization, "none")
	known(t, inv.Kernel, "6.8.0-45-generic")
	known(t, inv.Arch, "x86_64")
	known(t, inv.BootID, "0f6a1c6e-3a7b-4a55-9a51-6d5a9c1f7e11")
	known(t, inv.Uptime, 12345*time.Second+670*time.Millisecond)
	known(t, inv.Marker, node.Marker{})
	if inv.Hostname != "gpu01" || inv.RootDirectory {
		t.Errorf("%q %v", inv.Hostname, inv.RootDirectory)
	}
}

// A sandbox that shows nothing: every fact is unknown with a reason.
func TestEmptyInventory(t *testing.T) {
	inv := inventory(t, Options{})
	for name, v := range map[string]string{
		"arch": inv.Arch.Reason(), "kernel": inv.Kernel.Reason(), "os": inv.OS.Reason(), "dmi": inv.DMI.Reason(),
		"virtualization": inv.Virtualization.Reason(), "pci": inv.PCI.Reason(), "netdevs": inv.Netdevs.Reason(), "rdma": inv.RDMA.Reason(),
		"routes": inv.Routes.Reason(), "protected": inv.Protected.Reason(), "boot id": inv.BootID.Reason(), "uptime": inv.Uptime.Reason(),
	} {
		if v == "" || v == "not recorded" || v == "not read in time" {
			t.Errorf("%s: %q", name, v)
		}
	}
	known(t, inv.Marker, node.Marker{})
}

func TestProtected(t *testing.T) {
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	const toStorage = head + "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
	devices := []map[string]string{
		netTree("lo", "772", "", nil),
		netTree("eth0", "1", "../../../0000:80:00.0", map[string]string{"address": "0c:42:a1:00:00:07\n"}),
		netTree("eth1", "1", "../../../0000:80:00.1", nil),
		netTree("ib1", "32", "../../../0000:90:00.1", nil),
		{
			"sys/class/infiniband/mlx5_0/device": "-> ../../../0000:90:00.0", "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n", "sys/class/infiniband/mlx5_0/ports/2/link_layer": "InfiniBand\n",
			"sys/class/infiniband/mlx5_1/device": "-> ../../../0000:90:00.1", "sys/class/infiniband/mlx5_1/ports/1/link_layer": "InfiniBand\n",
		},
	}
	const toEth0 = head + "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	srp := func(host, device, port string) map[string]string {
		dir := "sys/class/scsi_host/" + host + "/"
		return map[string]string{dir + "local_ib_device": device + "\n", dir + "local_ib_port": port + "\n"}
	}
	join := func(all ...map[string]string) map[string]string {
		m := map[string]string{}
		for _, one := range all {
			maps.Copy(m, one)
		}
		return m
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		opts  Options
		want  []node.ProtectedNetdev
		why   string
	}{
		{name: "nothing", files: map[string]string{"proc/net/route": head}, why: "no protected NIC is known"},
		{name: "no routes", why: "the routes are not known"},
		{name: "a default route that rejects", files: map[string]string{
			"proc/net/route": head + "eth0\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n",
		}, why: "no protected NIC is known"},
		{name: "IPv6 default", files: map[string]string{
			"proc/net/route":      head,
			"proc/net/ipv6_route": "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003     eth1\n",
		}, want: []node.ProtectedNetdev{{Name: "eth1", Reason: "carries the default route"}}},
		{name: "link-local SSH", files: map[string]string{"proc/net/route": head}, opts: Options{SSHConnection: "fe80::1%eth1 50000 fe80::2%eth1 22"},
			want: []node.ProtectedNetdev{{Name: "eth1", Reason: "route back to the SSH client"}}},
		{name: "loopback SSH", files: map[string]string{"proc/net/route": head}, opts: Options{SSHConnection: "127.0.0.1 5 127.0.0.1 22"}, why: "no protected NIC is known"},
		{name: "BOOTIF", files: map[string]string{"proc/net/route": head, "proc/cmdline": "BOOTIF=01-0C-42-A1-00-00-07 quiet\n"},
			want: []node.ProtectedNetdev{{Name: "eth0", Reason: "booted from (BOOTIF=)"}}},
		{name: "ip=", files: map[string]string{"proc/net/route": head, "proc/cmdline": "ip=10.0.0.5::10.0.0.1:255.255.255.0:gpu01:eth1:none\n"},
			want: []node.ProtectedNetdev{{Name: "eth1", Reason: "configured by the kernel command line (ip=)"}}},
		{name: "netroot", files: map[string]string{"proc/net/route": toStorage, "proc/cmdline": "netroot=iscsi:user:pass@10.1.2.3::3260:0:iqn.2024-01.x:disk\n"},
			want: []node.ProtectedNetdev{{Name: "eth1", Reason: "route to the root file system"}}},
		{name: "NFS root", files: map[string]string{"proc/net/route": toStorage,
			"proc/self/mountinfo": "22 1 0:30 / / rw - nfs4 10.9.9.9:/export rw,vers=4.2,addr=10.9.9.9\n"},
			want: []node.ProtectedNetdev{{Name: "eth1", Reason: "route to the root file system"}}},
		{name: "NVMe-oF root", files: map[string]string{"proc/net/route": toStorage,
			"proc/self/mountinfo":             "22 1 259:2 / / rw - xfs /dev/nvme12n1p2 rw\n",
			"sys/class/nvme/nvme12/transport": "tcp\n", "sys/class/nvme/nvme12/address": "traddr=10.4.4.4,trsvcid=4420\n"},
			want: []node.ProtectedNetdev{{Name: "eth1", Reason: "route to the root file system"}}},
		{name: "a local NVMe root", files: map[string]string{"proc/net/route": toStorage,
			"proc/self/mountinfo":            "22 1 259:2 / / rw - xfs /dev/nvme0n1p2 rw\n",
			"sys/class/nvme/nvme0/transport": "pcie\n", "sys/class/nvme/nvme0/address": "0000:01:00.0\n"}, why: "no protected NIC is known"},
		{name: "saved", files: map[string]string{"proc/net/route": head, "var/lib/busbar/protected.json": `["0000:80:00.1", "wlan9"]`},
			want: []node.ProtectedNetdev{{Name: "eth1", Reason: "protected since a run that had a network"}}},
		{name: "saved by name and port", files: map[string]string{"proc/net/route": head, "var/lib/busbar/protected.json": `["ib1", "0000:90:00.0/2"]`},
			want: []node.ProtectedNetdev{{NIC: "0000:90:00.0/2", Reason: "protected since a run that had a network"}, {Name: "ib1", Reason: "protected since a run that had a network"}}},
		{name: "the route has moved", files: map[string]string{"proc/net/route": toEth0, "var/lib/busbar/protected.json": `["0000:80:00.1"]`},
			want: []node.ProtectedNetdev{{Name: "eth0", Reason: "carries the default route"}, {Name: "eth1", Reason: "protected since a run that had a network"}}},
		{name: "a reason that lasts replaces one that does not", files: join(map[string]string{"proc/net/route": toStorage + "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", "proc/cmdline": "ip=eth1:dhcp\n", "var/lib/busbar/protected.json": `["0000:90:00.0/2", "0000:80:00.0"]`}, srp("host1", "mlx5_0", "2")),
			opts: Options{SSHConnection: "10.1.2.3 50000 10.1.2.4 22"},
			want: []node.ProtectedNetdev{{NIC: "0000:90:00.0/2", Reason: "carries SCSI disks (SRP)"}, {Name: "eth0", Reason: "carries the default route"}, {Name: "eth1", Reason: "configured by the kernel command line (ip=)"}}},
		{name: "SCSI disks over InfiniBand", files: join(map[string]string{"proc/net/route": toEth0, "sys/class/scsi_host/host0/proc_name": "ahci\n"}, srp("host1", "mlx5_0", "2"), srp("host2", "mlx5_1", "1")),
			want: []node.ProtectedNetdev{{NIC: "0000:90:00.0/2", Reason: "carries SCSI disks (SRP)"}, {Name: "eth0", Reason: "carries the default route"}, {Name: "ib1", Reason: "carries SCSI disks (SRP)"}}},
		{name: "SCSI disks and no route", files: join(map[string]string{"proc/net/route": head}, srp("host1", "mlx5_0", "2")), why: "no protected NIC is known"},
		{name: "a SCSI adapter without its port", files: map[string]string{"proc/net/route": toEth0, "sys/class/scsi_host/host1/local_ib_device": "mlx5_0\n"},
			why: "the InfiniBand port of the SCSI adapter host1 could not be read: no such file or directory"},
		{name: "saved, a NIC without a network device", files: map[string]string{"proc/net/route": toEth0, "var/lib/busbar/protected.json": `["0000:90:00.0", "0000:90:00.0/2"]`},
			want: []node.ProtectedNetdev{
				{NIC: "0000:90:00.0", Reason: "protected since a run that had a network"}, {NIC: "0000:90:00.0/2", Reason: "protected since a run that had a network"},
				{Name: "eth0", Reason: "carries the default route"},
			}},
		{name: "saved, torn", files: map[string]string{"proc/net/route": head, "var/lib/busbar/protected.json": `["0000:8`}, why: "is no JSON list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inv := inventory(t, test.opts, append(devices, test.files)...)
			if test.why != "" {
				unknownAs(t, inv.Protected, test.why)
				return
			}
			known(t, inv.Protected, test.want)
		})
	}
}

// With an embedded switch the representors share the function's directory and port.
func TestRepresentors(t *testing.T) {
	inv := inventory(t, Options{},
		netTree("eth0", "1", "../../../0000:80:00.0", map[string]string{"phys_port_name": "p0\n"}),
		netTree("eth1", "1", "../../../0000:80:00.0", map[string]string{"phys_port_name": "pf0vf0\n"}),
		netTree("eth2", "1", "../../../0000:81:00.0", nil))
	known(t, inv.Netdevs, []node.Netdev{
		{Name: "eth0", Type: 1, PCI: "0000:80:00.0", Port: 1, Up: true},
		{Name: "eth1", Type: 1, Up: true},
		{Name: "eth2", Type: 1, PCI: "0000:81:00.0", Port: 1, Up: true},
	})
}

func TestSavedProtected(t *testing.T) {
	for content, want := range map[string]any{
		`["0000:8A:00.0/2", "0000:8a:00.0", "bond0"]`: []string{"0000:8a:00.0/2", "0000:8a:00.0", "bond0"},
		`[]`: []string{}, `null`: "is no JSON list", `{}`: "is no JSON list", ``: "is no JSON list", `["0000:8`: "is no JSON list", `[1]`: "is no JSON list",
	} {
		v := files{root: tree(t, map[string]string{node.ProtectedPath[1:]: content}), running: true}.savedProtected()
		if why, ok := want.(string); ok {
			unknownAs(t, v, why)
			continue
		}
		known(t, v, want.([]string))
	}
	known(t, files{root: t.TempDir(), running: true}.savedProtected(), []string{})
}

func TestMarker(t *testing.T) {
	for content, want := range map[string]any{
		`{"format_version": "1.0", "boot_id": "b", "args": ["iommu=pt"]}`: node.Marker{FormatVersion: "1.0", BootID: "b", Args: []string{"iommu=pt"}},
		`{"format_version": "2.0", "boot_id": "b"}`:                       "is no marker of format 1",
		`{"format_version": "1.0"}`:                                       "is no marker of format 1",
		`{"format_version": "1.`:                                          "is no marker: unexpected end of JSON input",
		``:                                                                "is no marker",
	} {
		v := files{root: tree(t, map[string]string{node.MarkerPath[1:]: content}), running: true}.marker()
		if why, ok := want.(string); ok {
			unknownAs(t, v, why)
			continue
		}
		known(t, v, want.(node.Marker))
	}
}

func TestOSRelease(t *testing.T) {
	for content, want := range map[string]node.OS{
		"": {ID: "linux"},
		"\ufeffID=rocky\r\nID_LIKE=\"rhel centos fedora\"\r\n":            {ID: "rocky", IDLike: []string{"rhel", "centos", "fedora"}},
		"#ID=x\nID='arch'\nID=debian\nPRETTY_NAME=\"a \\\"b\\\" \\$c\"\n": {ID: "debian", PrettyName: `a "b" $c`},
		"ID=\nVERSION_ID=\"\n": {ID: "", VersionID: `"`},
	} {
		if diff := cmp.Diff(want, parseOSRelease(content)); diff != "" {
			t.Errorf("%q: %s", content, diff)
		}
	}
	vendor := tree(t, map[string]string{"usr/lib/os-release": "ID=suse\n", "etc/os-release": "-> ../usr/lib/os-release"})
	known(t, files{root: vendor, running: true}.osRelease(), node.OS{ID: "suse"})
}

func TestVirtualization(t *testing.T) {
	const (
		bare  = "processor\t: 0\nflags\t\t: fpu vmx\n\n"
		guest = "processor\t: 0\nflags\t\t: fpu hypervisor\n\n"
	)
	dmi := func(vendor, product string) map[string]string {
		return map[string]string{"sys/class/dmi/id/sys_vendor": vendor, "sys/class/dmi/id/product_name": product}
	}
	cpu := func(info string) map[string]string { return map[string]string{"proc/cpuinfo": info} }
	const clock = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	for _, test := range []struct {
		name, want string
		files      []map[string]string
	}{
		{"HGX", "none", []map[string]string{dmi("NVIDIA", "DGXH100"), cpu(bare)}},
		{"QEMU with KVM", "kvm", []map[string]string{dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)"), cpu(guest), {clock: "kvm-clock tsc acpi_pm\n"}}},
		{"QEMU alone", "qemu", []map[string]string{dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)"), cpu(guest), {clock: "tsc acpi_pm\n"}}},
		{"OpenStack", "kvm", []map[string]string{dmi("OpenStack Foundation", "OpenStack Nova"), cpu(guest)}},
		{"VMware", "vmware", []map[string]string{dmi("VMware, Inc.", "VMware Virtual Platform"), cpu(guest)}},
		{"Azure", "microsoft", []map[string]string{dmi("Microsoft Corporation", "Virtual Machine"), cpu(guest)}},
		{"a Surface", "none", []map[string]string{dmi("Microsoft Corporation", "Surface Book"), cpu(bare)}},
		{"EC2", "amazon", []map[string]string{dmi("Amazon EC2", "p5.48xlarge"), cpu(guest)}},
		{"EC2 metal", "none", []map[string]string{dmi("Amazon EC2", "g4dn.metal"), cpu(bare)}},
		{"GCE", "google", []map[string]string{dmi("Google", "Google Compute Engine"), cpu(guest)}},
		{"Oracle cloud bare metal", "none", []map[string]string{dmi("Supermicro", "X12"), cpu(bare)}},
		{"Xen guest", "xen", []map[string]string{{"sys/hypervisor/type": "xen\n"}, cpu(guest)}},
		{"Xen dom0", "none", []map[string]string{{"sys/hypervisor/type": "xen\n", "proc/xen/capabilities": "control_d\n"}, cpu(guest)}},
		{"Firecracker", "kvm", []map[string]string{cpu(guest), {clock: "tsc kvm-clock\n"}}},
		{"unknown hypervisor", "vm-other", []map[string]string{cpu(guest)}},
		{"x86 without DMI", "none", []map[string]string{cpu(bare)}},
		{"Grace", "none", []map[string]string{dmi("NVIDIA", "GB200 NVL"), cpu("processor\t: 0\nFeatures\t: fp asimd\n\n")}},
		{"Arm KVM", "kvm", []map[string]string{cpu("processor\t: 0\nFeatures\t: fp\n\n"), {"proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}}},
		{"Arm without anything", "", []map[string]string{cpu("processor\t: 0\nFeatures\t: fp\n\n")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := files{root: tree(t, test.files...), running: true}
			v := f.virtualization(f.dmi())
			if test.want == "" {
				unknownAs(t, v, "no SMBIOS tables")
				return
			}
			known(t, v, test.want)
		})
	}
}

// This machine's network: whatever it is, the default route's device is protected.
func TestMachineNetwork(t *testing.T) {
	inv := New(Options{}).Inventory(context.Background())
	routes, ok := inv.Routes.Get()
	if !ok {
		t.Skip("the routes of this machine cannot be read:", inv.Routes.Reason())
	}
	protected, _ := inv.Protected.Get()
	for _, r := range routes {
		for _, d := range r.Devices {
			if d != "lo" && !slices.ContainsFunc(protected, func(p node.ProtectedNetdev) bool { return p.Name == d }) {
				t.Errorf("%s of %+v is not protected", d, r)
			}
		}
	}
	netdevs, _ := inv.Netdevs.Get()
	for _, d := range netdevs {
		if d.Name == "lo" && d.Up && !slices.Contains(d.Addresses, "127.0.0.1/8") {
			t.Errorf("%+v", d)
		}
	}
	if v, ok := inv.Kernel.Get(); !ok || v == "" {
		t.Error("no kernel release")
	}
}

func BenchmarkInventory(b *testing.B) {
	r := New(Options{})
	for b.Loop() {
		r.Inventory(context.Background())
	}
}

// A node of 200 PCI functions.
func BenchmarkPCI(b *testing.B) {
	m := map[string]string{}
	for i := range 200 {
		address := fmt.Sprintf("0000:%02x:00.0", i)
		maps.Copy(m, pciTree(function{above: "pci0000:00", address: address, ids: "15b3 1021 15b3 0023 020700", numa: "0"}))
	}
	f := files{root: tree(b, m), running: true}
	for b.Loop() {
		f.pci()
	}
}
