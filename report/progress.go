package report

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"busbar/plan"
)

// Progress tells people what an apply or a probe does while it does it, one line for each
// step or pair. On a terminal the line begins with the step and is completed when the step
// ends; elsewhere it is written when the step ends. Write errors are dropped: a
// closed terminal must not stop a run.
type Progress struct {
	mu      sync.Mutex
	w       io.Writer
	style   Style
	open    bool   // a line was begun
	waiting string // what was last said to be waited for
	running string // the step that was started and did not end
	ending  bool   // Ending was called
}

// NewProgress writes to w. With style.Quiet only failures are told.
func NewProgress(w io.Writer, style Style) *Progress {
	return &Progress{w: w, style: style}
}

// PassStarted says that planning begins again, from the second pass on.
func (p *Progress) PassStarted(pass int, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pass > 1 && !p.style.Quiet {
		p.line(fmt.Sprintf("pass %d: %s", pass, printable(reason)))
	}
}

// StepStarted begins the line of step n, from 1, of total.
func (p *Progress) StepStarted(n, total int, s plan.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting, p.running = "", described(s)
	p.begin(n, total, described(s))
}

// begin begins a line on a terminal.
func (p *Progress) begin(n, total int, what string) {
	if p.style.Width > 0 && !p.style.Quiet {
		p.breakLine()
		fmt.Fprint(p.w, label(n, total, what))
		p.open = true
	}
}

// PairStarted begins the line of a pair of GPUs, n, from 1, of total. Elsewhere than on a terminal
// nothing is told of pairs.
func (p *Progress) PairStarted(n, total int, a, b string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(n, total, a+" and "+b)
}

// PairEnded completes the line. unknown says why not all was measured.
func (p *Progress) PairEnded(_, _ int, _, _, unknown string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return
	}
	p.open = false
	outcome, detail := "done", fmt.Sprintf(" (%.1f s)", took.Seconds())
	if unknown != "" {
		outcome, detail = "unknown", ": "+printable(unknown)
	}
	fmt.Fprintln(p.w, p.style.paint(outcomeColor(outcome), outcome)+detail)
}

// StepEnded completes the line of step n. outcome is a RunStep's status;
// err says why it is neither done nor already.
func (p *Progress) StepEnded(n, total int, s plan.Step, outcome string, err error, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = ""
	if p.style.Quiet && outcome != "failed" {
		return
	}
	if !p.open {
		fmt.Fprint(p.w, label(n, total, described(s)))
	}
	p.open = false
	fmt.Fprintln(p.w, p.style.paint(outcomeColor(outcome), outcome)+outcomeDetail(outcome, err, took))
}

// Waiting says what is waited for and for how long at most. The same thing is said
// once in a step.
func (p *Progress) Waiting(what string, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.style.Quiet || what == p.waiting {
		return
	}
	p.waiting = what
	text := fmt.Sprintf("waiting for %s, at most %.0f s ...", printable(what), left.Seconds())
	if p.open {
		fmt.Fprint(p.w, p.style.paint(dim, text)+" ")
		return
	}
	p.line(text)
}

// Ending says that a signal ends the run, and which step, that takes so long at most, is
// waited for. Unlike the others it may be called at any time.
func (p *Progress) Ending(signal string, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.style.Quiet || p.running == "" {
		return
	}
	text := "%s: ends after the running step, in %.0f s at most: %s"
	if p.ending {
		text = "%s: still ends after the running step, which is given up after %.0f s: %s"
	}
	p.ending = true
	p.line(fmt.Sprintf(text, signal, longest.Seconds(), printable(p.running)))
}

func (p *Progress) line(text string) {
	p.breakLine()
	fmt.Fprintln(p.w, p.style.paint(dim, text))
}

func (p *Progress) breakLine() {
	if p.open {
		fmt.Fprintln(p.w)
		p.open = false
	}
}

func label(n, total int, what string) string {
	return fmt.Sprintf("[%*d/%d] %s ... ", len(strconv.Itoa(total)), n, total, printable(what))
}

func outcomeDetail(outcome string, err error, took time.Duration) string {
	switch {
	case err != nil:
		return ": " + printable(err.Error())
	case outcome == "done":
		return fmt.Sprintf(" (%.1f s)", took.Seconds())
	case outcome == "already":
		return " as wanted"
	default:
		return ""
	}
}

func outcomeColor(outcome string) color {
	switch outcome {
	case "done", "already":
		return green
	case "failed":
		return red
	default:
		return yellow
	}
}
