package paste

import (
	"strings"
)

// Names of RDMA devices are what drivers call them (mlx5_0, bnxt_re1, irdma0, rdmap16s27, ...), or by their PCI address or port
// (rdma-core's rename: ibp24s0, rocep24s0f0, roceo1), or of a bond (mlx5_bond_0).
var rdmaNames = expression(`^(?:mlx[45](?:_bond)?_\d{1,3}|(?:bnxt_re|irdma|efa_|qedr|hfi1_|cxgb4_|erdma_|mana_|ionic_|hns_|rxe|siw|mthca|qib|usnic_)_?\d{1,3}|(?:ib|roce|rdma|opa|iw)(?:p\d{1,3}s\d{1,4}(?:f\d{1,3})?(?:np\d{1,3})?|P\d{1,5}p\d{1,3}s\d{1,4}(?:f\d{1,3})?|o\d{1,3}|s\d{1,4}|x[0-9a-f]{12}))$`)

// rdmaDevice reports a name that RDMA devices have.
func rdmaDevice(name string) bool { return len(name) < 40 && rdmaNames.MatchString(name) }

// Names of network devices, as systemd (systemd.net-naming-scheme(7)), drivers and people give them.
var netdevNames = expression(`^(?:lo|(?:eth|ib|bond|team|wlan|virbr|docker|veth|br|tun|tap|vlan|vxlan|dummy|gpu|rail|hsn|net|cni|flannel|cali)-?[0-9a-f]{0,12}|(?:en|ib|wl)(?:P\d{1,5})?(?:p\d{1,3}s\d{1,4}(?:f\d{1,3})?(?:np\d{1,3}|d\d{1,3}|v\d{1,3})*|o\d{1,3}(?:np\d{1,3})?|s\d{1,4}(?:f\d{1,3})?(?:np\d{1,3})?|x[0-9a-f]{12}))(?:\.\d{1,4}){0,2}$`)

// netdevName reports a name that network devices have.
func netdevName(name string) bool { return len(name) < 16 && netdevNames.MatchString(name) }

// pciAddress is an address of PCI in the form of facts, DDDD:BB:DD.F in lower case: tools leave the domain out, or write eight
// digits of it. It is empty for another text.
func pciAddress(s string) string {
	m := pciAddresses.FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return ""
	}
	domain := m[1]
	if domain == "" {
		domain = "0000"
	}
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + m[2]
}

var pciAddresses = expression(`^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])$`)
