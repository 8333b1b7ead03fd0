package nccllog

import "maps"

// SameJob reports whether two logs are of one job: they have a communicator in common, or none of theirs has an ID (before NCCL 2.18), and
// they are of one version, of as many ranks, and of other ranks of them each.
func SameJob(a, b *Parser) bool {
	named := false
	for id := range a.comms {
		if id != "" && b.comms[id] != nil {
			return true
		}
		named = named || id != ""
	}
	x, y := a.comms[""], b.comms[""]
	if named || len(b.comms) != 1 || x == nil || y == nil || x.size == 0 || x.size != y.size || len(a.versions) > 0 && len(b.versions) > 0 && !maps.Equal(a.versions, b.versions) {
		return false
	}
	for key := range a.ranks {
		if b.ranks[key] != nil {
			return false
		}
	}
	return len(a.ranks) > 0 && len(b.ranks) > 0
}

// Join adds the log of another process or host of a job, so that a rank of one is known to the others, and returns the number of its first
// line: those of the lines go on from log to log. q stays as it is.
func (p *Parser) Join(q *Parser) (first int) {
	offset := p.number
	p.number += q.number
	l, from := &p.log, &q.log
	l.Lines += from.Lines
	l.Messages += from.Messages
	l.Damaged += from.Damaged
	l.PairsLeftOut += from.PairsLeftOut
	l.NoHCA = l.NoHCA || from.NoHCA
	for v := range q.versions {
		p.addVersion(v)
	}
	for pr, w := range q.work {
		p.joinWork(pr, w, offset)
	}
	for id, c := range q.comms {
		_, into := p.comm(id)
		into.join(c)
	}
	for key, r := range q.ranks {
		if have := p.ranks[key]; have != nil {
			have.Complete = have.Complete || r.Complete
		} else if len(p.ranks) < maxRanks {
			copied := *r
			p.ranks[key] = &copied
		}
	}
	for key, s := range q.pairs {
		fresh := *s
		fresh.line += offset
		if have := p.pairs[key]; have != nil {
			have.mask |= s.mask
		} else if len(p.pairs) < maxPairs {
			p.pairs[key] = &fresh
		} else {
			p.spill(key, &fresh)
		}
	}
	for t, s := range q.overflow {
		if have := p.overflow[t]; have != nil {
			have.Pairs += s.Pairs
			have.Channels += s.Channels
		} else if len(p.overflow) < maxFew {
			copied := *s
			copied.Line += offset
			p.overflow[t] = &copied
		}
	}
	p.joinLists(from, offset)
	return offset + 1
}

func (p *Parser) joinWork(pr process, w *work, offset int) {
	into := p.work[pr]
	if into == nil && len(p.work) >= maxThreads {
		return
	}
	if into == nil {
		into = &work{}
		p.work[pr] = into
	}
	if w.failure != nil && into.failure == nil {
		f := *w.failure
		f.Line += offset
		into.failure = &f
	}
}

func (c *commState) join(from *commState) {
	c.size, c.nodes = max(c.size, from.size), max(c.nodes, from.nodes)
	for rank, hosts := range from.hosts {
		for _, host := range hosts {
			c.place(rank, host, from.brackets[rank])
		}
	}
	for host, n := range from.local {
		if len(c.local) < maxHosts {
			c.local[host] = n
		}
	}
}

// joinLists adds what logs have few of. Of two that are alike the first one stays.
func (p *Parser) joinLists(from *Log, offset int) {
	l := &p.log
	for _, v := range from.Variables {
		key := v
		key.Line = 0
		if !p.variables[key] && len(p.variables) < maxFew {
			p.variables[key] = true
			v.Line += offset
			l.Variables = append(l.Variables, v)
		}
	}
	for _, w := range from.Warnings {
		key := w.ID
		if key == "" {
			key = w.Text
		}
		if i, seen := p.warnings[key]; seen {
			l.Warnings[i].Times += w.Times
		} else if len(p.warnings) < maxFew {
			w.Line += offset
			p.warnings[key] = len(l.Warnings)
			l.Warnings = append(l.Warnings, w)
		}
	}
	for _, n := range from.Networks {
		if i, seen := p.networks[n.Name]; seen {
			l.Networks[i].Times += n.Times
		} else if len(p.networks) < maxFew {
			n.Line += offset
			p.networks[n.Name] = len(l.Networks)
			l.Networks = append(l.Networks, n)
		}
	}
	for _, d := range from.Devices {
		if !p.devices[d] && len(p.devices) < maxFew {
			p.devices[d] = true
			l.Devices = append(l.Devices, d)
		}
	}
	for _, h := range from.GPUDirect {
		key := h
		key.Line = 0
		if !p.hints[key] && len(p.hints) < maxFew {
			p.hints[key] = true
			h.Line += offset
			l.GPUDirect = append(l.GPUDirect, h)
		}
	}
}
