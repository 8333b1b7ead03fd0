// Command busbar puts a GPU node's interconnect into the state that a profile
// describes, and proves it. This package turns flags into library calls and
// results into views; it decides nothing.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"busbar/node/live"
	"busbar/plan"
)

func main() {
	abortOnCrash()
	if len(os.Args) > 1 && os.Args[1] == live.ChildArgument {
		os.Exit(live.RunChild(os.Stdin, os.Stdout))
	}
	os.Exit(run(os.Args[1:], &console{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}))
}

// abortOnCrash lets a crash end with SIGABRT, which shells see as 134, and not with Go's
// exit code 2, which means drift here (runtime/debug.SetTraceback).
func abortOnCrash() { debug.SetTraceback("crash") }

// exit ends a command with a code and, where something went wrong, an error. Any
// other error that comes out of cobra is a mistake in usage.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }
func (e *exit) Unwrap() error { return e.err }

// run executes one command line and returns the exit code.
func run(args []string, c *console) int {
	root := newRoot(c)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteC()
	if closeErr := c.close(); err == nil && closeErr != nil {
		err = &exit{plan.ExitError, closeErr}
	}
	var e *exit
	switch {
	case err == nil:
		return plan.ExitOK
	case errors.As(err, &e):
		if e.err != nil {
			fmt.Fprintf(c.err, "busbar: %v\n", e.err)
		}
		return e.code
	default:
		fmt.Fprintf(c.err, "busbar: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return plan.ExitUsage
	}
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:           "busbar",
		Short:         "Put a GPU node's interconnect into the state that a profile describes, and prove it",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("which command?")
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.open() },
	}
	root.SetOut(c.out)
	root.SetErr(c.err)
	c.addFlags(root)
	root.AddCommand(newApply(c), newCapture(c), newFmt(c), newPlan(c), newProfiles(c), newValidate(c), newVerify(c), newVersion(c))
	return root
}
