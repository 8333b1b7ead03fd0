// Command busbar puts a GPU node's interconnect into the state that a profile
// describes, and proves it. This package turns flags into library calls and
// results into views; it decides nothing.
package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"busbar/node/live"
	"busbar/plan"
	"busbar/probe"
	"busbar/report"
)

func main() {
	abortOnCrash()
	if len(os.Args) > 1 && os.Args[1] == live.ChildArgument {
		os.Exit(live.RunChild(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == probe.ChildArgument {
		os.Exit(probe.RunChild(os.Stdin, os.Stdout))
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
	stdout := &checkedWriter{Writer: c.out}
	c.out = stdout
	root := newRoot(c)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteC()
	end := &exit{code: plan.ExitOK}
	hint := ""
	switch {
	case err == nil, errors.As(err, &end):
	default:
		end = &exit{plan.ExitUsage, err}
		hint = fmt.Sprintf("See '%s --help'.\n", cmd.CommandPath())
		// Parsing may have stopped before these.
		c.json = c.json || asksForJSON(args)
		_ = c.checkJSONInto(cmd)
	}
	if end.code != plan.ExitOK && !c.resulted {
		c.fail(nameOf(cmd), end)
	}
	if stdout.err != nil {
		end = &exit{plan.ExitError, fmt.Errorf("writing to standard output: %w", stdout.err)}
	}
	if err := c.writeJSONInto(); err != nil {
		c.tell("%v", err)
		if end.err == nil { // a mistake of the user's, or one that came first, stays the reason
			end = &exit{code: plan.ExitError}
		}
	}
	switch {
	case hint != "": // cobra has several lines to say
		fmt.Fprintf(c.err, "busbar: %s\n%s", report.Printable(end.err.Error(), "\n\t"), hint)
	case end.err != nil:
		c.tell("%v", end.err)
	}
	return end.code
}

// nameOf is a command's name in its documents: plan, probe p2p.
func nameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// asksForJSON looks for --json in a command line that is no valid one.
func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// takes checks how many arguments a command is given; what says what they are.
func takes(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return fmt.Errorf("which %s? None was named", what)
		case high == 0 && len(args) > 0:
			return fmt.Errorf("%s takes no argument, and %q is one", cmd.Name(), args[0])
		case len(args) > high:
			return fmt.Errorf("%s takes one %s at most, and %q is another one", cmd.Name(), what, args[high])
		}
		return nil
	}
}

// anyNumber is no limit for takes.
const anyNumber = math.MaxInt

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:           "busbar",
		Short:         "Put a GPU node's interconnect into the state that a profile describes, and prove it",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("which command?")
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return c.checkFlags(cmd) },
	}
	root.SetOut(c.out)
	root.SetErr(c.err)
	c.addFlags(root)
	root.AddCommand(newApply(c), newCapture(c), newDiagnose(c), newFmt(c), newInstall(c), newPlan(c), newProbe(c), newProfiles(c), newTopo(c), newUninstall(c), newValidate(c), newVerify(c), newVersion(c))
	completeCommands(root)
	return root
}

// completeCommands makes mistakes of what cobra's own commands let pass.
func completeCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return fmt.Errorf("there is no command %q to help with", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(_ *cobra.Command, args []string) error {
				return fmt.Errorf("for which shell? %q is none of bash, zsh, fish, powershell", strings.Join(args, " "))
			}
		}
	}
}
