package link_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"busbar/modules/link"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{link.Type{}}

func block(port, arguments string) string {
	return "link \"rails\" {\nnics = [{ address = \"" + port + "\", port = 1 }]\n" + arguments + "\n}"
}

// down is a rail that nobody has set up yet: down, with the MTU of Ethernet.
func down() plantest.PortState {
	s := plantest.Lossless(plantest.Rail, "rail0", "mlx5_0")
	s.Link.MTU, s.Link.Up = node.Known(1500, s.Link.MTU.Source()), node.Known(false, s.Link.Up.Source())
	s.Link.Carrier = node.Unknown[bool]("the network device is down", s.Link.Carrier.Source())
	return s
}

func TestLink(t *testing.T) {
	const rail, mtu, flags = plantest.Rail, "(/sys/class/net/rail0/mtu)", "(/sys/class/net/rail0/flags)"
	healthy, unread := plantest.Lossless(rail, "rail0", "mlx5_0"), down()
	unread.Link.MTU, unread.Link.Up = node.Value[int]{}, node.Value[bool]{}
	front := plantest.Lossless(plantest.Front, "eno1", "mlx5_9")
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "as wanted", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(healthy.Answers()...),
			Want: "ok link.mtu " + rail + " " + mtu + "\nok link.up " + rail + " " + flags,
		},
		{
			Name: "MTU and state are one step", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(down().Answers()...),
			Want: "!drift link.mtu " + rail + " " + mtu + "\n!drift link.up " + rail + " " + flags + "\nstep set-link:" + rail,
		},
		{
			Name: "to be down", Blocks: block(rail, "up = false"), Facts: plantest.PortNode(healthy.Answers()...),
			Want: "!drift link.up " + rail + " " + flags + "\nstep set-link:" + rail, Says: []string{"0000:1a:00.0 (rail0) is up, wanted is down"},
		},
		{
			Name: "a bounce is waited for", Blocks: block(rail, "mtu = 4200"), Facts: plantest.PortNode(healthy.Answers()...),
			Want: "!drift link.mtu " + rail + " " + mtu + "\nstep set-link:" + rail + "\nstep await-links:links",
		},
		{
			Name: "protected", Blocks: block(plantest.Front, "mtu = 1500"), Facts: plantest.PortNode(front.Answers()...),
			Want: "drift link.mtu 0000:01:00.0 (/sys/class/net/eno1/mtu)", After: "drift link.mtu 0000:01:00.0 (/sys/class/net/eno1/mtu)", Says: []string{"carries the default route"},
		},
		{
			Name: "unread", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(unread.Answers()...),
			Want: "unknown link.mtu " + rail + " ()\nunknown link.up " + rail + " ()", After: "unknown link.mtu " + rail + " ()\nunknown link.up " + rail + " ()",
		},
		{
			Name: "not answered", Blocks: block(rail, "mtu = 9000\nup = true"), Facts: plantest.PortNode(),
			Want: "unknown link.mtu " + rail + " ()\nunknown link.up " + rail + " ()", After: "unknown link.mtu " + rail + " ()\nunknown link.up " + rail + " ()",
		},
	})
}

func TestMergedStep(t *testing.T) {
	p := plantest.Planner(types).Plan(plantest.Blocks(t, types, block(plantest.Rail, "mtu = 9000\nup = true")), plantest.PortNode(down().Answers()...))
	want := plan.SetLink{NICPort: plan.NICPort{NIC: plantest.Rail}, MTU: 9000, State: "up"}
	if len(p.Steps) != 1 || p.Steps[0].Action != want || p.Steps[0].Summary != "set the MTU of NIC 0000:1a:00.0 to 9000 and set NIC 0000:1a:00.0 up" || len(p.Steps[0].After) != 0 {
		t.Errorf("%+v", p.Steps)
	}
}

// Two blocks that want different things of one port contradict each other, and nothing is done.
func TestContradiction(t *testing.T) {
	blocks := block(plantest.Rail, "mtu = 9000\nup = true") + "\n" + "link \"others\" {\nnics = [{ address = \"" + plantest.Rail + "\" }]\nmtu = 4200\n}"
	p := plantest.Planner(types).Plan(plantest.Blocks(t, types, blocks), plantest.PortNode(down().Answers()...))
	conflicts := 0
	for _, f := range p.Findings {
		if f.ID == "profile.contradiction" {
			conflicts++
		}
	}
	if conflicts != 2 || len(p.Steps) != 0 {
		t.Error(plantest.Summarize(p))
	}
}

func TestValidate(t *testing.T) {
	for text, want := range map[string][]string{
		block(plantest.Rail, "mtu = 9000"):                   nil,
		block(plantest.Rail, "up = false"):                   nil,
		block(plantest.Rail, ""):                             {"the block asks for nothing"},
		block("0000:1a:00", "mtu = 9000"):                    {"no NIC"},
		block(plantest.Rail+"/2", "mtu = 9000"):              nil,
		"link \"x\" {\nnics = []\nallow_protected = true\n}": {"the block asks for nothing"},
	} {
		var got []string
		for _, p := range (link.Type{}).Validate(plantest.Blocks(t, types, text)[0]) {
			got = append(got, p.Summary)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
	b := plantest.Blocks(t, types, block(plantest.Rail, "up = true"))[0]
	b.Attributes["up"], b.Withheld = cty.NullVal(cty.Bool), []plan.Withheld{{Attribute: "up", Reason: "x"}}
	if problems := (link.Type{}).Validate(b); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}
