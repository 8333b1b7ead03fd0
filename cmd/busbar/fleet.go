package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"busbar/fleet"
	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
	"busbar/report"
)

// holdsMany reports whether what --node names is judged as many nodes: a directory, a pattern, or an archive.
func (c *console) holdsMany(name string) bool {
	if isDir(name) || isPattern(name) {
		return true
	}
	r, err := c.openRecording(name)
	if err != nil {
		return false // judging it tells
	}
	input := &peekable{bufio.NewReaderSize(r, fleet.HeadSize), r}
	head, _ := input.Peek(fleet.HeadSize) // a shorter one is no archive
	if !handedOver(name) {
		r.Close()
	} else { // it can be opened once
		if c.peeked == nil {
			c.peeked = map[string]io.ReadCloser{}
		}
		c.peeked[name] = input
	}
	return fleet.IsArchive(head)
}

// peekable is an input of which the beginning was looked at.
type peekable struct {
	*bufio.Reader
	io.Closer
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isPattern tells a pattern (filepath.Match) from the name of a file.
func isPattern(name string) bool {
	_, err := os.Lstat(name)
	return err != nil && strings.ContainsAny(name, "*?[")
}

// recordingsIn are the recordings of what --node names.
func (c *console) recordingsIn(name string) iter.Seq[fleet.Recording] {
	switch {
	case isDir(name):
		return fleet.Dir(os.DirFS(name), name)
	case isPattern(name):
		return c.matchingFiles(name)
	}
	return func(yield func(fleet.Recording) bool) {
		r, err := c.openRecording(name)
		if err != nil {
			yield(fleet.Recording{Name: name, Err: err})
			return
		}
		defer r.Close()
		fleet.File(r, name)(yield)
	}
}

// matchingFiles are the recordings in the files that a pattern matches, sorted.
func (c *console) matchingFiles(pattern string) iter.Seq[fleet.Recording] {
	names, err := filepath.Glob(pattern)
	if err == nil && len(names) == 0 {
		err = errors.New("no file matches the pattern")
	}
	if err != nil {
		return func(yield func(fleet.Recording) bool) { yield(fleet.Recording{Name: pattern, Err: err}) }
	}
	var all []iter.Seq[fleet.Recording]
	for _, name := range names {
		all = append(all, c.recordingsIn(name))
	}
	return fleet.Join(all...)
}

// fleetGCPercent lets the heap grow to three times of what is in use before it is collected: little is, and much is made for each node.
const fleetGCPercent = 200

// judgeFleet judges many recordings, several at once. Lines of JSON are one for each, in the order of the recordings; text and --json-into
// are the summary.
func (c *console) judgeFleet(name string, t *judging, args []string) error {
	if err := t.prepare(c, args); err != nil {
		return err
	}
	var all []iter.Seq[fleet.Recording]
	for _, name := range t.nodes {
		all = append(all, c.recordingsIn(name))
	}
	c.lines, c.resulted = true, true
	if c.getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(fleetGCPercent))
	}
	planner := newPlanner()
	sum := report.NewFleet(name, catalog().Title)
	want := profiles.Alike(t.wanted)
	judge := func(file string, facts node.Facts, err error) verdict {
		return c.judgeRecorded(name, want, planner, file, facts, err)
	}
	for r := range fleet.Judge(fleet.Join(all...), runtime.GOMAXPROCS(0), judge) {
		if r.failed == nil {
			sum.Add(r.doc, r.model, r.traits)
		} else {
			sum.Fail(r.file, r.failed.code, r.failed.err.Error())
		}
		if err := c.diagnose(r.warnings); err != nil {
			return err
		}
		if c.json {
			if _, err := c.out.Write(r.line); err != nil {
				return &exit{plan.ExitError, err}
			}
		}
	}
	d := sum.Document()
	if !c.json {
		if err := report.WriteFleet(c.out, d, c.style(c.out)); err != nil {
			return &exit{plan.ExitError, err}
		}
	}
	if c.jsonInto != "" {
		if err := report.WriteFleetJSON(&c.into, d); err != nil {
			return &exit{plan.ExitError, err}
		}
	}
	return ended(d.ExitCode, nil)
}

// verdict is what came of a recording: a document with what its summary wants of the facts, or a failure.
type verdict struct {
	file     string
	doc      report.Document
	model    string
	traits   []report.Trait
	failed   *exit
	warnings profiles.Diagnostics
	line     []byte // of JSON, if it is asked for
}

// wanted is what is wanted of a node: the profile that it is judged against, and its blocks.
type wanted struct {
	chosen
	profiles.Evaluation
	warnings profiles.Diagnostics
	failed   *exit // why there is none
}

// wanted may be called concurrently once t is prepared.
func (t *target) wanted(n profiles.Node) wanted {
	p, err := t.prepared(n)
	if end, ok := errors.AsType[*exit](err); ok {
		return wanted{failed: end}
	}
	evaluation, diags := p.profile.EvaluateNode(n)
	w := wanted{chosen: p, Evaluation: evaluation, warnings: diags}
	if diags.HasErrors() {
		w.failed = &exit{plan.ExitBadProfile, errors.New(firstError(diags))}
	}
	return w
}

// judgeRecorded judges a recording, or says why there is nothing to judge. It may be called concurrently.
func (c *console) judgeRecorded(name string, want func(node.Inventory) wanted, planner *plan.Planner, file string, facts node.Facts, err error) verdict {
	out := verdict{file: file}
	fail := func(code int, err error, diags profiles.Diagnostics) verdict {
		out.failed = &exit{code, err}
		if c.json {
			f := newFailure(name, &exit{code, fmt.Errorf("%s: %w", file, err)}, diags)
			f.Recording = file
			var b bytes.Buffer
			_ = encode(&b, f, "") // into memory
			out.line = b.Bytes()
		}
		return out
	}
	if err != nil {
		return fail(plan.ExitError, err, nil)
	}
	w := want(facts.Inventory)
	if w.failed != nil {
		return fail(w.failed.code, w.failed.err, w.warnings)
	}
	out.warnings = w.warnings
	out.doc = report.NewDocument(name, report.NodeOf(facts, file), w.view, planner.Plan(w.Blocks, facts, w.Findings...))
	out.model, out.traits = report.ModelOf(facts), report.TraitsOf(facts)
	if c.json {
		var b bytes.Buffer
		if err := report.WriteJSONLine(&b, out.doc); err != nil {
			return fail(plan.ExitError, err, nil)
		}
		out.line = b.Bytes()
	}
	return out
}
