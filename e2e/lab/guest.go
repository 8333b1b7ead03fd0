//go:build e2e

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"busbar/e2e/wire"
)

// maxLine bounds what the agent may say at once: a file or output of 48 MiB.
const maxLine = 64 << 20

func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return lines
}

// Result is what became of a program in the guest.
type Result struct {
	// Code is the exit status; 128 and the signal's number for one that was killed; -1 when it
	// did not start, or the guest did not answer.
	Code           int
	Stdout, Stderr string
	// Error says why Code is -1, or that the program was killed at its timeout.
	Error string
}

func (r Result) String() string {
	parts := []string{fmt.Sprintf("exit %d", r.Code)}
	for _, text := range []string{r.Error, r.Stdout, r.Stderr} {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// Run runs a program in the guest as root, for as long as ctx allows.
func (m *Machine) Run(ctx context.Context, argv ...string) Result {
	return m.RunInput(ctx, "", argv...)
}

// RunInput is Run with text on the program's standard input.
func (m *Machine) RunInput(ctx context.Context, stdin string, argv ...string) Result {
	a := m.ask(ctx, wire.Request{Argv: argv, Stdin: []byte(stdin)}, nil)
	return Result{Code: a.Code, Stdout: string(a.Stdout), Stderr: string(a.Stderr), Error: a.Error}
}

// Put writes a file of the guest; its directories are made.
func (m *Machine) Put(ctx context.Context, name string, data []byte, mode os.FileMode) error {
	if a := m.ask(ctx, wire.Request{Put: name, Size: len(data), Mode: uint32(mode.Perm())}, data); a.Error != "" {
		return errors.New("in the guest: " + a.Error)
	}
	return nil
}

// Get reads a file of the guest.
func (m *Machine) Get(ctx context.Context, name string) (string, error) {
	a := m.ask(ctx, wire.Request{Get: name}, nil)
	if a.Error != "" {
		return "", errors.New("in the guest: " + a.Error)
	}
	return string(a.Data), nil
}

// Journal is what the guest's journal has of this boot, or the kernel's log where there is
// no journal.
func (m *Machine) Journal(ctx context.Context) string {
	if m.Model == Micro {
		return m.Run(ctx, "dmesg").Stdout
	}
	return m.Run(ctx, "journalctl", "-b", "--no-pager", "-o", "short-monotonic").Stdout
}
