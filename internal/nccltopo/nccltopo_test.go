package nccltopo_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/nccltopo"
)

// two is a node of two GPUs and a NIC, as NCCL dumps it.
const two = `<?xml version="1.0"?>
<!-- dumped -->
<system version="1">
  <cpu host_hash="0x1" numaid="-1" affinity="00000000,ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:1A:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x100b" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="00000000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2335" subsystem_vendor="0x10de" subsystem_device="0x18bf" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
          <c2c bw="3000" count="1"/>
        </gpu>
      </pci>
      <pci busid="0000:1c:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" latency="0.000000" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1" coll="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="0" speed="10000" port="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
    <pci busid="1d:00.0"/>
    <future thing="1"><deeper/></future>
  </cpu>
</system>
`

func TestParse(t *testing.T) {
	got, err := nccltopo.Parse(strings.NewReader(two))
	if err != nil {
		t.Fatal(err)
	}
	const speed = "32.0 GT/s PCIe"
	want := nccltopo.Topology{
		CPUs: []nccltopo.CPU{{NUMANode: -1, Arch: "x86_64", Vendor: "GenuineIntel", HostHash: "0x1"}},
		Devices: []nccltopo.Device{
			{Address: "0000:1a:00.0", Class: "060400", Vendor: "1000", Device: "c030", SubsystemVendor: "1000", SubsystemDevice: "100b", LinkSpeed: speed, LinkWidth: 16},
			{Address: "0000:1b:00.0", Class: "030200", Vendor: "10de", Device: "2335", SubsystemVendor: "10de", SubsystemDevice: "18bf", Parent: "0000:1a:00.0", LinkSpeed: speed, LinkWidth: 16},
			{Address: "0000:1c:00.0", Class: "020700", Vendor: "15b3", Device: "1021", Parent: "0000:1a:00.0", LinkSpeed: speed, LinkWidth: 16},
			{Address: "0000:1d:00.0"},
		},
		GPUs: []nccltopo.GPU{{Address: "0000:1b:00.0", SM: 90, GDR: true, C2C: 1, Links: []nccltopo.Link{{Target: "fffffff:ff:ff.0", Count: 18, Class: "068000"}}}},
		Nets: []nccltopo.Net{{Name: "mlx5_0", SpeedMbps: 400000, Port: 1, GDR: true, Address: "0000:1c:00.0"}, {Name: "eth0", SpeedMbps: 10000}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got.GPUs[0].Links[0].IsSwitch() || (nccltopo.Link{Class: "030200"}).IsSwitch() {
		t.Error("a link to an NVSwitch is one of class 0680")
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		none       bool
	}{
		{"", "no topology", true},
		{"GPU0 GPU1", "no topology", true},
		{"<graphs version=\"1\"><graph id=\"0\"/></graphs>", "no topology", true},
		{"<system version=\"1\"></system>", "no topology", true},
		{"<system", "no topology", true},
		{two[:len(two)/2], "cut off", false},
		{"<system>\n<cpu>\n</system>", "line 3", false},
		{"<system>\n<pci busid=\"0000:1a:00.0\"/></system>", "line 2: <pci> stands outside of <cpu>", false},
		{"<system><cpu>\n<pci busid=\"nonsense\"/></cpu></system>", `line 2: "nonsense" is no PCI address`, false},
		{"<system><cpu><pci busid=\"0000:1a:00.0\"/><pci busid=\"0000:1A:00.0\"/></cpu></system>", "0000:1a:00.0 is there twice", false},
		{"<system><cpu>" + strings.Repeat("<nic>", 100), "more than a machine can have", false},
		{"<system><cpu>" + strings.Repeat("<nic/>", 1<<17), "more than a machine can have", false},
	} {
		got, err := nccltopo.Parse(strings.NewReader(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, nccltopo.ErrNoTopology) != tt.none || len(got.Devices) > 0 {
			t.Errorf("%.60q: %v, %+v", tt.text, err, got)
		}
	}
	// Nodes that share an NVLink fabric stand in one file, each with the addresses of its own.
	if _, err := nccltopo.Parse(strings.NewReader(`<system><cpu host_hash="0x1"><pci busid="0000:1a:00.0"/></cpu><cpu host_hash="0x2"><pci busid="0000:1a:00.0"/></cpu></system>`)); err != nil {
		t.Error(err)
	}
}

// Public topologies, and what is in them: devices, GPUs, nets, NVLink bundles.
func TestPublic(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	captures := filepath.Join(dir, "..", "captures")
	files, err := filepath.Glob(filepath.Join(captures, "public", "nccl-xml", "*.xml"))
	if err != nil || len(files) == 0 {
		t.Skip("there are no captures: ", err)
	}
	want := map[string]string{
		"nccl-topo.xml":               "1 CPUs, 2 devices, 2 GPUs, 1 nets, 36 links",
		"aws-g5.48xl.xml":             "2 CPUs, 9 devices, 0 GPUs, 0 nets, 0 links",
		"aws-p4d.xml":                 "2 CPUs, 16 devices, 0 GPUs, 0 nets, 0 links",
		"aws-p4de.xml":                "2 CPUs, 16 devices, 0 GPUs, 0 nets, 0 links",
		"aws-p5-2026.xml":             "1 CPUs, 48 devices, 8 GPUs, 32 nets, 0 links",
		"azure-ncv4.xml":              "4 CPUs, 4 devices, 4 GPUs, 1 nets, 48 links",
		"azure-ndv2.xml":              "2 CPUs, 9 devices, 0 GPUs, 0 nets, 0 links",
		"azure-ndv4.xml":              "4 CPUs, 20 devices, 0 GPUs, 0 nets, 0 links",
		"azure-ndv5.xml":              "2 CPUs, 24 devices, 0 GPUs, 0 nets, 0 links",
		"rccl-topo_16p1h.xml":         "4 CPUs, 52 devices, 16 GPUs, 8 nets, 112 links",
		"rccl-topo_8p_940.xml":        "2 CPUs, 40 devices, 8 GPUs, 8 nets, 56 links",
		"rccl-topo_8p_rome_4nics.xml": "4 CPUs, 32 devices, 8 GPUs, 4 nets, 24 links",
	}
	for _, file := range append(files, filepath.Join(captures, "h200x2", "nccl-topo.xml")) {
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		topology, err := nccltopo.Parse(in)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		links := 0
		for _, g := range topology.GPUs {
			for _, l := range g.Links {
				links += l.Count
			}
			if g.Address == "" || g.SM == 0 || !g.GDR {
				t.Errorf("%s: %+v", file, g)
			}
		}
		got := fmt.Sprintf("%d CPUs, %d devices, %d GPUs, %d nets, %d links", len(topology.CPUs), len(topology.Devices), len(topology.GPUs), len(topology.Nets), links)
		if want[filepath.Base(file)] != got {
			t.Errorf("%s: %s, want %q", file, got, want[filepath.Base(file)])
		}
	}
}

// FuzzParse: a topology hangs together, whatever the text is.
func FuzzParse(f *testing.F) {
	f.Add(two)
	f.Add(`<system><cpu numaid="0"><pci busid="0000:00:16.0"/><pci busid="ffff:ff:01.0"><pci busid="0001:00:00.0"><gpu dev="x" rank="9999999999"/></pci></pci></cpu></system>`)
	f.Fuzz(func(t *testing.T, text string) {
		topology, err := nccltopo.Parse(strings.NewReader(text))
		if err != nil {
			if !cmp.Equal(topology, nccltopo.Topology{}) {
				t.Errorf("%v, and %+v", err, topology)
			}
			return
		}
		there := map[string]bool{"": true}
		for _, d := range topology.Devices {
			if !there[d.Parent] || d.CPU >= len(topology.CPUs) || d.LinkWidth < 0 || len(d.Address) != len("0000:00:00.0") {
				t.Errorf("%+v", d)
			}
			there[d.Address] = true
		}
		for _, g := range topology.GPUs {
			if !there[g.Address] || g.Dev < -1 || g.Rank < -1 {
				t.Errorf("%+v", g)
			}
		}
		for _, n := range topology.Nets {
			if !there[n.Address] || n.CPU >= len(topology.CPUs) {
				t.Errorf("%+v", n)
			}
		}
	})
}
