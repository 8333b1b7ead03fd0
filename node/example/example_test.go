package example_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/node/example"
)

var update = flag.Bool("update", false, "write the recordings anew")

// builders make the recordings.
var builders = map[string]func() *machine{
	"epyc-pcie":        epycPCIe,
	"gb200-tray":       gb200Tray,
	"hgx-a100-nps4":    hgxA100NPS4,
	"hgx-b200":         hgxB200,
	"hgx-h100":         hgxH100,
	"hgx-h100-drifted": hgxH100Drifted,
	"hgx-h200-ib":      hgxH200IB,
	"rtx-workstation":  rtxWorkstation,
	"vm-guest-2gpu":    vmGuest,
}

// TestRecordings holds the recordings to what their builders make.
func TestRecordings(t *testing.T) {
	for name, build := range builders {
		t.Run(name, func(t *testing.T) {
			var want bytes.Buffer
			if err := node.WriteRecording(&want, build().facts()); err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(name+".json", want.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			r, err := example.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), string(got)); diff != "" {
				t.Errorf("%s.json is not what its builder makes; run go test ./node/example -update (-built +recorded):\n%s", name, diff)
			}
			if _, err := node.ReadRecording(bytes.NewReader(got)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNames: every recording has a builder, and can be opened.
func TestNames(t *testing.T) {
	names := example.Names()
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %q", names)
	}
	for _, name := range names {
		if builders[name] == nil {
			t.Errorf("%s.json has no builder", name)
		}
	}
	if len(names) != len(builders) {
		t.Errorf("recordings %q, %d builders", names, len(builders))
	}
	if _, err := example.Open("../example"); err == nil {
		t.Error("opened what is no recording")
	}
}

// TestTree: parents are bridges on the bus, and every port of a NIC is where it should be.
func TestTree(t *testing.T) {
	for name, build := range builders {
		inv := build().facts().Inventory
		functions, _ := inv.PCI.Get()
		class := map[string]string{}
		for _, f := range functions {
			if class[f.Address] != "" {
				t.Errorf("%s: %s stands there twice", name, f.Address)
			}
			class[f.Address] = f.Class
		}
		for _, f := range functions {
			if f.Parent != "" && class[f.Parent] != "060400" {
				t.Errorf("%s: %s hangs below %s, class %q", name, f.Address, f.Parent, class[f.Parent])
			}
		}
		t.Logf("%s: %d PCI functions", name, len(functions))
	}
}
