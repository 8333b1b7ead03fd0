package profiles_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
)

// show renders blocks so that a test can compare them.
func show(blocks []plan.Block) string {
	var b strings.Builder
	for _, block := range blocks {
		fmt.Fprintf(&b, "%s %s:%d", block.Address, block.Origin.File, block.Origin.Line)
		if block.Undecided != "" {
			fmt.Fprintf(&b, " undecided: %s", block.Undecided)
		}
		if block.Needs != "" {
			fmt.Fprintf(&b, " needs %s", block.Needs)
		}
		if block.Severity != plan.Error {
			fmt.Fprintf(&b, " severity %s", block.Severity)
		}
		if block.Optional != nil {
			fmt.Fprintf(&b, " optional %v", block.Optional)
		}
		if block.DependsOn != nil {
			fmt.Fprintf(&b, " after %s", strings.Join(block.DependsOn, " "))
		}
		if block.Waive != nil {
			fmt.Fprintf(&b, " waived %q until %s", block.Waive.Reason, block.Waive.Until.Format(time.RFC3339))
		}
		b.WriteByte('\n')
		for _, name := range sorted(block.Attributes) {
			v := block.Attributes[name]
			if v.IsNull() {
				continue
			}
			if !v.Type().IsObjectType() && !v.Type().IsMapType() {
				fmt.Fprintf(&b, "  %s = %s (%s)\n", name, value(v), block.OriginOf(name, ""))
				continue
			}
			for it := v.ElementIterator(); it.Next(); {
				key, element := it.Element()
				fmt.Fprintf(&b, "  %s.%s = %s (%s)\n", name, key.AsString(), value(element), block.OriginOf(name, key.AsString()))
			}
		}
		for _, w := range block.Withheld {
			fmt.Fprintf(&b, "  withheld %s.%s: %s", w.Attribute, w.Key, w.Reason)
			if w.Needs != "" {
				fmt.Fprintf(&b, " needs %s", w.Needs)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func sorted(m map[string]cty.Value) []string {
	names := make([]string, 0, len(m))
	for it := cty.ObjectVal(m).ElementIterator(); it.Next(); {
		key, _ := it.Element()
		names = append(names, key.AsString())
	}
	return names
}

func value(v cty.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case v.Type() == cty.String:
		return fmt.Sprintf("%q", v.AsString())
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('g', -1)
	case v.Type() == cty.Bool:
		return fmt.Sprint(v.True())
	}
	var parts []string
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		parts = append(parts, value(element))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func mustLoad(t *testing.T, src string, assignments ...string) *profiles.Profile {
	t.Helper()
	p, diags := testLoader(assignments...).LoadText("test.hcl", []byte(src))
	if p == nil {
		t.Fatalf("does not load:\n%s", text(t, diags, 0, false))
	}
	return p
}

func mustEvaluate(t *testing.T, p *profiles.Profile, inv node.Inventory) profiles.Evaluation {
	t.Helper()
	e, diags := p.Evaluate(inv)
	if diags.HasErrors() {
		t.Fatalf("does not evaluate:\n%s", text(t, diags, 0, false))
	}
	return e
}

func TestEvaluate(t *testing.T) {
	tests := []struct {
		name, src string
		assign    []string
		want      string
	}{
		{
			name: "merging: attributes, keys, lists, null, drop, a diamond",
			src: `
profile {
  extends = ["left", "right"]
}
nccl {
  settings = {
    NCCL_NVLS_X = null
    "NCCL_NEW"  = "x"
  }
  version = null
}
`,
			want: `
nccl profiles/bare.hcl:19
  settings.NCCL_DEBUG = "INFO" (profiles/left.hcl:6)
  settings.NCCL_IB_TC = 160 (profiles/bare.hcl:22)
  settings.NCCL_NEW = "x" (test.hcl:8)
service.nvidia-persistenced profiles/bare.hcl:28
  active = true (profiles/bare.hcl:29)
  after = ["c.service"] (profiles/right.hcl:7)
sysctl["kernel.numa_balancing"] profiles/left.hcl:9
  value = 0 (profiles/left.hcl:10)
`,
		},
		{
			name: "variables: the command line wins over the profile",
			src: `
profile {
  extends   = ["bare"]
  variables = { priority = 4 }
}
kernel_module "nouveau" { drop = true }
service "nvidia-persistenced" { drop = true }
`,
			assign: []string{"priority = 1 + 1"},
			want: `
nccl profiles/bare.hcl:19
  settings.NCCL_DEBUG = "WARN" (profiles/bare.hcl:21)
  settings.NCCL_IB_TC = 64 (profiles/bare.hcl:22)
  settings.NCCL_NVLS_X = 1 (profiles/bare.hcl:23)
  version = "2.26.2" (profiles/bare.hcl:25)
`,
		},
		{
			name: "a dropped block can be declared anew by the next",
			src: `
profile { extends = ["right"] }
kernel_module "nouveau" { options = { modeset = "0" } }
nccl { drop = true }
service "nvidia-persistenced" { drop = true }
`,
			want: `
kernel_module.nouveau test.hcl:3
  options.modeset = "0" (test.hcl:3)
  take_over = false (test.hcl:3)
`,
		},
		{
			name: "computed objects merge key by key too",
			src: `
profile { extends = ["bare"] }
locals { more = { NCCL_DEBUG = "TRACE", A = node.arch } }
kernel_module "nouveau" { drop = true }
service "nvidia-persistenced" { drop = true }
nccl { settings = merge(local.more, { B = 1 }) }
`,
			want: `
nccl profiles/bare.hcl:19
  settings.A = "x86_64" (test.hcl:6)
  settings.B = 1 (test.hcl:6)
  settings.NCCL_DEBUG = "TRACE" (test.hcl:6)
  settings.NCCL_IB_TC = 96 (profiles/bare.hcl:22)
  settings.NCCL_NVLS_X = 1 (profiles/bare.hcl:23)
  version = "2.26.2" (profiles/bare.hcl:25)
`,
		},
		{
			name: "an unknown key takes no other with it, its reason survives splat, for, join and template",
			src: `
locals {
  names = [for n in node.nics : n.rdma if !n.protected]
}
nccl {
  settings = {
    SPLAT    = join(",", node.nics[*].rdma)
    FOR      = "=${join(",", local.names)}"
    TRY      = try(node.nics[2].rdma, "none")
    INDEX    = { a = 1, b = 2 }[node.nics[2].rdma]
    FALSE    = tostring(node.virtual && node.nics[2].rdma == "x")
    ARM      = node.virtual ? node.nics[2].rdma : "none"
    KNOWN    = node.nics[0].rdma
    SEVERAL  = "${node.gpus[1].numa}${node.nics[2].rdma}"
  }
}
`,
			want: `
nccl test.hcl:5
  settings.ARM = "none" (test.hcl:12)
  settings.FALSE = "false" (test.hcl:11)
  settings.KNOWN = "mlx5_0" (test.hcl:13)
  withheld settings.FOR: the NIC has no RDMA device needs rdma-devices
  withheld settings.INDEX: the NIC has no RDMA device needs rdma-devices
  withheld settings.SEVERAL: firmware does not say the NUMA node; the NIC has no RDMA device
  withheld settings.SPLAT: the NIC has no RDMA device needs rdma-devices
  withheld settings.TRY: the NIC has no RDMA device needs rdma-devices
`,
		},
		{
			name: "attributes withheld whole, and a node's objects narrowed",
			src: `
roce "a" {
  nics = node.nics
  mtu  = node.gpus[1].numa + 9000
}
service "b" {
  after = ["x", node.nics[2].rdma]
}
kernel_module "c" {
  options = { (node.nics[2].rdma) = "1" }
}
`,
			want: `
kernel_module.c test.hcl:9
  take_over = false (test.hcl:9)
  withheld options.: the NIC has no RDMA device needs rdma-devices
roce.a test.hcl:2
  nics = [["0000:18:00.0" 1] ["0000:2a:00.0" 1] ["0000:9a:00.0" 1] ["0000:c1:00.0" 1]] (test.hcl:3)
  withheld mtu.: firmware does not say the NUMA node
service.b test.hcl:6
  withheld after.: the NIC has no RDMA device needs rdma-devices
`,
		},
		{
			name: "when, for_each, depends_on and the other meta arguments",
			src: `
variable "level" { default = "warn" }
service "yes" {
  active     = true
  when       = node.nvswitch
  depends_on = [kernel_module.m, check.gpus.all, kernel_module.n["b"], service.no]
  severity   = var.level
  optional   = ["ecn"]
  waive {
    reason = "until the new driver"
    until  = "2026-12-31"
  }
}

service "no" {
  active = node.nics[77].protected
  when   = node.virtual
}
service "maybe" {
  active = true
  when   = node.nics[2].rdma != ""
}
kernel_module "m" {
  for_each = toset(["mlx5_ib", "a.b"])
  options  = { key = each.key, value = each.value }
}
kernel_module "n" {
  for_each = { for i, n in node.nics : (n.protected ? "b" : n.address) => n... }
  options  = { count = tostring(length(each.value)), rdma = each.value[0].rdma }
}
kernel_module "o" {
  for_each = toset(node.nics[*].rdma)
}
check "gpus" "all" {
  count = length(node.gpus)
}
`,
			want: `
check.gpus.all test.hcl:34
  count = 2 (test.hcl:35)
kernel_module.m["a.b"] test.hcl:23
  options.key = "a.b" (test.hcl:25)
  options.value = "a.b" (test.hcl:25)
  take_over = false (test.hcl:23)
kernel_module.m["mlx5_ib"] test.hcl:23
  options.key = "mlx5_ib" (test.hcl:25)
  options.value = "mlx5_ib" (test.hcl:25)
  take_over = false (test.hcl:23)
kernel_module.n["0000:18:00.0"] test.hcl:27
  options.count = "1" (test.hcl:29)
  options.rdma = "mlx5_0" (test.hcl:29)
  take_over = false (test.hcl:27)
kernel_module.n["0000:2a:00.0"] test.hcl:27
  options.count = "1" (test.hcl:29)
  options.rdma = "mlx5_1" (test.hcl:29)
  take_over = false (test.hcl:27)
kernel_module.n["0000:9a:00.0"] test.hcl:27
  options.count = "1" (test.hcl:29)
  take_over = false (test.hcl:27)
  withheld options.rdma: the NIC has no RDMA device needs rdma-devices
kernel_module.n["b"] test.hcl:27
  options.count = "1" (test.hcl:29)
  take_over = false (test.hcl:27)
  withheld options.rdma: the NIC has no RDMA device needs rdma-devices
kernel_module.o test.hcl:31 undecided: the NIC has no RDMA device needs rdma-devices
service.maybe test.hcl:19 undecided: the NIC has no RDMA device needs rdma-devices
service.yes test.hcl:3 severity warn optional [ecn] after check.gpus.all kernel_module.m["a.b"] kernel_module.m["mlx5_ib"] kernel_module.n["b"] service.no waived "until the new driver" until 2026-12-31T00:00:00Z
  active = true (test.hcl:4)
`,
		},
		{
			name: "variables, locals and selectors of a parent changed by a child",
			src: `
profile { extends = ["rails"] }
variable "names" { default = { a = "x" } }
locals { prefix = "=" }
selector "rails" { expect = null }
`,
			want: `
kernel_module.rails profiles/rails.hcl:17
  options.a = "x" (profiles/rails.hcl:18)
  options.hca = "=0000:18:00.0,0000:2a:00.0,0000:9a:00.0" (profiles/rails.hcl:18)
  take_over = false (profiles/rails.hcl:17)
`,
		},
		{
			name: "numbers, fractions, optional attributes of objects",
			src: `
variable "lossless" {
  type    = object({ priority = number, dscp = number, ets = optional(number, 4) })
  default = { priority = 3, dscp = 26 }
}
roce "a" {
  nics     = []
  ratio    = 0.65
  lossless = var.lossless
}
roce "b" {
  nics     = [{ address = "0000:18:00.0", port = 1 }]
  lossless = { priority = 3, dscp = node.gpus[1].numa }
}
`,
			want: `
roce.a test.hcl:6
  lossless.dscp = 26 (test.hcl:9)
  lossless.ets = 4 (test.hcl:9)
  lossless.priority = 3 (test.hcl:9)
  nics = [] (test.hcl:7)
  ratio = 0.65 (test.hcl:8)
roce.b test.hcl:11
  lossless.dscp = null (test.hcl:13)
  lossless.ets = null (test.hcl:13)
  lossless.priority = 3 (test.hcl:13)
  nics = [["0000:18:00.0" 1]] (test.hcl:12)
  withheld lossless.dscp: firmware does not say the NUMA node
`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := mustLoad(t, test.src, test.assign...)
			got := show(mustEvaluate(t, p, hgx()).Blocks)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEvaluateUnknownInventory(t *testing.T) {
	p := mustLoad(t, `
service "a" {
  active = true
  when   = node.nvswitch && node.virtual
}
sysctl "b" {
  value = "${node.dmi.product_name} ${length(node.nics)}"
}
sysctl "c" {
  value = 1
}
`)
	inv := node.Inventory{
		DMI: node.Unknown[node.DMI]("access denied", node.Source{}),
		PCI: node.Unknown[[]node.PCIFunction]("/sys is not mounted", node.Source{}),
	}
	want := strings.TrimPrefix(`
service.a test.hcl:2 undecided: /sys is not mounted; not recorded
sysctl.b test.hcl:6
  withheld value.: /sys is not mounted; access denied
sysctl.c test.hcl:9
  value = 1 (test.hcl:10)
`, "\n")
	if diff := cmp.Diff(want, show(mustEvaluate(t, p, inv).Blocks)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStaticBlocks(t *testing.T) {
	p := mustLoad(t, `
variable "later" { type = number }
sysctl "a" {
  value = node.arch
}
sysctl "b" {
  value = 1
  when  = node.nvswitch
}
sysctl "c" {
  value = var.later
}
sysctl "d" {
  value = 2
  when  = false
}
`)
	want := strings.TrimPrefix(`
sysctl.a test.hcl:3
  withheld value.: it depends on the node
sysctl.b test.hcl:6 undecided: it depends on the node
  value = 1 (test.hcl:7)
sysctl.c test.hcl:10
  withheld value.: variable later has no value
`, "\n")
	if diff := cmp.Diff(want, show(p.StaticBlocks())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSelectors(t *testing.T) {
	unprotected := hgx()
	unprotected.Protected = node.Unknown[[]node.ProtectedNetdev]("no default route", node.Source{})
	tests := []struct {
		name, nics, expect string
		inventory          node.Inventory
		want               []string // reason of what is withheld, finding, addresses
	}{
		{"complete", `[for n in node.nics : n if n.link_layer == "InfiniBand"]`, "expect = 2", hgx(),
			[]string{"", "", "0000:18:00.0 0000:2a:00.0"}},
		{"no number", "node.nics", "", hgx(),
			[]string{"", "", "0000:18:00.0 0000:2a:00.0 0000:9a:00.0"}},
		{"listed twice", "concat(node.nics, node.nics)", "expect = 3", hgx(),
			[]string{"", "", "0000:18:00.0 0000:2a:00.0 0000:9a:00.0"}},
		{"short", `[for n in node.nics : n if n.link_layer == "InfiniBand"]`, "expect = 8", hgx(),
			[]string{"selector rails: 2 of 8 NICs found", "selector.short drift: selector rails: 2 of 8 NICs found", "0000:18:00.0 0000:2a:00.0"}},
		{"protected left out", "node.nics", "expect = 4", hgx(),
			[]string{"selector rails: 3 of 4 NICs found (1 more protected: 0000:c1:00.0)", "selector.short drift: selector rails: 3 of 4 NICs found (1 more protected: 0000:c1:00.0)", "0000:18:00.0 0000:2a:00.0 0000:9a:00.0"}},
		{"too many", "node.nics", "expect = 1", hgx(),
			[]string{"selector rails: 3 of 1 NICs found (1 more protected: 0000:c1:00.0)", "selector.surplus drift: selector rails: 3 of 1 NICs found (1 more protected: 0000:c1:00.0)", "0000:18:00.0 0000:2a:00.0 0000:9a:00.0"}},
		{"none", "[]", "", hgx(),
			[]string{"selector rails: no NIC found", "selector.short drift: selector rails: no NIC found", ""}},
		{"protection unknown", "node.nics", "expect = 4", unprotected,
			[]string{"selector rails: whether NIC 0000:18:00.0 is protected is unknown: no default route", "selector.unknown unknown: selector rails: whether NIC 0000:18:00.0 is protected is unknown: no default route", ""}},
		{"filter unknown", `[for n in node.nics : n if n.rdma != "mlx5_7"]`, "expect = 4", hgx(),
			[]string{"selector rails: the NIC has no RDMA device", "selector.unknown unknown: selector rails: the NIC has no RDMA device", ""}},
		{"those that have one", `[for n in node.nics : n if n.has_rdma]`, "expect = 2", hgx(),
			[]string{"", "", "0000:18:00.0 0000:2a:00.0"}},
		{"those that have one, and not a certain one", `[for n in node.nics : n if n.has_rdma && n.rdma != "mlx5_1"]`, "expect = 1", hgx(),
			[]string{"", "", "0000:18:00.0"}},
		{"those that have none", `[for n in node.nics : n if !n.has_rdma || n.rdma == "mlx5_1"]`, "expect = 2", hgx(),
			[]string{"", "", "0000:2a:00.0 0000:9a:00.0"}},
		{"no bus", "node.nics", "expect = 4", node.Inventory{},
			[]string{"selector rails: not recorded", "selector.unknown unknown: selector rails: not recorded", ""}},
		{"number unknown", "node.nics", "expect = node.gpus[1].numa", hgx(),
			[]string{"selector rails: firmware does not say the NUMA node", "selector.unknown unknown: selector rails: firmware does not say the NUMA node", ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := mustLoad(t, fmt.Sprintf(`
selector "rails" {
  nics = %s
  %s
}
locals {
  addresses = selector.rails[*].address
}
nccl {
  settings = {
    A = join(" ", local.addresses)
    B = 1
  }
}
`, test.nics, test.expect))
			e := mustEvaluate(t, p, test.inventory)
			got := []string{"", "", strings.Join(e.Selections[0].Addresses, " ")}
			for _, w := range e.Blocks[0].Withheld {
				got[0] = w.Reason
			}
			for _, f := range e.Findings {
				got[1] = fmt.Sprintf("%s %s: %s", f.ID, f.Status, f.Summary)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if v := e.Blocks[0].Attributes["settings"]; !v.GetAttr("B").RawEquals(cty.NumberIntVal(1)) {
				t.Errorf("settings = %#v", v)
			}
		})
	}
}

// switched is a node with two switches. The rail of the first GPU has the higher address; 0000:30:00.0 is
// protected, 0000:40:00.0 has a root port of its own.
func switched() node.Inventory {
	known := node.Source{Path: "/sys"}
	inv := hgx()
	var functions []node.PCIFunction
	add := func(address, parent, id, class string) {
		functions = append(functions, node.PCIFunction{Address: "0000:" + address, Parent: parent, Vendor: id[:4], Device: id[5:], Class: class, Driver: "driver"})
	}
	for _, root := range []string{"1", "5"} {
		add(root+"0:01.0", "", "8086:352a", "060400")
		add(root+"1:00.0", "0000:"+root+"0:01.0", "1000:c030", "060400")
		for _, port := range []string{"0", "1", "2"} {
			add(root+"2:0"+port+".0", "0000:"+root+"1:00.0", "1000:c030", "060400")
		}
	}
	add("1b:00.0", "0000:12:00.0", "10de:2330", "030200")
	add("20:00.0", "0000:52:01.0", "15b3:1021", "020000")
	add("30:00.0", "0000:52:02.0", "15b3:101d", "020000")
	add("5d:00.0", "0000:52:00.0", "10de:2330", "030200")
	add("60:01.0", "", "8086:352a", "060400")
	add("40:00.0", "0000:60:01.0", "15b3:1021", "020000")
	add("90:00.0", "0000:12:01.0", "15b3:1021", "020000")
	inv.PCI = node.Known(functions, known)
	inv.Netdevs = node.Known([]node.Netdev{
		{Name: "front", Type: node.ARPHardwareEthernet, PCI: "0000:30:00.0", Port: 1}, {Name: "other", Type: node.ARPHardwareEthernet, PCI: "0000:40:00.0", Port: 1},
		{Name: "rail0", Type: node.ARPHardwareEthernet, PCI: "0000:90:00.0", Port: 1}, {Name: "rail1", Type: node.ARPHardwareEthernet, PCI: "0000:20:00.0", Port: 1},
	}, known)
	inv.RDMA = node.Known([]node.RDMADevice{}, known)
	inv.Protected = node.Known([]node.ProtectedNetdev{{Name: "front"}}, known)
	return inv
}

func TestRails(t *testing.T) {
	guest := switched()
	guest.Virtualization = node.Known("kvm", node.Source{})
	unprotected := switched()
	unprotected.Protected = node.Unknown[[]node.ProtectedNetdev]("no default route", node.Source{})
	moved := switched() // the network device of 0000:20:00.0 is in another namespace
	netdevs, _ := moved.Netdevs.Get()
	moved.Netdevs = node.Known(netdevs[:3], moved.Netdevs.Source())
	const open = "whether NIC 0000:20:00.0 is protected is unknown: the NIC has no network device although driver driver is bound to it"
	unbound := moved
	functions, _ := moved.PCI.Get()
	functions = slices.Clone(functions)
	for i := range functions {
		if functions[i].Address == "0000:20:00.0" {
			functions[i].Driver = ""
		}
	}
	unbound.PCI = node.Known(functions, moved.PCI.Source())
	tests := []struct {
		name, selector string
		inventory      node.Inventory
		want           []string // finding, addresses
	}{
		{"by the order of GPUs", "nics = node.rails\nexpect = 2", switched(), []string{"", "0000:90:00.0 0000:20:00.0"}},
		{"short, one is protected", "nics = node.rails\nexpect = 3", switched(),
			[]string{"selector.short selector rails: 2 of 3 NICs found (1 more protected: 0000:30:00.0)", "0000:90:00.0 0000:20:00.0"}},
		{"excluded by id", "nics = node.rails\nexclude = [\"15b3:101d\"]\nexpect = 3", switched(),
			[]string{"selector.short selector rails: 2 of 3 NICs found", "0000:90:00.0 0000:20:00.0"}},
		{"excluded by address", "nics = node.rails\nexclude = [\"0000:90:00.0\"]", switched(), []string{"", "0000:20:00.0"}},
		{"excluded by port", "nics = node.rails\nexclude = [\"0000:90:00.0/1\", \"0000:20:00.0/2\"]", switched(),
			[]string{"selector.exclude selector rails: exclude names what is no NIC of this node: 0000:20:00.0/2", "0000:20:00.0"}},
		{"excluded and not there, by id", "nics = node.rails\nexclude = [\"15b3:aaaa\"]", switched(), []string{"", "0000:90:00.0 0000:20:00.0"}},
		{"included by address", "nics = node.rails\ninclude = [\"0000:40:00.0\"]", switched(), []string{"", "0000:90:00.0 0000:20:00.0 0000:40:00.0"}},
		{"included by id, each once", "nics = node.rails\ninclude = [\"15b3:1021\"]", switched(), []string{"", "0000:90:00.0 0000:20:00.0 0000:40:00.0"}},
		{"protected is never included", "nics = node.rails\ninclude = [\"15b3:101d\", \"15b3:aaaa\"]\nexpect = 3", switched(),
			[]string{"selector.short selector rails: 2 of 3 NICs found (1 more protected: 0000:30:00.0)", "0000:90:00.0 0000:20:00.0"}},
		{"included and not there", "nics = node.rails\ninclude = [\"0000:aa:00.0\", \"0000:90:00.0/2\", \"0000:40:00.0\"]\nexpect = 3", switched(),
			[]string{"selector.include selector rails: include names 0000:aa:00.0, which is no NIC of this node, and 0000:90:00.0/2, which is no NIC of this node", "0000:90:00.0 0000:20:00.0 0000:40:00.0"}},
		{"included and protected", "nics = node.rails\ninclude = [\"0000:30:00.0\"]", switched(),
			[]string{"selector.include selector rails: include names 0000:30:00.0, which is protected", "0000:90:00.0 0000:20:00.0"}},
		{"included and excluded", "nics = node.rails\ninclude = [\"0000:40:00.0\"]\nexclude = [\"15b3:1021\"]", switched(), []string{"selector.short selector rails: no NIC found (1 more protected: 0000:30:00.0)", ""}},
		{"exclude wins", "nics = []\ninclude = [\"15b3:1021\"]\nexclude = [\"0000:40:00.0\"]", switched(), []string{"", "0000:20:00.0 0000:90:00.0"}},
		{"what is excluded may be protected or not", "nics = node.nics\nexclude = [\"0000:20:00.0\", \"0000:30:00.0\", \"0000:40:00.0\", \"0000:90:00.0\"]", unprotected, []string{"selector.short selector rails: no NIC found", ""}},
		{"by GPU", "nics = [for n in node.rails : n if contains(n.gpus, node.gpus[1].address)]", switched(), []string{"", "0000:20:00.0"}},
		{"set", "nics = toset(node.rails)", switched(), []string{"", "0000:20:00.0 0000:90:00.0"}},
		{"virtual machine", "nics = node.rails\nexpect = 2", guest,
			[]string{"selector.unknown selector rails: a virtual machine (kvm) has the PCI tree that its hypervisor chose to show, not the one that the traffic takes", ""}},
		{"virtual machine, named", "nics = []\ninclude = [\"0000:20:00.0\"]", guest, []string{"", "0000:20:00.0"}},
		{"protection unknown", "nics = node.rails", unprotected,
			[]string{"selector.unknown selector rails: whether NIC 0000:20:00.0 is protected is unknown: no default route", ""}},
		{"no driver", "nics = node.rails\nexpect = 2", unbound, []string{"", "0000:90:00.0 0000:20:00.0"}},
		{"one is unknown", "nics = node.rails", moved, []string{"selector.unknown selector rails: " + open, "0000:90:00.0"}},
		{"one is unknown, and decides", "nics = node.rails\nexpect = 2", moved, []string{"selector.unknown selector rails: " + open, ""}},
		{"one is unknown, and there would be too many", "nics = node.rails\nexpect = 1", moved, []string{"selector.unknown selector rails: " + open, ""}},
		{"too few with one that is unknown", "nics = node.rails\nexpect = 3", moved,
			[]string{"selector.short selector rails: 1 of 3 NICs found (1 more protected: 0000:30:00.0); " + open, "0000:90:00.0"}},
		{"no bus", "nics = []\ninclude = [\"0000:20:00.0\"]", node.Inventory{}, []string{"selector.unknown selector rails: not recorded", ""}},
		{"exclude unknown", "nics = node.rails\nexclude = [node.nics[0].rdma]", switched(), []string{"selector.unknown selector rails: the NIC has no RDMA device", ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := mustEvaluate(t, mustLoad(t, "selector \"rails\" {\n"+test.selector+"\n}\nnccl {\n  settings = { A = join(\" \", selector.rails[*].address), B = join(\" \", node.gpu_paths) }\n}\n"), test.inventory)
			got := []string{"", strings.Join(e.Selections[0].Addresses, " ")}
			for _, f := range e.Findings {
				got[0] = f.ID + " " + f.Summary
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	e := mustEvaluate(t, mustLoad(t, "nccl {\n  settings = { A = join(\" \", node.gpu_paths), B = join(\" \", flatten(node.nics[*].gpus)) }\n}\n"), switched())
	settings := e.Blocks[0].Attributes["settings"]
	if got, want := settings.GetAttr("A").AsString(), "0000:10:01.0 0000:11:00.0 0000:12:00.0 0000:12:01.0 0000:50:01.0 0000:51:00.0 0000:52:00.0 0000:52:01.0"; got != want {
		t.Errorf("node.gpu_paths is %s, want %s", got, want)
	}
	if got, want := settings.GetAttr("B").AsString(), "0000:5d:00.0 0000:5d:00.0 0000:1b:00.0"; got != want {
		t.Errorf("the GPUs of NICs are %s, want %s", got, want)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"a bool in settings that only the node tells", "nccl {\n  settings = { A = node.virtual }\n}", "No value for NCCL"},
		{"null", "sysctl \"a\" {\n  value = node.virtual ? 1 : null\n}", "Null left after merging"},
		{"a variable without a value", "variable \"a\" { type = number }\nsysctl \"a\" {\n  value = var.a\n}", "No value"},
		{"out of range", "roce \"a\" {\n  nics = []\n  mtu = length(node.nics)\n}", "Value out of range"},
		{"index", "sysctl \"a\" {\n  value = node.nics[9].rdma\n}", "Invalid index"},
		{"instance", "sysctl \"a\" {\n  for_each = toset(node.pci_ids)\n  value = 1\n}\nsysctl \"b\" {\n  value = 1\n  depends_on = [sysctl.a[\"15b3:1020\"]]\n}", "No such block"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, diags := mustLoad(t, test.src).Evaluate(hgx())
			if len(diags) != 1 || diags[0].Summary != test.want || diags[0].Snippet == nil {
				t.Errorf("want %q with its place, got:\n%s", test.want, text(t, diags, 0, false))
			}
		})
	}
}

func TestEvaluateConcurrently(t *testing.T) {
	p := mustLoad(t, `
selector "rails" {
  nics = [for n in node.nics : n if n.link_layer == "InfiniBand"]
}
nccl {
  settings = { A = join(",", selector.rails[*].rdma), B = join(",", node.nics[*].address) }
}
`)
	want := show(mustEvaluate(t, p, hgx()).Blocks)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				e, _ := p.Evaluate(hgx())
				if got := show(e.Blocks); got != want {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	wg.Wait()
}

// TestSetUnion: sets, lists and elements of unlike types make one set, unknown where one of them is.
func TestSetUnion(t *testing.T) {
	for expr, want := range map[string]string{
		`setunion(["b", "a"], toset(["c"]), ["a"])`: "a b c",
		`setunion([], [])`:                          "",
		`setunion([2], ["1"])`:                      "1 2",
		`setunion(["a"])`:                           "a",
		`setunion(["${node.gpus[1].numa}"], ["1"])`: "firmware does not say the NUMA node",
	} {
		e := mustEvaluate(t, mustLoad(t, "nccl {\n  settings = { A = join(\" \", "+expr+") }\n}\n"), hgx())
		got := ""
		if settings := e.Blocks[0].Attributes["settings"]; settings.Type().HasAttribute("A") {
			got = settings.GetAttr("A").AsString()
		}
		for _, w := range e.Blocks[0].Withheld {
			got = w.Reason
		}
		if got != want {
			t.Errorf("%s is %q, want %q", expr, got, want)
		}
	}
}
