// Package probe proves what a node's GPUs do: it moves bytes between them, compares what
// arrives with what was sent, and times it. It asks the driver's own library and needs no
// toolkit.
//
// Whatever the driver does, hang or crash, happens to a child process. The child ends, and
// frees what it holds, when its standard input does: also when its parent was killed.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// ChildArgument as the program's first argument makes it the child that moves bytes: main
// calls RunChild before anything else.
const ChildArgument = "__probe-p2p"

// errInputEnded is why a child ends early: its parent wants no more, or is gone.
var errInputEnded = errors.New("ended by whoever started it")

// RunChild reads a request, one line of JSON, measures, and tells of it in lines of JSON; the
// return value is the exit status. It is what the program does when it was started with ChildArgument.
func RunChild(stdin io.Reader, stdout io.Writer) int {
	runtime.LockOSThread() // CUDA's current context is the thread's
	return runChild(stdin, stdout, openDriver)
}

func runChild(stdin io.Reader, stdout io.Writer, open func() (cuda, error)) int {
	in := json.NewDecoder(stdin)
	var asked request
	if err := in.Decode(&asked); err != nil {
		return 1
	}
	ctx, end := context.WithCancelCause(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // it ends, or it cannot be read any more
		end(errInputEnded)
	}()
	out := json.NewEncoder(stdout)
	tell := func(m message) error { return out.Encode(m) }
	last := message{Ended: true}
	err := tell(message{Doing: "starting CUDA"})
	if err == nil {
		var c cuda
		if c, err = open(); err == nil {
			err = measure(ctx, c, asked, tell)
		}
	}
	if err != nil {
		last.Failure = err.Error()
	}
	if err := tell(last); err != nil {
		return 1
	}
	return 0
}

// self runs this very program, also when its file was replaced meanwhile. The probe is about
// the node: what the environment says of which GPUs CUDA shows, and how, does not count, and
// nothing is written into the user's home.
func self() *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", ChildArgument)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CUDA_") || strings.HasPrefix(v, "CUDA_MPS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "CUDA_CACHE_DISABLE=1")
	return cmd
}
