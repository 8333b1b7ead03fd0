package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"unicode/utf8"

	"busbar/node"
)

// WriteTopologySVG draws t: NUMA nodes as panels, in them host bridges, root ports, switches,
// GPUs and NICs. It suits light and dark pages, and has the reasons for what is unknown below.
func WriteTopologySVG(w io.Writer, t Topology) error {
	d := drawing{}
	d.page(t)
	var out strings.Builder
	if err := svgTemplate().Execute(&out, d); err != nil {
		return fmt.Errorf("drawing the topology of %s: %w", hostname(t.Node), err)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// The measures of a drawing, in pixels.
const (
	margin     = 28
	leafWidth  = 108
	leafHeight = 76
	leafGap    = 10 // between devices; those of one card touch
	blockGap   = 22 // between host bridges
	panelPad   = 18
	panelGap   = 40
	portHeight = 24 // of a root port
	boxHeight  = 30 // of a switch
	drop       = 30 // from a port down
	lineHeight = 18
	maxWidth   = 1480 // of a row, unless one block is wider
	minWidth   = 980  // holds the legend
	monoWidth  = 7    // of a character of an address
	textWidth  = 8    // of one of a text, at most on the average
)

// drawing is what the template draws.
type drawing struct {
	Width, Height int
	Title         string
	Shapes        []shape
}

// shape is a rectangle, a line or a text.
type shape struct {
	Kind       string // rect, line, text
	Class      string
	X, Y, W, H int    // of a line: its ends X, Y and W, H
	Text       string // of a rect: what a pointer shows
}

func (d *drawing) rect(class string, x, y, w, h int, hint string) {
	d.Shapes = append(d.Shapes, shape{"rect", class, x, y, w, h, printable(hint)})
}

func (d *drawing) line(class string, x1, y1, x2, y2 int) {
	d.Shapes = append(d.Shapes, shape{Kind: "line", Class: class, X: x1, Y: y1, W: x2, H: y2})
}

func (d *drawing) text(class string, x, y int, s string) {
	d.Shapes = append(d.Shapes, shape{Kind: "text", Class: class, X: x, Y: y, Text: printable(s)})
}

// branch is a bridge with what hangs below it, or a card: the functions of one device.
type branch struct {
	bridge TopologyBridge
	below  []*branch
	card   []device
}

// device is a GPU, or the ports of a NIC function.
type device struct {
	TopologyPlace
	ports []TopologyNIC // nil for a GPU
}

// block is a host bridge.
type block struct {
	root  string
	below []*branch
}

// panel is a NUMA node.
type panel struct {
	title, cpus string
	blocks      []*block
}

// page lays everything out.
func (d *drawing) page(t Topology) {
	d.Title = "PCI topology of " + printable(hostname(t.Node))
	d.text("title", margin, margin+16, hostname(t.Node))
	d.text("muted", margin, margin+38, t.summary())
	x, y, right, bottom := margin, margin+60, minWidth-margin, margin+60
	for _, p := range t.panels() {
		w, h := p.size()
		if x > margin && x+w > margin+maxWidth {
			x, y = margin, bottom+panelGap
		}
		d.panel(p, x, y, w, h)
		right, bottom = max(right, x+w), max(bottom, y+h)
		x += w + panelGap
	}
	d.Width = right + margin
	if len(t.Devices()) > 0 {
		bottom = d.legend(t, bottom+34)
	}
	d.Height = d.notes(t, bottom) + margin - lineHeight
}

// summary counts.
func (t Topology) summary() string {
	gpus, known := t.GPUs.Get()
	if !known {
		return "PCI bus unknown"
	}
	nics := 0
	for _, d := range t.Devices() {
		if strings.HasPrefix(d.Name, "NIC") {
			nics++
		}
	}
	rails := "rails unknown"
	if list, ok := t.Rails.Get(); ok {
		rails = plural(len(list), "rail")
	}
	product, _ := t.Node.Product.Get()
	text := joinNonEmpty(", ", product, plural(len(gpus), "GPU"), plural(nics, "NIC"), rails)
	if v, ok := t.Node.Virtualization.Get(); ok && v != "none" {
		text += ", virtual machine (" + v + ")"
	}
	return strings.ReplaceAll(text, glue, " ")
}

// panels sorts devices by NUMA node, host bridge and bridges; those without a NUMA node come last.
func (t Topology) panels() []*panel {
	var devices []device
	gpus, _ := t.GPUs.Get()
	for _, g := range gpus {
		devices = append(devices, device{g.TopologyPlace, nil})
	}
	nics, _ := t.NICs.Get()
	for _, n := range nics {
		if last := len(devices) - 1; last >= 0 && devices[last].Address == n.Address {
			devices[last].ports = append(devices[last].ports, n)
			continue
		}
		devices = append(devices, device{n.TopologyPlace, []TopologyNIC{n}})
	}
	slices.SortStableFunc(devices, func(a, b device) int {
		return cmp.Or(cmp.Compare(a.numa(), b.numa()), cmp.Compare(a.Root, b.Root), cmp.Compare(a.Address, b.Address))
	})
	var panels []*panel
	lastNUMA := -1
	for _, d := range devices {
		if d.numa() != lastNUMA {
			panels = append(panels, t.newPanel(d))
			lastNUMA = d.numa()
		}
		panels[len(panels)-1].add(t, d)
	}
	for _, p := range panels {
		for _, b := range p.blocks {
			sortBranches(b.below)
		}
	}
	return panels
}

// sortBranches sorts by address.
func sortBranches(list []*branch) {
	slices.SortFunc(list, func(a, b *branch) int { return cmp.Compare(a.address(), b.address()) })
	for _, b := range list {
		sortBranches(b.below)
	}
}

// address of the bridge, or of the card's first function.
func (b *branch) address() string {
	if len(b.card) > 0 {
		return b.card[0].Address
	}
	return b.bridge.Address
}

// numa sorts.
func (d device) numa() int {
	if d.NUMANode == nil {
		return 1 << 30
	}
	return *d.NUMANode
}

func (t Topology) newPanel(d device) *panel {
	if d.NUMANode == nil {
		return &panel{title: "NUMA node unknown"}
	}
	p := panel{title: "NUMA node " + strconv.Itoa(*d.NUMANode)}
	if cpus, ok := t.cpus(*d.NUMANode).Get(); ok {
		p.cpus = joinNonEmpty(" ", "CPUs", cpus)
	}
	return &p
}

// add hangs a device below its bridges.
func (p *panel) add(t Topology, d device) {
	if len(p.blocks) == 0 || p.blocks[len(p.blocks)-1].root != d.Root {
		p.blocks = append(p.blocks, &block{root: d.Root})
	}
	below := &p.blocks[len(p.blocks)-1].below
	for _, address := range t.above(d.TopologyPlace) {
		i := slices.IndexFunc(*below, func(b *branch) bool { return b.bridge.Address == address })
		if i < 0 {
			i = len(*below)
			*below = append(*below, &branch{bridge: t.bridge(address)})
		}
		below = &(*below)[i].below
	}
	if last := len(*below) - 1; last >= 0 && len((*below)[last].card) > 0 && cardOf((*below)[last].card[0]) == cardOf(d) {
		(*below)[last].card = append((*below)[last].card, d)
		return
	}
	*below = append(*below, &branch{card: []device{d}})
}

// cardOf is the address of the device that a function belongs to.
func cardOf(d device) string {
	card, _, _ := strings.Cut(d.Address, ".")
	return card
}

func (t Topology) bridge(address string) TopologyBridge {
	i := slices.IndexFunc(t.Bridges, func(b TopologyBridge) bool { return b.Address == address })
	return t.Bridges[i]
}

// isBox tells a switch (its upstream port) or another bridge from the ports of the root complex and of
// switches: every second bridge from the root port down.
func isBox(depth int) bool { return depth%2 == 1 }

// size of a branch at a depth below the root bus.
func (b *branch) size(depth int) (w, h int) {
	if n := len(b.card); n > 0 {
		return n * leafWidth, leafHeight
	}
	w, h = sizeOf(b.below, depth+1)
	switch {
	case depth == 0:
		return max(w, leafWidth), h + portHeight + drop
	case isBox(depth):
		return max(w, leafWidth), h + boxHeight
	default:
		return max(w, leafWidth), h + drop
	}
}

func sizeOf(list []*branch, depth int) (w, h int) {
	for i, b := range list {
		bw, bh := b.size(depth)
		if i > 0 {
			w += leafGap
		}
		w, h = w+bw, max(h, bh+lead(b, depth))
	}
	return w, h
}

// lead is the length of the line down to a branch from what it hangs on.
func lead(b *branch, depth int) int {
	if len(b.card) > 0 && depth > 0 && !isBox(depth-1) {
		return 0 // the port has drawn it
	}
	if len(b.card) > 0 || depth == 0 {
		return drop
	}
	return 0
}

func (b *block) size() (w, h int) {
	w, h = sizeOf(b.below, 0)
	return max(w, leafWidth+40), h + 10
}

// rows are the blocks that stand beside each other.
func (p *panel) rows() [][]*block {
	var rows [][]*block
	width := 0
	for _, b := range p.blocks {
		w, _ := b.size()
		if len(rows) == 0 || width+blockGap+w > maxWidth-2*panelPad {
			rows, width = append(rows, nil), -blockGap
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], b)
		width += blockGap + w
	}
	return rows
}

const (
	panelHead = 54
	rowGap    = 40
)

func (p *panel) size() (w, h int) {
	h = panelHead
	for i, row := range p.rows() {
		width, height := -blockGap, 0
		for _, b := range row {
			bw, bh := b.size()
			width, height = width+blockGap+bw, max(height, bh)
		}
		if i > 0 {
			h += rowGap
		}
		w, h = max(w, width), h+height
	}
	return max(w, 300) + 2*panelPad, h + panelPad
}

func (d *drawing) panel(p *panel, x, y, w, h int) {
	d.rect("panel", x, y, w, h, "")
	d.text("head", x+panelPad, y+24, p.title)
	d.text("muted end", x+w-panelPad, y+24, shorten(p.cpus, (w-2*panelPad)/textWidth-len(p.title)))
	y += panelHead
	for _, row := range p.rows() {
		at, height := x+panelPad, 0
		for _, b := range row {
			bw, bh := b.size()
			d.block(b, at, y, bw)
			at, height = at+bw+blockGap, max(height, bh)
		}
		y += height + rowGap
	}
}

// block draws a host bridge as a bar with everything below it.
func (d *drawing) block(b *block, x, y, w int) {
	d.rect("host", x, y, w, 6, "host bridge, root bus "+b.root)
	d.text("mono", x, y-6, "root "+short(b.root))
	inner, _ := sizeOf(b.below, 0)
	d.branches(b.below, 0, x+(w-inner)/2, y+6, nil)
}

// branches draws what hangs on something whose lower edge is at y. from is the middle of what
// they hang on, nil where each may go straight up.
func (d *drawing) branches(list []*branch, depth, x, y int, from *int) {
	for _, b := range list {
		w, _ := b.size(depth)
		middle, down := x+w/2, lead(b, depth)
		if down > 0 {
			d.hang(from, middle, y, y+down)
		}
		d.branch(b, depth, x, y+down, w)
		x += w + leafGap
	}
}

// hang draws the line from above down to the middle of something.
func (d *drawing) hang(from *int, middle, y, end int) {
	if from == nil || *from == middle {
		d.line("wire", middle, y, middle, end)
		return
	}
	d.line("wire", *from, y, *from, y+8)
	d.line("wire", *from, y+8, middle, y+8)
	d.line("wire", middle, y+8, middle, end)
}

func (d *drawing) branch(b *branch, depth, x, y, w int) {
	if len(b.card) > 0 {
		d.card(b.card, x, y)
		return
	}
	middle := x + w/2
	inner, _ := sizeOf(b.below, depth+1)
	left := x + (w-inner)/2
	name := short(b.bridge.Address)
	switch {
	case depth == 0:
		d.rect("port", middle-46, y, 92, portHeight, "root port "+b.bridge.Address+", "+b.bridge.PCIID)
		d.text("mono mid", middle, y+16, name)
		d.ports(b, depth, left, y+portHeight, middle)
	case isBox(depth):
		what := "bridge"
		if slices.ContainsFunc(b.below, func(b *branch) bool { return len(b.card) == 0 }) {
			what = "switch"
		}
		d.rect("switch", x, y, w, boxHeight, what+" "+b.bridge.Address+", "+b.bridge.PCIID)
		if label := what + " " + name; len(label)*monoWidth <= w {
			name = label
		}
		d.text("mono mid", middle, y+19, name)
		d.branches(b.below, depth+1, left, y+boxHeight, nil)
	default:
		d.ports(b, depth, left, y, middle)
		d.text("port-label", middle+5, y+19, tail(b.bridge.Address))
	}
}

// ports draws the lines of a root port or a switch's port down to what it leads to.
func (d *drawing) ports(b *branch, depth, left, y, middle int) {
	for _, child := range b.below {
		w, _ := child.size(depth + 1)
		d.hang(&middle, left+w/2, y, y+drop)
		d.branch(child, depth+1, left, y+drop, w)
		left += w + leafGap
	}
}

// card draws the functions of a device side by side.
func (d *drawing) card(functions []device, x, y int) {
	for _, f := range functions {
		class, lines, hint := f.label()
		d.rect(class, x+1, y, leafWidth-2, leafHeight, hint)
		top := y + 18 + (leafHeight-12-16*len(lines))/2
		for i, line := range lines {
			text := class + "-text mid"
			if i > 0 {
				text += " small"
			}
			if i == len(lines)-1 && f.link().isDown() {
				d.rect("down", x+5, top+i*16-12, leafWidth-10, 16, "")
				text = "down-text mid small"
			}
			d.text(text, x+leafWidth/2, top+i*16, line)
		}
		x += leafWidth
	}
}

// label is how a device is drawn: its class, its lines of text, and what a pointer shows.
func (f device) label() (class string, lines []string, hint string) {
	lines = []string{f.Name, short(f.Address)}
	hint = f.Name + " " + f.Address + ", " + f.PCIID
	if f.ports == nil {
		return "gpu", append(lines, f.PCIID), hint
	}
	class = "nic"
	n := f.ports[0].NIC
	rdma, _ := n.RDMA.Get()
	netdev, _ := n.Netdev.Get()
	lines = append(lines, shorten(cmp.Or(rdma, netdev), 14), shorten(f.link().short(), 14))
	for _, p := range f.ports {
		if protected, _ := p.NIC.Protected.Get(); protected {
			class = "guarded"
		} else if rail, _ := p.Rail.Get(); rail {
			class = "rail"
		}
		hint += "; " + joinNonEmpty(", ", p.NIC.String(), orUnknown("netdev", p.NIC.Netdev), orUnknown("RDMA", p.NIC.RDMA), orUnknown("link layer", p.NIC.LinkLayer), p.Link.hint())
	}
	return class, lines, hint
}

// link is that of a NIC, of several ports the first that is down; of a GPU it is all unknown.
func (f device) link() TopologyLink {
	for _, p := range f.ports {
		if p.Link.isDown() {
			return p.Link
		}
	}
	if len(f.ports) == 0 {
		return TopologyLink{}
	}
	return f.ports[0].Link
}

func orUnknown(what string, v node.Value[string]) string {
	if s, ok := v.Get(); ok {
		return what + " " + s
	}
	return what + " unknown: " + v.Reason()
}

// legend explains the boxes and the relations, and returns where it ends.
func (d *drawing) legend(t Topology, y int) int {
	x := margin
	for _, sample := range [][2]string{{"gpu", "GPU"}, {"rail", "rail"}, {"guarded", "protected NIC"}, {"nic", "other NIC"}, {"down", "port down"}, {"switch", "PCIe switch"}, {"port", "root port"}, {"host", "host bridge"}} {
		height, top := 16, y-12
		if sample[0] == "host" {
			height, top = 6, y-7
		}
		d.rect(sample[0], x, top, 24, height, "")
		d.text("muted", x+31, y, sample[1])
		x += 31 + 7*len(sample[1]) + 26
	}
	y += 26
	words := "Below one switch: PIX. Below switches behind each other: PXB. On one host bridge: PHB. In one NUMA node: NODE. Else: SYS."
	if slices.ContainsFunc(t.Pairs, func(p TopologyPair) bool { return !p.Relation.IsKnown() }) {
		words = "How far devices are from each other is not known of all: where they hang does not tell here."
	}
	d.text("muted", margin, y, words)
	y += lineHeight
	for _, line := range t.nvlinks() {
		d.text("muted", margin, y, line)
		y += lineHeight
	}
	return y
}

// nvlinks says in words which GPUs NVLinks join: a line for each number of them. It is empty where there are none.
func (t Topology) nvlinks() []string {
	pairs := map[int][]string{}
	all := 0
	for _, p := range t.Pairs {
		if !strings.HasPrefix(p.B.Name, "GPU") {
			continue
		}
		all++
		if links, ok := p.NVLinks.Get(); ok {
			pairs[links] = append(pairs[links], p.A.Name+"-"+p.B.Name)
		}
	}
	var lines []string
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(pairs))) {
		list := pairs[n]
		text := strings.Join(list, ", ")
		switch {
		case len(list) == all && all > 1:
			text = "between every two GPUs"
		case len(list) > 12:
			text = fmt.Sprintf("between %d of %d pairs of GPUs", len(list), all)
		}
		switch {
		case n > 0:
			lines = append(lines, fmt.Sprintf("%s (NV%d): %s", strings.ReplaceAll(plural(n, "NVLink"), glue, " "), n, text))
		case len(lines) > 0:
			lines = append(lines, "No NVLink: "+text)
		}
	}
	return lines
}

// notes writes why things are unknown.
func (d *drawing) notes(t Topology, y int) int {
	if t.GPUs.IsKnown() && len(t.Devices()) == 0 {
		d.text("muted", margin, y, noDevices)
		y += lineHeight
	}
	for _, r := range t.unknown() {
		for i, line := range wrap(r.String(), (d.Width-2*margin)/textWidth) {
			if i == 0 {
				line = "? " + line
			}
			d.text("muted", margin, y, line)
			y += lineHeight
		}
	}
	return y
}

// short is an address or bus without the usual domain.
func short(address string) string { return strings.TrimPrefix(address, "0000:") }

// tail is DD.F of an address.
func tail(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// shorten cuts text down to n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 2 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

var svgTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("svg").Funcs(template.FuncMap{"xml": escapeXML}).Parse(svgText))
})

func escapeXML(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}

const svgText = `<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" role="img">
<title>{{xml .Title}}</title>
<style>
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-size: 21px; font-weight: 600 }
.head { font-weight: 600 }
.muted { fill: #59636e }
.mono, .port-label, .small { font: 11px ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace }
.mono, .port-label { fill: #59636e }
.mid { text-anchor: middle }
.end { text-anchor: end }
.page { fill: #ffffff }
.panel { fill: #f6f8fa; stroke: #d1d9e0 }
.host { fill: #818b98 }
.port { fill: #ffffff; stroke: #818b98 }
.switch { fill: #fff8c5; stroke: #d4a72c }
.wire { stroke: #818b98; stroke-width: 1.5 }
.gpu { fill: #1a7f37 }
.rail { fill: #0969da }
.gpu-text, .rail-text { fill: #ffffff }
.nic { fill: #ffffff; stroke: #54aeff }
.nic-text { fill: #0a3069 }
.guarded { fill: #eff2f5; stroke: #818b98; stroke-dasharray: 4 3 }
.guarded-text { fill: #59636e }
.down { fill: #cf222e }
.down-text { fill: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.muted, .mono, .port-label, .guarded-text { fill: #9198a1 }
.page { fill: #0d1117 }
.panel { fill: #151b23; stroke: #3d444d }
.host { fill: #656c76 }
.port { fill: #0d1117; stroke: #656c76 }
.switch { fill: #2b2111; stroke: #9e6a03 }
.wire { stroke: #656c76 }
.gpu { fill: #238636 }
.rail { fill: #1f6feb }
.gpu-text, .rail-text, .down-text { fill: #ffffff }
.nic { fill: #0d1117; stroke: #388bfd }
.nic-text { fill: #a5d6ff }
.guarded { fill: #212830; stroke: #656c76 }
}
</style>
<rect class="page" width="100%" height="100%"/>
{{range .Shapes -}}
{{if eq .Kind "rect" -}}
<rect class="{{.Class}}" x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}" rx="{{if eq .Class "panel"}}10{{else if eq .Class "host"}}3{{else}}5{{end}}">{{with .Text}}<title>{{xml .}}</title>{{end}}</rect>
{{else if eq .Kind "line" -}}
<line class="{{.Class}}" x1="{{.X}}" y1="{{.Y}}" x2="{{.W}}" y2="{{.H}}"/>
{{else -}}
<text class="{{.Class}}" x="{{.X}}" y="{{.Y}}">{{xml .Text}}</text>
{{end -}}
{{end -}}
</svg>
`
