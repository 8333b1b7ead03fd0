package paste

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// The matrix of nvidia-smi topo -m, also -mp and -c: a heading of names of GPUs and NICs (older ones name RDMA devices), a row for
// each, and below it legends. Cells stand behind tabs or blanks.

// cells are the words of a row, with headings of two and three words (CPU Affinity, GPU NUMA ID) taken out: the names.
func names(heading string) []string {
	heading, _, _ = strings.Cut(heading, "CPU Affinity")
	heading, _, _ = strings.Cut(heading, "NUMA Affinity")
	heading, _, _ = strings.Cut(heading, "GPU NUMA ID")
	return strings.Fields(heading)
}

// cell reports a word that stands in a cell of the matrix.
func cell(word string) bool {
	if _, ok := node.ParseRelation(word); ok || word == "SOC" { // SOC was SYS until 2017
		return true
	}
	n, ok := strings.CutPrefix(word, "NV")
	return ok && n != "" && digits(n) == len(n) && len(n) < 4
}

// matrixHeading reports the heading of a matrix, whose first name is GPU0.
func matrixHeading(line string) bool {
	if !strings.Contains(line, "GPU") {
		return false
	}
	list := names(line)
	if len(list) == 0 || numbered("GPU", list[0]) < 0 {
		return false
	}
	for _, name := range list {
		if numbered("GPU", name) < 0 && numbered("NIC", name) < 0 && !rdmaDevice(name) && !netdevName(name) {
			return false
		}
	}
	return true
}

// numbered is N of NAMEN, -1 for another word.
func numbered(name, word string) int {
	rest, ok := strings.CutPrefix(word, name)
	if !ok || rest == "" || digits(rest) != len(rest) || len(rest) > 4 {
		return -1
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return -1
	}
	return n
}

// matrixRow takes a row apart; false for another line.
func matrixRow(line string, columns int, is func(string) bool) (name string, row []string, ok bool) {
	words := strings.Fields(line)
	if len(words) < 2 || numbered("GPU", words[0]) < 0 && numbered("NIC", words[0]) < 0 && !rdmaDevice(words[0]) && !netdevName(words[0]) {
		return "", nil, false
	}
	for _, w := range words[1:] {
		if len(row) == columns || !is(w) {
			break
		}
		row = append(row, w)
	}
	return words[0], row, len(row) > 0
}

// legendLine reports a line of the legends below a matrix.
func legendLine(line string) bool {
	line = strings.TrimSpace(line)
	switch {
	case line == "Legend:", line == "NIC Legend:":
		return true
	case strings.HasPrefix(line, "NIC"):
		name, device, ok := strings.Cut(line, ": ")
		return ok && numbered("NIC", name) >= 0 && device != ""
	default:
		word, meaning, ok := strings.Cut(line, "=")
		word = strings.TrimSpace(word)
		return ok && (cell(word) || word == "NV#" || word == "C2C") && (strings.Contains(meaning, "Connection") || strings.TrimSpace(meaning) == "Self")
	}
}

var topoKind = kind{
	name: "nvidia-smi topo -m",
	scan: func(p piece) match {
		if !matrixHeading(p.lines[0]) {
			return match{}
		}
		columns := len(names(p.lines[0]))
		m := match{lines: 1, signs: 1 + one(strings.Contains(p.lines[0], "CPU Affinity")) + one(p.typed("topo"))}
		rows := 0
		for i, line := range p.lines[1:] {
			_, row, ok := matrixRow(line, columns, cell)
			switch {
			case ok && len(row) <= columns:
				rows++
				m.lines = i + 2
			case legendLine(line):
				m.lines = i + 2
			case line != "":
				m.signs += one(rows > 0)
				return m
			}
			if i+1-m.lines > maxBlank {
				break
			}
		}
		m.signs += one(rows > 0)
		return m
	},
	read: readTopo,
}

// readTopo takes GPUs, NICs, how far they are from each other and how many NVLinks are between them.
func readTopo(d *draft, s section) string {
	columns := names(s.lines[0])
	deviceOf := map[string]string{} // the name in draft, by name in the matrix
	for _, c := range columns {
		d.matrixDevice(c, s, deviceOf)
	}
	nvlinks := map[string]map[string]int{} // by names in the matrix
	rows, cut, anyNV := map[string]bool{}, false, false
	for _, line := range s.lines[1:] {
		if name, device, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && numbered("NIC", name) >= 0 {
			if rdmaDevice(device) {
				d.same("nic", nicIndex+strings.TrimPrefix(name, "NIC"), rdmaName+device)
			}
			continue
		}
		name, row, ok := matrixRow(line, len(columns), cell)
		if !ok || legendLine(line) {
			continue
		}
		d.matrixDevice(name, s, deviceOf)
		rows[name] = true
		cut = cut || len(row) < len(columns)
		for j, word := range row {
			other := columns[j]
			if n, err := strconv.Atoi(strings.TrimPrefix(word, "NV")); err == nil && strings.HasPrefix(word, "NV") {
				anyNV = true
				if nvlinks[name] == nil {
					nvlinks[name] = map[string]int{}
				}
				nvlinks[name][other] = n
				continue
			}
			if word == "SOC" {
				word = node.SYS.String()
			}
			if word != node.Self.String() {
				d.told = append(d.told, told{deviceOf[name], deviceOf[other], word})
			}
		}
		if g := numbered("GPU", name); g >= 0 {
			d.affinity(gpuNamed(g), line, len(columns))
		}
	}
	var missing []string
	gpus := 0
	for _, c := range columns {
		gpus += one(numbered("GPU", c) >= 0)
		if !rows[c] {
			missing = append(missing, c)
		}
	}
	switch {
	case anyNV:
		d.matrixLinks(columns, rows, nvlinks, s)
	case gpus > 1 && !p2pHidden(s):
		d.matrixWithoutLinks(columns, rows, s)
	}
	switch {
	case len(missing) > 0:
		return "the matrix is cut off: there is no row of " + shortList(missing)
	case cut:
		return "the matrix is cut off: rows are shorter than the heading"
	case !anyNV && p2pHidden(s):
		return "it was printed with -mp, which shows no NVLink"
	case !anyNV && gpus > 2 && !linksShown(s) && d.everyGPUHasNIC(columns, deviceOf):
		return "no NVLink is shown although each GPU has a NIC of its own, as on boards with NVLink: -mp shows none, -m does"
	}
	return ""
}

// p2pHidden reports that the command was one that leaves NVLinks out.
func p2pHidden(s section) bool { return s.typed("topo", "-mp") }

// linksShown reports that the command was one that shows NVLinks where there are some.
func linksShown(s section) bool { return s.typed("topo", "-m") || s.typed("topo", "--matrix") }

// matrixWithoutLinks takes what a matrix without NVLinks says of them: of -m that there is none, and else nothing, since -mp prints the
// same rows and the same legend. Of GPUs that a board links this leaves something open.
func (d *draft) matrixWithoutLinks(columns []string, rows map[string]bool, s section) {
	for _, name := range columns {
		g := numbered("GPU", name)
		if g < 0 || !rows[name] {
			continue
		}
		d.device("gpu", gpuNamed(g)).unlinked = unlinked{s.source(-1), linksShown(s)}
	}
}

// unlinked is a matrix in which a GPU has no NVLink, and whether it would show those there are.
type unlinked struct {
	source node.Source
	shown  bool
}

// links are what that says of the GPU's NVLinks. A divided one has none that are active, whatever its board has.
func (u unlinked) links(x *device) node.Value[node.NVLinkState] {
	divided, _ := x.gpu.MIG.Get()
	switch {
	case u == unlinked{} || divided:
		return node.Value[node.NVLinkState]{}
	case u.shown:
		return node.Known(node.NVLinkState{Links: []node.NVLinkPort{}}, u.source)
	case x.boardLinked():
		return node.Unknown[node.NVLinkState]("nvidia-smi topo shows none, and nobody said whether it was -m, which shows those there are, or -mp, which shows none", u.source)
	default:
		return node.Value[node.NVLinkState]{}
	}
}

// boardLinked reports a GPU of a model that its board links to others.
func (x *device) boardLinked() bool {
	g := node.GPU{PCIID: "10de:" + orFirst(x.function.Device, node.GPUDevice(x.product))}
	m, _ := g.Model()
	return m.Peers == node.NVLinkBoard || m.Peers == node.NVLinkFifth
}

// matrixDevice makes a device of a name in a matrix.
func (d *draft) matrixDevice(name string, s section, deviceOf map[string]string) {
	if deviceOf[name] != "" {
		return
	}
	is, as := "nic", rdmaName+name
	switch g, n := numbered("GPU", name), numbered("NIC", name); {
	case g >= 0:
		is, as = "gpu", gpuNamed(g)
	case n >= 0:
		as = fmt.Sprintf("%s%d", nicIndex, n)
	case !rdmaDevice(name):
		as = netName + name
	}
	deviceOf[name] = as
	if x := d.device(is, as); x.source == (node.Source{}) {
		x.source = s.source(-1)
	}
}

// affinity takes the NUMA node of a GPU from what stands behind its cells: CPUs, NUMA node, memory's node.
func (d *draft) affinity(name, line string, columns int) {
	words := strings.Fields(line)
	if len(words) < columns+3 {
		return
	}
	if n, err := strconv.Atoi(words[columns+2]); err == nil && n >= 0 && n < 1024 {
		if x := d.device("gpu", name); x.function.NUMANode < 0 {
			x.function.NUMANode = n
		}
	}
}

// mostLinks is how many NVLinks a GPU has at most (18 since Hopper).
const mostLinks = 18

// matrixLinks makes links of the numbers behind NV. Where the numbers of a GPU add up to more than a GPU has, the links lead to
// NVSwitches, by which each pair has all of them; else each pair has its own.
func (d *draft) matrixLinks(columns []string, rows map[string]bool, nvlinks map[string]map[string]int, s section) {
	switched := false
	for _, to := range nvlinks {
		sum := 0
		for _, n := range to {
			sum += n
		}
		switched = switched || sum > mostLinks
	}
	source := s.source(-1)
	for _, name := range columns {
		g := numbered("GPU", name)
		if g < 0 || !rows[name] {
			continue
		}
		state := node.NVLinkState{Links: []node.NVLinkPort{}}
		active := func(n int, to, address string) {
			for range min(n, mostLinks) {
				l := node.NVLinkPort{Link: len(state.Links), State: node.Known(node.NVLinkActive, source), Remote: node.Known(to, source)}
				if address != "" {
					l.RemoteAddress = node.Known(address, source)
				}
				state.Links = append(state.Links, l)
			}
		}
		most := 0
		for _, other := range columns {
			n := nvlinks[name][other]
			most = max(most, n)
			if o := numbered("GPU", other); o >= 0 && !switched {
				active(n, node.NVLinkToGPU, gpuNamed(o))
			}
		}
		if switched {
			active(most, node.NVLinkToSwitch, "")
		}
		x := d.device("gpu", gpuNamed(g))
		if x.links.IsZero() {
			x.links = node.Known(state, source)
		}
	}
}

// everyGPUHasNIC reports a NIC at PIX for each GPU, another one for each.
func (d *draft) everyGPUHasNIC(columns []string, deviceOf map[string]string) bool {
	nicOf := map[string]string{}
	owner := map[string]bool{}
	for _, t := range d.told {
		if t.relation == node.PIX.String() && strings.HasPrefix(t.a, gpuIndex) && !strings.HasPrefix(t.b, gpuIndex) && !owner[t.b] {
			nicOf[t.a] = t.b
			owner[t.b] = true
		}
	}
	for _, c := range columns {
		if numbered("GPU", c) >= 0 && nicOf[deviceOf[c]] == "" {
			return false
		}
	}
	return true
}

// shortList names the first of many.
func shortList(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], ", "), len(names)-most+1)
}

// The matrices of nvidia-smi topo -p2p CAPABILITY. Which capability that is stands only in the command.
var p2pKind = kind{
	name: "nvidia-smi topo -p2p",
	scan: func(p piece) match {
		if !matrixHeading(p.lines[0]) {
			return match{}
		}
		columns := len(names(p.lines[0]))
		m := match{lines: 1, signs: 1 + one(p.typed("topo", "-p2p"))}
		rows := 0
		for i, line := range p.lines[1:] {
			_, row, ok := matrixRow(line, columns, p2pCell)
			switch {
			case ok && len(row) == columns:
				rows++
				m.lines = i + 2
			case p2pLegend(line):
				m.lines = i + 2
			case line != "":
				m.signs += one(rows > 0) * 2
				return m
			}
			if i+1-m.lines > maxBlank {
				break
			}
		}
		m.signs += one(rows > 0) * 2
		return m
	},
	read: readP2P,
}

// p2pStatus are the words of a cell.
var p2pStatus = map[string]string{
	"OK": node.P2POK, "CNS": node.P2PChipsetNotSupported, "GNS": node.P2PGPUNotSupported, "TNS": node.P2PTopologyNotSupported,
	"DR": node.P2PDisabledByRegkey, "NS": node.P2PNotSupported, "U": node.P2PUnknown, "X": node.P2POK,
}

func p2pCell(word string) bool { return p2pStatus[word] != "" }

func p2pLegend(line string) bool {
	line = strings.TrimSpace(line)
	if line == "Legend:" {
		return true
	}
	word, _, ok := strings.Cut(line, "=")
	return ok && p2pStatus[strings.TrimSpace(word)] != ""
}

// readP2P takes the access of GPUs to each other, by the capability that the command asked for: r, w, n, a; of p, PCI, there is no fact.
func readP2P(d *draft, s section) string {
	capability, refused := "", false
	words := strings.Fields(s.command)
	for i, w := range words {
		if w == "-p2p" && i+1 < len(words) {
			capability = words[i+1]
		}
	}
	columns := names(s.lines[0])
	source := s.source(-1)
	if d.p2p == nil {
		d.p2p = &p2pDraft{pairs: map[[2]string]node.P2PPair{}}
	}
	for _, line := range s.lines[1:] {
		name, row, ok := matrixRow(line, len(columns), p2pCell)
		if !ok || p2pLegend(line) {
			continue
		}
		from := gpuNamed(numbered("GPU", name))
		if x := d.device("gpu", from); x.source == (node.Source{}) {
			x.source = source
		}
		for j, word := range row {
			to := gpuNamed(numbered("GPU", columns[j]))
			if from == to {
				continue
			}
			refused = refused || p2pStatus[word] != node.P2POK
			pair, v := d.p2p.pairs[[2]string{from, to}], node.Known(p2pStatus[word], source)
			switch capability {
			case "w":
				pair.Write = v
			case "n":
				pair.NVLink = v
			case "a":
				pair.Atomics = v
			case "p":
			case "r":
				pair.Read = v
			default: // nobody said; a refusal of one is most often one of all
				pair.Read, pair.Write = v, v
			}
			d.p2p.pairs[[2]string{from, to}] = pair
		}
	}
	if capability == "" && refused {
		return "the text does not say whether it is about reading, writing, NVLink or atomics: it was taken for reading and writing"
	}
	return ""
}

// p2pDraft is the access of GPUs to each other, by their names in draft.
type p2pDraft struct{ pairs map[[2]string]node.P2PPair }

// state is the access by keys.
func (p *p2pDraft) state(d *draft) node.P2PState {
	s := node.P2PState{GPUs: []string{}, Pairs: []node.P2PPair{}}
	for names, pair := range p.pairs {
		from, to := d.find(names[0]), d.find(names[1])
		if from == nil || to == nil {
			continue
		}
		pair.From, pair.To = from.key(), to.key()
		s.Pairs = append(s.Pairs, pair)
		s.GPUs = append(s.GPUs, pair.From, pair.To)
	}
	slices.Sort(s.GPUs)
	s.GPUs = slices.Compact(s.GPUs)
	slices.SortFunc(s.Pairs, func(a, b node.P2PPair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return s
}
