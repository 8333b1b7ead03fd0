package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"busbar/node"
	"busbar/plan"
)

// WritePlan writes d, of plan or of apply before its first step, for people: the
// node, what is not ok, what apply would do, and one line that sums up.
func WritePlan(w io.Writer, d Document, style Style) error {
	p := page{style: style}
	if style.Quiet {
		return p.quiet(w, d)
	}
	p.header(d)
	p.findings(d)
	p.steps(d)
	p.disturbing(d)
	p.deferred(d)
	p.conclusion(d)
	return p.flush(w)
}

// WriteVerify writes d for people, without what apply would do.
func WriteVerify(w io.Writer, d Document, style Style) error {
	p := page{style: style}
	if style.Quiet {
		return p.quiet(w, d)
	}
	p.header(d)
	p.findings(d)
	p.conclusion(d)
	return p.flush(w)
}

// WriteRun writes an apply for people: what was not done, what is not ok
// afterwards, and one line that sums up. What was done is Progress' part.
func WriteRun(w io.Writer, d Document, style Style) error {
	p := page{style: style}
	if style.Quiet {
		return p.quiet(w, d)
	}
	p.header(d)
	p.undone(d)
	p.findings(d)
	p.conclusion(d)
	return p.flush(w)
}

func (p *page) quiet(w io.Writer, d Document) error {
	host := printable(hostname(d.Node))
	p.WriteString(p.style.paint(bold, host) + ": " + d.Conclusion() + "\n")
	return p.flush(w)
}

func hostname(n Node) string {
	if s, ok := n.Hostname.Get(); ok {
		return s
	}
	return "unnamed node"
}

func (p *page) header(d Document) {
	p.machine(d.Node)
	profile := "profile " + printable(d.Profile.Name)
	if d.Profile.Name == "" {
		profile = "no profile"
	}
	switch d.Profile.ChosenBy {
	case Matched:
		profile += " (matches this node)"
	case Default:
		profile += " (no profile matches this node)"
	}
	p.paragraph(nil, "", profile+", "+d.Node.observed())
}

// machine writes which node it is.
func (p *page) machine(n Node) {
	machine := []string{known("product", n.Product), gpus(n.GPUs), known("distribution", n.OS)}
	kernel, arch := known("kernel", n.Kernel), known("architecture", n.Arch)
	if n.Kernel.IsKnown() {
		kernel = "Linux " + kernel
	}
	if n.Kernel.IsKnown() && n.Arch.IsKnown() {
		machine = append(machine, kernel+" "+arch)
	} else {
		machine = append(machine, kernel, arch)
	}
	if v, ok := n.Virtualization.Get(); ok && v != "none" {
		machine = append(machine, "virtual machine ("+printable(v)+")")
	}
	p.paragraph([]span{{bold, printable(hostname(n))}, {plain, "  "}}, "", strings.Join(machine, ", "))
}

// observed says how and when a node was read.
func (n Node) observed() string {
	observed := "live"
	switch {
	case n.Recording != "":
		observed = "recorded in " + printable(n.Recording)
	case n.Root != "":
		observed = "root " + printable(n.Root)
	}
	if !n.ObservedAt.IsZero() {
		observed += " at " + strings.ReplaceAll(n.ObservedAt.UTC().Format(time.DateTime)+" UTC", " ", glue)
	}
	return observed
}

func known(what string, v node.Value[string]) string {
	if s, ok := v.Get(); ok {
		return printable(s)
	}
	return what + " unknown (" + printable(v.Reason()) + ")"
}

func gpus(v node.Value[int]) string {
	n, ok := v.Get()
	switch {
	case !ok:
		return "GPUs unknown (" + printable(v.Reason()) + ")"
	case n == 0:
		return "no GPU"
	default:
		return plural(n, "GPU")
	}
}

// order in which findings are shown, most important first; the last two only when
// asked for.
var order = []plan.Status{
	plan.Conflict, plan.Drift, plan.Ineffective, plan.Unsupported, plan.Undetermined,
	plan.Deferred, plan.PendingReboot, note, plan.Waived, plan.Skipped, plan.OK,
}

// note is how people read what is not as the profile has it and of severity info: nothing
// hangs on it.
const note plan.Status = "note"

// statusOf is a finding's status as people read it.
func statusOf(f plan.Finding) plan.Status {
	if f.Severity == plan.Info && f.Status != plan.OK && f.Status != plan.Skipped && f.Status != plan.Waived {
		return note
	}
	return f.Status
}

func (p *page) shown(s plan.Status) bool {
	return p.style.Verbose || s != plan.Skipped && s != plan.OK
}

var severities = []plan.Severity{plan.Error, plan.Warning, plan.Info}

func (p *page) findings(d Document) {
	// By address, the severe ones first.
	findings := sorted(d.Findings, func(a, b plan.Finding) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)))
	})
	column := p.statusColumn(d)
	told := map[plan.Places]bool{} // of contradictions, each of which stands at both its blocks
	for _, status := range order {
		first := true
		for _, f := range findings {
			if statusOf(f) != status || !p.shown(status) || f.Between != (plan.Places{}) && told[f.Between.Swapped()] {
				continue
			}
			told[f.Between] = true
			if first {
				p.blank()
				first = false
			}
			p.finding(d, f, column)
		}
	}
}

// statusColumn is the width of the longest status that is shown.
func (p *page) statusColumn(d Document) int {
	column := 0
	for _, f := range d.Findings {
		if p.shown(f.Status) {
			column = max(column, len(statusOf(f)))
		}
	}
	for _, s := range undone(d.Run) {
		column = max(column, len(s.Status))
	}
	return column
}

func (p *page) finding(d Document, f plan.Finding, column int) {
	address := printable(f.Address)
	if f.Between != (plan.Places{}) {
		address += ", " + printable(f.Between[1].Address)
	}
	head := address
	status := statusOf(f)
	if f.Severity == plan.Warning {
		head += " (warn)"
	}
	switch {
	case f.Tolerated && status == plan.Unsupported:
		head += " (optional)"
	case f.Tolerated && status == plan.Deferred:
		head += " (at first boot)"
	}
	p.paragraph([]span{{statusColor(f), pad(string(status), column)}, {plain, "  "}}, address, head+": "+printable(f.Summary))
	indent := span{plain, strings.Repeat(" ", column+2)}
	for _, r := range p.details(d, f) {
		p.paragraph([]span{indent, {dim, pad(r.label, 8)}}, "", printable(r.text))
	}
}

// maxPair is up to which length what is wanted and what was found share a line.
const maxPair = 32

// planned reports whether the steps are still to be done, and by whoever reads d.
func (d Document) planned() bool {
	return d.Command == "plan" || d.Command == "apply" && d.Run == nil
}

type row struct{ label, text string }

// details are the rows below a finding's first line.
func (p *page) details(d Document, f plan.Finding) []row {
	var rows []row
	add := func(label, text string) {
		if text != "" {
			rows = append(rows, row{label, text})
		}
	}
	want, found, source := f.Want, f.Found, f.Source.String()
	if want == found {
		want = ""
	}
	if found != "" && source != "" {
		found += " (" + source + ")"
		source = ""
	}
	if want != "" && found != "" && utf8.RuneCountInString(want+f.Found) <= maxPair {
		add("want", want+", found "+found)
	} else {
		add("want", want)
		add("found", found)
	}
	add("source", source)
	add("waived", f.Waiver)
	add("fix", f.Fix)
	if p.style.Verbose {
		add("why", f.Why)
	}
	if f.Status != plan.OK && f.Status != plan.Waived {
		add("effect", effect(d, f))
	}
	return rows
}

// effect says what putting f right does to the node, and which steps do it.
func effect(d Document, f plan.Finding) string {
	if !f.Fixable {
		return f.Effect.String()
	}
	by := "by busbar apply"
	if d.Command == "install" || d.Command == "uninstall" {
		by = "by busbar " + d.Command
	}
	if d.planned() {
		if numbers := stepsOf(d.Steps, f); len(numbers) == 1 {
			by = "by step " + numbers[0]
		} else if len(numbers) > 1 {
			by = "by steps " + strings.Join(numbers, ", ")
		}
	}
	return joinNonEmpty(", ", f.Effect.String(), by)
}

// stepsOf numbers the steps that serve a finding: those of its address on its
// very target, or the one that it names, else all of its address.
func stepsOf(steps []plan.Step, f plan.Finding) []string {
	var all, exact []string
	for i, s := range steps {
		if !slices.Contains(s.Addresses, f.Address) {
			continue
		}
		number := strconv.Itoa(i + 1)
		all = append(all, number)
		if s.ID == f.By || s.Target == cmp.Or(f.By, f.Target) {
			exact = append(exact, number)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return all
}

func statusColor(f plan.Finding) color {
	switch {
	case f.Status == plan.OK:
		return green
	case f.Status == plan.Skipped, f.Status == plan.Waived, f.Severity == plan.Info:
		return dim
	case f.Status == plan.Undetermined, f.Status == plan.Deferred:
		return cyan
	case f.Status == plan.PendingReboot, f.Severity == plan.Warning:
		return yellow
	default:
		return red
	}
}

func (p *page) steps(d Document) {
	steps := d.Steps
	if len(steps) == 0 {
		return
	}
	const gap = "  "
	number, text, effect := len(strconv.Itoa(len(steps))), 0, len("effect")
	for _, s := range steps {
		text = max(text, utf8.RuneCountInString(printable(described(s))))
		effect = max(effect, len(s.Effect.String()))
	}
	indent := len(gap) + number + len(gap)
	if p.style.Width > 0 {
		text = min(text, p.column(indent+len(gap)+effect))
	}
	title := "busbar apply would"
	if d.Command == "apply" {
		title = "busbar apply will"
	}
	p.blank()
	p.WriteString(pad(title, indent+text) + gap + "effect\n")
	for i, s := range steps {
		c := plain
		if s.Effect > plan.NextLogin {
			c = yellow
		}
		for j, line := range wrap(printable(described(s)), text) {
			if j > 0 {
				p.WriteString(strings.Repeat(" ", indent) + line + "\n")
				continue
			}
			fmt.Fprintf(p, "%s%*d%s", gap, number, i+1, gap)
			if s.Effect != plan.NoEffect {
				line = pad(line, text) + gap + p.style.paint(c, s.Effect.String())
			}
			p.WriteString(line + "\n")
		}
		if write, ok := s.Action.(plan.WriteFile); ok && p.style.Verbose {
			for line := range strings.Lines(write.Text) {
				p.WriteString(strings.Repeat(" ", indent) + p.style.paint(dim, "| "+printable(strings.TrimSuffix(line, "\n"))) + "\n")
			}
		}
	}
}

// disturbing names the steps that apply makes with --disrupt only, and why.
func (p *page) disturbing(d Document) {
	numbers := map[string][]string{}
	var whys []string
	for i, s := range d.Steps {
		why := strings.Join(s.Disturbs, "; ")
		if why == "" {
			continue
		}
		if numbers[why] == nil {
			whys = append(whys, why)
		}
		numbers[why] = append(numbers[why], strconv.Itoa(i+1))
	}
	for i, why := range whys {
		if i == 0 {
			p.blank()
		}
		which := "step " + numbers[why][0]
		if len(numbers[why]) > 1 {
			which = "each of steps " + strings.Join(numbers[why], ", ")
		}
		p.paragraph(nil, "", which+" needs --disrupt: "+printable(why))
	}
}

// described is a step's summary, with its target where the summary does not name it.
func described(s plan.Step) string {
	if s.Target == "" || strings.Contains(s.Summary, s.Target) {
		return s.Summary
	}
	return s.Summary + " (" + s.Target + ")"
}

func (p *page) deferred(d Document) {
	type envelope struct {
		address, unlocks string
		ceiling          plan.Effect
	}
	var last envelope
	for i, b := range d.Deferred {
		e := envelope{b.Address, b.Unlocks, b.Ceiling}
		if i == 0 {
			p.blank()
		} else if e == last {
			continue
		}
		last = e
		after := b.Unlocks
		if n := slices.IndexFunc(d.Steps, func(s plan.Step) bool { return s.ID == b.Unlocks }); n >= 0 {
			after = "step " + strconv.Itoa(n+1)
		}
		text := b.Address + " is planned again after " + after
		if b.Ceiling != plan.NoEffect {
			text += ", with no stronger effect than " + b.Ceiling.String()
		}
		p.paragraph(nil, printable(b.Address), printable(text))
	}
}

// undone are the steps that a run did not bring to their end.
func undone(r *Run) []RunStep {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Steps), func(s RunStep) bool { return s.Status == "done" || s.Status == "already" })
}

func (p *page) undone(d Document) {
	column := p.statusColumn(d)
	for i, s := range undone(d.Run) {
		if i == 0 {
			p.blank()
		}
		name := printable(described(s.Step))
		p.paragraph([]span{{outcomeColor(s.Status), pad(s.Status, column)}, {plain, "  "}}, name, joinNonEmpty(": ", name, printable(s.Error)))
	}
	if d.Run != nil && d.Run.Stopped != "" {
		p.blank()
		p.paragraph(nil, "", "Stopped: "+printable(d.Run.Stopped))
	}
}

func (p *page) conclusion(d Document) {
	p.blank()
	p.paragraph(nil, "", d.sumUp())
}

// Conclusion is the last line of a view: findings by status, steps, exit code.
func (d Document) Conclusion() string { return strings.ReplaceAll(d.sumUp(), glue, " ") }

// sumUp is Conclusion with what belongs together glued.
func (d Document) sumUp() string {
	count, fixable := map[plan.Status]int{}, map[plan.Status]int{}
	for _, f := range d.Findings {
		count[statusOf(f)]++
		if f.Fixable {
			fixable[statusOf(f)]++
		}
	}
	findings := []string{strconv.Itoa(count[plan.OK]) + glue + "ok"}
	for _, status := range order {
		n := count[status]
		if n == 0 || status == plan.OK {
			continue
		}
		text := strconv.Itoa(n) + glue + string(status)
		if status == note {
			text = plural(n, string(note))
		}
		if m := fixable[status]; m == n && n > 1 {
			text += glue + "(all" + glue + "fixable)"
		} else if m > 0 {
			text += glue + "(" + strconv.Itoa(m) + glue + "fixable)"
		}
		findings = append(findings, text)
	}
	work := ""
	switch {
	case d.Run != nil:
		work = ran(*d.Run)
	case d.planned() && len(d.Steps) > 0:
		work = plural(len(d.Steps), "step")
	}
	code := "exit" + glue + strconv.Itoa(d.ExitCode)
	if d.Command == "apply" && d.Run == nil {
		code = "" // not yet known
	}
	return joinNonEmpty("; ", strings.Join(findings, ", "), joinNonEmpty(", ", work, owed(d)), code)
}

// owed names the disturbance that is needed for everything to be as wanted.
func owed(d Document) string {
	strongest := plan.NoEffect
	if d.planned() {
		for _, s := range d.Steps {
			strongest = max(strongest, s.Effect)
		}
	}
	if d.Summary.PendingReboot > 0 {
		strongest = max(strongest, plan.Reboot)
	}
	switch {
	case strongest == plan.PowerCycle:
		return "power cycle needed"
	case strongest == plan.Reboot:
		return "reboot needed"
	case strongest > plan.Live:
		return "strongest effect " + strongest.String()
	default:
		return ""
	}
}

// ran sums up a run: steps by outcome, and how long it took.
func ran(r Run) string {
	if len(r.Steps) == 0 {
		return "no step needed"
	}
	counts := map[string]int{}
	for _, s := range r.Steps {
		counts[s.Status]++
	}
	var parts []string
	for _, outcome := range []string{"done", "already", "failed", "skipped", "interrupted"} {
		if n := counts[outcome]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+glue+outcome)
		}
	}
	return fmt.Sprintf("%s: %s in %s", plural(len(r.Steps), "step"), strings.Join(parts, ", "), seconds(r.EndedAt.Sub(r.StartedAt)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f"+glue+"s", d.Seconds()) }
