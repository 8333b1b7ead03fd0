package nccllog

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Log is what was read so far.
func (p *Parser) Log() Log {
	p.islands()
	l := p.log
	l.Versions = slices.Sorted(maps.Keys(p.versions))
	l.Variables, l.Networks, l.Devices = slices.Clone(l.Variables), slices.Clone(l.Networks), slices.Clone(l.Devices)
	slices.SortStableFunc(l.Variables, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	for _, id := range slices.Sorted(maps.Keys(p.comms)) {
		if c := p.comms[id]; id != "" || c.size > 0 || len(p.comms) == 1 {
			l.Communicators = append(l.Communicators, Communicator{ID: id, Size: c.size, Nodes: c.nodes})
		}
	}
	for _, r := range p.ranks {
		l.Ranks = append(l.Ranks, *r)
	}
	slices.SortFunc(l.Ranks, func(a, b Rank) int { return cmp.Or(cmp.Compare(a.Comm, b.Comm), cmp.Compare(a.Rank, b.Rank)) })
	l.Ranks = l.Ranks[:min(len(l.Ranks), maxListed)]
	p.sum(&l)
	for process, w := range p.work {
		if f := w.failure; f != nil {
			f.Host, f.PID = process.host, process.pid
			l.Failures = append(l.Failures, *f)
		}
	}
	slices.SortFunc(l.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	l.Failures = l.Failures[:min(len(l.Failures), maxFew)]
	return l
}

// sum settles the scopes of pairs and adds them up.
func (p *Parser) sum(l *Log) {
	merged := map[Pair]*Pair{}
	masks := map[*Pair]uint64{}
	taken := map[string]map[string]map[string][]int{}
	for key, s := range p.pairs {
		pair := Pair{Comm: key.comm, From: key.from, To: key.to, Transport: key.Transport, Scope: s.scope}
		if s.peer >= 0 {
			pair.Scope = p.scope(key, s, taken)
		}
		into := merged[pair]
		if into == nil {
			into = &Pair{Comm: pair.Comm, From: pair.From, To: pair.To, Transport: pair.Transport, Scope: pair.Scope, Line: s.line}
			merged[pair] = into
		}
		into.Line = min(into.Line, s.line)
		masks[into] |= s.mask
	}
	sums := map[Sum]*Sum{}
	for _, pair := range merged {
		pair.Channels = bits.OnesCount64(masks[pair])
		l.Pairs = append(l.Pairs, *pair)
	}
	slices.SortFunc(l.Pairs, comparePairs)
	for _, pair := range l.Pairs {
		key := Sum{Transport: pair.Transport, Scope: pair.Scope}
		s := sums[key]
		if s == nil {
			s = &Sum{Transport: pair.Transport, Scope: pair.Scope, Line: pair.Line, Example: pair.String()}
			sums[key] = s
		}
		s.Pairs++
		s.Channels += pair.Channels
		if pair.Line < s.Line {
			s.Line, s.Example = pair.Line, pair.String()
		}
	}
	for _, o := range p.overflow {
		key := Sum{Transport: o.Transport, Scope: o.Scope}
		if s := sums[key]; s != nil {
			s.Pairs += o.Pairs
			s.Channels += o.Channels
		} else {
			copied := *o
			sums[key] = &copied
		}
	}
	for _, s := range sums {
		l.Transports = append(l.Transports, *s)
	}
	slices.SortFunc(l.Transports, compareSums)
	if over := len(l.Pairs) - maxListed; over > 0 {
		l.Pairs = l.Pairs[:maxListed]
		l.PairsLeftOut += over
	}
}

// islands forgets how many nodes NCCL counted where that is no count of hosts: a node is to NCCL what reaches each other without
// a network (initTransportsRank in src/init.cc, over a topology that ncclTopoTrimSystem has trimmed), and with shared memory off one
// host can be several.
func (p *Parser) islands() {
	for v := range p.variables {
		if off, _ := strconv.Atoi(v.Value); v.Name != "NCCL_SHM_DISABLE" || off == 0 {
			continue
		}
		for _, c := range p.comms {
			if c.nodes > 1 {
				c.nodes = 0
				clear(c.local)
			}
		}
	}
}

// scope says whether a pair whose line tells one host alone is on one node. taken holds, by communicator, host and bracket, the
// ranks of a host.
func (p *Parser) scope(key pairKey, s *pairState, taken map[string]map[string]map[string][]int) Scope {
	c := p.comms[key.comm]
	if c == nil {
		return UnknownScope
	}
	hosts := c.hosts[s.peer]
	apart := c.nodes > 1 && c.nodes == c.size || s.bracket != "" && s.bracket == s.own // as many nodes as ranks; one GPU number or address, two GPUs
	switch {
	case c.nodes == 1:
		return IntraNode
	case tells(key.host) && len(hosts) == 1 && hosts[0] == key.host:
		if apart { // containers of one host that see a GPU each, or hosts that somebody gave one name
			return UnknownScope
		}
		return IntraNode
	case apart:
		return InterNode
	case !tells(key.host):
		return UnknownScope
	case len(hosts) == 1 && hosts[0] != "":
		return InterNode
	case len(hosts) > 0:
		return UnknownScope
	}
	byBracket := taken[key.comm]
	if byBracket == nil {
		byBracket = map[string]map[string][]int{}
		for rank, hosts := range c.hosts {
			if len(hosts) != 1 {
				continue
			}
			h := hosts[0]
			if byBracket[h] == nil {
				byBracket[h] = map[string][]int{}
			}
			byBracket[h][c.brackets[rank]] = append(byBracket[h][c.brackets[rank]], rank)
		}
		taken[key.comm] = byBracket
	}
	// Another rank of this host has the peer's GPU number or address, so that the peer is elsewhere.
	if s.bracket != "" && len(byBracket[key.host][s.bracket]) > 0 {
		return InterNode
	}
	count := 0
	for _, ranks := range byBracket[key.host] {
		count += len(ranks)
	}
	if c.local[key.host] > 0 && count >= c.local[key.host] { // all of this host's ranks are others
		return InterNode
	}
	return UnknownScope
}

// tells reports a name that other hosts have not.
func tells(host string) bool { return host != "" && host != "localhost" }

// String is for messages of tests and people: the sums, one a line.
func (l Log) String() string {
	var b strings.Builder
	for _, s := range l.Transports {
		side := ""
		if s.Side != "" {
			side = " [" + s.Side + "]"
		}
		fmt.Fprintf(&b, "%s %s%s: pairs %d, channels %d, %s, line %d\n", s.Scope, s.Transport, side, s.Pairs, s.Channels, s.Example, s.Line)
	}
	return b.String()
}
