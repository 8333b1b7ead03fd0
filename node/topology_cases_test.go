package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"busbar/node"
)

// shapes are the PCI trees below matrices of nvidia-smi topo -m, by file: a line for each host bridge, its NUMA node
// and what hangs on its root ports. "port" is a device alone, "card" the functions of one, "switch" the ports of a
// switch, "nested" a switch each behind the ports of one. A NIC that is SYS away from every GPU of both NUMA nodes has none that
// firmware says.
var shapes = map[string]string{
	"topo-1gpu-2nic-node.txt":              "1: port GPU0 \n 1: card NIC0 NIC1",
	"topo-2xa100-mig.txt":                  "0: port GPU0 \n 1: port GPU1",
	"topo-3xa6000-one-bridge.txt":          "0: port GPU0 \n 0: port GPU1 \n 0: port GPU2",
	"topo-8x4090-all-sys-nps4.txt":         "3: port GPU0 \n 2: port GPU1 \n 1: port GPU2 \n 0: port GPU3 \n 7: port GPU4 \n 6: port GPU5 \n 5: port GPU6 \n 4: port GPU7",
	"topo-pcie-8gpu-pix-phb.txt":           "0: switch GPU0 GPU1 | switch GPU2 GPU3 \n 1: switch GPU4 GPU5 | switch GPU6 GPU7",
	"topo-4xh100-nv6-interleaved-cpus.txt": "3: switch GPU0 NIC0 \n 1: switch GPU1 NIC1 \n 7: switch GPU2 NIC2 \n 5: switch GPU3 NIC3",
	"topo-a100-nics-all-sys.txt": `0: switch GPU0 GPU1
		0: switch GPU2 GPU3
		1: switch GPU4 GPU5
		1: switch GPU6 GPU7
		-1: switch NIC0 NIC1 NIC2 NIC3`,
	"topo-b200-gpu2-off-nvlink.txt": `0: nested GPU0 NIC0
		0: nested GPU1 NIC1
		0: nested GPU2 NIC2
		0: nested GPU3 NIC3
		1: nested GPU4 NIC4
		1: nested GPU5 NIC5
		1: nested GPU6 NIC6
		1: nested GPU7 NIC7
		0: card NIC8 NIC9
		1: card NIC10 NIC11`,
	"topo-dgx-a100-10nic-nps4.txt": `3: nested GPU0 GPU1 NIC0 NIC1
		1: nested GPU2 GPU3 NIC2 NIC3
		7: nested GPU4 GPU5 NIC4 NIC5
		5: nested GPU6 GPU7 NIC6 NIC7
		4: card NIC8 NIC9`,
	"topo-h100-hgx-9nic.txt":      hgx9NICs,
	"topo-h100-hgx-9nic-ansi.txt": hgx9NICs,
	"topo-truncated-rows.txt":     hgx9NICs,
	"topo-mp-hides-nvlink.txt": `0: switch GPU0 NIC0
		0: switch GPU1 NIC1
		0: switch GPU2 NIC2
		0: switch GPU3 NIC7
		0: port NIC3
		0: port NIC4
		0: port NIC5
		0: port NIC6
		1: switch GPU4 NIC8
		1: switch GPU5 NIC9
		1: switch GPU6 NIC10
		1: switch GPU7 NIC11
		1: port NIC12
		1: port NIC13`,
	"topo-v100-cubemesh-oldformat.txt": `0: switch GPU0 GPU1
		0: switch GPU2 GPU3 mlx5_0 mlx5_1
		1: switch GPU4 GPU5
		1: switch GPU6 GPU7`,
	"topo-vm-flat-phb.txt": "0: port GPU0 | port GPU1 | port GPU2 | port GPU3 | port NIC0 | port NIC1 | port NIC2 | port NIC3 | port NIC4 | port NIC5 | port NIC6 | port NIC7",
}

const hgx9NICs = `0: switch GPU0 NIC8
	0: switch GPU1 NIC7
	0: switch GPU2 NIC6
	0: switch GPU3 NIC5
	1: switch GPU4 NIC4
	1: switch GPU5 NIC3
	1: switch GPU6 NIC2
	1: switch GPU7 NIC1
	-1: port NIC0`

// build makes an inventory of a shape, with the address and the NUMA node of each device.
func build(t *testing.T, shape string) (inv node.Inventory, address, numa map[string]string) {
	t.Helper()
	address, numa = map[string]string{}, map[string]string{}
	var lines []string
	bus := 0
	next := func() int { bus++; return bus }
	for line := range strings.Lines(shape) {
		root := next()
		node, ports, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for slot, port := range strings.Split(ports, "|") {
			names := strings.Fields(port)
			above := fmt.Sprintf("pci0000:%02x/0000:%02x:%02x.0", root, root, slot+1)
			kind, below := names[0], next()
			if kind == "switch" || kind == "nested" {
				above += fmt.Sprintf("/0000:%02x:00.0", below)
				below = next()
			}
			for i, name := range names[1:] {
				way, function := above, 0
				switch kind {
				case "card":
					function = i
				case "switch", "nested":
					way += fmt.Sprintf("/0000:%02x:%02x.0", below, i)
				}
				here := below
				if kind != "card" && kind != "port" {
					here = next()
				}
				if kind == "nested" {
					way += fmt.Sprintf("/0000:%02x:00.0/0000:%02x:00.0", here, next())
					here = next()
				}
				address[name], numa[name] = fmt.Sprintf("0000:%02x:00.%d", here, function), node
				what := "nic"
				if strings.HasPrefix(name, "GPU") {
					what = "gpu"
				}
				lines = append(lines, way+"/"+address[name]+" "+node+" "+what)
			}
		}
	}
	return wired(lines...), address, numa
}

// TestRelationOfCases holds relations to what nvidia-smi printed on real machines, over trees that have their shape.
func TestRelationOfCases(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "topo-*.txt"))
	if len(files) == 0 {
		t.Fatalf("no topo-*.txt in %s", dir)
	}
	underline := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			shape, ok := shapes[name]
			if !ok {
				t.Fatal("it has no tree in shapes")
			}
			inv, address, numa := build(t, shape)
			guest := inv
			guest.Virtualization = known("kvm")
			tree, inGuest := inv.Topology(), guest.Topology()
			rows := strings.Split(underline.ReplaceAllString(string(raw), ""), "\n")
			heading, _, _ := strings.Cut(rows[0], "CPU Affinity")
			columns := strings.Fields(heading)
			compared, nvlink, seen := 0, 0, 0
			for _, row := range rows[1:] {
				cells := strings.Fields(row)
				if len(cells) <= len(columns) || address[cells[0]] == "" {
					continue
				}
				seen++
				for i, want := range cells[1 : len(columns)+1] {
					a, b := cells[0], columns[i]
					if strings.HasPrefix(want, "NV") {
						nvlink++
						continue // not of the PCI tree
					}
					if want == "SYS" && (numa[a] == "-1" || numa[b] == "-1") {
						want = "? " + node.NoNUMANode
					}
					if got := fmt.Sprint(text(tree.Relation(address[a], address[b]))); got != want {
						t.Errorf("%s to %s: %s, nvidia-smi says %s", a, b, got, want)
					}
					if r := inGuest.Relation(address[a], address[b]); r.IsKnown() && a != b {
						t.Errorf("%s to %s is known in a virtual machine: %v", a, b, text(r))
					}
					compared++
				}
			}
			if seen == 0 || compared+nvlink != seen*len(columns) || compared == 0 || len(columns) != len(address) {
				t.Errorf("%d cells and %d of NVLinks in %d rows of %d columns, %d devices", compared, nvlink, seen, len(columns), len(address))
			}
		})
	}
}
