package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/plan"
	"busbar/report"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

func TestText(t *testing.T) {
	type write func(io.Writer, report.Document, report.Style) error
	for _, c := range []struct {
		golden string
		write  write
		doc    report.Document
		style  report.Style
	}{
		{"plan.txt", report.WritePlan, drifted("plan"), report.Style{}},
		{"plan-80.txt", report.WritePlan, drifted("plan"), report.Style{Width: 80}},
		{"plan-120.txt", report.WritePlan, drifted("plan"), report.Style{Width: 120}},
		{"plan-120-color.txt", report.WritePlan, drifted("plan"), report.Style{Width: 120, Color: true}},
		{"plan-100-verbose.txt", report.WritePlan, drifted("plan"), report.Style{Width: 100, Verbose: true}},
		{"plan-quiet.txt", report.WritePlan, drifted("plan"), report.Style{Quiet: true}},
		{"plan-clean.txt", report.WritePlan, clean("plan"), report.Style{Width: 100}},
		{"plan-hostile.txt", report.WritePlan, hostile(), report.Style{Verbose: true}},
		{"approve-100.txt", report.WritePlan, drifted("apply"), report.Style{Width: 100}},
		{"verify-100.txt", report.WriteVerify, drifted("verify"), report.Style{Width: 100}},
		{"apply-100.txt", report.WriteRun, applied(), report.Style{Width: 100}},
		{"apply-clean.txt", report.WriteRun, clean("apply").WithRun(report.Run{Passes: 1}, plan.ExitOK), report.Style{Width: 100}},
		{"apply-quiet.txt", report.WriteRun, applied(), report.Style{Quiet: true}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.write(&b, c.doc, c.style); err != nil {
				t.Fatal(err)
			}
			golden(t, c.golden, b.Bytes())
			for _, r := range b.String() {
				if r == '\x1b' && c.style.Color {
					continue
				}
				if r != '\n' && (r < ' ' || r == 0x7f || r == utf8.RuneError || r >= 0x80 && r < 0xa0) {
					t.Errorf("%q reached the terminal", r)
				}
			}
			for line := range strings.Lines(b.String()) {
				if line = strings.TrimRight(line, "\n"); strings.HasSuffix(line, " ") {
					t.Errorf("trailing space: %q", line)
				}
			}
		})
	}
}

// The words that depend on severity, tolerance, and what is known of the node.
func TestWords(t *testing.T) {
	finding := func(status plan.Status, severity plan.Severity, tolerated bool) plan.Finding {
		return plan.Finding{ID: "x", Address: "x", Status: status, Severity: severity, Tolerated: tolerated, Summary: string(status)}
	}
	doc := report.NewDocument("verify", report.Node{
		Kernel: node.Unknown[string]("not read: --root", node.Source{}), Arch: node.Known("x86_64", node.Source{}), Root: "/mnt/image", ObservedAt: observed,
	}, report.Profile{Name: "p"}, plan.Plan{Findings: []plan.Finding{
		finding(plan.OK, plan.Info, false), finding(plan.Drift, plan.Info, false), finding(plan.Conflict, plan.Info, false),
		finding(plan.Unsupported, plan.Error, true), finding(plan.Deferred, plan.Error, true), finding(plan.Deferred, plan.Error, false),
		finding(plan.Drift, plan.Warning, false), finding(plan.Waived, plan.Info, false),
	}})
	var b bytes.Buffer
	if err := report.WriteVerify(&b, doc, report.Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "words.txt", b.Bytes())
	var asJSON struct {
		Node    map[string]any
		Summary plan.Summary
	}
	b.Reset()
	if err := errors.Join(report.WriteJSON(&b, doc), json.Unmarshal(b.Bytes(), &asJSON)); err != nil {
		t.Fatal(err)
	}
	if asJSON.Summary.Drift != 2 || asJSON.Summary.Conflict != 1 || asJSON.Node["root"] != "/mnt/image" {
		t.Errorf("the JSON form follows the text's words: %+v", asJSON)
	}
}

// Wrapped text never exceeds the width but by a single long word.
func TestWidth(t *testing.T) {
	for width := 60; width <= 140; width += 7 {
		var b bytes.Buffer
		if err := report.WritePlan(&b, drifted("plan"), report.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > width && len(strings.Fields(line)) > 2 {
				t.Errorf("width %d: %d columns: %q", width, utf8.RuneCountInString(line), line)
			}
		}
	}
}

// The JSON forms are frozen: a difference here breaks programs that read them.
// Fields may be added, with a higher minor FormatVersion.
func TestJSON(t *testing.T) {
	for _, c := range []struct {
		golden string
		doc    report.Document
	}{
		{"plan.json", drifted("plan")},
		{"verify.json", drifted("verify")},
		{"apply.json", applied()},
		{"clean.json", clean("plan")},
		{"hostile.json", hostile()},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var indented, line bytes.Buffer
			if err := report.WriteJSON(&indented, c.doc); err != nil {
				t.Fatal(err)
			}
			golden(t, c.golden, indented.Bytes())
			for _, r := range indented.String() {
				if r != '\n' && r < 0x80 && !unicode.IsPrint(r) || r >= 0x80 && unicode.In(r, unicode.Cc, unicode.Cf) {
					t.Errorf("%q reached the terminal", r)
				}
			}
			if err := report.WriteJSONLine(&line, c.doc); err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(line.Bytes(), []byte("\n")); n != 1 || !bytes.HasSuffix(line.Bytes(), []byte("\n")) {
				t.Errorf("WriteJSONLine wrote %d lines", n)
			}
			var a, b any
			if err := errors.Join(json.Unmarshal(indented.Bytes(), &a), json.Unmarshal(line.Bytes(), &b)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("the two forms differ:\n%s", diff)
			}
		})
	}
}

// Whatever order the plan has its lists in, the documents are the same.
func TestJSONIsSorted(t *testing.T) {
	p := driftedPlan()
	forward := report.NewDocument("plan", report.Node{}, report.Profile{}, p)
	reverse(p.Findings)
	reverse(p.Changes)
	backward := report.NewDocument("plan", report.Node{}, report.Profile{}, p)
	var a, b bytes.Buffer
	if err := errors.Join(report.WriteJSON(&a, forward), report.WriteJSON(&b, backward)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.String(), b.String()); diff != "" {
		t.Error(diff)
	}
}

func reverse[T any](list []T) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

func TestWriteErrors(t *testing.T) {
	closed := errors.New("closed")
	w := failing{closed}
	d := drifted("plan")
	for name, err := range map[string]error{
		"WritePlan":     report.WritePlan(w, d, report.Style{}),
		"WriteVerify":   report.WriteVerify(w, d, report.Style{}),
		"WriteRun":      report.WriteRun(w, d, report.Style{Quiet: true}),
		"WriteJSON":     report.WriteJSON(w, d),
		"WriteJSONLine": report.WriteJSONLine(w, d),
	} {
		if !errors.Is(err, closed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		golden string
		style  report.Style
	}{
		{"progress.txt", report.Style{}},
		{"progress-terminal.txt", report.Style{Width: 100, Color: true}},
		{"progress-quiet.txt", report.Style{Width: 100, Quiet: true}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var b bytes.Buffer
			p := report.NewProgress(&b, c.style)
			steps := driftedPlan().Steps
			step := func(i int, outcome string, err error, took time.Duration) {
				p.StepStarted(i+1, len(steps), steps[i])
				p.StepEnded(i+1, len(steps), steps[i], outcome, err, took)
			}
			p.PassStarted(1, "")
			step(0, "done", nil, 1803*time.Millisecond)
			step(1, "done", nil, 4*time.Millisecond)
			step(2, "already", nil, 0)
			p.StepStarted(4, len(steps), steps[3])
			p.Waiting("RDMA devices", 4900*time.Millisecond)
			p.Waiting("RDMA devices", 2900*time.Millisecond)
			p.Ending("SIGTERM", 5*time.Minute)
			p.Ending("SIGINT", 5*time.Minute)
			p.StepEnded(4, len(steps), steps[3], "failed", errors.New("modprobe: \x1b[2Jexit status 1"), time.Second)
			p.PassStarted(2, "RDMA devices are there")
			step(4, "interrupted", nil, 0)
			step(5, "skipped", errors.New("requires load-module:nvidia_peermem"), 0)
			p.Ending("SIGHUP", 5*time.Minute) // nothing runs
			golden(t, c.golden, b.Bytes())
		})
	}
}

// A thousand nodes in one stream must not cost more than reading them.
func BenchmarkWritePlan(b *testing.B) {
	d := drifted("plan")
	b.ReportAllocs()
	for b.Loop() {
		if err := report.WritePlan(io.Discard, d, report.Style{Width: 100}); err != nil {
			b.Fatal(err)
		}
	}
}
