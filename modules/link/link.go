// Package link is the block type link: the MTU of ports of NICs, and whether they are up.
package link

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"busbar/modules/nicport"
	"busbar/node"
	"busbar/plan"
)

// Type is the block type link.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of link.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "link", Label: plan.LabelRequired, LabelDoc: "a name for the ports",
		Doc: "Ports of NICs: their MTU, and whether they are up. Ports that busbar must not touch are judged and left as they are. " +
			"Files of networkd, netplan, NetworkManager, ifupdown and udev that say another MTU are named and left as they are too.",
		Ceiling: plan.LinkBounce, Sinks: nicport.Sinks(),
		Attributes: slices.Concat(nicport.Attributes(), []plan.Attribute{
			nicport.MTUAttribute(),
			{Name: "up", Type: cty.Bool, Example: "true", Doc: "Whether the network device is administratively up."},
		}),
	}
}

// Validate finds what is no port, and a block that asks for nothing.
func (Type) Validate(b plan.Block) []plan.Problem {
	problems := nicport.Validate(b)
	_, mtu := nicport.Number(b.Attributes["mtu"])
	if !mtu && b.Attributes["up"].IsNull() && len(b.Withheld) == 0 {
		problems = append(problems, plan.Problem{Summary: "the block asks for nothing", Detail: "Set mtu or up."})
	}
	return problems
}

// Queries are the links, and what must come back after they went down.
func (Type) Queries(b plan.Block, inv node.Inventory) []node.Query { return nicport.Queries(b, inv) }

// Assess judges the links.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	a := nicport.Assess(b, facts)
	mtu, hasMTU := nicport.Number(b.Attributes["mtu"])
	up := b.Attributes["up"]
	hasUp := up != cty.NilVal && !up.IsNull()
	if hasMTU {
		a.Claim(nicport.MTUFact, fmt.Sprint(mtu), b.OriginOf("mtu", ""))
	}
	if hasUp {
		a.Claim(nicport.StateFact, plan.UpOrDown(up.True()), b.OriginOf("up", ""))
	}
	for _, p := range a.Ports {
		if hasMTU {
			a.MTU(p, mtu)
		}
		if hasUp {
			judgeUp(a, p, up.True())
		}
	}
	return a.Result()
}

func judgeUp(a *nicport.Assessor, p nicport.Port, want bool) {
	v := node.Link.Get(a.Facts, p.NICPort.NIC)
	link, ok := v.Get()
	if !ok {
		nicport.Unread(a, p, "up", "", "the link", "", v)
		return
	}
	up, ok := link.Up.Get()
	if !ok {
		nicport.Unread(a, p, "up", "", "the link", "", link.Up)
		return
	}
	word, wanted := plan.UpOrDown(up), plan.UpOrDown(want)
	f := plan.Finding{ID: a.ID("up"), Want: wanted, Found: word, Running: word, Source: link.Up.Source(), Summary: fmt.Sprintf("%s is %s", p.Name, word)}
	if up != want {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("%s is %s, wanted is %s", p.Name, word, wanted)
	}
	set := plan.SetLink{NICPort: p.NICPort, State: wanted}
	effect := plan.Live
	if !want {
		effect = plan.LinkBounce
	}
	a.Judge(p, f, &nicport.Step{Action: set, Phase: plan.PhaseLink, Summary: set.Summary(), Effect: effect})
}
