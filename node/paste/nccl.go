package paste

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"busbar/internal/nccllog"
	"busbar/internal/nccltopo"
	"busbar/node"
)

// jobLog is a text's log of NCCL's, which may be in pieces.
type jobLog struct {
	source node.Source
	parser *nccllog.Parser
}

// A message of NCCL's says something that NCCL says, or has the process before it that writes it.
var ncclPhrase = expression(`NCCL (?:INFO|WARN) (?:NET/|Using|Channel|Bootstrap|Ring|Trees?|comm|init\.cc|cudaDriver|Setting|P2P|NCCL_|Connected|misc/|transport|include/|bootstrap|DMA-BUF|threadThresholds|Launch|ncclComm|.*Init)|NCCL version \d|:\d+:\d+ \[\d+\] (?:\S+:\d+ )?(?:\(\w+\) )?NCCL`)

// maxAside is how many lines of the program can stand between two messages of NCCL's.
const maxAside = 8

var ncclLogKind = kind{
	name: "NCCL log",
	scan: func(p piece) match {
		if !nccllog.IsMessage(p.lines[0]) {
			return match{}
		}
		n, phrases := 0, 0
		for i, line := range p.lines {
			switch {
			case nccllog.IsMessage(line):
				phrases += one(phrases < 2 && ncclPhrase.MatchString(line))
				n = i + 1
				continue
			case i-n < maxAside && command(line) == "" && !fence(line) && heading(line) == "" && !perfLine(bare(line)):
				continue
			}
			break
		}
		return match{n, 1 + min(phrases, 2)}
	},
	parts: true,
	read: func(d *draft, s section) string {
		source := s.source(-1)
		log := d.ncclLogs[source.Path]
		if log == nil {
			if d.ncclLogs == nil {
				d.ncclLogs = map[string]*jobLog{}
			}
			log = &jobLog{source, nccllog.NewParser()}
			d.ncclLogs[source.Path] = log
		}
		log.parser.At(s.first)
		for _, line := range s.lines {
			log.parser.Line(line, true)
		}
		return ""
	},
}

// jobs are the logs of each job as one, by the name of its first text, which stands for their path.
func (d *draft) jobs() []node.Answer {
	type job struct {
		state  node.NCCLLogState
		parser *nccllog.Parser
		source node.Source
	}
	var jobs []*job
	for _, name := range slices.SortedFunc(maps.Keys(d.ncclLogs), natural) {
		log := d.ncclLogs[name]
		i := slices.IndexFunc(jobs, func(j *job) bool { return nccllog.SameJob(j.parser, log.parser) })
		if i < 0 {
			i = len(jobs)
			jobs = append(jobs, &job{parser: nccllog.NewParser(), source: log.source})
		}
		j := jobs[i]
		j.state.Files = append(j.state.Files, name)
		j.state.Starts = append(j.state.Starts, j.parser.Join(log.parser))
	}
	var answers []node.Answer
	for _, j := range jobs {
		name := j.source.Path
		if more := len(j.state.Files) - 1; more > 0 {
			j.source.Path += fmt.Sprintf(" and %d more", more)
		} else {
			j.state.Starts = nil
		}
		j.state.Log = j.parser.Log()
		answers = append(answers, node.NCCLLog.Answer(name, node.Known(j.state, j.source)))
	}
	return answers
}

// NCCL's topology as XML, with what can stand before it, and a line of XML.
var (
	xmlSystem = expression(`^\s*(?:<\?xml [^>]*\?>|<!--.*|<system(?: [^>]*)?>)$`)
	xmlLine   = expression(`^\s*<`)
)

var ncclXMLKind = kind{
	name: "NCCL topology",
	scan: func(p piece) match {
		if !xmlSystem.MatchString(p.lines[0]) {
			return match{}
		}
		system, elements, comment, closed := 0, 0, false, false
		n := while(p.lines, func(line string) bool {
			if closed {
				return false
			}
			closed = strings.Contains(line, "</system>")
			comment = strings.Contains(line, "<!--") || comment
			is := comment || xmlLine.MatchString(line)
			comment = comment && !strings.Contains(line, "-->")
			system += one(strings.Contains(line, "<system"))
			elements += one(strings.Contains(line, "<pci ") || strings.Contains(line, "<gpu ") || strings.Contains(line, "<cpu "))
			return is
		})
		return match{n, one(system == 1) + one(elements > 0)}
	},
	read: readNCCLTopology,
}

// readNCCLTopology takes the PCI tree, GPUs with their NVLinks and NICs. Bridges that somebody made up (ffff:ff:01.0) have no IDs, and
// the devices below them no parent.
func readNCCLTopology(d *draft, s section) string {
	t, err := nccltopo.Parse(strings.NewReader(s.text()))
	if err != nil {
		return err.Error()
	}
	source := s.source(-1)
	madeUp := func(address string) bool { return strings.HasPrefix(address, "ffff:ff:") }
	gpus, nets := map[string]nccltopo.GPU{}, map[string]nccltopo.Net{}
	for _, g := range t.GPUs {
		gpus[g.Address] = g
	}
	for _, n := range t.Nets {
		nets[n.Address] = n
	}
	for _, f := range t.Devices {
		if madeUp(f.Address) || !node.IsPCIAddress(f.Address) {
			continue
		}
		_, isNIC := nets[f.Address]
		is := ""
		switch {
		case f.Vendor == "10de" && (strings.HasPrefix(f.Class, "0300") || strings.HasPrefix(f.Class, "0302")):
			is = "gpu"
		case isNIC && f.Vendor != "":
			is = "nic"
		}
		x := d.device(is, pciName+f.Address)
		if net := nets[f.Address]; is == "nic" && rdmaDevice(net.Name) {
			x = d.same(is, pciName+f.Address, rdmaName+net.Name)
		}
		function := node.PCIFunction{
			Vendor: f.Vendor, Device: f.Device, SubsystemVendor: f.SubsystemVendor, SubsystemDevice: f.SubsystemDevice, Class: f.Class, NUMANode: t.CPUs[f.CPU].NUMANode,
		}
		if !madeUp(f.Parent) {
			function.Parent = f.Parent
		}
		if x.function.NUMANode < 0 {
			x.function.NUMANode = function.NUMANode
		}
		fill(&x.function, function)
		if x.source == (node.Source{}) {
			x.source = source
		}
		if g := gpus[f.Address]; is == "gpu" && len(g.Links) > 0 && x.links.IsZero() {
			x.links = node.Known(ncclLinks(g, source), source)
		}
	}
	if d.inv.Arch.IsZero() && t.CPUs[0].Arch != "" {
		d.inv.Arch = node.Known(strings.Replace(t.CPUs[0].Arch, "arm64", "aarch64", 1), source)
	}
	return ""
}

// ncclLinks are the NVLinks that NCCL found active, by the order in which it has them. It does not tell their numbers.
func ncclLinks(g nccltopo.GPU, source node.Source) node.NVLinkState {
	var state node.NVLinkState
	for _, l := range g.Links {
		for range min(l.Count, mostLinks) {
			port := node.NVLinkPort{Link: len(state.Links), State: node.Known(node.NVLinkActive, source)}
			switch {
			case l.IsSwitch():
				port.Remote = node.Known(node.NVLinkToSwitch, source)
			case node.IsPCIAddress(l.Target) && l.Target != g.Address:
				port.Remote, port.RemoteAddress = node.Known(node.NVLinkToGPU, source), node.Known(l.Target, source)
			}
			state.Links = append(state.Links, port)
		}
	}
	return state
}
