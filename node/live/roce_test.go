package live

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"busbar/internal/dcbnl"
	"busbar/node"
)

// ofedTree is what MLNX_OFED's driver shows of congestion control.
func ofedTree(more map[string]string) map[string]string {
	m := railTree(map[string]string{
		"sys/class/net/eth0/ecn/roce_np/cnp_dscp":           "48\n",
		"sys/class/net/eth0/ecn/roce_np/cnp_802p_prio":      "6\n",
		"sys/class/infiniband/mlx5_0/device":                "-> ../../../" + rail,
		"sys/class/infiniband/mlx5_0/ports/1/state":         "4: ACTIVE\n",
		"sys/class/infiniband/mlx5_0/tc/1/traffic_class":    "Global tclass=106\n",
		"sys/kernel/config/rdma_cm/mlx5_0/ports/1/":         "",
		"sys/kernel/debug/mlx5/" + rail + "/cc_params/np_x": "4294967295\n",
		"sys/kernel/debug/mlx5/" + rail + "/cc_params/rp_y": "0\n",
	})
	for p := range 8 {
		on := "0\n"
		if p == 3 {
			on = "1\n"
		}
		m[fmt.Sprintf("sys/class/net/eth0/ecn/roce_np/enable/%d", p)] = on
		m[fmt.Sprintf("sys/class/net/eth0/ecn/roce_rp/enable/%d", p)] = "1\n"
	}
	maps.Copy(m, more)
	return m
}

const cmPort = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/"

func TestRoCE(t *testing.T) {
	number := func(n int) node.Value[int] { return node.Known(n, node.Source{}) }
	v := ask(t, tree(t, ofedTree(map[string]string{cmPort + "default_roce_tos": "104\n", cmPort + "default_roce_mode": "RoCE v2\n"})), node.RoCE, rail)
	known(t, v, node.RoCEState{
		Netdev: "eth0", RDMA: "mlx5_0/1", NotificationPoint: node.Known(dcbnl.Priorities(1<<3), node.Source{}), ReactionPoint: node.Known(dcbnl.Priorities(255), node.Source{}),
		CNPDSCP: number(48), CNPPriority: number(6), CCParams: node.Known(map[string]uint32{"np_x": 4294967295, "rp_y": 0}, node.Source{}),
		TrafficClass: node.Known(node.TrafficClass{Global: 106}, node.Source{}), DefaultToS: number(104), DefaultMode: node.Known(node.GIDRoCEv2, node.Source{}),
	})
}

// The kernel's own driver has no ecn/ and no tc/; without an RDMA device much waits for one.
func TestRoCEOfOtherDrivers(t *testing.T) {
	inbox := railTree(map[string]string{"sys/kernel/debug/mlx5/": ""})
	state, _ := ask(t, tree(t, inbox), node.RoCE, rail).Get()
	for name, unsupported := range map[string]bool{
		"np": state.NotificationPoint.IsUnsupported(), "rp": state.ReactionPoint.IsUnsupported(), "dscp": state.CNPDSCP.IsUnsupported(), "priority": state.CNPPriority.IsUnsupported(),
		"cc_params": state.CCParams.IsUnsupported(),
	} {
		if !unsupported {
			t.Errorf("%s is not unsupported", name)
		}
	}
	unknownAs(t, state.NotificationPoint, "MLNX_OFED and DOCA-OFED drivers do")
	unknownAs(t, state.CCParams, "mlx5_ib shows none")
	for name, needs := range map[string]string{"tclass": state.TrafficClass.Needs(), "tos": state.DefaultToS.Needs(), "mode": state.DefaultMode.Needs()} {
		if needs != node.CapabilityRDMA {
			t.Errorf("%s needs %q", name, needs)
		}
	}
	intel := pciTree(function{above: "pci0000:15", address: rail, ids: "8086 1592 8086 0001 020000", driver: "ice"})
	maps.Copy(intel, netTree("eth0", "1", "../../../"+rail, nil))
	state, _ = ask(t, tree(t, intel), node.RoCE, rail).Get()
	if unknownAs(t, state.CCParams, "only mlx5_core has it"); !state.CCParams.IsUnsupported() {
		t.Error("cc_params of ice are not unsupported")
	}
	// An InfiniBand port without IPoIB.
	ib := pciTree(function{above: "pci0000:15", address: rail, ids: "15b3 1021 15b3 0023 020700", driver: "mlx5_core"})
	maps.Copy(ib, map[string]string{
		"sys/class/net/lo/type": "772\n", "sys/class/infiniband/mlx5_0/device": "-> ../../../" + rail, "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n", "sys/kernel/debug/": "",
	})
	state, _ = ask(t, tree(t, ib), node.RoCE, rail).Get()
	unknownAs(t, state.NotificationPoint, "driver mlx5_core has made no network device")
	unknownAs(t, state.CNPDSCP, "driver mlx5_core has made no network device")
	if unknownAs(t, state.CCParams, "debugfs is not mounted"); state.CCParams.IsUnsupported() {
		t.Error("unmounted: unsupported")
	}
	if state.Netdev != "" || state.RDMA != "mlx5_0/1" || !state.TrafficClass.IsUnsupported() {
		t.Errorf("%+v", state)
	}
	delete(ib, "sys/kernel/debug/")
	state, _ = ask(t, tree(t, ib), node.RoCE, rail).Get()
	unknownAs(t, state.CCParams, "no such file")
}

func TestRoCEThatIsNotUnderstood(t *testing.T) {
	state, _ := ask(t, tree(t, ofedTree(map[string]string{
		"sys/class/net/eth0/ecn/roce_np/enable/7": "maybe\n", "sys/class/net/eth0/ecn/roce_rp/enable/0": "", "sys/class/net/eth0/ecn/roce_np/cnp_dscp": "AF31\n",
		"sys/class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=256\n", cmPort + "default_roce_tos": "x\n", "sys/kernel/debug/mlx5/" + rail + "/cc_params/np_x": "-1\n",
	})), node.RoCE, rail).Get()
	unknownAs(t, state.NotificationPoint, `is no number: "maybe"`)
	unknownAs(t, state.ReactionPoint, "the file is empty: the driver could not ask its firmware")
	unknownAs(t, state.CNPDSCP, `is no number: "AF31"`)
	unknownAs(t, state.TrafficClass, `"Global tclass=256" is no traffic class`)
	unknownAs(t, state.DefaultToS, `is no number: "x"`)
	unknownAs(t, state.CCParams, `is no number: "-1"`)
	if state.NotificationPoint.IsUnsupported() || state.CNPDSCP.IsUnsupported() {
		t.Error("what is not understood is unsupported")
	}
}

// Reading makes no directory in configfs: what only one there would show waits for it.
func TestConnectionDefaults(t *testing.T) {
	without := func(prefix string) map[string]string {
		m := ofedTree(nil)
		maps.DeleteFunc(m, func(p, _ string) bool { return strings.HasPrefix(p, prefix) })
		return m
	}
	noDirectory := without("sys/kernel/config/")
	noDirectory["sys/kernel/config/rdma_cm/"] = ""
	for _, test := range []struct {
		name    string
		entries map[string]string
		why     string
		needs   string
	}{
		{"no rdma_cm", without("sys/kernel/config/"), "module rdma_cm is not loaded, or configfs is not mounted", node.CapabilityRDMACM},
		{"nobody made the directory", noDirectory, "it can only be read in a directory that nobody has made", node.CapabilityRDMACM},
		{"a directory without the file", ofedTree(nil), "no such file", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t, test.entries)
			state, _ := ask(t, root, node.RoCE, rail).Get()
			unknownAs(t, state.DefaultToS, test.why)
			unknownAs(t, state.DefaultMode, test.why)
			if state.DefaultToS.Needs() != test.needs {
				t.Errorf("needs %q", state.DefaultToS.Needs())
			}
			if _, err := os.Stat(filepath.Join(root, cmPort, "default_roce_tos")); err == nil {
				t.Error("the file was made")
			}
		})
	}
}

func TestTrafficClass(t *testing.T) {
	for text, want := range map[string]node.TrafficClass{
		"":                    {Global: -1},
		"Global tclass=0\n":   {Global: 0},
		"Global tclass=236\n": {Global: 236},
		"Global tclass=106\nsrc_ip=10.0.0.1,dst_ip=10.0.0.2/24,tclass=64\nsrc_ip6=fe80:0000:0000:0000:0000:0000:0000:0001,tclass=32\n": {
			Global: 106, Rules: []string{"src_ip=10.0.0.1,dst_ip=10.0.0.2/24,tclass=64", "src_ip6=fe80:0000:0000:0000:0000:0000:0000:0001,tclass=32"},
		},
	} {
		got, err := parseTrafficClass(text)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"Global tclass=", "Global tclass=-1", "Global tclass=1x"} {
		if got, err := parseTrafficClass(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
