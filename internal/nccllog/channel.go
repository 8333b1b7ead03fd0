package nccllog

import (
	"strings"
	"unicode/utf8"
)

// channel reads what a channel took:
//
//	Ring 00 : 0 -> 1 [send] via NET/IB/0                                 2.4
//	Ring 00 : 0[1] -> 1[2] via direct shared memory                      2.4 to 2.6
//	Channel 00 : 0[101c0] -> 3[201d0] via P2P/IPC/read                   2.7 to 2.11
//	Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0(3)/GDRDMA/Shared     2.12 on
//	Channel 00 : 0[0] -> 1[1] via SHM/direct/direct                      2.16 on
//
// RCCL adds the communicator behind it.
func (p *Parser) channel(m message, w *work) {
	_, rest, _ := strings.Cut(m.text, " ")
	s := scanner{rest}
	channel, ok := s.number()
	if !ok {
		return
	}
	if s.take("/") {
		if _, ok = s.number(); !ok {
			p.log.Damaged++
			return
		}
	}
	if !s.take(" : ") {
		p.log.Damaged++
		return
	}
	if !strings.Contains(s.rest, "->") { // "Channel 00/24 :    0   1": the order of a ring
		return
	}
	from, fromBracket, ok1 := s.rank()
	arrow := s.take(" -> ")
	to, toBracket, ok2 := s.rank()
	side := ""
	switch {
	case s.take(" [send]"):
		side = "send"
	case s.take(" [receive]"):
		side = "receive"
	}
	if !ok1 || !ok2 || !arrow || !s.take(" via ") {
		p.log.Damaged++
		return
	}
	transport, ok := parsePath(s.rest)
	transport.Side = side
	// The name of a cut off line's network says nothing of what stood behind it.
	if !ok || transport.Kind == NET && !transport.GDRDMA && !m.whole {
		p.log.Damaged++
		return
	}
	id, c := p.comm(p.commOf(m, w))
	state := &pairState{line: m.line, scope: IntraNode, peer: -1}
	switch {
	case transport.Kind == NET && side == "receive":
		c.place(to, m.host, toBracket)
		state.scope, state.peer, state.bracket, state.own = UnknownScope, from, strings.Clone(fromBracket), strings.Clone(toBracket)
	case transport.Kind == NET, transport.Name == MNNVL:
		c.place(from, m.host, fromBracket)
		state.scope, state.peer, state.bracket, state.own = UnknownScope, to, strings.Clone(toBracket), strings.Clone(fromBracket)
	default:
		c.place(from, m.host, fromBracket)
		c.place(to, m.host, toBracket)
	}
	p.add(pairKey{id, m.host, from, to, transport}, state, channel)
}

func (p *Parser) add(key pairKey, fresh *pairState, channel int) {
	s := p.pairs[key]
	if s == nil {
		if len(p.pairs) >= maxPairs {
			p.spill(key, fresh)
			return
		}
		s = fresh
		key.Name = strings.Clone(key.Name)
		p.pairs[key] = s
	}
	if channel < maxChannels {
		s.mask |= 1 << channel
	}
}

// spill counts a line of a pair too many. Its scope is that of its transport.
func (p *Parser) spill(key pairKey, s *pairState) {
	sum := p.overflow[key.Transport]
	if sum == nil {
		if len(p.overflow) >= maxFew {
			return
		}
		key.Name = strings.Clone(key.Name)
		sum = &Sum{Transport: key.Transport, Scope: s.scope, Example: Pair{From: key.from, To: key.to}.String(), Line: s.line}
		p.overflow[key.Transport] = sum
	}
	sum.Pairs++
	sum.Channels++
	p.log.PairsLeftOut++
}

// collNet reads "CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA".
func (p *Parser) collNet(m message, w *work) {
	_, rest, _ := strings.Cut(m.text, " ")
	s := scanner{rest}
	channel, ok := s.number()
	if ok && s.take("/") {
		_, ok = s.number()
	}
	if !ok || !s.take(" : ") {
		return
	}
	rank, _, ok := s.rank()
	side := ""
	switch {
	case s.take(" [send]"):
		side = "send"
	case s.take(" [receive]"):
		side = "receive"
	}
	if !ok || !s.take(" via ") {
		p.log.Damaged++
		return
	}
	transport, ok := parsePath(s.rest)
	if !ok || transport.Kind != CollNet || !transport.GDRDMA && !m.whole {
		p.log.Damaged++
		return
	}
	transport.Side = side
	id, c := p.comm(p.commOf(m, w))
	c.place(rank, m.host, "")
	p.add(pairKey{id, m.host, rank, -1, transport}, &pairState{line: m.line, scope: InterNode, peer: -1}, channel)
}

// nvls says that a rank uses NVLink SHARP.
func (p *Parser) nvls(m message, w *work, name string) {
	id := p.commOf(m, w)
	rank, ok := w.ranks[id]
	if !ok {
		return
	}
	id, _ = p.comm(id)
	p.add(pairKey{id, m.host, rank, -1, Transport{Kind: NVLS, Name: name}}, &pairState{line: m.line, scope: IntraNode, peer: -1}, maxChannels)
}

// scanner takes parts off the front of a text.
type scanner struct{ rest string }

func (s *scanner) take(prefix string) bool {
	rest, ok := strings.CutPrefix(s.rest, prefix)
	s.rest = rest
	return ok
}

func (s *scanner) number() (int, bool) {
	end := 0
	for end < len(s.rest) && s.rest[end] >= '0' && s.rest[end] <= '9' {
		end++
	}
	n, ok := number(s.rest[:end])
	if ok {
		s.rest = s.rest[end:]
	}
	return n, ok
}

// rank reads 3 or 3[a01d0].
func (s *scanner) rank() (n int, bracket string, ok bool) {
	n, ok = s.number()
	if !ok || !strings.HasPrefix(s.rest, "[") {
		return n, "", ok
	}
	inside, rest, closed := strings.Cut(s.rest[1:], "]")
	if !closed {
		return n, "", false
	}
	if len(inside) > 16 || inside == "" || strings.Trim(inside, "0123456789abcdefx") != "" {
		return n, "", inside == "send" || inside == "receive" // no bracket of its own: "0 [send]" without the blank
	}
	s.rest = rest
	return n, inside, true
}

// parsePath reads what stands behind "via "; false where that is not whole.
func parsePath(text string) (Transport, bool) {
	if i := strings.Index(text, " comm 0x"); i >= 0 { // RCCL's "comm 0x7f nRanks 08"
		text = text[:i]
	}
	text = strings.TrimRight(text, " ")
	if text == "direct shared memory" {
		return Transport{Kind: SHM}, true
	}
	kind, rest, _ := strings.Cut(text, "/")
	switch Kind(kind) {
	case P2P:
		return parseP2P(rest)
	case SHM:
		for part := range strings.SplitSeq(rest, "/") {
			if part != "direct" && part != "CE" {
				return Transport{}, false
			}
		}
		return Transport{Kind: SHM}, strings.Count(rest, "/") < 2
	case NET, CollNet:
		t := Transport{Kind: Kind(kind)}
		rest, _ = strings.CutSuffix(rest, "/Shared")
		rest, _ = strings.CutSuffix(rest, "(PCI)")
		rest, t.GDRDMA = strings.CutSuffix(rest, "/GDRDMA")
		i := strings.LastIndexByte(rest, '/')
		if i < 1 {
			return t, false
		}
		device := scanner{rest[i+1:]}
		_, ok := device.number()
		if ok && device.take("(") { // the rank that hands it on (PXN)
			_, ok = device.number()
			ok = ok && device.take(")")
		}
		t.Name = rest[:i]
		return t, ok && device.rest == "" && len(t.Name) < 64 && utf8.ValidString(t.Name)
	}
	return Transport{}, false
}

// parseP2P reads IPC, IPC/read, CUMEM/CE, indirect/2[2]/read ...
func parseP2P(text string) (Transport, bool) {
	text, _ = strings.CutSuffix(text, "/CE")
	text, _ = strings.CutSuffix(text, "/read")
	switch text {
	case "IPC", "CUMEM", MNNVL, "direct pointer", "common device":
		return Transport{Kind: P2P, Name: text}, true
	}
	s := scanner{text}
	if s.take("indirect/") {
		_, _, ok := s.rank()
		return Transport{Kind: P2P, Name: "indirect"}, ok && s.rest == ""
	}
	return Transport{}, false
}
