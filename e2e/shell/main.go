//go:build e2e

// Command shell gives a machine of the lab, of the model that its argument names, with busbar
// installed and its console on this terminal, where root is logged in. What is changed in it is
// thrown away.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"busbar/e2e/lab"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: shell intel|amd|micro")
		os.Exit(64)
	}
	if err := shell(context.Background(), lab.Model(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, "shell:", err)
		os.Exit(1)
	}
}

// prepareDeadline bounds building the image and starting the machine.
const prepareDeadline = 30 * time.Minute

func shell(ctx context.Context, model lab.Model) error {
	prepare, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	l, err := lab.Open(prepare, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "busbar")
	if err := lab.Build(prepare, file, "../cmd/busbar"); err != nil {
		return err
	}
	busbar, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fmt.Println("Enter shows the prompt. poweroff, or Ctrl-A X, ends it.")
	m, err := l.Shell(prepare, dir, model)
	if err != nil {
		return err
	}
	defer m.Cut()
	if err := m.Put(prepare, "/usr/local/bin/busbar", busbar, 0o755); err != nil {
		return err
	}
	return m.Wait(ctx)
}
