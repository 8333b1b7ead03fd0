package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"busbar/node"
	"busbar/plan"
)

// Fleet is what the documents of many nodes have in common, counted as they come. It keeps names and counts, and no document.
type Fleet struct {
	command  string
	title    func(id string) string
	nodes    []string // their names, in the order in which they came
	named    map[string]bool
	hosts    map[string][]string // recordings by host name
	codes    map[int]int
	profiles map[string]int
	models   map[string]*fleetModel
	causes   map[causeKey]*cause
	shapes   map[kindKey]int // how many causes a kind of finding has
	failures map[failureKey]*FleetFailure
}

// fleetModel are the nodes of one model.
type fleetModel struct {
	nodes  int
	traits map[string]map[string][]int // name of the trait, its value: nodes
}

// kindKey is a kind of finding of one block, causeKey that with what was wanted and found, less what differs from node to node.
type (
	kindKey struct {
		id, address string
		status      plan.Status
		severity    plan.Severity
		tolerated   bool
	}
	causeKey struct {
		kindKey
		want, found string
	}
)

type cause struct {
	first    plan.Finding
	findings int
	fixable  int // nodes
	nodes    []int
	models   map[string]int
}

type failureKey struct {
	code int
	text string
}

// NewFleet begins to count what command says of many nodes. title is one clause about a kind of finding, or empty.
func NewFleet(command string, title func(id string) string) *Fleet {
	return &Fleet{
		command: command, title: title, named: map[string]bool{}, hosts: map[string][]string{}, codes: map[int]int{}, profiles: map[string]int{}, models: map[string]*fleetModel{},
		causes: map[causeKey]*cause{}, shapes: map[kindKey]int{}, failures: map[failureKey]*FleetFailure{},
	}
}

// maxShapes is how many causes a kind of finding may have; what is found in more ways is counted as one, so that memory stays small
// where each node finds something else.
const maxShapes = 16

// Trait is a version that equal nodes share: of the BIOS, the kernel, a driver, firmware.
type Trait struct{ Name, Value string }

// TraitsOf are the versions that facts know, in a fixed order.
func TraitsOf(facts node.Facts) []Trait {
	inv := facts.Inventory
	var all []Trait
	add := func(name string, v node.Value[string]) {
		if value, ok := v.Get(); ok && value != "" {
			all = append(all, Trait{name, value})
		}
	}
	if dmi, ok := inv.DMI.Get(); ok {
		add("BIOS", node.Known(dmi.BIOSVersion, node.Source{}))
	}
	add("OS", osName(inv.OS))
	add("kernel", inv.Kernel)
	if driver, ok := node.NVIDIADriver.Get(facts, "").Get(); ok && driver.Loaded {
		add("NVIDIA driver", node.Known(driver.Version+" "+driver.Flavour(), node.Source{}))
	}
	if fm, ok := node.FabricManager.Get(facts, "").Get(); ok && fm.Installed {
		add("fabric manager", fm.Version)
	}
	firmware := map[string][]string{} // by PCI id
	devices, _ := inv.RDMA.Get()
	for _, d := range devices {
		function, ok := inv.PCIFunction(d.PCI)
		if !ok || function.PhysicalFunction != "" || len(d.Ports) == 0 {
			continue
		}
		port, _ := node.RDMAPort.Get(facts, fmt.Sprintf("%s/%d", d.Name, d.Ports[0].Port)).Get()
		if version, ok := port.Firmware.Get(); ok && version != "" {
			firmware[function.ID()] = append(firmware[function.ID()], version)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(firmware)) {
		versions := slices.Compact(slices.Sorted(slices.Values(firmware[id])))
		all = append(all, Trait{"firmware of NICs " + id, strings.Join(versions, ", ")})
	}
	return all
}

// ModelOf is a node's product name with the models of its GPUs; nodes for which it is the same should be equal.
func ModelOf(facts node.Facts) string {
	name, ok := product(facts.Inventory.DMI).Get()
	if !ok {
		name = "unknown product"
	}
	gpus, ok := facts.Inventory.GPUs().Get()
	if !ok {
		return name
	}
	var models []string
	for _, g := range gpus {
		model := g.PCIID
		if m, ok := g.Model(); ok {
			model = strings.TrimPrefix(m.Product, "NVIDIA ")
		}
		models = append(models, model)
	}
	slices.Sort(models)
	if models = slices.Compact(models); len(models) == 0 {
		models = []string{"no GPU"}
	}
	return name + " (" + strings.Join(models, ", ") + ")"
}

// Add counts the document of a node, with what ModelOf and TraitsOf say of it.
func (f *Fleet) Add(d Document, model string, traits []Trait) {
	number := f.name(d.Node)
	f.codes[d.ExitCode]++
	f.profiles[d.Profile.Name]++
	equals := f.models[model]
	if equals == nil {
		equals = &fleetModel{traits: map[string]map[string][]int{}}
		f.models[model] = equals
	}
	equals.nodes++
	for _, t := range traits {
		if equals.traits[t.Name] == nil {
			equals.traits[t.Name] = map[string][]int{}
		}
		equals.traits[t.Name][t.Value] = append(equals.traits[t.Name][t.Value], number)
	}
	fixable := map[*cause]bool{}
	for _, finding := range d.Findings {
		if finding.Status == plan.OK || finding.Status == plan.Skipped {
			continue
		}
		c := f.causeOf(finding)
		c.findings++
		if len(c.nodes) == 0 || c.nodes[len(c.nodes)-1] != number {
			c.nodes = append(c.nodes, number)
			c.models[model]++
		}
		if finding.Fixable && !fixable[c] {
			fixable[c] = true
			c.fixable++
		}
	}
}

// name numbers a node, whose name is its host name, or else and where another node has that, its recording.
func (f *Fleet) name(n Node) int {
	name, ok := n.Hostname.Get()
	if ok {
		f.hosts[name] = append(f.hosts[name], n.Recording)
	}
	if !ok || f.named[name] {
		name = n.Recording
	}
	f.named[name] = true
	f.nodes = append(f.nodes, name)
	return len(f.nodes) - 1
}

func (f *Fleet) causeOf(finding plan.Finding) *cause {
	kind := kindKey{finding.ID, shapeOf(finding.Address), statusOf(finding), finding.Severity, finding.Tolerated}
	key := causeKey{kind, shapeOf(finding.Want), shapeOf(finding.Found)}
	if finding.Found == "" { // why it is so is in the summary alone
		key.found = shapeOf(numbers().ReplaceAllString(shapeOf(finding.Summary), "N"))
	}
	c := f.causes[key]
	if c == nil && f.shapes[kind] >= maxShapes {
		key.want, key.found = "", otherwise
		c = f.causes[key]
	}
	if c == nil {
		c = &cause{first: finding, models: map[string]int{}}
		f.causes[key] = c
		f.shapes[kind]++
	}
	return c
}

// otherwise is what is found where a kind of finding is found in too many ways.
const otherwise = "something else on each node"

// Fail counts a recording of which there is no document, and why: code is the exit code that it has alone.
func (f *Fleet) Fail(name string, code int, why string) {
	key := failureKey{code, numbers().ReplaceAllString(shapeOf(why), "N")}
	switch failure := f.failures[key]; {
	case failure == nil:
		f.failures[key] = &FleetFailure{ExitCode: code, Error: why}
	case failure.Error != why:
		failure.Error = key.text
	}
	f.failures[key].Recordings = append(f.failures[key].Recordings, name)
	f.codes[code]++
}

// What differs from node to node in what is found: addresses of PCI functions, of networks and of GPUs, and fractions that were measured.
var (
	identities = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?:/[0-9]+)?|(?:[0-9a-fA-F]{2,4}:){3,}[0-9a-fA-F:]*|(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b`)
	})
	repeated = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\*(?:,? (?:and )?\*)+`) })
	measured = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9]+\.[0-9]+ (?:GB/s|us|ms|s)\b`) })
	numbers  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9]+`) })
)

// shapeOf is a text without what differs from node to node: * stands for one address or several, N for what was measured.
func shapeOf(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return '0' <= r && r <= '9' }) < 0 {
		return text
	}
	text = measured().ReplaceAllStringFunc(text, func(m string) string { return "N" + m[strings.IndexByte(m, ' '):] })
	text = identities().ReplaceAllString(text, "*")
	return repeated().ReplaceAllString(text, "* ...")
}

// FleetDocument is what many nodes have in common.
type FleetDocument struct {
	FormatVersion string `json:"format_version"`
	// Command is plan or verify.
	Command string `json:"command"`
	// Recordings is how many there were, those that could not be judged too.
	Recordings int `json:"recordings"`
	// Nodes were judged; AsWanted are those with exit code 0.
	Nodes    int `json:"nodes"`
	AsWanted int `json:"as_wanted"`
	// ExitCodes says how many recordings ended with which exit code, in the order in which the codes count.
	ExitCodes []FleetCode `json:"exit_codes"`
	// Profiles and Models are sorted by how many nodes they have, the most first, then by name.
	Profiles []FleetCount `json:"profiles"`
	Models   []FleetCount `json:"models"`
	// Causes are sorted by severity, then by how many nodes they have, the most first, then by id and address.
	Causes []FleetCause `json:"causes"`
	// Outliers are sorted by model, trait and value.
	Outliers []FleetOutlier `json:"outliers"`
	// Repeated are the host names that several recordings have, sorted: of one node, which is counted as often, or of nodes that share a name.
	Repeated []FleetHost `json:"repeated"`
	// Failures are sorted as exit codes count, then by error.
	Failures []FleetFailure `json:"failures"`
	// ExitCode is the first of ExitCodes.
	ExitCode int `json:"exit_code"`
}

// FleetCode is how many recordings ended with an exit code.
type FleetCode struct {
	ExitCode   int `json:"exit_code"`
	Recordings int `json:"recordings"`
}

// FleetCount is how many nodes have something.
type FleetCount struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
}

// FleetCause are findings of many nodes that are one: of the same kind and block, with the same wanted and the same found. In Want and
// Found * stands for what has another name on each node.
type FleetCause struct {
	ID        string        `json:"id"`
	Address   string        `json:"address"`
	Status    plan.Status   `json:"status"`
	Severity  plan.Severity `json:"severity"`
	Tolerated bool          `json:"tolerated,omitempty"`
	// Title is one clause about the kind of finding.
	Title string `json:"title"`
	Want  string `json:"want,omitempty"`
	Found string `json:"found,omitempty"`
	// Example is the summary of the first finding, Fix what it says to do.
	Example string `json:"example"`
	Fix     string `json:"fix,omitempty"`
	// Findings is how many there are; Fixable is on how many nodes busbar apply puts at least one right.
	Findings int `json:"findings"`
	Fixable  int `json:"fixable"`
	// Nodes by host name, or by recording where two have one name, in the order of the recordings.
	Nodes  []string     `json:"nodes"`
	Models []FleetCount `json:"models"`
}

// FleetOutlier are nodes that have another version of something than most nodes of their model.
type FleetOutlier struct {
	Model string `json:"model"`
	// Trait is BIOS, OS, kernel, NVIDIA driver, fabric manager, or firmware of NICs VENDOR:DEVICE.
	Trait string `json:"trait"`
	Value string `json:"value"`
	// Usual is what more than half of the model's nodes have that say it; empty where there is no such value.
	Usual string   `json:"usual,omitempty"`
	Nodes []string `json:"nodes"`
	// Of is how many nodes of the model say it.
	Of int `json:"of"`
}

// FleetHost is a host name with the recordings that have it, in their order.
type FleetHost struct {
	Name       string   `json:"name"`
	Recordings []string `json:"recordings"`
}

// FleetFailure are recordings of which there is no result for one reason.
type FleetFailure struct {
	ExitCode int `json:"exit_code"`
	// Error is that of all; N stands for a number, and * for an address, that differs.
	Error      string   `json:"error"`
	Recordings []string `json:"recordings"`
}

// codeOrder is the order in which exit codes of single nodes count for all of them.
var codeOrder = []int{plan.ExitUsage, plan.ExitBadProfile, plan.ExitError, plan.ExitDrift, plan.ExitUnknown, plan.ExitReboot, plan.ExitOK}

// WorstCode is the exit code of several nodes: the first of 64, 78, 1, 2, 8, 3, 0 that is among theirs, or 0.
func WorstCode(codes []int) int {
	for _, code := range codeOrder {
		if slices.Contains(codes, code) {
			return code
		}
	}
	return plan.ExitOK
}

// Document sums up what was counted. The exit code is WorstCode's.
func (f *Fleet) Document() FleetDocument {
	d := FleetDocument{
		FormatVersion: FormatVersion, Command: f.command, Nodes: len(f.nodes), AsWanted: f.codes[plan.ExitOK],
		ExitCodes: []FleetCode{}, Profiles: counts(f.profiles), Causes: f.sortedCauses(), Outliers: f.outliers(), Repeated: f.repeated(), Failures: []FleetFailure{},
	}
	for _, code := range codeOrder {
		if n := f.codes[code]; n > 0 {
			d.ExitCodes = append(d.ExitCodes, FleetCode{code, n})
			d.Recordings += n
		}
	}
	if len(d.ExitCodes) > 0 {
		d.ExitCode = d.ExitCodes[0].ExitCode
	}
	models := map[string]int{}
	for name, m := range f.models {
		models[name] = m.nodes
	}
	d.Models = counts(models)
	for _, failure := range f.failures {
		d.Failures = append(d.Failures, *failure)
	}
	slices.SortFunc(d.Failures, func(a, b FleetFailure) int {
		return cmp.Or(cmp.Compare(slices.Index(codeOrder, a.ExitCode), slices.Index(codeOrder, b.ExitCode)), cmp.Compare(len(b.Recordings), len(a.Recordings)), cmp.Compare(a.Error, b.Error))
	})
	return d
}

// counts sorts by number, the most first.
func counts(of map[string]int) []FleetCount {
	all := []FleetCount{}
	for name, n := range of {
		all = append(all, FleetCount{name, n})
	}
	slices.SortFunc(all, func(a, b FleetCount) int { return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Name, b.Name)) })
	return all
}

func (f *Fleet) namesOf(nodes []int) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = f.nodes[n]
	}
	return names
}

func (f *Fleet) sortedCauses() []FleetCause {
	all := []FleetCause{}
	for key, c := range f.causes {
		out := FleetCause{
			ID: key.id, Address: key.address, Status: c.first.Status, Severity: key.severity, Tolerated: key.tolerated,
			Title: cmp.Or(f.title(key.id), c.first.Summary), Want: key.want, Found: key.found,
			Example: c.first.Summary, Fix: c.first.Fix, Findings: c.findings, Fixable: c.fixable, Nodes: f.namesOf(c.nodes), Models: counts(c.models),
		}
		if c.first.Found == "" && key.found != otherwise {
			out.Found = ""
		}
		all = append(all, out)
	}
	slices.SortFunc(all, func(a, b FleetCause) int {
		return cmp.Or(
			cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), cmp.Compare(len(b.Nodes), len(a.Nodes)),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Want, b.Want), cmp.Compare(a.Found, b.Found), cmp.Compare(a.Example, b.Example),
		)
	})
	return all
}

// fewestEquals is how many nodes of a model must say a trait for one to be an outlier.
const fewestEquals = 3

func (f *Fleet) outliers() []FleetOutlier {
	all := []FleetOutlier{}
	for name, model := range f.models {
		for trait, values := range model.traits {
			total, usual := 0, ""
			for _, nodes := range values {
				total += len(nodes)
			}
			for value, nodes := range values {
				if 2*len(nodes) > total {
					usual = value
				}
			}
			if total < fewestEquals {
				continue
			}
			for value, nodes := range values {
				if value != usual {
					all = append(all, FleetOutlier{Model: name, Trait: trait, Value: value, Usual: usual, Nodes: f.namesOf(nodes), Of: total})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b FleetOutlier) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Trait, b.Trait), cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Value, b.Value))
	})
	return all
}

func (f *Fleet) repeated() []FleetHost {
	all := []FleetHost{}
	for _, name := range slices.Sorted(maps.Keys(f.hosts)) {
		if recordings := f.hosts[name]; len(recordings) > 1 {
			all = append(all, FleetHost{name, recordings})
		}
	}
	return all
}

// WriteFleetJSON writes d indented.
func WriteFleetJSON(w io.Writer, d FleetDocument) error {
	return encode(w, d, d.Command, Node{}, "  ")
}

// WriteFleet writes d for people: how many nodes are as wanted, what is wrong with the others by cause, which nodes differ from their
// equals, which recordings tell of one host name, and of which there is no result.
func WriteFleet(w io.Writer, d FleetDocument, style Style) error {
	p := page{style: style}
	head := grouped(d.Recordings) + " recordings"
	if d.Recordings == 1 {
		head = "1 recording"
	}
	p.paragraph([]span{{bold, head}}, "", ": "+d.outcomes()+"; exit"+glue+strconv.Itoa(d.ExitCode))
	if style.Quiet {
		return p.flush(w)
	}
	p.paragraph(nil, "", "models "+listed(d.Models, d.Nodes))
	p.paragraph(nil, "", "profiles "+listed(d.Profiles, d.Nodes))
	column := d.statusColumn()
	last := plan.Severity("")
	for _, c := range d.Causes {
		if c.Severity != last {
			p.blank()
			last = c.Severity
		}
		p.cause(d, c, column)
	}
	for i, failure := range d.Failures {
		if i == 0 {
			p.blank()
		}
		p.group(span{red, pad("no result", column)}, len(failure.Recordings), d.Recordings, "", printable(failure.Error))
		p.detail(column, "files", p.some(failure.Recordings))
	}
	p.outliers(d)
	p.repeated(d)
	return p.flush(w)
}

// outcomes counts recordings by exit code in words.
func (d FleetDocument) outcomes() string {
	words := map[int]string{
		plan.ExitOK: "as wanted", plan.ExitReboot: "wait for a reboot alone", plan.ExitUnknown: "not decided", plan.ExitDrift: "not as wanted",
		plan.ExitError: "could not be read", plan.ExitBadProfile: "for which the profile is invalid", plan.ExitUsage: "that several profiles match",
	}
	var parts []string
	for _, c := range slices.Backward(d.ExitCodes) {
		parts = append(parts, grouped(c.Recordings)+glue+words[c.ExitCode])
	}
	return strings.Join(parts, ", ")
}

// grouped writes a number with a comma between groups of three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// listed are names with how many nodes of all they have; a single name of all nodes stands alone.
func listed(all []FleetCount, nodes int) string {
	var parts []string
	for _, c := range all {
		text := strings.ReplaceAll(printable(cmp.Or(c.Name, "none")), " ", glue)
		if len(all) > 1 || c.Nodes != nodes {
			text += glue + "(" + grouped(c.Nodes) + ")"
		}
		parts = append(parts, text)
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func (d FleetDocument) statusColumn() int {
	column := 0
	for _, c := range d.Causes {
		column = max(column, len(c.shown()))
	}
	if len(d.Failures) > 0 {
		column = max(column, len("no result"))
	}
	return column
}

// shown is the cause's status as people read it.
func (c FleetCause) shown() plan.Status {
	return statusOf(plan.Finding{Status: c.Status, Severity: c.Severity})
}

// group begins with how many of all something is.
func (p *page) group(status span, n, all int, emphasis, text string) {
	p.paragraph([]span{status, {plain, "  "}, {bold, grouped(n) + " of " + grouped(all)}, {plain, "  "}}, emphasis, text)
}

// maxNames is how many nodes are named of those that have something, without Verbose.
const maxNames = 4

// some names the first of several nodes, and how many more there are.
func (p *page) some(names []string) string {
	shown := names
	if !p.style.Verbose {
		shown = names[:min(len(names), maxNames)]
	}
	text := printable(strings.Join(shown, ", "))
	if more := len(names) - len(shown); more > 0 {
		text += " and" + glue + grouped(more) + glue + "more"
	}
	return text
}

func (p *page) detail(column int, label, text string) {
	if text != "" {
		p.paragraph([]span{{plain, strings.Repeat(" ", column+2)}, {dim, pad(label, 8)}}, "", text)
	}
}

func (p *page) cause(d FleetDocument, c FleetCause, column int) {
	status := c.shown()
	head := printable(c.Address)
	if c.Severity == plan.Warning {
		head += " (warn)"
	}
	if c.Tolerated {
		head += " (optional)"
	}
	color := statusColor(plan.Finding{Status: c.Status, Severity: c.Severity})
	p.group(span{color, pad(string(status), column)}, len(c.Nodes), d.Nodes, printable(c.Address), head+": "+printable(c.Title)+" ("+c.ID+")")
	if c.Want != c.Found {
		p.detail(column, "want", printable(c.Want))
	}
	p.detail(column, "found", printable(c.Found))
	if c.Title != c.Example {
		p.detail(column, "such as", printable(c.Nodes[0]+": "+c.Example))
	}
	var models []string
	for _, m := range c.Models {
		all := 0
		for _, of := range d.Models {
			if of.Name == m.Name {
				all = of.Nodes
			}
		}
		models = append(models, fmt.Sprintf("%s: %s of %s", m.Name, grouped(m.Nodes), grouped(all)))
	}
	if len(d.Models) > 1 {
		p.detail(column, "models", printable(strings.Join(models, ", ")))
	}
	p.detail(column, "nodes", p.some(c.Nodes))
	fix := c.Fix
	if c.Fixable > 0 {
		fix = joinNonEmpty("; ", fmt.Sprintf("busbar apply, on %s", grouped(c.Fixable)), fix)
	}
	p.detail(column, "fix", printable(fix))
}

func (p *page) outliers(d FleetDocument) {
	model := ""
	for i, o := range d.Outliers {
		if i == 0 {
			p.blank()
			p.paragraph(nil, "Nodes unlike their equals", "Nodes unlike their equals")
		}
		if o.Model != model {
			p.paragraph([]span{{plain, "  "}}, "", printable(o.Model))
			model = o.Model
		}
		text := fmt.Sprintf("%s %s on %s of %s", o.Trait, o.Value, grouped(len(o.Nodes)), grouped(o.Of))
		if o.Usual != "" {
			text += ", usual is " + o.Usual
		}
		p.paragraph([]span{{plain, "    "}}, "", printable(text)+": "+p.some(o.Nodes))
	}
}

// maxRepeated is how many host names are shown that several recordings have, without Verbose.
const maxRepeated = 16

func (p *page) repeated(d FleetDocument) {
	shown := d.Repeated
	if !p.style.Verbose {
		shown = shown[:min(len(shown), maxRepeated)]
	}
	for i, host := range shown {
		if i == 0 {
			p.blank()
			p.paragraph(nil, "Host names of several recordings", "Host names of several recordings, each of which was counted")
		}
		p.paragraph([]span{{plain, "  "}}, "", printable(host.Name)+": "+p.some(host.Recordings))
	}
	if more := len(d.Repeated) - len(shown); more > 0 {
		p.paragraph([]span{{plain, "  "}}, "", "and"+glue+grouped(more)+glue+"more")
	}
}
