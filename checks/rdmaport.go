package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
	"busbar/plan"
)

// RDMAPort is check "rdma_port": state, rate, link layer and firmware of the RDMA ports of NICs.
type RDMAPort struct{}

var _ plan.Validator = RDMAPort{}

// Spec of check "rdma_port".
func (RDMAPort) Spec() plan.Spec {
	low := int64(1)
	return plan.Spec{
		Name: "rdma_port", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The RDMA ports of NICs: ACTIVE and LinkUp, fast, and with firmware that is new enough.",
		Attributes: []plan.Attribute{
			nicsAttribute(),
			{Name: "count", Type: cty.Number, Min: &low, Example: "8", Doc: "How many ports nics must have. Left out, at least one."},
			{Name: "link_layer", Type: cty.String, Enum: []string{ethernet, infiniBand}, Example: `"Ethernet"`, Doc: "The link layer that all must have. Left out, it is not judged."},
			{Name: "rate", Type: cty.Number, Min: &low, Example: "400", Doc: "Gbit/s that each must have at least. Left out, all must have the same."},
			{Name: "firmware", Type: cty.String, Example: `"28.39.1002"`, Doc: "The oldest firmware version that will do: numbers with dots between."},
			{Name: "board_firmware", Type: cty.Map(cty.String), Example: `{ MT_0000000838 = "28.39.1002" }`, Doc: "The same for boards by their id (/sys/class/infiniband/DEVICE/board_id), instead of firmware."},
		},
	}
}

type rdmaPort struct {
	Count         *int64            `cty:"count"`
	LinkLayer     *string           `cty:"link_layer"`
	Rate          *int64            `cty:"rate"`
	Firmware      *string           `cty:"firmware"`
	BoardFirmware map[string]string `cty:"board_firmware"`
}

// Validate finds firmware versions that are none, and a count that is not the selector's.
func (RDMAPort) Validate(b plan.Block) []plan.Problem {
	var c rdmaPort
	if err := b.Decode(&c); err != nil {
		return problem(err)
	}
	var problems []plan.Problem
	check := func(version, attribute, key string) {
		if _, err := versionNumbers(version); err != nil {
			problems = append(problems, plan.Problem{Attribute: attribute, Key: key, Summary: "not a firmware version", Detail: err.Error()})
		}
	}
	if c.Firmware != nil {
		check(*c.Firmware, "firmware", "")
	}
	if w, _ := b.IsWithheld("nics", ""); c.Count != nil && w.Expect > 0 && int64(w.Expect) != *c.Count {
		problems = append(problems, plan.Problem{
			Attribute: "count", Summary: "another number than its selector expects",
			Detail: fmt.Sprintf("%s expects %s, and count is %d. Say the number there alone.", w.Sets[0], count(w.Expect, "NIC"), *c.Count),
		})
	}
	for _, board := range sortedKeys(c.BoardFirmware) {
		check(c.BoardFirmware[board], "board_firmware", board)
	}
	return problems
}

// Queries are the RDMA ports and their links.
func (RDMAPort) Queries(b plan.Block, inv node.Inventory) []node.Query {
	return queries(b, inv, node.RDMAPort, node.Link)
}

// Assess judges each port.
func (RDMAPort) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c rdmaPort
	// Decoding was tried when the block was validated.
	_ = b.Decode(&c)
	ports, a := survey(b, facts)
	if all, _, _ := portsOf(b, facts.Inventory); c.Count != nil && len(ports) > 0 {
		a.Findings = append(a.Findings, portCount(all, *c.Count, facts))
	}
	var linked []port // those whose rate is judged: of a port without a link its state is told
	var rates []node.Value[node.RDMARate]
	for _, p := range ports {
		v := p.rdma(facts)
		state, ok := v.Get()
		link, _ := p.link(facts).Get()
		switch {
		case facts.Inventory.FromText() && !state.PhysState.IsKnown() && (state.State.IsKnown() || link.Carrier.IsKnown()):
			a.Findings = append(a.Findings, portTold(p, state.State, link.Carrier))
			continue
		case !ok && facts.Inventory.RDMA.IsKnown() && !p.RDMA.IsKnown():
			f := rdmaDevice(p, facts.Inventory)
			f.ID = "rdma_port.state"
			a.Findings = append(a.Findings, f)
			continue
		case !ok:
			a.Findings = append(a.Findings, unread(p, "rdma_port.state", "the RDMA port", v))
			linked, rates = append(linked, p), append(rates, node.UnknownLike[node.RDMARate](v))
			continue
		}
		if logical, ok := state.State.Get(); !ok || logical == node.RDMAActive {
			if rate := rateOf(p, state, facts); rate.IsKnown() || !facts.Inventory.FromText() {
				linked, rates = append(linked, p), append(rates, rate)
			}
		}
		a.Findings = append(a.Findings, portState(p, "rdma_port.state", state, v.Source()))
		if c.LinkLayer != nil {
			a.Findings = append(a.Findings, portLayer(p, *c.LinkLayer, state.LinkLayer, v.Source()))
		}
		a.Findings = append(a.Findings, c.firmware(p, state)...)
	}
	if _, withheld := b.IsWithheld("rate", ""); !withheld {
		a.Findings = append(a.Findings, judgeRates("rdma_port.rate", linked, rates, c.Rate)...)
	}
	return a
}

func portCount(ports []port, want int64, facts node.Facts) plan.Finding {
	f := plan.Finding{
		ID: "rdma_port.count", Target: "nics", Status: plan.OK, Source: facts.Inventory.PCI.Source(),
		Want: strconv.FormatInt(want, 10), Found: strconv.Itoa(len(ports)), Summary: fmt.Sprintf("there are %d NIC ports", len(ports)),
	}
	if int64(len(ports)) != want {
		var names []string
		for _, p := range ports {
			names = append(names, p.String())
		}
		f.Status, f.Found = plan.Drift, f.Found+": "+strings.Join(names, " ")
		f.Summary = fmt.Sprintf("%d NIC ports, wanted is %d", len(ports), want)
		f.Fix = "look for the NIC that is gone: for its slot in the BMC's log, for its driver's words (mlx5_core) and AER in the kernel log; reseat it"
		if int64(len(ports)) > want {
			f.Fix = "say in nics which ports are meant, or in count how many"
		}
	}
	return f
}

// portState judges the logical and the physical state of a port.
func portState(p port, id string, state node.RDMAPortState, source node.Source) plan.Finding {
	logical, ok := state.State.Get()
	if !ok {
		return unread(p, id, "the state", state.State)
	}
	physical, ok := state.PhysState.Get()
	if !ok {
		return unread(p, id, "the physical state", state.PhysState)
	}
	f := p.finding(id)
	f.Want, f.Found, f.Source = "ACTIVE, LinkUp", logical+", "+physical, source
	f.Summary = fmt.Sprintf("%s is %s", p.name(), f.Found)
	if f.Found == f.Want {
		return f
	}
	f.Status = plan.Drift
	f.Summary += ", wanted is " + f.Want
	f.Fix = noLink
	switch {
	case state.LinkLayer == infiniBand && physical == linkUp:
		f.Why = "the link is up, and no subnet manager has made the port ACTIVE"
		f.Fix = noSubnetManager
	case state.LinkLayer == ethernet && physical == "Disabled":
		f.Fix = fmt.Sprintf("bring %s up; where it is up and has no carrier: %s", p.netdev(), f.Fix)
	case physical == "Disabled":
		f.Fix = "the port is switched off: here or at the switch (ibportstate)"
	}
	return f
}

// portTold judges a port of which text says less than a node does: its state alone, or else whether its network device has a link. What
// RDMA does over InfiniBand does not hang on that of IPoIB.
func portTold(p port, state node.Value[string], carrier node.Value[bool]) plan.Finding {
	f := p.finding("rdma_port.state")
	if logical, ok := state.Get(); ok {
		f.Want, f.Found, f.Source, f.Summary = node.RDMAActive, logical, state.Source(), p.name()+" is "+logical
		if f.Found != f.Want {
			f.Status, f.Fix = plan.Drift, noLink
			f.Summary += ", wanted is " + f.Want
		}
		return f
	}
	f.Want, f.Found, f.Source, f.Summary = "a link", "a link", carrier.Source(), fmt.Sprintf("%s of %s has a link", p.netdev(), p.name())
	if there, _ := carrier.Get(); there {
		return f
	}
	f.Status, f.Found = plan.Drift, "none"
	f.Summary = fmt.Sprintf("%s of %s has no link, or is down", p.netdev(), p.name())
	f.Fix = fmt.Sprintf("bring %s up; where it is up and has no carrier: %s", p.netdev(), noLink)
	if strings.HasPrefix(p.netdev(), "ib") {
		f.Summary += "; that is IPoIB's, and the port may be ACTIVE all the same"
		f.Fix = "see with ibstat whether the port is ACTIVE; then IPoIB alone is not set up, which RDMA does not need"
	}
	return f
}

func portLayer(p port, want, have string, source node.Source) plan.Finding {
	const id = "rdma_port.link_layer"
	if have != want {
		return wrongLayer(p, id, want, have, source)
	}
	f := p.finding(id)
	f.Want, f.Found, f.Source, f.Summary = want, have, source, p.name()+" is "+have
	return f
}

// rateOf is the rate of a port, which is unknown where the port's state is. Of an Ethernet port the network device tells: the RDMA port's
// says 2.5 Gbit/s for what the kernel has no InfiniBand name for.
func rateOf(p port, state node.RDMAPortState, facts node.Facts) node.Value[node.RDMARate] {
	if !state.State.IsKnown() {
		return node.UnknownLike[node.RDMARate](state.State)
	}
	if state.LinkLayer == ethernet {
		speed := partOf(p.link(facts), func(l node.LinkState) node.Value[int] { return l.Speed })
		return partOf(speed, func(mbps int) node.Value[node.RDMARate] {
			return node.Known(node.RDMARate{Mbps: mbps}, speed.Source())
		})
	}
	return state.LinkRate()
}

// judgeRates holds rates against the wanted one in Gbit/s, or against each other where none is.
func judgeRates(id string, ports []port, rates []node.Value[node.RDMARate], want *int64) []plan.Finding {
	const fix = "look at the cable, the transceiver, and the speed that the switch's port is set to"
	if want == nil {
		if len(ports) < 2 {
			return nil
		}
		speeds := make([]node.Value[int], len(ports))
		for i, v := range rates {
			speeds[i] = partOf(v, func(r node.RDMARate) node.Value[int] { return node.Known(r.Mbps, v.Source()) })
		}
		f := alike(id, "the rate", ports, speeds, gigabits)
		if f.Status == plan.Drift {
			f.Fix = fix
		}
		return []plan.Finding{f}
	}
	var findings []plan.Finding
	for i, p := range ports {
		rate, ok := rates[i].Get()
		if !ok {
			findings = append(findings, unread(p, id, "the rate", rates[i]))
			continue
		}
		f := p.finding(id)
		f.Want, f.Found, f.Source = "at least "+gigabits(int(*want)*1000), gigabits(rate.Mbps), rates[i].Source()
		f.Summary = fmt.Sprintf("%s has %s", p.name(), f.Found)
		if int64(rate.Mbps) < *want*1000 {
			f.Status, f.Fix = plan.Drift, fix
			f.Summary += fmt.Sprintf(", wanted is %s", f.Want)
		}
		findings = append(findings, f)
	}
	return findings
}

// firmware judges the running firmware, if a version is wanted of the board.
func (c rdmaPort) firmware(p port, state node.RDMAPortState) []plan.Finding {
	const id = "rdma_port.firmware"
	want := ""
	if c.Firmware != nil {
		want = *c.Firmware
	}
	if len(c.BoardFirmware) > 0 {
		board, ok := state.BoardID.Get()
		if !ok && !state.BoardID.IsUnsupported() {
			return []plan.Finding{unread(p, id, "the board id", state.BoardID)}
		}
		want = cmp.Or(c.BoardFirmware[board], want)
	}
	if want == "" {
		return nil
	}
	have, ok := state.Firmware.Get()
	if !ok {
		return []plan.Finding{unread(p, id, "the firmware version", state.Firmware)}
	}
	f := p.finding(id)
	f.Want, f.Found, f.Source = want+" or newer", have, state.Firmware.Source()
	f.Summary = fmt.Sprintf("%s has firmware %s", p.name(), have)
	order, err := compareVersions(have, want)
	chip, _, _ := strings.Cut(have, ".")
	wanted, _, _ := strings.Cut(want, ".")
	switch {
	case err == nil && chip != wanted && strings.HasPrefix(p.PCIID, node.MellanoxVendor+":"): // 20 is of ConnectX-6, 28 of ConnectX-7
		f.Status = plan.Drift
		f.Summary += fmt.Sprintf(", and %s is a version of another kind of chip: they do not compare", want)
		f.Fix = "say in board_firmware what this board needs, or name NICs of one kind"
		if board, ok := state.BoardID.Get(); ok {
			f.Fix = fmt.Sprintf("say in board_firmware what board %s needs, or name NICs of one kind", board)
		}
	case err != nil:
		f.Status, f.Summary = plan.Undetermined, fmt.Sprintf("whether the firmware of %s is new enough is unknown: %v", p.name(), err)
	case order < 0:
		f.Status = plan.Drift
		f.Summary += ", wanted is " + f.Want
		f.Fix = "update the adapter's firmware (mlxfwmanager or devlink dev flash) and reset it; one that is flashed already counts from its reset on"
	}
	return []plan.Finding{f}
}

// compareVersions compares numbers with dots between, number by number; one that has fewer is
// older.
func compareVersions(a, b string) (int, error) {
	left, err := versionNumbers(a)
	if err != nil {
		return 0, err
	}
	right, err := versionNumbers(b)
	if err != nil {
		return 0, err
	}
	return slices.Compare(left, right), nil
}

func versionNumbers(text string) ([]uint64, error) {
	var numbers []uint64
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no version: numbers with dots between are", text)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
