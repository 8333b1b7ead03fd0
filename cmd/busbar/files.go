package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"busbar/internal/atomicfile"
	"busbar/internal/lazyregexp"
)

// descriptor are names of what whoever started busbar opened for it: standard input, and
// the pipes of a shell's <(...) and >(...) (proc_pid_fd(5)).
var descriptor = lazyregexp.New(`^(/dev/std(in|out|err)|(/dev/fd|/proc/self/fd)/[0-9]+)$`)

// stdin and stdout are other names of what a command line calls -.
var (
	stdin  = lazyregexp.New(`^(-|/dev/stdin|(/dev/fd|/proc/self/fd)/0)$`)
	stdout = lazyregexp.New(`^(-|/dev/stdout|(/dev/fd|/proc/self/fd)/1)$`)
)

// handedOver reports whether a file was opened by whoever started busbar, so that nothing
// is known of how to get to it.
func handedOver(name string) bool { return name == "-" || descriptor.MatchString(filepath.Clean(name)) }

// openInput opens what a command line names: a regular file, or a pipe that was handed
// over. A FIFO that lies in the file system would hang, and a device has no end.
func (c *console) openInput(name string) (io.ReadCloser, error) {
	key := filepath.Clean(name)
	if stdin.MatchString(key) {
		key = "-"
	}
	if handedOver(name) {
		if c.inputs[key] {
			return nil, fmt.Errorf("%s is named twice, and can be read once", name)
		}
		if c.inputs == nil {
			c.inputs = map[string]bool{}
		}
		c.inputs[key] = true
	}
	if key == "-" {
		return io.NopCloser(c.in), nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is a directory")}
	case !info.Mode().IsRegular() && !handedOver(name):
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is no regular file")}
	}
	return os.Open(name)
}

// checkOutput tells early that writeOutput cannot write. It opens nothing.
func checkOutput(name string) error {
	const writable = 2 // W_OK of access(2)
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "write", Path: name, Err: errors.New("is a directory")}
	case err == nil && !info.Mode().IsRegular():
	case err == nil:
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
		name = filepath.Dir(name)
	case errors.Is(err, fs.ErrNotExist):
		name = filepath.Dir(name)
	default:
		return err
	}
	if err := syscall.Access(name, writable); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// writeOutput makes data the content of a file, as a whole or not at all. What is there and
// no regular file, a pipe or a terminal, is written to.
func (c *console) writeOutput(name string, data []byte, options ...atomicfile.Option) error {
	if stdout.MatchString(filepath.Clean(name)) {
		_, err := c.out.Write(data)
		return err
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() || handedOver(name) {
		// Appending, since a shell's >> opened it so.
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	}
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = atomicfile.Write("/", path, data, options...)
	}
	return err
}
