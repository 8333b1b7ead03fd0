package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/modules/gpudirect"
	"busbar/node"
	"busbar/plan"
)

var (
	_ plan.Claimer = Driver{}
	_ plan.Claimer = Fabric{}
	_ plan.Claimer = GID{}
	_ plan.Claimer = GPUDirectRDMA{}
	_ plan.Claimer = GPUs{}
	_ plan.Claimer = InfiniBand{}
	_ plan.Claimer = MTU{}
	_ plan.Claimer = NICNVConfig{}
	_ plan.Claimer = NVLink{}
	_ plan.Claimer = P2P{}
	_ plan.Claimer = Platform{}
	_ plan.Claimer = RDMAPort{}
)

const (
	nvidiaModule = "nvidia"
	migFact      = "MIG"
)

// claims collects the facts of one block.
type claims struct {
	block plan.Block
	inv   node.Inventory
	facts []plan.Contribution
}

// given is an argument that the profile gives, as text, and false where it gives none or it is not known.
func (c *claims) given(attribute string) (string, bool) {
	v := c.block.Attributes[attribute]
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() {
		return "", false
	}
	if v.Type() == cty.Bool {
		return strconv.FormatBool(v.True()), true
	}
	text, err := plan.ScalarText(v)
	return text, err == nil
}

// node claims a fact of the node. by is what the block says where it has other words for it.
func (c *claims) node(key, value, by string, origin plan.Origin) {
	c.facts = append(c.facts, plan.Contribution{Sink: plan.FactSink, Key: key, Value: value, By: by, Origin: origin})
}

// argument claims the value of an argument, if there is one.
func (c *claims) argument(attribute, key string) {
	if value, ok := c.given(attribute); ok {
		c.node(key, value, "", c.block.OriginOf(attribute, ""))
	}
}

// loaded claims that the kernel has modules.
func (c *claims) loaded(modules ...string) {
	for _, m := range modules {
		c.node(plan.ModuleFact(m), "loaded", "", c.block.Origin)
	}
}

// ports are the NIC ports that the block names, or those of node.rails; set is true where they are not known, and what they
// are called stands for them.
func (c *claims) ports() (keys []string, set bool) {
	if w, withheld := c.block.IsWithheld("nics", ""); withheld {
		return w.Sets, true
	}
	v := c.block.Attributes["nics"]
	if v == cty.NilVal || v.IsNull() {
		rails, ok := c.inv.Rails().Get()
		if !ok {
			return []string{"node.rails"}, true
		}
		for _, n := range rails {
			keys = append(keys, n.String())
		}
		return keys, false
	}
	for _, n := range v.AsValueSlice() {
		nic := node.NIC{Address: n.GetAttr("address").AsString()}
		if port := n.GetAttr("port"); !port.IsNull() {
			number, _ := port.AsBigFloat().Int64()
			nic.Port = int(number)
		}
		keys = append(keys, nic.String())
	}
	return keys, false
}

// nics claims a fact of each of the block's ports.
func (c *claims) nics(key, value, by string, origin plan.Origin) {
	keys, set := c.ports()
	for _, k := range keys {
		c.facts = append(c.facts, plan.Contribution{Sink: plan.FactSink, Key: key, Device: k, SetOfDevices: set, Value: value, By: by, Origin: origin})
	}
}

// rdma claims that the ports can have RDMA devices, and their link layer where it is not empty.
func (c *claims) rdma(layer string, origin plan.Origin) {
	if layer != "" {
		c.nics(plan.LinkLayerFact, layer, "", origin)
	}
	keys, set := c.ports()
	if set {
		keys = nil
	}
	c.facts = append(c.facts, plan.RDMAModuleFacts(keys, c.inv, c.block.Origin)...)
}

// nvlink claims what NVLinks need. by says what asks for them.
func (c *claims) nvlink(by string, origin plan.Origin) {
	c.node(migFact, "false", by, origin)
	c.node(parameterFact("NvLinkDisable"), "0", by, origin)
}

func parameterFact(name string) string { return "driver parameter " + name }

// Claims are the driver's version, flavour and parameters, each of which can have one value.
func (Driver) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.loaded(nvidiaModule)
	c.argument("version", "driver version")
	c.argument("open", openFact)
	var config driverConfig
	if b.Decode(&config) == nil {
		for _, name := range sortedKeys(config.Parameters) {
			c.node(parameterFact(name), config.Parameters[name], "", b.OriginOf("parameters", name))
		}
	}
	return c.facts
}

const openFact = "open kernel modules of the driver"

// Claims are the driver and, where the PCI bus shows NVSwitches, the fabric manager, which initialises them.
func (Fabric) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.loaded(nvidiaModule)
	functions, known := inv.PCI.Get()
	fact := plan.Contribution{Sink: plan.FactSink, Key: plan.UnitFact(fabricManagerUnit, "active"), Value: "true", Origin: b.Origin}
	switch {
	case !known:
		fact.Where = "with NVSwitches"
		c.facts = append(c.facts, fact)
	case slices.ContainsFunc(functions, node.PCIFunction.IsNVSwitch):
		fact.By = "the NVSwitches of this node"
		c.facts = append(c.facts, fact)
	}
	return c.facts
}

// Claims are that the ports are up and speak RoCE v2, and the index that jobs pin.
func (GID) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.rdma(ethernet, b.Origin)
	c.nics(plan.LinkStateFact, plan.UpOrDown(true), "", b.Origin)
	c.node(plan.RoCEVersionFact, "v2", "", b.Origin)
	c.argument("index", plan.GIDIndexFact)
	return c.facts
}

// Claims are what the way needs of modules.
func (GPUDirectRDMA) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.loaded(nvidiaModule, "ib_core", "ib_uverbs")
	switch path, _ := c.given("path"); path {
	case gpudirect.Peermem:
		c.loaded(plan.PeerMemoryModule)
	case gpudirect.DMABuf:
		c.node(openFact, "true", `path = "dmabuf"`, b.OriginOf("path", ""))
	}
	return c.facts
}

// Claims are the number, the product and MIG.
func (GPUs) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.argument("count", "number of GPUs")
	c.argument("product", "product of all GPUs")
	c.argument("mig", migFact)
	return c.facts
}

// Claims are the link layer, and what it takes to have RDMA devices.
func (InfiniBand) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.rdma(infiniBand, b.Origin)
	return c.facts
}

// Claims are that the ports are up, RoCE's link layer, and the MTU.
func (MTU) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.rdma(ethernet, b.Origin)
	c.nics(plan.LinkStateFact, plan.UpOrDown(true), "", b.Origin)
	if text, ok := c.given("min"); ok {
		least, _ := strconv.Atoi(text)
		for i := len(plan.InfiniBandMTUs) - 1; i >= 0; i-- {
			if size := plan.InfiniBandMTUs[i]; size >= least {
				c.nics(plan.InfiniBandMTUFact(size), "true", "min = "+text, b.OriginOf("min", ""))
				break
			}
		}
	}
	return c.facts
}

// portParameters are what parameters of firmware say of ports, by their names without the port's number (mstflint's
// mlxconfig_host.db), and by their values in words and numbers.
var portParameters = []struct {
	prefix, fact string
	values       map[string]string
}{
	{"LINK_TYPE_P", plan.LinkLayerFact, map[string]string{"eth": ethernet, "2": ethernet, "ib": infiniBand, "1": infiniBand}},
	{"LLDP_NB_DCBX_P", plan.DCBXFact, map[string]string{"true": plan.DCBXFirmware, "1": plan.DCBXFirmware, "false": plan.DCBXHost, "0": plan.DCBXHost}},
}

// Claims are the parameters. A device has what they say of its ports in those of its first function; ports of a device are
// functions, of which NAME_P2 is for the second.
func (NICNVConfig) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	settings, _ := wantedSettings(b)
	keys, set := c.ports()
	for _, s := range settings {
		origin := b.OriginOf(nvSettings, s.name)
		for _, element := range s.elements {
			c.nics("firmware parameter "+element, strings.ToLower(s.want), "", origin)
		}
		for _, p := range portParameters {
			value, ok := p.values[strings.ToLower(s.want)]
			number, has := strings.CutPrefix(s.name, p.prefix)
			for _, k := range keys {
				address, _, _ := node.ParseNIC(k)
				_, function, _ := strings.Cut(address, ".")
				if ok && has && (set && number == "1" || number == "1" && function == "0" || number == "2" && function == "1") {
					c.facts = append(c.facts, plan.Contribution{
						Sink: plan.FactSink, Key: p.fact, Device: k, SetOfDevices: set, Value: value, By: fmt.Sprintf("%s = %q", s.name, s.want), Origin: origin,
					})
				}
			}
		}
	}
	return c.facts
}

// Claims are the number of links, and what they need.
func (NVLink) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.loaded(nvidiaModule)
	c.argument("links", "active NVLinks of each GPU")
	if links, ok := c.given("links"); ok && links != "0" {
		c.nvlink("links = "+links, b.OriginOf("links", ""))
	}
	return c.facts
}

// Claims are what NVLinks need where pairs must have them.
func (P2P) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.loaded(nvidiaModule)
	if nvlink, _ := c.given("nvlink"); nvlink == "true" {
		c.nvlink("nvlink = true", b.OriginOf("nvlink", ""))
	}
	return c.facts
}

// Claims are what has one value.
func (Platform) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	c.argument("governor", "frequency governor")
	if may, _ := c.given("irqbalance"); may == "false" {
		c.node(plan.UnitFact(irqbalance, "active"), "false", "irqbalance = false", b.OriginOf("irqbalance", ""))
	}
	return c.facts
}

// Claims are the link layer, the number of ports of the same list, and what it takes to have RDMA devices.
func (RDMAPort) Claims(b plan.Block, inv node.Inventory) []plan.Contribution {
	c := claims{block: b, inv: inv}
	layer, _ := c.given("link_layer")
	c.rdma(layer, b.OriginOf("link_layer", ""))
	if layer == ethernet {
		c.nics(plan.LinkStateFact, plan.UpOrDown(true), "", b.Origin)
	}
	keys, set := c.ports()
	if count, ok := c.given("count"); ok && len(keys) > 0 {
		list := strings.Join(keys, ", ")
		if set {
			list = keys[0] // its own name; the others are what it has a part of
		}
		c.facts = append(c.facts, plan.Contribution{Sink: plan.FactSink, Key: "number", Device: list, SetOfDevices: set, Value: count, Origin: b.OriginOf("count", "")})
	}
	return c.facts
}
