package profiles_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
)

// fakeType is a block type made of its table.
type fakeType struct {
	spec     plan.Spec
	validate func(plan.Block) []plan.Problem
}

func (t fakeType) Spec() plan.Spec                                 { return t.spec }
func (t fakeType) Queries(plan.Block, node.Inventory) []node.Query { return nil }
func (t fakeType) Assess(plan.Block, node.Facts) plan.Assessment   { return plan.Assessment{} }
func (t fakeType) Validate(b plan.Block) []plan.Problem {
	if t.validate == nil {
		return nil
	}
	return t.validate(b)
}

func bound(n int64) *int64 { return &n }

// fakeTypes have the shapes that real types have.
func fakeTypes() []plan.Type {
	return []plan.Type{
		fakeType{spec: plan.Spec{
			Name: "kernel_module", Label: plan.LabelRequired, LabelDoc: "the module's name",
			Attributes: []plan.Attribute{
				{Name: "state", Type: cty.String, Enum: []string{"loaded", "unloaded"}, Doc: "Whether the kernel has it."},
				{Name: "options", Type: cty.Map(cty.String)},
				{Name: "take_over", Type: cty.Bool, Default: cty.False},
			},
		}},
		fakeType{
			spec: plan.Spec{
				Name: "nccl",
				Attributes: []plan.Attribute{
					{Name: "settings", Type: cty.DynamicPseudoType},
					{Name: "version", Type: cty.String},
				},
			},
			validate: func(b plan.Block) []plan.Problem {
				v := b.Attributes["settings"]
				if v.IsNull() || !v.Type().IsObjectType() {
					return nil
				}
				var out []plan.Problem
				for it := v.ElementIterator(); it.Next(); {
					key, element := it.Element()
					if element.Type() == cty.String && strings.Contains(element.AsString(), "\n") {
						out = append(out, plan.Problem{Attribute: "settings", Key: key.AsString(), Summary: key.AsString() + " has lines", Detail: element.AsString() + "\x1b[2J"})
					}
					if element.Type() == cty.Bool {
						out = append(out, plan.Problem{Attribute: "settings", Key: key.AsString(), Summary: "no value for NCCL", Detail: fmt.Sprintf("NCCL reads %t as 0.", element.True())})
					}
				}
				return out
			},
		},
		fakeType{spec: plan.Spec{
			Name: "roce", Label: plan.LabelRequired,
			Attributes: []plan.Attribute{
				{Name: "nics", Required: true, Doc: "The ports.", Type: cty.List(cty.Object(map[string]cty.Type{"address": cty.String, "port": cty.Number}))},
				{Name: "mtu", Type: cty.Number, Min: bound(256), Max: bound(9216)},
				{Name: "ratio", Type: cty.Number, Fraction: true},
				{Name: "lossless", Type: cty.ObjectWithOptionalAttrs(map[string]cty.Type{"priority": cty.Number, "dscp": cty.Number, "ets": cty.Number}, []string{"ets"}), Min: bound(0), Max: bound(63)},
			},
		}},
		fakeType{spec: plan.Spec{
			Name: "sysctl", Label: plan.LabelRequired,
			Attributes: []plan.Attribute{{Name: "value", Type: cty.DynamicPseudoType, Required: true, Doc: "The value."}},
		}},
		fakeType{spec: plan.Spec{
			Name: "service", Label: plan.LabelRequired,
			Attributes: []plan.Attribute{
				{Name: "active", Type: cty.Bool}, {Name: "after", Type: cty.Set(cty.String)},
			},
		}},
		fakeType{spec: plan.Spec{
			Name: "gpus", Check: true, Label: plan.LabelRequired,
			Attributes: []plan.Attribute{{Name: "count", Type: cty.Number}, {Name: "mig", Type: cty.Bool}},
		}},
		fakeType{spec: plan.Spec{
			Name: "p2p_bandwidth", Proof: true, Label: plan.LabelRequired,
			Attributes: []plan.Attribute{{Name: "min_ratio", Type: cty.Number, Fraction: true}},
		}},
	}
}

// hgx is a node with two GPUs, an NVSwitch and four NIC ports: two rails, one rail
// whose RDMA device has not appeared, and a protected one.
func hgx() node.Inventory {
	known := node.Source{Path: "/sys"}
	return node.Inventory{
		Arch:           node.Known("x86_64", known),
		Kernel:         node.Known("6.8.0-52-generic", known),
		OS:             node.Known(node.OS{ID: "ubuntu", IDLike: []string{"debian"}, VersionID: "24.04"}, known),
		DMI:            node.Known(node.DMI{SysVendor: "Supermicro", ProductName: "SYS-821GE"}, known),
		Virtualization: node.Known("none", known),
		PCI: node.Known([]node.PCIFunction{
			{Address: "0000:18:00.0", Vendor: "15b3", Device: "1021", Class: "020700", NUMANode: 0, Driver: "mlx5_core"},
			{Address: "0000:1b:00.0", Vendor: "10de", Device: "2330", Class: "030200", NUMANode: 0},
			{Address: "0000:2a:00.0", Vendor: "15b3", Device: "1021", Class: "020700", NUMANode: 0, Driver: "mlx5_core"},
			{Address: "0000:43:00.0", Vendor: "10de", Device: "22a3", Class: "068000", NUMANode: 0},
			{Address: "0000:5d:00.0", Vendor: "10de", Device: "2330", Class: "030200", NUMANode: -1},
			{Address: "0000:9a:00.0", Vendor: "15b3", Device: "1021", Class: "020000", NUMANode: 1, Driver: "mlx5_core"},
			{Address: "0000:c1:00.0", Vendor: "8086", Device: "1563", Class: "020000", NUMANode: 1, Driver: "ixgbe"},
		}, known),
		Netdevs: node.Known([]node.Netdev{
			{Name: "ens1", Type: node.ARPHardwareEthernet, PCI: "0000:c1:00.0", Port: 1},
			{Name: "rail0", Type: node.ARPHardwareInfiniBand, PCI: "0000:18:00.0", Port: 1},
			{Name: "rail1", Type: node.ARPHardwareInfiniBand, PCI: "0000:2a:00.0", Port: 1},
			{Name: "rail2", Type: node.ARPHardwareEthernet, PCI: "0000:9a:00.0", Port: 1},
		}, known),
		RDMA: node.Known([]node.RDMADevice{
			{Name: "mlx5_0", PCI: "0000:18:00.0", Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", known)}}},
			{Name: "mlx5_1", PCI: "0000:2a:00.0", Ports: []node.RDMADevicePort{{Port: 1, LinkLayer: node.Known("InfiniBand", known)}}},
		}, known),
		Protected: node.Known([]node.ProtectedNetdev{{Name: "ens1", Reason: "carries the default route"}}, known),
	}
}

// testLoader finds profiles in testdata/profiles.
func testLoader(assignments ...string) *profiles.Loader {
	return &profiles.Loader{
		Types:       fakeTypes(),
		Dirs:        []profiles.Dir{{Path: "profiles", FS: os.DirFS("testdata/profiles")}},
		Assignments: assignments,
	}
}

// load loads one text.
func load(text string, assignments ...string) (*profiles.Profile, profiles.Diagnostics) {
	return testLoader(assignments...).LoadText("test.hcl", []byte(text))
}
