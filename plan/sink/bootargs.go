package sink

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/cmdline"
	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/plan"
)

// BootArgsName is the name of the sink BootArgs.
const BootArgsName = "boot arguments"

// BootArgs are the kernel's arguments at the next boot. Contributions are made by
// BootArg. On Debian and Ubuntu they go into a fragment of GRUB's defaults that
// appends; no generated file is edited.
type BootArgs struct{}

// absentArg is the value of a contribution that wants an argument to be absent.
const absentArg = "absent"

// BootArg is the contribution that wants the argument KEY or KEY=VALUE in force, or
// absent. Sub-options of comma lists are apart, so that two blocks can ask for one each.
func BootArg(arg string, present bool) []plan.Contribution {
	key, value := keyValue(arg)
	one := func(k, v string) plan.Contribution {
		return plan.Contribution{Sink: BootArgsName, Key: k, Value: v}
	}
	rule := cmdline.RuleOf(key)
	switch {
	case !present:
		return []plan.Contribution{one(arg, absentArg)}
	case value != "" && (rule == cmdline.List || rule == cmdline.Sticky):
		var all []plan.Contribution
		for sub := range strings.SplitSeq(value, ",") {
			if sub != "" {
				all = append(all, one(key+"="+sub, cmdline.Quote(key, sub)))
			}
		}
		return all
	case rule == cmdline.Repeat:
		return []plan.Contribution{one(arg, arg)}
	default:
		return []plan.Contribution{one(key, arg)}
	}
}

// keyValue takes an argument apart as the kernel does, quotes undone.
func keyValue(arg string) (key, value string) {
	for _, a := range cmdline.Parse(arg) {
		return a.Key, a.Value
	}
	return arg, ""
}

var bootArgsFile = owned{sink: BootArgsName, path: grub.FragmentFile, list: node.Boot.Query(""), effect: plan.Reboot}

// Name is "boot arguments".
func (BootArgs) Name() string { return BootArgsName }

var bootArgsPlace = place{dirs: []string{grub.FragmentDir, path.Dir(grub.DefaultsFile), path.Dir(nextboot.GeneratedPath)}, option: "boot.kernelParams"}

// Queries are the boot configuration, whether it can be written, the running command
// line and where the marker would stand.
func (BootArgs) Queries([]plan.Contribution) []node.Query {
	return append(bootArgsPlace.queries(), node.Boot.Query(""), node.CommandLine.Query(""), node.Mount.Query(stateDir))
}

// bootAssessor judges the arguments of one node.
type bootAssessor struct {
	plan.Assessment
	contributions []plan.Contribution
	// keep: there are others, whose wish is not known.
	keep         bool
	facts        node.Facts
	boot         node.BootConfig
	state        nextboot.State
	running      cmdline.Line
	runningKnown bool
	// foreign are the defaults without busbar's fragment, after what is taken over.
	foreign *grub.Defaults
	edits   takeOver
	// blames say for each contribution what keeps it from taking effect.
	blames []*node.Source
	// own are the arguments of busbar's fragment, pending those that only a
	// reboot will bring.
	own, pending []string
}

// Assess judges each argument now and at the next boot.
func (BootArgs) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	const id = "boot_args"
	contributions, keep := decided(contributions)
	v := node.Boot.Get(facts, "")
	boot, ok := v.Get()
	if !ok {
		return unread(contributions, id+".next_boot", "what the boot loader hands the kernel", v)
	}
	if bad, found := unreadable(boot.Defaults); found {
		return unread(contributions, id+".next_boot", "what the boot loader hands the kernel", bad)
	}
	b := &bootAssessor{contributions: contributions, keep: keep, facts: facts, boot: boot}
	if line, ok := node.CommandLine.Get(facts, "").Get(); ok {
		b.running, b.runningKnown = cmdline.Parse(line), true
	}
	state, err := nextboot.Read(boot)
	var unsupported *nextboot.UnsupportedError
	var syntax *grub.SyntaxError
	if errors.As(err, &syntax) && syntax.File == bootArgsFile.path { // it is written anew
		boot.Defaults = b.foreignFiles()
		b.facts = facts.With(node.Boot.Answer("", node.Known(boot, v.Source())))
		state, err = nextboot.Read(boot)
	}
	switch {
	case errors.As(err, &unsupported):
		b.unsupported(unsupported)
		return b.Assessment
	case errors.As(err, &syntax):
		b.unparsable(syntax)
		return b.Assessment
	case err != nil:
		return unread(contributions, id+".next_boot", "what the boot loader hands the kernel", node.Unknown[string](err.Error(), v.Source()))
	}
	b.state = state
	b.contradictions()
	b.takeOvers()
	if err := b.evaluateForeign(); err != nil {
		return unread(contributions, id+".next_boot", "what the boot loader hands the kernel", node.Unknown[string](err.Error(), v.Source()))
	}
	b.chooseOwn()
	for i := range b.contributions {
		b.judge(i)
	}
	b.lints()
	b.pinned()
	b.steps()
	return bootArgsPlace.allow(b.Assessment, facts)
}

// contradictions takes out contributions that no command line can meet together.
func (b *bootAssessor) contradictions() {
	var kept []plan.Contribution
	for _, c := range b.contributions {
		j := slices.IndexFunc(b.contributions, func(o plan.Contribution) bool { return o != c && contradict(c, o) })
		if j < 0 {
			kept = append(kept, c)
			continue
		}
		other := b.contributions[j]
		f := b.finding(c)
		f.ID, f.Status, f.Found = "profile.contradiction", plan.Conflict, b.finding(other).Want
		f.Source = node.Source{Path: other.Origin.File, Line: other.Origin.Line}
		f.Summary = fmt.Sprintf("%s is wanted (%s), and %s wants %s (%s)", f.Want, c.Origin, other.Address, f.Found, other.Origin)
		f.Fix = "decide in the profile which of the two is meant; neither is applied"
		b.Findings = append(b.Findings, f)
	}
	b.keep = b.keep || len(kept) < len(b.contributions)
	b.contributions = kept
}

// contradict reports whether two contributions cannot both be met, in the order of the
// fragment.
func contradict(c, o plan.Contribution) bool {
	var line cmdline.Line
	for _, x := range []plan.Contribution{c, o} {
		if x.Value != absentArg {
			line = append(line, cmdline.Parse(x.Value)...)
		}
	}
	if c.Key > o.Key {
		slices.Reverse(line)
	}
	return !inForce(c, line) && inForce(c, cmdline.Parse(ownArg(c))) || !inForce(o, line) && inForce(o, cmdline.Parse(ownArg(o)))
}

// unsupported: what is right already is right; the rest cannot be changed.
func (b *bootAssessor) unsupported(err *nextboot.UnsupportedError) {
	for _, c := range b.contributions {
		f := b.finding(c)
		f.Source = node.CommandLine.Get(b.facts, "").Source()
		f.Fix = "set it where this node's boot loader or image takes its kernel arguments from"
		running := b.runningKnown && inForce(c, b.running)
		switch {
		case running && err.Loader == node.LoaderNone:
			// A node that boots from the network or a live image: what started it
			// will start it again.
			f.Summary, f.Fix = argument(c)+" is as wanted on the running kernel's command line; "+err.Error(), ""
		case running:
			f.Status, f.Feature = plan.Unsupported, "boot"
			f.Summary = argument(c) + " is as wanted now, and what the next boot brings is not read: " + err.Error()
		default:
			f.Status, f.Feature = plan.Unsupported, "boot"
			f.Summary = argument(c) + " cannot be set: " + err.Error()
		}
		b.Findings = append(b.Findings, f)
	}
}

// unparsable: nobody must edit defaults that the shell cannot read.
func (b *bootAssessor) unparsable(err *grub.SyntaxError) {
	for _, c := range b.contributions {
		f := b.finding(c)
		f.ID, f.Status = "boot_args.defaults_broken", plan.Conflict
		f.Source = node.Source{Path: err.File, Line: err.Line}
		f.Summary = fmt.Sprintf("%s cannot be read by the shell: %s", err.File, err.Msg)
		f.Fix = "mend the line; until then update-grub fails, and busbar changes no boot argument"
		b.Findings = append(b.Findings, f)
	}
}

// finding is the ok finding for a contribution.
func (b *bootAssessor) finding(c plan.Contribution) plan.Finding {
	f := plan.Finding{
		ID: "boot_args.next_boot", Address: c.Address, Target: argument(c), Status: plan.OK, Effect: plan.Reboot,
		Want: argument(c), Summary: argument(c) + " is in force, now and at the next boot",
	}
	if b.facts.Inventory.RootDirectory {
		f.Summary = argument(c) + " is in force at the next boot"
	}
	if c.Value == absentArg {
		f.Want = "no " + c.Key
		f.Summary = c.Key + " is not on the kernel's command line, now or at the next boot"
		if b.facts.Inventory.RootDirectory {
			f.Summary = c.Key + " is not on the kernel's command line at the next boot"
		}
	}
	return f
}

// argument is the argument that a contribution is about.
func argument(c plan.Contribution) string {
	if c.Value == absentArg {
		return c.Key
	}
	return c.Value
}

// ownArg is what the fragment has to hold for a contribution.
func ownArg(c plan.Contribution) string {
	if c.Value == absentArg {
		return ""
	}
	return c.Value
}

// inForce reports whether a line is as the contribution wants it.
func inForce(c plan.Contribution, line cmdline.Line) bool {
	key, value := keyValue(argument(c))
	if c.Value == absentArg {
		return cmdline.Absent(line, key, value)
	}
	ok, _ := cmdline.Satisfied(line, key, value)
	return ok
}

// foreignFiles are the defaults that belong to others.
func (b *bootAssessor) foreignFiles() []confdir.File { return bootArgsFile.foreign(b.boot.Defaults) }

// tokens are the words of the command line that defaults make, with their origin.
func tokens(d *grub.Defaults) []grub.Token {
	return append(d.Tokens(grub.Linux), d.Tokens(grub.LinuxDefault)...)
}

// against are the words of others that stand against a contribution.
func (b *bootAssessor) against(c plan.Contribution, d *grub.Defaults) []grub.Token {
	var bad []grub.Token
	for _, t := range tokens(d) {
		line := cmdline.Parse(t.Arg)
		if t.File == bootArgsFile.path || len(line) == 0 {
			continue
		}
		key, value := keyValue(argument(c))
		if c.Value == absentArg {
			if !cmdline.Absent(line, key, value) {
				bad = append(bad, t)
			}
			continue
		}
		// A word is in the way when the wanted one, read after it, is not in force.
		if len(cmdline.Occurrences(line, key)) == 0 {
			continue
		}
		if ok, _ := cmdline.Satisfied(append(line, cmdline.Parse(argument(c))...), key, value); !ok {
			bad = append(bad, t)
		}
	}
	return bad
}

// takeOvers collects the words of others that may be cut.
func (b *bootAssessor) takeOvers() {
	foreign, err := nextboot.Evaluate(b.boot, b.foreignFiles())
	if err != nil {
		return // Read evaluated the same files
	}
	cuts := map[string][]grub.Token{}
	for _, c := range b.contributions {
		if !c.TakeOver {
			continue
		}
		for _, t := range b.against(c, foreign) {
			if strings.Contains(t.Arg, ",") {
				continue // a list may hold what others need
			}
			cuts[t.File] = append(cuts[t.File], t)
			b.edits.claim(t.File, c.Address)
		}
	}
	for _, f := range b.foreignFiles() {
		text := f.Text
		for _, t := range cuts[f.Path] {
			text = grub.TakeOver(text, t.Text, []int{t.Line})
		}
		if text != f.Text {
			b.edits.rewrite(f.Path, text)
		}
	}
}

func (b *bootAssessor) evaluateForeign() error {
	d, err := nextboot.Evaluate(b.boot, b.edits.apply(b.foreignFiles()))
	if err != nil {
		return err
	}
	if _, known, reason := grub.CommandLine(d, false); !known {
		return errors.New(reason)
	}
	b.foreign = d
	return nil
}

// foreignLine is the command line that the defaults of others make.
func (b *bootAssessor) foreignLine() cmdline.Line { return lineOf(b.foreign) }

// lineOf is the command line that known defaults make.
func lineOf(d *grub.Defaults) cmdline.Line {
	line, _, _ := grub.CommandLine(d, false)
	return cmdline.Parse(line)
}

// chooseOwn decides which arguments busbar's fragment carries: those that the defaults of
// others do not bring about.
func (b *bootAssessor) chooseOwn() {
	for _, c := range b.contributions {
		blame := b.blame(c)
		b.blames = append(b.blames, blame)
		if c.Value != absentArg && !inForce(c, b.foreignLine()) && blame == nil && !slices.Contains(b.own, c.Value) {
			b.own = append(b.own, c.Value)
		}
	}
	if b.keep {
		b.keepOwn()
	}
}

// keepOwn adds what the fragment has and no contribution speaks of.
func (b *bootAssessor) keepOwn() {
	key := func(arg string) string {
		for _, c := range BootArg(arg, true) {
			return c.Key
		}
		return arg
	}
	held, _ := grub.FragmentArgs(bootArgsFile.text(b.boot.Defaults)) // one that was changed by hand is written anew
	var own []string
	for _, arg := range held {
		name, value := keyValue(arg)
		if !slices.ContainsFunc(b.contributions, func(c plan.Contribution) bool {
			return c.Value == absentArg && !cmdline.Absent(cmdline.Parse(c.Key), name, value)
		}) {
			own = append(own, arg)
		}
	}
	b.own = keeping(b.own, own, key, b.contributions)
	slices.SortStableFunc(b.own, func(x, y string) int { return strings.Compare(key(x), key(y)) })
}

// with evaluates the defaults with a fragment of the given arguments.
func (b *bootAssessor) with(args []string) *grub.Defaults {
	files := append(b.edits.apply(b.foreignFiles()), confdir.File{Path: bootArgsFile.path, Text: grub.Fragment(args)})
	d, err := nextboot.Evaluate(b.boot, files)
	if err != nil {
		return b.foreign // a fragment that we rendered always parses
	}
	return d
}

// asked evaluates the defaults with a fragment that asks for a contribution.
func (b *bootAssessor) asked(c plan.Contribution) *grub.Defaults {
	if c.Value == absentArg {
		return b.with(nil)
	}
	return b.with([]string{c.Value})
}

// blame finds what of others keeps a contribution from taking effect although the
// fragment asks for it; nil when nothing does.
func (b *bootAssessor) blame(c plan.Contribution) *node.Source {
	d := b.asked(c)
	if inForce(c, lineOf(d)) {
		return nil
	}
	if bad := b.against(c, d); len(bad) > 0 {
		return &node.Source{Path: bad[0].File, Line: bad[0].Line}
	}
	// The fragment's words are gone: a later file replaces the variable.
	at := node.Source{Path: bootArgsFile.path}
	for _, a := range d.Assignments {
		if a.Name == grub.LinuxDefault {
			at = node.Source{Path: a.File, Line: a.Line}
		}
	}
	return &at
}

func (b *bootAssessor) judge(i int) {
	c, blame := b.contributions[i], b.blames[i]
	f := b.finding(c)
	next := true
	for _, line := range b.state.Lines {
		if f.Source == (node.Source{}) || !inForce(c, line.Args) {
			f.Source, f.NextBoot = line.Source, found(c, line.Args)
		}
		next = next && inForce(c, line.Args)
	}
	f.Found = f.NextBoot
	inDefaults := inForce(c, lineOf(b.state.Defaults))
	now := b.facts.Inventory.RootDirectory || b.runningKnown && inForce(c, b.running)
	if b.runningKnown {
		f.Running = found(c, b.running)
	}
	switch {
	case blame != nil:
		f.Status, f.ID, f.Source = plan.Conflict, "boot_args.overridden", *blame
		f.Found = found(c, lineOf(b.asked(c))) // by that line, whether or not update-grub has run since
		f.Summary = fmt.Sprintf("%s is wanted (%s), and %s undoes it", f.Want, c.Origin, blame)
		f.Fix = "change that line if its owner agrees, or set take_over = true"
		if c.TakeOver {
			f.Fix = "change that line if its owner agrees; busbar cuts whole words only, and no list that may hold what others need"
		}
	case !next:
		f.Status, f.Fixable, f.By = plan.Drift, true, nextboot.GeneratedPath
		f.Summary = fmt.Sprintf("%s is not in force at the next boot", argument(c))
		if c.Value == absentArg {
			f.Summary = fmt.Sprintf("%s is on the next boot's command line", c.Key)
		} else if at := b.droppedAt(c); at != (node.Source{}) {
			f.Source = at
			f.Summary += fmt.Sprintf(": %s replaces the value that had it", at)
		}
		if inDefaults {
			f.Summary += ", which changes when update-grub runs: GRUB's defaults are as wanted"
		}
		if !b.boot.UpdateGrub {
			b.withoutUpdateGRUB(&f, c, inDefaults)
		}
		if f.Fixable {
			b.expect(c)
		}
	case !b.boot.UpdateGrub && b.facts.Inventory.RootDirectory && !b.state.Generated:
		b.withoutUpdateGRUB(&f, c, inDefaults)
	case !inDefaults && (b.boot.UpdateGrub || b.facts.Inventory.RootDirectory):
		f.Status, f.Fixable, f.By, f.Found = plan.Drift, true, b.writtenIn(c), found(c, lineOf(b.state.Defaults))
		f.Summary = argument(c) + " is in force at the next boot and gone when update-grub runs: GRUB's defaults do not bring it"
		if c.Value == absentArg {
			f.Summary = argument(c) + " is not on the next boot's command line and back when update-grub runs: GRUB's defaults bring it"
		}
		b.expect(c)
	case !b.runningKnown && !b.facts.Inventory.RootDirectory:
		f = plan.Unread(f.ID, argument(c)+": the running kernel's command line", node.CommandLine.Get(b.facts, ""))
		f.Address, f.Target = c.Address, argument(c)
	case !now:
		b.expect(c)
		b.owed(&f, c)
	}
	b.Findings = append(b.Findings, f)
}

// droppedAt is the assignment that takes an argument of an earlier one off the line;
// zero when none does.
func (b *bootAssessor) droppedAt(c plan.Contribution) (at node.Source) {
	had := map[string]bool{}
	for _, a := range b.state.Defaults.Assignments {
		if a.Name != grub.Linux && a.Name != grub.LinuxDefault {
			continue
		}
		has := inForce(c, cmdline.Parse(a.Value))
		if had[a.Name] && !has {
			at = node.Source{Path: a.File, Line: a.Line}
		}
		had[a.Name] = has
	}
	return at
}

// withoutUpdateGRUB: the defaults can be changed, the entries cannot be made of them. In
// a directory tree that is left to whoever runs update-grub in it.
func (b *bootAssessor) withoutUpdateGRUB(f *plan.Finding, c plan.Contribution, inDefaults bool) {
	switch {
	case !b.facts.Inventory.RootDirectory:
		f.Status, f.Fixable = plan.Unsupported, false
		f.Summary += ", and there is no update-grub to change that"
		f.Fix = "install grub2-common"
	case inDefaults:
		f.Status, f.Tolerated, f.Fixable, f.By = plan.Deferred, true, false, ""
		f.Summary = argument(c) + " is in GRUB's defaults, which take effect when update-grub runs in this root"
		if c.Value == absentArg {
			f.Summary = argument(c) + " is not in GRUB's defaults, which take effect when update-grub runs in this root"
		}
	default:
		f.Summary += "; the fragment takes effect when update-grub runs in this root"
		f.By = b.writtenIn(c)
	}
}

// writtenIn is the file that changes so that the defaults bring a contribution.
func (b *bootAssessor) writtenIn(c plan.Contribution) string {
	if bad := b.against(c, b.state.Defaults); c.TakeOver && len(bad) > 0 {
		return bad[0].File
	}
	return bootArgsFile.path
}

// MarkerWord is how the marker has a contribution: the argument, behind a minus sign when it
// is to be absent.
func MarkerWord(c plan.Contribution) string {
	if c.Value == absentArg {
		return "-" + argument(c)
	}
	return argument(c)
}

// expect notes an argument that only a reboot will bring.
func (b *bootAssessor) expect(c plan.Contribution) {
	if b.facts.Inventory.RootDirectory || b.runningKnown && inForce(c, b.running) {
		return
	}
	b.pending = append(b.pending, MarkerWord(c))
}

// owed: the next boot is as wanted, the running kernel is not.
func (b *bootAssessor) owed(f *plan.Finding, c plan.Contribution) {
	f.Status = plan.PendingReboot
	f.Found = f.Running
	f.Source = node.CommandLine.Get(b.facts, "").Source()
	f.Summary = f.Want + " comes with the next boot"
	bootID, _ := b.facts.Inventory.BootID.Get()
	if marker, ok := b.facts.Inventory.Marker.Get(); ok && marker.Expects([]string{MarkerWord(c)}, bootID) {
		f.Status = plan.Ineffective
		f.Summary = fmt.Sprintf("%s was set before this boot, stands in %s, and is not on the running kernel's command line", f.Want, b.state.Lines[0].Source.Path)
		f.Fix = "find out which entry was booted (GRUB_DEFAULT, saved_entry, another disk's boot loader); another reboot changes nothing"
	}
}

// found says what a line has of a contribution's argument.
func found(c plan.Contribution, line cmdline.Line) string {
	key, value := keyValue(argument(c))
	_, have := cmdline.Satisfied(line, key, value)
	if have == "" {
		return "no " + key
	}
	return have
}

// lints are what looks like a mistake in the defaults; they matter where boot
// arguments are managed.
func (b *bootAssessor) lints() {
	if len(b.contributions) == 0 {
		return
	}
	for _, l := range b.state.Defaults.Lints {
		severity := plan.Warning
		if l.Kind == grub.DroppedTokens {
			severity = plan.Info // cloud images do it on purpose; a wanted argument is told of by itself
		}
		b.Findings = append(b.Findings, plan.Finding{
			ID: "boot_args." + strings.ReplaceAll(string(l.Kind), "-", "_"), Address: BootArgsName, Target: l.File,
			Status: plan.Drift, Severity: severity, Summary: l.Text, Source: node.Source{Path: l.File, Line: l.Line},
			Fix: "correct the line, or take it out, and have the boot loader's configuration made anew",
		})
	}
	b.ignored()
	seen, told := map[string]bool{}, map[string]bool{}
	for _, a := range b.running {
		if seen[a.Text] && !told[a.Text] && cmdline.RuleOf(a.Key) != cmdline.Repeat {
			told[a.Text] = true
			b.Findings = append(b.Findings, plan.Finding{
				ID: "boot_args.doubled_token", Address: BootArgsName, Target: a.Text, Status: plan.Drift, Severity: plan.Warning,
				Source:  node.CommandLine.Get(b.facts, "").Source(),
				Summary: a.Text + " stands on the running kernel's command line more than once: two mechanisms add it",
				Fix:     "take it out of one of the two: of the boot loader's defaults, tuned or a kernelopts of its own",
			})
		}
		seen[a.Text] = true
	}
}

// ignored are arguments that no kernel acts on and that no contribution speaks of.
func (b *bootAssessor) ignored() {
	line, at := b.running, node.CommandLine.Get(b.facts, "").Source()
	if !b.runningKnown {
		line, at = b.state.Lines[0].Args, b.state.Lines[0].Source
	}
	spoken := slices.ContainsFunc(b.contributions, func(c plan.Contribution) bool {
		return len(cmdline.Ignored(cmdline.Parse(argument(c)))) > 0
	})
	for _, n := range cmdline.Ignored(line) {
		if spoken {
			break
		}
		for _, t := range tokens(b.state.Defaults) {
			if t.Arg == n.Arg {
				at = node.Source{Path: t.File, Line: t.Line}
			}
		}
		b.Findings = append(b.Findings, plan.Finding{
			ID: "boot_args.no_op", Address: BootArgsName, Target: n.Arg, Status: plan.Drift, Severity: plan.Warning,
			Found: n.Arg, Source: at, Summary: n.Arg + ": " + n.Text, Fix: "take it out of where it comes from",
		})
	}
}

// pinned: the entry that will boot is none of those that carry the arguments.
func (b *bootAssessor) pinned() {
	if b.state.Pinned == "" || len(b.contributions) == 0 {
		return
	}
	fixes := map[string]string{
		"GRUB_DEFAULT":  "set GRUB_DEFAULT to an entry of this root and run update-grub",
		grub.SavedEntry: "grub-set-default 0, or another entry of this root",
		grub.NextEntry:  "grub-editenv - unset next_entry, unless that boot is wanted",
	}
	for _, address := range addresses(b.contributions) {
		b.Findings = append(b.Findings, plan.Finding{
			ID: "boot_args.other_entry", Address: address, Target: b.state.PinnedBy, Status: plan.Conflict, Source: b.state.PinnedAt,
			Found: b.state.Pinned, Want: "an entry of this root",
			Summary: fmt.Sprintf("%s boots %q, an entry that does not get busbar's arguments", b.state.PinnedBy, b.state.Pinned),
			Fix:     fixes[b.state.PinnedBy],
		})
	}
}

// steps write the fragment, regenerate the entries and leave the marker.
func (b *bootAssessor) steps() {
	owners := addresses(b.contributions)
	b.Steps = b.edits.steps(b.boot.Defaults, bootArgsFile)
	if b.boot.UpdateGrub || b.facts.Inventory.RootDirectory {
		bootArgsFile.ensure(&b.Assessment, owners, b.boot.Defaults, grub.Fragment(b.own))
	}
	leftOver := b.leftOver()
	action := b.updateGRUB()
	boot, _ := node.Boot.Get(b.facts, "").Get()
	boot.Outdated = false // alone that is no reason: an image may have its files in any order
	done, _, _ := action.Done(b.facts.With(node.Boot.Answer("", node.Known(boot, node.Source{}))))
	if (!done || leftOver) && b.boot.UpdateGrub && b.state.Generated {
		b.emptyFirst()
		if len(owners) == 0 || leftOver {
			owners = append(owners, BootArgsName)
		}
		b.Steps = append(b.Steps, plan.Step{
			Addresses: owners, Phase: plan.PhaseFiles, Target: nextboot.GeneratedPath, Effect: plan.Reboot,
			Summary: "run update-grub and read every boot entry again", Requires: []string{BootArgsName}, Provides: []string{bootEntries},
			Action: action,
		})
	}
	b.marker(owners)
}

// bootEntries is what update-grub provides.
const bootEntries = "boot entries"

// leftOver tells of arguments in the boot entries that went from the defaults in a run which
// was ended before update-grub was.
func (b *bootAssessor) leftOver() bool {
	if !b.boot.Outdated || !b.boot.UpdateGrub {
		return false
	}
	args := b.state.LeftOver()
	for _, arg := range args {
		b.Findings = append(b.Findings, plan.Finding{
			ID: "boot_args.left_over", Address: BootArgsName, Target: arg.Text, Status: plan.Drift, Fixable: true, By: nextboot.GeneratedPath, Effect: plan.Reboot,
			Summary: arg.Text + " is in the boot entries and not in GRUB's defaults: update-grub has not run to its end since busbar changed them",
			Want:    "no " + arg.Key, Found: arg.Text, Source: node.Source{Path: nextboot.GeneratedPath},
		})
	}
	return len(args) > 0
}

// emptyFirst puts two steps in place of the one that removes the fragment: it is emptied before
// update-grub runs and removed afterwards. As long as it is there and younger than the entries,
// a run that comes after one which was ended in between knows that they are to be made anew.
func (b *bootAssessor) emptyFirst() {
	i := slices.IndexFunc(b.Steps, func(s plan.Step) bool { _, ok := s.Action.(plan.RemoveFile); return ok })
	if i < 0 {
		return
	}
	remove := b.Steps[i]
	empty := remove
	empty.Summary = "empty " + bootArgsFile.path
	empty.Action = plan.WriteFile{Path: bootArgsFile.path, Text: grub.EmptyFragment, List: bootArgsFile.list}
	remove.Requires, remove.Provides = []string{bootEntries}, nil
	b.Steps[i] = remove
	if done, _, _ := empty.Action.Done(b.facts); !done {
		b.Steps = append(b.Steps, empty)
	}
}

// updateGRUB is what the boot entries must and must not have once they are generated
// again: what is wanted, and nothing more of what busbar's fragment had before.
func (b *bootAssessor) updateGRUB() plan.UpdateGRUB {
	action := plan.UpdateGRUB{Want: []string{}}
	for i, c := range b.contributions {
		switch {
		case b.blames[i] != nil:
		case c.Value == absentArg:
			action.Absent = append(action.Absent, c.Key)
		default:
			action.Want = append(action.Want, c.Value)
		}
	}
	after := lineOf(b.with(b.own))
	had, _ := grub.FragmentArgs(bootArgsFile.text(b.boot.Defaults)) // a fragment changed by hand is written anew
	for _, arg := range had {
		if key, value := keyValue(arg); cmdline.Absent(after, key, value) {
			action.Absent = append(action.Absent, arg)
		}
	}
	return action
}

// marker is left when a reboot is owed, unless it is there already, from this boot or
// an earlier one, and only where it outlives the reboot.
func (b *bootAssessor) marker(owners []string) {
	bootID, known := b.facts.Inventory.BootID.Get()
	old, readable := b.facts.Inventory.Marker.Get()
	slices.Sort(b.pending)
	pending := slices.Compact(b.pending)
	switch {
	case len(pending) == 0 || !known || !readable || !keepsState(b.facts):
		return
	case old.BootID == bootID && slices.Equal(old.Args, pending), len(b.Steps) == 0 && old.Expects(pending, bootID):
		return
	}
	b.Steps = append(b.Steps, plan.Step{
		Addresses: owners, Phase: plan.PhaseMarker, Target: node.MarkerPath, Effect: plan.NoEffect,
		Summary: "note that a reboot is owed", Requires: []string{BootArgsName, bootEntries},
		Action: plan.WriteMarker{Marker: node.Marker{FormatVersion: "1.0", BootID: bootID, Args: pending}},
	})
}
