package probe

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"busbar/internal/p2p"
)

// Options are what is measured, and how.
type Options struct {
	// GPUs are the PCI addresses of those to take; none means all that CUDA shows.
	GPUs []string
	// Size of a copy in bytes, a multiple of 8. Each GPU gets two buffers of that size.
	Size int64
	// Force takes GPUs whose memory is in use.
	Force bool
	// Observer is told what happens; nil for nobody.
	Observer Observer
	// Child runs the program with ChildArgument; nil means this very program.
	Child func() *exec.Cmd
	// Silence is how long the driver may take for one thing; zero means a minute.
	Silence time.Duration
	// Grace is how long the child has to free memory and end; zero means 5 s.
	Grace time.Duration
}

// Observer is told what happens as it happens, from one goroutine.
type Observer interface {
	// PairStarted: pair n, from 1, of total is measured, both directions.
	PairStarted(n, total int, a, b string)
	// PairEnded: it was, and took so long. unknown says why something was not measured.
	PairEnded(n, total int, a, b string, unknown string, took time.Duration)
}

// The times that hold where Options says nothing. CUDA starts slowly where the driver has to set up
// each GPU first (no persistence mode).
const (
	defaultSilence = time.Minute
	defaultGrace   = 5 * time.Second
)

// Loaded reports whether the NVIDIA driver is loaded.
func Loaded() bool { return loaded("/") }

// loaded is Loaded with the root directory of the running system.
func loaded(root string) bool {
	return slices.ContainsFunc([]string{"proc/driver/nvidia/version", "dev/nvidiactl"}, func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil
	})
}

// Run measures between all pairs of GPUs. The result has every ordered pair of the GPUs that
// CUDA shows; what was not measured says why. When ctx ends, the child frees what it holds, and what was
// measured until then is the result. Without the driver nothing is measured. An error means that no child could
// be started.
func Run(ctx context.Context, o Options) (p2p.Result, error) {
	started := time.Now()
	if o.Child == nil {
		if !Loaded() {
			return p2p.Result{Size: o.Size, GPUs: []p2p.GPU{}, Pairs: []p2p.Pair{}, Unknown: "the NVIDIA driver is not loaded (no /proc/driver/nvidia/version)"}, nil
		}
		o.Child = self
	}
	o.Silence, o.Grace = cmp.Or(o.Silence, defaultSilence), cmp.Or(o.Grace, defaultGrace)
	c, err := start(o.Child())
	if err != nil {
		return p2p.Result{}, err
	}
	m := &monitor{Options: o, child: c, result: p2p.Result{Size: o.Size, GPUs: []p2p.GPU{}, Pairs: []p2p.Pair{}}}
	m.result.Unknown = m.follow(ctx)
	m.complete()
	m.result.Seconds = time.Since(started).Round(time.Millisecond).Seconds()
	return m.result, nil
}

// child is a running child process.
type child struct {
	cmd     *exec.Cmd
	in, out *os.File
	lines   *bufio.Reader
	// ended is closed once the process was reaped; how it ended is in cmd.ProcessState.
	ended chan struct{}
}

func start(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's signals are the parent's
	theirIn, in, err1 := os.Pipe()
	out, theirOut, err2 := os.Pipe()
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	err := cmp.Or(err1, err2)
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range []*os.File{theirIn, theirOut} {
		_ = f.Close() // nil is closed already
	}
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, fmt.Errorf("starting the child that moves bytes: %w", err)
	}
	c := &child{cmd: cmd, in: in, out: out, lines: bufio.NewReader(out), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(c.ended)
	}()
	return c, nil
}

// endsWithin waits for the end of the process.
func (c *child) endsWithin(d time.Duration) bool {
	select {
	case <-c.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// kill ends the process. Its memory on the GPUs is freed by the driver, unless it hangs in there:
// then it is left behind, and how that shows is returned.
func (c *child) kill() string {
	_ = c.cmd.Process.Kill() // it may just have ended
	if c.endsWithin(2 * time.Second) {
		return ""
	}
	return fmt.Sprintf(" (process %d hangs in the driver and was left behind)", c.cmd.Process.Pid)
}

// monitor follows a child.
type monitor struct {
	Options
	child  *child
	result p2p.Result
	doing  string // what the child last said
	line   []byte // what was read of a message
	// Of the pair that is measured: its number, which GPUs, since when.
	pair  int
	begun []string
	since time.Time
}

// maxLine bounds a line of the child's output.
const maxLine = 1 << 20

// follow asks the child and reads what it tells until it ends. It returns why not all was
// measured; empty when all was.
func (m *monitor) follow(ctx context.Context) string {
	c := m.child
	defer c.out.Close()
	defer c.in.Close()
	raw, err := json.Marshal(request{GPUs: m.GPUs, Size: m.Size, Force: m.Force})
	if err == nil {
		_, err = c.in.Write(append(raw, '\n'))
	}
	if err != nil {
		return "asking the child that moves bytes: " + err.Error() + c.kill()
	}
	stop := context.AfterFunc(ctx, func() { _ = c.out.SetReadDeadline(time.Now()) })
	defer stop()
	var giveUp time.Time // once the child was told to end
	for {
		if ctx.Err() != nil && giveUp.IsZero() {
			giveUp = time.Now().Add(m.Grace)
			_ = c.in.Close()
		}
		deadline := time.Now().Add(m.Silence)
		if !giveUp.IsZero() {
			deadline = giveUp
		}
		said, err := m.listen(ctx, deadline, !giveUp.IsZero())
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil && (giveUp.IsZero() || time.Now().Before(giveUp)):
		case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
			return fmt.Sprintf("%v; it did not end within %s while %s, and was killed%s", context.Cause(ctx), m.Grace, m.doing, c.kill())
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Sprintf("no answer from the driver within %s while %s%s", m.Silence, m.doing, c.kill())
		case err != nil:
			return m.fate(err)
		case said.Ended && ctx.Err() != nil:
			c.endsWithin(m.Grace)
			return context.Cause(ctx).Error()
		case said.Ended:
			if !c.endsWithin(m.Grace) {
				c.kill()
			}
			return said.Failure
		default:
			m.note(said)
		}
	}
}

// listen reads a message. told: the child was told to end because ctx did.
func (m *monitor) listen(ctx context.Context, deadline time.Time, told bool) (message, error) {
	if err := m.child.out.SetReadDeadline(deadline); err != nil {
		return message{}, err
	}
	if ctx.Err() != nil && !told { // it ended before the deadline was set
		return message{}, os.ErrDeadlineExceeded
	}
	for {
		part, err := m.child.lines.ReadSlice('\n')
		m.line = append(m.line, part...)
		switch {
		case len(m.line) > maxLine:
			return message{}, errors.New("wrote a line longer than 1 MiB")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return message{}, err
		}
		var said message
		if err := json.Unmarshal(m.line, &said); err != nil {
			return message{}, fmt.Errorf("wrote what is no message: %.80q", m.line)
		}
		m.line = nil
		return said, nil
	}
}

// fate says how a child ended that closed its output, or wrote nonsense.
func (m *monitor) fate(err error) string {
	while := ""
	if m.doing != "" {
		while = " while " + m.doing
	}
	if m.child.endsWithin(100 * time.Millisecond) {
		return "the child that moves bytes ended" + while + ": " + m.child.cmd.ProcessState.String()
	}
	return fmt.Sprintf("the child that moves bytes fails%s: %v%s", while, err, m.child.kill())
}

// note keeps what the child tells, and tells the observer.
func (m *monitor) note(said message) {
	total := len(m.result.GPUs) * (len(m.result.GPUs) - 1) / 2
	switch {
	case said.GPUs != nil:
		m.result.CUDA, m.result.GPUs = said.CUDA, said.GPUs
	case len(said.Begun) == 2:
		m.pair++
		m.begun, m.since = said.Begun, time.Now()
		if m.Observer != nil {
			m.Observer.PairStarted(m.pair, total, said.Begun[0], said.Begun[1])
		}
	case len(said.Pairs) == 2 && len(m.begun) == 2:
		m.result.Pairs = append(m.result.Pairs, said.Pairs...)
		if m.Observer != nil {
			m.Observer.PairEnded(m.pair, total, m.begun[0], m.begun[1], said.Pairs[0].Unknown, time.Since(m.since))
		}
		m.begun = nil
	case said.Doing != "":
		m.doing = said.Doing
	}
}

// complete adds the pairs that were not measured, and sorts.
func (m *monitor) complete() {
	if len(m.begun) == 2 && m.Observer != nil {
		total := len(m.result.GPUs) * (len(m.result.GPUs) - 1) / 2
		m.Observer.PairEnded(m.pair, total, m.begun[0], m.begun[1], m.result.Unknown, time.Since(m.since))
	}
	for _, a := range m.result.GPUs {
		for _, b := range m.result.GPUs {
			if _, there := m.result.Pair(a.Address, b.Address); a.Address != b.Address && !there {
				m.result.Pairs = append(m.result.Pairs, p2p.Pair{From: a.Address, To: b.Address, Checks: []p2p.Check{}, Unknown: cmp.Or(m.result.Unknown, "the child told nothing of it")})
			}
		}
	}
	slices.SortFunc(m.result.Pairs, func(a, b p2p.Pair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
}
