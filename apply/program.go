//go:build linux

package apply

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usualPath is where system programs lie, also for a caller whose PATH lacks them
// (cloud-init, cron); the last is NixOS'.
const usualPath = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/run/current-system/sw/bin"

// patience is after which time people are told what is waited for.
const patience = 3 * time.Second

// LongestStep bounds every step: what takes longer is abandoned.
const LongestStep = max(updateGRUBDeadline, updateInitramfsDeadline, unitDeadline, modprobeDeadline, systemctlDeadline)

// maxOutput bounds what is kept of a program's output: its end.
const maxOutput = 16 << 10

// programError is a program that did not do what it should.
type programError struct {
	program string
	// output of the program, both streams, its end.
	output string
	err    error
}

func (f *programError) Error() string {
	if words := oneLine(f.output); words != "" {
		return fmt.Sprintf("%s: %v: %s", f.program, f.err, words)
	}
	return fmt.Sprintf("%s: %v", f.program, f.err)
}

func (f *programError) Unwrap() error { return f.err }

// shortest is what a step may take that begins when the run's time is nearly over.
const shortest = time.Second

// within is how long a step that may be given up can take: deadline, or what is left of the
// run's time.
func (r *runner) within(deadline time.Duration) time.Duration {
	if r.until.IsZero() {
		return deadline
	}
	return max(shortest, min(deadline, time.Until(r.until).Round(time.Millisecond)))
}

// oneLine joins the lines of a program's output.
func oneLine(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "; ")
}

// runProgram runs a program on this system. It speaks English, so that its messages
// can be understood.
func (r *runner) runProgram(deadline time.Duration, name string, args ...string) error {
	file, err := r.lookPath(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(file, args...)
	cmd.Env = []string{"LC_ALL=C"}
	return r.wait(deadline, cmd, strings.Join(append([]string{name}, args...), " "))
}

func (r *runner) path() string {
	if r.Path != "" {
		return r.Path
	}
	return usualPath
}

func (r *runner) lookPath(name string) (string, error) {
	for _, dir := range filepath.SplitList(r.path()) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no %s in %s", name, r.path())
}

// wait starts cmd in a process group of its own, so that no signal from the terminal
// reaches it, and waits for its end. After the deadline the group is killed and left
// alone: a process that hangs in a driver does not die.
func (r *runner) wait(deadline time.Duration, cmd *exec.Cmd, title string) error {
	if r.Deadline > 0 {
		deadline = r.Deadline
	}
	var output tail
	cmd.Stdout, cmd.Stderr = &output, &output
	// Nothing else of this process' environment (MODPROBE_OPTIONS, GRUB_*) changes what
	// happens.
	cmd.Env = append(cmd.Env, "PATH="+r.path())
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	// A grandchild that lives on with the output does not hold up the run.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", title, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	long := min(patience, deadline)
	for patient, over := time.After(long), time.After(deadline); ; {
		select {
		case err := <-ended:
			if err == nil || errors.Is(err, exec.ErrWaitDelay) {
				return nil
			}
			return &programError{title, output.String(), err}
		case <-patient:
			r.Observer.Waiting(title, deadline-long)
		case <-over:
			// Whether the kill works is not waited for.
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			return &programError{title, output.String(), fmt.Errorf("gave no answer in %s and was abandoned", seconds(deadline))}
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxOutput; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "�")
}
