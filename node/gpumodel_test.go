package node_test

import (
	"slices"
	"strings"
	"testing"

	"busbar/node"
)

func TestGPUModel(t *testing.T) {
	for id, want := range map[string]struct {
		product       string
		normal, wrong []int
	}{
		"10de:2330": {"NVIDIA H100 80GB HBM3", []int{18}, []int{0, 12, 17}},
		"10de:2331": {"NVIDIA H100 PCIe", []int{12, 0}, []int{18, 11}}, // 12 of 18 by design
		"10de:2335": {"NVIDIA H200", []int{18}, []int{0}},
		"10de:2342": {"NVIDIA GH200", []int{0, 18}, []int{9}}, // no substring of H200
		"10de:20b2": {"NVIDIA A100-SXM4-80GB", []int{12}, []int{0, 11}},
		"10de:2235": {"NVIDIA A40", []int{4, 0}, []int{3}},
		"10de:26b9": {"NVIDIA L40S", []int{0}, []int{4}},
		"10de:2901": {"NVIDIA B200", []int{18}, []int{0}},
	} {
		m, ok := (node.GPU{PCIID: id}).Model()
		if !ok || m.Product != want.product || !m.KnowsLinks() {
			t.Errorf("%s: %+v", id, m)
		}
		for _, n := range want.normal {
			if !m.NormalLinks(n) {
				t.Errorf("%s: %d links are not normal", id, n)
			}
		}
		for _, n := range want.wrong {
			if m.NormalLinks(n) {
				t.Errorf("%s: %d links are normal", id, n)
			}
		}
	}
	for _, id := range []string{"10de:2684", "15b3:2330", "2330", ""} { // GeForce RTX 4090; no GPU of NVIDIA's
		if m, ok := (node.GPU{PCIID: id}).Model(); ok {
			t.Errorf("%q: %+v", id, m)
		}
	}
	if m, _ := (node.GPU{PCIID: "10de:233b"}).Model(); m.KnowsLinks() {
		t.Errorf("H200 NVL: %+v", m)
	}
}

// The table is sorted, so that a row that stands in it twice shows.
func TestGPUModelsAreSorted(t *testing.T) {
	var ids []string
	for _, m := range node.GPUModels {
		if len(m.Device) != 4 || strings.Trim(m.Device, "0123456789abcdef") != "" || m.Product == "" || m.Peers == node.NVLinkNone && m.Links+m.Generation+m.SpeedMBps > 0 || m.Peers != node.NVLinkNone && m.Generation == 0 {
			t.Errorf("%+v", m)
		}
		ids = append(ids, m.Device)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != len(node.GPUModels) {
		t.Errorf("%q", ids)
	}
}
