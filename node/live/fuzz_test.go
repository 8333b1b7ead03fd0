package live

import (
	"net/netip"
	"testing"

	"busbar/node"
)

// FuzzParse runs all of the package's parsers over the same text: they must neither panic nor
// give what cannot be.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"",
		"ID=ubuntu\nID_LIKE=\"debian\"\nPRETTY_NAME='a\\'b'\n",
		"22 1 254:0 / /a\\040b rw,relatime shared:1 - ext4 /dev/sda2 ro,addr=10.0.0.1\n",
		"/dev/sda2 / ext4 rw,relatime 0 0\n",
		"eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003     eth1\n",
		"700 (a) b) S 1 700\n",
		"updates/dkms/nvidia-peermem.ko.zst: kernel/x.ko\n",
		"pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00",
		"iscsi:user:pass@[fe80::1]::3260:0:iqn.x",
		"10.0.0.5::10.0.0.1:255.255.255.0:host:eth1:none",
		"0000:3b:00.0", "GRUB_ENABLE_BLSCFG=\"true\"\r\n", "net.ipv4.conf.eth0/100.rp_filter", "a-b-c@d-e.service", "\ufeffID=x\x00\xff",
		"Global tclass=106\nsrc_ip=10.0.0.1,dst_ip=10.0.0.2/24,tclass=64\n", "0000:3b:00.0/2", "4294967295",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parseOSRelease(s)
		for _, m := range append(parseMountinfo(s), parseMounts(s)...) {
			holding([]mountPoint{m}, "/"+s)
		}
		for _, r := range append(parseRoutes(s), parseIPv6Routes(s)...) {
			r.prefix.Contains(netip.IPv6Loopback())
		}
		parseStat(s)
		kernelOption(s, "CONFIG_PCI_P2PDMA")
		findModules([]byte(s), map[string]bool{"nvidia_peermem": true, "": true})
		var p node.PCIFunction
		if parseModalias(s, &p) && (len(p.Class) != 6 || len(p.Vendor) != 4) {
			t.Errorf("%+v", p)
		}
		rootServer("netroot", s)
		rootServer("nfsroot", s)
		ipDevice(s)
		node.IsPCIAddress(s)
		blsEnabled(s)
		if checkUnitName(s) == nil {
			dropInDirs(s)
		}
		templateOf(s)
		option(s, "addr")
		if path, err := sysctlPath(s); err == nil && !under(path, "/proc/sys") {
			t.Error(path)
		}
		if n, ok := parsePort(s); ok && n < 0 {
			t.Error(n)
		}
		if tc, err := parseTrafficClass(s); err == nil && (tc.Global < -1 || tc.Global > 255) {
			t.Error(tc)
		}
		if address, port, ok := node.ParseNIC(s); ok && (node.NIC{Address: address, Port: port}).String() != s {
			t.Error(address, port)
		}
		if _, err := parseNumber(s); err == nil && s == "" {
			t.Error("nothing is a number")
		}
	})
}
