package checks

import (
	"fmt"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// InfiniBand is check "infiniband": whether a subnet manager has configured InfiniBand ports, and how wide and fast
// they are.
type InfiniBand struct{}

// Spec of check "infiniband".
func (InfiniBand) Spec() plan.Spec {
	low, widest := int64(1), int64(12)
	return plan.Spec{
		Name: "infiniband", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "InfiniBand ports: ACTIVE, with a LID and a subnet manager, at full width and rate.",
		Attributes: []plan.Attribute{
			nicsAttribute(),
			{Name: "rate", Type: cty.Number, Min: &low, Example: "400", Doc: "Gbit/s that each must have at least. Left out, all must have the same."},
			{Name: "width", Type: cty.Number, Default: cty.NumberIntVal(4), Min: &low, Max: &widest, Example: "4", Doc: "Lanes that each link must have at least."},
		},
	}
}

// Queries are the RDMA ports.
func (InfiniBand) Queries(b plan.Block, inv node.Inventory) []node.Query {
	return queries(b, inv, node.RDMAPort)
}

// Assess judges each port.
func (InfiniBand) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c struct {
		Rate  *int64 `cty:"rate"`
		Width *int64 `cty:"width"`
	}
	// Numbers decode.
	_ = b.Decode(&c)
	all, a := survey(b, facts)
	var ports []port
	var rates []node.Value[node.RDMARate]
	for _, p := range all {
		v := p.rdma(facts)
		state, ok := v.Get()
		switch {
		case !ok:
			a.Findings = append(a.Findings, unread(p, "infiniband.state", "the RDMA port", v))
			ports, rates = append(ports, p), append(rates, node.UnknownLike[node.RDMARate](v))
			continue
		case state.LinkLayer != infiniBand:
			a.Findings = append(a.Findings, wrongLayer(p, "infiniband.state", infiniBand, state.LinkLayer, v.Source()))
			continue
		}
		if logical, ok := state.State.Get(); !ok || logical == node.RDMAActive { // of a port without a link its state is told
			ports, rates = append(ports, p), append(rates, rateOf(p, state, facts))
		}
		a.Findings = append(a.Findings, portState(p, "infiniband.state", state, v.Source()),
			assigned(p, "infiniband.lid", "LID", state, state.LID), assigned(p, "infiniband.subnet_manager", "LID of a subnet manager", state, state.SMLID))
		if c.Width != nil {
			a.Findings = append(a.Findings, linkWidth(p, state.Rate, int(*c.Width)))
		}
	}
	if _, withheld := b.IsWithheld("rate", ""); !withheld {
		a.Findings = append(a.Findings, judgeRates("infiniband.rate", ports, rates, c.Rate)...)
	}
	return a
}

// noSubnetManager is what to do about a port that no subnet manager has configured.
const noSubnetManager = "start a subnet manager in the fabric (opensm, or the switch's), or look why it does not reach this port: sminfo and ibstat say what they see"

// assigned judges a LID that a subnet manager assigns; it can give none to a port without a link, which infiniband.state tells.
func assigned(p port, id, what string, state node.RDMAPortState, v node.Value[int]) plan.Finding {
	lid, ok := v.Get()
	if !ok {
		return unread(p, id, "the "+what, v)
	}
	f := p.finding(id)
	f.Want, f.Found, f.Source, f.Summary = "not 0", strconv.Itoa(lid), v.Source(), fmt.Sprintf("%s has %s %d", p.name(), what, lid)
	physical, ok := state.PhysState.Get()
	switch {
	case lid != 0:
	case ok && physical != linkUp:
		f.Status, f.Summary = plan.Skipped, fmt.Sprintf("%s has no %s, and no link (%s)", p.name(), what, physical)
	default:
		f.Status, f.Summary, f.Fix = plan.Drift, fmt.Sprintf("%s has no %s", p.name(), what), noSubnetManager
	}
	return f
}

// linkWidth judges how many lanes the link has. The rate tells it, whatever the speed is.
func linkWidth(p port, v node.Value[string], want int) plan.Finding {
	const id = "infiniband.width"
	text, ok := v.Get()
	if !ok {
		return unread(p, id, "the width", v)
	}
	f := p.finding(id)
	rate, ok := node.ParseRDMARate(text)
	f.Want, f.Found, f.Source, f.Summary = fmt.Sprintf("%dX or more", want), text, v.Source(), fmt.Sprintf("%s has %s", p.name(), count(rate.Width, "lane"))
	switch {
	case !ok:
		f.Status, f.Summary = plan.Undetermined, fmt.Sprintf("the width of %s is unknown: %q is no rate", p.name(), text)
	case rate.Width < want:
		f.Status = plan.Drift
		f.Summary += fmt.Sprintf(", wanted is %s", f.Want)
		f.Fix = "lanes are lost in a cable, a transceiver or a port: seat the cable again, then exchange one after the other"
	}
	return f
}
