package live

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"busbar/internal/kernlog"
	"busbar/node"
)

func TestKernelLog(t *testing.T) {
	const text = "6,2,206764307,-;nvidia-nvswitch2: open (major=510)\n3,3,227000000,-;NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n"
	state, ok := ask(t, tree(t, map[string]string{"dev/kmsg": text}), node.KernelLog, "").Get()
	if !ok || state.Records != 2 || len(state.Events) != 1 || state.Events[0].Device != "0000:9b:00.0" || state.Events[0].Kind != kernlog.Xid {
		t.Errorf("%+v", state)
	}
	if lost, ok := state.Lost.Get(); !ok || lost != 2 {
		t.Errorf("lost %d", lost)
	}
	unknownAs(t, ask(t, tree(t), node.KernelLog, ""), "no such file")
	unknownAs(t, get(t, New(Options{Root: tree(t)}), node.KernelLog, ""), "--root")
}

func TestKernelLogHere(t *testing.T) {
	v := get(t, New(Options{}), node.KernelLog, "")
	state, ok := v.Get()
	switch {
	case !ok && strings.Contains(v.Reason(), "dmesg_restrict") && unix.Geteuid() == 0:
		t.Errorf("root: %s", v.Reason())
	case !ok && v.Reason() == "not recorded":
		t.Error("no reason")
	case ok && state.Records == 0:
		t.Error("the kernel has said nothing")
	case ok && !state.Lost.IsKnown():
		t.Error("the records have no sequence")
	}
}

// The log goes on being written while it is read.
func TestRecords(t *testing.T) {
	never := func() error { return nil }
	feed := func(answers ...any) func([]byte) (int, error) {
		return func(b []byte) (int, error) {
			a := answers[0]
			if len(answers) > 1 {
				answers = answers[1:]
			}
			if err, ok := a.(error); ok {
				return 0, err
			}
			return copy(b, a.(string)), nil
		}
	}
	if got, err := records(never, feed("a\n", unix.EPIPE, "b\n", unix.EAGAIN)); err != nil || string(got) != "a\nb\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := records(never, feed("a\n", "")); err != nil || string(got) != "a\n" { // a regular file's end
		t.Errorf("%q, %v", got, err)
	}
	if _, err := records(never, feed("a\n", unix.EINVAL)); !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
	if _, err := records(never, feed(strings.Repeat("x", maxRecord))); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := records(ended.Err, feed(unix.EPIPE)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
