package nicport

import (
	"fmt"

	"busbar/node"
	"busbar/plan"
)

// Up judges whether a port is administratively up, and sets that.
func (a *Assessor) Up(p Port, want bool) {
	v := node.Link.Get(a.Facts, p.NICPort.NIC)
	link, ok := v.Get()
	if !ok {
		Unread(a, p, "up", "", "the link", "", v)
		return
	}
	up, ok := link.Up.Get()
	if !ok {
		Unread(a, p, "up", "", "the link", "", link.Up)
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
	a.Judge(p, f, &Step{Action: set, Phase: plan.PhaseLink, Summary: set.Summary(), Effect: effect})
}

// Carrier judges whether a port that is up has a link: what is set on it can be as wanted, and carries nothing without one.
func (a *Assessor) Carrier(p Port) {
	link, _ := node.Link.Get(a.Facts, p.NICPort.NIC).Get()
	up, known := link.Up.Get()
	if !known || !up { // told as state, or unknown as that is
		return
	}
	carrier, ok := link.Carrier.Get()
	if !ok {
		Unread(a, p, "carrier", "", "whether there is a link", "", link.Carrier)
		return
	}
	f := plan.Finding{ID: a.ID("carrier"), Want: "a link", Found: "a link", Source: link.Carrier.Source(), Summary: p.Name + " has a link"}
	if !carrier {
		f.Status, f.Found, f.Summary = plan.Drift, "none", p.Name+" is up and has no link"
		f.Fix = "look at the cable, the transceiver and the switch's port"
	}
	a.Judge(p, f, nil)
}
