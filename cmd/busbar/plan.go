package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
	"busbar/report"
)

func newPlan(c *console) *cobra.Command {
	return newJudging(c, "plan", "Judge a node and say what apply would do",
		`Judge a node against a profile, and say what apply would do. Nothing is changed
and nothing is opened for writing.`, report.WritePlan)
}

func newVerify(c *console) *cobra.Command {
	return newJudging(c, "verify", "Judge a node",
		`Judge a node against a profile. Nothing is changed and nothing is opened for
writing.`, report.WriteVerify)
}

const chooseHelp = `

Without PROFILE it is /etc/busbar/node.hcl; where that is absent, or with --node,
the stock profile that matches the node, else baseline.

Exit codes: 0 as wanted, 2 not as wanted, 3 a reboot is owed and nothing else,
8 something that matters could not be read, 64 usage, 78 invalid profile.`

func newJudging(c *console, name, short, long string, view func(io.Writer, report.Document, report.Style) error) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use: name + " [PROFILE]", Short: short, Long: long + chooseHelp,
		Example:           "  busbar " + name + "\n  busbar " + name + " hgx-h100-roce --json\n  busbar " + name + " --node example:hgx-h100-drifted",
		Args:              takes(0, 1, "PROFILE"),
		ValidArgsFunction: t.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(t.nodes) == 0 {
				reader, err := t.reader(c)
				if err != nil {
					return err
				}
				code, err := c.judgeOne(cmd.Context(), name, &t, args, reader, "", view, report.WriteJSON)
				return ended(code, err)
			}
			return c.judgeRecordings(cmd.Context(), name, &t, args, view)
		},
	}
	t.addFlags(cmd, true)
	return cmd
}

func (t *target) completeProfiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.loader().Names(), cobra.ShellCompDirectiveDefault
}

// ended is how a command ends with a code.
func ended(code int, err error) error {
	if err != nil || code == plan.ExitOK {
		return err
	}
	return &exit{code: code}
}

// judgeRecordings judges one recording after the other; the worst exit code is the command's.
func (c *console) judgeRecordings(ctx context.Context, name string, t *target, args []string, view func(io.Writer, report.Document, report.Style) error) error {
	asJSON := report.WriteJSON
	if c.lines = len(t.nodes) > 1; c.lines {
		asJSON = report.WriteJSONLine
	}
	codes := []int{}
	for i, file := range t.nodes {
		if i > 0 && !c.json {
			fmt.Fprintln(c.out)
		}
		c.resulted, c.diags = false, nil // of this one
		reader, err := c.recording(file)
		if err != nil {
			if len(t.nodes) == 1 {
				return &exit{plan.ExitError, err}
			}
			c.tell("%v", err)
			c.fail(name, &exit{plan.ExitError, err})
			codes = append(codes, plan.ExitError)
			continue
		}
		code, err := c.judgeOne(ctx, name, t, args, reader, file, view, asJSON)
		if _, ok := errors.AsType[*profiles.ChoiceError](err); ok && c.lines { // of this node: others may have one
			end, _ := errors.AsType[*exit](err)
			c.tell("%s: %v", file, end.err)
			c.fail(name, end)
			code, err = end.code, nil
		}
		if err != nil {
			return err
		}
		codes = append(codes, code)
	}
	for _, code := range []int{plan.ExitUsage, plan.ExitError, plan.ExitDrift, plan.ExitUnknown, plan.ExitReboot} {
		if slices.Contains(codes, code) {
			return &exit{code: code}
		}
	}
	return nil
}

// judgeOne judges a node and shows the result.
func (c *console) judgeOne(ctx context.Context, name string, t *target, args []string, reader node.Reader, recorded string,
	view func(io.Writer, report.Document, report.Style) error, asJSON func(io.Writer, report.Document) error,
) (int, error) {
	inv := reader.Inventory(ctx)
	p, err := t.choose(c, args, inv, recorded == "")
	if err != nil {
		return 0, err
	}
	planned, err := judge(ctx, c, newPlanner(), p.profile, reader, inv)
	if err != nil {
		return 0, err
	}
	doc := report.NewDocument(name, t.nodeOf(planned.Facts, recorded), p.view, planned.Plan)
	err = c.result(
		func(w io.Writer, s report.Style) error { return view(w, doc, s) },
		func(w io.Writer) error { return asJSON(w, doc) },
	)
	return doc.ExitCode, err
}
