//go:build e2e

// Command agent runs in a guest of the lab and does what it is asked over the
// virtio serial port: run programs, take and give files.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"busbar/e2e/wire"
)

func main() {
	if err := serve("/dev/virtio-ports/" + wire.Port); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// serve answers requests, side by side, until the port fails.
func serve(name string) error {
	port, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	// What is left of a line that an earlier agent began must not spoil ours.
	say := func(m wire.Message) {
		line, err := json.Marshal(m)
		if err != nil {
			line, _ = json.Marshal(wire.Message{Kind: m.Kind, ID: m.ID, Error: err.Error()})
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := port.Write(append(append([]byte{'\n'}, line...), '\n')); err != nil {
			fmt.Fprintln(os.Stderr, "agent: answering:", err)
		}
	}
	say(wire.Message{Kind: wire.Hello, Boot: strings.TrimSpace(string(boot))})
	requests := bufio.NewReaderSize(port, 1<<16)
	for {
		r, text, err := read(requests)
		if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		go func() {
			m := answer(r, text)
			m.Kind, m.ID = wire.Reply, r.ID
			say(m)
		}()
	}
}

// read reads a request and the text that follows it.
func read(port *bufio.Reader) (r wire.Request, text []byte, err error) {
	line, err := port.ReadBytes('\n')
	if err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, nil, err
	}
	text = make([]byte, r.Size)
	_, err = io.ReadFull(port, text)
	return r, text, err
}

func answer(r wire.Request, text []byte) wire.Message {
	var err error
	m := wire.Message{}
	switch {
	case r.Put != "":
		err = put(r.Put, text, os.FileMode(r.Mode))
	case r.Get != "":
		m.Data, err = os.ReadFile(r.Get)
	case len(r.Argv) > 0:
		return execute(r)
	}
	if err != nil {
		m.Error = err.Error()
	}
	return m
}

func put(name string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	temp := name + ".lab"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(temp, mode); err != nil {
		return err
	}
	return os.Rename(temp, name)
}

func execute(r wire.Request) wire.Message {
	ctx := context.Background()
	if r.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, r.Argv[0], r.Argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LC_ALL=C.UTF-8"}, r.Env...)
	cmd.Stdin = bytes.NewReader(r.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A daemon that keeps the output open does not hold up the answer.
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	m := wire.Message{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		m.Code, m.Error = 128+int(syscall.SIGKILL), "killed at the timeout"
	case errors.As(err, &ended):
		m.Code = ended.ExitCode()
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			m.Code = 128 + int(status.Signal())
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		m.Code, m.Error = -1, err.Error()
	}
	return m
}
