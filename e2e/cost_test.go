//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"busbar/e2e/kmod"
	"busbar/node"
)

// everyNIC asks everything of all NICs that speak DCB, and all registers of their functions.
const everyNIC = `
selector "all" {
  nics   = [for n in node.nics : n if startswith(n.pci_id, "15b3:") && !n.protected]
  expect = 16
}

roce "all" {
  nics             = selector.all
  lossless         = { priority = 3, dscp = 26, cnp_priority = 6, cnp_dscp = 48 }
  mtu              = 9000
  storm_prevention = 8000
}

pcie_device "all" {
  devices          = selector.all[*].address
  max_read_request = 4096
}

pcie_acs "gpu-paths" {
  redirect = "off"
  scope    = node.gpu_paths
}

check "gpus" "all" {}
`

// TestLiveReadCost measures, and asserts nothing of what it measured.
func TestLiveReadCost(t *testing.T) {
	g := micro(t, "what it costs to read a node of 18 DCB NICs and 300 PCI functions is printed")
	table := tableOf(t, recorded(t, "hgx-h100"))
	// Devices of eight functions fill up the first root bus; the functions of the first one are NICs.
	for device := 1; len(table.Functions) < 300; device++ {
		if table.At(fmt.Sprintf("0000:00:%02x.0", device)) != nil {
			continue
		}
		for i := 0; i < 8 && len(table.Functions) < 300; i++ {
			f := kmod.Function{
				PCIFunction: node.PCIFunction{Address: fmt.Sprintf("0000:00:%02x.%x", device, i), Vendor: "8086", Device: "09a2", Class: "088000"},
				Type:        kmod.IntegratedEndpoint, DeviceCapabilities: 0x8022, DeviceControl: 0x2930,
			}
			if device == 1 {
				f.Vendor, f.Device, f.Class = "15b3", "1021", "020000"
				f.Netdevs = []node.Netdev{{Name: fmt.Sprintf("more%d", i), Port: 1}}
			}
			table.Functions = append(table.Functions, &f)
		}
	}
	g.railsOf(table, "ofed=1")
	g.sh("for i in $(seq 0 7); do ip link set more$i up && rdma link add more_$i type rxe netdev more$i; done")
	g.is("300", "ls /sys/bus/pci/devices | grep -c ^1000:")
	g.is("18", "ls -d /sys/class/net/*/labfabric | wc -l")
	g.profile(everyNIC)
	for _, command := range []string{"version", "capture --raw -o /run/recording", "plan", "plan --node /run/recording"} {
		var best string
		for range 3 {
			r := g.Run(g.ctx, "sh", "-c", "/bin/time -f '%e s wall, %U + %S s CPU, %M KiB' busbar "+command+" /etc/busbar/node.hcl >/dev/null")
			if lines := strings.Split(strings.TrimSpace(r.Stderr), "\n"); best == "" || lines[len(lines)-1] < best {
				best = lines[len(lines)-1]
			}
		}
		fmt.Printf("     busbar %-32s %s\n", command+":", best)
	}
}
